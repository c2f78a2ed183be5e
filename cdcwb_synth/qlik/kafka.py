"""A workload as messages of Replicate on Kafka (``docs/formats/qlik-kafka.md``)."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec

from cdcwb_synth import kafka
from cdcwb_synth.encoder import Encoder, EncoderContext, delivered
from cdcwb_synth.kafka import AvroSchema, Container, Message, Registry, avro_record, iso_milliseconds
from cdcwb_synth.model import Completeness, Operation
from cdcwb_synth.options import Rules, option, same
from cdcwb_synth.qlik import columns as qlik
from cdcwb_synth.qlik.columns import ChangeSequence, Image, Layout, QlikOptions
from cdcwb_synth.truth import Location, Transaction, Version, column_rows
from cdcwb_synth.values import microseconds
from cdcwb_synth.workload import Change, Committed, Schema

_PARTS: Final = ("timestamp", "partition", "offset", "key")  # what precedes values in the console consumer's lines
_MESSAGE: Final = "com.attunity.queue.msg"
_SPACE: Final = f"{_MESSAGE}.{qlik.TASK}"
_TOPIC: Final = "2025-cdc"  # of all tables, where it does not name them
_LATE: Final = 4  # data messages that come before their metadata, where it is late
_FIRST_ID: Final = 41  # in a registry
_NEVER, _ONCE, _TWICE = 0, 1, 2

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOptions(QlikOptions):
    """How messages look, how they travel, and what holds them."""

    columns: int = same("columns", high=4000)
    form: str = option("json-envelope", "wire form", of=("json-envelope", "json", "avro-envelope", "confluent"))
    metadata: str = option(
        "auto", "metadata messages: mixed with the data, after some of them, in their own folder; auto: mixed or none",
        of=("auto", "mixed", "late", "separate", "none"),
    )  # fmt: skip
    generation: str = option("2019", "which headers there are", of=("2018", "2019", "external"))
    logical: bool = option(True, "Avro: logical types for decimals, dates and times; else texts")
    mask_order: str = option("big", "Avro: byte order of masks", of=("big", "little"))
    delete_row: str = option("data", "where a deleted row is", of=("data", "beforeData"))
    column_mask: float = option(0.0, "share of the updates and deletes with columns that were not captured", 0, 1)
    naming: str = option("topic", "where the table's name is", of=("topic", "message", "headers", "none"))
    partitions: int = option(3, "partitions of every topic", 1, 1000)
    layout: str = option("partitions", "a file for every partition, or one stream", of=("partitions", "stream"))
    shuffle: int = option(400, "stream: most messages that partitions can be behind each other", 0, 1_000_000)
    container: str = option("lines", "of messages", of=("lines", "console", "documents", *kafka.BINARY_CONTAINERS))
    encoding: str = option("raw", "values in lines, console and kcat", of=("raw", "base64"))
    tombstone_share: float = option(0.0, "share of the deletes that a tombstone follows", 0, 1)
    lost_share: float = option(0.0, "share of the changes whose message is lost", 0, 1)
    duplicate_share: float = option(0.0, "share of the changes whose message comes twice", 0, 1)

    @property
    def metadata_mode(self) -> str:
        """``metadata``, with ``auto`` resolved."""
        if self.metadata != "auto":
            return self.metadata
        return "mixed" if self.is_enveloped else "none"

    @property
    def is_avro(self) -> bool:
        """Are messages binary?"""
        return self.form in ("avro-envelope", "confluent")

    @property
    def is_enveloped(self) -> bool:
        """Are messages in the envelope?"""
        return self.form.endswith("envelope")

    def rules(self) -> Rules:
        """What values that are each allowed must not be together."""
        is_own = self.container == "avro" and self.form == "avro-envelope"
        files = (self.tables + self.all_types if self.naming == "topic" else 1) * self.partitions
        binary = ", ".join(kafka.BINARY_CONTAINERS)
        return [
            *QlikOptions.rules(self),
            (self.form == "avro-envelope" and self.metadata_mode == "none",
             "form avro-envelope cannot be read without metadata; metadata is mixed, late or separate"),
            (not self.is_enveloped and self.metadata_mode != "none",
             f"form {self.form} has no metadata messages, so metadata is none"),
            (self.is_avro and self.container not in kafka.BINARY_CONTAINERS and self.encoding == "raw",
             f"form {self.form} is binary: container is one of {binary}, or encoding is base64"),
            (self.encoding != "raw" and self.container not in ("lines", "console", "kcat"),
             f"container {self.container} holds values as they are, so encoding is raw"),
            (self.tombstone_share and (self.container == "documents" or is_own),
             f"container {self.container} cannot hold tombstones in this form"),
            (self.layout == "partitions" and files > 500,
             f"{files} partitions would be as many open files; at most 500, or layout=stream"),
        ]  # fmt: skip


# --- schemas (§2.3, §3.4, §4.1) ---------------------------------------------------------------------------------------

_ENVELOPE: Final = avro_record(
    "MessageEnvelope",
    {
        "magic": {"type": "fixed", "name": "Magic", "size": 5}, "type": "string",
        "headers": ["null", {"type": "map", "values": "string"}], "messageSchemaId": ["null", "string"],
        "messageSchema": ["null", "string"], "message": "bytes",
    },
)  # fmt: skip


def _long_form(kind: Any) -> Any:
    """A type in the spelling of 2018: ``{"type": "string"}`` for ``"string"``."""
    if isinstance(kind, list):
        return [_long_form(branch) for branch in kind]
    return {"type": kind} if isinstance(kind, str) and kind[0].islower() else kind


def _data_schema(layout: Layout, options: KafkaOptions) -> Fields:
    """The schema of a table's data messages; one of 2018 is in the long spelling of its time."""
    is_old, naming = options.generation == "2018", options.naming

    def fields(**kinds: Any) -> list[Fields]:
        if is_old:
            return [{"name": name, "type": _long_form(kind)} for name, kind in kinds.items()]
        default = {"default": None}
        return [{"name": n, "type": k, **(default if isinstance(k, list) else {})} for n, k in kinds.items()]

    names = fields(schema="string", table="string")
    symbols = ["INSERT", "UPDATE", "DELETE", "REFRESH"]
    more: Fields = {"externalSchemaId": ["null", "string"]} if options.generation == "external" else {}
    if not is_old:
        more |= {"transactionEventCounter": ["null", "long"], "transactionLastEvent": ["null", "boolean"]}
    headers = [
        *(names if naming == "headers" else []),
        {"name": "operation", "type": {"type": "enum", "name": "operation", "symbols": symbols}},
        *fields(changeSequence="string", timestamp="string", streamPosition="string", transactionId="string"),
        *fields(changeMask=["null", "bytes"], columnMask=["null", "bytes"], **more),
    ]
    space = {} if is_old else {"namespace": _MESSAGE}
    columns = fields(**{c.name: ["null", c.avro(options.logical)] for c in layout.columns})
    schema: Fields = {
        "type": "record", "name": "DataRecord",
        "fields": [
            {"name": "data", "type": {"type": "record", "name": "Data", "fields": columns}},
            *fields(beforeData=["null", "Data"]),
            *(names if naming == "message" else []),
            {"name": "headers", "type": {"type": "record", "name": "Headers", "fields": headers, **space}},
        ],
    }  # fmt: skip
    return schema if options.is_enveloped else schema | {"namespace": f"{_SPACE}.{layout.table.full_name}"}


