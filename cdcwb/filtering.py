"""The part of a capture that is shown: some tables, transactions, and a window of time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.dataset import Rows
from cdcwb.errors import OptionError
from cdcwb.filters import Filter, columns_of, matching, needed_by
from cdcwb.model import Outcome

__all__ = ["Filters", "TimeWindow", "filtered", "matched"]


@dataclass(frozen=True)
class Filters:
    """The tables (``schema.table``, or ``table``), the transactions and the times to which a capture is filtered; None:
    all. ``where`` is a :class:`cdcwb.spark.select.Condition`."""

    tables: frozenset[str] | None = None
    transactions: frozenset[str] | None = None
    time_from: dt.datetime | None = None
    time_to: dt.datetime | None = None
    where: Any = None

    @property
    def is_window(self) -> bool:
        """Whether times are limited."""
        return self.time_from is not None or self.time_to is not None


@dataclass(frozen=True)
class TimeWindow:
    """What a window of time needs of other tables: the ids of the transactions with a known time, the end of each (else
    its begin), the ids of those that are open in the window, and the records in it, each as file and offset."""

    ids: pa.Array
    ended: pa.Array
    open_ids: pa.Array
    records: pa.Array

    @classmethod
    def of(cls, filters: Filters, transactions: Rows, events: Rows) -> TimeWindow:
        """``transactions`` have transaction_id, began_at, ended_at and outcome; ``events`` file, offset, changed_at and
        transaction_id."""
        rows = transactions.table()
        ended = pc.coalesce(rows["ended_at"], rows["began_at"]).combine_chunks()
        ids = rows["transaction_id"].combine_chunks()
        window = cls(ids, ended, ids.filter(_open_in(rows, filters)), pa.array([], pa.string()))
        inside = [
            _records(batch.filter(window.holds(batch, filters)).select(["file", "offset"]))
            for batch in events.batches()
        ]
        return cls(ids, ended, window.open_ids, pa.concat_arrays([window.records, *inside]))

    def holds(self, batch: pa.RecordBatch, filters: Filters) -> pa.Array:
        """Whether each event or change is in the window: by its own time, else that of its commit, else the end of its
        transaction, else its begin. One without any time never is."""
        known = [batch[name] for name in ("changed_at", "committed_at") if name in batch.schema.names]
        ended = self.ended.take(pc.index_in(batch["transaction_id"], self.ids, skip_nulls=True))
        return _inside(pc.coalesce(*known, ended), filters)


def filtered(name: str, rows: Rows, filters: Filters, window: TimeWindow | None) -> Rows:
    """The rows of the table ``name`` that match the filters. ``window``: for a window of time."""
    return rows.where(lambda batch: _mask(name, batch, filters, window))


def matched(name: str, rows: Rows, where: Filter, rows_of: Callable[[str, Sequence[str]], Rows]) -> Rows:
    """The rows of the table ``name`` for which a filter holds. If the table lacks a column of it, those of the
    transactions that have a row for which it holds in another table, of which ``rows_of`` reads some columns."""
    has_images = any(column.endswith(".") for column in where.names)
    others = ("changes", "events", "transactions") if has_images else ("events", "changes", "transactions")
    deciding = next((t for t in (name, *others) if where.names <= columns_of(model.TABLES[t].names)), None)
    if deciding is None:
        lacking = " and ".join(sorted(column.rstrip(".") for column in where.names))
        raise OptionError(f"where: no table has the columns {lacking} together; filter by one after the other")
    if deciding == name:
        return rows.where(partial(matching, where))
    if "transaction_id" not in model.TABLES[name].names:
        return rows
    names = dict.fromkeys(["transaction_id", *needed_by(where.names, model.TABLES[deciding].names)])
    ids = rows_of(deciding, list(names)).where(partial(matching, where)).table()["transaction_id"]
    return rows.where(partial(_in_transactions, ids.combine_chunks().unique()))


def _in_transactions(ids: pa.Array, batch: pa.RecordBatch) -> pa.Array:
    return pc.is_in(batch["transaction_id"], ids, skip_nulls=True)


def _mask(name: str, batch: pa.RecordBatch, filters: Filters, window: TimeWindow | None) -> pa.Array:
    masks = [pa.repeat(True, batch.num_rows)]
    if filters.tables is not None:
        masks.append(_of_tables(batch, filters.tables))
    if filters.transactions is not None and "transaction_id" in batch.schema.names:
        masks.append(pc.is_in(batch["transaction_id"], pa.array(sorted(filters.transactions), pa.string())))
    if window is not None:
        masks.append(_in_window(name, batch, filters, window))
    return pc.fill_null(reduce(pc.and_, masks), False)


def _of_tables(batch: pa.RecordBatch, tables: Collection[str]) -> pa.Array:
    names = batch.schema.names
    if "table_name" in names:
        label = pc.binary_join_element_wise(batch["schema_name"], batch["table_name"], ".")
        wanted = pa.array(sorted(tables), pa.string())
        return pc.or_(pc.is_in(batch["table_name"], wanted), pc.is_in(label, wanted))
    if "tables" in names:
        lists = batch["tables"].to_pylist()
        return pa.array([any(_is_named(label, tables) for label in named or ()) for named in lists], pa.bool_())
    if "table" in names:
        return pa.array(
            [label is not None and _is_named(label, tables) for label in batch["table"].to_pylist()], pa.bool_()
        )
    return pa.repeat(True, batch.num_rows)


def _is_named(label: str, tables: Collection[str]) -> bool:
    """Whether a table label has one of the names."""
    return label in tables or any(label.endswith(f".{name}") for name in tables)


def _in_window(name: str, batch: pa.RecordBatch, filters: Filters, window: TimeWindow) -> pa.Array:
    if name == "transactions":
        return _open_in(batch, filters)
    if name == "problems":
        is_open = pc.is_in(batch["transaction_id"], window.open_ids, skip_nulls=True)
        return pc.or_(is_open, pc.is_in(_records(batch), window.records, skip_nulls=True))
    return window.holds(batch, filters) if name in ("events", "changes") else pa.repeat(True, batch.num_rows)


def _records(batch: pa.RecordBatch) -> pa.Array:
    """Files with offsets; null without either."""
    return pc.binary_join_element_wise(pc.cast(batch["offset"], pa.string()), batch["file"], "\n")


def _inside(times: pa.Array, filters: Filters) -> pa.Array:
    mask = pc.is_valid(times)
    if filters.time_from is not None:
        mask = pc.and_(mask, pc.greater_equal(times, pa.scalar(filters.time_from, times.type)))
    if filters.time_to is not None:
        mask = pc.and_(mask, pc.less(times, pa.scalar(filters.time_to, times.type)))
    return pc.fill_null(mask, False)


def _open_in(rows: Any, filters: Filters) -> pa.Array:
    """Whether each transaction is open in the window, as far as its times are known: one that is open at the end of the
    capture has no end; one with one time is open then."""
    kind = model.TRANSACTIONS.field("ended_at").type
    start, last = pc.coalesce(rows["began_at"], rows["ended_at"]), pc.coalesce(rows["ended_at"], rows["began_at"])
    mask = pc.is_valid(start)
    if filters.time_from is not None:
        endless = pc.and_(pc.is_null(rows["ended_at"]), pc.equal(rows["outcome"], str(Outcome.OPEN)))
        late = pc.greater_equal(last, pa.scalar(filters.time_from, kind))
        mask = pc.and_(mask, pc.or_kleene(endless, late))
    if filters.time_to is not None:
        mask = pc.and_(mask, pc.less(start, pa.scalar(filters.time_to, kind)))
    filled = pc.fill_null(mask, False)
    return filled.combine_chunks() if isinstance(filled, pa.ChunkedArray) else filled
