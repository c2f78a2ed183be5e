"""Decodes column values of a row payload to text without loss (docs/formats/gbase8s.md §4). Kernels decode many values
of any columns in one call, each to its text and a status; :func:`detail` makes a sentence from the status. There is no
null bitmap: NULL is a pattern of its own in every type. Integers and floats are big-endian. Bytes that are not a value
of their type are lower-case hex with a problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.gbase8s.layout import FRACTION, LVARCHAR_PREFIX, QUALIFIERS, SECOND, Column, ColumnKind, Settings
from cdcwb.formats.kernels import kernel
from cdcwb.model import Problem

__all__ = [
    "BAD", "NULL", "OK", "Value", "Values", "big_endian", "column_table", "decode_value", "decode_values", "value_of",
]  # fmt: skip

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_KINDS: Final = tuple(ColumnKind)
_SMALLINT, _INTEGER, _BIGINT, _INT8, _DATE, _FLOAT, _SMALLFLOAT, _BOOLEAN = range(8)
_CHAR, _DECIMAL, _DATETIME, _INTERVAL, _VARCHAR, _LVARCHAR, _LOB = range(8, 15)

# status of a value; from _SIGN on it is a problem
OK, NULL, _ENCODED, BAD = 0, 1, 2, 3
_SIGN, _MAGNITUDE, _DAY, _BOOLEAN_BYTES, _DIGIT, _MINUS_ZERO, _PRECISION = range(3, 10)
_PLACES, _PARTIAL_DIGIT, _MINUS_TIME, _FIELD, _DAY_OF_MONTH = range(10, 15)
_NO_PREFIX, _PREFIX, _NO_FLAG, _FLAG, _CHARSET = range(15, 20)

_DAY_ZERO: Final = 25568  # days from 1899-12-31 to 1970-01-01
_FIRST_DAY: Final = -719162  # 0001-01-01, in days from 1970-01-01
_LAST_DAY: Final = 2932896  # 9999-12-31
_LOB_PREFIX: Final = 4
_WORDS: Final = np.frombuffer(b"truefalse", np.uint8)
_LONGEST: Final = np.array([31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_NO_LIMIT: Final = 1 << 40


@kernel
def big_endian(b: Bytes, at: int, size: int) -> Any:
    """The unsigned big-endian number of ``size`` bytes at ``at``; one of 8 bytes wraps into the sign."""
    value = np.int64(0)
    for k in range(size):
        value = (value << 8) | np.int64(b[at + k])
    return value


@kernel
def signed_number(b: Bytes, at: int, size: int) -> Any:
    """The signed big-endian number of ``size`` bytes at ``at``."""
    value = big_endian(b, at, size)
    if size < 8 and value >> (8 * size - 1):
        value -= np.int64(1) << (8 * size)
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
def put_integer(out: Bytes, o: int, value: int) -> Any:
    """Writes a decimal number."""
    if 0 <= value < 10:  # most numbers of headers
        out[o] = 48 + value
        return o + 1
    if value == np.iinfo(np.int64).min:  # has no positive counterpart
        out[o] = 45
        return put_digits(out, put_digits(out, o + 1, 922337203, 9), 6854775808, 10)
    if value < 0:
        out[o] = 45
        o += 1
        value = -value
    size, limit = 1, np.int64(10)
    while size < 19 and value >= limit:
        size += 1
        if size < 19:
            limit *= 10
    return put_digits(out, o, value, size)


@kernel
def put_hex(b: Bytes, start: int, stop: int, out: Bytes, o: int, ten: int) -> Any:
    """Writes bytes as hexadecimal digits; ``ten`` is the character of 10 less 10."""
    for k in range(start, stop):
        high, low = np.int64(b[k]) >> 4, np.int64(b[k]) & 15
        out[o] = high + (48 if high < 10 else ten)
        out[o + 1] = low + (48 if low < 10 else ten)
        o += 2
    return o


@kernel
def put_bytes(b: Bytes, start: int, stop: int, out: Bytes, o: int) -> Any:
    """Copies bytes."""
    for k in range(start, stop):
        out[o] = b[k]
        o += 1
    return o


@kernel
def _put_text(b: Bytes, start: int, stop: int, out: Bytes, o: int, ascii_based: int) -> Any:
    """Copies text; if a byte is not ASCII, the character set is checked later."""
    status = OK if ascii_based or start == stop else _ENCODED
    for k in range(start, stop):
        if b[k] >= 128:
            status = _ENCODED
        out[o] = b[k]
        o += 1
    return o, status, 0


@kernel
def _put_date(b: Bytes, at: int, out: Bytes, o: int) -> Any:
    """DATE: days since 1899-12-31, signed; the smallest number is NULL (§4.1)."""
    number = signed_number(b, at, 4)
    if number == -(1 << 31):
        return o, NULL, 0
    days = number - _DAY_ZERO
    if days < _FIRST_DAY or days > _LAST_DAY:
        return o, _DAY, number
    days += 719468  # from 0000-03-01: leap days end each year, four-year and 400-year cycle
    era = days // 146097
    of_era = days - era * 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year += era * 400 + (1 if month <= 2 else 0)
    o = put_digits(out, o, year, 4)
    out[o] = 45
    o = put_digits(out, o + 1, month, 2)
    out[o] = 45
    return put_digits(out, o + 1, day, 2), OK, 0


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
        least, most = 0, 59
        if code == 6:
            most = 23
        elif code == 4:
            least, most = (0, _NO_LIMIT) if interval else (1, 31)
        elif code == 2:
            least, most = (0, 11) if interval else (1, 12)
        elif code == 0:
            least, most = 1, 9999
        if fields[f] < least or fields[f] > most:
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
        if f == 0 and interval:
            o = put_integer(out, o, int(fields[f]))
        else:
            o = put_digits(out, o, int(fields[f]), 4 if code == 0 else 2)
    if fraction:
        out[o] = 46
        o = put_digits(out, o + 1, int(parts // 10 if fraction % 2 else parts), fraction)
    return o, OK, 0


@kernel
def _put_value(
    b: Bytes, at: int, stop: int, columns: Ints, c: int, prefix: int, ascii_based: int, digits: Ints, fields: Ints,
    float_ends: Ints, float_text: Bytes, f: int, out: Bytes, o: int,
) -> Any:  # fmt: skip
    """The text of one value at ``out[o:]``; returns (its end, status, the number for the status)."""
    kind, size = columns[c, 0], stop - at
    if kind <= _BIGINT:
        value: int = signed_number(b, at, size)
        if value == np.int64(-1) << (8 * size - 1):
            return o, NULL, 0
        return put_integer(out, o, value), OK, 0
    if kind == _INT8:  # sign, low and high half of the magnitude
        sign = signed_number(b, at, 2)
        value = big_endian(b, at + 6, 4) << 32 | big_endian(b, at + 2, 4)
        if sign == 0 and value == 0:
            return o, NULL, 0
        if sign != 1 and sign != -1:
            return o, _SIGN, sign
        if value < 0:
            return o, _MAGNITUDE, value
        return put_integer(out, o, sign * value), OK, 0
    if kind == _DATE:
        return _put_date(b, at, out, o)
    if kind == _DECIMAL:
        return _put_decimal(b, at, size, columns[c, 2], columns[c, 3], digits, out, o)
    if kind in (_DATETIME, _INTERVAL):
        return _put_clock(b, at, size, c, columns, kind == _INTERVAL, digits, fields, out, o)
    if kind == _BOOLEAN:
        if b[at] == 1:
            return o, NULL, 0
        if b[at] or b[at + 1] > 1:
            return o, _BOOLEAN_BYTES, 0
        return (put_bytes(_WORDS, 0, 4, out, o) if b[at + 1] else put_bytes(_WORDS, 4, 9, out, o)), OK, 0
    if kind in (_FLOAT, _SMALLFLOAT):
        for k in range(at, stop):
            if b[k] != 0xFF:
                return put_bytes(float_text, float_ends[f], float_ends[f + 1], out, o), OK, 0
        return o, NULL, 0
    if kind == _CHAR:
        if size and b[at] == 0:
            return o, NULL, 0
        while stop > at and b[stop - 1] == 32:
            stop -= 1
        return _put_text(b, at, stop, out, o, ascii_based)
    if kind == _LOB:
        for k in range(at + _LOB_PREFIX, stop):
            if b[k]:
                return put_hex(b, at, stop, out, o, 87), OK, 0
        return o, NULL, 0
    width = LVARCHAR_PREFIX if kind == _LVARCHAR else prefix
    if size < width:
        return o, _NO_PREFIX, size
    length = big_endian(b, at, width)
    if width + length != size:
        return o, _PREFIX, length
    at += width
    if kind == _LVARCHAR:
        if length == 0:
            return o, _NO_FLAG, 0
        if length == 1 and b[at] == 1:
            return o, NULL, 0
        if b[at]:
            return o, _FLAG, np.int64(b[at])
        if length > 1 and b[stop - 1] == 0:
            stop -= 1
        return _put_text(b, at + 1, stop, out, o, ascii_based)
    if length == 1 and b[at] == 0:
        return o, NULL, 0
    return _put_text(b, at, stop, out, o, ascii_based)


@kernel
def put_values(
    b: Bytes, starts: Ints, stops: Ints, column: Ints, columns: Ints, prefix: int, ascii_based: int, float_ends: Ints,
    float_text: Bytes, digits: Ints, fields: Ints, out: Bytes, ends: Any, status: Any, found: Ints,
) -> Any:  # fmt: skip
    """Writes the concatenated texts of many values to ``out``, with their ``ends``; invalid ones as hex. Returns the
    number of texts to be checked in their character set."""
    o, f, encoded = 0, 0, 0
    for v in range(len(starts)):
        c, first = column[v], o
        o, status[v], found[v] = _put_value(
            b, starts[v], stops[v], columns, c, prefix, ascii_based, digits, fields, float_ends, float_text, f, out, o
        )
        if status[v] >= BAD:
            o = put_hex(b, starts[v], stops[v], out, first, 87)
        encoded += status[v] == _ENCODED
        f += columns[c, 0] in (_FLOAT, _SMALLFLOAT)
        ends[v + 1] = o
    return encoded


# --- many values ------------------------------------------------------------------------------------------------------


class Values(NamedTuple):
    """Decoded values: ``text`` (an Arrow string array; null for NULL, hex for invalid ones), ``status`` (a problem from
    :data:`BAD` on) and the number for a problem's sentence."""

    text: pa.Array
    status: npt.NDArray[np.int8]
    found: Ints


