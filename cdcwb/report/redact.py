"""Redaction: a capture without the values of some columns, for reports that are passed on.

Values are removed from images, keys, headers and raw bytes of every table. They are replaced by ``[redacted]`` and a
tag that equal values share, so that changed columns, equal rows and counts stay correct. The tags depend on a random
secret of each run, which is not stored.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from cdcwb.capture import Capture
from cdcwb.errors import OptionError
from cdcwb.formats.idm_event_log.keys import SPECIAL
from cdcwb.formats.idm_event_log.layout import FORMAT as EVENT_LOG
from cdcwb.formats.options import nearest
from cdcwb.model import Kind, Problem
from cdcwb.words import visible

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["REDACTED", "Redacted", "Target", "check_known", "check_names", "redact", "targets"]

REDACTED: Final = "[redacted]"

_MARK: Final = 12  # digits that distinguish values
_PART: Final = 4  # from this length on, a value is looked for inside header fields
_MOST: Final = 20

# Kinds whose bytes have no row; all other bytes are kept only if their table is known and has no redacted column.
_WITHOUT_ROW: Final = (Kind.BEGIN, Kind.COMMIT, Kind.ROLLBACK, Kind.UNDO, Kind.SCHEMA, Kind.HEARTBEAT)
_OF_TABLES: Final = (Kind.CHANGE, Kind.BEFORE, Kind.AFTER, Kind.TOMBSTONE)
# Bytes that are not a record, or a duplicate: only the reason of what was read from them is kept.
_LEFTOVER: Final = (Kind.FILLER, Kind.MALFORMED, Kind.FRAGMENT)
_REASON: Final = "reason"
_KAFKA: Final = ("kafka.offset", "kafka.partition", "kafka.timestamp", "kafka.timestamp_type", "kafka.topic")
# What control tables quote: statements that a target refused.
_QUOTING: Final = ("STATEMENT", "ERROR")
# Problems whose sentences have only columns, locations and counts. Others are reduced to the heading.
_PLAIN: Final = (
    *(Problem.OPEN_TRANSACTION, Problem.NO_BEGIN, Problem.GAP, Problem.CLOCK, Problem.REPEATED, Problem.SAME_POSITION),
    *(Problem.UPDATE_HALF, Problem.REORDERED_UPDATE, Problem.MASK_IMAGES, Problem.MASK),
    *(Problem.NO_SCHEMA, Problem.NO_REGISTRY, Problem.LOB_NOT_IN_STREAM, Problem.TRUNCATED),
)
# Settings whose evidence quotes no captured value.
_EVIDENT: Final = (
    *("format", "shape", "reads", "container", "encoding", "separator", "delimiter", "header", "null_text"),
    *("byte_order", "columns", "table", "prefix", "suffix", "mask_order", "mask_offset", "mask_text", "metadata"),
    *("definitions", "registry", "offsets", "trail_sequence", "time_zone", "schema", "keys"),
)


@dataclass(frozen=True, slots=True)
class Target:
    """A column to redact, as the capture spells it: ``table`` is ``schema.table``, or ``table``."""

    table: str
    column: str


def check_names(names: Iterable[str]) -> list[str]:
    """The errors in the texts of ``--redact`` that need no capture: each has to be a table and a column."""
    return [
        f"redact: expected a table and a column such as HR.EMP.SALARY, found '{visible(name)}'"
        for name in names
        if not all(part.strip() for part in name.split(".")) or "." not in name
    ]


def targets(capture: Capture, names: Sequence[str]) -> list[Target]:
    """The columns of a capture that ``schema.table.column`` or ``table.column`` name; case is ignored.

    Raises OptionError for a name that is not a column of the capture: a mistyped column would not be redacted.
    """
    known = _columns(capture)
    matches: list[Target] = []
    wrong: list[str] = []
    for name in names:
        matching = [target for target in known if name.lower() in _spellings(target)]
        if not matching:
            labels = sorted({f"{target.table}.{target.column}" for target in known})
            shown = ", ".join(labels[:_MOST]) + (" …" if len(labels) > _MOST else "") or "none"
            hint = nearest(name, [*labels, *(spelling for target in known for spelling in _spellings(target))])
            wrong.append(f"redact: there is no column '{visible(name)}' in the capture.{hint} There are: {shown}.")
        matches += matching
    if wrong:
        raise OptionError("; ".join(wrong))
    return list(dict.fromkeys(matches))


def check_known(captures: Sequence[Capture], names: Sequence[str]) -> list[list[str]]:
    """For each capture, the names that are its columns. Raises OptionError for a name that no capture has."""
    if len(captures) == 1 or not names:
        return [list(names) for _ in captures]
    spellings = [{spelling for target in _columns(capture) for spelling in _spellings(target)} for capture in captures]
    matches = [[name for name in names if name.lower() in known] for known in spellings]
    missing = [name for name in names if not any(name in matching for matching in matches)]
    if missing:
        targets(captures[0], missing)  # lists the known columns
    return matches


def redact(capture: Capture, names: Sequence[str]) -> Capture:
    """The capture without the values of these columns; the capture itself without names."""
    return Redacted(capture, targets(capture, names)) if names else capture


def _spellings(target: Target) -> set[str]:
    """The names of a column: with its schema, and without."""
    return {f"{target.table}.{target.column}".lower(), f"{target.table.rpartition('.')[2]}.{target.column}".lower()}


def _columns(capture: Capture) -> list[Target]:
    """All columns of all tables, from versions and from images, which may have columns that no version has."""
    from pyspark.sql import functions as F

    from cdcwb.spark.names import table_label

    versions = capture.table_versions.select(table_label().alias("table"), F.explode("columns.name").alias("column"))
    images = [F.coalesce(F.map_keys(name), F.array().cast("array<string>")) for name in ("key", "before", "after")]
    captured = capture.events.select(table_label().alias("table"), F.explode(F.concat(*images)).alias("column"))
    rows = versions.unionByName(captured).where(F.col("table").isNotNull()).distinct().collect()
    return sorted((Target(row.table, row.column) for row in rows), key=lambda target: (target.table, target.column))


class Redacted(Capture):
    """A capture whose tables do not contain the values of some columns. NULL stays NULL."""

    def __init__(self, capture: Capture, columns: Sequence[Target]) -> None:
        super().__init__(capture._tables, capture._filters)
        self._columns = columns
        self._secret = secrets.token_hex(32)

    @property
    def saved_in(self) -> None:
        """None: the tables of a saved capture hold the values."""

    @property
    def events(self) -> DataFrame:
        """One row per wire record, with redacted values and bytes."""
        return self._without_values(super().events, kinds=True)

    @property
    def headers(self) -> DataFrame:
        """``events`` without images."""
        return self._without_values(super().headers, kinds=True)

    @property
    def changes(self) -> DataFrame:
        """One row per logical change, with redacted values."""
        return self._without_values(super().changes, kinds=False)

    @property
    def change_headers(self) -> DataFrame:
        """``changes`` without images."""
        return self._without_values(super().change_headers, kinds=False)

    @property
    def problems(self) -> DataFrame:
        """One row per problem, without sentences and bytes that may quote a value."""
        from pyspark.sql import functions as F

        shown = self._open("table") & (F.col("code") != str(Problem.APPLY_EXCEPTION))
        placed = F.col("file").isNotNull() & ~shown
        return (
            super()
            .problems.withColumn("sentence", F.when(placed, _sentence("code", "sentence")).otherwise(F.col("sentence")))
            .withColumn("first_bytes", F.when(shown, F.col("first_bytes")))
        )

    @property
    def detected(self) -> DataFrame:
        """One row per detected setting, without evidence that quotes bytes."""
        from pyspark.sql import functions as F

        evidence = F.when(F.col("setting").isin(*_EVIDENT), F.col("evidence")).otherwise(F.lit(REDACTED))
        return super().detected.withColumn("evidence", evidence)

    # --- the parts of a row -------------------------------------------------------------------------------------------

    @cached_property
    def _names(self) -> dict[str, list[str]]:
        """Columns by table, in lower case."""
        tables: dict[str, list[str]] = {}
        for target in self._columns:
            tables.setdefault(target.table.lower(), []).append(target.column.lower())
        return tables

    def _hidden(self, table: Column, column: Column) -> Column:
        """Whether a column is redacted; in an unknown table, the redacted columns of every table are."""
        from pyspark.sql import functions as F

        label, name = F.lower(table), F.lower(column)
        known = [(label == table) & name.isin(*columns) for table, columns in self._names.items()]
        every = sorted({column for columns in self._names.values() for column in columns})
        return F.coalesce(reduce(or_, known), F.lit(False)) | (label.isNull() & name.isin(*every))

    def _open(self, table: str) -> Column:
        """Whether a row is of a known table without redacted columns."""
        from pyspark.sql import functions as F

        return F.col(table).isNotNull() & ~F.lower(F.col(table)).isin(*self._names)

    def _mark(self, value: Column) -> Column:
        """The text that replaces a value."""
        from pyspark.sql import functions as F

        digest = F.sha2(F.concat(F.lit(self._secret), value), 256)
        return F.when(value.isNotNull(), F.concat(F.lit(f"{REDACTED} "), F.substring(digest, 1, _MARK)))

    def _without_values(self, frame: DataFrame, kinds: bool) -> DataFrame:
        """Events (``kinds``) or changes without the values."""
        from pyspark.sql import functions as F

        from cdcwb.spark.names import table_label

        label = F.col("_label")
        rows = frame.withColumn("_label", table_label())

        def image(name: str) -> Column:
            return F.transform_values(
                name, lambda key, value: F.when(self._hidden(label, key), self._mark(value)).otherwise(value)
            )

        problems = F.transform(
            "problems", lambda problem: F.struct(problem["code"].alias("code"), _sentence_of(problem).alias("detail"))
        )
        open_table = self._open("_label")
        columns = {
            "headers": self._log_headers() if self.format == EVENT_LOG else self._headers(kinds),
            "problems": F.when(open_table, F.col("problems")).otherwise(problems),
        }
        if kinds:
            without_row = F.col("kind").isin(*map(str, _WITHOUT_ROW)) | (
                F.col("kind").isin(*map(str, _OF_TABLES)) & open_table
            )
            columns["raw"] = F.when(without_row, F.col("raw"))
        redacted = rows.withColumns(columns)  # headers are compared with the values, so values are redacted last
        return redacted.withColumns({name: image(name) for name in ("key", "before", "after")}).select(*frame.columns)

    def _headers(self, kinds: bool) -> Column:
        """Header fields without those that have the row's values: a message's key, tokens that repeat a column."""
        from pyspark.sql import functions as F

        label = F.col("_label")
        empty = F.array().cast("array<string>")
        hidden = [
            F.coalesce(F.map_values(F.map_filter(name, lambda key, _: self._hidden(label, key))), empty)
            for name in ("key", "before", "after")
        ]
        values = F.filter(F.array_distinct(F.concat(*hidden)), lambda value: F.length(value) > 0)
        quiet = ~self._open("_label")

        def redacted_text(name: Column, text: Column) -> Column:
            repeats = F.exists(
                values, lambda value: (text == value) | ((F.length(value) >= _PART) & F.contains(text, value))
            )
            keyed = F.startswith(name, F.lit("kafka.")) & ~name.isin(*_KAFKA) & quiet
            control = name.isin(*_QUOTING)
            return F.when(keyed | control | repeats, self._mark(text)).otherwise(text)

        fields = F.transform_values("headers", redacted_text)
        if not kinds:
            return fields
        leftover = F.transform_values(
            "headers", lambda name, text: F.when(name == _REASON, text).otherwise(self._mark(text))
        )
        return F.when(F.col("kind").isin(*map(str, _LEFTOVER)), leftover).otherwise(fields)

    def _log_headers(self) -> Column:
        """The fields of an event log's row without old value, new value and key, where they are of such a column."""
        from pyspark.sql import functions as F

        label, fields, key = F.col("_label"), F.col("headers"), F.col("key")
        valued = self._hidden(label, fields["column_name"])
        every = sorted({column for columns in self._names.values() for column in columns})
        entries = F.transform(
            F.map_entries(key),
            lambda entry: F.concat(
                entry["key"],
                F.lit("="),
                F.when(self._hidden(label, entry["key"]), self._mark(entry["value"])).otherwise(
                    _spelled(entry["value"])
                ),
            ),
        )
        named = F.exists(F.map_keys(key), lambda name: self._hidden(label, name))
        spoken = reduce(or_, [F.contains(F.lower(fields["table_key"]), F.lit(column)) for column in every])
        unread = F.when(spoken & ~self._open("_label"), self._mark(fields["table_key"]))
        rebuilt = F.when(key.isNull(), F.coalesce(unread, fields["table_key"])).when(named, F.array_join(entries, "+"))

        def redacted_text(name: Column, text: Column) -> Column:
            value = F.when(valued, self._mark(text)).otherwise(text)
            return (
                F.when(name.isin("old_value", "new_value"), value)
                .when(name == "table_key", F.coalesce(rebuilt, text))
                .otherwise(text)
            )

        leftover = F.transform_values("headers", lambda name, text: F.when(name == _REASON, text))
        return F.when(F.col("kind") == str(Kind.MALFORMED), leftover).otherwise(
            F.transform_values("headers", redacted_text)
        )


