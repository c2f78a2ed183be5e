"""Which of several overlapping bars goes into which lane."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

__all__ = ["assign_lanes"]


def assign_lanes(spans: Sequence[tuple[float, float]]) -> list[int]:
    """The lane of every span, from 0, so that no two spans of a lane overlap.

    Greedy by start, the longer first, into the lowest free lane: uses as many lanes as there are spans over the
    busiest point, which is the least possible, in O(n log n). ``spans``: (start, end) in any order, end >= start; a
    span may start where another ends.
    """
    lanes = [0] * len(spans)
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    opened = 0
    for index in sorted(range(len(spans)), key=lambda i: (spans[i][0], -spans[i][1])):
        start, end = spans[index]
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, opened = opened, opened + 1
        lanes[index] = lane
        heapq.heappush(busy, (end, lane))
    return lanes
