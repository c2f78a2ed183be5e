"""Columns of a generated table and where their values come from.

A column is described without regard to any wire format (:class:`Column`). Its values are plain Python objects:

    SMALLINT INTEGER BIGINT INT8   int DATE                           datetime.date FLOAT SMALLFLOAT
    float (a SMALLFLOAT is already rounded to single precision); never NaN or infinite BOOLEAN
    bool CHAR VARCHAR LVARCHAR          str, at most ``length`` bytes in the capture's character set DECIMAL
    decimal.Decimal; ``scale`` None is a floating decimal DATETIME                       datetime.datetime, of which
    only the fields from ``start`` to ``end`` count INTERVAL                       int: months (YEAR, MONTH) or
    hundred-thousandths of a second (DAY to FRACTION), signed LOB                            bytes: the 72 bytes that
    say where a large object lies

None is SQL NULL.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from enum import StrEnum
from functools import lru_cache
from random import Random
from typing import Any, Final

import pyarrow as pa

from cdcwb_synth import words

__all__ = [
    "EPOCH", "FIELDS", "LOCATOR_BYTES", "UNITS", "Column", "Memo", "Type", "Value", "formatter", "microseconds", "pool",
]  # fmt: skip

Value = int | float | bool | str | bytes | Decimal | date | datetime | None

FIELDS: Final = ("year", "month", "day", "hour", "minute", "second", "fraction")
"""The fields of DATETIME and INTERVAL, largest first."""

UNITS: Final = {
    "year": 12,
    "month": 1,
    "day": 8_640_000_000,
    "hour": 360_000_000,
    "minute": 6_000_000,
    "second": 100_000,
}
"""What each field of an interval counts in its value: months, or hundred-thousandths of a second."""

LOCATOR_BYTES: Final = 72

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""From when microseconds count."""

_CONTEXT = Context(prec=40)


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


def _float(column: Column, rng: Random, powers: int) -> float:
    """A float made without the mathematical library, whose last digit differs between platforms."""
    if column.edges:
        return rng.uniform(-10, 10) * float(f"1e{rng.randint(-powers, powers)}")
    return round(rng.uniform(-12, 40), 2)


def _integer(column: Column, rng: Random) -> int:
    top = {Type.SMALLINT: 2**15 - 1, Type.INTEGER: 2**31 - 1}.get(column.type, 2**63 - 1)
    if not column.edges:
        return rng.randint(0, min(top, 5000))
    return rng.randint(-top, top) >> rng.randrange(top.bit_length())


def _writable_digits(column: Column) -> int:
    """The digits of a fixed decimal that can be written: of 32 with an odd scale, sixteen digit pairs hold one less."""
    places = column.places or 0
    pairs = (column.digits - places + 1) // 2 + (places + 1) // 2
    return column.digits if pairs <= 16 else column.digits - 1


def _decimal(column: Column, rng: Random) -> Decimal:
    digits, places = column.digits, column.places
    if places is None:  # floating: two digits fewer than it can hold, so that any alignment of the digit pairs fits
        number = rng.randrange(10 ** rng.randint(1, max(1, digits - 2)))
        exponent, negative = (rng.randint(-12, 12) if column.edges else -2), rng.random() < 0.4
    else:
        number = rng.randrange(10 ** rng.randint(1, _writable_digits(column) if column.edges else min(digits, 7)))
        exponent, negative = -places, column.edges and rng.random() < 0.5
    return Decimal(-number if negative else number).scaleb(exponent, _CONTEXT)


def _moment(column: Column, rng: Random) -> datetime:
    if column.edges:
        low = datetime(1, 1, 1) if rng.random() < 0.3 else datetime(1970, 1, 1)
        high = datetime(9999, 12, 31) if rng.random() < 0.3 else datetime(2060, 1, 1)
    else:
        low, high = datetime(2019, 1, 1), datetime(2025, 3, 1)
    moment = low + timedelta(days=rng.randrange((high - low).days), microseconds=10 * rng.randrange(8_640_000_000))
    if column.edges and rng.random() < 0.3:  # leading zero fields, which some encodings leave out
        moment = moment.replace(hour=0, minute=rng.choice((0, moment.minute)), second=rng.choice((0, moment.second)))
    return moment


def _interval_limit(column: Column) -> int:
    """One more than the largest value, in the value's own unit."""
    return int(10**column.lead_digits) * UNITS[column.start]


def _interval_step(column: Column) -> int:
    """The smallest value above zero that the fields can say."""
    return int(10 ** (5 - column.fraction)) if column.end == "fraction" else UNITS[column.end]


