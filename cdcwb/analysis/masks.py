"""Questions about which columns changes touch, answered by Spark; the answers are small pandas frames of Arrow types.

Which columns an update changed comes from its mask, else from its images, else from the log record
(``changes.change_source``); an update without any of these is counted as such and nowhere else. Times are UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

import pandas as pd
from pyspark.sql import functions as F

from cdcwb.analysis.frames import small, table_name, time_axis, when
from cdcwb.analysis.transactions import bins_of
from cdcwb.formats import FORMATS, get_format
from cdcwb.model import Operation, Problem
from cdcwb.time_axis import TimeAxis
from cdcwb.words import joined

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "LISTED",
    "MOST_MASKS",
    "axis",
    "columns",
    "disagreements",
    "idle_updates",
    "key_changes",
    "masks",
    "nothing_over_time",
    "over_time",
    "overview",
    "time_span",
    "together",
    "without_key",
]

LISTED: Final = (
    "Changed columns from the log record: a compressed update has the columns that were written, those of the key, and "
    "whatever is logged besides. All of them count as changed, but a column of the key does so only where its value "
    "before is recorded and differs."
)
"""What a reader has to know where compressed updates have no images to compare."""

MOST_MASKS: Final = 30
"""Masks that are shown: the most frequent ones."""

_MOST_PAIRED: Final = 64  # changed columns of one update that are counted in pairs


class Tables(Protocol):
    """What is asked of a capture: its changes with images, and its problems (:mod:`cdcwb.model`)."""

    @property
    def changes(self) -> DataFrame: ...
    @property
    def problems(self) -> DataFrame: ...


def overview(capture: Tables) -> pd.DataFrame:
    """One row a table that has updates: ``table``, ``updates``, ``told_by_mask``, ``told_by_images``,
    ``told_by_log``, ``not_told`` (nothing says what changed), ``idle`` (told, and nothing changed), ``with_mask``
    (those with a change mask), ``columns_changed`` (distinct ones), ``listed`` (compressed updates whose changed
    columns come from the log record), ``listed_without_key`` (those of them whose key is not known)."""
    source = F.col("change_source")
    compressed = F.col("record_type").isin(
        *sorted({one for name in FORMATS for one in get_format(name).compressed_updates})
    )
    listed = compressed & (source == "log")
    told = F.col("changed_columns").isNotNull()
    rows = (
        _updates(capture)
        .groupBy("table")
        .agg(
            F.count("*").alias("updates"),
            *[F.count_if(told & (source == how)).alias(f"told_by_{how}") for how in ("mask", "images", "log")],
            F.count_if(~told).alias("not_told"),
            F.count_if(told & (F.size("changed_columns") == 0)).alias("idle"),
            F.count("change_mask").alias("with_mask"),
            F.size(F.array_distinct(F.flatten(F.collect_set("changed_columns")))).alias("columns_changed"),
            F.count_if(listed).alias("listed"),
            F.count_if(listed & F.col("key").isNull()).alias("listed_without_key"),
        )
    )
    return small(rows.orderBy("table"))


def without_key(tables: Sequence[str]) -> str:
    """What a reader has to know of tables whose compressed updates name no key."""
    return (
        f"No key is known for {joined(tables)}: columns of the key that are only carried along count as changed. "
        "Give the key with the option keys, such as keys=schema.table:column+column."
    )


def nothing_over_time(totals: Mapping[str, int]) -> str:
    """Why there is nothing to show over time, from the sums of ``updates``, ``not_told`` and ``idle``."""
    known = totals["updates"] - totals["not_told"]
    if not totals["updates"]:
        return "There are no updates."
    if not known:
        return "No update shows which columns it changed: without a mask, images before and after or a list of columns."
    if totals["idle"] == known:
        return "No update whose changed columns are known changes any."
    return "No update whose changed columns are known has a time."


def columns(capture: Tables) -> pd.DataFrame:
    """One row a column that updates of a table have or change: ``table``, ``column``, ``updates`` (of the table, of
    which it is told what changed), ``changed`` (how many of these changed it), ``share`` (from 0 to 1), and of all
    updates' after images ``set`` (a value), ``null`` (NULL), ``not_captured`` (the image lacks it); ``became_null``:
    changed, and NULL afterwards. In the order of tables, then most changed first."""
    updates = _updates(capture)
    told = updates.filter("changed_columns IS NOT NULL")
    totals = updates.groupBy("table").agg(
        F.count("after").alias("_images"), F.count("changed_columns").alias("updates")
    )
    changed = (
        told.select("table", "after", F.explode("changed_columns").alias("column"))
        .groupBy("table", "column")
        .agg(
            F.count("*").alias("changed"),
            F.count_if(F.map_contains_key("after", F.col("column")) & F.col("after")[F.col("column")].isNull()).alias(
                "became_null"
            ),
        )
    )
    held = (
        updates.select("table", F.explode("after").alias("column", "_value"))
        .groupBy("table", "column")
        .agg(F.count("_value").alias("set"), F.count_if(F.col("_value").isNull()).alias("null"))
    )
    rows = changed.join(held, ["table", "column"], "full").join(totals, "table")
    zero = {name: F.coalesce(name, F.lit(0).cast("long")) for name in ("changed", "became_null", "set", "null")}
    full = rows.withColumns(zero).withColumns(
        {
            "share": F.when(F.col("updates") > 0, F.col("changed") / F.col("updates")),
            "not_captured": F.col("_images") - F.col("set") - F.col("null"),
        }
    )
    wanted = ("table", "column", "updates", "changed", "share", "became_null", "set", "null", "not_captured")
    return small(full.select(*wanted).orderBy("table", F.desc("changed"), "column"))


def time_span(capture: Tables) -> tuple[datetime | None, datetime | None]:
    """The times of the first and the last update of which it is told what changed; None where none has a time."""
    row = _timed(capture).agg(F.min("_when").alias("first"), F.max("_when").alias("last")).toArrow().to_pylist()[0]
    return row["first"], row["last"]


def axis(capture: Tables, first: datetime, last: datetime) -> TimeAxis:
    """The axis for the times of these updates, which ``first`` and ``last`` bound."""
    return time_axis(_timed(capture), F.col("_when"), first=first, last=last)


def over_time(capture: Tables, first: datetime, last: datetime, bins: int = 60) -> tuple[pd.DataFrame, int]:
    """How often each column was changed when: ``table``, ``column``, ``bin`` (from 0), ``began_at`` (start of the
    bin), ``changed``; only what is not zero; and the width of a bin in microseconds. At most ``bins`` bins of a round
    width, which begin at round times, cover ``first`` to ``last``; times outside have bins of the same width, below 0
    or beyond."""
    since, width = bins_of(first, last, bins)
    start = F.unix_micros(F.lit(since))
    number = F.floor((F.unix_micros("_when") - start) / F.lit(width)).cast("long")
    rows = (
        _timed(capture)
        .withColumn("bin", number)
        .select("table", "bin", F.explode("changed_columns").alias("column"))
        .groupBy("table", "column", "bin")
        .agg(F.count("*").alias("changed"))
        .withColumn("began_at", F.timestamp_micros(start + F.col("bin") * F.lit(width)))
    )
    wanted = rows.select("table", "column", "bin", "began_at", "changed")
    return small(wanted.orderBy("table", "column", "bin")), width


def together(capture: Tables, limit: int = 200) -> pd.DataFrame:
    """Which columns change in the same update: ``table``, ``column``, ``other``, ``together`` (updates that changed
    both), ``column_changed``, ``other_changed``, ``likeness`` (updates that changed both among those that changed
    either, from 0 to 1). The ``limit`` most frequent pairs, those of each table together.

    Of an update that changed more than 64 columns only the first 64 by name are paired.
    """
    told = _updates(capture).filter("changed_columns IS NOT NULL")
    named = F.slice(F.array_sort(F.array_distinct("changed_columns")), 1, _MOST_PAIRED)
    counted = (
        told.select("table", F.explode("changed_columns").alias("column"))
        .groupBy("table", "column")
        .agg(F.count("*").alias("_changed"))
    )
    pairs = (
        told.select("table", named.alias("_all"))
        .select("table", "_all", F.explode("_all").alias("column"))
        .select("table", "column", F.explode("_all").alias("other"))
        .filter("column < other")
        .groupBy("table", "column", "other")
        .agg(F.count("*").alias("together"))
        .orderBy(F.desc("together"), "table", "column", "other")
        .limit(limit)
    )
    mine = counted.withColumnRenamed("_changed", "column_changed")
    others = counted.select("table", F.col("column").alias("other"), F.col("_changed").alias("other_changed"))
    rows = pairs.join(mine, ["table", "column"]).join(others, ["table", "other"])
    either = F.col("column_changed") + F.col("other_changed") - F.col("together")
    full = rows.withColumn("likeness", F.col("together") / either)
    wanted = ("table", "column", "other", "together", "column_changed", "other_changed", "likeness")
    return small(full.select(*wanted).orderBy("table", F.desc("together"), "column", "other"))


def idle_updates(capture: Tables, limit: int = 50) -> pd.DataFrame:
    """Updates of which it is told what changed, and nothing did: ``table``, ``updates``, ``idle``, ``share``, and the
    place of the first (``file``, ``offset``); tables with the most first."""
    idle = F.col("changed_columns").isNotNull() & (F.size("changed_columns") == 0)
    rows = (
        _updates(capture)
        .groupBy("table")
        .agg(
            F.count("*").alias("updates"),
            F.count_if(idle).alias("idle"),
            F.min_by(
                F.struct("file", "offset"), F.when(idle, F.struct("file_index", F.col("offset").alias("_offset")))
            ).alias("_first"),
        )
        .filter("idle > 0")
        .select("table", "updates", "idle", (F.col("idle") / F.col("updates")).alias("share"), "_first.*")
    )
    return small(rows.orderBy(F.desc("idle"), "table").limit(limit))


def disagreements(capture: Tables, limit: int = 50) -> pd.DataFrame:
    """Masks that disagree with the images of their change, in the columns of ``problems``, in file and offset."""
    rows = capture.problems.filter(F.col("code").isin(str(Problem.MASK_IMAGES), str(Problem.MASK)))
    return small(rows.orderBy(F.asc_nulls_first("file"), F.asc_nulls_first("offset"), "code").limit(limit))


def key_changes(capture: Tables, limit: int = 50) -> pd.DataFrame:
    """Updates that changed a column of their key: ``table``, ``old_key`` and ``new_key`` (texts ``c=v, c=v``),
    ``position``, ``changed_at``, ``transaction_id``, ``file``, ``offset``; in capture order. Only where the key's
    columns are known and both images have them."""
    names = F.map_keys("key")
    old = F.transform(names, lambda name: F.try_element_at(F.col("before"), name))
    new = F.transform(names, lambda name: F.try_element_at(F.col("after"), name))
    both = ~F.exists(old, F.isnull) & ~F.exists(new, F.isnull)
    rows = (
        _updates(capture)
        .filter(F.col("key").isNotNull() & F.col("before").isNotNull() & F.col("after").isNotNull())
        .withColumns({"_old": old, "_new": new})
        .filter(both & (F.col("_old") != F.col("_new")))
        .select(
            "table",
            _pairs(names, F.col("_old")).alias("old_key"),
            _pairs(names, F.col("_new")).alias("new_key"),
            *("position", F.col("_when").alias("changed_at"), "transaction_id", "file", "file_index", "offset"),
        )
    )
    return small(rows.orderBy("file_index", "offset").limit(limit).drop("file_index"))


def masks(capture: Tables, limit: int = MOST_MASKS) -> pd.DataFrame:
    """The masks that occur: ``table``, ``table_version``, ``operation``, ``change_mask`` (as the source wrote it),
    ``changed_columns`` (what it means), ``changes`` (how many have it), ``position``, ``file`` and ``offset`` of the
    first; the most frequent ``limit`` of all."""
    first = F.min_by(F.struct("position", "file", "offset"), F.struct("file_index", F.col("offset").alias("_offset")))
    rows = (
        _changes(capture)
        .filter("change_mask IS NOT NULL")
        .groupBy("table", "table_version", "operation", "change_mask", "changed_columns")
        .agg(F.count("*").alias("changes"), first.alias("_first"))
        .orderBy(F.desc("changes"), "table", "change_mask", "operation")
        .limit(limit)
    )
    return small(rows.select("*", "_first.*").drop("_first").orderBy("table", F.desc("changes"), "change_mask"))


def _changes(capture: Tables) -> DataFrame:
    return capture.changes.withColumns({"table": table_name(), "_when": when()})


def _updates(capture: Tables) -> DataFrame:
    return _changes(capture).filter(F.col("operation") == str(Operation.UPDATE))


def _timed(capture: Tables) -> DataFrame:
    return _updates(capture).filter("changed_columns IS NOT NULL AND _when IS NOT NULL")


def _pairs(names: Column, values: Column) -> Column:
    def pair(entry: Column) -> Any:
        return F.concat(entry["_name"], F.lit("="), entry["_value"])

    return F.array_join(F.transform(F.arrays_zip(names.alias("_name"), values.alias("_value")), pair), ", ")
