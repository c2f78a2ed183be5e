"""Table schemas: the column list of a TABSCHEM record, and the size of each column in a row (docs/formats/gbase8s.md
§4, §5). The text is that between the parentheses of a CREATE TABLE, ``c1 integer, c2 varchar(20,0)``, fixed-length
columns first. It is checked against the counts in the record's header; a contradiction becomes a problem of the
:class:`TableSchema`, and its rows stay bytes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from cdcwb.errors import CaptureError
from cdcwb.formats.gbase8s.layout import FRACTION, MOST_PACKED, QUALIFIERS, ColumnKind, SchemaColumn
from cdcwb.formats.options import reason_of
from cdcwb.formats.source import read_text
from cdcwb.model import Problem
from cdcwb.words import plural, unique_names, visible

# --- types ------------------------------------------------------------------------------------------------------------

_DEFAULT_FRACTION: Final = 3
_MOST_FRACTION: Final = 5
_MOST_DIGITS: Final = 32  # precision of a decimal
_FLOATING: Final = 255  # scale of a floating decimal in the catalogue
_LVARCHAR_DEFAULT: Final = 2048
_LARGEST: Final = 2**31 - 1

_SIMPLE: Final[dict[str, tuple[ColumnKind, int, bool]]] = {
    "smallint": (ColumnKind.SMALLINT, 2, False),
    "integer": (ColumnKind.INTEGER, 4, False),
    "int": (ColumnKind.INTEGER, 4, False),
    "serial": (ColumnKind.INTEGER, 4, True),
    "bigint": (ColumnKind.BIGINT, 8, False),
    "bigserial": (ColumnKind.BIGINT, 8, True),
    "int8": (ColumnKind.INT8, 10, False),
    "serial8": (ColumnKind.INT8, 10, True),
    "date": (ColumnKind.DATE, 4, False),
    "boolean": (ColumnKind.BOOLEAN, 2, False),
    "float": (ColumnKind.FLOAT, 8, True),
    "double precision": (ColumnKind.FLOAT, 8, True),
    "smallfloat": (ColumnKind.SMALLFLOAT, 4, False),
    "real": (ColumnKind.SMALLFLOAT, 4, False),
    "blob": (ColumnKind.LOB, 76, False),
    "clob": (ColumnKind.LOB, 76, False),
}
"""Types of fixed size: kind, bytes in a row, and whether an argument is allowed (a first value, a number of digits)
(§4.1)."""

_FIXED_TEXT: Final = ("char", "character", "nchar")
_VARYING: Final = ("varchar", "nvarchar", "character varying")
_DECIMALS: Final = ("decimal", "dec", "numeric", "money")

_WITH_ARGUMENTS: Final = re.compile(r"([a-z][a-z0-9 ]*?)(?:\(([0-9]{1,19})(?:,([0-9]{1,10}))?\))?")
_QUALIFIED: Final = re.compile(r"(datetime|interval) (\w+)(?:\(([0-9])\))? to (\w+)(?:\(([0-9])\))?", re.ASCII)


def _decimal(money: bool, first: int | None, second: int | None) -> dict[str, Any]:
    """DECIMAL and MONEY (§4.3): the point is between two base-100 digits, so an odd scale may need one more."""
    precision = 16 if first is None else first
    scale = 2 if second is None and money else None if second == _FLOATING else second
    if not 1 <= precision <= _MOST_DIGITS or (scale or 0) > precision:
        return {}
    size = min(MOST_PACKED, (precision + (1 if scale is None else scale & 1) + 3) // 2)
    return {"kind": ColumnKind.DECIMAL, "size": size, "precision": precision, "scale": scale}


def _qualified(column: SchemaColumn, spelling: str) -> dict[str, Any]:
    """DATETIME and INTERVAL (§4.4, §4.5)."""
    match = _QUALIFIED.fullmatch(spelling)
    if match is None:
        return {}
    kind, first, lead_text, last, digits = match.groups()
    interval = kind == "interval"
    start, end = QUALIFIERS.get(first), QUALIFIERS.get(last)
    if start is None or end is None or start > end or (digits is not None and end != FRACTION):
        return {}
    if lead_text is not None and (not interval or start == FRACTION):
        return {}  # a fraction has no leading digits
    if interval and start <= QUALIFIERS["month"] < end:
        return {}  # months and days cannot be combined
    lead = int(lead_text or (4 if start == 0 else 2)) if interval and start != FRACTION else 0
    fraction = int(digits or _DEFAULT_FRACTION) if end == FRACTION else 0
    if (interval and start != FRACTION and lead == 0) or (end == FRACTION and not 1 <= fraction <= _MOST_FRACTION):
        return {}
    typed: dict[str, Any] = {"kind": ColumnKind(kind), "start": start, "end": end, "fraction": fraction, "lead": lead}
    return typed | {"size": 1 + replace(column, **typed).whole_pairs + (fraction + 1) // 2}


def with_type(column: SchemaColumn, spelling: str) -> SchemaColumn:
    """The column with the facts of its type; unchanged (UNKNOWN) if the type or its arguments are unknown. ``spelling``
    is the type in lower case, with one space between words, none around parentheses and commas, and one between a
    closing parenthesis and a word: ``decimal(12,2)``, ``interval day(3) to second``.
    """
    match = _WITH_ARGUMENTS.fullmatch(spelling)
    typed: dict[str, Any] = {}
    if spelling.startswith(("datetime ", "interval ")):
        typed = _qualified(column, spelling)
    elif match is not None:
        name = match[1]
        first, second = (None if argument is None else int(argument) for argument in (match[2], match[3]))
        valid = first is None or 1 <= first <= _LARGEST
        if name in _SIMPLE and (first is None or (_SIMPLE[name][2] and second is None)):
            kind, size, _ = _SIMPLE[name]
            typed = {"kind": kind, "size": size}
        elif name in _DECIMALS:
            typed = _decimal(name == "money", first, second)
        elif name in _FIXED_TEXT and second is None and valid:
            typed = {"kind": ColumnKind.CHAR, "size": first or 1}
        elif name in _VARYING and valid:
            return replace(column, kind=ColumnKind.VARCHAR, fixed=False, length=first)
        elif name == "lvarchar" and second is None and valid:
            return replace(column, kind=ColumnKind.LVARCHAR, fixed=False, length=first or _LVARCHAR_DEFAULT)
    return replace(column, **typed, fixed=True, length=typed["size"]) if typed else column


# --- the column list --------------------------------------------------------------------------------------------------


class SchemaTextError(CaptureError):
    """A column list cannot be parsed; ``offset`` is the index of the wrong character, from 0."""


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


_TOKENS: Final = re.compile(
    r"""(?P<quoted>"[^"]*(?:""[^"]*)*")|(?P<string>'[^']*(?:''[^']*)*')|(?P<sign>[(),])|(?P<word>[^\s(),"']+)|(?P<space>\s+)"""
)
_NAMES: Final = ("word", "quoted")
_CONSTRAINTS: Final = frozenset(
    ("not", "null", "default", "primary", "unique", "distinct", "references", "check", "constraint", "collate",
     "comment")
)  # fmt: skip
"""Words that end a column's type; the following ones have no influence on its bytes."""


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        match = _TOKENS.match(text, at)
        if match is None:
            raise SchemaTextError(f"the quotation mark {text[at]} is not closed", offset=at)
        kind = match.lastgroup or ""
        if kind != "space":
            yield _Token(match.group() if kind == "sign" else kind, match.group(), at, match.end())
        at = match.end()


def _items(text: str) -> Iterator[list[_Token]]:
    """The tokens of each column, separated by commas outside parentheses."""
    item: list[_Token] = []
    opened: list[int] = []
    for token in _tokens(text):
        if token.kind == "(":
            opened.append(token.start)
        elif token.kind == ")":
            if not opened:
                raise SchemaTextError("a closing parenthesis without an opening one", offset=token.start)
            opened.pop()
        if token.kind != "," or opened:
            item.append(token)
            continue
        if not item:
            raise SchemaTextError("expected a column before this comma", offset=token.start)
        yield item
        item = []
    if opened:
        raise SchemaTextError("an opening parenthesis without a closing one", offset=opened[-1])
    if not item:
        raise SchemaTextError("expected a column, found the end of the text", offset=len(text))
    yield item


def _type_of(tokens: list[_Token]) -> list[_Token]:
    """The tokens that precede the first constraint."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.kind == "(") - (token.kind == ")")
        if index and not depth and token.kind == "word" and token.text.lower() in _CONSTRAINTS:
            return tokens[:index]
    return tokens


def _spelling(tokens: list[_Token]) -> str:
    """A type in canonical spelling: lower case, one space between words and after a parenthesis, none elsewhere."""
    text = ""
    for token in tokens:
        if text and token.kind in _NAMES and text[-1] not in "(,":
            text += " "
        text += token.text.lower()
    return text


def parse_columns(text: str) -> tuple[SchemaColumn, ...]:
    """The columns of a column list, in order (§5). Any case, extra white space, trailing NULs, nested parentheses,
    ``"delimited"`` names and constraints are accepted. A repeated name gets ``#2``, ``#3``. An unknown type gives a
    column of kind UNKNOWN; it counts as fixed unless a column of variable length precedes it or its name implies
    variable length (:func:`table_schema` uses the header).

    Raises SchemaTextError, with the wrong character, if it is not a column list.
    """
    columns: list[SchemaColumn] = []
    for item in _items(text.rstrip("\0 \t\r\n")):
        name, *rest = item
        if name.kind not in _NAMES or name.text == '""':
            raise SchemaTextError(f"expected a column name, found {name.text!r}", offset=name.start)
        if not rest:
            raise SchemaTextError(f"the column {name.text} has no type", offset=name.end)
        if rest[0].kind not in _NAMES:
            raise SchemaTextError(f"expected a type after {name.text}, found {rest[0].text!r}", offset=rest[0].start)
        words = _type_of(rest)
        spelled = text[words[0].start : words[-1].end]
        fixed = all(column.fixed for column in columns) and "varchar" not in spelled.lower()
        plain = name.text[1:-1].replace('""', '"') if name.kind == "quoted" else name.text
        blank = SchemaColumn(len(columns) + 1, plain, spelled, ColumnKind.UNKNOWN, fixed)
        columns.append(with_type(blank, _spelling(words)))
    names = unique_names(column.name for column in columns)
    return tuple(replace(column, name=name) for column, name in zip(columns, names, strict=True))


# --- schemas ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One version of a captured table (§5). ``label`` is the client's number for the table, ``version`` counts from 1.

    ``fixed_bytes``, ``fixed_columns`` and ``variable_columns`` are the header's, or computed without one. ``problems``:
    parts of the text that were not understood, and contradictions. ``decodable`` is the number of leading columns that
    can be decoded: all for a valid text, none if text and header disagree.
    """

    label: int
    version: int
    text: str
    columns: tuple[SchemaColumn, ...]
    fixed_bytes: int
    fixed_columns: int
    variable_columns: int
    origin: str
    problems: tuple[tuple[Problem, str], ...]
    decodable: int

    @property
    def fixed_bytes_known(self) -> bool:
        """False if neither header nor types give the size of a row's fixed part (side file with an unknown type)."""
        sizes = [column.size for column in self.columns if column.fixed]
        return None not in sizes or self.fixed_bytes != sum(size or 0 for size in sizes)


def schema_text(payload: bytes, charset: str) -> str:
    """The text of a TABSCHEM payload without its trailing NULs (§5), in the character set of :func:`text_codec`.

    Undecodable bytes are read as ISO 8859-1, so that the types can be parsed even if a name cannot.
    """
    return payload.rstrip(b"\0").decode(text_codec(payload, charset) or "iso-8859-1")


def text_codec(payload: bytes, charset: str) -> str | None:
    """The character set of a TABSCHEM payload; None if none fits (§5). UTF-8, as documented by the vendor, else
    ``charset``, since texts in the server's character set exist.
    """
    for codec in ("utf-8", charset):
        try:
            payload.decode(codec)
        except UnicodeError:
            continue
        return codec
    return None


def _fit_sizes(
    columns: tuple[SchemaColumn, ...], fixed_bytes: int
) -> tuple[tuple[SchemaColumn, ...], str | None, bool]:
    """Columns whose sizes agree with the header's ``fixed_bytes``, a sentence if they did not, and whether they agree
    now. Few sources give the size of an INTERVAL (§4.5): if there is one and nothing else is uncertain, the header
    decides.
    """
    fixed = [column for column in columns if column.fixed]
    total = sum(column.size or 0 for column in fixed)
    uncertain = any(column.size is None for column in fixed)
    if total == fixed_bytes or (uncertain and total < fixed_bytes):
        return columns, None, True
    intervals = [column for column in fixed if column.kind is ColumnKind.INTERVAL]
    if len(intervals) == 1 and not uncertain:
        interval = intervals[0]
        size = fixed_bytes - total + (interval.size or 0)
        if 2 <= size <= MOST_PACKED:
            other = replace(interval, size=size, length=size)
            fitted = tuple(other if column is interval else column for column in columns)
            takes = f"{plural(interval.size or 0, 'byte')} by its type, {size} by the header; {size} is used"
            return fitted, f"column {interval.ordinal} {interval.name} {interval.type} takes {takes}", True
    takes = f"at least {total} bytes" if uncertain else plural(total, "byte")
    return columns, f"fixed-length columns take {takes} by the text, {fixed_bytes} by the header", False


Counts = tuple[int | None, int | None, int | None]
"""Bytes of the fixed-length columns, numbers of fixed and of variable columns, by the header of a TABSCHEM record
(§2)."""

NO_COUNTS: Final[Counts] = (None, None, None)
"""The counts of a side file."""


def table_schema(label: int, version: int, text: str, counts: Counts, origin: str) -> TableSchema:
    """A table schema from its text, checked against the header of its TABSCHEM record (§2, §5). What ``counts`` lack is
    computed. Never raises: errors become problems."""
    fixed_bytes, fixed_columns, variable_columns = counts
    problems: list[tuple[Problem, str]] = []
    columns: tuple[SchemaColumn, ...] = ()
    decodable = 0
    try:
        columns = parse_columns(text)
    except SchemaTextError as error:
        problems.append((Problem.SCHEMA_TEXT, f"{error.message} (character {error.offset} of the schema text)"))
    by_type = sum(column.fixed for column in columns)
    n_fixed = by_type if fixed_columns is None else fixed_columns
    n_variable = len(columns) - by_type if variable_columns is None else variable_columns
    total = sum(column.size or 0 for column in columns if column.fixed) if fixed_bytes is None else fixed_bytes
    known = (column for column in columns if column.kind is not ColumnKind.UNKNOWN)
    misplaced = next((column for column in known if column.fixed != (column.ordinal <= n_fixed)), None)
    if columns and n_fixed + n_variable != len(columns):
        counted = plural(len(columns), "column")
        sentence = f"the text has {counted}, the header counts {n_fixed} fixed and {n_variable} variable"
        problems.append((Problem.SCHEMA_MISMATCH, sentence))
    elif misplaced is not None:
        length = "fixed" if misplaced.fixed else "variable"
        named = f"column {misplaced.ordinal} {misplaced.name} {misplaced.type}"
        sentence = f"{named} is of {length} length; expected the {n_fixed} fixed-length ones first, and only them"
        problems.append((Problem.SCHEMA_MISMATCH, sentence))
    elif columns:
        columns = tuple(replace(column, fixed=column.ordinal <= n_fixed) for column in columns)
        columns, disagreement, fits = _fit_sizes(columns, total)
        if disagreement is not None:
            problems.append((Problem.SCHEMA_MISMATCH, disagreement))
        if fits:
            decodable = next((c.ordinal - 1 for c in columns if c.kind is ColumnKind.UNKNOWN), len(columns))
        if fits and decodable < len(columns):
            first, more = columns[decodable], len(columns) - decodable - 1
            rest = f" and the {plural(more, 'column')} after it stay" if more else " stays"
            named = f"column {first.ordinal} {first.name} {first.type}"
            problems.append((Problem.UNKNOWN_TYPE, f"the encoding of {named} is unknown: it{rest} undecoded"))
    return TableSchema(label, version, text, columns, total, n_fixed, n_variable, origin, tuple(problems), decodable)


def as_label(label: object) -> int:
    """A label that is written as text. Raises ValueError for what is not a 32-bit number."""
    text = str(label)
    if not re.fullmatch(r"\s*-?[0-9]{1,10}\s*", text) or not -(2**31) <= int(text) < 2**31:
        raise ValueError(f"the label {text.strip()!r} is not a 32-bit number")
    return int(text)


def read_side_file(path: str | os.PathLike[str]) -> dict[int, str]:
    """Schema texts by label, from a file next to the capture (§5): a JSON object ``{"111": "c1 integer, …"}``, or lines
    ``111: c1 integer, …`` without empty ones and those that begin with ``#``. UTF-8. Raises CaptureError if the file
    cannot be read, or a label is not a 32-bit number or repeats.
    """
    file = os.fspath(path)
    try:
        content = read_text(file)
        pairs: list[tuple[str, Any]] = []
        if content.lstrip().startswith("{"):
            pairs = json.loads(content, object_pairs_hook=list)
        else:
            for number, line in enumerate(content.splitlines(), start=1):
                label, colon, text = line.partition(":")
                if line.strip() and not line.lstrip().startswith("#"):
                    if not colon:
                        found = visible(line.strip(), 60)
                        raise CaptureError(f"line {number}: expected `label: column list`, found {found!r}", path=file)
                    pairs.append((label, text.strip()))
    except (OSError, UnicodeDecodeError) as error:
        raise CaptureError(f"the schema file cannot be read ({reason_of(error)})", path=file) from error
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"the schema file is not JSON: {error}", path=file) from error
    schemas: dict[int, str] = {}
    for label, text in pairs:
        if not isinstance(text, str):
            raise CaptureError(f"the schema of label {label} must be a text", path=file)
        try:
            number = as_label(label)
        except ValueError as reason:
            raise CaptureError(str(reason), path=file) from None
        if number in schemas:
            raise CaptureError(f"the label {number} has two schemas", path=file)
        schemas[number] = text
    return schemas
