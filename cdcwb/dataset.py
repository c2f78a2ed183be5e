"""The tables of a capture as rows that a question can be asked of.

A question is written once: as :meth:`Rows.fold` (a result of each batch, and the merge of results), or where rows of
one key belong together as :meth:`Rows.by_key`. :class:`Rows` answers in this process, from Parquet files of a saved
capture or of a small one; :class:`~cdcwb.spark_rows.SparkRows` in the tasks of Spark.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdcwb.model import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_WAITING: Final = 8  # results are merged as soon as there are so many, to limit memory
_BATCH: Final = 1 << 16  # rows of a batch whose rows were sorted
_IN_MEMORY: Final = 64 << 20  # bytes of rows that are put in the order of their keys in memory
_PARTS: Final = 64  # temporary files that more rows are distributed to
_SAMPLED: Final = 20  # rows of a part from which its bounds are estimated

T = TypeVar("T")
Batches = Iterator[pa.RecordBatch]
Fold = tuple[Callable[..., Any], Callable[[Sequence[Any]], Any]]
"""The two functions of :meth:`Rows.fold`."""


class Rows:
    """Some columns of a table, in no particular order, which this process reads: ``read`` begins to read them anew in
    each call. :class:`~cdcwb.spark_rows.SparkRows` are read in the tasks of Spark.

    Functions are called with batches of :attr:`schema`, in any number, and may run in other processes: they and their
    results are pickled.
    """

    in_spark: ClassVar[bool] = False
    """Whether tasks of Spark read them."""

    def __init__(self, read: Callable[[], Batches], schema: pa.Schema) -> None:
        self.schema = schema
        self._read = read

    @classmethod
    def of(cls, rows: pa.Table | pa.RecordBatch) -> Rows:
        """Rows that are in memory."""
        return Rows(lambda: iter(pa.table(rows).to_batches()), rows.schema)

    def fold(self, partial: Callable[[pa.RecordBatch], T], merge: Callable[[Sequence[T]], T]) -> T:
        """``merge`` of the results of ``partial`` for all batches, in any order. Results are small; ``merge`` of no
        results is the result for no rows."""
        return merge(merged(self._read(), partial, merge))

    def totals(
        self,
        totals: Mapping[str, str],
        columns: Callable[[pa.RecordBatch], Mapping[str, Any] | pa.RecordBatch | pa.Table] = pa.table,
    ) -> pa.Table:
        """The groups (:func:`grouped`) of the rows that ``columns`` makes of each batch."""
        groups: pa.Table = self.fold(*totals_of(self.schema, totals, columns))
        return groups

    def map(self, function: Callable[[pa.RecordBatch], pa.RecordBatch], schema: pa.Schema) -> Rows:
        """The rows of ``schema`` that a function makes of each batch: more, fewer or as many."""
        return Rows(lambda: map(function, self._read()), schema)

    def by_key(
        self,
        keys: Sequence[str],
        order: Sequence[str],
        function: Callable[[Batches], Batches],
        schema: pa.Schema,
        in_order: bool = False,
    ) -> Rows:
        """The rows of ``schema`` that a function makes of batches in which the rows of one key (columns ``keys``, of
        text or numbers) follow one another, in ascending order of the columns ``order`` (null first).

        The function gets an iterator over batches and is called once for many keys; rows of one key may begin in one
        batch and continue in the next (see :func:`complete_keys`), so what it has to remember of a key is its own. With
        ``in_order`` the keys are ascending too, and the rows that the function makes keep that order.

        More than :data:`_IN_MEMORY` bytes of rows are distributed by their key to temporary
        files, of which one is in memory at a time; with ``in_order`` all rows are in memory.
        """
        if in_order:
            rows = self.sorted([*keys, *order])
            return Rows(lambda: function(rows.batches()), schema)

        def read() -> Batches:
            for part in _distributed(self.batches(), keys, self.schema):
                rows = Rows(part, self.schema).sorted([*keys, *order])
                yield from function(rows.batches())

        return Rows(read, schema)

    def in_parts(self, order: Sequence[str], size: int) -> tuple[Rows, int]:
        """The rows with a column ``part``, and the number of parts: consecutive ranges of the order of some columns,
        numbered from 0, each of about ``size`` rows. Rows that are equal in the order are in one part."""
        sample = self.select(order).fold(partial(_sampled, max(size // _SAMPLED, 1)), _tables)
        bounds = None if sample is None else _bounds(sample, order, size)
        parts = 1 if bounds is None else len(bounds) + 1
        return self.map(partial(_with_part, bounds), self.schema.append(PART)), parts

    def by_part(self, order: Sequence[str], function: Callable[[pa.Table], pa.Table], schema: pa.Schema) -> Rows:
        """The rows of ``schema`` that a function makes of all rows of each part (:meth:`in_parts`), in order."""
        return self.by_key([PART.name], order, partial(_part_by_part, function), schema)

    def reduce_by_key(
        self, keys: Sequence[str], order: Sequence[str], function: Callable[[pa.RecordBatch], pa.RecordBatch]
    ) -> Rows:
        """At most one row of each key, from a function that makes the rows of each key in a batch, which are as in
        :meth:`by_key`, into one or none. What it makes of the first rows of a key is reduced with the next ones."""
        schema = self.schema

        def reduced(batches: Batches) -> Batches:
            last = joined([], schema)
            for batch in batches:
                rows = function(joined([last, batch], schema))
                complete = max(rows.num_rows - 1, 0)
                yield rows.slice(0, complete)
                last = rows.slice(complete)
            yield last

        return self.by_key(keys, order, reduced, schema)

    def numbered(self, keys: Sequence[str], name: str, order: Sequence[str] = (), runs: Sequence[str] = ()) -> Rows:
        """The rows with a column ``name`` (:func:`numbered`), those of a key in the order of some columns."""
        schema = self.schema.append(pa.field(name, pa.int64()))
        return self.by_key(keys, order, partial(numbered, keys=keys, name=name, runs=runs), schema)

    def sorted(self, order: Sequence[str]) -> Rows:
        """The rows in ascending order of some columns, null first.

        All rows are in memory meanwhile.
        """

        def read() -> Batches:
            rows = self.table()
            if len(rows):
                rows = rows.take(_sorted(rows, order))
            return iter(rows.combine_chunks().to_batches(_BATCH))

        return Rows(read, self.schema)

    def batches(self) -> Batches:
        """All rows, batch by batch, in this process."""
        return (batch for batch in self._read() if batch.num_rows)

    def stream(self) -> Batches:
        """All rows, batch by batch, each as soon as it was made."""
        return self.batches()

    def write(self, folder: Path) -> None:
        """Writes the rows into a folder of Parquet files."""
        folder.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(folder / "part-0.parquet", self.schema) as writer:
            for batch in self.batches():
                writer.write_batch(batch)

    def stored(self, folder: Path) -> Rows:
        """The rows, written into a folder of Parquet files, which is replaced, and read from there."""
        shutil.rmtree(folder, ignore_errors=True)
        self.write(folder)
        (folder / "_SUCCESS").touch()  # as Spark does
        file, schema = folder / "part-0.parquet", self.schema
        return Rows(lambda: conform(pq.ParquetFile(file).iter_batches(_BATCH), schema), schema)

    def to_frame(self, spark: SparkSession) -> DataFrame:
        """The rows as a DataFrame.

        All rows are in memory meanwhile.
        """
        from pyspark.sql.pandas.types import from_arrow_schema

        rows = self.table()  # Spark cannot convert nested columns without rows
        return spark.createDataFrame(rows if len(rows) else [], from_arrow_schema(self.schema))

    def with_column_of(self, other: Rows, keys: Sequence[str], name: str) -> Rows:
        """The rows with a column ``name`` of ``other``, in which the values of the columns ``keys`` are unique: that of
        the row with the same key; null where there is none.

        These columns of ``other`` are in memory meanwhile.
        """
        schema = self.schema.append(other.schema.field(name))

        def read() -> Batches:
            column = ColumnByKey(other.select([*keys, name]).table(), keys, name)
            return column.added(self._read(), schema)

        return Rows(read, schema)

    def union(self, other: Rows) -> Rows:
        """The rows, and those of ``other``, which have the same schema."""
        if other.in_spark:
            return other.union(self)
        return Rows(lambda: chain(self.batches(), other.batches()), self.schema)

    def table(self) -> pa.Table:
        """All rows, in this process."""
        return pa.Table.from_batches(self.batches(), self.schema).combine_chunks()

    def select(self, columns: Sequence[str]) -> Rows:
        """Some of the columns."""
        names = list(columns)
        return self.map(lambda batch: batch.select(names), pa.schema([self.schema.field(name) for name in names]))

    def near_tables(self, tables: Collection[str]) -> Rows:
        """Rows of changes among which are all of some tables (``schema.table`` or ``table``): without those of others,
        where that saves reading them."""
        return self

    def drop(self, name: str) -> Rows:
        """All columns but one."""
        return self.select([column for column in self.schema.names if column != name])

    def where(self, predicate: Callable[[pa.RecordBatch], Any]) -> Rows:
        """The rows for which a predicate, which gives a mask, holds."""
        return self.map(lambda batch: batch.filter(mask_of(predicate, batch)), self.schema)

    def first(self, order: Sequence[str | tuple[str, str]], limit: int, by: Sequence[str] = ()) -> pa.Table:
        """The first rows in an order (columns, or columns with ``ascending`` or ``descending``), at most ``limit``, or
        so many for each value of the columns ``by``; null first."""
        rows: pa.Table = self.fold(*first_of(self.schema, order, limit, by))
        return rows


# --- questions --------------------------------------------------------------------------------------------------------


def together(*folds: Fold) -> Fold:
    """The functions of :meth:`Rows.fold` that give the results of several questions in one pass, as a list."""

    def merge(parts: Sequence[list[Any]]) -> list[Any]:
        return [merge_one([part[number] for part in parts]) for number, (_, merge_one) in enumerate(folds)]

    return lambda *given: [partial(*given) for partial, _ in folds], merge


def totals_of(
    schema: pa.Schema,
    totals: Mapping[str, str],
    columns: Callable[[pa.RecordBatch], Mapping[str, Any] | pa.RecordBatch | pa.Table] = pa.table,
) -> Fold:
    """The functions for :meth:`Rows.totals` of rows of ``schema``."""

    def merge(parts: Sequence[pa.Table]) -> pa.Table:
        return grouped(parts or [pa.table(columns(joined([], schema)))], totals)

    return lambda batch: grouped([pa.table(columns(batch))], totals), merge


def counted_by(schema: pa.Schema, by: Sequence[str], **totals: str) -> Fold:
    """The functions that give the number of ``rows`` with each value of the columns ``by``, of which there are few, and
    totals (:func:`grouped`) of other columns."""
    names = [*by, *totals]

    def columns(batch: pa.RecordBatch) -> dict[str, Any]:
        return {name: batch[name] for name in names} | {"rows": np.ones(len(batch), np.int64)}

    return totals_of(schema, {"rows": "sum", **totals}, columns)


def first_of(
    schema: pa.Schema,
    order: Sequence[str | tuple[str, str]],
    limit: int,
    by: Sequence[str] = (),
    where: Callable[[pa.RecordBatch], Any] | None = None,
) -> Fold:
    """The functions for :meth:`Rows.first` of the rows of ``schema`` for which a predicate holds."""

    def first(batch: pa.RecordBatch) -> pa.Table:
        return best([pa.Table.from_batches([batch if where is None else batch.filter(mask_of(where, batch))])])

    def best(parts: Sequence[pa.Table]) -> pa.Table:
        rows = pa.concat_tables(parts) if parts else schema.empty_table()
        rows = rows.take(_sorted(rows, [*by, *order]))
        firsts = run_starts(rows, by)
        ranks = np.arange(len(rows)) - np.repeat(firsts, np.diff(np.append(firsts, len(rows))))
        return rows.filter(pa.array(ranks < limit))

    return first, best


def mask_of(predicate: Callable[[pa.RecordBatch], Any], batch: pa.RecordBatch) -> pa.Array:
    """The mask that a predicate gives for a batch."""
    mask = predicate(batch)
    return mask if isinstance(mask, pa.Array) else pa.array(mask)


def _distributed(batches: Batches, keys: Sequence[str], schema: pa.Schema) -> Iterator[Callable[[], Batches]]:
    """Parts of some rows, each with all rows of its keys: one part in memory, or temporary files."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size > _IN_MEMORY:
            break
    else:
        yield lambda: iter(waiting)
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cdcwb-keys-")))
        paths = [folder / str(number) for number in range(_PARTS)]
        with ExitStack() as files:
            writers = [files.enter_context(pa.ipc.new_stream(str(path), schema)) for path in paths]
            for batch in chain(waiting, batches):
                for number, rows in dealt(batch, keys, _PARTS):
                    writers[number].write_batch(rows)
            waiting.clear()
        for path in paths:
            yield partial(_read_stream, path)
            path.unlink()


