"""A workload as Debezium's messages (``docs/formats/debezium.md``). All topics are in one file, in the order in which
they were written."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from random import Random
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.kafka import AvroSchema, Container, Message, Registry
from cdcwb_synth.model import Completeness, Operation
from cdcwb_synth.options import Options, option, same
from cdcwb_synth.truth import EncoderContext, Place, Transaction, Version, blank_columns
from cdcwb_synth.values import Column, Type, formatter, microseconds
from cdcwb_synth.workload import Change, Committed, Schema

__all__ = ["DebeziumEncoder", "DebeziumOptions"]

_PREFIX: Final = "shop"  # of topics
_OPS: Final = {
    Operation.INSERT: "c", Operation.UPDATE: "u", Operation.DELETE: "d", Operation.REFRESH: "r",
    Operation.TRUNCATE: "t",
}  # fmt: skip
_PLACEHOLDER: Final = "__debezium_unavailable_value"
_SCHEMAS: Final = 100_000  # ids in a registry that a part of a capture can use

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DebeziumOptions(Options):
    """What happens, and how the connector and its converters are set up."""

    schema_changes: int = same("schema_changes", default=6)
    refresh_rows: int = option(20, "rows of the snapshot that every table begins with", 0, 10_000_000)
    connector: str = option("postgresql", "connector", of=("postgresql", "mysql", "sqlserver", "oracle"))
    form: str = option(
        "json-schema", "converter: JSON with schema, JSON without, Avro", of=("json-schema", "json", "avro")
    )
    container: str = option("console", "what holds the messages", of=("console", "lines", "kcat", "parquet"))
    transactions: bool = option(True, "the transaction topic, and the field transaction of change events")
    unavailable_share: float = option(
        0.3, "postgresql: share of the updates that lack a long text that they do not change", 0, 1
    )
    heartbeats: int = option(20, "transactions between two heartbeats; 0: none", 0, 1_000_000)

    def contradictions(self) -> list[str]:
        """What is wrong with values that are each allowed, a sentence each."""
        problems = Options.contradictions(self)
        if self.form == "avro" and self.container in ("console", "lines"):
            problems.append(f"form avro is binary, and container {self.container} is text: choose kcat or parquet")
        return problems


# --- values as Kafka Connect has them (§7) ----------------------------------------------------------------------------

_CONTEXT: Final = Context(prec=100)
_WHOLE: Final = {Type.SMALLINT: "int16", Type.INTEGER: "int32", Type.BIGINT: "int64", Type.INT8: "int64"}
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_VARIABLE: Final = "io.debezium.data.VariableScaleDecimal"


class Cell(NamedTuple):
    """A value in JSON and in Avro, and as text with its schema and without."""

    json: Any
    avro: Any
    text: str
    plain: str


class Described(NamedTuple):
    """A column: its type of Kafka Connect (``kind``), the semantic type, the parameters, and its cells."""

    name: str
    kind: str
    semantic: str | None
    parameters: dict[str, str]
    optional: bool
    cell: Callable[[Any], Cell]

    @property
    def precision(self) -> int | None:
        """Digits of a decimal."""
        found = self.parameters.get("connect.decimal.precision")
        return None if found is None else int(found)

    @property
    def scale(self) -> int | None:
        """Decimal places of a decimal."""
        found = self.parameters.get("scale")
        return None if found is None else int(found)


def _described(column: Column) -> Described:
    """The column as a connector describes it."""
    write, semantic, parameters = formatter(column), None, {}

    def number(value: int, text: str | None = None) -> Cell:
        return Cell(value, value, str(value) if text is None else text, str(value))

    def raw(data: bytes, text: str) -> Cell:
        written = base64.b64encode(data).decode()
        return Cell(written, data, text, written)

    def string(value: Any) -> Cell:
        return Cell(*[write(value) or ""] * 4)

    cell: Callable[[Any], Cell] = string
    match column.type:
        case Type.SMALLINT | Type.INTEGER | Type.BIGINT | Type.INT8:
            kind, cell = _WHOLE[column.type], number
        case Type.BOOLEAN:
            kind, cell = "boolean", lambda value: Cell(value, value, *["true" if value else "false"] * 2)
        case Type.FLOAT | Type.SMALLFLOAT:
            single = column.type is Type.SMALLFLOAT
            kind, cell = ("float" if single else "double"), lambda value: _float(value, single)
        case Type.DATE:
            kind, semantic = "int32", "io.debezium.time.Date"
            cell = lambda value: number((value - date(1970, 1, 1)).days, write(value))  # noqa: E731
        case Type.DECIMAL if column.places is not None:
            kind, semantic, scale = "bytes", _DECIMAL, column.places
            parameters = {"scale": str(scale), "connect.decimal.precision": str(column.digits)}
            cell = lambda value: raw(_unscaled(Decimal(write(value) or "").scaleb(scale, _CONTEXT)), write(value) or "")  # noqa: E731
        case Type.DECIMAL:
            kind, semantic, cell = "struct", _VARIABLE, _floating
        case Type.DATETIME if column.fields[:3] == ("year", "month", "day") and len(column.fields) > 5:
            fine = column.fields[-1] == "fraction" and column.fraction > 3
            kind, semantic = "int64", "io.debezium.time.MicroTimestamp" if fine else "io.debezium.time.Timestamp"
            cell = lambda value: number(*_timestamp(value, column, fine))  # noqa: E731
        case Type.LOB:
            kind, cell = "bytes", lambda value: raw(value, value.hex())
        case _:
            kind = "string"
    return Described(column.name, kind, semantic, parameters, column.nullable, cell)


def _float(value: float, single: bool) -> Cell:
    """A float; one of single precision with its own digits, in the form that a double of them has."""
    text = repr(float(str(np.float32(value)))) if single else repr(value)
    return Cell(msgspec.Raw(text.encode()), value, text, text)


def _unscaled(value: Decimal) -> bytes:
    number = int(value)
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def _floating(value: Decimal) -> Cell:
    scale = -int(value.as_tuple().exponent)
    data = _unscaled(value.scaleb(scale, _CONTEXT))
    written = {"scale": scale, "value": base64.b64encode(data).decode()}
    return Cell(written, {"scale": scale, "value": data}, f"{value:f}", msgspec.json.encode(written).decode())


def _timestamp(value: datetime, column: Column, fine: bool) -> tuple[int, str]:
    """Micro- or milliseconds since 1970 of the fields that the column has, and their text."""
    fields = {name: getattr(value, name) for name in column.fields if name != "fraction"}
    if column.fields[-1] == "fraction":
        fields["microsecond"] = value.microsecond // 10 ** (6 - column.fraction) * 10 ** (6 - column.fraction)
    kept = datetime(tzinfo=UTC, **{"hour": 0, "minute": 0, "second": 0, **fields})
    text = kept.replace(tzinfo=None).isoformat(timespec="microseconds" if fine else "milliseconds")
    return microseconds(kept) // (1 if fine else 1000), text


# --- schemas ----------------------------------------------------------------------------------------------------------

_BLOCK: Final = {"id": "", "total_order": 1, "data_collection_order": 1}
_AVRO: Final = {"int16": "int", "int32": "int", "int64": "long"}


def _connect_field(kind: str, name: str, optional: bool = True) -> Fields:
    return {"type": kind, "optional": optional, "field": name}


def _connect_plain(fields: Mapping[str, Any], name: str) -> Fields:
    """The schema of an object of numbers and texts, as the JSON converter writes it."""
    made = [_connect_field("int64" if isinstance(one, int) else "string", key) for key, one in fields.items()]
    return {"type": "struct", "fields": made, "optional": False, "name": name}


def _connect_column(column: Described) -> Fields:
    schema: Fields = {"type": column.kind}
    if column.semantic == _VARIABLE:
        schema["fields"] = [_connect_field("int32", "scale", False), _connect_field("bytes", "value", False)]
    schema["optional"] = column.optional
    if column.semantic is not None:
        schema |= {"name": column.semantic, "version": 1}
    if column.parameters:
        schema["parameters"] = column.parameters
    return schema | {"field": column.name}


def _connect_envelope(name: str, columns: Iterable[Described], source: Mapping[str, Any]) -> Fields:
    """The schema of a change event, as the JSON converter writes it."""
    fields = [_connect_column(one) for one in columns]
    row = {"type": "struct", "fields": fields, "optional": True, "name": f"{name}.Value"}
    block = _connect_plain(_BLOCK, "event.block") | {"optional": True}
    return {
        "type": "struct",
        "fields": [
            row | {"field": "before"}, row | {"field": "after"},
            _connect_plain(source, "io.debezium.connector.Source") | {"field": "source"},
            _connect_field("string", "op", False), _connect_field("int64", "ts_ms"), block | {"field": "transaction"},
        ],
        "optional": False,
        "name": f"{name}.Envelope",
    }  # fmt: skip


def _avro_plain(fields: Mapping[str, Any], name: str) -> Fields:
    """The schema of an object of numbers and texts in Avro."""
    space, _, short = name.rpartition(".")
    made = [
        {"name": key, "type": ["null", "long" if isinstance(one, int) else "string"]} for key, one in fields.items()
    ]
    return {"type": "record", "name": short, "namespace": space, "fields": made, "connect.name": name}


def _avro_column(column: Described, known: set[str]) -> Any:
    """The type of a column in Avro; ``known`` are the named types that the schema has already."""
    kind: Any = _AVRO.get(column.kind, column.kind)
    if column.semantic == _VARIABLE:
        kind = _VARIABLE
        if _VARIABLE not in known:
            known.add(_VARIABLE)
            space, _, name = _VARIABLE.rpartition(".")
            fields = [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}]
            kind = {"type": "record", "name": name, "namespace": space, "fields": fields, "connect.name": _VARIABLE}
    elif column.semantic == _DECIMAL:
        numbers = {"scale": column.scale, "precision": column.precision, "logicalType": "decimal"}
        kind = {"type": "bytes", **numbers, "connect.parameters": column.parameters, "connect.name": _DECIMAL}
    elif column.semantic is not None:
        kind = {"type": kind, "connect.version": 1, "connect.name": column.semantic}
    elif column.kind == "int16":
        kind = {"type": "int", "connect.type": "int16"}
    return ["null", kind] if column.optional else kind


def _avro_envelope(name: str, columns: Iterable[Described], source: Mapping[str, Any]) -> Fields:
    """The schema of a change event in Avro."""
    known: set[str] = set()
    fields = [{"name": one.name, "type": _avro_column(one, known)} for one in columns]
    row = {"type": "record", "name": "Value", "fields": fields, "connect.name": f"{name}.Value"}
    types = {
        "before": ["null", row], "after": ["null", "Value"],
        "source": _avro_plain(source, "io.debezium.connector.Source"),
        "op": "string", "ts_ms": ["null", "long"], "transaction": ["null", _avro_plain(_BLOCK, "event.block")],
    }  # fmt: skip
    return {
        "type": "record", "name": "Envelope", "namespace": name,
        "fields": [{"name": key, "type": kind} for key, kind in types.items()], "connect.name": f"{name}.Envelope",
    }  # fmt: skip


def _avro_schema_change(value: Fields, named: str) -> Fields:
    """The schema of a schema change in Avro."""

    def record(fields: Mapping[str, Any], name: str) -> Fields:
        kinds = {bool: "boolean", int: "long", str: "string"}
        types = {key: kinds.get(type(one), "string") for key, one in fields.items()}
        types |= {key: "long" for key in ("length", "scale") if key in types}
        return {"type": "record", "name": name, "fields": [{"name": n, "type": ["null", k]} for n, k in types.items()]}

    column = record(value["tableChanges"][0]["table"]["columns"][0], "Column")
    table = {
        "type": "record", "name": "Table",
        "fields": [
            {"name": "primaryKeyColumnNames", "type": {"type": "array", "items": "string"}},
            {"name": "columns", "type": {"type": "array", "items": column}},
        ],
    }  # fmt: skip
    made = record({"type": "", "id": ""}, "Change")
    made["fields"].append({"name": "table", "type": table})
    simple = {name: one for name, one in value.items() if name not in ("source", "tableChanges")}
    schema = record(simple, "SchemaChange") | {"namespace": named.rpartition(".")[0]}
    source = _avro_plain(value["source"], "io.debezium.connector.Source")
    schema["fields"].insert(0, {"name": "source", "type": source})
    schema["fields"].append({"name": "tableChanges", "type": {"type": "array", "items": made}})
    return schema


# --- the log of the source (§3, §4) -----------------------------------------------------------------------------------


class _Entry(NamedTuple):
    """A place in the log: the fields of ``source`` that give it, and the position; ``lsn`` is PostgreSQL's."""

    fields: Fields
    position: str
    lsn: int = 0


