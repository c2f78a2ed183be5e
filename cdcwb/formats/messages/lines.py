"""Lines of a file: where they begin and end, and the messages in them, many at once.

A line ends behind its newline; a carriage return before that belongs to the line's end, a byte order mark to the first
line's begin. Where values are printed as raw bytes they may hold newlines themselves: then a line begins only where one
of the known beginnings stands behind a newline.

What is plain (a JSON object, behind properties that a console consumer prints, with its key or without) is found with
numpy and laid out without a Python object per line; everything else goes through :func:`layout.parse`, which says what
a line is. Tests hold that both agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from cdcwb.formats.arrays import as_text, slices
from cdcwb.formats.files import Source
from cdcwb.formats.messages.batch import (
    FACTS,
    FILLER,
    LONGEST,
    MALFORMED,
    MESSAGE,
    NOTE,
    Bools,
    Bytes,
    Ints,
    Messages,
    Parsed,
    Segments,
    fact_columns,
    instants,
    merged,
    pieces,
    shown,
)
from cdcwb.formats.messages.layout import NO_HEADERS, NULL, TAIL, Layout, clear, parse
from cdcwb.formats.messages.records import BINARY, unwrap, unwrap_plain

__all__ = ["BOM", "document_messages", "iter_lines", "line_holding", "line_messages", "newlines", "plain_messages"]


# --- lines ------------------------------------------------------------------------------------------------------------

BOM: Final = b"\xef\xbb\xbf"
WINDOW: Final = 8 << 20
"""Bytes looked at together; a line longer than that widens the window for itself."""

_CACHED: Final = 1 << 18  # bytes that are compared together: what comes out stays in the processor's cache

_NEWLINE: Final = 0x0A
_RETURN: Final = 0x0D
_STEP: Final = 1 << 16  # the first look for a single newline; it widens

Marks = tuple[bytes, ...]


def iter_lines(source: Source, start: int, stop: int, marks: Marks = (), window: int = WINDOW) -> Iterator[Segments]:
    """The lines that begin in ``[start, stop)`` of a file; the end of a line that began before is passed over.

    ``marks`` are the beginnings that a line must have, where newlines alone do not tell.
    """
    length = source.length
    position = first_line(source, start, marks)
    size, next_size = 0, min(window, _CACHED)
    while position < min(stop, length):
        if not size:  # small at first, for those that take a few lines, and no further than the last line ends
            size, next_size = min(next_size, stop - position + _STEP), min(2 * next_size, window)
        buffer, ends = _ends(source, position, size, marks)
        if not len(ends):
            if size < LONGEST:
                size = min(2 * size, LONGEST)
                continue
            after = first_line(source, position + LONGEST, marks)
            yield from pieces(position, after, f"a line longer than {LONGEST:,} bytes, the maximum of a message")
            position, size = after, 0
            continue
        starts = np.append(0, ends[:-1])
        owned = int(np.searchsorted(starts, stop - position))
        starts, ends = starts[:owned], ends[:owned]
        is_text = not marks or marks[0][:1] == b"{"  # of a key in JSON: values are not binary either
        yield _segments(buffer, position, starts, ends, is_text)
        position += int(ends[-1])
        size = 0


def _ends(source: Source, position: int, size: int, marks: Marks) -> tuple[Bytes, Ints]:
    """The bytes from ``position``, and where in them lines end; the last line of the file has an end in any case."""
    ahead = max(map(len, marks), default=0)
    buffer = source.read(position, position + size + ahead)
    at_end = position + len(buffer) >= source.length
    ends = newlines(buffer, marks)
    ends = ends[ends <= size]
    if at_end and len(buffer) <= size and (not len(ends) or ends[-1] < len(buffer)):
        ends = np.append(ends, len(buffer))
    return buffer, ends


def newlines(buffer: Bytes, marks: Marks = ()) -> Ints:
    """The places behind newlines; with marks only those where one of them stands, and the end of the buffer."""
    pieces = [np.flatnonzero(buffer[at : at + _CACHED] == _NEWLINE) + at for at in range(0, len(buffer), _CACHED)]
    behind = np.concatenate(pieces) + 1 if pieces else np.empty(0, dtype=np.int64)
    if not marks or not len(behind):
        return behind
    known = behind == len(buffer)
    for mark in marks:
        there = np.flatnonzero(behind + len(mark) <= len(buffer))
        for at, byte in enumerate(mark):
            there = there[buffer[behind[there] + at] == byte]
        known[there] = True
    found: Ints = behind[known]
    return found


def _segments(buffer: Bytes, base: int, starts: Ints, ends: Ints, text: bool) -> Segments:
    first, last = starts.copy(), ends.copy()
    last -= buffer[ends - 1] == _NEWLINE
    if text:
        last -= (last > starts) & (buffer[np.maximum(last - 1, 0)] == _RETURN)
    if base == 0 and buffer[:3].tobytes() == BOM and last[0] >= len(BOM):
        first[0] = len(BOM)
    none = np.full(len(starts), -1, dtype=np.int64)
    return Segments(
        starts + base,
        ends + base,
        first + base,
        last + base,
        np.full(len(starts), MESSAGE, dtype=np.uint8),
        {},
        none,
        none,
        np.zeros(len(starts), dtype=np.bool_),
    )


def first_line(source: Source, position: int, marks: Marks = ()) -> int:
    """Where the first line at or behind ``position`` begins; the file's end where there is none."""
    if position <= 0:
        return 0
    ahead = max(map(len, marks), default=0)
    at, step = position - 1, _STEP
    while at < source.length:
        buffer = source.read(at, at + step + ahead)
        ends = newlines(buffer, marks)
        ends = ends[ends <= step]
        if at + len(buffer) < source.length:
            ends = ends[ends < len(buffer)] if marks else ends
        if len(ends):
            return at + int(ends[0])
        at, step = at + step, min(2 * step, WINDOW)
    return source.length


