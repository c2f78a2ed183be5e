"""The tables that generated workloads are about (``shop.json``): a small shop with a warehouse, and one table that has
every column type."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Final

from cdcwb_synth.values import SHOP, Column, Type


@dataclass(frozen=True, slots=True)
class Table:
    """A table by its names: ``schema`` (owner), ``name``, and ``label``, the number by which a source
    numbers its tables. ``key`` is the name of its key column."""

    schema: str
    name: str
    label: int
    key: str

    @property
    def full_name(self) -> str:
        """Schema and name."""
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class TableVersion:
    """The columns of a table from one point of the stream on; ``number`` counts from 1. ``origin`` has for each of them
    the index of the column of the version before that it continues (None: new); it is empty in a first version.
    Versions of a table are equal if their numbers are."""

    table: Table
    number: int
    columns: tuple[Column, ...] = field(compare=False)
    origin: tuple[int | None, ...] = field(compare=False, default=())

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    @property
    def key(self) -> int:
        """The index of the key column."""
        return self.names.index(self.table.key)


_USUAL: Final = {
    "serial": Type.INTEGER, "int": Type.INTEGER, "bigserial": Type.BIGINT, "serial8": Type.INT8, "nchar": Type.CHAR,
    "nvarchar": Type.VARCHAR, "numeric": Type.DECIMAL, "money": Type.DECIMAL, "real": Type.SMALLFLOAT,
    "double precision": Type.FLOAT, "clob": Type.LOB,
}  # fmt: skip
"""Types by keywords that are not their usual ones."""

_COLUMN: Final = re.compile(
    r"(?P<name>\w+) (?P<keyword>[a-z]+(?: precision)?\d?)"
    r"(?: (?P<start>[a-z]+)(?:\((?P<lead>\d)\))? to (?P<end>[a-z]+))?"
    r"(?:\((?P<size>\d+)(?:,(?P<more>\d+))?\))?(?P<required> not null)?(?: of (?P<holds>\w+))?"
)


def _columns(texts: list[str], edges: bool) -> tuple[Column, ...]:
    """Columns as CREATE TABLE has them; ``of``: what their values look like. ``edges``: extreme values come first,
    except in the key."""
    made = []
    for part in texts:
        found = _COLUMN.fullmatch(part)
        if found is None:
            raise ValueError(f"{part!r} is not a column")
        keyword, size, lead = found["keyword"], int(found["size"] or 0), int(found["lead"] or 0)
        more = None if found["more"] is None else int(found["more"])
        kind, holds, is_key = _USUAL.get(keyword) or Type(keyword), found["holds"] or "", found["holds"] == "key"
        sizes: dict[str, Any] = {"length": size, "reserve": more}
        if kind is Type.DECIMAL:
            sizes = {"precision": size or None, "scale": more}
        elif kind in (Type.DATETIME, Type.INTERVAL):
            sizes = {"start": found["start"], "end": found["end"], "fraction": size, "lead": lead}
        column = Column(
            found["name"], kind, keyword if keyword in _USUAL else "", holds=holds, edges=edges and not is_key,
            nullable=not (found["required"] or is_key), **sizes,
        )  # fmt: skip
        made.append(column)
    return tuple(made)


_TABLES: Final = {name: _columns(columns, name == "everything") for name, columns in SHOP["tables"].items()}
EVERYTHING: Final = _TABLES.pop("everything")
"""Every column type with many of its sizes and qualifiers, extreme values first."""

_FILLERS: Final = _TABLES.pop("fillers")


def tables(count: int, columns: int, everything: bool) -> list[TableVersion]:
    """The first versions of ``count`` tables, and of one with every column type if ``everything``.

    ``columns`` is the number of columns of each of the ``count`` tables, 0 for as many as the design has (5 to 8).
    More tables than the design has are numbered copies of it. Labels count from 101.
    """
    made = []
    for index in range(count):
        name, design = list(_TABLES.items())[index % len(_TABLES)]
        copy = index // len(_TABLES)
        if columns:
            more = max(0, columns - len(design))
            extra = [_FILLERS[i % len(_FILLERS)] for i in range(more)]
            design = (*design[:columns], *(replace(c, name=f"{c.name}{i + 1}") for i, c in enumerate(extra)))
        table = Table("shop", f"{name}_{copy + 1}" if copy else name, 101 + index, design[0].name)
        made.append(TableVersion(table, 1, design))
    if everything:
        made.append(TableVersion(Table("shop", "everything", 101 + count, "id"), 1, EVERYTHING))
    return made


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
    others = [i for i in range(len(columns)) if i != version.key]
    chosen = others[version.number * 3 % len(others)] if others else None
    if kind == "retype":  # another column with every number
        turns = (others[(version.number + turn) % len(others)] for turn in range(len(others)))
        for at, wider in [(at, wider) for at in turns if (wider := _wider(columns[at]))][:1]:
            columns[at] = wider
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


_WIDER: Final[dict[Type, dict[str, Any]]] = {
    Type.SMALLINT: {"type": Type.INTEGER}, Type.INTEGER: {"type": Type.BIGINT}, Type.SMALLFLOAT: {"type": Type.FLOAT},
    Type.CHAR: {"type": Type.VARCHAR, "reserve": 0},
}  # fmt: skip


def _wider(column: Column) -> Column | None:
    """The column with a type that holds all of its values and more; None if there is none."""
    if column.type in _WIDER:
        return replace(column, keyword="", **_WIDER[column.type])
    if column.type is Type.DECIMAL and column.places is not None and column.digits < 30:
        return replace(column, keyword="", precision=column.digits + 2, scale=column.places)
    return replace(column, length=column.length + 20) if column.is_variable else None
