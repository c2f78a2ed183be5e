"""The part of a capture that is shown: some tables, transactions, and a window of time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.dataset import Rows
from cdcwb.errors import OptionError
from cdcwb.filters import KINDS, FilterError, columns_of, matching, needed_by, parse, value_kinds
from cdcwb.formats.options import nearest
from cdcwb.model import Outcome

__all__ = [
    "FILTERED_BY",
    "NOT_LIMITED",
    "Condition",
    "Filters",
    "TimeWindow",
    "check_names",
    "condition_of",
    "conditions",
    "filtered",
]

NOT_LIMITED: Final = ("text", "without_time")
"""The fields of a selection that tables are not limited by."""


FILTERED_BY: Final = {
    "events": ("schema_name", "table_name", "transaction_id", "changed_at"),
    "changes": ("schema_name", "table_name", "transaction_id", "changed_at", "committed_at"),
    "transactions": ("transaction_id", "tables", "began_at", "ended_at", "outcome"),
    "table_versions": ("schema_name", "table_name"),
    "problems": ("table", "transaction_id", "file", "offset"),
    "detected": (),
}
"""The columns by which the rows of each table are filtered."""


@dataclass(frozen=True)
class Filters:
    """The tables (``schema.table``, or ``table``), the transactions and the times to which a capture is filtered; None:
    all."""

    tables: frozenset[str] | None = None
    transactions: frozenset[str] | None = None
    time_from: dt.datetime | None = None
    time_to: dt.datetime | None = None
    where: Condition | None = None

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


@dataclass(frozen=True)
class Condition:
    """The rows of a table for which something holds: ``mask`` gives it for a batch. ``columns``: the columns of filters
    (:func:`cdcwb.filters.columns_of`) that a table needs for it."""

    columns: frozenset[str]
    mask: Callable[[pa.RecordBatch], Any]

    def fits(self, columns: Collection[str]) -> bool:
        """Whether a table with these columns has what it needs."""
        return self.columns <= columns_of(columns)

    def needed(self, table: str) -> list[str]:
        """The columns of a table of the model that it reads there; none where the table lacks one."""
        names = model.TABLES[table].names
        return needed_by(self.columns, names) if self.fits(names) else []

    @property
    def decided_by(self) -> str | None:
        """The table whose rows decide for tables that lack a column: changes have both images; None if no table has all
        columns."""
        has_values = any(name.endswith(".") for name in self.columns)
        names = ("changes", "events", "transactions") if has_values else ("events", "changes", "transactions")
        return next((name for name in names if self.fits(model.TABLES[name].names)), None)

    @property
    def lacking(self) -> OptionError:
        """The error where no table has all columns."""
        names = " and ".join(sorted(name.rstrip(".") for name in self.columns))
        return OptionError(f"where: no table has the columns {names} together; filter by one after the other")


def conditions(chosen: Mapping[str, Any]) -> list[Condition]:
    """Conditions for the fields of a selection that are not filters of their own."""
    columns = {"operations": "operation", "outcomes": "outcome", "users": "user"}
    made = [(column, partial(_is_in, column, list(chosen[name]))) for name, column in columns.items() if name in chosen]
    if "columns" in chosen:
        made.append(("changed_columns", partial(_overlaps, list(chosen["columns"]))))
    for name, compare in (("position_from", pc.greater_equal), ("position_to", pc.less_equal)):
        if name in chosen:
            made.append(("position", partial(_is_position, compare, chosen[name])))
    return [Condition(frozenset({name}), mask) for name, mask in made]


def _is_in(column: str, values: list[str], batch: pa.RecordBatch) -> pa.Array:
    return pc.is_in(batch[column], pa.array(values, pa.string()))


def _overlaps(names: list[str], batch: pa.RecordBatch) -> pa.Array:
    lists = batch["changed_columns"]
    mask = np.zeros(len(batch), np.bool_)
    is_named = pc.is_in(pc.list_flatten(lists), pa.array(names, pa.string()))
    mask[np.asarray(pc.list_parent_indices(lists).filter(is_named))] = True
    return pa.array(mask)


def _is_position(compare: Any, position: str, batch: pa.RecordBatch) -> pa.Array:
    return pc.fill_null(compare(batch["position"], position), False)


def condition_of(where: str, versions: Callable[[], Rows]) -> Condition | None:
    """The condition of a filter (:mod:`cdcwb.filters`); None for a blank one. ``versions``: the ``columns`` of the
    versions of tables, for a filter that compares values. Raises OptionError for an invalid filter."""
    try:
        understood = parse(where)
        if understood is not None and understood.values:
            known = value_kinds(versions().table().to_pylist())
            understood = parse(where, KINDS | known)
    except FilterError as wrong:
        raise OptionError(f"where: {wrong}") from None
    return None if understood is None else Condition(understood.names, partial(matching, understood))


_MOST: Final = 10


def check_names(capture: Any, tables: frozenset[str] | None, transactions: frozenset[str] | None) -> None:
    """Raises OptionError for a table without a version and without events, which names the nearest match and all
    tables, and for a transaction that no event has, which names the ids that begin with it (``39`` for ``39@…``)."""
    if tables:
        known = _table_names(capture, "table_versions")
        if not tables <= known | {name.rpartition(".")[2] for name in known}:
            known |= _table_names(capture, "events")
            plain = {name.rpartition(".")[2] for name in known}
            for name in sorted(tables - known - plain):
                shown = _some(sorted(known))
                raise OptionError(f"there is no table '{name}'.{nearest(name, known)} There are: {shown}.")
    if transactions:
        known = capture.rows("events", ["transaction_id"]).fold(partial(_ids_like, sorted(transactions)), _union)
        for wrong in sorted(transactions - known):
            meant = sorted(name for name in known if name.startswith(f"{wrong}@"))
            hint = f" Did you mean {_some(meant)}?" if meant else ""
            raise OptionError(f"there is no transaction '{wrong}'.{hint}")


def _table_names(capture: Any, table: str) -> set[str]:
    names: set[str] = capture.rows(table, ["schema_name", "table_name"]).fold(_labels, _union)
    return names


def _labels(batch: pa.RecordBatch) -> set[str]:
    named = batch.filter(batch["table_name"].is_valid())
    labels = pc.binary_join_element_wise(named["schema_name"], named["table_name"], ".", null_handling="skip")
    return set(labels.unique().to_pylist())


def _ids_like(wanted: list[str], batch: pa.RecordBatch) -> set[str]:
    """The wanted ids that occur, and those that begin with one of them and ``@``."""
    ids = pc.drop_null(batch["transaction_id"].unique()).to_pylist()
    return {name for name in ids if name in wanted or name.partition("@")[0] in wanted}


def _union(parts: Sequence[set[str]]) -> set[str]:
    return set().union(*parts)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST]) + (" …" if len(names) > _MOST else "") or "none"


def filtered(name: str, rows: Rows, filters: Filters, window: TimeWindow | None) -> Rows:
    """The rows of the table ``name`` that match the filters. ``window``: for a window of time."""
    return rows.where(lambda batch: _mask(name, batch, filters, window))


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
