"""Avro schemas: their text, the tree of types, and the flat program by which values are walked.

Replicate writes namespaces with hyphens, records with the names of columns (``long``, or the name of an earlier
record), and types one level too deep (``{"type": {"type": "int"}}``): see docs/formats/qlik-kafka.md §4.

============================  ========================================================================================
Avro                          Arrow
============================  ========================================================================================
int, long, float, double      int32, int64, float, double
boolean, string, bytes        bool, string, binary
fixed, enum, uuid             binary, string, string
date, time-millis, -micros    date32, time32[ms], time64[us]
timestamp-millis, -micros     timestamp[ms, UTC], timestamp[us, UTC]; local-timestamp-… without a zone
decimal                       decimal128 up to 38 digits, decimal256 up to 76; with more digits it is bytes
record, array, map            struct, list, map
null and one other type       that type
several types                 struct of ``member0``, ``member1`` …, of which at most one is not null
a record inside itself        large_string: JSON of the texts of its values
============================  ========================================================================================
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdcwb.errors import CaptureError, OptionError
from cdcwb.words import plural, unique_names

__all__ = [
    "CALL", "COUNT", "FIXED", "JUMP", "MEMBER", "NESTED", "NEXT", "NUMBER", "RETURN", "RUN", "SPANNED", "TOP", "UNION",
    "WORD", "Node", "Schema", "operation_of", "parse_schema", "restricted",
]  # fmt: skip

NESTED: Final = ("array", "map", "recursive")
"""Kinds whose values are decoded one by one."""

SPANNED: Final = ("string", "bytes", "fixed", *NESTED)
"""Kinds whose values are spans of the bytes."""

TOP: Final = "value"
"""Name of the only field for a schema that is not a record."""

MEMBER: Final = {b"avro": b"member"}
"""The metadata of the fields for the types of a union."""

_MOST_DEPTH: Final = 64  # types inside each other
_MOST_DIGITS: Final = 76  # of a decimal, as Arrow has them; one with more is read as bytes
_MOST_BYTES: Final = (1 << 31) - 1
_MOST_TYPES: Final = 50_000  # with all names expanded, to protect the memory
_ARROW: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Final = {
    "date": ("int", pa.date32()),
    "time-millis": ("int", pa.time32("ms")),
    "time-micros": ("long", pa.time64("us")),
    "timestamp-millis": ("long", pa.timestamp("ms", tz="UTC")),
    "timestamp-micros": ("long", pa.timestamp("us", tz="UTC")),
    "local-timestamp-millis": ("long", pa.timestamp("ms")),
    "local-timestamp-micros": ("long", pa.timestamp("us")),
    "uuid": ("string", pa.string()),
}


# --- types ------------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Node:
    """A type. ``kind`` is that of Avro, ``entry`` (the items of a map: a key and a value), or ``recursive`` (a record
    inside itself). ``inner`` are the types in it: of the fields, the members, the items. ``pc``: its
    instruction in the program; ``given``: its attributes in the schema."""

    kind: str
    arrow: pa.DataType
    name: str = ""
    logical: str | None = None
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    inner: list[Node] = field(default_factory=list)
    pc: int = -1
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def others(self) -> list[Node]:
        """The members of a union that are not null."""
        return [member for member in self.inner if member.kind != "null"]

    @property
    def without_null(self) -> Node:
        """The type of the values other than null."""
        return self.others[0] if self.kind == "union" and len(self.others) == 1 else self

    def __str__(self) -> str:
        """The type in a few words."""
        decimal = f"decimal({self.precision},{self.scale})"
        if self.kind == "fixed":
            return f"{decimal if self.logical else f'fixed {self.name}'} in {plural(self.size, 'byte')}"
        if self.kind in ("enum", "record", "recursive"):
            return f"{'enum' if self.kind == 'enum' else 'record'} {self.name}"
        if self.kind in ("array", "map"):
            return f"{self.kind} of {self.inner[0] if self.kind == 'array' else self.inner[0].inner[1]}"
        if self.kind == "union":
            return f"union of {', '.join(map(str, self.inner))}"
        if self.logical == "decimal":
            return f"{decimal} in bytes"
        return f"{self.kind} ({self.logical})" if self.logical else self.name or self.kind


_KEY: Final = Node("string", pa.string(), name="a key")


class _SchemaParser:
    """One pass through the JSON of a schema, with the named types so far."""

    def __init__(self, logical: bool) -> None:
        self._logical = logical
        self._named: dict[str, Node] = {}
        self._open: set[int] = set()

    def type(self, given: Any, space: str, path: str, depth: int) -> Node:
        """The type at ``path``, inside of the namespace ``space``."""
        if depth > _MOST_DEPTH:
            raise _wrong(path, f"at most {_MOST_DEPTH} types inside each other", "more")
        if isinstance(given, str):
            return self._reference(given, space, path)
        if isinstance(given, list):
            return _union([self.type(one, space, path, depth + 1) for one in given])
        if not isinstance(given, Mapping) or "type" not in given:
            raise _wrong(path, "a type", given)
        kind = given["type"]
        if kind == "array":
            items = self.type(given.get("items"), space, f"{path}[]", depth + 1)
            return Node(kind, pa.list_(items.arrow), inner=[items], given=given)
        if kind == "map":
            values = self.type(given.get("values"), space, f"{path}{{}}", depth + 1)
            arrow = pa.map_(pa.string(), values.arrow)
            entry = Node("entry", pa.struct([arrow.key_field, arrow.item_field]), inner=[_KEY, values])
            return Node(kind, arrow, inner=[entry], given=given)
        if kind in ("record", "error", "enum", "fixed"):
            return self._defined(given, space, path, depth)
        if isinstance(kind, str) and kind in _ARROW:
            return self._with_logical(Node(kind, _ARROW[kind], given=given), _MOST_DIGITS)
        return self.type(kind, space, path, depth + 1)

    def _reference(self, name: str, space: str, path: str) -> Node:
        if name in _ARROW:
            return Node(name, _ARROW[name])
        found = self._named.get(f"{space}.{name}" if space and "." not in name else name) or self._named.get(name)
        if found is None:
            raise _wrong(path, "a type that is already defined", name)
        return (
            Node("recursive", pa.large_string(), name=found.name, inner=[found]) if id(found) in self._open else found
        )

    def _defined(self, given: Mapping[str, Any], space: str, path: str, depth: int) -> Node:
        """A record, enum or fixed, which later types may name."""
        name: Any = given.get("name")
        given_space = given.get("namespace", space)
        if not isinstance(name, str) or not name:
            raise _wrong(path, f"a name of the {given['type']}", name)
        space = name.rpartition(".")[0] if "." in name else given_space if isinstance(given_space, str) else ""
        name = f"{space}.{name}" if space and "." not in name else name
        if given["type"] == "enum":
            symbols = given.get("symbols")
            if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
                raise _wrong(path, "a list of symbols", symbols)
            node = Node("enum", pa.string(), name=name, symbols=tuple(symbols), given=given)
        elif given["type"] == "fixed":
            size: Any = given.get("size")
            if not _is_whole(size, 0, _MOST_BYTES):
                raise _wrong(path, "a number of bytes", size)
            node = Node("fixed", pa.binary(), name=name, size=size, given=given)
            node = self._with_logical(node, min(_MOST_DIGITS, math.floor(math.log10(2) * (8 * size - 1))))
        else:
            return self._record(name, given, space, path, depth)
        self._named[name] = node
        return node

    def _record(self, name: str, given: Mapping[str, Any], space: str, path: str, depth: int) -> Node:
        fields = given.get("fields", [])
        if not isinstance(fields, list):
            raise _wrong(path, "a list of fields", fields)
        for one in fields:
            if not isinstance(one, Mapping) or not isinstance(one.get("name"), str):
                raise _wrong(path, "a field with a name", one)
        record = self._named[name] = Node("record", pa.null(), name=name, given=given)
        self._open.add(id(record))
        record.names = unique_names(one["name"] for one in fields)
        for one, label in zip(fields, record.names, strict=True):
            inner = f"{path}.{label}" if path else label
            record.inner.append(self.type(one.get("type"), space, inner, depth + 1))
        self._open.remove(id(record))
        record.arrow = _struct(record)
        return record

    def _with_logical(self, node: Node, most: int) -> Node:
        """The node with its logical type, if that fits its type; otherwise it is ignored, as Avro's specification
        requires. ``most``: digits that a decimal may have."""
        logical = node.given.get("logicalType") if self._logical else None
        if logical == "decimal" and node.kind in ("bytes", "fixed"):
            precision: Any = node.given.get("precision")
            scale: Any = node.given.get("scale", 0)
            if _is_whole(precision, 1, most) and _is_whole(scale, 0, precision):
                node.logical, node.precision, node.scale = logical, precision, scale
                node.arrow = (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale)
        elif isinstance(logical, str) and _LOGICAL.get(logical, ("", None))[0] == node.kind:
            node.logical, node.arrow = logical, _LOGICAL[logical][1]
        return node


def _union(members: list[Node]) -> Node:
    union = Node("union", pa.null(), inner=members)
    others = union.others
    if len(others) > 1:
        union.arrow = pa.struct([pa.field(f"member{n}", one.arrow, metadata=MEMBER) for n, one in enumerate(others)])
    elif others:
        union.arrow = others[0].arrow
    return union


def _struct(record: Node) -> pa.StructType:
    return pa.struct([(name, inner.arrow) for name, inner in zip(record.names, record.inner, strict=True)])


def _is_whole(value: Any, least: int, most: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _wrong(path: str, expected: str, found: Any) -> CaptureError:
    shown = found if isinstance(found, str) else f"{found!r:.80}"
    return CaptureError(f"the Avro schema cannot be read: {path or 'top'}: expected {expected}, found {shown}")


# --- program ----------------------------------------------------------------------------------------------------------

NUMBER, RUN, UNION, COUNT, WORD, FIXED, NEXT, CALL, RETURN, JUMP = range(10)
"""What an instruction reads: a varint; a length and so many bytes; the number of a member, whose instructions begin at
that of the following rows; the number of items in a block; a little-endian word; bytes of a fixed number. ``CALL`` is
an array, a map or a record inside itself, whose instructions follow those of the schema and end with ``RETURN``;
``NEXT`` follows an item."""

_READ: Final = {"string": (RUN, 0), "bytes": (RUN, 0), "fixed": (FIXED, 0), "boolean": (WORD, 1), "float": (WORD, 4)}
_READ["double"] = WORD, 8


def operation_of(leaf: Node) -> tuple[int, int]:
    """What reads a leaf, and its fixed number of bytes if it has one."""
    operation, size = _READ.get(leaf.kind, (NUMBER, 0))
    return operation, leaf.size or size


class _Program:
    """The instructions of a schema: operation, argument, slot of the number, slot of the span or member."""

    def __init__(self, root: Node) -> None:
        self.code: list[list[int]] = []
        self._calls: list[Node] = []
        self._types = 0
        self.root = self._emit(root)
        self._add(RETURN)
        bodies: dict[int, Node] = {}
        for node in self._calls:  # grows
            inner = node.inner[0]
            if node.kind == "recursive" and id(inner) in bodies:
                node.inner = [bodies[id(inner)]]
                self.code[node.pc][1] = node.inner[0].pc
                continue
            self.code[node.pc][1] = begin = len(self.code)
            if node.kind != "recursive":
                self._add(COUNT)
            node.inner = [self._emit(inner)]
            if node.kind == "recursive":
                bodies[id(inner)] = node.inner[0]
            else:
                self._add(NEXT, begin)
                self.code[begin][1] = len(self.code)
            self._add(RETURN)

    def _add(self, operation: int, argument: int = 0) -> int:
        self.code.append([operation, argument, -1, -1])
        return len(self.code) - 1

    def _emit(self, given: Node) -> Node:
        """The instructions of a type at this place of the schema; gives the type with its place."""
        self._types += 1
        if self._types > _MOST_TYPES:
            raise _wrong("", f"at most {_MOST_TYPES} types, all names written out", "more")
        node = copy(given)
        node.inner, node.pc = list(given.inner), len(self.code)
        if node.kind in ("record", "entry"):
            node.inner = [self._emit(one) for one in given.inner]
        elif node.kind == "union":
            self._add(UNION, len(node.inner))
            entries = [self._add(JUMP) for _ in node.inner]
            ends = []
            for number, entry in enumerate(entries):
                self.code[entry][1] = len(self.code)
                node.inner[number] = self._emit(given.inner[number])
                if len(self.code) == self.code[entry][1]:  # null
                    ends.append(entry)
                elif entry != entries[-1]:
                    ends.append(self._add(JUMP))
            for at in ends:
                self.code[at][1] = len(self.code)
        elif node.kind in NESTED:
            self._add(CALL)
            self._calls.append(node)
        elif node.kind != "null":
            self._add(*operation_of(node))
        return node


# --- schema -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Schema:
    """A schema from :func:`parse_schema`. A schema that is not a record is read as a record with the only field
    ``value``, which has the same bytes; ``is_record`` is False then. ``root`` is the tree of types, ``code`` its
    program."""

    text: str
    is_record: bool
    root: Node = field(repr=False)
    code: npt.NDArray[np.int64] = field(repr=False)

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the top record's fields, in the order of the bytes."""
        return self.root.names


