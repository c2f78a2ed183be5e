"""The selected part of a capture as tables of rows, from its index.

A question that is asked of a capture (:meth:`cdcwb.Capture.rows`) is asked of a selection in the same way. Columns that
the index has are answered from it in milliseconds; others are read, and limited to the selected records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdcwb.dataset import Batches, LocalRows, Rows, schema_of
from cdcwb.index.changes import Changes
from cdcwb.index.columns import NO_TIME, Bools, Headers
from cdcwb.index.selected import Selected
from cdcwb.index.source import IndexedCapture
from cdcwb.model import PROBLEMS

__all__ = ["HeaderRows", "SelectedCapture"]

_LOCATION: Final = ("file_index", "offset")
_OF_INDEX: Final = {
    *("file_index", "offset", "position", "operation", "outcome", "schema_name", "table_name", "transaction_id"),
    *("changed_at", "committed_at", "changed_columns"),
}

T = TypeVar("T")


class SelectedCapture:
    """The capture of a selection; ``skip``: fields of the selection that are ignored.

    It answers about the selection at the time when it is made. Transactions have their ``record``, the number of their
    first record (-1 without one). What is not of the tables is that of the capture.
    """

    def __init__(self, source: IndexedCapture, selected: Selected, skip: Iterable[str] = ()) -> None:
        self._source = source
        self._selected = selected
        self._skip = tuple(skip)
        self.format = source.index.format
        self.files = source.index.files
        self.mask: Bools = selected.mask(self._skip)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source.capture, name)

    def rows(self, table: str, columns: Sequence[str]) -> Rows:
        """See :meth:`cdcwb.Capture.rows`."""
        if table == "transactions":
            return _local(self._transactions.select([*columns, "record"]))
        if table == "problems":
            return _local(self._problems.select([*columns]))
        if table != "changes":
            rows: Rows = self._source.capture.rows(table, columns)
            return rows
        if {*columns} <= _OF_INDEX:
            return HeaderRows(self.headers, schema_of("changes", columns))
        every = self._source.capture.rows("changes", [*dict.fromkeys([*columns, *_LOCATION])])
        return every.where(self._is_selected).select(columns)

    @cached_property
    def headers(self) -> SelectedHeaders:
        """The headers of the selected changes."""
        return SelectedHeaders(self._selected.changes, self.mask)

    @cached_property
    def _transactions(self) -> pa.RecordBatch:
        transactions = self._selected.changes.transactions
        numbers = self._selected.transactions(self._skip)
        return transactions.rows if len(numbers) == len(transactions) else transactions.rows.take(pa.array(numbers))

    @cached_property
    def _problems(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(self._selected.problems(), schema_of("problems", PROBLEMS.names))

    def _is_selected(self, batch: pa.RecordBatch) -> Bools:
        changes = self._selected.changes
        records = changes.record_index.exactly(*(batch[name].to_numpy() for name in _LOCATION))
        at = np.searchsorted(changes.record, records)
        at = np.minimum(at, max(len(changes) - 1, 0))
        return (changes.record[at] == records) & (records >= 0) & self.mask[at] if len(changes) else records > 0


def _local(batch: pa.RecordBatch) -> LocalRows:
    return LocalRows(lambda: iter([batch]), batch.schema)


class SelectedHeaders(Headers):
    """The headers of selected changes; their time is else that of their transaction."""

    def __init__(self, changes: Changes, mask: Bools) -> None:
        self.rows = None if mask.all() else np.flatnonzero(mask)
        self.changes = changes
        super().__init__(_Taken(changes.numbers, self.rows), changes.texts, changes.sets)
        self.at = changes.at if self.rows is None else changes.at[self.rows]

    def __len__(self) -> int:
        return len(self.changes if self.rows is None else self.rows)

    @property
    def record(self) -> npt.NDArray[np.int64]:
        """The number of the record of each."""
        return self.numbers["record"]

    @cached_property
    def position(self) -> pa.Array:  # type: ignore[override]
        """The position of each in the log."""
        texts = self.changes.record_index.columns["position"].values  # type: ignore[attr-defined]
        return texts.take(pa.array(self.record, mask=self.record < 0))

    def column(self, name: str) -> pa.Array:
        """A column of the table of changes."""
        if name == "position":
            return self.position
        if name in _LOCATION:
            return pa.array(self.changes.record_index.numbers(name)[self.record])
        if name == "schema_name":
            return pa.nulls(len(self), pa.string())
        if name == "transaction_id":
            ids = self.changes.transactions.rows[name]
            return ids.take(_codes(self.numbers["transaction"]))
        if name == "changed_columns":
            return pa.array([*self.sets], pa.list_(pa.string())).take(_codes(self.set))
        if name in ("changed_at", "committed_at"):
            times = self.numbers[name]
            return pa.array(times, mask=times == NO_TIME)
        coded = "table" if name == "table_name" else name
        return pa.array(self.texts[coded], pa.string()).take(_codes(self.codes[coded]))


def _codes(codes: npt.NDArray[Any]) -> pa.Array:
    return pa.array(codes, mask=codes < 0)


class _Taken(Mapping[str, Any]):
    """Columns at some rows, each taken when it is first used."""

    def __init__(self, columns: Mapping[str, npt.NDArray[Any]], rows: npt.NDArray[Any] | None) -> None:
        self._columns, self._rows = columns, rows
        self._taken: dict[str, npt.NDArray[Any]] = {}

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        if name not in self._taken:
            column = self._columns[name]
            self._taken[name] = column if self._rows is None else column[self._rows]
        return self._taken[name]

    def __iter__(self) -> Any:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


class HeaderRows(LocalRows):
    """Columns of selected changes; functions over headers use those of the index as they are."""

    def __init__(self, headers: SelectedHeaders, schema: pa.Schema) -> None:
        self.headers = headers
        super().__init__(self._batches, schema)

    def _batches(self) -> Batches:
        columns = [self.headers.column(field.name).cast(field.type) for field in self.schema]
        yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def fold_headers(self, ask: Callable[[Headers], T], merge: Callable[[Sequence[T]], T]) -> T:
        """See :func:`cdcwb.analysis.change_counts.of_all`."""
        return merge([ask(self.headers)] if len(self.headers) else [])
