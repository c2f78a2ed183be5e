"""Whole columns of row images at a time (docs/formats/gbase8s.md §4).

Each decoder takes the bytes of one column of many rows and gives a :class:`Decoded`: text as ``events`` shows it, a
typed array as ``Capture.table`` gives it, and ``odd``, true for the rows whose bytes are not plainly a value of the
type. Odd rows are decoded again one by one (``dissect``), which knows every rare form and says what is wrong; their
slots here are not used.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.gbase8s.schema import Column, ColumnKind
from cdcwb.formats.gbase8s.text import as_text, from_matrix, hex_digits, integers, slices

__all__ = ["Decoded", "arrow_type", "decode_fixed", "decode_variable"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_DAY_ZERO: Final = 25568  # days from 1899-12-31 to 1970-01-01
_FIRST_DAY: Final = -719162  # 0001-01-01, in days from 1970-01-01
_LAST_DAY: Final = 2932896  # 9999-12-31
_SPACE: Final = 0x20
_LOB_PREFIX: Final = 4
_CODES: Final = (0, 2, 4, 6, 8, 10)  # YEAR MONTH DAY HOUR MINUTE SECOND
_SEPARATOR: Final = {2: b"-", 4: b"-", 6: b"T", 8: b":", 10: b":"}  # before MONTH, DAY, HOUR, MINUTE, SECOND
_FRACTION: Final = 12
_FLOATING_PAIRS: Final = 24  # base-100 digits on either side of the point that the fast path lays out


@dataclass(frozen=True, slots=True)
class Decoded:
    """One column of many rows. ``text`` and ``typed`` are made when called; ``odd`` marks the rows not to use."""

    odd: Bools
    text: Callable[[], pa.Array]
    typed: Callable[[], pa.Array]


def arrow_type(column: Column) -> pa.DataType:
    """The type that ``Capture.table`` gives a column.

    Partial DATETIMEs, INTERVALs and floating DECIMALs have no type in Spark that loses nothing, so they stay text.
    """
    simple = {
        ColumnKind.SMALLINT: pa.int16(),
        ColumnKind.INTEGER: pa.int32(),
        ColumnKind.BIGINT: pa.int64(),
        ColumnKind.INT8: pa.int64(),
        ColumnKind.DATE: pa.date32(),
        ColumnKind.FLOAT: pa.float64(),
        ColumnKind.SMALLFLOAT: pa.float32(),
        ColumnKind.BOOLEAN: pa.bool_(),
        ColumnKind.LOB: pa.binary(),
    }
    if column.kind in simple:
        return simple[column.kind]
    if column.kind == ColumnKind.DECIMAL and column.scale is not None and column.precision is not None:
        return pa.decimal128(column.precision, column.scale)
    if column.kind == ColumnKind.DATETIME and column.start == 0 and (column.end or 0) >= 4:
        return pa.date32() if column.end == 4 else pa.timestamp("us")
    return pa.string()


def decode_fixed(column: Column, matrix: Bytes, charset: str) -> Decoded:
    """A fixed-length column; ``matrix`` has a row of ``column.size`` bytes for each row image."""
    if column.kind == ColumnKind.CHAR:
        return _char(matrix, charset)
    if column.kind == ColumnKind.DECIMAL:
        return _decimal(column, matrix)
    if column.kind in (ColumnKind.DATETIME, ColumnKind.INTERVAL):
        return _fields(column, matrix)
    return _PLAIN[column.kind](matrix)


def _big_endian(matrix: Bytes, kind: str) -> npt.NDArray[np.generic]:
    """Each row of bytes as one big-endian number of the given numpy kind."""
    return np.ascontiguousarray(matrix).view(">" + kind)[:, 0]


def _none(count: int) -> Bools:
    return np.zeros(count, dtype=bool)


def _whole(values: Ints, null: Bools, odd: Bools, kind: pa.DataType) -> Decoded:
    return Decoded(odd, lambda: integers(values, null), lambda: pc.cast(pa.array(values, mask=null), kind, safe=False))


def _smallint(matrix: Bytes) -> Decoded:
    """Two bytes; NULL is 8000 (§4.1)."""
    values = _big_endian(matrix, "i2").astype(np.int64)
    return _whole(values, values == -(2**15), _none(len(values)), pa.int16())


def _integer(matrix: Bytes) -> Decoded:
    """Four bytes; NULL is 80000000 (§4.1)."""
    values = _big_endian(matrix, "i4").astype(np.int64)
    return _whole(values, values == -(2**31), _none(len(values)), pa.int32())


def _bigint(matrix: Bytes) -> Decoded:
    """Eight bytes; NULL is 8000000000000000 (§4.1)."""
    values = _big_endian(matrix, "i8").astype(np.int64)
    return _whole(values, values == np.iinfo(np.int64).min, _none(len(values)), pa.int64())


def _int8(matrix: Bytes) -> Decoded:
    """Ten bytes: sign (1, -1; 0 is NULL), low word, high word (§4.1)."""
    sign = _big_endian(matrix[:, 0:2], "i2").astype(np.int64)
    low = _big_endian(matrix[:, 2:6], "u4").astype(np.int64)
    high = _big_endian(matrix[:, 6:10], "u4").astype(np.int64)
    null = (sign == 0) & (low == 0) & (high == 0)
    odd = ~null & ((np.abs(sign) != 1) | (high >= 2**31))
    values = np.where(odd, 0, sign) * ((np.where(odd, 0, high) << 32) | low)
    return _whole(values, null, odd, pa.int64())


def _date(matrix: Bytes) -> Decoded:
    """Four bytes: days since 1899-12-31; NULL is 80000000 (§4.1)."""
    days = _big_endian(matrix, "i4").astype(np.int64)
    null = days == -(2**31)
    days = days - _DAY_ZERO
    odd = ~null & ((days < _FIRST_DAY) | (days > _LAST_DAY))
    dates = pa.array(np.where(odd | null, 0, days).astype(np.int32), mask=null).cast(pa.date32())
    return Decoded(odd, lambda: pc.cast(dates, pa.string()), lambda: dates)


def _float(size: int) -> Callable[[Bytes], Decoded]:
    def decode(matrix: Bytes) -> Decoded:
        """IEEE 754, big-endian; NULL is all bits set (§4.1)."""
        values = _big_endian(matrix, f"f{size}").astype(f"f{size}")
        null = np.all(matrix == 0xFF, axis=1)
        array = pa.array(values, mask=null)
        return Decoded(_none(len(null)), lambda: pc.cast(array, pa.string()), lambda: array)

    return decode


def _boolean(matrix: Bytes) -> Decoded:
    """Two bytes: 1 where NULL, then 0 or 1 (§4.1)."""
    null = (matrix == [1, 0]).all(axis=1)
    odd = ~null & ((matrix[:, 0] != 0) | (matrix[:, 1] > 1))
    array = pa.array(matrix[:, 1] == 1, mask=null)
    return Decoded(odd, lambda: pc.cast(array, pa.string()), lambda: array)


def _lob(matrix: Bytes) -> Decoded:
    """76 bytes: a prefix and the locator, zeroed for NULL; the content is not in the stream (§4.1)."""
    null = (matrix[:, _LOB_PREFIX:] == [0]).all(axis=1)
    width = matrix.shape[1]
    start = np.arange(len(null), dtype=np.int64) * width
    flat = np.ascontiguousarray(matrix).reshape(-1)
    return Decoded(
        _none(len(null)),
        lambda: from_matrix(hex_digits(matrix), 0, 2 * width, null),
        lambda: slices(flat, start, start + width, null),
    )


_PLAIN: Final[dict[ColumnKind, Callable[[Bytes], Decoded]]] = {
    ColumnKind.SMALLINT: _smallint,
    ColumnKind.INTEGER: _integer,
    ColumnKind.BIGINT: _bigint,
    ColumnKind.INT8: _int8,
    ColumnKind.DATE: _date,
    ColumnKind.FLOAT: _float(8),
    ColumnKind.SMALLFLOAT: _float(4),
    ColumnKind.BOOLEAN: _boolean,
    ColumnKind.LOB: _lob,
}


# --- text -------------------------------------------------------------------------------------------------------------


def _char(matrix: Bytes, charset: str) -> Decoded:
    """Padded with spaces; NULL begins with 00 (§4.1)."""
    count, width = matrix.shape
    null: Bools = matrix[:, 0] == 0 if width else _none(count)
    padded = matrix[:, ::-1] == _SPACE
    trailing = (
        np.where(padded.all(axis=1), width, np.argmin(padded, axis=1)) if width else np.zeros(count, dtype=np.int64)
    )
    start = np.arange(count, dtype=np.int64) * width
    flat = np.ascontiguousarray(matrix).reshape(-1)
    return _encoded(slices(flat, start, start + width - trailing, null), charset)


def decode_variable(column: Column, buffer: Bytes, start: Ints, end: Ints, prefix_width: int, charset: str) -> Decoded:
    """A variable-length column; its bytes in row i are ``buffer[start[i]:end[i]]``, length prefix included (§4.2).

    ``start`` must not fall from row to row.
    """
    size = end - start
    lvarchar = column.kind == ColumnKind.LVARCHAR
    prefix = 2 if lvarchar else prefix_width
    least = 3 if lvarchar else prefix
    odd = size < least
    at = np.where(odd, 0, start)
    length = buffer[at].astype(np.int64)
    if prefix == 2:
        length = (length << 8) | buffer[at + 1]
    odd |= length + prefix != size
    first = np.minimum(at + prefix, len(buffer) - 1)  # an empty value may end the buffer
    if lvarchar:
        null = (length == 1) & (buffer[first] == 1)
        odd |= ~null & (buffer[first] != 0)
        stop = end - ((size > 3) & (buffer[np.maximum(end, 1) - 1] == 0))
        begin = start + 3
    else:
        null = (length == 1) & (buffer[first] == 0)
        stop, begin = end, start + prefix
    stop, begin = np.where(odd, start, stop), np.where(odd, start, begin)
    decoded = _encoded(slices(buffer, begin, stop, null | odd), charset)
    return Decoded(odd | decoded.odd, decoded.text, decoded.typed)


def _encoded(raw: pa.Array, charset: str) -> Decoded:
    """Bytes in a character set as text; what the set does not hold is odd."""
    codec = charset.lower().replace("_", "-")
    text = None
    if codec in _ASCII_BASED and _is_ascii(raw):
        text = as_text(raw)
    elif codec in _UTF_8:
        with suppress(pa.ArrowInvalid):
            text = pc.cast(raw, pa.string())
    if text is not None:
        return Decoded(_none(len(raw)), lambda: text, lambda: text)
    unique = raw.dictionary_encode()
    texts: list[str | None] = []
    for value in unique.dictionary:
        try:
            texts.append(value.as_py().decode(charset))
        except UnicodeDecodeError:
            texts.append(None)
    bad = pa.array([text is None for text in texts], pa.bool_())
    odd = bad.take(unique.indices).fill_null(False).to_numpy(zero_copy_only=False)
    decoded = pa.array(texts, pa.string()).take(unique.indices)
    return Decoded(odd, lambda: decoded, lambda: decoded)


_UTF_8: Final = frozenset(["utf-8", "utf8"])
_ASCII_BASED: Final = _UTF_8 | frozenset(
    [
        "ascii",
        "gbk",
        "gb2312",
        "gb18030",
        "cp936",
        "big5",
        "iso-8859-1",
        "iso8859-1",
        "latin-1",
        "latin1",
        "iso-8859-15",
        "cp1252",
    ]
)
"""Character sets in which a byte below 80 that follows no other byte is ASCII."""


def _is_ascii(raw: pa.Array) -> bool:
    _, places, data = raw.buffers()
    if data is None:
        return True
    offsets = np.frombuffer(places, dtype=np.int32)[raw.offset : raw.offset + len(raw) + 1]
    used = np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]]
    return len(used) == 0 or int(used.max()) < 0x80


# --- packed decimals --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Packed:
    """Base-100 numbers taken apart: ``digits`` of the magnitude, 0.d1d2d3… x 100**exponent (§4.3)."""

    digits: Bytes
    exponent: Ints
    negative: Bools
    zero: Bools
    null: Bools
    odd: Bools


def _unpack(matrix: Bytes) -> _Packed:
    lead, raw = matrix[:, 0], matrix[:, 1:]
    zero_first = raw[:, 0] == 0
    null = (lead == 0) & zero_first
    positive = lead >= 0x80
    negative = ~positive & ~null
    exponent = np.where(positive, lead & 0x7F, ~lead & 0x7F).astype(np.int64) - 64
    zero = positive & zero_first
    rows = np.flatnonzero(zero)
    zero[rows] = ~raw[rows].any(axis=1)
    odd = _none(len(matrix))
    if raw.max(initial=0) > 99:
        odd |= ~null & (raw > 99).any(axis=1)
    digits = np.minimum(raw, 99)
    rows = np.flatnonzero(negative)
    if len(rows):
        digits[rows], odd[rows] = _complement(digits[rows].astype(np.int16))
    # a magnitude that begins with 00 is not normalised; the slow path reads it
    odd |= ~null & ~zero & (digits[:, 0] == 0)
    return _Packed(digits, exponent, negative, zero, null, odd)


def _complement(digits: npt.NDArray[np.int16]) -> tuple[npt.NDArray[np.int16], Bools]:
    """The magnitudes of negative numbers: 100 less the last digit that is not 0, 99 less those before it (§4.3); and which
    are none."""
    some = digits != 0
    column = np.arange(digits.shape[1])
    last = digits.shape[1] - 1 - np.argmax(some[:, ::-1], axis=1)[:, None]
    turned = np.where(column == last, 100 - digits, np.where(column < last, 99 - digits, 0))
    return np.clip(turned, 0, 99), (turned < 0).any(axis=1) | (turned > 99).any(axis=1) | ~some.any(axis=1)


def _laid_out(packed: _Packed, whole: int, fraction: int) -> tuple[Bytes, Bools]:
    """The digits on a grid of ``whole`` base-100 places before the point and ``fraction`` behind it; and the rows that
    do not fit there."""
    count, size = packed.digits.shape
    grid = np.zeros((count, whole + fraction), dtype=np.uint8)
    odd = np.zeros(count, dtype=bool)
    usable = ~packed.null & ~packed.zero & ~packed.odd
    for exponent in np.unique(packed.exponent[usable]):
        rows = np.flatnonzero(usable & (packed.exponent == exponent))
        at = whole - int(exponent)  # grid column of the first digit
        first, last = max(0, -at), min(size, whole + fraction - at)
        digits = packed.digits[rows]
        if last > first:
            grid[rows[:, None], np.arange(at + first, at + last)] = digits[:, first:last]
        lost = np.zeros(len(rows), dtype=bool)
        if first > 0:
            lost |= digits[:, : min(first, size)].any(axis=1)
        if last < size:
            lost |= digits[:, max(last, 0) :].any(axis=1)
        odd[rows] = lost
    return grid, odd


def _characters(grid: Bytes) -> Bytes:
    """Each base-100 digit as two ASCII digits."""
    out = np.empty((grid.shape[0], 2 * grid.shape[1]), dtype=np.uint8)
    out[:, 0::2] = grid // 10 + 48
    out[:, 1::2] = grid % 10 + 48
    return out


def _decimal(column: Column, matrix: Bytes) -> Decoded:
    """DECIMAL, NUMERIC, MONEY: text in full with its scale; floating ones without trailing zeros (§4.3)."""
    packed = _unpack(matrix)
    floating = column.scale is None
    scale = 0 if column.scale is None else column.scale
    if floating:
        whole = fraction = _FLOATING_PAIRS
    else:
        whole, fraction = max(1, ((column.precision or 32) - scale + 1) // 2 + 1), (scale + 1) // 2
    grid, lost = _laid_out(packed, whole, fraction)
    odd = packed.odd | lost
    count, point = len(grid), 1 + 2 * whole
    characters = np.full((count, point + 1 + 2 * fraction), 46, dtype=np.uint8)  # sign, whole, '.', fraction
    digits = _characters(grid)
    characters[:, 1:point] = digits[:, : 2 * whole]
    characters[:, point + 1 :] = digits[:, 2 * whole :]
    if not floating:
        beyond = digits[:, : 2 * whole - ((column.precision or 32) - scale)]
        odd |= (beyond != 48).any(axis=1)  # more digits than the precision says
        if scale % 2:
            odd |= characters[:, point + 1 + scale] != 48  # or than the scale
    start = 1 + np.minimum(np.argmax(digits[:, : 2 * whole] != 48, axis=1), 2 * whole - 1)
    start = np.where((digits[:, : 2 * whole] == 48).all(axis=1), point - 1, start)
    minus = packed.negative & ~packed.null
    rows = np.flatnonzero(minus)
    start[rows] -= 1
    characters[rows, start[rows]] = 45
    if floating:
        tail = digits[:, 2 * whole :][:, ::-1] != 48
        zeros = np.where(tail.any(axis=1), np.argmax(tail, axis=1), 2 * fraction)
        used = 2 * fraction - zeros
        end: Ints = point + np.where(used > 0, 1 + used, 0)
    else:
        end = np.full(count, point + (1 + scale if scale else 0), dtype=np.int64)

    def text() -> pa.Array:
        return from_matrix(characters, start, end, packed.null)

    def typed() -> pa.Array:
        if floating:
            return text()
        safe = from_matrix(characters, start, np.where(odd, start, end), packed.null | odd)
        return pc.cast(safe, arrow_type(column))

    return Decoded(odd, text, typed)


# --- DATETIME and INTERVAL --------------------------------------------------------------------------------------------


def _fields(column: Column, matrix: Bytes) -> Decoded:
    """DATETIME (§4.4) and INTERVAL (§4.5): a packed decimal that holds the qualifier's digits."""
    interval = column.kind == ColumnKind.INTERVAL
    start_code = column.start or 0
    end_code = column.end or 0
    codes = [code for code in _CODES if start_code <= code <= end_code]
    lead_digits = column.lead if interval else (4 if start_code == 0 else 2)
    pairs = [(lead_digits + 1) // 2 if code == start_code else 1 for code in codes]
    whole, fraction = sum(pairs), (column.fraction + 1) // 2
    packed = _unpack(matrix)
    grid, lost = _laid_out(packed, whole, fraction)
    odd = packed.odd | lost
    if not interval:
        odd |= packed.negative
    digits = _characters(grid)
    pieces: list[Bytes] = []
    values: dict[int, Ints] = {}
    place = 0
    for code, width in zip(codes, pairs, strict=True):
        if code != start_code:
            separator = _SEPARATOR[code] if not (interval and code == 6) else b" "
            pieces.append(np.full((len(grid), 1), separator[0], dtype=np.uint8))
        pieces.append(digits[:, 2 * place : 2 * (place + width)])
        number = np.zeros(len(grid), dtype=np.int64)
        for pair in range(place, place + width):
            number = 100 * number + grid[:, pair]
        values[code] = number
        place += width
    if column.fraction or start_code == _FRACTION:
        pieces.append(np.full((len(grid), 1), 46, dtype=np.uint8))
        pieces.append(digits[:, 2 * place : 2 * place + column.fraction])
        if column.fraction % 2:
            odd |= digits[:, 2 * place + column.fraction] != 48
    usable = ~packed.null & ~odd
    odd |= ~packed.null & _out_of_range(values, len(grid), start_code, interval)
    body = np.concatenate(pieces, axis=1) if pieces else np.empty((len(grid), 0), dtype=np.uint8)
    if interval:
        return _interval(body, 2 * pairs[0] if pairs else 0, packed, odd)
    null = packed.null

    def text() -> pa.Array:
        return from_matrix(np.ascontiguousarray(body), 0, body.shape[1], null)

    def typed() -> pa.Array:
        kind = arrow_type(column)
        if pa.types.is_string(kind):
            return text()
        good = usable & ~odd
        return _moment(values, digits[:, 2 * place :], column.fraction, good, null, kind)

    return Decoded(odd, text, typed)


def _interval(body: Bytes, lead: int, packed: _Packed, odd: Bools) -> Decoded:
    """``-5 12:34:56.5``: the leading field without zeros in front, a sign where negative."""
    characters = np.concatenate([np.full((len(body), 1), 45, dtype=np.uint8), body], axis=1)
    if lead:
        first = body[:, :lead] != 48
        skip = np.where(first.any(axis=1), np.argmax(first, axis=1), lead - 1)
    else:
        skip = np.zeros(len(body), dtype=np.int64)
    start = 1 + skip.astype(np.int64)
    rows = np.flatnonzero(packed.negative & ~packed.null)
    start[rows] -= 1
    characters[rows, start[rows]] = 45

    def text() -> pa.Array:
        return from_matrix(characters, start, characters.shape[1], packed.null)

    return Decoded(odd, text, text)


def _out_of_range(values: dict[int, Ints], count: int, start_code: int, interval: bool) -> Bools:
    """Rows with a field that no calendar or clock has."""
    odd = np.zeros(count, dtype=bool)
    most = {2: 11, 6: 23, 8: 59, 10: 59} if interval else {2: 12, 4: 31, 6: 23, 8: 59, 10: 59}
    for code, limit in most.items():
        if code in values and not (interval and code == start_code):
            odd |= values[code] > limit
    if interval:
        return odd
    for code in (0, 2, 4):
        if code in values:
            odd |= values[code] < 1
    if 2 in values and 4 in values:
        longest = np.array([31, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
        odd |= values[4] > longest[np.minimum(values[2], 12)]
        if 0 in values:
            year = values[0]
            leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
            odd |= (values[2] == 2) & (values[4] == 29) & ~leap
    return odd


def _moment(
    values: dict[int, Ints], fraction_digits: Bytes, digits: int, good: Bools, null: Bools, kind: pa.DataType
) -> pa.Array:
    """Fields from the year on as a date or a timestamp without time zone."""
    year = np.where(good, values[0], 1970) - 1970
    month = np.where(good, values[2], 1) - 1
    day = np.where(good, values[4], 1) - 1
    months = (year * 12 + month).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + day.astype("timedelta64[D]")
    if pa.types.is_date(kind):
        return pa.array(days, mask=null)
    seconds = np.zeros(len(good), dtype=np.int64)
    for code, unit in ((6, 3600), (8, 60), (10, 1)):
        if code in values:
            seconds += np.where(good, values[code], 0) * unit
    micros = np.zeros(len(good), dtype=np.int64)
    for place in range(digits):
        micros += (fraction_digits[:, place].astype(np.int64) - 48) * 10 ** (5 - place)
    moments = days.astype("datetime64[us]") + (seconds * 1_000_000 + np.where(good, micros, 0)).astype(
        "timedelta64[us]"
    )
    return pa.array(moments, mask=null)
