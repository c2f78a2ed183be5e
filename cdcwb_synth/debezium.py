"""A workload as Debezium's messages (``docs/formats/debezium.md``). All topics are in one file, in the order in which
they were written."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.encoder import Encoder, EncoderContext, delivered
from cdcwb_synth.kafka import AvroSchema, Container, Message, Registry, avro_record
from cdcwb_synth.model import Operation
from cdcwb_synth.options import Options, Rules, option, same
from cdcwb_synth.truth import Location, Transaction, Version, column_rows
from cdcwb_synth.values import Column, Memo, Type, microseconds, text_of, unscaled
from cdcwb_synth.workload import Change, Committed, Row, Schema

_PREFIX: Final = "shop"  # of topics
_OPS: Final = {
    Operation.INSERT: "c", Operation.UPDATE: "u", Operation.DELETE: "d", Operation.REFRESH: "r",
    Operation.TRUNCATE: "t",
}  # fmt: skip
_PLACEHOLDER: Final = "__debezium_unavailable_value"

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DebeziumOptions(Options):
    """What happens, and how the connector and its converters are set up."""

    schema_changes: int = same("schema_changes", default=6)
    refresh_rows: int = option(20, "rows of the snapshot that every table begins with", 0, 10_000_000)
    connector: str = option("postgresql", "connector", of=("postgresql", "mysql", "sqlserver", "oracle"))
    form: str = option("json-schema", "converter; json has no schema", of=("json-schema", "json", "avro"))
    container: str = option("console", "what holds the messages", of=("console", "lines", "kcat", "parquet"))
    transactions: bool = option(True, "the transaction topic, and the field transaction of change events")
    unavailable_share: float = option(0.3, "postgresql: share of the updates that lack an unchanged long text", 0, 1)
    heartbeats: int = option(20, "transactions between two heartbeats; 0: none", 0, 1_000_000)

    def rules(self) -> Rules:
        """What values that are each allowed must not be together."""
        why = f"form avro is binary, and container {self.container} is text: choose kcat or parquet"
        return [*Options.rules(self), (self.form == "avro" and self.container in ("console", "lines"), why)]


# --- values as Kafka Connect has them (§7) ----------------------------------------------------------------------------

_INTEGERS: Final = {Type.SMALLINT: "int16", Type.INTEGER: "int32", Type.BIGINT: "int64", Type.INT8: "int64"}
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_VARIABLE: Final = "io.debezium.data.VariableScaleDecimal"


class Cell(NamedTuple):
    """A value in JSON and in Avro, and as text with its schema and without."""

    json: Any
    avro: Any
    text: str
    plain: str


class Node(NamedTuple):
    """A schema of Kafka Connect: its type, the name of a struct or the semantic type, and the fields of a struct. A
    decimal has ``precision`` and ``scale``."""

    kind: str
    optional: bool = True
    name: str | None = None
    fields: Mapping[str, Node] = {}
    precision: int | None = None
    scale: int | None = None

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of a decimal."""
        if self.scale is None:
            return {}
        return {"scale": str(self.scale), "connect.decimal.precision": str(self.precision)}


class Described(NamedTuple):
    """A column: its name, its schema, and its cells."""

    name: str
    schema: Node
    cells: Memo


def _described(column: Column) -> Described:
    """The column as a connector describes it."""
    text = text_of(column)

    def number(value: int, shown: str | None = None) -> Cell:
        return Cell(value, value, str(value) if shown is None else shown, str(value))

    def raw(data: bytes, shown: str) -> Cell:
        written = base64.b64encode(data).decode()
        return Cell(written, data, shown, written)

    kinds: dict[Type, tuple[str, Callable[[Any], Cell], str | None]] = {
        **{one: (kind, number, None) for one, kind in _INTEGERS.items()},
        Type.BOOLEAN: ("boolean", lambda value: Cell(value, value, text(value), text(value)), None),
        Type.FLOAT: ("double", lambda value: _float(value, repr(value)), None),
        # of single precision: its own digits, in the form that a double of them has
        Type.SMALLFLOAT: ("float", lambda value: _float(value, repr(float(str(np.float32(value))))), None),
        Type.DATE: ("int32", lambda one: number((one - date(1970, 1, 1)).days, text(one)), "io.debezium.time.Date"),
        Type.LOB: ("bytes", lambda value: raw(value, value.hex()), None),
    }
    kind, cell, name = kinds.get(column.type, ("string", lambda value: Cell(*[text(value)] * 4), None))
    schema = Node(kind, column.nullable, name)
    if column.type is Type.DECIMAL and (scale := column.places) is not None:
        schema = Node("bytes", column.nullable, _DECIMAL, precision=column.digits, scale=scale)
        cell = lambda value: raw(unscaled(Decimal(text(value)), scale), text(value))  # noqa: E731
    elif column.type is Type.DECIMAL:
        parts = {"scale": Node("int32", optional=False), "value": Node("bytes", optional=False)}
        schema, cell = Node("struct", column.nullable, _VARIABLE, parts), _floating
    elif column.type is Type.DATETIME and column.fields[:3] == ("year", "month", "day") and len(column.fields) > 5:
        fine = column.fields[-1] == "fraction" and column.fraction > 3
        schema = Node("int64", column.nullable, f"io.debezium.time.{'Micro' if fine else ''}Timestamp")
        cell = lambda value: number(*_timestamp(value, column, fine))  # noqa: E731
    return Described(column.name, schema, Memo(cell, None, is_exact=cell is _floating))


