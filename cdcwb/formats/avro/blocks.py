"""Readers of arrays and maps: blocks of items, each with its count in front (:mod:`cdcwb.formats.avro.walk`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

from cdcwb.formats.avro.columns import bitmap
from cdcwb.formats.avro.compound import Compound
from cdcwb.formats.avro.cursors import Bools, Cursors, Ints
from cdcwb.formats.avro.leaves import Reader

__all__ = ["Entries", "Items"]

_FEW: Final = 24
"""Rows for which another step over all of them costs more than to read them one by one."""

_STEPS: Final = 16
"""Items up to which no row is given up."""

_CHUNKS: Final = 256
"""Steps whose items are put together, since small arrays take more memory than what is in them."""


class Items(Compound):
    """Items in blocks: the next item of all rows that have one, again and again."""

    def __init__(self, kind: pa.DataType, items: Reader, least: int) -> None:
        self.type = kind
        self._items = items
        self._least = least

    def read_all(self, cursors: Cursors) -> pa.Array:
        """Reads all rows."""
        valid = cursors.live
        chunks, rows = self._each(cursors, self._items.read)
        return self._build(cursors, chunks, rows, valid)

    def _build(self, cursors: Cursors, chunks: list[pa.Array], rows: list[Ints], valid: Bools | None) -> pa.Array:
        owners = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
        items = pa.concat_arrays(chunks) if chunks else pa.nulls(0, self._items.type)
        if len(chunks) > 1:
            items = items.take(pa.array(np.argsort(owners, kind="stable")))
        offsets = np.zeros(len(cursors) + 1, dtype=np.int32)
        np.cumsum(np.bincount(owners, minlength=len(cursors)), out=offsets[1:])
        buffers = [bitmap(valid), pa.py_buffer(offsets)]
        return pa.Array.from_buffers(self.type, len(cursors), buffers, children=[items])

    def skip_all(self, cursors: Cursors) -> None:
        """Skips all rows. The size of a block is not believed: it may be wrong."""
        self._each(cursors, None)

    def _each(
        self, cursors: Cursors, read: Callable[[Cursors, Bools | None], pa.Array] | None
    ) -> tuple[list[pa.Array], list[Ints]]:
        """The first items of all rows, the second, …, and the rows that have them; None: skips them."""
        chunks: list[pa.Array] = []
        owners: list[Ints] = []
        left, stop = self._block(cursors)
        rows = np.flatnonzero(left)
        left, stop = left[rows], stop[rows]
        part = cursors.part(rows)
        step = 0
        while len(rows):
            if step >= _STEPS and len(rows) < _FEW:
                part.hand_over(np.ones(len(rows), dtype=np.bool_))
                cursors.join(part, rows)
                break
            if read is None:
                self._items.skip(part, None)
            else:
                chunks.append(read(part, None))
                owners.append(rows)
                if step % _CHUNKS == _CHUNKS - 1:
                    chunks[-_CHUNKS:] = [pa.concat_arrays(chunks[-_CHUNKS:])]
                    owners[-_CHUNKS:] = [np.concatenate(owners[-_CHUNKS:])]
            step += 1
            left -= 1
            ended = np.flatnonzero(left == 0)
            if len(ended):
                few = part.part(ended)
                if read is not None:
                    wrong = (stop[ended] >= 0) & (stop[ended] != few.at)
                    if wrong.any():
                        few.fail(wrong)
                left[ended], stop[ended] = self._block(few)
                part.join(few, ended)
            stay = left > 0 if part.live is None else (left > 0) & part.live
            if not stay.all():
                cursors.join(part, rows)
                rows, left, stop = rows[stay], left[stay], stop[stay]
                part = cursors.part(rows)
        return chunks, owners

    def _block(self, cursors: Cursors) -> tuple[Ints, Ints]:
        """How many items the next block of each row has, and where it has to end (-1: it does not say)."""
        counts = cursors.numbers()
        stop = np.full(len(counts), -1, dtype=np.int64)
        if counts.min(initial=0) < 0:
            rows = np.flatnonzero(counts < 0)
            few = cursors.part(rows)
            sizes = few.numbers()
            stop[rows] = few.at + np.clip(sizes, -1, len(few.buffer))
            cursors.join(few, rows)
            counts[rows] *= -1
        most = (cursors.end - cursors.at) // max(self._least, 1)
        too_many = (counts < 0) | (counts > most)
        if self._least == 0:
            cursors.hand_over(counts != 0)
        elif too_many.any():
            cursors.fail(too_many)
        return (counts if cursors.live is None else np.where(cursors.live, counts, 0)), stop


class Entries(Items):
    """Keys and values in blocks. A key that repeats counts as its last: such rows are left to the slow path."""

    def _build(self, cursors: Cursors, chunks: list[pa.Array], rows: list[Ints], valid: Bools | None) -> pa.Array:
        if len(chunks) > 1:
            owners = np.concatenate(rows)
            keys = pa.concat_arrays([chunk.field(0) for chunk in chunks]).dictionary_encode()
            codes = keys.indices.fill_null(0).to_numpy().astype(np.int64)
            pairs, counts = np.unique(owners * max(len(keys.dictionary), 1) + codes, return_counts=True)
            if len(pairs) < len(owners):
                repeated = np.zeros(len(cursors), dtype=np.bool_)
                repeated[pairs[counts > 1] // len(keys.dictionary)] = True
                cursors.hand_over(repeated)
        return super()._build(cursors, chunks, rows, valid)
