"""The words of a filter line: names, signs, texts in quotes, numbers; each knows its place."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from cdcwb.errors import OptionError
from cdcwb.words import visible

__all__ = ["END", "ESCAPED", "FilterError", "Token", "tokens", "unquoted"]

END: Final = "end"
ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}
"""What a page cannot have in one line, by the character that is written after a backslash."""

_PARTS: Final = re.compile(
    r"""(?P<space>\s+)
      | (?P<number>-?(?:0[xX][0-9a-fA-F]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.]))
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<sign>==|!=|<=|>=|<|>|\(|\)|,)
      | (?P<name>(?i:before|after|key)\.(?:[\w$#]+|"(?:[^"\\]|\\.)*")|[^\W\d]\w*)""",
    re.VERBOSE | re.DOTALL,
)
_INSTEAD: Final = {
    "=": "write == to compare",
    "&": "write and",
    "|": "write or",
    "!": "write not, or != to compare",
    "[": "write a list in parentheses: in (…)",
    ".": "write the name of a column after before., after. or key., in double quotes where it is more than one word",
}


class FilterError(OptionError):
    """A filter that cannot be understood. ``place`` is the character, from 0, that is wrong."""

    def __init__(self, message: str, place: int) -> None:
        super().__init__(message)
        self.place = place

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.place)


class Token(NamedTuple):
    """One word: number, text, sign, name or end; what it says, without its quotes; where it begins."""

    kind: str
    text: str
    place: int


def tokens(line: str) -> list[Token]:
    """The words of a line, with an end behind the last. Raises FilterError for what is no word."""
    found = []
    place = 0
    while place < len(line):
        match = _PARTS.match(line, place)
        if match is None:
            raise _wrong(line, place)
        kind = str(match.lastgroup)
        if kind == "text":
            found.append(Token(kind, unquoted(match.group()), place))
        elif kind != "space":
            found.append(Token(kind, match.group(), place))
        place = match.end()
    found.append(Token(END, "", len(line)))
    return found


def unquoted(text: str) -> str:
    """A text in quotes without them; a backslash is before a character that stands for itself, or n, r or t."""
    return re.sub(r"\\(.)", lambda found: ESCAPED.get(found[1], found[1]), text[1:-1], flags=re.DOTALL)


def _wrong(line: str, place: int) -> FilterError:
    sign = line[place]
    where = f"at character {place + 1}"
    if sign in "\"'":
        return FilterError(f"{where}: this text has no closing {sign}", place)
    if sign.isdigit() or sign == "-":
        return FilterError(f"{where}: expected a number; a time or a position is in quotes", place)
    hint = f"; {_INSTEAD[sign]}" if sign in _INSTEAD else ""
    return FilterError(f"{where}: '{visible(sign)}' means nothing here{hint}", place)
