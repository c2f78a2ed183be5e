"""The field tree of an Avro message: envelope, Confluent framing, or the bare record
(docs/formats/qlik-kafka.md §2.2, §2.3, §3.4, §4 and §7.3).

:func:`cdcwb.formats.avro.walk.anatomy` gives every byte its field; here the fields get their meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from cdcwb.errors import CaptureError
from cdcwb.formats.avro.schema import Primitive, Record, Schema, Union, parse_schema
from cdcwb.formats.avro.walk import anatomy
from cdcwb.formats.base import Field
from cdcwb.formats.qlik_kafka.fields.json import Resolve
from cdcwb.formats.qlik_kafka.layout import (
    COLUMN_FACTS,
    ENVELOPE,
    ENVELOPE_SCHEMA,
    FRAME,
    IMAGES,
    MASKS,
    METADATA,
    Column,
    Meaning,
    Row,
    header,
    image_meaning,
    mask_bytes,
    mask_children,
    mask_meaning,
    row_meaning,
    sequence_children,
)
from cdcwb.model import Problem
from cdcwb.words import visible

__all__ = ["bare", "enveloped", "framed"]

Columns = Sequence[Column] | None

_INDEX: Final = "union index"


def enveloped(value: bytes, resolve: Resolve | None, order: str, columns: Columns) -> Field:
    """The tree of a value in Qlik's envelope."""
    found = anatomy(parse_schema(ENVELOPE_SCHEMA), value)
    parts = {field.name: field for field in found.children}
    kind = parts["type"].value if "type" in parts else None
    broken = found.problem is not None or _has_problem(found.children)
    if broken or kind not in ("DT", "MD"):
        fields = [_envelope_field(field, field.name) for field in found.children]
        said = found.meaning if broken else f"expected the message type DT or MD, found {kind!r:.60}"
        problem = None if _has_problem(fields) else Problem.MALFORMED
        return Field("message", 0, len(value), value, None, said, tuple(fields), problem)
    message = parts["message"]
    schema_id, text = parts["messageSchemaId"].value, parts["messageSchema"].value
    if text is None and kind == "DT" and resolve is not None:
        text = (None if schema_id is None else resolve(schema_id)) or resolve("")
    start = message.children[-1].offset
    if text is None:
        said = "cannot be read without its schema, which is not in the capture"
        code = Problem.NO_SCHEMA if kind == "DT" else Problem.MALFORMED
        inside = [replace(message.children[-1], name="record", value=None, meaning=said, problem=code)]
        operation = ""
    else:
        inside, operation = _record(value, start, text, order, columns, kind)
    fields = [_envelope_field(field, field.name) for field in found.children[:-1]]
    meaning = ENVELOPE["message"]
    fields.append(replace(message, value=None, meaning=meaning, children=(*message.children[:-1], *inside)))
    said = "a data message" if kind == "DT" else "a metadata message, one version of a table's structure,"
    said, problem = f"{said} as Avro in Qlik's envelope{operation}", None
    lacks = _lacks(inside) if kind == "MD" and not _has_problem(fields) else None
    if lacks is not None:
        said, problem = lacks, Problem.SCHEMA_TEXT
    return Field(kind, 0, len(value), value, None, said, tuple(fields), problem)


def _lacks(fields: Sequence[Field]) -> str | None:
    """What a metadata message lacks or repeats, so that it describes no table; None where it is whole."""
    parts = {field.name: field for field in fields}
    if "schemaId" not in parts or not parts["schemaId"].value:
        return "the metadata message has no schemaId"
    structure = {field.name: field for field in _inner(parts["tableStructure"])} if "tableStructure" in parts else {}
    if "tableColumns" not in structure or _is_null(structure["tableColumns"]):
        return "expected tableStructure.tableColumns, found none"
    ordinals = []
    for column in _inner(structure["tableColumns"]):
        facts = {field.name: field.value for field in _inner(column)}
        if facts.get("ordinal") is None:
            return f"column {visible(column.name, 40)}: expected an ordinal from 1 on, found none"
        ordinals.append(facts["ordinal"])
    return "two columns have one ordinal" if len(set(ordinals)) < len(ordinals) else None


