"""Filters of a table: by table, transaction, time and condition."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from cdcwb.filtering import Condition
from cdcwb.model import Outcome
from cdcwb.spark.names import table_label

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["dated", "select"]


def select(
    frame: DataFrame,
    *,
    tables: frozenset[str] | None,
    transactions: frozenset[str] | None,
    time_from: dt.datetime | None,
    time_to: dt.datetime | None,
    where: Condition | None,
    times: tuple[DataFrame, DataFrame] | None,
    table: Callable[[str], DataFrame],
) -> DataFrame:
    """The rows of a table that match the filters.

    ``times`` are the capture's transactions and events, which have the times of rows without one. A row without any
    time is in no window. ``table`` gives a table with transactions, for a condition on columns of its own.
    """
    if tables is not None:
        frame = _of_tables(frame, tables)
    if transactions is not None and "transaction_id" in frame.columns:
        frame = frame.filter(F.col("transaction_id").isin(*sorted(transactions)))
    if times is not None:
        frame = _in_window(frame, time_from, time_to, *times)
    return frame if where is None else _where(frame, where, table)


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


def _open_in(time_from: dt.datetime | None, time_to: dt.datetime | None) -> Column:
    """Whether a transaction is open in the window, as far as its times are known: one that is open at the end of the
    capture has no end; one with one time is open then."""
    start, last = F.coalesce("began_at", "ended_at"), F.coalesce("ended_at", "began_at")
    fits = start.isNotNull()
    if time_from is not None:
        endless = F.col("ended_at").isNull() & (F.col("outcome") == str(Outcome.OPEN))
        fits = fits & (endless | (last >= F.lit(time_from)))
    return fits if time_to is None else fits & (start < F.lit(time_to))


def _inside(moment: Column, time_from: dt.datetime | None, time_to: dt.datetime | None) -> Column:
    result = moment.isNotNull()
    if time_from is not None:
        result = result & (moment >= F.lit(time_from))
    if time_to is not None:
        result = result & (moment < F.lit(time_to))
    return result


def _in_window(
    frame: DataFrame,
    time_from: dt.datetime | None,
    time_to: dt.datetime | None,
    transactions: DataFrame,
    events: DataFrame,
) -> DataFrame:
    """The rows of a window: records and changes by the time of :func:`dated`, transactions that are open in it,
    problems whose record or transaction is in it."""
    if "ended_at" in frame.columns:
        return frame.filter(_open_in(time_from, time_to))
    if "severity" in frame.columns:
        return _problems_in_window(frame, time_from, time_to, transactions, events)
    if "changed_at" not in frame.columns:
        return frame
    return dated(frame, transactions).filter(_inside(F.col("_when"), time_from, time_to)).drop("_when")


def dated(frame: DataFrame, transactions: DataFrame) -> DataFrame:
    """Changes or events, with the column ``_when``: the time of each is its own, else that of its commit, else the end
    of its transaction, else its begin; null if all are unknown."""
    ended = F.coalesce("ended_at", "began_at").alias("_ended")
    ends = transactions.select(F.col("transaction_id").alias("_transaction"), ended).where("_ended IS NOT NULL")
    joined = frame.join(ends, F.col("transaction_id") == F.col("_transaction"), "left")
    known = [name for name in ("changed_at", "committed_at", "_ended") if name in joined.columns]
    return joined.withColumn("_when", F.coalesce(*known)).drop("_transaction", "_ended")


def _problems_in_window(
    problems: DataFrame,
    time_from: dt.datetime | None,
    time_to: dt.datetime | None,
    transactions: DataFrame,
    events: DataFrame,
) -> DataFrame:
    open_ones = transactions.filter(_open_in(time_from, time_to)).select(F.col("transaction_id").alias("_transaction"))
    records = _in_window(events, time_from, time_to, transactions, events)
    places = records.select(F.col("file").alias("_file"), F.col("offset").alias("_offset")).distinct()
    of_transaction = F.col("transaction_id") == F.col("_transaction")
    of_record = (F.col("file") == F.col("_file")) & (F.col("offset") == F.col("_offset"))
    joined = problems.join(open_ones, of_transaction, "left").join(places, of_record, "left")
    fits = F.col("_transaction").isNotNull() | F.col("_file").isNotNull()
    return joined.filter(fits).drop("_transaction", "_file", "_offset")


# --- conditions -------------------------------------------------------------------------------------------------------


def _rows(condition: Condition, frame: DataFrame) -> DataFrame:
    """The rows of a table for which a condition holds, as Python workers find it."""
    mask = condition.mask

    def kept(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.filter(mask(batch))

    return frame.mapInArrow(kept, frame.schema)


def _where(frame: DataFrame, condition: Condition, table: Callable[[str], DataFrame]) -> DataFrame:
    """The rows for which a condition holds. If the table lacks a column of the condition, another one decides
    (:attr:`~cdcwb.filtering.Condition.decided_by`): a table with transactions keeps the rows of the transactions that
    have a row there, one without transactions is unchanged."""
    if condition.fits(frame.columns):
        return _rows(condition, frame)
    other = condition.decided_by
    if other is None:
        raise condition.lacking
    if "transaction_id" not in frame.columns:
        return frame
    names = _rows(condition, table(other)).select(F.col("transaction_id").alias("_transaction")).distinct()
    return frame.join(names, F.col("transaction_id") == F.col("_transaction"), "left_semi")
