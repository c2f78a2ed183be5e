r"""Texts of a log as numbers, times and keys (docs/formats/idm-event-log.md §1.3, §2). Keys, ``table_key``:

    table key  = identifier {"+" identifier}
    identifier = column name "=" value

A value that has one of the nine special characters is in double quotes, in which ``\"`` and ``\\`` mean a quote and a
backslash. Where the vendor is silent: a name has none of the nine and is not blank; blanks belong to the name or value
next to them, so ``idu= 1`` is a key, of another object than ``idu=1``; a value without quotes has at least one
character, the empty text is ``""``; no column is in a key twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import as_text, content_of, slices
from cdcwb.formats.kernels import kernel
from cdcwb.formats.moments import DAY, NO_DAY, Zone, days_of, micros_of_day, parse_zone, to_utc

__all__ = [
    "BLANKS",
    "FORMS",
    "SPECIAL",
    "Bools",
    "Bytes",
    "EventTimes",
    "Ints",
    "KeyColumn",
    "TableKeyError",
    "bytes_of_texts",
    "escape_value",
    "numbers_of",
    "padded",
    "parse",
    "parse_column",
    "parse_times",
    "parts",
    "ranges",
    "same_objects",
    "xml_unfit",
]  # fmt: skip

Bytes: TypeAlias = npt.NDArray[np.uint8]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

FORMS: Final = ("odbc", "iso", "db2", "sybase", "oracle")
"""``yyyy-mm-dd hh:mm:ss[.f…]``; the same with ``T`` or a zone; ``yyyy-mm-dd-hh.mm.ss[.f…]``;
``Mon dd yyyy hh:mm:ss:mmmAM``; ``DD-MON-RR HH.MI.SS.FF AM``."""

_NAMES: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS: Final = tuple(int.from_bytes(name.encode(), "big") for name in _NAMES)
_EPOCH: Final = date(1970, 1, 1).toordinal()
_EARLIEST: Final = (1 - _EPOCH) * DAY
_LATEST: Final = (date.max.toordinal() - _EPOCH + 1) * DAY - 1


def bytes_of_texts(texts: pa.StringArray) -> tuple[Bytes, Ints]:
    """The UTF-8 bytes of all texts, and the offset of each, with the end as one more. A null has no bytes."""
    data, offsets = content_of(texts)
    if texts.null_count and np.diff(offsets)[pc.is_null(texts).to_numpy(zero_copy_only=False)].any():
        return content_of(pc.fill_null(texts, ""))
    return data, offsets


def ranges(first: Ints, counts: Ints) -> Ints:
    """``first[0], first[0] + 1, …`` (``counts[0]`` of them), then ``first[1], …``."""
    ends = np.cumsum(counts)
    found: Ints = np.repeat(first - (ends - counts), counts) + np.arange(int(ends[-1]) if len(ends) else 0)
    return found


# --- numbers and characters -------------------------------------------------------------------------------------------


def numbers_of(texts: pa.StringArray) -> pa.Int64Array:
    """Texts as whole numbers from 1 to 2^63 - 1, null for all else. Blanks around a number, leading zeros and a
    fraction of zeros (as decimal columns are printed) do not matter."""
    data, offsets = bytes_of_texts(texts)
    found = np.empty(len(texts), np.int64)
    _numbers(data, offsets, found)
    return pa.array(found, mask=found == 0)


@kernel
def _numbers(b: Bytes, offsets: Ints, found: Any) -> None:
    for row in range(len(found)):
        at, stop, number = offsets[row], offsets[row + 1], np.int64(0)
        while at < stop and (b[at] == 32 or b[at] == 9 or b[at] == 10 or b[at] == 12 or b[at] == 13):
            at += 1
        if at < stop and b[at] == 43:
            at += 1
        while at < stop and 48 <= b[at] <= 57:
            digit = np.int64(b[at]) - 48
            if number > 922337203685477580 or (number == 922337203685477580 and digit > 7):
                break
            number = number * 10 + digit
            at += 1
        if at < stop and b[at] == 46 and at > offsets[row] and 48 <= b[at - 1] <= 57:
            at += 1
            while at < stop and b[at] == 48:
                at += 1
        while at < stop and (b[at] == 32 or b[at] == 9 or b[at] == 10 or b[at] == 12 or b[at] == 13):
            at += 1
        found[row] = number if at == stop else 0


def xml_unfit(texts: pa.StringArray) -> Bools:
    """Rows with a character that XML 1.0 cannot hold: a control character but tab and line ends, U+FFFE or U+FFFF."""
    found, held = np.zeros(len(texts), np.bool_), texts.buffers()[2]
    every = np.frombuffer(held or b"", np.uint8)
    if len(every) and (every.min() < 32 or (every == 0xEF).any()):
        _unfit(*bytes_of_texts(texts), found)
    return found


@kernel
def _unfit(b: Bytes, offsets: Ints, found: Bools) -> None:
    for row in range(len(found)):
        for at in range(offsets[row], offsets[row + 1]):
            if b[at] < 32:
                if b[at] != 9 and b[at] != 10 and b[at] != 13:
                    found[row] = True
            elif b[at] == 0xEF and b[at + 1] == 0xBF and b[at + 2] >= 0xBE:
                found[row] = True


# --- times ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EventTimes:
    """The times of many rows. ``us``: microseconds since 1970 in UTC, null where the text is NULL or no time. ``form``:
    the index of each one's form in FORMS, -1 where there is none. ``doubtful``: times that the zone has twice or not at
    all; the earlier one is used."""

    us: pa.Int64Array
    form: npt.NDArray[np.int8]
    doubtful: Bools


@lru_cache(maxsize=64)
def _zone_of(zone: str | Zone | None) -> Zone:
    """A zone by its name or offset; UTC for None. Raises OptionError."""
    if zone is None or (isinstance(zone, str) and zone.upper() in ("UTC", "Z", "GMT")):
        return timedelta(0)
    return parse_zone(zone) if isinstance(zone, str) else zone


def parse_times(texts: pa.StringArray, zone: str | Zone | None = None) -> EventTimes:
    """The moments of printed times, which are in ``zone`` (UTC if None) unless they have an offset themselves."""
    count = len(texts)
    utc, form, zoned = np.zeros(count, np.int64), np.full(count, -1, np.int8), np.zeros(count, np.bool_)
    _times(*bytes_of_texts(texts), utc, form, zoned)
    doubtful = np.zeros(count, np.bool_)
    where = _zone_of(zone)
    if where != timedelta(0):
        bare = np.flatnonzero((form >= 0) & ~zoned)
        utc[bare], doubtful[bare] = to_utc(utc[bare], where)
    form[(utc < _EARLIEST) | (utc > _LATEST)] = -1
    return EventTimes(pa.array(utc, mask=form < 0), form, doubtful & (form >= 0))


@kernel
def _times(b: Bytes, offsets: Ints, utc: Ints, form: Any, zoned: Bools) -> None:
    """Reads each text as one of FORMS; ``utc`` is without the zone's offset where the text has none (not ``zoned``)."""
    for row in range(len(form)):
        at, stop = offsets[row], offsets[row + 1]
        while at < stop and (b[at] == 32 or b[at] == 9):
            at += 1
        while at < stop and (b[stop - 1] == 32 or b[stop - 1] == 9):
            stop -= 1
        kind, days, at = _date(b, at, stop)
        if kind < 0:
            continue
        if at == stop:
            utc[row], form[row] = days * DAY, kind
            continue
        hour, minute, second, micros, at = _clock(b, at, stop, kind)
        if at >= 0 and (kind == 3 or kind == 4):
            hour, at = _half_day(b, at, stop, hour)
        clock = micros_of_day(hour, minute, second)
        if at < 0 or clock < 0:
            continue
        local = days * DAY + clock + micros
        if at < stop and (kind == 2 or kind == 3):
            continue
        if at < stop:
            offset, at = _offset(b, at, stop)
            if at != stop:
                continue
            local -= offset * 60_000_000
            zoned[row] = True
            kind = 1 if kind == 0 else kind
        utc[row], form[row] = local, kind


