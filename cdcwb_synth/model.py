"""The tables of the truth as Arrow schemas, the values of their text columns, and the error of a capture that cannot be
generated. They are not imported from ``cdcwb``, because its readers are compared with the truth.

Times are ``timestamp[us, tz=UTC]``. A null image map means: no such image; a null value is SQL NULL.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import pyarrow as pa

__all__ = [
    "CHANGE",
    "CHANGES",
    "COLUMN",
    "SOURCE_EVENT",
    "TABLE_VERSIONS",
    "TRANSACTIONS",
    "ChangeSource",
    "Completeness",
    "OffsetUnit",
    "Operation",
    "Outcome",
    "SynthError",
]


class SynthError(ValueError):
    """A capture that cannot be generated as it is asked for; the message is a sentence for the user."""


class Operation(StrEnum):
    """What a change does."""

    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    REFRESH = "REFRESH"
    TRUNCATE = "TRUNCATE"
    DDL = "DDL"


class OffsetUnit(StrEnum):
    """What ``offset`` and ``length`` count."""

    BYTE = "byte"
    ROW = "row"
    MESSAGE = "message"


class Outcome(StrEnum):
    """The outcome of a change or a transaction."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"
    UNDONE = "undone"  # changes only: reversed by a rollback to a savepoint
    UNDO = "undo"  # changes only: the reversal of another change
    OPEN = "open"


class Completeness(StrEnum):
    """Whether the capture has all events of a transaction."""

    COMPLETE = "complete"
    NO_BEGIN = "no_begin"
    NO_END = "no_end"
    GAPS = "gaps"
    UNKNOWN = "unknown"


class ChangeSource(StrEnum):
    """Where ``changed_columns`` comes from: a mask in the capture, a comparison of both images, or the log, whose
    record lists the columns that were written."""

    MASK = "mask"
    IMAGES = "images"
    LOG = "log"


CHANGE: Final = "change"
"""The kind of every row of CHANGES."""

_TIME: Final = pa.timestamp("us", tz="UTC")
_TEXTS: Final = pa.list_(pa.string())
_MAP: Final = pa.map_(pa.string(), pa.string())

SOURCE_EVENT: Final = pa.struct([("file_index", pa.int32()), ("offset", pa.int64()), ("length", pa.int64())])
"""The location of a record that a change consists of."""

COLUMN: Final = pa.struct(
    [
        ("ordinal", pa.int32()),  # from 1
        ("name", pa.string()),
        ("type", pa.string()),  # as the source spells it
        ("length", pa.int32()),  # bytes
        ("precision", pa.int32()),
        ("scale", pa.int32()),  # null for a floating decimal
        ("key_position", pa.int32()),  # from 1; null: not in the key, or not in the capture
        ("nullable", pa.bool_()),  # null: not in the capture
    ]
)
"""One column of a table version; what the capture does not give is null."""

CHANGES: Final = pa.schema(
    [
        ("format", pa.string()),
        ("file", pa.string()),
        ("file_index", pa.int32()),  # in natural order of the names, from 0
        ("offset", pa.int64()),  # in the decompressed file
        ("length", pa.int64()),
        ("offset_unit", pa.string()),
        ("record_type", pa.string()),
        ("kind", pa.string()),
        ("operation", pa.string()),
        ("position", pa.string()),
        ("commit_position", pa.string()),
        ("transaction_id", pa.string()),
        ("event_no", pa.int64()),
        ("last_in_transaction", pa.bool_()),
        ("changed_at", _TIME),
        ("schema_name", pa.string()),
        ("table_name", pa.string()),
        ("table_version", pa.string()),
        ("change_mask", pa.string()),
        ("column_mask", pa.string()),
        ("changed_columns", _TEXTS),
        ("present_columns", _TEXTS),
        ("key", _MAP),
        ("before", _MAP),
        ("after", _MAP),
        ("headers", _MAP),
        # Null throughout: the truth shows what happened, not what a reader remarks about it.
        ("problems", pa.list_(pa.struct([("code", pa.string()), ("detail", pa.string())]))),
        ("source_events", pa.list_(SOURCE_EVENT)),
        ("outcome", pa.string()),  # null for REFRESH and the event log
        ("committed_at", _TIME),
        ("change_source", pa.string()),
    ]
)
"""One row per logical change; location and position are those of the after record of an update."""

TRANSACTIONS: Final = pa.schema(
    [
        ("transaction_id", pa.string()),
        ("begin_position", pa.string()),
        ("end_position", pa.string()),
        ("began_at", _TIME),
        ("ended_at", _TIME),
        ("outcome", pa.string()),
        ("completeness", pa.string()),
        ("changes", pa.map_(pa.string(), pa.int64())),  # logical changes by operation, undone ones included
        ("tables", _TEXTS),  # in name order
        ("bytes", pa.int64()),  # sum of the lengths of its records
        ("user", pa.string()),
    ]
)
"""One row per transaction."""

TABLE_VERSIONS: Final = pa.schema(
    [
        ("table_version", pa.string()),
        ("schema_name", pa.string()),
        ("table_name", pa.string()),
        ("first_position", pa.string()),
        ("first_event", SOURCE_EVENT),
        ("columns", pa.list_(COLUMN)),
        ("origin", pa.string()),
        ("schema_text", pa.string()),
        ("lineage", _MAP),
    ]
)
"""One row per version of a table."""