def _float(value: float, text: str) -> Cell:
    return Cell(msgspec.Raw(text.encode()), value, text, text)


def _floating(value: Decimal) -> Cell:
    scale = -int(value.as_tuple().exponent)
    data = unscaled(value, scale)
    written = {"scale": scale, "value": base64.b64encode(data).decode()}
    return Cell(written, {"scale": scale, "value": data}, f"{value:f}", msgspec.json.encode(written).decode())


def _timestamp(value: datetime, column: Column, fine: bool) -> tuple[int, str]:
    """Micro- or milliseconds since 1970 of the fields that the column has, and their text."""
    fields = {name: getattr(value, name) for name in column.fields if name != "fraction"}
    if column.fields[-1] == "fraction":
        fields["microsecond"] = value.microsecond // 10 ** (6 - column.fraction) * 10 ** (6 - column.fraction)
    cut = datetime(tzinfo=UTC, **{"hour": 0, "minute": 0, "second": 0, **fields})
    text = cut.replace(tzinfo=None).isoformat(timespec="microseconds" if fine else "milliseconds")
    return microseconds(cut) // (1 if fine else 1000), text


# --- schemas ----------------------------------------------------------------------------------------------------------

_BLOCK: Final = {"id": "", "total_order": 1, "data_collection_order": 1}
_SOURCE: Final = "io.debezium.connector.Source"
_AVRO: Final = {"int16": "int", "int32": "int", "int64": "long"}


def _node(value: Any, name: str, longs: tuple[str, ...] = (), *, optional: bool = False) -> Node:
    """The schema of an object of numbers, texts, lists and objects; ``longs`` are numbers that may be null."""
    if isinstance(value, dict):
        fields = {key: _node(one, f"{name}.{key}", longs, optional=True) for key, one in value.items()}
        return Node("struct", optional, name, fields)
    if isinstance(value, list):
        return Node("array", optional, fields={"items": _node(value[0], f"{name}.item", longs)})
    if isinstance(value, bool):
        return Node("boolean")
    return Node("int64" if isinstance(value, int) or name.rpartition(".")[2] in longs else "string", optional)


def _envelope(name: str, columns: list[Described], source: Mapping[str, Any]) -> Node:
    """The schema of a change event."""
    row = Node("struct", True, f"{name}.Value", {column.name: column.schema for column in columns})
    fields = {
        "before": row, "after": row, "source": _node(source, _SOURCE), "op": Node("string", optional=False),
        "ts_ms": Node("int64"), "transaction": _node(_BLOCK, "event.block", optional=True),
    }  # fmt: skip
    return Node("struct", False, f"{name}.Envelope", fields)


def _connect(node: Node, field: str | None = None) -> Fields:
    """A schema as the JSON converter writes it."""
    schema: Fields = {"type": node.kind}
    if node.kind == "array":
        schema |= {"items": _connect(node.fields["items"])}
    elif node.fields:
        schema["fields"] = [_connect(one, name) for name, one in node.fields.items()]
    schema["optional"] = node.optional
    if node.name is not None:
        schema["name"] = node.name
    if node.name is not None and (node.kind != "struct" or node.name == _VARIABLE):
        schema["version"] = 1
    if node.parameters:
        schema["parameters"] = node.parameters
    return schema if field is None else schema | {"field": field}


