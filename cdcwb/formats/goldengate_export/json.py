r"""GoldenGate's JSON messages, decoded to records and dissected to field trees (docs/formats/goldengate.md §8). A
message models an operation (``before`` and ``after`` are fields among others) or a row (its columns are fields); Kafka
Connect may have wrapped it. Numbers keep their original digits.

A program may have logged messages as Python bytes literals, ``Received message: b'{"table": …}'``: their escapes
(``\xe6``, ``\'``, ``\n``) are the message's own bytes. A handler in transaction mode joins several objects to one
message (§8.1). Nothing is evaluated.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import columns_of
from cdcwb.formats.containers.messages import FILLER, MALFORMED, MESSAGE, NOT_MESSAGES, Messages, key_texts
from cdcwb.formats.dissector import Field
from cdcwb.formats.goldengate_export.records import (
    OBJECT_METADATA,
    RESERVED,
    SCHEMA,
    TRANSACTION_METADATA,
    Batch,
    Item,
    Number,
    Record,
    field_meaning,
    is_companion,
    is_template,
    role_of,
    token_meaning,
)
from cdcwb.formats.json_text import Parts, complete_part
from cdcwb.formats.json_values import MARK, CutOff, JsonReader, as_text, is_cut_off, without_trailing_commas
from cdcwb.formats.messages.connect import is_json, message_tree
from cdcwb.model import Kind, Problem

__all__ = ["decode_messages", "find_literal", "has_literals", "json_fields", "message_counts"]


# --- JSON texts -------------------------------------------------------------------------------------------------------

_MINUS_ZERO: Final = re.compile(rb": ?-0\s*+[,}]")
_RAW: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_IMAGES: Final[Parts] = {"before": {}, "after": {}, "tokens": {}}
_FLAT: Final = ("before.", "after.")
_WRAPPED: Final[Parts] = {**_IMAGES, "payload": _IMAGES}


def _integer(digits: str) -> int | Number:
    return Number(digits) if digits == "-0" or len(digits) > 18 else int(digits)


def _has_minus_zero(value: bytes) -> object:
    return (b":-0" in value or b": -0" in value) and _MINUS_ZERO.search(value)


_parse: Final = JsonReader(Number, _integer, _has_minus_zero).parse


def _parse_cut(value: bytes) -> tuple[bytes, Any]:
    """The complete fields of a truncated message, as JSON and as Python objects (§8.1). A null at the very end is not
    among them: a companion that follows could mark the column as missing."""
    text = complete_part(value, _WRAPPED)
    document = _parse(text, [])
    inside = document
    while inside.__class__ is dict and inside:
        name, last = list(inside.items())[-1]
        if last is None:
            del inside[name]
        inside = last
    return text, document


def _source_text(value: bytes, form: Form, wrapped: tuple[str, ...], part: str, name: str) -> str | None:
    """The text of an object or array as written in a message; if the message is not valid JSON, as compact JSON."""
    role = form.roles.get(part)
    try:
        found: Any = value.removeprefix(MARK)
        for one in wrapped:
            found = _RAW.decode(found)[one]
        fields = _RAW.decode(found)
        if role is None:
            return bytes(fields[name]).decode()
        return bytes(_RAW.decode(fields[role])[name] if role in fields else fields[f"{part}.{name}"]).decode()
    except (msgspec.MsgspecError, KeyError, UnicodeError):
        found = _unwrapped(_parse(value, []))
        return as_text(found[name] if role is None else found[role][name])


# --- messages ---------------------------------------------------------------------------------------------------------


class Form(NamedTuple):
    """The roles of a message's fields. ``columns``: those of a message that models a row, else None."""

    roles: dict[str, str]
    headers: tuple[str, ...]
    columns: tuple[str, ...] | None


