"""Rows of an event log, and the columns they have (``docs/formats/idm-event-log.md §1``)."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["COLUMNS", "OLDER_ORDER", "LogRow", "Place", "Statement"]

COLUMNS: Final = (
    "record_id", "table_key", "status", "event_type", "event_time", "perpetrator", "table_name", "column_name",
    "old_value", "new_value",
)  # fmt: skip
"""The columns in the order of versions 3.5 and later."""

OLDER_ORDER: Final = (
    "record_id", "status", "event_type", "event_time", "perpetrator", "table_name", "table_key", "column_name",
    "old_value", "new_value",
)  # fmt: skip
"""The columns in the order of versions 2 and 3.0."""


class Place(NamedTuple):
    """Where a row stands: number of its file, offset and length there."""

    file: int
    offset: int
    length: int


class LogRow:
    """A row: its columns as text (None: NULL), and ``time``, what event_time says in microseconds since 1970 (None:
    nothing). ``place`` is known when it is written."""

    __slots__ = (*COLUMNS, "place", "time")

    def __init__(
        self, event_type: int, table_name: str, table_key: str, column_name: str | None = None,
        old_value: str | None = None, new_value: str | None = None,
    ) -> None:  # fmt: skip
        self.record_id: str | None = None
        self.table_key: str | None = table_key
        self.status: str | None = "N"
        self.event_type: str | None = str(event_type)
        self.event_time: str | None = None
        self.perpetrator: str | None = None
        self.table_name: str | None = table_name
        self.column_name = column_name
        self.old_value = old_value
        self.new_value = new_value
        self.time: int | None = None
        self.place = Place(-1, -1, 0)

    def texts(self, order: tuple[str, ...] = COLUMNS) -> list[str | None]:
        """The values in the order of some columns."""
        return [getattr(self, name) for name in order]


Statement = list[LogRow]
"""The rows that triggers write for one changed row of a table: one time, one user."""
