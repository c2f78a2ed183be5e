"""The content of the panes as plain values: rows of the list, the field tree, bytes, values, masks, the schema.

Captured text passes :func:`cdcwb.words.visible` here and is inserted into the page as text, never as markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from cdcwb.explore.records import Record
from cdcwb.formats.dissector import Field
from cdcwb.index.places import Index
from cdcwb.model import CHANGES, EVENTS, Kind, Operation, Problem, Severity
from cdcwb.words import clock, joined, plural, visible

__all__ = [
    "COPIES",
    "MOST_BYTES",
    "MOST_FIELDS",
    "Change",
    "as_hex",
    "as_json",
    "change_of",
    "record_view",
    "redo",
    "row_view",
    "schema_of",
    "undo",
    "values_of",
]


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


def row_view(index: Index, row: int, mark: str | None) -> dict[str, Any]:
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
    severity = None if problem is None else _severity(problem.split(", "))
    return {**shown, "row": row, "problem": problem, "severity": severity, "mark": mark}


def _severity(codes: list[str]) -> str:
    known = [Problem(code).severity for code in codes if code in set(Problem)]
    return str(min(known, key=list(Severity).index, default=Severity.WARNING))


def record_view(index: Index, record: Record, change: Change | None, mark: str | None) -> dict[str, Any]:
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
    before = (change.before if change is not None else event["before"]) or {}
    after = (change.after if change is not None else event["after"]) or {}
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


def schema_of(index: Index, version: str | None) -> dict[str, Any] | None:
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
            "ordinal": column["ordinal"],
            "name": visible(column["name"], 120),
            "type": visible(column["type"] or "", 80),
            "length": column["length"],
            "precision": column["precision"],
            "scale": column["scale"],
            "key": column["key_position"],
            "nullable": column["nullable"],
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

Image = Mapping[str, str | None]
_ROWS: Final = (Operation.INSERT, Operation.REFRESH, Operation.UPDATE, Operation.DELETE)
_HALF: Final = "the other half of the update is not in the capture"
_NOTHING: Final = "this record changes no row"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one row. ``columns`` are those of its table version, in order; empty if unknown."""

    operation: str
    schema: str | None
    table: str
    key: Image | None
    before: Image | None
    after: Image | None
    changed: list[str] | None
    columns: tuple[str, ...]
    event: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The table as an SQL identifier."""
        return ".".join(_name(part) for part in (self.schema, self.table) if part)


def change_of(record: Record, half: Record | None, columns: Iterable[str] = ()) -> Change | None:
    """The change of a record, combined with the other half if it is one; None if it is not a change or the other half
    is missing.

    ``columns`` are the names of the columns of its table version.
    """
    event = record.event
    if event["kind"] not in (Kind.CHANGE, Kind.BEFORE, Kind.AFTER) or not event["table_name"]:
        return None
    before, after, changed, key = event["before"], event["after"], event["changed_columns"], event["key"]
    if event["kind"] in (Kind.BEFORE, Kind.AFTER):
        if half is None:
            return None
        other = half.event
        before, after = (before or other["before"], after or other["after"])
        changed = changed if event["kind"] == Kind.AFTER else other["changed_columns"]
        key = key or other["key"]
    return Change(
        str(event["operation"]),
        event["schema_name"],
        event["table_name"],
        key or None,
        before,
        after,
        changed,
        tuple(columns),
        event,
    )


# --- SQL --------------------------------------------------------------------------------------------------------------


def redo(change: Change) -> str:
    """The SQL statement that repeats the change, or a comment that states what is unknown."""
    if change.operation in (Operation.INSERT, Operation.REFRESH):
        if change.after is None:
            return _unknown("the after image was not captured")
        return _insert(change, change.after, "the after image")
    if change.operation == Operation.UPDATE:
        names = _changed(change)
        if change.after is None or not names:
            return _unknown("no column is known to have changed")
        missing = [name for name in names if name not in change.after]
        if missing:
            return _unknown(f"the after image has no {_listed(missing)}")
        return _update(change, {name: change.after[name] for name in names}, _old_key(change))
    if change.operation == Operation.DELETE:
        return _delete(change, _old_key(change))
    if change.operation == Operation.TRUNCATE:
        return f"TRUNCATE TABLE {change.name};"
    return _unknown(f"{change.operation} does not change a row")


def undo(change: Change) -> str:
    """The SQL statement that reverts the change, or a comment that states what is unknown."""
    if change.operation in (Operation.INSERT, Operation.REFRESH):
        return _delete(change, _new_key(change))
    if change.operation == Operation.UPDATE:
        names = _changed(change)
        if not names:
            return _unknown("no column is known to have changed")
        missing = [name for name in names if name not in (change.before or {})]
        if change.before is None or missing:
            return _unknown(f"the before image has no {_listed(missing)}" if change.before else "no before image")
        return _update(change, {name: change.before[name] for name in names}, _new_key(change))
    if change.operation == Operation.DELETE:
        missing = [name for name in change.columns if name not in (change.before or {})]
        if change.before is None or missing:
            return _unknown(f"the before image has no {_listed(missing)}" if change.before else "no before image")
        return _insert(change, change.before, "the before image")
    if change.operation == Operation.TRUNCATE:
        return _unknown("the rows that a TRUNCATE takes away are not in the capture")
    return _unknown(f"{change.operation} does not change a row")


def _insert(change: Change, image: Image, what: str) -> str:
    if not image:
        return _unknown(f"{what} has no columns")
    missing = [name for name in change.columns if name not in image]
    note = f"-- not captured, and so left to their defaults: {_listed(missing)}\n" if missing else ""
    names = ", ".join(map(_name, image))
    return f"{note}INSERT INTO {change.name} ({names})\nVALUES ({', '.join(map(_value, image.values()))});"


def _update(change: Change, values: Image, identifier: tuple[Image, str] | None) -> str:
    if identifier is None:
        return _unknown("the capture does not identify the row")
    pairs = ",\n    ".join(f"{_name(name)} = {_value(value)}" for name, value in values.items())
    return f"{identifier[1]}UPDATE {change.name}\nSET {pairs}\nWHERE {_where(identifier[0])};"


def _delete(change: Change, identifier: tuple[Image, str] | None) -> str:
    if identifier is None:
        return _unknown("the capture does not identify the row")
    return f"{identifier[1]}DELETE FROM {change.name}\nWHERE {_where(identifier[0])};"


def _old_key(change: Change) -> tuple[Image, str] | None:
    """The identifier of the row before the change: its key, else its complete image, with a comment about it."""
    return _identifier(change, change.before, own=change.operation == Operation.DELETE)


def _new_key(change: Change) -> tuple[Image, str] | None:
    """The identifier of the row after the change."""
    return _identifier(change, change.after, own=True)


def _identifier(change: Change, image: Image | None, *, own: bool) -> tuple[Image, str] | None:
    if change.key:
        if image is not None and all(name in image for name in change.key):
            return {name: image[name] for name in change.key}, ""
        if own or image is None or not set(change.key) & set(_changed(change)):
            return dict(change.key), ""
        return None
    if not image:
        return None
    return dict(image), "-- no key is known: WHERE has the complete image, which may match several rows\n"


def _changed(change: Change) -> list[str]:
    """The columns that an update changed, as far as known."""
    if change.changed is not None:
        return list(change.changed)
    before, after = change.before or {}, change.after or {}
    known = [name for name in after if name not in (change.key or {}) or name in before]
    return [name for name in known if name not in before or before[name] != after[name]]


def _where(image: Image) -> str:
    return "\n  AND ".join(
        f"{_name(name)} IS NULL" if value is None else f"{_name(name)} = {_value(value)}"
        for name, value in image.items()
    )


def _name(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _value(value: str | None) -> str:
    if value is None:
        return "NULL"
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


def _listed(names: list[str]) -> str:
    return joined([visible(name, 60) for name in names])


def _unknown(reason: str) -> str:
    return f"-- not known: {reason}"


# --- JSON, hex and XDS ------------------------------------------------------------------------------------------------


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


def as_xds(change: Change) -> str:
    """The change as an XDS document, or a comment with the reason why it has none."""
    from cdcwb.xds import documents
    from cdcwb.xds.changes import events_of_changes
    from cdcwb.xds.settings import Settings

    row: dict[str, Any] = {name: change.event.get(name) for name in CHANGES.names}
    images = {"key": change.key, "before": change.before, "after": change.after}
    row |= {name: None if image is None else list(image.items()) for name, image in images.items()}
    row |= {"headers": None, "changed_columns": change.changed}
    rendered = events_of_changes(pa.Table.from_pylist([row], schema=CHANGES), Settings())
    if not len(rendered.events):
        reason = rendered.left_out["reason"][0].as_py()
        return f"<!-- no XDS event: {re.sub('-(?=-|$)', '- ', str(reason))} -->"
    ((_, document),) = documents(rendered.events)
    return document.decode()


def _of_change(make: Callable[[Change], str], instead: str) -> Callable[[Record, Change | None], str]:
    def made(record: Record, change: Change | None) -> str:
        if change is not None:
            return make(change)
        return instead.format(_HALF if record.event["kind"] in (Kind.BEFORE, Kind.AFTER) else _NOTHING)

    return made


COPIES: Final[dict[str, Callable[[Record, Change | None], str]]] = {
    "json": lambda record, _: as_json(record),
    "hex": lambda record, _: as_hex(record),
    "redo": _of_change(redo, "-- not known: {}"),
    "undo": _of_change(undo, "-- not known: {}"),
    "xds": _of_change(as_xds, "<!-- no XDS event: {} -->"),
}
"""The formats of copies: a function of the record and of its change, by name."""
