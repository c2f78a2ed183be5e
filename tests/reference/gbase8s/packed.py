"""Packed base-100 decimals: DECIMAL and MONEY, DATETIME, INTERVAL (docs/formats/gbase8s.md §4.3 to §4.5)."""

from __future__ import annotations

from typing import Final, NamedTuple

from cdcwb.formats.gbase8s.layout import QUALIFIERS, SchemaColumn

__all__ = ["NoValueError", "datetime_text", "decimal_text", "interval_text"]

_SECOND: Final = QUALIFIERS["second"]


class NoValueError(Exception):
    """Bytes are no value of their type; the message says what was expected and found."""


class _Packed(NamedTuple):
    """0.d1d2d3… x 100**exponent with base-100 digits (§4.3)."""

    negative: bool
    exponent: int
    digits: list[int]


def _unpack(raw: bytes) -> _Packed | None:
    """Takes a packed decimal apart; None is NULL, which begins with two zero bytes (§4.3).

    The first byte holds the sign (bit 7 set: positive) and the exponent plus 64. A negative number is the complement
    of its magnitude: the exponent's bits turned over, each digit taken from 99, the last that is not zero from 100.
    """
    if not any(raw[:2]):
        return None
    negative = not raw[0] & 0x80
    exponent = ((~raw[0] if negative else raw[0]) & 0x7F) - 64
    digits = list(raw[1:])
    if max(digits) > 99:
        raise NoValueError(f"expected base-100 digits up to 99, found {max(digits)}")
    if negative:
        last = max((place for place, digit in enumerate(digits) if digit), default=None)
        if last is None:
            raise NoValueError("expected a negative number, found zero with a negative sign")
        digits[: last + 1] = [99 - digit for digit in digits[:last]] + [100 - digits[last]]
    return _Packed(negative, exponent, digits)


def decimal_text(column: SchemaColumn, raw: bytes) -> str | None:
    """DECIMAL, NUMERIC, MONEY (§4.3): in full, with exactly the scale; floating ones without trailing zeros."""
    packed = _unpack(raw)
    if packed is None:
        return None
    digits = "".join(f"{digit:02d}" for digit in packed.digits)
    point = 2 * packed.exponent
    whole = digits[:point].ljust(point, "0") if point > 0 else ""
    fraction = digits[point:] if point > 0 else "0" * -point + digits
    whole, fraction = whole.lstrip("0"), fraction.rstrip("0")
    if column.scale is not None:
        if len(fraction) > column.scale or len(whole) > (column.precision or 0) - column.scale:
            raise NoValueError(f"expected a value of {column.type}, found {whole or '0'}.{fraction or '0'}")
        fraction = fraction.ljust(column.scale, "0")
    sign = "-" if packed.negative else ""
    return sign + (whole or "0") + ("." + fraction if fraction else "")


class _Clock(NamedTuple):
    """The fields of a DATETIME or INTERVAL, large to small, by their codes; ``fraction`` is digits (empty: none)."""

    negative: bool
    fields: dict[int, int]
    fraction: str


def _clock(column: SchemaColumn, raw: bytes) -> _Clock | None:
    """The fields of a packed DATETIME or INTERVAL (§4.4, §4.5); None is NULL.

    The exponent counts the digits down to SECOND, also where the last field is a larger one. Leading zero pairs are not
    written and lower it: a time of day whose hour is 00 has its minutes where the hours of another stand.
    """
    packed = _unpack(raw)
    if packed is None:
        return None
    whole, behind = column.whole_pairs, (column.fraction + 1) // 2
    grid = [0] * (whole + behind)
    below = max(0, (_SECOND - (column.end or 0)) // 2)
    first = whole + below - packed.exponent
    for place, digit in enumerate(packed.digits, start=first):
        if 0 <= place < len(grid):
            grid[place] = digit
        elif digit:
            raise NoValueError(f"expected a value of {column.type}, found more digits than it has")
    fraction = "".join(f"{digit:02d}" for digit in grid[whole:])
    if fraction[column.fraction :].strip("0"):
        raise NoValueError(f"expected a value of {column.type}, found the fraction .{fraction}")
    fields: dict[int, int] = {}
    at = 0
    start, end = column.start or 0, min(column.end or 0, _SECOND)
    codes = range(start, end + 1, 2)
    for code in codes:
        width = whole - (len(codes) - 1) if code == start else 1
        number = 0
        for digit in grid[at : at + width]:
            number = 100 * number + digit
        fields[code] = number
        at += width
    return _Clock(packed.negative, fields, fraction[: column.fraction])


_NAMES: Final = {code: name for name, code in QUALIFIERS.items()}
_YEAR, _MONTH, _DAY, _HOUR = (QUALIFIERS[name] for name in ("year", "month", "day", "hour"))
_OF_CALENDAR: Final = {0: (1, 9999), 2: (1, 12), 4: (1, 31), 6: (0, 23), 8: (0, 59), 10: (0, 59)}
_OF_SPAN: Final = {2: (0, 11), 6: (0, 23), 8: (0, 59), 10: (0, 59)}
_LONGEST: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def _check(fields: dict[int, int], limits: dict[int, tuple[int, int]]) -> None:
    for code, number in fields.items():
        least, most = limits.get(code, (0, number))
        if not least <= number <= most:
            raise NoValueError(f"expected {_NAMES[code]} {least} to {most}, found {number}")


def _joined(first: str, rest: dict[int, int], before_hour: str, fraction: str) -> str:
    """Fields with the separators of ISO 8601; those behind the first have two digits."""
    text = first
    for code, number in rest.items():
        separator = before_hour if code == _HOUR else "-" if code < _HOUR else ":"
        text += f"{separator}{number:02d}"
    return text + ("." + fraction if fraction else "")


def datetime_text(column: SchemaColumn, raw: bytes) -> str | None:
    """DATETIME (§4.4): ISO 8601 with only its own fields, and exactly the digits of its fraction."""
    clock = _clock(column, raw)
    if clock is None:
        return None
    if clock.negative:
        raise NoValueError("expected a point in time, found a negative number")
    fields = dict(clock.fields)
    _check(fields, _OF_CALENDAR)
    if _MONTH in fields and _DAY in fields:
        month, year = fields[_MONTH], fields.get(_YEAR, 4)  # without a year, February may have 29 days
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        most = 28 if month == 2 and not leap else _LONGEST[month - 1]
        if fields[_DAY] > most:
            raise NoValueError(f"expected day 1 to {most} in month {month}, found {fields[_DAY]}")
    if not fields:
        return "." + clock.fraction
    code = next(iter(fields))
    number = fields.pop(code)
    return _joined(f"{number:04d}" if code == _YEAR else f"{number:02d}", fields, "T", clock.fraction)


def interval_text(column: SchemaColumn, raw: bytes) -> str | None:
    """INTERVAL (§4.5): ``-5 12:34:56.5``, ``3-07``; the first field without zeros in front."""
    clock = _clock(column, raw)
    if clock is None:
        return None
    sign = "-" if clock.negative else ""
    fields = dict(clock.fields)
    if not fields:
        return f"{sign}.{clock.fraction}"
    number = fields.pop(next(iter(fields)))
    _check(fields, _OF_SPAN)
    return sign + _joined(str(number), fields, " ", clock.fraction)