def _avro(node: Node, known: set[str], space: str = "") -> Any:
    """A schema in Avro, in the namespace ``space``; ``known`` are the records that have been defined."""
    schema: Any = _AVRO.get(node.kind, node.kind)
    if node.fields and node.name is not None:
        own, _, short = node.name.rpartition(".")
        schema = short if own == space else node.name
        if node.name not in known:
            known.add(node.name)
            fields = {name: _avro(one, known, own) for name, one in node.fields.items()}
            schema = avro_record(short, fields, None if own == space else own, **{"connect.name": node.name})
    elif node.kind == "array":
        schema = {"type": "array", "items": _avro(node.fields["items"], known, space)}
    elif node.name == _DECIMAL:
        numbers = {"scale": node.scale, "precision": node.precision, "logicalType": "decimal"}
        schema = {"type": "bytes", **numbers, "connect.parameters": node.parameters, "connect.name": _DECIMAL}
    elif node.name is not None:
        schema = {"type": schema, "connect.version": 1, "connect.name": node.name}
    elif node.kind == "int16":
        schema = {"type": "int", "connect.type": "int16"}
    return ["null", schema] if node.optional else schema


# --- the log of the source (§3, §4) -----------------------------------------------------------------------------------


class _Entry(NamedTuple):
    """A location in the log: the fields of ``source`` that give it, and the position; ``lsn`` is PostgreSQL's."""

    fields: Fields
    position: str
    lsn: int = 0


class _Log:
    """Gives each change its location. ``transaction`` is the current one, as cdcwb names it."""

    def __init__(self, connector: str) -> None:
        self._connector = connector
        self._at = 24_000_000
        self._ordinal = 0
        self._number = 0

    def boundary(self, size: int) -> str | None:
        """The position of a begin or a commit."""
        self._at += size
        return f"{self._at:016X}" if self._connector == "postgresql" else None

    def begin(self) -> str | None:
        """Begins the next transaction."""
        self._ordinal += 1
        self._number = 0
        return self.boundary(64)

    @property
    def transaction(self) -> str:
        names = {
            "postgresql": str(570 + self._ordinal),
            "mysql": f"3e11fa47-71ca-11e1-9e33-c80aa9429562:{self._ordinal}",
            "sqlserver": f"{39:08x}:{self._ordinal:08x}:0005",
        }
        return names.get(self._connector, f"0a001f00{self._ordinal:08x}")

    @property
    def identifier(self) -> str:
        """The transaction as messages name it at this location: PostgreSQL adds that."""
        return f"{self.transaction}:{self._at}" if self._connector == "postgresql" else self.transaction

    def entry(self) -> _Entry:
        """The location of the next change."""
        self._at += 56
        self._number += 1
        at, name = self._at, self.transaction
        match self._connector:
            case "postgresql":
                return _Entry({"txId": int(name), "lsn": at, "xmin": None}, f"{at:016X}", at)
            case "mysql":
                number, byte = 3 + at // 24_100_000, at % 24_100_000
                fields = {"server_id": 223344, "gtid": name, "file": f"mysql-bin.{number:06}"}
                return _Entry(fields | {"pos": byte, "row": 0, "thread": 7}, f"{number:010}/{byte:019}/{0:010}")
            case "sqlserver":
                change = f"{39:08x}:{self._ordinal:08x}:{self._number:04x}"
                fields = {"change_lsn": change, "commit_lsn": name, "event_serial_no": 1}
                return _Entry(fields, f"{name}/{change}/{1:010}")
            case _:
                scn, commit = 1_000_000 + at, 1_000_500 + at
                fields = {"txId": name, "scn": str(scn), "commit_scn": str(commit), "rs_id": None}
                return _Entry(fields, f"{commit:020}/{scn:020}")

    def source(self, version: TableVersion, time: int, entry: _Entry, snapshot: str = "false") -> Fields:
        """The field ``source`` of a change at a ``time`` (microseconds since 1970)."""
        schema = version.table.schema
        database = {"db": schema} if self._connector == "mysql" else {"db": "store", "schema": schema}
        return {
            "version": "2.7.0.Final", "connector": self._connector, "name": _PREFIX, "ts_ms": time // 1000,
            "snapshot": snapshot, **database, "ts_us": time, "ts_ns": time * 1000, "table": version.table.name,
            **entry.fields,
        }  # fmt: skip


# --- messages ---------------------------------------------------------------------------------------------------------


