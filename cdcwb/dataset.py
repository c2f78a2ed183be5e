"""The tables of a capture as rows that a question can be asked of, in this process or in Spark.

A question is written once: as :meth:`Rows.fold` (a result of each batch, and the merge of results), or where rows of
one key belong together as :meth:`Rows.by_key`. :class:`LocalRows` answers in this process, from Parquet files of a
saved capture or of a small one; :class:`SparkRows` in the tasks of Spark.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdcwb.model import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "Batches",
    "LocalRows",
    "Rows",
    "SparkRows",
    "conform",
    "differ",
    "grouped",
    "joined",
    "needs_images",
    "numbered",
    "runs_of",
    "schema_of",
    "total",
]

_WAITING: Final = 8  # results are merged as soon as there are so many, to limit memory
_BATCH: Final = 1 << 16  # rows of a batch whose rows were sorted

T = TypeVar("T")
Batches = Iterator[pa.RecordBatch]


class Rows(ABC):
    """Some columns of a table, in no particular order.

    Functions are called with batches of :attr:`schema`, in any number, and may run in other processes: they and their
    results are pickled.
    """

    schema: pa.Schema

    @abstractmethod
    def fold(self, partial: Callable[[pa.RecordBatch], T], merge: Callable[[Sequence[T]], T]) -> T:
        """``merge`` of the results of ``partial`` for all batches, in any order. Results are small; ``merge`` of no
        results is the result for no rows."""

    def totals(
        self,
        totals: Mapping[str, str],
        columns: Callable[[pa.RecordBatch], Mapping[str, Any] | pa.RecordBatch | pa.Table] = pa.table,
    ) -> pa.Table:
        """The groups (:func:`grouped`) of the rows that ``columns`` makes of each batch."""
        schema = self.schema

        def merge(parts: Sequence[pa.Table]) -> pa.Table:
            return grouped(parts or [pa.table(columns(joined([], schema)))], totals)

        return self.fold(lambda batch: grouped([pa.table(columns(batch))], totals), merge)

    @abstractmethod
    def map(self, function: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema) -> Rows:
        """The rows of ``schema`` that a function makes of each batch: more, fewer or as many."""

    @abstractmethod
    def by_key(
        self, keys: Sequence[str], order: Sequence[str], function: Callable[[Batches], Batches], schema: pa.Schema
    ) -> Rows:
        """The rows of ``schema`` that a function makes of batches in which the rows of one key (columns ``keys``, of
        text or numbers) follow one another, in ascending order of the columns ``order`` (null first).

        The function gets an iterator over batches and is called once for many keys; rows of one key may begin in one
        batch and continue in the next, so what it has to remember of a key is its own.
        """

    def reduce_by_key(
        self, keys: Sequence[str], order: Sequence[str], function: Callable[[pa.RecordBatch], pa.RecordBatch]
    ) -> Rows:
        """At most one row of each key, from a function that makes the rows of each key in a batch, which are as in
        :meth:`by_key`, into one or none. What it makes of the first rows of a key is reduced with the next ones."""
        return self.by_key(keys, order, _Reduced(function, self.schema), self.schema)

    @abstractmethod
    def sorted(self, order: Sequence[str]) -> Rows:
        """The rows in ascending order of some columns, null first."""

    @abstractmethod
    def batches(self) -> Batches:
        """All rows, batch by batch, in this process."""

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Writes the rows into a folder of Parquet files."""

    @abstractmethod
    def to_frame(self, spark: SparkSession) -> DataFrame:
        """The rows as a DataFrame."""

    @abstractmethod
    def with_column_of(self, other: Rows, keys: Sequence[str], name: str) -> Rows:
        """The rows with a column ``name`` of ``other``, in which the values of the columns ``keys`` are unique: that of
        the row with the same key; null where there is none."""

    @abstractmethod
    def union(self, other: Rows) -> Rows:
        """The rows, and those of ``other``, which have the same schema."""

    def table(self) -> pa.Table:
        """All rows, in this process."""
        return pa.Table.from_batches(self.batches(), self.schema).combine_chunks()

    def select(self, columns: Sequence[str]) -> Rows:
        """Some of the columns."""
        return self.map(_Selected(list(columns)), pa.schema([self.schema.field(name) for name in columns]))

    def drop(self, name: str) -> Rows:
        """All columns but one."""
        return self.select([column for column in self.schema.names if column != name])

    def where(self, predicate: Callable[[pa.RecordBatch], Any]) -> Rows:
        """The rows for which a predicate, which gives a mask, holds."""
        return self.map(_Filtered(predicate), self.schema)

    def first(self, order: Sequence[tuple[str, str]], limit: int) -> pa.Table:
        """The first rows in an order (columns with ``ascending`` or ``descending``), at most ``limit``; null first."""
        best = _Best(self.schema, list(order), limit)
        return self.fold(lambda batch: best([pa.Table.from_batches([batch])]), best)


