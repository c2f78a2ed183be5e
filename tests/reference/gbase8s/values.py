"""One column value at a time: its bytes in a row payload to text that loses nothing (docs/formats/gbase8s.md §4).

There is no null bitmap: NULL is a pattern of its own in every type. Integers and floats are big-endian. Bytes that
are no value of their type come back as lower-case hex with a problem, never as a guess.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import date
from typing import Final

import pyarrow as pa

from cdcwb.formats.gbase8s.layout import LVARCHAR_PREFIX, ColumnKind, SchemaColumn, StreamSettings
from cdcwb.formats.gbase8s.values import ColumnValue
from cdcwb.model import Problem
from tests.reference.gbase8s.packed import NoValueError, datetime_text, decimal_text, interval_text

__all__ = ["decode", "prefix_width"]


_DAY_ZERO: Final = date(1899, 12, 31).toordinal()
_LOB_PREFIX: Final = 4


def prefix_width(column: SchemaColumn, settings: StreamSettings) -> int:
    """Bytes of the length in front of a variable-length value (§4.2)."""
    return LVARCHAR_PREFIX if column.kind is ColumnKind.LVARCHAR else settings.prefix_width


def decode(column: SchemaColumn, raw: bytes, settings: StreamSettings) -> ColumnValue:
    """The value of a column from all its bytes in the row, the length prefix of a variable-length one included.

    ``raw`` has ``column.size`` bytes for a fixed-length column, and as many as its size word says for the others; a
    prefix that contradicts them is a problem. Never raises for a column whose kind is known.
    """
    try:
        if column.kind is ColumnKind.CHAR:
            return _text(_char(raw), settings)
        if column.kind is ColumnKind.VARCHAR:
            return _text(_varchar(raw, settings.prefix_width), settings)
        if column.kind is ColumnKind.LVARCHAR:
            return _text(_lvarchar(raw), settings)
        if column.kind in _PACKED:
            return ColumnValue(_PACKED[column.kind](column, raw))
        return ColumnValue(_PLAIN[column.kind](raw))
    except _WrongLengthError as error:
        return ColumnValue(raw.hex(), Problem.SIZE_WORDS, str(error))
    except NoValueError as error:
        return ColumnValue(raw.hex(), Problem.VALUE, str(error))


# --- numbers, dates, booleans -----------------------------------------------------------------------------------------


def _integer(raw: bytes) -> str | None:
    """Two's complement; the smallest number is NULL (§4.1)."""
    number = int.from_bytes(raw, "big", signed=True)
    return None if number == -(1 << (8 * len(raw) - 1)) else str(number)


def _int8(raw: bytes) -> str | None:
    """INT8, SERIAL8: sign (1, -1; NULL is all zero) in two bytes, then low and high half of the magnitude (§4.1)."""
    sign, low, high = struct.unpack(">hII", raw)
    magnitude = high << 32 | low
    if sign == 0 and magnitude == 0:
        return None
    if sign not in (1, -1):
        raise NoValueError(f"expected the sign 1 or -1, found {sign}")
    if magnitude >= 1 << 63:
        raise NoValueError(f"expected a magnitude below 2**63, found {magnitude}")
    return str(sign * magnitude)


def _date(raw: bytes) -> str | None:
    """Days since 1899-12-31, signed; the smallest number is NULL (§4.1)."""
    days = int.from_bytes(raw, "big", signed=True)
    if days == -(1 << 31):
        return None
    ordinal = _DAY_ZERO + days
    if not 1 <= ordinal <= date.max.toordinal():
        raise NoValueError(f"expected a day of the years 1 to 9999, found day {days}")
    return date.fromordinal(ordinal).isoformat()


def _floating_point(raw: bytes) -> str | None:
    """IEEE 754; all bits set is NULL (§4.1). Text is the shortest that reads back, as Arrow writes it."""
    if raw == b"\xff" * len(raw):
        return None
    number = struct.unpack(">d" if len(raw) == 8 else ">f", raw)[0]
    kind = pa.float64() if len(raw) == 8 else pa.float32()
    text: str = pa.scalar(number, kind).cast(pa.string()).as_py()
    return text


