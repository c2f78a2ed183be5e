"""The writer's schema of an Avro container, made fit for skipping over records.

What a record holds does not matter here, only how long it is. So names that break Avro's rules (real ones do) are
replaced, and logical types, defaults and comments are left out. Two kinds of schema are refused, since a few bytes of
hostile data would keep a reader busy without end: types that contain themselves, and arrays of items that take no
bytes.

A container of values that are no records but bytes or texts, as Kafka Connect writes with its byte array converter, is
read as one of records with the only field ``value``: in Avro both have the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import fastavro

from cdcwb.errors import CaptureError

__all__ = ["RecordSchema", "record_schema"]

_PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DEPTH: Final = 200
_MOST_BRANCHES: Final = 1 << 16

Plain = Any


class RecordSchema:
    """A record's schema. ``fields``: plain types of its fields, in order, by name; ``whole`` and ``nothing``: the
    schema in fastavro's form, and one of the same record without fields, which makes fastavro skip all of them."""

    def __init__(self, fields: dict[str, Plain], micros: frozenset[str], plain: Plain, is_value: bool) -> None:
        """``micros``: fields that count microseconds since 1970; ``is_value``: the container has values, no records."""
        self.is_value = is_value
        self.fields = fields
        self.micros = micros
        self.whole = fastavro.parse_schema(plain)
        self.nothing = fastavro.parse_schema({"type": "record", "name": plain["name"], "fields": []})


def record_schema(text: str) -> RecordSchema:
    """The schema of a container's records from its text. Raises CaptureError that says why it is not read."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as reason:
        raise CaptureError(f"the Avro schema is not JSON ({reason})") from None
    is_value = _is_value(raw)
    if is_value:
        raw = {"type": "record", "name": "value", "fields": [{"name": "value", "type": raw}]}
    try:
        plain = _Plain().of(raw, "", 0)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as reason:
        raise CaptureError(f"the Avro schema cannot be parsed ({type(reason).__name__}: {reason})") from None
    if not isinstance(plain, dict) or plain["type"] != "record":
        raise CaptureError("the Avro schema is not that of a record")
    micros = frozenset(
        new["name"] for new, old in zip(plain["fields"], raw["fields"], strict=True) if "timestamp-micros" in str(old)
    )
    return RecordSchema({field["name"]: field["type"] for field in plain["fields"]}, micros, plain, is_value)


def _is_value(raw: Any) -> bool:
    """Is it the schema of bytes or texts, which may be null?"""
    if isinstance(raw, list):
        return sum(map(_is_value, raw)) == 1 and all(_is_value(one) or one in ("null", {"type": "null"}) for one in raw)
    return (raw.get("type") if isinstance(raw, dict) else raw) in ("bytes", "string")


def _legal(names: Sequence[Any]) -> list[str]:
    """The names where they keep Avro's rules, and others in place of those that do not."""
    texts = [str(name) for name in names]
    good = len(set(texts)) == len(texts) and all(map(_NAME.match, texts))
    return texts if good else [f"f{at}" for at in range(len(texts))]


class _Plain:
    """Makes schemas plain; ``known`` are the named types seen, by full name, None while inside of them."""

    def __init__(self) -> None:
        self.known: dict[str, Plain | None] = {}
        self.named: dict[str, str] = {}
        self.least: dict[str, int] = {}  # bytes of a named type, by its new name
        self.parts = 0

    def of(self, raw: Any, space: str, depth: int) -> Plain:
        self.parts += 1
        if depth > _DEPTH or self.parts > _MOST_BRANCHES:
            raise CaptureError("the Avro schema is nested too deep")
        if isinstance(raw, str):
            return raw if raw in _PRIMITIVES else self._reference(raw, space)
        if isinstance(raw, list):
            return [self.of(branch, space, depth + 1) for branch in raw]
        kind = raw["type"]
        if kind in ("record", "error"):
            return self._record(raw, space, depth)
        if kind == "enum":
            return self._define(raw, space, {"type": "enum", "symbols": _legal(raw["symbols"])}, 1)
        if kind == "fixed":
            return self._define(raw, space, {"type": "fixed", "size": int(raw["size"])}, int(raw["size"]))
        if kind == "array":
            items = self.of(raw["items"], space, depth + 1)
            if self.smallest(items) == 0:
                raise CaptureError("the Avro schema has an array of items of zero bytes, which is not supported")
            return {"type": "array", "items": items}
        if kind == "map":
            return {"type": "map", "values": self.of(raw["values"], space, depth + 1)}
        return self.of(kind, space, depth + 1)  # a primitive with attributes, or a schema in one more pair of braces

    def _record(self, raw: Any, space: str, depth: int) -> Plain:
        full, inner = self._name(raw, space)
        self.known[full] = None
        self.named[full] = name = f"n{len(self.named)}"
        names = _legal([field["name"] for field in raw["fields"]])
        types = [self.of(field["type"], inner, depth + 1) for field in raw["fields"]]
        fields = [{"name": new, "type": kind} for new, kind in zip(names, types, strict=True)]
        self.known[full] = name
        self.least[name] = sum(self.smallest(field["type"]) for field in fields)
        return {"type": "record", "name": name, "fields": fields}

    def _define(self, raw: Any, space: str, plain: dict[str, Any], least: int) -> Plain:
        full, _ = self._name(raw, space)
        self.named[full] = self.known[full] = name = f"n{len(self.named)}"
        self.least[name] = least
        return {**plain, "name": name}

    def _name(self, raw: Any, space: str) -> tuple[str, str]:
        """Full name of a type, and the namespace inside of it."""
        name = str(raw["name"])
        inner = name.rpartition(".")[0] if "." in name else str(raw.get("namespace") or space)
        full = name if "." in name or not inner else f"{inner}.{name}"
        if full in self.named:
            raise CaptureError(f"the Avro schema defines {full!r} twice")
        return full, inner

    def _reference(self, name: str, space: str) -> Plain:
        full = name if "." in name or not space else f"{space}.{name}"
        full = full if full in self.known else name
        if full not in self.known:
            raise CaptureError(f"the Avro schema names a type that it does not define: {name!r}")
        known = self.known[full]
        if known is None:
            raise CaptureError(f"the Avro schema has a type that contains itself ({full!r}), which is not supported")
        return known

    def smallest(self, plain: Plain) -> int:
        """The fewest bytes that a value takes."""
        if isinstance(plain, str):
            return {"null": 0, "float": 4, "double": 8}.get(plain, self.least.get(plain, 1))
        if isinstance(plain, list):
            return 1
        return self.least[plain["name"]] if "name" in plain else 1
