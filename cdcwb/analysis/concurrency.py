"""The number of concurrent transactions: over time, and by position in the log.

A transaction is open from its begin until just before its end, so a transaction that begins when another ends is not
concurrent with it. A transaction that begins and ends at the same time is never open and is counted separately; clocks
with a resolution of one second produce many of them. If begins and commits have positions in the log, these give the
exact number.

Memory does not grow with the number of transactions. Each batch of transactions becomes steps: by how much the number
of open transactions changes at each time. The steps of a piece of the time axis are read in order of time, whatever the
number before it is, and the pieces are put together in order. The result is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.dataset import Batches, complete_keys, grouped
from cdcwb.index.changes import TransactionIndex
from cdcwb.index.columns import NO_TIME
from cdcwb.model import Completeness
from cdcwb.times import TimeAxis, micros, time_of

PIECES: Final = 1000
"""Maximum number of pieces of the time axis; a chart has at most two points for each piece."""

_KINDS: Final = ("counted", "instants", "backwards", "one_time", "no_time")


@dataclass(frozen=True, slots=True)
class Concurrency:
    """The number of concurrent transactions over time.

    ``steps``: ``at`` (aware datetime), ``open`` (from then until the next step; the maximum where a piece of the axis
    has several changes), at most two for each piece. ``exact``: no piece has several changes. ``most``: the maximum;
    ``at`` and ``until``: when it was first reached and left (None if no transaction was open). ``average`` over the
    time from the first step to the last. ``counted``: transactions with a duration above 0; ``instants``: those that
    begin and end at the same time; ``backwards``: those that end before they begin, because clocks disagree;
    ``one_time``: those with only one known time; ``no_time``: those without a time.
    """

    steps: list[dict[str, Any]]
    exact: bool
    most: int
    at: datetime | None
    until: datetime | None
    average: float | None
    counted: int
    instants: int
    backwards: int
    one_time: int
    no_time: int


@dataclass(frozen=True, slots=True)
class InLog:
    """The maximum number of transactions that were open at one position of the log: ``most``, the first ``position``
    where it was reached, and the ``transaction_id`` that begins there (None for a transaction that was open before the
    capture). ``counted``: transactions with a position."""

    most: int
    position: str | None
    transaction_id: str | None
    counted: int


_STEPS: Final = pa.schema([("piece", pa.int64()), ("kind", pa.string()), ("at", pa.int64()), ("number", pa.int64())])
"""Steps: by how much the ``number`` of open transactions changes ``at`` a time, in a ``piece`` of the axis; or with a
``kind`` (a field of :class:`Concurrency`, or ``busy`` for the sum of durations) a number."""

_PIECES: Final = pa.schema(
    [
        *((name, pa.int64()) for name in ("piece", "first", "last", "steps", "net", "top", "at", "until")),
        *((name, pa.int64()) for name in (*_KINDS, "busy")),
    ]
)
"""Consecutive steps in a ``piece``: the times of the ``first`` and the ``last`` step, the number of ``steps``, the
difference of open transactions after them (``net``) and at most (``top``: from ``at`` until ``until``, null if no later
step is known). Or, with a null ``piece``, numbers of transactions by kind."""


def over_time(
    capture: Any,
    first: datetime | None,
    last: datetime | None,
    pieces: int = PIECES,
    least_us: int = 1,
    axis: TimeAxis | None = None,
    window: tuple[datetime | None, datetime | None] = (None, None),
) -> Concurrency:
    """The number of concurrent transactions between ``first`` and ``last``, which bound all times of transactions
    (None: there are none).

    An open transaction is open until ``last``; a transaction without its begin is open from ``first``. The axis has at
    most ``pieces`` pieces, none narrower than ``least_us`` microseconds. If ``axis`` shows only a part of the times,
    the pieces divide that part, and pieces outside have the same width. Nothing is counted outside of the times of
    the ``window`` (its end excluded).
    """
    rows = capture.rows("transactions", ("began_at", "ended_at", "outcome", "completeness"))
    if first is None or last is None:
        return Concurrency([], True, 0, None, None, None, 0, 0, 0, 0, no_time=rows.fold(len, sum))
    start, end = micros(first), micros(last)
    low = start if window[0] is None else max(start, micros(window[0]))
    high = end if window[1] is None else min(end, micros(window[1]))
    inside = None if window == (None, None) else (low, high)
    shown = end - start if axis is None else micros(axis.last) - micros(axis.first)
    width = max(least_us, -(-(shown + 1) // pieces))

    def steps(batch: pa.RecordBatch) -> pa.RecordBatch:
        return _steps_of(TransactionIndex(batch), start, end, width, inside)

    found = rows.map(steps, _STEPS).by_key(["piece"], ["at"], _pieces_of, _PIECES).table()
    kinds, is_piece = found.filter(found["piece"].is_null()), found["piece"].is_valid()
    numbers = {name: pc.sum(kinds[name]).as_py() or 0 for name in (*_KINDS, "busy")}
    by_time = [("piece", "ascending"), ("first", "ascending")]
    return _combined(found.filter(is_piece).sort_by(by_time).to_pylist(), numbers)


def _steps_of(
    transactions: TransactionIndex, start: int, end: int, width: int, window: tuple[int, int] | None
) -> pa.RecordBatch:
    """The :data:`_STEPS` of transactions. ``start`` and ``end`` are the first and the last of all times; what is
    outside of the ``window`` is cut off."""
    began, ended = transactions.began, transactions.ended
    lacks_begin = transactions.are("completeness", Completeness.NO_BEGIN)
    no_time = (began == NO_TIME) & (ended == NO_TIME)
    low = np.where((began == NO_TIME) & lacks_begin, start, began)
    high = np.where((ended == NO_TIME) & transactions.is_open, end, ended)
    one_time = ~no_time & ((low == NO_TIME) | (high == NO_TIME))
    if window is not None:
        is_backwards = low > high
        low, high = (np.where(is_backwards | (side == NO_TIME), side, np.clip(side, *window)) for side in (low, high))
    known = ~no_time & ~one_time
    counted = known & (low < high)
    kinds = {"counted": counted, "instants": known & (low == high), "backwards": known & (low > high)}
    numbers = {name: int(mask.sum()) for name, mask in (kinds | {"one_time": one_time, "no_time": no_time}).items()}
    numbers["busy"] = int((high[counted] - low[counted]).sum())
    both = np.concatenate([low[counted] * 2, high[counted] * 2 + 1])  # the last bit marks an end
    both.sort(kind="stable")  # much faster where most are in order
    at, ends = both >> 1, both & 1
    firsts = np.flatnonzero(np.diff(at, prepend=NO_TIME))
    number = np.add.reduceat(1 - 2 * ends, firsts) if len(firsts) else firsts
    at, number = at[firsts][number != 0], number[number != 0]
    columns = {
        "piece": np.append(np.zeros(len(numbers), np.int64), (at - start) // width),
        "kind": pa.concat_arrays([pa.array([*numbers]), pa.nulls(len(at), pa.string())]),
        "at": np.append(np.full(len(numbers), NO_TIME), at),
        "number": np.append([*numbers.values()], number),
    }
    return pa.RecordBatch.from_pydict(columns, _STEPS)


def _pieces_of(batches: Batches) -> Batches:
    """Rows of :data:`_PIECES` from steps in order of time."""
    for batch in complete_keys(batches, ["piece"]):
        is_step = batch["kind"].is_null()
        rows = [{row["kind"]: row["number"]} for row in batch.filter(pc.invert(is_step)).to_pylist()]
        pieces, times, numbers = map(np.asarray, batch.filter(is_step).select(["piece", "at", "number"]).columns)
        firsts = np.flatnonzero(np.diff(times, prepend=NO_TIME))
        numbers = np.add.reduceat(numbers, firsts) if len(firsts) else numbers
        firsts, numbers = firsts[numbers != 0], numbers[numbers != 0]
        pieces, times = pieces[firsts], times[firsts]
        begins = np.flatnonzero(np.diff(pieces, prepend=-1))
        for at, level, piece in zip(
            np.split(times, begins[1:]), np.split(numbers, begins[1:]), pieces[begins].tolist(), strict=False
        ):
            level = np.cumsum(level)
            top = int(level.argmax())
            row = {"piece": piece, "first": at[0], "last": at[-1], "steps": len(at)}
            row |= {"net": level[-1], "top": level[top], "at": at[top]}
            row["until"] = at[top + 1] if top + 1 < len(at) else None
            rows.append(row)
        yield pa.RecordBatch.from_pylist(rows, _PIECES)


def _combined(pieces: Sequence[Mapping[str, Any]], numbers: Mapping[str, int]) -> Concurrency:
    """The result from all pieces in order; of one piece there may be several rows."""
    steps: list[dict[str, Any]] = []
    level = most = 0
    at = until = number = None
    exact = True
    for piece, after in zip(pieces, [*pieces[1:], None], strict=False):
        top, level = level + piece["top"], level + piece["net"]
        if top > most:
            most, at = top, piece["at"]
            until = after["first"] if piece["until"] is None and after is not None else piece["until"]
        exact &= piece["steps"] == 1 and number != piece["piece"]
        if number == piece["piece"]:
            steps[-1]["open"] = max(steps[-1]["open"], top)
        else:
            steps.append({"at": time_of(piece["first"]), "open": top})
        number = piece["piece"]
        if steps[-1]["open"] != level and (after is None or after["piece"] > number + 1):
            steps.append({"at": time_of(piece["last"]), "open": level})
    span = pieces[-1]["last"] - pieces[0]["first"] if pieces else 0
    return Concurrency(
        steps=steps,
        exact=exact,
        most=most,
        at=None if at is None else time_of(at),
        until=None if until is None else time_of(until),
        average=numbers["busy"] / span if span else None,
        **{name: numbers[name] for name in _KINDS},
    )


# --- by position ------------------------------------------------------------------------------------------------------

_LOG_STEPS: Final = pa.schema(
    [("log", pa.string()), ("at", pa.string()), ("number", pa.int64()), ("counted", pa.int64()), ("id", pa.string())]
)
_MOST: Final = pa.schema(
    [("most", pa.int64()), ("position", pa.string()), ("transaction_id", pa.string()), ("counted", pa.int64())]
)


def in_log(capture: Any) -> InLog:
    """The maximum number of transactions that were open at one position of the log.

    Applies to formats whose stream has begin and commit records (:attr:`cdcwb.capture.Capture.committed_only` is
    False). Where only committed work is delivered, transactions follow one another in the log. Positions are compared
    as text.
    """
    columns = ("transaction_id", "begin_position", "end_position")
    steps = capture.rows("transactions", columns).map(_log_steps_of, _LOG_STEPS)
    found = steps.by_key(["log"], ["at"], _most_in_log, _MOST).table().to_pylist()
    return InLog(**found[0]) if found else InLog(0, None, None, 0)


def _log_steps_of(transactions: pa.RecordBatch) -> pa.RecordBatch:
    """By how much the ``number`` of open transactions changes ``at`` each position, and how many begin there
    (``counted``). For a transaction that was open before the capture, ``at`` is empty, which sorts before all
    positions."""
    begins = pc.fill_null(transactions["begin_position"], "")
    ends = pc.drop_null(transactions["end_position"])
    is_begin = np.append(np.ones(len(begins), np.int64), np.zeros(len(ends), np.int64))
    ids = pa.concat_arrays([transactions["transaction_id"], pa.nulls(len(ends), pa.string())])
    columns = [pa.repeat("", len(ids)), pa.concat_arrays([begins, ends]), 2 * is_begin - 1, is_begin, ids]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=_LOG_STEPS)


def _most_in_log(batches: Batches) -> Batches:
    """The maximum from all steps in order; nothing without steps."""
    level, counted, most = 0, 0, (-1, "", None)
    totals = {"number": "sum", "counted": "sum", "id": "max"}
    for batch in complete_keys(batches, ["log", "at"]):
        steps = grouped([pa.table(batch)], totals).sort_by("at")
        levels = level + np.cumsum(steps["number"])
        top = int(levels.argmax())
        if levels[top] > most[0]:
            most = int(levels[top]), steps["at"][top].as_py(), steps["id"][top].as_py()
        level, counted = int(levels[-1]), counted + pc.sum(steps["counted"]).as_py()
    if counted:
        open_, position, name = most
        row = {"most": open_, "position": position or None, "transaction_id": name if position else None}
        yield pa.RecordBatch.from_pylist([row | {"counted": counted}], _MOST)
