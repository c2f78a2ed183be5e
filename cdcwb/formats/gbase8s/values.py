"""Decodes column values of a row payload without loss (docs/formats/gbase8s.md §4): many values of any columns in one
call, kind by kind, to Arrow arrays with a status for each; :func:`value_of` makes a sentence from the status. There is
no null bitmap: NULL is a pattern of its own in every type. Integers and floats are big-endian. Packed decimals are
decoded by kernels, to text. Bytes that are not a value of their type are lower-case hex with a problem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import as_array, bytes_of, gather, hex_text
from cdcwb.formats.columns import cast_each
from cdcwb.formats.gbase8s.layout import (
    FRACTION,
    LVARCHAR_PREFIX,
    QUALIFIERS,
    SECOND,
    ColumnKind,
    SchemaColumn,
    StreamSettings,
)
from cdcwb.formats.kernels import Bools, Bytes, Ints, kernel
from cdcwb.model import Problem

_KINDS: Final = tuple(ColumnKind)
_DECIMAL, _INTERVAL = _KINDS.index(ColumnKind.DECIMAL), _KINDS.index(ColumnKind.INTERVAL)

# status of a value; from BAD on it is a problem
OK, NULL, BAD = 0, 1, 2
_SIGN, _MAGNITUDE, _DAY, _BOOLEAN_BYTES, _DIGIT, _MINUS_ZERO, _PRECISION = range(2, 9)
_PLACES, _PARTIAL_DIGIT, _MINUS_TIME, _FIELD, _DAY_OF_MONTH = range(9, 14)
_NO_PREFIX, _PREFIX, _NO_FLAG, _FLAG, _CHARSET = range(14, 19)

_DAY_ZERO: Final = 25568  # days from 1899-12-31 to 1970-01-01
_FIRST_DAY: Final = -719162  # 0001-01-01, in days from 1970-01-01
_LAST_DAY: Final = 2932896  # 9999-12-31
_LOB_PREFIX: Final = 4
_INT8: Final = np.dtype([("sign", ">i2"), ("low", ">u4"), ("high", ">u4")])
_LONGEST: Final = np.array([31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_NO_LIMIT: Final = 1 << 40
_MOST: Final = (1 << 31) - 1  # bytes
_CLOCK: Final = [(0, 23), (0, 59), (0, 59)]
_LIMITS: Final = np.array([[(1, 9999), (1, 12), (1, 31), *_CLOCK], [(0, _NO_LIMIT), (0, 11), (0, _NO_LIMIT), *_CLOCK]])
"""The least and greatest value of each field from YEAR to SECOND, of a DATETIME and of an INTERVAL."""

# --- packed decimals --------------------------------------------------------------------------------------------------


@kernel
def big_endian(b: Bytes, at: int, size: int) -> Any:
    """The unsigned big-endian number of ``size`` bytes at ``at``; one of 8 bytes wraps into the sign."""
    value = np.int64(0)
    for k in range(size):
        value = (value << 8) | np.int64(b[at + k])
    return value


@kernel
def put_digits(out: Bytes, o: int, value: int, size: int) -> Any:
    """Writes the last ``size`` decimal digits of a number that is not negative."""
    rest, ten = np.uint64(value), np.uint64(10)  # unsigned, so a division by a constant becomes a multiplication
    for k in range(size - 1, -1, -1):
        tenth = rest // ten
        out[o + k] = 48 + np.int64(rest - tenth * ten)
        rest = tenth
    return o + size


@kernel
def _unpack(b: Bytes, at: int, size: int, digits: Ints) -> Any:
    """A packed decimal, sign * 0.d1d2d3… x 100**exponent (§4.3); returns (negative, exponent, used, status, found).

    The first byte has the sign (bit 7 set: positive) and the exponent plus 64. A negative number is the complement of
    its magnitude: the exponent's bits inverted, each digit taken from 99, the last that is not zero from 100.
    ``digits`` gets the base-100 digits of the magnitude, ``used`` of them, without zeros at either end.
    """
    if b[at] == 0 and b[at + 1] == 0:
        return False, 0, 0, NULL, 0
    lead = np.int64(b[at])
    negative = lead < 128
    exponent = ((~lead if negative else lead) & 0x7F) - 64
    used, most = 0, np.int64(0)
    for k in range(1, size):
        digit = np.int64(b[at + k])
        digits[k - 1] = digit
        most = max(most, digit)
        if digit:
            used = k
    if most > 99:
        return False, 0, 0, _DIGIT, most
    if negative:
        if used == 0:
            return False, 0, 0, _MINUS_ZERO, 0
        for k in range(used):
            digits[k] = (100 if k == used - 1 else 99) - digits[k]
    first = 0
    while first < used and digits[first] == 0:
        first += 1
    for k in range(first, used):
        digits[k - first] = digits[k]
    return negative, (exponent - first if used > first else 0), used - first, OK, 0


@kernel
def _put_decimal(b: Bytes, at: int, size: int, precision: int, scale: int, digits: Ints, out: Bytes, o: int) -> Any:
    """DECIMAL, MONEY (§4.3): in full with its scale; floating ones (scale -1) without trailing zeros."""
    negative, exponent, used, status, found = _unpack(b, at, size, digits)
    if status != OK:
        return o, status, found
    integer_digits = 2 * exponent - (digits[0] < 10) if exponent > 0 else 0  # digits before the point
    places = 2 * (used - exponent) - (digits[used - 1] % 10 == 0) if used > max(exponent, 0) else 0
    if scale >= 0:
        if integer_digits > precision - scale or places > scale:
            return o, _PRECISION, 0
        places = scale
    if negative:
        out[o] = 45
        o += 1
    if integer_digits == 0:
        out[o] = 48
        o += 1
    for k in range(-integer_digits, places):
        if k == 0:
            out[o] = 46
            o += 1
        pair = exponent + (k >> 1)
        digit = digits[pair] if 0 <= pair < used else 0
        out[o] = 48 + (digit % 10 if k & 1 else digit // 10)
        o += 1
    return o, OK, 0


@kernel
def _put_clock(
    b: Bytes, at: int, size: int, column: int, columns: Ints, interval: int, digits: Ints, fields: Ints, out: Bytes,
    o: int,
) -> Any:  # fmt: skip
    """DATETIME (§4.4) and INTERVAL (§4.5): only its own fields in ISO 8601; an interval's first without leading zeros.

    The exponent counts the digits from the first one written down to SECOND, whatever the last field is; leading zero
    pairs are omitted. It therefore gives the position of the digits: in a time of day with hour 00 the first digit is
    the minutes.
    """
    first, end, fraction, integer_pairs = columns[column, 4], columns[column, 5], columns[column, 6], columns[column, 7]
    negative, exponent, used, status, found = _unpack(b, at, size, digits)
    if status != OK:
        return o, status, found
    if used and end < SECOND:
        exponent -= (SECOND - end) // 2  # the fields below the last one
    if exponent > integer_pairs or used - exponent > (fraction + 1) // 2:
        return o, _PLACES, 0
    next_digit = exponent - integer_pairs  # of the next digit; those before the first one are zero
    count = (min(end, SECOND) - first) // 2 + 1 if first < FRACTION else 0
    for f in range(count):
        value = np.int64(0)
        for _ in range(integer_pairs - count + 1 if f == 0 else 1):
            value = 100 * value + (digits[next_digit] if 0 <= next_digit < used else 0)
            next_digit += 1
        fields[f] = value
    parts = np.int64(0)
    for k in range((fraction + 1) // 2):
        parts = 100 * parts + (digits[next_digit + k] if 0 <= next_digit + k < used else 0)
    if fraction % 2 and parts % 10:
        return o, _PARTIAL_DIGIT, parts
    if negative:
        if not interval:
            return o, _MINUS_TIME, 0
        out[o] = 45
        o += 1
    year, month = 4, 0  # without a year, February may have 29 days
    for f in range(1 if interval else 0, count):
        code = first + 2 * f
        if fields[f] < _LIMITS[interval, code // 2, 0] or fields[f] > _LIMITS[interval, code // 2, 1]:
            return o, _FIELD, code << 32 | fields[f]
    for f in range(count):
        code = first + 2 * f
        if code == 0:
            year = fields[f]
        elif code == 2:
            month = fields[f]
        elif code == 4 and month and not interval:
            most = _LONGEST[month - 1]
            if month == 2 and not (year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)):
                most = 28
            if fields[f] > most:
                return o, _DAY_OF_MONTH, most << 48 | month << 32 | fields[f]
        if f:
            out[o] = (32 if interval else 84) if code == 6 else (45 if code < 6 else 58)
            o += 1
        size = 4 if code == 0 else 2
        if f == 0 and interval:
            size = 1
            while fields[f] >= 10**size:
                size += 1
        o = put_digits(out, o, int(fields[f]), size)
    if fraction:
        out[o] = 46
        o = put_digits(out, o + 1, int(parts // 10 if fraction % 2 else parts), fraction)
    return o, OK, 0


@kernel
def put_packed(
    b: Bytes, starts: Ints, stops: Ints, column: Ints, columns: Ints, digits: Ints, fields: Ints, out: Bytes,
    ends: Any, status: Any, found: Ints,
) -> None:  # fmt: skip
    """Writes the concatenated texts of many packed decimals to ``out``, with their ``ends``."""
    o: Any = np.int64(0)  # a literal 0 would compile everything twice
    for v in range(len(starts)):
        c, at, size = column[v], starts[v], stops[v] - starts[v]
        if columns[c, 0] == _DECIMAL:
            o, status[v], found[v] = _put_decimal(b, at, size, columns[c, 2], columns[c, 3], digits, out, o)
        else:
            is_interval = int(columns[c, 0] == _INTERVAL)
            o, status[v], found[v] = _put_clock(b, at, size, c, columns, is_interval, digits, fields, out, o)
        ends[v + 1] = o


# --- values of one kind -----------------------------------------------------------------------------------------------


class _Encoded(NamedTuple):
    """Values ``buffer[start:stop]`` of one kind, each of the column (a row of ``columns``) with its index in
    ``column``."""

    buffer: Bytes
    start: Ints
    stop: Ints
    column: Ints
    columns: Ints
    settings: StreamSettings

    def as_type(self, kind: Any) -> npt.NDArray[Any]:
        """The values as numbers or structures of this type; all have its size."""
        found: npt.NDArray[Any] = bytes_of(self.buffer, self.start, np.dtype(kind).itemsize).view(kind)[:, 0]
        return found

    def byte(self, at: Ints) -> Ints:
        """The bytes at some offsets; those of the nearest ones for offsets outside of the buffer."""
        return self.buffer.take(at, mode="clip").astype(np.int64)


_Decoded = tuple[pa.Array, Any, Any]
"""An array of values, arbitrary where the status is not OK; the status of each, and the number for a problem's
sentence."""


def _integers(values: _Encoded, size: int) -> _Decoded:
    """SMALLINT, INTEGER, BIGINT: the smallest number is NULL (§4.1)."""
    numbers = values.as_type(f">i{size}").astype(f"i{size}")
    return pa.array(numbers), np.where(numbers == np.iinfo(numbers.dtype).min, NULL, OK), 0


def _int8(values: _Encoded) -> _Decoded:
    """INT8: sign, low and high half of the magnitude (§4.1)."""
    parts = values.as_type(_INT8)
    sign, magnitude = parts["sign"].astype(np.int64), parts["high"].astype(np.int64) << 32 | parts["low"]
    wrong = [(sign == 0) & (magnitude == 0), np.abs(sign) != 1, magnitude < 0]
    status = np.select(wrong, [NULL, _SIGN, _MAGNITUDE], OK)
    return pa.array(sign * magnitude), status, np.where(status == _SIGN, sign, magnitude)


def _dates(values: _Encoded) -> _Decoded:
    """DATE: days since 1899-12-31, signed; the smallest number is NULL (§4.1)."""
    numbers = values.as_type(">i4").astype(np.int64)
    days = numbers - _DAY_ZERO
    wrong = [numbers == np.iinfo(np.int32).min, (days < _FIRST_DAY) | (days > _LAST_DAY)]
    status = np.select(wrong, [NULL, _DAY], OK)
    return pa.array(np.where(status == OK, days, 0).astype(np.int32)).cast(pa.date32()), status, numbers


def _floats(values: _Encoded, size: int) -> _Decoded:
    """FLOAT, SMALLFLOAT: all bits set is NULL (§4.1)."""
    null = (bytes_of(values.buffer, values.start, size) == 0xFF).all(axis=1)
    return pa.array(values.as_type(f">f{size}").astype(f"f{size}")), np.where(null, NULL, OK), 0


def _booleans(values: _Encoded) -> _Decoded:
    """BOOLEAN: a byte for NULL, then 0 or 1 (§4.1)."""
    null, value = bytes_of(values.buffer, values.start, 2).T
    return pa.array(value == 1), np.select([null == 1, (null != 0) | (value > 1)], [NULL, _BOOLEAN_BYTES], OK), 0


def _locators(values: _Encoded) -> _Decoded:
    """BLOB, CLOB: a locator, NULL if all of it but its prefix is zero (§4.1)."""
    raw = bytes_of(values.buffer, values.start, int(values.stop[0] - values.start[0]))
    locators = pa.Array.from_buffers(pa.binary(raw.shape[1]), len(raw), [None, pa.py_buffer(raw)])
    return locators.cast(pa.binary()), np.where(raw[:, _LOB_PREFIX:].any(axis=1), OK, NULL), 0


def _packed(values: _Encoded) -> _Decoded:
    """DECIMAL, DATETIME, INTERVAL (§4.3 to §4.5), as text."""
    count, columns = len(values.start), values.columns
    # a floating decimal has up to 64 base-100 digits on each side of its bytes
    extra = np.where((columns[:, 0] == _DECIMAL) & (columns[:, 3] < 0), 130, 34)[values.column]
    out = np.empty(int((2 * (values.stop - values.start) + extra).sum()), dtype=np.uint8)
    ends, status, found = np.zeros(count + 1, np.int32), np.zeros(count, np.int8), np.zeros(count, np.int64)
    put_packed(
        values.buffer, values.start, values.stop, values.column, columns, np.zeros(32, np.int64),
        np.zeros(8, np.int64), out, ends, status, found,
    )  # fmt: skip
    data = pa.py_buffer(out[: ends[-1]].copy())  # ``out`` has the size of the longest possible texts
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), data]), status, found


def _chars(values: _Encoded) -> _Decoded:
    """CHAR: padded with spaces, a first byte 00 is NULL (§4.1)."""
    null = (values.stop > values.start) & (values.byte(values.start) == 0)
    return _texts(values, values.start, values.stop, np.where(null, NULL, OK), 0, padding=" ")


def _varchars(values: _Encoded) -> _Decoded:
    """VARCHAR: length and text; one byte 00 is NULL (§4.2)."""
    width = values.settings.prefix_width
    size, length = values.stop - values.start, values.byte(values.start)
    if width == 2:
        length = length << 8 | values.byte(values.start + 1)
    null = (length == 1) & (values.byte(values.start + width) == 0)
    status = np.select([size < width, width + length != size, null], [_NO_PREFIX, _PREFIX, NULL], OK)
    return _texts(values, values.start + width, values.stop, status, np.where(size < width, size, length))


def _lvarchars(values: _Encoded) -> _Decoded:
    """LVARCHAR: length, flag and text; the flag 01 without text is NULL. A last NUL is not part of the text (§4.2)."""
    size, length = values.stop - values.start, values.byte(values.start) << 8 | values.byte(values.start + 1)
    data = values.start + LVARCHAR_PREFIX + 1
    flag = values.byte(data - 1)
    null = (length == 1) & (flag == 1)
    of = [size < LVARCHAR_PREFIX, LVARCHAR_PREFIX + length != size, length == 0, null, flag != 0]
    status = np.select(of, [_NO_PREFIX, _PREFIX, _NO_FLAG, NULL, _FLAG], OK)
    ends_with_nul = (length > 1) & (values.byte(values.stop - 1) == 0)
    found = np.select([status == _NO_PREFIX, status == _FLAG], [size, flag], length)
    return _texts(values, data, values.stop - ends_with_nul, status, found)


def _texts(values: _Encoded, start: Ints, stop: Ints, status: Ints, found: Any, padding: str = "") -> _Decoded:
    """Text of the database's character set, without ``padding`` at its end."""
    valid = status == OK
    texts = gather(pa.string(), values.buffer, np.where(valid, start, 0), np.where(valid, stop, 0), None)
    if padding:
        texts = pc.ascii_rtrim(texts, padding)
    charset = values.settings.charset
    codec, raw = charset.lower().replace("_", "-"), texts.view(pa.binary())
    if codec in _UTF_8:
        try:
            return pc.cast(raw, pa.string()), status, found
        except pa.ArrowInvalid:
            pass
    is_encoded = ~as_array(pc.string_is_ascii(texts)) if codec in _ASCII_BASED else as_array(pc.not_equal(raw, b""))
    rows = np.flatnonzero(is_encoded)
    unique = raw.take(pa.array(rows)).dictionary_encode()
    decoded, error_at = [], np.full(len(unique.dictionary), -1)
    for at, value in enumerate(unique.dictionary.to_pylist()):
        try:
            decoded.append(value.decode(charset))
        except UnicodeError as error:
            decoded.append(value.hex())
            error_at[at] = error.start if isinstance(error, UnicodeDecodeError) else _NO_LIMIT
    indices = unique.indices.to_numpy()
    wrong = error_at[indices] >= 0
    status, found = status.copy(), np.zeros(len(status), np.int64) + found
    status[rows[wrong]], found[rows[wrong]] = _CHARSET, error_at[indices[wrong]]
    place = np.arange(len(raw))
    place[rows] = len(raw) + indices
    both = pa.concat_arrays([raw, pa.array(decoded, pa.string()).cast(pa.binary())])
    return both.take(pa.array(place)).cast(pa.string()), status, found


