"""How many transactions are open at once: over time, and in the log.

A transaction is open from its begin until just before its end, so one that begins when another ends is not open beside
it. One that begins and ends at the same time is open at no time, and counted as such: a clock of whole seconds makes
many of these. Where begins and commits stand in the log itself, their positions tell exactly what the times cannot.

Both are counted piece by piece: within each piece of the axis a running sum, and over the few pieces another one, so
that neither the number of transactions nor that of changes has to fit anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql import Window
from pyspark.sql import functions as F

from cdcwb.model import Completeness, Outcome
from cdcwb.time_axis import TimeAxis

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["PIECES", "Concurrency", "InLog", "in_log", "over_time"]

PIECES: Final = 1000
"""Into how many pieces the axis of time is cut at most; a picture has at most two points for each."""

_KINDS: Final = ("counted", "instants", "backwards", "one_time", "no_time")
_LOG: Final = "^(.*/)?"  # what stands before the positions of one capture among several
_PIECE_DIGITS: Final = 5  # positions that differ in their last five digits only share a piece of the log: 1 MiB of it
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Tables(Protocol):
    """What is asked of a capture: its transactions (:mod:`cdcwb.model`)."""

    @property
    def transactions(self) -> DataFrame: ...


@dataclass(frozen=True, slots=True)
class Concurrency:
    """How many transactions were open when.

    ``steps``: ``at`` (aware datetime), ``open`` (from then on, until the next step; where a piece of the axis has
    several changes, the most of them), at most two for a piece; ``exact``: no piece has several changes. ``most``: the
    largest number at once; ``at`` and ``until``: from when to when for the first time (None where nothing was open).
    ``average`` over the time from the first step to the
    last. ``counted``: transactions with an extent in time; ``instants``: those that begin and end at one time;
    ``backwards``: those that end before they begin, by clocks that disagree; ``one_time``: of which one time only is
    known; ``no_time``: neither is.
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


