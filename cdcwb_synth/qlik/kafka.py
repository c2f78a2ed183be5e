"""A workload as messages of Replicate on Kafka (``docs/formats/qlik-kafka.md``)."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any, Final
from zlib import crc32

import msgspec

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.kafka import BINARY_CONTAINERS, AvroSchema, Container, KafkaFile, Message, Registry, iso_milliseconds
from cdcwb_synth.model import ChangeSource, Completeness, Operation
from cdcwb_synth.options import option, same
from cdcwb_synth.qlik.columns import (
    SERVER,
    TASK,
    ChangeSequence,
    Image,
    Layout,
    QlikOptions,
    avro_type,
    log_position,
    transaction_id,
)
from cdcwb_synth.truth import EncoderContext, Place, Transaction, Version, blank_columns
from cdcwb_synth.values import microseconds
from cdcwb_synth.workload import Change, Committed, Schema

__all__ = ["KafkaEncoder", "KafkaOptions"]

_ADDED: Final = "tableName"  # the column that has a table's name where the option naming is column
_PARTS: Final = ("timestamp", "partition", "offset", "key")  # what precedes values in the console consumer's lines
_MESSAGE: Final = "com.attunity.queue.msg"
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
        "auto",
        "metadata messages: mixed with the data, late (after some of their data), separate (in a folder of their own), "
        "none; auto: mixed where the form has them",
        of=("auto", "mixed", "late", "separate", "none"),
    )
    generation: str = option(
        "2019", "which headers there are; external: externalSchemaId", of=("2018", "2019", "external")
    )
    logical: bool = option(True, "Avro: logical types for decimals, dates and times; else texts")
    mask_order: str = option("big", "Avro: byte order of masks", of=("big", "little"))
    delete_row: str = option("data", "where a deleted row is", of=("data", "beforeData"))
    column_mask: float = option(0.0, "share of the updates and deletes with columns that were not captured", 0, 1)
    naming: str = option(
        "topic", "where a table's name is, besides metadata and namespaces",
        of=("topic", "key", "column", "message", "headers", "none"),
    )  # fmt: skip
    partitions: int = option(3, "partitions of every topic", 1, 1000)
    layout: str = option("partitions", "a file for every partition, or one stream", of=("partitions", "stream"))
    shuffle: int = option(400, "stream: most messages that partitions can be behind each other", 0, 1_000_000)
    container: str = option(
        "lines", "what holds the messages", of=("lines", "console", "documents", *BINARY_CONTAINERS)
    )
    encoding: str = option("raw", "values in lines, console and kcat", of=("raw", "base64", "hex"))
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

    def contradictions(self) -> list[str]:
        """What is wrong with values that are each allowed, a sentence each."""
        problems = QlikOptions.contradictions(self)
        if self.is_enveloped and self.metadata_mode == "none" and self.is_avro:
            problems.append("form avro-envelope cannot be read without metadata; metadata is mixed, late or separate")
        if not self.is_enveloped and self.metadata_mode != "none":
            problems.append(f"form {self.form} has no metadata messages, so metadata is none")
        if self.is_avro and self.container not in BINARY_CONTAINERS and self.encoding == "raw":
            held = ", ".join(BINARY_CONTAINERS)
            problems.append(f"form {self.form} is binary: container is one of {held}, or encoding is base64 or hex")
        if self.encoding != "raw" and self.container not in ("lines", "console", "kcat"):
            problems.append(f"container {self.container} holds values as they are, so encoding is raw")
        is_held = self.container == "avro" and self.form == "avro-envelope"
        if self.tombstone_share and (self.container in ("documents", "message") or is_held):
            problems.append(f"container {self.container} cannot hold tombstones in this form")
        files = (self.tables + self.all_types if self.naming == "topic" else 1) * self.partitions
        if self.layout == "partitions" and files > 500:
            problems.append(f"{files} partitions would be as many open files; at most 500, or layout=stream")
        return problems


# --- schemas (§2.3, §3.4, §4.1) ---------------------------------------------------------------------------------------

_ENVELOPE: Final[Fields] = {
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


def _long_form(kind: Any) -> Any:
    """A type in the spelling of 2018: ``{"type": "string"}`` for ``"string"``."""
    if isinstance(kind, list):
        return [_long_form(branch) for branch in kind]
    return {"type": kind} if isinstance(kind, str) and kind[0].islower() else kind


def _data_schema(layout: Layout, options: KafkaOptions) -> Fields:
    """The schema of a table's data messages; one of 2018 is in the long spelling of its time."""
    is_old, naming = options.generation == "2018", options.naming

    def one(name: str, kind: Any) -> Fields:
        default = {"default": None} if isinstance(kind, list) and not is_old else {}
        return {"name": name, "type": _long_form(kind) if is_old else kind, **default}

    names = [one("schema", "string"), one("table", "string")]
    symbols = ["INSERT", "UPDATE", "DELETE", "REFRESH"]
    headers = [
        *(names if naming == "headers" else []),
        {"name": "operation", "type": {"type": "enum", "name": "operation", "symbols": symbols}},
        *(one(name, "string") for name in ("changeSequence", "timestamp", "streamPosition", "transactionId")),
        *(one(name, ["null", "bytes"]) for name in ("changeMask", "columnMask")),
    ]
    if options.generation == "external":
        headers.append(one("externalSchemaId", ["null", "string"]))
    if not is_old:
        headers += [one("transactionEventCounter", ["null", "long"]), one("transactionLastEvent", ["null", "boolean"])]
    space = {} if is_old else {"namespace": _MESSAGE}
    columns = [one(c.name, ["null", avro_type(c, options.logical)]) for c in layout.columns]
    schema: Fields = {
        "type": "record",
        "name": "DataRecord",
        "fields": [
            {"name": "data", "type": {"type": "record", "name": "Data", "fields": columns}},
            one("beforeData", ["null", "Data"]),
            *(names if naming == "message" else []),
            {"name": "headers", "type": {"type": "record", "name": "Headers", "fields": headers, **space}},
        ],
    }
    return schema if options.is_enveloped else schema | {"namespace": f"{_MESSAGE}.{TASK}.{layout.full_name}"}


