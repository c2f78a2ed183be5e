"""GoldenGate's JSON exports: every form of message, in every container that holds them."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcwb.errors import CaptureError
from cdcwb.formats.containers.envelopes import printed_record
from cdcwb.formats.dissector import TableRequest, Wanted, get_format, run_here
from cdcwb.formats.goldengate.definitions import names_of
from tests.goldengate_exports import FORM, check_fields, codes, planned, rows, sure, table_of
from tests.local import ledger

META: dict[str, Any] = {
    "table": "SHOP.ORDERS",
    "op_type": "U",
    "op_ts": "2024-03-05 10:00:00.123456",
    "current_ts": "2024-03-05T10:00:01.000000",
    "pos": "00000000220093626802",
}
OLD = {"ID": 7, "NAME": "old"}
NEW = {"ID": 7, "NAME": "new"}


def put(tmp_path: Path, data: bytes | str, name: str = "export.json") -> str:
    path = tmp_path / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(path)


def event(tmp_path: Path, message: dict[str, Any] | str, **more: Any) -> dict[str, Any]:
    text = message if isinstance(message, str) else json.dumps(message)
    (row,) = rows(put(tmp_path, text + "\n"), **more)
    return row


# --- forms ------------------------------------------------------------------------------------------------------------


def test_an_operation_has_its_images_its_place_and_every_field_as_a_header(tmp_path: Path) -> None:
    row = event(tmp_path, {**META, "primary_keys": ["ID"], "before": OLD, "after": NEW})
    assert (row["format"], row["kind"], row["operation"], row["record_type"]) == (
        "goldengate-export", "change", "UPDATE", "U",
    )  # fmt: skip
    assert (row["schema_name"], row["table_name"], row["table_version"]) == ("SHOP", "ORDERS", "SHOP.ORDERS@1")
    assert (row["before"], row["after"]) == ({"ID": "7", "NAME": "old"}, {"ID": "7", "NAME": "new"})
    assert row["key"] == {"ID": "7"}
    assert row["position"] == "00000000220093626802"
    assert row["headers"] == {**META, "primary_keys": '["ID"]'}
    assert (row["file_index"], row["offset_unit"], row["problems"]) == (0, "byte", None)
    assert (row["changed_at"], row["transaction_id"], row["event_no"], row["last_in_transaction"]) == (None,) * 4


@pytest.mark.parametrize("before", [{}, None, "absent"])
def test_an_update_without_a_before_image_has_none(tmp_path: Path, before: Any) -> None:
    message = {**META, "before": before, "after": NEW}
    if before == "absent":
        del message["before"]
    row = event(tmp_path, message)
    assert (row["before"], row["after"]) == (None, {"ID": "7", "NAME": "new"})


@pytest.mark.parametrize("images", [{"before": OLD}, {"before": OLD, "after": None}, {"before": None, "after": OLD}])
def test_a_deleted_row_is_the_before_image_wherever_it_stands(tmp_path: Path, images: dict[str, Any]) -> None:
    row = event(tmp_path, {**META, "op_type": "D", "primary_keys": ["ID"], **images})
    assert (row["operation"], row["before"], row["after"]) == ("DELETE", {"ID": "7", "NAME": "old"}, None)
    assert row["key"] == {"ID": "7"}


@pytest.mark.parametrize("letter", ["I", "U", "D"])
def test_a_message_that_models_a_row_has_its_columns_beside_the_fields(tmp_path: Path, letter: str) -> None:
    row = event(tmp_path, {**META, "op_type": letter, "primary_keys": ["ID"], "tokens": {"R": "AAA"}, **NEW})
    there, none = ("before", "after") if letter == "D" else ("after", "before")
    assert (row[there], row[none]) == ({"ID": "7", "NAME": "new"}, None)
    assert row["headers"] == {**META, "op_type": letter, "primary_keys": '["ID"]', "R": "AAA"}


def test_a_column_that_is_called_as_a_field_is_one_behind_the_first_column(tmp_path: Path) -> None:
    row = event(tmp_path, {**META, "csn": "99", "ID": 1, "rowid": "mine", "position": "left"})
    assert row["after"] == {"ID": "1", "rowid": "mine", "position": "left"}
    assert row["headers"]["csn"] == "99"


def test_what_kafka_connect_wrapped_is_read_as_if_it_stood_alone(tmp_path: Path) -> None:
    message = {**META, "before": OLD, "after": NEW}
    plain = event(tmp_path, message)
    wrapped = event(tmp_path, {"schema": {"type": "struct", "fields": []}, "payload": message})
    same = [name for name in plain if name not in ("offset", "length", "raw")]
    assert {name: wrapped[name] for name in same} == {name: plain[name] for name in same}


def test_a_tombstone_that_kafka_connect_wrapped_is_one(tmp_path: Path) -> None:
    good, gone = rows(put(tmp_path, LINE + '\n{"schema": null, "payload": null}\n'))
    assert (good["kind"], gone["kind"], gone["problems"]) == ("change", "tombstone", None)


def test_a_missing_column_is_not_in_the_image_and_null_is_null(tmp_path: Path) -> None:
    image = {"A": 1, "A_isMissing": False, "B": None, "B_isMissing": False, "C": None, "C_isMissing": True}
    row = event(tmp_path, {**META, "op_type": "I", "primary_keys": ["C"], "before": None, "after": image})
    assert row["after"] == {"A": "1", "B": None}
    assert row["key"] is None
    nothing = {"ID": None, "ID_isMissing": True}
    assert event(tmp_path, {**META, "before": nothing, "after": NEW})["before"] is None


def test_a_column_whose_name_ends_as_a_companions_stays_where_it_is_none(tmp_path: Path) -> None:
    row = event(tmp_path, {**META, "op_type": "I", "after": {"LUGGAGE_isMissing": True}})
    assert row["after"] == {"LUGGAGE_isMissing": "true"}


@pytest.mark.parametrize("name", ["position", "timestamp", "optype"])
def test_a_first_column_that_is_named_as_a_field_that_is_there_already_is_a_column(tmp_path: Path, name: str) -> None:
    row = event(tmp_path, {**META, name: "5", "NAME": "new"})
    assert row["after"] == {name: "5", "NAME": "new"}
    assert row["position"] == META["pos"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("T", (None, "T")),
        ("S.T", ("S", "T")),
        ("P.S.T", ("P.S", "T")),
        ('"S"."A.B"', ("S", "A.B")),
        ('S."He said ""no"""', ("S", 'He said "no"')),
        (None, (None, None)),
    ],
)
def test_a_table_is_parted_from_its_schema_at_the_last_dot(text: str | None, names: tuple[str, str]) -> None:
    assert names_of(text) == names


