"""Columns of a table as a trail has them (``docs/formats/goldengate.md §4 and §5.2``): their bytes, their text, and the
numbers that describe each."""

from __future__ import annotations

from random import Random
from typing import Any, Final, Literal, NamedTuple

from cdcwb_synth.catalogue import TableVersion
from cdcwb_synth.values import PHRASES, Column, Memo, Type, text_of

_CHAR, _VARCHAR, _INT4, _INT8, _DATETIME = 0, 64, 132, 134, 192

TYPES: Final = {
    _CHAR: "0 CHAR", _VARCHAR: "64 VARCHAR", _INT4: "132 INT32", _INT8: "134 INT64", _DATETIME: "192 DATETIME",
}  # fmt: skip
"""Data types in table definitions by their numbers, as cdcwb spells them."""

Order = Literal["little", "big"]

_WIDTHS: Final = {_INT4: 4, _INT8: 8}
_LOB_SIZES: Final = (40, 300, 1999, 2000, 2001, 3500, 4000, 6100)
_PLAIN_PHRASES: Final = tuple(phrase for phrase in PHRASES if phrase.isprintable())
_INTEGERS: Final = (Type.SMALLINT, Type.INTEGER, Type.BIGINT, Type.INT8, Type.BOOLEAN)
_KINDS: Final = {
    **dict.fromkeys((Type.SMALLINT, Type.INTEGER, Type.BOOLEAN), (_INT4, 4)), Type.BIGINT: (_INT8, 8),
    Type.INT8: (_INT8, 8), Type.DATE: (_DATETIME, 10), Type.CHAR: (_CHAR, 0), Type.VARCHAR: (_VARCHAR, 0),
    Type.LVARCHAR: (_VARCHAR, 0),
}  # fmt: skip
"""Data types and the most bytes of a value; 0: those of the column."""

_NATIVE: Final = {_CHAR: 96, _VARCHAR: 1, _INT4: 2, _INT8: 2, _DATETIME: 12}


class Cell(NamedTuple):
    """A value in a record: ``entry`` is its index, length and data, which begins with the null indicator. ``text`` None
    is NULL; ``lob`` is the content of a large object, which is not in the record itself."""

    entry: bytes
    text: str | None
    lob: bytes | None = None


class Described(NamedTuple):
    """A column: its data type by number, and the most bytes of a value; ``lob``: ``clob``, ``blob`` or empty;
    ``place``: its index in the workload's rows."""

    name: str
    datatype: int
    length: int
    is_key: bool
    lob: str
    place: int
    source: Column

    @property
    def is_number(self) -> bool:
        """Is it a number, whatever form the trail has for it?"""
        return self.source.type in (*_INTEGERS, Type.FLOAT, Type.SMALLFLOAT, Type.DECIMAL)

    @property
    def scale(self) -> int:
        """Decimal places of a decimal, else 0."""
        return (self.source.places or 0) if self.source.type is Type.DECIMAL else 0

    def numbers(self, offset: int) -> list[int]:
        """The 23 numbers after its name, from Data Type to Partial Type; ``offset``: its Fetch Offset."""
        source, kind = self.source, self.datatype
        is_fixed = source.type is Type.DECIMAL and source.places is not None
        native = {"clob": 112, "blob": 113}.get(self.lob) or _NATIVE[kind]
        if source.type in (Type.FLOAT, Type.SMALLFLOAT, Type.DECIMAL):
            native = 2
        elif kind == _DATETIME and self.length > 19:
            native = 180
        is_text = kind in (_CHAR, _VARCHAR) and self.lob != "blob"
        binary, external = _WIDTHS.get(kind, self.length), {_INT4: 11, _INT8: 20}.get(kind, self.length)
        least = {10: 2, 19: 5, 26: 6}.get(self.length, 0) if kind == _DATETIME else 0
        return [
            kind, external, offset, self.scale, 0, int(source.nullable), 0, binary, binary,
            0 if kind == _VARCHAR else binary, 0, least, source.digits if is_fixed else 0, 0, 1, 0, int(self.is_key), 0,
            native, 0 if is_text else -1, 0, int(bool(self.lob)), 0,
        ]  # fmt: skip

    @property
    def width(self) -> int:
        """Bytes that it takes in a row as the definition counts them."""
        return {_INT4: 7, _INT8: 11, _DATETIME: self.length + 3}.get(self.datatype, self.length + 5)


