"""Column values as GBase 8s writes them into a row payload, and column types as its schema text spells them.

All integers and floats are big-endian (``docs/formats/gbase8s.md §4``); NULL is a pattern of its own in every type.
This is the encoder's half and shares nothing with the decoders.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from cdcwb_synth.values import UNITS, Column, Type

__all__ = ["LOB_PREFIX", "declared", "encoder", "fixed_size", "spelled"]

LOB_PREFIX: Final = b"\x00\x00\x00\x48"
"""The four bytes before a large object's locator (§4.1). Their meaning is not known; here the locator's length."""

_DAY_ZERO: Final = date(1899, 12, 31).toordinal()
_REMEMBERED: Final = 8192


def fixed_size(column: Column) -> int:
    """Bytes that a fixed-length column takes in a row (§4.1)."""
    match column.type:
        case Type.SMALLINT | Type.BOOLEAN:
            return 2
        case Type.INTEGER | Type.DATE | Type.SMALLFLOAT:
            return 4
        case Type.BIGINT | Type.FLOAT:
            return 8
        case Type.INT8:
            return 10
        case Type.CHAR:
            return column.length
        case Type.LOB:
            return 76
        case Type.DECIMAL:  # §4.3; a floating decimal counts as one with an odd scale
            odd = 1 if column.places is None else column.places % 2
            return min(17, (column.digits + odd + 3) // 2)
        case Type.DATETIME:  # §4.4
            whole = sum(2 if f == "year" else 1 for f in column.fields if f != "fraction")
            return 1 + whole + (column.fraction + 1) // 2
        case Type.INTERVAL:  # §4.5
            rest = sum(2 for f in column.fields[1:] if f != "fraction")
            return 1 + (column.lead_digits + rest + 1) // 2 + (column.fraction + 1) // 2
        case Type.VARCHAR | Type.LVARCHAR:
            raise ValueError(f"{column.type} has no fixed size")


def declared(column: Column) -> tuple[int, int | None, int | None]:
    """What a schema says of a column: (length in bytes, precision, scale).

    The length is what the column takes in a row, or the most its value can take where that varies. Precision and
    scale are those of a decimal (scale None: floating) and None for every other type.
    """
    length = column.length if column.is_variable else fixed_size(column)
    return (length, column.digits, column.places) if column.type is Type.DECIMAL else (length, None, None)


def spelled(column: Column) -> str:
    """The column's type in the words of CREATE TABLE (§5)."""
    name = column.keyword or str(column.type)
    match column.type:
        case Type.CHAR | Type.LVARCHAR:
            return f"{name}({column.length})"
        case Type.VARCHAR:
            return f"{name}({column.length})" if column.reserve is None else f"{name}({column.length},{column.reserve})"
        case Type.DECIMAL:
            if column.precision is None:
                return name
            return (
                f"{name}({column.precision})" if column.scale is None else f"{name}({column.precision},{column.scale})"
            )
        case Type.DATETIME | Type.INTERVAL:
            kind = "datetime" if column.type is Type.DATETIME else "interval"
            lead = f"({column.lead})" if column.lead else ""
            end = f"fraction({column.fraction})" if column.end == "fraction" else column.end
            return f"{kind} {column.start}{lead} to {end}"
        case _:
            return name


def _packed(negative: bool, pairs: list[int], exponent: int, size: int) -> bytes:
    """A packed decimal (§4.3): ``pairs`` are base-100 digits, of which ``exponent`` precede the decimal point."""
    first = next((i for i, pair in enumerate(pairs) if pair), None)
    if first is None:
        return b"\x80".ljust(size, b"\x00")
    last = max(i for i, pair in enumerate(pairs) if pair)
    digits, head = pairs[first : last + 1], 0x80 | (64 + exponent - first)
    if negative:  # the hundred's complement: from 99, but the last digit from 100
        digits = [99 - digit for digit in digits[:-1]] + [100 - digits[-1]]
        head = (head ^ 0x7F) & 0x7F
    if len(digits) >= size:
        raise ValueError(f"{len(digits)} digit pairs do not fit into {size} bytes")
    return bytes([head, *digits]).ljust(size, b"\x00")


def _pairs(digits: str) -> list[int]:
    """Base-100 digits of a text with an even number of decimal digits."""
    return [int(digits[i : i + 2]) for i in range(0, len(digits), 2)]


