"""Where the records and fields of a delimited file begin and end (docs/formats/qlik-change-table.md §1.3, §10).

As long as every quote opens a field, closes one or is doubled, whether a place lies in quotes follows from the number
of quotes before it, so all delimiters of a stretch are told apart at once. At the first quote that does neither, the
record it stands in is read on its own, by the same rules spelt as a regular expression; both ways give the same
records wherever a stretch begins.

A record whose quotes do not close, or go on behind their end, is damage up to the end of its first line; what follows
is read anew from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from cdcwb.formats.tabular.dialect import Dialect

__all__ = [
    "FILLER",
    "LONGEST",
    "MALFORMED",
    "RECORD",
    "TRUNCATED",
    "Bytes",
    "Bytewise",
    "Records",
    "count_quotes",
    "find_start",
    "first_record",
    "records",
]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

RECORD: Final = 0
FILLER: Final = 1
MALFORMED: Final = 2
TRUNCATED: Final = 3

LONGEST: Final = 64 << 20
"""A record that is longer is taken for damage."""

_WINDOW: Final = 4 << 20
_LEAST: Final = 1 << 12  # bytes that are looked at at once behind a record with odd quotes; doubled while all goes well
_MOST_SINGLE: Final = 1024  # records that are read one by one before many are tried at once again
_LOOK_BACK: Final = 1 << 16


class Bytewise(Protocol):
    """What framing needs of a source: its length and its bytes."""

    length: int

    def read(self, start: int, stop: int) -> Bytes:
        """The bytes from ``start`` to ``stop``, clipped."""
        ...


@dataclass(frozen=True, slots=True)
class Records:
    """Neighbouring segments of a file, in order, without holes; places count from ``base``, where ``buffer`` begins.

    A segment is ``[start, end)``, its record ``[start, stop)`` without the line's end. ``state`` is :data:`RECORD`,
    :data:`FILLER`, :data:`MALFORMED` or :data:`TRUNCATED` (by the file's end); ``reasons`` says of the latter three (by
    index) what they are or what was expected and found. ``starts`` and ``ends`` are matrices with a row for each good
    record (``good``: their indices) and a column for each field; quotes are inside.
    """

    base: int
    buffer: Bytes
    start: Ints
    end: Ints
    stop: Ints
    state: npt.NDArray[np.uint8]
    reasons: dict[int, str]
    good: Ints
    starts: Ints
    ends: Ints

    def __len__(self) -> int:
        return len(self.start)


def records(source: Bytewise, start: int, stop: int, dialect: Dialect, width: int) -> Iterator[Records]:
    """The segments that begin in ``[start, stop)``; ``start`` has to be where one begins. ``width`` is the number of
    fields that a record has to have."""
    place = start
    size = _WINDOW
    while place < min(stop, source.length):
        buffer = source.read(place, min(place + size, place + LONGEST))
        whole = place + len(buffer) >= source.length
        framer = _Framer(buffer, dialect, width, whole, max(stop - place, 0))
        framer.run()
        if framer.place == 0:  # the first record is longer than the window
            size *= 4
            continue
        yield framer.records(place)
        place += framer.place
        size = _WINDOW


def first_record(buffer: Bytes, dialect: Dialect, whole: bool) -> tuple[list[tuple[int, int]], int] | None:
    """Where the fields of the first record of a buffer begin and end, and where that record ends, line end included;
    None if there is none. ``whole``: the file ends with the buffer."""
    framer = _Framer(buffer, dialect, 0, whole, 1)
    if not len(buffer) or not framer.one() or framer.bad:
        return None
    edges = framer.delimiters[0].tolist()
    starts = [0, *(edge + len(dialect.delimiter) for edge in edges)]
    return list(zip(starts, [*edges, int(framer.content[0][0])], strict=True)), framer.place


# --- tokens of a dialect ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Patterns:
    """One record's parts as regular expressions, for what is read one by one."""

    body: re.Pattern[bytes]  # a quoted field up to its end, without the closing quote
    plain: re.Pattern[bytes]
    delimiter: re.Pattern[bytes]
    record: re.Pattern[bytes]


