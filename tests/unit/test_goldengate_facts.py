"""Names, numbers and meanings; file headers, DDL items and raw trails."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.formats.goldengate.contents import (
    ddl_items,
    file_header,
    header_groups,
    items_of,
    julian_iso,
    statement,
    user_pairs,
    walk_tokens,
)
from cdcwb.formats.goldengate.layout import (
    FIELDS,
    GHDR,
    HEADER,
    IO_TYPES,
    MISSING,
    field_meaning,
    io_type_of,
    is_raw_trail,
    logdump_script,
    shown,
    token_name,
)
from cdcwb.formats.goldengate.records import header_values
from cdcwb.model import Kind, Operation

SIGNATURE = b"GG\r\nTL\n\r"


@pytest.mark.parametrize(
    ("number", "kind", "operation"),
    [
        (3, Kind.CHANGE, Operation.DELETE),
        (5, Kind.CHANGE, Operation.INSERT),
        (10, Kind.CHANGE, Operation.UPDATE),
        (11, Kind.CHANGE, Operation.UPDATE),
        (15, Kind.CHANGE, Operation.UPDATE),
        (100, Kind.CHANGE, Operation.TRUNCATE),
        (115, Kind.CHANGE, Operation.UPDATE),
        (116, Kind.FRAGMENT, None),
        (134, Kind.CHANGE, Operation.UPDATE),
        (135, Kind.CHANGE, Operation.UPDATE),
        (150, Kind.ROLLBACK, None),
        (151, Kind.CONTROL, None),
        (160, Kind.CHANGE, Operation.DDL),
        (161, Kind.FRAGMENT, None),
        (170, Kind.SCHEMA, None),
    ],
)
def test_what_record_types_are(number: int, kind: Kind, operation: Operation | None) -> None:
    assert (IO_TYPES[number].kind, IO_TYPES[number].operation) == (kind, operation)


def test_every_record_type_is_found_by_its_names_in_any_case() -> None:
    for number, kind in IO_TYPES.items():
        for one in (kind.name, kind.name.upper(), *kind.aliases):
            assert io_type_of(one) == number
        assert kind.meaning
    assert io_type_of("GGSNovel") is None


def test_an_upsert_is_an_update_of_a_row_that_may_be_new() -> None:
    assert (io_type_of("Upsert"), io_type_of("GGSUpsert")) == (140, 140)
    assert (IO_TYPES[140].kind, IO_TYPES[140].operation) == ("change", "UPDATE")
    assert "inserted if it did not exist" in IO_TYPES[140].meaning


def test_every_header_field_has_a_meaning() -> None:
    assert set(HEADER) | {"IO Time"} == set(FIELDS)
    assert {name for name, _, _ in GHDR} == set(HEADER)
    assert all(field_meaning(name, 0, {}) for name in HEADER)


@pytest.mark.parametrize(
    ("field", "value", "io_type", "part"),
    [
        ("OrigNode", 255, 5, "no node"),
        ("OrigNode", 3, 5, "node 3 of the cluster"),
        ("OrigNode", 2, 170, "definition of a table"),
        ("Partition", 12, 5, "TDR index"),
        ("Partition", 0x4C, 135, "x40"),
        ("Partition", 0x24, 5, "bits x20"),
        ("Partition", 7, 200, "source partition 7"),
        ("SyskeyLen", 8, 5, "first 8 bytes of the data are the system key"),
        ("UndoFlag", 1, 5, "undoes"),
        ("RecCount", 4, 116, "4 segments"),
        ("IOType", 116, 116, "LargeObject"),
        ("IOType", 199, 199, "unknown"),
        ("Continued", 1, 5, "continues"),
        ("FormatType", 0x46, 5, "fetched from the database"),
        ("TransInd", 1, 5, "neither first nor last"),
    ],
)
def test_meanings_of_values(field: str, value: int, io_type: int, part: str) -> None:
    assert part in field_meaning(field, value, {"IOType": io_type})


def test_values_as_text() -> None:
    texts = [shown("Hdr-Ind", 0x45), shown("Continued", 1), shown("Continued", 0), shown("Continued", 7)]
    assert texts == ["E", "Y", "N", "7"]
    assert [shown("FormatType", 0x07), shown("IOType", 69)] == ["7", "69"]


def test_names_of_tokens() -> None:
    assert [token_name(0x4C), token_name(0x6C), token_name(0x6C, "MINE")] == ["LOGCSN", "token x6c", "MINE"]


# --- header token -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["little", "big"])
def test_the_header_token_in_either_byte_order(order: str) -> None:
    metadata = bytearray(36)
    metadata[0:4], metadata[6:8] = b"E\0\0A", bytes([170, 2])
    metadata[4:6] = (258).to_bytes(2, order)  # type: ignore[arg-type]
    metadata[8:16] = (210866760000000000 + 1_600_000_000_000_000).to_bytes(8, order)  # type: ignore[arg-type]
    metadata[24:26], metadata[26:28] = (3).to_bytes(2, order), (4).to_bytes(2, order)  # type: ignore[arg-type]
    whole = bytes(metadata)
    found, moment, values = header_values(whole)
    assert (found, moment) == (order, 1_600_000_000_000_000)
    assert (values["RecLength"], values["DDR index"], values["TDR index"]) == (258, 3, 4)
    assert "AuditRBA" not in values


@pytest.mark.parametrize("ghdr", [b"", b"E" * 33, b"\0" * 36])
def test_what_is_no_header_token(ghdr: bytes) -> None:
    assert header_values(ghdr) == (None, MISSING, {})


@given(st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=20)), max_size=6), st.sampled_from(["little", "big"]))
def test_token_areas_are_walked_to_their_end(parts: list[tuple[int, bytes]], order: str) -> None:
    area = b"".join(bytes([number, 0]) + len(value).to_bytes(2, order) + value for number, value in parts)  # type: ignore[arg-type]
    tokens, missing = walk_tokens(area)
    assert missing == 0
    assert sum(4 + token.length for token in tokens) == len(area)


def test_user_tokens_end_with_a_nul_each() -> None:
    assert user_pairs(b"A\0b\0C\0\0") == [("A", "b"), ("C", "")]
    assert user_pairs(b"A") == [("A", "")]
    assert user_pairs(b"") == []


# --- file header ------------------------------------------------------------------------------------------------------


def token(number: int, value: bytes) -> bytes:
    return bytes([number, 0]) + len(value).to_bytes(2, "big") + value


def string(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


URI = "uri:hq::gg:EXTA"
TRAIL_INFO = token(
    0x30,
    token(0x30, SIGNATURE)
    + token(0x31, b"\0\7")
    + token(0x32, bytes.fromhex("20000000"))
    + token(0x33, (212544648000000000).to_bytes(8, "big"))
    + token(0x34, string(URI))
    + token(0x35, token(0x35, string("uri:a")) + token(0x35, string("uri:b")))
    + token(0x36, string("/gg/dirdat/ab000000007"))
    + token(0x37, b"\1")
    + token(0x38, (7).to_bytes(4, "big"))
    + token(0x39, (0).to_bytes(8, "big"))
    + token(0x3A, b"\7" + b"1332816".ljust(128, b"\0"))
    + token(0x3B, b"\0" * 129)
    + token(0x3D, b"\0" * 8),
)
BODY = TRAIL_INFO + token(0x31, token(0x30, string("Linux")) + token(0x31, b"\0\2") + token(0x32, b"\xff" * 9))
TOLD = {
    "Signature": r"GG\r\nTL\n\r",
    "Compatibility": "7",
    "CharSet": "x20000000",
    "CreationTime": "2023-03-04T00:00:00.000000Z",
    "URI": URI,
    "URIHistory": "uri:a\nuri:b",
    "FileName": "/gg/dirdat/ab000000007",
    "MultiPart": "1",
    "FileSeqno": "7",
    "FileSize": "0",
    "FirstCSN": "1332816",
    "MachineInfo x30": "Linux",
    "MachineInfo x31": "2",
    "MachineInfo x32": "ff" * 9,
}


def test_a_file_header() -> None:
    assert julian_iso(212544648000000000) == "2023-03-04T00:00:00.000000Z"
    assert file_header(BODY) == TOLD


def test_a_file_header_that_was_cut_gives_what_is_there() -> None:
    for size in range(len(BODY)):
        told = file_header(BODY[:size])
        assert {name: TOLD[name] for name in told if name not in ("URI", "URIHistory")} == {
            name: value for name, value in told.items() if name not in ("URI", "URIHistory")
        }
        assert TOLD["URI"].startswith(told.get("URI", ""))


@given(st.binary(max_size=200))
def test_any_bytes_are_no_error_as_a_file_header(body: bytes) -> None:
    file_header(body)
    file_header(b"\x30\0\1\0" + body)
    at = 0
    for group, tokens in header_groups(body):
        for one in (group, *(token for token, _ in tokens)):
            assert at <= one.start < one.stop <= len(body)
            at = one.start


def test_times_outside_the_calendar_are_none() -> None:
    assert julian_iso(0) is None
    assert julian_iso(2**63) is None


# --- DDL --------------------------------------------------------------------------------------------------------------


def test_the_items_of_a_ddl_record() -> None:
    body = (
        rb",C5='12',,B3='shop',,B4='orders',,B5='TABLE',,B6='CREATE',,B7='',,"
        rb"C1='create table orders \(a varchar\(9\) default \'x\,y\'\, b int\) -- \\ B4\='q\'',"
    )
    items = ddl_items(body)
    assert tuple(items.get(code) for code in ("B3", "B4", "B5", "B6")) == ("shop", "orders", "TABLE", "CREATE")
    assert statement(items) == r"create table orders (a varchar(9) default 'x,y', b int) -- \ B4='q'"
    assert (items["B7"], items["C5"]) == ("", "12")


def test_a_statement_in_several_items_is_one() -> None:
    assert statement(ddl_items(b",C1='create ',,C1='table t',,B4='t',,B4='u',")) == "create table t"
    assert ddl_items(b",B4='t',,B4='u',") == {"B4": "t"}


def test_ddl_that_was_cut_gives_what_is_there() -> None:
    assert ddl_items(b",B3='shop',,C1='create tab") == {"B3": "shop", "C1": "create tab"}
    assert [item.whole for item in items_of(b",B3='shop',,C1='create tab")] == [True, False]
    assert statement(ddl_items(b",B3='sho")) is None


@given(st.binary(max_size=100))
def test_any_bytes_are_no_error_as_ddl(body: bytes) -> None:
    ddl_items(body)
    ddl_items(b",C1='" + body)


# --- raw trails -------------------------------------------------------------------------------------------------------


def test_a_raw_trail_is_recognised_by_its_signature() -> None:
    assert is_raw_trail(b"F\0\1\0" + BODY)
    assert not is_raw_trail(b"Logdump 1 >")
    assert not is_raw_trail(b" " * 100 + SIGNATURE)


def test_the_script_opens_the_trail_and_shows_everything_in_utc() -> None:
    lines = logdump_script("/gg/dirdat/ab000000007").splitlines()
    assert lines[0] == "open /gg/dirdat/ab000000007"
    assert "timeoffset gmt" in lines
    assert "log to ab000000007.txt" in lines
    for switch in ("ghdr on", "detail data", "ggstoken detail", "usertoken detail", "headertoken detail"):
        assert switch in lines
    assert lines.index("log to ab000000007.txt") < next(at for at, line in enumerate(lines) if line.startswith("next "))
