"""The tables of a capture as rows that tasks of Spark read."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from cdcwb.dataset import Batches, ColumnByKey, Rows, conform, mask_of, merged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ANSWER: Final = pa.schema([("answer", pa.binary())])
_SENT: Final = 32 << 20  # bytes of values that are sent to every task
T = TypeVar("T")


def packed(batch: pa.RecordBatch) -> bytes:
    """A batch as one value of Spark: an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


@dataclass(frozen=True)
class TaskReader:
    """Rows that tasks of Spark read: ``through`` gives the DataFrame, of a schema, that a function makes of their
    batches. What only the function needs is not passed to Spark and back. ``of_files``: from files, whenever they are
    asked for, which is faster than from a copy. ``near_tables`` gives the reader for :meth:`Rows.near_tables`."""

    spark: SparkSession
    through: Callable[[Callable[[Batches], Batches], pa.Schema], DataFrame]
    of_files: bool
    near_tables: Callable[[Collection[str]], TaskReader] | None = None


class SparkRows(Rows):
    """Rows with the columns of ``schema`` in Spark: those of a DataFrame, which may have other columns, too (only
    :meth:`where`, :meth:`drop` and :meth:`with_column_of` keep them), or those that its tasks read.

    Functions that follow one another (``steps``) run together in one step of a task."""

    in_spark = True

    def __init__(
        self, source: DataFrame | TaskReader, schema: pa.Schema, steps: Sequence[Callable[[Batches], Batches]] = ()
    ) -> None:
        self.schema = schema
        self._source = source
        self._steps = tuple(steps)

    @cached_property
    def frame(self) -> DataFrame:
        """The rows as a DataFrame."""
        if isinstance(self._source, TaskReader) or self._steps:
            schema = self.schema
            return self._through(lambda batches: conform(batches, schema), schema)
        return self._source

    @property
    def of_files(self) -> bool:
        """Whether tasks read the rows from files."""
        return isinstance(self._source, TaskReader) and self._source.of_files

    @property
    def spark(self) -> SparkSession:
        """The session of the rows."""
        return self._source.spark if isinstance(self._source, TaskReader) else self._source.sparkSession

    def _through(self, function: Callable[[Batches], Batches], schema: pa.Schema) -> DataFrame:
        """The DataFrame of ``schema`` that the steps and then a function make of the batches of each task."""
        from pyspark.sql.pandas.types import from_arrow_schema

        steps = self._steps

        def made(batches: Batches) -> Batches:
            for step in steps:
                batches = step(batches)
            return function(batches)

        if isinstance(self._source, TaskReader):
            return self._source.through(made, schema)
        return self._source.mapInArrow(made, from_arrow_schema(schema))

    def step(self, function: Callable[[Batches], Batches], schema: pa.Schema) -> SparkRows:
        """The rows of ``schema`` that a function makes of the batches of each task."""
        own = self.schema
        return SparkRows(self._source, schema, [*self._steps, lambda batches: function(conform(batches, own))])

    def fold(self, partial: Callable[[pa.RecordBatch], T], merge: Callable[[Sequence[T]], T]) -> T:
        """See :class:`Rows`. One job without a shuffle; each task merges the results of its batches."""
        schema = self.schema

        def answers(batches: Batches) -> Batches:
            if waiting := merged(conform(batches, schema), partial, merge):
                yield pa.RecordBatch.from_pydict({"answer": [pickle.dumps(merge(waiting))]})

        results = self._through(answers, _ANSWER).toArrow()["answer"].to_pylist()
        return merge([pickle.loads(answer) for answer in results])

    def map(self, function: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema) -> Rows:
        """See :class:`Rows`."""
        return self.step(lambda batches: map(function, batches), schema)

    def by_key(
        self,
        keys: Sequence[str],
        order: Sequence[str],
        function: Callable[[Batches], Batches],
        schema: pa.Schema,
        in_order: bool = False,
    ) -> Rows:
        """See :class:`Rows`. Spark distributes the rows by their key and sorts them in each partition."""
        parted = self.frame.repartitionByRange(*keys) if in_order else self.frame.repartition(*keys)
        return SparkRows(parted.sortWithinPartitions(*keys, *order), self.schema).step(function, schema)

    def sorted(self, order: Sequence[str]) -> Rows:
        """See :class:`Rows`."""
        return SparkRows(self.frame.orderBy(*order), self.schema)

    def batches(self) -> Batches:
        """See :class:`Rows`. They are collected by one job."""
        yield from self.frame.toArrow().select(self.schema.names).cast(self.schema).to_batches()

    def stream(self) -> Batches:
        """See :class:`Rows`."""
        schema = self.schema

        def answers(batches: Batches) -> Batches:
            for batch in conform(batches, schema):
                yield pa.RecordBatch.from_pydict({"answer": [packed(batch)]})

        for row in self._through(answers, _ANSWER).toLocalIterator():
            yield from pa.ipc.open_stream(row.answer)

    def write(self, folder: Path) -> None:
        """See :class:`Rows`."""
        self.frame.write.mode("overwrite").parquet(str(folder))

    def stored(self, folder: Path) -> Rows:
        """See :class:`Rows`."""
        self.write(folder)
        return SparkRows(self.spark.read.schema(self.frame.schema).parquet(str(folder)), self.schema)

    def to_frame(self, spark: SparkSession) -> DataFrame:
        """See :class:`Rows`. It belongs to its own session."""
        return self.frame

    def select(self, columns: Sequence[str]) -> Rows:
        """See :class:`Rows`."""
        names, schema = list(columns), pa.schema([self.schema.field(name) for name in columns])
        if self._is_frame:  # which Spark need not read completely
            return SparkRows(self.frame.select(*names), schema)
        return self.step(lambda batches: (batch.select(names) for batch in batches), schema)

    def near_tables(self, tables: Collection[str]) -> Rows:
        """See :class:`Rows`."""
        source = self._source
        if isinstance(source, TaskReader) and source.near_tables is not None and not self._steps:
            return SparkRows(source.near_tables(tables), self.schema)
        return self

    def drop(self, name: str) -> Rows:
        """See :class:`Rows`."""
        if self._is_frame:
            return SparkRows(self.frame.drop(name), self.schema.remove(self.schema.get_field_index(name)))
        return self.select([column for column in self.schema.names if column != name])

    def where(self, predicate: Callable[[pa.RecordBatch], Any]) -> Rows:
        """See :class:`Rows`."""
        schema = self.schema

        def kept(batches: Batches) -> Batches:
            for batch in batches:
                for rows in conform([batch.select(schema.names)], schema):
                    yield batch.filter(mask_of(predicate, rows))

        if self._has_others:
            return SparkRows(self.frame.mapInArrow(kept, self.frame.schema), schema)
        return self.step(kept, schema)

    @property
    def _is_frame(self) -> bool:
        """Whether the rows are those of a DataFrame that is there."""
        return not self._steps and not isinstance(self._source, TaskReader)

    @property
    def _has_others(self) -> bool:
        """Whether there are columns that are not in the schema."""
        return self._is_frame and len(self.frame.columns) > len(self.schema)

    def with_column_of(self, other: Rows, keys: Sequence[str], name: str) -> Rows:
        """See :class:`Rows`. Few values are sent to every task."""
        schema = self.schema.append(other.schema.field(name))
        if not isinstance(other, SparkRows) and not self._has_others:
            values = other.select([*keys, name]).table()
            if values.nbytes <= _SENT:
                column = ColumnByKey(values, keys, name)
                return self.step(lambda batches: column.added(batches, schema), schema)
        frame = other.to_frame(self.spark).select(*keys, name)
        return SparkRows(self.frame.join(frame, [*keys], "left"), schema)

    def union(self, other: Rows) -> Rows:
        """See :class:`Rows`."""
        if not isinstance(other, SparkRows):
            return SparkRows(self.frame.unionByName(other.to_frame(self.spark)), self.schema)

        def through(function: Callable[[Batches], Batches], schema: pa.Schema) -> DataFrame:
            return self._through(function, schema).union(other._through(function, schema))

        return SparkRows(TaskReader(self.spark, through, self.of_files and other.of_files), self.schema)
