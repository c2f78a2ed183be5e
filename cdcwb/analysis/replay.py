"""Replay: the rows of a table at a position or time, from the changes that were committed by then, and their number
over time.

Changes count in commit order. An image may have only some columns; the others keep their values. So the value of a
column is the last one written since the row was inserted, under any key that it had.
"""

from __future__ import annotations

import datetime as dt
import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.history import SHOWN_COLUMNS, value_text
from cdcwb.analysis.images import (
    MAP,
    Bools,
    Keys,
    Pairs,
    are_committed,
    as_flags,
    group_starts,
    maps_of,
    of_table,
    ranks,
    times,
)
from cdcwb.analysis.keys import FACTS, Keyed, KnownTable, changes_of, find_table, known_tables
from cdcwb.dataset import Batches, Rows, differ, joined
from cdcwb.errors import OptionError
from cdcwb.model import CHANGES, Operation
from cdcwb.times import micros, time_of

__all__ = [
    "STATE",
    "Replayed",
    "check_keyed",
    "growth",
    "rows_at",
    "rows_over_time",
    "state",
]

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

Order = tuple[Any, ...]
Stay = tuple[Order | None, Order, str | None]


def state(capture: Any, table: str, position: str | None = None, time: dt.datetime | None = None) -> Rows:
    """The rows (:data:`STATE`) of ``table`` (``schema.table``, or ``table``) after all changes that were committed at
    or before ``position`` (a log position) and ``time`` (aware); None: to the end of the capture. ``capture`` is
    anything with the rows of a capture (:meth:`cdcwb.Capture.rows`).

    A full load and an event log have no commits: their rows are applied in the order of their positions, those without
    a position first. Rolled back, undone and open changes do not count.

    Raises OptionError for a table without changes or whose changes all lack a key.
    """
    known = find_table(known_tables(changes_of(capture, FACTS)), table)
    check_keyed(known)
    return rows_at(capture, known, position, time)


def check_keyed(known: KnownTable) -> None:
    """Raises OptionError for a table of which no change has a key."""
    if not known.keyed:
        option = f"keys={known.table}:c1+c2"
        raise OptionError(f"no change of {known.table!r} has a key; name its columns with the option {option}")


def rows_at(
    capture: Any,
    known: KnownTable,
    position: str | None = None,
    time: dt.datetime | None = None,
    keys: Keyed | None = None,
) -> Rows:
    """:func:`state` of a table that is known to have changes with keys, or for which ``keys`` names one."""
    changes = changes_of(capture, _REPLAYED, keys)
    effects = _Effects.of(changes, known, position, time)
    alive = changes.map(effects, _EFFECTS).where(lambda batch: pc.equal(batch["epoch"], len(effects.truncates)))
    versions = _versions(capture, known)
    columns = {row["table_version"]: {column["name"] for column in row["columns"] or ()} for row in versions}
    return alive.reduce_by_key(["row_key"], _ORDER, _last_state).map(partial(_as_rows, columns), STATE)


def _versions(capture: Any, known: KnownTable) -> list[dict[str, Any]]:
    versions = capture.rows("table_versions", ("table_version", "schema_name", "table_name", "columns"))
    rows: list[dict[str, Any]] = (
        versions.map(lambda batch: of_table(batch, known.table), versions.schema).table().to_pylist()
    )
    return rows


def growth(
    capture: Any,
    known: KnownTable,
    first: dt.datetime,
    width_us: int,
    position: str | None = None,
    time: dt.datetime | None = None,
    keys: Keyed | None = None,
) -> list[tuple[dt.datetime | None, int]]:
    """The number of rows of a table at the end of each time bin of ``width_us`` microseconds, from ``first`` (aware):
    the end of the bin and the number, for bins in which it changed. The first item (None) is the number from changes
    without a time. The last number is that of :func:`rows_at` with the same arguments.
    """
    changes = changes_of(capture, _REPLAYED, keys)
    effects = _Effects.of(changes, known, position, time, (micros(first), width_us))
    narrow = changes.map(lambda batch: effects(batch).select(_NARROW.names), _NARROW)
    counts = narrow.by_key(["row_key"], _ORDER, _steps, _STEPS).totals({"step": "sum"})
    totals: dict[int, int] = {}
    by_bin: dict[int, int] = {}
    for row in counts.to_pylist():
        by_bin[row["bin"]] = by_bin.get(row["bin"], 0) + row["step"]
        totals[row["epoch"]] = totals.get(row["epoch"], 0) + row["step"]
    for epoch, truncate in enumerate(effects.truncates):  # which removes all rows of its epoch
        by_bin[truncate.bin] = by_bin.get(truncate.bin, 0) - totals.get(epoch, 0)
    total, by_end = 0, []
    for number, step in sorted(by_bin.items()):
        total += step
        by_end.append((None if number < 0 else time_of(micros(first) + (number + 1) * width_us), total))
    return by_end