def _key_schema(layout: Layout, logical: bool) -> Fields:
    """The schema of a table's record keys in a registry."""
    column = layout.columns[layout.key_at]
    fields = [{"name": column.name, "type": ["null", avro_type(column, logical)], "default": None}]
    space = f"{_MESSAGE}.{TASK}.{layout.full_name}"
    return {"type": "record", "name": "KeyRecord", "namespace": space, "fields": fields}


def _metadata_schema(layout: Layout) -> Fields:
    """The schema of a table's metadata messages; every column is a record that is named like it."""

    def record(name: str, **fields: Any) -> Fields:
        return {
            "type": "record",
            "name": name,
            "fields": [{"name": n, "type": _long_form(k)} for n, k in fields.items()],
        }

    numbers = {"length": "int", "precision": "int", "scale": "int", "primaryKeyPosition": "int"}
    columns = {
        c.name: record(c.name, ordinal="int", type="string", **numbers, nullable="boolean") for c in layout.columns
    }
    names = {"server": "string", "task": "string", "schema": "string", "table": "string"}
    return record(
        "MetadataMessage",
        schemaId="string",
        lineage=record("Lineage", **names, tableVersion="long", timestamp="string"),
        tableStructure=record("TableStructure", tableColumns=record("TableColumns", **columns)),
        dataSchema="string",
    )


# --- tables -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Table:
    """One version of a table. ``envelope`` are the fields around its messages, ``schema`` and ``frame`` those of Avro,
    ``metadata`` its metadata message (None: none is sent), ``sent`` how many data messages there are so far."""

    layout: Layout
    version: Version
    topic: str
    envelope: Fields
    external: str | None
    schema: AvroSchema
    frame: bytes = b""
    key: tuple[bytes, AvroSchema] | None = None
    metadata: bytes | None = None
    sent: int = 0


