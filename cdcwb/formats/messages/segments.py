"""Places of segments in a file, before anything in them is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from cdcwb.formats.messages.batch import FILLER, MALFORMED, MESSAGE, Bools, Ints, States

__all__ = ["BYTES", "LONGEST", "PIECE", "Found", "Segments", "pieces"]

BYTES: Final = 32 << 20
"""Bytes of a batch, unless a single message is longer."""

LONGEST: Final = 64 << 20
"""A message that is longer is taken for damage; Kafka's own limit is 1 MB unless somebody raised it."""

PIECE: Final = 1 << 20
"""Damage is reported in pieces of at most this many bytes."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Neighbouring segments of a file, in order, without holes; all places count bytes from its start.

    ``[start, end)`` is the segment, ``[first, last)`` what is read in it: a line without its end, a document, a value.
    ``[lead, lead_end)`` stands before that in the same segment: the properties in front of a document, or the key;
    ``lead`` is -1 where there is none. ``null`` is true for a value that is null. ``reasons`` is by index.
    """

    start: Ints
    end: Ints
    first: Ints
    last: Ints
    state: States
    reasons: dict[int, str]
    lead: Ints
    lead_end: Ints
    null: Bools

    def __len__(self) -> int:
        return len(self.start)

    def part(self, begin: int, stop: int) -> Segments:
        """The segments with the indices ``[begin, stop)``."""
        return Segments(
            self.start[begin:stop],
            self.end[begin:stop],
            self.first[begin:stop],
            self.last[begin:stop],
            self.state[begin:stop],
            {at - begin: reason for at, reason in self.reasons.items() if begin <= at < stop},
            self.lead[begin:stop],
            self.lead_end[begin:stop],
            self.null[begin:stop],
        )

    def cut(self, batch: int) -> Iterator[Segments]:
        """The same segments in runs of at most ``batch``, and of about :data:`BYTES` bytes."""
        begin = 0
        while begin < len(self):
            full = int(np.searchsorted(self.end, self.start[begin] + BYTES, side="right"))
            stop = min(max(full, begin + 1), begin + batch, len(self))
            yield self.part(begin, stop)
            begin = stop


@dataclass(slots=True)
class Found:
    """Segments as they are found, one behind the other."""

    rows: list[tuple[int, int, int, int, int, int, int, bool]] = field(default_factory=list)
    reasons: dict[int, str] = field(default_factory=dict)

    def message(
        self, start: int, end: int, first: int, last: int, lead: int = -1, lead_end: int = -1, null: bool = False
    ) -> None:
        """A segment that holds a message."""
        self.rows.append((start, end, first, last, MESSAGE, lead, lead_end, null))

    def filler(self, start: int, end: int, reason: str) -> None:
        """Bytes that carry nothing."""
        self.reasons[len(self.rows)] = reason
        self.rows.append((start, end, start, end, FILLER, -1, -1, False))

    def malformed(self, start: int, end: int, reason: str, state: int = MALFORMED) -> None:
        """Bytes that are not a message, in pieces; ``state``: MALFORMED or TRUNCATED."""
        for first in range(start, end, PIECE):
            self.reasons[len(self.rows)] = reason
            last = min(first + PIECE, end)
            self.rows.append((first, last, first, last, state, -1, -1, False))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def bytes(self) -> int:
        """How many bytes they span."""
        return self.rows[-1][1] - self.rows[0][0] if self.rows else 0

    def take(self) -> Segments:
        """What was found so far; it begins anew."""
        table = np.array(self.rows, dtype=np.int64).reshape(len(self.rows), 8)
        start, end, first, last, state, lead, lead_end, null = (np.ascontiguousarray(table[:, n]) for n in range(8))
        reasons = self.reasons
        self.rows, self.reasons = [], {}
        return Segments(start, end, first, last, state.astype(np.uint8), reasons, lead, lead_end, null.astype(np.bool_))


def pieces(start: int, end: int, reason: str) -> Iterator[Segments]:
    """A stretch of damage as segments, some at a time."""
    step = 64 * PIECE
    for first in range(start, end, step):
        found = Found()
        found.malformed(first, min(first + step, end), reason)
        yield found.take()
