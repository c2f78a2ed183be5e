"""Rows with Kafka's columns: where each message stands, by topic, partition and offset, or by its row."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays.maps import Ints
from cdcwb.formats.event_batch import EventBatch
from cdcwb.formats.messages.batch import Messages
from cdcwb.formats.messages.rows import from_arrow
from cdcwb.model import OffsetUnit

__all__ = ["OF_TABLES", "Where", "by_partition", "messages_of", "topic_partitions", "where_of"]

_ROW: Final = "_row"

OF_TABLES: Final = frozenset({"topic", "partition", "offset", "value"})
"""Kafka's columns from which typed tables are read: places and bodies."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where the messages of a batch stand: in one file, or each in its topic and partition (arrays then)."""

    file: str | pa.StringArray
    file_index: int | pa.Array
    unit: str

    def fill(self, batch: EventBatch, messages: Messages) -> None:
        """Puts the places of all messages into a batch of events."""
        for name, value in (("file", self.file), ("file_index", self.file_index)):
            if isinstance(value, (str, int)):
                batch.constant(name, value)
            else:
                batch.put(name, value)
        batch.constant("offset_unit", self.unit)
        batch.put("offset", pa.array(messages.offset))
        batch.put("length", pa.array(messages.length))


def topic_partitions(batches: Iterator[pa.RecordBatch]) -> bytes:
    """The pickled set of topics and partitions of some rows; empty where the rows do not say where each stands."""
    found: set[tuple[str, int]] = set()
    for batch in batches:
        columns = _placed(batch)
        if columns is None:
            return pickle.dumps(set())
        names = pa.table({"topic": columns[0], "partition": columns[1]}).group_by(["topic", "partition"]).aggregate([])
        found.update((row["topic"], row["partition"]) for row in names.to_pylist())
    return pickle.dumps(found)


def _placed(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array, pa.Array] | None:
    """Topic, partition and offset of every row, if all have them."""
    by_name = {name.lower(): column for name, column in zip(batch.schema.names, batch.columns, strict=True)}
    try:
        columns = (
            by_name["topic"].cast(pa.string()),
            by_name["partition"].cast(pa.int64()),
            by_name["offset"].cast(pa.int64()),
        )
    except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return None if any(column.null_count for column in columns) else columns


def messages_of(batch: pa.RecordBatch, partitions: Sequence[tuple[str, int]]) -> tuple[Messages, Ints | int]:
    """The messages of some rows, and the index of the file of each: its topic and partition."""
    messages = from_arrow(batch)
    length = np.ones(batch.num_rows, dtype=np.int64)
    columns = _placed(batch) if partitions else None
    if columns is None:
        row = batch.column(_ROW).to_numpy(zero_copy_only=False).astype(np.int64)
        return dataclasses.replace(messages, offset=row, length=length), 0
    topic, partition, offset = columns
    coded, numbers = topic.dictionary_encode(), partition.to_numpy(zero_copy_only=False)
    codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    index = np.zeros(batch.num_rows, np.int64)
    names = coded.dictionary.to_pylist()
    for at, (name, number) in enumerate(partitions):
        if name in names:
            index[(codes == names.index(name)) & (numbers == number)] = at
    offsets = offset.to_numpy(zero_copy_only=False)
    return dataclasses.replace(messages, offset=offsets, length=length), index


def by_partition(
    batch: pa.RecordBatch, partitions: Sequence[tuple[str, int]], name: str
) -> Iterator[tuple[Messages, tuple[str, int, str]]]:
    """The messages of some rows, those of each topic and partition together: with their file, its index and the unit of
    places."""
    messages, index = messages_of(batch, partitions)
    if isinstance(index, int):
        yield messages, (name, index, str(OffsetUnit.ROW))
        return
    numbers = np.unique(index).tolist()
    for number in numbers:
        some = messages if len(numbers) == 1 else messages_of(batch.filter(pa.array(index == number)), partitions)[0]
        topic, partition = partitions[number]
        yield some, (f"{topic}-{partition}", number, str(OffsetUnit.MESSAGE))


def _names(topic: pa.Array, partition: pa.Array) -> pa.StringArray:
    return pc.binary_join_element_wise(topic, partition.cast(pa.string()), "-")


def where_of(batch: pa.RecordBatch, index: Ints | int, name: str) -> Where:
    """Where the messages of some rows stand, for their events."""
    if isinstance(index, int):
        return Where(name, index, str(OffsetUnit.ROW))
    columns = _placed(batch)
    if columns is None:  # cannot be: the index was made from them
        return Where(name, 0, str(OffsetUnit.ROW))
    return Where(_names(columns[0], columns[1]), pa.array(index.astype(np.int32)), str(OffsetUnit.MESSAGE))
