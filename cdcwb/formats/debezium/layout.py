"""The wire facts of Debezium's messages, as data (docs/formats/debezium.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from cdcwb.model import Operation

# --- the envelope (§2) ------------------------------------------------------------------------------------------------

OPERATIONS: Final = {
    "c": Operation.INSERT,
    "u": Operation.UPDATE,
    "d": Operation.DELETE,
    "r": Operation.REFRESH,
    "t": Operation.TRUNCATE,
}
"""``op`` of changes (§2.2); ``m`` is a message that an application wrote into the log."""

ENVELOPE: Final = {
    "schema": "the Kafka Connect schema of what follows",
    "payload": "the message",
    "before": "the before image",
    "after": "the after image",
    "source": "source of the change",
    "op": "operation: c create, u update, d delete, r snapshot read, t truncate, m message",
    "ts_ms": "time at which the connector processed the change, in milliseconds since 1970",
    "ts_us": "time at which the connector processed the change, in microseconds since 1970",
    "ts_ns": "time at which the connector processed the change, in nanoseconds since 1970",
    "transaction": "the transaction and the number of the event in it",
    "updateDescription": "MongoDB: the fields that the update set and removed",
    "message": "message that an application wrote to the log",
}
"""The fields of a change event (§2.1)."""

SOURCE: Final = {
    "version": "version of Debezium",
    "connector": "the connector",
    "name": "topic prefix of the connector, its logical name",
    "ts_ms": "time of the change in the database, in milliseconds since 1970",
    "ts_us": "time of the change in the database, in microseconds since 1970",
    "ts_ns": "time of the change in the database, in nanoseconds since 1970",
    "ts_usec": "time of the change in the database, in microseconds or (before 0.10) nanoseconds since 1970",
    "ts_sec": "time of the change in the database, in seconds since 1970",
    "snapshot": "whether the row is from a snapshot: true, first, last, incremental … or false",
    "db": "database",
    "schema": "schema of the table",
    "table": "name of the table",
    "collection": "name of the collection",
    "keyspace": "Vitess: the keyspace of the table",
    "shard": "Vitess: the shard of the keyspace",
    "vgtid": "Vitess: the position of each shard, which names the transaction",
    "txId": "transaction id of the database",
    "lsn": "log sequence number",
    "xmin": "oldest transaction that was still running",
    "sequence": "log sequence numbers of the last commit and of this change",
    "gtid": "global transaction identifier",
    "file": "binlog file",
    "pos": "byte in the binlog file",
    "row": "row in the binlog event, from 0",
    "commit_lsn": "log sequence number of the commit",
    "change_lsn": "log sequence number of the change",
    "event_serial_no": "number of the event among those of one change",
    "scn": "system change number of the change",
    "commit_scn": "system change number of the commit",
    "ord": "number of the event in its second",
    "begin_lsn": "Informix: log sequence number of the begin of the transaction",
    "server_transaction_id": "Spanner: the transaction",
    "origin": "CockroachDB: the database that sent the message",
    "ts_hlc": "CockroachDB: hybrid logical time of the change, nanoseconds since 1970 and a counter",
    "database_name": "CockroachDB: database",
    "schema_name": "CockroachDB: schema of the table",
    "table_name": "CockroachDB: name of the table",
}
"""The fields of ``source`` (§3)."""

TRANSACTION: Final = {
    "status": "BEGIN or END of the transaction",
    "id": "the transaction",
    "event_count": "number of events of the transaction",
    "data_collections": "number of events of each table in the transaction",
    "total_order": "number of the event in its transaction, from 1",
    "data_collection_order": "number of the event among those of its table, from 1",
}
"""The fields of ``transaction`` and of messages in the transaction topic (§4)."""

OTHERS: Final = {
    "databaseName": "database",
    "schemaName": "schema",
    "ddl": "the statement that changed the table",
    "tableChanges": "the tables after the statement",
    "serverName": "topic prefix of the connector",
}
"""The fields of schema changes and heartbeats (§5, §6)."""

UNAVAILABLE: Final = "__debezium_unavailable_value"
"""Stands for a value that the log does not have because the update did not touch it (§8.3)."""

CELL: Final = {"value", "set"}
"""The fields of each column where a connector says whether its value was captured (§2.5)."""

# --- positions (§3) ---------------------------------------------------------------------------------------------------


def _whole(value: Any, width: int) -> str | None:
    """Digits, padded so that text order is the order of numbers; None for what is no number."""
    if value.__class__ is int and 0 <= value < 1 << 64:
        return str(value).zfill(width)
    text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    return text.zfill(width) if re.fullmatch("[0-9]{1,40}", text, re.ASCII) else None


def _joined(*parts: str | None) -> str | None:
    return None if None in parts else "/".join(map(str, parts))


def _lsn(value: Any) -> str | None:
    """A PostgreSQL LSN as 16 hexadecimal digits."""
    if value.__class__ is int and 0 <= value < 1 << 64:
        return f"{value:016X}"
    digits = _whole(value, 1)
    return None if digits is None else f"{int(digits):016X}"


def _binlog(source: Mapping[str, Any]) -> str | None:
    number = re.search(r"\.([0-9]+)\Z", str(source.get("file")), re.ASCII)
    return _joined(number and _whole(number[1], 10), _whole(source.get("pos"), 19), _whole(source.get("row") or 0, 10))


def _two_lsn(source: Mapping[str, Any]) -> str | None:
    commit, change = source.get("commit_lsn"), source.get("change_lsn")
    if not isinstance(commit, str) or not isinstance(change, str):
        return None
    return _joined(commit, change, _whole(source.get("event_serial_no") or 0, 10))


def _mongodb(source: Mapping[str, Any]) -> str | None:
    time = _whole(source.get("ts_ms"), 1)
    return None if time is None else _joined(f"{int(time) // 1000:010}", _whole(source.get("ord"), 10))


def _oracle(source: Mapping[str, Any]) -> str | None:
    return _joined(_whole(source.get("commit_scn"), 20), _whole(source.get("scn"), 20))


def _informix(source: Mapping[str, Any]) -> str | None:
    return _joined(_whole(source.get("commit_lsn"), 20), _whole(source.get("change_lsn"), 20))


def _commit_log(source: Mapping[str, Any]) -> str | None:
    number = re.search(r"-([0-9]+)\.log\Z", str(source.get("file")), re.ASCII)
    return _joined(number and _whole(number[1], 19), _whole(source.get("pos"), 19))


def _hybrid_time(source: Mapping[str, Any]) -> str | None:
    found = re.fullmatch(r"([0-9]{1,20})\.([0-9]{10})", str(source.get("ts_hlc")), re.ASCII)
    return None if found is None else f"{found[1].zfill(20)}.{found[2]}"


class _Connector(NamedTuple):
    """``position``: from ``source`` to a text whose order is that of the log; ``fields``: what it is made of;
    ``transaction``: the field of ``source`` that names the transaction."""

    position: Callable[[Mapping[str, Any]], str | None]
    fields: str
    transaction: str


CONNECTORS: Final[dict[str, _Connector]] = {
    "postgresql": _Connector(lambda source: _lsn(source.get("lsn")), "lsn", "txId"),
    "mysql": _Connector(_binlog, "file, pos and row", "gtid"),
    "mariadb": _Connector(_binlog, "file, pos and row", "gtid"),
    "sqlserver": _Connector(_two_lsn, "commit_lsn, change_lsn and event_serial_no", "commit_lsn"),
    "db2": _Connector(_two_lsn, "commit_lsn and change_lsn", "commit_lsn"),
    "oracle": _Connector(_oracle, "commit_scn and scn", "txId"),
    "mongodb": _Connector(_mongodb, "seconds and ord", "txnNumber"),
    "vitess": _Connector(lambda source: None, "", "vgtid"),
    "yugabytedb": _Connector(lambda source: None, "", "txId"),
    "informix": _Connector(_informix, "commit_lsn and change_lsn", "txId"),
    "cassandra": _Connector(_commit_log, "file and pos", ""),
    "spanner": _Connector(lambda source: None, "", "server_transaction_id"),
    "cockroachdb": _Connector(_hybrid_time, "ts_hlc", ""),
}
"""The known connectors (§3.2). Without ``fields``, and of any other, the position is null."""

_UNNAMED: Final = (
    ("postgresql", {"lsn"}),
    ("mysql", {"file", "pos"}),
)
"""What a source without ``connector`` shows: that of releases before 0.9 (§3.1)."""


def connector_of(source: Mapping[str, Any]) -> str | None:
    """The connector that ``source`` names, else the one whose fields it has; None where it shows neither."""
    named = source.get("connector", source.get("origin"))
    if named is not None:
        return named if isinstance(named, str) else None
    return next((name for name, fields in _UNNAMED if fields <= source.keys()), None)


def position_of(source: Mapping[str, Any]) -> str | None:
    """The log position of a change; None where the connector is not known or a field is missing."""
    connector = CONNECTORS.get(connector_of(source) or "")
    return None if connector is None else connector.position(source)


_POSTGRESQL: Final = re.compile(r"([0-9]+):([0-9]+)", re.ASCII)


def transaction_of(identifier: Any, source: Mapping[str, Any] | None = None) -> tuple[str | None, str | None]:
    """The transaction, and the position that its identifier has; without an ``identifier`` that of ``source`` (§4.2).

    PostgreSQL's identifier is ``txID:LSN`` with the LSN of the event, so only the number before the colon is the
    transaction's.
    """
    if isinstance(identifier, (str, int)) and identifier != "":
        parts = _POSTGRESQL.fullmatch(str(identifier))
        return (str(identifier), None) if parts is None else (parts[1], _lsn(parts[2]))
    connector = CONNECTORS.get(connector_of(source or {}) or "")
    found = None if connector is None or source is None else source.get(connector.transaction)
    return (None if found in (None, "") else str(found)), None


# --- types (§7) -------------------------------------------------------------------------------------------------------


class Clock(NamedTuple):
    """A date (``date``: days since 1970), time of day (``time``) or date and time (``timestamp``) that is a number, in
    units of so many digits behind the second."""

    kind: str
    digits: int


TIMES: Final = {
    "io.debezium.time.Date": Clock("date", 0),
    "io.debezium.time.Time": Clock("time", 3),
    "io.debezium.time.MicroTime": Clock("time", 6),
    "io.debezium.time.NanoTime": Clock("time", 9),
    "io.debezium.time.Timestamp": Clock("timestamp", 3),
    "io.debezium.time.MicroTimestamp": Clock("timestamp", 6),
    "io.debezium.time.NanoTimestamp": Clock("timestamp", 9),
    "org.apache.kafka.connect.data.Date": Clock("date", 0),
    "org.apache.kafka.connect.data.Time": Clock("time", 3),
    "org.apache.kafka.connect.data.Timestamp": Clock("timestamp", 3),
}
"""Semantic types that are numbers and become ISO 8601 (§7.2). Those that are text already stay as they are."""

_ARROW: Final[dict[str, pa.DataType]] = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "bytes": pa.binary(),
}
_MOST_DIGITS: Final = 38


def arrow_of(name: str, precision: int | None, scale: int | None) -> pa.DataType:
    """The type of a column in ``table`` by the type that its version names; text where there is none of its own."""
    clock = TIMES.get(name)
    if clock is not None:
        return {"date": pa.date32(), "timestamp": pa.timestamp("us")}.get(clock.kind, pa.string())
    if name.endswith(".Decimal") and scale is not None and 0 <= scale <= _MOST_DIGITS:
        return pa.decimal128(min(precision or _MOST_DIGITS, _MOST_DIGITS), scale)
    return _ARROW.get(name, pa.string())
