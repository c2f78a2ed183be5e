"""The plan of a capture: files, tables, versions, splits. A plan is made once and sent to the workers as one text. Its
size grows with the number of files, versions and splits, not with the number of rows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from cdcwb.formats.dissector import PlanText
from cdcwb.formats.old.halves import overlaps
from cdcwb.formats.qlik_change_table.layout import Layout, TableName
from cdcwb.formats.qlik_change_table.probing import Column
from cdcwb.formats.tabular.splits import FileEntry

__all__ = ["MaskSettings", "Plan", "SplitEntry", "TableEntry", "TableFile", "Version"]


@dataclass(frozen=True, slots=True)
class MaskSettings:
    """The mask settings of a table: byte order, bit of the first data column, and the encoding of texts (None:
    hexadecimal if possible)."""

    order: str
    offset: int
    spelling: str | None = None


@dataclass(slots=True)
class TableEntry:
    """A table. ``control``: its control table, None for user tables. ``key``: its key columns if no version has them,
    or if they were ``given`` as an option."""

    schema: str | None
    table: str
    control: str | None = None
    masks: MaskSettings | None = None
    key: list[str] = field(default_factory=list)
    given: bool = False

    @property
    def name(self) -> TableName:
        """Its name."""
        return TableName(self.schema, self.table)


@dataclass(slots=True)
class Version:
    """One version of a table. ``key`` is its table_version; ``file_index``, ``offset`` and ``length`` the location of
    its event, -1 without one; ``position`` the change sequence of a DDL."""

    table: int
    key: str
    columns: list[Column]
    origin: str
    text: str
    lineage: dict[str, str]
    file_index: int = -1
    offset: int = -1
    length: int = -1
    position: str | None = None


@dataclass(slots=True, kw_only=True)
class TableFile(FileEntry):
    """One data file: its columns, its role (one of ``ROLES``), and its table and version (-1: none)."""

    layout: Layout
    role: str
    table: int
    version: int = -1


@dataclass(frozen=True, slots=True)
class SplitEntry:
    """The records of a file that begin in ``[start, stop)``: bytes, or row groups of a Parquet file. ``first`` and
    ``last``: the lowest and highest position of its rows, None if no row has one; ``at_first`` and ``at_last``: the
    bytes ``[start, stop)`` with exactly its rows at that position, None if there are no such bytes. ``befores``:
    whether it may have before halves of updates."""

    file: int
    start: int
    stop: int
    first: str | None = None
    last: str | None = None
    at_first: tuple[int, int] | None = None
    at_last: tuple[int, int] | None = None
    befores: bool = True

    def bytes_at(self, position: str) -> tuple[int, int] | None:
        """The bytes with exactly its rows at a position, if known."""
        return self.at_first if position == self.first else self.at_last if position == self.last else None


@dataclass(frozen=True, slots=True)
class Moved:
    """Rows that are read with another split, so that both halves of an update are read together: the bytes ``left`` to
    other splits, and the bytes ``taken`` from others."""

    left: list[tuple[int, int]] = field(default_factory=list)
    taken: list[SplitEntry] = field(default_factory=list)


@dataclass
class Plan(PlanText):
    """The plan of a capture."""

    files: list[TableFile]
    tables: list[TableEntry]
    versions: list[Version]
    splits: list[SplitEntry]
    charset: str
    detected: list[dict[str, Any]] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def borders(self) -> tuple[dict[int, Moved], dict[tuple[str, TableName], tuple[tuple[str, str], ...]]]:
        """Halves of updates may be in several splits of a table, in files of one folder. If a position is the first or
        the last of each of these splits, all its rows are read with the first of them (the first result, by split). The
        second result are the other ranges of positions that several splits have."""
        groups: dict[tuple[str, TableName], list[int]] = {}
        for number, split in enumerate(self.splits):
            if split.first is not None:
                groups.setdefault(self.place_of(split), []).append(number)
        moved: dict[int, Moved] = {}
        shared: dict[tuple[str, TableName], tuple[tuple[str, str], ...]] = {}
        for place, numbers in groups.items():
            if any(self.splits[number].befores for number in numbers):
                shared[place] = self._shared(numbers, moved)
        return moved, shared

    def _shared(self, numbers: list[int], moved: dict[int, Moved]) -> tuple[tuple[str, str], ...]:
        """The ranges of positions that several of these splits have; adds to ``moved``."""
        splits = [self.splits[number] for number in numbers]
        firsts, lasts = (sorted(getattr(split, name) for split in splits) for name in ("first", "last"))
        at: dict[str, list[int]] = {}
        for number, split in zip(numbers, splits, strict=True):
            for position in {split.first, split.last}:
                at.setdefault(position or "", []).append(number)
        left = []
        for first, last in overlaps([(split.first or "", split.last or "") for split in splits]):
            holders = at[first]
            places = [self.splits[number].bytes_at(first) for number in holders]
            all_of_them = bisect_right(firsts, first) - bisect_left(lasts, first)
            if first != last or None in places or all_of_them > len(holders):
                left.append((first, last))
                continue
            owner = moved.setdefault(holders[0], Moved())
            for number, place in zip(holders[1:], places[1:], strict=True):
                if place is not None:
                    moved.setdefault(number, Moved()).left.append(place)
                    owner.taken.append(SplitEntry(self.splits[number].file, *place))
        return tuple(left)

    def place_of(self, split: SplitEntry) -> tuple[str, TableName]:
        """The folder and the table of a split."""
        entry = self.files[split.file]
        return entry.path.rpartition("/")[0], self.tables[entry.table].name

    def key_of(self, entry: TableFile) -> list[str]:
        """The key columns of a file's rows: those of the option, else of its version, else of its table."""
        table = self.tables[entry.table]
        own: list[Column] = [] if entry.version < 0 else self.versions[entry.version].columns
        keyed = sorted((one.key_position, one.name) for one in own if one.key_position is not None)
        return table.key if table.given or not keyed else [name for _, name in keyed]
