"""How long a change waits for its commit, and a transaction for its end.

The latency of a change is the time of its commit less its own; that of a transaction its end less its begin. Both are
known only where the source writes both times: GBase 8s gives changes no time of their own, an event log has no
transactions. Durations are in microseconds. Where two clocks are involved (a source's and that of a server that hands
changes over), their difference is in every latency, and some may be negative.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql import functions as F

from cdcwb.analysis.frames import table_name
from cdcwb.formats import FORMATS, get_format
from cdcwb.words import duration

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["EDGES", "Latency", "latency"]

EDGES: Final = (0, *(n * 10**e for e in range(12) for n in (1, 2, 5)), 10**12)
"""Where the bins of a histogram begin, in microseconds: 0, then 1, 2 and 5 in each power of ten, up to 11 days. What is
below 0 is in a bin of its own."""

_ACCURACY: Final = 10_000
_SHARES: Final = (0.5, 0.95, 0.99)
_CHANGES, _TRANSACTIONS = "changes", "transactions"


class Tables(Protocol):
    """What is asked of a capture: its transactions and its changes (:mod:`cdcwb.model`)."""

    @property
    def format(self) -> str: ...
    @property
    def transactions(self) -> DataFrame: ...
    @property
    def changes(self) -> DataFrame: ...
    @property
    def change_headers(self) -> DataFrame: ...


@dataclass(frozen=True, slots=True)
class Latency:
    """How long something took.

    ``known``: of how many the latency is known, of ``all``; ``negative``: how many of them are below 0. ``p50_us``,
    ``p95_us``, ``p99_us``: so many of a hundred took no longer (a latency that occurs; its rank is right to one in
    10,000), ``least_us`` and ``most_us``; None where none is known. ``bins``: ``bin`` (words), ``from_us`` (None: below
    0), ``count``; those of 0 and below only where there are any. ``tables`` (of changes): ``table``,
    ``known``, ``p50_us``, ``p95_us``, ``most_us``, the slowest first.
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

    @property
    def figures(self) -> dict[str, int | None]:
        """``known``, ``negative``, ``p50_us``, ``p95_us``, ``p99_us``, ``most_us``."""
        return {name: getattr(self, name) for name in ("known", "negative", "p50_us", "p95_us", "p99_us", "most_us")}


def latency(capture: Tables) -> tuple[Latency, Latency]:
    """The latencies of changes and of transactions; one Spark job. Changes that are part of no transaction (a full
    load), or of one that did not commit, are not waiting and not counted; nor are they of a format that gives changes
    no times of their own."""
    ended, began = F.unix_micros("ended_at"), F.unix_micros("began_at")
    parts = [_part(capture.transactions, _TRANSACTIONS, ended - began, F.lit(None).cast("string"))]
    if capture.format not in FORMATS or get_format(capture.format).row_times:
        # a snapshot may have kept only what places a change
        changes = capture.changes if "changed_at" in capture.changes.columns else capture.change_headers
        waited = F.unix_micros("committed_at") - F.unix_micros("changed_at")
        parts.append(_part(changes.where("committed_at IS NOT NULL"), _CHANGES, waited, table_name()))
    rows = reduce(lambda one, other: one.unionAll(other), parts)
    number = F.size(F.filter(F.array(*map(F.lit, EDGES)), lambda edge: edge <= F.col("us")))
    binned = rows.withColumn("bin", F.when(F.col("us").isNotNull(), number))
    sets = [[F.col("what")], [F.col("what"), F.col("bin")], [F.col("what"), F.col("table")]]
    answers = (
        binned.groupingSets(sets, "what", "bin", "table")
        .agg(
            (F.grouping("bin") == 0).alias("of_bin"),
            (F.grouping("table") == 0).alias("of_table"),
            F.count("*").alias("all"),
            F.count("us").alias("known"),
            F.count_if(F.col("us") < 0).alias("negative"),
            F.min("us").alias("least_us"),
            F.max("us").alias("most_us"),
            F.percentile_approx("us", list(_SHARES), _ACCURACY).alias("shares"),
        )
        .toArrow()
        .to_pylist()
    )
    return (
        _told(row for row in answers if row["what"] == _CHANGES),
        _told(r for r in answers if r["what"] != _CHANGES),
    )


def _part(frame: DataFrame, what: str, us: Column, table: Column) -> DataFrame:
    return frame.select(F.lit(what).alias("what"), us.alias("us"), table.alias("table"))


def _told(rows: Iterable[dict[str, Any]]) -> Latency:
    """The answer from the rows of one kind: of all, of each bin and of each table."""
    these = list(rows)
    whole = next((row for row in these if not row["of_bin"] and not row["of_table"]), None)
    if whole is None:
        return Latency()
    counts = {row["bin"]: row["known"] for row in these if row["of_bin"] and row["bin"] is not None}
    least = [number for number in (0, 1) if number in counts]  # below 0, and 0 itself
    rest = [number for number in counts if number > 1]
    numbers = [*least, *range(min(rest, default=0), max(rest, default=-1) + 1)]
    bins = [_bin(number, counts.get(number, 0)) for number in numbers]
    tables = [
        {"table": row["table"], "known": row["known"], "p50_us": row["shares"][0], "p95_us": row["shares"][1]}
        | {"most_us": row["most_us"]}
        for row in these
        if row["of_table"] and row["table"] is not None and row["known"]
    ]
    tables.sort(key=lambda row: (-row["p95_us"], -row["most_us"], row["table"]))
    shares = dict(zip(("p50_us", "p95_us", "p99_us"), whole["shares"] or (None, None, None), strict=True))
    named = {name: whole[name] for name in ("known", "all", "negative", "least_us", "most_us")}
    return Latency(**named, **shares, bins=bins, tables=tables)


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