def line_holding(source: Source, offset: int, marks: Marks = ()) -> int:
    """Where the line begins that holds the byte at ``offset``."""
    ahead = max(map(len, marks), default=0)
    stop, step = offset + 1, _STEP
    while stop > 1:
        begin = max(stop - 1 - step, 0)
        ends = begin + newlines(source.read(begin, min(stop + ahead, source.length)), marks)
        ends = ends[ends <= offset]
        if len(ends):
            return int(ends[-1])
        stop, step = begin + 1, min(2 * step, WINDOW)
    return 0


# --- columns ----------------------------------------------------------------------------------------------------------

_BRACE: Final = ord("{")
_CLOSE: Final = ord("}")
_DIGITS: Final = 18  # of a number that surely fits 64 bits
_TIME_TYPES: Final = (b"CreateTime:", b"LogAppendTime:", b"NO_TIMESTAMP")
_PREFIXES: Final = {"partition": b"Partition:", "offset": b"Offset:", "delivery": b"Delivery:"}


class _Columns:
    """The rows of a batch: what is known of each so far. ``fast`` rows need no closer look."""

    def __init__(self, source: Source, segments: Segments) -> None:
        self.segments = segments
        self.base = int(segments.start[0])
        self.buffer: Bytes = source.read(self.base, int(segments.end[-1]))
        self.first: Ints = segments.first - self.base
        self.last: Ints = segments.last - self.base
        self.cursor = self.first.copy()
        self.fast: Bools = (segments.state == MESSAGE) & (self.last > self.first)
        self.tombstone: Bools = np.zeros(len(segments), dtype=np.bool_)
        self.key: tuple[Ints, Ints] | None = None
        self.taken: tuple[pa.Array, pa.Array] | None = None  # values and keys that are no runs of the buffer
        self.facts: dict[str, pa.Array] = {}
        self._places: dict[bytes, Ints] = {}

    def places(self, text: bytes) -> Ints:
        """Where a text stands in the buffer."""
        if text not in self._places:
            self._places[text] = _places(self.buffer, text)
        return self._places[text]

    def at(self, place: Ints) -> Bytes:
        """The byte at each place; any byte where the place is outside."""
        return self.buffer[np.clip(place, 0, len(self.buffer) - 1)]

    def begins(self, place: Ints, text: bytes) -> Bools:
        """Does the text stand at each place, inside its row?"""
        there = place + len(text) <= self.last
        for at, byte in enumerate(text):
            there &= self.at(place + at) == byte
        return there

    def decimal(self, start: Ints, stop: Ints) -> tuple[Ints, Bools]:
        """The decimal number between the places, and where there is one of at most 18 digits."""
        width = stop - start
        good = (width > 0) & (width <= _DIGITS)
        value = np.zeros(len(start), dtype=np.int64)
        for at in range(int(np.where(good, width, 0).max(initial=0))):
            digit = self.at(start + at).astype(np.int64) - ord("0")
            inside = at < width
            good &= ~inside | ((digit >= 0) & (digit <= 9))
            value = np.where(inside & good, value * 10 + digit, value)
        return value, good

    def texts(self, start: Ints, stop: Ints, there: Bools) -> pa.Array:
        """What stands between the places, in the rows that are ``there``."""
        return slices(self.buffer, np.where(there, start, self.first), np.where(there, stop, self.first), ~there)

    def finish(self, parsed: Sequence[Parsed]) -> Messages:
        """The messages; ``parsed`` are the rows that are not fast."""
        segments, slow = self.segments, ~self.fast
        if self.taken is not None:
            value, key = self.taken
        else:
            value = self.texts(self.cursor, self.last, self.fast & ~self.tombstone)
            key = None if self.key is None else self.texts(*self.key, self.fast & (self.key[0] >= 0))
        state = segments.state.copy()
        state[slow] = [item.state for item in parsed]
        reasons = {at: item.reason for at, item in zip(np.flatnonzero(slow).tolist(), parsed, strict=True)}
        columns = fact_columns([item.facts for item in parsed])
        return Messages(
            segments.start,
            segments.end - segments.start,
            state,
            {at: reason for at, reason in reasons.items() if reason is not None},
            merged(value, slow, [item.value for item in parsed], pa.binary()),
            merged(key, slow, [item.key for item in parsed], pa.binary()),
            slices(self.buffer, segments.start - self.base, segments.end - self.base),
            {
                name: merged(self.facts.get(name), slow, columns.get(name, [None] * len(parsed)), pa.string())
                for name in [*FACTS, *(name for name in columns if name not in FACTS)]
            },
        )

    def all(self) -> Iterator[bytes]:
        """The texts of all rows."""
        for first, last in zip(self.first.tolist(), self.last.tolist(), strict=True):
            yield self.buffer[first:last].tobytes()

    def slow(self) -> Iterator[tuple[int, bytes]]:
        """The rows that need a closer look: index and text."""
        for at in np.flatnonzero(~self.fast).tolist():
            yield at, self.buffer[self.first[at] : int(self.segments.last[at]) - self.base].tobytes()


