"""The filter line: ``table == "HR.EMP" and operation == "UPDATE"``. It is parsed, never evaluated as code.

    filter      = and-part { "or" and-part }
    and-part    = not-part { "and" not-part }
    not-part    = "not" not-part | "(" filter ")" | comparison
    comparison  = column ( "==" | "!=" | "<" | "<=" | ">" | ">=" | "contains" | "matches" ) value
                | column [ "not" ] "in" "(" value { "," value } ")"
    column      = the name of a header | ( "before" | "after" | "key" ) "." name of a column of the table
    value       = text in double or single quotes | number | "null" | "missing"

``!=`` is true wherever ``==`` is not, so also for null; other comparisons are false for null. ``matches`` takes a
regular expression of RE2, whose time grows with the text alone. A column of times takes ISO 8601 in quotes.

A comparison with ``before.``, ``after.`` or ``key.`` is about a value of a row. It is true only for records that have
the value, and so is ``!=``; ``missing`` is a value that the image lacks. The index has no values:
:mod:`cdcwb.explore.search` reads them.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any, Final, NamedTuple

import numpy as np

from cdcwb.errors import OptionError
from cdcwb.formats.options import check_value, nearest
from cdcwb.index.columns import Bools, Column
from cdcwb.time_axis import micros
from cdcwb.words import visible

__all__ = [
    "ALIASES",
    "END",
    "ESCAPED",
    "IMAGES",
    "MISSING",
    "NUMBER",
    "Comparison",
    "Filter",
    "FilterError",
    "Token",
    "column_name",
    "compared",
    "narrowing",
    "parse",
    "quoted",
    "tokens",
    "unquoted",
    "value_name",
]

END: Final = "end"
ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}
"""Escapes of characters that cannot be in one line, by the character after the backslash."""

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
    """A filter that cannot be parsed. ``place`` is the index of the wrong character, from 0."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.place = offset

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.place)


class Token(NamedTuple):
    """One token: its kind (number, text, sign, name or end), its text without quotes, and the index of its first
    character."""

    kind: str
    text: str
    place: int


def tokens(line: str) -> list[Token]:
    """The tokens of a line, followed by an end token. Raises FilterError for an invalid token."""
    result = []
    offset = 0
    while offset < len(line):
        match = _PARTS.match(line, offset)
        if match is None:
            raise _wrong(line, offset)
        kind = str(match.lastgroup)
        if kind == "text":
            result.append(Token(kind, unquoted(match.group()), offset))
        elif kind != "space":
            result.append(Token(kind, match.group(), offset))
        offset = match.end()
    result.append(Token(END, "", len(line)))
    return result


def unquoted(text: str) -> str:
    """A quoted text without its quotes; a backslash escapes the next character, or is an n, r or t for the control
    character."""
    return re.sub(r"\\(.)", lambda escape: ESCAPED.get(escape[1], escape[1]), text[1:-1], flags=re.DOTALL)


def _wrong(line: str, offset: int) -> FilterError:
    sign = line[offset]
    where = f"at character {offset + 1}"
    if sign in "\"'":
        return FilterError(f"{where}: this text has no closing {sign}", offset)
    if sign.isdigit() or sign == "-":
        return FilterError(f"{where}: expected a number; a time or a position is in quotes", offset)
    hint = f"; {_INSTEAD[sign]}" if sign in _INSTEAD else ""
    return FilterError(f"{where}: '{visible(sign)}' means nothing here{hint}", offset)


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
"""Other names of columns, including those of :mod:`cdcwb.model` and of the sources."""

IMAGES: Final = ("before", "after", "key")
"""Prefixes of values: ``after.status`` is a column of the table in the after image."""


class _Missing:
    """The keyword ``missing``: a value that an image lacks."""


MISSING: Final = _Missing()

_SIGNS: Final = ("==", "!=", "<", "<=", ">", ">=")
_WORDS: Final = ("and", "or", "not", "in", "contains", "matches", "null", "missing")
NUMBER: Final = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
"""The text of a number."""

