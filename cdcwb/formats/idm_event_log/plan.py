"""The plan of an event log: its files, splits and tables. It grows with their number, never with the number of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cdcwb.formats.dissector import Piece, PlanText
from cdcwb.formats.idm_event_log.layout import COLUMNS
from cdcwb.formats.tabular.splits import FileEntry

__all__ = ["ROWS", "FileRange", "LogFile", "Plan", "TableEntry", "pieces_of"]

ROWS: Final = "rows"
"""The kind of a table of rows, besides those of files."""


@dataclass(slots=True, kw_only=True)
class LogFile(FileEntry):
    """One file. ``labels``: the vendor's names -> the source's, of the columns that it has; ``null_text``: what is NULL
    besides that which the container has. Its ``rows`` count damaged ones too."""

    labels: Mapping[str, str]
    null_text: str = ""

    @property
    def absent(self) -> frozenset[str]:
        """The columns that it does not have."""
        return frozenset(COLUMNS) - self.labels.keys()


@dataclass(frozen=True, slots=True)
class FileRange:
    """The records of a file that begin in ``[start, stop)``: bytes, rows of an Excel sheet, or row groups of a Parquet
    file. ``before``: the number of records of the capture that precede them."""

    file: int
    start: int
    stop: int
    before: int


@dataclass(slots=True)
class TableEntry:
    """A table that the log names: the columns of its keys, and the others in the order in which they are named."""

    schema: str | None
    table: str
    keys: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)

    @property
    def label(self) -> str:
        """``schema.table``, or ``table`` where there is no schema."""
        return self.table if self.schema is None else f"{self.schema}.{self.table}"

    @property
    def names(self) -> list[str]:
        """All columns, those of the key first."""
        return list(dict.fromkeys([*self.keys, *self.columns]))

    def to_row(self) -> dict[str, Any]:
        """Its only version as a row of :data:`cdcwb.model.TABLE_VERSIONS`, without ``first_position``."""
        places = {name: place for place, name in enumerate(self.keys, 1)}
        columns = [{"ordinal": n, "name": one, "key_position": places.get(one)} for n, one in enumerate(self.names, 1)]
        names = {"table_version": f"{self.label}@1", "schema_name": self.schema, "table_name": self.table}
        return {**names, "columns": columns, "origin": "inferred"}


@dataclass(slots=True)
class Plan(PlanText):
    """How a capture is read. ``zone`` is that of event_time, ``schema`` that of tables named without one.

    A split is consecutive ranges of records. Its record ids are higher than those of all splits before it, and its
    lowest begins a statement; only if record ids fall far in capture order, splits are cut anywhere
    (:meth:`in_order`)."""

    files: list[LogFile]
    splits: list[list[FileRange]] = field(default_factory=list)
    versions: list[TableEntry] = field(default_factory=list)
    charset: str = "utf-8"
    zone: str = "UTC"
    schema: str | None = None
    detected: list[dict[str, Any]] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


def pieces_of(plan: Plan) -> Iterator[list[Piece]]:
    """What the events of each split follow from: its file, and how that is read. How many records precede them only
    numbers those of a log without record ids."""
    for split in plan.splits:
        yield [_piece(plan, part) for part in split]


def _piece(plan: Plan, part: FileRange) -> Piece:
    entry = plan.files[part.file]
    before = None if "record_id" in entry.labels else part.before
    return Piece((entry.path,), repr((entry, part.start, part.stop, before, plan.schema, plan.zone)))