def framed(value: bytes, resolve: Resolve | None, order: str, columns: Columns) -> Field:
    """The tree of a value with the Confluent framing: a zero byte, the schema's id, the record."""
    number = str(int.from_bytes(value[1:FRAME], "big"))
    text = None if resolve is None else resolve(number)
    meaning, problem = "big-endian: the schema's id in the registry", None
    if text is None:
        meaning, problem = f"{meaning}, which is unknown", Problem.NO_REGISTRY
        rest = value[FRAME:]
        inside = [Field("record", FRAME, len(rest), rest, None, "cannot be read without its schema")]
        operation = ""
    else:
        inside, operation = _record(value, FRAME, text, order, columns)
    frame = (
        Field("magic byte", 0, 1, value[:1], "0", "first byte of Confluent's framing"),
        Field("schema id", 1, 4, value[1:FRAME], number, meaning, (), problem),
    )
    said = f"a data message as Avro in Confluent's framing{operation}"
    return Field("DataRecord", 0, len(value), value, None, said, (*frame, *inside))


def bare(value: bytes, text: str, order: str, columns: Columns) -> Field:
    """The tree of a value that is nothing but a record in Avro."""
    inside, operation = _record(value, 0, text, order, columns)
    said = f"a data message as Avro without a frame{operation}"
    return Field("DataRecord", 0, len(value), value, None, said, tuple(inside))


def _envelope_field(field: Field, name: str) -> Field:
    shown = "atMSG" if name == "magic" and field.raw == b"atMSG" else field.value
    meaning = ENVELOPE.get(name, field.meaning) if field.problem is None else field.meaning
    return _damaged(replace(field, value=shown, meaning=meaning))


def _has_problem(fields: Sequence[Field]) -> bool:
    return any(one.problem is not None for field in fields for one in field.walk())


def _damaged(field: Field) -> Field:
    """The field with every problem of Avro's as what it makes the message: malformed."""
    problem = None if field.problem is None else Problem.MALFORMED
    return replace(field, problem=problem, children=tuple(_damaged(child) for child in field.children))


# --- the record -------------------------------------------------------------------------------------------------------


def _record(
    value: bytes, start: int, text: str, order: str, columns: Columns, kind: str = "DT"
) -> tuple[list[Field], str]:
    """The fields of the record in ``value[start:]`` that was written with the schema ``text``, and what it does."""
    try:
        schema = parse_schema(text)
        if kind == "DT":
            _check(schema)
        found = anatomy(schema, value, start)
    except CaptureError as reason:
        rest = value[start:]
        return [Field("record", start, len(rest), rest, None, str(reason), (), Problem.SCHEMA_TEXT)], ""
    fields = [_damaged(field) for field in found.children]
    if found.problem is not None and not _has_problem(fields):
        fields.append(Field("undecoded", len(value), 0, b"", None, found.meaning, (), Problem.MALFORMED))
    tree = _Record(fields, order, columns)
    operation = f": {header('operation', tree.row.operation)[0]}" if tree.row.operation is not None else ""
    return [tree.field(field) for field in fields], operation


def _check(schema: Schema) -> None:
    """Raises CaptureError for a schema that is none of data messages: headers and images are records (§4.1)."""
    for name in ("headers", *IMAGES):
        node = schema.root.fields.get(name)
        members = node.members if isinstance(node, Union) else [node]
        others = [one for one in members if not (isinstance(one, Primitive) and one.kind == "null")]
        is_missing = node is None and name == "beforeData"
        if not is_missing and not (len(others) == 1 and isinstance(others[0], Record)):
            raise CaptureError(f"expected the schema of a data message, in which {name} is a record")


