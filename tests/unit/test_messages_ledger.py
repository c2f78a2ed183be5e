"""Nothing is lost: whatever a container is and whatever happened to it, its segments are all of it, in order, the same
however it is cut, and each is found from every place in it."""

from __future__ import annotations

import base64
import gzip
import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcwb.errors import CaptureError
from cdcwb.formats.containers.detect import probe
from cdcwb.formats.containers.message_files import locate, parts, read
from tests.containers import AVRO, JSON, check_locate, put, rows, rows_in_parts
from tests.mutate import mutate

LINE = b"CreateTime:1679434459511\tPartition:0\tOffset:17\tNO_HEADERS\tk%d\t" + JSON + b"\n"
KCAT = b'{"topic":"t","partition":0,"offset":%d,"key":"k","payload":' + json.dumps(JSON.decode()).encode() + b"}\n"
PRETTY = json.dumps(json.loads(JSON), indent=2).encode()
CAPTURES: dict[str, tuple[bytes, dict[str, Any]]] = {
    "plain lines": ((JSON + b"\n") * 12 + b"null\n\nProcessed a total of 13 messages\n", {"container": "lines"}),
    "console": (b"".join(LINE % at for at in range(12)), {"container": "lines"}),
    "crlf": ((JSON + b"\r\n") * 12, {"container": "lines"}),
    "kcat": (b"".join(KCAT % at for at in range(12)), {"container": "lines"}),
    "base64": ((base64.b64encode(AVRO) + b"\n") * 12, {"container": "lines"}),
    "documents": ((PRETTY + b"\n") * 12, {"container": "documents"}),
    "array": (json.dumps([json.loads(JSON)] * 12, indent=1).encode(), {"container": "documents"}),
    "one line of documents": (JSON * 12, {"container": "documents"}),
    "console documents": ((b"CreateTime:1\tk\t" + PRETTY + b"\n") * 12, {"container": "documents"}),
    "message": (PRETTY, {"container": "message"}),
    "binary message": (AVRO, {"container": "message"}),
}


@pytest.mark.parametrize("name", list(CAPTURES))
def test_what_a_file_is_shows_without_being_told(name: str, tmp_path: Path) -> None:
    data, options = CAPTURES[name]
    assert probe(put(tmp_path, data), {}).kind == options["container"]


@pytest.mark.parametrize("name", list(CAPTURES))
@settings(max_examples=settings.default.max_examples // 4)  # of each
@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(40, 900), st.integers(1, 9), st.booleans())
def test_damage_keeps_the_ledger_the_parts_and_the_places(
    tmp_path_factory: pytest.TempPathFactory, name: str, seed: int, times: int, split: int, batch: int, told: bool
) -> None:
    data, options = CAPTURES[name]
    rng = random.Random(seed)
    path = put(tmp_path_factory.getbasetemp(), mutate(data, rng, times), f"{name}-damaged")
    given_options = options if told else {}
    container = probe(path, given_options)
    whole = rows(path, **given_options)
    assert rows_in_parts(container, split, batch) == whole
    check_locate(container, whole if len(whole) < 50 else rng.sample(whole, 50))


@settings(max_examples=settings.default.max_examples // 2)
@given(st.binary(max_size=300))
def test_any_bytes_are_read(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = put(tmp_path_factory.getbasetemp(), data, "any")
    whole = rows(path)
    container = probe(path, {})
    assert rows_in_parts(container, 7, 2) == whole
    for kind in ("lines", "documents", "message", "avro", "parquet"):
        told = rows(path, container=kind)
        check_locate(probe(path, {"container": kind}), told)


@pytest.mark.parametrize("name", ["console", "documents", "message"])
@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_compressed_files_are_read_as_what_they_hold(name: str, pack: Any, tmp_path: Path) -> None:
    data, options = CAPTURES[name]
    plain = rows(put(tmp_path, data, "plain"))
    container = probe(put(tmp_path, pack(data), "packed"), {})
    assert (container.kind, container.size) == (options["container"], len(data))
    assert container.compression in ("gzip", "zstd")
    assert parts(container, 10) == [(0, len(data))]
    assert rows_in_parts(container, 10) == plain
    cut = probe(put(tmp_path, pack(data)[:-9], "cut"), {})
    assert "cut off" in (cut.problem or "") or "damaged" in (cut.problem or "")


def test_a_limit_is_what_is_unpacked(tmp_path: Path) -> None:
    path = put(tmp_path, gzip.compress((JSON + b"\n") * 1000))
    assert probe(path, {}, limit=5000).size == 5000
    assert probe(put(tmp_path, (JSON + b"\n") * 100), {}, limit=5000).size == 100 * (len(JSON) + 1)


@pytest.mark.parametrize("start", [0, 1, 10, 109, 110, 111])
def test_a_part_owns_the_lines_that_begin_in_it(start: int, tmp_path: Path) -> None:
    container = probe(put(tmp_path, (JSON + b"\n") * 3), {})
    size = len(JSON) + 1
    offsets = [int(at) for batch in read(container, start, container.size) for at in batch.offset]
    assert offsets == [at for at in (0, size, 2 * size) if at >= start]


def test_places_that_are_not_there(tmp_path: Path) -> None:
    container = probe(put(tmp_path, JSON), {})
    with pytest.raises(CaptureError, match=f"the file has {len(JSON)} bytes"):
        locate(container, len(JSON))
    with pytest.raises(CaptureError, match=f"the file has {len(JSON)} bytes"):
        locate(container, -1)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="missing: cannot be read"):
        probe(str(tmp_path / "missing"), {})


LONG = json.dumps({"data": {f"column_{at}": "value" for at in range(100)}})
MANY = {
    "lines": LONG.encode() + b"\n",
    "kcat": json.dumps({"topic": "t", "partition": 0, "offset": 1, "payload": LONG}).encode() + b"\n",
    "documents": json.dumps(json.loads(LONG), indent=1).encode() + b"\n",
}


@pytest.mark.parametrize("name", list(MANY))
def test_memory_does_not_grow_with_the_file(name: str, tmp_path: Path) -> None:
    path = put(tmp_path, MANY[name] * ((64 << 20) // len(MANY[name])))
    container = probe(path, {})
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        peak = 0
        for batch in read(container, 0, container.size):
            assert len(batch) <= 8192
            peak = max(peak, pa.total_allocated_bytes() - before)
        traced = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40 << 20
    assert traced < 40 << 20
