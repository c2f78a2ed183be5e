"""Splits of rows that have positions: a split does not begin between rows of one position, so that both halves of an
update are in one split, unless the rows of several splits are not in the order of their positions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.changes import joined
from cdcwb.formats.halves import Halved, overlaps
from cdcwb.formats.tabular.file import CSV, EXCEL, PARQUET, SQL
from cdcwb.formats.tabular.splits import Scan, Stretch
from cdcwb.model import Kind

__all__ = ["RowScan", "Split", "row_kinds", "splits_of"]


@cache  # an array that is made by an import would import pandas with it
def row_kinds() -> pa.Array:
    """The kinds of rows of tables."""
    return pa.array([str(Kind.CHANGE), str(Kind.BEFORE), str(Kind.AFTER)])


@dataclass(frozen=True, slots=True)
class Split:
    """The records of a file that begin in ``[start, stop)``: bytes, or row groups of a Parquet file. ``ends``: the
    least and greatest position of its rows; ``halved``: see :class:`cdcwb.formats.halves.Halving`; ``before``: the
    number of rows that precede them in the capture."""

    file: int
    start: int
    stop: int
    ends: tuple[str, str] | None
    halved: Halved
    before: int = 0


@dataclass(slots=True)
class RowScan(Scan):
    """What a stretch has. ``edges``: its first and last row with a position; ``lead``: the offset of the first row with
    another position than its first one; ``ends``: the least and greatest position from there on. ``evidence``: see
    :meth:`cdcwb.formats.table_rows.TableRows.examine`."""

    edges: tuple[pa.RecordBatch, pa.RecordBatch] | None = None
    lead: int | None = None
    ends: tuple[str, str] | None = None
    befores: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    evidence: Any = None

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


def _around(one: tuple[str, str] | None, two: tuple[str, str] | None) -> tuple[str, str] | None:
    """The range of two ranges of positions."""
    return two if one is None else one if two is None else (min(one[0], two[0]), max(one[1], two[1]))


def splits_of(groups: Sequence[Any], stretches: Sequence[Stretch], scans: Sequence[RowScan]) -> list[Split]:
    """The splits. Rows at the beginning of a stretch that have the position of the last row before them are read with
    that row: text is cut after them, row groups of Parquet are read together. ``groups``: for each file, what is equal
    for files that may have the other halves of its updates."""
    splits: list[Split] = []
    last: tuple[int, str] | None = None  # file and position of the last row
    for stretch, scan in zip(stretches, scans, strict=True):
        kind, ends, file = stretch.file.kind, scan.ends, stretch.index
        start = scan.begin if kind in (CSV, SQL) and stretch.start else stretch.start
        stop = stretch.stop if kind in (PARQUET, EXCEL) else min(stretch.stop, stretch.entry.size)
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
