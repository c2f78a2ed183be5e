"""Debezium as it is deployed: older releases, sinks, wrappers, and the ways in which people print a topic."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdcwb.errors import CaptureError, OptionError, UnknownFormatError
from cdcwb.formats import identify, inspect
from cdcwb.formats.messages.connect import Schemas
from tests.debezium import POSTGRESQL, change, connect, events, line, one, wrapped
from tests.limits import run
from tests.local import plan_of, read

INSERT = change("c", None, {"id": 7, "name": "fig"})
UPDATE = change("u", {"id": 7, "name": "fig"}, {"id": 7, "name": "date"})
DELETE = change("d", {"id": 7, "name": "date"}, None)
CHANGES = (INSERT, UPDATE, DELETE)
OPERATIONS = ["INSERT", "UPDATE", "DELETE"]

DECIMAL = "org.apache.kafka.connect.data.Decimal"
Row = dict[str, Any]


def recognised(folder: Path, *lines: bytes) -> list[Row]:
    """The events of lines that are recognised without a format."""
    rows = events(folder, *lines)
    assert identify(folder / "messages.txt").format == "debezium"
    return rows


# --- the envelope (formats/debezium.md §1.2, §2) ----------------------------------------------------------------------


def test_a_payload_alone_is_its_message(tmp_path: Path) -> None:
    rows = recognised(tmp_path, *(line({"payload": one}, {"payload": {"id": 7}}) for one in CHANGES))
    assert [row["operation"] for row in rows] == OPERATIONS
    assert [row["key"] for row in rows] == [{"id": "7"}] * 3
    assert rows[1]["after"] == {"id": "7", "name": "date"}


@pytest.mark.parametrize("dots", [b"{...}", b"{ ... }", "{…}".encode(), b"{\n  ...\n  }"])
def test_a_schema_that_is_left_out_is_a_problem_of_its_message_only(tmp_path: Path, dots: bytes) -> None:
    text = json.dumps({"schema": {}, "payload": UPDATE}, indent=1).encode().replace(b"{}", dots)
    (row,) = recognised(tmp_path, text)
    assert (row["operation"], row["after"]) == ("UPDATE", {"id": "7", "name": "date"})
    assert [problem["code"] for problem in row["problems"]] == ["json_syntax"]
    tree = inspect(tmp_path / "messages.txt", 0)
    assert b"".join(field.raw for field in tree.field.walk() if not field.children) == tree.record == text


def test_dots_within_a_text_stay(tmp_path: Path) -> None:
    assert one(tmp_path, change("c", None, {"id": 1, "note": "[...] {...}"}))["after"]["note"] == "[...] {...}"


@pytest.mark.parametrize(
    ("source", "table", "connector"),
    [
        ({"db": "shop", "table": "fruit"}, ("shop", "fruit"), "unknown"),
        ({"connector": "TiCDC", "db": "shop", "table": "fruit"}, ("shop", "fruit"), "TiCDC"),
    ],
)
def test_the_source_of_a_sink_names_the_table_only(
    tmp_path: Path, source: Row, table: tuple[str, str], connector: str
) -> None:
    rows = recognised(tmp_path, *(line(one | {"source": source}) for one in CHANGES))
    assert [row["operation"] for row in rows] == OPERATIONS
    assert {(row["schema_name"], row["table_name"]) for row in rows} == {table}
    assert {(row["position"], row["transaction_id"], row["changed_at"]) for row in rows} == {(None, None, None)}
    detected = {row["setting"]: row["value"] for row in plan_of(tmp_path / "messages.txt", "debezium").detected}
    assert detected["connector"] == connector


def test_a_message_without_a_source_has_no_table(tmp_path: Path) -> None:
    rows = recognised(tmp_path, *(line({name: one[name] for name in ("before", "after", "op")}) for one in CHANGES))
    assert [row["operation"] for row in rows] == OPERATIONS
    assert {row["table_name"] for row in rows} == {None}
    assert {problem["code"] for row in rows for problem in row["problems"]} == {"no_schema"}


# --- source (§3) ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "micros"),
    [
        ({"ts_usec": 1_700_000_000_123_456}, 123_456),
        ({"ts_usec": 1_700_000_000_123_456_789}, 123_456),
        ({"ts_sec": 1_700_000_000}, 0),
        ({"ts_ms": 0}, None),
        ({"ts_ms": 0, "ts_us": 0, "ts_ns": 0}, None),
    ],
)
def test_times_of_older_releases(tmp_path: Path, times: Row, micros: int | None) -> None:
    source = {name: value for name, value in POSTGRESQL.items() if not name.startswith("ts_")} | times
    row = one(tmp_path, INSERT | {"source": source})
    assert row["changed_at"] == (None if micros is None else datetime(2023, 11, 14, 22, 13, 20, micros, UTC))


@pytest.mark.parametrize(
    ("fields", "connector", "position", "transaction"),
    [
        ({"schema": "public", "txId": 571, "lsn": 24023128}, "postgresql", "00000000016E9058", "571"),
        (
            {"gtid": "a:1", "file": "bin.000003", "pos": 484, "row": 2},
            "mysql",
            "0000000003/0000000000000000484/0000000002",
            "a:1",
        ),
    ],
)
def test_a_source_of_0_8_shows_its_connector_by_its_fields(
    tmp_path: Path, fields: Row, connector: str, position: str, transaction: str
) -> None:
    source = {"version": "0.8.3.Final", "name": "shop", "db": "shop", "table": "fruit"} | fields
    (row,) = recognised(tmp_path, line(INSERT | {"source": source}))
    assert (row["position"], row["transaction_id"]) == (position, transaction)
    detected = {row["setting"]: row for row in plan_of(tmp_path / "messages.txt", "debezium").detected}
    assert detected["connector"]["value"] == connector
    assert "no source names its connector" in detected["connector"]["evidence"]


def test_equal_tables_of_two_keyspaces_are_two(tmp_path: Path) -> None:
    source = {"connector": "vitess", "db": "", "table": "fruit", "vgtid": "v1"}
    rows = events(tmp_path, *(line(INSERT | {"source": source | {"keyspace": name}}) for name in ("north", "south")))
    assert [row["table_version"] for row in rows] == ["north.fruit@1", "south.fruit@1"]
    assert [row["transaction_id"] for row in rows] == ["v1", "v1"]


# --- values (§7, §8.3) ------------------------------------------------------------------------------------------------

GONE = "__debezium_unavailable_value"


@pytest.mark.parametrize(
    "value",
    [
        [GONE],
        list(GONE.encode()),
        {GONE: GONE},
        json.dumps({GONE: GONE}, separators=(",", ":")),
        [str(uuid.UUID(bytes=hashlib.md5(GONE.encode()).digest(), version=3))],
    ],
)
def test_the_placeholder_of_every_type_is_a_missing_key(tmp_path: Path, value: Any) -> None:
    row = one(tmp_path, change("u", None, {"id": 1, "v": value}))
    assert (row["after"], row["present_columns"]) == ({"id": "1"}, ["id"])


_DATA = "org.apache.kafka.connect.data"


@pytest.mark.parametrize(
    ("item", "value", "text"),
    [
        (connect("bytes", f"{_DATA}.Decimal", parameters={"scale": "2"}), ["AN3O", None], '["567.82",null]'),
        (connect("int32", "io.debezium.time.Date"), [19700], '["2023-12-09"]'),
        (connect("bytes"), ["3q2+7w=="], '["deadbeef"]'),
        (connect("int32"), [1, 2], "[1,2]"),
    ],
)
def test_items_of_arrays_are_decoded_by_their_type(tmp_path: Path, item: Row, value: Any, text: str) -> None:
    row = one(tmp_path, wrapped(change("c", None, {"v": value}), v=connect("array", items=item)))
    assert (row["after"]["v"], row["problems"]) == (text, None)


def cell(value: Any) -> Row:
    return {"value": value, "set": True}


def test_cells_of_yugabytedb_are_their_values(tmp_path: Path) -> None:
    source = {"connector": "yugabytedb", "schema": "public", "table": "fruit", "txId": "t1", "lsn": "1:4::0:0"}
    insert = change("c", None, {"id": cell(7), "name": cell(None)}, source)
    update = change("u", None, {"id": cell(7), "name": None}, source)
    first, second = events(tmp_path, line(insert), line(update))
    assert first["after"] == {"id": "7", "name": None}
    assert (second["after"], second["present_columns"]) == ({"id": "7"}, ["id"])
    assert first["table_version"] == second["table_version"]


# --- wrappers (§1.5 to §1.7) ------------------------------------------------------------------------------------------

CLOUD_EVENT = {
    "id": "name:shop;lsn:24023128;txId:571", "source": "/debezium/postgresql/shop", "specversion": "1.0",
    "type": "io.debezium.connector.postgresql.DataChangeEvent", "time": "2023-11-14T22:13:20.123Z",
    "datacontenttype": "application/json", "iodebeziumop": "u", "iodebeziumconnector": "postgresql",
    "iodebeziumtsms": "1700000000123", "iodebeziumschema": "public", "iodebeziumtable": "fruit",
    "iodebeziumtxId": "571", "iodebeziumlsn": "24023128", "iodebeziumtxid": "571", "iodebeziumtxtotalorder": "3",
    "iodebeziumtxdatacollectionorder": "2", "data": {name: UPDATE[name] for name in ("before", "after")},
}  # fmt: skip


def test_a_cloud_event_is_its_change(tmp_path: Path) -> None:
    (row,) = recognised(tmp_path, line(CLOUD_EVENT))
    assert (row["operation"], row["schema_name"], row["table_name"]) == ("UPDATE", "public", "fruit")
    assert (row["before"], row["after"]) == ({"id": "7", "name": "fig"}, {"id": "7", "name": "date"})
    assert (row["position"], row["transaction_id"], row["event_no"]) == ("00000000016E9058", "571", 3)
    assert row["changed_at"] == datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)
    assert row["headers"]["cloudevent.id"] == CLOUD_EVENT["id"]


def test_the_data_of_a_cloud_event_may_have_their_schema(tmp_path: Path) -> None:
    data = wrapped({"before": None, "after": {"day": 19700}}, day=connect("int32", "io.debezium.time.Date"))
    row = one(tmp_path, CLOUD_EVENT | {"data": data})
    assert row["after"] == {"day": "2023-12-09"}


def avro_json(message: Row) -> Row:
    """A message in Avro's JSON encoding: values of unions have their type."""
    rows = {
        name: row and {"shop.public.fruit.Value": {"id": row["id"], "name": {"string": row["name"]}}}
        for name, row in ((name, message[name]) for name in ("before", "after"))
    }
    source = message["source"] | {"txId": {"long": 571}, "lsn": {"long": 24023128}, "snapshot": {"string": "false"}}
    return message | rows | {"source": source, "ts_ms": {"long": message["ts_ms"]}}


