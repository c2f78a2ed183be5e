"""Tables of a capture as input of analyses: stored rows, small results of Spark as pandas frames, and shared
columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from cdcwb.dataset import Rows, SparkRows
from cdcwb.errors import OptionError
from cdcwb.index.changes import MOST_CHANGES
from cdcwb.index.columns import NO_TIME, Ints
from cdcwb.index.selection import NO_TABLE
from cdcwb.spark.select import dated
from cdcwb.spark.stored import Stored
from cdcwb.time_axis import LEAST, TimeAxis, axis_of, fences, time_of
from cdcwb.writing import scratch

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from cdcwb.capture import Capture

__all__ = [
    "NO_TABLE",
    "Snapshot",
    "TableStore",
    "bounds_of",
    "dated_rows",
    "from_start",
    "part_of",
    "rows_of",
    "small",
    "spark_schema",
    "stored_axis",
    "stored_rows",
    "table_name",
    "time_axis",
]


class Tables(Protocol):
    """The input of analyses: the tables of a capture (:mod:`cdcwb.model`), and those with fewer columns."""

    @property
    def format(self) -> str: ...
    @property
    def events(self) -> DataFrame: ...
    @property
    def headers(self) -> DataFrame: ...
    @property
    def changes(self) -> DataFrame: ...
    @property
    def change_headers(self) -> DataFrame: ...
    @property
    def transactions(self) -> DataFrame: ...
    @property
    def table_versions(self) -> DataFrame: ...
    @property
    def problems(self) -> DataFrame: ...


AT_ONCE: Final = 2_000_000
"""The most stored rows that are in memory at once, where they are not read batch by batch."""


def stored_rows(capture: Any, table: str, columns: Sequence[str], most: int = MOST_CHANGES) -> Stored | None:
    """Some columns of a table of a capture (a name of :data:`cdcwb.model.TABLES`) if its rows are stored and few enough
    to be read without Spark; else None."""
    folder = capture.stored_in(table) if isinstance(capture, Snapshot) else None
    rows = None if folder is None else Stored(folder, table, columns)
    return rows if rows is not None and len(rows) <= most else None


def rows_of(capture: Any, table: str, columns: Sequence[str]) -> DataFrame | Stored:
    """Some columns of a table: stored rows as of :func:`stored_rows`, else a Spark frame."""
    rows = stored_rows(capture, table, columns)
    return getattr(capture, table).select(*columns) if rows is None else rows


def small(frame: DataFrame) -> pd.DataFrame:
    """A small result with Arrow types. ``toPandas`` would convert 64-bit integers to floats if the column has a
    null."""
    import pandas as pd  # tasks of Spark do not need it

    return frame.toArrow().to_pandas(types_mapper=pd.ArrowDtype)


def table_name() -> Column:
    """``schema.table``, or ``table`` without a schema; :data:`NO_TABLE` without both."""
    return F.coalesce(F.nullif(F.concat_ws(".", "schema_name", "table_name"), F.lit("")), F.lit(NO_TABLE))


def dated_rows(capture: Any, columns: Sequence[str]) -> DataFrame | Stored:
    """Some columns of the changes, and ``changed_at``, which is the time that
    :func:`cdcwb.spark.select.dated` gives; stored rows where changes and transactions are stored."""
    columns = list(dict.fromkeys([*columns, "changed_at"]))
    rows = stored_rows(capture, "changes", list(dict.fromkeys([*columns, "committed_at", "transaction_id"])))
    ends = stored_rows(capture, "transactions", ("transaction_id", "began_at", "ended_at"))
    if rows is None or ends is None:
        changes = capture.changes if "changed_columns" in columns else capture.change_headers
        return dated(changes, capture.transactions).withColumn("changed_at", F.col("_when")).select(*columns)
    return _Dated(rows, ends)


class _Dated(Stored):
    """Stored changes whose ``changed_at`` is the time of :func:`cdcwb.spark.select.dated`."""

    def __init__(self, rows: Stored, ends: Stored) -> None:
        self._rows = rows
        self._ends = ends
        self.schema = rows.schema

    def __len__(self) -> int:
        return len(self._rows)

    @cached_property
    def _ended(self) -> tuple[pa.Array, pa.Array]:
        """The ids of transactions, and the time of each: its end, else its begin."""
        ends = self._ends.batch()
        return ends["transaction_id"], pc.coalesce(ends["ended_at"], ends["began_at"])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """See :class:`cdcwb.spark.stored.Stored`."""
        for batch in self._rows.batches():
            at = pc.coalesce(batch["changed_at"], batch["committed_at"])
            if at.null_count:
                ids, times = self._ended
                at = pc.coalesce(at, times.take(pc.index_in(batch["transaction_id"], ids, skip_nulls=True)))
            yield batch.set_column(batch.schema.get_field_index("changed_at"), "changed_at", at)


def stored_axis(
    rows: Stored,
    times: Callable[[pa.RecordBatch], Ints],
    first: datetime | None = None,
    last: datetime | None = None,
) -> TimeAxis | None:
    """The time axis for batches of rows whose ``times`` (microseconds since 1970 UTC) are bounded by ``first`` and
    ``last`` as far as these are known (:mod:`cdcwb.time_axis`); None without times."""
    if first is not None and last is not None and last - first <= LEAST:
        return TimeAxis(first, last)
    at = np.concatenate([np.zeros(0, np.int64), *map(times, rows.batches())])
    axis = axis_of(at[at != NO_TIME])
    return axis if axis is None or axis.outside else TimeAxis(first or axis.first, last or axis.last)


def time_axis(
    frame: DataFrame, *times: Column, first: datetime | None = None, last: datetime | None = None
) -> TimeAxis | None:
    """The time axis for the ``times`` of a frame, as :func:`stored_axis`.

    No Spark job if they span at most :data:`~cdcwb.time_axis.LEAST`, two if times are outside the axis, else one.
    """
    if first is not None and last is not None and last - first <= LEAST:
        return TimeAxis(first, last)
    known = frame.select(F.explode(F.array(*times)).alias("_time")).where("_time IS NOT NULL")
    at = F.unix_micros("_time")
    quartiles = F.percentile_approx(at, [0.25, 0.75], 10_000)
    row = known.agg(quartiles.alias("quartiles"), F.min(at).alias("least"), F.max(at).alias("most")).collect()[0]
    if row.quartiles is None:
        return None
    limits = fences(row.quartiles[0], row.quartiles[1], row.least, row.most)
    if limits is None:
        return TimeAxis(first or time_of(row.least), last or time_of(row.most))
    low, high = limits
    inside = F.when(at.between(low, high), F.col("_time"))
    counted = known.agg(
        F.min(inside).alias("first"),
        F.max(inside).alias("last"),
        F.count_if(at < low).alias("before"),
        F.count_if(at > high).alias("after"),
    )
    return TimeAxis(**counted.toArrow().to_pylist()[0])


# --- snapshot ---------------------------------------------------------------------------------------------------------

_NAMES: Final = ("transactions", "changes", "problems")
_PLACED: Final = (
    *("file_index", "offset", "operation", "position", "transaction_id", "schema_name", "table_name"),
    *("outcome", "changed_at", "committed_at"),
)


class Snapshot:
    """A capture whose ``transactions``, ``changes`` and ``problems`` are read once. Changes have only the columns that
    locate them, or all with ``images``.

    Each table is written when it is first used: as ``NAME.parquet`` to ``folder``, which is permanent, or without one
    to a temporary folder that is deleted with this object. Workers of a cluster cannot write to a temporary folder, so
    on a cluster without a shared ``folder`` nothing is written and every analysis reads the capture. A saved capture is
    not written again. Everything else is that of the original capture.

    Raises OptionError if ``folder`` has a table's name that was not written by Spark.
    """

    def __init__(self, capture: Capture, folder: Path | None = None, images: bool = False) -> None:
        self._capture = capture
        self._images = images
        self._folder = folder
        if folder is None and capture.stored:
            return  # already Parquet
        if folder is not None:
            for name in _NAMES:
                path = folder / f"{name}.parquet"
                if path.exists() and not (path / "_SUCCESS").exists():
                    raise OptionError(
                        f"'{path}' already exists and is not a table that Spark wrote; name another folder"
                    )
        elif (capture.spark.conf.get("spark.master", "") or "").startswith("local"):
            self._folder = scratch(self, "cdcwb-snapshot-")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._capture, name)

    @property
    def is_saved(self) -> bool:
        """Whether the tables are those of a saved capture, which is not written again."""
        return self._folder is None and bool(self._capture.stored)

    def rows(self, table: str, columns: Sequence[str]) -> Rows:
        """Some columns of a table, as :meth:`cdcwb.Capture.rows`; Spark reads what was written once."""
        rows: Rows = self._capture.rows(table, columns)
        if isinstance(rows, SparkRows) and table in _NAMES:
            return SparkRows(getattr(self, table).select(*columns), rows.schema)
        return rows

    def stored_in(self, name: str) -> Path | None:
        """The folder of Parquet files with exactly the rows of a table (a name of :data:`cdcwb.model.TABLES`); None if
        there is none."""
        if name in _NAMES and self._folder is not None:
            getattr(self, name)
            return self._folder / f"{name}.parquet"
        saved: Path | None = getattr(self._capture, "saved_in", None)
        return None if saved is None else saved / name

    @cached_property
    def transactions(self) -> DataFrame:
        """One row per transaction."""
        return self._stored("transactions")

    @cached_property
    def changes(self) -> DataFrame:
        """One row per logical change."""
        return self._stored("changes")

    @cached_property
    def problems(self) -> DataFrame:
        """One row per problem."""
        return self._stored("problems")

    def _stored(self, name: str) -> DataFrame:
        placed = name == "changes" and not self._images  # no images are needed
        source = getattr(self._capture, "change_headers" if placed else name)
        frame: DataFrame = source.select(*_PLACED) if placed else source
        if self._folder is None:
            return frame
        path = str(self._folder / f"{name}.parquet")
        frame.write.mode("overwrite").parquet(path)
        return frame.sparkSession.read.schema(frame.schema).parquet(path)


# --- ranges -----------------------------------------------------------------------------------------------------------

_A_PART: Final = 20  # sampled rows for each part
_SEED: Final = 20_260_101


class TableStore:
    """Tables that are read several times and written once.

    On a local master they are Parquet in a temporary folder, which is deleted with the object ``owner``. Workers of a
    cluster cannot write there, so elsewhere a table is computed again each time.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.folder: Path | None = None
        if (spark.conf.get("spark.master", "") or "").startswith("local"):
            self.folder = scratch(self, "cdcwb-xds-")

    def keep(self, name: str, frame: DataFrame) -> DataFrame:
        """Stores a table; returns the frame that reads it."""
        if self.folder is None:
            return frame
        path = str(self.folder / f"{name}.parquet")
        frame.write.mode("overwrite").parquet(path)
        return frame.sparkSession.read.schema(frame.schema).parquet(path)


