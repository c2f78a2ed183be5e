"""Debezium's messages, made by hand: what each becomes (docs/formats/debezium.md)."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cdcwb.errors import CaptureError, UnknownFormatError
from cdcwb.formats import get_format, identify, inspect
from cdcwb.formats.dissector import TableRequest
from cdcwb.model import Operation
from tests.debezium import POSTGRESQL, SOURCES, change, connect, events, line, one, struct, wrapped
from tests.local import plan_of

BEFORE, AFTER = {"id": 1, "state": "new"}, {"id": 1, "state": "paid"}
UPDATE = change("u", BEFORE, AFTER)
CONSUMER = b"CreateTime:1700000000123\tPartition:2\tOffset:7\t"


def codes(event: dict[str, Any]) -> list[str]:
    return [problem["code"] for problem in event["problems"] or ()]


def versions(path: Path, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        get_format("debezium").table_versions(plan_of(path, "debezium", **options)).to_pylist()
    )
    return found


def detected(path: Path, **options: Any) -> dict[str, dict[str, Any]]:
    return {row["setting"]: row for row in plan_of(path, "debezium", **options).detected}


# --- containers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", [b"", CONSUMER, b"CreateTime:1\tNO_HEADERS\t", b"CreateTime:1\ta:b,c:d\t"])
@pytest.mark.parametrize("value", [UPDATE, {"schema": struct(op=connect("string")), "payload": UPDATE}])
@pytest.mark.parametrize("key", [{"id": 1}, {"schema": struct(id=connect("int32")), "payload": {"id": 1}}])
def test_lines_of_a_console_consumer_have_their_key_and_facts(
    tmp_path: Path, prefix: bytes, value: Any, key: Any
) -> None:
    found = events(tmp_path, *[prefix + line(value, key)] * 3, prefix + line(None, key))
    assert [row["kind"] for row in found] == ["change", "change", "change", "tombstone"]
    assert {row["key"]["id"] for row in found} == {"1"}
    assert found[0]["after"] == {"id": "1", "state": "paid"}
    assert ("kafka.offset" in found[0]["headers"]) == (prefix == CONSUMER)


def test_a_dump_of_kcat_has_topic_and_offset(tmp_path: Path) -> None:
    record = {
        "topic": "shop.public.orders",
        "partition": 0,
        "offset": 7,
        "key": '{"id":1}',
        "payload": json.dumps(UPDATE),
    }
    row = one(tmp_path, record)
    assert (row["key"], row["headers"]["kafka.topic"], row["headers"]["kafka.offset"]) == (
        {"id": "1"},
        "shop.public.orders",
        "7",
    )


@pytest.mark.parametrize("payload", [None, {"schema": None, "payload": None}])
def test_a_null_value_is_a_tombstone_also_within_its_schema(tmp_path: Path, payload: Any) -> None:
    rows = events(tmp_path, line(UPDATE, {"id": 1}), line(payload, {"id": 1}))
    assert [row["kind"] for row in rows] == ["change", "tombstone"]
    assert rows[1]["key"] == {"id": "1"}


@pytest.mark.parametrize("time", ["2023-11-14T22:13:20Z", 1.5, -1])
def test_a_time_that_is_no_number_of_a_time_is_a_problem(tmp_path: Path, time: Any) -> None:
    source = {name: value for name, value in UPDATE["source"].items() if not name.startswith("ts_")}
    row = one(tmp_path, UPDATE | {"source": source | {"ts_ms": time}})
    sentence = f"ts_ms: expected a time of the years 1970 to 9999, found {time}"
    assert (row["changed_at"], row["problems"]) == (None, [{"code": "time_range", "detail": sentence}])


# --- changes ----------------------------------------------------------------------------------------------------------


def test_a_change_has_its_images_headers_time_and_transaction(tmp_path: Path) -> None:
    row = one(tmp_path, UPDATE | {"transaction": {"id": "571:24023128", "total_order": 3, "data_collection_order": 2}})
    assert (row["record_type"], row["kind"], row["operation"]) == ("u", "change", "UPDATE")
    assert (row["before"], row["after"]) == ({"id": "1", "state": "new"}, {"id": "1", "state": "paid"})
    assert (row["schema_name"], row["table_name"], row["table_version"]) == ("public", "orders", "public.orders@1")
    assert row["changed_at"] == datetime(2023, 11, 14, 22, 13, 20, 123456, UTC)
    assert (row["transaction_id"], row["event_no"]) == ("571", 3)
    assert row["headers"]["source.lsn"] == "24023128"
    assert row["headers"]["transaction.total_order"] == "3"
    assert row["headers"]["ts_ms"] == "1700000000999"
    assert row["problems"] is None


@pytest.mark.parametrize(
    ("op", "operation"), [("c", "INSERT"), ("u", "UPDATE"), ("d", "DELETE"), ("r", "REFRESH"), ("t", "TRUNCATE")]
)
def test_every_op_has_its_operation(tmp_path: Path, op: str, operation: str) -> None:
    row = one(tmp_path, change(op))
    assert (row["kind"], row["operation"]) == ("change", Operation(operation))


def test_a_snapshot_read_is_part_of_no_transaction_and_has_no_position(tmp_path: Path) -> None:
    row = one(tmp_path, change("r", None, AFTER))
    assert (row["operation"], row["transaction_id"], row["position"]) == ("REFRESH", None, None)
    assert row["after"] == {"id": "1", "state": "paid"}


def test_a_message_event_is_no_change(tmp_path: Path) -> None:
    row = one(tmp_path, change("m", message={"prefix": "audit", "content": "aGk="}))
    assert (row["kind"], row["operation"], row["table_name"]) == ("control", None, None)
    assert row["headers"]["message.prefix"] == "audit"


def test_an_unknown_op_is_named(tmp_path: Path) -> None:
    row = one(tmp_path, change("x", None, AFTER))
    assert (row["operation"], codes(row)) == ("UNKNOWN(x)", ["value"])


@pytest.mark.parametrize(
    ("connector", "position", "transaction"),
    [
        ("postgresql", "00000000016E9058", "571"),
        ("mysql", "0000000003/0000000000000000484/0000000002", None),
        ("sqlserver", "00000027:00000758:0005/00000027:00000758:0003/0000000002", "00000027:00000758:0005"),
        ("oracle", "00000000000001273961/00000000000001273960", "07000d005a030000"),
        ("mongodb", "1700000000/0000000031", None),
        ("vitess", None, None),
    ],
)
def test_the_position_of_each_connector(
    tmp_path: Path, connector: str, position: str | None, transaction: str | None
) -> None:
    source = SOURCES.get(connector, {"connector": connector, "table": "orders"})
    row = one(tmp_path, change("c", None, AFTER, source))
    assert (row["position"], row["transaction_id"]) == (position, transaction)


@pytest.mark.parametrize(
    ("connector", "earlier", "later"),
    [
        ("postgresql", {"lsn": 9}, {"lsn": 10}),
        ("postgresql", {"lsn": 0xFFFFFFFF}, {"lsn": 0x100000000}),
        ("mysql", {"file": "bin.999999"}, {"file": "bin.1000000", "pos": 4}),
        ("mysql", {"pos": 99}, {"pos": 100}),
        ("mysql", {"row": 9}, {"row": 10}),
        ("sqlserver", {"event_serial_no": 9}, {"event_serial_no": 10}),
        ("sqlserver", {"change_lsn": "00000027:00000758:0009"}, {"change_lsn": "00000027:00000758:000a"}),
        ("oracle", {"commit_scn": "999"}, {"commit_scn": "1000", "scn": "2"}),
        ("oracle", {"scn": "99"}, {"scn": "100"}),
        ("mongodb", {"ord": 9}, {"ord": 10}),
    ],
)
def test_text_order_of_positions_is_log_order(
    tmp_path: Path, connector: str, earlier: dict[str, Any], later: dict[str, Any]
) -> None:
    messages = [line(change("c", None, AFTER, SOURCES[connector] | fields)) for fields in (earlier, later)]
    first, second = (row["position"] for row in events(tmp_path, *messages))
    assert first < second


def test_a_value_that_the_log_lacks_is_a_missing_key(tmp_path: Path) -> None:
    gone, raw = "__debezium_unavailable_value", base64.b64encode(b"__debezium_unavailable_value").decode()
    before = {"id": 1, "note": "a", "scan": "AA=="}
    row = one(tmp_path, change("u", before, {"id": 1, "note": gone, "scan": raw}))
    assert row["after"] == {"id": "1"}
    assert row["present_columns"] == ["id"]
    assert "1 event" in detected(tmp_path / "messages.txt")["unavailable"]["evidence"]


def test_the_placeholder_may_be_another(tmp_path: Path) -> None:
    row = one(tmp_path, change("c", None, {"id": 1, "note": "n/a"}), unavailable="n/a")
    assert row["after"] == {"id": "1"}


def test_documents_of_mongodb_are_rows(tmp_path: Path) -> None:
    described = {"removedFields": ["old"], "updatedFields": '{"state": "paid", "meta.tx": 25}', "truncatedArrays": None}
    after = '{"_id": {"$oid": "67f4675b8126ee23e2e79ec1"}, "state": "paid", "total": 12.50}'
    message = change("u", None, after, SOURCES["mongodb"], updateDescription=described)
    row = one(tmp_path, message, {"id": '{"$oid": "67f4675b8126ee23e2e79ec1"}'})
    assert row["after"] == {"_id": '{"$oid":"67f4675b8126ee23e2e79ec1"}', "state": "paid", "total": "12.50"}
    assert row["key"] == {"_id": row["after"]["_id"]}
    assert row["changed_columns"] == ["state", "meta", "old"]


@pytest.mark.parametrize(
    ("patch", "after", "changed"),
    [
        (
            '{"$v": 1, "$set": {"state": "paid", "meta.tx": 25}, "$unset": {"old": true}}',
            {"state": "paid"},
            ["state", "meta", "old"],
        ),
        ('{"_id": 7, "state": "paid"}', {"_id": "7", "state": "paid"}, None),
    ],
)
def test_updates_of_mongodb_before_2_0_are_patches(
    tmp_path: Path, patch: str, after: dict[str, str], changed: list[str] | None
) -> None:
    row = one(tmp_path, change("u", None, None, SOURCES["mongodb"], patch=patch, filter='{"_id": 7}'))
    assert (row["after"], row["changed_columns"], row["key"]) == (after, changed, {"_id": "7"})
    assert row["headers"]["patch"] == patch


@pytest.mark.parametrize(
    ("fields", "name"),
    [({"after": '{"n": NaN}'}, "after"), ({"updateDescription": {"updatedFields": '{"n": NaN}'}}, "updatedFields")],
)
def test_a_document_that_cannot_be_read_is_a_problem(tmp_path: Path, fields: dict[str, Any], name: str) -> None:
    row = one(tmp_path, change("u", None, None, SOURCES["mongodb"]) | fields)
    assert row["problems"] == [{"code": "value", "detail": f"{name}: expected an object, found '{{\"n\": NaN}}'"}]


# --- values -----------------------------------------------------------------------------------------------------------

_TIME, _DATA = "io.debezium.time", "org.apache.kafka.connect.data"


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (connect("int32", f"{_TIME}.Date"), 19700, "2023-12-09"),
        (connect("int32", f"{_TIME}.Date"), -1, "1969-12-31"),
        (connect("int32", f"{_DATA}.Date"), 0, "1970-01-01"),
        (connect("int32", f"{_TIME}.Time"), 45_296_789, "12:34:56.789"),
        (connect("int64", f"{_TIME}.MicroTime"), 45_296_789_001, "12:34:56.789001"),
        (connect("int64", f"{_TIME}.MicroTime"), -3_020_399_000_000, "-838:59:59.000000"),
        (connect("int64", f"{_TIME}.NanoTime"), 1, "00:00:00.000000001"),
        (connect("int64", f"{_TIME}.Timestamp"), 1_700_000_000_123, "2023-11-14T22:13:20.123"),
        (connect("int64", f"{_TIME}.MicroTimestamp"), -1, "1969-12-31T23:59:59.999999"),
        (connect("int64", f"{_TIME}.NanoTimestamp"), 1_700_000_000_123_456_789, "2023-11-14T22:13:20.123456789"),
        (connect("string", f"{_TIME}.ZonedTimestamp"), "2024-01-02T03:04:05.1Z", "2024-01-02T03:04:05.1Z"),
        (connect("int32", f"{_TIME}.Year"), 2024, "2024"),
        (connect("bytes", f"{_DATA}.Decimal", parameters={"scale": "2"}), "AN3O", "567.82"),
        (connect("bytes", f"{_DATA}.Decimal", parameters={"scale": "0"}), "/w==", "-1"),
        (connect("bytes", f"{_DATA}.Decimal", parameters={"scale": "-2"}), "BQ==", "500"),
        (connect("bytes", f"{_DATA}.Decimal", parameters={"scale": "8"}), "AQ==", "0.00000001"),
        (struct("io.debezium.data.VariableScaleDecimal"), {"scale": 1, "value": "fw=="}, "12.7"),
        (connect("bytes"), "3q2+7w==", "deadbeef"),
        (connect("boolean"), True, "true"),
        (connect("double"), 0.1, "0.1"),
        (connect("int64"), 9223372036854775807, "9223372036854775807"),
        (connect("string", "io.debezium.data.Json"), '{"a": 1.50}', '{"a": 1.50}'),
        (connect("string", "io.debezium.data.Enum"), "paid", "paid"),
        (struct("io.debezium.data.geometry.Point"), {"x": 1.50, "y": 2.0, "wkb": "AQ==", "srid": None},
         '{"x":1.5,"y":2.0,"wkb":"AQ==","srid":null}'),
        (connect("array", items=connect("int32")), [1, 2], "[1,2]"),
        (connect("string"), None, None),
    ],
)  # fmt: skip
def test_values_with_a_schema_are_text_that_loses_nothing(
    tmp_path: Path, kind: dict[str, Any], value: Any, text: str | None
) -> None:
    row = one(tmp_path, wrapped(change("c", None, {"id": 1, "v": value}), id=connect("int32"), v=kind))
    assert row["after"]["v"] == text
    assert row["problems"] is None


@pytest.mark.parametrize(
    ("kind", "value", "code"),
    [
        (connect("int64", f"{_TIME}.MicroTimestamp"), 9223372036825200000, "time_range"),
        (connect("bytes", f"{_DATA}.Decimal", parameters={"scale": "2"}), "no base64", "value"),
        (connect("bytes", f"{_DATA}.Decimal", parameters={"scale": "2"}), "", "value"),
        (connect("bytes"), "?", "value"),
    ],
)
def test_what_is_no_value_of_its_type_stays_and_is_a_problem(
    tmp_path: Path, kind: dict[str, Any], value: Any, code: str
) -> None:
    row = one(tmp_path, wrapped(change("c", None, {"v": value}), v=kind))
    assert (row["after"]["v"], codes(row)) == (str(value), [code])
    assert row["problems"][0]["detail"].startswith("after.v: expected")


def test_without_a_schema_values_stay_as_they_are_and_that_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "messages.txt"
    path.write_bytes(
        b'{"before":null,"after":{"day":19700,"sum":12.50,"big":1e400},"source":{"connector":"mysql","db":"s",'
    )
    path.write_bytes(path.read_bytes() + b'"table":"t"},"op":"c","ts_ms":1}\n')
    (row,) = events(tmp_path, path.read_bytes())
    assert row["after"] == {"day": "19700", "sum": "12.50", "big": "1e400"}
    assert detected(path)["schema"]["value"] == "none"
    assert "dates, times and decimals are as in the message" in detected(path)["schema"]["evidence"]


def test_a_message_whose_schema_is_not_utf8_is_malformed(tmp_path: Path) -> None:
    message = line(wrapped(change("c", None, {"v": "x"}), v={"type": "string", "doc": "caf?"}))
    valid, damaged = events(tmp_path, message, message.replace(b"caf?", b"caf\x80"))
    assert (valid["kind"], damaged["kind"], damaged["raw"]) == (
        "change",
        "malformed",
        message.replace(b"caf?", b"caf\x80").strip(),
    )
    assert "the schema is not UTF-8: invalid start byte" in damaged["problems"][0]["detail"]


def test_a_number_of_too_many_digits_is_a_problem_of_its_message(tmp_path: Path) -> None:
    message, digits = line(wrapped(change("c", None, {"v": 1}), v=connect("int32", size=7))), b"1" * 5000
    in_schema, in_row = (
        message.replace(b'"size": 7', b'"size": ' + digits),
        message.replace(b'"v": 1', b'"v": ' + digits),
    )
    assert len({message, in_schema, in_row}) == 3
    assert [row["kind"] for row in events(tmp_path, message, in_schema, in_row)] == ["change", "malformed", "malformed"]


@pytest.mark.parametrize(
    ("value", "text"), [(1.50, "1.5"), (True, "true"), ([1, "a"], '[1,"a"]'), ({"a": 2}, '{"a":2}')]
)
def test_names_that_are_not_text_are_as_in_the_message(tmp_path: Path, value: Any, text: str) -> None:
    row = one(tmp_path, change("c", None, AFTER, POSTGRESQL | {"schema": value, "table": value, "connector": value}))
    assert (row["schema_name"], row["table_name"], row["table_version"]) == (text, text, f"{text}.{text}@1")
    assert detected(tmp_path / "messages.txt")["connector"]["value"] == text


def test_a_truth_value_is_not_a_date(tmp_path: Path) -> None:
    assert one(tmp_path, wrapped(change("c", None, {"v": False}), v=connect("int32", f"{_TIME}.Date")))["after"] == {
        "v": "false"
    }


# --- other topics -----------------------------------------------------------------------------------------------------


def test_the_transaction_topic_begins_and_ends_transactions(tmp_path: Path) -> None:
    begin = {
        "status": "BEGIN",
        "id": "571:24023100",
        "ts_ms": 1700000000000,
        "event_count": None,
        "data_collections": None,
    }
    end = begin | {"status": "END", "id": "571:24023200", "event_count": 2}
    rows = events(tmp_path, line(begin), line(UPDATE), line(end))
    assert [row["kind"] for row in rows] == ["begin", "change", "commit"]
    assert {row["transaction_id"] for row in rows} == {"571"}
    assert [(row["event_no"], row["last_in_transaction"]) for row in rows] == [(0, False), (None, None), (3, True)]
    assert rows[0]["position"] < rows[1]["position"] < rows[2]["position"] == rows[2]["commit_position"]


def test_the_id_of_a_transaction_of_another_connector_is_whole(tmp_path: Path) -> None:
    rows = events(
        tmp_path,
        line({"status": "END", "id": "00000025:00000d08:0025", "event_count": 1, "data_collections": []}),
        line({"status": "BEGIN", "id": "3e11fa47-71ca-11e1-9e33-c80aa9429562:23", "event_count": None}),
    )
    assert [row["transaction_id"] for row in rows] == [
        "00000025:00000d08:0025",
        "3e11fa47-71ca-11e1-9e33-c80aa9429562:23",
    ]


def test_a_heartbeat_is_one(tmp_path: Path) -> None:
    row = one(tmp_path, {"ts_ms": 1700000000000}, {"serverName": "shop"})
    assert (row["kind"], row["record_type"]) == ("heartbeat", "heartbeat")
    assert row["changed_at"] == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def column(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "typeName": kind,
        "typeExpression": kind,
        "length": None,
        "scale": None,
        "optional": True,
    } | more


def schema_change(ddl: str, *columns: dict[str, Any]) -> dict[str, Any]:
    table = {"defaultCharsetName": "utf8", "primaryKeyColumnNames": ["id"], "columns": list(columns)}
    changes = [{"type": "ALTER", "id": '"shop"."orders"', "table": table}]
    source = SOURCES["mysql"] | {"pos": 100, "row": 0}
    return {
        "source": source,
        "ts_ms": 1,
        "databaseName": "shop",
        "schemaName": None,
        "ddl": ddl,
        "tableChanges": changes,
    }


def test_a_schema_change_is_ddl_and_a_table_version(tmp_path: Path) -> None:
    ddl = schema_change(
        "ALTER TABLE orders …", column("id", "INT", optional=False), column("state", "VARCHAR", length=8)
    )
    rows = events(tmp_path, line(ddl), line(change("c", None, AFTER, SOURCES["mysql"])))
    assert (rows[0]["kind"], rows[0]["operation"], rows[0]["headers"]["statement"]) == (
        "schema",
        "DDL",
        "ALTER TABLE orders …",
    )
    assert {row["table_version"] for row in rows} == {"shop.orders@1"}
    assert rows[0]["changed_at"] == rows[1]["changed_at"]  # that of source, not that of the message
    (version,) = versions(tmp_path / "messages.txt")
    assert version["origin"] == "DDL"
    assert [(one["name"], one["type"], one["length"], one["key_position"]) for one in version["columns"]] == [
        ("id", "INT", None, 1),
        ("state", "VARCHAR", 8, None),
    ]


def test_a_schema_change_completes_the_versions_of_messages_with_a_schema(tmp_path: Path) -> None:
    ddl = schema_change("CREATE …", column("id", "INT"), column("state", "VARCHAR", length=8))
    message = wrapped(change("c", None, AFTER, SOURCES["mysql"]), id=connect("int32"), state=connect("string"))
    rows = events(tmp_path, line(ddl), line(message))
    (version,) = versions(tmp_path / "messages.txt")
    assert {row["table_version"] for row in rows} == {version["table_version"]}
    assert version["origin"] == "record"
    assert [(one["type"], one["length"], one["key_position"]) for one in version["columns"]] == [
        ("int32", None, 1),
        ("string", 8, None),
    ]


# --- versions and typed tables ----------------------------------------------------------------------------------------


def test_other_columns_are_another_version(tmp_path: Path) -> None:
    rows = events(
        tmp_path,
        line(change("c", None, {"id": 1}), {"id": 1}),
        line(change("c", None, {"id": 2, "note": None}), {"id": 2}),
        line(change("d", {"id": 1}, None), {"id": 1}),
    )
    assert [row["table_version"] for row in rows] == ["public.orders@1", "public.orders@2", "public.orders@1"]
    first, second = versions(tmp_path / "messages.txt")
    assert [one["name"] for one in second["columns"]] == ["id", "note"]
    assert [one["key_position"] for one in first["columns"]] == [1]


def test_a_table_has_typed_columns(tmp_path: Path) -> None:
    kinds = {
        "id": connect("int32", optional=False),
        "day": connect("int32", f"{_TIME}.Date"),
        "sum": connect("bytes", f"{_DATA}.Decimal", parameters={"scale": "2", "connect.decimal.precision": "10"}),
        "at": connect("int64", f"{_TIME}.MicroTimestamp"),
    }
    after = {"id": 1, "day": 19700, "sum": "AN3O", "at": 1_700_000_000_123_456}
    events(tmp_path, line(wrapped(change("c", None, after), **kinds)))
    form, plan = get_format("debezium"), plan_of(tmp_path / "messages.txt", "debezium")
    request = TableRequest("public.orders", images="after")
    (batch,) = form.read_table(plan, 0, request)
    assert batch.schema == form.table_schema(plan, request)
    assert [str(one.type) for one in batch.schema.field("after").type] == [
        "int32",
        "date32[day]",
        "decimal128(10, 2)",
        "timestamp[us]",
    ]
    row = batch.column("after")[0].as_py()
    assert (row["id"], str(row["day"]), str(row["sum"])) == (1, "2023-12-09", "567.82")
    with pytest.raises(CaptureError, match=r"no table 'order'.*There are: public.orders"):
        form.table_schema(plan, TableRequest("order"))


# --- damage -----------------------------------------------------------------------------------------------------------


def test_damage_keeps_its_bytes_and_the_rest_is_read(tmp_path: Path) -> None:
    good = line(UPDATE)
    rows = events(tmp_path, good, b"Processed a total of 3 messages\n", good[:200] + b"\n", b'{"op": nonsense}\n', good)
    assert [row["kind"] for row in rows] == ["change", "filler", "malformed", "malformed", "change"]
    assert codes(rows[2]) == ["truncated"]


def test_modes_keep_drop_or_stop_at_damage(tmp_path: Path) -> None:
    events(tmp_path, line(UPDATE), line({"id": 1}))
    path = tmp_path / "messages.txt"
    with pytest.raises(CaptureError, match="expected Debezium's envelope"):
        plan_of(path, "debezium", mode="FAILFAST")


# --- recognition and inspection ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("message", [UPDATE, wrapped(UPDATE, id=connect("int32"), state=connect("string"))])
def test_a_capture_is_recognised_with_evidence(tmp_path: Path, message: Any) -> None:
    events(tmp_path, *[line(message, {"id": 1})] * 2)
    found = identify(tmp_path / "messages.txt")
    assert (found.format, found.confidence) == ("debezium", 0.98)
    assert any("2 of the first 2 messages are Debezium's" in text for text in found.evidence)


@pytest.mark.parametrize("name", ["qlik-kafka", "goldengate", "idm-event-log", "gbase8s", "qlik-change-table"])
def test_captures_of_other_formats_are_not_debezium(name: str) -> None:
    folder = Path(__file__).parents[2] / "data" / name
    assert identify(folder).format == name
    with pytest.raises(UnknownFormatError):
        identify(folder, "debezium")


def test_other_formats_do_not_read_debezium(tmp_path: Path) -> None:
    events(tmp_path, line(UPDATE))
    for name in ("qlik-kafka", "goldengate", "gbase8s"):
        with pytest.raises(UnknownFormatError):
            identify(tmp_path / "messages.txt", name)


@pytest.mark.parametrize("message", [UPDATE, wrapped(UPDATE, id=connect("int32"), state=connect("string"))])
def test_every_byte_of_a_message_is_in_one_leaf(tmp_path: Path, message: Any) -> None:
    events(tmp_path, line(message))
    found = inspect(tmp_path / "messages.txt", 5)
    at = 0
    for field in found.field.walk():
        if not field.children:
            assert field.offset == at, field.name
            assert field.raw == found.record[at : at + field.length]
            at += field.length
    assert at == len(found.record)
    named = {field.name: field.meaning for field in found.field.walk()}
    assert (named["lsn"], named["after"]) == ("log sequence number", "the after image")
    assert found.event["operation"] == "UPDATE"


def test_a_changed_column_shows_its_decoded_value(tmp_path: Path) -> None:
    message = wrapped(change("c", None, {"day": 19700}), day=connect("int32", f"{_TIME}.Date"))
    events(tmp_path, line(message))
    found = list(inspect(tmp_path / "messages.txt", 0).field.walk())
    fields = [field for field in found if field.name == "day"]
    assert [(field.value, field.meaning) for field in fields] == [("2023-12-09", "a column, stored as 19700")]
    assert all(field.quiet for field in found if field.value == "io.debezium.time.Date")  # the schema is in the way


def test_of_two_fields_with_one_name_the_last_counts(tmp_path: Path) -> None:
    (event,) = events(tmp_path, line(change("c", None, {"a": 2})).replace(b'{"a": 2}', b'{"a": 1, "a": 2}'))
    assert dict(event["after"]) == {"a": "2"}
    fields = [field for field in inspect(tmp_path / "messages.txt", 0).field.walk() if field.name == "a"]
    assert [(field.value, field.meaning) for field in fields] == [
        ("1", "a later field of this name is used"),
        ("2", "a column"),
    ]


def test_a_message_that_is_none_says_so_in_its_tree(tmp_path: Path) -> None:
    events(tmp_path, line(UPDATE), line({"id": 1}))
    found = inspect(tmp_path / "messages.txt", len(line(UPDATE)) + 2)
    assert found.field.problem == "malformed"
    assert "ExtractNewRecordState" in found.field.meaning


def test_the_plan_says_which_connector_it_read(tmp_path: Path) -> None:
    events(tmp_path, line(UPDATE))
    row = detected(tmp_path / "messages.txt")["connector"]
    assert (row["value"], row["evidence"]) == ("postgresql", "source of 1 change; position from lsn")
    assert POSTGRESQL["connector"] == row["value"]


# --- hostile messages -------------------------------------------------------------------------------------------------

ODD = [None, True, -1, 2**63, "", "\ud800", "9" * 5000, "x" * 300, [], [1], {}, {"a": [None]}, 1e300, "2024-01-01"]


def spoiled(value: Any, rng: Random, share: float) -> Any:
    """A message with some of its values replaced by others of any kind."""
    if rng.random() < share:
        return rng.choice(ODD)
    if isinstance(value, dict):
        return {name: spoiled(one, rng, share) for name, one in value.items() if rng.random() > share / 2}
    return [spoiled(one, rng, share) for one in value] if isinstance(value, list) else value


def test_no_message_stops_the_reader(tmp_path: Path) -> None:
    rng = Random(11)
    decimal = connect("bytes", f"{_DATA}.Decimal", parameters={"scale": "2", "connect.decimal.precision": "10"})
    described = {"removedFields": ["a"], "updatedFields": '{"b": 1}'}
    messages = [
        wrapped(change("u", {"id": 1, "d": 1, "s": "AN3O"}, {"id": 1, "d": 2, "s": "AN3O"}, SOURCES["mysql"]),
                id=connect("int32"), d=connect("int32", f"{_TIME}.Date"), s=decimal),
        change("u", None, '{"_id": 1}', SOURCES["mongodb"], updateDescription=described),
        UPDATE | {"transaction": {"id": "571:24023128", "total_order": 3}},
        schema_change("ALTER …", column("id", "INT", length=3)),
        {"status": "END", "id": "571:24023200", "event_count": 2, "ts_ms": 1},
        {"ts_ms": 1},
    ]  # fmt: skip
    lines = [
        line(
            spoiled(rng.choice(messages), rng, 0.08),
            spoiled({"schema": struct(id=decimal), "payload": {"id": 1}}, rng, 0.1),
        )
        for _ in range(800)
    ]
    found = events(tmp_path, line(UPDATE, {"id": 1}), *lines, container="lines", separator="\t")
    assert {"change", "malformed", "tombstone", "schema"} <= {row["kind"] for row in found}
    versions(tmp_path / "messages.txt", container="lines", separator="\t")
    for row in found[:: len(found) // 6]:
        inspect(tmp_path / "messages.txt", row["offset"], container="lines", separator="\t")
