"""Parallel tasks of a format, such as the first pass, in Spark."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F

from cdcwb.errors import CaptureError
from cdcwb.formats.source import announced, known
from cdcwb.spark.worker import spare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdcwb.formats.dissector import Run

__all__ = ["runner"]

_PARTITIONS: Final = (16, 256)
"""Spark tasks of one call, at least and at most: it costs more to start a task than to look into a small file."""
_OF_EACH_CORE: Final = 4
_SENT_TO_ALL: Final = 1 << 18
"""Bytes of tasks, in all partitions together, that every partition receives: to deal them out is another stage."""
_GROUPS: Final = pa.list_(pa.struct([("first", pa.int64()), ("tasks", pa.binary())]))
"""The number of a group's first task, and its tasks, pickled."""


def runner(spark: SparkSession) -> Run:
    """A function that maps a function over tasks in Spark, one partition each (for many tasks: several consecutive
    ones), and returns the results in order. A partition receives its own tasks only, unless these are few.

    A CaptureError of a task is raised here with its class. It is sent as a row, because Spark replaces the class of an
    exception from a worker.
    """

    def run(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        if not tasks:
            return []

        count = min(len(tasks), _partitions(spark))
        starts = [len(tasks) * at // count for at in range(count + 1)]
        groups = [(first, pickle.dumps(tasks[first:stop])) for first, stop in pairwise(starts)]
        if count * sum(len(group) for _, group in groups) <= _SENT_TO_ALL:
            numbers = spark.range(0, count, 1, count)
            frame = numbers.mapInArrow(_worker(function, known(), groups), "task long, result binary")
        else:
            # One row is one partition, and its groups are dealt out in turn: each of as many partitions receives one.
            frame = spark.createDataFrame(pa.table({"groups": pa.array([groups], _GROUPS)}))
            dealt = frame.select(F.explode("groups").alias("group")).select("group.*").repartition(count)
            frame = dealt.mapInArrow(_worker(function, known()), "task long, result binary")
        done = {row.task: pickle.loads(bytes(row.result)) for row in frame.collect()}
        for index in range(len(tasks)):
            fine, result = done[index]
            if not fine:
                raise result
        return [done[index][1] for index in range(len(tasks))]

    return run


def _partitions(spark: SparkSession) -> int:
    """The most partitions of a call: some for each core."""
    least, most = _PARTITIONS
    try:
        return min(most, max(least, _OF_EACH_CORE * spark.sparkContext.defaultParallelism))
    except (AttributeError, NotImplementedError):  # Spark Connect does not tell
        return most


def _worker(
    function: Callable[[Any], Any], listing: Mapping[str, Any], groups: Sequence[tuple[int, bytes]] = ()
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What every partition runs. Its rows are the numbers of its groups, or the groups themselves."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare()
        announced(listing)
        for batch in batches:
            columns = [column.to_pylist() for column in batch.columns]
            for first, group in [groups[at] for at in columns[0]] if groups else zip(*columns, strict=True):
                for index, task in enumerate(pickle.loads(group), first):
                    try:
                        result = (True, function(task))
                    except CaptureError as reason:
                        result = (False, reason)
                    yield pa.RecordBatch.from_pydict(
                        {"task": pa.array([index], pa.int64()), "result": pa.array([pickle.dumps(result)], pa.binary())}
                    )

    return work
