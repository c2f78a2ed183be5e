"""Keys and images of changes as arrays: the pairs of their maps, the keys before and after a change, tables, times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.dataset import differ
from cdcwb.filters import as_flags, labels
from cdcwb.index.images import Pairs
from cdcwb.model import Operation, Outcome

K = TypeVar("K")
V = TypeVar("V")
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

IMAGES: Final = ("key", "before", "after")
MAP: Final = pa.map_(pa.string(), pa.string())


def of_table(batch: pa.RecordBatch, table: str) -> pa.RecordBatch:
    """The rows of one table."""
    return batch.filter(pc.equal(labels(batch), table))


def are_committed(batch: pa.RecordBatch) -> pa.Array:
    """Whether each change is committed; true without an outcome (full loads, event logs)."""
    return pc.fill_null(pc.equal(batch["outcome"], str(Outcome.COMMITTED)), True)


TAKEN_BACK: Final = (Outcome.ROLLED_BACK, Outcome.UNDONE, Outcome.UNDO)
"""The outcomes of changes that have no effect in the end."""
_TAKEN_BACK: Final = pa.array(map(str, TAKEN_BACK), pa.string())


def are_lasting(batch: pa.RecordBatch) -> pa.Array:
    """Whether each change was not taken back. One without its commit was not: nobody else can have changed the row."""
    return pc.invert(pc.is_in(batch["outcome"], _TAKEN_BACK))


def times(batch: pa.RecordBatch) -> pa.Array:
    """The time of the commit of each change, else its own."""
    return pc.coalesce(batch["committed_at"], batch["changed_at"])


def ranks(texts: pa.Array) -> Ints:
    """The rank of each text among the different ones, from 0."""
    coded = texts.dictionary_encode()
    rank: Ints = np.argsort(np.asarray(pc.sort_indices(coded.dictionary)))[np.asarray(coded.indices)]
    return rank


def with_image(row: Mapping[K, V], image: Mapping[K, V], is_update: bool) -> dict[K, V]:
    """The values of a row after a change with an image. An update adds to what the row has, and so does an insert of
    columns that it does not have: event logs insert one row with several records."""
    is_more = is_update or (image and row.keys().isdisjoint(image))
    return {**row, **image} if is_more else dict(image)


def maps_of(sizes: Ints, names: pa.Array, values: pa.Array, valid: Bools | None = None) -> pa.MapArray:
    """Maps of these sizes from consecutive pairs; null where ``valid`` is false."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    mask = None if valid is None else np.append(~valid, False)
    return pa.MapArray.from_arrays(pa.array(offsets, mask=mask), names, values)


def row_texts(sizes: Ints, names: pa.Array, values: pa.Array) -> pa.Array:
    """A text for the pairs of each row that no other pairs have: ``a=1,b=2``; the names of a row are in order."""

    def escaped(texts: pa.Array) -> pa.Array:
        for sign in ("\\", ",", "="):
            texts = pc.replace_substring(texts, sign, f"\\{sign}")
        return texts

    parts = pc.binary_join_element_wise(escaped(names), pc.coalesce(escaped(values), "\\N"), "=")
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), parts), ",")


@dataclass(frozen=True)
class Keys:
    """The keys of changes before and after them: ``pairs`` are those of the column ``key``, ``images`` those of the
    images before and after, ``former`` and ``latter`` the values of the key's columns in these, which have the value of
    the key where an image lacks one."""

    pairs: Pairs
    images: tuple[Pairs, Pairs]
    former: pa.Array
    latter: pa.Array
    moved: Bools
    """Whether each change is an update of its row's key."""

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> Keys:
        """``batch`` has operation, key, before and after."""
        pairs = Pairs(batch["key"])
        images = Pairs(batch["before"]), Pairs(batch["after"])
        former, latter = (cls._values(pairs, image) for image in images)
        changed = np.bincount(pairs.rows[differ(former, latter)], minlength=pairs.count) > 0
        is_update = pc.and_(pc.equal(batch["operation"], str(Operation.UPDATE)), batch["before"].is_valid())
        return cls(pairs, images, former, latter, changed & as_flags(is_update))

    @staticmethod
    def _values(pairs: Pairs, image: Pairs) -> pa.Array:
        at = image.find(pairs.rows, pairs.names)
        return pc.if_else(pa.array(at >= 0), image.take(at), pairs.values)

    @cached_property
    def _by_name(self) -> pa.Array:
        """The order of the pairs by row and name."""
        return pa.array(np.lexsort((ranks(self.pairs.names), self.pairs.rows)).astype(np.int64))

    @property
    def names(self) -> pa.Array:
        """The names of the columns of each key in name order, as a text."""
        offsets = np.concatenate([[0], np.cumsum(self.pairs.sizes)]).astype(np.int32)
        return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), self.pairs.names.take(self._by_name)), "\0")

    def texts(self, values: pa.Array) -> pa.Array:
        """A text for each key with these values of its columns."""
        order = self._by_name
        return row_texts(self.pairs.sizes, self.pairs.names.take(order), values.take(order))
