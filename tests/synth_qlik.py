"""Generated Qlik captures read by nothing but json, csv, fastavro and pyarrow, to hold their truth against."""

from __future__ import annotations

import base64
import gzip
import io
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow.parquet as pq
import zstandard

__all__ = ["ENVELOPE", "Message", "bits", "content", "decoded", "messages", "text", "truth"]

ENVELOPE = fastavro.parse_schema(
    {
        "type": "record",
        "name": "MessageEnvelope",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 5}},
            {"name": "type", "type": "string"},
            {"name": "headers", "type": ["null", {"type": "map", "values": "string"}]},
            {"name": "messageSchemaId", "type": ["null", "string"]},
            {"name": "messageSchema", "type": ["null", "string"]},
            {"name": "message", "type": "bytes"},
        ],
    }
)
"""The schema of the envelope, as docs/formats/qlik-kafka.md §2.1 has it."""


@dataclass
class Message:
    """A message as it stands in a file; ``value`` None is a tombstone."""

    file: str
    offset: int
    length: int
    value: bytes | None
    key: bytes | None = None
    facts: dict[str, str] = field(default_factory=dict)


def truth(folder: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a table of the truth."""
    rows: list[dict[str, Any]] = pq.read_table(folder / "truth" / f"{table}.parquet").to_pylist()
    return rows


def content(path: Path) -> bytes:
    """The decompressed bytes of a file."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(data)
    if path.suffix == ".zst":
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return data


def messages(folder: Path, part: str = "capture") -> Iterator[Message]:
    """All messages of a capture, file by file."""
    options = json.loads((folder / "synth.json").read_text())["options"]
    for path in sorted(p for p in (folder / part).rglob("*") if p.is_file()):
        name = str(path.relative_to(folder / part))
        for offset, length, value, key, facts in _segments(path, options):
            yield Message(name, offset, length, value, key, facts)


def _plain(value: bytes, encoding: str) -> bytes | None:
    if value == b"null":
        return None
    return {"base64": base64.b64decode, "hex": lambda v: bytes.fromhex(v.decode()), "raw": bytes}[encoding](value)


def _segments(
    path: Path, options: dict[str, Any]
) -> Iterator[tuple[int, int, bytes | None, bytes | None, dict[str, str]]]:
    kind = options["container"]
    if kind == "parquet":
        for at, row in enumerate(pq.read_table(path).to_pylist()):
            yield at, 1, row["value"], row["key"], {"topic": row["topic"], "partition": str(row["partition"])}
        return
    if kind == "avro":
        with path.open("rb") as file:
            for at, record in enumerate(fastavro.reader(file)):
                yield at, 1, _envelope_bytes(record) if isinstance(record, dict) else record, None, {}
        return
    data = content(path)
    if kind == "message":
        yield 0, len(data), data, None, {}
    elif kind == "documents":
        yield from _documents(data)
    else:
        at = 0
        for line in data.splitlines(keepends=True) if b"\r" not in data else data.split(b"\n"):
            assert line.endswith(b"\n")
            yield at, len(line), *_line(line[:-1], kind, options)
            at += len(line)


def _envelope_bytes(record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, ENVELOPE, record)
    return out.getvalue()


def _line(line: bytes, kind: str, options: dict[str, Any]) -> tuple[bytes | None, bytes | None, dict[str, str]]:
    if kind == "lines":
        return _plain(line, options["encoding"]), None, {}
    if kind == "kcat":
        one = json.loads(line.decode("latin-1"))  # every byte of a payload is a character
        value, key = (None if one[n] is None else one[n].encode("latin-1") for n in ("payload", "key"))
        facts = {"topic": one["topic"], "partition": str(one["partition"]), "offset": str(one["offset"])}
        encoding = options["encoding"]
        return value and _plain(value, encoding), key and _plain(key, encoding), facts
    names = options["console_parts"].split(",")
    *parts, value = line.split(b"\t", len(names))
    told = dict(zip(names, (part.decode() for part in parts), strict=True))
    facts = {n: told[n].split(":")[1] for n in ("partition", "offset", "timestamp") if n in told}
    return _plain(value, options["encoding"]), told["key"].encode() if "key" in told else None, facts


def _documents(data: bytes) -> Iterator[tuple[int, int, bytes, None, dict[str, str]]]:
    text, at, place = data.decode(), 0, 0
    decoder = json.JSONDecoder()
    while at < len(text):
        _, end = decoder.raw_decode(text, at)
        whole = text[at : end + 1]
        assert whole.endswith("}\n")
        yield place, len(whole.encode()), whole.encode(), None, {}
        at, place = end + 1, place + len(whole.encode())


def decoded(value: bytes, schemas: dict[str, str], registry: Path | None = None) -> dict[str, Any]:
    """A message: ``type`` (MD, DT, DataRecord), ``id``, and the message itself in ``body``. ``schemas`` are the texts
    of data schemas by their ids."""
    if value[:5] == b"atMSG":
        outer: Any = fastavro.schemaless_reader(io.BytesIO(value), ENVELOPE, None)
        text = outer["messageSchema"] if outer["type"] == "MD" else schemas[outer["messageSchemaId"]]
        return {"type": outer["type"], "id": outer["messageSchemaId"], "body": avro(outer["message"], text)}
    if value[:1] == b"\x00":
        assert registry is not None
        (number,) = struct.unpack(">I", value[1:5])
        text = (registry / f"{number}.avsc").read_text()
        return {"type": "DataRecord", "id": str(number), "body": avro(value[5:], text)}
    one = json.loads(value, parse_float=str, parse_int=str)
    if "magic" in one:
        return {"type": one["type"], "id": one["messageSchemaId"], "body": one["message"]}
    return {"type": one.get("op", "DataRecord"), "id": None, "body": one}


_PARSED: dict[str, Any] = {}


def avro(data: bytes, schema: str) -> Any:
    """A record in Avro, to which every byte belongs. Hyphens in names are not Avro's, so they are mended first."""
    if schema not in _PARSED:
        _PARSED[schema] = fastavro.parse_schema(json.loads(schema.replace("shop-load", "shop_load")))
    stream = io.BytesIO(data)
    record = fastavro.schemaless_reader(stream, _PARSED[schema], None)
    assert stream.tell() == len(data)
    return record


def text(value: Any, is_single: bool = False) -> str | None:
    """A value as the text that the truth has; ``is_single``: a float of single precision."""
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return repr(float(str(np.float32(value)))) if is_single else repr(value)
        case bytes():
            return value.hex()
        case Decimal():
            return f"{value:f}"
        case datetime():
            return value.replace(tzinfo=None).isoformat("T", "microseconds")
        case date():
            return value.isoformat()
        case time():
            return value.isoformat("milliseconds")
        case _:
            return str(value)


def bits(mask: Any, order: str = "big") -> set[int]:
    """The numbers of the bits that a mask (hexadecimal text, or bytes in some order) sets."""
    data = bytes.fromhex(mask) if isinstance(mask, str) else bytes(mask)
    data = data[::-1] if isinstance(mask, str) or order == "big" else data
    return {8 * place + bit for place, byte in enumerate(data) for bit in range(8) if byte >> bit & 1}