def dealt(batch: pa.RecordBatch, keys: Sequence[str], parts: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of a batch divided into at most so many parts, each with its number; those with equal texts or numbers
    in the columns ``keys`` are in one."""
    hashes = sum(text_hashes(batch[key].cast(pa.string())) for key in keys)
    numbers = (hashes % np.uint64(parts)).astype(np.uint8 if parts <= 256 else np.uint16)  # sorted in one pass
    order = np.argsort(numbers, kind="stable")
    rows = batch.take(pa.array(order))
    bounds = np.searchsorted(numbers[order], np.arange(parts + 1))
    for number, (start, end) in enumerate(pairwise(bounds.tolist())):
        if end > start:
            yield number, rows.slice(start, end - start)


def _read_stream(path: Path) -> Batches:
    with pa.ipc.open_stream(str(path)) as stream:
        yield from stream


_SLICE: Final = 1 << 16  # texts that are hashed at once, to limit memory
_LONG: Final = 64  # bytes of a text that is hashed alone
_MIX: Final = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0xD6E8FEB86659FD93], np.uint64)
_ONES: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
_HALF: Final = np.uint64(32)


def text_hashes(texts: pa.Array) -> Any:
    """A number of 64 bits for each text, equal for equal texts; 0 for null."""
    slices = [texts.slice(start, _SLICE) for start in range(0, len(texts), _SLICE)]
    return np.concatenate([np.zeros(0, np.uint64), *map(_hashes_of, slices)])


def _hashes_of(texts: pa.Array) -> Any:
    """The hashes of texts, from their words of 8 bytes, of which the last is filled with zeros."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    starts, sizes = offsets[:-1] - offsets[0], np.diff(offsets)
    content = texts.buffers()[2]
    body = np.zeros(offsets[-1] - offsets[0] + 8, np.uint8)
    if content is not None:
        body[:-8] = np.frombuffer(content, np.uint8)[offsets[0] : offsets[-1]]
    words = np.ndarray(len(body) - 7, "<u8", body, strides=(1,))
    hashes = (sizes.astype(np.uint64) + np.uint64(1)) * _MIX[0]
    rows: Any = slice(None)
    for end in range(8, _LONG + 1, 8):
        lacking = np.maximum(end - sizes[rows], 0).astype(np.uint64)  # bytes of the word
        word = words[starts[rows] + (end - 8)] & (_ONES >> (lacking * np.uint64(8)))
        mixed = (hashes[rows] ^ word) * _MIX[1]
        hashes[rows] = mixed ^ (mixed >> _HALF)
        rows = np.flatnonzero((sizes > end) & (sizes <= _LONG))
    for row in np.flatnonzero(sizes > _LONG).tolist():
        text = body[starts[row] : starts[row] + sizes[row]].tobytes()
        hashes[row] = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    hashes *= _MIX[2]
    return np.where(np.asarray(texts.is_valid()), hashes ^ (hashes >> _HALF), np.uint64(0))


def _sorted(rows: pa.Table, order: Sequence[str | tuple[str, str]]) -> pa.Array:
    """The numbers of rows in an order, null first."""
    keys: list[tuple[str, str]] = []
    columns: dict[str, Any] = {}
    for number, one in enumerate(order):
        name, direction = (one, "ascending") if isinstance(one, str) else one
        if rows[name].null_count:
            columns[f"{number} is valid"] = rows[name].is_valid()
            keys.append((f"{number} is valid", "ascending"))
        columns[f"{number}"] = rows[name]
        keys.append((f"{number}", direction))
    return pc.sort_indices(pa.table(columns), sort_keys=keys)


class ColumnByKey:
    """A column of rows with unique keys, to be looked up."""

    def __init__(self, rows: pa.Table, keys: Sequence[str], name: str) -> None:
        self._keys = list(keys)
        known = _combined(rows, keys)
        hashes = text_hashes(known)
        order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[order]
        self._known, self._values = (one.take(pa.array(order)) for one in (known, rows[name].combine_chunks()))

    def added(self, batches: Batches, schema: pa.Schema) -> Batches:
        """The batches with the value for the key of each row; null where there is none."""
        for batch in batches:
            column = self._of(_combined(batch, self._keys))
            yield pa.RecordBatch.from_arrays([*batch.columns, column], schema=schema)

    def _of(self, keys: pa.Array) -> pa.Array:
        if not len(self._hashes):
            return pa.nulls(len(keys), self._values.type)
        wanted = text_hashes(keys)
        at = np.minimum(np.searchsorted(self._hashes, wanted), len(self._hashes) - 1)
        is_known = np.asarray(pc.fill_null(pc.equal(self._known.take(pa.array(at)), keys), False))
        is_other = (self._hashes[at] == wanted) & ~is_known & np.asarray(keys.is_valid())
        if is_other.any():  # texts with one hash
            others = pc.index_in(keys.filter(pa.array(is_other)), self._known)
            at[is_other] = np.asarray(others.fill_null(0))
            is_known[is_other] = np.asarray(others.is_valid())
        return self._values.take(pa.array(at, mask=~is_known))


def _combined(rows: pa.RecordBatch | pa.Table, keys: Sequence[str]) -> Any:
    """The values of some columns as one text; null where one is null."""
    columns = [rows[name].cast(pa.string()) for name in keys]
    combined = columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, "\n")
    return combined.combine_chunks() if isinstance(combined, pa.ChunkedArray) else combined


