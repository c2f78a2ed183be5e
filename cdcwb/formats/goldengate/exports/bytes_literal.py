r"""JSON messages that a program logged as Python bytes literals: ``Received message: b'{"table": …}'``
(docs/formats/goldengate.md §8).

The escapes of a literal (``\xe6``, ``\'``, ``\n``) stand for the message's own bytes. Nothing is evaluated.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Literal", "find_literal", "has_literals"]

Ints = npt.NDArray[np.int64]

_BEGIN: Final = re.compile(rb"""(?<![0-9A-Za-z_])[bB](['"])(?=\s*+(?:\\n|\\t|\\r)*+\s*+\{)""")
_ESCAPE: Final = re.compile(rb"\\(?:x([0-9A-Fa-f]{2})|([0-7]{1,3})|(\n|\r\n)|(.))", re.DOTALL)
_SIMPLE: Final = {
    0x61: b"\a",
    0x62: b"\b",
    0x66: b"\f",
    0x6E: b"\n",
    0x72: b"\r",
    0x74: b"\t",
    0x76: b"\v",
    0x5C: b"\\",
    0x27: b"'",
    0x22: b'"',
}


class Literal(NamedTuple):
    """A literal in a line: ``[first, last)`` is what stands between its quotes, ``value`` the bytes that it stands for,
    ``places`` where in the line each of them begins (and ``last`` behind them). ``closed`` is false where the closing
    quote is missing: then it reaches to the end of the line."""

    first: int
    last: int
    value: bytes
    closed: bool
    places: Ints


def has_literals(text: bytes) -> bool:
    """Does a line in this text hold a literal that begins as a JSON object does?"""
    return _BEGIN.search(text) is not None


def find_literal(line: bytes) -> Literal | None:
    """The first literal of a line that begins as a JSON object does, or None."""
    begin = _BEGIN.search(line)
    if begin is None:
        return None
    first = begin.end()
    end = _END[begin[1]].match(line, first)
    last = first if end is None else end.end()
    closed = line[last : last + 1] == begin[1]
    if not closed:
        last = len(line.rstrip(b"\r\n"))
    value, places = _decoded(line, first, last)
    return Literal(first, last, value, closed, places)


_END: Final = {
    b"'": re.compile(rb"(?:[^'\\\n]++|\\.)*+", re.DOTALL),
    b'"': re.compile(rb'(?:[^"\\\n]++|\\.)*+', re.DOTALL),
}


def _decoded(line: bytes, first: int, last: int) -> tuple[bytes, Ints]:
    parts: list[bytes] = []
    places: list[Ints] = []
    at = first
    for escape in _ESCAPE.finditer(line, first, last):
        parts.append(line[at : escape.start()])
        places.append(np.arange(at, escape.start()))
        made = _one(escape)
        parts.append(made)
        places.append(np.full(len(made), escape.start()))
        at = escape.end()
    parts.append(line[at:last])
    places.append(np.arange(at, last + 1))
    return b"".join(parts), np.concatenate(places)


def _one(escape: re.Match[bytes]) -> bytes:
    digits, octal, newline, letter = escape.groups()
    if digits is not None:
        return bytes([int(digits, 16)])
    if octal is not None:
        return bytes([int(octal, 8) & 0xFF])
    if newline is not None:
        return b""
    return _SIMPLE.get(letter[0], escape[0])
