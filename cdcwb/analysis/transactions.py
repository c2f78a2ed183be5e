"""Questions about the transactions of a capture, answered by Spark; the answers are small.

Answers come as pandas frames whose columns are Arrow types, so that a null stays a null and a 64-bit number keeps
every digit. Durations are in microseconds. Times are UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdcwb.analysis.frames import small, time_axis
from cdcwb.model import Completeness, Outcome, Problem, Severity
from cdcwb.time_axis import TimeAxis
from cdcwb.words import local

__all__ = [
    "BANDS",
    "DRAWN_AT_MOST",
    "Histogram",
    "axis",
    "bin_width",
    "bins_of",
    "changes",
    "histogram",
    "largest",
    "longest",
    "overview",
    "problem_places",
    "problems",
    "timeline",
    "undone",
    "unfinished",
]

DRAWN_AT_MOST: Final = 5_000
"""How many transactions are drawn one by one; more make a page slow, and nobody can tell them apart."""

_SECOND: Final = 1_000_000
_MICROSECOND: Final = timedelta(microseconds=1)
_MONDAY: Final = datetime(1970, 1, 5)
_DURATIONS: Final = (
    (0, "ends before it begins"),
    (_SECOND, "under 1 s"),
    (10 * _SECOND, "1 s to 10 s"),
    (60 * _SECOND, "10 s to 1 min"),
    (600 * _SECOND, "1 min to 10 min"),
    (3600 * _SECOND, "10 min to 1 h"),
)
_LONGEST: Final = "1 h and more"
_STATES: Final = {Outcome.ROLLED_BACK: "rolled back", Outcome.OPEN: "open"}
BANDS: Final = (*(name for _, name in _DURATIONS), _LONGEST, *_STATES.values())
"""The rows of a :class:`Histogram`, from short to long, then what did not commit."""

_MISSING: Final = (Problem.GAP, Problem.NO_BEGIN, Problem.OPEN_TRANSACTION)
_WIDTHS: Final = tuple(
    [n * 10**e for e in range(6) for n in (1, 2, 5)]
    + [n * _SECOND for n in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)]
    + [n * 86_400 * _SECOND for n in (1, 2, 7, 14, 28, 91, 182, 365, 3650, 36500)]
)


class Tables(Protocol):
    """What is asked of a capture: three of its Spark DataFrames (:mod:`cdcwb.model`)."""

    @property
    def transactions(self) -> DataFrame: ...
    @property
    def changes(self) -> DataFrame: ...
    @property
    def problems(self) -> DataFrame: ...


@dataclass(frozen=True, slots=True)
class Histogram:
    """When transactions began: ``bins`` has a row (``began_at``, ``row``, ``transactions``) for every bin that is not
    empty.

    ``row`` is one of :data:`BANDS`. ``width_us`` is the width of a bin in microseconds.
    """

    bins: pd.DataFrame
    width_us: int


def overview(capture: Tables) -> dict[str, Any]:
    """Numbers about all transactions; one Spark job.

    ``transactions`` and by outcome ``transactions_committed``, ``_rolled_back``, ``_open``; by completeness
    ``transactions_complete``, ``_no_begin``, ``_no_end``, ``_gaps``, ``_unknown``; ``transactions_unfinished`` (those
    of :func:`unfinished`); ``transactions_without_time`` (neither begin nor end is known), ``transactions_with_user``
    (who did it is known); ``transaction_changes`` (undone ones included), ``transaction_bytes`` (rows, where the
    capture's places are rows); ``first_time``, ``last_time``, ``first_position``, ``last_position`` (of begins and
    ends), ``longest_us`` (of those whose both ends are known): None where nothing is known; ``whole_seconds``: no time
    has a fraction of a second.
    """
    rows = _rows(capture)
    groups = (
        rows.groupBy("outcome", "completeness")
        .agg(
            F.count("*").alias("transactions"),
            F.sum("changes_total").alias("transaction_changes"),
            F.sum("bytes").alias("transaction_bytes"),
            F.count_if(F.coalesce("began_at", "ended_at").isNull()).alias("transactions_without_time"),
            F.count("user").alias("transactions_with_user"),
            F.count_if(_is_unfinished()).alias("transactions_unfinished"),
            F.min(F.least("began_at", "ended_at")).alias("first_time"),
            F.max(F.greatest("began_at", "ended_at")).alias("last_time"),
            F.min(F.least("first_position", "end_position")).alias("first_position"),
            F.max(F.greatest("first_position", "end_position")).alias("last_position"),
            F.max("duration_us").alias("longest_us"),
            F.bool_and(_whole("began_at") & _whole("ended_at")).alias("whole_seconds"),
        )
        .toArrow()
        .to_pylist()
    )

    facts: dict[str, Any] = {"transactions": sum(g["transactions"] for g in groups)}
    for key, values in (
        ("outcome", [Outcome.COMMITTED, Outcome.ROLLED_BACK, Outcome.OPEN]),
        ("completeness", list(Completeness)),
    ):
        for value in values:
            facts[f"transactions_{value}"] = sum(g["transactions"] for g in groups if g[key] == value)
    for name in (
        *("transactions_unfinished", "transactions_without_time", "transactions_with_user"),
        *("transaction_changes", "transaction_bytes"),
    ):
        facts[name] = sum(g[name] for g in groups)
    for name in ("first_time", "first_position"):
        facts[name] = min((g[name] for g in groups if g[name] is not None), default=None)
    for name in ("last_time", "last_position", "longest_us"):
        facts[name] = max((g[name] for g in groups if g[name] is not None), default=None)
    facts["whole_seconds"] = all(g["whole_seconds"] for g in groups)
    return facts


def timeline(capture: Tables, limit: int = DRAWN_AT_MOST, until: datetime | None = None) -> pd.DataFrame:
    """The ``limit`` longest transactions, longest first, a row each with what :func:`cdcwb.charts.timeline` draws.

    Columns: those of the model, ``rows`` (``bytes`` under the name that it has where places are rows),
    ``first_position`` (of the begin, else of the first record that is there), ``changes_total``, and ``duration_us``
    (null without both times). An open transaction counts as long as it lasts until ``until``; one whose duration is not
    known comes last. Equally long ones: more bytes first.
    """
    return small(_longest(capture, until).limit(limit))


def longest(capture: Tables, limit: int = 10, until: datetime | None = None) -> pd.DataFrame:
    """The longest transactions whose duration, or whose duration so far, is known. Columns as :func:`timeline`, and
    ``lasted_us``: for an open transaction its duration until ``until``."""
    return small(_longest(capture, until).where("lasted_us IS NOT NULL").limit(limit))


def largest(capture: Tables, limit: int = 10) -> pd.DataFrame:
    """The transactions with the most bytes in the capture, largest first. Columns as :func:`timeline`."""
    return small(_rows(capture).orderBy(F.desc("bytes"), F.desc("changes_total"), "transaction_id").limit(limit))


def unfinished(capture: Tables, limit: int = 100) -> pd.DataFrame:
    """Transactions that did not commit, or of which the capture lacks something: open ones first, then those that are
    incomplete, then those rolled back, each in log order. Columns as :func:`timeline`, and ``missing``: what is, in a
    sentence of :func:`problems`; null where nothing is."""
    order = (F.col("outcome") != Outcome.OPEN, ~_is_incomplete(), "first_position", "transaction_id")
    rows = _rows(capture).where(_is_unfinished()).orderBy(*order).limit(limit)
    told = (
        capture.problems.where(F.col("code").isin(*_MISSING) & F.col("transaction_id").isNotNull())
        .groupBy(F.col("transaction_id").alias("_transaction"))
        .agg(F.array_join(F.array_sort(F.collect_set("sentence")), "; ").alias("_missing"))
    )
    joined = rows.join(told, F.col("transaction_id") == F.col("_transaction"), "left")
    words = F.when(_is_incomplete(), F.translate("completeness", "_", " "))  # a part of a capture has not its problems
    missing = joined.withColumn("missing", F.coalesce("_missing", words)).drop("_transaction", "_missing")
    return small(missing.orderBy(*order))


def axis(capture: Tables, first: datetime, last: datetime) -> TimeAxis:
    """The axis for the begins and ends of transactions, which ``first`` and ``last`` bound."""
    return time_axis(capture.transactions, F.col("began_at"), F.col("ended_at"), first=first, last=last)


def histogram(capture: Tables, first: datetime, last: datetime, bins: int = 120, least_us: int = 1) -> Histogram:
    """How many transactions began when, by how long they took or what became of them: all of them, however many there
    are.

    At most ``bins`` bins of a round width of at least ``least_us`` microseconds, which begin at round times, reach from
    ``first`` to ``last``; transactions that began outside have bins of the same width.
    Transactions without a time of begin are left out.
    """
    since, width = bins_of(first, last, bins, least_us)
    start = F.unix_micros(F.lit(since))
    band = F.lit(_LONGEST)
    for below, name in reversed(_DURATIONS):
        band = F.when(F.col("duration_us") < below, name).otherwise(band)
    for outcome, name in _STATES.items():
        band = F.when(F.col("outcome") == outcome, name).otherwise(band)
    number = F.floor((F.unix_micros("began_at") - start) / F.lit(width))
    counted = (
        _rows(capture)
        .where("began_at IS NOT NULL")
        .groupBy(F.timestamp_micros(start + number * F.lit(width)).alias("began_at"), band.alias("row"))
        .agg(F.count("*").alias("transactions"))
    )
    return Histogram(small(counted.orderBy("began_at", "row")), width)


def bin_width(span_us: int, bins: int, least_us: int = 1) -> int:
    """A round width in microseconds, at least ``least_us``, of which at most ``bins`` cover ``span_us``, its end
    included."""
    return next((width for width in _WIDTHS if width >= least_us and span_us < width * bins), span_us // bins + 1)


def bins_of(first: datetime, last: datetime, bins: int, least_us: int = 1) -> tuple[datetime, int]:
    """Where at most ``bins`` bins of a round width that cover ``first`` to ``last`` begin, and their width in
    microseconds. They begin at round times of the page's zone: bins of 5 min at a multiple of 5 min, of days at
    midnight, of weeks on a Monday."""
    width = bin_width((last - first) // _MICROSECOND, bins - 1, least_us)
    clock = (local(first) - _MONDAY) // _MICROSECOND
    try:
        return first - clock % width * _MICROSECOND, width
    except OverflowError:  # at the beginning of the calendar
        return first, width


def changes(capture: Tables) -> pd.DataFrame:
    """How many logical changes there are: ``operation``, ``outcome``, ``changes``, a row for every pair that occurs."""
    grouped = capture.changes.groupBy("operation", "outcome").agg(F.count("*").alias("changes"))
    return small(grouped.orderBy("operation", "outcome"))


def undone(capture: Tables, limit: int = 50) -> pd.DataFrame:
    """Transactions with changes that a rollback to a savepoint took back, most first: ``transaction_id``, ``changes``,
    ``first_position``, ``last_position`` (of those changes), ``tables`` (up to ten, in name order)."""
    name = F.concat_ws(".", "schema_name", "table_name")
    grouped = (
        capture.changes.where(F.col("outcome") == Outcome.UNDONE)
        .groupBy("transaction_id")
        .agg(
            F.count("*").alias("changes"),
            F.min("position").alias("first_position"),
            F.max("position").alias("last_position"),
            F.slice(F.sort_array(F.collect_set(name)), 1, 10).alias("tables"),
        )
    )
    return small(grouped.orderBy(F.desc("changes"), "first_position").limit(limit))


def problems(capture: Tables) -> pd.DataFrame:
    """Problems by code, worst first: ``severity``, ``code``, ``problems``, ``transactions`` (how many they touch), and
    one of them: ``sentence``, ``file``, ``offset`` of the first in file and offset."""
    first = F.min_by(F.struct("sentence", "file", "offset"), F.struct(_last_if_null("file"), _last_if_null("offset")))
    grouped = (
        capture.problems.groupBy("severity", "code")
        .agg(
            F.count("*").alias("problems"),
            F.count_distinct("transaction_id").alias("transactions"),
            first.alias("first"),
        )
        .select("severity", "code", "problems", "transactions", "first.*")
    )
    return small(grouped.orderBy(_rank(), F.desc("problems"), "code"))


def problem_places(capture: Tables, limit: int = 50) -> pd.DataFrame:
    """Problems one by one, in the columns of the model: errors first, then warnings, then in file and offset."""
    places = (F.asc_nulls_first("file"), F.asc_nulls_first("offset"), "code")
    return small(capture.problems.orderBy(_rank(), *places).limit(limit))


def _rows(capture: Tables) -> DataFrame:
    """The transactions with what every question needs beside the columns of the model."""
    # A transaction without its begin has the position of its first record in its id, behind a ~ (cdcwb.model).
    behind = F.nullif(F.regexp_extract("transaction_id", "~(.+)$", 1), F.lit(""))
    numbers = F.map_values("changes")
    return capture.transactions.select(
        "*",
        F.col("bytes").alias("rows"),
        F.coalesce("begin_position", behind).alias("first_position"),
        (F.unix_micros("ended_at") - F.unix_micros("began_at")).alias("duration_us"),
        F.coalesce(F.aggregate(numbers, F.lit(0).cast("long"), lambda a, b: a + b), F.lit(0)).alias("changes_total"),
    )


def _is_incomplete() -> Column:
    """Is its begin, its end or something between them missing?"""
    return F.col("completeness").isin(Completeness.NO_BEGIN, Completeness.NO_END, Completeness.GAPS)


def _is_unfinished() -> Column:
    return (F.col("outcome") != Outcome.COMMITTED) | _is_incomplete()


def _longest(capture: Tables, until: datetime | None) -> DataFrame:
    end = F.coalesce("ended_at", F.when(F.col("outcome") == Outcome.OPEN, F.lit(until).cast("timestamp")))
    rows = _rows(capture).withColumn("lasted_us", F.unix_micros(end) - F.unix_micros("began_at"))
    return rows.orderBy(F.desc_nulls_last("lasted_us"), F.desc("bytes"), "transaction_id")


def _rank() -> Column:
    order = F.lit(len(Severity))
    for place, severity in enumerate(Severity):
        order = F.when(F.col("severity") == severity, place).otherwise(order)
    return order


def _last_if_null(name: str) -> Column:
    return F.struct(F.col(name).isNull(), F.col(name))


def _whole(name: str) -> Column:
    """Whether a time is in whole seconds; true where there is none."""
    return F.coalesce(F.unix_micros(name) % _SECOND == 0, F.lit(True))
