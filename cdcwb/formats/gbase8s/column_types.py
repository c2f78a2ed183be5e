"""Column types: from the words of a schema text to how many bytes a column takes in a row and how they are read
(docs/formats/gbase8s.md §4).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

__all__ = ["MOST_PACKED", "QUALIFIERS", "Column", "ColumnKind", "with_type"]


class ColumnKind(StrEnum):
    """How the bytes of a column are read (§4); ``UNKNOWN`` where no public source describes the encoding (§4.7)."""

    SMALLINT = "smallint"
    INTEGER = "integer"  # and SERIAL
    BIGINT = "bigint"  # and BIGSERIAL
    INT8 = "int8"  # and SERIAL8
    DATE = "date"
    FLOAT = "float"
    SMALLFLOAT = "smallfloat"
    BOOLEAN = "boolean"
    CHAR = "char"  # and NCHAR
    DECIMAL = "decimal"  # NUMERIC and MONEY too
    DATETIME = "datetime"
    INTERVAL = "interval"
    VARCHAR = "varchar"  # and NVARCHAR
    LVARCHAR = "lvarchar"
    LOB = "lob"  # BLOB and CLOB: a locator, no content
    UNKNOWN = "unknown"


QUALIFIERS: Final = {"year": 0, "month": 2, "day": 4, "hour": 6, "minute": 8, "second": 10, "fraction": 12}
"""Fields of DATETIME and INTERVAL by their codes, which rise from large to small (§4.4)."""

MOST_PACKED: Final = 17
"""Bytes of the longest packed decimal: exponent and 32 digits (§4.3)."""

_FRACTION: Final = QUALIFIERS["fraction"]
_DEFAULT_FRACTION: Final = 3
_MOST_FRACTION: Final = 5
_MOST_DIGITS: Final = 32  # precision of a decimal
_FLOATING: Final = 255  # scale by which the catalogue marks a floating decimal
_LOB_BYTES: Final = 76
_LVARCHAR_DEFAULT: Final = 2048
_LARGEST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table schema.

    ``ordinal`` counts from 1. ``type`` is as the text spells it, constraints left out. ``size`` is what a fixed-length
    column takes in a row, in bytes (None: unknown, or of variable length). ``length`` is the most bytes that a value
    may take, as declared (None: not declared). ``scale`` is None for a floating decimal. ``start`` and ``end`` are
    codes of :data:`QUALIFIERS`, ``fraction`` the digits of a fraction (0: none), ``lead`` those of an INTERVAL's first
    field.
    """

    ordinal: int
    name: str
    type: str
    kind: ColumnKind
    fixed: bool
    size: int | None = None
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    start: int | None = None
    end: int | None = None
    fraction: int = 0
    lead: int = 0

    @property
    def whole_pairs(self) -> int:
        """Base-100 digits before the point of a DATETIME's or INTERVAL's packed decimal (§4.4, §4.5)."""
        if self.start is None or self.end is None or self.start == _FRACTION:
            return 0
        lead = (self.lead + 1) // 2 if self.kind is ColumnKind.INTERVAL else (2 if self.start == 0 else 1)
        return lead + (min(self.end, QUALIFIERS["second"]) - self.start) // 2


_PLAIN: Final[dict[str, tuple[ColumnKind, int]]] = {
    "smallint": (ColumnKind.SMALLINT, 2),
    "integer": (ColumnKind.INTEGER, 4),
    "int": (ColumnKind.INTEGER, 4),
    "bigint": (ColumnKind.BIGINT, 8),
    "int8": (ColumnKind.INT8, 10),
    "date": (ColumnKind.DATE, 4),
    "boolean": (ColumnKind.BOOLEAN, 2),
    "smallfloat": (ColumnKind.SMALLFLOAT, 4),
    "real": (ColumnKind.SMALLFLOAT, 4),
    "blob": (ColumnKind.LOB, _LOB_BYTES),
    "clob": (ColumnKind.LOB, _LOB_BYTES),
}
"""Types without arguments, and their bytes in a row (§4.1)."""

_COUNTED: Final[dict[str, tuple[ColumnKind, int]]] = {
    "serial": (ColumnKind.INTEGER, 4),
    "bigserial": (ColumnKind.BIGINT, 8),
    "serial8": (ColumnKind.INT8, 10),
    "float": (ColumnKind.FLOAT, 8),
    "double precision": (ColumnKind.FLOAT, 8),
}
"""Types whose one argument (a first value, a number of digits) does not change their bytes (§4.1)."""

