"""The options of generated Debezium captures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cdcwb_synth.choices import COMPRESSIONS, option
from cdcwb_synth.story_options import StoryOptions, listed, same, unlisted

__all__ = ["CONNECTORS", "DebeziumOptions"]

CONNECTORS: Final = ("postgresql", "mysql", "sqlserver", "oracle")
_PARTS: Final = ("timestamp", "key")


@dataclass(frozen=True, slots=True, kw_only=True)
class DebeziumOptions(StoryOptions):
    """What happens, and how the connector and its converters are set up. All topics are in one file, in the order in
    which they were written."""

    schema_changes: int = same("schema_changes", default=6)
    refresh_rows: int = option(20, "rows of the snapshot that every table begins with", 0, 10_000_000)
    connector: str = option("postgresql", "connector", of=CONNECTORS)
    prefix: str = option("shop", "topic prefix of the connector")
    form: str = option(
        "json-schema", "converter: JSON with schema, JSON without, Avro", of=("json-schema", "json", "avro")
    )
    container: str = option("console", "what holds the messages", of=("console", "lines", "kcat", "parquet"))
    console_parts: str = option(",".join(_PARTS), f"console: what precedes the value: any of {', '.join(_PARTS)}")
    transactions: bool = option(True, "the transaction topic, and the field transaction of change events")
    tombstones: bool = option(True, "a tombstone after every delete")
    unavailable_share: float = option(
        0.3, "postgresql: share of the updates that lack a long text that they do not change", 0, 1
    )
    heartbeats: int = option(20, "transactions between two heartbeats; 0: none", 0, 1_000_000)
    compression: str = option("none", "compression of the file (parquet: of its pages)", of=COMPRESSIONS)
    overwrite: bool = same("overwrite")

    @property
    def parts(self) -> tuple[str, ...]:
        """What a line has before its value."""
        return listed(self.console_parts) if self.container == "console" else ()

    @property
    def has_keys(self) -> bool:
        """Does the container hold keys?"""
        return self.container in ("kcat", "parquet") or "key" in self.parts

    @property
    def has_schema_topic(self) -> bool:
        """Does the connector write schema changes?"""
        return self.connector != "postgresql"

    def contradictions(self) -> list[str]:
        """What is wrong with values that are each allowed, a sentence each."""
        problems = StoryOptions.contradictions(self)
        problems += unlisted("console_parts", listed(self.console_parts), _PARTS)
        if self.form == "avro" and self.container in ("console", "lines"):
            problems.append(f"form avro is binary, and container {self.container} is text: choose kcat or parquet")
        if not self.prefix:
            problems.append("prefix is not empty")
        return problems
