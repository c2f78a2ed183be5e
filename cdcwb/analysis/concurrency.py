"""How many transactions are open at once: over time, and in the log.

A transaction is open from its begin until just before its end, so one that begins when another ends is not open beside
it. One that begins and ends at the same time is open at no time, and counted as such: a clock of whole seconds makes
many of these. Where begins and commits stand in the log itself, their positions tell exactly what the times cannot.

Neither the number of transactions nor that of changes has to fit anywhere. Over time they are counted in three steps:
what begins and ends at which time (:func:`steps_of`: sums over transactions in any order); these in the order of time
(Spark sorts them; those of an index are sorted at once); and the pieces of the axis (:func:`pieces_of`: a row for each,
however many steps are in it, from steps that follow one another). This is exact: the most of a piece is known as soon
as the number before it is. In the log, likewise by position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, groupby, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from cdcwb.analysis.frames import stored_rows
from cdcwb.index.changes import EVERY, ONE_BY_ONE, Some, Transactions
from cdcwb.index.columns import NO_TIME
from cdcwb.model import Completeness
from cdcwb.spark.folding import folded
from cdcwb.time_axis import TimeAxis, micros, time_of

if TYPE_CHECKING:
    from cdcwb.analysis.frames import Tables

__all__ = [
    "PIECES",
    "Concurrency",
    "InLog",
    "in_log",
    "merged_pieces",
    "of_some",
    "over_time",
    "pieces_of",
    "steps_of",
    "summed",
]

PIECES: Final = 1000
"""Into how many pieces the axis of time is cut at most; a picture has at most two points for each."""

_KINDS: Final = ("counted", "instants", "backwards", "one_time", "no_time")


@dataclass(frozen=True, slots=True)
class Concurrency:
    """How many transactions were open when.

    ``steps``: ``at`` (aware datetime), ``open`` (from then on, until the next step; where a piece of the axis has
    several changes, the most of them), at most two for a piece; ``exact``: no piece has several changes. ``most``: the
    largest number at once; ``at`` and ``until``: from when to when for the first time (None where nothing was open).
    ``average`` over the time from the first step to the last. ``counted``: transactions with an extent in time;
    ``instants``: those that begin and end at one time; ``backwards``: those that end before they begin, by clocks that
    disagree; ``one_time``: of which one time only is known; ``no_time``: neither is.
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
    """The most transactions that were open at one place of the log: ``most``, the ``position`` from which on they were
    for the first time, and the ``transaction_id`` that begins there (None for one that was open before the capture).
    ``counted``: transactions with a place."""

    most: int
    position: str | None
    transaction_id: str | None
    counted: int


class Piece(NamedTuple):
    """Steps that follow one another in the piece of the axis with a ``number``: the times of the ``first`` and the
    ``last``, how many ``steps`` there are, and how many more transactions are open after them (``net``) and at most
    (``top``: from ``at`` until ``until``, None where no later step is known). Times are in microseconds."""

    number: int
    first: int
    last: int
    steps: int
    net: int
    top: int
    at: int
    until: int | None


class Stretch(NamedTuple):
    """Steps that follow one another in a ``log``, from the position ``first`` on: how many more transactions are open
    after them (``net``) and at most (``top``), ``at`` which position for the first time, and the ``id`` of one that
    begins there; ``counted``: how many begin."""

    log: str
    first: str
    net: int
    top: int
    counted: int
    at: str
    id: str | None


Found = tuple[Counter[str], list[Piece]]
"""How many transactions are of each kind, and what the pieces of the axis have."""


