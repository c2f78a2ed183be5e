"""Avro messages of one batch, decoded column by column (docs/formats/qlik-kafka.md §2.2, §2.3 and §4)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import CaptureError
from cdcwb.formats.arrays import Ints
from cdcwb.formats.containers.avro import decode_one
from cdcwb.formats.containers.avro_schema import MARK, MEMBER, Schema, parse_schema
from cdcwb.formats.containers.avro_values import to_text
from cdcwb.formats.qlik_kafka.decode.rows import (
    Bools,
    Context,
    Document,
    Image,
    Parsed,
    Rows,
    hex_text,
    read_mask,
)
from cdcwb.formats.qlik_kafka.layout import ENVELOPE_SCHEMA, FRAME, IMAGES, MAGIC, MASKS
from cdcwb.formats.qlik_kafka.versions import Settings, TableName, Version, table_of
from cdcwb.model import Problem

__all__ = ["decode_confluent", "decode_enveloped", "decode_records"]


def decode_enveloped(values: pa.BinaryArray, index: Ints, context: Context) -> Parsed:
    """Messages in the Avro envelope; ``index`` are their numbers in the batch."""
    parsed = Parsed()
    decoded = context.versions.decoder(ENVELOPE_SCHEMA).decode(values)
    for at in np.flatnonzero(~decoded.ok).tolist():
        parsed.bad.append((int(index[at]), f"Avro envelope: {decoded.reason(at)}"))
    good = np.flatnonzero(decoded.ok)
    envelope = decoded.column.take(pa.array(good))
    kinds, ids = envelope.field("type"), envelope.field("messageSchemaId")
    texts, payloads, index = envelope.field("messageSchema"), envelope.field("message"), index[good]
    data = pc.equal(kinds, "DT").to_numpy(zero_copy_only=False)
    metadata = pc.equal(kinds, "MD").to_numpy(zero_copy_only=False)
    for at in np.flatnonzero(~data & ~metadata).tolist():
        parsed.bad.append((int(index[at]), f"expected the message type DT or MD, found {kinds[at].as_py()!r:.60}"))
    for at in np.flatnonzero(metadata).tolist():
        _metadata(parsed, int(index[at]), ids[at].as_py(), texts[at].as_py(), payloads[at].as_py())
    around = to_text(envelope.field("headers"))
    for schema_id, text, said, rows in _groups(ids, texts, around, np.flatnonzero(data)):
        version = context.versions.by_schema_id.get(schema_id) if schema_id is not None else None
        if version is None and text is not None:
            version = context.versions.by_text.get(text)
        written = text or (version.text if version is not None else None) or context.settings.avro_schema
        outer = {"magic": MAGIC, "type": "DT", "messageSchemaId": schema_id}
        if text is not None:
            outer["messageSchema"] = text
        if said is not None:
            outer.update({f"envelope.{name}": value for name, value in json.loads(said).items()})
        if written is None:
            why = f"the metadata message of schema {schema_id} is not in the capture"
            _waiting(parsed, index[rows], "DT", outer, Problem.NO_SCHEMA, why)
            continue
        part = payloads.take(pa.array(rows))
        _records(parsed, "DT", outer, part, 0, index[rows], written, version, context)
    return parsed


def decode_confluent(values: pa.BinaryArray, index: Ints, context: Context) -> Parsed:
    """Messages with the Confluent framing."""
    parsed = Parsed()
    for registry_id, rows in by_registry_id(values):
        version = context.versions.by_registry_id.get(registry_id)
        outer = {"schemaId": str(registry_id)}
        if version is None or version.text is None or version.problem:
            code, why = Problem.NO_REGISTRY, f"the registry has no schema {registry_id}, or none was given"
            if version is not None and version.problem:
                code, why = Problem.SCHEMA_TEXT, version.problem
            _waiting(parsed, index[rows], "DataRecord", outer, code, why)
            continue
        part = values.take(pa.array(rows))
        _records(parsed, "DataRecord", outer, part, FRAME, index[rows], version.text, version, context)
    return parsed


def by_registry_id(values: pa.BinaryArray) -> list[tuple[int, Ints]]:
    """The rows of each registry id, in the order of the ids. Every value has at least :data:`FRAME` bytes."""
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)[values.offset : values.offset + len(values)]
    data = np.frombuffer(values.buffers()[2], dtype=np.uint8)
    ids = np.zeros(len(values), dtype=np.int64)
    for at in range(1, FRAME):
        ids = ids << 8 | data[offsets.astype(np.int64) + at]
    return [(int(one), np.flatnonzero(ids == one)) for one in np.unique(ids)]


def decode_records(values: pa.BinaryArray, index: Ints, text: str, context: Context) -> Parsed:
    """Messages without a frame, all written with one Avro schema."""
    parsed = Parsed()
    version = context.versions.by_text.get(text)
    _records(parsed, "DataRecord", {}, values, 0, index, text, version, context)
    return parsed


def _groups(
    ids: pa.Array, texts: pa.Array, around: pa.Array, rows: Ints
) -> list[tuple[str | None, str | None, str | None, Ints]]:
    """The rows with the same schema id, schema text and headers around the message (as JSON)."""
    if not len(rows):
        return []
    chosen = pa.array(rows)
    names = {"id": ids, "text": texts, "around": around}
    table = pa.table({name: column.take(chosen) for name, column in names.items()} | {"row": chosen})
    grouped = table.group_by(list(names), use_threads=False).aggregate([("row", "list")]).to_pylist()
    return [(one["id"], one["text"], one["around"], np.array(one["row_list"], dtype=np.int64)) for one in grouped]


def _metadata(parsed: Parsed, number: int, schema_id: str | None, text: str | None, payload: bytes) -> None:
    if text is None:
        parsed.bad.append((number, "a metadata message in Avro without its writer schema"))
        return
    outer = {"magic": MAGIC, "type": "MD", "messageSchemaId": schema_id}
    try:
        schema = parse_schema(text)
    except CaptureError as reason:
        parsed.metadata.append((number, Document("MD", outer, {}, {}, None, None, str(reason))))
        return
    try:
        body, used = decode_one(schema, payload)
    except (CaptureError, ValueError, EOFError) as reason:
        parsed.bad.append((number, f"metadata message: {reason}"))
        return
    if not isinstance(body, dict) or used != len(payload):
        parsed.bad.append((number, f"metadata message: expected a record of {len(payload)} bytes, {used} were used"))
        return
    parsed.metadata.append((number, Document("MD", outer, body, {}, None, None)))


def _waiting(parsed: Parsed, index: Ints, record_type: str, outer: dict[str, Any], code: Problem, why: str) -> None:
    """Messages whose schema is not known: kept as changes of which nothing is known but what stands around them."""
    count = len(index)
    names = list(outer)
    headers = [pa.array([outer[name]] * count, pa.string()) for name in names]
    problems = [(row, code, why) for row in range(count)]
    parsed.rows.append(
        Rows(index, record_type, None, None, None, names, headers, (None, None), "big", None, None, problems=problems)
    )


def _records(
    parsed: Parsed,
    record_type: str,
    outer: dict[str, Any],
    values: pa.BinaryArray,
    start: int,
    index: Ints,
    text: str,
    version: Version | None,
    context: Context,
) -> None:
    """Decodes DataRecords that were written with one schema, from byte ``start`` of each value on."""
    try:
        schema = context.versions.schema(text)
        _check(schema)
    except CaptureError as reason:
        _waiting(parsed, index, record_type, outer, Problem.SCHEMA_TEXT, str(reason))
        return
    wanted, images = None, context.images
    if images is not True and not _needs_rows(version, context.settings):
        wanted = (*_around(schema), *(_in_images(schema, images) if isinstance(images, frozenset) else ()))
    begins = np.full(len(values), start, dtype=np.int64) if start else None
    decoded = context.versions.decoder(text, wanted).decode(values, begins)
    bad = np.flatnonzero(~decoded.ok)
    parsed.bad.extend((int(index[at]), f"Avro data record: {decoded.reason(at)}") for at in bad.tolist())
    if len(bad) == len(index):
        return
    column = decoded.column
    if len(bad):
        good = np.flatnonzero(decoded.ok)
        column, index = column.take(pa.array(good)), index[good]
    names = [one.name for one in column.type]
    before = _valid(column, "beforeData", names) & bool(images)
    data = _valid(column, "data", names) & bool(images)
    for has_data in (True, False):
        for has_before in (True, False):
            rows = np.flatnonzero((data == has_data) & (before == has_before))
            if not len(rows):
                continue
            part = column if len(rows) == len(index) else column.take(pa.array(rows))
            made = _rows(record_type, outer, part, index[rows], names, has_data, has_before, version, context.settings)
            parsed.rows.extend(
                [made] if version is not None and version.table_name else _named(made, part, names, version, context)
            )


def _check(schema: Schema) -> None:
    """Raises CaptureError for a schema that is none of data messages: headers and images are records (§4.1)."""
    if not {"data", "headers"} <= set(schema.fields):
        raise CaptureError(f"expected a DataRecord with data and headers, found the fields {', '.join(schema.fields)}")
    for name in ("headers", *IMAGES):
        if name in schema.fields and not _is_record(schema.arrow.field(name).type):
            raise CaptureError(f"expected a DataRecord whose {name} is a record, found {schema.arrow.field(name).type}")


def _is_record(kind: pa.DataType) -> bool:
    """Is it the type of a record, and not of a union of several types?"""
    return pa.types.is_struct(kind) and all((one.metadata or {}).get(MARK) != MEMBER for one in kind)


def _in_images(schema: Schema, wanted: frozenset[str]) -> list[str]:
    """The wanted columns of both images; of an image without any the first, to know whether there is a row."""
    found = []
    for image in (name for name in IMAGES if name in schema.fields):
        columns = [one.name for one in schema.arrow.field(image).type]
        chosen = [name for name in columns if name in wanted] or columns[:1]
        found += [f"{image}.{name}" for name in chosen] or [image]
    return found


def _around(schema: Schema) -> tuple[str, ...]:
    return tuple(name for name in schema.fields if name not in IMAGES)


def _needs_rows(version: Version | None, settings: Settings) -> bool:
    """Is a column of the row what names its table?"""
    return (version is None or version.table_name is None) and "column" in settings.places


def _valid(column: pa.StructArray, name: str, names: Sequence[str]) -> Bools:
    if name not in names:
        return np.zeros(len(column), dtype=np.bool_)
    found: Bools = pc.is_valid(column.field(name)).to_numpy(zero_copy_only=False)
    return found


def _rows(
    record_type: str,
    outer: dict[str, Any],
    column: pa.StructArray,
    index: Ints,
    names: Sequence[str],
    has_data: bool,
    has_before: bool,
    version: Version | None,
    settings: Settings,
) -> Rows:
    count = len(index)
    headers = column.field("headers")
    header_names = [*outer]
    texts = [pa.repeat(pa.scalar(value, pa.string()), count) for value in outer.values()]
    for name in names:
        if name not in (*IMAGES, "headers"):
            header_names.append(name)
            texts.append(to_text(column.field(name)))
    own = len(header_names)
    masks: dict[str, pa.BinaryArray] = {}
    problems: list[tuple[int, Problem, str]] = []
    order = settings.mask_order
    for one in headers.type:
        field = headers.field(one.name)
        header_names.append(one.name)
        if one.name in MASKS and pa.types.is_binary(one.type):
            masks[one.name] = field
            texts.append(hex_text(field))
            continue
        texts.append(to_text(field))
        if one.name in MASKS:  # an older schema may hold them as hexadecimal text
            masks[one.name], order = read_mask(one.name, texts[-1], problems), "big"
    return Rows(
        index,
        record_type,
        version,
        None if version is None else version.schema_name,
        None if version is None else version.table_name,
        header_names,
        texts,
        (masks.get("changeMask"), masks.get("columnMask")),
        order,
        _image(column.field("data")) if has_data else None,
        _image(column.field("beforeData")) if has_before else None,
        problems=problems,
        own=own,
    )


def _image(record: pa.StructArray) -> Image:
    names = [one.name for one in record.type]
    return Image(names, len(record), columns=[record.field(name) for name in names])


def _named(
    rows: Rows,
    column: pa.StructArray,
    names: Sequence[str],
    version: Version | None,
    context: Context,
) -> list[Rows]:
    """The rows of a version that names no table, parted by the table that their messages name."""
    around = [name for name in names if name not in (*IMAGES, "headers")]
    bodies = {name: column.field(name).to_pylist() for name in around}
    named = {name: rows.header(name) for name in ("schema", "table")}
    inner = {name: texts.to_pylist() for name, texts in named.items() if texts is not None}
    image = rows.data or rows.before
    parts: dict[TableName, list[int]] = {}
    for at, number in enumerate(rows.index.tolist()):
        facts, key = context.places(number)
        body = {name: values[at] for name, values in bodies.items()}
        row = {} if image is None or "column" not in context.settings.places else image.row(at)
        table = table_of(context.settings, body, {name: values[at] for name, values in inner.items()}, row, facts, key)
        parts.setdefault(table, []).append(at)
    if len(parts) == 1:
        table = next(iter(parts))
        rows.schema_name, rows.table_name = table.schema, table.table
        return [rows]
    return [_part(rows, np.array(chosen), table) for table, chosen in parts.items()]


def _part(rows: Rows, chosen: Ints, table: TableName) -> Rows:
    taken = pa.array(chosen)
    return Rows(
        rows.index[chosen],
        rows.record_type,
        rows.version,
        table.schema,
        table.table,
        rows.header_names,
        [texts.take(taken) for texts in rows.headers],
        (_take(rows.masks[0], taken), _take(rows.masks[1], taken)),
        rows.mask_order,
        None if rows.data is None else rows.data.take(chosen),
        None if rows.before is None else rows.before.take(chosen),
        own=rows.own,
    )


def _take(values: pa.Array | None, chosen: pa.Array) -> pa.Array | None:
    return None if values is None else values.take(chosen)
