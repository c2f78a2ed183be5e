"""The complete fields of a JSON object that is cut off."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from cdcwb.formats.json_text import Element, parse

__all__ = ["Parts", "complete_part"]

Parts = Mapping[str | None, Any]
"""The objects inside an object of which a part is of use, by name (None: the items of an array), each with its own."""

_ENDS: Final = re.compile(rb"[ \t\r\n]*[,}\]]")
_CLOSING: Final = {"object": b"}", "array": b"]"}


def complete_part(text: bytes, parts: Parts) -> bytes:
    """The beginning of an object that is cut off, up to its last complete field, as a JSON text.

    A field is left out if its value is not complete, or may not be: a number at the end could go on. An object or array
    that is open at the end is such a value, unless it is among the ``parts``: of those the complete fields are kept.
    """
    element = parse(text, True).root
    if element is None or element.kind != "object":
        return b"{}"
    closing: list[bytes] = []
    while True:
        closing.append(_CLOSING[element.kind])
        last = element.children[-1] if element.children else None
        inside = None if last is None or last.closed else parts.get(last.name)
        if last is None or inside is None:
            break
        element, parts = last, inside
    fields = [child for child in element.children if child.closed]
    if fields and _may_go_on(fields[-1], text):
        fields.pop()
    stop = fields[-1].stop if fields else element.inner
    return text[:stop].rstrip(b" \t\r\n").removesuffix(b",") + b"".join(reversed(closing))


def _may_go_on(element: Element, text: bytes) -> bool:
    return element.kind == "number" and _ENDS.match(text, element.end) is None
