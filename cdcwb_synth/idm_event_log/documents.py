"""Published rows as the events of documents (``docs/formats/idm-event-log.md §5``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from cdcwb_synth.idm_event_log.contents import Current
from cdcwb_synth.idm_event_log.keys import SPECIAL, bare, parsed
from cdcwb_synth.idm_event_log.publisher import Decided, Driver

__all__ = ["EVENT", "events"]

EVENT: Final = pa.schema(
    [
        ("document", pa.int64()),
        ("event", pa.int64()),
        ("verb", pa.string()),
        ("class_name", pa.string()),
        ("association", pa.string()),
        (
            "attrs",
            pa.list_(
                pa.struct(
                    [
                        ("name", pa.string()), ("type", pa.string()), ("remove_all", pa.bool_()),
                        ("remove", pa.string()), ("add", pa.string()),
                    ]
                )
            ),
        ),
    ]
)  # fmt: skip
"""The columns of the events: what is done to an object, and with which attributes."""


def events(
    decided: Iterable[Decided], driver: Driver, tables: Mapping[str, Current], schema: str | None, octets: set[str]
) -> Iterator[dict[str, Any]]:
    """The events in the order of their publication. ``schema`` is that of tables that are named without one; columns in
    ``octets`` hold bytes."""
    published = sorted((one for one in decided if one.event is not None), key=lambda one: one.ordinal)
    for _, rows in groupby(published, lambda one: one.event):
        yield _event([*rows], driver, tables, schema, octets)


def _event(
    rows: Sequence[Decided], driver: Driver, tables: Mapping[str, Current], schema: str | None, octets: set[str]
) -> dict[str, Any]:
    first = rows[0]
    name, key = first.row.table_name or "", first.row.table_key or ""
    owner, _, table = name.rpartition(".")
    verb = driver.verb(first.kind or 0)
    association = f"{key},table={_quoted(table)}"
    if owner or schema:
        association += f",schema={_quoted(owner or schema or '')}"
    attrs: list[dict[str, Any]] = []
    asked: set[str | None] = set()
    for one in rows:
        for column, remove_all, remove, add in _attributes(one, verb, tables.get(name), asked):
            kind = "octet" if column in octets else "string"
            attrs.append({"name": column, "type": kind, "remove_all": remove_all, "remove": remove, "add": add})
    return {
        "document": first.document, "event": first.event, "verb": verb, "class_name": table,
        "association": association, "attrs": attrs,
    }  # fmt: skip


def _quoted(text: str) -> str:
    if SPECIAL.isdisjoint(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


Attribute = tuple[str, bool, str | None, str | None]


def _attributes(one: Decided, verb: str, table: Current | None, asked: set[str | None]) -> list[Attribute]:
    """The attributes of one row: name, whether all values go, the value that goes, the value that comes. ``asked``:
    the columns, or None for all, whose contents another row of the event has asked for already."""
    row, column = one.row, one.row.column_name or ""
    match one.kind:
        case 1:
            return [] if row.new_value is None else [(column, False, None, row.new_value)]
        case 2:
            return [(column, False, row.old_value, row.new_value)]
        case 3:
            return [(column, True, None, row.new_value)]
        case 4:
            return []
    assert table is not None
    pairs = parsed(row.table_key or "") or ()
    contents = table.rows[frozenset((bare(name), value) for name, value in pairs)]
    about = None if one.kind in (5, 6) else column
    if about in asked:
        return []
    asked.add(about)
    found = [cell for cell in zip(table.names, contents, strict=True) if about in (None, cell[0])]
    if verb == "add":
        return [(name, False, None, value) for name, value in found if value is not None]
    return [(name, True, None, value) for name, value in found]
