"""Text files as units, lines and runs of hex digits: the input for hex text and dumps.

A unit is the size of one ASCII character: one byte, or two in UTF-16. All offsets count units from the start of the
file (a byte order mark included), so that ``unit * Text.unit`` is a byte offset.

Works on bytes, not on decoded text, because results are byte offsets. Hex digits are ASCII; all other characters are
note characters. That is correct for UTF-8 and Latin-1. In GBK and GB18030 the second byte of a character may be an
ASCII letter or digit, so in lines that are not valid UTF-8 complete characters are masked.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cdcwb.errors import CaptureError

__all__ = [
    "NEWLINE",
    "NIBBLE",
    "PIECE",
    "SPACE",
    "Bytes",
    "Flags",
    "Ints",
    "Piece",
    "Scan",
    "Text",
    "blank",
    "counts",
    "decimal",
    "scan",
    "within",
]

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

PIECE: Final = 1 << 22
"""Units that are processed together, which limits the memory of a scan."""
SPACE: Final = 0x20
NEWLINE: Final = 0x0A
_MASKED: Final = b"\xc0\x80"  # a masked character: a first byte, which is counted, and another, which is not

_BLANK, _BREAK, _HEX, _OTHER = range(4)
_KIND: Final = np.full(256, _OTHER, np.uint8)
_KIND[list(b" \t\v\f")] = _BLANK
_KIND[NEWLINE] = _BREAK
_KIND[list(b"0123456789abcdefABCDEF")] = _HEX

NIBBLE: Final = np.zeros(256, np.uint8)
"""The value of a hex digit by its ASCII code."""
for _value, _digit in enumerate(b"0123456789abcdef"):
    NIBBLE[[_digit, ord(chr(_digit).upper())]] = _value

# Characters that editors and browsers insert instead of spaces: no-break, ideographic and zero-width ones, and byte
# order marks.
_SPACES_UTF8: Final = ("\u00a0", "\u3000", "\u200b", "\u2009", "\u202f", "\ufeff")
_SPACES_UTF16: Final = np.array([ord(c) for c in _SPACES_UTF8], np.uint16)
_GBK: Final = re.compile(rb"(?:[\x81-\xfe](?:[0-9][\x81-\xfe][0-9]|[\x40-\x7e\x80-\xfe]))+")


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a text, split at a line end (in a line longer than a piece, between groups or anywhere)."""

    base: int  # preceding units
    raw: Bytes  # one byte per unit, as in the file (UTF-16: other characters than ASCII as 0xC0)
    text: Bytes  # the same with foreign characters masked and foreign spaces as spaces; writable
    continued: bool  # it continues the line of the preceding piece
    characters: int  # characters except white space


class Text:
    """A complete text file as units; ``data`` is not copied."""

    def __init__(self, data: Bytes) -> None:
        head = data[:4].tobytes()
        self.unit = 1
        self.encoding = "utf-8"
        self._units = data
        self._high: Bytes | None = None
        if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
            raise CaptureError("the text is in UTF-32, which is not supported; save it as UTF-8")
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            little = head.startswith(codecs.BOM_UTF16_LE)
            whole = data[: data.size & ~1]
            self.unit = 2
            self.encoding = "utf-16-le" if little else "utf-16-be"
            self._units, self._high = (whole[0::2], whole[1::2]) if little else (whole[1::2], whole[0::2])

    @property
    def units(self) -> int:
        """The number of units of the text."""
        return int(self._units.size)

    def at(self, start: int, stop: int) -> Bytes:
        """The units from ``start`` to ``stop``, one byte each; only for ASCII."""
        return self._units[start:stop]

    def pieces(self, stop: int | None = None) -> Iterator[Piece]:
        """The text in pieces of at most :data:`PIECE` units, up to the unit ``stop``."""
        base, continued = 0, False
        end = self.units if stop is None else min(stop, self.units)
        while base < end:
            raw = self._raw(base, min(base + PIECE, end))
            whole = raw.tobytes()
            cut = len(whole)
            if base + cut < end:
                ends = (whole.rfind(mark) + 1 for mark in (b"\n", b" ", b","))
                cut = next(filter(None, ends), max(whole.rfind(b"\\"), 0) or cut)
            whole, raw = whole[:cut], raw[:cut]
            text, characters = _normalise(whole, ascii_only=self._high is not None)
            yield Piece(base, raw, text, continued, characters)
            continued = not whole.endswith(b"\n")
            base += cut

    def _raw(self, start: int, stop: int) -> Bytes:
        units = self._units[start:stop]
        if self._high is None:
            return units
        high = self._high[start:stop]
        code = high.astype(np.uint16) << 8 | units
        ascii_units = np.where(code < 0x80, units, np.uint8(0xC0))
        ascii_units[np.isin(code, _SPACES_UTF16)] = SPACE
        return ascii_units