_FIXED_TEXT: Final = ("char", "character", "nchar")
_VARYING: Final = ("varchar", "nvarchar", "character varying")
_DECIMALS: Final = ("decimal", "dec", "numeric", "money")

_WITH_ARGUMENTS: Final = re.compile(r"([a-z][a-z0-9 ]*?)(?:\(([0-9]{1,19})(?:,([0-9]{1,10}))?\))?")
_DATETIME: Final = re.compile(r"datetime (\w+) to (\w+)(?:\(([0-9])\))?", re.ASCII)
_INTERVAL: Final = re.compile(r"interval (\w+)(?:\(([0-9])\))? to (\w+)(?:\(([0-9])\))?", re.ASCII)


def _packed_size(precision: int, scale: int | None) -> int:
    """Bytes of a DECIMAL (§4.3): the point falls between two base-100 digits, so an odd scale may cost one more."""
    odd = 1 if scale is None else scale & 1
    return min(MOST_PACKED, (precision + odd + 3) // 2)


def _decimal(column: Column, money: bool, first: int | None, second: int | None) -> Column:
    precision = 16 if first is None else first
    scale = second
    if second is None and money:
        scale = 2
    elif second == _FLOATING:
        scale = None
    if not 1 <= precision <= _MOST_DIGITS or (scale or 0) > precision:
        return column
    size = _packed_size(precision, scale)
    return replace(
        column, kind=ColumnKind.DECIMAL, fixed=True, size=size, length=size, precision=precision, scale=scale
    )


def _qualified(column: Column, spelling: str) -> Column:
    """DATETIME and INTERVAL (§4.4, §4.5)."""
    found = _DATETIME.fullmatch(spelling)
    kind, lead_text = ColumnKind.DATETIME, None
    if found is not None:
        first, last, digits_text = found.groups()
    else:
        found = _INTERVAL.fullmatch(spelling)
        if found is None:
            return column
        kind = ColumnKind.INTERVAL
        first, lead_text, last, digits_text = found.groups()
    start, end = QUALIFIERS.get(first), QUALIFIERS.get(last)
    if start is None or end is None or start > end or (digits_text is not None and end != _FRACTION):
        return column
    fraction = 0 if end != _FRACTION else int(digits_text or _DEFAULT_FRACTION)
    lead = 0
    if kind is ColumnKind.INTERVAL:
        if start <= QUALIFIERS["month"] < end or (lead_text is not None and start == _FRACTION):
            return column  # months and days do not mix; a fraction has no digits in front
        lead = 0 if start == _FRACTION else int(lead_text or (4 if start == 0 else 2))
        if start != _FRACTION and lead == 0:
            return column
    if end == _FRACTION and not 1 <= fraction <= _MOST_FRACTION:
        return column
    typed = replace(column, kind=kind, fixed=True, start=start, end=end, fraction=fraction, lead=lead)
    size = 1 + typed.whole_pairs + (fraction + 1) // 2
    return replace(typed, size=size, length=size)


def with_type(column: Column, spelling: str) -> Column:
    """The column with what its type says; as it was (UNKNOWN) where the type or its arguments are not known.

    ``spelling`` is the type in lower case, with one space between words and none around parentheses and commas, but for
    one behind a closing parenthesis that a word follows: ``decimal(12,2)``, ``interval day(3) to second``.
    """
    if spelling.startswith(("datetime ", "interval ")):
        return _qualified(column, spelling)
    found = _WITH_ARGUMENTS.fullmatch(spelling)
    if found is None:
        return column
    name = found[1]
    first, second = (None if argument is None else int(argument) for argument in (found[2], found[3]))
    plain = _PLAIN.get(name) if first is None else None
    if name in _COUNTED and second is None:
        plain = _COUNTED[name]
    if plain is not None:
        kind, size = plain
        return replace(column, kind=kind, fixed=True, size=size, length=size)
    if name in _DECIMALS:
        return _decimal(column, name == "money", first, second)
    if first is not None and not 1 <= first <= _LARGEST:
        return column
    if name in _FIXED_TEXT and second is None:
        size = first or 1
        return replace(column, kind=ColumnKind.CHAR, fixed=True, size=size, length=size)
    if name in _VARYING:
        return replace(column, kind=ColumnKind.VARCHAR, fixed=False, length=first)
    if name == "lvarchar" and second is None:
        return replace(column, kind=ColumnKind.LVARCHAR, fixed=False, length=first or _LVARCHAR_DEFAULT)
    return column