@kernel
def _digits(b: Bytes, at: Any, stop: Any, least: Any, most: Any) -> Any:
    """The number that begins at ``at``, and where it ends; -1 where it has fewer than ``least`` digits."""
    number, end = np.int64(0), at
    while end < stop and end - at < most and 48 <= b[end] <= 57:
        number = number * 10 + np.int64(b[end]) - 48
        end += 1
    return number, end if end - at >= least else np.int64(-1)


@kernel
def _month(b: Bytes, at: Any, stop: Any) -> Any:
    """The month of an English name of three letters, 0 for none."""
    if at + 3 > stop:
        return np.int64(0)
    one, two, three = np.int64(b[at]) | 32, np.int64(b[at + 1]) | 32, np.int64(b[at + 2]) | 32
    name = (one << 16) | (two << 8) | three
    for month in range(12):
        if name == _MONTHS[month]:
            return np.int64(month + 1)
    return np.int64(0)


@kernel
def _date(b: Bytes, at: Any, stop: Any) -> Any:
    """The form that a date begins (the clock decides between ODBC, ISO 8601 and DB2), its days since 1970, and where it
    ends; form -1 for no date."""
    year, month, day, form, end = np.int64(0), np.int64(0), np.int64(0), np.int64(-1), np.int64(-1)
    if at < stop and b[at] >= 65:
        month = _month(b, at, stop)
        at += 3
        space = at
        while at < stop and b[at] == 32:
            at += 1
        if month == 0 or at == space:
            return form, day, end
        day, at = _digits(b, at, stop, 1, 2)
        if at >= 0 and at < stop and b[at] == 44:
            at += 1
        space = at
        while 0 <= at < stop and b[at] == 32:
            at += 1
        if at < 0 or at == space:
            return form, day, end
        year, end = _digits(b, at, stop, 4, 4)
        form = np.int64(3)
    else:
        year, behind = _digits(b, at, stop, 1, 4)
        if behind < 0 or behind >= stop or b[behind] != 45:
            return form, day, end
        if behind - at == 4:
            month, at = _digits(b, behind + 1, stop, 2, 2)
            if at < 0 or at >= stop or b[at] != 45:
                return form, day, end
            day, end = _digits(b, at + 1, stop, 2, 2)
            form = np.int64(0)
            if end >= 0 and end < stop:
                form = np.int64(1) if b[end] | 32 == 116 else np.int64(2) if b[end] == 45 else np.int64(0)
        elif behind - at <= 2:
            day, month, at = year, _month(b, behind + 1, stop), behind + 4
            if month == 0 or at >= stop or b[at] != 45:
                return form, day, end
            year, end = _digits(b, at + 1, stop, 2, 4)
            if end - at == 4:
                return form, day, end
            if end - at == 3:
                year += 2000 if year < 50 else 1900
            form = np.int64(4)
    found = days_of(year, month, day)
    return form if end >= 0 and found != NO_DAY else np.int64(-1), found, end


