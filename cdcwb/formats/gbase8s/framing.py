"""Where the records of a GBase 8s CDC stream begin and end (docs/formats/gbase8s.md §1).

A record is a 16-byte common header (four big-endian 32-bit words: header size, payload size, packetization scheme,
record number), the rest of its header, and its payload; the next record starts directly after. Nothing else marks a
boundary, so a damaged length would lose everything behind it. Framing therefore works on *candidates*, every place
whose bytes could be a common header, found for a whole buffer at once:

* a **strong** candidate has scheme 66, a known record number, exactly the header size that belongs to it (§1.3) and no
  payload where none belongs;
* a **weak** one has scheme 66 and a header of at least 16 bytes: an unknown type, or a header longer than known.

A strong candidate at the place where the record before it ended is a record. One whose own end does not land on another
candidate has a damaged length if a strong candidate stands inside it; then its bytes, up to that one, are a gap. A weak
candidate is a record only if its end lands. What is in no record is a gap, up to the next strong candidate.

The decisions depend on the bytes alone, never on how a stream is cut into windows, splits or tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cdcwb.model import Problem

__all__ = [
    "COMMON_HEADER",
    "GAP_PIECE",
    "Candidates",
    "Reason",
    "Segments",
    "big_endian_16",
    "big_endian_32",
    "big_endian_64",
    "cut_gaps",
    "find_candidates",
    "first_chain",
    "iter_segments",
    "length_damage",
]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

COMMON_HEADER: Final = 16
"""Bytes of the header that all records share (§1.1)."""

SCHEME: Final = 66
"""``CDC_PKTSCHEME_LRECBINARY``, the only packetization scheme there is (§1.1)."""

GAP_PIECE: Final = 1 << 20
"""A gap is reported in pieces of at most this many bytes, counted from its start, so that no event grows without bound;
behind each of them framing begins anew."""

WINDOW: Final = 8 << 20
"""Bytes framed at a time; a record longer than that widens the window for itself."""

_BLOCK: Final = 1 << 13
"""Candidates that are chained at a time."""

_FIXED_HEADERS: Final = {1: 40, 2: 36, 3: 28, 62: 28, 119: 32, 201: 24, 202: 24}
_ROW_TYPES: Final = (40, 41, 42, 43)
_MAX_WORDS: Final = 32767  # columns of a table

_HEADER_OF: Final = np.zeros(256, dtype=np.int64)
for _number, _size in _FIXED_HEADERS.items():
    _HEADER_OF[_number] = _size
_HEADER_OF[200] = 36
_NO_PAYLOAD: Final = np.zeros(256, dtype=bool)
_NO_PAYLOAD[list(_FIXED_HEADERS)] = True
_ROW: Final = np.zeros(256, dtype=bool)
_ROW[list(_ROW_TYPES)] = True


@dataclass(frozen=True, slots=True)
class Candidates:
    """Places in a buffer that could begin a record, in rising order; ``end`` is start + header size + payload size."""

    start: Ints
    end: Ints
    strong: Bools


class Reason(NamedTuple):
    """Why bytes are not a record: the code of the problem (None: they are known to carry nothing) and the sentence."""

    code: Problem | None
    sentence: str


@dataclass(frozen=True, slots=True)
class Segments:
    """Neighbouring runs of a stream, in order, without holes: records and gaps.

    ``start`` and ``end`` count wire bytes from the start of ``buffer``, which itself begins at ``base`` in the stream.
    ``record`` tells records from gaps; ``reasons`` says of a gap (by its index) what was expected and found.
    """

    buffer: Bytes
    base: int
    start: Ints
    end: Ints
    record: Bools
    reasons: dict[int, Reason]


def big_endian_16(buffer: Bytes, at: Ints) -> Ints:
    """The unsigned big-endian 16-bit words at the given places of a buffer, as int64."""
    return _numbers(buffer, at, 2).astype(np.int64)


def big_endian_32(buffer: Bytes, at: Ints) -> Ints:
    """The unsigned big-endian 32-bit words at the given places of a buffer, as int64."""
    return _numbers(buffer, at, 4).astype(np.int64)


def big_endian_64(buffer: Bytes, at: Ints) -> npt.NDArray[np.uint64]:
    """The unsigned big-endian 64-bit words at the given places of a buffer."""
    return _numbers(buffer, at, 8).astype(np.uint64)


def _numbers(buffer: Bytes, at: Ints, size: int) -> npt.NDArray[np.unsignedinteger]:
    if len(at) == 0:
        return np.empty(0, dtype=f">u{size}")
    # one number at every byte of the buffer, each overlapping the next: what is wanted is picked, the rest not touched
    numbers = np.ndarray((len(buffer) - size + 1,), dtype=f">u{size}", buffer=buffer, strides=(1,))
    picked: npt.NDArray[np.unsignedinteger] = numbers[at]
    return picked


def find_candidates(buffer: Bytes) -> Candidates:
    """Every place of the buffer whose 16 bytes could be a common header (§1.1, §1.3)."""
    usable = len(buffer) - COMMON_HEADER + 1
    if usable <= 0:
        none = np.empty(0, dtype=np.int64)
        return Candidates(none, none, np.empty(0, dtype=bool))
    start = np.flatnonzero(buffer[11 : 11 + usable] == SCHEME)
    start = start[(buffer[start + 10] == 0) & (buffer[start + 9] == 0) & (buffer[start + 8] == 0)]
    header = big_endian_32(buffer, start)
    payload = big_endian_32(buffer, start + 4)
    number = big_endian_32(buffer, start + 12)
    weak = header >= COMMON_HEADER
    start, header, payload, number = start[weak], header[weak], payload[weak], number[weak]
    known = number < 256
    small = np.where(known, number, 0)
    words = header - 36
    row = _ROW[small] & (words >= 0) & (words % 4 == 0) & (words <= 4 * _MAX_WORDS)
    fixed = (header == _HEADER_OF[small]) & ((payload == 0) | ~_NO_PAYLOAD[small])
    return Candidates(start.astype(np.int64), start + header + payload, known & (row | fixed))


class _Walk:
    """Follows the chain of records through one window; emits segments; stops where the window cannot decide."""

    def __init__(self, buffer: Bytes, at_end: bool) -> None:
        self.size = len(buffer)
        self.at_end = at_end
        self.limit = self.size if at_end else self.size - COMMON_HEADER
        found = find_candidates(buffer)
        self.start, self.end, self.strong = found.start, found.end, found.strong
        self.strong_start = self.start[self.strong]
        place = np.arange(1, len(self.start) + 1)
        apart = np.flatnonzero(self.end != np.append(self.start[1:], -1))  # the next one begins elsewhere
        place[apart] = np.searchsorted(self.start, self.end[apart])
        inside = place < len(self.start)
        lands = np.zeros(len(self.start), dtype=bool)
        lands[inside] = self.start[place[inside]] == self.end[inside]
        if at_end:
            lands |= self.end == self.size
        self.lands = lands
        # a strong candidate that lands needs no decision
        self.plain = self.strong & lands & (self.end <= self.limit)
        self.behind = place

    def plain_run(self, index: int, stop: int) -> Ints:
        """The candidates that follow each other from ``index`` on without a decision; none at or behind ``stop``.

        Candidates inside their records (a number 66 in a row) are passed over. There may be more behind the run.
        """
        stop = min(stop, index + _BLOCK)
        plain, behind = self.plain[index:stop], self.behind[index:stop] - index
        reach = np.maximum.accumulate(np.where(plain, behind, 0))  # up to where the records seen so far go
        outside = np.flatnonzero(np.append(0, reach[:-1]) <= np.arange(stop - index))
        fits = plain[outside]
        fits[1:] &= behind[outside[:-1]] == outside[1:]
        last = len(fits) if fits.all() else int(np.argmin(fits))
        return index + outside[:last]

    def candidate(self, position: int) -> int:
        """Index of the candidate that begins at ``position``, or -1."""
        index = int(np.searchsorted(self.start, position))
        return index if index < len(self.start) and self.start[index] == position else -1

    def next_strong(self, position: int) -> int:
        """Start of the first strong candidate at or behind ``position``, or -1."""
        index = int(np.searchsorted(self.strong_start, position))
        return int(self.strong_start[index]) if index < len(self.strong_start) else -1


def iter_segments(
    read: Callable[[int, int], Bytes],
    start: int,
    stop: int,
    length: int,
    *,
    boundaries: Ints | None = None,
    window: int = WINDOW,
) -> Iterator[Segments]:
    """The records and gaps that begin in ``[start, stop)`` of a stream, window by window.

    ``read(a, b)`` gives the wire bytes of a range; ``length`` is that of the stream. ``boundaries`` are the places
    where another file begins: no gap reaches across one. ``start`` must be the end of the segment before (0 at first).
    The last segment may end behind ``stop``: its end is where the next split goes on.
    """
    position = start
    size = window
    while position < min(stop, length):
        buffer = read(position, min(position + size, length))
        at_end = position + len(buffer) >= length
        segments, used, wanted = _frame(buffer, position, stop, at_end, read, length)
        if used == 0:  # the first record is longer than the window
            size = max(2 * size, wanted)
            continue
        size = window
        yield cut_gaps(segments, boundaries)
        position += used


def _frame(
    buffer: Bytes, base: int, stop: int, at_end: bool, read: Callable[[int, int], Bytes], length: int
) -> tuple[Segments, int, int]:
    """One window: its segments, the bytes they use, and (where that is 0) the window that the first record needs."""
    walk = _Walk(buffer, at_end)
    starts: list[Ints] = []
    ends: list[Ints] = []
    record: list[Bools] = []
    reasons: dict[int, Reason] = {}
    count = 0
    position = 0
    wanted = 0
    local_stop = stop - base

    def emit(first: Ints, last: Ints, is_record: bool, reason: Reason | None = None) -> None:
        nonlocal count
        if reason is not None:
            reasons[count] = reason
        starts.append(first)
        ends.append(last)
        record.append(np.full(len(first), is_record))
        count += len(first)

    def one(end: int, is_record: bool, reason: Reason | None = None) -> None:
        emit(np.array([position], dtype=np.int64), np.array([end], dtype=np.int64), is_record, reason)

    while position < walk.size and position < local_stop:
        index = walk.candidate(position)
        if index >= 0:
            run = walk.plain_run(index, int(np.searchsorted(walk.start, local_stop)))  # as far as this split owns it
            if len(run):
                emit(walk.start[run], walk.end[run], True)
                position = int(walk.end[run[-1]])
                continue
            end = int(walk.end[index])
            strong = bool(walk.strong[index])
            if end <= walk.limit:
                lands = bool(walk.lands[index])
            elif base + end > length:
                lands = False
            elif at_end:
                lands = end == walk.size
            else:
                lands = base + end == length or _lands(read, base + end, length)
                if lands:
                    wanted = end + COMMON_HEADER
                    break
            if lands:
                one(end, True)
                position = end
                continue
            inner = walk.next_strong(position + 1)
            if 0 <= inner < end:
                one(inner, False, length_damage(buffer, position, end, base, length))
                position = inner
                continue
            if end > walk.limit and not at_end:
                wanted = 2 * walk.size  # look further for a strong candidate inside it
                break
            if strong and end <= walk.size:
                one(end, True)
                position = end
                continue
            if strong:
                one(walk.size, False, length_damage(buffer, position, end, base, length))
                position = walk.size
                continue
        elif not at_end and position + COMMON_HEADER > walk.size:
            break
        following = walk.next_strong(position + 1)
        furthest = position + GAP_PIECE
        if 0 <= following <= furthest:
            furthest = following
        elif at_end:
            furthest = min(furthest, walk.size)
        elif furthest > walk.limit:
            wanted = furthest + COMMON_HEADER
            break
        one(furthest, False, _gap_damage(buffer, position))
        position = furthest
    empty = np.empty(0, dtype=np.int64)
    segments = Segments(
        buffer,
        base,
        np.concatenate(starts) if starts else empty,
        np.concatenate(ends) if ends else empty,
        np.concatenate(record) if record else np.empty(0, dtype=bool),
        reasons,
    )
    return segments, position, wanted


def _lands(read: Callable[[int, int], Bytes], place: int, length: int) -> bool:
    """Does a candidate begin at this place of the stream, behind the window?"""
    head = read(place, min(place + COMMON_HEADER, length))
    found = find_candidates(head)
    return len(found.start) > 0 and int(found.start[0]) == 0


def length_damage(buffer: Bytes, position: int, end: int, base: int, length: int) -> Reason:
    """What is wrong with a record that begins at ``position`` of a buffer and should end at ``end``; the buffer begins
    at ``base`` of a stream of ``length`` bytes."""
    header = int(big_endian_32(buffer, np.array([position]))[0])
    payload = int(big_endian_32(buffer, np.array([position + 4]))[0])
    if base + end > length:
        there = length - base - position
        sentence = f"truncated: a record of {header} + {payload} bytes was expected, {there} bytes are there"
        return Reason(Problem.TRUNCATED, sentence)
    sentence = (
        f"a record of {header} + {payload} bytes would end where no record begins, and another record begins inside it"
    )
    return Reason(Problem.MALFORMED, sentence)


def _gap_damage(buffer: Bytes, position: int) -> Reason:
    there = buffer[position : position + COMMON_HEADER]
    if len(there) < COMMON_HEADER:
        sentence = f"truncated: a common header of 16 bytes was expected, {len(there)} bytes are there"
        return Reason(Problem.TRUNCATED, sentence)
    if not there.any():
        return Reason(Problem.MALFORMED, "zero bytes where a record was expected")
    header, payload, scheme, number = (int(word) for word in there.view(">u4"))
    if scheme != SCHEME:
        sentence = f"a record header was expected, with packetization scheme 66; found {scheme}"
    else:
        sentence = f"a record was expected; found header size {header}, payload size {payload}, record number {number}"
    return Reason(Problem.MALFORMED, sentence)


def cut_gaps(segments: Segments, boundaries: Ints | None) -> Segments:
    """The same segments with gaps cut at file boundaries and into pieces of :data:`GAP_PIECE` bytes."""
    cuts: dict[int, list[int]] = {}
    for hole in np.flatnonzero(~segments.record).tolist():
        first, last = int(segments.start[hole]), int(segments.end[hole])
        places = set(range(first + GAP_PIECE, last, GAP_PIECE))
        if boundaries is not None:
            lo = int(np.searchsorted(boundaries, segments.base + first, side="right"))
            hi = int(np.searchsorted(boundaries, segments.base + last, side="left"))
            places.update(int(b) - segments.base for b in boundaries[lo:hi])
        if places:
            cuts[hole] = sorted(places)
    if not cuts:
        return segments
    pieces = np.ones(len(segments.start), dtype=np.int64)
    for gap, places_in_gap in cuts.items():
        pieces[gap] += len(places_in_gap)
    origin = np.repeat(np.arange(len(pieces)), pieces)
    start, end = segments.start[origin], segments.end[origin]
    first_piece = np.cumsum(pieces) - pieces
    for gap, places_in_gap in cuts.items():
        at = int(first_piece[gap])
        start[at + 1 : at + 1 + len(places_in_gap)] = places_in_gap
        end[at : at + len(places_in_gap)] = places_in_gap
    holes = np.flatnonzero(~segments.record[origin]).tolist()
    return Segments(
        segments.buffer,
        segments.base,
        start,
        end,
        segments.record[origin],
        {hole: segments.reasons[int(origin[hole])] for hole in holes},
    )


def first_chain(buffer: Bytes, at_end: bool) -> int:
    """Where reading can be taken up in the middle of a stream: the first strong candidate that is followed by another
    (or, at the stream's end, by nothing); -1 where the buffer holds none."""
    walk = _Walk(buffer, at_end)
    good = walk.strong & walk.lands
    if good.any():
        return int(walk.start[int(np.argmax(good))])
    return int(walk.strong_start[0]) if len(walk.strong_start) else -1
