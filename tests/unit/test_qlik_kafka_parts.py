"""The parts of Qlik's messages one by one: documents, names, versions, times."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cdcwb.formats.json_values import as_text, parse_json
from cdcwb.formats.moments import moments
from cdcwb.formats.qlik_kafka.decode import read_document
from cdcwb.formats.qlik_kafka.decode.rows import Image, hex_text
from cdcwb.formats.qlik_kafka.versions import (
    PLACES,
    TableName,
    from_avro,
    from_metadata,
    from_namespace,
    name_of,
    split_name,
)
from cdcwb.formats.sequences import sequence_times


def micros(array: pa.Array) -> list[str | None]:
    return [None if one is None else one.isoformat() for one in array.to_pylist()]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"a": 1.10}', {"a": "1.10"}),
        (b'{"a": 1E5}', {"a": "1E5"}),
        (b'{"a": 123456789012345678901234567890}', {"a": 123456789012345678901234567890}),
        (b'\xef\xbb\xbf{"a": true}', {"a": True}),
        (b'{"a": "\\ud800"}', {"a": "?"}),
    ],
)
def test_numbers_keep_their_digits(text: bytes, value: object) -> None:
    assert parse_json(text) == value


NO_JSON = [b"", b"{", b'{"a": 1', b"nothing", b"[" * 100_000, b'{"a": "\\ud800", }', b"\xff\xfe"]


@pytest.mark.parametrize("text", NO_JSON)
def test_what_is_no_json_says_so(text: bytes) -> None:
    with pytest.raises(ValueError, match="JSON"):
        parse_json(text)


def test_values_as_text() -> None:
    assert [as_text(value) for value in (None, "x", True, False, 12, [1, {"a": "1.10"}])] == [
        None,
        "x",
        "true",
        "false",
        "12",
        '[1,{"a":"1.10"}]',
    ]


HEADERS = {"operation": "INSERT", "changeSequence": "20230321213416580000000000000000017"}


def test_an_enveloped_data_message() -> None:
    one = read_document(
        {"magic": "atMSG", "type": "DT", "headers": {"a": "b"}, "messageSchemaId": "AB", "messageSchema": None,
         "message": {"data": {"id": 1}, "beforeData": None, "headers": HEADERS, "table": "T"}}
    )  # fmt: skip
    assert (one.record_type, one.schema_id, one.data, one.before, one.headers) == ("DT", "AB", {"id": 1}, None, HEADERS)
    assert one.outer == {"magic": "atMSG", "type": "DT", "messageSchemaId": "AB", "envelope.a": "b", "table": "T"}


def test_a_message_that_connect_wrapped_with_its_schema() -> None:
    inner = {"data": {"id": 1}, "headers": HEADERS}
    assert read_document({"schema": {"type": "struct"}, "payload": inner}).record_type == "DataRecord"


def test_the_legacy_form() -> None:
    one = read_document(
        {"task_name": "t", "schema": "S", "table": "C", "op": "U", "change_seq": "1", "ts": "2", "stream_position": "3",
         "data": [{"a": "1"}, {"b": "NULL"}], "bu_data": [{"a": "0"}, {"b": "x"}]}
    )  # fmt: skip
    assert one.record_type == "U"
    assert one.headers == {"operation": "UPDATE", "changeSequence": "1", "streamPosition": "3", "timestamp": "2"}
    assert one.data == {"a": "1", "b": None}
    assert one.before == {"a": "0", "b": "x"}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([], "expected a JSON object, found list"),
        ({"a": 1}, "its keys are a"),
        ({"magic": "atMSG", "type": "XX", "message": {}}, "expected the message type DT or MD, found 'XX'"),
        ({"magic": "atMSG", "type": "DT", "message": None}, "message as an object, found NoneType"),
        ({"magic": "atMSG", "type": "DT", "message": {"data": {}, "headers": 1}}, "headers as an object, found int"),
        ({"data": 1, "headers": {}}, "expected data as an object or null, found int"),
    ],
)
def test_what_is_no_message_of_qliks_says_what_was_expected(document: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_document(document)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("employees.salaries", ("employees", "salaries")),
        ("prod.HR.EMP", ("HR", "EMP")),
        ("EMP", (None, "EMP")),
        ("14", (None, None)),
        ("a b", (None, None)),
        (None, (None, None)),
    ],
)
def test_names_with_and_without_a_schema(name: str | None, parts: tuple[str | None, str | None]) -> None:
    assert split_name(name) == parts


def test_the_first_place_that_has_a_name_is_named() -> None:
    facts = {"topic": "hr.emp", "header.table": "H"}
    assert name_of({"table": "M", "schema": "S"}, {}, {}, facts, None, PLACES) == TableName("S", "M", "message")
    assert name_of({}, {"table": "X"}, {}, facts, None, PLACES) == TableName(None, "X", "headers")
    assert name_of({}, {}, {"__table": "C"}, {}, None, PLACES) == TableName(None, "C", "column")
    assert name_of({}, {}, {}, {"topic": "hr.emp"}, b"k", PLACES) == TableName("hr", "emp", "topic")
    assert name_of({}, {}, {}, {}, b'"hr.emp"', PLACES) == TableName("hr", "emp", "key")
    assert name_of({}, {}, {}, {}, b"emp", PLACES).table is None, "a lone word is rather the key of a row"
    assert name_of({}, {}, {}, {}, b"emp", ("key",), False) == TableName(None, "emp", "key")
    assert name_of({}, {}, {}, {}, b"\xff", PLACES).label == "unnamed"


def test_a_namespace_names_the_table_even_with_a_hyphen() -> None:
    assert from_namespace("com.attunity.queue.msg.chips-qa.TSTDTA.CINMAD") == ("TSTDTA", "CINMAD", "namespace")
    assert from_namespace("com.attunity.queue.msg").table is None
    assert from_namespace(None).table is None


def metadata() -> dict[str, Any]:
    column = {"type": "STRING", "length": 10, "precision": 0, "scale": 0, "primaryKeyPosition": 0}
    return {
        "schemaId": "AB",
        "lineage": {"server": "s", "task": "t", "schema": "hr", "table": "emp", "tableVersion": 3, "timestamp": "x"},
        "tableStructure": {
            "tableColumns": {
                "name": {**column, "ordinal": 2, "nullable": True},
                "id": {**column, "ordinal": 1, "type": "INT4", "primaryKeyPosition": 1, "nullable": False},
                "pay": {**column, "ordinal": 4, "type": "NUMERIC", "length": 0, "precision": 10},
            }
        },
        "dataSchema": '{"type": "record"}',
    }


def test_every_field_of_a_metadata_message_becomes_the_version() -> None:
    version = from_metadata(metadata())
    assert (version.table_version, version.schema_name, version.table_name, version.text) == (
        "AB",
        "hr",
        "emp",
        '{"type": "record"}',
    )
    assert [tuple(column) for column in version.columns] == [
        (1, "id", "INT4", 10, None, None, 1, False),
        (2, "name", "STRING", 10, None, None, None, True),
        (4, "pay", "NUMERIC", None, 10, 0, None, None),
    ]
    assert version.lineage["tableVersion"] == "3"
    assert version.bits == ["id", "name", "", "pay"]
    assert version.key == ["id"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"schemaId": None}, "no schemaId"),
        ({"tableStructure": {}}, "expected tableStructure.tableColumns"),
        ({"tableStructure": {"tableColumns": {"a": {"ordinal": 0}}}}, "expected an ordinal from 1 on, found 0"),
        ({"tableStructure": {"tableColumns": {"a": {"ordinal": 1}, "b": {"ordinal": 1}}}}, "two columns have one"),
        ({"tableStructure": {"tableColumns": {"a": 1}}}, "expected its properties"),
    ],
)
def test_metadata_that_lacks_something_says_what(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        from_metadata({**metadata(), **change})


def test_an_avro_schema_gives_names_and_types() -> None:
    fields = [
        {"name": "id", "type": "int"},
        {"name": "pay", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
        {"name": "note", "type": [{"type": "null"}, {"type": "string"}]},
    ]
    schema = {"type": "record", "name": "DataRecord", "namespace": "com.attunity.queue.msg.task.hr.emp",
              "fields": [{"name": "data", "type": {"type": "record", "name": "Data", "fields": fields}}]}  # fmt: skip
    version = from_avro(json.dumps(schema), "17", "registry")
    assert (version.schema_name, version.table_name) == ("hr", "emp")
    assert [tuple(column) for column in version.columns] == [
        (1, "id", "int", None, None, None, None, False),
        (2, "pay", "decimal", None, 9, 2, None, True),
        (3, "note", "string", None, None, None, None, True),
    ]


def test_change_sequences_are_taken_apart_without_a_number() -> None:
    texts = pa.array(["20230321213416580000000000000000017", None, "", "2023", "20231321213416580000000000000000017"])
    times, wrong = sequence_times(texts)
    assert micros(times) == ["2023-03-21T21:34:16.580000+00:00", None, None, None, None]
    assert wrong.tolist() == [False, False, True, True, True]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2023-03-21T21:34:19.511", "2023-03-21T21:34:19.511000+00:00"),
        ("2018-04-13 20:13:58", "2018-04-13T20:13:58+00:00"),
        ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00+00:00"),
        ("2020-01-01T00:00:00+02:00", "2019-12-31T22:00:00+00:00"),
        ("2021-12-01 11:20:30.4444444", "2021-12-01T11:20:30.444444+00:00"),
        ("", None),
        (None, None),
    ],
)
def test_times_with_any_digits_and_offsets(text: str | None, moment: str | None) -> None:
    times, failed = moments(pa.array([text], pa.string()))
    assert micros(times) == [moment]
    assert not failed.any()


def test_a_text_that_is_no_time_does_not_spoil_the_others() -> None:
    times, failed = moments(pa.array(["2023-02-30T00:00:00", "x", "2023-03-21T21:34:19.511"]))
    assert micros(times) == [None, None, "2023-03-21T21:34:19.511000+00:00"]
    assert failed.tolist() == [True, True, False]


def test_bytes_as_upper_case_digits() -> None:
    assert hex_text(pa.array([b"\x0b", None, b"", b"\x80\x80"])).to_pylist() == ["0B", None, "", "8080"]
    assert hex_text(pa.array([b"\x0b", b"\xff\x00"]).slice(1)).to_pylist() == ["FF00"]


def test_images_differ_by_value_and_null_equals_null() -> None:
    texts = pa.array(["a", None, "b", "c", None, "d"])
    other = pa.array(["a", None, "x", None, None, "d"])
    by_row, before = Image(["p", "q"], 3, texts=texts), Image(["p", "q"], 3, texts=other)
    assert by_row.differs(before).tolist() == [[False, False], [True, True], [False, False]]
    columns = Image(["p", "q"], 3, columns=[texts.take(pa.array([0, 2, 4])), texts.take(pa.array([1, 3, 5]))])
    assert columns.nulls.tolist() == by_row.nulls.tolist()
    assert columns.take(np.array([1])).row(0) == by_row.take(np.array([1])).row(0) == {"p": "b", "q": "c"}