@kernel
def _clock(b: Bytes, at: Any, stop: Any, form: Any) -> Any:
    """Hour, minute, second, microseconds, and where they end (-1: this is no clock of that form)."""
    zero, none = np.int64(0), np.int64(-1)
    least, colon, dot = np.int64(2), 58, 58
    if b[at] != 32 and (form == 0 or form == 3 or (form == 4 and b[at] != 58 and b[at] | 32 != 116)):
        return zero, zero, zero, zero, none
    at += 1
    if form == 3:
        while at < stop and b[at] == 32:
            at += 1
    if form == 3 or form == 4:
        least = np.int64(1)
    if form == 2 or form == 4:
        dot = 46
    if form == 2:
        colon = 46
    hour, at = _digits(b, at, stop, least, 2)
    if at < 0 or at >= stop or (b[at] != colon and b[at] != dot):
        return zero, zero, zero, zero, none
    minute, at = _digits(b, at + 1, stop, 2, 2)
    if at < 0:
        return zero, zero, zero, zero, none
    if at >= stop or (b[at] != colon and b[at] != dot):
        return hour, minute, zero, zero, none if form == 2 or form == 4 else at
    second, at = _digits(b, at + 1, stop, 2, 2)
    if at < 0 or at >= stop:
        return hour, minute, second, zero, at
    sign = b[at]
    if sign != 46 and (form == 3 or sign != 44) and (form != 3 or sign != 58):
        return hour, minute, second, zero, at
    start = at + 1
    micros, end = _digits(b, start, stop, 1, 6)
    if end < 0:
        return zero, zero, zero, zero, none
    digits = end - start
    while end < stop and end - start < (9 if form == 3 else 12) and 48 <= b[end] <= 57:
        end += 1
    if sign == 58:  # thousandths of a second, without leading zeros
        return hour, minute, second, micros * 1000 if digits <= 3 else zero, end
    while digits < 6:
        micros *= 10
        digits += 1
    return hour, minute, second, micros, end


