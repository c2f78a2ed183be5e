"""The number of concurrent transactions: over time, and by position in the log.

A transaction is open from its begin until just before its end, so a transaction that begins when another ends is not
concurrent with it. A transaction that begins and ends at the same time is never open and is counted separately; clocks
with a resolution of one second produce many of them. If begins and commits have positions in the log, these give the
exact number.

Memory does not grow with the number of transactions or changes. The count over time has three steps: the sums of begins
and ends by time (:func:`steps_of`, in any order of transactions); the order of these by time (Spark sorts them, those
of an index are sorted in memory); and the pieces of the axis (:func:`pieces_of`: one row each, from consecutive steps).
The result is exact: the maximum of a piece is known as soon as the number before it is known. The count in the log
works likewise by position.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import groupby, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.dataset import Batches, joined, runs_of
from cdcwb.index.changes import TransactionIndex
from cdcwb.index.columns import NO_TIME
from cdcwb.model import Completeness
from cdcwb.times import TimeAxis, micros, time_of

__all__ = [
    "PIECES",
    "Concurrency",
    "InLog",
    "in_log",
    "merged_pieces",
    "over_time",
    "pieces_of",
    "steps_of",
    "summed",
]

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


class Piece(NamedTuple):
    """Consecutive steps in the piece ``number`` of the axis: the times of the ``first`` and the ``last`` step, the
    number of ``steps``, the difference of open transactions after them (``net``) and at most (``top``: from ``at``
    until ``until``, None if no later step is known). Times are in microseconds."""

    number: int
    first: int
    last: int
    steps: int
    net: int
    top: int
    at: int
    until: int | None


class Stretch(NamedTuple):
    """Consecutive steps that begin at the position ``first``: the difference of open transactions after them (``net``)
    and at most (``top``), the first position ``at`` which it is reached, and the ``id`` of a transaction that begins
    there; ``counted``: how many transactions begin."""

    first: str
    net: int
    top: int
    counted: int
    at: str
    id: str | None


Found = tuple[Counter[str], list[Piece]]
"""The number of transactions of each kind, and the pieces of the axis."""


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
    width = _width(shown, pieces, least_us)

    def steps(batch: pa.RecordBatch) -> pa.RecordBatch:
        found = steps_of(TransactionIndex(batch), start, end, window=inside)
        number = pc.fill_null(pc.divide(pc.subtract(found["at"], start), width), 0)
        at = pc.fill_null(found["at"], NO_TIME)
        return pa.RecordBatch.from_arrays([number, found["kind"], at, found["number"]], schema=_STEPS)

    def in_order(batches: Batches) -> Batches:
        for kinds, found in map(partial(pieces_of, start=start, width=width), _by_time(batches)):
            yield pa.RecordBatch.from_pydict({"found": [pickle.dumps((kinds, found))]}, _FOUND)

    found = rows.map(steps, _STEPS).by_key(["piece"], ["at"], in_order, _FOUND).table()["found"]
    return summed(merged_pieces([pickle.loads(part.as_py()) for part in found]))


_STEPS: Final = pa.schema([("piece", pa.int64()), ("kind", pa.string()), ("at", pa.int64()), ("number", pa.int64())])
_FOUND: Final = pa.schema([("found", pa.binary())])


def _by_time(batches: Batches) -> Batches:
    """Steps in order of their times, each piece in a batch of its own, and the numbers of transactions."""
    for steps in _summed_runs(batches, ["piece", "at"], {"number": "sum"}, _STEPS, extra=["kind"]):
        steps = steps.filter(pc.or_(steps["kind"].is_valid(), pc.not_equal(steps["number"], 0)))
        yield from runs_of(steps, ["piece"])


def _width(shown_us: int, pieces: int, least_us: int = 1) -> int:
    return max(least_us, -(-(shown_us + 1) // pieces))


def steps_of(
    transactions: TransactionIndex,
    start: int,
    end: int,
    window: tuple[int, int] | None = None,
) -> pa.RecordBatch:
    """The change of the number of open transactions (``number``, not 0) at each time (``at``, microseconds since 1970
    UTC, ascending), and the number of transactions of each ``kind``: a field of :class:`Concurrency`, or ``busy`` for
    the sum of their durations in microseconds. ``start`` and ``end`` are the first and the last of all times; what is
    outside of the ``window`` is cut off. Rows of the same kind and time can be summed."""
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
    kinds |= {"one_time": one_time, "no_time": no_time}
    about = {name: int(mask.sum()) for name, mask in kinds.items()}
    about["busy"] = int((high[counted] - low[counted]).sum())
    both = np.sort(np.concatenate([low[counted] * 2, high[counted] * 2 + 1]))  # the last bit marks an end
    at, ends = both >> 1, both & 1
    firsts = np.flatnonzero(np.diff(at, prepend=NO_TIME))
    number = np.add.reduceat(1 - 2 * ends, firsts) if len(firsts) else firsts
    steps = {"at": at[firsts][number != 0], "number": number[number != 0]}
    counts = {"kind": list(about), "at": pa.nulls(len(about), pa.int64()), "number": list(about.values())}
    return (
        pa.concat_tables([pa.table(counts), pa.table(steps)], promote_options="default")
        .combine_chunks()
        .to_batches()[0]
    )


def pieces_of(steps: pa.RecordBatch, start: int, width: int) -> Found:
    """The number of transactions of each kind, and a row for each piece of the axis (``width`` microseconds each, from
    ``start``) that has steps. The steps are consecutive."""
    is_step = steps["kind"].is_null()
    kinds = Counter({row["kind"]: row["number"] for row in steps.filter(steps["kind"].is_valid()).to_pylist()})
    steps = steps.filter(is_step)
    at, level = np.asarray(steps["at"]), np.cumsum(steps["number"])
    if not len(at):
        return kinds, []
    number = (at - start) // width
    edges = np.flatnonzero(np.diff(number, prepend=number[0] - 1))
    sizes = np.diff(edges, append=len(at))
    ends = edges + sizes - 1
    before = np.concatenate([[0], level[ends[:-1]]])
    tops = np.maximum.reduceat(level, edges)
    reached = np.flatnonzero(level == np.repeat(tops, sizes))
    peaks = reached[np.searchsorted(reached, edges)]  # the first step of each piece
    until = [at[peak + 1].item() if peak + 1 < len(at) else None for peak in peaks.tolist()]
    columns = (number[edges], at[edges], at[ends], sizes, level[ends] - before, tops - before, at[peaks])
    rows = zip(*(column.tolist() for column in columns), until, strict=True)
    return kinds, [Piece(*row) for row in rows]


def merged_pieces(parts: Sequence[Found]) -> Found:
    """The merged results of :func:`pieces_of`, in any order, for steps that do not overlap in time. Rows of the same
    piece are not summed yet, because rows between them may be missing."""
    pieces = sorted(piece for _, pieces_of_part in parts for piece in pieces_of_part)
    return sum((kinds for kinds, _ in parts), Counter()), pieces


def summed(answers: Found) -> Concurrency:
    """The final result from all pieces, in order."""
    kinds, pieces = answers
    following = dict(pairwise(pieces))
    steps: list[dict[str, Any]] = []
    level = most = 0
    at: datetime | None = None
    until: datetime | None = None
    exact = True
    for number, group in groupby(pieces, lambda piece: piece.number):
        parts = list(group)
        tops = []
        for piece in parts:
            tops.append(level + piece.top)
            level += piece.net
            after = following.get(piece)
            if tops[-1] > most:
                left = after.first if piece.until is None and after is not None else piece.until
                most, at, until = tops[-1], time_of(piece.at), None if left is None else time_of(left)
        exact &= sum(piece.steps for piece in parts) == 1
        steps.append({"at": time_of(parts[0].first), "open": max(tops)})
        if max(tops) != level and (after is None or after.number > number + 1):
            steps.append({"at": time_of(parts[-1].last), "open": level})
    span = pieces[-1].last - pieces[0].first if pieces else 0
    average = kinds["busy"] / span if span else None
    return Concurrency(steps, exact, most, at, until, average, **{name: kinds[name] for name in _KINDS})


def in_log(capture: Any) -> InLog:
    """The maximum number of transactions that were open at one position of the log.

    Applies to formats whose stream has begin and commit records (:attr:`cdcwb.capture.Capture.committed_only` is
    False). Where only committed work is delivered, transactions follow one another in the log. Positions are compared
    as text.
    """
    columns = ("transaction_id", "begin_position", "end_position")
    steps = capture.rows("transactions", columns).map(log_steps_of, _LOG_STEPS)
    found = steps.by_key(["log"], ["at"], _in_log_order, _FOUND).table()["found"]
    return most_in_log([pickle.loads(part.as_py()) for part in found])


_LOG_STEPS: Final = pa.schema(
    [("log", pa.string()), ("at", pa.string()), ("delta", pa.int64()), ("counted", pa.int64()), ("id", pa.string())]
)


def _in_log_order(batches: Batches) -> Batches:
    """The stretches of steps in order."""
    for steps in _summed_runs(batches, ["log", "at"], {"delta": "sum", "counted": "sum", "id": "max"}, _LOG_STEPS):
        yield pa.RecordBatch.from_pydict({"found": [pickle.dumps(stretch) for stretch in stretches_of(steps)]}, _FOUND)


def _summed_runs(
    batches: Batches, keys: list[str], sums: Mapping[str, str], schema: pa.Schema, extra: Sequence[str] = ()
) -> Batches:
    """Rows in order of ``keys`` in which those with equal keys (and equal ``extra``) are one row. The last of a batch
    wait for the next one, which may begin with the same keys."""
    waiting: list[pa.RecordBatch] = []
    names = [*keys, *extra]

    def summed(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        groups = pa.Table.from_batches(parts, schema).group_by(names, use_threads=False).aggregate(list(sums.items()))
        rows = groups.rename_columns([*names, *sums]).select(schema.names)
        return joined(rows.sort_by([(key, "ascending") for key in keys]).to_batches(), schema)

    for batch in batches:
        rows = summed([*waiting, batch])
        ends = np.logical_and.reduce([_equals_last(rows[key]) for key in keys])
        waiting = [rows.filter(pa.array(ends))]
        yield rows.filter(pa.array(~ends))
    if waiting:
        yield from waiting


def _equals_last(column: pa.Array) -> Any:
    same = pc.equal(column, column[-1])
    return np.asarray(pc.fill_null(same, False) if column[-1].is_valid else column.is_null())


def log_steps_of(transactions: pa.RecordBatch) -> pa.RecordBatch:
    """The change of the number of open transactions (``delta``) ``at`` each position, in any order; ``counted``: the
    number of transactions that begin; ``id``: a transaction that begins there. For a transaction that was open before
    the capture, ``at`` is empty, which sorts before all positions."""
    ids = transactions["transaction_id"]
    begins = pc.fill_null(transactions["begin_position"], "")
    ends = pc.drop_null(transactions["end_position"])
    ones, less = np.ones(len(begins), np.int64), np.ones(len(ends), np.int64)
    at = pa.concat_arrays([begins, ends])
    columns = [pa.repeat("", len(at)), at, np.concatenate([ones, -less]), np.concatenate([ones, 0 * less])]
    columns.append(pa.concat_arrays([ids, pa.nulls(len(ends), pa.string())]))
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=_LOG_STEPS)


def stretches_of(steps: pa.RecordBatch) -> list[Stretch]:
    """The stretch of consecutive steps (rows of :func:`log_steps_of`, in order); none without steps."""
    if not len(steps):
        return []
    at = steps["at"]
    firsts = np.flatnonzero(np.concatenate([[True], np.asarray(pc.not_equal(at[1:], at[:-1]))]))
    level = np.cumsum(np.add.reduceat(np.asarray(steps["delta"]), firsts))
    top = int(np.argmax(level))
    highest = int(firsts[top])
    numbers = int(level[-1]), int(level[top]), int(np.asarray(steps["counted"]).sum())
    return [Stretch(at[0].as_py(), *numbers, at[highest].as_py(), steps["id"][highest].as_py())]


def most_in_log(stretches: Sequence[Stretch]) -> InLog:
    """The final result from all stretches, in any order."""
    most: tuple[int, str] | None = None
    level = 0
    name: str | None = None
    for summary in sorted(stretches):
        here = -(level + summary.top), summary.at
        if most is None or here < most:
            most, name = here, summary.id
        level += summary.net
    if most is None:
        return InLog(0, None, None, 0)
    known = most[1] != ""
    counted = sum(stretch.counted for stretch in stretches)
    return InLog(-most[0], most[1] if known else None, name if known else None, counted)
