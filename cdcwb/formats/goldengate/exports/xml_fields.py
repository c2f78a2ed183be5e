"""The field tree of an XML record (docs/formats/goldengate.md §8).

An element is a node with its opening tag, what is in it and its closing tag. What stands between elements is a leaf of
its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from xml.sax.saxutils import unescape

from cdcwb.formats.base import Field
from cdcwb.formats.goldengate.exports.layout import field_meaning, token_meaning
from cdcwb.model import Problem

__all__ = ["xml_fields"]

_MOST: Final = 100_000
"""Tags and texts of a record; what stands behind so many is not taken apart."""

_DEEPEST: Final = 200
# `|(?!)` in a possessive group: tests/possessive.py says what for
_SECTION: Final = re.compile(rb"<!\[CDATA\[[^\]]*+(?:\](?!\]>)[^\]]*+|(?!))*+\]\]>")
_PIECE: Final = re.compile(
    rb"(?P<comment><!--(?:[^-]++|-(?!-)|(?!))*+-->|<[?!][^<>]*+>)"
    rb"|<(?P<slash>/?)(?P<name>[A-Za-z_:\x80-\xff][^\s<>/=\"']*+)(?:[^<>\"']++|\"[^\"<]*+\"|'[^'<]*+'|(?!))*+>"
    rb"|(?P<text>[^<]++)|<"
)
_ATTRIBUTE: Final = re.compile(rb"([^\s=<>\"'/]+)\s*+=\s*+(?:\"([^\"]*)\"|'([^']*)')")
_ENTITIES: Final = {"&quot;": '"', "&apos;": "'"}
_NUMBER: Final = re.compile(r"&#(?:x([0-9A-Fa-f]{1,6})|([0-9]{1,7}));")
_MEANINGS: Final = {
    "transaction": "a transaction; its timestamp is that of its commit and has no zone",
    "dbupdate": "one change of a row",
    "operation": "one operation",
    "columns": "the columns that the record has",
    "tokens": "tokens of the trail record",
    "before": "the value before the change",
    "after": "the value after the change",
    "Name": "name of the token",
    "Value": "value of the token",
}


@dataclass(slots=True)
class _Open:
    """An element that is open: its name, where it begins, its tag's attributes, and what was found in it."""

    name: str
    start: int
    attributes: dict[str, str]
    parts: list[Field] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


def xml_fields(record: bytes) -> Field:
    """The tree of one record of an XML export. Every byte is in one leaf, whatever the bytes are. Never raises."""
    return _Tree(record).run()


