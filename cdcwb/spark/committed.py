"""Formats that deliver committed work only (Qlik, GoldenGate, Debezium): outcomes, transactions and what is missing in
them.

There are no begins and commits in such a stream. A transaction is whole when its first and last events were seen and
none between them is missing: by the numbers that Qlik gives its events, by GoldenGate's TransInd. The time of the
commit stands in Qlik's change sequence (docs/formats/qlik-kafka.md §5 and §6); in a trail it is that of the last record
(docs/formats/goldengate.md §6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from cdcwb.model import Completeness, Kind, Operation, Outcome, Problem
from cdcwb.spark.pairing import table_label

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "add_ends",
    "add_outcome",
    "counted",
    "frozen_times",
    "merged",
    "missing_events",
    "sequence_time",
    "summarise",
]

_SEQUENCE = r"^[0-9]{35}$"
_FIRST = ("0", "3")  # TransInd of a transaction's first record
_TRANSACTIONS = 3  # that share one time of a hundredth of a second …
_SECONDS = 2  # … while their own times lie so far apart, and up to half of it behind that time: the clock stood still


def sequence_time(position: str = "position") -> Column:
    """The time that a change sequence begins with (UTC, hundredths of a second); null for what is no sequence."""
    column = F.col(position)
    text = F.concat(F.substring(column, 1, 14), F.lit("."), F.substring(column, 15, 2), F.lit("Z"))
    return F.when(column.rlike(_SEQUENCE), F.try_to_timestamp(text, F.lit("yyyyMMddHHmmss.SSX")))


def add_outcome(changes: DataFrame, headers: DataFrame) -> DataFrame:
    """Adds outcome, commit position and commit time. A full load (REFRESH) is part of no transaction."""
    rolls_back = F.col("kind") == str(Kind.ROLLBACK)  # GoldenGate's RestartAbend
    ends = (
        headers.filter(F.col("commit_position").isNotNull() | F.col("last_in_transaction") | rolls_back)
        .groupBy(F.col("transaction_id").alias("_transaction"))
        .agg(
            F.max("commit_position").alias("_commit_position"),
            F.max(_commit_time()).alias("_committed_at"),
            F.max(rolls_back).alias("_rolls_back"),
        )
    )
    joined = changes.join(ends, F.col("transaction_id") == F.col("_transaction"), "left")
    loaded = F.coalesce(F.col("operation") == str(Operation.REFRESH), F.lit(True))
    committed = F.when(~loaded, str(Outcome.COMMITTED))
    return joined.withColumns(
        {
            "outcome": F.when(F.col("_rolls_back"), str(Outcome.ROLLED_BACK)).otherwise(committed),
            "commit_position": F.col("_commit_position"),
            "committed_at": F.coalesce(sequence_time(), "_committed_at"),
        }
    )


def add_ends(changes: DataFrame, ends: DataFrame, few: bool) -> DataFrame:
    """Changes of splits (:mod:`cdcwb.formats.delivered`) with what the ends of their transactions tell. ``few``: there
    are so few that each task can have all of them."""
    whole = ends.groupBy(F.col("transaction_id").alias("_transaction")).agg(
        F.max("commit_position").alias("_commit_position"),
        F.max("committed_at").alias("_committed_at"),
        F.max("rolls_back").alias("_rolls_back"),
    )
    joined = changes.join(
        F.broadcast(whole) if few else whole, F.col("transaction_id") == F.col("_transaction"), "left"
    )
    return joined.withColumns(
        {
            "outcome": F.when(F.col("_rolls_back"), str(Outcome.ROLLED_BACK)).otherwise(F.col("outcome")),
            "commit_position": F.col("_commit_position"),
            "committed_at": F.coalesce("committed_at", "_committed_at"),
        }
    )


def merged(parts: DataFrame) -> DataFrame:
    """One row for each transaction, from what splits say of it (:data:`cdcwb.formats.delivered.PARTS`): that of
    :func:`counted`, and ``changes`` and ``tables``."""
    whole = parts.groupBy("transaction_id").agg(
        F.min("begin_position").alias("begin_position"),
        F.max("highest").alias("_highest"),
        F.max("commit_position").alias("_commit_position"),
        F.min("began_at").alias("began_at"),
        F.max("ended_at").alias("ended_at"),
        F.sum("bytes").alias("bytes"),
        F.array_sort(F.flatten(F.collect_list("numbers"))).alias("_numbers"),
        F.max("last").alias("_last"),
        F.max("says_last").alias("_says_last"),
        F.lit(None).cast("boolean").alias("_begins"),
        F.max("gaps").alias("_gaps"),
        F.max("rolls_back").alias("_rolls_back"),
        F.max("rolled_back_at").alias("_rolled_back_at"),
        F.array_distinct(F.flatten(F.collect_list("labels"))).alias("_tables"),
        F.flatten(F.collect_list(F.map_entries("changes"))).alias("_changes"),
        F.array_sort(F.array_distinct(F.flatten(F.collect_list("tables")))).alias("tables"),
    )
    operations = F.array_sort(F.array_distinct(F.transform("_changes", lambda one: one["key"])))
    nothing = F.struct(F.lit(_LEAST).alias("last"), F.lit(0).cast("long").alias("seen"))
    return whole.withColumns(
        {
            "_seen": F.aggregate("_numbers", nothing, _next, lambda upto: upto["seen"]),
            "_lowest_no": F.array_min(F.transform("_numbers", lambda one: one["first"])),
            "_highest_no": F.array_max(F.transform("_numbers", lambda one: one["last"])),
            "changes": F.map_from_arrays(operations, F.transform(operations, _times)),
        }
    )


_LEAST = -(1 << 62)


def _next(upto: Column, one: Column) -> Column:
    """The last number, and how many there are, with a range of numbers that begins no earlier than those before it."""
    fresh = F.greatest(F.lit(0).cast("long"), one["last"] - F.greatest(upto["last"] + 1, one["first"]) + 1)
    return F.struct(F.greatest(upto["last"], one["last"]).alias("last"), (upto["seen"] + fresh).alias("seen"))


def _times(operation: Column) -> Column:
    """How many changes there are with an operation."""
    mine = F.filter("_changes", lambda one: one["key"] == operation)
    return F.aggregate(mine, F.lit(0).cast("long"), lambda total, one: total + one["value"])


def _commit_time() -> Column:
    """The time of a commit record (Debezium's END), or of a transaction's last record in a trail; null for others."""
    last_of_trail = F.col("last_in_transaction") & F.col("headers")["TransInd"].isNotNull()
    return F.when(last_of_trail | (F.col("kind") == str(Kind.COMMIT)), F.col("changed_at"))


def counted(headers: DataFrame) -> DataFrame:
    """One row for each transaction, with what its counters tell."""
    events = headers.filter(F.col("transaction_id").isNotNull())
    rolls_back = F.col("kind") == str(Kind.ROLLBACK)
    gaps = F.exists(F.coalesce("problems", F.array()), lambda problem: problem["code"] == str(Problem.GAP))
    return events.groupBy("transaction_id").agg(
        F.min("position").alias("begin_position"),
        F.max("position").alias("_highest"),
        F.max("commit_position").alias("_commit_position"),
        F.min("changed_at").alias("began_at"),
        F.max(F.coalesce(sequence_time(), _commit_time(), F.when(rolls_back, F.col("changed_at")))).alias("ended_at"),
        F.sum("length").alias("bytes"),
        F.countDistinct("event_no").alias("_seen"),
        F.min("event_no").alias("_lowest_no"),
        F.max("event_no").alias("_highest_no"),
        F.max(F.coalesce("last_in_transaction", F.lit(False)) | rolls_back).alias("_last"),
        F.max(F.col("last_in_transaction").isNotNull()).alias("_says_last"),
        F.max(F.col("headers")["TransInd"].isin(*_FIRST)).alias("_begins"),  # null: not a trail
        F.max(gaps).alias("_gaps"),
        F.max(rolls_back).alias("_rolls_back"),
        F.max(F.when(rolls_back, F.col("position"))).alias("_rolled_back_at"),
        F.collect_set(table_label()).alias("_tables"),
    )


def summarise(transactions: DataFrame) -> DataFrame:
    """What the counters of transactions (:func:`counted`, :func:`merged`) tell, with the names of
    :data:`cdcwb.model.TRANSACTIONS`."""
    numbered = F.col("_seen") > 0
    knows = (numbered | F.col("_begins").isNotNull()) & F.col("_says_last")
    lacks = F.col("_highest_no") - F.col("_lowest_no") + 1 > F.col("_seen")
    completeness = (
        F.when(~knows, str(Completeness.UNKNOWN))
        .when((F.col("_lowest_no") > 1) | ~F.coalesce("_begins", F.lit(True)), str(Completeness.NO_BEGIN))
        .when(~F.col("_last"), str(Completeness.NO_END))
        .when(F.coalesce(lacks, F.lit(False)) | F.col("_gaps"), str(Completeness.GAPS))
        .otherwise(str(Completeness.COMPLETE))
    )
    return transactions.withColumns(
        {
            "completeness": completeness,
            "end_position": F.coalesce("_commit_position", "_rolled_back_at", F.when(~knows, F.col("_highest"))),
            "outcome": F.when(F.col("_rolls_back"), str(Outcome.ROLLED_BACK)).otherwise(str(Outcome.COMMITTED)),
            "user": F.lit(None).cast("string"),
        }
    )


def missing_events(transactions: DataFrame) -> DataFrame:
    """The incomplete transactions, of :func:`summarise`, as problems: code, sentence, transaction_id, tables."""
    incomplete = transactions.filter(
        F.col("completeness").isin(str(Completeness.NO_BEGIN), str(Completeness.NO_END), str(Completeness.GAPS))
    )
    lowest, highest = F.col("_lowest_no").cast("string"), F.col("_highest_no").cast("string")
    between = F.col("_highest_no") - F.col("_lowest_no") + 1 - F.col("_seen")
    gaps = F.when(
        between > 0,
        F.concat(
            between.cast("string"),
            F.lit(" of its events "),
            lowest,
            F.lit(" to "),
            highest,
            F.when(between == 1, " is missing").otherwise(" are missing"),
        ),
    )
    no_begin = F.when(~F.col("_begins"), "the begin of this transaction is not in the capture")
    begin = F.when(
        F.col("_lowest_no") > 1, F.concat(F.lit("the first event that is there has number "), lowest)
    ).otherwise(no_begin)
    unseen = F.concat(F.lit("the last event is missing; the highest number is "), highest)
    no_end = F.lit("the end of this transaction is not in the capture")
    end = F.when(~F.col("_last"), F.coalesce(unseen, no_end))
    code = (
        F.when(F.col("completeness") == str(Completeness.NO_BEGIN), str(Problem.NO_BEGIN))
        .when(F.col("completeness") == str(Completeness.NO_END), str(Problem.OPEN_TRANSACTION))
        .otherwise(str(Problem.GAP))
    )
    named = incomplete.withColumns({"code": code, "sentence": F.concat_ws("; ", begin, gaps, end)})
    told = named.filter(F.col("sentence") != "")  # gaps in a trail are problems of the events around them
    return told.select("code", "sentence", "transaction_id", F.col("_tables").alias("tables"))


def frozen_times(headers: DataFrame) -> DataFrame:
    """Times of change sequences that stand still: code, sentence, transaction_id (null).

    Several transactions that bear one time, while the times of their own last changes lie seconds apart and go beyond
    it, were numbered while the server's clock was moved back (§5). The changes of long transactions that happened to
    commit together are all before their commit.
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
    ahead = F.col("_last").cast("double") - sequence_time("_low").cast("double")
    found = runs.filter((F.col("_transactions") >= _TRANSACTIONS) & (seconds >= _SECONDS) & (ahead >= _SECONDS / 2))
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