def line_messages(source: Source, segments: Segments, layout: Layout) -> Messages:
    """The messages of neighbouring lines of a file."""
    columns = _Columns(source, segments)
    if layout.records:
        _records(columns)
    else:
        _properties(columns, layout)
        if "key" in layout.fields:
            _keys(columns, layout)
        else:
            _values(columns, layout)
    return columns.finish([_line(columns, at, text, layout) for at, text in columns.slow()])


def _line(columns: _Columns, at: int, text: bytes, layout: Layout) -> Parsed:
    if columns.segments.state[at] != MESSAGE:
        return Parsed(int(columns.segments.state[at]), None, reason=columns.segments.reasons.get(at))
    return parse(text, layout)


def _records(columns: _Columns) -> None:
    """Unwraps the objects that are as plain as they mostly are: a text with a document in it, and no headers."""
    found = [
        unwrap_plain(text) if fast else None for fast, text in zip(columns.fast.tolist(), columns.all(), strict=True)
    ]
    columns.fast = np.array([one is not None for one in found], dtype=np.bool_)
    names = ("value", "key", "topic", "partition", "offset", "time", "time_type")
    parts = {name: [None if one is None else one[at] for one in found] for at, name in enumerate(names)}
    columns.taken = pa.array(parts["value"], pa.binary()), pa.array(parts["key"], pa.binary())
    columns.facts["topic"] = pa.array(parts["topic"], pa.string())
    for name in ("partition", "offset"):
        columns.facts[name] = pa.array(parts[name], pa.int64()).cast(pa.string())
    times = pa.array(parts["time"], pa.int64())
    columns.facts["timestamp"] = instants(np.asarray(times.fill_null(0)), np.asarray(times.is_null()))
    columns.facts["timestamp_type"] = pa.array(parts["time_type"], pa.string())