@kernel
def _half_day(b: Bytes, at: Any, stop: Any, hour: Any) -> Any:
    """The hour of 24 where AM or PM follows (99: a clock of 12 hours does not have it), and where that ends."""
    begin = at + 1 if at < stop and b[at] == 32 else at
    if begin + 2 > stop or b[begin + 1] | 32 != 109 or (b[begin] | 32 != 97 and b[begin] | 32 != 112):
        return hour, at
    if hour < 1 or hour > 12:
        return np.int64(99), begin + 2
    return hour % 12 + (12 if b[begin] | 32 == 112 else 0), begin + 2


@kernel
def _offset(b: Bytes, at: Any, stop: Any) -> Any:
    """The minutes of a zone's offset, and where it ends (-1: it is none)."""
    zero, none = np.int64(0), np.int64(-1)
    while at < stop and (b[at] == 32 or 9 <= b[at] <= 13):
        at += 1
    if at >= stop:
        return zero, none
    if b[at] | 32 == 122:
        return zero, at + 1
    if at + 3 <= stop:
        utc = b[at] | 32 == 117 and b[at + 1] | 32 == 116 and b[at + 2] | 32 == 99
        gmt = b[at] | 32 == 103 and b[at + 1] | 32 == 109 and b[at + 2] | 32 == 116
        if utc or gmt:
            return zero, at + 3
    sign = np.int64(b[at])
    if sign != 43 and sign != 45:
        return zero, none
    hours, at = _digits(b, at + 1, stop, 2, 2)
    if at < 0:
        return zero, none
    minutes = np.int64(0)
    if at < stop:
        minutes, at = _digits(b, at + 1 if b[at] == 58 else at, stop, 2, 2)
    if at < 0 or hours > 26 or minutes > 59:
        return zero, none
    return (hours * 60 + minutes) * (-1 if sign == 45 else 1), at


SPECIAL: Final = ",;'+\"=\\<>"
"""The characters that force quotes around a value (§2.2)."""

BLANKS: Final = " \t\r\n"

_IS_SPECIAL: Final = np.isin(np.arange(256), list(SPECIAL.encode()))
_IS_BLANK: Final = np.isin(np.arange(256), list(BLANKS.encode()))
_EXPECTED: Final = (
    "",
    "a column name",
    "=",
    "a column name",
    "a column that is not in the key yet",
    "a value, in double quotes if it has a special character",
    "+ or the end, because the value is not in double quotes,",
    "a double quote or \\ after \\",
    "a closing double quote",
    "+ or the end",
    "the end, because a key has at most 256 columns,",
)
_MOST_COLUMNS: Final = 256  # of a key; each is compared with those before it
_BLANK_NAME, _REPEATED_NAME = 3, 4
_ESCAPED: Final = r'\\(["\\])'


class TableKeyError(ValueError):
    """A text is not a table key: what was ``expected`` at character ``position`` (from 0) and what was ``found``."""

    def __init__(self, position: int, expected: str, found: str) -> None:
        super().__init__(position, expected, found)
        self.position = position
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return f"expected {self.expected} at character {self.position}, found {self.found}"


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """The keys of many rows. ``pairs``: the columns of each with their values, null where the key is NULL or none.
    ``errors``: what is wrong with a key, by row. ``padded``: keys with blanks around a name or a number."""

    pairs: pa.MapArray
    errors: dict[int, TableKeyError]
    padded: Bools