@lru_cache(maxsize=256)
def parse_schema(text: str, logical: bool = True) -> Schema:
    """The schema of a JSON text, or of the name of a primitive type. Names may violate the rules of Avro; the name of a
    field that repeats gets ``#2``, ``#3``. Without ``logical``, values are the numbers and bytes that are written.
    Raises CaptureError with the location of the error."""
    try:
        bare = text.strip("\ufeff \t\r\n")
        given = bare if bare.isidentifier() else json.loads(bare)
        json.dumps(given, ensure_ascii=False).encode()  # fails if a name is not valid Unicode
        root = _SchemaParser(logical).type(given, "", "", 0)
    except RecursionError:
        raise CaptureError("the Avro schema cannot be read: found too many levels") from None
    except ValueError as error:
        found = f"{error!s:.200}: {text:.80}"
        raise CaptureError(f"the Avro schema cannot be read: expected JSON, found {found}") from error
    is_record = root.kind == "record"
    if not is_record:
        root = Node("record", pa.struct([(TOP, root.arrow)]), name="top", names=(TOP,), inner=[root])
    program = _Program(root)
    return Schema(text, is_record, program.root, np.array(program.code, dtype=np.int64))


# --- selection --------------------------------------------------------------------------------------------------------


def restricted(root: Node, fields: Iterable[str]) -> Node:
    """The record with nothing but some fields, such as ``data``, or ``data.salary`` for a field of a record in it.
    Raises OptionError for an unknown field."""
    wanted: dict[str, list[str]] = {}  # an empty name: all of it
    for path in fields:
        name, _, inner = (path, "", "") if path in root.names else path.partition(".")
        record = root.inner[root.names.index(name)].without_null if name in root.names else root
        if name not in root.names or (inner and inner not in record.names):
            raise OptionError(f"The Avro schema has no field '{path}'. There are: {', '.join(record.names)}.")
        wanted.setdefault(name, []).append(inner)
    made = _with_fields(root, wanted)
    for place, name in enumerate(made.names):
        if all(wanted[name]):
            made.inner[place] = _with_fields(made.inner[place], wanted[name])
    made.arrow = _struct(made)
    return made


def _with_fields(node: Node, names: Container[str]) -> Node:
    """The record, or the nullable one, with the fields of these names."""
    if node.kind == "union":
        made = _with_fields(node.without_null, names)
        inner = [made if one is node.without_null else one for one in node.inner]
        return replace(node, inner=inner, arrow=made.arrow)
    chosen = [(name, one) for name, one in zip(node.names, node.inner, strict=True) if name in names]
    made = replace(node, names=tuple(name for name, _ in chosen), inner=[one for _, one in chosen])
    made.arrow = _struct(made)
    return made