@cache
def _patterns(dialect: Dialect) -> _Patterns:
    record = re.escape(dialect.record)
    if dialect.crlf and dialect.record == b"\n":
        record = rb"\r?\n"
    delimiter = re.escape(dialect.delimiter)
    firsts = re.escape(dialect.delimiter[:1]) + re.escape(dialect.record[:1]) + (rb"\r" if dialect.crlf else b"")
    # `|(?!)` in a possessive group: tests/possessive.py says what for
    plain = rb"(?:[^%b]++|(?!%b)(?!%b)[\s\S]|(?!))*+" % (firsts, delimiter, record)
    quote, escape = re.escape(dialect.quote), re.escape(dialect.escape)
    if escape:
        body = rb"(?:[^%b%b]++|%b%b|(?:%b%b)*+%b%b|(?:%b%b)++(?=%b)|%b++(?!%b)|(?!))*+" % (
            *(quote, escape, quote, quote, escape, escape, escape, quote, escape, escape, quote, escape, quote),
        )
    else:
        body = rb"(?:[^%b]++|%b%b)*+" % (quote, quote, quote) if quote else b""
    return _Patterns(re.compile(quote + body), re.compile(plain), re.compile(delimiter), re.compile(record))


class _Tokens(NamedTuple):
    """What was found in a stretch, in order: places, kinds and lengths (an array of one: the length of all)."""

    place: Ints
    kind: npt.NDArray[np.uint8]
    size: Ints

    def without(self, dropped: Bools) -> _Tokens:
        """The others."""
        keep = ~dropped
        return _Tokens(self.place[keep], self.kind[keep], self.size[keep] if len(self.size) > 1 else self.size)


_DELIMITER: Final = 1
_RECORD: Final = 2
_QUOTE: Final = 3


@cache
def _kinds(dialect: Dialect) -> tuple[npt.NDArray[np.uint8], Bools]:
    """The kind of token that each byte is, and whether it is one."""
    table = np.zeros(256, dtype=np.uint8)
    table[dialect.delimiter[0]] = _DELIMITER
    table[dialect.record[-1]] = _RECORD
    if dialect.quote:
        table[dialect.quote[0]] = _QUOTE
    return table, table != 0


def _is_simple(dialect: Dialect) -> bool:
    """Do single bytes tell the tokens apart?"""
    singles = {dialect.delimiter, dialect.record[-1:], dialect.quote or b"\0\0"}
    return len(dialect.delimiter) == 1 and dialect.record in (b"\n", b"\r\n") and len(singles) == 3


def _tokens(buffer: Bytes, start: int, stop: int, dialect: Dialect) -> _Tokens:
    """The delimiters, line ends and quotes that begin in ``[start, stop)`` of a buffer, escaped quotes left out."""
    if _is_simple(dialect):
        kinds, is_token = _kinds(dialect)
        place = np.flatnonzero(is_token[buffer[start:stop]]) + start
        tokens = _Tokens(place, kinds[buffer[place]], np.ones(1, dtype=np.int64))
        if dialect.record == b"\r\n":
            alone = (place == 0) | (buffer[place - 1] != 13)
            tokens = tokens.without((tokens.kind == _RECORD) & alone)
    else:
        tokens = _long_tokens(buffer, start, stop, dialect)
    if dialect.escape and dialect.quote:
        escaped = _escaped(buffer, tokens.place, tokens.kind == _QUOTE, dialect.escape[0])
        tokens = tokens.without(escaped) if escaped.any() else tokens
    return tokens


