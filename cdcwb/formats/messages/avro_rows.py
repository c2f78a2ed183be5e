"""The rows of an Avro container as messages.

The writer's schema decides what a message is: a record with a bytes field ``value`` beside others of Kafka's columns is
a row of a topic, and its value the message; bytes or texts that are no record are a message each; any other record (the
Replicate envelope) is the message itself, in Avro's binary form, to be read with the container's schema.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa

from cdcwb.errors import CaptureError
from cdcwb.formats.arrays.texts import slices
from cdcwb.formats.messages.avro import AvroFile, Block
from cdcwb.formats.messages.avro_schema import RecordSchema
from cdcwb.formats.messages.batch import FACTS, MALFORMED, MESSAGE, Ints, Messages, Parsed, fact_columns, merged
from cdcwb.formats.messages.rows import kafka_columns, row_facts
from cdcwb.formats.messages.segments import BYTES, LONGEST

__all__ = ["read_avro", "topic_columns"]

_BINARY: Final = ("bytes", ["null", "bytes"], ["bytes", "null"])
_TEXT: Final = ("string", ["null", "string"], ["string", "null"])


def topic_columns(records: RecordSchema | None) -> dict[str, str]:
    """The fields that are Kafka's columns, by Kafka's names, where the records are rows of a topic; else nothing."""
    if records is None:
        return {}
    if records.is_value:
        return {"value": "value"}
    columns = kafka_columns(list(records.fields))
    beside = len(columns.keys() & {"key", "topic", "partition", "offset", "timestamp"})
    kind = records.fields[columns["value"]] if columns else None
    return columns if (kind in _BINARY and beside) or (kind in _TEXT and beside > 1) else {}


def read_avro(file: AvroFile, start: int, stop: int, batch: int) -> Iterator[Messages]:
    """The rows ``[start, stop)`` of a container."""
    waiting: list[_Run] = []
    count = size = 0
    for block in file.blocks():
        if block.row + block.count <= start:
            continue
        if block.row >= stop:
            break
        for run in _block(file, block, stop).cut(max(start - block.row, 0), batch):
            if waiting and (count + len(run) > batch or size + run.size > BYTES):
                yield _messages(file, waiting)
                waiting, count, size = [], 0, 0
            waiting.append(run)
            count, size = count + len(run), size + run.size
    if waiting:
        yield _messages(file, waiting)


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring rows: row ``number + i`` is ``buffer[bounds[i]:bounds[i + 1]]``. From the row with the index ``bad``
    on they cannot be read, for the given reason."""

    number: int
    buffer: bytes
    bounds: Ints
    bad: int
    reason: str | None

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def size(self) -> int:
        """Bytes of all rows."""
        return int(self.bounds[-1] - self.bounds[0])

    def cut(self, begin: int, most: int) -> Iterator[_Run]:
        """The rows from the index ``begin`` on, in runs of so many and about :data:`BYTES` bytes."""
        while begin < len(self):
            full = int(np.searchsorted(self.bounds, self.bounds[begin] + BYTES, side="right")) - 1
            stop = min(max(full, begin + 1), begin + most, len(self))
            bad = max(self.bad - begin, 0)
            yield _Run(self.number + begin, self.buffer, self.bounds[begin : stop + 1], bad, self.reason)
            begin = stop


def _block(file: AvroFile, block: Block, stop: int) -> _Run:
    """The rows of a block that come before the row ``stop``; the first that cannot be read has all the bytes left."""
    count = min(block.count, stop - block.row)
    bounds, plain, reason = [0], b"", block.reason or file.problem
    if reason is None:
        try:
            plain = file.unpack(block)
        except CaptureError as error:
            reason = error.message
    if reason is None and file.records is not None:
        reason = _walk(file.records, plain, count, bounds)
        if reason is not None:
            reason = f"record {len(bounds) - 1} of the Avro block at offset {block.start} is damaged ({reason})"
        elif count == block.count and bounds[-1] < len(plain):
            left = len(plain) - bounds.pop()
            reason = f"{left} bytes follow the last record of the Avro block at offset {block.start}"
    else:
        plain = bytes(file.data[block.start : min(block.stop, block.start + LONGEST)])
    bad = len(bounds) - 1
    bounds += [len(plain)] * (count - bad)
    return _Run(block.row, plain, np.array(bounds, dtype=np.int64), bad, reason)


