"""The tables of a set of changes, with counts, keys and columns, from one pass over the changes; inferred keys."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from cdcwb.errors import OptionError
from cdcwb.formats.options import nearest
from cdcwb.model import Operation, Outcome
from cdcwb.spark.names import table_label
from cdcwb.words import plural

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "InferredKey",
    "KeyedBy",
    "Known",
    "committed",
    "find_table",
    "former_key",
    "infer_keys",
    "inferred_from",
    "keyed_by",
    "known_tables",
    "latter_key",
    "moved",
    "without_key",
]

_IMAGES: Final = ("key", "before", "after")
_TEXTS: Final = "array<string>"
_LEAST_ROWS: Final = 20  # fewest inserted rows from which a key is inferred
KeyedBy = tuple[str, ...]
"""The columns of a key, in name order."""


@dataclass(frozen=True, slots=True)
class Known:
    """A table, by ``schema.table``. ``changes`` are all its changes, ``keyed`` those with a key; ``keys`` are the key
    columns that occur, ``columns`` those of all images. ``moves`` are updates that change the key. ``first`` and
    ``last`` are the times between which its changes were committed (None: no time is known)."""

    table: str
    name: str
    changes: int
    keyed: int
    moves: int
    truncates: int
    keys: tuple[KeyedBy, ...]
    columns: tuple[str, ...]
    first: dt.datetime | None
    last: dt.datetime | None


def committed() -> Column:
    """Whether a change is committed; true without an outcome (full loads, event logs)."""
    return F.coalesce(F.col("outcome") == str(Outcome.COMMITTED), F.lit(True))


def former_key() -> Column:
    """The values of a change's key columns before it, in the order of the map ``key``."""
    return _values("before")


def latter_key() -> Column:
    """The values of a change's key columns after it."""
    return _values("after")


def _values(image: str) -> Column:
    return F.transform(
        F.map_keys("key"),
        lambda name: F.when(F.map_contains_key(F.col(image), name), F.try_element_at(F.col(image), name)).otherwise(
            F.try_element_at(F.col("key"), name)
        ),
    )


def moved() -> Column:
    """Whether a change is an update of its row's key."""
    update = F.col("operation") == str(Operation.UPDATE)
    return F.coalesce(update & F.col("before").isNotNull() & (former_key() != latter_key()), F.lit(False))


def known_tables(changes: DataFrame) -> dict[str, Known]:
    """The tables of ``changes`` by ``schema.table`` (or ``table``), in name order; changes of no table are left out."""
    images = [F.coalesce(F.map_keys(name), F.array().cast(_TEXTS)) for name in _IMAGES]
    at = F.when(committed(), F.coalesce("committed_at", "changed_at"))
    rows = (
        changes.filter(F.col("table_name").isNotNull())
        .groupBy(table_label().alias("table"), F.col("table_name").alias("name"))
        .agg(
            F.count("*").alias("changes"),
            F.count("key").alias("keyed"),
            F.count_if(moved() & committed()).alias("moves"),
            F.count_if((F.col("operation") == str(Operation.TRUNCATE)) & committed()).alias("truncates"),
            F.collect_set(F.array_sort(F.map_keys("key"))).alias("keys"),
            F.array_sort(F.array_distinct(F.flatten(F.collect_set(F.array_distinct(F.concat(*images)))))).alias(
                "columns"
            ),
            F.min(at).alias("first"),
            F.max(at).alias("last"),
        )
    )
    known = {row["table"]: _known(row.asDict()) for row in rows.collect()}
    return dict(sorted(known.items()))


def _known(row: dict[str, Any]) -> Known:
    keys = tuple(sorted(tuple(names) for names in row["keys"]))
    times = {name: None if row[name] is None else _aware(row[name]) for name in ("first", "last")}
    return Known(**(row | times | {"keys": keys, "columns": tuple(row["columns"])}))


