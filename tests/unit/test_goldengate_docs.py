"""The page on GoldenGate records tells the truth: its examples are what the code gives, its tables what it knows."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cdcwb.formats.goldengate import layout as facts
from cdcwb.formats.goldengate.contents import Half, ddl_items, file_header
from cdcwb.formats.goldengate.definitions import Database, Definition, parse_metadata
from cdcwb.formats.goldengate.layout import is_raw_trail, logdump_script
from tests.goldengate_text import split_text, walk_one
from tests.reference.logdump.printed_record import Printed, Shape

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "formats" / "goldengate.md").read_text(encoding="utf-8")
CAPTURING = (ROOT / "docs" / "capturing" / "goldengate.md").read_text(encoding="utf-8")
MOMENT = datetime(2026, 2, 3, 4, 5, 6, 789000, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UPSERT = 140


def section(number: str) -> str:
    """The text of ``## 4 …`` or ``### 4.3 …`` up to the next heading of any kind."""
    found = re.search(rf"^##+ {re.escape(number)} .*?(?=^##+ |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, number
    return found[0]


def blocks(text: str) -> list[str]:
    return re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def rows(text: str) -> list[list[str]]:
    """The cells of the lines of tables, without their headings."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "---" not in line]


def octets(text: str) -> bytes:
    return bytes.fromhex("".join(text.split()))


def julian(value: int) -> datetime:
    return EPOCH + timedelta(microseconds=value - facts.JULIAN_EPOCH_US)


def layout() -> dict[str, tuple[int, int]]:
    """Place and size of the header's fields, as the page has them."""
    return {
        re.split("[:;]", row[2])[0]: (int(row[0]), int(row[1]))
        for row in rows(section("3.3"))
        if row[0].isdigit() and row[1].isdigit()
    }


def record_types(text: str, pairs: int) -> dict[int, str]:
    """Names by number in tables of record types with so many pairs of number and name in a line."""
    named: dict[int, str] = {}
    for row in rows(text):
        for at in range(0, 2 * pairs, 2):
            found = [int(number) for number in re.findall(r"\d+", row[at])]
            if " to " in row[at]:
                found = list(range(found[0], found[1] + 1))
            named.update(zip(found, row[at + 1].split(", ") if found else [], strict=True))
    return named


def the_record() -> Printed:
    (record,) = split_text(blocks(section("2.1"))[0].encode())
    return record


def test_the_record_of_the_page_is_one_record() -> None:
    record = the_record()
    assert (record.shape, record.start) == (Shape.RECORD, 0)
    assert record.stop == len(blocks(section("2.1"))[0])
    assert record.problems == []
    assert (record.operation, record.length, record.rba) == ("Insert", 24, 2000)
    assert (record.name, record.name_index) == ("SHOP.STONE", 1)
    assert record.parts == {"G": 104, "H": 36, "D": 24, "T": 24, "Z": 104}
    assert record.body is not None
    assert len(record.body) == 24
    assert [(token.name, token.value.decode()) for token in record.tokens] == [
        ("LOGCSN", "5150042"),
        ("TRANID", "8.21.4410"),
    ]


def test_the_bytes_of_the_header_say_what_the_header_block_says() -> None:
    record = the_record()
    assert len(record.ghdr) == 36
    table = layout()
    for name, value in record.values.items():
        at, size = table[name]
        assert int.from_bytes(record.ghdr[at : at + size], "little") == value, name
    at, size = table["IO Time"]
    assert julian(int.from_bytes(record.ghdr[at : at + size], "little")) == MOMENT
    assert (at, size) == facts.GHDR_TIME


def test_the_drawing_of_the_header_has_the_bytes_of_the_record() -> None:
    line = blocks(section("3.3"))[0].splitlines()[1]
    assert octets(line) == the_record().ghdr


def test_the_table_of_the_header_is_the_layout_that_the_code_reads() -> None:
    table = layout()
    plain = {name: (at, size) for name, at, size in facts.GHDR if not name.endswith("index")}
    assert {name: table[name] for name in plain} == plain
    assert {name: (at, size) for name, at, size in facts.GHDR if name.endswith("index")} == {
        "DDR index": (24, 2),
        "TDR index": (26, 2),
    }


def test_a_record_ends_where_the_next_begins() -> None:
    record = the_record()
    parts = record.parts
    assert parts["G"] == 4 + sum(4 + parts[letter] for letter in "HDT") + 4
    assert f"{record.rba} + {parts['G']} = {record.rba + parts['G']}" in section("3.7")


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        (212636851506789000, MOMENT),
        (211976584185800569, datetime(2005, 3, 3, 4, 29, 45, 800569, tzinfo=UTC)),
        (211971340800000000, datetime(2005, 1, 1, 12, tzinfo=UTC)),
    ],
)
def test_the_times_of_the_page_are_those_the_constant_gives(value: int, moment: datetime) -> None:
    assert julian(value) == moment
    assert str(value) in section("7")
    assert str(facts.JULIAN_EPOCH_US) in section("7")


