"""Values as text, by the rules that every format's truth follows: text that loses nothing.

Written from the rules alone, next to no decoder: dates and times are ISO 8601 with only their own fields, fixed
decimals have exactly their scale, floating ones are plain without trailing zeros, floats are the shortest text that
reads back as Arrow writes it, binary is lower-case hex.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import date, datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa

from cdcwb_synth.values import UNITS, Column, Type

__all__ = ["formatter"]

_CONTEXT = Context(prec=400, rounding=ROUND_HALF_EVEN, Emin=-9999, Emax=9999)
_REMEMBERED = 8192


def _plain(number: Decimal, places: int | None) -> str:
    if places is not None:
        return f"{number.quantize(Decimal(1).scaleb(-places), context=_CONTEXT):f}"
    if number == 0:
        return "0"
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _moment(value: datetime, fields: tuple[str, ...], fraction: int) -> str:
    parts = []
    for place, name in enumerate(fields):
        if name == "fraction":
            parts.append("." + f"{value.microsecond:06d}"[:fraction])
            continue
        if place:
            parts.append({"month": "-", "day": "-", "hour": "T"}.get(name, ":"))
        parts.append(f"{getattr(value, name):0{4 if name == 'year' else 2}d}")
    return "".join(parts)


def _interval(value: int, fields: tuple[str, ...], fraction: int) -> str:
    sign, left = ("-" if value < 0 else ""), abs(value)
    parts = []
    for place, name in enumerate(fields):
        if name == "fraction":
            parts.append("." + f"{left:05d}"[:fraction])
            continue
        count, left = divmod(left, UNITS[name])
        parts.append(f"{ {'month': '-', 'hour': ' '}.get(name, ':') }{count:02d}" if place else str(count))
    return sign + "".join(parts)


def _float(kind: pa.DataType, packer: struct.Struct) -> Callable[[float], str]:
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
    """The function that writes a value of ``column`` as text; None (NULL) stays None."""
    write: Callable[[Any], str]
    match column.type:
        case Type.SMALLINT | Type.INTEGER | Type.BIGINT | Type.INT8:
            write = str
        case Type.DATE:
            write = lru_cache(_REMEMBERED)(date.isoformat)
        case Type.FLOAT:
            write = _float(pa.float64(), struct.Struct("<d"))
        case Type.SMALLFLOAT:
            write = _float(pa.float32(), struct.Struct("<f"))
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
            write = lru_cache(_REMEMBERED)(lambda value: _moment(value, fields, fraction))
        case Type.INTERVAL:
            fields, fraction = column.fields, column.fraction
            write = lru_cache(_REMEMBERED)(lambda value: _interval(value, fields, fraction))
        case Type.LOB:
            write = bytes.hex
    return lambda value: None if value is None else write(value)
