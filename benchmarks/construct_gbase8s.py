"""The records of a GBase 8s CDC stream declared in the library ``construct``, as a peer for the readers of cdcwb.

The layout is the one of docs/formats/gbase8s.md, declared down to the digit: common header (§1.1), type-specific
headers (§2), size words (§3) and rows (§4) whose columns follow from the TABSCHEM records as they come by (§5). What
comes out is what ``events`` has: place and bytes of each record, header fields, and the values of a row as text; only
floats stay numbers, which saves construct the time to write them. ``by_hand`` takes packed numbers as bytes and cuts
them up in Python instead of declaring their digits, which is faster.

It knows what the benchmark's tables hold, in a little-endian stream with two-byte VARCHAR prefixes in UTF-8.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any, BinaryIO

import construct as c

from cdcwb.formats.gbase8s.layout import QUALIFIERS, ColumnKind, SchemaColumn
from cdcwb.formats.gbase8s.schema import parse_columns

__all__ = ["ROWS", "records"]

_DAY_ZERO = dt.date(1899, 12, 31)
_HOUR, _SECOND = QUALIFIERS["hour"], QUALIFIERS["second"]


# --- values (§4) ------------------------------------------------------------------------------------------------------


class _Integer(c.Adapter):
    """A number; the smallest is NULL."""

    def __init__(self, subcon: Any) -> None:
        super().__init__(subcon)
        self.null = -(1 << (8 * subcon.sizeof() - 1))

    def _decode(self, obj: Any, context: Any, path: Any) -> Any:
        return None if obj == self.null else str(obj)


class _Int8(c.Adapter):
    def _decode(self, obj: Any, context: Any, path: Any) -> Any:
        return None if obj.sign == 0 else str(obj.sign * (obj.high << 32 | obj.low))


class _Date(c.Adapter):
    def _decode(self, obj: Any, context: Any, path: Any) -> Any:
        return None if obj == -(2**31) else (_DAY_ZERO + dt.timedelta(days=obj)).isoformat()


class _Float(c.Adapter):
    """NULL has all bits set, which is no number."""

    def _decode(self, obj: Any, context: Any, path: Any) -> Any:
        return None if obj != obj else obj


class _Boolean(c.Adapter):
    def _decode(self, obj: Any, context: Any, path: Any) -> Any:
        return None if obj.null else "true" if obj.value else "false"


class _Char(c.Adapter):
    def _decode(self, obj: Any, context: Any, path: Any) -> Any:
        return None if obj[:1] == "\0" else obj.rstrip(" ")


class _Varchar(c.Adapter):
    def _decode(self, obj: Any, context: Any, path: Any) -> Any:
        return None if obj == "\0" else obj


class _Lvarchar(c.Adapter):
    def _decode(self, obj: Any, context: Any, path: Any) -> Any:
        return None if obj.flag else obj.text.removesuffix("\0")


class _Packed(c.Adapter):
    """Base-100 digits with sign and exponent (§4.3)."""

    def __init__(self, column: SchemaColumn, by_hand: bool) -> None:
        size = column.size or 0
        lead = c.BitStruct("positive" / c.Flag, "exponent" / c.BitsInteger(7))
        super().__init__(c.Bytes(size) if by_hand else c.Struct("lead" / lead, "digits" / c.Array(size - 1, c.Byte)))
        self.column = column
        self.by_hand = by_hand

    def _decode(self, obj: Any, context: Any, path: Any) -> Any:
        if self.by_hand:
            positive, exponent, digits = obj[0] >= 0x80, obj[0] & 0x7F, list(obj[1:])
        else:
            positive, exponent, digits = obj.lead.positive, obj.lead.exponent, list(obj.digits)
        if not positive:
            if exponent == 0 and digits[0] == 0:
                return None
            exponent = ~exponent & 0x7F
            last = max(place for place, digit in enumerate(digits) if digit)
            digits[: last + 1] = [99 - digit for digit in digits[:last]] + [100 - digits[last]]
        return ("" if positive else "-") + self.text(exponent - 64, digits)

    def text(self, exponent: int, digits: list[int]) -> str:
        raise NotImplementedError


class _Decimal(_Packed):
    def text(self, exponent: int, digits: list[int]) -> str:
        written = "".join([f"{digit:02d}" for digit in digits])
        point = 2 * exponent
        if point > 0:
            whole, fraction = written[:point].ljust(point, "0").lstrip("0"), written[point:]
        else:
            whole, fraction = "", "0" * -point + written
        fraction = fraction.rstrip("0")
        if self.column.scale is not None:
            fraction = fraction.ljust(self.column.scale, "0")
        return (whole or "0") + ("." + fraction if fraction else "")


class _Clock(_Packed):
    """DATETIME and INTERVAL: the fields of the qualifier, left-aligned (§4.4, §4.5)."""

    def text(self, exponent: int, digits: list[int]) -> str:
        column = self.column
        whole = column.whole_pairs
        grid = [0] * (whole - exponent) + digits
        pairs = [f"{digit:02d}" for digit in grid[:whole]]
        fraction = "".join([f"{digit:02d}" for digit in grid[whole:]]).ljust(column.fraction, "0")[: column.fraction]
        if column.start == 0:
            text = f"{pairs[0]}{pairs[1]}-{pairs[2]}-{pairs[3]}T{':'.join(pairs[4:])}"
        else:
            text = ":".join(pairs)
        if column.kind is ColumnKind.INTERVAL and text[0] == "0":
            text = text[1:]
        return f"{text}.{fraction}" if fraction else text


def _of_type(column: SchemaColumn, by_hand: bool) -> Any:
    match column.kind:
        case ColumnKind.SMALLINT:
            return _Integer(c.Int16sb)
        case ColumnKind.INTEGER:
            return _Integer(c.Int32sb)
        case ColumnKind.BIGINT:
            return _Integer(c.Int64sb)
        case ColumnKind.INT8:
            return _Int8(c.Struct("sign" / c.Int16sb, "low" / c.Int32ub, "high" / c.Int32ub))
        case ColumnKind.DATE:
            return _Date(c.Int32sb)
        case ColumnKind.FLOAT:
            return _Float(c.Float64b)
        case ColumnKind.SMALLFLOAT:
            return _Float(c.Float32b)
        case ColumnKind.BOOLEAN:
            return _Boolean(c.Struct("null" / c.Byte, "value" / c.Byte))
        case ColumnKind.CHAR:
            return _Char(c.FixedSized(column.size, c.GreedyString("utf8")))
        case ColumnKind.VARCHAR:
            return _Varchar(c.PascalString(c.Int16ub, "utf8"))
        case ColumnKind.LVARCHAR:
            return _Lvarchar(c.Prefixed(c.Int16ub, c.Struct("flag" / c.Byte, "text" / c.GreedyString("utf8"))))
        case ColumnKind.DECIMAL:
            return _Decimal(column, by_hand)
        case ColumnKind.DATETIME if column.start in (0, _HOUR) and (column.end or 0) >= _SECOND:
            return _Clock(column, by_hand)
        case ColumnKind.INTERVAL if (column.start, column.lead) == (_HOUR, 2) and (column.end or 0) >= _SECOND:
            return _Clock(column, by_hand)
    raise NotImplementedError(f"{column.name} {column.type}: not in the benchmark's tables")


# --- records (§1 to §3, §5) -------------------------------------------------------------------------------------------

ROWS = (40, 41, 42, 43)
"""INSERT, DELETE, UPDBEF, UPDAFT."""

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
    **dict.fromkeys(ROWS, _ROW),
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


def records(file: BinaryIO, by_hand: bool = False) -> Iterator[Any]:
    """Every record of an undamaged stream, from where the file stands to its end: ``offset1``, ``length`` and ``data``
    of each, and in ``value`` its fields."""
    rows: dict[int, Any] = {}
    record = c.RawCopy(
        c.Struct(
            *_COMMON,
            "specific" / c.Switch(c.this.record_number, _SPECIFIC),
            "row" / c.If(lambda this: this.record_number in ROWS, c.Switch(c.this.specific.user_data, rows)),
        )
    )
    while True:
        try:
            one = record.parse_stream(file)
        except c.StreamError:  # the end
            return
        if one.value.record_number == 200:
            columns = parse_columns(one.value.specific.text)
            label = one.value.specific.user_data
            rows[label] = c.Struct(*(column.name / _of_type(column, by_hand) for column in columns))
        yield one
