"""The first value in some bytes as Python objects, for the tests of Avro."""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa

from cdcwb.errors import MalformedRecordError, TruncatedRecordError
from cdcwb.formats.containers.avro import Decoder, record_ends
from cdcwb.formats.containers.avro_schema import TOP, Schema
from cdcwb.formats.kernels import interpreted
from cdcwb.model import Problem

__all__ = ["decode_one"]


def decode_one(schema: Schema, value: bytes) -> tuple[Any, int]:
    """The first value in some bytes as Python objects, and its number of bytes. Raises TruncatedRecordError if the
    bytes end too early, else MalformedRecordError."""
    with interpreted() if len(value) <= 1 << 16 else contextlib.nullcontext():
        edges, trouble = record_ends(schema, value, 1)
        found = Decoder(schema).decode(pa.array([value[: int(edges[-1])] if trouble is None else value], pa.binary()))
    trouble = next(iter(found.troubles.get(0, ())), None)
    if trouble is not None:
        kind = TruncatedRecordError if trouble.code == Problem.TRUNCATED else MalformedRecordError
        raise kind(str(trouble))
    plain = found.column[0].as_py()
    return (plain if schema.is_record else plain[TOP]), int(edges[-1])
