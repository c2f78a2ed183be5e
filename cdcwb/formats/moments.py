"""Parses many printed times to timestamps."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import OptionError
from cdcwb.formats.arrays import content_of
from cdcwb.formats.kernels import Bools, Ints, interpreted, kernel

MICROSECONDS: Final = pa.timestamp("us", tz="UTC")
"""The type of moments: microseconds since 1970 in UTC."""
EARLIEST: Final = -62_135_596_800_000_000
LATEST: Final = 253_402_300_799_999_999
"""The first microsecond of the year 1, and the last one of the year 9999."""

_SHORTEST: Final = len("2025-03-23T08:00")
DAY: Final = 86_400_000_000
"""Microseconds."""
_FIRST, _END = (DAY * (day - date(1970, 1, 1).toordinal()) for day in (1, date.max.toordinal() + 1))
IS_TIME, _WRONG, HAS_T, HAS_ZONE = 1, 2, 4, 8
NO_DAY: Final = -(1 << 40)
"""No number of a day."""


def moments(texts: pa.StringArray) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """ISO 8601 times (``T`` or blank, any number of digits, UTC without an offset) as timestamps, and a mask of invalid
    texts. Null for null, empty and invalid texts; digits after the microsecond are truncated."""
    us, state = iso_times(texts)
    return pa.array(us, MICROSECONDS, mask=state & IS_TIME == 0), state == _WRONG


def iso_times(texts: pa.StringArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]:
    """The microseconds of such times, and what each is: bits IS_TIME, HAS_T and HAS_ZONE; 0 where there is no text."""
    us, state = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.int8)
    _read(*content_of(texts), us, state)
    if texts.null_count:
        state[pc.is_null(texts).to_numpy(zero_copy_only=False)] = 0
    return us, state


@kernel
def digits_at(b: Any, at: Any, count: Any) -> Any:
    """The number of so many digits at this offset; -1 if other bytes are among them."""
    number = np.int64(0)
    for step in range(count):
        if b[at + step] < 48 or b[at + step] > 57:
            return np.int64(-1)
        number = number * 10 + np.int64(b[at + step]) - 48
    return number


@kernel
def days_of(year: Any, month: Any, day: Any) -> Any:
    """The days since 1970 of a date, NO_DAY if there is no such day or its year is below 1."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    last = 31 - (month - 1) % 7 % 2 if month != 2 else 29 if leap else 28
    if year < 1 or month < 1 or month > 12 or day < 1 or day > last:
        return np.int64(NO_DAY)
    march = (month + 9) % 12
    year -= month <= 2
    return year * 365 + year // 4 - year // 100 + year // 400 + (153 * march + 2) // 5 + day - 719_469


@kernel
def micros_of_day(hour: Any, minute: Any, second: Any) -> Any:
    """The microseconds since midnight; -1 if there is no such time."""
    valid = 0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60
    return ((hour * 60 + minute) * 60 + second) * 1_000_000 if valid else np.int64(-1)


@kernel
def _read(b: Any, offsets: Any, us: Any, state: Any) -> None:
    for row in range(len(us)):
        at, stop = offsets[row], offsets[row + 1]
        if at == stop:
            continue
        state[row] = _WRONG
        if stop - at < _SHORTEST or b[at + 4] != 45 or b[at + 7] != 45 or b[at + 13] != 58:
            continue
        if b[at + 10] != 84 and b[at + 10] != 32:
            continue
        kind = IS_TIME | (HAS_T if b[at + 10] == 84 else 0)
        day = days_of(digits_at(b, at, 4), digits_at(b, at + 5, 2), digits_at(b, at + 8, 2))
        hour, minute, second, more = digits_at(b, at + 11, 2), digits_at(b, at + 14, 2), np.int64(0), np.int64(0)
        at += _SHORTEST
        if at + 3 <= stop and b[at] == 58:
            second = digits_at(b, at + 1, 2)
            at += 3
            if at + 1 < stop and (b[at] == 46 or b[at] == 44) and 48 <= b[at + 1] <= 57:
                at += 1
                unit = np.int64(100_000)
                while at < stop and 48 <= b[at] <= 57:
                    more += unit * (np.int64(b[at]) - 48)
                    unit //= 10
                    at += 1
        zone, sign = np.int64(0), np.int64(1)
        if at < stop:
            kind |= HAS_ZONE
        if at + 1 == stop and b[at] == 90:
            at += 1
        elif at + 5 <= stop and (b[at] == 43 or b[at] == 45):
            sign = np.int64(44) - np.int64(b[at])
            colon = 1 if b[at + 3] == 58 else 0
            if at + 5 + colon == stop:
                hours, minutes = digits_at(b, at + 1, 2), digits_at(b, at + 3 + colon, 2)
                zone = hours * 60 + minutes if hours >= 0 and 0 <= minutes < 60 else np.int64(1440)
                at = stop
        clock = micros_of_day(hour, minute, second)
        if at != stop or day == NO_DAY or clock < 0 or zone >= 1440:
            continue
        found = day * DAY + clock + more - sign * zone * 60_000_000
        if _FIRST <= found < _END:
            us[row], state[row] = found, kind


def moment(text: str | None) -> datetime | None:
    """One such text, read like :func:`moments`; None if invalid."""
    with interpreted():
        found: datetime | None = moments(pa.array([text], pa.string()))[0][0].as_py()
    return found and found.astimezone(UTC)