def _walk(records: RecordSchema, plain: bytes, count: int, bounds: list[int]) -> str | None:
    """Adds where each of ``count`` records ends to ``bounds``; gives what is wrong with the first that has no end."""
    data = io.BytesIO(plain)
    skip, whole, nothing, place = fastavro.schemaless_reader, records.whole, records.nothing, data.tell
    try:
        for _ in range(count):
            skip(data, whole, nothing)
            bounds.append(place())
    except Exception as error:  # fastavro raises whatever the bytes lead to
        return f"{type(error).__name__}: {error}"
    return None


def _messages(file: AvroFile, runs: list[_Run]) -> Messages:
    """Neighbouring runs as messages."""
    number = np.concatenate([np.arange(run.number, run.number + len(run)) for run in runs])
    good = np.concatenate([np.arange(len(run)) < run.bad for run in runs])
    firsts = np.cumsum([0, *map(len, runs)]).tolist()
    reasons = {
        first + at: run.reason
        for first, run in zip(firsts, runs, strict=False)
        for at in range(run.bad, len(run))
        if run.reason is not None
    }
    state = np.where(good, MESSAGE, MALFORMED).astype(np.uint8)
    ones = np.ones(len(number), dtype=np.int64)
    arrays = [slices(np.frombuffer(run.buffer, np.uint8), run.bounds[:-1], run.bounds[1:]) for run in runs]
    source = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
    columns = topic_columns(file.records)
    if not columns:
        value = merged(source, ~good, [None] * len(reasons), pa.binary())
        facts = dict.fromkeys(FACTS, pa.nulls(len(number), pa.string()))
        return Messages(number, ones, state, reasons, value, pa.nulls(len(number), pa.binary()), source, facts)
    parsed = [
        _topic_row(file, record, columns) if whole else Parsed(MALFORMED, None, reason=reasons[at])
        for at, (record, whole) in enumerate(zip(source.to_pylist(), good.tolist(), strict=True))
    ]
    for at, item in enumerate(parsed):
        state[at] = item.state
        if item.reason is not None:
            reasons[at] = item.reason
    value = pa.array([item.value for item in parsed], pa.binary())
    wrong = state >= MALFORMED
    return Messages(
        number,
        ones,
        state,
        reasons,
        value,
        pa.array([item.key for item in parsed], pa.binary()),
        merged(value, wrong, source.filter(pa.array(wrong)).to_pylist(), pa.binary()),
        {name: pa.array(texts, pa.string()) for name, texts in fact_columns([item.facts for item in parsed]).items()},
    )


def _topic_row(file: AvroFile, record: bytes, columns: dict[str, str]) -> Parsed:
    """The message in a row of a topic."""
    if file.records is None:
        return Parsed(MALFORMED, None, reason=file.problem)
    try:
        raw: Any = fastavro.schemaless_reader(io.BytesIO(record), file.records.whole, None)
    except Exception as error:  # a text that is no UTF-8
        return Parsed(MALFORMED, None, reason=f"the record is damaged ({type(error).__name__}: {error})")
    there = {name: raw[column] for name, column in columns.items()}
    micros = frozenset(name for name, column in columns.items() if column in file.records.micros)
    key = there.get("key")
    return Parsed(MESSAGE, _bytes(there["value"]), None if key is None else _bytes(key), row_facts(there, micros))


def _bytes(item: Any) -> bytes | None:
    if item is None or isinstance(item, bytes):
        return item
    return str(item).encode()
