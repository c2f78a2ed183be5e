"""Texts of hex digits as sources of bytes, with the location of every byte in the text.

Analysts keep captures as texts: groups of hex digits with notes, headings and labels between them. One rule separates
data from notes. A *row* of groups begins at the start of a line, or anywhere with a group of eight digits or more; it
continues with groups of four digits or more that only blanks separate. All its groups have an even number of digits,
and no other hex digit adjoins them. A line of groups alone, of any even widths, is data too if it has eight digits or
more, or follows a line with data. Everything else is a note, and so is a line that begins with ``#``.

``xxd`` and ``hexdump -C`` print an offset before the bytes of a line, and their characters after them: those are notes.
An offset that restarts begins a read; one that is too high shows what is missing. A dump in which ``*`` replaces lines
is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from cdcwb.errors import CaptureError
from cdcwb.formats.kernels import kernel

__all__ = ["SHAPES", "TextSource", "read_text"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

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

_STAR: Final = re.compile(rb"^[ \t]*\*[ \t\r]*$", re.MULTILINE)
_HEAD: Final = 1 << 16


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


@dataclass(slots=True)
class _Digits:
    """The groups of a text that are data, and which of them begin lines and reads."""

    starts: Ints
    widths: Ints
    lines: Ints
    reads: Ints | None = None
    problem: str | None = None


def _groups(function: Any, *parts: Any) -> tuple[Ints, Ints, Ints]:
    found, lines = function(*parts, *np.empty((3, 0), np.int64))
    out = np.empty(found, np.int64), np.empty(found, np.int64), np.empty(lines, np.int64)
    if found:
        function(*parts, *out)
    return out


# --- dumps ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Dump:
    """The lines of a dump: the offset of each, where its digits are, their number of bytes, and where the line
    begins."""

    offset: Ints
    begin: Ints
    end: Ints
    size: Ints
    place: Ints
    has_star: bool

    def __init__(self, shape: str, text: bytes) -> None:
        line = re.compile(rb"^[ \t]*(?:%b)" % _LINES[shape], re.MULTILINE)
        rows = []
        for one in line.finditer(text):
            digits = one[2] or b""
            begin, end = one.span(2) if digits else (0, 0)
            rows.append((int(one[1], 16), begin, end, len(digits.replace(b" ", b"")) // 2, one.start()))
        columns = np.array(rows, np.int64).reshape(-1, 5).T
        self.offset, self.begin, self.end, self.size, self.place = map(np.ascontiguousarray, columns)
        self.has_star = _STAR.search(text) is not None

    def fits(self) -> bool:
        """Whether the offsets continue from line to line; where ``*`` replaces lines, by a multiple of a line."""
        step, size = np.diff(self.offset), self.size[:-1]
        multiple = (step > 0) & (step % np.maximum(size, 1) == 0)
        continues = (size > 0) & (multiple if self.has_star else step == size)
        right, wrong = np.count_nonzero(continues), np.count_nonzero((step > 0) & ~continues)
        begins = bool((self.size > 0).any()) and not self.offset.any()
        return bool(begins or (right and right >= 4 * wrong))

    def digits(self, kinds: Bytes) -> _Digits:
        """The data, and what is missing by the offsets."""
        size, step = self.size.copy(), np.diff(self.offset)
        restarts, ends = (step != size[:-1]) & (step <= 0), size[:-1].copy()
        size[:-1] = np.where(restarts, ends, np.minimum(ends, np.maximum(step, 0)))  # characters were taken for bytes
        kept = np.flatnonzero(size > 0)
        starts, widths, lines = _groups(_within, kinds, self.begin[kept], self.end[kept], 2 * size[kept])
        reads = np.searchsorted(kept, np.append(0, np.flatnonzero(restarts) + 1))
        lost, problem = np.flatnonzero(~restarts & (step > ends)), None
        if len(lost):
            more = f", and more after {len(lost) - 1:,} other lines" if lost[1:].size else ""
            count = int((step - ends)[lost[0]])
            where = f"after the line at offset {int(self.place[lost[0]]):,}"
            problem = f"by the offsets of the dump {count:,} bytes are missing {where}{more}"
        return _Digits(starts, widths, lines, lines[reads[reads < len(lines)]], problem)


# --- the source -------------------------------------------------------------------------------------------------------


def read_text(data: Bytes, shape: str | None) -> TextSource | None:
    """A complete text as bytes; ``shape`` None: whichever it has. None: a text that is no dump of this shape, or
    without digits. Raises CaptureError for a dump that leaves lines out."""
    text = _with_plain_blanks(data.tobytes())
    for name in (shape,) if shape else _LINES:
        if name != "hex" and _Dump(name, text[:_HEAD]).fits():
            dump = _Dump(name, text)
            if dump.has_star:
                cure = "print the dump with hexdump -v -C, or with xxd without -a"
                raise CaptureError(f"in the dump a line of * replaces lines that repeat the one before it; {cure}")
            digits = dump.digits(_kinds(text))
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


class TextSource:
    """One text as the bytes that its digits spell; see :class:`cdcwb.formats.files.Source`."""

    def __init__(self, text: bytes, digits: _Digits, shape: str, evidence: str) -> None:
        self.path, self.compression, self.size = "", None, 0  # type: tuple[str, str | None, int]
        self.shape, self.evidence, self.problem = shape, evidence, digits.problem
        self._starts = digits.starts
        self._before = np.append(0, np.cumsum(digits.widths))  # digits before each group
        self._wire = _spelled(text, digits)
        self._wire.flags.writeable = False
        self.length = len(self._wire)
        is_shown = np.isin(_kinds(text), (_HEX, _NOTE, _COMMENT)) & (np.frombuffer(text, np.uint8) & 0xC0 != 0x80)
        characters = np.count_nonzero(is_shown)
        self.data_share = float(self._before[-1] / characters) if characters else 0.0
        if shape == "hex":
            self.evidence = f"text in which {self.data_share:.0%} of the characters are hex digits in groups"
        self.line_starts: Ints | None = self._before[digits.lines] // 2
        self.read_starts: Ints | None = None if digits.reads is None else self._before[digits.reads] // 2

    def read(self, start: int, stop: int) -> Bytes:
        """The bytes from ``start`` to ``stop``, clipped to ``length``; a read-only view."""
        start = min(max(start, 0), self.length)
        return self._wire[start : min(max(stop, start), self.length)]

    def view(self, start: int, stop: int) -> Bytes:
        """The bytes before ``stop``; those before ``start`` too."""
        return self.read(0, stop)

    def mapped(self) -> Bytes:
        """All bytes."""
        return self.read(0, self.length)

    def places(self, start: npt.NDArray[Any], stop: npt.NDArray[Any]) -> tuple[Ints, Ints]:
        """The locations of ranges of bytes in the decompressed file: (offset of the first digit, end of the last one).
        An empty range has an empty location: at its first byte, or after the last
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
        found: Ints = self._starts[group] + digit - self._before[group]
        return found

    def close(self) -> None:
        """Releases the bytes."""
        self._wire, self.length = self._wire[:0], 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _spelled(text: bytes, digits: _Digits) -> Bytes:
    """The bytes of all groups."""
    edge = np.zeros(len(text) + 1, np.int8)
    edge[digits.starts] += 1
    edge[digits.starts + digits.widths] -= 1
    data = np.frombuffer(text, np.uint8)[np.cumsum(edge[:-1], dtype=np.int8).view(np.bool_)]
    return np.frombuffer(bytearray.fromhex(data.tobytes().decode("ascii")), np.uint8)
