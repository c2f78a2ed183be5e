"""Tables of exports: versions, from all records of a table or from DEFGEN files, and rows as typed columns
(docs/formats/goldengate.md §8).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from cdcwb.formats.dissector import TableRequest
from cdcwb.formats.goldengate.definitions import Definition
from cdcwb.formats.goldengate.values import arrow_type, typed_rows, wanted_for
from cdcwb.formats.goldengate_export.exports import TableFacts
from cdcwb.formats.goldengate_export.records import Names
from cdcwb.formats.messages.format import TableColumn, TableVersion
from cdcwb.formats.requests import common_types, no_table, versions_of

__all__ = ["Version", "column_types", "defined_versions", "inferred_versions", "typed_rows", "wanted_for"]


@dataclass(slots=True)
class Version(TableVersion):
    """One version of a table. ``types``: the types of the values of each column."""

    types: dict[str, pa.DataType] = field(default_factory=dict)


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
        columns = [TableColumn(**row) for row in one.to_columns()]
        types = {name: arrow_type(column) for name, column in zip(one.names, one.columns, strict=True)}
        made.append(Version(f"{names.label}@{len(others)}", *names, columns, "side file", one.text, types=types))
    return made


def inferred_versions(tables: Iterable[TableFacts]) -> list[Version]:
    """The versions of tables from the columns and the values of their records."""
    made = []
    for one in tables:
        keys = {name: at for at, name in enumerate(one.keys or (), 1)}
        columns = [
            TableColumn(at, name, facts.kind, key_position=keys.get(name))
            for at, (name, facts) in enumerate(one.columns.items(), 1)
        ]
        types = {name: facts.arrow_type for name, facts in one.columns.items()}
        made.append(Version(f"{one.names.label}@1", *one.names, columns, "inferred", types=types))
    return made


def column_types(versions: Sequence[Version], request: TableRequest) -> dict[str, pa.DataType]:
    """The requested columns. One whose type differs between versions is text. Raises CaptureError, which lists the
    known ones, for an unknown table or column."""
    of_table = [one for one in versions if request.name in (one.table_name, one.full_name)]
    if not of_table:
        raise no_table(request, (one.full_name or "" for one in versions))
    columns = (column for version in versions_of(of_table, request) for column in version.types.items())
    return common_types(columns, request)
