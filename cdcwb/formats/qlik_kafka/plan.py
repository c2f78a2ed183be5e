"""What the first pass finds in a capture, and the plan that is made of it: versions, names of tables, byte order.

The first pass looks at envelopes, and into data messages that name no metadata. A plan is sent to the workers as one
text; its size depends on the numbers of files, parts and versions, not on that of messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.arrays import Ints
from cdcwb.formats.containers import detect, message_files
from cdcwb.formats.containers.avro_json import AVRO_JSON
from cdcwb.formats.containers.message_files import Container
from cdcwb.formats.containers.messages import Messages
from cdcwb.formats.containers.registry import read_registry
from cdcwb.formats.dissector import detected_row, problem_row
from cdcwb.formats.files import list_files
from cdcwb.formats.messages.format import Batches, MessagePlan, Options, Pass
from cdcwb.formats.qlik_kafka.decode import by_registry_id, decode, forms_of, scan_groups
from cdcwb.formats.qlik_kafka.layout import MAGIC, WireForm
from cdcwb.formats.qlik_kafka.masks import mask_order_row, votes_of
from cdcwb.formats.qlik_kafka.versions import (
    PLACES,
    UNNAMED,
    MessageSettings,
    MessageTable,
    Place,
    Version,
    VersionLookup,
    from_avro,
    from_names,
    name_of,
)
from cdcwb.model import Problem
from cdcwb.words import unused_name

__all__ = ["Plan", "complete"]


# --- first pass -------------------------------------------------------------------------------------------------------

_MOST: Final = 10_000  # shapes, and ids, of one part; there are more only if names and ids are data
_AVRO: Final = (WireForm.ENVELOPE, WireForm.CONFLUENT, WireForm.BARE)


class Shape(NamedTuple):
    """The identity of a version without metadata."""

    table: MessageTable
    external: str | None
    names: tuple[str, ...]


@dataclass(slots=True)
class FirstPass:
    """What the first pass finds in a part. Every dictionary has the first place of its key. ``shapes``: those of data
    messages that name no schema, and, by the schema id, of the first message in JSON of each, in case its metadata is
    missing. ``clashing``: versions that differ from the one in ``metadata`` with the same schema id."""

    records: int = 0
    messages: int = 0
    has_avro: bool = False
    metadata: dict[str, tuple[Place, Version]] = field(default_factory=dict)
    clashing: list[tuple[Place, Version]] = field(default_factory=list)
    schema_ids: set[str] = field(default_factory=set)
    schema_texts: dict[str, Place] = field(default_factory=dict)
    registry_ids: dict[int, Place] = field(default_factory=dict)
    registry_names: dict[int, set[MessageTable]] = field(default_factory=dict)
    shapes: dict[str | Shape, tuple[Place, Shape]] = field(default_factory=dict)

    def add(self, other: FirstPass) -> None:
        """Adds what was found in a later part."""
        self.records += other.records
        self.messages += other.messages
        self.has_avro |= other.has_avro
        self.schema_ids |= other.schema_ids
        for place, version in (*other.metadata.values(), *other.clashing):
            self.describe(place, version)
        for name in ("schema_texts", "registry_ids", "shapes"):
            setattr(self, name, {**getattr(other, name), **getattr(self, name)})
        for number, names in other.registry_names.items():
            self.registry_names.setdefault(number, set()).update(names)

    def describe(self, place: Place, version: Version) -> None:
        """Adds the version that a metadata message describes. The same version again is a repeat; another one under the
        same schema id is clashing."""
        _, known = self.metadata.setdefault(version.table_version, (place, version))
        mine = [known, *(one for _, one in self.clashing if one.table_version == version.table_version)]
        if not any(one.same_table(version) for one in mine) and len(self.clashing) < _MOST:
            self.clashing.append((place, version))


class _Envelope(msgspec.Struct):
    magic: str | None = None
    type: str | None = None
    messageSchemaId: str | None = None  # noqa: N815  (the wire's name)


_LIGHT: Final = msgspec.json.Decoder(_Envelope)


def scan(batches: Batches, container: Container | None, settings: MessageSettings) -> FirstPass:
    """What is found in consecutive messages of a container (None: rows of a topic)."""
    found = FirstPass()
    for messages, file_index in batches:
        indices = np.broadcast_to(np.asarray(file_index, dtype=np.int64), len(messages))
        _scan_batch(found, messages, indices, settings, container is not None and container.schema is not None)
    return found


def _scan_batch(found: FirstPass, messages: Messages, files: Ints, settings: MessageSettings, has_schema: bool) -> None:
    def note(known: dict[Any, Any], name: Any, number: int, *more: Any) -> None:
        if name not in known and len(known) < _MOST:
            known[name] = (place(number), *more) if more else place(number)

    def place(number: int) -> Place:
        return int(files[number]), int(messages.offset[number]), int(messages.length[number])

    forms = forms_of(messages)
    found.records += len(forms)
    found.messages += int(np.count_nonzero(forms != WireForm.NOTHING))
    found.has_avro |= bool(np.isin(forms, _AVRO).any())
    unknown = []
    for number in np.flatnonzero(forms == WireForm.JSON).tolist():
        schema_id = _schema_id(messages.value[number].as_py())
        if schema_id not in found.schema_ids:
            unknown.append(number)
            found.schema_ids |= {schema_id} if schema_id and len(found.schema_ids) < _MOST else set()
    json_messages = np.array(unknown, dtype=np.int64)
    decoded = scan_groups(messages, json_messages, np.flatnonzero(forms == WireForm.ENVELOPE), settings)
    for number, version in sorted(decoded.described, key=lambda one: one[0]):
        found.describe(place(number), version.at(place(number)))
    numbers, first = np.unique(decoded.group[decoded.rows], return_index=True)
    order = np.argsort(first)
    for number, at in zip(decoded.rows[first[order]].tolist(), numbers[order].tolist(), strict=True):
        group = decoded.groups[at]
        if group.schema_text is not None:
            note(found.schema_texts, group.schema_text, number)
        if group.schema_id is not None:
            found.schema_ids.add(group.schema_id)
        if group.is_decoded:
            shape = Shape(group.table, group.external, tuple(group.names))
            note(found.shapes, shape if group.schema_id is None else group.schema_id, number, shape)
    for identifier, rows in () if has_schema else by_registry_id(messages, forms):
        note(found.registry_ids, identifier, int(rows[0]))
        if identifier in found.registry_ids:
            names = _named_around(messages, rows, settings)
            found.registry_names.setdefault(identifier, set()).update(names)


def _schema_id(value: bytes) -> str | None:
    """The schema id of a data message in Qlik's JSON envelope."""
    try:
        light = _LIGHT.decode(value)
    except (ValueError, RecursionError):
        return None
    return light.messageSchemaId or None if light.magic == MAGIC and light.type == "DT" else None


