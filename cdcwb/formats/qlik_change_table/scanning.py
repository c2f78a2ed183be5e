"""The first pass over one split: where its records begin and end, how many there are, and what they say of masks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from cdcwb.formats.files import open_source
from cdcwb.formats.qlik_change_table.control import Ddl, by_name, ddl_of
from cdcwb.formats.qlik_change_table.evidence import SAMPLE, Evidence, look_at
from cdcwb.formats.qlik_change_table.facts import DDL_HISTORY, ROWS
from cdcwb.formats.qlik_change_table.layout import Part, Rows
from cdcwb.formats.qlik_change_table.plan import FileEntry, Shape
from cdcwb.formats.qlik_change_table.reading import iter_parts
from cdcwb.formats.tabular import EVERYTHING, Stretch, begin_of
from cdcwb.formats.tabular.parts import csv_parts
from cdcwb.model import Kind, OffsetUnit

__all__ = ["Scan", "ScanTask", "ddl_rows", "scan"]

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
    no record, its place and why. ``size`` and ``problem`` are those of the file."""

    begin: int
    end: int
    rows: int = 0
    size: int = 0
    problem: str | None = None
    malformed: tuple[int, str] | None = None
    evidence: Evidence = field(default_factory=Evidence)
    ddl: list[Ddl] = field(default_factory=list)

    def nothing(self, begin: int) -> Scan:
        """The same for a split in which no record begins."""
        return Scan(begin, begin, size=self.size, problem=self.problem)

    def take(self, part: Part, task: ScanTask) -> None:
        """One more part."""
        for indices, rows in part.rows:
            self.rows += len(indices)
            if task.control == DDL_HISTORY and len(self.ddl) < _MOST_DDL:
                self.ddl += ddl_rows(rows, task.index)
        for gap in part.gaps:
            if gap.kind is Kind.MALFORMED:
                place = int(part.offset[gap.index]), gap.reason
                self.malformed = place if self.malformed is None else min(self.malformed, place)
                if part.unit is OffsetUnit.ROW:
                    self.rows += int(part.length[gap.index])
        self.end = int(part.offset[-1] + part.length[-1]) if len(part.offset) else self.end


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
                break  # its footer tells the rest
        found.begin, found.end = task.start, task.stop
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
