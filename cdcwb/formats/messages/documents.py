"""Where JSON documents that follow each other begin and end, over lines or within them, in an array or not.

Between documents, lines of nothing but white space, commas and square brackets belong to the document before them, and
what stands on a document's own line before it belongs to that, unless it is a note; other lines are segments of their
own. A document that is cut off, by another one or the end of the file, is a message up to there: who parses it says so.
One whose end cannot be found otherwise is damage up to the next line that begins as documents do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from cdcwb.formats.files import Source
from cdcwb.formats.messages.batch import shown
from cdcwb.formats.messages.layout import Layout, parse
from cdcwb.formats.messages.lines import BOM
from cdcwb.formats.messages.notes import remark
from cdcwb.formats.messages.scanner import Damage, Scanner
from cdcwb.formats.messages.segments import BYTES, LONGEST, PIECE, Found, Segments

__all__ = ["first_documents", "iter_documents"]

_LEAST: Final = 1 << 9  # bytes scanned at a time behind damage; doubled while all goes well
_MOST: Final = 1 << 20
_GAP: Final = 1 << 16  # a line between documents that is longer is cut
_MARK: Final = 24  # bytes of the longest beginning of a line that counts
_MARKS: Final = rb"CreateTime:|LogAppendTime:|NO_TIMESTAMP|Partition:|Offset:|NO_HEADERS"
_NOTHING: Final = re.compile(rb"[\s,\[\]]*\Z")
_BRACE: Final = ord("{")
_TOO_LONG: Final = f"a document longer than {LONGEST:,} bytes, the maximum of a message"


def iter_documents(source: Source, layout: Layout, margin: bytes = b"", most: int = 8192) -> Iterator[Segments]:
    """All segments of a file; ``margin`` are the blanks before the braces that open documents at line begins,
    ``layout`` tells what may stand before a document on its line."""
    walk = _Walk(source, layout, margin)
    while walk.step():
        if len(walk.found) >= most or walk.found.bytes >= BYTES:
            yield walk.found.take()
    if len(walk.found):
        yield walk.found.take()


def first_documents(source: Source, limit: int, margin: bytes) -> list[tuple[int, int]]:
    """Begin and end of the documents in the first ``limit`` bytes or so: to tell what a file is."""
    walk = _Walk(source, Layout(), margin)
    found: list[tuple[int, int]] = []
    walk.documents = found
    while walk.scanned < limit and walk.step():
        pass
    walk.let_go()
    return found


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A document that has ended; its segment ends where the next one begins."""

    start: int
    lead: int
    begin: int
    end: int


