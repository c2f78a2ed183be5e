"""A long table in parts of an order that runs through all of it: where the parts begin, and tables kept in between.

Rows are numbered part by part, each part counting on from those before; so a part has to be the same rows every time
it is asked for. Its bounds are therefore values, drawn once from a sample, and no choice of Spark's.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["Kept", "bounds_of", "from_start", "part_of", "spark_schema"]

Ints = npt.NDArray[np.int64]

_A_PART: Final = 20  # sampled rows for each part
_SEED: Final = 20_260_101


class Kept:
    """Tables that are read several times, written once.

    On a local master they are Parquet in a temporary folder, which goes with the object ``owner``; a cluster's workers
    could not write there, so elsewhere a table is made again each time.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.folder: Path | None = None
        if (spark.conf.get("spark.master", "") or "").startswith("local"):
            self.folder = Path(tempfile.mkdtemp(prefix="cdcwb-xds-"))
            weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def keep(self, name: str, frame: DataFrame) -> DataFrame:
        """The table, to be read from now on."""
        if self.folder is None:
            return frame
        place = str(self.folder / f"{name}.parquet")
        frame.write.mode("overwrite").parquet(place)
        return frame.sparkSession.read.schema(frame.schema).parquet(place)


def spark_schema(schema: pa.Schema) -> StructType:
    """The schema in Spark's types."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def bounds_of(keys: DataFrame, rows: int, a_part: int) -> list[tuple[Any, ...]]:
    """Where the parts begin, but for the first, in the order of all columns of ``keys``: so that each of them has about
    ``a_part`` of the ``rows``. Equal keys are always in one part; no key is null."""
    parts = -(-rows // a_part)
    if parts < 2:
        return []
    share = min(1.0, parts * _A_PART / rows)
    found = keys if share >= 1 else keys.sample(share, _SEED)
    sample = sorted(tuple(row) for row in found.toLocalIterator())
    places = (len(sample) * number // parts for number in range(1, parts))
    return sorted({sample[place] for place in places if place < len(sample)})


def part_of(keys: Iterable[npt.NDArray[Any]], bounds: list[tuple[Any, ...]]) -> Ints:
    """The number of the part that each row is in, from 0; ``keys`` are the columns, the first decides first."""
    columns = list(keys)
    count = len(columns[0])
    both = []
    for place, column in enumerate(columns):
        values = np.concatenate([np.array([bound[place] for bound in bounds], dtype=column.dtype), column])
        both.append(np.unique(values, return_inverse=True)[1] if values.dtype == object else values)  # texts
    is_row = np.arange(len(bounds) + count) >= len(bounds)
    order = np.lexsort((is_row, *reversed(both)))  # a bound stands before the rows that are equal to it
    part = np.empty(len(order), dtype=np.int64)
    part[order] = np.cumsum(~is_row[order])
    return part[len(bounds) :]


def from_start(table: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The table as batches of that schema whose arrays begin where their buffers do, which Spark needs of some
    versions of Arrow."""
    for batch in table.select(schema.names).cast(schema).combine_chunks().to_batches():
        if batch.num_rows:
            moved = any(column.offset for column in batch.columns)
            yield batch.take(pa.array(np.arange(batch.num_rows))) if moved else batch
