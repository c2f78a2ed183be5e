"""Tables of formats whose captures do not describe them: one version of each, with the columns that its rows have, all
of them texts; their types and keys are known if events give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from cdcwb import model
from cdcwb.formats.arrays import table_names
from cdcwb.formats.dissector import TableRequest
from cdcwb.formats.requests import chosen_columns, no_table, request_schema


class InferredColumn(NamedTuple):
    """A column of a table: its type as the source spells it, and its position in the key, from 1; None: not given."""

    type: str | None = None
    key_position: int | None = None


Tables = dict[tuple[str | None, str], dict[str, InferredColumn]]
"""The columns of each table (schema and name) in order of appearance."""


def note_tables(tables: Tables, rows: Iterable[Mapping[str, Any]]) -> None:
    """Adds the columns of events as dictionaries, whose images are dictionaries; ``types``: types by columns;
    ``key_columns``: those of the key, if there is no ``key``."""
    for row in rows:
        if row.get("table_name") is not None:
            columns = {name: InferredColumn(kind) for name, kind in (row.get("types") or {}).items()}
            for image in ("key", "before", "after"):
                for name in row.get(image) or ():
                    columns.setdefault(name, InferredColumn())
            for at, name in enumerate(row.get("key") or row.get("key_columns") or (), start=1):
                columns[name] = columns.get(name, InferredColumn())._replace(key_position=at)
            _add(tables.setdefault((row.get("schema_name") or None, row["table_name"]), {}), columns)


def _add(known: dict[str, InferredColumn], columns: Mapping[str, InferredColumn]) -> None:
    for name, column in columns.items():
        if name not in known:
            known[name] = column
        elif column not in (known[name], InferredColumn()):
            known[name] = InferredColumn(
                column.type or known[name].type, column.key_position or known[name].key_position
            )


def merged_tables(found: Iterable[Tables]) -> Tables:
    """The tables of consecutive parts of a capture."""
    merged: Tables = {}
    for tables in found:
        for table, columns in tables.items():
            _add(merged.setdefault(table, {}), columns)
    return merged


def inferred_version(row: Mapping[str, Any]) -> str | None:
    """The version of the table of an event; None without a table."""
    schema, name = row.get("schema_name"), row.get("table_name")
    return None if name is None else f"{schema}.{name}@1" if schema else f"{name}@1"


def inferred_versions(tables: Tables) -> pa.Table:
    """The rows of :data:`cdcwb.model.TABLE_VERSIONS`; ``first_position`` is null."""
    rows = []
    for (schema, name), columns in tables.items():
        row: dict[str, Any] = {"schema_name": schema, "table_name": name, "origin": "inferred"}
        row["table_version"] = inferred_version(row)
        row["columns"] = [
            {"ordinal": at, "name": name, **column._asdict()}
            for at, (name, column) in enumerate(columns.items(), start=1)
        ]
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=model.TABLE_VERSIONS)


def inferred_schema(tables: Tables, request: TableRequest) -> pa.Schema:
    """The typed columns of a table. Raises CaptureError for an unknown table or column."""
    names = {(schema, name): f"{schema}.{name}" if schema else name for schema, name in tables}
    columns = [columns for table, columns in tables.items() if request.name in table_names(names[table])]
    if not columns:
        raise no_table(request, names.values())
    return request_schema(chosen_columns(dict.fromkeys(columns[0], pa.string()), request), request)
