"""Arrow maps of text to text for many records at once, without a Python object per entry.

Records whose maps have the same keys make a group. The texts of all values are in a pool; a group has the pool indexes
of the records' values for each of its keys, and at the end every entry is gathered once, in record order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays.texts import SMALL, integers, small_numbers

__all__ = ["MapBuilder", "TextPool", "lookup", "maps_of"]

Ints = npt.NDArray[np.int64]


class TextPool:
    """A pool of concatenated texts. It begins with the decimal texts of small numbers, each at its own index."""

    def __init__(self) -> None:
        self._arrays: list[pa.Array] = [small_numbers()]
        self._ends = [SMALL]

    def add(self, texts: pa.Array) -> Ints:
        """Adds texts; returns their indexes."""
        first = self._ends[-1]
        if len(texts):
            self._arrays.append(texts)
            self._ends.append(first + len(texts))
        return np.arange(first, self._ends[-1])

    def add_integers(self, values: Ints) -> Ints:
        """The index of the decimal text of each number."""
        if len(values) and (int(values.min()) < 0 or int(values.max()) >= SMALL):
            return self.add(integers(values))
        return values

    def gather(self, places: npt.NDArray[np.int32]) -> pa.Array:
        """The texts at some indexes; without a copy if these are exactly texts that were added together."""
        if not len(places):
            return pa.array([], pa.string())
        first = bisect_right(self._ends, int(places.min()))
        last = bisect_right(self._ends, int(places.max()))
        start = self._ends[first - 1] if first else 0
        arrays = self._arrays[first : last + 1]
        texts = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
        if len(places) == len(texts) and _begins_at_zero(texts):
            every = np.arange(start, start + len(places), dtype=np.int32)
            if np.array_equal(places, every):
                return texts
        return texts.take(pa.array(places - np.int32(start)))


def _begins_at_zero(texts: pa.StringArray) -> bool:
    """Whether the offsets of an array's texts begin at 0; Arrow 18 sends others incorrectly."""
    return texts.offset == 0 and int(np.frombuffer(texts.buffers()[1], np.int32, 1)[0]) == 0


class MapBuilder:
    """The maps of ``count`` records, with values from ``pool``; null for a record without a group."""

    def __init__(self, count: int, pool: TextPool) -> None:
        self._group_of = np.zeros(count, dtype=np.int64)
        self._pool = pool
        self._keys: list[list[bytes]] = [[]]
        self._members: list[tuple[Ints, npt.NDArray[np.integer]]] = []

    def group(self, records: Ints, keys: Sequence[str], values: npt.NDArray[np.integer]) -> None:
        """Records with these keys; ``values`` has a row for each, with the indexes of its values."""
        self._group_of[records] = len(self._keys)
        self._keys.append([key.encode() for key in keys])
        self._members.append((records, values))

    def build(self) -> pa.Array:
        """The maps, in record order."""
        sizes = np.array([len(keys) for keys in self._keys])
        offsets = np.zeros(len(self._group_of) + 1, dtype=np.int32)
        np.cumsum(sizes[self._group_of], out=offsets[1:])
        lengths, places = np.empty((2, int(offsets[-1])), dtype=np.int32)
        for keys, (records, values) in zip(self._keys[1:], self._members, strict=True):
            if keys and len(records):
                of_keys = np.array([[len(key) for key in keys]], dtype=np.int32)
                _rows_at(lengths, len(keys))[offsets[records]] = _rows_at(of_keys, len(keys))
                _rows_at(places, len(keys))[offsets[records]] = _rows_at(values.astype(np.int32), len(keys), len(keys))
        return pa.MapArray.from_arrays(
            pa.array(offsets, mask=np.append(self._group_of == 0, False)),
            self._key_texts(lengths),
            self._pool.gather(places),
        )

    def _key_texts(self, lengths: npt.NDArray[np.int32]) -> pa.Array:
        """The keys of all entries: those of a record are copied together, and split by their lengths."""
        groups = self._group_of[self._group_of > 0]
        joined = pa.array([b"".join(keys) for keys in self._keys], pa.binary()).take(pa.array(groups))
        offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
        np.cumsum(lengths, out=offsets[1:])
        return pa.Array.from_buffers(pa.string(), len(lengths), [None, pa.py_buffer(offsets), joined.buffers()[2]])


def _rows_at(numbers: npt.NDArray[np.int32], width: int, step: int = 1) -> npt.NDArray[np.void]:
    """Runs of ``width`` numbers as one item each, from every ``step``-th number on, to copy them together."""
    count = (numbers.size - width) // step + 1
    return np.ndarray((count,), dtype=f"V{4 * width}", buffer=numbers, strides=(4 * step,))


def maps_of(keys: Sequence[str], values: pa.StringArray, chosen: npt.NDArray[np.bool_]) -> pa.MapArray:
    """Maps with the same keys for the ``chosen`` records, null for the others; ``values`` are in record order."""
    count, size = int(np.count_nonzero(chosen)), len(keys)
    offsets = np.zeros(len(chosen) + 1, dtype=np.int32)
    np.cumsum(chosen * size, out=offsets[1:])
    joined = "".join(keys).encode()
    ends = np.cumsum([len(key.encode()) for key in keys], dtype=np.int64)
    edges = np.zeros(count * size + 1, dtype=np.int32)
    edges[1:] = (np.arange(count)[:, None] * len(joined) + ends).reshape(-1)
    texts = pa.Array.from_buffers(pa.string(), count * size, [None, pa.py_buffer(edges), pa.py_buffer(joined * count)])
    return pa.MapArray.from_arrays(pa.array(offsets, mask=np.append(~chosen, False)), texts, values)


def lookup(maps: pa.MapArray, key: str) -> pa.Array:
    """The value of a key in each map, null for none; several times as fast as Arrow's where all have the same keys in
    the same order."""
    offsets = maps.offsets.to_numpy()
    size = int(offsets[1] - offsets[0]) if len(maps) else 0
    if size and (np.diff(offsets) == size).all():
        first = maps.keys.slice(offsets[0], size).to_pylist()
        at = pa.array(offsets[:-1] + (first.index(key) if key in first else 0))
        if pc.all(pc.equal(maps.keys.take(at), key)).as_py():
            return maps.items.take(at)
    return pc.map_lookup(maps, key, "first")
