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
value, and so is ``!=``; ``missing`` is a value that the image lacks. The operand decides what is compared: a number is
compared with values that are numbers, an ISO 8601 time in quotes with values that are times, other quoted text with
the text of the value.

The explorer, ``--where``, ``Capture.filter`` and the selection of views have this language. All comparisons are those
of :func:`compared`, over columns of the index or, by :func:`holds`, rows of the tables of :mod:`cdcwb.model`.
"""

from __future__ import annotations

import datetime as dt
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import partial, reduce
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.errors import OptionError
from cdcwb.formats.arrays import NamesOf, are_named, table_names
from cdcwb.formats.arrays import labels as labels_of
from cdcwb.formats.columns import cast_each
from cdcwb.formats.options import check_value, nearest
from cdcwb.times import parse_time
from cdcwb.words import visible

Bools = npt.NDArray[np.bool_]


class FilterError(OptionError):
    """A filter that cannot be parsed. ``place`` is the index of the wrong character, from 0."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.place = offset

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.place)


# --- tokens -----------------------------------------------------------------------------------------------------------

NUMBER: Final = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
"""The text of a number."""

_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}
"""Escapes of characters that cannot be in one line, by the character after the backslash."""

_TOKEN: Final = re.compile(
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


class _FilterToken(NamedTuple):
    """One token: its kind (number, text, sign, name or end), its text without quotes, and the index of its first
    character."""

    kind: str
    text: str
    place: int

    def wrong(self, reason: str) -> FilterError:
        """The error for this token."""
        at = "at the end" if self.kind == "end" else f"at character {self.place + 1}"
        return FilterError(f"{at}: {reason}", self.place)

    def expected(self, what: str) -> FilterError:
        """The error where something else was expected."""
        hint = _INSTEAD.get(self.text.lower()) if self.kind == "name" else None
        actual = "the end" if self.kind == "end" else f"'{visible(self.text, 40)}'"
        return self.wrong(f"expected {what}, found {actual}{f'; {hint}' if hint else ''}")


def _tokens(line: str) -> list[_FilterToken]:
    """The tokens of a line, followed by an end token. Raises FilterError for an invalid token."""
    result = []
    offset = 0
    while offset < len(line):
        match = _TOKEN.match(line, offset)
        if match is None or match.lastgroup == "sql":
            text = line[offset] if match is None else match.group()
            hint = f"; {_INSTEAD[text]}" if text in _INSTEAD else ""
            reason = f"'{visible(text)}' means nothing here{hint}"
            reason = f"this text has no closing {text}" if text in "\"'" else reason
            is_number = text.isdigit() or text == "-"
            reason = "expected a number; a time or a position is in quotes" if is_number else reason
            raise _FilterToken("sign", text, offset).wrong(reason)
        kind = str(match.lastgroup)
        if kind != "space":
            result.append(_FilterToken(kind, _unquoted(match.group()) if kind == "text" else match.group(), offset))
        offset = match.end()
    return [*result, _FilterToken("end", "", len(line))]


def _unquoted(text: str) -> str:
    """A quoted text without its quotes; a backslash escapes the next character, or is an n, r or t for the control
    character."""
    return re.sub(r"\\(.)", lambda escape: _ESCAPED.get(escape[1], escape[1]), text[1:-1], flags=re.DOTALL)


def quoted(text: str) -> str:
    """A text in the syntax of filters, in one line."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    for letter, character in _ESCAPED.items():
        escaped = escaped.replace(character, f"\\{letter}")
    return f'"{escaped}"'


# --- columns ----------------------------------------------------------------------------------------------------------

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


def _kind(arrow: pa.DataType) -> str | None:
    if pa.types.is_list(arrow):
        return _kind(arrow.value_type)
    if pa.types.is_timestamp(arrow):
        return "time"
    return "number" if pa.types.is_integer(arrow) else "text" if arrow in (pa.string(), pa.bool_()) else None


KINDS: Final = {
    ALIASES.get(field.name, field.name): kind
    for schema in (model.EVENTS, model.CHANGES, model.TRANSACTIONS, model.PROBLEMS)
    for field in schema
    if (kind := _kind(field.type)) is not None
} | {"problem": "text", **dict.fromkeys(_HEADERS, "any")}
"""The columns of the tables of a capture in filters, and their kinds: text, number, time or any."""


def value_kinds(versions: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The columns of all tables by their names in filters, ``after.NAME``; their kind is any. ``versions``: rows of
    :data:`cdcwb.model.TABLE_VERSIONS`."""
    names = sorted({column["name"] for version in versions for column in version["columns"] or ()})
    return {f"{image}.{name}": "any" for image in IMAGES for name in names}


def column_name(text: str) -> str:
    """The column for a name in a filter, ignoring case; also by another name. For a value it is ``after.NAME``, with
    NAME as in the table."""
    image, dot, name = text.partition(".")
    if dot:
        return f"{image.lower()}.{_unquoted(name) if name.startswith(chr(34)) else name}"
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


def columns_of(names: Collection[str]) -> frozenset[str]:
    """The columns of filters that a table with these columns has; ``after.`` for values of an image."""
    columns = {f"{name}." if name in IMAGES else ALIASES.get(name, name) for name in names}
    return frozenset(columns | set(_HEADERS if "headers" in names else ()))


def needed_by(columns: Collection[str], names: Iterable[str]) -> list[str]:
    """Those of a table's columns that are read to compare columns of filters."""
    wanted = {*columns} | ({"headers"} if {*columns} & {*_HEADERS} else set())
    wanted |= {"schema"} if "table" in wanted else set()
    return [name for name in names if ALIASES.get(name, name) in wanted or f"{name}." in wanted]


# --- filters ----------------------------------------------------------------------------------------------------------


class _Missing(Enum):
    """The keyword ``missing``: a value that an image lacks."""

    MISSING = "missing"


MISSING: Final = _Missing.MISSING


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a column. The operand is a text, a number, an aware time, None for null, MISSING, or with the
    sign ``in`` several texts."""

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
    root: _Node
    clauses: tuple[tuple[str, _Node], ...] = ()

    def mask(self, compare: Callable[[Comparison], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Whether the filter holds, for every row, from the same of each comparison. Numbers instead of booleans:
        :data:`TRUE`, 0 for false, and :data:`UNDECIDED`."""
        return _mask(self.root, compare)

    @property
    def comparisons(self) -> list[Comparison]:
        """The comparisons, in order."""
        return _comparisons(self.root)

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


TRUE, UNDECIDED = np.uint8(0b11), np.uint8(0b01)
_NOT: Final = np.array([TRUE, UNDECIDED, 0, 0], np.uint8)


def _mask(node: _Node, compare: Callable[[Comparison], npt.NDArray[Any]]) -> npt.NDArray[Any]:
    if isinstance(node, Comparison):
        return compare(node)
    parts = [_mask(part, compare) for part in node.parts]
    if node.word == "not":
        return ~parts[0] if parts[0].dtype == np.bool_ else _NOT[parts[0]]
    return reduce(operator.and_ if node.word == "and" else operator.or_, parts)


def _comparisons(node: _Node) -> list[Comparison]:
    return [node] if isinstance(node, Comparison) else [one for part in node.parts for one in _comparisons(part)]


_WORDS: Final = ("and", "or", "not", "in", "contains", "matches", "null", "missing")
_DEEPEST: Final = 100
_LONGEST: Final = 10_000
_LARGEST: Final = 2**63 - 1


def parse(line: str, kinds: Mapping[str, str] | None = KINDS) -> Filter | None:
    """The filter of a line over columns with these names and kinds (text, number, time, any), with None over any
    columns; None for a blank line. Columns of tables are ``after.NAME``; if none is known, every one is accepted.

    Raises FilterError with the character, what was expected and, for an unknown column, the most similar one.
    """
    if not line.strip():
        return None
    if len(line) > _LONGEST:
        raise FilterError(f"a filter has at most {_LONGEST:,} characters", _LONGEST)
    try:
        line.encode()
    except UnicodeEncodeError as wrong:  # bytes of a command line in another character set
        raise FilterError(f"at character {wrong.start + 1}: expected text in UTF-8", wrong.start) from None
    return _Parser(line, kinds).filter()


class _Parser:
    """A recursive descent parser with one method for each rule of the grammar."""

    def __init__(self, line: str, kinds: Mapping[str, str] | None) -> None:
        self._line = line
        self._words = _tokens(line)
        self._kinds = kinds
        self._at = 0
        self._depth = 0
        self._clauses: list[tuple[str, _Node]] = []

    def filter(self) -> Filter:
        root = self._joined("or")
        if self._word.kind != "end":
            raise self._word.expected("and, or, or the end")
        is_or = isinstance(root, _Joined) and root.word == "or" and len(self._clauses) > 1
        return Filter(self._line, root, ((f"({self._line.strip()})", root),) if is_or else tuple(self._clauses))

    @property
    def _word(self) -> _FilterToken:
        return self._words[self._at]

    def _take(self, text: str) -> bool:
        is_taken = self._word.kind != "text" and self._word.text.lower() == text
        self._at += is_taken
        return is_taken

    def _need(self, text: str, what: str = "") -> None:
        if not self._take(text):
            raise self._word.expected(what or text)

    def _joined(self, word: str) -> _Node:
        parts: list[_Node] = []
        while not parts or self._take(word):
            begin = self._word.place
            parts.append(self._joined("and") if word == "or" else self._not())
            if word == "and" and not self._depth:
                self._clauses.append((self._line[begin : self._word.place].strip(), parts[-1]))
        return parts[0] if len(parts) == 1 else _Joined(word, tuple(parts))

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
            self._need("(")
            sign = "!=" if is_not else "=="
            parts = [self._compares(column, kind, sign, word)]
            while self._take(","):
                parts.append(self._compares(column, kind, sign, word))
            self._need(")", ", or )")
            return _Joined("and" if is_not else "or", tuple(parts))
        sign = word.text.lower()
        if word.kind == "text" or sign not in ("!=", *_FUNCTIONS):
            raise word.expected("==, !=, <, <=, >, >=, in, contains or matches")
        if sign in _OF_TEXTS and kind not in ("text", "any"):
            raise word.wrong(f"{sign} is for columns of text; {column} holds {kind}s")
        self._at += 1
        return self._compares(column, kind, sign, word)

    def _compares(self, column: str, kind: str, sign: str, word: _FilterToken) -> _Node:
        """A comparison with the value that follows. For headers ``!=`` is the negation of ``==``; for values of rows it
        also requires that the value is present. Raises FilterError for a value that the column cannot have."""
        value = self._value(column, kind)
        if (value is None or value is MISSING) and sign not in ("==", "!="):
            raise word.wrong(f"{'null' if value is None else 'missing'} is compared with == or !=")
        if sign in _OF_TEXTS:
            value = self._words[self._at - 1].text
            if self._words[self._at - 1].kind != "text":
                raise word.wrong(f"{sign} needs a text in quotes")
        elif isinstance(value, str) and sign in ("<", "<=", ">", ">=") and "." in column and _is_number(value):
            raise word.wrong(f"a number is written without quotes, found {quoted(value)}")
        if sign == "matches":
            try:
                compared(pa.array([""]), sign, value)
            except pa.ArrowInvalid:
                raise word.wrong("expected a regular expression") from None
        if sign in ("==", "!=") and isinstance(value, str):
            for one in value.split(", "):  # a record may have several problems
                try:
                    check_value("code" if column == "problem" else column, one, "")
                except OptionError as reason:
                    raise word.wrong(str(reason).removeprefix(": ")) from None
        if sign == "!=" and "." not in column:
            return _Joined("not", (Comparison(column, "==", value),))
        return Comparison(column, sign, value)

    def _column(self) -> tuple[str, str]:
        word, kinds = self._word, self._kinds
        if word.kind != "name" or word.text.lower() in _WORDS:
            raise word.expected("the name of a column")
        name = column_name(word.text)
        if "." in name:
            name = self._column_of_image(name, word)
        elif kinds is not None and name not in kinds:
            headers = [header for header in kinds if "." not in header]
            near = nearest(word.text.lower(), [*headers, *ALIASES])
            raise word.wrong(f"there is no column '{visible(word.text)}'.{near} There are: {', '.join(headers)}.")
        self._at += 1
        return name, (kinds or {}).get(name, "any")

    def _column_of_image(self, name: str, word: _FilterToken) -> str:
        """A column of a table: exactly as written, or the only one that differs in case. A quoted name may be unknown
        to all versions."""
        image, _, column = name.partition(".")
        known = [full.partition(".")[2] for full in self._kinds or () if full.startswith(f"{image}.")]
        if column in known or word.text.endswith('"') or not known:
            return name
        alike = [other for other in known if other.lower() == column.lower()]
        if len(alike) != 1:
            near = nearest(column, known) or (f" There are: {', '.join(alike)}." if alike else "")
            raise word.wrong(f"no table has a column '{visible(column)}'.{near}")
        return f"{image}.{alike[0]}"

    def _value(self, column: str, kind: str) -> Any:
        """The operand for a column, by its kind; any: a time of a row, a number or a text, as it is written."""
        word, of_row = self._word, "." in column
        if self._take("null"):
            return None
        if of_row and self._take("missing"):
            return MISSING
        value: Any = None
        if word.kind == "text" and (kind == "time" or (of_row and re.fullmatch(_TIME, word.text.strip()))):
            try:
                value = parse_time(word.text.strip())
            except ValueError:
                if not of_row:
                    example = 'expected a time such as "2025-03-23T10:57:19Z"'
                    raise word.wrong(f'{example}, found "{visible(word.text, 40)}"') from None
        if word.kind == "text" and kind in ("text", "any") and value is None:
            value = word.text
        elif word.kind == "number" and kind in ("number", "any"):
            value = number_of(word.text, is_whole=kind == "number")
        if value is None:
            wanted = {"text": 'a text in quotes, such as "x"', "time": "a time in quotes", "any": "a text or a number"}
            null = "null or missing, for" if of_row else "or null, for the column"
            raise word.expected(f"{wanted.get(kind, 'a whole number')}, {null} {column}")
        self._at += 1
        return value


def _is_number(text: str) -> bool:
    return re.fullmatch(NUMBER, text.strip()) is not None


def number_of(text: str, is_whole: bool) -> Decimal | int | None:
    """The number of a text of any length, None for other texts; an integer is at most the largest of 64 bits."""
    plain = text.replace("_", "")
    if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)", plain):
        number = int(plain, 16) if "x" in plain.lower() else int(Decimal(plain))  # of any length
        return max(min(number, _LARGEST), -_LARGEST) if is_whole else Decimal(number)
    return None if is_whole else Decimal(plain)


