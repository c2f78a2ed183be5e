"""Definitions of tables and databases, and their text in Metadata records and DEFGEN files
(docs/formats/goldengate.md §5.2).

Both have the same text from ``Definition for table`` to ``End of definition``, with a row for each column: its name and
18 to 23 numbers, depending on the release. Names may contain blanks, quotes and digits, so rows are parsed from their
right end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import dropwhile
from typing import Any, Final

from cdcwb.errors import OptionError
from cdcwb.formats import options as opt
from cdcwb.formats.goldengate.layout import BINARY_SUBTYPE, Coding, coding_of, is_known, type_name
from cdcwb.formats.source import open_file
from cdcwb.model import Problem
from cdcwb.words import unique_names, unused_name

__all__ = [
    "GUARDIAN", "NUMBERS", "ColumnDef", "Database", "Definition", "Reference", "full_name", "one_case", "parse_defgen",
    "parse_metadata", "read_definitions", "split_name",
]  # fmt: skip


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


NUMBERS: Final = tuple(one.name for one in fields(ColumnDef))[2:-1]
"""The numbers of a row, in order. The first 18 are in every release; missing ones are None."""


@dataclass(frozen=True)
class Definition:
    """A table's columns. ``text``: the definition's own lines. ``problems``: its errors; valid rows are decoded
    anyway."""

    schema: str | None
    table: str
    columns: tuple[ColumnDef, ...]
    text: str = ""
    problems: tuple[tuple[Problem, str], ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names by column index, all different: one that repeats gets ``#2``, ``#3``."""
        return unique_names([column.name for column in self.columns])

    def name(self, index: int) -> str:
        """The name of the column with this index, from 0; ``c3`` for one that is not defined, made unique."""
        return self.names[index] if 0 <= index < len(self.names) else unused_name(f"c{index}", self.names)

    def column(self, index: int) -> ColumnDef | None:
        """The column with this index, from 0; None after the last."""
        return self.columns[index] if 0 <= index < len(self.columns) else None

    def to_columns(self) -> list[dict[str, Any]]:
        """The columns as rows of :data:`cdcwb.model.COLUMN`, with different names."""
        return [
            {
                "ordinal": column.ordinal,
                "name": name,
                "type": column.type,
                "length": column.external_length,
                "precision": None,
                "scale": column.scale,
                "key_position": column.key_position,
                "nullable": column.nullable,
            }
            for name, column in zip(self.names, self.columns, strict=True)
        ]

    def same_columns(self, other: Definition) -> bool:
        """Whether the other defines the same columns of the same table."""
        return (self.schema, self.table, self.columns) == (other.schema, other.table, other.columns)


@dataclass(frozen=True)
class Database:
    """The definition of a database. ``facts``: database name and type, character sets, locale and time zone by name,
    without missing ones."""

    facts: dict[str, str]


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
    name = name.strip()
    if len(name) >= 2 and name[0] == name[-1] == '"':
        return name[1:-1].replace('""', '"')
    return name


_NO_TYPE: Final = -1
"""Data type of a row that could not be read."""

_FEWEST: Final = 18  # numbers of a row
_NUMBER: Final = re.compile(r"-?\d{1,18}")
_WORD: Final = re.compile(r"\S+")
_RUN: Final = re.compile(f"n{{{_FEWEST},}}")
_START: Final = re.compile(r"^[^\S\n]*Definition for table[^\S\n]+(\S.*?)[^\S\n]*$", re.MULTILINE)
_END: Final = re.compile(r"^[^\S\n]*End of definition\b", re.MULTILINE | re.IGNORECASE)
_STATED: Final = re.compile(r"^\s*Columns\s*:\s*(\d{1,9})\s*$", re.MULTILINE | re.IGNORECASE)
_PAIR: Final = re.compile(r"\s*([A-Za-z][A-Za-z ]*?)\s*:[ \t]*(.*?)\s*$")
_TABLE: Final = re.compile(r"^\s*Table Name:\s*(\S.*?)\s*(?:\(Ref TDR Index:\s*(\d+)\)\s*)?$", re.MULTILINE)
_DATABASE: Final = re.compile(r"^\s*(?:Database Name|DDR Version|Database type)\s*:", re.MULTILINE)
_LEGEND: Final = re.compile(r"^\s*\*\s+(\d+)\s+[A-Z]|(?<!\S)(\d+)\)[A-Z]", re.MULTILINE)
_FACTS: Final = {
    "database name": "database name",
    "database type": "database type",
    "character set id": "character set",
    "national character set id": "national character set",
    "locale": "locale",
    "timezone": "time zone",
}
"""Facts of a database by the names of their lines, in lower case."""


