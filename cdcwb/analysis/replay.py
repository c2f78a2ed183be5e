"""Replay: the rows of a table at a position or time, from the changes that were committed by then, and their number
over time.

Changes count in commit order. An image may have only some columns; the others keep their values. So the value of a
column is the last one written since the row was inserted, under any key that it had.
"""

from __future__ import annotations

import datetime as dt
import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import partial
from itertools import accumulate
from operator import itemgetter, or_
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.history import shown_cells
from cdcwb.analysis.images import MAP, Bools, Ints, Keys, are_committed, maps_of, of_table, ranks, times
from cdcwb.analysis.keys import (
    FACTS,
    LAST,
    Keyed,
    KnownTable,
    Move,
    Order,
    Tenure,
    changes_of,
    find_table,
    known_of,
    named,
    orders,
    tenures,
)
from cdcwb.dataset import Batches, Rows, answer_of, are_first, joined, run_starts
from cdcwb.errors import OptionError
from cdcwb.filters import as_flags
from cdcwb.index.images import Pairs
from cdcwb.model import CHANGES, Operation
from cdcwb.times import micros, time_of

_REPLAYED: Final = (*FACTS, "table_version")
_LAST: Final = (
    *(("changes", pa.int64()), ("table_version", pa.string()), ("position", pa.string())),
    *(("commit_position", pa.string()), ("committed_at", CHANGES.field("committed_at").type)),
)
STATE: Final = pa.schema([("key", MAP), ("row", MAP), ("partial", pa.bool_()), *_LAST])
"""The rows of a table. A column that is not in ``row`` is unknown. ``partial``: the capture has neither the row's
insert nor all of its columns. ``changes``: their number; the other columns are those of the last change."""

_ORDER: Final = ("commit", "position", "file_index", "offset")
_EFFECTS: Final = pa.schema(
    [
        *(("row_key", pa.string()), ("commit", pa.string()), ("file_index", pa.int32()), ("offset", pa.int64())),
        *(("started", pa.bool_()), ("gone", pa.bool_()), ("epoch", pa.int64()), ("bin", pa.int64())),
        *(("key", MAP), ("row", MAP), *_LAST),
    ]
)
"""What a change does to a row: ``row_key`` is the row's last key. The change begins it (``started``), or the row is
``gone`` after it. ``epoch`` is the number of TRUNCATEs before, ``bin`` that of the bin of time, -1 without a time."""
_NARROW: Final = pa.schema([_EFFECTS.field(name) for name in ("row_key", *_ORDER, "gone", "epoch", "bin")])
_STEPS: Final = pa.schema([("epoch", pa.int64()), ("bin", pa.int64()), ("step", pa.int64())])
_STARTS: Final = (str(Operation.INSERT), str(Operation.REFRESH))
_DELETE, _UPDATE, _TRUNCATE = str(Operation.DELETE), str(Operation.UPDATE), str(Operation.TRUNCATE)
_MOST_MOVES: Final = 10_000  # most key updates over which rows are followed; with more, each begins a new row


def state(capture: Any, table: str, position: str | None = None, time: dt.datetime | None = None) -> Rows:
    """The rows (:data:`STATE`) of ``table`` (``schema.table``, or ``table``) after all changes that were committed at
    or before ``position`` (a log position) and ``time`` (aware); None: to the end of the capture. ``capture`` is
    anything with the rows of a capture (:meth:`cdcwb.Capture.rows`).

    A full load and an event log have no commits: their rows are applied in the order of their positions, those without
    a position first. Rolled back, undone and open changes do not count.

    Raises OptionError for a table without changes or whose changes all lack a key.
    """
    known = find_table(known_of(capture).tables, table)
    if not known.keyed:
        option = f"keys={known.table}:c1+c2"
        raise OptionError(f"no change of {known.table!r} has a key; name its columns with the option {option}")
    return TableReplay(capture, known, position, time).rows()


