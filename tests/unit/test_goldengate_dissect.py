"""The field tree of a record's text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.errors import CaptureError
from cdcwb.formats import get_format
from cdcwb.formats.dissector import Field
from cdcwb.formats.goldengate.definitions import Definition, parse_metadata
from cdcwb.formats.goldengate.tree import dissect
from cdcwb.model import Problem
from tests.goldengate_text import (
    COLUMNS,
    FILE_GROUPS,
    FILE_HEX,
    FILE_LINE,
    GGS,
    HEADER_TOKENS,
    HEX,
    IMAGE,
    KEY_UPDATE,
    LINE,
    METADATA_LINE,
    NAME,
    RECORD,
    TABLE_TEXT,
    USER_BLOCKS,
    USER_HEX,
    USER_LINES,
)

DEFINITION = """\
Table Name: shop.orders
*
TDR version: 11
Definition for table shop.orders
Record Length: 132
Columns: 2
id    132     11        0  0  0 0 0      4      4      4 0 0 0 0 1    0 1   0    3       -1      0 0 0
fruit  64    120        7  0  0 1 0    120    120      0 0 0 0 0 1    0 0   0  253        0      0 0 0
End of definition
"""


def check(field: Field, text: bytes) -> None:
    """Children fill their node without holes; raw is the text."""
    assert field.raw == text[field.offset : field.offset + field.length]
    at = field.offset
    for child in field.children:
        assert child.offset == at
        assert child.length > 0
        check(child, text)
        at += child.length
    if field.children:
        assert at == field.offset + field.length


def tree(text: str | bytes, definition: Definition | None = None) -> Field:
    raw = text.encode() if isinstance(text, str) else text
    field = dissect(raw, definition)
    assert (field.offset, field.length) == (0, len(raw))
    check(field, raw)
    return field


def named(field: Field, *names: str) -> Field:
    for name in names:
        field = next(child for child in field.children if child.name == name)
    return field


def definition() -> Definition:
    found = parse_metadata(DEFINITION)
    assert isinstance(found, Definition)
    return found


def test_a_text_that_ends_inside_a_byte_has_the_bytes_before_it() -> None:
    field = tree(LINE + IMAGE + " 0000 0600 0000 0000 0007 010")
    data = named(field, "data")
    assert named(data, "c0", "value").value == "7"
    assert (named(data, "undecoded").raw, named(data, "undecoded").problem) == (b"01", Problem.TRUNCATED)


def test_every_header_field_has_its_place_value_and_meaning() -> None:
    field = tree(RECORD)
    assert (field.name, field.meaning, field.problem) == ("Insert", "row inserted", None)
    header = named(field, "header")
    told = {child.name: child.value for child in header.children if child.name != "layout"}
    assert told == {
        "Hdr-Ind": "E",
        "Partition": "12",
        "UndoFlag": "0",
        "BeforeAfter": "A",
        "RecLength": "24",
        "IO Time": "2023/03/04 05:06:07.000.000",
        "IOType": "5",
        "OrigNode": "255",
        "TransInd": "3",
        "FormatType": "R",
        "SyskeyLen": "0",
        "Incomplete": "0",
        "AuditRBA": "311",
        "AuditPos": "4711",
        "Continued": "N",
        "RecCount": "1",
    }
    assert all(child.meaning for child in header.children)
    assert named(header, "TransInd").raw == b"TransInd   :     .  (x03)"
    assert named(header, "TransInd").meaning == "only record of its transaction"


def test_a_header_value_that_contradicts_itself_is_marked() -> None:
    field = named(tree(RECORD.replace("(x0018)", "(x0019)")), "header", "RecLength")
    assert (field.value, field.problem) == ("25", Problem.HEADER_VALUE)
    assert "RecLength is 25, Len of the record line is 24" in field.meaning


def test_the_record_line_name_and_image() -> None:
    field = tree(RECORD)
    line = named(field, "record line")
    assert [child.value for child in line.children if child.name != "layout"] == [
        "2023/03/04 05:06:07.000.000",
        "Insert",
        "24",
        "1880",
    ]
    assert (named(field, "name", "table").value, named(field, "name", "TDR index").value) == ("shop.orders", "2")
    assert named(field, "image", "place in transaction").meaning == "only record of its transaction"


def test_the_bytes_of_the_data_become_columns() -> None:
    field = named(tree(RECORD, definition()), "data")
    key, fruit = (child for child in field.children if child.name != "layout")
    assert (key.name, key.value, fruit.name, fruit.value) == ("id", "7", "fruit", "apples")
    assert [child.name for child in fruit.children if child.name != "layout"] == [
        "column index",
        "column length",
        "null indicator",
        "value",
    ]
    assert key.raw == b"0000 0600 0000 0000 0007"
    assert named(fruit, "column length").value == "10"


def test_without_a_definition_columns_are_numbered_and_values_guessed() -> None:
    field = named(tree(RECORD), "data")
    assert [(child.name, child.value) for child in field.children if child.name != "layout"] == [
        ("c0", "7"),
        ("c1", "apples"),
    ]
    assert "inferred type" in named(field, "c1").meaning


def test_columns_line_by_line() -> None:
    field = named(tree(LINE + NAME + IMAGE + COLUMNS, definition()), "columns")
    assert [(child.name, child.value) for child in field.children if child.name != "layout"] == [
        ("id", "7"),
        ("fruit", "apples"),
    ]
    cut = named(tree(LINE + NAME + IMAGE + COLUMNS.replace(" 6573", "")), "columns", "c1")
    assert cut.problem == Problem.TRUNCATED


def test_null_of_a_column_that_is_printed_by_itself() -> None:
    null = "Column 1 (0x0001), Length 2 (0x0002).\n ffff                                              | ..\n"
    field = named(tree(LINE + NAME + IMAGE + null), "columns", "c1")
    assert (field.value, field.problem, named(field, "null indicator").value) == (None, None, "ffff")


def test_a_column_too_short_for_a_null_indicator_has_all_of_its_bytes() -> None:
    field = named(tree(LINE.replace("24", " 5") + IMAGE + " 0000 0100 07 | x\n"), "data", "c0")
    assert (field.raw, field.value, field.problem) == (b"0000 0100 07", "07", Problem.VALUE)


def test_null_and_a_body_that_was_cut() -> None:
    null = " 0000 0600 0000 0000 0007 0100 0200 ffff           | x\n"
    field = named(tree(LINE.replace("24", "16") + IMAGE + null), "data", "c1")
    assert (field.value, field.problem) == (None, None)
    assert "NULL" in field.meaning
    cut = tree(LINE + IMAGE + " 0000 0600 0000 0000 0007 0100 0a00 0000 0600 6170 | x\n")
    assert cut.problem == Problem.TRUNCATED
    assert named(cut, "data", "c0").value == "7"
    rest = named(cut, "data", "undecoded")
    assert (rest.value, rest.problem) == ("01000a00000006006170", Problem.TRUNCATED)


def test_a_column_that_goes_on_in_the_next_record_is_no_error() -> None:
    text = RECORD.replace("Continued  :     N  (x00)", "Continued  :     Y  (x01)")
    text = text.replace("0a00 0000 0600", "0b00 0000 0700")
    rest = named(tree(text), "data", "undecoded")
    assert (rest.meaning, rest.problem) == ("a column that continues in the next record", None)


def test_the_system_key_of_a_nonstop_record() -> None:
    text = RECORD.replace("SyskeyLen  :     0  (x00)", "SyskeyLen  :     4  (x04)").replace(
        HEX, " 0102 0304 0000 0004 0000 0007 0001 0006 6170 706c 6573 | x\n"
    )
    field = named(tree(text), "data")
    assert [(child.name, child.value) for child in field.children if child.name != "layout"] == [
        ("system key", "01020304"),
        ("c0", "7"),
        ("c1", "apples"),
    ]


def test_both_images_of_a_key_update() -> None:
    line = LINE.replace("Insert     ", "GGSPKUpdate").replace("24", "22")
    body = " 0a00 0000 0600 0000 0000 0007 0000 0600 0000 0000 | x\n 0008 | x\n"
    field = tree(line + NAME + IMAGE + body + KEY_UPDATE)
    data = [child for child in named(field, "data").children if child.name != "layout"]
    assert [(child.name, child.value) for child in data] == [
        ("length of the before image", "10"),
        ("c0", "7"),
        ("c0", "8"),
    ]
    assert [child.meaning.split(" ", 1)[0] for child in data[1:]] == ["before", "after"]
    columns = [child for child in named(field, "columns").children if child.name == "c0"]
    assert [child.value for child in columns] == ["7", "8"]


def test_tokens_in_both_ways() -> None:
    tokens = named(tree(RECORD), "tokens")
    assert [(child.name, child.value) for child in tokens.children if child.name != "layout"] == [
        ("LOGCSN", "1332816"),
        ("TRANID", "4.5.67"),
    ]
    raw = "GGS tokens:\n 5200 0004 4141 0001 4c00 0003 3738 39 | R...\n"
    tokens = named(tree(LINE + IMAGE + HEX + raw), "tokens")
    assert [(child.name, child.value) for child in tokens.children if child.name != "layout"] == [
        ("ORAROWID", "AA"),
        ("LOGCSN", "789"),
    ]


@pytest.mark.parametrize("lines", [USER_LINES, USER_BLOCKS, USER_HEX])
def test_user_tokens(lines: str) -> None:
    tokens = named(tree(f"{RECORD}\nUser tokens:\n{lines}"), "user tokens")
    told = [(child.name, child.value) for child in tokens.children if child.name != "layout"]
    if lines == USER_BLOCKS:
        assert [value for _, value in told] == ["hq", "", "12:30:01"]
    else:
        assert told == [("TK-HOST", "hq"), ("TK-EMPTY", ""), ("TK-TIME", "12:30:01")]


def test_the_header_token_number_by_number() -> None:
    token = named(tree(HEADER_TOKENS + RECORD), "header tokens", "H")
    assert named(token, "IO Time").value == "2023-03-03T20:06:07.000000Z"
    assert (named(token, "IOType").value, named(token, "AuditRBA").value) == ("5", "311")
    assert named(token, "IOType").raw == b"05"


@pytest.mark.parametrize("lines", [FILE_HEX, FILE_GROUPS])
def test_a_file_header(lines: str) -> None:
    field = tree(FILE_LINE + lines)
    assert field.name == "FileHeader"
    if lines == FILE_HEX:
        assert named(field, "data", "TrailInfo", "Compatibility").value == "7"
    else:
        assert named(field, "file header", "Compatibility", "value").value == "0007"


def test_ddl_and_metadata() -> None:
    body = b",B3='shop',,C1='drop \\'x"
    groups = " ".join(body.hex()[at : at + 4] for at in range(0, len(body.hex()), 4))
    field = tree(f"{LINE.replace('Insert', 'DDLOP ')}Name:\n{IMAGE} {groups} | x\n")
    assert named(field, "data", "B3").value == "shop"
    assert (named(field, "data", "C1").value, named(field, "data", "C1").problem) == ("drop 'x", Problem.TRUNCATED)
    metadata = named(tree(METADATA_LINE + TABLE_TEXT), "metadata")
    assert named(metadata, "Columns").value == "1"


def test_notes_and_malformed_records() -> None:
    field = tree(RECORD.replace(IMAGE, f"{IMAGE}a note\n"))
    assert any(child.name == "text" and child.value == "a note" for child in field.walk())
    assert tree("_" * 67 + "\nHdr-Ind : E (x45)\n").name == "malformed"
    assert tree(b"\n\nnothing\n").name == "malformed"
    assert tree(b"").children == ()


WHOLE = f"{HEADER_TOKENS}{RECORD}{KEY_UPDATE}{GGS}\nUser tokens:\n{USER_BLOCKS}{USER_LINES}{USER_HEX}".encode()


@given(st.data())
def test_whatever_the_bytes_are_the_tree_has_no_holes(data: st.DataObject) -> None:
    start = data.draw(
        st.sampled_from([WHOLE, (FILE_LINE + FILE_GROUPS).encode(), (METADATA_LINE + DEFINITION).encode()])
    )
    text = bytearray(start)
    for _ in range(data.draw(st.integers(0, 8))):
        at = data.draw(st.integers(0, max(len(text) - 1, 0)))
        what = data.draw(st.sampled_from(["change", "lose", "insert", "cut"]))
        if what == "change" and text:
            text[at] = data.draw(st.integers(0, 255))
        elif what == "lose":
            del text[at : at + data.draw(st.integers(1, 90))]
        elif what == "insert":
            text[at:at] = data.draw(st.binary(max_size=20))
        else:
            del text[at:]
    tree(bytes(text))
    tree(bytes(text), definition())


def test_a_place_in_the_notes_is_filler(tmp_path: Path) -> None:
    path = tmp_path / "session.txt"
    path.write_text(f"{METADATA_LINE}{DEFINITION}Logdump 4 >n\n{RECORD}")
    at = len(METADATA_LINE) + len(DEFINITION)
    found = get_format("goldengate").inspect(str(path), at + 3, {})
    assert (found.offset, found.length, found.event["kind"]) == (at, len("Logdump 4 >n\n"), "filler")
    assert (found.field.name, found.note) == ("filler", "lines that belong to no record")


def test_a_record_is_found_with_the_definition_of_its_table(tmp_path: Path) -> None:
    path = tmp_path / "session.txt"
    header = RECORD[: RECORD.index(LINE)].replace("AuditRBA   :        311  ", "DDR/TDR index:   (001, 002)")
    header = header.replace("     5  (x05)", "   170  (xaa)").replace("    24  (x0018)", "   138  (x008a)")
    path.write_text(f"{header}{METADATA_LINE}{DEFINITION}{RECORD}")
    record = get_format("goldengate").inspect(str(path), path.stat().st_size - 5, {})
    assert (record.record, record.length) == (RECORD.encode(), len(RECORD))
    assert named(record.field, "data", "fruit").value == "apples"
    assert "decoded with" in record.note
    assert record.event["table_name"] == "orders"
    assert (record.event["kind"], record.event["operation"]) == ("change", "INSERT")
    assert dict(record.event["after"]) == {"id": "7", "fruit": "apples"}


def test_a_record_is_found_with_the_definition_that_its_table_shares_with_another(tmp_path: Path) -> None:
    path = tmp_path / "session.txt"
    header = RECORD[: RECORD.index(LINE)].replace("AuditRBA   :        311  ", "DDR/TDR index:   (001, 001)")
    header = header.replace("     5  (x05)", "   170  (xaa)").replace("    24  (x0018)", "     0  (x0000)")
    line = METADATA_LINE.replace("Len 138 RBA 1200", "Len 0 RBA 1500")
    reference = f"{header}{line}Table Name: shop.orders (Ref TDR Index: 1)\n"
    other = DEFINITION.replace("shop.orders", "shop.baskets")
    text = header.replace("     0  (x0000)   IO", "   138  (x008a)   IO") + METADATA_LINE + other + reference + RECORD
    path.write_text(text)
    record = get_format("goldengate").inspect(str(path), path.stat().st_size - 5, {})
    assert named(record.field, "data", "fruit").value == "apples"
    assert "shop.orders" in record.note
    assert record.event["key"] == [("id", "7")]
    assert dict(record.event["after"]) == {"id": "7", "fruit": "apples"}


def test_a_place_behind_the_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "session.txt"
    path.write_text(RECORD)
    with pytest.raises(CaptureError, match="the file has"):
        get_format("goldengate").inspect(str(path), len(RECORD), {})


def test_a_record_far_into_a_large_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "session.txt"
    records = [RECORD.replace("RBA 1880", f"RBA {1880 + number}") for number in range(200)]
    path.write_text(METADATA_LINE + DEFINITION + "note\n" * 30000 + "".join(records) + "note\n" * 30000)
    at = len(METADATA_LINE) + len(DEFINITION) + 5 * 30000
    found = get_format("goldengate").inspect(str(path), at + 70 * len(RECORD) + 5, {"split_size": 65536})
    assert (found.offset, found.record) == (at + 70 * len(RECORD), records[70].encode())
    assert named(found.field, "data", "fruit").value == "apples"
    assert get_format("goldengate").inspect(str(path), at - 5, {}).event["kind"] == "filler"
