"""The types of a schema as a tree, each with the Arrow type that its values get.

============================  ========================================================================================
Avro                          Arrow
============================  ========================================================================================
int, long, float, double      int32, int64, float, double
boolean, string, bytes        bool, string, binary
fixed, enum, uuid             binary, string, string
date, time-millis, -micros    date32, time32[ms], time64[us]
timestamp-millis, -micros     timestamp[ms, UTC], timestamp[us, UTC]; local-timestamp-… without a zone
decimal                       decimal128 up to 38 digits, decimal256 up to 76, else string
record, array, map            struct, list, map
null and one other type       that type
several types                 struct of ``member0``, ``member1`` …, of which at most one is not null
a record inside itself        string: JSON of the texts of its values
============================  ========================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

__all__ = [
    "JSON",
    "MARK",
    "MEMBER",
    "Array",
    "Enum",
    "Fixed",
    "Map",
    "Node",
    "Primitive",
    "Record",
    "Recursive",
    "Union",
    "arrow_field",
]

MARK: Final = b"avro"
"""Key of the metadata of an Arrow field that needs to be told apart."""

MEMBER: Final = b"member"
"""Mark of the fields that stand for the types of a union."""

JSON: Final = b"json"
"""Mark of a string that is JSON already."""


@dataclass(eq=False, kw_only=True)
class Node:
    """A type. ``arrow``: of its values; ``least``: bytes that a value takes at least; ``blank``: bytes that it takes
    where all bytes are 0; ``weight``: number of types in it."""

    arrow: pa.DataType
    least: int = 0
    blank: int = 0
    weight: int = 1


@dataclass(eq=False, kw_only=True)
class Primitive(Node):
    """A primitive type; ``logical`` is ``decimal``, ``date`` … or None; ``precision`` and ``scale`` are a decimal's."""

    kind: str
    logical: str | None = None
    precision: int = 0
    scale: int = 0


@dataclass(eq=False, kw_only=True)
class Fixed(Node):
    """So many bytes, maybe a decimal."""

    name: str
    size: int
    logical: str | None = None
    precision: int = 0
    scale: int = 0


@dataclass(eq=False, kw_only=True)
class Enum(Node):
    """One of the symbols, by its number."""

    name: str
    symbols: list[str]


@dataclass(eq=False, kw_only=True)
class Array(Node):
    """Blocks of items."""

    items: Node


@dataclass(eq=False, kw_only=True)
class Map(Node):
    """Blocks of keys and values."""

    values: Node


@dataclass(eq=False, kw_only=True)
class Union(Node):
    """One of its members, by its number. ``places`` has for each the number among those that are not null, or None."""

    members: list[Node]
    places: list[int | None]

    @property
    def several(self) -> bool:
        """Is there more than one that is not null?"""
        return sum(place is not None for place in self.places) > 1


@dataclass(eq=False, kw_only=True)
class Record(Node):
    """Fields one behind the other."""

    name: str
    fields: dict[str, Node] = field(default_factory=dict)


@dataclass(eq=False, kw_only=True)
class Recursive(Node):
    """A record inside itself."""

    record: Record


def arrow_field(name: str, node: Node) -> pa.Field:
    """A field of the node's Arrow type. Nullable in any case: Avro's own nulls are in unions."""
    return pa.field(name, node.arrow, metadata={MARK: JSON} if _is_json(node) else None)


def _is_json(node: Node) -> bool:
    if isinstance(node, Union):
        return not node.several and any(_is_json(member) for member in node.members)
    return isinstance(node, Recursive)
