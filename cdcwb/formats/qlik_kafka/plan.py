"""From files, or from rows with Kafka's columns, to a plan: what the first pass finds, versions, names of tables.

The first pass looks at envelopes, and into data messages that name no metadata. A plan is sent to the workers as one
text; its size depends on the numbers of files, parts and versions, not on that of messages.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from cdcwb.errors import OptionError
from cdcwb.formats import options as opt
from cdcwb.formats.arrays import Ints
from cdcwb.formats.containers import detect, kafka_rows, message_files
from cdcwb.formats.containers.avro_json import AVRO_JSON
from cdcwb.formats.containers.detect import probe_all
from cdcwb.formats.containers.kafka_rows import messages_of
from cdcwb.formats.containers.message_files import Container, container_rows
from cdcwb.formats.containers.messages import Messages
from cdcwb.formats.containers.registry import read_registry
from cdcwb.formats.dissector import Piece, Run, RunRows, detected_row, problem_row
from cdcwb.formats.files import list_files
from cdcwb.formats.messages.format import (
    MESSAGE_OPTIONS,
    MessagePlan,
    Task,
    file_notes,
    first_pass,
    given_options,
    plan_tasks,
)
from cdcwb.formats.qlik_kafka.decode import by_registry_id, decode, forms_of, scan_groups
from cdcwb.formats.qlik_kafka.events import FORMAT
from cdcwb.formats.qlik_kafka.layout import MAGIC, Form
from cdcwb.formats.qlik_kafka.masks import mask_order_row, votes_of
from cdcwb.formats.qlik_kafka.versions import (
    PLACES,
    UNNAMED,
    Settings,
    TableName,
    Version,
    Versions,
    from_avro,
    from_names,
    name_of,
)
from cdcwb.model import Problem
from cdcwb.words import unused_name

__all__ = ["OPTIONS", "Options", "Plan", "make_plan", "make_row_plan", "pieces_of"]


# --- options ----------------------------------------------------------------------------------------------------------

OPTIONS: Final[dict[str, str]] = {
    **MESSAGE_OPTIONS,
    "metadata": "files or a folder with metadata messages that are not in the capture",
    "mask_order": "byte order of masks in Avro messages: auto, big, little",
    "table_from": f"location of the table name if no metadata gives it: auto, {', '.join(PLACES)}",
}
"""Every option of the format and what it means."""


@dataclass(frozen=True, slots=True)
class Options:
    """The checked options of a capture. None: to be detected."""

    registry: str | None = None
    metadata: tuple[str, ...] = ()
    avro_schema: str | None = None
    mask_order: str | None = None
    table_from: str | None = None
    mode: str = "PERMISSIVE"
    container: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Options:
        """Checked options from names and values. Raises OptionError."""
        shared, values = given_options(given, OPTIONS, FORMAT)
        order = opt.as_choice("mask_order", values.get("mask_order", "auto"), ("auto", "big", "little"))
        place = opt.as_choice("table_from", values.get("table_from", "auto"), ("auto", *PLACES))
        metadata = values.get("metadata", ())
        return cls(
            **shared,
            metadata=(str(metadata),) if isinstance(metadata, (str, Path)) else tuple(map(str, metadata)),
            avro_schema=message_files.Options.parse(values).avro_schema,
            mask_order=None if order == "auto" else order,
            table_from=None if place == "auto" else place,
        )

    @property
    def settings(self) -> Settings:
        """The settings before anything was detected."""
        places = PLACES if self.table_from is None else (self.table_from,)
        return Settings(self.mask_order or "big", places, self.avro_schema)


# --- first pass -------------------------------------------------------------------------------------------------------

Place = tuple[int, int, int]
"""File index, offset and length of a record."""

_MOST: Final = 10_000  # shapes, and ids, of one part; there are more only if names and ids are data


class Shape(NamedTuple):
    """The identity of a version without metadata."""

    table: TableName
    external: str | None
    names: tuple[str, ...]


@dataclass(slots=True)
class Scan:
    """What the first pass finds in a part. Every dictionary has the first place of its key. ``of_id``: the shape of the
    first JSON message of each schema id, in case its metadata is missing. ``clashing``: versions that differ from the
    one in ``metadata`` with the same schema id."""

    records: int = 0
    messages: int = 0
    forms: set[Form] = field(default_factory=set)
    metadata: dict[str, tuple[Place, Version]] = field(default_factory=dict)
    clashing: list[tuple[Place, Version]] = field(default_factory=list)
    schema_ids: set[str] = field(default_factory=set)
    schema_texts: dict[str, Place] = field(default_factory=dict)
    registry_ids: dict[int, Place] = field(default_factory=dict)
    registry_names: dict[int, set[TableName]] = field(default_factory=dict)
    shapes: dict[Shape, Place] = field(default_factory=dict)
    of_id: dict[str, tuple[Place, Shape]] = field(default_factory=dict)

    @property
    def wanted(self) -> set[Any]:
        """What its messages find their versions by: ids and texts of schemas; None: names of tables and columns, or too
        many to note."""
        found = {*self.schema_ids, *self.registry_ids, *self.schema_texts}
        return found | {None} if self.shapes or len(found) >= _MOST else found

    def add(self, other: Scan) -> None:
        """Adds what was found in a later part."""
        self.records += other.records
        self.messages += other.messages
        self.forms |= other.forms
        self.schema_ids |= other.schema_ids
        for place, version in (*other.metadata.values(), *other.clashing):
            self.describe(place, version)
        for name in ("schema_texts", "registry_ids", "shapes", "of_id"):
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


def scan(batches: Iterable[tuple[Messages, Ints | int]], settings: Settings, schema: str | None = None) -> Scan:
    """Scans consecutive messages, each batch with the indices of their files. ``schema``: the Avro schema that their
    container names."""
    found = Scan()
    for messages, file_index in batches:
        indices = np.broadcast_to(np.asarray(file_index, dtype=np.int64), len(messages))
        _scan_batch(found, messages, indices, settings, schema)
    return found


def _scan_batch(found: Scan, messages: Messages, files: Ints, settings: Settings, schema: str | None) -> None:
    def place(number: int) -> Place:
        return int(files[number]), int(messages.offset[number]), int(messages.length[number])

    def note(kept: dict[Any, Any], name: Any, number: int, *more: Any) -> None:
        if name not in kept and len(kept) < _MOST:
            kept[name] = (place(number), *more) if more else place(number)

    forms = forms_of(messages)
    found.records += len(forms)
    found.messages += int(np.count_nonzero(forms != Form.NOTHING))
    found.forms |= {Form(one) for one in np.unique(forms).tolist()}
    unknown = []
    for number in np.flatnonzero(forms == Form.JSON).tolist():
        schema_id = _schema_id(messages.value[number].as_py())
        if schema_id not in found.schema_ids:
            unknown.append(number)
            found.schema_ids |= {schema_id} if schema_id and len(found.schema_ids) < _MOST else set()
    json_messages = np.array(unknown, dtype=np.int64)
    decoded = scan_groups(messages, json_messages, np.flatnonzero(forms == Form.ENVELOPE), settings)
    for number, version in sorted(decoded.described, key=lambda one: one[0]):
        version.file_index, version.offset, version.length = place(number)
        found.describe(place(number), version)
    numbers, first = np.unique(decoded.group[decoded.rows], return_index=True)
    order = np.argsort(first)
    for number, at in zip(decoded.rows[first[order]].tolist(), numbers[order].tolist(), strict=True):
        group = decoded.groups[at]
        shape = Shape(group.table, group.external, tuple(group.names))
        if group.schema_text is not None:
            note(found.schema_texts, group.schema_text, number)
        if group.schema_id is not None:
            found.schema_ids.add(group.schema_id)
        if group.is_decoded:
            of_id = (found.of_id, group.schema_id, number, shape)
            note(*(of_id if group.schema_id is not None else (found.shapes, shape, number)))
    for identifier, rows in by_registry_id(messages, forms) if schema is None else ():
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


def _named_around(messages: Messages, index: Ints, settings: Settings) -> set[TableName]:
    """The tables that the container names for some messages: by topic or record headers."""
    nothing = pa.nulls(len(messages), pa.string())
    columns = [messages.facts.get(name, nothing) for name in ("topic", "header.schema", "header.table")]
    table = pa.table(columns, list("abc")).take(pa.array(index)).group_by(list("abc")).aggregate([])
    rows = ({"topic": (None, row["a"]), "record_headers": (row["b"], row["c"])} for row in table[:100].to_pylist())
    return {name_of(row, settings.places) for row in rows}


def _scan_task(given: tuple[Task, Settings]) -> tuple[Scan, list[tuple[int, set[Any]]]]:
    """What is found in some parts; and by container, by what its messages find their versions."""
    (task, settings), whole, wanted = given, Scan(), []
    for container, (index, start, stop) in task:
        batches = ((messages, index) for messages in message_files.read(container, start, stop))
        one = scan(batches, settings, container.schema)
        wanted.append((index, one.wanted))
        whole.add(one)
    return whole, wanted


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


def usable_places(whole: Scan, given: str | None) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """The places of table names that are used, and the reason for each that is not.

    A message key is often a row's primary key instead of a table's name, a column ``table_name`` may be data, and
    several tables may share a topic. Such a value is a table's name only if the messages under one name have most of
    their columns in common, and rows with the same columns have one name.
    """
    if given is not None:
        return (given,), [detected_row("table_from", given, "given as an option", True)]
    rows = []
    places = list(PLACES[:-1])
    for place in ("column", "topic", "key"):
        shapes = [one for one in (*whole.shapes, *(one for _, one in whole.of_id.values())) if one.table.place == place]
        reason = _doubt(shapes, place)
        if reason and place in places:
            del places[places.index(place) :]  # a message that has this place was not asked for the following ones
            rows.append(detected_row("table_from", f"not {place}", reason, False))
    return tuple(places), rows


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


# --- versions ---------------------------------------------------------------------------------------------------------


def find_versions(
    whole: Scan,
    outside: Sequence[Version],
    registry: Mapping[int, str],
    schemas: Sequence[tuple[int, str]],
    avro_schema: str | None,
    places: Sequence[str],
) -> list[Version]:
    """The versions: from metadata messages (those of the capture before those ``outside`` of it), from the ``registry``
    (texts by ids) for every id that was seen, from Avro schemas of messages, containers (``schemas``: file index, text)
    or an option, and from the shapes of messages without any of these. ``places``: where names of tables may be.
    """
    made = {name: version for name, (_, version) in whole.metadata.items()}
    for version in outside:
        made.setdefault(version.table_version, version)
    versions = list(made.values())
    for _, version in whole.clashing:  # no message finds it by its id
        version.table_version, version.schema_id = unused_name(version.table_version, made), None
        made[version.table_version] = version
        versions.append(version)
    for number, place in whole.registry_ids.items():
        version = _of_registry(number, registry.get(number), whole.registry_names.get(number, set()))
        version.file_index, version.offset, version.length = place
        versions.append(version)
    known = {version.text for version in versions}
    texts = [(text, "record", place) for text, place in whole.schema_texts.items()]
    texts += [(text, "record", (at, -1, -1)) for at, text in schemas]
    texts += [] if avro_schema is None else [(avro_schema, "side file", (-1, -1, -1))]
    numbers: dict[str, int] = {}
    for text, origin, place in texts:
        if text not in known:
            known.add(text)
            versions += _of_text(text, origin, place, numbers)
    shapes: dict[Shape, Place] = {}
    missing = [(place, shape) for name, (place, shape) in whole.of_id.items() if name not in made]
    for place, shape in (*((place, shape) for shape, place in whole.shapes.items()), *missing):
        shape = shape if shape.table.place in places else shape._replace(table=UNNAMED)
        shapes[shape] = min(place, shapes.get(shape, place))
    taken = {version.table_version for version in versions}
    for shape, place in sorted(shapes.items(), key=lambda item: item[1]):
        version = from_names(_unused(shape, numbers, taken), shape.table, shape.names, shape.external)
        taken.add(version.table_version)
        version.file_index, version.offset, version.length = place
        versions.append(version)
    return sorted(versions, key=lambda version: version.place)


def _of_registry(number: int, text: str | None, names: set[TableName]) -> Version:
    version = Version(str(number), None, None, [], "registry", text)
    try:
        version = version if text is None else from_avro(text, str(number), "registry")
    except ValueError as reason:
        version.problem = f"schema {number}: {reason}"
    version.registry_id = number
    (name,) = names if len(names) == 1 else (UNNAMED,)
    if version.table_name is None and name.table is not None:
        version.schema_name, version.table_name = name.schema, name.table
        version.lineage["table named by"] = name.place
    return version


def _of_text(text: str, origin: str, place: Place, numbers: dict[str, int]) -> list[Version]:
    """The version of an Avro schema of data records; none for that of an envelope or of something else."""
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


def _unused(shape: Shape, numbers: dict[str, int], taken: set[str]) -> str:
    """A name for the version of a shape."""
    label = shape.table.label
    if not shape.external:
        numbers[label] = numbers.get(label, 0) + 1
        return f"{label}@{numbers[label]}"
    name = f"external {shape.external}"
    name = f"{name} {label}" if name in taken else name
    if name not in taken:
        return name
    numbers[name] = numbers.get(name, 1) + 1
    return f"{name}@{numbers[name]}"


# --- plan -------------------------------------------------------------------------------------------------------------

_VOTING: Final = 4096  # messages that are examined for the byte order of their masks
_VOTING_OF_EACH: Final = 256  # of each part, at least


@dataclass(slots=True, kw_only=True)
class Plan(MessagePlan):
    """How a capture of messages is read."""

    settings: Settings
    versions: list[Version]
    wanted: list[set[Any]] = field(default_factory=list)  # of each container; stays where the plan is made

    def to_text(self) -> str:
        """The plan as one line of ASCII text."""
        return MessagePlan.to_text(replace(self, wanted=[]))

    def lookup(self) -> Versions:
        """The versions, to be found by what messages name."""
        return Versions(self.versions)


def make_plan(paths: Sequence[str], options: Options, run: Run) -> Plan:
    """The plan of a capture. ``paths`` are its files in capture order; ``run`` maps a function over tasks. Raises
    CaptureError for files that cannot be read."""
    found = probe_all(paths, options.container, run)
    found, splits, results = first_pass(_scan_task, found, options.container, run, options.settings)
    whole, wanted = Scan(), [set[Any]() for _ in found]
    for one, of_parts in results:
        whole.add(one)
        for index, some in of_parts:
            wanted[index] |= some
    plan = _plan(found, splits, whole, options)
    plan.wanted = wanted
    plan.detected[:0] = container_rows(found, options.container)
    if options.mask_order is None and _has_avro(whole, found):
        most = max(_VOTING_OF_EACH, _VOTING // max(1, sum(map(len, splits))))
        votes = run(_vote_task, [(task, plan.to_text(), most) for task in plan_tasks(found, splits)])
        _decide_order(plan, [vote for some in votes for vote in some])
    return plan


def make_row_plan(name: str, partitions: list[tuple[str, int]], run: RunRows, options: Options) -> Plan:
    """The plan of rows of these topics and partitions."""
    whole = Scan()
    for text in run(partial(_scan_rows, options.settings, partitions)):
        whole.add(pickle.loads(text))
    plan = _plan([], [], whole, options)
    plan.name, plan.partitions = name, partitions
    if options.mask_order is None and _has_avro(whole, []):
        votes = [vote for text in run(partial(_vote_rows, plan.to_text())) for vote in pickle.loads(text)]
        _decide_order(plan, votes)
    return plan


def _scan_rows(settings: Settings, partitions: list[tuple[str, int]], batches: Iterator[pa.RecordBatch]) -> bytes:
    return pickle.dumps(scan((messages_of(batch, partitions) for batch in batches), settings))


def _vote_rows(plan: str, batches: Iterator[pa.RecordBatch]) -> bytes:
    return pickle.dumps(_votes(Plan.from_text(plan), map(kafka_rows.from_arrow, batches), None, _VOTING))


def _vote_task(given: tuple[Task, str, int]) -> list[Any]:
    task, text, most = given
    plan, votes = Plan.from_text(text), []
    for container, (_, start, stop) in task:
        votes += _votes(plan, message_files.read(container, start, stop, batch=min(most, 1024)), container.schema, most)
    return votes


def _votes(plan: Plan, batches: Iterable[Messages], schema: str | None, most: int) -> list[Any]:
    """The evidence about the byte order of masks in the first ``most`` messages."""
    versions, votes = plan.lookup(), []
    for messages in batches:
        votes.append(votes_of(decode(messages, plan.settings, versions, True, schema), plan.settings.is_printed_avro))
        most -= len(messages)
        if most <= 0:
            break
    return votes


def _decide_order(plan: Plan, votes: Sequence[Any]) -> None:
    order, row = mask_order_row(votes)
    plan.settings = replace(plan.settings, mask_order=order)
    plan.detected.append(row)


def _has_avro(whole: Scan, found: Sequence[Container]) -> bool:
    is_avro = bool(whole.forms & {Form.ENVELOPE, Form.CONFLUENT, Form.BARE}) or any(one.schema for one in found)
    return is_avro or _is_printed(found)


def _is_printed(found: Sequence[Container]) -> bool:
    return any(one.settings.get("encoding") == AVRO_JSON for one in found)


def _plan(found: list[Container], splits: list[list[Any]], whole: Scan, options: Options) -> Plan:
    outside = _outside(options)
    texts = read_registry(options.registry, sorted(whole.registry_ids)) if options.registry else {}
    if options.avro_schema is not None:  # a record without a frame may begin with a zero, too
        whole.registry_ids = {number: place for number, place in whole.registry_ids.items() if number in texts}
    places, detected = usable_places(whole, options.table_from)
    schemas = [(at, one.schema) for at, one in enumerate(found) if one.schema is not None]
    notes = [*file_notes(found), *_clashes(whole, found)]
    versions = find_versions(whole, outside, texts, schemas, options.avro_schema, places)
    for version in versions:
        if found and version.has_event:
            version.offset = found[version.file_index].row(version.offset)
        if version.problem:
            notes.append(problem_row(Problem.SCHEMA_TEXT, version.problem, table=version.full_name))
    unresolved = whole.schema_ids - {one.schema_id for one in versions}
    facts = {
        "bytes": sum(one.size for one in found if one.unit == "byte"),
        "records": whole.records,
        "messages": whole.messages,
        "table_versions": len(versions),
        "unresolved_schemas": len(unresolved) + len(set(whole.registry_ids) - set(texts)),
    }
    detected += [*table_rows(versions), *_metadata_rows(whole, versions, unresolved, texts)]
    if options.mask_order is not None:
        detected.append(detected_row("mask_order", options.mask_order, "given as an option", True))
    settings = replace(options.settings, places=places, is_printed_avro=_is_printed(found))
    return Plan(
        containers=found,
        splits=splits,
        detected=detected,
        facts=facts,
        notes=notes,
        settings=settings,
        versions=versions,
    )


def _clashes(whole: Scan, found: Sequence[Container]) -> list[dict[str, Any]]:
    """Metadata messages that describe something else under a schema id that was there before."""
    notes = []
    for (file, offset, length), version in whole.clashing:
        (first_file, first_offset, _), _ = whole.metadata[version.table_version]
        if found:
            offset, first_offset = found[file].row(offset), found[first_file].row(first_offset)
        at = f"offset {first_offset}" + (f" of {found[first_file].path}" if found and first_file != file else "")
        sentence = (
            f"expected the columns that schema id {version.table_version} has in the metadata message at {at}, found "
            "others; messages with this id are decoded with the first"
        )
        place = {"file": found[file].path, "offset": offset, "length": length} if found else {}
        notes.append(problem_row(Problem.SCHEMA_MISMATCH, sentence, table=version.full_name, **place))
    return notes


def _outside(options: Options) -> list[Version]:
    """The versions of the metadata messages outside of the capture."""
    whole = Scan()
    for path in list_files(options.metadata) if options.metadata else ():
        container = detect.probe(path, {})
        for start, stop in message_files.parts(container):
            batches = ((messages, -1) for messages in message_files.read(container, start, stop))
            whole.add(scan(batches, options.settings, container.schema))
    if options.metadata and not whole.metadata:
        raise OptionError("option metadata: no metadata message was found there", path=options.metadata[0])
    versions = [version for _, version in whole.metadata.values()]
    for version in versions:
        version.origin, version.file_index, version.offset, version.length = "side file", -1, -1, -1
    return versions


def _metadata_rows(
    whole: Scan, versions: Sequence[Version], unresolved: set[str], texts: Mapping[int, str]
) -> list[dict[str, Any]]:
    rows = []
    named, ids = len(whole.schema_ids), len(whole.registry_ids)
    if named:
        known = named - len(unresolved)
        evidence = f"{known} of {named} schema ids that data messages name have their metadata message"
        rows.append(detected_row("metadata", "messages" if known else "none", evidence, False))
    if ids:
        evidence = f"{len(texts)} of {ids} schema ids of the Confluent framing are in the registry"
        rows.append(detected_row("registry", "given" if texts else "none", evidence, bool(texts)))
    inferred = sum(one.origin == "inferred" for one in versions)
    if inferred:
        evidence = f"no metadata: {inferred} table versions are the key orders of `data`, which give the ordinals"
        rows.append(detected_row("ordinals", "key order", evidence, False))
    return rows


def pieces_of(plan: Plan) -> Iterator[list[Piece]]:
    """The provenance of the events of each part: its container, the settings, and a hash of the versions that its
    messages find, whose metadata may be in a later file."""
    lookup = plan.lookup()
    contents = {id(one): json.dumps(one.without_place()) for one in plan.versions}
    hashes = []
    for container, wanted in zip(plan.containers, plan.wanted or [{None}] * len(plan.containers), strict=True):
        names = wanted | {container.schema or "", plan.settings.avro_schema or ""}
        ways: list[Mapping[Any, Version]] = [lookup.by_schema_id, lookup.by_registry_id, lookup.by_text]
        found = {name: [way[name] for way in ways if name in way] for name in names}
        every = None in wanted or not all(found[name] for name in wanted)
        some = plan.versions if every else [one for ones in found.values() for one in ones]
        hashes.append(sha256("".join(sorted(contents[id(one)] for one in some)).encode()).hexdigest())
    for parts in plan.splits:
        made = []
        for index, start, stop in parts:
            container = plan.containers[index]
            context = {"settings": asdict(plan.settings), "versions": hashes[index]}
            made.append(Piece((container.path,), json.dumps({**container.context(start, stop), **context})))
        yield made