def over_time(
    capture: Tables,
    first: datetime | None,
    last: datetime | None,
    pieces: int = PIECES,
    least_us: int = 1,
    axis: TimeAxis | None = None,
) -> Concurrency:
    """How many transactions were open at once between ``first`` and ``last``, which bound all times of transactions
    (None: there are none); one Spark job.

    An open transaction is open until ``last``, one whose begin is not in the capture from ``first`` on. The axis is cut
    into at most ``pieces`` pieces, none narrower than ``least_us`` microseconds; where it shows a part of the times
    (``axis``), that part is, and what is outside has pieces of the same width.
    """
    if first is None or last is None:
        return Concurrency([], True, 0, None, None, None, 0, 0, 0, 0, capture.transactions.count())
    start, end = _micros(first), _micros(last)
    shown = end - start if axis is None else _micros(axis.last) - _micros(axis.first)
    width = max(least_us, -(-(shown + 1) // pieces))
    piece = F.floor((F.col("at") - F.lit(start)) / F.lit(width))
    rows = _pieces(_deltas(capture.transactions, start, end), piece).toArrow().to_pylist()
    about: dict[str, Any] = next((row for row in rows if row["piece"] is None), {})
    return _summed(sorted((r for r in rows if r["piece"] is not None), key=lambda row: row["piece"]), about)


def in_log(capture: Tables) -> InLog:
    """The most transactions that were open at one place of the log, where a begin and an end have a place of their
    own; one Spark job.

    For formats whose stream bears begins and commits (:attr:`cdcwb.capture.Capture.committed_only` is False): where
    only committed work is handed over, transactions stand in the log one behind the other. Positions are compared as
    text. Of several captures looked at together, each has a log of its own, as the names before the positions say.
    """
    text = F.lit(None).cast("string")
    before = F.regexp_extract(F.coalesce(_behind_tilde(), F.lit("")), _LOG, 0)  # sorts before all places of its log
    begin = F.struct(
        F.coalesce("begin_position", before).alias("at"), F.lit(1).alias("delta"), F.col("transaction_id").alias("id")
    )
    end = F.struct(F.col("end_position").alias("at"), F.lit(-1).alias("delta"), text.alias("id"))
    by_key = (
        capture.transactions.select(F.inline(F.array(begin, end)))
        .where("at IS NOT NULL")
        .groupBy("at")
        .agg(F.sum("delta").alias("delta"), F.count("id").alias("counted"), F.max("id").alias("id"))
    )
    piece = F.substring(F.col("at"), F.lit(1), F.length("at") - F.lit(_PIECE_DIGITS))
    keys = (F.regexp_extract("at", _LOG, 0).alias("log"), piece.alias("piece"))
    level = by_key.select("*", *keys).withColumn(
        "level", F.sum("delta").over(Window.partitionBy("log", "piece").orderBy("at"))
    )
    pieces = level.groupBy("log", "piece").agg(
        F.sum("delta").alias("net"),
        F.sum("counted").alias("counted"),
        F.max("level").alias("top"),
        F.min_by(F.struct("at", "id"), F.struct(-F.col("level"), F.col("at"))).alias("first"),
    )
    earlier = Window.partitionBy("log").orderBy("piece").rowsBetween(Window.unboundedPreceding, -1)
    whole = pieces.withColumn("most", F.col("top") + F.coalesce(F.sum("net").over(earlier), F.lit(0)))
    peak = F.min_by(F.struct("most", "first"), F.struct(-F.col("most"), F.col("first")["at"]))
    row = whole.agg(F.sum("counted").alias("counted"), peak.alias("peak")).toArrow().to_pylist()[0]
    if row["peak"] is None:
        return InLog(0, None, None, 0)
    first = row["peak"]["first"]
    known = not first["at"].endswith("/") and first["at"] != ""
    position, name = (first["at"], first["id"]) if known else (None, None)
    return InLog(row["peak"]["most"], position, name, row["counted"])


def _behind_tilde() -> Column:
    """Where a transaction without its begin is first seen: behind the ~ of its id (:mod:`cdcwb.model`)."""
    return F.nullif(F.regexp_extract("transaction_id", "~(.+)$", 1), F.lit(""))


def _deltas(transactions: DataFrame, start: int, end: int) -> DataFrame:
    """For each transaction with an extent a row ``at`` its begin (``delta`` 1) and one at its end (-1), in
    microseconds; and for each transaction one without a time that says what it is (``kind``), and how long it was open
    (``busy``)."""
    began, ended = F.unix_micros("began_at"), F.unix_micros("ended_at")
    is_open = F.col("outcome") == str(Outcome.OPEN)
    lacks_begin = F.col("completeness") == str(Completeness.NO_BEGIN)
    low = F.coalesce(began, F.when(lacks_begin, F.lit(start)))
    high = F.coalesce(ended, F.when(is_open, F.lit(end)))
    known = F.coalesce("began_at", "ended_at").isNotNull()
    kind = (
        F.when(~known, "no_time")
        .when(low.isNull() | high.isNull(), "one_time")
        .when(low < high, "counted")
        .when(low > high, "backwards")
        .otherwise("instants")
    )
    places = transactions.select(low.alias("low"), high.alias("high"), kind.alias("kind"))
    nothing = F.lit(None).cast("long")
    busy = F.when(F.col("kind") == "counted", F.col("high") - F.col("low"))
    about = _row(nothing, 0, F.col("kind"), busy)
    text = F.lit(None).cast("string")
    begin, over = _row(F.col("low"), 1, text, nothing), _row(F.col("high"), -1, text, nothing)
    rows = F.when(F.col("kind") == "counted", F.array(about, begin, over)).otherwise(F.array(about))
    return places.select(F.inline(rows))


def _row(at: Column, delta: int, kind: Column, busy: Column) -> Column:
    return F.struct(at.alias("at"), F.lit(delta).alias("delta"), kind.alias("kind"), busy.alias("busy"))


def _pieces(deltas: DataFrame, piece: Column) -> DataFrame:
    """A row for each piece of the axis in which something changes: ``net``, ``top``, ``keys`` (different times), the
    first and the last time, and when the top is first reached and left; and one without a piece, with what is known of
    all transactions."""
    by_key = (
        deltas.groupBy("at")
        .agg(
            F.sum("delta").alias("delta"),
            F.sum("busy").alias("busy"),
            *[F.count_if(F.col("kind") == name).alias(name) for name in _KINDS],
        )
        .where("at IS NULL OR delta != 0")
        .withColumn("piece", piece)
    )
    within = Window.partitionBy("piece").orderBy("at")
    level = by_key.withColumns({"level": F.sum("delta").over(within), "next": F.lead("at").over(within)})
    return level.groupBy("piece").agg(
        F.sum("delta").alias("net"),
        F.max("level").alias("top"),
        F.min("at").alias("first_at"),
        F.max("at").alias("last_at"),
        F.count("at").alias("keys"),
        F.min_by(F.struct("at", "next"), F.struct(-F.col("level"), F.col("at"))).alias("peak"),
        *[F.max(name).alias(name) for name in ("busy", *_KINDS)],
    )


def _summed(pieces: list[dict[str, Any]], about: Mapping[str, Any]) -> Concurrency:
    """The answer from the pieces in their order."""
    steps: list[dict[str, Any]] = []
    level = most = 0
    at: datetime | None = None
    until: datetime | None = None
    for number, piece in enumerate(pieces):
        top = level + piece["top"]
        level += piece["net"]
        if top > most:
            after = pieces[number + 1]["first_at"] if number + 1 < len(pieces) else None
            left = piece["peak"]["next"] or after
            most, at, until = top, _time(piece["peak"]["at"]), None if left is None else _time(left)
        steps.append({"at": _time(piece["first_at"]), "open": top})
        apart = number + 1 == len(pieces) or pieces[number + 1]["piece"] > piece["piece"] + 1
        if apart and top != level:
            steps.append({"at": _time(piece["last_at"]), "open": level})
    span = pieces[-1]["last_at"] - pieces[0]["first_at"] if pieces else 0
    return Concurrency(
        steps=steps,
        exact=all(piece["keys"] == 1 for piece in pieces),
        most=most,
        at=at,
        until=until,
        average=about["busy"] / span if span else None,
        **{name: about.get(name) or 0 for name in _KINDS},
    )


def _micros(time: datetime) -> int:
    return (time - _EPOCH) // _MICROSECOND


def _time(micros: int) -> datetime:
    return _EPOCH + micros * _MICROSECOND
