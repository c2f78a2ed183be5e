"""Values that a tool decoded from Avro and printed in Avro's JSON encoding (docs/formats/qlik-kafka.md §9).

In it a value of a union is an object of one field, the name of its type, and bytes are texts of a character for each
byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import msgspec
import pyarrow as pa

from cdcwb.formats.containers.messages import Messages
from cdcwb.formats.json_values import decode_json

AVRO_JSON: Final = "avro-json"
"""The encoding of such values."""

_TYPES: Final = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string", "array", "map"})
_FULL_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\Z", re.ASCII)
_DEEPEST: Final = 3


def is_avro_json(values: Iterable[bytes | None]) -> bool:
    """Whether most of these JSON texts show the encoding: a record is in its full name, or a number in ``long``."""
    there = [value for value in values if value is not None]
    return 2 * sum(_shows(value) for value in there) > len(there)


def _shows(value: bytes) -> bool:
    try:
        return _has_branch(msgspec.json.decode(value), _DEEPEST)
    except (ValueError, RecursionError):
        return False


def _has_branch(value: Any, depth: int) -> bool:
    if not isinstance(value, dict):
        return False
    if len(value) == 1:
        ((name, inner),) = value.items()
        if (name == "long" and inner.__class__ is int) or (isinstance(inner, dict) and _FULL_NAME.match(name)):
            return True
    return depth > 0 and any(_has_branch(one, depth - 1) for one in value.values())


def decoded(messages: Messages) -> Messages:
    """The messages with values and keys as JSON without the types of unions, in which bytes are hexadecimal digits.
    What is not a JSON object stays as it is."""
    values = [value and _without_branches(value) for value in messages.value.to_pylist()]
    keys = [key and _without_branches(key) for key in messages.key.to_pylist()]
    return replace(messages, value=pa.array(values, pa.binary()), key=pa.array(keys, pa.binary()))


def _without_branches(value: bytes) -> bytes:
    try:
        return msgspec.json.encode(_plain(decode_json(value))) if value.lstrip()[:1] == b"{" else value
    except (ValueError, RecursionError):
        return value


def _plain(value: Any) -> Any:
    """The value with what is in its fields or items without the types of unions."""
    if isinstance(value, dict):
        return {name: _unwrapped(one) for name, one in value.items()}
    return [_unwrapped(one) for one in value] if isinstance(value, list) else value


def _unwrapped(value: Any) -> Any:
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        if name == "bytes" and isinstance(inner, str) and max(inner, default="") < "\u0100":
            return inner.encode("latin-1").hex()
        if name in _TYPES or _FULL_NAME.match(name):
            return _plain(inner)
    return _plain(value)
