"""The first pass over messages: metadata, schema ids and row shapes, and what follows from them for the capture.

It looks at the envelopes only, and into the data messages that name no metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats import bitmask
from cdcwb.formats.arrays import Ints
from cdcwb.formats.bitmask import Votes
from cdcwb.formats.containers.messages import Messages
from cdcwb.formats.dissector import detected_row, problem_row
from cdcwb.formats.qlik_kafka.decode import (
    Bools,
    Document,
    Form,
    Places,
    Rows,
    by_registry_id,
    decode,
    forms_of,
    metadata_of,
    read_message,
    values_of,
)
from cdcwb.formats.qlik_kafka.layout import ENVELOPE_SCHEMA, MAGIC
from cdcwb.formats.qlik_kafka.versions import (
    LOBS,
    NOBODY,
    PLACES,
    Settings,
    TableName,
    Version,
    Versions,
    from_avro,
    from_metadata,
    from_names,
    name_of,
    table_of,
)
from cdcwb.model import Problem
from cdcwb.words import unused_name

__all__ = ["Asked", "Scan", "find_versions", "mask_order_row", "scan", "table_rows", "usable_places", "votes_of"]


# --- scan -------------------------------------------------------------------------------------------------------------

Place = tuple[int, int, int]
"""File index, offset and length of a record."""

_MOST: Final = 10_000  # shapes, and ids, of one part; there are more only where names and ids are data


@dataclass(slots=True)
class Asked:
    """By what the messages of a container look for their versions: the ids and Avro schemas that they name, and names
    of tables and columns where ``names``, or where nothing is known of an id. ``everything``: too many to note."""

    schema_ids: set[str] = field(default_factory=set)
    schema_texts: set[str] = field(default_factory=set)
    registry_ids: set[int] = field(default_factory=set)
    names: bool = False
    everything: bool = False

    def add(self, other: Asked) -> None:
        """Adds what another part of the container asks for."""
        self.schema_ids |= other.schema_ids
        self.schema_texts |= other.schema_texts
        self.registry_ids |= other.registry_ids
        self.names |= other.names
        self.everything |= other.everything


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
        decoder = _NOTHING.decoder(ENVELOPE_SCHEMA, ("type", "messageSchemaId", "messageSchema"))
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


# --- detection --------------------------------------------------------------------------------------------------------

# --- masks ------------------------------------------------------------------------------------------------------------


def votes_of(
    batches: Iterable[Messages], settings: Settings, versions: Versions, schema: str | None, most: int
) -> tuple[Votes, Votes]:
    """What column masks, and change masks against images, say about the byte order of masks in the first Avro
    messages."""
    columns, changes = Votes(), Votes()
    for messages in batches:
        decoded = decode(messages, settings, versions, True, schema)
        avro = set(np.flatnonzero((decoded.forms != Form.JSON) & (decoded.forms != Form.NOTHING)).tolist())
        for rows in decoded.parsed.rows:
            if rows.version is None or not rows.count or int(rows.index[0]) not in avro:
                continue
            width = len(rows.version.bits)
            if rows.masks[1] is not None:
                columns = columns + bitmask.vote(rows.masks[1], width)
            if rows.masks[0] is not None:
                changes = changes + bitmask.vote(rows.masks[0], width, expected=_changed(rows, width))
        most -= len(messages.offset)
        if most <= 0:
            break
    return columns, changes


def _changed(rows: Rows, width: int) -> Bools | None:
    """What the images of updates say about which bits of their masks are set; None where they say nothing."""
    if rows.data is None or rows.before is None or rows.version is None:
        return None
    operations = rows.header("operation")
    if operations is None or not pc.all(pc.equal(operations, "UPDATE")).as_py():
        return None
    if list(rows.data.names) != list(rows.before.names):
        return None
    types = {column.name: column.type for column in rows.version.columns}
    bit_of = {name: bit for bit, name in enumerate(rows.version.bits)}
    differs = rows.data.differs(rows.before)
    expected = np.zeros((rows.count, width), dtype=np.bool_)
    for at, name in enumerate(rows.data.names):
        if name in bit_of and types.get(name) not in LOBS:
            expected[:, bit_of[name]] = differs[:, at]
    return expected


def mask_order_row(votes: Sequence[tuple[Votes, Votes]]) -> tuple[str, dict[str, Any]]:
    """The byte order of masks in Avro messages, and the evidence for it."""
    columns, changes = Votes(), Votes()
    for one, other in votes:
        columns, changes = columns + one, changes + other
    little, big = columns.little + changes.little, columns.big + changes.big
    order = "little" if little > big else "big"
    if little + big == 0:
        evidence = (
            "no mask of an Avro message shows it; the order of the JSON text, most significant byte first, is assumed"
        )
        return order, detected_row("mask_order", order, evidence, False)
    sentences = []
    for what, found in (("column masks", columns), ("change masks", changes)):
        if found.little + found.big:
            example = f" ({found.example})" if found.example else ""
            sentences.append(
                f"{what} fit as little-endian only in {found.little} rows, as big-endian only in {found.big}{example}"
            )
    return order, detected_row("mask_order", order, "; ".join(sentences), False)


# --- names of tables --------------------------------------------------------------------------------------------------

_OVERLAP: Final = 0.5


def usable_places(whole: Scan, given: str | None) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """The places whose names of tables are believed, with the reason for each that is not.

    A message key is as often a row's primary key as a table's name, a column called ``table_name`` may be data, and a
    topic may be shared by several tables. What they say is taken for a table's name only if the messages under one name
    have most of their columns in common, and rows with the same columns one name.
    """
    if given is not None:
        return (given,), [detected_row("table_from", given, "given as an option", True)]
    rows = []
    places = list(PLACES[:-1])
    for place in ("column", "topic", "key"):
        shapes = [shape for shape in whole.shapes if shape.table.place == place]
        shapes += [shape for _, shape in whole.of_id.values() if shape.table.place == place]
        reason = _doubt(shapes, place)
        if reason and place in places:
            # a message that this place named was not asked for what stands behind it
            del places[places.index(place) :]
            rows.append(detected_row("table_from", f"not {place}", reason, False))
    return tuple(places), rows


def _doubt(shapes: Sequence[Shape], place: str) -> str:
    first: dict[str, tuple[str, ...]] = {}
    for shape in shapes:
        known = first.setdefault(shape.table.label, shape.names)
        both = len(set(known) & set(shape.names))
        if both < _OVERLAP * min(len(known), len(shape.names)):
            there, here = ", ".join(known[:2]), ", ".join(shape.names[:2])
            return f"rows under {shape.table.label} have different columns ({there} … and {here} …)"
    alike = {frozenset(shape.names) for shape in shapes}
    if place != "topic" and len(first) > len(alike):
        return f"{len(first)} different values with {len(alike)} sets of columns: they are data, not table names"
    return ""


def table_rows(versions: Sequence[Version]) -> list[dict[str, Any]]:
    """Where the names of tables were found, for those that no metadata names."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for version in versions:
        place = version.lineage.get("table named by")
        if place and version.full_name:
            evidence = f"table version {version.table_version}: the name is in the {_SPELLED.get(place, place)}"
            row = detected_row("table_from", place, evidence, False, version.full_name)
            rows.setdefault((version.full_name, place), row)
    return list(rows.values())


