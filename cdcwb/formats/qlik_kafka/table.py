"""One table as typed columns, directly from the messages: the rows of ``Capture.table``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import EventBatch, Ints, as_array
from cdcwb.formats.bitmask import HEX, parse
from cdcwb.formats.containers.avro_values import to_text
from cdcwb.formats.containers.kafka_rows import Where
from cdcwb.formats.containers.messages import Messages
from cdcwb.formats.dissector import TableRequest, Wanted
from cdcwb.formats.messages.format import TableColumn
from cdcwb.formats.qlik_kafka.decode import DecodedMessages, decode
from cdcwb.formats.qlik_kafka.events import before_of, fill
from cdcwb.formats.qlik_kafka.plan import Plan
from cdcwb.formats.qlik_kafka.versions import VersionLookup
from cdcwb.formats.replicate import decimal_type, replicate_type
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
"""Types of columns that only an Avro schema describes (docs/formats/qlik-kafka.md §8); others are text."""


def _arrow_type(column: TableColumn) -> pa.DataType:
    """The type of a column. Times have no zone, as the source has none."""
    if column.type in ("NUMERIC", "decimal"):
        return decimal_type(column.precision, column.scale)
    name = column.type or ""
    return _AVRO.get(name) or replicate_type(name) or pa.string()


def _is_of(request: TableRequest, schema: str | None, table: str | None) -> bool:
    return table is not None and request.name in (table, f"{schema}.{table}")


def _column_types(plan: Plan, request: TableRequest) -> dict[str, pa.DataType]:
    versions = [one for one in plan.versions if _is_of(request, one.schema_name, one.table_name)]
    if not versions:
        raise no_table(request, (one.full_name for one in plan.versions if one.full_name))
    columns = (column for version in versions_of(versions, request) for column in version.columns)
    return common_types(((column.name, _arrow_type(column)) for column in columns), request)


def typed_schema(plan: Plan, request: TableRequest) -> pa.Schema:
    """Columns of :func:`read_table`: the location of the row, then ``before`` and ``after`` as structures of typed
    columns. A column whose type differs between versions is text. Raises CaptureError, with the known ones, for an
    unknown table or column.
    """
    return request_schema(_column_types(plan, request), request)


def read_table(
    plan: Plan, versions: VersionLookup, messages: Messages, where: Where, schema: str | None, request: TableRequest
) -> Iterator[pa.RecordBatch]:
    """The rows of one table in some messages, in capture order."""
    types = _column_types(plan, request)
    decoded = decode(messages, plan.settings, versions, frozenset(types), schema)
    rows = decoded.rows
    is_group = np.array([_is_of(request, one.table.schema, one.table.table) for one in decoded.groups], dtype=np.bool_)
    chosen = np.flatnonzero(is_group[decoded.group[rows]]) if len(rows) else rows
    if not len(chosen):
        return
    batch = EventBatch(len(messages), Wanted(images=False, columns=frozenset(FROM_EVENTS)))
    where.fill(batch, messages)
    fill(batch, decoded, messages)
    events = batch.build(FROM_EVENTS).take(pa.array(rows[chosen]))
    operation = decoded.header("operation")
    deleted = as_array(pc.fill_null(pc.equal(operation, str(Operation.DELETE)), False))
    source = {"before": before_of(decoded, deleted), "after": np.where(decoded.has[0, rows] & ~deleted, 0, -1)}
    images = [_image(decoded, rows[chosen], source[name][chosen], types) for name in images_of(request)]
    yield pa.RecordBatch.from_arrays([*events.columns, *images], schema=request_schema(types, request))


def _image(decoded: DecodedMessages, messages: Ints, source: Ints, types: Mapping[str, pa.DataType]) -> pa.StructArray:
    """An image of some data messages: ``data`` or ``beforeData``, as ``source`` gives (-1: neither)."""
    key = decoded.group[messages] * 3 + source + 1
    order = np.argsort(key, kind="stable")
    columns: list[list[pa.Array]] = [[] for _ in types]
    for some in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
        group, which = decoded.groups[decoded.group[messages[some[0]]]], int(source[some[0]])
        numbers, array = (None, None) if which < 0 else (group.images[which], group.arrays[which])
        origin = decoded.origin[messages[some]]
        for found, (name, kind) in zip(columns, types.items(), strict=True):
            if numbers is None or name not in numbers:
                found.append(pa.nulls(len(some), kind))
            elif array is not None:
                found.append(_typed(array.field(name).take(pa.array(origin)), kind))
            else:
                found.append(_typed(decoded.texts.take(origin + numbers[name]), kind))
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    arrays = [pa.concat_arrays(found).take(pa.array(back)) for found in columns]
    fields = [pa.field(name, kind) for name, kind in types.items()]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array(source < 0))


def _typed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values as a type; null if invalid."""
    if values.type == kind:
        return values
    if pa.types.is_string(kind):
        return to_text(values)
    if pa.types.is_string(values.type):
        return parse(values, HEX)[0] if pa.types.is_binary(kind) else parsed(values, kind)
    found = cast(values, kind)
    return parsed(to_text(values), kind) if found is None else found
