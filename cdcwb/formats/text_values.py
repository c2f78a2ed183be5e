"""Converts many texts to values of a column's type."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.bitmask import parse

MOST_DIGITS: Final = 38
"""Digits of Spark's decimals."""

_TIME: Final = r"^\s*\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?Z?\s*$"
_FORMS: Final = {
    pa.bool_(): r"(?i)^\s*(true|false|t|f|0|1)\s*$",
    pa.date32(): r"^\s*\d{4}-\d{2}-\d{2}\s*$",
    pa.timestamp("us"): _TIME,
}
_TRUE: Final = ("true", "t", "1")


def parsed(text: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """Texts as values of a type; null if invalid."""
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
        return pc.if_else(pc.is_null(lower), pa.scalar(None, pa.bool_()), pc.is_in(lower, pa.array(_TRUE)))
    if pa.types.is_timestamp(kind):
        trimmed = pc.replace_substring_regex(trimmed, r"(\.\d{6})\d+", r"\1")
        trimmed = pc.replace_substring_regex(trimmed, "Z$", "")
        zoneless = cast_each(trimmed, pa.timestamp("us"))
        return zoneless.cast(kind)
    if pa.types.is_decimal(kind):
        return _decimals(trimmed, kind)
    return cast_each(trimmed, kind)


def _decimals(text: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """Decimals without rounding: a text with more digits than the type is invalid."""
    text = pc.replace_substring_regex(text, r"(\.\d*?)0+$", r"\1")
    text = pc.replace_substring_regex(text, r"\.$", "")
    form = rf"^[+-]?\d{{1,{MOST_DIGITS}}}(\.\d{{1,{max(kind.scale, 1)}}})?$"
    good = pc.fill_null(pc.match_substring_regex(text, form), False)
    return cast_each(pc.if_else(good, text, pa.scalar(None, pa.string())), kind)


def cast_each(text: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """Texts converted by Arrow to a type; null if invalid."""
    found = cast(text, kind)
    if found is not None:
        return found
    half = len(text) // 2
    if not half:
        return pa.nulls(len(text), kind)
    return pa.concat_arrays([cast_each(text.slice(0, half), kind), cast_each(text.slice(half), kind)])


def cast(values: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Values as another type; None if one of them does not fit."""
    try:
        return values.cast(kind)
    except (pa.ArrowException, ValueError):
        return None
