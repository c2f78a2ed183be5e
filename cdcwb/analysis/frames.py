"""The rows that questions are asked of, small answers of Spark as pandas frames, and columns that questions share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from pyspark.sql import functions as F

from cdcwb.analysis.snapshot import Snapshot
from cdcwb.index.bins import BINNED_ABOVE
from cdcwb.index.columns import NO_TIME
from cdcwb.index.headers import Ints
from cdcwb.index.selection import NO_TABLE
from cdcwb.spark.stored import Stored
from cdcwb.time_axis import LEAST, TimeAxis, axis_of, fences, time_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

__all__ = ["NO_TABLE", "rows_of", "small", "stored_axis", "stored_rows", "table_name", "time_axis", "when"]


class Tables(Protocol):
    """What questions are asked of: the tables of a capture (:mod:`cdcwb.model`), and those with fewer columns."""

    @property
    def format(self) -> str: ...
    @property
    def events(self) -> DataFrame: ...
    @property
    def headers(self) -> DataFrame: ...
    @property
    def changes(self) -> DataFrame: ...
    @property
    def change_headers(self) -> DataFrame: ...
    @property
    def transactions(self) -> DataFrame: ...
    @property
    def table_versions(self) -> DataFrame: ...
    @property
    def problems(self) -> DataFrame: ...


def stored_rows(capture: Any, table: str, columns: Sequence[str], most: int = BINNED_ABOVE) -> Stored | None:
    """Some columns of a table of a capture (a name of :data:`cdcwb.model.TABLES`), where its rows are stored and at
    most so many that they are read without Spark; else None."""
    folder = capture.stored_in(table) if isinstance(capture, Snapshot) else None
    rows = None if folder is None else Stored(folder, table, columns)
    return rows if rows is not None and len(rows) <= most else None


def rows_of(capture: Any, table: str, columns: Sequence[str]) -> DataFrame | Stored:
    """The same, and with Spark where they are not stored, or too many."""
    rows = stored_rows(capture, table, columns)
    return getattr(capture, table).select(*columns) if rows is None else rows


def small(frame: DataFrame) -> pd.DataFrame:
    """A small answer, with Arrow types. ``toPandas`` would turn a 64-bit number with a null among its neighbours into a
    float."""
    import pandas as pd  # tasks of Spark have no use for it

    return frame.toArrow().to_pandas(types_mapper=pd.ArrowDtype)


def table_name() -> Column:
    """``schema.table``, or ``table`` where there is no schema; :data:`NO_TABLE` where there is neither."""
    return F.coalesce(F.nullif(F.concat_ws(".", "schema_name", "table_name"), F.lit("")), F.lit(NO_TABLE))


def when() -> Column:
    """The best time of a change: its own, else that of its commit; null where neither is known."""
    return F.coalesce("changed_at", "committed_at")


def stored_axis(
    rows: Stored,
    times: Callable[[pa.RecordBatch], Ints],
    first: datetime | None = None,
    last: datetime | None = None,
) -> TimeAxis | None:
    """The axis for the ``times`` of batches of rows, in microseconds since 1970 UTC, which ``first`` and ``last``
    bound, as far as that is known (:mod:`cdcwb.time_axis`); None where there are none."""
    if first is not None and last is not None and last - first <= LEAST:
        return TimeAxis(first, last)
    at = np.concatenate([np.zeros(0, np.int64), *map(times, rows.batches())])
    found = axis_of(at[at != NO_TIME])
    return found if found is None or found.outside else TimeAxis(first or found.first, last or found.last)


def time_axis(
    frame: DataFrame, *times: Column, first: datetime | None = None, last: datetime | None = None
) -> TimeAxis | None:
    """The same for the ``times`` of a frame.

    No Spark job where these span at most :data:`~cdcwb.time_axis.LEAST`, two where times are outside, else one."""
    if first is not None and last is not None and last - first <= LEAST:
        return TimeAxis(first, last)
    known = frame.select(F.explode(F.array(*times)).alias("_time")).where("_time IS NOT NULL")
    at = F.unix_micros("_time")
    quartiles = F.percentile_approx(at, [0.25, 0.75], 10_000)
    row = known.agg(quartiles.alias("quartiles"), F.min(at).alias("least"), F.max(at).alias("most")).collect()[0]
    if row.quartiles is None:
        return None
    found = fences(row.quartiles[0], row.quartiles[1], row.least, row.most)
    if found is None:
        return TimeAxis(first or time_of(row.least), last or time_of(row.most))
    low, high = found
    inside = F.when(at.between(low, high), F.col("_time"))
    counted = known.agg(
        F.min(inside).alias("first"),
        F.max(inside).alias("last"),
        F.count_if(at < low).alias("before"),
        F.count_if(at > high).alias("after"),
    )
    return TimeAxis(**counted.toArrow().to_pylist()[0])
