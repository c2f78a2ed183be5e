"""The halves of updates, joined into one change each (docs/formats/*.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from cdcwb.formats.base import Pairing
from cdcwb.formats.bitmask import DISAGREE, NAMED
from cdcwb.model import ChangeSource, Kind, Operation, Problem

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["CHANGES", "continue_events", "found_by_pairing", "pair", "problem", "table_label", "without_transaction"]

_BEFORE, _AFTER = str(Kind.BEFORE), str(Kind.AFTER)
_HALVES = (_BEFORE, _AFTER)
CHANGES = (str(Kind.CHANGE), *_HALVES)
"""The kinds of events that changes are made of."""


def table_label(schema: str = "schema_name", table: str = "table_name") -> Column:
    """``schema.table``, or ``table`` where there is no schema; null where there is no table."""
    name = F.col(table)
    return F.when(F.col(schema).isNull(), name).otherwise(F.concat(F.col(schema), F.lit("."), name))


def problem(code: Problem, detail: Column) -> Column:
    """One problem as a structure of code and detail."""
    return F.struct(F.lit(str(code)).alias("code"), detail.alias("detail"))


_FOUND_BY_PAIRING: Final = (Problem.UPDATE_HALF, Problem.REORDERED_UPDATE, Problem.MASK_IMAGES)


def found_by_pairing(code: Column) -> Column:
    """Is the code of a change's problem one that :func:`pair` adds, so that no event of the change has it? A mask is
    compared with both images there alone where they are in two events, and by the format where they are in one; such a
    format has no halves, so its changes are not to be asked."""
    return code.isin(*map(str, _FOUND_BY_PAIRING))


def continue_events(rows: DataFrame, headers: DataFrame) -> DataFrame:
    """Adds ``_pieces``: the places of the fragments that continue an event, in capture order. A fragment names the
    event that it continues in the header ``continues``: by position, or by ``file_index:offset`` where an event has no
    position or that of a different one before it."""
    pieces = (
        headers.filter((F.col("kind") == str(Kind.FRAGMENT)) & F.col("headers")["continues"].isNotNull())
        .groupBy(F.col("transaction_id").alias("_transaction"), F.col("headers")["continues"].alias("_continues"))
        .agg(F.array_sort(F.collect_list(_here())).alias("_pieces"))
    )
    second = F.exists("problems", lambda problem: problem["code"] == str(Problem.SAME_POSITION))
    location = F.concat_ws(":", F.col("file_index").cast("string"), F.col("offset").cast("string"))
    name = F.when(~F.coalesce(second, F.lit(False)), F.col("position"))
    return rows.join(
        pieces,
        (F.col("transaction_id") == F.col("_transaction")) & (F.coalesce(name, location) == F.col("_continues")),
        "left",
    ).drop("_transaction", "_continues")


def pair(rows: DataFrame, how: Pairing) -> DataFrame:
    """One row for each change, from events that are changes or halves of updates.

    A joined row is that of the after half, with the before image of the other. ``changed_columns`` stays what a mask
    said, and is what the images say where there was no mask. ``rows`` may have ``_pieces``
    (:func:`continue_events`).
    """
    if "_pieces" not in rows.columns:
        rows = rows.withColumn("_pieces", F.lit(None).cast(_PLACES))
    if how is Pairing.TRANSACTION:
        return _joined(_by_transaction(rows), missing=_HALVES, reordered=True)
    if how is Pairing.POSITION:
        return _joined(_by_position(rows), missing=(_AFTER,), reordered=False)
    return _with_source(rows, _places(_here(), "_pieces"), F.lit(False))


def _by_transaction(rows: DataFrame) -> DataFrame:
    """Halves of one transaction (or of none) and table that follow each other, with no other change of that table
    between them, make a run that alternates. They are paired from its start; an even run that begins with an after half
    holds reordered pairs, and in an odd one that begins so the first stands alone.
    """
    # one partitioning for all of it, by transaction: what follows joins by transaction without another shuffle
    half = F.col("kind").isin(*_HALVES)
    group = F.when(half, F.concat_ws(_NOBODY, F.lit(""), "schema_name", "table_name")).otherwise(_alone())
    rows = rows.withColumn("transaction_id", F.coalesce("transaction_id", F.concat(F.lit(_NOBODY), group)))
    order = Window.partitionBy("transaction_id").orderBy("schema_name", "table_name", "file_index", "offset")
    upto = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
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
            "_after_first": (F.col("kind") == _AFTER) == ((F.col("_row") - F.col("_run")) % 2 == 0),
        }
    )
    skipped = F.when(F.col("_after_first") & (F.col("_size") % 2 == 1), 1).otherwise(0)
    index = F.col("_row") - F.col("_run") - skipped  # from 0; -1: stands alone
    first = half & (index >= 0) & (index % 2 == 0) & (index + skipped + 1 < F.col("_size"))
    second = half & (index >= 0) & (index % 2 == 1)
    other = {}
    for name in _OTHER:
        earlier, later = F.lag(name).over(order), F.lead(name).over(order)
        other[f"_other_{name}"] = F.when(second, earlier).when(first, later)
    return counted.withColumns({**other, "_first": first, "_second": second})


_NOBODY = "\0"  # begins what stands for the transaction of a row that has none


def without_transaction(changes: DataFrame) -> DataFrame:
    """Changes of which those without a transaction have the transaction null again."""
    named = F.col("transaction_id")
    return changes.withColumn("transaction_id", F.when(~named.startswith(_NOBODY), named))


def _alone() -> Column:
    """What no other row has, for rows that have nothing in common with others."""
    return F.concat_ws(" ", F.col("file_index").cast("string"), F.col("offset").cast("string"))


_OTHER = ("before", "file_index", "offset", "length", "problems", "_pieces")
_PLACES = "array<struct<file_index: int, offset: bigint, length: bigint>>"


def _by_position(rows: DataFrame) -> DataFrame:
    """Halves with one position, of one table, in files of one folder: the first before half goes with the first after
    half, the second with the second. A position may repeat, so the join is one to one."""
    placed = rows.withColumns(
        {
            "_folder": F.regexp_replace("file", "[^/]*$", ""),
            "_position": F.coalesce("position", _alone()),  # rows without a position find no other half
            "_half": F.col("kind").isin(*_HALVES),
        }
    )
    names = ("_folder", "schema_name", "table_name", "_position")
    together = placed.repartition(*names)  # which both windows below are content with
    of_kind = Window.partitionBy(*names, "_half", "kind").orderBy("file_index", "offset")
    numbered = together.withColumn("_rank", F.row_number().over(of_kind))
    couple = Window.partitionBy(*names, "_half", "_rank")
    here = F.struct("kind", *_OTHER)
    befores = F.first(F.when(F.col("kind") == _BEFORE, here), ignorenulls=True).over(couple)
    afters = F.first(F.when(F.col("kind") == _AFTER, here), ignorenulls=True).over(couple)
    coupled = numbered.withColumns({"_b": befores, "_a": afters})
    whole = F.col("_half") & F.col("_b").isNotNull() & F.col("_a").isNotNull()
    is_after = F.col("kind") == _AFTER
    other = {f"_other_{name}": F.when(whole & is_after, F.col("_b")[name]) for name in _OTHER}
    return coupled.withColumns({**other, "_first": whole & ~is_after, "_second": whole & is_after})


def _here() -> Column:
    return F.struct("file_index", "offset", F.col("length"))


def _places(event: Column, pieces: str) -> Column:
    """An event's place, and those of its fragments."""
    return F.concat(F.array(event), F.coalesce(pieces, F.array().cast(_PLACES)))