def _properties(columns: _Columns, layout: Layout) -> None:
    """Moves the cursors over what is printed before key and value."""
    for name in layout.fields:
        if name == "timestamp":
            _timestamps(columns, layout.separator)
        elif name == "headers":
            columns.fast &= columns.begins(columns.cursor, NO_HEADERS + layout.separator)
            columns.cursor = columns.cursor + len(NO_HEADERS) + len(layout.separator)
        elif name in _PREFIXES:
            _number(columns, name, layout.separator)
    if TAIL in layout.fields:
        _tail(columns, layout.separator)


def _places(buffer: Bytes, text: bytes) -> Ints:
    """Where a text stands in a buffer."""
    found = np.flatnonzero(buffer == text[0])
    for at, byte in enumerate(text[1:], 1):
        found = found[found + at < len(buffer)]
        found = found[buffer[found + at] == byte]
    return found


def _next(places: Ints, behind: Ints) -> tuple[Ints, Ints]:
    """The first of the places at or behind each cursor (far away where there is none), and its index."""
    index = np.searchsorted(places, behind)
    return np.append(places, np.iinfo(np.int64).max >> 1)[index], index


def _number(columns: _Columns, name: str, separator: bytes) -> None:
    prefix = _PREFIXES[name]
    start = columns.cursor + len(prefix)
    stop, _ = _next(columns.places(separator), start)
    _, good = columns.decimal(start, stop)
    columns.fast &= good & columns.begins(columns.cursor, prefix) & (stop + len(separator) <= columns.last)
    if name == "partition":
        columns.fast &= stop - start <= 10
    if name != "delivery":
        columns.facts[name] = as_text(columns.texts(start, stop, columns.fast))
    else:
        columns.fast &= stop - start <= 10
    columns.cursor = np.where(columns.fast, stop + len(separator), columns.first)


def _timestamps(columns: _Columns, separator: bytes) -> None:
    kind = np.full(len(columns.cursor), -1)
    start = columns.cursor.copy()
    for number, prefix in enumerate(_TIME_TYPES):
        there = columns.begins(columns.cursor, prefix)
        kind[there] = number
        start[there] += len(prefix)
    stop, _ = _next(columns.places(separator), start)
    value, good = columns.decimal(start, stop)
    columns.fast &= np.where(kind == 2, stop == start, good) & (kind >= 0)
    columns.fast &= stop + len(separator) <= columns.last
    columns.facts["timestamp"] = instants(value, ~columns.fast | (kind == 2))
    names = pa.array([prefix.decode().rstrip(":") for prefix in _TIME_TYPES])
    columns.facts["timestamp_type"] = names.take(pa.array(kind, mask=~columns.fast))
    columns.cursor = np.where(columns.fast, stop + len(separator), columns.first)


def _tail(columns: _Columns, separator: bytes) -> None:
    places = columns.places(separator)
    index = np.searchsorted(places, columns.last) - 1
    place = np.append(places, -1)[index]
    start = place + len(separator)
    _, good = columns.decimal(start, columns.last)
    columns.fast &= good & (place >= columns.cursor)
    columns.facts["partition"] = as_text(columns.texts(start, columns.last, columns.fast))
    columns.last = np.where(columns.fast, place, columns.last)


