"""Text columns as the bytes they lie in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays.texts import as_text, bytes_of, slices
from cdcwb.formats.zones import Zone, parse_zone, to_utc

__all__ = [
    "FORMS",
    "Bools",
    "Bytes",
    "Ints",
    "Printed",
    "Times",
    "distinct",
    "laid",
    "parse_times",
    "ranges",
    "read_time",
    "rows_of",
    "zone_of",
]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def laid(texts: pa.StringArray) -> tuple[Bytes, Ints]:
    """The UTF-8 bytes of the texts one behind the other, and where each begins, with the end as one more place. A null
    has no bytes."""
    given = pc.fill_null(texts, "") if texts.null_count else texts
    count = len(given)
    data = given.buffers()[2]
    if not count or data is None:
        return np.empty(0, np.uint8), np.zeros(count + 1, np.int64)
    offsets = np.frombuffer(given.buffers()[1], np.int32)[given.offset : given.offset + count + 1].astype(np.int64)
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]], offsets - offsets[0]


def rows_of(places: Ints, offsets: Ints) -> Ints:
    """The text in which each place of the bytes lies."""
    found: Ints = np.searchsorted(offsets[1:], places, side="right")
    return found


def ranges(first: Ints, counts: Ints) -> Ints:
    """``first[0], first[0] + 1, …`` (``counts[0]`` of them), ``first[1], …``, one behind the other."""
    ends = np.cumsum(counts)
    found: Ints = np.repeat(first - (ends - counts), counts) + np.arange(int(ends[-1]) if len(ends) else 0)
    return found


def distinct(texts: pa.StringArray) -> tuple[list[str], Ints]:
    """The different texts, and for each text which of them it is; there must be no null."""
    encoded = texts.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


FORMS: Final = ("odbc", "iso", "db2", "sybase", "oracle")
"""``yyyy-mm-dd hh:mm:ss[.f…]``; the same with ``T`` or a zone; ``yyyy-mm-dd-hh.mm.ss[.f…]``;
``Mon dd yyyy hh:mm:ss:mmmAM``; ``DD-MON-RR HH.MI.SS.FF AM``."""

_ODBC, _ISO, _DB2, _SYBASE, _ORACLE = range(len(FORMS))
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ZONE: Final = r"(?P<zone>\s*(?:Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?))?"
_NUMERIC: Final = re.compile(
    rf"(\d{{4}})-(\d\d)-(\d\d)(?:(?P<part>[T ])(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{{1,12}}))?)?{_ZONE})?",
    re.ASCII | re.IGNORECASE,
)
_DB2_FORM: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)-(\d\d)\.(\d\d)\.(\d\d)(?:[.,](\d{1,12}))?", re.ASCII)
_SYBASE_FORM: Final = re.compile(
    r"([A-Z]{3}) +(\d{1,2}),? +(\d{4})"
    r"(?: +(\d{1,2}):(\d\d)(?::(\d\d)(?:(?P<sign>[:.])(\d{1,9}))?)? ?(?P<half>[AP]M)?)?",
    re.ASCII | re.IGNORECASE,
)
_ORACLE_FORM: Final = re.compile(
    r"(\d{1,2})-([A-Z]{3})-(\d{4}|\d\d)"
    rf"(?:[ :T](\d{{1,2}})[.:](\d\d)[.:](\d\d)(?:[.,](\d{{1,12}}))?(?: ?(?P<half>[AP]M))?{_ZONE})?",
    re.ASCII | re.IGNORECASE,
)
_EPOCH: Final = date(1970, 1, 1).toordinal()
_SECOND: Final = 1_000_000
_DAY: Final = 86_400 * _SECOND
_EARLIEST: Final = (1 - _EPOCH) * _DAY
_LATEST: Final = (date.max.toordinal() - _EPOCH + 1) * _DAY - 1
_PLAIN: Final = len("yyyy-mm-dd hh:mm:ss")
_DIGITS: Final = [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18]
_MOST: Final = 12


class Printed(NamedTuple):
    """One printed time: microseconds since 1970 as if in UTC, the place of its form in FORMS, and the offset that it
    bears (microseconds; None: none)."""

    local: int
    form: int
    offset: int | None


@dataclass(frozen=True, slots=True)
class Times:
    """The times of many rows. ``us``: microseconds since 1970 in UTC, null where the text is NULL or no time. ``form``:
    the place of each one's form in FORMS, -1 where there is none. ``doubtful``: times that the zone has twice or not at
    all; the earlier one is used."""

    us: pa.Int64Array
    form: npt.NDArray[np.int8]
    doubtful: Bools

    def counts(self) -> dict[str, int]:
        """How many rows are of each form, where there are any."""
        numbers = np.bincount(self.form[self.form >= 0], minlength=len(FORMS)).tolist()
        return {form: number for form, number in zip(FORMS, numbers, strict=True) if number}


@lru_cache(maxsize=64)
def zone_of(zone: str | Zone | None) -> Zone:
    """A zone by its name or offset; UTC for None. Raises OptionError."""
    if zone is None or (isinstance(zone, str) and zone.upper() in ("UTC", "Z", "GMT")):
        return timedelta(0)
    return parse_zone(zone) if isinstance(zone, str) else zone


def parse_times(texts: pa.StringArray, zone: str | Zone | None = None) -> Times:
    """The moments of printed times, which are in ``zone`` (UTC if None) unless they bear an offset themselves."""
    given = pc.is_valid(texts).to_numpy(zero_copy_only=False)
    local, form, behind = _placed(texts, given)
    offset = np.zeros(len(texts), np.int64)
    bears = np.zeros(len(texts), np.bool_)
    _suffixes(behind, local, form, offset, bears)
    rest = np.flatnonzero(given & (form < 0))
    if len(rest):
        different, which = distinct(texts.take(pa.array(rest)))
        read = [read_time(text) for text in different]
        found = np.array([(-1, 0, 0, 0) if one is None else (one.form, *_flat(one)) for one in read], np.int64)[which]
        form[rest] = found[:, 0]
        local[rest], offset[rest], bears[rest] = found[:, 1], found[:, 2], found[:, 3] == 1
    utc = local - offset
    doubtful = np.zeros(len(texts), np.bool_)
    where = zone_of(zone)
    if where != timedelta(0):
        bare = np.flatnonzero((form >= 0) & ~bears)
        utc[bare], doubtful[bare] = to_utc(local[bare], where)
    form[(utc < _EARLIEST) | (utc > _LATEST)] = -1
    return Times(pa.array(utc, mask=form < 0), form, doubtful & (form >= 0))


def _flat(one: Printed) -> tuple[int, int, int]:
    return one.local, one.offset or 0, int(one.offset is not None)


# --- by places --------------------------------------------------------------------------------------------------------


class _Behind(NamedTuple):
    """What stands behind the digits of some rows: from ``start`` to ``stop`` of ``data``."""

    data: Bytes
    rows: Ints
    start: Ints
    stop: Ints


def _placed(texts: pa.StringArray, given: Bools) -> tuple[Ints, npt.NDArray[np.int8], _Behind]:
    """Times whose parts stand at the same places in all: their microseconds as if in UTC, their forms (-1: none such),
    and those behind which something stands."""
    data, offsets = laid(texts)
    local = np.zeros(len(texts), np.int64)
    form = np.full(len(texts), -1, np.int8)
    rows = np.flatnonzero(given & (np.diff(offsets) >= _PLAIN))
    start, stop = offsets[:-1][rows], offsets[1:][rows]
    lines = np.ascontiguousarray(bytes_of(data, start, _PLAIN).T)
    digits = lines[_DIGITS] - ord("0")
    part, sign = lines[10], np.where(lines[10] == ord("-"), ord("."), ord(":"))
    good = (digits <= 9).all(axis=0) & (lines[4] == ord("-")) & (lines[7] == ord("-"))
    good &= (part == ord(" ")) | (part == ord("T")) | (part == ord("-"))
    good &= (lines[13] == sign) & (lines[16] == sign)
    parts = digits.astype(np.int32)
    tens = [parts[at] * 10 + parts[at + 1] for at in range(0, len(_DIGITS), 2)]
    year, month, day, hour, minute, second = tens[0] * 100 + tens[1], *tens[2:]
    days, exists = _days(year, month, day)
    good &= exists & (hour < 24) & (minute < 60) & (second < 60)
    seconds = days * 86_400 + (hour * 3600 + minute * 60 + second)
    rows, start, stop, part, seconds = (one[good] for one in (rows, start, stop, part, seconds))
    micros, behind = _fractions(data, start + _PLAIN, stop)
    local[rows] = seconds * _SECOND + micros
    form[rows] = np.where(part == ord("-"), _DB2, np.where(part == ord("T"), _ISO, _ODBC))
    more = behind < stop
    return local, form, _Behind(data, rows[more], behind[more], stop[more])


def _days(year: npt.NDArray[np.int32], month: npt.NDArray[np.int32], day: npt.NDArray[np.int32]) -> tuple[Ints, Bools]:
    """Days since 1970, and which dates there are."""
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    known = np.clip(month, 1, 12)
    last = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])[known - 1] + (leap & (known == 2))
    exists = (year > 0) & (month == known) & (day >= 1) & (day <= last)
    shifted = year.astype(np.int64) - (known <= 2)
    from_march = (known + 9) % 12
    found = shifted * 365 + shifted // 4 - shifted // 100 + shifted // 400 + (153 * from_march + 2) // 5 + day - 719_469
    return found, exists


def _fractions(data: Bytes, at: Ints, stop: Ints) -> tuple[Ints, Ints]:
    """Microseconds of the fractions that begin at ``at``, and the places behind them (``at`` where none does)."""
    micros = np.zeros(len(at), np.int64)
    behind = at.copy()
    sign = data[np.minimum(at, len(data) - 1)] if len(data) else np.zeros(0, np.uint8)
    inside = np.flatnonzero((at < stop) & ((sign == ord(".")) | (sign == ord(","))))
    for place in range(1, _MOST + 1):
        inside = inside[at[inside] + place < stop[inside]]
        digit = data[at[inside] + place] - ord("0")
        inside, digit = inside[digit <= 9], digit[digit <= 9]
        if not len(inside):
            break
        if place <= 6:
            micros[inside] += digit.astype(np.int64) * 10 ** (6 - place)
        behind[inside] = at[inside] + place + 1
    return micros, behind


def _suffixes(behind: _Behind, local: Ints, form: npt.NDArray[np.int8], offset: Ints, bears: Bools) -> None:
    """Reads what stands behind the digits: an offset, or blanks; all else makes the text no time of these forms."""
    if not len(behind.rows):
        return
    endings, which = distinct(as_text(_binary_ascii(behind)))
    read = [_suffix(text) for text in endings]
    good = np.array([one is not None for one in read])[which]
    shown = np.array([one is not None and one[0] for one in read], np.bool_)[which]
    amount = np.array([0 if one is None else one[1] for one in read], np.int64)[which]
    rows = behind.rows
    good &= ~(shown & (form[rows] == _DB2))
    form[rows[~good]] = -1
    zoned = rows[good & shown]
    offset[zoned], bears[zoned] = amount[good & shown], True
    form[zoned] = _ISO


def _binary_ascii(behind: _Behind) -> pa.BinaryArray:
    """The endings, which may be anything; bytes that are no ASCII are shown as ``?``."""
    data = np.where(behind.data < 0x80, behind.data, ord("?")).astype(np.uint8)
    return slices(data, behind.start, behind.stop)


def _suffix(text: str) -> tuple[bool, int] | None:
    """Does an ending bear an offset, and which one (microseconds)? None: it is no ending of a time."""
    if not text.strip(" \t"):
        return False, 0
    match = re.fullmatch(_ZONE, text.rstrip(" \t"), re.ASCII | re.IGNORECASE)
    if match is None:
        return None
    found = _offset(match["zone"])
    return None if found is None else (True, found)


# --- one by one -------------------------------------------------------------------------------------------------------


def read_time(text: str) -> Printed | None:
    """One printed time; None for a text that is none. Blanks around it do not matter."""
    bare = text.strip(" \t")
    match = _NUMERIC.fullmatch(bare)
    if match is not None:
        year, month, day, _, hour, minute, second, fraction, zone = match.groups()
        form = _ISO if zone or (match["part"] or "").upper() == "T" else _ODBC
        return _made((year, month, day, hour, minute, second), fraction, form, zone)
    match = _DB2_FORM.fullmatch(bare)
    if match is not None:
        return _made(match.groups()[:6], match[7], _DB2, None)
    match = _SYBASE_FORM.fullmatch(bare)
    if match is not None:
        fraction = match[8]
        if match["sign"] == ":" and fraction is not None:
            fraction = fraction.rjust(3, "0") if len(fraction) <= 3 else None
        parts = (match[3], _month(match[1]), match[2], _hour(match[4], match["half"]), match[5], match[6])
        return _made(parts, fraction, _SYBASE, None)
    match = _ORACLE_FORM.fullmatch(bare)
    if match is not None:
        year = match[3] if len(match[3]) == 4 else f"{20 if int(match[3]) < 50 else 19}{match[3]}"
        parts = (year, _month(match[2]), match[1], _hour(match[4], match["half"]), match[5], match[6])
        return _made(parts, match[7], _ORACLE, match["zone"])
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


def _made(parts: tuple[str | None, ...], fraction: str | None, form: int, zone: str | None) -> Printed | None:
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
    return Printed(days * _DAY + (hour * 3600 + minute * 60 + second) * _SECOND + micros, form, offset)


def _offset(zone: str) -> int | None:
    """An offset in microseconds; None where no zone has it."""
    text = zone.strip()
    if text[0] not in "+-":
        return 0
    hours, minutes = int(text[1:3]), int(text[-2:]) if len(text) > 3 else 0
    if hours > 26 or minutes > 59:
        return None
    return (hours * 60 + minutes) * 60 * _SECOND * (-1 if text[0] == "-" else 1)
