"""Qlik's messages made by hand, for tests that need to say exactly what stands where, and captures of them.

Avro is written by fastavro; nothing here is shared with the decoders or with ``cdcwb_synth``.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from tests.local import ledger, plan_of, read

__all__ = [
    "AFTER",
    "BEFORE",
    "FORMAT",
    "HEADERS",
    "SCHEMA_ID",
    "SEQUENCE",
    "STOCK",
    "WRITTEN",
    "Row",
    "avro",
    "avro_envelope",
    "avro_record",
    "data_schema",
    "enveloped",
    "events",
    "framed",
    "metadata",
    "record",
    "rows",
    "versions",
    "write",
]

FORMAT = "qlik-kafka"
SCHEMA_ID = "6A1F0C0D5B2E49B88E0C7F3D21A95E04"
SEQUENCE = "20260203040506780000000000000000042"
HEADERS: dict[str, Any] = {
    "operation": "UPDATE",
    "changeSequence": SEQUENCE,
    "timestamp": "2026-02-03T04:05:06.123",
    "streamPosition": "000001a4:00000b21:0003",
    "transactionId": "0000000000000000000000000000004D",
    "changeMask": "02",
    "columnMask": "03",
    "transactionEventCounter": 3,
    "transactionLastEvent": True,
}
AFTER = {"id": 7, "name": "quartz"}
BEFORE = {"id": 7, "name": None}

Row = dict[str, Any]


def record(data: Any, before: Any = None, **headers: Any) -> dict[str, Any]:
    """A data message; its headers are those of :data:`HEADERS` but for those given."""
    return {"data": data, "beforeData": before, "headers": HEADERS | headers}


def enveloped(message: Any, schema_id: str | None = SCHEMA_ID, kind: str = "DT", **more: Any) -> dict[str, Any]:
    return {
        "magic": "atMSG", "type": kind, "headers": None, "messageSchemaId": schema_id, "messageSchema": None,
        "message": message, **more,
    }  # fmt: skip


def metadata(
    columns: dict[str, Any], schema_id: str = SCHEMA_ID, key: tuple[str, ...] = ("id",), **lineage: Any
) -> Any:
    """A metadata message: the columns in order, each with its type, or with all that is said of it."""
    described = {
        name: {
            "ordinal": at + 1, "type": kind, "length": 10, "precision": 0, "scale": 0,
            "primaryKeyPosition": key.index(name) + 1 if name in key else 0, "nullable": True,
            **(kind if isinstance(kind, dict) else {}),
        }
        for at, (name, kind) in enumerate(columns.items())
    }  # fmt: skip
    known = {"server": "s1", "task": "t1", "schema": "shop", "table": "stock", "tableVersion": 1, "timestamp": "x"}
    body = {
        "schemaId": schema_id,
        "lineage": known | lineage,
        "tableStructure": {"tableColumns": described},
        "dataSchema": data_schema(dict.fromkeys(columns, "string")),
    }
    return enveloped(body, schema_id, "MD")


def data_schema(columns: dict[str, Any], namespace: str | None = "com.attunity.queue.msg.t1.shop.stock") -> str:
    """The Avro schema of the data messages of a table."""
    fields = [{"name": name, "type": ["null", kind]} for name, kind in columns.items()]
    operations = ["INSERT", "UPDATE", "DELETE", "REFRESH"]
    headers = [
        {"name": "operation", "type": {"type": "enum", "name": "operation", "symbols": operations}},
        *({"name": name, "type": "string"} for name in list(HEADERS)[1:5]),
        *({"name": name, "type": ["null", "bytes"]} for name in ("changeMask", "columnMask")),
        {"name": "transactionEventCounter", "type": ["null", "long"]},
        {"name": "transactionLastEvent", "type": ["null", "boolean"]},
    ]
    schema = {
        "type": "record",
        "name": "DataRecord",
        "fields": [
            {"name": "data", "type": ["null", {"type": "record", "name": "Data", "fields": fields}]},
            {"name": "beforeData", "type": ["null", "Data"]},
            {"name": "headers", "type": {"type": "record", "name": "Headers", "fields": headers}},
        ],
    }
    return json.dumps(schema if namespace is None else schema | {"namespace": namespace})


ENVELOPE = {
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


def avro(schema: Any, value: Any) -> bytes:
    """A value in Avro, by fastavro."""
    buffer = io.BytesIO()
    parsed = fastavro.parse_schema(json.loads(schema) if isinstance(schema, str) else schema)
    fastavro.schemaless_writer(buffer, parsed, value)
    return buffer.getvalue()


def avro_record(schema: str, data: Any, before: Any = None, **headers: Any) -> bytes:
    masks = {"changeMask": b"\x02", "columnMask": b"\x03"}
    return avro(schema, {"data": data, "beforeData": before, "headers": HEADERS | masks | headers})


def avro_envelope(message: bytes, schema_id: str | None = SCHEMA_ID, kind: str = "DT", **more: Any) -> bytes:
    value = {"magic": b"atMSG", "type": kind, "messageSchemaId": schema_id, "message": message}
    return avro(ENVELOPE, {"headers": None, "messageSchema": None} | value | more)


def framed(number: int, message: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + message


WRITTEN = {"container": "parquet"}
"""How :func:`write` does it."""


def write(folder: Path, *messages: Any) -> Path:
    """A capture of the messages: bytes, None, or what becomes JSON."""
    raw = [m if m is None or isinstance(m, bytes) else json.dumps(m, ensure_ascii=False).encode() for m in messages]
    path = folder / "capture.parquet"
    pq.write_table(pa.table({"value": pa.array(raw, pa.binary())}), path)
    return path


def rows(path: Path, **options: Any) -> list[Row]:
    """The events of a capture, maps as dictionaries, problems as codes."""
    options = WRITTEN | options
    table = read(path, format=FORMAT, **options)
    is_row_based = table.column("offset_unit").unique().to_pylist() == ["row"]
    assert sum(ledger(table).values()) == (table.num_rows if is_row_based else path.stat().st_size)
    found = table.to_pylist()
    for row in found:
        for name in ("key", "before", "after", "headers"):
            row[name] = None if row[name] is None else dict(row[name])
        row["details"] = [problem["detail"] for problem in row["problems"] or ()]
        row["problems"] = [problem["code"] for problem in row["problems"] or ()]
    return found


def events(folder: Path, *messages: Any, **options: Any) -> list[Row]:
    return rows(write(folder, *messages), **options)


def versions(path: Path, **options: Any) -> list[Any]:
    return plan_of(path, FORMAT, **(WRITTEN | options)).versions


STOCK = data_schema({"id": "int", "name": "string"})
"""The data schema of the table of :data:`AFTER`."""