@dataclass(frozen=True)
class TableReplay:
    """The replay of a table whose changes have keys, or for which ``keys`` names one, up to a position and a time (see
    :func:`state`)."""

    capture: Any
    known: KnownTable
    position: str | None = None
    time: dt.datetime | None = None
    keys: Keyed | None = None

    def rows(self) -> Rows:
        """The rows (:data:`STATE`)."""
        effects = self._effects
        alive = self._changes.map(effects, _EFFECTS)
        alive = alive.where(lambda batch: pc.equal(batch["epoch"], len(effects.truncates)))
        columns = {row["table_version"]: {column["name"] for column in row["columns"] or ()} for row in self._versions}
        return alive.reduce_by_key(["row_key"], _ORDER, _last_state).map(partial(_as_rows, columns), STATE)

    def growth(self, first: dt.datetime, width_us: int) -> list[tuple[dt.datetime | None, int]]:
        """The number of rows at the end of each time bin of ``width_us`` microseconds, from ``first`` (aware): the end
        of the bin and the number, for bins in which it changed. The first item (None) is the number from changes
        without a time. The last number is that of :meth:`rows`."""
        effects = replace(self._effects, bins=(micros(first), width_us))
        narrow = self._changes.map(lambda batch: effects(batch).select(_NARROW.names), _NARROW)
        counts = narrow.by_key(["row_key"], _ORDER, _steps, _STEPS).totals({"step": "sum"})
        by_epoch, by_bin = Counter[int](), Counter[int]()
        for row in counts.to_pylist():
            by_bin[row["bin"]] += row["step"]
            by_epoch[row["epoch"]] += row["step"]
        emptied = effects.numbers_of(pa.array([at for _, at in effects.truncates], pa.int64()))
        for epoch, number in enumerate(emptied.tolist()):  # the TRUNCATE removes all rows of its epoch
            by_bin[number] -= by_epoch[epoch]
        numbers = sorted(by_bin)
        ends = (None if number < 0 else time_of(micros(first) + (number + 1) * width_us) for number in numbers)
        return list(zip(ends, accumulate(by_bin[number] for number in numbers), strict=True))

    def over_time(self) -> list[tuple[dt.datetime | None, int]]:
        """The number of rows over time (:meth:`growth`), in up to 300 steps; empty if no change has a time."""
        first, last = self.known.first, self.known.last
        if first is None or last is None:
            return []
        span = (min(last, self.time or last) - first) // dt.timedelta(microseconds=1) + 1
        return self.growth(first, max(1, math.ceil(span / _BINS)))

    def shown(self) -> Replayed:
        """The number of rows, and the first of them."""
        rows, part, first = self.rows().fold(_overview, _merged_overviews)
        used = {row["table_version"] for row in first}
        versions = [version for version in self._versions if version["table_version"] in used]
        versions.sort(key=lambda version: version["table_version"] or "")
        declared = [column["name"] for version in versions for column in version["columns"] or ()]
        in_keys, further = ([name for row in first for name, _ in row[image]] for image in ("key", "row"))
        cells, columns = shown_cells(
            [dict([*row["key"], *row["row"]]) for row in first], [*in_keys, *declared, *further]
        )
        about = [{name: row[name] for name in ("partial", "changes", "position")} for row in first]
        headings = {"partial": "partial", "changes": "changes", "position": "last position"}
        return Replayed(rows, part, list(map(or_, cells, about)), columns | headings)

    @property
    def _changes(self) -> Rows:
        return changes_of(self.capture, _REPLAYED, self.keys, self.known.table)

    @property
    def _versions(self) -> list[dict[str, Any]]:
        versions = self.capture.rows("table_versions", ("table_version", "schema_name", "table_name", "columns"))
        return list(versions.map(partial(of_table, table=self.known.table), versions.schema).table().to_pylist())

    @property
    def _effects(self) -> _Effects:
        """The effects of changes; moves and TRUNCATEs are looked up first, once for all questions."""
        known, is_followed = self.known, self.known.moves <= _MOST_MOVES
        effects = _Effects(self.position, self.time, tenures={} if is_followed else None)
        if not known.truncates and not (known.moves and is_followed):
            return effects
        name = f"TRUNCATEs and moves of {known.table!r} to {self.position} {self.time} with {named(self.keys)}"
        truncates, moves = answer_of(self.capture, name, lambda _: self._changes.fold(effects.turns, _merged_turns))
        return replace(effects, truncates=truncates, tenures=tenures(moves) if is_followed else None)