def column_table(columns: Sequence[Column]) -> Ints:
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


def decode_values(buffer: Bytes, starts: Ints, stops: Ints, column: Ints, columns: Ints, settings: Settings) -> Values:
    """The values ``buffer[starts:stops]``, each of the column (a row of :func:`column_table`) with its index in
    ``column``. The bytes of a variable-length value include its length prefix."""
    count = len(starts)
    float_ends, float_text = _floats(buffer, starts, columns[column, 0])
    sizes = stops - starts
    # hex takes two characters a byte, a floating decimal up to 64 base-100 digits on each side of its bytes
    extra = np.where((columns[:, 0] == _DECIMAL) & (columns[:, 3] < 0), 130, 34)[column]
    out = np.empty(int((2 * sizes + extra).sum()), dtype=np.uint8)
    ends, status, found = np.zeros(count + 1, np.int32), np.zeros(count, np.int8), np.zeros(count, np.int64)
    codec = settings.charset.lower().replace("_", "-")
    encoded = put_values(
        buffer, starts, stops, column, columns, settings.prefix_width, codec in _ASCII_BASED, float_ends, float_text,
        np.zeros(32, np.int64), np.zeros(8, np.int64), out, ends, status, found,
    )  # fmt: skip
    text = string_array(out, ends, status != NULL)
    if encoded:
        text = _in_charset(text, status, found, settings.charset, codec)
    return Values(text, status, found)


