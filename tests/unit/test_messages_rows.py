"""Messages in rows: Avro containers, Parquet files and data frames with Kafka's columns."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import random
import time
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.errors import CaptureError
from cdcwb.formats.containers.avro_schema import parse_schema
from cdcwb.formats.containers.detect import probe
from cdcwb.formats.containers.kafka_rows import from_arrow, kafka_columns
from cdcwb.formats.containers.message_files import locate, parts, read
from tests.containers import AVRO, CONFLUENT, JSON, check_locate, put, rows, rows_in_parts, rows_of

ENVELOPE = {
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
TOPIC = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "key", "type": ["null", "bytes"]},
        {"name": "value", "type": ["null", "bytes"]},
        {"name": "topic", "type": "string"},
        {"name": "partition", "type": "int"},
        {"name": "offset", "type": "long"},
        {"name": "timestamp", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "timestampType", "type": "int"},
        {
            "name": "headers",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Header",
                    "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": "bytes"}],
                },
            },
        },
    ],
}
SYNC = b"0123456789abcdef"
CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": lambda plain: zlib.compress(plain)[2:-4],
    "snappy": lambda plain: pa.compress(plain, "snappy", asbytes=True) + zlib.crc32(plain).to_bytes(4, "big"),
    "zstandard": zstandard.ZstdCompressor().compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


def envelope(number: int) -> dict[str, Any]:
    return {
        "magic": b"atMSG",
        "type": "DT",
        "headers": {"a": "b"} if number % 3 == 0 else None,
        "messageSchemaId": "8FB9D3C10EA4B25751DF9CC8318F0A02",
        "messageSchema": None,
        "message": bytes([number % 256]) * number,
    }


def encoded(schema: Any, record: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record)
    return out.getvalue()


def container(schema: Any, records: list[Any], codec: str = "null", each: int = 5) -> bytes:
    """A container with so many records a block."""
    meta = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    out = b"Obj\x01" + encoded({"type": "map", "values": "bytes"}, meta) + SYNC
    for at in range(0, len(records), each):
        plain = b"".join(encoded(schema, record) for record in records[at : at + each])
        out += encoded("long", len(records[at : at + each])) + encoded("bytes", CODECS[codec](plain)) + SYNC
    return out


# Avro


@pytest.mark.parametrize("codec", list(CODECS))
def test_records_are_messages_in_the_binary_form_of_the_containers_schema(codec: str, tmp_path: Path) -> None:
    records = [envelope(number) for number in range(60)]
    path = put(tmp_path, container(ENVELOPE, records, codec))
    found = probe(path, {})
    assert (found.kind, found.unit, found.problem) == ("avro", "row", None)
    assert json.loads(found.schema or "")["name"] == "MessageEnvelope"
    got = rows(path)
    assert [row.value for row in got] == [encoded(ENVELOPE, record) for record in records]
    assert all(row.source == row.value and (row.value or b"").startswith(b"atMSG") for row in got)


def test_a_checksum_that_is_wrong_is_seen(tmp_path: Path) -> None:
    data = container(ENVELOPE, [envelope(1)], "snappy")
    found = rows(put(tmp_path, data[:-17] + bytes([data[-17] ^ 1]) + SYNC))
    assert [row.state for row in found] == [2]
    assert "its checksum is wrong" in (found[0].reason or "")


def test_what_fastavro_wrote_is_read(tmp_path: Path) -> None:
    out = io.BytesIO()
    fastavro.writer(out, ENVELOPE, [envelope(number) for number in range(60)], codec="deflate", sync_interval=400)
    assert [row.value for row in rows(put(tmp_path, out.getvalue()))] == [
        encoded(ENVELOPE, envelope(n)) for n in range(60)
    ]


def test_rows_of_a_topic_in_an_avro_container(tmp_path: Path) -> None:
    records = [
        {
            "key": b"k",
            "value": AVRO,
            "topic": "t",
            "partition": 1,
            "offset": 7,
            "timestamp": datetime(2023, 3, 21, 21, 34, 19, 511000, UTC),
            "timestampType": 1,
            "headers": [{"key": "a", "value": b"1"}, {"key": "a", "value": b"\xff"}],
        },
        {"key": None, "value": None, "topic": "t", "partition": 0, "offset": 8}
        | {"timestamp": datetime(1970, 1, 1, tzinfo=UTC), "timestampType": 0, "headers": []},
    ]
    path = put(tmp_path, container(TOPIC, records))
    assert probe(path, {}).schema is None
    found = rows(path)
    assert [(row.value, row.key, row.facts) for row in found] == [
        (
            AVRO,
            b"k",
            {
                "topic": "t",
                "partition": "1",
                "offset": "7",
                "timestamp": "2023-03-21T21:34:19.511Z",
                "timestamp_type": "LogAppendTime",
                "header.a": "1",
                "header.a#2": "\\xff",
            },
        ),
        (
            None,
            None,
            {
                "topic": "t",
                "partition": "0",
                "offset": "8",
                "timestamp": "1970-01-01T00:00:00.000Z",
                "timestamp_type": "CreateTime",
            },
        ),
    ]


def test_a_damaged_block_costs_its_rows_alone(tmp_path: Path) -> None:
    records = [envelope(number) for number in range(60)]
    data = container(ENVELOPE, records, "deflate")
    syncs = [at for at in range(len(data)) if data.startswith(b"0123456789abcdef", at)]
    assert len(syncs) > 5
    place = (syncs[2] + 16 + syncs[3]) // 2
    bad = bytearray(data)
    bad[place : place + 4] = b"\xff\xff\xff\xff"
    found = rows(put(tmp_path, bytes(bad)))
    want = [encoded(ENVELOPE, record) for record in records]
    assert len(found) == 60
    wrong = [at for at, row in enumerate(found) if row.state == 2]
    assert wrong == list(range(wrong[0], wrong[-1] + 1))
    assert 0 < len(wrong) < 20
    assert [row.value for row in found if row.state == 0] == [one for at, one in enumerate(want) if at not in wrong]
    assert "of the Avro block at offset" in (found[wrong[0]].reason or "") or "cannot be unpacked" in (
        found[wrong[0]].reason or ""
    )
    gone = data[: syncs[2]] + b"################" + data[syncs[2] + 16 :]
    found = rows(put(tmp_path, gone))
    assert [row.value for row in found if row.state == 0][-1] == want[-1]
    assert "does not end with the sync marker" in next(row.reason or "" for row in found if row.state == 2)


def test_a_container_that_is_cut_off(tmp_path: Path) -> None:
    data = container(ENVELOPE, [envelope(number) for number in range(60)])
    found = rows(put(tmp_path, data[:-100]))
    assert found[0].state == 0
    assert (found[-1].reason or "").endswith("is cut off")
    for size in (3, 4, 5, 30, 100):
        short = put(tmp_path, data[:size])
        assert sum(row.length for row in rows(short)) == (size if probe(short, {}).unit == "byte" else 1)


def test_names_that_break_avros_rules_are_read(tmp_path: Path) -> None:
    schema = json.loads(json.dumps(ENVELOPE).replace("MessageEnvelope", "chips-qa.1.Message-Envelope"))
    data = container(ENVELOPE, [envelope(3)]).replace(b'"MessageEnvelope"', b'"Message-nvelope"')
    assert [row.value for row in rows(put(tmp_path, data))] == [encoded(ENVELOPE, envelope(3))]
    assert parse_schema(json.dumps(schema)).root.arrow.field("message").type == pa.binary()


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        (
            {"type": "record", "name": "N", "fields": [{"name": "a", "type": "M"}]},
            "expected a type that is already defined, found M",
        ),
        ({"type": "record"}, "the Avro schema cannot be read: top: expected a name of the record"),
        (
            {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]},
            "next: expected a type that is complete, found the record N inside itself",
        ),
        ("int", "the Avro schema is not that of a record"),
    ],
)
def test_schemas_that_are_not_read_are_a_problem(schema: Any, sentence: str, tmp_path: Path) -> None:
    data = container({"type": "record", "name": "N", "fields": []}, [])
    meta = {"avro.schema": json.dumps(schema).encode(), "avro.codec": b"null"}
    data = b"Obj\x01" + encoded({"type": "map", "values": "bytes"}, meta) + bytes(16)
    data += b"\x04" + encoded("bytes", b"\x02" * 100_000) + bytes(16)
    path = put(tmp_path, data)
    assert sentence in (probe(path, {}).problem or "")
    assert [row.state for row in rows(path)] == [2, 2]


@given(st.integers(0, 1000), st.sampled_from(["null", "deflate", "zstandard"]), st.integers(0, 2**32))
def test_damage_anywhere_keeps_the_ledger_and_the_parts(
    tmp_path_factory: pytest.TempPathFactory, number: int, codec: str, seed: int
) -> None:
    rng = random.Random(seed)
    data = bytearray(container(ENVELOPE, [envelope(at % 40) for at in range(number % 50)], codec))
    for _ in range(rng.randrange(4)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    data = data[: len(data) - rng.randrange(20)]
    path = put(tmp_path_factory.mktemp("avro"), bytes(data))
    found = probe(path, {"container": "avro"})
    whole = rows(path, container="avro")
    assert rows_in_parts(found, 1) == whole
    assert rows_in_parts(found, 1000, batch=3) == whole
    check_locate(found, whole)


# Parquet


def topic_table(count: int, **changes: Any) -> pa.Table:
    columns = {
        "key": pa.array([b"k%d" % at if at % 3 else None for at in range(count)], pa.binary()),
        "value": pa.array([JSON if at % 5 else None for at in range(count)], pa.binary()),
        "topic": pa.array(["t"] * count),
        "partition": pa.array(range(count), pa.int32()),
        "offset": pa.array(range(count), pa.int64()),
        "timestamp": pa.array([1679434459511000 + at for at in range(count)], pa.timestamp("us", "UTC")),
        "timestampType": pa.array([0] * count, pa.int32()),
        "headers": pa.array(
            [[{"key": "h", "value": b"%d" % at}] if at % 2 else None for at in range(count)],
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        ),
    }
    columns.update(changes)
    return pa.table({name: column for name, column in columns.items() if column is not None})


def parquet(folder: Path, table: pa.Table, group: int = 100) -> str:
    path = folder / "part-0"
    pq.write_table(table, path, row_group_size=group)
    return str(path)


def test_parquet_rows(tmp_path: Path) -> None:
    path = parquet(tmp_path, topic_table(250))
    found = probe(path, {})
    assert (found.kind, found.unit, found.count) == ("parquet", "row", 250)
    got = rows(path)
    assert got[1][4:] == (
        JSON,
        b"k1",
        JSON,
        {
            "topic": "t",
            "partition": "1",
            "offset": "1",
            "timestamp": "2023-03-21T21:34:19.511001Z",
            "timestamp_type": "CreateTime",
            "header.h": "1",
        },
    )
    assert got[0].facts["timestamp"] == "2023-03-21T21:34:19.511Z"
    assert (got[5].value, got[5].state, got[6].key) == (None, 0, None)
    assert [row.offset for row in got] == list(range(250))


def test_parts_of_a_parquet_file_are_row_groups(tmp_path: Path) -> None:
    path = parquet(tmp_path, topic_table(250))
    found = probe(path, {})
    assert parts(probe(path, {"split_size": 64})) == [(0, 100), (100, 200), (200, 250)]
    assert parts(found) == [(0, 250)]
    whole = rows(path)
    assert rows_in_parts(found, 1, batch=7) == whole
    assert [
        row for start in range(0, 250, 33) for batch in read(found, start, start + 33) for row in rows_of(batch)
    ] == whole
    assert rows_of(locate(found, 133)) == [whole[133]]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.large_binary(), pa.dictionary(pa.int32(), pa.binary())]
)
def test_values_of_any_type_that_holds_bytes(kind: pa.DataType, tmp_path: Path) -> None:
    table = pa.table(
        {
            "VALUE": pa.array([JSON, None, JSON]).cast(pa.binary()).cast(kind)
            if not pa.types.is_dictionary(kind)
            else pa.array([JSON, None, JSON]).dictionary_encode()
        }
    )
    assert [row.value for row in rows(parquet(tmp_path, table))] == [JSON, None, JSON]


def test_a_damaged_parquet_file_is_a_problem(tmp_path: Path) -> None:
    data = Path(parquet(tmp_path, topic_table(250))).read_bytes()
    found = probe(put(tmp_path, data[:-1]), {})
    assert (found.kind, found.count) == ("parquet", 1)
    assert "the Parquet file cannot be read" in (found.problem or "")
    assert [row.state for row in rows(found.path)] == [2]


def test_a_damaged_page_costs_its_rows(tmp_path: Path) -> None:
    data = bytearray(Path(parquet(tmp_path, topic_table(300))).read_bytes())
    middle = data.index(b"k150") if b"k150" in data else len(data) // 3
    data[middle - 30 : middle + 30] = b"\xff" * 60
    path = put(tmp_path, bytes(data))
    found = rows(path)
    assert len(found) == 300
    assert found[0].value == rows(parquet(tmp_path, topic_table(300)))[0].value


def test_a_parquet_file_without_values_says_what_it_has(tmp_path: Path) -> None:
    found = probe(parquet(tmp_path, pa.table({"a": [1], "key": ["x"]})), {})
    assert found.problem == "the Parquet file has no column 'value', only a, key"


# Data frames


def test_columns_in_any_case_and_subset() -> None:
    assert kafka_columns(["Key", "VALUE", "x", "Timestamp_Type", "value"]) == {
        "key": "Key",
        "value": "value",
        "timestampType": "Timestamp_Type",
    }
    assert kafka_columns(["key", "topic"]) == {}


def test_rows_are_counted_or_named() -> None:
    batch = pa.record_batch({"value": [JSON, None], "extra": [1, 2]})
    assert [(row.offset, row.length, row.value) for row in rows_of(from_arrow(batch))] == [(0, 1, JSON), (1, 1, None)]
    numbered = pa.record_batch({"_row": pa.array([7, 3]), "value": ["a", "b"]})
    assert [(row.offset, row.value, row.source) for row in rows_of(from_arrow(numbered))] == [
        (7, b"a", b"a"),
        (3, b"b", b"b"),
    ]


def test_slices_of_batches_are_whole_arrays() -> None:
    batch = pa.record_batch({"value": [b"a", b"bb", b"ccc"], "topic": ["x", "y", "z"]}).slice(1, 2)
    assert [(row.value, row.facts) for row in rows_of(from_arrow(batch))] == [
        (b"bb", {"topic": "y"}),
        (b"ccc", {"topic": "z"}),
    ]
    assert [row.value for row in rows_of(from_arrow([batch, batch]))] == [b"bb", b"ccc"] * 2
    assert rows_of(from_arrow(batch.slice(0, 0))) == []


@pytest.mark.parametrize(
    ("times", "texts"),
    [
        (pa.array([0, None, -1, 10**18]), ["1970-01-01T00:00:00.000Z", None, None, str(10**18)]),
        (pa.array([0, 1001], pa.timestamp("us")), ["1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.001001Z"]),
        (pa.array([5], pa.timestamp("ms", "Europe/Berlin")), ["1970-01-01T00:00:00.005Z"]),
        (pa.array([5], pa.timestamp("s", "UTC")), ["1970-01-01T00:00:05.000Z"]),
        (pa.array(["2023-03-21 21:34"]), ["2023-03-21 21:34"]),
    ],
)
def test_times_of_any_type(times: pa.Array, texts: list[str | None]) -> None:
    found = rows_of(from_arrow(pa.table({"value": pa.nulls(len(times), pa.binary()), "timestamp": times})))
    assert [row.facts.get("timestamp") for row in found] == texts


def test_what_holds_no_bytes_is_refused() -> None:
    with pytest.raises(CaptureError, match="a column 'value' was expected, found a, b"):
        from_arrow(pa.table({"a": [1], "b": [2]}))
    with pytest.raises(CaptureError, match="column 'value': bytes or text was expected, found int64"):
        from_arrow(pa.table({"value": [1]}))


def test_batches_of_large_values_are_small(tmp_path: Path) -> None:
    table = pa.table({"value": [bytes(1 << 20)] * 200})
    found = probe(parquet(tmp_path, table, 200), {})
    assert max(batch.value.nbytes for batch in read(found, 0, 200)) < 80 << 20


def test_many_rows_of_a_topic_are_quick() -> None:
    table = pa.table({"key": [b"k"] * 200_000, "value": [JSON] * 200_000, "timestamp": np.arange(200_000)})
    begun = time.process_time()
    assert len(from_arrow(table)) == 200_000
    assert time.process_time() - begun < 2


def test_confluent_values_are_bytes_like_any_other() -> None:
    assert rows_of(from_arrow(pa.table({"value": [CONFLUENT]})))[0].value == CONFLUENT


@pytest.mark.parametrize("schema", ["bytes", ["null", "bytes"], {"type": "bytes"}, "string"])
def test_a_container_of_bytes_that_are_no_records_holds_a_message_in_each(tmp_path: Path, schema: Any) -> None:
    """As Kafka Connect writes them with its byte array converter."""
    path = tmp_path / "values.avro"
    values: list[Any] = [JSON.decode() if schema == "string" else JSON] * 3
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), [*values, None] if isinstance(schema, list) else values)
    container = probe(str(path), {})
    assert container.schema is None
    found = [value for batch in read(container, 0, container.extent) for value in batch.value.to_pylist()]
    assert found == [JSON] * 3 + ([None] if isinstance(schema, list) else [])
