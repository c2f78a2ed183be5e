"""Column values as typed arrays (docs/formats/goldengate.md §4.6)."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays.texts import bytes_of
from cdcwb.formats.goldengate.body import Bools, Bytes, Ints, Order
from cdcwb.formats.goldengate.datatypes import How
from cdcwb.formats.goldengate.definitions import ColumnDef
from cdcwb.formats.goldengate.one_value import CLOCK, DATE, INT32, INT64, Kind
from cdcwb.formats.goldengate.values import Texts, coding, texts, whole_numbers

__all__ = ["arrow_type", "as_type", "typed"]

_MICROS: Final = 26  # characters up to the sixth digit of the fraction
_DT_YEAR, _DT_DAY, _DT_HOUR = 0, 2, 3


def arrow_type(column: ColumnDef | None) -> pa.DataType:
    """The type of a column in typed tables.

    Numbers that are written as text stay text, as their precision is not known; so do times of day, intervals, times
    with a zone, and columns without a definition.
    """
    if column is None:
        return pa.string()
    how = column.coding
    if how.how is How.INTEGER:
        if how.scale > 0:
            return pa.decimal128(max({2: 5, 4: 10}.get(how.size, 20), how.scale), how.scale)
        if how.scale < 0 or (how.size == INT64 and not how.signed):
            return pa.decimal128(38, 0)
        return pa.int32() if how.size < INT32 or (how.size == INT32 and how.signed) else pa.int64()
    if how.how is How.FLOAT:
        return pa.float32() if how.size == 4 else pa.float64()
    if how.how in (How.DECIMAL, How.PACKED) and 0 <= how.scale <= 38:
        return pa.decimal128(38, how.scale)
    if how.how is How.MOMENT and column.data_type in (191, 192) and column.most_significant_dt == _DT_YEAR:
        if column.external_length == DATE or (0 < column.least_significant_dt <= _DT_DAY):
            return pa.date32()
        if column.least_significant_dt >= _DT_HOUR and column.external_length <= CLOCK + 10:
            return pa.timestamp("us")
        return pa.string()
    if how.how is How.BINARY or (how.how is How.LOB and not column.is_text_lob):
        return pa.binary()
    return pa.string()


def typed(
    buffer: Bytes,
    start: Ints,
    stop: Ints,
    is_null: Bools,
    column: ColumnDef | None,
    kind: pa.DataType,
    charset: str = "utf-8",
    order: Order = "little",
) -> pa.Array:
    """The values ``[start, stop)`` of a buffer as an array of type ``kind``; null where they are none of it.

    Fractions of a second are cut behind the microsecond.
    """
    how = coding(column)
    if how.how is How.INTEGER and how.scale == 0 and pa.types.is_integer(kind) and len(start):
        rows = ~is_null & (stop - start == how.size)
        if bool((rows | is_null).all()) and len(buffer) >= how.size:
            there = np.where(rows, start, 0)
            numbers = whole_numbers(bytes_of(np.ascontiguousarray(buffer), there, how.size), how.signed)
            return pc.cast(pa.array(numbers, mask=is_null), kind, safe=False)
    found = texts(buffer, start, stop, is_null, column, charset, order)
    return as_type(found, kind)


def as_type(found: Texts, kind: pa.DataType) -> pa.Array:
    """Texts as values of a type; null where they are none of it, or bytes that could not be read."""
    if pa.types.is_string(kind):
        return found.array
    unread = found.kinds == Kind.HEX
    if pa.types.is_binary(kind):
        return pa.array(
            [
                None if one is None else bytes.fromhex(one) if binary else one.encode()
                for one, binary in zip(found.array.to_pylist(), found.kinds >= Kind.BINARY, strict=True)
            ],
            kind,
        )
    text = found.array
    if unread.any():
        text = pc.if_else(pa.array(unread), pa.scalar(None, pa.string()), text)
    if pa.types.is_temporal(kind):
        text = _iso(text, DATE if pa.types.is_date(kind) else _MICROS)
    return _cast(text, kind)


def _iso(text: pa.Array, length: int) -> pa.Array:
    """Dates as Arrow reads them: the colon between day and hour as a blank, no more than ``length`` characters."""
    day = pc.utf8_slice_codeunits(text, 0, DATE)
    if length == DATE:
        return day
    clock = pc.utf8_slice_codeunits(text, DATE + 1, length)
    return pc.if_else(pc.equal(clock, ""), day, pc.binary_join_element_wise(day, clock, " "))


def _cast(text: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return pc.cast(text, kind)
    except pa.ArrowInvalid:
        pass
    if len(text) == 1:
        return pa.nulls(1, kind)
    half = len(text) // 2
    return pa.concat_arrays([_cast(text[:half], kind), _cast(text[half:], kind)])
