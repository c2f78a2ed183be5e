"""The types of Replicate's columns, and texts as values of them (docs/formats/qlik-kafka.md §8)."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.bitmask import parse

__all__ = ["cast", "common_type", "decimal_type", "parsed", "replicate_type"]

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

_MOST_DIGITS: Final = 38  # of Spark's decimals
_TIME: Final = r"^\s*\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?Z?\s*$"
_FORMS: Final = {
    pa.bool_(): r"(?i)^\s*(true|false|t|f|0|1)\s*$",
    pa.date32(): r"^\s*\d{4}-\d{2}-\d{2}\s*$",
    pa.timestamp("us"): _TIME,
}
_TRUE: Final = pa.array(["true", "t", "1"])


def replicate_type(name: str) -> pa.DataType | None:
    """The Arrow type of one of Replicate's types other than NUMERIC; None of a name that is none, or is text."""
    return _SIMPLE.get(name.upper())


def decimal_type(precision: int | None, scale: int | None) -> pa.DataType:
    """The type of decimals of so many digits; text where Spark has none."""
    whole, fraction = precision or 0, scale or 0
    if 0 < whole <= _MOST_DIGITS and 0 <= fraction <= whole:
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
        if whole + scale <= _MOST_DIGITS:
            return pa.decimal128(whole + scale, scale)
    return pa.string()


def parsed(text: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """Texts as values of a type; null where one is no value of it."""
    if pa.types.is_string(kind):
        return text
    if pa.types.is_binary(kind):
        return parse(text)[0]
    trimmed = pc.utf8_trim_whitespace(text)
    if kind in _FORMS:
        good = pc.match_substring_regex(trimmed, _FORMS[kind])
        trimmed = pc.if_else(pc.fill_null(good, False), trimmed, pa.scalar(None, pa.string()))
    if pa.types.is_boolean(kind):
        lower = pc.utf8_lower(trimmed)
        return pc.if_else(pc.is_null(lower), pa.scalar(None, pa.bool_()), pc.is_in(lower, _TRUE))
    if pa.types.is_timestamp(kind):
        trimmed = pc.replace_substring_regex(trimmed, r"(\.\d{6})\d+", r"\1")
        trimmed = pc.replace_substring_regex(trimmed, "Z$", "")
        zoneless = _parsed_as(trimmed, pa.timestamp("us"))
        return zoneless.cast(kind)
    if pa.types.is_decimal(kind):
        return _decimals(trimmed, kind)
    return _parsed_as(trimmed, kind)


def _decimals(text: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """Decimals without rounding: a text with more digits than the type holds is no value of it."""
    text = pc.replace_substring_regex(text, r"(\.\d*?)0+$", r"\1")
    text = pc.replace_substring_regex(text, r"\.$", "")
    form = rf"^[+-]?\d{{1,{_MOST_DIGITS}}}(\.\d{{1,{max(kind.scale, 1)}}})?$"
    good = pc.fill_null(pc.match_substring_regex(text, form), False)
    return _parsed_as(pc.if_else(good, text, pa.scalar(None, pa.string())), kind)


def _parsed_as(text: pa.StringArray, kind: pa.DataType) -> pa.Array:
    found = cast(text, kind)
    if found is not None:
        return found
    half = len(text) // 2
    if not half:
        return pa.nulls(len(text), kind)
    return pa.concat_arrays([_parsed_as(text.slice(0, half), kind), _parsed_as(text.slice(half), kind)])


def cast(values: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Values as another type; None where one of them has no place in it."""
    try:
        return values.cast(kind)
    except (pa.ArrowException, ValueError):
        return None
