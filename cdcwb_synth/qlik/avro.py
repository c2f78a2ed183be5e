"""Values and schemas in Avro (``docs/formats/qlik-kafka.md §2.2, §4.1, §8``), written byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any, Final

import numpy as np

from cdcwb_synth.qlik.cells import Cell, Cells, spelled_cells
from cdcwb_synth.qlik.columns import Described, plain, typed

__all__ = ["avro_cells", "avro_type", "data", "double_text", "float_text", "long", "string"]

_DAY_ZERO: Final = date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_CONTEXT: Final = Context(prec=80)
_PRESENT: Final = b"\x02"  # the second branch of [null, T]


def long(number: int) -> bytes:
    """A zigzag varint, seven bits a byte, lowest first."""
    value = number << 1 if number >= 0 else (-number << 1) - 1
    if value < 0x4000:
        return bytes((value,)) if value < 0x80 else bytes((value & 0x7F | 0x80, value >> 7))
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


_LENGTHS: Final = tuple(long(number) for number in range(1024))


def data(value: bytes) -> bytes:
    """Bytes: their number and they themselves."""
    size = len(value)
    return (_LENGTHS[size] if size < 1024 else long(size)) + value


def string(text: str) -> bytes:
    """A string in UTF-8."""
    value = text.encode()
    size = len(value)
    return (_LENGTHS[size] if size < 1024 else long(size)) + value


def avro_type(column: Described, logical: bool) -> Any:
    """The type of a column, without its null; ``logical``: with logical types where there are some."""
    match column.type:
        case "INT2" | "INT4":
            return "int"
        case "INT8":
            return "long"
        case "REAL4":
            return "float"
        case "REAL8":
            return "double"
        case "BOOLEAN":
            return "boolean"
        case "BLOB":
            return "bytes"
        case "DATE" if logical:
            return {"type": "int", "logicalType": "date"}
        case "TIME" if logical:
            return {"type": "int", "logicalType": "time-millis"}
        case "DATETIME" if logical:
            return {"type": "long", "logicalType": "timestamp-micros"}
        case "NUMERIC" if logical:
            return {"type": "bytes", "logicalType": "decimal", "precision": column.precision, "scale": column.scale}
        case _:
            return "string"


def double_text(value: float) -> str:
    """The shortest text that reads back."""
    return repr(value)


def float_text(value: float) -> str:
    """The shortest text that reads back as the same number of single precision."""
    return repr(float(np.format_float_scientific(np.float32(value), unique=True)))


def avro_cells(column: Described, logical: bool) -> Cells:
    """Values of the union [null, T]. Their text is that of what a decoder gets: times of a logical type have all the
    digits of their unit, bytes are lower-case hex."""
    encode, text = _writer(column, logical)
    value_of = typed(column)

    def make(value: Any) -> Cell:
        value = value_of(value)
        return _PRESENT + encode(value), text(value)

    def integer(value: Any) -> Cell:
        return _PRESENT + long(value), str(value)

    return spelled_cells(column, integer if text is str and encode is long else make, (b"\x00", None))


def _writer(column: Described, logical: bool) -> tuple[Callable[[Any], bytes], Callable[[Any], str]]:
    match avro_type(column, logical):
        case "int" | "long":
            return long, str
        case "float":
            return struct.Struct("<f").pack, float_text
        case "double":
            return struct.Struct("<d").pack, double_text
        case "boolean":
            return (lambda value: b"\x01" if value else b"\x00"), (lambda value: "true" if value else "false")
        case "bytes":
            return data, bytes.hex
        case {"logicalType": "date"}:
            return (lambda value: long(value.toordinal() - _DAY_ZERO)), date.isoformat
        case {"logicalType": "time-millis"}:
            return (lambda value: long(_milliseconds(value))), (lambda value: value.isoformat("milliseconds"))
        case {"logicalType": "timestamp-micros"}:
            return (
                lambda value: long((value - _EPOCH) // _MICROSECOND),
                lambda value: str(value.isoformat("T", "microseconds")),
            )
        case {"logicalType": "decimal", "scale": scale}:
            spelled = plain(column)
            return (lambda value: data(_unscaled(value, scale))), spelled
        case _:
            return _text_writer(column)


def _text_writer(column: Described) -> tuple[Callable[[Any], bytes], Callable[[Any], str]]:
    """Strings: texts as they are, and what has no logical type as text files have it."""
    match column.type:
        case "DATE" | "TIME":
            spelled: Callable[[Any], str] = lambda value: str(value.isoformat())  # noqa: E731
        case "DATETIME":
            spelled = lambda value: str(value.isoformat(" ", "microseconds"))  # noqa: E731
        case "NUMERIC":
            spelled = plain(column)
        case _:
            spelled = str
    return (lambda value: string(spelled(value))), spelled


def _milliseconds(value: time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


def _unscaled(value: Decimal, scale: int) -> bytes:
    """The digits of a decimal as the shortest two's complement, big-endian."""
    number = int(value.scaleb(scale, _CONTEXT))
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)
