"""The field trees of records of exports (docs/formats/goldengate.md §8)."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from html import unescape
from itertools import islice
from typing import Any, Final

from cdcwb.formats.dissector import Field
from cdcwb.formats.goldengate_export.events import decode, record_of
from cdcwb.formats.goldengate_export.layout import field_meaning, role_of, token_meaning
from cdcwb.formats.messages.connect import message_tree
from cdcwb.model import Problem


def json_tree(record: bytes) -> Field:
    """The fields of a message. Every byte is in one leaf, whatever the bytes are. Never raises."""
    columns: set[str] = set()
    operation = None
    with suppress(ValueError, AttributeError):
        body = decode(record, [])
        operation = next((str(one) for name, one in body.items() if role_of(name) == "operation"), None)
        after = record_of(body).after
        columns = set(after or ()) if after is not body.get("after") else set()
    tree = message_tree(record, {}, partial(_describe, columns))
    return tree if operation is None else replace(tree, meaning=field_meaning("op_type", operation))


def _describe(columns: set[str], section: str, name: str, text: str | None, kind: str) -> tuple[str | None, str]:
    """The value and the meaning of a field in a section of a message."""
    part = (role_of(section) or "") if section else "row"
    if part == "row" and name.startswith(("before.", "after.")):
        part = name.partition(".")[0]
    if part == "tokens":
        return text, token_meaning(name)
    if part == "row" and name not in columns:
        return text, field_meaning(name, text)
    if part in ("row", "before", "after") and name.endswith("_isMissing"):
        base = name.removesuffix("_isMissing")
        return text, f"true: {base} is not in the record; false: it is in the record, and null means NULL"
    meanings = {"row": "a column of the row"}
    meanings |= {image: f"a column of the row {image} the change" for image in ("before", "after")}
    return text, meanings.get(part, "")


# --- XML --------------------------------------------------------------------------------------------------------------

_MOST: Final = 100_000  # tags and texts; the rest is not dissected
_DEEPEST: Final = 64
_PART: Final = re.compile(
    rb"(?s)<!\[CDATA\[(?P<section>.*?)(?:\]\]>|\Z)|(?P<aside><!--.*?(?:-->|\Z)|<[?!][^<>]*+>)"
    rb"|<(?P<slash>/?)(?P<name>[A-Za-z_:\x80-\xff][^\s<>/=\"']*+)(?:[^<>\"']++|\"[^\"<]*+\"|'[^'<]*+'|(?!))*+>"
    rb"|(?P<text>[^<]++)|<"
)  # `|(?!)` in a possessive group: see tests/possessive.py
_ATTRIBUTE: Final = re.compile(rb"([^\s=<>\"'/]+)\s*+=\s*+(?:\"([^\"]*)\"|'([^']*)')")
_MEANINGS: Final = {
    "transaction": "a transaction; its timestamp is that of its commit and has no zone",
    "dbupdate": "one change of a row",
    "operation": "one operation",
    "columns": "the columns that the record has",
    "tokens": "tokens of the trail record",
    "before": "the value before the change",
    "after": "the value after the change",
    "Name": "name of the token",
    "Value": "value of the token",
    "token": "a token of the trail record",
}


@dataclass(slots=True)
class _OpenElement:
    """An open element: its name, its begin, its attributes, and its content so far."""

    name: str
    start: int
    attributes: dict[str, str] = field(default_factory=dict)
    parts: list[Field] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


def xml_tree(record: bytes) -> Field:
    """The tree of one record of an XML export. Every byte is in one leaf, whatever the bytes are. Never raises."""
    stack, end = [_OpenElement("record", 0)], 0

    def put(name: str, start: int, stop: int, value: str | None = None, meaning: str = "", **more: Any) -> None:
        stack[-1].parts.append(Field(name, start, stop - start, record[start:stop], value, meaning, **more))

    def close(stop: int, problem: Problem | None = None) -> None:
        one = stack.pop()
        label, meaning = _label_of(one)
        if problem is not None:
            meaning = f"expected the closing tag of {one.name}, found none"
        value = None if problem or any(part.children and part.name != "opening" for part in one.parts) else _value(one)
        put(label, one.start, stop, value, meaning, children=tuple(one.parts), problem=problem)

    for found in islice(_PART.finditer(record), _MOST):
        start, end = found.span()
        name = _plain(found["name"] or b"")
        if found.lastgroup in ("section", "text"):
            is_text = found.lastgroup == "text"
            value = _plain(found["text"]) if is_text else found["section"].decode("utf-8", "replace")
            stack[-1].texts.append(value)
            meaning = "text in a CDATA section" if not is_text else "text" if value.strip() else "blank space"
            put("text", start, end, value, meaning)
        elif found["aside"]:
            put("declaration", start, end, None, "a declaration or a comment, not part of a change")
        elif not name:
            put("unreadable", start, end, None, "expected a tag, found a bracket", problem=Problem.MALFORMED)
        elif not found["slash"]:
            stack.append(_OpenElement(name, start))
            put("opening", start, end, None, "opening tag", children=_attributes(record, start, end, stack[-1]))
            # the end of a transaction belongs to another record
            if name == "transaction" or record[end - 2 : end] == b"/>" or len(stack) > _DEEPEST:
                close(end)
        elif len(stack) > 1 and stack[-1].name == name:
            put("closing", start, end, None, "closing tag")
            close(end)
        else:
            problem = None if name == "transaction" else Problem.MALFORMED
            put("closing", start, end, None, f"the closing tag of an element {name} that is not open", problem=problem)
    if end < len(record):
        put("rest", end, len(record), None, "the rest, which is not dissected")
    while len(stack) > 1:
        close(len(record), Problem.MALFORMED)
    return Field("record", 0, len(record), record, None, "a record of an XML export", tuple(stack[0].parts))


def _attributes(record: bytes, start: int, end: int, one: _OpenElement) -> tuple[Field, ...]:
    """The parts of an opening tag, of which each attribute is one; none without attributes."""
    parts, at = [], start
    for found in _ATTRIBUTE.finditer(record, start, end):
        first, stop = found.span()
        key, value = _plain(found[1]), _plain(found[found.lastindex or 0])
        one.attributes[key] = value
        parts.append(Field("tag", at, first - at, record[at:first], None, "tag"))
        parts.append(Field(key, first, stop - first, found[0], value, field_meaning(key, value)))
        at = stop
    return (*parts, Field("tag", at, end - at, record[at:end], None, "tag")) if parts else ()


def _label_of(one: _OpenElement) -> tuple[str, str]:
    """The name of an element in the tree, and its meaning."""
    name = one.attributes.get("name")
    if one.name in ("col", "column"):
        is_key = one.attributes.get("key", "").lower() == "true"
        return name or one.name, f"the column {name or ''}{', part of the key' if is_key else ''}"
    if one.name == "token" and name is not None:
        return name, token_meaning(name)
    return one.name, _MEANINGS.get(one.name, "")


def _value(one: _OpenElement) -> str | None:
    """The text of an element without children; None for NULL and for a missing element."""
    stated = {name.lower(): value.lower() for name, value in one.attributes.items()}
    if stated.get("status") == "null" or "true" in (stated.get("missing"), stated.get("isnull")):
        return None
    return "".join(one.texts) if one.texts or one.name in ("column", "before", "after", "Value") else None


def _plain(raw: bytes) -> str:
    return unescape(raw.decode("utf-8", "backslashreplace"))
