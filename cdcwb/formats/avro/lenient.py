"""Schemas as they are met, made into ones that fastavro accepts, with nothing of their meaning changed.

Replicate writes namespaces with hyphens, records that are named like columns (``long``, or like a record that is there
already), and types one level too deep (``{"type": {"type": "int"}}``): see docs/formats/qlik-kafka.md §4.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from cdcwb.errors import CaptureError
from cdcwb.unique_names import unique_names, unused_name

__all__ = ["MOST_DEPTH", "MOST_DIGITS", "PRIMITIVES", "TOP", "Acceptable", "acceptable"]

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
"""Levels of types in types."""

MOST_DIGITS: Final = 1000
"""Digits of a decimal; a type that promises more is read as the bytes it is made of."""

_MOST_BYTES: Final = (1 << 31) - 1

TOP: Final = "value"
"""Name of the one field that a schema which is no record is read as."""

_SYMBOL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Acceptable(NamedTuple):
    """A ``record`` for fastavro and, by name, the true ``symbols`` of the enums that were changed for it.

    ``is_record``: the record is the given schema itself, not one that has the schema as its only field.
    """

    record: dict[str, Any]
    symbols: dict[str, list[str]]
    is_record: bool


def acceptable(schema: Any) -> Acceptable:
    """A record for fastavro whose values are the same bytes as those of the given schema.

    Names stay as they are where fastavro can work with them. Documentation, aliases, defaults and logical types that
    do not fit their type are left out; a field whose name repeats gets ``#2``, ``#3``. Raises CaptureError that says
    where something is wrong.
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
    """One way through a schema. ``unseen`` are names without a namespace that are used inside of one, where fastavro
    does not find them; a dot in front (``dotted``) makes it look in the right place."""

    def __init__(self, dotted: frozenset[str]) -> None:
        self.unseen: set[str] = set()
        self.symbols: dict[str, list[str]] = {}
        self._dotted = dotted
        self._given: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        self._taken = {*PRIMITIVES, *_KEYWORDS}

    def unused(self, name: str) -> str:
        """The name, with a number behind it if it is taken."""
        found = unused_name(name, self._taken)
        self._taken.add(found)
        return found

    def type(self, given: Any, namespace: str, path: str, depth: int) -> Any:
        """The type at ``path``, which stands inside ``namespace``."""
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
        """Namespace and name for fastavro of a type, and whether this very type was there before."""
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
    """The logical type, where it fits the type it stands on; else it means nothing, as the Avro specification says."""
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
