"""The lines of a stretch of Logdump text as arrays: where they stand and of what kind they are, by their first bytes.

Only what stands as Logdump itself prints it gets a kind of its own (docs/formats/goldengate.md §2); any other line is
``OTHER``. A line of hex digits is no line of its own here: it is counted with the line above that it belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from cdcwb.formats.goldengate.printed_lines import BLANK, is_prose

__all__ = ["MARGIN", "Flags", "Line", "Lines", "Words", "equal", "lines_of", "rows", "template"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

MARGIN: Final = 512
"""Zero bytes on both sides of the text, so that whatever is read at a line stays inside."""

HEX_WIDTH: Final = 52
"""Characters of a line of hex digits up to its separator."""

RULE_WIDTH: Final = 67


class Line(IntEnum):
    """Kinds of lines. HDR_1 to HDR_8 are the header block's."""

    OTHER = 0
    G = 1
    H = 2
    D = 3
    T = 4
    U = 5
    Z = 6
    RULE = 7
    HDR_1 = 8
    HDR_2 = 9
    HDR_3 = 10
    HDR_4 = 11
    HDR_5 = 12
    HDR_6 = 13
    HDR_7 = 14
    HDR_8 = 15
    BLANK_IN_HEAD = 16
    RECORD = 17
    NAME = 18
    IMAGE = 19
    BEFORE = 20
    KEY_LENGTH = 21
    KEY_COLUMN = 22
    AFTER = 23
    BLANK_IN_KEY = 24
    COLUMN = 25
    BLANK_IN_TOKENS = 26
    TOKENS = 27
    TOKEN = 28
    BLANK = 29
    PROMPT = 30


@dataclass(slots=True)
class Lines:
    """Lines of ``text``, of which all places are; around them it goes on for :data:`MARGIN` bytes at least.

    ``every`` are the starts of all lines and the end of the last one. Of the lines that are not hex digits ``start``
    and ``after`` (the next line's start) are those, ``kind`` is their :class:`Line`, and ``number`` which of all lines
    they are; a last one is how many there are. ``returns``: the first line ends in a carriage return and a line feed.
    """

    text: Bytes
    words: Words
    every: Ints
    start: Ints
    after: Ints
    kind: npt.NDArray[np.int8]
    number: Ints
    returns: bool

    def stop(self, line: Ints) -> Ints:
        """Where lines end, line ends left out."""
        return _stop(self.text, self.start[line], self.after[line])

    def hexes(self, line: Ints) -> Ints:
        """How many lines of hex digits are below lines."""
        count: Ints = np.maximum(self.number[line + 1] - self.number[line] - 1, 0)
        return count

    def last_hex(self, line: Ints) -> Ints:
        """Where the last lines of hex digits below lines begin."""
        return self.every[self.number[line + 1] - 1]


def _stop(text: Bytes, start: Ints, after: Ints) -> Ints:
    stop: Ints = after - (text[after - 1] == 0x0A)
    stop -= (text[stop - 1] == 0x0D) & (stop > start)
    return stop


def _word(text: bytes) -> int:
    return int.from_bytes(text.ljust(8, b"\0")[:8], "little")


_FIRST: Final = {
    b"________": Line.RULE,
    b"Hdr-Ind ": Line.HDR_1,
    b"UndoFlag": Line.HDR_2,
    b"RecLengt": Line.HDR_3,
    b"IOType  ": Line.HDR_4,
    b"TransInd": Line.HDR_5,
    b"SyskeyLe": Line.HDR_6,
    b"AuditRBA": Line.HDR_7,
    b"Continue": Line.HDR_8,
    b"After  I": Line.IMAGE,
    b"Before I": Line.BEFORE,
    b"After Im": Line.AFTER,
    b"GGS toke": Line.TOKENS,
    b"TokenID ": Line.TOKEN,
    b"Logdump ": Line.PROMPT,
    b"Column  ": Line.COLUMN,
    **{b"Column %d" % digit: Line.COLUMN for digit in range(10)},
}
_SECOND: Final = {
    b"x47 'G' ": Line.G,
    b"x48 'H' ": Line.H,
    b"x44 'D' ": Line.D,
    b"x54 'T' ": Line.T,
    b"x55 'U' ": Line.U,
    b"x5a 'Z' ": Line.Z,
    b"x4c 'L' ": Line.TOKEN,
    b"x36 '6' ": Line.TOKEN,
    b"x52 'R' ": Line.TOKEN,
    **{b"%c, Info " % letter: Line(row + 1) for row, letter in enumerate(b"GHDTUZ")},
    **{b"%c (x%x)," % (letter, letter): Line.TOKEN for letter in b"L6R"},
}


