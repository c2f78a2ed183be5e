"""The time zone of printed times, as header tokens show it.

Logdump prints times in the zone of whoever runs it and does not name it (docs/formats/goldengate.md, IO Time). All
times here are microseconds since 1970; a printed one as if its zone were UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cdcwb.formats.goldengate.records import MISSING, Ints

__all__ = ["Shown", "nearest_offsets", "shown_offsets"]

_MINUTE: Final = 60_000_000
_QUARTER: Final = 15 * _MINUTE
_FURTHEST: Final = 26 * 60 * _MINUTE


@dataclass(frozen=True, slots=True)
class Shown:
    """All records from byte ``first`` to byte ``last`` of a file that show an offset show this one (microseconds; local
    time less UTC)."""

    first: int
    last: int
    offset: int


def shown_offsets(start: Ints, moment: Ints, julian: Ints) -> list[Shown]:
    """The offsets that records show which bear both a printed time and UTC, in their order (``start`` rises).

    An offset is a whole number of quarters of an hour; what is further than a minute from one is no offset.
    """
    both = np.flatnonzero((moment != MISSING) & (julian != MISSING))
    raw = moment[both] - julian[both]
    offset = (raw + _QUARTER // 2) // _QUARTER * _QUARTER
    good = (np.abs(raw - offset) < _MINUTE) & (np.abs(offset) <= _FURTHEST)
    both, offset = both[good], offset[good]
    if not len(both):
        return []
    edge = np.flatnonzero(np.append(True, offset[1:] != offset[:-1]))
    last = np.append(edge[1:], len(both)) - 1
    places = start[both]
    return [Shown(int(places[a]), int(places[b]), int(offset[a])) for a, b in zip(edge, last, strict=True)]


def nearest_offsets(start: Ints, shown: Sequence[Shown]) -> Ints:
    """The offset that the nearest record to each byte shows; there must be one."""
    places = np.array([place for one in shown for place in (one.first, one.last)])
    offsets = np.array([one.offset for one in shown for _ in range(2)])
    after = np.clip(np.searchsorted(places, start), 0, len(places) - 1)
    before = np.maximum(after - 1, 0)
    nearer = np.abs(start - places[before]) <= np.abs(places[after] - start)
    found: Ints = offsets[np.where(nearer, before, after)]
    return found
