"""Changes that take back earlier ones of their transaction: NonStop's UndoFlag (docs/formats/goldengate.md §6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from cdcwb.formats.goldengate.undo import FLAG, marks
from cdcwb.spark.pairing import table_label

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["mark"]

_MARKS: Final = pa.schema(
    [("_file_index", pa.int32()), ("_offset", pa.int64()), ("_mark", pa.string())],
)


def mark(changes: DataFrame, imaged: DataFrame) -> DataFrame:
    """Changes with the outcomes ``undo`` and ``undone``. ``imaged`` are the same changes with their images."""
    undoing = imaged.filter(F.col("headers")[FLAG] == "1").select("transaction_id").distinct()
    told = imaged.join(undoing, "transaction_id", "left_semi").select(
        "transaction_id",
        "file_index",
        "offset",
        "position",
        "operation",
        table_label().alias("table"),
        (F.col("headers")[FLAG] == "1").alias("undoes"),
        *(F.map_entries(name).alias(name) for name in ("key", "before", "after")),
    )
    found = told.groupBy("transaction_id").applyInArrow(_marks, from_arrow_schema(_MARKS))
    joined = changes.join(
        found, (F.col("file_index") == F.col("_file_index")) & (F.col("offset") == F.col("_offset")), "left"
    )
    return joined.withColumn("outcome", F.coalesce("_mark", "outcome")).select(*changes.columns)


def _marks(table: pa.Table) -> pa.Table:
    """The places and outcomes of one transaction's changes that are undone or undo others."""
    images = ("key", "before", "after")
    found = marks([row | {name: _image(row[name]) for name in images} for row in table.to_pylist()])
    places = [{"_file_index": file, "_offset": offset, "_mark": mark} for (file, offset), mark in found.items()]
    return pa.Table.from_pylist(places, schema=_MARKS)


def _image(entries: list[dict[str, Any]] | None) -> dict[str, str | None] | None:
    return None if entries is None else {entry["key"]: entry["value"] for entry in entries}
