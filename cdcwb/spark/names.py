"""Names of tables and files in DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdcwb.standard_input import NAME, spool_path

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["table_label", "with_names"]


def table_label(schema: str = "schema_name", table: str = "table_name") -> Column:
    """``schema.table``, or ``table`` without a schema; null without a table."""
    from pyspark.sql import functions as F

    name = F.col(table)
    return F.when(F.col(schema).isNull(), name).otherwise(F.concat(F.col(schema), F.lit("."), name))


def with_names(frame: DataFrame) -> DataFrame:
    """The rows with :data:`cdcwb.standard_input.NAME` instead of the path of its temporary file, in every text
    column; the rows themselves where standard input is not read."""
    from pyspark.sql import functions as F

    path = spool_path()
    if path is None:
        return frame
    texts = [field.name for field in frame.schema if field.dataType.typeName() == "string"]
    return frame.withColumns({name: F.replace(F.col(name), F.lit(path), F.lit(NAME)) for name in texts})
