"""Text columns made from matrices of characters and from slices of a buffer, without a Python object per value.

Arrow reads a string array as one run of bytes and the places where values begin and end. Laid over a buffer with start
and end offsets in turn, every second slot of such an array is a wanted value, and the slots between are what is
skipped.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["bytes_of", "from_matrix", "hex_digits", "slices"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_HEX_UPPER: Final = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), dtype=np.uint16)
_HEX_LOWER: Final = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), dtype=np.uint16)


def slices(buffer: Bytes, start: Ints, end: Ints, null: Bools | None = None) -> pa.Array:
    """The runs ``[start, end)`` of a buffer as a binary array; null where ``null`` is true.

    ``start`` must not fall, and no run may reach behind the start of the next. The buffer must be shorter than 2 GiB.
    """
    count = len(start)
    if count == 0:
        return pa.array([], type=pa.binary())
    offsets = np.empty(2 * count, dtype=np.int32)
    offsets[0::2] = start
    offsets[1::2] = end
    laid = pa.Array.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(buffer))]
    )
    wanted = np.arange(0, 2 * count, 2, dtype=np.int64)
    indices = pa.array(wanted, mask=null) if null is not None and null.any() else pa.array(wanted)
    return laid.take(indices)


def as_text(array: pa.Array) -> pa.Array:
    """A binary array that is known to hold ASCII, as a string array over the same bytes."""
    return array.view(pa.string())


def from_matrix(characters: Bytes, start: Ints | int, end: Ints | int, null: Bools | None = None) -> pa.Array:
    """One string per row of a matrix of ASCII characters: ``row[start:end]``; null where ``null`` is true."""
    count, width = characters.shape
    base = np.arange(count, dtype=np.int64) * width
    return as_text(slices(characters.reshape(-1), base + start, base + end, null))


def hex_digits(matrix: Bytes, *, upper: bool = False) -> Bytes:
    """Each row of bytes as twice as many hexadecimal digits."""
    pairs: Bytes = (_HEX_UPPER if upper else _HEX_LOWER)[matrix].view(np.uint8)
    return pairs


def bytes_of(buffer: Bytes, start: Ints, size: int) -> Bytes:
    """The ``size`` bytes from each start, as a matrix with a row for each."""
    if size == 0 or len(start) == 0:
        return np.empty((len(start), size), dtype=np.uint8)
    # one item of so many bytes at every byte of the buffer, each overlapping the next
    items = np.ndarray((len(buffer) - size + 1,), dtype=f"V{size}", buffer=buffer, strides=(1,))
    there: Bytes = items[start].view(np.uint8).reshape(len(start), size)
    return there


def integers(values: Ints, null: Bools | None = None) -> pa.Array:
    """Whole numbers as decimal text; null where ``null`` is true."""
    return pc.cast(pa.array(values, mask=null), pa.string())


class TextPool:
    """Text arrays laid one behind the other, so that values of many of them can be gathered in one go."""

    def __init__(self) -> None:
        self._arrays = [_SMALL]
        self._size = len(_SMALL)

    def add(self, array: pa.Array) -> Ints:
        """Adds an array; returns the place of each of its values."""
        first = self._size
        self._arrays.append(array)
        self._size += len(array)
        return np.arange(first, self._size)

    def add_integers(self, values: Ints) -> Ints:
        """The place of the decimal text of each number; small ones are there already."""
        if len(values) and (int(values.min()) < 0 or int(values.max()) >= len(_SMALL)):
            return self.add(integers(values))
        return values

    def gather(self, places: Ints) -> pa.Array:
        """The values at the given places."""
        return pa.concat_arrays(self._arrays).take(pa.array(places))


_SMALL: Final = integers(np.arange(8192))