def string_array(out: Bytes, ends: npt.NDArray[np.int32], valid: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """The texts that a kernel wrote to ``out``, null if not valid."""
    count = len(ends) - 1
    bits = None
    if valid is not None and not valid.all():
        bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    data = pa.py_buffer(out[: ends[-1]].copy())  # the buffer has the size of the longest possible texts
    return pa.Array.from_buffers(pa.string(), count, [bits, pa.py_buffer(ends), data])


def _floats(buffer: Bytes, starts: Ints, kinds: Ints) -> tuple[Ints, Bytes]:
    """The shortest exact texts of all FLOAT and SMALLFLOAT values, concatenated, as Arrow writes them; and their
    ends."""
    eight, four = kinds == _FLOAT, kinds == _SMALLFLOAT
    if not eight.any() and not four.any():
        return np.zeros(1, np.int64), np.zeros(1, np.uint8)
    parts, order = [], []
    for chosen, type_, size in ((eight, np.dtype(">f8"), 8), (four, np.dtype(">f4"), 4)):
        at = starts[chosen]
        raw = buffer[at[:, None] + np.arange(size)] if len(at) else np.empty((0, size), np.uint8)
        parts.append(pc.cast(pa.array(raw.reshape(-1).view(type_).astype(type_.newbyteorder("="))), pa.string()))
        order.append(np.flatnonzero(chosen))
    texts = pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(order), kind="stable")))
    _, ends, data = texts.buffers()
    return np.frombuffer(ends, np.int32)[: len(texts) + 1].astype(np.int64), np.frombuffer(data, np.uint8)


