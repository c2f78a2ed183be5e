"""The tables that publishing takes and gives, and the columns that its stages add on the way.

:data:`ROWS` goes in. Each stage is a function of whole tables that adds columns and leaves the others alone:

    selection.own_decisions     what a row says of itself              adds :data:`OWN`
    grouping.with_cycles        the polling cycle it falls in          adds :data:`CYCLE`
    snapshot.with_snapshot      what the snapshot says of its object   adds :data:`STATE`
    precedence.between_rows     what the object's other rows say       decides every row
    grouping.number_events      events and documents                   adds :data:`NUMBERS`
    rendering.to_event_table    published rows as events

:data:`DECISIONS` comes out, and the events of :mod:`cdcwb.xds.event`.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final

import pyarrow as pa

from cdcwb.formats.idm_event_log.layout import LOG

__all__ = ["CURRENT", "CYCLE", "DECISIONS", "NUMBERS", "OWN", "ROWS", "STATE", "Decision", "State"]


class Decision(StrEnum):
    """What becomes of a row."""

    PUBLISHED = "published"
    SKIPPED = "skipped"  # its status is not N, or the driver itself made the change
    INVALID = "invalid"  # breaks a rule, so that it can stand in no document
    WAITING = "waiting"  # its event_time is not reached yet
    NO_EFFECT = "no_effect"  # nothing is left to write, or the object is gone
    OVERRIDDEN = "overridden"  # another row of the same object takes its place
    NEEDS_SNAPSHOT = "needs_snapshot"  # its document would hold what only the table knows


class State(IntEnum):
    """What the snapshot says of the object of a query-back row."""

    UNKNOWN = 0  # no snapshot, or one without this table
    ABSENT = 1  # the table has no such row
    THERE = 2
    NO_ATTRIBUTE = 3  # there, and what the row is about is part of its key
    NO_COLUMN = 4  # there, and the table has no column of that name
    CHARACTER = 5  # there, and a value holds a character that XML 1.0 cannot hold
    NO_KEY = 6  # the table lacks a column of the key


ROWS: Final = pa.schema(
    [
        *LOG,
        ("file_index", pa.int32()),
        ("offset", pa.int64()),
        ("event_us", pa.int64()),
        ("repeated", pa.bool_()),
    ]
)
"""Rows of the event log, in any order. ``event_us`` is event_time in µs UTC, null where it cannot be read;
``repeated``: a row with the same record_id stood before this one in capture order (file_index, offset)."""

OWN: Final = pa.schema(
    [
        ("number", pa.int64()),  # record_id; null where it is no positive whole number
        ("type", pa.int32()),  # event_type; null where it is none of 1 to 8
        ("verb", pa.string()),  # a value of event.Verb; null where type is
        ("order_time", pa.int64()),  # event_us where rows are ordered by it, else 0
        ("decision", pa.string()),  # a value of Decision; null: not decided yet
        ("reason", pa.string()),  # of the decision; without one: a remark to the reason that will come
        ("polled", pa.bool_()),  # takes part in polling: neither skipped nor invalid nor waiting
        ("deletes", pa.bool_()),  # a valid type 4 row that is done or will be: what came before it is gone
    ]
)
"""What a row says of itself. Processing order is (order_time, number), and unique among rows that are polled or
delete."""

CYCLE: Final = pa.schema([("ordinal", pa.int64()), ("cycle", pa.int64())])
"""Place among the polled rows in processing order, and the polling cycle, both from 0; null for a row not polled."""

STATE: Final = pa.schema([("state", pa.int8())])
"""A value of :class:`State`; null for rows that are not query-back."""

NUMBERS: Final = pa.schema([("event", pa.int64()), ("document", pa.int64())])
"""Numbers of event and document, from 1; null for a row that is not published."""

CURRENT: Final = pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())]))
"""What the table holds now, without key columns: attributes in the order of its columns; a null value is NULL. Of a
row for one column only that one, by the name that the row gives it."""

DECISIONS: Final = pa.schema(
    [
        ("record_id", pa.int64()),
        ("file_index", pa.int32()),
        ("offset", pa.int64()),
        ("event_type", pa.int32()),
        ("table_name", pa.string()),
        ("table_key", pa.string()),
        ("column_name", pa.string()),
        ("decision", pa.string()),
        ("reason", pa.string()),
        ("document", pa.int64()),
        ("event", pa.int64()),
        ("overridden_by", pa.int64()),
    ]
)
"""One row per row of the log. record_id and event_type are null where they are unusable; document and event where the
row is not published; ``overridden_by`` is the record_id of the row that takes its place."""
