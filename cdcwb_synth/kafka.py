"""What holds messages once they have left Kafka: lines, what the console consumer and ``kcat -J`` print, documents, a
message a file, Avro containers, and Parquet with the columns that Spark gives to a topic."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zlib
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import fastavro
import pyarrow as pa
import zstandard

from cdcwb_synth.files import ENDINGS, ByteFile, TableFile
from cdcwb_synth.model import OffsetUnit
from cdcwb_synth.values import EPOCH

__all__ = ["BINARY_CONTAINERS", "AvroSchema", "Container", "KafkaFile", "Message", "Registry", "iso_milliseconds"]

BINARY_CONTAINERS: Final = ("kcat", "message", "avro", "parquet")
"""Containers that hold any bytes; the others are text."""

_FACTS: Final = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key")
_KAFKA: Final = pa.schema(
    [
        ("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("partition", pa.int32()),
        ("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC")), ("timestampType", pa.int32()),
    ]
)  # fmt: skip
_ESCAPES: Final = {code: f"\\u{code:04X}" for code in range(32)} | {
    8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\",
}  # fmt: skip


class Message(NamedTuple):
    """A Kafka record: its place there, its time (milliseconds since 1970), key and value (None: null)."""

    topic: str
    partition: int
    offset: int
    time: int
    key: bytes | None
    value: bytes | None


def iso_milliseconds(at: int) -> str:
    """A time in microseconds since 1970 as ``2026-02-03T04:05:06.123``, no zone."""
    return (EPOCH + timedelta(microseconds=at)).replace(tzinfo=None).isoformat("T", "milliseconds")


class AvroSchema:
    """An Avro schema and its ``text``, by which values are written: numbers and bytes as they are, without logical
    types."""

    def __init__(self, schema: Any, separators: tuple[str, str] = (",", ":")) -> None:
        self.text = json.dumps(schema, separators=separators)
        self._parsed = fastavro.parse_schema(_without_logical(schema))

    def encode(self, value: Any) -> bytes:
        """The value in Avro."""
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self._parsed, value)
        return out.getvalue()


def _without_logical(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical(one) for one in schema]
    if isinstance(schema, dict):
        return {name: _without_logical(one) for name, one in schema.items() if name != "logicalType"}
    return schema


class Registry:
    """A schema registry: the same schema has the same id, and every id a file ``<id>.avsc`` in ``folder``."""

    def __init__(self, folder: Path, first: int) -> None:
        self._folder, self._first = folder, first
        self._ids: dict[str, int] = {}

    def frame(self, schema: AvroSchema, end: str = "") -> bytes:
        """What precedes a value: Confluent's magic byte and the id of its schema."""
        if schema.text not in self._ids:
            self._folder.mkdir(exist_ok=True)
            number = self._ids[schema.text] = self._first + len(self._ids)
            (self._folder / f"{number}.avsc").write_text(schema.text + end, encoding="utf-8")
        return b"\x00" + self._ids[schema.text].to_bytes(4, "big")


