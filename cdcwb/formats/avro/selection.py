"""Which fields of a record are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cdcwb.errors import OptionError
from cdcwb.formats.avro.nodes import Node, Record, Union
from cdcwb.formats.options import nearest

__all__ = ["Selection", "select"]

Selection = Mapping[str, "Selection | None"]
"""The wanted fields of a record, each with those wanted inside it (None: all)."""


def select(record: Record, fields: Iterable[str]) -> Selection:
    """The selection of fields that are named as ``data``, or ``data.salary`` for one inside of another.

    Raises OptionError for a field that is not there.
    """
    found: dict[str, Any] = {}
    for name in fields:
        _add(found, record, name, name)
    return found


def _add(found: dict[str, Any], record: Record, path: str, name: str) -> None:
    """Adds the field at ``path`` of a record to what is wanted of it; ``name`` is the whole path."""
    parts = path.split(".")
    beginnings = (".".join(parts[:count]) for count in range(len(parts), 0, -1))  # names may have dots in them
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
    """The record that a node is, or that it is if it is not null."""
    if isinstance(node, Union):
        others = [member for member, place in zip(node.members, node.places, strict=True) if place is not None]
        node = others[0] if len(others) == 1 else node
    return node if isinstance(node, Record) else None
