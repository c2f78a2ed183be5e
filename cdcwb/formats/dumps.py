"""Dumps: lines of an offset, columns of hex digits and (often) the same bytes as characters.

Read are ``xxd`` (any -c and -g, upper case, -a) and what looks like it (a colon behind the offset); ``hexdump -C``,
``od -A x -t x1`` and their likes (white space behind the offset, bytes apart). The offsets are the proof: each must be the
one before plus the bytes between. They also say where the bytes end and their text begins when spacing was lost, how many
bytes a ``*`` stands for, and where a new dump begins in a file that holds several.

Words in the byte order of some machine (``hexdump`` without -C, ``od -x``, ``xxd -e``) and bits (``xxd -b``) are refused:
bytes that are guessed are worse than none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cdcwb.errors import CaptureError
from cdcwb.formats.digits import Digits, place_type
from cdcwb.formats.textlines import NIBBLE, SPACE, Bytes, Ints, Piece, Scan, Text, scan, within

__all__ = ["Style", "read_dump", "recognise"]

_SAMPLE: Final = 1 << 18  # units that are looked at to recognise a dump
_DATA, _END, _STAR = range(3)
# A star may stand for much more than the text is long, but not for anything: 16 MiB, or 64 times the text.
_STAR_LEAST: Final = 16 << 20
_STAR_TIMES: Final = 64
_MACHINE_ORDER: Final = "words in the byte order of the machine that made it; make it with hexdump -C or xxd"


@dataclass(frozen=True, slots=True)
class Style:
    """How a dump is written: ``shape`` (``xxd``: a colon behind the offset; ``hexdump``: none), the number base of its
    offsets, their least number of digits, and the digits of a group (0: any even number)."""

    shape: str
    base: int
    width: int
    group: int


@dataclass(slots=True)
class _Entries:
    """The lines that belong to a dump: data, an offset alone (its end), or a star; places are units."""

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


def recognise(text: Text, shape: str | None = None) -> Style | None:
    """The style of the dump (of that shape) that a text is, judged by its beginning; None where it is none.

    Raises CaptureError for a dump of words in machine order or of bits, saying how to make a readable one.
    """
    piece = next(text.pieces(_SAMPLE), None)
    if piece is None:
        return None
    found = scan(piece.text)
    for style in _styles(piece, found, text.units, shape):
        entries = _entries(piece, found, style, text.units)
        if _adds_up(piece, entries, style):
            if style.shape == "hexdump" and style.group > 2 and style.width < 8:
                raise CaptureError(f"a dump of {style.group // 2}-byte {_MACHINE_ORDER}")
            if style.shape == "xxd":
                _refuse_swapped(piece, entries)
            return style
        if style.shape == "xxd" and _are_bits(piece, entries):
            raise CaptureError("a dump of bits (xxd -b); make it with xxd, without -b")
    return None


def _styles(piece: Piece, found: Scan, units: int, shape: str | None) -> Iterator[Style]:
    """What a dump may look like, the surest first, where the piece has lines of that form."""
    for form in (Style("xxd", 16, 4, 0), *(Style("hexdump", 16, 4, group) for group in (2, 4, 8, 16))):
        if shape not in (None, form.shape):
            continue
        entries = _entries(piece, found, form, units)
        data = entries.kind == _DATA
        if data.any():
            # Programs write hex offsets with 6 or 8 digits, octal and decimal ones mostly with 7.
            width = int(np.bincount(entries.width[data]).argmax())
            for base in (8, 10, 16) if width == 7 else (16, 10, 8):
                if (entries.top[entries.kind != _STAR] < base).all():
                    yield replace(form, base=base, width=width)


def _adds_up(piece: Piece, entries: _Entries, style: Style) -> bool:
    """Whether the offsets prove that this is a dump of the style."""
    kind, offset, length = entries.kind, entries.offset, entries.digits // 2
    step = offset[1:] - offset[:-1]
    follows = (kind[:-1] == _DATA) & (kind[1:] != _STAR)
    good = follows & (step == length[:-1])
    again = follows & (offset[1:] == 0)
    repeats = (kind[:-2] == _DATA) & (kind[1:-1] == _STAR) & (kind[2:] != _STAR)
    step = offset[2:] - offset[:-2]
    right = int(np.count_nonzero(good)) + int(np.count_nonzero(repeats & (step > 0) & (step % np.maximum(length[:-2], 1) == 0)))
    wrong = int(np.count_nonzero(follows & ~good & ~again))
    if style.group > 2:  # a hex text of wide groups can look like this for a line or two
        return right >= 3 and not wrong
    if style.shape == "xxd" and not right and not wrong:  # dumps of one line each
        data = np.flatnonzero(kind == _DATA)
        return not offset[data].any() or all(_shows_characters(piece, entries, entry) for entry in data[:200].tolist())
    return right > 0 and right >= 4 * wrong


def _entries(piece: Piece, found: Scan, style: Style, units: int) -> _Entries:
    """The lines of a piece that have the form of the style."""
    text = np.append(piece.text, np.full(2, 0x0A, np.uint8))  # so that one may look beyond the end
    first, after = found.first[:-1], found.first[1:]
    note = found.first_note()
    some = np.flatnonzero(after > first)
    begin, end = found.run_start[first[some]], found.run_end[first[some]]
    fits = (end - begin >= style.width) & (end - begin <= 16) & (note[some] >= end)
    if style.shape == "xxd":
        fits &= (text[end] == ord(":")) & (text[np.minimum(end + 1, text.size - 1)] <= SPACE)
    else:
        fits &= found.pure[first[some]]
    rows, begin, end = some[fits], begin[fits], end[fits]
    stop = _column_end(text, found, rows, end, 2 if style.shape == "xxd" else 3)
    width = found.run_end - found.run_start
    bad = ~found.pure | (width % 2 == 1) if style.group == 0 else ~found.pure | (width != style.group)
    bad_runs = np.append(np.flatnonzero(bad), width.size)
    data = first[rows] + 1
    last = np.minimum(np.minimum(np.searchsorted(found.run_start, stop), after[rows]), bad_runs[np.searchsorted(bad_runs, data)])
    last = np.maximum(last, data)
    is_data = last > data
    is_end = (style.shape == "hexdump") & (after[rows] == data) & (note[rows] == found.line_end[rows])
    offset = _values(piece.text, begin, end, style.base)
    usable = (is_data | is_end) & (offset < 1 << 62)
    rows, data, last, is_data, offset = rows[usable], data[usable], last[usable], is_data[usable], offset[usable]
    stars = np.flatnonzero((after == first) & (note < found.line_end) & (found.last_note() == note))
    stars = stars[piece.text[note[stars]] == ord("*")]
    chosen = within(width.size, data, last)
    total = np.concatenate(([0], np.cumsum(chosen)))  # chosen runs before each run
    digits = np.concatenate(([0], np.cumsum(np.where(chosen, width, 0))))
    line = np.concatenate((rows, stars))
    order = np.argsort(line, kind="stable")
    low = np.concatenate((data, first[stars]))[order]
    high = np.concatenate((last, first[stars]))[order]
    return _Entries(
        place=np.concatenate((begin[usable], note[stars]))[order] + piece.base,
        kind=np.concatenate((np.where(is_data, _DATA, _END), np.full(stars.size, _STAR)))[order],
        offset=np.concatenate((offset.astype(np.int64), np.zeros(stars.size, np.int64)))[order],
        width=np.concatenate(((end - begin)[usable], np.zeros(stars.size, np.int64)))[order],
        top=np.concatenate((_greatest(piece.text, begin[usable], end[usable]), np.zeros(stars.size, np.int64)))[order],
        first=total[low],
        runs=total[high] - total[low],
        digits=digits[high] - digits[low],
        starts=(found.run_start[chosen] + piece.base).astype(place_type(units)),
        widths=width[chosen].astype(np.uint32),
    )


def _column_end(text: Bytes, found: Scan, rows: Ints, end: Ints, spaces: int) -> Ints:
    """Where the hex columns end at the latest: at the first note character, or at so many spaces in a row."""
    stop = found.line_end[rows]
    if found.notes.size:
        at = np.searchsorted(found.notes, end + 1)
        stop = np.where(at < found.notes.size, np.minimum(stop, found.notes[np.minimum(at, found.notes.size - 1)]), stop)
    begin = end + 1
    second = found.first[rows] + 1
    has_second = second < found.first[rows + 1]
    begin[has_second] = found.run_start[second[has_second]]
    blank = text == SPACE
    row = blank[:-1] & blank[1:]
    if spaces == 3:
        row = row[:-1] & blank[2:]
    gaps = np.append(np.flatnonzero(row), text.size)
    return np.minimum(stop, gaps[np.searchsorted(gaps, begin)])


def _values(text: Bytes, start: Ints, stop: Ints, base: int) -> NDArray[np.uint64]:
    """The numbers (up to 16 digits) that stand there."""
    value = np.zeros(start.size, np.uint64)
    for place in range(int((stop - start).max(initial=0))):
        there = start + place < stop
        value[there] = value[there] * np.uint64(base) + NIBBLE[text[start[there] + place]]
    return value


def _greatest(text: Bytes, start: Ints, stop: Ints) -> Ints:
    """The greatest digit of the numbers that stand there."""
    greatest = np.zeros(start.size, np.int64)
    for place in range(int((stop - start).max(initial=0))):
        at = np.minimum(start + place, stop - 1)
        greatest = np.maximum(greatest, NIBBLE[text[at]])
    return greatest


def _shown(piece: Piece, entries: _Entries, entry: int) -> tuple[list[bytes], bytes]:
    """The groups of a line and the text behind them."""
    low, high = int(entries.first[entry]), int(entries.first[entry] + entries.runs[entry])
    starts, widths = entries.starts[low:high].tolist(), entries.widths[low:high].tolist()
    groups = [piece.text[s : s + w].tobytes() for s, w in zip(starts, widths, strict=True)]
    behind = piece.text[starts[-1] + widths[-1] :][:400].tobytes().split(b"\n")[0]
    return [bytes.fromhex(group.decode()) for group in groups], behind


def _shows_characters(piece: Piece, entries: _Entries, entry: int) -> bool:
    groups, behind = _shown(piece, entries, entry)
    return behind.endswith(_characters(groups))


def _characters(groups: list[bytes]) -> bytes:
    return bytes(b if 0x20 <= b < 0x7F else 0x2E for b in b"".join(groups))


def _refuse_swapped(piece: Piece, entries: _Entries) -> None:
    straight = swapped = 0
    for entry in np.flatnonzero(entries.kind == _DATA)[:200].tolist():
        groups, behind = _shown(piece, entries, entry)
        shown, turned = _characters(groups), _characters([group[::-1] for group in groups])
        if shown != turned:
            straight += behind.endswith(shown)
            swapped += behind.endswith(turned)
    if swapped > straight:
        raise CaptureError("a dump of words in little-endian order (xxd -e); make it with xxd, without -e")


def _are_bits(piece: Piece, entries: _Entries) -> bool:
    data = np.flatnonzero((entries.kind[:-1] == _DATA) & (entries.kind[1:] == _DATA))
    eighth = entries.offset[data + 1] - entries.offset[data] == entries.digits[data] // 8
    digits = entries.widths == 8
    return bool(data.size and eighth.all() and digits.all() and not (NIBBLE[piece.text[entries.starts]] > 1).any())


@dataclass(slots=True)
class _Findings:
    """What the offsets of a dump tell."""

    reads: list[int] = field(default_factory=list)  # entries that begin a new dump
    cuts: list[tuple[int, int]] = field(default_factory=list)  # entry, bytes it really has
    stars: list[tuple[int, int, int]] = field(default_factory=list)  # star entry, bytes it stands for, entry it repeats
    gaps: list[tuple[int, int]] = field(default_factory=list)  # entry before, bytes that are missing
    refused: list[tuple[int, int]] = field(default_factory=list)  # star entry, bytes


def read_dump(text: Text, style: Style) -> Digits:
    """Find the data of a dump. ``reads`` are the places where the offsets begin anew; ``problem`` says what is missing."""
    parts: list[_Entries] = []
    characters = 0
    for piece in text.pieces():
        parts.append(_entries(piece, scan(piece.text), style, text.units))
        characters += piece.characters
    entries = _together(parts)
    if not (entries.kind == _DATA).any():
        return Digits(entries.starts, entries.widths, np.empty(0, np.int64), characters)
    found = _follow(entries, max(_STAR_LEAST, _STAR_TIMES * text.units))
    for entry, length in found.cuts:
        _cut(entries, entry, length)
    at = np.array([entries.first[star + 1] for star, _, _ in found.stars], np.int64)
    starts = np.insert(entries.starts, at, np.array([entries.place[s] for s, _, _ in found.stars], entries.starts.dtype))
    widths = np.insert(entries.widths, at, np.array([2 * n for _, n, _ in found.stars], np.uint32))

    def moved(runs: Ints) -> Ints:
        return runs + np.searchsorted(at, runs, side="right")

    return Digits(
        starts,
        widths,
        lines=moved(entries.first[entries.kind == _DATA]),
        characters=characters,
        reads=moved(entries.first[found.reads]),
        stars=at + np.arange(at.size),
        periods=np.array([entries.digits[repeated] // 2 for _, _, repeated in found.stars], np.int64),
        problem=_problem(entries, found, text.unit),
    )


def _together(parts: list[_Entries]) -> _Entries:
    runs_before = np.cumsum([0] + [part.starts.size for part in parts])
    for part, before in zip(parts, runs_before.tolist(), strict=False):
        part.first = part.first + before
    empty = _Entries(*([np.empty(0, np.int64)] * 8), np.empty(0, np.uint32), np.empty(0, np.uint32))
    names = _Entries.__slots__
    return _Entries(*(np.concatenate([getattr(part, name) for part in parts or [empty]]) for name in names))


def _follow(entries: _Entries, most: int) -> _Findings:
    """Go from line to line wherever the offsets do not simply go on."""
    kind, offset = entries.kind, entries.offset
    length = entries.digits // 2
    expected = offset + length
    data = np.flatnonzero(kind == _DATA)
    usual = int(np.bincount(length[data]).argmax())
    found = _Findings(reads=[int(data[0])])
    plain = (kind[:-1] == _DATA) & (kind[1:] != _STAR) & (offset[1:] == expected[:-1])
    for i in np.flatnonzero(~plain).tolist():
        if kind[i] == _STAR:
            continue
        this, following = int(expected[i]), i + 1
        if kind[i] == _DATA and kind[following] == _STAR and following + 1 < kind.size and kind[following + 1] != _STAR:
            star, following = following, following + 1
            missing = int(offset[following]) - this
            if 0 < missing <= most:
                found.stars.append((star, missing, i))
                most -= missing
                continue
            if missing > most:
                found.refused.append((star, missing))
                continue
        if kind[following] == _STAR:
            continue
        there = int(offset[following])
        if kind[i] == _DATA and int(offset[i]) < there < this:
            found.cuts.append((i, there - int(offset[i])))  # its text was taken for bytes
        elif there > this and kind[i] == _DATA:
            found.gaps.append((i, there - this))
        elif kind[following] == _DATA and there != this:
            found.reads.append(following)
            if kind[i] == _DATA and length[i] > usual:
                found.cuts.append((i, usual))
    if kind[-1] == _DATA and length[-1] > usual:
        found.cuts.append((kind.size - 1, usual))
    return found


def _cut(entries: _Entries, entry: int, length: int) -> None:
    left = 2 * length
    for run in range(int(entries.first[entry]), int(entries.first[entry] + entries.runs[entry])):
        kept = min(left, int(entries.widths[run]))
        entries.widths[run] = kept
        left -= kept
    entries.digits[entry] = 2 * length


def _problem(entries: _Entries, found: _Findings, unit: int) -> str | None:
    parts = []
    if found.gaps:
        entry, length = found.gaps[0]
        places = "in one place" if len(found.gaps) == 1 else f"in {len(found.gaps):,} places, the first"
        parts.append(
            f"the offsets of the dump jump over bytes {places} behind the line at offset {int(entries.place[entry]) * unit:,} "
            f"({length:,} bytes are missing there)"
        )
    if found.refused:
        star, length = found.refused[0]
        parts.append(
            f"the * at offset {int(entries.place[star]) * unit:,} would stand for {length:,} bytes, which is out of proportion; "
            "nothing was put in"
        )
    return "; ".join(parts) or None
