"""What the columns, the status letters and the event types mean (docs/formats/idm-event-log.md §1, §3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cdcwb.model import Operation

__all__ = ["EVENT_TYPES", "PUBLISHER_NEEDS", "STATUSES", "TITLES", "EventType", "numbers"]


@dataclass(frozen=True, slots=True)
class EventType:
    """One of the eight (§3.1). ``verb``: the XDS element that it becomes: add, modify or delete. ``per_field``: a row
    is of one column, else of a whole row. ``query_back``: the values are asked of the table when the event is
    processed, else they stand in the log."""

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
    EventType(3, "update field (remove all values)", "a value for all there are", "modify", True, False, _U),
    EventType(4, "delete row", "the row is gone", "delete", False, False, _D),
    EventType(5, "insert row (query-back)", "a new row; the table has its values", "add", False, True, _I),
    EventType(6, "update row (query-back)", "a changed row; the table has its values", "modify", False, True, _U),
    EventType(7, "insert field (query-back)", "a field of a new row; the table has it", "add", True, True, _I),
    EventType(8, "update field (query-back)", "a changed field; the table has it", "modify", True, True, _U),
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
    "record_id": "the row's number, and its place in the order of publication",
    "table_key": "the key of the changed row",
    "status": "what became of the row",
    "event_type": "what happened",
    "event_time": "when it takes effect",
    "perpetrator": "the database user who did it",
    "table_name": "the table or view where it happened",
    "column_name": "the column",
    "old_value": "the value before",
    "new_value": "the value after",
}
"""What each column is, in a few words."""


def numbers(
    *, per_field: bool | None = None, query_back: bool | None = None, operation: Operation | None = None
) -> tuple[int, ...]:
    """The event types that are so; None: either way."""
    return tuple(
        one.number
        for one in _ALL
        if per_field in (None, one.per_field)
        and query_back in (None, one.query_back)
        and operation in (None, one.operation)
    )
