"""Metadata messages (``docs/formats/qlik-kafka.md §3``), and what the truth has of the columns they describe."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Any

from cdcwb_synth.instants import microseconds
from cdcwb_synth.qlik.avro import data, long, string
from cdcwb_synth.qlik.columns import Described, Layout
from cdcwb_synth.qlik.options import KafkaOptions
from cdcwb_synth.qlik.schemas import metadata_schema
from cdcwb_synth.qlik.sequence import iso_milliseconds

__all__ = ["column_rows", "lineage", "metadata_message", "schema_id"]


def schema_id(seed: int, layout: Layout) -> str:
    """The id of a table version: 32 hexadecimal digits that mean nothing."""
    told = f"{seed} {layout.full_name} {layout.version.number}"
    return hashlib.md5(told.encode(), usedforsecurity=False).hexdigest().upper()


def lineage(layout: Layout, options: KafkaOptions, at: datetime) -> dict[str, Any]:
    """Where a table version comes from."""
    return {
        "server": options.server,
        "task": options.task,
        "schema": layout.table.schema,
        "table": layout.table.name,
        "tableVersion": layout.version.number,
        "timestamp": iso_milliseconds(microseconds(at)),
    }


def metadata_message(layout: Layout, identifier: str, data_schema: str, origin: dict[str, Any], is_avro: bool) -> bytes:
    """The metadata message of a table version in the envelope, which has both the id of the data schema and the text of
    the message's own."""
    own = metadata_schema(layout.columns)
    if is_avro:
        body = _avro_body(layout, identifier, data_schema, origin)
        outer = b"\x00\x02" + string(identifier) + b"\x02" + string(own)
        return b"atMSG" + string("MD") + outer + data(body)
    message = {
        "schemaId": identifier,
        "lineage": origin,
        "tableStructure": {"tableColumns": {c.name: _properties(c, i) for i, c in enumerate(layout.columns, 1)}},
        "dataSchema": data_schema,
    }
    outer_json = {
        "magic": "atMSG", "type": "MD", "headers": None, "messageSchemaId": identifier, "messageSchema": own,
        "message": message,
    }  # fmt: skip
    return json.dumps(outer_json, ensure_ascii=False, separators=(",", ":")).encode()


def _properties(column: Described, ordinal: int) -> dict[str, Any]:
    return {
        "ordinal": ordinal, "type": column.type, "length": column.length, "precision": column.precision,
        "scale": column.scale, "primaryKeyPosition": column.key, "nullable": column.nullable,
    }  # fmt: skip


def _avro_body(layout: Layout, identifier: str, data_schema: str, origin: dict[str, Any]) -> bytes:
    parts = [string(identifier), *(string(origin[name]) for name in ("server", "task", "schema", "table"))]
    parts += [long(origin["tableVersion"]), string(origin["timestamp"])]
    for ordinal, column in enumerate(layout.columns, 1):
        parts += [long(ordinal), string(column.type)]
        parts += [long(number) for number in (column.length, column.precision, column.scale, column.key)]
        parts.append(b"\x01" if column.nullable else b"\x00")
    return b"".join([*parts, string(data_schema)])


def column_rows(layout: Layout) -> list[dict[str, Any]]:
    """The columns as :data:`cdcwb_synth.model.COLUMN` has them: what does not apply is null."""
    return [
        {
            "ordinal": ordinal,
            "name": column.name,
            "type": column.type,
            "length": column.length or None,
            "precision": column.precision or None,
            "scale": column.scale if column.type == "NUMERIC" else None,
            "key_position": column.key or None,
            "nullable": column.nullable,
        }
        for ordinal, column in enumerate(layout.columns, 1)
    ]
