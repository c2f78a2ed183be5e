"""The column list of a table as its schema text writes it (docs/formats/gbase8s.md §5).

It is what stands between the parentheses of a CREATE TABLE: ``c1 integer, c2 varchar(20,0)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from cdcwb.errors import CaptureError
from cdcwb.formats.gbase8s.column_types import Column, ColumnKind, with_type
from cdcwb.unique_names import unique_names

__all__ = ["SchemaTextError", "parse_columns"]


class SchemaTextError(CaptureError):
    """A column list cannot be read; ``offset`` is the character at which it went wrong, from 0."""


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


_TOKENS: Final = re.compile(
    r"""(?P<quoted>"[^"]*(?:""[^"]*)*")|(?P<string>'[^']*(?:''[^']*)*')|(?P<sign>[(),])|(?P<word>[^\s(),"']+)|(?P<space>\s+)"""
)


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        found = _TOKENS.match(text, at)
        if found is None:
            raise SchemaTextError(f"the quotation mark {text[at]} is not closed", offset=at)
        kind = found.lastgroup or ""
        if kind != "space":
            yield _Token(found.group() if kind == "sign" else kind, found.group(), at, found.end())
        at = found.end()


def _items(text: str) -> Iterator[list[_Token]]:
    """The tokens of each column: what stands between commas that are in no parentheses."""
    item: list[_Token] = []
    opened: list[int] = []
    for token in _tokens(text):
        if token.kind == "(":
            opened.append(token.start)
        elif token.kind == ")":
            if not opened:
                raise SchemaTextError("a closing parenthesis without an opening one", offset=token.start)
            opened.pop()
        if token.kind == "," and not opened:
            if not item:
                raise SchemaTextError("expected a column before this comma", offset=token.start)
            yield item
            item = []
        else:
            item.append(token)
    if opened:
        raise SchemaTextError("an opening parenthesis without a closing one", offset=opened[-1])
    if not item:
        raise SchemaTextError("expected a column, found the end of the text", offset=len(text))
    yield item


_CONSTRAINTS: Final = frozenset(
    [
        "not",
        "null",
        "default",
        "primary",
        "unique",
        "distinct",
        "references",
        "check",
        "constraint",
        "collate",
        "comment",
    ]
)
"""Words that end a column's type; what follows says nothing about its bytes."""

_NAMES: Final = ("word", "quoted")


def _spelling(tokens: list[_Token]) -> str:
    """A type in one spelling: lower case, one space between words and behind a parenthesis, none elsewhere."""
    text = ""
    for token in tokens:
        if text and token.kind in _NAMES and text[-1] not in "(,":
            text += " "
        text += token.text.lower()
    return text


def parse_columns(text: str) -> tuple[Column, ...]:
    """The columns of a column list, in its order (§5).

    Any case, extra white space, trailing NULs, nested parentheses, ``"delimited"`` names and constraints are read. A
    name that repeats gets ``#2``, ``#3``. A type that is not known gives a column of kind UNKNOWN; it counts as fixed
    unless a column of variable length stands before it or its name says otherwise (:func:`table_schema` asks the
    header).

    Raises SchemaTextError, with the character at which the text stops making sense, where it is no column list.
    """
    columns: list[Column] = []
    any_variable = False
    for item in _items(text.rstrip("\0 \t\r\n")):
        name, *rest = item
        if name.kind not in _NAMES or name.text == '""':
            raise SchemaTextError(f"expected a column name, found {name.text!r}", offset=name.start)
        if not rest:
            raise SchemaTextError(f"the column {name.text} has no type", offset=name.end)
        if rest[0].kind not in _NAMES:
            raise SchemaTextError(f"expected a type after {name.text}, found {rest[0].text!r}", offset=rest[0].start)
        depth, until = 0, len(rest)
        for place, token in enumerate(rest):
            depth += (token.kind == "(") - (token.kind == ")")
            if place and not depth and token.kind == "word" and token.text.lower() in _CONSTRAINTS:
                until = place
                break
        words = rest[:until]
        spelled = text[words[0].start : words[-1].end]
        plain = name.text[1:-1].replace('""', '"') if name.kind == "quoted" else name.text
        blank = Column(
            ordinal=len(columns) + 1,
            name=plain,
            type=spelled,
            kind=ColumnKind.UNKNOWN,
            fixed=not any_variable and "varchar" not in spelled.lower(),
        )
        columns.append(with_type(blank, _spelling(words)))
        any_variable |= not columns[-1].fixed
    names = unique_names(column.name for column in columns)
    return tuple(replace(column, name=name) for column, name in zip(columns, names, strict=True))