def over_time(
    capture: Tables,
    first: datetime | None,
    last: datetime | None,
    pieces: int = PIECES,
    least_us: int = 1,
    axis: TimeAxis | None = None,
) -> Concurrency:
    """How many transactions were open at once between ``first`` and ``last``, which bound all times of transactions
    (None: there are none); one Spark job, none where transactions are stored.

    An open transaction is open until ``last``, one whose begin is not in the capture from ``first`` on. The axis is cut
    into at most ``pieces`` pieces, none narrower than ``least_us`` microseconds; where it shows a part of the times
    (``axis``), that part is, and what is outside has pieces of the same width.
    """
    columns = ("began_at", "ended_at", "outcome", "completeness")
    stored = stored_rows(capture, "transactions", columns, ONE_BY_ONE)
    if first is None or last is None:
        number = capture.transactions.count() if stored is None else len(stored)
        return Concurrency([], True, 0, None, None, None, 0, 0, 0, 0, number)
    start, end = micros(first), micros(last)
    shown = end - start if axis is None else micros(axis.last) - micros(axis.first)
    width = _width(shown, pieces, least_us)
    if stored is not None:
        return summed(pieces_of(steps_of(Transactions(stored.batch()), start, end), start, width))

    def steps(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield steps_of(Transactions(batch), start, end)

    rows = capture.transactions.select(*columns)
    by_time = rows.mapInArrow(steps, "kind string, at long, number long").groupBy("kind", "at")
    in_order = by_time.agg(F.sum("number").alias("number")).where("number != 0").orderBy("at")
    return summed(folded(in_order, lambda batch: pieces_of(batch, start, width), merged_pieces))


def of_some(transactions: Transactions, numbers: Some = EVERY, pieces: int = PIECES) -> Concurrency:
    """As :func:`over_time`, of some of the transactions of an index; the times of all of them bound the axis."""
    start, end = transactions.span or (0, 0)
    return summed(pieces_of(steps_of(transactions, start, end, numbers), start, _width(end - start, pieces)))


def _width(shown_us: int, pieces: int, least_us: int = 1) -> int:
    return max(least_us, -(-(shown_us + 1) // pieces))


def steps_of(transactions: Transactions, start: int, end: int, numbers: Some = EVERY) -> pa.RecordBatch:
    """By which ``number``, not 0, that of open transactions changes ``at`` which time (microseconds since 1970 UTC, in
    order), where ``start`` and ``end`` are the first and the last of all times; and how many are of each ``kind`` (a
    field of :class:`Concurrency`; ``busy``: for how many microseconds those that are counted are open). Numbers of one
    kind and time can be summed."""
    began, ended = transactions.began[numbers], transactions.ended[numbers]
    lacks_begin = transactions.are("completeness", Completeness.NO_BEGIN)[numbers]
    no_time = (began == NO_TIME) & (ended == NO_TIME)
    low = np.where((began == NO_TIME) & lacks_begin, start, began)
    high = np.where((ended == NO_TIME) & transactions.is_open[numbers], end, ended)
    one_time = ~no_time & ((low == NO_TIME) | (high == NO_TIME))
    known = ~no_time & ~one_time
    counted = known & (low < high)
    kinds = {"counted": counted, "instants": known & (low == high), "backwards": known & (low > high)}
    kinds |= {"one_time": one_time, "no_time": no_time}
    about = {name: int(those.sum()) for name, those in kinds.items()}
    about["busy"] = int((high[counted] - low[counted]).sum())
    both = np.sort(np.concatenate([low[counted] * 2, high[counted] * 2 + 1]))  # the last bit: it ends
    at, ends = both >> 1, both & 1
    firsts = np.flatnonzero(np.diff(at, prepend=NO_TIME))
    number = np.add.reduceat(1 - 2 * ends, firsts) if len(firsts) else firsts
    steps = {"at": at[firsts][number != 0], "number": number[number != 0]}
    told = {"kind": list(about), "at": pa.nulls(len(about), pa.int64()), "number": list(about.values())}
    return (
        pa.concat_tables([pa.table(told), pa.table(steps)], promote_options="default").combine_chunks().to_batches()[0]
    )


def pieces_of(steps: pa.RecordBatch, start: int, width: int) -> Found:
    """The kinds, and a row for each piece of the axis (of ``width`` microseconds, from ``start`` on) in which there is
    one of the steps, which follow one another."""
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
    peaks = reached[np.searchsorted(reached, edges)]  # the first of each piece
    until = [at[peak + 1].item() if peak + 1 < len(at) else None for peak in peaks.tolist()]
    columns = (number[edges], at[edges], at[ends], sizes, level[ends] - before, tops - before, at[peaks])
    rows = zip(*(one.tolist() for one in columns), until, strict=True)
    return kinds, [Piece(*row) for row in rows]


def merged_pieces(parts: Sequence[Found]) -> Found:
    """Several answers of :func:`pieces_of` as one, in any order, of steps that do not overlap in time. What several say
    of one piece is not summed yet: what comes between them may be missing."""
    pieces = sorted(piece for _, those in parts for piece in those)
    return sum((kinds for kinds, _ in parts), Counter()), pieces


def summed(found: Found) -> Concurrency:
    """The answer from all pieces, in their order."""
    kinds, pieces = found
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


def in_log(capture: Tables) -> InLog:
    """The most transactions that were open at one position of the log, where a begin and an end have a position of
    their own; one Spark job, none where transactions are stored.

    For formats whose stream has begins and commits (:attr:`cdcwb.capture.Capture.committed_only` is False): where only
    committed work is delivered, transactions follow one another in the log. Positions are compared as text. Of several
    captures looked at together, each has a log of its own, as the names before the positions say.
    """
    columns = ("transaction_id", "begin_position", "end_position")
    rows = stored_rows(capture, "transactions", columns, ONE_BY_ONE)
    if rows is not None:
        return most_in_log(stretches_of(log_steps_of(rows.batch())))

    def steps(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(log_steps_of, batches)

    found = capture.transactions.select(*columns).mapInArrow(steps, "at string, delta long, counted long, id string")
    sums = [F.sum(name).alias(name) for name in ("delta", "counted")]
    in_order = found.groupBy("at").agg(*sums, F.max("id").alias("id")).orderBy("at")
    return most_in_log(folded(in_order, stretches_of, lambda parts: [*chain(*parts)]))


def log_steps_of(transactions: pa.RecordBatch) -> pa.RecordBatch:
    """By how much the number of open transactions changes (``delta``) ``at`` which position, in the order of positions;
    how many of these are ``counted``, and the ``id`` of a transaction that begins there. Of one that was open before,
    ``at`` is the name of its log, which sorts before all its positions."""
    ids = transactions["transaction_id"]
    first = pc.struct_field(pc.extract_regex(ids, "~(?P<at>.+)$"), "at")  # in the id of one without its begin
    log = pc.fill_null(_logs(first), "")
    begins = pc.coalesce(transactions["begin_position"], log)
    ends = pc.drop_null(transactions["end_position"])
    ones, less = np.ones(len(begins), np.int64), np.ones(len(ends), np.int64)
    steps = {
        "at": pa.concat_arrays([begins, ends]),
        "delta": np.concatenate([ones, -less]),
        "counted": np.concatenate([ones, 0 * less]),
        "id": pa.concat_arrays([ids, pa.nulls(len(ends), pa.string())]),
    }
    found = pa.RecordBatch.from_arrays([pa.array(column) for column in steps.values()], names=[*steps])
    return found.sort_by([("at", "ascending"), ("id", "descending")])


def _logs(positions: pa.Array) -> pa.Array:
    """What precedes the positions of one capture among several."""
    return pc.replace_substring_regex(positions, "[^/]*$", "")


def stretches_of(steps: pa.RecordBatch) -> list[Stretch]:
    """What steps that follow one another (rows of :func:`log_steps_of`, in their order) come to, in each log."""
    logs = _logs(steps["at"]).dictionary_encode()
    found = []
    for code, log in enumerate(logs.dictionary.to_pylist()):
        rows = steps.filter(pc.equal(logs.indices, code))
        at = rows["at"]
        firsts = np.flatnonzero(np.concatenate([[True], np.asarray(pc.not_equal(at[1:], at[:-1]))]))
        level = np.cumsum(np.add.reduceat(np.asarray(rows["delta"]), firsts))
        top = int(np.argmax(level))
        place = int(firsts[top])
        numbers = int(level[-1]), int(level[top]), int(np.asarray(rows["counted"]).sum())
        found.append(Stretch(log, at[0].as_py(), *numbers, at[place].as_py(), rows["id"][place].as_py()))
    return found


def most_in_log(stretches: Sequence[Stretch]) -> InLog:
    """The answer from all stretches, in any order."""
    most: tuple[int, str] | None = None
    level: Counter[str] = Counter()
    name: str | None = None
    for one in sorted(stretches):
        here = -(level[one.log] + one.top), one.at
        if most is None or here < most:
            most, name = here, one.id
        level[one.log] += one.net
    if most is None:
        return InLog(0, None, None, 0)
    known = not most[1].endswith("/") and most[1] != ""
    counted = sum(one.counted for one in stretches)
    return InLog(-most[0], most[1] if known else None, name if known else None, counted)
