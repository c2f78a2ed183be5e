"""The schemas of Debezium's messages, as the JSON and the Avro converter write them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from cdcwb_synth.debezium.columns import Described, avro_schema, connect_schema

__all__ = ["AvroSchemas", "envelope", "plain"]

_BLOCK: Final = {"id": "string", "total_order": "int64", "data_collection_order": "int64"}


def _field(kind: str, name: str, optional: bool = True) -> dict[str, Any]:
    return {"type": kind, "optional": optional, "field": name}


def _kind(value: Any) -> str:
    return "int64" if isinstance(value, int) else "string"


def plain(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The schema of an object of numbers and texts."""
    made = [_field(_kind(value), key) for key, value in fields.items()]
    return {"type": "struct", "fields": made, "optional": False, "name": name}


def envelope(name: str, columns: Iterable[Described], source: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a change event."""
    row = {
        "type": "struct",
        "fields": [connect_schema(one) for one in columns],
        "optional": True,
        "name": f"{name}.Value",
    }
    block = {"type": "struct", "fields": [_field(kind, key) for key, kind in _BLOCK.items()], "optional": True}
    of_source = plain(source, "io.debezium.connector.Source")
    return {
        "type": "struct",
        "fields": [
            row | {"field": "before"}, row | {"field": "after"}, of_source | {"field": "source"},
            _field("string", "op", False), _field("int64", "ts_ms"),
            block | {"name": "event.block", "field": "transaction"},
        ],
        "optional": False,
        "name": f"{name}.Envelope",
    }  # fmt: skip


class AvroSchemas:
    """Avro schemas of a registry: written to ``folder`` by their ids, the first of which follows ``last``, and kept in
    the form that writes values."""

    def __init__(self, folder: Path, last: int = 0) -> None:
        self._folder, self._last = folder, last
        self._ids: dict[str, tuple[int, Any]] = {}

    def register(self, schema: dict[str, Any]) -> tuple[int, Any]:
        """The id of a schema, and what fastavro writes values with: numbers and bytes as they are."""
        import fastavro

        text = json.dumps(schema)
        if text not in self._ids:
            self._folder.mkdir(exist_ok=True)
            number = self._last + len(self._ids) + 1
            (self._folder / f"{number}.avsc").write_text(text + "\n", encoding="utf-8")
            self._ids[text] = number, fastavro.parse_schema(_without_logical(schema))
        return self._ids[text]

    @staticmethod
    def plain(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
        """The schema of an object of numbers and texts."""
        space, _, short = name.rpartition(".")
        made = [
            {"name": key, "type": ["null", "long" if isinstance(one, int) else "string"]} for key, one in fields.items()
        ]
        return {"type": "record", "name": short, "namespace": space, "fields": made, "connect.name": name}

    def envelope(self, name: str, columns: Iterable[Described], source: Mapping[str, Any]) -> dict[str, Any]:
        """The schema of a change event."""
        known: set[str] = set()
        fields = [{"name": one.name, "type": avro_schema(one, known)} for one in columns]
        row = {"type": "record", "name": "Value", "fields": fields, "connect.name": f"{name}.Value"}
        block = self.plain({"id": "", "total_order": 1, "data_collection_order": 1}, "event.block")
        return {
            "type": "record",
            "name": "Envelope",
            "namespace": name,
            "fields": [
                {"name": "before", "type": ["null", row]},
                {"name": "after", "type": ["null", "Value"]},
                {"name": "source", "type": self.plain(source, "io.debezium.connector.Source")},
                {"name": "op", "type": "string"},
                {"name": "ts_ms", "type": ["null", "long"]},
                {"name": "transaction", "type": ["null", block]},
            ],
            "connect.name": f"{name}.Envelope",
        }


def _without_logical(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical(one) for one in schema]
    if isinstance(schema, dict):
        return {name: _without_logical(one) for name, one in schema.items() if name != "logicalType"}
    return schema
