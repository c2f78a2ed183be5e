"""Messages in, events out: every header, operation, image and mask, in every wire form."""

from __future__ import annotations

import base64
import datetime as dt
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fastavro
import pytest

from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats import identify, inspect
from tests.kafka import (
    AFTER,
    BEFORE,
    FORMAT,
    HEADERS,
    SCHEMA_ID,
    SEQUENCE,
    STOCK,
    WRITTEN,
    Row,
    avro,
    avro_envelope,
    avro_record,
    data_schema,
    enveloped,
    events,
    framed,
    metadata,
    record,
    rows,
    versions,
    write,
)
from tests.local import plan_of, read
from tests.qlik_trees import dissect

# --- one message, whole -----------------------------------------------------------------------------------------------


def test_every_part_of_a_json_message_has_its_column(tmp_path: Path) -> None:
    data = enveloped(record(AFTER, BEFORE))
    schema, change = events(tmp_path, metadata({"id": "INT4", "name": "STRING"}), data)
    assert (schema["kind"], schema["record_type"], schema["table_version"]) == ("schema", "MD", SCHEMA_ID)
    assert (schema["schema_name"], schema["table_name"], schema["problems"]) == ("shop", "stock", [])
    assert schema["headers"] == {
        "magic": "atMSG", "type": "MD", "messageSchemaId": SCHEMA_ID, "schemaId": SCHEMA_ID,
        "lineage.server": "s1", "lineage.task": "t1", "lineage.schema": "shop", "lineage.table": "stock",
        "lineage.tableVersion": "1", "lineage.timestamp": "x",
    }  # fmt: skip
    raw = json.dumps(data).encode()
    assert change == {
        "format": FORMAT, "file": str(tmp_path / "capture.parquet"), "file_index": 0,
        "offset": 1, "length": 1, "offset_unit": "row",
        "record_type": "DT", "kind": "change", "operation": "UPDATE",
        "position": SEQUENCE, "commit_position": SEQUENCE, "transaction_id": "0000000000000000000000000000004D",
        "event_no": 3, "last_in_transaction": True,
        "changed_at": dt.datetime(2026, 2, 3, 4, 5, 6, 123000, tzinfo=dt.UTC),
        "schema_name": "shop", "table_name": "stock", "table_version": SCHEMA_ID,
        "change_mask": "02", "column_mask": "03", "changed_columns": ["name"], "present_columns": ["id", "name"],
        "key": {"id": "7"}, "before": {"id": "7", "name": None}, "after": {"id": "7", "name": "quartz"},
        "headers": {
            "magic": "atMSG", "type": "DT", "messageSchemaId": SCHEMA_ID,
            **{name: str(value) for name, value in HEADERS.items()}, "transactionLastEvent": "true",
        },
        "raw": raw, "problems": [], "details": [],
    }  # fmt: skip


def test_the_same_message_in_every_other_form_is_the_same_change(tmp_path: Path) -> None:
    schema = data_schema({"id": "int", "name": "string"})
    (tmp_path / "registry").mkdir()
    (tmp_path / "registry" / "42.avsc").write_text(schema)
    binary = avro_record(schema, AFTER, BEFORE)
    found = events(
        tmp_path,
        metadata({"id": "INT4", "name": "STRING"}),
        enveloped(record(AFTER, BEFORE)),
        record(AFTER, BEFORE, schema="shop", table="stock"),
        avro_envelope(binary, None, messageSchema=schema),
        framed(42, binary),
        registry=str(tmp_path / "registry"),
    )[1:]
    assert [row["record_type"] for row in found] == ["DT", "DataRecord", "DT", "DataRecord"]
    for row in found:
        for name in ("kind", "operation", "position", "changed_at", "schema_name", "table_name", "before", "after"):
            assert row[name] == found[0][name], name
        assert row["problems"] == []
    for row in found:
        for name in ("event_no", "transaction_id", "change_mask", "column_mask", "changed_columns", "present_columns"):
            assert row[name] == found[0][name], name
    assert [row["key"] for row in found] == [{"id": "7"}, None, None, None]
    assert found[3]["headers"]["schemaId"] == "42"


def test_a_full_load_has_empty_headers_and_no_place_in_a_transaction(tmp_path: Path) -> None:
    empty = dict.fromkeys(("changeSequence", "timestamp", "streamPosition", "transactionId"), "")
    nothing = dict.fromkeys(("changeMask", "columnMask", "transactionEventCounter", "transactionLastEvent"))
    (row,) = events(tmp_path, enveloped(record(AFTER, None, operation="REFRESH", **empty, **nothing), None))
    assert (row["operation"], row["after"], row["before"]) == ("REFRESH", {"id": "7", "name": "quartz"}, None)
    for name in ("position", "commit_position", "transaction_id", "event_no", "last_in_transaction", "changed_at"):
        assert row[name] is None, name
    assert row["changed_columns"] is row["present_columns"] is row["change_mask"] is None
    assert (row["headers"]["changeSequence"], row["headers"]["changeMask"]) == ("", None)
    assert row["problems"] == []


def test_the_last_event_of_a_transaction_bears_its_commit(tmp_path: Path) -> None:
    given = [False, True, None, "TRUE", "false", ""]
    found = events(tmp_path, *(record(AFTER, transactionLastEvent=flag, operation="INSERT") for flag in given))
    assert [row["last_in_transaction"] for row in found] == [False, True, None, True, False, None]
    assert [row["commit_position"] for row in found] == [None, SEQUENCE, None, SEQUENCE, None, None]


# --- operations -------------------------------------------------------------------------------------------------------

NULLS = {"id": None, "name": None}


@pytest.mark.parametrize(
    ("data", "before", "row"),
    [
        (AFTER, None, {"id": "7", "name": "quartz"}),
        (None, AFTER, {"id": "7", "name": "quartz"}),
        (AFTER, {"id": 8, "name": "opal"}, {"id": "7", "name": "quartz"}),
        (NULLS, {"id": 8, "name": "opal"}, {"id": "8", "name": "opal"}),
        (NULLS, None, NULLS),
        ({"id": 7}, None, {"id": "7"}),
        (None, None, None),
    ],
)
@pytest.mark.parametrize("form", ["json", "avro"])
def test_a_deleted_row_is_the_before_image_wherever_it_stands(
    tmp_path: Path, form: str, data: Any, before: Any, row: Any
) -> None:
    names = list((data or before or AFTER).keys())
    schema = data_schema({name: {"id": "int"}.get(name, "string") for name in names})
    headers: dict[str, Any] = {"operation": "DELETE", "changeMask": None, "columnMask": None}
    message: Any = enveloped(record(data, before, **headers))
    if form == "avro":
        message = avro_envelope(avro_record(schema, data, before, **headers), messageSchema=schema)
    (found,) = events(tmp_path, metadata({"id": "INT4", "name": "STRING"}), message)[1:]
    assert (found["operation"], found["before"], found["after"]) == ("DELETE", row, None)
    assert found["key"] == (None if row is None else {"id": row["id"]})
    assert found["problems"] == []


