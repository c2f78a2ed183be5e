"""Changes made by hand as a Spark table, for questions that are asked of changes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb import model
from cdcwb.dataset import Rows, schema_of
from cdcwb.spark_rows import SparkRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["START", "Frames", "Tables", "at", "change", "frame", "tables", "version"]

START = datetime(2026, 3, 23, 10, 0, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """So many seconds after :data:`START`."""
    return START + timedelta(microseconds=round(seconds * 1e6))


def change(number: int, operation: str, table: str = "shop.orders", **facts: Any) -> dict[str, Any]:
    """A committed change at second ``number``, with the position ``number``; images and keys are dictionaries."""
    schema, _, name = table.rpartition(".")
    row = dict.fromkeys(model.CHANGES.names) | {
        "format": "gbase8s",
        "file": "capture.bin",
        "file_index": 0,
        "offset": number * 100,
        "length": 100,
        "kind": "change",
        "operation": operation,
        "position": f"{number:016X}",
        "commit_position": f"{number:016X}",
        "committed_at": at(number),
        "transaction_id": f"t{number}",
        "schema_name": schema or None,
        "table_name": name,
        "table_version": f"{table}@1",
        "outcome": "committed",
    }
    row |= facts
    for image in ("key", "before", "after", "headers"):
        row[image] = None if row[image] is None else list(row[image].items())
    return row


def version(table: str, number: int, columns: list[str] | list[dict[str, Any]], **facts: Any) -> dict[str, Any]:
    """A version of a table; columns are names, or what is known of each."""
    schema, _, name = table.rpartition(".")
    nothing = dict.fromkeys(("type", "length", "precision", "scale", "key_position", "nullable"))
    described = [one if isinstance(one, dict) else {"name": one} for one in columns]
    return (
        dict.fromkeys(model.TABLE_VERSIONS.names)
        | {
            "table_version": f"{table}@{number}",
            "schema_name": schema or None,
            "table_name": name,
            "columns": [nothing | {"ordinal": place} | one for place, one in enumerate(described, 1)],
            "origin": "record",
        }
        | facts
    )


class Tables:
    """Something that answers like a capture: the tables given, the others empty. Their rows are read in this process,
    two at a time, or by Spark if there is a session."""

    def __init__(self, spark: SparkSession | None = None, **rows: list[dict[str, Any]]) -> None:
        self.spark: Any = spark
        self.files: list[dict[str, Any]] = []
        schemas = {name: schema.remove_metadata() for name, schema in model.TABLES.items()}
        self._tables = {name: pa.Table.from_pylist(rows.get(name, []), schema) for name, schema in schemas.items()}

    def rows(self, table: str, columns: Sequence[str]) -> Rows:
        """See :meth:`cdcwb.Capture.rows`."""
        rows = self._tables[table].select(list(columns))
        local = Rows(lambda: iter(rows.to_batches(2)), rows.schema)
        return local if self.spark is None else SparkRows(local.to_frame(self.spark).repartition(3), rows.schema)


def frame(spark: SparkSession, folder: Path, table: str, rows: list[dict[str, Any]]) -> DataFrame:
    """A table of the model (:data:`cdcwb.model.TABLES`) with these rows."""
    place = folder / f"{table}.parquet"
    number = 1
    while place.exists():
        number += 1
        place = folder / f"{table}-{number}.parquet"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=model.TABLES[table]), place)
    return spark.read.parquet(str(place))


class Frames(SimpleNamespace):
    """Tables of a capture as frames of Spark, by name."""

    def rows(self, table: str, columns: Sequence[str]) -> SparkRows:
        """Some columns of a table, as of a capture."""
        frame = getattr(self, table, None)
        if frame is None:
            frame = getattr(self, {"events": "headers", "changes": "change_headers"}[table])
        return SparkRows(frame.select(*columns), schema_of(table, columns))


def tables(spark: SparkSession, folder: Path, **rows: list[dict[str, Any]]) -> Any:
    """Something that answers like a capture: the tables given, and the session; without transactions, an empty table
    of them."""
    made = {name: frame(spark, folder, name, these) for name, these in ({"transactions": []} | rows).items()}
    return Frames(spark=spark, **made)
