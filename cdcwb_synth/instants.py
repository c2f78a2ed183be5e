"""Times as numbers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["EPOCH", "microseconds"]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""From when microseconds count."""

_MICROSECOND: Final = timedelta(microseconds=1)


def microseconds(at: datetime) -> int:
    """A time as microseconds since 1970."""
    return (at - EPOCH) // _MICROSECOND