def test_deletes_and_updates_of_one_batch_do_not_mix(tmp_path: Path) -> None:
    plain: dict[str, Any] = {"changeMask": None, "columnMask": None}
    found = events(
        tmp_path,
        *(
            record({"id": at, "name": f"n{at}"}, {"id": at, "name": f"o{at}"}, operation=operation, **plain)
            for at, operation in enumerate(["UPDATE", "DELETE", "UPDATE", "DELETE", "INSERT"])
        ),
    )
    assert [row["after"] and row["after"]["name"] for row in found] == ["n0", None, "n2", None, "n4"]
    assert [row["before"]["name"] for row in found] == ["o0", "n1", "o2", "n3", "o4"]


@pytest.mark.parametrize(("given", "found"), [("MERGE", "MERGE"), ("insert", "insert"), (None, ""), (5, "5"), ("", "")])
def test_an_operation_that_is_not_listed_is_kept_and_reported(tmp_path: Path, given: Any, found: str) -> None:
    (row,) = events(tmp_path, record(AFTER, operation=given, changeMask=None))
    assert (row["operation"], row["problems"]) == (f"UNKNOWN({found})", ["value"])
    assert row["details"][0].startswith("operation: expected INSERT, UPDATE, DELETE or REFRESH, found ")
    assert row["after"] == {"id": "7", "name": "quartz"}


def test_headers_without_an_operation_are_reported(tmp_path: Path) -> None:
    headers = {name: value for name, value in HEADERS.items() if name != "operation"}
    (row,) = events(tmp_path, {"data": AFTER, "headers": headers, "operation": "INSERT"})
    assert (row["operation"], row["problems"]) == (None, ["value"])
    assert row["headers"]["operation"] == "INSERT", "it stands beside the headers, where it is none"


# --- headers ----------------------------------------------------------------------------------------------------------


def test_fields_that_nobody_knows_are_kept(tmp_path: Path) -> None:
    message = enveloped(record(AFTER, extra=[1, {"a": 1.50}], rate=1.10, big=12345678901234567890123), None, note="n")
    message["headers"] = {"trace": "abc", "n": 1}
    message["message"]["beside"] = True
    (row,) = events(tmp_path, message)
    said = {name: text for name, text in row["headers"].items() if name not in HEADERS}
    assert said == {
        "magic": "atMSG", "type": "DT", "messageSchemaId": None, "envelope.trace": "abc", "envelope.n": "1",
        "note": "n", "beside": "true", "extra": '[1,{"a":1.5}]', "rate": "1.1", "big": "12345678901234567890123",
    }  # fmt: skip


def test_headers_of_an_envelope_in_avro_are_kept(tmp_path: Path) -> None:
    schema = data_schema({"id": "int", "name": "string"})
    message = avro_record(schema, AFTER, operation="INSERT", changeMask=None)
    given = [None, {"trace": "abc"}, {"trace": "abc", "n": "1"}, {}]
    found = events(tmp_path, *(avro_envelope(message, None, messageSchema=schema, headers=one) for one in given))
    said = [{name: text for name, text in row["headers"].items() if name.startswith("envelope")} for row in found]
    assert said == [{}, {"envelope.trace": "abc"}, {"envelope.trace": "abc", "envelope.n": "1"}, {}]
    assert all(row["headers"]["messageSchema"] == schema for row in found)


def test_a_name_that_stands_around_and_inside_the_message_is_kept_twice(tmp_path: Path) -> None:
    (row,) = events(tmp_path, {**record(AFTER, BEFORE), "timestamp": "outside", "changeMask": "FF"})
    assert (row["headers"]["timestamp"], row["headers"]["timestamp#2"]) == ("outside", HEADERS["timestamp"])
    assert (row["change_mask"], row["changed_columns"], row["problems"]) == ("02", ["name"], [])


@pytest.mark.parametrize(
    "text",
    ["42", "2026020304050678000000000000000004", f"{SEQUENCE}0", "20261303040506780000000000000000042", "x" * 35],
)
def test_a_change_sequence_that_is_none_is_no_position(tmp_path: Path, text: str) -> None:
    found = events(tmp_path, record(AFTER, BEFORE, changeSequence=text), record(AFTER, BEFORE))
    assert [row["position"] for row in found] == [row["commit_position"] for row in found] == [None, SEQUENCE]
    assert [row["problems"] for row in found] == [["value"], []]
    assert found[0]["headers"]["changeSequence"] == text
    assert found[0]["details"] == [f"changeSequence: expected 16 digits of time and 19 more, found {text!r}"]


@pytest.mark.parametrize(
    ("text", "time", "codes"),
    [
        ("2026-02-03T04:05:06.123", "2026-02-03T04:05:06.123000+00:00", []),
        ("2026-02-03 04:05:06", "2026-02-03T04:05:06+00:00", []),
        ("2026-02-03T04:05:06.1234567", "2026-02-03T04:05:06.123456+00:00", []),
        ("2026-02-03T04:05:06Z", "2026-02-03T04:05:06+00:00", []),
        ("2026-02-03T04:05:06+02:00", "2026-02-03T02:05:06+00:00", []),
        ("1970-01-01T00:00:00.000", None, []),
        ("1970-01-02T00:00:00.000", "1970-01-02T00:00:00+00:00", []),
        ("", None, []),
        (None, None, []),
        ("2026-02-30T04:05:06", None, ["value"]),
        ("yesterday", None, ["value"]),
        (1770091506123, None, ["value"]),
    ],
)
def test_the_time_of_a_change(tmp_path: Path, text: Any, time: str | None, codes: list[str]) -> None:
    (row,) = events(tmp_path, record(AFTER, BEFORE, timestamp=text))
    assert (row["changed_at"] and row["changed_at"].isoformat()) == time
    assert row["problems"] == codes
    assert row["headers"]["timestamp"] == (None if text is None else str(text))


@pytest.mark.parametrize(
    ("given", "number", "codes"),
    [
        (17, 17, []),
        ("17", 17, []),
        (None, None, []),
        ("", None, []),
        (-1, -1, []),
        ((1 << 63) - 1, (1 << 63) - 1, []),
        (1 << 63, None, ["value"]),
        ("0x10", None, ["value"]),
        ("1.5", None, ["value"]),
        (1.5, None, ["value"]),
        (" 7", None, ["value"]),
        (True, None, ["value"]),
        ("9" * 5000, None, ["value"]),
    ],
)
def test_the_place_in_a_transaction(tmp_path: Path, given: Any, number: int | None, codes: list[str]) -> None:
    found = events(tmp_path, record(AFTER, BEFORE, transactionEventCounter=given), record(AFTER, BEFORE))
    assert [row["event_no"] for row in found] == [number, 3]
    assert [row["problems"] for row in found] == [codes, []]


