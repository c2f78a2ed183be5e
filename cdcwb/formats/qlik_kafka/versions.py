"""Versions of tables, the names of tables, and how messages find their version (docs/formats/qlik-kafka.md §3, §10)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from cdcwb.errors import CaptureError
from cdcwb.formats.columns import TableColumn, TableVersion, described_column, text_of
from cdcwb.formats.containers.avro import Decoder
from cdcwb.formats.containers.avro_schema import parse_schema
from cdcwb.formats.json_values import as_text

# --- names ------------------------------------------------------------------------------------------------------------

MESSAGE: Final = "message"
TOPIC: Final = "topic"
OPTION: Final = "option"
NAMED_BY: Final = {
    MESSAGE: "schema and table in the message or its headers",
    TOPIC: "the topic of the message",
    OPTION: "given as an option",
    "namespace": "the namespace of its Avro schema",
}
"""What gives the name of a table without metadata (§10.2)."""

_NAME: Final = re.compile(r"[^\W\d][\w$#-]*(\.[^\W\d][\w$#-]*)*")
_NAMESPACE: Final = "com.attunity.queue.msg."


class MessageTable(NamedTuple):
    """A table by its names, and what gives them (one of :data:`NAMED_BY`)."""

    schema: str | None
    table: str | None
    named_by: str | None = None

    @property
    def label(self) -> str:
        """``schema.table``, ``table``, or ``unnamed``."""
        if self.table is None:
            return "unnamed"
        return self.table if self.schema is None else f"{self.schema}.{self.table}"


UNNAMED: Final = MessageTable(None, None)


@dataclass(frozen=True, slots=True)
class MessageSettings:
    """What was given or detected about a capture: the byte order of masks in Avro (``big`` or ``little``), the table of
    messages that nothing else names, whether topics name tables, the Avro schema of values that name none, and whether
    messages in JSON were printed from Avro."""

    mask_order: str = "big"
    table: str | None = None
    by_topic: bool = True
    avro_schema: str | None = None
    is_printed_avro: bool = False


@lru_cache(maxsize=4096)
def table_of(schema: str | None, table: str | None, topic: str | None, settings: MessageSettings) -> MessageTable:
    """The table of a message without metadata: that of the option, else that which the message itself names, else that
    of its topic ``schema.table``, the last two of several parts."""
    if settings.table is not None:
        return _split(settings.table, OPTION)
    if table:
        return MessageTable(schema or None, table, MESSAGE)
    if settings.by_topic and topic is not None and _NAME.fullmatch(topic):
        return _split(topic, TOPIC)
    return UNNAMED


def _split(name: str, named_by: str) -> MessageTable:
    schema, _, table = name.rpartition(".")
    return MessageTable(schema.rpartition(".")[2] or None, table, named_by)


# --- versions ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Version(TableVersion):
    """One version of a table.

    Data messages find it by ``schema_id`` (of the metadata message), by ``registry_id``, or by ``label`` (of the
    table), ``external`` (externalSchemaId) and the names of its columns. ``text`` is the Avro schema of its data
    messages, if known, by which they may name their tables themselves (``has_names``); ``file_index`` -1: from outside
    the capture.
    """

    schema_id: str | None = None
    registry_id: int | None = None
    label: str | None = None
    external: str | None = None
    problem: str | None = None  # why ``text`` cannot be used
    has_names: bool = False

    def at(self, file_index: int, offset: int, length: int) -> Version:
        """The same version, first seen in a record."""
        self.file_index, self.offset, self.length = file_index, offset, length
        return self

    def at_place_of(self, other: Version) -> Version:
        """The same version, first seen where the other was."""
        return self.at(other.file_index, other.offset, other.length)

    @property
    def names(self) -> list[str]:
        """The names of its columns."""
        return [column.name for column in self.columns]

    @property
    def named_by(self) -> str | None:
        """What gives the table's name if no metadata does."""
        return self.lineage.get("table named by")

    @property
    def identity(self) -> tuple[str | None, ...]:
        """How a message finds it whose metadata is unknown."""
        return (self.label, self.external, *self.names)

    @property
    def has_event(self) -> bool:
        """Whether an event describes it: not for a registry or a side file."""
        return self.file_index >= 0 and self.origin not in ("registry", "side file")

    @property
    def bits(self) -> list[str]:
        """The column of each bit of a mask: bit n is ordinal n + 1 (§7); empty if there is none."""
        names = [""] * max((column.ordinal for column in self.columns), default=0)
        for column in self.columns:
            names[column.ordinal - 1] = column.name
        return names

    @property
    def key(self) -> list[str]:
        """The key columns, in key order."""
        return [name for _, name in sorted((c.key_position, c.name) for c in self.columns if c.key_position)]

    def same_table(self, other: Version) -> bool:
        """Whether the other describes the same table with the same columns and the same schema text."""
        mine, its = ((one.schema_name, one.table_name, one.columns, one.text) for one in (self, other))
        return mine == its


_LINEAGE: Final = ("server", "task", "schema", "table", "tableVersion", "timestamp")
_MOST_ORDINAL: Final = 1 << 13  # twice what the widest databases have


