"""The parts of a dump of SQL statements as regular expressions (docs/formats/idm-event-log.md §1.5)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

__all__ = ["BLANK", "FROM_SELECT", "INSERT_LINE", "Patterns", "folded_name", "names_of", "patterns"]

_FLAGS: Final = re.IGNORECASE | re.DOTALL

_STRING: Final = rb"'(?:[^']++|'')*+'"
_BACKSLASHED: Final = rb"'(?:[^'\\]++|''|\\.)*+'"
_ESCAPED: Final = rb"\be" + _BACKSLASHED
_ORACLE: Final = rb"\bn?q'(?:\[.*?\]|\{.*?\}|\(.*?\)|<.*?>|([^\s\[{(<]).*?\%d)'"
_COMMENT: Final = rb"--[^\n]*+\n?|/\*.*?\*/"
_NAME_PART: Final = rb"(?:[\w$#@\x80-\xff]++|\"[^\"\n]++\"|`[^`\n]++`|\[[^\]\n]++\])"
# `|(?!)` in a possessive group: tests/possessive.py says what for
_NAME: Final = _NAME_PART + rb"(?:\s*\.\s*" + _NAME_PART + rb"|(?!))*+"

BLANK: Final = re.compile(rb"(?:\s++|" + _COMMENT + rb"|(?!))*+", _FLAGS)
"""White space and comments."""

INSERT_LINE: Final = re.compile(rb"(?m)^[ \t]*+(?=(?:INSERT|REPLACE)\s)", re.IGNORECASE)
"""A line that begins with an INSERT, as far as can be told without what stands before it."""

FROM_SELECT: Final = re.compile(rb"[(\s]*+(?:SELECT|WITH)\b", re.IGNORECASE)
"""What follows the head of an INSERT that takes its rows from a query."""

_HEAD: Final = (
    rb"(?:INSERT|REPLACE)\s++(?:(?:IGNORE|DELAYED|LOW_PRIORITY|HIGH_PRIORITY|/\*.*?\*/)\s++|(?!))*+(?:INTO\s++)?"
    rb"(?!ALL\s|FIRST\s)("
    + _NAME
    + rb")\s*+(?:\(\s*+("
    + _NAME_PART
    + rb"(?:\s*+,\s*+"
    + _NAME_PART
    + rb"|(?!))*+)\s*+\)\s*+)?"
    rb"(?:OVERRIDING\s+\w+\s+VALUE\s*+)?"
)
_ROUTINE: Final = (
    rb"(?:CREATE|ALTER)\s[^;]{0,200}?\b(?:TRIGGER|FUNCTION|PROCEDURE|PACKAGE|TYPE\s+BODY)\b"
    rb"|(?:DECLARE|BEGIN)\b(?!\s*;|\s+(?:TRAN|WORK))"
)
_ROUTINE_END: Final = (
    rb"(?m)^[ \t]*(?:(?:/|GO|//|;;|@|\$\w*\$[^\n]*|DELIMITER[^\n]*)[ \t\r]*$"
    rb"|END\b(?!\s+(?:IF|LOOP|CASE|WHILE)\b)[^;\n]*;+[^\n]*$)"
)


@dataclass(frozen=True, slots=True)
class Patterns:
    """How strings are spelt decides where everything ends.

    ``head``: INSERT up to VALUES (table, columns, and VALUES where it follows); ``piece``: a part of a value;
    ``other``: a statement of another kind, without its end; ``routine`` and ``routine_end``: a definition that holds
    statements of its own; ``end``: a semicolon and the rest of its line, if blank; ``line``: the rest of a blank line.
    """

    string: bytes
    head: re.Pattern[bytes]
    values: re.Pattern[bytes]
    other: re.Pattern[bytes]
    routine: re.Pattern[bytes]
    routine_end: re.Pattern[bytes]
    end: re.Pattern[bytes]
    line: re.Pattern[bytes]
    trailer: re.Pattern[bytes]
    comma: re.Pattern[bytes]
    restart: re.Pattern[bytes]
    one: re.Pattern[bytes]

    def tuple_of(self, width: int) -> re.Pattern[bytes]:
        """A tuple of so many values: every second group is one."""
        return _tuple(self.string, width)


def _value(string: bytes, group: int) -> bytes:
    """A value; ``group`` is the number of the group that it will be. Where a word stands right before or behind a
    string, a quote is missing, unless it is one of those that say what kind of string it is."""
    oracle = _ORACLE.replace(b"%d", str(group + 1).encode())
    plain = rb"[^'(),;\w]++|\w++(?!')"
    text = string + rb"(?![\w'])|\b(?:[nxb]|u&|_\w++)" + string + rb"(?![\w'])|" + _ESCAPED
    nested = rb"(?:" + text + rb"|" + plain + rb"|[,;])"
    for _ in range(4):
        nested = rb"(?:" + text + rb"|" + plain + rb"|[,;]|\((?:" + nested + rb"|(?!))*+\))"
    return rb"((?:" + oracle + rb"|(?!))?+(?:" + text + rb"|" + plain + rb"|\((?:" + nested + rb"|(?!))*+\)|(?!))*+)"


@cache
def patterns(backslash: bool) -> Patterns:
    """The patterns; ``backslash``: a backslash in a string is an escape, as MySQL writes."""
    string = _BACKSLASHED if backslash else _STRING
    pieces = (
        rb"(?:"
        + string
        + rb"|\"[^\"]*+\"|"
        + _COMMENT
        + rb"|[^;'\"\-/\n]++|[-/]|\n(?!\s*+(?:INSERT|REPLACE|GO)\s)|(?!))*+"
    )

    def made(pattern: bytes) -> re.Pattern[bytes]:
        return re.compile(pattern, _FLAGS)

    return Patterns(
        string,
        made(_HEAD),
        made(rb"VALUES?\b\s*+"),
        made(pieces),
        made(_ROUTINE),
        made(_ROUTINE_END),
        made(rb"\s*+;(?:[ \t\r]*+\n|[ \t\r]*+\Z)?"),
        made(rb"[ \t\r]*+(?:\n|\Z)"),
        made(rb"\s*+(?=(?:ON|RETURNING|AS)\s)"),
        made(rb"\s*+,(?=(?:\s++|" + _COMMENT + rb"|(?!))*+\()(?:[ \t\r]*+\n)?"),
        made(rb"\)\s*+,\s*+(?=\()|\n[ \t]*+(?=\()|;[ \t\r]*+\n|\n(?=[ \t]*+(?:INSERT|REPLACE)\s)"),
        made(rb"\s*+" + _value(string, 1) + rb"[,)]"),
    )


@cache
def _tuple(string: bytes, width: int) -> re.Pattern[bytes]:
    values = [_value(string, 1 + 2 * place) for place in range(width)]
    return re.compile(rb"\(\s*+" + rb",\s*+".join(values) + rb"\)", _FLAGS)


def names_of(text: bytes, charset: str) -> tuple[str, ...]:
    """The parts of a name, or the names of a list, without their quotes."""
    found = re.findall(_NAME_PART, text)
    return tuple(_bare(one).decode(charset, "backslashreplace") for one in found)


def _bare(name: bytes) -> bytes:
    return name[1:-1] if name[:1] in (b'"', b"`", b"[") else name


def folded_name(text: bytes, charset: str) -> str:
    """A table's name without quotes, parts joined by dots, in lower case."""
    return ".".join(names_of(text, charset)).casefold()
