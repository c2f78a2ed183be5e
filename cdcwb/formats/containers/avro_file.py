"""Avro object container files, and their rows as messages.

Rows are counted in the order of the blocks. A block that does not end with the marker, or cannot be unpacked, is
damage: its rows are malformed, and reading continues after the next marker.

The writer's schema decides what a message is: a record with a bytes field ``value`` and others of Kafka's columns is
a row of a topic, and its value the message; bytes or texts that are not a record (Kafka Connect's byte array converter)
are a message each; any other record (the Replicate envelope) is the message itself, in Avro's binary form, to be read
with the container's schema.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import zstandard

from cdcwb.errors import CaptureError
from cdcwb.formats.arrays import slices
from cdcwb.formats.containers.avro import Decoder, number_at, record_ends
from cdcwb.formats.containers.avro_schema import TOP, Schema, parse_schema
from cdcwb.formats.containers.kafka_rows import from_arrow, kafka_columns, malformed_rows
from cdcwb.formats.containers.messages import BYTES, LONGEST, MALFORMED, MESSAGE, Messages, batched, joined
from cdcwb.formats.source import Source

MAGIC: Final = b"Obj\x01"
_SYNC: Final = 16
_META: Final = {"type": "map", "values": "bytes"}
_MOST_ROWS: Final = 10_000_000  # of a block; more are damage
_UNPACKED: Final = 256 << 20  # bytes of a block; one that unpacks to more is damage
_STEP: Final = 1 << 18  # bytes that are transferred or searched at once


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
    """One container: its schema, its codec, and its blocks. ``records``: the parsed schema; ``problem``: why its
    records cannot be separated; ``is_readable``: it has a header, else it is one damaged row. Only the header and the
    blocks that are asked for are read."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.schema = self.codec = ""
        self.problem: str | None = None
        self.records: Schema | None = None
        self.first = 0  # the offset of the first block; 0: the header is not read yet
        self.sync = b""
        try:
            meta = self._header()
        except CaptureError as reason:
            self.problem = reason.message
            return
        self.schema = meta.get("avro.schema", b"").decode("utf-8", "replace")
        self.codec = meta.get("avro.codec", b"null").decode("ascii", "replace") or "null"
        try:
            schema = parse_schema(self.schema)
            if not schema.is_record and _content(schema, TOP) not in ("bytes", "string"):
                raise CaptureError("the Avro schema is not that of a record")
            self.records = schema
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
        import fastavro

        if self.read(0, len(MAGIC)).tobytes() != MAGIC:
            raise CaptureError("is not an Avro container: it does not begin with Obj and 1")
        how = "cut off"
        for size in (1 << 14, 1 << 24):
            stream = io.BytesIO(self.read(len(MAGIC), len(MAGIC) + size).tobytes())
            try:
                meta: Any = fastavro.schemaless_reader(stream, _META, None)
                sync = stream.read(_SYNC)
                if len(sync) == _SYNC:
                    self.sync, self.first = sync, len(MAGIC) + stream.tell()
                    return dict(meta)
            except EOFError:
                pass
            except Exception as reason:  # fastavro has none of its own
                how = f"damaged ({reason})"
        raise CaptureError(f"the header of the Avro container is {how}", offset=len(MAGIC))

    def parts(self, size: int) -> tuple[list[int], list[int], int]:
        """The offsets at which parts of about ``size`` bytes begin, the number of the first row of each, and the number
        of all rows. Reads the sizes of all blocks."""
        starts, rows, end, count = [0], [0], 0, 0
        for block in self.blocks(0, self.source.length):
            if end >= starts[-1] + size:
                starts.append(end)
                rows.append(block.row)
            end, count = block.end, block.row + block.count
        return starts, rows, count

    def blocks(self, start: int, stop: int, row: int = 0) -> Iterator[Block]:
        """The blocks that begin in ``[start, stop)`` and the stretches of damage between them, in order. ``start``: 0,
        or where a block begins; ``row``: the number of the first row."""
        at, length = max(start, self.first), self.source.length
        ahead = at
        if not self.is_readable:
            if length:
                yield Block(row, 1, 0, length, length, self.problem)
            return
        while at < stop:
            if at >= ahead:
                ahead = min(at + _STEP, stop)
                self.read(at, ahead)  # one transfer, not one for each block
            head = self.read(at, at + 20)
            count, middle = number_at(head)
            size, first = number_at(head, middle) if middle >= 0 else (-1, -1)
            first, believed = at + first, 0 < count <= _MOST_ROWS and first >= 0 and size >= 0
            end = first + size
            if (believed or (count == size == 0 <= first)) and self.read(end, end + _SYNC) == self.sync:
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
        try:
            plain = _UNPACK[self.codec](self.read(block.start, block.stop))
        except Exception as reason:  # every codec has errors of its own
            raise CaptureError(f"the Avro block at offset {block.start} cannot be unpacked ({reason})") from None
        if len(plain) > _UNPACKED:
            raise CaptureError(f"the Avro block at offset {block.start} unpacks to more than {_UNPACKED:,} bytes")
        return plain