# --- zones ------------------------------------------------------------------------------------------------------------


_MINUTE: Final = 60_000_000
_QUARTER: Final = 15 * _MINUTE
_FIXED: Final = re.compile(r"^(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?$", re.IGNORECASE)
_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)

Zone = ZoneInfo | timedelta
"""A time zone: of a region, or a fixed offset."""


def parse_zone(text: str) -> Zone:
    """An IANA name (Europe/Berlin, UTC) or an offset (+08:00, -0330). Raises OptionError."""
    fixed = _FIXED.match(text.strip())
    if fixed is not None:
        minutes = int(fixed[2]) * 60 + int(fixed[3] or 0)
        if minutes > 26 * 60 or int(fixed[3] or 0) > 59:
            raise OptionError(f"option time_zone: {text!r} is not the offset of any zone")
        return timedelta(minutes=-minutes if fixed[1] == "-" else minutes)
    try:
        return ZoneInfo(text.strip())
    except (KeyError, ValueError, OSError):
        raise OptionError(
            f"option time_zone: expected an IANA name such as Europe/Berlin or an offset such as +08:00, found {text!r}"
        ) from None


def to_utc(moment: Ints, zone: Zone) -> tuple[Ints, Bools]:
    """Printed times as UTC, and a mask of times that are ambiguous or do not exist in the zone (when clocks change).
    The earlier of two is used."""
    if isinstance(zone, timedelta):
        return moment - zone // _MICROSECOND, np.zeros(len(moment), dtype=np.bool_)
    quarters, which = np.unique(moment // _QUARTER, return_inverse=True)
    offsets = np.empty(len(quarters), dtype=np.int64)
    doubtful = np.zeros(len(quarters), dtype=np.bool_)
    for at, quarter in enumerate(quarters.tolist()):
        offsets[at], doubtful[at] = _offset(quarter * _QUARTER, zone)
    which = which.reshape(-1)
    return moment - offsets[which], doubtful[which]


def _offset(moment: int, zone: ZoneInfo) -> tuple[int, bool]:
    """The offset in force at a local time, and whether it is ambiguous or missing."""
    if not EARLIEST <= moment <= LATEST:
        return 0, False
    local = _EPOCH + timedelta(microseconds=moment)
    both: list[Any] = [local.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1)]
    return int(both[0] // _MICROSECOND), both[0] != both[1]


def in_utc(us: Ints, state: npt.NDArray[np.int8], zone: Zone) -> Bools:
    """Converts the times of :func:`iso_times` that have no zone of their own; a mask of those that are ambiguous or do
    not exist in the zone. One that leaves the calendar is invalid."""
    doubtful, bare = np.zeros(len(us), dtype=np.bool_), np.flatnonzero(state & (IS_TIME | HAS_ZONE) == IS_TIME)
    us[bare], doubtful[bare] = to_utc(us[bare], zone)
    left = (us < EARLIEST) | (us > LATEST)
    state[left] = _WRONG
    return doubtful & ~left


def offset_name(offset: int) -> str:
    """``+09:00`` for an offset in microseconds."""
    minutes = abs(offset) // _MINUTE
    return f"{'-' if offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def from_iso(text: str | None) -> int | None:
    """A UTC time in ISO 8601 as microseconds; None if invalid."""
    try:
        return None if text is None else (datetime.fromisoformat(text).replace(tzinfo=None) - _EPOCH) // _MICROSECOND
    except ValueError:
        return None


# --- change sequences (Qlik) ------------------------------------------------------------------------------------------

SEQUENCE: Final = 35
"""Digits of a change sequence: 16 of time (YYYYMMDDHHmmSShh) and 19 of a number (docs/formats/qlik-kafka.md §5)."""
_OF_TIME: Final = 16

UNKNOWN_UNTIL: Final = datetime(1970, 1, 2, tzinfo=UTC)
"""Earlier times are PostgreSQL's default, used until the commit is known: not the time of a change."""


def sequence_times(sequences: pa.StringArray) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """The times at the start of change sequences (UTC, hundredths of a second), and a mask of invalid texts. Null for
    null and invalid texts."""
    us, valid = np.zeros(len(sequences), np.int64), np.zeros(len(sequences), np.bool_)
    _read_sequences(*content_of(sequences), us, valid)
    null = pc.is_null(sequences).to_numpy(zero_copy_only=False)
    return pa.array(us, MICROSECONDS, mask=~valid | null), ~valid & ~null


@kernel
def _read_sequences(b: Any, offsets: Any, us: Any, valid: Any) -> None:
    for row in range(len(us)):
        at = offsets[row]
        if offsets[row + 1] - at != SEQUENCE:
            continue
        plain = True
        for step in range(_OF_TIME, SEQUENCE):
            plain &= 48 <= b[at + step] <= 57
        day = days_of(digits_at(b, at, 4), digits_at(b, at + 4, 2), digits_at(b, at + 6, 2))
        clock = micros_of_day(digits_at(b, at + 8, 2), digits_at(b, at + 10, 2), digits_at(b, at + 12, 2))
        hundredth = digits_at(b, at + 14, 2)
        if plain and day != NO_DAY and clock >= 0 and hundredth >= 0:
            us[row], valid[row] = day * DAY + clock + hundredth * 10_000, True
