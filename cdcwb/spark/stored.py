"""Parquet tables read without Spark, so that an aggregation of a small table needs no Spark job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdcwb.model import TABLES, WHOLE, Completeness

__all__ = ["Stored", "batches_of", "joined"]

_BATCH: Final = 1 << 17


def batches_of(
    file: pq.ParquetFile, columns: Sequence[str] | None = None, size: int = _BATCH
) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file, or some columns of them, in batches of ``size`` rows. PyArrow before 20 fails for a
    file without row groups, which Spark writes for no rows."""
    if file.num_row_groups:
        yield from file.iter_batches(size, columns=None if columns is None else list(columns))


class Stored:
    """Some columns of a table of the model (a name of :data:`cdcwb.model.TABLES`) in a folder of Parquet files, in no
    particular order. A column that the files lack is null. Texts, numbers and times have the types of the model."""

    def __init__(self, folder: Path, table: str, columns: Sequence[str]) -> None:
        self._files = sorted(folder.glob("*.parquet"))
        self.schema = pa.schema([TABLES[table].field(name).remove_metadata() for name in columns])

    def __len__(self) -> int:
        return sum(pq.read_metadata(path).num_rows for path in self._files)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch."""
        for path in self._files:
            with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:  # the type of times that Spark writes
                names = [name for name in self.schema.names if name in file.schema_arrow.names]
                for batch in batches_of(file, names):
                    columns = [self._column(batch, field) for field in self.schema]
                    yield pa.RecordBatch.from_arrays(columns, names=self.schema.names)

    def batch(self) -> pa.RecordBatch:
        """All rows in one table."""
        return joined([*self.batches()], self.schema)

    @staticmethod
    def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        if field.name not in batch.schema.names:
            return pa.nulls(len(batch), field.type)
        column = batch[field.name]
        if field.name == "completeness":  # captures of earlier versions have another name for complete
            return pc.replace_substring_regex(column, f"^{WHOLE}$", str(Completeness.COMPLETE))
        return column if pa.types.is_nested(field.type) else column.cast(field.type)


def joined(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Several batches as one; without any, no rows of ``schema``."""
    combined = pa.Table.from_batches(batches).combine_chunks().to_batches() if batches else []
    return combined[0] if combined else pa.RecordBatch.from_pylist([], schema)