class Container:
    """A container by its ``name``. ``console``: what precedes the value in lines of the console consumer; ``encoding``:
    ``raw``, ``base64`` or ``hex`` values in text; ``held``: the schema of an Avro container, ``bytes`` or that of the
    values."""

    def __init__(
        self, name: str, compression: str, console: tuple[str, ...] = (), *, is_avro: bool, encoding: str = "raw",
        held: Any = "bytes",
    ) -> None:  # fmt: skip
        self._name, self._compression, self._held = name, compression, held
        self._console = console if name == "console" else ()
        self._spell = {"base64": base64.b64encode, "hex": lambda value: value.hex().encode()}.get(encoding, bytes)
        self.unit = OffsetUnit.ROW if name in ("avro", "parquet") else OffsetUnit.BYTE
        ending = {"kcat": "json", "message": "avro" if is_avro else "json", "documents": "json"}.get(name, "txt")
        self.ending = name if self.unit is OffsetUnit.ROW else ending + ENDINGS[compression]
        told: tuple[str, ...] = _FACTS if name in ("kcat", "parquet") else ()
        if self._console:
            told = (*console, *(("timestamp_type",) if "timestamp" in console else ()))
        self._told = [fact for fact in _FACTS if fact in told]
        self.has_keys = "key" in self._told

    def open(self, path: Path) -> KafkaFile:
        """A new file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if self._name == "parquet":
            return TableFile(path, self._compression, _KAFKA, kept=1000)
        if self._name == "avro":
            return _AvroFile(path, self._compression, self._held)
        return ByteFile(path, self._compression)

    def put(self, file: KafkaFile, one: Message) -> tuple[int, int]:
        """Writes a message; returns its offset and length, in bytes of the decompressed file or in rows."""
        if isinstance(file, _AvroFile):
            return file.put(one.value)
        if isinstance(file, TableFile):
            return file.put((one.key, one.value, one.topic, one.partition, one.offset, one.time * 1000, 0))
        match self._name:
            case "lines" | "console":
                return file.put(b"\t".join([*self._before(one), self._text(one.value)]) + b"\n")
            case "kcat":
                head = f'{{"topic":"{one.topic}","partition":{one.partition},"offset":{one.offset},"tstype":"create",'
                head += f'"ts":{one.time},"broker":0,"key":'
                quoted = self._quoted(one.key) + b',"payload":' + self._quoted(one.value)
                return file.put(head.encode() + quoted + b"}\n")
            case "documents":
                value = json.loads(one.value or b"null")
                return file.put(json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n")
            case _:
                return file.put(one.value or b"")

    def _before(self, one: Message) -> list[bytes]:
        """What the console consumer prints before the value."""
        made = {
            "timestamp": f"CreateTime:{one.time}".encode(), "partition": f"Partition:{one.partition}".encode(),
            "offset": f"Offset:{one.offset}".encode(), "key": self._text(one.key),
        }  # fmt: skip
        return [made[name] for name in self._console]

    def _text(self, value: bytes | None) -> bytes:
        return b"null" if value is None else self._spell(value)

    def _quoted(self, value: bytes | None) -> bytes:
        """A text of ``kcat -J``: control characters, quotes and backslashes are escaped, other bytes are unchanged."""
        if value is None:
            return b"null"
        return b'"' + self._spell(value).decode("latin-1").translate(_ESCAPES).encode("latin-1") + b'"'

    def facts(self, one: Message) -> dict[str, str | None]:
        """What the container says of a message besides its value, by the names that the truth has for it."""
        key = None
        if one.key is not None:
            key = one.key.hex() if one.key[:1] == b"\x00" else one.key.decode()
        time = iso_milliseconds(one.time * 1000) + "Z"
        values = (one.topic, str(one.partition), str(one.offset), time, "CreateTime", key)
        told = {name: text for name, text in zip(_FACTS, values, strict=True) if name in self._told}
        return {f"kafka.{name}": text for name, text in told.items() if text is not None}


class _AvroFile:
    """An Avro container: a header with the schema, and blocks of records between sync markers. Places are numbers of
    records."""

    def __init__(self, path: Path, compression: str, schema: Any) -> None:
        self._file, self._compression = ByteFile(path, "none"), compression
        self._sync = hashlib.md5(path.name.encode(), usedforsecurity=False).digest()
        self._schema, self._is_value = AvroSchema(schema), isinstance(schema, dict)
        codec = {"none": b"null", "gzip": b"deflate", "zstd": b"zstandard"}[compression]
        header = {"avro.schema": self._schema.text.encode(), "avro.codec": codec}
        self._file.put(b"Obj\x01" + AvroSchema({"type": "map", "values": "bytes"}).encode(header) + self._sync)
        self._records: list[bytes] = []
        self._count = 0

    def put(self, value: bytes | None) -> tuple[int, int]:
        """Adds a record, a value or bytes that are one; returns its number and 1."""
        self._records.append(value or b"" if self._is_value else self._schema.encode(value))
        self._count += 1
        if len(self._records) >= 1000:
            self._flush()
        return self._count - 1, 1

    def _flush(self) -> None:
        block = b"".join(self._records)
        if self._compression == "gzip":
            packer = zlib.compressobj(6, zlib.DEFLATED, -15)
            block = packer.compress(block) + packer.flush()
        elif self._compression == "zstd":
            block = zstandard.ZstdCompressor().compress(block)
        if self._records:
            self._file.put(
                AvroSchema("long").encode(len(self._records)) + AvroSchema("bytes").encode(block) + self._sync
            )
        self._records = []

    def close(self) -> None:
        """Completes the file."""
        self._flush()
        self._file.close()


KafkaFile = ByteFile | TableFile | _AvroFile
