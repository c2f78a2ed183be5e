"""Containers of Kafka messages made by hand, and what their reader says of them, for the tests of the message layer."""

from __future__ import annotations

import base64
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cdcwb.formats.containers.detect import probe
from cdcwb.formats.containers.message_files import Container, locate, parts, read
from cdcwb.formats.containers.messages import Messages

__all__ = [
    "AVRO",
    "CONFLUENT",
    "JSON",
    "Row",
    "check_locate",
    "encoded",
    "put",
    "rows",
    "rows_in_parts",
    "rows_of",
]

JSON = b'{"magic":"atMSG","type":"DT","message":{"data":{"a":1},"beforeData":null,"headers":{"operation":"INSERT"}}}'
"""A message in JSON, on one line."""
AVRO = b"atMSG\x04DT\x00\x02\x0eid \xc3\xa9 \xff\x00\x06\x01\n\x80"
"""A binary message with a newline, a zero byte and bytes that are no UTF-8."""
CONFLUENT = b"\x00\x00\x00\x00\x2a\x02\x06abc"
"""A binary message with a schema id."""


class Row(NamedTuple):
    """One segment, as plain values."""

    offset: int
    length: int
    state: int
    reason: str | None
    value: bytes | None
    key: bytes | None
    source: bytes | None
    facts: dict[str, str]


def put(folder: Path, data: bytes, name: str = "capture") -> str:
    path = folder / name
    path.write_bytes(data)
    return str(path)


def rows_of(messages: Messages) -> list[Row]:
    """The segments of a batch, after a look at the shape of its arrays."""
    count = len(messages)
    assert messages.offset.dtype == messages.length.dtype == np.int64
    assert messages.state.dtype == np.uint8
    assert set(messages.facts) >= {"topic", "partition", "offset", "timestamp", "timestamp_type"}
    arrays = {"value": messages.value, "key": messages.key, "source": messages.source, **messages.facts}
    for name, array in arrays.items():
        assert array.type == (pa.binary() if name in ("value", "key", "source") else pa.string()), name
        assert len(array) == count, name
        array.validate(full=True)
        if count:
            assert array.offset == 0, name
            assert np.frombuffer(array.buffers()[1], np.int32, 1)[0] == 0, name
    facts = {name: array.to_pylist() for name, array in messages.facts.items()}
    return [
        Row(
            int(messages.offset[at]),
            int(messages.length[at]),
            int(messages.state[at]),
            messages.reasons.get(at),
            messages.value[at].as_py(),
            messages.key[at].as_py(),
            messages.source[at].as_py(),
            {name: texts[at] for name, texts in facts.items() if texts[at] is not None},
        )
        for at in range(count)
    ]


def rows(path: str, batch: int = 8192, **options: Any) -> list[Row]:
    """All segments of a file, after a look at whether they are all of it."""
    container = probe(path, options)
    assert pickle.loads(pickle.dumps(container)) == container
    found = [row for messages in read(container, 0, container.extent, batch) for row in rows_of(messages)]
    _check(container, found)
    return found


def rows_in_parts(container: Container, split_size: int, batch: int = 8192) -> list[Row]:
    """All segments of a container, read part by part."""
    if container.kind in ("avro", "parquet"):
        container = probe(container.path, {"split_size": max(split_size, 64)})
    found = [
        row
        for start, stop in parts(container, split_size)
        for messages in read(container, start, stop, batch)
        for row in rows_of(messages)
    ]
    _check(container, found)
    return found


def _check(container: Container, found: list[Row]) -> None:
    """The ledger: no gap, no overlap, everything is there; what is no message says why."""
    position = 0
    extent = len(found) if container.kind == "avro" else container.extent
    for row in found:
        assert row.offset == position
        assert row.length > 0
        assert (row.reason is None) == (row.state == 0)
        assert row.state == 0 or row.value is None
        if container.unit == "byte":
            assert row.source is not None
            assert len(row.source) == row.length
        position += row.length
    assert position == extent


def encoded(*values: bytes | None) -> bytes:
    """Values as lines in base64."""
    return b"".join((b"null" if value is None else base64.b64encode(value)) + b"\n" for value in values)


def check_locate(container: Container, found: list[Row]) -> None:
    """Every place of a segment leads to it."""
    for row in found:
        for place in {row.offset, row.offset + row.length // 2, row.offset + row.length - 1}:
            assert rows_of(locate(container, place)) == [row]
