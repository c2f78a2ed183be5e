"""What the fields, rows and masks of a message mean (docs/formats/qlik-kafka.md §2 to §7)."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from cdcwb.formats.base import Field
from cdcwb.formats.moments import moment
from cdcwb.formats.sequences import UNKNOWN_UNTIL
from cdcwb.model import Problem
from cdcwb.words import joined, plural, visible

__all__ = [
    "COLUMN_FACTS",
    "ENVELOPE",
    "ENVELOPE_SCHEMA",
    "FRAME",
    "IMAGES",
    "LETTERS",
    "MAGIC",
    "MASKS",
    "METADATA",
    "RENAMED",
    "Column",
    "Meaning",
    "Row",
    "header",
    "image_meaning",
    "mask_bytes",
    "mask_children",
    "mask_meaning",
    "row_meaning",
    "sequence_children",
]

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

LETTERS: Final = {"F": "REFRESH", "I": "INSERT", "U": "UPDATE", "D": "DELETE"}
"""Operations of the legacy form (§11)."""

RENAMED: Final = {"change_seq": "changeSequence", "stream_position": "streamPosition", "ts": "timestamp"}
"""Header fields of the legacy form, and what they are called otherwise (§11)."""


# --- meanings ---------------------------------------------------------------------------------------------------------

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


# --- row meanings -----------------------------------------------------------------------------------------------------

Column = tuple[str, str | None]
"""Name and Replicate's type of a column, where it is known."""

MASKS: Final = ("changeMask", "columnMask")
"""The headers that are masks."""

IMAGES: Final = ("data", "beforeData")
"""The fields that are images of a row."""

_LOBS: Final = ("BLOB", "CLOB", "NCLOB")


class Row:
    """What the fields of a data message say about each other.

    ``columns`` are those of the bits of its masks, bit 0 first. ``data`` and ``before`` are its images: texts by name,
    None for null. ``changed`` and ``captured`` are the masks as numbers whose bit n is bit n; None: no such mask.
    """

    def __init__(
        self,
        operation: str | None,
        columns: Sequence[Column],
        data: Mapping[str, str | None] | None = None,
        before: Mapping[str, str | None] | None = None,
        changed: int | None = None,
        captured: int | None = None,
    ) -> None:
        self.operation = operation
        self.columns = columns
        self.images = [image for image in (data, before) if image is not None]
        self.bit = {name: bit for bit, (name, _) in enumerate(columns)}
        self.changed = flags(changed, len(columns))
        self.captured = flags(captured, len(columns))
        self.comparable = len(self.images) == 2 and operation == "UPDATE"

    def has_value(self, name: str) -> bool:
        """Has one of the images a value for the column?"""
        return any(image.get(name) is not None for image in self.images)

    def is_absent(self, name: str) -> bool:
        """Is the column null because it was not captured (§7.5)?"""
        bit = self.bit.get(name)
        return self.captured is not None and bit is not None and not self.captured[bit] and not self.has_value(name)

    def is_changed(self, name: str) -> bool | None:
        """What the change mask says of the column; None where it says nothing."""
        bit = self.bit.get(name)
        return None if self.changed is None or bit is None else self.changed[bit]

    def contradiction(self, mask: str, bit: int, is_set: bool) -> str | None:
        """Why the images contradict a mask in this bit (§7.4, §7.5); None where they do not."""
        name, kind = self.columns[bit]
        if mask == "columnMask":
            return "but the row has a value" if not is_set and self.has_value(name) else None
        if not self.comparable or kind in _LOBS or self.is_absent(name):
            return None
        if any(name not in image for image in self.images):
            return None
        if is_set == (self.images[0][name] != self.images[1][name]):
            return None
        return "but its images are equal" if is_set else "but its images differ"


def flags(bits: int | None, count: int) -> list[bool] | None:
    """Which of the first ``count`` bits of a number are set; None for no number."""
    if bits is None:
        return None
    low = (bits & ((1 << count) - 1)).to_bytes(count // 8 + 1, "little")
    return [bool(low[bit >> 3] >> (bit & 7) & 1) for bit in range(count)]


# --- rows -------------------------------------------------------------------------------------------------------------

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


def image_meaning(row: Row, name: str, is_null: bool) -> str:
    """What a column of an image is, and what the masks say of it."""
    bit = row.bit.get(name)
    if bit is None:
        parts = ["a column that the table version does not have"]
    else:
        kind = row.columns[bit][1]
        parts = [f"column {bit + 1}" + (f", {visible(kind, 30)}" if kind else "")]
    if row.is_absent(name):
        parts.append("not captured")
    elif is_null:
        parts.append("NULL")
    if row.operation == "UPDATE" and row.is_changed(name):
        parts.append("changed")
    return parts[0] + (": " if len(parts) > 1 else "") + ", ".join(parts[1:])


# --- masks ------------------------------------------------------------------------------------------------------------


def mask_bytes(text: str) -> bytes | None:
    r"""The bytes of a mask that is text: hexadecimal digits, also behind ``0x`` or ``\x``, or base64 (§7.2); None where
    it is neither."""
    text = text.strip(" \t\n\v\f\r")
    digits = text[2:] if re.match(r"(?:0|\\)[xX]", text) else text
    if re.fullmatch(r"[0-9a-fA-F]*", digits):
        return bytes.fromhex("0" * (len(digits) % 2) + digits)
    try:
        return base64.b64decode(text, validate=True) if digits is text else None
    except (binascii.Error, ValueError):
        return None


_WORDS: Final = {"changeMask": ("changed", "not changed"), "columnMask": ("captured", "not captured")}
_PLURALS: Final = {"changeMask": "columns that changed", "columnMask": "columns that were captured"}
_NAMED: Final = 6


def mask_meaning(name: str, bits: int | None, row: Row) -> str:
    """Which columns a mask names; ``bits`` None: there is no mask."""
    if bits is None:
        return f"{_PLURALS[name]}: not given"
    marked = flags(bits, len(row.columns)) or ()
    found = [
        column or f"bit {bit}"
        for bit, ((column, _), is_set) in enumerate(zip(row.columns, marked, strict=False))
        if is_set
    ]
    named = [visible(column, 40) for column in found[:_NAMED]]
    if len(found) > _NAMED:
        named.append(f"{len(found) - _NAMED} more")
    return f"{_PLURALS[name]}: {joined(named) or 'none'}"


def mask_children(name: str, bits: int, at: int, row: Row) -> tuple[Field, ...]:
    """The bits of a mask, each named by its column, bit 0 first, and what is set behind the last column.

    A bit has no byte of its own: its length is 0, and ``at`` is the byte behind the mask.
    """
    words = _WORDS[name]
    count = len(row.columns)
    children = []
    for bit, is_set in enumerate(flags(bits, count) or ()):
        value = words[0] if is_set else words[1]
        meaning, problem = f"bit {bit}, ordinal {bit + 1}", None
        wrong = row.contradiction(name, bit, is_set)
        if wrong is not None:
            meaning, problem = f"{meaning}: {value}, {wrong}", Problem.MASK_IMAGES
        children.append(Field(row.columns[bit][0] or f"bit {bit}", at, 0, b"", value, meaning, (), problem))
    behind = bits >> count
    if behind:
        first, last = count + (behind & -behind).bit_length() - 1, bits.bit_length() - 1
        found = f"bit {last}" if first == last else f"bits up to {last}"
        sentence = f"expected bits of {plural(count, 'column')}, found {found}"
        value = f"bit {first}" if first == last else f"bits {first} to {last}"
        children.append(Field("beyond the columns", at, 0, b"", value, sentence, (), Problem.MASK))
    return tuple(children)
