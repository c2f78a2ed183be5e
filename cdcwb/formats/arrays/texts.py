"""Text columns made from matrices of characters and from slices of a buffer, without a Python object per value.

A string array of Arrow is bytes with the offsets of values. With alternating start and end offsets over a buffer, every
second slot of such an array is a requested value, and the slots between are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "SMALL",
    "as_text",
    "bytes_of",
    "content_of",
    "from_matrix",
    "gather",
    "hex_digits",
    "integers",
    "interleaved",
    "slices",
    "small_numbers",
]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Offsets = npt.NDArray[np.integer]
Bools = npt.NDArray[np.bool_]

SMALL: Final = 8192
_HEX_UPPER: Final = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), dtype=np.uint16)
_HEX_LOWER: Final = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), dtype=np.uint16)


def slices(buffer: Bytes, start: Offsets, end: Offsets, null: Bools | None = None) -> pa.Array:
    """The runs ``[start, end)`` of a buffer as a binary array; null where ``null`` is true.

    ``start`` must not descend, and no run may overlap the next. The buffer must be shorter than 2 GiB.
    """
    count = len(start)
    if count == 0:
        return pa.array([], type=pa.binary())
    nulls = null is not None and bool(null.any())
    # Offsets begin at 0: Arrow 18 sends an array with another first offset with the wrong bytes.
    first = start[0]
    data = pa.py_buffer(np.ascontiguousarray(buffer[first : end[-1]]))
    start, end = start - first, end - first
    if not nulls and np.array_equal(end[:-1], start[1:]):  # nothing between them to skip
        offsets = np.append(start, end[-1]).astype(np.int32)
        return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), data])
    offsets = np.empty(2 * count, dtype=np.int32)
    offsets[0::2] = start
    offsets[1::2] = end
    laid = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), data])
    wanted = np.arange(0, 2 * count, 2)
    return laid.take(pa.array(wanted, mask=null) if nulls else pa.array(wanted))


@lru_cache(maxsize=8)
def _evens(count: int) -> Any:
    return pa.py_buffer(np.arange(0, 2 * count, 2, dtype=np.int32))


def gather(kind: pa.DataType, buffer: Bytes, start: Ints, end: Ints, valid: Bools | None) -> pa.Array:
    """The runs ``[start, end)`` of the buffer, copied out, as an array of strings or bytes.

    Runs may be in any order. The array has alternating start and end offsets over the buffer, so every second slot is a
    requested run; the last slot ends with the buffer.
    """
    count = len(start)
    offsets = np.empty(2 * count + 2, dtype=np.int32)
    # start in the lower, end in the upper half of eight bytes
    np.bitwise_or(end << 32, start, out=offsets[: 2 * count].view(np.int64))
    offsets[2 * count :] = len(buffer)
    laid = pa.Array.from_buffers(kind, 2 * count + 1, [None, pa.py_buffer(offsets), pa.py_buffer(buffer)])
    return laid.take(
        pa.Array.from_buffers(
            pa.int32(),
            count,
            [None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little")), _evens(count)],
        )
    )


def interleaved(columns: Sequence[pa.StringArray], index: Ints | None = None) -> pa.StringArray:
    """The texts of some rows (None: of all) of these columns, one row after the other."""
    if not columns:
        return pa.array([], pa.string())
    count = len(columns[0])
    rows = np.arange(count) if index is None else index
    chosen = (rows[:, None] + np.arange(len(columns)) * count).reshape(-1)
    return pa.concat_arrays(columns).take(pa.array(chosen))


def content_of(values: pa.Array) -> tuple[Bytes, Ints]:
    """The bytes of a binary or text array, concatenated, with the start of each, and the end."""
    if not len(values):
        return np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    _, edges, data = values.buffers()
    offsets = np.frombuffer(edges, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    buffer = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return buffer[offsets[0] : offsets[-1]], offsets - offsets[0]


def as_text(array: pa.Array) -> pa.Array:
    """A binary array of ASCII as a string array over the same bytes."""
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
    # one item of ``size`` bytes at every byte of the buffer, each overlapping the next
    items = np.ndarray((len(buffer) - size + 1,), dtype=f"V{size}", buffer=buffer, strides=(1,))
    there: Bytes = items[start].view(np.uint8).reshape(len(start), size)
    return there


def integers(values: Ints, null: Bools | None = None) -> pa.Array:
    """Whole numbers as decimal text; null where ``null`` is true."""
    there = values if null is None else np.where(null, 0, values)
    if len(there) and there.min() >= 0 and there.max() < SMALL:
        return small_numbers().take(pa.array(there, mask=null))
    return pc.cast(pa.array(values, mask=null), pa.string())


@cache  # made when first used: arrays that are made by an import would import pandas with them
def small_numbers() -> pa.Array:
    """The text of each number from 0 to ``SMALL``: a look-up is several times as fast as a conversion."""
    return pc.cast(pa.array(range(SMALL)), pa.string())