def _described(column: Column, place: int, is_key: bool) -> Described:
    lob = ("clob" if column.keyword == "clob" else "blob") if column.type is Type.LOB else ""
    kind, length = _KINDS.get(column.type, (_VARCHAR, 4000 if lob else 50))
    if column.type is Type.DATETIME and column.start == "year" and column.end in ("day", "second", "fraction"):
        kind, length = _DATETIME, {"day": 10, "second": 19}.get(column.end, 26)
    return Described(column.name, kind, length or column.length, is_key, lob, place, column)


def _content(locator: bytes, is_text: bool) -> bytes:
    """What a large object holds, made up from where it is: of some size above 0, text without control characters."""
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


def _text(column: Described, value: Any) -> str:
    """A value (never None) as the trail's text has it, padding not included. A time has a colon before the hours, and
    the fields that its column has."""
    source = column.source
    if source.type in _INTEGERS:
        return str(int(value))
    if source.type is not Type.DATETIME or column.datatype != _DATETIME:
        return text_of(source)(value)
    if source.end == "day":
        return str(value.date().isoformat())
    if source.end == "second":
        return str(value.isoformat(":", "seconds"))
    unit = 10 ** (6 - source.fraction)
    return str(value.replace(microsecond=value.microsecond // unit * unit).isoformat(":", "microseconds"))


def _cells(column: Described, index: int, order: Order, is_defined: bool) -> Memo:
    """The cells of the column with this index by their values. ``is_defined``: a reader knows types, and so that a CHAR
    is padded."""

    def entry(data: bytes, shown: str | None, lob: bytes | None = None) -> Cell:
        return Cell(index.to_bytes(2, order) + len(data).to_bytes(2, order) + data, shown, lob)

    def cell(value: Any) -> Cell:
        if column.lob:
            held = _content(value, column.lob == "clob")
            shown = held.decode() if column.lob == "clob" else held.hex()
            return entry(b"\0\0" + len(held).to_bytes(4, order), shown, held)
        shown = _text(column, value)
        if column.datatype in _WIDTHS:
            return entry(b"\0\0" + int(value).to_bytes(_WIDTHS[column.datatype], "big", signed=True), shown)
        data = shown.encode()
        if column.datatype == _DATETIME:
            return entry(b"\0\0" + data, shown)
        if column.source.type is Type.CHAR:
            data = data.ljust(column.length)
            shown = shown if is_defined else data.decode()
        return entry(b"\0\0" + len(data).to_bytes(2, order) + data, shown)

    return Memo(cell, entry(b"\xff\xff", None))


class Layout:
    """The columns of one table version in a trail. ``names`` are those that a reader can know: without definitions
    ``c0``, ``c1`` …; ``keys`` are the indexes of the columns of the key, ``lobs`` those of large objects, ``plain`` of
    the others."""

    def __init__(self, version: TableVersion, order: Order, *, lobs: bool, is_defined: bool) -> None:
        self.version = version
        self.table = version.table
        described = [_described(c, i, c.name == version.table.key) for i, c in enumerate(version.columns)]
        self.columns = [c for c in described if lobs or not c.lob]
        self._cells = [_cells(c, i, order, is_defined) for i, c in enumerate(self.columns)]
        self.everything = list(range(len(self.columns)))
        self.names = tuple(c.name if is_defined else f"c{i}" for i, c in enumerate(self.columns))
        self.keys = [i for i, c in enumerate(self.columns) if c.is_key]
        self.key_names = frozenset(self.names[i] for i in self.keys) if is_defined else frozenset()
        self.lobs = [i for i, c in enumerate(self.columns) if c.lob]
        self.plain = [i for i, c in enumerate(self.columns) if not c.lob]

    def row(self, values: tuple[Any, ...] | None) -> list[Cell] | None:
        """A row of the workload, column by column."""
        if values is None:
            return None
        return [cells[values[column.place]] for cells, column in zip(self._cells, self.columns, strict=True)]


_SQL: Final = {
    Type.CHAR: "CHAR({0.length})", Type.VARCHAR: "VARCHAR2({0.length})", Type.LVARCHAR: "VARCHAR2({0.length})",
    Type.DATE: "DATE", Type.DATETIME: "TIMESTAMP(6)", Type.FLOAT: "BINARY_DOUBLE", Type.SMALLFLOAT: "BINARY_DOUBLE",
}  # fmt: skip


def sql_type(column: Column) -> str:
    """A column's type as a statement spells it."""
    if column.type is Type.DECIMAL:
        return "NUMBER" if column.places is None else f"NUMBER({column.digits},{column.places})"
    if column.type is Type.LOB:
        return "CLOB" if column.keyword == "clob" else "BLOB"
    return _SQL.get(column.type, "NUMBER(19)").format(column)
