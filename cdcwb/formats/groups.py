"""Aggregates Arrow rows in groups: the records of each transaction."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import as_array
from cdcwb.formats.kernels import Bools, Ints

RANGE: Final = pa.struct([("first", pa.int64()), ("last", pa.int64())])
"""A range of numbers."""


def distinct(number: Ints, texts: pa.Array, count: int, weights: Ints | None = None) -> tuple[pa.Array, pa.Array, Ints]:
    """The distinct texts of each of ``count`` groups in name order, as texts and offsets; and the count of each, or the
    sum of its ``weights``."""
    coded = texts.dictionary_encode()
    ranks = np.argsort(np.argsort(np.array(coded.dictionary.to_pylist(), object), kind="stable"), kind="stable")
    sorted_texts = coded.dictionary.take(pc.sort_indices(coded.dictionary))
    size = max(1, len(sorted_texts))
    codes = number * size + ranks[coded.indices.to_numpy()]
    keys, place, times = np.unique(codes, return_inverse=True, return_counts=True)
    if weights is not None:
        times = np.zeros(len(keys), np.int64)
        np.add.at(times, place, weights)
    ends = np.searchsorted(keys, np.arange(count + 1) * size)
    return sorted_texts.take(pa.array(keys % size)), pa.array(ends.astype(np.int32)), times


class Groups:
    """Records by transaction (or another text column, ``by``): ``names`` are those of the transactions; values of
    records are aggregated for each of them, null if none of its records has a value."""

    def __init__(self, records: pa.Table, by: str = "transaction_id") -> None:
        records = records.combine_chunks()
        named = one_chunk(records[by]).dictionary_encode()
        self.names: pa.Array = named.dictionary
        number = named.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        order = np.argsort(number, kind="stable")
        self._number = number[order]
        self._starts = np.flatnonzero(np.diff(self._number, prepend=-1))
        self._records = records.take(pa.array(order))

    def __len__(self) -> int:
        return len(self.names)

    def column(self, name: str, rows: Bools | None = None) -> pa.Array:
        """A column of the records; null for others than ``rows``."""
        values = one_chunk(self._records[name])
        return values if rows is None else pc.if_else(pa.array(rows), values, None)

    def are(self, *kinds: str) -> Bools:
        """A mask of records of these kinds."""
        return as_array(pc.is_in(self.column("kind"), pa.array([str(kind) for kind in kinds])))

    def some(self, rows: Bools) -> pa.Array:
        """Whether one of its records is among these."""
        return pa.array(np.logical_or.reduceat(rows, self._starts))

    def sum(self, values: pa.Array) -> pa.Array:
        """The sum of its numbers."""
        return pa.array(np.add.reduceat(pc.fill_null(values, 0).to_numpy(zero_copy_only=False), self._starts))

    def least(self, values: pa.Array) -> pa.Array:
        """The first of its texts or times."""
        return self._first(values, "ascending")

    def greatest(self, values: pa.Array) -> pa.Array:
        """The last of its texts or times."""
        return self._first(values, "descending")

    def _first(self, values: pa.Array, order: str) -> pa.Array:
        rank = pc.rank(values, sort_keys=order, tiebreaker="first").to_numpy().astype(np.int64)
        row_of = np.empty(len(values), np.int64)
        row_of[rank - 1] = np.arange(len(values))
        return values.take(pa.array(row_of[np.minimum.reduceat(rank, self._starts) - 1]))

    def lists(self, texts: pa.Array) -> pa.Array:
        """Its distinct texts, or those of its lists, in name order, as lists."""
        found, offsets, _ = self._distinct(texts)
        return pa.ListArray.from_arrays(offsets, found)

    def counts(self, texts: pa.Array) -> pa.Array:
        """Its distinct texts in name order with the count of each, or the keys of its maps with the sum of each."""
        found, offsets, counts = self._distinct(texts)
        return pa.MapArray.from_arrays(offsets, found, pa.array(counts))

    def _distinct(self, texts: pa.Array) -> tuple[pa.Array, pa.Array, Ints]:
        if pa.types.is_list(texts.type) or pa.types.is_map(texts.type):
            lists = _listed(texts)
            number, items = self._number[pc.list_parent_indices(lists).to_numpy()], pc.list_flatten(lists)
            if pa.types.is_map(texts.type):
                keys, values = items.flatten()
                return distinct(number, keys, len(self), values.to_numpy(zero_copy_only=False))
            return distinct(number, items, len(self))
        known = as_array(pc.is_valid(texts))
        return distinct(self._number[known], texts.filter(pa.array(known)), len(self))

    def ranges(self, values: pa.Array) -> pa.Array:
        """Its distinct numbers, as ranges of consecutive numbers."""
        known = as_array(pc.is_valid(values))
        of, numbers = self._number[known], values.filter(pa.array(known)).to_numpy()
        order = np.lexsort((numbers, of))
        of, numbers = of[order], numbers[order]
        starts = (np.diff(of, prepend=-1) != 0) | (np.diff(numbers, prepend=0) > 1)
        first = np.flatnonzero(starts)
        ends = np.append(first, len(numbers))[1:] - 1
        offsets = np.searchsorted(of[first], np.arange(len(self) + 1))
        both = pa.StructArray.from_arrays([pa.array(numbers[first]), pa.array(numbers[ends])], fields=list(RANGE))
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), both)

    def numbers(self, ranges: pa.Array) -> tuple[Ints, Ints, Ints]:
        """The number of distinct numbers of its ranges, the lowest and the highest (0: none)."""
        number = self._number[pc.list_parent_indices(ranges).to_numpy()]
        first, last = (one.to_numpy(zero_copy_only=False) for one in pc.list_flatten(ranges).flatten())
        order = np.lexsort((first, number))
        number, first, last = number[order], first[order], last[order]
        values, rank = np.unique(last, return_inverse=True)
        in_group = number * len(values)
        upto = values[np.maximum.accumulate(in_group + rank) - in_group]  # the highest of its group so far
        before = np.append(-(1 << 62), upto[:-1])[: len(upto)]
        before[np.diff(number, prepend=-1) > 0] = -(1 << 62)
        fresh = np.maximum(last - np.maximum(before + 1, first) + 1, 0)
        seen, lowest, highest = (np.zeros(len(self), np.int64) for _ in range(3))
        np.add.at(seen, number, fresh)
        np.maximum.at(highest, number, last)
        lowest[number[::-1]] = first[::-1]  # the first of each, which is written last
        return seen, lowest, highest


def _listed(lists: pa.Array) -> pa.Array:
    """A map as a list of pairs."""
    if not pa.types.is_map(lists.type):
        return lists
    pairs = pa.list_(pa.struct([("key", lists.type.key_type), ("value", lists.type.item_type)]))
    return lists.cast(pairs)


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """The values of a column of at most one chunk."""
    return column.chunk(0) if column.num_chunks == 1 else pa.array([], column.type)
