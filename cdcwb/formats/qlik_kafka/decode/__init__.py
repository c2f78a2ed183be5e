"""The messages of one batch, decoded by their wire forms (docs/formats/qlik-kafka.md §1)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import pyarrow as pa

from cdcwb.formats.arrays import Ints
from cdcwb.formats.containers.messages import Messages
from cdcwb.formats.qlik_kafka.decode.avro import (
    by_registry_id,
    decode_confluent,
    decode_enveloped,
    decode_records,
)
from cdcwb.formats.qlik_kafka.decode.json import decode_json, is_json, read_document, read_message
from cdcwb.formats.qlik_kafka.decode.rows import (
    Bools,
    Context,
    Document,
    Form,
    Image,
    Images,
    Parsed,
    Places,
    Rows,
    forms_of,
    values_of,
)
from cdcwb.formats.qlik_kafka.versions import Settings, Versions

__all__ = [
    "Bools",
    "Document",
    "Form",
    "Image",
    "Parsed",
    "Places",
    "Rows",
    "by_registry_id",
    "decode",
    "forms_of",
    "is_framed",
    "is_json",
    "metadata_of",
    "read_document",
    "read_message",
    "values_of",
]

Forms = np.ndarray[tuple[int], np.dtype[np.uint8]]

_NO_SCHEMA: Final = (
    "none of Qlik's wire forms: expected a JSON object, the Avro envelope (atMSG), the Confluent framing (00 and four "
    "bytes of schema id) or, for plain Avro, the option avro_schema; found the bytes {found}"
)


@dataclass(slots=True)
class Decoded:
    """A batch of messages: the form of each, and what the forms hold."""

    forms: Forms
    parsed: Parsed


def decode(
    messages: Messages, settings: Settings, versions: Versions, images: Images, schema: str | None = None
) -> Decoded:
    """Decodes a batch. ``schema`` is the Avro schema that the container says its values were written with."""
    context = Context(settings, versions, Places(messages), images)
    forms = forms_of(messages)
    parsed = Parsed()

    def of_form(chosen: Bools) -> tuple[pa.BinaryArray, Ints]:
        index = np.flatnonzero(chosen)
        return values_of(messages, index), index

    def add(part: Parsed) -> None:
        for one in fields(Parsed):
            getattr(parsed, one.name).extend(getattr(part, one.name))

    text = schema if schema is not None else settings.avro_schema
    framed = _framed(messages, forms, versions, schema, text)
    bare = (forms == Form.BARE) | ((forms == Form.CONFLUENT) & ~framed)
    if (forms == Form.JSON).any():
        add(decode_json(*of_form(forms == Form.JSON), context))
    if (forms == Form.ENVELOPE).any():
        add(decode_enveloped(*of_form(forms == Form.ENVELOPE), context))
    if framed.any():
        add(decode_confluent(*of_form(framed), context))
    if bare.any() and text is not None:
        add(decode_records(*of_form(bare), text, context))
    elif bare.any():
        values, index = of_form(bare)
        for number, value in zip(index.tolist(), values.to_pylist(), strict=True):
            parsed.bad.append((number, _NO_SCHEMA.format(found=value[:16].hex(" ") or "none")))
    return Decoded(forms, parsed)


def metadata_of(values: pa.BinaryArray, index: Ints, messages: Messages) -> list[tuple[int, Document]]:
    """The metadata messages among some values in Avro's envelope."""
    return decode_enveloped(values, index, Context(Settings(), Versions([]), Places(messages), False)).metadata


def is_framed(messages: Messages, versions: Versions, schema: str | None, settings: Settings) -> bool:
    """Has the first message the Confluent framing?"""
    text = schema if schema is not None else settings.avro_schema
    return bool(_framed(messages, forms_of(messages), versions, schema, text)[0])


def _framed(messages: Messages, forms: Forms, versions: Versions, schema: str | None, text: str | None) -> Bools:
    """Which values have the Confluent framing. A record without a frame may begin with a zero as well: where the
    container has a schema, or an option gives one and the id is not known, it is that."""
    found: Bools = (forms == Form.CONFLUENT) & (schema is None)
    if text is not None and found.any():
        index = np.flatnonzero(found)
        for number, rows in by_registry_id(values_of(messages, index)):
            version = versions.by_registry_id.get(number)
            found[index[rows]] = version is not None and version.text is not None
    return found