# --- masks and images -------------------------------------------------------------------------------------------------

COLUMNS = {"id": "INT4", "name": "STRING", "text": "CLOB", "price": "NUMERIC"}


def masked(tmp_path: Path, operation: str, data: Any, before: Any, changed: Any, present: Any) -> Row:
    """The event of a message of the table :data:`COLUMNS`."""
    message = record(data, before, operation=operation, changeMask=changed, columnMask=present)
    return events(tmp_path, metadata(COLUMNS), enveloped(message))[1]


def test_a_column_that_was_not_captured_has_no_key(tmp_path: Path) -> None:
    data = {"id": 1, "name": None, "text": None, "price": None}
    row = masked(tmp_path, "INSERT", data, None, "01", "03")
    assert row["after"] == {"id": "1", "name": None}, "NULL is there, what was not captured is not"
    assert (row["present_columns"], row["changed_columns"], row["problems"]) == (["id", "name"], ["id"], [])


def test_a_column_that_has_a_value_in_one_image_was_captured(tmp_path: Path) -> None:
    data, before = {"id": 1, "name": "a", "price": None}, {"price": None, "name": None, "id": 1}
    row = masked(tmp_path, "UPDATE", data, before, "02", "01")
    assert (row["after"], row["before"]) == ({"id": "1", "name": "a"}, {"id": "1", "name": None})
    assert row["problems"] == ["mask_images"]
    assert row["details"] == ["by columnMask name was not captured, but the row has a value"]


def test_images_with_different_columns_each_lack_what_was_not_captured(tmp_path: Path) -> None:
    data = {"id": 1, "name": "a", "text": None, "price": None}
    row = masked(tmp_path, "UPDATE", data, {"id": 1, "price": None}, "02", "03")
    assert (row["after"], row["before"], row["problems"]) == ({"id": "1", "name": "a"}, {"id": "1"}, [])


@pytest.mark.parametrize(
    ("data", "before", "changed", "said", "sentence"),
    [
        ("a", "b", "02", ["name"], None),
        ("a", "a", "00", [], None),
        ("a", "a", "", [], None),
        (None, None, "00", [], None),
        ("a", None, "02", ["name"], None),
        ("a", "a", "02", ["name"], "changed by the mask only: name; by the images only: none"),
        ("a", "b", "00", [], "changed by the mask only: none; by the images only: name"),
        ("", None, "0", [], "changed by the mask only: none; by the images only: name"),
    ],
)
def test_an_update_is_held_to_its_change_mask(
    tmp_path: Path, data: Any, before: Any, changed: str, said: list[str], sentence: str | None
) -> None:
    row = masked(tmp_path, "UPDATE", {"id": 1, "name": data}, {"id": 1, "name": before}, changed, None)
    assert row["changed_columns"] == said, "the mask is believed"
    whole = f"change mask and images disagree; the mask is used; {sentence}"
    assert (row["problems"], row["details"]) == ((["mask_images"], [whole]) if sentence else ([], []))


def test_images_with_different_columns_are_compared_in_those_that_both_have(tmp_path: Path) -> None:
    row = masked(tmp_path, "UPDATE", {"id": 2, "name": "a", "price": "1"}, {"price": "1", "id": 1}, "02", None)
    assert (row["changed_columns"], row["problems"]) == (["name"], ["mask_images"])
    assert row["details"][0].endswith("; changed by the mask only: none; by the images only: id")


def test_the_warning_names_some_columns_and_counts_the_others(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(9)]
    data, before = (dict.fromkeys(names, value) for value in ("new", "old"))
    (row,) = events(tmp_path, record(data | {"c0": "old"}, before, changeMask="0001", columnMask=None))
    assert row["changed_columns"] == ["c0"]
    assert "; changed by the mask only: c0; by the images only: c1, c2, c3, c4, c5 and 3 more" in row["details"][0]


def test_a_large_object_is_in_no_change_mask(tmp_path: Path) -> None:
    data, before = {"id": 1, "name": "a", "text": "new"}, {"id": 1, "name": "a", "text": "old"}
    row = masked(tmp_path, "UPDATE", data, before, "00", "07")
    assert (row["changed_columns"], row["problems"]) == ([], [])
    alone = events(tmp_path, record(data, before, changeMask="00", columnMask="07"))[0]
    assert alone["problems"] == ["mask_images"], "without metadata nobody knows that it is one"
    assert "without metadata none is known" in alone["details"][0]


@pytest.mark.parametrize("operation", ["INSERT", "DELETE", "REFRESH"])
def test_only_updates_are_held_to_their_change_mask(tmp_path: Path, operation: str) -> None:
    row = masked(tmp_path, operation, {"id": 1, "name": "a"}, {"id": 1, "name": "b"}, "00", None)
    assert (row["changed_columns"], row["problems"]) == ([], [])


@pytest.mark.parametrize(
    ("mask", "names", "codes"),
    [
        ("0B", ["id", "name", "price"], []),
        ("0b", ["id", "name", "price"], []),
        ("b", ["id", "name", "price"], []),
        ("0x0B", ["id", "name", "price"], []),
        ("00000B", ["id", "name", "price"], []),
        ("zz", None, ["mask"]),
        ("0x0G", None, ["mask"]),
        ({"a": 1}, None, ["mask"]),
        ("1B", ["id", "name", "price"], ["mask"]),
        ("FF000000000000000B", ["id", "name", "price"], ["mask"]),
        (None, None, []),
        (11, ["id"], ["mask"]),
    ],
)
def test_masks_as_text(tmp_path: Path, mask: Any, names: list[str] | None, codes: list[str]) -> None:
    row = masked(tmp_path, "INSERT", {"id": 1}, None, mask, None)
    assert (row["changed_columns"], row["problems"]) == (names, codes)
    if codes:
        assert "beyond the 4 columns" in row["details"][0] or "expected hexadecimal digits" in row["details"][0]


def test_a_mask_in_base64_shows_that_the_other_one_is_in_base64(tmp_path: Path) -> None:
    data = {f"c{number}": "x" for number in range(16)}
    message = record(data, data | {"c0": "y"}, changeMask="AAAB", columnMask="AP//")
    (row,) = events(tmp_path, message)
    assert (row["changed_columns"], row["problems"]) == (["c0"], [])
    message = record(data, data | {"c0": "y"}, changeMask="AQAA", columnMask="//8A")
    (row,) = events(tmp_path, message, mask_order="little")
    assert (row["changed_columns"], row["problems"]) == (["c0"], [])