class _Selected:
    def __init__(self, columns: list[str]) -> None:
        self._columns = columns

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.select(self._columns)


class _Filtered:
    def __init__(self, predicate: Callable[[pa.RecordBatch], Any]) -> None:
        self._predicate = predicate

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(_mask(self._predicate, batch))


def _mask(predicate: Callable[[pa.RecordBatch], Any], batch: pa.RecordBatch) -> pa.Array:
    mask = predicate(batch)
    return mask if isinstance(mask, pa.Array) else pa.array(mask)


class _Reduced:
    def __init__(self, function: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema) -> None:
        self._function, self._schema = function, schema

    def __call__(self, batches: Batches) -> Batches:
        last = joined([], self._schema)
        for batch in batches:
            rows = self._function(joined([last, batch], self._schema))
            complete = max(rows.num_rows - 1, 0)
            yield rows.slice(0, complete)
            last = rows.slice(complete)
        yield last


class _Best:
    def __init__(self, schema: pa.Schema, order: list[tuple[str, str]], limit: int) -> None:
        self._schema, self._order, self._limit = schema, order, limit

    def __call__(self, parts: Sequence[pa.Table]) -> pa.Table:
        rows = pa.concat_tables(parts) if parts else self._schema.empty_table()
        return rows.take(_sorted(rows, self._order)[: self._limit])


class LocalRows(Rows):
    """Rows that this process reads: ``read`` begins to read them anew in each call."""

    def __init__(self, read: Callable[[], Batches], schema: pa.Schema) -> None:
        self.schema = schema
        self._read = read

    def fold(self, partial: Callable[[pa.RecordBatch], T], merge: Callable[[Sequence[T]], T]) -> T:
        """See :class:`Rows`."""
        return merge(_merged(self._read(), partial, merge))

    def map(self, function: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema) -> Rows:
        """See :class:`Rows`."""
        return LocalRows(lambda: map(function, self._read()), schema)

    def by_key(
        self, keys: Sequence[str], order: Sequence[str], function: Callable[[Batches], Batches], schema: pa.Schema
    ) -> Rows:
        """See :class:`Rows`. All rows are in memory meanwhile."""
        rows = self.sorted([*keys, *order])
        return LocalRows(lambda: function(rows.batches()), schema)

    def sorted(self, order: Sequence[str]) -> Rows:
        """See :class:`Rows`. All rows are in memory meanwhile."""

        def read() -> Batches:
            rows = self.table()
            if len(rows):
                rows = rows.take(_sorted(rows, [(name, "ascending") for name in order]))
            return iter(rows.combine_chunks().to_batches(_BATCH))

        return LocalRows(read, self.schema)

    def batches(self) -> Batches:
        """See :class:`Rows`."""
        return (batch for batch in self._read() if batch.num_rows)

    def write(self, folder: Path) -> None:
        """See :class:`Rows`."""
        folder.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(folder / "part-0.parquet", self.schema) as writer:
            for batch in self.batches():
                writer.write_batch(batch)

    def to_frame(self, spark: SparkSession) -> DataFrame:
        """See :class:`Rows`. All rows are in memory meanwhile."""
        from pyspark.sql.pandas.types import from_arrow_schema

        return spark.createDataFrame(self.table(), from_arrow_schema(self.schema))

    def with_column_of(self, other: Rows, keys: Sequence[str], name: str) -> Rows:
        """See :class:`Rows`. These columns of ``other`` are in memory meanwhile."""
        schema = self.schema.append(other.schema.field(name))

        def read() -> Batches:
            values = other.select([*keys, name]).table()
            known = _combined(values, keys)
            for batch in self._read():
                at = pc.index_in(_combined(batch, keys), known, skip_nulls=True)
                column = values[name].take(at).combine_chunks()
                yield pa.RecordBatch.from_arrays([*batch.columns, column], schema=schema)

        return LocalRows(read, schema)

    def union(self, other: Rows) -> Rows:
        """See :class:`Rows`."""
        if isinstance(other, SparkRows):
            return other.union(self)
        return LocalRows(lambda: chain(self.batches(), other.batches()), self.schema)