class _Record:
    """Gives the fields of a record their meaning; of a damaged one only what contradicts nothing else."""

    def __init__(self, fields: Sequence[Field], order: str, columns: Columns) -> None:
        self.order = order
        self.broken = _has_problem(fields)
        parts = {field.name: field for field in fields}
        headers = {field.name: field for field in _inner(parts["headers"])} if "headers" in parts else {}
        images = [_texts(parts.get(name)) for name in IMAGES]
        known = [(name, None) for name in images[0] or images[1] or ()] if columns is None else columns
        operation = headers["operation"].value if "operation" in headers else None
        self.row = Row(operation, known, images[0], images[1], *(self.mask(headers.get(name)) for name in MASKS))

    def mask(self, field: Field | None) -> int | None:
        """The bits of a mask as a number; None where there is none. Older schemas have it as hexadecimal text."""
        if field is None or field.value is None:
            return None
        held = field.children[-1].raw if field.children else field.raw
        if field.value != held.hex():
            data = mask_bytes(field.value)
            return None if data is None else int.from_bytes(data, "big")
        return int.from_bytes(held, "big" if self.order == "big" else "little")

    def field(self, field: Field) -> Field:
        """A field of the record, with its meaning."""
        if field.name in IMAGES:
            said = row_meaning(self.row.operation, field.name, _is_null(field))
            return self.put(field, (said, None), self.column)
        if field.name == "headers":
            return self.put(field, ("header fields of the change", None), self.header)
        if field.name in METADATA:
            return self.put(field, (METADATA[field.name], None), self.metadata)
        return self.put(field, header(field.name, field.value))

    def put(self, field: Field, meaning: Meaning, inner: object = None, more: tuple[Field, ...] = ()) -> Field:
        """The field with another meaning, its parts likewise."""
        if field.problem is not None:
            return field
        said, problem = meaning
        children = field.children
        if callable(inner):
            skip = len(children) - len(_inner(field))
            children = (*children[:skip], *(inner(child) for child in children[skip:]))
        if self.broken:
            problem, more = None, tuple(one for one in more if one.problem is None)
        return replace(field, meaning=said, problem=problem, children=(*children, *more))

    def column(self, field: Field) -> Field:
        return self.put(field, (f"{image_meaning(self.row, field.name, _is_null(field))}; {field.meaning}", None))

    def header(self, field: Field) -> Field:
        if field.name in MASKS:
            return self.mask_field(field)
        meaning = header(field.name, field.value)
        if field.name == "changeSequence" and field.value and field.children:
            last = field.children[-1]
            found = sequence_children(field.value, last.offset, last.raw)
            if found:
                field = replace(field, children=field.children[:-1])
                return self.put(field, meaning, None, found)
        return self.put(field, meaning)

    def mask_field(self, field: Field) -> Field:
        bits = self.mask(field)
        if bits is None:
            wrong = f"expected hexadecimal digits, found {visible(field.value, 40)!r}", Problem.MASK
            return self.put(
                field, wrong if field.value is not None else (mask_meaning(field.name, None, self.row), None)
            )
        end = field.offset + field.length
        meaning = mask_meaning(field.name, bits, self.row)
        field = replace(field, children=tuple(self.mask_part(part) for part in field.children))
        return self.put(field, (meaning, None), None, mask_children(field.name, bits, end, self.row))

    def mask_part(self, part: Field) -> Field:
        if part.name != "bytes":
            return part
        which = "the last byte has bits 0 to 7" if self.order == "big" else "the first byte has bits 0 to 7"
        return replace(part, meaning=which)

    def metadata(self, field: Field) -> Field:
        """A part of a metadata message; the record ``tableColumns`` has a field for each column."""
        if field.name == "tableColumns":
            return self.put(field, (METADATA[field.name], None), self.described)
        return self.put(field, (METADATA.get(field.name, field.meaning), None))

    def described(self, field: Field) -> Field:
        facts = {child.name: child.value for child in _inner(field)}
        said = f"column {facts.get('ordinal')}" + (f", {visible(facts['type'], 30)}" if facts.get("type") else "")
        return self.put(field, (said, None), self.fact)

    def fact(self, field: Field) -> Field:
        digits = field.value or ""
        is_ordinal = digits.isdecimal() and len(digits) <= 5 and 0 < int(digits) < 1 << 16 and not _inner(field)
        if field.name == "ordinal" and field.value is not None and not is_ordinal:
            return self.put(field, (f"expected an ordinal from 1 on, found {field.value}", Problem.SCHEMA_TEXT))
        return self.put(field, (COLUMN_FACTS.get(field.name, field.meaning), None))


def _inner(field: Field) -> tuple[Field, ...]:
    """The fields of a record, without the number of the union's member in front of them."""
    return field.children[1:] if field.children and field.children[0].name == _INDEX else field.children


def _is_null(field: Field) -> bool:
    """Is it null: no text, and no more than the number of the union's member?"""
    return field.value is None and not _inner(field) and field.problem is None


def _texts(image: Field | None) -> dict[str, str | None] | None:
    """The values of an image as texts; None where there is no image."""
    if image is None or _is_null(image):
        return None
    return {
        field.name: None if _is_null(field) else field.raw.hex() if field.value is None else field.value
        for field in _inner(image)
    }
