"""``events`` from Debezium's messages (docs/formats/debezium.md §2 to §8)."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import batch_of, columns_of
from cdcwb.formats.avro.text import float_text
from cdcwb.formats.containers.kafka_rows import Where
from cdcwb.formats.containers.messages import NOT_MESSAGES, Messages, key_texts
from cdcwb.formats.debezium.envelope import envelopes_of
from cdcwb.formats.debezium.layout import OPERATIONS, TIMES, UNAVAILABLE, Clock, position_of, transaction_of
from cdcwb.formats.debezium.table import Versions, described_tables, is_cells, is_of, row_type, shape_of
from cdcwb.formats.dissector import Wanted
from cdcwb.formats.messages.connect import Body, Broken, Remark, Schemas, Type, bodies_of, plain, reader
from cdcwb.formats.moments import LATEST
from cdcwb.model import Kind, Operation, Problem

__all__ = [
    "FORMAT",
    "Event",
    "Reading",
    "document_of",
    "events_of",
    "form_of",
    "is_document",
    "rows_of",
    "table_of",
    "text_of",
    "without_value",
]


def document_of(value: Any) -> dict[str, Any] | None:
    """A MongoDB document, which is a text in JSON, as its fields (§2.4); None where it is none."""
    if isinstance(value, dict) or value is None:
        return value
    try:
        found = reader.parse(str(value).encode("utf-8", "replace"))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def text_of(value: Any, kind: Type | None, remarks: list[Remark], name: str = "") -> str | None:
    """A value as text that loses nothing (§7); without its type as it is written. ``name`` is that of its column, for
    ``remarks``, which get what is no value of the type."""
    if value is None:
        return None
    if kind is not None:
        clock = TIMES.get(kind.name or "")
        try:
            if clock is not None and isinstance(value, int) and not isinstance(value, bool):
                return _moment(value, clock)
            if kind.name == "org.apache.kafka.connect.data.Decimal" and isinstance(value, (str, bytes)):
                return _decimal(value, int(kind.parameters.get("scale") or 0))
            if kind.name == "io.debezium.data.VariableScaleDecimal" and isinstance(value, dict):
                return _decimal(value["value"], int(value["scale"]))
            if kind.kind == "bytes" and isinstance(value, str):
                return base64.b64decode(value, validate=True).hex()
        except OverflowError as reason:
            remarks.append((Problem.TIME_RANGE, f"{name}: {reason}"))
        except (ValueError, KeyError, TypeError, ArithmeticError, binascii.Error):
            remarks.append((Problem.VALUE, f"{name}: expected a value of {kind.spelled}, found {plain(value)!r:.60}"))
        if isinstance(value, float):
            return float_text(value, single=kind.kind == "float")
        if kind.kind == "map" and isinstance(value, list):
            value = dict(value)
        if kind.item is not None and isinstance(value, list) and (kind.item.name or kind.item.kind == "bytes"):
            value = [text_of(one, kind.item, remarks, name) for one in value]
    return plain(value)


def _decimal(value: str | bytes, scale: int) -> str:
    if abs(scale) > 10_000:  # its text would be as long
        raise ValueError
    raw = base64.b64decode(value, validate=True) if isinstance(value, str) else value
    unscaled = int.from_bytes(raw, "big", signed=True)
    return f"{Decimal(f'{unscaled}E{-scale}'):f}"


_DAY: Final = 86_400
_EPOCH: Final = dt.date(1970, 1, 1).toordinal()


def _moment(value: int, clock: Clock) -> str:
    """ISO 8601; a time of day may be negative or longer than a day, as MySQL's are. Raises OverflowError for a date
    outside the years 1 to 9999."""
    seconds, fraction = divmod(abs(value) if clock.kind == "time" else value, 10**clock.digits)
    digits = f".{fraction:0{clock.digits}}" if clock.digits else ""
    if clock.kind == "time":
        return f"{'-' if value < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{digits}"
    days, second = (seconds, 0) if clock.kind == "date" else divmod(seconds, _DAY)
    if not 0 < _EPOCH + days <= dt.date.max.toordinal():
        raise OverflowError(f"expected a date of the years 1 to 9999, found {value}")
    day = dt.date.fromordinal(_EPOCH + days).isoformat()
    if clock.kind == "date":
        return day
    return f"{day}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}{digits}"


# --- events -----------------------------------------------------------------------------------------------------------

FORMAT: Final = "debezium"

Event = dict[str, Any]
"""A row of :data:`cdcwb.model.EVENTS` without its location and bytes; columns that are missing are null."""

_IMAGES: Final = frozenset({"key", "before", "after", "changed_columns", "present_columns", "problems"})
_TIMES: Final = (("ts_ns", 1, 1000), ("ts_us", 1, 1), ("ts_ms", 1000, 1), ("ts_usec", 1, 1), ("ts_sec", 1_000_000, 1))


@dataclass(frozen=True)
class Reading:
    """How messages are read: the schemas of the registry, the versions of tables, and the placeholder of a value that
    was not captured. ``bare``: the Avro schema of values without a frame, which their file names. ``table``: images are
    needed of this table only, and headers of none (None: of all)."""

    schemas: Schemas
    versions: Versions
    unavailable: str = UNAVAILABLE
    bare: str | None = None
    table: str | None = None


def events_of(messages: Messages, where: Where, reading: Reading, wanted: Wanted) -> pa.RecordBatch:
    """The events of one batch of messages."""
    given = {"format": FORMAT, **where.columns(messages), "raw": None}
    if wanted.raw:
        message = messages.state == 0
        raw = messages.value if message.all() else pc.if_else(pa.array(message), messages.value, messages.source)
        given["raw"] = raw
    rows = rows_of(messages, reading, wanted.images and wanted.needs(*_IMAGES))
    return batch_of(rows, given, wanted)


def rows_of(messages: Messages, reading: Reading, images: bool) -> list[Event]:
    """The events of one batch of messages as dictionaries; without ``images`` they have none."""
    remarks: dict[int, list[Remark]] = {}
    values = envelopes_of(messages.value, reading.schemas, remarks, reading.bare)
    keys = bodies_of(messages.key, reading.schemas, {}) if images else [None] * len(values)
    facts = {name: texts.to_pylist() for name, texts in columns_of(messages.facts).items()}
    if messages.key.null_count < len(values):
        facts["kafka.key"] = key_texts(messages.key).to_pylist()
    rows = []
    for number, (value, key) in enumerate(zip(values, keys, strict=True)):
        found = remarks.get(number, [])
        state = int(messages.state[number])
        if state:
            kind, code = NOT_MESSAGES[state]
            reason = messages.reasons.get(number, "bytes that are not a message")
            row: Event = {"kind": kind} if code is None else {**_malformed(code, reason), "kind": kind}
        else:
            row = _event(value, key if isinstance(key, Body) else None, reading, images, found)
            headers = row.setdefault("headers", {})
            headers.update({name: texts[number] for name, texts in facts.items() if texts[number] is not None})
            row["headers"] = headers or None
        if found:
            row["problems"] = [*row.get("problems", ()), *({"code": code, "detail": text} for code, text in found)]
        rows.append(row)
    return rows


def _malformed(code: Problem, reason: str) -> Event:
    return {"kind": Kind.MALFORMED, "problems": [{"code": code, "detail": reason}]}


def form_of(content: Mapping[str, Any]) -> str:
    """What a message is (§1.1): ``change``, ``transaction``, ``schema change``, ``heartbeat`` or ``notification``.

    Raises ValueError that says what is missing for what is none of them.
    """
    if isinstance(content.get("op"), str) and not content.keys().isdisjoint(("source", "before", "after")):
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
        "(ExtractNewRecordState) has no envelope: capture the topic without that transformation"
    )


def _event(
    value: Body | Broken | None, key: Body | None, reading: Reading, images: bool, remarks: list[Remark]
) -> Event:
    if isinstance(value, Broken):
        return _malformed(value.code, value.reason)
    if value is None:
        return {"kind": Kind.TOMBSTONE, "key": _key(key, None, False, remarks)}
    try:
        form = form_of(value.content)
    except ValueError as reason:
        return _malformed(Problem.MALFORMED, str(reason))
    if form == "change":
        return _change(value, key, reading, images, remarks)
    row: Event = {"record_type": form, "kind": Kind.CONTROL, "headers": _headers(value)}
    row["changed_at"] = _time(value.content, remarks)
    if form == "transaction":
        _boundary(row, value.content)
    elif form == "schema change":
        _schema_change(row, value.content, reading.versions)
    elif form == "heartbeat":
        row["kind"] = Kind.HEARTBEAT
    return row


# --- changes (§2) -----------------------------------------------------------------------------------------------------


def table_of(source: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Schema and table of a change; keyspace or database, and collection, where the source has no others (§3.1)."""
    schema = source.get("schema") or source.get("keyspace") or source.get("db")
    table = source.get("table") or source.get("collection")
    return (plain(schema) if schema and table else None), (plain(table) if table else None)


