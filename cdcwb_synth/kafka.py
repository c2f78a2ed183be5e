"""What holds messages once they have left Kafka: lines, what the console consumer and ``kcat -J`` print, documents,
Avro containers, and Parquet with the columns that Spark gives to a topic. And Avro schemas, and the registry that has
them."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import fastavro
import pyarrow as pa
import zstandard

from cdcwb_synth.files import ENDINGS, ByteFile, RowFile, TableFile
from cdcwb_synth.values import EPOCH

BINARY_CONTAINERS: Final = ("kcat", "avro", "parquet")
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
    """A Kafka record: its topic, partition and offset, its time (milliseconds since 1970), key and value."""

    topic: str
    partition: int
    offset: int
    time: int
    key: bytes | None
    value: bytes | None


def iso_milliseconds(at: int) -> str:
    """A time in microseconds since 1970 as ``2026-02-03T04:05:06.123``, no zone."""
    return (EPOCH + timedelta(microseconds=at)).replace(tzinfo=None).isoformat("T", "milliseconds")


def avro_record(name: str, fields: Mapping[str, Any], namespace: str | None = None, **more: Any) -> dict[str, Any]:
    """The Avro schema of a record with these types by field."""
    space = {} if namespace is None else {"namespace": namespace}
    made = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, **space, "fields": made, **more}


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
    ``raw`` or ``base64`` values in text; ``schema``: that of an Avro container, ``bytes`` or that of the
    values. ``unit``: what places count."""

    def __init__(
        self, name: str, compression: str, console: tuple[str, ...], *, encoding: str = "raw", schema: Any = "bytes"
    ) -> None:
        self._name, self._compression, self._schema = name, compression, schema
        self._console = console if name == "console" else ()
        self._encode = base64.b64encode if encoding == "base64" else bytes
        self.is_rows = name in ("avro", "parquet")
        ending = "json" if name in ("kcat", "documents") else "txt"
        self.ending = name if self.is_rows else ending + ENDINGS[compression]
        shown = (*self._console, *(["timestamp_type"] if "timestamp" in self._console else []))
        self._shown = _FACTS if name in ("kcat", "parquet") else shown
        self.has_keys = "key" in self._shown

    def open(self, path: Path) -> KafkaFile:
        """A new file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if self._name == "parquet":
            return TableFile(path, self._compression, _KAFKA, block=1000)
        if self._name == "avro":
            return AvroFile(path, self._compression, self._schema)
        return ByteFile(path, self._compression)

    def record(self, one: Message) -> Any:
        """A message as files of the container have it."""
        match self._name:
            case "lines":
                return self._text(one.value) + b"\n"
            case "console":
                facts = {
                    "timestamp": f"CreateTime:{one.time}".encode(), "partition": f"Partition:{one.partition}".encode(),
                    "offset": f"Offset:{one.offset}".encode(), "key": self._text(one.key),
                }  # fmt: skip
                return b"\t".join([*[facts[name] for name in self._console], self._text(one.value)]) + b"\n"
            case "kcat":
                head = f'{{"topic":"{one.topic}","partition":{one.partition},"offset":{one.offset},"tstype":"create",'
                head += f'"ts":{one.time},"broker":0,"key":'
                return head.encode() + self._quoted(one.key) + b',"payload":' + self._quoted(one.value) + b"}\n"
            case "documents":
                return json.dumps(json.loads(one.value or b"null"), ensure_ascii=False, indent=2).encode() + b"\n"
            case "parquet":
                return one.key, one.value, one.topic, one.partition, one.offset, one.time * 1000, 0
            case _:
                return one.value

    def _text(self, value: bytes | None) -> bytes:
        return b"null" if value is None else self._encode(value)

    def _quoted(self, value: bytes | None) -> bytes:
        """A text of ``kcat -J``: control characters, quotes and backslashes are escaped, other bytes are unchanged."""
        if value is None:
            return b"null"
        return b'"' + self._encode(value).decode("latin-1").translate(_ESCAPES).encode("latin-1") + b'"'

    def facts(self, one: Message) -> dict[str, str]:
        """What the container shows of a message besides its value, by the names that the truth has for it."""
        if not self._shown:
            return {}
        key = None if one.key is None else one.key.hex() if one.key[:1] == b"\x00" else one.key.decode()
        time = iso_milliseconds(one.time * 1000) + "Z"
        facts = zip(_FACTS, (one.topic, str(one.partition), str(one.offset), time, "CreateTime", key), strict=True)
        return {f"kafka.{name}": text for name, text in facts if text is not None and name in self._shown}


class AvroFile(RowFile):
    """An Avro container: a header with the schema, and blocks of records between sync markers."""

    def __init__(self, path: Path, compression: str, schema: Any) -> None:
        super().__init__(1000)
        self._file, self._compression = ByteFile(path, "none"), compression
        self._sync = hashlib.md5(path.name.encode(), usedforsecurity=False).digest()
        self._schema, self._is_value = AvroSchema(schema), isinstance(schema, dict)
        codec = {"none": b"null", "gzip": b"deflate", "zstd": b"zstandard"}[compression]
        header = {"avro.schema": self._schema.text.encode(), "avro.codec": codec}
        self._file.put(b"Obj\x01" + AvroSchema({"type": "map", "values": "bytes"}).encode(header) + self._sync)

    def write(self, rows: Sequence[bytes | None]) -> None:
        """Writes a block of records, values or bytes that are one."""
        block = b"".join([row or b"" if self._is_value else self._schema.encode(row) for row in rows])
        if self._compression == "gzip":
            block = zlib.compress(block, 6, -15)
        elif self._compression == "zstd":
            block = zstandard.ZstdCompressor().compress(block)
        self._file.put(AvroSchema("long").encode(len(rows)) + AvroSchema("bytes").encode(block) + self._sync)

    def close(self) -> None:
        """Completes the file."""
        self.close_block()
        self._file.close()


KafkaFile = ByteFile | TableFile | AvroFile