_SPELLED: Final = {
    "message": "message, next to its data",
    "headers": "message's headers",
    "record_headers": "headers of the Kafka record",
    "column": "row, in an added column",
    "key": "message key",
    "namespace": "namespace of its Avro schema",
}


# --- versioning -------------------------------------------------------------------------------------------------------


def find_versions(
    whole: Scan,
    beside: Sequence[Version],
    registry: Mapping[int, str],
    containers: Sequence[tuple[int, str]],
    avro_schema: str | None,
    places: Sequence[str],
) -> tuple[list[Version], list[dict[str, Any]]]:
    """The versions, and problems that concern no event.

    From metadata messages (those of the capture before those ``beside`` it), from the ``registry`` (id -> schema text)
    for every id that was seen, from Avro schemas that messages, ``containers`` (file index, text) or an option bring,
    and from the shapes of messages that have none of these. ``places``: where tables' names may stand.
    """
    notes: list[dict[str, Any]] = []
    made = {name: version for name, (_, version) in whole.metadata.items()}
    for version in beside:
        made.setdefault(version.table_version, version)
    versions = list(made.values())
    for _, version in whole.clashing:  # no message finds it by its id
        version.table_version, version.schema_id = unused_name(version.table_version, made), None
        made[version.table_version] = version
        versions.append(version)
    for number, place in whole.registry_ids.items():
        versions.append(_of_registry(number, registry.get(number), place, whole.registry_names.get(number, set())))
    known = {version.text for version in versions}
    given = [(text, "record", place) for text, place in whole.schema_texts.items()]
    given += [(text, "record", (at, -1, -1)) for at, text in containers]
    given += [(avro_schema, "side file", (-1, -1, -1))] if avro_schema is not None else []
    numbers: dict[str, int] = {}
    for text, origin, place in given:
        if text not in known:
            known.add(text)
            versions.extend(_of_text(text, origin, place, numbers))
    shapes = {_placed(shape, places): (place, count) for shape, (place, count) in reversed(whole.shapes.items())}
    for name, (place, shape) in whole.of_id.items():
        if name not in made:
            shapes.setdefault(_placed(shape, places), (place, 1))
    taken = {version.table_version for version in versions}
    for shape, (place, _) in sorted(shapes.items(), key=lambda item: item[1][0]):
        version = _of_shape(shape, numbers, taken)
        version.file_index, version.offset, version.length = place
        versions.append(version)
    versions.sort(key=lambda version: version.place)
    for version in versions:
        if version.problem:
            notes.append(problem_row(Problem.SCHEMA_TEXT, version.problem, table=version.full_name))
    return versions, notes


