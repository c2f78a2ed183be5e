"""What has to be known before a capture can be read in pieces: files, columns, tables, splits.

A plan is made once and travels to the workers as one text. It grows with the number of files, splits and tables, never
with the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, overload

from cdcwb.formats.dissector import Piece, PlanText
from cdcwb.formats.idm_event_log.layout import COLUMNS
from cdcwb.formats.tabular.splits import FileEntry

__all__ = ["ROWS", "SQL", "FileRange", "LogFile", "Plan", "SplitEntry", "TableEntry", "pieces_of"]

SQL: Final = "sql"
ROWS: Final = "rows"
"""Kinds of files besides those of :class:`FileProbe`: a dump of statements, and a table of rows."""


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


@dataclass(frozen=True, slots=True)
class SplitEntry(Sequence[FileRange]):
    """Consecutive ranges of records: one, or several complete files that are small.

    The splits divide the record_ids: rows with a record_id above ``above`` (the highest of the preceding splits, 0:
    none), up to ``highest``, are those of this split. ``late``: the following splits that may have such rows too.
    ``begins``: the lowest begins a statement; otherwise it may continue the last one of the preceding splits.
    ``following``: the splits in which the last statement of this one may continue."""

    ranges: tuple[FileRange, ...]
    above: int = 0
    highest: int = 0
    begins: bool = False
    late: tuple[SplitEntry, ...] = ()
    following: tuple[SplitEntry, ...] = ()

    def __len__(self) -> int:
        return len(self.ranges)

    @overload
    def __getitem__(self, at: int) -> FileRange: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[FileRange]: ...
    def __getitem__(self, at: int | slice) -> FileRange | Sequence[FileRange]:
        return self.ranges[at]


@dataclass(slots=True)
class TableEntry:
    """A table that the log tells of: the columns of its keys, and the others in the order in which they are named."""

    schema: str | None
    table: str
    keys: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)

    @property
    def label(self) -> str:
        """``schema.table``, or ``table`` where there is no schema."""
        return self.table if self.schema is None else f"{self.schema}.{self.table}"

    @property
    def version(self) -> str:
        """Its only version."""
        return f"{self.label}@1"

    @property
    def names(self) -> list[str]:
        """All columns, those of the key first."""
        return list(dict.fromkeys([*self.keys, *self.columns]))


@dataclass(slots=True)
class Plan(PlanText):
    """How a capture is read. ``zone`` is that of event_time, ``schema`` that of tables named without one."""

    files: list[LogFile]
    splits: list[SplitEntry] = field(default_factory=list)
    tables: list[TableEntry] = field(default_factory=list)
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