def test_unions_in_the_json_encoding_of_avro_are_their_values(tmp_path: Path) -> None:
    rows = recognised(tmp_path, *(line(avro_json(one), {"id": 7}) for one in CHANGES), line(None, {"id": 7}))
    assert [row["operation"] for row in rows] == [*OPERATIONS, None]
    assert rows[1]["before"] == {"id": "7", "name": "fig"}
    assert rows[1]["after"] == {"id": "7", "name": "date"}
    assert {(row["transaction_id"], row["position"]) for row in rows[:3]} == {("571", "00000000016E9058")}


def test_a_schema_for_what_is_printed_in_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "schema.avsc").write_text('"string"')
    path = tmp_path / "topic.txt"
    path.write_bytes(line({"op": "c", "ts_ms": {"long": 1}, "before": None, "after": {"shop.fruit.Value": {"id": 7}}}))
    with pytest.raises(OptionError, match="leave the option out"):
        read(path, format="debezium", avro_schema=str(tmp_path / "schema.avsc"))


def test_an_object_with_one_field_is_no_union_elsewhere(tmp_path: Path) -> None:
    row = one(tmp_path, change("c", None, {"id": 1, "note": {"string": "a"}}))
    assert row["after"] == {"id": "1", "note": '{"string":"a"}'}