NO_TABLE: Final = "(no table)"
"""The table name of changes without a table, in a selection and on pages."""


# --- comparisons ------------------------------------------------------------------------------------------------------

SHORT: Final[dict[str, NamesOf]] = {
    "table": table_names,
    "file": lambda path: {path, re.split(r"[/\\]", path)[-1]},
}
"""The names that ``==`` takes for a text, by column: without the schema, without the folder."""

_OF_VALUES: Final = frozenset({model.Problem.VALUE, model.Problem.CHARSET, model.Problem.TIME_RANGE})
_OF_TEXTS: Final = ("contains", "matches")
_FUNCTIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "contains": pc.match_substring,
    "matches": pc.match_substring_regex,  # linear in the length of the text
}
_TIME: Final = (
    r"(?P<day>\d{4}-\d{2}-\d{2})"
    r"(?:[T :](?P<hour>\d{2})(?::(?P<minute>\d{2})(?::(?P<second>\d{2}(?:[.]\d{1,6})?)\d*)?)?"
    r"(?:Z|(?P<sign>[+-])(?P<hours>\d{2}):?(?P<minutes>\d{2}))?)?"
)
_MICROS: Final = pa.timestamp("us", "UTC")


def as_flags(mask: pa.Array) -> Bools:
    """A mask for numpy; null is false."""
    flags: Bools = pc.fill_null(mask, False).to_numpy(zero_copy_only=False)
    return flags


