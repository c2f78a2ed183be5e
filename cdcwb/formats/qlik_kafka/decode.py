"""The messages of one batch, decoded by their wire forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from cdcwb.formats.arrays.maps import Ints
from cdcwb.formats.messages import Messages
from cdcwb.formats.qlik_kafka.avro_rows import by_registry_id, decode_confluent, decode_enveloped, decode_records
from cdcwb.formats.qlik_kafka.json_columns import read_alike
from cdcwb.formats.qlik_kafka.json_rows import Images, Parsed, parse_messages
from cdcwb.formats.qlik_kafka.lookup import Settings, Versions
from cdcwb.formats.qlik_kafka.rows import Bools
from cdcwb.formats.qlik_kafka.wire import Form, forms_of, values_of

__all__ = ["Decoded", "Places", "decode"]

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


class Places:
    """What the container says of the messages of a batch, one at a time: (facts, key).

    They are unpacked when the first is asked for.
    """

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        there = {name for name, texts in messages.facts.items() if texts.null_count < len(texts)}
        self.known = frozenset(there | ({"key"} if messages.key.null_count < len(messages.key) else set()))
        self._facts: dict[str, list[str | None]] | None = None
        self._keys: list[bytes | None] = []

    def __call__(self, number: int) -> tuple[Mapping[str, str | None], bytes | None]:
        """The facts and the key of the message ``number``."""
        if self._facts is None:
            self._facts = {name: texts.to_pylist() for name, texts in self._messages.facts.items()}
            self._keys = self._messages.key.to_pylist()
        return {name: texts[number] for name, texts in self._facts.items()}, self._keys[number]


def decode(
    messages: Messages, settings: Settings, versions: Versions, images: Images, schema: str | None = None
) -> Decoded:
    """Decodes a batch. ``schema`` is the Avro schema that the container says its values were written with."""
    forms = forms_of(messages)
    place = Places(messages)
    parts: list[Parsed] = []
    json = np.flatnonzero(forms == Form.JSON)
    if len(json):
        parts.append(_json(values_of(messages, json), json, settings, versions, place, images))
    enveloped = np.flatnonzero(forms == Form.ENVELOPE)
    if len(enveloped):
        part = values_of(messages, enveloped)
        parts.append(decode_enveloped(part, enveloped, settings, versions, place, images))
    text = schema if schema is not None else settings.avro_schema
    framed = _framed(messages, forms, versions, schema, text)
    confluent = np.flatnonzero(framed)
    if len(confluent):
        part = values_of(messages, confluent)
        parts.append(decode_confluent(part, confluent, settings, versions, place, images))
    bare = np.flatnonzero((forms == Form.BARE) | ((forms == Form.CONFLUENT) & ~framed))
    if len(bare):
        parts.append(_bare(messages, bare, text, settings, versions, place, images))
    whole = Parsed()
    for one in parts:
        whole.add(one)
    return Decoded(forms, whole)


def _json(
    values: pa.BinaryArray, index: Ints, settings: Settings, versions: Versions, place: Places, images: Images
) -> Parsed:
    """JSON values: by columns where they are alike, else one by one."""
    rows, read = read_alike(values, index, settings, versions, place, images)
    if read.all():
        return Parsed(rows)
    rest = np.flatnonzero(~read)
    texts = (values if len(rest) == len(values) else values.take(pa.array(rest))).to_pylist()
    parsed = parse_messages(zip(index[rest].tolist(), texts, strict=True), settings, versions, place, images)
    parsed.rows[:0] = rows
    return parsed


def _framed(messages: Messages, forms: Forms, versions: Versions, schema: str | None, text: str | None) -> Bools:
    """Which values have the Confluent framing. A record without a frame may begin with a zero as well: where the
    container brings a schema, or an option does and the id is not known, it is that."""
    found: Bools = (forms == Form.CONFLUENT) & (schema is None)
    if text is not None and found.any():
        index = np.flatnonzero(found)
        for number, rows in by_registry_id(values_of(messages, index)):
            version = versions.by_registry_id.get(number)
            found[index[rows]] = version is not None and version.text is not None
    return found


def _bare(
    messages: Messages,
    index: Ints,
    text: str | None,
    settings: Settings,
    versions: Versions,
    place: Places,
    images: Images,
) -> Parsed:
    values = values_of(messages, index)
    if text is not None:
        return decode_records(values, index, text, settings, versions, place, images)
    bad = []
    for number, value in zip(index.tolist(), values.to_pylist(), strict=True):
        bad.append((number, _NO_SCHEMA.format(found=value[:16].hex(" ") or "none")))
    return Parsed(bad=bad)
