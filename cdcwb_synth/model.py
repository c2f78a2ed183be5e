"""The tables of the truth as Arrow schemas, the values of their text columns, and the error of a capture that cannot be
generated. They are not imported from ``cdcwb``, because its readers are compared with the truth.

Times are ``timestamp[us, tz=UTC]``. A null image map means: no such image; a null value is SQL NULL.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

import pyarrow as pa


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


Outcome = Literal["committed", "rolled_back", "undone", "undo", "open"]
"""The outcome of a change or a transaction. ``undone`` (reversed by a rollback to a savepoint) and ``undo`` (the
reversal of another change) are those of changes only."""

Completeness = Literal["complete", "no_begin", "no_end", "gaps", "unknown"]
"""Whether the capture has all events of a transaction."""

_TYPES: Final[dict[str, pa.DataType]] = {
    "text": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "flag": pa.bool_(),
    "time": pa.timestamp("us", tz="UTC"), "texts": pa.list_(pa.string()), "map": pa.map_(pa.string(), pa.string()),
    "counts": pa.map_(pa.string(), pa.int64()),
    "problems": pa.list_(pa.struct([("code", pa.string()), ("detail", pa.string())])),
}  # fmt: skip


def _schema(text: str) -> pa.Schema:
    """A schema from the names and types of its fields."""
    return pa.schema([(name, _TYPES[kind]) for name, kind in map(str.split, text.split(","))])


def _struct(text: str) -> pa.StructType:
    """A structure of these fields."""
    return pa.struct(list(_schema(text)))


SOURCE_EVENT: Final = _struct("file_index int, offset bigint, length bigint")
"""The location of a record that a change consists of."""

COLUMN: Final = _struct(
    "ordinal int, name text, type text, length int, precision int, scale int, key_position int, nullable flag"
)
"""One column of a table version; what the capture does not give is null. ``ordinal`` and ``key_position`` count from 1,
``type`` is spelled as in the source, ``length`` counts bytes, ``scale`` is null for a floating decimal."""

_TYPES.update(event=SOURCE_EVENT, events=pa.list_(SOURCE_EVENT), columns=pa.list_(COLUMN))

CHANGES: Final = _schema(
    "format text, file text, file_index int, offset bigint, length bigint, offset_unit text, record_type text,"
    "kind text, operation text, position text, commit_position text, transaction_id text, event_no bigint,"
    "last_in_transaction flag, changed_at time, schema_name text, table_name text, table_version text,"
    "change_mask text, column_mask text, changed_columns texts, present_columns texts, key map, before map,"
    "after map, headers map, problems problems, source_events events, outcome text, committed_at time,"
    "change_source text"
)
"""One row per logical change; location and position are those of the after record of an update. ``kind`` is always
``change``; ``problems`` is null: the truth shows what happened, not what a reader remarks about it. ``outcome`` is null
for REFRESH and the event log. ``change_source``: ``mask`` (in the capture), ``images`` (a comparison of both), or
``log`` (the record lists the columns that were written)."""

TRANSACTIONS: Final = _schema(
    "transaction_id text, begin_position text, end_position text, began_at time, ended_at time, outcome text,"
    "completeness text, changes counts, tables texts, bytes bigint, user text"
)
"""One row per transaction; ``changes`` counts logical changes by operation, undone ones included, ``tables`` are in
name order, ``bytes`` is the sum of the lengths of its records."""

BREAKS: Final = _schema("kind text, table text, key map, position text, file text, file_index int, offset bigint")
"""One row per break that was asked for and that the images of the capture show, in capture order: its kind (gap,
repeat, late, revived, phantom), and the record that contradicts the changes of its row before it."""

TABLE_VERSIONS: Final = _schema(
    "table_version text, schema_name text, table_name text, first_position text, first_event event,"
    "columns columns, origin text, schema_text text, lineage map"
)
"""One row per version of a table."""