def _long_tokens(buffer: Bytes, start: int, stop: int, dialect: Dialect) -> _Tokens:
    """Tokens of several bytes; of tokens that overlap, the first counts."""
    found: list[tuple[Ints, npt.NDArray[np.uint8], Ints]] = []
    for token, number in ((dialect.delimiter, _DELIMITER), (dialect.record, _RECORD), (dialect.quote, _QUOTE)):
        if token:
            at = np.flatnonzero(buffer[start:stop] == token[0]) + start
            at = at[at + len(token) <= len(buffer)]
            for offset, byte in enumerate(token[1:], 1):
                at = at[buffer[at + offset] == byte]
            found.append((at, np.full(len(at), number, np.uint8), np.full(len(at), len(token), np.int64)))
    place, kind, size = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((-size, place))
    place, kind, size = place[order], kind[order], size[order]
    if (place[1:] < place[:-1] + size[:-1]).any():
        keep, behind = np.ones(len(place), dtype=np.bool_), 0
        for index, (one, length) in enumerate(zip(place.tolist(), size.tolist(), strict=True)):
            keep[index] = one >= behind
            behind = one + length if keep[index] else behind
        place, kind, size = place[keep], kind[keep], size[keep]
    return _Tokens(place, kind, size)


def _escaped(buffer: Bytes, place: Ints, quotes: Bools, escape: int) -> Bools:
    """Which quotes stand behind an odd number of escapes."""
    escaped = np.zeros(len(place), dtype=np.bool_)
    behind = np.flatnonzero(quotes & (place > 0))
    behind = behind[buffer[place[behind] - 1] == escape]
    if not len(behind):
        return escaped
    first, last = int(place[behind[0]]), int(place[behind[-1]])
    low = first - 1
    while low > 0 and buffer[low - 1] == escape:
        low -= 1
    others = np.flatnonzero(buffer[low:last] != escape) + low
    before = np.searchsorted(others, place[behind]) - 1
    run_start = np.where(before >= 0, others[np.maximum(before, 0)] + 1, low) if len(others) else low
    escaped[behind] = (place[behind] - run_start) & 1 == 1
    return escaped


