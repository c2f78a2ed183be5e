"""From files, or from a table of rows, to a plan: what a capture is, its table versions, and what one task reads
(docs/formats/debezium.md).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from cdcwb.formats.containers.message_files import Container
from cdcwb.formats.containers.messages import Messages
from cdcwb.formats.containers.registry import read_registry
from cdcwb.formats.debezium.envelope import FLATTENED, envelopes_of
from cdcwb.formats.debezium.events import MessageContext, form_of, is_document, table_of
from cdcwb.formats.debezium.layout import CONNECTORS, OPERATIONS, UNAVAILABLE, connector_of
from cdcwb.formats.debezium.table import (
    Described,
    Shape,
    Version,
    VersionsByShape,
    described_tables,
    row_type,
    shape_of,
)
from cdcwb.formats.debezium.values import document_of, without_value
from cdcwb.formats.dissector import detected_row
from cdcwb.formats.messages.connect import Body, Schemas, Type, bodies_of, framed_id, plain
from cdcwb.formats.messages.format import Batches, MessagePlan, Options, Pass, TableColumn
from cdcwb.words import count, plural

__all__ = ["Plan", "complete", "messages_found"]

_MOST: Final = 10_000  # shapes of one part, and fields of one document


@dataclass(slots=True, kw_only=True)
class Plan(MessagePlan):
    """How a capture of messages is read. ``schemas``: those of the registry by their id."""

    versions: list[Version] = field(default_factory=list)
    schemas: dict[int, str] = field(default_factory=dict)
    unavailable: str = UNAVAILABLE

    def reading(self, container: Container | None = None) -> MessageContext:
        """How the messages of a container are read."""
        bare = None if container is None else container.schema
        return MessageContext(Schemas(self.schemas), VersionsByShape(self.versions), self.unavailable, bare)


# --- recognition (§1.1) -----------------------------------------------------------------------------------------------

_RELEASE: Final = re.compile(
    rb"[0-9]+\.[0-9]+\.[0-9]+\.(?:Final|Alpha[0-9]+|Beta[0-9]+|CR[0-9]+)[\x00-\x7f]{1,2}?([a-z]\w+)"
)


def messages_found(messages: Messages, schema: str | None, options: Mapping[str, Any]) -> tuple[int, int, bool]:
    """How many messages are Debezium's, how many were looked at, and that they show it surely."""
    registry = str(options.get("registry") or "")
    schemas = Schemas(read_registry(registry, sorted(_ids(messages.value))) if registry else {})
    bodies = envelopes_of(messages.value, schemas, {}, schema)
    values = messages.value.to_pylist()
    looked = sum(value is not None for value in values)
    return sum(_is_debezium(body, value) for body, value in zip(bodies, values, strict=True)), looked, True


def _is_debezium(body: Any, value: bytes | None) -> bool:
    """Is it a message of Debezium? One in Avro whose schema is not known shows release and connector."""
    if not isinstance(body, Body):
        found = _RELEASE.search(value or b"") if framed_id(value or b"") is not None else None
        return found is not None and any(found[1].startswith(name.encode()) for name in CONNECTORS)
    try:
        form = form_of(body.content)
    except ValueError:
        return False
    source = body.content.get("source")
    if form != "change" or (isinstance(source, dict) and "connector" in source):
        return True
    return body.content["op"] in OPERATIONS and {"before", "after"} <= body.content.keys()


# --- the first pass ---------------------------------------------------------------------------------------------------


class _Seen(NamedTuple):
    """A table version as its first message shows it; ``key`` are the columns of the message key."""

    location: tuple[int, int, int]
    origin: str
    text: str | None
    names: tuple[str, ...]
    key: tuple[str, ...]
    lineage: dict[str, str]


_Tables = dict[tuple[str | None, str, Shape], _Seen]


@dataclass(slots=True)
class _Scan:
    """What one part shows. ``counts``: messages of each form, changes of each connector, and so on; ``complete``: of
    tables with these types everything is known."""

    tables: _Tables = field(default_factory=dict)
    described: list[tuple[tuple[int, int, int], str | None, Described]] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    complete: set[tuple[Type, str | None, str]] = field(default_factory=set)

    def add(self, other: _Scan) -> None:
        """Adds what a later part shows."""
        for name, seen in other.tables.items():
            self.see(name, seen)
        self.described += other.described
        self.counts += other.counts
        self.examples = {**other.examples, **self.examples}

    def see(self, name: tuple[str | None, str, Shape], seen: _Seen) -> None:
        """Adds a table version; the first message that shows it counts, but for fields of documents and the key."""
        known = self.tables.get(name)
        if known is None:
            if len(self.tables) < _MOST:
                self.tables[name] = seen
            return
        fresh = tuple(one for one in seen.names if one not in known.names) if not name[2] else ()
        if fresh or (seen.key and not known.key):
            self.tables[name] = known._replace(names=(*known.names, *fresh)[:_MOST], key=known.key or seen.key)

    def total(self, what: str, *names: str) -> int:
        """How many there are of some kind."""
        return sum(number for (kind, name), number in self.counts.items() if kind == what and name in names)


