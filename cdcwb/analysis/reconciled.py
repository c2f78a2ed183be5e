"""What became of the changes of two captures that were put side by side: how many, where, when, in which columns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cdcwb.analysis.frames import small, time_axis
from cdcwb.spark.known import InferredKey
from cdcwb.time_axis import TimeAxis, time_of

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame

__all__ = ["DIFFERENCES", "KINDS", "PLACE", "STEPS", "TIME", "Reconciled"]

KINDS: Final = ("same", "missing", "extra", "different")
"""What becomes of a change; besides, it may be late."""

STEPS: Final = (
    *(step * 10**power for power in (3, 4, 5) for step in (1, 2, 5)),
    *(
        seconds * 1_000_000
        for seconds in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400)
    ),
)
"""Where the spans of delays begin, in microseconds, behind those of delays below 0, of 0 and from 1 on."""

_SPANS: Final = 120  # of time
TIME: Final = pa.timestamp("us", tz="UTC")
PLACE: Final = [("file", pa.string()), ("offset", pa.int64()), ("position", pa.string()), ("at", TIME)]
_CHANGED: Final = pa.struct(
    [("column", pa.string()), ("old", pa.string()), ("new", pa.string()), ("old_known", pa.bool_())]
)
_COLUMN: Final = pa.struct([("column", pa.string()), ("source", pa.string()), ("target", pa.string())])

DIFFERENCES: Final = pa.schema(
    [
        ("what", pa.string()),  # same, missing, extra or different
        ("reason", pa.string()),  # why it is missing or extra: a value of Reason; null where it is in both
        ("table", pa.string()),  # by the source's name
        ("key", pa.string()),  # c=v, c=v
        ("operation", pa.string()),
        ("source", pa.struct(PLACE)),  # null where it is extra
        ("target", pa.struct(PLACE)),  # null where it is missing
        ("delay_us", pa.int64()),  # the target's time less the source's; null where one is not known
        ("late", pa.bool_()),
        ("columns", pa.list_(_COLUMN)),  # those that differ, only
        ("changed", pa.list_(_CHANGED)),  # what a missing or extra change did: its columns with old and new values
    ]
)
"""One row for each change of the source or the target. ``at`` is the time of the commit, or the change's own where the
commit's is not known."""


