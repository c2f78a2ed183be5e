"""Filters of records and rows: ``table == "HR.EMP" and after.SAL > 1000``. They are parsed, never evaluated as code.

    filter      = and-part { "or" and-part }
    and-part    = not-part { "and" not-part }
    not-part    = "not" not-part | "(" filter ")" | comparison
    comparison  = column ( "==" | "!=" | "<" | "<=" | ">" | ">=" | "contains" | "matches" ) value
                | column [ "not" ] "in" "(" value { "," value } ")"
    column      = the name of a header | ( "before" | "after" | "key" ) "." name of a column of the table
    value       = text in double or single quotes | number | "null" | "missing"

``!=`` is true wherever ``==`` is not, so also for null; other comparisons are false for null. ``matches`` takes a
regular expression of RE2, whose time grows with the text alone. A column of times takes ISO 8601 in quotes.

A comparison with ``before.``, ``after.`` or ``key.`` is about a value of a row. It is true only for rows that have the
value, and so is ``!=``; ``missing`` is a value that the image lacks.

The explorer, ``--where`` and ``Capture.filter`` have this language. The index compares its own columns;
:func:`holds` compares rows of the tables of :mod:`cdcwb.model`.
"""

from __future__ import annotations

import datetime as dt
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import partial, reduce
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.errors import OptionError
from cdcwb.formats.options import check_value, nearest
from cdcwb.formats.text_values import parsed
from cdcwb.times import micros, parse_time
from cdcwb.words import visible

__all__ = [
    "ALIASES",
    "ANY",
    "IMAGES",
    "KINDS",
    "NO_TIME",
    "NUMBER",
    "SHORT",
    "Comparison",
    "Filter",
    "FilterError",
    "any_of",
    "column_name",
    "columns_of",
    "holds",
    "kind_of_type",
    "mask_of_texts",
    "matching",
    "narrowing",
    "needed_by",
    "parse",
    "quoted",
    "times",
    "tokens",
    "unquoted",
    "value_kinds",
    "value_name",
]

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


