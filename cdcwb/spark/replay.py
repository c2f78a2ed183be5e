"""The rows of a table as they stood at some place of the log, from the changes that were committed by then.

Changes count in commit order. An image may hold only some columns; what it does not hold stays as it was. So the value
of a column is the last one that was written since the row came into being.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from cdcwb.errors import OptionError
from cdcwb.formats.options import nearest
from cdcwb.model import Operation, Outcome
from cdcwb.spark.pairing import table_label

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["state"]

_STARTS: Final = (str(Operation.INSERT), str(Operation.REFRESH))
_MAP: Final = "map<string,string>"


def state(
    changes: DataFrame,
    versions: DataFrame,
    table: str,
    position: str | None = None,
    time: dt.datetime | None = None,
) -> DataFrame:
    """The rows of ``table`` (``schema.table``, or ``table``) after all changes that were committed at or before
    ``position`` (a log position) and ``time`` (aware); None: to the end of the capture.

    Columns: ``key`` and ``row`` (maps of text; a missing key of ``row``: nothing in the capture says it), ``partial``
    (the capture holds neither the row's beginning nor all of its columns), ``changes`` (how many made it),
    ``table_version`` of the newest, ``position``, ``commit_position`` and ``committed_at`` of the last. A full load and
    an event log have no commits: their rows count in the order of their positions, those without a position first.
    Rolled back, undone and open changes do not count.

    Raises OptionError for a table without changes, or with changes of which none has a key.
    """
    mine = changes.filter(((table_label() == table) | (F.col("table_name") == table)) & _counts(position, time))
    _check(changes, table)
    ordered = mine.withColumn("_order", _order())
    emptied = ordered.filter(F.col("operation") == str(Operation.TRUNCATE)).agg(F.max("_order").alias("_emptied"))
    rows = ordered.join(F.broadcast(emptied)).filter(F.col("_emptied").isNull() | (F.col("_order") > F.col("_emptied")))
    pieces = _pieces(rows.filter(F.col("key").isNotNull()))
    lasting = _since_begin(pieces)
    return _merged(lasting, versions, table)


def _counts(position: str | None, time: dt.datetime | None) -> Column:
    committed = F.coalesce(F.col("outcome") == str(Outcome.COMMITTED), F.lit(True))
    if position is not None:
        committed = committed & (F.coalesce("commit_position", "position", F.lit("")) <= position)
    if time is not None:
        at = F.coalesce("committed_at", "changed_at")
        committed = committed & (at.isNull() | (at <= F.lit(time)))
    return committed


def _order() -> Column:
    names = (F.coalesce("commit_position", "position").alias("commit"), "position", "file_index", "offset")
    return F.struct(*names)


def _check(changes: DataFrame, table: str) -> None:
    known = changes.groupBy(table_label().alias("table"), "table_name").agg(F.count("key").alias("keyed")).collect()
    mine = [row for row in known if table in (row["table"], row["table_name"])]
    if not mine:
        names = sorted(row["table"] for row in known if row["table"] is not None)
        there = f"There are: {', '.join(names) or 'none'}."
        raise OptionError(f"there is no change of a table {table!r}.{nearest(table, names)} {there}")
    if not any(row["keyed"] for row in mine):
        raise OptionError(f"no change of {table!r} has a key; name its columns with the option keys={table}:c1+c2")


def _pieces(rows: DataFrame) -> DataFrame:
    """The changes by the key they concern. An update that changes the key ends one row and goes on as another."""
    names = F.map_keys("key")
    former = F.transform(
        names, lambda name: F.coalesce(F.try_element_at(F.col("before"), name), F.try_element_at(F.col("key"), name))
    )
    latter = F.transform(
        names, lambda name: F.coalesce(F.try_element_at(F.col("after"), name), F.try_element_at(F.col("key"), name))
    )
    update = F.col("operation") == str(Operation.UPDATE)
    moved = update & F.col("before").isNotNull() & (former != latter)
    gone = (F.col("operation") == str(Operation.DELETE)) | (F.col("_part") == "gone")
    parts = F.when(moved, F.array(F.lit("gone"), F.lit("come"))).otherwise(F.array(F.lit("whole")))
    split = rows.withColumns({"_former": former, "_latter": latter, "_moved": moved}).withColumn(
        "_part", F.explode(parts)
    )
    values = F.when(F.col("_part") == "come", F.col("_latter")).otherwise(F.col("_former"))
    before = F.coalesce("before", F.create_map().cast(_MAP))
    after = F.coalesce("after", F.create_map().cast(_MAP))
    # what an image after lacks, the image before may have: an update leaves it as it was
    filled = F.map_concat(F.map_filter(before, lambda name, _: ~F.map_contains_key(after, name)), after)
    return split.select(
        F.map_from_arrays(names, values).alias("key"),
        "_order",
        gone.alias("_gone"),
        (F.col("operation").isin(*_STARTS) & (F.col("_part") == "whole")).alias("_starts"),
        F.when(~gone, F.when(update, filled).otherwise(after)).alias("_image"),
        *("table_version", "position", "commit_position", "committed_at"),
    ).withColumn("_key", F.to_json(F.array_sort(F.map_entries("key"))))


def _since_begin(pieces: DataFrame) -> DataFrame:
    """The pieces since each row came into being: those behind its last end and at or behind its last beginning."""
    begin = F.max(F.when(F.col("_starts"), F.col("_order")))
    end = F.max(F.when(F.col("_gone"), F.col("_order")))
    marks = pieces.groupBy("_key").agg(end.alias("_ended"), begin.alias("_began"))
    joined = pieces.join(marks, "_key")
    behind = F.col("_ended").isNull() | (F.col("_order") > F.col("_ended"))
    since = F.col("_began").isNull() | (F.col("_order") >= F.col("_began"))
    return joined.filter(behind & since)


def _merged(pieces: DataFrame, versions: DataFrame, table: str) -> DataFrame:
    last = F.max_by(
        F.struct("key", "table_version", "position", "commit_position", "committed_at"), F.col("_order")
    ).alias("_last")
    rows = pieces.groupBy("_key").agg(
        last, F.count("*").alias("changes"), F.bool_or(F.col("_starts")).alias("_started")
    )
    values = (
        pieces.select("_key", "_order", F.explode("_image").alias("_column", "_value"))
        .groupBy("_key", "_column")
        .agg(F.max_by(F.struct("_value"), F.col("_order")).alias("_value"))
        .groupBy("_key")
        .agg(
            F.map_from_entries(
                F.array_sort(F.collect_list(F.struct(F.col("_column"), F.col("_value")["_value"].alias("_value"))))
            ).alias("row")
        )
    )
    known = versions.filter((table_label() == table) | (F.col("table_name") == table)).select(
        F.col("table_version").alias("_version"),
        F.transform("columns", lambda column: column["name"]).alias("_columns"),
    )
    empty = F.create_map().cast(_MAP)
    full = (
        rows.join(values, "_key", "left")
        .select("_last.*", F.coalesce("row", empty).alias("row"), "changes", "_started")
        .join(F.broadcast(known), F.col("table_version") == F.col("_version"), "left")
    )
    lacking = F.size(F.array_except(F.coalesce("_columns", F.array().cast("array<string>")), F.map_keys("row")))
    partial = ~F.col("_started") & (F.col("_columns").isNull() | (lacking > 0))
    names = ("key", "row", partial.alias("partial"), "changes", "table_version", "position", "commit_position")
    return full.select(*names, "committed_at")