@pytest.mark.parametrize(
    ("letter", "operation"), [("I", "INSERT"), ("T", "TRUNCATE"), ("u", "UPDATE"), ("delete", "DELETE")]
)
def test_operations_are_known_however_they_are_spelled(tmp_path: Path, letter: str, operation: str) -> None:
    row = event(tmp_path, {**META, "op_type": letter, "before": None, "after": None})
    assert (row["kind"], row["operation"], row["problems"]) == ("change", operation, None)


def test_an_unknown_operation_passes_through_and_is_said(tmp_path: Path) -> None:
    row = event(tmp_path, {**META, "op_type": "X", "after": NEW})
    assert (row["kind"], row["operation"], codes(row)) == ("control", "UNKNOWN(X)", ["unknown_record_type"])


def test_names_from_the_template_are_understood(tmp_path: Path) -> None:
    message = {
        "${objectname}": "S.T",
        "${optype}": "I",
        "${timestamp[op_ts]}": META["op_ts"],
        "${position}": "1" * 20,
        "A": 1,
    }
    row = event(tmp_path, message)
    assert (row["table_name"], row["operation"], row["position"], row["after"]) == ("T", "INSERT", "1" * 20, {"A": "1"})


# --- values -----------------------------------------------------------------------------------------------------------


def test_values_lose_nothing(tmp_path: Path) -> None:
    image = (
        '{"A": 17520.00, "B": 1e400, "C": -0, "D": 123456789012345678901234567890, "E": "\\u00e9\\n", "F": true,'
        ' "G": {"x": [1, 2.50]}, "H": [ ], "I": 0.1000, "J": ""}'
    )
    row = event(tmp_path, json.dumps({**META, "op_type": "I", "after": "@"}).replace('"@"', image))
    assert row["after"] == {
        "A": "17520.00",
        "B": "1e400",
        "C": "-0",
        "D": "123456789012345678901234567890",
        "E": "é\n",
        "F": "true",
        "G": '{"x":[1,2.50]}',
        "H": "[]",
        "I": "0.1000",
        "J": "",
    }


