"""Values and keys as the converters of Kafka Connect write them, and their field trees.

The JSON converter writes ``{"schema": …, "payload": …}`` or the payload alone; the Avro converter writes Confluent's
frame (a zero byte and the schema's id) and keeps the type of Kafka Connect beside Avro's own, as ``connect.name``,
``connect.type`` and ``connect.parameters`` (docs/formats/debezium.md §1.2, §1.3, §1.4).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from cdcwb.errors import CaptureError
from cdcwb.formats.containers.avro import Decoder, anatomy
from cdcwb.formats.containers.avro_schema import Node, parse_schema
from cdcwb.formats.dissector import Field
from cdcwb.formats.json_values import CutOff, digits_of, field_tree, has_minus_zero, parse_json
from cdcwb.model import Problem

# --- connect ----------------------------------------------------------------------------------------------------------

Remark = tuple[Problem, str]
"""What is wrong with a field, as a code and a sentence."""

_FRAME: Final = 5
_BLANK: Final = b"\xef\xbb\xbf \t\r\n"


# --- schemas ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """A type of Kafka Connect: ``kind`` (int32, string, struct …) and the semantic type's ``name``; ``fields`` of a
    struct, ``item`` of an array or a map."""

    kind: str
    name: str | None = None
    optional: bool | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Type] = field(default_factory=dict)
    item: Type | None = None

    @property
    def spelled(self) -> str:
        """The semantic type, or the kind where there is none."""
        return self.name or self.kind


def _connect_type(schema: Any) -> Type:
    """The type that a schema of Kafka Connect's JSON converter describes."""
    if not isinstance(schema, dict):
        return Type("unknown")
    parameters = schema.get("parameters")
    listed = schema.get("fields")
    fields = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    inner = schema.get("items", schema.get("values"))
    return Type(
        str(schema.get("type")),
        _text(schema.get("name")),
        bool(schema.get("optional")),
        parameters if isinstance(parameters, dict) else {},
        {str(one.get("field")): _connect_type(one) for one in fields},
        None if inner is None else _connect_type(inner),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


_KINDS: Final = {"int": "int32", "long": "int64", "record": "struct", "enum": "string", "fixed": "bytes"}
_LOGICAL: Final = {
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "decimal": "org.apache.kafka.connect.data.Decimal",
}
"""What Avro's logical types are where the schema does not name the type of Kafka Connect (§1.4)."""


def _avro_type(node: Node) -> Type:
    """The type that an Avro schema describes, with what Kafka Connect added to it."""
    if node.kind == "union":
        found = Type("union") if node.without_null is node else _avro_type(node.without_null)
        return replace(found, optional=len(node.others) < len(node.inner))
    given = node.given
    parameters = dict(given.get("connect.parameters") or {})
    parameters.update({name: str(given[name]) for name in ("scale", "precision") if name in given})
    inner = node.inner[0] if node.kind in ("array", "map") else None
    fields = zip(node.names, node.inner, strict=True) if node.kind == "record" else ()
    return Type(
        str(given.get("connect.type") or _KINDS.get(node.kind, node.kind)),
        _text(given.get("connect.name")) or _LOGICAL.get(str(given.get("logicalType"))),
        False,
        parameters,
        {name: _avro_type(one) for name, one in fields},
        None if inner is None else _avro_type(inner),
    )


class Schemas:
    """The schemas of a capture, each read once: ``texts`` of the registry by their id, and those within messages, also
    by the bytes that come before the payload (``begins``)."""

    def __init__(self, texts: Mapping[int, str] | None = None) -> None:
        self.texts = dict(texts or {})
        self._types: dict[bytes, tuple[Type, str]] = {}
        self.begins: dict[bytes, tuple[Type, str]] = {}
        self._avro: dict[str, tuple[Type, Decoder] | str] = {}

    def of_json(self, text: bytes) -> tuple[Type, str]:
        """The type of a payload by its schema, and the text of that. Raises ValueError for one that is not UTF-8."""
        found = self._types.get(text)
        if found is None:
            found = self._types[text] = _connect_type(json.loads(text.decode())), text.decode()
        return found

    def typed(self, value: bytes) -> Body | None:
        """A message that begins with a schema of an earlier one; None for any other, and if something is wrong."""
        end = value.find(_PAYLOAD)
        known = self.begins.get(value[:end]) if end >= 0 and value.endswith(b"}") else None
        if known is None or has_minus_zero(value):
            return None
        try:
            return Body(_fields.decode(memoryview(value)[end + len(_PAYLOAD) : -1]), *known)
        except (ValueError, RecursionError):
            return None

    def of_avro(self, text: str) -> tuple[Type, Decoder] | str:
        """Type and decoder of an Avro schema, or why it cannot be used."""
        if text not in self._avro:
            try:
                schema = parse_schema(text, logical=False)
                found: Any = _avro_type(schema.root), Decoder(schema)
            except (CaptureError, ValueError, TypeError, RecursionError) as reason:
                found = f"the schema cannot be used: {reason}"
            self._avro[text] = found
        return self._avro[text]


# --- bodies -----------------------------------------------------------------------------------------------------------


class Body(NamedTuple):
    """What a value or key holds: its fields, their type where a schema says it, and that schema's text."""

    content: dict[str, Any]
    type: Type | None = None
    schema: str | None = None
    schema_id: int | None = None


class Broken(NamedTuple):
    """Why bytes are no message."""

    code: Problem
    reason: str


def plain(value: Any) -> str:
    """A value as text that loses nothing: numbers by their digits, objects and arrays as compact JSON, bytes as hex."""
    if isinstance(value, str):
        return value
    if isinstance(value, msgspec.Raw):
        return bytes(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, (int, float)) else msgspec.json.encode(value).decode()


class _Outer(msgspec.Struct):
    schema: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_OUTER: Final = msgspec.json.Decoder(_Outer)
_fields: Final = msgspec.json.Decoder(dict[str, Any], float_hook=digits_of)
_SCHEMA: Final = b'{"schema":'
_PAYLOAD: Final = b',"payload":'
_NULL: Final = b"null"
_names: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PAYLOAD_ALONE: Final = re.compile(rb'\s*\{\s*"payload"')
_ELISION: Final = re.compile(
    rb'(?s)"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|(?<=[{\[ \t\r\n])(?:\.\.\.|\xe2\x80\xa6)(?=[ \t\r\n]*[}\]])'
)


def is_json(value: bytes) -> bool:
    """Do the bytes begin a JSON object?"""
    return value[:1] == b"{" or value[:16].lstrip(_BLANK)[:1] == b"{"


def framed_id(value: bytes) -> int | None:
    """The schema id of Confluent's framing (§1.3); None where there is none."""
    return int.from_bytes(value[1:_FRAME], "big") if value[:1] == b"\0" and len(value) >= _FRAME else None


def bodies_of(
    values: pa.BinaryArray, schemas: Schemas, remarks: dict[int, list[Remark]], bare: str | None = None
) -> list[Body | Broken | None]:
    """What each value holds; None where it is null, also as the payload of its schema. ``bare`` is the Avro schema of
    values without a frame. ``remarks`` gets what is passed over, by the value's number."""
    found: list[Body | Broken | None] = [None] * len(values)
    framed: dict[str, list[int]] = {}
    for number, value in enumerate(values.to_pylist()):
        if value is None:
            continue
        if bare is None and is_json(value):
            noted: list[str] = []
            found[number] = _json(value, schemas, noted)
            if noted:
                remarks.setdefault(number, []).extend((Problem.JSON_SYNTAX, sentence) for sentence in noted)
            continue
        identifier = framed_id(value) if bare is None else None
        text = bare if identifier is None else schemas.texts.get(identifier)
        has_json = identifier is not None and is_json(value[_FRAME : 2 * _FRAME])
        inner = _json(value[_FRAME:], schemas, []) if has_json else None
        if isinstance(inner, Body):  # of the JSON Schema serializer
            found[number] = inner._replace(schema_id=identifier)
        elif text is not None:
            framed.setdefault(text, []).append(number)
        elif identifier is not None:
            found[number] = Broken(Problem.NO_REGISTRY, f"unknown schema {identifier}; give its registry")
        else:
            shown = value[:16].hex(" ") or "nothing"
            found[number] = Broken(Problem.MALFORMED, f"expected a JSON object, or 00 and a schema id, found {shown}")
    for text, numbers in framed.items():
        for number, one in _avro(values.take(pa.array(numbers)), numbers, text, schemas, bare is None):
            found[number] = one
    return found


def _json(value: bytes, schemas: Schemas, noted: list[str]) -> Body | Broken | None:
    typed = schemas.typed(value)
    if typed is not None:
        return typed
    schema, content = b"", value
    try:
        outer = _OUTER.decode(value)
        if isinstance(outer.schema, msgspec.Raw) and isinstance(outer.payload, msgspec.Raw):
            schema, content = bytes(outer.schema), bytes(outer.payload)
        elif isinstance(outer.payload, msgspec.Raw) and _PAYLOAD_ALONE.match(value) and is_json(bytes(outer.payload)):
            content = bytes(outer.payload) if _names.decode(value).keys() == {"payload"} else value
    except (ValueError, RecursionError):
        pass  # what is wrong is found below
    if content is not value and content == _NULL:
        return None
    try:
        parsed = parse_json(content, noted)
        if content is value and isinstance(parsed, dict) and parsed.keys() == {"schema", "payload"}:
            schema, parsed = msgspec.json.encode(parsed["schema"]), parsed["payload"]  # what msgspec alone cannot read
    except CutOff:
        return Broken(Problem.TRUNCATED, f"the JSON message is cut off after byte {len(value)}")
    except ValueError as reason:
        filled = _without_elisions(value)
        if filled == value:
            return Broken(Problem.MALFORMED, str(reason))
        noted.append("parts of the message are left out ('{...}' or '[...]'); what they held is not captured")
        return _json(filled, schemas, noted)
    if not isinstance(parsed, dict):
        return Broken(Problem.MALFORMED, f"expected a JSON object, found {type(parsed).__name__}")
    if not schema.strip(b"{} \t\r\n") or schema == _NULL:
        return Body(parsed)
    try:
        known = schemas.of_json(schema)
        if value.startswith((begin := _SCHEMA + schema) + _PAYLOAD):
            schemas.begins[begin] = known
        return Body(parsed, *known)
    except UnicodeDecodeError as reason:
        return Broken(Problem.MALFORMED, f"the schema is not UTF-8: {reason.reason} at byte {reason.start} of it")
    except (ValueError, RecursionError):
        return Broken(Problem.MALFORMED, "the schema is nested too deeply or has a number of too many digits")


def _without_elisions(value: bytes) -> bytes:
    """A JSON text with blanks instead of the dots that documentation has in place of what an object or array holds."""
    return _ELISION.sub(lambda found: found[0] if found[0][:1] == b'"' else b" " * len(found[0]), value)


def _avro(
    values: pa.BinaryArray, numbers: Sequence[int], text: str, schemas: Schemas, is_framed: bool
) -> Iterator[tuple[int, Body | Broken]]:
    known = schemas.of_avro(text)
    if isinstance(known, str):
        yield from ((number, Broken(Problem.SCHEMA_TEXT, known)) for number in numbers)
        return
    kind, decoder = known
    decoded = decoder.decode(values, np.full(len(values), _FRAME if is_framed else 0, dtype=np.int64))
    for row, (number, content) in enumerate(zip(numbers, decoded.rows(), strict=True)):
        if not decoded.ok[row]:
            yield number, Broken(Problem.MALFORMED, decoded.reason(row))
        else:
            yield number, Body(content, kind, text, framed_id(values[row].as_py()) if is_framed else None)


# --- tree -------------------------------------------------------------------------------------------------------------

Describe = Callable[[str, str, str | None, str], tuple[str | None, str]]
"""From the section that a field is in (the names of the objects around it), its name, text and kind to its value and
what it means. A ``payload`` is no section."""


def message_tree(value: bytes | None, schemas: Mapping[int, str], describe: Describe, bare: str | None = None) -> Field:
    """The fields of a message; takes any bytes and never raises. ``schemas`` are those of the registry, ``bare`` that
    of a value without a frame."""
    if value is None:
        said = "no value: a tombstone; a compacted topic deletes the row with this key"
        return Field("tombstone", 0, 0, b"", None, said)
    if bare is None and is_json(value):
        return _json_tree(value, describe)
    identifier = framed_id(value) if bare is None else None
    schema = bare if identifier is None else schemas.get(identifier)
    if identifier is None and bare is None:
        return Field("message", 0, len(value), value, None, "neither JSON nor a framed message", (), Problem.MALFORMED)
    frame: tuple[Field, ...] = ()
    if identifier is not None:
        frame = (
            Field("magic", 0, 1, value[:1], "0", "begin of Confluent's frame"),
            Field("schema id", 1, 4, value[1:5], str(identifier), "the schema in the registry"),
        )
    at = sum(one.length for one in frame)
    said, code = "unknown schema", Problem.NO_REGISTRY
    rest, what = Field("undecoded", at, len(value) - at, value[at:], None, said, (), code), "a message in Avro"
    if identifier is not None and is_json(value[at:]) and not (tree := _json_tree(value[at:], describe)).problem:
        rest, what = _of_bytes(tree, value, at), "a message in JSON, with the id of its JSON Schema"
    elif schema is not None:
        rest = _meant(anatomy(parse_schema(schema), value, at), "", describe, False)
    return Field("message", 0, len(value), value, None, what, (*frame, rest))


def _json_tree(value: bytes, describe: Describe) -> Field:
    text = _without_elisions(value)
    tree = field_tree(text)
    tree = tree if tree.problem else _meant(replace(tree, meaning="a message in JSON"), "", describe, True)
    return tree if text == value else _of_bytes(tree, value)


def _of_bytes(field: Field, value: bytes, at: int = 0) -> Field:
    """A field of the text from byte ``at`` of a message, with its offset and bytes in the message."""
    offset = field.offset + at
    children = tuple(_of_bytes(child, value, at) for child in field.children)
    return replace(field, offset=offset, raw=value[offset : offset + field.length], children=children)


def _meant(field: Field, section: str, describe: Describe, is_json: bool) -> Field:
    """What is in a field, with what it means. In Avro its type follows. Of several with one name the last counts."""
    children, last = [], {child.name: child for child in field.children if not child.quiet}
    for child in field.children:
        name, value, said = child.name, child.value, child.meaning
        inner = section if name == "payload" else f"{section}.{name}".removeprefix(".")
        if is_json and not child.quiet and name not in ("unreadable", "rest"):
            if last[name] is child:
                value, said = describe(section, name, value, child.meaning)
            else:
                said = "a later field of this name is used"
            if child.problem is not None:
                said = f"{said}; no other field follows the comma"
        elif not is_json:
            said = "; ".join(filter(None, (describe(section, name, None, "")[1], said)))
        quiet = child.quiet or section.partition(".")[0] == "schema"  # the same in all messages of a table
        made = replace(child, value=value, meaning=said, quiet=quiet and is_json)
        children.append(_meant(made, inner, describe, is_json))
    return replace(field, children=tuple(children))
