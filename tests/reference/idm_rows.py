"""One row of an event log as a row of ``events``: the reference that the reader is compared with
(docs/formats/idm-event-log.md §1, §6.1, §6.4).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb.formats.idm_event_log.decode import TableKeyError, parse, parse_column, zone_of
from cdcwb.formats.idm_event_log.events import VALUES, split_name
from cdcwb.formats.idm_event_log.layout import COLUMNS, EVENT_TYPES, STATUSES, EventType
from cdcwb.formats.moments import to_utc
from cdcwb.model import Kind, Operation, Problem
from cdcwb.words import visible
from tests.reference.idm_times import Printed, read_time

__all__ = [
    "Broken",
    "LogSource",
    "Moment",
    "Row",
    "event",
    "event_type",
    "is_written",
    "moment_of",
    "rules",
    "whole_number",
]

Row = Mapping[str, str | None]
"""The columns of one row; None is NULL."""

_WHOLE: Final = re.compile(r"[ \t\n\r\f]*\+?0*(\d+)(\.0*)?[ \t\n\r\f]*", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LogSource:
    """What is the same for all rows of a file: the columns that it lacks, the schema of tables that are named without
    one, and the zone of its times."""

    absent: frozenset[str] = frozenset()
    schema: str | None = None
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that a row breaks in one of its columns. ``fatal``: it cannot stand in a document."""

    column: str
    code: Problem
    sentence: str
    fatal: bool


@dataclass(frozen=True, slots=True)
class Moment:
    """An event_time: in UTC, and whether the zone has it twice or not at all."""

    utc: datetime
    doubtful: bool


def whole_number(text: str | None) -> int | None:
    """A number from 1 to 2^63 - 1, None for all else; see :func:`cdcwb.formats.idm_event_log.events.numbers_of`."""
    match = None if text is None else _WHOLE.fullmatch(text)
    if match is None or len(match[1]) > 19:
        return None
    number = int(match[1])
    return number if 0 < number < 2**63 else None


def event_type(text: str | None) -> EventType | None:
    """The event type that a text names; None where it is none of the eight."""
    number = whole_number(text)
    return None if number is None else EVENT_TYPES.get(number)


def moment_of(text: str | None, zone: str) -> Moment | None:
    """An event_time; None where it is NULL, no time, or outside the years 1 to 9999 in UTC."""
    printed = None if text is None else read_time(text)
    if printed is None:
        return None
    us, doubtful = _in_utc(printed, zone)
    try:
        return Moment(_EPOCH + timedelta(microseconds=us), doubtful)
    except OverflowError:
        return None


def _in_utc(printed: Printed, zone: str) -> tuple[int, bool]:
    where = zone_of(zone)
    if printed.offset is not None:
        return printed.local - printed.offset, False
    moment, doubtful = to_utc(np.array([printed.local]), where)
    return int(moment[0]), bool(doubtful[0])


def rules(row: Row, source: LogSource) -> list[Broken]:
    """The rules that a row breaks, in the order in which they are told."""
    return list(_rules(row, source))