_Table = tuple[np.uint64, Words, npt.NDArray[np.int8]]


def _table(words: dict[bytes, Line]) -> _Table:
    """A perfect hash of the words: a factor whose product's highest byte is another one for each of them."""
    keys = [_word(word) for word in words]
    factor = 0x9E3779B97F4A7C15
    while len({key * factor % (1 << 64) >> 56 for key in keys}) < len(keys):
        factor = factor * 0x5851F42D4C957F2D % (1 << 64) | 1
    found, kinds = np.zeros(256, np.uint64), np.zeros(256, np.int8)
    for key, kind in zip(keys, words.values(), strict=True):
        found[key * factor % (1 << 64) >> 56] = key
        kinds[key * factor % (1 << 64) >> 56] = kind
    return np.uint64(factor), found, kinds


_FIRST_TABLE: Final = _table(_FIRST)
_SECOND_TABLE: Final = _table(_SECOND)
_TOP: Final = np.uint64(56)


def _look_up(words: Words, table: _Table) -> npt.NDArray[np.int8]:
    factor, found, kinds = table
    place = words * factor >> _TOP
    kind: npt.NDArray[np.int8] = kinds[place] * (found[place] == words)
    return kind


def rows(text: Bytes, at: Ints, width: int) -> Bytes:
    """``width`` bytes of the text at each of the places, [n, width]."""
    every = np.ndarray((text.size - width + 1,), f"V{width}", text.data, 0, (1,))
    return every[at].view(np.uint8).reshape(at.size, width)


def template(*lines: str, width: int) -> tuple[Words, Words]:
    """Lines as words [k, width / 8] and the masks of their fixed characters: all but ``?``, and none behind the end."""
    text = np.zeros((len(lines), width), np.uint8)
    mask = np.zeros((len(lines), width), np.uint8)
    for row, line in enumerate(lines):
        for place, character in enumerate(line):
            if character != "?":
                text[row, place] = ord(character)
                mask[row, place] = 0xFF
    return text.view("<u8").astype(np.uint64), mask.view("<u8").astype(np.uint64)


def equal(block: Bytes, wanted: Words, mask: Words) -> Flags:
    """Which rows of a block [n, width] have the fixed characters of a template."""
    differing: Words = block.view("<u8") ^ wanted
    differing &= mask
    if int(differing.max(initial=0)) == 0:
        return np.ones(differing.shape[0], np.bool_)
    same: Flags = np.bitwise_or.reduce(differing, axis=1) == 0
    return same


def lines_of(text: Bytes, at: int, stop: int) -> tuple[Lines, int]:
    """The lines of a stretch of a text, and by how much their places are too great for places of the text."""
    shift = 0
    if stop + MARGIN > text.size or text.size < 2 * MARGIN:
        padded = np.zeros(stop - at + 2 * MARGIN, np.uint8)
        padded[MARGIN:-MARGIN] = text[at:stop]
        text, shift, at, stop = padded, MARGIN - at, MARGIN, stop - at + MARGIN
    words: Words = np.ndarray((text.size - 7,), "<u8", text.data, 0, (1,))
    breaks = np.flatnonzero(text[at:stop] == 0x0A)
    behind = breaks.size + 1
    is_open = stop > at and not (breaks.size and int(breaks[-1]) == stop - at - 1)
    every = np.empty(behind + is_open, np.int64)
    every[0] = at
    np.add(breaks, at + 1, out=every[1:behind])
    every[-1] = stop
    number, start, after, kind = _heads(text, words, every)
    _tell_blanks(kind)
    returns = bool(start.size) and int(text[after[0] - 2]) == 0x0D
    return Lines(text, words, every, start, after, kind, np.append(number, every.size - 1), returns), shift


