"""A record as text to take away: JSON, hex, the SQL that does it again or takes it back, an XDS document.

The SQL is for reading and never run here. Values are text literals, since a capture's images are texts; names stand in
double quotes. What was not captured is never taken for NULL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from cdcwb.explore.records import Record
from cdcwb.model import CHANGES, EVENTS, Kind, Operation
from cdcwb.words import joined, visible

__all__ = ["COPIES", "Change", "as_hex", "as_json", "as_xds", "change_of", "redo", "undo"]

Image = Mapping[str, str | None]
_ROWS: Final = (Operation.INSERT, Operation.REFRESH, Operation.UPDATE, Operation.DELETE)
_HALF: Final = "the other half of the update is not in the capture"
_NOTHING: Final = "this record changes no row"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one row. ``columns`` are those of its table version, in order; empty: not known."""

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
        """The table as SQL names it."""
        return ".".join(_name(part) for part in (self.schema, self.table) if part)


def change_of(record: Record, half: Record | None, columns: Iterable[str] = ()) -> Change | None:
    """The change that a record is, with the other half where it is one; None where it is no change or that is missing.

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
    """The statement that does the change again, or a comment that says what is not known."""
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
    """The statement that takes the change back, or a comment that says what is not known."""
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


def _update(change: Change, values: Image, found: tuple[Image, str] | None) -> str:
    if found is None:
        return _unknown("the capture does not identify the row")
    pairs = ",\n    ".join(f"{_name(name)} = {_value(value)}" for name, value in values.items())
    return f"{found[1]}UPDATE {change.name}\nSET {pairs}\nWHERE {_where(found[0])};"


def _delete(change: Change, found: tuple[Image, str] | None) -> str:
    if found is None:
        return _unknown("the capture does not identify the row")
    return f"{found[1]}DELETE FROM {change.name}\nWHERE {_where(found[0])};"


def _old_key(change: Change) -> tuple[Image, str] | None:
    """What the row was known by before the change: its key, else its whole image, with a comment that says so."""
    return _found(change, change.before, own=change.operation == Operation.DELETE)


def _new_key(change: Change) -> tuple[Image, str] | None:
    """What the row is known by after the change."""
    return _found(change, change.after, own=True)


def _found(change: Change, image: Image | None, *, own: bool) -> tuple[Image, str] | None:
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
    """The columns that an update changed, as far as that can be told."""
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


# --- the others -------------------------------------------------------------------------------------------------------


def as_json(record: Record) -> str:
    """The event as JSON: its columns that are not null, times in ISO 8601, bytes as hex."""
    told = {name: record.event[name] for name in EVENTS.names if record.event.get(name) is not None}
    return json.dumps(told, indent=2, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else value.isoformat() if hasattr(value, "isoformat") else str(value)


def as_hex(record: Record) -> str:
    """The bytes as lines of an offset, 16 bytes and their characters, as ``xxd`` writes them; empty without bytes."""
    data = record.data or b""
    lines = []
    for at in range(0, len(data), 16):
        piece = data[at : at + 16]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in piece)
        pairs = " ".join(piece[two : two + 2].hex() for two in range(0, len(piece), 2))
        lines.append(f"{at:08x}: {pairs:<39}  {text}")
    return "\n".join(lines)


def as_xds(change: Change) -> str:
    """The change as an XDS document, or a comment that says why it is none."""
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
"""How a record is copied: by name, a function of the record and of the change that it is."""
