"""Captures that are Spark DataFrames: a topic as Spark reads it, a change table."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.pandas.types import from_arrow_schema

from cdcwb.errors import CaptureError
from cdcwb.formats import get_format
from cdcwb.formats.base import RowFormat, TableRequest
from cdcwb.spark.packing import pack, packed_schema, unpack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["RowsOf", "read_events", "read_table"]

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
            for _ in counted:  # what the function did not look at is counted all the same
                pass
            row = {"partition": [_partition()], "rows": [counted.rows], "result": [pickle.dumps(result)]}
            yield pa.RecordBatch.from_pydict(row, schema=_RESULT)

        found = self.frame.mapInArrow(work, from_arrow_schema(_RESULT)).collect()
        ordered = sorted(found, key=lambda row: row["partition"])
        firsts = accumulate((row["rows"] for row in ordered), initial=0)
        starts = {row["partition"]: first for row, first in zip(ordered, firsts, strict=False)}
        self._starts = starts
        results = []
        for row in ordered:
            good, result = pickle.loads(row["result"])
            if not good:
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
    """Batches, counted and numbered as they pass."""

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


def read_events(
    rows: RowsOf, format: str, plan: str, images: bool, mode: str, columns: Sequence[str] | None = None
) -> DataFrame:
    """The events of a DataFrame's rows, or these columns of them."""
    from cdcwb.spark.source import wanted_of

    starts = rows.starts
    wanted, stops = wanted_of(images, mode, columns)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from cdcwb.spark.source import stop_at_malformed

        fmt = cast(RowFormat, get_format(format))
        for batch in fmt.read_rows(fmt.plan_from_text(plan), _numbered(batches, starts), wanted):
            if stops:
                stop_at_malformed(batch)
            yield pack(batch, columns=columns)

    return unpack(rows.frame.mapInArrow(read, from_arrow_schema(packed_schema(columns))), columns=columns)


def read_table(rows: RowsOf, format: str, plan: str, request: TableRequest, schema: pa.Schema) -> DataFrame:
    """One table's rows of a DataFrame, as typed columns."""
    starts = rows.starts

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fmt = cast(RowFormat, get_format(format))
        yield from fmt.read_table_rows(fmt.plan_from_text(plan), _numbered(batches, starts), request)

    return rows.frame.mapInArrow(read, from_arrow_schema(schema, prefer_timestamp_ntz=True))