@lru_cache(maxsize=1024)
def _form_of(names: tuple[str, ...], images: bool) -> Form | None:
    """The form of a message with these fields; ``images``: ``before`` and ``after`` are objects or null. None for a
    message that is not GoldenGate's."""
    roles: dict[str, str] = {}
    models_operation = images and ("before" in names or "after" in names)
    columns: list[str] = []
    headers: list[str] = []
    for name in names:
        role = role_of(name)
        if role in ("before", "after"):
            role = role if models_operation else None
        elif role is not None and columns and name not in RESERVED and not is_template(name):
            role = None  # a column with the name of a field
        if role is None and not models_operation:
            columns.append(name)
            continue
        if role is not None and role not in roles:
            roles[role] = name
        if role is None or name not in (roles.get("before"), roles.get("after"), roles.get("tokens")):
            headers.append(name)
    known = {"table", "operation", "time", "position"} & set(roles)
    has_both = models_operation and "before" in names and "after" in names
    if not known & {"table", "operation"} or (len(known) < 2 and not has_both):
        return None
    return Form(roles, tuple(headers), None if models_operation else tuple(columns))


_OBJECT: Final = (dict, type(None))
_TYPES: Final = {
    list: "an array",
    str: "a string",
    int: "a number",
    Number: "a number",
    bool: "a truth value",
    type(None): "null",
}


def _unwrapped(document: Any) -> Any:
    """The message in a document: the payload of Kafka Connect, or the document itself, with the images of a message
    that is flattened (``before.ID``) as objects."""
    if document.__class__ is dict and "payload" in document and "schema" in document and "op_type" not in document:
        document = document["payload"]
    if document.__class__ is not dict or "before" in document or "after" in document:
        return document
    if not any(name.startswith(_FLAT) for name in document):
        return document
    nested: dict[str, Any] = {}
    for name, value in document.items():
        part, dot, column = name.partition(".")
        if dot and part in _IMAGES:
            nested.setdefault(part, {})[column] = value
        else:
            nested[name] = value
    return nested


def _description(document: Any) -> Record | None:
    """A message that describes others (§8.1): the schema of the messages of a table, the columns of a table, or the
    number of events of a transaction; None for others."""
    if document.__class__ is not dict:
        return None
    columns, properties = document.get("columns"), document.get("properties")
    if document.get("op_type") == OBJECT_METADATA and columns.__class__ is dict:
        table, operation = document.get("qual_table", document.get("table")), OBJECT_METADATA
        keys = [name for name, one in columns.items() if one.__class__ is dict and one.get("key") is True]
        return Record(_name(table), operation, document, after=dict.fromkeys(columns), keys=keys)
    if "$schema" in document and properties.__class__ is dict and "op_type" in properties:
        return Record(_name(document.get("id")), SCHEMA, document)
    if "data_collections" in document and "event_count" in document and "xid" in document:
        return Record(None, TRANSACTION_METADATA, document)
    return None


def _form(document: Any) -> Form:
    """The form of a message. Raises ValueError for JSON that is not one of GoldenGate's messages."""
    if document.__class__ is not dict:
        raise ValueError(f"expected a JSON object, found {_TYPES.get(document.__class__, 'a value')}")
    images = document.get("before").__class__ in _OBJECT and document.get("after").__class__ in _OBJECT
    form = _form_of(tuple(document), images)
    if form is None:
        listed = ", ".join(name[:40] for name in list(document)[:6])
        raise ValueError(f"a JSON object that is not one of GoldenGate's messages: its keys are {listed or 'none'}")
    return form


def _record(value: bytes, whole: Any, complete: bool) -> Record | None:
    """The record of a parsed message; None for a tombstone that Kafka Connect wrapped. Raises ValueError for JSON that
    is not one of GoldenGate's messages."""
    document = _unwrapped(whole)
    if document is None and whole is not None:
        return None
    description = _description(document)
    if description is not None:
        return description
    form, is_wrapped = _form(document), whole is not document and whole.get("payload") is not None
    roles = form.roles
    headers = {name: document[name] for name in form.headers}
    images = {part: document.get(roles.get(part)) or None for part in ("before", "after")}
    if form.columns is not None:
        images["after"] = {name: document[name] for name in form.columns} or None
    tokens = document.get(roles.get("tokens"))
    if tokens is not None and tokens.__class__ is not dict:
        headers[roles["tokens"]] = tokens
        tokens = None
    keys = document.get(roles.get("keys"))
    if keys.__class__ is list:
        keys = [str(name) for name in keys]
        headers[roles["keys"]] = msgspec.json.encode(keys).decode()
    return Record(
        _name(document.get(roles.get("table"))),
        _name(document.get(roles.get("operation"))),
        headers,
        tokens or {},
        images["before"],
        images["after"],
        keys if keys.__class__ is list else None,
        None,
        complete,
        partial(_source_text, value, form, ("payload",) if is_wrapped else ()),
    )