class SparkRows(Rows):
    """The rows of a DataFrame with the columns of ``schema``, and perhaps others, which only :meth:`where`,
    :meth:`drop` and :meth:`with_column_of` keep."""

    def __init__(self, frame: DataFrame, schema: pa.Schema) -> None:
        self.schema = schema
        self.frame = frame

    def fold(self, partial: Callable[[pa.RecordBatch], T], merge: Callable[[Sequence[T]], T]) -> T:
        """See :class:`Rows`. One job without a shuffle; each task merges the results of its batches."""
        schema = self.schema

        def answers(batches: Batches) -> Batches:
            if waiting := _merged(conform(batches, schema), partial, merge):
                yield pa.RecordBatch.from_pydict({"answer": [pickle.dumps(merge(waiting))]})

        results = self.frame.mapInArrow(answers, "answer binary").toArrow()["answer"].to_pylist()
        return merge([pickle.loads(answer) for answer in results])

    def map(self, function: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema) -> Rows:
        """See :class:`Rows`."""
        return self._mapped(self.frame, lambda batches: map(function, batches), schema)

    def by_key(
        self, keys: Sequence[str], order: Sequence[str], function: Callable[[Batches], Batches], schema: pa.Schema
    ) -> Rows:
        """See :class:`Rows`. Spark distributes the rows by the hash of their key and sorts them in each partition."""
        return self._mapped(self.frame.repartition(*keys).sortWithinPartitions(*keys, *order), function, schema)

    def sorted(self, order: Sequence[str]) -> Rows:
        """See :class:`Rows`."""
        return SparkRows(self.frame.orderBy(*order), self.schema)

    def _mapped(self, frame: DataFrame, function: Callable[[Batches], Batches], schema: pa.Schema) -> Rows:
        from pyspark.sql.pandas.types import from_arrow_schema

        own = self.schema

        def made(batches: Batches) -> Batches:
            yield from conform(function(conform(batches, own)), schema)

        return SparkRows(frame.mapInArrow(made, from_arrow_schema(schema)), schema)

    def batches(self) -> Batches:
        """See :class:`Rows`. They are collected by one job."""
        yield from self.frame.toArrow().select(self.schema.names).cast(self.schema).to_batches()

    def write(self, folder: Path) -> None:
        """See :class:`Rows`."""
        self.frame.write.mode("overwrite").parquet(str(folder))

    def to_frame(self, spark: SparkSession) -> DataFrame:
        """See :class:`Rows`. It belongs to its own session."""
        return self.frame

    def select(self, columns: Sequence[str]) -> Rows:
        """See :class:`Rows`."""
        return SparkRows(self.frame.select(*columns), pa.schema([self.schema.field(name) for name in columns]))

    def drop(self, name: str) -> Rows:
        """See :class:`Rows`."""
        return SparkRows(self.frame.drop(name), self.schema.remove(self.schema.get_field_index(name)))

    def where(self, predicate: Callable[[pa.RecordBatch], Any]) -> Rows:
        """See :class:`Rows`."""
        schema = self.schema

        def kept(batches: Batches) -> Batches:
            for batch in batches:
                for rows in conform([batch.select(schema.names)], schema):
                    yield batch.filter(_mask(predicate, rows))

        return SparkRows(self.frame.mapInArrow(kept, self.frame.schema), schema)

    def with_column_of(self, other: Rows, keys: Sequence[str], name: str) -> Rows:
        """See :class:`Rows`."""
        values = other.to_frame(self.frame.sparkSession).select(*keys, name)
        return SparkRows(self.frame.join(values, [*keys], "left"), self.schema.append(other.schema.field(name)))

    def union(self, other: Rows) -> Rows:
        """See :class:`Rows`."""
        return SparkRows(self.frame.unionByName(other.to_frame(self.frame.sparkSession)), self.schema)


def _sorted(rows: pa.Table, order: Sequence[tuple[str, str]]) -> pa.Array:
    """The numbers of rows in an order, null first."""
    keys: list[tuple[str, str]] = []
    columns: dict[str, Any] = {}
    for number, (name, direction) in enumerate(order):
        columns |= {f"{number} is valid": rows[name].is_valid(), f"{number}": rows[name]}
        keys += [(f"{number} is valid", "ascending"), (f"{number}", direction)]
    return pc.sort_indices(pa.table(columns), sort_keys=keys)


def _combined(rows: pa.RecordBatch | pa.Table, keys: Sequence[str]) -> Any:
    """The values of some columns as one; null where one is null."""
    columns = [rows[name] for name in keys]
    if len(columns) == 1:
        return columns[0]
    return pc.binary_join_element_wise(*[column.cast(pa.string()) for column in columns], "\n")


