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

from cdcwb.formats.idm_event_log import events as sentences
from cdcwb.formats.idm_event_log.decode import FORMS, TableKeyError, _zone_of, padded, parse
from cdcwb.formats.idm_event_log.events import VALUES, split_name
from cdcwb.formats.idm_event_log.layout import COLUMNS, EVENT_TYPES, STATUSES, EventType
from cdcwb.formats.moments import to_utc
from cdcwb.model import Kind, Operation, Problem
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
    """An event_time: in UTC, its form, and whether the zone has it twice or not at all."""

    utc: datetime
    form: str
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
        return Moment(_EPOCH + timedelta(microseconds=us), FORMS[printed.form], doubtful)
    except OverflowError:
        return None


def _in_utc(printed: Printed, zone: str) -> tuple[int, bool]:
    where = _zone_of(zone)
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
    if whole_number(row["record_id"]) is None:
        yield Broken("record_id", Problem.LOG_RULE, sentences.no_record_id(row["record_id"]), True)
    yield from _key_rules(row["table_key"], "table_key" in absent)
    if row["status"] not in STATUSES:
        yield Broken("status", Problem.LOG_STATUS, sentences.no_status(row["status"]), False)
    if what is None:
        sentence = sentences.no_event_type(row["event_type"], "event_type" in absent)
        yield Broken("event_type", Problem.LOG_RULE, sentence, True)
    if "event_time" not in absent:
        moment = moment_of(row["event_time"], source.zone)
        if moment is None:
            yield Broken("event_time", Problem.LOG_RULE, sentences.no_time(row["event_time"]), False)
        elif moment.doubtful:
            sentence = sentences.ambiguous_time(row["event_time"], source.zone)
            yield Broken("event_time", Problem.TIME_ZONE, sentence, False)
    if not row["table_name"]:
        sentence = sentences.no_name(row["table_name"], "table_name" in absent)
        yield Broken("table_name", Problem.LOG_RULE, sentence, True)
    if what is not None and what.per_field and not row["column_name"]:
        sentence = sentences.no_column(what.number, row["column_name"], "column_name" in absent)
        yield Broken("column_name", Problem.LOG_RULE, sentence, True)
    for column in ("table_key", "table_name", "column_name", *VALUES):
        text = row[column]
        if text is not None and is_written(what, column) and any(map(sentences.is_unfit, text)):
            yield Broken(column, Problem.XML_CHARACTER, sentences.unfit(column, text), True)


def is_written(what: EventType | None, column: str) -> bool:
    """Does this column stand in the document of an event? Names always count."""
    if column not in VALUES:
        return True
    return what is not None and what.number in ((2,) if column == "old_value" else (1, 2, 3))


def _key_rules(text: str | None, absent: bool) -> Iterator[Broken]:
    try:
        pairs = None if text is None else parse(text)
    except TableKeyError as error:
        yield Broken("table_key", Problem.TABLE_KEY, sentences.broken_key(text, error), True)
        return
    if pairs is None or text is None:
        yield Broken("table_key", Problem.TABLE_KEY, sentences.broken_key(None, None, absent), True)
    elif padded(text):
        yield Broken("table_key", Problem.TABLE_KEY, sentences.padded_key(text), False)


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
