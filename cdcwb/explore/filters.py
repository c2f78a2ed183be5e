"""The filter line: ``table == "HR.EMP" and operation == "UPDATE"``. It is parsed, never evaluated as code.

    filter      = and-part { "or" and-part }
    and-part    = not-part { "and" not-part }
    not-part    = "not" not-part | "(" filter ")" | comparison
    comparison  = column ( "==" | "!=" | "<" | "<=" | ">" | ">=" | "contains" | "matches" ) value
                | column [ "not" ] "in" "(" value { "," value } ")"
    value       = text in double or single quotes | whole number | "null"

``!=`` is true wherever ``==`` is not, so also for null; no order and no search finds null. ``matches`` takes a regular
expression of RE2, whose time grows with the text alone. A column of times takes ISO 8601 in quotes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from cdcwb.explore.tokens import END, FilterError, Token, tokens
from cdcwb.formats.options import nearest
from cdcwb.index.columns import Bools, Column, micros
from cdcwb.words import visible

__all__ = ["ALIASES", "Filter", "FilterError", "column_name", "narrowing", "parse", "quoted"]

ALIASES: Final = {
    "table_name": "table",
    "schema_name": "schema",
    "transaction_id": "transaction",
    "changed_at": "time",
    "record_type": "type",
    "table_version": "version",
    "problems": "problem",
    "lsn": "position",
    "change_seq": "position",
    "note": "mark",
}
"""Other names of columns, those of :mod:`cdcwb.model` and of the sources among them."""

_SIGNS: Final = ("==", "!=", "<", "<=", ">", ">=")
_WORDS: Final = ("and", "or", "not", "in", "contains", "matches", "null")
_DEEPEST: Final = 100
_LONGEST: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Comparison:
    column: str
    sign: str
    value: Any
    place: int


@dataclass(frozen=True, slots=True)
class _Joined:
    word: str
    parts: tuple[_Node, ...]


_Node = _Comparison | _Joined


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that was understood."""

    text: str
    _root: _Node

    def rows(self, columns: Mapping[str, Column]) -> Bools:
        """For every row of the columns, whether the filter holds."""
        return _rows(self._root, columns)

    @property
    def names(self) -> frozenset[str]:
        """The columns that it asks for."""
        return frozenset(one.column for one in _comparisons(self._root))

    @property
    def equals(self) -> list[tuple[str, str]]:
        """The columns of text and the values that it compares by ``==``, in order."""
        found = [one for one in _comparisons(self._root) if one.sign == "==" and isinstance(one.value, str)]
        return [(one.column, one.value) for one in found]


def parse(line: str, kinds: Mapping[str, str]) -> Filter | None:
    """The filter of a line over columns of these names and kinds (text, number, time); None for a blank line.

    Raises FilterError that says where, what was expected and, for a column that is not known, the nearest one.
    """
    if not line.strip():
        return None
    if len(line) > _LONGEST:
        raise FilterError(f"a filter has at most {_LONGEST:,} characters", _LONGEST)
    return Filter(line, _Parser(tokens(line), kinds).filter())


def column_name(text: str) -> str:
    """The column that a word of a filter may name, whatever its case, also by another name."""
    return ALIASES.get(text.lower(), text.lower())


