"""One record at a time: what it says of itself, its field tree, and every way in which its bytes can disagree."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.formats.dissector import Field
from cdcwb.formats.gbase8s.decode import event, schema_of
from cdcwb.formats.gbase8s.layout import StreamSettings, explain_error
from cdcwb.formats.gbase8s.schema import TableSchema, table_schema
from cdcwb.formats.gbase8s.tree import dissect, lsn
from cdcwb.model import Problem


def record(number: int, header: str, payload: str = "", *, scheme: int = 66, extra: int = 0) -> bytes:
    """A record from the hex of what stands behind its common header; ``extra`` is added to its header size."""
    rest, data = bytes.fromhex(header), bytes.fromhex(payload)
    words = (16 + len(rest) + extra, len(data), scheme, number)
    return b"".join(word.to_bytes(4, "big") for word in words) + rest + data


def schema_for(
    text: str, fixed_bytes: int | None = None, fixed: int | None = None, variable: int | None = None
) -> TableSchema:
    return table_schema(7, 2, text, (fixed_bytes, fixed, variable), "record")


ROW = "0000001C00AA5050 00000019 00000007 00000000"  # LSN 28:0xaa5050, transaction 25, label 7, no flags
ONE_VARCHAR = schema_for("id integer, name varchar(20,0)")
TWO_VARIABLE = schema_for("id integer, name varchar(20,0), note lvarchar(50)")
DOC_IS_UNKNOWN = (
    "table schema 7@2: the encoding of column 2 doc json is unknown: it and the 1 column after it stay undecoded"
)
COMMON = ("header_size", "payload_size", "packetization_scheme", "record_number")


def problems(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["code"], one["detail"]) for one in found["problems"] or []]


# --- the twelve types -------------------------------------------------------------------------------------------------

WORLD: dict[str, Any] = {
    "operation": None,
    "position": "0000001C00AA5018",
    "changed_at": None,
    "commit_position": None,
    "before": None,
    "after": None,
    "problems": None,
}
SEQUENCE = {"sequence_number": "0000001C00AA5018", "transaction_id": "25"}
NOON = datetime(2016, 3, 30, 12, 0, 0, tzinfo=UTC)
AFTER = {"id": "2000", "name": "Ada"}
ROW_HEADERS = {**SEQUENCE, "user_data": "7", "flags": "0", "variable_sizes": "5"}
ROW_HEX = "0000001C00AA5018 00000019 00000007 00000000 05000000", "000007D0 0003416461"


@pytest.mark.parametrize(
    ("number", "name", "parts", "says", "headers"),
    [
        (
            1, "BEGINTX", ("0000001C00AA5018 00000019 0000000056FBBFC0 000003E9",),
            {"kind": "begin", "changed_at": NOON},
            {**SEQUENCE, "start_time": "1459339200", "user_id": "1001"},
        ),
        (
            2, "COMMTX", ("0000001C00AA5018 00000019 0000000056FBBFC0",),
            {"kind": "commit", "changed_at": NOON, "commit_position": "0000001C00AA5018"},
            {**SEQUENCE, "commit_time": "1459339200"},
        ),
        (3, "RBTX", ("0000001C00AA5018 00000019",), {"kind": "rollback"}, SEQUENCE),
        (62, "DISCARD", ("0000001C00AA5018 00000019",), {"kind": "undo"}, SEQUENCE),
        (40, "INSERT", ROW_HEX, {"kind": "change", "operation": "INSERT", "after": AFTER}, ROW_HEADERS),
        (41, "DELETE", ROW_HEX, {"kind": "change", "operation": "DELETE", "before": AFTER}, ROW_HEADERS),
        (42, "UPDBEF", ROW_HEX, {"kind": "before", "operation": "UPDATE", "before": AFTER}, ROW_HEADERS),
        (43, "UPDAFT", ROW_HEX, {"kind": "after", "operation": "UPDATE", "after": AFTER}, ROW_HEADERS),
        (
            119, "TRUNCATE", ("0000001C00AA5018 00000019 00000007",),
            {"kind": "change", "operation": "TRUNCATE"},
            {**SEQUENCE, "user_data": "7"},
        ),
        (
            200, "TABSCHEM", ("00000007 00000000 00000004 00000001 00000000", "696420696E7400"),
            {"kind": "schema", "position": None},
            {"user_data": "7", "flags": "0", "fixed_length_bytes": "4", "fixed_columns": "1", "variable_columns": "0"},
        ),
        (
            201, "TIMEOUT", ("0000000000000000",),
            {"kind": "heartbeat", "position": "0000000000000000"},
            {"sequence_number": "0000000000000000"},
        ),
        (
            202, "ERROR", ("00000001 FFFEB8B0",),
            {
                "kind": "error", "position": None,
                "problems": [
                    {
                        "code": "source_error",
                        "detail": "-83792 CDC_E_MUSTCLOSE: the session is invalid and must be closed; "
                        "the session is lost and can only be closed",
                    }
                ],
            },
            {"flags": "1", "error_code": "-83792"},
        ),
        (
            77, "77", ("0102030405", "FF"),
            {
                "kind": "control", "position": None,
                "problems": [{"code": "unknown_record_type", "detail": "expected a known record number, found 77"}],
            },
            {"extra_header": "0102030405"},
        ),
    ],
)  # fmt: skip
def test_a_record_says_of_itself(
    number: int, name: str, parts: tuple[str, ...], says: dict[str, Any], headers: dict[str, str]
) -> None:
    raw = record(number, *parts)
    found = event(raw, ONE_VARCHAR)
    size, payload = (len(bytes.fromhex(part)) for part in (*parts, "")[:2])
    common = dict(zip(COMMON, (str(16 + size), str(payload), "66", str(number)), strict=True))
    assert found == {**WORLD, "record_type": f"CDC_REC_{name}", **says, "headers": {**common, **headers}}
    assert list(found["headers"]) == [*common, *headers], "in wire order"  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("order", "width", "words", "payload"),
    [
        ("little", 1, "04000000", "00000001 03416461"),
        ("big", 1, "00000004", "00000001 03416461"),
        ("little", 2, "05000000", "00000001 0003416461"),
        ("big", 2, "00000005", "00000001 0003416461"),
    ],
)
def test_size_words_and_prefixes_are_read_as_the_settings_say(order: str, width: int, words: str, payload: str) -> None:
    found = event(record(40, ROW + words, payload), ONE_VARCHAR, StreamSettings(order, width))
    assert (found["after"], found["problems"]) == ({"id": "1", "name": "Ada"}, None)


def test_a_row_s_nulls_and_empty_texts_are_told_apart() -> None:
    raw = record(40, ROW + "03000000 03000000", "80000000 000100 000101")
    assert event(raw, TWO_VARIABLE)["after"] == {"id": None, "name": None, "note": None}
    raw = record(40, ROW + "02000000 03000000", "00000000 0000 000100")
    assert event(raw, TWO_VARIABLE)["after"] == {"id": "0", "name": "", "note": ""}


# --- contradictions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "code", "says"),
    [
        (
            record(3, "0000000000000001 00000001", scheme=67),
            "packet_scheme",
            "expected packetization scheme 66, found 67",
        ),
        (record(3, "0000000000000001 00000001 AABBCC"), "header_size", "expected a header of 28 bytes, found 31"),
        (record(3, "0000000000000001 00000001", "AABB"), "unexpected_payload", "expected no payload, found 2 bytes"),
        (record(3, "0000000000000001"), "header_size", "expected a header of at least 28 bytes, found 24"),
        (record(3, "0000000000000001 00000001")[:-1], "truncated", "expected a record of 28 bytes, found 27"),
        (record(3, "0000000000000001 00000001") + b"xx", "malformed", "expected a record of 28 bytes, found 30"),
        (record(77, "", extra=-1), "header_size", "expected a header of at least 16 bytes, found 15"),
        (
            record(2, "0000000000000001 00000001 7FFFFFFFFFFFFFFF"),
            "time_range",
            "expected a time of the years 1 to 9999, found 9223372036854775807 Unix seconds",
        ),
        (
            record(1, "0000000000000001 00000001 FFFFFFF1886E08FF 00000000"),
            "time_range",
            "expected a time of the years 1 to 9999, found -62135596801 Unix seconds",
        ),
        (record(202, "00000002 00000000"), "reserved_flags", "expected flags 0 or 1, found 0x00000002"),
        (
            record(202, "00000000 FFFEB8FF"),
            "source_error",
            f"{explain_error(-83713)}; the session continues",
        ),
        (
            record(200, "00000007 00000000 00000004 00000002 00000000", "696420696E7400"),
            "schema_mismatch",
            "the text has 1 column, the header counts 2 fixed and 0 variable",
        ),
        (
            record(200, "00000007 00000000 00000004 00000001 00000000", "636166E920696E74"),
            "charset",
            "expected a schema text in utf-8, found other bytes",
        ),
        (
            record(200, "00000007 00000000 00000000 00000000 00000000"),
            "schema_text",
            "expected a column, found the end of the text (character 0 of the schema text)",
        ),
        (
            record(200, "00000007 00000001 00000004 00000001 00000000", "696420696E74"),
            "reserved_flags",
            "expected flags 0, found 0x00000001",
        ),
    ],
)
def test_a_contradiction_is_said_with_what_was_expected_and_found(raw: bytes, code: str, says: str) -> None:
    found = event(raw)
    assert (code, says) in problems(found)
    assert code in [field.problem for field in dissect(raw).walk()]


def test_a_time_that_no_calendar_has_stays_in_the_headers() -> None:
    found = event(record(2, "0000000000000001 00000001 7FFFFFFFFFFFFFFF"))
    assert found["changed_at"] is None
    assert found["headers"]["commit_time"] == "9223372036854775807"  # type: ignore[index]
    last = event(record(2, "0000000000000001 00000001 0000003AFFF4417F"))
    assert last["changed_at"] == datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert last["problems"] is None


def test_a_record_too_short_for_its_type_keeps_its_header_as_bytes() -> None:
    found = event(record(1, "0000001C00AA5018 00000019 00000000"))
    assert (found["record_type"], found["kind"], found["position"]) == ("CDC_REC_BEGINTX", "control", None)
    assert found["headers"]["extra_header"] == "0000001c00aa50180000001900000000"  # type: ignore[index]


def test_header_bytes_beyond_the_known_ones_are_kept() -> None:
    found = event(record(119, "0000000000000001 00000001 00000007 DEADBEEF"))
    assert found["headers"]["extra_header"] == "deadbeef"  # type: ignore[index]
    assert found["headers"]["user_data"] == "7"  # type: ignore[index]


@pytest.mark.parametrize(
    ("words", "payload", "schema", "image", "extra", "says"),
    [
        pytest.param(
            "05000000", "00000001 0003416461", None, {}, {"variable_sizes": "5", "undecoded": "000000010003416461"},
            [("no_schema", "no table schema of label 7 precedes this row")], id="no schema",
        ),
        pytest.param(
            "05000000", "00000001 0003416461", schema_for("id integer, name varchar(20)", 8, 1, 1), {},
            {"variable_sizes": "5", "undecoded": "000000010003416461"},
            [
                (
                    "schema_mismatch",
                    "table schema 7@2: fixed-length columns take 4 bytes by the text, 8 by the header",
                )
            ], id="schema and header disagree",
        ),
        pytest.param(
            "06000000", "00000001 0003416461", ONE_VARCHAR, {"id": "1", "name": "Ada"}, {"variable_sizes": "6"},
            [("size_words", "expected a row of 10 bytes by its size words, found 9")], id="a wrong word, good prefixes",
        ),
        pytest.param(
            "05000000", "00000001 0003416461 FF", ONE_VARCHAR, {"id": "1", "name": "Ada"},
            {"variable_sizes": "5", "undecoded": "ff"},
            [
                ("size_words", "expected a row of 9 bytes by its size words, found 10"),
                ("row_size", "expected a row of 9 bytes, found 10"),
            ], id="a row too long",
        ),
        pytest.param(
            "05000000", "00000001 00034164", ONE_VARCHAR, {"id": "1"}, {"variable_sizes": "5", "undecoded": "00034164"},
            [
                ("size_words", "expected a row of 9 bytes by its size words, found 8"),
                ("row_size", "expected 5 bytes for column 2 name at byte 4 of the row, found 4"),
            ], id="a row too short",
        ),
        pytest.param(
            "05000000", "00000001 00", ONE_VARCHAR, {"id": "1"}, {"variable_sizes": "5", "undecoded": "00"},
            [
                ("size_words", "expected a row of 9 bytes by its size words, found 5"),
                ("row_size", "expected a length for column 2 name at byte 4 of the row, found 1"),
            ], id="a row cut inside a prefix",
        ),
        pytest.param(
            "05000000", "0000", ONE_VARCHAR, {}, {"variable_sizes": "5", "undecoded": "0000"},
            [
                ("size_words", "expected a row of 9 bytes by its size words, found 2"),
                ("row_size", "expected 4 bytes for column 1 id at byte 0 of the row, found 2"),
            ], id="a row cut inside its fixed part",
        ),
        pytest.param(
            "", "00000001", schema_for("id integer, n smallint"), {"id": "1"}, {},
            [("row_size", "expected 2 bytes for column 2 n at byte 4 of the row, found 0")], id="no words to disagree",
        ),
        pytest.param(
            "05000000", "00000001 0004416461", ONE_VARCHAR, {"id": "1", "name": "0004416461"}, {"variable_sizes": "5"},
            [("size_words", "column 2 name: expected 5 bytes by the size word, found 2 + 4 by the prefix")],
            id="a prefix that contradicts its word",
        ),
        pytest.param(
            "05000000 04000000", "00000001 0003416461", ONE_VARCHAR, {"id": "1", "name": "Ada"},
            {"variable_sizes": "5", "extra_header": "04000000"},
            [("header_size", "expected a header of 40 bytes, found 44")], id="a word too many",
        ),
        pytest.param(
            "05000000", "00000001 0003416461 00020061", TWO_VARIABLE, {"id": "1", "name": "Ada", "note": "a"},
            {"variable_sizes": "5"}, [("size_words", "expected 2 as the number of size words, found 1")],
            id="a word too few",
        ),
        pytest.param(
            "05", "00000001 0003416461", ONE_VARCHAR, {"id": "1", "name": "Ada"}, {"extra_header": "05"},
            [("size_words", "expected 1 as the number of size words, found 0")], id="a word cut short",
        ),
        pytest.param(
            "05000000 99", "00000001 0003416461", ONE_VARCHAR, {"id": "1", "name": "Ada"},
            {"variable_sizes": "5", "extra_header": "99"},
            [("header_size", "expected a header of 40 bytes, found 41")], id="a byte behind the words",
        ),
        pytest.param(
            "05000000 02000000", "00000001 0003416461 AABB",
            schema_for("id integer, name varchar(9), doc json", 4, 1, 2),
            {"id": "1", "name": "Ada"}, {"variable_sizes": "5 2", "undecoded": "aabb"},
            [
                (
                    "unknown_type",
                    "table schema 7@2: the encoding of column 3 doc json is unknown: it stays undecoded",
                )
            ], id="a type that is not known behind",
        ),
        pytest.param(
            "05000000", "00000001 AABB 0003416461", schema_for("id integer, doc json, name varchar(9)", 6, 2, 1),
            {"id": "1"}, {"variable_sizes": "5", "undecoded": "aabb0003416461"},
            [
                (
                    "unknown_type",
                    DOC_IS_UNKNOWN,
                )
            ], id="a type that is not known in the fixed part",
        ),
        pytest.param(
            "05000000", "00000001 AABB 0003416461", schema_for("id integer, doc json, name varchar(9)"),
            {"id": "1"}, {"variable_sizes": "5", "undecoded": "aabb0003416461"},
            [
                (
                    "unknown_type",
                    DOC_IS_UNKNOWN,
                )
            ], id="likewise, and no header that gives the bytes of the fixed part",
        ),
        pytest.param(
            "05000000", "00000001 00034164FF", ONE_VARCHAR, {"id": "1", "name": "4164ff"}, {"variable_sizes": "5"},
            [("charset", "column 2 name: expected text in utf-8, found other bytes at byte 2")],
            id="not in the charset",
        ),
        pytest.param(
            "00000000 00000000", "00000001", TWO_VARIABLE, {"id": "1", "name": "", "note": ""},
            {"variable_sizes": "0 0"},
            [
                ("size_words", "column 2 name: expected a length of 2 bytes, found a size word of 0"),
                ("size_words", "column 3 note: expected a length of 2 bytes, found a size word of 0"),
            ], id="words of zero",
        ),
        pytest.param(
            "FFFFFFFF", "00000001 0003416461", ONE_VARCHAR, {"id": "1", "name": "Ada"},
            {"variable_sizes": "4294967295"},
            [("size_words", "expected a row of 4294967299 bytes by its size words, found 9")], id="a word of all ones",
        ),
    ],
)  # fmt: skip
def test_a_row_is_decoded_as_far_as_its_bytes_agree(
    words: str,
    payload: str,
    schema: TableSchema | None,
    image: dict[str, str],
    extra: dict[str, str],
    says: list[tuple[str, str]],
) -> None:
    raw = record(41, ROW + words, payload)
    found = event(raw, schema)
    assert found["before"] == image
    known = {*COMMON, "sequence_number", "transaction_id", "user_data", "flags"}
    assert {name: text for name, text in found["headers"].items() if name not in known} == extra  # type: ignore[attr-defined]
    assert problems(found) == says


def test_reserved_flags_of_a_row_are_said_and_the_row_is_decoded() -> None:
    raw = record(40, "0000001C00AA5050 00000019 00000007 80000001 05000000", "00000001 0003416461")
    found = event(raw, ONE_VARCHAR)
    assert found["after"] == {"id": "1", "name": "Ada"}
    assert found["headers"]["flags"] == "2147483649"  # type: ignore[index]
    assert problems(found) == [("reserved_flags", "expected flags 0, found 0x80000001")]


def test_a_row_record_that_is_cut_off_is_decoded_as_far_as_it_goes() -> None:
    raw = record(40, ROW + "05000000", "00000001 0003416461")[:-2]
    found = event(raw, ONE_VARCHAR)
    assert found["after"] == {"id": "1"}
    assert [code for code, _ in problems(found)] == ["truncated", "size_words", "row_size"]


def test_the_schema_of_a_tabschem_record_is_read_from_it() -> None:
    raw = record(200, "0000006F 00000000 00000004 00000001 00000001", "6120696E742C206220766172636861722835290000")
    found = schema_of(raw, version=3)
    assert found is not None
    assert (found.label, found.version, found.text, found.decodable) == (111, 3, "a int, b varchar(5)", 2)
    assert schema_of(record(3, "0000000000000001 00000001")) is None
    assert schema_of(raw[:30]) is None


# --- field tree -------------------------------------------------------------------------------------------------------


def outline(field: Field, depth: int = 0) -> list[tuple[int, str, int, int, str | None]]:
    rows = [(depth, field.name, field.offset, field.length, field.value)]
    return rows + [row for child in field.children for row in outline(child, depth + 1)]


def test_the_tree_of_a_row_record_names_every_byte() -> None:
    raw = record(43, ROW + "05000000 04000000", "00000001 0003416461 00020061")
    tree = dissect(raw, TWO_VARIABLE)
    assert outline(tree) == [
        (0, "CDC_REC_UPDAFT", 0, 57, None),
        (1, "common header", 0, 16, None),
        (2, "header_size", 0, 4, "44"),
        (2, "payload_size", 4, 4, "13"),
        (2, "packetization_scheme", 8, 4, "66"),
        (2, "record_number", 12, 4, "43"),
        (1, "specific header", 16, 20, None),
        (2, "sequence_number", 16, 8, "0000001C00AA5050"),
        (2, "transaction_id", 24, 4, "25"),
        (2, "user_data", 28, 4, "7"),
        (2, "flags", 32, 4, "0"),
        (1, "size words", 36, 8, None),
        (2, "size of name", 36, 4, "5"),
        (2, "size of note", 40, 4, "4"),
        (1, "row", 44, 13, None),
        (2, "id", 44, 4, "1"),
        (2, "name", 48, 5, "Ada"),
        (3, "length", 48, 2, "3"),
        (3, "text", 50, 3, "Ada"),
        (2, "note", 53, 4, "a"),
        (3, "length", 53, 2, "2"),
        (3, "flag", 55, 1, "0"),
        (3, "text", 56, 1, "a"),
    ]
    meanings = {field.name: field.meaning for field in tree.walk()}
    assert meanings["sequence_number"] == "LSN 28:0xaa5050 (log 28, page 2725, offset 80)"
    assert meanings["size of name"] == "little-endian: bytes of name in the row, including its length prefix"
    assert {field.problem for field in tree.walk()} == {None}


def test_the_tree_of_a_damaged_record_names_every_byte_too() -> None:
    raw = record(119, "0000000000000001 00000001 00000007 DEADBEEF", "AA") + b"xyz"
    tail = [(name, offset, length) for depth, name, offset, length, _ in outline(dissect(raw)) if depth == 1][2:]
    assert tail == [("extra header", 32, 4), ("payload", 36, 1), ("trailing bytes", 37, 3)]


def test_begin_and_commit_show_their_time() -> None:
    tree = dissect(record(1, "0000000B01746018 00000027 0000000067DFE90F 000007D5"))
    meanings = {field.name: field.meaning for field in tree.walk()}
    assert meanings["start_time"] == "Unix seconds, UTC: 2025-03-23T10:57:19Z"
    assert meanings["sequence_number"] == "LSN 11:0x1746018 (log 11, page 5958, offset 24)"


def test_a_timeout_has_no_log_position() -> None:
    assert lsn(0) == "no log position"


# --- any bytes --------------------------------------------------------------------------------------------------------

EVERY_TYPE = schema_for(
    "a smallint, b int8, c date, d float, e boolean, f char(5), g decimal(6,2), h datetime year to fraction(5), "
    "i interval day to second, j clob, k varchar(20), l lvarchar(30), m nvarchar(9)"
)
SCHEMAS = [
    None,
    ONE_VARCHAR,
    TWO_VARIABLE,
    EVERY_TYPE,
    schema_for("id integer, doc json, name varchar(9)"),
    schema_for("id integer, name varchar(9), doc json", 4, 1, 2),
    schema_for("id integer", 9, 1, 0),
    schema_for("not a list of columns)"),
]
GOOD = [
    record(1, "0000001C00AA5018 00000019 0000000056FBBFC0 000003E9"),
    record(2, "0000001C00AA5018 00000019 0000000056FBBFC0"),
    record(3, "0000001C00AA5018 00000019"),
    record(40, *ROW_HEX),
    record(43, ROW + "05000000 04000000", "00000001 0003416461 00020061"),
    record(
        42,
        ROW + "03000000 03000000 02000000",
        "8000"
        + "00" * 10
        + "80000000"
        + "FF" * 8
        + "0100"
        + "0020202020"
        + "00" * (5 + 11 + 5 + 76)
        + "000100 000101 0000",
    ),
    record(62, "0000001C00AA5018 00000019"),
    record(119, "0000001C00AA5018 00000019 00000007"),
    record(200, "00000007 00000000 00000004 00000001 00000001", "6120696E742C2062207661726368617228352900"),
    record(201, "0000000000000000"),
    record(202, "00000001 FFFEB8B0"),
    record(77, "0102030405", "FF"),
]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A good record with some bytes changed, and something cut off, put in or repeated."""
    raw = bytearray(draw(st.sampled_from(GOOD)))
    for at, value in draw(st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), max_size=4)):
        raw[at] = value
    at = draw(st.integers(0, len(raw)))
    kind = draw(st.sampled_from(["whole", "cut", "insert", "remove", "repeat"]))
    if kind == "cut":
        del raw[at:]
    elif kind == "insert":
        raw[at:at] = draw(st.binary(max_size=6))
    elif kind == "remove":
        del raw[at : at + draw(st.integers(1, 6))]
    elif kind == "repeat":
        raw += raw[at:]
    return bytes(raw).ljust(16, b"\0")  # framing gives no record without its common header


