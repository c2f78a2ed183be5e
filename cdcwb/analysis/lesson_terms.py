"""What the notebook for beginners computes about the terms of change data capture: one row from the source to the log
to the target, what each capture delivers, and the positions of the formats side by side (docs/concepts.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from cdcwb.analysis.lesson import Event, Lesson
from cdcwb.model import Kind, Operation
from cdcwb.words import plural

__all__ = ["delivery", "positions", "row_to_target"]

_CHANGES: Final = (Kind.CHANGE, Kind.AFTER)


def row_to_target(lesson: Lesson) -> list[dict[str, Any]]:
    """The history of one row, a line for each change: ``number``; ``source_sentence``, an SQL statement that makes the
    change; ``position`` and ``log_sentence``, what its record holds; ``target_sentence``, the row of a target that
    applies it. Empty where no row fits."""
    history = lesson.history()
    lines = []
    for number, (event, row) in enumerate(zip(history, lesson.applied(history), strict=True), 1):
        changed = event["changed_columns"] or list(event["after"] or {})
        lines.append(
            {
                "number": number,
                "source_sentence": _statement(lesson, event, changed),
                "position": event["position"],
                "log_sentence": _record(event, changed),
                "target_sentence": "no row" if row is None else _pairs(row, list(row)),
            }
        )
    return lines


def _statement(lesson: Lesson, event: Event, changed: list[str]) -> str:
    table, where = lesson.table(event), _pairs(event["key"], list(event["key"]), " and ")
    after = event["after"] or {}
    if event["operation"] == Operation.DELETE:
        return f"DELETE FROM {table} WHERE {where}"
    if event["operation"] == Operation.INSERT:
        return f"INSERT INTO {table} VALUES ({', '.join(map(_value, {**event['key'], **after}.values()))})"
    return f"UPDATE {table} SET {_pairs(after, [name for name in changed if name in after])} WHERE {where}"


def _record(event: Event, changed: list[str]) -> str:
    before, after = event["before"] or {}, event["after"] or {}
    if event["operation"] == Operation.UPDATE:
        parts = [
            f"{name}: {f'{_value(before[name])} → ' if name in before else ''}{_value(after[name])}"
            for name in changed
            if name in after
        ]
        return f"UPDATE, {', '.join(parts)}"
    which, image = ("before", before) if event["operation"] == Operation.DELETE else ("after", after)
    if not image:
        return str(event["operation"])
    more = f" and {plural(len(image) - 1, 'more column')}" if len(image) > 1 else ""
    return f"{event['operation']}, {which}: {_pairs(image, [next(iter(image))])}{more}"


def _pairs(row: Mapping[str, Any], names: list[str], between: str = ", ") -> str:
    return between.join(f"{name} = {_value(row[name])}" for name in names if name in row)


def _value(value: str | None) -> str:
    """A value as SQL has it; a number is a text that reads as one."""
    if value is None:
        return "NULL"
    number = value.removeprefix("-").replace(".", "", 1)
    return value if number.isdecimal() and number.isascii() else "'" + value.replace("'", "''") + "'"


def delivery(lesson: Lesson) -> dict[str, Any]:
    """What a capture delivers, counted in the order of its files: ``snapshot`` rows, ``changes``, how many of both came
    ``again`` (equal bytes at the same position) and how many changes are ``back`` (before the position of the change
    that precedes them)."""
    rows = [event for event in lesson.events if event["kind"] in _CHANGES]
    changes = [event for event in rows if event["operation"] != Operation.REFRESH]
    seen = {(event["position"], event["raw"]) for event in rows if event["raw"] is not None}
    known = sum(event["raw"] is not None for event in rows)
    order = [event["position"] for event in changes if event["position"] is not None]
    return {
        "format_code": lesson.name,
        "snapshot": len(rows) - len(changes),
        "changes": len(changes),
        "again": known - len(seen),
        "back": sum(after < before for before, after in pairwise(order)),
    }


@dataclass(frozen=True, slots=True)
class _Position:
    """A kind of position. ``find``: its value in a record, None where it has none."""

    name: str
    format: str
    given_by: str
    orders: str
    find: Callable[[Event], str | None]


def _header(*names: str) -> Callable[[Event], str | None]:
    def find(event: Event) -> str | None:
        headers = event["headers"] or {}
        values = [headers.get(name) for name in names]
        return None if None in values else ", ".join(map(str, values))

    return find


def _lsn(event: Event) -> str | None:
    number = event["position"]
    return number and f"{number} (log {int(number[:8], 16)}, byte 0x{int(number[8:], 16):X})"


def _scn(event: Event) -> str | None:
    headers = event["headers"] or {}
    return headers.get("LOGCSN") if "ORAROWID" in headers else None


def _offset(event: Event) -> str | None:
    headers = event["headers"] or {}
    found = [headers.get(f"kafka.{name}") for name in ("partition", "offset")]
    return None if None in found else f"partition {found[0]}, offset {found[1]}"


def _trail(event: Event) -> str | None:
    headers = event["headers"] or {}
    found = [headers.get(name) for name in ("Trail", "RBA")]
    return None if None in found else f"{str(found[0]).rpartition('/')[2]}, RBA {found[1]}"


_POSITIONS: Final = (
    _Position(
        *("LSN, log sequence number", "gbase8s", "the database server, to each record of its log"),
        *("the records of one log", _lsn),
    ),
    _Position(
        *("SCN, system change number", "goldengate", "Oracle Database, to each commit and to other events"),
        *("the commits of one database", _scn),
    ),
    _Position(
        *("CSN, commit sequence number", "goldengate", "GoldenGate, from the number that the source gives a commit"),
        *("the commits of one source", _header("LOGCSN")),
    ),
    _Position(
        *("trail file and RBA", "goldengate", "GoldenGate, the file of the trail and the byte in it"),
        *("the records of one trail", _trail),
    ),
    _Position(
        *("changeSequence", "qlik-kafka", "Qlik Replicate, to each change of a task"),
        *("all changes of one task", _header("changeSequence")),
    ),
    _Position(
        *("change_seq", "qlik-change-table", "Qlik Replicate, to each change of a task"),
        *("all changes of one task", lambda event: event["position"]),
    ),
    _Position(
        *("LSN of PostgreSQL", "debezium", "the database server, to each record of its log"),
        *("the records of one log", _header("source.lsn")),
    ),
    _Position(
        *("offset", "qlik-kafka", "the Kafka broker, to each message"),
        *("the messages of one partition", _offset),
    ),
    _Position(
        *("record_id", "idm-event-log", "a sequence of the database, in the trigger"),
        *("the rows of one event log", _header("record_id")),
    ),
)


def positions(lessons: Mapping[str, Lesson]) -> list[dict[str, Any]]:
    """The kinds of position side by side: ``name``, ``given_by``, ``orders``, ``format_code``, the
    ``value`` of a change as an example and its ``location``; both null where the captures have none."""
    rows = []
    for kind in _POSITIONS:
        lesson = lessons.get(kind.format)
        found = None if lesson is None else _first(lesson, kind.find)
        rows.append(
            {
                "name": kind.name,
                "given_by": kind.given_by,
                "orders": kind.orders,
                "format_code": kind.format,
                "value": found and found[1],
                "location": found and lesson and lesson.place(found[0]),
            }
        )
    return rows


def _first(lesson: Lesson, find: Callable[[Event], str | None]) -> tuple[Event, str] | None:
    """The first change that has a position of some kind, and the position."""
    for event in lesson.events:
        value = find(event) if event["kind"] in _CHANGES and event["operation"] != Operation.REFRESH else None
        if value:
            return event, value
    return None