def test_json_behind_a_schema_id_is_debezium(tmp_path: Path) -> None:
    path = tmp_path / "topic.parquet"
    values = [b"\0\0\0\0\x09" + json.dumps(one).encode() for one in CHANGES]
    pq.write_table(pa.table({"value": values, "topic": ["t"] * 3, "partition": [0] * 3, "offset": [0, 1, 2]}), path)
    assert identify(path).format == "debezium"
    rows = read(path, format="debezium").to_pylist()
    assert [row["operation"] for row in rows] == OPERATIONS
    assert dict(rows[0]["headers"])["schemaId"] == "9"
    tree = inspect(path, 0)
    assert b"".join(field.raw for field in tree.field.walk() if not field.children) == values[0]


# --- what people keep of a topic (formats/debezium.md §1.8) -----------------------------------------------------------

KEY = '{"id":7}'
TEXTS = [json.dumps(one) for one in CHANGES]


def kafka(row: Row, *names: str) -> tuple[Any, ...]:
    return tuple(row["headers"].get(f"kafka.{name}") for name in names)


def is_complete(rows: list[Row]) -> bool:
    """Three changes and a tombstone, each with its key."""
    return [row["operation"] for row in rows] == [*OPERATIONS, None] and all(row["key"] == {"id": "7"} for row in rows)


