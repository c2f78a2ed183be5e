"""Parses many printed times to timestamps."""

from __future__ import annotations

import datetime as dt
import re
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import OptionError

__all__ = [
    "MICROSECONDS",
    "Zone",
    "from_iso",
    "moment",
    "moments",
    "offset_name",
    "parse_zone",
    "to_utc",
]


MICROSECONDS: Final = pa.timestamp("us", tz="UTC")
"""The type of moments: microseconds since 1970 in UTC."""

_FORM: Final = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?(Z|[+-]\d{2}:?\d{2})?$"
_TO_MICROSECONDS: Final = len("2025-03-23T08:00:00.000000")
_ONE: Final = re.compile(_FORM.removesuffix("$") + r"\Z", re.ASCII)


def moments(texts: pa.StringArray) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """ISO 8601 times (``T`` or blank, any number of digits, UTC without an offset) as timestamps, and a mask of invalid
    texts. Null for null, empty and invalid texts; digits after the microsecond are truncated."""
    empty = pc.fill_null(pc.equal(texts, ""), True)
    given = pc.if_else(empty, pa.scalar(None, pa.string()), texts)
    formed = pc.fill_null(pc.match_substring_regex(given, _FORM), False)
    formed = pc.and_not(formed, pc.fill_null(pc.starts_with(given, "0000"), False))  # there is no year 0
    chosen = pc.if_else(formed, given, pa.scalar(None, pa.string()))
    longest = pc.max(pc.binary_length(chosen)).as_py() or 0
    if longest > _TO_MICROSECONDS or pc.any(pc.match_substring(chosen, ",")).as_py():
        chosen = pc.replace_substring_regex(chosen, r"[.,](\d{1,6})\d*", r".\1")
    try:
        parsed = _parse(chosen)
    except (pa.ArrowInvalid, ValueError):
        parsed = pa.array([moment(text) for text in chosen.to_pylist()], MICROSECONDS)
    failed = pc.and_(pc.is_null(parsed), pc.is_valid(given)).to_numpy(zero_copy_only=False)
    return parsed, failed


def _parse(texts: pa.StringArray) -> pa.Array:
    zoned = pc.fill_null(pc.match_substring_regex(texts, r"(Z|[+-]\d{2}:?\d{2})$"), False)
    if pc.any(zoned).as_py():
        plain = pc.replace_substring_regex(texts, r"(\d{2}:\d{2}(:\d{2}(\.\d+)?)?)(Z|[+-]\d{2}:?\d{2})$", r"\1")
        if pc.all(pc.or_(pc.ends_with(texts, "Z"), pc.is_null(texts))).as_py():
            return pc.cast(plain, pa.timestamp("us")).cast(MICROSECONDS)
        raise ValueError("offsets differ")
    return pc.cast(texts, pa.timestamp("us")).cast(MICROSECONDS)


def moment(text: str | None) -> dt.datetime | None:
    """One such text, read like :func:`moments`; None if invalid."""
    if text is None or not _ONE.match(text):
        return None
    try:
        found = dt.datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return None


# --- zones ------------------------------------------------------------------------------------------------------------

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_MINUTE: Final = 60_000_000
_QUARTER: Final = 15 * _MINUTE
_FIXED: Final = re.compile(r"^(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?$", re.IGNORECASE)
_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_EARLIEST: Final = (datetime(1, 1, 3) - _EPOCH) // _MICROSECOND
_LATEST: Final = (datetime(9999, 12, 29) - _EPOCH) // _MICROSECOND

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
    if not _EARLIEST <= moment <= _LATEST:
        return 0, False
    local = _EPOCH + timedelta(microseconds=moment)
    first, second = (_utc_offset(local.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
    return first, first != second


def _utc_offset(moment: datetime) -> int:
    found: Any = moment.utcoffset()
    return int(found // _MICROSECOND)


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
