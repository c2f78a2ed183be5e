"""Control tables: what their rows say, and the versions of DDL history (docs/formats/qlik-change-table.md §6)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from cdcwb.formats.qlik_change_table import sentences
from cdcwb.formats.qlik_change_table.facts import (
    CONTROL_TIMES,
    DDL_HISTORY,
    DDL_TRUNCATE,
    EXCEPTIONS,
)
from cdcwb.formats.qlik_change_table.layout import Layout
from cdcwb.formats.qlik_change_table.names import TableName
from cdcwb.formats.qlik_change_table.side_files import Column, column
from cdcwb.model import Operation, Problem

__all__ = ["ControlRow", "Ddl", "apply_ddl", "by_name", "control_row", "ddl_of"]

_MOST_COLUMNS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class ControlRow:
    """What a row of a control table says: the table that it is about, and when (as text)."""

    name: TableName | None
    operation: str | None
    position: str | None
    time: str | None
    problem: tuple[Problem, str] | None


def control_row(control: str, row: Mapping[str, str | None]) -> ControlRow:
    """Reads a row; ``row`` maps its columns in lower case to their texts."""
    table, owner = row.get("table_name"), row.get("table_owner")
    name = TableName(owner or None, table) if table else None
    operation = position = problem = None
    if control == DDL_HISTORY:
        kind = (row.get("ddl_type") or "").upper()
        operation = str(Operation.TRUNCATE if kind == DDL_TRUNCATE else Operation.DDL)
        position = row.get("change_seq") or None
    elif control == EXCEPTIONS:
        label = name.label if name else "a table without a name"
        problem = sentences.refused(label, row.get("statement"), row.get("error"))
    return ControlRow(name, operation, position, row.get(CONTROL_TIMES.get(control, "")) or None, problem)


# --- DDL history ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ddl:
    """One row of DDL history: which table, what was done to which columns, and where the row stands."""

    name: TableName
    new_name: str | None
    version: int | None
    position: str | None
    kind: str
    changes: tuple[tuple[str, str, str | None, Column], ...]  # old name, action, new name, what it is then
    text: str
    file_index: int
    offset: int
    length: int
    problem: str | None = None


def ddl_of(row: Mapping[str, str | None], place: tuple[int, int, int]) -> Ddl | None:
    """A row of DDL history, or None for one that tells of no table. Never raises: what cannot be read of ``DETAILS``
    stands in ``problem``."""
    name = control_row(DDL_HISTORY, row).name
    if name is None:
        return None
    text = row.get("details") or ""
    details, problem = _details(text)
    changes, wrong = _changes(details.get("columns"))
    version = row.get("table_version") or ""
    return Ddl(
        name,
        _text(details.get("tableNewName")),
        int(version) if version.isdecimal() and len(version) < 10 else None,
        row.get("change_seq") or None,
        (row.get("ddl_type") or "").upper(),
        changes,
        text,
        *place,
        problem or wrong,
    )


def _details(text: str) -> tuple[Mapping[str, Any], str | None]:
    if not text.strip():
        return {}, None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as reason:
        return {}, f"DETAILS: expected a JSON object, found {str(reason) or 'one nested too deeply'}"
    return (found, None) if isinstance(found, dict) else ({}, "DETAILS: expected a JSON object, found another value")


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _changes(raw: Any) -> tuple[tuple[tuple[str, str, str | None, Column], ...], str | None]:
    if raw is None:
        return (), None
    if not isinstance(raw, dict) or len(raw) > _MOST_COLUMNS:
        return (), "DETAILS.columns: expected an object of columns"
    found = []
    for name, one in raw.items():
        if not isinstance(one, dict):
            return (), f"DETAILS.columns: expected an object as column {name!r:.60}"
        ordinal = one.get("ordinal")
        place = ordinal if isinstance(ordinal, int) and 0 < ordinal <= _MOST_COLUMNS else 0
        what = column(place, name, one, "primaryKeyPosition")
        found.append((name, (_text(one.get("action")) or "ALTER").upper(), _text(one.get("columnNewName")), what))
    return tuple(found), None


def apply_ddl(columns: Sequence[Column], ddl: Ddl) -> list[Column]:
    """The columns of a table after a DDL: those before with what was added, dropped or altered (§6.1).

    Names are compared without case, and what an ALTER does not say stays as it was.
    """
    after = [] if ddl.kind == "CREATE_TABLE" else list(columns)
    for old, action, new, what in sorted(ddl.changes, key=lambda change: change[3].ordinal):
        at = next((place for place, one in enumerate(after) if one.name.casefold() == old.casefold()), None)
        if action == "DROP":
            if at is not None:
                del after[at]
        elif at is not None:
            after[at] = _altered(after[at], what, new)
        else:
            added = replace(what, name=new or old)
            after.insert(what.ordinal - 1 if 0 < what.ordinal <= len(after) else len(after), added)
    return [replace(one, ordinal=place) for place, one in enumerate(after, 1)]


def _altered(before: Column, what: Column, new: str | None) -> Column:
    def changed(name: str) -> Any:
        value = getattr(what, name)
        return getattr(before, name) if value is None else value

    kept = {name: changed(name) for name in ("type", "length", "precision", "scale", "key_position", "nullable")}
    return replace(before, name=new or before.name, **kept)


def by_name(layout: Layout, texts: Sequence[str | None]) -> dict[str, str | None]:
    """A row of a control table with its columns in lower case."""
    return dict(zip((name.casefold() for name in layout.names), texts, strict=True))