_UTF_8: Final = frozenset(["utf-8", "utf8"])
_ASCII_BASED: Final = _UTF_8 | frozenset(
    ["ascii", "gbk", "gb2312", "gb18030", "cp936", "big5", "iso-8859-1", "iso8859-1", "latin-1", "latin1",
     "iso-8859-15", "cp1252"]
)  # fmt: skip
"""Character sets in which a byte below 80 (hex) that is not part of a longer character is ASCII."""

_DECODERS: Final[dict[ColumnKind, Callable[[_Encoded], _Decoded]]] = {
    ColumnKind.SMALLINT: partial(_integers, size=2),
    ColumnKind.INTEGER: partial(_integers, size=4),
    ColumnKind.BIGINT: partial(_integers, size=8),
    ColumnKind.INT8: _int8,
    ColumnKind.DATE: _dates,
    ColumnKind.FLOAT: partial(_floats, size=8),
    ColumnKind.SMALLFLOAT: partial(_floats, size=4),
    ColumnKind.BOOLEAN: _booleans,
    ColumnKind.CHAR: _chars,
    ColumnKind.DECIMAL: _packed,
    ColumnKind.DATETIME: _packed,
    ColumnKind.INTERVAL: _packed,
    ColumnKind.VARCHAR: _varchars,
    ColumnKind.LVARCHAR: _lvarchars,
    ColumnKind.LOB: _locators,
}


