"""Rows with the columns of Kafka: DataFrames and Parquet files.

The columns are ``key`` and ``value`` (binary or text), ``topic``, ``partition``, ``offset``, ``timestamp``,
``timestampType`` and ``headers`` (a list of structs of key and value), in any subset with ``value`` and in any case.
Other columns do not matter.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import CaptureError, ChangedFileError
from cdcwb.formats.arrays import EventBatch, as_array, columns_of, packed
from cdcwb.formats.containers.envelopes import TIME_TYPES, headers_of, scalar
from cdcwb.formats.containers.messages import (
    FACTS,
    LONGEST,
    MESSAGE,
    Messages,
    batched,
    fact_columns,
    key_texts,
    time_text,
)
from cdcwb.formats.containers.rows import plain
from cdcwb.formats.containers.tables import first_line, group_starts, open_parquet, row_groups
from cdcwb.formats.kernels import Bools, Ints
from cdcwb.formats.source import Source, open_file
from cdcwb.model import OffsetUnit
from cdcwb.words import unique_names

# --- rows -------------------------------------------------------------------------------------------------------------

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
"""Kafka's columns, as Spark names them."""

_ROW: Final = "_row"

Batches: TypeAlias = pa.RecordBatch | pa.Table | Sequence[pa.RecordBatch]


def kafka_columns(names: Sequence[str]) -> dict[str, str]:
    """Which of the given columns are Kafka's: name in :data:`COLUMNS` -> name there. Without ``value`` there are none.
    If two names differ in their case only, the one that Spark uses counts.
    """
    plain = {name: name.lower().replace("_", "") for name in names}
    found: dict[str, str] = {}
    for column in COLUMNS:
        some = [name for name in names if plain[name] == column.lower()]
        if some:
            found[column] = column if column in some else some[0]
    return found if "value" in found else {}


def from_arrow(batches: Batches, headers: Sequence[Any] | None = None) -> Messages:
    """The messages of rows with Kafka's columns, in their order. ``headers``: those of each row, if the column has them
    otherwise.

    ``offset`` is the column ``_row`` (the number of each row) if there is one, else counted from 0; ``length`` is 1;
    ``source`` is the value. Raises CaptureError if no column is called ``value`` or its type holds no bytes.
    """
    if not isinstance(batches, pa.Table):
        batches = pa.Table.from_batches([batches] if isinstance(batches, pa.RecordBatch) else list(batches))
    names, count = batches.schema.names, len(batches)
    columns = kafka_columns(names)
    if not columns:
        raise CaptureError(f"a column 'value' was expected, found {', '.join(names) or 'no column'}")
    _once(columns, names)
    found = {column: plain(batches.column(name)) for column, name in columns.items()}
    value = _bytes(found["value"], "value")
    row = batches.column(_ROW).to_numpy() if _ROW in names else np.arange(count)
    messages = Messages.of_rows(row.astype(np.int64), value)
    facts: dict[str, pa.Array] = {
        name: _texts(found[name]) for name in ("topic", "partition", "offset") if name in found
    }
    if "timestamp" in found:
        facts["timestamp"] = _times(found["timestamp"])
    if "timestampType" in found:
        coded = _texts(found["timestampType"]).dictionary_encode()
        kinds = pa.array([TIME_TYPES.get(kind.lower(), kind) for kind in coded.dictionary.to_pylist()], pa.string())
        facts["timestamp_type"] = kinds.take(coded.indices)
    if "headers" in found:
        items = found["headers"].to_pylist() if headers is None else headers
        named = fact_columns([headers_of(one) if one else {} for one in items])
        facts.update({name: texts for name, texts in named.items() if name not in FACTS})
    key = _bytes(found["key"], "key") if "key" in found else messages.key
    return dataclasses.replace(messages, key=key, facts=messages.facts | facts)


def _once(columns: Mapping[str, str], names: Sequence[str]) -> None:
    """Raises CaptureError if one of the columns is there several times."""
    for name in columns.values():
        if (count := names.count(name)) > 1:
            raise CaptureError(f"expected one column {name!r}, found {count}; write the rows without the others")


def _bytes(array: pa.Array, name: str) -> pa.BinaryArray:
    if not (pa.types.is_string(array.type) or pa.types.is_binary(array.type)):
        raise CaptureError(f"column {name!r}: bytes or text was expected, found {array.type}")
    return array.cast(pa.binary())


def _texts(array: pa.Array) -> pa.StringArray:
    if pa.types.is_binary(array.type) or pa.types.is_nested(array.type):
        return pa.array([scalar(item) for item in array.to_pylist()], pa.string())
    return packed(pc.cast(array, pa.string()))


