"""Filters of a table: by table, transaction, time and condition."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F

from cdcwb.errors import OptionError
from cdcwb.formats.options import nearest
from cdcwb.spark.names import table_label

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["select", "transactions_in_window"]


def select(
    frame: DataFrame,
    *,
    tables: frozenset[str] | None,
    transactions: frozenset[str] | None,
    time_from: dt.datetime | None,
    time_to: dt.datetime | None,
    where: str | None,
    ends: DataFrame | None,
    with_transactions: Sequence[DataFrame],
) -> DataFrame:
    """The rows of a table that match the filters.

    ``ends`` are the capture's transactions, whose end is the time of rows without one. A row without any time is in no
    window. ``with_transactions`` are tables with transactions, for a condition that names columns of theirs.
    """
    if tables is not None:
        frame = _of_tables(frame, tables)
    if transactions is not None and "transaction_id" in frame.columns:
        frame = frame.filter(F.col("transaction_id").isin(*sorted(transactions)))
    if (time_from is not None or time_to is not None) and ends is not None:
        frame = _in_window(frame, time_from, time_to, ends)
    return frame if where is None else _where(frame, where, with_transactions)


def _of_tables(frame: DataFrame, tables: frozenset[str]) -> DataFrame:
    names = sorted(tables)
    if "table_name" in frame.columns:
        plain = [name for name in names if "." not in name]
        if len(plain) == len(names):
            return frame.filter(F.col("table_name").isin(*names))
        return frame.filter(F.col("table_name").isin(*names) | table_label().isin(*names))
    if "tables" in frame.columns:  # transactions: those that touch one of them
        return frame.filter(_any([F.exists("tables", partial(_is_named, name)) for name in names]))
    if "table" in frame.columns:
        return frame.filter(_any([_is_named(name, F.col("table")) for name in names]))
    return frame


def _is_named(name: str, table: Column) -> Column:
    """Whether a table label (``schema.table`` or ``table``) has that name."""
    return (table == name) | table.endswith(f".{name}")


def _any(conditions: list[Column]) -> Column:
    result = conditions[0]
    for condition in conditions[1:]:
        result = result | condition
    return result


def transactions_in_window(
    transactions: DataFrame, time_from: dt.datetime | None, time_to: dt.datetime | None
) -> DataFrame:
    """The transactions that end in the window; one whose end has no time (or is missing) counts with its begin."""
    return transactions.filter(_inside(F.coalesce("ended_at", "began_at"), time_from, time_to))


def _inside(moment: Column, time_from: dt.datetime | None, time_to: dt.datetime | None) -> Column:
    result = F.lit(True)
    if time_from is not None:
        result = result & (moment >= F.lit(time_from))
    if time_to is not None:
        result = result & (moment < F.lit(time_to))
    return result


def _in_window(
    frame: DataFrame, time_from: dt.datetime | None, time_to: dt.datetime | None, ends: DataFrame
) -> DataFrame:
    if "ended_at" in frame.columns:
        return transactions_in_window(frame, time_from, time_to)
    if "transaction_id" not in frame.columns:
        return frame
    dated = ends.select(
        F.col("transaction_id").alias("_transaction"), F.coalesce("ended_at", "began_at").alias("_ended_at")
    )
    joined = frame.join(dated, F.col("transaction_id") == F.col("_transaction"), "left")
    own = F.col("changed_at") if "changed_at" in frame.columns else F.lit(None).cast("timestamp")
    inside = _inside(F.coalesce("_ended_at", own), time_from, time_to)
    return joined.filter(inside).drop("_transaction", "_ended_at")


def _where(frame: DataFrame, condition: str, tables: Sequence[DataFrame]) -> DataFrame:
    """The rows for which a condition holds. If the table lacks a column of the condition, the first of the ``tables``
    that has all of them decides: a table with transactions keeps the rows of the transactions that have a row there,
    one without transactions is unchanged."""
    try:
        return _filtered(frame, condition)
    except OptionError as wrong:
        reason = wrong
    for other in tables:
        try:
            matching = _filtered(other, condition)
        except OptionError:
            continue
        if "transaction_id" not in frame.columns:
            return frame
        names = matching.select(F.col("transaction_id").alias("_transaction")).distinct()
        return frame.join(names, F.col("transaction_id") == F.col("_transaction"), "left_semi")
    raise reason


def _filtered(frame: DataFrame, condition: str) -> DataFrame:
    try:
        filtered = frame.filter(F.expr(condition))
        _ = filtered.schema  # a remote session checks the condition only here
    except (AnalysisException, ParseException) as reason:
        text = str(reason)
        if "UNRESOLVED_COLUMN" in text:
            match = re.search(r"name `?([^`]+)`", text)
            name = match.group(1) if match else condition
            hint = nearest(name, frame.columns)
            raise OptionError(
                f"where: there is no column {name!r}.{hint} There are: {', '.join(frame.columns)}."
            ) from None
        first = next(line for line in text.splitlines() if line.strip())
        raise OptionError(f"where: {first}") from None
    return filtered
