"""The types of Replicate's columns (docs/formats/qlik-kafka.md §8)."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from cdcwb.formats.text_values import MOST_DIGITS

__all__ = ["common_type", "decimal_type", "replicate_type"]

_SIMPLE: Final = {
    "INT1": pa.int8(),
    "INT2": pa.int16(),
    "INT4": pa.int32(),
    "INT8": pa.int64(),
    "UINT1": pa.int16(),
    "UINT2": pa.int32(),
    "UINT4": pa.int64(),
    "UINT8": pa.decimal128(20, 0),
    "REAL4": pa.float32(),
    "REAL8": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "DATETIME": pa.timestamp("us"),
    "TIMESTAMP": pa.timestamp("us"),
    "BYTES": pa.binary(),
    "BLOB": pa.binary(),
}
"""Arrow types of Replicate's types; all others are text. Unsigned ones have the next wider type, as Spark does."""


def replicate_type(name: str) -> pa.DataType | None:
    """The Arrow type of one of Replicate's types other than NUMERIC; None for text and for an unknown name."""
    return _SIMPLE.get(name.upper())


def decimal_type(precision: int | None, scale: int | None) -> pa.DataType:
    """The type of decimals of so many digits; text where Spark has none."""
    whole, fraction = precision or 0, scale or 0
    if 0 < whole <= MOST_DIGITS and 0 <= fraction <= whole:
        return pa.decimal128(whole, fraction)
    return pa.string()


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """A type for what is of one type in one version and of another in the next; text where none holds both."""
    if one == other:
        return one
    if pa.types.is_integer(one) and pa.types.is_integer(other):
        return one if one.bit_width > other.bit_width else other
    if pa.types.is_floating(one) and pa.types.is_floating(other):
        return pa.float64()
    if pa.types.is_decimal(one) and pa.types.is_decimal(other):
        scale = max(one.scale, other.scale)
        whole = max(one.precision - one.scale, other.precision - other.scale)
        if whole + scale <= MOST_DIGITS:
            return pa.decimal128(whole + scale, scale)
    return pa.string()
