"""The tree of types, made from what fastavro has parsed."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from cdcwb.errors import CaptureError
from cdcwb.formats.avro.lenient import PRIMITIVES
from cdcwb.formats.avro.nodes import (
    MARK,
    MEMBER,
    Array,
    Enum,
    Fixed,
    Map,
    Node,
    Primitive,
    Record,
    Recursive,
    Union,
    arrow_field,
)

__all__ = ["build"]

_MOST_TYPES: Final = 50_000
"""Types in a schema with all its names written out: more would be a schema made to fill the memory."""

_DECIMAL128: Final = 38
_DECIMAL256: Final = 76

_ARROW: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "uuid": pa.string(),
}

_LEAST: Final = {"null": 0, "float": 4, "double": 8}


def build(parsed: Any, named: dict[str, Any]) -> Record:
    """The tree of a record that fastavro has parsed; ``named`` are its named types. Raises CaptureError."""
    found = _Builder(named).node(parsed)
    assert isinstance(found, Record)
    return found


class _Builder:
    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named
        self._made: dict[str, Node] = {}
        self._open: dict[str, Record] = {}

    def node(self, parsed: Any) -> Node:
        made = self._node(parsed)
        if made.weight > _MOST_TYPES:
            expected = f"at most {_MOST_TYPES} types, all names written out"
            raise CaptureError(f"the Avro schema cannot be read: expected {expected}, found more")
        return made

    def _node(self, parsed: Any) -> Node:
        if isinstance(parsed, list):
            return self._union([self.node(member) for member in parsed])
        if isinstance(parsed, str):
            if parsed in PRIMITIVES:
                return _primitive({"type": parsed})
            if parsed in self._open:
                record = self._open[parsed]
                return Recursive(record=record, arrow=pa.string(), blank=1)
            return self._made[parsed] if parsed in self._made else self.node(self._named[parsed])
        kind = parsed["type"]
        if kind in PRIMITIVES:
            return _primitive(parsed)
        if kind == "array":
            items = self.node(parsed["items"])
            arrow = pa.list_(arrow_field("item", items))
            return Array(items=items, arrow=arrow, least=1, blank=1, weight=items.weight + 1)
        if kind == "map":
            values = self.node(parsed["values"])
            arrow = pa.map_(pa.string(), arrow_field("value", values))
            return Map(values=values, arrow=arrow, least=1, blank=1, weight=values.weight + 1)
        self._made[parsed["name"]] = made = self._with_name(parsed)
        return made

    def _with_name(self, parsed: dict[str, Any]) -> Node:
        name = parsed["name"]
        if parsed["type"] == "enum":
            return Enum(name=name, symbols=parsed["symbols"], arrow=pa.string(), least=1, blank=1)
        if parsed["type"] == "fixed":
            size = parsed["size"]
            logical, precision, scale = _decimal(parsed)
            arrow = _decimal_type(precision, scale) if logical else pa.binary()
            return Fixed(
                name=name,
                size=size,
                logical=logical,
                precision=precision,
                scale=scale,
                arrow=arrow,
                least=size,
                blank=size,
            )
        record = Record(name=name, arrow=pa.null())
        self._open[name] = record
        for one in parsed["fields"]:
            made = self.node(one["type"])
            record.fields[one["name"]] = made
            record.least += made.least
            record.blank += made.blank
            record.weight += made.weight
        record.arrow = pa.struct([arrow_field(label, made) for label, made in record.fields.items()])
        del self._open[name]
        return record

    def _union(self, members: list[Node]) -> Union:
        places: list[int | None] = []
        others: list[Node] = []
        for member in members:
            is_null = isinstance(member, Primitive) and member.kind == "null"
            places.append(None if is_null else len(others))
            if not is_null:
                others.append(member)
        if len(others) > 1:
            arrow = pa.struct(
                [pa.field(f"member{place}", other.arrow, metadata={MARK: MEMBER}) for place, other in enumerate(others)]
            )
        else:
            arrow = others[0].arrow if others else pa.null()
        return Union(
            members=members,
            places=places,
            arrow=arrow,
            least=1 + min((member.least for member in members), default=0),
            blank=1 + (members[0].blank if members else 0),
            weight=1 + sum(member.weight for member in members),
        )


def _primitive(parsed: dict[str, Any]) -> Primitive:
    kind, logical = parsed["type"], parsed.get("logicalType")
    least = _LEAST.get(kind, 1)
    if logical == "decimal":
        logical, precision, scale = _decimal(parsed)
        arrow = _decimal_type(precision, scale)
        return Primitive(
            kind=kind, logical=logical, precision=precision, scale=scale, arrow=arrow, least=least, blank=least
        )
    return Primitive(kind=kind, logical=logical, arrow=_ARROW[logical or kind], least=least, blank=least)


def _decimal(parsed: dict[str, Any]) -> tuple[str | None, int, int]:
    if parsed.get("logicalType") != "decimal":
        return None, 0, 0
    return "decimal", parsed["precision"], parsed["scale"]


def _decimal_type(precision: int, scale: int) -> pa.DataType:
    if precision <= _DECIMAL128:
        return pa.decimal128(precision, scale)
    return pa.decimal256(precision, scale) if precision <= _DECIMAL256 else pa.string()