_IS_HEX: Final = np.isin(np.arange(256), np.frombuffer(b"0123456789abcdefABCDEF", np.uint8))
_HEX_MASK: Final = np.uint64(0x0000FF00000000FF)
_HEX_FORM: Final = np.uint64(0x0000200000000020)


def _heads(text: Bytes, words: Words, every: Ints) -> tuple[Ints, Ints, Ints, npt.NDArray[np.int8]]:
    """Number, start, next line's start and kind of the lines that are not hex digits; the first one is never some."""
    first: Words = words[every[:-1]]
    is_head = (first & _HEX_MASK) != _HEX_FORM
    pane = text[every[:-1] + (HEX_WIDTH - 1)]
    is_head |= pane != 0x7C
    colon = np.flatnonzero(pane == 0x3A)  # may be of a header block that is indented
    if colon.size:
        place = every[colon]
        digits = _IS_HEX[text[place + 1]] & _IS_HEX[text[place + 2]]
        is_head[colon] = ~digits | ((first[colon] & _HEX_MASK) != _HEX_FORM)
    is_head |= every[1:] - every[:-1] <= HEX_WIDTH
    is_head[:1] = True
    number = np.flatnonzero(is_head)
    start, first = every[number], first[number]
    after = every[number + 1]
    prompt = np.flatnonzero(first == _word(b"Logdump "))
    if prompt.size:
        glued, place = _glued(text, words, start[prompt], after[prompt])
        line = prompt[glued]
        start, after = np.insert(start, line + 1, place), np.insert(after, line, place)
        first, number = np.insert(first, line + 1, words[place]), np.insert(number, line, number[line])
    return number, start, after, _kinds(text, words, start, after, first)


def _glued(text: Bytes, words: Words, start: Ints, after: Ints) -> tuple[Ints, Ints]:
    """The prompts that a rule or the first header token is glued to, and where that begins."""
    begin = _behind_prompt(text, start, after)
    stop = _stop(text, start, after)
    head = words[begin]
    is_rule = (head == _word(b"_" * 8)) & (stop - begin == RULE_WIDTH)
    behind = words[begin + 8]
    is_token = (head == _word(b"TokenID ")) & ((behind == _word(b"x47 'G' ")) | (behind == _word(b"G, Info ")))
    glued = np.flatnonzero((begin > 0) & (is_rule | is_token))
    return glued, begin[glued]


_PROMPT_WIDTH: Final = 24


def _behind_prompt(text: Bytes, start: Ints, after: Ints) -> Ints:
    """Where what is typed begins: behind ``Logdump 12 >``; 0 where the line is no such prompt."""
    head = rows(text, start, _PROMPT_WIDTH)[:, 8:]
    is_end = head == 0x3E
    end = is_end.argmax(axis=1)
    is_digit = (head - 0x30) < 10
    digits = np.logical_and.accumulate(is_digit, axis=1).sum(axis=1)
    spaced = head[np.arange(head.shape[0]), np.minimum(digits, head.shape[1] - 1)] == 0x20
    good = is_end.any(axis=1) & (digits > 0) & (end == digits + spaced) & (start + 8 + end < after)
    return np.where(good, start + 9 + end, 0)


_TYPED_WIDTH: Final = 64


def _plain_prompts(text: Bytes, start: Ints, after: Ints) -> Flags:
    """Which prompts have nothing but a short command in small letters behind them, other than one that opens a file."""
    begin = _behind_prompt(text, start, after)
    size = _stop(text, start, after) - begin
    typed = rows(text, begin, _TYPED_WIDTH)
    plain = ((typed >= 0x61) & (typed <= 0x7A)) | (typed == 0x20) | ((typed - 0x30) < 10)
    outside = np.arange(_TYPED_WIDTH) >= size[:, None]
    opens = (typed[:, :-1] == ord("o")) & (typed[:, 1:] == ord("p")) & ~outside[:, 1:]
    found: Flags = (begin > 0) & (size <= _TYPED_WIDTH) & (plain | outside).all(axis=1) & ~opens.any(axis=1)
    return found


