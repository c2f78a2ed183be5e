"""Splits of captures of rows, and the first pass that finds them.

Files are cut into ranges, which are scanned in parallel. A split does not begin between rows of one position, so that
both halves of an update are in one split, unless the rows of several splits are not in the order of their positions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.changes import Halved, joined, overlaps
from cdcwb.formats.containers.delimited import DEFAULT, likely_start
from cdcwb.formats.containers.rows import CSV, EXCEL, FILE_END, PARQUET, FileProbe, RowSegments
from cdcwb.formats.containers.tables import csv_parts, group_starts, read_parts
from cdcwb.formats.files import open_source
from cdcwb.model import Kind, OffsetUnit


@cache  # an array that is made by an import would import pandas with it
def row_kinds() -> pa.Array:
    """The kinds of rows of tables."""
    return pa.array([str(Kind.CHANGE), str(Kind.BEFORE), str(Kind.AFTER)])


@dataclass(frozen=True, slots=True)
class FileRange:
    """Some of file number ``index`` of a capture: bytes, or row groups of a Parquet file. ``begin``: the start of its
    first record, None if unknown. ``alone``: it is the complete file."""

    index: int
    entry: Any
    start: int
    stop: int
    begin: int | None
    alone: bool

    @property
    def file(self) -> FileProbe:
        """The facts for reading its file."""
        probe: FileProbe = self.entry.probe
        return probe


@dataclass(slots=True)
class RowScan:
    """The result of scanning a range.

    * the records that begin in it are ``[begin, end)``; ``rows``: their number; ``filler``: the rows of a sheet that
      are not records, such as the header line
    * ``size`` (bytes of the decompressed file) and ``problem`` are those of the file
    * ``malformed``: the first segment that is not a record, with its offset and the reason
    * ``edges``: its first and last row with a position; ``lead``: the offset of the first row with another position
      than its first one; ``ends``: the least and greatest position from there on; ``befores``: whether it has before
      halves of updates
    * ``evidence``: see :meth:`cdcwb.formats.table_rows.TableRows.examine`
    """

    begin: int
    end: int
    rows: int = 0
    filler: int = 0
    size: int = 0
    problem: str | None = None
    malformed: tuple[int, str] | None = None
    edges: tuple[pa.RecordBatch, pa.RecordBatch] | None = None
    lead: int | None = None
    ends: tuple[str, str] | None = None
    befores: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    evidence: Any = None

    def nothing(self, begin: int) -> Self:
        """See :class:`cdcwb.formats.dissector.Scanned`."""
        return type(self)(begin, begin, size=self.size, problem=self.problem)

    def take_gaps(self, part: RowSegments) -> None:
        """Adds the gaps of a part."""
        for gap in part.gaps:
            if gap.kind is Kind.MALFORMED and self.malformed is None:
                self.malformed = int(part.offset[gap.index]), gap.reason
            if gap.kind is Kind.FILLER and part.unit is OffsetUnit.ROW:
                self.filler += int(part.length[gap.index])

    def take(self, events: pa.RecordBatch, count: Callable[[pa.RecordBatch], Mapping[str, int]]) -> None:
        """Adds events, in order."""
        wrong = pc.index(events["kind"], str(Kind.MALFORMED)).as_py()
        if wrong >= 0 and self.malformed is None:
            self.malformed = events["offset"][wrong].as_py(), events["problems"][wrong].as_py()[0]["detail"]
        self.befores = self.befores or pc.index(events["kind"], str(Kind.BEFORE)).as_py() >= 0
        rows = events.filter(pc.and_(pc.is_in(events["kind"], row_kinds()), pc.is_valid(events["position"])))
        if not rows.num_rows:
            return
        self.counts.update(count(rows if self.edges is None else joined(self.edges[1], rows)))
        self.edges = (self.edges or (rows.slice(0, 1),))[0], rows.slice(rows.num_rows - 1)
        if self.lead is None:
            differs = pc.index(pc.not_equal(rows["position"], rows["position"][0]), True).as_py()
            first = self.edges[0]["position"][0].as_py() != rows["position"][0].as_py()
            differs = 0 if first else differs
            if differs < 0:
                return
            self.lead, rows = rows["offset"][differs].as_py(), rows.slice(differs)
        found = pc.min_max(rows["position"]).as_py()
        self.ends = _around(self.ends, (found["min"], found["max"]))


@dataclass(frozen=True, slots=True)
class Split:
    """The records of a file that begin in ``[start, stop)``: bytes, or row groups of a Parquet file. ``ends``: the
    least and greatest position of its rows; ``halved``: see :class:`cdcwb.formats.changes.Halving`; ``before``: the
    number of rows that precede them in the capture."""

    file: int
    start: int
    stop: int
    ends: tuple[str, str] | None
    halved: Halved
    before: int = 0


# --- cutting ----------------------------------------------------------------------------------------------------------


def cut(files: Sequence[Any], split_size: int) -> list[FileRange]:
    """The ranges of all files, in order: pieces of ``split_size`` bytes of uncompressed delimited text and
    lines of JSON, row groups of about as many bytes of Parquet, complete files otherwise."""
    ranges: list[FileRange] = []
    for index, entry in enumerate(files):
        cuts = _cuts(entry.probe, split_size)
        for start, stop in cuts:
            begin = start if start == 0 or entry.probe.kind != CSV else None
            ranges.append(FileRange(index, entry, start, stop, begin, len(cuts) == 1))
    return ranges


def _cuts(file: FileProbe, split_size: int) -> list[tuple[int, int]]:
    if file.kind == PARQUET:
        return list(pairwise([*group_starts(file.groups, split_size), len(file.groups)]))
    if file.kind == EXCEL:
        return [(0, FILE_END)]
    can_cut = file.compression is None and (file.kind == CSV or file.settings.get("kind") == "lines")
    if not can_cut or file.size <= split_size:
        return [(0, FILE_END if file.compression is not None else file.size)]
    return [(start, min(start + split_size, file.size)) for start in range(0, file.size, split_size)]


# --- the first pass ---------------------------------------------------------------------------------------------------


def read_range(one: FileRange, found: RowScan, upper: frozenset[int] = frozenset()) -> Iterator[RowSegments]:
    """The parts of a range, for the first pass over it (:func:`cdcwb.formats.containers.tables.read_parts`). ``found``
    (the bounds of its records, and facts of the file) is valid after the parts have been read."""
    file = one.file
    found.begin, found.end, found.size, found.problem = one.start, one.stop, file.size, file.problem
    if file.kind != CSV:
        if file.compression is not None:
            with open_source(file.path, "binary", size=file.size) as source:
                found.size, found.problem = source.length, source.problem or file.problem
        yield from read_parts(file, one.start, one.stop, upper)
        return
    with open_source(file.path, "binary", size=file.size) as source:
        found.size, found.problem = source.length, source.problem or file.problem
        begin = one.begin
        if begin is None:
            begin = max(likely_start(source, one.start, file.dialect or DEFAULT, file.width), file.first)
        found.begin = found.end = begin
        for part in csv_parts(source, file, begin, one.stop):
            found.end = int(part.offset[-1] + part.length[-1]) if len(part.offset) else found.end
            yield part


# --- splits -----------------------------------------------------------------------------------------------------------


def _around(one: tuple[str, str] | None, two: tuple[str, str] | None) -> tuple[str, str] | None:
    """The range of two ranges of positions."""
    return two if one is None else one if two is None else (min(one[0], two[0]), max(one[1], two[1]))


def splits_of(groups: Sequence[Any], ranges: Sequence[FileRange], scans: Sequence[RowScan]) -> list[Split]:
    """The splits. Rows at the beginning of a range that have the position of the last row before them are read with
    that row: text is cut after them, row groups of Parquet are read together. ``groups``: for each file, what is equal
    for files that may have the other halves of its updates."""
    splits: list[Split] = []
    last: tuple[int, str] | None = None  # file and position of the last row
    for one, scan in zip(ranges, scans, strict=True):
        kind, ends, file = one.file.kind, scan.ends, one.index
        start = scan.begin if kind == CSV and one.start else one.start
        stop = one.stop if kind in (PARQUET, EXCEL) else min(one.stop, one.entry.size)
        if start >= stop:
            continue
        halved = Halved(scan.befores)
        if scan.edges is not None:
            first, final = (row["position"][0].as_py() for row in scan.edges)
            if last != (file, first):
                ends = _around(ends, (first, first))
            else:
                before = splits.pop()
                halved, of_both = Halved(scan.befores or before.halved.befores), _around(before.ends, (first, first))
                if scan.lead is None or kind == PARQUET:
                    start, ends = before.start, _around(of_both, ends)
                else:
                    start = scan.lead
                    splits.append(replace(before, stop=start, ends=of_both, halved=halved))
            last = file, final
        splits.append(Split(file, start, stop, ends, halved))
    numbers: dict[Any, list[int]] = {}
    for at, split in enumerate(splits):
        if split.ends is not None:
            numbers.setdefault(groups[split.file], []).append(at)
    for some in numbers.values():
        if any(splits[at].halved.befores for at in some):
            shared = overlaps([splits[at].ends or ("", "") for at in some])
            for at in some:
                splits[at] = replace(splits[at], halved=Halved(splits[at].halved.befores, shared))
    return splits