_DEEPEST: Final = 100
_LONGEST: Final = 10_000


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a column. The operand of a value of a row is a text, a Decimal, an aware time, None for null or
    MISSING; ``place`` is the index of its character."""

    column: str
    sign: str
    value: Any
    place: int

    @property
    def is_value(self) -> bool:
        """Whether it compares a value of a row, which the index does not have."""
        return "." in self.column


@dataclass(frozen=True, slots=True)
class _Joined:
    word: str
    parts: tuple[_Node, ...]


_Node = Comparison | _Joined


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed filter."""

    text: str
    _root: _Node

    def rows(self, columns: Mapping[str, Column]) -> Bools:
        """Whether the filter holds, for every row of the columns. It must not compare values of rows."""

        def known(comparison: Comparison) -> tuple[Bools, Bools]:
            mask = compared(comparison, columns)
            return mask, mask

        return self.bounds(known)[0]

    def bounds(self, known: Callable[[Comparison], tuple[Bools, Bools]]) -> tuple[Bools, Bools]:
        """For every row, whether the filter may hold, and whether it certainly holds, from the same two arrays of each
        comparison. If both are the same array, the comparison is decided."""
        return _bounds(self._root, known)

    @property
    def values(self) -> list[Comparison]:
        """The comparisons of values of rows."""
        return list(dict.fromkeys(comparison for comparison in _comparisons(self._root) if comparison.is_value))

    @property
    def names(self) -> frozenset[str]:
        """The columns of the filter."""
        return frozenset(comparison.column for comparison in _comparisons(self._root))

    @property
    def equals(self) -> list[tuple[str, str]]:
        """The columns of text and the values that they are compared with by ``==``, in order."""
        equal = [c for c in _comparisons(self._root) if c.sign == "==" and isinstance(c.value, str)]
        return [(c.column, c.value) for c in equal if not c.is_value]


def parse(line: str, kinds: Mapping[str, str]) -> Filter | None:
    """The filter of a line over columns with these names and kinds (text, number, time; for values, ``after.NAME``,
    also any); None for a blank line.

    Raises FilterError with the character, what was expected and, for an unknown column, the most similar one.
    """
    if not line.strip():
        return None
    if len(line) > _LONGEST:
        raise FilterError(f"a filter has at most {_LONGEST:,} characters", _LONGEST)
    return Filter(line, _Parser(tokens(line), kinds).filter())


def column_name(text: str) -> str:
    """The column for a name in a filter, ignoring case; also by another name. For a value it is ``after.NAME``, with
    NAME as in the table."""
    image, dot, name = text.partition(".")
    if dot:
        return f"{image.lower()}.{unquoted(name) if name.startswith(chr(34)) else name}"
    return ALIASES.get(text.lower(), text.lower())


def value_name(image: str, name: str, kinds: Mapping[str, str]) -> str:
    """A column of an image in the syntax of filters over columns with these names."""
    is_plain = f"{image}.{name}" in kinds and re.fullmatch(r"[\w$#]+", name)
    return f"{image}.{name if is_plain else quoted(name)}"