# --- framing ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Framer:
    """Frames the records at the begin of a buffer. ``whole``: the file ends with it. ``stop``: records that begin there
    or later are somebody else's. ``place`` is where the next record begins."""

    buffer: Bytes
    dialect: Dialect
    width: int
    whole: bool
    stop: int
    place: int = 0
    start: list[Ints] = field(default_factory=list)
    end: list[Ints] = field(default_factory=list)
    content: list[Ints] = field(default_factory=list)
    delimiters: list[Ints] = field(default_factory=list)
    bad: dict[int, str] = field(default_factory=dict)  # start of the segment -> why it is none

    def run(self) -> None:
        """Goes on until the buffer holds no whole record any more."""
        size, single = len(self.buffer), 1
        while self.place < min(self.stop, len(self.buffer)):
            before = self.place
            limit = min(self.place + size, len(self.buffer))
            odd = self._many(limit)
            if odd:
                for _ in range(single):
                    if self.place >= min(self.stop, len(self.buffer)):
                        break
                    if not self.one():
                        return
                single, size = min(2 * single, _MOST_SINGLE), _LEAST
            elif limit == len(self.buffer):
                if self.place < min(self.stop, limit) and not self.one():
                    return
            else:
                single = 1 if self.place > before else single
                size = min(2 * size, len(self.buffer))

    def _many(self, limit: int) -> bool:
        """Frames the records that lie whole before ``limit``, up to the first odd quote; is there one?"""
        buffer, dialect = self.buffer, self.dialect
        tokens = _tokens(buffer, self.place, limit, dialect)
        place, kind = tokens.place, tokens.kind
        odd = None
        quote = kind == _QUOTE
        if quote.any():
            inside = np.cumsum(quote) & 1  # behind each token
            odd = self._first_odd(tokens, quote, limit)
            outside = inside == 0
        else:
            outside = np.ones(len(place), dtype=np.bool_)
        if odd is not None:
            outside &= place < odd
        ends = outside & (kind == _RECORD)
        behind = place + tokens.size
        end = behind[ends]
        count = int(np.searchsorted(end, self.stop)) + 1  # the record that reaches behind the stop still begins before
        end = end[:count]
        if not len(end):
            return odd is not None
        last = int(end[-1])
        stop = end - (len(dialect.record))
        if dialect.crlf and dialect.record == b"\n":
            stop -= (stop > self.place) & (buffer[np.maximum(stop - 1, 0)] == 13)
        start = np.append(self.place, end[:-1])
        stop = np.maximum(stop, start)
        separators = place[outside & (kind == _DELIMITER)]
        self._add(start, end, stop, separators[separators < last])
        self.place = last
        return odd is not None and self.place < self.stop

    def _first_odd(self, tokens: _Tokens, quote: Bools, limit: int) -> int | None:
        """The first quote before ``limit`` that neither opens or closes a field nor is doubled."""
        quotes = tokens.place[quote]
        buffer, dialect = self.buffer, self.dialect
        opening, closing = quotes[0::2], quotes[1::2]
        good = opening == self.place
        if _is_simple(dialect):
            for token in (dialect.delimiter, dialect.record):
                good |= self._before(opening, token)
        else:
            good |= np.isin(opening, (tokens.place + tokens.size)[~quote])
        good[1:] |= closing[: len(opening) - 1] == opening[1:] - 1
        wrong = opening[~good]
        first = int(wrong[0]) if len(wrong) else len(buffer)
        good = closing == limit - 1  # at the end of the file, or not known yet
        for token in (dialect.delimiter, dialect.record, *((b"\r\n",) if dialect.crlf else ())):
            good |= self._behind(closing, token)
        later = opening[1:]
        good[: len(later)] |= closing[: len(later)] == later - 1
        wrong = closing[~good]
        if len(wrong):
            first = min(first, int(wrong[0]))
        return first if first < len(buffer) else None

    def _before(self, places: Ints, token: bytes) -> Bools:
        found = places >= self.place + len(token)
        for back, byte in enumerate(token[::-1], 1):
            found &= self.buffer[np.maximum(places - back, 0)] == byte
        return found

    def _behind(self, places: Ints, token: bytes) -> Bools:
        last = len(self.buffer) - 1
        found = places + len(token) <= last
        for ahead, byte in enumerate(token, 1):
            found &= self.buffer[np.minimum(places + ahead, last)] == byte
        if len(token) > 1 and not self.whole:
            found |= places + len(token) > last  # cut off by the buffer: not known yet
        return found

    def _add(self, start: Ints, end: Ints, stop: Ints, delimiters: Ints) -> None:
        self.start.append(start)
        self.end.append(end)
        self.content.append(stop)
        self.delimiters.append(delimiters)

    def one(self) -> bool:
        """Frames the record at ``place`` alone; False if the buffer does not hold enough of it."""
        buffer, patterns = self.buffer.data, _patterns(self.dialect)
        begin = place = self.place
        size = len(buffer)
        more = not self.whole and size - begin < LONGEST
        quote = self.dialect.quote[0] if self.dialect.quote else -1
        delimiters: list[int] = []
        while True:
            if place < size and buffer[place] == quote:
                body = patterns.body.match(buffer, place)
                behind = size if body is None else body.end() + 1
                if behind > size or (behind == size and more):
                    if more:
                        return False
                    if behind > size:
                        what = "the file ends" if self.whole else f"it is not closed within {LONGEST} bytes"
                        return self._bad(begin, f"field {len(delimiters) + 1} begins with a quote and {what}")
                place = behind
            else:
                found = patterns.plain.match(buffer, place)
                place = size if found is None else found.end()
            if more and place + max(len(self.dialect.delimiter), len(self.dialect.record), 2) > size:
                return False
            separator = patterns.delimiter.match(buffer, place)
            if separator is not None:
                delimiters.append(place)
                place = separator.end()
                continue
            line = patterns.record.match(buffer, place)
            if line is None and place < size:
                found_there = bytes(buffer[place : place + 8])
                where = f"after the closing quote of field {len(delimiters) + 1}"
                return self._bad(begin, f"expected a delimiter {where}, found {found_there!r}")
            end = size if line is None else line.end()
            if line is None and not self.whole:
                return self._bad(begin, f"a record longer than {LONGEST} bytes")
            self._add(_one(begin), _one(end), _one(place), np.array(delimiters, dtype=np.int64))
            self.place = end
            return True

    def _bad(self, begin: int, reason: str) -> bool:
        """The first line of a record that is none."""
        line = _patterns(self.dialect).record.search(self.buffer.data, begin)
        if line is None and not self.whole and len(self.buffer) - begin < LONGEST:
            return False
        end = len(self.buffer) if line is None else line.end()
        stop = end if line is None else line.start()
        self.bad[begin] = reason
        self._add(_one(begin), _one(end), _one(stop), np.empty(0, dtype=np.int64))
        self.place = end
        return True

    def records(self, base: int) -> Records:
        """What was found."""
        start, end, stop = (np.concatenate(parts) for parts in (self.start, self.end, self.content))
        delimiters = np.concatenate(self.delimiters)
        first = np.searchsorted(delimiters, start)
        count = np.searchsorted(delimiters, end) - first + 1
        state = np.zeros(len(start), dtype=np.uint8)
        reasons: dict[int, str] = {}
        if self.width != 1:
            blank = np.flatnonzero(stop == start)
            state[blank] = FILLER
            reasons.update(dict.fromkeys(blank.tolist(), "blank line"))
        wrong = np.flatnonzero((count != self.width) & (state == RECORD))
        state[wrong] = MALFORMED
        at_end = base + len(self.buffer) if self.whole else -1
        for index in wrong.tolist():
            reasons[index] = f"expected {self.width} fields, found {int(count[index])}"
            unended = base + int(end[index]) == at_end and stop[index] == end[index]
            if unended and count[index] < self.width:
                state[index] = TRUNCATED
                reasons[index] = f"truncated: {reasons[index]} where the file ends"
        for begin, reason in self.bad.items():
            index = int(np.searchsorted(start, begin))
            unended = base + int(end[index]) == at_end and stop[index] == end[index]
            state[index] = TRUNCATED if unended else MALFORMED
            reasons[index] = f"truncated: {reason}" if unended else reason
        good = np.flatnonzero(state == RECORD)
        width = max(self.width, 1)
        places = delimiters[first[good][:, None] + np.arange(width - 1)] if len(good) else np.empty((0, width - 1), int)
        behind = places + len(self.dialect.delimiter)
        return Records(
            base,
            self.buffer,
            start,
            end,
            stop,
            state,
            reasons,
            good,
            np.concatenate([start[good][:, None], behind], axis=1),
            np.concatenate([places, stop[good][:, None]], axis=1),
        )


