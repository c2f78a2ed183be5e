"""Hex digits and decimal numbers in text, many at a time (docs/formats/goldengate.md §2.4)."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from cdcwb.formats.goldengate.lines import Bytes, Flags, Ints, Words, rows

__all__ = [
    "LINE_BYTES",
    "PAIRS",
    "bytes_of_lines",
    "decimals",
    "fixed_decimals",
    "hex_numbers",
    "last_byte",
    "shown_bytes",
    "wide_decimals",
]

LINE_BYTES: Final = 20
"""Bytes that a full line of hex digits shows."""

_BLANK: Final = 0x100
_WRONG: Final = 0x8000
_AREA: Final = 50  # characters of ten groups of four digits with a blank before each


def _pairs() -> npt.NDArray[np.uint16]:
    table = np.full(1 << 16, _WRONG, np.uint16)
    for value in range(256):
        lower = f"{value:02x}"
        for pair in {lower, lower.upper(), lower[0].upper() + lower[1], lower[0] + lower[1].upper()}:
            table[int.from_bytes(pair.encode(), "little")] = value
    table[0x2020] = _BLANK
    return table


PAIRS: Final = _pairs()
"""Two characters, as a little-endian number, to their byte; 0x100 for two blanks, 0x8000 for anything else."""


def bytes_of_lines(text: Bytes, start: Ints, shown: Ints) -> tuple[Bytes, Flags]:
    """The bytes of lines of hex digits, [n, 20], and which lines are sound: they show as many bytes as ``shown`` says
    and nothing else. Bytes behind those that are shown are of no meaning."""
    area = rows(text, start + 1, _AREA)
    count = area.shape[0]
    if not count:
        return np.zeros((0, LINE_BYTES), np.uint8), np.zeros(0, np.bool_)
    pairs = np.ndarray((count, 10, 2), "<u2", area.data, 0, (_AREA, 5, 2))
    value = PAIRS[pairs].reshape(count, LINE_BYTES)
    as_wanted = (value < _BLANK) == _SHOWN[np.clip(shown, 0, LINE_BYTES)]
    blanks = area[:, 4::5] == 0x20
    if as_wanted.all() and int(value.max()) <= _BLANK and blanks.all():
        return value.astype(np.uint8), np.ones(count, np.bool_)
    good: Flags = (as_wanted & (value != _WRONG)).all(axis=1) & blanks.all(axis=1)
    return value.astype(np.uint8), good


def last_byte(length: Ints) -> Ints:
    """Where in its line of hex digits the last of so many bytes stands."""
    byte = (length - 1) % LINE_BYTES
    place: Ints = 1 + 5 * (byte >> 1) + 2 * (byte & 1)
    return place


_SHOWN: Final = np.arange(LINE_BYTES) < np.arange(LINE_BYTES + 1)[:, None]


def shown_bytes(text: Bytes, start: Ints) -> Ints:
    """How many bytes lines of hex digits show; 0 for lines that are not sound."""
    area = np.frombuffer(rows(text, start + 1, _CLASS_WIDTH).tobytes().translate(_CLASSES), "<u8")
    area = area.reshape(start.size, _CLASS_WIDTH // 8) & _CLASS_MASK
    shown = _BYTES_OF[np.bitwise_count(area).sum(axis=1)]
    good = (area == _PATTERNS[shown]).all(axis=1)
    result: Ints = shown * good
    return result


_CLASS_WIDTH: Final = 56
_CLASSES: Final = bytes(1 if chr(code) in "0123456789abcdefABCDEF" else 0 if code == 0x20 else 3 for code in range(256))


def _patterns() -> tuple[Words, Words, Ints]:
    """Where digits are on lines that show 0 to 20 bytes; the mask of such places; and bytes by the count of digits."""
    text = np.zeros((LINE_BYTES + 1, _CLASS_WIDTH), np.uint8)
    for shown in range(LINE_BYTES + 1):
        for byte in range(shown):
            place = 5 * (byte >> 1) + 2 * (byte & 1)
            text[shown, place : place + 2] = 1
    mask = np.zeros((1, _CLASS_WIDTH), np.uint8)
    mask[0, :_AREA] = 0xFF
    counts = np.minimum(np.arange(2 * 8 * _CLASS_WIDTH) // 2, LINE_BYTES)
    return text.view("<u8").astype(np.uint64), mask.view("<u8").astype(np.uint64)[0], counts


_PATTERNS, _CLASS_MASK, _BYTES_OF = _patterns()


def hex_numbers(block: Bytes, at: int, digits: int) -> tuple[Ints, Flags]:
    """The numbers of 2 or 4 hex digits at a column of a block of text [n, width], and which are such numbers."""
    part = np.ascontiguousarray(block[:, at : at + digits]).view("<u2")
    pairs = PAIRS[part]
    good = (pairs < _BLANK).all(axis=1)
    value: Ints = pairs[:, 0].astype(np.int64)
    return (value if digits == 2 else value << 8 | pairs[:, 1]), good


_LOW: Final = np.uint64(0x0F0F0F0F0F0F0F0F)
_HIGH: Final = np.uint64(0xF0F0F0F0F0F0F0F0)
_ZEROS: Final = np.uint64(0x3030303030303030)
_SIXES: Final = np.uint64(0x0606060606060606)
_BLANKS: Final = np.uint64(0x2020202020202020)
_BIT: Final = np.uint64(0x1010101010101010)
_ONE: Final = np.uint64(1)


def _eight(words: Words, stop: Ints, width: Ints | int) -> tuple[Ints, Words]:
    """Eight characters before ``stop`` of which the last ``width`` (0 to 8) count: their number, and themselves with
    blanks for the others."""
    word = words[stop - 8]
    if not (isinstance(width, int) and width == 8):
        bits = np.asarray(width, np.uint64) << np.uint64(3)
        away = np.uint64(64) - bits
        word = word >> away
        word <<= away
        word |= _BLANKS >> bits
    value = word & _LOW
    value *= np.uint64(2561)
    value >>= np.uint64(8)
    value &= np.uint64(0x00FF00FF00FF00FF)
    value *= np.uint64(6553601)
    value >>= np.uint64(16)
    value &= np.uint64(0x0000FFFF0000FFFF)
    value *= np.uint64(42949672960001)
    value >>= np.uint64(32)
    return value.view(np.int64), word


def _right_aligned(word: Words) -> Flags:
    """Are the eight characters blanks and then digits, or nothing but blanks?"""
    filled = word | _BIT
    wrong = (filled & _HIGH) ^ _ZEROS
    filled += _SIXES
    filled &= _HIGH
    wrong |= filled ^ _ZEROS
    blank = ~word
    blank &= _BIT
    blank >>= np.uint64(4)
    blank *= np.uint64(0xFF)
    wrong |= blank & (blank + _ONE)
    blank &= _LOW
    wrong |= word & blank
    good: Flags = wrong == 0
    return good


def fixed_decimals(words: Words, stop: Ints, width: int) -> tuple[Ints, Flags]:
    """The numbers that stand right-aligned in fields of ``width`` characters, 8 at most, before ``stop``."""
    value, word = _eight(words, stop, width)
    good: Flags = _right_aligned(word) & ((word >> np.uint64(56)) >= 0x30)
    return value, good


def _may_precede(before: Words, word: Words) -> Flags:
    """May the eight characters stand before the other eight in one right-aligned number?"""
    blank: Flags = before == _BLANKS
    if blank.all():
        return blank
    good: Flags = blank | (((word & _BIT) == _BIT) & _right_aligned(before))
    return good


def _last_eight(words: Words, start: Ints, stop: Ints) -> tuple[Ints, Words, Flags, Ints]:
    """The last characters of fields, at most eight: their number, the characters, whether these are right-aligned
    digits, and how long the fields are."""
    width = stop - start
    value, word = _eight(words, stop, np.clip(width, 0, 8))
    good: Flags = _right_aligned(word) & ((word >> np.uint64(56)) >= 0x30) & (width > 0)
    return value, word, good, width


def decimals(words: Words, start: Ints, stop: Ints) -> tuple[Ints, Flags]:
    """The numbers of at most eight digits that stand right-aligned in fields of the text, with blanks before them."""
    value, _, good, width = _last_eight(words, start, stop)
    long = np.flatnonzero(width > 8)
    if long.size:
        _, before = _eight(words, stop[long] - 8, np.minimum(width[long] - 8, 8))
        good[long] &= (before == _BLANKS) & (width[long] <= 16)
    return value, good


def wide_decimals(words: Words, start: Ints, stop: Ints) -> tuple[Ints, Flags]:
    """As :func:`decimals`, of at most 16 digits."""
    value, word, good, width = _last_eight(words, start, stop)
    long = np.flatnonzero(width > 8)
    if long.size:
        high, before = _eight(words, stop[long] - 8, np.minimum(width[long] - 8, 8))
        good[long] &= _may_precede(before, word[long]) & (width[long] <= 16)
        value[long] += high * 10**8
    return value, good
