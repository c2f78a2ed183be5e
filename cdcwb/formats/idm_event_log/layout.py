"""The ten columns of the event log, and what its rows are once they are read (docs/formats/idm-event-log.md §1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from cdcwb.model import Operation, Problem

FORMAT: Final = "idm-event-log"

COLUMNS: Final = (
    "record_id",
    "table_key",
    "status",
    "event_type",
    "event_time",
    "perpetrator",
    "table_name",
    "column_name",
    "old_value",
    "new_value",
)
"""The vendor's names, in the order of versions 3.5 and later; they are the keys of ``events.headers``."""

OLDER_ORDER: Final = (
    "record_id",
    "status",
    "event_type",
    "event_time",
    "perpetrator",
    "table_name",
    "table_key",
    "column_name",
    "old_value",
    "new_value",
)
"""The order of versions 2 and 3.0."""

NEEDED: Final = frozenset({"event_type", "table_key"})
"""The columns without which no table is a log."""

VALUES_LIKE: Final = {
    "record_id": r"\s*\d{1,19}(\.0*)?\s*",
    "status": "[NSWEF]",
    "event_type": r"\s*[1-8](\.0*)?\s*",
    "table_key": "(?s).*=.*",
}
"""The columns that are found by what they hold, with the pattern of their values."""

LOG: Final = pa.schema([(name, pa.string()) for name in COLUMNS])
"""Rows as text, exactly as the source wrote each value; null is NULL, and what a reduced form does not have is filled:
record_id with the number of the row from 1, status with N."""


@dataclass(frozen=True, slots=True)
class RowProblem:
    """What is wrong with a row. ``row`` counts from 0 in its batch. ``column``: the column of the log in which it is.
    ``fatal``: no document can hold the row."""

    row: int
    column: str
    code: Problem
    sentence: str
    fatal: bool


@dataclass(frozen=True, slots=True)
class EventType:
    """One of the eight (§3.1). ``verb``: the XDS element that it becomes: add, modify or delete. ``per_field``: a row
    is of one column, else of a row. ``query_back``: the values are asked of the table when the event is
    processed, else they are in the log."""

    number: int
    name: str
    meaning: str
    verb: str
    per_field: bool
    query_back: bool
    operation: Operation


_I, _U, _D = Operation.INSERT, Operation.UPDATE, Operation.DELETE
_ALL: Final = (
    EventType(1, "insert field", "a value of a new row", "add", True, False, _I),
    EventType(2, "update field", "the old value and the new one", "modify", True, False, _U),
    EventType(3, "update field (remove all values)", "a value that replaces all values", "modify", True, False, _U),
    EventType(4, "delete row", "the row was deleted", "delete", False, False, _D),
    EventType(5, "insert row (query-back)", "a new row; its values are in the table", "add", False, True, _I),
    EventType(6, "update row (query-back)", "a changed row; its values are in the table", "modify", False, True, _U),
    EventType(7, "insert field (query-back)", "a field of a new row; the value is in the table", "add", True, True, _I),
    EventType(8, "update field (query-back)", "a changed field; the value is in the table", "modify", True, True, _U),
)

EVENT_TYPES: Final = {one.number: one for one in _ALL}
"""The event types by their numbers; all others are reserved."""

STATUSES: Final = {
    "N": "new: to be published",
    "S": "success: published",
    "W": "warning: published, with a warning",
    "E": "error: the event failed",
    "F": "fatal: the event failed and the driver stopped",
}
"""The status letters, which are case-sensitive; only N is processed, the Publisher writes the others (§1.2)."""

PUBLISHER_NEEDS: Final = ("column_name", "old_value", "new_value")
"""Columns without which the Publisher does not start, even where no row uses them (§1.2)."""

TITLES: Final = {
    "record_id": "the number of the row, which gives the order of publication",
    "table_key": "the key of the changed row",
    "status": "processing state of the row",
    "event_type": "what happened",
    "event_time": "time at which the event takes effect",
    "perpetrator": "the database user who made the change",
    "table_name": "the table or view that changed",
    "column_name": "the column",
    "old_value": "the old value",
    "new_value": "the new value",
}
"""What each column is, in a few words."""