def quoted(text: str) -> str:
    """A text as it stands in a filter."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def narrowing(
    tables: Sequence[str] = (), time_from: dt.datetime | None = None, time_to: dt.datetime | None = None
) -> str:
    """The filter that keeps the records of some tables from one time (included) to another (excluded)."""
    parts = [f"table in ({', '.join(map(quoted, tables))})"] if tables else []
    parts += [f"time >= {quoted(time_from.isoformat())}"] if time_from is not None else []
    parts += [f"time < {quoted(time_to.isoformat())}"] if time_to is not None else []
    return " and ".join(parts)


class _Parser:
    """Goes down from the loosest to the tightest word, one method for each rule of the grammar."""

    def __init__(self, words: list[Token], kinds: Mapping[str, str]) -> None:
        self._words = words
        self._kinds = kinds
        self._at = 0
        self._depth = 0

    def filter(self) -> _Node:
        found = self._or()
        if self._word.kind != END:
            raise self._expected("and, or, or the end")
        return found

    @property
    def _word(self) -> Token:
        return self._words[self._at]

    def _is(self, text: str) -> bool:
        word = self._word
        return word.kind != "text" and word.text.lower() == text

    def _take(self, text: str) -> bool:
        if self._is(text):
            self._at += 1
            return True
        return False

    def _or(self) -> _Node:
        return self._joined("or", self._and())

    def _and(self) -> _Node:
        return self._joined("and", self._not())

    def _joined(self, word: str, first: _Node) -> _Node:
        parts = [first]
        while self._take(word):
            parts.append(self._and() if word == "or" else self._not())
        return first if len(parts) == 1 else _Joined(word, tuple(parts))

    def _not(self) -> _Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise FilterError(f"a filter is at most {_DEEPEST} parentheses and nots deep", self._word.place)
        try:
            if self._take("not"):
                return _Joined("not", (self._not(),))
            if self._take("("):
                found = self._or()
                if not self._take(")"):
                    raise self._expected(")")
                return found
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> _Node:
        column, kind = self._column()
        word = self._word
        if self._take("not"):
            if not self._take("in"):
                raise self._expected("in")
            return _Joined("not", (self._list(column, kind, word),))
        if self._take("in"):
            return self._list(column, kind, word)
        sign = word.text.lower()
        if word.kind == "text" or sign not in (*_SIGNS, "contains", "matches"):
            raise self._expected("==, !=, <, <=, >, >=, in, contains or matches")
        if sign in ("contains", "matches") and kind != "text":
            raise FilterError(f"{_at(word)}: {sign} is for columns of text; {column} holds {kind}s", word.place)
        self._at += 1
        value = self._value(column, kind)
        if value is None and sign not in ("==", "!="):
            raise FilterError(f"{_at(word)}: null is compared with == or !=", word.place)
        if sign == "!=":
            return _Joined("not", (_Comparison(column, "==", value, word.place),))
        return _Comparison(column, sign, value, word.place)

    def _column(self) -> tuple[str, str]:
        word = self._word
        if word.kind != "name" or word.text.lower() in _WORDS:
            raise self._expected("the name of a column")
        name = column_name(word.text)
        if name not in self._kinds:
            near = nearest(word.text.lower(), [*self._kinds, *ALIASES])
            raise FilterError(
                f"{_at(word)}: there is no column '{visible(word.text)}'.{near} There are: {', '.join(self._kinds)}.",
                word.place,
            )
        self._at += 1
        return name, self._kinds[name]

    def _list(self, column: str, kind: str, word: Token) -> _Node:
        if not self._take("("):
            raise self._expected("(")
        parts: list[_Node] = [_Comparison(column, "==", self._value(column, kind), word.place)]
        while self._take(","):
            parts.append(_Comparison(column, "==", self._value(column, kind), word.place))
        if not self._take(")"):
            raise self._expected(", or )")
        return _Joined("or", tuple(parts))

    def _value(self, column: str, kind: str) -> Any:
        word = self._word
        if self._take("null"):
            return None
        if word.kind == "text" and kind == "text":
            self._at += 1
            return word.text
        if word.kind == "text" and kind == "time":
            self._at += 1
            return _time(word)
        if word.kind == "number" and kind == "number":
            self._at += 1
            return int(word.text.replace("_", ""), 0 if "x" in word.text.lower() else 10)
        wanted = {"text": 'a text in quotes, such as "x"', "number": "a whole number"}
        raise self._expected(f"{wanted.get(kind, 'a time in quotes')}, or null, for the column {column}")

    def _expected(self, what: str) -> FilterError:
        word = self._word
        found = "the end" if word.kind == END else f"'{visible(word.text, 40)}'"
        return FilterError(f"{_at(word)}: expected {what}, found {found}", word.place)


def _at(word: Token) -> str:
    return "at the end" if word.kind == END else f"at character {word.place + 1}"


def _time(word: Token) -> int:
    try:
        time = dt.datetime.fromisoformat(word.text.strip())
    except ValueError:
        raise FilterError(
            f'{_at(word)}: expected a time such as "2025-03-23T10:57:19Z", found "{visible(word.text, 40)}"', word.place
        ) from None
    return micros(time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time.astimezone(dt.UTC))


def _rows(node: _Node, columns: Mapping[str, Column]) -> Bools:
    if isinstance(node, _Comparison):
        try:
            return columns[node.column].compare(node.sign, node.value)
        except ValueError as reason:
            raise FilterError(f"at character {node.place + 1}: {reason}", node.place) from None
    found = _rows(node.parts[0], columns)
    if node.word == "not":
        return ~found
    for part in node.parts[1:]:
        other = _rows(part, columns)
        found = np.logical_and(found, other) if node.word == "and" else np.logical_or(found, other)
    return found


def _comparisons(node: _Node) -> list[_Comparison]:
    if isinstance(node, _Comparison):
        return [node]
    return [one for part in node.parts for one in _comparisons(part)]
