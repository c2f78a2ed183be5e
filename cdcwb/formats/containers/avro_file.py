"""Avro object container files, and their rows as messages.

What a record holds does not matter here, only how long it is. Two kinds of schema are refused, since a few bytes of
hostile data would keep a reader busy without end: types that contain themselves, and arrays of items that take no
bytes.

A container of values that are no records but bytes or texts, as Kafka Connect writes with its byte array converter, is
read as one of records with the only field ``value``: in Avro both have the same bytes.

Rows are counted in the order of the blocks. A block that does not end with the marker, or cannot be unpacked, is
damage: its rows are malformed, and reading goes on after the next marker.

The writer's schema decides what a message is: a record with a bytes field ``value`` beside others of Kafka's columns is
a row of a topic, and its value the message; bytes or texts that are no record are a message each; any other record (the
Replicate envelope) is the message itself, in Avro's binary form, to be read with the container's schema.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import zstandard

from cdcwb.errors import CaptureError
from cdcwb.formats.arrays import slices
from cdcwb.formats.avro import Decoded, Decoder, Schema, parse_schema
from cdcwb.formats.avro.schema import TOP, Array, Map, Node, Primitive, Record, Recursive, Union
from cdcwb.formats.containers.kafka_rows import from_arrow, kafka_columns
from cdcwb.formats.containers.messages import BYTES, FACTS, LONGEST, MALFORMED, MESSAGE, Ints, Messages
from cdcwb.formats.files import Source

__all__ = ["MAGIC", "AvroFile", "read_avro", "record_schema", "topic_columns"]


# --- avro schema ------------------------------------------------------------------------------------------------------


class RecordSchema:
    """A record's schema. ``fields``: the types of its fields, in order, by name; ``is_value``: the container has
    values, no records; ``nothing``: the schema of the same record without fields, which makes fastavro skip all."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.fields = schema.root.fields
        self.is_value = not schema.is_record
        self.nothing = fastavro.parse_schema({"type": "record", "name": schema.parsed["name"], "fields": []})


def record_schema(text: str) -> RecordSchema:
    """The schema of a container's records from its text. Raises CaptureError that says why it is not read."""
    schema = parse_schema(text)
    if not schema.is_record and _content(schema.root.fields[TOP]) not in _CONTENT:
        raise CaptureError("the Avro schema is not that of a record")
    _check(schema.root)
    return RecordSchema(schema)


_CONTENT: Final = ("bytes", "string")


def _content(node: Node) -> str:
    """The kind of a primitive type, which may be null as well; empty for others."""
    if isinstance(node, Union) and not node.several:
        node = next((one for one, place in zip(node.members, node.places, strict=True) if place is not None), node)
    return node.kind if isinstance(node, Primitive) else ""


def _check(node: Node) -> None:
    """Raises CaptureError for types that would keep a reader busy without end."""
    if isinstance(node, Recursive):
        name = node.record.name
        raise CaptureError(f"the Avro schema has a type that contains itself ({name!r}), which is not supported")
    if isinstance(node, Array) and node.items.least == 0:
        raise CaptureError("the Avro schema has an array of items of zero bytes, which is not supported")
    inner: Iterable[Node] = ()
    if isinstance(node, Record):
        inner = node.fields.values()
    elif isinstance(node, Union):
        inner = node.members
    elif isinstance(node, (Array, Map)):
        inner = (node.items if isinstance(node, Array) else node.values,)
    for one in inner:
        _check(one)


# --- avro -------------------------------------------------------------------------------------------------------------

MAGIC: Final = b"Obj\x01"
_SYNC: Final = 16
_SCHEMA: Final = "avro.schema"
_CODEC: Final = "avro.codec"
_MOST_ROWS: Final = 10_000_000  # of a block; more are damage
_UNPACKED: Final = 256 << 20  # bytes of a block; one that unpacks to more is damage
_STEP: Final = 1 << 18  # bytes that are transferred or searched at once
_META: Final = 16 << 20  # bytes of a metadata value


@dataclass(frozen=True, slots=True)
class Block:
    """A block: its first row, how many it has, its packed records ``[start, stop)``, where the next block begins, and
    what is wrong with it."""

    row: int
    count: int
    start: int
    stop: int
    end: int
    reason: str | None


