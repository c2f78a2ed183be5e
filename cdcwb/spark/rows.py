"""Captures that are Spark DataFrames: a topic as Spark reads it, a change table."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.pandas.types import from_arrow_schema

from cdcwb.errors import CaptureError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["RowsOf", "read_rows"]

ROW = "_row"
"""The column that numbers the rows of a capture."""


class RowsOf:
    """The rows of a DataFrame, numbered from 0 in the order of its partitions (and of ``order_by``, where given)."""

    def __init__(self, frame: DataFrame, order_by: str | Sequence[str] | None = None) -> None:
        self.given = frame
        self.order_by = order_by
        self._starts: dict[int, int] | None = None

    @cached_property
    def frame(self) -> DataFrame:
        """The DataFrame, in order."""
        if not self.order_by:
            return self.given
        names = self.order_by.split(",") if isinstance(self.order_by, str) else self.order_by
        return self.given.orderBy(*[name.strip() for name in names])

    @property
    def schema(self) -> pa.Schema:
        """The columns, as Arrow types."""
        return self.given.limit(0).toArrow().schema

    @property
    def starts(self) -> dict[int, int]:
        """The number of the first row of each partition."""
        if self._starts is None:
            self.run(_nothing)
        return self._starts or {}

    def run(self, function: Callable[[Iterator[pa.RecordBatch]], bytes]) -> list[bytes]:
        """Runs a function over the batches of every partition; the results are in the partitions' order.

        Every run but the first knows the numbers of the rows.
        """
        known = self._starts or {}

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            counted = _numbered(batches, known)
            result: tuple[bool, Any]
            try:
                result = (True, function(counted))
            except CaptureError as reason:
                result = (False, reason)
            for _ in counted:  # also counts rows that the function did not read
                pass
            row = {"partition": [_partition()], "rows": [counted.rows], "result": [pickle.dumps(result)]}
            yield pa.RecordBatch.from_pydict(row, schema=_RESULT)

        rows_of_tasks = self.frame.mapInArrow(work, from_arrow_schema(_RESULT)).collect()
        ordered = sorted(rows_of_tasks, key=lambda row: row["partition"])
        firsts = accumulate((row["rows"] for row in ordered), initial=0)
        starts = {row["partition"]: first for row, first in zip(ordered, firsts, strict=False)}
        self._starts = starts
        results = []
        for row in ordered:
            succeeded, result = pickle.loads(row["result"])
            if not succeeded:
                raise result
            results.append(result)
        return results


_RESULT = pa.schema([("partition", pa.int32()), ("rows", pa.int64()), ("result", pa.binary())])


def _nothing(batches: Iterator[pa.RecordBatch]) -> bytes:
    return b""


def _partition() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


class _Counted:
    """Yields batches with row numbers, and counts them."""

    def __init__(self, batches: Iterator[pa.RecordBatch], first: int = 0) -> None:
        self._batches = batches
        self._first = first
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch = next(self._batches)
        first = self._first + self.rows
        self.rows += batch.num_rows
        return batch.append_column(ROW, pa.array(np.arange(first, first + batch.num_rows)))


def _numbered(batches: Iterator[pa.RecordBatch], starts: Mapping[int, int]) -> _Counted:
    return _Counted(batches, starts.get(_partition(), 0))


def read_rows(rows: RowsOf, format: str, options: dict[str, str], needed: frozenset[str] | None = None) -> DataFrame:
    """The output of a data source of this format with these options (:data:`cdcwb.spark.source.READER_OPTIONS`) for the
    rows of a DataFrame. ``needed``: the columns (in lower case) that are read; None: all."""
    from cdcwb.spark.source import Reader, schema_of

    starts, reader = rows.starts, Reader(format, options)
    frame = rows.frame
    if needed is not None:
        frame = frame.select(*[frame[f"`{name}`"] for name in frame.columns if name.lower() in needed])

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from reader.read_rows(_numbered(batches, starts))

    return frame.mapInArrow(read, schema_of(format, options))
