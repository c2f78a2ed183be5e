"""Avro object container files: ``Obj`` and 1, a map of metadata, a sync marker, and blocks. A block is a number of
records, a number of bytes, the records, and the marker again.

Rows are counted in the order of the blocks. A block that does not end with the marker, or cannot be unpacked, is
damage: its rows are malformed, and reading goes on behind the next marker.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import zstandard

from cdcwb.errors import CaptureError
from cdcwb.formats.files import Source
from cdcwb.formats.messages.avro_schema import RecordSchema, record_schema

__all__ = ["MAGIC", "AvroFile", "Block"]

MAGIC: Final = b"Obj\x01"
_SYNC: Final = 16
_SCHEMA: Final = "avro.schema"
_CODEC: Final = "avro.codec"
_MOST_ROWS: Final = 10_000_000  # of a block; more are damage
_UNPACKED: Final = 256 << 20  # bytes of a block; one that unpacks to more is damage
_STEP: Final = 1 << 20
_META: Final = 16 << 20  # bytes of a metadata value


@dataclass(frozen=True, slots=True)
class Block:
    """A block: its first row, how many it has, its packed records ``[start, stop)``, and what is wrong with it."""

    row: int
    count: int
    start: int
    stop: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class _Header:
    meta: dict[str, bytes]
    sync: bytes
    behind: int


class AvroFile:
    """One container: its schema, its codec, and its blocks. ``problem``: why its records cannot be told apart."""

    def __init__(self, source: Source) -> None:
        """Raises CaptureError for a file whose header is damaged."""
        self.source = source
        self.data = source.read(0, source.length).data
        header = self._header()
        self.sync = header.sync
        self.behind = header.behind
        self.schema = header.meta.get(_SCHEMA, b"").decode("utf-8", "replace")
        self.codec = header.meta.get(_CODEC, b"null").decode("ascii", "replace") or "null"
        self.problem: str | None = None
        self.records: RecordSchema | None = None
        try:
            self.records = record_schema(self.schema)
        except CaptureError as reason:
            self.problem = reason.message
        if self.codec not in _UNPACK:
            self.problem = f"the codec {self.codec!r} is not read ({', '.join(_UNPACK)} are)"

    def _header(self) -> _Header:
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
        sync = bytes(self.data[at : at + _SYNC])
        if len(sync) < _SYNC:
            raise CaptureError("the header of the Avro container is cut off", offset=at)
        return _Header(meta, sync, at + _SYNC)

    def _number(self, at: int) -> tuple[int, int]:
        value, behind = _zigzag(self.data, at)
        if behind == at:
            raise CaptureError("the header of the Avro container is damaged: a number was expected", offset=at)
        return value, behind

    def _bytes(self, at: int) -> tuple[bytes, int]:
        size, at = self._number(at)
        if not 0 <= size <= min(_META, len(self.data) - at):
            raise CaptureError(f"the header of the Avro container is damaged: a text of {size} bytes", offset=at)
        return bytes(self.data[at : at + size]), at + size

    def blocks(self) -> Iterator[Block]:
        """All blocks and the stretches of damage between them, in order."""
        at, row = self.behind, 0
        while at < len(self.data):
            count, start = _zigzag(self.data, at)
            size, start = _zigzag(self.data, start) if start > at else (-1, at)
            stop = start + size
            believed = 0 < count <= _MOST_ROWS and size >= 0
            if believed and self.data[stop : stop + _SYNC] == self.sync:
                yield Block(row, count, start, stop, None)
                row, at = row + count, stop + _SYNC
                continue
            if count == 0 and size == 0 and self.data[stop : stop + _SYNC] == self.sync:
                at = stop + _SYNC  # an empty block
                continue
            behind = self._next_sync(at)
            cut = believed and stop + _SYNC > len(self.data) and behind == len(self.data)
            reason = "is cut off" if cut else "does not end with the sync marker"
            count = count if believed and count <= behind - at else 1
            yield Block(row, count, at, behind, f"the Avro block at offset {at} {reason}")
            row, at = row + count, behind

    def _next_sync(self, at: int) -> int:
        """The place behind the next sync marker; the file's end where there is none."""
        while at < len(self.data):
            found = bytes(self.data[at : at + _STEP + _SYNC]).find(self.sync)
            if found >= 0:
                return at + found + _SYNC
            at += _STEP
        return len(self.data)

    def unpack(self, block: Block) -> bytes:
        """The records of a block. Raises CaptureError for a damaged one."""
        packed = self.data[block.start : block.stop]
        try:
            plain = _UNPACK[self.codec](packed)
        except Exception as reason:  # every codec has errors of its own
            raise CaptureError(f"the Avro block at offset {block.start} cannot be unpacked ({reason})") from None
        if len(plain) > _UNPACKED:
            raise CaptureError(f"the Avro block at offset {block.start} unpacks to more than {_UNPACKED:,} bytes")
        return plain


def _zigzag(data: memoryview, at: int) -> tuple[int, int]:
    """A long and the place behind it; the place itself where there is none."""
    value = shift = 0
    for place in range(at, min(at + 10, len(data))):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), place + 1
        shift += 7
    return 0, at


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