@pytest.mark.parametrize("null", ["", "NULL", "null"])
@pytest.mark.parametrize("separator", [":", "\t", " = "])
def test_kcat_with_keys_prints_nothing_or_null_for_a_tombstone(tmp_path: Path, null: str, separator: str) -> None:
    rows = recognised(tmp_path, *(f"{KEY}{separator}{value}\n".encode() for value in (*TEXTS, null)))
    assert is_complete(rows)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("wrapped_key", [False, True])
def test_a_line_of_the_key_precedes_each_line_of_a_value(tmp_path: Path, end: str, wrapped_key: bool) -> None:
    key = json.dumps({"schema": {"type": "struct", "fields": []}, "payload": {"id": 7}}) if wrapped_key else KEY
    lines = [f"{key}{end}{value}{end}".encode() for value in (*TEXTS, "null")]
    rows = recognised(tmp_path, *lines, b"Processed a total of 4 messages\n")
    assert is_complete(rows[:4])
    assert [row["kind"] for row in rows[4:]] == ["filler"]
    in_parts = read(tmp_path / "messages.txt", format="debezium", split_size=100)
    assert in_parts.column("operation").to_pylist()[:3] == OPERATIONS


def test_rows_that_alternate_are_not_keys_and_values(tmp_path: Path) -> None:
    other = change("c", None, {"id": 7}, POSTGRESQL | {"table": "seed"})
    rows = recognised(tmp_path, *[line(INSERT), line(other)] * 2)
    assert [row["table_name"] for row in rows] == ["orders", "seed"] * 2


@pytest.mark.parametrize(
    "command",
    [
        "/opt/kafka/bin/kafka-console-consumer.sh --bootstrap-server b:9092 --topic shop.fruit",
        "kcat -C -b b:9092 -t shop.fruit",
        "docker exec -it broker kafka-console-consumer --topic shop.fruit",
        "2024-05-06 07:08:09.010  INFO 1 --- [main] o.a.k.Consumer : subscribed",
    ],
)
def test_a_command_and_a_line_of_a_log_among_messages_are_filler(tmp_path: Path, command: str) -> None:
    rows = recognised(tmp_path, command.encode() + b"\n", *map(line, CHANGES))
    assert [row["kind"] for row in rows] == ["filler", "change", "change", "change"]


def java(offset: int, value: str, headers: str = "") -> bytes:
    """A record as Spring's logs have it."""
    return (
        "2024-05-06 07:08:09.010  INFO 1 --- [main] shop.Listener : ConsumerRecord(topic = shop.fruit, partition = 2, "
        f"leaderEpoch = 0, offset = {offset}, CreateTime = 1700000000123, serialized key size = 8, "
        f"serialized value size = {len(value)}, headers = RecordHeaders(headers = [{headers}], isReadOnly = false), "
        f"key = {KEY}, value = {value})\n"
    ).encode()


