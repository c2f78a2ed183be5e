"""Captures that hold whole read buffers, their unused tails included (docs/formats/gbase8s.md §1.2).

A client reads into one buffer again and again. What a read does not overwrite still holds what earlier reads left at
that place of the buffer: stale bytes, which may even begin with an old, whole record (a ghost). A recorder that writes
down the whole buffer writes them down as well.

The walk goes read by read and keeps the image of the buffer as the reads before left it. Bytes that equal the image at
their place are stale, even where they would frame as a record, unless no record with that sequence stood there before.
Where the starts of the reads are not known, a read is taken to end where its unframed tail is followed by a record.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from cdcwb.formats.gbase8s.framing import (
    COMMON_HEADER,
    Bytes,
    Candidates,
    Ints,
    Segments,
    find_candidates,
    length_reason,
)
from cdcwb.formats.gbase8s.text import bytes_of

__all__ = ["buffer_size", "explained", "repeats", "walk_reads"]

_SEQUENCED: Final = (1, 2, 3, 40, 41, 42, 43, 62, 119, 201)
_DISCARD: Final = 62
_KEY: Final = 24  # bytes that tell records apart: the common header and the sequence number
_MAX_IMAGE: Final = 1 << 24  # bytes of a read buffer that are remembered
_STALE: Final = "equals what an earlier read left at this place of the buffer"
_MOST_SIZES: Final = 16  # buffer sizes that are tried
_MOST_GAPS: Final = 1000  # runs of unused bytes that are looked at for the size


@dataclass(slots=True)
class _Found:
    """Segments as they are found."""

    start: list[int]
    end: list[int]
    record: list[bool]
    reasons: dict[int, str]
    stale: set[int]

    def add(self, start: int, end: int, reason: str | None = None, stale: bool = False) -> None:
        if start >= end:
            return
        if reason is not None:
            self.reasons[len(self.start)] = reason
            if stale:
                self.stale.add(len(self.start))
        self.start.append(start)
        self.end.append(end)
        self.record.append(reason is None)


class _Buffer:
    """The image of the read buffer, and which records stood where in it."""

    def __init__(self) -> None:
        self.image = bytearray()
        self.seen: set[tuple[int, bytes]] = set()

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


def walk_reads(buffer: Bytes, starts: Ints | None) -> Segments:
    """The records, stale tails and damage of a capture that holds read buffers.

    ``buffer`` is the whole stream (wire bytes). ``starts`` are the places where reads begin, in rising order; with None
    a read is taken to begin wherever a record follows unframed bytes.
    """
    data = buffer.tobytes()
    size = len(data)
    inside = [] if starts is None else [int(start) for start in starts if 0 < start < size]
    walk = _Walk(data, find_candidates(buffer), [0, *inside, size])
    if starts is None:
        walk.inferred(size)
    else:
        for first, last in pairwise(walk.edges):
            walk.read(first, last)
    out = walk.found
    return Segments(
        buffer,
        0,
        np.array(out.start, dtype=np.int64),
        np.array(out.end, dtype=np.int64),
        np.array(out.record, dtype=bool),
        out.reasons,
        frozenset(out.stale),
    )


class _Walk:
    def __init__(self, data: bytes, candidates: Candidates, edges: list[int]) -> None:
        self.data = data
        self.edges = edges  # where reads begin, and the end
        self.start = candidates.start
        self.end = candidates.end
        self.strong = candidates.strong
        self.strong_start = candidates.start[candidates.strong]
        self.buffer = _Buffer()
        self.found = _Found([], [], [], {}, set())
        self.position = 0  # what lies before belongs to a segment
        self.same_from = -1  # place in the present read from which it equals the buffer; -1: its end is not known

    def read(self, first: int, last: int) -> None:
        """One read buffer, ``data[first:last]``."""
        position = max(first, self.position)  # a record of the read before may go on here
        genuine: list[int] = []
        self.same_from = self.buffer.same_from(np.frombuffer(self.data, np.uint8, last - first, first))
        while position < last:
            index = self._candidate(position)
            end = int(self.end[index]) if index >= 0 else -1
            if index >= 0 and self._is_record(index, position, end, first, last):
                if self._is_ghost(position, end, first, last):
                    self.found.add(position, last, _STALE, True)
                    position = last
                    break
                genuine.append(position)
                self.found.add(position, end)
                position = end
                continue
            position = self._tail(position, first, last)
        self.position = max(position, last)
        for place in genuine:
            key = self._key(place)
            if key is not None:
                self.buffer.seen.add((place - first, key))
        self.buffer.overwrite(self.data[first:last])

    def inferred(self, size: int) -> None:
        """Reads whose starts are not known: a read ends where unframed bytes are followed by a record."""
        first = 0
        while self.position < size:
            position = self.position
            index = self._candidate(position)
            end = int(self.end[index]) if index >= 0 else -1
            if index >= 0 and self._is_record(index, position, end, first, size):
                self.found.add(position, end)
                self.position = end
                continue
            following = self._next_strong(position + 1)
            last = following if following >= 0 else size
            self._tail(position, first, last)
            self.buffer.overwrite(self.data[first:last])
            self.position = first = last

    def _tail(self, position: int, first: int, last: int) -> int:
        """Bytes that frame as no record, up to the end of the read ``data[first:last]``; returns where to go on."""
        if self._is_stale(position, first, last):
            self.found.add(position, last, _STALE, True)
            return last
        if self._is_zero(position, last):
            self.found.add(position, last, "zero bytes behind the last record of the read", True)
            return last
        following = self._next_strong(position + 1)
        stop = following if 0 <= following < last else last
        index = self._candidate(position)
        cut_off = index >= 0 and bool(self.strong[index]) and stop == len(self.data) < int(self.end[index])
        reason = "bytes that are no record and differ from what earlier reads left at this place of the buffer"
        if cut_off:
            whole = np.frombuffer(self.data, np.uint8)
            reason = length_reason(whole, position, int(self.end[index]), 0, len(whole))
        self.found.add(position, stop, reason)
        return stop

    def _is_record(self, index: int, position: int, end: int, first: int, last: int) -> bool:
        """Is this candidate a record of the read ``data[first:last]``?"""
        if end <= last:
            # a weak candidate, or one that holds another, must be followed by something known
            inner = self._next_strong(position + 1)
            if bool(self.strong[index]) and not 0 <= inner < end:
                return True
            known = end == last or self._candidate(end) >= 0
            return known or self._is_stale(end, first, last) or self._is_zero(end, last)
        if end > len(self.data) or not self.strong[index]:
            return False
        inner = self._next_strong(position + 1)  # goes on in the next read, unless that begins with a record
        return not 0 <= inner < end or (not self._is_stale(position, first, last) and self._ends_later(end))

    def _ends_later(self, end: int) -> bool:
        """Is what stands behind the end of a record that goes on in a later read a record, nothing, or stale?"""
        read = bisect_left(self.edges, end)
        first, last = self.edges[read - 1], self.edges[read]
        if end == last or self._candidate(end) >= 0:
            return True
        full = self.edges[read - 2]  # the read before is full of that record, so it is what the buffer holds
        at = full + end - first
        size = min(last - end, first - at)
        return size > 0 and self.data[end : end + size] == self.data[at : at + size]

    def _is_ghost(self, position: int, end: int, first: int, last: int) -> bool:
        """Did an earlier read leave this record here, and everything behind it in the read ``data[first:last]``?"""
        place = position - first
        if len(self.buffer.image) < place + min(end, last) - position:
            return False
        if not self._is_stale(position, first, last):
            return False
        there = self.data[position : position + _KEY]
        number = int.from_bytes(there[12:16], "big")
        if number not in _SEQUENCED or not any(there[16:24]):  # no sequence that could be new
            return place > 0  # a read holds at least one record
        return (place, there) in self.buffer.seen

    def _is_stale(self, start: int, first: int, last: int) -> bool:
        """Do the bytes from ``start`` to the end of the read ``data[first:last]`` equal what earlier reads left?"""
        place = start - first
        if self.same_from >= 0:
            return self.same_from <= place < len(self.buffer.image)
        return self.buffer.holds(place, self.data[start : min(last, first + len(self.buffer.image))])

    def _is_zero(self, start: int, stop: int) -> bool:
        near = min(stop, start + _KEY)  # one look tells most of them apart
        return not any(self.data[start:near]) and self.data.count(0, start, stop) == stop - start

    def _key(self, place: int) -> bytes | None:
        there = self.data[place : place + _KEY]
        return there if len(there) == _KEY else None

    def _candidate(self, position: int) -> int:
        index = int(np.searchsorted(self.start, position))
        return index if index < len(self.start) and self.start[index] == position else -1

    def _next_strong(self, position: int) -> int:
        index = int(np.searchsorted(self.strong_start, position))
        return int(self.strong_start[index]) if index < len(self.strong_start) else -1


def explained(segments: Segments) -> tuple[int, int]:
    """Bytes of a walk that are neither record nor stale, and bytes that are stale."""
    gaps = np.flatnonzero(~segments.record)
    bad = stale = 0
    for gap in gaps:
        size = int(segments.end[gap] - segments.start[gap])
        if int(gap) in segments.stale:
            stale += size
        else:
            bad += size
    return bad, stale


def repeats(framed: Iterable[Segments]) -> list[int]:
    """For every record with a sequence number that stood before, byte for byte: how far before."""
    latest: dict[bytes, int] = {}
    out: list[int] = []
    for segments in framed:
        whole = segments.record & (segments.end - segments.start >= _KEY)
        start, end = segments.start[whole], segments.end[whole]
        keys = bytes_of(segments.buffer, start, _KEY)
        # a transaction may go back to the same savepoint twice, so a DISCARD may well stand twice
        sequenced = np.isin(keys[:, 15], _SEQUENCED) & (keys[:, 15] != _DISCARD) & keys[:, 16:24].any(axis=1)
        for first, last in zip(start[sequenced].tolist(), end[sequenced].tolist(), strict=True):
            there = segments.buffer[first:last].tobytes()
            if there in latest:
                out.append(segments.base + first - latest[there])
            latest[there] = segments.base + first
    return out


def buffer_size(sample: Bytes, framed: Sequence[Segments], lengths: Iterable[int]) -> int | None:
    """The size of the read buffers that a capture consists of, or None where it does not look like that.

    ``sample`` is the beginning of the stream, ``framed`` what it holds if records simply follow each other, ``lengths``
    are those of all files. What a read leaves unused equals the read before at the same place of the buffer, so the
    distance to where the same bytes stand before is the size. It counts only if next to nothing is left unexplained
    with it; where every byte is in a record without it, files must hold whole buffers besides.
    """
    data = sample.tobytes()
    votes = Counter(repeats(framed))
    clean = all(segments.record.all() for segments in framed)
    for segments in framed:
        for gap in np.flatnonzero(~segments.record)[:_MOST_GAPS].tolist():
            first = segments.base + int(segments.start[gap])
            there = data[first : min(segments.base + int(segments.end[gap]), first + _KEY)]
            before = data.rfind(there, max(0, first - len(data) // 2), first) if there.strip(b"\0") else -1
            if before >= 0:
                votes[first - before] += 1
    sizes = [size for size, _ in votes.most_common() if not clean or not any(length % size for length in lengths)]
    best: tuple[int, int] | None = None
    for width in sizes[:_MOST_SIZES]:
        usable = len(data) // width * width
        if width < COMMON_HEADER or usable < 2 * width:
            continue
        bad, stale = explained(walk_reads(sample[:usable], np.arange(width, usable, width)))
        if stale > 0 and 10 * bad <= stale and (best is None or bad < best[0]):
            best = (bad, width)
            if bad == 0:
                break
    return None if best is None else best[1]
