"""Replay: the rows of a table at a position or time, from the changes that were committed by then.

Changes count in commit order. An image may have only some columns; the others keep their values. So the value of a
column is the last one written since the row was inserted, under any key that it had.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from cdcwb.errors import OptionError
from cdcwb.model import Operation
from cdcwb.spark.known import Known, committed, find_table, former_key, known_tables, latter_key, moved
from cdcwb.spark.names import table_label

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["check_keyed", "growth", "rows_at", "state"]

_STARTS: Final = (str(Operation.INSERT), str(Operation.REFRESH))
_DELETE, _UPDATE, _TRUNCATE = str(Operation.DELETE), str(Operation.UPDATE), str(Operation.TRUNCATE)
_MAP: Final = "map<string,string>"
_PLACE: Final = "struct<commit:string,position:string,file_index:int,offset:bigint>"
_MOST_MOVES: Final = 10_000  # most key updates over which rows are followed; with more, each begins a new row

Order = tuple[Any, ...]


def state(
    changes: DataFrame,
    versions: DataFrame,
    table: str,
    position: str | None = None,
    time: dt.datetime | None = None,
) -> DataFrame:
    """The rows of ``table`` (``schema.table``, or ``table``) after all changes that were committed at or before
    ``position`` (a log position) and ``time`` (aware); None: to the end of the capture.

    Columns: ``key`` and ``row`` (maps of text; a column that is not in ``row`` is unknown), ``partial`` (the capture
    has neither the row's insert nor all of its columns), ``changes`` (their number), ``table_version`` of the newest,
    ``position``, ``commit_position`` and ``committed_at`` of the last. A full load and an event log have no commits:
    their rows are applied in the order of their positions, those without a position first. Rolled back, undone and open
    changes do not count.

    Raises OptionError for a table without changes or whose changes all lack a key.
    """
    known = find_table(known_tables(changes), table)
    check_keyed(known)
    return rows_at(changes, versions, known, position, time)


def check_keyed(known: Known) -> None:
    """Raises OptionError for a table of which no change has a key."""
    if not known.keyed:
        option = f"keys={known.table}:c1+c2"
        raise OptionError(f"no change of {known.table!r} has a key; name its columns with the option {option}")


def rows_at(
    changes: DataFrame,
    versions: DataFrame,
    known: Known,
    position: str | None = None,
    time: dt.datetime | None = None,
) -> DataFrame:
    """:func:`state` of a table that is known to have changes with keys."""
    counting = _counting(changes, known, position, time)
    pieces = _pieces(counting, known)
    if known.truncates:
        emptied = counting.filter(F.col("operation") == _TRUNCATE).agg(F.max("_order").alias("_emptied"))
        joined = pieces.join(F.broadcast(emptied))
        pieces = joined.filter(F.col("_emptied").isNull() | (F.col("_order") > F.col("_emptied")))
    return _merged(_since_begin(pieces), versions, known.table)


def growth(
    changes: DataFrame,
    known: Known,
    first: dt.datetime,
    width_us: int,
    position: str | None = None,
    time: dt.datetime | None = None,
) -> list[tuple[dt.datetime | None, int]]:
    """The number of rows of a table at the end of each time bin of ``width_us`` microseconds, from ``first`` (aware):
    the end of the bin and the number, for bins in which it changed. The first item (None) is the number from changes
    without a time. The last number is that of :func:`rows_at` with the same arguments.
    """
    counting = _counting(changes, known, position, time)
    at = F.coalesce("committed_at", "changed_at")
    number = F.floor((F.unix_micros(at) - F.unix_micros(F.lit(first))) / width_us).cast("bigint")
    ends: list[tuple[Order, int | None]] = []
    if known.truncates:
        emptied = counting.filter(F.col("operation") == _TRUNCATE).select("_order", number.alias("bin"))
        ends = [(tuple(row["_order"]), row["bin"]) for row in emptied.orderBy("_order").collect()]
    epoch = F.lit(0)
    for order, _ in ends:
        epoch = epoch + F.when(F.col("_order") > _literal(order), 1).otherwise(0)
    pieces = _pieces(counting.withColumn("_bin", number), known, "_bin").withColumn("_epoch", epoch)
    life = Window.partitionBy("_key", "_epoch").orderBy("_order")
    lives = (~F.col("_gone")).cast("int")
    steps = pieces.withColumn("_step", lives - F.coalesce(F.lag(lives).over(life), F.lit(0)))
    rows = steps.groupBy("_epoch", "_bin").agg(F.sum("_step").alias("step")).filter("step <> 0").collect()
    return _summed([(row["_epoch"], row["_bin"], row["step"]) for row in rows], ends, first, width_us)


def _summed(
    steps: Iterable[tuple[int, int | None, int]],
    ends: list[tuple[Order, int | None]],
    first: dt.datetime,
    width_us: int,
) -> list[tuple[dt.datetime | None, int]]:
    """The cumulative steps of each epoch (the changes between two TRUNCATEs) by time bin; a TRUNCATE removes all rows
    of its epoch."""
    by_span: dict[int, int] = {}
    totals: dict[int, int] = {}
    for epoch, span, step in steps:
        by_span[-1 if span is None else span] = by_span.get(-1 if span is None else span, 0) + step
        totals[epoch] = totals.get(epoch, 0) + step
    for epoch, (_, span) in enumerate(ends):
        by_span[-1 if span is None else span] = by_span.get(-1 if span is None else span, 0) - totals.get(epoch, 0)
    total, by_end = 0, []
    for span, step in sorted(by_span.items()):
        total += step
        end = None if span < 0 else first + (span + 1) * dt.timedelta(microseconds=width_us)
        by_end.append((end, total))
    return by_end


def _counting(changes: DataFrame, known: Known, position: str | None, time: dt.datetime | None) -> DataFrame:
    """The changes of a table that were committed by then, with their index in commit order."""
    counts = committed()
    if position is not None:
        counts = counts & (F.coalesce("commit_position", "position", F.lit("")) <= position)
    if time is not None:
        at = F.coalesce("committed_at", "changed_at")
        counts = counts & (at.isNull() | (at <= F.lit(time)))
    names = (F.coalesce("commit_position", "position").alias("commit"), "position", "file_index", "offset")
    return changes.filter((table_label() == known.table) & counts).withColumn("_order", F.struct(*names))


def _identity(key: Column) -> Column:
    return F.to_json(F.array_sort(F.map_entries(key)), {"ignoreNullFields": "false"})


def _pieces(changes: DataFrame, known: Known, *more: str) -> DataFrame:
    """The changes with ``_key``, the last key of the row that they change."""
    rows = changes.filter(F.col("key").isNotNull())
    names = F.map_keys("key")
    keys = [F.map_from_arrays(names, values) for values in (former_key(), latter_key())]
    rows = rows.withColumns({"_moved": moved(), "_former": keys[0], "_latter": keys[1]})
    followed = known.moves <= _MOST_MOVES
    part = F.lit("whole")
    if known.moves:
        parts = F.array(F.lit("come")) if followed else F.array(F.lit("gone"), F.lit("come"))
        part = F.explode(F.when(F.col("_moved"), parts).otherwise(F.array(F.lit("whole"))))
    split = rows.withColumn("_part", part)
    gone = (F.col("operation") == _DELETE) | (F.col("_part") == "gone")
    before = F.coalesce("before", F.create_map().cast(_MAP))
    after = F.coalesce("after", F.create_map().cast(_MAP))
    # a column that only the before image has was not changed by the update
    filled = F.map_concat(F.map_filter(before, lambda name, _: ~F.map_contains_key(after, name)), after)
    unmoved = split.select(
        F.when(F.col("_part") == "come", F.col("_latter")).otherwise(F.col("_former")).alias("key"),
        "_order",
        gone.alias("_gone"),
        (F.col("operation").isin(*_STARTS) & (F.col("_part") == "whole")).alias("_starts"),
        F.when(~gone, F.when(F.col("operation") == _UPDATE, filled).otherwise(after)).alias("_image"),
        *("table_version", "position", "commit_position", "committed_at", *more),
    ).withColumn("_key", _identity(F.col("key")))
    return _followed(unmoved, rows) if known.moves and followed else unmoved


def _followed(pieces: DataFrame, rows: DataFrame) -> DataFrame:
    """The parts of rows whose key was changed, under the last key of the row. A row under a key that another row moved
    to is replaced."""
    moves = rows.filter("_moved").select("_order", _identity(F.col("_former")), _identity(F.col("_latter"))).collect()
    legs = _legs([(tuple(order), former, latter) for order, former, latter in moves])
    if not legs:
        return pieces
    schema = f"_leg string, _from {_PLACE}, _to {_PLACE}, _final string"
    known = F.broadcast(pieces.sparkSession.createDataFrame(legs, schema))
    here = (
        (F.col("_key") == F.col("_leg"))
        & (F.col("_from").isNull() | (F.col("_order") >= F.col("_from")))
        & (F.col("_order") < F.col("_to"))
    )
    joined = pieces.join(known, here, "left").filter(F.col("_leg").isNull() | F.col("_final").isNotNull())
    return joined.withColumn("_key", F.coalesce("_final", "_key")).drop("_leg", "_from", "_to", "_final")


def _legs(moves: list[tuple[Order, str, str]]) -> list[tuple[str, Order | None, Order, str | None]]:
    """For each key that rows moved from or to, between every two such moves: from (included, None: the beginning), to
    (excluded), and the last key of the row that had the key then; None: it was replaced."""
    moves = sorted(moves, key=lambda move: _sortable(move[0]))
    events: dict[
        str, list[tuple[Order, int | None]]
    ] = {}  # by key: when, and the move away from it (None: a move to it)
    for number, (order, former, latter) in enumerate(moves):
        events.setdefault(former, []).append((order, number))
        events.setdefault(latter, []).append((order, None))
    final: dict[int, str | None] = {}
    coming: dict[str, int | None] = {}  # the next event of each key: the move away from it (None: a move to it)
    for number in range(len(moves) - 1, -1, -1):
        _, former, latter = moves[number]
        if latter in coming:
            leaving = coming[latter]
            final[number] = None if leaving is None else final[leaving]
        else:
            final[number] = latter
        coming |= {latter: None, former: number}
    legs: list[tuple[str, Order | None, Order, str | None]] = []
    for key, moves_of_key in events.items():
        begins: list[Order | None] = [None, *(order for order, _ in moves_of_key)]
        for begin, (order, leaving) in zip(begins, moves_of_key, strict=False):
            legs.append((key, begin, order, None if leaving is None else final[leaving]))
    return legs


def _sortable(order: Order) -> Order:
    """Positions in Spark's order: null first."""
    return tuple((value is not None, "" if value is None else value) for value in order)


def _literal(order: Order) -> Column:
    names, types = ("commit", "position", "file_index", "offset"), ("string", "string", "int", "bigint")
    return F.struct(*[F.lit(v).cast(t).alias(n) for n, v, t in zip(names, order, types, strict=True)])


def _since_begin(pieces: DataFrame) -> DataFrame:
    """The parts since the last insert of each row that follow its last delete."""
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
    known = (
        versions.filter(table_label() == table)
        .select(
            F.col("table_version").alias("_version"),
            F.transform("columns", lambda column: column["name"]).alias("_columns"),
        )
        .dropDuplicates(["_version"])
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
