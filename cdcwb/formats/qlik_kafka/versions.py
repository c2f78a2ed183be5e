"""Versions of tables, the names of tables, and how messages find their version (docs/formats/qlik-kafka.md §3, §10).

The name may stand in several places. They are asked in a fixed order, and the place that answered is named.

See docs/formats/qlik-kafka.md §3 (metadata messages) and §10 (schema evolution).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple

from cdcwb.formats.containers.avro import Decoder
from cdcwb.formats.containers.avro_schema import Schema, parse_schema
from cdcwb.formats.messages.format import TableColumn, TableVersion

__all__ = [
    "LOBS",
    "NOBODY",
    "PLACES",
    "TABLE_COLUMNS",
    "Settings",
    "TableName",
    "Version",
    "Versions",
    "from_avro",
    "from_metadata",
    "from_names",
    "from_namespace",
    "name_of",
    "places_in",
    "split_name",
]


# --- names ------------------------------------------------------------------------------------------------------------

PLACES: Final = ("message", "headers", "record_headers", "column", "topic", "key", "none")
"""Where a table's name may stand, in the order in which the places are asked."""

_TABLE_COLUMNS: Final = ("__table", "tableName", "table_name", "__table_name")
_SCHEMA_COLUMNS: Final = ("__schema", "__database", "schemaName", "schema_name", "__owner")
TABLE_COLUMNS: Final = frozenset({*_TABLE_COLUMNS, *_SCHEMA_COLUMNS})
"""Columns of a row that may name its table."""

_NAME: Final = re.compile(r"[^\W\d][\w$#-]*(\.[^\W\d][\w$#-]*)*")
_NAMESPACE: Final = "com.attunity.queue.msg."


class TableName(NamedTuple):
    """A table by its names, and the place that told them (of :data:`PLACES`, or ``namespace``)."""

    schema: str | None
    table: str | None
    place: str

    @property
    def label(self) -> str:
        """``schema.table``, ``table``, or ``unnamed``."""
        if self.table is None:
            return "unnamed"
        return self.table if self.schema is None else f"{self.schema}.{self.table}"


NOBODY: Final = TableName(None, None, "none")


def name_of(
    message: Mapping[str, Any],
    headers: Mapping[str, Any],
    row: Mapping[str, Any],
    facts: Mapping[str, str | None],
    key: bytes | None,
    places: Sequence[str],
    alone: bool = True,
) -> TableName:
    """The name of a message's table from the first of the ``places`` that has one.

    ``message`` is the data message, ``headers`` its headers, ``row`` the values of its row, ``facts`` what the
    container says (``topic``, ``header.…``), ``key`` the message key, of which a name without a schema counts only if
    ``alone`` is false: it is rather the key of a row.
    """
    for place in places:
        found: tuple[Any, Any] = (None, None)
        if place == "message":
            found = (message.get("schema"), message.get("table"))
        elif place == "headers":
            found = (headers.get("schema"), headers.get("table"))
        elif place == "record_headers":
            found = (facts.get("header.schema"), facts.get("header.table"))
        elif place == "column":
            found = (_first(row, _SCHEMA_COLUMNS), _first(row, _TABLE_COLUMNS))
        elif place == "topic":
            found = split_name(facts.get("topic"))
        elif place == "key" and key is not None:
            found = split_name(_key_text(key))
            if found[0] is None and alone:
                continue
        if isinstance(found[1], str) and found[1]:
            schema = found[0] if isinstance(found[0], str) and found[0] else None
            return TableName(schema, found[1], place)
    return NOBODY


def places_in(
    message: Iterable[str], headers: Iterable[str], row: Iterable[str], facts: Iterable[str], places: Sequence[str]
) -> tuple[str, ...]:
    """Those of the ``places`` that may have a name, by the keys of a message, its headers and its row, and the facts
    that the container has (``key`` among them)."""
    known = {
        "message": "table" in message,
        "headers": "table" in headers,
        "record_headers": "header.table" in facts,
        "column": not set(_TABLE_COLUMNS).isdisjoint(row),
        "topic": "topic" in facts,
        "key": "key" in facts,
    }
    return tuple(place for place in places if known.get(place))


