"""The content of the panes as plain values: rows of the list, the field tree, bytes, values, masks, the schema.

Captured text passes :func:`cdcwb.words.visible` here and is inserted into the page as text, never as markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from cdcwb.explore.records import Record
from cdcwb.filters import IMAGES
from cdcwb.formats.dissector import Field
from cdcwb.index.record_index import RecordIndex
from cdcwb.model import CHANGES, EVENTS, Kind, Problem, Severity
from cdcwb.words import clock, plural, visible

MOST_BYTES: Final = 1 << 16
"""Maximum number of bytes of a record that are shown; the page states how many are left out."""

MOST_FIELDS: Final = 4_000
"""Maximum number of fields that are shown."""

_VALUE: Final = 300
_SENTENCE: Final = 4_000
_CELL: Final = 400
_BIT: Final = re.compile(r"bit (\d+)\b")
_COLUMNS: Final = ("time", "kind", "operation", "type", "table", "transaction", "position", "offset", "length")


def _iso(time: datetime) -> str:
    """A time in the zone of the page, with microseconds."""
    wall = clock(time)[0]
    return wall if "." in wall else f"{wall}.000000"


def row_view(index: RecordIndex, row: int, mark: str | None) -> dict[str, Any]:
    """A row of the list of records. ``ended``: the end of its transaction, if the record has no time."""
    record = index.row(row, [name for name in _COLUMNS if name in index.columns])
    time = record["time"]
    ended = index.ended(row) if time is None else None
    shown = {name: None if value is None else visible(value, _CELL) for name, value in record.items()}
    shown["time"] = None if time is None else _iso(time)
    shown["ended"] = None if ended is None else _iso(ended)
    halves = (Kind.BEFORE, Kind.AFTER)
    parts = [shown["operation"]] if record["kind"] == Kind.CHANGE else [shown["kind"]]
    parts = [shown["operation"], shown["kind"]] if record["kind"] in halves else parts
    shown["what"] = " ".join(part for part in parts if part)
    problem = index.columns["problem"].value(row)
    known = [Problem(code).severity for code in (problem or "").split(", ") if code in set(Problem)]
    severity = None if problem is None else str(min(known, key=list(Severity).index, default=Severity.WARNING))
    return {**shown, "row": row, "problem": problem, "severity": severity, "mark": mark}


def record_view(index: RecordIndex, record: Record, change: Change | None, mark: str | None) -> dict[str, Any]:
    """The content of the panes for one record."""
    data = record.data
    event = record.event
    schema = schema_of(index, event["table_version"])
    problems = {(p["code"], p["sentence"]): p for p in index.problems_of(record.row)}  # each only once
    sentences = {p["sentence"] for p in problems.values()}
    note = "" if record.note in sentences else record.note
    return {
        "row": record.row,
        "title": visible(event["record_type"] or event["kind"] or "record", 80),
        "file": visible(re.split(r"[/\\]", str(event["file"]))[-1], 120),
        "offset": event["offset"],
        "length": event["length"],
        "unit": event["offset_unit"],
        "note": visible(note, _SENTENCE),
        "tree": tree_of(record.field, {*sentences, record.note}),
        "bytes": None if data is None else data[:MOST_BYTES].hex(),
        "bytes_left": 0 if data is None else max(0, len(data) - MOST_BYTES),
        "values": values_of(change, record, schema),
        "masks": masks_of(record, schema),
        "schema": schema,
        "problems": [{**p, "sentence": visible(p["sentence"], _SENTENCE)} for p in problems.values()],
        "mark": mark,
    }


def tree_of(root: Field, shown_elsewhere: Collection[str] = ()) -> dict[str, Any]:
    """A field tree as dictionaries: name, at, length, value, cut (whether the value is shortened), meaning (empty if it
    is in ``shown_elsewhere``), problem, quiet, children; ``left`` in the root is the number of fields that are left
    out."""
    room = [MOST_FIELDS]

    def node(field: Field) -> dict[str, Any]:
        room[0] -= 1
        children = []
        for child in field.children:
            if room[0] <= 0:
                break
            children.append(node(child))
        return {
            "name": visible(field.name, 120),
            "at": field.offset,
            "length": field.length,
            "value": _shown(field.value),
            "cut": _is_cut(field.value),
            "meaning": "" if field.meaning in shown_elsewhere else visible(field.meaning, _SENTENCE),
            "problem": field.problem,
            "quiet": field.quiet,
            "children": children,
        }

    tree = node(root)
    tree["left"] = sum(1 for _ in root.walk()) - (MOST_FIELDS - room[0])
    return tree


def values_of(change: Change | None, record: Record, schema: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The captured columns of the row with their values before and after, in the schema's order.

    ``before`` and ``after`` are None for NULL; ``has_before`` and ``has_after`` state whether they were captured. A
    column that is only in the key has its value in ``after``.
    """
    event = record.event
    before, after = ((event if change is None else change)[image] or {} for image in ("before", "after"))
    key = event["key"] or {}
    changed = set(event["changed_columns"] or ())
    names = dict.fromkeys([column["name"] for column in (schema or {}).get("columns", ())])
    names |= dict.fromkeys([*key, *before, *after])
    if not (before or after or key):
        return []
    is_update = bool(before) and bool(after)
    rows = []
    for name in names:
        alone = name in key and name not in before and name not in after
        if not alone and name not in before and name not in after:
            continue
        differs = name in changed or (is_update and name in before and name in after and before[name] != after[name])
        rows.append(
            {
                "name": visible(name, 120),
                "column": name,
                "before": _shown(before.get(name)),
                "after": _shown(key.get(name) if alone else after.get(name)),
                "before_cut": _is_cut(before.get(name)),
                "after_cut": _is_cut(key.get(name) if alone else after.get(name)),
                "has_before": name in before,
                "has_after": name in after or alone,
                "key": name in key,
                "alone": alone,
                "changed": differs,
            }
        )
    return rows


