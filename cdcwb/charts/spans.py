"""Where transactions stand on an axis, of time or of log positions, before anything is drawn."""

from __future__ import annotations

import heapq
import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, Final, Protocol

from cdcwb.model import Completeness, Outcome
from cdcwb.time_axis import TimeAxis, axis_of, micros

__all__ = [
    "EVENTS_MISSING",
    "NO_BEGIN",
    "NO_END",
    "NO_END_TIME",
    "STILL_OPEN",
    "Bar",
    "PositionScale",
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


# --- positions --------------------------------------------------------------------------------------------------------

_WORD: Final = re.compile(r"[0-9A-F]{16}")
_SEQUENCE: Final = re.compile(r"[0-9]{35}")
_TRAIL: Final = re.compile(r"[0-9]{20}")
_LOG_SIZE: Final = 1 << 32
_TRAIL_SIZE: Final = 10**10
_EXACT: Final = 1 << 53  # from here on a browser rounds
_JUMP: Final = 100  # numbers between two positions that are always taken as they are
_TAIL: Final = 4  # digits of a number that a tick shows


class PositionScale:
    """Places log positions on an axis.

    Positions of 16 hexadecimal digits are (number of the log) << 32 | (byte in that log) (``docs/formats/gbase8s.md
    §6``). Logs are far smaller than the 4 GiB that their numbers are apart, so each log is drawn as wide as the bytes
    of it that are used, the next one beside it after a small gap: a unit of this axis is a byte of log. The same holds
    for positions of 20 digits: ten of the number of a trail file and ten of the byte in it
    (``docs/formats/goldengate.md §9``).

    Positions of 35 digits are the time of a commit and the number of a change (``docs/formats/qlik-kafka.md §5.1``). A
    unit of the axis is a change number, unless these do not rise or one jump would be the greater part of it.

    Positions of any other shape stand in text order, which is log order, one unit apart.

    ``positions``: every position that will be asked for, in any order, repeats allowed; None is left out.
    """

    def __init__(self, positions: Iterable[str | None]) -> None:
        self._sorted: list[str] = sorted({p for p in positions if p is not None})
        in_log = bool(self._sorted) and all(_WORD.fullmatch(p) for p in self._sorted)
        self._in_trail = bool(self._sorted) and all(_TRAIL.fullmatch(p) for p in self._sorted)
        self.in_bytes: bool = in_log or self._in_trail
        self.breaks: list[float] = []
        """Where one log ends and the next one begins, in the middle of the gap between them."""
        self._are_sequences = bool(self._sorted) and all(_SEQUENCE.fullmatch(p) for p in self._sorted)
        numbers = [int(p[16:]) for p in self._sorted] if self._are_sequences else []
        self.in_numbers: bool = bool(numbers) and _is_even(numbers)
        self._at: dict[str, int]
        if self.in_bytes:
            self._at = self._by_bytes()
        elif self.in_numbers:
            self._at = {p: number - numbers[0] for p, number in zip(self._sorted, numbers, strict=True)}
        else:
            self._at = {p: n for n, p in enumerate(self._sorted)}

    def _by_bytes(self) -> dict[str, int]:
        base, size = (10, _TRAIL_SIZE) if self._in_trail else (16, _LOG_SIZE)
        split = [divmod(int(p, base), size) for p in self._sorted]
        used: dict[int, tuple[int, int]] = {}
        for log, byte in split:
            used[log] = (used.get(log, (byte, byte))[0], byte)
        gap = max(1, sum(last - first for first, last in used.values()) // 50)
        start: dict[int, int] = {}
        at = 0
        for log, (first, last) in used.items():
            start[log] = at - first
            at += last - first + gap
        for left, right in pairwise(used):
            self.breaks.append((start[left] + used[left][1] + start[right] + used[right][0]) / 2)
        return {p: start[log] + byte for p, (log, byte) in zip(self._sorted, split, strict=True)}

    def __len__(self) -> int:
        return len(self._sorted)

    @property
    def span(self) -> int:
        """How long the axis is; the least position is at 0."""
        return self._at[self._sorted[-1]] if self._sorted else 0

    @property
    def last(self) -> str | None:
        """The highest position; None where there is none."""
        return self._sorted[-1] if self._sorted else None

    @property
    def unit(self) -> str:
        """What one unit of the axis is."""
        if self.in_numbers:
            return "numbers of changes"
        if self._in_trail:
            return "bytes of trail"
        return "bytes of log" if self.in_bytes else "order in the log"

    @property
    def days(self) -> str:
        """The days that positions name, ``2026-02-03`` or ``2026-02-03 to 2026-02-04``; empty where they name none."""
        if not self._are_sequences:
            return ""
        first, last = (f"{p[:4]}-{p[4:6]}-{p[6:8]}" for p in (self._sorted[0], self._sorted[-1]))
        return first if first == last else f"{first} to {last}"

    @property
    def log(self) -> str:
        """What lies on either side of a break."""
        return "trail file" if self._in_trail else "log"

    def short(self, position: str) -> tuple[str, ...]:
        """A position as the lines of a tick's label: of 35 digits the time, ``08:00:13.22``, behind month and day where
        there are several days, and the end of the number, ``…0017``; of 20 digits trail file and byte. Any other is
        short enough."""
        if self._in_trail:
            trail, byte = divmod(int(position), _TRAIL_SIZE)
            return f"trail {trail}", f"{byte:,}"
        if not self._are_sequences:
            return (position,)
        day = f"{position[4:6]}-{position[6:8]} " if " " in self.days else ""
        time = f"{position[8:10]}:{position[10:12]}:{position[12:14]}.{position[14:16]}"
        return f"{day}{time}", f"…{position[-_TAIL:]}"

    def at(self, position: str) -> int:
        """Where ``position`` stands. Raises KeyError for one that the scale was not made for."""
        return self._at[position]

    def ticks(self, wanted: int = 5) -> tuple[list[int], list[str]]:
        """Up to ``wanted`` places spread over the axis, each the place of a true position, and those positions as
        text."""
        if not self._sorted:
            return [], []
        places = [self._at[p] for p in self._sorted]
        picked: dict[int, str] = {}
        least_apart = self.span / (2 * wanted)
        for step in range(wanted):
            target = self.span * (step + 0.5) / wanted  # none at the very edge, where its label would be cut
            index = min(bisect_left(places, target), len(places) - 1)
            if index and target - places[index - 1] < places[index] - target:
                index -= 1
            if all(abs(places[index] - place) >= least_apart for place in picked):
                picked[places[index]] = self._sorted[index]
        return list(picked), list(picked.values())


def _is_even(numbers: list[int]) -> bool:
    """Do numbers rise, exactly in a browser too, without a jump that would be the greater part of their axis?"""
    steps = [right - left for left, right in pairwise(numbers)]
    span = numbers[-1] - numbers[0]
    widest = max(steps, default=0)
    return all(step > 0 for step in steps) and span < _EXACT and (widest < _JUMP or 2 * widest <= span)
