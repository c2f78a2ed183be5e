"""Small answers of Spark as pandas frames, and the columns that questions share."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from cdcwb.index.selection import NO_TABLE
from cdcwb.time_axis import LEAST, TimeAxis, fences, time_of

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame

__all__ = ["NO_TABLE", "small", "table_name", "time_axis", "when"]


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


def time_axis(
    frame: DataFrame, *times: Column, first: datetime | None = None, last: datetime | None = None
) -> TimeAxis | None:
    """The axis for the ``times`` of a frame, which ``first`` and ``last`` bound, as far as that is known
    (:mod:`cdcwb.time_axis`); None where there are none.

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
