"""How long a change waits for its commit, and a transaction for its end.

The latency of a change is the time of its commit less its own; that of a transaction its end less its begin. Both are
known only where the source writes both times: GBase 8s gives changes no time of their own, an event log has no
transactions. Durations are in microseconds. Where two clocks are involved (a source's and that of a server that hands
changes over), their difference is in every latency, and some may be negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.frames import rows_of
from cdcwb.formats import FORMATS, get_format
from cdcwb.index.headers import table_labels
from cdcwb.spark.folding import folded
from cdcwb.words import duration

if TYPE_CHECKING:
    from cdcwb.analysis.frames import Tables

__all__ = ["EDGES", "KEPT", "Counted", "Latency", "counted", "latencies", "latency", "merged_counts"]

EDGES: Final = (0, *(n * 10**e for e in range(12) for n in (1, 2, 5)), 10**12)
"""Where the bins of a histogram begin, in microseconds: 0, then 1, 2 and 5 in each power of ten, up to 11 days. What is
below 0 is in a bin of its own."""

KEPT: Final = 1 << 15
"""How many different latencies are counted one by one."""

_DIGITS: Final = (64, 20, 18, 16, 14, 12, 11, 10, 9, 8)
_SHARES: Final = (50, 95, 99)
_COUNTED: Final = pa.schema(
    [("table", pa.string()), *((name, pa.int64()) for name in ("us", "count", "least", "most"))]
)

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Latency:
    """How long something took.

    ``known``: of how many the latency is known, of ``all``; ``negative``: how many of them are below 0. ``p50_us``,
    ``p95_us``, ``p99_us``: so many of a hundred took no longer (the least latency that occurs of which this is so, or
    one that is longer by less than ``longer``, a share of it), ``least_us`` and ``most_us``; None where none is known.
    ``bins``: ``bin`` (words), ``from_us`` (None: below 0), ``count``; those of 0 and below only where there are any.
    ``tables`` (of changes): ``table``, ``known``, ``p50_us``, ``p95_us``, ``most_us``, the slowest first.
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
    """How often which latency occurs. ``rows``: ``table`` (null: of transactions), ``us`` (null: not known), ``count``,
    ``least`` and ``most`` (of those that are counted together); ``digits``: in how many of their leading binary digits
    these agree."""

    rows: pa.Table
    digits: int


def latency(capture: Tables) -> tuple[Latency, Latency]:
    """The latencies of changes and of transactions; two Spark jobs, none where both are stored. Changes that are part
    of no transaction (a full load), or of one that did not commit, are not waiting and not counted; nor are they of a
    format that gives changes no times of their own."""
    found = [folded(rows_of(capture, "transactions", ("began_at", "ended_at")), _of_transactions, merged_counts)]
    if capture.format not in FORMATS or get_format(capture.format).row_times:
        columns = ("schema_name", "table_name", "changed_at", "committed_at")
        found.append(folded(rows_of(capture, "changes", columns), _of_changes, merged_counts))
    return latencies(merged_counts(found))


def _of_transactions(rows: pa.RecordBatch) -> Counted:
    return counted(rows.append_column("table", pa.nulls(len(rows), pa.string())))


def _of_changes(rows: pa.RecordBatch) -> Counted:
    rows = rows.filter(rows["committed_at"].is_valid())
    columns = [table_labels(rows), rows["changed_at"], rows["committed_at"]]
    return counted(pa.RecordBatch.from_arrays(columns, names=["table", "began_at", "ended_at"]))


def counted(rows: pa.RecordBatch) -> Counted:
    """The latencies of some changes and transactions, from their ``table`` (null: of a transaction), ``began_at`` and
    ``ended_at``."""
    us = pc.subtract(rows["ended_at"].cast(pa.int64()), rows["began_at"].cast(pa.int64()))
    columns = [rows["table"].cast(pa.string()), us, pa.array(np.ones(len(us), np.int64)), us, us]
    return _counted(pa.table(columns, schema=_COUNTED), _DIGITS[0])


