"""Avro schemas as Replicate publishes them (``docs/formats/qlik-kafka.md §2.3, §3.4, §4.1``)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from cdcwb_synth.qlik.avro import avro_type
from cdcwb_synth.qlik.columns import Described, Layout

__all__ = ["ENVELOPE", "OPERATIONS", "data_schema", "key_schema", "metadata_schema", "namespace"]

OPERATIONS: Final = ("INSERT", "UPDATE", "DELETE", "REFRESH")
"""The symbols of the enumeration, by their numbers."""

ENVELOPE: Final[dict[str, Any]] = {
    "type": "record",
    "name": "MessageEnvelope",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 5}},
        {"name": "type", "type": "string"},
        {"name": "headers", "type": ["null", {"type": "map", "values": "string"}]},
        {"name": "messageSchemaId", "type": ["null", "string"]},
        {"name": "messageSchema", "type": ["null", "string"]},
        {"name": "message", "type": "bytes"},
    ],
}
"""The schema of the envelope."""

_MESSAGE: Final = "com.attunity.queue.msg"


def _text(schema: Any) -> str:
    return json.dumps(schema, separators=(",", ":"))


def namespace(task: str, layout: Layout) -> str:
    """The namespace of a table's records in a registry."""
    return f"{_MESSAGE}.{task}.{layout.full_name}"


def _long_form(kind: Any) -> Any:
    """A type in the spelling of 2018: ``{"type": "string"}`` for ``"string"``."""
    if isinstance(kind, list):
        return [_long_form(branch) for branch in kind]
    return {"type": kind} if isinstance(kind, str) and kind[0].islower() else kind


def data_schema(
    layout: Layout, *, generation: str, logical: bool, named_in: str = "", record_namespace: str = ""
) -> str:
    """The schema of a table's data messages. ``generation``: which headers they have, ``2018`` in the long spelling of
    its time. ``named_in``: ``message`` or ``headers`` have fields ``schema`` and ``table``. ``record_namespace``: for a
    registry."""
    is_old = generation == "2018"
    spell = _long_form if is_old else (lambda kind: kind)

    def one(name: str, kind: Any) -> dict[str, Any]:
        made = {"name": name, "type": spell(kind)}
        if isinstance(kind, list) and not is_old:
            made["default"] = None
        return made

    names = [one("schema", "string"), one("table", "string")]
    operation = {"type": "enum", "name": "operation", "symbols": list(OPERATIONS)}
    headers = [
        *(names if named_in == "headers" else []),
        {"name": "operation", "type": operation},
        *(one(name, "string") for name in ("changeSequence", "timestamp", "streamPosition", "transactionId")),
        *(one(name, ["null", "bytes"]) for name in ("changeMask", "columnMask")),
    ]
    if generation == "external":
        headers.append(one("externalSchemaId", ["null", "string"]))
    if not is_old:
        headers += [one("transactionEventCounter", ["null", "long"]), one("transactionLastEvent", ["null", "boolean"])]
    around = {"type": "record", "name": "Headers", "fields": headers}
    if not is_old:
        around["namespace"] = _MESSAGE
    columns = [one(c.name, ["null", avro_type(c, logical)]) for c in layout.columns]
    schema: dict[str, Any] = {
        "type": "record",
        "name": "DataRecord",
        "fields": [
            {"name": "data", "type": {"type": "record", "name": "Data", "fields": columns}},
            one("beforeData", ["null", "Data"]),
            *(names if named_in == "message" else []),
            {"name": "headers", "type": around},
        ],
    }
    if record_namespace:
        schema["namespace"] = record_namespace
    return _text(schema)


def key_schema(layout: Layout, *, logical: bool, record_namespace: str) -> str:
    """The schema of a table's record keys in a registry."""
    column = layout.columns[layout.key_place]
    fields = [{"name": column.name, "type": ["null", avro_type(column, logical)], "default": None}]
    return _text({"type": "record", "name": "KeyRecord", "namespace": record_namespace, "fields": fields})


def metadata_schema(columns: Sequence[Described]) -> str:
    """The schema of a table's metadata messages; every column is a record that is named like it."""
    properties = [
        ("ordinal", "int"), ("type", "string"), ("length", "int"), ("precision", "int"), ("scale", "int"),
        ("primaryKeyPosition", "int"), ("nullable", "boolean"),
    ]  # fmt: skip
    lineage = [(name, "string") for name in ("server", "task", "schema", "table")]
    lineage += [("tableVersion", "long"), ("timestamp", "string")]

    def record(name: str, fields: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        return {"type": "record", "name": name, "fields": [{"name": n, "type": _long_form(kind)} for n, kind in fields]}

    tables = record("TableColumns", [(c.name, record(c.name, properties)) for c in columns])
    return _text(
        record(
            "MetadataMessage",
            [
                ("schemaId", "string"),
                ("lineage", record("Lineage", lineage)),
                ("tableStructure", record("TableStructure", [("tableColumns", tables)])),
                ("dataSchema", "string"),
            ],
        )
    )