def _first(row: Mapping[str, Any], names: Sequence[str]) -> str | None:
    for name in names:
        value = row.get(name)
        if isinstance(value, str) and value:
            return value
    return None


def _key_text(key: bytes) -> str | None:
    try:
        return key.decode().strip('"')
    except UnicodeDecodeError:
        return None


@lru_cache(maxsize=4096)
def split_name(name: str | None) -> tuple[str | None, str | None]:
    """``schema.table`` -> its parts; the last two of more, no schema of one; nothing of a text that is no name."""
    if name is None or not _NAME.fullmatch(name):
        return None, None
    parts = name.split(".")
    return (parts[-2] if len(parts) > 1 else None), parts[-1]


def from_namespace(namespace: str | None) -> TableName:
    """The table that an Avro namespace names: ``com.attunity.queue.msg.<task>.<schema>.<table>``."""
    if not namespace or not namespace.startswith(_NAMESPACE):
        return NOBODY
    parts = namespace.removeprefix(_NAMESPACE).split(".")
    if len(parts) < 2:
        return NOBODY
    return TableName(parts[-2] if len(parts) > 2 else None, parts[-1], "namespace")


# --- versions ---------------------------------------------------------------------------------------------------------

LOBS: Final = frozenset({"BLOB", "CLOB", "NCLOB"})
"""Types whose columns are never in a change mask (§7)."""


@dataclass(slots=True)
class Version(TableVersion):
    """One version of a table.

    Data messages find it by ``schema_id`` (of the metadata message), by ``registry_id``, or by ``names`` (the keys of
    ``data``), ``label`` and ``external`` (externalSchemaId). ``text`` is the Avro schema of its data messages, where
    one is known; ``file_index`` -1: from beside the capture.
    """

    schema_id: str | None = None
    registry_id: int | None = None
    label: str | None = None
    external: str | None = None
    problem: str | None = None  # why ``text`` cannot be used

    @property
    def has_event(self) -> bool:
        """Does an event describe it? A registry or a side file is none."""
        return self.file_index >= 0 and self.origin not in ("registry", "side file")

    @property
    def bits(self) -> list[str]:
        """The column of each bit of a mask: bit n is ordinal n + 1 (§7); an empty text where there is none."""
        names = [""] * max((column.ordinal for column in self.columns), default=0)
        for column in self.columns:
            names[column.ordinal - 1] = column.name
        return names

    @property
    def key(self) -> list[str]:
        """The key columns, in key order."""
        keyed = sorted((c.key_position, c.name) for c in self.columns if c.key_position)
        return [name for _, name in keyed]

    def same_table(self, other: Version) -> bool:
        """Does the other describe the same table with the same columns and the same schema text?"""
        mine, its = ((one.schema_name, one.table_name, one.columns, one.text) for one in (self, other))
        return mine == its


_LINEAGE: Final = ("server", "task", "schema", "table", "tableVersion", "timestamp")
_MOST_ORDINAL: Final = 1 << 13  # twice what the widest databases have


