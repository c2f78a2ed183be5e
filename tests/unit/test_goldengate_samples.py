"""The real Logdump output of public sources, one file each: every field, equal to what its hex says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdcwb.formats import get_format
from cdcwb.formats.goldengate.contents import ddl_items, file_header, statement
from cdcwb.formats.goldengate.definitions import Database, Definition, parse_metadata
from cdcwb.formats.goldengate.layout import IO_TYPES, MISSING, shown
from cdcwb.formats.goldengate.records import header_values
from cdcwb.formats.goldengate.tree import dissect
from cdcwb.model import Problem
from tests.goldengate_text import split_text
from tests.local import read as read_events
from tests.reference.logdump.printed import time_us
from tests.reference.logdump.printed_record import Printed, Shape

pytestmark = pytest.mark.samples

HOUR_US = 3600 * 10**6


def read(samples: Path, part: str) -> tuple[bytes, list[Printed]]:
    (path,) = (samples / "goldengate").glob(f"*{part}*")
    data = path.read_bytes()
    pieces = split_text(data)
    assert b"".join(data[piece.start : piece.stop] for piece in pieces) == data
    return data, pieces


def records(samples: Path, part: str) -> list[Printed]:
    return [piece for piece in read(samples, part)[1] if piece.shape is not Shape.FILLER]


def header(record: Printed) -> str:
    """The header in one line: the fields in the order of the block."""
    order = (
        "Hdr-Ind",
        "Partition",
        "UndoFlag",
        "BeforeAfter",
        "RecLength",
        "IOType",
        "OrigNode",
        "TransInd",
        "FormatType",
        "SyskeyLen",
        "Incomplete",
        "AuditRBA",
        "DDR index",
        "TDR index",
        "AuditPos",
        "Continued",
        "RecCount",
    )
    return " ".join(shown(name, record.values[name]) for name in order if name in record.values)


def test_no_sample_raises_and_no_byte_of_one_is_lost(samples: Path) -> None:
    for path in sorted((samples / "goldengate").iterdir()):
        data, at = path.read_bytes(), 0
        for piece in split_text(data):
            assert piece.start == at
            at = piece.stop
            if piece.shape is not Shape.FILLER:
                dissect(data[piece.start : piece.stop])
        assert at == len(data)


RECORDS: dict[str, list[tuple[str, str | None, int, int, str | None, int, str | None, int]]] = {
    # header, operation, Len, RBA, Name, TDR index, image, its partition
    "2005-lob": [
        ("E 4 0 A 2020 116 255 1 R 0 0 23 59965368 Y 4", "LargeObject", 2020, 0, "WYAO.TEST_B", -1, "After", -1)
    ],
    "2010-insert": [
        ("E 4 0 A 98 5 255 1 R 0 0 38773 9134412 N 1", "Insert", 98, 338, "MNIELSEN.TCUSTORD", -1, None, -1)
    ],
    "2011-restartok": [("E 0 0 A 0 151 0 3 R 0 0 0 0 N 0", "RestartOK", 0, 936, "", -1, "After", 0)],
    "mysql-01": [("E 0 0 A 81 170 1 3 R 0 0 1 0 7 N 1", "Metadata", 81, 6237, None, -1, None, -1)],
    "mysql-02": [("E 0 0 A 138 170 2 3 R 0 0 1 1 7 N 1", "Metadata", 138, 6369, None, -1, None, -1)],
    "mysql-03": [("E 12 0 A 24 5 255 3 R 0 0 12010 7 N 1", "Insert", 24, 6571, "test.ogg_test", 1, "After", 12)],
    "mysql-04": [("E 12 0 A 24 15 255 3 R 0 0 12340 7 N 1", "FieldComp", 24, 6733, "test.ogg_test", 1, "After", 12)],
    "mysql-05": [("E 12 0 B 10 3 255 3 R 0 0 12648 7 N 1", "Delete", 10, 6895, "test.ogg_test", 1, "Before", 12)],
    "mysql-06": [("E 0 0 A 404 160 0 3 R 0 0 0 0 N 1", "DDLOP", 404, 1423, "", -1, "After", 0)],
    "mysql-07": [("", "DDLOP", 412, 2105, "", -1, "After", 0)],
    "mysql-08": [("E 0 0 A 400 160 0 3 R 0 0 0 0 N 1", "DDLOP", 400, 5563, "", -1, "After", 0)],
    "mysql-09": [("E 12 0 A 0 100 255 3 R 0 0 12858 7 N 1", "GGSPurgedata", 0, 7043, "test.ogg_test", 1, "After", 12)],
    "mysql-10": [("E 12 0 A 37 5 255 3 R 0 0 1064 4 N 1", "Insert", 37, 1924, "mysql.test", 1, "After", 12)],
    "mysql-11": [("E 12 0 A 22 115 255 3 R 0 0 1728 4 N 1", "GGSPKUpdate", 22, 2258, "mysql.test", 1, "After", 12)],
    "mysql-12": [
        ("E 12 0 A 21 15 255 3 R 0 0 1396 4 N 1", "FieldComp", 21, 2099, "mysql.test", 1, "After", 12),
        ("E 12 0 B 10 3 255 3 R 0 0 2038 4 N 1", "Delete", 10, 2418, "mysql.test", 1, "Before", 12),
    ],
    "oracle-2016": [
        ("", "FileHeader", 1055, 0, "*FileHeader*", -1, None, -1),
        ("E 4 0 A 28 15 255 3 R 0 0 86 37497872 N 1", "FieldComp", 28, 1063, "TEST001.DEMO1", -1, "After", 4),
    ],
    "oracle-2021": [
        (
            "E 12 0 A 163 5 255 2 R 0 0 3866 730057636 N 1",
            "Insert",
            163,
            3828,
            "SHAHKAR3.SUBSCRIPTION_REQUEST",
            2,
            "After",
            12,
        )
    ],
    "replicat-report": [("E 12 0 A 0 100 255 3 R 0 0 78233 23968384 N 1", "GGSPurgedata", 0, 6473, None, 2, None, -1)],
}


@pytest.mark.parametrize("part", RECORDS)
def test_every_field_of_every_record(samples: Path, part: str) -> None:
    found = records(samples, part)
    assert [
        (
            header(one),
            one.operation,
            one.length,
            one.rba,
            one.name,
            one.name_index,
            one.image,
            one.image_partition,
        )
        for one in found
    ] == RECORDS[part]
    for one in found:
        number = one.values.get("IOType")
        assert number is None or IO_TYPES[number].name == one.operation


CUT = {
    "2005-lob": ["body truncated: have 0 of 2020 bytes"],
    "2010-insert": ["body truncated: have 0 of 98 bytes"],
    "mysql-06": ["body truncated: have 140 of 404 bytes"],
    "mysql-07": ["body truncated: have 140 of 412 bytes"],
    "mysql-08": ["body truncated: have 140 of 400 bytes"],
    "oracle-2016": ["body truncated: have 140 of 1055 bytes"],
}


@pytest.mark.parametrize("part", RECORDS)
def test_what_was_cut_is_named_and_nothing_else_is_wrong(samples: Path, part: str) -> None:
    problems = [problem for one in records(samples, part) for problem in one.problems]
    if part == "2011-restartok":  # a book that changed one of the two years
        sentence = "IO Time is 2011/05/04 21:22:17.611.797, the record line has 2010/08/04 21:22:17.611.797"
        assert problems == [(Problem.HEADER_VALUE, sentence)]
    else:
        assert problems == [(Problem.TRUNCATED, sentence) for sentence in CUT.get(part, [])]


@pytest.mark.parametrize("part", [f"mysql-{number:02}" for number in (1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12)])
def test_the_header_in_hex_says_what_the_block_says_nine_hours_earlier(samples: Path, part: str) -> None:
    for one in records(samples, part):
        _, told, values = header_values(one.ghdr)
        assert values == one.values
        printed = time_us(one.io_time or "")
        assert printed is not None
        assert printed - told == 9 * HOUR_US
        assert one.parts["G"] == one.parts["Z"]


@pytest.mark.parametrize(
    ("part", "body"),
    [
        ("mysql-03", "0000 0600 0000 00000001 0100 0a00 0000 0600 696e73657274"),
        ("mysql-04", "0000 0600 0000 00000001 0100 0a00 0000 0600 757064617465"),
        ("mysql-05", "0000 0600 0000 00000001"),
        ("mysql-10", "0000 0600 0000 0000000a 0100 0700 0000 0300 616161 0200 0c00 0000 323032322d31322d3232"),
        ("mysql-11", "0a00 0000 0600 0000 0000000a 0000 0600 0000 00000009"),
        ("oracle-2016", "0000 000a 0000 0000000000000003 0001 000a 0000 0006 6e616d653333"),
    ],
)
def test_bodies_are_their_hex(samples: Path, part: str, body: str) -> None:
    assert records(samples, part)[-1].body == bytes.fromhex(body)


def tokens(record: Printed) -> list[tuple[int, str | None, int, bytes]]:
    return [(token.id, token.name, token.info, token.value) for token in record.tokens]


def position(file: int, place: int) -> bytes:
    return f"{file:021}:{place:015}".encode()


@pytest.mark.parametrize(
    ("part", "file", "csn", "xid"),
    [
        ("mysql-03", 7, 12041, 11887),
        ("mysql-04", 7, 12371, 12204),
        ("mysql-05", 7, 12679, 12525),
        ("mysql-09", 7, 12858, 12858),
        ("mysql-10", 4, 1095, 940),
        ("mysql-11", 4, 1759, 1591),
    ],
)
def test_tokens_of_changes(samples: Path, part: str, file: int, csn: int, xid: int) -> None:
    (one,) = records(samples, part)
    assert tokens(one) == [(0x4C, "LOGCSN", 0, position(file, csn)), (0x36, "TRANID", 0, position(file, xid))]


@pytest.mark.parametrize(("part", "place", "table"), [("mysql-06", 10444, b"ogg_test"), ("mysql-08", 11733, b"test")])
def test_tokens_of_ddl_repeat(samples: Path, part: str, place: int, table: bytes) -> None:
    (one,) = records(samples, part)
    xid, csn = (0x36, "TRANID", 0, position(7, place)), (0x4C, "LOGCSN", 0, position(7, place))
    ddl = b"test\0" + table + b"\0UNKNOWNVERSION\0UNKNOWNVERSIONCOMPAT\0N"
    assert tokens(one) == [xid, csn, (0x44, "DDL", 0, ddl), (0x74, "ORATAG", 0, b""), csn, xid]


def test_raw_tokens_of_a_big_endian_trail(samples: Path) -> None:
    one = records(samples, "oracle-2016")[1]
    assert tokens(one) == [
        (0x52, None, 0, b"AAAShSAAEAAAAD9AAC\0\1"),
        (0x4C, None, 0, b"1332816"),
        (0x36, None, 0, b"10.2.2016"),
    ]


@pytest.mark.parametrize(
    ("part", "kind", "table", "csn"),
    [
        ("mysql-06", "CREATE", "ogg_test", 10444),
        ("mysql-07", "ALTER", "ogg_test", 10659),
        ("mysql-08", "DROP", "test", 11733),
    ],
)
def test_ddl_as_far_as_it_is_there(samples: Path, part: str, kind: str, table: str, csn: int) -> None:
    (one,) = records(samples, part)
    items = ddl_items(one.body or b"")
    assert tuple(items.get(code) for code in ("B3", "B4", "B5", "B6")) == ("test", table, "TABLE", kind)
    assert items["C5"] == position(7, csn).decode()
    assert (items["B2"], items["B7"], items["C12"]) == ("0", "", "")
    assert statement(items) is None


def test_the_file_header_as_far_as_it_is_there(samples: Path) -> None:
    file, _ = records(samples, "oracle-2016")
    assert file.shape is Shape.FILE_HEADER
    assert file_header(file.body or b"") == {
        "Signature": r"GG\r\nTL\n\r",
        "Compatibility": "3",
        "CharSet": "x20000000",
        "CreationTime": "2016-04-28T12:10:14.246832Z",
        "URI": "uri:h-7b6g4gqx::data:oggtest",
        "URIHistory": "uri:h-7b6g4gqx::data:oggtest",
        "FileName": "./dirdat/ra000000",
    }
    printed = time_us(file.line_time or "")
    assert printed == time_us("2016-04-28 12:10:14.246832") + 8 * HOUR_US  # type: ignore[operator]


def test_definitions(samples: Path) -> None:
    (database,) = records(samples, "mysql-01")
    found = parse_metadata(database.text or "")
    assert isinstance(found, Database)
    facts = found.facts
    assert [facts[one] for one in ("database type", "character set", "time zone")] == ["MYSQL", "UTF-8", "GMT+09:00"]
    (table,) = records(samples, "mysql-02")
    definition = parse_metadata(table.text or "")
    assert isinstance(definition, Definition)
    assert (definition.schema, definition.table, definition.names) == ("test", "ogg_test", ("c1", "c2"))


def test_the_nine_columns_of_an_oracle_insert(samples: Path) -> None:
    data, pieces = read(samples, "oracle-2021")
    (one,) = (piece for piece in pieces if piece.shape is Shape.RECORD)
    tree = dissect(data[one.start : one.stop])
    (shown_data,) = (field for field in tree.children if field.name == "data")
    assert [field.value for field in shown_data.children if field.name.startswith("c")] == [
        "2248570110",
        "1",
        "2021-01-03:15:26:03.160000000",
        "020820210103152533623867",
        "3",
        "0",
        "958989675",
        "324201824",
        "324201824",
    ]


def test_a_report_names_the_trail(samples: Path) -> None:
    data, pieces = read(samples, "replicat-report")
    assert [piece.shape for piece in pieces] == [Shape.FILLER, Shape.RECORD, Shape.FILLER]
    one = pieces[1]
    assert one.trail == "/scratch/ydama/ogg/v123211/dirdat/kfkCustR/gg000000"
    assert one.io_time == one.line_time == "2015-08-14 12:02:20.022027"
    assert data[pieces[2].start : pieces[2].stop].startswith(b"    ______")


def test_a_prompt_before_a_record_and_a_rule_behind_it_are_filler(samples: Path) -> None:
    data, pieces = read(samples, "oracle-2021")
    assert [data[piece.start : piece.stop].strip(b"_\n") for piece in pieces if piece.shape is Shape.FILLER] == [
        b"Logdump> n",
        b"",
    ]


def test_examples_of_the_books(samples: Path) -> None:
    first, second = records(samples, "docs-headertoken")
    assert (first.shape, first.parts) == (Shape.MALFORMED, {"G": 117, "H": 45, "D": 28, "T": 24, "Z": 117})
    assert header(second) == "E 4 0 A 60 5 255 1 R 0 0 16 42932472 N 1"
    assert (second.shape, second.rba) == (Shape.RECORD, MISSING)
    assert header_values(second.ghdr)[1] == time_us("2005-10-27 22:33:57.000000")


def test_a_record_is_found_by_its_place_with_the_definition_before_it(samples: Path, tmp_path: Path) -> None:
    parts = [read(samples, part)[0] for part in ("mysql-01", "mysql-02", "mysql-03", "mysql-04")]
    path = tmp_path / "session.txt"
    path.write_bytes(b"".join(parts))
    at = len(parts[0]) + len(parts[1])
    found = get_format("goldengate").inspect(str(path), at + 900, {})
    values: dict[str, Any] = {field.name: field.value for field in found.field.walk() if field.name in ("c1", "c2")}
    assert values == {"c1": "1", "c2": "insert"}
    assert (found.offset, found.length) == (at + len("Logdump 356 >n\n"), len(parts[2]) - len("Logdump 356 >n\n"))
    assert found.record == parts[2][len("Logdump 356 >n\n") :]
    assert "test.ogg_test" in found.note


def test_a_table_that_shares_the_definition_of_another_has_its_columns(samples: Path) -> None:
    rows = read_events(samples / "goldengate" / "logdump-postgres-11-ref-tdr-then-insert.txt", format="goldengate")
    (row,) = [row for row in rows.to_pylist() if row["kind"] == "change"]
    assert (row["table_name"], dict(row["key"])) == ("test_d", {"int": "1"})
    assert dict(row["after"]) == {
        "int": "1",
        "varchar": "varchar1",
        "time": "2000-01-01:00:00:00.000000",
        "char": "char1".ljust(50),
    }