def test_a_column_may_be_of_another_type_in_each_message(tmp_path: Path) -> None:
    values = ["1", '"1"', "true", "null", "[1]", "1.50"]
    text = "\n".join(json.dumps({**META, "after": {"A": "@"}}).replace('"@"', value) for value in values)
    assert [row["after"]["A"] for row in rows(put(tmp_path, text))] == ["1", "1", "true", None, "[1]", "1.50"]


@pytest.mark.parametrize(
    ("pos", "position", "found"),
    [
        ("00000000000000001444", "00000000000000001444", []),
        ("000000220093626802", "00000000220093626802", []),
        (1444, "00000000000000001444", []),
        ("", None, []),
        (None, None, []),
        ("00000000000000000000143", "00000000000000000143", ["header_value"]),
        ("12300000000000000000143", None, ["header_value"]),
        ("G-AAA", None, ["header_value"]),
    ],
)
def test_positions_are_twenty_digits_or_null(tmp_path: Path, pos: Any, position: Any, found: list[str]) -> None:
    row = event(tmp_path, {**META, "pos": pos, "after": NEW})
    assert (row["position"], codes(row)) == (position, found)
    assert row["headers"]["pos"] == (pos if pos is None else str(pos))
    if found:
        assert f"expected a position of at most 20 digits, found '{pos}'" in row["problems"][0]["detail"]


def test_a_transaction_indicator_that_is_none_is_said(tmp_path: Path) -> None:
    row = event(tmp_path, {**META, "xid": "1", "txind": "X", "after": NEW})
    assert (row["last_in_transaction"], row["headers"]["txind"], codes(row)) == (None, "X", ["header_value"])
    assert "found 'X'" in row["problems"][0]["detail"]


def test_a_position_is_put_together_where_only_its_halves_are_told(tmp_path: Path) -> None:
    message = {**META, "seqno": 22, "rba": 93626802, "after": NEW}
    del message["pos"]
    assert event(tmp_path, message)["position"] == "00000000220093626802"


# --- transactions and tokens ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"tokens": {"6": "9.0.80330", "L": "206", "R": "AAA"}},
        {"tokens": {"TRANID": "9.0.80330", "LOGCSN": "206"}},
        {"xid": "9.0.80330", "csn": "206"},
        {"xid": "other", "tokens": {"TK-XID": "9.0.80330", "TK-CSN": "206"}},
    ],
)
def test_transaction_and_csn_are_those_of_the_tokens_or_of_the_fields(tmp_path: Path, fields: dict[str, Any]) -> None:
    row = event(tmp_path, {**META, **fields, "after": NEW})
    assert (row["transaction_id"], row["headers"]["csn"]) == ("9.0.80330", "206")
    for name, value in {**fields, **fields.get("tokens", {})}.items():
        assert name == "tokens" or row["headers"][name] == value


def test_nothing_is_made_up_where_no_transaction_is_told(tmp_path: Path) -> None:
    row = event(tmp_path, {**META, "tokens": {"R": "AAA"}, "after": NEW})
    assert row["transaction_id"] is None
    assert not {"csn", "xid", "TransInd"} & set(row["headers"])


