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
record                        struct
null and one other type       that type
array, map, several types     string: JSON of the texts of the values
============================  ========================================================================================
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdcwb.errors import CaptureError, OptionError
from cdcwb.words import plural, unique_names

SPANNED: Final = ("string", "bytes", "fixed")
"""Kinds whose values are spans of the bytes."""

TOP: Final = "value"
"""Name of the only field for a schema that is not a record."""

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

NUMBER, RUN, UNION, WORD, FIXED, NESTED, JUMP = range(7)
"""What an instruction reads: a varint; a length and so many bytes; the number of a member, whose instructions begin at
that of the following rows; a little-endian word; bytes of a fixed number; a value that the program leaves out."""

_READ: Final = {"string": (RUN, 0), "bytes": (RUN, 0), "boolean": (WORD, 1), "float": (WORD, 4), "double": (WORD, 8)}

# --- types ------------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Node:
    """A type at one place of a schema. ``kind`` is that of Avro; ``inner``: the types of the fields, the members, the
    items or the values of a map; ``names``: of the fields. ``pc``: its instruction in the program (-1: it has none);
    ``path``: the fields that lead to it; ``given``: its attributes in the schema."""

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
    path: tuple[str, ...] = ()
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def others(self) -> list[Node]:
        """The members of a union that are not null."""
        return [member for member in self.inner if member.kind != "null"]

    @property
    def without_null(self) -> Node:
        """The type of the values other than null."""
        return self.others[0] if self.kind == "union" and len(self.others) == 1 else self

    @property
    def is_nested(self) -> bool:
        """Whether values are read one by one: arrays, maps, and unions of several types."""
        return self.kind in ("array", "map") or (self.kind == "union" and len(self.others) > 1)

    def __str__(self) -> str:
        """The type in a few words."""
        decimal = f"decimal({self.precision},{self.scale})"
        if self.kind == "fixed":
            return f"{decimal if self.logical else f'fixed {self.name}'} in {plural(self.size, 'byte')}"
        if self.kind in ("enum", "record"):
            return f"{self.kind} {self.name}"
        if self.kind in ("array", "map"):
            return f"{self.kind} of {self.inner[0]}"
        if self.kind == "union":
            return f"union of {', '.join(map(str, self.inner))}"
        if self.logical == "decimal":
            return f"{decimal} in bytes"
        return f"{self.kind} ({self.logical})" if self.logical else self.kind


def leaves(node: Node) -> Iterator[Node]:
    """The types that have an instruction, in the order of the program."""
    if node.pc >= 0:
        yield node
    for inner in () if node.is_nested else node.inner:
        yield from leaves(inner)


Path = tuple[str, ...]


class _SchemaParser:
    """One pass through the JSON of a schema: the tree of its types, and their instructions (operation, argument, slot
    of the number, slot of the span or member). A name is read again as its definition, so every place has a type and
    instructions of its own."""

    def __init__(self, logical: bool) -> None:
        self.code: list[list[int]] = []
        self._logical = logical
        self._named: dict[str, tuple[Any, str]] = {}
        self._open: set[int] = set()
        self._types = 0

    def type(self, given: Any, space: str, path: Path, depth: int) -> Node:
        """The type at ``path``, inside of the namespace ``space``."""
        self._types += 1
        if depth > _MOST_DEPTH or self._types > _MOST_TYPES:
            limit = f"{_MOST_DEPTH} types inside each other, and {_MOST_TYPES} in all with names written out"
            raise _wrong(path, f"at most {limit}", "more")
        node = self._of(given, space, path, depth)
        node.path = path
        return node

    def _of(self, given: Any, space: str, path: Path, depth: int) -> Node:
        if isinstance(given, str):
            if given in _ARROW:
                return self._leaf(Node(given, _ARROW[given]))
            full = f"{space}.{given}" if space and "." not in given else given
            if (named := self._named.get(full) or self._named.get(given)) is None:
                raise _wrong(path, "a type that is already defined", given)
            return self.type(*named, path, depth + 1)
        if isinstance(given, list):
            return self._union(given, space, path, depth)
        if not isinstance(given, Mapping) or "type" not in given:
            raise _wrong(path, "a type", given)
        kind = given["type"]
        if kind in ("array", "map"):
            pc, inner = len(self.code), ("[]" if kind == "array" else "{}",)
            item = self.type(given.get("items" if kind == "array" else "values"), space, path + inner, depth + 1)
            if kind == "array" and not _has_bytes(item):
                raise _wrong(path, "items that have bytes", str(item))
            return self._nested(pc, Node(kind, pa.string(), inner=[item], given=given))
        if kind in ("record", "error", "enum", "fixed"):
            return self._defined(given, space, path, depth)
        if isinstance(kind, str) and kind in _ARROW:
            return self._leaf(self._with_logical(Node(kind, _ARROW[kind], given=given), _MOST_DIGITS))
        return self.type(kind, space, path, depth + 1)

    def _add(self, operation: int, argument: int = 0) -> int:
        self.code.append([operation, argument, -1, -1])
        return len(self.code) - 1

    def _leaf(self, node: Node) -> Node:
        if node.kind != "null":
            node.pc = self._add(*((FIXED, node.size) if node.kind == "fixed" else _READ.get(node.kind, (NUMBER, 0))))
        return node

    def _nested(self, pc: int, node: Node) -> Node:
        """A type that the program leaves out, instead of the instructions from ``pc`` on."""
        del self.code[pc:]
        node.pc = self._add(NESTED)
        return node

    def _union(self, given: list[Any], space: str, path: Path, depth: int) -> Node:
        node = Node("union", pa.null(), pc=self._add(UNION, len(given)))
        entries, ends = [self._add(JUMP) for _ in given], []
        for entry, one in zip(entries, given, strict=True):
            self.code[entry][1] = len(self.code)
            node.inner.append(self.type(one, space, path, depth + 1))
            if len(self.code) == self.code[entry][1]:  # null
                ends.append(entry)
            elif entry != entries[-1]:
                ends.append(self._add(JUMP))
        for at in ends:
            self.code[at][1] = len(self.code)
        node.arrow = pa.string() if node.is_nested else node.without_null.arrow
        return self._nested(node.pc, node) if node.is_nested else node

    def _defined(self, given: Mapping[str, Any], space: str, path: Path, depth: int) -> Node:
        """A record, enum or fixed, which later types may name."""
        name: Any = given.get("name")
        own_space = given.get("namespace", space)
        if not isinstance(name, str) or not name:
            raise _wrong(path, f"a name of the {given['type']}", name)
        inner = name.rpartition(".")[0] if "." in name else own_space if isinstance(own_space, str) else ""
        name = f"{inner}.{name}" if inner and "." not in name else name
        self._named[name] = given, space
        if given["type"] == "enum":
            symbols = given.get("symbols")
            if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
                raise _wrong(path, "a list of symbols", symbols)
            return self._leaf(Node("enum", pa.string(), name=name, symbols=tuple(symbols), given=given))
        if given["type"] == "fixed":
            size: Any = given.get("size")
            if not _is_whole(size, 0, _MOST_BYTES):
                raise _wrong(path, "a number of bytes", size)
            node = Node("fixed", pa.binary(), name=name, size=size, given=given)
            return self._leaf(self._with_logical(node, min(_MOST_DIGITS, math.floor(math.log10(2) * (8 * size - 1)))))
        fields = given.get("fields", [])
        if not isinstance(fields, list):
            raise _wrong(path, "a list of fields", fields)
        for one in fields:
            if not isinstance(one, Mapping) or not isinstance(one.get("name"), str):
                raise _wrong(path, "a field with a name", one)
        if id(given) in self._open:
            raise _wrong(path, "a type that is complete", f"the record {name} inside itself")
        self._open.add(id(given))
        record = Node("record", pa.null(), name=name, names=unique_names(one["name"] for one in fields), given=given)
        for one, label in zip(fields, record.names, strict=True):
            record.inner.append(self.type(one.get("type"), inner, (*path, label), depth + 1))
        self._open.remove(id(given))
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


