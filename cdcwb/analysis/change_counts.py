"""Aggregates over headers of changes. Each is a pair of functions: one computes a partial result, one merges partial
results. The input is the local index or a batch of a table (:mod:`cdcwb.dataset`).

Dictionary codes differ from batch to batch, so results use texts. Times are microseconds since 1970 UTC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cache, partial
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import dataset
from cdcwb.analysis import frames
from cdcwb.dataset import Fold, Rows
from cdcwb.index.columns import NO_TIME, Bools, Headers, Ints, headers_of
from cdcwb.index.selected_capture import HeaderRows
from cdcwb.model import Operation
from cdcwb.times import TimeAxis, axis_of, time_of

NOT_GIVEN: Final = "not given"
"""The operation of changes without one."""

_MOST_PAIRED: Final = 64  # changed columns of one update that are counted in pairs
_SETS: Final = 4096  # sets of changed columns that are paired in one product

Record = dict[str, Any]
T = TypeVar("T")


def of_all(rows: Rows, ask: Callable[[Headers, Bools], T], merge: Callable[[Sequence[T]], T]) -> T:
    """The result of a pair of functions over all changes of a table (:meth:`cdcwb.dataset.Rows.fold`)."""
    if isinstance(rows, HeaderRows):
        headers = rows.headers
        return merge([ask(headers, headers.everything)] if len(headers) else [])

    def ask_all(batch: pa.RecordBatch) -> T:
        headers = headers_of(batch)
        return ask(headers, headers.everything)

    return rows.fold(ask_all, merge)


def together(rows: Rows, *questions: Fold) -> list[Callable[[], Any]]:
    """The results of several pairs of functions over all changes of a table, each when it is asked for. One pass gives
    them all; the index answers each alone."""
    if isinstance(rows, HeaderRows):
        return [cache(partial(of_all, rows, *question)) for question in questions]
    every = cache(partial(of_all, rows, *dataset.together(*questions)))
    return [lambda number=number: every()[number] for number in range(len(questions))]  # type: ignore[misc]


def time_axis(
    rows: Rows,
    times: Callable[[Headers], Ints],
    first: datetime | None = None,
    last: datetime | None = None,
    sampled: Callable[[], frames.Sample] | None = None,
) -> TimeAxis | None:
    """See :func:`cdcwb.analysis.frames.time_axis`; ``times`` of headers."""
    if isinstance(rows, HeaderRows):
        at = times(rows.headers)
        return axis_of(at[at != NO_TIME])
    sample = None if sampled is None else sampled()
    return frames.time_axis(rows, lambda batch: times(headers_of(batch)), first, last, sample)


def added(parts: Iterable[Counter[Any]]) -> Counter[Any]:
    """The sum of several counts."""
    total: Counter[Any] = Counter()
    for part in parts:
        total.update(part)
    return total


def groups(times: Ints | None, *columns: npt.NDArray[Any]) -> list[Ints]:
    """The distinct rows of columns of numbers, and the number of changes of each (the sum of ``times``, if given)."""
    names = [str(number) for number in range(len(columns))]
    rows = pa.table([*columns, *([] if times is None else [times])], [*names, *([] if times is None else ["times"])])
    count = ([], "count_all") if times is None else ("times", "sum")
    totals = rows.group_by(names, use_threads=False).aggregate([count])
    return [np.asarray(column).astype(np.int64) for column in totals.columns]


def counted(
    times: Ints | None, columns: Sequence[npt.NDArray[Any]], texts: Sequence[Sequence[str] | None]
) -> Counter[Any]:
    """The number of changes for each combination of numbers, or of their ``texts`` (one list for each column)."""
    *numbers, counts = (group.tolist() for group in groups(times, *columns))
    named = [[meant[code] for code in group] if meant else group for group, meant in zip(numbers, texts, strict=True)]
    keys = named[0] if len(named) == 1 else zip(*named, strict=True)
    return Counter(dict(zip(keys, counts, strict=True)))


# --- changes over time and by table -----------------------------------------------------------------------------------


def over_time(headers: Headers, mask: Bools, start: int, width_us: int) -> Counter[tuple[int | None, str]]:
    """The number of changes for each bin (from 0 at ``start``; None: without a time) and operation. Merged by
    :func:`added`."""
    names, codes = [NOT_GIVEN, *headers.texts["operation"]], headers.codes["operation"] + 1
    return binned(headers.at[mask], codes[mask], names, start=start, width_us=width_us)


def binned(
    at: Ints, codes: npt.NDArray[Any], names: Sequence[str], *, start: int, width_us: int
) -> Counter[tuple[int | None, str]]:
    """The number of times for each bin (from 0 at ``start``; None: not known) and name. Merged by :func:`added`."""
    timed = at != NO_TIME
    counts = counted(None, [(at[timed] - start) // width_us, codes[timed]], [None, names])
    without = counted(None, [codes[~timed]], [names])
    return added([counts, Counter({(None, name): times for name, times in without.items()})])


def over_time_rows(
    counts: Counter[tuple[int | None, str]], start: int, width_us: int
) -> tuple[list[Record], dict[str, int]]:
    """A row for each bin and operation: ``began_at``, ``operation``, ``changes``; and the changes without a time, by
    operation."""
    timed = sorted((number, operation, times) for (number, operation), times in counts.items() if number is not None)
    rows = [
        {"began_at": time_of(start + number * width_us), "operation": operation, "changes": times}
        for number, operation, times in timed
    ]
    return rows, dict(sorted((name, times) for (number, name), times in counts.items() if number is None))


ByTable = tuple[Counter[tuple[str, str]], dict[tuple[str, str], Any]]
"""The number of changes by table and operation; and facts about the changes by table and name of the fact."""

_ENDS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "first_time": min,
    "last_time": max,
    "first_position": min,
    "last_position": max,
}


def by_table(headers: Headers, mask: Bools) -> ByTable:
    """Operations, times and positions of the changes of each table; merged by :func:`merge_tables`. Positions are those
    of all rows."""
    tables, operations = headers.texts["table"], [NOT_GIVEN, *headers.texts["operation"]]
    codes, timed = headers.codes["table"], mask & headers.timed
    columns = [codes[mask], headers.codes["operation"][mask] + 1]
    counts = counted(None, columns, [tables, operations])
    first, last = np.full(len(tables), np.iinfo(np.int64).max), np.full(len(tables), NO_TIME)
    np.minimum.at(first, codes[timed], headers.at[timed])
    np.maximum.at(last, codes[timed], headers.at[timed])
    ends: dict[tuple[str, str], Any] = {}
    for code in np.flatnonzero(last != NO_TIME):
        ends[tables[code], "first_time"], ends[tables[code], "last_time"] = time_of(first[code]), time_of(last[code])
    if (texts := headers.position) is not None:
        order = np.argsort(codes, kind="stable")
        texts = texts.take(pa.array(order))
        edges = np.searchsorted(codes[order], np.arange(len(tables) + 1))
        for number, (begin, end) in enumerate(pairwise(edges.tolist())):
            bounds = pc.min_max(texts[begin:end]).as_py()
            if bounds["min"] is not None:
                ends[tables[number], "first_position"] = bounds["min"]
                ends[tables[number], "last_position"] = bounds["max"]
    return counts, ends


def merge_tables(parts: Sequence[ByTable]) -> ByTable:
    """The merged results of :func:`by_table`."""
    ends: dict[tuple[str, str], Any] = {}
    for _, part in parts:
        for key, value in part.items():
            ends[key] = _ENDS[key[1]](ends.get(key, value), value)
    return added(counts for counts, _ in parts), ends


def table_rows(totals: ByTable) -> list[Record]:
    """A row for each table: ``table``, ``changes``, ``operations`` (pairs of operation and number, most first),
    ``first_time``, ``last_time``, ``first_position``, ``last_position`` (None where unknown); most changed first."""
    counts, ends = totals
    done: dict[str, list[tuple[str, int]]] = {}
    for (table, operation), times in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        done.setdefault(table, []).append((operation, times))
    rows = [
        {"table": table, "changes": sum(times for _, times in operations), "operations": operations}
        | {name: ends.get((table, name)) for name in _ENDS}
        for table, operations in done.items()
    ]
    return sorted(rows, key=lambda row: (-row["changes"], row["table"]))


# --- changed columns --------------------------------------------------------------------------------------------------


def updates(headers: Headers, mask: Bools) -> Bools:
    """The selected updates."""
    texts = headers.texts["operation"]
    if Operation.UPDATE not in texts:
        return np.zeros(len(mask), np.bool_)
    return mask & (headers.codes["operation"] == texts.index(Operation.UPDATE))


@dataclass(frozen=True, slots=True)
class Changed:
    """Which columns updates changed. By table: ``updates``; ``known``: updates whose changed columns are known;
    ``idle``: those of them that changed no column. ``columns``: the updates that changed a column, by table and
    column. ``pairs``: the updates that changed both columns, by table and two column names in alphabetical order, if
    requested."""

    updates: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    idle: Counter[str] = field(default_factory=Counter)
    columns: Counter[tuple[str, str]] = field(default_factory=Counter)
    pairs: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    @property
    def tables(self) -> list[str]:
        """The tables with updates, most updates first."""
        return sorted(self.updates, key=lambda name: (-self.updates[name], name))

    def share(self, table: str, column: str) -> Record:
        """``updates`` (with known changed columns), ``changed`` (those that changed the column), ``share`` (from 0 to
        1; None without updates)."""
        known, number = self.known[table], self.columns[table, column]
        return {"updates": known, "changed": number, "share": number / known if known else None}

    def changed_columns(self) -> list[Record]:
        """A row for each changed column: ``table``, ``column``, and its :meth:`share`; by table, then most changed
        first."""
        rows = [{"table": table, "column": name} | self.share(table, name) for table, name in self.columns]
        return sorted(rows, key=lambda row: (row["table"], -row["changed"], row["column"]))

    def together(self, limit: int = 200) -> list[Record]:
        """Which columns change in the same update: ``table``, ``column``, ``other``, ``together`` (updates that changed
        both), ``column_changed``, ``other_changed``, ``likeness`` (updates that changed both divided by those that
        changed either, from 0 to 1). The ``limit`` most frequent pairs, grouped by table."""
        rows: list[Record] = []
        for (table, column, other), number in sorted(self.pairs.items(), key=lambda item: (-item[1], item[0]))[:limit]:
            first, second = self.columns[table, column], self.columns[table, other]
            row = {"table": table, "column": column, "other": other, "together": number, "column_changed": first}
            rows.append(row | {"other_changed": second, "likeness": number / (first + second - number)})
        return sorted(rows, key=lambda row: row["table"])  # stable


def changed(headers: Headers, mask: Bools, paired: bool = False) -> Changed:
    """Which columns the selected updates changed; merged by :func:`merge_changed`.

    If an update changed more than 64 columns, only the first 64 by name are ``paired``.
    """
    chosen, names = updates(headers, mask), headers.texts["table"]
    tables, codes, times = groups(None, headers.codes["table"][chosen], headers.set[chosen])
    every = counted(times, [tables], [names])
    tables, codes, times = (array[codes >= 0] for array in (tables, codes, times))
    rows, columns = headers.columns_of(codes)
    idle = np.bincount(rows, minlength=len(codes)) == 0
    return Changed(
        every,
        counted(times, [tables], [names]),
        counted(times[idle], [tables[idle]], [names]),
        counted(times[rows], [tables[rows], columns], [names, headers.names]),
        added(_paired(headers, names[n], codes[tables == n], times[tables == n]) for n in np.unique(tables))
        if paired
        else Counter(),
    )


def _paired(headers: Headers, table: str, codes: Ints, times: Ints) -> Counter[tuple[str, str, str]]:
    """How often two columns are in the same set, counted with a matrix product."""
    rows, columns = headers.columns_of(codes, _MOST_PAIRED)
    present, columns = np.unique(columns, return_inverse=True)
    both = np.zeros((len(present), len(present)))
    for begin in range(0, len(codes), _SETS):
        part = slice(*np.searchsorted(rows, [begin, begin + _SETS]))
        held = np.zeros((min(_SETS, len(codes) - begin), len(present)))
        held[rows[part] - begin, columns[part]] = 1
        both += held.T @ (held * times[begin : begin + _SETS, None])
    names = [headers.names[number] for number in present.tolist()]
    return Counter({(table, names[a], names[b]): int(both[a, b]) for a, b in np.argwhere(np.triu(both, 1)).tolist()})


def merge_changed(parts: Sequence[Changed]) -> Changed:
    """The merged results of :func:`changed`."""
    return Changed(*(added(getattr(part, field.name) for part in parts) for field in fields(Changed)))


def changed_over_time(headers: Headers, mask: Bools, start: int, width_us: int) -> Counter[tuple[str, str, int]]:
    """How many of the selected updates changed each column, by table, column and bin (from 0 at ``start``); updates
    without a time are not counted. Merged by :func:`added`."""
    chosen = updates(headers, mask) & headers.timed & (headers.set >= 0)
    number = (headers.at[chosen] - start) // width_us
    tables, codes, bins, times = groups(None, headers.codes["table"][chosen], headers.set[chosen], number)
    rows, columns = headers.columns_of(codes)
    texts = [headers.texts["table"], headers.names, None]
    return counted(times[rows], [tables[rows], columns, bins[rows]], texts)


def changed_rows(counts: Counter[tuple[str, str, int]], start: int, width_us: int) -> list[Record]:
    """A row for each table, column and bin: ``table``, ``column``, ``bin``, ``began_at``, ``changed``."""
    return [
        {"table": table, "column": name, "bin": n, "began_at": time_of(start + n * width_us), "changed": times}
        for (table, name, n), times in sorted(counts.items())
    ]


# --- first changes ----------------------------------------------------------------------------------------------------


def first_by_table(headers: Headers) -> dict[str, int]:
    """The number of the first change of each table."""
    return {headers.texts["table"][code]: row for code, row in _first_rows(headers.codes["table"]).items()}


def first_by_column(headers: Headers) -> dict[tuple[str, str], int]:
    """The number of the first update that changed a column, by table and column."""
    size = max(1, len(headers.sets))
    known = updates(headers, headers.everything) & (headers.set >= 0)
    codes = np.where(known, headers.codes["table"].astype(np.int64) * size + headers.set, -1)
    first: dict[tuple[str, str], int] = {}
    for code, row in _first_rows(codes).items():
        for name in headers.sets[code % size]:
            key = headers.texts["table"][code // size], name
            first[key] = min(first.get(key, row), row)
    return first


def first_update(headers: Headers, table: str, columns: set[str], times: tuple[int, int] | None = None) -> int | None:
    """The number of the first update of a table that changed all ``columns``; ``times``: between these, both included
    (microseconds since 1970 UTC)."""
    sets = [code for code, names in enumerate(headers.sets) if columns <= {*names}]
    mask = updates(headers, headers.everything) & np.isin(headers.set, sets)
    mask &= headers.codes["table"] == headers.texts["table"].index(table)
    return first_change(headers, times, mask)


def first_change(headers: Headers, times: tuple[int, int] | None = None, mask: Bools | None = None) -> int | None:
    """The number of the first change of a mask, between two ``times``."""
    mask = headers.everything if mask is None else mask
    if times is not None:
        mask = mask & (headers.at >= times[0]) & (headers.at <= times[1])
    rows = np.flatnonzero(mask)
    return int(rows[0]) if len(rows) else None


def _first_rows(codes: npt.NDArray[Any]) -> dict[int, int]:
    """The first row with each code from 0."""
    rows = np.flatnonzero(codes >= 0)[::-1]
    first = np.full(int(codes.max(initial=-1)) + 1, -1, np.int64)
    first[codes[rows]] = rows  # the last assignment, that of the first row, wins
    return {code: int(first[code]) for code in np.flatnonzero(first >= 0).tolist()}