def test_consumer_records_in_a_log_of_java_are_messages(tmp_path: Path) -> None:
    header = "RecordHeader(key = from, value = [101, 117])"
    lines = [java(at, value, header) for at, value in enumerate((*TEXTS, "null"))]
    rows = recognised(tmp_path, b"2024-05-06 07:08:09.000  INFO 1 --- [main] shop.Main : started\n", *lines)
    assert rows.pop(0)["kind"] == "filler"
    assert is_complete(rows)
    assert kafka(rows[3], "topic", "partition", "offset") == ("shop.fruit", "2", "3")
    assert kafka(rows[0], "timestamp", "timestamp_type") == ("2023-11-14T22:13:20.123Z", "CreateTime")
    assert kafka(rows[0], "header.from") == ("eu",)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f"ConsumerRecord(topic='t', partition=2, offset=1, key={KEY.encode()!r}, value=b'{{}}')",
            "print their values alone",
        ),
        (f"partition;offset;key;value\n2;1;;{TEXTS[0]}", "messages in delimited text are not read"),
    ],
)
def test_other_texts_of_messages_are_refused_with_their_remedy(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "topic.txt"
    path.write_text(text + "\n")
    with pytest.raises(UnknownFormatError, match=sentence):
        identify(path)
    with pytest.raises(CaptureError, match="kcat -J"):
        read(path, format="debezium")


def test_an_export_of_kafka_ui_is_messages(tmp_path: Path) -> None:
    records = [
        {"partition": 2, "offset": at, "timestamp": "2023-11-14T22:13:20.123Z", "timestampType": "CREATE_TIME",
         "key": KEY, "headers": {"from": "eu"}, "content": value, "keyFormat": "JSON"}
        for at, value in enumerate((*TEXTS, None))
    ]  # fmt: skip
    rows = recognised(tmp_path, json.dumps(records, indent=1).encode())
    assert is_complete(rows)
    assert kafka(rows[3], "partition", "offset", "timestamp_type") == ("2", "3", "CreateTime")
    assert kafka(rows[0], "timestamp", "header.from") == ("2023-11-14T22:13:20.123Z", "eu")


FLAT = {"id": 7, "picture": "Dzw=", "__op": "u", "__source_ts_ms": 1700000000123, "__deleted": "false"}


def test_a_flattened_event_is_the_change_that_its_added_fields_show(tmp_path: Path) -> None:
    source = {
        "__source_ts_ms": 1700000000123,
        "__source_schema": "public",
        "__source_table": "fruit",
        "__lsn": 24023128,
    }
    rows = recognised(
        tmp_path,
        line(FLAT | source | {"__op": "c"}),
        line(FLAT | source),
        line(FLAT | source | {"__op": "d", "__deleted": "true"}),
        line(None, {"id": 7}),
    )
    row = {"id": "7", "picture": "Dzw="}
    assert [one["operation"] for one in rows] == ["INSERT", "UPDATE", "DELETE", None]
    assert [(one["before"], one["after"]) for one in rows[:3]] == [(None, row), (None, row), (row, None)]
    assert {(one["schema_name"], one["table_name"], one["position"]) for one in rows[:3]} == {
        ("public", "fruit", "00000000016E9058")
    }
    assert rows[1]["headers"]["__op"] == "u"
    assert not {"op", "source.lsn"} & rows[1]["headers"].keys()
    assert rows[1]["changed_at"] == datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)


def test_the_time_at_which_the_connector_flattened_an_event_is_not_that_of_the_change(tmp_path: Path) -> None:
    rows = recognised(
        tmp_path,
        line(FLAT | {"__table": "fruit", "__ts_ms": 1700000009000}),
        line({"id": 7, "__op": "u", "__table": "fruit", "__ts_ms": 1700000009000}),
    )
    assert [row["changed_at"] for row in rows] == [datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC), None]