@pytest.mark.parametrize(
    ("told", "place", "last"),
    [("B", "0", False), ("M", "1", False), ("E", "2", True), ("W", "3", True), (3, "3", True)],
)
def test_the_transaction_indicator_tells_the_end(tmp_path: Path, told: Any, place: str, last: bool) -> None:
    row = event(tmp_path, {**META, "txind": told, "xid": "1.2.3", "after": NEW})
    assert (row["headers"]["TransInd"], row["last_in_transaction"]) == (place, last)
    assert row["commit_position"] == (row["position"] if last else None)


# --- times ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["2024-03-05 10:00:00.123456", "2024-03-05T10:00:00.123456", "2024-03-05:10:00:00.1234567"]
)
def test_a_printed_time_is_null_until_its_zone_is_given(tmp_path: Path, text: str) -> None:
    message = {**META, "op_ts": text, "after": NEW}
    row = event(tmp_path, message)
    assert (row["changed_at"], row["headers"]["op_ts"], row["problems"]) == (None, text, None)
    row = event(tmp_path, message, time_zone="+09:00")
    assert row["changed_at"] == dt.datetime(2024, 3, 5, 1, 0, 0, 123456, dt.UTC)


@pytest.mark.parametrize("text", ["2024-03-05T10:00:00.5Z", "2024-03-05 11:00:00.5+01:00"])
@pytest.mark.parametrize("options", [{}, {"time_zone": "+09:00"}])
def test_a_zone_in_the_text_counts_before_any_other(tmp_path: Path, text: str, options: dict[str, str]) -> None:
    row = event(tmp_path, {**META, "op_ts": text, "after": NEW}, **options)
    assert row["changed_at"] == dt.datetime(2024, 3, 5, 10, 0, 0, 500000, dt.UTC)
    assert row["problems"] is None


def test_times_that_are_invalid_or_ambiguous_are_problems(tmp_path: Path) -> None:
    row = event(tmp_path, {**META, "op_ts": "yesterday", "after": NEW}, time_zone="UTC")
    assert (row["changed_at"], codes(row)) == (None, ["value"])
    row = event(tmp_path, {**META, "op_ts": "9999-12-31 23:59:59.000000", "after": NEW}, time_zone="-05:00")
    assert (row["changed_at"], codes(row)) == (None, ["value"])
    row = event(tmp_path, {**META, "op_ts": "2024-10-27 02:30:00.000000", "after": NEW}, time_zone="Europe/Berlin")
    assert (row["changed_at"], codes(row)) == (dt.datetime(2024, 10, 27, 0, 30, tzinfo=dt.UTC), ["time_zone"])


# --- containers -------------------------------------------------------------------------------------------------------

MESSAGE = {**META, "primary_keys": ["ID"], "tokens": {"6": "1.2.3"}, "before": OLD, "after": NEW}
LINE = json.dumps(MESSAGE, ensure_ascii=False)
PRETTY = json.dumps(MESSAGE, indent=2)


def wrapped(number: int) -> str:
    return json.dumps({"topic": "orders", "partition": 0, "offset": number, "key": "k", "payload": LINE})


CONTAINERS: dict[str, bytes] = {
    "lines": (LINE + "\n").encode() * 5,
    "console": b"".join(b"CreateTime:1700000000000\tkey\t" + LINE.encode() + b"\n" for _ in range(5)),
    "kcat": "".join(wrapped(at) + "\n" for at in range(5)).encode(),
    "documents": (PRETTY + "\n").encode() * 5,
    "documents without a line between": LINE.encode() * 5,
    "one message": PRETTY.encode(),
    "literals": b"".join(b"2024-01-01 INFO got " + repr(LINE.encode()).encode() + b"\n" for _ in range(5)),
    "double quoted literals": (b'Received: b"' + LINE.replace('"', '\\"').encode() + b'"\n') * 5,
}


