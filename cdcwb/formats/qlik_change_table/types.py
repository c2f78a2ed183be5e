"""The types of columns, and texts as values of them (docs/formats/qlik-change-table.md §5)."""

from __future__ import annotations

import re
from functools import cache

import pyarrow as pa

from cdcwb.formats.qlik.types import common_type, decimal_type, replicate_type
from cdcwb.formats.qlik_change_table.side_files import Column
from cdcwb.formats.tabular import plain
from cdcwb.formats.text_values import cast, parsed

__all__ = ["arrow_type", "common_type", "typed"]


@cache
def _arrow_names() -> dict[str, pa.DataType]:
    """Arrow's own types by their names, as columns of Parquet files and tables have them."""
    kinds = [
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.string()),
        *(pa.binary(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", tz="UTC")),
    ]
    wider = {"uint8": pa.int16(), "uint16": pa.int32(), "uint32": pa.int64(), "uint64": pa.decimal128(20, 0)}
    times = {f"timestamp[{unit}]": pa.timestamp("us") for unit in ("s", "ms", "ns")}
    zoned = {f"timestamp[{unit}, tz=UTC]": pa.timestamp("us", tz="UTC") for unit in ("s", "ms", "ns")}
    return {str(kind): kind for kind in kinds} | wider | times | zoned | {"large_binary": pa.binary()}


def arrow_type(column: Column) -> pa.DataType:
    """The Arrow type of a column; text where its type is not known, or holds more than Spark's types do."""
    name = (column.type or "").strip()
    if name in _arrow_names():
        return _arrow_names()[name]
    known = replicate_type(name)
    if known is not None:
        return known
    if re.fullmatch(r"fixed_size_binary\[\d+\]", name):
        return pa.binary()
    decimal = name.upper() in ("NUMERIC", "DECIMAL") or re.fullmatch(r"decimal\d+\(\d+, -?\d+\)", name)
    return decimal_type(column.precision, column.scale) if decimal else pa.string()


def typed(content: pa.Array, text: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """Values of a column as a type: ``content`` as the source has them, ``text`` as the model writes them. What is no
    value of the type is null."""
    content = plain(content)
    if content.type == kind:
        return content
    if pa.types.is_string(kind):
        return text
    if not pa.types.is_string(content.type):
        found = cast(content, kind)
        if found is not None:
            return found
    return parsed(text, kind)
