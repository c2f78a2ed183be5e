"""The framing of a GBase 8s CDC stream: the start and end of its records (docs/formats/gbase8s.md §1).

A record is a 16-byte common header (four big-endian 32-bit words: header size, payload size, packetization scheme,
record number), the rest of its header, and its payload; the next record starts directly after. Nothing else marks a
boundary, so a damaged length would lose everything that follows it. Framing therefore works on *candidates*, offsets
whose bytes could be a common header:

* a **strong** candidate has scheme 66, a known record number, exactly the header size that belongs to it (§1.3) and no
  payload where none belongs;
* a **weak** one has scheme 66 and a header of at least 16 bytes: an unknown type, or a header longer than known.

A strong candidate where the record before it ended is a record. One whose own end does not land on another candidate
has a damaged length if a strong candidate is inside it; then its bytes, up to that one, are a gap. A weak candidate is
a record only if its end lands. What is in no record is a gap, up to the next strong candidate. The decisions depend on
the bytes alone, never on how a stream is cut into windows, splits or tasks.

A capture may also hold complete read buffers, their unused tails included (§1.2). A client reads into one buffer again
and again. What a read does not overwrite still holds what earlier reads left at that offset of the buffer: stale bytes,
which may even begin with an old, complete record (a ghost). :class:`Reads` goes read by read and keeps the image of the
buffer as the reads before left it. Bytes that equal the image at their offset are stale, even where they would
frame as a record, unless no record with that sequence was there before. If it is not known where reads begin, a read
ends where a record follows other bytes (:func:`inferred_reads`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from cdcwb.formats.gbase8s.layout import COMMON_HEADER, RECORD_TYPES, ROWS, SCHEME, SIZE_WORD
from cdcwb.formats.gbase8s.values import big_endian
from cdcwb.formats.kernels import Bytes, Ints, kernel
from cdcwb.formats.records import GAP_PIECE, WINDOW, Segments, Stream, UnparsedReason, cut_gaps
from cdcwb.model import Problem

Read = Callable[[int, int], Bytes]
"""Returns the wire bytes ``[start, stop)`` of a stream."""

REACH: Final = 1 << 16
"""Bytes after the end of a split that are read with it, unless its last record is longer."""

_NOWHERE: Final = np.zeros(0, np.int64)
_MAX_WORDS: Final = 32767  # columns of a table
GAP, WEAK, STRONG = 0, 1, 2
_GAP, _RECORD, _DAMAGED = 0, 1, 2  # of a segment; damaged: a gap that begins with a header whose size is wrong
_UNKNOWN: Final = -1

# by record number: bytes of its header (0: unknown), whether it has a payload, whether it is a row
HEADER_SIZE: Final = np.zeros(256, np.int64)
HAS_PAYLOAD: Final = np.zeros(256, np.bool_)
IS_ROW: Final = np.isin(np.arange(256), ROWS)
for _number, _kind in RECORD_TYPES.items():
    HEADER_SIZE[_number], HAS_PAYLOAD[_number] = _kind.header_size, _kind.has_payload


# --- candidates -------------------------------------------------------------------------------------------------------


@kernel
def header_at(b: Bytes, at: int) -> Any:
    """Whether the 16 bytes at ``at`` could be a common header: STRONG, WEAK or GAP (§1.1, §1.3)."""
    if at + COMMON_HEADER > len(b) or b[at + 11] != SCHEME or b[at + 10] or b[at + 9] or b[at + 8]:
        return GAP
    size, number = big_endian(b, at, 4), big_endian(b, at + 12, 4)
    if size < COMMON_HEADER:
        return GAP
    if number >= 256 or HEADER_SIZE[number] == 0:
        return WEAK
    more = size - HEADER_SIZE[number]
    if IS_ROW[number]:
        return STRONG if 0 <= more <= SIZE_WORD * _MAX_WORDS and more % SIZE_WORD == 0 else WEAK
    return STRONG if more == 0 and (HAS_PAYLOAD[number] or big_endian(b, at + 4, 4) == 0) else WEAK


@kernel
def record_end(b: Bytes, at: int) -> Any:
    """The end of the record that begins at ``at``: start + header size + payload size."""
    return at + big_endian(b, at, 4) + big_endian(b, at + 4, 4)


@kernel
def next_strong(b: Bytes, at: int, stop: int) -> Any:
    """The first strong candidate of ``[at, stop)``; ``stop`` if there is none."""
    while at < stop and header_at(b, at) != STRONG:
        at += 1
    return min(at, stop)


@kernel
def first_chain(b: Bytes, at_end: int) -> Any:
    """The offset at which reading can begin in the middle of a stream: the first strong candidate that is followed by
    another candidate (or by the end of the stream), else the first strong one; -1 if the buffer has none."""
    count, first = len(b), np.int64(-1)
    at: Any = np.int64(0)  # a literal 0 would compile it twice
    at = next_strong(b, at, count)
    while at < count:
        end = record_end(b, at)
        if header_at(b, end) != GAP or (at_end and end == count):
            return at
        if first < 0:
            first = at
        at = next_strong(b, at + 1, count)
    return first


def strong_starts(buffer: Bytes) -> list[int]:
    """All strong candidates of a short buffer."""
    return [at for at in np.flatnonzero(buffer[11:] == SCHEME).tolist() if header_at(buffer, at) == STRONG]


# --- records that follow each other -----------------------------------------------------------------------------------


@kernel
def _frame(
    b: Bytes, at: int, count: int, landing: int, stop: int, rest: int, piece: int, starts: Ints, ends: Ints, kinds: Any
) -> Any:
    """Appends the segments from ``at`` to the existing ``count``; ``rest``: bytes from the window to the end of the
    stream. ``landing``: whether the record at ``at`` ends where another begins (0: no, -1: unknown). Returns their
    number, their end, and why it stopped: 0 for the end; an offset after the window at which a record must begin if one
    ends there; the negative number of bytes that the window must have."""
    size = len(b)
    complete = size == rest
    limit = size if complete else size - COMMON_HEADER  # of headers that begin in the window
    while at < min(size, stop):
        candidate, kind, end = header_at(b, at), _GAP, at
        if candidate != GAP:
            record = record_end(b, at)
            lands = record == rest
            if landing == _UNKNOWN and record < rest:
                if record > limit:
                    return count, at, record
                lands = header_at(b, record) != GAP
            landing = _UNKNOWN
            inner = record if lands else next_strong(b, at + 1, min(record, size))
            if lands and record > size:
                return count, at, -record
            if lands:
                kind, end = _RECORD, record
            elif inner < min(record, size):
                kind, end = _DAMAGED, inner
            elif record > limit and not complete:
                return count, at, -2 * size  # look further for a strong candidate inside it
            elif candidate == STRONG:
                kind, end = (_RECORD, record) if record <= size else (_DAMAGED, size)
        elif at + COMMON_HEADER > size and not complete:
            return count, at, -1
        if end == at:
            furthest = at + piece
            end = next_strong(b, at + 1, min(furthest + 1, size))
            if end > furthest or (end == size and not complete):
                if furthest > limit and not complete:
                    return count, at, -(furthest + COMMON_HEADER)
                end = furthest
        starts[count], ends[count], kinds[count] = at, end, kind
        count += 1
        at = end
    return count, at, 0


def iter_segments(
    read: Read, start: int, stop: int, length: int, *, boundaries: Ints = _NOWHERE, window: int = WINDOW
) -> Iterator[Segments]:
    """The records and gaps that begin in ``[start, stop)`` of a stream of ``length`` bytes, window by window.

    ``boundaries`` are the offsets at which another file begins: no gap crosses one. ``start`` must be the end of the
    preceding segment (0 at first). The last segment may end after ``stop``: the next split begins at its end.
    """
    position, size, reach = start, window, REACH
    while position < min(stop, length):
        buffer = read(position, min(position + size, stop + reach, length))
        room = len(buffer) // 4 + 2  # strong candidates are at least eight bytes apart
        starts, ends, kinds = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.uint8)
        count, used, landing = 0, 0, _UNKNOWN
        while True:
            count, used, asked = _frame(
                buffer, used, count, landing, stop - position, length - position, GAP_PIECE, starts, ends, kinds
            )
            if asked <= 0 or _begins(read, position + asked, length):
                break
            landing = 0
        if used == 0:  # the first record is longer than the window
            longer = max(asked + COMMON_HEADER, -asked)
            size, reach = max(2 * size, longer), max(2 * reach, longer)
            continue
        size, reach = window, REACH
        framed = starts[:count].copy(), ends[:count].copy(), kinds[:count]
        yield cut_gaps(_segments(buffer, position, *framed, length), boundaries)
        position += used


def _segments(buffer: Bytes, base: int, start: Ints, end: Ints, kind: Bytes, length: int) -> Segments:
    reasons = {}
    for gap in np.flatnonzero(kind != _RECORD).tolist():
        at = int(start[gap])
        damage = _length_damage(buffer, at, base, length) if kind[gap] == _DAMAGED else None
        reasons[gap] = damage or _gap_damage(buffer[at:][:COMMON_HEADER])
    return Segments(buffer, base, start, end, kind == _RECORD, reasons)


def _begins(read: Read, at: int, length: int) -> bool:
    """Whether a record can begin at this offset of the stream."""
    return bool(header_at(read(at, min(at + COMMON_HEADER, length)), 0) != GAP)


def _length_damage(buffer: Bytes, at: int, base: int, length: int) -> UnparsedReason:
    """The problem of the size of a record at ``at`` of a buffer; the buffer begins at ``base`` of a stream of
    ``length`` bytes."""
    header, payload = buffer[at : at + 8].view(">u4").tolist()
    rest = length - base - at
    if header + payload > rest:
        sentence = f"truncated: a record of {header} + {payload} bytes was expected, {rest} bytes are there"
        return UnparsedReason(Problem.TRUNCATED, sentence)
    sentence = f"a record of {header} + {payload} bytes would end where no record begins, and another record begins"
    return UnparsedReason(Problem.MALFORMED, f"{sentence} inside it")


def _gap_damage(gap: Bytes) -> UnparsedReason:
    if len(gap) < COMMON_HEADER:
        sentence = f"truncated: a common header of 16 bytes was expected, {len(gap)} bytes are there"
        return UnparsedReason(Problem.TRUNCATED, sentence)
    header, payload, scheme, number = gap.view(">u4").tolist()
    if not gap.any():
        sentence = "zero bytes where a record was expected"
    elif scheme != SCHEME:
        sentence = f"a record header was expected, with packetization scheme 66; found {scheme}"
    else:
        sentence = f"a record was expected; found header size {header}, payload size {payload}, record number {number}"
    return UnparsedReason(Problem.MALFORMED, sentence)


def find_start(stream: Stream, start: int, stop: int) -> int:
    """The start of the first record of a split, inferred from its own bytes; ``stop`` if it has none."""
    position = start
    while position < min(stop, stream.length):
        buffer = stream.read(position, min(position + WINDOW, stop + REACH))
        at_end = position + len(buffer) >= stream.length
        at = int(first_chain(buffer, at_end))
        if at >= 0:
            return min(position + at, stop)
        if at_end:
            break
        position += len(buffer) - COMMON_HEADER
    return stop


# --- read buffers -----------------------------------------------------------------------------------------------------

_DISCARD: Final = 62
_SEQUENCED: Final = np.isin(
    np.arange(256),
    [number for number, kind in RECORD_TYPES.items() if any(one.name == "sequence_number" for one in kind.fields)],
)

KEY: Final = 24
"""The bytes that identify a record: the common header and the sequence number."""

_MAX_IMAGE: Final = 1 << 24  # bytes of a read buffer that are remembered
_STALE: Final = UnparsedReason(
    Problem.STALE, "stale bytes of the read buffer: they repeat those of an earlier read at this offset of it"
)
_MOVED: Final = UnparsedReason(Problem.STALE, "stale bytes of the read buffer: they repeat some of an earlier read")
_ZERO: Final = UnparsedReason(None, "zero bytes that follow the last record of the read")
_DIFFERENT: Final = "bytes that are not a record and differ from those of earlier reads at this offset of the buffer"
_NEW: Final = UnparsedReason(Problem.MALFORMED, _DIFFERENT)
_MAX_INFERRED: Final = 1 << 20  # the same if the starts of reads are not known
_LEAST_MOVED: Final = 8  # bytes that are looked for anywhere in the buffer
_ZEROS: Final = 3  # bytes with which nearly every header begins, and many a record ends


def repeats(framed: Iterable[Segments]) -> list[int]:
    """For every record with a sequence number that repeats an earlier one byte for byte: the distance."""
    latest: dict[bytes, int] = {}
    out: list[int] = []
    for segments in framed:
        for first, last in zip(segments.start[segments.record], segments.end[segments.record], strict=True):
            record = segments.buffer[first:last].tobytes()
            # a transaction may roll back to the same savepoint twice, so a DISCARD may repeat
            if _has_sequence(record) and record[15] != _DISCARD:
                at = segments.base + int(first)
                out += [at - latest[record]] if record in latest else []
                latest[record] = at
    return out


def _has_sequence(record: bytes) -> bool:
    return len(record) >= KEY and not any(record[12:15]) and bool(_SEQUENCED[record[15]]) and any(record[16:KEY])


class Edges:
    """The offsets of a stream at which its reads begin, and its end. ``starts``: those of its files, and the end;
    ``inside`` gives the ascending offsets in a file at which reads begin, of which the first is 0."""

    def __init__(self, starts: Sequence[int], inside: Callable[[int], Sequence[int]]) -> None:
        self.starts, self._inside = starts, inside
        self._known: tuple[int, Sequence[int]] = -1, ()

    def _of_file(self, at: int) -> tuple[int, int, Sequence[int]]:
        """Start and end of the file with the byte at ``at``, and the offsets at which its reads begin."""
        file = bisect_right(self.starts, at, hi=len(self.starts) - 1) - 1
        if self._known[0] != file:
            self._known = file, self._inside(file)
        return self.starts[file], self.starts[file + 1], self._known[1]

    def after(self, at: int) -> int:
        """The first of them after ``at``."""
        first, last, inside = self._of_file(at)
        place = bisect_right(inside, at - first)
        return first + inside[place] if place < len(inside) else last

    def before(self, at: int) -> int:
        """The last of them before ``at``."""
        if at > self.starts[-1]:
            return self.starts[-1]
        first, _, inside = self._of_file(at - 1)
        return first + inside[bisect_left(inside, at - first) - 1]


_Span = tuple[int, int, UnparsedReason | None]
"""Start, end, and the reason if it is not a record."""


class _TooShortError(Exception):
    """The window ends inside a record, or before it is clear whether it is one."""


class Reads:
    """Walks through the reads of a stream. All offsets count from the stream's start. ``image``: the bytes in the
    buffer; ``has_record``: for each of them, whether a record was read there that is still there."""

    def __init__(self, read: Read, edges: Edges) -> None:
        self.read, self.edges, self.length = read, edges, edges.starts[-1]
        self.image, self.has_record = bytearray(), bytearray()
        self.position = 0  # the bytes that precede it belong to a segment
        self.same_from = 0  # offset in the current read from which it equals the buffer
        self.new_to = 0  # the bytes that precede it are new, whatever they equal

    def segments(self, window: int = WINDOW) -> Iterator[Segments]:
        """The records, stale tails and damage of all reads, window by window. A window has complete reads; it grows if
        it is too small for a read or a record."""
        at, size = 0, window
        while at < self.length:
            upto = max(self.edges.before(min(at + size, self.length) + 1), self.edges.after(at))
            self.base, self.stop = at, upto
            # a header that begins in the window may end after it
            self.bytes = self.read(at, min(upto + COMMON_HEADER, self.length))
            self.data = self.bytes.tobytes()
            self.found: list[_Span] = []
            done = at
            while done < upto and self._take(done, edge := self.edges.after(done)):
                done = edge
            if done == at:
                size = max(2 * size, upto - at + COMMON_HEADER)
                continue
            yield _of_spans(self.bytes, self.base, self.found)
            at, size = done, window

    def _take(self, first: int, last: int) -> bool:
        """Processes a read ``[first, last)``; False, without any change, if the window is too short for it."""
        position, before = self.position, len(self.found)
        data = self._at(first, last)
        size = min(len(data), len(self.image))
        differs = np.flatnonzero(np.frombuffer(data[:size], np.uint8) != np.frombuffer(self.image[:size], np.uint8))
        self.same_from = int(differs[-1]) + 1 if len(differs) else 0
        try:
            genuine = self._records(first, last)
        except _TooShortError:
            self.position = position
            del self.found[before:]
            return False
        data = data[:_MAX_IMAGE]
        self.has_record[: self.same_from] = bytes(min(self.same_from, len(self.has_record)))
        self.has_record += bytes(max(len(data) - len(self.has_record), 0))
        self.image[: len(data)] = data
        for at in genuine:
            if at + KEY <= min(last, first + _MAX_IMAGE):
                self.has_record[at - first] = 1
        return True

    def _records(self, first: int, last: int) -> list[int]:
        """The records of one read."""
        position = max(first, self.position)  # a record of the preceding read may continue here
        genuine: list[int] = []
        while position < last:
            kind, end = self._candidate(position)
            if not self._is_record(kind, position, end, first, last):
                position = self._tail(position, first, last)
            elif self._is_ghost(position, end, first, last):
                self.found.append((position, last, _STALE))
                position = last
            elif end > self.stop:
                raise _TooShortError
            else:
                genuine.append(position)
                self.found.append((position, end, None))
                position = end
        self.position = max(position, last)
        return genuine

    def _tail(self, position: int, first: int, last: int) -> int:
        """Adds bytes that are not a record, up to the end of the read ``[first, last)``; returns the offset to continue
        at."""
        stop = last
        if self._is_stale(position, first, last):
            reason = _STALE
        elif not any(self._at(position, last)):
            reason = _ZERO
        else:
            stop = self._next_strong(position + 1, last)
            kind, end = self._candidate(position)
            if kind == STRONG and stop == self.length < end:
                reason = _length_damage(self.bytes, position - self.base, self.base, self.length)
            else:
                reason = _tail_reason(kind, self._at(position, min(stop, position + KEY)), self.image)
        self.found.append((position, stop, reason))
        return stop

    def _is_record(self, kind: int, position: int, end: int, first: int, last: int) -> bool:
        """Whether a candidate is a record of the read ``[first, last)``."""
        if kind == GAP or (end > last and (end > self.length or kind == WEAK)):
            return False
        holds_another = self._next_strong(position + 1, end) < end
        if end <= last:  # a weak candidate, or one that contains another, must be followed by a known record
            known = (kind == STRONG and not holds_another) or end == last or self._begins(end)
            return known or self._is_stale(end, first, last) or not any(self._at(end, last))
        if holds_another:  # continues in the next read, unless that begins with a record
            return not self._is_stale(position, first, last) and self._ends_later(end)
        if end > self.stop:
            raise _TooShortError
        return True

    def _ends_later(self, end: int) -> bool:
        """Whether a record, the end, or stale bytes follow a record that continues in a later read. If all of that read
        repeats the one before, it has no rest of the record."""
        first, last = self.edges.before(end), self.edges.after(end - 1)
        if end == last or self._begins(end):
            return True
        full = self.edges.before(first)  # the preceding read is full of that record, so it is the content of the buffer
        at = full + end - first
        if last - end > first - at or (end - first > _ZEROS and self._at(first, end) == self._at(full, at)):
            return False
        return self._at(end, last) == self._at(at, at + last - end)

    def _is_ghost(self, position: int, end: int, first: int, last: int) -> bool:
        """Whether an earlier read left this record and all bytes after it in the read ``[first, last)``. Bytes after
        those of earlier reads are new if records lead to them."""
        at, upto = position - first, first + len(self.image)
        if position < self.new_to or not self._is_stale(position, first, last):
            return False
        while end < min(upto, last) and self._candidate(end)[0] != GAP:
            end = self._candidate(end)[1]
        if min(end, last) > upto or (end == upto < last and self._candidate(end)[0] != GAP):
            self.new_to = last
            return False
        if not _has_sequence(self._at(position, position + KEY)):  # no sequence that could be new
            return at > 0  # a read has at least one record
        # otherwise the sequence number continues in the next read
        return position + KEY <= last and bool(self.has_record[at])

    def _is_stale(self, start: int, first: int, last: int) -> bool:
        """Whether the bytes from ``start`` to the end of the read ``[first, last)`` equal those of earlier reads; bytes
        after those are not compared."""
        return self.same_from <= start - first < len(self.image)

    def _at(self, start: int, stop: int) -> bytes:
        """The bytes ``[start, stop)``, clipped to the stream, inside the window or not."""
        stop = min(stop, self.length)
        if self.base <= start and stop <= self.base + len(self.data):
            return self.data[start - self.base : stop - self.base]
        return self.read(start, stop).tobytes()

    def _candidate(self, position: int) -> tuple[int, int]:
        """The kind of candidate at an offset of the window, and its end."""
        kind = int(header_at(self.bytes, position - self.base))
        return kind, int(record_end(self.bytes, position - self.base)) + self.base if kind != GAP else -1

    def _begins(self, at: int) -> bool:
        if at < self.stop:
            return self._candidate(at)[0] != GAP
        return _begins(self.read, at, self.length)

    def _next_strong(self, position: int, stop: int) -> int:
        """The first strong candidate of ``[position, stop)`` in the window; ``stop`` if there is none."""
        at = int(next_strong(self.bytes, position - self.base, min(stop - self.base, len(self.bytes)))) + self.base
        return at if at < self.base + len(self.bytes) else stop


def inferred_reads(read: Read, length: int, boundaries: Ints = _NOWHERE, window: int = WINDOW) -> Iterator[Segments]:
    """The records of a stream of read buffers whose starts are not known. What is between records is stale, if it
    repeats earlier bytes, and so is a record in such a stretch, or directly after a record, that repeats an earlier one
    byte for byte; records without a sequence of their own are only stale in such a stretch."""
    known: set[bytes] = set()
    image, current, size = bytearray(), bytearray(), 0  # the buffer, what the read has put into it, bytes of ``known``
    after_gap = False
    for segments in iter_segments(read, 0, length, length, boundaries=boundaries, window=window):
        record, reasons = segments.record.copy(), dict(segments.reasons)
        data = segments.buffer.tobytes()
        for at, (start, end) in enumerate(zip(segments.start.tolist(), segments.end.tolist(), strict=True)):
            content = data[start:end]
            if not record[at]:
                after_gap = True
                kind, begin = int(header_at(segments.buffer, start)), content[:KEY]
                if any(content):
                    is_there = image.startswith(content, len(current))
                    reasons[at] = _STALE if is_there else _tail_reason(kind, begin, image)
                else:
                    reasons[at] = _ZERO
            elif content in known and (after_gap or (_has_sequence(content) and content[15] != _DISCARD)):
                record[at], reasons[at] = False, _MOVED
            else:
                if after_gap:
                    image[: len(current)] = current
                    current.clear()
                after_gap = False
                known.add(content)
                size += len(content)
                if size > 2 * _MAX_IMAGE:  # a buffer cannot hold what is that old
                    known, size = {content}, 0
            current += content[: _MAX_INFERRED - len(current)]
        yield Segments(segments.buffer, segments.base, segments.start, segments.end, record, reasons)


def _tail_reason(kind: int, begin: bytes, earlier: bytes | bytearray) -> UnparsedReason:
    """The reason why bytes that begin like this are not a record."""
    is_moved = kind != STRONG and len(begin) >= _LEAST_MOVED and earlier.find(begin) >= 0
    return _MOVED if is_moved else _NEW


def _of_spans(buffer: Bytes, base: int, found: list[_Span]) -> Segments:
    spans = [span for span in found if span[0] < span[1]]
    start, end = np.array([span[:2] for span in spans], np.int64).reshape(-1, 2).T - base
    reasons = {at: reason for at, (_, _, reason) in enumerate(spans) if reason is not None}
    record = np.array([reason is None for _, _, reason in spans], bool)
    return Segments(buffer, base, start, end, record, reasons)