def _merged(batches: Batches, partial: Callable[[pa.RecordBatch], T], merge: Callable[[Sequence[T]], T]) -> list[T]:
    """Results of batches, of which several were merged."""
    waiting: list[T] = []
    for batch in batches:
        if batch.num_rows:
            waiting.append(partial(batch))
        if len(waiting) == _WAITING:
            waiting = [merge(waiting)]
    return waiting


def conform(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Batches:
    """Batches with exactly the types of a schema, whose arrays begin at offset 0 (Spark requires it with some versions
    of Arrow)."""
    for batch in batches:
        if batch.num_rows:
            moved = any(column.offset for column in batch.columns)
            whole = batch.take(pa.array(np.arange(batch.num_rows))) if moved else batch
            yield whole if whole.schema.equals(schema) else whole.select(schema.names).cast(schema)


_OF_IMAGES: Final = {
    "events": frozenset({"key", "before", "after", "raw", "changed_columns", "present_columns", "problems"}),
    "changes": frozenset({"key", "before", "after", "changed_columns", "present_columns", "change_source"}),
}
"""The columns of a table that are null, or lack something, where its images are not decoded."""


def needs_images(table: str, columns: Sequence[str]) -> bool:
    """Whether some of the columns of a table are complete only where its images are decoded."""
    return not _OF_IMAGES.get(table, frozenset()).isdisjoint(columns)


def schema_of(table: str, columns: Sequence[str]) -> pa.Schema:
    """The schema of some columns of a table of the model."""
    return pa.schema([TABLES[table].field(name).remove_metadata() for name in columns])


def total(numbers: Sequence[int]) -> int:
    """The sum, to merge the counts of a fold."""
    return sum(numbers)


def grouped(parts: Sequence[pa.Table], totals: Mapping[str, str]) -> pa.Table:
    """The rows of tables that are equal in the columns that have no total as one row, with the totals of the others:
    ``sum``, ``min``, ``max`` or ``any``, by column."""
    keys = [name for name in parts[0].schema.names if name not in totals]
    groups = pa.concat_tables(parts).group_by(keys, use_threads=False).aggregate(list(totals.items()))
    return groups.select([*keys, *("_".join(total) for total in totals.items())]).rename_columns([*keys, *totals])


def differ(first: pa.Array, second: pa.Array) -> npt.NDArray[np.bool_]:
    """Whether two values differ; null equals null."""
    unequal = pc.fill_null(pc.not_equal(first, second), False)
    return np.asarray(pc.or_(unequal, pc.xor(first.is_null(), second.is_null()))).astype(np.bool_)


def numbered(batches: Batches, keys: Sequence[str], name: str, runs: Sequence[str] = ()) -> Batches:
    """The rows with a column ``name``: the number, from 1, of each row among those of its key, which follow one another
    (:meth:`Rows.by_key`); with ``runs`` that of the run of rows that are equal in these columns."""
    last, number = None, 0
    for batch in batches:
        if batch.num_rows:
            rows = batch if last is None else joined([last, batch], batch.schema)
            changes = [
                [differ(rows[key].slice(1), rows[key].slice(0, len(rows) - 1)) for key in columns]
                for columns in (keys, runs)
            ]
            begins, steps = (np.logical_or.reduce(of) if of else np.ones(len(rows) - 1, np.bool_) for of in changes)
            if last is None:
                begins, steps = np.append(True, begins), np.append(True, steps)
            total = number + np.cumsum(begins | steps)
            numbers = total - np.maximum.accumulate(np.where(begins, total - 1, 0))
            yield batch.append_column(pa.field(name, pa.int64()), pa.array(numbers))
            last, number = batch.slice(len(batch) - 1), int(numbers[-1])


def runs_of(batch: pa.RecordBatch, keys: Sequence[str]) -> Batches:
    """The runs of rows with equal ``keys``, each as a batch."""
    codes = [np.asarray(batch[key].dictionary_encode().indices) for key in keys]
    edges = np.flatnonzero(np.logical_or.reduce([np.diff(code) != 0 for code in codes])) + 1
    for start, end in pairwise([0, *edges.tolist(), len(batch)]):
        if end > start:
            yield batch.slice(start, end - start)


def joined(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Several batches as one; without any, no rows of ``schema``."""
    combined = pa.Table.from_batches(batches).combine_chunks().to_batches() if batches else []
    return combined[0] if combined else pa.RecordBatch.from_pylist([], schema)
