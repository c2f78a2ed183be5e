"""Where JSON documents that follow each other begin and end, over lines or within them, in an array or not.

Square brackets do not count: in a document every brace is closed, whatever array it is in, and an array around the
documents is passed over; so are objects around them, if a tool lists its messages in such (``level``). Two things show
that a document is damaged, and end it where the next line begins as documents do: a newline inside a string, which JSON
does not allow, and an object that begins where a line of a new document would (the margin) although no value may be
there. Such a document is a message up to there: its parser reports what is wrong.

Between documents, lines of nothing but white space, commas and square brackets belong to the document before them, and
what precedes a document on its own line belongs to that, unless it is a note; other lines are segments of their own.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from cdcwb.formats.containers.console import BOM, Layout, parse, remark
from cdcwb.formats.containers.envelopes import unwrap
from cdcwb.formats.containers.messages import (
    FILLER,
    LONGEST,
    MALFORMED,
    MESSAGE,
    PIECE,
    Chunk,
    ParsedSegment,
    Segment,
    damage,
    shown,
)
from cdcwb.formats.kernels import Bytes, Int, Ints, interpreted, kernel, read_only
from cdcwb.formats.source import Source

_DEPTH: Final = 1000  # objects and arrays inside each other; deeper ones end the document
_WINDOW: Final = 1 << 16
_MOST_WINDOW: Final = 8 << 20
_SMALL: Final = 1 << 15  # bytes for which nothing is compiled
_NOTHING: Final = re.compile(rb"[\s,\[\]]*\Z")
_EMPTY: Final = re.compile(rb"\s*\n")  # all blank lines that follow each other
_TOO_LONG: Final = f"a JSON document whose end cannot be found: a document longer than {LONGEST:,} bytes"
_NO_DATA: Final = "white space between documents"


@kernel
def _blank(c: Int) -> bool:
    return bool(c == 32 or c == 10 or c == 13 or c == 9)


@kernel
def _is_margin(text: Bytes, at: Int, margin: Bytes) -> bool:
    """Whether a line begins before ``at`` with the margin alone."""
    before = at - len(margin) - 1
    if before < 0 or text[before] != 10:
        return False
    for place in range(len(margin)):  # noqa: SIM110  (a kernel)
        if text[before + 1 + place] != margin[place]:
            return False
    return True


@kernel
def _resumed(text: Bytes, at: Int, margin: Bytes) -> Int:
    """Where the next line at or after ``at`` begins that is a margin and an opening brace; the end if there is none."""
    while at < len(text):
        if text[at] == 123 and _is_margin(text, at, margin):
            return at
        at += 1
    return at


@kernel
def _scan(text: Bytes, depth: Int, level: Int, margin: Bytes, brackets: Bytes, begins: Ints, ends: Ints) -> Int:
    """Fills ``begins`` and ``ends`` with the documents that are objects inside of ``level`` others, and returns their
    number; the last has the end -1 if the text ends first. ``depth`` objects are open at the start; ``brackets`` has
    room for what is open in a document."""
    number: Int = 0
    at: Int = 0
    open_ = 0  # brackets and braces in the document
    inside = False
    last: Int = 0  # the last character of the document outside of strings that is not blank
    while at < len(text):
        c = np.int64(text[at])
        is_cut = False  # whether the document ends here, before its braces are closed
        if c == 34:
            at += 1
            broken = False
            while at < len(text) and text[at] != 34:
                if text[at] == 10:
                    broken = True
                    break
                at += 2 if text[at] == 92 else 1
            if broken and not inside:  # a quote in the text between documents
                continue
            is_cut = broken
            last = 34
        elif c == 123 or c == 91:
            if c == 123 and inside and _is_margin(text, at, margin):
                is_value = last == 58 or (open_ > 0 and brackets[open_ - 1] == 91 and (last == 91 or last == 44))
                is_cut = not is_value
            if c == 123 and not is_cut:
                if not inside and depth == level:
                    if number >= len(begins):
                        return number
                    begins[number], ends[number] = at, -1
                    number += 1
                    inside, open_ = True, 0
                depth += 1
            if inside and not is_cut:
                if open_ < len(brackets):
                    brackets[open_] = c
                    open_ += 1
                else:
                    is_cut = True
                    at += 1
            last = c
        elif c == 93:
            if inside and open_ > 0 and brackets[open_ - 1] == 91:
                open_ -= 1
            last = c
        elif c == 125:
            while inside and open_ > 0 and brackets[open_ - 1] == 91:
                open_ -= 1
            open_ -= 1 if open_ > 0 else 0
            depth -= 1 if depth > 0 else 0
            if inside and depth == level:
                ends[number - 1] = at + 1
                inside = False
            last = c
        elif not _blank(c):
            last = c
        if is_cut:
            at = _resumed(text, at, margin)
            if at < len(text):
                ends[number - 1] = at - len(margin)
                inside, depth = False, level
        else:
            at += 1
    return number


def documents_in(data: Bytes, margin: bytes, level: int = 0, depth: int = 0) -> list[tuple[int, int]]:
    """Start and end of the documents in some bytes; the last has the end -1 if the bytes end first. ``depth`` objects
    are open at the start."""
    most = int(np.count_nonzero(data == ord("{")))
    begins, ends = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    brackets = np.empty(_DEPTH, dtype=np.uint8)
    edge = read_only(np.frombuffer(margin, np.uint8))
    with interpreted() if len(data) <= _SMALL else contextlib.nullcontext():
        number = int(_scan(read_only(data), depth, level, edge, brackets, begins, ends))
    return list(zip(begins[:number].tolist(), ends[:number].tolist(), strict=True))


# --- segments ---------------------------------------------------------------------------------------------------------


def margin_of(text: bytes) -> bytes:
    """The blanks before the first document of a file on its line, as they precede the others."""
    front = text[: text.find(b"{")].removeprefix(BOM)
    margin = front[front.rfind(b"\n") + 1 :]
    return margin if not margin.strip() else b""


def read_documents(source: Source, layout: Layout, level: int) -> Iterator[Chunk]:
    """All segments of a file. ``level``: the objects around each document; ``layout``: what may precede a document on
    its line."""
    done, depth, size = 0, 0, _WINDOW
    margin = b"" if level else margin_of(source.read(0, _WINDOW).tobytes())
    while done < source.length:
        buffer = source.read(done, done + size)
        text = buffer.tobytes()
        is_last = done + len(text) >= source.length
        found = documents_in(buffer, margin, level, depth)
        if is_last and found and found[-1][1] < 0:
            found[-1] = (found[-1][0], len(text))
        stop = len(text)
        if not is_last and not found and not level:
            stop = text.rfind(b"\n") + 1 or (stop if stop > LONGEST else 0)
        if not is_last and found and (len(text) <= LONGEST or found[-1][1] < 0):
            stop = found.pop()[0]  # it is read again, with what follows it
        segments = _segments(text, found, stop, layout, level, done, is_last)
        used = segments[-1][1] - done if segments else 0
        if not used and len(text) > LONGEST:
            for one in damage(done, source.length, _TOO_LONG):
                yield Chunk(one[0], source.read(*one[:2]), [one])
            return
        if used:
            yield Chunk(done, buffer[:used], segments)
            depth = level
        done, size = done + used, min(2 * size, _MOST_WINDOW if used else LONGEST + _WINDOW)


class _Segments:
    """The segments of a text that is at ``base`` in its file; ``end``: where they end in the text so far."""

    def __init__(self, text: bytes, base: int, layout: Layout) -> None:
        self.text, self.base, self.layout = text, base, layout
        self.done: list[Segment] = []
        self.end = 0
        self._is_document = False  # the last one, which takes what carries nothing

    def add(self, end: int, parsed: ParsedSegment, *, is_document: bool = False) -> None:
        """Adds a segment up to ``end``."""
        start, stop = self.base + self.end, self.base + end
        is_damage = parsed.state == MALFORMED and not is_document
        self.done += damage(start, stop, parsed.reason or "") if is_damage else [(start, stop, parsed)]
        self.end, self._is_document = end, is_document

    def skip(self, end: int) -> None:
        """White space, commas and brackets: a part of the document before, or of what follows."""
        if end - self.end > PIECE:
            self.done += damage(self.base + self.end, self.base + end, _NO_DATA, FILLER)
            self.end, self._is_document = end, False
        elif self._is_document:
            start, _, parsed = self.done[-1]
            self.done[-1] = (start, self.base + end, parsed)
            self.end = end

    def lines(self, at: int, stop: int) -> None:
        """The complete lines of a text without documents, and the end of the file."""
        while newline := self.text.find(b"\n", at, stop) + 1:
            if (blank := _EMPTY.match(self.text, at, stop)) is not None:
                newline = blank.end()
            self._line(at, newline)
            at = newline
        if at < stop == len(self.text):
            self._line(at, stop)

    def _line(self, at: int, end: int) -> None:
        line = self.text[at:end]
        if _NOTHING.match(line):
            self.skip(end)
            return
        found = parse(line.rstrip(b"\r\n"), self.layout)
        if found.state == MESSAGE and found.value is not None:
            found = _unexpected(line.strip())
        self.add(end, found)

    def document(self, at: int, begin: int, end: int) -> None:
        """A document, which is from ``begin`` on, with what precedes it on its line from ``at`` on."""
        lead, value = self.text[at:begin], self.text[begin:end].rstrip()
        parsed = unwrap(value, self.layout.encoding) if self.layout.records else None
        parsed = parsed or ParsedSegment(MESSAGE, value)
        if not _NOTHING.match(lead):
            before = parse(lead if remark(lead.strip()) else lead + b"{}", self.layout)
            if before.value == b"{}":
                parsed = before._replace(value=value)
            else:
                self.add(begin, before if remark(lead.strip()) else _unexpected(lead))
        is_long = end - begin > LONGEST
        self.add(end, ParsedSegment(MALFORMED, None, reason=_TOO_LONG) if is_long else parsed, is_document=not is_long)


def _unexpected(text: bytes) -> ParsedSegment:
    return ParsedSegment(MALFORMED, None, reason=f"a JSON document was expected, found {shown(text)}")


def _segments(
    text: bytes, places: list[tuple[int, int]], stop: int, layout: Layout, level: int, base: int, is_last: bool
) -> list[Segment]:
    """The documents up to ``stop``, and the texts between them. The last text is without what may precede a document on
    its line."""
    found = _Segments(text, base, layout)
    at = len(BOM) if base == 0 and text.startswith(BOM) else 0
    for begin, end in places:
        if level:
            found.skip(begin)
            at = begin
        else:
            found.lines(at, begin)
            at = max(at, text.rfind(b"\n", at, begin) + 1)
        found.document(at, begin, end)
        at = end
    if level:
        found.skip(stop)
    else:
        found.lines(at, stop)
    if is_last and found.end < len(text):
        found.done += damage(base + found.end, base + len(text), _NO_DATA, FILLER)
    return found.done
