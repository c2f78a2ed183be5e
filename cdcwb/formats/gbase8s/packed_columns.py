"""Whole columns of packed base-100 numbers: DECIMAL, MONEY, DATETIME, INTERVAL (docs/formats/gbase8s.md §4.3 to §4.5).

The digits of every row are laid on one grid with the point at the same place, from which texts and fields are taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays.texts import bytes_of, from_matrix
from cdcwb.formats.gbase8s.decoded import Decoded, arrow_type
from cdcwb.formats.gbase8s.framing import Bools, Bytes, Ints
from cdcwb.formats.gbase8s.schema import Column, ColumnKind

__all__ = ["decode_clock", "decode_decimal"]

_PAIRS: Final = np.frombuffer(b"".join(b"%02d" % pair for pair in range(100)), dtype=np.uint16)
_FLOATING_PAIRS: Final = 24  # base-100 digits on either side of the point that the fast path lays out
_CODES: Final = (0, 2, 4, 6, 8, 10)  # YEAR MONTH DAY HOUR MINUTE SECOND
_FRACTION: Final = 12
_SEPARATOR: Final = {2: b"-", 4: b"-", 6: b"T", 8: b":", 10: b":"}  # before MONTH, DAY, HOUR, MINUTE, SECOND
_ZERO, _MINUS, _POINT = b"0-."


@dataclass(frozen=True, slots=True)
class _Packed:
    """Numbers taken apart: 0.d1d2d3… x 100**exponent (§4.3).

    ``digits`` are those of the magnitude: a row for each place, a column for each number. ``used`` counts them up to
    the last that is not 0; it is 0 for zero.
    """

    digits: Bytes
    used: Ints
    exponent: Ints
    negative: Bools
    null: Bools
    odd: Bools


def _unpack(matrix: Bytes) -> _Packed:
    """Takes numbers apart; ``matrix`` has a row of bytes for each."""
    columns = np.ascontiguousarray(matrix.T)
    lead, digits = columns[0], columns[1:]
    null = (lead == 0) & (digits[0] == 0)
    negative = (lead < 0x80) & ~null
    exponent = (np.where(negative, ~lead, lead) & 0x7F).astype(np.int64) - 64
    used = np.zeros(len(lead), dtype=np.uint8)
    for place, digit in enumerate(digits, 1):
        np.maximum(used, (digit != 0) * np.uint8(place), out=used)
    odd = negative & (used == 0)
    if digits.max(initial=0) > 99:
        odd |= ~null & (digits > 99).any(axis=0)
        digits = np.minimum(digits, 99)
    if negative.any():  # 100 less the last digit that is not 0, 99 less those before it
        place_of = np.arange(1, len(digits) + 1, dtype=np.uint8)[:, None]
        turned = np.where(place_of < used, 99 - digits, np.where(place_of == used, 100 - digits, 0))
        digits = np.where(negative, turned, digits).astype(np.uint8)
    odd |= ~null & (used > 0) & (digits[0] == 0)  # not normalised; the slow path reads it
    return _Packed(digits, used.astype(np.int64), exponent, negative, null, odd)


def _laid_out(packed: _Packed, whole: int, fraction: int) -> tuple[Bytes, Bools]:
    """The digits on a grid of ``whole`` base-100 places before the point and ``fraction`` behind it, a row for each
    number; and the rows whose digits are there. The others are zero or do not fit: the grid has zeros for them."""
    size, count = packed.digits.shape
    width = whole + fraction
    fits = (packed.used > 0) & ~packed.null & ~packed.odd
    fits &= (packed.exponent <= whole) & (packed.used - packed.exponent <= fraction)
    # each row's digits between zeros: the grid is a piece of it, which begins the further right the larger the exponent
    wide = np.zeros((count, width + max(size, width)), dtype=np.uint8)
    wide[:, width : width + size] = packed.digits.T
    start = np.where(fits, fraction + packed.exponent, 0)
    return bytes_of(wide.reshape(-1), np.arange(count) * wide.shape[1] + start, width), fits


def decode_decimal(column: Column, matrix: Bytes) -> Decoded:
    """DECIMAL, NUMERIC, MONEY: text in full with its scale; floating ones without trailing zeros (§4.3)."""
    packed = _unpack(matrix)
    precision, scale = column.precision or 32, column.scale or 0
    floating = column.scale is None
    if floating:
        whole = fraction = _FLOATING_PAIRS
    else:
        whole, fraction = max(1, (precision - scale + 1) // 2 + 1), (scale + 1) // 2
    grid, fits = _laid_out(packed, whole, fraction)
    odd = packed.odd | (packed.used > 0) & ~packed.null & ~fits
    point = 1 + 2 * whole  # a place for the sign before it
    characters = np.full((len(grid), point + 1 + 2 * fraction), _POINT, dtype=np.uint8)
    digits = _PAIRS[grid].view(np.uint8)
    characters[:, 1:point] = digits[:, : 2 * whole]
    characters[:, point + 1 :] = digits[:, 2 * whole :]
    has_whole = fits & (packed.exponent > 0)
    before = np.where(has_whole, 2 * packed.exponent - (packed.digits[0] < 10), 0)  # digits before the point
    if not floating:
        odd |= before > precision - scale
        if scale % 2:
            odd |= digits[:, 2 * whole + scale] != _ZERO
    start = point - np.maximum(before, 1)
    minus = np.flatnonzero(packed.negative)
    start[minus] -= 1
    characters[minus, start[minus]] = _MINUS
    if floating:
        last = packed.digits[np.maximum(packed.used, 1) - 1, np.arange(len(grid))]
        behind = 2 * (packed.used - packed.exponent) - (last % 10 == 0)
        end = point + np.where(fits & (behind > 0), 1 + behind, 0)
    else:
        end = np.full(len(grid), point + (1 + scale if scale else 0), dtype=np.int64)

    def text() -> pa.Array:
        return from_matrix(characters, start, end, packed.null)

    def typed() -> pa.Array:
        if floating:
            return text()
        safe = from_matrix(characters, start, np.where(odd, start, end), packed.null | odd)
        return pc.cast(safe, arrow_type(column))

    return Decoded(odd, text, typed)


def decode_clock(column: Column, matrix: Bytes) -> Decoded:
    """DATETIME (§4.4) and INTERVAL (§4.5): a packed decimal that holds the qualifier's digits.

    ``2024-01-31T12:34:56.5`` with its own fields only; ``-5 12:34:56.5`` with a leading field without zeros in front.
    """
    interval = column.kind == ColumnKind.INTERVAL
    first_code = column.start or 0
    codes = [code for code in _CODES if first_code <= code <= (column.end or 0)]
    whole, fraction = column.whole_pairs, (column.fraction + 1) // 2
    packed = _unpack(matrix)
    grid, fits = _laid_out(packed, whole, fraction)
    odd = packed.odd | (packed.used > 0) & ~packed.null & ~fits
    digits = _PAIRS[grid].view(np.uint8)
    template = bytearray(b"-" if interval else b"")
    parts: list[tuple[int, int, int]] = []  # place in the text, place in the digits, characters
    values: dict[int, Ints] = {}
    place = 0
    for code in codes:
        pairs = whole - len(codes) + 1 if code == first_code else 1
        if code != first_code:
            template += b" " if interval and code == 6 else _SEPARATOR[code]
        parts.append((len(template), 2 * place, 2 * pairs))
        template += bytes(2 * pairs)
        values[code] = _number(grid[:, place : place + pairs])
        place += pairs
    if column.fraction:
        template += b"."
        parts.append((len(template), 2 * place, column.fraction))
        template += bytes(column.fraction)
        if column.fraction % 2:
            odd |= digits[:, 2 * place + column.fraction] != _ZERO
    odd |= ~packed.null & _out_of_range(values, len(grid), first_code, interval)
    characters = np.empty((len(grid), len(template)), dtype=np.uint8)
    characters[:] = np.frombuffer(bytes(template), dtype=np.uint8)
    for at, first, size in parts:
        characters[:, at : at + size] = digits[:, first : first + size]
    start = np.zeros(len(grid), dtype=np.int64)
    if interval:
        start += 1
        if codes:  # zeros before the leading field's first digit
            for digit in range(1, parts[0][2]):
                start += values[first_code] < 10**digit
        minus = np.flatnonzero(packed.negative)
        start[minus] -= 1
        characters[minus, start[minus]] = _MINUS
    else:
        odd |= packed.negative

    def text() -> pa.Array:
        return from_matrix(characters, start, characters.shape[1], packed.null)

    def typed() -> pa.Array:
        kind = arrow_type(column)
        if pa.types.is_string(kind):
            return text()
        return _moment(values, digits[:, 2 * place :], column.fraction, ~packed.null & ~odd, packed.null, kind)

    return Decoded(odd, text, typed)


def _number(grid: Bytes) -> Ints:
    """Some base-100 digits of each row as a number."""
    number = grid[:, 0].astype(np.int64)
    for pair in range(1, grid.shape[1]):
        number = 100 * number + grid[:, pair]
    return number


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
