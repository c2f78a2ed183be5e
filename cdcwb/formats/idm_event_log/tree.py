"""One row of a log as a tree of fields with offset, bytes, value and meaning (docs/formats/idm-event-log.md). Values
and problems are those of its event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from cdcwb.formats.containers.rows import Cell
from cdcwb.formats.dissector import Field, TextPart
from cdcwb.formats.idm_event_log.decode import TableKeyError, numbers_of, parse, parts
from cdcwb.formats.idm_event_log.events import WRITTEN, split_name
from cdcwb.formats.idm_event_log.layout import EVENT_TYPES, STATUSES, TITLES, EventType
from cdcwb.formats.table_rows import cell_field, problem_of
from cdcwb.words import moment, visible


def dissect(
    record: bytes, cells: Sequence[Cell], names: Mapping[str, str], event: Mapping[str, Any], schema: str | None
) -> Field:
    """The field tree of a row, of which ``cells`` are the columns in byte order. ``names``: by the source's names in
    lower case, the vendor's names of its columns; ``schema``: that of tables without one in their name. Never
    raises."""
    row = dict(event["headers"])
    what = EVENT_TYPES.get(numbers_of(pa.array([row.get("event_type")], pa.string()))[0].as_py())
    fields = []
    for cell in cells:
        name = names.get(cell.name.casefold())
        if name is None:
            fields.append(cell_field(record, cell, "a column that an event log does not have"))
            continue
        text = row.get(name)
        code, sentences = problem_of(event, name)
        meaning = _meaning(name, text, what, event, schema)
        meaning = "; ".join([f"{TITLES[name]}: {meaning}" if meaning else TITLES[name], *sentences])
        inside = _parts_of_key(text) if text and name == "table_key" else []
        inside = _parts_of_name(text) if text and name == "table_name" else inside
        fields.append(cell_field(record, cell, meaning, inside, code))
    code = event["problems"][0]["code"] if event["problems"] else None
    return Field("row", 0, len(record), record, None, _row_meaning(row, what), tuple(fields), code)


def _row_meaning(row: Mapping[str, str | None], what: EventType | None) -> str:
    if what is None:
        return "an event of an unknown type"
    column = f", column {visible(row['column_name'], 60)}" if what.per_field and row.get("column_name") else ""
    return f"{what.name}: {what.meaning} ({visible(row.get('table_name') or 'no table', 60)}{column})"


def _meaning(
    name: str, text: str | None, what: EventType | None, event: Mapping[str, Any], of_schema: str | None
) -> str:
    """What the value of a column means."""
    null = "NULL" if text is None else ""
    match name:
        case "record_id":
            return f"position {event['position']}" if event.get("position") else ""
        case "table_key":
            try:
                pairs = parse(text or "")
            except TableKeyError:
                return ""
            return " and ".join(f"{visible(column, 40)} is {visible(value, 40)!r}" for column, value in pairs)
        case "status":
            return STATUSES.get(text or "", "reserved: the Publisher skips the row")
        case "event_type":
            return "not known" if what is None else f"{what.name}, XDS {what.verb}"
        case "event_time":
            time = event.get("changed_at")
            return "" if time is None else moment(time)
        case "perpetrator":
            return f"{null}, so not the driver's own user" if null else "loopback if it is the driver's own user"
        case "table_name":
            schema, table = split_name(text, of_schema)
            shown = "" if schema is None else f" of schema {visible(schema, 60)}"
            return "" if table is None else f"{visible(table, 60)}{shown}"
        case "column_name":
            used = what is None or what.per_field
        case _:
            used = what is None or what.number in WRITTEN[name]
    return null if used or what is None else f"not used by an event of type {what.number}"


# --- what is inside a column ------------------------------------------------------------------------------------------


def _parts_of_key(text: str) -> list[TextPart]:
    found: list[TextPart] = []
    plus = TextPart("+", "+", None, "", quiet=True)
    pairs, error = parts(text)
    for number, (name, value) in enumerate(pairs, start=1):
        if found:
            found.append(plus)
        ((_, plain),) = parse(f"{name}={value}")
        found += [
            TextPart("column", name, name, f"column {number} of the key"),
            TextPart("=", "=", None, "", quiet=True),
            TextPart("value", value, plain, "in quotes; escapes are decoded" if value.startswith('"') else ""),
        ]
    if error is not None:
        if found:
            found.append(plus)
        at = sum(len(piece.text) for piece in found)
        good, rest = text[at : error.position], text[error.position :]
        found += [TextPart("so far", good, good, "by the grammar")] if good else []
        found.append(TextPart("error", rest, rest, str(error), problem="table_key"))
    return found


def _parts_of_name(text: str) -> list[TextPart]:
    schema, table = split_name(text, None)
    if schema is None or table is None:
        return []
    return [
        TextPart("schema", schema, schema, "the schema or owner"),
        TextPart(".", ".", None, "", quiet=True),
        TextPart("table", table, table, "the table or view"),
    ]
