"""Avro schemas: their text, the tree of types, and the requested fields.

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
decimal                       decimal128 up to 38 digits, decimal256 up to 76, else string
record, array, map            struct, list, map
null and one other type       that type
several types                 struct of ``member0``, ``member1`` …, of which at most one is not null
a record inside itself        string: JSON of the texts of its values
============================  ========================================================================================
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

import fastavro
import pyarrow as pa

from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.options import nearest
from cdcwb.words import unique_names, unused_name

__all__ = [
    "JSON",
    "MARK",
    "MEMBER",
    "TOP",
    "Array",
    "Enum",
    "Fixed",
    "Map",
    "Node",
    "Primitive",
    "Record",
    "Recursive",
    "Schema",
    "Selection",
    "Union",
    "arrow_field",
    "parse_schema",
    "select",
]


# --- lenient ----------------------------------------------------------------------------------------------------------

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_KEYWORDS: Final = frozenset({"record", "error", "enum", "fixed", "array", "map", "union", "error_union", "request"})
_LOGICAL: Final = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "uuid": "string",
}

MOST_DEPTH: Final = 64
"""Maximum depth of nested types."""

MOST_DIGITS: Final = 1000
"""Maximum digits of a decimal; a type with more is read as bytes."""

_MOST_BYTES: Final = (1 << 31) - 1

TOP: Final = "value"
"""Name of the only field for a schema that is not a record."""

_SYMBOL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Acceptable(NamedTuple):
    """A ``record`` for fastavro and, by name, the original ``symbols`` of the enums that were changed for it.

    ``is_record``: the record is the given schema itself, not one that has the schema as its only field.
    """

    record: dict[str, Any]
    symbols: dict[str, list[str]]
    is_record: bool


def acceptable(schema: Any) -> Acceptable:
    """A record for fastavro whose values have the same bytes as those of the given schema. Names that fastavro accepts
    are unchanged. Documentation, aliases, defaults and logical types that do not fit their type are left out; a field
    whose name repeats gets ``#2``, ``#3``. Raises CaptureError with the location of the error.
    """
    found = _Names(frozenset())
    made = found.type(schema, "", "", 0)
    if found.unseen:
        found = _Names(frozenset(found.unseen))
        made = found.type(schema, "", "", 0)
    is_record = isinstance(made, dict) and made["type"] == "record"
    if not is_record:
        made = {"type": "record", "name": found.unused("top"), "fields": [{"name": TOP, "type": made}]}
    return Acceptable(made, found.symbols, is_record)


class _Names:
    """One pass through a schema. ``unseen`` are names without a namespace that are used inside of one, where fastavro
    does not find them; a leading dot (``dotted``) makes it find them."""

    def __init__(self, dotted: frozenset[str]) -> None:
        self.unseen: set[str] = set()
        self.symbols: dict[str, list[str]] = {}
        self._dotted = dotted
        self._given: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        self._taken = {*PRIMITIVES, *_KEYWORDS}

    def unused(self, name: str) -> str:
        """The name, with a number appended if it is already used."""
        found = unused_name(name, self._taken)
        self._taken.add(found)
        return found

    def type(self, given: Any, namespace: str, path: str, depth: int) -> Any:
        """The type at ``path``, inside ``namespace``."""
        if depth > MOST_DEPTH:
            raise _wrong(path, f"at most {MOST_DEPTH} types inside each other", "more")
        if isinstance(given, str):
            return self._reference(given, namespace, path)
        if isinstance(given, list):
            return [self.type(one, namespace, path, depth + 1) for one in given]
        if not isinstance(given, Mapping) or "type" not in given:
            raise _wrong(path, "a type", given)
        kind = given["type"]
        if kind in ("record", "error"):
            return self._record(given, namespace, path, depth)
        if kind == "array":
            return {"type": kind, "items": self.type(given.get("items"), namespace, f"{path}[]", depth + 1)}
        if kind == "map":
            return {"type": kind, "values": self.type(given.get("values"), namespace, f"{path}{{}}", depth + 1)}
        if kind == "enum":
            return self._enum(given, namespace, path)
        if kind == "fixed":
            return self._fixed(given, namespace, path)
        if isinstance(kind, str) and kind in PRIMITIVES:
            return {"type": kind, **_logical(given, kind, None)}
        return self.type(kind, namespace, path, depth + 1)

    def _reference(self, name: str, namespace: str, path: str) -> str:
        if name in PRIMITIVES:
            return name
        inside = f"{namespace}.{name}" if namespace and "." not in name else name
        if inside in self._names:
            return self._names[inside]
        if name in self._names:
            if namespace and name not in self._dotted:
                self.unseen.add(name)
            return self._names[name]
        raise _wrong(path, "a type that is already defined", name)

    def _define(self, given: Mapping[str, Any], namespace: str, path: str) -> tuple[str, str, bool]:
        """Namespace and name of a type for fastavro, and whether the same type occurred before."""
        name, space = given.get("name"), given.get("namespace", namespace)
        if not isinstance(name, str) or not name:
            raise _wrong(path, f"a name of the {given['type']}", name)
        if "." in name:
            space = name.rpartition(".")[0]
        elif isinstance(space, str) and space:
            name = f"{space}.{name}"
        else:
            space = ""
        if self._given.get(name) == given:
            return space, self._names[name], True
        self._given[name] = given
        self._names[name] = self.unused(f".{name}" if name in self._dotted else name)
        return space, self._names[name], False

    def _record(self, given: Mapping[str, Any], namespace: str, path: str, depth: int) -> Any:
        namespace, name, known = self._define(given, namespace, path)
        if known:
            return name
        fields = given.get("fields", [])
        if not isinstance(fields, list):
            raise _wrong(path, "a list of fields", fields)
        for one in fields:
            if not isinstance(one, Mapping) or not isinstance(one.get("name"), str):
                raise _wrong(path, "a field with a name", one)
        made = {
            label: self.type(one.get("type"), namespace, f"{path}.{label}" if path else label, depth + 1)
            for one, label in zip(fields, unique_names(one["name"] for one in fields), strict=True)
        }
        listed = [{"name": label, "type": kind} for label, kind in made.items()]
        return {"type": "record", "name": name, "namespace": "", "fields": listed}

    def _enum(self, given: Mapping[str, Any], namespace: str, path: str) -> Any:
        _, name, known = self._define(given, namespace, path)
        if known:
            return name
        symbols = given.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
            raise _wrong(path, "a list of symbols", symbols)
        if len(set(symbols)) < len(symbols) or not all(_SYMBOL.fullmatch(symbol) for symbol in symbols):
            self.symbols[name] = symbols
            symbols = [f"symbol_{number}" for number in range(len(symbols))]
        return {"type": "enum", "name": name, "namespace": "", "symbols": symbols}

    def _fixed(self, given: Mapping[str, Any], namespace: str, path: str) -> Any:
        _, name, known = self._define(given, namespace, path)
        if known:
            return name
        size = given.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _MOST_BYTES:
            raise _wrong(path, "a number of bytes", size)
        return {"type": "fixed", "name": name, "namespace": "", "size": size, **_logical(given, "fixed", size)}


def _logical(given: Mapping[str, Any], kind: str, size: int | None) -> dict[str, Any]:
    """The logical type, if it fits its type; otherwise it is ignored, as the Avro specification requires."""
    logical = given.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = given.get("precision"), given.get("scale", 0)
        most = MOST_DIGITS if size is None else min(MOST_DIGITS, math.floor(math.log10(2) * (8 * size - 1)))
        if _is_whole(precision, 1, most) and _is_whole(scale, 0, precision):
            return {"logicalType": logical, "precision": precision, "scale": scale}
    elif isinstance(logical, str) and _LOGICAL.get(logical) == kind:
        return {"logicalType": logical}
    return {}


def _is_whole(value: Any, least: int, most: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _wrong(path: str, expected: str, found: Any) -> CaptureError:
    shown = found if isinstance(found, str) else f"{found!r:.80}"
    return CaptureError(f"the Avro schema cannot be read: {path or 'top'}: expected {expected}, found {shown}")


# --- nodes ------------------------------------------------------------------------------------------------------------

MARK: Final = b"avro"
"""Metadata key of Arrow fields that need a mark."""

MEMBER: Final = b"member"
"""Mark of the fields for the types of a union."""

JSON: Final = b"json"
"""Mark of a string that is JSON already."""


@dataclass(eq=False, kw_only=True)
class Node:
    """A type. ``arrow``: the type of its values; ``least``: minimum bytes of a value; ``blank``: bytes of a value whose
    bytes are all 0; ``weight``: number of types in it."""

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
    """A fixed number of bytes, perhaps a decimal."""

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
    """One of its members, by its number. ``places`` has for each its number among the members that are not null, or
    None."""

    members: list[Node]
    places: list[int | None]

    @property
    def several(self) -> bool:
        """Whether there is more than one that is not null."""
        return sum(place is not None for place in self.places) > 1


@dataclass(eq=False, kw_only=True)
class Record(Node):
    """Consecutive fields."""

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


# --- tree -------------------------------------------------------------------------------------------------------------

_MOST_TYPES: Final = 50_000
"""Maximum types in a schema with all its names expanded, to protect the memory."""

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
    """The tree of a record parsed by fastavro; ``named`` are its named types. Raises CaptureError."""
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


# --- selection --------------------------------------------------------------------------------------------------------

Selection = Mapping[str, "Selection | None"]
"""The requested fields of a record, each with those requested inside it (None: all)."""


def select(record: Record, fields: Iterable[str]) -> Selection:
    """The selection of fields such as ``data``, or ``data.salary`` for one inside of another. Raises OptionError for an
    unknown field.
    """
    found: dict[str, Any] = {}
    for name in fields:
        _add(found, record, name, name)
    return found


def _add(found: dict[str, Any], record: Record, path: str, name: str) -> None:
    """Adds the field at ``path`` of a record to its selection; ``name`` is the complete path."""
    parts = path.split(".")
    beginnings = (".".join(parts[:count]) for count in range(len(parts), 0, -1))  # names may contain dots
    label = next((beginning for beginning in beginnings if beginning in record.fields), None)
    if label is None:
        near, there = nearest(path, record.fields), ", ".join(record.fields)
        raise OptionError(f"The Avro schema has no field '{name}'.{near} There are: {there}.")
    rest = path[len(label) + 1 :]
    if not rest:
        found[label] = None
        return
    inner = _record_in(record.fields[label])
    if inner is None:
        raise OptionError(f"The Avro schema has no field '{name}': {label} is not a record.")
    is_whole = label in found and found[label] is None
    _add({} if is_whole else found.setdefault(label, {}), inner, rest, name)


def _record_in(node: Node) -> Record | None:
    """The record of a node, or of its member that is not null."""
    if isinstance(node, Union):
        others = [member for member, place in zip(node.members, node.places, strict=True) if place is not None]
        node = others[0] if len(others) == 1 else node
    return node if isinstance(node, Record) else None


# --- schema -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Schema:
    """A schema from :func:`parse_schema`. ``text`` is as given, ``parsed`` the record for fastavro. A schema that is
    not a record is read as a record with the only field ``value``, which has the same bytes; ``is_record`` is False
    then. ``fields`` are the names of the record's fields, ``arrow`` is the struct type of all of them, ``root`` the
    tree of types. Can be pickled, and equals another with the same text.
    """

    text: str
    parsed: Any = field(repr=False)
    root: Record = field(repr=False)
    is_record: bool

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the top record's fields, in the order of the bytes."""
        return tuple(self.root.fields)

    @property
    def arrow(self) -> pa.StructType:
        """The type of a complete value."""
        return self.root.arrow

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[Any, ...]:
        return parse_schema, (self.text,)


@lru_cache(maxsize=256)
def parse_schema(text: str) -> Schema:
    """The schema of a JSON text, or of the name of a primitive type. Names may violate the rules of Avro. Raises
    CaptureError with the location of the error.
    """
    try:
        bare = text.strip("\ufeff \t\r\n")
        clean = acceptable(bare if bare.isidentifier() else json.loads(bare))
        json.dumps([clean.record, clean.symbols], ensure_ascii=False).encode()  # fails if a name is not valid Unicode
        parsed: Any = fastavro.parse_schema(clean.record)
    except CaptureError:
        raise
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"the Avro schema cannot be read: expected JSON, {_sentence(error)}: {text:.80}") from error
    except Exception as error:  # any error of fastavro
        raise CaptureError(f"the Avro schema cannot be read: {_sentence(error)}") from error
    named = parsed["__named_schemas"]
    for name, true in clean.symbols.items():
        named[name]["symbols"] = true
    return Schema(text, parsed, build(parsed, named), clean.is_record)


def _sentence(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "found too many levels"
    return f"found {error!s:.200}"