def test_the_printed_time_of_the_record_is_an_hour_ahead_of_its_bytes() -> None:
    record = the_record()
    assert EPOCH + timedelta(microseconds=record.line_moment) == MOMENT + timedelta(hours=1)
    assert record.io_time == record.line_time


def test_the_walk_of_the_page_is_the_walk_of_the_code() -> None:
    body = octets(blocks(section("4.3"))[0])
    assert body == the_record().body
    cells = walk_one(body, "little")
    assert cells is not None
    assert [(cell.index, body[cell.start : cell.stop], cell.indicator == 0xFFFF) for cell in cells] == [
        (0, bytes([0, 0, 0, 42]), False),
        (1, b"\x06\0quartz", False),
    ]
    assert walk_one(body, "big") is None
    at = 0
    for offset, shown, *_ in rows(section("4.3")):
        if offset.isdigit():
            assert int(offset) == at
            part = octets(shown.strip("`")) if shown else b""
            assert body[at : at + len(part)] == part
            at += len(part)
    assert at == len(body)


def test_the_same_row_in_a_big_endian_trail() -> None:
    body = octets(blocks(section("4.3"))[1])
    cells = walk_one(body, "big")
    assert cells is not None
    assert [body[cell.start : cell.stop] for cell in cells] == [bytes([0, 0, 0, 42]), b"\0\x06quartz"]
    assert walk_one(body, "little") is None


def test_a_null_is_its_indicator() -> None:
    (shown,) = re.findall(r"Column 2 as NULL: `([0-9a-f ]+)`", section("4.4"))
    cells = walk_one(octets(shown), "little")
    assert cells is not None
    assert [(cell.index, cell.indicator == 0xFFFF, cell.stop - cell.start) for cell in cells] == [(2, True, 0)]


def test_a_key_update_has_the_old_key_in_front() -> None:
    body = octets(blocks(section("4.5"))[0].splitlines()[-1])
    cells = walk_one(body, "little", 2)
    assert cells is not None
    assert [(cell.half, cell.index, body[cell.start : cell.stop]) for cell in cells] == [
        (Half.BEFORE, 0, bytes([0, 0, 0, 42])),
        (Half.AFTER, 0, bytes([0, 0, 0, 43])),
    ]


def test_a_unified_update_walks_with_four_bytes_of_length_and_not_with_two() -> None:
    body = octets(blocks(section("4.5"))[1])
    assert walk_one(body, "little", 2) is None
    cells = walk_one(body, "little", 4)
    assert cells is not None
    assert [(cell.half, body[cell.start : cell.stop][-6:]) for cell in cells if cell.index == 1] == [
        (Half.BEFORE, b"quartz"),
        (Half.AFTER, b"\0topaz"),
    ]


def test_the_tokens_of_the_page_are_those_of_the_record() -> None:
    area = octets(blocks(section("5.7"))[0].splitlines()[0])
    tokens, at = [], 0
    while at < len(area):
        size = int.from_bytes(area[at + 2 : at + 4], "little")
        tokens.append((facts.TOKENS[area[at]][0], area[at + 4 : at + 4 + size]))
        at += 4 + size
    assert tokens == [(token.name, token.value) for token in the_record().tokens]
    assert len(area) == the_record().parts["T"]


def test_every_record_type_of_the_page_has_its_number() -> None:
    first, second = section("3.6").split("**From memory**")
    certain, memory = record_types(first, 1), record_types(second, 2)
    named = certain | memory
    assert {number: facts.io_type_of(name) for number, name in named.items()} == {number: number for number in named}
    assert set(named) | {UPSERT} == set(facts.IO_TYPES)
    assert set(memory) | {UPSERT} == {number for number, kind in facts.IO_TYPES.items() if not kind.certain}