def _scan(batches: Batches, reading: MessageContext) -> _Scan:
    found = _Scan()
    for messages, index in batches:
        values = envelopes_of(messages.value, reading.schemas, {}, reading.bare)
        keys = bodies_of(messages.key, reading.schemas, {})
        indices = np.broadcast_to(np.asarray(index, dtype=np.int64), len(values)).tolist()
        locations = zip(indices, messages.offset.tolist(), messages.length.tolist(), strict=True)
        found.counts["all", "records"] += len(values)
        found.counts["all", "messages"] += int(np.count_nonzero(messages.state == 0))
        for body, key, location in zip(values, keys, locations, strict=True):
            if isinstance(body, Body):
                _look(found, body, key if isinstance(key, Body) else None, location, reading.unavailable)
    found.complete.clear()
    return found


def _look(found: _Scan, body: Body, key: Body | None, location: tuple[int, int, int], unavailable: str) -> None:
    try:
        form = form_of(body.content)
    except ValueError:
        return
    found.counts["form", form] += 1
    found.counts["schema", "without" if body.type is None else "in" if body.schema_id is None else "registry"] += 1
    content, source = body.content, body.content.get("source")
    if form == "schema change":
        statement = content.get("ddl")
        found.described += [(location, statement and plain(statement), one) for one in described_tables(content)]
    if form != "change":
        return
    source = source if isinstance(source, dict) else {}
    named, connector = source.get("connector"), connector_of(source)
    if FLATTENED in content:
        found.counts["flattened", "events"] += 1
        found.counts["flattened", "untold"] += "__op" not in content[FLATTENED]
    found.counts["connector", connector or ("unknown" if named is None else plain(named))] += 1
    found.counts["unnamed", connector or "unknown"] += named is None
    schema, table = table_of(source)
    images = [image for image in (content.get("after"), content.get("before")) if isinstance(image, dict)]
    if any(without_value(image, unavailable) for image in images):
        found.counts["unavailable", "events"] += 1
        found.examples.setdefault("unavailable", f"{schema}.{table}")
    if table is None or (body.type is not None and (body.type, schema, table) in found.complete):
        return
    document = is_document(source)
    shape = shape_of(body, document)
    if shape is None:
        return
    row = row_type(body)
    origin = "inferred" if row is None else "record" if body.schema_id is None else "registry"
    names = tuple(row.fields) if row is not None and not document else tuple(_names(body, document))
    lineage = {name: plain(source[name]) for name in ("connector", "version", "name") if source.get(name)}
    if body.schema_id is not None:
        lineage["schema id"] = str(body.schema_id)
    known = () if key is None else tuple("_id" if document and name == "id" else name for name in key.content)
    found.see((schema, table, shape), _Seen(location, origin, body.schema, names, known, lineage))
    if known and body.type is not None and not document:
        found.complete.add((body.type, schema, table))


def _names(body: Body, document: bool) -> Iterable[str]:
    image = body.content.get("after") or body.content.get("before")
    return (document_of(image) or {}) if document else image if isinstance(image, dict) else ()


# --- versions (§5) ----------------------------------------------------------------------------------------------------


def _versions(whole: _Scan) -> list[Version]:
    """The table versions, in the order of their first messages.

    A schema change and the messages with the same columns describe one version: the first of the one goes with the
    first of the other, and so on.
    """
    made: list[Version] = []
    waiting: dict[tuple[str | None, str, tuple[str, ...]], list[Version]] = {}
    for (schema, table, shape), seen in sorted(whole.tables.items(), key=lambda item: item[1].location):
        columns = [_column(at, name, shape, seen.key) for at, name in enumerate(seen.names, 1)]
        version = Version("", schema, table, columns, seen.origin, seen.text, seen.lineage, *seen.location, [shape])
        made.append(version)
        waiting.setdefault((schema, table, seen.names), []).append(version)
    described: dict[tuple[str | None, str, Shape], Version] = {}
    for location, statement, one in sorted(whole.described, key=lambda item: item[0]):
        if (one.schema_name, one.table_name, one.shape) in described:
            continue
        alike = waiting.get((one.schema_name, one.table_name, one.names))
        if alike:
            version = alike.pop(0)
            _complete(version, one, statement)
        else:
            version = Version("", one.schema_name, one.table_name, one.columns, "DDL", statement)
            made.append(version)
        if version.file_index < 0 or location < (version.file_index, version.offset, version.length):
            version.file_index, version.offset, version.length = location
        version.shapes.append(one.shape)
        described[one.schema_name, one.table_name, one.shape] = version
    made.sort(key=lambda version: (version.file_index, version.offset))
    numbers: Counter[str] = Counter()
    for version in made:
        name = str(version.full_name)
        numbers[name] += 1
        version.table_version = f"{name}@{numbers[name]}"
    return made


