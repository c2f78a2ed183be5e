"""What holds messages once they have left Kafka (``docs/formats/qlik-kafka.md §9``), one file each."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from cdcwb_synth.compressed import ENDINGS
from cdcwb_synth.qlik.avro import data, long, string
from cdcwb_synth.qlik.options import KafkaOptions
from cdcwb_synth.qlik.rendering import Message, renderer
from cdcwb_synth.qlik.schemas import ENVELOPE
from cdcwb_synth.qlik.sequence import iso_milliseconds
from cdcwb_synth.sinks import ByteFile

__all__ = ["Facts", "Sink", "file_ending", "is_row_based", "sink"]

_BUFFERED: Final = 1 << 18
_ROWS: Final = 4096
_KAFKA: Final = pa.schema(
    [
        ("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("partition", pa.int32()),
        ("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC")), ("timestampType", pa.int32()),
    ]
)  # fmt: skip


def is_row_based(container: str) -> bool:
    """Are places row numbers (otherwise bytes)?"""
    return container in ("avro", "parquet")


def file_ending(options: KafkaOptions) -> str:
    """What the names of files end with."""
    match options.container:
        case "avro" | "parquet" as name:
            return str(name)
        case "message" | "documents":
            return ("avro" if options.is_avro else "json") + ENDINGS[options.compression]
        case "kcat":
            return "json" + ENDINGS[options.compression]
        case _:
            return "txt" + ENDINGS[options.compression]


_FACTS: Final = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key")


class Facts:
    """What the container says of messages besides their values, by the names that the truth has for it. ``names`` are
    those that it says anything of."""

    def __init__(self, options: KafkaOptions) -> None:
        told: tuple[str, ...] = ()
        if options.container in ("kcat", "parquet"):
            told = _FACTS
        elif options.container == "console":
            parts = (*options.parts, *(("timestamp_type",) if "timestamp" in options.parts else ()))
            told = tuple(name for name in _FACTS if name in parts)
        self.names = tuple(f"kafka.{name}" for name in told)
        self._chosen = None if told == _FACTS else [_FACTS.index(name) for name in told]

    def of(self, message: Message) -> tuple[str | None, ...]:
        """The texts of a message, in the order of ``names``."""
        topic, partition, offset, time, key, _, _ = message
        told = (
            topic,
            str(partition),
            str(offset),
            iso_milliseconds(time * 1000) + "Z",
            "CreateTime",
            None if key is None else key.hex() if key[:1] == b"\x00" else key.decode(),
        )
        return told if self._chosen is None else tuple([told[at] for at in self._chosen])


class Sink(ABC):
    """A file that messages are written to, one after another."""

    @abstractmethod
    def add(self, message: Message) -> tuple[int, int]:
        """Writes a message; returns its offset and length, in bytes of the decompressed file or in rows."""

    @abstractmethod
    def close(self) -> None:
        """Complete the file."""


class _Bytes(Sink):
    """A file of messages as bytes, each as ``render`` writes it."""

    def __init__(self, path: Path, compression: str, render: Callable[[Message], bytes]) -> None:
        self._file = ByteFile(path, compression)
        self._render = render

    def add(self, message: Message) -> tuple[int, int]:
        return self._file.put(self._render(message))

    def close(self) -> None:
        self._file.close()


class _Avro(Sink):
    """An Avro container: a header with the schema, and blocks of records between sync markers."""

    def __init__(self, path: Path, codec: str, schema: Any, render: Callable[[Message], bytes]) -> None:
        self._file = path.open("wb")
        self._codec, self._render = codec, render
        self._sync = hashlib.md5(path.name.encode(), usedforsecurity=False).digest()
        text = json.dumps(schema, separators=(",", ":")).encode()
        name = {"none": b"null", "gzip": b"deflate", "zstd": b"zstandard"}[codec]
        pairs = string("avro.schema") + data(text) + string("avro.codec") + data(name)
        self._file.write(b"Obj\x01" + long(2) + pairs + b"\x00" + self._sync)
        self._parts: list[bytes] = []
        self._pending = self._count = 0

    def add(self, message: Message) -> tuple[int, int]:
        part = self._render(message)
        self._parts.append(part)
        self._pending += len(part)
        self._count += 1
        if self._pending > _BUFFERED // 4:
            self._flush()
        return self._count - 1, 1

    def _flush(self) -> None:
        if self._parts:
            block = _packed(b"".join(self._parts), self._codec)
            self._file.write(long(len(self._parts)) + data(block) + self._sync)
        self._parts.clear()
        self._pending = 0

    def close(self) -> None:
        self._flush()
        self._file.close()


def _packed(block: bytes, codec: str) -> bytes:
    if codec == "gzip":
        import zlib

        packer = zlib.compressobj(6, zlib.DEFLATED, -15)
        return packer.compress(block) + packer.flush()
    if codec == "zstd":
        import zstandard

        return zstandard.ZstdCompressor().compress(block)
    return block


class _Parquet(Sink):
    """A table with the columns that Spark gives to a topic."""

    def __init__(self, path: Path, compression: str) -> None:
        self._writer = pq.ParquetWriter(path, _KAFKA, compression=compression)
        self._rows: list[tuple[Any, ...]] = []
        self._pending = self._count = 0

    def add(self, message: Message) -> tuple[int, int]:
        one = message
        self._rows.append((one.key, one.value, one.topic, one.partition, one.offset, one.time * 1000, 0))
        self._pending += len(one.value or b"")
        self._count += 1
        if len(self._rows) >= _ROWS or self._pending > 16 * _BUFFERED:
            self._flush()
        return self._count - 1, 1

    def _flush(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [pa.array(values, one.type) for values, one in zip(columns, _KAFKA, strict=True)]
            self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=_KAFKA))
        self._rows.clear()
        self._pending = 0

    def close(self) -> None:
        self._flush()
        self._writer.close()


def sink(path: Path, options: KafkaOptions) -> Sink:
    """A new file at ``path`` for messages, in the container that the options say."""
    if options.container == "parquet":
        return _Parquet(path, options.compression)
    if options.container == "avro":
        if options.form == "avro-envelope":
            return _Avro(path, options.compression, ENVELOPE, lambda message: message.value or b"")
        if options.tombstone_share:
            return _Avro(path, options.compression, ["null", "bytes"], _nullable)
        return _Avro(path, options.compression, "bytes", lambda message: data(message.value or b""))
    return _Bytes(path, options.compression, renderer(options))


def _nullable(message: Message) -> bytes:
    return b"\x00" if message.value is None else b"\x02" + data(message.value)