class _Log:
    """Gives each change its place. ``transaction`` is the current one, as cdcwb names it."""

    def __init__(self, connector: str, capture: EncoderContext) -> None:
        self._connector = connector
        self._at = 24_000_000 + capture.part.numbers(200)
        self._ordinal = capture.part.first_change + capture.part.number  # each transaction has a change
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
        """The transaction as messages name it at this place: PostgreSQL adds the place."""
        return f"{self.transaction}:{self._at}" if self._connector == "postgresql" else self.transaction

    def entry(self) -> _Entry:
        """The place of the next change."""
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
        common = {
            "version": "2.7.0.Final", "connector": self._connector, "name": _PREFIX, "ts_ms": time // 1000,
            "snapshot": snapshot,
        }  # fmt: skip
        common |= {"db": schema} if self._connector == "mysql" else {"db": "store", "schema": schema}
        return common | {"ts_us": time, "ts_ns": time * 1000, "table": version.table.name} | entry.fields


# --- messages ---------------------------------------------------------------------------------------------------------


class _Table(NamedTuple):
    """A table version; ``topic`` is that of its changes without the prefix. ``shape``: what distinguishes versions of
    rows, columns as they show them."""

    version: TableVersion
    columns: list[Described]
    topic: str
    key: int
    shape: list[Fields]

    def row(self, values: Sequence[Any] | None) -> list[Cell | None] | None:
        """The cells of a row."""
        if values is None:
            return None
        return [None if value is None else one.cell(value) for one, value in zip(self.columns, values, strict=True)]

    def image(self, row: list[Cell | None] | None, which: int, lacking: set[str]) -> Fields | None:
        """A row as JSON (0), Avro (1) or text (2 with its schema, 3 without); what it lacks has a placeholder in
        messages and is missing in texts."""
        if row is None:
            return None
        made = {c.name: None if cell is None else cell[which] for c, cell in zip(self.columns, row, strict=True)}
        if which < 2:
            return made | dict.fromkeys(lacking, _PLACEHOLDER)
        return {name: text for name, text in made.items() if name not in lacking}