class _Walk:
    """Goes through a file. ``start``: up to where segments were found; ``done``: up to where the text behind that is
    known to be nothing; ``scanned``: up to where the scanner went; ``begin``: of the document that is open, or -1."""

    def __init__(self, source: Source, layout: Layout, margin: bytes) -> None:
        self.source = source
        self.layout = layout
        self.margin = margin
        self.again = re.compile(rb"\n(?=%s\{|%s)" % (re.escape(margin), _MARKS))
        self.found = Found()
        self.documents: list[tuple[int, int]] | None = None  # all of them, where somebody wants to know
        self.start = 0
        self.done = self.scanned = len(BOM) if source.read(0, len(BOM)).tobytes() == BOM else 0
        self.begin = -1
        self.waiting: _Waiting | None = None
        self.scanner = Scanner(margin)
        self.size = _LEAST

    def step(self) -> bool:
        """Scans one more piece; False at the end."""
        if self.scanned >= self.source.length:
            self.finish()
            return False
        base = self.scanned
        piece = self.source.read(base, base + self.size)
        scan = self.scanner.feed(piece)
        begins, ends = (scan.begins + base).tolist(), (scan.ends + base).tolist()
        if self.begin >= 0:
            begins.insert(0, self.begin)
        for begin, end in zip(begins, ends, strict=False):
            self.document(begin, end)
        self.begin = begins[-1] if len(begins) > len(ends) else -1
        if scan.damage is not None:
            self.damage(scan.damage, base)
            return True
        self.scanned = base + len(piece)
        self.size = min(2 * self.size, _MOST)
        if self.begin >= 0 and self.scanned - self.begin > LONGEST:
            self.damage(Damage(len(piece), _TOO_LONG, True), base)
        elif self.begin < 0 and self.scanned - self.done > _GAP:
            self.lines(self.scanned, False)
        return True

    def document(self, begin: int, end: int, complete: bool = True) -> None:
        """A document and what stands before it. Only ``complete`` ones tell what a file is."""
        self.lines(begin, False)
        lead = self.source.read(self.done, begin).tobytes()
        if end - begin > LONGEST:
            self.malformed(end, _TOO_LONG)
            return
        nothing = _NOTHING.match(lead) is not None
        if not nothing and remark(lead.strip()):
            self.let_go()
            self.found.filler(self.start, begin, "a note between messages")
            self.start, nothing = begin, True
        if not nothing:
            before = parse(lead + b"{}", self.layout)
            if before.value != b"{}":
                self.malformed(begin, f"a JSON document was expected, found {shown(lead)}")
                nothing = True
        self.let_go()
        self.waiting = _Waiting(self.start, -1 if nothing else self.done, begin, end)
        if self.documents is not None and complete:
            self.documents.append((begin, end))
        self.start = self.done = end

    def let_go(self) -> None:
        """Ends the segment of the document that waits."""
        if self.waiting is not None:
            one = self.waiting
            self.found.message(one.start, self.start, one.begin, one.end, one.lead, one.begin if one.lead >= 0 else -1)
            self.waiting = None

    def malformed(self, end: int, reason: str) -> None:
        """Damage from the last segment on."""
        self.let_go()
        if self.start < end:
            self.found.malformed(self.start, end, reason)
        self.start = self.done = end

    def lines(self, stop: int, last: bool) -> None:
        """Deals with the whole lines before ``stop``; with ``last`` also with the one that has no end."""
        while self.done < stop:
            text = self.source.read(self.done, min(stop, self.done + _GAP)).tobytes()
            at = 0
            while newline := text.find(b"\n", at) + 1:
                self.line(text[at:newline])
                at = newline
            if at == 0:
                if not last and len(text) < _GAP:
                    return
                self.line(text)

    def line(self, line: bytes) -> None:
        """A line between documents."""
        behind = self.done + len(line)
        if not _NOTHING.match(line):
            self.let_go()
            self.found.message(self.start, behind, self.done, self.done + len(line.rstrip(b"\r\n")))
            self.start = self.done = behind
            return
        self.done = behind
        if self.waiting is not None and behind - self.waiting.end <= PIECE:
            self.start = behind
        elif behind - self.start > PIECE:
            self.let_go()
            self.found.filler(self.start, behind, "white space between documents")
            self.start = behind

    def damage(self, damage: Damage, base: int) -> None:
        """Goes on behind damage: at the next line that begins as documents do, or at the next brace."""
        place = base + damage.place
        if damage.inside and self.begin >= 0:
            self.lines(self.begin, False)
            begin, self.begin = self.begin, -1
            goes_on = self.next_line(max(begin, place - len(self.margin) - 1))
            if goes_on - place <= _GAP and not self.source.read(place, goes_on).tobytes().strip():
                self.document(begin, goes_on, False)
            else:
                self.malformed(goes_on, f"a JSON document whose end cannot be found: {damage.reason}")
        else:
            goes_on = self.next_brace(place + 1)
        self.scanner = Scanner(self.margin)
        self.scanned = goes_on
        self.size = _LEAST

    def next_line(self, at: int) -> int:
        """Where the next line begins that begins as documents do."""
        step = _LEAST
        while at < self.source.length:
            text = self.source.read(at, at + step + _MARK + len(self.margin)).tobytes()
            for found in self.again.finditer(text):
                line = text[found.end() : text.find(b"\n", found.end()) + 1]
                if b"\\" in line or line.count(b'"') % 2 == 0:  # else it is damaged as well, and needs no scanner
                    return at + found.end()
            at, step = at + step, min(2 * step, _MOST)
        return self.source.length

    def next_brace(self, at: int) -> int:
        """Where the next opening brace stands."""
        step = _LEAST
        while at < self.source.length:
            there = np.flatnonzero(self.source.read(at, at + step) == _BRACE)
            if len(there):
                return at + int(there[0])
            at, step = at + step, min(2 * step, _MOST)
        return self.source.length

    def finish(self) -> None:
        """Deals with what is left at the file's end."""
        length = self.source.length
        if self.begin >= 0:
            self.document(self.begin, length, False)
            self.begin = -1
        self.lines(length, True)
        if self.waiting is not None:
            self.start = self.done
        self.let_go()
        if self.start < length:
            self.found.filler(self.start, length, "white space between documents")
            self.start = length