def _sentence(code: str, sentence: str) -> Column:
    """The sentence of a problem, or the heading of its code if the sentence may quote a value."""
    from pyspark.sql import functions as F

    headings = F.create_map(*[F.lit(text) for problem in Problem for text in (str(problem), problem.heading)])
    heading = F.coalesce(headings[F.col(code)], F.lit(REDACTED))
    return F.when(F.col(code).isin(*map(str, _PLAIN)), F.col(sentence)).otherwise(heading)


def _sentence_of(problem: Column) -> Column:
    """:func:`_sentence` for a problem inside a row."""
    from pyspark.sql import functions as F

    headings = F.create_map(*[F.lit(text) for known in Problem for text in (str(known), known.heading)])
    heading = F.coalesce(headings[problem["code"]], F.lit(REDACTED))
    return F.when(problem["code"].isin(*map(str, _PLAIN)), problem["detail"]).otherwise(heading)


def _spelled(value: Column) -> Column:
    """A value in the spelling of a key: in quotes if it has a special character or is empty."""
    from pyspark.sql import functions as F

    quoted = F.concat(F.lit('"'), F.regexp_replace(value, r'(["\\])', r"\\$1"), F.lit('"'))
    special = "[" + "".join(f"\\{character}" for character in SPECIAL) + "]"
    return F.when((F.length(value) == 0) | value.rlike(special), quoted).otherwise(value)