def _times(array: pa.Array) -> pa.StringArray:
    """Instants as text: milliseconds with three digits, finer ones with six; -1 ms is unknown."""
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        texts = _texts(array)
        if not pc.all(pc.match_substring_regex(texts, "^[0-9]{12,14}$")).as_py():
            return texts
        array = texts
    elif not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind)):
        return _texts(array)
    scale = 1000 if pa.types.is_timestamp(kind) else 1
    array = pc.cast(array, pa.timestamp("us", kind.tz), safe=False) if scale > 1 else array
    return pa.array(
        [_time(number, scale) for number in pc.cast(array, pa.int64(), safe=False).to_pylist()], pa.string()
    )


def _time(number: int | None, scale: int) -> str | None:
    if number is None or number == -scale:
        return None
    whole, rest = divmod(number, scale)
    text = time_text(whole)
    return f"{text[:-1]}{rest:03}Z" if rest and text[-1] == "Z" else text


def malformed_rows(start: int, stop: int, reason: str, source: bytes = b"") -> Messages:
    """Rows that cannot be read; the bytes that hold them are those of the first."""
    count = stop - start
    sources = pa.array([source[:LONGEST], *[b""] * (count - 1)], pa.binary())
    return Messages.of_rows(np.arange(start, stop), sources, dict.fromkeys(range(count), reason))


# --- files ------------------------------------------------------------------------------------------------------------

PARTITION: Final = b"cdcwb.partition"
"""The metadata of a Parquet file that ``cdcwb capture`` wrote: its messages are of one partition of a topic, in the
order of their offsets."""

_SOME: Final = 64  # rows read at a time


