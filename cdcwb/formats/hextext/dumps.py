"""Dumps of bytes: supported programs, recognition, and use of offsets.

Supported are ``xxd`` (any -c and -g, upper case, -a) and similar dumps (a colon after the offset); ``hexdump -C``, ``od
-A x -t x1`` and similar ones (white space after the offset, separated bytes). The offsets are the proof: each must be
the preceding one plus the bytes between. They also give the end of the bytes and the start of their characters if
spacing was lost, the number of bytes of a ``*``, and the start of a new dump in a file with several.

Words in machine byte order (``hexdump`` without -C, ``od -x``, ``xxd -e``) and bits (``xxd -b``) are rejected, since
their bytes are ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from cdcwb.errors import CaptureError
from cdcwb.formats.hextext.digits import Digits, place_type
from cdcwb.formats.hextext.lines import NEWLINE, NIBBLE, SPACE, Bytes, Ints, Piece, Scan, Text, scan, within

__all__ = ["DATA", "END", "Style", "read_dump", "recognise"]


DATA, END, STAR = range(3)
"""The kinds of lines of a dump: bytes, an offset alone (the length of the dump), a ``*`` for repeated lines."""

_OFFSET_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class Style:
    """The style of a dump: ``shape`` (``xxd``: a colon after the offset; ``hexdump``: none), the number base of its
    offsets, their minimum digits, and the digits of a group (0: any even number)."""

    shape: str
    base: int
    width: int
    group: int


@dataclass(slots=True)
class DumpLines:
    """The lines of a dump, and the runs of data digits; offsets are units of the text."""

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
    """The lines of a piece that have the form of the style. ``units`` is the length of the complete text."""
    text = np.append(piece.text, np.full(2, NEWLINE, np.uint8))  # allows reads beyond the end
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
    """The range of runs in the hex columns of the rows. The columns end at the first note character (``|`` and ``>``
    precede the characters), at two spaces (xxd) or three (hexdump has two in the middle), or at the first run that is
    not a group of the style.
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
    """The numbers (of up to 16 digits) at these offsets, and the greatest digit of each."""
    value = np.zeros(start.size, np.uint64)
    top = np.zeros(start.size, np.int64)
    for place in range(int((stop - start).max(initial=0))):
        there = start + place < stop
        digit = NIBBLE[text[start[there] + place]]
        value[there] = value[there] * np.uint64(base) + digit
        top[there] = np.maximum(top[there], digit)
    return value, top


# --- dumps ------------------------------------------------------------------------------------------------------------

_SAMPLE: Final = 1 << 18  # units that are examined to recognise a dump
_LINES: Final = 200  # lines whose characters are examined
_LONGEST: Final = 1 << 16  # bytes of a line
# A star may have many more bytes than the text, but at most 16 MiB, or 64 times the text.
_STAR_LEAST: Final = 16 << 20
_STAR_TIMES: Final = 64
_FORMS: Final = (Style("xxd", 16, 4, 0), *(Style("hexdump", 16, 4, group) for group in (2, 4, 8, 16)))


def recognise(text: Text, shape: str | None = None) -> Style | None:
    """The style of the dump (of that shape), detected from the beginning of the text; None if it is not a dump. Raises
    CaptureError for a dump of words in machine order or of bits, with advice for a readable one.
    """
    piece = next(text.pieces(_SAMPLE), None)
    if piece is None:
        return None
    found = scan(piece.text)
    styles = [
        (style, dump_lines(piece, found, style, text.units)) for style in _styles(piece, found, text.units, shape)
    ]
    for spacing_lost in (False, True):
        for style, lines in styles:
            if _adds_up(piece, lines, style, spacing_lost):
                # No program writes words in machine order after eight digits.
                if style.shape == "hexdump" and style.group > 2 and style.width < 8:
                    words = f"{style.group // 2}-byte words in the byte order of the machine that made it"
                    raise CaptureError(f"a dump of {words}; make it with hexdump -C or xxd")
                if style.shape == "xxd":
                    _refuse_swapped(piece, lines)
                return style
            if style.shape == "xxd" and _are_bits(piece, lines):
                raise CaptureError("a dump of bits (xxd -b); make it with xxd, without -b")
    return None


def _styles(piece: Piece, found: Scan, units: int, shape: str | None) -> Iterator[Style]:
    """The possible styles of a dump, the most certain first, if the piece has lines of that form."""
    for form in _FORMS:
        if shape not in (None, form.shape):
            continue
        lines = dump_lines(piece, found, form, units)
        data = lines.kind == DATA
        if data.any():
            # Programs write hex offsets with 6 or 8 digits, octal and decimal ones mostly with 7.
            width = int(np.bincount(lines.width[data]).argmax())
            for base in (8, 10, 16) if width == 7 else (16, 10, 8):
                if (lines.top < base).all():
                    yield replace(form, base=base, width=width)