def _aware(time: dt.datetime) -> dt.datetime:
    """A time of ``collect``, which is naive and local to this process, as an aware one."""
    return time.astimezone(dt.UTC)


def find_table(known: dict[str, Known], table: str) -> Known:
    """The table of that name (``schema.table``, or ``table``). Raises OptionError if there is none, or several."""
    if table in known:
        return known[table]
    matches = [candidate for candidate in known.values() if candidate.name == table]
    if len(matches) > 1:
        which = ", ".join(match.table for match in matches)
        raise OptionError(f"several tables are called {table!r}; name one of: {which}")
    if not matches:
        tables = f"There are: {', '.join(known) or 'none'}."
        raise OptionError(f"no change is of a table {table!r}.{nearest(table, known)} {tables}")
    return matches[0]


def keyed_by(changes: DataFrame, keys: Mapping[str, Sequence[str]]) -> DataFrame:
    """The changes with a null ``key`` filled from the images: ``keys`` are columns by ``schema.table``. If an image
    lacks one of them, the key stays null."""
    image = F.coalesce("after", "before")
    key = F.lit(None).cast("map<string,string>")
    for table, columns in keys.items():
        is_captured = F.lit(True)
        for name in columns:
            is_captured = is_captured & F.map_contains_key(image, F.lit(name))
        pairs = [part for name in columns for part in (F.lit(name), F.try_element_at(image, F.lit(name)))]
        key = F.when((table_label() == table) & is_captured, F.create_map(*pairs)).otherwise(key)
    return changes.withColumn("key", F.coalesce("key", key)) if keys else changes


@dataclass(frozen=True, slots=True)
class InferredKey:
    """The inferred key of a table: the ``column`` that is unique in its ``rows`` inserted rows."""

    table: str
    column: str
    rows: int

    @property
    def evidence(self) -> str:
        """The evidence, in a few words."""
        return f"{self.column} is unique in {plural(self.rows, 'inserted row')}"

    def __str__(self) -> str:
        return (
            f"No change of {self.table} has a key. Its key is inferred: {self.evidence}. "
            f"To name the key, give the reader option keys={self.table}:{self.column}."
        )


def without_key(known: Mapping[str, Known]) -> list[str]:
    """The tables of which no change has a key."""
    return [name for name, table in known.items() if not table.keyed]


def infer_keys(changes: DataFrame, tables: Sequence[str]) -> dict[str, InferredKey]:
    """The inferred keys of ``tables``, by table: the first column that is unique in all inserted rows. A table without
    such a column, or with fewer than 20 inserted rows, is not in the result."""
    if not tables:
        return {}
    inserted = F.col("operation").isin(str(Operation.INSERT), str(Operation.REFRESH))
    rows = changes.filter(table_label().isin(*tables) & inserted & committed() & F.col("after").isNotNull())
    columns = (
        rows.select(table_label().alias("table"), F.posexplode("after").alias("ordinal", "column", "value"))
        .groupBy("table", "column")
        .agg(
            F.count("value").alias("values"),
            F.count("*").alias("rows"),
            F.countDistinct("value").alias("distinct"),
            F.min("ordinal").alias("ordinal"),
        )
        .collect()
    )
    keys = {}
    for table in tables:
        of_table = [row for row in columns if row["table"] == table]
        unique = [
            (row["ordinal"], row["column"]) for row in of_table if row["values"] == row["distinct"] == row["rows"]
        ]
        key = inferred_from(table, {row["column"]: row["rows"] for row in of_table}, unique)
        if key is not None:
            keys[table] = key
    return keys


def inferred_from(table: str, rows: Mapping[str, int], unique: Iterable[tuple[int, str]]) -> InferredKey | None:
    """The inferred key of a table: ``rows`` are the inserted rows that have each column, ``unique`` the columns without
    NULL whose values differ in all of these, with their ordinals."""
    most = max(rows.values(), default=0)
    for _, column in sorted(unique):
        if rows[column] == most >= _LEAST_ROWS:
            return InferredKey(table, column, most)
    return None
