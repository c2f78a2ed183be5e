"""Rows of one table as typed columns, made from its events."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.base import TableRequest
from cdcwb.formats.requests import FROM_EVENTS, images_of, request_schema
from cdcwb.formats.text_values import parsed

__all__ = ["typed_rows"]


def typed_rows(events: pa.RecordBatch, request: TableRequest, types: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """The images of events as structures of typed columns; null where a text is no value of its column's type, and
    where a column is not in the image."""
    schema = request_schema(types, request)
    arrays = [events.column(name) for name in FROM_EVENTS]
    arrays += [_struct(events.column(name), types) for name in images_of(request)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _struct(maps: pa.MapArray, types: Mapping[str, pa.DataType]) -> pa.StructArray:
    count = len(maps)
    lists = maps.cast(pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), ("value", pa.string())])))
    row = np.asarray(pc.list_parent_indices(lists))
    entries = lists.flatten()
    keys, items = entries.field(0), entries.field(1)
    columns, fields = [], []
    for name, kind in types.items():
        there = np.asarray(pc.equal(keys, name))
        places = np.full(count, -1, dtype=np.int64)
        places[row[there]] = np.flatnonzero(there)
        texts = items.take(pa.array(places, mask=places < 0))
        columns.append(_typed(texts, kind))
        fields.append(pa.field(name, kind))
    return pa.StructArray.from_arrays(columns, fields=fields, mask=pc.is_null(maps))


def _typed(texts: pa.StringArray, kind: pa.DataType) -> pa.Array:
    return texts if pa.types.is_string(kind) else parsed(texts, kind)