def merged(batches: Batches, partial: Callable[[pa.RecordBatch], T], merge: Callable[[Sequence[T]], T]) -> list[T]:
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


def answer_of(capture: Any, name: str, question: Callable[[Any], T]) -> T:
    """The answer to a question about a capture, which one with ``answers`` remembers by the name."""
    known: dict[str, T] = getattr(capture, "answers", {})
    if name not in known:
        known[name] = question(capture)
    return known[name]


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
            begins, steps = (are_first(rows, names)[-len(batch) :] for names in (keys, runs))
            total = number + np.cumsum(begins | steps if runs else np.ones(len(batch), np.int64))
            numbers = total - np.maximum.accumulate(np.where(begins, total - 1, 0))
            yield batch.append_column(pa.field(name, pa.int64()), pa.array(numbers))
            last, number = batch.slice(len(batch) - 1), int(numbers[-1])


def runs_of(batch: pa.RecordBatch, keys: Sequence[str]) -> Batches:
    """The runs of rows with equal ``keys``, each as a batch."""
    for start, end in pairwise([*run_starts(batch, keys).tolist(), len(batch)]):
        yield batch.slice(start, end - start)


def complete_keys(batches: Batches, keys: Sequence[str], size: int = 1) -> Batches:
    """The rows of batches as :meth:`Rows.by_key` gives them in batches that have all rows of each of their keys, and
    ``size`` rows or more as far as there are."""
    held: list[pa.RecordBatch] = []
    least = size
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) <= least:
            continue
        rows = joined(held, batch.schema)
        last = int(run_starts(rows, keys)[-1])
        if last:
            yield rows.slice(0, last)
        held, least = [rows.slice(last)], max(size, 2 * (len(rows) - last))
    if held:
        yield joined(held, held[0].schema)


