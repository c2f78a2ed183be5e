"""Parquet tables read without Spark, so that an aggregation of a small table needs no Spark job."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdcwb.dataset import Batches, Rows, schema_of
from cdcwb.errors import CaptureError
from cdcwb.model import TABLES, WHOLE, Completeness, Severity
from cdcwb.times import micros

_BATCH: Final = 1 << 17
_REQUIRED: Final = {
    "events": ("file", "file_index", "offset", "length", "kind"),
    "changes": ("file_index", "offset", "operation"),
    "transactions": ("transaction_id", "outcome", "completeness"),
    "table_versions": ("table_version", "table_name", "columns"),
    "problems": ("severity", "code", "sentence"),
    "detected": ("scope", "setting", "value", "evidence", "overridden"),
}
_FIRST: Final = micros(dt.datetime.min.replace(tzinfo=dt.UTC))
_LAST: Final = micros(dt.datetime.max.replace(tzinfo=dt.UTC))


def batches_of(
    file: pq.ParquetFile, columns: Sequence[str] | None = None, size: int = _BATCH, groups: Sequence[int] | None = None
) -> Batches:
    """The rows of a Parquet file (or of some row groups), or some columns of them, in batches of ``size`` rows. PyArrow
    before 20 fails for a file without row groups, which Spark writes for no rows."""
    if file.num_row_groups:
        names = None if columns is None else list(columns)
        yield from file.iter_batches(size, row_groups=None if groups is None else list(groups), columns=names)


def read_rows(
    path: Path,
    schema: pa.Schema,
    size: int = _BATCH,
    groups: Sequence[int] | None = None,
    required: Sequence[str] = (),
) -> Batches:
    """The rows of a Parquet file of a saved capture, or of some of its row groups, in batches of ``schema`` (fields of
    the model). A column that the file lacks is null.

    The file may come from anyone: types, texts and times are checked. Raises CaptureError if it cannot be read, has
    columns of other types, nulls in columns that are ``required``, or times outside the years 1 to 9999.
    """
    # Spark's type of times is INT96
    with _readable(path), pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
        names = [name for name in schema.names if name in file.schema_arrow.names]
        for batch in batches_of(file, names, size, groups):
            columns = [_column(batch, field) for field in schema]
            for field, column in zip(schema, columns, strict=True):
                if field.name in required and column.null_count:
                    raise ValueError(f"{field.name} is null")
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
    if field.name == "severity" and not pc.all(pc.is_in(column, pa.array(list(map(str, Severity))))).as_py():
        raise ValueError(f"expected a severity of {', '.join(Severity)}")
    if field.name == "completeness":  # captures of earlier versions have another name for complete
        return pc.replace_substring_regex(column, f"^{WHOLE}$", str(Completeness.COMPLETE))
    if pa.types.is_list(field.type) and pa.types.is_struct(field.type.value_type):
        elements = pc.list_flatten(column)
        names = [part.name for part in field.type.value_type if part.name in ("name", "code")]
        if elements.null_count or any(pc.struct_field(elements, name).null_count for name in names):
            raise ValueError(f"{field.name} has an element that is null, or without a name")
    if pa.types.is_timestamp(field.type) and len(column) > column.null_count:
        least, most = pc.min_max(column.cast(pa.int64())).as_py().values()
        if least < _FIRST or most > _LAST:
            raise ValueError(f"{field.name} is outside the years 1 to 9999")
    return column


def check_tables(folder: Path) -> None:
    """Raises CaptureError unless every table of the saved capture in a folder is there, with columns that can be those
    of the model."""
    for table, schema in TABLES.items():
        files = sorted((folder / table).glob("*.parquet"))
        if not files:
            raise CaptureError(f"the saved capture is incomplete: it has no table {table}", path=str(folder))
        for path in files:
            with _readable(path):
                columns = pq.read_schema(path)
                for name in {*columns.names} & {*schema.names}:
                    if _kind(columns.field(name).type) != _kind(schema.field(name).type):
                        raise TypeError(f"{name} is {columns.field(name).type}")
                if lacking := [name for name in _REQUIRED[table] if name not in columns.names]:
                    raise LookupError(f"no column {lacking[0]}")


def _kind(kind: pa.DataType) -> Any:
    """A type without what writers of Parquet choose: units of time, names of elements, sizes of offsets."""
    if pa.types.is_struct(kind):
        return {field.name: _kind(field.type) for field in kind}
    if pa.types.is_map(kind):
        return [_kind(kind.key_type), _kind(kind.item_type)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_kind(kind.value_type)]
    if pa.types.is_timestamp(kind):
        return "timestamp"
    return str(kind).removeprefix("large_")


class Stored(Rows):
    """Some columns of a table of the model (a name of :data:`cdcwb.model.TABLES`) in a folder of Parquet files, in no
    particular order. A column that the files lack is null. Types are those of the model (:func:`read_rows`)."""

    def __init__(self, folder: Path, table: str, columns: Sequence[str]) -> None:
        self._files = sorted(folder.glob("*.parquet"))
        schema, required = schema_of(table, columns), _REQUIRED[table] if table == "events" else ()
        read = partial(read_rows, schema=schema, required=required)
        super().__init__(lambda: chain.from_iterable(map(read, self._files)), schema)

    def count(self) -> int:
        """The number of rows."""
        return sum(sum(group_sizes(path)) for path in self._files)
