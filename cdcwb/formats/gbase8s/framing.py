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
which may even begin with an old, complete record (a ghost): :func:`buffered_segments`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cdcwb.formats.gbase8s.layout import COMMON_HEADER, RECORD_TYPES, ROWS, SCHEME, SIZE_WORD
from cdcwb.formats.gbase8s.values import big_endian
from cdcwb.formats.kernels import kernel
from cdcwb.formats.records import GAP_PIECE, WINDOW, Segments, Stream, UnparsedReason, cut_gaps
from cdcwb.model import Problem

__all__ = ["STRONG", "buffered_segments", "find_start", "header_at", "iter_segments", "record_end", "strong_starts"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
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
    reasons = {
        gap: _length_damage(buffer, int(start[gap]), base, length)
        if kind[gap] == _DAMAGED
        else _gap_damage(buffer[start[gap] :][:COMMON_HEADER])
        for gap in np.flatnonzero(kind != _RECORD).tolist()
    }
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
    size = f"{header} + {payload} bytes"
    return UnparsedReason(
        Problem.MALFORMED,
        f"a record of {size} would end where no record begins, and another record begins inside it",
    )


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

_MAY_REPEAT: Final = (62, 201)  # DISCARD and TIMEOUT
_IS_UNIQUE: Final = np.array(
    [
        number in RECORD_TYPES
        and RECORD_TYPES[number].fields[0].name == "sequence_number"
        and number not in _MAY_REPEAT
        for number in range(256)
    ]
)
_KEY: Final = 24  # bytes of a record up to the end of its sequence number
_MOST_KNOWN: Final = 1 << 25  # bytes of records that are remembered
_RECENT: Final = 1 << 20  # bytes before a stretch in which an earlier read is looked for
_STALE: Final = UnparsedReason(Problem.STALE, "stale bytes of the read buffer: they repeat those of an earlier read")
_ZERO: Final = UnparsedReason(None, "zero bytes that follow the last record of the read")
_NEW: Final = UnparsedReason(Problem.MALFORMED, "bytes that are not a record and differ from those of earlier reads")


class _EarlierBytes:
    """Bytes of a stream. ``step``: the distance of those that were found last to what they repeat."""

    def __init__(self, data: bytes, step: int) -> None:
        self.data, self.step = data, step

    def repeats(self, at: int, content: bytes) -> bool:
        """Whether bytes are among those that precede ``at``."""
        if len(content) <= self.step and self.data.startswith(content, at - self.step):
            return True
        found = self.data.find(content, max(at - _RECENT, 0), at)
        if found >= 0:
            self.step = at - self.data.rfind(content, found, at)
        return found >= 0


def buffered_segments(
    read: Read, length: int, boundaries: Ints = _NOWHERE, edges: Ints = _NOWHERE, window: int = WINDOW
) -> Iterator[Segments]:
    """The records and gaps of a stream of complete read buffers (§1.2), window by window. ``edges``: offsets at which
    reads are known to begin. A gap ends with the file (``boundaries``), at an edge, and where a known record begins.

    A strong candidate is a record, unless another one is inside it and neither a candidate, zero bytes nor stale bytes
    follow it. A weak one is a record if these follow it and it ends in its read. Bytes between records are stale if
    they repeat some of an earlier read. A record that repeats an earlier one byte for byte is stale if it follows such
    bytes, or if it has a sequence of its own."""
    known: set[bytes] = set()
    size, after_gap, position, reach, step = 0, False, 0, window, 0  # ``size``: bytes of the known records
    begins, cuts = set(edges.tolist()), np.append(np.union1d(boundaries, edges), length)
    while position < length:
        base = max(position - _RECENT, 0)
        buffer = read(base, min(position + reach, length))
        data, room, first = buffer.tobytes(), len(buffer), position - base
        earlier = _EarlierBytes(data, step)
        spans: list[tuple[int, int]] = []
        reasons: dict[int, UnparsedReason] = {}
        at = first
        limit = room if base + room == length else room - COMMON_HEADER  # of headers that begin in the window
        while at < limit:
            kind, end, step = int(header_at(buffer, at)), at, earlier.step
            is_old = partial(earlier.repeats, at)
            inner = int(next_strong(buffer, at + 1, room))
            is_record = kind != GAP and (end := int(record_end(buffer, at))) + base <= length
            cut = int(cuts[np.searchsorted(cuts, base + at, side="right")]) - base
            is_record = is_record and (kind == STRONG or end <= cut)
            if is_record and (kind == WEAK or inner < end):
                rest = read(base + end, min(base + end + 2 * COMMON_HEADER, length))
                is_followed = header_at(rest, 0) != GAP or not rest.any() or is_old(rest.tobytes())
                is_record = is_followed and not (inner < end and is_old(data[at:inner]))
            if limit < room and (end > limit if is_record else inner == room and at + GAP_PIECE > limit):
                earlier.step = step
                break  # the window ends before it is clear where this ends
            if not is_record:
                end = min(inner, at + GAP_PIECE, cut)
            starts_read = base + at in begins or (step > 0 and (base + at) % step == 0)
            after_gap &= not starts_read
            content = data[at:end]
            if is_record:
                is_ghost = step > 0 and not starts_read and data.startswith(content, at - step)
                if is_old(content) if after_gap else content in known and (is_ghost or _is_unique(content)):
                    reasons[len(spans)] = _STALE
                else:
                    after_gap, size = False, size + len(content)
                    known = known if size <= _MOST_KNOWN else set()  # a buffer cannot hold what is that old
                    size = size if known else len(content)
                    known.add(content)
            else:
                after_gap = True
                is_cut = kind == STRONG and base + end == length
                damage = _length_damage(buffer, at, base, length) if is_cut else _NEW
                reasons[len(spans)] = _ZERO if not any(content) else _STALE if is_old(content) else damage
            spans.append((at, end))
            at = end
        reach, step = window if spans else 2 * reach, earlier.step
        if spans:
            start, stop = np.array(spans, np.int64).T - first
            record = np.array([number not in reasons for number in range(len(spans))])
            yield Segments(buffer[first:], position, start, stop, record, reasons)
            position = base + at


def _is_unique(record: bytes) -> bool:
    """Whether a record has a sequence of its own; a transaction may roll back to the same savepoint twice, and an idle
    server repeats its TIMEOUT."""
    return (
        len(record) >= _KEY and bool(_IS_UNIQUE[int.from_bytes(record[12:16], "big") & 0xFF]) and any(record[16:_KEY])
    )