def is_document(source: Mapping[str, Any]) -> bool:
    """Are the rows of this source documents?"""
    return source.get("connector") == "mongodb"


def _change(body: Body, key: Body | None, reading: Reading, images: bool, remarks: list[Remark]) -> Event:
    content = body.content
    source = content.get("source")
    source = source if isinstance(source, dict) else {}
    op = content["op"]
    operation: str | None = OPERATIONS.get(op)
    is_message = op == "m"
    if operation is None and not is_message:
        operation = f"UNKNOWN({op})"
        remarks.append((Problem.VALUE, f"op: expected one of {', '.join(OPERATIONS)}, found {op!r:.60}"))
    schema, table = table_of(source)
    if table is None and not is_message:
        lacking = "source has no table" if source else "the message has no source, which names the table"
        remarks.append((Problem.NO_SCHEMA, lacking))
    loaded = operation == Operation.REFRESH
    row: Event = {
        "record_type": op,
        "kind": Kind.CONTROL if is_message else Kind.CHANGE,
        "operation": operation,
        "position": None if loaded else position_of(source),
        "changed_at": _time(source, remarks),
        "schema_name": None if is_message else schema,
        "table_name": None if is_message else table,
        "headers": _headers(body) if reading.table is None else {},
    }
    block = content.get("transaction")
    block = block if isinstance(block, dict) else {}
    if not loaded:
        row["transaction_id"], _ = transaction_of(block.get("id"), source)
        row["event_no"] = _number(block.get("total_order"))
    if is_message:
        return row
    document = is_document(source)
    version = reading.versions.find(schema, table, shape_of(body, document))
    row["table_version"] = None if version is None else version.table_version
    if images and (reading.table is None or is_of(reading.table, schema, table)):
        _images(row, body, key, document, reading.unavailable, remarks)
    return row


