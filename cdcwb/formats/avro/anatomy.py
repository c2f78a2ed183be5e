"""One value as a tree of fields, for a person; and one value by fastavro, for truth."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import fastavro

from cdcwb.errors import MalformedRecordError, TruncatedRecordError
from cdcwb.formats.avro.describe import describe
from cdcwb.formats.avro.lenient import TOP
from cdcwb.formats.avro.schema import Schema
from cdcwb.formats.avro.walk import MOST_FIELDS, Walk
from cdcwb.formats.base import Field
from cdcwb.model import Problem

__all__ = ["anatomy", "decode_one"]


def anatomy(schema: Schema, value: bytes, start: int = 0) -> Field:
    """The fields of one value, each with the bytes that hold it. Takes any bytes; never raises.

    ``start`` bytes in front are not part of it; offsets count from their begin. Leaves follow each other without
    holes: where the bytes are no value of the schema, the rest of them is one leaf with a problem, and so is what
    comes after a great many leaves, without one. Numbers of union members, lengths, and the counts and sizes of blocks
    are leaves of their own.
    """
    walk = Walk(value, start, tree=True)
    walk.record(schema.root)
    start = min(start, len(value))
    children = list(walk.fields)
    at = children[-1].offset + children[-1].length if children else start
    stopped = walk.troubles[-1] if not walk.arrived or walk.at < len(value) else None
    if at < len(value):
        children.append(_rest(walk, at))
    if schema.is_record:
        name, meaning = schema.root.name.rpartition(".")[2], describe(schema.root)
    else:
        name, meaning = TOP, describe(schema.root.fields[TOP])
    if stopped:
        meaning = f"{meaning}; {stopped}"
    code = stopped.code if stopped else None
    return Field(name, start, len(value) - start, value[start:], None, meaning, tuple(children), code)


def _rest(walk: Walk, at: int) -> Field:
    """What is not taken apart: bytes that cannot be, bytes behind the value, or too many fields."""
    rest = walk.value[at:]
    if walk.arrived and at < walk.at:
        name, trouble = "more", next((one for one in walk.troubles if one.offset >= at), None)
    else:
        name, trouble = "trailing bytes" if walk.arrived else "undecoded", walk.troubles[-1]
    meaning = str(trouble) if trouble else f"not shown: the tree ends after {MOST_FIELDS} fields"
    return Field(name, at, len(rest), rest, None, meaning, (), trouble and trouble.code)


def decode_one(schema: Schema, value: bytes) -> tuple[Any, int]:
    """One value by fastavro, and how many bytes it took: the reference that the decoder is held against.

    What is wrong with the bytes is found before fastavro sees them, since fastavro reads some damage as if it were
    none, and some without end. Raises TruncatedRecordError where the bytes end too soon, else MalformedRecordError.
    """
    walk = Walk(value)
    walk.record(schema.root, whole=False)
    if walk.troubles:
        first = walk.troubles[0]
        kind = TruncatedRecordError if first.code == Problem.TRUNCATED else MalformedRecordError
        raise kind(f"{first.path or 'the value'}: {first.sentence}", offset=first.offset)
    source = BytesIO(value)
    found: Any = fastavro.schemaless_reader(source, schema.parsed, None)
    return (found if schema.is_record else found[TOP]), source.tell()
