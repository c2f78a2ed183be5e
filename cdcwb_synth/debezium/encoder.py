"""A workload as Debezium's messages (``docs/formats/debezium.md``), with its truth."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import fastavro
import msgspec
import pyarrow as pa

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.compressed import ENDINGS
from cdcwb_synth.debezium.columns import Cell, Described, describe
from cdcwb_synth.debezium.log import Entry, Log
from cdcwb_synth.debezium.options import DebeziumOptions
from cdcwb_synth.debezium.schemas import AvroSchemas, envelope, plain
from cdcwb_synth.debezium.truth import Truth
from cdcwb_synth.events import Load, Schema
from cdcwb_synth.history import Change, Committed
from cdcwb_synth.instants import microseconds
from cdcwb_synth.model import Completeness, Operation
from cdcwb_synth.parts import WHOLE, Part
from cdcwb_synth.sinks import ByteFile, TableFile
from cdcwb_synth.values import Type

__all__ = ["DebeziumEncoder"]

_OPS: Final = {
    Operation.INSERT: "c", Operation.UPDATE: "u", Operation.DELETE: "d", Operation.REFRESH: "r",
    Operation.TRUNCATE: "t",
}  # fmt: skip
_PLACEHOLDER: Final = "__debezium_unavailable_value"
_SCHEMAS: Final = 100_000  # ids in a registry that a part of a capture can use
_ESCAPES: Final = {code: f"\\u{code:04x}".encode() for code in range(32)} | {34: b'\\"', 92: b"\\\\"}
_KAFKA: Final = pa.schema(
    [
        ("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("partition", pa.int32()),
        ("offset", pa.int64()), ("timestamp", pa.timestamp("ms", "UTC")), ("timestampType", pa.int32()),
    ]
)  # fmt: skip

Fields = dict[str, Any]


class _Table(NamedTuple):
    """A table version; ``full`` is its topic without the prefix."""

    version: TableVersion
    columns: list[Described]
    topic: str
    key: int

    def row(self, values: Sequence[Any] | None) -> list[Cell | None] | None:
        """The cells of a row."""
        return None if values is None else [one.cell(value) for one, value in zip(self.columns, values, strict=True)]


class DebeziumEncoder:
    """Writes a workload's history below ``folder``: ``capture/``, and ``registry/`` where messages are in Avro.
    ``records``: messages that were written so far."""

    def __init__(self, options: DebeziumOptions, seed: int, folder: Path, part: Part = WHOLE) -> None:
        self._options, self._part = options, part
        self._log = Log(options, part)
        self._rng = Random(f"{seed} debezium")
        self._tables: dict[tuple[int, int], _Table] = {}
        self._avro = AvroSchemas(folder / "registry", part.number * _SCHEMAS)
        self._schemas: dict[Any, Any] = {}
        self._offsets: dict[str, int] = {}
        self._done = 0
        self._last: bytes | None = None  # the last key that was written
        self.records = 0
        name = f"messages{part.suffix}.{ {'kcat': 'jsonl', 'parquet': 'parquet'}.get(options.container, 'txt') }"
        is_table = options.container == "parquet"
        name += "" if is_table else ENDINGS[options.compression]
        path = folder / "capture" / name
        self._rows = TableFile(path, options.compression, _KAFKA, 1000) if is_table else None
        self._bytes = None if is_table else ByteFile(path, options.compression)
        self.truth = Truth(folder / "truth", name, is_table, options)

    def close(self) -> None:
        """Complete the file."""
        for file in (self._rows, self._bytes):
            if file is not None:
                file.close()

    def write(self, item: Schema | Load | Committed, at: datetime, done: int) -> None:
        """Write what comes next in a history, ``at`` this time, when ``done`` changes have happened."""
        match item:
            case Schema():
                self._schema(item.version, microseconds(at))
            case Load():
                time = microseconds(at)
                change = Change(Operation.REFRESH, item.version, None, item.row, at)
                self._change(change, self._log.entry(), time, time, None, "true")
            case Committed():
                if item.changes:
                    self._committed(item)

    def finish(self) -> None:
        """Complete the truth."""
        self.truth.write()

    # --- topics -------------------------------------------------------------------------------------------------------

    def _schema(self, version: TableVersion, time: int) -> None:
        name = (version.table.label, version.number)
        if name in self._tables:
            return
        columns = [describe(column) for column in version.columns]
        key = next(at for at, column in enumerate(version.columns) if column.name == version.table.key)
        table = _Table(version, columns, f"{version.table.schema}.{version.table.name}", key)
        self._tables[name] = table
        if self._part.is_continued and version.number == 1:
            self.truth.known(version, columns)
        elif self._options.has_schema_topic:
            content, described = self._described(table, time)
            place = self._send(self._options.prefix, {"databaseName": "store"}, content, time + 5000, "SchemaChange")
            self.truth.described(version, described, place)

    def _described(self, table: _Table, time: int) -> tuple[Fields, list[Fields]]:
        version = table.version
        columns: list[Fields] = []
        for position, (column, one) in enumerate(zip(version.columns, table.columns, strict=True), 1):
            is_decimal = column.type is Type.DECIMAL and column.places is not None
            kind = (column.keyword or column.type.value).upper()
            columns.append(
                {
                    "name": column.name, "jdbcType": 0, "typeName": kind, "typeExpression": kind, "charsetName": None,
                    "length": column.digits if is_decimal else column.length or None,
                    "scale": column.places if is_decimal else None,
                    "position": position, "optional": one.optional, "autoIncremented": position == table.key + 1,
                }
            )  # fmt: skip
        verb = "CREATE" if version.number == 1 else "ALTER"
        described = {"primaryKeyColumnNames": [version.table.key], "columns": columns}
        identifier = f'"{version.table.schema}"."{version.table.name}"'
        ddl = f"{verb} TABLE {table.topic} ({', '.join(one.name for one in table.columns)})"
        change = {"type": verb, "id": identifier, "table": described}
        source = self._log.source(version.table.schema, version.table.name, time, self._log.entry())
        content = {
            "source": source, "ts_ms": time // 1000 + 3, "databaseName": "store", "schemaName": version.table.schema,
            "ddl": ddl, "tableChanges": [change],
        }  # fmt: skip
        return content, columns

    def _committed(self, item: Committed) -> None:
        """A transaction's changes, one after another, with its boundaries where they are wanted."""
        options, count = self._options, len(item.changes)
        committed = microseconds(item.at) // 1000 * 1000
        began = min(microseconds(change.at) for change in item.changes) // 1000 * 1000
        transaction, begin_position = self._log.begin()
        truth = self.truth.begin(transaction)
        if options.transactions:
            length = self._boundary("BEGIN", began, committed, None, None)
            truth.bounded(begin_position, began, length)
        end_at = committed if options.transactions else None
        tables: dict[str, int] = {}
        entries = [self._log.entry() for _ in item.changes]
        end_position = self._log.end()
        truth.commit_position = end_position if options.transactions else None
        truth.ended_at = end_at
        for number, (change, entry) in enumerate(zip(item.changes, entries, strict=True), 1):
            table = self._tables[change.version.table.label, change.version.number]
            tables[table.topic] = tables.get(table.topic, 0) + 1
            block = None
            if options.transactions:
                identifier = f"{transaction}:{entry.lsn}" if entry.lsn else transaction
                block = {"id": identifier, "total_order": number, "data_collection_order": tables[table.topic]}
            self._change(change, entry, microseconds(change.at), committed, block, "false", transaction)
        if options.transactions:
            collections = [{"data_collection": name, "event_count": many} for name, many in tables.items()]
            truth.bounded(end_position, committed, self._boundary("END", committed, committed, count, collections))
        truth.completeness = Completeness.COMPLETE if options.transactions else Completeness.UNKNOWN
        self._done += 1
        if options.heartbeats and self._done % options.heartbeats == 0:
            beat = {"ts_ms": committed // 1000 + 40}
            topic = f"__debezium-heartbeat.{options.prefix}"
            self._send(topic, {"serverName": options.prefix}, beat, committed + 40_000, "Heartbeat")

    def _boundary(self, status: str, time: int, sent: int, count: int | None, collections: Any) -> int:
        identifier = self._log.identifier
        if status == "BEGIN" or collections is None:
            collections = None
        content = {
            "status": status, "id": identifier, "ts_ms": time // 1000, "event_count": count,
            "data_collections": collections if self._options.form != "avro" else None,
        }  # fmt: skip
        return self._send(f"{self._options.prefix}.transaction", {"id": identifier}, content, sent, "Transaction")[1]

    def _change(
        self, change: Change, entry: Entry, time: int, committed: int, block: Fields | None, snapshot: str,
        transaction: str | None = None,
    ) -> None:  # fmt: skip
        """A change event, and the tombstone that follows a delete."""
        table = self._tables[change.version.table.label, change.version.number]
        schema, name = change.version.table.schema, change.version.table.name
        before, after = table.row(change.before), table.row(change.after)
        lacking = self._lacking(table, change)
        source = self._log.source(schema, name, time, entry, snapshot)
        sent = committed // 1000 + 37
        fields = {"source": source, "op": _OPS[change.operation], "ts_ms": sent, "transaction": block}
        which = 1 if self._options.form == "avro" else 0
        images = {
            "before": _image(table, before, which, set()),
            "after": _image(table, after, which, lacking),
        }
        row = after or before
        held = None if row is None else row[table.key]
        key = None if held is None else {change.version.table.key: held[which]}
        topic = f"{self._options.prefix}.{table.topic}"
        place = self._send(topic, key, {**images, **fields}, sent * 1000, table)
        text = 3 if self._options.form == "json" else 2
        self.truth.change(
            change, table, fields, place, self._facts(topic, sent), transaction,
            None if change.operation is Operation.REFRESH else entry.position, time,
            _image(table, before, text, None), _image(table, after, text, lacking),
            self._key_text(table, held, text), bool(lacking),
            self._schemas[change.version.table.label, change.version.number][0] if which else None,
        )  # fmt: skip
        if change.operation is Operation.DELETE and self._options.tombstones:
            self._send(topic, key, None, sent * 1000, table)

    def _key_text(self, table: _Table, held: Cell | None, text: int) -> Fields | None:
        return {table.version.table.key: held[text]} if held is not None and self._options.has_keys else None

    def _lacking(self, table: _Table, change: Change) -> set[str]:
        """The columns whose value the log does not have."""
        options = self._options
        if options.connector != "postgresql" or change.operation is not Operation.UPDATE:
            return set()
        if change.before is None or change.after is None:
            return set()
        rows = zip(change.version.columns, change.before, change.after, strict=True)
        same = {one.name for one, old, new in rows if one.type is Type.LVARCHAR and old == new and new is not None}
        return same if same and self._rng.random() < options.unavailable_share else set()

    # --- messages -----------------------------------------------------------------------------------------------------

    def _send(self, topic: str, key: Fields | None, value: Fields | None, time: int, kind: Any) -> tuple[int, int]:
        """Send a message at a ``time`` (microseconds since 1970); returns its offset and length in the file."""
        name = kind if isinstance(kind, str) else (kind.version.table.label, kind.version.number)
        key_bytes = None if key is None else self._encoded(key, ("key", name), lambda: self._key_schema(key, kind))
        made = None if value is None else self._encoded(value, name, lambda: self._value_schema(value, kind))
        self.records += 1
        self._last = key_bytes
        offset = self._offsets[topic] = self._offsets.get(topic, -1) + 1
        if self._rows is not None:
            return self._rows.add((key_bytes, made, topic, self._part.number, offset, time // 1000, 0))
        assert self._bytes is not None
        if self._options.container == "kcat":
            head = f'{{"topic":"{topic}","partition":{self._part.number},"offset":{offset},"tstype":"create",'
            head += f'"ts":{time // 1000},"broker":0,"key":'
            return self._bytes.put(head.encode() + _quoted(key_bytes) + b',"payload":' + _quoted(made) + b"}\n")
        parts = [f"CreateTime:{time // 1000}".encode()] if "timestamp" in self._options.parts else []
        parts += [key_bytes or b"null"] if "key" in self._options.parts else []
        return self._bytes.put(b"\t".join([*parts, made or b"null"]) + b"\n")

    def _facts(self, topic: str, sent: int) -> Fields:
        """What the container says of the last message."""
        found: Fields = {}
        if self._options.container in ("kcat", "parquet"):
            found = {
                "kafka.topic": topic,
                "kafka.partition": str(self._part.number),
                "kafka.offset": str(self._offsets[topic]),
            }
        if self._options.container in ("kcat", "parquet") or "timestamp" in self._options.parts:
            time = datetime.fromtimestamp(sent // 1000, UTC).replace(microsecond=sent % 1000 * 1000)
            found["kafka.timestamp"] = f"{time:%Y-%m-%dT%H:%M:%S}.{sent % 1000:03}Z"
            found["kafka.timestamp_type"] = "CreateTime"
        if self._last is not None and self._options.has_keys:
            found["kafka.key"] = self._last.hex() if self._last.startswith(b"\0") else self._last.decode()
        return found

    def _encoded(self, value: Fields, name: Any, schema: Callable[[], Any]) -> bytes:
        if self._options.form == "json":
            return msgspec.json.encode(value)
        if name not in self._schemas:
            made = schema()
            is_json = self._options.form == "json-schema"
            self._schemas[name] = msgspec.json.encode(made) if is_json else self._avro.register(made)
        known = self._schemas[name]
        if self._options.form == "json-schema":
            return b'{"schema":' + bytes(known) + b',"payload":' + msgspec.json.encode(value) + b"}"
        number, parsed = known
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value)
        return b"\0" + int(number).to_bytes(4, "big") + out.getvalue()

    def _key_schema(self, key: Fields, kind: Any) -> Any:
        named = f"{self._options.prefix}.{kind if isinstance(kind, str) else kind.topic}.Key"
        return self._avro.plain(key, named) if self._options.form == "avro" else plain(key, named)

    def _value_schema(self, value: Fields, kind: Any) -> Any:
        is_avro = self._options.form == "avro"
        if isinstance(kind, str):
            named = f"io.debezium.connector.common.{kind}"
            if kind != "SchemaChange":
                more = {"event_count": 1} if kind == "Transaction" else {}
                return self._avro.plain(value | more, named) if is_avro else plain(value, named)
            return _schema_change(value, named, self._avro) if is_avro else plain(value, named)
        named = f"{self._options.prefix}.{kind.topic}"
        if is_avro:
            return self._avro.envelope(named, kind.columns, value["source"])
        return envelope(named, kind.columns, value["source"])


def _schema_change(value: Fields, named: str, avro: AvroSchemas) -> Fields:
    """The Avro schema of a schema change."""

    def record(fields: Mapping[str, Any], name: str) -> Fields:
        kinds = {bool: "boolean", int: "long", str: "string"}
        types = {key: kinds.get(type(one), "string") for key, one in fields.items()}
        types |= {key: "long" for key in ("length", "scale") if key in types}
        return {"type": "record", "name": name, "fields": [{"name": n, "type": ["null", k]} for n, k in types.items()]}

    change = value["tableChanges"][0]
    column = record(change["table"]["columns"][0], "Column")
    table = {
        "type": "record", "name": "Table",
        "fields": [
            {"name": "primaryKeyColumnNames", "type": {"type": "array", "items": "string"}},
            {"name": "columns", "type": {"type": "array", "items": column}},
        ],
    }  # fmt: skip
    made = record({"type": "", "id": ""}, "Change")
    made["fields"].append({"name": "table", "type": table})
    schema = record(
        {name: one for name, one in value.items() if name not in ("source", "tableChanges")}, "SchemaChange"
    )
    schema["fields"].insert(0, {"name": "source", "type": avro.plain(value["source"], "io.debezium.connector.Source")})
    schema["fields"].append({"name": "tableChanges", "type": {"type": "array", "items": made}})
    return schema | {"namespace": named.rpartition(".")[0]}


def _image(table: _Table, row: list[Cell | None] | None, which: int, lacking: set[str] | None) -> Fields | None:
    """A row as JSON (0), Avro (1) or text (2 with its schema, 3 without); what it lacks has a placeholder in messages
    and is missing in texts."""
    if row is None:
        return None
    made: Fields = {}
    for column, cell in zip(table.columns, row, strict=True):
        if lacking and column.name in lacking:
            if which < 2:
                made[column.name] = _PLACEHOLDER
            continue
        made[column.name] = None if cell is None else cell[which]
    return made


def _quoted(value: bytes | None) -> bytes:
    """Bytes as a text of ``kcat -J``."""
    return b"null" if value is None else b'"' + b"".join(_ESCAPES.get(byte, bytes([byte])) for byte in value) + b'"'
