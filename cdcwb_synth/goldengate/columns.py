"""Columns of a table as a trail holds them (``docs/formats/goldengate.md §4 and §5.2``): their bytes, their text, and
the row of numbers that describes each."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final, Literal, NamedTuple

from cdcwb_synth import text, words
from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.values import Column, Type

__all__ = ["CHAR", "DATETIME", "INT4", "INT8", "VARCHAR", "Cell", "Cells", "Described", "Layout", "sql_type"]

CHAR: Final = 0
VARCHAR: Final = 64
INT4: Final = 132
INT8: Final = 134
DATETIME: Final = 192
"""Numbers of data types in table definitions."""

Order = Literal["little", "big"]

_NULL: Final = b"\xff\xff"
_THERE: Final = b"\x00\x00"
_REMEMBERED: Final = 8192
_LOB_SIZES: Final = (40, 300, 1999, 2000, 2001, 3500, 4000, 6100)
_PLAIN_PHRASES: Final = tuple(phrase for phrase in words.PHRASES if phrase.isprintable())
_INTEGERS: Final = (Type.SMALLINT, Type.INTEGER, Type.BIGINT, Type.INT8, Type.BOOLEAN)
_NATIVE: Final = {CHAR: 96, VARCHAR: 1, INT4: 2, INT8: 2, DATETIME: 12}


class Cell(NamedTuple):
    """A value in a record: ``entry`` is its index, length and ``data``, ``data`` begins with the null indicator.
    ``text`` None is NULL; ``lob`` is the content of a large object, which is not in the record itself."""

    entry: bytes
    data: bytes
    text: str | None
    lob: bytes | None = None


class Cells(dict[Any, Cell]):
    """The cells of a column by their values, made once and remembered for a while."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[Any], Cell]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, value: Any) -> Cell:
        if isinstance(value, float) and value == 0:  # 0.0 and -0.0 are equal, but not the same
            return self._make(value)
        if len(self) > _REMEMBERED:
            self.clear()
        made = self[value] = self._make(value)
        return made


class Described(NamedTuple):
    """A column: its name, the number of its data type, most bytes of a value, digits and scale of a decimal (else 0);
    ``lob``: ``clob``, ``blob`` or empty; ``place``: its place in the workload's rows."""

    name: str
    datatype: int
    length: int
    precision: int
    scale: int
    is_key: bool
    nullable: bool
    lob: str
    place: int
    source: Column

    @property
    def is_number(self) -> bool:
        """Is it a number, whatever form the trail has for it?"""
        return self.source.type in (*_INTEGERS, Type.FLOAT, Type.SMALLFLOAT, Type.DECIMAL)

    @property
    def native(self) -> int:
        """The number that the database has for its type."""
        if self.lob:
            return 112 if self.lob == "clob" else 113
        if self.source.type in (Type.FLOAT, Type.SMALLFLOAT, Type.DECIMAL):
            return 2
        return 180 if self.datatype == DATETIME and self.length > 19 else _NATIVE[self.datatype]

    def numbers(self, offset: int) -> list[int]:
        """The 23 numbers after its name, from Data Type to Partial Type; ``offset``: its Fetch Offset."""
        is_text = self.datatype in (CHAR, VARCHAR) and self.lob != "blob"
        binary = {INT4: 4, INT8: 8}.get(self.datatype, self.length)
        table = 0 if self.datatype == VARCHAR else binary
        external = {INT4: 11, INT8: 20}.get(self.datatype, self.length)
        least = {10: 2, 19: 5, 26: 6}.get(self.length, 0) if self.datatype == DATETIME else 0
        return [
            self.datatype, external, offset, self.scale, 0, int(self.nullable), 0, binary, binary, table, 0, least,
            self.precision, 0, 1, 0, int(self.is_key), 0, self.native, 0 if is_text else -1, 0, bool(self.lob) * 1, 0,
        ]  # fmt: skip

    @property
    def width(self) -> int:
        """Bytes that it takes in a row as the definition counts them."""
        return {INT4: 7, INT8: 11, DATETIME: self.length + 3}.get(self.datatype, self.length + 5)


def _described(column: Column, place: int, is_key: bool) -> Described:
    kind, length = _kind(column)
    precision = scale = 0
    if column.type is Type.DECIMAL and column.places is not None:
        precision, scale = column.digits, column.places
    lob = ("clob" if column.keyword == "clob" else "blob") if column.type is Type.LOB else ""
    return Described(column.name, kind, length, precision, scale, is_key, column.nullable, lob, place, column)


def _kind(column: Column) -> tuple[int, int]:
    """Data type and most bytes of a value."""
    match column.type:
        case Type.SMALLINT | Type.INTEGER | Type.BOOLEAN:
            return INT4, 4
        case Type.BIGINT | Type.INT8:
            return INT8, 8
        case Type.DATE:
            return DATETIME, 10
        case Type.DATETIME if column.start == "year" and column.end in ("day", "second", "fraction"):
            return DATETIME, {"day": 10, "second": 19}.get(column.end, 26)
        case Type.CHAR:
            return CHAR, column.length
        case Type.VARCHAR | Type.LVARCHAR:
            return VARCHAR, column.length
        case Type.LOB:
            return VARCHAR, 4000
        case _:
            return VARCHAR, 50


