"""What the first pass finds in a capture, and the plan that is made of it: versions, names of tables, byte order.

The first pass looks at envelopes, and into data messages that name no metadata. A plan is sent to the workers as one
text; its size depends on the numbers of files, parts and versions, not on that of messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.bitmask import MaskEvidence
from cdcwb.formats.containers import detect, message_files
from cdcwb.formats.containers.message_files import Container
from cdcwb.formats.containers.messages import AVRO_JSON, Messages
from cdcwb.formats.containers.registry import read_registry
from cdcwb.formats.dissector import detected_row, problem_row
from cdcwb.formats.files import list_files
from cdcwb.formats.kernels import Ints
from cdcwb.formats.messages.format import Batches, MessagePlan, Options, Pass
from cdcwb.formats.qlik_kafka.decode import by_registry_id, decode, forms_of, scan_groups
from cdcwb.formats.qlik_kafka.layout import MAGIC, WireForm
from cdcwb.formats.qlik_kafka.masks import evidence_of
from cdcwb.formats.qlik_kafka.versions import (
    NAMED_BY,
    OPTION,
    TOPIC,
    UNNAMED,
    MessageSettings,
    MessageTable,
    Version,
    VersionLookup,
    from_avro,
    from_names,
    table_of,
)
from cdcwb.model import Kind, Problem
from cdcwb.words import unused_name

# --- first pass -------------------------------------------------------------------------------------------------------

_MOST_TOPICS: Final = 100
_MOST: Final = 10_000  # versions of one part without metadata; there are more only if names and ids are data
_AVRO: Final = (WireForm.ENVELOPE, WireForm.CONFLUENT, WireForm.BARE)
_METADATA, _REGISTRY, _TEXT, _NAMES, _MISSING = "metadata", "registry", "text", "names", "missing"


@dataclass(slots=True)
class FirstPass:
    """What the first pass finds in a part. ``versions`` are at the first message of each, by how messages find them:
    what a metadata message describes, an id of a registry, an Avro schema in messages, the names of columns in data
    messages without a schema id, or with this one, in case its metadata is missing."""

    records: int = 0
    messages: int = 0
    has_avro: bool = False
    schema_ids: set[str] = field(default_factory=set)
    versions: dict[tuple[str, Any], Version] = field(default_factory=dict)
    registry_names: dict[int, set[MessageTable]] = field(default_factory=dict)

    def add(self, other: FirstPass) -> None:
        """Adds what was found in a later part."""
        self.records += other.records
        self.messages += other.messages
        self.has_avro |= other.has_avro
        self.schema_ids |= other.schema_ids
        self.versions = self.versions | {key: one for key, one in other.versions.items() if key not in self.versions}
        for number, names in other.registry_names.items():
            self.registry_names.setdefault(number, set()).update(names)

    def of(self, *kinds: str) -> dict[Any, Version]:
        """The versions that messages find in these ways."""
        return {key: one for (kind, key), one in self.versions.items() if kind in kinds}


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
    def note(kind: str, key: Any, number: int, version: Version) -> None:
        if (kind, key) not in found.versions and (kind == _METADATA or len(found.versions) < _MOST):
            place = int(files[number]), int(messages.offset[number]), int(messages.length[number])
            found.versions[kind, key] = version.at(*place)

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
        note(_METADATA, version.schema_id, number, version)
    first = {int(index[0]): group for group, index in decoded.members if group.kind == Kind.CHANGE}
    for number, group in sorted(first.items()):
        if group.schema_text is not None:
            note(_TEXT, group.schema_text, number, Version("", None, None, [], "record", group.schema_text))
        if group.schema_id is not None:
            found.schema_ids.add(group.schema_id)
        if group.is_decoded:
            version = from_names("", group.table, group.names, group.external)
            kind, key = (_NAMES, version.identity) if group.schema_id is None else (_MISSING, group.schema_id)
            note(kind, key, number, version)
    for identifier, rows in () if has_schema else by_registry_id(messages, forms):
        note(_REGISTRY, identifier, int(rows[0]), Version(str(identifier), None, None, [], "registry"))
        if (_REGISTRY, identifier) in found.versions:
            topics = messages.facts.get("topic", pa.nulls(len(messages), pa.string())).take(pa.array(rows))
            names = {table_of(None, None, topic, settings) for topic in topics.unique().to_pylist()[:_MOST_TOPICS]}
            found.registry_names.setdefault(identifier, set()).update(names)


def _schema_id(value: bytes) -> str | None:
    """The schema id of a data message in Qlik's JSON envelope."""
    try:
        light = _LIGHT.decode(value)
    except (ValueError, RecursionError):
        return None
    return light.messageSchemaId or None if light.magic == MAGIC and light.type == "DT" else None


