"""The field tree of a JSON message (docs/formats/goldengate.md §8).

A field's bytes are its name, its value, the comma behind it and the white space in front. An object begins with the
leaf ``opening`` (its name and bracket) and ends with ``closing``. In a Python bytes literal the bytes are those of the
line, escapes included.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from cdcwb.formats.base import Field
from cdcwb.formats.goldengate.exports.bytes_literal import Ints, find_literal
from cdcwb.formats.goldengate.exports.groups import MISSING, is_companion
from cdcwb.formats.goldengate.exports.meanings import field_meaning, token_meaning
from cdcwb.formats.goldengate.exports.names import role_of
from cdcwb.formats.json_text import Element, parse
from cdcwb.formats.json_values import is_cut_off
from cdcwb.model import Problem

__all__ = ["json_fields"]

_BLANK: Final = b"\xef\xbb\xbf \t\r\n"


def json_fields(record: bytes) -> Field:
    """The tree of a JSON message, or of a line in which a bytes literal stands. Every byte is in one leaf, whatever the
    bytes are. Never raises."""
    if record.lstrip(_BLANK)[:1] != b"{":
        found = find_literal(record)
        if found is not None:
            inner = _message(record, found.value, found.places)
            before = Field("text", 0, found.first, record[: found.first], None, "text and the literal's opening quote")
            rest = record[found.last :]
            code = None if found.closed else Problem.MALFORMED
            said = "the literal's closing quote" if found.closed else "expected the literal's closing quote"
            behind = Field("end", found.last, len(rest), rest, None, said, (), code)
            parts = (before, inner, behind) if rest or code else (before, inner)
            return Field("line", 0, len(record), record, None, "a message logged as a Python bytes literal", parts)
    return _message(record, record, np.arange(len(record) + 1))


def _message(record: bytes, value: bytes, places: Ints) -> Field:
    parsed = parse(value, True)
    root = parsed.root
    first, last = int(places[0]), int(places[-1])
    if root is None or root.kind != "object":
        why = parsed.damage.sentence if parsed.damage is not None else f"expected an object, found {root and root.kind}"
        return Field("message", first, last - first, record[first:last], None, why, (), Problem.MALFORMED)
    tree = _Tree(record, value, places)
    children = tree.inside(root, "message")
    rest = int(places[parsed.rest])
    if parsed.damage is not None:
        raw = record[rest:last]
        code = Problem.TRUNCATED if is_cut_off(value) else Problem.MALFORMED
        children.append(Field("unreadable", rest, len(raw), raw, None, parsed.damage.sentence, (), code))
    elif rest < last:
        children.append(Field("rest", rest, last - rest, record[rest:last], None, "the rest, which is not dissected"))
    said = field_meaning("op_type", tree.operation) if tree.operation is not None else "a message"
    return Field("message", first, last - first, record[first:last], None, said, tuple(children))


class _Tree:
    """Makes the fields of one message."""

    def __init__(self, record: bytes, value: bytes, places: Ints) -> None:
        self.record, self.value, self.places = record, value, places
        self.operation: str | None = None

    def leaf(self, name: str, start: int, stop: int, value: str | None, meaning: str) -> Field:
        first, last = int(self.places[start]), int(self.places[stop])
        return Field(name, first, last - first, self.record[first:last], value, meaning)

    def inside(self, element: Element, section: str) -> list[Field]:
        """The parts of an object or array: opening, fields, closing."""
        names = {child.name for child in element.children if child.name is not None}
        modelled = section == "message" and not names.isdisjoint(("before", "after"))
        parts = [self.leaf("opening", element.start, element.inner, None, "name and opening bracket")]
        for at, child in enumerate(element.children):
            name = f"item {at + 1}" if child.name is None else child.name
            parts.append(self.field(child, name, section, names, modelled))
        end = element.children[-1].stop if element.children else element.inner
        if end < element.stop:
            parts.append(self.leaf("closing", end, element.stop, None, "closing bracket"))
        return parts

    def field(self, element: Element, name: str, section: str, names: set[str], modelled: bool) -> Field:
        """The field of one element."""
        role = role_of(name) if section == "message" else None
        below, meaning = "value", ""
        if section == "message":
            if role == "operation" and element.text is not None:
                self.operation = element.text
            below = {"before": "before", "after": "after", "tokens": "tokens"}.get(role or "", "value")
            if name == "payload" and element.kind == "object" and "schema" in names:
                below = "message"
            meaning = field_meaning(name, element.text)
            if not meaning and not modelled and below == "value":
                meaning = _column(name, names, "the row")
        elif section in ("before", "after"):
            meaning = _column(name, names, f"the row {section} the change")
        elif section == "tokens":
            meaning = token_meaning(name)
        made = self.leaf(name, element.start, element.stop, element.text, meaning)
        if not element.followed:
            sentence = f"{meaning}; a comma follows, but no other field or item".removeprefix("; ")
            made = replace(made, meaning=sentence, problem=Problem.JSON_SYNTAX)
        if element.kind in ("object", "array") and element.text is None:
            return replace(made, children=tuple(self.inside(element, below)))
        return made


def _column(name: str, names: set[str], where: str) -> str:
    if is_companion(name, names):
        return f"true: {name[: -len(MISSING)]} is not in the record; false: it is in the record, and null means NULL"
    return f"a column of {where}"
