"""GoldenGate's JSON messages as values (docs/formats/goldengate.md §8.1). Kafka Connect may have wrapped a message; the
columns of an image may be fields of it (``before.ID``); and a handler in transaction mode joins several objects to one
message.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from cdcwb.formats.json_values import MARK, parse_json, without_trailing_commas

__all__ = ["decode", "objects_of"]

_FLAT: Final = ("before.", "after.")
_IMAGES: Final = ("before", "after", "tokens")


def decode(value: bytes, remarks: list[str]) -> Any:
    """The message in a JSON text, without what Kafka Connect wrapped around it, and with images as objects; None for
    null. ``remarks`` gets what is passed over. Raises ValueError, CutOff for a truncated text."""
    document = parse_json(value, remarks)
    if document.__class__ is dict and "payload" in document and "schema" in document and "op_type" not in document:
        document = document["payload"]
    if document.__class__ is not dict or "before" in document or "after" in document:
        return document
    if not any(name.startswith(_FLAT) for name in document):
        return document
    nested: dict[str, Any] = {}
    for name, one in document.items():
        part, dot, column = name.partition(".")
        if dot and part in _IMAGES:
            nested.setdefault(part, {})[column] = one
        else:
            nested[name] = one
    return nested


# --- several objects in a message -------------------------------------------------------------------------------------

_DECODER: Final = json.JSONDecoder()
_BLANK: Final = re.compile(r"[ \t\r\n]*+")


def objects_of(value: bytes) -> list[int]:
    """The offsets of the objects of a value; the last one may be truncated. Empty for another value."""
    _, mended = without_trailing_commas(value)
    text = mended.removeprefix(MARK).decode("latin-1")  # one character a byte, so that offsets are those of the bytes
    mark = len(value) - len(text)
    starts: list[int] = []
    at = _BLANK.match(text, 0).end()  # type: ignore[union-attr]
    while text.startswith("{", at):
        starts.append(mark + at)
        try:
            _, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return starts
        at = _BLANK.match(text, at).end()  # type: ignore[union-attr]
    return starts if at == len(text) else []