def _adds_up(piece: Piece, lines: DumpLines, style: Style, spacing_lost: bool) -> bool:
    """Whether the offsets prove that this is a dump of the style. If spacing was lost, characters may look like groups,
    so some lines seem too long."""
    kind, offset, length = lines.kind, lines.offset, lines.digits // 2
    follows = (kind[:-1] == DATA) & (kind[1:] != STAR)
    step = offset[1:] - offset[:-1]
    good = follows & (step == length[:-1])
    again = follows & (offset[1:] == 0)
    over = follows & (step > 0) & (step < length[:-1]) & spacing_lost
    step = offset[2:] - offset[:-2]
    over_star = (kind[:-2] == DATA) & (kind[1:-1] == STAR) & (kind[2:] != STAR)
    over_star &= (step > 0) & (step % np.maximum(length[:-2], 1) == 0)
    right = int(np.count_nonzero(good)) + int(np.count_nonzero(over_star))
    wrong = int(np.count_nonzero(follows & ~good & ~again & ~over))
    if style.group > 2:  # a hex text of wide groups may look like this for a line or two
        return right >= 3 and not wrong and not over.any()
    if style.shape == "xxd" and not right and not wrong and not over.any():  # dumps of one line each
        data = np.flatnonzero(kind == DATA)
        return not offset[data].any() or all(_shows_characters(piece, lines, line) for line in data[:_LINES].tolist())
    return right > 0 and right >= 4 * wrong and 4 * right >= int(np.count_nonzero(over))


def _usual(lines: DumpLines) -> int:
    """The bytes of a full line, by the offsets; without evidence a number larger than any."""
    step = (lines.offset[1:] - lines.offset[:-1])[(lines.kind[:-1] == DATA) & (lines.kind[1:] == DATA)]
    step = step[(step > 0) & (step <= _LONGEST)]
    return int(np.bincount(step).argmax()) if step.size else _LONGEST


def _shown(piece: Piece, lines: DumpLines, line: int) -> tuple[list[bytes], bytes]:
    """The groups of a line, and the text after them."""
    runs = slice(int(lines.first[line]), int(lines.first[line] + lines.runs[line]))
    places = list(zip(lines.starts[runs].tolist(), lines.widths[runs].tolist(), strict=True))
    groups = [bytes.fromhex(piece.text[start : start + width].tobytes().decode()) for start, width in places]
    end = sum(places[-1])
    return groups, piece.text[end : end + 4 * sum(map(len, groups)) + 80].tobytes().split(b"\n")[0]


def _characters(groups: list[bytes]) -> bytes:
    return bytes(b if 0x20 <= b < 0x7F else 0x2E for b in b"".join(groups))


def _shows_characters(piece: Piece, lines: DumpLines, line: int) -> bool:
    groups, behind = _shown(piece, lines, line)
    return behind.rstrip(b" ").endswith(_characters(groups).rstrip(b" "))


def _refuse_swapped(piece: Piece, lines: DumpLines) -> None:
    straight = swapped = 0
    for line in np.flatnonzero(lines.kind == DATA)[:_LINES].tolist():
        groups, behind = _shown(piece, lines, line)
        shown, turned = _characters(groups), _characters([group[::-1] for group in groups])
        if shown != turned:
            straight += behind.endswith(shown)
            swapped += behind.endswith(turned)
    if swapped > straight:
        raise CaptureError("a dump of words in little-endian order (xxd -e); make it with xxd, without -e")


def _are_bits(piece: Piece, lines: DumpLines) -> bool:
    data = np.flatnonzero((lines.kind[:-1] == DATA) & (lines.kind[1:] == DATA))
    eighth = lines.offset[data + 1] - lines.offset[data] == lines.digits[data] // 8
    only_bits = (lines.widths == 8).all() and not (NIBBLE[piece.text[lines.starts]] > 1).any()
    return bool(data.size and eighth.all() and only_bits)


@dataclass(slots=True)
class _Findings:
    """The evidence from the offsets of a dump, by the index of lines."""

    reads: list[int] = field(default_factory=list)  # lines that begin a new dump
    ends: list[int] = field(default_factory=list)  # data lines that no offset follows
    cuts: list[tuple[int, int]] = field(default_factory=list)  # line, its actual bytes
    stars: list[tuple[int, int]] = field(default_factory=list)  # star, its bytes
    gaps: list[tuple[int, int]] = field(default_factory=list)  # preceding line, missing bytes
    refused: list[tuple[int, int]] = field(default_factory=list)  # star, bytes


