"""Small answers of Spark as pandas frames, and the columns that questions share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["NO_TABLE", "small", "table_name", "when"]

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
