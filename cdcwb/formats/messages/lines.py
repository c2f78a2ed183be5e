"""Where lines begin and end.

A line ends behind its newline; a carriage return before that belongs to the line's end, a byte order mark to the first
line's begin. Where values are printed as raw bytes they may hold newlines themselves: then a line begins only where one
of the known beginnings stands behind a newline.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from cdcwb.formats.files import Source
from cdcwb.formats.messages.batch import MESSAGE, Bytes, Ints
from cdcwb.formats.messages.segments import LONGEST, Segments, pieces

__all__ = ["BOM", "WINDOW", "first_line", "iter_lines", "line_holding", "newlines"]

BOM: Final = b"\xef\xbb\xbf"
WINDOW: Final = 8 << 20
"""Bytes looked at together; a line longer than that widens the window for itself."""

_CACHED: Final = 1 << 18  # bytes that are compared together: what comes out stays in the processor's cache

_NEWLINE: Final = 0x0A
_RETURN: Final = 0x0D
_STEP: Final = 1 << 16  # the first look for a single newline; it widens

Marks = tuple[bytes, ...]


def iter_lines(source: Source, start: int, stop: int, marks: Marks = (), window: int = WINDOW) -> Iterator[Segments]:
    """The lines that begin in ``[start, stop)`` of a file; the end of a line that began before is passed over.

    ``marks`` are the beginnings that a line must have, where newlines alone do not tell.
    """
    length = source.length
    position = first_line(source, start, marks)
    size = window
    while position < min(stop, length):
        buffer, ends = _ends(source, position, size, marks)
        if not len(ends):
            if size < LONGEST:
                size = min(2 * size, LONGEST)
                continue
            after = first_line(source, position + LONGEST, marks)
            yield from pieces(position, after, f"a line longer than {LONGEST:,} bytes, the maximum of a message")
            position, size = after, window
            continue
        starts = np.append(0, ends[:-1])
        owned = int(np.searchsorted(starts, stop - position))
        starts, ends = starts[:owned], ends[:owned]
        yield _segments(buffer, position, starts, ends, not marks)
        position += int(ends[-1])
        size = window


def _ends(source: Source, position: int, size: int, marks: Marks) -> tuple[Bytes, Ints]:
    """The bytes from ``position``, and where in them lines end; the last line of the file has an end in any case."""
    ahead = max(map(len, marks), default=0)
    buffer = source.read(position, position + size + ahead)
    at_end = position + len(buffer) >= source.length
    ends = newlines(buffer, marks)
    ends = ends[ends <= size]
    if at_end and len(buffer) <= size and (not len(ends) or ends[-1] < len(buffer)):
        ends = np.append(ends, len(buffer))
    return buffer, ends


def newlines(buffer: Bytes, marks: Marks = ()) -> Ints:
    """The places behind newlines; with marks only those where one of them stands, and the end of the buffer."""
    pieces = [np.flatnonzero(buffer[at : at + _CACHED] == _NEWLINE) + at for at in range(0, len(buffer), _CACHED)]
    behind = np.concatenate(pieces) + 1 if pieces else np.empty(0, dtype=np.int64)
    if not marks or not len(behind):
        return behind
    known = behind == len(buffer)
    for mark in marks:
        there = np.flatnonzero(behind + len(mark) <= len(buffer))
        for at, byte in enumerate(mark):
            there = there[buffer[behind[there] + at] == byte]
        known[there] = True
    found: Ints = behind[known]
    return found


def _segments(buffer: Bytes, base: int, starts: Ints, ends: Ints, text: bool) -> Segments:
    first, last = starts.copy(), ends.copy()
    last -= buffer[ends - 1] == _NEWLINE
    if text:
        last -= (last > starts) & (buffer[np.maximum(last - 1, 0)] == _RETURN)
    if base == 0 and buffer[:3].tobytes() == BOM and last[0] >= len(BOM):
        first[0] = len(BOM)
    none = np.full(len(starts), -1, dtype=np.int64)
    return Segments(
        starts + base,
        ends + base,
        first + base,
        last + base,
        np.full(len(starts), MESSAGE, dtype=np.uint8),
        {},
        none,
        none,
        np.zeros(len(starts), dtype=np.bool_),
    )


def first_line(source: Source, position: int, marks: Marks = ()) -> int:
    """Where the first line at or behind ``position`` begins; the file's end where there is none."""
    if position <= 0:
        return 0
    ahead = max(map(len, marks), default=0)
    at, step = position - 1, _STEP
    while at < source.length:
        buffer = source.read(at, at + step + ahead)
        ends = newlines(buffer, marks)
        ends = ends[ends <= step]
        if at + len(buffer) < source.length:
            ends = ends[ends < len(buffer)] if marks else ends
        if len(ends):
            return at + int(ends[0])
        at, step = at + step, min(2 * step, WINDOW)
    return source.length


def line_holding(source: Source, offset: int, marks: Marks = ()) -> int:
    """Where the line begins that holds the byte at ``offset``."""
    ahead = max(map(len, marks), default=0)
    stop, step = offset + 1, _STEP
    while stop > 1:
        begin = max(stop - 1 - step, 0)
        ends = begin + newlines(source.read(begin, min(stop + ahead, source.length)), marks)
        ends = ends[ends <= offset]
        if len(ends):
            return int(ends[-1])
        stop, step = begin + 1, min(2 * step, WINDOW)
    return 0
