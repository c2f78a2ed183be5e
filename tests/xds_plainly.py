"""The Publisher, row by row: slow, and written without a look at :mod:`cdcwb.xds`, to hold it against.

It reads rows as dictionaries and knows no more of them than the rules: what is skipped, what is not valid, what waits,
what is gone, what takes precedence, and what belongs in one event.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from cdcwb.xds import Settings

Row = dict[str, Any]
Tables = dict[str, tuple[list[str], list[dict[str, str | None]]]]
"""For each table the columns of its key, and its rows as text."""

PER_FIELD = (1, 2, 3, 7, 8)
KEY = re.compile(r'[^,;\'+"=\\<> ][^,;\'+"=\\<>]*=([^,;\'+"=\\<>]+|"([^"\\]|\\["\\])*")')
BAD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
DONE = {
    "S": "processed before",
    "W": "processed before, with a warning",
    "E": "processed before, with an error",
    "F": "processed before, with a fatal error",
}


def number(text: str | None, most: int) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]+", text) and 1 <= int(text) <= most else None


def when(row: Row) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=row["event_us"])
    return moment.replace(tzinfo=None).isoformat().rstrip("0" if moment.microsecond else "") + "Z"


def good_key(text: str | None) -> bool:
    if not text:
        return False
    place = 0
    while (match := KEY.match(text, place)) is not None:
        if match.end() == len(text):
            return True
        if text[match.end()] != "+":
            return False
        place = match.end() + 1
    return False


def valid(row: Row, settings: Settings) -> bool:
    kind = number(row["event_type"], 8)
    if number(row["record_id"], 2**63 - 1) is None or kind is None or row["repeated"]:
        return False
    if not row["table_name"] or not good_key(row["table_key"]):
        return False
    if kind in PER_FIELD and not row["column_name"]:
        return False
    written = [row["table_key"], row["table_name"], row["column_name"]]
    written += [row["new_value"]] if kind in (1, 2, 3) else []
    written += [row["old_value"]] if kind == 2 else []
    if any(text is not None and BAD.search(text) for text in written):
        return False
    return not (settings.future_events and row["event_us"] is None)


def late(row: Row, settings: Settings) -> bool:
    as_of = settings.as_of_us
    return settings.future_events and as_of is not None and row["event_us"] is not None and row["event_us"] > as_of


def first_decision(row: Row, settings: Settings) -> tuple[str | None, str]:
    """What the row says of itself: decision (None: open) and reason (of an open one: a remark)."""
    status, user, driver = row["status"], row["perpetrator"], settings.driver_user
    nameless = number(row["record_id"], 2**63 - 1) is None
    if status != "N":
        if nameless and (status is None or len(status) != 1 or status.isspace()):
            return "invalid", ""
        if status in DONE:
            return "skipped", f"status '{status}': {DONE[status]}"
        if status is not None and status.strip().upper() == "N":
            return "skipped", f"status '{status}' is not exactly 'N'"
        found = "is NULL" if status is None else f"'{status}'"
        return "skipped", f"status {found}: only 'N' is processed"
    own = driver is not None and user == driver and not settings.allow_loopback
    if own and not nameless:
        return "skipped", f"perpetrator '{user}' is the driver's user (loopback)"
    if not valid(row, settings):
        return "invalid", ""
    if late(row, settings):
        return "waiting", f"waiting until {when(row)}"
    if row["event_type"] == "2" and row["old_value"] is None and row["new_value"] is None:
        return "no_effect", "old_value and new_value are both NULL: there is nothing to write"
    if driver is None or user is None or settings.allow_loopback or user == driver:
        return None, ""
    if user.lower() == driver.lower():
        return None, f"; perpetrator '{user}' differs from the driver's user '{driver}' in upper and lower case"
    return None, ""


def verb(kind: int, settings: Settings) -> str:
    if kind == 5:
        return settings.type5
    return {1: "add", 7: "add", 4: "delete"}.get(kind, "modify")


def stronger(kind: int, other: int, same_column: bool) -> bool:
    """Does a row of type ``kind`` take the place of one of type ``other`` of the same object?"""
    return (kind, other) in ((5, 1), (5, 7), (6, 2), (6, 3), (6, 8)) or (
        same_column and (kind, other) in ((7, 1), (8, 2), (8, 3))
    )


def publish_plainly(rows: list[Row], settings: Settings, tables: Tables) -> tuple[list[Row], list[Row]]:
    """For each row its decision, reason (empty if invalid), document, event and overridden_by; and the events."""
    told: list[Row] = []
    for row in rows:
        decision, reason = first_decision(row, settings)
        told.append({"decision": decision, "reason": reason, "document": None, "event": None, "overridden_by": None})

    def order(at: int) -> tuple[int, int]:
        return (rows[at]["event_us"] if settings.future_events else 0, int(rows[at]["record_id"]))

    def thing(at: int) -> tuple[str, str]:
        return rows[at]["table_name"], rows[at]["table_key"]

    def kind(at: int) -> int:
        return int(rows[at]["event_type"])

    line = [at for at, one in enumerate(told) if one["decision"] not in ("skipped", "invalid", "waiting")]
    line.sort(key=order)
    cycle = {at: place // settings.query_limit for place, at in enumerate(line)}
    deletes = [
        at
        for at, row in enumerate(rows)
        if valid(row, settings) and kind(at) == 4 and row["status"] in ("N", *DONE) and not late(row, settings)
    ]
    deletes.sort(key=order)

    gone = set()
    for at in line:
        if kind(at) < 5:
            continue
        later = [other for other in deletes if thing(other) == thing(at) and order(other) > order(at)]
        if later:
            number_ = int(rows[later[0]]["record_id"])
            told[at] |= {"decision": "no_effect", "reason": f"the object is gone: record {number_} deletes it later"}
            gone.add(at)
        elif now(rows[at], tables) == "absent":
            name = rows[at]["table_name"]
            reason = f"the object is gone: the snapshot of table '{name}' has no such row"
            told[at] |= {"decision": "no_effect", "reason": reason}
            gone.add(at)

    def together(one: int, other: int) -> bool:
        if thing(one) != thing(other) or (settings.precedence == "cycle" and cycle[one] != cycle[other]):
            return False
        between = line[min(line.index(one), line.index(other)) : max(line.index(one), line.index(other))]
        return not any(kind(at) == 4 and thing(at) == thing(one) for at in between)

    for at in line:
        if told[at]["decision"] is not None:
            continue
        same = [other for other in line if other not in gone and together(at, other)]
        over = [
            other
            for other in same
            if stronger(kind(other), kind(at), rows[other]["column_name"] == rows[at]["column_name"])
        ]
        over.sort(key=lambda other: kind(other) >= 7)
        if over:
            by = int(rows[over[0]]["record_id"])
            what = "field query-back of the same column" if kind(over[0]) >= 7 else "row query-back of the same object"
            reason = f"overridden by record {by}, a {what}"
            told[at] |= {"decision": "overridden", "reason": reason, "overridden_by": by}
    for at in line:
        if told[at]["decision"] is None:
            decision, reason = last_decision(rows[at], settings, tables)
            told[at] |= {"decision": decision, "reason": reason or told[at]["reason"]}

    events: list[Row] = []
    last: Any = None
    per_cycle: dict[int, int] = {}
    document = 0
    for at in line:
        if told[at]["decision"] != "published":
            continue
        this = (*thing(at), verb(kind(at), settings), cycle[at])
        if this != last:
            if per_cycle.get(cycle[at], 0) % settings.batch_size == 0:
                document += 1
            per_cycle[cycle[at]] = per_cycle.get(cycle[at], 0) + 1
            events.append(head(rows[at], this[2], document, len(events) + 1, settings))
            seen: set[Any] = set()
        last = this
        told[at] |= {
            "document": document,
            "event": len(events),
            "reason": f"published in document {document}{told[at]['reason']}",
        }
        if kind(at) >= 5:
            form = "row" if kind(at) <= 6 else ("column", rows[at]["column_name"])
            if form in seen:
                continue
            seen.add(form)
        events[-1]["attrs"] += attributes(rows[at], this[2] == "add", settings, tables)
    return told, events


def now(row: Row, tables: Tables) -> str | list[tuple[str, str | None]] | None:
    """What the snapshot says: the attributes that a query-back row would write, ``absent``, ``no column``, ``key``,
    ``character``; None where it does not have the table."""
    if row["table_name"] not in tables:
        return None
    key_columns, table = tables[row["table_name"]]
    wanted = dict(part.split("=") for part in row["table_key"].split("+"))
    if set(wanted) != set(key_columns):
        return "no key"
    found = [one for one in table if all(one[name] == value for name, value in wanted.items())]
    if not found:
        return "absent"
    columns = [name for name in found[0] if name not in key_columns]
    if int(row["event_type"]) >= 7:
        if row["column_name"] in key_columns:
            return "key"
        if row["column_name"] not in columns:
            return "no column"
        columns = [row["column_name"]]
    elif not columns:
        return "key"
    if any(found[0][name] is not None and BAD.search(found[0][name] or "") for name in columns):
        return "character"
    return [(name, found[0][name]) for name in columns]


def last_decision(row: Row, settings: Settings, tables: Tables) -> tuple[str, str]:
    kind, table = int(row["event_type"]), row["table_name"]
    if kind < 5:
        return "published", ""
    found = now(row, tables)
    if found is None:
        return "needs_snapshot", f"the values are in table '{table}' alone, and no snapshot of it is given"
    if found == "no key":
        return "needs_snapshot", f"the snapshot of table '{table}' does not have the columns of this table_key"
    if found == "no column":
        return "needs_snapshot", f"the snapshot of table '{table}' has no column '{row['column_name']}'"
    if found == "character":
        return "invalid", f"a value in the snapshot of table '{table}' holds a character XML cannot hold"
    if found == "key" and verb(kind, settings) == "modify":
        if kind >= 7:
            return "no_effect", f"column '{row['column_name']}' is part of the key: there is nothing to write"
        return "no_effect", f"table '{table}' has no column but its key: there is nothing to write"
    return "published", ""


def head(row: Row, what: str, document: int, event: int, settings: Settings) -> Row:
    schema, _, table = row["table_name"].rpartition(".")
    schema = schema or settings.schema
    association = f"{row['table_key']},table={table}" + (f",schema={schema}" if schema else "")
    return {
        "document": document,
        "event": event,
        "verb": what,
        "class_name": settings.class_names.get(row["table_name"], table),
        "association": association,
        "attrs": [],
    }


def attributes(row: Row, adding: bool, settings: Settings, tables: Tables) -> list[Row]:
    kind = int(row["event_type"])

    def attribute(name: str, clear: bool, remove: str | None, add: str | None) -> list[Row]:
        of = settings.types.get(name.lower(), "string")
        return [{"name": name, "type": of, "remove_all": clear, "remove": remove, "add": add}]

    column, old, new = row["column_name"], row["old_value"], row["new_value"]
    if kind == 1:
        return [] if new is None else attribute(column, False, None, new)
    if kind == 2:
        return attribute(column, False, old, new)
    if kind == 3:
        return attribute(column, True, None, new)
    found = now(row, tables) if kind >= 5 else []
    if not isinstance(found, list):
        return []
    if adding:
        return [one for name, value in found if value is not None for one in attribute(name, False, None, value)]
    return [one for name, value in found for one in attribute(name, True, None, value)]
