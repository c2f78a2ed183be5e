"""One message as a tree of fields, with the bytes, value and meaning of each (docs/formats/qlik-kafka.md).

The fields are those of JSON (:func:`cdcwb.formats.json_text.field_tree`) and of Avro
(:func:`cdcwb.formats.containers.avro_tree.anatomy`); what they mean, and what is wrong with them, is what the reader
decodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from cdcwb.errors import CaptureError
from cdcwb.formats import bitmask
from cdcwb.formats.containers.avro_schema import parse_schema
from cdcwb.formats.containers.avro_tree import anatomy
from cdcwb.formats.containers.messages import Messages
from cdcwb.formats.dissector import Field
from cdcwb.formats.json_text import field_tree
from cdcwb.formats.json_values import as_text, parse_json
from cdcwb.formats.qlik_kafka.decode import Form, Rows, decode, is_framed
from cdcwb.formats.qlik_kafka.layout import (
    COLUMN_FACTS,
    ENVELOPE,
    ENVELOPE_SCHEMA,
    FRAME,
    IMAGES,
    LEGACY,
    LETTERS,
    MAGIC,
    MASKS,
    METADATA,
    RENAMED,
    header,
    row_meaning,
)
from cdcwb.formats.qlik_kafka.versions import Settings, Versions
from cdcwb.model import Problem
from cdcwb.words import joined, visible

__all__ = ["dissect"]

_INDEX: Final = "union index"
_WORDS: Final = {"changeMask": ("changed", "not changed"), "columnMask": ("captured", "not captured")}
_PLURALS: Final = {"changeMask": "columns that changed", "columnMask": "columns that were captured"}
_NAMED: Final = 6
_INSIDE: Final = {"lineage": "metadata", "tableStructure": "metadata", "tableColumns": "columns"}


def dissect(
    messages: Messages, settings: Settings, versions: Versions, schema: str | None, event: Mapping[str, Any]
) -> Field:
    """The field tree of the one message of a batch; ``schema`` is the Avro schema that its container names, ``event``
    its event.

    Children fill their node without holes, in byte order, whatever the bytes are; every byte is in exactly one leaf.
    The bits of a mask are leaves without bytes. ``problem`` marks the field that is wrong. Never raises.
    """
    value = messages.value[0].as_py()
    if value is None:
        said = "no value: a tombstone; a compacted topic deletes the row with this key"
        return Field("tombstone", 0, 0, b"", None, said)
    decoded = decode(messages, settings, versions, True, schema)
    rows = [*decoded.parsed.rows, *decoded.parsed.cut_rows]
    meanings = _Meanings(rows[0] if rows else None, event)
    form = Form(decoded.forms[0])
    if form == Form.JSON:
        tree = meanings.json(value)
    elif form == Form.ENVELOPE:
        tree = meanings.enveloped(value, settings, versions)
    elif is_framed(messages, versions, schema, settings):
        number = int.from_bytes(value[1:FRAME], "big")
        tree = meanings.framed(value, number, versions)
    else:
        tree = meanings.record(value, 0, schema or settings.avro_schema, "Avro without a frame")
    problems = event.get("problems")
    if problems and not any(field.problem for field in tree.walk()):
        tree = replace(tree, problem=problems[0]["code"], meaning=problems[0]["detail"])
    return tree


class _Meanings:
    """What the fields of a message mean; ``rows`` is the data message, decoded."""

    def __init__(self, rows: Rows | None, event: Mapping[str, Any]) -> None:
        self.name: str = event.get("record_type") or "message"
        self.is_damaged = event["kind"] == "malformed"
        self.is_json = False
        self.operation: str | None = None
        self.position: str | None = event.get("position")
        self.columns: list[str] = []
        self.types: dict[str, str | None] = {}
        self.bits: dict[str, list[bool]] = {}
        self.images: list[dict[str, str | None]] = []
        self.problems: dict[str, list[tuple[str, str]]] = (
            {} if self.is_damaged else _placed(event.get("problems") or (), self.name)
        )
        if rows is not None:
            self._read(rows)
        self.bit_of = {name: bit for bit, name in enumerate(self.columns)}

    def _read(self, rows: Rows) -> None:
        operation = rows.header("operation")
        self.operation = None if operation is None else operation[0].as_py()
        self.images = [image.row(0) for image in (rows.data, rows.before) if image is not None]
        keys = [*self.images[0]] if self.images else []
        self.columns = keys if rows.version is None else rows.version.bits
        self.types = {} if rows.version is None else {one.name: one.type for one in rows.version.columns}
        for name, masks in zip(MASKS, rows.masks, strict=True):
            if masks is not None and masks[0].is_valid:
                self.bits[name] = bitmask.bits(masks, rows.mask_order, len(self.columns))[0][0].tolist()

    # --- wire forms

    def json(self, value: bytes) -> Field:
        """The tree of a message in JSON."""
        tree = field_tree(value)
        if tree.problem is not None:
            return tree
        self.is_json = True
        children, rest = tree.children, tree.children[-1:]
        if not rest[0].quiet:  # what cannot be read
            children = children[:-1]
        else:
            rest = ()
        fields = {child.name for child in children}
        around = " in Qlik's envelope" if "magic" in fields else ""
        children = self._fields(children, self._outer(tree))
        return replace(tree, name=self.name, meaning=self._meaning(f"JSON{around}"), children=(*children, *rest))

    def enveloped(self, value: bytes, settings: Settings, versions: Versions) -> Field:
        """The tree of a value in Qlik's Avro envelope."""
        tree = anatomy(parse_schema(ENVELOPE_SCHEMA), value)
        parts = {field.name: field for field in tree.children}
        children = list(self._fields(map(_malformed, tree.children), "envelope"))
        if tree.problem is None and "message" in parts and parts["message"].children:
            schema_id, text = parts["messageSchemaId"].value, parts["messageSchema"].value
            version = versions.by_schema_id.get(schema_id) if schema_id is not None else None
            if text is None and self.name == "DT":
                text = (None if version is None else version.text) or settings.avro_schema
            *length, record = parts["message"].children
            inside = self._inside(value, record.offset, text)
            children[-1] = replace(children[-1], value=None, children=(*length, *inside))
        return replace(
            tree,
            name=self.name,
            meaning=self._meaning("Avro in Qlik's envelope"),
            children=tuple(children),
            problem=None,
        )

    def framed(self, value: bytes, number: int, versions: Versions) -> Field:
        """The tree of a value with the Confluent framing: a zero byte, the schema's id, the record."""
        version = versions.by_registry_id.get(number)
        tree = self.record(value, FRAME, None if version is None else version.text, "Avro in Confluent's framing")
        problem: str | None = None
        meaning = "big-endian: the schema's id in the registry"
        if "schema id" in self.problems:
            problem, meaning = self.problems["schema id"][0]
        frame = (
            Field("magic byte", 0, 1, value[:1], "0", "first byte of Confluent's framing"),
            Field("schema id", 1, 4, value[1:FRAME], str(number), meaning, (), problem),
        )
        return replace(tree, children=(*frame, *tree.children))

    def record(self, value: bytes, start: int, text: str | None, form: str) -> Field:
        """The tree of a record in Avro that begins at ``start``."""
        inside = self._inside(value, start, text)
        return Field(self.name, 0, len(value), value, None, self._meaning(form), tuple(inside))

    def _inside(self, value: bytes, start: int, text: str | None) -> Sequence[Field]:
        found: tuple[str | None, str] | None = next(iter(self.problems.get("record", ())), None)
        if text is not None and found is None:
            try:
                return self._fields(map(_malformed, anatomy(parse_schema(text), value, start).children), "body")
            except CaptureError as reason:
                found = Problem.SCHEMA_TEXT, str(reason)
        code, said = found or (None, "cannot be read without its schema")
        return [Field("record", start, len(value) - start, value[start:], None, said, (), code)]

    def _meaning(self, form: str) -> str:
        operation = f": {header('operation', self.operation)}" if self.operation else ""
        if self.name == "MD":
            return f"a metadata message, one version of a table's structure, as {form}"
        return f"a data message {'of Attunity 5 ' if self.is_legacy else ''}as {form}{operation}"

    @property
    def is_legacy(self) -> bool:
        """Has it the form of Attunity 5?"""
        return self.name not in ("DT", "MD", "DataRecord", "message")

    # --- fields

    def _outer(self, field: Field) -> str:
        """The section of the fields of an object that is the message, or around it."""
        fields = {child.name for child in field.children if not child.quiet}
        around = "magic" in fields or ({"schema", "payload"} <= fields and "data" not in fields)
        return "envelope" if around else "body"

    def _fields(self, children: Iterable[Field], section: str) -> tuple[Field, ...]:
        """Fields with their meaning; of several with one name the last counts."""
        children = tuple(children)
        last = {child.name: child for child in children}
        return tuple(
            child if child.quiet or child.name == _INDEX else self._field(child, section, last[child.name] is child)
            for child in children
        )

    def _field(self, field: Field, section: str, counts: bool) -> Field:
        inner, said = self._say(section, field)
        if not self.is_json:
            said = f"{said}; {field.meaning}" if section == "image" else said or field.meaning
            if field.problem is not None:
                return field
        value, children, problem = field.value, field.children, field.problem
        if field.raw == MAGIC.encode():
            value = MAGIC
        if inner is not None:
            children = self._fields(children, inner)
        elif self.is_json and children:
            value = _text(field)
        elif section == "headers" and counts and value is not None:
            children = self._parts(field)
        if problem is not None:
            said = f"{said}; a comma follows, but no other field or item"
        elif counts and field.name in self.problems and section != "image":
            (problem, said), *others = self.problems[field.name]
            if children:
                end = field.offset + field.length
                children += tuple(Field("problem", end, 0, b"", None, text, (), code) for code, text in others)
        if not counts:
            problem, said = None, f"{said}; a later field of this name is used"
        if section == "pairs" and value == "NULL":
            value = None
        if self.is_damaged:
            problem = None
        return replace(field, value=value, meaning=said, children=children, problem=problem)

    def _parts(self, field: Field) -> tuple[Field, ...]:
        """What is inside a header: time and number of a change sequence, the bits of a mask."""
        text, parts = field.value or "", list[Field]()
        is_sequence = field.name == "changeSequence" and text == self.position
        if field.name in self.bits and not self.is_json:
            return (*field.children, *self._bits(field.name, field.offset + field.length))
        if not is_sequence and field.name not in self.bits:
            return field.children
        holder = field if self.is_json else field.children[-1]
        begin = holder.raw.rfind(text.encode())
        if begin < 0 or not text:
            return field.children
        at, end = holder.offset + begin, holder.offset + begin + len(text)
        raw = holder.raw[begin : begin + len(text)]
        if is_sequence:
            parts += _sequence(text, raw, at)
        else:
            said = "a hexadecimal number, most significant digit first: the last digit has bits 0 to 3"
            parts += [Field("digits", at, len(raw), raw, text, said), *self._bits(field.name, end)]
        if not self.is_json:
            return (*field.children[:-1], *parts)
        before, after = holder.raw[:begin], holder.raw[begin + len(text) :]
        opening = Field("opening", holder.offset, begin, before, None, "name and opening quote", quiet=True)
        closing = Field("closing", end, len(after), after, None, "closing quote", quiet=True)
        return (opening, *parts, closing)

    def _bits(self, name: str, at: int) -> list[Field]:
        """The bits of a mask, each named by its column, bit 0 first. A bit has no byte of its own."""
        return [
            Field(column or f"bit {bit}", at, 0, b"", _WORDS[name][not is_set], f"bit {bit}, ordinal {bit + 1}")
            for bit, (column, is_set) in enumerate(zip(self.columns, self.bits[name], strict=True))
        ]

    # --- what a field means

    def _say(self, section: str, field: Field) -> tuple[str | None, str]:
        """The section of what is inside a field (None: nothing with a meaning), and what the field means."""
        name = field.name
        match section:
            case "envelope":
                return self._around(field)
            case "body" if self.name == "MD":
                return _INSIDE.get(name), METADATA.get(name, "")
            case "body" if self.is_legacy:
                if name in ("data", "bu_data", "beforeData"):
                    return "pairs", LEGACY[name]
                value = LETTERS.get(field.value or "", field.value) if name == "op" else field.value
                return None, LEGACY.get(name) or header(RENAMED.get(name, name), value)
            case "body" if name in IMAGES:
                return "image", row_meaning(self.operation, name, _is_null(field))
            case "body" if name == "headers":
                return "headers", "header fields of the change"
            case "image":
                return None, self._column(name, _is_null(field))
            case "headers" if name in MASKS:
                return None, self._mask(name)
            case "metadata":
                return _INSIDE.get(name), METADATA.get(name, "")
            case "columns":
                facts = {child.name: child.value for child in field.children}
                kind = f", {visible(facts['type'], 30)}" if facts.get("type") else ""
                return "column", f"column {visible(facts.get('ordinal'), 10)}{kind}"
            case "column":
                return None, COLUMN_FACTS.get(name, "")
            case "pairs":
                if field.children and name.startswith("item "):
                    return "pairs", "one column"
                return None, "NULL, written as text in this form" if field.value == "NULL" else "a column of the row"
        return None, header(name, field.value)

    def _around(self, field: Field) -> tuple[str | None, str]:
        name = field.name
        if self.is_json and field.children and name == "message":
            return "body", ENVELOPE[name]
        if self.is_json and field.children and name == "payload":
            return self._outer(field), "the message that follows the schema of Kafka Connect"
        if name == "messageSchemaId" and not field.value:
            return None, "no metadata message describes this message"
        return None, ENVELOPE.get(name, "an unknown field")

    def _column(self, name: str, is_null: bool) -> str:
        """What a column of an image is, and what the masks say of it."""
        bit = self.bit_of.get(name)
        kind = self.types.get(name)
        said = "a column that the table version does not have" if bit is None else f"column {bit + 1}"
        said = f"{said}, {visible(kind, 30)}" if kind else said
        changed, captured = (None if bit is None or one not in self.bits else self.bits[one][bit] for one in MASKS)
        parts = []
        if captured is False and all(image.get(name) is None for image in self.images):
            parts.append("not captured")
        elif is_null:
            parts.append("NULL")
        if self.operation == "UPDATE" and changed:
            parts.append("changed")
        return f"{said}: {', '.join(parts)}" if parts else said

    def _mask(self, name: str) -> str:
        """Which columns a mask names."""
        if name not in self.bits:
            return f"{_PLURALS[name]}: not given"
        found = [self.columns[bit] or f"bit {bit}" for bit in np.flatnonzero(self.bits[name]).tolist()]
        named = [visible(column, 40) for column in found[:_NAMED]]
        if len(found) > _NAMED:
            named.append(f"{len(found) - _NAMED} more")
        return f"{_PLURALS[name]}: {joined(named) or 'none'}"