def matching(understood: Filter, batch: pa.RecordBatch) -> Bools:
    """Whether a filter holds, for every row of a batch of a table that has its columns."""
    return understood.mask(partial(holds, batch=batch))


def holds(comparison: Comparison, batch: pa.RecordBatch) -> Bools:
    """Whether a comparison holds, for every row of a batch of a table of :mod:`cdcwb.model` that has the column. A list
    is compared by its elements: one suffices. A value with a problem never matches."""
    if comparison.is_value:
        return _value_holds(comparison, batch)
    column = _column(batch, comparison.column)
    return compared(column, comparison.sign, comparison.value, SHORT.get(comparison.column))


def labels(batch: pa.RecordBatch | pa.Table) -> pa.Array:
    """The tables of rows: ``schema.table``, or ``table`` without a schema; null without a table."""
    return labels_of(batch["schema_name"], batch["table_name"])


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    if name in _HEADERS:
        return pc.map_lookup(batch["headers"], name, "first")
    if name == "table" and "table_name" in batch.schema.names:
        return labels(batch).cast(pa.string()).dictionary_encode()
    column = batch[next(one for one in batch.schema.names if ALIASES.get(one, one) == name)]
    if name == "problem":
        codes = [p and ", ".join(dict.fromkeys(one["code"] for one in p)) for p in column.to_pylist()]
        return pa.array(codes, pa.string())
    return column


