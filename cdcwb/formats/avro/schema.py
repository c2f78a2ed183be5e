"""A schema: its text, what fastavro makes of it, and its tree of types."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import fastavro
import pyarrow as pa

from cdcwb.errors import CaptureError
from cdcwb.formats.avro.lenient import acceptable
from cdcwb.formats.avro.nodes import Record
from cdcwb.formats.avro.tree import build

__all__ = ["Schema", "parse_schema"]


@dataclass(frozen=True, eq=False)
class Schema:
    """A schema that :func:`parse_schema` has read.

    ``text`` is as given, ``parsed`` fastavro's form of the record that is read. A schema that is no record is read as
    a record whose only field is called ``value``: the bytes are the same. ``is_record`` says which it is. ``fields``
    are the names of the record's fields, ``arrow`` is the struct type of all of them, ``root`` the tree of types.
    Pickles, and is equal to another of the same text.
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
        """The type of a whole value."""
        return self.root.arrow

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[Any, ...]:
        return parse_schema, (self.text,)


@lru_cache(maxsize=256)
def parse_schema(text: str) -> Schema:
    """The schema that a JSON text describes, or the name of a primitive type.

    Names need not keep the rules of Avro. Raises CaptureError that says where something is wrong.
    """
    try:
        bare = text.strip("\ufeff \t\r\n")
        clean = acceptable(bare if bare.isidentifier() else json.loads(bare))
        json.dumps([clean.record, clean.symbols], ensure_ascii=False).encode()  # fails where a name is no Unicode text
        parsed: Any = fastavro.parse_schema(clean.record)
    except CaptureError:
        raise
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"the Avro schema cannot be read: expected JSON, {_sentence(error)}: {text:.80}") from error
    except Exception as error:  # whatever fastavro finds
        raise CaptureError(f"the Avro schema cannot be read: {_sentence(error)}") from error
    named = parsed["__named_schemas"]
    for name, true in clean.symbols.items():
        named[name]["symbols"] = true
    return Schema(text, parsed, build(parsed, named), clean.is_record)


def _sentence(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "found too many levels"
    return f"found {error!s:.200}"
