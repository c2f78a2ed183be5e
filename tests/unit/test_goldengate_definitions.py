"""Definitions of tables as Metadata records and DEFGEN files have them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from cdcwb import model
from cdcwb.formats.goldengate.definitions import (
    ColumnDef,
    Database,
    Definition,
    Reference,
    parse_defgen,
    parse_metadata,
    split_name,
)
from cdcwb.formats.goldengate.layout import Coding, How, coding_of, is_known, type_name
from cdcwb.model import Problem

ID = "134     13        0  0  0 0 0      8      8      8 0 0 0 0 1    0 1   3    2       -1      0 0 0"
NAME = " 64     40       12  0  0 1 0     40     40      0 0 0 0 0 1    0 0   0    1       -1      0 0 0"
AT = "192     29       58  0  0 1 0     29     29     29 0 6 0 0 1    0 0   0  187       -1      0 0 0"


def short(row: str) -> str:
    """A row as the releases before wrote it."""
    return " ".join(row.split()[:18])


def table(name: str, *rows: str, columns: int | None = None, end: str = "End of definition\n") -> str:
    count = len(rows) if columns is None else columns
    body = "".join(f"{row}\n" for row in rows)
    return f"Definition for table {name}\nRecord length: 90\nSyskey: 0\nColumns: {count}\n{body}{end}"


def one(text: str) -> Definition:
    (definition,) = parse_defgen(text)
    return definition


def test_a_row_is_a_name_and_numbers_with_names() -> None:
    definition = one(table("SHOP.ORDERS", f"ID {ID}", f"NAME {NAME}", f"PLACED_AT {AT}"))
    assert (definition.schema, definition.table) == ("SHOP", "ORDERS")
    assert definition.names == ("ID", "NAME", "PLACED_AT")
    first, second, third = definition.columns
    assert third == ColumnDef(
        3, "PLACED_AT", 192, 29, null=1, least_significant_dt=6, sub_data_type=0, native_data_type=187, lob_type=0,
        numbers=tuple(map(int, AT.split())),
    )  # fmt: skip
    assert (first.null, second.null) == (0, 1)
    assert [column.key_position for column in definition.columns] == [1, None, None]
    assert definition.problems == ()


def test_columns_are_rows_of_the_model() -> None:
    definition = one(table("SHOP.ORDERS", f"ID {ID}", f"NAME {NAME}"))
    rows = pa.array([one._asdict() for one in definition.described], model.COLUMN).to_pylist()
    assert rows[0] == {
        "ordinal": 1,
        "name": "ID",
        "type": "134 INT64",
        "length": 13,
        "precision": None,
        "scale": 0,
        "key_position": 1,
        "nullable": False,
    }


def test_key_positions_count_the_key_columns() -> None:
    definition = one(table("A.B", f"X {NAME}", f"Y {ID}", f"Z {ID}"))
    assert [column.key_position for column in definition.columns] == [None, 1, 2]


@pytest.mark.parametrize("name", ["ORDER DATE", "2", "SIZE 10", "x 1 2 3", "Größe", 'a"b'])
def test_names_with_blanks_and_digits_are_read_from_the_right(name: str) -> None:
    assert one(table("A.B", f"ID {ID}", f"{name} {NAME}")).names == ("ID", name)
    assert one(table("A.B", f"ID {short(ID)}", f"{name} {short(NAME)}")).names == ("ID", name)


def test_quotes_around_names_are_no_part_of_them() -> None:
    definition = one(table('"My Shop"."The.Orders"', f'"Order ID" {ID}', f'"a""b" {NAME}'))
    assert (definition.schema, definition.table) == ("My Shop", "The.Orders")
    assert definition.names == ("Order ID", 'a"b')


def test_rows_of_older_releases_have_fewer_numbers() -> None:
    column = one(table("A.B", f"ID {short(ID)}")).columns[0]
    assert (column.sub_data_type, column.native_data_type, column.lob_type) == (3, None, None)
    assert (column.key_position, column.is_lob) == (1, False)


def test_the_legend_says_how_many_numbers_a_row_has() -> None:
    legend = "".join(f"*    {number:2}    Field {number}\n" for number in range(1, 20))
    head = f"*+- Defgen version 2.0, Encoding UTF-8\n*\n{legend}*\nDatabase type: ORACLE\n*\n"
    definition = one(head + table("A.B", f"PART 7 {short(ID)}"))
    assert definition.names == ("PART 7",)


def test_a_file_has_the_definitions_of_many_tables() -> None:
    text = "*+- Defgen version 5.0, Encoding UTF-8\n*\n" + table("A.B", f"X {ID}") + "*\n" + table("A.C", f"Y {NAME}")
    assert [(one.table, one.names) for one in parse_defgen(text)] == [("B", ("X",)), ("C", ("Y",))]
    assert parse_defgen(text.replace("\n", "\r\n"))[1].names == ("Y",)
    assert parse_defgen("no definitions\n") == []


def test_a_bad_row_keeps_its_place_and_is_a_problem() -> None:
    definition = one(table("A.B", f"X {ID}", "Y 64 what", f"Z {NAME}"))
    assert definition.names == ("X", "c1", "Z")
    assert definition.columns[1].coding.how is How.UNKNOWN
    assert definition.problems == ((Problem.SCHEMA_TEXT, "row 2 of the definition of A.B is not a column: Y 64 what"),)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (table("A.B", f"X {ID}", end=""), Problem.TRUNCATED, "has no end"),
        (table("A.B", f"X {ID}", columns=3), Problem.SCHEMA_MISMATCH, "has 1 rows for 3 columns"),
        (table("A.B"), Problem.SCHEMA_TEXT, "has no columns"),
        (table("A.B", f"X {ID}", f"X {NAME}"), Problem.SCHEMA_TEXT, "has the column X more than once"),
        (table("A.B", f"X {ID.replace('134', '155')}"), Problem.UNKNOWN_TYPE, "has the data type 155"),
    ],
)
def test_what_is_wrong_with_a_definition_is_said_once(text: str, code: Problem, words: str) -> None:
    ((found, sentence),) = one(text).problems
    assert (found, words in sentence) == (code, True)


def test_names_that_repeat_get_a_number_and_those_by_index_are_never_names_of_the_table() -> None:
    repeated = one(table("A.B", f"X {ID}", f"X {NAME}", f"X#2 {NAME}"))
    assert repeated.names == ("X", "X#3", "X#2")
    unread = one(table("A.B", f"X {ID}", "Y 64 what", f"c1 {NAME}", f"c3 {NAME}"))
    assert unread.names == ("X", "c1#2", "c1", "c3")
    assert [unread.name(index) for index in (2, 3, 4)] == ["c1", "c3", "c4"]
    assert one(table("A.B", f"c1 {ID}")).name(1) == "c1#2"


def test_definitions_are_the_same_if_their_columns_are() -> None:
    first, again = one(table("A.B", f"X {ID}")), one("*\n" + table("A.B", f"X   {ID}"))
    assert first.same_columns(again)
    assert not first.same_columns(one(table("A.B", f"X {NAME}")))


def test_a_reference_names_an_earlier_definition() -> None:
    found = parse_metadata("Table Name: SHOP.ORDERS (Ref TDR Index: 12)\n")
    assert isinstance(found, Reference)
    assert (found.schema, found.table, found.index) == ("SHOP", "ORDERS", 12)


def test_metadata_may_be_indented_and_have_other_line_ends() -> None:
    text = "Table Name: A.B\n*\nTDR version: 11\n" + table("A.B", f"X {ID}").replace("length", "Length")
    for form in (text.replace("\n", "\r\n"), "".join(f"    {line}\n" for line in text.splitlines())):
        found = parse_metadata(form)
        assert isinstance(found, Definition)
        assert (found.names, found.problems) == (("X",), ())


def test_a_table_without_its_definition_is_cut() -> None:
    found = parse_metadata("Table Name: A.B\n*\n 1)Name          2)Data Type\n")
    assert isinstance(found, Definition)
    assert (found.table, found.columns) == ("B", ())
    assert found.problems == ((Problem.TRUNCATED, "the definition of A.B is not shown"),)


def test_other_text_is_no_metadata() -> None:
    assert parse_metadata("") is None
    assert parse_metadata('CREATE TABLE "A"."B" (X INT)\n') is None


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("A.B", ("A", "B")),
        ("PDB.A.B", ("PDB.A", "B")),
        ("B", (None, "B")),
        ('"a.b"."C d"', ("a.b", "C d")),
        ("", (None, "")),
    ],
)
def test_names_split_at_the_last_dot_outside_quotes(name: str, parts: tuple[str | None, str]) -> None:
    assert split_name(name) == parts


# --- types ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "sub", "expected"),
    [
        (64, 0, Coding(How.TEXT)),
        (64, 1, Coding(How.TEXT, charset="utf-16-be")),
        (64, 4, Coding(How.BINARY)),
        (0, 0, Coding(How.FIXED_TEXT, 20)),
        (130, 0, Coding(How.INTEGER, 2, 2)),
        (135, 0, Coding(How.INTEGER, 8, 2, signed=False)),
        (143, 0, Coding(How.FLOAT, 8)),
        (150, 0, Coding(How.DECIMAL)),
        (189, 0, Coding(How.DECIMAL)),
        (192, 0, Coding(How.MOMENT)),
        (212, 0, Coding(How.MOMENT)),
        (155, 0, Coding(How.UNKNOWN)),
        (250, 0, Coding(How.UNKNOWN)),
    ],
)
def test_the_type_code_says_how_values_are_written(code: int, sub: int, expected: Coding) -> None:
    assert coding_of(code, sub, length=20, scale=2) == expected


def test_a_large_object_is_told_by_its_flag() -> None:
    text = ColumnDef(1, "NOTE", 64, sub_data_type=0, native_data_type=112, lob_type=1)
    binary = ColumnDef(2, "PICTURE", 64, sub_data_type=4, native_data_type=113, lob_type=1)
    assert [(one.is_lob, one.is_text_lob, one.coding.how) for one in (text, binary)] == [
        (True, True, How.LOB),
        (True, False, How.LOB),
    ]


def test_type_names_say_the_code() -> None:
    assert (type_name(132), type_name(64, 4), type_name(999)) == ("132 INT32", "64 VARBINARY", "999")
    assert (is_known(207), is_known(156), is_known(-1)) == (True, False, False)


# --- real text --------------------------------------------------------------------------------------------------------


@pytest.mark.samples
def test_the_real_table_definition_is_read(samples: Path) -> None:
    text = (samples / "goldengate" / "logdump-mysql-02-metadata-tdr.txt").read_text(encoding="utf-8")
    found = parse_metadata(text[text.index("Table Name:") :])
    assert isinstance(found, Definition)
    assert (found.schema, found.table) == ("test", "ogg_test")
    assert [(one.name, one.type, one.key_position, one.null != 0) for one in found.columns] == [
        ("c1", "132 INT32", 1, False),
        ("c2", "64 VARCHAR", None, True),
    ]
    assert found.problems == ()


@pytest.mark.samples
def test_the_real_database_definition_is_read(samples: Path) -> None:
    text = (samples / "goldengate" / "logdump-mysql-01-metadata-ddr.txt").read_text(encoding="utf-8")
    found = parse_metadata(text[text.index("Database Name:") :])
    assert isinstance(found, Database)
    assert found.facts == {
        "database type": "MYSQL",
        "character set": "UTF-8",
        "national character set": "UTF-16BE",
        "locale": "en_US",
        "time zone": "GMT+09:00",
    }