# --- many values ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DecodedValues:
    """Decoded values. ``parts``: the values of each kind; ``place``: the index of each value in all of them, or after
    them in ``invalid``, the hex of those that are not a value of their type. ``status``: a problem from :data:`BAD` on;
    ``found``: the number for its sentence."""

    parts: Sequence[pa.Array]
    invalid: pa.Array
    place: Ints
    status: npt.NDArray[np.int8]
    found: Ints

    @cached_property
    def text(self) -> pa.Array:
        """The values as text; null for NULL, hex for invalid ones."""
        texts = pa.concat_arrays([*map(_text_of, self.parts), self.invalid])
        return texts.take(pa.array(self.place, mask=self.status == NULL))

    def as_type(self, kind: pa.DataType) -> pa.Array:
        """The values as another type than text; null for NULL, and for what is not a value of it."""
        valid = np.zeros(len(self.place), np.bool_)
        valid[self.place[self.status == OK]] = True
        of_parts = np.split(valid, np.cumsum([len(part) for part in self.parts]))
        parts = [_as_type(part, there, kind) for part, there in zip(self.parts, of_parts, strict=False)]
        return pa.concat_arrays([pa.nulls(0, kind), *parts]).take(pa.array(self.place, mask=self.status != OK))


def _text_of(values: pa.Array) -> pa.Array:
    """Values as text, bytes as lower-case hex."""
    return hex_text(values, upper=False) if pa.types.is_binary(values.type) else pc.cast(values, pa.string())