def _one(value: int) -> Ints:
    return np.array([value], dtype=np.int64)


# --- splits -----------------------------------------------------------------------------------------------------------


def count_quotes(source: Bytewise, start: int, stop: int, dialect: Dialect) -> int:
    """How many quotes in ``[start, stop)`` are not escaped: an odd number turns inside and outside around."""
    if not dialect.quote:
        return 0
    total = 0
    for place in range(start, stop, _WINDOW):
        limit = min(place + _WINDOW, stop)
        low = max(place - _LOOK_BACK, 0) if dialect.escape else place
        tokens = _tokens(source.read(low, limit), place - low, limit - low, dialect)
        total += int(np.count_nonzero(tokens.kind == _QUOTE))
    return total


def find_start(source: Bytewise, place: int, dialect: Dialect, inside: bool) -> int:
    """Where the first record begins at or behind ``place``, as far as quotes tell: ``inside`` says whether the byte
    before the line end that may stand right before ``place`` lies in quotes. The file's length where none does."""
    edge = len(dialect.record)
    start = max(place - edge, 0)
    while start < source.length:
        limit = min(start + _WINDOW, source.length)
        low = max(start - _LOOK_BACK, 0) if dialect.escape or edge > 1 else start
        buffer = source.read(low, min(limit + edge, source.length))
        tokens = _tokens(buffer, start - low, limit - low, dialect)
        turned = np.cumsum(tokens.kind == _QUOTE) + inside
        found = np.flatnonzero((tokens.kind == _RECORD) & (turned & 1 == 0))
        size = 1 if dialect.record == b"\r\n" else edge
        behind = tokens.place[found] + size + low
        behind = behind[behind >= place]
        if len(behind):
            return int(behind[0])
        inside = bool(turned[-1] & 1) if len(turned) else inside
        start = limit
    return source.length
