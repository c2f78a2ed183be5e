"""The records of a GBase 8s CDC stream declared in the library ``construct``, as a peer for the readers of cdcwb.

The layout is the one of docs/formats/gbase8s.md: common header (§1.1), type-specific headers (§2), size words (§3) and
rows (§4) whose columns follow from the TABSCHEM records as they come by (§5). Values are what Python has for them: int,
float, Decimal, date, datetime, time, timedelta, str, bool, and None for NULL. It knows what the benchmark's tables hold, in
a little-endian stream with two-byte VARCHAR prefixes in UTF-8.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, BinaryIO

import construct as c

from cdcwb.formats.gbase8s.column_types import QUALIFIERS, Column, ColumnKind
from cdcwb.formats.gbase8s.schema import parse_columns

__all__ = ["records"]

_SECOND = QUALIFIERS["second"]
_DAY_ZERO = dt.date(1899, 12, 31)


# --- values (§4) ------------------------------------------------------------------------------------------------------


class _Nullable(c.Adapter):
    """A value of ``subcon``; one pattern stands for NULL."""

    def __init__(self, subcon: Any, null: Any) -> None:
        super().__init__(subcon)
        self.null = null

    def _decode(self, obj: Any, context: Any, path: Any) -> Any:
        return None if obj == self.null else obj


class _Date(c.Adapter):
    def _decode(self, obj: Any, context: Any, path: Any) -> Any:
        return None if obj == -(2**31) else _DAY_ZERO + dt.timedelta(days=obj)


class _Float(c.Adapter):
    """IEEE 754; NULL has all bits set."""

    def __init__(self, size: int) -> None:
        super().__init__(c.Bytes(size))
        self.number = c.Float64b if size == 8 else c.Float32b
        self.null = b"\xff" * size

    def _decode(self, obj: Any, context: Any, path: Any) -> Any:
        return None if obj == self.null else self.number.parse(obj)


class _Boolean(c.Adapter):
    def _decode(self, obj: Any, context: Any, path: Any) -> Any:
        return None if obj.null else obj.value == 1


class _Int8(c.Adapter):
    def _decode(self, obj: Any, context: Any, path: Any) -> Any:
        return None if obj.sign == 0 else obj.sign * (obj.high << 32 | obj.low)


class _Char(c.Adapter):
    def _decode(self, obj: Any, context: Any, path: Any) -> Any:
        return None if obj[:1] == b"\0" else obj.rstrip(b" ").decode("utf-8")


class _Lvarchar(c.Adapter):
    def _decode(self, obj: Any, context: Any, path: Any) -> Any:
        return None if obj.flag == 1 else obj.text.removesuffix("\0")


class _Packed(c.Adapter):
    """Base-100 digits with sign and exponent (§4.3)."""

    def __init__(self, column: Column) -> None:
        super().__init__(c.Bytes(column.size))
        self.column = column

    def _decode(self, obj: Any, context: Any, path: Any) -> Any:
        if obj[:2] == b"\0\0":
            return None
        lead, digits = obj[0], list(obj[1:])
        negative = lead < 0x80
        if negative:
            lead = ~lead
            last = max(place for place, digit in enumerate(digits) if digit)
            digits = [99 - digit for digit in digits[:last]] + [100 - digits[last]] + [0] * (len(digits) - last - 1)
        return self.value(negative, (lead & 0x7F) - 64, digits)

    def value(self, negative: bool, exponent: int, digits: list[int]) -> Any:
        raise NotImplementedError


class _Decimal(_Packed):
    def value(self, negative: bool, exponent: int, digits: list[int]) -> Any:
        pairs = tuple(half for digit in digits for half in divmod(digit, 10))
        return Decimal((negative, pairs, 2 * (exponent - len(digits))))


class _Clock(_Packed):
    """DATETIME and INTERVAL: the fields of the qualifier, left-aligned (§4.4, §4.5)."""

    def value(self, negative: bool, exponent: int, digits: list[int]) -> Any:
        column = self.column
        whole = column.whole_pairs
        size = whole + (column.fraction + 1) // 2
        grid = ([0] * (whole - exponent) + digits + [0] * size)[:size]
        fields = grid[:whole]
        micros = 0
        for digit in (grid[whole:] + [0, 0, 0])[:3]:
            micros = 100 * micros + digit
        if column.kind is ColumnKind.INTERVAL:
            hours = 0
            for digit in fields[:-2]:
                hours = 100 * hours + digit
            span = dt.timedelta(hours=hours, minutes=fields[-2], seconds=fields[-1], microseconds=micros)
            return -span if negative else span
        if column.start == 0:
            return dt.datetime(100 * fields[0] + fields[1], *fields[2:], micros)
        return dt.time(*fields, micros)


def _of_type(column: Column) -> Any:
    match column.kind:
        case ColumnKind.SMALLINT:
            return _Nullable(c.Int16sb, -(2**15))
        case ColumnKind.INTEGER:
            return _Nullable(c.Int32sb, -(2**31))
        case ColumnKind.BIGINT:
            return _Nullable(c.Int64sb, -(2**63))
        case ColumnKind.INT8:
            return _Int8(c.Struct("sign" / c.Int16sb, "low" / c.Int32ub, "high" / c.Int32ub))
        case ColumnKind.DATE:
            return _Date(c.Int32sb)
        case ColumnKind.FLOAT | ColumnKind.SMALLFLOAT:
            return _Float(column.size or 8)
        case ColumnKind.BOOLEAN:
            return _Boolean(c.Struct("null" / c.Byte, "value" / c.Byte))
        case ColumnKind.CHAR:
            return _Char(c.Bytes(column.size))
        case ColumnKind.VARCHAR:
            return _Nullable(c.PascalString(c.Int16ub, "utf8"), "\0")
        case ColumnKind.LVARCHAR:
            return _Lvarchar(c.Prefixed(c.Int16ub, c.Struct("flag" / c.Byte, "text" / c.GreedyString("utf8"))))
        case ColumnKind.DECIMAL:
            return _Decimal(column)
        case ColumnKind.DATETIME if column.start == 0 and (column.end or 0) >= _SECOND:
            return _Clock(column)
        case ColumnKind.DATETIME if column.start == QUALIFIERS["hour"]:
            return _Clock(column)
        case ColumnKind.INTERVAL if column.start == QUALIFIERS["hour"]:
            return _Clock(column)
    raise NotImplementedError(f"{column.name} {column.type}: not in the benchmark's tables")


# --- records (§1 to §3, §5) -------------------------------------------------------------------------------------------

_COMMON = (
    "header_size" / c.Int32ub,
    "payload_size" / c.Int32ub,
    "packetization_scheme" / c.Const(66, c.Int32ub),
    "record_number" / c.Int32ub,
)
_OF_TRANSACTION = ("sequence_number" / c.Int64ub, "transaction_id" / c.Int32sb)
_ROW = c.Struct(
    *_OF_TRANSACTION,
    "user_data" / c.Int32sb,
    "flags" / c.Int32ub,
    "variable_sizes" / c.Array((c.this._.header_size - 36) // 4, c.Int32ul),
)
_SPECIFIC = {
    1: c.Struct(*_OF_TRANSACTION, "start_time" / c.Int64sb, "user_id" / c.Int32sb),
    2: c.Struct(*_OF_TRANSACTION, "commit_time" / c.Int64sb),
    3: c.Struct(*_OF_TRANSACTION),
    **dict.fromkeys((40, 41, 42, 43), _ROW),
    62: c.Struct(*_OF_TRANSACTION),
    119: c.Struct(*_OF_TRANSACTION, "user_data" / c.Int32sb),
    200: c.Struct(
        "user_data" / c.Int32sb,
        "flags" / c.Int32ub,
        "fixed_length_bytes" / c.Int32ub,
        "fixed_columns" / c.Int32ub,
        "variable_columns" / c.Int32ub,
        "text" / c.PaddedString(c.this._.payload_size, "utf8"),
    ),
    201: c.Struct("sequence_number" / c.Int64ub),
    202: c.Struct("flags" / c.Int32ub, "error_code" / c.Int32sb),
}


def records(file: BinaryIO) -> Iterator[Any]:
    """Every record of an undamaged stream, from where the file stands to its end."""
    rows: dict[int, Any] = {}
    record = c.Struct(
        *_COMMON,
        "specific" / c.Switch(c.this.record_number, _SPECIFIC),
        "row" / c.Switch(lambda this: this.specific.user_data if 40 <= this.record_number <= 43 else None, rows),
    )
    while True:
        try:
            one = record.parse_stream(file)
        except c.StreamError:  # the end
            return
        if one.record_number == 200:
            columns = parse_columns(one.specific.text)
            rows[one.specific.user_data] = c.Struct(*(column.name / _of_type(column) for column in columns))
        yield one
