"""Aggregation of a table by a pair of functions: the partial result for some rows, and the merge of partial results."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from cdcwb.spark.stored import Stored, joined

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["folded", "folded_by", "prepared"]

_SEVERAL = 8  # results are merged as soon as this many wait, to limit the memory of a task

T = TypeVar("T")


def folded(rows: DataFrame | Stored, partial: Callable[[pa.RecordBatch], T], merge: Callable[[Sequence[T]], T]) -> T:
    """``merge`` of the results of ``partial`` for all batches of a table: for a DataFrame in one Spark job without a
    shuffle, for a stored table in this process.

    Each task merges the results of its batches, and the results of tasks are merged here, in any order. ``merge`` of no
    results is the result for no rows. Functions and results are pickled; results are small.
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
    results = rows.mapInArrow(answers, "answer binary").toArrow()["answer"].to_pylist()
    return merge([pickle.loads(answer) for answer in results])


def folded_by(
    rows: DataFrame | Stored,
    prepare: Callable[[pa.RecordBatch], pa.RecordBatch],
    schema: pa.Schema,
    keys: Sequence[str],
    partial: Callable[[pa.RecordBatch], T],
    merge: Callable[[Sequence[T]], T],
) -> T:
    """Like :func:`folded`, but one call of ``partial`` gets all rows with the same ``keys``, in any order. ``prepare``
    makes these rows (of ``schema``) from batches of the table. Spark shuffles them, with one call for each group of
    keys; a stored table has one call with all rows.
    """
    if isinstance(rows, Stored):
        return merge([partial(joined([*map(prepare, rows.batches())], schema))])

    def answer(group: pa.Table) -> pa.Table:
        return pa.table({"answer": [pickle.dumps(partial(joined(group.to_batches(), schema)))]})

    groups = prepared(rows, prepare, schema).groupBy(*keys).applyInArrow(answer, "answer binary")
    return merge([pickle.loads(group_result) for group_result in groups.toArrow()["answer"].to_pylist()])


def prepared(rows: DataFrame, prepare: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema) -> DataFrame:
    """The rows of ``schema`` that ``prepare`` makes from batches of a frame."""
    from pyspark.sql.pandas.types import from_arrow_schema

    def batches(input_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from map(prepare, input_batches)

    return rows.mapInArrow(batches, from_arrow_schema(schema))
