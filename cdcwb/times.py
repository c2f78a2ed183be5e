"""Times: reading ISO 8601, microseconds since 1970 UTC, and the range of times that an axis shows, so that one event in
the far future does not squeeze all others.

An axis shows the bulk of the times: the interquartile range, extended on either side by :data:`REACH` times its
length. Times beyond that are outside, provided that the axis is then at most :data:`SQUEEZED` of its length with all
times, and that all times span more than :data:`LEAST`. Times outside are still drawn and counted; the page gives their
number, and a double click on the chart shows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import numpy.typing as npt

from cdcwb.words import local, moment, plural

REACH: Final = 10
SQUEEZED: Final = 1 / 20
LEAST: Final = timedelta(days=1)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_SECOND: Final = 1_000_000
_MONDAY: Final = datetime(1970, 1, 5)
_WIDTHS: Final = tuple(
    [n * 10**e for e in range(6) for n in (1, 2, 5)]
    + [n * _SECOND for n in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)]
    + [n * 86_400 * _SECOND for n in (1, 2, 7, 14, 28, 91, 182, 365, 3650, 36500)]
)

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The range of an axis, from ``first`` to ``last``, and the numbers of times ``before`` and ``after`` it."""

    first: datetime
    last: datetime
    before: int = 0
    after: int = 0

    @property
    def outside(self) -> int:
        """The number of times outside the axis."""
        return self.before + self.after

    def bins(self, most: int, least_us: int = 1) -> tuple[int, int]:
        """The begin (microseconds since 1970 UTC) and the width (microseconds) of at most ``most`` bins that cover the
        axis.

        The width is round and at least ``least_us``. Bins begin at round
        times of the page's zone: bins of 5 min at a multiple of 5 min, of days at midnight, of weeks on a Monday."""
        first, extent = micros(self.first), micros(self.last) - micros(self.first)
        fits = (width for width in _WIDTHS if width >= least_us and extent < width * (most - 1))
        width = next(fits, None) or extent // (most - 1) + 1
        start = first - (local(self.first) - _MONDAY) // _MICROSECOND % width
        return max(start, _FIRST), width

    def note(self, what: str) -> str:
        """A note with the numbers of ``what`` (such as ``change``) outside the axis; empty if there are none."""
        parts = [f"{plural(self.before, what)} before {moment(self.first)}"] if self.before else []
        parts += [f"{plural(self.after, what)} after {moment(self.last)}"] if self.after else []
        if not parts:
            return ""
        return f"Outside the axis: {' and '.join(parts)}. Double-click the chart to see all times."


def fences(lower: int, upper: int, least: int, most: int) -> tuple[int, int] | None:
    """The limits of the bulk of the times, in microseconds, from the quartiles ``lower`` and ``upper`` and the
    ``least`` and ``most`` of all times. None if no time is outside."""
    reach = REACH * max(upper - lower, _SECOND)
    low, high = lower - reach, upper + reach
    if most - least <= LEAST // _MICROSECOND or (low <= least and high >= most):
        return None
    return (low, high) if min(high, most) - max(low, least) <= (most - least) * SQUEEZED else None


def axis_of(times: Sequence[int] | Ints) -> TimeAxis | None:
    """The axis for times in microseconds since 1970 UTC, in any order; None if there are no times."""
    at = np.asarray(times, np.int64)
    if not len(at):
        return None
    quartiles = [(len(at) + 3) // 4 - 1, (3 * len(at) + 3) // 4 - 1]
    lower, upper = np.partition(at, quartiles)[quartiles].tolist()
    limits = fences(lower, upper, int(at.min()), int(at.max()))
    if limits is None:
        return TimeAxis(time_of(at.min()), time_of(at.max()))
    before, after = at < limits[0], at > limits[1]
    inside = at[~(before | after)]
    return TimeAxis(time_of(inside.min()), time_of(inside.max()), int(before.sum()), int(after.sum()))


def parse_time(value: str | datetime) -> datetime:
    """A time of ISO 8601 in UTC; one without a zone is UTC, a date is its midnight. Raises ValueError."""
    time = value if isinstance(value, datetime) else datetime.fromisoformat(value.strip())
    try:
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except OverflowError as reason:
        raise ValueError(str(reason)) from None


def micros(time: datetime) -> int:
    """Microseconds since 1970 UTC of an aware time."""
    return (time - _EPOCH) // _MICROSECOND


_FIRST = micros(datetime.min.replace(tzinfo=UTC))
_LAST = micros(datetime.max.replace(tzinfo=UTC))


def time_of(micros_: int) -> datetime:
    """The time that is so many microseconds after 1970 UTC; the first or the last of all beyond these."""
    return _EPOCH + min(max(int(micros_), _FIRST), _LAST) * _MICROSECOND


def later(time: datetime, by: timedelta) -> datetime:
    """The time that is later by a span (earlier if that is negative), as :func:`time_of` gives it."""
    return time_of(micros(time) + by // _MICROSECOND)
