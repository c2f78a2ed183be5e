"""The life of one row: all its changes in order, also those under the keys it had before and after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import functions as F

from cdcwb.errors import OptionError
from cdcwb.formats.options import nearest
from cdcwb.model import Operation
from cdcwb.spark.pairing import table_label

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["history"]

_MOST_MOVES: Final = 10_000  # updates of the key of a table that are looked through
_ORDER: Final = ("commit_position", "position", "file_index", "offset")


class _Leg(NamedTuple):
    """A key that the row had, after the change ``begin`` and up to the change ``end`` (places in order; None: all)."""

    key: tuple[str, ...]
    begin: tuple[Any, ...] | None
    end: tuple[Any, ...] | None


def history(changes: DataFrame, transactions: DataFrame, table: str, key: Mapping[str, str]) -> DataFrame:
    """Every change of the row of ``table`` (``schema.table``, or ``table``) whose columns have the values ``key``.

    A row whose key was changed is followed under its other keys, as far as the change that gave it the key and the one
    that took it. Columns: those of ``changes``, ``user`` (of the transaction), and ``differences``: an array of
    ``column``, ``old``, ``new`` and ``old_known`` (false: the old value was not captured), of the columns that an
    update changed, or of all columns that an inserted or deleted row has. In the order of the log; changes without a
    position first.

    Raises OptionError for a table that has no changes, a column that none of its changes has, or an empty key.
    """
    names = tuple(key)
    if not names:
        raise OptionError("key: expected column=value, found none")
    named = (table_label() == table) | (F.col("table_name") == table)
    mine = changes.filter(named)
    _check(changes, mine, table, names)
    legs = _legs(mine, names, tuple(str(key[name]) for name in names))
    place = F.struct(*[F.col(name) for name in _ORDER])
    chosen = F.lit(False)
    for leg in legs:
        chosen = chosen | (_touches(names, leg.key) & _within(place, leg))
    users = transactions.select(F.col("transaction_id").alias("_transaction"), "user")
    found = mine.filter(chosen).withColumn("differences", _differences())
    joined = found.join(users, F.col("transaction_id") == F.col("_transaction"), "left").drop("_transaction")
    return joined.orderBy(*_ORDER)


def _check(changes: DataFrame, mine: DataFrame, table: str, names: tuple[str, ...]) -> None:
    images = [F.map_keys(F.coalesce(name, F.create_map().cast("map<string,string>"))) for name in _IMAGES]
    columns = F.array_distinct(F.flatten(F.array(*images)))
    row = mine.agg(F.array_sort(F.array_distinct(F.flatten(F.collect_set(columns)))).alias("columns")).first()
    known = list(row["columns"] or ()) if row is not None else []
    if not known:
        tables = sorted(one[0] for one in changes.select(table_label()).distinct().collect() if one[0] is not None)
        there = f"There are: {', '.join(tables) or 'none'}."
        raise OptionError(f"there is no change of a table {table!r}.{nearest(table, tables)} {there}")
    for name in names:
        if name not in known:
            there = f"There are: {', '.join(known)}."
            raise OptionError(f"key: no change of {table!r} has a column {name!r}.{nearest(name, known)} {there}")


_IMAGES: Final = ("key", "before", "after")


def _has(image: str, names: tuple[str, ...], values: tuple[str, ...]) -> Column:
    condition = F.lit(True)
    for name, value in zip(names, values, strict=True):
        condition = condition & (F.col(image)[name] == value)
    return F.coalesce(condition, F.lit(False))


def _touches(names: tuple[str, ...], values: tuple[str, ...]) -> Column:
    condition = F.lit(False)
    for image in _IMAGES:
        condition = condition | _has(image, names, values)
    return condition


def _within(place: Column, leg: _Leg) -> Column:
    condition = F.lit(True)
    if leg.begin is not None:
        condition = condition & (place >= _place(leg.begin))
    if leg.end is not None:
        condition = condition & (place <= _place(leg.end))
    return condition


def _place(values: tuple[Any, ...]) -> Column:
    types = ("string", "string", "int", "bigint")
    return F.struct(
        *[F.lit(value).cast(kind).alias(name) for name, value, kind in zip(_ORDER, values, types, strict=True)]
    )


def _legs(mine: DataFrame, names: tuple[str, ...], key: tuple[str, ...]) -> list[_Leg]:
    """The keys that the row had, from the updates that changed a key of this table."""
    before = F.array(*[F.col("before")[name] for name in names])
    after = F.array(*[F.col("after")[name] for name in names])
    moved = (F.col("operation") == str(Operation.UPDATE)) & (before != after)
    moves = (
        mine.filter(moved & ~F.exists(before, F.isnull) & ~F.exists(after, F.isnull))
        .select(*_ORDER, before.alias("_before"), after.alias("_after"))
        .orderBy(*_ORDER)
        .limit(_MOST_MOVES)
        .collect()
    )
    steps = [(tuple(one[name] for name in _ORDER), tuple(one["_before"]), tuple(one["_after"])) for one in moves]
    legs = [_Leg(key, None, None)]
    current = key
    for at, (place, old, new) in enumerate(steps):  # forwards: the key that the row got
        if old == current:
            current = new
            end = next((later for later, gone, _ in steps[at + 1 :] if gone == new), None)
            legs.append(_Leg(new, place, end))
    current = key
    for at in range(len(steps) - 1, -1, -1):  # backwards: the key that it had before
        place, old, new = steps[at]
        if new == current:
            current = old
            begin = next((earlier for earlier, _, given in reversed(steps[:at]) if given == old), None)
            legs.append(_Leg(old, begin, place))
    return legs


def _differences() -> Column:
    before, after = F.col("before"), F.col("after")
    nothing = F.array().cast("array<string>")
    images = F.coalesce(F.map_keys("after"), F.map_keys("before"), nothing)
    of_update = F.coalesce("changed_columns", F.map_keys("after"), nothing)
    columns = F.when(F.col("operation") == str(Operation.UPDATE), of_update).otherwise(images)
    return F.transform(
        columns,
        lambda name: F.struct(
            name.alias("column"),
            F.try_element_at(before, name).alias("old"),
            F.try_element_at(after, name).alias("new"),
            (before.isNotNull() & F.array_contains(F.map_keys(before), name)).alias("old_known"),
        ),
    )
