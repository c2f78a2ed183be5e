"""From events to changes and transactions, with the DataFrame API only (docs/formats/*.md §6).

Everything here is per transaction, or per table and position: rows meet in a shuffle, whatever split they came from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cdcwb import model
from cdcwb.formats.assembly import open_ones
from cdcwb.formats.base import Format, Pairing
from cdcwb.model import ChangeSource, Completeness, Kind, Operation, Outcome, Problem
from cdcwb.spark import committed
from cdcwb.spark.objects import join_statements, key_spellings, repeated_records
from cdcwb.spark.pairing import CHANGES, continue_events, found_by_pairing, pair, table_label, without_transaction

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "assemble_changes",
    "assemble_problems",
    "assemble_transactions",
    "conform",
    "finish",
    "summaries_of",
    "table_label",
]

_ENDS = (str(Kind.COMMIT), str(Kind.ROLLBACK))


def conform(frame: DataFrame, table: str) -> DataFrame:
    """Exactly the columns of the model's table, in its order and types."""
    wanted = from_arrow_schema(model.TABLES[table])
    return frame.select([F.col(field.name).cast(field.dataType).alias(field.name) for field in wanted.fields])


def _place(prefix: str = "") -> Column:
    return F.struct(F.col(f"{prefix}file_index").alias("file_index"), F.col(f"{prefix}offset").alias("offset"))


def assemble_changes(
    events: DataFrame, headers: DataFrame, keys: Mapping[str, Sequence[str]], form: Format, facts: Mapping[str, Any]
) -> DataFrame:
    """``changes`` from ``events``.

    ``headers`` are the same events without images, read on their own for begins, ends, undos and the numbers of rows.
    ``keys`` gives the key columns of tables that the source names none for. ``form`` says how halves find each other,
    and whether the stream bears begins and ends; ``facts`` are the plan's: whether there are events that continue
    others (``fragments``), and how far record ids fall (``behind``).
    """
    if form.pairing is Pairing.OBJECT:
        return conform(_with_keys(join_statements(events, headers, facts), keys), "changes")
    rows = events.filter(F.col("kind").isin(*CHANGES))
    paired = pair(continue_events(rows, headers) if facts.get("fragments") else rows, form.pairing)
    ended = _with_outcome(paired, headers) if form.commits else committed.add_outcome(paired, headers)
    return finish(without_transaction(ended), keys, form)


def finish(changes: DataFrame, keys: Mapping[str, Sequence[str]], form: Format) -> DataFrame:
    """Changes with the keys that are given, and the columns that compressed updates wrote."""
    return conform(_with_written_columns(_with_keys(changes, keys), form.compressed_updates), "changes")


def _with_outcome(changes: DataFrame, headers: DataFrame) -> DataFrame:
    """Adds what became of each change: from the end of its transaction and the undos behind it
    (docs/formats/gbase8s.md §6.3)."""
    marks = (
        headers.filter(F.col("kind").isin(str(Kind.BEGIN), *_ENDS, str(Kind.UNDO)))
        .groupBy(F.col("transaction_id").alias("_transaction"))
        .agg(
            F.max(F.col("kind") == str(Kind.BEGIN)).alias("_begins"),
            F.max(F.col("kind") == str(Kind.COMMIT)).alias("_commits"),
            F.max(F.col("kind") == str(Kind.ROLLBACK)).alias("_rolls_back"),
            F.max("commit_position").alias("_commit_position"),
            F.max(F.when(F.col("kind") == str(Kind.COMMIT), F.col("changed_at"))).alias("_committed_at"),
            F.collect_list(
                F.when(F.col("kind") == str(Kind.UNDO), F.struct("file_index", "offset", F.col("position")))
            ).alias("_undos"),
        )
    )
    joined = changes.join(marks, F.col("transaction_id") == F.col("_transaction"), "left")
    place = _place()
    undone = F.exists(
        "_undos",
        lambda undo: (
            (F.struct(undo["file_index"].alias("file_index"), undo["offset"].alias("offset")) > place)
            & (undo["position"] <= F.col("position"))
        ),
    )
    return joined.withColumns(
        {
            "outcome": F.when(undone, str(Outcome.UNDONE)).otherwise(
                _outcome(F.col("_begins"), F.col("_commits"), F.col("_rolls_back"))
            ),
            "commit_position": F.col("_commit_position"),
            "committed_at": F.col("_committed_at"),
        }
    )


