"""One element of an XML export, parsed (docs/formats/goldengate.md §8).

The parser is Expat without anything from outside: a document type or an entity that is declared is refused. Binary
columns (Base64 in FORMATXML) cannot be told from text and stay text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final
from xml.parsers import expat

__all__ = ["Element", "parse_element"]

_TRUE: Final = frozenset({"true", "1", "yes"})
_NULLS: Final = ("isNull", "isnull", "is_null", "null", "nil", "xsi:nil")
_MISSING: Final = ("missing", "isMissing", "ismissing")


@dataclass(slots=True)
class Element:
    """An ``operation`` or a ``dbupdate``: its attributes, its tokens by name, its images (None: no column in it) and
    the columns that are marked as key."""

    attributes: dict[str, str]
    tokens: dict[str, str | None] = field(default_factory=dict)
    before: dict[str, str | None] | None = None
    after: dict[str, str | None] | None = None
    keys: list[str] = field(default_factory=list)


class _Refused(ValueError):  # noqa: N818  (its message goes into the sentence of whoever catches ValueError)
    pass


def parse_element(text: bytes, complete: bool = True) -> Element:
    """The element that a text in UTF-8 is; of one that is not ``complete`` what is in its beginning. Raises ValueError
    that says what is wrong and where."""
    parser = expat.ParserCreate("utf-8")
    builder = _Builder()
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data.append
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = _refuse
    try:
        parser.Parse(text, complete)
    except expat.ExpatError as reason:
        raise ValueError(
            f"expected XML, found {expat.ErrorString(reason.code)} at byte {parser.ErrorByteIndex}"
        ) from None
    finally:
        parser.StartElementHandler = parser.EndElementHandler = parser.CharacterDataHandler = None
    if builder.element is None:
        raise ValueError("expected an element, found none")
    return builder.element


def _refuse(*_: Any) -> None:
    raise _Refused("a document type or an entity is declared, which exports do not do")


class _Builder:
    """Puts an element together from what the parser finds."""

    def __init__(self) -> None:
        self.element: Element | None = None
        self.data: list[str] = []
        self.column: str | None = None
        self.null = False
        self.missing = False
        self.half = "after"  # of FORMATXML's columns
        self.token: str | None = None

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.data.clear()
        if name in ("before", "after"):
            self.null = any(attributes.get(key, "").lower() in _TRUE for key in _NULLS) if attributes else False
            self.missing = any(attributes.get(key, "").lower() in _TRUE for key in _MISSING) if attributes else False
        elif name in ("col", "column"):
            self.column = attributes.get("name", "")
            self.null = (
                attributes.get("status", "").lower() == "null"
                or any(attributes.get(key, "").lower() in _TRUE for key in _NULLS)
                if len(attributes) > 1
                else False
            )
            self.missing = attributes.get("status", "").lower() == "missing"
            if attributes.get("key", "").lower() in _TRUE and self.element is not None:
                self.element.keys.append(self.column)
        elif name == "token":
            self.token = attributes.get("name")
        elif self.element is None:
            self.element = Element(attributes)
            self.half = "before" if attributes.get("image", "").lower() == "before" else "after"

    def end(self, name: str) -> None:
        element = self.element
        if element is None:
            return
        if name in ("before", "after"):
            self.put(name)
        elif name == "column":
            self.put(self.half)
        elif name == "Name":
            self.token = "".join(self.data)
        elif name == "Value" or (name == "token" and self.token is not None and self.token not in element.tokens):
            element.tokens[self.token or ""] = "".join(self.data)
            self.token = None if name == "token" else self.token
        self.data.clear()

    def put(self, half: str) -> None:
        """Takes the text for a column of an image."""
        element, column = self.element, self.column
        if self.missing or element is None or column is None:
            return
        image = element.before if half == "before" else element.after
        if image is None:
            image = {}
            if half == "before":
                element.before = image
            else:
                element.after = image
        image[column] = None if self.null else "".join(self.data)
