"""Columns as Kafka Connect has them, and their values in JSON and Avro (``docs/formats/debezium.md §7``)."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from cdcwb_synth.instants import microseconds
from cdcwb_synth.text import formatter
from cdcwb_synth.values import Column, Type

__all__ = ["Cell", "Described", "avro_schema", "connect_schema", "describe"]

_EPOCH: Final = date(1970, 1, 1)
_CONTEXT: Final = Context(prec=100)
_WHOLE: Final = {Type.SMALLINT: "int16", Type.INTEGER: "int32", Type.BIGINT: "int64", Type.INT8: "int64"}
_TEXTS: Final = (Type.CHAR, Type.VARCHAR, Type.LVARCHAR, Type.INTERVAL)
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_VARIABLE: Final = "io.debezium.data.VariableScaleDecimal"


class Cell(NamedTuple):
    """A value in JSON and in Avro, and as text with its schema and without."""

    json: Any
    avro: Any
    text: str
    plain: str


class Described(NamedTuple):
    """A column: its type of Kafka Connect (``kind``), the semantic type, the parameters, and its cells."""

    name: str
    kind: str
    semantic: str | None
    parameters: dict[str, str]
    optional: bool
    cell: Callable[[Any], Cell | None]

    @property
    def precision(self) -> int | None:
        """Digits of a decimal."""
        found = self.parameters.get("connect.decimal.precision")
        return None if found is None else int(found)

    @property
    def scale(self) -> int | None:
        """Decimal places of a decimal."""
        found = self.parameters.get("scale")
        return None if found is None else int(found)


def describe(column: Column) -> Described:
    """The column as a connector describes it."""
    kind, semantic, parameters, make = _described(column)

    def cell(value: Any) -> Cell | None:
        return None if value is None else make(value)

    return Described(column.name, kind, semantic, parameters, column.nullable, cell)


def _same(value: Any, text: str) -> Cell:
    return Cell(value, value, text, text)


def _described(column: Column) -> tuple[str, str | None, dict[str, str], Callable[[Any], Cell]]:
    write = formatter(column)

    def text(value: Any) -> str:
        return write(value) or ""

    match column.type:
        case Type.SMALLINT | Type.INTEGER | Type.BIGINT | Type.INT8:
            return _WHOLE[column.type], None, {}, lambda value: _same(value, str(value))
        case Type.BOOLEAN:
            return "boolean", None, {}, lambda value: _same(value, "true" if value else "false")
        case Type.FLOAT | Type.SMALLFLOAT:
            single = column.type is Type.SMALLFLOAT
            return ("float" if single else "double"), None, {}, lambda value: _float(value, single)
        case Type.DATE:
            return "int32", "io.debezium.time.Date", {}, lambda value: _number((value - _EPOCH).days, text(value))
        case Type.DECIMAL if column.places is not None:
            scale = column.places
            parameters = {"scale": str(scale), "connect.decimal.precision": str(column.digits)}
            return "bytes", _DECIMAL, parameters, lambda value: _fixed(text(value), scale)
        case Type.DECIMAL:
            return "struct", _VARIABLE, {}, _floating
        case Type.DATETIME if column.fields[:3] == ("year", "month", "day") and len(column.fields) > 5:
            fine = column.fields[-1] == "fraction" and column.fraction > 3
            name = "io.debezium.time.MicroTimestamp" if fine else "io.debezium.time.Timestamp"
            return "int64", name, {}, lambda value: _timestamp(value, column, 6 if fine else 3)
        case Type.LOB:
            return "bytes", None, {}, lambda value: _bytes(value, value.hex())
        case _:
            return "string", None, {}, lambda value: _same(text(value), text(value))


def _number(value: int, text: str) -> Cell:
    return Cell(value, value, text, str(value))


def _bytes(raw: bytes, text: str) -> Cell:
    written = base64.b64encode(raw).decode()
    return Cell(written, raw, text, written)


def _float(value: float, single: bool) -> Cell:
    text = repr(value)
    if single:  # the digits of a float, in the form that a double of them has
        text = repr(float(str(np.float32(value))))
    return Cell(msgspec.Raw(text.encode()), value, text, text)


def _signed(number: int) -> bytes:
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def _fixed(text: str, scale: int) -> Cell:
    return _bytes(_signed(int(Decimal(text).scaleb(scale, _CONTEXT))), text)


def _floating(value: Decimal) -> Cell:
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits))) * (-1 if sign else 1)
    raw = _signed(number)
    written = {"scale": -int(exponent), "value": base64.b64encode(raw).decode()}
    text = f"{Decimal(f'{number}E{exponent}'):f}"
    return Cell(written, {"scale": -int(exponent), "value": raw}, text, msgspec.json.encode(written).decode())


def _timestamp(value: datetime, column: Column, digits: int) -> Cell:
    fields = {name: getattr(value, name) for name in column.fields if name != "fraction"}
    if column.fields[-1] == "fraction":
        fields["microsecond"] = value.microsecond // 10 ** (6 - column.fraction) * 10 ** (6 - column.fraction)
    kept = datetime(tzinfo=UTC, **{"hour": 0, "minute": 0, "second": 0, **fields})
    number = microseconds(kept) // 10 ** (6 - digits)
    return _number(
        number, kept.replace(tzinfo=None).isoformat(timespec="milliseconds" if digits == 3 else "microseconds")
    )


_CONNECT_VARIABLE: Final = [
    {"type": "int32", "optional": False, "field": "scale"},
    {"type": "bytes", "optional": False, "field": "value"},
]
_AVRO: Final = {"int16": "int", "int32": "int", "int64": "long", "float": "float", "double": "double"}


def connect_schema(column: Described) -> dict[str, Any]:
    """The schema of a column as the JSON converter writes it."""
    schema: dict[str, Any] = {"type": column.kind}
    if column.semantic == _VARIABLE:
        schema["fields"] = _CONNECT_VARIABLE
    schema["optional"] = column.optional
    if column.semantic is not None:
        schema |= {"name": column.semantic, "version": 1}
    if column.parameters:
        schema["parameters"] = column.parameters
    return schema | {"field": column.name}


def avro_schema(column: Described, known: set[str]) -> Any:
    """The schema of a column as the Avro converter registers it; ``known`` are the named types that it has already."""
    kind: Any = _AVRO.get(column.kind, column.kind)
    if column.semantic == _VARIABLE:
        if _VARIABLE in known:
            kind = _VARIABLE
        else:
            known.add(_VARIABLE)
            space, _, name = _VARIABLE.rpartition(".")
            fields = [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}]
            kind = {"type": "record", "name": name, "namespace": space, "fields": fields, "connect.name": _VARIABLE}
    elif column.semantic == _DECIMAL:
        numbers = {"scale": column.scale, "precision": column.precision, "logicalType": "decimal"}
        kind = {"type": "bytes", **numbers, "connect.parameters": column.parameters, "connect.name": _DECIMAL}
    elif column.semantic is not None:
        kind = {"type": kind, "connect.version": 1, "connect.name": column.semantic}
    elif column.kind == "int16":
        kind = {"type": "int", "connect.type": "int16"}
    return ["null", kind] if column.optional else kind
