"""Columns of a generated table and where their values come from.

A column is described without regard to any wire format (:class:`Column`). Its values are plain Python objects:

- SMALLINT, INTEGER, BIGINT, INT8: int
- DATE: datetime.date
- FLOAT, SMALLFLOAT: float (a SMALLFLOAT is already rounded to single precision); never NaN or infinite
- BOOLEAN: bool
- CHAR, VARCHAR, LVARCHAR: str, at most ``length`` bytes in the capture's character set
- DECIMAL: decimal.Decimal; ``scale`` None is a floating decimal
- DATETIME: datetime.datetime, of which only the fields from ``start`` to ``end`` count
- INTERVAL: int, months (YEAR, MONTH) or hundred-thousandths of a second (DAY to FRACTION), signed
- LOB: bytes, the 72 bytes of the locator of a large object

None is SQL NULL.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from enum import StrEnum
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa

Value = int | float | bool | str | bytes | Decimal | date | datetime | None

FIELDS: Final = ("year", "month", "day", "hour", "minute", "second", "fraction")
"""The fields of DATETIME and INTERVAL, largest first."""

UNITS: Final = {
    "year": 12, "month": 1, "day": 8_640_000_000, "hour": 360_000_000, "minute": 6_000_000, "second": 100_000,
}  # fmt: skip
"""What each field of an interval counts in its value: months, or hundred-thousandths of a second."""

LOCATOR_BYTES: Final = 72

SHOP: Final[dict[str, dict[str, list[str]]]] = json.loads(Path(__file__).with_name("shop.json").read_text("utf-8"))
"""The columns of the tables, and the invented words that their rows are made of, in several scripts: a character set
decides which of them a capture can have. Nothing there belongs to a real person or company."""

_WORDS: Final = SHOP["words"]
PHRASES: Final = _WORDS["phrase"]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""From when microseconds count."""

_CONTEXT: Final = Context(prec=40)
_UNSCALED_CONTEXT: Final = Context(prec=100)


