"""Where JSON documents that follow each other begin and end, over lines or within them, in an array or not.

Square brackets do not count: in a document every brace is closed, whatever array it stands in, and an array around the
documents is passed over. The scanner goes piece by piece and carries its state; it stops at the first damage it sees:

* a newline inside a string, which JSON does not allow: a quote is missing or too many,
* an object that begins where a line of a new document would (the margin) though the one before is open and no
  element may stand there: a brace is missing,
* a closing brace without an opening one, and objects nested deeper than any parser follows.

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
from cdcwb.formats.messages.batch import BYTES, LONGEST, PIECE, Bools, Bytes, Found, Ints, Segments, shown
from cdcwb.formats.messages.layout import Layout, is_comment, is_note, parse
from cdcwb.formats.messages.lines import BOM

__all__ = ["Scanner", "first_documents", "iter_documents"]


# --- scanner ----------------------------------------------------------------------------------------------------------

DEPTH: Final = 1000
"""Objects nested deeper than this are damage."""

_KEPT: Final = 256
_QUOTE, _BACKSLASH, _NEWLINE = ord('"'), ord("\\"), ord("\n")
_STEP: Final = np.zeros(256, dtype=np.int8)
_STEP[list(b"{[")] = 1
_STEP[list(b"}]")] = -1
_TOKEN: Final = np.zeros(256, dtype=np.bool_)
_TOKEN[list(b'{}[]"')] = True
_BLANK: Final = np.zeros(256, dtype=np.bool_)
_BLANK[list(b" \t\r\n")] = True


@dataclass(frozen=True, slots=True)
class Damage:
    """What stopped the scanner: where, why, and whether a document was open."""

    place: int
    reason: str
    inside: bool


@dataclass(frozen=True, slots=True)
class Scan:
    """What one piece holds, as places in it: documents that begin, documents that end, and damage."""

    begins: Ints
    ends: Ints
    damage: Damage | None


class Scanner:
    """Goes through a text from a place that is outside of every document."""

    def __init__(self, margin: bytes = b"") -> None:
        """``margin``: the blanks before the documents' opening braces, where they stand at line begins."""
        self._margin = margin
        self._quoted = False
        self._escape = False
        self.depth = 0  # of braces
        self._open = np.empty(0, dtype=np.uint8)  # kinds of all brackets that are open
        self._before = np.empty(0, dtype=np.uint8)  # the last bytes of the piece before

    def feed(self, piece: Bytes) -> Scan:
        """The next piece. After damage the scanner is of no more use."""
        place = np.flatnonzero(_TOKEN[piece])
        kind = piece[place]
        quote = (kind == _QUOTE) & ~self._escaped(piece, place)
        inside = (np.cumsum(quote) + self._quoted) & 1  # behind the token
        newline = self._broken_string(piece, place, quote, inside)
        counted = ~quote & (kind != _QUOTE) & (inside == 0)
        place, kind = place[counted], kind[counted]
        self._quoted = bool(inside[-1]) if len(inside) else self._quoted
        step = _STEP[kind].astype(np.int64)
        brace = (kind == ord("{")) | (kind == ord("}"))
        depth = self.depth + np.cumsum(np.where(brace, step, 0))
        damage = [] if newline is None else [Damage(newline, "a line ends inside a string", True)]
        damage += self._wrong_depth(place, depth)
        damage += self._misplaced(piece, place, kind, step, depth)
        first = min(damage, key=lambda found: found.place) if damage else None
        before = depth - np.where(brace, step, 0)
        begins = place[(before == 0) & (depth == 1) & brace]
        ends = place[(before == 1) & (depth == 0) & brace] + 1
        if first is not None:
            begins, ends = begins[begins < first.place], ends[ends <= first.place]
            return Scan(begins, ends, Damage(first.place, first.reason, len(begins) + bool(self.depth) > len(ends)))
        self._carry(kind, step)
        self._before = np.append(self._before, piece[-_KEPT:])[-_KEPT:]
        self.depth = int(depth[-1]) if len(depth) else self.depth
        return Scan(begins, ends, None)

    def _escaped(self, piece: Bytes, place: Ints) -> Bools:
        """Which of the places stand behind an odd number of backslashes; keeps what is open for the next piece."""
        slashes = np.flatnonzero(piece == _BACKSLASH)
        behind: Ints = np.zeros(1 if self._escape else 0, dtype=np.int64)
        if len(slashes):
            breaks = np.flatnonzero(np.diff(slashes) > 1)
            run_first = slashes[np.append(0, breaks + 1)]
            run_last = slashes[np.append(breaks, len(slashes) - 1)]
            odd = (run_last - run_first + 1) & 1
            if self._escape and run_first[0] == 0:
                odd[0] ^= 1
            behind = np.append(behind, run_last[odd == 1] + 1)
        if len(piece):
            self._escape = bool(len(behind)) and int(behind[-1]) == len(piece)
        return np.isin(place, behind, assume_unique=False) if len(behind) else np.zeros(len(place), dtype=np.bool_)

    def _broken_string(self, piece: Bytes, place: Ints, quote: Bools, inside: Ints) -> int | None:
        newlines = np.flatnonzero(piece == _NEWLINE)
        if not len(newlines):
            return None
        quotes = place[quote]
        state = np.append(int(self._quoted), inside[quote])[np.searchsorted(quotes, newlines)]
        broken = np.flatnonzero(state)
        return int(newlines[broken[0]]) if len(broken) else None

    def _wrong_depth(self, place: Ints, depth: Ints) -> list[Damage]:
        wrong = np.flatnonzero((depth < 0) | (depth > DEPTH))
        if not len(wrong):
            return []
        reason = (
            "a closing brace without an opening one" if depth[wrong[0]] < 0 else f"objects nested deeper than {DEPTH:,}"
        )
        return [Damage(int(place[wrong[0]]), reason, False)]

    def _misplaced(self, piece: Bytes, place: Ints, kind: Bytes, step: Ints, depth: Ints) -> list[Damage]:
        """An opening brace at the margin of a line, inside a document, where no value may stand."""
        margin = np.frombuffer(b"\n" + self._margin, np.uint8)
        at = np.flatnonzero((kind == ord("{")) & (depth > 1))
        if not len(at):
            return []
        text, place = np.append(self._before, piece), place + len(self._before)
        at = at[place[at] >= len(margin)]
        for back, byte in enumerate(margin[::-1].tolist(), 1):
            at = at[text[place[at] - back] == byte]
        if not len(at):
            return []
        wrong = []
        in_array = self._in_array(kind, step, at)
        for index, array in zip(at.tolist(), in_array.tolist(), strict=True):
            before = _last_character(text, int(place[index]) - len(margin))
            if before not in ((b"[", b",", b"") if array else (b":", b"")):
                wrong.append(index)
                break
        reason = "another document begins before this one ends"
        return [Damage(int(place[index]) - len(self._before), reason, True) for index in wrong]

    def _in_array(self, kind: Bytes, step: Ints, at: Ints) -> Bools:
        """Is the innermost bracket that is open before each of these tokens a square one?"""
        opened = np.append(np.ones(len(self._open), dtype=np.int64), step)  # what is open, then the piece's own
        kinds = np.append(self._open, kind)
        height = np.cumsum(opened)
        index = at + len(self._open)
        openers = np.flatnonzero(opened > 0)
        span = len(kinds) + 1
        low = int(height.min(initial=0))
        keys = (height[openers] - low) * span + openers
        order = np.argsort(keys)
        wanted = (height[index] - 1 - low) * span + index
        found = np.searchsorted(keys[order], wanted) - 1
        parent = openers[order[np.maximum(found, 0)]]
        known = (found >= 0) & (height[parent] == height[index] - 1)
        array: Bools = known & (kinds[parent] == ord("["))
        return array

    def _carry(self, kind: Bytes, step: Ints) -> None:
        """Keeps the kinds of the brackets that are open behind the piece."""
        opened = np.append(np.ones(len(self._open), dtype=np.int64), step)
        kinds = np.append(self._open, kind)
        height = np.cumsum(opened)
        if not len(height):
            return
        lowest = np.minimum.accumulate(height[::-1])[::-1]  # from each token on
        still = (opened > 0) & (np.append(lowest[1:], height[-1]) >= height)
        self._open = kinds[still][-2 * DEPTH :]


