"""One table as typed columns, straight from the bytes: what ``Capture.table`` gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.base import TableRequest, Wanted
from cdcwb.formats.gbase8s.layout import Column, ColumnKind
from cdcwb.formats.gbase8s.plan import Plan, SplitEntry
from cdcwb.formats.gbase8s.reader import CHUNK, Chunk, SplitState
from cdcwb.formats.gbase8s.rows import lay_out, names_of, positions
from cdcwb.formats.gbase8s.scan import iter_split
from cdcwb.formats.gbase8s.values import BAD
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


def arrow_type(column: Column) -> pa.DataType:
    """The type that ``Capture.table`` gives a column.

    Partial DATETIMEs, INTERVALs and floating DECIMALs have no type in Spark that loses nothing, so they stay text.
    """
    simple = {
        ColumnKind.SMALLINT: pa.int16(),
        ColumnKind.INTEGER: pa.int32(),
        ColumnKind.BIGINT: pa.int64(),
        ColumnKind.INT8: pa.int64(),
        ColumnKind.DATE: pa.date32(),
        ColumnKind.FLOAT: pa.float64(),
        ColumnKind.SMALLFLOAT: pa.float32(),
        ColumnKind.BOOLEAN: pa.bool_(),
        ColumnKind.LOB: pa.binary(),
    }
    if column.kind in simple:
        return simple[column.kind]
    if column.kind == ColumnKind.DECIMAL and column.scale is not None and column.precision is not None:
        return pa.decimal128(column.precision, column.scale)
    if column.kind == ColumnKind.DATETIME and column.start == 0 and (column.end or 0) >= 4:
        return pa.date32() if column.end == 4 else pa.timestamp("us")
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
    records = np.flatnonzero(state.kept(chunk) & chunk.headers.row)
    if not len(records):
        return
    headers = chunk.headers.take(records)
    settings = state.plan.settings
    rows = lay_out(headers, *state.schemas(chunk, records), settings)
    row_of = np.repeat(np.arange(len(records)), np.diff(rows.value_ends))
    columns: dict[str, pa.Array] = {}
    for name, kind in types.items():
        mine = np.array([column.name == name for column in rows.tables.columns], dtype=bool)
        chosen = np.flatnonzero(mine[rows.column])
        values = rows.chosen(chosen).decode(settings)
        text = values.text
        if not pa.types.is_string(kind):  # the hex of bytes that are not a value is of no other type
            text = pc.if_else(pa.array(values.status < BAD), text, pa.scalar(None, pa.string()))
        place = np.full(len(records), -1, dtype=np.int64)
        place[row_of[chosen]] = np.arange(len(chosen))
        typed = _as(text, kind)
        columns[name] = typed if len(typed) == len(records) else typed.take(pa.array(place, mask=place < 0))
    yield pa.RecordBatch.from_arrays(
        [*_place_columns(state, chunk, records), *_image_columns(headers.number, columns, types, request)],
        schema=schema,
    )


def _as(text: pa.Array, kind: pa.DataType) -> pa.Array:
    """Text as the given type; null where it is not a value of it."""
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


def _place_columns(state: SplitState, chunk: Chunk, rows: Any) -> list[pa.Array]:
    headers = chunk.headers
    file_index, offset, _ = state.places(chunk.segments, headers.start[rows], headers.end[rows])
    kind, operation = names_of(headers.take(rows))
    transaction = pa.array(chunk.names, pa.string()).take(pa.array(chunk.transaction[rows]))
    labelled = np.ones(len(rows), dtype=bool)
    _, _, version = state.versions.name_arrays(headers.label[rows], chunk.version[rows], labelled)
    position = positions(headers.take(rows))
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
