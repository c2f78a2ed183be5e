"""One question to all rows of a table, as a pair of functions: the answer for some rows, and several answers as one."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from cdcwb.spark.stored import Stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["folded"]

_SEVERAL = 8  # answers are merged when so many wait, so that a task holds few of them

T = TypeVar("T")


def folded(rows: DataFrame | Stored, partial: Callable[[pa.RecordBatch], T], merge: Callable[[Sequence[T]], T]) -> T:
    """``merge`` of the answers of ``partial`` for all batches of a table; of a frame in one Spark job without a
    shuffle, of a stored table in this process.

    Each task merges the answers for its batches, and what the tasks gave is merged here, in no particular order.
    ``merge`` of no answers is the answer for no rows. Functions and answers are pickled; answers are small.
    """

    def merged(batches: Iterator[pa.RecordBatch]) -> list[T]:
        waiting: list[T] = []
        for batch in batches:
            waiting.append(partial(batch))
            if len(waiting) == _SEVERAL:
                waiting = [merge(waiting)]
        return waiting

    def answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if waiting := merged(batches):
            yield pa.RecordBatch.from_pydict({"answer": [pickle.dumps(merge(waiting))]})

    if isinstance(rows, Stored):
        return merge(merged(rows.batches()))
    found = rows.mapInArrow(answers, "answer binary").toArrow()["answer"].to_pylist()
    return merge([pickle.loads(answer) for answer in found])