def _as_type(values: pa.Array, valid: Bools, kind: pa.DataType) -> pa.Array:
    """Values of one kind as another type; null for what is not a value of it."""
    if values.type == kind:
        return values
    if pa.types.is_binary(kind):
        return pa.nulls(len(values), kind)
    return cast_each(pc.if_else(pa.array(valid), _text_of(values), None), kind)


def column_table(columns: Sequence[SchemaColumn]) -> Ints:
    """The facts of each column for the kernels: kind, size, precision, scale (-1: floating), codes of the first and the
    last field, digits of the fraction, base-100 digits before the point."""
    rows = [
        (
            _KINDS.index(c.kind), -1 if c.size is None else c.size,
            c.precision or 0, -1 if c.scale is None else c.scale,
            c.start or 0, c.end or 0, c.fraction, c.whole_pairs,
        )
        for c in columns
    ]  # fmt: skip
    return np.array(rows, dtype=np.int64).reshape(len(rows), 8)


def decode_values(
    buffer: Bytes, starts: Ints, stops: Ints, column: Ints, columns: Ints, settings: StreamSettings
) -> DecodedValues:
    """The values ``buffer[starts:stops]``, each of the column (a row of :func:`column_table`) with its index in
    ``column``. The bytes of a variable-length value include its length prefix."""
    count = len(starts)
    if len(buffer) > _MOST:  # offsets of texts have 32 bits
        ends = np.cumsum(stops - starts)
        buffer = buffer[np.repeat(stops - ends, stops - starts) + np.arange(ends[-1] if count else 0)]
        starts, stops = ends - (stops - starts), ends
    kinds = columns[column, 0].astype(np.uint8)  # bytes are sorted in linear time
    order = np.argsort(kinds, kind="stable")
    place, found, status = np.empty(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int8)
    place[order] = np.arange(count)
    first, last, column = starts[order], stops[order], column[order]
    parts, edges = [], np.cumsum(np.bincount(kinds, minlength=len(_KINDS))).tolist()
    for kind, (begin, end) in zip(_KINDS, pairwise([0, *edges]), strict=True):
        if begin < end:
            some = slice(begin, end)
            values = _Encoded(buffer, first[some], last[some], column[some], columns, settings)
            decoded, states, numbers = _DECODERS[kind](values)
            parts.append(decoded)
            status[order[some]] = states
            wrong = np.flatnonzero(states >= BAD)
            found[order[some][wrong]] = np.broadcast_to(numbers, end - begin)[wrong]
    bad = np.flatnonzero((status >= BAD) & (status != _CHARSET))
    place[bad] = count + np.arange(len(bad))
    spans = zip(starts[bad].tolist(), stops[bad].tolist(), strict=True)
    invalid = pa.array([buffer[start:stop].tobytes().hex() for start, stop in spans], pa.string())
    return DecodedValues(parts, invalid, place, status, found)


