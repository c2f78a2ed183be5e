"""The ten columns of the event log, and what its rows are once they are read (docs/formats/idm-event-log.md §1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from cdcwb.model import Problem

__all__ = ["COLUMNS", "FORMAT", "LOG", "OLDER_ORDER", "Finding"]

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

LOG: Final = pa.schema([(name, pa.string()) for name in COLUMNS])
"""Rows as text, exactly as the source wrote each value; null is NULL, and what a reduced form does not have is filled:
record_id with the number of the row from 1, status with N."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a row. ``row`` counts from 0 in its batch. ``column``: the column of the log in which it is.
    ``fatal``: no document can hold the row."""

    row: int
    column: str
    code: Problem
    sentence: str
    fatal: bool