class _Tree:
    def __init__(self, record: bytes) -> None:
        self.record = record
        self.stack = [_Open("record", 0, {})]
        self.sections = record.rfind(b"]]>")  # behind it no section has an end

    def run(self) -> Field:
        at, count = 0, 0
        record = self.record
        while at < len(record) and count < _MOST:
            at = self.piece(at)
            count += 1
        if at < len(record):
            self.leaf("rest", at, len(record), "the rest, which is not dissected")
        while len(self.stack) > 1:
            self.close(len(record), Problem.MALFORMED)
        whole = self.stack[0]
        return Field("record", 0, len(record), record, None, "a record of an XML export", tuple(whole.parts))

    def piece(self, at: int) -> int:
        """Takes what stands at a place; returns the place behind it."""
        section = _SECTION.match(self.record, at) if at < self.sections else None
        if section is not None:
            text = section[0][9:-3].decode("utf-8", "replace")
            self.text(at, section.end(), text, "text in a CDATA section")
            return section.end()
        found = _PIECE.match(self.record, at)
        end = at + 1 if found is None else found.end()
        if found is not None and found["text"] is not None:
            raw = found["text"]
            self.text(at, end, _plain(raw), "blank space" if not raw.strip() else "text")
        elif found is not None and found["comment"] is not None:
            self.leaf("declaration", at, end, "a declaration or a comment, not part of a change")
        elif found is not None and found["name"] is not None:
            self.tag(found, found["name"].decode("utf-8", "replace"), bool(found["slash"]))
        else:
            self.leaf(
                "unreadable", at, end, "expected a tag, found a bracket that does not begin one", Problem.MALFORMED
            )
        return end

    def tag(self, found: re.Match[bytes], name: str, closing: bool) -> None:
        start, end = found.span()
        if closing:
            if name not in [one.name for one in self.stack[1:]]:
                said = f"the closing tag of an element {name} that is not open"
                self.leaf("closing", start, end, said, None if name == "transaction" else Problem.MALFORMED)
                return
            while self.stack[-1].name != name:
                self.close(start, Problem.MALFORMED)
            self.leaf("closing", start, end, "closing tag")
            self.close(end)
            return
        attributes = {_plain(key): _plain(one or other) for key, one, other in _ATTRIBUTE.findall(found[0])}
        whole = found[0].endswith(b"/>") or len(self.stack) > _DEEPEST
        if name == "transaction" and len(self.stack) == 1:
            whole = True  # its end belongs to another record
        self.stack.append(_Open(name, start, attributes))
        self.opening(start, found)
        if whole:
            self.close(end)

    def opening(self, start: int, found: re.Match[bytes]) -> None:
        """The opening tag, with a leaf for each attribute."""
        end = found.end()
        parts: list[Field] = []
        at = start
        for attribute in _ATTRIBUTE.finditer(self.record, start, end):
            first, last = attribute.span()
            if first > at:
                parts.append(self.made("tag", at, first, None, "tag"))
            name, one, other = attribute.groups()
            value = _plain(one if one is not None else other)
            parts.append(self.made(_plain(name), first, last, value, field_meaning(_plain(name), value)))
            at = last
        if at < end:
            parts.append(self.made("tag", at, end, None, "tag"))
        raw = self.record[start:end]
        children = tuple(parts) if len(parts) > 1 else ()
        self.stack[-1].parts.append(Field("opening", start, end - start, raw, None, "opening tag", children))

    def text(self, start: int, end: int, value: str, meaning: str) -> None:
        self.stack[-1].texts.append(value)
        self.stack[-1].parts.append(self.made("text", start, end, value, meaning))

    def leaf(self, name: str, start: int, end: int, meaning: str, problem: Problem | None = None) -> None:
        self.stack[-1].parts.append(self.made(name, start, end, None, meaning, problem))

    def made(
        self, name: str, start: int, end: int, value: str | None, meaning: str, problem: Problem | None = None
    ) -> Field:
        return Field(name, start, end - start, self.record[start:end], value, meaning, (), problem)

    def close(self, end: int, problem: Problem | None = None) -> None:
        """Ends the innermost element."""
        one = self.stack.pop()
        name, value = one.name, None
        meaning = _MEANINGS.get(name, "")
        attributes = one.attributes
        if name in ("col", "column"):
            meaning = f"the column {attributes.get('name', '')}"
            if attributes.get("key", "").lower() == "true":
                meaning += ", part of the key"
        elif name == "token":
            meaning = token_meaning(attributes["name"]) if "name" in attributes else "a token of the trail record"
        if problem is not None:
            meaning = f"expected the closing tag of {name}, found none"
        elif not any(part.children and part.name != "opening" for part in one.parts):
            value = self.value(one)
        raw = self.record[one.start : end]
        shown = attributes.get("name", name) if name in ("col", "column", "token") else name
        made = Field(shown, one.start, end - one.start, raw, value, meaning, tuple(one.parts), problem)
        self.stack[-1].parts.append(made)

    def value(self, one: _Open) -> str | None:
        """The text of an element that holds no others; None for NULL and for what is missing."""
        said = {name.lower(): value.lower() for name, value in one.attributes.items()}
        if said.get("status") == "null" or "true" in (said.get("missing"), said.get("isnull")):
            return None
        return "".join(one.texts) if one.texts or one.name in ("column", "before", "after", "Value") else None


def _plain(raw: bytes) -> str:
    text = raw.decode("utf-8", "backslashreplace")
    return unescape(_NUMBER.sub(_character, text), _ENTITIES) if "&" in text else text


def _character(found: re.Match[str]) -> str:
    code = int(found[1], 16) if found[1] else int(found[2])
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else found[0]
