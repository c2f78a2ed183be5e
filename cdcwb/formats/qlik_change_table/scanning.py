"""The first pass over one split: where its records begin and end, how many there are, and what they say of masks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.files import open_source
from cdcwb.formats.halves import GREATEST
from cdcwb.formats.qlik_change_table.control import Ddl, by_name, ddl_of
from cdcwb.formats.qlik_change_table.evidence import SAMPLE, Evidence, look_at
from cdcwb.formats.qlik_change_table.facts import DDL_HISTORY, ROWS
from cdcwb.formats.qlik_change_table.headers import positions, read_operations
from cdcwb.formats.qlik_change_table.layout import Part, Rows
from cdcwb.formats.qlik_change_table.plan import FileEntry, Shape, SplitEntry
from cdcwb.formats.qlik_change_table.reading import iter_parts
from cdcwb.formats.tabular import EVERYTHING, Stretch, begin_of, csv_parts
from cdcwb.model import Kind, OffsetUnit, Operation

__all__ = ["Scan", "ScanTask", "ddl_rows", "scan"]

Edge: TypeAlias = tuple[str, list[tuple[int, int]]]
"""A position, and the places of rows that have it."""

_MOST_DDL: Final = 100_000  # rows of DDL history that are looked at


@dataclass(frozen=True, slots=True)
class ScanTask(Stretch):
    """A split. ``spelling``: of masks, where it was given."""

    entry: FileEntry
    shape: Shape
    control: str | None
    key: tuple[str, ...]
    spelling: str | None


@dataclass(slots=True)
class Scan:
    """What a split holds: the records that begin in it are ``[begin, end)``. ``malformed``: the first segment that is
    no record, its place and why. ``size`` and ``problem`` are those of the file. ``first`` and ``last``: the least and
    the greatest position of its rows, and the bytes ``[start, stop)`` of each row there; ``befores``: has it before
    halves of updates?"""

    begin: int
    end: int
    rows: int = 0
    size: int = 0
    problem: str | None = None
    malformed: tuple[int, str] | None = None
    evidence: Evidence = field(default_factory=Evidence)
    ddl: list[Ddl] = field(default_factory=list)
    first: Edge | None = None
    last: Edge | None = None
    befores: bool = False

    def nothing(self, begin: int) -> Scan:
        """The same for a split in which no record begins."""
        return Scan(begin, begin, size=self.size, problem=self.problem)

    def take(self, part: Part, task: ScanTask) -> None:
        """One more part."""
        for indices, rows in part.rows:
            self.rows += len(indices)
            if task.entry.role == ROWS:
                self._take_positions(rows)
            if task.control == DDL_HISTORY and len(self.ddl) < _MOST_DDL:
                self.ddl += ddl_rows(rows, task.index)
        for gap in part.gaps:
            if gap.kind is Kind.MALFORMED:
                place = int(part.offset[gap.index]), gap.reason
                self.malformed = place if self.malformed is None else min(self.malformed, place)
                if part.unit is OffsetUnit.ROW:
                    self.rows += int(part.length[gap.index])
        self.end = int(part.offset[-1] + part.length[-1]) if len(part.offset) else self.end

    def _take_positions(self, rows: Rows) -> None:
        position = positions(rows)
        found = pc.min_max(position).as_py()
        if found["min"] is not None:
            if self.first is None or found["min"] <= self.first[0]:
                self.first = _edge(self.first, found["min"], position, rows)
            if self.last is None or found["max"] >= self.last[0]:
                self.last = _edge(self.last, found["max"], position, rows)
        if not self.befores:
            self.befores = bool(read_operations(rows, ROWS).is_(Operation.UPDATE, Kind.BEFORE).any())

    def split(self, file: int, start: int, stop: int) -> SplitEntry:
        """The split of the plan."""
        if self.first is None or self.last is None:
            return SplitEntry(file, start, stop, befores=self.befores)
        (first, at_first), (last, at_last) = self.first, self.last
        return SplitEntry(file, start, stop, first, last, _run(at_first), _run(at_last), self.befores)


def _edge(known: Edge | None, text: str, position: pa.Array, rows: Rows) -> Edge:
    """The rows at a position, with those that are known."""
    at = np.flatnonzero(pc.fill_null(pc.equal(position, text), False).to_numpy(zero_copy_only=False))
    begin = rows.offset[at]
    found = list(zip(begin.tolist(), (begin + rows.length[at]).tolist(), strict=True))
    return (text, found) if known is None or known[0] != text else (text, known[1] + found)


def _without_places(edge: Edge | None) -> Edge | None:
    """Only files of delimited text can be read from one byte to another."""
    return None if edge is None else (edge[0], [])


def _run(rows: list[tuple[int, int]]) -> tuple[int, int] | None:
    """From where to where rows stand one behind the other; None where they do not."""
    ordered = sorted(rows)
    follows = all(one[1] == two[0] for one, two in pairwise(ordered))
    return (ordered[0][0], ordered[-1][1]) if ordered and follows else None


def ddl_rows(rows: Rows, index: int) -> list[Ddl]:
    """The rows of DDL history."""
    layout = rows.layout
    texts = [rows.text(place).to_pylist() for place in range(len(layout.names))]
    found = []
    for row, values in enumerate(zip(*texts, strict=True)):
        one = ddl_of(by_name(layout, values), (index, int(rows.offset[row]), int(rows.length[row])))
        if one is not None:
            found.append(one)
    return found


def scan(task: ScanTask) -> Scan:
    """The first pass over a split."""
    shape, entry = task.shape, task.entry
    if shape.kind != "csv":
        found = Scan(task.start, task.stop)
        parts = iter_parts(entry, shape, task.file.charset, task.start, task.stop)
        for part in _looked_at(parts, found, task):
            found.take(part, task)
            if shape.kind == "parquet" and found.rows >= SAMPLE and task.control is None:
                # its footer tells how many rows there are, and nobody which positions
                found.first, found.last, found.befores = ("", []), (GREATEST, []), True
                break
        found.begin, found.end = task.start, task.stop
        found.first, found.last = _without_places(found.first), _without_places(found.last)
        if entry.compression is not None or shape.kind == "broken":
            found.size, found.problem = _extent(entry)
        return found
    source = open_source(entry.path, "binary")
    try:
        begin = begin_of(source, task)
        found = Scan(begin, begin, size=source.length, problem=source.problem)
        parts = csv_parts(source, task.file, shape.layout, begin, task.stop)
        for part in _looked_at(parts, found, task):
            found.take(part, task)
        found.begin = begin
        return found
    finally:
        source.close()


def _looked_at(parts: Iterator[Part], found: Scan, task: ScanTask) -> Iterator[Part]:
    """The parts of a split, the first rows of a file being asked about masks on their way.

    Of a file that is cut, the same rows are asked wherever it is cut.
    """
    wanted = task.entry.role == ROWS and task.start == 0 and "change_mask" in task.shape.layout.known
    if wanted and not task.alone:
        seen = 0
        for part in iter_parts(task.entry, task.shape, task.file.charset, 0, EVERYTHING):
            seen = _ask(part, found, task, seen)
            if seen >= SAMPLE:
                break
        wanted = False
    seen = 0
    for part in parts:
        if wanted and seen < SAMPLE:
            seen = _ask(part, found, task, seen)
        yield part


def _ask(part: Part, found: Scan, task: ScanTask, seen: int) -> int:
    for indices, rows in part.rows:
        some = rows if len(indices) <= SAMPLE else rows.take(np.arange(SAMPLE))
        found.evidence += look_at(some, task.key, task.spelling)
        seen += len(indices)
    return seen


def _extent(entry: FileEntry) -> tuple[int, str | None]:
    source = open_source(entry.path, "binary")
    try:
        return source.length, source.problem
    finally:
        source.close()
