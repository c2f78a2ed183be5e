"""From files, or from a table of rows, to a plan: what a capture is, its table versions, and what one task reads
(docs/formats/debezium.md).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb.formats.containers.message_files import Container
from cdcwb.formats.containers.messages import Messages
from cdcwb.formats.containers.registry import read_registry
from cdcwb.formats.debezium.envelope import FLATTENED, envelopes_of
from cdcwb.formats.debezium.events import MessageContext, form_of, is_document, source_of, table_of
from cdcwb.formats.debezium.layout import CONNECTORS, OPERATIONS, UNAVAILABLE, connector_of
from cdcwb.formats.debezium.table import Columns, Version, VersionsByColumns, described_tables, row_columns, row_type
from cdcwb.formats.debezium.values import document_of, without_value
from cdcwb.formats.dissector import detected_row
from cdcwb.formats.messages.connect import Body, Schemas, Type, bodies_of, framed_id, plain
from cdcwb.formats.messages.format import Batches, MessagePlan, Options, Pass
from cdcwb.words import count, plural

_MOST: Final = 10_000  # shapes of one part, and fields of one document


@dataclass(slots=True, kw_only=True)
class Plan(MessagePlan):
    """How a capture of messages is read. ``schemas``: those of the registry by their id."""

    versions: list[Version] = field(default_factory=list)
    schemas: dict[int, str] = field(default_factory=dict)
    unavailable: str = UNAVAILABLE

    def reading(self) -> MessageContext:
        """How messages are read."""
        return MessageContext(Schemas(self.schemas), VersionsByColumns(self.versions), self.unavailable)


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


_Tables = dict[tuple[str | None, str, Columns], Version]
_Place = tuple[int, int, int]


@dataclass(slots=True)
class _Scan:
    """What one part shows. ``counts``: messages of each form, changes of each connector, and so on; ``complete``: of
    tables with these types everything is known."""

    tables: _Tables = field(default_factory=dict)
    described: list[tuple[_Place, str | None, tuple[str | None, str, Columns]]] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    complete: set[tuple[Type, str | None, str]] = field(default_factory=set)

    def add(self, other: _Scan) -> None:
        """Adds what a later part shows."""
        for name, version in other.tables.items():
            if name not in self.tables and len(self.tables) < _MOST:
                self.tables[name] = version
            elif (known := self.tables.get(name)) is not None:
                known.add_columns(() if name[2] else [column.name for column in version.columns], _MOST)
                known.add_key({column.name: column.key_position for column in version.columns if column.key_position})
        self.described += other.described
        self.counts += other.counts
        self.examples = {**other.examples, **self.examples}

    def total(self, what: str, *names: str) -> int:
        """How many there are of some kind."""
        return sum(number for (kind, name), number in self.counts.items() if kind == what and name in names)

    def look(self, body: Body, key: Body | None, place: _Place, unavailable: str) -> None:
        """Adds what a message shows."""
        try:
            form = form_of(body.content)
        except ValueError:
            return
        counts, content = self.counts, body.content
        counts["form", form] += 1
        counts["schema", "without" if body.type is None else "in" if body.schema_id is None else "registry"] += 1
        if form == "schema change":
            statement = content.get("ddl")
            self.described += [(place, statement and plain(statement), one) for one in described_tables(content)]
        if form != "change":
            return
        source = source_of(content)
        named, connector = source.get("connector"), connector_of(source)
        if FLATTENED in content:
            counts["flattened", "events"] += 1
            counts["flattened", "untold"] += "__op" not in content[FLATTENED]
        counts["connector", connector or ("unknown" if named is None else plain(named))] += 1
        counts["unnamed", connector or "unknown"] += named is None
        schema, table = table_of(source)
        images = [image for image in (content.get("after"), content.get("before")) if isinstance(image, dict)]
        if any(without_value(image, unavailable) for image in images):
            counts["unavailable", "events"] += 1
            self.examples.setdefault("unavailable", f"{schema}.{table}")
        if table is None or (body.type is not None and (body.type, schema, table) in self.complete):
            return
        is_of_documents = is_document(source)
        shape = row_columns(body, is_of_documents)
        if shape is None:
            return
        version = self.tables.get((schema, table, shape))
        if version is None:
            if len(self.tables) == _MOST:
                return
            origin = "inferred" if row_type(body) is None else "record" if body.schema_id is None else "registry"
            lineage = {name: plain(source[name]) for name in ("connector", "version", "name") if source.get(name)}
            lineage |= {} if body.schema_id is None else {"schema id": str(body.schema_id)}
            version = Version("", schema, table, list(shape), origin, body.schema, lineage, *place, [shape])
            self.tables[schema, table, shape] = version
        names = () if key is None else ("_id" if is_of_documents and name == "id" else name for name in key.content)
        if is_of_documents:
            version.add_columns(document_of(content.get("after") or content.get("before")) or (), _MOST)
        version.add_key({name: at for at, name in enumerate(names, 1)})
        if key is not None and key.content and body.type is not None and not is_of_documents:
            self.complete.add((body.type, schema, table))


# --- versions (§5) ----------------------------------------------------------------------------------------------------


def _versions(whole: _Scan) -> list[Version]:
    """The table versions, in the order of their first messages.

    A schema change and the messages with the same columns describe one version: the first of the one goes with the
    first of the other, and so on.
    """
    made = sorted(whole.tables.values(), key=lambda version: version.place)
    waiting: dict[tuple[str | None, str | None, tuple[str, ...]], list[Version]] = {}
    for version in made:
        names = tuple(column.name for column in version.columns)
        waiting.setdefault((version.schema_name, version.table_name, names), []).append(version)
    described: set[tuple[str | None, str, Columns]] = set()
    for place, statement, (schema, table, columns) in sorted(whole.described, key=lambda item: item[0]):
        if (schema, table, columns) in described:
            continue
        described.add((schema, table, columns))
        alike = waiting.get((schema, table, tuple(column.name for column in columns)))
        if alike:
            version = alike.pop(0)
            _complete(version, columns, statement)
        else:
            version = Version("", schema, table, list(columns), "DDL", statement, {}, *place)
            made.append(version)
        if place < (version.file_index, version.offset, version.length):
            version.file_index, version.offset, version.length = place
        version.shapes.append(columns)
    made.sort(key=lambda version: version.place)
    numbers: Counter[str] = Counter()
    for version in made:
        name = str(version.full_name)
        numbers[name] += 1
        version.table_version = f"{name}@{numbers[name]}"
    return made


def _complete(version: Version, described: Columns, statement: str | None) -> None:
    """What a schema change says of columns that messages do not; all of it where they have names only."""
    if version.origin == "inferred":
        version.columns, version.origin, version.text = list(described), "DDL", statement
        return
    told = {column.name: column for column in described}
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
    found, schemas, unavailable = _Scan(), Schemas(given[0]), given[1]
    for messages, index in batches:
        values = envelopes_of(messages.value, schemas, {}, None if container is None else container.schema)
        keys = bodies_of(messages.key, schemas, {})
        indices = np.broadcast_to(np.asarray(index, dtype=np.int64), len(values)).tolist()
        places = zip(indices, messages.offset.tolist(), messages.length.tolist(), strict=True)
        found.counts["all", "records"] += len(values)
        found.counts["all", "messages"] += int(np.count_nonzero(messages.state == 0))
        for body, key, place in zip(values, keys, places, strict=True):
            if isinstance(body, Body):
                found.look(body, key if isinstance(key, Body) else None, place, unavailable)
    found.complete.clear()
    return found


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

    def detect(setting: str, value: str, evidence: str, given: bool = False) -> None:
        plan.detected.append(detected_row(setting, value, evidence, given))

    plan.versions = _versions(whole)
    plan.facts |= {name: whole.total("all", name) for name in ("records", "messages")}
    plan.facts["table_versions"] = len(plan.versions)
    for (what, name), number in sorted(whole.counts.items()):
        if what == "connector":
            fields = CONNECTORS[name].fields if name in CONNECTORS else ""
            order = f"position from {fields}" if fields else "no known position of this connector"
            unnamed = "; no source names its connector" if whole.total("unnamed", name) == number else ""
            detect("connector", name, f"source of {plural(number, 'change')}; {order}{unnamed}")
    with_schema, without = whole.total("schema", "in", "registry"), whole.total("schema", "without")
    if with_schema or without:
        value = "messages" if whole.total("schema", "in") else "registry" if with_schema else "none"
        undecoded = "; values of the others are not decoded: dates, times and decimals are as in the message"
        evidence = f"{count(with_schema)} of {plural(with_schema + without, 'message')} have a schema"
        detect("schema", value, evidence + (undecoded if without else ""))
    if plan.schemas or options.registry:
        detect("registry", "given", f"the registry has {plural(len(plan.schemas), 'schema')} that messages name", True)
    flattened, untold = whole.total("flattened", "events"), whole.total("flattened", "untold")
    if flattened:
        evidence = f"{plural(flattened, 'event')} of ExtractNewRecordState have no row before the change"
        evidence += f"; {count(untold)} have no __op: an insert is shown as an update" if untold else ""
        detect("operation", "inserts shown as updates" if untold else "flattened", evidence)
    gone, is_given = whole.total("unavailable", "events"), plan.unavailable != UNAVAILABLE
    if gone or is_given:
        evidence = f"{plural(gone, 'event')} have it instead of a value that was not captured"
        evidence += f", the first in {whole.examples['unavailable']}" if gone else ""
        detect("unavailable", plan.unavailable, evidence, is_given)
    if whole.total("form", "change"):
        boundaries = whole.total("form", "transaction")
        evidence = f"{plural(boundaries, 'message')} of the transaction topic"
        evidence += "" if boundaries else ": whether a transaction is complete is unknown"
        detect("transactions", "topic" if boundaries else "none", evidence)
