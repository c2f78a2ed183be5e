"""The selected part of a capture as tables of rows, from its index.

A question that is asked of a capture (:meth:`cdcwb.Capture.rows`) is asked of a selection in the same way. Columns that
the index has are answered from it in milliseconds; others are read, and limited to the selected records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdcwb.dataset import Batches, Rows, schema_of
from cdcwb.index.changes import EVERY, KEYS, Changes
from cdcwb.index.columns import NO_TIME, TEXTS, Bools, Headers
from cdcwb.index.selected import Selected
from cdcwb.index.source import IndexedCapture
from cdcwb.model import PROBLEMS

_LOCATION: Final = ("file_index", "offset")
_TEXTS: Final = {column: name for name, column in TEXTS.items()} | {"table_name": "table", "file": "file"}
_OF_INDEX: Final = {
    *("file_index", "offset", "position", "schema_name", "transaction_id", "changed_at", "committed_at"),
    *("changed_columns", *_TEXTS),
}
_OF_HEADERS: Final = _OF_INDEX | {"key", "after"}
"""The columns that headers describe; of key and after they have the names of columns, and which are NULL."""

T = TypeVar("T")


class SelectedCapture:
    """The capture of a selection, which no later step changes.

    Transactions have their ``record``, the number of their first record (-1 without one). What is not of the tables is
    that of the capture.
    """

    def __init__(self, source: IndexedCapture, selected: Selected) -> None:
        self._source = source
        self._selected = selected
        self.selection = selected.selection
        self.format = source.index.format
        self.files = source.index.files
        self.answers: dict[str, Any] = {}
        self.mask: Bools = selected.mask()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source.capture, name)

    def rows(self, table: str, columns: Sequence[str]) -> Rows:
        """See :meth:`cdcwb.Capture.rows`."""
        if table == "transactions":
            return Rows.of(pa.table({name: self._transactions[name] for name in (*columns, "record")}))
        if table == "problems":
            return Rows.of(self._problems.select([*columns]))
        if table != "changes":
            rows: Rows = self._source.capture.rows(table, columns)
            return rows
        if {*columns} <= _OF_HEADERS:
            return HeaderRows(self.headers, schema_of("changes", columns), lambda: self._read(columns))
        return self._read(columns)

    def _read(self, columns: Sequence[str]) -> Rows:
        every: Rows = self._source.capture.rows("changes", [*dict.fromkeys([*columns, *_LOCATION])])
        return every.where(self._is_selected).select(columns)

    @property
    def changed_keys(self) -> pa.RecordBatch:
        """The updates that changed their key, in capture order: :data:`cdcwb.index.changes.KEYS`, and the number of
        each ``row`` in the headers."""
        keys, headers = self._selected.changes.keys, self.headers
        change = np.asarray(keys["change"])
        rows = change if headers.rows is None else np.searchsorted(headers.rows, change)
        selected = np.flatnonzero(self.mask[change])
        taken = keys.select([*KEYS]).take(pa.array(selected))
        return taken.append_column("row", pa.array(rows[selected]))

    @cached_property
    def headers(self) -> SelectedHeaders:
        """The headers of the selected changes."""
        return SelectedHeaders(self._selected.changes, self.mask)

    @cached_property
    def _transactions(self) -> _Taken[pa.Array]:
        transactions, numbers = self._selected.changes.transactions, self._selected.transactions()
        rows = None if len(numbers) == len(transactions) else pa.array(numbers)
        return _Taken(transactions.rows, lambda column: column if rows is None else column.take(rows))

    @cached_property
    def _problems(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(self._selected.problems(), schema_of("problems", PROBLEMS.names))

    def _is_selected(self, batch: pa.RecordBatch) -> Bools:
        changes = self._selected.changes
        records = changes.record_index.in_turn(*(batch[name].to_numpy() for name in _LOCATION))
        at = np.searchsorted(changes.record, records)
        at = np.minimum(at, max(len(changes) - 1, 0))
        return (changes.record[at] == records) & (records >= 0) & self.mask[at] if len(changes) else records > 0


class SelectedHeaders(Headers):
    """The headers of selected changes; their time is else that of their transaction."""

    def __init__(self, changes: Changes, mask: Bools) -> None:
        self.rows = None if mask.all() else np.flatnonzero(mask)
        self.changes = changes
        rows = EVERY if self.rows is None else self.rows
        super().__init__(_Taken(changes.numbers, lambda column: column[rows]), changes.texts, changes.sets)
        self.at = changes.at[rows]

    def __len__(self) -> int:
        return len(self.changes if self.rows is None else self.rows)

    @property
    def record(self) -> npt.NDArray[np.int64]:
        """The number of the record of each."""
        return self.numbers["record"]

    @cached_property
    def position(self) -> pa.Array:  # type: ignore[override]
        """The position of each in the log."""
        return self.column("position")

    def in_order(self, mask: Bools) -> npt.NDArray[np.int64]:
        """See :class:`Headers`."""
        return np.flatnonzero(mask)

    def column(self, name: str, rows: npt.NDArray[np.int64] | slice = EVERY) -> pa.Array:
        """The values of some rows in a column of the table of changes."""
        records, record = self.changes.record_index, self.record[rows]
        if name == "position":
            texts = records.columns["position"].values  # type: ignore[attr-defined]
            return texts.take(pa.array(record, mask=record < 0))
        if name in _LOCATION:
            return pa.array(records.numbers(name)[record])
        if name == "schema_name":
            return pa.nulls(len(record), pa.string())
        if name == "transaction_id":
            return self.changes.transactions.rows[name].take(_codes(self.numbers["transaction"][rows]))
        if name == "changed_columns":
            return pa.array([*self.sets], pa.list_(pa.string())).take(_codes(self.set[rows]))
        if name in ("changed_at", "committed_at"):
            times = self.numbers[name][rows]
            return pa.array(times, mask=times == NO_TIME)
        return pa.array(self.texts[_TEXTS[name]], pa.string()).take(_codes(self.codes[_TEXTS[name]][rows]))


def _codes(codes: npt.NDArray[Any]) -> pa.Array:
    return pa.array(codes, mask=codes < 0)


class _Taken(dict[str, T]):
    """Columns at some rows, each taken when it is first used."""

    def __init__(self, columns: Mapping[str, T] | pa.RecordBatch, take: Callable[[T], T]) -> None:
        self._columns, self._take = columns, take

    def __missing__(self, name: str) -> T:
        self[name] = self._take(self._columns[name])
        return self[name]


class HeaderRows(Rows):
    """Columns of selected changes; functions over headers use those of the index as they are. ``every`` gives the same
    rows with images, which only columns that headers do not have need."""

    def __init__(self, headers: SelectedHeaders, schema: pa.Schema, every: Callable[[], Rows]) -> None:
        self.headers = headers
        self._every = every
        super().__init__(self._batches, schema)

    def _batches(self) -> Batches:
        if not {*self.schema.names} <= _OF_INDEX:
            yield from self._every().batches()
            return
        columns = [self.headers.column(field.name).cast(field.type) for field in self.schema]
        yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