# --- names of tables --------------------------------------------------------------------------------------------------

_OVERLAP: Final = 0.5


def doubt_of_topics(versions: Iterable[Version]) -> str:
    """Why topics do not name tables, as several tables may share one: rows under one name do not have most of their
    columns in common. Empty if they do."""
    first: dict[str | None, list[str]] = {}
    for version in versions:
        if not version.columns:
            continue
        known, names = first.setdefault(version.full_name, version.names), version.names
        if version.named_by == TOPIC and len({*known} & {*names}) < _OVERLAP * min(len(known), len(names)):
            one, other = (", ".join(some[:2]) for some in (known, names))
            return f"rows under {version.full_name} have different columns ({one} … and {other} …)"
    return ""


# --- versions ---------------------------------------------------------------------------------------------------------


def find_versions(
    whole: FirstPass,
    outside: Mapping[Any, Version],
    registered: Iterable[Version],
    schemas: Sequence[Version],
    by_topic: bool,
) -> list[Version]:
    """The versions: from metadata messages (those of the capture before those ``outside`` of it), from a registry
    (``registered``), from Avro schemas in messages and from other ``schemas``, and from the names of columns in
    messages without any of these. ``by_topic``: topics name tables."""
    made = dict(reversed(list(outside.items()))) | whole.of(_METADATA)
    versions = [*made.values(), *registered]
    numbers: Counter[str] = Counter()

    def numbered(label: str) -> str:
        numbers[label] += 1
        return f"{label}@{numbers[label]}"

    known = {version.text for version in versions}
    for version in (*whole.of(_TEXT).values(), *schemas):
        if version.text not in known and (described := _described(version)) is not None:
            described.table_version = numbered(described.full_name or "unnamed")
            versions.append(described)
        known.add(version.text)
    missing = [*whole.of(_NAMES).values(), *(one for key, one in whole.of(_MISSING).items() if key not in made)]
    taken = {version.table_version for version in versions}
    inferred: dict[Any, Version] = {}
    for version in sorted(missing, key=lambda one: one.place):
        if version.named_by == TOPIC and not by_topic:
            version = from_names("", UNNAMED, version.names, version.external).at_place_of(version)
        if version.identity in inferred:
            continue
        label = version.label or ""
        name = f"external {version.external}" if version.external else numbered(label)
        name = unused_name(f"{name} {label}" if version.external and name in taken else name, taken, "@")
        taken.add(name)
        version.table_version = name
        inferred[version.identity] = version
    return sorted([*versions, *inferred.values()], key=lambda version: version.place)


def _registered(whole: FirstPass, texts: Mapping[int, str], by_topic: bool) -> list[Version]:
    """The versions of the ids of a registry that were seen, with the schemas that it has."""
    found = []
    for number, version in whole.of(_REGISTRY).items():
        names = {one for one in whole.registry_names.get(number, ()) if by_topic or one.named_by != TOPIC}
        found.append(_of_registry(replace(version, lineage={}), texts.get(number), names))
    return found


def _of_registry(version: Version, text: str | None, names: set[MessageTable]) -> Version:
    """The version of an id of a registry, with its schema if there is one, and the one name in or around messages."""
    found, number = version, version.table_version
    try:
        found = version if text is None else from_avro(text, number, "registry").at_place_of(version)
    except CaptureError as reason:
        found.text, found.problem = text, f"schema {number}: {reason.message}"
    found.registry_id = int(number)
    (name,) = names if len(names) == 1 else (UNNAMED,)
    if found.table_name is None and name.table is not None and not (name.named_by == TOPIC and found.has_names):
        found.schema_name, found.table_name = name.schema, name.table
        found.lineage["table named by"] = name.named_by or ""
    return found


def _described(version: Version) -> Version | None:
    """The version that its Avro schema of data records describes; None for that of an envelope or something else."""
    try:
        found = from_avro(version.text or "", "", version.origin)
    except CaptureError:
        return None
    return found.at_place_of(version) if found.columns else None


# --- plan -------------------------------------------------------------------------------------------------------------