def _outcome(begins: Column, commits: Column, rolls_back: Column) -> Column:
    return (
        F.when(begins & commits, str(Outcome.COMMITTED))
        .when(begins & rolls_back, str(Outcome.ROLLED_BACK))
        .otherwise(str(Outcome.OPEN))
    )


def _with_keys(changes: DataFrame, keys: Mapping[str, Sequence[str]]) -> DataFrame:
    """Fills ``key`` of the tables that the option names key columns for: the after image's values where there is one;
    null where an image has not all of them."""
    key: Column = F.col("key")
    image = F.coalesce("after", "before")
    for table, columns in keys.items():
        named = (table_label() == table) | (F.col("table_name") == table)
        found = _entries(image, tuple(columns))
        key = F.when(named, F.when(F.size(found) == len(set(columns)), found)).otherwise(key)
    return changes.withColumn("key", key)


def _with_written_columns(changes: DataFrame, compressed: Collection[str]) -> DataFrame:
    """Fills ``changed_columns`` of updates of the record types ``compressed`` with the columns of the after image, less
    those that the before image has with the same value, and less columns of the key that no before image has: they only
    say which row it is (docs/formats/goldengate.md §4.5). The source is ``log`` where any of them was not compared."""
    if not compressed:
        return changes
    before, after = F.col("before"), F.col("after")

    def has(image: str, name: Column) -> Column:
        return F.coalesce(F.map_contains_key(image, name), F.lit(False))

    def differs(name: Column) -> Column:
        return F.when(has("before", name), ~before[name].eqNullSafe(after[name])).otherwise(~has("key", name))

    rule = F.col("record_type").isin(*compressed) & (F.col("operation") == str(Operation.UPDATE)) & after.isNotNull()
    written = F.filter(F.map_keys(after), differs)
    listed = before.isNull() | F.exists(written, lambda name: ~has("before", name))
    source = F.when(listed, str(ChangeSource.LOG)).otherwise(str(ChangeSource.IMAGES))
    return changes.withColumns(
        {
            "changed_columns": F.when(rule, written).otherwise(F.col("changed_columns")),
            "change_source": F.when(rule, source).otherwise(F.col("change_source")),
        }
    )


def _entries(image: Column, names: tuple[str, ...]) -> Column:
    """The entries of a map that have one of the names."""
    return F.map_filter(image, lambda name, _: name.isin(*names))


def assemble_transactions(headers: DataFrame, changes: DataFrame, form: Format) -> DataFrame:
    """``transactions`` from events and changes, both without images."""
    if form.pairing is Pairing.OBJECT:  # an event log has none
        return headers.sparkSession.createDataFrame([], from_arrow_schema(model.TRANSACTIONS))
    if not form.commits:
        return conform(summaries_of(headers, changes, form), "transactions")
    whole = _ended(headers)
    counts = committed.parts_of(changes).select(
        F.col("transaction_id").alias("_transaction"),
        F.map_from_entries(F.array_sort(F.map_entries("changes"))).alias("changes"),
        F.array_sort(F.array_distinct("tables")).alias("tables"),
    )
    joined = whole.join(counts, F.col("transaction_id") == F.col("_transaction"), "left")
    filled = joined.withColumns(
        {
            "changes": F.coalesce("changes", F.create_map().cast("map<string,bigint>")),
            "tables": F.coalesce("tables", F.array().cast("array<string>")),
        }
    )
    return conform(filled, "transactions")


def summaries_of(headers: DataFrame, changes: DataFrame | None, form: Format) -> DataFrame:
    """The transactions of a stream of committed work, from events without images, and, where it is wanted what they
    changed, from changes; rows of :data:`cdcwb.formats.summaries.SUMMARIES`."""
    parts = committed.parts(headers, trail=form.pairing is Pairing.TRANSACTION)
    return committed.summaries(parts, None if changes is None else committed.parts_of(changes))


