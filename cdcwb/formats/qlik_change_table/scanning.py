"""The first pass over one split: where its records begin and end, how many there are, and what they say of masks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from cdcwb.formats.files import open_source
from cdcwb.formats.qlik_change_table.control import Ddl, by_name, ddl_of
from cdcwb.formats.qlik_change_table.dialect import DEFAULT
from cdcwb.formats.qlik_change_table.evidence import SAMPLE, Evidence, look_at
from cdcwb.formats.qlik_change_table.facts import DDL_HISTORY, ROWS
from cdcwb.formats.qlik_change_table.framing import count_quotes, find_start
from cdcwb.formats.qlik_change_table.plan import FileEntry, Shape
from cdcwb.formats.qlik_change_table.reading import Part, csv_parts, iter_parts
from cdcwb.formats.qlik_change_table.rows import Rows
from cdcwb.model import Kind, OffsetUnit

__all__ = ["EVERYTHING", "QuoteTask", "Scan", "ScanTask", "count", "scan"]

EVERYTHING: Final = 1 << 62
"""A stop behind the end of every file."""

_MOST_DDL: Final = 100_000  # rows of DDL history that are looked at


@dataclass(frozen=True, slots=True)
class QuoteTask:
    """Quotes of a delimited file in ``[start, stop)``."""

    path: str
    shape: Shape
    start: int
    stop: int


def count(task: QuoteTask) -> int:
    """How many quotes there are."""
    source = open_source(task.path, "binary")
    try:
        return count_quotes(source, task.start, task.stop, task.shape.dialect or DEFAULT)
    finally:
        source.close()


@dataclass(frozen=True, slots=True)
class ScanTask:
    """A split. ``begin``: where its first record begins if that is known; else ``inside`` says whether its start lies
    in quotes, as far as the quotes before it tell."""

    index: int  # of the file
    entry: FileEntry
    shape: Shape
    charset: str
    start: int
    stop: int
    begin: int | None
    inside: bool
    control: str | None
    key: tuple[str, ...]
    spelling: str | None  # of masks, where it was given
    cut: bool  # there are more splits of the file
    groups: int  # row groups of a Parquet file, -1 for others


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
        parts = iter_parts(entry, shape, task.charset, task.start, task.stop)
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
        dialect = shape.dialect or DEFAULT
        begin = task.begin
        if begin is None:
            begin = max(find_start(source, task.start, dialect, task.inside), entry.first)
        found = Scan(begin, begin, size=source.length, problem=source.problem)
        parts = csv_parts(source, entry, shape, task.charset, begin, task.stop)
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
    if wanted and task.cut:
        seen = 0
        for part in iter_parts(task.entry, task.shape, task.charset, 0, EVERYTHING if task.groups < 0 else task.groups):
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