@pytest.mark.parametrize("form", ["json", "avro"])
def test_masks_of_1024_columns(tmp_path: Path, form: str) -> None:
    names = [f"c{at}" for at in range(1024)]
    chosen = {0, 7, 8, 511, 1000, 1023}
    data = {name: str(at) if at in chosen else None for at, name in enumerate(names)}
    before = {**data, "c511": "x"}
    changed, present = 1 << 511, sum(1 << at for at in chosen)
    if form == "json":
        masks: dict[str, Any] = {"changeMask": f"{changed:0258X}", "columnMask": f"{present:0258X}"}
        message: Any = record(data, before, **masks)
    else:
        masks = {"changeMask": changed.to_bytes(129, "big"), "columnMask": present.to_bytes(129, "big")}
        schema = data_schema(dict.fromkeys(names, "string"))
        message = avro_envelope(avro_record(schema, data, before, **masks), None, messageSchema=schema)
    (row,) = events(tmp_path, message)
    assert row["changed_columns"] == ["c511"]
    assert row["present_columns"] == [names[at] for at in sorted(chosen)]
    assert row["after"] == {names[at]: str(at) for at in sorted(chosen)}
    assert (row["before"]["c511"], row["problems"]) == ("x", [])
    assert row["change_mask"] == f"{changed:0258X}"


def test_a_bit_of_an_ordinal_that_no_column_has_names_none(tmp_path: Path) -> None:
    described = metadata({"id": "INT4", "name": "STRING"})
    described["message"]["tableStructure"]["tableColumns"]["name"]["ordinal"] = 4
    message = record({"id": 1, "name": None}, operation="INSERT", changeMask="0F", columnMask="05")
    row = events(tmp_path, described, enveloped(message))[1]
    assert (row["changed_columns"], row["present_columns"], row["after"]) == (["id", "name"], ["id"], {"id": "1"})
    assert row["problems"] == []


def test_a_table_without_columns_has_rows_all_the_same(tmp_path: Path) -> None:
    row = events(tmp_path, metadata({}), enveloped(record(AFTER, BEFORE)))[1]
    assert (row["after"], row["changed_columns"]) == ({"id": "7", "name": "quartz"}, [])
    assert row["problems"] == ["mask", "mask"]


def test_columns_that_the_version_does_not_have_are_kept(tmp_path: Path) -> None:
    message = record({"id": 1, "added": "x", "name": None}, operation="INSERT", changeMask="01", columnMask="01")
    row = events(tmp_path, metadata({"id": "INT4", "name": "STRING"}), enveloped(message))[1]
    assert (row["after"], row["problems"]) == ({"id": "1", "added": "x"}, [])


def test_a_key_has_the_order_of_the_metadata(tmp_path: Path) -> None:
    described = metadata({"a": "INT4", "b": "INT4", "c": "INT4"}, key=("c", "a"))
    messages = [{"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2}]
    found = events(
        tmp_path, described, *(enveloped(record(one, operation="INSERT", changeMask=None)) for one in messages)
    )
    assert found[1]["key"] == {"c": "3", "a": "1"}
    assert list(found[1]["key"]) == ["c", "a"]
    assert found[2]["key"] is None, "a row that lacks a part of its key has none"


def test_values_of_json_keep_every_digit(tmp_path: Path) -> None:
    raw = (
        b'{"data":{"a":12345678901234567890123,"b":1.10,"c":1E+2,"d":true,"e":"","f":{"x":[1.50,null]},"g":"\\ud83d!",'
        b'"h":9007199254740993,"i":[],"j":"\\u00e9"},"beforeData":null,"headers":{"operation":"INSERT"}}'
    )
    (row,) = events(tmp_path, raw)
    assert row["after"] == {
        "a": "12345678901234567890123", "b": "1.10", "c": "1E+2", "d": "true", "e": "", "f": '{"x":[1.50,null]}',
        "g": "?!", "h": "9007199254740993", "i": "[]", "j": "é",
    }  # fmt: skip
    assert row["problems"] == []


def test_a_number_of_very_many_digits_keeps_them(tmp_path: Path) -> None:
    message = b'{"data":{"a":' + b"7" * 6000 + b'},"headers":{"operation":"INSERT"}}'
    (row,) = events(tmp_path, message)
    assert (row["kind"], row["problems"], row["after"]) == ("change", [], {"a": "7" * 6000})


# --- JSON that is odd -------------------------------------------------------------------------------------------------


def test_a_byte_order_mark_and_blanks_are_passed_over(tmp_path: Path) -> None:
    plain = json.dumps(record(AFTER, BEFORE)).encode()
    messages = [b"\xef\xbb\xbf" + plain, b" " * 100 + b"\r\n\t" + plain + b"\n", plain]
    found = events(tmp_path, *messages)
    assert [row["kind"] for row in found] == ["change"] * 3
    assert [row["raw"] for row in found] == messages
    assert [row["kind"] for row in events(tmp_path, b"\xef\xbb\xbf" * 5000 + plain)] == ["malformed"]


def test_of_a_key_that_repeats_the_last_one_counts(tmp_path: Path) -> None:
    raw = (
        b'{"data":{"id":1,"id":2},"headers":{"operation":"DELETE"},"beforeData":null,'
        b'"headers":{"operation":"UPDATE","operation":"INSERT"}}'
    )
    (row,) = events(tmp_path, raw)
    assert (row["operation"], row["after"], row["headers"]) == ("INSERT", {"id": "2"}, {"operation": "INSERT"})


def test_half_a_character_becomes_a_question_mark_wherever_it_stands(tmp_path: Path) -> None:
    half = "\\ud83d"
    raw = (
        f'{{"data":{{"a{half}":"x{half}","b":["{half}"]}},"headers":{{"operation":"{half}","h{half}":"{half}"}},'
        f'"schema":"{half}","table":"t{half}"}}'
    ).encode()
    described = metadata({"id": "INT4"})
    described["message"]["lineage"]["server"] = half
    found = events(
        tmp_path,
        raw,
        json.dumps(described).replace("\\\\ud", "\\ud").encode(),
    )
    assert [row["kind"] for row in found] == ["change", "schema"]
    assert (found[0]["after"], found[0]["operation"]) == ({"a?": "x?", "b": '["?"]'}, "UNKNOWN(?)")
    assert (found[0]["schema_name"], found[0]["table_name"]) == ("?", "t?")
    assert found[1]["headers"]["lineage.server"] == "?"


def test_what_connect_wrapped_is_unwrapped(tmp_path: Path) -> None:
    wrapped = {"schema": {"type": "struct", "fields": []}, "payload": enveloped(record(AFTER, BEFORE))}
    bare = {"schema": None, "payload": record(AFTER, BEFORE)}
    found = events(tmp_path, metadata({"id": "INT4", "name": "STRING"}), wrapped, bare)[1:]
    assert [(row["record_type"], row["table_version"]) for row in found] == [
        ("DT", SCHEMA_ID),
        ("DataRecord", "unnamed@1"),
    ]
    assert [row["after"] for row in found] == [{"id": "7", "name": "quartz"}] * 2


def test_tombstones_know_their_key_only(tmp_path: Path) -> None:
    path = tmp_path / "topic.json"
    line = {"topic": "shop.stock", "partition": 2, "offset": 9, "tstype": "create", "ts": 1770091506123, "key": "7"}
    path.write_text(json.dumps({**line, "payload": None}) + "\n" + json.dumps({**line, "offset": 10, "payload": "{}"}))
    first, second = rows(path, container="auto")
    assert (first["kind"], first["record_type"], first["operation"], first["raw"]) == ("tombstone", None, None, None)
    assert first["headers"] == {
        "kafka.topic": "shop.stock", "kafka.partition": "2", "kafka.offset": "9", "kafka.key": "7",
        "kafka.timestamp": "2026-02-03T04:05:06.123Z", "kafka.timestamp_type": "CreateTime",
    }  # fmt: skip
    assert (second["kind"], second["details"]) == (
        "malformed", ["a JSON object that is not one of Qlik's messages: its keys are none"]
    )  # fmt: skip
    assert second["headers"]["kafka.offset"] == "10"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "none of Qlik's wire forms: expected a JSON object, the Avro envelope (atMSG)"),
        (b"hello", "found the bytes 68 65 6c 6c 6f"),
        (b"\x00\x00\x00", "none of Qlik's wire forms"),
        (b'{"a":1}{', "expected a JSON document"),
        (b'{"data":{"a":"\xff"},"headers":{}}', "expected a JSON document"),
        (b'{"magic":"atMSG","type":"XX","message":{}}', "expected the message type DT or MD, found 'XX'"),
        (b'{"magic":"atMSG","type":"DT","message":5}', "expected the envelope's message as an object, found a number"),
        (b'{"data":[],"headers":{}}', "expected data as an object or null, found an array"),
        (
            b'{"op":"I","data":[{"a":"1"}]}',
            "a message of Attunity 5 (op, and data as an array), which cdcwb does not read",
        ),
        (b'{"a":' * 5000, "nested too deeply"),
        (b"atMSG", "Avro envelope: "),
        (b"atMSG\x04DX\x00\x00\x00\x00", "expected the message type DT or MD, found 'DX'"),
        (b"atMSG\x04MD\x00\x00\x00\x00", "a metadata message in Avro without its writer schema"),
    ],
)
def test_what_is_no_message_is_kept_with_the_reason(tmp_path: Path, message: bytes, reason: str) -> None:
    row, good = events(tmp_path, message, record(AFTER, BEFORE))
    assert (row["kind"], row["record_type"], row["operation"], row["raw"]) == ("malformed", None, None, message)
    assert row["problems"] == ["malformed"]
    assert reason in row["details"][0]
    assert (good["kind"], good["problems"]) == ("change", [])