def _prefix(text: bytes) -> tuple[np.uint64, np.uint64]:
    return np.uint64(_word(text)), np.uint64(_word(b"\xff" * len(text)))


_OTHERS: Final = (
    ((np.uint64(0x2F30302F30303030), np.uint64(0xFFF0F0FFF0F0F0F0)), Line.RECORD),
    (_prefix(b"Name: "), Line.NAME),
    (_prefix(b"KeyCol "), Line.KEY_COLUMN),
    (_prefix(b"KeyLen "), Line.KEY_LENGTH),
    (_prefix(b"\n"), Line.BLANK),
    (_prefix(b"\r\n"), Line.BLANK),
)
_RECORD_HEADER: Final = _word(b"Record H"), _word(b"d Header")
_RULE: Final = template("_" * RULE_WIDTH, width=72)


def _kinds(text: Bytes, words: Words, start: Ints, after: Ints, first: Words) -> npt.NDArray[np.int8]:
    """The kinds of lines, by their first bytes."""
    kind = _look_up(first, _FIRST_TABLE)
    rest = np.flatnonzero(kind == Line.OTHER)
    word = first[rest]
    found = np.zeros(rest.size, np.int8)
    for (value, mask), line in _OTHERS:
        found[(word & mask) == value] = line
    kind[rest] = found
    _refine(text, words, start, after, kind)
    return kind


def _tell_blanks(kind: npt.NDArray[np.int8]) -> None:
    """Tell blank lines apart by their neighbours."""
    blank = np.flatnonzero(kind == Line.BLANK)
    if not blank.size:
        return
    around = np.zeros(kind.size + 2, np.int8)
    around[1:-1] = kind
    among = np.full(blank.size, Line.BLANK, np.int8)
    behind = around[blank + 2]
    among[behind == Line.TOKENS] = Line.BLANK_IN_TOKENS
    among[behind == Line.AFTER] = Line.BLANK_IN_KEY
    among[around[blank] == Line.HDR_8] = Line.BLANK_IN_HEAD
    kind[blank] = among


def _refine(text: Bytes, words: Words, start: Ints, after: Ints, kind: npt.NDArray[np.int8]) -> None:
    """Tell apart what the first eight bytes do not."""
    token = np.flatnonzero(kind == Line.TOKEN)
    if token.size:
        place = start[token]
        which = _look_up(words[place + 8], _SECOND_TABLE)
        at = np.flatnonzero(which == Line.G)
        named = (words[place[at] + 16] == _RECORD_HEADER[0]) & (words[place[at] + 21] == _RECORD_HEADER[1])
        named |= text[place[at] + 8] == 0x47
        which[at[~named]] = Line.OTHER
        kind[token] = which
    section = np.flatnonzero(kind == Line.BEFORE)
    if section.size:
        kind[section[words[start[section] + 8] == _word(b"mage:   ")]] = Line.IMAGE
    rule = np.flatnonzero(kind == Line.RULE)
    place = start[rule]
    whole = equal(rows(text, place, 72), *_RULE)
    size = after[rule] - place
    whole &= (size == RULE_WIDTH + 1) | ((size == RULE_WIDTH + 2) & (text[place + RULE_WIDTH] == 0x0D))
    if not whole.all():
        kind[rule[~whole]] = Line.OTHER
    head = np.flatnonzero(kind == Line.HDR_1)
    head = head[words[start[head] + 8] != _word(b"   :    ")]
    for line, first, stop in zip(head.tolist(), start[head].tolist(), after[head].tolist(), strict=True):
        if is_prose(text[first:stop].tobytes().strip(BLANK)):
            kind[line] = Line.OTHER
    prompt = np.flatnonzero(kind == Line.PROMPT)
    if prompt.size:
        kind[prompt[~_plain_prompts(text, start[prompt], after[prompt])]] = Line.OTHER
    tokens = np.flatnonzero(kind == Line.TOKENS)
    if tokens.size:
        exact = _stop(text, start[tokens], after[tokens]) - start[tokens] == 11
        kind[tokens[~exact | (words[start[tokens] + 3] != _word(b" tokens:"))]] = Line.OTHER