def _value_holds(comparison: Comparison, batch: pa.RecordBatch) -> Bools:
    (image, _, name), sign, operand = comparison.column.partition("."), comparison.sign, comparison.value
    rows, values = _entries(batch[image], name)
    matches = np.zeros(len(batch), np.bool_)
    if operand is MISSING:
        matches[rows] = True
        matches = ~matches if sign == "==" else matches
    else:
        equal = compared(values, "==" if sign == "!=" else sign, operand)
        matches[rows] = ~equal if sign == "!=" else equal
    matches &= as_flags(batch[image].is_valid())
    if "problems" in batch.schema.names and batch["problems"].null_count < len(batch):
        matches[_with_problem(batch["problems"], name, np.flatnonzero(matches))] = False
    return matches


def _entries(images: pa.Array, name: str) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """The rows that have a column in a map, or in a structure of typed columns, and its values as text."""
    if pa.types.is_struct(images.type):
        known = name in [field.name for field in images.type]
        values = pc.struct_field(images, name) if known else pa.nulls(len(images))
        rows = np.flatnonzero(images.is_valid()) if known else np.zeros(0, np.int64)
        return rows, values.take(pa.array(rows)).cast(pa.string())
    offsets = images.offsets.to_numpy()
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    equal = pc.equal(images.keys.slice(first, count), name)
    at = np.flatnonzero(as_flags(equal))
    rows = np.searchsorted(offsets - first, at, side="right") - 1
    return rows, images.items.slice(first, count).take(pa.array(at))