def _named_around(messages: Messages, index: Ints, settings: MessageSettings) -> set[MessageTable]:
    """The tables that the container names for some messages: by topic or record headers."""
    nothing = pa.nulls(len(messages), pa.string())
    columns = [messages.facts.get(name, nothing) for name in ("topic", "header.schema", "header.table")]
    table = pa.table(columns, list("abc")).take(pa.array(index)).group_by(list("abc")).aggregate([])
    rows = ({"topic": (None, row["a"]), "record_headers": (row["b"], row["c"])} for row in table[:100].to_pylist())
    return {name_of(row, settings.places) for row in rows}


# --- names of tables --------------------------------------------------------------------------------------------------

_OVERLAP: Final = 0.5
_SPELLED: Final = {
    "message": "message, next to its data",
    "headers": "message's headers",
    "record_headers": "headers of the Kafka record",
    "column": "row, in an added column",
    "key": "message key",
    "namespace": "namespace of its Avro schema",
}


def usable_places(whole: FirstPass, given: str | None) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """The places of table names that are used, and the reason for each that is not.

    A message key is often a row's primary key instead of a table's name, a column ``table_name`` may be data, and
    several tables may share a topic. Such a value is a table's name only if the messages under one name have most of
    their columns in common, and rows with the same columns have one name.
    """
    if given is not None:
        return (given,), [detected_row("table_from", given, "given as an option", True)]
    for place in ("column", "topic", "key"):
        reason = _doubt([shape for _, shape in whole.shapes.values() if shape.table.place == place], place)
        if reason:  # a message that has this place was not asked for the following ones
            return PLACES[: PLACES.index(place)], [detected_row("table_from", f"not {place}", reason, False)]
    return PLACES[:-1], []


def _doubt(shapes: Sequence[Shape], place: str) -> str:
    first: dict[str, tuple[str, ...]] = {}
    for shape in shapes:
        known = first.setdefault(shape.table.label, shape.names)
        if len(set(known) & set(shape.names)) < _OVERLAP * min(len(known), len(shape.names)):
            one, other = (", ".join(names[:2]) for names in (known, shape.names))
            return f"rows under {shape.table.label} have different columns ({one} … and {other} …)"
    alike = {frozenset(shape.names) for shape in shapes}
    if place != "topic" and len(first) > len(alike):
        return f"{len(first)} different values with {len(alike)} sets of columns: they are data, not table names"
    return ""


# --- versions ---------------------------------------------------------------------------------------------------------


