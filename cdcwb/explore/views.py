"""What the panes show, as plain values: rows of a page, the field tree, bytes, values, masks, the schema.

Everything captured passes :func:`cdcwb.words.visible` here and is put on the page as text, never as markup.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime
from typing import Any, Final

from cdcwb.explore.copying import Change
from cdcwb.explore.records import Record
from cdcwb.formats.base import Field
from cdcwb.index.places import Index
from cdcwb.model import Kind, Problem, Severity
from cdcwb.words import clock, plural, visible

__all__ = ["MOST_BYTES", "MOST_FIELDS", "masks_of", "record_view", "row_view", "schema_of", "tree_of", "values_of"]

MOST_BYTES: Final = 1 << 16
"""So many bytes of a record are shown; how many more there are is said."""

MOST_FIELDS: Final = 4_000
"""And so many fields."""

_VALUE: Final = 300
_SENTENCE: Final = 4_000
_CELL: Final = 400
_BIT: Final = re.compile(r"bit (\d+)\b")
_COLUMNS: Final = ("time", "kind", "operation", "type", "table", "transaction", "position", "offset", "length")


def _told(time: datetime) -> str:
    """A time in the zone of the page, with all its microseconds."""
    wall = clock(time)[0]
    return wall if "." in wall else f"{wall}.000000"


def row_view(index: Index, row: int, mark: str | None) -> dict[str, Any]:
    """A line of the list of records. ``ended``: when its transaction ended, where it has no time of its own."""
    found = index.row(row, [name for name in _COLUMNS if name in index.columns])
    time = found["time"]
    ended = index.ended(row) if time is None else None
    shown = {name: None if value is None else visible(value, _CELL) for name, value in found.items()}
    shown["time"] = None if time is None else _told(time)
    shown["ended"] = None if ended is None else _told(ended)
    halves = (Kind.BEFORE, Kind.AFTER)
    parts = [shown["operation"]] if found["kind"] == Kind.CHANGE else [shown["kind"]]
    parts = [shown["operation"], shown["kind"]] if found["kind"] in halves else parts
    shown["what"] = " ".join(part for part in parts if part)
    problem = index.columns["problem"].value(row)
    severity = None if problem is None else _severity(problem.split(", "))
    return {**shown, "row": row, "problem": problem, "severity": severity, "mark": mark}


def _severity(codes: list[str]) -> str:
    known = [Problem(code).severity for code in codes if code in set(Problem)]
    return str(min(known, key=list(Severity).index, default=Severity.WARNING))


def record_view(index: Index, record: Record, change: Change | None, mark: str | None) -> dict[str, Any]:
    """Everything that the panes below the list show of one record."""
    data = record.data
    event = record.event
    schema = schema_of(index, event["table_version"])
    problems = {(one["code"], one["sentence"]): one for one in index.problems_of(record.row)}  # each once
    sentences = {one["sentence"] for one in problems.values()}
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
        "problems": [{**one, "sentence": visible(one["sentence"], _SENTENCE)} for one in problems.values()],
        "mark": mark,
    }


def tree_of(root: Field, said: Collection[str] = ()) -> dict[str, Any]:
    """A field tree as dictionaries: name, at, length, value, cut (whether the value is longer), meaning (empty where it
    is ``said`` elsewhere on the page), problem, quiet, children; ``left`` in the root is how many fields were left out
    for their number."""
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
            "meaning": "" if field.meaning in said else visible(field.meaning, _SENTENCE),
            "problem": field.problem,
            "quiet": field.quiet,
            "children": children,
        }

    tree = node(root)
    tree["left"] = sum(1 for _ in root.walk()) - (MOST_FIELDS - room[0])
    return tree


def values_of(change: Change | None, record: Record, schema: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The columns of the row that were captured, with their values before and after, in the schema's order.

    ``before`` and ``after`` are None for NULL; ``has_before`` and ``has_after`` tell what was captured. A column of
    the key alone has its value in ``after``.
    """
    event = record.event
    before = (change.before if change is not None else event["before"]) or {}
    after = (change.after if change is not None else event["after"]) or {}
    key = event["key"] or {}
    changed = set(event["changed_columns"] or ())
    names = dict.fromkeys([one["name"] for one in (schema or {}).get("columns", ())])
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
    """The masks of a record bit by bit: name, text as it was written, and bits with number, column, whether it is set,
    and what is said of it. Header columns are among the bits."""
    found = []
    for field in record.field.walk():
        bits = [_bit(child, match) for child in field.children if (match := _BIT.match(child.meaning))]
        if bits:
            text = visible(field.value or "", _VALUE)
            found.append(
                {"name": visible(field.name, 80), "text": text, "note": visible(field.meaning, 400), "bits": bits}
            )
    if found or schema is None:
        return found
    for name, columns in (("change_mask", "changed_columns"), ("column_mask", "present_columns")):
        text, chosen = record.event[name], record.event[columns]
        if text is not None and chosen is not None:
            bits = [
                {"bit": one["ordinal"], "column": one["name"], "set": one["name"] in chosen, "header": False}
                for one in schema["columns"]
            ]
            note = "the bits of header columns are not among the saved columns; numbers are those of the columns"
            found.append({"name": name, "text": visible(text, _VALUE), "note": note, "bits": bits})
    return found


def _bit(child: Field, match: re.Match[str]) -> dict[str, Any]:
    return {
        "bit": int(match.group(1)),
        "column": visible(child.name, 120),
        "set": not (child.value or "").startswith("not "),
        "header": "header column" in child.meaning,
    }


def schema_of(index: Index, version: str | None) -> dict[str, Any] | None:
    """The table version in force for a record: its name, where it came from, its columns, and the other versions of the
    table; None where no version is known."""
    found = index.versions.get(version) if version is not None else None
    if found is None:
        return None
    table = (found["schema_name"], found["table_name"])
    others = [name for name, one in index.versions.items() if (one["schema_name"], one["table_name"]) == table]
    columns = [
        {
            "ordinal": one["ordinal"],
            "name": visible(one["name"], 120),
            "type": visible(one["type"] or "", 80),
            "length": one["length"],
            "precision": one["precision"],
            "scale": one["scale"],
            "key": one["key_position"],
            "nullable": one["nullable"],
        }
        for one in found["columns"] or ()
    ]
    return {
        "version": visible(version, 120),
        "table": visible(".".join(name for name in table if name), 160),
        "origin": visible(found["origin"] or "", 80),
        "first_position": found["first_position"],
        "columns": columns,
        "others": [visible(name, 120) for name in others if name != version],
        "size": plural(len(columns), "column"),
    }