def test_a_flattened_event_with_its_schema_is_decoded_and_typed(tmp_path: Path) -> None:
    fields = [
        {"field": "id", "type": "int32", "optional": False},
        {"field": "day", "type": "int32", "name": "io.debezium.time.Date", "optional": True},
        {"field": "__deleted", "type": "string", "optional": True},
        {"field": "__table", "type": "string", "optional": True},
    ]
    schema = {"type": "struct", "fields": fields, "optional": False, "name": "shop.public.fruit.Value"}
    payload = {"id": 7, "day": 19700, "__deleted": "false", "__table": "fruit"}
    (row,) = recognised(tmp_path, line({"schema": schema, "payload": payload}))
    assert (row["operation"], row["after"]) == ("UPDATE", {"id": "7", "day": "2023-12-09"})
    plan = plan_of(tmp_path / "messages.txt", "debezium")
    assert [column.name for column in plan.versions[0].columns] == ["id", "day"]
    assert {one["setting"]: one["value"] for one in plan.detected}["operation"] == "inserts shown as updates"


@pytest.mark.parametrize("command", ["identify", "summary"])
def test_rows_alone_are_refused(tmp_path: Path, command: str) -> None:
    path = tmp_path / "topic.txt"
    path.write_bytes(line({"id": 5, "picture": "Dzw="}) + line({"id": 5, "picture": "ASw="}) + b"null\n")
    code, said = run([command, str(path)])
    assert code == 2
    assert "id and picture" in said.splitlines()[0]
    assert "event log" not in said.splitlines()[0]


def coded(text: str | None) -> str | None:
    return None if text is None else base64.b64encode(text.encode()).decode()


ROWS = list(enumerate((*TEXTS, None)))
NAMED = [
    {"topic": "shop.fruit", "partition": 2, "offset": at, "timestamp": 1700000000123, "timestampType": "CREATE_TIME",
     "key": coded(KEY), "value": coded(value), "headers": [{"from": [101, 117]}]}
    for at, value in ROWS
]  # fmt: skip
EVENTS: dict[str, Any] = {
    "AWS Lambda": {"eventSource": "aws:kafka", "records": {"shop.fruit-2": NAMED[:2], "shop.fruit-0": NAMED[2:]}},
    "an export": {"cluster": "north", "messages": NAMED},
}  # fmt: skip
"""Four messages as programs list them."""


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("name", EVENTS)
def test_messages_that_a_program_lists_are_read(tmp_path: Path, name: str, indent: int | None) -> None:
    rows = recognised(tmp_path, json.dumps(EVENTS[name], indent=indent).encode() + b"\n")
    assert [row["operation"] for row in rows] == [*OPERATIONS, None]
    assert [kafka(row, "offset") for row in rows] == [("0",), ("1",), ("2",), ("3",)]
    assert kafka(rows[0], "timestamp") == ("2023-11-14T22:13:20.123Z",)
    assert sum(row["length"] for row in rows) == (tmp_path / "messages.txt").stat().st_size
    assert is_complete(rows)
    assert kafka(rows[3], "header.from") == ("eu",)
    at = rows[1]["offset"] + 5
    assert inspect(tmp_path / "messages.txt", at).event["operation"] == "UPDATE"


def test_several_events_of_a_function_one_a_line_are_read(tmp_path: Path) -> None:
    rows = recognised(tmp_path, *(line({"records": {"shop.fruit-2": [one]}}) for one in NAMED))
    assert is_complete(rows)


def test_objects_as_python_prints_them_are_read(tmp_path: Path) -> None:
    rows = recognised(
        tmp_path, *(f"{one!r}\n".encode() for one in (INSERT | {"note": 'l\'\u00e9t\u00e9 "x"'}, *CHANGES[1:]))
    )
    assert [row["operation"] for row in rows] == OPERATIONS
    assert rows[0]["headers"]["note"] == 'l\'\u00e9t\u00e9 "x"'
    (note,) = plan_of(tmp_path / "messages.txt", "debezium").notes
    assert (note["severity"], note["code"]) == ("warning", "json_syntax")
    assert note["sentence"].startswith("not JSON but objects as Python prints them")