def _images(row: Event, body: Body, key: Body | None, document: bool, unavailable: str, remarks: list[Remark]) -> None:
    content, kind = body.content, row_type(body)
    types = {} if kind is None else kind.fields
    lacking: set[str] = set()
    for name in ("before", "after"):
        image = content.get(name)
        held = document_of(image) if document else image
        if held is None:
            continue
        if not isinstance(held, dict):
            remarks.append((Problem.VALUE, f"{name}: expected an object, found {plain(image)!r:.60}"))
            continue
        absent = without_value(held, unavailable)
        if is_cells(held):
            absent = {column for column, cell in held.items() if cell is None or not cell["set"]}
            held = {column: None if cell is None else cell["value"] for column, cell in held.items()}
        lacking |= absent
        row[name] = {
            column: text_of(value, types.get(column), remarks, f"{name}.{column}")
            for column, value in held.items()
            if column not in absent
        }
    if lacking and row.get("after") is not None:
        row["present_columns"] = list(row["after"])
    if document:
        _document(row, content)
    row["key"] = _key(key, types, document, remarks)


def _document(row: Event, content: Mapping[str, Any]) -> None:
    """What MongoDB says that an update changed; without a document after it that is the after image (§2.4)."""
    described = content.get("updateDescription")
    if not isinstance(described, dict):
        return
    updated, removed = document_of(described.get("updatedFields")) or {}, described.get("removedFields")
    removed = removed if isinstance(removed, list) else []
    row["changed_columns"] = list(dict.fromkeys(str(name).partition(".")[0] for name in [*updated, *removed]))
    if row.get("after") is None:
        row["after"] = {name: text_of(value, None, []) for name, value in updated.items() if "." not in name}


