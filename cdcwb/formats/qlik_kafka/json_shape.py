"""The shape of a JSON data message: everything of its text but the values that differ from message to message.

Messages of one producer spell the same keys in the same order, so most of their bytes are the same. A shape is made
from one message that was parsed; :mod:`json_columns` finds the others that have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cdcwb.formats.json_text import Element, parse
from cdcwb.formats.json_values import parse_json
from cdcwb.formats.qlik_kafka.documents import MAGIC, Document, read_document
from cdcwb.formats.qlik_kafka.json_rows import Keys, keys_of

__all__ = ["MARK", "WORD", "Shape", "shape_of"]

MARK: Final = b'":'
"""What stands behind every key. Where no character is escaped, it stands elsewhere only where a value begins with a
colon."""

WORD: Final = 8
"""Bytes that are compared at a time."""

_SCALARS: Final = frozenset({"string", "number", "boolean", "null"})
_ENVELOPE: Final = frozenset({"magic", "type", "headers", "messageSchemaId", "messageSchema", "message"})
_BODY: Final = frozenset({"data", "beforeData", "headers"})
_FIXED: Final = frozenset({"magic", "type", "messageSchemaId", "messageSchema", "externalSchemaId", "schema", "table"})
_MARKS: Final = re.compile(re.escape(MARK))


@dataclass(frozen=True, slots=True)
class Shape:
    """What messages have in common.

    ``document`` is the message that it was made from; ``keys`` are its keys around the data message, in its headers and
    in its images. A value is a place: ``headers``, ``data`` and ``before`` say which (those of headers that all
    messages share have none). ``marks`` is how many marks a message has, ``mark`` the one before each value, ``gap``
    the bytes from there to the value. ``lengths`` are those of the texts before each value and behind the last, and
    ``quotes`` is how many quotes they have; ``of``, ``back``, ``words`` and ``masks`` are the words to compare: the
    value (or the end) that each stands before, how far before, its bits, and which of them count.
    """

    document: Document
    keys: Keys
    headers: Sequence[int | None]
    data: Sequence[int]
    before: Sequence[int]
    marks: int
    mark: npt.NDArray[np.int64]
    gap: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    quotes: int
    of: npt.NDArray[np.int64]
    back: npt.NDArray[np.int64]
    words: npt.NDArray[np.uint64]
    masks: npt.NDArray[np.uint64]


def shape_of(text: bytes) -> Shape | None:
    """The shape of one message without escaped characters; None for one that is to be parsed by itself: metadata, a
    message of another form, values that are objects or arrays, a key that repeats."""
    try:
        document = read_document(parse_json(text))
    except ValueError:
        return None
    parsed = parse(text)
    root = parsed.root
    if root is None or parsed.rest < len(text) or document.record_type not in ("DT", "DataRecord"):
        return None
    values = _values(root)
    marks = [match.start() for match in _MARKS.finditer(text)]
    if not values or len(marks) != _keys(root):
        return None
    place = {(section, name): at for at, (section, name, _) in enumerate(values)}
    mark, gap, texts, stop = [], [], [], 0
    for _, _, element in values:
        quoted = element.kind == "string"
        start = element.inner - quoted
        texts.append(text[stop:start])
        stop = element.end + quoted
        mark.append(int(np.searchsorted(marks, start)) - 1)
        gap.append(start - marks[mark[-1]])
    texts.append(text[stop:])
    keys = keys_of(document)
    outer, headers, data, before = keys
    return Shape(
        document,
        keys,
        [*(place.get(("outer", name)) for name in outer), *(place.get(("headers", name)) for name in headers)],
        [place["data", name] for name in data or ()],
        [place["beforeData", name] for name in before or ()],
        len(marks),
        np.array(mark),
        np.array(gap),
        np.array([len(one) for one in texts]),
        sum(one.count(b'"') for one in texts),
        *_words(texts),
    )


def _words(texts: Sequence[bytes]) -> tuple[npt.NDArray[Any], ...]:
    """The texts cut into words: which text, how far before its end, bits, and which of them count."""
    of, back, words, masks = [], [], [], []
    for at, text in enumerate(texts):
        for first in range(0, len(text), WORD):
            piece = text[first : first + WORD]
            of.append(at)
            back.append(len(text) - first)
            words.append(int.from_bytes(piece, "little"))
            masks.append((1 << 8 * len(piece)) - 1)
    return np.array(of), np.array(back), np.array(words, np.uint64), np.array(masks, np.uint64)


def _keys(element: Element) -> int:
    """How many keys there are in an object and in all that is inside."""
    return sum((child.name is not None) + _keys(child) for child in element.children)


def _values(root: Element) -> list[tuple[str, str, Element]] | None:
    """The values that may differ, in their order: section, name, element. None where a message is not plain."""
    body = root.get("message") if root.string("magic") == MAGIC else root
    if body is None or not all(map(_is_plain, (root, body))):
        return None
    names = {child.name for child in root.children}
    if body is root:
        if names & {"magic", "payload"}:
            return None
    else:
        around = [root.get(name) for name in ("headers", "messageSchema")]
        known = names <= _ENVELOPE and {child.name for child in body.children} <= _BODY
        if not known or any(one is not None and one.kind != "null" for one in around):
            return None
    found: list[tuple[str, str, Element]] = []
    for child in root.children:
        inside = body.children if child is body else [child]
        for one in inside:
            part = list(_part(one))
            if any(element.kind not in _SCALARS for _, _, element in part):
                return None
            found.extend(part)
    return found


def _part(element: Element) -> Iterator[tuple[str, str, Element]]:
    """The values of one part of a message that may differ."""
    name = element.name or ""
    if name in _BODY and element.kind == "object":
        for child in element.children:
            if name != "headers" or child.name not in _FIXED:
                yield name, child.name or "", child
        if not element.children or not _is_plain(element):
            yield name, "", element
    elif element.kind not in _SCALARS or (name not in _FIXED and name not in _BODY):
        yield "outer", name, element


def _is_plain(element: Element) -> bool:
    """Is this an object whose keys differ?"""
    names = [child.name for child in element.children]
    return element.kind == "object" and len(set(names)) == len(names)