def find_versions(
    whole: FirstPass,
    outside: Sequence[Version],
    registry: Mapping[int, str],
    schemas: Iterable[tuple[str, str, Place]],
    places: Sequence[str],
) -> list[Version]:
    """The versions: from metadata messages (those of the capture before those ``outside`` of it), from the ``registry``
    (texts by ids) for every id that was seen, from Avro schemas of messages and others (``schemas``: text, origin,
    place), and from the shapes of messages without any of these. ``places``: where names of tables may be.
    """
    made = {version.table_version: version for version in reversed(outside)}
    made |= {name: version for name, (_, version) in whole.metadata.items()}
    missing = [one for name, one in whole.shapes.items() if name not in made]
    for _, version in whole.clashing:  # no message finds it by its id
        version.table_version, version.schema_id = unused_name(version.table_version, made), None
        made[version.table_version] = version
    versions = list(made.values())
    for number, place in whole.registry_ids.items():
        version = _of_registry(number, registry.get(number), whole.registry_names.get(number, set()))
        versions.append(version.at(place))
    numbers: Counter[str] = Counter()

    def numbered(label: str) -> str:
        numbers[label] += 1
        return f"{label}@{numbers[label]}"

    known = {version.text for version in versions}
    for text, origin, place in (*((text, "record", place) for text, place in whole.schema_texts.items()), *schemas):
        made_of_text = None if text in known else _of_text(text, origin)
        known.add(text)
        if made_of_text is not None:
            made_of_text.table_version = numbered(made_of_text.full_name or "unnamed")
            versions.append(made_of_text.at(place if place[1] >= 0 else (-1, -1, -1)))
    shapes: dict[Shape, Place] = {}
    for place, shape in missing:
        shape = shape if shape.table.place in places else shape._replace(table=UNNAMED)
        shapes[shape] = min(place, shapes.get(shape, place))
    taken = {version.table_version for version in versions}
    for shape, place in sorted(shapes.items(), key=lambda item: item[1]):
        name = f"external {shape.external}" if shape.external else numbered(shape.table.label)
        name = f"{name} {shape.table.label}" if shape.external and name in taken else name
        name = unused_name(name, taken, "@")
        taken.add(name)
        versions.append(from_names(name, shape.table, shape.names, shape.external).at(place))
    return sorted(versions, key=lambda version: version.place)


def _of_registry(number: int, text: str | None, names: set[MessageTable]) -> Version:
    version = Version(str(number), None, None, [], "registry", text)
    try:
        version = version if text is None else from_avro(text, str(number), "registry")
    except CaptureError as reason:
        version.problem = f"schema {number}: {reason.message}"
    version.registry_id = number
    (name,) = names if len(names) == 1 else (UNNAMED,)
    if version.table_name is None and name.table is not None:
        version.schema_name, version.table_name = name.schema, name.table
        version.lineage["table named by"] = name.place
    return version


def _of_text(text: str, origin: str) -> Version | None:
    """The version of an Avro schema of data records; None for that of an envelope or of something else."""
    try:
        version = from_avro(text, "", origin)
    except CaptureError:
        return None
    return version if version.columns else None


# --- plan -------------------------------------------------------------------------------------------------------------

_VOTING: Final = 4096  # messages that are examined for the byte order of their masks
_VOTING_OF_EACH: Final = 256  # of each part, at least


@dataclass(slots=True, kw_only=True)
class Plan(MessagePlan):
    """How a capture of messages is read."""

    settings: MessageSettings
    versions: list[Version] = field(default_factory=list)

    def lookup(self) -> VersionLookup:
        """The versions, to be found by what messages name."""
        return VersionLookup(self.versions)


