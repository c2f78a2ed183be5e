"""Columns as Replicate describes them, and their values as it writes them (``docs/formats/qlik-kafka.md §3.2 and §8``).

Types that only the source has become what comes nearest: an INTERVAL, a DATETIME without a year and a floating decimal
are STRING, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from cdcwb_synth import text, words
from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.values import Column, Type

__all__ = ["LOBS", "NUMBERS", "Described", "Layout", "described", "plain", "typed"]

LOBS: Final = frozenset({"BLOB", "CLOB"})
"""Types of large objects, which are in no change mask of a message (§7.4)."""

NUMBERS: Final = frozenset({"INT2", "INT4", "INT8", "REAL4", "REAL8", "BOOLEAN"})
"""Types whose values JSON holds without quotes."""

_LENGTHS: Final = {
    "INT2": 5,
    "INT4": 10,
    "INT8": 19,
    "REAL4": 7,
    "REAL8": 14,
    "BOOLEAN": 1,
    "BLOB": 32768,
    "CLOB": 32768,
}
_SPELLED: Final = 40  # bytes of what is written as text because no type fits
_FIELDS: Final = ("hour", "minute", "second", "microsecond")


@dataclass(frozen=True, slots=True)
class Described:
    """A column: Replicate's ``type``, the most bytes of a value (0: does not apply), ``precision`` and ``scale`` of a
    NUMERIC (else 0), place in the key (from 1; 0: not in it). ``place`` is its place in the workload's rows, -1 for one
    that Replicate added; ``source`` the workload's column."""

    name: str
    type: str
    length: int
    precision: int
    scale: int
    key: int
    nullable: bool
    place: int
    source: Column


def described(column: Column, place: int, is_key: bool) -> Described:
    """A column of the workload as Replicate describes it."""
    kind = _kind(column)
    length = _LENGTHS.get(kind, 0)
    if kind == "STRING":
        length = column.length or _SPELLED
    precision, scale = (column.digits, column.places or 0) if kind == "NUMERIC" else (0, 0)
    return Described(column.name, kind, length, precision, scale, int(is_key), column.nullable, place, column)


def _kind(column: Column) -> str:
    match column.type:
        case Type.SMALLINT:
            return "INT2"
        case Type.INTEGER:
            return "INT4"
        case Type.BIGINT | Type.INT8:
            return "INT8"
        case Type.DATE:
            return "DATE"
        case Type.FLOAT:
            return "REAL8"
        case Type.SMALLFLOAT:
            return "REAL4"
        case Type.BOOLEAN:
            return "BOOLEAN"
        case Type.DECIMAL if column.places is not None:
            return "NUMERIC"
        case Type.LOB:
            return "CLOB" if column.keyword == "clob" else "BLOB"
        case Type.DATETIME if column.start == "year" and column.end not in ("year", "month"):
            return "DATE" if column.end == "day" else "DATETIME"
        case Type.DATETIME if column.start == "hour" and column.end in ("minute", "second"):
            return "TIME"
        case _:
            return "STRING"


def typed(column: Described) -> Callable[[Any], Any]:
    """The function that gives a value (never None) in the type that Replicate has for it: int, float, bool, Decimal,
    date, datetime, time, bytes (BLOB) or str."""
    source = column.source
    match column.type:
        case "DATE" if source.type is Type.DATETIME:
            return datetime.date
        case "TIME":
            cut = _cutter(source)
            return lambda value: cut(value).time()
        case "DATETIME":
            return _cutter(source)
        case "CLOB":
            return _prose
        case "STRING" if source.type in (Type.VARCHAR, Type.LVARCHAR):
            return str
        case "STRING":
            return text.formatter(source)
        case _:
            return lambda value: value


def plain(column: Described) -> Callable[[Any], str]:
    """The function that writes a value (never None) as text, the same in JSON and in files."""
    value_of = typed(column)
    match column.type:
        case "DATE" | "TIME":
            return lambda value: str(value_of(value).isoformat())
        case "DATETIME":
            return lambda value: str(value_of(value).isoformat(" ", "microseconds"))
        case "NUMERIC":
            spelled = text.formatter(column.source)
            return lambda value: str(spelled(value))
        case "BLOB":
            return lambda value: str(value.hex().upper())
        case "BOOLEAN":
            return {True: "true", False: "false"}.__getitem__
        case "REAL4" | "REAL8":
            return repr
        case "STRING" | "CLOB":
            return value_of
        case _:
            return str


def _cutter(source: Column) -> Callable[[datetime], datetime]:
    """The function that leaves a value only the fields that its column has."""
    if source.end == "fraction":
        unit = 10 ** (6 - source.fraction)
        return lambda value: value.replace(microsecond=value.microsecond // unit * unit)
    zeros: dict[str, Any] = dict.fromkeys(_FIELDS[_FIELDS.index(source.end) + 1 :], 0)
    return lambda value: value.replace(**zeros)


def _prose(locator: bytes) -> str:
    """The text of a character large object, made up from where it lies."""
    return "; ".join(words.PHRASES[byte % len(words.PHRASES)] for byte in locator[:3])


class Layout:
    """The columns of one table version as Replicate has them, in ordinal order.

    ``added``: a column with this name that holds ``value`` in every row comes last; "": none. Masks are integers: bit n
    is the column with ordinal n + 1. ``everything`` has the bits of all columns, ``own`` those of the source's columns,
    ``inserted`` those of all but large objects, ``key`` that of the key.
    """

    def __init__(self, version: TableVersion, *, lobs: bool = True, added: str = "", value: str = "") -> None:
        self.version = version
        self.table = version.table
        columns = [described(c, i, c.name == version.table.key) for i, c in enumerate(version.columns)]
        self.columns = [c for c in columns if lobs or c.type not in LOBS]
        self.value = value
        if added:
            source = Column(added, Type.VARCHAR, length=128, nullable=False)
            self.columns.append(Described(added, "STRING", 128, 0, 0, 0, False, -1, source))
        self.names = tuple(c.name for c in self.columns)
        self.key_place = next(i for i, c in enumerate(self.columns) if c.key)
        self.everything = (1 << len(self.columns)) - 1
        self.own = self.mask([i for i, c in enumerate(self.columns) if c.place >= 0])
        self.inserted = self.mask([i for i, c in enumerate(self.columns) if c.type not in LOBS])
        self.key = 1 << self.key_place

    @property
    def full_name(self) -> str:
        """``schema.table``."""
        return f"{self.table.schema}.{self.table.name}"

    @staticmethod
    def mask(places: Sequence[int]) -> int:
        """The mask of the columns at ``places``."""
        return sum(1 << place for place in places)

    def marked(self, mask: int) -> list[str]:
        """The names of the columns whose bit is set, in ordinal order."""
        return [name for bit, name in enumerate(self.names) if mask >> bit & 1]