class AvroFile:
    """One container: its schema, its codec, and its blocks. ``problem``: why its records cannot be told apart;
    ``is_readable``: it has a header, else it is one damaged row. Only the header and the blocks that are asked for are
    read."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.schema = self.codec = ""
        self.problem: str | None = None
        self.records: RecordSchema | None = None
        self.first = 0  # the offset of the first block; 0: the header is not read yet
        self.sync = b""
        try:
            meta = self._header()
        except CaptureError as reason:
            self.problem = reason.message
            return
        self.schema = meta.get(_SCHEMA, b"").decode("utf-8", "replace")
        self.codec = meta.get(_CODEC, b"null").decode("ascii", "replace") or "null"
        try:
            self.records = record_schema(self.schema)
        except CaptureError as reason:
            self.problem = reason.message
        if self.codec not in _UNPACK:
            self.problem = f"the codec {self.codec!r} is not read ({', '.join(_UNPACK)} are)"

    @property
    def is_readable(self) -> bool:
        """Whether it has a header."""
        return bool(self.sync)

    def read(self, start: int, stop: int) -> memoryview:
        """The bytes from ``start`` to ``stop``, as far as there are any."""
        view: memoryview = self.source.read(start, stop).data
        return view

    def _header(self) -> dict[str, bytes]:
        if self.read(0, len(MAGIC)).tobytes() != MAGIC:
            raise CaptureError("is not an Avro container: it does not begin with Obj and 1")
        meta: dict[str, bytes] = {}
        at = len(MAGIC)
        while True:
            count, at = self._number(at)
            if count == 0:
                break
            if count < 0:
                count = -count
                _, at = self._number(at)
            for _ in range(count):
                name, at = self._bytes(at)
                meta[name.decode("utf-8", "replace")], at = self._bytes(at)
        sync = bytes(self.read(at, at + _SYNC))
        if len(sync) < _SYNC:
            raise CaptureError("the header of the Avro container is cut off", offset=at)
        self.sync, self.first = sync, at + _SYNC
        return meta

    def _number(self, at: int) -> tuple[int, int]:
        value, after = self._zigzag(at)
        if after == at:
            raise CaptureError("the header of the Avro container is damaged: a number was expected", offset=at)
        return value, after

    def _bytes(self, at: int) -> tuple[bytes, int]:
        size, at = self._number(at)
        if not 0 <= size <= min(_META, self.source.length - at):
            raise CaptureError(f"the header of the Avro container is damaged: a text of {size} bytes", offset=at)
        return bytes(self.read(at, at + size)), at + size

    def _zigzag(self, at: int) -> tuple[int, int]:
        """A long and the offset after it; its own offset if there is none."""
        value = shift = 0
        for place, byte in enumerate(self.read(at, at + 10), at + 1):
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1), place
            shift += 7
        return 0, at

    def begin(self, start: int, stop: int) -> int:
        """The offset of the first block that begins in ``[start, stop)``, inferred from the sync markers there;
        ``stop`` or more if there is none."""
        at = max(start, self.first)
        return self._next_sync(at - _SYNC, stop) if self.is_readable and at < stop else at

    def blocks(self, start: int, stop: int, row: int = 0) -> Iterator[Block]:
        """The blocks that begin in ``[start, stop)`` and the stretches of damage between them, in order. ``row``: the
        number of the first row."""
        at, length = self.begin(start, stop), self.source.length
        ahead = at
        if not self.is_readable:
            yield Block(row, 1, 0, length, length, self.problem)
            return
        while at < stop:
            if at >= ahead:
                ahead = min(at + _STEP, stop)
                self.read(at, ahead)  # one transfer, not one for each block
            count, first = self._zigzag(at)
            size, first = self._zigzag(first) if first > at else (-1, at)
            end = first + size
            believed = 0 < count <= _MOST_ROWS and size >= 0
            if (believed or count == size == 0) and self.read(end, end + _SYNC) == self.sync:
                block = Block(row, count, first, end, end + _SYNC, None)
            else:
                after = self._next_sync(at, length)
                cut = believed and end + _SYNC > length and after == length
                reason = "is cut off" if cut else "does not end with the sync marker"
                count = count if believed and count <= after - at else 1
                block = Block(row, count, at, after, after, f"the Avro block at offset {at} {reason}")
            yield block
            row, at = row + block.count, block.end

    def _next_sync(self, at: int, stop: int) -> int:
        """The offset after the first sync marker in ``[at, stop)``; ``stop`` if there is none."""
        while at < stop:
            found = bytes(self.read(at, min(at + _STEP + _SYNC, stop))).find(self.sync)
            if found >= 0:
                return at + found + _SYNC
            at += _STEP
        return stop

    def unpack(self, block: Block) -> bytes:
        """The records of a block. Raises CaptureError for a damaged one."""
        packed = self.read(block.start, block.stop)
        try:
            plain = _UNPACK[self.codec](packed)
        except Exception as reason:  # every codec has errors of its own
            raise CaptureError(f"the Avro block at offset {block.start} cannot be unpacked ({reason})") from None
        if len(plain) > _UNPACKED:
            raise CaptureError(f"the Avro block at offset {block.start} unpacks to more than {_UNPACKED:,} bytes")
        return plain


def _snappy(packed: memoryview) -> bytes:
    size = shift = 0
    for byte in packed[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > _UNPACKED:
        raise ValueError(f"{size:,} bytes")
    plain = pa.Codec("snappy").decompress(packed[:-4], size, asbytes=True)
    if zlib.crc32(plain) != int.from_bytes(packed[-4:], "big"):
        raise ValueError("its checksum is wrong")
    return bytes(plain)


def _zstandard(packed: memoryview) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as reader:
        return bytes(reader.read(_UNPACKED + 1))


def _lzma(packed: memoryview) -> bytes:
    return lzma.LZMADecompressor().decompress(packed, _UNPACKED + 1)


_UNPACK: Final[dict[str, Callable[[memoryview], bytes]]] = {
    "null": bytes,
    "deflate": lambda packed: zlib.decompressobj(-15).decompress(packed, _UNPACKED + 1),
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": lambda packed: bz2.BZ2Decompressor().decompress(packed, _UNPACKED + 1),
    "xz": _lzma,
}


# --- avro rows --------------------------------------------------------------------------------------------------------


def topic_columns(records: RecordSchema | None) -> dict[str, str]:
    """The fields that are Kafka's columns, by Kafka's names, where the records are rows of a topic; else nothing."""
    if records is None:
        return {}
    if records.is_value:
        return {"value": "value"}
    columns = kafka_columns(list(records.fields))
    beside = len(columns.keys() & {"key", "topic", "partition", "offset", "timestamp"})
    kind = _content(records.fields[columns["value"]]) if columns else ""
    return columns if (kind == "bytes" and beside) or (kind == "string" and beside > 1) else {}


def read_avro(file: AvroFile, blocks: Iterable[Block], batch: int, skip: int = 0) -> Iterator[Messages]:
    """The rows of blocks that follow each other, without the first ``skip`` of each."""
    waiting: list[_Run] = []
    count = size = 0
    for block in blocks:
        for run in _block(file, block).cut(skip, batch):
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


def _block(file: AvroFile, block: Block) -> _Run:
    """The rows of a block; the first that cannot be read has all the bytes left."""
    count = block.count
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
        elif bounds[-1] < len(plain):
            left = len(plain) - bounds.pop()
            reason = f"{left} bytes follow the last record of the Avro block at offset {block.start}"
    else:
        plain = bytes(file.read(block.start, min(block.stop, block.start + LONGEST)))
    bad = len(bounds) - 1
    bounds += [len(plain)] * (count - bad)
    return _Run(block.row, plain, np.array(bounds, dtype=np.int64), bad, reason)


def _walk(records: RecordSchema, plain: bytes, count: int, bounds: list[int]) -> str | None:
    """Adds where each of ``count`` records ends to ``bounds``; gives what is wrong with the first that has no end."""
    data = io.BytesIO(plain)
    skip, whole, nothing, place = fastavro.schemaless_reader, records.schema.parsed, records.nothing, data.tell
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
    found = _topic_rows(file.records, source, columns)
    bad = ~good | ~found.ok
    for at in np.flatnonzero(good & bad).tolist():
        reasons[at] = f"the record is damaged ({found.reason(at)})"
    state[bad] = MALFORMED
    rows = from_arrow(pa.RecordBatch.from_struct_array(found.column))
    nulls = pa.array(bad)
    value, key = (pc.if_else(nulls, pa.scalar(None, pa.binary()), one) for one in (rows.value, rows.key))
    kept = merged(value, bad, source.filter(nulls).to_pylist(), pa.binary())
    return Messages(number, ones, state, reasons, value, key, kept, rows.facts)


def _topic_rows(records: RecordSchema | None, source: pa.BinaryArray, columns: Mapping[str, str]) -> Decoded:
    """The columns of Kafka in records that are rows of a topic."""
    assert records is not None  # else they have no such columns
    return Decoder(records.schema, tuple(columns.values())).decode(source)


def merged(array: pa.Array | None, where: Any, items: Any, kind: pa.DataType) -> pa.Array:
    """The array with the places where ``where`` is true taken from ``items``; None is an array of nulls."""
    if not where.any():
        return pa.nulls(len(where), kind) if array is None else array
    given = pa.array(items, kind)
    if len(given) == len(where):
        return given
    return pc.replace_with_mask(pa.nulls(len(where), kind) if array is None else array, pa.array(where), given)
