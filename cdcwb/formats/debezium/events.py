"""``events`` from Debezium's messages (docs/formats/debezium.md §2 to §8).

Changes are made column by column: messages whose fields have the same names are a group, and so are rows with the same
columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb import model
from cdcwb.formats.arrays import EventBatch, text_array
from cdcwb.formats.containers.kafka_rows import Where, put_headers
from cdcwb.formats.containers.messages import NOT_MESSAGES, Messages
from cdcwb.formats.debezium.envelope import FLATTENED, envelopes_of
from cdcwb.formats.debezium.layout import OPERATIONS, UNAVAILABLE, position_of, transaction_of
from cdcwb.formats.debezium.table import VersionsByColumns, described_tables, row_columns, row_type
from cdcwb.formats.debezium.values import absent_in, document_of, is_cells, text_column
from cdcwb.formats.dissector import Wanted
from cdcwb.formats.kernels import Ints
from cdcwb.formats.messages.connect import Body, Broken, Remark, Schemas, Type, bodies_of, plain
from cdcwb.formats.moments import LATEST
from cdcwb.model import Kind, Operation, Problem

FORMAT: Final = "debezium"

_IMAGES: Final = ("before", "after")
_OF_IMAGES: Final = frozenset({"key", *_IMAGES, "changed_columns", "present_columns", "problems"})
_TIMES: Final = (("ts_ns", 1, 1000), ("ts_us", 1, 1), ("ts_ms", 1000, 1), ("ts_usec", 1, 1), ("ts_sec", 1_000_000, 1))
_COLUMNS: Final = (
    "record_type", "kind", "operation", "position", "commit_position", "transaction_id", "event_no",
    "last_in_transaction", "changed_at", "schema_name", "table_name", "table_version", "changed_columns",
    "present_columns",
)  # fmt: skip
"""The columns of events that have one value each."""
_GROUPS: Final = ("source", "transaction", "message", "cloudevent")
"""The objects of a message whose fields are headers."""


@dataclass(frozen=True)
class MessageContext:
    """How messages are read: the schemas of the registry, the versions of tables, and the placeholder of a value that
    was not captured. ``bare``: the Avro schema of values without a frame, which their file names."""

    schemas: Schemas
    versions: VersionsByColumns
    unavailable: str = UNAVAILABLE
    bare: str | None = None


def events_of(messages: Messages, where: Where, reading: MessageContext, wanted: Wanted) -> pa.RecordBatch:
    """The events of one batch of messages."""
    remarks: dict[int, list[Remark]] = {}
    bodies = envelopes_of(messages.value, reading.schemas, remarks, reading.bare)
    batch = EventBatch(len(messages), wanted)
    batch.put("format", FORMAT)
    where.fill(batch, messages)
    made = _MessageEvents(batch, reading, remarks, wanted.images and wanted.needs(*_OF_IMAGES))
    keys = bodies_of(messages.key, reading.schemas, {}) if made.images else [None] * len(messages)
    for number, (state, body, key) in enumerate(zip(messages.state.tolist(), bodies, keys, strict=True)):
        if state:
            kind, code = NOT_MESSAGES[state]
            made.put(number, kind=kind)
            if code is not None:
                batch.problem(number, code, messages.reasons.get(number, "bytes that are not a message"))
        else:
            made.add(number, body, key if isinstance(key, Body) else None)
    made.finish(messages)
    return batch.build()


def form_of(content: Mapping[str, Any]) -> str:
    """What a message is (§1.1): ``change``, ``transaction``, ``schema change``, ``heartbeat`` or ``notification``.

    Raises ValueError that says what is missing for what is none of them.
    """
    if isinstance(content.get("op"), str) and not content.keys().isdisjoint(("source", *_IMAGES)):
        return "change"
    if content.get("status") in ("BEGIN", "END") and content.get("id") is not None:
        return "transaction"
    if "ddl" in content and not content.keys().isdisjoint(("databaseName", "tableChanges")):
        return "schema change"
    if content and content.keys() <= {"ts_ms", "ts_us", "ts_ns"}:
        return "heartbeat"
    if {"aggregate_type", "type"} <= content.keys():
        return "notification"
    names = ", ".join(list(content)[:6]) or "none"
    raise ValueError(
        f"expected Debezium's envelope with op, before, after and source, found the fields {names}. A flattened event "
        "shows what it is only if ExtractNewRecordState adds fields to it (add.fields=op,table)"
    )


def source_of(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where a change comes from; empty if the message does not say it."""
    source = content.get("source")
    return source if isinstance(source, dict) else {}