def spark_schema(schema: pa.Schema) -> StructType:
    """The schema in Spark's types."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def bounds_of(keys: DataFrame, rows: int, a_part: int) -> list[tuple[Any, ...]]:
    """The lower bounds of all parts but the first, in the order of all columns of ``keys``, so that each part has about
    ``a_part`` of the ``rows``. Equal keys are always in one part; no key is null."""
    parts = -(-rows // a_part)
    if parts < 2:
        return []
    share = min(1.0, parts * _A_PART / rows)
    sampled = keys if share >= 1 else keys.sample(share, _SEED)
    sample = sorted(tuple(row) for row in sampled.toLocalIterator())
    places = (len(sample) * number // parts for number in range(1, parts))
    return sorted({sample[index] for index in places if index < len(sample)})


def part_of(keys: Iterable[npt.NDArray[Any]], bounds: list[tuple[Any, ...]]) -> Ints:
    """The number of the part of each row, from 0; ``keys`` are the columns in order of significance."""
    columns = list(keys)
    count = len(columns[0])
    both = []
    for index, column in enumerate(columns):
        values = np.concatenate([np.array([bound[index] for bound in bounds], dtype=column.dtype), column])
        both.append(np.unique(values, return_inverse=True)[1] if values.dtype == object else values)  # texts
    is_row = np.arange(len(bounds) + count) >= len(bounds)
    order = np.lexsort((is_row, *reversed(both)))  # a bound precedes the rows that are equal to it
    part = np.empty(len(order), dtype=np.int64)
    part[order] = np.cumsum(~is_row[order])
    return part[len(bounds) :]


def from_start(table: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The table as batches of that schema whose arrays have offset 0, which Spark requires with some versions of
    Arrow."""
    for batch in table.select(schema.names).cast(schema).combine_chunks().to_batches():
        if batch.num_rows:
            moved = any(column.offset for column in batch.columns)
            yield batch.take(pa.array(np.arange(batch.num_rows))) if moved else batch