def merged_counts(parts: Sequence[Counted]) -> Counted:
    """Several answers of :func:`counted` as one."""
    rows = pa.concat_tables([_COUNTED.empty_table(), *(part.rows for part in parts)])
    return _counted(rows, min((part.digits for part in parts), default=_DIGITS[0]))


def _counted(rows: pa.Table, digits: int) -> Counted:
    """The rows in as many digits, ``digits`` at most, as :data:`KEPT` allows."""
    for least in _DIGITS[_DIGITS.index(digits) :]:
        rows = _summed(rows, least, ["table", "us"])
        if len(rows) <= KEPT:
            break
    return Counted(rows, least)


def _summed(rows: pa.Table, digits: int, by: list[str]) -> pa.Table:
    """Rows that have the same in ``by`` as one, where only the leading digits of a latency count."""
    if digits < 64:
        us = rows["us"].combine_chunks()
        known = np.asarray(pc.fill_null(us, 0))
        length = np.frexp(np.abs(known).astype(np.float64))[1]
        shift = np.maximum(length - digits, 0)
        less = np.sign(known) * (np.abs(known) >> shift << shift)
        edges = np.asarray((np.iinfo(np.int64).min, *EDGES))  # what is counted together is in one bin
        less = np.maximum(less, edges[np.searchsorted(EDGES, known, "right")])
        rows = rows.set_column(1, "us", pa.array(less, mask=np.asarray(us.is_null())))
    sums = [("count", "sum"), ("least", "min"), ("most", "max")]
    return rows.group_by(by, use_threads=False).aggregate(sums).rename_columns([*by, "count", "least", "most"])


def latencies(found: Counted) -> tuple[Latency, Latency]:
    """The latencies of changes, and of transactions."""
    is_change = found.rows["table"].is_valid()
    changes, transactions = found.rows.filter(is_change), found.rows.filter(pc.invert(is_change))
    names = changes["table"].unique().to_pylist()
    tables = {name: _of_one_kind(changes.filter(pc.equal(changes["table"], name)), found.digits) for name in names}
    rows = [
        {"table": name, "known": one.known, "p50_us": one.p50_us, "p95_us": one.p95_us, "most_us": one.most_us}
        for name, one in tables.items()
        if one.known
    ]
    rows.sort(key=lambda row: (-row["p95_us"], -row["most_us"], row["table"]))
    whole = _of_one_kind(_summed(changes, _DIGITS[0], ["us"]), found.digits)
    return replace(whole, tables=rows), _of_one_kind(transactions, found.digits)


def _of_one_kind(rows: pa.Table, digits: int) -> Latency:
    """The answer from the latencies of one kind."""
    total = pc.sum(rows["count"]).as_py() or 0
    rows = rows.filter(rows["us"].is_valid()).sort_by("us")
    us, count, most = (np.asarray(rows[name]) for name in ("us", "count", "most"))
    if not len(us):
        return Latency(all=total)
    upto = np.cumsum(count)
    known = int(upto[-1])
    p50, p95, p99 = (int(most[np.searchsorted(upto, -(-known * share // 100))]) for share in _SHARES)
    counts = np.bincount(np.searchsorted(EDGES, us, "right"), count, len(EDGES) + 1).astype(np.int64).tolist()
    there = [number for number in range(2, len(counts)) if counts[number]]
    least = [number for number in (0, 1) if counts[number]]  # below 0, and 0 itself
    numbers = [*least, *range(min(there, default=0), max(there, default=-1) + 1)]
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
    """A bin from its number: how many of :data:`EDGES` are not above what is in it."""
    if number == 0:
        return {"bin": "below 0", "from_us": None, "count": count}
    low = EDGES[number - 1]
    words = _short(low) if number < len(EDGES) else f"{_short(low)} and more"
    return {"bin": words, "from_us": low, "count": count}


def _short(us: int) -> str:
    """Where a bin begins, in one unit: ``0``, ``5 µs``, ``20 ms``, ``1 s``, ``500 s``; from 1,000 s on in full."""
    if us == 0:
        return "0"
    for size, unit in ((1_000_000, "s"), (1000, "ms"), (1, "µs")):
        if us >= size and us // size < 1000:
            return f"{us // size} {unit}"
    return duration(us)