def _shown(value: Any) -> str | None:
    return None if value is None else visible(value, _VALUE)


def _is_cut(value: str | None) -> bool:
    return value is not None and len(visible(value, _VALUE + 1)) > _VALUE


def masks_of(record: Record, schema: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The masks of a record bit by bit: name, text as written, and bits with number, column, whether it is set, and a
    description. Header columns are included."""
    masks = []
    for field in record.field.walk():
        bits = [_bit(child, match) for child in field.children if (match := _BIT.match(child.meaning))]
        if bits:
            text = visible(field.value or "", _VALUE)
            masks.append(
                {"name": visible(field.name, 80), "text": text, "note": visible(field.meaning, 400), "bits": bits}
            )
    if masks or schema is None:
        return masks
    for name, columns in (("change_mask", "changed_columns"), ("column_mask", "present_columns")):
        text, chosen = record.event[name], record.event[columns]
        if text is not None and chosen is not None:
            bits = [
                {"bit": column["ordinal"], "column": column["name"], "set": column["name"] in chosen, "header": False}
                for column in schema["columns"]
            ]
            note = "the bits of header columns are not among the saved columns; numbers are those of the columns"
            masks.append({"name": name, "text": visible(text, _VALUE), "note": note, "bits": bits})
    return masks


def _bit(child: Field, match: re.Match[str]) -> dict[str, Any]:
    return {
        "bit": int(match.group(1)),
        "column": visible(child.name, 120),
        "set": not (child.value or "").startswith("not "),
        "header": "header column" in child.meaning,
    }


def schema_of(index: RecordIndex, version: str | None) -> dict[str, Any] | None:
    """The table version of a record: its name, its origin, its columns, and the other versions of the table; None if
    unknown."""
    version_row = index.versions.get(version) if version is not None else None
    if version_row is None:
        return None
    table = (version_row["schema_name"], version_row["table_name"])
    same_table = [
        name for name, other in index.versions.items() if (other["schema_name"], other["table_name"]) == table
    ]
    columns = [
        {
            **{name: column[name] for name in ("ordinal", "length", "precision", "scale", "nullable")},
            "name": visible(column["name"], 120),
            "type": visible(column["type"] or "", 80),
            "key": column["key_position"],
        }
        for column in version_row["columns"] or ()
    ]
    return {
        "version": visible(version, 120),
        "table": visible(".".join(name for name in table if name), 160),
        "origin": visible(version_row["origin"] or "", 80),
        "first_position": version_row["first_position"],
        "columns": columns,
        "others": [visible(name, 120) for name in same_table if name != version],
        "size": plural(len(columns), "column"),
    }


# --- copying ----------------------------------------------------------------------------------------------------------

Change = dict[str, Any]
"""An event with both images, the key and the changed columns of its change."""

_HALF: Final = "the other half of the update is not in the capture"
_NOTHING: Final = "this record changes no row"


def change_of(record: Record, half: Record | None) -> Change | None:
    """The change of a record, combined with the other half if it is one; None if it is not a change or the other half
    is missing."""
    event = record.event
    is_half = event["kind"] in (Kind.BEFORE, Kind.AFTER)
    if not (is_half or event["kind"] == Kind.CHANGE) or not event["table_name"] or (is_half and half is None):
        return None
    other = event if half is None else half.event
    changed = (event if event["kind"] != Kind.BEFORE else other)["changed_columns"]
    return event | {name: event[name] or other[name] for name in IMAGES} | {"changed_columns": changed}


def as_json(record: Record) -> str:
    """The event as JSON: its columns that are not null, times in ISO 8601, bytes as hex."""
    columns = {name: record.event[name] for name in EVENTS.names if record.event.get(name) is not None}
    return json.dumps(columns, indent=2, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else value.isoformat() if hasattr(value, "isoformat") else str(value)


def as_hex(record: Record) -> str:
    """The bytes as lines of offset, 16 bytes and their characters, in the format of ``xxd``; empty without bytes."""
    data = record.data or b""
    lines = []
    for at in range(0, len(data), 16):
        piece = data[at : at + 16]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in piece)
        pairs = " ".join(piece[two : two + 2].hex() for two in range(0, len(piece), 2))
        lines.append(f"{at:08x}: {pairs:<39}  {text}")
    return "\n".join(lines)


def as_xds(record: Record, change: Change | None) -> str:
    """The change of a record as an XDS document, or a comment with the reason why it has none."""
    from cdcwb.xds import documents
    from cdcwb.xds.changes import events_of_changes
    from cdcwb.xds.settings import Settings

    if change is None:
        reason = _HALF if record.event["kind"] in (Kind.BEFORE, Kind.AFTER) else _NOTHING
        return f"<!-- no XDS event: {reason} -->"
    row = {name: change.get(name) for name in CHANGES.names} | {"headers": None}
    row |= {name: list((row[name] or {}).items()) or None for name in IMAGES}
    rendered = events_of_changes(pa.Table.from_pylist([row], schema=CHANGES), Settings())
    if not len(rendered.events):
        reason = rendered.left_out["reason"][0].as_py()
        return f"<!-- no XDS event: {re.sub('-(?=-|$)', '- ', str(reason))} -->"
    ((_, document),) = documents(rendered.events)
    return document.decode()


COPIES: Final[dict[str, Callable[[Record, Change | None], str]]] = {
    "json": lambda record, _: as_json(record),
    "hex": lambda record, _: as_hex(record),
    "xds": as_xds,
}
"""The formats of copies: a function of the record and of its change, by name."""