def spelled(column: Described) -> Callable[[Any], str]:
    """The function that writes a value (never None) as the trail's text has it, padding included."""
    source = column.source
    match source.type:
        case Type.SMALLINT | Type.INTEGER | Type.BIGINT | Type.INT8 | Type.BOOLEAN:
            return lambda value: str(int(value))
        case Type.CHAR:
            return str
        case Type.DATETIME if column.datatype == DATETIME:
            return _moment(source)
        case _:
            plain = text.formatter(source)
            return lambda value: str(plain(value))


def _moment(source: Column) -> Callable[[Any], str]:
    """A time with a colon before the hours, and with the fields that its column has."""
    if source.end == "day":
        return lambda value: str(value.date().isoformat())
    if source.end == "second":
        return lambda value: str(value.isoformat(":", "seconds"))
    unit = 10 ** (6 - source.fraction)
    return lambda value: str(value.replace(microsecond=value.microsecond // unit * unit).isoformat(":", "microseconds"))


def content(locator: bytes, is_text: bool) -> bytes:
    """What a large object holds, made up from where it lies: of some size above 0, text without control characters."""
    size = _LOB_SIZES[(locator[0] + locator[-1]) % len(_LOB_SIZES)]
    if not is_text:
        return Random(locator).randbytes(size)
    parts, length = [], 0
    for turn in range(size):
        phrase = _PLAIN_PHRASES[(locator[turn % len(locator)] + turn) % len(_PLAIN_PHRASES)]
        parts.append(phrase)
        length += len(phrase.encode()) + 2
        if length >= size:
            break
    return "; ".join(parts).encode()


def _cells(column: Described, index: int, order: Order, is_defined: bool) -> Cells:
    """The cells of the column with this index. ``is_defined``: a reader knows types, and so that a CHAR is padded."""
    head = index.to_bytes(2, order)
    spell, is_char = spelled(column), column.source.type is Type.CHAR
    width = {INT4: 4, INT8: 8}.get(column.datatype, 0)

    def entry(data: bytes, shown: str | None, lob: bytes | None = None) -> Cell:
        return Cell(head + len(data).to_bytes(2, order) + data, data, shown, lob)

    def make(value: Any) -> Cell:
        if value is None:
            return entry(_NULL, None)
        if column.lob:
            held = content(value, column.lob == "clob")
            shown = held.decode() if column.lob == "clob" else held.hex()
            return entry(_THERE + len(held).to_bytes(4, order), shown, held)
        shown = spell(value)
        if width:
            return entry(_THERE + int(value).to_bytes(width, "big", signed=True), shown)
        if column.datatype == DATETIME:
            return entry(_THERE + shown.encode(), shown)
        if is_char:
            shown = shown.rstrip(" ")
            padded = shown.encode().ljust(column.length)
            shown = shown if is_defined else padded.decode()
            return entry(_THERE + len(padded).to_bytes(2, order) + padded, shown)
        data = shown.encode()
        return entry(_THERE + len(data).to_bytes(2, order) + data, shown)

    return Cells(make)


class Layout:
    """The columns of one table version in a trail. ``names`` are those that a reader can know: without definitions
    ``c0``, ``c1`` …; ``key_places`` the columns of the key; ``lobs`` those of large objects."""

    def __init__(self, version: TableVersion, order: Order, *, lobs: bool, is_defined: bool) -> None:
        self.version = version
        self.table = version.table
        described = [_described(c, i, c.name == version.table.key) for i, c in enumerate(version.columns)]
        self.columns = [c for c in described if lobs or not c.lob]
        self.places = [c.place for c in self.columns]
        self.cells = [_cells(c, i, order, is_defined) for i, c in enumerate(self.columns)]
        self.real_names = tuple(c.name for c in self.columns)
        self.names = self.real_names if is_defined else tuple(f"c{i}" for i in range(len(self.columns)))
        self.key_places = [i for i, c in enumerate(self.columns) if c.is_key]
        self.key_names = frozenset(self.names[i] for i in self.key_places) if is_defined else frozenset()
        self.lobs = [i for i, c in enumerate(self.columns) if c.lob]
        self.plain = [i for i, c in enumerate(self.columns) if not c.lob]
        self.everything = list(range(len(self.columns)))
        self.full_name = f"{version.table.schema}.{version.table.name}"

    def row(self, values: tuple[Any, ...]) -> list[Cell]:
        """A row of the workload, column by column."""
        cells = self.cells
        return [cells[at][values[place]] for at, place in enumerate(self.places)]


def sql_type(column: Column) -> str:
    """A column's type as a statement spells it."""
    match column.type:
        case Type.CHAR:
            return f"CHAR({column.length})"
        case Type.VARCHAR | Type.LVARCHAR:
            return f"VARCHAR2({column.length})"
        case Type.DECIMAL:
            return "NUMBER" if column.places is None else f"NUMBER({column.digits},{column.places})"
        case Type.LOB:
            return "CLOB" if column.keyword == "clob" else "BLOB"
        case Type.DATE:
            return "DATE"
        case Type.DATETIME:
            return "TIMESTAMP(6)"
        case Type.FLOAT | Type.SMALLFLOAT:
            return "BINARY_DOUBLE"
        case _:
            return "NUMBER(19)"
