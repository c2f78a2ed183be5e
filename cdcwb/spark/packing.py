"""Packs ``events`` for the transfer from Python to Spark: lists of names become one text each.

Spark converts every column that a Python worker sends, used or not, and the cost of a list grows with its names. One
text costs a fraction, and is split only if the column is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.model import SPLIT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["PACKED", "pack", "packed_schema", "unpack"]

_LISTS: Final = ("changed_columns", "present_columns")
_BETWEEN: Final = "\x1f"
_PACKED_NAMES: Final = {name: f"_{name}" for name in _LISTS}

_MORE: Final = [*((name, pa.string()) for name in _PACKED_NAMES.values()), (SPLIT, pa.int32())]
PACKED: Final = pa.schema([*model.EVENTS, *_MORE])
"""``events`` with a text for each column of lists, and the split. A list is either in the text or in the list column;
if it is null, both are null."""


def packed_schema(columns: Sequence[str] | None = None, rows: pa.Schema = model.EVENTS) -> pa.Schema:
    """:data:`PACKED`, or the part of it with these columns of ``events``, in this order. ``rows``: the schema of the
    rows."""
    if columns is None:
        return PACKED if rows is model.EVENTS else pa.schema([*rows, *_MORE])
    names = [*columns, *(_PACKED_NAMES[name] for name in columns if name in _LISTS)]
    return pa.schema([PACKED.field(name) for name in names])


def pack(
    batch: pa.RecordBatch,
    split: int | None = None,
    columns: Sequence[str] | None = None,
    rows: pa.Schema = model.EVENTS,
) -> pa.RecordBatch:
    """Events, or these columns of them, in :func:`packed_schema`; ``split`` is the number of their split."""
    schema = packed_schema(columns, rows)
    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    for name in _LISTS:
        if name in schema.names:
            arrays[name], arrays[_PACKED_NAMES[name]] = _packed(arrays[name])
    if columns is None:
        arrays[SPLIT] = pa.repeat(pa.scalar(split, pa.int32()), batch.num_rows)
    return pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)


def _packed(lists: pa.ListArray) -> tuple[pa.ListArray, pa.StringArray]:
    """Lists that remain lists (empty ones, and those with the separator in a name), and the others as texts."""
    count = len(lists)
    if lists.null_count == count:
        return lists, pa.nulls(count, pa.string())
    names = lists.flatten()
    data = names.buffers()[2]
    if names.null_count or (data is not None and (np.frombuffer(data, np.uint8) == ord(_BETWEEN)).any()):
        return lists, pa.nulls(count, pa.string())
    texts = pc.binary_join(lists, _BETWEEN)
    empty = pc.fill_null(pc.equal(pc.list_value_length(lists), 0), False)
    if not pc.any(empty).as_py():
        return pa.nulls(count, lists.type), texts
    nowhere = np.zeros(count + 1, dtype=np.int32)
    full = np.append(~empty.to_numpy(zero_copy_only=False), False)
    remaining = pa.ListArray.from_arrays(pa.array(nowhere, mask=full), pa.array([], pa.string()))
    return remaining, pc.if_else(empty, pa.scalar(None, pa.string()), texts)


def unpack(
    packed: DataFrame,
    split: bool = False,
    columns: Sequence[str] | None = None,
    rows: pa.Schema = model.EVENTS,
) -> DataFrame:
    """A DataFrame of :data:`PACKED` as ``events``, or these columns of them, with or without :data:`SPLIT`."""
    from pyspark.sql import functions as F

    def column(name: str) -> Column:
        if name not in _LISTS:
            return F.col(name)
        return F.coalesce(F.split(_PACKED_NAMES[name], _BETWEEN), F.col(name)).alias(name)

    return packed.select(*[column(name) for name in columns or rows.names], *([SPLIT] if split else []))
