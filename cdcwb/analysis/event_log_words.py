"""The words of the page on an event log: its cards, its settings, the cost of its categories of event types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from cdcwb.formats.idm_event_log.layout import EVENT_TYPES
from cdcwb.model import Operation
from cdcwb.words import count, joined, moment, plural, tally, visible
from cdcwb.xds import SETTINGS, Decision, Settings

__all__ = [
    "TYPES",
    "cards",
    "effects_said",
    "given",
    "matrix",
    "said",
    "settings_said",
    "trade_offs",
    "types_used",
    "with_object",
]

Records = list[dict[str, Any]]

TYPES: Final[dict[int | None, str]] = {number: f"{number} {one.name}" for number, one in EVENT_TYPES.items()}
"""The event types by their numbers, with these; at last None, which is none of them."""

TYPES[None] = "none of the eight"

OPERATIONS: Final[dict[str | None, str]] = {str(one): str(one) for one in Operation}
"""The operations of changes, in their order."""

_LEFT: Final = {str(one): str(one).replace("_", " ") for one in Decision} | {
    "needs_snapshot": "needs a snapshot",
    "left_out": "left out",
}
_DELETES: Final = "per row"


def said(records: Iterable[Mapping[str, Any]]) -> Records:
    """The records with their decisions in words."""
    return [{**record, "decision": _LEFT.get(record["decision"], record["decision"])} for record in records]


def with_object(records: Iterable[Mapping[str, Any]], table: str = "table_name") -> Records:
    """The records with their object, table and key, as ``scope``."""
    return [
        {**record, "scope": " ".join(record[name] for name in (table, "table_key") if record[name] is not None) or None}
        for record in records
    ]


def cards(facts: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The figures on top: title, value and a line below it each. ``facts`` are those of a page."""
    log = "objects" in facts
    decisions = {name.removeprefix("decisions_"): facts[name] for name in facts if name.startswith("decisions_")}
    published, rows = decisions.pop("published"), facts["rows"]
    share = f"{_percent(published, rows)} of them" if rows else ""
    shown = [
        (
            "rows" if log else "changes",
            count(rows),
            f"of {plural(facts['objects'], 'object')}" if log else "of the capture",
        ),
        ("published", count(published), share),
        ("documents", count(facts["documents"]), f"with {plural(facts['events'], 'event')}"),
    ]
    notes = {
        "skipped": "not new, or the driver's own",
        "overridden": "overridden by a query-back row",
        "no_effect": "the object is gone, or nothing to write",
        "needs_snapshot": "their values are only in the table",
        "waiting": "their event_time is later than as_of",
        "invalid": "break a rule of the log",
        "left_out": "not committed, without a key, or no row",
    }
    shown += [(_LEFT[name], count(decisions[name]), note) for name, note in notes.items() if decisions.get(name)]
    return shown


def _percent(some: int, all_: int) -> str:
    """A share in per cent without decimals; 0 and 100 only if they are exact."""
    return f"{some / all_:.0%}" if some in (0, all_) else f"{min(max(some / all_, 0.01), 0.99):.0%}"


def given(settings: Settings, tables: Iterable[str], log: bool = True) -> list[str]:
    """What the decisions rest on, and what was not given."""
    if not log:
        return []
    names = sorted(tables)
    user = settings.driver_user
    shown = joined([visible(name, 40) for name in names[:8]] + ([f"{len(names) - 8} more"] if len(names) > 8 else []))
    return [
        f"The driver's database user is {visible(user, 80)}."
        + (" Its changes are published too (allow_loopback)." if settings.allow_loopback else "")
        if user is not None
        else "No database user of the driver is given, so no row counts as the driver's own (driver_user).",
        f"Query-back rows are published with the current rows of: {shown}."
        if names
        else "No snapshot of the tables is given; query-back rows need one (snapshot).",
    ]


def settings_said(settings: Settings, tables: Mapping[str, str]) -> Records:
    """Every setting with its value, and the files of the snapshot."""
    rows = [{"setting": name, "value": _value(getattr(settings, name)), "about": SETTINGS[name]} for name in SETTINGS]
    about = "current rows of the table"
    return rows + [{"setting": f"snapshot {table}", "value": file, "about": about} for table, file in tables.items()]


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {text}" for name, text in value.items()) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return moment(value)
    return "not given" if value is None else str(value)


def matrix(counts: Iterable[Mapping[str, Any]], kind: str) -> tuple[Records, dict[str, str]]:
    """Counts by ``kind`` (down) and decision (across), and the headings of its columns; zero is null."""
    counts = list(counts)
    decisions = [name for name in _LEFT if any(row["decision"] == name for row in counts)]
    rows: dict[Any, dict[str, Any]] = {}
    for row in counts:
        name = row[kind]
        words = TYPES.get(name) or "?" if kind == "event_type" else name or "none"
        line = rows.setdefault(name, {"kind": words, "rows": 0} | dict.fromkeys(decisions))
        line[row["decision"]] = row["rows"]
        line["rows"] += row["rows"]
    lines = list(rows.values())
    if len(lines) > 1:
        whole = {name: sum(line[name] or 0 for line in lines) for name in ("rows", *decisions)}
        lines.append({"kind": "all", **whole})
    headings = {"kind": kind.replace("_", " "), "rows": "all"} | {name: _LEFT[name] for name in decisions}
    return lines, headings


def types_used(counts: Iterable[Mapping[str, Any]]) -> Records:
    """The event types that the log has, what each is and what it holds, and its rows."""
    totals: dict[int | None, int] = {}
    for row in counts:
        totals[row["event_type"]] = totals.get(row["event_type"], 0) + row["rows"]
    found = []
    for number, rows in totals.items():
        one = EVENT_TYPES.get(number or 0)
        name, meaning = (one.name, one.meaning) if one else ("none of the eight", "reserved: never published")
        kind = "?" if number is None else str(number)
        found.append(
            {"event_type": kind, "name": name, "meaning": meaning, "verb": one.verb if one else None, "rows": rows}
        )
    return found


def trade_offs(costs: Iterable[Mapping[str, Any]]) -> Records:
    """What this log costs, and what its statements would cost with every insert and update in one category alone, at
    what a statement of it takes here: ``choice``, ``rows``, ``bytes``, ``queries``. Empty where there is no choice
    to compare. ``costs`` are those of all tables, a record for each category."""
    by_name = {row["category"]: row for row in costs if row["events"]}
    now = {name: sum(row[name] for row in by_name.values()) for name in ("rows", "bytes", "query_backs", "events")}
    deletes = by_name.get(_DELETES, {"rows": 0, "bytes": 0, "events": 0})
    others = now["events"] - deletes["events"]
    if len(by_name.keys() - {_DELETES}) < 2:
        return []
    found = [{"choice": "as it is", "rows": now["rows"], "bytes": now["bytes"], "queries": now["query_backs"]}]
    for name in ("per field", "per row, query-back", "per field, query-back"):
        one = by_name.get(name)
        if one is not None:
            rows, space = (round(one[key] / one["events"] * others) + deletes[key] for key in ("rows", "bytes"))
            asked = 0 if name == "per field" else others
            found.append({"choice": f"all {name}", "rows": rows, "bytes": space, "queries": asked})
    return found


def effects_said(effects: Mapping[str, int]) -> str:
    """How many objects come to which effect."""
    return f"Of {plural(sum(effects.values()), 'object')}: {tally(effects)}."