def _decimal(value: Decimal, size: int) -> bytes:
    sign, numbers, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} cannot be written")
    digits = "".join(map(str, numbers))
    if exponent % 2:  # shift so that the decimal point falls between two pairs
        digits, exponent = digits + "0", exponent - 1
    digits = digits.zfill(len(digits) + len(digits) % 2)
    return _packed(bool(sign), _pairs(digits), len(digits) // 2 + exponent // 2, size)


def _fraction(digits: str, wanted: int) -> list[int]:
    """The pairs of ``wanted`` fraction digits, left-aligned (an odd number of digits: the last one times ten)."""
    digits = digits[:wanted]
    return _pairs(digits + "0" * (len(digits) % 2))


def _below(column: Column) -> int:
    """Digit pairs between a column's last field and SECOND, on which the exponent is aligned; not written (§4.4)."""
    order = ("second", "minute", "hour", "day", "month", "year")
    return order.index(column.end) if column.end in order else 0


def _moment(value: datetime, column: Column, size: int) -> bytes:
    pairs: list[int] = []
    for field in column.fields:
        if field == "fraction":
            break
        number = getattr(value, field)
        pairs += divmod(number, 100) if field == "year" else (number,)
    whole = len(pairs) + _below(column)
    if column.end == "fraction":
        pairs += _fraction(f"{value.microsecond:06d}", column.fraction)
    return _packed(False, pairs, whole, size)


def _interval(value: int, column: Column, size: int) -> bytes:
    left, numbers = abs(value), []
    for field in column.fields:
        if field == "fraction":
            break
        number, left = divmod(left, UNITS[field])
        numbers.append(number)
    lead = f"{numbers[0]:0{column.lead_digits + column.lead_digits % 2}d}"
    pairs = _pairs(lead) + numbers[1:]
    whole = len(pairs) + _below(column)
    if column.end == "fraction":
        pairs += _fraction(f"{left:05d}", column.fraction)
    return _packed(value < 0, pairs, whole, size)


def _int8(value: int) -> bytes:
    return struct.pack(">hII", -1 if value < 0 else 1, abs(value) & 0xFFFFFFFF, abs(value) >> 32)


def encoder(column: Column, charset: str, prefix_width: int) -> Callable[[Any], bytes]:
    """The function that writes a value of ``column`` (None: NULL) as its bytes in a row.

    ``prefix_width`` (1 or 2) is the size of the length before a VARCHAR (§4.2).
    """
    write: Callable[[Any], bytes]
    match column.type:
        case Type.SMALLINT:
            write, null = struct.Struct(">h").pack, b"\x80\x00"
        case Type.INTEGER:
            write, null = struct.Struct(">i").pack, b"\x80\x00\x00\x00"
        case Type.BIGINT:
            write, null = struct.Struct(">q").pack, b"\x80".ljust(8, b"\x00")
        case Type.INT8:
            write, null = _int8, bytes(10)
        case Type.DATE:
            pack = struct.Struct(">i").pack
            write, null = lambda value: pack(value.toordinal() - _DAY_ZERO), b"\x80\x00\x00\x00"
        case Type.FLOAT:
            write, null = struct.Struct(">d").pack, b"\xff" * 8
        case Type.SMALLFLOAT:
            write, null = struct.Struct(">f").pack, b"\xff" * 4
        case Type.BOOLEAN:
            write, null = {True: b"\x00\x01", False: b"\x00\x00"}.__getitem__, b"\x01\x00"
        case Type.CHAR:
            length = column.length
            write = lru_cache(_REMEMBERED)(lambda value: value.encode(charset).ljust(length, b" "))
            null = b"\x00".ljust(length, b" ")
        case Type.LOB:
            write, null = lambda value: LOB_PREFIX + value, bytes(76)
        case Type.DECIMAL:
            size = fixed_size(column)
            write, null = lru_cache(_REMEMBERED)(lambda value: _decimal(value, size)), bytes(size)
        case Type.DATETIME:
            size = fixed_size(column)
            write, null = lru_cache(_REMEMBERED)(lambda value: _moment(value, column, size)), bytes(size)
        case Type.INTERVAL:
            size = fixed_size(column)
            write, null = lru_cache(_REMEMBERED)(lambda value: _interval(value, column, size)), bytes(size)
        case Type.VARCHAR:
            write, null = _varchar(charset, prefix_width), b"\x01\x00".rjust(prefix_width + 1, b"\x00")
        case Type.LVARCHAR:
            write, null = _lvarchar(charset), b"\x00\x01\x01"
    return lambda value: null if value is None else write(value)


def _varchar(charset: str, prefix_width: int) -> Callable[[str], bytes]:
    def write(value: str) -> bytes:
        data = value.encode(charset)
        return len(data).to_bytes(prefix_width, "big") + data

    return lru_cache(_REMEMBERED)(write)


def _lvarchar(charset: str) -> Callable[[str], bytes]:
    def write(value: str) -> bytes:
        data = value.encode(charset)
        return (len(data) + 1).to_bytes(2, "big") + b"\x00" + data

    return lru_cache(_REMEMBERED)(write)