class DebeziumEncoder:
    """Writes a workload's history: ``capture/``, and ``registry/`` where messages are in Avro. ``records``: messages
    that were written so far."""

    def __init__(self, capture: EncoderContext) -> None:
        options: DebeziumOptions = capture.options
        self._capture, self._options, self._truth, self._part = capture, options, capture.truth, capture.part
        self._log = _Log(options.connector, capture)
        self._rng = Random(f"{capture.seed} debezium")
        self._tables: dict[tuple[int, int], _Table] = {}
        self._registry = Registry(capture.folder / "registry", self._part.number * _SCHEMAS + 1)
        self._schemas: dict[Any, Any] = {}
        self._versions: dict[Any, Version] = {}
        self._schema_changes: dict[Any, tuple[TableVersion, list[Fields], Place]] = {}
        self._offsets: dict[str, int] = {}
        self._done = self.records = 0
        console = ("timestamp", "key")
        self._container = Container(options.container, options.compression, console, is_avro=options.form == "avro")
        self._truth.unit = self._container.unit
        name = f"messages{self._part.suffix}.{self._container.ending}"
        self._truth.file(name)
        self._file = self._container.open(capture.folder / "capture" / name)

    def write(self, item: Schema | Change | Committed, done: int) -> None:
        """Writes what comes next in a history."""
        match item:
            case Schema(version):
                if (version.table.label, version.number) not in self._tables:
                    self._schema(version, microseconds(item.at))
            case Change():
                time = microseconds(item.at)
                self._change(item, self._log.entry(), time, time, None, None)
            case Committed():
                if item.changes:
                    self._committed(item)

    def _schema(self, version: TableVersion, time: int) -> None:
        columns = [_described(column) for column in version.columns]
        key = next(at for at, column in enumerate(version.columns) if column.name == version.table.key)
        shape = blank_columns(one.name for one in columns)
        for one, column in zip(shape, columns, strict=True):
            one["key_position"] = 1 if self._container.has_keys and one["ordinal"] == key + 1 else None
            if self._options.form != "json":
                one |= {"type": column.semantic or column.kind, "nullable": column.optional}
                one |= {"precision": column.precision, "scale": column.scale}
        table = _Table(version, columns, f"{version.table.schema}.{version.table.name}", key, shape)
        self._tables[version.table.label, version.number] = table
        if self._part.is_continued and version.number == 1:
            self._version(table, Place(0, -1, 0)).has_place = False
        elif self._options.connector != "postgresql":
            content, described = self._description(table, time)
            place, _ = self._send(_PREFIX, {"databaseName": "store"}, content, time + 5000, "SchemaChange")
            told = (table.topic, tuple((o["name"], o["typeName"], o["length"], o["scale"]) for o in described))
            self._schema_changes.setdefault(told, (version, described, place))

    def _description(self, table: _Table, time: int) -> tuple[Fields, list[Fields]]:
        """The content of a schema change, and the columns in it."""
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
        identifier = f'"{version.table.schema}"."{version.table.name}"'
        described = {"primaryKeyColumnNames": [version.table.key], "columns": columns}
        return {
            "source": self._log.source(version, time, self._log.entry()), "ts_ms": time // 1000 + 3,
            "databaseName": "store", "schemaName": version.table.schema,
            "ddl": f"{verb} TABLE {table.topic} ({', '.join(one.name for one in table.columns)})",
            "tableChanges": [{"type": verb, "id": identifier, "table": described}],
        }, columns  # fmt: skip

    def _committed(self, item: Committed) -> None:
        """A transaction's changes, one after another, with its boundaries where they are wanted."""
        is_bounded, count = self._options.transactions, len(item.changes)
        committed = microseconds(item.at) // 1000 * 1000
        began = min(microseconds(change.at) for change in item.changes) // 1000 * 1000
        position = self._log.begin()
        name = self._log.transaction
        transaction = self._truth.transaction(Transaction(name))
        if is_bounded:
            self._boundary("BEGIN", transaction, position, began, committed)
        tables: dict[str, int] = {}
        entries = [self._log.entry() for _ in item.changes]
        position = self._log.boundary(48)
        if is_bounded:
            transaction.commit_position = position
            transaction.committed_at = transaction.ended_at = committed
            transaction.completeness = Completeness.COMPLETE
        for number, (change, entry) in enumerate(zip(item.changes, entries, strict=True), 1):
            topic = self._tables[change.version.table.label, change.version.number].topic
            tables[topic] = tables.get(topic, 0) + 1
            block = None
            if is_bounded:
                identifier = f"{name}:{entry.lsn}" if entry.lsn else name
                block = {"id": identifier, "total_order": number, "data_collection_order": tables[topic]}
            self._change(change, entry, microseconds(change.at), committed, block, transaction)
        if is_bounded:
            collections = [{"data_collection": topic, "event_count": many} for topic, many in tables.items()]
            self._boundary("END", transaction, position, committed, committed, count, collections)
            transaction.end_position = position
        self._done += 1
        if self._options.heartbeats and self._done % self._options.heartbeats == 0:
            beat, topic = {"ts_ms": committed // 1000 + 40}, f"__debezium-heartbeat.{_PREFIX}"
            self._send(topic, {"serverName": _PREFIX}, beat, committed + 40_000, "Heartbeat")

    def _boundary(
        self, status: str, transaction: Transaction, position: str | None, time: int, sent: int,
        count: int | None = None, collections: Any = None,
    ) -> None:  # fmt: skip
        identifier = self._log.identifier
        content = {
            "status": status, "id": identifier, "ts_ms": time // 1000, "event_count": count,
            "data_collections": collections if self._options.form != "avro" else None,
        }  # fmt: skip
        place, _ = self._send(f"{_PREFIX}.transaction", {"id": identifier}, content, sent, "Transaction")
        transaction.covers(position, time)
        transaction.bytes += place.length

    def _change(
        self, change: Change, entry: _Entry, time: int, committed: int, block: Fields | None,
        transaction: Transaction | None,
    ) -> None:  # fmt: skip
        """A change event, and the tombstone that follows a delete."""
        table = self._tables[change.version.table.label, change.version.number]
        before, after = table.row(change.before), table.row(change.after)
        lacking = self._lacking(change)
        is_load = change.operation is Operation.REFRESH
        sent = committed // 1000 + 37
        fields = {
            "source": self._log.source(change.version, time, entry, "true" if is_load else "false"),
            "op": _OPS[change.operation], "ts_ms": sent, "transaction": block,
        }  # fmt: skip
        which = 1 if self._options.form == "avro" else 0
        images = {"before": table.image(before, which, set()), "after": table.image(after, which, lacking)}
        held = (after or before or {table.key: None})[table.key]
        key = None if held is None else {change.version.table.key: held[which]}
        topic = f"{_PREFIX}.{table.topic}"
        place, message = self._send(topic, key, {**images, **fields}, sent * 1000, table)
        text = 3 if self._options.form == "json" else 2
        headers: dict[str, str | None] = {}
        for name, value in fields.items():
            inner = {f"{name}.{i}": one for i, one in value.items()} if isinstance(value, dict) else {name: value}
            headers |= {name: None if one is None else str(one) for name, one in inner.items()}
        if which and message.value is not None:
            headers["schemaId"] = str(int.from_bytes(message.value[1:5], "big"))
        position = None if is_load else entry.position
        if transaction is not None:
            transaction.covers(position, time)
        new = table.image(after, text, lacking)
        self._truth.change(
            {
                "record_type": fields["op"], "operation": change.operation, "position": position,
                "event_no": block and block["total_order"], "changed_at": time,
                "schema_name": change.version.table.schema, "table_name": change.version.table.name,
                "present_columns": list(new or ()) if lacking else None,
                "key": {change.version.table.key: held[text]} if held and self._container.has_keys else None,
                "before": table.image(before, text, set()), "after": new,
                "headers": headers | self._container.facts(message),
            },
            [place],
            self._version(table, place) if self._options.form != "json" or before or after else None,
            transaction,
        )  # fmt: skip
        if change.operation is Operation.DELETE:
            self._send(topic, key, None, sent * 1000, table)

    def _lacking(self, change: Change) -> set[str]:
        """The columns whose value the log does not have: large texts that an update does not change."""
        if self._options.connector != "postgresql" or change.before is None or change.after is None:
            return set()
        rows = zip(change.version.columns, change.before, change.after, strict=True)
        same = {one.name for one, old, new in rows if one.type is Type.LVARCHAR and old == new and new is not None}
        return same if same and self._rng.random() < self._options.unavailable_share else set()

    def _send(
        self, topic: str, key: Fields | None, value: Fields | None, time: int, kind: str | _Table
    ) -> tuple[Place, Message]:
        """Sends a message at a ``time`` (microseconds since 1970)."""
        named = f"{_PREFIX}.{kind if isinstance(kind, str) else kind.topic}.Key"
        name = kind if isinstance(kind, str) else (kind.version.table.label, kind.version.number)
        key_bytes = None if key is None else self._encoded(key, ("key", name), named, None)
        made = None if value is None else self._encoded(value, name, named.removesuffix(".Key"), kind)
        offset = self._offsets[topic] = self._offsets.get(topic, -1) + 1
        message = Message(topic, self._part.number, offset, time // 1000, key_bytes, made)
        self.records += 1
        return Place(0, *self._container.put(self._file, message)), message

    def _encoded(self, value: Fields, name: Any, named: str, kind: str | _Table | None) -> bytes:
        """A key or value in the form of the converter; schemas are made once by ``name``."""
        if self._options.form == "json":
            return msgspec.json.encode(value)
        is_avro = self._options.form == "avro"
        if name not in self._schemas:
            if isinstance(kind, _Table):
                schema = (_avro_envelope if is_avro else _connect_envelope)(named, kind.columns, value["source"])
            else:
                named = named if kind is None else f"io.debezium.connector.common.{kind}"
                if kind == "SchemaChange" and is_avro:
                    schema = _avro_schema_change(value, named)
                else:
                    counted = {"event_count": 1} if kind == "Transaction" and is_avro else {}
                    schema = (_avro_plain if is_avro else _connect_plain)(value | counted, named)
            self._schemas[name] = AvroSchema(schema, (", ", ": ")) if is_avro else msgspec.json.encode(schema)
        known = self._schemas[name]
        if is_avro:
            return self._registry.frame(known, "\n") + known.encode(value)
        return b'{"schema":' + bytes(known) + b',"payload":' + msgspec.json.encode(value) + b"}"

    def _version(self, table: _Table, place: Place) -> Version:
        """The version of rows of this shape: with a schema what that says, else the names."""
        shape = (table.topic, tuple(tuple(one.values()) for one in table.shape))
        if shape not in self._versions:
            origin = {"json": "inferred", "avro": "registry"}.get(self._options.form, "record")
            owner = table.version.table
            made = Version(None, owner.schema, owner.name, table.shape, origin, first={0: place})
            self._versions[shape] = self._truth.version(made)
        return self._versions[shape]

    def finish(self) -> None:
        """Completes the file. A schema change goes with the next version of rows that has its columns; one without any
        is a version of its own."""
        self._file.close()
        waiting = [one for one in self._versions.values() if one.has_place]
        for version, columns, place in self._schema_changes.values():
            owner, names = version.table, [one["name"] for one in columns]
            described = blank_columns(names)
            for one, column in zip(described, columns, strict=True):
                is_number = column["scale"] is not None
                one |= {"type": column["typeName"], "scale": column["scale"], "nullable": column["optional"]}
                one |= {("precision" if is_number else "length"): column["length"]}
                one["key_position"] = 1 if column["name"] == owner.key else None
            found = next(
                (o for o in waiting if (o.schema_name, o.table_name) == (owner.schema, owner.name)
                 and [c["name"] for c in o.columns] == names), None,
            )  # fmt: skip
            if found is None:
                self._truth.version(Version(None, owner.schema, owner.name, described, "DDL", first={0: place}))
                continue
            waiting.remove(found)
            found.seen(place)
            if found.origin == "inferred":
                found.origin, found.columns = "DDL", described
                continue
            for one, told in zip(found.columns, described, strict=True):
                one |= {"length": told["length"], "key_position": told["key_position"]}