def _with_problem(problems: pa.Array, name: str, rows: Iterable[int]) -> list[int]:
    """Those of some rows whose problems name a column: ``column 3 NAME: …``, ``NAME: …``."""
    named = re.compile(rf"([^:]*[ .])?{re.escape(name)}: ")
    return [
        int(row)
        for row in rows
        if any(p["code"] in _OF_VALUES and named.match(p["detail"] or "") for p in problems[int(row)].as_py() or ())
    ]


def compared(values: pa.Array, sign: str, value: Any, short: NamesOf | None = None) -> Bools:
    """Whether a comparison with a value holds, for each of some values; null equals only null, a list is compared by
    its elements. Texts are compared as the operand is: as text, numbers or times. ``short``: the names that
    ``==`` takes for a text (:data:`SHORT`)."""
    if value is None:
        return as_flags(values.is_null())
    if pa.types.is_dictionary(values.type):
        of_texts = np.append(compared(values.dictionary, sign, value, short), False)  # the last: null
        return np.asarray(of_texts[pc.fill_null(values.indices, -1).to_numpy()])
    if pa.types.is_list(values.type):
        matches = np.zeros(len(values), np.bool_)
        rows = pc.list_parent_indices(values).to_numpy()
        matches[rows[compared(pc.list_flatten(values), sign, value, short)]] = True
        return matches
    if isinstance(value, Decimal):
        return as_flags(_with_number(values.cast(pa.string()), sign, value))
    if isinstance(value, dt.datetime):
        if not pa.types.is_timestamp(values.type):
            coded = values.cast(pa.string()).dictionary_encode()
            values = _times(coded.dictionary).take(coded.indices)
        return as_flags(_FUNCTIONS[sign](values.cast(_MICROS), pa.scalar(value, _MICROS)))
    if isinstance(value, int):
        fits = abs(value) < 1 << (values.type.bit_width - 1)  # else the values are widened, which takes longer
        return as_flags(_FUNCTIONS[sign](values, pa.scalar(value, values.type) if fits else value))
    texts = values if pa.types.is_large_string(values.type) else values.cast(pa.string())
    if sign not in ("in", "=="):
        return as_flags(_FUNCTIONS[sign](texts, value if sign in _OF_TEXTS else pa.scalar(value, texts.type)))
    known = {value} if isinstance(value, str) else {*value}
    return as_flags(pc.is_in(texts, pa.array(known, texts.type)) if short is None else are_named(texts, known, short))