@dataclass(frozen=True)
class Reconciled:
    """What was found. ``pairs`` is a DataFrame of :data:`DIFFERENCES`, which every question reads again unless it is
    :meth:`kept`. ``without_key``: changes of either side that have no key and were compared with none, by table.
    ``inferred``: the keys that were inferred. ``notes``: sentences about what could not be compared. ``first`` and
    ``last``: the times of both captures."""

    pairs: DataFrame
    without_key: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)
    first: datetime | None = None
    last: datetime | None = None
    inferred: tuple[InferredKey, ...] = ()

    def kept(self, place: str | Path) -> Reconciled:
        """The same, matched once: written to ``place``, a folder that is made, as Parquet."""
        self.pairs.write.mode("overwrite").parquet(str(place))
        spark = self.pairs.sparkSession
        return replace(self, pairs=spark.read.schema(from_arrow_schema(DIFFERENCES)).parquet(str(place)))

    @property
    def width_us(self) -> int:
        """How long a span of :meth:`over_time` is, in microseconds."""
        return self._spans[1]

    @cached_property
    def _spans(self) -> tuple[int, int]:
        """Where the spans of time begin, and how long they are, in microseconds."""
        return (0, 1) if self.axis is None else self.axis.bins(_SPANS)

    @cached_property
    def axis(self) -> TimeAxis | None:
        """What an axis shows of the times of both captures; None where there are none."""
        if self.first is None or self.last is None:
            return None
        return time_axis(self.pairs, F.coalesce("source.at", "target.at"), first=self.first, last=self.last)

    @cached_property
    def _groups(self) -> list[dict[str, Any]]:
        """How many changes of each kind, reason, table, span of delay and span of time there are: one query for five
        answers."""
        at = F.coalesce("source.at", "target.at")
        since, width = self._spans
        span = F.floor((F.unix_micros(at) - F.lit(since)) / width).cast("long")
        names = {"delay": _delay_span("delay_us"), "span": span}
        rows = (
            self.pairs.withColumns(names)
            .groupBy("what", "reason", "table", "late", "delay", "span")
            .agg(F.count("*").alias("n"), F.max("delay_us").alias("slowest_us"))
        )
        return [row.asDict() for row in rows.collect()]

    def counts(self) -> dict[str, int]:
        """How many changes are ``same``, ``missing``, ``extra``, ``different`` and ``late`` (which are the same or
        different as well)."""
        found = dict.fromkeys((*KINDS, "late"), 0)
        for group in self._groups:
            found[group["what"]] += group["n"]
            found["late"] += group["n"] if group["late"] else 0
        return found

    def by_reason(self, what: str) -> dict[str, int]:
        """Why changes are ``missing`` or ``extra`` (:class:`cdcwb.analysis.reconcile_reasons.Reason`), and how many for
        each reason, most first."""
        found: dict[str, int] = {}
        for group in self._groups:
            if group["what"] == what and group["reason"] is not None:
                found[group["reason"]] = found.get(group["reason"], 0) + group["n"]
        return dict(sorted(found.items(), key=lambda one: (-one[1], one[0])))

    @property
    def unlike(self) -> int:
        """How many changes are not the same, or late."""
        return sum(group["n"] for group in self._groups if group["what"] != "same" or group["late"])

    def by_table(self) -> list[dict[str, Any]]:
        """``table``, ``same``, ``missing``, ``extra``, ``different``, ``late``, ``slowest_us`` (null: no delay is
        known), in name order."""
        tables: dict[str, dict[str, Any]] = {}
        for group in self._groups:
            nothing = {"table": group["table"]} | dict.fromkeys((*KINDS, "late"), 0) | {"slowest_us": None}
            row = tables.setdefault(group["table"], nothing)
            row[group["what"]] += group["n"]
            row["late"] += group["n"] if group["late"] else 0
            slowest = [us for us in (row["slowest_us"], group["slowest_us"]) if us is not None]
            row["slowest_us"] = max(slowest, default=None)
        return [tables[name] for name in sorted(tables)]

    def delays(self) -> list[dict[str, Any]]:
        """How long matched changes took: ``from_us`` (None: the target's time is before the source's), ``to_us``
        (excluded; None: no end), ``changes`` and ``late`` of them, shortest first, without spans that hold none at
        either end."""
        edges = [0, 1, *STEPS]
        numbers = [[0, 0] for _ in range(len(edges) + 1)]
        for group in self._groups:
            if group["delay"] is not None:
                numbers[group["delay"]][0] += group["n"]
                numbers[group["delay"]][1] += group["n"] if group["late"] else 0
        ends = list(zip([None, *edges], [*edges, None], strict=True))
        rows = [
            {"from_us": begin, "to_us": end, "changes": n, "late": late}
            for (begin, end), (n, late) in zip(ends, numbers, strict=True)
        ]
        used = [at for at, row in enumerate(rows) if row["changes"]]
        return rows[used[0] : used[-1] + 1] if used else []

    def over_time(self) -> list[dict[str, Any]]:
        """When what is not the same was committed (in the source, where it has the change): ``began_at`` (of a span of
        :attr:`width_us`), ``missing``, ``extra``, ``different``, ``late``, for spans that hold any. A late change that
        differs as well counts as late."""
        if self.first is None:
            return []
        spans: dict[int, dict[str, int]] = {}
        for group in self._groups:
            what = "late" if group["late"] else group["what"]
            if what != "same" and group["span"] is not None:
                one = spans.setdefault(group["span"], dict.fromkeys(("missing", "extra", "different", "late"), 0))
                one[what] += group["n"]
        since, width = self._spans
        return [{"began_at": time_of(since + number * width)} | one for number, one in sorted(spans.items())]

    def by_column(self) -> pd.DataFrame:
        """``table``, ``column``, ``different`` (changes that differ in it), ``compared`` (matched changes of the
        table that have images), ``rate``; only columns in which something differs, highest rate first."""
        matched = self.pairs.filter("source IS NOT NULL AND target IS NOT NULL")
        totals = matched.groupBy("table").agg(F.count_if(F.col("operation") != "DELETE").alias("compared"))
        rows = (
            matched.select("table", F.explode("columns").alias("_one"))
            .groupBy("table", F.col("_one")["column"].alias("column"))
            .agg(F.count("*").alias("different"))
            .join(F.broadcast(totals), "table")
            .withColumn("rate", F.col("different") / F.col("compared"))
        )
        wanted = rows.select("table", "column", "different", "compared", "rate")
        return small(wanted.orderBy(F.desc("rate"), "table", "column"))

    def differences(self, limit: int = 200) -> pd.DataFrame:
        """What is not the same or came late, in the order of the source's log; extra ones behind."""
        rows = self.pairs.filter((F.col("what") != "same") | F.col("late"))
        order = (F.asc_nulls_last("source.position"), "target.position", "table", "key")
        return small(rows.orderBy(*order).limit(limit))


def _delay_span(name: str) -> Column:
    """The number of the span that a delay lies in, from 0: how many of the edges it reaches."""
    number = F.lit(0)
    for edge in (0, 1, *STEPS):
        number = number + F.when(F.col(name) >= edge, 1).otherwise(0)
    return F.when(F.col(name).isNotNull(), number)
