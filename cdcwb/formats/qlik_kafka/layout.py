"""The wire facts of Qlik's messages, as data (docs/formats/qlik-kafka.md §2 to §7)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final

from cdcwb.formats.moments import UNKNOWN_UNTIL, moment
from cdcwb.words import visible


class WireForm(IntEnum):
    """The wire form of a message, as its first bytes show it (§1.2)."""

    NOTHING = 0  # filler or malformed bytes of the container
    TOMBSTONE = 1
    JSON = 2
    ENVELOPE = 3  # Avro in Qlik's envelope
    CONFLUENT = 4
    BARE = 5  # none of these: Avro without a frame if its schema is known


MAGIC: Final = "atMSG"
"""What Qlik's envelope begins with (§2)."""

FRAME: Final = 5
"""Bytes of the Confluent framing: a zero and the schema's id, big-endian (§2.3)."""

ENVELOPE_SCHEMA: Final = """{"type": "record", "name": "MessageEnvelope", "fields": [
 {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 5}},
 {"name": "type", "type": "string"},
 {"name": "headers", "type": ["null", {"type": "map", "values": "string"}]},
 {"name": "messageSchemaId", "type": ["null", "string"]},
 {"name": "messageSchema", "type": ["null", "string"]},
 {"name": "message", "type": "bytes"}]}"""
"""The schema of the Avro envelope, as Qlik publishes it (§2.2)."""


def json_form(values: Mapping[str, Any]) -> str:
    """What an object of JSON is (§1.2): ``envelope``, ``payload`` (of Kafka Connect's JSON converter), ``record``,
    ``metadata``, ``legacy`` (of Attunity 5), or an empty text. ``values``: by name, a text, a dictionary for an object,
    anything else for another value."""
    if values.get("magic") == MAGIC:
        return "envelope"
    if isinstance(values.get("payload"), dict) and "schema" in values and "data" not in values:
        return "payload"
    if isinstance(values.get("headers"), dict) and not values.keys().isdisjoint(IMAGES):
        return "record"
    if isinstance(values.get("op"), str) and "data" in values:
        return "legacy"
    return "metadata" if {"tableStructure", "schemaId"} <= values.keys() else ""


# --- headers ----------------------------------------------------------------------------------------------------------

_OPERATIONS: Final = {
    "INSERT": "a row was inserted",
    "UPDATE": "a row was updated",
    "DELETE": "a row was deleted",
    "REFRESH": "a row of the full load; not a change",
}
_HEADERS: Final = {
    "changeSequence": (
        "order of all changes of the task: time and number", "no position in the order of changes, as in a full load"
    ),
    "timestamp": ("time of the change, UTC", "the time of the change is unknown"),
    "streamPosition": (
        "position in the source's log, in the source's own form", "no position in the source's log"
    ),
    "transactionId": ("the transaction that the change belongs to", "no transaction, as in a full load"),
    "transactionEventCounter": ("number of the event in its transaction", "no number in a transaction is given"),
    "transactionLastEvent": (
        "more events of the transaction follow", "whether the transaction continues is not given"
    ),
    "externalSchemaId": ("changes when the structure of the table changes", "not given"),
    "schema": ("schema of the table", "not given"),
    "table": ("name of the table", "not given"),
}  # fmt: skip


def header(name: str, text: str | None) -> str:
    """What a header of a data message means (§4.2); masks are not among them."""
    if name == "operation":
        return _OPERATIONS.get(text or "", "an unknown operation")
    given, empty = _HEADERS.get(name, ("an unknown field", "an unknown field"))
    if not text:
        return empty
    if name == "transactionEventCounter":
        return f"event {visible(text, 20)} of its transaction"
    if name == "transactionLastEvent" and text.lower() == "true":
        return "the transaction ends with this event"
    if name == "timestamp" and (at := moment(text)) is not None and at < UNKNOWN_UNTIL:
        return "a placeholder: the time of the change was unknown before its commit"
    return given


# --- envelope and metadata --------------------------------------------------------------------------------------------

ENVELOPE: Final = {
    "magic": "magic bytes of Qlik's envelope",
    "type": "DT: a data message, MD: a metadata message",
    "headers": "reserved; no known content",
    "messageSchemaId": "the schema of the message: schemaId of a metadata message",
    "messageSchema": "the Avro schema of the message itself",
    "message": "the message in its envelope",
}
"""What the fields of an envelope are (§2.1)."""

METADATA: Final = {
    "schemaId": "the id by which data messages refer to this version of the table",
    "lineage": "where the table comes from",
    "tableStructure": "the table's columns",
    "tableColumns": "one field for each column",
    "dataSchema": "the Avro schema of data messages",
    "server": "the Replicate server",
    "task": "the replication task",
    "schema": "schema of the table",
    "table": "name of the table",
    "tableVersion": "grows with each change of the table's structure",
    "timestamp": "when the message was made",
}
"""What the fields of a metadata message are (§3.1)."""

COLUMN_FACTS: Final = {
    "ordinal": "ordinal of the column, from 1: bit ordinal - 1 of the masks",
    "type": "Replicate's type",
    "length": "the most bytes a value takes; 0 where that does not apply",
    "precision": "digits of a NUMERIC",
    "scale": "digits after the decimal point of a NUMERIC",
    "primaryKeyPosition": "position in the primary key or unique index, from 1; 0: not in it",
    "nullable": "may it be NULL?",
}
"""What a metadata message says of a column (§3.2)."""


# --- rows -------------------------------------------------------------------------------------------------------------

MASKS: Final = ("changeMask", "columnMask")
"""The headers that are masks."""

IMAGES: Final = ("data", "beforeData")
"""The fields that are images of a row."""

LOBS: Final = frozenset({"BLOB", "CLOB", "NCLOB"})
"""Types whose columns are never in a change mask (§7.4)."""

_ROWS: Final = {
    ("INSERT", "data"): "the new row",
    ("UPDATE", "data"): "the after image",
    ("UPDATE", "beforeData"): "the before image",
    ("DELETE", "data"): "the deleted row",
    ("DELETE", "beforeData"): "the deleted row",
    ("REFRESH", "data"): "the loaded row",
}


def row_meaning(operation: str | None, name: str, is_null: bool) -> str:
    """What an image (``data`` or ``beforeData``) of a message is (§4.3)."""
    if is_null:
        return "no after image" if name == "data" else "no before image"
    return _ROWS.get((operation or "", name), "a row")
