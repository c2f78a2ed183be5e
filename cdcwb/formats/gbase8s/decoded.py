"""A decoded column of many row images, and the type it has in ``Capture.table`` (docs/formats/gbase8s.md §4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from cdcwb.formats.gbase8s.framing import Bools
from cdcwb.formats.gbase8s.schema import Column, ColumnKind

__all__ = ["Decoded", "arrow_type"]


@dataclass(frozen=True, slots=True)
class Decoded:
    """One column of many rows. ``text`` and ``typed`` are made when called; ``odd`` marks the rows not to use."""

    odd: Bools
    text: Callable[[], pa.Array]
    typed: Callable[[], pa.Array]


def arrow_type(column: Column) -> pa.DataType:
    """The type that ``Capture.table`` gives a column.

    Partial DATETIMEs, INTERVALs and floating DECIMALs have no type in Spark that loses nothing, so they stay text.
    """
    simple = {
        ColumnKind.SMALLINT: pa.int16(),
        ColumnKind.INTEGER: pa.int32(),
        ColumnKind.BIGINT: pa.int64(),
        ColumnKind.INT8: pa.int64(),
        ColumnKind.DATE: pa.date32(),
        ColumnKind.FLOAT: pa.float64(),
        ColumnKind.SMALLFLOAT: pa.float32(),
        ColumnKind.BOOLEAN: pa.bool_(),
        ColumnKind.LOB: pa.binary(),
    }
    if column.kind in simple:
        return simple[column.kind]
    if column.kind == ColumnKind.DECIMAL and column.scale is not None and column.precision is not None:
        return pa.decimal128(column.precision, column.scale)
    if column.kind == ColumnKind.DATETIME and column.start == 0 and (column.end or 0) >= 4:
        return pa.date32() if column.end == 4 else pa.timestamp("us")
    return pa.string()
