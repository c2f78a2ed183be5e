"""One table as typed columns, straight from the bytes: what ``Capture.table`` gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.base import TableRequest, Wanted
from cdcwb.formats.gbase8s import batch
from cdcwb.formats.gbase8s.anatomy import cut, lay_out
from cdcwb.formats.gbase8s.decoded import arrow_type
from cdcwb.formats.gbase8s.plan import Plan, SplitEntry
from cdcwb.formats.gbase8s.reader import CHUNK, Chunk, SplitState, is_plain
from cdcwb.formats.gbase8s.scan import iter_split
from cdcwb.formats.gbase8s.values import Value, decode
from cdcwb.formats.gbase8s.versions import Versions
from cdcwb.formats.requests import chosen_columns, images_of, no_table, request_schema, versions_of

__all__ = ["read_table", "typed_schema"]

_IMAGES: Final = {"before": (41, 42), "after": (40, 43)}


def typed_schema(plan: Plan, request: TableRequest) -> pa.Schema:
    """Columns of :func:`read_table`: where the row stands, then ``before`` and ``after`` as structures of typed
    columns.

    A column whose type differs between versions is text. Raises CaptureError naming what there is for a table or column
    that is not there.
    """
    return request_schema(_column_types(plan, request), request)


def _column_types(plan: Plan, request: TableRequest) -> dict[str, pa.DataType]:
    versions = Versions(plan, {})
    labels = sorted({version.label for version in plan.versions})
    mine = [label for label in labels if request.name in versions.table_names(label)]
    if not mine:
        raise no_table(request, (name for label in labels for name in versions.table_names(label)), " with a schema")
    schemas = [versions.schema(version.label, version.number) for version in plan.versions if version.label in mine]
    types: dict[str, pa.DataType] = {}
    for schema in versions_of(schemas, request):
        for column in schema.columns[: schema.decodable] if schema else ():
            kind = arrow_type(column)
            before = types.setdefault(column.name, kind)
            types[column.name] = before if before == kind else _common_type(before, kind)
    return chosen_columns(types, request)


def _common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The wider of two whole-number types; text where no type holds both without loss."""
    if pa.types.is_integer(one) and pa.types.is_integer(other):
        return one if one.bit_width > other.bit_width else other
    return pa.string()


def read_table(plan: Plan, split: SplitEntry, request: TableRequest) -> Iterator[pa.RecordBatch]:
    """The row records of one table in one split, in capture order."""
    types = _column_types(plan, request)
    schema = typed_schema(plan, request)
    wanted = Wanted(tables=frozenset([request.name]), kinds=frozenset(["change", "before", "after"]))
    with plan.stream() as stream:
        state = SplitState(plan, stream, split, wanted)
        for segments in iter_split(stream, plan.mode, plan.buffer_size, split.start, split.stop):
            for first in range(0, len(segments.start), CHUNK):
                chunk = state.chunk(segments, first, min(first + CHUNK, len(segments.start)))
                yield from _typed_batch(state, chunk, types, schema, request)


def _typed_batch(
    state: SplitState, chunk: Chunk, types: dict[str, pa.DataType], schema: pa.Schema, request: TableRequest
) -> Iterator[pa.RecordBatch]:
    headers = chunk.headers
    rows = np.flatnonzero(state.kept(chunk) & headers.row)
    if not len(rows):
        return
    keep = np.zeros(len(headers.start), dtype=bool)
    keep[rows] = True
    images, odd = state.decode(chunk, is_plain(chunk) & keep, frozenset(types))
    odd |= keep & ~is_plain(chunk)
    place = np.full(len(headers.start), -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    slow = rows[odd[rows]]
    slots = [_slow_slots(state, chunk, int(record)) for record in slow]
    columns: dict[str, pa.Array] = {}
    for name, kind in types.items():
        parts: list[pa.Array] = [pa.nulls(1, kind)]
        index = np.zeros(len(rows), dtype=np.int64)
        size = 1
        for image in images:
            if name not in image.names:
                continue
            values = image.columns[image.names.index(name)].typed()
            if values.type != kind:
                values = _as(image.columns[image.names.index(name)].text(), kind)
            good = np.flatnonzero(~image.odd)
            index[place[image.rows[good]]] = size + good
            parts.append(values)
            size += len(values)
        if len(slow):
            texts = [_text(row.get(name), kind) for row in slots]
            parts.append(_as(pa.array(texts, pa.string()), kind))
            index[place[slow]] = size + np.arange(len(slow))
        columns[name] = pa.concat_arrays(parts).take(pa.array(index))
    yield pa.RecordBatch.from_arrays(
        [*_place_columns(state, chunk, rows), *_image_columns(headers.number[rows], columns, types, request)],
        schema=schema,
    )


def _as(text: pa.Array, kind: pa.DataType) -> pa.Array:
    """Text as the given type; null where it is no value of it."""
    if pa.types.is_string(kind):
        return text
    if pa.types.is_binary(kind):
        return pa.array([None if one is None else bytes.fromhex(one) for one in text.to_pylist()], kind)
    try:
        return pc.cast(text, kind)
    except pa.ArrowInvalid:
        return pa.concat_arrays([_cast_one(one, kind) for one in text.to_pylist()])


def _cast_one(text: str | None, kind: pa.DataType) -> pa.Array:
    try:
        return pc.cast(pa.array([text], pa.string()), kind)
    except pa.ArrowInvalid:
        return pa.nulls(1, kind)


def _slow_slots(state: SplitState, chunk: Chunk, record: int) -> dict[str, Value]:
    """The values of a row that is decoded on its own."""
    headers = chunk.headers
    there = chunk.segments.buffer[int(headers.start[record]) : int(headers.end[record])].tobytes()
    schema = state.versions.schema(int(headers.label[record]), int(chunk.version[record]))
    if schema is None:
        return {}
    settings = state.plan.settings
    anatomy = cut(there, schema, settings)
    payload = there[anatomy.header_end : anatomy.payload_end]
    row = lay_out(schema, payload, anatomy.words, settings)
    return {slot.column.name: decode(slot.column, payload[slot.start : slot.stop], settings) for slot in row.slots}


def _text(value: Value | None, kind: pa.DataType) -> str | None:
    """The text of a value; hexadecimal digits that stand for bytes that are none are no value of any type but text."""
    if value is None or (value.problem is not None and not pa.types.is_string(kind)):
        return None
    return value.text


def _place_columns(state: SplitState, chunk: Chunk, rows: Any) -> list[pa.Array]:
    headers = chunk.headers
    file_index, offset, _ = state.places(chunk.segments, headers.start[rows], headers.end[rows])
    _, kind, operation = batch.names_of(headers.number[rows])
    transaction = pa.array(chunk.names, pa.string()).take(pa.array(chunk.transaction[rows]))
    labelled = np.ones(len(rows), dtype=bool)
    _, _, version = state.versions.name_arrays(headers.label[rows], chunk.version[rows], labelled)
    position = batch.positions(headers.sequence[rows])
    return [pa.array(file_index.astype(np.int32)), pa.array(offset), kind, operation, position, transaction, version]


def _image_columns(
    number: Any, columns: dict[str, pa.Array], types: dict[str, pa.DataType], request: TableRequest
) -> list[pa.Array]:
    fields = [pa.field(name, kind) for name, kind in types.items()]
    return [
        pa.StructArray.from_arrays(
            list(columns.values()), fields=fields, mask=pa.array(~np.isin(number, _IMAGES[image]))
        )
        for image in images_of(request)
    ]
