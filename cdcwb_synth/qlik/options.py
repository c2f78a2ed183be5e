"""The options of generated Qlik captures: what happens, which both formats share, and how each is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cdcwb_synth.choices import COMPRESSIONS, option
from cdcwb_synth.story_options import StoryOptions, listed, same, unlisted

__all__ = ["AVRO_FORMS", "BINARY_CONTAINERS", "HEADERS", "ChangeTableOptions", "KafkaOptions", "QlikOptions"]

AVRO_FORMS: Final = ("avro-envelope", "confluent")
BINARY_CONTAINERS: Final = ("kcat", "message", "avro", "parquet")
"""Containers that hold any bytes; the others are text."""

HEADERS: Final = (
    "change_seq", "change_oper", "change_mask", "stream_position", "operation", "transaction_id", "timestamp",
)  # fmt: skip
"""The header columns of a change table that has the usual ones, in order."""

_FORMS: Final = ("json-envelope", "json", *AVRO_FORMS)
_CONTAINERS: Final = ("lines", "console", "documents", *BINARY_CONTAINERS)
_NAMINGS: Final = ("topic", "key", "column", "message", "headers", "none")
_PARTS: Final = ("timestamp", "partition", "offset", "headers", "key")


@dataclass(frozen=True, slots=True, kw_only=True)
class QlikOptions(StoryOptions):
    """What happens, and how Replicate is set up. The same seed and number of changes give the story that ``gbase8s``
    tells of these options, as long as ``refresh_rows`` (whose rows come first) and ``schema_changes`` are 0."""

    columns: int = same("columns", high=4000)
    schema_changes: int = same("schema_changes", default=6)
    refresh_rows: int = option(20, "rows of the full load that every table begins with", 0, 10_000_000)
    lobs: bool = option(True, "large objects are replicated; without, tables lack these columns")
    task: str = option("shop-load", "name of the task (a hyphen makes a namespace that Avro does not allow)")
    server: str = option("replicate-01", "name of the Replicate server")
    clock_back: int = option(0, "times the server's clock is set back", 0, 1000)
    clock_back_seconds: float = option(3.0, "how far it is set back each time", 0.01, 86_400)

    def contradictions(self) -> list[str]:
        """What is wrong with values that are each allowed, a sentence each."""
        problems = StoryOptions.contradictions(self)
        if not self.task or not self.server:
            problems.append("task and server have a name")
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOptions(QlikOptions):
    """How messages look, how they travel, and what holds them."""

    form: str = option("json-envelope", "wire form", of=_FORMS)
    metadata: str = option(
        "auto",
        "metadata messages: mixed with the data, late (after some of their data), separate (in a folder of their own), "
        "none; auto: mixed where the form has them",
        of=("auto", "mixed", "late", "separate", "none"),
    )
    repeat_schemas: int = same("repeat_schemas", meaning="times all metadata messages are sent again, unchanged")
    generation: str = option(
        "2019", "which headers there are; external: externalSchemaId", of=("2018", "2019", "external")
    )
    logical: bool = option(True, "Avro: logical types for decimals, dates and times; else texts")
    mask_order: str = option("big", "Avro: byte order of masks", of=("big", "little"))
    delete_row: str = option("data", "where a deleted row stands", of=("data", "beforeData"))
    column_mask: float = option(0.0, "share of the updates and deletes with columns that were not captured", 0, 1)
    naming: str = option("topic", "where a table's name stands, besides metadata and namespaces", of=_NAMINGS)
    topic: str = option("2025-cdc", "the topic of all tables, where it does not name them")
    partitions: int = option(3, "partitions of every topic", 1, 1000)
    layout: str = option("partitions", "a file for every partition, or one stream", of=("partitions", "stream"))
    shuffle: int = option(400, "stream: most messages that partitions can be behind each other", 0, 1_000_000)
    container: str = option("lines", "what holds the messages", of=_CONTAINERS)
    console_parts: str = option(
        ",".join(_PARTS), f"console: what is printed before the value: any of {', '.join(_PARTS)}"
    )
    encoding: str = option("raw", "values in lines, console and kcat", of=("raw", "base64", "hex"))
    tombstone_share: float = option(0.0, "share of the deletes with a tombstone behind them", 0, 1)
    lost_share: float = option(0.0, "share of the changes whose message is lost", 0, 1)
    duplicate_share: float = option(0.0, "share of the changes whose message comes twice", 0, 1)
    compression: str = option("none", "compression of every file (avro and parquet: of its blocks)", of=COMPRESSIONS)
    overwrite: bool = same("overwrite")

    @property
    def metadata_mode(self) -> str:
        """``metadata``, with ``auto`` resolved."""
        if self.metadata != "auto":
            return self.metadata
        return "mixed" if self.form.endswith("envelope") else "none"

    @property
    def is_avro(self) -> bool:
        """Are messages binary?"""
        return self.form in AVRO_FORMS

    @property
    def parts(self) -> tuple[str, ...]:
        """``console_parts`` one by one, in the order in which they are printed."""
        return tuple(part for part in _PARTS if part in listed(self.console_parts))

    def contradictions(self) -> list[str]:
        """What is wrong with values that are each allowed, a sentence each."""
        problems = QlikOptions.contradictions(self)
        has_metadata = self.form.endswith("envelope")
        if has_metadata and self.metadata_mode == "none" and self.is_avro:
            problems.append("form avro-envelope cannot be read without metadata; metadata is mixed, late or separate")
        if not has_metadata and self.metadata_mode != "none":
            problems.append(f"form {self.form} has no metadata messages, so metadata is none")
        if self.is_avro and self.container not in BINARY_CONTAINERS and self.encoding == "raw":
            held = ", ".join(BINARY_CONTAINERS)
            problems.append(f"form {self.form} is binary: container is one of {held}, or encoding is base64 or hex")
        if self.encoding != "raw" and self.container not in ("lines", "console", "kcat"):
            problems.append(f"container {self.container} holds values as they are, so encoding is raw")
        if self.tombstone_share and (
            self.container in ("documents", "message") or (self.container == "avro" and self.form == "avro-envelope")
        ):
            problems.append(f"container {self.container} cannot hold tombstones in this form")
        problems += unlisted("console_parts", listed(self.console_parts), _PARTS)
        files = (self.tables + self.all_types if self.naming == "topic" else 1) * self.partitions
        if self.layout == "partitions" and files > 500:
            problems.append(f"{files} partitions would be as many open files; at most 500, or layout=stream")
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTableOptions(QlikOptions):
    """How change tables look, and what holds them."""

    columns: int = same("columns")
    container: str = option("csv", "what holds the rows", of=("csv", "json", "parquet"))
    dfm: bool = option(True, "a .dfm beside every file")
    header_line: bool = option(True, "csv: the first line of every file names the columns")
    delimiter: str = option(",", "csv: between two fields")
    null_value: str = option("", "csv: what stands for NULL")
    escape: str = option("", "csv: before quotes in a text; else they are doubled")
    headers: str = option(",".join(HEADERS), "header columns, in order")
    header_prefix: str = option("header__", "what the names of header columns begin with")
    suffix: str = option("__ct", "what the name of a change table ends with")
    before_images: bool = option(True, "a row before every update's row, with what was there")
    partition_minutes: int = option(
        0, "change data partitioning: length of a period, with a folder for each; 0: off", 0, 525_600
    )
    mask: str = option(
        "auto",
        "how change_mask is written: number (hex, most significant digit first), or the bytes in order as hex, 0x, "
        "\\x, base64 or binary; auto: binary in Parquet, else number",
        of=("auto", "number", "hex", "0x", "\\x", "base64", "binary"),
    )
    unknown_times: float = option(0.0, "share of the changes whose timestamp is 1970-01-01", 0, 1)
    repeat_sequences: float = option(0.0, "share of the changes with the change_seq of the one before them", 0, 1)
    ddl_history: bool = option(True, "the control table attrep_ddl_history, as csv")
    file_rows: int = option(5000, "most rows of a file", 1, 1_000_000)
    compression: str = option("none", "compression of every file (parquet: of its pages)", of=COMPRESSIONS)
    overwrite: bool = same("overwrite")

    @property
    def header_names(self) -> tuple[str, ...]:
        """The header columns without their prefix, in order."""
        names = listed(self.headers)
        return (*names, "partition_name") if self.partition_minutes and "partition_name" not in names else names

    @property
    def mask_form(self) -> str:
        """``mask``, with ``auto`` resolved."""
        if self.mask != "auto":
            return self.mask
        return "binary" if self.container == "parquet" else "number"

    def contradictions(self) -> list[str]:
        """What is wrong with values that are each allowed, a sentence each."""
        problems = QlikOptions.contradictions(self)
        names = listed(self.headers)
        problems += unlisted("headers", names, (*HEADERS, "partition_name"))
        if not {"change_oper", "operation"} & set(names):
            problems.append("headers without change_oper and operation: nobody could tell what a row is")
        if self.before_images and "change_seq" not in names:
            problems.append("headers without change_seq: nobody could tell which before image belongs to which row")
        if "partition_name" in names and not self.partition_minutes:
            problems.append("headers has partition_name, so partition_minutes is more than 0")
        if self.mask == "binary" and self.container != "parquet":
            problems.append(f"container {self.container} holds text, so mask is not binary")
        if not self.dfm and not self.header_line and self.container == "csv":
            problems.append("without dfm nothing but header_line names the columns")
        if not self.dfm and (self.delimiter != "," or self.null_value or self.escape):
            problems.append("without dfm nothing tells delimiter, null_value and escape")
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n' or self.delimiter.isalnum():
            problems.append("delimiter is one character, and neither letter, digit, quote nor line end")
        if (
            len(self.escape) > 1
            or self.escape in (self.delimiter, '"')
            or set(self.null_value) & set('"\r\n' + self.delimiter)
        ):
            problems.append("escape and null_value hold no quote, delimiter or line end; escape is one character")
        if self.tables + self.all_types > 400:
            problems.append(f"{self.tables + self.all_types} tables would be as many open files; at most 400")
        if not self.header_prefix or not self.suffix:
            problems.append("header_prefix and suffix are not empty")
        return problems