def quoted(text: str) -> str:
    """A text in the syntax of filters, in one line."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    for letter, character in ESCAPED.items():
        escaped = escaped.replace(character, f"\\{letter}")
    return f'"{escaped}"'


def narrowing(
    tables: Sequence[str] = (), time_from: dt.datetime | None = None, time_to: dt.datetime | None = None
) -> str:
    """The filter for the records of some tables in a range of time: from the first (included) to the second
    (excluded)."""
    parts = [f"table in ({', '.join(map(quoted, tables))})"] if tables else []
    parts += [f"time >= {quoted(time_from.isoformat())}"] if time_from is not None else []
    parts += [f"time < {quoted(time_to.isoformat())}"] if time_to is not None else []
    return " and ".join(parts)


class _Parser:
    """A recursive descent parser with one method for each rule of the grammar."""

    def __init__(self, words: list[Token], kinds: Mapping[str, str]) -> None:
        self._words = words
        self._kinds = kinds
        self._at = 0
        self._depth = 0

    def filter(self) -> _Node:
        node = self._or()
        if self._word.kind != END:
            raise self._expected("and, or, or the end")
        return node

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
                inner = self._or()
                if not self._take(")"):
                    raise self._expected(")")
                return inner
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> _Node:
        column, kind = self._column()
        word = self._word
        if self._take("not"):
            if not self._take("in"):
                raise self._expected("in")
            return self._list(column, kind, word, "!=")
        if self._take("in"):
            return self._list(column, kind, word, "==")
        sign = word.text.lower()
        if word.kind == "text" or sign not in (*_SIGNS, "contains", "matches"):
            raise self._expected("==, !=, <, <=, >, >=, in, contains or matches")
        if sign in ("contains", "matches") and kind not in ("text", "any"):
            raise FilterError(f"{_at(word)}: {sign} is for columns of text; {column} holds {kind}s", word.place)
        self._at += 1
        value = self._value(column, kind)
        if (value is None or value is MISSING) and sign not in ("==", "!="):
            what = "null" if value is None else "missing"
            raise FilterError(f"{_at(word)}: {what} is compared with == or !=", word.place)
        if sign in ("contains", "matches") and not isinstance(value, str):
            raise FilterError(f"{_at(word)}: {sign} needs a text in quotes", word.place)
        return _compares(Comparison(column, sign, value, word.place))

    def _column(self) -> tuple[str, str]:
        word = self._word
        if word.kind != "name" or word.text.lower() in _WORDS:
            raise self._expected("the name of a column")
        name = column_name(word.text)
        if "." in name:
            return self._column_of_image(name, word)
        if name not in self._kinds:
            headers = [header for header in self._kinds if "." not in header]
            near = nearest(word.text.lower(), [*headers, *ALIASES])
            raise FilterError(
                f"{_at(word)}: there is no column '{visible(word.text)}'.{near} There are: {', '.join(headers)}.",
                word.place,
            )
        self._at += 1
        return name, self._kinds[name]

    def _column_of_image(self, name: str, word: Token) -> tuple[str, str]:
        """A column of a table: exactly as written, or the only one that differs in case. A quoted name may be unknown
        to all versions."""
        image, _, column = name.partition(".")
        known = [full.partition(".")[2] for full in self._kinds if full.startswith(f"{image}.")]
        alike = [other for other in known if other.lower() == column.lower()]
        if column not in known and word.text.endswith('"'):
            self._at += 1
            return name, "any"
        if column not in known and len(alike) != 1:
            near = nearest(column, known) or (f" There are: {', '.join(alike)}." if alike else "")
            raise FilterError(f"{_at(word)}: no table has a column '{visible(column)}'.{near}", word.place)
        self._at += 1
        full = f"{image}.{column if column in known else alike[0]}"
        return full, self._kinds[full]

    def _list(self, column: str, kind: str, word: Token, sign: str) -> _Node:
        if not self._take("("):
            raise self._expected("(")
        parts: list[_Node] = [_compares(Comparison(column, sign, self._value(column, kind), word.place))]
        while self._take(","):
            parts.append(_compares(Comparison(column, sign, self._value(column, kind), word.place)))
        if not self._take(")"):
            raise self._expected(", or )")
        return _Joined("or" if sign == "==" else "and", tuple(parts))

    def _value(self, column: str, kind: str) -> Any:
        word = self._word
        if self._take("null"):
            return None
        if "." in column:
            return self._value_of_row(column, kind)
        if word.kind == "text" and kind == "text":
            self._at += 1
            return word.text
        if word.kind == "text" and kind == "time":
            self._at += 1
            return _time(word)
        if word.kind == "number" and kind == "number" and not re.search(r"[.]|^[^x]*e", word.text.lower()):
            self._at += 1
            return int(word.text.replace("_", ""), 0 if "x" in word.text.lower() else 10)
        wanted = {"text": 'a text in quotes, such as "x"', "number": "a whole number"}
        raise self._expected(f"{wanted.get(kind, 'a time in quotes')}, or null, for the column {column}")

    def _value_of_row(self, column: str, kind: str) -> Any:
        """The operand for a value of a row. A quoted text is read by the column's kind. If the kind is unknown, or
        differs between tables, a quoted text is a text and a number is a number."""
        word = self._word
        if self._take("missing"):
            return MISSING
        if word.kind == "text" and kind == "time":
            self._at += 1
            return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=_time(word))
        if word.kind == "text" and kind != "number":
            self._at += 1
            return word.text
        as_number = _decimal(word.text) if word.kind in ("number", "text") else None
        if as_number is not None and kind in ("number", "any"):
            self._at += 1
            return as_number
        wanted = {"text": 'a text in quotes, such as "x"', "number": "a number", "time": "a time in quotes"}
        raise self._expected(f"{wanted.get(kind, 'a text in quotes, a number')}, null or missing, for {column}")

    def _expected(self, what: str) -> FilterError:
        word = self._word
        actual = "the end" if word.kind == END else f"'{visible(word.text, 40)}'"
        return FilterError(f"{_at(word)}: expected {what}, found {actual}", word.place)


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


def _decimal(text: str) -> Decimal | None:
    plain = text.strip().replace("_", "")
    if re.fullmatch(r"-?0[xX][0-9a-fA-F]+", plain):
        return Decimal(int(plain, 16))
    return Decimal(plain) if re.fullmatch(NUMBER, plain) else None


_ENUMERATIONS: Final = {"kind": "kind", "operation": "operation", "outcome": "outcome", "problem": "code"}
"""Columns whose values are those of an enumeration, by name in :mod:`cdcwb.model`."""


def _compares(comparison: Comparison) -> _Node:
    """A comparison by a sign. For headers ``!=`` is the negation of ``==``; for values of rows it also requires that
    the value is present.

    Raises FilterError for a value that the column cannot have.
    """
    if comparison.column in _ENUMERATIONS and comparison.sign in ("==", "!=") and isinstance(comparison.value, str):
        for value in comparison.value.split(", "):  # a record may have several problems
            try:
                check_value(_ENUMERATIONS[comparison.column], value, f"at character {comparison.place + 1}")
            except OptionError as wrong:
                raise FilterError(str(wrong), comparison.place) from None
    if comparison.sign == "!=" and not comparison.is_value:
        return _Joined("not", (Comparison(comparison.column, "==", comparison.value, comparison.place),))
    return comparison


def compared(comparison: Comparison, columns: Mapping[str, Column]) -> Bools:
    """Whether a comparison with a header holds, for each row. Raises FilterError for an invalid pattern."""
    try:
        return columns[comparison.column].compare(comparison.sign, comparison.value)
    except ValueError as reason:
        raise FilterError(f"at character {comparison.place + 1}: {reason}", comparison.place) from None


def _bounds(node: _Node, known: Callable[[Comparison], tuple[Bools, Bools]]) -> tuple[Bools, Bools]:
    if isinstance(node, Comparison):
        return known(node)
    parts = [_bounds(part, known) for part in node.parts]
    exact = all(may is does for may, does in parts)
    if node.word == "not":
        ((may, does),) = parts
        not_does = ~does
        return not_does, not_does if exact else ~may
    join = np.logical_and if node.word == "and" else np.logical_or
    may = reduce(join, (mask for mask, _ in parts))
    return may, may if exact else reduce(join, (mask for _, mask in parts))


def _comparisons(node: _Node) -> list[Comparison]:
    if isinstance(node, Comparison):
        return [node]
    return [comparison for part in node.parts for comparison in _comparisons(part)]