def _key_schema(layout: Layout, logical: bool) -> Fields:
    """The schema of a table's record keys in a registry."""
    column = layout.columns[layout.key_at]
    space = f"{_SPACE}.{layout.table.full_name}"
    schema = avro_record("KeyRecord", {column.name: ["null", column.avro(logical)]}, space)
    schema["fields"][0]["default"] = None
    return schema


def _metadata_schema(layout: Layout) -> Fields:
    """The schema of a table's metadata messages; every column is a record that is named like it."""

    def record(name: str, **fields: Any) -> Fields:
        return avro_record(name, {field: _long_form(kind) for field, kind in fields.items()})

    numbers = {"length": "int", "precision": "int", "scale": "int", "primaryKeyPosition": "int"}
    columns = {name: record(name, ordinal="int", type="string", **numbers, nullable="boolean") for name in layout.names}
    names = {"server": "string", "task": "string", "schema": "string", "table": "string"}
    return record(
        "MetadataMessage",
        schemaId="string",
        lineage=record("Lineage", **names, tableVersion="long", timestamp="string"),
        tableStructure=record("TableStructure", tableColumns=record("TableColumns", **columns)),
        dataSchema="string",
    )


# --- messages ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Table:
    """One version of a table. ``outer`` are the fields around its messages that are headers; ``schema`` and ``frame``
    those of Avro, ``key`` the frame and schema of its keys, ``metadata`` its metadata message
    (None: none is sent), ``sent`` how many data messages there are so far."""

    layout: Layout
    version: Version
    topic: str
    outer: dict[str, str | None]
    external: str | None
    schema: AvroSchema
    frame: bytes = b""
    key: tuple[bytes, AvroSchema] | None = None
    metadata: bytes | None = None
    sent: int = 0


