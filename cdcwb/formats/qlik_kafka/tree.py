"""One message as a tree of fields, with the bytes, value and meaning of each (docs/formats/qlik-kafka.md).

The fields are those of JSON (:func:`cdcwb.formats.json_values.field_tree`) and of Avro
(:func:`cdcwb.formats.containers.avro.anatomy`); their meanings, and their problems, come from the decoded message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from cdcwb.errors import CaptureError
from cdcwb.formats.containers.avro import anatomy
from cdcwb.formats.containers.avro_schema import parse_schema
from cdcwb.formats.containers.messages import Messages
from cdcwb.formats.dissector import Field, TextPart, with_parts
from cdcwb.formats.json_values import as_text, field_tree, parse_json
from cdcwb.formats.qlik_kafka import layout
from cdcwb.formats.qlik_kafka.decode import DecodedMessages, decode
from cdcwb.formats.qlik_kafka.layout import IMAGES, MAGIC, MASKS, WireForm
from cdcwb.formats.qlik_kafka.masks import MessageMasks
from cdcwb.formats.qlik_kafka.versions import MessageSettings, VersionLookup
from cdcwb.model import Kind, Problem
from cdcwb.words import joined, visible

_INDEX: Final = "union index"
_WORDS: Final = {"changeMask": ("changed", "not changed"), "columnMask": ("captured", "not captured")}
_PLURALS: Final = {"changeMask": "columns that changed", "columnMask": "columns that were captured"}
_NAMED: Final = 6
_DIGITS: Final = "a hexadecimal number, most significant digit first: the last digit has bits 0 to 3"
_INSIDE: Final = {"lineage": "metadata", "tableStructure": "metadata", "tableColumns": "columns"}


def dissect(
    messages: Messages, settings: MessageSettings, versions: VersionLookup, schema: str | None, event: Mapping[str, Any]
) -> Field:
    """The field tree of the one message of a batch; ``schema`` is the Avro schema that its container names, ``event``
    its event. Accepts any bytes and never raises.

    Children fill their node without holes, in byte order; every byte is in exactly one leaf. The bits of a mask are
    leaves without bytes. ``problem`` is at the field that is wrong.
    """
    value = messages.value[0].as_py()
    if value is None:
        said = "no value: a tombstone; a compacted topic deletes the row with this key"
        return Field("tombstone", 0, 0, b"", None, said)
    decoded = decode(messages, settings, versions, True, schema)
    meanings, form = _QlikMeanings(decoded, event), WireForm(decoded.forms[0])
    if form == WireForm.JSON:
        tree = meanings.json(value)
    elif form == WireForm.ENVELOPE:
        tree = meanings.enveloped(value, settings, versions)
    elif form == WireForm.CONFLUENT:
        tree = meanings.framed(value, versions)
    else:
        tree = meanings.record(value, 0, schema or settings.avro_schema, "Avro without a frame")
    problems = event.get("problems")
    if problems and not any(field.problem for field in tree.walk()):
        tree = replace(tree, problem=problems[0]["code"], meaning=problems[0]["detail"])
    return tree


class _QlikMeanings:
    """The meanings of the fields of a message."""

    def __init__(self, decoded: DecodedMessages, event: Mapping[str, Any]) -> None:
        self.name: str = event.get("record_type") or "message"
        self.is_damaged = event["kind"] == Kind.MALFORMED
        self.is_json = False
        self.position: str | None = event.get("position")
        self.operation: str | None = event.get("operation")
        self.columns: list[str] = []
        self.types: dict[str, str | None] = {}
        self.bits: dict[str, list[bool]] = {}
        self.images = [dict(event.get(name) or ()) for name in ("before", "after")]
        self.problems = {} if self.is_damaged else _by_field(event.get("problems") or (), self.name)
        if decoded.is_row.any():
            self._read(decoded)
        self.bit_of = {name: bit for bit, name in enumerate(self.columns)}

    def _read(self, decoded: DecodedMessages) -> None:
        version = decoded.groups[0].version
        self.columns = decoded.groups[0].names if version is None else version.bits
        self.types = {} if version is None else {one.name: one.type for one in version.columns}
        masks = MessageMasks(decoded, lambda *_: None)
        masks.read()
        for name, bits, null in zip(MASKS, masks.bits, masks.null, strict=True):
            if not null[0]:
                self.bits[name] = bits[0].tolist()

    # --- wire forms

    def json(self, value: bytes) -> Field:
        """The tree of a message in JSON."""
        tree = field_tree(value)
        if tree.problem is not None:
            return tree
        self.is_json = True
        unread = () if tree.children[-1].quiet else tree.children[-1:]
        children = tree.children[: len(tree.children) - len(unread)]
        around = " in Qlik's envelope" if "magic" in {child.name for child in children} else ""
        children = self._fields(children, self._outer(tree))
        return replace(tree, name=self.name, meaning=self._meaning(f"JSON{around}"), children=(*children, *unread))

    def enveloped(self, value: bytes, settings: MessageSettings, versions: VersionLookup) -> Field:
        """The tree of a value in Qlik's Avro envelope."""
        tree = anatomy(parse_schema(layout.ENVELOPE_SCHEMA), value)
        parts = {field.name: field for field in tree.children}
        children = list(self._fields(map(_malformed, tree.children), "envelope"))
        if tree.problem is None and "message" in parts and parts["message"].children:
            text = parts["messageSchema"].value
            version = versions.by_schema_id.get(parts["messageSchemaId"].value or "")
            if text is None and self.name == "DT":
                text = (None if version is None else version.text) or settings.avro_schema
            *length, record = parts["message"].children
            inside = self._inside(value, record.offset, text)
            children[-1] = replace(children[-1], value=None, children=(*length, *inside))
        said = self._meaning("Avro in Qlik's envelope")
        return replace(tree, name=self.name, meaning=said, children=tuple(children), problem=None)

    def framed(self, value: bytes, versions: VersionLookup) -> Field:
        """The tree of a value with the Confluent framing: a zero byte, the schema's id, the record."""
        number = int.from_bytes(value[1 : layout.FRAME], "big")
        version = versions.by_registry_id.get(number)
        tree = self.record(
            value, layout.FRAME, None if version is None else version.text, "Avro in Confluent's framing"
        )
        ((problem, meaning),) = self.problems.get("schema id", [(None, "big-endian: the schema's id in the registry")])
        frame = (
            Field("magic byte", 0, 1, value[:1], "0", "first byte of Confluent's framing"),
            Field("schema id", 1, 4, value[1 : layout.FRAME], str(number), meaning, (), problem),
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
                fields = anatomy(parse_schema(text), value, start).children
                return self._fields(map(_malformed, fields) if self.is_damaged else fields, "body")
            except CaptureError as reason:
                found = Problem.SCHEMA_TEXT, str(reason)
        code, said = found or (None, "cannot be read without its schema")
        return [Field("record", start, len(value) - start, value[start:], None, said, (), code)]

    def _meaning(self, form: str) -> str:
        if self.name == "MD":
            return f"a metadata message, one version of a table's structure, as {form}"
        said = f": {layout.header('operation', self.operation)}" if self.operation else ""
        return f"a data message as {form}{said}"

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
        return replace(
            field, value=value, meaning=said, children=children, problem=None if self.is_damaged else problem
        )

    def _parts(self, field: Field) -> tuple[Field, ...]:
        """The parts of a header: time and number of a change sequence, the digits and bits of a mask."""
        text, holder = field.value or "", field
        if field.name in self.bits:
            parts = [*([TextPart("digits", text, text, _DIGITS)] if self.is_json else ()), *self._bits(field.name)]
        elif field.name == "changeSequence" and text and text == self.position:
            parts = _sequence(text)
        else:
            return field.children
        if self.is_json:
            return with_parts(field, parts).children
        if field.name == "changeSequence":
            *first, holder = field.children
            return (*first, *with_parts(holder, parts).children)
        end = field.offset + field.length
        return (*field.children, *with_parts(Field("bits", end, 0, b""), parts).children)

    def _bits(self, name: str) -> list[TextPart]:
        """The bits of a mask, each named by its column, bit 0 first. A bit has no byte of its own."""
        return [
            TextPart(column or f"bit {bit}", "", _WORDS[name][not is_set], f"bit {bit}, ordinal {bit + 1}")
            for bit, (column, is_set) in enumerate(zip(self.columns, self.bits[name], strict=True))
        ]

    # --- meanings

    def _say(self, section: str, field: Field) -> tuple[str | None, str]:
        """The section of the children of a field (None: they have no meaning), and the meaning of the field."""
        name = field.name
        match section:
            case "envelope":
                return self._around(field)
            case "body" | "metadata" if section == "metadata" or self.name == "MD":
                return _INSIDE.get(name), layout.METADATA.get(name, "")
            case "body" if name in IMAGES:
                return "image", layout.row_meaning(self.operation, name, _is_null(field))
            case "body" if name == "headers":
                return "headers", "header fields of the change"
            case "image":
                return None, self._column(name, _is_null(field))
            case "headers" if name in MASKS:
                return None, self._mask(name)
            case "columns":
                facts = {child.name: child.value for child in field.children}
                kind = f", {visible(facts['type'], 30)}" if facts.get("type") else ""
                return "column", f"column {visible(facts.get('ordinal'), 10)}{kind}"
            case "column":
                return None, layout.COLUMN_FACTS.get(name, "")
        return None, layout.header(name, field.value)

    def _around(self, field: Field) -> tuple[str | None, str]:
        name = field.name
        if self.is_json and field.children and name == "message":
            return "body", layout.ENVELOPE[name]
        if self.is_json and field.children and name == "payload":
            return self._outer(field), "the message that follows the schema of Kafka Connect"
        if name == "messageSchemaId" and not field.value:
            return None, "no metadata message describes this message"
        return None, layout.ENVELOPE.get(name, "an unknown field")

    def _column(self, name: str, is_null: bool) -> str:
        """The meaning of a column of an image, with what the masks say about it."""
        bit, kind = self.bit_of.get(name), self.types.get(name)
        said = f"column {bit + 1}" if bit is not None else "a column that the table version does not have"
        said = said if self.columns else "a column"
        said = f"{said}, {visible(kind, 30)}" if kind else said
        changed, captured = (None if bit is None or one not in self.bits else self.bits[one][bit] for one in MASKS)
        is_absent = captured is False and all(image.get(name) is None for image in self.images)
        parts = ["not captured"] if is_absent else ["NULL"] if is_null else []
        parts += ["changed"] if self.operation == "UPDATE" and changed else []
        return f"{said}: {', '.join(parts)}" if parts else said

    def _mask(self, name: str) -> str:
        """The columns of a mask."""
        if name not in self.bits:
            return f"{_PLURALS[name]}: not given"
        found = [self.columns[bit] or f"bit {bit}" for bit in np.flatnonzero(self.bits[name]).tolist()]
        named = [visible(column, 40) for column in found[:_NAMED]]
        named += [f"{len(found) - _NAMED} more"] if len(found) > _NAMED else []
        return f"{_PLURALS[name]}: {joined(named) or 'none'}"


def _by_field(problems: Sequence[Mapping[str, str]], record_type: str) -> dict[str, list[tuple[str, str]]]:
    """The problems of each field, by the field's name."""
    found: dict[str, list[tuple[str, str]]] = {}
    for one in problems:
        code, said = one["code"], one["detail"]
        match code:
            case Problem.NO_SCHEMA:
                name = "messageSchemaId" if "ordinals" in said else "record"
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
        found.setdefault(name, []).append((code, said))
    return found


def _sequence(text: str) -> list[TextPart]:
    """Time and number of a change sequence (§5.1)."""
    shown = f"{text[:4]}-{text[4:6]}-{text[6:8]}T{text[8:10]}:{text[10:12]}:{text[12:14]}.{text[14:16]}Z"
    said = "UTC of the Replicate server, in hundredths of a second; usually that of the commit"
    return [
        TextPart("time", text[:16], shown, said),
        TextPart("number", text[16:], text[16:], f"change {int(text[16:])} of the task"),
    ]


def _malformed(field: Field) -> Field:
    """The field with every problem of Avro's as what it makes the message: malformed."""
    problem = None if field.problem is None else Problem.MALFORMED
    return replace(field, problem=problem, children=tuple(map(_malformed, field.children)))


def _is_null(field: Field) -> bool:
    """Whether it is null: no text, and no more than the number of the union's member."""
    return field.value is None and all(child.name == _INDEX for child in field.children)


def _text(field: Field) -> str:
    """The text of an object or array of JSON."""
    raw = field.raw[field.children[0].length - 1 :].rstrip(b" \t\r\n,")
    try:
        return as_text(parse_json(raw)) or ""
    except ValueError:  # it is cut off
        return raw.decode("utf-8", "replace")
