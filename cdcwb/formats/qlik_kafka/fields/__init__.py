"""One message as a tree of fields, with the bytes, value and meaning of each (docs/formats/qlik-kafka.md).

It shares nothing with the reader, so that tests can hold each to the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cdcwb.formats.base import Field
from cdcwb.formats.qlik_kafka.fields.avro import bare, enveloped, framed
from cdcwb.formats.qlik_kafka.fields.json import Resolve, json_message
from cdcwb.formats.qlik_kafka.layout import (
    FRAME,
    Column,
)
from cdcwb.model import Problem

__all__ = ["dissect"]


_BLANK: Final = b"\xef\xbb\xbf \t\r\n"


def dissect(
    value: bytes | None,
    resolve: Resolve | None = None,
    order: str = "big",
    columns: Sequence[str | Column] | None = None,
) -> Field:
    """The field tree of one message value (None: a tombstone).

    ``resolve`` gives the Avro schema of a schema id (None: none is known, and nothing is said about that). ``order`` is
    the byte order of masks in Avro (``big`` or ``little``, §7.3). ``columns`` are the columns of the message's table
    version in the order of their ordinals, empty where an ordinal is not in use: names, or names with Replicate's
    types, which tell the LOB columns that no change mask names. Without them the columns of the row count, in their
    order (§7.7).

    Children fill their node without holes, in byte order, whatever the bytes are; every byte is in exactly one leaf.
    The bits of a mask are leaves without bytes. ``problem`` marks the field that is wrong. Never raises.
    """
    if value is None:
        said = "no value: a tombstone; a compacted topic deletes the row with this key"
        return Field("tombstone", 0, 0, b"", None, said)
    known = None if columns is None else [(one, None) if isinstance(one, str) else one for one in columns]
    if value.lstrip(_BLANK)[:1] == b"{":
        return json_message(value, resolve, known)
    if value.startswith(b"atMSG"):
        return enveloped(value, resolve, order, known)
    plain = None if resolve is None else resolve("")
    if value.startswith(b"\0") and len(value) >= FRAME:
        number = str(int.from_bytes(value[1:FRAME], "big"))
        if plain is None or resolve is None or resolve(number) is not None:
            return framed(value, resolve, order, known)
    if plain is not None:
        return bare(value, plain, order, known)
    said = "expected a JSON object, atMSG, or 00 and a schema id"
    found = f"{said}, found {value[:16].hex(' ') or 'nothing'}"
    return Field("message", 0, len(value), value, None, found, (), Problem.MALFORMED)
