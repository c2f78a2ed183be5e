"""Values of columns to text, one at a time: the reference of decoding arrays (docs/formats/goldengate.md §4)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from cdcwb.formats.goldengate.layout import Coding, How, Order
from cdcwb.model import Problem

__all__ = ["value_of"]


class Kind(IntEnum):
    """The kinds of values."""

    TEXT = 1
    NUMBER = 2
    MOMENT = 3
    BINARY = 4
    HEX = 5


class Value(NamedTuple):
    """One value."""

    text: str
    kind: Kind
    problem: Problem | None = None
    sentence: str = ""


INT16: Final = 2
"""Bytes of a short integer."""
INT32: Final = 4
"""Bytes of an integer."""
INT64: Final = 8
"""Bytes of a long one."""
DATE: Final = 10
"""Characters of a date."""
CLOCK: Final = 19
"""Characters of a date with its time, without a fraction."""
LONGEST_MOMENT: Final = 40
"""Characters of a date with its time, fraction and zone, at most."""
NOT_DECODED: Final = "zoned and packed decimals are not decoded; their bytes are in the column raw"
"""What is said of every decimal that is not text."""


def value_of(raw: bytes, how: Coding, order: Order, charset: str = "utf-8") -> Value:
    """One value that is not NULL, from its bytes behind the null indicator. Never raises.

    ``order`` is that of the length before a text, ``charset`` the database's, as Python calls it.
    """
    charset = how.charset or charset
    prefixed = len(raw) >= 2 and int.from_bytes(raw[:2], order) == len(raw) - 2
    match how.how:
        case How.GUESS:
            return _guess(raw, prefixed, charset)
        case How.GUESS_FIXED:
            return _guess_fixed(raw, prefixed, charset)
        case How.TEXT | How.FIXED_TEXT:
            return _text_value(raw, how, prefixed, charset, order)
        case How.INTEGER:
            if len(raw) == how.size:
                return Value(scaled(int.from_bytes(raw, "big", signed=how.signed), how.scale), Kind.NUMBER)
            return _number_text(raw, prefixed, f"expected an integer of {how.size} bytes, found {len(raw)}")
        case How.FLOAT:
            if len(raw) in (4, 8):
                kind = pa.float32() if len(raw) == 4 else pa.float64()
                number = np.frombuffer(raw, dtype=f">f{len(raw)}")[0]
                return Value(pa.scalar(number.item(), kind).cast(pa.string()).as_py(), Kind.NUMBER)
            return _number_text(raw, prefixed, f"expected a number of 4 or 8 bytes, found {len(raw)}")
        case How.DECIMAL:
            return _number_text(raw, prefixed, NOT_DECODED)
        case How.MOMENT:
            there = raw[2:] if prefixed else raw
            if there and printable(there):
                return Value(there.decode("ascii"), Kind.MOMENT)
            return Value(raw.hex(), Kind.HEX, Problem.VALUE, "expected a date or time as text, found other bytes")
        case How.BINARY:
            if prefixed:
                return Value(raw[2:].hex(), Kind.BINARY)
            return Value(raw.hex(), Kind.BINARY, Problem.VALUE, _wrong_length(raw, order))
        case _:
            text = decoded(raw[2:], charset) if prefixed and len(raw) > 2 else None
            return Value(raw.hex(), Kind.BINARY) if text is None else Value(text, Kind.TEXT)


def _text_value(raw: bytes, how: Coding, prefixed: bool, charset: str, order: Order) -> Value:
    fixed = how.how is How.FIXED_TEXT
    if prefixed:
        raw = raw[2:]
    elif not (fixed and len(raw) == how.size):
        return Value(raw.hex(), Kind.HEX, Problem.VALUE, _wrong_length(raw, order))
    text = decoded(raw, charset)
    if text is None:
        return Value(raw.hex(), Kind.HEX, Problem.CHARSET, f"expected text in {charset}, found other bytes")
    return Value(text.rstrip(" ") if fixed else text, Kind.TEXT)


def _wrong_length(raw: bytes, order: Order) -> str:
    if len(raw) < 2:
        return f"expected a length of 2 bytes, found {len(raw)}"
    return f"expected {int.from_bytes(raw[:2], order)} bytes by their length prefix, found {len(raw) - 2}"


def decoded(raw: bytes, charset: str) -> str | None:
    """Text in a character set; None if the bytes are none in it."""
    try:
        return raw.decode(charset)
    except (UnicodeError, LookupError):
        return None


def printable(raw: bytes) -> bool:
    """Are all bytes printable ASCII?"""
    return all(0x20 <= byte < 0x7F for byte in raw)


def scaled(number: int, scale: int) -> str:
    """A whole number with ``scale`` digits behind the point; zeros behind it for a negative scale."""
    if scale <= 0:
        return str(number * 10**-scale)
    digits = str(abs(number)).rjust(scale + 1, "0")
    return f"{'-' if number < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def _number_text(raw: bytes, prefixed: bool, sentence: str) -> Value:
    """A number that is written as text all the same."""
    if prefixed:
        text = raw[2:].decode("latin-1")
        try:
            float(text)
        except ValueError:
            pass
        else:
            return Value(text, Kind.NUMBER)
    return Value(raw.hex(), Kind.HEX, Problem.VALUE, sentence)


def _guess(raw: bytes, prefixed: bool, charset: str) -> Value:
    """A value of a column that has no definition (§4.7)."""
    if not raw:
        return Value("", Kind.TEXT)
    whole = len(raw) in (INT32, INT64)
    if prefixed:
        text = decoded(raw[2:], charset)
        if text is not None and not (whole and any(byte < 0x20 for byte in raw[2:])):
            return Value(text, Kind.TEXT)
    if _looks_like_a_moment(raw):
        return Value(raw.decode("ascii"), Kind.MOMENT)
    if whole:
        return Value(str(int.from_bytes(raw, "big", signed=True)), Kind.NUMBER)
    return Value(raw.hex(), Kind.HEX)


def _guess_fixed(raw: bytes, prefixed: bool, charset: str) -> Value:
    """A value of a column of a NonStop that has no definition: as other guesses, and text without a length (§4.8)."""
    found = _guess(raw, prefixed, charset)
    if found.kind is Kind.TEXT or found.kind is Kind.MOMENT:
        return found
    if printable(raw):
        return Value(raw.decode("ascii").rstrip(" "), Kind.TEXT)
    if len(raw) == INT16:
        return Value(str(int.from_bytes(raw, "big", signed=True)), Kind.NUMBER)
    if found.kind is Kind.HEX and (text := decoded(raw, charset)) is not None and text.isprintable():
        return Value(text.rstrip(" "), Kind.TEXT)
    if found.kind is Kind.NUMBER:
        return found
    sentence = f"expected text, a date or an integer of 2, 4 or 8 bytes, found {raw.hex():.40}"
    return Value(raw.hex(), Kind.HEX, Problem.VALUE, sentence)


def _looks_like_a_moment(raw: bytes) -> bool:
    date = raw[:4] + raw[5:7] + raw[8:DATE]
    if not (date.isdigit() and len(date) == 8 and raw[4:5] == raw[7:8] == b"-" and printable(raw)):
        return False
    return len(raw) == DATE or (CLOCK <= len(raw) <= LONGEST_MOMENT and raw[DATE] in b": T")