def _with_number(texts: pa.Array, sign: str, value: Decimal) -> pa.Array:
    """Compares numbers of any size, as floating-point numbers first, exactly if these are equal; null for other
    texts."""
    trimmed = pc.utf8_trim_whitespace(texts)
    is_number = pc.fill_null(pc.match_substring_regex(trimmed, f"^({NUMBER})$"), False)
    plain = pc.if_else(is_number, pc.utf8_ltrim(trimmed, characters="+"), pa.scalar(None, texts.type))
    try:
        numbers = plain.cast(pa.float64())
    except pa.ArrowInvalid:  # a number beyond the range of floating-point numbers
        numbers = pa.array([None if text is None else float(text) for text in plain.to_pylist()], pa.float64())
    mask = _FUNCTIONS[sign](numbers, float(value))
    equal = pc.fill_null(pc.equal(numbers, float(value)), False)
    exact = [Decimal(text).compare(value) for text in plain.filter(equal).to_pylist()]  # -1, 0 or 1
    return pc.replace_with_mask(mask, equal, _FUNCTIONS[sign](pa.array(map(int, exact), pa.int8()), 0))


def _times(texts: pa.Array) -> pa.Array:
    """Texts as times, without a zone as UTC; null for other texts."""
    match = pc.extract_regex(pc.utf8_trim_whitespace(texts), f"^{_TIME}$")
    day, hour, minute, second, sign, *zone = match.flatten()
    parts = (pc.if_else(pc.equal(part, ""), "00", part) for part in (hour, minute, second))
    clock = pc.binary_join_element_wise(*parts, ":")
    local = cast_each(pc.binary_join_element_wise(day, clock, " "), pa.timestamp("us"))
    hours, minutes = (pc.if_else(pc.equal(part, ""), "0", part).cast(pa.int64()) for part in zone)
    ahead = pc.multiply(pc.add(pc.multiply(hours, 60), minutes), 60_000_000)
    ahead = pc.if_else(pc.equal(sign, "-"), pc.negate(ahead), ahead)
    return pc.subtract(local.cast(pa.int64()), ahead).cast(_MICROS)
