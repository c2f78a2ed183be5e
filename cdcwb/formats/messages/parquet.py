"""Parquet files with Kafka's columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb.errors import CaptureError
from cdcwb.formats.files import Source
from cdcwb.formats.messages.batch import FACTS, MALFORMED, Messages
from cdcwb.formats.messages.rows import ROW, from_arrow, kafka_columns
from cdcwb.formats.messages.segments import BYTES, LONGEST

__all__ = ["MAGIC", "PARTITION", "ParquetRows"]

MAGIC: Final = b"PAR1"
PARTITION: Final = b"cdcwb.partition"
"""The metadata of a file that ``cdcwb capture`` wrote: its messages are of one partition of a topic, in the order of
their offsets."""

_SOME: Final = 64  # rows read at a time


class ParquetRows:
    """The rows of one file. Raises CaptureError for one whose footer is damaged or that has no column ``value``."""

    def __init__(self, source: Source) -> None:
        self.source = source
        try:
            self.file = pq.ParquetFile(pa.BufferReader(pa.py_buffer(source.read(0, source.length))))
            self.metadata = self.file.metadata
            names = self.file.schema_arrow.names
        except (pa.ArrowException, OSError, ValueError) as reason:
            raise CaptureError(f"the Parquet file cannot be read ({_first_line(reason)})") from None
        self.columns = kafka_columns(names)
        self.count = int(self.metadata.num_rows)
        self.is_partition = PARTITION in (self.metadata.metadata or {})
        if not self.columns:
            raise CaptureError(f"the Parquet file has no column 'value', only {', '.join(names) or 'none'}")

    def groups(self) -> list[tuple[int, int]]:
        """First row and packed bytes of every row group."""
        found = []
        row = 0
        for at in range(self.metadata.num_row_groups):
            group = self.metadata.row_group(at)
            size = sum(group.column(column).total_compressed_size for column in range(group.num_columns))
            found.append((row, int(size)))
            row += group.num_rows
        return found

    def row_of(self, offset: int) -> int | None:
        """The row of the message with this offset in its partition; None where there is none."""
        offsets = self.file.read(columns=[self.columns["offset"]]).column(0).to_numpy()
        row = int(np.searchsorted(offsets, offset))
        return row if row < len(offsets) and offsets[row] == offset else None

    def read(self, start: int, stop: int, batch: int) -> Iterator[Messages]:
        """The rows ``[start, stop)``; those of one partition have their offset there as their place."""
        starts = [row for row, _ in self.groups()]
        for at, row in enumerate(starts):
            group = self.metadata.row_group(at)
            behind = row + group.num_rows
            if behind <= start or row >= stop:
                continue
            yield from self._group(at, row, max(start, row), min(stop, behind), batch)

    def _group(self, group: int, row: int, start: int, stop: int, batch: int) -> Iterator[Messages]:
        """The rows of a group; they are read a few at a time, since nothing says how long values are that repeat."""
        waiting: list[pa.RecordBatch] = []
        count = size = 0
        given = start  # rows handed over
        try:
            wanted = list(self.columns.values())
            for part in self.file.iter_batches(
                min(_SOME, batch), row_groups=[group], columns=wanted, use_threads=False
            ):
                first, last = max(row, start), min(row + len(part), stop)
                if first < last:
                    kept = part.slice(first - row, last - first)
                    if count + len(kept) > batch or size + kept.nbytes > BYTES:
                        if waiting:
                            yield from_arrow(waiting)
                        given, waiting, count, size = first, [], 0, 0
                    waiting.append(kept.append_column(ROW, self._places(kept, first, last)))
                    count, size = count + len(kept), size + kept.nbytes
                row += len(part)
                if row >= stop:
                    break
            if waiting:
                yield from_arrow(waiting)
        except (pa.ArrowException, OSError, CaptureError) as reason:
            if waiting and not isinstance(reason, CaptureError):
                yield from_arrow(waiting)
                given += count
            sentence = f"row group {group} cannot be read from row {given} on ({_first_line(reason)})"
            for first in range(given, stop, batch):
                yield malformed_rows(first, min(first + batch, stop), sentence)

    def _places(self, kept: pa.RecordBatch, first: int, last: int) -> pa.Array:
        if self.is_partition:
            return kept.column(self.columns["offset"]).cast(pa.int64())
        return pa.array(np.arange(first, last))


def malformed_rows(start: int, stop: int, reason: str, source: bytes = b"") -> Messages:
    """Rows that cannot be read; the bytes that hold them are those of the first."""
    count = stop - start
    return Messages(
        np.arange(start, stop),
        np.ones(count, dtype=np.int64),
        np.full(count, MALFORMED, dtype=np.uint8),
        dict.fromkeys(range(count), reason),
        pa.nulls(count, pa.binary()),
        pa.nulls(count, pa.binary()),
        pa.array([source[:LONGEST], *[b""] * (count - 1)], pa.binary()),
        dict.fromkeys(FACTS, pa.nulls(count, pa.string())),
    )


def _first_line(reason: Exception) -> str:
    return str(reason).partition("\n")[0]