class Type(StrEnum):
    """What a column holds."""

    SMALLINT = "smallint"
    INTEGER = "integer"
    BIGINT = "bigint"
    INT8 = "int8"
    DATE = "date"
    FLOAT = "float"
    SMALLFLOAT = "smallfloat"
    BOOLEAN = "boolean"
    CHAR = "char"
    DECIMAL = "decimal"
    DATETIME = "datetime"
    INTERVAL = "interval"
    VARCHAR = "varchar"
    LVARCHAR = "lvarchar"
    LOB = "blob"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its type, and what its values look like (``holds``: key, now, person, city, goods, phrase, state,
    code, or "" for any value of the type; ``edges``: the type's extreme values come first)."""

    name: str
    type: Type
    keyword: str = ""  # the type's name where it is not the usual one: serial, nchar, money, real …
    length: int = 0  # CHAR, VARCHAR, LVARCHAR: the most bytes
    reserve: int | None = None  # VARCHAR(length, reserve)
    precision: int | None = None  # DECIMAL; None: the type's default, not spelled out
    scale: int | None = None  # DECIMAL; None: floating (a MONEY without scale has two places)
    start: str = ""  # DATETIME, INTERVAL: largest field
    end: str = ""  # DATETIME, INTERVAL: smallest field
    fraction: int = 0  # digits of FRACTION when that is the smallest field
    lead: int = 0  # INTERVAL: digits of the largest field; 0: the default, not spelled out
    nullable: bool = True
    holds: str = ""
    edges: bool = False

    @property
    def is_variable(self) -> bool:
        """Whether its values differ in length on the wire."""
        return self.type in (Type.VARCHAR, Type.LVARCHAR)

    @property
    def fields(self) -> tuple[str, ...]:
        """DATETIME and INTERVAL: the fields, largest first."""
        return FIELDS[FIELDS.index(self.start) : FIELDS.index(self.end) + 1]

    @property
    def lead_digits(self) -> int:
        """INTERVAL: digits of the largest field, the default resolved (YEAR 4, any other 2)."""
        return self.lead or (4 if self.start == "year" else 2)

    @property
    def digits(self) -> int:
        """DECIMAL: precision, the default resolved (16)."""
        return 16 if self.precision is None else self.precision

    @property
    def places(self) -> int | None:
        """DECIMAL: scale, MONEY's default resolved; None is floating."""
        return 2 if self.scale is None and self.keyword == "money" else self.scale


def _clip(text: str, size: int, charset: str) -> str:
    """``text`` cut to at most ``size`` bytes of ``charset`` without cutting a character."""
    while len(text.encode(charset)) > size:
        text = text[:-1]
    return text


def _single(number: float) -> float:
    """``number`` rounded to single precision."""
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


@cache
def _spellable(charset: str, *kinds: str) -> list[str]:
    """The words of some kinds that a character set can write."""
    words = [word for kind in kinds for word in _WORDS[kind]]
    return [word for word in words if word.encode(charset, "ignore").decode(charset) == word]


class _Drawer:
    """Draws values of a column."""

    def __init__(self, column: Column, rng: Random, charset: str) -> None:
        self._column, self._rng, self._charset = column, rng, charset
        self._top = {Type.SMALLINT: 2**15 - 1, Type.INTEGER: 2**31 - 1}.get(column.type, 2**63 - 1)
        if column.type is Type.INTERVAL:
            self._step = int(10 ** (5 - column.fraction)) if column.end == "fraction" else UNITS[column.end]
            self._limit = int(10**column.lead_digits) * UNITS[column.start]
        if column.type is Type.DECIMAL:  # of 32 digits with an odd scale, sixteen digit pairs hold one less
            places = column.places or 0
            pairs = (column.digits - places + 1) // 2 + (places + 1) // 2
            self._digits = column.digits if pairs <= 16 else column.digits - 1
        families: dict[tuple[Type, ...], Callable[[], Any]] = {
            (Type.SMALLINT, Type.INTEGER, Type.BIGINT, Type.INT8): self._integer,
            (Type.CHAR, Type.VARCHAR, Type.LVARCHAR): self._text, (Type.DATE,): lambda: self._moment().date(),
            (Type.FLOAT,): lambda: self._float(30), (Type.SMALLFLOAT,): lambda: _single(self._float(12)),
            (Type.BOOLEAN,): lambda: rng.random() < 0.5, (Type.DECIMAL,): self._decimal,
            (Type.DATETIME,): self._moment, (Type.INTERVAL,): self._interval,
            (Type.LOB,): lambda: rng.randbytes(LOCATOR_BYTES),
        }  # fmt: skip
        self.draw: Callable[[], Value] = next(draw for types, draw in families.items() if column.type in types)

    def _float(self, powers: int) -> float:
        """A float made without the mathematical library, whose last digit differs between platforms."""
        if self._column.edges:
            return self._rng.uniform(-10, 10) * float(f"1e{self._rng.randint(-powers, powers)}")
        return round(self._rng.uniform(-12, 40), 2)

    def _integer(self) -> int:
        if not self._column.edges:
            return self._rng.randint(0, min(self._top, 5000))
        return self._rng.randint(-self._top, self._top) >> self._rng.randrange(self._top.bit_length())

    def _decimal(self) -> Decimal:
        column, rng = self._column, self._rng
        if column.places is None:  # two digits fewer than it can hold, so that any alignment of the digit pairs fits
            number = rng.randrange(10 ** rng.randint(1, max(1, column.digits - 2)))
            exponent, negative = (rng.randint(-12, 12) if column.edges else -2), rng.random() < 0.4
        else:
            number = rng.randrange(10 ** rng.randint(1, self._digits if column.edges else min(column.digits, 7)))
            exponent, negative = -column.places, column.edges and rng.random() < 0.5
        return Decimal(-number if negative else number).scaleb(exponent, _CONTEXT)

    def _moment(self) -> datetime:
        rng, edges = self._rng, self._column.edges
        low, high = datetime(2019, 1, 1), datetime(2025, 3, 1)
        if edges:
            low = datetime(1, 1, 1) if rng.random() < 0.3 else datetime(1970, 1, 1)
            high = datetime(9999, 12, 31) if rng.random() < 0.3 else datetime(2060, 1, 1)
        moment = low + timedelta(days=rng.randrange((high - low).days), microseconds=10 * rng.randrange(8_640_000_000))
        if edges and rng.random() < 0.3:  # leading zero fields, which some encodings leave out
            minute, second = rng.choice((0, moment.minute)), rng.choice((0, moment.second))
            moment = moment.replace(hour=0, minute=minute, second=second)
        return moment

    def _interval(self) -> int:
        rng, edges, steps = self._rng, self._column.edges, max(1, self._limit // self._step)
        top = max(1, steps >> rng.randrange(steps.bit_length())) if edges else min(steps, 90)
        return int(rng.randrange(top) * self._step) * (-1 if edges and rng.random() < 0.4 else 1)

    def _text(self) -> str:
        rng, column = self._rng, self._column

        def one(*kinds: str) -> str:
            return rng.choice(_spellable(self._charset, *kinds))

        match column.holds:
            case "person":
                text = f"{one('given name')} {one('family name')}"
            case "phrase":
                count = 0 if rng.random() < 0.1 else rng.choice((1, 1, 1, 2, 4))
                text = "; ".join(one("phrase") for _ in range(count))
            case holds if holds in _WORDS:
                text = one(holds)
            case _:
                text = one("goods", "phrase", "city")
                if rng.random() < 0.1:
                    text += "  "  # trailing spaces are part of a VARCHAR and no part of a CHAR
        return _clip(text, column.length, self._charset)

    def edges(self) -> list[Value]:
        """The extreme values of the column's type."""
        column, size, kind = self._column, self._column.length, self._column.type
        if kind in (Type.SMALLINT, Type.INTEGER, Type.BIGINT, Type.INT8):
            return [self._top, -self._top, 0, 1, -1, 2**8, -(2**8), min(self._top, 2**32)]
        if kind is Type.DECIMAL and column.places is None:
            full = 10 ** max(1, column.digits - 2) - 1
            some: tuple[Any, ...] = (0, 1, -1, "0.1", "-0.01", "1E+20", "-1E-20", full, -full)
            return [Decimal(one) for one in (*some, "1E-130", "9E+124", 100, "12.34", "-12.34")]
        if kind is Type.DECIMAL:
            full = 10**self._digits
            numbers = (0, full - 1, 1 - full, 1, -1, full // 10)
            return [Decimal(number).scaleb(-(column.places or 0), _CONTEXT) for number in numbers]
        if kind is Type.INTERVAL:
            last = self._limit - self._step
            return [0, last, -last, self._step, -self._step]
        if kind in (Type.CHAR, Type.VARCHAR, Type.LVARCHAR):
            full_text = "".join(_spellable(self._charset, "goods")) * (1 + size // 50)
            short = ["", "x", " ", "trail  "[:size], " lead"[:size], "x" * size]
            return [*short, _clip(full_text, size, self._charset)]
        return _EDGES[kind]


_EDGES: Final[dict[Type, list[Value]]] = {
    Type.DATE: [date(1, 1, 1), date(9999, 12, 31), date(1899, 12, 31), date(1899, 12, 30), date(2024, 2, 29)],
    Type.FLOAT: [0.0, -0.0, 1.0, -1.5, 0.1, 1e300, -5e-324, 9.999999999, 1e15, 1e16, 1e-5, 123456789.125, 2.0**53],
    Type.SMALLFLOAT: [
        *map(_single, (0.0, -0.0, 1.0, -1.5, 0.1, 3.4028235e38, -1e-45, 16777216.0, 8.8888889, 1e-5, 1e10))
    ],
    Type.BOOLEAN: [True, False],
    Type.DATETIME: [
        datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999990), datetime(2000, 1, 1, 0, 33, 11, 317730),
        datetime(2024, 2, 29, 0, 0, 9), datetime(2024, 12, 1, 0, 0, 0, 123450), datetime(1970, 1, 1, 0, 0, 0, 10),
        datetime(2024, 1, 10, 10, 0, 0, 100000), datetime(1900, 10, 10, 20, 30, 40, 500000),
    ],
    Type.LOB: [b"\x00" * 71 + b"\x01", b"\xff" * LOCATOR_BYTES],
}  # fmt: skip


def pool(column: Column, rng: Random, size: int, charset: str, null_share: float) -> tuple[list[Value], list[Value]]:
    """The values of a column: (its extreme values, in order; ``size`` values to draw from, NULLs among them).

    The first list is empty unless ``column.edges``. The same ``rng`` state gives the same lists.
    """
    drawer = _Drawer(column, rng, charset)
    edges = ([None] if column.nullable else []) + drawer.edges() if column.edges else []
    drawn = [None if column.nullable and rng.random() < null_share else drawer.draw() for _ in range(size)]
    return edges, edges + drawn


# --- values as text ---------------------------------------------------------------------------------------------------

_TEXT_CONTEXT = Context(prec=400, rounding=ROUND_HALF_EVEN, Emin=-9999, Emax=9999)
_REMEMBERED: Final = 8192


class Memo(dict[Any, Any]):
    """What ``make`` gives for the values of a column, made once and remembered for a while (unless equal values are not
    the same: ``is_exact``); NULL gives ``null``."""

    def __init__(self, make: Callable[[Any], Any], null: Any = (None, None), *, is_exact: bool = False) -> None:
        super().__init__()
        self._make, self._null, self._is_exact = make, null, is_exact

    def __missing__(self, value: Any) -> Any:
        if value is None:
            return self._null
        made = self._make(value)
        if self._is_exact or (value == 0 and isinstance(value, float)):  # 0.0 and -0.0 are equal, but not the same
            return made
        if len(self) > _REMEMBERED:
            self.clear()
        self[value] = made
        return made


def _decimal_text(number: Decimal, places: int | None) -> str:
    if places is not None:
        return f"{number.quantize(Decimal(1).scaleb(-places), context=_TEXT_CONTEXT):f}"
    text = "0" if number == 0 else f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _moment_text(value: datetime, column: Column) -> str:
    parts = []
    for index, name in enumerate(column.fields):
        lead = {"month": "-", "day": "-", "hour": "T"}.get(name, ":") if index else ""
        digits = f"{getattr(value, name, 0):0{4 if name == 'year' else 2}d}"
        parts.append("." + f"{value.microsecond:06d}"[: column.fraction] if name == "fraction" else lead + digits)
    return "".join(parts)


def _interval_text(value: int, column: Column) -> str:
    left, parts = abs(value), ["-" if value < 0 else ""]
    for index, name in enumerate(column.fields):
        if name == "fraction":
            parts.append("." + f"{left:05d}"[: column.fraction])
            continue
        count, left = divmod(left, UNITS[name])
        parts.append(f"{ {'month': '-', 'hour': ' '}.get(name, ':') }{count:02d}" if index else str(count))
    return "".join(parts)


def text_of(column: Column) -> Callable[[Any], str]:
    """The function that writes a value of ``column`` (never None) as text by the rules that every format's truth
    follows.

    Dates and times are ISO 8601 with only their own fields, fixed decimals have exactly their scale, floating ones are
    plain without trailing zeros, floats are the shortest text that reads back as Arrow writes it, binary is lower-case
    hex. A CHAR has no trailing blanks."""
    kind = pa.float64() if column.type is Type.FLOAT else pa.float32()
    texts: dict[Type, Callable[[Any], str]] = {
        Type.DATE: date.isoformat, Type.BOOLEAN: {True: "true", False: "false"}.__getitem__, Type.LOB: bytes.hex,
        Type.CHAR: lambda value: str(value).rstrip(" "), Type.DATETIME: lambda value: _moment_text(value, column),
        Type.DECIMAL: lambda value: _decimal_text(value, column.places),
        Type.INTERVAL: lambda value: _interval_text(value, column),
        **dict.fromkeys((Type.FLOAT, Type.SMALLFLOAT), lambda value: str(pa.scalar(value, kind).cast(pa.string()))),
    }  # fmt: skip
    return texts.get(column.type, str)


def formatter(column: Column) -> Callable[[Any], str | None]:
    """:func:`text_of` with a memory; None (NULL) stays None."""
    return Memo(text_of(column), None).__getitem__


def microseconds(at: datetime) -> int:
    """A time as microseconds since 1970."""
    return (at - EPOCH) // timedelta(microseconds=1)


def unscaled(number: Decimal, scale: int) -> bytes:
    """The digits of a decimal as the shortest two's complement, big-endian."""
    digits = int(number.scaleb(scale, _UNSCALED_CONTEXT))
    return digits.to_bytes((digits if digits >= 0 else ~digits).bit_length() // 8 + 1, "big", signed=True)