class KafkaEncoder:
    """Writes a workload's history: ``capture/``, and beside it ``metadata/`` and ``registry/`` where the options ask
    for them. ``records``: messages that were written so far."""

    def __init__(self, capture: EncoderContext) -> None:
        options: KafkaOptions = capture.options
        self._options, self._part, self._truth = options, capture.part, capture.truth
        self._seed = capture.part.seed if capture.part.is_continued else capture.seed
        held: Any = ["null", "bytes"] if options.tombstone_share else "bytes"
        if options.form == "avro-envelope":
            held = _ENVELOPE
        self._container = Container(
            options.container, options.compression, _PARTS, is_avro=options.is_avro, encoding=options.encoding,
            held=held,
        )  # fmt: skip
        self._truth.unit = self._container.unit
        self._envelope = AvroSchema(_ENVELOPE)
        self._registry = Registry(capture.folder / "registry", _FIRST_ID)
        self._topics = _Topics(self._container, capture, capture.folder / "capture", self._truth.file, self._placed)
        self._beside = _Topics(self._container, capture, capture.folder / "metadata", lambda _: -1, lambda *_: None)
        self._rng, self._masks = Random(f"{capture.seed} qlik-kafka"), Random(f"{capture.seed} changes")
        self._sequence = ChangeSequence(options, capture.changes, capture.part.numbers(2))
        self._position = capture.part.numbers(1)
        self._tables: dict[tuple[int, int], _Table] = {}  # by label and version
        self._known: dict[Any, Version] = {}
        self._late: list[_Table] = []
        self._again: list[tuple[Any, ...]] = []  # messages that are sent a second time
        self.records = 0

    def write(self, item: Schema | Change | Committed, done: int) -> None:
        """Writes what comes next in a history, when ``done`` changes have happened."""
        match item:
            case Schema():
                self._schema(item)
            case Change():
                self._load(item)
            case Committed():
                shown = self._sequence.clock(item.at, done)
                again, self._again = self._again, []
                committed = microseconds(self._sequence.stamp(shown))
                changes = [one for one in item.changes if one.operation is not Operation.TRUNCATE]  # has no message
                if changes:
                    self._transaction(item, changes, committed)
                self._resend(again)

    def finish(self) -> None:
        """Writes what is still held back, and completes the files."""
        self._resend([])
        for table in self._late:
            self._send_metadata(table, self._sequence.time)
        self._topics.close()
        self._beside.close()

    # --- table versions -----------------------------------------------------------------------------------------------

    def _schema(self, item: Schema) -> None:
        version, key = item.version, (item.version.table.label, item.version.number)
        if key in self._tables:
            return
        table = self._tables[key] = self._make(version, item.at)
        if self._part.is_continued and version.number == 1:  # its metadata are in the first part
            return
        if self._options.metadata_mode == "late":
            self._late.append(table)
        elif table.metadata is not None:
            self._send_metadata(table, item.at)

    def _make(self, version: TableVersion, at: datetime) -> _Table:
        """The table version that is in force from ``at`` on."""
        options = self._options
        form = ("avro" if options.logical else "avro text") if options.is_avro else "json"
        added = _ADDED if options.naming == "column" else ""
        layout = Layout(version, form, lobs=options.lobs, added=added)
        told = f"{self._seed} {layout.full_name} {version.number}"
        identifier = hashlib.md5(told.encode(), usedforsecurity=False).hexdigest().upper()
        external = f"{crc32(identifier.encode()):08x}" if options.generation == "external" else None
        schema = AvroSchema(_data_schema(layout, options))
        has_metadata = options.metadata_mode != "none"
        envelope: Fields = {}
        if options.is_enveloped:
            envelope = {
                "magic": "atMSG", "type": "DT", "headers": None,
                "messageSchemaId": identifier if has_metadata else None, "messageSchema": None,
            }  # fmt: skip
        topic = layout.full_name if options.naming == "topic" else _TOPIC
        if options.form == "confluent":
            frame, key = self._registry.frame(schema), AvroSchema(_key_schema(layout, options.logical))
            known = self._registered(layout, frame, schema)
            return _Table(layout, known, topic, envelope, external, schema, frame, (self._registry.frame(key), key))
        if not has_metadata:
            return _Table(layout, self._inferred(layout, external), topic, envelope, external, schema)
        lineage = {
            "server": SERVER, "task": TASK, "schema": layout.table.schema, "table": layout.table.name,
            "tableVersion": version.number, "timestamp": iso_milliseconds(microseconds(at)),
        }  # fmt: skip
        is_beside = options.metadata_mode == "separate"
        described = Version(
            identifier, layout.table.schema, layout.table.name, layout.rows(), "side file" if is_beside else "record",
            schema.text, {name: str(value) for name, value in lineage.items()}, has_place=not is_beside,
        )  # fmt: skip
        columns = {c.name: {"ordinal": i, **c.properties} for i, c in enumerate(layout.columns, 1)}
        message = {
            "schemaId": identifier, "lineage": lineage, "tableStructure": {"tableColumns": columns},
            "dataSchema": schema.text,
        }  # fmt: skip
        own = AvroSchema(_metadata_schema(layout))
        around = envelope | {"type": "MD", "messageSchema": own.text}
        table = _Table(layout, self._truth.version(described), topic, envelope, external, schema)
        table.metadata = self._enveloped(around, own, message)
        return table

    def _enveloped(self, around: Fields, schema: AvroSchema, message: Fields) -> bytes:
        """A message in the envelope."""
        if not self._options.is_avro:
            return msgspec.json.encode(around | {"message": message})
        return self._envelope.encode(around | {"magic": b"atMSG", "message": schema.encode(message)})

    def _registered(self, layout: Layout, frame: bytes, schema: AvroSchema) -> Version:
        if schema.text not in self._known:
            columns = blank_columns(layout.names)
            fields = json.loads(schema.text)["fields"][0]["type"]["fields"]
            for row, field in zip(columns, fields, strict=True):
                kind = field["type"][1]
                kind = kind if isinstance(kind, dict) else {"type": kind}
                row |= {"type": kind.get("logicalType") or kind["type"], "nullable": True}
                row |= {"precision": kind.get("precision"), "scale": kind.get("scale")}
            made = Version(
                str(int.from_bytes(frame[1:], "big")), layout.table.schema, layout.table.name, columns, "registry",
                schema.text, {"table named by": "namespace"}, has_place=False, is_listed=False,
            )  # fmt: skip
            self._known[schema.text] = self._truth.version(made)
        return self._known[schema.text]

    def _inferred(self, layout: Layout, external: str | None) -> Version:
        """A version of which nothing but its messages is known; what names its table depends on the options."""
        naming, container = self._options.naming, self._options.container
        schema: str | None = layout.table.schema
        table: str | None = layout.table.name
        is_keyed = container in ("kcat", "parquet", "console") and (naming == "key" or container != "console")
        if naming == "column":
            schema = None
        elif naming == "none" or (naming in ("topic", "key") and not is_keyed):
            schema = table = None
        key = (schema, table, external, layout.names)
        if key not in self._known:
            name = None if external is None else f"external {external}"
            lineage = {} if table is None else {"table named by": naming}
            columns = blank_columns(layout.names)
            made = Version(name, schema, table, columns, "inferred", None, lineage, is_listed=False)
            self._known[key] = self._truth.version(made)
        return self._known[key]

    # --- messages -----------------------------------------------------------------------------------------------------

    def _send_metadata(self, table: _Table, at: datetime) -> None:
        time = microseconds(at) // 1000
        if self._options.metadata_mode == "separate":
            self._beside.send("cdc-metadata", None, table.metadata, time)
        else:
            self._topics.send(table.topic, None, table.metadata, time, table.version)

    def _send(self, table: _Table, key: bytes, value: bytes, time: int, note: tuple[Any, ...]) -> None:
        """Sends a data message at a ``time`` (milliseconds since 1970); ``note`` is the truth of it."""
        self._topics.send(table.topic, key, value, time, note)
        table.sent += 1
        if table.sent >= _LATE and table in self._late:
            self._late.remove(table)
            self._send_metadata(table, self._sequence.time)

    def _placed(self, message: Message, note: Any, place: Place) -> None:
        """Completes the truth of a message, when it is written to a file."""
        self.records += 1
        if isinstance(note, tuple):
            row, version, transaction = note
            headers = row["headers"] | self._container.facts(message)
            self._truth.change(row | {"headers": headers}, [place], version, transaction)
        elif note is not None:
            note.seen(place)

    def _message_key(self, table: _Table, image: Image) -> bytes:
        """The record key of a row: its table's name, or its primary key (as text, or in Avro in a registry)."""
        at, name = table.layout.key_at, table.layout.names[table.layout.key_at]
        if self._options.naming == "key":
            return table.layout.full_name.encode()
        if table.key is not None:
            return table.key[0] + table.key[1].encode({name: image[0][at]})
        return (image[1][name] or "").encode()

    def _value(
        self, table: _Table, heads: Fields, row: Fields, before: Fields | None
    ) -> tuple[bytes, dict[str, str | None]]:
        """A message, and its headers as text. ``row`` is the after image or the deleted row."""
        options, layout = self._options, table.layout
        names = {"schema": layout.table.schema, "table": layout.table.name}
        named = {where: names if options.naming == where else {} for where in ("message", "headers")}
        size, order = len(layout.columns) // 8 + 1, options.mask_order if options.is_avro else "big"
        texts = {name: None if one is None else _text(one) for name, one in heads.items()}
        for name in ("changeMask", "columnMask"):
            if heads[name] is not None:
                mask = heads[name].to_bytes(size, order)
                texts[name] = mask.hex().upper()
                heads[name] = mask if options.is_avro else texts[name]
        is_swapped = heads["operation"] == "DELETE" and options.delete_row == "beforeData"
        data: Fields | None = row
        if is_swapped:  # data cannot be null in Avro
            data, before = dict.fromkeys(row) if options.is_avro else None, row
        message = {**named["message"], "data": data, "beforeData": before, "headers": named["headers"] | heads}
        outer = {name: table.envelope[name] for name in ("magic", "type", "messageSchemaId") if table.envelope}
        if table.frame:
            outer = {"schemaId": str(int.from_bytes(table.frame[1:], "big"))}
        headers = outer | named["message"] | named["headers"] | texts
        if options.is_enveloped:
            return self._enveloped(table.envelope, table.schema, message), headers
        if options.is_avro:
            return table.frame + table.schema.encode(message), headers
        return msgspec.json.encode(message), headers

    def _heads(self, table: _Table, operation: str, sequence: str, timestamp: str, **more: Any) -> Fields:
        """The headers of a message; what ``more`` lacks is empty or null, as in a full load."""
        generation = self._options.generation
        heads = {
            "operation": operation, "changeSequence": sequence, "timestamp": timestamp, "streamPosition": "",
            "transactionId": "", "changeMask": None, "columnMask": None,
        }  # fmt: skip
        if generation == "external" or (generation == "2018" and not self._options.is_avro):
            heads["externalSchemaId"] = table.external
        if generation != "2018":
            heads |= {"transactionEventCounter": None, "transactionLastEvent": None}
        return heads | {name: value for name, value in more.items() if name in heads}

    def _row(self, table: _Table, operation: Operation, image: Image, **more: Any) -> Fields:
        """What the truth has of a message."""
        key = table.layout.names[table.layout.key_at]
        return {
            "record_type": "DT" if self._options.is_enveloped else "DataRecord", "operation": operation,
            "key": {key: image[1][key]} if table.metadata is not None else None, **more,
        }  # fmt: skip

    def _load(self, item: Change) -> None:
        """A row of the full load: no position, no transaction, no masks."""
        table = self._tables[item.version.table.label, item.version.number]
        time, is_old = microseconds(item.at), self._options.generation == "2018"
        image = table.layout.image(item.after or ())
        heads = self._heads(table, "REFRESH", "", "" if is_old else iso_milliseconds(time))
        value, headers = self._value(table, heads, dict(zip(table.layout.names, image[0], strict=True)), None)
        at = None if is_old else time // 1000 * 1000
        row = self._row(table, Operation.REFRESH, image, changed_at=at, after=image[1], headers=headers)
        self._send(table, self._message_key(table, image), value, time // 1000, (row, table.version, None))

    def _resend(self, again: list[tuple[Any, ...]]) -> None:
        """Sends again what comes twice: ``again``, or all of it."""
        if not again:
            again, self._again = self._again, []
        for one in again:
            self._send(*one)

    def _transaction(self, item: Committed, changes: list[Change], committed: int) -> None:
        """A transaction's changes, one after another, under the time of its commit."""
        options, count = self._options, len(changes)
        sequences = [self._sequence.take() for _ in changes]
        times = [microseconds(change.at) for change in changes]
        fates = [_ONCE] * count
        if options.lost_share or options.duplicate_share:
            fates = [self._fate() for _ in changes]
        is_old, sent, name = options.generation == "2018", microseconds(item.at) // 1000, transaction_id(item.ordinal)
        truth = None
        there = [at for at, fate in enumerate(fates) if fate]
        if there:
            truth = self._truth.transaction(
                Transaction(
                    name, begin_position=sequences[there[0]],
                    end_position=sequences[there[-1]] if is_old or fates[-1] else None,
                    commit_position=sequences[-1] if fates[-1] and not is_old else None,
                    began_at=min(times[at] for at in there) // 1000 * 1000, ended_at=committed, committed_at=committed,
                    completeness=Completeness.UNKNOWN if is_old else _completeness(fates),
                )
            )  # fmt: skip
        for number, change in enumerate(changes, 1):
            table = self._tables[change.version.table.label, change.version.number]
            at, fate, is_last = times[number - 1], fates[number - 1], number == count
            more = {
                "streamPosition": log_position(self._position), "transactionId": name,
                "transactionEventCounter": number, "transactionLastEvent": is_last,
            }  # fmt: skip
            self._position += 1
            heads = self._heads(table, str(change.operation), sequences[number - 1], iso_milliseconds(at), **more)
            key, value, row = self._changed(table, change, heads)
            row |= {"position": sequences[number - 1], "changed_at": at // 1000 * 1000}
            row |= {} if is_old else {"event_no": number, "last_in_transaction": is_last}
            if fate == _NEVER:
                self._topics.send(table.topic, key, None, sent, arrives=False)
                continue
            message = (table, key, value, sent, (row, table.version, truth))
            if fate == _TWICE:
                self._again.append(message)
            self._send(*message)
            share = options.tombstone_share
            if share and change.operation is Operation.DELETE and self._rng.random() < share:
                self._topics.send(table.topic, key, None, sent)

    def _fate(self) -> int:
        """How often a message arrives."""
        if self._rng.random() < self._options.lost_share:
            return _NEVER
        return _TWICE if self._rng.random() < self._options.duplicate_share else _ONCE

    def _changed(self, table: _Table, change: Change, heads: Fields) -> tuple[bytes, bytes, Fields]:
        """The key and the message of a change, and what the truth has of it."""
        layout = table.layout
        before, after = (None if row is None else layout.image(row) for row in (change.before, change.after))
        image = after or before or ((), {})
        differ, mask, present = 0, layout.inserted, layout.everything
        if after is None:
            mask = layout.key
        elif before is not None:
            cells = enumerate(zip(before[0], after[0], strict=True))
            differ = layout.mask(at for at, (old, new) in cells if old != new)
            mask = differ & layout.inserted
        if self._options.column_mask and before is not None and self._masks.random() < self._options.column_mask:
            present &= ~self._missing(layout.own & ~differ & ~layout.key)
        heads |= {"changeMask": mask, "columnMask": present}
        names = layout.marked(present)
        row, other = (
            None if one is None else {n: v if n in names else None for n, v in zip(layout.names, one[0], strict=True)}
            for one in (image, before if after is not None else None)
        )
        value, headers = self._value(table, heads, row or {}, other)
        told = self._row(
            table, change.operation, image, change_mask=headers["changeMask"], column_mask=headers["columnMask"],
            changed_columns=layout.marked(mask), present_columns=names, change_source=str(ChangeSource.MASK),
            before=None if before is None else {name: before[1][name] for name in names},
            after=None if after is None else {name: after[1][name] for name in names}, headers=headers,
        )  # fmt: skip
        return self._message_key(table, image), value, told

    def _missing(self, candidates: int) -> int:
        """Some of the columns that need not be logged: at least one, if there is one."""
        bits = [1 << at for at in range(candidates.bit_length()) if candidates >> at & 1]
        chosen = sum(bit for bit in bits if self._masks.random() < 0.4)
        return chosen or (self._masks.choice(bits) if bits else 0)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _completeness(fates: list[int]) -> Completeness:
    """How much of a transaction arrives."""
    if not fates[0]:
        return Completeness.NO_BEGIN
    if not fates[-1]:
        return Completeness.NO_END
    return Completeness.COMPLETE if all(fates) else Completeness.GAPS


# --- topics -----------------------------------------------------------------------------------------------------------


class _Lane:
    """A partition: its next offset, the messages that nobody has fetched, and the file that it is written to."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.offset = 0
        self.waiting: deque[tuple[Message, Any]] = deque()
        self.file: tuple[int, KafkaFile] | None = None


class _Topics:
    """Topics whose partitions are written to files below ``folder``. Kafka keeps the order of one partition only. In
    files of their own partitions are apart; in one stream a reader gets runs of one partition after another, so that
    messages of different partitions overtake each other.

    ``new_file`` gives a file of some name its number, ``placed`` gets every message with its note and place. Each part
    of a capture has partitions of its own."""

    def __init__(
        self, container: Container, capture: EncoderContext, folder: Path, new_file: Callable[[str], int],
        placed: Callable[[Message, Any, Place], None],
    ) -> None:  # fmt: skip
        self._options, self._folder, self._container = capture.options, folder, container
        self._new_file, self._placed = new_file, placed
        self._rng = Random(f"{capture.seed} {folder.name} topics")
        self._lanes: dict[tuple[str, int], _Lane] = {}
        self._first = capture.part.number * self._options.partitions
        self._stream = _Lane(f"messages{capture.part.suffix}")  # whose file is that of all lanes, if they go into one
        self._is_stream = self._options.layout == "stream"
        self._waiting = 0

    def send(
        self, topic: str, key: bytes | None, value: bytes | None, time: int, note: Any = None, *, arrives: bool = True
    ) -> None:
        """Sends a record at a ``time`` (milliseconds since 1970); its partition is that of its key. One that does not
        arrive takes its offset all the same."""
        partition = self._first + crc32(key or b"") % self._options.partitions
        lane = self._lanes.setdefault((topic, partition), _Lane(f"{topic}-{partition}"))
        message = Message(topic, partition, lane.offset, time, key, value)
        lane.offset += 1
        if not arrives:
            return
        lane.waiting.append((message, note))
        self._waiting += 1
        while self._waiting > (self._options.shuffle if self._is_stream else 0):
            self._fetch(lane)

    def _fetch(self, lane: _Lane) -> None:
        """What a reader gets at once: of a stream, a run of one partition."""
        most = 1
        if self._is_stream:
            filled = [one for one in self._lanes.values() if one.waiting]
            lane = filled[int(self._rng.random() * len(filled))]
            most = 1 + int(self._rng.random() * (1 + self._options.shuffle // 8))
        for _ in range(min(len(lane.waiting), most)):
            message, note = lane.waiting.popleft()
            self._waiting -= 1
            is_single = self._options.container == "message"
            kept = _Lane(f"{lane.name}/{message.offset}") if is_single else self._stream if self._is_stream else lane
            if kept.file is None:
                name = f"{kept.name}.{self._container.ending}"
                kept.file = self._new_file(name), self._container.open(self._folder / name)
            number, file = kept.file
            self._placed(message, note, Place(number, *self._container.put(file, message)))
            if is_single:
                file.close()

    def close(self) -> None:
        """Writes what is still on its way, and completes the files."""
        while self._waiting:
            self._fetch(self._stream)
        for lane in (self._stream, *self._lanes.values()):
            if lane.file is not None:
                lane.file[1].close()
