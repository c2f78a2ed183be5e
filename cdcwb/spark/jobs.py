"""Parallel tasks of a format, such as the first pass, in Spark."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from cdcwb.errors import CaptureError
from cdcwb.formats.source import announced, known
from cdcwb.spark.worker import spare_collector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdcwb.formats.base import Run

__all__ = ["runner"]

_MOST_PARTITIONS: Final = 256
"""Spark tasks of one call: of ten thousand small files each takes several, because it costs more to start a task than
to look into a small file."""


def runner(spark: SparkSession) -> Run:
    """A function that maps a function over tasks in Spark, one partition each (for very many tasks: several consecutive
    ones), and returns the results in order.

    A CaptureError of a task is raised here with its class. It is sent as a row, because Spark replaces the class of an
    exception from a worker.
    """

    def run(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        if not tasks:
            return []

        listing = known()

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            spare_collector()
            announced(listing)
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    try:
                        result = (True, function(tasks[index]))
                    except CaptureError as reason:
                        result = (False, reason)
                    yield pa.RecordBatch.from_pydict(
                        {"task": pa.array([index], pa.int64()), "result": pa.array([pickle.dumps(result)], pa.binary())}
                    )

        numbers = spark.range(0, len(tasks), 1, min(len(tasks), _MOST_PARTITIONS))
        frame = numbers.mapInArrow(work, "task long, result binary")
        done = {row.task: pickle.loads(bytes(row.result)) for row in frame.collect()}
        for index in range(len(tasks)):
            fine, result = done[index]
            if not fine:
                raise result
        return [done[index][1] for index in range(len(tasks))]

    return run
