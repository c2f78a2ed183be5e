"""Debezium's messages made by hand, for tests that need to say exactly what a message holds, and captures of them.

Nothing here is shared with the decoder or with ``cdcwb_synth``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.local import ledger, read

__all__ = ["POSTGRESQL", "SOURCES", "change", "connect", "events", "line", "one", "struct", "wrapped"]

Row = dict[str, Any]

POSTGRESQL: Row = {
    "version": "2.7.0.Final", "connector": "postgresql", "name": "shop", "ts_ms": 1700000000123, "snapshot": "false",
    "db": "shop", "sequence": '["24023110","24023128"]', "ts_us": 1700000000123456, "ts_ns": 1700000000123456789,
    "schema": "public", "table": "orders", "txId": 571, "lsn": 24023128, "xmin": None,
}  # fmt: skip

SOURCES: dict[str, Row] = {
    "postgresql": POSTGRESQL,
    "mysql": {"connector": "mysql", "db": "shop", "table": "orders", "gtid": None, "file": "mysql-bin.000003",
              "pos": 484, "row": 2, "ts_ms": 1700000000000},
    "sqlserver": {"connector": "sqlserver", "db": "shop", "schema": "dbo", "table": "orders", "ts_ms": 1700000000000,
                  "commit_lsn": "00000027:00000758:0005", "change_lsn": "00000027:00000758:0003", "event_serial_no": 2},
    "oracle": {"connector": "oracle", "db": "SHOP", "schema": "APP", "table": "ORDERS", "ts_ms": 1700000000000,
               "txId": "07000d005a030000", "scn": "1273960", "commit_scn": "1273961"},
    "mongodb": {"connector": "mongodb", "db": "shop", "collection": "orders", "ord": 31, "ts_ms": 1700000000000},
}  # fmt: skip
"""The ``source`` block of a change by its connector."""


def change(op: str, before: Any = None, after: Any = None, source: Row = POSTGRESQL, **more: Any) -> Row:
    """A change event without its schema."""
    return {
        "before": before,
        "after": after,
        "source": source,
        "op": op,
        "ts_ms": 1700000000999,
        "transaction": None,
    } | more


def connect(kind: str, name: str | None = None, optional: bool = True, **more: Any) -> Row:
    """A schema of Kafka Connect."""
    return {"type": kind, "optional": optional} | ({"name": name, "version": 1} if name else {}) | more


def struct(name: str | None = None, **fields: Row) -> Row:
    """A schema of Kafka Connect for an object."""
    return connect("struct", name, fields=[{**kind, "field": field} for field, kind in fields.items()])


def wrapped(message: Row, **columns: Row) -> Row:
    """A change event with its schema; ``columns`` are those of the rows."""
    row = struct("shop.public.orders.Value", **columns)
    schema = struct("shop.public.orders.Envelope", before=row, after=row, op=connect("string"))
    return {"schema": schema, "payload": message}


def line(value: Any, key: Any = ...) -> bytes:
    """What a console consumer prints of a message, with its key where one is given."""
    texts = [value] if key is ... else [key, value]
    return b"\t".join(one if isinstance(one, bytes) else json.dumps(one).encode() for one in texts) + b"\n"


def events(folder: Path, *lines: bytes, **options: Any) -> list[Row]:
    """The events of a file of these lines, whose bytes are each in one event; maps are dictionaries."""
    path = folder / "messages.txt"
    path.write_bytes(b"".join(lines))
    table = read(path, format="debezium", **options)
    assert ledger(table) == {str(path): path.stat().st_size}
    rows = table.to_pylist()
    for row in rows:
        row |= {
            name: dict(row[name]) if row[name] is not None else None for name in ("key", "before", "after", "headers")
        }
    return rows


def one(folder: Path, value: Any, key: Any = ..., **options: Any) -> Row:
    """The event of a single message."""
    (row,) = events(folder, line(value, key), **options)
    return row
