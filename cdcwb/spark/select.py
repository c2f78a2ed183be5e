"""Filters of a table: by table, transaction, time and condition."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F

from cdcwb.dataset import Rows, SparkRows
from cdcwb.errors import OptionError
from cdcwb.filters import IMAGES, KINDS, Filter, FilterError, columns_of, matching, parse, value_kinds
from cdcwb.formats.options import nearest
from cdcwb.model import Outcome
from cdcwb.spark.names import table_label

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["NOT_LIMITED", "Condition", "check_names", "condition_of", "conditions", "dated", "select"]


def select(
    frame: DataFrame,
    *,
    tables: frozenset[str] | None,
    transactions: frozenset[str] | None,
    time_from: dt.datetime | None,
    time_to: dt.datetime | None,
    where: Condition | None,
    times: tuple[DataFrame, DataFrame] | None,
    with_transactions: Sequence[DataFrame],
) -> DataFrame:
    """The rows of a table that match the filters.

    ``times`` are the capture's transactions and events, which have the times of rows without one. A row without any
    time is in no window. ``with_transactions`` are tables with transactions, for a condition on columns of theirs.
    """
    if tables is not None:
        frame = _of_tables(frame, tables)
    if transactions is not None and "transaction_id" in frame.columns:
        frame = frame.filter(F.col("transaction_id").isin(*sorted(transactions)))
    if times is not None:
        frame = _in_window(frame, time_from, time_to, *times)
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


# --- names ------------------------------------------------------------------------------------------------------------

_MOST: Final = 10


def check_names(capture: Any, tables: frozenset[str] | None, transactions: frozenset[str] | None) -> None:
    """Raises OptionError for a table without a version and without events, which names the nearest match and all
    tables, and for a transaction that no event has, which names the ids that begin with it (``39`` for ``39@…``)."""
    if tables:
        rows = capture.table_versions.select("schema_name", "table_name").distinct().collect()
        known = {".".join(filter(None, (row.schema_name, row.table_name))) for row in rows}
        if not tables <= known | {row.table_name for row in rows}:
            rows = capture.headers.select("schema_name", "table_name").distinct().dropna(subset="table_name").collect()
            known |= {".".join(filter(None, (row.schema_name, row.table_name))) for row in rows}
            plain = {name.rpartition(".")[2] for name in known} | {row.table_name for row in rows}
            for name in sorted(tables - known - plain):
                shown = _some(sorted(known))
                raise OptionError(f"there is no table '{name}'.{nearest(name, known)} There are: {shown}.")
    if transactions:
        ids = capture.headers.select("transaction_id").distinct()
        present = {row.transaction_id for row in ids.where(F.col("transaction_id").isin(*transactions)).collect()}
        for wrong in sorted(transactions - present):
            like = ids.where(F.col("transaction_id").startswith(f"{wrong}@")).orderBy("transaction_id")
            meant = [row.transaction_id for row in like.head(_MOST + 1)]
            hint = f" Did you mean {_some(meant)}?" if meant else ""
            raise OptionError(f"there is no transaction '{wrong}'.{hint}")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST]) + (" …" if len(names) > _MOST else "") or "none"


# --- conditions -------------------------------------------------------------------------------------------------------


NOT_LIMITED: Final = ("text", "without_time")
"""The fields of a selection that Spark's tables are not limited by."""


class Condition(NamedTuple):
    """The rows of a table for which something holds, and the columns of filters that the table needs for it."""

    columns: frozenset[str]
    rows: Callable[[DataFrame], DataFrame]
    filter: Filter | None = None

    @property
    def needs_images(self) -> bool:
        """Whether it needs what only decoded images have."""
        return bool(
            self.columns & {*(f"{image}." for image in IMAGES), "changed_columns", "present_columns", "problem"}
        )

    def fits(self, frame: DataFrame) -> bool:
        """Whether a table has the columns."""
        return self.columns <= columns_of(frame.columns)


def conditions(chosen: Mapping[str, Any]) -> list[Condition]:
    """Conditions for the fields of a selection that are not filters of their own. A table that lacks the column of one
    keeps the rows of the transactions for which it holds in another table."""
    columns = {"operations": "operation", "outcomes": "outcome", "users": "user"}
    made = [(column, F.col(column).isin(*chosen[name])) for name, column in columns.items() if name in chosen]
    if "columns" in chosen:
        made.append(("changed_columns", F.arrays_overlap("changed_columns", F.array(*map(F.lit, chosen["columns"])))))
    if "position_from" in chosen:
        made.append(("position", F.col("position") >= chosen["position_from"]))
    if "position_to" in chosen:
        made.append(("position", F.col("position") <= chosen["position_to"]))
    return [Condition(frozenset({name}), _filtered_by(column)) for name, column in made]


def _filtered_by(condition: Column) -> Callable[[DataFrame], DataFrame]:
    return lambda frame: frame.filter(condition)


def condition_of(where: str, versions: Callable[[], Rows]) -> Condition | None:
    """The condition of a filter (:mod:`cdcwb.filters`); None for a blank one. ``versions``: the columns of
    table_versions, for a filter that compares values. Raises OptionError for an invalid filter."""
    try:
        understood = parse(where)
        if understood is not None and understood.values:
            rows = versions()
            rows = SparkRows(rows.frame.distinct(), rows.schema) if isinstance(rows, SparkRows) else rows
            understood = parse(where, KINDS | value_kinds(rows.table().to_pylist()))
    except FilterError as wrong:
        raise OptionError(f"where: {wrong}") from None
    return None if understood is None else Condition(understood.names, partial(_rows, understood), understood)


def _rows(understood: Filter, frame: DataFrame) -> DataFrame:
    """The rows of a table for which a filter holds, compared by Python workers."""

    def kept(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.filter(matching(understood, batch))

    return frame.mapInArrow(kept, frame.schema)


def _where(frame: DataFrame, condition: Condition, tables: Sequence[DataFrame]) -> DataFrame:
    """The rows for which a condition holds. If the table lacks a column of the condition, the first of the ``tables``
    that has all of them decides: a table with transactions keeps the rows of the transactions that have a row there,
    one without transactions is unchanged. Images are compared in changes first, which have both."""
    if condition.fits(frame):
        return condition.rows(frame)
    if any(name.endswith(".") for name in condition.columns):
        tables = sorted(tables, key=lambda table: "source_events" not in table.columns)
    other = next(filter(condition.fits, tables), None)
    if other is None:
        lacking = " and ".join(sorted(name.rstrip(".") for name in condition.columns))
        raise OptionError(f"where: no table has the columns {lacking} together; filter by one after the other")
    if "transaction_id" not in frame.columns:
        return frame
    names = condition.rows(other).select(F.col("transaction_id").alias("_transaction")).distinct()
    return frame.join(names, F.col("transaction_id") == F.col("_transaction"), "left_semi")
