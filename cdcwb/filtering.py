"""The part of a capture that is shown: some tables, transactions, and a window of time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.dataset import Rows, SparkRows, schema_of
from cdcwb.errors import OptionError
from cdcwb.filters import KINDS, FilterError, any_of, columns_of, matching, needed_by, parse, value_kinds
from cdcwb.formats.options import nearest
from cdcwb.model import Outcome
from cdcwb.tables import Part, Tables, only, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdcwb.formats.dissector import TableRequest

__all__ = [
    "DATED",
    "NOT_LIMITED",
    "Condition",
    "FilteredTables",
    "Filters",
    "check_names",
    "condition_of",
    "conditions",
    "dated",
    "time_of",
]

NOT_LIMITED: Final = ("text", "without_time")
"""The fields of a selection that tables are not limited by."""


FILTERED_BY: Final = {
    "events": ("schema_name", "table_name", "transaction_id", "changed_at"),
    "changes": ("schema_name", "table_name", "transaction_id", "changed_at", "committed_at"),
    "transactions": ("transaction_id", "tables", "began_at", "ended_at", "outcome"),
    "table_versions": ("schema_name", "table_name"),
    "problems": ("severity", "table", "transaction_id", "file", "offset"),
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


_COMPARED: Final = {
    "operations": ("operation", "=="),
    "outcomes": ("outcome", "=="),
    "users": ("user", "=="),
    "columns": ("changed_columns", "=="),
    "position_from": ("position", ">="),
    "position_to": ("position", "<="),
}
"""How filters compare the fields of a selection that are not filters of their own."""


def conditions(chosen: Mapping[str, Any]) -> list[Condition]:
    """Conditions for the fields of a selection that are not filters of their own."""
    made = []
    for name, (column, sign) in _COMPARED.items():
        if name in chosen:
            values = [chosen[name]] if isinstance(chosen[name], str) else chosen[name]
            made.append(Condition(frozenset({column}), partial(matching, any_of(column, sign, values))))
    return made


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


_OF_ROWS: Final = schema_of("changes", ("operation", "position", "transaction_id", "table_version"))
"""The columns of every table of typed rows that filters compare."""


class FilteredTables(Part):
    """The rows of the tables of a capture that match filters."""

    def __init__(self, tables: Tables, filters: tuple[Filters, ...]) -> None:
        super().__init__(tables)
        self.filters = filters

    def rows(self, table: str, columns: Sequence[str]) -> Rows | None:
        """See :meth:`cdcwb.tables.Live.rows`."""
        rows = self.tables.rows(table, self._needed(table, columns))
        return None if rows is None else self._matching(rows).select(columns)

    def spark_rows(self, table: str, columns: Sequence[str]) -> Rows:
        """See :class:`cdcwb.tables.Live`."""
        return self._matching(self.tables.spark_rows(table, self._needed(table, columns))).select(columns)

    def _needed(self, table: str, columns: Sequence[str]) -> list[str]:
        by = (one.where.needed(table) for one in self.filters if one.where)
        return [*dict.fromkeys(chain(columns, FILTERED_BY[table], *by))]

    def _matching(self, rows: Rows) -> Rows:
        for filters in self.filters:
            rows = _filtered(rows, filters, partial(rows_of, self.tables))
        return rows

    def frame(self, table: str, images: bool = True, columns: Sequence[str] | None = None) -> DataFrame:
        """See :meth:`cdcwb.tables.Live.frame`; with images where a condition may compare them."""
        if table == "detected":
            return self.tables.frame(table, columns=columns)
        images = images or any(filters.where is not None for filters in self.filters)
        rows = self.tables.frame(table, images)
        return only(self._matching_of(rows, schema_of(table, model.TABLES[table].names)), columns)

    def _matching_of(self, frame: DataFrame, schema: pa.Schema) -> DataFrame:
        """The rows of a DataFrame that match the filters, which compare the columns of ``schema``."""
        return self._matching(SparkRows(frame, schema)).to_frame(frame.sparkSession).select(*frame.columns)

    def table(self, request: TableRequest) -> DataFrame:
        """See :class:`cdcwb.tables.Live`."""
        return self._matching_of(self.tables.table(request), _OF_ROWS)


def _filtered(rows: Rows, filters: Filters, other: Callable[[str, Sequence[str]], Rows]) -> Rows:
    """The rows of a table that match the filters; they have at least the columns of :data:`FILTERED_BY`. ``other``
    gives some columns of another table of the capture, which has the times of rows without one, and the transactions
    for which a condition holds."""
    if filters.tables is not None and "severity" in rows.schema.names:
        of_tables = other("transactions", ["transaction_id", "tables"]).where(partial(_is_named_by, filters))
        rows = rows.with_column_of(of_tables.map(_open_then, _OPEN_THEN), ["transaction_id"], _TRANSACTION)
        rows = rows.where(partial(_is_of_tables, filters)).drop(_TRANSACTION)
    elif filters.tables is not None or filters.transactions is not None:
        rows = rows.where(partial(_is_named_by, filters))
    if filters.is_window:
        rows = _in_window(rows, filters, other)
    return rows if filters.where is None else _where(rows, filters.where, other)


def _is_named_by(filters: Filters, batch: pa.RecordBatch) -> pa.Array:
    masks = [pa.repeat(True, batch.num_rows)]
    if filters.tables is not None:
        masks.append(_of_tables(batch, filters.tables))
    if filters.transactions is not None and "transaction_id" in batch.schema.names:
        masks.append(pc.is_in(batch["transaction_id"], pa.array(sorted(filters.transactions), pa.string())))
    return pc.fill_null(reduce(pc.and_, masks), False)


def _is_of_tables(filters: Filters, batch: pa.RecordBatch) -> pa.Array:
    """Whether each problem is one of the tables, or of no table but of a transaction that changes one of them."""
    of_transaction = pc.and_(pc.is_null(batch["table"]), pc.is_valid(batch[_TRANSACTION]))
    return pc.or_(_is_named_by(filters, batch), of_transaction)


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


def _in_window(rows: Rows, filters: Filters, other: Callable[[str, Sequence[str]], Rows]) -> Rows:
    """The rows of a window: events and changes by their time, transactions that are open in it, problems whose record
    or transaction is in it."""
    names = rows.schema.names
    if "ended_at" in names:
        return rows.where(partial(_open_in, filters))
    if "changed_at" in names:
        return dated(rows, other).where(partial(_inside, filters)).drop(DATED)
    if "severity" not in names:
        return rows
    events = other("events", ["file", "offset", "changed_at", "transaction_id"])
    inside = dated(events, other).where(partial(_inside, filters)).map(_in_it, _IN_IT)
    transactions = other("transactions", ["transaction_id", "began_at", "ended_at", "outcome"])
    is_open = transactions.where(partial(_open_in, filters)).map(_open_then, _OPEN_THEN)
    rows = rows.with_column_of(inside, ["file", "offset"], _RECORD)
    rows = rows.with_column_of(is_open, ["transaction_id"], _TRANSACTION)
    return rows.where(_is_either).drop(_RECORD).drop(_TRANSACTION)


DATED: Final = "_ended"
"""The column that :func:`dated` adds."""
_ENDED: Final = pa.schema([("transaction_id", pa.string()), (DATED, model.TRANSACTIONS.field("ended_at").type)])
_RECORD, _TRANSACTION = "_record", "_transaction"
_LOCATION: Final = ["file", "offset"]
_IN_IT: Final = pa.schema([("file", pa.string()), ("offset", pa.int64()), (_RECORD, pa.bool_())])
_OPEN_THEN: Final = pa.schema([("transaction_id", pa.string()), (_TRANSACTION, pa.bool_())])


def dated(rows: Rows, other: Callable[[str, Sequence[str]], Rows]) -> Rows:
    """Events or changes with the end of their transaction, or its begin, in the column :data:`DATED`."""
    times = other("transactions", ["transaction_id", "began_at", "ended_at"])
    return rows.with_column_of(times.map(_ends, _ENDED), ["transaction_id"], DATED)


def time_of(batch: pa.RecordBatch) -> pa.Array:
    """The time of each row of :func:`dated`: its own, else that of its commit, else the end of its transaction, else
    its begin; null if all are unknown."""
    return pc.coalesce(*[batch[name] for name in ("changed_at", "committed_at", DATED) if name in batch.schema.names])


def _ends(batch: pa.RecordBatch) -> pa.RecordBatch:
    ended = pc.coalesce(batch["ended_at"], batch["began_at"])
    return pa.RecordBatch.from_arrays([batch["transaction_id"], ended], schema=_ENDED)


def _in_it(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([batch["file"], batch["offset"], pa.repeat(True, batch.num_rows)], schema=_IN_IT)


def _open_then(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([batch["transaction_id"], pa.repeat(True, batch.num_rows)], schema=_OPEN_THEN)


def _is_either(batch: pa.RecordBatch) -> pa.Array:
    return pc.or_(pc.is_valid(batch[_RECORD]), pc.is_valid(batch[_TRANSACTION]))


def _inside(filters: Filters, batch: pa.RecordBatch) -> pa.Array:
    times = time_of(batch)
    mask = pc.is_valid(times)
    if filters.time_from is not None:
        mask = pc.and_(mask, pc.greater_equal(times, pa.scalar(filters.time_from, times.type)))
    if filters.time_to is not None:
        mask = pc.and_(mask, pc.less(times, pa.scalar(filters.time_to, times.type)))
    return pc.fill_null(mask, False)


def _open_in(filters: Filters, batch: pa.RecordBatch) -> pa.Array:
    """Whether each transaction is open in the window, as far as its times are known: one that is open at the end of the
    capture has no end; one with one time is open then."""
    began, ended = batch["began_at"], batch["ended_at"]
    start, last = pc.coalesce(began, ended), pc.coalesce(ended, began)
    mask = pc.is_valid(start)
    if filters.time_from is not None:
        endless = pc.and_(pc.is_null(ended), pc.equal(batch["outcome"], str(Outcome.OPEN)))
        late = pc.greater_equal(last, pa.scalar(filters.time_from, last.type))
        mask = pc.and_(mask, pc.or_kleene(endless, late))
    if filters.time_to is not None:
        mask = pc.and_(mask, pc.less(start, pa.scalar(filters.time_to, start.type)))
    return pc.fill_null(mask, False)


def _where(rows: Rows, condition: Condition, other: Callable[[str, Sequence[str]], Rows]) -> Rows:
    """The rows for which a condition holds. If the table lacks a column of the condition, another one decides
    (:attr:`Condition.decided_by`): a table with transactions keeps the rows of the transactions that have a row there,
    one without transactions is unchanged. Problems are also those of the records of changes for which it holds."""
    if condition.fits(rows.schema.names):
        return rows.where(condition.mask)
    table = condition.decided_by
    if table is None:
        raise condition.lacking
    if "transaction_id" not in rows.schema.names:
        return rows
    decisive = other(table, [*dict.fromkeys(["transaction_id", *condition.needed(table)])]).where(condition.mask)
    ids = decisive.map(_open_then, _OPEN_THEN).reduce_by_key(["transaction_id"], [], _first_of_each)
    rows = rows.with_column_of(ids, ["transaction_id"], _TRANSACTION)
    if "severity" not in rows.schema.names or not condition.fits(model.CHANGES.names):
        return rows.where(_is_decided).drop(_TRANSACTION)
    located = other("changes", [*dict.fromkeys([*_LOCATION, *condition.needed("changes")])]).where(condition.mask)
    records = located.map(_in_it, _IN_IT).reduce_by_key(_LOCATION, [], _first_locations)
    return rows.with_column_of(records, _LOCATION, _RECORD).where(_is_either).drop(_RECORD).drop(_TRANSACTION)


def _first_locations(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.table(batch).group_by(_IN_IT.names).aggregate([]).select(_IN_IT.names).combine_chunks().to_batches()[0]


def _first_of_each(batch: pa.RecordBatch) -> pa.RecordBatch:
    ids = batch["transaction_id"].unique()
    return pa.RecordBatch.from_arrays([ids, pa.repeat(True, len(ids))], schema=_OPEN_THEN)


def _is_decided(batch: pa.RecordBatch) -> pa.Array:
    return pc.is_valid(batch[_TRANSACTION])