SETTINGS = st.builds(
    StreamSettings,
    st.sampled_from(["little", "big"]),
    st.sampled_from([1, 2]),
    st.sampled_from(["utf-8", "gb18030", "ascii"]),
)


def check_tree(field: Field, raw: bytes) -> None:
    assert field.raw == raw[field.offset : field.offset + field.length]
    assert len(field.raw) == field.length
    if field.children:
        at = field.offset
        for child in field.children:
            assert child.offset == at, f"{child.name} in {field.name}"
            at += child.length
            check_tree(child, raw)
        assert at == field.offset + field.length, field.name


@given(st.one_of(damaged(), st.binary(min_size=16, max_size=80)), st.sampled_from(SCHEMAS), SETTINGS)
def test_any_bytes_make_a_tree_without_holes_that_agrees_with_the_event(
    raw: bytes, schema: TableSchema | None, settings: StreamSettings
) -> None:
    tree = dissect(raw, schema, settings)
    assert (tree.offset, tree.length) == (0, len(raw))
    check_tree(tree, raw)
    found: dict[str, Any] = event(raw, schema, settings)
    codes = {code for code, _ in problems(found)}
    shown = {str(field.problem) for field in tree.walk() if field.problem is not None}
    assert shown <= codes
    assert bool(shown) == bool(codes)
    for field in tree.walk():
        if field.name in found["headers"]:
            assert field.value == found["headers"][field.name]
    row = next((field for field in tree.children if field.name == "row"), None)
    image = found["before"] if found["before"] is not None else found["after"]
    assert (row is None) <= (not image)
    columns = {f.name: f.value for f in row.children if f.name != "undecoded"} if row is not None else {}
    assert columns == (image or {})