def _ended(headers: DataFrame) -> DataFrame:
    """What begins, ends and the other events tell of each transaction."""
    events = headers.filter(F.col("transaction_id").isNotNull())
    kind = F.col("kind")
    ends = kind.isin(*_ENDS)
    whole = events.groupBy("transaction_id").agg(
        F.max(kind == str(Kind.BEGIN)).alias("_begins"),
        F.max(kind == str(Kind.COMMIT)).alias("_commits"),
        F.max(kind == str(Kind.ROLLBACK)).alias("_rolls_back"),
        F.min(F.when(kind == str(Kind.BEGIN), F.col("position"))).alias("begin_position"),
        F.max(F.when(ends, F.col("position"))).alias("end_position"),
        F.min(F.when(kind == str(Kind.BEGIN), F.col("changed_at"))).alias("began_at"),
        F.max(F.when(ends, F.col("changed_at"))).alias("ended_at"),
        F.sum("length").alias("bytes"),
        F.max(F.when(kind == str(Kind.BEGIN), F.col("headers")["user_id"])).alias("user"),
    )
    ended = F.col("_commits") | F.col("_rolls_back")
    completeness = (
        F.when(~F.col("_begins"), str(Completeness.NO_BEGIN))
        .when(~ended, str(Completeness.NO_END))
        .otherwise(str(Completeness.COMPLETE))
    )
    outcome = _outcome(F.col("_begins"), F.col("_commits"), F.col("_rolls_back"))
    return whole.withColumns({"outcome": outcome, "completeness": completeness})


def assemble_problems(
    events: DataFrame,
    changes: DataFrame | None,
    headers: DataFrame,
    transactions: DataFrame | None,
    beside: DataFrame,
    form: Format,
) -> DataFrame:
    """``problems``: those of events, those that only assembly sees (of ``changes``, None: there are none but among the
    events), transactions that are not whole, and the given rows ``beside`` (of the capture, its files and schemas).
    ``headers`` are events without images (of an event log: with their bytes); ``transactions`` those of the model, or,
    of a stream of committed work, summaries; None where nothing tells whether one is complete."""
    severity = F.create_map(*[F.lit(text) for code in Problem for text in (str(code), str(code.severity))])
    of_events = events.filter(F.col("problems").isNotNull()).withColumn("problem", F.explode("problems"))
    placed = of_events.select(*_PLACED)
    if form.pairing is Pairing.OBJECT:
        among = [key_spellings(headers), *([] if changes is None else [repeated_records(headers)])]
        for found_among in among:
            placed = placed.unionByName(found_among.select(*_PLACED))
    elif changes is not None and form.pairing is not Pairing.NONE:
        of_changes = changes.filter(F.col("problems").isNotNull()).withColumn("problem", F.explode("problems"))
        of_changes = of_changes.filter(found_by_pairing(F.col("problem")["code"]))
        placed = placed.unionByName(of_changes.withColumn("raw", F.lit(None).cast("binary")).select(*_PLACED))
    rows = placed.select(
        severity[F.col("problem.code")].alias("severity"),
        F.col("problem.code").alias("code"),
        F.col("problem.detail").alias("sentence"),
        "file",
        "offset",
        "length",
        F.lower(F.hex(F.substring("raw", 1, 32))).alias("first_bytes"),
        "transaction_id",
        table_label().alias("table"),
    )
    found = conform(rows, "problems")
    if form.pairing is Pairing.OBJECT:
        return found.unionByName(beside)
    if transactions is not None and form.commits:
        found = found.unionByName(_without_end(transactions))
    elif transactions is not None:
        found = found.unionByName(committed.missing_events(transactions))
    if not form.commits:
        found = found.unionByName(committed.frozen_times(headers))
    return found.unionByName(beside)


_PLACED = ("problem", "file", "offset", "length", "raw", "transaction_id", "schema_name", "table_name")


def _without_end(transactions: DataFrame) -> DataFrame:
    """Transactions whose begin or end is missing, as problems."""

    def told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pylist(open_ones(batch), schema=model.PROBLEMS)

    return transactions.mapInArrow(told, from_arrow_schema(model.PROBLEMS))