# --- one value --------------------------------------------------------------------------------------------------------


class ColumnValue(NamedTuple):
    """A decoded value. ``text`` None is SQL NULL. If ``problem`` is set, ``text`` is lower-case hex and ``detail`` has
    the expected and the actual.
    """

    text: str | None
    problem: Problem | None = None
    detail: str = ""


def decode_value(column: SchemaColumn, raw: bytes, settings: StreamSettings) -> ColumnValue:
    """The value of a column from all its bytes in the row, including the length prefix of a variable-length one."""
    buffer, place = np.frombuffer(raw or b"\0", np.uint8), np.zeros(1, np.int64)
    decoded = decode_values(buffer, place, place + len(raw), place, column_table([column]), settings)
    return value_of(column, raw, decoded, 0, settings)


def value_of(
    column: SchemaColumn, raw: bytes, decoded: DecodedValues, place: int, settings: StreamSettings
) -> ColumnValue:
    """One of many decoded values with its problem; ``raw`` are its bytes."""
    text: str | None = decoded.text[place].as_py()
    status = int(decoded.status[place])
    if status < BAD:
        return ColumnValue(text)
    code, sentence = _SENTENCES[status]
    return ColumnValue(text, code, sentence.format(**_facts(column, raw, status, int(decoded.found[place]), settings)))


