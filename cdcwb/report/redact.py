"""Redaction: a capture without the values of some columns, for reports that are passed on.

The values are replaced in images and keys by ``[redacted]`` and a tag that equal values share, so that changed columns,
equal rows and counts stay correct; the bytes of such rows are replaced by a hash. Tags and hashes depend on a random
secret of each run, which is not stored. Bytes and header fields are kept of rows of other tables only, since values may
be anywhere in them; the sentences of problems become the headings of their codes, and evidence is left out. An event
log, whose header fields are its rows, is refused.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from cdcwb.errors import OptionError
from cdcwb.formats.idm_event_log.layout import FORMAT as EVENT_LOG
from cdcwb.formats.options import nearest
from cdcwb.model import Kind, Problem
from cdcwb.tables import Part, Tables
from cdcwb.words import visible

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from cdcwb.capture import Capture
    from cdcwb.formats.dissector import TableRequest

__all__ = ["REDACTED", "Redacted", "RedactedColumn", "check_known", "check_names", "redact", "targets"]

REDACTED: Final = "[redacted]"

_TAG: Final = 12  # digits that distinguish values
_MOST: Final = 20

_ROWS: Final = (Kind.CHANGE, Kind.BEFORE, Kind.AFTER, Kind.TOMBSTONE)
_HEADERS: Final = (
    *("kafka.offset", "kafka.partition", "kafka.timestamp", "kafka.timestamp_type", "kafka.topic"),
    *("statement", "DETAILS"),  # of changes of tables
)
"""Header fields without values of rows."""

_PLAIN: Final = (
    *(Problem.OPEN_TRANSACTION, Problem.NO_BEGIN, Problem.GAP, Problem.CLOCK, Problem.REPEATED, Problem.SAME_POSITION),
    *(Problem.UPDATE_HALF, Problem.REORDERED_UPDATE, Problem.MASK_IMAGES, Problem.MASK),
    *(Problem.NO_SCHEMA, Problem.NO_REGISTRY, Problem.LOB_NOT_IN_STREAM, Problem.TRUNCATED),
)
"""Problems whose sentences have only columns, locations and counts."""


@dataclass(frozen=True, slots=True)
class RedactedColumn:
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


def targets(capture: Capture, names: Sequence[str]) -> list[RedactedColumn]:
    """The columns of a capture that ``schema.table.column`` or ``table.column`` name; case is ignored.

    Raises OptionError for a name that is not a column of the capture: a mistyped column would not be redacted.
    """
    known = _columns(capture)
    matches: list[RedactedColumn] = []
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
    """The capture without the values of these columns; the capture itself without names. Raises OptionError for an
    event log."""
    if names and capture.format == EVENT_LOG:
        raise OptionError(
            "redact: an event log has the values of all columns in the same fields and cannot be redacted; "
            "report on the other tables with --table"
        )
    return capture.within(lambda tables: Redacted(tables, targets(capture, names))) if names else capture


def _spellings(target: RedactedColumn) -> set[str]:
    """The names of a column: with its schema, and without."""
    return {f"{target.table}.{target.column}".lower(), f"{target.table.rpartition('.')[2]}.{target.column}".lower()}


def _columns(capture: Capture) -> list[RedactedColumn]:
    """All columns of all tables, from versions and from images, which may have columns that no version has."""
    from pyspark.sql import functions as F

    from cdcwb.spark.names import table_label

    versions = capture.table_versions.select(table_label().alias("table"), F.explode("columns.name").alias("column"))
    images = [F.coalesce(F.map_keys(name), F.array().cast("array<string>")) for name in ("key", "before", "after")]
    captured = capture.events.select(table_label().alias("table"), F.explode(F.concat(*images)).alias("column"))
    rows = versions.unionByName(captured).where(F.col("table").isNotNull()).distinct().collect()
    return sorted(
        (RedactedColumn(row.table, row.column) for row in rows), key=lambda target: (target.table, target.column)
    )


class Redacted(Part):
    """Tables without the values of some columns. NULL stays NULL."""

    def __init__(self, tables: Tables, columns: Sequence[RedactedColumn]) -> None:
        super().__init__(tables)
        self._columns = columns
        self._secret = secrets.token_hex(32)

    def over(self, tables: Tables) -> Redacted:
        """See :class:`cdcwb.tables.Part`."""
        return Redacted(tables, self._columns)

    def events(self, images: bool, columns: Sequence[str] | None = None) -> DataFrame:
        """One row per wire record, with redacted values."""
        rows = self._without_values(self.tables.events(images))
        return rows if columns is None else rows.select(*columns)

    def changes(self, images: bool) -> DataFrame:
        """One row per logical change, with redacted values."""
        return self._without_values(self.tables.changes(images))

    def problems(self) -> DataFrame:
        """One row per problem; of those about records without bytes and without sentences that may quote a value."""
        from pyspark.sql import functions as F

        sentence = F.when(F.col("file").isNull(), F.col("sentence"))
        columns = {"sentence": F.coalesce(sentence, _sentence(F.col("code"), F.col("sentence")))}
        return self.tables.problems().withColumns(columns | {"first_bytes": F.lit(None).cast("string")})

    def detected(self) -> DataFrame:
        """One row per detected setting, without the evidence, which may quote bytes."""
        from pyspark.sql import functions as F

        return self.tables.detected().withColumn("evidence", F.lit(REDACTED))

    def table(self, request: TableRequest) -> DataFrame:
        """Refused: typed columns hold the values."""
        raise OptionError(f"a redacted capture has no typed columns; {request.name} is in its changes")

    @cached_property
    def _names(self) -> dict[str, list[str]]:
        """Columns by table, in lower case."""
        tables: dict[str, list[str]] = {}
        for target in self._columns:
            tables.setdefault(target.table.lower(), []).append(target.column.lower())
        return tables

    def _without_values(self, frame: DataFrame) -> DataFrame:
        """Events or changes without the values. A row of an unknown table has the redacted columns of every table."""
        from pyspark.sql import functions as F

        from cdcwb.spark.names import table_label

        label = F.lower(table_label())
        every = sorted({column for columns in self._names.values() for column in columns})

        def value_of(column: Column, value: Column) -> Column:
            name = F.lower(column)
            hidden = reduce(or_, [(label == table) & name.isin(*columns) for table, columns in self._names.items()])
            hidden = F.coalesce(hidden, F.lit(False)) | (label.isNull() & name.isin(*every))
            tag = F.substring(F.sha2(F.concat(F.lit(self._secret), value), 256), 1, _TAG)
            return F.when(hidden & value.isNotNull(), F.concat(F.lit(f"{REDACTED} "), tag)).otherwise(value)

        is_row = F.col("kind").isin(*map(str, _ROWS)) if "kind" in frame.columns else F.lit(True)
        is_open = is_row & label.isNotNull() & ~label.isin(*self._names)
        without = F.map_filter("headers", lambda name, _: name.isin(*_HEADERS))
        problems = F.transform(
            "problems",
            lambda one: F.struct(one["code"].alias("code"), _sentence(one["code"], one["detail"]).alias("detail")),
        )
        columns = {name: F.transform_values(name, value_of) for name in ("key", "before", "after")}
        columns["headers"] = F.when(is_open, F.col("headers")).otherwise(without)
        columns["problems"] = F.when(is_open, F.col("problems")).otherwise(problems)
        if "raw" in frame.columns:
            hashed = F.unhex(F.sha2(F.concat(F.encode(F.lit(self._secret), "UTF-8"), "raw"), 256))
            columns["raw"] = F.when(is_open, F.col("raw")).otherwise(hashed)
        return frame.withColumns(columns)


def _sentence(code: Column, sentence: Column) -> Column:
    """The sentence of a problem, or the heading of its code if the sentence may quote a value."""
    from pyspark.sql import functions as F

    headings = F.create_map(*[F.lit(text) for problem in Problem for text in (str(problem), problem.heading)])
    heading = F.coalesce(headings[code], F.lit(REDACTED))
    return F.when(code.isin(*map(str, _PLAIN)), sentence).otherwise(heading)
