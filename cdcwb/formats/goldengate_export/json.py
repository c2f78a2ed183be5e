r"""GoldenGate's JSON messages as values (docs/formats/goldengate.md §8.1). Kafka Connect may have
wrapped a message; the columns of an image may be fields of it (``before.ID``); a handler in transaction mode joins
several objects to one message; and a program may have logged it as a Python bytes literal,
``Received message: b'{"table": …}'``. Nothing is evaluated.
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb.formats.containers.messages import MESSAGE, Messages
from cdcwb.formats.json_values import MARK, parse_json, without_trailing_commas

__all__ = ["decode", "has_literals", "literal_of", "objects_of", "with_literals"]

_FLAT: Final = ("before.", "after.")
_IMAGES: Final = ("before", "after", "tokens")


def decode(value: bytes, remarks: list[str]) -> Any:
    """The message in a JSON text, without what Kafka Connect wrapped around it, and with images as objects; None for
    null. ``remarks`` gets what is passed over. Raises ValueError, CutOff for a truncated text."""
    document = parse_json(value, remarks)
    if document.__class__ is dict and "payload" in document and "schema" in document and "op_type" not in document:
        document = document["payload"]
    if document.__class__ is not dict or "before" in document or "after" in document:
        return document
    if not any(name.startswith(_FLAT) for name in document):
        return document
    nested: dict[str, Any] = {}
    for name, one in document.items():
        part, dot, column = name.partition(".")
        if dot and part in _IMAGES:
            nested.setdefault(part, {})[column] = one
        else:
            nested[name] = one
    return nested


# --- several objects in a message -------------------------------------------------------------------------------------

_DECODER: Final = json.JSONDecoder()
_BLANK: Final = re.compile(r"[ \t\r\n]*+")


def objects_of(value: bytes) -> list[int]:
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


def has_literals(head: bytes) -> bool:
    """Whether the lines of a file's beginning have more literals than objects."""
    lines = head.split(b"\n")
    plain = sum(line.lstrip()[:1] == b"{" for line in lines)
    return sum(_LITERAL.search(line) is not None for line in lines) > plain


def literal_of(line: bytes) -> tuple[bytes, re.Match[bytes]] | None:
    """The bytes of the first literal of a line that begins like a JSON object, and where it is; None without one."""
    found = _LITERAL.search(line)
    if found is None:
        return None
    return _ESCAPE.sub(lambda escape: codecs.escape_decode(escape[0])[0], found[2]), found


def with_literals(messages: Messages) -> Messages:
    """The messages, to which lines with a literal belong, too."""
    sources = {at: messages.source[at].as_py() or b"" for at in np.flatnonzero(messages.state).tolist()}
    found = [at for at, line in sources.items() if _LITERAL.search(line)]
    if not found:
        return messages
    state, values = messages.state.copy(), messages.value.to_pylist()
    state[found] = MESSAGE
    for at in found:
        values[at] = sources[at]
    return replace(messages, state=state, value=pa.array(values, pa.binary()))