def _rules(row: Row, source: LogSource) -> Iterator[Broken]:
    absent = source.absent
    what = event_type(row["event_type"])

    def broken(column: str, code: Problem, is_fatal: bool, expected: str, behind: str = "") -> Broken:
        text = row[column]
        found = repr(visible(text, 60)) if text is not None else "no such column" if column in absent else "NULL"
        return Broken(column, code, f"{column}: expected {expected}, found {found}{behind}", is_fatal)

    if whole_number(row["record_id"]) is None:
        yield broken("record_id", Problem.LOG_RULE, True, "a positive whole number of at most 19 digits")
    key = row["table_key"]
    error = _key_error(key)
    if key is None:
        yield broken("table_key", Problem.TABLE_KEY, True, "column=value")
    elif error is not None:
        yield Broken("table_key", Problem.TABLE_KEY, f"table_key: {error} of {visible(key, 60)!r}", True)
    elif parse_column(pa.array([key])).padded[0]:
        behind = "; without them it is the key of another object"
        yield broken("table_key", Problem.TABLE_KEY, False, "no blanks around names and numbers", behind)
    status = row["status"]
    if status not in STATUSES:
        meant = (status or "").strip().upper()
        hint = f"; {meant} is another status" if meant in STATUSES else ""
        yield broken("status", Problem.LOG_STATUS, False, "N, S, W, E or F", hint)
    if what is None:
        yield broken("event_type", Problem.LOG_RULE, True, "a number from 1 to 8")
    if "event_time" not in absent:
        moment = moment_of(row["event_time"], source.zone)
        if moment is None:
            such = "" if row["event_time"] is None else " such as 2024-01-02 03:04:05.123456"
            yield broken("event_time", Problem.LOG_RULE, False, f"a time{such}")
        elif moment.doubtful:
            once, behind = f"a time that {source.zone} has once", "; the earlier one is used"
            yield broken("event_time", Problem.TIME_ZONE, False, once, behind)
    if not row["table_name"]:
        yield broken("table_name", Problem.LOG_RULE, True, "the name of a table or view")
    if what is not None and what.per_field and not row["column_name"]:
        yield broken("column_name", Problem.LOG_RULE, True, f"the column of an event of type {what.number}")
    for column in ("table_key", "table_name", "column_name", *VALUES):
        unfit = [(at, one) for at, one in enumerate(row[column] or "") if _is_unfit(ord(one))]
        if unfit and is_written(what, column):
            found = f"found U+{ord(unfit[0][1]):04X} at character {unfit[0][0]}"
            sentence = f"{column}: expected characters that XML 1.0 allows, {found}"
            yield Broken(column, Problem.XML_CHARACTER, sentence, True)


def _is_unfit(code: int) -> bool:
    return (code < 0x20 and code not in (0x09, 0x0A, 0x0D)) or 0xD800 <= code <= 0xDFFF or code in (0xFFFE, 0xFFFF)


def _key_error(text: str | None) -> TableKeyError | None:
    try:
        parse(text or "")
    except TableKeyError as error:
        return error
    return None


def is_written(what: EventType | None, column: str) -> bool:
    """Does this column stand in the document of an event? Names always count."""
    if column not in VALUES:
        return True
    return what is not None and what.number in ((2,) if column == "old_value" else (1, 2, 3))


def event(row: Row, source: LogSource, images: bool = True) -> dict[str, Any]:
    """What a row says: the columns of ``events`` but for its place and bytes; None where it says nothing. Never raises.
    Without ``images`` there are neither images nor old and new values."""
    what = event_type(row["event_type"])
    number = whole_number(row["record_id"])
    schema, table = split_name(row["table_name"], source.schema)
    moment = moment_of(row["event_time"], source.zone)
    column = row["column_name"] if what is not None and what.per_field and row["column_name"] else None
    key = _key(row["table_key"])
    label = table if schema is None else f"{schema}.{table}"
    broken = rules(row, source)
    return {
        "record_type": row["event_type"],
        "kind": str(Kind.CONTROL if what is None else Kind.CHANGE),
        "operation": f"UNKNOWN({row['event_type'] or ''})" if what is None else str(what.operation),
        "position": None if number is None else f"{number:019d}",
        "changed_at": None if moment is None else moment.utc,
        "schema_name": schema,
        "table_name": table,
        "table_version": None if table is None else f"{label}@1",
        "changed_columns": None if column is None else [column],
        "key": key,
        "before": _before(row, what, column, key, source) if images else None,
        "after": _after(row, what, column, source) if images else None,
        "headers": {
            name: row[name] for name in COLUMNS if name not in source.absent and (images or name not in VALUES)
        },
        "problems": [{"code": str(one.code), "detail": one.sentence} for one in broken] or None,
    }


def _key(text: str | None) -> dict[str, str] | None:
    try:
        return None if text is None else dict(parse(text))
    except TableKeyError:
        return None


def _before(
    row: Row, what: EventType | None, column: str | None, key: dict[str, str] | None, source: LogSource
) -> Mapping[str, str | None] | None:
    if what is not None and what.operation is Operation.DELETE:
        return key
    if what is None or column is None or what.number not in (2, 3) or "old_value" in source.absent:
        return None
    return None if what.number == 3 and row["old_value"] is None else {column: row["old_value"]}


def _after(row: Row, what: EventType | None, column: str | None, source: LogSource) -> Mapping[str, str | None] | None:
    if what is None or column is None or what.number not in (1, 2, 3) or "new_value" in source.absent:
        return None
    return {column: row["new_value"]}