def _snappy(packed: memoryview) -> bytes:
    number, _ = number_at(packed[:5])
    size = (number << 1) ^ (number >> 63)  # it is no zigzag number
    if size > _UNPACKED:
        raise ValueError(f"{size:,} bytes")
    plain = pa.Codec("snappy").decompress(packed[:-4], size, asbytes=True)
    if zlib.crc32(plain) != int.from_bytes(packed[-4:], "big"):
        raise ValueError("its checksum is wrong")
    return bytes(plain)


def _zstandard(packed: memoryview) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as reader:
        return bytes(reader.read(_UNPACKED + 1))


_UNPACK: Final[dict[str, Callable[[memoryview], bytes]]] = {
    "null": bytes,
    "deflate": lambda packed: zlib.decompressobj(-15).decompress(packed, _UNPACKED + 1),
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": lambda packed: bz2.BZ2Decompressor().decompress(packed, _UNPACKED + 1),
    "xz": lambda packed: lzma.LZMADecompressor().decompress(packed, _UNPACKED + 1),
}


# --- rows -------------------------------------------------------------------------------------------------------------


def _content(schema: Schema, name: str) -> str:
    """The kind of a field, which may be null as well."""
    return schema.root.inner[schema.fields.index(name)].without_null.kind


def topic_columns(records: Schema | None) -> dict[str, str]:
    """The fields that are Kafka's columns, by Kafka's names, where the records are rows of a topic; else nothing."""
    if records is None:
        return {}
    if not records.is_record:
        return {"value": TOP}
    columns = kafka_columns(list(records.fields))
    beside = len(columns.keys() & {"key", "topic", "partition", "offset", "timestamp"})
    kind = _content(records, columns["value"]) if columns else ""
    return columns if (kind == "bytes" and beside) or (kind == "string" and beside > 1) else {}


def read_avro(file: AvroFile, at: int, row: int, start: int, stop: int, batch: int) -> Iterator[Messages]:
    """The rows ``[start, stop)``. ``at``: where a block begins, the first of whose rows is ``row``."""
    blocks = takewhile(lambda block: block.row < stop, file.blocks(at, file.source.length, row))
    rows = (some for block in blocks for some in _rows(file, block, start, stop, batch))
    for some in batched(rows, batch, lambda one: (len(one), one.source.nbytes)):
        yield _of_topic(file, joined(some))


def _rows(file: AvroFile, block: Block, start: int, stop: int, most: int) -> Iterator[Messages]:
    """Those rows of a block that are in ``[start, stop)``, not more than ``most`` and about :data:`BYTES` bytes at a
    time; the first that cannot be read has all the bytes left."""
    bounds, plain, reason = np.zeros(1, dtype=np.int64), b"", block.reason or file.problem
    if reason is None:
        try:
            plain = file.unpack(block)
        except CaptureError as error:
            reason = error.message
    if reason is None and file.records is not None:
        where = f"of the Avro block at offset {block.start}"
        bounds, trouble = record_ends(file.records, plain, block.count)
        if trouble is not None:
            reason = f"record {len(bounds) - 1} {where} is damaged ({trouble})"
        elif bounds[-1] < len(plain):
            left = len(plain) - int(bounds[-1])
            bounds, reason = bounds[:-1], f"{left} bytes follow the last record {where}"
    else:
        plain = bytes(file.read(block.start, min(block.stop, block.start + LONGEST)))
    buffer, good = np.frombuffer(plain, np.uint8), len(bounds) - 1
    begin, end = max(start - block.row, 0), min(stop - block.row, block.count)
    while begin < min(good, end):
        full = int(np.searchsorted(bounds, bounds[begin] + BYTES, side="right")) - 1
        last = min(max(full, begin + 1), begin + most, good, end)
        source = slices(buffer, bounds[begin:last], bounds[begin + 1 : last + 1])
        yield Messages.of_rows(np.arange(block.row + begin, block.row + last), source)
        begin = last
    while begin < end:
        last = min(begin + most, end)
        rest = plain[int(bounds[-1]) :] if begin == good else b""
        yield malformed_rows(block.row + begin, block.row + last, reason or "", rest)
        begin = last


def _of_topic(file: AvroFile, rows: Messages) -> Messages:
    """The messages in rows of a topic; other rows are messages themselves."""
    columns = topic_columns(file.records)
    if not columns or file.records is None:
        return rows
    found = Decoder(file.records, tuple(columns.values())).decode(rows.source)
    bad = (rows.state != MESSAGE) | ~found.ok
    for at in np.flatnonzero(bad & (rows.state == MESSAGE)).tolist():
        rows.reasons[at] = f"the record is damaged ({found.reason(at)})"
    headers: list[Any] = [None] * len(rows)
    for row, path, value in found.nested:
        headers[row] = value if path == (columns.get("headers"),) else headers[row]
    inside = from_arrow(pa.RecordBatch.from_struct_array(found.column), headers if any(headers) else None)
    nulls, null = pa.array(bad), pa.scalar(None, pa.binary())
    value, key = pc.if_else(nulls, null, inside.value), pc.if_else(nulls, null, inside.key)
    source, state = pc.if_else(nulls, rows.source, value), np.where(bad, MALFORMED, MESSAGE).astype(np.uint8)
    return replace(rows, state=state, value=value, key=key, source=source, facts=inside.facts)
