"""Types in words, and values of nested types as JSON of their texts."""

from __future__ import annotations

from typing import Any

from cdcwb.formats.avro.nodes import Array, Enum, Fixed, Map, Node, Primitive, Record, Recursive, Union
from cdcwb.formats.avro.values import text_of
from cdcwb.words import plural

__all__ = ["as_json", "describe", "has_text", "is_single"]


def is_single(node: Node) -> bool:
    """Is a value one leaf?"""
    return isinstance(node, (Fixed, Enum)) or (isinstance(node, Primitive) and node.kind not in ("string", "bytes"))


def has_text(node: Node) -> bool:
    """Has it a text of its own?"""
    if isinstance(node, Union):
        return all(has_text(member) for member in node.members)
    return isinstance(node, (Primitive, Fixed, Enum))


def describe(node: Node) -> str:
    """A type in a few words."""
    if isinstance(node, Primitive):
        if node.logical == "decimal":
            return f"decimal({node.precision},{node.scale}) in bytes"
        return f"{node.kind} ({node.logical})" if node.logical else node.kind
    if isinstance(node, Fixed):
        what = f"decimal({node.precision},{node.scale})" if node.logical else f"fixed {node.name}"
        return f"{what} in {plural(node.size, 'byte')}"
    if isinstance(node, Enum):
        return f"enum {node.name}"
    if isinstance(node, Record):
        return f"record {node.name}"
    if isinstance(node, Recursive):
        return f"record {node.record.name}"
    if isinstance(node, Array):
        return f"array of {describe(node.items)}"
    if isinstance(node, Map):
        return f"map of {describe(node.values)}"
    assert isinstance(node, Union)
    return f"union of {', '.join(describe(member) for member in node.members)}"


def as_json(node: Node, value: Any) -> Any:
    """A value with every leaf as its text."""
    if value is None:
        return None
    if isinstance(node, Recursive):
        return as_json(node.record, value)
    if isinstance(node, Record):
        return {name: as_json(inner, value[name]) for name, inner in node.fields.items()}
    if isinstance(node, Array):
        return [as_json(node.items, item) for item in value]
    if isinstance(node, Map):
        return {key: as_json(node.values, item) for key, item in value}
    if isinstance(node, Union):
        if not node.several:
            (member,) = (m for m, place in zip(node.members, node.places, strict=True) if place is not None)
            return as_json(member, value)
        ((name, inner),) = value.items()
        return as_json(node.members[node.places.index(int(name.removeprefix("member")))], inner)
    return text_of(node, value)
