"""A JSON text with the place of everything in it.

The readable path needs to know which bytes a value stands in, which no JSON library tells. A field owns its name, its
value and the comma behind it, white space in front included, so that fields of one object lie without holes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

__all__ = ["MOST_ELEMENTS", "MOST_NESTED", "Damage", "Element", "Json", "parse"]

MOST_NESTED: Final = 1000
"""Objects and arrays inside each other; what is nested deeper is damage."""

MOST_ELEMENTS: Final = 250_000
"""Elements of one text; what stands behind so many is not taken apart."""

_SHOWN: Final = 12  # levels that become elements of their own; below, a value is one text
_MARK: Final = b"\xef\xbb\xbf"
_BLANK: Final = re.compile(rb"[ \t\r\n]*")
_NUMBER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_PLAIN: Final = re.compile(rb'[^"\\\x00-\x1f]*')
_ESCAPE: Final = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_LITERALS: Final = {b"true": "true", b"false": "false", b"null": None}
_ESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SPELLED: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_CLOSING: Final = {0x7B: 0x7D, 0x5B: 0x5D}


@dataclass(slots=True)
class Element:
    """One value and its surroundings.

    ``kind`` is object, array, string, number, boolean or null. ``start`` to ``stop`` are its bytes with name and comma,
    ``inner`` to ``end`` those of the value's content: behind the opening and before the closing quote or bracket.
    ``text`` is the decoded string, the number's own digits, ``true`` or ``false``; None for null, objects and arrays
    (what is nested deeper than a few levels is one text). ``name`` is its name in an object, else None. ``closed`` is
    false for an object or array that the damage cuts off, ``followed`` for one whose comma no other follows.
    """

    kind: str
    name: str | None
    start: int
    inner: int
    end: int = -1
    stop: int = -1
    text: str | None = None
    children: list[Element] = field(default_factory=list)
    closed: bool = True
    followed: bool = True

    def get(self, name: str) -> Element | None:
        """The field of this object that has the name; of several the last, None where there is none."""
        return next((child for child in reversed(self.children) if child.name == name), None)

    def string(self, name: str) -> str | None:
        """The text of the string of that name; None where there is none."""
        found = self.get(name)
        return found.text if found is not None and found.kind == "string" else None


@dataclass(frozen=True, slots=True)
class Damage:
    """Where a text stops being JSON: the byte, and what was expected and found there."""

    offset: int
    sentence: str


@dataclass(frozen=True, slots=True)
class Json:
    """A parsed text. ``root`` is None where not even a value begins. What stands from byte ``rest`` on is not taken
    apart: because of ``damage``, or because there are too many elements; else it is the length of the text."""

    root: Element | None
    rest: int
    damage: Damage | None


class _Stop(Exception):  # noqa: N818  (it says where, it is no error)
    def __init__(self, damage: Damage | None) -> None:
        super().__init__()
        self.damage = damage


def parse(data: bytes, commas: bool = False) -> Json:
    """The elements of a JSON text in UTF-8, as far as it is one. Takes any bytes and never raises; time and memory are
    in proportion to the length. With ``commas``, one behind the last field or item is no damage."""
    parser = _Parser(data, commas)
    try:
        parser.document()
    except _Stop as stop:
        return Json(parser.root, parser.done, stop.damage)
    return Json(parser.root, len(data), None)


class _Parser:
    def __init__(self, data: bytes, commas: bool = False) -> None:
        self.data = data
        self.commas = commas
        self.at = 3 if data.startswith(_MARK) else 0
        self.done = 0  # everything before this byte is understood
        self.count = 0
        self.root: Element | None = None
        self.open: list[Element] = []

    def document(self) -> None:
        self.value(None, 0, 0)
        assert self.root is not None
        if self.at < len(self.data):
            raise self.expected("the end")

    def expected(self, what: str, at: int | None = None) -> _Stop:
        """The damage at a byte, with what stands there; cuts off everything that is open."""
        at = self.at if at is None else at
        found = self.data[at : at + 12].decode("utf-8", "backslashreplace")
        return self.cut(Damage(at, f"expected {what}, found {repr(found) if found else 'the end'} at byte {at}"))

    def cut(self, damage: Damage | None) -> _Stop:
        """Ends everything that is open behind the last byte that is understood."""
        for element in self.open:
            element.closed = False
            element.end = element.stop = self.done
        return _Stop(damage)

    def blank(self) -> None:
        match = _BLANK.match(self.data, self.at)
        self.at = match.end() if match else self.at

    def byte(self) -> int:
        return self.data[self.at] if self.at < len(self.data) else -1

    def value(self, name: str | None, start: int, depth: int) -> None:
        """Reads a value and puts it into the innermost open element; the name has been read."""
        self.blank()
        mark = self.byte()
        if mark in _CLOSING and depth < _SHOWN:
            kind = "object" if mark == 0x7B else "array"
            self.at += 1
            element = Element(kind, name, start, self.at)
            self.put(element)
            self.done = self.at
            self.open.append(element)
            self.content(element, depth)
            self.open.pop()
        else:
            first = self.at
            kind, text = self.nested() if mark in _CLOSING else self.scalar(mark)
            quoted = kind == "string"
            element = Element(kind, name, start, first + quoted, self.at - quoted, text=text)
            self.put(element)
        self.blank()
        element.stop = self.done = self.at

    def put(self, element: Element) -> None:
        self.count += 1
        if self.count > MOST_ELEMENTS:
            raise self.cut(None)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element

    def content(self, element: Element, depth: int) -> None:
        """The fields of an object or the items of an array, up to the closing bracket."""
        closing = _CLOSING[self.data[self.at - 1]]
        self.blank()
        while element.children or self.byte() != closing:
            start = self.done
            name = None
            if element.kind == "object":
                self.blank()
                name = self.name()
            self.value(name, start, depth + 1)
            last = element.children[-1]
            if self.byte() == closing:
                break
            if self.byte() != ord(","):
                raise self.expected(f"a comma or {chr(closing)}")
            self.at += 1
            last.stop = self.done = self.at
            if self.ends(closing):
                last.followed, last.stop = False, self.at
                self.done = self.at
                break
        element.end = self.done
        self.at += 1

    def ends(self, closing: int) -> bool:
        """Does a closing bracket follow a comma, and may it? Moves to it."""
        found = _BLANK.match(self.data, self.at)
        at = found.end() if found else self.at
        if not self.commas or self.data[at : at + 1] != bytes([closing]):
            return False
        self.at = at
        return True

    def name(self) -> str:
        if self.byte() != ord('"'):
            raise self.expected("a name in double quotes")
        text = self.string()
        self.blank()
        if self.byte() != ord(":"):
            raise self.expected("a colon")
        self.at += 1
        return text

    def scalar(self, mark: int) -> tuple[str, str | None]:
        """Kind and text of a value that holds no others."""
        if mark == ord('"'):
            return "string", self.string()
        for spelled, text in _LITERALS.items():
            if self.data.startswith(spelled, self.at):
                self.at += len(spelled)
                return "null" if text is None else "boolean", text
        match = _NUMBER.match(self.data, self.at)
        if match is None:
            raise self.expected("a value")
        self.at = match.end()
        return "number", match.group().decode("ascii")

    def string(self) -> str:
        """The text of the string that begins here; moves behind it."""
        first = at = self.at + 1
        escaped = False
        while True:
            plain = _PLAIN.match(self.data, at)
            at = plain.end() if plain else at
            escape = _ESCAPE.match(self.data, at)
            if escape is None:
                break
            escaped, at = True, escape.end()
        if at >= len(self.data):
            raise self.expected("the end of a string", at)
        if self.data[at] != ord('"'):
            raise self.expected("a character of a string", at)
        try:
            text = self.data[first:at].decode("utf-8")
        except UnicodeDecodeError as reason:
            raise self.expected("text in UTF-8", first + reason.start) from None
        self.at = at + 1
        return _unescaped(text) if escaped else text

    def nested(self) -> tuple[str, str]:
        """Kind and source text of an object or array that is too deep to be taken apart; it is checked all the same."""
        first, closings = self.at, [0]
        kind = "object" if self.byte() == 0x7B else "array"
        expects_value = True
        while len(closings) > 1 or expects_value:
            self.blank()
            mark = self.byte()
            if expects_value and mark in _CLOSING:
                if len(closings) + _SHOWN > MOST_NESTED:
                    raise self.expected(f"at most {MOST_NESTED} levels of nesting")
                closings.append(_CLOSING[mark])
                self.at += 1
                self.blank()
                expects_value = self.byte() != closings[-1]
                if expects_value and mark == 0x7B:
                    self.name()
            elif expects_value:
                self.scalar(mark)
                expects_value = False
            elif mark == closings[-1]:
                closings.pop()
                self.at += 1
            elif mark == ord(","):
                self.at += 1
                if self.ends(closings[-1]):
                    continue
                self.blank()
                if closings[-1] == 0x7D:
                    self.name()
                expects_value = True
            else:
                raise self.expected(f"a comma or {chr(closings[-1])}")
        return kind, self.data[first : self.at].decode("utf-8")


def _unescaped(text: str) -> str:
    """The text without its escapes. Two halves of a surrogate pair become one character, a half alone becomes ``?``."""
    plain = _SPELLED.sub(_spelled, text)
    joined = plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return joined.encode("utf-8", "replace").decode("utf-8")


def _spelled(match: re.Match[str]) -> str:
    code, character = match.groups()
    return chr(int(code, 16)) if code else _ESCAPED.get(character, character)