@dataclass(slots=True)
class _KeyIdentifiers:
    """Keys cut into their identifiers, one after the other. ``counts``: how many each row has, up to its error.
    ``spans``: where name and value begin and end, the value with its quotes. ``error``: 0, or an index of _EXPECTED,
    ``position``: its byte in the data. ``escaped``: values with escapes."""

    data: Bytes
    offsets: Ints
    counts: Ints
    spans: Ints
    escaped: Bools
    error: Ints
    position: Ints
    padded: Bools
    total: int = field(init=False)

    def __init__(self, keys: pa.StringArray) -> None:
        self.data, self.offsets = bytes_of_texts(keys)
        most, rows = int(np.count_nonzero(self.data == ord("="))), len(keys)
        self.counts, self.error, self.position = (np.zeros(rows, np.int64) for _ in range(3))
        self.spans, self.escaped, self.padded = (
            np.empty((4, most), np.int64),
            np.zeros(most, bool),
            np.zeros(rows, bool),
        )
        given = pc.is_valid(keys).to_numpy(zero_copy_only=False)
        names, name_ends, values, value_ends = self.spans
        self.total = int(
            _cut(
                self.data, self.offsets, given, _IS_SPECIAL, _IS_BLANK, names, name_ends, values, value_ends,
                self.escaped, self.counts, self.error, self.position, self.padded,
            )
        )  # fmt: skip

    def written(self) -> list[tuple[str, str]]:
        """All columns with their values as written, with quotes."""
        raw, spans = self.data.tobytes(), self.spans[:, : self.total].T.tolist()
        return [(raw[begin:end].decode(), raw[value:stop].decode()) for begin, end, value, stop in spans]

    def failure(self, row: int, text: str) -> TableKeyError | None:
        """What is wrong with a row, whose text is given."""
        code = int(self.error[row])
        if not code:
            return None
        raw = text.encode()
        at = len(raw[: self.position[row] - self.offsets[row]].decode(errors="replace"))
        found = repr(text[at]) if at < len(text) else "the end"
        if code == _BLANK_NAME:
            found = "blanks alone"
        elif code == _REPEATED_NAME:
            found = f"{text[at : text.index('=', at)]!r} again"
        return TableKeyError(at, _EXPECTED[code], found)


@kernel
def _cut(
    b: Bytes,
    offsets: Ints,
    given: Bools,
    special: Bools,
    blank: Bools,
    names: Ints,
    name_ends: Ints,
    values: Ints,
    value_ends: Ints,
    escaped: Bools,
    counts: Ints,
    errors: Ints,
    positions: Ints,
    padded: Bools,
) -> Any:
    """Cuts each row by the grammar; how many identifiers there are."""
    found = 0
    for row in range(len(counts)):
        first, at, stop = found, offsets[row], offsets[row + 1]
        error, position, more = 0, at, given[row]
        while more:
            equals = at
            while equals < stop and not special[b[equals]]:
                equals += 1
            begin, end = at, equals
            while begin < end and blank[b[begin]]:
                begin += 1
            while end > begin and blank[b[end - 1]]:
                end -= 1
            if equals == at:
                error, position = 1, at
            elif equals == stop or b[equals] != 61:
                error, position = 2, equals
            elif begin == end:
                error, position = 3, at
            elif found - first == _MOST_COLUMNS:
                error, position = 10, at
            for other in range(first, found):
                if error == 0 and name_ends[other] - names[other] == equals - at:
                    same = True
                    for step in range(equals - at):
                        same &= b[names[other] + step] == b[at + step]
                    if same:
                        error, position = 4, at
            if error:
                break
            value = behind = equals + 1
            inner, inner_end, escape = value, value, False
            if value < stop and b[value] == 34:
                behind += 1
                while behind < stop and b[behind] != 34:
                    if b[behind] == 92:
                        escape = True
                        if behind + 1 >= stop or (b[behind + 1] != 34 and b[behind + 1] != 92):
                            error, position = 7, behind + 1
                            break
                        behind += 1
                    behind += 1
                if error:
                    break
                inner, inner_end = value + 1, behind
                behind += 1
                if behind > stop:
                    error, position = 8, stop
                elif behind < stop and b[behind] != 43:
                    error, position = 9, behind
            else:
                while behind < stop and not special[b[behind]]:
                    behind += 1
                inner_end = behind
                if behind == value:
                    error, position = 5, behind
                elif behind < stop and b[behind] != 43:
                    error, position = 6, behind
            if error:
                break
            names[found], name_ends[found], values[found], value_ends[found] = at, equals, value, behind
            escaped[found] = escape
            found += 1
            if begin > at or end < equals or _padded_number(b, inner, inner_end, blank):
                padded[row] = True
            more = behind < stop
            at = behind + 1
        counts[row], errors[row], positions[row] = found - first, error, position
        if error:
            padded[row] = False
    return found


