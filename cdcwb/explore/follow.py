"""Which records change which row: computed once for each table, and stored with the index."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.keys import changes_of, infer_keys, with_keys
from cdcwb.explore.search import LOCATION
from cdcwb.filters import compared
from cdcwb.index.columns import Bools
from cdcwb.index.images import Pairs
from cdcwb.index.record_index import RecordIndex
from cdcwb.index.source import IndexedCapture
from cdcwb.index.store import Entry

ROW: Final = "row"
"""The column of row keys, for tables whose rows were requested."""

_KEYS: Final = "rows-"
"""The beginning of the names of stored keys."""


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
            mask[numbers if value is None else numbers[compared(keys, sign, value)]] = True
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
        capture = self._source.capture
        changes = changes_of(capture, _READ, table=table)
        keyed, sentence = changes.map(_keyed, _KEYED).table(), ""
        if all(keyed[name].null_count == len(keyed) for name in _IMAGES):
            inferred = infer_keys(capture, [table]).get(table)
            if inferred is not None:
                keyed = with_keys(changes, {table: [inferred.column]}).map(_keyed, _KEYED).table()
                sentence = f"The key of {table} is inferred, as no change has one: {inferred.evidence}."
        rows = self._index.in_turn(*(keyed[name].to_numpy() for name in LOCATION))
        keys = pa.chunked_array([chunk for name in _IMAGES for chunk in keyed[name].chunks], pa.string())
        stored = pa.table({"row": np.tile(rows, len(_IMAGES)), "key": keys.cast(pa.large_string())})
        stored = stored.filter(pc.and_(stored["key"].is_valid(), pc.greater_equal(stored["row"], 0)))
        stored = stored.take(np.argsort(stored["row"].to_numpy(), kind="stable")).combine_chunks()
        name = f"{_KEYS}{hashlib.sha256(table.encode()).hexdigest()[:16]}"
        self._take(self._index.store.write(name, {"keys": stored}, {"table": table, "inferred": sentence}))

    def _take(self, entry: Entry) -> None:
        rows, table = entry.tables["keys"], entry.facts["table"]
        self._tables[table] = (rows["row"].to_numpy(), rows["key"])
        if entry.facts["inferred"]:
            self.inferred[table] = entry.facts["inferred"]


# --- changes of a table -----------------------------------------------------------------------------------------------

_IMAGES: Final = ("before", "key", "after")
_KEYED: Final = pa.schema(
    [("file_index", pa.int32()), ("offset", pa.int64()), *((name, pa.string()) for name in _IMAGES)]
)
_READ: Final = (*_IMAGES, "schema_name", "table_name", "source_events")


def _keyed(changes: pa.RecordBatch) -> pa.RecordBatch:
    """The records of changes, and the keys of up to three rows that each changes."""
    key = Pairs(changes["key"])
    before, own, after = (_key_texts(key, Pairs(changes[image])) for image in _IMAGES)
    own = pc.if_else(_are_equal(own, before), None, own)
    after = pc.if_else(pc.or_(_are_equal(after, before), _are_equal(after, own)), None, after)
    change = pc.list_parent_indices(changes["source_events"])
    events = pc.list_flatten(changes["source_events"])
    columns = [pc.struct_field(events, name) for name in LOCATION]
    return pa.RecordBatch.from_arrays(
        [*columns, *(texts.take(change) for texts in (before, own, after))], schema=_KEYED
    )


def _are_equal(first: pa.Array, second: pa.Array) -> pa.Array:
    return pc.fill_null(pc.equal(first, second), False)


def _key_texts(key: Pairs, image: Pairs) -> pa.Array:
    """The key columns of each change with the values of an image; null without a key, or if the image lacks one."""
    at = image.find(key.rows, key.names)
    values = pc.coalesce(image.take(at), "NULL")
    texts = pc.binary_join_element_wise(key.names, values, "=")
    offsets = np.append(0, np.cumsum(key.sizes)).astype(np.int32)
    lacking = np.bincount(key.rows[at < 0], minlength=key.count) > 0
    joined_texts = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), texts), "+")
    return pc.if_else(pa.array(lacking | (key.sizes == 0)), None, joined_texts)
