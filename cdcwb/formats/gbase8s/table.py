"""One table as typed columns, decoded directly from the bytes, for ``Capture.table``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.dissector import TableRequest, Wanted
from cdcwb.formats.gbase8s.decode import Headers, lay_out, names_of, positions
from cdcwb.formats.gbase8s.events import RecordReader, Versions
from cdcwb.formats.gbase8s.layout import Column, ColumnKind
from cdcwb.formats.gbase8s.plan import segments_of
from cdcwb.formats.gbase8s.values import BAD
from cdcwb.formats.records import Ints, Plan, Stream
from cdcwb.formats.requests import chosen_columns, images_of, no_table, request_schema, versions_of

__all__ = ["read_table", "typed_schema"]

_IMAGES: Final = {"before": (41, 42), "after": (40, 43)}
_TYPES: Final = {
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


def typed_schema(plan: Plan, request: TableRequest) -> pa.Schema:
    """The columns of :func:`read_table`: the location of the row, then ``before`` and ``after`` as structures of typed
    columns.

    A column whose type differs between versions is text. Raises CaptureError, which lists the known ones, for an
    unknown table or column.
    """
    return request_schema(_column_types(plan, request), request)


def _column_types(plan: Plan, request: TableRequest) -> dict[str, pa.DataType]:
    versions = Versions(plan.shared, {})
    labels = sorted({version.label for version in plan.shared.versions})
    of_table = [label for label in labels if request.name in versions.table_names(label)]
    if not of_table:
        raise no_table(request, (name for label in labels for name in versions.table_names(label)), " with a schema")
    schemas = [versions.schema(one.label, one.number) for one in plan.shared.versions if one.label in of_table]
    types: dict[str, pa.DataType] = {}
    for schema in versions_of(schemas, request):
        for column in schema.columns[: schema.decodable] if schema else ():
            kind = arrow_type(column)
            before = types.setdefault(column.name, kind)
            types[column.name] = before if before == kind else _common_type(before, kind)
    return chosen_columns(types, request)


def _common_type(first: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The wider of two whole-number types; text if no type has both without loss."""
    if pa.types.is_integer(first) and pa.types.is_integer(other):
        return first if first.bit_width > other.bit_width else other
    return pa.string()


def arrow_type(column: Column) -> pa.DataType:
    """The type of a column in ``Capture.table``.

    Partial DATETIMEs, INTERVALs and floating DECIMALs have no type in Spark that loses nothing, so they stay text.
    """
    if column.kind == ColumnKind.DECIMAL and column.scale is not None and column.precision is not None:
        return pa.decimal128(column.precision, column.scale)
    if column.kind == ColumnKind.DATETIME and column.start == 0 and (column.end or 0) >= 4:
        return pa.date32() if column.end == 4 else pa.timestamp("us")
    return _TYPES.get(column.kind, pa.string())


def read_table(plan: Plan, split: int, request: TableRequest) -> Iterator[pa.RecordBatch]:
    """The row records of one table in one split, in capture order."""
    types = _column_types(plan, request)
    schema = request_schema(types, request)
    wanted = Wanted(tables=frozenset([request.name]), kinds=frozenset(["change", "before", "after"]))
    with Stream(plan.files) as stream:
        here = plan.splits[split]
        reader = RecordReader(plan.shared, here.state)
        for segments in segments_of(stream, plan.framing, here.start, here.stop):
            records = np.flatnonzero(segments.record)
            found = reader.advance(segments, records)
            keep = np.flatnonzero(reader.matching(found, wanted) & found.headers.row)
            if len(keep):
                file_index, offset, _ = stream.places(segments, records[keep])
                transaction = pa.array(found.names, pa.string()).take(pa.array(found.transaction[keep]))
                columns = _columns(reader, found.headers.take(keep), found.version[keep], transaction, types, request)
                places = [pa.array(file_index.astype(np.int32)), pa.array(offset)]
                yield pa.RecordBatch.from_arrays([*places, *columns], schema=schema)


def _columns(
    reader: RecordReader, headers: Headers, version: Ints, transaction: pa.Array, types: dict[str, pa.DataType],
    request: TableRequest,
) -> list[pa.Array]:  # fmt: skip
    rows = lay_out(headers, *reader.schemas(headers, version), reader.settings)
    count = len(version)
    row_of = np.repeat(np.arange(count), np.diff(rows.value_ends))
    columns: list[pa.Array] = []
    for name, kind in types.items():
        named = np.array([column.name == name for column in rows.tables.columns], dtype=bool)
        chosen = np.flatnonzero(named[rows.column])
        values = rows.chosen(chosen).decode(reader.settings)
        text = values.text
        if not pa.types.is_string(kind):  # invalid values are hex, which only text can store
            text = pc.if_else(pa.array(values.status < BAD), text, pa.scalar(None, pa.string()))
        typed = _as(text, kind)
        if len(typed) < count:
            index = np.full(count, -1, dtype=np.int64)
            index[row_of[chosen]] = np.arange(len(chosen))
            typed = typed.take(pa.array(index, mask=index < 0))
        columns.append(typed)
    fields = [pa.field(name, kind) for name, kind in types.items()]
    images = [
        pa.StructArray.from_arrays(columns, fields=fields, mask=pa.array(~np.isin(headers.number, _IMAGES[image])))
        for image in images_of(request)
    ]
    *_, version_name = reader.versions.name_arrays(headers.label, version, np.ones(count, dtype=bool))
    return [*names_of(headers), positions(headers), transaction, version_name, *images]


def _as(text: pa.Array, kind: pa.DataType) -> pa.Array:
    """Text as the given type; null if it is not a value of it."""
    if pa.types.is_string(kind):
        return text
    if pa.types.is_binary(kind):
        return pa.array([None if value is None else bytes.fromhex(value) for value in text.to_pylist()], kind)
    try:
        return pc.cast(text, kind)
    except pa.ArrowInvalid:
        if len(text) > 1:
            return pa.concat_arrays([_as(text.slice(at, 1), kind) for at in range(len(text))])
        return pa.nulls(1, kind)
