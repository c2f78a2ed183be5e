"""Arrow maps of text to text for many records at once, without a Python object per entry.

Records whose maps have the same keys make a group. The texts of all values lie in a pool; a group says for each of its
keys where in the pool the records' values are, and at the end every entry is gathered once, in record order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from cdcwb.formats.gbase8s.framing import Ints
from cdcwb.formats.gbase8s.text import SMALL_NUMBERS, integers

__all__ = ["MapBuilder", "TextPool"]


class TextPool:
    """Texts laid one behind the other. It begins with the decimal texts of small numbers, each at its own place."""

    def __init__(self) -> None:
        self._arrays: list[pa.Array] = [SMALL_NUMBERS]
        self._size = len(SMALL_NUMBERS)

    def add(self, texts: pa.Array) -> Ints:
        """Adds texts; returns the place of each."""
        first = self._size
        self._arrays.append(texts)
        self._size += len(texts)
        return np.arange(first, self._size)

    def add_integers(self, values: Ints) -> Ints:
        """The place of the decimal text of each number."""
        if len(values) and (int(values.min()) < 0 or int(values.max()) >= len(SMALL_NUMBERS)):
            return self.add(integers(values))
        return values

    def gather(self, places: Ints) -> pa.Array:
        """The texts at the given places."""
        if len(self._arrays) > 1:
            self._arrays = [pa.concat_arrays(self._arrays)]
        return self._arrays[0].take(pa.array(places))


class MapBuilder:
    """The maps of ``count`` records, with values from ``pool``; null for a record that is in no group."""

    def __init__(self, count: int, pool: TextPool) -> None:
        self._sizes = np.full(count, -1, dtype=np.int64)
        self._pool = pool
        self._keys: dict[str, int] = {}
        self._groups: list[tuple[Ints, list[int], Sequence[Ints]]] = []

    def group(self, records: Ints, keys: Sequence[str], values: Sequence[Ints]) -> None:
        """Records that all have these keys; ``values`` holds, for each key, the places of the records' values."""
        self._sizes[records] = len(keys)
        self._groups.append((records, [self._keys.setdefault(key, len(self._keys)) for key in keys], values))

    def build(self) -> pa.Array:
        """The maps, in record order."""
        offsets = np.zeros(len(self._sizes) + 1, dtype=np.int64)
        np.cumsum(np.maximum(self._sizes, 0), out=offsets[1:])
        keys = np.empty(int(offsets[-1]), dtype=np.int32)
        values = np.empty(int(offsets[-1]), dtype=np.int32)
        for records, names, columns in self._groups:
            entry = offsets[records]
            for name, column in zip(names, columns, strict=True):
                keys[entry] = name
                values[entry] = column
                entry += 1
        mask = np.append(self._sizes < 0, False)
        return pa.MapArray.from_arrays(
            pa.array(offsets.astype(np.int32), mask=mask),
            pa.array(list(self._keys), pa.string()).take(pa.array(keys)),
            self._pool.gather(values),
        )
