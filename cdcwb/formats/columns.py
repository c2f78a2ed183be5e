"""Columns of tables, as metadata describes them, the Arrow types of Replicate's types (docs/formats/qlik-kafka.md §3.2,
§8), and texts as values of a column's type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import label
from cdcwb.formats.bitmask import parse

# --- texts as values of a column's type -------------------------------------------------------------------------------

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


# --- columns ----------------------------------------------------------------------------------------------------------


class TableColumn(NamedTuple):
    """One column, as :data:`cdcwb.model.COLUMN` has it; ``key_position`` None: not in the key, or not given."""

    ordinal: int
    name: str
    type: str | None = None
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    key_position: int | None = None
    nullable: bool | None = None


@dataclass(slots=True)
class TableVersion:
    """One version of a table. ``table_version`` is its id in :mod:`cdcwb.model`'s tables, ``text`` the schema that
    describes it; ``file_index`` -1: it has no event."""

    table_version: str
    schema_name: str | None
    table_name: str | None
    columns: list[TableColumn]
    origin: str
    text: str | None = None
    lineage: dict[str, str] = field(default_factory=dict)
    file_index: int = -1
    offset: int = -1
    length: int = -1

    @property
    def full_name(self) -> str | None:
        """``schema.table``, or ``table``."""
        return label(self.schema_name, self.table_name)

    @property
    def place(self) -> tuple[int, int]:
        """Where it was first seen."""
        return self.file_index, self.offset

    @property
    def has_event(self) -> bool:
        """Does an event describe it?"""
        return self.file_index >= 0

    def to_row(self) -> dict[str, Any]:
        """As a row of :data:`cdcwb.model.TABLE_VERSIONS`, without ``first_position``."""
        event = {"file_index": self.file_index, "offset": self.offset, "length": self.length}
        return {
            "table_version": self.table_version,
            "schema_name": self.schema_name,
            "table_name": self.table_name,
            "first_event": event if self.has_event else None,
            "columns": [column._asdict() for column in self.columns],
            "origin": self.origin,
            "schema_text": self.text,
            "lineage": self.lineage,
        }


_DECIMALS: Final = ("NUMERIC", "DECIMAL")


def described_column(ordinal: int, name: str, facts: Mapping[str, Any], key: str) -> TableColumn:
    """A column from Replicate's description in JSON; ``key``: the property with its position in the key. 0 means not
    applicable, except as the scale of a decimal."""

    def number(name: str, zero: bool = False) -> int | None:
        value = facts.get(name)
        is_number = type(value) is int and -(1 << 31) <= value < 1 << 31
        return value if is_number and (value or zero) else None

    kind, nullable = text_of(facts.get("type")), facts.get("nullable")
    return TableColumn(
        ordinal,
        name,
        kind,
        number("length"),
        number("precision"),
        number("scale", zero=(kind or "").upper() in _DECIMALS),
        number(key),
        nullable if isinstance(nullable, bool) else None,
    )


def text_of(value: Any) -> str | None:
    """A non-empty text; None for other values."""
    return value if isinstance(value, str) and value else None


_TYPES: Final = {
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
"""Arrow types of Replicate's types; all others are text. Unsigned ones have the next wider type, as Spark does. Times
have no zone, as the source has none."""


def replicate_type(column: TableColumn) -> pa.DataType:
    """The Arrow type of a column by Replicate's name of its type; text if that is unknown or exceeds Spark's types."""
    name = (column.type or "").strip().upper()
    whole, fraction = column.precision or 0, column.scale or 0
    if name in _DECIMALS and 0 < whole <= MOST_DIGITS and 0 <= fraction <= whole:
        return pa.decimal128(whole, fraction)
    return _TYPES.get(name, pa.string())
