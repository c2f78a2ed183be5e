"""Columns of a table as numpy vectors, and texts by value, for the stages of publishing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Bools", "Ints", "Texts", "coded", "codes", "flags", "numbers", "put", "said_of", "sentence", "whole"]

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Texts: TypeAlias = pa.StringArray | pa.ChunkedArray


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def numbers(column: pa.Array | pa.ChunkedArray, missing: int = 0) -> Ints:
    """Whole numbers, with ``missing`` for null."""
    return np.asarray(pc.fill_null(column, missing).to_numpy(), dtype=np.int64)


def flags(column: pa.Array | pa.ChunkedArray) -> Bools:
    """Truth values; null is false."""
    filled = pc.fill_null(column, False)
    return np.asarray(filled.to_numpy(zero_copy_only=False) if isinstance(filled, pa.Array) else filled.to_numpy())


def coded(column: Texts) -> tuple[Ints, pa.Array]:
    """A number for each text, the same for equal ones, and the text of each number from 0. Null has -1."""
    if isinstance(column, pa.ChunkedArray):
        parts = pc.dictionary_encode(column).unify_dictionaries().chunks
        if not parts:
            return np.zeros(0, dtype=np.int64), pa.array([], pa.string())
        return np.concatenate([numbers(part.indices, -1) for part in parts]), parts[0].dictionary
    encoded = column.dictionary_encode()
    return numbers(encoded.indices, -1), encoded.dictionary


def codes(*columns: Texts) -> Ints:
    """A number for each row, the same where all columns have equal texts; null equals null."""
    found: Ints | None = None
    for column in columns:
        code, texts = coded(column)
        found = code if found is None else _small(found) * (len(texts) + 1) + code + 1
    return np.zeros(0, dtype=np.int64) if found is None else found


def _small(values: Ints) -> Ints:
    """The same equalities with numbers below the count of rows, so that a product cannot overflow."""
    if len(values) == 0 or (values.max() < len(values) and values.min() >= 0):
        return values
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def said_of(column: Texts, say: Callable[[str | None], str | None]) -> pa.Array:
    """What ``say`` makes of each value, asked once for each that is different."""
    code, texts = coded(column)
    said = pa.array([*(say(text) for text in texts.to_pylist()), say(None)], pa.string())
    return said.take(pa.array(np.where(code < 0, len(texts), code)))


def sentence(*parts: str | pa.Array) -> pa.Array:
    """The parts of each row, texts and arrays of texts, one behind the other."""
    return pc.binary_join_element_wise(*(pa.scalar(part) if isinstance(part, str) else part for part in parts), "")


def put(column: pa.Array | pa.ChunkedArray, where: Bools, values: pa.Array | pa.Scalar) -> pa.Array:
    """The column with other values in the rows ``where``: as many values as such rows, in their order, or one."""
    if not where.any():
        return whole(column)
    return pc.replace_with_mask(whole(column), pa.array(where), values)