@given(damaged(), st.sampled_from(SCHEMAS), SETTINGS)
def test_an_event_s_problems_have_known_codes_and_a_sentence(
    raw: bytes, schema: TableSchema | None, settings: StreamSettings
) -> None:
    for code, detail in problems(event(raw, schema, settings)):
        assert Problem(code).title
        assert detail


def test_lengths_of_all_ones_are_survived() -> None:
    raw = b"\xff" * 8 + (66).to_bytes(4, "big") + (40).to_bytes(4, "big") + bytes.fromhex(ROW)
    found = event(raw, ONE_VARCHAR)
    assert ("truncated", f"expected a record of {2 * 0xFFFFFFFF} bytes, found 36") in problems(found)
    check_tree(dissect(raw, ONE_VARCHAR), raw)


@pytest.mark.samples
def test_the_real_stream_is_read(samples: Path) -> None:
    data = (samples / "gbase8s" / "seed_stream_clean.bin").read_bytes()
    found, schema = [], None
    while data:
        length = int.from_bytes(data[:4], "big") + int.from_bytes(data[4:8], "big")
        raw, data = data[:length], data[length:]
        schema = schema_of(raw) or schema
        found.append(event(raw, schema))
    assert [one["record_type"] for one in found] == [
        "CDC_REC_TABSCHEM",
        "CDC_REC_TIMEOUT",
        "CDC_REC_BEGINTX",
        "CDC_REC_INSERT",
        "CDC_REC_COMMTX",
    ]
    assert found[3]["after"] == {"c1": "15", "c2": "abcabcabc"}
    assert found[4]["changed_at"] == datetime(2025, 3, 23, 10, 57, 19, tzinfo=UTC)
    assert [one["problems"] for one in found] == [None] * 5


# --- documentation ----------------------------------------------------------------------------------------------------

DOCUMENT = Path(__file__).parents[2] / "docs" / "formats" / "gbase8s.md"


def test_the_walkthrough_of_the_documentation_is_what_its_bytes_say() -> None:
    reads = re.findall(r"^\[\d\] ([0-9A-F ]+)$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    buffer, schema, found = b"", None, []
    for read in map(bytes.fromhex, reads):
        end = int.from_bytes(read[:4], "big") + int.from_bytes(read[4:8], "big")
        assert len(read) == 68
        assert not found or read[end:] == buffer[end:], "a stale tail equals the read before"
        buffer = read
        schema = schema_of(read[:end]) or schema
        found.append(event(read[:end], schema))
    assert [one["kind"] for one in found] == ["schema", "heartbeat", "begin", "change", "commit"]
    assert [one["problems"] for one in found] == [None] * 5
    assert found[3]["after"] == {"id": "42", "name": "quartz"}
    assert found[3]["headers"]["variable_sizes"] == "8"  # type: ignore[index]
    assert found[2]["changed_at"] == found[4]["changed_at"] == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert {one["headers"]["transaction_id"] for one in found[2:]} == {"58"}  # type: ignore[index]
