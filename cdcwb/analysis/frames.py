"""Small answers of Spark as pandas frames, and the columns that questions share."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import pandas as pd
from pyspark.sql import functions as F

from cdcwb.time_axis import LEAST, TimeAxis, fences

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["NO_TABLE", "small", "table_name", "time_axis", "when"]

NO_TABLE = "(no table)"


def small(frame: DataFrame) -> pd.DataFrame:
    """A small answer, with Arrow types. ``toPandas`` would turn a 64-bit number with a null among its neighbours into a
    float."""
    return frame.toArrow().to_pandas(types_mapper=pd.ArrowDtype)


def table_name() -> Column:
    """``schema.table``, or ``table`` where there is no schema; :data:`NO_TABLE` where there is neither."""
    return F.coalesce(F.nullif(F.concat_ws(".", "schema_name", "table_name"), F.lit("")), F.lit(NO_TABLE))


def when() -> Column:
    """The best time of a change: its own, else that of its commit; null where neither is known."""
    return F.coalesce("changed_at", "committed_at")


def time_axis(frame: DataFrame, *times: Column, first: datetime, last: datetime) -> TimeAxis:
    """The axis for the ``times`` of a frame, which ``first`` and ``last`` bound (:mod:`cdcwb.time_axis`).

    No Spark job where they span at most :data:`~cdcwb.time_axis.LEAST`, two where some are outside, else one."""
    if last - first <= LEAST:
        return TimeAxis(first, last)
    known = frame.select(F.explode(F.array(*times)).alias("_time")).where("_time IS NOT NULL")
    at = F.unix_micros("_time")
    quartiles = F.percentile_approx(at, [0.25, 0.75], 10_000)
    row = known.agg(quartiles.alias("quartiles"), F.min(at).alias("least"), F.max(at).alias("most")).collect()[0]
    found = None if row.quartiles is None else fences(row.quartiles[0], row.quartiles[1], row.least, row.most)
    if found is None:
        return TimeAxis(first, last)
    low, high = found
    inside = F.when(at.between(low, high), F.col("_time"))
    counted = known.agg(
        F.min(inside).alias("first"),
        F.max(inside).alias("last"),
        F.count_if(at < low).alias("before"),
        F.count_if(at > high).alias("after"),
    )
    return TimeAxis(**counted.toArrow().to_pylist()[0])