def _interval(column: Column, rng: Random) -> int:
    limit, step = _interval_limit(column), _interval_step(column)
    steps = max(1, limit // step)
    number = (
        rng.randrange(max(1, steps >> rng.randrange(steps.bit_length())))
        if column.edges
        else rng.randrange(min(steps, 90))
    )
    return int(number * step) * (-1 if column.edges and rng.random() < 0.4 else 1)


def _text(column: Column, rng: Random, charset: str, texts: Callable[[tuple[str, ...]], list[str]]) -> str:
    def one(of: tuple[str, ...]) -> str:
        return rng.choice(texts(of))

    match column.holds:
        case "person":
            text = f"{one(words.GIVEN_NAMES)} {one(words.FAMILY_NAMES)}"
        case "city":
            text = one(words.CITIES)
        case "goods":
            text = one(words.GOODS)
        case "state":
            text = one(words.STATES)
        case "code":
            text = one(words.CODES)
        case "phrase":
            text = (
                "" if rng.random() < 0.1 else "; ".join(one(words.PHRASES) for _ in range(rng.choice((1, 1, 1, 2, 4))))
            )
        case _:
            text = one(words.GOODS + words.PHRASES + words.CITIES)
            if rng.random() < 0.1:
                text += "  "  # trailing spaces are part of a VARCHAR and no part of a CHAR
    return _clip(text, column.length, charset)


def _edges(column: Column, charset: str, texts: Callable[[tuple[str, ...]], list[str]]) -> list[Value]:
    """The extreme values of the column's type."""
    match column.type:
        case Type.SMALLINT | Type.INTEGER | Type.BIGINT | Type.INT8:
            top = {Type.SMALLINT: 2**15 - 1, Type.INTEGER: 2**31 - 1}.get(column.type, 2**63 - 1)
            return [top, -top, 0, 1, -1, 2**8, -(2**8), min(top, 2**32)]
        case Type.DATE:
            return [date(1, 1, 1), date(9999, 12, 31), date(1899, 12, 31), date(1899, 12, 30), date(2024, 2, 29)]
        case Type.FLOAT:
            return [0.0, -0.0, 1.0, -1.5, 0.1, 1e300, -5e-324, 9.999999999, 1e15, 1e16, 1e-5, 123456789.125, 2.0**53]
        case Type.SMALLFLOAT:
            return [
                _single(x) for x in (0.0, -0.0, 1.0, -1.5, 0.1, 3.4028235e38, -1e-45, 16777216.0, 8.8888889, 1e-5, 1e10)
            ]
        case Type.BOOLEAN:
            return [True, False]
        case Type.DECIMAL:
            return _decimal_edges(column)
        case Type.DATETIME:
            return [
                datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999990), datetime(2000, 1, 1, 0, 33, 11, 317730),
                datetime(2024, 2, 29, 0, 0, 9), datetime(2024, 12, 1, 0, 0, 0, 123450),
                datetime(1970, 1, 1, 0, 0, 0, 10),
                datetime(2024, 1, 10, 10, 0, 0, 100000), datetime(1900, 10, 10, 20, 30, 40, 500000),
            ]  # fmt: skip
        case Type.INTERVAL:
            top, step = _interval_limit(column) - _interval_step(column), _interval_step(column)
            return [0, top, -top, step, -step]
        case Type.LOB:
            return [b"\x00" * 71 + b"\x01", b"\xff" * LOCATOR_BYTES]
        case Type.CHAR | Type.VARCHAR | Type.LVARCHAR:
            full = _clip("".join(texts(words.GOODS)) * (1 + column.length // 50), column.length, charset)
            return ["", "x", " ", "trail  "[: column.length], " lead"[: column.length], "x" * column.length, full]


def _decimal_edges(column: Column) -> list[Value]:
    digits, places = column.digits, column.places
    if places is None:
        return [
            Decimal(0), Decimal(1), Decimal(-1), Decimal("0.1"), Decimal("-0.01"), Decimal("1E+20"), Decimal("-1E-20"),
            Decimal(10 ** max(1, digits - 2) - 1), Decimal(1 - 10 ** max(1, digits - 2)), Decimal("1E-130"),
            Decimal("9E+124"), Decimal(100), Decimal("12.34"), Decimal("-12.34"),
        ]  # fmt: skip
    most = _writable_digits(column)
    numbers = (0, 10**most - 1, 1 - 10**most, 1, -1, 10 ** (most - 1))
    return [Decimal(number).scaleb(-places, _CONTEXT) for number in numbers]


def pool(column: Column, rng: Random, size: int, charset: str, null_share: float) -> tuple[list[Value], list[Value]]:
    """The values of a column: (its extreme values, in order; ``size`` values to draw from, NULLs among them).

    The first list is empty unless ``column.edges``. The same ``rng`` state gives the same lists.
    """
    known: dict[tuple[str, ...], list[str]] = {}

    def texts(of: tuple[str, ...]) -> list[str]:
        if of not in known:
            known[of] = words.spellable(of, charset)
        return known[of]

    def one() -> Value:
        match column.type:
            case Type.SMALLINT | Type.INTEGER | Type.BIGINT | Type.INT8:
                return _integer(column, rng)
            case Type.DATE:
                return _moment(column, rng).date()
            case Type.FLOAT:
                return _float(column, rng, 30)
            case Type.SMALLFLOAT:
                return _single(_float(column, rng, 12))
            case Type.BOOLEAN:
                return rng.random() < 0.5
            case Type.DECIMAL:
                return _decimal(column, rng)
            case Type.DATETIME:
                return _moment(column, rng)
            case Type.INTERVAL:
                return _interval(column, rng)
            case Type.LOB:
                return rng.randbytes(LOCATOR_BYTES)
            case Type.CHAR | Type.VARCHAR | Type.LVARCHAR:
                return _text(column, rng, charset, texts)

    edges = ([None] if column.nullable else []) + _edges(column, charset, texts) if column.edges else []
    drawn = [None if column.nullable and rng.random() < null_share else one() for _ in range(size)]
    return edges, edges + drawn


# --- values as text ---------------------------------------------------------------------------------------------------

_TEXT_CONTEXT = Context(prec=400, rounding=ROUND_HALF_EVEN, Emin=-9999, Emax=9999)
_REMEMBERED = 8192


def _plain(number: Decimal, places: int | None) -> str:
    if places is not None:
        return f"{number.quantize(Decimal(1).scaleb(-places), context=_TEXT_CONTEXT):f}"
    if number == 0:
        return "0"
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _moment_text(value: datetime, fields: tuple[str, ...], fraction: int) -> str:
    parts = []
    for place, name in enumerate(fields):
        if name == "fraction":
            parts.append("." + f"{value.microsecond:06d}"[:fraction])
            continue
        if place:
            parts.append({"month": "-", "day": "-", "hour": "T"}.get(name, ":"))
        parts.append(f"{getattr(value, name):0{4 if name == 'year' else 2}d}")
    return "".join(parts)


def _interval_text(value: int, fields: tuple[str, ...], fraction: int) -> str:
    sign, left = ("-" if value < 0 else ""), abs(value)
    parts = []
    for place, name in enumerate(fields):
        if name == "fraction":
            parts.append("." + f"{left:05d}"[:fraction])
            continue
        count, left = divmod(left, UNITS[name])
        parts.append(f"{ {'month': '-', 'hour': ' '}.get(name, ':') }{count:02d}" if place else str(count))
    return sign + "".join(parts)


def _float_text(kind: pa.DataType, packer: struct.Struct) -> Callable[[float], str]:
    known: dict[bytes, str] = {}  # by the bytes, since 0.0 and -0.0 are equal

    def text(value: float) -> str:
        bits = packer.pack(value)
        if bits not in known:
            if len(known) >= _REMEMBERED:
                known.clear()
            known[bits] = pa.scalar(value, kind).cast(pa.string()).as_py()
        return known[bits]

    return text


def formatter(column: Column) -> Callable[[Any], str | None]:
    """The function that writes a value of ``column`` as text by the rules that every format's truth follows; None
    (NULL) stays None.

    Dates and times are ISO 8601 with only their own fields, fixed decimals have exactly their scale, floating ones are
    plain without trailing zeros, floats are the shortest text that reads back as Arrow writes it, binary is lower-case
    hex."""
    write: Callable[[Any], str]
    match column.type:
        case Type.SMALLINT | Type.INTEGER | Type.BIGINT | Type.INT8:
            write = str
        case Type.DATE:
            write = lru_cache(_REMEMBERED)(date.isoformat)
        case Type.FLOAT:
            write = _float_text(pa.float64(), struct.Struct("<d"))
        case Type.SMALLFLOAT:
            write = _float_text(pa.float32(), struct.Struct("<f"))
        case Type.BOOLEAN:
            write = {True: "true", False: "false"}.__getitem__
        case Type.CHAR:
            write = lru_cache(_REMEMBERED)(lambda value: value.rstrip(" "))
        case Type.VARCHAR | Type.LVARCHAR:
            write = str
        case Type.DECIMAL:
            places = column.places
            write = lru_cache(_REMEMBERED)(lambda value: _plain(value, places))
        case Type.DATETIME:
            fields, fraction = column.fields, column.fraction
            write = lru_cache(_REMEMBERED)(lambda value: _moment_text(value, fields, fraction))
        case Type.INTERVAL:
            fields, fraction = column.fields, column.fraction
            write = lru_cache(_REMEMBERED)(lambda value: _interval_text(value, fields, fraction))
        case Type.LOB:
            write = bytes.hex
    return lambda value: None if value is None else write(value)


def microseconds(at: datetime) -> int:
    """A time as microseconds since 1970."""
    return (at - EPOCH) // timedelta(microseconds=1)


class Memo(dict[Any, Any]):
    """What ``make`` gives for the values of a column, made once and remembered for a while; NULL gives ``null``."""

    def __init__(self, make: Callable[[Any], Any], null: Any = (None, None)) -> None:
        super().__init__()
        self._make, self._null = make, null

    def __missing__(self, value: Any) -> Any:
        if value is None:
            return self._null
        made = self._make(value)
        if isinstance(value, float) and value == 0:  # 0.0 and -0.0 are equal, but not the same
            return made
        if len(self) > _REMEMBERED:
            self.clear()
        self[value] = made
        return made
