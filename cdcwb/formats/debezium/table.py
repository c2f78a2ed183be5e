"""Versions of tables (docs/formats/debezium.md §5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from cdcwb.formats.columns import TableColumn, TableVersion
from cdcwb.formats.debezium.layout import CELL
from cdcwb.formats.messages.connect import Body, Type, plain

Columns = tuple[TableColumn, ...]
"""What a message says of the columns of its row: with their types where there is a schema, else the names alone; of
a document, whose fields are its own, nothing."""


@dataclass(slots=True)
class Version(TableVersion):
    """One version of a table. Rows find it by one of its ``shapes``."""

    shapes: list[Columns] = field(default_factory=list)

    def add_columns(self, names: Iterable[str], most: int) -> None:
        """Adds the fields of documents that it does not have."""
        there = {column.name for column in self.columns}
        for name in names:
            if name not in there and len(self.columns) < most:
                self.columns.append(TableColumn(len(self.columns) + 1, name))

    def add_key(self, positions: Mapping[str, int | None]) -> None:
        """Sets the positions of columns in the key, if none is known."""
        if positions and not any(column.key_position for column in self.columns):
            self.columns = [column._replace(key_position=positions.get(column.name)) for column in self.columns]


class VersionsByColumns:
    """The versions of a capture, found by table and columns."""

    def __init__(self, versions: Iterable[Version]) -> None:
        self._found: dict[tuple[str | None, str | None, Columns], Version] = {}
        for version in versions:
            for shape in version.shapes:
                self._found.setdefault((version.schema_name, version.table_name, shape), version)

    def find(self, schema: str | None, table: str | None, shape: Columns | None) -> str | None:
        """The id of the version of a row with these columns."""
        found = None if shape is None else self._found.get((schema, table, shape))
        return None if found is None else found.table_version


# --- columns ----------------------------------------------------------------------------------------------------------


def row_type(body: Body) -> Type | None:
    """The type of the rows of a change event, where there is a schema."""
    return None if body.type is None else _row_type(body.type)


@lru_cache(maxsize=4096)
def _row_type(envelope: Type) -> Type | None:
    row = envelope.fields.get("after") or envelope.fields.get("before")
    if row is None or not row.fields:
        return None
    if all(cell.fields.keys() == CELL for cell in row.fields.values()):
        row = replace(row, fields={name: cell.fields["value"] for name, cell in row.fields.items()})
    return row


def row_columns(body: Body, is_document: bool) -> Columns | None:
    """The columns of the rows of a change event; None where neither a schema nor a row says it."""
    if is_document:
        return ()
    row = row_type(body)
    if row is not None:
        return _typed_columns(row)
    image = body.content.get("after") or body.content.get("before")
    return _named_columns(tuple(image)) if isinstance(image, dict) else None


@lru_cache(maxsize=4096)
def _named_columns(names: tuple[str, ...]) -> Columns:
    return tuple(TableColumn(at, name) for at, name in enumerate(names, 1))


@lru_cache(maxsize=4096)
def _typed_columns(row: Type) -> Columns:
    return tuple(
        TableColumn(
            at,
            name,
            kind.spelled,
            None,
            _number(kind.parameters.get("connect.decimal.precision", kind.parameters.get("precision"))),
            _number(kind.parameters.get("scale")),
            None,
            kind.optional,
        )
        for at, (name, kind) in enumerate(row.fields.items(), 1)
    )


def _number(value: Any) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


# --- schema changes (§5) ----------------------------------------------------------------------------------------------


def described_tables(content: Mapping[str, Any]) -> Iterator[tuple[str | None, str, Columns]]:
    """Schema, table and columns of each table that a schema change describes; those that were dropped have no columns
    and are left out."""
    changes = content.get("tableChanges")
    for change in changes if isinstance(changes, list) else ():
        table = change.get("table") if isinstance(change, dict) else None
        table = table if isinstance(table, dict) else {}
        listed = table.get("columns")
        if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
            continue
        parts = [part.strip('"`') for part in plain(change.get("id")).split(".")]
        named = table.get("primaryKeyColumnNames")
        key = [plain(name) for name in named] if isinstance(named, list) else []
        schema = parts[-2] if len(parts) > 1 else plain(content.get("schemaName") or content.get("databaseName"))
        yield schema, parts[-1], tuple(_described_column(at, one, key) for at, one in enumerate(listed, 1))


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