class FilterError(OptionError):
    """A filter that cannot be parsed. ``place`` is the index of the wrong character, from 0."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.place = offset

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.place)


# --- tokens -----------------------------------------------------------------------------------------------------------

END: Final = "end"
NUMBER: Final = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
"""The text of a number."""

_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}
"""Escapes of characters that cannot be in one line, by the character after the backslash."""

_PARTS: Final = re.compile(
    r"""(?P<space>\s+)
      | (?P<number>-?(?:0[xX][0-9a-fA-F]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.]))
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<sql><=>|<>)
      | (?P<sign>==|!=|<=|>=|<|>|\(|\)|,)
      | (?P<name>(?i:before|after|key)\.(?:[\w$#]+|"(?:[^"\\]|\\.)*")|[^\W\d]\w*)""",
    re.VERBOSE | re.DOTALL,
)
_INSTEAD: Final = {
    "=": "write == to compare",
    "<>": "write != to compare",
    "<=>": "write == to compare",
    "&": "write and",
    "|": "write or",
    "!": "write not, or != to compare",
    "[": "write a list in parentheses: in (…), and a value of a row as after.NAME",
    ".": "write the name of a column after before., after. or key., in double quotes where it is more than one word",
    "is": "write == null or != null",
    "like": "write contains, or matches and a regular expression",
    "rlike": "write matches",
    "between": "write >= and <=",
}
"""The spelling of what is written otherwise in SQL and other languages."""


class Token(NamedTuple):
    """One token: its kind (number, text, sign, name or end), its text without quotes, and the index of its first
    character."""

    kind: str
    text: str
    place: int

    @property
    def location(self) -> str:
        """Where it is, for messages."""
        return "at the end" if self.kind == END else f"at character {self.place + 1}"


def tokens(line: str) -> list[Token]:
    """The tokens of a line, followed by an end token. Raises FilterError for an invalid token."""
    result = []
    offset = 0
    while offset < len(line):
        match = _PARTS.match(line, offset)
        if match is None or match.lastgroup == "sql":
            raise _wrong(line[offset] if match is None else match.group(), offset)
        kind = str(match.lastgroup)
        if kind != "space":
            result.append(Token(kind, unquoted(match.group()) if kind == "text" else match.group(), offset))
        offset = match.end()
    return [*result, Token(END, "", len(line))]


def _wrong(sign: str, offset: int) -> FilterError:
    if sign in "\"'":
        reason = f"this text has no closing {sign}"
    elif sign.isdigit() or sign == "-":
        reason = "expected a number; a time or a position is in quotes"
    else:
        reason = f"'{visible(sign)}' means nothing here" + (f"; {_INSTEAD[sign]}" if sign in _INSTEAD else "")
    return FilterError(f"at character {offset + 1}: {reason}", offset)


def unquoted(text: str) -> str:
    """A quoted text without its quotes; a backslash escapes the next character, or is an n, r or t for the control
    character."""
    return re.sub(r"\\(.)", lambda escape: _ESCAPED.get(escape[1], escape[1]), text[1:-1], flags=re.DOTALL)


def quoted(text: str) -> str:
    """A text in the syntax of filters, in one line."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    for letter, character in _ESCAPED.items():
        escaped = escaped.replace(character, f"\\{letter}")
    return f'"{escaped}"'


# --- names ------------------------------------------------------------------------------------------------------------

ALIASES: Final = {
    "table_name": "table",
    "tables": "table",
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

_HEADERS: Final = ("csn", "record_id")
"""Header fields of sources that are columns."""


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


def narrowing(
    tables: Sequence[str] = (), time_from: dt.datetime | None = None, time_to: dt.datetime | None = None
) -> str:
    """The filter for the records of some tables in a range of time: from the first (included) to the second
    (excluded)."""
    parts = [f"table in ({', '.join(map(quoted, tables))})"] if tables else []
    parts += [f"time >= {quoted(time_from.isoformat())}"] if time_from is not None else []
    parts += [f"time < {quoted(time_to.isoformat())}"] if time_to is not None else []
    return " and ".join(parts)


def _kind_of_field(kind: pa.DataType) -> str | None:
    if pa.types.is_list(kind):
        return _kind_of_field(kind.value_type)
    if pa.types.is_timestamp(kind):
        return "time"
    return "number" if pa.types.is_integer(kind) else "text" if kind in (pa.string(), pa.bool_()) else None


class _Any(dict[str, str]):
    """Every name, with values of any kind."""

    def __contains__(self, name: object) -> bool:
        return True


ANY: Final[Mapping[str, str]] = _Any()
"""The columns of a filter about columns that are not known."""

KINDS: Final = {
    ALIASES.get(field.name, field.name): kind
    for schema in (model.EVENTS, model.CHANGES, model.TRANSACTIONS, model.PROBLEMS)
    for field in schema
    if (kind := _kind_of_field(field.type)) is not None
} | {"problem": "text", **dict.fromkeys(_HEADERS, "any")}
"""The columns of the tables of a capture in filters, and their kinds: text, number, time or any."""


def columns_of(names: Collection[str]) -> frozenset[str]:
    """The columns of filters that a table with these columns has; ``after.`` for values of an image."""
    columns = {f"{name}." if name in IMAGES else ALIASES.get(name, name) for name in names}
    return frozenset(columns | set(_HEADERS if "headers" in names else ()))


def needed_by(columns: Collection[str], names: Iterable[str]) -> list[str]:
    """Those of a table's columns that are read to compare columns of filters."""
    wanted = {*columns}
    wanted |= {"headers"} if wanted & {*_HEADERS} else set()
    wanted |= {"schema"} if "table" in wanted else set()
    return [name for name in names if ALIASES.get(name, name) in wanted or f"{name}." in wanted]


# --- filters ----------------------------------------------------------------------------------------------------------


class _Missing:
    """The keyword ``missing``: a value that an image lacks."""

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()

_SIGNS: Final = ("==", "!=", "<", "<=", ">", ">=")
_WORDS: Final = ("and", "or", "not", "in", "contains", "matches", "null", "missing")
_DEEPEST: Final = 100
_LONGEST: Final = 10_000


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a column. The operand is a text, a number, an aware time, None for null or MISSING."""

    column: str
    sign: str
    value: Any

    @property
    def is_value(self) -> bool:
        """Whether it compares a value of a row."""
        return "." in self.column


@dataclass(frozen=True, slots=True)
class _Joined:
    word: str
    parts: tuple[_Node, ...]


_Node = Comparison | _Joined


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed filter. ``clauses``: the operands of its ``and``, as text and parsed; an ``or`` is one."""

    text: str
    _root: _Node
    clauses: tuple[tuple[str, _Node], ...]

    def rows(self, compare: Callable[[Comparison], Bools]) -> Bools:
        """Whether the filter holds, for every row, from the rows for which each comparison holds."""

        def decided(comparison: Comparison) -> tuple[Bools, Bools]:
            mask = compare(comparison)
            return mask, mask

        return self.bounds(decided)[0]

    def bounds(self, known: Callable[[Comparison], tuple[Bools, Bools]]) -> tuple[Bools, Bools]:
        """For every row, whether the filter may hold, and whether it certainly holds, from the same two arrays of each
        comparison. If both are the same array, the comparison is decided."""
        return _bounds(self._root, known)

    @property
    def comparisons(self) -> list[Comparison]:
        """The comparisons, in order."""
        return list(_comparisons(self._root))

    @property
    def values(self) -> list[Comparison]:
        """The comparisons of values of rows, each once."""
        return list(dict.fromkeys(comparison for comparison in self.comparisons if comparison.is_value))

    @property
    def names(self) -> frozenset[str]:
        """The columns of the filter, those of values by their image: ``after.``."""
        return frozenset(re.sub(r"\..*", ".", c.column, flags=re.DOTALL) for c in self.comparisons)

    @property
    def equals(self) -> list[tuple[str, str]]:
        """The columns of text and the values that they are compared with by ``==``, in order."""
        equal = [c for c in self.comparisons if c.sign == "==" and isinstance(c.value, str)]
        return [(c.column, c.value) for c in equal if not c.is_value]


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


def _comparisons(node: _Node) -> Iterable[Comparison]:
    if isinstance(node, Comparison):
        return [node]
    return (comparison for part in node.parts for comparison in _comparisons(part))


def any_of(column: str, sign: str, values: Iterable[str]) -> Filter:
    """The filter for the rows whose column compares so with one of some texts."""
    return Filter("", _Joined("or", tuple(Comparison(column, sign, value) for value in values)), ())


def parse(line: str, kinds: Mapping[str, str] = KINDS) -> Filter | None:
    """The filter of a line over columns with these names and kinds (text, number, time, any); None for a blank line.
    Columns of tables are ``after.NAME``; if none is known, every one is of the kind any.

    Raises FilterError with the character, what was expected and, for an unknown column, the most similar one.
    """
    if not line.strip():
        return None
    if len(line) > _LONGEST:
        raise FilterError(f"a filter has at most {_LONGEST:,} characters", _LONGEST)
    parser = _Parser(line, kinds)
    return Filter(line, parser.filter(), tuple(parser.clauses))


class _Parser:
    """A recursive descent parser with one method for each rule of the grammar."""

    def __init__(self, line: str, kinds: Mapping[str, str]) -> None:
        self._line = line
        self._words = tokens(line)
        self._kinds = kinds
        self._at = 0
        self._depth = 0
        self.clauses: list[tuple[str, _Node]] = []

    def filter(self) -> _Node:
        node = self._joined("or")
        if self._word.kind != END:
            raise self._expected("and, or, or the end")
        return node

    @property
    def _word(self) -> Token:
        return self._words[self._at]

    def _take(self, text: str) -> bool:
        if self._word.kind != "text" and self._word.text.lower() == text:
            self._at += 1
            return True
        return False

    def _need(self, text: str) -> None:
        if not self._take(text):
            raise self._expected(text)

    def _joined(self, word: str) -> _Node:
        parts: list[_Node] = []
        while not parts or self._take(word):
            begin = self._word.place
            parts.append(self._joined("and") if word == "or" else self._not())
            if word == "and" and not self._depth:
                self.clauses.append((self._line[begin : self._word.place].strip(), parts[-1]))
        joined = parts[0] if len(parts) == 1 else _Joined(word, tuple(parts))
        if word == "or" and len(parts) > 1 and not self._depth:
            self.clauses = [(f"({self._line.strip()})", joined)]
        return joined

    def _not(self) -> _Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise FilterError(f"a filter is at most {_DEEPEST} parentheses and nots deep", self._word.place)
        if self._take("not"):
            node: _Node = _Joined("not", (self._not(),))
        elif self._take("("):
            node = self._joined("or")
            self._need(")")
        else:
            node = self._comparison()
        self._depth -= 1
        return node

    def _comparison(self) -> _Node:
        column, kind = self._column()
        word = self._word
        is_not = self._take("not")
        if is_not or self._word.text.lower() == "in":
            self._need("in")
            return self._list(column, kind, word, "!=" if is_not else "==")
        sign = word.text.lower()
        if word.kind == "text" or sign not in (*_SIGNS, "contains", "matches"):
            raise self._expected("==, !=, <, <=, >, >=, in, contains or matches")
        if sign in ("contains", "matches") and kind not in ("text", "any"):
            raise FilterError(f"{word.location}: {sign} is for columns of text; {column} holds {kind}s", word.place)
        self._at += 1
        value = self._value(column, kind)
        if (value is None or value is MISSING) and sign not in ("==", "!="):
            what = "null" if value is None else "missing"
            raise FilterError(f"{word.location}: {what} is compared with == or !=", word.place)
        if sign in ("contains", "matches") and not isinstance(value, str):
            raise FilterError(f"{word.location}: {sign} needs a text in quotes", word.place)
        return self._compares(column, sign, value, word)

    def _list(self, column: str, kind: str, word: Token, sign: str) -> _Node:
        self._need("(")
        parts = [self._compares(column, sign, self._value(column, kind), word)]
        while self._take(","):
            parts.append(self._compares(column, sign, self._value(column, kind), word))
        if not self._take(")"):
            raise self._expected(", or )")
        return _Joined("or" if sign == "==" else "and", tuple(parts))

    def _compares(self, column: str, sign: str, value: Any, word: Token) -> _Node:
        """A comparison. For headers ``!=`` is the negation of ``==``; for values of rows it also requires that the
        value is present. Raises FilterError for a value that the column cannot have."""
        if sign == "matches":
            try:
                mask_of_texts(pa.array([""]), sign, value)
            except pa.ArrowInvalid:
                raise FilterError(f"{word.location}: expected a regular expression", word.place) from None
        if sign in ("==", "!=") and isinstance(value, str):
            for one in value.split(", "):  # a record may have several problems
                try:
                    check_value("code" if column == "problem" else column, one, word.location)
                except OptionError as wrong:
                    raise FilterError(str(wrong), word.place) from None
        if sign == "!=" and "." not in column:
            return _Joined("not", (Comparison(column, "==", value),))
        return Comparison(column, sign, value)

    def _column(self) -> tuple[str, str]:
        word = self._word
        if word.kind != "name" or word.text.lower() in _WORDS:
            raise self._expected("the name of a column")
        name = column_name(word.text)
        if "." in name:
            name = self._column_of_image(name, word)
        elif name not in self._kinds:
            headers = [header for header in self._kinds if "." not in header]
            near = nearest(word.text.lower(), [*headers, *ALIASES])
            raise FilterError(
                f"{word.location}: there is no column '{visible(word.text)}'.{near} There are: {', '.join(headers)}.",
                word.place,
            )
        self._at += 1
        return name, self._kinds.get(name, "any")

    def _column_of_image(self, name: str, word: Token) -> str:
        """A column of a table: exactly as written, or the only one that differs in case. A quoted name may be unknown
        to all versions."""
        image, _, column = name.partition(".")
        known = [full.partition(".")[2] for full in self._kinds if full.startswith(f"{image}.")]
        if column in known or word.text.endswith('"') or not known:
            return name
        alike = [other for other in known if other.lower() == column.lower()]
        if len(alike) != 1:
            near = nearest(column, known) or (f" There are: {', '.join(alike)}." if alike else "")
            raise FilterError(f"{word.location}: no table has a column '{visible(column)}'.{near}", word.place)
        return f"{image}.{alike[0]}"

    def _value(self, column: str, kind: str) -> Any:
        """The operand for a column. A quoted text is read by the column's kind; if the kind is any, a quoted text is a
        text and a number is a number."""
        word = self._word
        if self._take("null"):
            return None
        if "." in column and self._take("missing"):
            return MISSING
        value: Any = None
        if word.kind == "text" and kind in ("text", "any"):
            value = word.text
        elif word.kind == "text" and kind == "time":
            value = _time(word)
        elif kind in ("number", "any") and (word.kind == "number" or (word.kind == "text" and "." in column)):
            value = _number(word.text, is_whole="." not in column and kind == "number")
        if value is None:
            wanted = {"text": 'a text in quotes, such as "x"', "time": "a time in quotes", "any": "a text or a number"}
            number = "a number" if "." in column else "a whole number"
            null = "null or missing, for" if "." in column else "or null, for the column"
            raise self._expected(f"{wanted.get(kind, number)}, {null} {column}")
        self._at += 1
        return value

    def _expected(self, what: str) -> FilterError:
        word = self._word
        actual = "the end" if word.kind == END else f"'{visible(word.text, 40)}'"
        hint = f"; {_INSTEAD[word.text.lower()]}" if word.kind == "name" and word.text.lower() in _INSTEAD else ""
        return FilterError(f"{word.location}: expected {what}, found {actual}{hint}", word.place)


def _time(word: Token) -> dt.datetime:
    try:
        return parse_time(word.text)
    except ValueError:
        example = 'expected a time such as "2025-03-23T10:57:19Z"'
        raise FilterError(f'{word.location}: {example}, found "{visible(word.text, 40)}"', word.place) from None


def _number(text: str, is_whole: bool) -> Decimal | int | None:
    plain = text.strip().replace("_", "")
    if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)", plain):
        number = int(plain, 16 if "x" in plain.lower() else 10)
        return number if is_whole else Decimal(number)
    return Decimal(plain) if re.fullmatch(NUMBER, plain) and not is_whole else None


# --- kinds of values --------------------------------------------------------------------------------------------------

_NUMBERS: Final = re.compile(
    r"(\d+ )?(unsigned |tandem |big )?"
    r"(u?(tiny|small|medium|big)?int(eger)?\d*|(small|big)?serial8?|long|(small)?float\d*|real\d*|double( precision)?"
    r"|(dec(imal)?|numeric|number|money|packed)(\d*\(.*\))?)( .*)?"
    r"|org\.apache\.kafka\.connect\.data\.Decimal|io\.debezium\.data\.VariableScaleDecimal",
    re.IGNORECASE,
)
_TIMES: Final = re.compile(
    r"(\d+ )?(date(32|64)?(\[.*\])?|(local-)?timestamp(-\w+|\[.*\])?"
    r"|datetime( year to (day|hour|minute|second|fraction).*)?)"
    r"|(org\.apache\.kafka\.connect\.data|io\.debezium\.time)\.(date|(micro|nano|zoned)?timestamp)",
    re.IGNORECASE,
)
_UNSURE: Final = re.compile(r"\d+ (DOUBLE )?(VAR)?CHAR.*")
"""Types that GoldenGate calls text but that may be numbers or times of the source in text form."""


def kind_of_type(name: str | None) -> str:
    """The kind of values of a column, from its type in the source's notation: text, number, time, or any if unknown."""
    if not name or _UNSURE.fullmatch(name):
        return "any"
    return "number" if _NUMBERS.fullmatch(name) else "time" if _TIMES.fullmatch(name) else "text"


def value_kinds(versions: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The kinds of the columns of all tables by their names in filters, ``after.NAME``; any if tables differ.
    ``versions``: rows of :data:`cdcwb.model.TABLE_VERSIONS`."""
    kinds: dict[str, str] = {}
    for version in versions:
        for column in version["columns"] or ():
            kind = kind_of_type(column["type"])
            if kinds.setdefault(column["name"], kind) != kind:
                kinds[column["name"]] = "any"
    return {f"{image}.{name}": kind for image in IMAGES for name, kind in sorted(kinds.items())}


# --- rows of tables ---------------------------------------------------------------------------------------------------

NO_TIME: Final = np.iinfo(np.int64).min
"""Represents null in columns of numbers and times."""

_TIME: Final = r"^\d{4}-\d{2}-\d{2}([T :]\d{2}(:\d{2}(:\d{2}([.]\d+)?)?)?(Z|[+-]\d{2}:?\d{2})?)?$"
_DATE: Final = 10  # characters
_HOUR: Final = 13
_OF_VALUES: Final = frozenset({model.Problem.VALUE, model.Problem.CHARSET, model.Problem.TIME_RANGE})
SHORT: Final = {"table": r"^[^.]*\.", "file": r"^.*[/\\]"}
"""The part of a text that ``==`` may leave out, by column: the schema, the folder."""

_ORDER: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_OF_TEXTS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def matching(understood: Filter, batch: pa.RecordBatch) -> pa.Array:
    """Whether a filter holds, for every row of a batch of a table that has its columns."""
    return pa.array(understood.rows(partial(holds, batch=batch)))


def holds(comparison: Comparison, batch: pa.RecordBatch) -> Bools:
    """Whether a comparison holds, for every row of a batch of a table of :mod:`cdcwb.model` that has the column. A list
    is compared by its elements: one suffices. A value with a problem never matches."""
    if comparison.is_value:
        return _value_holds(comparison, batch)
    column, sign, value = _column(batch, comparison.column), comparison.sign, comparison.value
    return _compared(column, sign, value, SHORT.get(comparison.column, ""))


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    if name in _HEADERS:
        return pc.map_lookup(batch["headers"], name, "first")
    if name == "table" and "table_name" in batch.schema.names:
        label = pc.binary_join_element_wise(batch["schema_name"], batch["table_name"], ".")
        return pc.coalesce(label, batch["table_name"]).cast(pa.string())
    column = batch[next(one for one in batch.schema.names if ALIASES.get(one, one) == name)]
    if name == "problem":
        codes = [p and ", ".join(dict.fromkeys(one["code"] for one in p)) for p in column.to_pylist()]
        return pa.array(codes, pa.string())
    return column


def _value_holds(comparison: Comparison, batch: pa.RecordBatch) -> Bools:
    image, _, name = comparison.column.partition(".")
    has_image = pc.is_valid(batch[image]).to_numpy(zero_copy_only=False)
    rows, values = _entries(batch[image], name)
    matches = np.zeros(len(batch), np.bool_)
    if comparison.value is MISSING:
        matches[rows] = True
        matches = ~matches if comparison.sign == "==" else matches
    elif comparison.sign == "!=":
        differs = ~_compared(values, "==", comparison.value)
        if not (comparison.value is None or isinstance(comparison.value, str)):
            differs &= values.is_null().to_numpy(zero_copy_only=False) | _of_kind(values, comparison.value)
        matches[rows] = differs
    else:
        matches[rows] = _compared(values, comparison.sign, comparison.value)
    matches &= has_image
    if matches.any() and "problems" in batch.schema.names:
        matches[_with_problem(batch["problems"], name, np.flatnonzero(matches))] = False
    return matches


def _entries(images: pa.Array, name: str) -> tuple[Ints, pa.Array]:
    """The rows that have a column in a map, or in a structure of typed columns, and its values as text."""
    if pa.types.is_struct(images.type):
        known = name in [field.name for field in images.type]
        rows = np.flatnonzero(pc.is_valid(images).to_numpy(zero_copy_only=False)) if known else np.zeros(0, np.int64)
        values = pc.struct_field(images, name).take(pa.array(rows)) if known else pa.array([], pa.string())
        return rows, values.cast(pa.string())
    offsets = images.offsets.to_numpy()
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    equal = pc.equal(images.keys.slice(first, count), name).fill_null(False)
    at = np.flatnonzero(equal.to_numpy(zero_copy_only=False))
    rows = np.searchsorted(offsets - first, at, side="right") - 1
    return rows, images.items.slice(first, count).take(pa.array(at))


def _with_problem(problems: pa.Array, name: str, rows: Ints) -> list[int]:
    """The rows whose problems name a column: ``column 3 NAME: …``, ``NAME: …``."""
    with_problems = rows[pc.is_valid(problems).to_numpy(zero_copy_only=False)[rows]]
    named = re.compile(rf"([^:]*[ .])?{re.escape(name)}: ")
    return [
        int(row)
        for row in with_problems
        if any(p["code"] in _OF_VALUES and named.match(p["detail"] or "") for p in problems[int(row)].as_py())
    ]


def _compared(values: pa.Array, sign: str, value: Any, short: str = "") -> Bools:
    """Whether a comparison holds, for each value, by the kind of the operand; null equals only null. ``short``: a
    pattern of what texts may lack."""
    if value is None:
        return np.asarray(values.is_null().to_numpy(zero_copy_only=False))
    if pa.types.is_list(values.type):
        matches = np.zeros(len(values), np.bool_)
        rows = pc.list_parent_indices(values).to_numpy()
        matches[rows[_compared(pc.list_flatten(values), sign, value, short)]] = True
        return matches
    if isinstance(value, dt.datetime):
        moments = times(values)
        return np.asarray(_ORDER[sign](moments, micros(value)) & (moments != NO_TIME))
    if isinstance(value, str):
        return mask_of_texts(values.cast(pa.string()), sign, value, short)
    if pa.types.is_integer(values.type):
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        return np.asarray(_ORDER[sign](pc.fill_null(values, 0).to_numpy(), value) & valid)
    return _with_number(values, sign, Decimal(value))


def mask_of_texts(texts: pa.Array, sign: str, value: Any, short: str = "") -> Bools:
    """Whether a comparison holds, for each text; null matches only None. ``short``: a pattern of what ``==`` may leave
    out."""
    if value is None:
        matches = texts.is_null()
    elif sign == "contains":
        matches = pc.match_substring(texts, value)
    elif sign == "matches":
        matches = pc.match_substring_regex(texts, value)  # linear in the length of the text
    else:
        matches = _OF_TEXTS[sign](texts, pa.scalar(value, texts.type))
    mask: Bools = matches.fill_null(False).to_numpy(zero_copy_only=False)
    if short and sign == "==" and value is not None:
        return mask | mask_of_texts(pc.replace_substring_regex(texts, short, ""), sign, value)
    return mask


def _of_kind(texts: pa.Array, value: Any) -> Bools:
    """Whether each text is of the kind of the operand: a number or a time."""
    return np.asarray(times(texts) != NO_TIME if isinstance(value, dt.datetime) else _numbers(texts)[1])


def _numbers(texts: pa.Array) -> tuple[npt.NDArray[np.float64], Bools]:
    """Texts as floating-point numbers, and whether each is a number."""
    trimmed = pc.utf8_trim_whitespace(texts)
    valid = pc.fill_null(pc.match_substring_regex(trimmed, f"^{NUMBER}$"), False)
    plain = pc.if_else(valid, pc.replace_substring_regex(trimmed, r"^[+]", ""), pa.scalar("0", texts.type))
    try:
        numbers = pc.cast(plain, pa.float64()).to_numpy()
    except pa.ArrowInvalid:  # a number beyond the range of floating-point numbers
        numbers = np.array([float(text) for text in plain.to_pylist()])
    return numbers, valid.to_numpy(zero_copy_only=False)


def _with_number(texts: pa.Array, sign: str, value: Decimal) -> Bools:
    """Compares numbers of any size: as floating-point numbers first, exactly if these are equal."""
    numbers, valid = _numbers(texts)
    bound, compare = float(value), _ORDER[sign]
    matches = np.asarray(compare(numbers, bound))
    for at in np.flatnonzero(valid & (numbers == bound)):
        matches[at] = compare(Decimal(texts[int(at)].as_py().strip()), value)
    return matches & valid


def times(values: pa.Array) -> Ints:
    """Texts or times as microseconds since 1970 UTC, texts without a zone as UTC; NO_TIME for null and other texts."""
    if pa.types.is_timestamp(values.type):
        return np.asarray(pc.fill_null(values.cast(pa.timestamp("us", "UTC")).cast(pa.int64()), NO_TIME))
    trimmed = pc.utf8_trim_whitespace(values.cast(pa.string()))
    valid = pc.fill_null(pc.match_substring_regex(trimmed, _TIME), False)
    plain = pc.if_else(valid, trimmed, pa.scalar(None, pa.string()))
    plain = pc.replace_substring_regex(plain, r"^(.{10})[T:]", r"\1 ")
    zoned = pc.fill_null(pc.match_substring_regex(plain, r"^.{11}.*[+-]"), False).to_numpy(zero_copy_only=False)
    length = pc.utf8_length(plain)
    full = pc.if_else(pc.equal(length, _DATE), pc.binary_join_element_wise(plain, "00:00", " "), plain)
    full = pc.if_else(pc.equal(length, _HOUR), pc.binary_join_element_wise(plain, "00", ":"), full)
    without_zone = pc.fill_null(parsed(full, pa.timestamp("us")).cast(pa.int64()), NO_TIME)
    result: Ints = without_zone.to_numpy(zero_copy_only=False).copy()
    for at in np.flatnonzero(zoned):
        with suppress(ValueError):
            result[at] = micros(dt.datetime.fromisoformat(plain[int(at)].as_py()))
    return result