class ParquetRows:
    """The rows of one file. Raises CaptureError for one whose footer is damaged or that has no column ``value``."""

    def __init__(self, source: Source) -> None:
        packed_file = source.compression is not None
        self.file = open_parquet(
            pa.BufferReader(source.read(0, source.length)) if packed_file else open_file(source.path)
        )
        self.groups, names = row_groups(self.file), self.file.schema_arrow.names
        self.columns = kafka_columns(names)
        self.count = int(self.file.metadata.num_rows)
        self.is_partition = PARTITION in (self.file.metadata.metadata or {})
        if not self.columns:
            raise CaptureError(f"the Parquet file has no column 'value', only {', '.join(names) or 'none'}")
        _once(self.columns, names)

    def parts(self, size: int) -> list[int]:
        """The rows at which parts of about ``size`` packed bytes begin, each with a row group."""
        begins = np.cumsum([0, *(rows for rows, _ in self.groups)]).tolist()
        return list(dict.fromkeys(begins[at] for at in group_starts(self.groups, size))) or [0]

    def row_of(self, offset: int) -> int | None:
        """The row of the message with this offset in its partition; None if there is none."""
        offsets = self.file.read(columns=[self.columns["offset"]]).column(0).to_numpy()
        row = int(np.searchsorted(offsets, offset))
        return row if row < len(offsets) and offsets[row] == offset else None

    def read(self, start: int, stop: int, batch: int) -> Iterator[Messages]:
        """The rows ``[start, stop)``; those of one partition have their offset in it as their place."""
        row = 0
        for at, (rows, _) in enumerate(self.groups):
            if start < row + rows and row < stop:
                yield from self._group(at, row, max(start, row), min(stop, row + rows), batch)
            row += rows

    def _group(self, group: int, row: int, start: int, stop: int, batch: int) -> Iterator[Messages]:
        """The rows of a group."""
        given, failures = start, list[Exception]()  # rows that were yielded
        parts = self._parts(group, row, start, stop, min(_SOME, batch), failures)
        for some in batched(parts, batch, lambda part: (len(part), part.nbytes)):
            yield from_arrow(some)
            given += sum(map(len, some))
        for failure in failures:
            sentence = f"row group {group} cannot be read from row {given} on: {first_line(failure)}"
            for first in range(given, stop, batch):
                yield malformed_rows(first, min(first + batch, stop), sentence)

    def _parts(
        self, group: int, row: int, start: int, stop: int, some: int, failures: list[Exception]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a group, a few at a time, since the length of repeated values is unknown; until one cannot be
        read."""
        wanted = list(self.columns.values())
        try:
            for part in self.file.iter_batches(some, row_groups=[group], columns=wanted, use_threads=False):
                first, last = max(row, start), min(row + len(part), stop)
                if first < last:
                    kept = part.slice(first - row, last - first)
                    places = pa.array(np.arange(first, last))
                    if self.is_partition:
                        places = kept.column(self.columns["offset"]).cast(pa.int64())
                    yield kept.append_column(_ROW, places)
                row += len(part)
                if row >= stop:
                    break
        except (pa.ArrowException, OSError) as reason:
            if isinstance(reason, ChangedFileError):
                raise
            failures.append(reason)


# --- topics -----------------------------------------------------------------------------------------------------------

OF_TABLES: Final = frozenset({"topic", "partition", "offset", "value"})
"""Kafka's columns from which typed tables are read: places and bodies."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where the messages of a batch are: in one file, or each in its topic and partition (arrays then)."""

    file: str | pa.StringArray
    file_index: int | pa.Array
    unit: str

    def columns(self, messages: Messages) -> dict[str, Any]:
        """The columns of location of all messages, each an array or the value of all of them."""
        return {
            "file": self.file,
            "file_index": self.file_index,
            "offset_unit": self.unit,
            "offset": pa.array(messages.offset),
            "length": pa.array(messages.length),
        }

    def fill(self, batch: EventBatch, messages: Messages) -> None:
        """Puts the locations and bytes of all messages into a batch of events."""
        if batch.wanted.raw:
            batch.put("raw", messages.raw)
        for name, value in self.columns(messages).items():
            batch.put(name, value)


def put_headers(
    batch: EventBatch,
    messages: Messages,
    add: Callable[[pa.StringArray], Ints],
    groups: Iterable[tuple[Ints, Iterable[str], Ints]],
) -> None:
    """Puts the map of headers: those of groups of messages (the messages, the names, and the numbers of the values with
    a row for each message), then what the container states about each message. ``add`` gives numbers to texts."""
    facts = columns_of({**messages.facts, "key": key_texts(messages.key)})
    shape = len(facts), len(messages)
    numbers = np.reshape([add(texts) for texts in facts.values()], shape).T.astype(np.int64)
    absent = np.reshape([as_array(pc.is_null(texts)) for texts in facts.values()], shape).T.astype(np.bool_)
    absent[messages.state != MESSAGE] = True
    is_alone: Bools = np.asarray(~absent.all(axis=1), np.bool_)
    for index, names, values in groups:
        is_alone[index] = False
        lacking = np.hstack([np.zeros(values.shape, np.bool_), absent[index]])
        every = [*unique_names(names, facts), *facts]
        batch.entries("headers", every, np.hstack([values, numbers[index]]), index, lacking)
    alone = np.flatnonzero(is_alone)
    batch.entries("headers", [*facts], numbers[alone], alone, absent[alone])


def topic_partitions(batches: Iterator[pa.RecordBatch]) -> bytes:
    """The pickled set of topics and partitions of some rows; empty if the rows do not state where each is."""
    found: set[tuple[str, int]] = set()
    for batch in batches:
        columns = _places(batch)
        if columns is None:
            return pickle.dumps(set())
        names = pa.table({"topic": columns[0], "partition": columns[1]}).group_by(["topic", "partition"]).aggregate([])
        found.update((row["topic"], row["partition"]) for row in names.to_pylist())
    return pickle.dumps(found)


def _places(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array, pa.Array] | None:
    """Topic, partition and offset of every row, if all have them."""
    names, kinds = kafka_columns(batch.schema.names), (pa.string(), pa.int64(), pa.int64())
    try:
        pairs = zip(("topic", "partition", "offset"), kinds, strict=True)
        topic, partition, offset = (batch.column(names[name]).cast(kind) for name, kind in pairs)
    except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return None if topic.null_count or partition.null_count or offset.null_count else (topic, partition, offset)


def messages_of(batch: pa.RecordBatch, partitions: Sequence[tuple[str, int]], name: str = "") -> tuple[Messages, Where]:
    """The messages of some rows of the table ``name``, and where they are: in their topics and partitions, if these are
    known."""
    messages = from_arrow(batch)
    columns = _places(batch) if partitions else None
    if columns is None:
        return messages, Where(name, 0, str(OffsetUnit.ROW))
    topic, partition, offset = columns
    coded, numbers = topic.dictionary_encode(), partition.to_numpy(zero_copy_only=False)
    codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    index = np.zeros(batch.num_rows, np.int32)
    topics = coded.dictionary.to_pylist()
    for at, (one, number) in enumerate(partitions):
        if one in topics:
            index[(codes == topics.index(one)) & (numbers == number)] = at
    files = pc.binary_join_element_wise(topic, partition.cast(pa.string()), "-")
    where = Where(files, pa.array(index), str(OffsetUnit.MESSAGE))
    return dataclasses.replace(messages, offset=offset.to_numpy(zero_copy_only=False)), where
