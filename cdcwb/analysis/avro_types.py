"""Column types of all formats as Avro types, and whether a reader of one can read what was written as another.

The mapping is this project's, documented in docs/drift.md; the rules of resolution are those of the Avro specification
(https://avro.apache.org/docs/1.12.0/specification/#schema-resolution).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["AvroType", "avro_type", "holds", "reads"]


@dataclass(frozen=True, slots=True)
class AvroType:
    """``name``: a primitive type of Avro. ``logical``: its logical type, or empty. ``precision`` and ``scale`` are
    those of a decimal; None where the source does not say."""

    name: str
    logical: str = ""
    precision: int | None = None
    scale: int | None = None

    def __str__(self) -> str:
        if self.logical == "decimal":
            digits = ",".join("?" if one is None else str(one) for one in (self.precision, self.scale))
            return f"decimal({digits})"
        return f"{self.logical} ({self.name})" if self.logical else self.name


_INT, _LONG, _FLOAT, _DOUBLE = AvroType("int"), AvroType("long"), AvroType("float"), AvroType("double")
_STRING, _BYTES, _BOOLEAN = AvroType("string"), AvroType("bytes"), AvroType("boolean")
_DATE, _TIME = AvroType("int", "date"), AvroType("long", "time-micros")
_TIMESTAMP = AvroType("long", "timestamp-micros")
_DECIMAL: Final = "decimal"

_TYPES: Final[dict[str, AvroType | str]] = {
    **dict.fromkeys(("smallint", "int", "integer", "serial", "tinyint", "int1", "int2", "int4", "int32"), _INT),
    **dict.fromkeys(("uint1", "uint2", "int16", "uint8", "uint16"), _INT),
    **dict.fromkeys(("bigint", "bigserial", "serial8", "int8", "int64", "uint4", "uint32", "long"), _LONG),
    **dict.fromkeys(("real", "smallfloat", "real4", "float32", "halffloat"), _FLOAT),
    **dict.fromkeys(("float", "double", "double precision", "real8", "float64"), _DOUBLE),
    **dict.fromkeys(("decimal", "numeric", "money", "number", "decimal128", "decimal256", "uint64"), _DECIMAL),
    **dict.fromkeys(("char", "nchar", "varchar", "nvarchar", "lvarchar", "text", "string", "wstring"), _STRING),
    **dict.fromkeys(("clob", "nclob", "varchar2", "nvarchar2", "large_string", "xml", "json", "interval"), _STRING),
    **dict.fromkeys(("blob", "byte", "bytes", "binary", "varbinary", "raw", "large_binary", "image"), _BYTES),
    **dict.fromkeys(("boolean", "bool", "bit"), _BOOLEAN),
    **dict.fromkeys(("date", "date32"), _DATE),
    **dict.fromkeys(("time", "time64", "time32"), _TIME),
    **dict.fromkeys(("datetime", "timestamp"), _TIMESTAMP),
}
_SHAPE: Final = re.compile(r"^(?:\d+ )?([a-z][a-z0-9_]*(?: precision)?)\s*(.*)$")


def avro_type(column: Mapping[str, Any]) -> AvroType | None:
    """The Avro type of a column of :data:`cdcwb.model.COLUMN`; None for a type that the mapping does not know, or none
    at all."""
    text = column.get("type")
    if not text:
        return None
    match = _SHAPE.match(str(text).strip().lower())
    if match is None:
        return None
    name, rest = match[1], match[2]
    if name == "datetime" and rest and "year to" not in rest:
        return _STRING  # a part of a time, such as hour to second
    if name in ("timestamp", "date", "time") and rest.startswith("["):
        name = name.split("[")[0]
    found = _TYPES.get(name)
    if found is None:
        return None
    if isinstance(found, str):
        precision, scale = column.get("precision"), column.get("scale")
        return AvroType("bytes", _DECIMAL, precision, scale)
    return found


_PROMOTED: Final = {
    "int": {"int", "long", "float", "double"},
    "long": {"long", "float", "double"},
    "float": {"float", "double"},
    "string": {"string", "bytes"},
    "bytes": {"bytes", "string"},
}


def reads(reader: AvroType, writer: AvroType) -> str | None:
    """Why a reader of one type cannot read what was written as another, by Avro's rules; None where it can."""
    if reader.logical != writer.logical:
        return f"{writer} cannot be read as {reader}"
    if reader.logical == _DECIMAL:
        differ = [name for name in ("precision", "scale") if getattr(reader, name) != getattr(writer, name)]
        both = f"{' and '.join(differ)} of decimals have to be the same" if differ else ""
        return f"{writer} cannot be read as {reader}: {both}" if differ else None
    if reader.name == writer.name or reader.name in _PROMOTED.get(writer.name, ()):
        return None
    return f"{writer} cannot be read as {reader}"


def holds(new: AvroType, old: AvroType) -> str | None:
    """Why not every value of the old type is one of the new; None where it is. Other than for a reader of Avro, a
    decimal may get more digits, in front of the point and behind it."""
    if old.logical != _DECIMAL or new.logical != _DECIMAL:
        return reads(new, old)
    if None in (old.precision, new.precision):
        return None if (old.precision, old.scale) == (new.precision, new.scale) else f"{old} may not fit {new}"
    whole, fraction = (old.precision or 0) - (old.scale or 0), old.scale or 0
    fits = (new.precision or 0) - (new.scale or 0) >= whole and (new.scale or 0) >= fraction
    return None if fits else f"{new} has fewer digits than {old}, before or after the decimal point"
