"""What a single value means: its limits, and its text. The readable twin of the columns that are decoded at once."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import numpy as np

from cdcwb.formats.avro.nodes import Fixed, Node, Primitive
from cdcwb.model import Problem

__all__ = ["RANGES", "Finding", "check_number", "check_uuid", "decimal_of", "float_text", "text_of"]

Finding = tuple[Problem, str]
"""What is wrong with a value, as a code and a sentence."""

_DAY: Final = 86_400
_FIRST_DAY: Final = dt.date(1, 1, 1).toordinal() - dt.date(1970, 1, 1).toordinal()
_LAST_DAY: Final = dt.date(9999, 12, 31).toordinal() - dt.date(1970, 1, 1).toordinal()
_FIRST_SECOND: Final = _FIRST_DAY * _DAY
_LAST_SECOND: Final = (_LAST_DAY + 1) * _DAY
_MILLIS: Final = (_FIRST_SECOND * 1_000, _LAST_SECOND * 1_000 - 1)
_MICROS: Final = (_FIRST_SECOND * 1_000_000, _LAST_SECOND * 1_000_000 - 1)

RANGES: Final[dict[str, tuple[int, int]]] = {
    "int": (-(1 << 31), (1 << 31) - 1),
    "date": (_FIRST_DAY, _LAST_DAY),
    "time-millis": (0, _DAY * 1_000 - 1),
    "time-micros": (0, _DAY * 1_000_000 - 1),
    "timestamp-millis": _MILLIS,
    "local-timestamp-millis": _MILLIS,
    "timestamp-micros": _MICROS,
    "local-timestamp-micros": _MICROS,
}
"""Least and greatest number of a type or logical type; dates and times are those of the years 1 to 9999 and of a day,
as far as fastavro reads them."""

_EXPECTED: Final = {
    "int": "an int of 32 bits",
    "date": "a date of the years 1 to 9999 in days since 1970",
    "time-millis": "a time of day in milliseconds",
    "time-micros": "a time of day in microseconds",
    "timestamp-millis": "a time of the years 1 to 9999 in milliseconds since 1970",
    "local-timestamp-millis": "a time of the years 1 to 9999 in milliseconds since 1970",
    "timestamp-micros": "a time of the years 1 to 9999 in microseconds since 1970",
    "local-timestamp-micros": "a time of the years 1 to 9999 in microseconds since 1970",
}


def check_number(node: Primitive, number: int) -> Finding | None:
    """What is wrong with a number as a value of its type."""
    name = node.logical or node.kind
    least, most = RANGES.get(name, (number, number))
    if least <= number <= most:
        return None
    code = Problem.VALUE if name in ("int", "time-millis", "time-micros") else Problem.TIME_RANGE
    return code, f"expected {_EXPECTED[name]}, found {number}"


def check_uuid(text: str) -> Finding | None:
    """What is wrong with a text as a UUID; it may stand in any form that Python reads."""
    try:
        UUID(text)
    except ValueError:
        return Problem.VALUE, f"expected a UUID, found {text!r:.60}"
    return None


def decimal_of(node: Primitive | Fixed, raw: bytes) -> tuple[Any, Finding | None]:
    """A decimal from its unscaled number, big-endian in two's complement; no bytes are 0.

    A Decimal, or its text where Arrow has no decimal of so many digits. A number of more digits than its type has is
    none of it.
    """
    unscaled = int.from_bytes(raw, "big", signed=True)
    if abs(unscaled) >= 10**node.precision:
        found = f"{unscaled}" if len(raw) <= 32 else f"a number of {len(raw)} bytes"
        return None, (Problem.VALUE, f"expected an unscaled number of at most {node.precision} digits, found {found}")
    value = Decimal(f"{unscaled}E-{node.scale}")
    return (value if node.precision <= 76 else f"{value:f}"), None


def text_of(node: Node, value: Any) -> str:
    """The text of a value that is no record, array, map or union: as :func:`cdcwb.formats.avro.text.to_text` has it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return f"{value:f}"
    assert isinstance(node, Primitive)
    if isinstance(value, float):
        return float_text(value, single=node.kind == "float")
    return str(value) if node.logical is None else _moment(node.logical, value)


def float_text(value: float, *, single: bool) -> str:
    """The shortest digits that read back as the same number, of four bytes or of eight, in the form of Python."""
    if not single:
        return repr(value)
    number = np.float32(value)
    if not np.isfinite(number):
        return repr(value)
    if number == 0 or 1e-4 <= abs(number) < 1e16:
        return np.format_float_positional(number, unique=True, trim="0")
    return np.format_float_scientific(number, unique=True, trim="-", exp_digits=2)


def _moment(logical: str, value: int) -> str:
    if logical == "date":
        return (dt.date(1970, 1, 1) + dt.timedelta(days=value)).isoformat()
    digits = 3 if logical.endswith("millis") else 6
    seconds, fraction = divmod(value, 10**digits)
    days, second = divmod(seconds, _DAY)
    time = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{fraction:0{digits}}"
    return time if logical.startswith("time-") else f"{_moment('date', days)}T{time}"
