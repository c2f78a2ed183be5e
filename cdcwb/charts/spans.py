"""Where transactions stand on an axis, of time or of log positions, before anything is drawn."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from cdcwb.charts.positions import PositionScale
from cdcwb.model import Completeness, Outcome
from cdcwb.time_axis import TimeAxis, axis_of, micros

__all__ = [
    "EVENTS_MISSING",
    "NO_BEGIN",
    "NO_END",
    "NO_END_TIME",
    "STILL_OPEN",
    "Bar",
    "Record",
    "Span",
    "assign_lanes",
    "extent",
    "fit",
    "lacks",
    "lay_out",
    "least_share",
    "on_positions",
    "on_time",
    "time_axis",
    "whole_seconds",
]


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


Record = Mapping[str, Any]

_LEAST_SHARES: Final = (1 / 400, 1 / 1200)

STILL_OPEN: Final = "still open when the capture ends"
NO_BEGIN: Final = "begin not in the capture"
NO_END: Final = "end not in the capture"
EVENTS_MISSING: Final = "events missing"
NO_END_TIME: Final = "end time not in the stream"


class Bar(Protocol):
    """What is drawn as a bar: ``start`` and ``end`` in units of its axis, ``drawn`` wide, in a ``lane``."""

    start: int
    end: int
    drawn: float
    lane: int


@dataclass(slots=True)
class Span:
    """One transaction on one axis, in units of that axis; ``marks`` are (which, where)."""

    record: Record
    start: int
    end: int
    marks: list[tuple[str, int]] = field(default_factory=list)
    lane: int = 0
    drawn: float = 0.0
    hover: list[str] = field(default_factory=list)


def on_time(rows: Sequence[Record], capture_end: datetime | None) -> list[Span]:
    """Spans in microseconds since 1970. A transaction with neither time is left out."""
    known = [micros(t) for r in rows for t in (r["began_at"], r["ended_at"]) if t is not None]
    last = max(known, default=0) if capture_end is None else micros(capture_end)
    spans = []
    for row in rows:
        began, ended = row["began_at"], row["ended_at"]
        if began is None and ended is None:
            continue
        start = micros(ended if began is None else began)
        span = Span(row, start, start if ended is None else max(start, micros(ended)))
        missing = lacks(row)
        if began is None or missing == NO_BEGIN:
            span.marks.append((NO_BEGIN, start))
        if missing in (NO_END, EVENTS_MISSING):
            span.marks.append((missing, span.end if missing == NO_END else (start + span.end) // 2))
        if ended is None and row["outcome"] == Outcome.OPEN:
            span.end = max(start, last)
            span.marks.append((STILL_OPEN, span.end))
        elif ended is None and missing != NO_END:
            span.marks.append((NO_END_TIME, start))
        spans.append(span)
    return spans


def on_positions(rows: Sequence[Record], scale: PositionScale) -> list[Span]:
    """Spans in units of the scale. A transaction without any position is left out."""
    spans = []
    for row in rows:
        first, end = row["first_position"], row["end_position"]
        if first is None and end is None:
            continue
        start = scale.at(end if first is None else first)
        span = Span(row, start, start if end is None else max(start, scale.at(end)))
        missing = lacks(row)
        if missing == NO_BEGIN:
            span.marks.append((NO_BEGIN, start))
        elif missing == EVENTS_MISSING:
            span.marks.append((EVENTS_MISSING, (start + span.end) // 2))
        if end is None and missing == NO_END:  # how far it reached is not known
            span.marks.append((NO_END, start))
        elif end is None:
            span.end = max(start, scale.span)
            span.marks.append((STILL_OPEN, span.end))
        spans.append(span)
    return spans


def lacks(row: Record) -> str | None:
    """What the capture does not hold of a transaction that has ended or has no begin; None for a whole one. An open one
    without end is :data:`STILL_OPEN` instead."""
    if row["completeness"] == Completeness.NO_BEGIN:
        return NO_BEGIN
    if row["completeness"] == Completeness.GAPS:
        return EVENTS_MISSING
    if row["completeness"] == Completeness.NO_END and row["outcome"] != Outcome.OPEN:
        return NO_END
    return None


def least_share(number: int) -> float:
    """The least drawn width of a bar as a share of its axis: enough to be seen and pointed at, and narrower where
    there are many."""
    few, many = _LEAST_SHARES
    return max(many, min(few, 2 / max(1, number)))


def time_axis(bars: Sequence[Bar]) -> TimeAxis | None:
    """The axis for bars in microseconds since 1970; None where there are none."""
    return axis_of([at for bar in bars for at in (bar.start, bar.end)])


def extent(bars: Sequence[Bar], axis: TimeAxis | None = None) -> int:
    """How much an axis shows, in its own units: all bars, or what the ``axis`` of time does."""
    if axis is not None:
        return micros(axis.last) - micros(axis.first)
    return max((bar.end for bar in bars), default=0) - min((bar.start for bar in bars), default=0)


def lay_out(spans: list[Span], least_span: int, axis: TimeAxis | None = None) -> tuple[int, int]:
    """Give every span its drawn width and its lane; how many lanes there are, and how many spans are drawn wider than
    they are. ``axis``: what an axis of time shows."""
    lanes = fit(spans, max(least_span, extent(spans, axis)) * least_share(len(spans)))
    return lanes, sum(s.drawn > s.end - s.start for s in spans)


def fit(bars: Sequence[Bar], least: float) -> int:
    """Give every bar its lane and its drawn width; how many lanes there are.

    Lanes follow from the true extents: there are as many as bars over the busiest point, where bars without extent at
    one point count as several. A bar is drawn ``least`` wide at least, as far as the next bar of its lane leaves room.
    """
    lanes = assign_lanes([(bar.start, max(bar.end, bar.start + 1)) for bar in bars])
    following: dict[int, int] = {}  # where the next bar of a lane starts
    for bar, lane in sorted(zip(bars, lanes, strict=True), key=lambda pair: pair[0].start, reverse=True):
        room = following.get(lane, math.inf) - bar.start
        bar.lane, bar.drawn = lane, max(bar.end - bar.start, min(least, room))
        following[lane] = bar.start
    return max(lanes, default=-1) + 1


def whole_seconds(spans: Sequence[Span]) -> bool:
    """Whether no time has a fraction of a second."""
    times = [t for s in spans for t in (s.record["began_at"], s.record["ended_at"]) if t is not None]
    return all(time.microsecond == 0 for time in times)