def from_metadata(message: Mapping[str, Any]) -> Version:
    """The version that a metadata message describes (§3). Raises ValueError with the expectation and what was found."""
    schema_id = text_of(message.get("schemaId"))
    if schema_id is None:
        raise ValueError("the metadata message has no schemaId")
    lineage = message.get("lineage")
    lineage = lineage if isinstance(lineage, Mapping) else {name: message.get(name) for name in _LINEAGE}
    structure = message.get("tableStructure")
    described = structure.get("tableColumns") if isinstance(structure, Mapping) else None
    if not isinstance(described, Mapping):
        found = "none" if described is None else repr(described)[:60]
        raise ValueError(f"metadata message {schema_id}: expected tableStructure.tableColumns, found {found}")
    columns = sorted((_column(name, facts) for name, facts in described.items()), key=lambda column: column.ordinal)
    if len({column.ordinal for column in columns}) < len(columns):
        raise ValueError(f"metadata message {schema_id}: two columns have one ordinal")
    return Version(
        table_version=schema_id,
        schema_name=text_of(lineage.get("schema")),
        table_name=text_of(lineage.get("table")),
        columns=columns,
        origin="record",
        text=text_of(message.get("dataSchema")),
        lineage={name: text for name, value in lineage.items() if (text := as_text(value)) is not None},
        schema_id=schema_id,
    )


def _column(name: str, facts: Any) -> TableColumn:
    if not isinstance(facts, Mapping):
        raise ValueError(f"column {name}: expected its properties, found {facts!r:.60}")
    ordinal = facts.get("ordinal")
    if type(ordinal) is not int or not 0 < ordinal < _MOST_ORDINAL:
        raise ValueError(f"column {name}: expected an ordinal from 1 on, found {ordinal!r:.60}")
    return described_column(ordinal, name, facts, "primaryKeyPosition")


def from_avro(text: str, table_version: str, origin: str) -> Version:
    """The version that the Avro schema of a DataRecord describes: names, types and nullability, no keys (§4). Raises
    CaptureError for a schema that cannot be read or has no record ``data``.
    """
    schema = parse_schema(text)
    fields = {name: one.without_null for name, one in zip(schema.fields, schema.root.inner, strict=True)}
    record = fields.get("data")
    if record is None or record.kind != "record":
        raise CaptureError("the schema has no record `data`")
    columns = []
    for at, (name, given) in enumerate(zip(record.names, record.inner, strict=True), 1):
        node = given.without_null
        precision, scale = (node.precision, node.scale) if node.logical == "decimal" else (None, None)
        is_nullable = given.kind == "union" and len(given.others) < len(given.inner)
        kind = node.logical or node.kind
        columns.append(TableColumn(at, name, kind, node.size or None, precision, scale, None, is_nullable))
    version = Version(table_version, None, None, columns, origin, text)
    version.has_names = "table" in fields or ("headers" in fields and "table" in fields["headers"].names)
    namespace = record.name.rpartition(".")[0]
    if namespace.startswith(_NAMESPACE) and "." in namespace.removeprefix(_NAMESPACE):
        _, *parts, version.table_name = namespace.removeprefix(_NAMESPACE).split(".")  # <task>.<schema>.<table> (§2.3)
        version.schema_name, version.lineage["table named by"] = parts[-1] if parts else None, "namespace"
    return version


def from_names(table_version: str, table: MessageTable, names: Iterable[str], external: str | None) -> Version:
    """The version that the keys of a data message give: their order gives the ordinals, nothing gives types (§7.7)."""
    columns = [TableColumn(at, name) for at, name in enumerate(names, 1)]
    lineage = {} if table.named_by is None else {"table named by": table.named_by}
    version = Version(table_version, table.schema, table.table, columns, "inferred", None, lineage)
    version.label, version.external = table.label, external
    return version


# --- lookup -----------------------------------------------------------------------------------------------------------


@dataclass
class VersionLookup:
    """All versions of a capture's tables, found by what messages name."""

    versions: Sequence[Version]
    by_schema_id: dict[str, Version] = field(init=False)
    by_registry_id: dict[int, Version] = field(init=False)
    by_text: dict[str, Version] = field(init=False)

    def __post_init__(self) -> None:
        self.by_schema_id = {one.schema_id: one for one in self.versions if one.schema_id is not None}
        self.by_registry_id = {one.registry_id: one for one in self.versions if one.registry_id is not None}
        self.by_text = {one.text: one for one in reversed(self.versions) if one.text}  # of several the first
        self._by_names = {one.identity: one for one in self.versions if one.label is not None}
        self._decoders: dict[tuple[str, tuple[str, ...] | None], Decoder] = {}

    def decoder(self, text: str, fields: tuple[str, ...] | None = None) -> Decoder:
        """The decoder of an Avro schema for some fields (None: all), made once; a value with an error is null. Raises
        CaptureError."""
        if (text, fields) not in self._decoders:
            self._decoders[text, fields] = Decoder(parse_schema(text), fields, strict=False)
        return self._decoders[text, fields]

    def of_names(self, table: MessageTable, external: str | None, names: Iterable[str]) -> Version | None:
        """The version of a message whose metadata is unknown."""
        return self._by_names.get((table.label, external, *names))