class _Note(NamedTuple):
    """What the truth has of a data message."""

    row: Fields
    table: _Table
    transaction: Transaction | None


class KafkaEncoder(Encoder[_Table]):
    """Writes a workload's history: ``capture/``, and beside it ``metadata/`` and ``registry/`` where the options ask
    for them. ``records``: messages that were written so far."""

    def __init__(self, capture: EncoderContext) -> None:
        super().__init__(capture)
        options: KafkaOptions = self.options
        schema: Any = ["null", "bytes"] if options.tombstone_share else "bytes"
        self._container = Container(
            options.container, options.compression, _PARTS, encoding=options.encoding,
            schema=_ENVELOPE if options.form == "avro-envelope" else schema,
        )  # fmt: skip
        self.truth.unit = "row" if self._container.is_rows else "byte"
        self._envelope = AvroSchema(_ENVELOPE)
        self._registry = Registry(capture.folder / "registry", _FIRST_ID)
        self._topics = _Topics(self._container, capture, "capture", self._written)
        self._side = _Topics(self._container, capture, "metadata", None)
        self._masks = Random(f"{capture.seed} changes")
        self._sequence = ChangeSequence(options, capture.changes)
        self._position = 0
        self._late: list[_Table] = []
        self._again: list[tuple[bytes, bytes, _Note, int]] = []  # messages that are sent a second time
        self._is_old = options.generation == "2018"

    def finish(self) -> None:
        """Writes what is still held back, and completes the files."""
        self._send_again()
        for table in self._late:
            self._send_metadata(table, self._sequence.time)
        self._topics.close()
        self._side.close()

    # --- table versions -----------------------------------------------------------------------------------------------

    def table(self, item: Schema, done: int) -> _Table:
        """A table version; its metadata are sent."""
        table = self._make(item)
        if self.options.metadata_mode == "late":
            self._late.append(table)
        elif table.metadata is not None:
            self._send_metadata(table, item.at)
        return table

    def _make(self, item: Schema) -> _Table:
        options, version = self.options, item.version
        form = ("avro" if options.logical else "avro text") if options.is_avro else "json"
        layout = Layout(version, form, lobs=options.lobs)
        owner = layout.table
        name = f"{self.capture.seed} {owner.full_name} {version.number}"
        identifier = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest().upper()
        external = f"{crc32(identifier.encode()):08x}" if options.generation == "external" else None
        schema = AvroSchema(_data_schema(layout, options))
        topic = owner.full_name if options.naming == "topic" else _TOPIC
        if options.form == "confluent":
            frame, key = self._registry.frame(schema), AvroSchema(_key_schema(layout, options.logical))
            number = str(int.from_bytes(frame[1:], "big"))
            made, key_of = self._registered(layout, number, schema), (self._registry.frame(key), key)
            return _Table(layout, made, topic, {"schemaId": number}, external, schema, frame, key_of)
        has_metadata = options.metadata_mode != "none"
        outer = {"magic": "atMSG", "type": "DT", "messageSchemaId": identifier if has_metadata else None}
        if not has_metadata:
            made = self._inferred(layout, external)
            return _Table(layout, made, topic, outer if options.is_enveloped else {}, external, schema)
        lineage = {
            "server": qlik.SERVER, "task": qlik.TASK, "schema": owner.schema, "table": owner.name,
            "tableVersion": version.number, "timestamp": iso_milliseconds(microseconds(item.at)),
        }  # fmt: skip
        is_separate = options.metadata_mode == "separate"
        described = Version(
            identifier, owner.schema, owner.name, layout.rows(), "side file" if is_separate else "record",
            schema.text, {name: str(value) for name, value in lineage.items()}, has_location=not is_separate,
        )  # fmt: skip
        columns = {c.name: {"ordinal": i, **c.properties} for i, c in enumerate(layout.columns, 1)}
        message = {
            "schemaId": identifier, "lineage": lineage, "tableStructure": {"tableColumns": columns},
            "dataSchema": schema.text,
        }  # fmt: skip
        own = AvroSchema(_metadata_schema(layout))
        metadata = self._enveloped(outer | {"type": "MD"}, own, message, own.text)
        return _Table(layout, self.truth.version(described), topic, outer, external, schema, metadata=metadata)

    def _enveloped(
        self, outer: Fields, schema: AvroSchema, message: Fields, message_schema: str | None = None
    ) -> bytes:
        """A message in the envelope."""
        envelope = {
            "magic": outer["magic"], "type": outer["type"], "headers": None,
            "messageSchemaId": outer["messageSchemaId"], "messageSchema": message_schema,
        }  # fmt: skip
        if not self.options.is_avro:
            return msgspec.json.encode(envelope | {"message": message})
        return self._envelope.encode(envelope | {"magic": b"atMSG", "message": schema.encode(message)})

    def _registered(self, layout: Layout, number: str, schema: AvroSchema) -> Version:
        """The version that a registry has under a number."""
        rows = []
        for field in json.loads(schema.text)["fields"][0]["type"]["fields"]:
            kind = field["type"][1]
            kind = kind if isinstance(kind, dict) else {"type": kind}
            numbers = {"precision": kind.get("precision"), "scale": kind.get("scale")}
            kind = kind.get("logicalType") or kind["type"]
            rows.append({"name": field["name"], "type": kind, "nullable": True, **numbers})
        made = Version(
            number, layout.table.schema, layout.table.name, column_rows(rows), "registry", schema.text,
            {"table named by": "namespace"}, has_location=False, is_listed=False,
        )  # fmt: skip
        return self.truth.version(made, schema.text)

    def _inferred(self, layout: Layout, external: str | None) -> Version:
        """A version of which nothing but its messages is known; what names its table depends on the options."""
        naming, container = self.options.naming, self.options.container
        schema: str | None = layout.table.schema
        table: str | None = layout.table.name
        if naming == "none" or (naming == "topic" and container not in ("kcat", "parquet")):
            schema = table = None
        name = None if external is None else f"external {external}"
        lineage = {} if table is None else {"table named by": "topic" if naming == "topic" else "message"}
        made = Version(name, schema, table, column_rows(layout.names), "inferred", None, lineage, is_listed=False)
        return self.truth.version(made, (schema, table, external, layout.names))

    # --- messages -----------------------------------------------------------------------------------------------------

    def _send_metadata(self, table: _Table, at: datetime) -> None:
        if self.options.metadata_mode == "separate":
            self._side.send("cdc-metadata", None, table.metadata, microseconds(at) // 1000)
        else:
            self._topics.send(table.topic, None, table.metadata, microseconds(at) // 1000, table.version)

    def _send(self, key: bytes, value: bytes, note: _Note, time: int) -> None:
        """Sends a data message at a ``time`` (milliseconds since 1970)."""
        table = note.table
        self._topics.send(table.topic, key, value, time, note)
        table.sent += 1
        if table.sent >= _LATE and table in self._late:
            self._late.remove(table)
            self._send_metadata(table, self._sequence.time)

    def _send_again(self, again: Sequence[tuple[bytes, bytes, _Note, int]] = ()) -> None:
        """Sends again what comes twice: ``again``, or all of it."""
        if not again:
            again, self._again = self._again, []
        for message in again:
            self._send(*message)

    def _written(self, message: Message, note: Any, location: Location) -> None:
        """Completes the truth of a message, when it is written to a file."""
        self.records += 1
        if isinstance(note, _Note):
            headers = note.row["headers"] | self._container.facts(message)
            self.truth.change(note.row | {"headers": headers}, [location], note.table.version, note.transaction)
        elif note is not None:
            note.seen(location)

    def load(self, item: Change) -> None:
        """A row of the full load: no position, no transaction, no masks."""
        self._send(*self._message(item), microseconds(item.at) // 1000)

    def commit(self, item: Committed, done: int) -> None:
        """A transaction's changes, one after another, under the time of its commit; a TRUNCATE has no message."""
        options, name = self.options, qlik.transaction_id(item.ordinal)
        committed = microseconds(self._sequence.stamp(self._sequence.clock(item.at, done)))
        again, self._again = self._again, []
        changes = [one for one in item.changes if one.operation is not Operation.TRUNCATE]
        sequences = [self._sequence.take() for _ in changes]
        times = [microseconds(change.at) for change in changes]
        fates = [self._fate() for _ in changes]
        sent, truth = microseconds(item.at) // 1000, None
        arrived = [at for at, fate in enumerate(fates) if fate]
        if arrived:
            begins, ends = bool(fates[0]), bool(fates[-1])
            truth = self.truth.transaction(Transaction(name, ended_at=committed, committed_at=committed))
            for at in arrived:
                truth.covers(sequences[at], times[at] // 1000 * 1000)
            if not self._is_old:
                truth.end_position = truth.commit_position = sequences[-1] if ends else None
                lacks: Completeness = "no_begin" if not begins else "no_end" if not ends else "gaps"
                truth.completeness = "complete" if all(fates) else lacks
        for change, number in delivered((one, at) for at, one in enumerate(changes, 1)):
            table, fate = self.tables[change.version], fates[number - 1]
            last = number == len(changes)
            key, value, note = self._message(change, sequences[number - 1], name, number, last, truth)
            if fate == _NEVER:
                self._topics.send(table.topic, key, None, sent, arrives=False)
                continue
            if fate == _TWICE:
                self._again.append((key, value, note, sent))
            self._send(key, value, note, sent)
            share = options.tombstone_share
            if share and change.operation is Operation.DELETE and self.rng.random() < share:
                self._topics.send(table.topic, key, None, sent)
        self._send_again(again)

    def _fate(self) -> int:
        """How often a message arrives."""
        options = self.options
        if not (options.lost_share or options.duplicate_share):
            return _ONCE
        if self.rng.random() < options.lost_share:
            return _NEVER
        return _TWICE if self.rng.random() < options.duplicate_share else _ONCE

    def _message(
        self, change: Change, sequence: str = "", name: str = "", number: int | None = None,
        is_last: bool | None = None, transaction: Transaction | None = None,
    ) -> tuple[bytes, bytes, _Note]:  # fmt: skip
        """The key and the message of a change, and what the truth has of it. A row of the full load has no sequence."""
        options, table, at = self.options, self.tables[change.version], microseconds(change.at)
        layout, is_load, key_name = table.layout, not sequence, table.layout.key_name
        before, after = layout.image(change.before), layout.image(change.after)
        image = after or before or ((), {})
        differ, mask, present = 0, layout.inserted, layout.everything
        if before is not None:
            differ = 0 if after is None else layout.differing(before[0], after[0])
            mask = layout.key if after is None else differ & layout.inserted
            if options.column_mask and self._masks.random() < options.column_mask:
                present &= ~self._missing(layout.everything & ~differ & ~layout.key)
        names = layout.marked(present)

        def fields(one: Image | None) -> Fields | None:
            """A row in messages, which have null for what is not present."""
            values = None if one is None else dict(zip(layout.names, one[0], strict=True))
            return values and dict.fromkeys(layout.names) | {name: values[name] for name in names}

        heads: Fields = {
            "operation": str(change.operation), "changeSequence": sequence,
            "timestamp": "" if is_load and self._is_old else iso_milliseconds(at),
            "streamPosition": "" if is_load else qlik.log_position(self._position), "transactionId": name,
            "changeMask": None if is_load else mask, "columnMask": None if is_load else present,
        }  # fmt: skip
        self._position += not is_load
        if options.generation == "external" or (self._is_old and not options.is_avro):
            heads["externalSchemaId"] = table.external
        if not self._is_old:
            heads |= {"transactionEventCounter": number, "transactionLastEvent": is_last}
        texts = {n: v if v is None or isinstance(v, str) else str(v).lower() for n, v in heads.items()}
        for name in () if is_load else ("changeMask", "columnMask"):
            order = options.mask_order if options.is_avro else "big"
            packed = heads[name].to_bytes(len(layout.columns) // 8 + 1, order)
            texts[name] = packed.hex().upper()
            heads[name] = packed if options.is_avro else texts[name]
        data, old = fields(image), fields(before) if after else None
        if change.operation is Operation.DELETE and options.delete_row == "beforeData":
            data, old = dict.fromkeys(layout.names) if options.is_avro else None, data  # Avro has no null there
        owner = {"schema": layout.table.schema, "table": layout.table.name}
        of_message, of_headers = (owner if options.naming == where else {} for where in ("message", "headers"))
        message = {**of_message, "data": data, "beforeData": old, "headers": {**of_headers, **heads}}
        if options.is_enveloped:
            value = self._enveloped(table.outer, table.schema, message)
        else:
            value = table.frame + table.schema.encode(message) if options.is_avro else msgspec.json.encode(message)
        row: Fields = {
            "record_type": "DT" if options.is_enveloped else "DataRecord", "operation": change.operation,
            "position": sequence or None, "changed_at": None if is_load and self._is_old else at // 1000 * 1000,
            "key": {key_name: image[1][key_name]} if table.metadata is not None else None,
            "after": after and {name: after[1][name] for name in names},
            "headers": {**table.outer, **of_message, **of_headers, **texts},
        }  # fmt: skip
        if not is_load:
            row |= {
                "change_mask": texts["changeMask"], "column_mask": texts["columnMask"], "present_columns": names,
                "changed_columns": layout.marked(mask), "change_source": "mask",
                "before": before and {name: before[1][name] for name in names},
                "event_no": None if self._is_old else number, "last_in_transaction": None if self._is_old else is_last,
            }  # fmt: skip
        key = (image[1][key_name] or "").encode()  # in a registry the primary key in Avro, else its text
        if table.key is not None:
            key = table.key[0] + table.key[1].encode({key_name: image[0][layout.key_at]})
        return key, value, _Note(row, table, transaction)

    def _missing(self, candidates: int) -> int:
        """Some of the columns that need not be logged: at least one, if there is one."""
        bits = [1 << at for at in range(candidates.bit_length()) if candidates >> at & 1]
        chosen = sum(bit for bit in bits if self._masks.random() < 0.4)
        return chosen or (self._masks.choice(bits) if bits else 0)


# --- topics -----------------------------------------------------------------------------------------------------------


class _Topics:
    """Topics whose partitions are written to files in the ``folder``. Kafka keeps the order of one partition only. In
    files of their own partitions are apart; in one stream a reader gets runs of one partition after another, so that
    messages of different partitions overtake each other.

    ``written`` gets every message with its note and location (None: the truth has nothing of them)."""

    def __init__(
        self, container: Container, capture: EncoderContext, folder: str,
        written: Callable[[Message, Any, Location], None] | None,
    ) -> None:  # fmt: skip
        self._options, self._folder, self._container = capture.options, capture.folder / folder, container
        self._truth, self._written = capture.truth, written
        self._rng = Random(f"{capture.seed} {folder} topics")
        self._offsets: Counter[str] = Counter()  # the next one of each partition
        self._waiting: dict[str, deque[tuple[Message, Any]]] = {}  # messages that nobody has fetched, by partition
        self._files: dict[str, tuple[int, kafka.KafkaFile]] = {}

    def send(
        self, topic: str, key: bytes | None, value: bytes | None, time: int, note: Any = None, *, arrives: bool = True
    ) -> None:
        """Sends a record at a ``time`` (milliseconds since 1970); its partition is that of its key. One that does not
        arrive takes its offset all the same."""
        partition = crc32(key or b"") % self._options.partitions
        name = f"{topic}-{partition}"
        message = Message(topic, partition, self._offsets[name], time, key, value)
        self._offsets[name] += 1
        waiting = self._waiting.setdefault(name, deque())
        if arrives and self._options.layout == "stream":
            waiting.append((message, note))
            self._fetch(self._options.shuffle)
        elif arrives:
            self._write(name, message, note)

    def _fetch(self, left: int) -> None:
        """Writes a run of one partition after another, until at most so many messages are left."""
        while sum(map(len, self._waiting.values())) > left:
            filled = [one for one in self._waiting.values() if one]
            waiting = filled[int(self._rng.random() * len(filled))]
            most = 1 + int(self._rng.random() * (1 + self._options.shuffle // 8))
            for _ in range(min(len(waiting), most)):
                self._write("messages", *waiting.popleft())

    def _write(self, name: str, message: Message, note: Any) -> None:
        if name not in self._files:
            path = f"{name}.{self._container.ending}"
            number = self._truth.file(path) if self._written is not None else -1
            self._files[name] = number, self._container.open(self._folder / path)
        number, file = self._files[name]
        location = Location(number, *file.put(self._container.record(message)))
        if self._written is not None:
            self._written(message, note, location)

    def close(self) -> None:
        """Writes what is still on its way, and completes the files."""
        self._fetch(0)
        for _, file in self._files.values():
            file.close()