def _boolean(raw: bytes) -> str | None:
    """A byte that is 1 for NULL, then 0 or 1 (§4.1)."""
    if raw[0] == 1:
        return None
    if raw[0] != 0 or raw[1] > 1:
        raise NoValueError(f"expected 0000, 0001 or 0100, found {raw.hex()}")
    return "true" if raw[1] else "false"


def _large_object(raw: bytes) -> str | None:
    """BLOB, CLOB: four bytes and a 72-byte locator, all zero for NULL; the content is not in the stream (§4.1)."""
    return raw.hex() if any(raw[_LOB_PREFIX:]) else None


_PLAIN: Final[dict[ColumnKind, Callable[[bytes], str | None]]] = {
    ColumnKind.SMALLINT: _integer,
    ColumnKind.INTEGER: _integer,
    ColumnKind.BIGINT: _integer,
    ColumnKind.INT8: _int8,
    ColumnKind.DATE: _date,
    ColumnKind.FLOAT: _floating_point,
    ColumnKind.SMALLFLOAT: _floating_point,
    ColumnKind.BOOLEAN: _boolean,
    ColumnKind.LOB: _large_object,
}

_PACKED: Final[dict[ColumnKind, Callable[[SchemaColumn, bytes], str | None]]] = {
    ColumnKind.DECIMAL: decimal_text,
    ColumnKind.DATETIME: datetime_text,
    ColumnKind.INTERVAL: interval_text,
}


# --- text -------------------------------------------------------------------------------------------------------------


class _WrongLengthError(NoValueError):
    """The length prefix of a value contradicts the bytes that its size word gives it."""


def _char(raw: bytes) -> bytes | None:
    """CHAR, NCHAR: padded with spaces; NULL begins with a zero byte (§4.1)."""
    return None if raw[:1] == b"\0" else raw.rstrip(b" ")


def _without_prefix(raw: bytes, width: int) -> bytes:
    """The bytes behind a big-endian length of ``width`` bytes, which must count exactly them (§4.2)."""
    if len(raw) < width:
        raise _WrongLengthError(f"expected a length of {width} bytes, found a size word of {len(raw)}")
    length = int.from_bytes(raw[:width], "big")
    if width + length != len(raw):
        raise _WrongLengthError(f"expected {len(raw)} bytes by the size word, found {width} + {length} by the prefix")
    return raw[width:]


def _varchar(raw: bytes, width: int) -> bytes | None:
    """VARCHAR, NVARCHAR: a length, then as many bytes; one zero byte is NULL (§4.2)."""
    data = _without_prefix(raw, width)
    return None if data == b"\0" else data


def _lvarchar(raw: bytes) -> bytes | None:
    """LVARCHAR: two bytes of length, a flag that it counts (1: NULL), the data; a NUL at its end is dropped (§4.2)."""
    data = _without_prefix(raw, LVARCHAR_PREFIX)
    if not data:
        raise _WrongLengthError("expected a length of at least 1, found 0")
    if data == b"\1":
        return None
    if data[0] != 0:
        behind = " with data" if len(data) > 1 else ""
        raise NoValueError(f"expected the flag 00, or 01 without data, found {data[0]:02x}{behind}")
    return data[1:].removesuffix(b"\0")


def _text(data: bytes | None, settings: StreamSettings) -> ColumnValue:
    """A text in the database's character set. The hex of one that is not in it leaves out prefix, flag and padding."""
    if data is None:
        return ColumnValue(None)
    try:
        return ColumnValue(data.decode(settings.charset))
    except UnicodeError as error:
        where = f" at byte {error.start}" if isinstance(error, UnicodeDecodeError) else ""
        return ColumnValue(
            data.hex(), Problem.CHARSET, f"expected text in {settings.charset}, found other bytes{where}"
        )