@pytest.mark.parametrize(
    "message", [enveloped(record(AFTER, BEFORE)), record(AFTER, BEFORE)], ids=["envelope", "record"]
)
def test_a_message_that_is_cut_off_is_malformed(tmp_path: Path, message: Any) -> None:
    text = json.dumps(message).encode()
    for length in range(len(text) - 1, 0, -3):
        good, row = events(tmp_path, text, text[:length])
        assert (good["kind"], row["kind"], row["problems"]) == ("change", "malformed", ["truncated"])
        assert row["details"] == [f"the JSON message is cut off after byte {length}"]
        for name in ("record_type", "operation", "position", "transaction_id", "before", "after", "headers"):
            assert row[name] is None, name


def test_metadata_that_is_cut_off_describes_no_version(tmp_path: Path) -> None:
    text = json.dumps(metadata({"id": "INT4", "name": "STRING"})).encode()
    path = write(tmp_path, text[: text.index(b"tableStructure")], enveloped(record(AFTER, BEFORE)))
    assert [version.origin for version in versions(path)] == ["inferred"]
    row, _ = rows(path)
    assert (row["kind"], row["record_type"], row["problems"]) == ("malformed", None, ["truncated"])


@pytest.mark.parametrize("many", [0, 40])
def test_a_comma_too_many_is_passed_over_with_a_warning(tmp_path: Path, many: int) -> None:
    text = json.dumps(enveloped(record(AFTER, BEFORE))).encode()
    (whole,) = events(tmp_path, text)
    others = [text] * many
    for place in (len(text) - 1, text.index(b"}"), text.rindex(b"}}")):
        *_, row = events(tmp_path, *others, text[:place] + b"," + text[place:])
        assert (row["kind"], row["problems"][-1]) == ("change", "json_syntax")
        assert row["details"][-1].startswith(f"expected another field or item to follow the comma at byte {place},")
        for name in ("operation", "before", "after", "headers", "position", "table_version"):
            assert row[name] == whole[name]
        tree = dissect(text[:place] + b"," + text[place:], lambda _: "{}", columns=["id", "name"])
        assert [field.problem for field in tree.walk() if field.problem] == ["json_syntax"]


@pytest.mark.parametrize("indent", [None, 2])
def test_headings_between_messages_are_filler(tmp_path: Path, indent: int | None) -> None:
    text = json.dumps(enveloped(record(AFTER, BEFORE)), indent=indent)
    path = tmp_path / "notes.json"
    path.write_text("".join(f"{note}\n{text}\n\n" for note in ("INSERT", "UPDATE:", "# and the last")))
    kinds = read(path, format=FORMAT).column("kind").to_pylist()
    assert [kind for kind in kinds if kind != "filler"] == ["change"] * 3
    assert identify(path).format == "qlik-kafka"


def test_an_end_of_transaction_that_is_neither_true_nor_false_is_said(tmp_path: Path) -> None:
    (row,) = events(tmp_path, enveloped(record(AFTER, BEFORE, transactionLastEvent="maybe")))
    assert (row["last_in_transaction"], row["headers"]["transactionLastEvent"]) == (None, "maybe")
    assert "transactionLastEvent: expected true or false, found 'maybe'" in row["details"]


# --- versions and names of tables -------------------------------------------------------------------------------------


def test_metadata_that_is_sent_again_is_one_version(tmp_path: Path) -> None:
    described = metadata({"id": "INT4", "name": "STRING"})
    path = write(tmp_path, described, enveloped(record(AFTER, BEFORE)), described, enveloped(record(AFTER, BEFORE)))
    (version,) = versions(path)
    assert (version.table_version, version.offset, version.origin) == (SCHEMA_ID, 0, "record")
    assert [row["table_version"] for row in rows(path)] == [SCHEMA_ID] * 4