def _placed(problems: Sequence[Mapping[str, str]], record_type: str) -> dict[str, list[tuple[str, str]]]:
    """The problems of each field that one is about, by the field's name."""
    legacy = {"operation": "op", **{new: old for old, new in RENAMED.items()}}
    legacy = {} if record_type in ("DT", "MD", "DataRecord") else legacy
    found: dict[str, list[tuple[str, str]]] = {}
    for one in problems:
        code, said = one["code"], one["detail"]
        match code:
            case Problem.NO_SCHEMA:
                name = "record" if "is not in the capture" in said and "ordinals" not in said else "messageSchemaId"
            case Problem.NO_REGISTRY:
                name = "schema id"
            case Problem.SCHEMA_TEXT if record_type != "MD":
                name = "record"
            case Problem.MASK_IMAGES:
                name = "columnMask" if "columnMask" in said else "changeMask"
            case Problem.VALUE if said.startswith("the headers"):
                name = "headers"
            case _:
                name = re.split("[: ]", said)[0]
        found.setdefault(legacy.get(name, name), []).append((code, said))
    return found


def _sequence(text: str, raw: bytes, at: int) -> list[Field]:
    """Time and number of a change sequence (§5.1)."""
    shown = f"{text[:4]}-{text[4:6]}-{text[6:8]}T{text[8:10]}:{text[10:12]}:{text[12:14]}.{text[14:16]}Z"
    said = "UTC of the Replicate server, in hundredths of a second; usually that of the commit"
    return [
        Field("time", at, 16, raw[:16], shown, said),
        Field("number", at + 16, 19, raw[16:], text[16:], f"change {int(text[16:])} of the task"),
    ]


def _malformed(field: Field) -> Field:
    """The field with every problem of Avro's as what it makes the message: malformed."""
    problem = None if field.problem is None else Problem.MALFORMED
    return replace(field, problem=problem, children=tuple(map(_malformed, field.children)))


def _is_null(field: Field) -> bool:
    """Is it null: no text, and no more than the number of the union's member?"""
    return field.value is None and all(child.name == _INDEX for child in field.children)


def _text(field: Field) -> str:
    """The text of an object or array of JSON."""
    raw = field.raw[field.children[0].length - 1 :].rstrip(b" \t\r\n,")
    try:
        return as_text(parse_json(raw)) or ""
    except ValueError:  # it is cut off
        return raw.decode("utf-8", "replace")
