"""From events to changes and transactions, with the DataFrame API only (docs/formats/*.md §6).

Everything here is per transaction: rows meet in a shuffle by transaction_id, whatever split they came from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cdcwb import model
from cdcwb.model import ChangeSource, Completeness, Kind, Outcome, Problem

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["assemble_changes", "assemble_problems", "assemble_transactions", "conform", "table_label"]

_HALVES = (str(Kind.BEFORE), str(Kind.AFTER))
_CHANGES = (str(Kind.CHANGE), *_HALVES)
_ENDS = (str(Kind.COMMIT), str(Kind.ROLLBACK))


def conform(frame: DataFrame, table: str) -> DataFrame:
    """Exactly the columns of the model's table, in its order and types."""
    wanted = from_arrow_schema(model.TABLES[table])
    return frame.select([F.col(field.name).cast(field.dataType).alias(field.name) for field in wanted.fields])


def table_label(schema: str = "schema_name", table: str = "table_name") -> Column:
    """``schema.table``, or ``table`` where there is no schema; null where there is no table."""
    name = F.col(table)
    return F.when(F.col(schema).isNull(), name).otherwise(F.concat(F.col(schema), F.lit("."), name))


def _place(prefix: str = "") -> Column:
    return F.struct(F.col(f"{prefix}file_index").alias("file_index"), F.col(f"{prefix}offset").alias("offset"))


def assemble_changes(events: DataFrame, headers: DataFrame, keys: Mapping[str, Sequence[str]]) -> DataFrame:
    """``changes`` from ``events``.

    ``headers`` are the same events without images, read on their own for begins, ends and undos. ``keys`` gives the key
    columns of tables that the source names none for.
    """
    rows = events.filter(F.col("kind").isin(*_CHANGES))
    paired = _pair_halves(rows)
    return conform(_with_keys(_with_outcome(paired, headers), keys), "changes")


def _pair_halves(rows: DataFrame) -> DataFrame:
    """Before and after halves of updates joined into the row of the after half.

    Halves of one transaction and table that follow each other, with no other change of that table between them, make a
    run that alternates. They are paired from its start; an even run that begins with an after half holds reordered
    pairs, and in an odd one that begins so the first stands alone.
    """
    # one partitioning for all of it, by transaction: what follows joins by transaction without another shuffle
    order = Window.partitionBy("transaction_id").orderBy("schema_name", "table_name", "file_index", "offset")
    upto = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    half = F.col("kind").isin(*_HALVES)
    before = F.lag(F.struct("kind", "schema_name", "table_name")).over(order)
    follows = (
        before["kind"].isin(*_HALVES)
        & (before["kind"] != F.col("kind"))
        & before["schema_name"].eqNullSafe(F.col("schema_name"))
        & before["table_name"].eqNullSafe(F.col("table_name"))
    )
    numbered = rows.withColumns(
        {"_row": F.row_number().over(order), "_starts": ~half | before.isNull() | ~follows}
    ).withColumn("_run", F.max(F.when(F.col("_starts"), F.col("_row"))).over(upto))
    run = Window.partitionBy("transaction_id", "_run")
    counted = numbered.withColumns(
        {
            "_size": F.count(F.lit(1)).over(run),
            # the run alternates, so its first row's kind follows from this row's kind and place
            "_after_first": (F.col("kind") == str(Kind.AFTER)) == ((F.col("_row") - F.col("_run")) % 2 == 0),
        }
    )
    skipped = F.when(F.col("_after_first") & (F.col("_size") % 2 == 1), 1).otherwise(0)
    index = F.col("_row") - F.col("_run") - skipped  # from 0; -1: stands alone
    first = half & (index >= 0) & (index % 2 == 0) & (index + skipped + 1 < F.col("_size"))
    second = half & (index >= 0) & (index % 2 == 1)
    other = {}
    for name in ("before", "file_index", "offset", "length", "problems"):
        earlier, later = F.lag(name).over(order), F.lead(name).over(order)
        other[f"_other_{name}"] = F.when(second, earlier).when(first, later)
    joined = counted.withColumns({**other, "_first": first, "_second": second})
    joined = joined.filter((F.col("kind") != str(Kind.BEFORE)) | ~(F.col("_first") | F.col("_second")))
    return _join_columns(joined)