def _name(value: Any) -> str | None:
    return value if value is None or value.__class__ is str else as_text(value)


def decode_messages(messages: Messages, literals: bool) -> Batch:
    """Decodes a batch, an item for each object; ``literals``: the messages are lines with bytes literals."""
    messages, items = _decoded(messages, literals)
    facts = columns_of({**messages.facts, "key": key_texts(messages.key)})
    more = {name: texts.to_pylist() for name, texts in facts.items()}
    for number, item in enumerate(items if more else ()):
        if item.record is not None:
            item.facts = {name: texts[number] for name, texts in more.items()}

    def raw() -> pa.Array:
        whole = messages.source
        return whole if literals else pc.if_else(pa.array(messages.state == MESSAGE), messages.value, whole)

    return Batch(items, pa.array(messages.offset), pa.array(messages.length), raw, True)


def message_counts(messages: Messages, literals: bool) -> tuple[int, int]:
    """The number of messages of GoldenGate, complete or truncated, and of all messages."""
    messages, items = _decoded(messages, literals)
    is_message = (messages.state == MESSAGE) & np.asarray(pc.is_valid(messages.value))
    return sum(item.record is not None for item in items), int(is_message.sum())


def _decoded(messages: Messages, literals: bool) -> tuple[Messages, list[Item]]:
    """The messages, one object each, and what they hold."""
    if literals:
        messages = _unfold(messages)
    items = _items(messages)
    invalid = [at for at in np.flatnonzero(messages.state == MESSAGE).tolist() if items[at].wrong is not None]
    split = _split_joined(messages, invalid)
    return (messages, items) if split is messages else (split, _items(split))


def _items(messages: Messages) -> list[Item]:
    items = []
    for number, (state, value) in enumerate(zip(messages.state.tolist(), messages.value.to_pylist(), strict=True)):
        if state != MESSAGE:
            kind, code = NOT_MESSAGES[state]
            reason = messages.reasons.get(number, "bytes that are not a message")
            items.append(Item(kind=kind, wrong=None if code is None else (code, reason)))
        elif value is None:
            items.append(Item(kind=Kind.TOMBSTONE))
        else:
            items.append(_item(value, messages, number))
    return items


def _item(value: bytes, messages: Messages, number: int) -> Item:
    item = Item()
    remarks: list[str] = []
    try:
        text, complete = value, True
        try:
            document = _parse(value, remarks)
        except CutOff:
            item.wrong = Problem.TRUNCATED, messages.cut_off(number)
            complete = False
            text, document = _parse_cut(value)
        item.record = _record(text, document, complete)
    except ValueError as reason:
        item.wrong = item.wrong or (Problem.MALFORMED, str(reason))
    if item.wrong is not None:
        item.kind = Kind.MALFORMED
    elif item.record is None:
        item.kind = Kind.TOMBSTONE  # that Kafka Connect wrapped
    item.notes = tuple((Problem.JSON_SYNTAX, remark) for remark in remarks)
    return item


# --- several objects in a message -------------------------------------------------------------------------------------

_DECODER: Final = json.JSONDecoder()
_BLANK: Final = re.compile(r"[ \t\r\n]*+")