# --- what changes do to rows ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Truncate:
    order: Order
    bin: int


@dataclass(frozen=True)
class _Move:
    order: Order
    former: str
    latter: str


@dataclass(frozen=True)
class _Effects:
    """Makes :data:`_EFFECTS` of changes: of those of a table that were committed up to a position and a time. ``bins``
    are the begin and the width of the bins of time in microseconds. ``stays`` are for each key that rows moved from or
    to the ranges between two such moves, with the last key of the row that had it; None: moves are not followed."""

    table: str
    position: str | None
    time: dt.datetime | None
    bins: tuple[int, int] = (0, 1)
    truncates: Sequence[_Truncate] = ()
    stays: Mapping[str, Sequence[Stay]] | None = None

    @classmethod
    def of(
        cls,
        changes: Rows,
        known: KnownTable,
        position: str | None,
        time: dt.datetime | None,
        bins: tuple[int, int] = (0, 1),
    ) -> _Effects:
        """The effects of a table whose moves and TRUNCATEs are looked up first."""
        effects = cls(known.table, position, time, bins)
        follows = known.moves <= _MOST_MOVES
        if not known.truncates and not (known.moves and follows):
            return cls(known.table, position, time, bins, stays={} if follows else None)
        turns = changes.fold(partial(effects.turns, follows), lambda parts: [turn for part in parts for turn in part])
        turns.sort(key=lambda turn: _sortable(turn.order))
        truncates = [turn for turn in turns if isinstance(turn, _Truncate)]
        moves = [turn for turn in turns if isinstance(turn, _Move)]
        return cls(known.table, position, time, bins, truncates, _stays(moves) if follows else None)

    def counting(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The changes of the table that were committed by then, with ``commit``."""
        rows = of_table(batch, self.table)
        commit = pc.coalesce(rows["commit_position"], rows["position"])
        mask = as_flags(are_committed(rows))
        if self.position is not None:
            mask &= as_flags(pc.less_equal(pc.coalesce(commit, ""), self.position))
        if self.time is not None:
            at = times(rows)
            mask &= as_flags(pc.or_kleene(at.is_null(), pc.less_equal(at, pa.scalar(self.time, at.type))))
        return rows.append_column("commit", commit).filter(pa.array(mask))

    def turns(self, follows: bool, batch: pa.RecordBatch) -> list[_Truncate | _Move]:
        """The TRUNCATEs and, if they are followed, the updates of keys."""
        rows = self.counting(batch)
        emptied = rows.filter(pc.equal(rows["operation"], _TRUNCATE))
        turns: list[_Truncate | _Move] = list(map(_Truncate, _orders(emptied), self._bins(emptied).tolist()))
        if follows:
            rows = rows.filter(rows["key"].is_valid())
            keys = Keys.of(rows)
            moved = pa.array(keys.moved)
            texts = (keys.texts(values).filter(moved).to_pylist() for values in (keys.former, keys.latter))
            turns += map(_Move, _orders(rows.filter(moved)), *texts)
        return turns

    def _bins(self, rows: pa.RecordBatch) -> Any:
        """The number of the bin of time of each change; -1 without a time."""
        begin, width = self.bins
        at = times(rows)
        return np.where(
            as_flags(at.is_valid()), (np.asarray(pc.fill_null(at.cast(pa.int64()), 0)) - begin) // width, -1
        )

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = self.counting(batch)
        rows = rows.filter(rows["key"].is_valid())
        came = Keys.of(rows).moved
        leaves = np.zeros(rows.num_rows, np.bool_)
        if self.stays is None and came.any():  # a row ends, and one begins
            numbers = np.concatenate([np.arange(rows.num_rows), np.flatnonzero(came)])
            leaves = np.arange(len(numbers)) >= rows.num_rows
            rows, came = rows.take(pa.array(numbers)), came[numbers] & ~leaves
        keys = Keys.of(rows)
        is_update = as_flags(pc.equal(rows["operation"], _UPDATE))
        gone = leaves | as_flags(pc.equal(rows["operation"], _DELETE))
        started = as_flags(pc.is_in(rows["operation"], pa.array(_STARTS)))
        values = pc.if_else(pa.array(came[keys.pairs.rows]), keys.latter, keys.former)
        columns = {name: rows[name] for name in rows.schema.names} | {
            "row_key": keys.texts(values),
            "started": pa.array(started),
            "gone": pa.array(gone),
            "epoch": pa.array(sum((_follow(rows, one.order) for one in self.truncates), np.zeros(len(gone), np.int64))),
            "bin": pa.array(self._bins(rows)),
            "key": maps_of(keys.pairs.sizes, keys.pairs.names, values),
            "row": _images(rows, is_update, ~gone),
            "changes": pa.repeat(1, rows.num_rows),
        }
        effects = pa.RecordBatch.from_arrays(
            [columns[field.name].cast(field.type) for field in _EFFECTS], schema=_EFFECTS
        )
        return self._followed(effects) if self.stays else effects

    def _followed(self, effects: pa.RecordBatch) -> pa.RecordBatch:
        """The effects under the last key of their rows. A row under a key that another row moved to is replaced."""
        assert self.stays is not None
        moving = as_flags(pc.is_in(effects["row_key"], pa.array(list(self.stays), pa.string())))
        last = effects["row_key"].to_pylist()
        orders = _orders(effects.filter(pa.array(moving)))
        for number, order in zip(np.flatnonzero(moving), map(_sortable, orders), strict=True):
            for begin, end, final in self.stays[last[number]]:
                if (begin is None or order >= _sortable(begin)) and order < _sortable(end):
                    last[number] = final
                    break
        at = effects.schema.get_field_index("row_key")
        kept = effects.set_column(at, "row_key", pa.array(last, pa.string()))
        return kept.filter(kept["row_key"].is_valid())


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


def _orders(rows: pa.RecordBatch) -> list[Order]:
    return list(zip(*(rows[name].to_pylist() for name in _ORDER), strict=True))


def _sortable(order: Order) -> Order:
    """The place in the order of commits, null first."""
    return tuple((value is not None, "" if value is None else value) for value in order)


def _follow(rows: pa.RecordBatch, order: Order) -> Bools:
    """Whether each change follows a place in the order of commits."""
    later, equal = np.zeros(rows.num_rows, np.bool_), np.ones(rows.num_rows, np.bool_)
    for name, value in zip(_ORDER, order, strict=True):
        column = rows[name]
        is_later, is_equal = column.is_valid(), column.is_null()
        if value is not None:
            is_later, is_equal = pc.greater(column, value), pc.equal(column, value)
        later |= equal & as_flags(is_later)
        equal &= as_flags(is_equal)
    return later


def _stays(moves: Sequence[_Move]) -> dict[str, list[Stay]]:
    """For each key that rows moved from or to, between every two such moves: from (included, None: the beginning), to
    (excluded), and the last key of the row that had the key then; None: it was replaced."""
    events: dict[str, list[tuple[Order, int | None]]] = {}  # when, and the move away from it (None: a move to it)
    for number, move in enumerate(moves):
        events.setdefault(move.former, []).append((move.order, number))
        events.setdefault(move.latter, []).append((move.order, None))
    final: dict[int, str | None] = {}
    coming: dict[str, int | None] = {}  # the next event of each key
    for number in range(len(moves) - 1, -1, -1):
        move = moves[number]
        leaving = coming.get(move.latter)
        if move.latter in coming:
            final[number] = None if leaving is None else final[leaving]
        else:
            final[number] = move.latter
        coming |= {move.latter: None, move.former: number}
    stays: dict[str, list[Stay]] = {}
    for key, of_key in events.items():
        begins: list[Order | None] = [None, *(order for order, _ in of_key)]
        for begin, (order, leaving) in zip(begins, of_key, strict=False):
            stays.setdefault(key, []).append((begin, order, None if leaving is None else final[leaving]))
    return stays


# --- rows of one key --------------------------------------------------------------------------------------------------


def _last_state(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The effects of each row since it was inserted or deleted, as one: the last value of each column."""
    starts = group_starts(batch["row_key"])
    if not len(starts):
        return batch
    numbers = np.arange(batch.num_rows)
    group = np.searchsorted(starts, numbers, side="right") - 1
    since = np.where(as_flags(batch["gone"]), numbers + 1, np.where(as_flags(batch["started"]), numbers, 0))
    alive = numbers >= np.maximum.reduceat(since, starts)[group]
    rows, group = batch.filter(pa.array(alive)), group[alive]
    if not len(group):
        return rows
    starts = np.flatnonzero(np.append(True, np.diff(group) > 0))
    ends = np.append(starts[1:], len(group)) - 1
    pairs = Pairs(rows["row"])
    rank = ranks(pairs.names)
    code = group[pairs.rows] * (rank.max(initial=0) + 1) + rank
    _, at = np.unique(code[::-1], return_index=True)  # the last of each column, by row and name
    chosen = len(code) - 1 - at
    sizes = np.bincount(group[pairs.rows[chosen]], minlength=group[-1] + 1)[group[ends]]
    last = {name: rows[name].take(pa.array(ends)) for name in rows.schema.names}
    last["row"] = maps_of(sizes, pairs.names.take(pa.array(chosen)), pairs.take(chosen))
    last["started"] = pa.array(np.logical_or.reduceat(as_flags(rows["started"]), starts))
    last["changes"] = pa.array(np.add.reduceat(np.asarray(rows["changes"]), starts))
    return pa.RecordBatch.from_arrays(list(last.values()), schema=rows.schema)


def _as_rows(columns: Mapping[str | None, set[str]], batch: pa.RecordBatch) -> pa.RecordBatch:
    """States as rows of :data:`STATE`. ``columns`` are those of each version of the table."""
    is_partial = ~as_flags(batch["started"])
    for number in np.flatnonzero(is_partial):
        version = batch["table_version"][number].as_py()
        names = {name for name, _ in batch["row"][number].as_py()}
        is_partial[number] = version not in columns or not columns[version] <= names
    arrays = {name: batch[name] for name in batch.schema.names} | {"partial": pa.array(is_partial)}
    return pa.RecordBatch.from_arrays([arrays[name] for name in STATE.names], schema=STATE)


def _steps(batches: Batches) -> Batches:
    """By how much each effect changes the number of rows."""
    last = joined([], _NARROW)
    for batch in batches:
        rows = joined([last, batch], _NARROW)
        alive = 1 - as_flags(rows["gone"]).astype(np.int64)
        others = [differ(rows[name].slice(1), rows[name].slice(0, rows.num_rows - 1)) for name in ("row_key", "epoch")]
        before = np.append(0, np.where(others[0] | others[1], 0, alive[:-1]))
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

    @classmethod
    def of(
        cls, capture: Any, known: KnownTable, position: str | None, time: dt.datetime | None, keys: Keyed | None
    ) -> Replayed:
        """The table at a position and time (:func:`rows_at`)."""
        rows, part, first = rows_at(capture, known, position, time, keys).fold(_overview, _merged_overviews)
        names = _column_names(first, _versions(capture, known))
        shown = [_shown(row, names) for row in first]
        headings = {"partial": "partial", "changes": "changes", "position": "last position"}
        return cls(rows, part, shown, {f"c{number}": name for number, name in enumerate(names)} | headings)


Overview = tuple[int, int, list[dict[str, Any]]]


def _overview(batch: pa.RecordBatch) -> Overview:
    numbers = heapq.nsmallest(_SHOWN_ROWS, enumerate(batch["key"].to_pylist()), key=lambda one: _by_value(one[1]))
    first = batch.take(pa.array([number for number, _ in numbers], pa.int64())).to_pylist()
    return batch.num_rows, int(as_flags(batch["partial"]).sum()), first


def _merged_overviews(parts: Sequence[Overview]) -> Overview:
    rows = [row for _, _, first in parts for row in first]
    first = heapq.nsmallest(_SHOWN_ROWS, rows, key=lambda row: _by_value(row["key"]))
    return sum(part[0] for part in parts), sum(part[1] for part in parts), first


def _by_value(key: Iterable[tuple[str, str | None]]) -> list[tuple[bool, Decimal, bool, str]]:
    """Sort key: numbers by value, before texts."""
    return [(*_number(value), value is not None, value or "") for _, value in key]


def _number(value: str | None) -> tuple[bool, Decimal]:
    try:
        number = Decimal(value or "x")
    except InvalidOperation:
        return True, Decimal(0)
    return (False, number) if number.is_finite() else (True, Decimal(0))


def _column_names(rows: Sequence[Mapping[str, Any]], versions: Iterable[Mapping[str, Any]]) -> list[str]:
    """The columns of the newest versions of the rows, in their order; then other columns of the rows."""
    used = {row["table_version"] for row in rows}
    ordered = [
        column["name"]
        for version in sorted(versions, key=lambda version: version["table_version"] or "")
        if version["table_version"] in used
        for column in version["columns"] or ()
    ]
    keys, further = ([name for row in rows for name, _ in row[image]] for image in ("key", "row"))
    return list(dict.fromkeys([*keys, *ordered, *further]))[:SHOWN_COLUMNS]


def _shown(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    image = dict([*row["key"], *row["row"]])
    cells = {f"c{number}": value_text(image[name]) if name in image else None for number, name in enumerate(names)}
    return cells | {name: row[name] for name in ("partial", "changes", "position")}


def rows_over_time(
    capture: Any, known: KnownTable, position: str | None, time: dt.datetime | None, keys: Keyed | None
) -> list[tuple[dt.datetime | None, int]]:
    """The number of rows of the table over time (:func:`growth`), in up to 300 steps; empty if no change has a time."""
    if known.first is None or known.last is None:
        return []
    span = (min(known.last, time or known.last) - known.first) // dt.timedelta(microseconds=1) + 1
    return growth(capture, known, known.first, max(1, math.ceil(span / _BINS)), position, time, keys)
