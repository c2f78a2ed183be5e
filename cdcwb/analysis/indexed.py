"""Analyses of the selected changes, computed from the local index in milliseconds. They return what
:mod:`cdcwb.analysis.contents` and :mod:`cdcwb.analysis.masks` compute for a complete capture. Results are small."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cdcwb.analysis import change_counts
from cdcwb.analysis.contents import BINS, Done
from cdcwb.index.changes import Changes
from cdcwb.index.columns import Bools
from cdcwb.index.selected import TIME, Selected
from cdcwb.time_axis import TimeAxis, axis_of

__all__ = [
    "changed_over_time",
    "facets",
    "first_of_sets",
    "first_records",
    "over_time",
    "tables",
]

_FACETS: Final = {"tables": "table", "operations": "operation", "outcomes": "outcome"}

Record = dict[str, Any]


def facets(selected: Selected) -> dict[str, list[tuple[str, int]]]:
    """The values of a field, and the number of selected changes with each, most first; the selection of the field
    itself is ignored. Fields: tables, operations, outcomes, users, columns."""
    changes, users = selected.changes, selected.changes.transactions.texts["user"]
    fields = {name: (changes.codes[column], changes.texts[column]) for name, column in _FACETS.items()}
    counts_of = {}
    for name, (codes, texts) in (fields | {"users": (changes.users, users)}).items():
        mask = selected.mask([name]) & (codes >= 0)
        numbers = np.bincount(codes[mask], minlength=len(texts)).tolist()
        counts_of[name] = sorted(zip(texts, numbers, strict=True), key=lambda item: (-item[1], item[0]))
    mask = selected.mask(["columns"]) & (changes.set >= 0)
    times = np.bincount(changes.set[mask], minlength=len(changes.sets))
    columns: Counter[str] = Counter()
    for code in np.flatnonzero(times).tolist():
        for name in changes.sets[code]:
            columns[name] += int(times[code])
    counts_of["columns"] = sorted(columns.items(), key=lambda item: (-item[1], item[0]))
    return counts_of


def over_time(selected: Selected) -> Done:
    """Changes over time; the selection of times is ignored, because users select times in this chart."""
    changes, mask = selected.changes, selected.mask(TIME)
    axis = _axis(changes, mask)
    start, width = (0, 1) if axis is None else axis.bins(BINS)
    return Done(
        *change_counts.over_time_rows(change_counts.over_time(changes, mask, start, width), start, width), width, axis
    )


def _axis(changes: Changes, mask: Bools) -> TimeAxis | None:
    return axis_of(changes.at[mask & changes.timed])


# --- tables and columns -----------------------------------------------------------------------------------------------


def tables(changes: Changes, mask: Bools) -> list[Record]:
    """A row for each table with selected changes: the columns of :func:`cdcwb.analysis.change_counts.table_rows`, and
    ``record``, the record of its first change."""
    first = first_records(changes, mask, changes.codes["table"])
    rows = change_counts.table_rows(change_counts.by_table(changes, mask))
    codes = {name: code for code, name in enumerate(changes.texts["table"])}
    return [{**row, "record": first.get(codes[row["table"]])} for row in rows]


def first_records(changes: Changes, mask: Bools, codes: npt.NDArray[Any]) -> dict[int, int]:
    """The record of the first selected change with each code from 0."""
    rows = np.flatnonzero(mask & (codes >= 0))[::-1]
    first = np.full(int(codes.max(initial=-1)) + 1, -1, np.int64)
    first[codes[rows]] = changes.record[rows]  # the last assignment, that of the first change, wins
    return {code: int(first[code]) for code in np.flatnonzero(first >= 0).tolist()}


def first_of_sets(changes: Changes, mask: Bools) -> dict[str, dict[int, int]]:
    """The record of the first selected update of each table that changed a set of columns, by table and code of the
    set; only known sets."""
    size = max(1, len(changes.sets))
    codes = changes.codes["table"].astype(np.int64) * size + changes.set
    records: dict[str, dict[int, int]] = defaultdict(dict)
    for key, record in first_records(changes, change_counts.updates(changes, mask) & (changes.set >= 0), codes).items():
        records[changes.texts["table"][key // size]][key % size] = record
    return records


def changed_over_time(changes: Changes, mask: Bools, bins: int = 60) -> tuple[list[Record], int, TimeAxis | None]:
    """How often each column was changed over time: rows of :func:`cdcwb.analysis.change_counts.changed_rows`, the width
    of a bin in microseconds, and the axis."""
    axis = _axis(changes, change_counts.updates(changes, mask) & (changes.set >= 0))
    if axis is None:
        return [], 1, None
    start, width = axis.bins(bins)
    return (
        change_counts.changed_rows(change_counts.changed_over_time(changes, mask, start, width), start, width),
        width,
        axis,
    )
