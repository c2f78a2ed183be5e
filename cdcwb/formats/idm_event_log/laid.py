"""Text columns as the bytes they lie in."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Bools", "Bytes", "Ints", "distinct", "laid", "ranges", "rows_of"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def laid(texts: pa.StringArray) -> tuple[Bytes, Ints]:
    """The UTF-8 bytes of the texts one behind the other, and where each begins, with the end as one more place. A null
    has no bytes."""
    given = pc.fill_null(texts, "") if texts.null_count else texts
    count = len(given)
    data = given.buffers()[2]
    if not count or data is None:
        return np.empty(0, np.uint8), np.zeros(count + 1, np.int64)
    offsets = np.frombuffer(given.buffers()[1], np.int32)[given.offset : given.offset + count + 1].astype(np.int64)
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]], offsets - offsets[0]


def rows_of(places: Ints, offsets: Ints) -> Ints:
    """The text in which each place of the bytes lies."""
    found: Ints = np.searchsorted(offsets[1:], places, side="right")
    return found


def ranges(first: Ints, counts: Ints) -> Ints:
    """``first[0], first[0] + 1, …`` (``counts[0]`` of them), ``first[1], …``, one behind the other."""
    ends = np.cumsum(counts)
    found: Ints = np.repeat(first - (ends - counts), counts) + np.arange(int(ends[-1]) if len(ends) else 0)
    return found


def distinct(texts: pa.StringArray) -> tuple[list[str], Ints]:
    """The different texts, and for each text which of them it is; there must be no null."""
    encoded = texts.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