def _normalise(piece: bytes, *, ascii_only: bool) -> tuple[Bytes, int]:
    if not ascii_only and not piece.isascii():
        try:
            piece.decode("utf-8")
        except UnicodeDecodeError:
            piece = b"\n".join(map(_foreign_line, piece.split(b"\n")))
        else:
            piece = _spaces(piece)
    # A carriage return is a line end by itself only if there are no others (old Mac texts).
    piece = piece.replace(b"\r", b" " if b"\n" in piece else b"\n")
    text = np.frombuffer(bytearray(piece), np.uint8)
    silent = int(np.count_nonzero(_KIND[text] < _HEX)) + int(np.count_nonzero((text & 0xC0) == 0x80))
    return text, text.size - silent


def _spaces(utf8: bytes) -> bytes:
    for space in _SPACES_UTF8:
        code = space.encode()
        utf8 = utf8.replace(code, b" " * len(code))
    return utf8


def _foreign_line(line: bytes) -> bytes:
    if line.isascii():
        return line
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return _GBK.sub(lambda found: _MASKED * (len(found[0]) // 2), line)
    return _spaces(line)


@dataclass(frozen=True, slots=True)
class Scan:
    """The lines and the runs of hex digits of a piece, in units from the piece's start. ``first[i]:first[i + 1]`` are
    the runs of line ``i``. A run is ``pure`` if white space surrounds it. ``notes`` are the offsets of all characters
    that are neither white space nor hex digits.
    """

    line_start: Ints
    line_end: Ints
    run_start: Ints
    run_end: Ints
    first: Ints
    pure: Flags
    notes: Ints

    def line_of(self, runs: Ints) -> Ints:
        """The lines of the runs (by index)."""
        return np.searchsorted(self.first, runs, side="right") - 1

    def first_note(self) -> Ints:
        """For every line the offset of its first note character; its end without one."""
        return self._note(np.searchsorted(self.notes, self.line_start))

    def last_note(self) -> Ints:
        """For every line the offset of its last note character; without one, an offset before its start."""
        at = np.searchsorted(self.notes, self.line_end) - 1
        if not self.notes.size:
            return self.line_start - 1
        return np.where(at >= 0, self.notes[np.maximum(at, 0)], -1)

    def _note(self, at: Ints) -> Ints:
        if not self.notes.size:
            return self.line_end
        place = self.notes[np.minimum(at, self.notes.size - 1)]
        return np.where((at < self.notes.size) & (place < self.line_end), place, self.line_end)


def scan(text: Bytes) -> Scan:
    """Finds the lines, the runs of hex digits and the note characters of a piece of text."""
    kind = _KIND[text]
    ends = np.flatnonzero(kind == _BREAK)
    line_start = np.concatenate(([0], ends + 1))
    line_end = np.concatenate((ends, [text.size]))
    if line_start.size > 1 and line_start[-1] == text.size:
        line_start, line_end = line_start[:-1], line_end[:-1]
    is_hex = np.zeros(text.size + 2, np.bool_)
    np.equal(kind, _HEX, out=is_hex[1:-1])
    edges = np.flatnonzero(is_hex[1:] != is_hex[:-1])
    run_start, run_end = edges[0::2], edges[1::2]
    solid = np.zeros(text.size + 2, np.bool_)  # neither blank nor line end, with a margin on both sides
    np.greater(kind, _BREAK, out=solid[1:-1])
    pure = ~(solid[run_start] | solid[run_end + 1])
    first = np.concatenate((np.searchsorted(run_start, line_start), [run_start.size]))
    return Scan(line_start, line_end, run_start, run_end, first, pure, np.flatnonzero(kind == _OTHER))


def within(size: int, start: Ints, stop: Ints) -> Flags:
    """A mask of ``size`` items that are in one of the ranges (disjoint)."""
    edge = np.zeros(size + 1, np.int8)
    np.add.at(edge, start, 1)
    np.add.at(edge, stop, -1)
    return np.cumsum(edge[:-1], dtype=np.int8) > 0


def blank(text: Bytes, start: Ints, stop: Ints) -> None:
    """Writes spaces over the ranges of a piece (disjoint)."""
    if start.size:
        text[within(text.size, start, stop)] = SPACE


def decimal(text: Bytes) -> Flags:
    """A mask of units that are the digits 0 to 9."""
    return (text >= 0x30) & (text <= 0x39)


def counts(flags: Flags, start: Ints, stop: Ints) -> Ints:
    """The number of flags that are set in each range."""
    total = np.concatenate(([0], np.cumsum(flags, dtype=np.int64)))
    return total[stop] - total[start]
