"""One printed time of the event log by regular expressions: the reference that the reader is compared with
(docs/formats/idm-event-log.md §1.4)."""

from __future__ import annotations

import re
from datetime import date
from typing import Final, NamedTuple

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ZONE: Final = r"(?P<zone>\s*(?:Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?))?"
_NUMERIC: Final = re.compile(
    rf"(\d{{4}})-(\d\d)-(\d\d)(?:(?P<part>[T ])(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?{_ZONE})?",
    re.ASCII | re.IGNORECASE,
)
_DB2_FORM: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)-(\d\d)\.(\d\d)\.(\d\d)(?:[.,](\d+))?", re.ASCII)
_SYBASE_FORM: Final = re.compile(
    r"([A-Z]{3}) +(\d{1,2}),? +(\d{4})"
    r"(?: +(\d{1,2}):(\d\d)(?::(\d\d)(?:(?P<sign>[:.])(\d+))?)? ?(?P<half>[AP]M)?)?",
    re.ASCII | re.IGNORECASE,
)
_ORACLE_FORM: Final = re.compile(
    r"(\d{1,2})-([A-Z]{3})-(\d{4}|\d\d)"
    rf"(?:[ :T](\d{{1,2}})[.:](\d\d)[.:](\d\d)(?:[.,](\d+))?(?: ?(?P<half>[AP]M))?{_ZONE})?",
    re.ASCII | re.IGNORECASE,
)
_EPOCH: Final = date(1970, 1, 1).toordinal()
_SECOND: Final = 1_000_000
_DAY: Final = 86_400 * _SECOND


class Printed(NamedTuple):
    """One printed time: microseconds since 1970 as if in UTC, and the offset that it bears (microseconds; None:
    none)."""

    local: int
    offset: int | None


def read_time(text: str) -> Printed | None:
    """One printed time; None for a text that is none. Blanks around it do not matter."""
    bare = text.strip(" \t")
    match = _NUMERIC.fullmatch(bare)
    if match is not None:
        year, month, day, _, hour, minute, second, fraction, zone = match.groups()
        return _made((year, month, day, hour, minute, second), fraction, zone)
    match = _DB2_FORM.fullmatch(bare)
    if match is not None:
        return _made(match.groups()[:6], match[7], None)
    match = _SYBASE_FORM.fullmatch(bare)
    if match is not None:
        fraction = match[8]
        if match["sign"] == ":" and fraction is not None:
            fraction = fraction.rjust(3, "0") if len(fraction) <= 3 else None
        parts = (match[3], _month(match[1]), match[2], _hour(match[4], match["half"]), match[5], match[6])
        return _made(parts, fraction, None)
    match = _ORACLE_FORM.fullmatch(bare)
    if match is not None:
        year = match[3] if len(match[3]) == 4 else f"{20 if int(match[3]) < 50 else 19}{match[3]}"
        parts = (year, _month(match[2]), match[1], _hour(match[4], match["half"]), match[5], match[6])
        return _made(parts, match[7], match["zone"])
    return None


def _month(name: str) -> str:
    lower = name.lower()
    return str(_MONTHS.index(lower) + 1) if lower in _MONTHS else "0"


def _hour(hour: str | None, half: str | None) -> str | None:
    """The hour of 24; 99 for one that a clock of 12 hours does not have."""
    if hour is None or half is None:
        return hour
    if not 1 <= int(hour) <= 12:
        return "99"
    return str(int(hour) % 12 + (12 if half.upper() == "PM" else 0))


def _made(parts: tuple[str | None, ...], fraction: str | None, zone: str | None) -> Printed | None:
    year, month, day, hour, minute, second = (int(part or 0) for part in parts)
    try:
        days = date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        return None
    if hour > 23 or minute > 59 or second > 59:
        return None
    offset = None if zone is None else _offset(zone)
    if zone is not None and offset is None:
        return None
    micros = int((fraction or "0")[:6].ljust(6, "0"))
    return Printed(days * _DAY + (hour * 3600 + minute * 60 + second) * _SECOND + micros, offset)


def _offset(zone: str) -> int | None:
    """An offset in microseconds; None where no zone has it."""
    text = zone.strip()
    if text[0] not in "+-":
        return 0
    hours, minutes = int(text[1:3]), int(text[-2:]) if len(text) > 3 else 0
    if hours > 23 or minutes > 59:
        return None
    return (hours * 60 + minutes) * 60 * _SECOND * (-1 if text[0] == "-" else 1)
