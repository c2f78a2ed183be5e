"""Transactions of a capture; results are small.

A question about transactions alone is one function for the batches of a table, whose results are merged
(:mod:`cdcwb.dataset`), and for the selected transactions of the local index
(:class:`cdcwb.index.changes.TransactionIndex`).
Durations are in microseconds. Times are UTC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.change_counts import added, binned, counted
from cdcwb.analysis.contents import BINS
from cdcwb.analysis.frames import time_axis
from cdcwb.analysis.totals import count_changes
from cdcwb.dataset import grouped, joined
from cdcwb.formats import FORMATS, get_format
from cdcwb.index.changes import EVERY, INCOMPLETE, Some, TransactionIndex
from cdcwb.index.columns import NO_TIME, Ints, table_labels
from cdcwb.model import TRANSACTIONS, Completeness, Outcome, Problem
from cdcwb.times import TimeAxis, micros, time_of
from cdcwb.words import duration

DRAWN_AT_MOST: Final = 5_000
"""The number of transactions that are drawn individually; more make a page slow and the chart unreadable."""

_SECOND: Final = 1_000_000
_DURATIONS: Final = (
    (0, "ends before it begins"),
    (_SECOND, "under 1 s"),
    (10 * _SECOND, "1 s to 10 s"),
    (60 * _SECOND, "10 s to 1 min"),
    (600 * _SECOND, "1 min to 10 min"),
    (3600 * _SECOND, "10 min to 1 h"),
)
_STATES: Final = {Outcome.ROLLED_BACK: "rolled back", Outcome.OPEN: "open"}
BANDS: Final = (*(name for _, name in _DURATIONS), "1 h and more", "duration not known", *_STATES.values())
"""The rows of a :func:`histogram`: durations from short to long, then transactions that did not commit."""

_MISSING: Final = (Problem.GAP, Problem.NO_BEGIN, Problem.OPEN_TRANSACTION)
_TOGETHER: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("first_time", "first_position"), min),
    **dict.fromkeys(("last_time", "last_position", "longest_us"), max),
    "whole_seconds": all,
}

_FOREVER: Final = 1 << 62

Facts = dict[str, Any]
Choose = Callable[[TransactionIndex], Ints]


def overview(capture: Any) -> Facts:
    """Numbers about all transactions (:func:`overview_of`)."""
    rows = capture.rows("transactions", [name for name in TRANSACTIONS.names if name != "tables"])
    facts: Facts = rows.fold(lambda batch: overview_of(TransactionIndex(batch)), merged_overviews)
    return facts


def overview_of(transactions: TransactionIndex) -> Facts:
    """Numbers about transactions.

    ``transactions`` and by outcome ``transactions_committed``, ``_rolled_back``, ``_open``; by completeness
    ``transactions_complete``, ``_no_begin``, ``_no_end``, ``_gaps``, ``_unknown``; ``transactions_unfinished`` (those
    of :func:`unfinished`); ``transactions_without_time`` (without time of begin and end), ``transactions_with_user``
    (with a known user); ``transaction_changes`` (including undone ones), ``transaction_bytes`` (rows, if the offsets of
    the capture are rows); ``first_time``, ``last_time``, ``first_position``, ``last_position`` (of begins and ends),
    ``longest_us`` (of those with known begin and end): None if unknown; ``whole_seconds``: no time has a fraction of a
    second.
    """
    began, ended = transactions.began, transactions.ended
    times = np.concatenate([began, ended])
    times = times[times != NO_TIME]
    took = int(transactions.took.max(initial=NO_TIME))
    positions = pa.chunked_array([transactions.first_positions, transactions.rows["end_position"]])
    bounds = pc.min_max(positions).as_py()
    outcomes, states = transactions.counts("outcome"), transactions.counts("completeness")
    kinds = (Outcome.COMMITTED, Outcome.ROLLED_BACK, Outcome.OPEN)
    return {
        "transactions": len(began),
        **{f"transactions_{name}": outcomes.get(name, 0) for name in kinds},
        **{f"transactions_{name}": states.get(name, 0) for name in Completeness},
        "transactions_unfinished": int(transactions.is_unfinished.sum()),
        "transactions_without_time": int(((began == NO_TIME) & (ended == NO_TIME)).sum()),
        "transactions_with_user": int((transactions.codes["user"] >= 0).sum()),
        "transaction_changes": int(transactions.changes.sum()),
        "transaction_bytes": int(transactions.bytes.sum()),
        "first_time": time_of(times.min()) if len(times) else None,
        "last_time": time_of(times.max()) if len(times) else None,
        "first_position": bounds["min"],
        "last_position": bounds["max"],
        "longest_us": None if took == NO_TIME else took,
        "whole_seconds": not (times % _SECOND).any(),
    }


def merged_overviews(parts: Sequence[Facts]) -> Facts:
    """The merged results of :func:`overview_of`."""
    parts = parts or [overview_of(TransactionIndex(joined([], TRANSACTIONS)))]
    known = {name: [part[name] for part in parts if part[name] is not None] for name in parts[0]}
    return {name: _TOGETHER.get(name, sum)(values) if values else None for name, values in known.items()}


RANKED: Final = 10
"""The number of transactions that a page names as its longest."""


def timeline(
    capture: Any,
    limit: int = DRAWN_AT_MOST,
    until: datetime | None = None,
    window: tuple[datetime, datetime] | None = None,
) -> list[Facts]:
    """The transactions of :func:`drawn`, as rows for :func:`cdcwb.charts.timeline`; ``window``: of those that overlap
    these times.

    Rows are those of :meth:`cdcwb.index.changes.TransactionIndex.records`. An open transaction lasts until ``until``;
    transactions of unknown duration are last. Of equal durations, the one with more bytes is first.
    """

    def choose(rows: TransactionIndex) -> Ints:
        numbers = np.arange(len(rows))
        return drawn(rows, limit, numbers if window is None else reaching(rows, numbers, window))

    return _first(capture, choose, until)


def longest(transactions: TransactionIndex, limit: int, numbers: Some = EVERY) -> Ints:
    """The ``limit`` longest of some transactions, longest first, as rows of :func:`timeline`."""
    lasted = np.maximum(transactions.lasted, -_FOREVER)
    return ranked_by(transactions, limit, numbers, -lasted, -transactions.bytes)


def drawn(transactions: TransactionIndex, limit: int, numbers: Ints) -> Ints:
    """The transactions that are drawn as bars if at most ``limit`` are, longest first. A quarter are kept for those
    that did not commit or are incomplete, which others may all outlast."""
    if len(numbers) <= limit:
        return longest(transactions, limit, numbers)
    unfinished = longest(transactions, limit // 4, numbers[transactions.is_unfinished[numbers]])
    others = longest(transactions, limit - len(unfinished), numbers[~np.isin(numbers, unfinished)])
    return longest(transactions, limit, np.concatenate([unfinished, others]))


Density = dict[str, tuple[int, list[tuple[int, int]]]]
"""By outcome: the number of transactions, and the begin (microseconds since 1970 UTC) of each bin that has some, with
their number."""


def density(capture: Any, axis: TimeAxis) -> tuple[Density, int]:
    """The number of transactions by outcome and by the time of their begin, else their end, in bins of the axis, and
    the width of these in microseconds; those without any time are only in the total."""
    start, width = axis.bins(BINS)
    rows = capture.rows("transactions", ("began_at", "ended_at", "outcome"))
    counts: Counter[Any] = rows.fold(partial(_density_of, start=start, width=width), added)
    result: Density = {}
    for (number, outcome), times in sorted(counts.items(), key=lambda item: (item[0][1], item[0][0] or 0)):
        total, bins = result.get(outcome, (0, []))
        result[outcome] = total + times, bins + ([] if number is None else [(start + number * width, times)])
    return result, width


def _density_of(rows: pa.RecordBatch, start: int, width: int) -> Counter[Any]:
    transactions = TransactionIndex(rows)
    at = np.where(transactions.began == NO_TIME, transactions.ended, transactions.began)
    codes, texts = transactions.codes["outcome"], transactions.texts["outcome"]
    return binned(at, codes, texts, start=start, width_us=width)


def ranked(
    capture: Any, limit: int, name: str = "", descending: bool = True, until: datetime | None = None
) -> list[Facts]:
    """The first ``limit`` transactions by a column (empty: the longest first): ``began_at``, ``ended_at``,
    ``lasted_us``, ``changes``, or ``bytes`` or ``rows`` (their size)."""

    def choose(rows: TransactionIndex) -> Ints:
        if not name:
            return longest(rows, limit)
        columns = {"began_at": rows.began, "ended_at": rows.ended, "lasted_us": rows.lasted, "changes": rows.changes}
        values = columns.get(name, rows.bytes)
        ranks = np.where(values == NO_TIME, np.iinfo(np.int64).max, -values if descending else values)
        return ranked_by(rows, limit, EVERY, ranks)

    return _first(capture, choose, until)


def largest(capture: Any, limit: int = 10) -> list[Facts]:
    """The transactions with most bytes in the capture, largest first, as rows of :func:`timeline`."""
    return _first(capture, lambda rows: ranked_by(rows, limit, EVERY, -rows.bytes, -rows.changes))


def ranked_by(transactions: TransactionIndex, limit: int, numbers: Some, first: Ints, *keys: Ints | pa.Array) -> Ints:
    """The first ``limit`` of some transactions by ascending keys; equal keys are ordered by id."""
    chosen = np.arange(len(transactions))[numbers]
    if 0 < limit < len(chosen):  # comparing all ids would take most of the time
        chosen = chosen[first[chosen] <= np.partition(first[chosen], limit - 1)[limit - 1]]
    if not len(chosen):  # PyArrow before 19 fails to take nothing from an empty array
        return chosen
    by = [first, *keys, transactions.rows["transaction_id"]]
    columns = {str(number): pa.array(key).take(pa.array(chosen)) for number, key in enumerate(by)}
    order = pc.select_k_unstable(pa.table(columns), limit, [(name, "ascending") for name in columns])
    return chosen[np.asarray(order).astype(np.int64)]


def reaching(transactions: TransactionIndex, numbers: Ints, window: tuple[datetime, datetime]) -> Ints:
    """The transactions that overlap a window of time."""
    first, last = map(micros, window)
    return numbers[transactions.open_in(first, last + 1)[numbers]]


def unfinished(capture: Any, limit: int = 100) -> list[Facts]:
    """Transactions that did not commit or are incomplete: open ones first, then incomplete ones, then those rolled
    back, each in log order. Rows of :func:`timeline` with ``missing``: the sentences of their problems; null if nothing
    is missing."""
    rows = _first(capture, lambda rows: first_unfinished(rows, limit))
    ids = [row["transaction_id"] for row in rows]
    sentences: set[tuple[str, str]] = set()
    if ids:
        columns = ("code", "transaction_id", "sentence")
        sentences = capture.rows("problems", columns).fold(partial(_sentences_of, ids), lambda sets: {*chain(*sets)})
    for row in rows:  # a part of a capture does not have its problems
        state, missing = row["completeness"], sorted(text for name, text in sentences if name == row["transaction_id"])
        row["missing"] = "; ".join(missing) or (state.replace("_", " ") if state in INCOMPLETE else None)
    return rows


def _sentences_of(ids: Sequence[str], problems: pa.RecordBatch) -> set[tuple[str, str]]:
    """The sentences of the problems of some transactions, by id."""
    is_missing = pc.is_in(problems["code"], pa.array(map(str, _MISSING)))
    rows = problems.filter(pc.and_(is_missing, pc.is_in(problems["transaction_id"], pa.array(ids, pa.string()))))
    return {(row["transaction_id"], row["sentence"]) for row in rows.to_pylist()}


def first_unfinished(transactions: TransactionIndex, limit: int) -> Ints:
    """The first ``limit`` unfinished transactions, in the order of :func:`unfinished`."""
    some = np.flatnonzero(transactions.is_unfinished)
    state = np.where(transactions.is_open, 0, np.where(transactions.is_incomplete, 1, 2))
    return ranked_by(transactions, limit, some, state, pc.fill_null(transactions.first_positions, ""))


def axis(capture: Any, first: datetime, last: datetime) -> TimeAxis | None:
    """The time axis of begins and ends of transactions, which ``first`` and ``last`` bound."""
    return time_axis(capture.rows("transactions", ("began_at", "ended_at")), _both_ends, first, last)


def _both_ends(rows: pa.RecordBatch) -> Ints:
    transactions = TransactionIndex(rows)
    return np.concatenate([transactions.began, transactions.ended])


def histogram(capture: Any, axis: TimeAxis, bins: int = 120, least_us: int = 1) -> tuple[list[Facts], int]:
    """The number of transactions by time of begin, and by duration or outcome: a row (``began_at``, ``row`` of
    :data:`BANDS`, ``transactions``) for every bin that is not empty; and the width of a bin in microseconds.

    At most ``bins`` bins of a round width of at least ``least_us`` microseconds cover the axis; transactions that began
    outside have bins of the same width. Transactions without a time of begin are left out.
    """
    start, width = axis.bins(bins, least_us)
    rows = capture.rows("transactions", ("began_at", "ended_at", "outcome"))
    counts = rows.fold(lambda batch: histogram_of(TransactionIndex(batch), start, width), added)
    cells = [
        {"began_at": time_of(start + number * width), "row": band, "transactions": times}
        for (number, band), times in sorted(counts.items())
    ]
    return cells, width


def histogram_of(transactions: TransactionIndex, start: int, width_us: int) -> Counter[Any]:
    """The number of transactions by bin of their begin, from 0 at ``start``, and row of :data:`BANDS`. Merged by
    :func:`~cdcwb.analysis.change_counts.added`."""
    began, took = transactions.began, transactions.took
    band = np.searchsorted([below for below, _ in _DURATIONS], took, "right")
    band[took == NO_TIME] = BANDS.index("duration not known")
    for outcome, name in _STATES.items():
        band[transactions.are("outcome", outcome)] = BANDS.index(name)
    known = began != NO_TIME
    return counted(None, [(began[known] - start) // width_us, band[known]], [None, BANDS])


def changes(capture: Any) -> list[Facts]:
    """The number of logical changes: ``operation``, ``outcome``, ``changes``, a row for each pair that occurs."""
    counts = Counter[tuple[str | None, str | None]]()
    for row in count_changes(capture, with_images=False):
        counts[row["operation"], row["outcome"]] += row["changes"]
    pairs = sorted(counts, key=lambda pair: [(text is not None, text) for text in pair])
    return [{"operation": pair[0], "outcome": pair[1], "changes": counts[pair]} for pair in pairs]


def undone(capture: Any) -> list[Facts]:
    """Transactions with changes that a rollback to a savepoint undid, most first: ``transaction_id``, ``changes``,
    ``first_position``, ``last_position`` (of those changes), ``tables`` (up to ten, by name)."""
    rows = capture.rows("changes", ("transaction_id", "schema_name", "table_name", "outcome", "position"))
    by_table = rows.totals(_UNDONE, _undone_of)
    totals = grouped([by_table.drop_columns(["table"])], _UNDONE)
    tables = by_table.group_by("transaction_id", use_threads=False).aggregate([("table", "list")])["table_list"]
    pairs = zip(totals.to_pylist(), tables.to_pylist(), strict=True)
    result: list[Facts] = [row | {"tables": sorted(names)[:10]} for row, names in pairs]
    return sorted(result, key=lambda row: (-row["changes"], row["first_position"]))


_UNDONE: Final = {"changes": "sum", "first_position": "min", "last_position": "max"}


def _undone_of(changes: pa.RecordBatch) -> dict[str, pa.Array]:
    """The undone changes, by transaction and table."""
    rows = changes.filter(pc.equal(changes["outcome"], str(Outcome.UNDONE)))
    columns = dict.fromkeys(("first_position", "last_position"), rows["position"])
    columns |= {"transaction_id": rows["transaction_id"], "table": table_labels(rows)}
    return columns | {"changes": pa.repeat(1, len(rows))}


def _first(capture: Any, choose: Choose, until: datetime | None = None) -> list[Facts]:
    end = NO_TIME if until is None else micros(until)
    rows = capture.rows("transactions", TRANSACTIONS.names)
    first = rows.fold(*chosen_by(choose, end, rows.schema))
    return TransactionIndex(first, end).records(np.arange(len(first)))


def chosen_by(
    choose: Choose, until: int = NO_TIME, schema: pa.Schema = TRANSACTIONS
) -> tuple[Callable[[pa.RecordBatch], pa.RecordBatch], Callable[[Sequence[pa.RecordBatch]], pa.RecordBatch]]:
    """The rows that ``choose`` selects: from each batch, then from the union of these."""

    def first(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.take(pa.array(choose(TransactionIndex(batch, until))))

    def merge(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        return first(joined(parts, schema))

    return first, merge


# --- latency ----------------------------------------------------------------------------------------------------------

EDGES: Final = (0, *(n * 10**e for e in range(12) for n in (1, 2, 5)), 10**12)
"""The lower edges of the bins of a histogram, in microseconds: 0, then 1, 2 and 5 in each power of ten, up to 11 days.
Values below 0 have a bin of their own."""

KEPT: Final = 1 << 15
"""The maximum number of distinct latencies that are counted exactly."""

_DIGITS: Final = (64, 20, 18, 16, 14, 12, 11, 10, 9, 8)
_SHARES: Final = (50, 95, 99)
_COUNTED: Final = pa.schema([("table", pa.string()), *((one, pa.int64()) for one in ("us", "count", "least", "most"))])


@dataclass(frozen=True, slots=True)
class Latency:
    """Latencies.

    ``known``: how many of ``all`` are known; ``negative``: how many of these are below 0. ``p50_us``, ``p95_us``,
    ``p99_us``: percentiles (the smallest latency that occurs with at least that share at or below it, or one that is
    longer by less than the share ``longer``), ``least_us`` and ``most_us``; None if none is known. ``bins``: ``bin``
    (words), ``from_us`` (None: below 0), ``count``; the bins of 0 and below only if they are not empty. ``tables`` (of
    changes): ``table``, ``least_us`` and :attr:`figures`, slowest first.
    """

    known: int = 0
    all: int = 0
    negative: int = 0
    least_us: int | None = None
    p50_us: int | None = None
    p95_us: int | None = None
    p99_us: int | None = None
    most_us: int | None = None
    bins: list[dict[str, Any]] = field(default_factory=list)
    tables: list[dict[str, Any]] = field(default_factory=list)
    longer: float = 0

    @property
    def figures(self) -> dict[str, int | None]:
        """``known``, ``negative``, ``p50_us``, ``p95_us``, ``p99_us``, ``most_us``."""
        return {name: getattr(self, name) for name in ("known", "negative", "p50_us", "p95_us", "p99_us", "most_us")}


class Counted(NamedTuple):
    """Counts of latencies. ``rows``: ``table`` (null: of transactions), ``us`` (null: unknown), ``count``, ``least``
    and ``most`` (of those that are counted together); ``digits``: how many leading binary digits these have in
    common."""

    rows: pa.Table
    digits: int


def latency(capture: Any) -> tuple[Latency, Latency]:
    """The latencies of changes and of transactions. Changes outside transactions (a full load) or of transactions that
    did not commit are not counted, nor are those of a format without times of changes."""
    latencies_of = [capture.rows("transactions", ("began_at", "ended_at")).fold(_of_transactions, merged_counts)]
    if capture.format not in FORMATS or get_format(capture.format).row_times:
        columns = ("schema_name", "table_name", "changed_at", "committed_at")
        latencies_of.append(capture.rows("changes", columns).fold(_of_changes, merged_counts))
    return latencies(merged_counts(latencies_of))


def _of_transactions(rows: pa.RecordBatch) -> Counted:
    return counted_latencies(rows.append_column("table", pa.nulls(len(rows), pa.string())))


def _of_changes(rows: pa.RecordBatch) -> Counted:
    rows = rows.filter(rows["committed_at"].is_valid())
    columns = [table_labels(rows), rows["changed_at"], rows["committed_at"]]
    return counted_latencies(pa.RecordBatch.from_arrays(columns, names=["table", "began_at", "ended_at"]))


def counted_latencies(rows: pa.RecordBatch) -> Counted:
    """The counted latencies of some changes and transactions, from their ``table`` (null: of a transaction),
    ``began_at`` and ``ended_at``."""
    us = pc.subtract(rows["ended_at"].cast(pa.int64()), rows["began_at"].cast(pa.int64()))
    columns = [rows["table"].cast(pa.string()), us, pa.array(np.ones(len(us), np.int64)), us, us]
    return _counted(pa.table(columns, schema=_COUNTED), _DIGITS[0])


def merged_counts(parts: Sequence[Counted]) -> Counted:
    """The merged results of :func:`counted_latencies`."""
    rows = pa.concat_tables([_COUNTED.empty_table(), *(part.rows for part in parts)])
    return _counted(rows, min((part.digits for part in parts), default=_DIGITS[0]))


def _counted(rows: pa.Table, digits: int) -> Counted:
    """Rows with as many leading digits, at most ``digits``, as :data:`KEPT` allows."""
    for least in _DIGITS[_DIGITS.index(digits) :]:
        rows = _summed(rows, least, ["table", "us"])
        if len(rows) <= KEPT:
            break
    return Counted(rows, least)


def _summed(rows: pa.Table, digits: int, by: list[str]) -> pa.Table:
    """Sums rows that are equal in ``by`` and in the leading digits of their latency."""
    if digits < 64:
        us = rows["us"].combine_chunks()
        known = np.asarray(pc.fill_null(us, 0))
        length = np.frexp(np.abs(known).astype(np.float64))[1]
        shift = np.maximum(length - digits, 0)
        less = np.sign(known) * (np.abs(known) >> shift << shift)
        edges = np.asarray((np.iinfo(np.int64).min, *EDGES))  # latencies that are counted together are in one bin
        less = np.maximum(less, edges[np.searchsorted(EDGES, known, "right")])
        rows = rows.set_column(1, "us", pa.array(less, mask=np.asarray(us.is_null())))
    sums = [("count", "sum"), ("least", "min"), ("most", "max")]
    return rows.group_by(by, use_threads=False).aggregate(sums).rename_columns([*by, "count", "least", "most"])


def latencies(counts: Counted) -> tuple[Latency, Latency]:
    """The latencies of changes, and of transactions."""
    is_change = counts.rows["table"].is_valid()
    changes, transactions = counts.rows.filter(is_change), counts.rows.filter(pc.invert(is_change))
    tables = {
        table: _of_one_kind(changes.filter(pc.equal(changes["table"], table)), counts.digits)
        for table in changes["table"].unique().to_pylist()
    }
    rows: list[dict[str, Any]] = [
        {"table": table, "least_us": of_table.least_us, **of_table.figures}
        for table, of_table in tables.items()
        if of_table.known
    ]
    rows.sort(key=lambda row: (-row["p95_us"], -row["most_us"], row["table"]))
    of_changes = _of_one_kind(_summed(changes, _DIGITS[0], ["us"]), counts.digits)
    return replace(of_changes, tables=rows), _of_one_kind(transactions, counts.digits)


def _of_one_kind(rows: pa.Table, digits: int) -> Latency:
    """The result for the latencies of one kind."""
    total = pc.sum(rows["count"]).as_py() or 0
    rows = rows.filter(rows["us"].is_valid()).sort_by("us")
    us, count, most = (np.asarray(rows[name]) for name in ("us", "count", "most"))
    if not len(us):
        return Latency(all=total)
    upto = np.cumsum(count)
    known = int(upto[-1])
    p50, p95, p99 = (int(most[np.searchsorted(upto, -(-known * share // 100))]) for share in _SHARES)
    counts = np.bincount(np.searchsorted(EDGES, us, "right"), count, len(EDGES) + 1).astype(np.int64).tolist()
    filled = [number for number in range(2, len(counts)) if counts[number]]
    least = [number for number in (0, 1) if counts[number]]  # below 0, and 0
    numbers = [*least, *range(min(filled, default=0), max(filled, default=-1) + 1)]
    return Latency(
        known=known,
        all=total,
        negative=counts[0],
        least_us=pc.min(rows["least"]).as_py(),
        p50_us=p50,
        p95_us=p95,
        p99_us=p99,
        most_us=pc.max(rows["most"]).as_py(),
        bins=[_bin(number, counts[number]) for number in numbers],
        longer=0 if digits == _DIGITS[0] else 2.0 ** (1 - digits),
    )


def _bin(number: int, count: int) -> dict[str, Any]:
    """A bin by the number of :data:`EDGES` that are not above its values."""
    if number == 0:
        return {"bin": "below 0", "from_us": None, "count": count}
    low = EDGES[number - 1]
    words = _short(low) if number < len(EDGES) else f"{_short(low)} and more"
    return {"bin": words, "from_us": low, "count": count}


def _short(us: int) -> str:
    """The lower edge of a bin in one unit: ``0``, ``5 µs``, ``20 ms``, ``1 s``, ``500 s``; in full from 1,000 s."""
    if us == 0:
        return "0"
    for size, unit in ((1_000_000, "s"), (1000, "ms"), (1, "µs")):
        if us >= size and us // size < 1000:
            return f"{us // size} {unit}"
    return duration(us)