def _numbers(line: str) -> list[re.Match[str]]:
    """The words of the last run of numbers in a row that is long enough, without its first word, which is a name; empty
    for another line."""
    words = list(_WORD.finditer(line))
    runs = list(_RUN.finditer("".join("n" if _NUMBER.fullmatch(word[0]) else " " for word in words), 1))
    return words[slice(*runs[-1].span())] if runs else []


def _columns(rows: list[str], legend: int) -> tuple[list[ColumnDef], list[int]]:
    """The columns of rows, and the indexes of rows that are not columns; these keep their index, by which values refer
    to columns. ``legend``: how many numbers a row has, 0 if it is not known: then as many as the shortest row."""
    found = [_numbers(row) for row in rows]
    width = min([len(NUMBERS), *filter(None, map(len, found)), *([legend] if legend >= _FEWEST else [])])
    names = [unquoted(row[: run[-width].start()]) if run else "" for row, run in zip(rows, found, strict=True)]
    columns: list[ColumnDef] = []
    keys = 0
    for index, (name, run) in enumerate(zip(names, found, strict=True)):
        numbers = [int(word[0]) for word in run[-width:]] or [_NO_TYPE]
        column = ColumnDef(index + 1, name if run else unused_name(f"c{index}", names), *numbers)
        if column.key_column:
            keys += 1
            column = replace(column, key_position=keys)
        columns.append(column)
    return columns, [index for index, run in enumerate(found) if not run]


def _definition(name: str, body: str, legend: int) -> Definition:
    """A definition from the text that follows its name."""
    end = _END.search(body)
    body = body[: end.start()] if end else body.rstrip("\n")
    lines = [line for line in body.splitlines() if line.strip() and not line.lstrip().startswith("*")]
    rows = list(dropwhile(lambda line: _PAIR.match(line) and not _numbers(line), lines))  # heads precede them
    columns, invalid = _columns(rows, legend)
    problems = [
        (Problem.SCHEMA_TEXT, f"row {at + 1} of the definition of {name} is not a column: {rows[at].strip()}")
        for at in invalid
    ]
    for one in columns:
        if one.data_type != _NO_TYPE and not is_known(one.data_type):
            sentence = f"column {one.name} of {name} has the data type {one.data_type}, whose encoding is unknown"
            problems.append((Problem.UNKNOWN_TYPE, sentence))
    if not end:
        problems.append((Problem.TRUNCATED, f"the definition of {name} has no end"))
    stated = _STATED.search(body)
    if stated and int(stated[1]) != len(columns):
        sentence = f"the definition of {name} has {len(columns)} rows for {stated[1]} columns"
        problems.append((Problem.SCHEMA_MISMATCH, sentence))
    if not columns:
        problems.append((Problem.SCHEMA_TEXT, f"the definition of {name} has no columns"))
    repeated = next((one for one, count in Counter(column.name for column in columns).items() if count > 1), None)
    if repeated is not None:
        problems.append((Problem.SCHEMA_TEXT, f"the definition of {name} has the column {repeated} more than once"))
    text = f"Definition for table {name}{body}{'End of definition' if end else ''}"
    return Definition(*split_name(name), tuple(columns), text, tuple(problems))


def parse_defgen(text: str) -> list[Definition]:
    """The definitions of a DEFGEN file, in order; empty if it has none."""
    text = "\n".join(text.splitlines())
    named = (int(one or other) - 1 for one, other in _LEGEND.findall(text))  # the first is the name
    legend = max((number for number in named if number <= len(NUMBERS)), default=0)
    _, *parts = _START.split(text)
    return [_definition(name, body, legend) for name, body in zip(parts[::2], parts[1::2], strict=True)]


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
    definitions = parse_defgen(text)
    if definitions:
        return replace(definitions[0], text=text)
    named = _TABLE.search(text)
    if named and named[2]:
        return Reference(*split_name(named[1]), int(named[2]), text)
    if _DATABASE.search(text):
        pairs = [(pair[1].lower(), pair[2]) for line in text.splitlines() if (pair := _PAIR.match(line))]
        stated = dict(reversed(pairs))  # the first line counts
        return Database({fact: stated[name] for name, fact in _FACTS.items() if stated.get(name)})
    if named:
        sentence = f"the definition of {named[1]} is not shown"
        return Definition(*split_name(named[1]), (), text, ((Problem.TRUNCATED, sentence),))
    return None