def read_dump(text: Text, style: Style) -> Digits:
    """Finds the data of a dump. ``reads`` are the restarts of offsets; ``problem`` describes missing bytes."""
    parts: list[DumpLines] = []
    characters = 0
    for piece in text.pieces():
        parts.append(dump_lines(piece, scan(piece.text), style, text.units))
        characters += piece.characters
    lines = DumpLines.together(parts)
    del parts
    found = _follow(lines, max(_STAR_LEAST, _STAR_TIMES * text.units))
    for line, length in found.cuts:
        _cut(lines, line, length)
    for line in found.ends:
        _cut(lines, line, _bytes_of_end(text, lines, line))
    star_lines = np.array([line for line, _ in found.stars], np.int64)
    stands_for = np.array([2 * length for _, length in found.stars], np.uint32)
    at = lines.first[star_lines]

    def moved(runs: Ints) -> Ints:
        return runs + np.searchsorted(at, runs, side="right")

    return Digits(
        np.insert(lines.starts, at, lines.place[star_lines].astype(lines.starts.dtype)),
        np.insert(lines.widths, at, stands_for),
        lines=moved(lines.first[lines.kind == DATA]),
        characters=characters,
        reads=moved(lines.first[found.reads]),
        stars=at + np.arange(at.size),
        periods=lines.digits[star_lines - 1] // 2,
        problem=_problem(lines, found, text.unit),
    )


def _follow(lines: DumpLines, most: int) -> _Findings:
    """Checks each line whose offset does not continue the preceding one."""
    kind, offset = lines.kind, lines.offset
    length = lines.digits // 2
    expected = offset + length
    data = np.flatnonzero(kind == DATA)
    if not data.size:
        return _Findings()
    found = _Findings(reads=[int(data[0])])
    plain = (kind[:-1] == DATA) & (kind[1:] != STAR) & (offset[1:] == expected[:-1])
    for line in (np.flatnonzero(~plain & (kind[:-1] != STAR))).tolist():
        this, following = int(expected[line]), line + 1
        is_data = kind[line] == DATA
        if kind[following] == STAR:
            star, following = following, following + 1
            if not is_data or following == kind.size or kind[following] == STAR:
                continue
            missing = int(offset[following]) - this
            if 0 < missing <= most:
                found.stars.append((star, missing))
                most -= missing
                continue
            if missing > 0:
                found.refused.append((star, missing))
                continue
        there = int(offset[following])
        if is_data and int(offset[line]) < there < this:
            found.cuts.append((line, there - int(offset[line])))  # its characters were taken for bytes
        elif is_data and there > this:
            found.gaps.append((line, there - this))
        elif kind[following] == DATA and there != this:
            found.reads.append(following)
            if is_data:
                found.ends.append(line)
    if kind[-1] == DATA:
        found.ends.append(kind.size - 1)
    return found


def _bytes_of_end(text: Text, lines: DumpLines, line: int) -> int:
    """The number of bytes of the last line of a dump, which no offset follows. If spacing was lost its characters may
    look like groups. They are recognised as the characters of the preceding groups, if the line above has characters
    after its bytes as well.
    """
    length, first = int(lines.digits[line]) // 2, int(lines.first[line])
    last = first + int(lines.runs[line]) - 1
    stop = int(lines.starts[last]) + int(lines.widths[last])
    if text.at(stop, stop + 2).tobytes() == b"  " or not line or lines.kind[line - 1] != DATA:
        return length
    if int(lines.offset[line - 1]) + int(lines.digits[line - 1]) // 2 != int(lines.offset[line]):
        return length
    above = text.at(int(lines.starts[first - 1]) + int(lines.widths[first - 1]), int(lines.place[line]))
    if not above.tobytes().strip():
        return length
    runs = range(first, last + 1)
    places = [(int(lines.starts[run]), int(lines.widths[run])) for run in runs]
    groups = [bytes.fromhex(text.at(start, start + width).tobytes().decode()) for start, width in places]
    for count in range(1, len(groups)):
        if text.at(sum(places[count - 1]), stop).tobytes().strip() == _characters(groups[:count]).strip():
            return sum(map(len, groups[:count]))
    return min(length, _usual(lines))


def _cut(lines: DumpLines, line: int, length: int) -> None:
    left = 2 * length
    for run in range(int(lines.first[line]), int(lines.first[line] + lines.runs[line])):
        lines.widths[run] = min(left, int(lines.widths[run]))
        left -= int(lines.widths[run])
    lines.digits[line] = 2 * length


def _problem(lines: DumpLines, found: _Findings, unit: int) -> str | None:
    parts = []
    if found.gaps:
        line, length = found.gaps[0]
        where = f"after the line at offset {int(lines.place[line]) * unit:,}"
        more = "" if len(found.gaps) == 1 else f", and more at {len(found.gaps) - 1:,} other offsets"
        parts.append(f"by the offsets of the dump {length:,} bytes are missing {where}{more}")
    if found.refused:
        star, length = found.refused[0]
        where = f"the * at offset {int(lines.place[star]) * unit:,}"
        parts.append(f"{where} would repeat {length:,} bytes, which is implausible; it is ignored")
    return "; ".join(parts) or None
