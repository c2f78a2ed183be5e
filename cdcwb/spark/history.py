"""Row history: all changes of one row in order, also under the keys it had before and after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import functions as F

from cdcwb.errors import OptionError
from cdcwb.formats.options import nearest
from cdcwb.model import Operation, Outcome
from cdcwb.spark.known import Known, find_table, known_tables
from cdcwb.spark.names import table_label

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["ORDER", "check_key", "history", "life", "of_row"]

_MOST_MOVES: Final = 10_000  # most updates of keys of a table that are examined
ORDER: Final = ("position", "file_index", "offset")
"""The columns that order the changes of a row as in the log."""
_IMAGES: Final = ("key", "before", "after")
_TAKEN_BACK: Final = (str(Outcome.ROLLED_BACK), str(Outcome.UNDONE), str(Outcome.UNDO))
_UPDATE, _TRUNCATE = str(Operation.UPDATE), str(Operation.TRUNCATE)


class _Leg(NamedTuple):
    """A key that the row had after the change ``begin`` until the change ``end`` (values of :data:`ORDER`; None: no
    limit)."""

    key: tuple[str | None, ...]
    begin: tuple[Any, ...] | None
    end: tuple[Any, ...] | None


def history(changes: DataFrame, transactions: DataFrame, table: str, key: Mapping[str, str | None]) -> DataFrame:
    """Every change of the row of ``table`` (``schema.table``, or ``table``) whose columns have the values ``key``
    (None: NULL).

    A row whose key was changed is followed under its other keys, from the change that set each key to the one that
    replaced it; a change of the key that was rolled back is shown and not followed. TRUNCATEs of the table that follow
    the first change of the row are included.

    Columns: those of ``changes``, ``user`` (of the transaction), and ``differences``: an array of ``column``, ``old``,
    ``new`` and ``old_known`` (false: the old value was not captured), of the columns that an update changed, or of all
    columns that an inserted or deleted row has. In the order of the log; changes without a position first.

    Raises OptionError for a table that has no changes, a column that none of its changes has, or an empty key.
    """
    known = find_table(known_tables(changes), table)
    wrong = check_key(known, key)
    if wrong:
        raise OptionError("; ".join(wrong))
    return life(changes, transactions, known, key)


def check_key(known: Known, key: Mapping[str, str | None]) -> list[str]:
    """The errors of a key, one sentence each."""
    if not key:
        return ["key: expected column=value, found none"]
    hint = f"There are: {', '.join(known.columns)}."
    return [
        f"key: no change of {known.table!r} has a column {name!r}.{nearest(name, known.columns)} {hint}"
        for name in key
        if name not in known.columns
    ]


def life(changes: DataFrame, transactions: DataFrame, known: Known, key: Mapping[str, str | None]) -> DataFrame:
    """:func:`history` of a row of a known table, with a checked key."""
    return of_row(changes, transactions, known, key).orderBy(*ORDER)


def of_row(changes: DataFrame, transactions: DataFrame, known: Known, key: Mapping[str, str | None]) -> DataFrame:
    """:func:`life` in any order."""
    names = tuple(key)
    of_table = changes.filter(table_label() == known.table)
    order = F.struct(*ORDER)
    chosen = F.lit(False)
    for leg in _legs(of_table, names, tuple(key[name] for name in names)):
        chosen = chosen | (_touches(names, leg.key) & _within(order, leg))
    truncate = F.col("operation") == _TRUNCATE
    if known.truncates:
        first = of_table.filter(chosen).agg(F.min(order).alias("first")).collect()[0]["first"]
        begun = F.lit(False) if first is None else order > _position(tuple(first))
        chosen = chosen | (truncate & begun)
    users = transactions.select(F.col("transaction_id").alias("_transaction"), "user")
    changes_of_row = of_table.filter(chosen).withColumn("differences", _differences())
    return changes_of_row.join(users, F.col("transaction_id") == F.col("_transaction"), "left").drop("_transaction")


def _has(image: str, names: tuple[str, ...], values: tuple[str | None, ...]) -> Column:
    """Whether an image has these values, all of them captured."""
    condition = F.lit(True)
    for name, value in zip(names, values, strict=True):
        present = F.map_contains_key(F.col(image), F.lit(name))
        condition = condition & present & F.try_element_at(F.col(image), F.lit(name)).eqNullSafe(F.lit(value))
    return F.coalesce(condition, F.lit(False))


def _touches(names: tuple[str, ...], values: tuple[str | None, ...]) -> Column:
    condition = F.lit(False)
    for image in _IMAGES:
        condition = condition | _has(image, names, values)
    return condition


def _within(order: Column, leg: _Leg) -> Column:
    condition = F.lit(True)
    if leg.begin is not None:
        condition = condition & (order >= _position(leg.begin))
    if leg.end is not None:
        condition = condition & (order <= _position(leg.end))
    return condition


def _position(values: tuple[Any, ...]) -> Column:
    types = ("string", "int", "bigint")
    return F.struct(
        *[F.lit(value).cast(kind).alias(name) for name, value, kind in zip(ORDER, values, types, strict=True)]
    )


def _legs(changes: DataFrame, names: tuple[str, ...], key: tuple[str | None, ...]) -> list[_Leg]:
    """The keys that the row had, from the updates that changed a key of this table."""
    captured = F.lit(True)
    for image in ("before", "after"):
        for name in names:
            captured = captured & F.map_contains_key(F.col(image), F.lit(name))
    before, after = (F.array(*[F.try_element_at(F.col(i), F.lit(n)) for n in names]) for i in ("before", "after"))
    lasts = ~F.coalesce(F.col("outcome").isin(*_TAKEN_BACK), F.lit(False))
    is_move = (F.col("operation") == _UPDATE) & captured & (before != after) & lasts
    moves = (
        changes.filter(F.coalesce(is_move, F.lit(False)))
        .select(*ORDER, before.alias("_before"), after.alias("_after"))
        .orderBy(*ORDER)
        .limit(_MOST_MOVES)
        .collect()
    )
    steps = [(tuple(move[name] for name in ORDER), tuple(move["_before"]), tuple(move["_after"])) for move in moves]
    legs = [_Leg(key, None, None)]
    current = key
    for at, (order, old, new) in enumerate(steps):  # forwards: the key that the row got
        if old == current:
            current = new
            end = next((later for later, gone, _ in steps[at + 1 :] if gone == new), None)
            legs.append(_Leg(new, order, end))
    current = key
    for at in range(len(steps) - 1, -1, -1):  # backwards: the key that it had before
        order, old, new = steps[at]
        if new == current:
            current = old
            begin = next((earlier for earlier, _, replaced in reversed(steps[:at]) if replaced == old), None)
            legs.append(_Leg(old, begin, order))
    return legs


def _differences() -> Column:
    before, after = F.col("before"), F.col("after")
    nothing = F.array().cast("array<string>")
    images = F.coalesce(F.map_keys("after"), F.map_keys("before"), nothing)
    of_update = F.coalesce("changed_columns", F.map_keys("after"), nothing)
    columns = F.when(F.col("operation") == _UPDATE, of_update).otherwise(images)
    return F.transform(
        columns,
        lambda name: F.struct(
            name.alias("column"),
            F.try_element_at(before, name).alias("old"),
            F.try_element_at(after, name).alias("new"),
            F.coalesce(F.map_contains_key(before, name), F.lit(False)).alias("old_known"),
        ),
    )
