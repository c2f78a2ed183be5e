"""The lines of a dump: an offset, columns of hex digits, and often the same bytes as characters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from cdcwb.formats.hextext.digits import place_type
from cdcwb.formats.hextext.lines import NEWLINE, NIBBLE, SPACE, Bytes, Ints, Piece, Scan, within

__all__ = ["DATA", "END", "STAR", "DumpLines", "Style", "dump_lines"]

DATA, END, STAR = range(3)
"""What a line of a dump is: bytes, an offset alone (how long the dump is), a ``*`` for lines like the one before."""

_OFFSET_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class Style:
    """How a dump is written: ``shape`` (``xxd``: a colon behind the offset; ``hexdump``: none), the number base of its
    offsets, their least number of digits, and the digits of a group (0: any even number)."""

    shape: str
    base: int
    width: int
    group: int


@dataclass(slots=True)
class DumpLines:
    """The lines that belong to a dump, and the runs of digits that are data; places are units of the text."""

    place: Ints
    kind: Ints
    offset: Ints
    width: Ints  # digits of the offset
    top: Ints  # the greatest of them
    first: Ints  # run
    runs: Ints
    digits: Ints
    starts: NDArray[Any]  # of the runs
    widths: NDArray[np.uint32]

    @classmethod
    def together(cls, parts: list[Self]) -> Self:
        """Those of all pieces as one."""
        before = 0
        for part in parts:
            part.first = part.first + before
            before += part.starts.size
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__slots__))


def dump_lines(piece: Piece, found: Scan, style: Style, units: int) -> DumpLines:
    """The lines of a piece that have the form of the style. ``units`` is the length of the whole text."""
    text = np.append(piece.text, np.full(2, NEWLINE, np.uint8))  # so that one may look beyond the end
    first, after = found.first[:-1], found.first[1:]
    note = found.first_note()
    some = np.flatnonzero(after > first)
    begin, end = found.run_start[first[some]], found.run_end[first[some]]
    fits = (end - begin >= style.width) & (end - begin <= _OFFSET_DIGITS) & (note[some] >= end)
    if style.shape == "xxd":
        fits &= (text[end] == ord(":")) & (text[end + 1] <= SPACE)
    else:
        fits &= found.pure[first[some]]
    rows, begin, end = some[fits], begin[fits], end[fits]
    data, last = _columns(text, found, rows, end, style)
    is_end = (style.shape == "hexdump") & (after[rows] == data) & (note[rows] == found.line_end[rows])
    offset, top = _values(text, begin, end, style.base)
    usable = ((last > data) | is_end) & (offset < 1 << 62)
    rows, begin, end, data, last = rows[usable], begin[usable], end[usable], data[usable], last[usable]
    offset, top = offset[usable].astype(np.int64), top[usable]
    stars = np.flatnonzero((after == first) & (note < found.line_end) & (found.last_note() == note))
    stars = stars[text[note[stars]] == ord("*")]

    width = found.run_end - found.run_start
    chosen = within(width.size, data, last)
    runs_before = np.concatenate(([0], np.cumsum(chosen)))
    digits_before = np.concatenate(([0], np.cumsum(np.where(chosen, width, 0))))
    order = np.argsort(np.concatenate((rows, stars)), kind="stable")

    def column(of_rows: Ints, of_stars: Ints | int) -> Ints:
        merged: Ints = np.concatenate((of_rows, np.broadcast_to(of_stars, stars.shape)))[order]
        return merged

    low, high = column(data, first[stars]), column(last, first[stars])
    return DumpLines(
        place=column(begin, note[stars]) + piece.base,
        kind=column(np.where(last > data, DATA, END), STAR),
        offset=column(offset, 0),
        width=column(end - begin, 0),
        top=column(top, 0),
        first=runs_before[low],
        runs=runs_before[high] - runs_before[low],
        digits=digits_before[high] - digits_before[low],
        starts=(found.run_start[chosen] + piece.base).astype(place_type(units)),
        widths=width[chosen].astype(np.uint32),
    )


def _columns(text: Bytes, found: Scan, rows: Ints, end: Ints, style: Style) -> tuple[Ints, Ints]:
    """The runs in the hex columns of the rows: the first, and the one behind the last.

    The columns end at the first note character (``|`` and ``>`` before the characters), at two spaces (xxd) or three
    (hexdump has two in the middle), or at the first run that is no group of the style.
    """
    data, after = found.first[rows] + 1, found.first[rows + 1]
    stop = found.line_end[rows]
    notes = np.append(found.notes, text.size)
    stop = np.minimum(stop, notes[np.searchsorted(notes, end + 1)])
    begin = end + 1
    begin[data < after] = found.run_start[data[data < after]]
    blank = text == SPACE
    row = blank[:-1] & blank[1:] if style.shape == "xxd" else blank[:-2] & blank[1:-1] & blank[2:]
    gaps = np.append(np.flatnonzero(row), text.size)
    stop = np.minimum(stop, gaps[np.searchsorted(gaps, begin)])
    width = found.run_end - found.run_start
    odd = width % 2 == 1 if style.group == 0 else width != style.group
    other = np.append(np.flatnonzero(odd | ~found.pure), width.size)
    last = np.minimum(np.searchsorted(found.run_start, stop), other[np.searchsorted(other, data)])
    return data, np.maximum(np.minimum(last, after), data)


def _values(text: Bytes, start: Ints, stop: Ints, base: int) -> tuple[NDArray[np.uint64], Ints]:
    """The numbers (of up to 16 digits) that stand there, and the greatest digit of each."""
    value = np.zeros(start.size, np.uint64)
    top = np.zeros(start.size, np.int64)
    for place in range(int((stop - start).max(initial=0))):
        there = start + place < stop
        digit = NIBBLE[text[start[there] + place]]
        value[there] = value[there] * np.uint64(base) + digit
        top[there] = np.maximum(top[there], digit)
    return value, top