def from_metadata(message: Mapping[str, Any]) -> Version:
    """The version that a metadata message describes (§3). Raises ValueError that says what is missing or wrong."""
    schema_id = message.get("schemaId")
    if not isinstance(schema_id, str) or not schema_id:
        raise ValueError("the metadata message has no schemaId")
    lineage = message.get("lineage")
    lineage = lineage if isinstance(lineage, Mapping) else {name: message.get(name) for name in _LINEAGE}
    structure = message.get("tableStructure")
    described = structure.get("tableColumns") if isinstance(structure, Mapping) else None
    if not isinstance(described, Mapping):
        found = "none" if described is None else repr(described)[:60]
        raise ValueError(f"metadata message {schema_id}: expected tableStructure.tableColumns, found {found}")
    columns = [_column(name, facts) for name, facts in described.items()]
    columns.sort(key=lambda column: column.ordinal)
    if len({column.ordinal for column in columns}) < len(columns):
        raise ValueError(f"metadata message {schema_id}: two columns have one ordinal")
    text = message.get("dataSchema")
    return Version(
        table_version=schema_id,
        schema_name=_text(lineage.get("schema")),
        table_name=_text(lineage.get("table")),
        columns=columns,
        origin="record",
        text=text if isinstance(text, str) and text else None,
        lineage={name: str(value) for name, value in lineage.items() if value is not None},
        schema_id=schema_id,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _column(name: str, facts: Any) -> TableColumn:
    if not isinstance(facts, Mapping):
        raise ValueError(f"column {name}: expected its properties, found {facts!r:.60}")
    ordinal = facts.get("ordinal")
    if not isinstance(ordinal, int) or isinstance(ordinal, bool) or not 0 < ordinal < _MOST_ORDINAL:
        raise ValueError(f"column {name}: expected an ordinal from 1 on, found {ordinal!r:.60}")
    kind = _text(facts.get("type"))
    is_decimal = kind == "NUMERIC"
    nullable = facts.get("nullable")
    return TableColumn(
        ordinal,
        name,
        kind,
        _whole(facts.get("length")),
        _whole(facts.get("precision")),
        _whole(facts.get("scale"), zero=is_decimal),
        _whole(facts.get("primaryKeyPosition")),
        nullable if isinstance(nullable, bool) else None,
    )


def _whole(value: Any, zero: bool = False) -> int | None:
    """A number that means something: 0 stands for "does not apply" everywhere but in a scale."""
    if not isinstance(value, int) or isinstance(value, bool) or not -(1 << 31) <= value < 1 << 31:
        return None
    return value if value or zero else None


def from_avro(text: str, table_version: str, origin: str) -> Version:
    """The version that the Avro schema of a DataRecord describes: names, types and nullability, no keys (§4).

    Raises ValueError where the schema is no JSON or has no record ``data``.
    """
    try:
        schema = json.loads(text)
    except RecursionError:
        raise ValueError("the schema is nested too deeply") from None
    if not isinstance(schema, dict):
        raise ValueError("expected the schema of a record")
    fields, namespace = row_fields(schema)
    if fields is None:
        raise ValueError("the schema has no record `data`")
    columns = []
    for at, one in enumerate(fields):
        kind, nullable = _avro_type(one.get("type"))
        precision, scale = kind.get("precision"), kind.get("scale", 0)
        is_decimal = kind.get("logicalType") == "decimal"
        name = str(kind.get("logicalType") or kind.get("type"))
        columns.append(
            TableColumn(
                at + 1,
                str(one.get("name")),
                name,
                _whole(kind.get("size")),
                _whole(precision) if is_decimal else None,
                _whole(scale, zero=True) if is_decimal else None,
                None,
                nullable,
            )
        )
    named = from_namespace(namespace)
    lineage = {"table named by": "namespace"} if named.table else {}
    return Version(table_version, named.schema, named.table, columns, origin, text, lineage)


def row_fields(schema: Mapping[str, Any]) -> tuple[list[dict[str, Any]] | None, str | None]:
    """The fields of the record ``data`` in the schema of a DataRecord, and the namespace that names the table."""
    namespace = _text(schema.get("namespace")) or (_text(schema.get("name")) or "").rpartition(".")[0] or None
    listed = schema.get("fields")
    for one in listed if isinstance(listed, list) else ():
        if not isinstance(one, Mapping) or one.get("name") != "data":
            continue
        kind, _ = _avro_type(one.get("type"))
        fields = kind.get("fields")
        inner = _text(kind.get("namespace")) or namespace
        if isinstance(fields, list) and all(isinstance(item, dict) for item in fields):
            return fields, inner
    return None, namespace


def _avro_type(kind: Any) -> tuple[dict[str, Any], bool]:
    """A field's type without its null, as an object, and whether it may be null."""
    nullable = False
    while isinstance(kind, list) or (isinstance(kind, dict) and isinstance(kind.get("type"), (dict, list))):
        if isinstance(kind, list):
            rest = [one for one in kind if one not in ("null", {"type": "null"})]
            nullable = nullable or len(rest) < len(kind)
            kind = rest[0] if len(rest) == 1 else {"type": "union"}
        else:
            kind = kind["type"]
    return (kind if isinstance(kind, dict) else {"type": str(kind)}), nullable


def from_names(table_version: str, label: str, names: Sequence[str], external: str | None) -> Version:
    """The version that the keys of a data message make: their order gives the ordinals, nothing gives types (§7)."""
    columns = [TableColumn(at + 1, name) for at, name in enumerate(names)]
    return Version(table_version, None, None, columns, "inferred", label=label, external=external)


# --- lookup -----------------------------------------------------------------------------------------------------------

NameKey = tuple[str, str | None, tuple[str, ...]]
"""Label, externalSchemaId and column names: what tells a version apart that has no metadata."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What was detected about a capture: the byte order of masks in Avro (``big`` or ``little``), the places where a
    table's name may stand, and the Avro schema of values that name none."""

    mask_order: str = "big"
    places: tuple[str, ...] = PLACES
    avro_schema: str | None = None


@dataclass
class Versions:
    """All versions of a capture's tables, found by what messages say."""

    versions: Sequence[Version]
    by_schema_id: dict[str, Version] = field(default_factory=dict)
    by_registry_id: dict[int, Version] = field(default_factory=dict)
    by_names: dict[NameKey, Version] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for version in self.versions:
            if version.schema_id is not None:
                self.by_schema_id[version.schema_id] = version
            if version.registry_id is not None:
                self.by_registry_id[version.registry_id] = version
            if version.label is not None:
                names = tuple(column.name for column in version.columns)
                self.by_names[version.label, version.external, names] = version
        self._schemas: dict[str, Schema] = {}
        self._decoders: dict[tuple[str, tuple[str, ...] | None], Decoder] = {}

    @cached_property
    def by_text(self) -> dict[str, Version]:
        """Versions by the text of their Avro schema; of several the first."""
        return {version.text: version for version in reversed(self.versions) if version.text}

    def schema(self, text: str) -> Schema:
        """The parsed Avro schema, parsed once. Raises CaptureError for one that cannot be used."""
        if text not in self._schemas:
            self._schemas[text] = parse_schema(text)
        return self._schemas[text]

    def decoder(self, text: str, fields: tuple[str, ...] | None = None) -> Decoder:
        """The decoder of an Avro schema for those fields, made once. Raises CaptureError as :meth:`schema`."""
        if (text, fields) not in self._decoders:
            self._decoders[text, fields] = Decoder(self.schema(text), fields)
        return self._decoders[text, fields]

    def of_names(self, table: TableName, external: str | None, names: Iterable[str]) -> Version | None:
        """The version of a message that names no metadata."""
        return self.by_names.get((table.label, external, tuple(names)))


def table_of(
    settings: Settings,
    body: Mapping[str, Any],
    headers: Mapping[str, Any],
    row: Mapping[str, Any] | None,
    facts: Mapping[str, str | None],
    key: bytes | None,
    places: Sequence[str] | None = None,
) -> TableName:
    """The table of a message without metadata, by the settings' places, or by those of them that may have a name."""
    asked = settings.places if places is None else places
    return name_of(body, headers, row or {}, facts, key, asked, len(settings.places) > 1) if asked else NOBODY
