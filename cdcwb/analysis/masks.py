"""Questions about which columns changes touch, answered by Spark; the answers are small pandas frames of Arrow types.

Which columns an update changed comes from its mask, else from its images, else from the log record
(``changes.change_source``); an update without any of these is counted as such and nowhere else. Times are UTC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import pandas as pd
from pyspark.sql import functions as F

from cdcwb.analysis import change_counts
from cdcwb.analysis.change_counts import Changed
from cdcwb.analysis.frames import small, table_name, time_axis, when
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
    "changed",
    "columns",
    "disagreements",
    "idle_updates",
    "key_changes",
    "masks",
    "nothing_over_time",
    "over_time",
    "overview",
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

_HEADERS: Final = ("operation", "schema_name", "table_name", "changed_at", "committed_at", "changed_columns")

Record = dict[str, Any]


class Tables(Protocol):
    """What is asked of a capture: its changes with images, and its problems (:mod:`cdcwb.model`)."""

    @property
    def changes(self) -> DataFrame: ...
    @property
    def problems(self) -> DataFrame: ...


def changed(capture: Tables) -> Changed:
    """Which columns updates changed, alone and in pairs; one Spark job."""
    ask = partial(change_counts.changed, paired=True)
    return change_counts.of_all(capture.changes.select(*_HEADERS), ask, change_counts.merge_changed)


def overview(capture: Tables, found: Changed) -> list[Record]:
    """One row a table that has updates: ``table``, ``updates``, ``told_by_mask``, ``told_by_images``,
    ``told_by_log``, ``not_told`` (nothing says what changed), ``idle`` (told, and nothing changed), ``with_mask``
    (those with a change mask), ``columns_changed`` (distinct ones), ``listed`` (compressed updates whose changed
    columns come from the log record), ``listed_without_key`` (those of them whose key is not known). ``found`` is
    :func:`changed`."""
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
            *[F.count_if(told & (source == how)).alias(f"told_by_{how}") for how in ("mask", "images", "log")],
            F.count("change_mask").alias("with_mask"),
            F.count_if(listed).alias("listed"),
            F.count_if(listed & F.col("key").isNull()).alias("listed_without_key"),
        )
    )
    columns = Counter(table for table, _ in found.columns)
    return [
        {
            **row,
            "updates": found.updates[row["table"]],
            "not_told": found.updates[row["table"]] - found.known[row["table"]],
            "idle": found.idle[row["table"]],
            "columns_changed": columns[row["table"]],
        }
        for row in rows.orderBy("table").toArrow().to_pylist()
    ]


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


def columns(capture: Tables, found: Changed) -> list[Record]:
    """One row a column that updates of a table have or change: ``table``, ``column``, ``updates`` (of the table, of
    which it is told what changed), ``changed`` (how many of these changed it), ``share`` (from 0 to 1), and of all
    updates' after images ``set`` (a value), ``null`` (NULL), ``not_captured`` (the image lacks it); ``became_null``:
    changed, and NULL afterwards. In the order of tables, then most changed first. ``found`` is :func:`changed`."""
    is_null = F.col("_value").isNull()
    held = (
        _updates(capture)
        .where("after IS NOT NULL")
        .select("table", "changed_columns", F.posexplode_outer("after").alias("_at", "column", "_value"))
        .groupBy("table", "column")
        .agg(
            F.count_if(F.coalesce("_at", F.lit(0)) == 0).alias("images"),
            F.count("_value").alias("set"),
            F.count_if(is_null).alias("null"),
            F.count_if(is_null & F.array_contains("changed_columns", F.col("column"))).alias("became_null"),
        )
        .toArrow()
        .to_pylist()
    )
    images: Counter[str] = Counter()
    by_column: dict[tuple[str, str], Record] = {key: {} for key in found.columns}
    for row in held:
        images[row["table"]] += row["images"]
        if row["column"] is not None:  # null: of an image that is empty
            by_column[row["table"], row["column"]] = row
    rows = []
    for (table, column), row in by_column.items():
        number = {name: row.get(name, 0) for name in ("became_null", "set", "null")}
        number["not_captured"] = images[table] - number["set"] - number["null"]
        rows.append({"table": table, "column": column, **found.share(table, column), **number})
    return sorted(rows, key=lambda row: (row["table"], -row["changed"], row["column"]))


def axis(capture: Tables) -> TimeAxis | None:
    """The axis for the times of updates of which it is told what changed; None where none has a time."""
    return time_axis(_updates(capture).filter("changed_columns IS NOT NULL"), F.col("_when"))


def over_time(capture: Tables, axis: TimeAxis, bins: int = 60) -> tuple[list[Record], int]:
    """How often each column was changed when: ``table``, ``column``, ``bin`` (from 0), ``began_at`` (start of the
    bin), ``changed``; only what is not zero; and the width of a bin in microseconds. At most ``bins`` bins of a round
    width, which begin at round times, cover the axis; times outside have bins of the same width, below 0 or beyond."""
    start, width = axis.bins(bins)
    ask = partial(change_counts.changed_over_time, start=start, width_us=width)
    found = change_counts.of_all(capture.changes.select(*_HEADERS), ask, change_counts.added)
    return change_counts.changed_rows(found, start, width), width


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


def _pairs(names: Column, values: Column) -> Column:
    def pair(entry: Column) -> Any:
        return F.concat(entry["_name"], F.lit("="), entry["_value"])

    return F.array_join(F.transform(F.arrays_zip(names.alias("_name"), values.alias("_value")), pair), ", ")