def test_two_ids_of_one_table_are_two_versions_wherever_they_stand(tmp_path: Path) -> None:
    first, second = metadata({"id": "INT4", "name": "STRING"}), metadata({"name": "STRING", "id": "INT4"}, "AB")
    one, other = enveloped(record(AFTER, BEFORE)), enveloped(record(AFTER, BEFORE), "AB")
    path = write(tmp_path, other, one, first, second, one, other)
    assert [version.table_version for version in versions(path)] == [SCHEMA_ID, "AB"]
    found = [row for row in rows(path) if row["kind"] == "change"]
    assert [row["table_version"] for row in found] == ["AB", SCHEMA_ID, SCHEMA_ID, "AB"]
    assert [row["changed_columns"] for row in found] == [["id"], ["name"], ["name"], ["id"]]
    assert [row["table_name"] for row in found] == ["stock"] * 4


def test_json_without_its_metadata_is_read_by_its_keys_and_reported(tmp_path: Path) -> None:
    delete = record({"id": 7}, operation="DELETE", changeMask="01", columnMask="01")
    path = write(tmp_path, enveloped(record(AFTER, BEFORE)), enveloped(delete))
    found = rows(path)
    assert [row["problems"] for row in found] == [["no_schema"], ["no_schema"]]
    assert found[0]["details"] == [
        f"the metadata message of schema {SCHEMA_ID} is not in the capture; ordinals are the order of the keys"
    ]
    assert [row["changed_columns"] for row in found] == [["name"], ["id"]]
    assert [row["before"] for row in found] == [{"id": "7", "name": None}, {"id": "7"}]
    beside = tmp_path / "beside.json"
    beside.write_text(json.dumps(metadata({"id": "INT4", "name": "STRING"})))
    resolved = rows(path, metadata=str(beside))
    assert [row["problems"] for row in resolved] == [[], []]
    assert [row["table_name"] for row in resolved] == ["stock", "stock"]
    assert [row["key"] for row in resolved] == [{"id": "7"}, {"id": "7"}]
    assert [(one.origin, one.file_index) for one in versions(path, metadata=str(beside))] == [("side file", -1)]


def test_avro_without_its_schema_is_kept_and_resolves_when_the_metadata_is_added(tmp_path: Path) -> None:
    schema = data_schema({"id": "int", "name": "string"})
    message = avro_envelope(avro_record(schema, AFTER, BEFORE))
    path = write(tmp_path, message)
    (row,) = rows(path)
    assert (row["kind"], row["record_type"], row["raw"]) == ("change", "DT", message)
    assert (row["operation"], row["before"], row["after"], row["table_version"]) == (None, None, None, None)
    assert (row["problems"], row["headers"]["messageSchemaId"]) == (["no_schema"], SCHEMA_ID)
    described = metadata({"id": "INT4", "name": "STRING"})
    described["message"]["dataSchema"] = schema
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "metadata.json").write_text(json.dumps(described))
    (resolved,) = rows(path, metadata=str(tmp_path / "beside"))
    assert (resolved["problems"], resolved["after"]) == ([], {"id": "7", "name": "quartz"})
    assert (resolved["changed_columns"], resolved["table_name"]) == (["name"], "stock")
    with pytest.raises(OptionError, match="no metadata message was found there"):
        rows(path, metadata=str(path))


def test_metadata_in_avro_brings_the_schema_of_its_data(tmp_path: Path) -> None:
    schema = data_schema({"id": "int", "Lineage": "string"})
    described = metadata({"id": "INT4", "Lineage": "STRING"})["message"] | {"dataSchema": schema}
    facts = [
        {"name": name, "type": "int"} for name in ("ordinal", "length", "precision", "scale", "primaryKeyPosition")
    ]
    facts += [{"name": "type", "type": "string"}, {"name": "nullable", "type": "boolean"}]
    lineage = [{"name": name, "type": "string"} for name in ("server", "task", "schema", "table", "timestamp")]
    columns = [{"name": name, "type": {"type": "record", "name": name, "fields": facts}} for name in ("id", "Lineage")]

    def schema_of(*names: str) -> dict[str, Any]:
        """The schema of the metadata message; ``names``: of the two records that may be called the same."""
        inner = [
            dict(one, type={**one["type"], "name": name}) for one, name in zip(columns, ("id", names[1]), strict=True)
        ]
        table = {"type": "record", "name": "TableColumns", "fields": inner}
        structure = {"type": "record", "name": "TableStructure", "fields": [{"name": "tableColumns", "type": table}]}
        version = {"name": "tableVersion", "type": "long"}
        fields = [
            {"name": "schemaId", "type": "string"},
            {"name": "lineage", "type": {"type": "record", "name": names[0], "fields": [*lineage, version]}},
            {"name": "tableStructure", "type": structure},
            {"name": "dataSchema", "type": "string"},
        ]
        return {"type": "record", "name": "MetadataMessage", "fields": fields}

    told = json.dumps(schema_of("Lineage", "Lineage"))  # what a column of that name makes of it
    written = avro(schema_of("Lineage", "Other"), described)
    data = avro_envelope(avro_record(schema, {"id": 7, "Lineage": "x"}, operation="INSERT", changeMask=b"\x03"))
    found = events(tmp_path, data, avro_envelope(written, kind="MD", messageSchema=told))
    assert [row["problems"] for row in found] == [[], []]
    assert (found[0]["after"], found[0]["key"]) == ({"id": "7", "Lineage": "x"}, {"id": "7"})
    assert (found[1]["record_type"], found[1]["table_version"]) == ("MD", SCHEMA_ID)
    broken = events(tmp_path, avro_envelope(written, kind="MD", messageSchema="{nothing"))[0]
    assert (broken["kind"], broken["record_type"], broken["problems"]) == ("schema", "MD", ["schema_text"])
    assert broken["headers"]["messageSchemaId"] == SCHEMA_ID


@pytest.mark.parametrize("change", [{"schemaId": None}, {"tableStructure": {}}, {"schemaId": ""}])
def test_metadata_that_describes_no_table_is_reported_and_no_version(tmp_path: Path, change: Any) -> None:
    described = metadata({"id": "INT4"})
    described["message"] |= change
    path = write(tmp_path, described)
    assert [(row["kind"], row["problems"]) for row in rows(path)] == [("schema", ["schema_text"])]
    assert versions(path) == []


def test_a_schema_text_that_cannot_be_used_is_reported_on_every_message_that_needs_it(tmp_path: Path) -> None:
    described = metadata({"id": "INT4", "name": "STRING"})
    message = avro_record(data_schema({"id": "int", "name": "string"}), AFTER)
    for text in (
        '{"type":"record"',
        '{"type":"record","name":"X","fields":[]}',
        '{"type":"record","name":"X","fields":5}',
        '{"type":"record","name":"X","fields":[{"name":"headers","type":"string"}]}',
        STOCK.replace('["null", {"type": "record",', '["null", "int", {"type": "record",'),
        '"string"',
        "[" * 9000,
    ):
        described["message"]["dataSchema"] = text
        row = events(tmp_path, described, avro_envelope(message))[1]
        assert (row["kind"], row["problems"], row["after"]) == ("change", ["schema_text"], None), text
        inline = events(tmp_path, avro_envelope(message, None, messageSchema=text))[0]
        assert (inline["kind"], inline["problems"]) == ("change", ["schema_text"]), text


