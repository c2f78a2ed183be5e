"""What Replicate numbers: change sequences, positions in the source's log, transactions."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache

from cdcwb_synth.instants import EPOCH

__all__ = ["ChangeSequence", "Clock", "iso_milliseconds", "log_position", "transaction_id"]


@lru_cache(4096)
def _second(number: int) -> str:
    return (EPOCH + timedelta(seconds=number)).isoformat()[:19]


def iso_milliseconds(at: int) -> str:
    """A time in microseconds since 1970 as messages have it: ``2026-02-03T04:05:06.123``, no zone
    (``docs/formats/qlik-kafka.md §5.2``)."""
    second, rest = divmod(at, 1_000_000)
    return f"{_second(second)}.{rest // 1000:03d}"


def log_position(number: int) -> str:
    """The place of a change in the source's log, in the form of SQL Server."""
    return f"{0x1A4 + (number >> 24):08x}:{(number >> 8) & 0xFFFF:08x}:{number & 0xFF:04x}"


def transaction_id(ordinal: int) -> str:
    """A transaction's id: 128 bits as 32 hexadecimal digits."""
    return f"{0x120000 + ordinal:032X}"


class Clock:
    """The Replicate server's clock, which ``times`` times in a story of ``changes`` changes is set back ``seconds``."""

    def __init__(self, times: int, seconds: float, changes: int) -> None:
        self._due = [(number + 1) * changes // (times + 1) for number in range(times)]
        self._step = timedelta(seconds=seconds)
        self._behind = timedelta()

    def read(self, at: datetime, done: int) -> datetime:
        """What the clock shows ``at`` a time, when ``done`` changes have happened."""
        while self._due and self._due[0] <= done:
            del self._due[0]
            self._behind += self._step
        return at - self._behind


class ChangeSequence:
    """Change sequences (``docs/formats/qlik-kafka.md §5.1``): 16 digits of time, in hundredths of a second, which never
    falls, and 19 of a number that rises with every change of the task."""

    def __init__(self, start: datetime, number: int = 0) -> None:
        self._number = number
        self.time = EPOCH
        self.stamp(start)

    def stamp(self, shown: datetime) -> datetime:
        """Set the time to what the server's clock shows, unless that is earlier; returns the time in force."""
        if shown > self.time:
            self.time = shown.replace(microsecond=shown.microsecond // 10_000 * 10_000)
            self._digits = f"{self.time:%Y%m%d%H%M%S}{self.time.microsecond // 10_000:02d}"
        return self.time

    def take(self, steps: int = 1) -> str:
        """The next sequence; ``steps``: how many numbers it takes."""
        self._number += steps
        return f"{self._digits}{self._number:019d}"
