"""One table as typed columns, straight from the messages: what ``Capture.table`` gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import EventBatch
from cdcwb.formats.bitmask import HEX, parse
from cdcwb.formats.containers.avro_values import to_text
from cdcwb.formats.containers.kafka_rows import Where
from cdcwb.formats.containers.messages import Messages
from cdcwb.formats.dissector import TableRequest, Wanted
from cdcwb.formats.messages.format import TableColumn
from cdcwb.formats.qlik.types import decimal_type, replicate_type
from cdcwb.formats.qlik_kafka.decode import Image, Rows, decode
from cdcwb.formats.qlik_kafka.events import fill_header
from cdcwb.formats.qlik_kafka.plan import Plan
from cdcwb.formats.qlik_kafka.versions import Versions
from cdcwb.formats.requests import FROM_EVENTS, common_types, images_of, no_table, request_schema, versions_of
from cdcwb.formats.text_values import cast, parsed
from cdcwb.model import Operation

__all__ = ["read_table", "typed_schema"]

_AVRO: Final[dict[str, pa.DataType]] = {
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us"),
    "timestamp-micros": pa.timestamp("us"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}
"""Types of columns that only an Avro schema describes (docs/formats/qlik-kafka.md §8); what is not listed is text."""


_WANTED: Final = Wanted(images=False, columns=frozenset(FROM_EVENTS))


def arrow_type(column: TableColumn) -> pa.DataType:
    """The type of a column in :func:`read_table`. Times have no zone, as the source has none."""
    if column.type in ("NUMERIC", "decimal"):
        return decimal_type(column.precision, column.scale)
    name = column.type or ""
    return _AVRO.get(name) or replicate_type(name) or pa.string()


def typed_schema(plan: Plan, request: TableRequest) -> pa.Schema:
    """Columns of :func:`read_table`: where the row stands, then ``before`` and ``after`` as structures of typed
    columns.

    A column whose type differs between versions is text. Raises CaptureError naming what there is for a table or column
    that is not there.
    """
    return request_schema(_column_types(plan, request), request)


def _is(request: TableRequest, schema: str | None, table: str | None) -> bool:
    return table is not None and request.name in (table, f"{schema}.{table}")


def _column_types(plan: Plan, request: TableRequest) -> dict[str, pa.DataType]:
    versions = [one for one in plan.versions if _is(request, one.schema_name, one.table_name)]
    if not versions:
        raise no_table(request, (one.full_name for one in plan.versions if one.full_name))
    columns = (column for version in versions_of(versions, request) for column in version.columns)
    return common_types(((column.name, arrow_type(column)) for column in columns), request)


def read_table(
    plan: Plan, versions: Versions, messages: Messages, where: Where, schema: str | None, request: TableRequest
) -> Iterator[pa.RecordBatch]:
    """The rows of one table in some messages, in capture order."""
    types = _column_types(plan, request)
    wanted = typed_schema(plan, request)
    decoded = decode(messages, plan.settings, versions, frozenset(types), schema)
    groups = [one for one in decoded.parsed.rows if _is(request, one.schema_name, one.table_name)]
    parts = [_part(messages, rows, where, types, wanted, request) for rows in groups]
    if len(parts) > 1:
        places = [("file_index", "ascending"), ("offset", "ascending")]
        parts = pa.Table.from_batches(parts).sort_by(places).combine_chunks().to_batches()
    yield from parts


def _part(
    messages: Messages,
    rows: Rows,
    where: Where,
    types: Mapping[str, pa.DataType],
    schema: pa.Schema,
    request: TableRequest,
) -> pa.RecordBatch:
    batch = EventBatch(len(messages.offset), _WANTED)
    where.fill(batch, messages)
    fill_header(batch, rows, {})
    events = batch.build(FROM_EVENTS)
    if len(rows.index) != batch.count:
        events = events.take(pa.array(rows.index))
    deletes = pc.fill_null(pc.equal(events.column("operation"), str(Operation.DELETE)), False)
    gone = deletes.to_numpy(zero_copy_only=False)
    arrays = [events.column(name) for name in FROM_EVENTS]
    for name in images_of(request):
        arrays.append(_struct(rows, name, gone, types))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _struct(rows: Rows, name: str, gone: np.ndarray, types: Mapping[str, pa.DataType]) -> pa.StructArray:
    """One image of a group of rows; a deleted row is the before image, wherever it stands."""
    data_is = ~gone
    if name == "before":
        data_is = gone & (rows.data is not None)
        if rows.data is not None and rows.before is not None:
            data_is &= ~rows.data.nulls.all(axis=1)
    fields = [pa.field(column, kind) for column, kind in types.items()]
    chosen = np.zeros(rows.count, dtype=np.bool_)
    columns = [pa.nulls(rows.count, kind) for kind in types.values()]
    sources: list[tuple[Image | None, np.ndarray]] = [(rows.data, data_is)]
    if name == "before":
        sources.append((rows.before, ~data_is))
    for image, mask in sources:
        if image is None or not mask.any():
            continue
        chosen |= mask
        for at, (column, kind) in enumerate(types.items()):
            if column in image.names:
                values = _typed(image.column(list(image.names).index(column)), kind)
                columns[at] = pc.if_else(pa.array(mask), values, columns[at])
    return pa.StructArray.from_arrays(columns, fields=fields, mask=pa.array(~chosen))


def _typed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values as the given type; null where one is no value of it."""
    if values.type == kind:
        return values
    if pa.types.is_string(kind):
        return to_text(values)
    if pa.types.is_string(values.type):
        return parse(values, HEX)[0] if pa.types.is_binary(kind) else parsed(values, kind)
    found = cast(values, kind)
    return parsed(to_text(values), kind) if found is None else found
