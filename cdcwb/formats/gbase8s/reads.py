"""Captures that hold whole read buffers, their unused tails included (docs/formats/gbase8s.md §1.2).

A client reads into one buffer again and again. What a read does not overwrite still holds what earlier reads left at
that place of the buffer: stale bytes, which may even begin with an old, whole record (a ghost). A recorder that writes
down the whole buffer writes them down as well.

The walk goes read by read and keeps the image of the buffer as the reads before left it. Bytes that equal the image at
their place are stale, even where they would frame as a record, unless no record with that sequence stood there before.
Where the starts of the reads are not known, a read is taken to end where its unframed tail is followed by a record.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from cdcwb.formats.gbase8s.framing import (
    COMMON_HEADER,
    WINDOW,
    Bytes,
    Ints,
    Reason,
    Segments,
    find_candidates,
    length_damage,
)
from cdcwb.model import Problem

__all__ = ["KEY", "SEQUENCED", "iter_reads", "walk_reads"]

SEQUENCED: Final = (1, 2, 3, 40, 41, 42, 43, 62, 119, 201)
"""Record numbers of the types that have a sequence number."""

KEY: Final = 24
"""Bytes that tell records apart: the common header and the sequence number."""

_MAX_IMAGE: Final = 1 << 24  # bytes of a read buffer that are remembered
_STALE: Final = Reason(None, "stale bytes of an earlier read at this offset of the buffer")

Read = Callable[[int, int], Bytes]


def iter_reads(read: Read, starts: Ints, length: int, window: int = WINDOW) -> Iterator[Segments]:
    """The records, stale tails and damage of a capture that holds read buffers, window by window.

    ``read(a, b)`` gives the wire bytes of a range, ``length`` is that of the stream. ``starts`` are the places where
    reads begin, in rising order. A window holds whole reads; one that is too small for a read or a record grows.
    """
    walk = _Walk(read, length, [0, *(int(start) for start in starts if 0 < start < length), length])
    at, size = 0, window
    while at < len(walk.edges) - 1 and length:
        upto = max(bisect_right(walk.edges, walk.edges[at] + size) - 1, at + 1)
        walk.load(walk.edges[at], walk.edges[upto])
        done = at
        while done < upto and walk.take(walk.edges[done], walk.edges[done + 1]):
            done += 1
        if done == at:
            size = max(2 * size, walk.edges[upto] - walk.edges[at] + COMMON_HEADER)
            continue
        yield walk.segments()
        at, size = done, window


def walk_reads(buffer: Bytes, starts: Ints | None) -> Segments:
    """As :func:`iter_reads`, for a whole stream in one piece; with ``starts`` None a read is taken to begin wherever a
    record follows unframed bytes."""
    if starts is not None and len(buffer):
        (segments,) = iter_reads(lambda start, stop: buffer[start:stop], starts, len(buffer), len(buffer))
        return segments
    walk = _Walk(lambda start, stop: buffer[start:stop], len(buffer), [0, len(buffer)])
    walk.load(0, len(buffer))
    walk.inferred()
    return walk.segments()


@dataclass(slots=True)
class _Found:
    """Segments as they are found."""

    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    reasons: dict[int, Reason] = field(default_factory=dict)  # of those that are not records

    def add(self, start: int, end: int, reason: Reason | None = None) -> None:
        if start >= end:
            return
        if reason is not None:
            self.reasons[len(self.start)] = reason
        self.start.append(start)
        self.end.append(end)

    def cut(self, size: int) -> None:
        """Forgets all but the first ``size``."""
        del self.start[size:], self.end[size:]
        self.reasons = {index: reason for index, reason in self.reasons.items() if index < size}


class _Buffer:
    """The image of the read buffer, and which record was last read at each place of it."""

    def __init__(self) -> None:
        self.image = bytearray()
        self.seen: dict[int, bytes] = {}

    def same_from(self, there: Bytes) -> int:
        """From which place on a read equals what earlier reads left; what lies behind that is not compared."""
        size = min(len(there), len(self.image))
        differs = np.flatnonzero(there[:size] != np.frombuffer(self.image[:size], dtype=np.uint8))
        return int(differs[-1]) + 1 if len(differs) else 0

    def holds(self, place: int, there: bytes) -> bool:
        """Did earlier reads leave these bytes at this place? What lies behind what they left is not compared."""
        known = self.image[place : place + len(there)]
        return len(known) > 0 and there.startswith(known)

    def overwrite(self, there: bytes) -> None:
        there = there[:_MAX_IMAGE]
        self.image[: len(there)] = there


class _TooShortError(Exception):
    """The window ends inside a record, or before it can be told whether it is one."""


class _Walk:
    """Goes through the reads of a stream. All places count from the stream's start."""

    def __init__(self, read: Read, length: int, edges: list[int]) -> None:
        self.fetch = read
        self.length = length
        self.edges = edges  # where reads begin, and the end
        self.buffer = _Buffer()
        self.position = 0  # what lies before belongs to a segment
        self.same_from = -1  # place in the present read from which it equals the buffer; -1: its end is not known

    def load(self, first: int, last: int) -> None:
        """Makes the bytes ``[first, last)`` the window."""
        self.base, self.stop = first, last
        # a header that begins in the window may end behind it
        self.bytes = self.fetch(first, min(last + COMMON_HEADER, self.length))
        self.data = self.bytes.tobytes()
        found = find_candidates(self.bytes)
        self.start, self.end, self.strong = found.start + first, found.end + first, found.strong
        self.strong_start = self.start[self.strong]
        self.found = _Found()

    def segments(self) -> Segments:
        """What was found in the window."""
        out = self.found
        record = np.ones(len(out.start), dtype=bool)
        record[list(out.reasons)] = False
        start, end = np.array(out.start, dtype=np.int64), np.array(out.end, dtype=np.int64)
        return Segments(self.bytes, self.base, start - self.base, end - self.base, record, out.reasons)

    def take(self, first: int, last: int) -> bool:
        """One read, ``[first, last)``; False, and nothing is changed, where the window is too short for it."""
        position, before = self.position, len(self.found.start)
        try:
            genuine = self._read(first, last)
        except _TooShortError:
            self.position = position
            self.found.cut(before)
            return False
        for place in genuine:
            there = self._at(place, place + KEY)
            if len(there) == KEY:
                self.buffer.seen[place - first] = there
        self.buffer.overwrite(self._at(first, last))
        return True

    def _read(self, first: int, last: int) -> list[int]:
        """The records of one read."""
        position = max(first, self.position)  # a record of the read before may go on here
        genuine: list[int] = []
        there = self.bytes[first - self.base : last - self.base]
        self.same_from = self.buffer.same_from(there)
        while position < last:
            index = self._candidate(position)
            end = int(self.end[index]) if index >= 0 else -1
            if index >= 0 and self._is_record(index, position, end, first, last):
                if self._is_ghost(position, end, first, last):
                    self.found.add(position, last, _STALE)
                    position = last
                    break
                if end > self.stop:
                    raise _TooShortError
                genuine.append(position)
                self.found.add(position, end)
                position = end
                continue
            position = self._tail(position, first, last)
        self.position = max(position, last)
        return genuine

    def inferred(self) -> None:
        """Reads whose starts are not known: a read ends where unframed bytes are followed by a record."""
        first = 0
        while self.position < self.length:
            position = self.position
            index = self._candidate(position)
            end = int(self.end[index]) if index >= 0 else -1
            if index >= 0 and self._is_record(index, position, end, first, self.length):
                self.found.add(position, end)
                self.position = end
                continue
            following = self._next_strong(position + 1)
            last = following if following >= 0 else self.length
            self._tail(position, first, last)
            self.buffer.overwrite(self._at(first, last))
            self.position = first = last

    def _tail(self, position: int, first: int, last: int) -> int:
        """Bytes that frame as no record, up to the end of the read ``[first, last)``; returns where to go on."""
        if self._is_stale(position, first, last):
            self.found.add(position, last, _STALE)
            return last
        if self._is_zero(position, last):
            self.found.add(position, last, Reason(None, "zero bytes that follow the last record of the read"))
            return last
        following = self._next_strong(position + 1)
        stop = following if 0 <= following < last else last
        index = self._candidate(position)
        sentence = "bytes that are not a record and differ from those of earlier reads at this offset of the buffer"
        reason = Reason(Problem.MALFORMED, sentence)
        if index >= 0 and bool(self.strong[index]) and stop == self.length < int(self.end[index]):
            reason = length_damage(
                self.bytes, position - self.base, int(self.end[index]) - self.base, self.base, self.length
            )
        self.found.add(position, stop, reason)
        return stop

    def _is_record(self, index: int, position: int, end: int, first: int, last: int) -> bool:
        """Is this candidate a record of the read ``[first, last)``?"""
        if end <= last:
            # a weak candidate, or one that holds another, must be followed by something known
            inner = self._next_strong(position + 1)
            if bool(self.strong[index]) and not 0 <= inner < end:
                return True
            known = end == last or self._begins(end)
            return known or self._is_stale(end, first, last) or self._is_zero(end, last)
        if end > self.length or not self.strong[index]:
            return False
        inner = self._next_strong(position + 1)  # goes on in the next read, unless that begins with a record
        if 0 <= inner < end:
            return not self._is_stale(position, first, last) and self._ends_later(end)
        if end > self.stop:
            raise _TooShortError
        return True

    def _ends_later(self, end: int) -> bool:
        """Is what stands behind the end of a record that goes on in a later read a record, nothing, or stale?"""
        read = bisect_left(self.edges, end)
        first, last = self.edges[read - 1], self.edges[read]
        if end == last or self._begins(end):
            return True
        full = self.edges[read - 2]  # the read before is full of that record, so it is what the buffer holds
        at = full + end - first
        size = min(last - end, first - at)
        return size > 0 and self._at(end, end + size) == self._at(at, at + size)

    def _is_ghost(self, position: int, end: int, first: int, last: int) -> bool:
        """Did an earlier read leave this record here, and everything behind it in the read ``[first, last)``?"""
        place = position - first
        if len(self.buffer.image) < place + min(end, last) - position:
            return False
        if not self._is_stale(position, first, last):
            return False
        there = self._at(position, position + KEY)
        number = int.from_bytes(there[12:16], "big")
        if number not in SEQUENCED or not any(there[16:24]):  # no sequence that could be new
            return place > 0  # a read holds at least one record
        return self.buffer.seen.get(place) == there

    def _is_stale(self, start: int, first: int, last: int) -> bool:
        """Do the bytes from ``start`` to the end of the read ``[first, last)`` equal what earlier reads left?"""
        place = start - first
        if self.same_from >= 0:
            return self.same_from <= place < len(self.buffer.image)
        return self.buffer.holds(place, self._at(start, min(last, first + len(self.buffer.image))))

    def _is_zero(self, start: int, stop: int) -> bool:
        near = min(stop, start + KEY)  # one look tells most of them apart
        if any(self._at(start, near)):
            return False
        return self.data.count(0, start - self.base, stop - self.base) == stop - start

    def _at(self, start: int, stop: int) -> bytes:
        """The bytes ``[start, stop)``, clipped to the stream, wherever the window is."""
        stop = min(stop, self.length)
        if self.base <= start and stop <= self.base + len(self.data):
            return self.data[start - self.base : stop - self.base]
        return self.fetch(start, stop).tobytes()

    def _begins(self, place: int) -> bool:
        """Could a record begin at this place?"""
        if place < self.stop:
            return self._candidate(place) >= 0
        head = self.fetch(place, min(place + COMMON_HEADER, self.length))
        return len(find_candidates(head).start) > 0

    def _candidate(self, position: int) -> int:
        index = int(np.searchsorted(self.start, position))
        return index if index < len(self.start) and self.start[index] == position else -1

    def _next_strong(self, position: int) -> int:
        index = int(np.searchsorted(self.strong_start, position))
        return int(self.strong_start[index]) if index < len(self.strong_start) else -1
