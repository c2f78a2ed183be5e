"""Logdump text, line by line: every grammar, framing, and what contradicts itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.formats.goldengate.contents import TrailToken
from cdcwb.formats.goldengate.layout import MISSING, NOT_A_TIME
from cdcwb.model import Problem
from tests.goldengate_text import (
    BLOCK,
    BODY,
    FILE_GROUPS,
    FILE_HEX,
    FILE_LINE,
    HEADER_TOKENS,
    HEX,
    IMAGE,
    KEY_UPDATE,
    LINE,
    METADATA_LINE,
    NAME,
    RECORD,
    RULE,
    TABLE_TEXT,
    USER_BLOCKS,
    USER_HEX,
    USER_LINES,
    VALUES,
    split_text,
)
from tests.reference.logdump.printed_record import Printed, Shape


def split(text: str) -> list[Printed]:
    data = text.encode()
    pieces = split_text(data)
    at = 0
    for piece in pieces:
        assert piece.start == at < piece.stop
        at = piece.stop
    assert at == len(data)
    return pieces


def one(text: str) -> Printed:
    (record,) = split(text)
    return record


def codes(record: Printed) -> list[Problem]:
    return [code for code, _ in record.problems]


def sentences(record: Printed) -> list[str]:
    return [sentence for _, sentence in record.problems]


def test_a_record_with_all_its_parts() -> None:
    record = one(RECORD)
    assert record.shape is Shape.RECORD
    assert record.values == VALUES
    assert (record.io_time, record.line_time) == ("2023/03/04 05:06:07.000.000",) * 2
    assert (record.operation, record.length, record.rba) == ("Insert", 24, 1880)
    assert (record.name, record.name_index) == ("shop.orders", 2)
    assert (record.image, record.image_partition) == ("After", 12)
    assert record.body == BODY
    assert record.tokens == [TrailToken(0x4C, "LOGCSN", 0, 7, b"1332816"), TrailToken(0x36, "TRANID", 0, 6, b"4.5.67")]
    assert record.problems == []


def test_a_record_without_its_header_block_is_read_from_its_record_line() -> None:
    record = one(LINE + NAME + IMAGE + HEX)
    assert (record.shape, record.values, record.operation, record.body) == (Shape.RECORD, {}, "Insert", BODY)
    assert record.problems == []


def test_collapsed_white_space_says_the_same() -> None:
    mail = "\n".join(" ".join(line.split()) for line in RECORD.splitlines()).replace("Image: Part", "Image: Part")
    record, usual = one(mail), one(RECORD)
    assert record.values == usual.values
    assert (record.body, record.tokens) == (usual.body, usual.tokens)
    assert (record.image, record.image_partition, record.problems) == ("After", 12, [])


@pytest.mark.parametrize("change", ["indented", "dos"])
def test_indentation_and_line_ends_do_not_matter(change: str) -> None:
    text = RECORD.replace("\n", "\r\n") if change == "dos" else RECORD.replace("\n", "\n    ")
    record, usual = one(text), one(RECORD)
    assert (record.values, record.body, record.tokens) == (usual.values, usual.body, usual.tokens)
    assert record.problems == []


def test_the_hex_wins_over_the_character_and_over_the_number() -> None:
    record = one(RECORD.replace("BeforeAfter:     A  (x41)", "BeforeAfter:     A  (x42)"))
    assert (record.values["BeforeAfter"], record.problems) == (0x42, [])
    record = one(RECORD.replace("OrigNode   :   255  (xff)", "OrigNode   :   254  (xff)"))
    assert record.values["OrigNode"] == 255
    assert (record.values["OrigNode"], record.problems) == (255, [])


def test_a_value_that_is_not_there_leaves_its_hex() -> None:
    record = one(RECORD.replace("UndoFlag   :     .  (x00)", "UndoFlag   : . (x01)").replace("  0  (x00)", " (x00)"))
    assert (record.values["UndoFlag"], record.values["SyskeyLen"], record.problems) == (1, 0, [])


def test_characters_without_hex() -> None:
    record = one(
        RECORD.replace("Continued  :     N  (x00)", "Continued  :     Y       ").replace("A  (x41)", "B       ")
    )
    assert (record.values["Continued"], record.values["BeforeAfter"]) == (1, 0x42)


def test_the_indexes_of_a_metadata_record() -> None:
    block = BLOCK.replace("AuditRBA   :        311  ", "DDR/TDR index:   (001, 012)")
    record = one(f"{RULE}\n{block}\n{LINE}{NAME}{IMAGE}{HEX}")
    assert (record.values["DDR index"], record.values["TDR index"], record.values["AuditPos"]) == (1, 12, 4711)
    assert "AuditRBA" not in record.values
    assert record.problems == []


@pytest.mark.parametrize(
    ("line", "time", "operation"),
    [
        ("2023/03/04 05:06:07.123.456 GGSPKUpdate Len 24 RBA 7", 123456, "GGSPKUpdate"),
        ("2023-03-04 05:06:07.123456 SQL/MX DDL OP  Len  24 RBA 7", 123456, "SQL/MX DDL OP"),
        ("2023-03-04T05:06:07.5 Insert Len 24 RBA 7 ", 500000, "Insert"),
    ],
)
def test_record_lines(line: str, time: int, operation: str) -> None:
    record = one(line + "\n")
    assert (record.operation, record.length, record.rba) == (operation, 24, 7)
    assert record.line_moment == 1_677_906_367_000_000 + time


@pytest.mark.parametrize("text", ["2023/13/01 00:00:00.000.000", "2023/01/01 24:00:00", "2023/02/29 00:00:00.1.2"])
def test_what_is_no_time(text: str) -> None:
    assert one(f"{text} Insert Len 24 RBA 7\n").line_moment == NOT_A_TIME


def test_times_before_1970() -> None:
    assert one("1969/12/31 23:59:59.999.999 Insert Len 24 RBA 7\n").line_moment == -1


@pytest.mark.parametrize(
    ("line", "name", "index"),
    [
        ("Name:", "", MISSING),
        ("Name: PDB.SHOP.ORDERS", "PDB.SHOP.ORDERS", MISSING),
        ('Name: "Shop"."a b"  (TDR Index: 31)', '"Shop"."a b"', 31),
        ("TDR Index: 2", None, 2),
    ],
)
def test_name_lines(line: str, name: str | None, index: int) -> None:
    record = one(f"{LINE}{line}\n{HEX}")
    assert (record.name, record.name_index, record.body) == (name, index, BODY)


@pytest.mark.parametrize(
    ("line", "image", "partition"),
    [
        ("After  Image:             Partition 4   G  b   ", "After", 4),
        ("Before Image:             Partition x4c   L  s", "Before", 0x4C),
        ("After Image: Partition ", "After", MISSING),
        ("After Image:", "After", MISSING),
    ],
)
def test_image_lines(line: str, image: str, partition: int) -> None:
    record = one(f"{LINE}{NAME}{line}\n{HEX}")
    assert (record.image, record.image_partition, record.body) == (image, partition, BODY)


def test_hex_without_text_beside_it_and_with_colons() -> None:
    bare = "\n".join(line[:51].rstrip() for line in HEX.splitlines()) + "\n"
    assert one(LINE + IMAGE + bare).body == BODY
    assert one(LINE + IMAGE + HEX.replace("|", ":").upper()).body == BODY


def test_the_text_beside_the_hex_is_not_trusted() -> None:
    assert one(LINE + IMAGE + HEX.replace("ples", "")).body == BODY
    assert one(LINE + IMAGE + HEX.replace("ples", "Logdump 5 > | : ____")).body == BODY


@pytest.mark.parametrize("order", ["little", "big"])
def test_tokens_as_raw_hex_in_either_byte_order(order: str) -> None:
    lengths = ("0400", "0300") if order == "little" else ("0004", "0003")
    raw = bytes.fromhex(f"5200{lengths[0]}41410001" + f"4c00{lengths[1]}373839")
    groups = " ".join(raw.hex()[at : at + 4] for at in range(0, len(raw.hex()), 4))
    record = one(f"{LINE}{IMAGE}{HEX}\nGGS tokens:\n {groups} | R...\n")
    assert record.tokens == [TrailToken(0x52, None, 0, 4, b"AA\0\1"), TrailToken(0x4C, None, 0, 3, b"789")]
    assert record.problems == []


def test_a_token_area_that_was_cut() -> None:
    record = one(f"{LINE}{IMAGE}{HEX}\nGGS tokens:\n 5200 0400 4141 0001 4c00 0300 37 | R...\n")
    assert record.tokens[1] == TrailToken(0x4C, None, 0, 3, b"7")
    assert record.problems == [(Problem.TRUNCATED, "token area truncated: 2 bytes are missing")]


def test_tokens_in_the_older_style() -> None:
    tokens = "GGS tokens:\nTokenID R (x52), Info 0, Length  4\n 4141 0001                : AA..\n"
    record = one(LINE + IMAGE + HEX + tokens)
    assert record.tokens == [TrailToken(0x52, None, 0, 4, b"AA\0\1")]


def test_a_token_that_is_shorter_than_its_length() -> None:
    record = one(RECORD.replace("TRANID           Info x00  Length    6", "TRANID           Info x00  Length   16"))
    assert sentences(record) == ["token TRANID truncated: have 6 of 16 bytes"]


@pytest.mark.parametrize("lines", [USER_LINES, USER_BLOCKS, USER_HEX])
def test_user_tokens(lines: str) -> None:
    record = one(f"{RECORD}\nUser tokens:   46 bytes\n{lines}")
    assert record.user_tokens == [("TK-HOST", "hq"), ("TK-EMPTY", ""), ("TK-TIME", "12:30:01")]
    assert len(record.tokens) == 2
    assert record.problems == []


def test_a_user_token_whose_name_is_hex_digits() -> None:
    record = one(f"{RECORD}\nUser tokens:\ncafe : 12\nName : x\n")
    assert record.user_tokens == [("cafe", "12"), ("Name", "x")]
    assert record.name == "shop.orders"


def test_header_tokens_and_the_header_in_hex() -> None:
    record = one(HEADER_TOKENS + RECORD)
    assert record.parts == {"G": 101, "H": 36, "D": 24, "T": 21, "Z": 101}
    assert len(record.ghdr) == 36
    assert record.values == VALUES
    assert record.problems == []


def test_the_header_in_hex_stands_for_a_header_block_that_is_not_printed() -> None:
    record = one(HEADER_TOKENS + LINE + NAME + IMAGE + HEX)
    assert record.values == VALUES
    assert record.io_time is None
    assert record.problems == []


def test_the_older_header_tokens() -> None:
    lines = "TokenID G, Info 0, Length 101\nTokenID H, Info 0, Length 36\nTokenID Z, Info 0, Length  101\n"
    record = one(lines + RECORD)
    assert record.parts == {"G": 101, "H": 36, "Z": 101}


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("Hdr-Ind    :     E  (x45)", "Hdr-Ind    :     F  (x46)", "Hdr-Ind is x46, expected E"),
        ("TransInd   :     .  (x03)", "TransInd   :     .  (x05)", "TransInd is x05, expected 0, 1, 2 or 3"),
        ("BeforeAfter:     A  (x41)", "BeforeAfter:     C  (x43)", "BeforeAfter is x43, expected A or B"),
        ("    24  (x0018)", "    25  (x0019)", "RecLength is 25, Len of the record line is 24"),
        ("     5  (x05)", "    15  (x0f)", "IOType 15 is FieldComp, the record line has Insert"),
        (
            "IO Time    : 2023/03/04 05",
            "IO Time    : 2023/03/04 06",
            "IO Time is 2023/03/04 06:06:07.000.000, the record line has 2023/03/04 05:06:07.000.000",
        ),
        ("IO Time    : 2023/03/04", "IO Time    : 2023/13/04", "IO Time is not a time: 2023/13/04 05:06:07.000.000"),
    ],
)
def test_what_contradicts_itself_is_named(old: str, new: str, sentence: str) -> None:
    text = (
        RECORD.replace("Column 1 (0x0001), Length 10", "Column 2 (0x0002), Length 10")
        if "column 2" in sentence
        else RECORD
    )
    record = one(text.replace(old, new))
    assert record.problems == [(Problem.HEADER_VALUE, sentence)]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("0352 0000", "0252 0000", "TransInd is printed as 3, the header token has 2"),
        ("3701 0000", "3801 0000", "AuditRBA is printed as 311, the header token has 312"),
    ],
)
def test_the_header_token_is_compared_with_the_header_block(old: str, new: str, sentence: str) -> None:
    record = one((HEADER_TOKENS + RECORD).replace(old, new))
    assert (Problem.HEADER_VALUE, sentence) in record.problems


def test_a_type_that_is_not_known_does_not_contradict_its_name() -> None:
    record = one(RECORD.replace("     5  (x05)", "   199  (xc7)").replace("Insert  ", "GGSNovel"))
    assert (record.values["IOType"], record.operation, record.problems) == (199, "GGSNovel", [])


def test_a_body_that_was_cut() -> None:
    record = one(LINE + IMAGE + HEX.splitlines()[0] + "\n")
    assert record.body == BODY[:20]
    assert record.problems == [(Problem.TRUNCATED, "body truncated: have 20 of 24 bytes")]


@pytest.mark.parametrize(("digits", "bytes_"), [(1, 0), (2, 1), (3, 1), (5, 2), (39, 19)])
def test_a_text_that_ends_inside_a_line_of_hex_keeps_the_whole_bytes(digits: int, bytes_: int) -> None:
    shown = HEX.splitlines()[0][1:51].split(" ")
    cut = "".join(shown)[:digits]
    text = RECORD + LINE + IMAGE + " " + " ".join(cut[at : at + 4] for at in range(0, digits, 4))
    record = split(text)[-1]
    assert (record.shape, record.stop) == (Shape.RECORD, len(text))
    assert record.body == (BODY[:bytes_] or None)
    assert record.problems == [(Problem.TRUNCATED, f"body truncated: have {bytes_} of 24 bytes")]


def test_an_odd_number_of_digits_inside_a_text_is_no_hex() -> None:
    record, filler = split(LINE + IMAGE + " 0000 060\n")
    assert (record.body, filler.shape) == (None, Shape.FILLER)


def test_more_body_than_its_length() -> None:
    record = one(LINE + IMAGE + HEX + " 00\n")
    assert record.problems == [(Problem.HEADER_VALUE, "Len is 24, 25 bytes of data are shown")]


def test_a_header_block_that_lost_a_line() -> None:
    record = one(RECORD.replace(BLOCK.splitlines(keepends=True)[4], ""))
    assert record.problems == [(Problem.TRUNCATED, "header block lacks TransInd, FormatType")]


def test_a_header_block_without_its_record_line() -> None:
    record = one(f"{RULE}\n{BLOCK}\n")
    assert (record.shape, record.operation, record.rba) == (Shape.RECORD, None, MISSING)
    assert sentences(record) == ["record line is missing", "body truncated: have 0 of 24 bytes"]


def test_lines_of_which_nothing_can_be_made() -> None:
    record = one(f"{RULE}\n{BLOCK.splitlines()[0]}\n")
    assert record.shape is Shape.MALFORMED
    assert codes(record) == [Problem.MALFORMED]


def test_names_that_are_not_utf_8() -> None:
    (record,) = split_text(RECORD.encode().replace(b"orders", b"b\xfccher"))
    assert record.name == "shop.b\ufffdcher"
    assert codes(record) == [Problem.CHARSET]


# --- framing ----------------------------------------------------------------------------------------------------------


def shapes(text: str) -> list[tuple[Shape, str]]:
    return [(piece.shape, text[piece.start : piece.stop]) for piece in split(text)]


def test_a_session_is_records_and_filler() -> None:
    banner = "\nOracle GoldenGate Log File Dump Utility for MySQL\nVersion 21\n\nLogdump 1 >open ./dirdat/ab000000007\n"
    opened = "Current LogTrail is /gg/dirdat/ab000000007\nLogdump 2 >n\n"
    pieces = split(f"{banner}{opened}{RECORD}Logdump 3 >n\n\n{RECORD}")
    assert [piece.shape for piece in pieces] == [Shape.FILLER, Shape.RECORD, Shape.FILLER, Shape.RECORD]


def test_a_prompt_that_is_glued_to_a_rule_is_filler() -> None:
    text = f"Logdump 12 >{RECORD}Logdump 13 >Logdump 14 >{RECORD}"
    assert shapes(text) == [
        (Shape.FILLER, "Logdump 12 >"),
        (Shape.RECORD, RECORD),
        (Shape.FILLER, "Logdump 13 >Logdump 14 >"),
        (Shape.RECORD, RECORD),
    ]


def test_a_prompt_that_is_glued_to_a_header_token_or_a_record_line() -> None:
    text = f"Logdump 12 >{HEADER_TOKENS}{RECORD}Logdump 13 >{LINE}{NAME}"
    assert [shape for shape, _ in shapes(text)] == [Shape.FILLER, Shape.RECORD, Shape.FILLER, Shape.RECORD]


def test_blank_lines_behind_a_record_belong_to_it_and_notes_do_not() -> None:
    text = f"{RECORD}\n\nhere the price was changed\n\n{RECORD}"
    assert shapes(text) == [
        (Shape.RECORD, f"{RECORD}\n\n"),
        (Shape.FILLER, "here the price was changed\n\n"),
        (Shape.RECORD, RECORD),
    ]


@pytest.mark.parametrize(
    "note",
    [
        "Hdr-Ind: always E, as Extract writes it",
        "Hdr-Ind : the value is always E (x45)",
        "Hdr-Ind:\u6b64\u503c\u603b\u662fE",
        "Hdr-Ind of every record is E",
    ],
)
def test_a_note_that_begins_with_the_name_of_a_header_field_is_filler(note: str) -> None:
    notes = f"{note}\nUndoFlag: usually 0\nTransInd: place in the transaction\n - x00 - first\n"
    for text in (RECORD + notes + RECORD, notes + RECORD, BLOCK + notes + RECORD):
        pieces = split(text)
        assert [piece.shape for piece in pieces if piece.shape is not Shape.RECORD] == [Shape.FILLER]
        assert not any(piece.problems for piece in pieces if piece.operation is not None)
        assert text.encode()[(filler := next(p for p in pieces if p.shape is Shape.FILLER)).start : filler.stop] == (
            notes.encode()
        )


@pytest.mark.parametrize(
    "line", ["Hdr-Ind    :", "Hdr-Ind    :     E", "Hdr-Ind    :     E  (x4", "Hdr-Ind : E (x45) Par"]
)
def test_a_header_block_that_is_cut_is_no_note(line: str) -> None:
    assert [piece.shape for piece in split(RECORD + line)] == [Shape.RECORD, Shape.MALFORMED]


def test_notes_inside_a_record_belong_to_it() -> None:
    text = RECORD.replace(IMAGE, f"{IMAGE}see the price:\n\n")
    record = one(text)
    assert (record.body, record.problems) == (BODY, [])


def test_records_that_follow_each_other_at_once() -> None:
    assert shapes(RECORD * 3) == [(Shape.RECORD, RECORD)] * 3
    bare = LINE + NAME + IMAGE + HEX
    assert shapes(bare * 3) == [(Shape.RECORD, bare)] * 3
    whole = HEADER_TOKENS + RECORD
    assert shapes(whole * 3) == [(Shape.RECORD, whole)] * 3


def test_a_rule_alone_is_filler() -> None:
    assert shapes(f"{RECORD}{RULE}\n") == [(Shape.RECORD, RECORD), (Shape.FILLER, f"{RULE}\n")]


def test_header_tokens_that_lost_their_first_line_are_no_tokens_of_the_record_before() -> None:
    lost = HEADER_TOKENS.split("\n", 1)[1]
    assert shapes(f"{RECORD}{lost}{RECORD}") == [
        (Shape.RECORD, RECORD),
        (Shape.FILLER, lost),
        (Shape.RECORD, RECORD),
    ]
    assert len(split(f"{RECORD}{lost}{RECORD}")[0].tokens) == 2


# --- special records --------------------------------------------------------------------------------------------------


def test_the_text_of_a_table_definition() -> None:
    text = f"{METADATA_LINE}{TABLE_TEXT}note\n"
    record, filler = split(text)
    assert record.text == "\n".join(line.strip() for line in TABLE_TEXT.splitlines())
    assert (record.name, record.problems, filler.shape) == (None, [], Shape.FILLER)


def test_the_text_of_a_database_definition_and_of_a_reference() -> None:
    database = "Database Name: SHOP\n*\nDDR Version: 1\nTimeZone: GMT+01:00\n*\n"
    reference = "Table Name: shop.orders (Ref TDR Index: 1)\n"
    for lines in (database, reference):
        record, filler = split(f"{METADATA_LINE}{lines}note\n")
        assert record.text == lines.rstrip("\n")
        assert filler.shape is Shape.FILLER


@pytest.mark.parametrize("lines", [FILE_HEX, FILE_GROUPS])
def test_a_file_header_as_hex_and_by_its_groups(lines: str) -> None:
    record = one(FILE_LINE + lines)
    assert record.shape is Shape.FILE_HEADER
    assert record.body == bytes.fromhex("3000001630000008" + b"GG\r\nTL\n\r".hex() + "31000002000732000000")
    assert record.problems == []


def test_the_block_of_a_report() -> None:
    block = "\n".join(
        " ".join(line.split())
        for line in BLOCK.replace("2023/03/04 05:06:07.000.000", "2023-03-04 05:06:07").splitlines()
    )
    text = (
        "Last record for the last committed transaction is the following:\n"
        f"{RULE}\nTrail name : /gg/dirdat/ab000000007\n{block}\n\n"
        f"2023-03-04 05:06:07.000000 Insert Len 24 RBA 1880\nTDR Index: 2\n{RULE}\n\nReading /gg/dirdat/ab000000007\n"
    )
    pieces = split(text.replace("\n", "\n    "))
    record = pieces[1]
    assert [piece.shape for piece in pieces] == [Shape.FILLER, Shape.RECORD, Shape.FILLER]
    assert (record.values, record.name, record.name_index, record.trail) == (VALUES, None, 2, "/gg/dirdat/ab000000007")
    assert sentences(record) == ["body truncated: have 0 of 24 bytes"]


# --- anything ---------------------------------------------------------------------------------------------------------

WHOLE = (
    HEADER_TOKENS + RECORD + "\nUser tokens:\nA : b\nLogdump 5 >" + LINE + KEY_UPDATE + METADATA_LINE + TABLE_TEXT
).encode()


@given(st.data())
def test_whatever_happens_to_the_text_every_byte_is_in_one_piece(data: st.DataObject) -> None:
    lines = WHOLE.splitlines(keepends=True)
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.integers(0, len(lines) - 1))
        what = data.draw(st.sampled_from(["lose", "double", "cut", "noise", "byte"]))
        if what == "lose" and len(lines) > 1:
            del lines[at]
        elif what == "double":
            lines.insert(at, lines[at])
        elif what == "cut":
            lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at])))]
        elif what == "noise":
            lines.insert(at, data.draw(st.binary(max_size=30)) + b"\n")
        elif lines[at]:
            place = data.draw(st.integers(0, len(lines[at]) - 1))
            lines[at] = lines[at][:place] + data.draw(st.binary(min_size=1, max_size=1)) + lines[at][place + 1 :]
    text = b"".join(lines)
    at = 0
    for piece in split_text(text):
        assert piece.start == at < piece.stop
        at = piece.stop
        if piece.shape is not Shape.FILLER:
            (again,) = split_text(text[piece.start : piece.stop])
            again.start, again.stop = piece.start, piece.stop
            assert again == piece
    assert at == len(text)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    pieces = split_text(data)
    assert b"".join(data[piece.start : piece.stop] for piece in pieces) == data
