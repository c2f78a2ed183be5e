r"""Texts of a log as numbers, times and keys (docs/formats/idm-event-log.md §1.3, §1.4, §2). Keys, ``table_key``:

    table key  = identifier {"+" identifier}
    identifier = column name "=" value

A value that has one of the nine special characters is in double quotes, in which ``\"`` and ``\\`` mean a quote and a
backslash. Where the vendor is silent: a name has none of the nine and is not blank; blanks belong to the name or value
next to them, so ``idu= 1`` is a key, of another object than ``idu=1``; a value without quotes has at least one
character, the empty text is ``""``; no column is in a key twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import as_array, as_text, content_of, slices
from cdcwb.formats.kernels import Bools, Bytes, Ints, kernel
from cdcwb.formats.moments import IS_TIME, Zone, in_utc, iso_times, parse_zone


def _bytes_of(texts: pa.StringArray) -> tuple[Bytes, Ints]:
    """The UTF-8 bytes of all texts, and the offset of each, with the end as one more. A null has no bytes."""
    data, offsets = content_of(texts)
    if texts.null_count and np.diff(offsets)[as_array(pc.is_null(texts))].any():
        return content_of(pc.fill_null(texts, ""))
    return data, offsets


# --- numbers and characters -------------------------------------------------------------------------------------------

_IS_SPACE: Final = np.isin(np.arange(256), list(b" \t\n\f\r"))


def numbers_of(texts: pa.StringArray) -> pa.Int64Array:
    """Texts as whole numbers from 1 to 2^63 - 1, null for all else. Blanks around a number, leading zeros and a
    fraction of zeros (as decimal columns are printed) do not matter."""
    numbers = np.empty(len(texts), np.int64)
    _read_numbers(*_bytes_of(texts), numbers)
    return pa.array(numbers, mask=numbers == 0)


@kernel
def _read_numbers(b: Bytes, offsets: Ints, numbers: Ints) -> None:
    for row in range(len(numbers)):
        at, stop, number = offsets[row], offsets[row + 1], np.int64(0)
        while at < stop and _IS_SPACE[b[at]]:
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
        while at < stop and _IS_SPACE[b[at]]:
            at += 1
        numbers[row] = number if at == stop else 0


_ALLOWED: Final = np.frombuffer(b"\t\n\r", np.uint8)


def xml_unfit(texts: pa.StringArray) -> Bools:
    """Rows with a character that XML 1.0 cannot hold: a control character but tab and line ends, U+FFFE or U+FFFF."""
    rows, content = np.zeros(len(texts), np.bool_), texts.buffers()[2]
    every = np.frombuffer(content or b"", np.uint8)
    if len(every) and (every.min() < 32 or (every == 0xEF).any()):
        data, offsets = _bytes_of(texts)
        control, last = np.flatnonzero(data < 32), np.flatnonzero(data == 0xEF)
        last = last[(data[last + 1] == 0xBF) & (data[last + 2] >= 0xBE)]
        for unfit in (control[~np.isin(data[control], _ALLOWED)], last):
            rows[np.searchsorted(offsets, unfit, side="right") - 1] = True
    return rows


# --- times ------------------------------------------------------------------------------------------------------------

_ZONE: Final = r"(?:\s*(?P<zone>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?))?"
_FRACTION: Final = r"(?:[.,](?P<fraction>\d+))?"
_PATTERNS: Final = {
    "odbc": r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)(?:[T ](?P<hour>\d\d):(?P<minute>\d\d)"
    rf"(?::(?P<second>\d\d){_FRACTION})?{_ZONE})?",
    "db2": r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)-(?P<hour>\d\d)\.(?P<minute>\d\d)\.(?P<second>\d\d)"
    rf"{_FRACTION}",
    "sybase": r"(?P<month>[A-Z]{3}) +(?P<day>\d{1,2}),? +(?P<year>\d{4})(?: +(?P<hour>\d{1,2}):(?P<minute>\d\d)"
    r"(?::(?P<second>\d\d)(?:\.(?P<fraction>\d+)|:(?P<thousandths>\d{1,3}))?)? ?(?P<half>[AP]M)?)?",
    "oracle": r"(?P<day>\d{1,2})-(?P<month>[A-Z]{3})-(?P<year>\d{4}|\d\d)(?:[ :T](?P<hour>\d{1,2})[.:]"
    rf"(?P<minute>\d\d)[.:](?P<second>\d\d){_FRACTION}(?: ?(?P<half>[AP]M))?{_ZONE})?",
}
"""``yyyy-mm-dd hh:mm:ss[.f…]``, also with ``T`` or a zone; ``yyyy-mm-dd-hh.mm.ss[.f…]``;
``Mon dd yyyy hh:mm:ss:mmmAM``; ``DD-MON-RR HH.MI.SS.FF AM``."""

_MONTHS: Final = pa.array(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"])
_HOURS: Final = {half: pa.array([f"{hour % 12 + 12 * (half == 'pm'):02d}" for hour in range(1, 13)])
                 for half in ("am", "pm")}  # fmt: skip


class EventTimes(NamedTuple):
    """The times of many rows. ``us``: microseconds since 1970 in UTC, null where the text is NULL or no time.
    ``doubtful``: times that the zone has twice or not at all; the earlier one is used."""

    us: pa.Int64Array
    doubtful: Bools


@lru_cache(maxsize=64)
def zone_of(zone: str | Zone | None) -> Zone:
    """A zone by its name or offset; UTC for None. Raises OptionError."""
    if zone is None or (isinstance(zone, str) and zone.upper() in ("UTC", "Z", "GMT")):
        return timedelta(0)
    return parse_zone(zone) if isinstance(zone, str) else zone


def parse_times(texts: pa.StringArray, zone: str | Zone | None = None) -> EventTimes:
    """The moments of printed times, which are in ``zone`` (UTC if None) unless they have an offset themselves."""
    utc, state = iso_times(texts)
    others = np.flatnonzero((state & IS_TIME == 0) & as_array(pc.is_valid(texts)))
    if len(others):
        coded = texts.take(pa.array(others)).dictionary_encode()
        index = coded.indices.to_numpy()
        utc[others], state[others] = (one[index] for one in _other_times(tuple(coded.dictionary.to_pylist())))
    doubtful = in_utc(utc, state, zone_of(zone))
    return EventTimes(pa.array(utc, mask=state & IS_TIME == 0), doubtful)


@lru_cache(maxsize=4)  # invalid texts repeat in every batch
def _other_times(texts: tuple[str, ...]) -> tuple[Ints, npt.NDArray[np.int8]]:
    """Microseconds and state (:func:`iso_times`) of texts that are rewritten as ISO 8601."""
    bare = pc.utf8_trim(pa.array(texts, pa.string()), " \t")
    utc, state = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.int8)
    for pattern in _PATTERNS.values():
        fields = pc.extract_regex(bare, f"(?i)^{pattern}$")
        rows = np.flatnonzero(as_array(pc.is_valid(fields)))
        if len(rows):
            some = fields.take(pa.array(rows))
            utc[rows], state[rows] = iso_times(
                _as_iso({one.name: pc.ascii_lower(some.field(one.name)) for one in some.type})
            )
    return utc, state


def _as_iso(fields: dict[str, pa.StringArray]) -> pa.StringArray:
    """Fields of times in lower case, empty for those without one, as ISO 8601; null where they are none."""

    def field(name: str, default: str) -> pa.StringArray:
        empty = pa.repeat("", len(fields["year"]))
        return pc.if_else(pc.equal(fields.get(name, empty), ""), default, fields.get(name, empty))

    year, month, hour, half, zone = (field(name, "") for name in ("year", "month", "hour", "half", "zone"))
    century = pc.if_else(pc.less(year, "50"), "20", "19")
    year = pc.if_else(pc.equal(pc.binary_length(year), 2), pc.binary_join_element_wise(century, year, ""), year)
    number = pc.add(pc.index_in(month, _MONTHS), 1).cast(pa.string())
    month = pc.if_else(pc.equal(pc.binary_length(month), 3), number, month)
    hour = pc.utf8_lpad(field("hour", "0"), 2, "0")
    for name, hours in _HOURS.items():
        of_day = hours.take(pc.index_in(hour, pa.array([f"{one:02d}" for one in range(1, 13)])))
        hour = pc.if_else(pc.equal(half, name), of_day, hour)
    fraction = pc.if_else(
        pc.equal(field("thousandths", ""), ""),
        field("fraction", "0"),
        pc.utf8_lpad(field("thousandths", ""), 3, "0"),
    )
    zone = pc.if_else(pc.is_in(zone, pa.array(["z", "utc", "gmt"])), "Z", zone)
    zone = pc.if_else(pc.equal(pc.binary_length(zone), 3), pc.binary_join_element_wise(zone, "00", ""), zone)
    date = pc.binary_join_element_wise(year, *(pc.utf8_lpad(one, 2, "0") for one in (month, fields["day"])), "-")
    clock = pc.binary_join_element_wise(hour, field("minute", "00"), field("second", "00"), ":")
    return pc.binary_join_element_wise(date, "T", clock, ".", fraction, zone, "")


# --- keys -------------------------------------------------------------------------------------------------------------

SPECIAL: Final = ",;'+\"=\\<>"
"""The characters that force quotes around a value (§2.2)."""

BLANKS: Final = " \t\r\n"

_IS_BLANK: Final = np.isin(np.arange(256), list(BLANKS.encode()))
_ORDINARY, _EQUALS, _PLUS, _QUOTE, _BACKSLASH, _OTHER, _END = range(7)  # what a byte is; after the last: the end
_CLASS: Final = np.full(256, _ORDINARY, np.int64)
for _character in SPECIAL.encode():
    _CLASS[_character] = {61: _EQUALS, 43: _PLUS, 34: _QUOTE, 92: _BACKSLASH}.get(_character, _OTHER)

_NAME_BEGIN, _NAME, _VALUE_BEGIN, _VALUE, _QUOTED, _ESCAPED, _CLOSED, _DONE = range(8)  # where a reader is
_NO_NAME, _NO_EQUALS, _NO_VALUE, _UNQUOTED, _NO_ESCAPED, _UNCLOSED, _NO_PLUS, _BLANK_NAME, _REPEATED_NAME = range(8, 17)
_EXPECTED: Final = {
    _NO_NAME: "a column name",
    _NO_EQUALS: "=",
    _NO_VALUE: "a value, in double quotes if it has a special character",
    _UNQUOTED: "+ or the end, because the value is not in double quotes,",
    _NO_ESCAPED: "a double quote or \\ after \\",
    _UNCLOSED: "a closing double quote",
    _NO_PLUS: "+ or the end",
    _BLANK_NAME: "a column name",
    _REPEATED_NAME: "a column that is not in the key yet",
}
_NEXT: Final = np.array(
    [  # ordinary    =             +            "            \            other       end
        [_NAME,       _NO_NAME,     _NO_NAME,    _NO_NAME,    _NO_NAME,    _NO_NAME,    _NO_NAME],
        [_NAME,       _VALUE_BEGIN, _NO_EQUALS,  _NO_EQUALS,  _NO_EQUALS,  _NO_EQUALS,  _NO_EQUALS],
        [_VALUE,      _NO_VALUE,    _NO_VALUE,   _QUOTED,     _NO_VALUE,   _NO_VALUE,   _NO_VALUE],
        [_VALUE,      _UNQUOTED,    _NAME_BEGIN, _UNQUOTED,   _UNQUOTED,   _UNQUOTED,   _DONE],
        [_QUOTED,     _QUOTED,      _QUOTED,     _CLOSED,     _ESCAPED,    _QUOTED,     _UNCLOSED],
        [_NO_ESCAPED, _NO_ESCAPED,  _NO_ESCAPED, _QUOTED,     _QUOTED,     _NO_ESCAPED, _NO_ESCAPED],
        [_NO_PLUS,    _NO_PLUS,     _NAME_BEGIN, _NO_PLUS,    _NO_PLUS,    _NO_PLUS,    _DONE],
    ]
)  # fmt: skip
"""What follows where a reader is on a byte of each class; numbers after _DONE are errors."""


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


_PADDED, _EDGED, _IN_QUOTES = 1, 2, 4  # of an identifier: blanks around the name, or the value; a value in quotes


@kernel
def _cut(b: Bytes, offsets: Ints, spans: Ints, flags: Bytes, counts: Ints, ends: Ints, position: Ints) -> Any:
    """Cuts each row by the grammar: ``spans`` are begin and end of names and values (with quotes; the end is -1 where
    that is not valid), ``flags`` what they are, ``ends`` is _DONE or an error, at ``position``. Returns how many names
    there are."""
    found = 0
    for row in range(len(counts)):
        first, begin, at, stop, state = found, offsets[row], offsets[row], offsets[row + 1], _NAME_BEGIN
        while state < _DONE:
            state = _NEXT[state, _END if at == stop else _CLASS[b[at]]]
            if state == _VALUE_BEGIN:
                spans[found, 0], spans[found, 1], spans[found, 2], spans[found, 3] = begin, at, at + 1, -1
                flags[found] = _PADDED if _IS_BLANK[b[begin]] or _IS_BLANK[b[at - 1]] else 0
                found += 1
            elif state in (_NAME_BEGIN, _DONE):
                first_of, last_of = spans[found - 1, 2], at - 1
                if b[first_of] == 34:
                    flags[found - 1] |= _IN_QUOTES
                    first_of, last_of = first_of + 1, last_of - 1
                if first_of <= last_of and (_IS_BLANK[b[first_of]] or _IS_BLANK[b[last_of]]):
                    flags[found - 1] |= _EDGED
                spans[found - 1, 3], begin = at, at + 1
            at += 1
            if state in (_NAME, _VALUE, _QUOTED):
                while at < stop and _CLASS[b[at]] == _ORDINARY:
                    at += 1
        counts[row], ends[row], position[row] = found - first, state, at - 1
    return found


class _KeyIdentifiers:
    """Keys cut into their identifiers, one after the other. ``row``: that of each. ``names``; ``error``: 0 or what is
    wrong with each key, ``position``: its byte in the data."""

    def __init__(self, keys: pa.StringArray) -> None:
        self.data, self.offsets = _bytes_of(keys)
        count = len(keys)
        counts, ends, self.position = (np.zeros(count, np.int64) for _ in range(3))
        most = int(np.count_nonzero(self.data == ord("=")))
        spans, flags = np.empty((most, 4), np.int64), np.zeros(most, np.uint8)
        found = _cut(self.data, self.offsets, spans, flags, counts, ends, self.position)
        self.spans, self.flags = spans[:found], flags[:found]
        self.error = np.where(ends == _DONE, 0, ends)
        self.row = np.repeat(np.arange(count), counts)
        begin, end, _, _ = self.spans.T
        self.names = as_text(slices(self.data, begin, end))
        padded = np.flatnonzero(self.flags & _PADDED)
        trimmed = pc.utf8_trim(self.names.take(pa.array(padded)), BLANKS)
        self._fail(self._repeated(counts), _REPEATED_NAME)
        self._fail(padded[as_array(pc.equal(trimmed, ""))], _BLANK_NAME)

    def _repeated(self, counts: Ints) -> Ints:
        """The names that an earlier one of the same key is equal to."""
        several = np.flatnonzero(counts[self.row] > 1)
        code = self.names.take(pa.array(several)).dictionary_encode().indices.to_numpy()
        alike = self.row[several] << 32 | code
        if np.diff(np.sort(alike)).all():
            return several[:0]
        return np.delete(several, np.unique(alike, return_index=True)[1])

    def _fail(self, names: Ints, error: int) -> None:
        """Sets an error at names, unless there is one before it in the key."""
        for name in names.tolist():
            row, position = self.row[name], self.spans[name, 0]
            if not self.error[row] or position < self.position[row]:
                self.error[row], self.position[row] = error, position

    def failure(self, row: int, text: str) -> TableKeyError | None:
        """What is wrong with a row, whose text is given."""
        code = int(self.error[row])
        if not code:
            return None
        at = len(text.encode()[: self.position[row] - self.offsets[row]].decode(errors="replace"))
        found = repr(text[at]) if at < len(text) else "the end"
        if code == _BLANK_NAME:
            found = "blanks alone"
        elif code == _REPEATED_NAME:
            found = f"{text[at : text.index('=', at)]!r} again"
        return TableKeyError(at, _EXPECTED[code], found)


_PADDED_NUMBER: Final = r"^[ \t\r\n]*[+-]?\d+(\.\d*)?[ \t\r\n]*$"


def parse_column(keys: pa.StringArray) -> KeyColumn:
    """The columns of each key with their values, quotes and escapes undone."""
    cut = _KeyIdentifiers(keys)
    broken = np.flatnonzero((cut.error > 0) & as_array(pc.is_valid(keys)))
    texts = keys.take(pa.array(broken)).to_pylist()
    failures = ((row, cut.failure(row, text)) for row, text in zip(broken.tolist(), texts, strict=True))
    errors = {row: error for row, error in failures if error is not None}
    row, names, flags, (_, _, begin, end) = cut.row, cut.names, cut.flags, cut.spans.T
    is_key = cut.error == 0
    if len(broken):
        fine = is_key[row]
        row, names, flags, begin, end = row[fine], names.filter(pa.array(fine)), flags[fine], begin[fine], end[fine]
    in_quotes = flags & _IN_QUOTES > 0
    values = as_text(slices(cut.data, begin + in_quotes, end - in_quotes))
    edged = np.flatnonzero(flags & _EDGED)
    numbers = as_array(pc.match_substring_regex(values.take(pa.array(edged)), _PADDED_NUMBER))
    padded = np.zeros(len(keys), np.bool_)
    padded[row[flags & _PADDED > 0]] = True
    padded[row[edged[numbers]]] = True
    if in_quotes.any():
        mask = pa.array(in_quotes)
        plain = pc.replace_substring_regex(values.filter(mask), r'\\(["\\])', r"\1")
        values = pc.replace_with_mask(values, mask, plain)
    offsets = np.append(0, np.cumsum(np.bincount(row, minlength=len(keys)))).astype(np.int32)
    of_keys = pa.array(offsets, mask=np.append(~is_key, False))
    return KeyColumn(pa.MapArray.from_arrays(of_keys, names, values), errors, padded)


def parse(text: str) -> tuple[tuple[str, str], ...]:
    """The columns of a key with their values, quotes and escapes undone, in the order written. Raises TableKeyError."""
    found = parse_column(pa.array([text], pa.string()))
    if found.errors:
        raise found.errors[0]
    return tuple(found.pairs[0].as_py())


def parts(text: str) -> tuple[list[tuple[str, str]], TableKeyError | None]:
    """The columns of a key with their values as written, with quotes, up to what is wrong, and that."""
    cut = _KeyIdentifiers(pa.array([text], pa.string()))
    raw, stop = text.encode(), cut.position[0] if cut.error[0] else len(cut.data)
    spans = [span for span in cut.spans.tolist() if 0 <= span[3] <= stop]
    pairs = [(raw[begin:end].decode(), raw[value:behind].decode()) for begin, end, value, behind in spans]
    return pairs, cut.failure(0, text)


def escape_value(text: str) -> str:
    """A value as a key has it: in quotes where it has a special character or is empty."""
    if text and not any(character in SPECIAL for character in text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


_SIMPLE: Final = r"^(?P<name>[A-Za-z_][0-9A-Za-z_]*)=(?P<value>[^\s,;'+\"=\\<>]+)$"
"""A key of one column and a value without quotes, of which only the case of the name may differ."""


def same_objects(keys: pa.StringArray) -> pa.StringArray:
    """Each key in a form that all its spellings share: names folded, blanks trimmed, only the quotes that are needed,
    columns in the order of their names. A text that is no key keeps its form, but for blanks. Null stays null."""
    coded = keys.dictionary_encode()
    texts = coded.dictionary
    name, value = pc.extract_regex(texts, _SIMPLE).flatten()
    simple = pc.binary_join_element_wise(pc.ascii_lower(name), value, "=")
    rest = texts.filter(pc.is_null(simple))
    made = []
    for text, pairs in zip(rest.to_pylist(), parse_column(rest).pairs.to_pylist(), strict=True):
        folded = sorted((name.strip(BLANKS).casefold(), value.strip(BLANKS)) for name, value in pairs or ())
        made.append("+".join(f"{name}={escape_value(value)}" for name, value in folded) or text.strip(BLANKS))
    return pc.replace_with_mask(simple, pc.is_null(simple), pa.array(made, pa.string())).take(coded.indices)
