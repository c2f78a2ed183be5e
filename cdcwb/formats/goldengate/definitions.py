"""Definitions of tables and databases, and their text in Metadata records and DEFGEN files
(docs/formats/goldengate.md §5.2).

Both have the same rows: a column's name and 18 to 23 numbers, depending on the release. Names may contain blanks,
quotes and digits, so rows are parsed from their right end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Final

from cdcwb.errors import OptionError
from cdcwb.formats import options as opt
from cdcwb.formats.goldengate.layout import BINARY_SUBTYPE, Coding, coding_of, is_known, type_name
from cdcwb.formats.source import open_file
from cdcwb.model import Problem
from cdcwb.words import unique_names, unused_name

__all__ = [
    "GUARDIAN",
    "NUMBERS",
    "ColumnDef",
    "Database",
    "Definition",
    "Reference",
    "full_name",
    "one_case",
    "parse_defgen",
    "parse_metadata",
    "read_definitions",
    "split_name",
]


_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"|[^."]+|(?<=\.)(?=\.)')
GUARDIAN: Final = re.compile(r"(?:\\[A-Za-z]\w*\.)?\$[A-Za-z]\w*\.[A-Za-z#]\w*\.[A-Za-z]\w*", re.ASCII)
"""Name of a Guardian file (NonStop): node, volume, subvolume and file (§4.8)."""

_ORACLE_BINARY_LOBS: Final = frozenset({113, 114})  # BLOB, BFILE


@dataclass(frozen=True, slots=True)
class ColumnDef:
    """One column. ``ordinal`` counts from 1 (a column's index in a record, from 0). The other numbers are those of the
    row, with the names of :data:`NUMBERS`; None if the row has fewer. ``key_position`` counts from 1 through the
    columns whose key number is not 0, None outside the key."""

    ordinal: int
    name: str
    data_type: int
    external_length: int = 0
    fetch_offset: int = 0
    scale: int = 0
    level: int = 0
    null: int = 0
    bump_if_odd: int = 0
    internal_length: int = 0
    binary_length: int = 0
    table_length: int = 0
    most_significant_dt: int = 0
    least_significant_dt: int = 0
    high_precision: int = 0
    low_precision: int = 0
    elementary_item: int = 0
    occurs: int = 0
    key_column: int = 0
    sub_data_type: int | None = None
    native_data_type: int | None = None
    character_set: int | None = None
    character_length: int | None = None
    lob_type: int | None = None
    partial_type: int | None = None
    key_position: int | None = None  # derived; the numbers of a row end here

    @property
    def nullable(self) -> bool:
        """Whether the column may be NULL."""
        return self.null != 0

    @property
    def is_lob(self) -> bool:
        """Whether the column is a large object, whose value is in separate records."""
        return bool(self.lob_type)

    @property
    def is_text_lob(self) -> bool:
        """Whether it is a large object of characters, by the sub type (binary) and Oracle's own type codes."""
        return self.is_lob and self.sub_data_type != BINARY_SUBTYPE and self.native_data_type not in _ORACLE_BINARY_LOBS

    @property
    def type(self) -> str:
        """The type code with its name."""
        return type_name(self.data_type, self.sub_data_type or 0)

    @property
    def coding(self) -> Coding:
        """How values are written in a record."""
        return coding_of(self.data_type, self.sub_data_type or 0, self.external_length, self.scale, self.is_lob)

    @property
    def numbers(self) -> list[int | None]:
        """The numbers of the row, in the order of :data:`NUMBERS`."""
        return [getattr(self, name) for name in NUMBERS]

    def to_column(self) -> dict[str, Any]:
        """The column as a row of :data:`cdcwb.model.COLUMN`."""
        return {
            "ordinal": self.ordinal,
            "name": self.name,
            "type": self.type,
            "length": self.external_length,
            "precision": None,
            "scale": self.scale,
            "key_position": self.key_position,
            "nullable": self.nullable,
        }


NUMBERS: Final = tuple(one.name for one in fields(ColumnDef))[2:-1]
"""The numbers of a row, in order. The first 18 are in every release; missing ones are None."""


def columns_of(rows: Iterable[tuple[str, Sequence[int | None]]]) -> tuple[ColumnDef, ...]:
    """The columns of rows of a name and numbers in the order of :data:`NUMBERS`; a number may be missing."""
    columns: list[ColumnDef] = []
    keys = 0
    for ordinal, (name, numbers) in enumerate(rows, 1):
        given = {key: number for key, number in zip(NUMBERS, numbers, strict=False) if number is not None}
        is_key = given.get("key_column", 0) != 0
        keys += is_key
        columns.append(ColumnDef(ordinal, name, key_position=keys if is_key else None, **given))
    return tuple(columns)


@dataclass(frozen=True)
class Definition:
    """A table's columns. ``version``: of the text's form, as printed (None: not printed). ``text``: the definition's
    own lines. ``problems``: its errors; valid rows are decoded anyway."""

    schema: str | None
    table: str
    columns: tuple[ColumnDef, ...]
    record_length: int | None = None
    version: str | None = None
    text: str = ""
    problems: tuple[tuple[Problem, str], ...] = field(default=())

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names by column index, all different: one that repeats gets ``#2``, ``#3``."""
        return unique_names([column.name for column in self.columns])

    def name(self, index: int) -> str:
        """The name of the column with this index, from 0; ``c3`` for one that is not defined, made unique."""
        return self.names[index] if 0 <= index < len(self.names) else unused_name(f"c{index}", self.names)

    @cached_property
    def keys(self) -> tuple[int, ...]:
        """The indexes of the key columns; empty if the table has no key."""
        return tuple(column.ordinal - 1 for column in self.columns if column.key_position is not None)

    def column(self, index: int) -> ColumnDef | None:
        """The column with this index, from 0; None after the last."""
        return self.columns[index] if 0 <= index < len(self.columns) else None

    def to_columns(self) -> list[dict[str, Any]]:
        """The columns as rows of :data:`cdcwb.model.COLUMN`."""
        return [column.to_column() for column in self.columns]

    def same_columns(self, other: Definition) -> bool:
        """Whether the other defines the same columns of the same table."""
        return (self.schema, self.table, self.columns) == (other.schema, other.table, other.columns)

    def to_dict(self) -> dict[str, Any]:
        """The definition as a JSON value."""
        return {
            "schema": self.schema,
            "table": self.table,
            "columns": [[column.name, *column.numbers] for column in self.columns],
            "record_length": self.record_length,
            "version": self.version,
            "text": self.text,
            "problems": [[str(code), sentence] for code, sentence in self.problems],
        }

    @classmethod
    def from_dict(cls, there: dict[str, Any]) -> Definition:
        """The definition that :meth:`to_dict` wrote."""
        rows = ((row[0], row[1:]) for row in there["columns"])
        return cls(
            there["schema"],
            there["table"],
            columns_of(rows),
            there["record_length"],
            there["version"],
            there["text"],
            tuple((Problem(code), sentence) for code, sentence in there["problems"]),
        )


@dataclass(frozen=True)
class Database:
    """The facts of a database definition; None for missing ones. ``fields``: every line of it, as printed."""

    name: str | None
    type: str | None
    charset: str | None
    national_charset: str | None
    locale: str | None
    time_zone: str | None
    version: str | None
    fields: dict[str, str]
    text: str = ""


@dataclass(frozen=True)
class Reference:
    """A Metadata record by which a table has the columns of an earlier definition with this index: its own, or that of
    another table."""

    schema: str | None
    table: str
    index: int
    text: str = ""


def full_name(schema: str | None, table: str) -> str:
    """``schema.table``, or ``table``."""
    return table if schema is None else f"{schema}.{table}"


def split_name(name: str) -> tuple[str | None, str]:
    """Schema and table of a name, split at the last dot outside quotes, without the quotes: ``PDB.OWNER.TABLE`` is
    ``PDB.OWNER`` and ``TABLE``. The schema is None without a dot."""
    parts = [unquoted(part) for part in _QUOTED.findall(one_case(name.strip()))]
    if not parts:
        return None, name.strip()
    return ".".join(parts[:-1]) or None, parts[-1]


def one_case(name: str) -> str:
    """The name; one of a Guardian file (NonStop) in capitals, since such names are not case-sensitive (§4.8)."""
    return name.upper() if name.startswith(("\\", "$")) and GUARDIAN.fullmatch(name) else name


def unquoted(name: str) -> str:
    """A name without the quotes around it."""
    if len(name) >= 2 and name[0] == name[-1] == '"':
        return name[1:-1].replace('""', '"')
    return name.strip()


_NO_TYPE: Final = -1
"""Data type of a row that could not be read."""

_FEWEST: Final = 18
_NUMBER: Final = re.compile(r"-?\d+")
_WORD: Final = re.compile(r"\S+")
_START: Final = re.compile(r"\s*Definition for table\s+(\S.*?)\s*$")
_END: Final = re.compile(r"\s*End of definition\b", re.IGNORECASE)
_PAIR: Final = re.compile(r"\s*([A-Za-z][A-Za-z ]*?)\s*:[ \t]*(.*?)\s*$")
_REFERENCE: Final = re.compile(r"^\s*Table Name:\s*(\S.*?)\s*\(Ref TDR Index:\s*(\d+)\)\s*$", re.MULTILINE)
_TABLE: Final = re.compile(r"^\s*Table Name:\s*(\S.*?)\s*$", re.MULTILINE)
_DATABASE: Final = re.compile(r"^\s*(?:Database Name|DDR Version|Database type)\s*:", re.MULTILINE)
_VERSION: Final = re.compile(r"^\s*(?:TDR version:\s*|\*\+- Defgen version\s+)([0-9.]+)", re.MULTILINE | re.IGNORECASE)
_LEGEND: Final = re.compile(r"^\s*\*\s+(\d+)\s+[A-Z]|(?<!\S)(\d+)\)[A-Z]", re.MULTILINE)


def _tail(line: str) -> tuple[int, int]:
    """The first and last+1 word of a row's last run of numbers that is long enough; (0, 0) if there is none."""
    words = _WORD.findall(line)
    stop = len(words)
    while stop:
        start = stop
        while start and _NUMBER.fullmatch(words[start - 1]):
            start -= 1
        if stop - start >= _FEWEST:
            return start, stop
        stop = start - 1 if start == stop else start
    return 0, 0


def _width(lines: Sequence[str], legend: int) -> int:
    """The number of numbers in a row: from the legend, else from the shortest run."""
    runs = []
    for line in lines:
        start, stop = _tail(line)
        if stop > start:
            runs.append(min(stop - start, stop - 1))
    most = min([*runs, len(NUMBERS)], default=len(NUMBERS))
    return min(legend, most) if legend >= _FEWEST else most


def _row(line: str, width: int) -> tuple[str, list[int]] | None:
    """Name and numbers of a row; None for another line."""
    start, stop = _tail(line)
    if stop - start < width:
        return None
    words = list(_WORD.finditer(line))
    first = max(stop - width, 1)
    if stop - first < min(width, _FEWEST):
        return None
    name = unquoted(line[: words[first].start()].strip())
    return name, [int(word.group()) for word in words[first:stop]]


def _definition(name: str, lines: Sequence[str], ended: bool, version: str | None, legend: int) -> Definition:
    """A definition from the lines after ``Definition for table``, up to its end."""
    schema, table = split_name(name)
    problems: list[tuple[Problem, str]] = []
    heads: dict[str, str] = {}
    rows: list[str] = []
    for line in lines:
        pair = _PAIR.match(line)
        if pair and not rows and _tail(line) == (0, 0):
            heads[pair[1].lower()] = pair[2]
        elif line.strip() and not line.lstrip().startswith("*"):
            rows.append(line)
    width = _width(rows, legend)
    good: list[tuple[str, list[int]]] = []
    read = [_row(line, width) for line in rows]
    names = {row[0] for row in read if row is not None}
    for number, (line, row) in enumerate(zip(rows, read, strict=True), 1):
        if row is None:
            problems.append(
                (Problem.SCHEMA_TEXT, f"row {number} of the definition of {name} is not a column: {line.strip()}")
            )
            unnamed = unused_name(f"c{number - 1}", names)
            good.append((unnamed, [_NO_TYPE]))  # keeps its index, by which values refer to later columns
        else:
            good.append(row)
    columns = columns_of(good)
    for column in columns:
        if column.data_type != _NO_TYPE and not is_known(column.data_type):
            sentence = f"column {column.name} of {name} has the data type {column.data_type}, whose encoding is unknown"
            problems.append((Problem.UNKNOWN_TYPE, sentence))
    stated = _whole_number(heads.get("columns"))
    if not ended:
        problems.append((Problem.TRUNCATED, f"the definition of {name} has no end"))
    if stated is not None and stated != len(columns):
        sentence = f"the definition of {name} has {len(columns)} rows for {stated} columns"
        problems.append((Problem.SCHEMA_MISMATCH, sentence))
    if not columns:
        problems.append((Problem.SCHEMA_TEXT, f"the definition of {name} has no columns"))
    repeated = next((one for one, count in Counter(column.name for column in columns).items() if count > 1), None)
    if repeated is not None:
        problems.append((Problem.SCHEMA_TEXT, f"the definition of {name} has the column {repeated} more than once"))
    text = "\n".join([f"Definition for table {name}", *lines, *(["End of definition"] if ended else [])])
    length = _whole_number(heads.get("record length"))
    return Definition(schema, table, columns, length, version, text, tuple(problems))


def _whole_number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() and len(text) < 10 else None


def _definitions(text: str) -> list[Definition]:
    found = _VERSION.search(text)
    version = found[1] if found else None
    named = (int(one or other) - 1 for one, other in _LEGEND.findall(text))  # the first is the name
    legend = max((number for number in named if number <= len(NUMBERS)), default=0)
    out: list[Definition] = []
    name: str | None = None
    lines: list[str] = []
    for line in text.splitlines():
        start = _START.match(line)
        if start:
            if name is not None:
                out.append(_definition(name, lines, False, version, legend))
            name, lines = start[1], []
        elif name is not None and _END.match(line):
            out.append(_definition(name, lines, True, version, legend))
            name = None
        elif name is not None:
            lines.append(line)
    if name is not None:
        out.append(_definition(name, lines, False, version, legend))
    return out


def parse_defgen(text: str) -> list[Definition]:
    """The definitions of a DEFGEN file, in order; empty if it has none."""
    return _definitions(text)


def read_definitions(paths: Iterable[str], charset: str = "utf-8") -> list[Definition]:
    """The definitions of DEFGEN files. Raises OptionError for a file that cannot be read, or has none."""
    found: list[Definition] = []
    for path in paths:
        try:
            with open_file(path) as file:
                text = file.read().decode(charset, "replace")
        except OSError as reason:
            raise OptionError(f"option definitions: {path!r} cannot be read ({opt.reason_of(reason)})") from None
        some = parse_defgen(text)
        if not some:
            raise OptionError(f"option definitions: {path!r} has no `Definition for table`")
        found += some
    return found


def parse_metadata(text: str) -> Definition | Database | Reference | None:
    """The content of a Metadata record, from its lines: a table's definition, a reference to one, or a database's; None
    for others (another display format of Logdump)."""
    definitions = _definitions(text)
    if definitions:
        return replace(definitions[0], text=text)
    reference = _REFERENCE.search(text)
    if reference:
        schema, table = split_name(reference[1])
        return Reference(schema, table, int(reference[2]), text)
    if _DATABASE.search(text):
        return _database(text)
    table_name = _TABLE.search(text)
    if table_name:
        schema, table = split_name(table_name[1])
        sentence = f"the definition of {table_name[1]} is not shown"
        return Definition(schema, table, (), text=text, problems=((Problem.TRUNCATED, sentence),))
    return None


def _database(text: str) -> Database:
    fields: dict[str, str] = {}
    for line in text.splitlines():
        pair = _PAIR.match(line)
        if pair and not line.lstrip().startswith("*"):
            fields.setdefault(pair[1], pair[2])
    by_name = {name.lower(): value or None for name, value in fields.items()}
    return Database(
        by_name.get("database name"),
        by_name.get("database type"),
        by_name.get("character set id"),
        by_name.get("national character set id"),
        by_name.get("locale"),
        by_name.get("timezone"),
        by_name.get("ddr version"),
        fields,
        text,
    )
