"""Which records change which row: computed once for each table, and stored with the index."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.keys import FACTS, InferredKey, infer_keys
from cdcwb.dataset import LocalRows
from cdcwb.explore.search import LOCATION, each_batch
from cdcwb.filters import Comparison, holds, mask_of_texts
from cdcwb.index.columns import Bools
from cdcwb.index.record_index import RecordIndex
from cdcwb.index.source import IndexedCapture
from cdcwb.index.store import Entry
from cdcwb.model import CHANGES

__all__ = ["ROW", "FollowedRows"]


ROW: Final = "row"
"""The column of row keys, for tables whose rows were requested."""

_KEYS: Final = "rows-"
"""The beginning of the names of stored keys."""

_FEW: Final = 1_000_000
"""Saved changes that are read in this process."""


class FollowedRows:
    """The rows that records change, as a column of filters: ``EMPNO=7839``, or ``a=1+b=2``.

    A record that changes a key belongs to the row with the old key and to the row with the new one. If no change of a
    table has a key, the key is inferred (:func:`cdcwb.analysis.keys.infer_keys`); ``inferred``: a sentence about that,
    by table.
    """

    kind = "text"

    def __init__(self, source: IndexedCapture) -> None:
        self._source = source
        self._index: RecordIndex = source.index
        self._tables: dict[str, tuple[npt.NDArray[np.int64], pa.Array]] = {}
        self.inferred: dict[str, str] = {}
        for name in self._index.store.names(_KEYS):
            if (entry := self._index.store.read(name)) is not None:
                self._take(entry)

    def value(self, row: int) -> str | None:
        """The row that a record changes, if known; the key before the change is preferred."""
        return next((key for table in self._tables for key in self._keys(table, row)), None)

    def compare(self, sign: str, value: Any) -> Bools:
        """See :class:`cdcwb.index.columns.Column`."""
        mask = np.zeros(self._index.records, np.bool_)
        for numbers, keys in self._tables.values():
            mask[numbers if value is None else numbers[mask_of_texts(keys, sign, value)]] = True
        return ~mask if value is None else mask

    def keys_of(self, table: str, row: int) -> list[str]:
        """The rows of a table that a record changes: none if its key is unknown, two if it changes the key. The first
        call for a table reads its changes."""
        if table not in self._tables:
            self._learn(table)
        return self._keys(table, row)

    def _keys(self, table: str, row: int) -> list[str]:
        numbers, keys = self._tables[table]
        first, last = np.searchsorted(numbers, row), np.searchsorted(numbers, row, side="right")
        changed: list[str] = pc.unique(keys.slice(int(first), int(last - first))).to_pylist()
        return changed

    def _learn(self, table: str) -> None:
        keyed = self._each(_keyed, table)
        inferred = None if keyed.num_rows else self._inferred(table)
        sentence = ""
        if inferred is not None:
            keyed = self._each(partial(_keyed, column=inferred.column), table)
            sentence = f"The key of {inferred.table} is inferred, as no change has one: {inferred.evidence}."
        rows = self._index.exactly(*(keyed[name].to_numpy() for name in LOCATION))
        order = np.argsort(rows, kind="stable")[int((rows < 0).sum()) :]
        keys = keyed["key"].combine_chunks().cast(pa.large_string()).take(pa.array(order))
        stored = pa.table({"row": pa.array(rows[order]), "key": keys})
        name = f"{_KEYS}{hashlib.sha256(table.encode()).hexdigest()[:16]}"
        self._take(self._index.store.write(name, {"keys": stored}, {"table": table, "inferred": sentence}))

    def _take(self, entry: Entry) -> None:
        rows, table = entry.tables["keys"], entry.facts["table"]
        self._tables[table] = (rows["row"].to_numpy(), rows["key"])
        if entry.facts["inferred"]:
            self.inferred[table] = entry.facts["inferred"]

    def _each(self, function: Callable[[Iterator[Row]], pa.RecordBatch], table: str) -> pa.Table:
        """A function of the changes of a table, batch by batch."""
        batches = each_batch(self._source, _READ, lambda batch: function(_rows(batch, table)), _FEW)
        return pa.Table.from_batches(batches, _KEYED)

    def _inferred(self, table: str) -> InferredKey | None:
        """The inferred key of a table (:func:`cdcwb.analysis.keys.infer_keys`)."""
        if self._source.change_batches(FACTS, _FEW) is None:
            return infer_keys(self._source.capture.rows("changes", FACTS), [table]).get(table)
        schema = pa.schema([CHANGES.field(name).remove_metadata() for name in FACTS])
        rows = LocalRows(lambda: self._source.change_batches(FACTS, _FEW) or iter(()), schema)
        return infer_keys(rows, [table]).get(table)


# --- changes of a table -----------------------------------------------------------------------------------------------

_KEYED: Final = pa.schema([("file_index", pa.int32()), ("offset", pa.int64()), ("key", pa.large_string())])
_IMAGES: Final = ("before", "key", "after")
_READ: Final = (*_IMAGES, "schema_name", "table_name", "operation", "outcome", "source_events")
Row = dict[str, Any]


def _rows(batch: pa.RecordBatch, table: str) -> Iterator[Row]:
    """The changes of a table, with images as dictionaries."""
    for row in batch.filter(pa.array(holds(Comparison("table", "==", table), batch))).to_pylist():
        yield row | {name: None if row[name] is None else dict(row[name]) for name in _IMAGES}


def _keyed(rows: Iterator[Row], column: str | None = None) -> pa.RecordBatch:
    """The records of changes that have a key, once for each row that they change. ``column``: the inferred key."""
    found = []
    for row in rows:
        if column is not None:
            image = (row["before"] if row["after"] is None else row["after"]) or {}
            row["key"] = {column: image[column]} if column in image else None
        for key in dict.fromkeys(text for name in _IMAGES if (text := _key_text(row["key"] or {}, row[name]))):
            found += [{**{name: event[name] for name in LOCATION}, "key": key} for event in row["source_events"]]
    return pa.RecordBatch.from_pylist(found, _KEYED)


def _key_text(key: Mapping[str, str | None], image: Mapping[str, str | None] | None) -> str:
    """The key columns with the values of an image; empty if it lacks one."""
    if image is None or not key.keys() <= image.keys():
        return ""
    return "+".join(f"{name}={'NULL' if image[name] is None else image[name]}" for name in key)
