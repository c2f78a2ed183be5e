"""The first pass over messages: which metadata, schema ids and shapes of rows there are (docs/formats/qlik-kafka.md).

It looks at the envelopes only, and into the data messages that name no metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from cdcwb.formats.arrays.maps import Ints
from cdcwb.formats.messages import Messages
from cdcwb.formats.qlik_kafka.decode import (
    MAGIC,
    Document,
    Form,
    Places,
    by_registry_id,
    forms_of,
    metadata_of,
    read_message,
    values_of,
)
from cdcwb.formats.qlik_kafka.decode.avro import ENVELOPE
from cdcwb.formats.qlik_kafka.lookup import Settings, Versions, table_of
from cdcwb.formats.qlik_kafka.names import TableName, name_of
from cdcwb.formats.qlik_kafka.plan import Asked
from cdcwb.formats.qlik_kafka.versions import Version, from_metadata

__all__ = ["Place", "Scan", "Shape", "scan"]

Place = tuple[int, int, int]
"""File index, offset and length of a record."""

_MOST: Final = 10_000  # shapes, and ids, of one part; there are more only where names and ids are data


@dataclass(frozen=True, slots=True)
class Shape:
    """What tells a version apart that has no metadata."""

    table: TableName
    external: str | None
    names: tuple[str, ...]


@dataclass(slots=True)
class Scan:
    """What one part tells. Every dictionary has the first place where its key was seen, or how often it was.

    ``of_id`` has the shape of the first JSON message of each schema id, in case its metadata never comes.
    ``clashing``: versions that differ from the one in ``metadata`` with the same schema id.
    """

    records: int = 0
    messages: int = 0
    forms: dict[str, int] = field(default_factory=dict)
    metadata: dict[str, tuple[Place, Version]] = field(default_factory=dict)
    clashing: list[tuple[Place, Version]] = field(default_factory=list)
    schema_ids: dict[str, Place] = field(default_factory=dict)
    schema_texts: dict[str, Place] = field(default_factory=dict)
    registry_ids: dict[int, Place] = field(default_factory=dict)
    registry_names: dict[int, set[TableName]] = field(default_factory=dict)
    shapes: dict[Shape, tuple[Place, int]] = field(default_factory=dict)
    of_id: dict[str, tuple[Place, Shape]] = field(default_factory=dict)

    def add(self, other: Scan) -> None:
        """Adds what a later part tells."""
        self.records += other.records
        self.messages += other.messages
        for name, count in other.forms.items():
            self.forms[name] = self.forms.get(name, 0) + count
        for place, version in (*other.metadata.values(), *other.clashing):
            self.describe(place, version)
        self.schema_ids = {**other.schema_ids, **self.schema_ids}
        self.schema_texts = {**other.schema_texts, **self.schema_texts}
        self.registry_ids = {**other.registry_ids, **self.registry_ids}
        self.of_id = {**other.of_id, **self.of_id}
        for number, names in other.registry_names.items():
            self.registry_names.setdefault(number, set()).update(names)
        for shape, (place, count) in other.shapes.items():
            first, so_far = self.shapes.get(shape, (place, 0))
            self.shapes[shape] = (first, so_far + count)

    def describe(self, place: Place, version: Version) -> None:
        """Adds the version that a metadata message describes. The same version again is a repeat; another one under the
        same schema id is kept as clashing."""
        _, known = self.metadata.setdefault(version.table_version, (place, version))
        mine = [known, *(one for _, one in self.clashing if one.table_version == version.table_version)]
        if not any(one.same_table(version) for one in mine) and len(self.clashing) < _MOST:
            self.clashing.append((place, version))

    def asked(self) -> Asked:
        """By what its messages look for their versions."""
        found = Asked(set(self.schema_ids), set(self.schema_texts), set(self.registry_ids))
        named = self.schema_ids.keys() | self.of_id.keys()
        found.schema_ids |= named
        found.names = bool(self.shapes)
        found.everything = max(len(named), len(self.shapes), len(self.registry_ids), len(self.of_id)) >= _MOST
        return found


class _Envelope(msgspec.Struct):
    magic: str | None = None
    type: str | None = None
    messageSchemaId: str | None = None  # noqa: N815  (the wire's name)


_LIGHT: Final = msgspec.json.Decoder(_Envelope)
_NOTHING: Final = Versions([])


def scan(batches: Iterable[tuple[Messages, Ints | int]], settings: Settings, schema: str | None = None) -> Scan:
    """Looks at messages that follow each other, each batch with the indices of their files. ``schema`` is the Avro
    schema that their container names."""
    found = Scan()
    for messages, file_index in batches:
        indices = np.broadcast_to(np.asarray(file_index, dtype=np.int64), len(messages.offset))
        _Batch(found, messages, indices, settings).look(schema)
    return found


class _Batch:
    def __init__(self, found: Scan, messages: Messages, file_index: Ints, settings: Settings) -> None:
        self.found = found
        self.messages = messages
        self.file_index = file_index
        self.settings = settings
        self.places = Places(messages)

    def place(self, number: int) -> Place:
        return int(self.file_index[number]), int(self.messages.offset[number]), int(self.messages.length[number])

    def look(self, schema: str | None) -> None:
        forms = forms_of(self.messages)
        self.found.records += len(forms)
        self.found.messages += int(np.count_nonzero(forms != Form.NOTHING))
        for form in Form:
            count = int(np.count_nonzero(forms == form))
            if count:
                self.found.forms[form.name] = self.found.forms.get(form.name, 0) + count
        json = np.flatnonzero(forms == Form.JSON)
        for number, value in zip(json.tolist(), values_of(self.messages, json).to_pylist(), strict=True):
            self._json(number, value)
        enveloped = np.flatnonzero(forms == Form.ENVELOPE)
        if len(enveloped):
            self._enveloped(enveloped)
        confluent = np.flatnonzero(forms == Form.CONFLUENT)
        if len(confluent) and schema is None:
            self._confluent(confluent)

    def _json(self, number: int, value: bytes) -> None:
        try:
            light = _LIGHT.decode(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            light = None
        if light is not None and light.magic == MAGIC and light.type == "DT" and light.messageSchemaId:
            if light.messageSchemaId in self.found.schema_ids:
                return
            if len(self.found.schema_ids) < _MOST:
                self.found.schema_ids[light.messageSchemaId] = self.place(number)
        try:
            document, complete = read_message(value, [])
        except ValueError:
            return
        if not complete:
            return
        if document.is_metadata:
            self._metadata(number, document)
            return
        external = document.headers.get("externalSchemaId")
        shape = Shape(
            self._table(number, document),
            external if isinstance(external, str) else None,
            tuple(document.data or document.before or ()),
        )
        if document.schema_id is not None:
            if len(self.found.of_id) < _MOST:
                self.found.of_id.setdefault(document.schema_id, (self.place(number), shape))
        elif shape in self.found.shapes:
            first, count = self.found.shapes[shape]
            self.found.shapes[shape] = (first, count + 1)
        elif len(self.found.shapes) < _MOST:
            self.found.shapes[shape] = (self.place(number), 1)

    def _table(self, number: int, document: Document) -> TableName:
        facts, key = self.places(number)
        row = document.data or document.before
        return table_of(self.settings, document.body, document.headers, row, facts, key)

    def _metadata(self, number: int, document: Document) -> None:
        try:
            version = from_metadata(document.body)
        except ValueError:
            return  # the event reports it
        place = self.place(number)
        version.file_index, version.offset, version.length = place
        self.found.describe(place, version)

    def _enveloped(self, index: Ints) -> None:
        values = values_of(self.messages, index)
        decoder = _NOTHING.decoder(ENVELOPE, ("type", "messageSchemaId", "messageSchema"))
        decoded = decoder.decode(values)
        for name, seen in (("messageSchemaId", self.found.schema_ids), ("messageSchema", self.found.schema_texts)):
            texts = decoded.column.field(name)
            is_data = pa.compute.and_(pa.array(decoded.ok), pa.compute.equal(decoded.column.field("type"), "DT"))
            for text, first in _firsts(pa.compute.if_else(is_data, texts, pa.scalar(None, pa.string()))).items():
                seen.setdefault(text, self.place(int(index[first])))
        kinds = decoded.column.field("type")
        described = np.flatnonzero(pa.compute.fill_null(pa.compute.equal(kinds, "MD"), False).to_numpy(False))
        if len(described):
            part = values.take(pa.array(described))
            for number, document in metadata_of(part, index[described], self.messages):
                self._metadata(number, document)

    def _confluent(self, index: Ints) -> None:
        for number, rows in by_registry_id(values_of(self.messages, index)):
            if number not in self.found.registry_ids and len(self.found.registry_ids) >= _MOST:
                continue
            first = int(index[rows[0]])
            self.found.registry_ids.setdefault(number, self.place(first))
            self.found.registry_names.setdefault(number, set()).update(self._named_around(index[rows]))

    def _named_around(self, index: Ints) -> set[TableName]:
        """The tables that the container names for some messages: by topic or record headers."""
        places = [place for place in self.settings.places if place in ("record_headers", "topic")]
        names = ("topic", "header.schema", "header.table")
        columns = {name: self.messages.facts[name] for name in names if name in self.messages.facts}
        if not columns or not places:
            return {name_of({}, {}, {}, {}, None, ())}
        table = pa.table(columns).take(pa.array(index)).group_by(list(columns)).aggregate([])
        rows: list[Mapping[str, Any]] = table.to_pylist()
        return {name_of({}, {}, {}, row, None, places) for row in rows[:100]}


def _firsts(texts: pa.StringArray) -> dict[str, int]:
    """Each text and the row where it stands first."""
    coded = texts.dictionary_encode()
    codes = coded.indices.to_numpy(zero_copy_only=False)
    out: dict[str, int] = {}
    for code, text in enumerate(coded.dictionary.to_pylist()):
        out[text] = int(np.flatnonzero(codes == code)[0])
    return out