def _in_charset(text: pa.Array, status: npt.NDArray[np.int8], found: Ints, charset: str, codec: str) -> pa.Array:
    """The texts in their character set; undecodable ones as hex, with a status."""
    chosen = np.flatnonzero(status == _ENCODED)
    status[chosen] = OK
    raw = text.view(pa.binary())
    if codec in _UTF_8:
        try:
            return pc.cast(raw, pa.string())
        except pa.ArrowInvalid:
            pass
    unique = raw.take(pa.array(chosen)).dictionary_encode()
    texts: list[str] = []
    wrong = np.full(len(unique.dictionary), -1, dtype=np.int64)
    for place, value in enumerate(unique.dictionary.to_pylist()):
        try:
            texts.append(value.decode(charset))
        except UnicodeError as error:
            texts.append(value.hex())
            wrong[place] = error.start if isinstance(error, UnicodeDecodeError) else _NO_LIMIT
    indices = unique.indices.to_numpy()
    bad = wrong[indices] >= 0
    status[chosen[bad]] = _CHARSET
    found[chosen[bad]] = wrong[indices][bad]
    mask = np.zeros(len(text), dtype=bool)
    mask[chosen] = True
    replacements = pa.array(texts, pa.string()).take(unique.indices).cast(pa.binary())
    return pc.replace_with_mask(raw, pa.array(mask), replacements).cast(pa.string())


_UTF_8: Final = frozenset(["utf-8", "utf8"])
_ASCII_BASED: Final = _UTF_8 | frozenset(
    ["ascii", "gbk", "gb2312", "gb18030", "cp936", "big5", "iso-8859-1", "iso8859-1", "latin-1", "latin1",
     "iso-8859-15", "cp1252"]
)  # fmt: skip
"""Character sets in which a byte below 80 (hex) that is not part of a longer character is ASCII."""


# --- one value --------------------------------------------------------------------------------------------------------


class Value(NamedTuple):
    """A decoded value. ``text`` None is SQL NULL. If ``problem`` is set, ``text`` is lower-case hex and ``detail`` has
    the expected and the actual.
    """

    text: str | None
    problem: Problem | None = None
    detail: str = ""


def decode_value(column: Column, raw: bytes, settings: Settings) -> Value:
    """The value of a column from all its bytes in the row, including the length prefix of a variable-length one."""
    buffer, place = np.frombuffer(raw or b"\0", np.uint8), np.zeros(1, np.int64)
    decoded = decode_values(buffer, place, place + len(raw), place, column_table([column]), settings)
    return value_of(column, raw, decoded, 0, settings)


def value_of(column: Column, raw: bytes, decoded: Values, place: int, settings: Settings) -> Value:
    """One of many decoded values with its problem; ``raw`` are its bytes."""
    text: str | None = decoded.text[place].as_py()
    status = int(decoded.status[place])
    if status < BAD:
        return Value(text)
    code, sentence = _SENTENCES[status]
    return Value(text, code, sentence.format(**_facts(column, raw, status, int(decoded.found[place]), settings)))


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
_LIMITS: Final = {
    ColumnKind.DATETIME: {0: (1, 9999), 2: (1, 12), 4: (1, 31), 6: (0, 23), 8: (0, 59), 10: (0, 59)},
    ColumnKind.INTERVAL: {2: (0, 11), 6: (0, 23), 8: (0, 59), 10: (0, 59)},
}


def prefix_width(column: Column, settings: Settings) -> int:
    """Bytes of the length that precedes a variable-length value (§4.2)."""
    return LVARCHAR_PREFIX if column.kind is ColumnKind.LVARCHAR else settings.prefix_width


def _facts(column: Column, raw: bytes, status: int, found: int, settings: Settings) -> dict[str, Any]:
    """The values for the sentences."""
    high = found >> 32 & 0xFFFF
    least, most = _LIMITS.get(column.kind, {}).get(high, (0, 0))
    width = prefix_width(column, settings)
    number = ""
    if status == _PRECISION:  # its value without limits
        floating = Column(1, "", "", ColumnKind.DECIMAL, True, column.size)
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
