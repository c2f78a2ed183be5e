"""Definitions of tables and databases, and the names in them (docs/formats/goldengate.md §5.2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from cdcwb.formats.goldengate.datatypes import BINARY_SUBTYPE, Coding, coding_of, type_name
from cdcwb.model import Problem
from cdcwb.unique_names import unique_names, unused_name

__all__ = [
    "GUARDIAN",
    "NUMBERS",
    "ColumnDef",
    "Database",
    "Definition",
    "Reference",
    "columns_of",
    "one_case",
    "split_name",
    "unquoted",
]

NUMBERS: Final = (
    "data_type",
    "external_length",
    "fetch_offset",
    "scale",
    "level",
    "null",
    "bump_if_odd",
    "internal_length",
    "binary_length",
    "table_length",
    "most_significant_dt",
    "least_significant_dt",
    "high_precision",
    "low_precision",
    "elementary_item",
    "occurs",
    "key_column",
    "sub_data_type",
    "native_data_type",
    "character_set",
    "character_length",
    "lob_type",
    "partial_type",
)
"""The numbers of a row, in its order. The first 18 are in every release; those that a row lacks are None."""

_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"|[^."]+|(?<=\.)(?=\.)')
GUARDIAN: Final = re.compile(r"(?:\\[A-Za-z]\w*\.)?\$[A-Za-z]\w*\.[A-Za-z#]\w*\.[A-Za-z]\w*", re.ASCII)
"""Name of a Guardian file (NonStop): node, volume, subvolume and file (§4.8)."""

_ORACLE_BINARY_LOBS: Final = frozenset({113, 114})  # BLOB, BFILE


@dataclass(frozen=True, slots=True)
class ColumnDef:
    """One column. ``ordinal`` counts from 1 (a column's index in a record, from 0). The other numbers are those of the
    row, under the names of :data:`NUMBERS`; None where the row has not so many. ``key_position`` counts from 1 through
    the columns whose key number is not 0, None outside the key."""

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
    key_position: int | None = None

    @property
    def nullable(self) -> bool:
        """May the column be NULL?"""
        return self.null != 0

    @property
    def is_lob(self) -> bool:
        """Is the column a large object, whose value comes in records of its own?"""
        return bool(self.lob_type)

    @property
    def is_text_lob(self) -> bool:
        """Is it a large object of characters? Told by the sub type (binary) and Oracle's own type codes."""
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


def columns_of(rows: Iterable[tuple[str, Sequence[int | None]]]) -> tuple[ColumnDef, ...]:
    """The columns of rows of a name and numbers in the order of :data:`NUMBERS`; a number may be missing."""
    columns: list[ColumnDef] = []
    keys = 0
    for ordinal, (name, numbers) in enumerate(rows, 1):
        given = {key: number for key, number in zip(NUMBERS, numbers, strict=False) if number is not None}
        column = ColumnDef(ordinal, name, **given)
        if column.key_column:
            keys += 1
            column = replace(column, key_position=keys)
        columns.append(column)
    return tuple(columns)


@dataclass(frozen=True)
class Definition:
    """A table's columns. ``version``: of the text's form, as printed (None: not printed). ``text``: the definition's
    own lines. ``problems``: what was wrong with it, the good rows notwithstanding."""

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
        """The column with this index, from 0; None behind the last."""
        return self.columns[index] if 0 <= index < len(self.columns) else None

    def to_columns(self) -> list[dict[str, Any]]:
        """The columns as rows of :data:`cdcwb.model.COLUMN`."""
        return [column.to_column() for column in self.columns]

    def same_columns(self, other: Definition) -> bool:
        """Does the other define the same columns of the same table?"""
        return (self.schema, self.table, self.columns) == (other.schema, other.table, other.columns)

    def to_dict(self) -> dict[str, Any]:
        """The definition as what JSON can hold."""
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
    """What a database definition says; None where it does not. ``fields``: every line of it, as printed."""

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
    """A Metadata record that says that a table has the columns of the definition with this index, given earlier: its
    own, or that of another table."""

    schema: str | None
    table: str
    index: int
    text: str = ""

    @property
    def label(self) -> str:
        """``schema.table``, or ``table``."""
        return self.table if self.schema is None else f"{self.schema}.{self.table}"


def split_name(name: str) -> tuple[str | None, str]:
    """Schema and table of a name, split at the last dot outside quotes, without the quotes: ``PDB.OWNER.TABLE`` is
    ``PDB.OWNER`` and ``TABLE``. The schema is None where there is no dot."""
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