def _key(
    key: Body | None, types: Mapping[str, Type] | None, document: bool, remarks: list[Remark]
) -> dict[str, str | None] | None:
    """The key columns of a row: by the key's own schema, else by that of the row."""
    if key is None or not key.content:
        return None
    if document and key.content.keys() == {"id"}:
        held = document_of(f'{{"_id":{key.content["id"]}}}')
        if held is not None:
            return {"_id": text_of(held["_id"], None, remarks)}
    own = (types or {}) if key.type is None else key.type.fields
    return {name: text_of(value, own.get(name), remarks, f"key.{name}") for name, value in key.content.items()}


def without_value(image: Mapping[str, Any], unavailable: str) -> set[str]:
    """The columns of an image whose value was not captured (§8.3)."""
    texts, others = _spelled(unavailable)
    found = set()
    for name, value in image.items():
        if isinstance(value, (str, bytes)):
            if value in texts:
                found.add(name)
        elif isinstance(value, (list, dict)) and value in others:
            found.add(name)
    return found


@lru_cache
def _spelled(unavailable: str) -> tuple[frozenset[str | bytes], list[Any]]:
    """How the placeholder is written: texts and bytes; arrays and maps."""
    raw, pair = unavailable.encode(), {unavailable: unavailable}
    uuid = UUID(bytes=hashlib.md5(raw, usedforsecurity=False).digest(), version=3)
    texts: set[str | bytes] = {unavailable, raw, base64.b64encode(raw).decode(), msgspec.json.encode(pair).decode()}
    numbers = [byte - (byte & 0x80) * 2 for byte in raw]
    return frozenset(texts), [numbers, pair, [str(uuid)], *([text] for text in texts)]


def _headers(body: Body) -> dict[str, str | None]:
    """Every field around the row by its name; those of source and transaction are led by theirs."""
    found: dict[str, str | None] = {}
    for name, value in body.content.items():
        if name in ("source", "transaction", "message", "cloudevent") and isinstance(value, dict):
            found.update({f"{name}.{inner}": text_of(one, None, []) for inner, one in value.items()})
        elif name not in ("before", "after"):
            found[name] = text_of(value, None, [])
    if body.schema_id is not None:
        found["schemaId"] = str(body.schema_id)
    return found


def _number(value: Any) -> int | None:
    text = str(value)
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text, re.ASCII) else None


def _time(fields: Mapping[str, Any], remarks: list[Remark]) -> int | None:
    """Microseconds since 1970: the finest of a message's times (§3.1); a time of 0 is null."""
    for name, factor, divisor in _TIMES:
        value = fields.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value == 0:
            continue
        if name == "ts_usec" and value > LATEST:
            divisor = 1000  # nanoseconds
        micros = value * factor // divisor
        if 0 <= micros <= LATEST:
            return micros
        remarks.append((Problem.TIME_RANGE, f"{name}: expected a time of the years 1970 to 9999, found {value}"))
    return None


# --- transactions and schema changes (§4, §5) -------------------------------------------------------------------------


def _boundary(row: Event, content: Mapping[str, Any]) -> None:
    """A transaction's begin has the number before its first event, its end the one after its last (§4.3)."""
    is_end = content["status"] == "END"
    count = _number(content.get("event_count"))
    row["record_type"], row["kind"] = content["status"], Kind.COMMIT if is_end else Kind.BEGIN
    row["transaction_id"], row["position"] = transaction_of(content["id"])
    row["commit_position"] = row["position"] if is_end else None
    row["last_in_transaction"] = is_end
    row["event_no"] = 0 if not is_end else None if count is None else count + 1


def _schema_change(row: Event, content: Mapping[str, Any], versions: Versions) -> None:
    source = content.get("source")
    source = source if isinstance(source, dict) else {}
    row.update(kind=Kind.SCHEMA, operation=Operation.DDL, position=position_of(source))
    row["schema_name"], row["table_name"] = table_of(source)
    row["headers"]["statement"] = row["headers"].pop("ddl", None)
    for one in described_tables(content):
        row["schema_name"], row["table_name"] = one.schema_name, one.table_name
        version = versions.find(one.schema_name, one.table_name, one.shape)
        row["table_version"] = None if version is None else version.table_version