_SENTENCES: Final = {
    _SIGN: (Problem.VALUE, "expected the sign 1 or -1, found {found}"),
    _MAGNITUDE: (Problem.VALUE, "expected a magnitude below 2**63, found {unsigned}"),
    _DAY: (Problem.VALUE, "expected a day of the years 1 to 9999, found day {found}"),
    _BOOLEAN_BYTES: (Problem.VALUE, "expected 0000, 0001 or 0100, found {hex}"),
    _DIGIT: (Problem.VALUE, "expected base-100 digits up to 99, found {found}"),
    _MINUS_ZERO: (Problem.VALUE, "expected a negative number, found zero with a negative sign"),
    _PRECISION: (Problem.VALUE, "expected a value of {type}, found {number}"),
    _PLACES: (Problem.VALUE, "expected a value of {type}, found more digits than it has"),
    _PARTIAL_DIGIT: (Problem.VALUE, "expected a value of {type}, found the fraction .{found:0{places}}"),
    _MINUS_TIME: (Problem.VALUE, "expected a point in time, found a negative number"),
    _FIELD: (Problem.VALUE, "expected {field} {least} to {most}, found {low}"),
    _DAY_OF_MONTH: (Problem.VALUE, "expected day 1 to {longest} in month {month}, found {low}"),
    _NO_PREFIX: (Problem.SIZE_WORDS, "expected a length of {width} bytes, found a size word of {found}"),
    _PREFIX: (Problem.SIZE_WORDS, "expected {size} bytes by the size word, found {width} + {found} by the prefix"),
    _NO_FLAG: (Problem.SIZE_WORDS, "expected a length of at least 1, found 0"),
    _FLAG: (Problem.VALUE, "expected the flag 00, or 01 without data, found {found:02x}{with_data}"),
    _CHARSET: (Problem.CHARSET, "expected text in {charset}, found other bytes{where}"),
}
"""The code and sentence of each status that is a problem."""