def test_the_kinds_of_the_page_are_those_of_the_code() -> None:
    kinds = {
        "Insert": ("change", "INSERT"),
        "Delete": ("change", "DELETE"),
        "Update": ("change", "UPDATE"),
        "UpdateComp": ("change", "UPDATE"),
        "FieldComp": ("change", "UPDATE"),
        "GGSPKUpdate": ("change", "UPDATE"),
        "GGSUnifiedUpdate": ("change", "UPDATE"),
        "GGSUnifiedPKUpdate": ("change", "UPDATE"),
        "GGSPurgedata": ("change", "TRUNCATE"),
        "DDLOP": ("change", "DDL"),
        "LargeObject": ("fragment", None),
        "RecordFragment": ("fragment", None),
        "Metadata": ("schema", None),
        "RestartAbend": ("rollback", None),
        "Upsert": ("change", "UPDATE"),
    }
    for kind in facts.IO_TYPES.values():
        assert (kind.kind, kind.operation) == kinds.get(kind.name, ("control", None)), kind.name
    told = section("9")
    assert all(name in told for name in kinds if name not in ("RecordFragment", "Upsert"))


def test_the_tables_of_codes_are_those_of_the_code() -> None:
    partitions = {int(row[0][1:], 16) for row in rows(section("3.4")) if row[0].startswith("x")}
    assert partitions == {value for name, value in facts.VALUES if name == "Partition"}
    tokens = {int(row[0].split()[0][1:], 16): row[1] for row in rows(section("5.7")) if row[0].startswith("x")}
    assert tokens == {number: name for number, (name, _) in facts.TOKENS.items()}
    fields = {int(row[0], 16): row[1] for row in rows(section("5.1")) if re.fullmatch(r"3[0-9a-f]", row[0])}
    assert fields == {number: name for number, (name, _) in facts.FILE_HEADER_TOKENS.items() if number in fields}
    items = {code for row in rows(section("5.3")) for cell in row[0::2] for code in re.findall(r"\b[BCG]\d+\b", cell)}
    assert items | {"C18"} == set(facts.DDL_ITEMS)
    assert facts.DDL_STATEMENT == "C1"
    shown = {row[0] for row in rows(section("3.2"))} | {"DDR index", "TDR index"}
    assert set(facts.FIELDS) <= shown


def test_a_definition_is_read_as_the_page_tells_it() -> None:
    first, text, *_ = blocks(section("5.2"))
    database = parse_metadata(first)
    assert isinstance(database, Database)
    stated = database.facts
    assert [stated[one] for one in ("database type", "character set", "time zone")] == ["ORACLE", "UTF-8", "GMT+01:00"]
    definition = parse_metadata(text)
    assert isinstance(definition, Definition)
    assert (definition.schema, definition.table) == ("SHOP", "STONE")
    assert [column.name for column in definition.columns] == ["ID", "KIND"]
    assert [column.data_type for column in definition.columns] == [132, 64]
    assert [column.key_position for column in definition.columns] == [1, None]


def test_the_items_of_a_ddl_record_are_told_apart() -> None:
    (text,) = blocks(section("5.3"))
    items = ddl_items(text.strip().encode())
    assert items["C1"] == "alter table stone add price int"
    assert (items["B5"], items["B6"]) == ("TABLE", "ALTER")


def test_the_beginning_of_a_file_header_is_read_as_the_page_draws_it() -> None:
    tokens = octets("3000 0008 4747 0d0a 544c 0a0d 3100 0002 0007")
    assert tokens[4:12].hex(" ").upper() in section("1.2")
    assert file_header(b"\x30\0" + len(tokens).to_bytes(2, "big") + tokens)["Compatibility"].startswith("7")
    assert is_raw_trail(bytes(12) + tokens[4:12] + bytes(40))


def test_the_script_of_both_pages_is_the_one_that_is_printed() -> None:
    (shown,) = blocks(section("1.3"))
    printed = logdump_script("/u01/ogg/dirdat/lt000000012")
    assert printed.strip().splitlines() == shown.strip().splitlines()
    other = next(block for block in blocks(CAPTURING) if block.startswith("open "))
    same = [
        [line for line in text.splitlines() if not line.startswith(("open", "log to", "next"))]
        for text in (shown, other)
    ]
    assert same[0] == same[1]


def test_a_position_is_the_pos_of_a_message() -> None:
    assert f"`{12:010d}{the_record().rba:010d}` is sequence 12, RBA 2000" in section("8.4")


def test_the_links_inside_the_page_lead_somewhere() -> None:
    headings = re.findall(r"^##+ (.+)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([\w-]+)\)", PAGE)) <= anchors
    assert set(re.findall(r"formats/goldengate\.md#([\w-]+)\)", CAPTURING)) <= anchors
    assert set(re.findall(r"§(\d(?:\.\d)?)", PAGE)) <= {heading.split()[0] for heading in headings}