class _Table(NamedTuple):
    """A table version; ``shape``: what distinguishes versions of rows, columns as they show them."""

    version: TableVersion
    columns: list[Described]
    key: int
    shape: list[Fields]

    @property
    def topic(self) -> str:
        """The topic of its changes without the prefix."""
        return self.version.table.full_name

    def row(self, values: Row | None) -> list[Cell | None] | None:
        """The cells of a row."""
        return None if values is None else [one.cells[value] for one, value in zip(self.columns, values, strict=True)]

    def image(self, row: list[Cell | None] | None, which: int, lacking: set[str]) -> Fields | None:
        """A row as JSON (0), Avro (1) or text (2 with its schema, 3 without); what it lacks has a placeholder in
        messages and is missing in texts."""
        if row is None:
            return None
        made = {c.name: cell and cell[which] for c, cell in zip(self.columns, row, strict=True)}
        if which < 2:
            return made | dict.fromkeys(lacking, _PLACEHOLDER)
        return {name: text for name, text in made.items() if name not in lacking} if lacking else made


class DebeziumEncoder(Encoder[_Table]):
    """Writes a workload's history: ``capture/``, and ``registry/`` where messages are in Avro. ``records``: messages
    that were written so far."""

    def __init__(self, capture: EncoderContext) -> None:
        super().__init__(capture)
        options: DebeziumOptions = self.options
        self._log = _Log(options.connector)
        self._is_avro = options.form == "avro"
        self._registry = Registry(capture.folder / "registry", 1)
        self._schemas: dict[Any, Any] = {}
        self._versions: dict[Any, Version] = {}
        self._schema_changes: dict[Any, tuple[TableVersion, list[Fields], Location]] = {}
        self._offsets: Counter[str] = Counter()
        self._done = 0
        console = ("timestamp", "key")
        self._container = Container(options.container, options.compression, console)
        self.truth.unit = "row" if self._container.is_rows else "byte"
        name = f"messages.{self._container.ending}"
        self.truth.file(name)
        self._file = self._container.open(self.folder / name)

    def table(self, item: Schema, done: int) -> _Table:
        """A table version, and the message about it that connectors but PostgreSQL's send."""
        version, time = item.version, microseconds(item.at)
        columns = [_described(column) for column in version.columns]
        key = version.key
        shape = column_rows(
            {
                "name": one.name, "key_position": 1 if self._container.has_keys and at == key else None,
                **({} if self.options.form == "json" else {
                    "type": one.schema.name or one.schema.kind, "nullable": one.schema.optional,
                    "precision": one.schema.precision, "scale": one.schema.scale,
                }),
            }
            for at, one in enumerate(columns)
        )  # fmt: skip
        table = _Table(version, columns, key, shape)
        if self.options.connector != "postgresql":
            content = self._description(table, time)
            location, _ = self._send(_PREFIX, {"databaseName": "store"}, content, time + 5000, "SchemaChange")
            described = content["tableChanges"][0]["table"]["columns"]
            shown = (table.topic, tuple((o["name"], o["typeName"], o["length"], o["scale"]) for o in described))
            self._schema_changes.setdefault(shown, (version, described, location))
        return table

    def _description(self, table: _Table, time: int) -> Fields:
        """The content of a schema change."""
        version = table.version
        columns = [
            {
                "name": column.name, "jdbcType": 0, "typeName": kind, "typeExpression": kind, "charsetName": None,
                "length": column.length or None if one.scale is None else one.precision, "scale": one.scale,
                "position": position, "optional": one.optional, "autoIncremented": position == table.key + 1,
            }
            for position, (column, (_, one, _)) in enumerate(zip(version.columns, table.columns, strict=True), 1)
            for kind in [(column.keyword or column.type.value).upper()]
        ]  # fmt: skip
        verb = "CREATE" if version.number == 1 else "ALTER"
        identifier = f'"{version.table.schema}"."{version.table.name}"'
        definition = {"primaryKeyColumnNames": [version.table.key], "columns": columns}
        return {
            "source": self._log.source(version, time, self._log.entry()), "ts_ms": time // 1000 + 3,
            "databaseName": "store", "schemaName": version.table.schema,
            "ddl": f"{verb} TABLE {table.topic} ({', '.join(version.names)})",
            "tableChanges": [{"type": verb, "id": identifier, "table": definition}],
        }  # fmt: skip

    def load(self, item: Change) -> None:
        """A row of the snapshot."""
        time = microseconds(item.at)
        self._change(item, self._log.entry(), time, time, None, None)

    def commit(self, item: Committed, done: int) -> None:
        """A transaction's changes, one after another, with its boundaries where they are wanted."""
        if not item.changes:
            return
        is_bounded, committed = self.options.transactions, microseconds(item.at) // 1000 * 1000
        began = min(microseconds(change.at) for change in item.changes) // 1000 * 1000
        position = self._log.begin()
        name = self._log.transaction
        transaction = self.truth.transaction(Transaction(name))
        if is_bounded:
            self._boundary("BEGIN", transaction, position, began, committed)
        entries = [self._log.entry() for _ in item.changes]
        position = self._log.boundary(48)
        if is_bounded:
            transaction.commit_position, transaction.completeness = position, "complete"
            transaction.committed_at = transaction.ended_at = committed
        counts: Counter[str] = Counter()
        for change, entry, number in delivered(zip(item.changes, entries, range(1, len(entries) + 1), strict=True)):
            topic = self.tables[change.version].topic
            counts[topic] += 1
            identifier = f"{name}:{entry.lsn}" if entry.lsn else name
            block = {"id": identifier, "total_order": number, "data_collection_order": counts[topic]}
            time = microseconds(change.at)
            self._change(change, entry, time, committed, block if is_bounded else None, transaction)
        if is_bounded:
            self._boundary("END", transaction, position, committed, committed, counts)
            transaction.end_position = position
        self._done += 1
        if self.options.heartbeats and self._done % self.options.heartbeats == 0:
            beat, topic = {"ts_ms": committed // 1000 + 40}, f"__debezium-heartbeat.{_PREFIX}"
            self._send(topic, {"serverName": _PREFIX}, beat, committed + 40_000, "Heartbeat")

    def _boundary(
        self, status: str, transaction: Transaction, position: str | None, time: int, sent: int,
        counts: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        """The begin or, with ``counts`` of changes by topic, the end of a transaction."""
        identifier = self._log.identifier
        collections = [{"data_collection": topic, "event_count": many} for topic, many in (counts or {}).items()]
        content = {
            "status": status, "id": identifier, "ts_ms": time // 1000,
            "event_count": counts and sum(counts.values()),
            "data_collections": None if self._is_avro or counts is None else collections,
        }  # fmt: skip
        location, _ = self._send(f"{_PREFIX}.transaction", {"id": identifier}, content, sent, "Transaction")
        transaction.covers(position, time)
        transaction.bytes += location.length

    def _change(
        self, change: Change, entry: _Entry, time: int, committed: int, block: Fields | None,
        transaction: Transaction | None,
    ) -> None:  # fmt: skip
        """A change event, and the tombstone that follows a delete."""
        table, owner = self.tables[change.version], change.version.table
        before, after = table.row(change.before), table.row(change.after)
        lacking, is_load = self._lacking(change), change.operation is Operation.REFRESH
        sent = committed // 1000 + 37
        fields = {
            "source": self._log.source(change.version, time, entry, "true" if is_load else "false"),
            "op": _OPS[change.operation], "ts_ms": sent, "transaction": block,
        }  # fmt: skip
        which, text = int(self._is_avro), 3 if self.options.form == "json" else 2
        images = {"before": table.image(before, which, set()), "after": table.image(after, which, lacking)}
        row = after or before
        key_cell = None if row is None else row[table.key]
        key = None if key_cell is None else {owner.key: key_cell[which]}
        topic = f"{_PREFIX}.{table.topic}"
        location, message = self._send(topic, key, {**images, **fields}, sent * 1000, table)
        headers: dict[str, str | None] = {}
        for name, value in fields.items():
            inner = {f"{name}.{i}": one for i, one in value.items()} if isinstance(value, dict) else {name: value}
            headers |= {name: None if one is None else str(one) for name, one in inner.items()}
        if self._is_avro and message.value is not None:
            headers["schemaId"] = str(int.from_bytes(message.value[1:5], "big"))
        position = None if is_load else entry.position
        if transaction is not None:
            transaction.covers(position, time)
        new = table.image(after, text, lacking)
        facts: dict[str, Any] = {
            "record_type": fields["op"], "operation": change.operation, "position": position,
            "event_no": block and block["total_order"], "changed_at": time,
            "schema_name": owner.schema, "table_name": owner.name,
            "present_columns": list(new or ()) if lacking else None,
            "key": {owner.key: key_cell[text]} if key_cell and self._container.has_keys else None,
            "before": table.image(before, text, set()), "after": new,
            "headers": headers | self._container.facts(message),
        }  # fmt: skip
        version = self._version(table, location) if self.options.form != "json" or row else None
        self.truth.change(facts, [location], version, transaction)
        if change.operation is Operation.DELETE:
            self._send(topic, key, None, sent * 1000, table)

    def _lacking(self, change: Change) -> set[str]:
        """The columns whose value the log does not have: large texts that an update does not change."""
        if self.options.connector != "postgresql" or change.operation is not Operation.UPDATE:
            return set()
        rows = zip(change.version.columns, change.before or (), change.after or (), strict=True)
        same = {one.name for one, old, new in rows if one.type is Type.LVARCHAR and old == new and new is not None}
        return same if same and self.rng.random() < self.options.unavailable_share else set()

    def _send(
        self, topic: str, key: Fields | None, value: Fields | None, time: int, kind: str | _Table
    ) -> tuple[Location, Message]:
        """Sends a message at a ``time`` (microseconds since 1970)."""
        named = f"{_PREFIX}.{kind if isinstance(kind, str) else kind.topic}"
        name = kind if isinstance(kind, str) else kind.version
        key_bytes = key and self._encoded(key, ("key", name), f"{named}.Key", None)
        value_bytes = value and self._encoded(value, name, named, kind)
        message = Message(topic, 0, self._offsets[topic], time // 1000, key_bytes or None, value_bytes or None)
        self._offsets[topic] += 1
        self.records += 1
        return Location(0, *self._file.put(self._container.record(message))), message

    def _encoded(self, value: Fields, name: Any, named: str, kind: str | _Table | None) -> bytes:
        """A key or value in the form of the converter; schemas are made once by ``name``."""
        if self.options.form == "json":
            return msgspec.json.encode(value)
        schema = self._schemas.get(name)
        if schema is None:
            schema = self._schemas[name] = self._schema(value, named, kind)
        if self._is_avro:
            return self._registry.frame(schema, "\n") + schema.encode(value)
        return b'{"schema":' + schema + b',"payload":' + msgspec.json.encode(value) + b"}"

    def _schema(self, value: Fields, named: str, kind: str | _Table | None) -> Any:
        """The schema of messages like this one."""
        if isinstance(kind, _Table):
            node = _envelope(named, kind.columns, value["source"])
        else:
            named = named if kind is None else f"io.debezium.connector.common.{kind}"
            node = _node(value, named, ("length", "scale", *(["event_count"] if self._is_avro else [])))
        if not self._is_avro:
            return msgspec.json.encode(_connect(node))
        return AvroSchema(_avro(node, set()), (", ", ": "))

    def _version(self, table: _Table, location: Location) -> Version:
        """The version of rows of this shape: with a schema what that says, else the names."""
        shape = (table.topic, tuple(tuple(one.values()) for one in table.shape))
        if shape not in self._versions:
            origin = {"json": "inferred", "avro": "registry"}.get(self.options.form, "record")
            owner = table.version.table
            made = Version(None, owner.schema, owner.name, table.shape, origin, first={0: location})
            self._versions[shape] = self.truth.version(made)
        return self._versions[shape]

    def finish(self) -> None:
        """Completes the file. A schema change goes with the next version of rows that has its columns; one without any
        is a version of its own."""
        self._file.close()
        waiting = [one for one in self._versions.values() if one.has_location]
        for version, columns, location in self._schema_changes.values():
            owner = version.table
            described = column_rows(
                {
                    "name": one["name"], "type": one["typeName"], "scale": one["scale"], "nullable": one["optional"],
                    "length" if one["scale"] is None else "precision": one["length"],
                    "key_position": 1 if one["name"] == owner.key else None,
                }
                for one in columns
            )  # fmt: skip
            match = next(
                (o for o in waiting if (o.schema_name, o.table_name) == (owner.schema, owner.name)
                 and [c["name"] for c in o.columns] == version.names), None,
            )  # fmt: skip
            if match is None:
                self.truth.version(Version(None, owner.schema, owner.name, described, "DDL", first={0: location}))
                continue
            waiting.remove(match)
            match.seen(location)
            if match.origin == "inferred":
                match.origin, match.columns = "DDL", described
                continue
            for one, column in zip(match.columns, described, strict=True):
                one |= {"length": column["length"], "key_position": column["key_position"]}