def _struct(record: Node) -> pa.StructType:
    return pa.struct([(name, inner.arrow) for name, inner in zip(record.names, record.inner, strict=True)])


def _has_bytes(node: Node) -> bool:
    """Whether each value has at least one byte; of others an array may claim any number."""
    if node.kind == "record":
        return any(map(_has_bytes, node.inner))
    return node.kind != "null" and (node.kind != "fixed" or node.size > 0)


def _is_whole(value: Any, least: int, most: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _wrong(path: Path, expected: str, found: Any) -> CaptureError:
    shown = found if isinstance(found, str) else f"{found!r:.80}"
    return CaptureError(
        f"the Avro schema cannot be read: {'.'.join(path) or 'top'}: expected {expected}, found {shown}"
    )


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
    Raises CaptureError with the location of the error, also for a record inside itself, and for an array whose items
    have no bytes."""
    parser = _SchemaParser(logical)
    try:
        bare = text.strip("\ufeff \t\r\n")
        given = bare if bare.isidentifier() else json.loads(bare)
        json.dumps(given, ensure_ascii=False).encode()  # fails if a name is not valid Unicode
        root = parser.type(given, "", (), 0)
    except RecursionError:
        raise CaptureError("the Avro schema cannot be read: found too many levels") from None
    except ValueError as error:
        found = f"{error!s:.200}: {text:.80}"
        raise CaptureError(f"the Avro schema cannot be read: expected JSON, found {found}") from error
    is_record = root.kind == "record"
    if not is_record:
        root = Node("record", pa.struct([(TOP, root.arrow)]), name="top", names=(TOP,), inner=[root])
    return Schema(text, is_record, root, np.array(parser.code, dtype=np.int64).reshape(-1, 4))


def restricted(node: Node, fields: Iterable[str]) -> Node:
    """The record, or the nullable one, with nothing but some fields, such as ``data``, or ``data.salary`` for a field
    of a record in it. Raises OptionError for an unknown field."""
    if node.without_null is not node:
        record = restricted(node.without_null, fields)
        return replace(node, arrow=record.arrow, inner=[record if one.kind == "record" else one for one in node.inner])
    wanted: dict[str, list[str]] = {}  # an empty name: all of it
    for path in fields:
        name, _, inner = (path, "", "") if path in node.names else path.partition(".")
        if name not in node.names:
            raise OptionError(f"The Avro schema has no field '{path}'. There are: {', '.join(node.names)}.")
        wanted.setdefault(name, []).append(inner)
    found = {
        name: one if "" in wanted[name] else restricted(one, wanted[name])
        for name, one in zip(node.names, node.inner, strict=True)
        if name in wanted
    }
    made = replace(node, names=tuple(found), inner=list(found.values()))
    made.arrow = _struct(made)
    return made
