"""Texts of hex digits as sources of bytes, with the location of every byte in the text.

Analysts keep captures as texts: groups of hex digits with notes, headings and labels between them. One rule separates
data from notes. A *row* of groups begins at the start of a line, or anywhere with a group of eight digits or more; it
continues with groups of four digits or more that only blanks separate. All its groups have an even number of digits,
and no other hex digit adjoins them. A line of groups alone, of any even widths, is data too if it has eight digits or
more, or follows a line with data. Everything else is a note, and so is a line that begins with ``#``.

``xxd`` and ``hexdump -C`` print an offset before the bytes of a line, and their characters after them: those are notes.
An offset that restarts begins a read; one that is too high shows what is missing, and ``*`` replaces lines that repeat
the line before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from cdcwb.formats.kernels import Bytes, Ints, kernel
from cdcwb.formats.source import HeldBytes, Source

SHAPES: Final = ("hex", "xxd", "hexdump")
"""The shapes of a text."""

_HEX, _BLANK, _END, _NOTE, _COMMENT = 0, 1, 2, 3, 4
_KINDS: Final = np.full(256, _NOTE, np.uint8)
_KINDS[list(b"0123456789abcdefABCDEF")] = _HEX
_KINDS[list(b" \t\v\f")] = _BLANK
_KINDS[list(b"\r\n")] = _END
_KINDS[ord("#")] = _COMMENT
_BLANKS: Final = "\u00a0\u3000\u200b\u2009\u202f\ufeff"
"""What editors and browsers put in the place of a blank."""

_LINES: Final = {
    "xxd": rb"([0-9a-fA-F]{4,15}):((?:[ ](?:[0-9a-fA-F]{2})+)+)",
    "hexdump": rb"([0-9a-fA-F]{7,15})(?:((?:[ ]{1,2}[0-9a-fA-F]{2})+)[ ]*\||[ \t\r]*$)",
}
"""By shape: an offset and the digits of the bytes; the last line of ``hexdump`` has none."""

_HEAD: Final = 1 << 16
_STARRED: Final = 16 << 20
"""Bytes that all ``*`` of a text may replace, or 64 times its length."""


# --- the digits of a text ---------------------------------------------------------------------------------------------


@kernel
def _width(kinds: Bytes, at: Any, stop: Any) -> Any:
    """The number of hex digits from here."""
    end = at
    while end < stop and kinds[end] == _HEX:
        end += 1
    return end - at


@kernel
def _rows(kinds: Bytes, starts: Ints, widths: Ints, lines: Ints) -> Any:
    """The groups that are data: where they start and how wide they are, and the groups that are the first of their
    line; the numbers of both. Nothing is written to arrays without room."""
    found, begun, at, size = np.int64(0), np.int64(0), np.int64(0), np.int64(len(kinds))
    follows = np.int64(0)
    while at < size:
        begin, end, digits, alone = at, at, np.int64(0), np.int64(1)
        while end < size and kinds[end] != _END:
            if kinds[end] == _HEX:
                width = _width(kinds, end, size)
                digits += width
                alone &= width % 2 == 0
                end += width
            else:
                alone &= kinds[end] == _BLANK
                end += 1
        alone &= digits >= (2 if follows else 8)
        while at < end and kinds[at] == _BLANK:
            at += 1
        if at < end and kinds[at] == _COMMENT:
            at = end
        first, row = np.int64(1), np.int64(1)
        while at < end:
            if kinds[at] != _HEX:
                row &= kinds[at] == _BLANK
                at += 1
                continue
            width = _width(kinds, at, end)
            after = at + width
            row = row and width >= 4 and (after == end or kinds[after] == _BLANK)
            row = width % 2 == 0 and (row or alone or width >= 8)
            if row:
                if len(starts):
                    starts[found], widths[found] = at, width
                    if first:
                        lines[begun] = found
                found += 1
                begun += first
                first = np.int64(0)
            at = after
        if end > begin:  # a blank line, or the second byte of a line end, is none
            follows = 1 - first
        at = end + 1
    return found, begun


@kernel
def _within(kinds: Bytes, begins: Ints, ends: Ints, most: Ints, starts: Ints, widths: Ints, lines: Ints) -> Any:
    """The same of all groups in given parts of lines, of each no more than ``most`` digits."""
    found = np.int64(0)
    for line in range(len(begins)):
        at, left = begins[line], most[line]
        if len(starts):
            lines[line] = found
        while at < ends[line]:
            width = min(_width(kinds, at, ends[line]), left)
            if width > 0:
                if len(starts):
                    starts[found], widths[found] = at, width
                found += 1
                left -= width
                at += width
            else:
                at += 1
    return found, np.int64(len(begins))


def _none() -> Ints:
    return np.empty(0, np.int64)


@dataclass(slots=True)
class _Digits:
    """The groups of a text that are data, which of them begin lines and reads, and those that are the ``*`` of a dump:
    bytes that repeat so many (``periods``) before them."""

    starts: Ints
    widths: Ints
    lines: Ints
    reads: Ints | None = None
    stars: Ints = field(default_factory=_none)
    periods: Ints = field(default_factory=_none)
    problem: str | None = None


def _groups(function: Any, *parts: Any) -> tuple[Ints, Ints, Ints]:
    found, lines = function(*parts, _none(), _none(), _none())
    out = np.empty(found, np.int64), np.empty(found, np.int64), np.empty(lines, np.int64)
    if found:
        function(*parts, *out)
    return out


# --- dumps ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Dump:
    """The lines of a dump: the offset of each, where its digits are, their number of bytes (-1: a ``*``), and where the
    line begins."""

    offset: Ints
    begin: Ints
    end: Ints
    size: Ints
    place: Ints

    def __init__(self, shape: str, text: bytes) -> None:
        line = re.compile(rb"^[ \t]*(?:%b|(\*)[ \t\r]*$)" % _LINES[shape], re.MULTILINE)
        rows = []
        for one in line.finditer(text):
            digits = one[2]
            count = -1 if one[3] else 0 if digits is None else len(digits.replace(b" ", b"")) // 2
            rows.append((0 if one[3] else int(one[1], 16), *(one.span(2) if digits else (0, 0)), count, one.start()))
        columns = np.array(rows, np.int64).reshape(-1, 5).T
        self.offset, self.begin, self.end, self.size, self.place = map(np.ascontiguousarray, columns)

    def fits(self) -> bool:
        """Whether the offsets continue from line to line."""
        data = np.flatnonzero(self.size >= 0)
        step, size, is_starred = np.diff(self.offset[data]), self.size[data][:-1], np.diff(data) > 1
        continues = np.where(is_starred, (step > 0) & (step % np.maximum(size, 1) == 0), step == size) & (size > 0)
        right, wrong = np.count_nonzero(continues), np.count_nonzero((step > 0) & ~continues)
        begins = bool((self.size > 0).any()) and not self.offset[data].any()
        return bool(begins or (right and right >= 4 * wrong))

    def digits(self, kinds: Bytes, most: int) -> _Digits:
        """The data; all ``*`` replace at most so many bytes."""
        size, reads, missing, lost = self.size.copy(), [], np.zeros(len(self.size), np.int64), []
        last, expected, stars = -1, -1, []
        for line, (offset, count) in enumerate(zip(self.offset.tolist(), self.size.tolist(), strict=True)):
            if count < 0:
                stars.append(line)
                continue
            if last < 0 or (offset != expected and not (stars or self.offset[last] < offset)):
                reads.append(line)
            elif offset < expected and not stars:
                size[last] = offset - self.offset[last]  # characters were taken for bytes
            elif offset > expected and stars and size[last] and offset - expected <= most:
                missing[stars[0]] = offset - expected
                most -= offset - expected
            elif offset > expected:
                lost.append((last, offset - expected, bool(stars)))
            last, expected, stars = line, offset + count, []
        kept = np.flatnonzero((size > 0) | (missing > 0))
        starred = missing[kept] > 0
        begin = np.where(starred, self.place[kept], self.begin[kept])
        starts, widths, lines = _groups(_within, kinds, begin, self.end[kept], 2 * size[kept])
        at = lines[starred]
        starts = np.insert(starts, at, begin[starred])
        widths = np.insert(widths, at, 2 * missing[kept][starred])
        lines = lines + np.cumsum(starred) - starred
        read = np.searchsorted(kept, np.array(reads, np.int64))
        period = np.append(0, size[kept])[:-1]
        return _Digits(
            starts, widths, lines[~starred], lines[read[read < len(lines)]], lines[starred], period[starred],
            self._problem(lost),
        )  # fmt: skip

    def _problem(self, lost: list[tuple[int, int, bool]]) -> str | None:
        if not lost:
            return None
        line, count, is_star = lost[0]
        more = f", and more after {len(lost) - 1:,} other lines" if lost[1:] else ""
        too_many = "; the * there would repeat too many" if is_star else ""
        where = f"after the line at offset {int(self.place[line]):,}"
        return f"by the offsets of the dump {count:,} bytes are missing {where}{more}{too_many}"


# --- the source -------------------------------------------------------------------------------------------------------


def read_text(data: Bytes, shape: str | None) -> TextSource | None:
    """A complete text as bytes; ``shape`` None: whichever it has. None: a text that is no dump of this shape, or
    without digits."""
    text = _with_plain_blanks(data.tobytes())
    for name in (shape,) if shape else _LINES:
        if name != "hex" and _Dump(name, text[:_HEAD]).fits():
            digits = _Dump(name, text).digits(_kinds(text), max(_STARRED, 64 * len(text)))
            mark = "a colon" if name == "xxd" else "blanks"
            evidence = f"lines of an offset, {mark} and hex digits; each offset continues the preceding line"
            return TextSource(text, digits, name, evidence)
    if shape not in (None, "hex"):
        return None
    starts, widths, lines = _groups(_rows, _kinds(text))
    return TextSource(text, _Digits(starts, widths, lines), "hex", "") if len(starts) else None


def _with_plain_blanks(text: bytes) -> bytes:
    """A text with blanks for foreign ones, as long as it is."""
    if not text.isascii():
        for blank in map(str.encode, _BLANKS):
            text = text.replace(blank, b" " * len(blank))
    return text


def _kinds(text: bytes) -> Bytes:
    found: Bytes = _KINDS[np.frombuffer(text, np.uint8)]
    return found


class TextSource(Source):
    """One text as the bytes that its digits spell."""

    def __init__(self, text: bytes, digits: _Digits, shape: str, evidence: str) -> None:
        self._starts = digits.starts
        self._before = np.append(0, np.cumsum(digits.widths))  # digits before each group
        self._is_star = np.zeros(len(digits.starts), np.bool_)
        wire = _spelled(text, digits)
        if len(digits.stars):
            self._is_star[digits.stars] = True
            wire = _repeated(wire, self._before[digits.stars] // 2, digits.widths[digits.stars] // 2, digits.periods)
        wire.flags.writeable = False
        super().__init__(HeldBytes(wire), len(wire))
        self.shape, self.evidence, self.problem = shape, evidence, digits.problem
        is_shown = np.isin(_kinds(text), (_HEX, _NOTE, _COMMENT)) & (np.frombuffer(text, np.uint8) & 0xC0 != 0x80)
        characters = np.count_nonzero(is_shown)
        stars = int(digits.widths[self._is_star].sum())
        self.data_share = float((self._before[-1] - stars) / characters) if characters else 0.0
        if shape == "hex":
            self.evidence = f"text in which {self.data_share:.0%} of the characters are hex digits in groups"
        self.line_starts = self._before[digits.lines] // 2
        self.read_starts = None if digits.reads is None else self._before[digits.reads] // 2

    def places(self, start: Ints, stop: Ints) -> tuple[Ints, Ints]:
        """The locations of ranges of bytes in the decompressed file: (offset of the first digit, end of the last one).
        A byte of a ``*`` is at the ``*``. An empty range has an empty location: at its first byte, or after the last
        digit of the file."""
        first = np.clip(np.asarray(start, np.int64), 0, self.length)
        last = np.clip(np.asarray(stop, np.int64), first, self.length)
        if not self.length:
            return np.zeros_like(first), np.zeros_like(first)
        offset = self._place(np.minimum(2 * first, 2 * self.length - 1))
        end = self._place(np.maximum(2 * last - 1, 0)) + 1
        offset = np.where(first == self.length, self._place(np.array([2 * self.length - 1])) + 1, offset)
        return offset, np.where(last == first, offset, end)

    def _place(self, digit: Ints) -> Ints:
        group = np.searchsorted(self._before, digit, side="right") - 1
        found: Ints = self._starts[group] + np.where(self._is_star[group], 0, digit - self._before[group])
        return found


def _spelled(text: bytes, digits: _Digits) -> Bytes:
    """The bytes of all groups but those of stars."""
    edge = np.zeros(len(text) + 1, np.int8)
    plain = np.ones(len(digits.starts), np.bool_)
    plain[digits.stars] = False
    edge[digits.starts[plain]] += 1
    edge[(digits.starts + digits.widths)[plain]] -= 1
    data = np.frombuffer(text, np.uint8)[np.cumsum(edge[:-1], dtype=np.int8).view(np.bool_)]
    return np.frombuffer(bytearray.fromhex(data.tobytes().decode("ascii")), np.uint8)


def _repeated(wire: Bytes, at: Ints, counts: Ints, periods: Ints) -> Bytes:
    """The bytes with ``counts`` more where they are ``at`` in the result, which repeat those before."""
    out = np.empty(len(wire) + int(counts.sum()), np.uint8)
    done = taken = 0
    for place, count, period in zip(at.tolist(), counts.tolist(), periods.tolist(), strict=True):
        out[done:place] = wire[taken : taken + place - done]
        taken += place - done
        out[place : place + count] = np.resize(out[place - period : place], count)
        done = place + count
    out[done:] = wire[taken:]
    return out
