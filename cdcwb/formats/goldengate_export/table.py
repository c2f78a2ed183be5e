"""Tables of exports: versions, from all records of a table or from DEFGEN files, and rows as typed columns
(docs/formats/goldengate.md §8).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from cdcwb.formats.dissector import TableRequest
from cdcwb.formats.goldengate.definitions import Definition
from cdcwb.formats.goldengate.typed import arrow_type, typed_rows, wanted_for
from cdcwb.formats.goldengate_export.exports import TableFacts
from cdcwb.formats.goldengate_export.records import Names
from cdcwb.formats.requests import chosen_columns, no_table, versions_of
from cdcwb.model import COLUMN

__all__ = ["Version", "column_types", "defined_versions", "inferred_versions", "typed_rows", "wanted_for"]


@dataclass(slots=True)
class Version:
    """One version of a table. ``key`` is its table_version, ``columns`` are rows of :data:`cdcwb.model.COLUMN`,
    ``types`` the types of the values of each column, ``text`` its definition in a DEFGEN file."""

    key: str
    names: Names
    columns: list[dict[str, Any]]
    types: dict[str, pa.DataType] = field(default_factory=dict)
    origin: str = "inferred"
    text: str | None = None

    def to_row(self) -> dict[str, Any]:
        """As a row of :data:`cdcwb.model.TABLE_VERSIONS`, without ``first_position``."""
        return {
            "table_version": self.key,
            "schema_name": self.names.schema,
            "table_name": self.names.table,
            "first_event": None,
            "columns": self.columns,
            "origin": self.origin,
            "schema_text": self.text,
            "lineage": {},
        }


def defined_versions(definitions: Sequence[Definition]) -> list[Version]:
    """The versions of tables in DEFGEN files. Different definitions of one table are numbered; events have the first
    one."""
    found: dict[str | None, list[Definition]] = {}
    made = []
    for one in definitions:
        names = Names(one.schema, one.table)
        others = found.setdefault(names.label, [])
        if any(map(one.same_columns, others)):
            continue
        others.append(one)
        columns = [{**row, "name": name} for row, name in zip(one.to_columns(), one.names, strict=True)]
        types = {name: arrow_type(column) for name, column in zip(one.names, one.columns, strict=True)}
        made.append(Version(f"{names.label}@{len(others)}", names, columns, types, "side file", one.text))
    return made


def inferred_versions(tables: Iterable[TableFacts]) -> list[Version]:
    """The versions of tables from the columns and the values of their records."""
    made = []
    for one in tables:
        keys = {name: at for at, name in enumerate(one.keys or (), 1)}
        columns = [
            {
                **dict.fromkeys(column.name for column in COLUMN),
                "ordinal": at,
                "name": name,
                "type": facts.kind,
                "key_position": keys.get(name),
            }
            for at, (name, facts) in enumerate(one.columns.items(), 1)
        ]
        types = {name: facts.arrow_type for name, facts in one.columns.items()}
        made.append(Version(f"{one.names.label}@1", one.names, columns, types))
    return made


def column_types(versions: Sequence[Version], request: TableRequest) -> dict[str, pa.DataType]:
    """The requested columns. One whose type differs between versions is text. Raises CaptureError, which lists the
    known ones, for an unknown table or column."""
    of_table = [one for one in versions if request.name in (one.names.table, one.names.label)]
    if not of_table:
        raise no_table(request, (one.names.label or "" for one in versions))
    types: dict[str, pa.DataType] = {}
    for version in versions_of(of_table, request):
        for name, kind in version.types.items():
            types[name] = kind if types.get(name, kind) == kind else pa.string()
    return chosen_columns(types, request)