def _keys(columns: _Columns, layout: Layout) -> None:
    """Parts keys from values that are JSON objects, and from nulls."""
    size = len(layout.separator)
    cursor, last = columns.cursor, columns.last
    places = columns.places(layout.separator)
    places = places[columns.at(places + size) == _BRACE]
    place, index = _next(places, cursor)
    more = np.append(places, [np.iinfo(np.int64).max >> 1] * 2)[index + 1] + size < last
    found = place + size < last
    like_json = np.isin(columns.at(cursor), list(b'{["'))
    sure = ~like_json
    if clear(layout.separator):
        sure |= ~more & (columns.at(last - 1) == _CLOSE)
    ending = layout.separator + NULL
    columns.tombstone = ~found & (last - cursor >= len(ending)) & columns.begins(last - len(ending), ending)
    columns.fast &= (found & sure) | columns.tombstone
    place = np.where(columns.tombstone, last - len(ending), place)
    absent = (place - cursor == len(NULL)) & columns.begins(cursor, NULL)
    if layout.encoding != "text":
        columns.fast &= absent | (columns.at(cursor) == _BRACE)
    columns.key = np.where(absent | ~columns.fast, -1, cursor), place
    columns.cursor = np.where(columns.fast, place + size, columns.first)


def _values(columns: _Columns, layout: Layout) -> None:
    """Tells values that are JSON objects (or raw binary messages) and nulls from what needs a closer look."""
    cursor, last = columns.cursor, columns.last
    columns.tombstone = (last - cursor == len(NULL)) & columns.begins(cursor, NULL)
    plain = (columns.at(cursor) == _BRACE) & (cursor < last)
    if layout.marks:
        plain = columns.begins(cursor, BINARY) | ((columns.at(cursor) == 0) & (last - cursor > len(BINARY)))
    columns.fast &= plain | columns.tombstone


def document_messages(source: Source, segments: Segments, layout: Layout) -> Messages:
    """The messages of neighbouring documents of a file, and of the lines between them."""
    columns = _Columns(source, segments)
    columns.fast &= (columns.at(columns.first) == _BRACE) & (segments.lead < 0)
    if layout.records:
        _records(columns)
    parsed: list[Parsed] = []
    for at, text in columns.slow():
        if segments.state[at] != MESSAGE:
            parsed.append(Parsed(int(segments.state[at]), None, reason=segments.reasons.get(at)))
        elif text[:1] == b"{":
            lead, behind = int(segments.lead[at]) - columns.base, int(segments.lead_end[at]) - columns.base
            before = columns.buffer[lead:behind].tobytes() if segments.lead[at] >= 0 else b""
            parsed.append(_document(before, text, layout))
        else:
            parsed.append(_between(text, layout))
    return columns.finish(parsed)


def _document(lead: bytes, text: bytes, layout: Layout) -> Parsed:
    if layout.records:
        found = unwrap(text, layout.encoding, layout.characters)
        return Parsed(MESSAGE, text) if found is None else found
    before = parse(lead + b"{}", layout)
    if before.value != b"{}":
        return Parsed(MALFORMED, None, reason=before.reason or f"a JSON document was expected, found {shown(lead)}")
    return before._replace(value=text)


def _between(text: bytes, layout: Layout) -> Parsed:
    found = parse(text, layout)
    if found.state in (FILLER, NOTE) or (found.state == MESSAGE and found.value is None):
        return found
    return Parsed(MALFORMED, None, reason=found.reason or f"a JSON document was expected, found {shown(text)}")


def plain_messages(source: Source, segments: Segments) -> Messages:
    """The messages of neighbouring segments that say themselves what is key and value."""
    base = int(segments.start[0])
    buffer = source.read(base, int(segments.end[-1]))
    good = segments.state == MESSAGE
    keyed = good & (segments.lead >= 0)
    lead = np.where(keyed, segments.lead, segments.start) - base
    lead_end = np.where(keyed, segments.lead_end, segments.start) - base
    nothing = pa.nulls(len(segments), pa.string())
    return Messages(
        segments.start,
        segments.end - segments.start,
        segments.state,
        segments.reasons,
        slices(buffer, segments.first - base, segments.last - base, segments.null | ~good),
        slices(buffer, lead, lead_end, ~keyed),
        slices(buffer, segments.start - base, segments.end - base),
        dict.fromkeys(FACTS, nothing),
    )