def complete(plan: Plan, options: Options, each: Pass) -> None:
    """Adds to a plan what the first pass finds, and decides what is detected. Raises CaptureError."""
    whole, outside = FirstPass(), _outside(options.given.get("metadata", ""), plan.settings)
    for one in each(scan, plan.settings):
        whole.add(one)
    texts = read_registry(options.registry, sorted(whole.registry_ids)) if options.registry else {}
    if plan.settings.avro_schema is not None:  # a record without a frame may begin with a zero, too
        whole.registry_ids = {number: place for number, place in whole.registry_ids.items() if number in texts}
    places, detected = usable_places(whole, options.given.get("table_from"))
    is_printed = any(one.settings.get("encoding") == AVRO_JSON for one in plan.containers)
    plan.settings = replace(plan.settings, places=places, is_printed_avro=is_printed)
    schemas = [(one.schema, "record", (at, -1, -1)) for at, one in enumerate(plan.containers) if one.schema is not None]
    schemas += [] if plan.settings.avro_schema is None else [(plan.settings.avro_schema, "side file", (-1, -1, -1))]
    plan.notes += _clashes(whole, plan.containers)
    plan.versions = find_versions(whole, outside, texts, schemas, places)
    plan.notes += [
        problem_row(Problem.SCHEMA_TEXT, one.problem, table=one.full_name) for one in plan.versions if one.problem
    ]
    unresolved = whole.schema_ids - {one.schema_id for one in plan.versions}
    plan.facts |= {
        "records": whole.records,
        "messages": whole.messages,
        "table_versions": len(plan.versions),
        "unresolved_schemas": len(unresolved) + len(set(whole.registry_ids) - set(texts)),
    }
    plan.detected += [*detected, *_detected_rows(whole, plan.versions, unresolved, texts)]
    if "mask_order" in options.given:
        plan.detected.append(detected_row("mask_order", plan.settings.mask_order, "given as an option", True))
    elif whole.has_avro or is_printed or any(one.schema for one in plan.containers):
        most = max(_VOTING_OF_EACH, _VOTING // max(1, sum(map(len, plan.splits))))
        votes = [vote for some in each(_votes, (plan.to_text(), most)) for vote in some]
        order, row = mask_order_row(votes)
        plan.settings = replace(plan.settings, mask_order=order)
        plan.detected.append(row)


def _votes(batches: Batches, container: Container | None, given: tuple[str, int]) -> list[Any]:
    """The evidence about the byte order of masks in the first messages of a part, at least so many."""
    plan, most = Plan.from_text(given[0]), given[1]
    versions, votes, schema = plan.lookup(), [], None if container is None else container.schema
    for messages, _ in batches:
        decoded = decode(messages.head(most), plan.settings, versions, True, schema)
        votes.append(votes_of(decoded, plan.settings.is_printed_avro))
        most -= len(messages)
        if most <= 0:
            break
    return votes


def _clashes(whole: FirstPass, containers: Sequence[Container]) -> list[dict[str, Any]]:
    """Metadata messages that describe something else under a schema id that was there before."""
    notes = []
    for (file, offset, length), version in whole.clashing:
        (first_file, first_offset, _), _ = whole.metadata[version.table_version]
        at = f"offset {first_offset}"
        at += f" of {containers[first_file].path}" if containers and first_file != file else ""
        sentence = (
            f"expected the columns that schema id {version.table_version} has in the metadata message at {at}, found "
            "others; messages with this id are decoded with the first"
        )
        place = {"file": containers[file].path, "offset": offset, "length": length} if containers else {}
        notes.append(problem_row(Problem.SCHEMA_MISMATCH, sentence, table=version.full_name, **place))
    return notes


def _outside(paths: str, settings: MessageSettings) -> list[Version]:
    """The versions of the metadata messages outside of the capture, in files and folders, one in each line."""
    whole = FirstPass()
    for path in list_files(paths.split("\n")) if paths else ():
        container = detect.probe(path, {})
        for start, stop in message_files.parts(container):
            batches = ((messages, -1) for messages in message_files.read(container, start, stop))
            whole.add(scan(batches, container, settings))
    if paths and not whole.metadata:
        raise OptionError("option metadata: no metadata message was found there", path=paths.split("\n", maxsplit=1)[0])
    versions = [version.at((-1, -1, -1)) for _, version in whole.metadata.values()]
    for version in versions:
        version.origin = "side file"
    return versions


def _detected_rows(
    whole: FirstPass, versions: Sequence[Version], unresolved: set[str], texts: Mapping[int, str]
) -> list[dict[str, Any]]:
    """Where the names of tables were found that no metadata gives, and where the versions are from."""
    named: dict[tuple[str, str], dict[str, Any]] = {}
    for version in versions:
        place = version.lineage.get("table named by")
        if place and version.full_name:
            evidence = f"table version {version.table_version}: the name is in the {_SPELLED.get(place, place)}"
            row = detected_row("table_from", place, evidence, False, version.full_name)
            named.setdefault((version.full_name, place), row)
    rows = list(named.values())
    if whole.schema_ids:
        known = len(whole.schema_ids) - len(unresolved)
        evidence = f"{known} of {len(whole.schema_ids)} schema ids that data messages name have their metadata message"
        rows.append(detected_row("metadata", "messages" if known else "none", evidence, False))
    if whole.registry_ids:
        evidence = f"{len(texts)} of {len(whole.registry_ids)} schema ids of the Confluent framing are in the registry"
        rows.append(detected_row("registry", "given" if texts else "none", evidence, bool(texts)))
    inferred = sum(one.origin == "inferred" for one in versions)
    if inferred:
        evidence = f"no metadata: {inferred} table versions are the key orders of `data`, which give the ordinals"
        rows.append(detected_row("ordinals", "key order", evidence, False))
    return rows
