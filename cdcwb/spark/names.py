"""Names of tables and files in DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["table_label"]


def table_label(schema: str = "schema_name", table: str = "table_name") -> Column:
    """``schema.table``, or ``table`` without a schema; null without a table."""
    from pyspark.sql import functions as F

    name = F.col(table)
    return F.when(F.col(schema).isNull(), name).otherwise(F.concat(F.col(schema), F.lit("."), name))