def _split_joined(messages: Messages, numbers: Iterable[int]) -> Messages:
    """The messages, with those among ``numbers`` that have several objects split into one message for each object.

    They share the bytes of their message: at the offsets of the objects if its value is in the file as it is, else in
    proportion to their lengths. If the message is a row, the last object has the row. What follows the last complete
    object is an object, too, if it begins as one.
    """
    starts = {number: found for number in numbers if len(found := _objects(messages.value[number].as_py())) > 1}
    if not starts:
        return messages
    count = np.ones(len(messages), dtype=np.int64)
    count[list(starts)] = [len(found) for found in starts.values()]
    owner = np.repeat(np.arange(len(messages)), count)
    first = np.cumsum(count) - count
    offset, length = messages.offset[owner], messages.length[owner]
    taken = pa.array(owner)
    values, sources = messages.value.take(taken).to_pylist(), messages.source.take(taken).to_pylist()
    for number, found in starts.items():
        at, value = int(first[number]), values[int(first[number])]
        cuts = messages.cuts(number, found[1:])
        for part, (begin, end) in enumerate(pairwise([0, *found[1:], len(value)])):
            values[at + part] = sources[at + part] = value[begin:end]
            offset[at + part], length[at + part] = cuts[part], cuts[part + 1] - cuts[part]
    return replace(
        messages,
        offset=offset,
        length=length,
        state=messages.state[owner],
        reasons={int(first[number]): reason for number, reason in messages.reasons.items()},
        value=pa.array(values, pa.binary()),
        key=messages.key.take(taken),
        source=pa.array(sources, pa.binary()),
        facts={name: texts.take(taken) for name, texts in messages.facts.items()},
    )


def _objects(value: bytes) -> list[int]:
    """The offsets of the objects of a value; the last one may be truncated. Empty for another value."""
    _, mended = without_trailing_commas(value)
    text = mended.removeprefix(MARK).decode("latin-1")  # one character a byte, so that offsets are those of the bytes
    mark = len(value) - len(text)
    starts: list[int] = []
    at = _BLANK.match(text, 0).end()  # type: ignore[union-attr]
    while text.startswith("{", at):
        starts.append(mark + at)
        try:
            _, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return starts
        at = _BLANK.match(text, at).end()  # type: ignore[union-attr]
    return starts if at == len(text) else []


# --- bytes literals ---------------------------------------------------------------------------------------------------

