"""Sends Arrow batches from the tasks of splits to the tasks that compare rows of several splits. A batch is one binary
value of Spark, so that its columns need not be converted to Spark's rows and back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SENT", "collected", "groups_of", "received", "send", "together", "typed"]

SENT: Final = pa.schema([("name", pa.string()), ("group", pa.int32()), ("place", pa.int64()), ("batch", pa.binary())])
"""Batches. Rows that have to be compared are in one ``group``; ``place`` is the order of batches."""

_RECORDS: Final = 200_000  # for each group
_GROUPS: Final = (4, 512)


def groups_of(facts: Mapping[str, Any]) -> int:
    """The number of groups for a capture with these facts of its plan."""
    least, most = _GROUPS
    return min(most, least + int(facts.get("records") or 0) // _RECORDS)


def send(name: str, batch: pa.RecordBatch, key: str | None, groups: int, place: int) -> Iterator[pa.RecordBatch]:
    """A batch, divided into groups by its texts in the column ``key`` (None: in one of any group), as a batch of
    :data:`SENT`."""
    if not batch.num_rows:
        return
    if key is None:
        parts = {((place >> 32) + place) % groups: batch}
    else:
        coded = batch[key].dictionary_encode()
        texts = np.array([*coded.dictionary.to_pylist(), ""], object)
        hashed = (pd.util.hash_array(texts, categorize=False) % groups).astype(np.int32)
        group = hashed[coded.indices.fill_null(len(texts) - 1).to_numpy()]
        order = np.argsort(group, kind="stable")
        rows, starts = batch.take(pa.array(order)), np.flatnonzero(np.diff(group[order], prepend=-1))
        ends = [*starts[1:].tolist(), len(order)]
        numbers = group[order][starts].tolist()
        slices = (rows.slice(start, end - start) for start, end in zip(starts.tolist(), ends, strict=True))
        parts = dict(zip(numbers, slices, strict=True))
    columns = [
        pa.array([name] * len(parts), pa.string()),
        pa.array(list(parts), pa.int32()),
        pa.array([place] * len(parts), pa.int64()),
        pa.array(map(_written, parts.values()), pa.binary()),
    ]
    yield pa.RecordBatch.from_arrays(columns, schema=SENT)


def typed(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Spark's batches as ones of exactly this schema."""
    for batch in batches:
        yield pa.RecordBatch.from_arrays([batch[field.name].cast(field.type) for field in schema], schema=schema)


def _written(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def together(sent: DataFrame) -> DataFrame:
    """Brings the batches of each group (:data:`SENT`) into one task, in their order."""
    return sent.repartition("group").sortWithinPartitions("place")


def collected(sent: DataFrame) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The batches that were sent, with their names, on the driver."""
    return received(sent.toArrow().to_batches())


def received(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The batches that were sent, with their names."""
    for batch in batches:
        for name, written in zip(batch["name"].to_pylist(), batch["batch"], strict=True):
            for rows in pa.ipc.open_stream(written.as_buffer()):
                yield name, rows
