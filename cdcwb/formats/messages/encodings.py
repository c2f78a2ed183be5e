r"""Binary values as text: base64, hex digits, and escapes (``\u0000``, ``\x00``, Python's bytes literals).

A decoder gives None for a text that is none of its kind. Which kind a file holds is told by what its texts decode to:
the beginning of a message (:func:`begins_message`).
"""

from __future__ import annotations

import binascii
import codecs
import re
from collections.abc import Callable
from typing import Final

import msgspec

__all__ = ["BINARY", "DECODERS", "LATIN", "RAW", "begins_message", "binary_string", "is_binary", "plain_string"]

RAW: Final = "bytes"
"""Above 7F the bytes of an escaped text are the value's own (kcat)."""
LATIN: Final = "latin-1"
"""They are the UTF-8 form of characters that stand for one byte each."""

BINARY: Final = b"atMSG"
_ID: Final = 5  # bytes of a zero byte and a schema id

_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")
_HEX: Final = re.compile(rb"(?:0[xX]|\\x)?((?:[0-9A-Fa-f]{2}[ :]?)+)\Z")
_LITERAL: Final = re.compile(rb"""[bB]?(['"])(.*)\1\Z""", re.DOTALL)
# `|(?!)` in a possessive group: tests/possessive.py says what for
_PYTHON: Final = re.compile(rb"""(?:[^\\]++|\\(?:x[0-9A-Fa-f]{2}|[abfnrtv0\\'"])|(?!))*+\Z""", re.DOTALL)

_string: Final = msgspec.json.Decoder(str)


def begins_message(value: bytes) -> bool:
    """Does it begin as a message does: a JSON object, ``atMSG``, or a zero byte and a schema id?"""
    return value.lstrip(b" \t\r\n").startswith(b"{") or is_binary(value)


def is_binary(value: bytes) -> bool:
    """Does it begin as a binary message does?"""
    return value.startswith(BINARY) or (len(value) > _ID and value[0] == 0)


def base64(text: bytes, characters: str = RAW) -> bytes | None:
    """The bytes of a base64 text, in either alphabet, with or without its padding."""
    text = _unquoted(text.strip()).rstrip(b"=")
    if b"-" in text or b"_" in text:
        text = text.translate(_URL_SAFE)
    try:
        return binascii.a2b_base64(text + b"=" * (-len(text) % 4), strict_mode=True) if text else None
    except binascii.Error:
        return None


def hexadecimal(text: bytes, characters: str = RAW) -> bytes | None:
    r"""The bytes of hex digits, in pairs that may stand apart, behind ``0x`` or ``\x`` or nothing."""
    found = _HEX.match(_unquoted(text.strip()))
    return None if found is None else binascii.unhexlify(found[1].translate(None, b" :"))


def unescape(text: bytes, characters: str = RAW) -> bytes | None:
    """The bytes of a JSON string, a Python bytes literal, or a bare text with the escapes of either."""
    text = text.strip()
    if text[:1] == b'"' and (value := binary_string(text, characters)) is not None:
        return value
    literal = _LITERAL.match(text)
    inner = literal[2] if literal else text
    if b"\\u" in inner:
        return binary_string(b'"' + inner + b'"', characters)
    if b"\\" not in inner and not literal:
        return None  # nothing is escaped: a plain text
    if not _PYTHON.match(inner):
        return None
    return bytes(codecs.escape_decode(inner)[0])


DECODERS: Final[dict[str, Callable[[bytes, str], bytes | None]]] = {
    "base64": base64,
    "hex": hexadecimal,
    "escaped": unescape,
}
"""The decoder of each encoding: (text, characters) -> bytes, or None."""


def plain_string(raw: bytes) -> bytes | None:
    """The text of a JSON string (quotes included) in UTF-8, as it stands there where nothing is escaped."""
    if b"\\" not in raw:
        return raw[1:-1]
    try:
        return _string.decode(raw).encode()
    except (msgspec.MsgspecError, UnicodeError):
        return None


def binary_string(raw: bytes, characters: str) -> bytes | None:
    r"""The bytes that a JSON string stands for: ``\u00ff`` is one, and what is not escaped as ``characters`` says."""
    if raw[1:64].lstrip().startswith(b"{"):
        return plain_string(raw)  # a document that was quoted
    try:
        text = _string.decode(raw if characters == LATIN else raw.decode("latin-1").encode())
        return text.encode("latin-1")
    except (msgspec.MsgspecError, UnicodeError):
        return None


def _unquoted(text: bytes) -> bytes:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in b"'\"" else text