def _joined(coupled: DataFrame, missing: tuple[str, ...], reordered: bool) -> DataFrame:
    """The after halves with the before images of their other halves. ``missing``: the halves whose absence is a
    problem; ``reordered``: is an after half before its before half one?"""
    rows = coupled.filter((F.col("kind") != _BEFORE) | ~(F.col("_first") | F.col("_second")))
    whole = F.col("_first") | F.col("_second")
    there = F.struct(
        F.col("_other_file_index").alias("file_index"),
        F.col("_other_offset").alias("offset"),
        F.col("_other_length").alias("length"),
    )
    own, other = _places(_here(), "_pieces"), _places(there, "_other__pieces")
    lacks = F.when(F.col("kind") == _BEFORE, _AFTER).otherwise(_BEFORE)
    empty = F.array().cast(rows.schema["problems"].dataType)
    found = [F.coalesce("_other_problems", empty), F.coalesce("problems", empty)]
    alone = F.col("kind").isin(*_HALVES) & ~whole
    sentence = F.concat(F.lit("the "), lacks, F.lit(" half is missing"))
    incomplete = F.when(alone & lacks.isin(*missing), F.array(problem(Problem.UPDATE_HALF, sentence)))
    if reordered:
        text = F.lit("the after half precedes the before half")
        turned = F.col("_first") & (F.col("kind") == _AFTER)
        incomplete = incomplete.when(turned, F.array(problem(Problem.REORDERED_UPDATE, text)))
    found.append(incomplete.otherwise(empty))
    events = F.when(F.col("_second"), F.concat(other, own)).when(F.col("_first"), F.concat(own, other)).otherwise(own)
    named = rows.withColumns(
        {
            "before": F.when(whole, F.col("_other_before")).otherwise(F.col("before")),
            "problems": F.concat(*found),
            "kind": F.when(alone & lacks.isin(*missing), F.col("kind")).otherwise(F.lit(str(Kind.CHANGE))),
        }
    )
    return _with_source(named, events, whole)


