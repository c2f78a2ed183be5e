"""A JSON text with the location of every element. Dissection needs the bytes of each value, which no JSON library
gives. A field includes its name, its value, the following comma and preceding white space, so the fields of an object
are adjacent.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from cdcwb.formats import json_spans as js
from cdcwb.formats.dissector import Field
from cdcwb.formats.json_values import is_cut_off
from cdcwb.formats.kernels import interpreted
from cdcwb.model import Problem

__all__ = ["MOST_ELEMENTS", "Damage", "Element", "Json", "field_tree", "parse"]


MOST_ELEMENTS: Final = 250_000
"""Maximum elements of one text; the rest is not dissected."""

_SHOWN: Final = 12  # levels that become elements of their own; below, a value is one text
_MARK: Final = b"\xef\xbb\xbf"
_SMALL: Final = 1 << 16  # bytes for which nothing is compiled
_KINDS: Final = {
    js.OBJECT: "object",
    js.ARRAY: "array",
    js.STRING: "string",
    js.ESCAPED: "string",
    js.NUMBER: "number",
    js.BOOLEAN: "boolean",
    js.NULL: "null",
}
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SPELLED: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")


@dataclass(slots=True)
class Element:
    """One value and its surroundings.

    ``kind`` is object, array, string, number, boolean or null. ``start`` to ``stop`` are its bytes with name and comma,
    ``inner`` to ``end`` those of the value's content, between the opening and the closing quote or bracket. ``text`` is
    the decoded string, the number's own digits, ``true`` or ``false``; None for null, objects and arrays (deeply nested
    ones are one text). ``name`` is its name in an object, else None. ``closed`` is false for an object or array that is
    truncated by damage, ``followed`` for one whose comma is not followed by another.
    """

    kind: str
    name: str | None
    start: int
    inner: int
    end: int = -1
    stop: int = -1
    text: str | None = None
    children: list[Element] = field(default_factory=list)
    closed: bool = True
    followed: bool = True


@dataclass(frozen=True, slots=True)
class Damage:
    """The damage of a JSON text: the byte, and what was expected and found there."""

    offset: int
    sentence: str


@dataclass(frozen=True, slots=True)
class Json:
    """A parsed text. ``root`` is None if no value begins. The text from byte ``rest`` on is not dissected, because of
    ``damage`` or too many elements; else ``rest`` is the length of the text."""

    root: Element | None
    rest: int
    damage: Damage | None


def parse(data: bytes, commas: bool = False) -> Json:
    """The elements of a JSON text in UTF-8, as far as it is valid. Accepts any bytes and never raises; time and memory
    are proportional to the length. With ``commas``, a comma after the last field or item is not damage."""
    text = np.frombuffer(data, np.uint8)
    edges = np.array([len(_MARK) if data.startswith(_MARK) else 0, len(data)], dtype=np.int64)
    most = min(MOST_ELEMENTS, 1 + sum(data.count(byte) for byte in b":,["))
    with interpreted() if len(data) <= _SMALL else contextlib.nullcontext():
        spans = js.spans_of(text, edges, _SHOWN, commas=commas, most=most)
    state, at = int(spans.state[0]), int(spans.at[0])
    done = int(spans.done[0]) if len(spans.kind) else 0
    root = _elements(data, spans, done)
    if not state or state == js.FULL:
        return Json(root, done if state else len(data), None)
    found = data[at : at + 12].decode("utf-8", "backslashreplace")
    expected = js.EXPECTED[state].format(closing=chr(int(spans.closing[0])))
    sentence = f"expected {expected}, found {repr(found) if found else 'the end'} at byte {at}"
    return Json(root, done, Damage(at, sentence))


def _elements(data: bytes, spans: js.Spans, done: int) -> Element | None:
    """The outermost element, from their spans. An element that is open at the damage ends with the parsed text."""
    around: list[Element] = []
    root = None
    columns = (spans.kind, spans.level, spans.name, spans.name_end, spans.start, spans.end, spans.stop)
    for kind, level, begin, behind, first, end, stop in zip(*(one.tolist() for one in columns), strict=True):
        name = _decoded(data[begin:behind], kind & js.NAME_ESCAPED) if begin >= 0 else None
        del around[level:]
        siblings = around[-1].children if around else []
        start = siblings[-1].stop if siblings else around[-1].inner if around else 0
        what = kind & js.KIND
        if what <= js.ARRAY and not kind & js.OPAQUE:
            element = Element(_KINDS[what], name, start, first + 1, end - 1, stop, closed=end > first + 1)
            if not element.closed:
                element.end = element.stop = done
        else:
            quoted = what in (js.STRING, js.ESCAPED)
            inside = data[first + quoted : end - quoted]
            held = None if what == js.NULL else _decoded(inside, what == js.ESCAPED)
            element = Element(_KINDS[what], name, start, first + quoted, end - quoted, stop, held)
        element.followed = not kind & js.TRAILING
        siblings.append(element)
        around.append(element)
        root = root or element
    return root


def _decoded(raw: bytes, is_escaped: object) -> str:
    text = raw.decode("utf-8")
    return _unescaped(text) if is_escaped else text


def _unescaped(text: str) -> str:
    """The text without its escapes. A surrogate pair becomes one character, a lone surrogate ``?``."""
    plain = _SPELLED.sub(_spelled, text)
    joined = plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return joined.encode("utf-8", "replace").decode("utf-8")


def _spelled(match: re.Match[str]) -> str:
    code, character = match.groups()
    return chr(int(code, 16)) if code else _ESCAPES.get(character, character)


# --- fields -----------------------------------------------------------------------------------------------------------


def field_tree(value: bytes) -> Field:
    """The fields of a message in JSON, named as in the text; accepts any bytes and never raises.

    An object begins with the leaf ``opening`` and ends with ``closing``, which are quiet, so that every byte is in one
    leaf. The meaning of the others is their kind. Undecodable text is the leaf ``unreadable``.
    """
    parsed = parse(value, True)
    if parsed.root is None or parsed.root.kind != "object":
        found = (
            "nothing" if parsed.root is None else f"{'an' if parsed.root.kind == 'array' else 'a'} {parsed.root.kind}"
        )
        why = parsed.damage.sentence if parsed.damage else f"expected an object, found {found}"
        return Field("message", 0, len(value), value, None, why, (), Problem.MALFORMED)
    children, at = _inside(value, parsed.root), parsed.rest
    rest = value[at:]
    if parsed.damage is not None:  # without bytes if the text ends too early
        code = Problem.TRUNCATED if is_cut_off(value) else Problem.MALFORMED
        children.append(Field("unreadable", at, len(rest), rest, None, parsed.damage.sentence, (), code))
    elif rest:
        children.append(Field("rest", at, len(rest), rest, None, "not shown: there are too many fields"))
    return Field("message", 0, len(value), value, None, "object", tuple(children))


def _inside(value: bytes, element: Element) -> list[Field]:
    """The parts of an object or array: opening, fields, closing."""
    parts = [_bracket(value, "opening", element.start, element.inner, "name and opening bracket")]
    parts += [_field(value, child, number) for number, child in enumerate(element.children, 1)]
    end = element.children[-1].stop if element.children else element.inner
    if end < element.stop:
        parts.append(_bracket(value, "closing", end, element.stop, "closing bracket"))
    return parts


def _bracket(value: bytes, name: str, start: int, stop: int, meaning: str) -> Field:
    return Field(name, start, stop - start, value[start:stop], None, meaning, quiet=True)


def _field(value: bytes, element: Element, number: int) -> Field:
    raw = value[element.start : element.stop]
    is_group = element.kind in ("object", "array") and element.text is None
    return Field(
        f"item {number}" if element.name is None else element.name,
        element.start,
        len(raw),
        raw,
        element.text,
        element.kind,
        tuple(_inside(value, element)) if is_group else (),
        None if element.followed else Problem.JSON_SYNTAX,
    )
