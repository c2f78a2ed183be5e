"""Images of changes as arrays: the pairs of a column of maps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.filters import as_flags

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Pairs:
    """The pairs of a column of maps, row by row: ``rows`` (their numbers), ``names`` and ``values``."""

    def __init__(self, maps: pa.MapArray) -> None:
        offsets = np.asarray(maps.offsets)
        self.count = len(maps)
        self.sizes = np.where(as_flags(maps.is_valid()), np.diff(offsets), 0).astype(np.int64)
        self.rows: Ints = np.repeat(np.arange(self.count), self.sizes)
        first, last = int(offsets[0]), int(offsets[-1])
        self.names: pa.Array = maps.keys.slice(first, last - first)
        self.values: pa.Array = maps.items.slice(first, last - first)
        if len(self.rows) < last - first:  # null maps may have pairs
            is_valid = pa.array(np.repeat(self.sizes > 0, np.diff(offsets)))
            self.names, self.values = self.names.filter(is_valid), self.values.filter(is_valid)

    @cached_property
    def coded(self) -> pa.DictionaryArray:
        """The names as codes of the different ones."""
        return self.names.dictionary_encode()

    def find(self, rows: Ints, names: pa.Array) -> Ints:
        """For each of some rows and names the number of its pair; -1 if the row has no such name."""
        if not len(rows):
            return np.zeros(0, np.int64)
        known = self.coded.dictionary
        codes = np.asarray(pc.index_in(names, value_set=known).fill_null(-1))
        is_wanted = np.zeros(len(known) + 1, np.bool_)
        is_wanted[codes[codes >= 0]] = True
        of_pairs = np.asarray(self.coded.indices)
        pairs = np.flatnonzero(is_wanted[of_pairs])  # of these names
        if not len(pairs):
            return np.full(len(rows), -1)
        numbers = self.rows[pairs] * len(known) + of_pairs[pairs]  # a row and a name as one number
        order = np.argsort(numbers, kind="stable")
        numbers = numbers[order]
        wanted = np.where(codes < 0, -1, rows * len(known) + codes)
        at = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
        return np.where(numbers[at] == wanted, pairs[order][at], -1)

    def of_column(self, name: str) -> tuple[Bools, pa.Array]:
        """Whether each row has a column, and its value there; null where it has none."""
        at = self.find(np.arange(self.count), pa.repeat(name, self.count))
        return at >= 0, self.take(at)

    def take(self, at: Ints) -> pa.Array:
        """The values of pairs by number; null for -1."""
        return self.values.take(pa.array(at, mask=at < 0))

    def have(self, values: Sequence[tuple[str, Sequence[str | None]]]) -> Bools:
        """Whether each row has, for each of some columns, one of the values."""
        found = np.ones(self.count, np.bool_)
        for name, known in values:
            fits = pc.and_(pc.equal(self.names, name), pc.is_in(self.values, value_set=pa.array(known, pa.string())))
            found &= np.bincount(self.rows[as_flags(fits)], minlength=self.count) > 0
        return found