def _last_character(piece: Bytes, stop: int) -> bytes:
    """The last character before ``stop`` that is not blank; empty where the piece holds none."""
    begin = stop
    while begin > 0:
        begin = max(begin - 256, 0)
        there = np.flatnonzero(~_BLANK[piece[begin:stop]])
        if len(there):
            return piece[begin + int(there[-1]) : begin + int(there[-1]) + 1].tobytes()
    return b""


# --- documents --------------------------------------------------------------------------------------------------------

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
    walk.limit = min(limit, source.length)
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


_EMPTY: Final = re.compile(rb"\n{1,1024}")
"""Empty lines, which are dealt with together."""


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
        self.limit = source.length  # no document is looked for from there on

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
        if not nothing and (is_comment(lead.strip()) or is_note(lead.strip())):
            note = parse(lead, self.layout)
            self.let_go()
            self.found.filler(self.start, begin, note.reason or "", note.state)
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
                if newline == at + 1 and (empty := _EMPTY.match(text, at)):
                    newline = empty.end()
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
        while at < self.limit:
            text = self.source.read(at, at + step + _MARK + len(self.margin)).tobytes()
            for found in self.again.finditer(text):
                end = text.find(b"\n", found.end())
                line = text[found.end() : end + 1]
                # a line whose quotes or braces show that it is damaged as well needs no scanner
                is_open = line.count(b"{") > line.count(b"}") and line.rstrip()[-1:] not in (b"[", b",", b":")
                if is_open and b'"' not in line and self.again.match(text, end) is not None:
                    continue
                if b"\\" in line or line.count(b'"') % 2 == 0:
                    return at + found.end()
            at, step = at + step, min(2 * step, _MOST)
        return min(at, self.source.length)

    def next_brace(self, at: int) -> int:
        """Where the next opening brace stands."""
        step = _LEAST
        while at < self.limit:
            there = np.flatnonzero(self.source.read(at, at + step) == _BRACE)
            if len(there):
                return at + int(there[0])
            at, step = at + step, min(2 * step, _MOST)
        return min(at, self.source.length)

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