@pytest.mark.parametrize("name", list(CONTAINERS))
@pytest.mark.parametrize("packed", [False, True])
def test_messages_are_the_same_in_every_container(tmp_path: Path, name: str, packed: bool) -> None:
    data = CONTAINERS[name]
    path = put(tmp_path, gzip.compress(data) if packed else data)
    assert sure(path) > 0.9
    table = table_of(path)
    assert ledger(table) == {path: len(data)}
    expected = event(tmp_path / "..", MESSAGE)
    for row in rows(path):
        for column in ("operation", "position", "transaction_id", "key", "before", "after", "table_version", "kind"):
            assert row[column] == expected[column]


def test_parquet_files_hold_messages_too(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    path = str(tmp_path / "topic.parquet")
    pq.write_table(pa.table({"key": [b"k"] * 3, "value": [LINE.encode()] * 2 + [None], "topic": ["orders"] * 3}), path)
    assert sure(path) > 0.9
    first, _, third = rows(path)
    assert (first["offset_unit"], first["after"], third["kind"]) == ("row", {"ID": "7", "NAME": "new"}, "tombstone")
    assert (first["headers"]["kafka.topic"], first["headers"]["kafka.key"]) == ("orders", "k")


def test_what_a_console_consumer_prints_becomes_headers(tmp_path: Path) -> None:
    row = rows(put(tmp_path, CONTAINERS["console"]))[0]
    assert row["headers"]["kafka.timestamp"] == "2023-11-14T22:13:20.000Z"
    assert row["headers"]["op_type"] == "U"


@pytest.mark.parametrize("name", list(CONTAINERS))
def test_parts_of_a_file_make_its_whole(tmp_path: Path, name: str) -> None:
    path = put(tmp_path, CONTAINERS[name])
    assert table_of(path, split_size=100).to_pylist() == table_of(path).to_pylist()


# --- several objects in a message -------------------------------------------------------------------------------------


def test_a_message_of_several_objects_is_malformed_and_the_cure_is_named(tmp_path: Path) -> None:
    line = LINE + "\n"
    found = rows(put(tmp_path, line + LINE + " " + line + line))
    assert [row["kind"] for row in found] == ["change", "malformed", "change"]
    assert found[1]["raw"].count(b'"op_type"') == 2
    assert "set the handler's mode to op" in found[1]["problems"][0]["detail"]


@pytest.mark.parametrize("behind", [" more", " 1", "]", "null", '"text"'])
def test_something_else_behind_an_object_makes_it_no_message(tmp_path: Path, behind: str) -> None:
    found = rows(put(tmp_path, LINE + "\n" + LINE + behind + "\n" + LINE + "\n"))
    assert [row["kind"] for row in found] == ["change", "malformed", "change"]


# --- bytes literals ---------------------------------------------------------------------------------------------------


def test_a_bytes_literal_without_an_end_is_malformed(tmp_path: Path) -> None:
    line = b"Received message: " + repr(LINE.encode()).encode()
    found = rows(put(tmp_path, b"\n".join([line, line[:-40], line[:-1], line, b"some note", b"{", b"7,8\n"])))
    kinds = ["change", "malformed", "malformed", "change", "filler", "malformed", "malformed"]
    assert [row["kind"] for row in found] == kinds
    assert found[2]["problems"][0]["detail"] == "a bytes literal without a closing quote"


@given(st.text(), st.sampled_from(["", "Received message: ", "[2024] INFO b: "]))
def test_a_bytes_literal_has_the_bytes_that_python_would_print_so(text: str, lead: str) -> None:
    value = json.dumps({"a": text}, ensure_ascii=False).encode("utf-8", "replace")
    found = printed_record((lead + repr(value)).encode() + b" # more\n")
    assert found is not None
    assert found.value == value


# --- damage -----------------------------------------------------------------------------------------------------------


CUT = {**META, "primary_keys": ["ID"], "tokens": {"6": "9.0.1"}, "before": OLD, "after": {**NEW, "PRICE": 17.5}}


@pytest.mark.parametrize("indent", [None, 2])
def test_a_cut_message_is_one_malformed_event(tmp_path: Path, indent: int | None) -> None:
    text = json.dumps(CUT, indent=indent)
    for length in (*range(len(text) - 1, len(text) - 30, -1), *range(len(text) - 30, 60, -7)):
        path = put(tmp_path, text + "\n" + text[:length])
        whole, *_, row = rows(path)
        assert (whole["kind"], row["kind"], codes(row), row["after"]) == ("change", "malformed", ["truncated"], None)
        assert planned(path).facts["records"] == 1
    assert sure(put(tmp_path, text[:-3])) > 0.9


@pytest.mark.parametrize("space", ["", " ", "\n    "])
def test_a_comma_too_many_is_passed_over_with_a_warning(tmp_path: Path, space: str) -> None:
    good = json.dumps({**CUT, "odd": ",}"})
    for place in (len(good) - 1, good.index("}"), good.index("]")):
        text = good[:place] + "," + space + good[place:]
        whole = event(tmp_path, good)
        *_, row = rows(put(tmp_path, LINE + "\n" + text + "\n"))
        assert (row["kind"], codes(row)) == ("change", ["json_syntax"])
        sentence = f"expected another field or item to follow the comma at byte {place},"
        assert row["problems"][0]["detail"].startswith(sentence)
        for column in ("operation", "before", "after", "headers", "key", "position"):
            assert row[column] == whole[column]
        tree = check_fields(row["raw"], "json")
        assert {node.problem for node in tree.walk() if node.problem} == {"json_syntax"}


@pytest.mark.parametrize("text", ["{,}", '{"a":1,,}', '{"a":,}', '{"a":[,]}', '{"a":[1,,]}'])
def test_other_commas_are_no_json(tmp_path: Path, text: str) -> None:
    assert [row["kind"] for row in rows(put(tmp_path, LINE + "\n" + text + "\n"))] == ["change", "malformed"]


def test_headings_between_messages_are_filler(tmp_path: Path) -> None:
    text = "".join(f"{name}\n{json.dumps(CUT, indent=4)}\n\n" for name in ("INSERT", "UPDATE", "# DELETE"))
    assert [row["kind"] for row in rows(put(tmp_path, text))] == ["filler", "change"] * 3


@pytest.mark.parametrize(
    "text", ['{"a": 1}', '{"table": "S.T"}', '{"before": {}, "after": {}}', '{"table": 1, "b": 2}']
)
def test_json_that_is_none_of_goldengates_is_not_taken_for_it(tmp_path: Path, text: str) -> None:
    path = put(tmp_path, text + "\n")
    assert sure(path) == 0
    row = rows(path)[0]
    assert row["kind"] == "malformed"
    assert "not one of GoldenGate's" in row["problems"][0]["detail"]


@pytest.mark.parametrize("text", ["", "\n\n", "Logdump 12 >n\n", "id,name\n1,a\n", "\x00\x01\x02" * 20])
def test_other_files_are_not_recognised(tmp_path: Path, text: str) -> None:
    assert sure(put(tmp_path, text)) == 0


@pytest.mark.parametrize("name", list(CONTAINERS))
@settings(max_examples=settings.default.max_examples // 4)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(64, 900))
def test_damage_keeps_the_ledger_and_the_parts(
    tmp_path_factory: pytest.TempPathFactory, name: str, seed: int, times: int, split: int
) -> None:
    rng = random.Random(seed)
    data = bytearray(CONTAINERS[name])
    for _ in range(times):
        at = rng.randrange(len(data))
        size = rng.randrange(60)
        match rng.randrange(4):
            case 0:
                del data[at : at + size]
            case 1:
                data[at:at] = data[at : at + size]
            case 2:
                data[at:at] = rng.randbytes(size)
            case 3:
                data[at:at] = b"\nnote: nothing\n"
    path = put(tmp_path_factory.getbasetemp(), bytes(data), "damaged.json")
    whole = table_of(path)
    assert not data or ledger(whole) == {path: len(data)}
    assert table_of(path, split_size=split).to_pylist() == whole.to_pylist()
    for row in whole.to_pylist():
        check_fields(row["raw"], "json")
        assert (row["kind"] == "malformed") <= bool(row["problems"])


# --- summary, typed rows, one record ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(CONTAINERS))
def test_a_record_is_found_by_any_byte_of_it(tmp_path: Path, name: str) -> None:
    path = put(tmp_path, CONTAINERS[name])
    table = table_of(path).to_pylist()
    for row in table:
        for offset in (row["offset"], row["offset"] + row["length"] - 1):
            found = FORM.inspect(path, offset, {})
            assert (found.record, found.offset, found.event["after"]) == (row["raw"], row["offset"], row["after"])
    with pytest.raises(CaptureError, match="the file has"):
        FORM.inspect(path, table[-1]["offset"] + table[-1]["length"], {})


def test_columns_have_the_types_of_their_values(tmp_path: Path) -> None:
    images = [
        {"ID": 1, "PRICE": 1.5, "OK": True, "NAME": "a", "MIXED": 1, "NONE": None, "BIG": 10**30, "EXP": 1e300},
        {"ID": 20, "PRICE": 10.25, "OK": None, "NAME": None, "MIXED": "x", "NONE": None, "NEW": 3},
    ]
    text = "".join(json.dumps({**META, "primary_keys": ["ID"], "after": image}) + "\n" for image in images)
    path = put(tmp_path, text)
    plan, request = planned(path, split_size=100), TableRequest("ORDERS", images="after")
    types = {one.name: one.type for one in FORM.table_schema(plan, request).field("after").type}
    assert types == {
        "ID": pa.int64(),
        "PRICE": pa.decimal128(4, 2),
        "OK": pa.bool_(),
        "NAME": pa.string(),
        "MIXED": pa.string(),
        "NONE": pa.string(),
        "BIG": pa.decimal128(31, 0),
        "EXP": pa.float64(),
        "NEW": pa.int64(),
    }
    found = [
        row
        for split in range(len(plan.splits))
        for one in FORM.read_table(plan, split, request)
        for row in one.to_pylist()
    ]
    assert [(row["after"]["ID"], str(row["after"]["PRICE"]), row["after"]["OK"]) for row in found] == [
        (1, "1.50", True),
        (20, "10.25", None),
    ]
    (version,) = FORM.table_versions(plan).to_pylist()
    assert [(one["name"], one["key_position"]) for one in version["columns"]][:2] == [("ID", 1), ("PRICE", None)]


def test_wanted_leaves_out_what_is_not(tmp_path: Path) -> None:
    path = put(tmp_path, LINE + "\n{x\n" + json.dumps({**META, "table": "A.B", "after": NEW}) + "\n")
    bare = table_of(path, Wanted(images=False)).to_pylist()
    assert all(row[name] is None for row in bare for name in ("before", "after", "raw"))
    assert [row["kind"] for row in bare] == ["change", "malformed", "change"]
    assert len(table_of(path, Wanted(tables=frozenset({"A.B"}))).to_pylist()) == 1
    assert len(table_of(path, Wanted(drop_malformed=True)).to_pylist()) == 2


def test_the_tree_of_a_message_says_what_its_fields_mean() -> None:
    tree = check_fields(LINE.encode(), "json")
    by_name = {node.name: node for node in tree.walk() if node.name != "ID"}
    assert tree.meaning == "the operation: UPDATE"
    assert by_name["pos"].meaning == "trail file 22, byte 93626802"
    assert by_name["NAME"].meaning == "a column of the row after the change"
    assert by_name["6"].meaning == "id of the transaction"


@given(st.binary(max_size=200))
def test_any_bytes_have_a_tree(data: bytes) -> None:
    check_fields(data, "json")
    check_fields(b"x b'" + data, "json")


def test_a_json_message_is_found_by_its_place(tmp_path: Path) -> None:
    path = tmp_path / "messages.json"
    message = (
        '{"table":"SHOP.ORDERS","op_type":"I","op_ts":"2023-03-04 05:06:07.000000",'
        '"current_ts":"2023-03-04T05:06:08.000","pos":"00000000010000001880","after":{"ID":7}}\n'
    )
    path.write_text(message * 2)
    found = get_format("goldengate-export").inspect(str(path), len(message) + 3, {})
    assert (found.offset, found.event["operation"], found.event["table_name"]) == (len(message), "INSERT", "ORDERS")
    assert any(field.value == "7" for field in found.field.walk())


# --- messages of other releases and programs --------------------------------------------------------------------------


def of(tmp_path: Path, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    return rows(put(tmp_path, "\n".join(map(json.dumps, messages))))


def test_an_upsert_of_data_streams_is_an_update_of_the_table_that_it_names(tmp_path: Path) -> None:
    images = {"before": {"ID": 3, "SORT": "oak"}, "after": {"ID": 3, "SORT": "ash"}}
    message = {"op_type": "UPSERT", "qual_table": "WOOD.BOARD", "op_ts": "2026-03-04T05:06:07.000000Z", **images}
    (found,) = of(tmp_path, message)
    assert (found["kind"], found["operation"], found["record_type"]) == ("change", "UPDATE", "UPSERT")
    assert (found["schema_name"], found["table_name"]) == ("WOOD", "BOARD")
    assert (dict(found["before"]), dict(found["after"])) == ({"ID": "3", "SORT": "oak"}, {"ID": "3", "SORT": "ash"})


def test_records_that_describe_a_table_are_no_changes_and_give_its_key(tmp_path: Path) -> None:
    columns = {"ID": {"type": "number", "key": True}, "SORT": {"type": "string", "key": False}}
    described = {"op_type": "OBJECT_METADATA", "qual_table": "WOOD.BOARD", "columns": columns}
    schema = {"id": "WOOD.BOARD", "$schema": "http://json-schema.org/draft-04/schema#", "properties": {"op_type": {}}}
    change = {"op_type": "INSERT", "qual_table": "WOOD.BOARD", "op_ts": "2026-03-04T05:06:07Z", "after": {"ID": 3}}
    path = put(tmp_path, "\n".join(map(json.dumps, (schema, described, change))))
    found = rows(path)
    assert [one["kind"] for one in found] == ["schema", "schema", "change"]
    assert [one["table_name"] for one in found] == ["BOARD"] * 3
    assert [one["problems"] for one in found] == [None] * 3
    assert [one["after"] for one in found[:2]] == [None, None]
    form = get_format("goldengate-export")
    (version,) = form.table_versions(form.plan([path], {}, run_here)).to_pylist()
    assert [(one["name"], one["key_position"]) for one in version["columns"]] == [("ID", 1), ("SORT", None)]


def test_the_count_of_a_transaction_is_neither_a_change_nor_a_problem(tmp_path: Path) -> None:
    change = {"table": "WOOD.BOARD", "op_type": "I", "pos": "1234", "xid": "7.2.1", "after": {"ID": 3}}
    count = {"xid": "7.2.1", "event_count": 1, "data_collections": [{"data_collection": "WOOD.BOARD"}]}
    found = of(tmp_path, change, count)[1]
    assert (found["kind"], found["transaction_id"], found["problems"]) == ("control", "7.2.1", None)


def test_both_images_and_an_operation_are_enough_without_a_table(tmp_path: Path) -> None:
    images = {"before": None, "after": {"ID": 3}}
    found = of(tmp_path, {"op_type": "I", **images}, {"op_type": "D", "before": {"ID": 3}, "after": None})
    assert [(one["operation"], one["table_name"]) for one in found] == [("INSERT", None), ("DELETE", None)]


def test_columns_of_a_flattened_message_are_those_of_its_images(tmp_path: Path) -> None:
    message = {"table": "WOOD.BOARD", "op_type": "U", "before.ID": 3, "before.MARKS": [1, 2.50], "after.ID": 4}
    (found,) = rows(put(tmp_path, json.dumps(message).replace("2.5", "2.50")))
    assert (dict(found["before"]), dict(found["after"])) == ({"ID": "3", "MARKS": "[1,2.50]"}, {"ID": "4"})
    assert not any(name.startswith("before") for name in dict(found["headers"]))