def table_of(source: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Schema and table of a change; keyspace or database, and collection, if the source has no others (§3.1)."""
    schema = source.get("schema") or source.get("keyspace") or source.get("db") or source.get("schema_name")
    table = source.get("table") or source.get("collection") or source.get("table_name")
    return (plain(schema) if schema and table else None), (plain(table) if table else None)


def is_document(source: Mapping[str, Any]) -> bool:
    """Whether the rows of this source are documents."""
    return source.get("connector") == "mongodb"


def _number(value: Any) -> int | None:
    if value.__class__ is int and 0 <= value < 1 << 59:
        return int(value)
    text = str(value)
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text, re.ASCII) else None


class _MessageEvents:
    """The events of a batch as they are made: columns of single values, and groups of rows whose values are converted
    together at the end."""

    def __init__(
        self, batch: EventBatch, reading: MessageContext, remarks: Mapping[int, Sequence[Remark]], images: bool
    ) -> None:
        self.batch = batch
        self.reading = reading
        self.images = images
        self._remarks = remarks
        self._columns: dict[str, list[Any]] = {name: [None] * batch.count for name in _COLUMNS}
        self._headers: dict[Any, list[tuple[int, Body]]] = {}
        self._rows: dict[Any, list[tuple[int, dict[str, Any]]]] = {}
        self._types: dict[Any, Mapping[str, Type]] = {}
        self._versions: dict[Any, str | None] = {}
        self._lacking: set[int] = set()  # not all values of their images were captured
        self._after: dict[int, tuple[tuple[str, ...], Any, int]] = {}  # the names, missing values and row of the image

    def put(self, number: int, **values: Any) -> None:
        """Columns of one event."""
        for name, value in values.items():
            self._columns[name][number] = value

    def note(self, number: int, code: Problem, sentence: str) -> None:
        """A problem of one event."""
        self.batch.problem(number, code, sentence)

    def add(self, number: int, body: Body | Broken | None, key: Body | None) -> None:
        """The event of a message."""
        if isinstance(body, Body):
            try:
                form = form_of(body.content)
            except ValueError as reason:
                body = Broken(Problem.MALFORMED, str(reason))
        if isinstance(body, Broken):
            self.put(number, kind=Kind.MALFORMED)
            self.note(number, body.code, body.reason)
        for code, sentence in self._remarks.get(number, ()):
            self.note(number, code, sentence)
        if isinstance(body, Broken):
            return
        if body is None:
            self.put(number, kind=Kind.TOMBSTONE)
            self._key(number, key, None, False)
            return
        names = tuple(body.content)
        inner = [tuple(one) if isinstance(one := body.content.get(name), dict) else None for name in _GROUPS]
        self._headers.setdefault((names, *inner, body.schema_id is None), []).append((number, body))
        if form == "change":
            self._change(number, body, key)
            return
        time = self._time(number, source_of(body.content)) or self._time(number, body.content)
        self.put(number, record_type=form, kind=Kind.CONTROL, changed_at=time)
        if form == "transaction":
            self._boundary(number, body.content)
        elif form == "schema change":
            self._schema_change(number, body.content)
        elif form == "heartbeat":
            self.put(number, kind=Kind.HEARTBEAT)

    # --- changes (§2) -------------------------------------------------------------------------------------------------

    def _change(self, number: int, body: Body, key: Body | None) -> None:
        content = body.content
        source = source_of(content)
        op = content["op"]
        operation: str | None = OPERATIONS.get(op)
        is_message = op == "m"
        if operation is None and not is_message:
            operation = f"UNKNOWN({op})"
            self.note(number, Problem.VALUE, f"op: expected one of {', '.join(OPERATIONS)}, found {op!r:.60}")
        schema, table = table_of(source)
        if table is None and not is_message:
            lacking = "source has no table" if source else "the message has no source, which names the table"
            self.note(number, Problem.NO_SCHEMA, lacking)
        columns = self._columns
        columns["record_type"][number] = op
        columns["kind"][number] = Kind.CONTROL if is_message else Kind.CHANGE
        columns["operation"][number] = operation
        columns["changed_at"][number] = self._time(number, source)
        if operation != Operation.REFRESH:
            block = content.get("transaction")
            block = block if isinstance(block, dict) else {}
            columns["transaction_id"][number], _ = transaction_of(block.get("id"), source)
            columns["position"][number] = position_of(source)
            columns["event_no"][number] = _number(block.get("total_order")) if block else None
        if is_message:
            return
        document = is_document(source)
        columns["schema_name"][number], columns["table_name"][number] = schema, table
        columns["table_version"][number] = self._version(body, schema, table, document)
        if not self.images:
            return
        row = row_type(body)
        for name in _IMAGES:
            held = self._described(number, content, name) if document else content.get(name)
            if isinstance(held, dict):
                self._row(name, number, held, row)
            elif held is not None:
                self.note(number, Problem.VALUE, f"{name}: expected an object, found {plain(held)!r:.60}")
        if document:
            self._document(number, content)
            identity = self._described(number, content, "filter") if key is None else None
            if identity:
                self._row("key", number, identity, None)
        self._key(number, key, row, document)

    def _version(self, body: Body, schema: str | None, table: str | None, document: bool) -> str | None:
        image = body.content.get("after") or body.content.get("before")
        names = tuple(image) if body.type is None and isinstance(image, dict) and not document else None
        asked = (schema, table, body.type, names)
        if asked not in self._versions:
            self._versions[asked] = self.reading.versions.find(schema, table, row_columns(body, document))
        return self._versions[asked]

    def _row(self, name: str, number: int, held: dict[str, Any], row: Type | None) -> None:
        group = (name, row, tuple(held))
        self._rows.setdefault(group, []).append((number, held))
        self._types[group] = {} if row is None else row.fields

    def _key(self, number: int, key: Body | None, row: Type | None, document: bool) -> None:
        """The key columns of a row: by the key's own schema, else by that of the row."""
        if key is None or not key.content or not self.images:
            return
        if document and key.content.keys() == {"id"}:
            held = document_of(f'{{"_id":{key.content["id"]}}}')
            if held is not None:
                self._row("key", number, {"_id": held["_id"]}, None)
                return
        self._row("key", number, key.content, row if key.type is None else key.type)

    def _document(self, number: int, content: Mapping[str, Any]) -> None:
        """What MongoDB says that an update changed; without a document after it that is the after image (§2.4)."""
        described, patch = content.get("updateDescription"), self._described(number, content, "patch")
        if isinstance(described, dict):
            updated, removed = self._described(number, described, "updatedFields") or {}, described.get("removedFields")
        elif patch and any(name.startswith("$") for name in patch):
            updated, removed = document_of(patch.get("$set")) or {}, list(document_of(patch.get("$unset")) or {})
        elif patch:  # the document that replaces the one before
            self._row("after", number, patch, None)
            return
        else:
            return
        removed = removed if isinstance(removed, list) else []
        changed = list(dict.fromkeys(str(name).partition(".")[0] for name in [*updated, *removed]))
        self.put(number, changed_columns=changed)
        if document_of(content.get("after")) is None:
            self._row("after", number, {name: value for name, value in updated.items() if "." not in name}, None)

    def _described(self, number: int, content: Mapping[str, Any], name: str) -> dict[str, Any] | None:
        """A field that is a document of MongoDB; reports another value."""
        found, value = document_of(content.get(name)), content.get(name)
        if found is None and value is not None:
            self.note(number, Problem.VALUE, f"{name}: expected an object, found {plain(value)!r:.60}")
        return found

    def _time(self, number: int, fields: Mapping[str, Any]) -> int | None:
        """Microseconds since 1970: the finest of a message's times (§3.1); a time of 0 is null."""
        for name, factor, divisor in _TIMES:
            value = fields.get(name)
            if value is None or value == 0:
                continue
            if isinstance(value, int):
                if name == "ts_usec" and value > LATEST:
                    divisor = 1000  # nanoseconds
                micros = value * factor // divisor
                if 0 <= micros <= LATEST:
                    return micros
            sentence = f"{name}: expected a time of the years 1970 to 9999, found {plain(value):.60}"
            self.note(number, Problem.TIME_RANGE, sentence)
        return None

    # --- transactions and schema changes (§4, §5) ---------------------------------------------------------------------

    def _boundary(self, number: int, content: Mapping[str, Any]) -> None:
        """A transaction's begin has the number before its first event, its end the one after its last (§4.3)."""
        is_end = content["status"] == "END"
        count = _number(content.get("event_count"))
        transaction, position = transaction_of(content["id"])
        self.put(
            number,
            record_type=content["status"],
            kind=Kind.COMMIT if is_end else Kind.BEGIN,
            transaction_id=transaction,
            position=position,
            commit_position=position if is_end else None,
            last_in_transaction=is_end,
            event_no=0 if not is_end else None if count is None else count + 1,
        )

    def _schema_change(self, number: int, content: Mapping[str, Any]) -> None:
        source = source_of(content)
        schema, table = table_of(source)
        self.put(number, kind=Kind.SCHEMA, operation=Operation.DDL, position=position_of(source))
        version = None
        for schema, table, columns in described_tables(content):
            version = self.reading.versions.find(schema, table, columns)
        self.put(number, schema_name=schema, table_name=table, table_version=version)

    # --- columns ------------------------------------------------------------------------------------------------------

    def finish(self, messages: Messages) -> None:
        """Puts everything into the batch."""
        for group, rows in sorted(self._rows.items(), key=lambda item: item[0][0] == "key"):
            self._images(group, rows)
        for number in self._lacking & self._after.keys():
            names, absent, row = self._after[number]
            present = [name for at, name in enumerate(names) if absent is None or not absent[row, at]]
            self.put(number, present_columns=present)
        for name, values in self._columns.items():
            if values.count(None) == len(values):
                continue
            kind = model.EVENTS.field(name).type
            self.batch.put(name, text_array(values) if pa.types.is_string(kind) else pa.array(values, kind))
        if self.batch.wanted.needs("headers"):
            put_headers(self.batch, messages, self.batch.pool.add, self._own_headers())

    def _images(self, group: Any, rows: list[tuple[int, dict[str, Any]]]) -> None:
        """One image, or the key, of rows with the same columns."""
        image, _, names = group
        types = self._types[group]
        index = np.array([number for number, _ in rows], dtype=np.int64)
        columns = list(zip(*(row.values() for _, row in rows), strict=True)) if names else []
        masks = [None if image == "key" else absent_in(values, self.reading.unavailable) for values in columns]
        if image != "key" and all(is_cells(row) for _, row in rows):
            masks = [np.array([cell is None or not cell["set"] for cell in values]) for values in columns]
            columns = [tuple(None if cell is None else cell["value"] for cell in values) for values in columns]
        texts = []
        for name, values in zip(names, columns, strict=True):
            array, remarks = text_column(values, types.get(name), f"{image}.{name}")
            texts.append(array)
            for row, (code, sentence) in remarks:
                self.note(int(index[row]), code, sentence)
        absent = None
        if any(mask is not None and mask.any() for mask in masks):
            absent = np.stack([np.zeros(len(rows), np.bool_) if mask is None else mask for mask in masks], axis=1)
            self._lacking.update(index[absent.any(axis=1)].tolist())
        if image == "after":
            self._after |= {number: (names, absent, row) for row, number in enumerate(index.tolist())}
        self.batch.texts(image, names, texts, index, absent)

    def _own_headers(self) -> Iterator[tuple[Ints, Iterable[str], Ints]]:
        """The messages with the same fields, the names of these, and the numbers of the values: every field around the
        rows by its name; those of source and transaction are led by theirs."""
        for bodies in self._headers.values():
            names, columns = _header_columns([body for _, body in bodies])
            numbers = [self.batch.pool.add(column) for column in columns]
            index = np.array([number for number, _ in bodies], dtype=np.int64)
            yield index, names, np.reshape(numbers, (len(names), len(index))).T.astype(np.int64)


def _header_columns(bodies: Sequence[Body]) -> tuple[list[str], list[pa.StringArray]]:
    """The headers of messages with the same fields."""
    names: list[str] = []
    columns: list[Sequence[Any]] = []
    contents = [body.content for body in bodies]
    first = contents[0]
    if FLATTENED in first:
        contents = [content[FLATTENED] for content in contents]
        names, columns = list(contents[0]), list(zip(*(one.values() for one in contents), strict=True))
    for name, value in first.items() if FLATTENED not in first else ():
        if name in _GROUPS and isinstance(value, dict):
            names += [f"{name}.{inner}" for inner in value]
            columns += zip(*(content[name].values() for content in contents), strict=True) if value else ()
        elif name not in _IMAGES:
            names.append("statement" if name == "ddl" and "op" not in first else name)
            columns.append([content[name] for content in contents])
    if bodies[0].schema_id is not None:
        names.append("schemaId")
        columns.append([body.schema_id for body in bodies])
    return names, [text_column(values, None, "")[0] for values in columns]
