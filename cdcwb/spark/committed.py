"""Formats that hand over committed work only (Qlik): outcomes, transactions and what is missing in them.

There are no begins and commits in such a stream. A transaction is whole when its last event was seen and none before it
is missing; the time of its commit stands in the change sequence (docs/formats/qlik-kafka.md §5 and §6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from cdcwb.model import Completeness, Operation, Outcome, Problem

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["add_outcome", "frozen_times", "missing_events", "sequence_time", "summarise"]

_SEQUENCE = r"^[0-9]{35}$"
_TRANSACTIONS = 3  # that share one time of a hundredth of a second …
_SECONDS = 2  # … while their own times lie so far apart: the clock stood still


def sequence_time(position: str = "position") -> Column:
    """The time that a change sequence begins with (UTC, hundredths of a second); null for what is no sequence."""
    column = F.col(position)
    text = F.concat(F.substring(column, 1, 14), F.lit("."), F.substring(column, 15, 2), F.lit("Z"))
    return F.when(column.rlike(_SEQUENCE), F.try_to_timestamp(text, F.lit("yyyyMMddHHmmss.SSX")))


def add_outcome(changes: DataFrame, headers: DataFrame) -> DataFrame:
    """Adds outcome, commit position and commit time. A full load (REFRESH) is part of no transaction."""
    ends = (
        headers.filter(F.col("commit_position").isNotNull())
        .groupBy(F.col("transaction_id").alias("_transaction"))
        .agg(F.max("commit_position").alias("_commit_position"))
    )
    joined = changes.join(ends, F.col("transaction_id") == F.col("_transaction"), "left")
    loaded = F.coalesce(F.col("operation") == str(Operation.REFRESH), F.lit(True))
    return joined.withColumns(
        {
            "outcome": F.when(~loaded, str(Outcome.COMMITTED)),
            "commit_position": F.col("_commit_position"),
            "committed_at": sequence_time(),
        }
    )


def _counted(headers: DataFrame) -> DataFrame:
    """One row for each transaction, with what its counters tell."""
    events = headers.filter(F.col("transaction_id").isNotNull())
    return events.groupBy("transaction_id").agg(
        F.min("position").alias("begin_position"),
        F.max("position").alias("_highest"),
        F.max("commit_position").alias("_commit_position"),
        F.min("changed_at").alias("began_at"),
        F.max(sequence_time()).alias("ended_at"),
        F.sum("length").alias("bytes"),
        F.countDistinct("event_no").alias("_seen"),
        F.min("event_no").alias("_lowest_no"),
        F.max("event_no").alias("_highest_no"),
        F.max(F.coalesce("last_in_transaction", F.lit(False))).alias("_last"),
        F.max(F.col("last_in_transaction").isNotNull()).alias("_says_last"),
    )


def summarise(headers: DataFrame) -> DataFrame:
    """What the events tell of each transaction, with the names of :data:`cdcwb.model.TRANSACTIONS`."""
    knows = (F.col("_seen") > 0) & F.col("_says_last")
    completeness = (
        F.when(~knows, str(Completeness.UNKNOWN))
        .when(F.col("_lowest_no") > 1, str(Completeness.NO_BEGIN))
        .when(~F.col("_last"), str(Completeness.NO_END))
        .when(F.col("_highest_no") - F.col("_lowest_no") + 1 > F.col("_seen"), str(Completeness.GAPS))
        .otherwise(str(Completeness.WHOLE))
    )
    return _counted(headers).withColumns(
        {
            "completeness": completeness,
            "end_position": F.coalesce("_commit_position", F.when(~knows, F.col("_highest"))),
            "outcome": F.lit(str(Outcome.COMMITTED)),
            "user": F.lit(None).cast("string"),
        }
    )


def missing_events(headers: DataFrame, transactions: DataFrame) -> DataFrame:
    """The transactions that are not whole as problems: code, sentence, transaction_id, tables."""
    tables = transactions.select(F.col("transaction_id").alias("_transaction"), "tables")
    counted = summarise(headers).filter(
        F.col("completeness").isin(str(Completeness.NO_BEGIN), str(Completeness.NO_END), str(Completeness.GAPS))
    )
    lowest, highest = F.col("_lowest_no").cast("string"), F.col("_highest_no").cast("string")
    between = F.col("_highest_no") - F.col("_lowest_no") + 1 - F.col("_seen")
    gaps = F.when(
        between > 0,
        F.concat(
            between.cast("string"), F.lit(" of its events "), lowest, F.lit(" to "), highest, F.lit(" are missing")
        ),
    )
    begin = F.when(F.col("_lowest_no") > 1, F.concat(F.lit("the first event that is there has number "), lowest))
    end = F.when(~F.col("_last"), F.concat(F.lit("the last event is missing; the highest number is "), highest))
    code = (
        F.when(F.col("completeness") == str(Completeness.NO_BEGIN), str(Problem.NO_BEGIN))
        .when(F.col("completeness") == str(Completeness.NO_END), str(Problem.OPEN_TRANSACTION))
        .otherwise(str(Problem.GAP))
    )
    named = counted.withColumns({"code": code, "sentence": F.concat_ws("; ", begin, gaps, end)})
    joined = named.join(tables, F.col("transaction_id") == F.col("_transaction"), "left")
    return joined.select("code", "sentence", "transaction_id", "tables")


def frozen_times(headers: DataFrame) -> DataFrame:
    """Times of change sequences that stand still: code, sentence, transaction_id (null).

    Several transactions that bear one time, while the times of their own last changes lie seconds apart, were numbered
    while the server's clock was moved back (§5).
    """
    moment = F.substring("position", 1, 16)
    each = (
        headers.filter(F.col("position").rlike(_SEQUENCE) & F.col("transaction_id").isNotNull())
        .groupBy(moment.alias("_moment"), "transaction_id")
        .agg(
            F.max("changed_at").alias("_at"),
            F.count(F.lit(1)).alias("_events"),
            F.min("position").alias("_low"),
            F.max("position").alias("_high"),
        )
    )
    runs = each.groupBy("_moment").agg(
        F.count(F.lit(1)).alias("_transactions"),
        F.sum("_events").alias("_events"),
        F.min("_at").alias("_first"),
        F.max("_at").alias("_last"),
        F.min("_low").alias("_low"),
        F.max("_high").alias("_high"),
    )
    seconds = F.col("_last").cast("double") - F.col("_first").cast("double")
    found = runs.filter((F.col("_transactions") >= _TRANSACTIONS) & (seconds >= _SECONDS))
    sentence = F.concat(
        F.col("_events").cast("string"),
        F.lit(" events of "),
        F.col("_transactions").cast("string"),
        F.lit(" transactions, whose own times span "),
        F.round(seconds, 1).cast("string"),
        F.lit(" s, have one change sequence time: "),
        F.col("_low"),
        F.lit(" to "),
        F.col("_high"),
        F.lit("; the server's clock was moved back"),
    )
    nothing = F.lit(None).cast("string")
    return found.select(
        F.lit(str(Problem.CLOCK)).alias("code"), sentence.alias("sentence"), nothing.alias("transaction_id")
    )
