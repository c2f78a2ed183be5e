"""The column list of a table as its schema text writes it (docs/formats/gbase8s.md §5).

It is what stands between the parentheses of a CREATE TABLE: ``c1 integer, c2 varchar(20,0)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from cdcwb.errors import CaptureError
from cdcwb.formats.gbase8s.layout import FRACTION, MOST_PACKED, QUALIFIERS, Column, ColumnKind
from cdcwb.unique_names import unique_names

__all__ = ["SchemaTextError", "parse_columns"]


_DEFAULT_FRACTION: Final = 3
_MOST_FRACTION: Final = 5
_MOST_DIGITS: Final = 32  # precision of a decimal
_FLOATING: Final = 255  # scale by which the catalogue marks a floating decimal
_LOB_BYTES: Final = 76
_LVARCHAR_DEFAULT: Final = 2048
_LARGEST: Final = 2**31 - 1

_PLAIN: Final[dict[str, tuple[ColumnKind, int]]] = {
    "smallint": (ColumnKind.SMALLINT, 2),
    "integer": (ColumnKind.INTEGER, 4),
    "int": (ColumnKind.INTEGER, 4),
    "bigint": (ColumnKind.BIGINT, 8),
    "int8": (ColumnKind.INT8, 10),
    "date": (ColumnKind.DATE, 4),
    "boolean": (ColumnKind.BOOLEAN, 2),
    "smallfloat": (ColumnKind.SMALLFLOAT, 4),
    "real": (ColumnKind.SMALLFLOAT, 4),
    "blob": (ColumnKind.LOB, _LOB_BYTES),
    "clob": (ColumnKind.LOB, _LOB_BYTES),
}
"""Types without arguments, and their bytes in a row (§4.1)."""

_COUNTED: Final[dict[str, tuple[ColumnKind, int]]] = {
    "serial": (ColumnKind.INTEGER, 4),
    "bigserial": (ColumnKind.BIGINT, 8),
    "serial8": (ColumnKind.INT8, 10),
    "float": (ColumnKind.FLOAT, 8),
    "double precision": (ColumnKind.FLOAT, 8),
}
"""Types whose one argument (a first value, a number of digits) does not change their bytes (§4.1)."""

_FIXED_TEXT: Final = ("char", "character", "nchar")
_VARYING: Final = ("varchar", "nvarchar", "character varying")
_DECIMALS: Final = ("decimal", "dec", "numeric", "money")

_WITH_ARGUMENTS: Final = re.compile(r"([a-z][a-z0-9 ]*?)(?:\(([0-9]{1,19})(?:,([0-9]{1,10}))?\))?")
_DATETIME: Final = re.compile(r"datetime (\w+) to (\w+)(?:\(([0-9])\))?", re.ASCII)
_INTERVAL: Final = re.compile(r"interval (\w+)(?:\(([0-9])\))? to (\w+)(?:\(([0-9])\))?", re.ASCII)


def _packed_size(precision: int, scale: int | None) -> int:
    """Bytes of a DECIMAL (§4.3): the point falls between two base-100 digits, so an odd scale may cost one more."""
    odd = 1 if scale is None else scale & 1
    return min(MOST_PACKED, (precision + odd + 3) // 2)


def _decimal(column: Column, money: bool, first: int | None, second: int | None) -> Column:
    precision = 16 if first is None else first
    scale = second
    if second is None and money:
        scale = 2
    elif second == _FLOATING:
        scale = None
    if not 1 <= precision <= _MOST_DIGITS or (scale or 0) > precision:
        return column
    size = _packed_size(precision, scale)
    return replace(
        column, kind=ColumnKind.DECIMAL, fixed=True, size=size, length=size, precision=precision, scale=scale
    )


def _qualified(column: Column, spelling: str) -> Column:
    """DATETIME and INTERVAL (§4.4, §4.5)."""
    found = _DATETIME.fullmatch(spelling)
    kind, lead_text = ColumnKind.DATETIME, None
    if found is not None:
        first, last, digits_text = found.groups()
    else:
        found = _INTERVAL.fullmatch(spelling)
        if found is None:
            return column
        kind = ColumnKind.INTERVAL
        first, lead_text, last, digits_text = found.groups()
    start, end = QUALIFIERS.get(first), QUALIFIERS.get(last)
    if start is None or end is None or start > end or (digits_text is not None and end != FRACTION):
        return column
    fraction = 0 if end != FRACTION else int(digits_text or _DEFAULT_FRACTION)
    lead = 0
    if kind is ColumnKind.INTERVAL:
        if start <= QUALIFIERS["month"] < end or (lead_text is not None and start == FRACTION):
            return column  # months and days do not mix; a fraction has no digits in front
        lead = 0 if start == FRACTION else int(lead_text or (4 if start == 0 else 2))
        if start != FRACTION and lead == 0:
            return column
    if end == FRACTION and not 1 <= fraction <= _MOST_FRACTION:
        return column
    typed = replace(column, kind=kind, fixed=True, start=start, end=end, fraction=fraction, lead=lead)
    size = 1 + typed.whole_pairs + (fraction + 1) // 2
    return replace(typed, size=size, length=size)


def with_type(column: Column, spelling: str) -> Column:
    """The column with what its type says; as it was (UNKNOWN) where the type or its arguments are not known.

    ``spelling`` is the type in lower case, with one space between words and none around parentheses and commas, but for
    one behind a closing parenthesis that a word follows: ``decimal(12,2)``, ``interval day(3) to second``.
    """
    if spelling.startswith(("datetime ", "interval ")):
        return _qualified(column, spelling)
    found = _WITH_ARGUMENTS.fullmatch(spelling)
    if found is None:
        return column
    name = found[1]
    first, second = (None if argument is None else int(argument) for argument in (found[2], found[3]))
    plain = _PLAIN.get(name) if first is None else None
    if name in _COUNTED and second is None:
        plain = _COUNTED[name]
    if plain is not None:
        kind, size = plain
        return replace(column, kind=kind, fixed=True, size=size, length=size)
    if name in _DECIMALS:
        return _decimal(column, name == "money", first, second)
    if first is not None and not 1 <= first <= _LARGEST:
        return column
    if name in _FIXED_TEXT and second is None:
        size = first or 1
        return replace(column, kind=ColumnKind.CHAR, fixed=True, size=size, length=size)
    if name in _VARYING:
        return replace(column, kind=ColumnKind.VARCHAR, fixed=False, length=first)
    if name == "lvarchar" and second is None:
        return replace(column, kind=ColumnKind.LVARCHAR, fixed=False, length=first or _LVARCHAR_DEFAULT)
    return column


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