def are_first(rows: pa.RecordBatch | pa.Table, keys: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Whether each row is the first, or its keys differ from those of the row before."""
    edges: npt.NDArray[np.bool_] = np.arange(len(rows)) == 0
    for key in keys:
        column = rows[key].combine_chunks() if isinstance(rows, pa.Table) else rows[key]
        edges[1:] |= differ(column.slice(1), column.slice(0, max(len(column) - 1, 0)))
    return edges


def run_starts(rows: pa.RecordBatch | pa.Table, keys: Sequence[str]) -> npt.NDArray[np.int64]:
    """The numbers of the rows with which runs of equal keys begin."""
    return np.flatnonzero(are_first(rows, keys))


def each_different(
    columns: Sequence[pa.Array], function: Callable[..., Any], kind: pa.DataType | None = None
) -> pa.Array:
    """The results (of type ``kind``; None: texts) of a function of the values of some columns, which is called once for
    each different row."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        coded = column.dictionary_encode(null_encoding="encode")
        codes = codes * max(len(coded.dictionary), 1) + np.asarray(coded.indices)
    _, firsts, numbers = np.unique(codes, return_index=True, return_inverse=True)
    rows = zip(*(column.take(pa.array(firsts)).to_pylist() for column in columns), strict=True)
    return pa.array([function(*row) for row in rows], kind or pa.string()).take(pa.array(numbers))


def joined(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Several batches as one; without any, no rows of ``schema``."""
    combined = pa.Table.from_batches(batches).combine_chunks().to_batches() if batches else []
    return combined[0] if combined else pa.RecordBatch.from_pylist([], schema)


# --- parts of an order ------------------------------------------------------------------------------------------------

PART: Final = pa.field("part", pa.int32())


def _sampled(stride: int, batch: pa.RecordBatch) -> pa.Table:
    """Some rows, and the number of rows that each represents."""
    at = np.arange(0, len(batch), stride)
    numbers = pa.array(np.diff(np.append(at, len(batch))))
    return pa.Table.from_batches([batch.take(pa.array(at))]).append_column("rows", numbers)


def _tables(tables: Sequence[pa.Table]) -> pa.Table | None:
    return pa.concat_tables(tables) if tables else None


def _bounds(sample: pa.Table, order: Sequence[str], size: int) -> pa.Table | None:
    """The first rows of all parts but the first; None for one part."""
    sample = sample.take(_sorted(sample, order))
    upto = np.cumsum(sample["rows"].to_numpy())
    parts = -(-int(upto[-1]) // size)
    if parts < 2:
        return None
    at = np.unique(np.searchsorted(upto, upto[-1] * np.arange(1, parts) // parts))
    return sample.select(list(order)).take(pa.array(at))


def _with_part(bounds: pa.Table | None, batch: pa.RecordBatch) -> pa.RecordBatch:
    part = np.zeros(len(batch), np.int32)
    if bounds is not None:
        both = pa.concat_tables([bounds, pa.Table.from_batches([batch.select(bounds.schema.names)])])
        order = np.asarray(_sorted(both, bounds.schema.names))
        is_bound = order < len(bounds)  # a bound precedes the rows that are equal to it
        part[order[~is_bound] - len(bounds)] = np.cumsum(is_bound)[~is_bound]
    return pa.RecordBatch.from_arrays([*batch.columns, pa.array(part)], schema=batch.schema.append(PART))


def _part_by_part(function: Callable[[pa.Table], pa.Table], batches: Batches) -> Batches:
    for parts in complete_keys(batches, [PART.name]):
        for rows in runs_of(parts, [PART.name]):
            yield from function(pa.Table.from_batches([rows])).combine_chunks().to_batches()
