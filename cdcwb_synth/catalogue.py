"""The tables that generated workloads are about: a small shop with a warehouse, and one table that has every column
type."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from cdcwb_synth.values import Column, Type

__all__ = ["EVERYTHING", "KINDS", "Table", "TableVersion", "evolve", "reshape", "tables"]


@dataclass(frozen=True, slots=True)
class Table:
    """A table by its names: ``schema`` (owner), ``name``, and ``label``, the number by which a source
    numbers its tables. ``key`` is the name of its key column."""

    schema: str
    name: str
    label: int
    key: str


@dataclass(frozen=True, slots=True)
class TableVersion:
    """The columns of a table from one point of the stream on; ``number`` counts from 1. ``origin`` has for each of them
    the index of the column of the version before that it continues (None: new); it is empty in a first version."""

    table: Table
    number: int
    columns: tuple[Column, ...]
    origin: tuple[int | None, ...] = ()


def _integer(name: str, keyword: str = "", **more: object) -> Column:
    return Column(name, Type.INTEGER, keyword, **more)  # type: ignore[arg-type]


def _decimal(name: str, precision: int | None, scale: int | None, keyword: str = "", **more: object) -> Column:
    return Column(name, Type.DECIMAL, keyword, precision=precision, scale=scale, **more)  # type: ignore[arg-type]


def _moment(name: str, start: str, end: str, fraction: int = 0, **more: object) -> Column:
    return Column(name, Type.DATETIME, start=start, end=end, fraction=fraction, **more)  # type: ignore[arg-type]


def _interval(name: str, start: str, end: str, fraction: int = 0, lead: int = 0, **more: object) -> Column:
    return Column(name, Type.INTERVAL, start=start, end=end, fraction=fraction, lead=lead, **more)  # type: ignore[arg-type]


def _char(name: str, length: int, keyword: str = "", **more: object) -> Column:
    return Column(name, Type.CHAR, keyword, length=length, **more)  # type: ignore[arg-type]


def _varchar(name: str, length: int, reserve: int | None = 0, keyword: str = "", **more: object) -> Column:
    return Column(name, Type.VARCHAR, keyword, length=length, reserve=reserve, **more)  # type: ignore[arg-type]


def _key(name: str, kind: Type = Type.INTEGER, keyword: str = "serial") -> Column:
    return Column(name, kind, keyword, nullable=False, holds="key")


_SHOP: Final[tuple[tuple[str, tuple[Column, ...]], ...]] = (
    ("customer", (
        _key("customer_id"), _varchar("full_name", 60, nullable=False, holds="person"), Column("since", Type.DATE),
        Column("rating", Type.SMALLINT), Column("is_member", Type.BOOLEAN), _decimal("discount", 5, 2),
        _varchar("city", 40, keyword="nvarchar", holds="city"),
    )),
    ("orders", (
        _key("order_id", Type.BIGINT, "bigserial"), _integer("customer_id", nullable=False),
        _decimal("total", 12, 2, "money"),
        _moment("placed_at", "year", "second", nullable=False, holds="now"),
        _char("state", 8, nullable=False, holds="state"),
        Column("note", Type.LVARCHAR, length=400, holds="phrase"),
    )),
    ("order_line", (
        _key("line_id", Type.INT8, "serial8"), Column("order_id", Type.BIGINT, nullable=False),
        _varchar("goods", 80, nullable=False, holds="goods"), _integer("quantity", "int"), _decimal("price", 10, 2),
        _char("place", 6, holds="code"),
    )),
    ("stock_move", (
        _key("move_id"), _varchar("goods", 80, nullable=False, holds="goods"), Column("quantity", Type.INT8),
        Column("weight", Type.SMALLFLOAT), _moment("moved_at", "year", "fraction", 5, holds="now"),
        _interval("took", "hour", "second"), _varchar("place", 12, None, holds="code"),
    )),
    ("reading", (
        _key("reading_id", Type.BIGINT, "bigserial"), _char("station", 10, "nchar", nullable=False, holds="code"),
        Column("celsius", Type.FLOAT), _decimal("level", 8, None), _moment("at", "hour", "fraction", 3, holds="now"),
    )),
    ("shift", (
        _key("shift_id"), _varchar("person", 60, keyword="nvarchar", holds="person"),
        _moment("starts", "hour", "minute"),
        _interval("length", "hour", "minute", lead=3), _interval("notice", "year", "month"), Column("day", Type.DATE),
        _char("place", 6, holds="code"), Column("paid", Type.BOOLEAN),
    )),
    ("document", (
        _key("document_id"), Column("scan", Type.LOB), Column("plain", Type.LOB, "clob"),
        _moment("month", "year", "month"),
        _varchar("title", 120, holds="phrase"),
    )),
)  # fmt: skip

EVERYTHING: Final[tuple[Column, ...]] = (
    _key("id"), *(replace(column, edges=True) for column in (
        Column("c_smallint", Type.SMALLINT), _integer("c_integer"), _integer("c_int", "int"),
        Column("c_bigint", Type.BIGINT), Column("c_bigserial", Type.BIGINT, "bigserial", nullable=False),
        Column("c_int8", Type.INT8), Column("c_serial8", Type.INT8, "serial8", nullable=False),
        Column("c_date", Type.DATE), Column("c_float", Type.FLOAT), Column("c_double", Type.FLOAT, "double precision"),
        Column("c_smallfloat", Type.SMALLFLOAT), Column("c_real", Type.SMALLFLOAT, "real"),
        Column("c_boolean", Type.BOOLEAN),
        _char("c_char", 10), _char("c_char1", 1), _char("c_nchar", 12, "nchar"),
        _varchar("c_varchar", 20), _varchar("c_varchar255", 255, None), _varchar("c_nvarchar", 30, 10, "nvarchar"),
        Column("c_lvarchar", Type.LVARCHAR, length=600),
        _decimal("c_decimal_5_2", 5, 2), _decimal("c_decimal_4_3", 4, 3), _decimal("c_decimal_7_7", 7, 7),
        _decimal("c_decimal_10_0", 10, 0), _decimal("c_decimal_32_16", 32, 16), _decimal("c_decimal_32_15", 32, 15),
        _decimal("c_floating", None, None), _decimal("c_floating_4", 4, None), _decimal("c_floating_32", 32, None),
        _decimal("c_numeric", 10, 6, "numeric"), _decimal("c_money", 10, 2, "money"),
        _decimal("c_money_16", None, None, "money"),
        _moment("c_year", "year", "year"), _moment("c_year_month", "year", "month"),
        _moment("c_year_day", "year", "day"),
        _moment("c_year_hour", "year", "hour"), _moment("c_year_minute", "year", "minute"),
        _moment("c_year_second", "year", "second"), _moment("c_year_fraction1", "year", "fraction", 1),
        _moment("c_year_fraction3", "year", "fraction", 3), _moment("c_year_fraction5", "year", "fraction", 5),
        _moment("c_month_day", "month", "day"), _moment("c_month_fraction2", "month", "fraction", 2),
        _moment("c_day_minute", "day", "minute"), _moment("c_hour_second", "hour", "second"),
        _moment("c_hour_fraction5", "hour", "fraction", 5), _moment("c_hour_fraction4", "hour", "fraction", 4),
        _moment("c_minute_fraction5", "minute", "fraction", 5), _moment("c_second", "second", "second"),
        _moment("c_second_fraction3", "second", "fraction", 3), _moment("c_fraction5", "fraction", "fraction", 5),
        _interval("i_year_month", "year", "month"), _interval("i_year9", "year", "year", lead=9),
        _interval("i_month3", "month", "month", lead=3), _interval("i_day3_second", "day", "second", lead=3),
        _interval("i_day_fraction1", "day", "fraction", 1), _interval("i_hour_second", "hour", "second"),
        _interval("i_hour4_minute", "hour", "minute", lead=4),
        _interval("i_minute5_fraction5", "minute", "fraction", 5, 5),
        _interval("i_second9_fraction3", "second", "fraction", 3, 9), _interval("i_day9", "day", "day", lead=9),
        Column("l_blob", Type.LOB), Column("l_clob", Type.LOB, "clob"),
    )),
)  # fmt: skip
"""Every column type with many of its sizes and qualifiers, extreme values first."""

_FILLERS: Final = (
    _integer("n"), _varchar("t", 40, holds="goods"), _decimal("d", 12, 2), Column("b", Type.BIGINT),
    _char("c", 12, holds="code"),
    Column("f", Type.FLOAT), Column("day", Type.DATE), _moment("at", "year", "fraction", 5), Column("s", Type.SMALLINT),
    _varchar("v", 20, keyword="nvarchar", holds="city"),
)  # fmt: skip


def tables(count: int, columns: int, everything: bool) -> list[TableVersion]:
    """The first versions of ``count`` tables, and of one with every column type if ``everything``.

    ``columns`` is the number of columns of each of the ``count`` tables, 0 for as many as the design has (5 to 8).
    More tables than the design has are numbered copies of it. Labels count from 101.
    """
    made = []
    for index in range(count):
        name, design = _SHOP[index % len(_SHOP)]
        copy = index // len(_SHOP)
        if columns:
            more = max(0, columns - len(design))
            extra = [_FILLERS[i % len(_FILLERS)] for i in range(more)]
            design = (*design[:columns], *(replace(c, name=f"{c.name}{i + 1}") for i, c in enumerate(extra)))
        table = Table("shop", f"{name}_{copy + 1}" if copy else name, 101 + index, design[0].name)
        made.append(TableVersion(table, 1, design))
    if everything:
        made.append(TableVersion(Table("shop", "everything", 101 + count, "id"), 1, EVERYTHING))
    return made


def evolve(version: TableVersion) -> TableVersion:
    """The next version of a table: in turn a column is added, one is made wider and one is dropped; columns keep their
    place in the table."""
    columns, table, number = list(version.columns), version.table, version.number + 1
    origin: list[int | None] = list(range(len(columns)))
    what = version.number % 3
    if what == 0 and len(columns) > 3:
        del columns[-1], origin[-1]
    elif what == 2:
        place = next((i for i, c in enumerate(columns) if c.type in (Type.VARCHAR, Type.CHAR)), None)
        if place is not None:
            columns[place] = replace(columns[place], length=columns[place].length + 20)
    if len(columns) == len(version.columns) and columns == list(version.columns):
        added = _FILLERS[number % len(_FILLERS)]
        columns.append(replace(added, name=f"{added.name}_v{number}"))
        origin.append(None)
    return TableVersion(table, number, tuple(columns), tuple(origin))


_VERSION: Final = re.compile(r"_v\d+$")

KINDS: Final = ("add", "drop", "rename", "retype", "reorder", "swap")
"""Kinds of schema changes: a column is added, dropped, renamed or made wider, the columns change places, or one is
dropped and another added, so that their number stays."""


def reshape(version: TableVersion, kind: str) -> TableVersion:
    """The next version of a table, changed in the way of ``kind``.

    The key column keeps its name, its type and its place. Where a table has no column that can be dropped, renamed or
    made wider, one is added instead; every value of a column can be written in its wider type.
    """
    number = version.number + 1
    columns, origin = list(version.columns), list[int | None](range(len(version.columns)))
    key = next(i for i, c in enumerate(columns) if c.name == version.table.key)
    others = [i for i in range(len(columns)) if i != key]
    chosen = others[version.number * 3 % len(others)] if others else None
    if kind == "retype":
        chosen = _retyped(columns, others, version.number)
    elif kind == "reorder" and len(others) > 1:
        columns[others[0]], columns[others[-1]] = columns[others[-1]], columns[others[0]]
        origin[others[0]], origin[others[-1]] = others[-1], others[0]
    elif kind == "rename" and chosen is not None:
        columns[chosen] = replace(columns[chosen], name=f"{_VERSION.sub('', columns[chosen].name)}_v{number}")
    elif kind in ("drop", "swap") and chosen is not None and len(columns) > 2:
        del columns[chosen], origin[chosen]
    if kind in ("add", "swap") or columns == list(version.columns):
        added = _FILLERS[number % len(_FILLERS)]
        columns.append(replace(added, name=f"{added.name}_v{number}"))
        origin.append(None)
    return TableVersion(version.table, number, tuple(columns), tuple(origin))


def _retyped(columns: list[Column], others: list[int], number: int) -> int | None:
    """Make a column wider, another one with every ``number``; gives its place, None if none can be."""
    for turn in range(len(others)):
        place = others[(number + turn) % len(others)]
        wider = _wider(columns[place])
        if wider is not None:
            columns[place] = wider
            return place
    return None


def _wider(column: Column) -> Column | None:
    """The column with a type that holds all of its values and more; None if there is none."""
    match column.type:
        case Type.SMALLINT:
            return replace(column, type=Type.INTEGER, keyword="")
        case Type.INTEGER:
            return replace(column, type=Type.BIGINT, keyword="")
        case Type.SMALLFLOAT:
            return replace(column, type=Type.FLOAT, keyword="")
        case Type.DECIMAL if column.places is not None and column.digits < 30:
            return replace(column, keyword="", precision=column.digits + 2, scale=column.places)
        case Type.CHAR:
            return replace(column, type=Type.VARCHAR, keyword="", reserve=0)
        case Type.VARCHAR | Type.LVARCHAR:
            return replace(column, length=column.length + 20)
        case _:
            return None