def _join_columns(joined: DataFrame) -> DataFrame:
    whole = F.col("_first") | F.col("_second")
    alone = F.col("kind").isin(*_HALVES) & ~whole
    here = F.struct("file_index", "offset", F.col("length"))
    there = F.struct(
        F.col("_other_file_index").alias("file_index"),
        F.col("_other_offset").alias("offset"),
        F.col("_other_length").alias("length"),
    )
    before = F.when(whole, F.col("_other_before")).otherwise(F.col("before"))
    differs = F.filter(F.map_keys("after"), lambda name: ~before[name].eqNullSafe(F.col("after")[name]))
    compared = whole & before.isNotNull() & F.col("after").isNotNull()
    missing = F.when(F.col("kind") == str(Kind.BEFORE), "after").otherwise("before")
    found = F.concat(
        F.coalesce("_other_problems", F.array().cast(joined.schema["problems"].dataType)),
        F.coalesce("problems", F.array().cast(joined.schema["problems"].dataType)),
        F.when(
            alone, F.array(_problem(Problem.UPDATE_HALF, F.concat(F.lit("the "), missing, F.lit(" half is missing"))))
        )
        .when(
            F.col("_first") & (F.col("kind") == str(Kind.AFTER)),
            F.array(_problem(Problem.REORDERED_UPDATE, F.lit("the after half stands before the before half"))),
        )
        .otherwise(F.array().cast(joined.schema["problems"].dataType)),
    )
    events = (
        F.when(F.col("_second"), F.array(there, here))
        .when(F.col("_first"), F.array(here, there))
        .otherwise(F.array(here))
    )
    return joined.withColumns(
        {
            "source_events": events,
            "before": before,
            "changed_columns": F.when(compared, differs).otherwise(F.col("changed_columns")),
            "change_source": F.when(compared, str(ChangeSource.IMAGES)),
            "problems": F.when(F.size(found) > 0, found),
            "kind": F.when(alone, F.col("kind")).otherwise(F.lit(str(Kind.CHANGE))),
        }
    )


def _problem(code: Problem, detail: Column) -> Column:
    return F.struct(F.lit(str(code)).alias("code"), detail.alias("detail"))


def _with_outcome(changes: DataFrame, headers: DataFrame) -> DataFrame:
    """Adds what became of each change: from the end of its transaction and the undos behind it (§6.3)."""
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


def _entries(image: Column, names: tuple[str, ...]) -> Column:
    """The entries of a map that have one of the names."""
    return F.map_filter(image, lambda name, _: name.isin(*names))


def assemble_transactions(headers: DataFrame, changes: DataFrame) -> DataFrame:
    """``transactions`` from events and changes, both without images."""
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
    counts = (
        changes.groupBy("transaction_id", "operation")
        .agg(F.count(F.lit(1)).alias("_count"), F.collect_set(table_label()).alias("_tables"))
        .groupBy(F.col("transaction_id").alias("_transaction"))
        .agg(
            F.map_from_entries(F.array_sort(F.collect_list(F.struct("operation", "_count")))).alias("changes"),
            F.array_sort(F.array_distinct(F.flatten(F.collect_list("_tables")))).alias("tables"),
        )
    )
    joined = whole.join(counts, F.col("transaction_id") == F.col("_transaction"), "left")
    ended = F.col("_commits") | F.col("_rolls_back")
    completeness = (
        F.when(~F.col("_begins"), str(Completeness.NO_BEGIN))
        .when(~ended, str(Completeness.NO_END))
        .otherwise(str(Completeness.WHOLE))
    )
    filled = joined.withColumns(
        {
            "outcome": _outcome(F.col("_begins"), F.col("_commits"), F.col("_rolls_back")),
            "completeness": completeness,
            "changes": F.coalesce("changes", F.create_map().cast("map<string,bigint>")),
            "tables": F.coalesce("tables", F.array().cast("array<string>")),
        }
    )
    return conform(filled, "transactions")


def assemble_problems(events: DataFrame, changes: DataFrame, transactions: DataFrame, beside: DataFrame) -> DataFrame:
    """``problems``: those of events, those that only assembly sees, transactions that are not whole, and the given rows
    ``beside`` (of the capture, its files and schemas)."""
    severity = F.create_map(*[F.lit(text) for code in Problem for text in (str(code), str(code.severity))])
    seen_by_assembly = F.col("problem.code").isin(str(Problem.UPDATE_HALF), str(Problem.REORDERED_UPDATE))
    of_events = events.filter(F.col("problems").isNotNull()).withColumn("problem", F.explode("problems"))
    of_changes = changes.filter(F.col("problems").isNotNull()).withColumn("problem", F.explode("problems"))
    of_changes = of_changes.filter(seen_by_assembly).withColumn("raw", F.lit(None).cast("binary"))
    placed = of_events.select(*_PLACED).unionByName(of_changes.select(*_PLACED))
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
    return conform(rows, "problems").unionByName(_open_ones(transactions, severity)).unionByName(beside)


_PLACED = ("problem", "file", "offset", "length", "raw", "transaction_id", "schema_name", "table_name")


def _open_ones(transactions: DataFrame, severity: Column) -> DataFrame:
    code = F.when(F.col("completeness") == str(Completeness.NO_BEGIN), str(Problem.NO_BEGIN)).otherwise(
        str(Problem.OPEN_TRANSACTION)
    )
    sentence = F.when(
        F.col("completeness") == str(Completeness.NO_BEGIN), "the begin of this transaction is not in the capture"
    ).otherwise("the end of this transaction is not in the capture")
    rows = transactions.filter(F.col("outcome") == str(Outcome.OPEN)).withColumns({"code": code, "sentence": sentence})
    nothing = {name: F.lit(None) for name in ("file", "offset", "length", "first_bytes")}
    only = F.when(F.size("tables") == 1, F.col("tables")[0])
    return conform(rows.withColumns({**nothing, "severity": severity[F.col("code")], "table": only}), "problems")
