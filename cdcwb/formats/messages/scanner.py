"""Where JSON objects begin and end in a stretch of text: quotes, escapes and braces with numpy, without parsing.

Square brackets do not count: in a document every brace is closed, whatever array it stands in, and an array around the
documents is passed over. The scanner goes piece by piece and carries its state; it stops at the first damage it sees:

* a newline inside a string, which JSON does not allow: a quote is missing or too many,
* an object that begins where a line of a new document would (the margin) though the one before is open and no
  element may stand there: a brace is missing,
* a closing brace without an opening one, and objects nested deeper than any parser follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from cdcwb.formats.messages.batch import Bools, Bytes, Ints

__all__ = ["DEPTH", "Damage", "Scan", "Scanner"]

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
