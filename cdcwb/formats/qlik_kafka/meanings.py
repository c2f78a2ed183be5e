"""What the fields of a message mean, in one sentence each (docs/formats/qlik-kafka.md §2 to §6)."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Final

from cdcwb.formats.base import Field
from cdcwb.formats.moments import moment
from cdcwb.formats.sequences import UNKNOWN_UNTIL
from cdcwb.model import Problem
from cdcwb.words import visible

__all__ = ["COLUMN_FACTS", "ENVELOPE", "METADATA", "Meaning", "header", "sequence_children"]

Meaning = tuple[str, Problem | None]
"""A sentence, and what is wrong with the field."""


# --- headers ----------------------------------------------------------------------------------------------------------

_OPERATIONS: Final = {
    "INSERT": "a row was inserted",
    "UPDATE": "a row was updated",
    "DELETE": "a row was deleted",
    "REFRESH": "a row of the full load; not a change",
}


def _operation(text: str | None) -> Meaning:
    if text in _OPERATIONS:
        return _OPERATIONS[text], None
    return f"expected INSERT, UPDATE, DELETE or REFRESH, found {_found(text)}", Problem.VALUE


def _found(text: str | None) -> str:
    return "null" if text is None else repr(visible(text, 60))


def _sequence(text: str | None) -> Meaning:
    if not text:
        return "no position in the order of changes, as in a full load", None
    if _sequence_time(text) is None:
        return f"expected 16 digits of time and 19 more, found {_found(text)}", Problem.VALUE
    return "order of all changes of the task: time and number", None


def _sequence_time(text: str) -> dt.datetime | None:
    """The time that a change sequence begins with (§5.1); None where it is no sequence."""
    if not re.fullmatch(r"[0-9]{35}", text):
        return None
    parts = [int(text[:4]), *(int(text[at : at + 2]) for at in range(4, 16, 2))]
    try:
        return dt.datetime(*parts[:6], parts[6] * 10_000, tzinfo=dt.UTC)  # type: ignore[misc,arg-type]
    except ValueError:
        return None


def _timestamp(text: str | None) -> Meaning:
    if not text:
        return "the time of the change is unknown", None
    at = moment(text)
    if at is None:
        return f"expected an ISO 8601 time, found {_found(text)}", Problem.VALUE
    if at < UNKNOWN_UNTIL:
        return "a placeholder: the time of the change was unknown before its commit", None
    return "time of the change, UTC", None


def _counter(text: str | None) -> Meaning:
    if not text:
        return "no number in a transaction is given", None
    if not re.fullmatch(r"-?[0-9]{1,19}", text) or not -(1 << 63) <= int(text) < 1 << 63:
        return f"expected a whole number, found {_found(text)}", Problem.VALUE
    return f"event {int(text)} of its transaction", None


def _last(text: str | None) -> Meaning:
    if not text:
        return "whether the transaction continues is not given", None
    if text.lower() not in ("true", "false"):
        return f"expected true or false, found {_found(text)}", Problem.VALUE
    ends = text.lower() == "true"
    return ("the transaction ends with this event" if ends else "more events of the transaction follow"), None


def _or_empty(meaning: str, empty: str) -> Callable[[str | None], Meaning]:
    return lambda text: (meaning if text else empty, None)


_HEADERS: Final[dict[str, Callable[[str | None], Meaning]]] = {
    "operation": _operation,
    "changeSequence": _sequence,
    "timestamp": _timestamp,
    "streamPosition": _or_empty(
        "position in the source's log, in the source's own form", "no position in the source's log"
    ),
    "transactionId": _or_empty("the transaction that the change belongs to", "no transaction, as in a full load"),
    "transactionEventCounter": _counter,
    "transactionLastEvent": _last,
    "externalSchemaId": _or_empty("changes when the structure of the table changes", "not given"),
    "schema": _or_empty("schema of the table", "not given"),
    "table": _or_empty("name of the table", "not given"),
}


def header(name: str, text: str | None) -> Meaning:
    """What a header of a data message says (§4.2); masks are not among them."""
    say = _HEADERS.get(name)
    return ("an unknown field", None) if say is None else say(text)


def sequence_children(text: str, at: int, raw: bytes) -> tuple[Field, ...]:
    """Time and number of a change sequence whose 35 digits are ``raw`` and begin at byte ``at``; nothing where it is
    none."""
    moment = _sequence_time(text)
    if moment is None or raw != text.encode("ascii"):
        return ()
    shown = f"{moment:%Y-%m-%dT%H:%M:%S}.{text[14:16]}Z"
    said = "UTC of the Replicate server, in hundredths of a second; usually that of the commit"
    return (
        Field("time", at, 16, raw[:16], shown, said),
        Field("number", at + 16, 19, raw[16:], text[16:], f"change {int(text[16:])} of the task"),
    )


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