def _column(ordinal: int, name: str, shape: Shape, key: Sequence[str]) -> TableColumn:
    position = key.index(name) + 1 if name in key else None
    if len(shape) < ordinal or len(shape[ordinal - 1]) == 1:
        return TableColumn(ordinal, name, key_position=position)
    _, kind, precision, scale, nullable = shape[ordinal - 1]
    return TableColumn(ordinal, name, kind, None, precision, scale, position, nullable)


def _complete(version: Version, described: Described, statement: str | None) -> None:
    """What a schema change says of columns that messages do not; all of it where they have names only."""
    told = {column.name: column for column in described.columns}
    if version.origin == "inferred":
        version.columns, version.origin, version.text = list(described.columns), "DDL", statement
        return
    version.columns = [
        column._replace(
            length=column.length or told[column.name].length,
            key_position=column.key_position or told[column.name].key_position,
        )
        for column in version.columns
    ]


# --- plans ------------------------------------------------------------------------------------------------------------


def _ids(*arrays: pa.BinaryArray) -> set[int]:
    heads = {value[:5] for array in arrays for value in array.to_pylist() if value is not None}
    return {number for number in map(framed_id, heads) if number is not None}


def ids_found(batches: Batches, container: Container | None, given: None) -> set[int]:
    """The ids of schemas that values and keys name."""
    return set().union(*(_ids(messages.value, messages.key) for messages, _ in batches))


def scanned(batches: Batches, container: Container | None, given: tuple[dict[int, str], str]) -> _Scan:
    """What some messages show; they are read with the schemas and the placeholder that are ``given``."""
    schemas, unavailable = given
    bare = None if container is None else container.schema
    return _scan(batches, MessageContext(Schemas(schemas), VersionsByShape(()), unavailable, bare))


def complete(plan: Plan, options: Options, each: Pass) -> None:
    """Adds to a plan the schemas of the registry, and what the messages show."""
    if options.registry:
        plan.schemas = read_registry(options.registry, sorted(set().union(*each(ids_found, None))))
    whole = _Scan()
    for one in each(scanned, (plan.schemas, plan.unavailable)):
        whole.add(one)
    _conclude(plan, whole, options)


# --- what is reported -------------------------------------------------------------------------------------------------


def _conclude(plan: Plan, whole: _Scan, options: Options) -> None:
    """Fills in versions, facts and what was detected."""
    plan.versions = _versions(whole)
    plan.facts |= {
        "records": whole.total("all", "records"),
        "messages": whole.total("all", "messages"),
        "table_versions": len(plan.versions),
    }
    for (what, name), number in sorted(whole.counts.items()):
        if what == "connector":
            fields = CONNECTORS[name].fields if name in CONNECTORS else ""
            order = f"position from {fields}" if fields else "no known position of this connector"
            unnamed = whole.total("unnamed", name)
            if unnamed and unnamed == number:
                order = f"{order}; no source names its connector"
            plan.detected.append(
                detected_row("connector", name, f"source of {plural(number, 'change')}; {order}", False)
            )
    with_schema, without = whole.total("schema", "in", "registry"), whole.total("schema", "without")
    if with_schema or without:
        value = "messages" if whole.total("schema", "in") else "registry" if with_schema else "none"
        evidence = f"{count(with_schema)} of {plural(with_schema + without, 'message')} have a schema"
        if without:
            evidence += "; values of the others are not decoded: dates, times and decimals are as in the message"
        plan.detected.append(detected_row("schema", value, evidence, False))
    if plan.schemas or options.registry:
        evidence = f"the registry has {plural(len(plan.schemas), 'schema')} that messages name"
        plan.detected.append(detected_row("registry", "given", evidence, True))
    flattened, untold = whole.total("flattened", "events"), whole.total("flattened", "untold")
    if flattened:
        evidence = f"{plural(flattened, 'event')} of ExtractNewRecordState have no row before the change"
        evidence += f"; {count(untold)} have no __op: an insert is shown as an update" if untold else ""
        value = "inserts shown as updates" if untold else "flattened"
        plan.detected.append(detected_row("operation", value, evidence, False))
    gone = whole.total("unavailable", "events")
    if gone or plan.unavailable != UNAVAILABLE:
        evidence = f"{plural(gone, 'event')} have it instead of a value that was not captured"
        evidence += f", the first in {whole.examples['unavailable']}" if gone else ""
        is_given = plan.unavailable != UNAVAILABLE
        plan.detected.append(detected_row("unavailable", plan.unavailable, evidence, is_given))
    boundaries = whole.total("form", "transaction")
    if whole.total("form", "change"):
        evidence = f"{plural(boundaries, 'message')} of the transaction topic"
        evidence += "" if boundaries else ": whether a transaction is complete is unknown"
        plan.detected.append(detected_row("transactions", "topic" if boundaries else "none", evidence, False))
