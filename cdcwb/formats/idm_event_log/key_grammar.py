r"""The grammar of ``table_key``, one key at a time (docs/formats/idm-event-log.md §2.1, §2.2).

    table key  = identifier {"+" identifier}
    identifier = column name "=" value

A value that has one of the nine special characters stands in double quotes, in which ``\"`` and ``\\`` stand for a
quote and a backslash. Where the vendor is silent: a name has none of the nine and is not blank; blanks belong to the
name or value beside them, so ``idu= 1`` is a key, of another object than ``idu=1``; a value without quotes has at least
one character, the empty text is ``""``; no column stands twice.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from typing import Final

__all__ = ["BLANKS", "SPECIAL", "Part", "TableKeyError", "escape_value", "format_key", "parse", "parts"]

SPECIAL: Final = ",;'+\"=\\<>"
"""The characters that force quotes around a value (§2.2)."""

BLANKS: Final = " \t\r\n"

_PLAIN: Final = "[^" + re.escape(SPECIAL) + "]"
_PART: Final = re.compile(rf'({_PLAIN}+)=({_PLAIN}+|"(?:[^"\\]++|\\["\\])*+")(\+|\Z)')
_ESCAPED: Final = re.compile(r'\\(["\\])')
_NINE: Final = ", ; ' + \" = \\ < >"

Part = tuple[str, str]
"""A column's name, and its value as it is written, quotes and all."""


class TableKeyError(ValueError):
    """A text is no table key: what was ``expected`` at character ``position`` (from 0) and what was ``found``."""

    def __init__(self, position: int, expected: str, found: str) -> None:
        super().__init__(position, expected, found)
        self.position = position
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        return f"expected {self.expected} at character {self.position}, found {self.found}"


def parse(text: str) -> tuple[tuple[str, str], ...]:
    """The columns of a key with their values, quotes and escapes undone, in the order written. Raises TableKeyError."""
    return tuple((name, _undone(value)) for name, value in parts(text))


def parts(text: str) -> Iterator[Part]:
    """The columns of a key with their values as written. Raises TableKeyError when it comes to what is wrong."""
    at = 0
    seen: set[str] = set()
    while True:
        match = _PART.match(text, at)
        if match is None:
            raise _wrong(text, at, seen)
        name, value, sign = match.groups()
        unfit = _wrong_name(name, at, seen)
        if unfit is not None:
            raise unfit
        yield name, value
        if not sign:
            return
        seen.add(name)
        at = match.end()


def _undone(value: str) -> str:
    if not value.startswith('"'):
        return value
    inner = value[1:-1]
    return _ESCAPED.sub(r"\1", inner) if "\\" in inner else inner


def _wrong_name(name: str, at: int, seen: Container[str]) -> TableKeyError | None:
    if not name.strip(BLANKS):
        return TableKeyError(at, "a column name", "blanks alone")
    return TableKeyError(at, "a column that is not in the key yet", f"{name!r} again") if name in seen else None


def _wrong(text: str, at: int, seen: Container[str]) -> TableKeyError:
    """What is wrong with the identifier that begins at a place."""
    equals = _behind_plain(text, at)
    if equals == at:
        return _error(text, at, "a column name")
    if text[equals : equals + 1] != "=":
        return _error(text, equals, "=")
    unfit = _wrong_name(text[at:equals], at, seen)
    if unfit is not None:
        return unfit
    value = equals + 1
    if text[value : value + 1] == '"':
        return _wrong_in_quotes(text, value + 1)
    end = _behind_plain(text, value)
    if end == value:
        return _error(text, value, "a value, in double quotes if it has a special character")
    return _error(text, end, "+ or the end, because the value is not in double quotes,")


def _wrong_in_quotes(text: str, at: int) -> TableKeyError:
    while at < len(text) and text[at] != '"':
        if text[at] == "\\" and text[at + 1 : at + 2] not in ('"', "\\"):
            return _error(text, at + 1, "a double quote or \\ after \\")
        at += 2 if text[at] == "\\" else 1
    if at == len(text):
        return _error(text, at, "a closing double quote")
    return _error(text, at + 1, "+ or the end")


def _behind_plain(text: str, at: int) -> int:
    while at < len(text) and text[at] not in SPECIAL:
        at += 1
    return at


def _error(text: str, at: int, expected: str) -> TableKeyError:
    return TableKeyError(at, expected, repr(text[at]) if at < len(text) else "the end")


def escape_value(text: str) -> str:
    """A value as it is written in a key: in quotes where it has a special character or is empty."""
    if text and not any(character in SPECIAL for character in text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def format_key(pairs: Iterable[tuple[str, str]]) -> str:
    """The key of these columns and values, which :func:`parse` reads as the same. Raises ValueError where there is no
    column, one that stands twice, or a name that has no place in the grammar."""
    given = list(pairs)
    names = [name for name, _ in given]
    for name in names:
        if not name.strip(BLANKS) or any(character in SPECIAL for character in name):
            raise ValueError(f"expected a column name without any of {_NINE}, found {name!r}")
    if not names or len(set(names)) < len(names):
        raise ValueError(f"expected columns of a key, each once, found {names}")
    return "+".join(f"{name}={escape_value(value)}" for name, value in given)
