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

from cdcwb.words import moment, plural

__all__ = ["LEAST", "REACH", "SQUEEZED", "TimeAxis", "axis_of", "fences"]

REACH: Final = 10
SQUEEZED: Final = 1 / 20
LEAST: Final = timedelta(days=1)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_SECOND: Final = 1_000_000


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


def axis_of(times: Sequence[datetime]) -> TimeAxis | None:
    """The axis for some times, in any order; None where there are none."""
    if not times:
        return None
    ordered = sorted((time - _EPOCH) // _MICROSECOND for time in times)
    rank = len(ordered) + 3
    found = fences(ordered[rank // 4 - 1], ordered[(3 * len(ordered) + 3) // 4 - 1], ordered[0], ordered[-1])
    low, high = (ordered[0], ordered[-1]) if found is None else found
    inside = [time for time in ordered if low <= time <= high]
    before, after = sum(time < low for time in ordered), sum(time > high for time in ordered)
    return TimeAxis(_EPOCH + inside[0] * _MICROSECOND, _EPOCH + inside[-1] * _MICROSECOND, before, after)
