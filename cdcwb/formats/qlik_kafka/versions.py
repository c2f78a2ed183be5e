"""Versions of tables: from metadata messages, from Avro schemas, and from the keys of data messages.

See docs/formats/qlik-kafka.md §3 (metadata messages) and §10 (schema evolution).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

from cdcwb.formats.qlik_kafka.names import from_namespace

__all__ = ["LOBS", "TableColumn", "Version", "from_avro", "from_metadata", "from_names", "row_fields"]

LOBS: Final = frozenset({"BLOB", "CLOB", "NCLOB"})
"""Types whose columns are never in a change mask (§7)."""


class TableColumn(NamedTuple):
    """One column, as :data:`cdcwb.model.COLUMN` has it; ``key_position`` None: not in the key, or not said."""

    ordinal: int
    name: str
    type: str | None = None
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    key_position: int | None = None
    nullable: bool | None = None


@dataclass(slots=True)
class Version:
    """One version of a table.

    ``table_version`` is its id in :mod:`cdcwb.model`'s tables. Data messages find it by ``schema_id`` (of the metadata
    message), by ``registry_id``, or by ``names`` (the keys of ``data``), ``label`` and ``external`` (externalSchemaId).
    ``text`` is the Avro schema of its data messages, where one is known; ``file_index`` -1: from beside the capture.
    """

    table_version: str
    schema_name: str | None
    table_name: str | None
    columns: list[TableColumn]
    origin: str
    text: str | None = None
    lineage: dict[str, str] = field(default_factory=dict)
    schema_id: str | None = None
    registry_id: int | None = None
    label: str | None = None
    external: str | None = None
    file_index: int = -1
    offset: int = -1
    length: int = -1
    problem: str | None = None  # why ``text`` cannot be used

    def __post_init__(self) -> None:
        self.columns = [TableColumn(*column) for column in self.columns]

    @property
    def place(self) -> tuple[int, int]:
        """Where it was first seen."""
        return self.file_index, self.offset

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

    @property
    def full_name(self) -> str | None:
        """``schema.table``, or ``table``."""
        return self.table_name if self.schema_name is None else f"{self.schema_name}.{self.table_name}"

    def to_row(self) -> dict[str, Any]:
        """As a row of :data:`cdcwb.model.TABLE_VERSIONS`, without ``first_position``."""
        place = {"file_index": self.file_index, "offset": self.offset, "length": self.length}
        return {
            "table_version": self.table_version,
            "schema_name": self.schema_name,
            "table_name": self.table_name,
            "first_event": place if self.file_index >= 0 and self.origin not in _BESIDE else None,
            "columns": [column._asdict() for column in self.columns],
            "origin": self.origin,
            "schema_text": self.text,
            "lineage": self.lineage,
        }

    def same_table(self, other: Version) -> bool:
        """Does the other describe the same table with the same columns and the same schema text?"""
        mine, its = ((one.schema_name, one.table_name, one.columns, one.text) for one in (self, other))
        return mine == its

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON holds it."""
        return asdict(self)


_BESIDE: Final = ("registry", "side file")  # brought by no event
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
