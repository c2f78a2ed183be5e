"""Comparing a Spark table with the truth beside a generated capture, row for row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb import model

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["assert_same_rows", "truth_frame"]

_KEYS = {
    "changes": ("file_index", "offset", "record_type"),
    "transactions": ("transaction_id",),
    "table_versions": ("table_version",),
}


def truth_frame(like: DataFrame, folder: Path, table: str) -> DataFrame:
    """A table of ``DIR/truth`` as a DataFrame, with the model's types."""
    return like.sparkSession.read.schema(like.schema).parquet(str(folder / "truth" / f"{table}.parquet"))


def assert_same_rows(found: DataFrame, folder: Path, table: str) -> int:
    """Holds that a table equals the truth, row for row and column for column; returns the number of rows.

    ``file`` is compared by name, since the truth knows no folders. A difference is shown side by side, the first ones.
    """
    from pyspark.sql import functions as F

    keys = _KEYS[table]
    truth = truth_frame(found, folder, table)
    if "file" in found.columns:
        found = found.withColumn("file", F.element_at(F.split("file", "/"), -1))
        truth = truth.withColumn("file", F.element_at(F.split("file", "/"), -1))

    def comparable(frame: DataFrame, prefix: str) -> DataFrame:
        columns = [F.col(key).alias(f"{prefix}_{key}") for key in keys]
        texts = [_text(frame, name).alias(f"{prefix}.{name}") for name in frame.columns]
        return frame.select(*columns, F.array(*texts).alias(prefix))

    left, right = comparable(found, "found"), comparable(truth, "truth")
    same_key = [F.col(f"found_{key}").eqNullSafe(F.col(f"truth_{key}")) for key in keys]
    joined = left.join(right, same_key, "full")
    counts = joined.agg(
        F.count("found"), F.count("truth"), F.count(F.when(~F.col("found").eqNullSafe(F.col("truth")), 1))
    ).first()
    if counts[2] or counts[0] != counts[1]:
        rows = joined.filter(~F.col("found").eqNullSafe(F.col("truth"))).limit(3).collect()
        names = found.columns
        shown = []
        for row in rows:
            if row.found is None or row.truth is None:
                shown.append(f"only {'in the truth' if row.found is None else 'found'}: {row.found or row.truth}")
                continue
            shown += [
                f"{name}:\n    found {a}\n    truth {b}"
                for name, a, b in zip(names, row.found, row.truth, strict=True)
                if a != b
            ]
        raise AssertionError(
            f"{table}: {counts[0]} found, {counts[1]} in the truth, {counts[2]} differ\n" + "\n".join(shown)
        )
    return int(counts[0])


def _text(frame: DataFrame, name: str) -> object:
    """A column as text that two equal values share: maps by sorted entries, everything else as JSON."""
    from pyspark.sql import functions as F

    kind = frame.schema[name].dataType.typeName()
    column = F.col(name)
    if kind == "map":
        entries = F.array_sort(F.map_entries(column))
        return F.to_json(
            F.transform(entries, lambda one: F.array(one["key"].cast("string"), one["value"].cast("string")))
        )
    if kind in ("array", "struct"):
        return F.to_json(column, {"ignoreNullFields": "false"})
    return column.cast("string")


def conforms(frame: DataFrame, table: str) -> bool:
    """Does the frame have exactly the model's columns and types?"""
    from pyspark.sql.pandas.types import from_arrow_schema

    wanted = from_arrow_schema(model.TABLES[table])
    return [(f.name, f.dataType) for f in frame.schema.fields] == [(f.name, f.dataType) for f in wanted.fields]


def labels_of(folder: Path) -> dict[str, str]:
    """The label map that the generator wrote beside a capture."""
    loaded: dict[str, str] = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
    return loaded


def truth_table(folder: Path, table: str) -> pa.Table:
    """A table of the truth as Arrow."""
    return pq.read_table(folder / "truth" / f"{table}.parquet")
