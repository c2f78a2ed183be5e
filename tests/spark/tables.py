"""Comparing tables with the truth beside a generated capture, row for row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import cdcwb
from cdcwb import model
from cdcwb.opening import open_small

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["assert_same_rows", "assert_truth", "conforms", "plain_rows", "truth_table"]

_KEYS = {
    "changes": ("file_index", "offset", "record_type"),
    "transactions": ("transaction_id",),
    "table_versions": ("table_version",),
}


def assert_truth(
    folder: Path, format: str = "auto", unknown: Sequence[str] = (), **options: Any
) -> tuple[int, set[str]]:
    """Holds that a generated capture has the changes, transactions and table versions of its truth, which does not know
    some columns of the versions; returns the number of changes, and the codes of problems.

    Spark reads a capture with ``split_size``, and what only Spark puts together. The readers make the tables of the
    others, because these are the same and come sooner (test_small.py).
    """
    path = folder / "capture"
    small = None if "split_size" in options else open_small(path, format, options)
    table = small.table if small else partial(getattr, cdcwb.load(path, format, **options))
    changes = assert_same_rows(table("changes"), folder, "changes", ["problems"])
    assert_same_rows(table("transactions"), folder, "transactions")
    assert_same_rows(table("table_versions"), folder, "table_versions", unknown)
    codes = table("problems").select(["code"])
    return changes, set((codes if small else codes.toArrow())["code"].to_pylist())


def assert_same_rows(found: DataFrame | pa.Table, folder: Path, table: str, but: Sequence[str] = ()) -> int:
    """Holds that a table equals the truth, row for row and column for column; returns the number of rows.

    The columns ``but`` are not compared, and ``file`` by name, since the truth knows no folders. The first row that
    differs is shown.
    """
    schema = pa.schema([model.TABLES[table].field(name) for name in found.schema.names if name not in but])
    if isinstance(found, pa.Table):
        mine = found.select(schema.names)
    else:
        with TemporaryDirectory() as stored:  # the driver takes no more than a gigabyte at once
            found.select(schema.names).write.mode("overwrite").parquet(stored)
            mine = pq.read_table(stored, coerce_int96_timestamp_unit="us").select(schema.names).cast(schema)
    sides = [one.sort_by([(key, "ascending") for key in _KEYS[table]]) for one in (mine, truth_table(folder, table))]
    for number, (row, true) in enumerate(
        zip_longest(*(plain_rows(one.select(schema.names)) for one in sides), fillvalue={})
    ):
        shown = "\n".join(
            f"{name}:\n    found {row.get(name)}\n    truth {true.get(name)}"
            for name in schema.names
            if (row.keys(), row.get(name)) != (true.keys(), true.get(name))
        )
        counts = f"{sides[0].num_rows} found, {sides[1].num_rows} in the truth"
        assert not shown, f"{table}: {counts}; row {number}:\n{shown}"
    return int(mine.num_rows)


def plain_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows of a table; the entries of maps are sorted."""
    maps = [field.name for field in table.schema if pa.types.is_map(field.type)]
    for batch in table.to_batches(max_chunksize=10_000):
        for row in batch.to_pylist():
            row |= {name: sorted(row[name], key=repr) for name in maps if row[name] is not None}
            if row.get("file"):
                row["file"] = Path(row["file"]).name
            yield row


def conforms(frame: DataFrame, table: str) -> bool:
    """Does the frame have exactly the model's columns and types?"""
    from pyspark.sql.pandas.types import from_arrow_schema

    wanted = from_arrow_schema(model.TABLES[table])
    return [(f.name, f.dataType) for f in frame.schema.fields] == [(f.name, f.dataType) for f in wanted.fields]


def truth_table(folder: Path, table: str) -> pa.Table:
    """A table of the truth as Arrow."""
    return pq.read_table(folder / "truth" / f"{table}.parquet")
