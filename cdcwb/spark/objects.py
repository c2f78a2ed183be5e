"""Changes and repeated records of event logs, by object and record_id (docs/formats/idm-event-log.md §6.2, §6.4).

Rows of one statement have the same object, verb, perpetrator and time, consecutive record_ids, and a different column
each. Rows are sorted in slices, which are processed separately. A slice begins at a row that begins a statement; one
pass over all rows without images finds these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cdcwb.formats.changes import finished
from cdcwb.formats.findings import OF_EVENTS
from cdcwb.formats.idm_event_log.changes import OBJECT, TYPES, first_rows, joined_rows, repeated_rows
from cdcwb.formats.requests import problem_rows
from cdcwb.model import CHANGES, EVENTS, PROBLEMS, Kind
from cdcwb.spark.exchange import typed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["OF_RECORDS", "join_statements", "repeated_records"]

OF_RECORDS: Final = (*OF_EVENTS, "position")
"""The columns of events for :func:`repeated_records`."""

_RANGES: Final = 64  # slices by record id, if record ids do not ascend in capture order
_SLICES: Final = 512  # slices by file, if record ids ascend in capture order
_MARKS: Final = pa.schema([("_part", pa.int64()), ("_statement", pa.int64())])
_ROWS: Final = pa.schema([*(field for field in EVENTS if field.name != "raw"), *_MARKS])

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def join_statements(
    events: DataFrame, headers: DataFrame, keys: Mapping[str, Sequence[str]], facts: Mapping[str, Any]
) -> DataFrame:
    """One row for each change: rows for one column that are of one statement become one change, every other row is a
    change by itself.

    A change has the location, position, headers and key of its last row, the images of all, their columns in order and
    their problems; ``source_events`` has their locations in capture order. Rows whose object, column or record_id is
    unknown are never joined. ``headers`` are ``events`` without images, ``keys`` those of the option. ``facts`` are
    those of the plan: if ``behind`` is 0 (record ids never descend in capture order), slices are files, else ranges of
    record ids, which another pass over ``headers`` finds.
    """
    slices = _slices(_sliced(_rows(headers), headers, facts))
    rows = _sliced(_rows(events), headers, facts)
    same = (F.col("_file") == F.col("_of_file")) & (F.col("_slice") == F.col("_of_slice"))
    here = F.when(_order() >= F.col("_cut"), F.col("_number")).otherwise(F.col("_earlier"))
    nowhere = -1 - F.col("offset") % _RANGES
    parted = rows.join(F.broadcast(slices), same, "left").withColumn(
        "_part", F.when(F.col("_record").isNull(), nowhere).otherwise(here)
    )
    ordered = parted.repartition("_part").sortWithinPartitions("_part", "_record", "file_index", "offset")

    def join(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (finished(batch, keys, ()) for batch in _join(batches))

    return ordered.select(*_ROWS.names).mapInArrow(join, from_arrow_schema(CHANGES))


def _records(events: DataFrame) -> DataFrame:
    """Rows of the log, with their record_id as a number."""
    rows = events.filter(F.col("kind").isin(str(Kind.CHANGE), str(Kind.CONTROL)))
    return rows.withColumn("_record", F.col("position").try_cast("bigint"))


def _rows(events: DataFrame) -> DataFrame:
    """Rows of the log, with ``_statement``: the number of the statement; null for a row that is a statement by
    itself."""
    header = F.col("headers")
    joins = (
        F.col("record_type").isin(*TYPES)
        & (F.col("kind") == str(Kind.CHANGE))
        & F.col("position").isNotNull()
        & header["table_name"].isNotNull()
        & header["table_key"].isNotNull()
        & (F.size("changed_columns") == 1)
    )
    texts = [column for name in OBJECT for column in (header[name].isNull(), header[name])]  # a hash ignores nulls
    return _records(events).withColumn("_statement", F.when(joins, F.xxhash64("operation", *texts)))


def _order() -> Column:
    return F.struct("_record", "file_index", "offset")


def _sliced(rows: DataFrame, headers: DataFrame, facts: Mapping[str, Any]) -> DataFrame:
    """Adds ``_file`` and ``_slice``, which never descend in the order of rows; null without a record_id."""
    numbered = F.col("_record").isNotNull()
    if facts.get("behind") == 0:
        extent = max(int(facts.get("bytes") or 0), int(facts.get("records") or 0))
        of_file = F.floor(F.col("offset") / max(1, extent // _SLICES))
        return rows.withColumns({"_file": F.col("file_index"), "_slice": F.when(numbered, of_file)})
    points = [number / _RANGES for number in range(_RANGES)]
    bounds = _records(headers).agg(F.percentile_approx("_record", points, 10_000).alias("_bounds"))
    upto = F.size(F.filter("_bounds", lambda bound: bound <= F.col("_record"))).cast("bigint")
    ranged = rows.crossJoin(F.broadcast(bounds)).withColumns({"_file": F.lit(0), "_slice": F.when(numbered, upto)})
    return ranged.drop("_bounds")


def _slices(rows: DataFrame) -> DataFrame:
    """One row for each slice: ``_of_file``, ``_of_slice``, its ``_number`` in order, ``_cut``: its first row that
    begins a statement (null: none), and ``_earlier``: the number of the preceding slice that has such a row. Rows that
    precede ``_cut`` belong to that slice."""
    within = Window.partitionBy("_file", "_slice").orderBy(*("_record", "file_index", "offset"))
    begins = F.col("_statement").isNull() | ~F.col("_statement").eqNullSafe(F.lag("_statement").over(within))
    known = begins & (F.row_number().over(within) > 1)  # the row that precedes the first one is unknown
    marked = rows.filter(F.col("_record").isNotNull()).withColumn("_cuts", known)
    cuts = marked.groupBy("_file", "_slice").agg(F.min(F.when(F.col("_cuts"), _order())).alias("_cut"))
    through = Window.partitionBy(F.lit(0)).orderBy("_file", "_slice")  # a row for each slice: about a hundred
    before = through.rowsBetween(Window.unboundedPreceding, -1)
    numbered = cuts.withColumn("_number", F.row_number().over(through).cast("bigint"))
    return numbered.select(
        F.col("_file").alias("_of_file"),
        F.col("_slice").alias("_of_slice"),
        "_number",
        "_cut",
        F.coalesce(F.max(F.when(F.col("_cut").isNotNull(), F.col("_number"))).over(before), F.lit(0)).alias("_earlier"),
    )


def _join(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows in order, as changes. Rows that the next rows may continue are held back."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        (rows,) = pa.Table.from_batches([*held, batch]).combine_chunks().to_batches() or [batch]
        if not rows.num_rows:
            continue
        first = _firsts(rows)
        last = int(first[-1])
        held = [rows.slice(last)]
        if last:
            yield from joined_rows(rows.slice(0, last), first[:-1])
    for rows in held:
        yield from joined_rows(rows, np.zeros(1, dtype=np.int64))


def _firsts(rows: pa.RecordBatch) -> Ints:
    """Whether each row begins a statement."""
    statement = rows["_statement"]
    alone = statement.is_null().to_numpy(zero_copy_only=False)
    return first_rows(statement.fill_null(0).to_numpy(), alone, _columns(rows, alone), rows["_part"].to_numpy())


def _columns(rows: pa.RecordBatch, alone: Bools) -> Ints:
    """A number for the column of each row, -1 for rows that are a statement by themselves."""
    lists = rows["changed_columns"]
    offsets = lists.offsets.to_numpy()[:-1][~alone]
    names = lists.values.take(pa.array(offsets)).dictionary_encode().indices
    codes = np.full(rows.num_rows, -1, dtype=np.int64)
    codes[~alone] = names.to_numpy()
    return codes


def repeated_records(events: DataFrame) -> DataFrame:
    """The rows whose record_id an earlier row of the capture has, as ``problems``. Without the bytes no row counts as a
    duplicate."""
    schema, same = pa.schema(map(EVENTS.field, OF_RECORDS)), Window.partitionBy("position")
    rows = _records(events).filter(F.col("_record").isNotNull())
    several = rows.withColumn("_rows", F.count(F.lit(1)).over(same)).filter("_rows > 1").select(*OF_RECORDS)
    ordered = several.repartition("position").sortWithinPartitions("position", "file_index", "offset")

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(problem_rows, repeated_rows(typed(batches, schema)))

    return ordered.mapInArrow(work, from_arrow_schema(PROBLEMS))
