"""Versions of tables, and the rows of one table as typed columns (docs/formats/debezium.md §5, §9)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

import pyarrow as pa

from cdcwb.formats.arrays import lookup
from cdcwb.formats.debezium.layout import arrow_of
from cdcwb.formats.dissector import TableRequest
from cdcwb.formats.messages.connect import Body, Type, plain
from cdcwb.formats.messages.format import TableColumn, TableVersion
from cdcwb.formats.requests import FROM_EVENTS, common_types, images_of, no_table, request_schema, versions_of
from cdcwb.formats.text_values import parsed

__all__ = [
    "Described",
    "Shape",
    "Version",
    "VersionsByShape",
    "described_tables",
    "row_type",
    "shape_of",
    "typed_rows",
    "typed_schema",
]

Shape = tuple[tuple[Any, ...], ...]
"""What a message says of the columns of its row: name, type, precision, scale and nullable of each where there is a
schema, else the names alone."""

DOCUMENT: Final[Shape] = ()
"""The shape of documents, each of which has fields of its own."""


@dataclass(slots=True)
class Version(TableVersion):
    """One version of a table. Rows find it by one of its ``shapes``."""

    shapes: list[Shape] = field(default_factory=list)


class VersionsByShape:
    """The versions of a capture, found by table and shape."""

    def __init__(self, versions: Iterable[Version]) -> None:
        self._found: dict[tuple[str | None, str | None, Shape], Version] = {}
        for version in versions:
            for shape in version.shapes:
                self._found.setdefault((version.schema_name, version.table_name, shape), version)

    def find(self, schema: str | None, table: str | None, shape: Shape | None) -> Version | None:
        """The version of a row of that shape."""
        return None if shape is None else self._found.get((schema, table, shape))


# --- shapes -----------------------------------------------------------------------------------------------------------


def row_type(body: Body) -> Type | None:
    """The type of the rows of a change event, where there is a schema."""
    return None if body.type is None else _row_type(body.type)


@lru_cache(maxsize=4096)
def _row_type(envelope: Type) -> Type | None:
    row = envelope.fields.get("after") or envelope.fields.get("before")
    if row is None or not row.fields:
        return None
    if all(cell.fields.keys() == _CELL for cell in row.fields.values()):
        row = replace(row, fields={name: cell.fields["value"] for name, cell in row.fields.items()})
    return row


_CELL: Final = {"value", "set"}


def shape_of(body: Body, is_document: bool) -> Shape | None:
    """The shape of the rows of a change event; None where neither a schema nor a row says it."""
    if is_document:
        return DOCUMENT
    row = row_type(body)
    if row is not None:
        return _shape_of_type(row)
    image = body.content.get("after") or body.content.get("before")
    return tuple((name,) for name in image) if isinstance(image, dict) else None


@lru_cache(maxsize=4096)
def _shape_of_type(row: Type) -> Shape:
    return tuple(
        (
            name,
            kind.spelled,
            _number(kind.parameters.get("connect.decimal.precision", kind.parameters.get("precision"))),
            _number(kind.parameters.get("scale")),
            kind.optional,
        )
        for name, kind in row.fields.items()
    )


def _number(value: Any) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


# --- schema changes (§5) ----------------------------------------------------------------------------------------------


class Described(NamedTuple):
    """One table as a schema change describes it."""

    schema_name: str | None
    table_name: str
    shape: Shape
    columns: list[TableColumn]
    names: tuple[str, ...]


def described_tables(content: Mapping[str, Any]) -> list[Described]:
    """The tables that a schema change describes; those that were dropped have no columns and are left out."""
    changes = content.get("tableChanges")
    found = []
    for change in changes if isinstance(changes, list) else ():
        table = change.get("table") if isinstance(change, dict) else None
        table = table if isinstance(table, dict) else {}
        listed = table.get("columns")
        if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
            continue
        parts = [part.strip('"`') for part in plain(change.get("id")).split(".")]
        named = table.get("primaryKeyColumnNames")
        key = [plain(name) for name in named] if isinstance(named, list) else []
        columns = [_described_column(at, one, key) for at, one in enumerate(listed, 1)]
        shape = tuple(tuple(column[1:]) for column in columns)
        schema = parts[-2] if len(parts) > 1 else plain(content.get("schemaName") or content.get("databaseName"))
        found.append(Described(schema, parts[-1], shape, columns, tuple(column.name for column in columns)))
    return found


def _described_column(ordinal: int, one: Mapping[str, Any], key: Sequence[str]) -> TableColumn:
    name, length, scale = plain(one.get("name")), _number(one.get("length")), _number(one.get("scale"))
    is_number = scale is not None
    kind = one.get("typeExpression") or one.get("typeName")
    return TableColumn(
        _number(one.get("position")) or ordinal,
        name,
        None if kind is None else plain(kind),
        None if is_number else length,
        length if is_number else None,
        scale,
        key.index(name) + 1 if name in key else None,
        one["optional"] if isinstance(one.get("optional"), bool) else None,
    )


# --- typed columns (§9) -----------------------------------------------------------------------------------------------


def column_types(versions: Sequence[Version], request: TableRequest) -> dict[str, pa.DataType]:
    """The asked columns of a table with their types; text where versions differ. Raises CaptureError naming what there
    is for a table or column that is not there."""
    known = [one for one in versions if request.name in (one.table_name, one.full_name)]
    if not known:
        raise no_table(request, (str(one.full_name) for one in versions))
    columns = (
        (
            column.name,
            arrow_of(column.type or "", column.precision, column.scale)
            if version.origin in ("record", "registry")
            else pa.string(),
        )
        for version in versions_of(known, request)
        for column in version.columns
    )
    return common_types(columns, request)


def typed_schema(versions: Sequence[Version], request: TableRequest) -> pa.Schema:
    """The columns of :func:`typed_rows`: where the row is, then its images as structures of typed columns."""
    return request_schema(column_types(versions, request), request)


def typed_rows(events: pa.RecordBatch, versions: Sequence[Version], request: TableRequest) -> pa.RecordBatch:
    """Events of one table as typed columns."""
    types = column_types(versions, request)
    schema = typed_schema(versions, request)
    arrays = [events[name] for name in FROM_EVENTS]
    for image in images_of(request):
        columns = [parsed(lookup(events[image], name), kind) for name, kind in types.items()]
        fields = [pa.field(name, kind) for name, kind in types.items()]
        arrays.append(pa.StructArray.from_arrays(columns, fields=fields, mask=events[image].is_null()))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
