"""Parquet tables read without Spark, so that an aggregation of a small table needs no Spark job."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdcwb.errors import CaptureError
from cdcwb.model import TABLES, WHOLE, Completeness
from cdcwb.time_axis import micros

__all__ = ["Stored", "batches_of", "group_sizes", "joined", "read_rows"]

_BATCH: Final = 1 << 17
_FIRST: Final = micros(dt.datetime.min.replace(tzinfo=dt.UTC))
_LAST: Final = micros(dt.datetime.max.replace(tzinfo=dt.UTC))

Rows = Iterator[pa.RecordBatch]


def batches_of(
    file: pq.ParquetFile, columns: Sequence[str] | None = None, size: int = _BATCH, groups: Sequence[int] | None = None
) -> Rows:
    """The rows of a Parquet file (or of some row groups), or some columns of them, in batches of ``size`` rows. PyArrow
    before 20 fails for a file without row groups, which Spark writes for no rows."""
    if file.num_row_groups:
        names = None if columns is None else list(columns)
        yield from file.iter_batches(size, row_groups=None if groups is None else list(groups), columns=names)


def read_rows(path: Path, schema: pa.Schema, size: int = _BATCH, groups: Sequence[int] | None = None) -> Rows:
    """The rows of a Parquet file of a saved capture, or of some of its row groups, in batches of ``schema`` (fields of
    the model). A column that the file lacks is null.

    The file may come from anyone: types, texts and times are checked. Raises CaptureError if it cannot be read, has
    columns of other types, or times outside the years 1 to 9999.
    """
    # Spark's type of times is INT96
    with _readable(path), pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
        names = [name for name in schema.names if name in file.schema_arrow.names]
        for batch in batches_of(file, names, size, groups):
            columns = [_column(batch, field) for field in schema]
            rows = pa.RecordBatch.from_arrays(columns, names=schema.names)
            rows.validate(full=True)
            yield rows


def group_sizes(path: Path) -> list[int]:
    """The number of rows of each row group of a Parquet file. Raises CaptureError if it cannot be read."""
    with _readable(path):
        metadata = pq.read_metadata(path)
        return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError, OverflowError) as reason:
        text = str(reason).partition("\n")[0]
        raise CaptureError(f"not a table of a saved capture, or damaged ({text})", path=str(path)) from None


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    if field.name not in batch.schema.names:
        return pa.nulls(len(batch), field.type)
    column = batch[field.name].cast(field.type)
    if field.name == "completeness":  # captures of earlier versions have another name for complete
        return pc.replace_substring_regex(column, f"^{WHOLE}$", str(Completeness.COMPLETE))
    if pa.types.is_timestamp(field.type) and len(column) > column.null_count:
        least, most = pc.min_max(column.cast(pa.int64())).as_py().values()
        if least < _FIRST or most > _LAST:
            raise ValueError(f"{field.name} is outside the years 1 to 9999")
    return column


class Stored:
    """Some columns of a table of the model (a name of :data:`cdcwb.model.TABLES`) in a folder of Parquet files, in no
    particular order. A column that the files lack is null. Types are those of the model (:func:`read_rows`)."""

    def __init__(self, folder: Path, table: str, columns: Sequence[str]) -> None:
        self._files = sorted(folder.glob("*.parquet"))
        self.schema = pa.schema([TABLES[table].field(name).remove_metadata() for name in columns])

    def __len__(self) -> int:
        return sum(sum(group_sizes(path)) for path in self._files)

    def batches(self) -> Rows:
        """The rows, batch by batch."""
        for path in self._files:
            yield from read_rows(path, self.schema)

    def batch(self) -> pa.RecordBatch:
        """All rows in one table."""
        return joined([*self.batches()], self.schema)


def joined(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Several batches as one; without any, no rows of ``schema``."""
    combined = pa.Table.from_batches(batches).combine_chunks().to_batches() if batches else []
    return combined[0] if combined else pa.RecordBatch.from_pylist([], schema)