_EXAMINED: Final = 4096  # messages that are examined for the byte order of their masks
_EXAMINED_OF_EACH: Final = 256  # of each part, at least
_ASSUMED: Final = "the order of the JSON text, most significant byte first, is assumed"


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
    ids = sorted(whole.of(_REGISTRY))
    texts = read_registry(options.registry, ids) if options.registry else {}
    given = plan.settings.avro_schema
    if given is not None:  # a record without a frame may begin with a zero, too
        ids = [number for number in ids if number in texts]
        whole.versions = {key: one for key, one in whole.versions.items() if key[0] != _REGISTRY or key[1] in texts}
    doubt = doubt_of_topics([*whole.of(_NAMES, _MISSING).values(), *_registered(whole, texts, by_topic=True)])
    plan.detected += [detected_row("table", "none", doubt, False)] if doubt else []
    is_printed = any(one.settings.get("encoding") == AVRO_JSON for one in plan.containers)
    plan.settings = replace(plan.settings, by_topic=not doubt, is_printed_avro=is_printed)
    schemas = [Version("", None, None, [], "record", one.schema) for one in plan.containers if one.schema is not None]
    schemas += [] if given is None else [Version("", None, None, [], "side file", given)]
    plan.versions = find_versions(whole, outside, _registered(whole, texts, not doubt), schemas, not doubt)
    plan.notes += [
        problem_row(Problem.SCHEMA_TEXT, one.problem, table=one.full_name) for one in plan.versions if one.problem
    ]
    unresolved = whole.schema_ids - {one.schema_id for one in plan.versions}
    plan.facts |= {
        "records": whole.records,
        "messages": whole.messages,
        "table_versions": len(plan.versions),
        "unresolved_schemas": len(unresolved) + len(set(ids) - set(texts)),
    }
    plan.detected += _detected_rows(whole, plan.versions, unresolved, ids, texts)
    if "mask_order" in options.given:
        plan.detected.append(detected_row("mask_order", plan.settings.mask_order, "given as an option", True))
    elif whole.has_avro or is_printed or any(one.schema for one in plan.containers):
        most = max(_EXAMINED_OF_EACH, _EXAMINED // max(1, sum(map(len, plan.splits))))
        evidence = sum(each(_examine, (plan.to_text(), most)), MaskEvidence())
        is_little, why = evidence.order_evidence("little", 0)
        if not is_little:
            is_big, why = evidence.order_evidence("big", 0)
            why = why if is_big else f"no mask of an Avro message shows it; {_ASSUMED}"
        order = "little" if is_little else "big"
        plan.settings = replace(plan.settings, mask_order=order)
        plan.detected.append(detected_row("mask_order", order, why, False))


def _examine(batches: Batches, container: Container | None, given: tuple[str, int]) -> MaskEvidence:
    """The evidence about the byte order of masks in the first messages of a part, at least so many."""
    plan, most = Plan.from_text(given[0]), given[1]
    versions, found, schema = plan.lookup(), MaskEvidence(), None if container is None else container.schema
    for messages, _ in batches:
        decoded = decode(messages.head(most), plan.settings, versions, True, schema)
        found += evidence_of(decoded, plan.settings.is_printed_avro)
        most -= len(messages)
        if most <= 0:
            break
    return found


def _outside(paths: str, settings: MessageSettings) -> dict[Any, Version]:
    """The versions of the metadata messages outside of the capture, in files and folders, one in each line."""
    whole = FirstPass()
    for path in list_files(paths.split("\n")) if paths else ():
        container = detect.probe(path, {})
        for start, stop in message_files.parts(container):
            batches = ((messages, -1) for messages in message_files.read(container, start, stop))
            whole.add(scan(batches, container, settings))
    found = whole.of(_METADATA)
    if paths and not found:
        raise OptionError("option metadata: no metadata message was found there", path=paths.split("\n", maxsplit=1)[0])
    for version in found.values():
        version.at(-1, -1, -1).origin = "side file"
    return found


def _detected_rows(
    whole: FirstPass, versions: Sequence[Version], unresolved: set[str], ids: Sequence[int], texts: Mapping[int, str]
) -> list[dict[str, Any]]:
    """The names of tables that no metadata gives, and where the versions are from."""
    named = {(one.full_name, one.named_by) for one in versions if one.named_by}
    rows = [
        detected_row("table", name, NAMED_BY[by], by == OPTION, name)
        for name, by in sorted((name or "", by) for name, by in named)
    ]
    if whole.schema_ids:
        known = len(whole.schema_ids) - len(unresolved)
        evidence = f"{known} of {len(whole.schema_ids)} schema ids that data messages name have their metadata message"
        rows.append(detected_row("metadata", "messages" if known else "none", evidence, False))
    if ids:
        evidence = f"{len(texts)} of {len(ids)} schema ids of the Confluent framing are in the registry"
        rows.append(detected_row("registry", "given" if texts else "none", evidence, bool(texts)))
    inferred = sum(one.origin == "inferred" for one in versions)
    if inferred:
        evidence = f"no metadata: {inferred} table versions are the key orders of `data`, which give the ordinals"
        rows.append(detected_row("ordinals", "key order", evidence, False))
    return rows