# --- what changes do to rows ------------------------------------------------------------------------------------------

Turns = tuple[list[tuple[Order, int | None]], list[Move]]


@dataclass(frozen=True)
class _Effects:
    """Makes :data:`_EFFECTS` of changes of a table: of those that were committed up to a position and a time. ``bins``
    are the begin and the width of the bins of time in microseconds. ``truncates``: where each is, and its time in
    microseconds. ``tenures`` of the keys that rows moved from or to; None: moves are not followed."""

    position: str | None
    time: dt.datetime | None
    tenures: Mapping[str, Sequence[Tenure]] | None
    truncates: Sequence[tuple[Order, int | None]] = ()
    bins: tuple[int, int] = (0, 1)

    def _counting(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The changes that were committed by then, with ``commit``."""
        commit = pc.coalesce(rows["commit_position"], rows["position"])
        mask = as_flags(are_committed(rows))
        if self.position is not None:
            mask &= as_flags(pc.less_equal(pc.coalesce(commit, ""), self.position))
        if self.time is not None:
            at = times(rows)
            mask &= as_flags(pc.or_kleene(at.is_null(), pc.less_equal(at, pa.scalar(self.time, at.type))))
        return rows.append_column("commit", commit).filter(pa.array(mask))

    def turns(self, batch: pa.RecordBatch) -> Turns:
        """The TRUNCATEs and, if they are followed, the updates of keys."""
        rows = self._counting(batch)
        emptied = rows.filter(pc.equal(rows["operation"], _TRUNCATE))
        truncates = list(zip(orders(emptied, _ORDER), times(emptied).cast(pa.int64()).to_pylist(), strict=True))
        if self.tenures is None:
            return truncates, []
        rows = rows.filter(rows["key"].is_valid())
        keys = Keys.of(rows)
        moved = pa.array(keys.moved)
        texts = (keys.texts(values).filter(moved).to_pylist() for values in (keys.former, keys.latter))
        return truncates, list(map(Move, orders(rows.filter(moved), _ORDER), *texts))

    def numbers_of(self, at: pa.Array) -> Ints:
        """The numbers of the bins of times in microseconds; -1 without a time."""
        begin, width = self.bins
        return np.where(as_flags(at.is_valid()), (np.asarray(pc.fill_null(at, 0)) - begin) // width, -1)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = self._counting(batch)
        rows = rows.filter(rows["key"].is_valid())
        came = Keys.of(rows).moved
        leaves = np.zeros(rows.num_rows, np.bool_)
        if self.tenures is None and came.any():  # a row ends, and one begins
            numbers = np.concatenate([np.flatnonzero(came), np.arange(rows.num_rows)])
            leaves = np.arange(len(numbers)) < len(numbers) - rows.num_rows  # before others of the same message
            rows, came = rows.take(pa.array(numbers)), came[numbers] & ~leaves
        keys = Keys.of(rows)
        is_update = as_flags(pc.equal(rows["operation"], _UPDATE))
        gone = leaves | as_flags(pc.equal(rows["operation"], _DELETE))
        values = pc.if_else(pa.array(came[keys.pairs.rows]), keys.latter, keys.former)
        truncates = (_follow(rows, order) for order, _ in self.truncates)
        columns = {name: rows[name] for name in rows.schema.names} | {
            "row_key": self._last_keys(rows, keys.texts(values)),
            "started": pc.is_in(rows["operation"], pa.array(_STARTS)),
            "gone": gone,
            "epoch": sum(truncates, np.zeros(len(gone), np.int64)),
            "bin": self.numbers_of(times(rows).cast(pa.int64())),
            "key": maps_of(keys.pairs.sizes, keys.pairs.names, values),
            "row": _images(rows, is_update, ~gone),
            "changes": pa.repeat(1, rows.num_rows),
        }
        effects = pa.RecordBatch.from_pydict(columns, _EFFECTS)
        return effects.filter(effects["row_key"].is_valid())

    def _last_keys(self, rows: pa.RecordBatch, keys: pa.Array) -> pa.Array:
        """The last key of the row of each change; null for a row that another one replaced by moving to its key."""
        if not self.tenures:
            return keys
        moving = pc.is_in(keys, pa.array(list(self.tenures), pa.string()))
        last: list[str | None] = keys.to_pylist()
        for number, order in zip(np.flatnonzero(as_flags(moving)), orders(rows.filter(moving), _ORDER), strict=True):
            tenure = next(one for one in self.tenures[str(last[number])] if order < one.end)
            last[number] = tenure.row[-1].key if tenure.row[-1].end == LAST else None
        return pa.array(last, pa.string())


def _merged_turns(parts: Sequence[Turns]) -> Turns:
    truncates = sorted((one for part in parts for one in part[0]), key=itemgetter(0))
    return truncates, sorted(move for part in parts for move in part[1])


def _images(rows: pa.RecordBatch, is_update: Bools, wanted: Bools) -> pa.MapArray:
    """The values after each change. A column that only the image before has was not changed by the update."""
    before, after = Pairs(rows["before"]), Pairs(rows["after"])
    unchanged = (after.find(before.rows, before.names) < 0) & is_update[before.rows] & wanted[before.rows]
    chosen = [unchanged, wanted[after.rows]]
    pairs = list(zip((before, after), map(pa.array, chosen), strict=True))
    numbers = np.concatenate([image.rows[mask] for image, mask in zip((before, after), chosen, strict=True)])
    order = pa.array(np.argsort(numbers, kind="stable"))
    names, values = (
        pa.concat_arrays([getattr(image, name).filter(mask) for image, mask in pairs]).take(order)
        for name in ("names", "values")
    )
    return maps_of(np.bincount(numbers, minlength=rows.num_rows), names, values)


def _follow(rows: pa.RecordBatch, order: Order) -> Bools:
    """Whether each change follows another in the order of commits."""
    later, equal = np.zeros(rows.num_rows, np.bool_), np.ones(rows.num_rows, np.bool_)
    for name, is_known, value in zip(_ORDER, order[::2], order[1::2], strict=True):
        column = rows[name]
        later |= equal & as_flags(pc.greater(column, value) if is_known else column.is_valid())
        equal &= as_flags(pc.equal(column, value) if is_known else column.is_null())
    return later


# --- rows of one key --------------------------------------------------------------------------------------------------


def _last_state(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The effects of each row since it was inserted or deleted, as one: the last value of each column. An insert of
    columns that the row does not have adds to it: event logs insert one row with several records."""
    starts = run_starts(batch, ["row_key"])
    if not len(starts):
        return batch
    numbers = np.arange(batch.num_rows)
    group = np.searchsorted(starts, numbers, side="right") - 1
    begins = np.maximum(starts, np.maximum.reduceat(np.where(as_flags(batch["gone"]), numbers + 1, 0), starts))
    again = as_flags(batch["started"]) & (numbers > begins[group])
    if again.any():
        earlier = _last_with_its_columns(batch, group)
        for number in np.flatnonzero(again).tolist():
            if earlier[number] >= begins[group[number]]:
                begins[group[number]] = number
    alive = numbers >= begins[group]
    rows, group = batch.filter(pa.array(alive)), group[alive]
    if not len(group):
        return rows
    starts = run_starts(rows, ["row_key"])
    ends = np.append(starts[1:], len(group)) - 1
    pairs = Pairs(rows["row"])
    code = _column_codes(pairs, group)
    _, at = np.unique(code[::-1], return_index=True)  # the last of each column, by row and name
    chosen = len(code) - 1 - at
    sizes = np.bincount(group[pairs.rows[chosen]], minlength=group[-1] + 1)[group[ends]]
    last = {name: rows[name].take(pa.array(ends)) for name in rows.schema.names}
    last["row"] = maps_of(sizes, pairs.names.take(pa.array(chosen)), pairs.take(chosen))
    last["started"] = np.logical_or.reduceat(as_flags(rows["started"]), starts)
    last["changes"] = np.add.reduceat(np.asarray(rows["changes"]), starts)
    return pa.RecordBatch.from_pydict(last, rows.schema)


def _column_codes(pairs: Pairs, group: Ints) -> Ints:
    """The group and the column of each pair as one number, ascending by group and name."""
    rank = ranks(pairs.names)
    codes: Ints = group[pairs.rows] * (rank.max(initial=0) + 1) + rank
    return codes


def _last_with_its_columns(batch: pa.RecordBatch, group: Ints) -> Ints:
    """Of each effect the last one before it in its group that has one of its columns; -1 without one, and its
    own number if it has no columns."""
    pairs = Pairs(batch["row"])
    code = _column_codes(pairs, group)
    order = np.argsort(code, kind="stable")
    at, code = pairs.rows[order], code[order]
    earlier = np.where(pairs.sizes > 0, -1, np.arange(batch.num_rows))
    is_same = np.flatnonzero(code[1:] == code[:-1])
    np.maximum.at(earlier, at[is_same + 1], at[is_same])
    return earlier


def _as_rows(columns: Mapping[str | None, set[str]], batch: pa.RecordBatch) -> pa.RecordBatch:
    """States as rows of :data:`STATE`. ``columns`` are those of each version of the table."""
    is_partial = ~as_flags(batch["started"])
    for number in np.flatnonzero(is_partial):
        version = batch["table_version"][number].as_py()
        names = {name for name, _ in batch["row"][number].as_py()}
        is_partial[number] = version not in columns or not columns[version] <= names
    columns = {name: batch[name] for name in batch.schema.names} | {"partial": is_partial}
    return pa.RecordBatch.from_pydict(columns, STATE)


def _steps(batches: Batches) -> Batches:
    """By how much each effect changes the number of rows."""
    last = joined([], _NARROW)
    for batch in batches:
        rows = joined([last, batch], _NARROW)
        alive = 1 - as_flags(rows["gone"]).astype(np.int64)
        before = np.where(are_first(rows, ["row_key", "epoch"]), 0, np.append(0, alive[:-1]))
        steps = pa.RecordBatch.from_arrays([rows["epoch"], rows["bin"], pa.array(alive - before)], schema=_STEPS)
        new = steps.slice(last.num_rows)
        yield new.filter(pc.not_equal(new["step"], 0))
        last = batch.slice(batch.num_rows - 1)


# --- on a page --------------------------------------------------------------------------------------------------------

_SHOWN_ROWS: Final = 50
_BINS: Final = 300


@dataclass(frozen=True, slots=True)
class Replayed:
    """A table at a position of the log: the number of ``rows``, of ``partial`` ones, the first rows by key (``shown``)
    and their ``columns`` (name in ``shown`` -> heading)."""

    rows: int
    partial: int
    shown: list[dict[str, Any]]
    columns: dict[str, str]


Overview = tuple[int, int, list[dict[str, Any]]]


def _overview(batch: pa.RecordBatch) -> Overview:
    numbers = heapq.nsmallest(_SHOWN_ROWS, enumerate(batch["key"].to_pylist()), key=lambda one: _by_value(one[1]))
    first = batch.take(pa.array([number for number, _ in numbers], pa.int64())).to_pylist()
    return batch.num_rows, int(as_flags(batch["partial"]).sum()), first


def _merged_overviews(parts: Sequence[Overview]) -> Overview:
    rows = [row for _, _, first in parts for row in first]
    first = heapq.nsmallest(_SHOWN_ROWS, rows, key=lambda row: _by_value(row["key"]))
    return sum(part[0] for part in parts), sum(part[1] for part in parts), first


def _by_value(key: Iterable[tuple[str, str | None]]) -> list[tuple[bool, Decimal, str]]:
    """Sort key: numbers by value, before texts; NULL is the first of these."""
    return [(*_number(value), value or "") for _, value in key]


def _number(value: str | None) -> tuple[bool, Decimal]:
    try:
        number = Decimal(value or "x")
    except InvalidOperation:
        return True, Decimal(0)
    return (False, number) if number.is_finite() else (True, Decimal(0))
