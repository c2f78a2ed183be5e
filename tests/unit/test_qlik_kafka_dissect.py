"""The field tree of a Kafka message: every byte has its place, and every field says what it means."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.formats.bitmask import DISAGREE
from cdcwb.formats.dissector import Field
from cdcwb.formats.json_spans import LEVELS
from cdcwb.formats.json_values import MOST_ELEMENTS, field_tree
from tests.qlik_trees import dissect

LOB = " (no mask names a LOB column, and without metadata none is known)"
SCHEMA_ID = "6A1F0C0D5B2E49B88E0C7F3D21A95E04"
SEQUENCE = "20260203040506780000000000000000042"
HEADERS: dict[str, Any] = {
    "operation": "UPDATE",
    "changeSequence": SEQUENCE,
    "timestamp": "2026-02-03T04:05:06.123",
    "streamPosition": "000001a4:00000b21:0003",
    "transactionId": "0000000000000000000000000000004D",
    "changeMask": "02",
    "columnMask": "03",
    "transactionEventCounter": 1,
    "transactionLastEvent": True,
}
ROW = {"id": 7, "name": "quartz"}
RECORD: dict[str, Any] = {"data": ROW, "beforeData": {"id": 7, "name": None}, "headers": HEADERS}
FULL_LOAD: dict[str, Any] = {
    "data": ROW,
    "beforeData": None,
    "headers": {
        **dict.fromkeys(("changeSequence", "timestamp", "streamPosition", "transactionId"), ""),
        "operation": "REFRESH",
        **dict.fromkeys(("changeMask", "columnMask", "transactionEventCounter", "transactionLastEvent")),
    },
}
METADATA: dict[str, Any] = {
    "schemaId": SCHEMA_ID,
    "lineage": {"server": "s1", "task": "t1", "schema": "shop", "table": "stock", "tableVersion": 1, "timestamp": ""},
    "tableStructure": {
        "tableColumns": {
            "id": {"ordinal": 1, "type": "INT4", "length": 10, "primaryKeyPosition": 1, "nullable": False},
            "name": {"ordinal": 2, "type": "STRING", "length": 40, "primaryKeyPosition": 0, "nullable": True},
        }
    },
    "dataSchema": "{}",
}


ATTUNITY_5 = (
    "a message of Attunity 5 (op, and data as an array), which cdcwb does not read: publish the table with "
    "Replicate 6 or later, or convert its messages to data, beforeData and headers"
)


def enveloped(message: Any, kind: str = "DT", schema_id: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "magic": "atMSG", "type": kind, "headers": None, "messageSchemaId": schema_id, "messageSchema": None,
        "message": message, **more,
    }  # fmt: skip


def compact(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def changed(**headers: Any) -> dict[str, Any]:
    """The update with some of its headers changed; a header that is None is left out."""
    kept = {name: value for name, value in {**HEADERS, **headers}.items() if value is not None}
    return {**RECORD, "headers": kept}


def check(field: Field, raw: bytes) -> None:
    """The children of a field fill it without holes, in byte order, and show the bytes they stand for."""
    assert field.raw == raw[field.offset : field.offset + field.length]
    assert len(field.raw) == field.length
    at = field.offset
    for child in field.children:
        assert child.offset == at, f"{child.name} in {field.name}"
        at += child.length
        check(child, raw)
    assert not field.children or at == field.offset + field.length, field.name


def whole(field: Field, raw: bytes) -> Field:
    """The tree, once every byte of the message is known to be in exactly one of its leaves."""
    assert (field.offset, field.length) == (0, len(raw))
    check(field, raw)
    assert b"".join(leaf.raw for leaf in field.walk() if not leaf.children) == raw
    return field


def outline(field: Field, depth: int = 0) -> list[tuple[int, str, bytes, str | None]]:
    rows = [(depth, field.name, field.raw if not field.children else b"", field.value)]
    return rows + [row for child in field.children for row in outline(child, depth + 1)]


def find(field: Field, *path: str) -> Field:
    for name in path:
        field = next(child for child in reversed(field.children) if child.name == name)
    return field


def problems(field: Field) -> list[tuple[str, str | None, str]]:
    return [(one.name, one.problem, one.meaning) for one in field.walk() if one.problem is not None]


# --- JSON -------------------------------------------------------------------------------------------------------------


def test_the_tree_of_a_json_message_names_every_byte() -> None:
    raw = (
        b'{"magic":"atMSG", "type" : "DT",\n "message":{"data":{"a":1},"beforeData":null,'
        b'"headers":{"operation":"INSERT","changeSequence":"20260203040506780000000000000000042","changeMask":"01"}}}'
    )
    assert outline(whole(dissect(raw), raw)) == [
        (0, "DT", b"", None),
        (1, "opening", b"{", None),
        (1, "magic", b'"magic":"atMSG",', "atMSG"),
        (1, "type", b' "type" : "DT",', "DT"),
        (1, "message", b"", None),
        (2, "opening", b'\n "message":{', None),
        (2, "data", b"", None),
        (3, "opening", b'"data":{', None),
        (3, "a", b'"a":1', "1"),
        (3, "closing", b"},", None),
        (2, "beforeData", b'"beforeData":null,', None),
        (2, "headers", b"", None),
        (3, "opening", b'"headers":{', None),
        (3, "operation", b'"operation":"INSERT",', "INSERT"),
        (3, "changeSequence", b"", SEQUENCE),
        (4, "opening", b'"changeSequence":"', None),
        (4, "time", b"2026020304050678", "2026-02-03T04:05:06.78Z"),
        (4, "number", b"0000000000000000042", "0000000000000000042"),
        (4, "closing", b'",', None),
        (3, "changeMask", b"", "01"),
        (4, "opening", b'"changeMask":"', None),
        (4, "digits", b"01", "01"),
        (4, "a", b"", "changed"),
        (4, "closing", b'"', None),
        (3, "closing", b"}", None),
        (2, "closing", b"}", None),
        (1, "closing", b"}", None),
    ]


def test_every_field_of_a_data_message_says_what_it_means() -> None:
    raw = compact(enveloped(RECORD))
    tree = whole(dissect(raw), raw)
    assert {field.name: field.meaning for field in find(tree, "message", "headers").children} == {
        "opening": "name and opening bracket",
        "operation": "a row was updated",
        "changeSequence": "order of all changes of the task: time and number",
        "timestamp": "time of the change, UTC",
        "streamPosition": "position in the source's log, in the source's own form",
        "transactionId": "the transaction that the change belongs to",
        "changeMask": "columns that changed: name",
        "columnMask": "columns that were captured: id and name",
        "transactionEventCounter": "event 1 of its transaction",
        "transactionLastEvent": "the transaction ends with this event",
        "closing": "closing bracket",
    }
    assert tree.meaning == "a data message as JSON in Qlik's envelope: a row was updated"
    assert find(tree, "message", "data").meaning == "the after image"
    assert find(tree, "message", "data", "name").meaning == "column 2: changed"
    assert find(tree, "message", "beforeData", "name").meaning == "column 2: NULL, changed"
    sequence = find(tree, "message", "headers", "changeSequence")
    assert find(sequence, "time").meaning.startswith("UTC of the Replicate server, in hundredths of a second")
    assert find(sequence, "number").meaning == "change 42 of the task"
    assert problems(tree) == []


def test_a_message_of_a_full_load_says_what_its_empty_headers_mean() -> None:
    tree = dissect(compact(enveloped(FULL_LOAD)))
    assert [field.meaning for field in find(tree, "message", "headers").children[1:-1]] == [
        "no position in the order of changes, as in a full load",
        "the time of the change is unknown",
        "no position in the source's log",
        "no transaction, as in a full load",
        "a row of the full load; not a change",
        "columns that changed: not given",
        "columns that were captured: not given",
        "no number in a transaction is given",
        "whether the transaction continues is not given",
    ]
    assert find(tree, "message", "data").meaning == "the loaded row"
    assert find(tree, "message", "beforeData").meaning == "no before image"
    assert problems(tree) == []


@pytest.mark.parametrize(
    ("headers", "name", "code", "says"),
    [
        (
            {"operation": "MERGE"}, "operation", "value",
            "operation: expected INSERT, UPDATE, DELETE or REFRESH, found 'MERGE'",
        ),
        ({"operation": None}, "headers", "value", "the headers have no operation"),
        (
            {"changeSequence": "2026"}, "changeSequence", "value",
            "changeSequence: expected 16 digits of time and 19 more, found '2026'",
        ),
        (
            {"changeSequence": "20261303040506780000000000000000042"}, "changeSequence", "value",
            "changeSequence: expected 16 digits of time and 19 more, found '20261303040506780000000000000000042'",
        ),
        ({"timestamp": "noon"}, "timestamp", "value", "timestamp: expected an ISO 8601 time, found 'noon'"),
        ({"timestamp": {"a": 1}}, "timestamp", "value", "timestamp: expected an ISO 8601 time, found '{\"a\":1}'"),
        (
            {"transactionEventCounter": "one"}, "transactionEventCounter", "value",
            "transactionEventCounter: expected a whole number, found 'one'",
        ),
        ({"changeMask": "0G"}, "changeMask", "mask", "changeMask: expected hexadecimal digits, found '0G'"),
        ({"changeMask": "0A"}, "changeMask", "mask", "changeMask 0A has bits beyond the 2 columns"),
        ({"columnMask": "FF03"}, "columnMask", "mask", "columnMask FF03 has bits beyond the 2 columns"),
        (
            {"changeMask": "03"}, "changeMask", "mask_images",
            f"{DISAGREE}; changed by the mask only: id; by the images only: none",
        ),
        (
            {"changeMask": "00"}, "changeMask", "mask_images",
            f"{DISAGREE}; changed by the mask only: none; by the images only: name{LOB}",
        ),
        (
            {"columnMask": "02"}, "columnMask", "mask_images",
            "by columnMask id was not captured, but the row has a value",
        ),
    ],
)  # fmt: skip
def test_a_field_that_contradicts_says_what_was_expected_and_found(
    headers: dict[str, Any], name: str, code: str, says: str
) -> None:
    raw = compact(changed(**headers))
    assert (name, code, says) in problems(whole(dissect(raw), raw))


def test_a_time_of_1970_is_a_placeholder() -> None:
    tree = dissect(compact(changed(timestamp="1970-01-01T00:00:00.000")))
    assert find(tree, "headers", "timestamp").meaning.startswith("a placeholder: the time of the change")
    assert problems(tree) == []


# --- masks ------------------------------------------------------------------------------------------------------------


def bits(tree: Field, mask: str) -> dict[str, str | None]:
    return {child.name: child.value for child in find(tree, "headers", mask).children if not child.length}


def test_the_documentation_s_mask_0b_names_ordinals_1_2_and_4() -> None:
    names = [f"c{ordinal}" for ordinal in range(1, 11)]
    record = {"data": dict.fromkeys(names, "x"), "beforeData": None, "headers": {**HEADERS, "changeMask": "0B"}}
    marked = [name for name, value in bits(dissect(compact(record)), "changeMask").items() if value == "changed"]
    assert marked == ["c1", "c2", "c4"]


def test_the_last_digits_of_a_mask_are_its_lowest_bits() -> None:
    names = [f"c{ordinal}" for ordinal in range(1, 17)]
    row = dict.fromkeys(names, "x")
    before = {**row, "c8": "y", "c16": None}
    record = {"data": row, "beforeData": before, "headers": {**HEADERS, "changeMask": "008080", "columnMask": "00FFFF"}}
    tree = dissect(compact(record))
    assert bits(tree, "changeMask") == {name: "changed" if name in ("c8", "c16") else "not changed" for name in names}
    assert find(tree, "headers", "changeMask", "c16").meaning == "bit 15, ordinal 16"
    assert find(tree, "headers", "changeMask").meaning == "columns that changed: c8 and c16"
    assert (
        find(tree, "headers", "columnMask").meaning == "columns that were captured: c1, c2, c3, c4, c5, c6 and 10 more"
    )
    assert problems(tree) == []


def test_null_is_told_from_not_captured() -> None:
    record = {
        "data": {"a": None, "b": None, "c": "1"}, "beforeData": {"a": None, "b": None, "c": "1"},
        "headers": {**HEADERS, "changeMask": "00", "columnMask": "05"},
    }  # fmt: skip
    tree = dissect(compact(record))
    assert [field.meaning for field in find(tree, "data").children[1:-1]] == [
        "column 1: NULL",
        "column 2: not captured",
        "column 3",
    ]
    assert bits(tree, "columnMask") == {"a": "captured", "b": "not captured", "c": "captured"}


def test_the_columns_of_the_table_version_count_not_the_row_s() -> None:
    raw = compact({**changed(changeMask="04", columnMask="05"), "data": {"name": "quartz"}})
    tree = whole(dissect(raw, columns=["id", "", "name"]), raw)
    assert bits(tree, "changeMask") == {"id": "not changed", "bit 1": "not changed", "name": "changed"}
    assert find(tree, "data", "name").meaning == "column 3: changed"
    tree = dissect(raw, columns=["id"])
    assert find(tree, "data", "name").meaning == "a column that the table version does not have"


def test_a_lob_column_that_differs_while_its_bit_is_clear_is_no_contradiction() -> None:
    raw = compact(changed(changeMask="00"))
    assert problems(dissect(raw, columns=[("id", "INT4"), ("name", "CLOB")])) == []
    assert [code for _, code, _ in problems(dissect(raw, columns=[("id", "INT4"), ("name", "STRING")]))] == [
        "mask_images"
    ]


@pytest.mark.parametrize("text", ["0x0180", "180", "0180", "\\x0180", "AYA="])
def test_a_mask_is_read_however_it_is_spelled(text: str) -> None:
    record = {"data": {f"c{at}": 1 for at in range(1, 10)}, "headers": {**HEADERS, "changeMask": text}}
    tree = dissect(compact(record))
    assert find(tree, "headers", "changeMask").meaning == "columns that changed: c8 and c9"


def test_a_mask_of_1024_columns_names_each_bit() -> None:
    names = [f"c{at}" for at in range(1024)]
    record = {"data": dict.fromkeys(names, 1), "headers": {**HEADERS, "changeMask": "8" + "0" * 254 + "1"}}
    found = bits(dissect(compact(record)), "changeMask")
    assert list(found) == names
    assert [name for name, value in found.items() if value == "changed"] == ["c0", "c1023"]


# --- the other JSON forms ---------------------------------------------------------------------------------------------


def test_a_metadata_message_says_what_each_column_is() -> None:
    raw = compact(enveloped(METADATA, "MD", SCHEMA_ID))
    tree = whole(dissect(raw), raw)
    assert (tree.name, tree.problem) == ("MD", None)
    assert find(tree, "message", "lineage", "tableVersion").value == "1"
    columns = find(tree, "message", "tableStructure", "tableColumns").children[1:-1]
    assert [(field.name, field.meaning) for field in columns] == [
        ("id", "column 1, INT4"),
        ("name", "column 2, STRING"),
    ]
    assert find(columns[0], "primaryKeyPosition").meaning.startswith(
        "position in the primary key or unique index, from 1"
    )
    assert problems(tree) == []


@pytest.mark.parametrize(
    ("column", "says"),
    [
        ({"ordinal": 0}, "column id: expected an ordinal from 1 on, found 0"),
        ({"ordinal": "1"}, "column id: expected an ordinal from 1 on, found '1'"),
        ({}, "column id: expected an ordinal from 1 on, found None"),
        (5, "column id: expected its properties, found 5"),
    ],
)
def test_a_column_without_a_usable_ordinal_is_said(column: Any, says: str) -> None:
    raw = compact(enveloped({**METADATA, "tableStructure": {"tableColumns": {"id": column}}}, "MD"))
    assert ("schema_text", says) in [(code, said) for _, code, said in problems(whole(dissect(raw), raw))]


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ({**METADATA, "schemaId": None}, "the metadata message has no schemaId"),
        (
            {**METADATA, "tableStructure": {}},
            f"metadata message {SCHEMA_ID}: expected tableStructure.tableColumns, found none",
        ),
        (
            {**METADATA, "tableStructure": {"tableColumns": {"a": {"ordinal": 1}, "b": {"ordinal": 1}}}},
            f"metadata message {SCHEMA_ID}: two columns have one ordinal",
        ),
    ],
)
def test_metadata_that_describes_no_table_says_why(message: Any, says: str) -> None:
    tree = dissect(compact(enveloped(message, "MD")))
    assert (tree.problem, tree.meaning) == ("schema_text", says)


def test_a_schema_that_is_not_known_is_said() -> None:
    raw = compact(enveloped(RECORD, schema_id=SCHEMA_ID))
    name, code, says = problems(dissect(raw, lambda _: None))[0]
    assert (name, code) == ("messageSchemaId", "no_schema")
    assert (
        says == f"the metadata message of schema {SCHEMA_ID} is not in the capture; ordinals are the order of the keys"
    )
    assert problems(dissect(raw, lambda _: "{}", columns=["id", "name"])) == []


def test_a_tombstone_has_no_bytes_and_says_what_it_is() -> None:
    tree = dissect(None)
    assert (tree.name, tree.length, tree.children) == ("tombstone", 0, ())
    assert tree.meaning.startswith("no value: a tombstone; a compacted topic deletes the row with this key")


def test_a_message_in_kafka_connect_s_json_wrapping_is_read() -> None:
    raw = compact({"schema": {"type": "struct"}, "payload": enveloped(RECORD)})
    tree = whole(dissect(raw), raw)
    assert tree.name == "DT"
    assert find(tree, "payload", "message", "headers", "operation").meaning == "a row was updated"


def test_of_two_fields_of_one_name_the_last_counts() -> None:
    raw = b'{"data":{"id":1},"headers":{"operation":"MERGE","operation":"DELETE"}}'
    tree = whole(dissect(raw), raw)
    first, second = find(tree, "headers").children[1:3]
    assert (first.problem, first.meaning.endswith("; a later field of this name is used")) == (None, True)
    assert second.meaning == "a row was deleted"
    assert find(tree, "data").meaning == "the deleted row"


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"id": 1, "name": 2}, "a JSON object that is not one of Qlik's messages: its keys are id, name"),
        ({}, "a JSON object that is not one of Qlik's messages: its keys are none"),
        (enveloped(RECORD, "XX"), "expected the message type DT or MD, found 'XX'"),
        (enveloped(None), "expected the envelope's message as an object, found null"),
        (enveloped({"data": {}}), "expected the data message's headers as an object, found null"),
        ({"headers": {}, "data": 5}, "expected data as an object or null, found a number"),
        (
            {"op": "I", "data": [{"a": "1"}]},
            ATTUNITY_5,
        ),
    ],
)
def test_json_that_is_no_message_says_why(document: Any, says: str) -> None:
    raw = compact(document)
    tree = whole(dissect(raw), raw)
    assert [(code, said) for _, code, said in problems(tree)] == [("malformed", says)]
    assert tree.problem == "malformed"


@pytest.mark.parametrize(
    ("raw", "rest", "says"),
    [
        (
            b'{"data":{"id":1},"headers":{"operation":"INS',
            b'"operation":"INS',
            "expected the end of a string, found the end",
        ),
        (b'{"data":{"id":1}', b"", "expected a comma or }, found the end at byte 16"),
        (b'{"data":{"id":tru}}', b'"id":tru}}', "expected a value, found 'tru}}' at byte 14"),
        (b'{"data":{"id":1}}x', b"x", "expected the end, found 'x' at byte 17"),
        (b'{"data":{"id":1 "b":2}}', b'"b":2}}', "expected a comma or }, found '\"b\":2}}' at byte 16"),
        (b'{"data":{"id":"\xff"}}', b'"id":"\xff"}}', "expected text in UTF-8"),
        (b'{"data":{"id":"\n"}}', b'"id":"\n"}}', "expected a character of a string"),
        (b'{"data":{"id":"\\q"}}', b'"id":"\\q"}}', "expected a character of a string"),
        (b'{"data":{id:1}}', b"id:1}}", "expected a name in double quotes, found 'id:1}}' at byte 9"),
        (b'{"data" {}}', b'"data" {}}', "expected a colon, found '{}}' at byte 8"),
    ],
)
def test_the_rest_of_a_damaged_text_is_one_leaf(raw: bytes, rest: bytes, says: str) -> None:
    tree = whole(dissect(raw), raw)
    last = tree.children[-1]
    code = "truncated" if "found the end at" in last.meaning else "malformed"
    assert (last.name, last.raw, last.problem) == ("unreadable", rest, code)
    assert last.meaning.startswith(says)
    assert len(problems(tree)) == 1


def test_what_is_nested_deeply_is_one_text() -> None:
    deep = b'{"data":{"id":' + b"[" * 40 + b"]" * 40 + b'},"headers":{"operation":"INSERT"}}'
    tree = whole(dissect(deep), deep)
    assert problems(tree) == []
    assert max(len(path) for path in _paths(tree)) < 16
    deeper = b'{"data":{"id":' + b"[" * LEVELS
    tree = whole(dissect(deeper), deeper)
    assert tree.children[-1].meaning.startswith(f"expected at most {LEVELS} levels of nesting, found '[")


def _paths(field: Field) -> list[list[str]]:
    return [[field.name]] + [[field.name, *path] for child in field.children for path in _paths(child)]


def test_a_message_with_too_many_fields_is_taken_apart_in_part() -> None:
    raw = b'{"op":"I","data":[' + b"1," * MOST_ELEMENTS + b"1]}"
    *_, rest = field_tree(raw).children
    assert rest.name == "rest"
    assert 2 * MOST_ELEMENTS - 20 < rest.offset < len(raw)
    raw = b"[" * 500_000
    assert whole(dissect(b"{" + raw), b"{" + raw).problem is None


# --- Avro -------------------------------------------------------------------------------------------------------------


def data_schema(columns: dict[str, Any], mask: Any = "bytes") -> str:
    """The dataSchema of a table, as Qlik writes it."""
    fields = [{"name": name, "type": ["null", kind]} for name, kind in columns.items()]
    texts = ("changeSequence", "timestamp", "streamPosition", "transactionId")
    symbols = ["INSERT", "UPDATE", "DELETE", "REFRESH"]
    headers = [
        {"name": "operation", "type": {"type": "enum", "name": "operation", "symbols": symbols}},
        *({"name": name, "type": "string"} for name in texts),
        *({"name": name, "type": ["null", mask]} for name in ("changeMask", "columnMask")),
        {"name": "transactionEventCounter", "type": ["null", "long"]},
        {"name": "transactionLastEvent", "type": ["null", "boolean"]},
    ]
    return json.dumps(
        {
            "type": "record", "name": "DataRecord", "namespace": "com.attunity.queue.msg.a-task.shop.stock",
            "fields": [
                {"name": "data", "type": {"type": "record", "name": "Data", "fields": fields}},
                {"name": "beforeData", "type": ["null", "Data"]},
                {"name": "headers", "type": {"type": "record", "name": "Headers", "fields": headers}},
            ],
        }
    )  # fmt: skip


SCHEMA = data_schema({"id": "int", "name": "string"})
PAYLOAD = bytes.fromhex(
    "02 0E 02 0C 71756172747A"  # data: 7, "quartz"
    "02 02 0E 00"  # beforeData: 7, null
    "02"  # UPDATE
    "46 3230323630323033303430353036373830303030303030303030303030303030303432"
    "2E 323032362D30322D30335430343A30353A30362E313233"
    "2C 30303030303161343A30303030306232313A30303033"
    "40 3030303030303030303030303030303030303030303030303030303030303444"
    "02 02 02"  # changeMask 02
    "02 02 03"  # columnMask 03
    "02 02 02 01"  # event 1, the last
)
ENVELOPE = bytes.fromhex("61744D5347 04 4454 00 02 40") + SCHEMA_ID.encode() + bytes.fromhex("00 9A02") + PAYLOAD


def resolve(name: str) -> str | None:
    return SCHEMA if name in (SCHEMA_ID, "42") else None


def flat(field: Field) -> list[tuple[str, bytes, str | None]]:
    return [(one.name, one.raw, one.value) for one in field.walk() if not one.children]


def test_the_tree_of_an_avro_envelope_names_every_byte() -> None:
    tree = whole(dissect(ENVELOPE, resolve), ENVELOPE)
    assert (tree.name, tree.meaning) == ("DT", "a data message as Avro in Qlik's envelope: a row was updated")
    assert flat(tree)[:20] == [
        ("magic", b"atMSG", "atMSG"),
        ("length", b"\x04", "2"),
        ("text", b"DT", "DT"),
        ("union index", b"\x00", "0"),
        ("union index", b"\x02", "1"),
        ("length", b"\x40", "32"),
        ("text", SCHEMA_ID.encode(), SCHEMA_ID),
        ("union index", b"\x00", "0"),
        ("length", b"\x9a\x02", "141"),
        ("union index", b"\x02", "1"),
        ("value", b"\x0e", "7"),
        ("union index", b"\x02", "1"),
        ("length", b"\x0c", "6"),
        ("text", b"quartz", "quartz"),
        ("union index", b"\x02", "1"),
        ("union index", b"\x02", "1"),
        ("value", b"\x0e", "7"),
        ("union index", b"\x00", "0"),
        ("operation", b"\x02", "UPDATE"),
        ("length", b"\x46", "35"),
    ]
    headers = find(tree, "message", "headers")
    assert [(part.name, part.raw, part.value) for part in find(headers, "changeSequence").children[1:]] == [
        ("time", b"2026020304050678", "2026-02-03T04:05:06.78Z"),
        ("number", b"0000000000000000042", "0000000000000000042"),
    ]
    assert [(part.name, part.raw, part.value) for part in find(headers, "changeMask").children] == [
        ("union index", b"\x02", "1"),
        ("length", b"\x02", "1"),
        ("bytes", b"\x02", "02"),
        ("id", b"", "not changed"),
        ("name", b"", "changed"),
    ]
    assert find(headers, "operation").meaning == "a row was updated"
    assert find(headers, "transactionLastEvent").meaning == "the transaction ends with this event"
    assert find(tree, "message", "data", "name").meaning == "column 2, string: changed; union of null, string"
    assert (
        find(tree, "message", "beforeData", "name").meaning == "column 2, string: NULL, changed; union of null, string"
    )
    assert problems(tree) == []


DOCUMENT = Path(__file__).parents[2] / "docs" / "formats" / "qlik-kafka.md"


def test_the_bytes_of_the_documentation_are_these() -> None:
    section = DOCUMENT.read_text(encoding="utf-8").split("### 2.2")[1].split("### 2.3")[0]
    blocks = re.findall(r"^```text\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    for block, message, parts in zip(blocks, (ENVELOPE, PAYLOAD), (7, 13), strict=True):
        shown = re.findall(r"^((?:[0-9A-F]{2}|…| (?! ))+)", block, re.MULTILINE)
        assert len(shown) >= parts
        at = 0
        for run in "".join(shown).replace(" ", "").split("…"):
            found = message.hex().upper().find(run, at)
            assert found >= at, run
            at = found + len(run)
    assert bytes.fromhex(shown[-1].replace(" ", "")) == PAYLOAD[-2:]


def test_confluent_s_framing_is_its_zero_byte_its_schema_id_and_the_record() -> None:
    raw = b"\0\0\0\0\x2a" + PAYLOAD
    tree = whole(dissect(raw, resolve), raw)
    assert (tree.name, tree.meaning) == (
        "DataRecord",
        "a data message as Avro in Confluent's framing: a row was updated",
    )
    assert [(part.name, part.raw, part.value) for part in tree.children[:2]] == [
        ("magic byte", b"\0", "0"),
        ("schema id", b"\0\0\0\x2a", "42"),
    ]
    assert [part.name for part in tree.children[2:]] == ["data", "beforeData", "headers"]
    assert problems(tree) == []


def test_a_record_without_a_frame_is_read_with_the_schema_for_it() -> None:
    tree = whole(dissect(PAYLOAD, lambda name: None if name else SCHEMA), PAYLOAD)
    assert tree.meaning == "a data message as Avro without a frame: a row was updated"
    assert problems(tree) == []


@pytest.mark.parametrize(
    ("raw", "name", "code"),
    [
        (ENVELOPE, "record", "no_schema"),
        (b"\0\0\0\0\x2a" + PAYLOAD, "schema id", "no_registry"),
        (PAYLOAD, "message", "malformed"),
    ],
)
def test_avro_without_its_schema_stays_bytes_and_says_so(raw: bytes, name: str, code: str) -> None:
    for found in (dissect(raw), dissect(raw, lambda _: None)):
        assert [(one, other) for one, other, _ in problems(whole(found, raw))] == [(name, code)]


def test_an_avro_schema_that_cannot_be_used_is_said() -> None:
    tree = whole(dissect(ENVELOPE, lambda _: "{}"), ENVELOPE)
    assert [code for _, code, _ in problems(tree)] == ["schema_text"]
    assert find(tree, "message", "record").raw == PAYLOAD


SIXTEEN = data_schema({f"c{ordinal}": "int" for ordinal in range(1, 17)})


@pytest.mark.parametrize(("order", "change", "column"), [("big", "008080", "00FFFF"), ("little", "808000", "FFFF00")])
def test_masks_in_avro_are_read_in_the_order_that_is_given(order: str, change: str, column: str) -> None:
    row, before = "0202" * 16, "0202" * 7 + "0204" + "0202" * 7 + "00"
    raw = bytes.fromhex(row + "02" + before + "02" + "00" * 4 + f"0206{change}0206{column}" + "0000")
    tree = whole(dissect(raw, lambda name: None if name else SIXTEEN, order), raw)
    marked = [name for name, value in bits(tree, "changeMask").items() if value == "changed"]
    assert marked == ["c8", "c16"]
    assert set(bits(tree, "columnMask").values()) == {"captured"}
    assert problems(tree) == []
    other = "little" if order == "big" else "big"
    found = problems(whole(dissect(raw, lambda name: None if name else SIXTEEN, other), raw))
    assert ("columnMask", "mask", f"columnMask {column} has bits beyond the 16 columns") in found


def test_masks_that_are_text_in_avro_are_hexadecimal_numbers() -> None:
    schema = data_schema({"id": "int"}, "string")
    raw = bytes.fromhex("0202 00 00 00000000 02 04 3031 00 00 00")
    tree = whole(dissect(raw, lambda name: None if name else schema, "little"), raw)
    assert bits(tree, "changeMask") == {"id": "changed"}


METADATA_SCHEMA = json.dumps(
    {
        "type": "record", "name": "MetadataMessage",
        "fields": [
            {"name": "schemaId", "type": "string"},
            {"name": "tableStructure", "type": {"type": "record", "name": "TableStructure", "fields": [
                {"name": "tableColumns", "type": {"type": "record", "name": "TableColumns", "fields": [
                    {"name": "id", "type": {"type": "record", "name": "id", "fields": [
                        {"name": "ordinal", "type": "int"}, {"name": "type", "type": "string"},
                    ]}},
                ]}},
            ]}},
            {"name": "dataSchema", "type": "string"},
        ],
    },
    separators=(",", ":"),
)  # fmt: skip


def varint(number: int) -> bytes:
    out, number = bytearray(), number * 2
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def sized(data: bytes) -> bytes:
    return varint(len(data)) + data


def test_a_metadata_message_in_avro_is_read_with_the_schema_in_its_envelope() -> None:
    body = sized(b"AB") + b"\x02" + sized(b"INT4") + sized(b"{}")
    raw = b"atMSG" + sized(b"MD") + b"\0\x02" + sized(b"AB") + b"\x02" + sized(METADATA_SCHEMA.encode()) + sized(body)
    tree = whole(dissect(raw), raw)
    assert (tree.name, problems(tree)) == ("MD", [])
    column = find(tree, "message", "tableStructure", "tableColumns", "id")
    assert column.meaning == "column 1, INT4"
    assert find(column, "ordinal").meaning == "ordinal of the column, from 1: bit ordinal - 1 of the masks"
    assert find(tree, "message", "schemaId").value == "AB"


@pytest.mark.parametrize(
    "raw", [ENVELOPE[:-1], ENVELOPE + b"x", ENVELOPE[:20], b"atMSG", ENVELOPE[:6] + b"XX" + ENVELOPE[8:]]
)
def test_a_damaged_avro_message_is_malformed_and_nothing_else(raw: bytes) -> None:
    tree = whole(dissect(raw, resolve), raw)
    assert {code for _, code, _ in problems(tree)} == {"malformed"}


# --- the tokenizer ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (rb'"\u00e9\n\"\\\/\b\f\r\t"', 'é\n"\\/\b\f\r\t'),
        (rb'"\ud83d\ude00"', "😀"),
        (rb'"a\ud83db"', "a?b"),
        (rb'"\\u0041"', "\\u0041"),
        ('"h\u00e9\u4e16"'.encode(), "hé世"),
        (b"-12.50e+003", "-12.50e+003"),
        (b"123456789012345678901234567890", "123456789012345678901234567890"),
        (b"true", "true"),
        (b"null", None),
    ],
)
def test_a_value_keeps_its_own_text(text: bytes, value: str | None) -> None:
    _, found, closing = field_tree(b'{"v": ' + text + b"\n}").children
    assert (found.value, found.problem, closing.name) == (value, None, "closing")


@pytest.mark.parametrize(
    "text", [b"01", b"1.", b".5", b"+1", b"1e", b"-", b"NaN", b"Infinity", b"'a'", b"tru", b"{,}", b""]
)
def test_what_is_no_json_is_damage(text: bytes) -> None:
    assert field_tree(b'{"v": ' + text + b"}").children[-1].name == "unreadable"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


@given(JSON, st.booleans(), st.sampled_from([None, 1]))
def test_the_tokenizer_reads_what_json_writes(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")
    tree = field_tree(b'{"v": ' + text + b"}")
    assert not any(field.problem for field in tree.walk())
    assert _value(tree) == {"v": value}


def _value(field: Field) -> Any:
    inner = [child for child in field.children if not child.quiet]
    match field.meaning:
        case "object":
            return {child.name: _value(child) for child in inner}
        case "array":
            return [_value(child) for child in inner]
        case "number" | "boolean":
            return json.loads(field.value or "")
        case _:
            return field.value


# --- any bytes --------------------------------------------------------------------------------------------------------

GOOD = [
    compact(document)
    for document in (
        enveloped(RECORD, schema_id=SCHEMA_ID),
        enveloped(FULL_LOAD),
        enveloped(METADATA, "MD", SCHEMA_ID),
        RECORD,
        {"schema": {}, "payload": RECORD},
    )
] + [
    json.dumps(enveloped(RECORD), indent=2).encode(),
    b"\xef\xbb\xbf \n" + compact(RECORD),
    ENVELOPE,
    b"\0\0\0\0\x2a" + PAYLOAD,
    PAYLOAD,
]


PIECES = [
    b"{",
    b"}",
    b'"',
    b",",
    b'"a":{',
    b"[[[",
    b"null",
    b"{}",
    b"[]",
    b"5",
    b"true",
    b'"x"',
    b'"op"',
    b'"data"',
    b'""',
]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A good message with some bytes changed, and something cut off, put in, taken out or repeated."""
    raw = bytearray(draw(st.sampled_from(GOOD)))
    for at, value in draw(st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), max_size=3)):
        raw[at] = value
    at = draw(st.integers(0, len(raw)))
    kind = draw(st.sampled_from(["whole", "cut", "insert", "remove", "repeat", "value"]))
    if kind == "cut":
        del raw[at:]
    elif kind == "insert":
        raw[at:at] = draw(st.binary(max_size=6) | st.sampled_from(PIECES))
    elif kind == "remove":
        del raw[at : at + draw(st.integers(1, 9))]
    elif kind == "repeat":
        raw += raw[at:]
    elif kind == "value":
        start = raw.find(b":", at) + 1
        raw[start : max(start, raw.find(b",", start))] = draw(st.sampled_from(PIECES))
    return bytes(raw)


COLUMNS = st.sampled_from([None, ["id", "name"], ["", "name", "id"], [], [("id", "INT4"), ("name", "CLOB")]])
ORDERS = st.sampled_from(["big", "little"])


@given(st.one_of(damaged(), st.binary(max_size=60)), COLUMNS, ORDERS, st.booleans())
def test_any_bytes_make_a_tree_whose_leaves_are_the_message(raw: bytes, columns: Any, order: str, known: bool) -> None:
    tree = whole(dissect(raw, lambda name: SCHEMA if known else None, order, columns), raw)
    for field in tree.walk():
        assert field.name
        assert field.problem is None or field.meaning