# `|(?!)` in a possessive group: see tests/possessive.py
_LITERAL: Final = re.compile(
    rb"""(?<![0-9A-Za-z_])[bB](['"])(?=\s*+(?:\\n|\\t|\\r)*+\s*+\{)"""
    rb"""((?:[^'"\\\n]++|\\.|(?!\1)['"]|(?!))*+)(\1?)""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(rb"""\\(?:x[0-9A-Fa-f]{2}|[0-3]?[0-7]{1,2}|[abfnrtv\\'"])""")


class Literal(NamedTuple):
    """A bytes literal in a line: ``[first, last)`` is the text between its quotes, ``value`` its bytes. ``closed`` is
    false if the closing quote is missing: then it extends to the end of the line."""

    line: bytes
    first: int
    last: int
    value: bytes
    closed: bool

    @property
    def offsets(self) -> list[int]:
        """The offset in the line of each byte of the value, and ``last``."""
        offsets: list[int] = []
        at = self.first
        for escape in _ESCAPE.finditer(self.line, self.first, self.last):
            offsets += range(at, escape.start())
            offsets += [escape.start()]
            at = escape.end()
        return [*offsets, *range(at, self.last + 1)]


def has_literals(text: bytes) -> bool:
    """Whether a line in this text has a literal that begins like a JSON object."""
    return _LITERAL.search(text) is not None


def find_literal(line: bytes) -> Literal | None:
    """The first literal of a line that begins like a JSON object, or None."""
    found = _LITERAL.search(line)
    if found is None:
        return None
    first, last = found.span(2)
    if not found[3]:
        last = len(line.rstrip(b"\r\n"))
    value = _ESCAPE.sub(lambda escape: codecs.escape_decode(escape[0])[0], line[first:last])
    return Literal(line, first, last, value, bool(found[3]))


def _unfold(messages: Messages) -> Messages:
    """The messages with the values of bytes literals instead of their lines."""
    values = messages.value.to_pylist()
    state, reasons = messages.state.copy(), dict(messages.reasons)
    for number, line in enumerate(messages.source.to_pylist()):
        found = None if line is None else find_literal(line)
        if found is None:
            bare = (line or b"").strip()
            if state[number] == MESSAGE and bare[:1] != b"{":
                state[number], values[number] = (FILLER if not bare else MALFORMED), None
                reasons[number] = "a line without a JSON object or a bytes literal that holds one"
            continue
        values[number], state[number] = found.value, MESSAGE
        reasons.pop(number, None)
        if not found.closed and not is_cut_off(found.value):
            values[number], state[number] = None, MALFORMED
            reasons[number] = "a bytes literal without a closing quote"
    return replace(messages, state=state, reasons=reasons, value=pa.array(values, pa.binary()))


# --- field tree -------------------------------------------------------------------------------------------------------


def json_fields(record: bytes) -> Field:
    """The field tree of a message, or of a line with a bytes literal; there the bytes are those of the line, escapes
    included. Every byte is in one leaf, whatever the bytes are. Never raises."""
    literal = None if record.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" else find_literal(record)
    if literal is None:
        return _message_fields(record)
    inner = _moved(_message_fields(literal.value), record, literal.offsets)
    lead = Field("text", 0, literal.first, record[: literal.first], None, "text and the literal's opening quote")
    rest = record[literal.last :]
    parts = [lead, inner]
    if rest or not literal.closed:
        code = None if literal.closed else Problem.MALFORMED
        meaning = "the literal's closing quote" if literal.closed else "expected the literal's closing quote"
        parts.append(Field("end", literal.last, len(rest), rest, None, meaning, (), code))
    return Field("line", 0, len(record), record, None, "a message logged as a Python bytes literal", tuple(parts))


def _message_fields(value: bytes) -> Field:
    if not is_json(value):
        return Field("message", 0, len(value), value, None, "expected a JSON object", (), Problem.MALFORMED)
    columns: set[str] = set()
    companions: set[str] = set()
    with suppress(ValueError, RecursionError):
        try:
            document = _unwrapped(_parse(value, []))
        except CutOff:
            document = _unwrapped(_parse_cut(value)[1])
        columns.update(_form(document).columns or ())
        for image in (columns, document.get("before") or (), document.get("after") or ()):
            companions.update(name for name in image if is_companion(name, image))
    tree = message_tree(value, {}, partial(_describe, columns, companions))
    operation = next((one for one in _top_fields(tree) if role_of(one.name) == "operation"), None)
    if operation is None or operation.value is None:
        return tree
    return replace(tree, meaning=field_meaning("op_type", operation.value))


def _top_fields(tree: Field) -> Iterable[Field]:
    for one in tree.children:
        yield from one.children if one.name == "payload" else (one,)


def _describe(
    columns: set[str], companions: set[str], section: str, name: str, text: str | None, kind: str
) -> tuple[str | None, str]:
    """The value and the meaning of a field in a section of a message."""
    part = role_of(section) if section else "row"
    if part == "tokens":
        return text, token_meaning(name)
    if part == "row" and name.startswith(_FLAT):
        return text, f"a column of the row {name.partition('.')[0]} the change"
    if part == "row" and name not in columns:
        return text, field_meaning(name, text)
    if part not in ("row", "before", "after"):
        return text, ""
    if name in companions:
        base = name.removesuffix("_isMissing")
        return text, f"true: {base} is not in the record; false: it is in the record, and null means NULL"
    return text, "a column of the row" if part == "row" else f"a column of the row {part} the change"


def _moved(tree: Field, line: bytes, offsets: Sequence[int]) -> Field:
    """The field tree of a literal's value with the offsets and bytes of its line."""
    start, stop = offsets[tree.offset], offsets[tree.offset + tree.length]
    children = tuple(_moved(child, line, offsets) for child in tree.children)
    return replace(tree, offset=start, length=stop - start, raw=line[start:stop], children=children)