def test_names_that_avro_does_not_allow_are_read(tmp_path: Path) -> None:
    plain = data_schema({"item_no": "int", "price_eur": "string"}, "com.attunity.queue.msg.t1.shop.stock")
    odd = (
        plain.replace("item_no", "item-no")
        .replace("price_eur", "price €")
        .replace("msg.t1.shop", "msg.chips-qa.my-shop")
    )
    message = avro_record(plain, {"item_no": 7, "price_eur": "x"}, operation="INSERT", changeMask=b"\x02")
    (row,) = events(tmp_path, avro_envelope(message, None, messageSchema=odd))
    assert (row["after"], row["changed_columns"]) == ({"item-no": "7", "price €": "x"}, ["price €"])
    assert (row["schema_name"], row["table_name"], row["problems"]) == ("my-shop", "stock", [])


def test_a_changed_external_schema_id_opens_a_version_without_metadata(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        *(record(AFTER, BEFORE, externalSchemaId=one) for one in ("1", "1", "2")),
        *(
            record({"id": at}, operation="DELETE", changeMask=None, columnMask=None, externalSchemaId="2")
            for at in (1, 2)
        ),
        record({"name": "x"}, operation="INSERT", changeMask=None, columnMask=None, externalSchemaId="2"),
        record({"id": 1, "name": "x", "more": 1}, operation="INSERT", changeMask=None, columnMask=None),
    )
    names = [version.table_version for version in versions(path)]
    assert len(set(names)) == len(names) == 5
    assert [version.origin for version in versions(path)] == ["inferred"] * 5
    found = [row["table_version"] for row in rows(path)]
    assert found[:3] == ["external 1", "external 1", "external 2"]
    assert found[3] == found[4] != found[5]
    assert found[6] == "unnamed@1"
    assert set(found) == set(names)


@pytest.mark.parametrize("place", ["message", "headers", "topic", "none"])
def test_what_named_a_table_is_detected(tmp_path: Path, place: str) -> None:
    message = record({"id": 1}, operation="INSERT", changeMask=None, columnMask=None)
    topic = "s.topic" if place == "topic" else "changes 1"
    if place == "message":
        message |= {"schema": "s", "table": "m"}
    elif place == "headers":
        message["headers"] |= {"schema": "s", "table": "h"}
    line: dict[str, Any] = {"topic": topic, "partition": 0, "offset": 0, "key": "s.key"}
    path = tmp_path / "topic.json"
    path.write_text(
        "".join(json.dumps({**line, "offset": at, "payload": json.dumps(message)}) + "\n" for at in range(3))
    )
    name = {"message": "m", "headers": "h", "topic": "topic"}.get(place)
    found = rows(path, container="auto")
    assert [(row["schema_name"], row["table_name"]) for row in found] == [("s" if name else None, name)] * 3
    detected = [row for row in plan_of(path, FORMAT).detected if row["setting"] == "table"]
    assert [(row["value"], row["scope"], row["overridden"]) for row in detected] == (
        [(f"s.{name}", f"s.{name}", False)] if name else []
    )


# --- a schema registry ------------------------------------------------------------------------------------------------


def test_a_registry_id_that_nobody_knows_keeps_the_message(tmp_path: Path) -> None:
    message = framed(42, avro_record(STOCK, AFTER, BEFORE))
    (row,) = events(tmp_path, message)
    assert (row["kind"], row["record_type"], row["raw"], row["problems"]) == (
        "change", "DataRecord", message, ["no_registry"]
    )  # fmt: skip
    assert (row["headers"], row["after"], row["table_version"]) == ({"schemaId": "42"}, None, None)
    (tmp_path / "registry").mkdir()
    assert rows(tmp_path / "capture.parquet", registry=str(tmp_path / "registry"))[0]["problems"] == ["no_registry"]
    with pytest.raises(OptionError, match="expected a folder of <id>"):
        rows(tmp_path / "capture.parquet", registry=str(tmp_path / "nowhere"))


@pytest.mark.parametrize("name", ["42.avsc", "42.json"])
@pytest.mark.parametrize("answer", [STOCK, json.dumps({"schema": STOCK}), "\ufeff" + STOCK])
def test_a_folder_of_schemas_is_a_registry(tmp_path: Path, name: str, answer: str) -> None:
    (tmp_path / "registry").mkdir()
    (tmp_path / "registry" / name).write_text(answer, encoding="utf-8")
    (row,) = events(tmp_path, framed(42, avro_record(STOCK, AFTER, BEFORE)), registry=str(tmp_path / "registry"))
    assert (row["problems"], row["after"], row["table_version"]) == ([], {"id": "7", "name": "quartz"}, "42")
    assert (row["schema_name"], row["table_name"], row["changed_columns"]) == ("shop", "stock", ["name"])


def test_two_ids_of_a_registry_are_two_versions(tmp_path: Path) -> None:
    (tmp_path / "registry").mkdir()
    other = data_schema({"name": "string", "id": "long"})
    for number, text in ((1, STOCK), (2, other), (3, '{"type": "record", "name": "X", "fields": []}')):
        (tmp_path / "registry" / f"{number}.avsc").write_text(text)
    pieces = [framed(1, avro_record(STOCK, AFTER, BEFORE)), framed(2, avro_record(other, AFTER, BEFORE))]
    path = write(tmp_path, *pieces, framed(3, b""), *pieces)
    found = rows(path, registry=str(tmp_path / "registry"))
    assert [row["table_version"] for row in found] == ["1", "2", None, "1", "2"]
    assert [row["changed_columns"] for row in found] == [["name"], ["id"], None, ["name"], ["id"]]
    assert [row["problems"] for row in found] == [[], ["mask_images"], ["schema_text"], [], ["mask_images"]]
    said = [
        (one.table_version, one.origin, one.full_name) for one in versions(path, registry=str(tmp_path / "registry"))
    ]
    assert said[:2] == [("1", "registry", "shop.stock"), ("2", "registry", "shop.stock")]


@contextmanager
def server(answers: dict[str, tuple[int, str]]) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """A schema registry on this machine: what it answers to each path; and what it was asked, with what authority."""
    asked: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("Authorization")))
            status, text = answers.get(self.path, (404, '{"error_code": 40403}'))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{http.server_port}", asked
        finally:
            http.shutdown()
            thread.join()