@kernel
def _padded_number(b: Bytes, at: Any, stop: Any, blank: Bools) -> Any:
    """Is this a number with blanks around it?"""
    begin, end = at, stop
    while begin < end and blank[b[begin]]:
        begin += 1
    while end > begin and blank[b[end - 1]]:
        end -= 1
    if begin == at and end == stop:
        return False
    if begin < end and (b[begin] == 43 or b[begin] == 45):
        begin += 1
    digits = 0
    while begin < end and 48 <= b[begin] <= 57:
        begin += 1
        digits += 1
    if digits and begin < end and b[begin] == 46:
        begin += 1
        while begin < end and 48 <= b[begin] <= 57:
            begin += 1
    return digits > 0 and begin == end


def parse_column(keys: pa.StringArray) -> KeyColumn:
    """The columns of each key with their values, quotes and escapes undone."""
    cut = _KeyIdentifiers(keys)
    broken = np.flatnonzero(cut.error)
    spans, escaped = cut.spans[:, : cut.total], cut.escaped[: cut.total]
    errors: dict[int, TableKeyError] = {}
    if len(broken):
        for row, text in zip(broken.tolist(), keys.take(pa.array(broken)).to_pylist(), strict=True):
            error = cut.failure(row, text)
            if error is not None:
                errors[row] = error
        fine = np.repeat(cut.error == 0, cut.counts)
        spans, escaped = spans[:, fine], escaped[fine]
        cut.counts[broken] = 0
    begin, end, value, stop = spans
    quoted = np.zeros(len(value), np.int64)
    if len(value):
        quoted[cut.data[value] == ord('"')] = 1
    names, values = as_text(slices(cut.data, begin, end)), as_text(slices(cut.data, value + quoted, stop - quoted))
    if escaped.any():
        mask = pa.array(escaped)
        values = pc.replace_with_mask(values, mask, pc.replace_substring_regex(values.filter(mask), _ESCAPED, r"\1"))
    null = (cut.error != 0) | pc.is_null(keys).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.append(0, np.cumsum(cut.counts)).astype(np.int32), mask=np.append(null, False))
    return KeyColumn(pa.MapArray.from_arrays(offsets, names, values), errors, cut.padded)


def parse(text: str) -> tuple[tuple[str, str], ...]:
    """The columns of a key with their values, quotes and escapes undone, in the order written. Raises TableKeyError."""
    found = parse_column(pa.array([text], pa.string()))
    if found.errors:
        raise found.errors[0]
    return tuple(found.pairs[0].as_py())


def parts(text: str) -> Iterator[tuple[str, str]]:
    """The columns of a key with their values as written, with quotes. Raises TableKeyError after what precedes it."""
    cut = _KeyIdentifiers(pa.array([text], pa.string()))
    yield from cut.written()
    error = cut.failure(0, text)
    if error is not None:
        raise error


def padded(text: str) -> bool:
    """Does a key have blanks around a name or a number? False for what is no key."""
    return bool(_KeyIdentifiers(pa.array([text], pa.string())).padded[0])


def escape_value(text: str) -> str:
    """A value as a key has it: in quotes where it has a special character or is empty."""
    if text and not any(character in SPECIAL for character in text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def same_objects(keys: pa.StringArray) -> pa.StringArray:
    """Each key in a form that all its spellings share: names folded, blanks trimmed, only the quotes that are needed,
    columns in the order of their names. A text that is no key keeps its form, but for blanks. Null stays null."""
    coded = keys.dictionary_encode()
    texts = coded.dictionary
    name, value = pc.extract_regex(texts, _PLAIN).flatten()
    plain = pc.binary_join_element_wise(pc.ascii_lower(name), value, "=")
    rest = texts.filter(pc.is_null(plain))
    found = zip(rest.to_pylist(), parse_column(rest).pairs.to_pylist(), strict=True)
    made = [_normal(pairs) or text.strip(BLANKS) for text, pairs in found]
    return pc.replace_with_mask(plain, pc.is_null(plain), pa.array(made, pa.string())).take(coded.indices)


_PLAIN: Final = r"^(?P<name>[A-Za-z_][0-9A-Za-z_]*)=(?P<value>[^\s,;'+\"=\\<>]+)$"
"""A key of one column and a value without quotes, of which only the case of the name may differ."""


def _normal(pairs: list[tuple[str, str]] | None) -> str | None:
    if pairs is None:
        return None
    folded = sorted((name.strip(BLANKS).casefold(), value.strip(BLANKS)) for name, value in pairs)
    return "+".join(f"{name}={escape_value(value)}" for name, value in folded)