def _with_source(rows: DataFrame, events: Column, joined: Column) -> DataFrame:
    """Adds ``source_events``, and fills ``changed_columns`` from the images of updates that no mask speaks of."""
    before, after = F.col("before"), F.col("after")
    differs = F.filter(F.map_keys("after"), lambda name: ~before[name].eqNullSafe(after[name]))
    update = F.col("operation") == str(Operation.UPDATE)
    compared = update & before.isNotNull() & after.isNotNull()
    masked = F.col("changed_columns").isNotNull()
    empty: Any = F.array().cast(rows.schema["problems"].dataType)
    by_mask = F.array_except("changed_columns", differs)
    by_images = F.array_except(differs, F.col("changed_columns"))
    sentence = F.concat(
        F.lit(f"{DISAGREE}; changed by the mask only: "), _listed(by_mask),
        F.lit("; by the images only: "), _listed(by_images),
    )  # fmt: skip
    wrong = (F.size(by_mask) > 0) | (F.size(by_images) > 0)
    disagrees = F.when(joined & compared & masked & wrong, F.array(problem(Problem.MASK_IMAGES, sentence))).otherwise(
        empty
    )
    problems = F.concat(F.coalesce("problems", empty), disagrees)
    return rows.withColumns(
        {
            "source_events": events,
            "changed_columns": F.when(masked, F.col("changed_columns")).when(compared, differs),
            "change_source": F.when(masked, str(ChangeSource.MASK)).when(compared, str(ChangeSource.IMAGES)),
            "problems": F.when(F.size(problems) > 0, problems),
        }
    )


def _listed(columns: Column) -> Column:
    """The first names of a list, and how many others there are (:func:`cdcwb.formats.bitmask.disagreement`)."""
    more = F.concat(F.lit(" and "), (F.size(columns) - NAMED).cast("string"), F.lit(" more"))
    first = F.when(F.size(columns) == 0, "none").otherwise(F.array_join(F.slice(columns, 1, NAMED), ", "))
    return F.concat(first, F.when(F.size(columns) > NAMED, more).otherwise(""))
