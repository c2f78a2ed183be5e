"""The first value in some bytes as Python objects, for the tests of Avro."""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa

from cdcwb.errors import MalformedRecordError, TruncatedRecordError
from cdcwb.formats.containers.avro import Decoder, record_ends
from cdcwb.formats.containers.avro_schema import TOP, Node, Schema
from cdcwb.formats.kernels import interpreted
from cdcwb.model import Problem

__all__ = ["decode_one"]


def decode_one(schema: Schema, value: bytes) -> tuple[Any, int]:
    """The first value in some bytes as Python objects, and its number of bytes. Raises TruncatedRecordError if the
    bytes end too early, else MalformedRecordError."""
    with interpreted() if len(value) <= 1 << 16 else contextlib.nullcontext():
        edges, trouble = record_ends(schema, value, 1)
        found = Decoder(schema).decode(pa.array([value[: int(edges[-1])] if trouble is None else value], pa.binary()))
    trouble = next(iter(found.troubles(0)), None)
    if trouble is not None:
        kind = TruncatedRecordError if trouble.code == Problem.TRUNCATED else MalformedRecordError
        raise kind(f"{trouble.path or 'the value'}: {trouble.sentence}", offset=trouble.offset)
    plain = _plain(schema.root, found.column[0].as_py())
    return (plain if schema.is_record else plain[TOP]), int(edges[-1])


def _plain(node: Node, value: Any) -> Any:
    """A value from a column without what Arrow adds: a union is the value of its member, a map a dictionary."""
    if value is None:
        return None
    if node.kind == "record":
        return {name: _plain(inner, value[name]) for name, inner in zip(node.names, node.inner, strict=True)}
    if node.kind == "array":
        return [_plain(node.inner[0], item) for item in value]
    if node.kind == "map":
        return {key: _plain(node.inner[0].inner[1], item) for key, item in value}
    if node.kind == "union":
        others = node.others
        found = value.values() if len(others) > 1 else [value]
        return next((_plain(*one) for one in zip(others, found, strict=True) if one[1] is not None), None)
    return value
