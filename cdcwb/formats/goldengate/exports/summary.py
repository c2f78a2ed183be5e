"""Summary of an export: its tables with their columns, types and keys, its positions and counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.event_batch import text_array
from cdcwb.formats.goldengate.exports.events import Record, position_of, times_of
from cdcwb.formats.goldengate.exports.layout import Names, names_of

__all__ = ["ColumnFacts", "Number", "Summary", "TableFacts"]

_NUMBER: Final = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_POINT: Final = re.compile(r"-?([0-9]+)(?:\.([0-9]+))?\Z")
_LONG: Final = 18
_MOST: Final = 38  # digits of a decimal


class Number(str):
    """A number of a JSON text with its own digits."""

    __slots__ = ()


@dataclass(slots=True)
class ColumnFacts:
    """What all values of a column are: kinds are ``text``, ``number`` and ``boolean``. ``whole`` and ``fraction`` are
    the most digits of numbers before and behind the point, ``exponent``: one of them has an exponent."""

    kinds: set[str] = field(default_factory=set)
    whole: int = 0
    fraction: int = 0
    exponent: bool = False

    def add(self, other: ColumnFacts) -> None:
        """Takes in what other values of the column are."""
        self.kinds |= other.kinds
        self.whole, self.fraction = max(self.whole, other.whole), max(self.fraction, other.fraction)
        self.exponent |= other.exponent

    @property
    def kind(self) -> str:
        """``number``, ``boolean``, or ``text`` for everything else."""
        return next(iter(self.kinds)) if len(self.kinds) == 1 else "text"

    @property
    def arrow_type(self) -> pa.DataType:
        """Numbers as int64, else as decimals, with exponents as float64; truth values; all else as text."""
        if self.kind == "boolean":
            return pa.bool_()
        if self.kind != "number":
            return pa.string()
        if self.exponent:
            return pa.float64()
        if not self.fraction and self.whole <= _LONG:
            return pa.int64()
        digits = self.whole + self.fraction
        return pa.decimal128(digits, self.fraction) if digits <= _MOST else pa.string()

    def texts(self, values: pa.StringArray) -> None:
        """Takes in values that have no type of their own: numbers if all of them are."""
        there = values.drop_null()
        if not len(there):
            return
        if self.kinds == {"text"}:
            return
        if pc.all(pc.match_substring_regex(there, _NUMBER)).as_py():
            self.numbers(there.to_pylist())
        else:
            self.kinds.add("text")

    def numbers(self, texts: Iterable[str]) -> None:
        """Takes in numbers by their digits."""
        self.kinds.add("number")
        for text in set(texts):
            found = _POINT.match(text)
            if found is None:
                self.exponent = True
            else:
                self.whole = max(self.whole, len(found[1]))
                self.fraction = max(self.fraction, len(found[2] or ""))

    def values(self, values: Sequence[Any]) -> None:
        """Takes in the values of a JSON text."""
        for kind in set(map(type, values)):
            if kind is bool:
                self.kinds.add("boolean")
            elif kind is int:
                numbers = [value for value in values if value.__class__ is int]
                self.numbers([str(min(numbers)), str(max(numbers))])
            elif kind is Number:
                self.numbers(value for value in values if value.__class__ is Number)
            elif kind is not type(None):
                self.kinds.add("text")

    def to_list(self) -> list[Any]:
        """As a list that JSON can hold."""
        return [sorted(self.kinds), self.whole, self.fraction, self.exponent]

    @classmethod
    def from_list(cls, raw: Sequence[Any]) -> ColumnFacts:
        """What :meth:`to_list` gave."""
        return cls(set(raw[0]), raw[1], raw[2], raw[3])


@dataclass(slots=True)
class TableFacts:
    """One table: its ``columns`` in the order in which they were first seen, its key columns (None: not told), and how
    many records it has."""

    names: Names
    columns: dict[str, ColumnFacts] = field(default_factory=dict)
    keys: tuple[str, ...] | None = None
    records: int = 0

    def column(self, name: str) -> ColumnFacts:
        """The column of this name."""
        return self.columns.setdefault(name, ColumnFacts())

    def add(self, other: TableFacts) -> None:
        """Takes in what another stretch says of the table."""
        for name, facts in other.columns.items():
            self.column(name).add(facts)
        self.keys = self.keys if self.keys is not None else other.keys
        self.records += other.records

    @property
    def arrow_types(self) -> dict[str, pa.DataType]:
        """The types of its columns."""
        return {name: facts.arrow_type for name, facts in self.columns.items()}


@dataclass(slots=True)
class Summary:
    """What is in a stretch of an export.

    ``tables`` by label. ``first`` and ``last`` are the least and the greatest position, None where there is none.
    ``records`` counts changes, ``timed`` those with a printed time, ``zoned`` those whose time has a zone of its own.
    ``malformed``: place, length and sentence of the first stretch that cannot be understood.
    """

    tables: dict[str, TableFacts] = field(default_factory=dict)
    first: str | None = None
    last: str | None = None
    records: int = 0
    timed: int = 0
    zoned: int = 0
    malformed: tuple[int, int, str] | None = None

    def add(self, other: Summary) -> None:
        """Takes in the summary of a later stretch."""
        for label, table in other.tables.items():
            self.tables.setdefault(label, TableFacts(table.names)).add(table)
        for position in (other.first, other.last):
            self.see(position)
        self.records += other.records
        self.timed += other.timed
        self.zoned += other.zoned
        self.malformed = self.malformed or other.malformed

    def see(self, position: str | None) -> None:
        """Takes in a position."""
        if position is not None:
            self.first = position if self.first is None else min(self.first, position)
            self.last = position if self.last is None else max(self.last, position)

    def take(self, records: Sequence[Record], typed: bool) -> None:
        """Takes in complete records. ``typed``: values are those of JSON, else they are texts."""
        self.records += len(records)
        images: dict[tuple[Names, tuple[str, ...]], list[Any]] = {}
        for record in records:
            self.see(position_of(record, {}))
            names = names_of(record.table)
            if names.label is None or record.operation is None:
                continue
            table = self.tables.setdefault(names.label, TableFacts(names))
            table.records += 1
            table.keys = table.keys or (tuple(record.keys) if record.keys else None)
            for part in ("after", "before"):
                image = record.columns(part)
                if image:
                    images.setdefault((names, tuple(image)), []).extend(image.values())
        for (names, columns), values in images.items():
            table = self.tables[names.label or ""]
            for at, name in enumerate(columns):
                column = values[at :: len(columns)]
                if typed:
                    table.column(name).values(column)
                else:
                    table.column(name).texts(text_array(column))
        times = times_of(text_array([record.text("time") for record in records]), None)
        self.timed += times.printed
        self.zoned += times.zoned