@pytest.mark.parametrize(
    ("source", "table", "position", "transaction"),
    [
        (
            {"connector": "informix", "db": "shop", "schema": "ops", "table": "fruit", "commit_lsn": "21482163224",
             "change_lsn": "21482163200", "txId": "37", "begin_lsn": "21482163100"},
            ("ops", "fruit"), "00000000021482163224/00000000021482163200", "37",
        ),
        (
            {"connector": "cassandra", "cluster": "c", "keyspace": "shop", "table": "fruit", "pos": 54,
             "file": "CommitLog-7-1552331034543.log"},
            ("shop", "fruit"), "0000001552331034543/0000000000000000054", None,
        ),
        (
            {"connector": "spanner", "database_id": "shop", "table": "fruit", "server_transaction_id": "MTc2"},
            (None, "fruit"), None, "MTc2",
        ),
        (
            {"origin": "cockroachdb", "database_name": "shop", "schema_name": "public", "table_name": "fruit",
             "ts_hlc": "1745527444910044000.0000000003", "ts_ns": 1745527444910044000},
            ("public", "fruit"), "01745527444910044000.0000000003", None,
        ),
    ],
)  # fmt: skip
def test_other_connectors_have_tables_positions_and_transactions_of_their_own(
    tmp_path: Path, source: Row, table: tuple[str, str], position: str, transaction: str
) -> None:
    (row,) = recognised(tmp_path, line({"before": None, "after": {"id": 7}, "op": "c", "source": source}))
    assert (row["schema_name"], row["table_name"]) == table
    assert (row["position"], row["transaction_id"]) == (position, transaction)
    assert not row["problems"]


def test_the_format_of_the_manual_of_kcat_is_read(tmp_path: Path) -> None:
    lines = [
        f"Topic shop.fruit[2], offset: {at}, key: {KEY}, payload: {len(value) if value else -1} bytes: {value or ''}\n"
        for at, value in ROWS
    ]
    rows = recognised(tmp_path, *map(str.encode, lines))
    assert is_complete(rows)
    assert kafka(rows[3], "topic", "partition", "offset") == ("shop.fruit", "2", "3")


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_a_negative_zero_stays_as_it_is_written(tmp_path: Path, is_wrapped: bool) -> None:
    message = change("c", None, {"id": 7, "a": "?", "b": "x-0", "c": ["?"], "d": "\ud800x"})
    text = json.dumps({"schema": {"type": "struct"}, "payload": message} if is_wrapped else message)
    (row,) = recognised(tmp_path, text.replace('"?"', "-0").encode() + b"\n")
    assert row["after"] == {"id": "7", "a": "-0", "b": "x-0", "c": "[-0]", "d": "?x"}


def test_types_in_avro_have_what_kafka_connect_added() -> None:
    fields = {
        "a": ["null", {"type": "array", "items": {"type": "int", "connect.name": "io.debezium.time.Date"}}],
        "m": {"type": "map", "values": "long"},
        "r": ["null", {"type": "record", "name": "S", "fields": [{"name": "x", "type": "int"}]}],
        "d": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
        "u": ["int", "string"],
    }
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in fields.items()]})
    found = Schemas().of_avro(text)
    assert not isinstance(found, str)
    kind, decoder = found
    assert [one.kind for one in kind.fields.values()] == ["array", "map", "struct", "bytes", "union"]
    assert [one.optional for one in kind.fields.values()] == [True, False, True, False, False]
    items, decimal = kind.fields["a"].item, kind.fields["d"]
    assert items is not None
    assert (items.kind, items.name) == ("int32", "io.debezium.time.Date")
    assert (decimal.name, decimal.parameters) == (
        "org.apache.kafka.connect.data.Decimal",
        {"scale": "2", "precision": "5"},
    )
    value = bytes.fromhex("02" + "04020600" + "02026b0e00" + "00" + "0401f4" + "000a")
    decoded = decoder.decode(pa.array([value]))
    assert decoded.rows() == [{"a": [1, 3], "m": {"k": 7}, "r": None, "d": b"\x01\xf4", "u": 5}], decoded.reason(0)
