"""A workload as messages of Replicate on Kafka (``docs/formats/qlik-kafka.md``)."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any, Final
from zlib import crc32

import msgspec

from cdcwb_synth import kafka
from cdcwb_synth.encoder import Encoder, EncoderContext, delivered
from cdcwb_synth.kafka import AvroSchema, Container, Message, Registry, avro_record, iso_milliseconds
from cdcwb_synth.model import Operation
from cdcwb_synth.options import Rules, option, same
from cdcwb_synth.qlik import columns as qlik
from cdcwb_synth.qlik.columns import ChangeSequence, Image, Layout, QlikOptions
from cdcwb_synth.truth import Location, Transaction, Version, column_rows
from cdcwb_synth.values import microseconds
from cdcwb_synth.workload import Change, Committed, Schema

__all__ = ["KafkaEncoder", "KafkaOptions"]

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
        of=("topic", "message", "headers", "none"),
    )  # fmt: skip
    partitions: int = option(3, "partitions of every topic", 1, 1000)
    layout: str = option("partitions", "a file for every partition, or one stream", of=("partitions", "stream"))
    shuffle: int = option(400, "stream: most messages that partitions can be behind each other", 0, 1_000_000)
    container: str = option(
        "lines", "what holds the messages", of=("lines", "console", "documents", *kafka.BINARY_CONTAINERS)
    )
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
    """One version of a table. ``envelope`` are the fields around its messages, ``outer`` those that are headers;
    ``schema`` and ``frame`` those of Avro, ``key`` the frame and schema of its keys, ``metadata`` its metadata message
    (None: none is sent), ``sent`` how many data messages there are so far."""

    layout: Layout
    version: Version
    topic: str
    envelope: Fields
    outer: dict[str, str | None]
    external: str | None
    schema: AvroSchema
    frame: bytes = b""
    key: tuple[bytes, AvroSchema] | None = None
    metadata: bytes | None = None
    sent: int = 0


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
        self._again: list[tuple[Any, ...]] = []  # messages that are sent a second time
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
        if table.metadata is None:
            return table
        if self.options.metadata_mode == "late":
            self._late.append(table)
        else:
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
        has_metadata = options.metadata_mode != "none"
        topic = owner.full_name if options.naming == "topic" else _TOPIC
        if options.form == "confluent":
            frame, key = self._registry.frame(schema), AvroSchema(_key_schema(layout, options.logical))
            number = str(int.from_bytes(frame[1:], "big"))
            made = self._registered(layout, number, schema)
            key_of = self._registry.frame(key), key
            return _Table(layout, made, topic, {}, {"schemaId": number}, external, schema, frame, key_of)
        outer: dict[str, str | None] = {}
        envelope: Fields = {}
        if options.is_enveloped:
            outer = {"magic": "atMSG", "type": "DT", "messageSchemaId": identifier if has_metadata else None}
            envelope = {
                "magic": "atMSG", "type": "DT", "headers": None, "messageSchemaId": outer["messageSchemaId"],
                "messageSchema": None,
            }  # fmt: skip
        if not has_metadata:
            return _Table(layout, self._inferred(layout, external), topic, envelope, outer, external, schema)
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
        metadata = self._enveloped(envelope | {"type": "MD", "messageSchema": own.text}, own, message)
        made = self.truth.version(described)
        return _Table(layout, made, topic, envelope, outer, external, schema, metadata=metadata)

    def _enveloped(self, envelope: Fields, schema: AvroSchema, message: Fields) -> bytes:
        """A message in the envelope."""
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

    def _send(self, table: _Table, key: bytes, value: bytes, time: int, note: tuple[Any, ...]) -> None:
        """Sends a data message at a ``time`` (milliseconds since 1970); ``note`` is the truth of it."""
        self._topics.send(table.topic, key, value, time, note)
        table.sent += 1
        if table.sent >= _LATE and table in self._late:
            self._late.remove(table)
            self._send_metadata(table, self._sequence.time)

    def _send_again(self, again: Sequence[tuple[Any, ...]] = ()) -> None:
        """Sends again what comes twice: ``again``, or all of it."""
        if not again:
            again, self._again = self._again, []
        for message in again:
            self._send(*message)

    def _written(self, message: Message, note: Any, location: Location) -> None:
        """Completes the truth of a message, when it is written to a file."""
        self.records += 1
        if isinstance(note, tuple):
            row, version, transaction = note
            headers = row["headers"] | self._container.facts(message)
            self.truth.change(row | {"headers": headers}, [location], version, transaction)
        elif note is not None:
            note.seen(location)

    def _message_key(self, table: _Table, image: Image) -> bytes:
        """The record key of a row: its primary key (as text, or in Avro in a registry)."""
        layout = table.layout
        if table.key is not None:
            return table.key[0] + table.key[1].encode({layout.key_name: image[0][layout.key_at]})
        return (image[1][layout.key_name] or "").encode()

    def _value(
        self, table: _Table, heads: Fields, row: Fields, before: Fields | None
    ) -> tuple[bytes, dict[str, str | None]]:
        """A message, and its headers as text. ``row`` is the after image or the deleted row."""
        options, layout = self.options, table.layout
        names = {"schema": layout.table.schema, "table": layout.table.name}
        of_message, of_headers = (names if options.naming == where else {} for where in ("message", "headers"))
        order = options.mask_order if options.is_avro else "big"
        texts = {n: v if v is None or isinstance(v, str) else str(v).lower() for n, v in heads.items()}
        for name in ("changeMask", "columnMask"):
            if heads[name] is not None:
                mask = heads[name].to_bytes(len(layout.columns) // 8 + 1, order)
                texts[name] = mask.hex().upper()
                heads[name] = mask if options.is_avro else texts[name]
        data: Fields | None = row
        if heads["operation"] == "DELETE" and options.delete_row == "beforeData":  # data cannot be null in Avro
            data, before = dict.fromkeys(row) if options.is_avro else None, row
        message = {**of_message, "data": data, "beforeData": before, "headers": {**of_headers, **heads}}
        headers = {**table.outer, **of_message, **of_headers, **texts}
        if options.is_enveloped:
            return self._enveloped(table.envelope, table.schema, message), headers
        if options.is_avro:
            return table.frame + table.schema.encode(message), headers
        return msgspec.json.encode(message), headers

    def _heads(self, table: _Table, operation: str, sequence: str, timestamp: str, **more: Any) -> Fields:
        """The headers of a message; what ``more`` lacks is empty or null, as in a full load."""
        heads = {
            "operation": operation, "changeSequence": sequence, "timestamp": timestamp,
            "streamPosition": more.get("position", ""), "transactionId": more.get("transaction", ""),
            "changeMask": more.get("mask"), "columnMask": more.get("present"),
        }  # fmt: skip
        if self.options.generation == "external" or (self._is_old and not self.options.is_avro):
            heads["externalSchemaId"] = table.external
        if not self._is_old:
            heads["transactionEventCounter"] = more.get("number")
            heads["transactionLastEvent"] = more.get("is_last")
        return heads

    def _row(self, table: _Table, operation: Operation, image: Image, **more: Any) -> Fields:
        """What the truth has of a message."""
        key = table.layout.key_name
        return {
            "record_type": "DT" if self.options.is_enveloped else "DataRecord", "operation": operation,
            "key": {key: image[1][key]} if table.metadata is not None else None, **more,
        }  # fmt: skip

    def load(self, item: Change) -> None:
        """A row of the full load: no position, no transaction, no masks."""
        table, time = self.tables[item.version], microseconds(item.at)
        image = table.layout.image(item.after or ()) or ((), {})
        heads = self._heads(table, "REFRESH", "", "" if self._is_old else iso_milliseconds(time))
        value, headers = self._value(table, heads, dict(zip(table.layout.names, image[0], strict=True)), None)
        at = None if self._is_old else time // 1000 * 1000
        row = self._row(table, Operation.REFRESH, image, changed_at=at, after=image[1], headers=headers)
        self._send(table, self._message_key(table, image), value, time // 1000, (row, table.version, None))

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
            has_end = bool(fates[-1])
            truth = self.truth.transaction(
                Transaction(
                    name, begin_position=sequences[arrived[0]],
                    end_position=sequences[arrived[-1]] if self._is_old or has_end else None,
                    commit_position=sequences[-1] if has_end and not self._is_old else None,
                    began_at=min(times[at] for at in arrived) // 1000 * 1000, ended_at=committed,
                    committed_at=committed,
                )
            )  # fmt: skip
            if not self._is_old:
                truth.completeness = (
                    "no_begin" if not fates[0] else "no_end" if not has_end else "complete" if all(fates) else "gaps"
                )
        for change, number in delivered((one, at) for at, one in enumerate(changes, 1)):
            table, fate, at = self.tables[change.version], fates[number - 1], times[number - 1]
            facts = {
                "position": qlik.log_position(self._position), "transaction": name, "number": number,
                "is_last": number == len(changes),
            }  # fmt: skip
            self._position += 1
            key, value, row = self._changed(table, change, sequences[number - 1], iso_milliseconds(at), facts)
            row |= {"position": sequences[number - 1], "changed_at": at // 1000 * 1000}
            if not self._is_old:
                row |= {"event_no": number, "last_in_transaction": facts["is_last"]}
            if fate == _NEVER:
                self._topics.send(table.topic, key, None, sent, arrives=False)
                continue
            message = (table, key, value, sent, (row, table.version, truth))
            if fate == _TWICE:
                self._again.append(message)
            self._send(*message)
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

    def _changed(
        self, table: _Table, change: Change, sequence: str, time: str, facts: Fields
    ) -> tuple[bytes, bytes, Fields]:
        """The key and the message of a change, and what the truth has of it."""
        layout = table.layout
        before, after = layout.image(change.before), layout.image(change.after)
        image = after or before or ((), {})
        differ, mask, present = 0, layout.inserted, layout.everything
        if before is not None:
            differ = 0 if after is None else layout.differing(before[0], after[0])
            mask = layout.key if after is None else differ & layout.inserted
            if self.options.column_mask and self._masks.random() < self.options.column_mask:
                present &= ~self._missing(layout.everything & ~differ & ~layout.key)
        heads = self._heads(table, str(change.operation), sequence, time, mask=mask, present=present, **facts)
        names = layout.marked(present)

        def shown(values: Fields, missing: Fields | None = None) -> Fields:
            """The values that are present, by column."""
            return values if present == layout.everything else (missing or {}) | {name: values[name] for name in names}

        def fields(one: Image | None) -> Fields | None:
            """A row in messages, which have null for what is not present."""
            values = None if one is None else dict(zip(layout.names, one[0], strict=True))
            return values and shown(values, dict.fromkeys(layout.names))

        value, headers = self._value(table, heads, fields(image) or {}, fields(before) if after else None)
        row = self._row(
            table, change.operation, image, change_mask=headers["changeMask"], column_mask=headers["columnMask"],
            changed_columns=layout.marked(mask), present_columns=names, change_source="mask",
            before=before and shown(before[1]), after=after and shown(after[1]), headers=headers,
        )  # fmt: skip
        return self._message_key(table, image), value, row

    def _missing(self, candidates: int) -> int:
        """Some of the columns that need not be logged: at least one, if there is one."""
        bits = [1 << at for at in range(candidates.bit_length()) if candidates >> at & 1]
        chosen = sum(bit for bit in bits if self._masks.random() < 0.4)
        return chosen or (self._masks.choice(bits) if bits else 0)


# --- topics -----------------------------------------------------------------------------------------------------------


class _Lane:
    """A partition: its next offset, the messages that nobody has fetched, and the file that it is written to."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.offset = 0
        self.waiting: deque[tuple[Message, Any]] = deque()
        self.file: kafka.KafkaFile | None = None
        self.number = -1


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
        self._lanes: dict[tuple[str, int], _Lane] = {}
        self._stream = _Lane("messages")  # whose file is that of all lanes, if they go into one
        self._is_stream = self._options.layout == "stream"
        self._waiting = 0

    def send(
        self, topic: str, key: bytes | None, value: bytes | None, time: int, note: Any = None, *, arrives: bool = True
    ) -> None:
        """Sends a record at a ``time`` (milliseconds since 1970); its partition is that of its key. One that does not
        arrive takes its offset all the same."""
        partition = crc32(key or b"") % self._options.partitions
        lane = self._lanes.get((topic, partition))
        if lane is None:
            lane = self._lanes[topic, partition] = _Lane(f"{topic}-{partition}")
        message = Message(topic, partition, lane.offset, time, key, value)
        lane.offset += 1
        if not arrives:
            return
        if not self._is_stream:
            self._write(lane, message, note)
            return
        lane.waiting.append((message, note))
        self._waiting += 1
        while self._waiting > self._options.shuffle:
            self._fetch()

    def _fetch(self) -> None:
        """What a reader gets at once of a stream: a run of one partition."""
        filled = [one for one in self._lanes.values() if one.waiting]
        lane = filled[int(self._rng.random() * len(filled))]
        most = 1 + int(self._rng.random() * (1 + self._options.shuffle // 8))
        for _ in range(min(len(lane.waiting), most)):
            self._waiting -= 1
            self._write(lane, *lane.waiting.popleft())

    def _write(self, lane: _Lane, message: Message, note: Any) -> None:
        target = self._stream if self._is_stream else lane
        if target.file is None:
            name = f"{target.name}.{self._container.ending}"
            target.number = self._truth.file(name) if self._written is not None else -1
            target.file = self._container.open(self._folder / name)
        location = Location(target.number, *target.file.put(self._container.record(message)))
        if self._written is not None:
            self._written(message, note, location)

    def close(self) -> None:
        """Writes what is still on its way, and completes the files."""
        while self._waiting:
            self._fetch()
        for lane in (self._stream, *self._lanes.values()):
            if lane.file is not None:
                lane.file.close()
