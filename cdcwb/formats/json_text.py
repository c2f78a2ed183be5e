"""A JSON text with the location of every element. Dissection needs the bytes of each value, which no JSON library
gives. A field includes its name, its value, the following comma and preceding white space, so the fields of an object
are adjacent.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from typing import Any, Final

import numpy as np

from cdcwb.formats import json_spans as js
from cdcwb.formats.dissector import Field
from cdcwb.formats.json_values import is_cut_off
from cdcwb.formats.kernels import interpreted
from cdcwb.model import Problem

MOST_ELEMENTS: Final = 250_000
"""Maximum elements of one text; the rest is not dissected."""

_SHOWN: Final = 12  # levels that become elements of their own; below, a value is one text
_SMALL: Final = 1 << 16  # bytes for which nothing is compiled
KINDS: Final = {
    js.OBJECT: "object",
    js.ARRAY: "array",
    js.STRING: "string",
    js.ESCAPED: "string",
    js.NUMBER: "number",
    js.BOOLEAN: "boolean",
    js.NULL: "null",
}
"""The kinds of values in words."""


def read_spans(data: bytes, deepest: int, *, commas: bool = False) -> js.Spans:
    """The spans of a JSON text in UTF-8, as far as it is valid; see :func:`cdcwb.formats.json_spans.spans_of`. Accepts
    any bytes and never raises; time and memory are proportional to the length."""
    edges = np.array([0, len(data)], dtype=np.int64)
    most = min(MOST_ELEMENTS, 1 + sum(data.count(byte) for byte in b":,["))
    with interpreted() if len(data) <= _SMALL else contextlib.nullcontext():
        return js.spans_of(np.frombuffer(data, np.uint8), edges, deepest, commas=commas, most=most)


def damage_of(data: bytes, spans: js.Spans) -> str | None:
    """What was expected and found where a JSON text is damaged; None if it is valid, or has too many elements."""
    state, at = int(spans.state[0]), int(spans.at[0])
    if not state or state == js.FULL:
        return None
    found = data[at : at + 12].decode("utf-8", "backslashreplace")
    expected = js.EXPECTED[state].format(closing=chr(int(spans.closing[0])))
    return f"expected {expected}, found {repr(found) if found else 'the end'} at byte {at}"


def text_of(data: bytes, kind: int, start: int, end: int) -> str | None:
    """A value without nested ones as text: the decoded string, the number's own digits; None for null."""
    if kind & js.KIND == js.NULL:
        return None
    quoted = kind & js.KIND in (js.STRING, js.ESCAPED)
    return decoded(data[start + quoted : end - quoted], kind & js.KIND == js.ESCAPED)


def decoded(raw: bytes, is_escaped: object) -> str:
    """A valid string or name without its quotes; a lone surrogate becomes ``?``."""
    text: str = json.loads(b'"%b"' % raw) if is_escaped else raw.decode()
    return text.encode("utf-8", "replace").decode() if is_escaped else text


# --- fields -----------------------------------------------------------------------------------------------------------


def field_tree(value: bytes) -> Field:
    """The fields of a message in JSON, named as in the text; accepts any bytes and never raises.

    An object begins with the leaf ``opening`` and ends with ``closing``, which are quiet, so that every byte is in one
    leaf. The meaning of the others is their kind. Undecodable text is the leaf ``unreadable``.
    """
    spans = read_spans(value, _SHOWN, commas=True)
    damage = damage_of(value, spans)
    kind = KINDS[int(spans.kind[0]) & js.KIND] if len(spans.kind) else "nothing"
    if kind != "object":
        found = kind if kind == "nothing" else f"an {kind}" if kind == "array" else f"a {kind}"
        why = damage or f"expected an object, found {found}"
        return Field("message", 0, len(value), value, None, why, (), Problem.MALFORMED)
    at = int(spans.done[0]) if spans.state[0] else len(value)
    children = _fields(value, spans, at)
    rest = value[at:]
    if damage is not None:  # without bytes if the text ends too early
        code = Problem.TRUNCATED if is_cut_off(value) else Problem.MALFORMED
        children.append(Field("unreadable", at, len(rest), rest, None, damage, (), code))
    elif rest:
        children.append(Field("rest", at, len(rest), rest, None, "not shown: there are too many fields"))
    return Field("message", 0, len(value), value, None, "object", tuple(children))


def _fields(value: bytes, spans: js.Spans, done: int) -> list[Field]:
    """The parts of the outermost object: opening, fields, closing. An object or array that is open at the damage ends
    at ``done``."""
    around: list[tuple[Field, list[Field]]] = []  # open objects and arrays, and their parts so far

    def put(name: str, start: int, stop: int, text: str | None, meaning: str, **more: Any) -> Field:
        return Field(name, start, stop - start, value[start:stop], text, meaning, **more)

    def close() -> list[Field]:
        field, parts = around.pop()
        end, stop = parts[-1].offset + parts[-1].length, field.offset + field.length
        if end < stop:
            parts.append(put("closing", end, stop, None, "closing bracket", quiet=True))
        if around:
            around[-1][1].append(replace(field, children=tuple(parts)))
        return parts

    columns = (spans.kind, spans.level, spans.name, spans.name_end, spans.start, spans.end, spans.stop)
    for kind, level, begin, behind, first, end, stop in zip(*(one.tolist() for one in columns), strict=True):
        while len(around) > level:
            close()
        siblings = around[-1][1] if around else []
        name = decoded(value[begin:behind], kind & js.NAME_ESCAPED) if begin >= 0 else f"item {len(siblings)}"
        start = siblings[-1].offset + siblings[-1].length if siblings else 0
        more: dict[str, Any] = {"problem": Problem.JSON_SYNTAX if kind & js.TRAILING else None}
        what = KINDS[kind & js.KIND]
        if kind & js.KIND <= js.ARRAY and not kind & js.OPAQUE:
            is_closed = end > first + 1
            opening = put("opening", start, first + 1, None, "name and opening bracket", quiet=True)
            around.append((put(name, start, stop if is_closed else done, None, what, **more), [opening]))
        else:
            siblings.append(put(name, start, stop, text_of(value, kind, first, end), what, **more))
    while len(around) > 1:
        close()
    return close()