_FIELDS: Final = {code: name for name, code in QUALIFIERS.items()}


def prefix_width(column: SchemaColumn, settings: StreamSettings) -> int:
    """Bytes of the length that precedes a variable-length value (§4.2)."""
    return LVARCHAR_PREFIX if column.kind is ColumnKind.LVARCHAR else settings.prefix_width


def _facts(column: SchemaColumn, raw: bytes, status: int, found: int, settings: StreamSettings) -> dict[str, Any]:
    """The values for the sentences."""
    high = found >> 32 & 0xFFFF
    least, most = _LIMITS[int(column.kind is ColumnKind.INTERVAL), high // 2] if status == _FIELD else (0, 0)
    width = prefix_width(column, settings)
    number = ""
    if status == _PRECISION:  # its value without limits
        floating = SchemaColumn(1, "", "", ColumnKind.DECIMAL, True, column.size)
        number = (decode_value(floating, raw, settings).text or "").removeprefix("-")
        number += "" if "." in number else ".0"
    return {
        "type": column.type,
        "hex": raw.hex(),
        "size": len(raw),
        "found": found,
        "unsigned": found & 0xFFFFFFFFFFFFFFFF,
        "low": found & 0xFFFFFFFF,
        "month": high,
        "longest": found >> 48,
        "field": _FIELDS.get(high, ""),
        "least": least,
        "most": most,
        "places": 2 * ((column.fraction + 1) // 2),
        "number": number,
        "width": width,
        "with_data": " with data" if len(raw) > width + 1 else "",
        "charset": settings.charset,
        "where": "" if found == _NO_LIMIT else f" at byte {found}",
    }
