"""Which part of all times an axis shows: one event in the far future would squeeze all others into a column.

An axis shows the bulk of the times. From the middle half of them (between their first and third quartile) it reaches
out on either side by :data:`REACH` times the extent of that half. What is beyond that is outside, provided that the
axis is then at most :data:`SQUEEZED` of what it would be with all times, and that these span more than :data:`LEAST`.
Times outside are still drawn and counted; the page says how many they are, and a double click on the chart shows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import numpy.typing as npt

from cdcwb.words import local, moment, plural

__all__ = ["LEAST", "REACH", "SQUEEZED", "TimeAxis", "axis_of", "fences", "micros", "time_of"]

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
    """What an axis shows, from ``first`` to ``last``, and how many times are ``before`` and ``after`` it."""

    first: datetime
    last: datetime
    before: int = 0
    after: int = 0

    @property
    def outside(self) -> int:
        """How many times the axis does not show."""
        return self.before + self.after

    def bins(self, most: int, least_us: int = 1, whole_us: int = 1) -> tuple[int, int]:
        """Where at most so many bins that cover the axis begin, and their width, in microseconds (since 1970 UTC).

        The width is round, at least ``least_us``, and a multiple of ``whole_us``, as is the begin. They begin at round
        times of the page's zone: bins of 5 min at a multiple of 5 min, of days at midnight, of weeks on a Monday."""
        first, extent = micros(self.first), micros(self.last) - micros(self.first)
        fits = (
            width for width in _WIDTHS if width >= least_us and not width % whole_us and extent < width * (most - 1)
        )
        width = next(fits, None) or -(-(extent // (most - 1) + 1) // whole_us) * whole_us
        start = first - (local(self.first) - _MONDAY) // _MICROSECOND % width
        return max(start - start % whole_us, micros(datetime.min.replace(tzinfo=UTC))), width

    def note(self, what: str) -> str:
        """How many of ``what`` (such as ``change``) the axis does not show; empty where it shows all."""
        parts = [f"{plural(self.before, what)} before {moment(self.first)}"] if self.before else []
        parts += [f"{plural(self.after, what)} after {moment(self.last)}"] if self.after else []
        if not parts:
            return ""
        return f"Outside the axis: {' and '.join(parts)}. Double-click the chart to see all times."


def fences(lower: int, upper: int, least: int, most: int) -> tuple[int, int] | None:
    """From where to where times may be in the bulk, in microseconds: from their quartiles ``lower`` and ``upper``, and
    the ``least`` and the ``most`` of all. None where all of them are."""
    reach = REACH * max(upper - lower, _SECOND)
    low, high = lower - reach, upper + reach
    if most - least <= LEAST // _MICROSECOND or (low <= least and high >= most):
        return None
    return (low, high) if min(high, most) - max(low, least) <= (most - least) * SQUEEZED else None


def axis_of(times: Sequence[int] | Ints, weights: Ints | None = None) -> TimeAxis | None:
    """The axis for some times in microseconds since 1970 UTC, in any order, which count ``weights`` times each (None:
    once); None where there are none."""
    at = np.asarray(times, np.int64)
    if not len(at):
        return None
    places = [(len(at) + 3) // 4 - 1, (3 * len(at) + 3) // 4 - 1]
    lower, upper = np.partition(at, places)[places].tolist()
    found = fences(lower, upper, int(at.min()), int(at.max()))
    if found is None:
        return TimeAxis(time_of(at.min()), time_of(at.max()))
    before, after = at < found[0], at > found[1]
    inside = at[~(before | after)]
    outside = (int(np.sum(those if weights is None else weights[those])) for those in (before, after))
    return TimeAxis(time_of(inside.min()), time_of(inside.max()), *outside)


def micros(time: datetime) -> int:
    """Microseconds since 1970 UTC of an aware time."""
    return (time - _EPOCH) // _MICROSECOND


def time_of(micros_: int) -> datetime:
    """The time that is so many microseconds after 1970 UTC."""
    return _EPOCH + int(micros_) * _MICROSECOND
