"""Elements of XML exports as GoldenGate writes them, taken apart without an XML parser (docs/formats/goldengate.md §8).

Everything that is laid out in any other way, or holds a character that needs a closer look, is none of them and goes to
the parser; tests hold that both agree.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from cdcwb.formats.goldengate.exports.xml_elements import Element, parse_element

__all__ = ["plain_element", "tag_attributes"]

_CONTROL: Final = r"\x00-\x08\x0b-\x1f\ufffe\uffff"
# `|(?!)` in a possessive group: tests/possessive.py says what for
_TEXT: Final = rf"(?:[^<&\]{_CONTROL}]|&(?:lt|gt|amp|quot|apos);|(?!))*+"
_SECTION: Final = rf"[^\]{_CONTROL}]*+(?:\](?!\]>)[^\]{_CONTROL}]*+|(?!))*+"
_BLANK: Final = r"[ \t\n]*+"


class _Form(NamedTuple):
    """The patterns of an element: all of it, an attribute of its tag, a column, a token."""

    whole: re.Pattern[str]
    attribute: re.Pattern[str]
    column: re.Pattern[str]
    token: re.Pattern[str]


def _form(name: str, quote: str, column: str, token: str, around: str) -> _Form:
    """``around``: the element that columns stand in; empty where they stand in the record itself."""
    attribute = rf"[ \n\t]++([A-Za-z_][\w.-]*+)={quote}([^{quote}<&\n\t{_CONTROL}]*+){quote}"
    column, token = (
        text.replace("@", quote).replace("TEXT", _TEXT).replace("SECTION", _SECTION).replace("~", _BLANK)
        for text in (column, token)
    )
    column = column.replace("NAME", rf"[^{quote}<&\n\t{_CONTROL}]*+")
    token = token.replace("NAME", rf"[^{quote}<&\n\t{_CONTROL}]*+")
    columns = rf"(?P<columns>(?:{_BLANK}{_silent(column)}|(?!))*+){_BLANK}"
    if around:
        columns = rf"<{around}>{columns}</{around}>{_BLANK}"
    tokens = rf"(?:<tokens>(?P<tokens>(?:{_BLANK}{_silent(token)}|(?!))*+){_BLANK}</tokens>{_BLANK}|(?!))?+"
    whole = rf"<{name}(?P<attributes>(?:{_silent(attribute)}|(?!))*+){_BLANK}>{_BLANK}{columns}{tokens}</{name}>"
    return _Form(re.compile(whole, re.ASCII), *(re.compile(one, re.ASCII) for one in (attribute, column, token)))


def _silent(pattern: str) -> str:
    """The pattern without its groups."""
    return re.sub(r"\((?!\?)", "(?:", pattern)


_VALUE: Final = r"(?:<!\[CDATA\[(SECTION)\]\]>|(TEXT))"
_HALF: Final = rf"(?:( missing=@true@/>)|>{_VALUE}</{{0}}>)"
_COL: Final = (
    r"<col name=@(NAME)@(?: index=@[0-9]*+@|(?!))?+>~<before"
    + _HALF.replace("{0}", "before")
    + "~<after"
    + _HALF.replace("{0}", "after")
    + "~</col>"
)
_OPERATION_TOKEN: Final = rf"<token>~<Name>{_VALUE}</Name>~<Value>{_VALUE}</Value>~</token>"
_COLUMN: Final = rf"<column name=@(NAME)@( key=@true@)?+( status=@null@)?+>{_VALUE}</column>"
_TOKEN: Final = r"<token name=@(NAME)@>(TEXT)</token>"
_FORMS: Final = {("<o", quote): _form("operation", quote, _COL, _OPERATION_TOKEN, "") for quote in "'\""} | {
    ("<d", quote): _form("dbupdate", quote, _COLUMN, _TOKEN, "columns") for quote in "'\""
}


def plain_element(text: str) -> Element | None:
    """The element, or None where it takes a parser to tell."""
    at = text.find("=")
    form = _FORMS.get((text[:2], text[at + 1 : at + 2]))
    found = None if form is None else form.whole.fullmatch(text)
    if form is None or found is None:
        return None
    pairs = form.attribute.findall(found["attributes"])
    attributes: dict[str, str] = dict(pairs)
    if len(attributes) < len(pairs):
        return None  # an attribute that stands there twice is no XML
    element = Element(attributes)
    columns, tokens = form.column.findall(found["columns"]), found["tokens"]
    escaped = "&" in text
    if text[1] == "o":
        _images(element, columns, escaped)
    else:
        _image(element, columns, escaped)
    for one in form.token.findall(tokens) if tokens else ():
        if len(one) == 4:
            section, name, other, value = one
            element.tokens[section or _text(name, escaped)] = other or _text(value, escaped)
        else:
            name, value = one
            if name in element.tokens:
                return None
            element.tokens[name] = _text(value, escaped)
    return element


_TAG: Final = re.compile(rf'<transaction timestamp="([^"<&\n\t{_CONTROL}]*+)">')


def tag_attributes(tag: str) -> dict[str, str]:
    """The attributes of an opening tag; none where it cannot be parsed."""
    plain = _TAG.fullmatch(tag)
    if plain is not None:
        return {"timestamp": plain[1]}
    try:
        return parse_element((tag[:-1].rstrip("/") + "/>").encode("utf-8", "replace")).attributes
    except ValueError:
        return {}


def _images(element: Element, columns: list[tuple[str, ...]], escaped: bool) -> None:
    """The images of an operation."""
    before: dict[str, str | None] = {}
    after: dict[str, str | None] = {}
    for name, no_before, old, old_text, no_after, new, new_text in columns:
        if not no_before:
            before[name] = old or _text(old_text, escaped)
        if not no_after:
            after[name] = new or _text(new_text, escaped)
    element.before, element.after = before or None, after or None


def _image(element: Element, columns: list[tuple[str, ...]], escaped: bool) -> None:
    """The image of a FORMATXML record."""
    image: dict[str, str | None] = {}
    for name, key, null, section, text in columns:
        if key:
            element.keys.append(name)
        image[name] = None if null else section or _text(text, escaped)
    if image and element.attributes.get("image", "").lower() == "before":
        element.before = image
    elif image:
        element.after = image


def _text(text: str, escaped: bool) -> str:
    """A text with what its entities stand for."""
    if not escaped or "&" not in text:
        return text
    text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&apos;", "'")
    return text.replace("&amp;", "&")