def test_a_registry_is_asked_once_for_each_id(tmp_path: Path) -> None:
    message = avro_record(STOCK, AFTER, BEFORE)
    path = write(tmp_path, framed(42, message), framed(7, message), framed(42, message), framed(42, message))
    with server({"/registry/schemas/ids/42": (200, json.dumps({"schema": STOCK}))}) as (place, asked):
        found = rows(path, registry=f"http://reader:s%40crt@{place}/registry/")
    assert asked == [
        (f"/registry/schemas/ids/{number}", "Basic " + base64.b64encode(b"reader:s@crt").decode()) for number in (7, 42)
    ]
    assert [row["problems"] for row in found] == [[], ["no_registry"], [], []], "404: it does not have it"
    assert [row["table_version"] for row in found] == ["42", None, "42", "42"]


@pytest.mark.parametrize("answer", [(500, "broken"), (401, ""), (200, "no schema")])
def test_a_registry_that_fails_is_an_error_without_its_password(tmp_path: Path, answer: tuple[int, str]) -> None:
    path = write(tmp_path, framed(42, b""))
    with server({"/schemas/ids/42": answer}) as (place, _), pytest.raises(CaptureError) as caught:
        rows(path, registry=f"http://reader:s3cret@{place}")
    assert "the schema registry does not return schema 42" in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert caught.value.path == f"http://{place}"


def test_a_registry_that_is_not_there_is_an_error_without_its_password(tmp_path: Path) -> None:
    path = write(tmp_path, framed(42, b""))
    with server({}) as (place, _):
        pass
    with pytest.raises(CaptureError, match="the schema registry does not return schema 42") as caught:
        rows(path, registry=f"http://reader:s3cret@{place}")
    assert "s3cret" not in str(caught.value)


# --- values in Avro ---------------------------------------------------------------------------------------------------


def test_a_date_after_the_year_9999_is_a_problem_of_that_value_alone(tmp_path: Path) -> None:
    days = {"type": "int", "logicalType": "date"}
    schema, written = data_schema({"id": "int", "day": days}), data_schema({"id": "int", "day": "int"})
    headers: dict[str, Any] = {"operation": "INSERT", "changeMask": None, "columnMask": None}
    messages = [avro_record(written, {"id": at, "day": day}, **headers) for at, day in enumerate((0, 2932897))]
    found = events(tmp_path, *(avro_envelope(one, None, messageSchema=schema) for one in messages))
    assert [row["after"] for row in found] == [{"id": "0", "day": "1970-01-01"}, {"id": "1", "day": None}]
    assert [row["problems"] for row in found] == [[], ["time_range"]]
    assert found[1]["details"][0].startswith("data.day: expected a date of the years 1 to 9999")
    path = tmp_path / "capture.parquet"
    tree = inspect(path, 1, FORMAT, **WRITTEN).field
    assert {field.problem for field in tree.walk()} == {None, "time_range"}


# --- plain Avro -------------------------------------------------------------------------------------------------------


def test_plain_avro_is_read_with_the_schema_of_an_option(tmp_path: Path) -> None:
    schema = tmp_path / "schema.avsc"
    schema.write_text(STOCK)
    messages = [
        avro_record(STOCK, AFTER, BEFORE),
        avro_record(STOCK, None, AFTER, operation="DELETE", changeMask=None),  # begins with a zero
        b"\x02\x02",
    ]
    assert messages[1][0] == 0
    found = events(tmp_path, *messages, avro_schema=str(schema))
    assert [row["kind"] for row in found] == ["change", "change", "malformed"]
    assert [row["before"] for row in found] == [{"id": "7", "name": None}, {"id": "7", "name": "quartz"}, None]
    assert [row["table_version"] for row in found[:2]] == ["shop.stock@1"] * 2
    assert found[0]["headers"] == {
        **{name: str(value) for name, value in HEADERS.items()}, "transactionLastEvent": "true",
    }  # fmt: skip
    assert [one.origin for one in versions(tmp_path / "capture.parquet", avro_schema=str(schema))] == ["side file"]
    with pytest.raises(OptionError, match=r"option avro_schema: .* cannot be read"):
        rows(tmp_path / "capture.parquet", avro_schema=str(tmp_path / "nothing.avsc"))


def test_an_option_and_a_registry_do_not_mix(tmp_path: Path) -> None:
    (tmp_path / "registry").mkdir()
    (tmp_path / "registry" / "42.avsc").write_text(STOCK)
    plain = data_schema({"id": "int", "name": "string"}, "com.attunity.queue.msg.t1.shop.other")
    (tmp_path / "schema.avsc").write_text(plain)
    deleted = avro_record(plain, None, AFTER, operation="DELETE", changeMask=None)
    found = events(
        tmp_path,
        framed(42, avro_record(STOCK, AFTER, BEFORE)),
        deleted,
        registry=str(tmp_path / "registry"),
        avro_schema=str(tmp_path / "schema.avsc"),
    )
    assert [(row["table_name"], row["problems"]) for row in found] == [("stock", []), ("other", [])]


def test_masks_of_an_older_schema_are_text(tmp_path: Path) -> None:
    schema = STOCK.replace('"bytes"', '"string"')
    given = [("02", "03"), ("zz", "03"), (None, None)]
    messages = [avro_record(schema, AFTER, BEFORE, changeMask=one, columnMask=other) for one, other in given]
    found = events(tmp_path, *(avro_envelope(one, None, messageSchema=schema) for one in messages))
    assert [row["changed_columns"] for row in found] == [["name"], None, None]
    assert [row["problems"] for row in found] == [[], ["mask"], []]
    assert [row["change_mask"] for row in found] == ["02", "zz", None]


def test_a_container_of_records_brings_their_schema(tmp_path: Path) -> None:
    path = tmp_path / "topic+0.avro"
    masks = {"changeMask": b"\x02", "columnMask": b"\x03"}
    values = [
        {"data": AFTER, "beforeData": BEFORE, "headers": HEADERS | masks},
        {"data": None, "beforeData": AFTER, "headers": HEADERS | masks | {"operation": "DELETE", "changeMask": None}},
    ]
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(json.loads(STOCK)), values * 2)
    found = rows(path, container="auto")
    assert [(row["offset"], row["length"], row["offset_unit"]) for row in found] == [(at, 1, "row") for at in range(4)]
    assert [row["operation"] for row in found] == ["UPDATE", "DELETE"] * 2
    assert [row["after"] for row in found] == [{"id": "7", "name": "quartz"}, None] * 2
    assert [row["before"] for row in found] == [{"id": "7", "name": None}, {"id": "7", "name": "quartz"}] * 2
    assert [row["changed_columns"] for row in found] == [["name"], None] * 2
    assert {(row["schema_name"], row["table_name"], row["table_version"]) for row in found} == {
        ("shop", "stock", "shop.stock@1")
    }
    assert [row["problems"] for row in found] == [[]] * 4
    assert found[0]["raw"] == avro(STOCK, values[0])
