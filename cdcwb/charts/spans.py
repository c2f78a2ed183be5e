"""Layout of transactions on an axis of time or of log positions."""

from __future__ import annotations

import heapq
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from cdcwb.model import Completeness, Outcome
from cdcwb.times import TimeAxis, axis_of, micros
from cdcwb.words import local


def assign_lanes(spans: Sequence[tuple[float, float]]) -> list[int]:
    """The lane of every span, from 0, so that spans of a lane do not overlap.

    Greedy by start, longer spans first, into the lowest free lane. The number of lanes is the largest number of
    concurrent spans, which is the minimum, in O(n log n). ``spans``: (start, end) in any order, end >= start; a span
    may start where another ends.
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


@dataclass(slots=True)
class Bar:
    """One transaction, or one version of a table, on one axis: ``start`` and ``end`` in units of that axis, the
    ``drawn`` width, its ``lane``, and ``marks``, which are pairs of kind and coordinate."""

    record: Record
    start: int
    end: int
    marks: list[tuple[str, int]] = field(default_factory=list)
    lane: int = 0
    drawn: float = 0.0
    hover: list[str] = field(default_factory=list)


def _bars(
    rows: Sequence[Record], names: tuple[str, str], at: Callable[[Any], int]
) -> Iterator[tuple[Bar, Any, Any, str | None]]:
    """A bar for each transaction with a begin or an end (``names``), both, and what the capture lacks of it."""
    for row in rows:
        first, last = (row[name] for name in names)
        if first is not None or last is not None:
            start = at(last if first is None else first)
            yield Bar(row, start, start if last is None else max(start, at(last))), first, last, lacks(row)


def on_time(rows: Sequence[Record], capture_end: datetime | None) -> list[Bar]:
    """Spans in microseconds since 1970. A transaction without times is left out."""
    known = [micros(t) for r in rows for t in (r["began_at"], r["ended_at"]) if t is not None]
    last = max(known, default=0) if capture_end is None else micros(capture_end)
    spans = []
    for span, began, ended, missing in _bars(rows, ("began_at", "ended_at"), micros):
        if began is None or missing == NO_BEGIN:
            span.marks.append((NO_BEGIN, span.start))
        if missing in (NO_END, EVENTS_MISSING):
            span.marks.append((missing, span.end if missing == NO_END else (span.start + span.end) // 2))
        if ended is None and span.record["outcome"] == Outcome.OPEN:
            span.end = max(span.start, last)
            span.marks.append((STILL_OPEN, span.end))
        elif ended is None and missing != NO_END:
            span.marks.append((NO_END_TIME, span.start))
        spans.append(span)
    return spans


def on_positions(rows: Sequence[Record], scale: PositionScale) -> list[Bar]:
    """Spans in units of the scale. A transaction without any position is left out."""
    spans = []
    for span, _, end, missing in _bars(rows, ("first_position", "end_position"), scale.at):
        if missing == NO_BEGIN:
            span.marks.append((NO_BEGIN, span.start))
        elif missing == EVENTS_MISSING:
            span.marks.append((EVENTS_MISSING, (span.start + span.end) // 2))
        if end is None and missing == NO_END:  # its end is unknown
            span.marks.append((NO_END, span.start))
        elif end is None:
            span.end = max(span.start, scale.span)
            span.marks.append((STILL_OPEN, span.end))
        spans.append(span)
    return spans


def lacks(row: Record) -> str | None:
    """What the capture lacks of a transaction that has ended or has no begin; None if it is complete. An open
    transaction without end has :data:`STILL_OPEN` instead."""
    if row["completeness"] == Completeness.NO_BEGIN:
        return NO_BEGIN
    if row["completeness"] == Completeness.GAPS:
        return EVENTS_MISSING
    if row["completeness"] == Completeness.NO_END and row["outcome"] != Outcome.OPEN:
        return NO_END
    return None


def least_share(number: int) -> float:
    """The minimum width of a bar as a share of its axis: large enough to be seen and clicked, smaller if there are many
    bars."""
    few, many = _LEAST_SHARES
    return max(many, min(few, 2 / max(1, number)))


def time_axis(bars: Sequence[Bar]) -> TimeAxis | None:
    """The axis for bars in microseconds since 1970; None without bars."""
    return axis_of([at for bar in bars for at in (bar.start, bar.end)])


def days(first: datetime, last: datetime) -> str:
    """The days of an axis: ``2026-02-03``, or ``2026-02-03 to 2026-02-04``."""
    begin, end = (local(time).date().isoformat() for time in (first, last))
    return begin if begin == end else f"{begin} to {end}"


def extent(bars: Sequence[Bar], axis: TimeAxis | None = None) -> int:
    """The length of an axis in its own units: that of all bars, or of the time ``axis``."""
    if axis is not None:
        return micros(axis.last) - micros(axis.first)
    return max((bar.end for bar in bars), default=0) - min((bar.start for bar in bars), default=0)


def lay_out(spans: list[Bar], least_span: int, axis: TimeAxis | None = None) -> tuple[int, int]:
    """Sets the drawn width and the lane of every span; returns the number of lanes, and the number of spans that are
    widened. ``axis``: the range of the time axis."""
    lanes = fit(spans, max(least_span, extent(spans, axis)) * least_share(len(spans)))
    return lanes, sum(s.drawn > s.end - s.start for s in spans)


def fit(bars: Sequence[Bar], least: float) -> int:
    """Sets the lane and the drawn width of every bar; returns the number of lanes.

    Lanes follow from the true extents: their number is the maximum of concurrent bars, where bars without extent at the
    same coordinate count as several. A bar is drawn at least ``least`` wide, unless the next bar of its lane is nearer.
    """
    lanes = assign_lanes([(bar.start, max(bar.end, bar.start + 1)) for bar in bars])
    following: dict[int, int] = {}  # start of the next bar in a lane
    for bar, lane in sorted(zip(bars, lanes, strict=True), key=lambda pair: pair[0].start, reverse=True):
        room = following.get(lane, math.inf) - bar.start
        bar.lane, bar.drawn = lane, max(bar.end - bar.start, min(least, room))
        following[lane] = bar.start
    return max(lanes, default=-1) + 1


def whole_seconds(spans: Sequence[Bar]) -> bool:
    """Whether no time has a fraction of a second."""
    times = [t for s in spans for t in (s.record["began_at"], s.record["ended_at"]) if t is not None]
    return all(time.microsecond == 0 for time in times)


# --- positions --------------------------------------------------------------------------------------------------------

_KINDS: Final = {"log": "[0-9A-F]{16}", "trail": "[0-9]{20}", "sequence": "[0-9]{35}"}
_SIZES: Final = {"log": (16, 1 << 32), "trail": (10, 10**10)}
"""The base of the digits of a position in bytes, and the distance of the first bytes of two logs."""
_TAIL: Final = 4  # digits of a number in a tick label
_TICKS: Final = 5


class PositionScale:
    """Maps log positions to coordinates of an axis.

    Positions of 16 hexadecimal digits are (number of the log) << 32 | (byte in that log) (``docs/formats/gbase8s.md
    §6``). Logs are far smaller than the 4 GiB between their numbers, so each log is as wide as the range of its bytes
    in use, and the next log follows after a small gap: a unit of the axis is a byte of log. The same applies to
    positions of 20 digits: ten for the number of a trail file and ten for the byte in it (``docs/formats/goldengate.md
    §9``).

    Other positions are placed in text order, which is log order, one unit apart; those of 35 digits are the time of a
    commit and the number of a change (``docs/formats/qlik-kafka.md §5.1``).

    ``positions``: all positions that are looked up later, in any order, possibly repeated; None is ignored.
    """

    def __init__(self, positions: Iterable[str | None]) -> None:
        self._sorted: list[str] = sorted({p for p in positions if p is not None})
        kinds = (kind for kind, form in _KINDS.items() if all(re.fullmatch(form, p) for p in self._sorted))
        self._kind = next(kinds, "") if self._sorted else ""
        self.in_bytes: bool = self._kind in _SIZES
        self.breaks: list[float] = []
        """The boundaries between logs, in the middle of the gap between them."""
        self._at = self._by_bytes(*_SIZES[self._kind]) if self.in_bytes else {p: n for n, p in enumerate(self._sorted)}

    def _by_bytes(self, base: int, size: int) -> dict[str, int]:
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

    @property
    def span(self) -> int:
        """The length of the axis; the lowest position is at 0."""
        return self._at[self._sorted[-1]] if self._sorted else 0

    @property
    def unit(self) -> str:
        """The unit of the axis, in words."""
        return f"bytes of {self._kind}" if self.in_bytes else "order in the log"

    @property
    def days(self) -> str:
        """The days in the positions, ``2026-02-03`` or ``2026-02-03 to 2026-02-04``; empty if positions have no
        days."""
        if self._kind != "sequence":
            return ""
        first, last = (f"{p[:4]}-{p[4:6]}-{p[6:8]}" for p in (self._sorted[0], self._sorted[-1]))
        return first if first == last else f"{first} to {last}"

    @property
    def log(self) -> str:
        """The names of the logs on both sides of a boundary."""
        return "trail file" if self._kind == "trail" else "log"

    def short(self, position: str) -> tuple[str, ...]:
        """A position as the lines of a tick's label: for 35 digits the time, ``08:00:13.22``, with month and day if
        there are several days, and the end of the number, ``…0017``; for 20 digits trail file and byte. Other positions
        are not shortened."""
        if self._kind == "trail":
            trail, byte = divmod(int(position), _SIZES["trail"][1])
            return f"trail {trail}", f"{byte:,}"
        if self._kind != "sequence":
            return (position,)
        day = f"{position[4:6]}-{position[6:8]} " if " " in self.days else ""
        time = f"{position[8:10]}:{position[10:12]}:{position[12:14]}.{position[14:16]}"
        return f"{day}{time}", f"…{position[-_TAIL:]}"

    def at(self, position: str) -> int:
        """The coordinate of ``position``. Raises KeyError for a position that was not passed to the constructor."""
        return self._at[position]

    def ticks(self) -> tuple[list[int], list[str]]:
        """A few ticks spread over the axis: coordinates of actual positions, and these positions as text."""
        if not self._sorted:
            return [], []
        places = [self._at[p] for p in self._sorted]
        picked: dict[int, str] = {}
        least_apart = self.span / (2 * _TICKS)
        for step in range(_TICKS):
            target = self.span * (step + 0.5) / _TICKS  # no tick at the edge, where its label would be cut off
            index = min(bisect_left(places, target), len(places) - 1)
            if index and target - places[index - 1] < places[index] - target:
                index -= 1
            if all(abs(places[index] - position) >= least_apart for position in picked):
                picked[places[index]] = self._sorted[index]
        return list(picked), list(picked.values())