def _of_registry(number: int, text: str | None, place: Place, names: set[TableName]) -> Version:
    label = str(number)
    if text is None:
        version = Version(label, None, None, [], "registry", problem=None)
    else:
        try:
            version = from_avro(text, label, "registry")
        except ValueError as reason:
            version = Version(label, None, None, [], "registry", text, problem=f"schema {number}: {reason}")
    version.registry_id = number
    named = [name for name in names if name.table is not None]
    if version.table_name is None and len(names) == 1 and named:
        version.schema_name, version.table_name = named[0].schema, named[0].table
        version.lineage["table named by"] = named[0].place
    version.file_index, version.offset, version.length = place
    return version


def _of_text(text: str, origin: str, place: Place, numbers: dict[str, int]) -> list[Version]:
    """The version of an Avro schema of data records; none for the schema of an envelope or of something else."""
    try:
        version = from_avro(text, "", origin)
    except ValueError:
        return []
    if not version.columns:
        return []
    label = version.full_name or "unnamed"
    numbers[label] = numbers.get(label, 0) + 1
    version.table_version = f"{label}@{numbers[label]}"
    version.file_index, version.offset, version.length = place if place[1] >= 0 else (-1, -1, -1)
    return [version]


def _placed(shape: Shape, places: Sequence[str]) -> Shape:
    """The shape, its table forgotten if its name stands in a place that is not believed."""
    if shape.table.place in places or shape.table is NOBODY:
        return shape
    return Shape(NOBODY, shape.external, shape.names)


def _of_shape(shape: Shape, numbers: dict[str, int], taken: set[str]) -> Version:
    label = shape.table.label
    if shape.external:
        name = f"external {shape.external}"
        name = f"{name} {label}" if name in taken else name
        if name in taken:
            numbers[name] = numbers.get(name, 1) + 1
            name = f"{name}@{numbers[name]}"
    else:
        numbers[label] = numbers.get(label, 0) + 1
        name = f"{label}@{numbers[label]}"
    taken.add(name)
    version = from_names(name, label, shape.names, shape.external)
    version.schema_name, version.table_name = shape.table.schema, shape.table.table
    if shape.table.table is not None:
        version.lineage["table named by"] = shape.table.place
    return version
