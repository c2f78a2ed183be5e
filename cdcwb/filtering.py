"""The part of a capture that is shown: the rows for which conditions hold, and what is in a window of time.

A condition is a filter (:mod:`cdcwb.filters`), which every table answers: by its own columns, or by those of another
table whose rows name its transactions or records. The fields of a selection are such filters.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain
from operator import and_
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.dataset import Rows, joined, schema_of
from cdcwb.errors import OptionError
from cdcwb.filters import (
    KINDS,
    NO_TABLE,
    Comparison,
    Filter,
    FilterError,
    columns_of,
    labels,
    matching,
    needed_by,
    parse,
    value_kinds,
)
from cdcwb.formats.arrays import table_names
from cdcwb.formats.options import nearest
from cdcwb.spark_rows import SparkRows
from cdcwb.tables import Part, Tables, only, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdcwb.formats.dissector import TableRequest


NOT_LIMITED: Final = ("text", "without_time")
"""The fields of a selection that tables are not limited by."""

COMPARED: Final = {
    "tables": ("table", "in"),
    "operations": ("operation", "in"),
    "outcomes": ("outcome", "in"),
    "users": ("user", "in"),
    "columns": ("changed_columns", "in"),
    "transactions": ("transaction", "in"),
    "position_from": ("position", ">="),
    "position_to": ("position", "<="),
}
"""How filters compare the fields of a selection, but times and text."""

Other = Callable[[str, Sequence[str]], Rows]
"""Gives some columns of another table of the capture."""

_RECORD, _TRANSACTION = "_record", "_transaction"
_LOCATION: Final = ("file", "offset")
_ID: Final = ("transaction_id",)
_END: Final = ("ended_at",)


@dataclass(frozen=True)
class Condition:
    """The rows of a table for which something holds: ``mask`` gives it for a batch. ``columns``: the columns of filters
    (:func:`cdcwb.filters.columns_of`) that a table needs for it. ``tables``: it holds for no row of others; None: it
    may. ``parts``: conditions that have to hold for one change, which decides for transactions and problems."""

    columns: frozenset[str]
    mask: Callable[[pa.RecordBatch], Any]
    tables: frozenset[str] | None = None
    parts: tuple[Condition, ...] = ()

    def fits(self, columns: Collection[str]) -> bool:
        """Whether a table with these columns has what it needs."""
        return self.columns <= columns_of(columns)

    def needed(self, table: str) -> list[str]:
        """The columns of a table of the model that it reads there."""
        if self.parts:
            needed = chain(*(part.needed(table) for part in self.parts), _END if table == "transactions" else ())
            return [*dict.fromkeys(needed)]
        names = model.TABLES[table].names
        own = needed_by(self.columns, names) if self.fits(names) else []
        links = [*_ID, *(("severity", "table", *_LOCATION) if table == "problems" else ())]
        return [*own, *(name for name in links if name in names)]

    def of(self, rows: Rows, other: Other) -> Rows:
        """The rows for which it holds, of a table that has the columns of :meth:`needed`.

        If the table lacks a column of the condition, another one decides: a table with transactions keeps the rows of
        the transactions that have a row there, one without transactions is unchanged. Problems are also those of the
        records of changes for which it holds; one without a table belongs to the tables of its transaction."""
        names, is_problems = rows.schema.names, "severity" in rows.schema.names
        of_tables, are_of_changes = self._is_of_tables, bool(self.parts) and {*_END} <= {*names}
        if self.parts and not (self.fits(names) or is_problems or are_of_changes):
            return reduce(lambda some, part: part.of(some, other), self.parts, rows)
        if self.fits(names) and not (is_problems and (of_tables or self.parts)) and not are_of_changes:
            return (rows if self.tables is None else rows.near_tables(self.tables)).where(self.mask)
        if "transaction_id" not in names or (of_tables and not is_problems):  # typed rows are of one table
            return rows
        if of_tables:
            rows = marked(rows, self._matching("transactions", _ID, other), _ID, _TRANSACTION, is_unique=True)
            return rows.where(self._holds_or_of_transaction).drop(_TRANSACTION)
        rows = marked(rows, self._matching(self._decided_by, _ID, other), _ID, _TRANSACTION)
        if are_of_changes and self.columns == {"outcome"}:  # one without changes has an outcome, too
            return rows.where(lambda batch: pc.or_(batch[_TRANSACTION].is_valid(), self.mask(batch))).drop(_TRANSACTION)
        if not is_problems or not self.fits(model.CHANGES.names):
            return rows.where(lambda batch: pc.is_valid(batch[_TRANSACTION])).drop(_TRANSACTION)
        rows = _either(marked(rows, self._matching("changes", _LOCATION, other), _LOCATION, _RECORD))
        is_named = next((part.mask for part in self.parts if part._is_of_tables), None)
        if is_named is None:
            return rows
        return rows.where(lambda batch: pc.or_(batch["table"].is_null(), pa.array(is_named(batch))))

    @property
    def _is_of_tables(self) -> bool:
        return self.columns == {"table"} and not self.parts

    def _matching(self, table: str, columns: Sequence[str], other: Other) -> Rows:
        return other(table, [*dict.fromkeys([*columns, *self.needed(table)])]).where(self.mask)

    def _holds_or_of_transaction(self, batch: pa.RecordBatch) -> pa.Array:
        of_transaction = pc.and_(pc.is_null(batch["table"]), pc.is_valid(batch[_TRANSACTION]))
        return pc.or_(pa.array(self.mask(batch)), of_transaction)

    @property
    def _decided_by(self) -> str:
        """The table whose rows decide for tables that lack a column: changes have both images and the columns that only
        these show. Raises OptionError if no table has all columns."""
        by_changes = self.parts or any(name.endswith(".") or name == "changed_columns" for name in self.columns)
        for name in ("changes", "events", "transactions") if by_changes else ("events", "changes", "transactions"):
            if self.fits(model.TABLES[name].names):
                return name
        names = " and ".join(sorted(name.rstrip(".") for name in self.columns))
        raise OptionError(f"where: no table has the columns {names} together; filter by one after the other")


@dataclass(frozen=True)
class TimeWindow:
    """A window of time, from the first time (included) to the second (excluded): events and changes by their time,
    transactions that are open in it, problems whose record or transaction is in it."""

    time_from: dt.datetime | None = None
    time_to: dt.datetime | None = None

    def needed(self, table: str) -> Sequence[str]:
        """The columns of a table of the model that it reads there."""
        return _IN_WINDOW.get(table, ())

    def of(self, rows: Rows, other: Other) -> Rows:
        """The rows in the window, of a table that has the columns of :meth:`needed`."""
        names = rows.schema.names
        if "ended_at" in names:
            return rows.where(self._is_open)
        if "changed_at" in names:
            return dated(rows, other).where(self._is_inside).drop(DATED)
        if "severity" not in names:
            return rows
        inside = dated(other("events", [*_LOCATION, *_IN_WINDOW["events"]]), other).where(self._is_inside)
        is_open = other("transactions", _IN_WINDOW["transactions"]).where(self._is_open)
        rows = marked(rows, inside, _LOCATION, _RECORD, is_unique=True)
        return _either(marked(rows, is_open, _ID, _TRANSACTION, is_unique=True))

    def _is_inside(self, batch: pa.RecordBatch) -> pa.Array:
        times = time_of(batch)
        return self._between(times, times, pc.is_valid(times))

    def _is_open(self, batch: pa.RecordBatch) -> pa.Array:
        """Whether each transaction is open in the window, as far as its times are known: one that is open at the end of
        the capture has no end; one with one time is open then."""
        began, ended = batch["began_at"], batch["ended_at"]
        endless = pc.and_(pc.is_null(ended), pc.fill_null(pc.equal(batch["outcome"], str(model.Outcome.OPEN)), False))
        end = pc.if_else(endless, pa.scalar(_LAST, ended.type), pc.coalesce(ended, began))
        return self._between(pc.coalesce(began, ended), end, pc.or_(pc.is_valid(began), pc.is_valid(ended)))

    def _between(self, start: pa.Array, end: pa.Array, mask: pa.Array) -> pa.Array:
        if self.time_from is not None:
            mask = pc.and_(mask, pc.greater_equal(end, pa.scalar(self.time_from, end.type)))
        if self.time_to is not None:
            mask = pc.and_(mask, pc.less(start, pa.scalar(self.time_to, start.type)))
        return pc.fill_null(mask, False)


_LAST: Final = dt.datetime.max.replace(tzinfo=dt.UTC)
_IN_WINDOW: Final = {
    "events": ("transaction_id", "changed_at"),
    "changes": ("transaction_id", "changed_at", "committed_at"),
    "transactions": ("transaction_id", "began_at", "ended_at", "outcome"),
    "problems": ("severity", "transaction_id", *_LOCATION),
}

Limit = Condition | TimeWindow


def limits_of(chosen: Mapping[str, Any]) -> list[Limit]:
    """The conditions and the window for fields of a selection; fields of :data:`NOT_LIMITED` are ignored."""
    fields: dict[str, Condition] = {}
    for name, (column, sign) in COMPARED.items():
        if (value := chosen.get(name)) is not None:
            operand = value if isinstance(value, str) else tuple(value)
            condition = _condition(Filter("", Comparison(column, sign, operand)))
            if name == "tables" and NO_TABLE in operand:
                condition = replace(condition, mask=partial(_has_table, condition.mask))
            elif name == "tables":
                condition = replace(condition, tables=frozenset(operand))
            fields[name] = condition
    parts = tuple(condition for name, condition in fields.items() if name not in ("users", "transactions"))
    limits: list[Limit] = [fields[name] for name in ("users", "transactions") if name in fields]
    limits += [_of_one_change(parts)] if parts else []
    times = chosen.get("time_from"), chosen.get("time_to")
    return limits if times == (None, None) else [*limits, TimeWindow(*times)]


def condition_of(where: str, versions: Callable[[], Rows]) -> Condition | None:
    """The condition of a filter (:mod:`cdcwb.filters`); None for a blank one. ``versions``: the ``columns`` of the
    versions of tables, for a filter that compares values. Raises OptionError for an invalid filter."""
    try:
        understood = parse(where)
        if understood is not None and understood.values:
            understood = parse(where, KINDS | value_kinds(versions().table().to_pylist()))
    except FilterError as wrong:
        raise OptionError(f"where: {wrong}") from None
    return None if understood is None else _condition(understood)


def _condition(understood: Filter) -> Condition:
    return Condition(understood.names, partial(matching, understood))


def _of_one_change(parts: tuple[Condition, ...]) -> Condition:
    """The condition that several hold for one change."""
    if len(parts) == 1 and parts[0].tables is not None:
        return parts[0]
    columns = frozenset(chain(*(part.columns for part in parts)))
    return Condition(columns, partial(_all_hold, [part.mask for part in parts]), parts[0].tables, parts)


def _has_table(mask: Callable[[pa.RecordBatch], Any], batch: pa.RecordBatch) -> Any:
    """Whether a mask of tables holds, or there is none."""
    return mask(batch) | matching(Filter("", Comparison("table", "==", None)), batch)


def _all_hold(masks: Sequence[Callable[[pa.RecordBatch], Any]], batch: pa.RecordBatch) -> Any:
    return reduce(and_, (mask(batch) for mask in masks))


# --- names ------------------------------------------------------------------------------------------------------------

_MOST: Final = 10


def check_names(capture: Any, tables: Collection[str], transactions: Collection[str]) -> None:
    """Raises OptionError for a table without a version and without events, which names the nearest match and all
    tables, and for a transaction that no event has, which names the ids that begin with it (``39`` for ``39@…``)."""
    known: set[str] = set()
    unknown = {*tables}
    for source in ("table_versions", "events"):
        if unknown:
            rows = capture.rows(source, ["schema_name", "table_name"])
            known |= rows.fold(lambda batch: {*labels(batch).unique().to_pylist()}, _union) - {None}
            unknown -= set().union(*map(table_names, known))
    for name in sorted(unknown):
        raise OptionError(f"there is no table '{name}'.{nearest(name, known)} There are: {_some(known)}.")
    if transactions:
        wanted = {*transactions}

        def ids_like(batch: pa.RecordBatch) -> set[str]:
            ids = pc.drop_null(batch["transaction_id"].unique()).to_pylist()
            return {name for name in ids if not wanted.isdisjoint((name, name.partition("@")[0]))}

        known = capture.rows("events", ["transaction_id"]).fold(ids_like, _union)
        for name in sorted(wanted - known):
            meant = [one for one in known if one.startswith(f"{name}@")]
            hint = f" Did you mean {_some(meant)}?" if meant else ""
            raise OptionError(f"there is no transaction '{name}'.{hint}")


def _union(parts: Sequence[Any]) -> set[Any]:
    return set().union(*parts)


def _some(names: Collection[str]) -> str:
    return ", ".join(sorted(names)[:_MOST]) + (" …" if len(names) > _MOST else "") or "none"


# --- tables -----------------------------------------------------------------------------------------------------------

_OF_ROWS: Final = schema_of("changes", ("operation", "position", "transaction_id", "table_version"))
"""The columns of every table of typed rows that filters compare."""


class FilteredTables(Part):
    """The rows of the tables of a capture that match some limits."""

    def __init__(self, tables: Tables, limits: tuple[Limit, ...]) -> None:
        super().__init__(tables)
        self.limits = limits

    def rows(self, table: str, columns: Sequence[str]) -> Rows | None:
        """See :meth:`cdcwb.tables.Live.rows`."""
        rows = self.tables.rows(table, self._needed(table, columns))
        return None if rows is None else self._matching(rows).select(columns)

    def spark_rows(self, table: str, columns: Sequence[str]) -> Rows:
        """See :class:`cdcwb.tables.Live`."""
        return self._matching(self.tables.spark_rows(table, self._needed(table, columns))).select(columns)

    def _needed(self, table: str, columns: Sequence[str]) -> list[str]:
        return [*dict.fromkeys(chain(columns, *(limit.needed(table) for limit in self.limits)))]

    def _matching(self, rows: Rows) -> Rows:
        for limit in self.limits:
            rows = limit.of(rows, partial(rows_of, self.tables))
        return rows

    def frame(self, table: str, images: bool = True, columns: Sequence[str] | None = None) -> DataFrame:
        """See :meth:`cdcwb.tables.Live.frame`; with images where a condition may compare them."""
        if table == "detected":
            return self.tables.frame(table, columns=columns)
        images = images or any(isinstance(limit, Condition) for limit in self.limits)
        rows = self.tables.frame(table, images)
        return only(self._matching_of(rows, schema_of(table, model.TABLES[table].names)), columns)

    def _matching_of(self, frame: DataFrame, schema: pa.Schema) -> DataFrame:
        """The rows of a DataFrame that match, which the columns of ``schema`` decide."""
        return self._matching(SparkRows(frame, schema)).to_frame(frame.sparkSession).select(*frame.columns)

    def table(self, request: TableRequest) -> DataFrame:
        """See :class:`cdcwb.tables.Live`."""
        return self._matching_of(self.tables.table(request), _OF_ROWS)


def marked(rows: Rows, others: Rows, keys: Sequence[str], name: str, is_unique: bool = False) -> Rows:
    """The rows with a column ``name``: true where a row of ``others`` has the same ``keys``, else null. ``is_unique``:
    no two rows of ``others`` have the same keys."""
    schema = pa.schema([*map(others.schema.field, keys), (name, pa.bool_())])

    def marks_of(batch: pa.RecordBatch) -> pa.RecordBatch:
        unique = pa.table(batch).group_by([*keys]).aggregate([]).select([*keys])
        return joined(unique.append_column(schema.field(name), pa.repeat(True, len(unique))).to_batches(), schema)

    marks = others.where(lambda batch: batch[keys[0]].is_valid()).map(marks_of, schema)
    return rows.with_column_of(marks if is_unique else marks.reduce_by_key(keys, [], marks_of), keys, name)


def _either(rows: Rows) -> Rows:
    is_marked = rows.where(lambda batch: pc.or_(pc.is_valid(batch[_RECORD]), pc.is_valid(batch[_TRANSACTION])))
    return is_marked.drop(_RECORD).drop(_TRANSACTION)


# --- times ------------------------------------------------------------------------------------------------------------

DATED: Final = "_ended"
"""The column that :func:`dated` adds."""
_ENDED: Final = pa.schema([("transaction_id", pa.string()), (DATED, model.TRANSACTIONS.field("ended_at").type)])


def dated(rows: Rows, other: Other) -> Rows:
    """Events or changes with the end of their transaction, or its begin, in the column :data:`DATED`."""
    times = other("transactions", ["transaction_id", "began_at", "ended_at"])
    return rows.with_column_of(times.map(_ends, _ENDED), ["transaction_id"], DATED)


def _ends(batch: pa.RecordBatch) -> pa.RecordBatch:
    ended = pc.coalesce(batch["ended_at"], batch["began_at"])
    return pa.RecordBatch.from_arrays([batch["transaction_id"], ended], schema=_ENDED)


def time_of(batch: pa.RecordBatch) -> pa.Array:
    """The time of each row of :func:`dated`: its own, else that of its commit, else the end of its transaction, else
    its begin; null if all are unknown."""
    return pc.coalesce(*[batch[name] for name in ("changed_at", "committed_at", DATED) if name in batch.schema.names])
