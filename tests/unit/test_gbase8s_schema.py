"""Table schemas: every spelling of a type gives its bytes, and what disagrees with the header is said, not guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.errors import CaptureError
from cdcwb.formats.gbase8s.layout import ColumnKind, SchemaColumn
from cdcwb.formats.gbase8s.schema import (
    SchemaTextError,
    parse_columns,
    read_side_file,
    schema_text,
    table_schema,
    text_codec,
)
from cdcwb.model import Problem


def column(type_: str) -> SchemaColumn:
    (found,) = parse_columns(f"c {type_}")
    return found


def schema(text: str, fixed_bytes: int | None, fixed: int | None, variable: int | None) -> Any:
    return table_schema(7, 1, text, (fixed_bytes, fixed, variable), "record")


# --- types ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "kind", "size"),
    [
        ("smallint", "smallint", 2),
        ("integer", "integer", 4),
        ("int", "integer", 4),
        ("serial", "integer", 4),
        ("serial(100)", "integer", 4),
        ("bigint", "bigint", 8),
        ("bigserial", "bigint", 8),
        ("bigserial(5000000000)", "bigint", 8),
        ("int8", "int8", 10),
        ("serial8", "int8", 10),
        ("serial8(12)", "int8", 10),
        ("date", "date", 4),
        ("float", "float", 8),
        ("float(10)", "float", 8),
        ("double precision", "float", 8),
        ("double  precision (16)", "float", 8),
        ("smallfloat", "smallfloat", 4),
        ("real", "smallfloat", 4),
        ("boolean", "boolean", 2),
        ("char", "char", 1),
        ("char(20)", "char", 20),
        ("character(3)", "char", 3),
        ("nchar(10)", "char", 10),
        ("blob", "lob", 76),
        ("clob", "lob", 76),
    ],
)
def test_a_fixed_length_type_takes_its_bytes(type_: str, kind: str, size: int) -> None:
    found = column(type_)
    assert (found.kind, found.fixed, found.size, found.length) == (ColumnKind(kind), True, size, size)


@pytest.mark.parametrize(
    ("type_", "precision", "scale", "size"),
    [
        ("decimal", 16, None, 10),
        ("dec", 16, None, 10),
        ("numeric", 16, None, 10),
        ("decimal(4)", 4, None, 4),
        ("decimal(5)", 5, None, 4),
        ("decimal(32)", 32, None, 17),  # 18 by the formula; a packed decimal has no more than 17
        ("decimal(16,255)", 16, None, 10),  # how a catalogue writes a floating one
        ("decimal(4,2)", 4, 2, 3),
        ("decimal(5,1)", 5, 1, 4),
        ("decimal(5,2)", 5, 2, 4),
        ("decimal(10,2)", 10, 2, 6),
        ("numeric(12,0)", 12, 0, 7),
        ("dec(1,1)", 1, 1, 2),
        ("decimal(32,16)", 32, 16, 17),
        ("money", 16, 2, 9),
        ("money(10)", 10, 2, 6),
        ("money(10,3)", 10, 3, 7),
        ("DECIMAL ( 12 , 2 )", 12, 2, 7),
    ],
)
def test_a_decimal_takes_the_bytes_of_its_digit_pairs(type_: str, precision: int, scale: int | None, size: int) -> None:
    found = column(type_)
    assert found.kind is ColumnKind.DECIMAL
    assert (found.precision, found.scale, found.size) == (precision, scale, size)


@pytest.mark.parametrize(
    ("type_", "start", "end", "fraction", "size"),
    [
        ("year to year", 0, 0, 0, 3),
        ("year to month", 0, 2, 0, 4),
        ("year to day", 0, 4, 0, 5),
        ("year to hour", 0, 6, 0, 6),
        ("year to minute", 0, 8, 0, 7),
        ("year to second", 0, 10, 0, 8),
        ("year to fraction(1)", 0, 12, 1, 9),
        ("year to fraction(2)", 0, 12, 2, 9),
        ("year to fraction", 0, 12, 3, 10),
        ("year to fraction(4)", 0, 12, 4, 10),
        ("year to fraction(5)", 0, 12, 5, 11),
        ("month to day", 2, 4, 0, 3),
        ("hour to second", 6, 10, 0, 4),
        ("minute to fraction(5)", 8, 12, 5, 6),
        ("second to second", 10, 10, 0, 2),
        ("fraction to fraction(5)", 12, 12, 5, 4),
        ("YEAR TO FRACTION (3)", 0, 12, 3, 10),
    ],
)
def test_a_datetime_takes_the_bytes_of_its_fields(type_: str, start: int, end: int, fraction: int, size: int) -> None:
    found = column(f"datetime {type_}")
    assert found.kind is ColumnKind.DATETIME
    assert (found.start, found.end, found.fraction, found.size) == (start, end, fraction, size)


@pytest.mark.parametrize(
    ("type_", "start", "end", "lead", "fraction", "size"),
    [
        ("year to month", 0, 2, 4, 0, 4),
        ("year(2) to month", 0, 2, 2, 0, 3),
        ("year(9) to year", 0, 0, 9, 0, 6),
        ("month to month", 2, 2, 2, 0, 2),
        ("day to second", 4, 10, 2, 0, 5),
        ("day(3) to second", 4, 10, 3, 0, 6),
        ("day(3) to day", 4, 4, 3, 0, 3),
        ("hour(9) to fraction(3)", 6, 12, 9, 3, 10),
        ("second to fraction", 10, 12, 2, 3, 4),
        ("fraction to fraction(2)", 12, 12, 0, 2, 2),
    ],
)
def test_an_interval_takes_the_bytes_of_its_leading_digits_and_fields(
    type_: str, start: int, end: int, lead: int, fraction: int, size: int
) -> None:
    found = column(f"interval {type_}")
    assert found.kind is ColumnKind.INTERVAL
    assert (found.start, found.end, found.lead, found.fraction, found.size) == (start, end, lead, fraction, size)


@pytest.mark.parametrize(
    ("type_", "kind", "length"),
    [
        ("varchar(20,0)", "varchar", 20),
        ("varchar(20)", "varchar", 20),
        ("varchar(255, 16)", "varchar", 255),
        ("nvarchar(100)", "varchar", 100),
        ("nvarchar(100,1)", "varchar", 100),
        ("character varying(32765,10)", "varchar", 32765),
        ("varchar", "varchar", None),
        ("lvarchar", "lvarchar", 2048),
        ("lvarchar(100)", "lvarchar", 100),
    ],
)
def test_a_variable_length_type_has_a_length_but_no_size(type_: str, kind: str, length: int | None) -> None:
    found = column(type_)
    assert (found.kind, found.fixed, found.size, found.length) == (ColumnKind(kind), False, None, length)


@pytest.mark.parametrize(
    "type_",
    [
        "varchar2(20)", "nvarchar2(20)", "clob2", "json", "bson", "raw(16)", "timestamp(6)", "timestamp",
        "timestamp(6) with time zone", "byte", "text", "set(integer not null)", "multiset(char(5) not null)",
        "list(integer not null)", "row(a integer, b varchar(20))", "my_type", "owner.my_type",
        '"Owner".my_type', '"date"',
        "decimal(33)", "decimal(0)", "decimal(4,5)", "decimal(4,2,1)", "char(0)", "char(20,2)", "char(99999999999)",
        "integer(4)", "datetime", "datetime second to year", "datetime year to fraction(6)",
        "datetime year to fraction(0)",
        "datetime year to second(3)", "datetime year to week", "interval month to day", "interval year(0) to month",
        "interval fraction(2) to fraction(3)", "interval day to second(3)", "integer unsigned", "varchar(20 byte)",
        "int\N{ARABIC-INDIC DIGIT EIGHT}", "char(\N{ARABIC-INDIC DIGIT EIGHT})",
    ],
)  # fmt: skip
def test_a_type_that_is_not_known_is_kept_as_it_is_spelled(type_: str) -> None:
    found = column(type_)
    assert (found.kind, found.size, found.length) == (ColumnKind.UNKNOWN, None, None)
    assert found.type == type_


# --- column lists -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names", "types"),
    [
        ("c1 integer, c2 varchar(20,0)\0", ["c1", "c2"], ["integer", "varchar(20,0)"]),
        ("c1 integer,c2 varchar(20,0)", ["c1", "c2"], ["integer", "varchar(20,0)"]),
        ("\n c1\tINTEGER ,\r\n C2  Char ( 3 )\0\0 ", ["c1", "C2"], ["INTEGER", "Char ( 3 )"]),
        ('"First, name" char(3), "say ""hi""" date', ["First, name", 'say "hi"'], ["char(3)", "date"]),
        (
            "r row(a integer, b set(integer not null)), c int",
            ["r", "c"],
            ["row(a integer, b set(integer not null))", "int"],
        ),
        ("名前 nchar(4), café int", ["名前", "café"], ["nchar(4)", "int"]),
        ("integer id", ["integer"], ["id"]),
        ("a int not null, b int NOT NULL primary key, c int", ["a", "b", "c"], ["int", "int", "int"]),
        ("a char(3) default 'x,(y' not null, b int", ["a", "b"], ["char(3)", "int"]),
        ("a int8 default +9223372036854775807, b int check (b > (0)), c int", ["a", "b", "c"], ["int8", "int", "int"]),
        ("a datetime year to second default current year to second", ["a"], ["datetime year to second"]),
        ("a int, a int, a#2 int, a int", ["a", "a#3", "a#2", "a#4"], ["int", "int", "int", "int"]),
    ],
)
def test_a_column_list_is_read_in_every_way_it_may_be_written(text: str, names: list[str], types: list[str]) -> None:
    columns = parse_columns(text)
    assert [one.name for one in columns] == names
    assert [one.type for one in columns] == types
    assert [one.ordinal for one in columns] == list(range(1, len(names) + 1))


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ("", 0, "expected a column, found the end of the text"),
        ("  \0", 0, "expected a column, found the end of the text"),
        ("a int,", 6, "expected a column, found the end of the text"),
        ("a int,, b int", 6, "expected a column before this comma"),
        ("a int, b", 8, "the column b has no type"),
        ("a (int)", 2, "expected a type after a, found '('"),
        ("'a' int", 0, "expected a column name, found \"'a'\""),
        ('"" int', 0, "expected a column name, found '\"\"'"),
        ("a char(3", 6, "an opening parenthesis without a closing one"),
        ("a char)3(", 6, "a closing parenthesis without an opening one"),
        ('a int, "b int', 7, 'the quotation mark " is not closed'),
        ("a int default 'x", 14, "the quotation mark ' is not closed"),
    ],
)
def test_a_text_that_is_no_column_list_is_refused_with_the_character(text: str, at: int, says: str) -> None:
    with pytest.raises(SchemaTextError) as caught:
        parse_columns(text)
    assert (caught.value.offset, caught.value.message) == (at, says)
    found = schema(text, 4, 1, 0)
    assert found.problems == ((Problem.SCHEMA_TEXT, f"{says} (character {at} of the schema text)"),)
    assert (found.columns, found.decodable) == ((), 0)
    assert (found.fixed_bytes, found.fixed_columns, found.variable_columns) == (4, 1, 0)


# --- text against header ----------------------------------------------------------------------------------------------


def test_a_schema_that_agrees_with_its_header_is_decodable_whole() -> None:
    found = schema("c1 integer, c2 varchar(20,0)", 4, 1, 1)
    assert (found.problems, found.decodable) == ((), 2)
    assert (found.label, found.version, found.origin) == (7, 1, "record")


@pytest.mark.parametrize(
    ("text", "header", "says"),
    [
        ("a int, b int", (8, 1, 0), "the text has 2 columns, the header counts 1 fixed and 0 variable"),
        ("a int", (4, 1, 1), "the text has 1 column, the header counts 1 fixed and 1 variable"),
        (
            "a int, b varchar(5), c int",
            (8, 2, 1),
            "column 2 b varchar(5) is of variable length; expected the 2 fixed-length ones first, and only them",
        ),
        (
            "a int, b int",
            (4, 1, 1),
            "column 2 b int is of fixed length; expected the 1 fixed-length ones first, and only them",
        ),
        ("a int, b char(3)", (8, 2, 0), "fixed-length columns take 7 bytes by the text, 8 by the header"),
        ("a char(1)", (2, 1, 0), "fixed-length columns take 1 byte by the text, 2 by the header"),
        ("a int, b json", (3, 2, 0), "fixed-length columns take at least 4 bytes by the text, 3 by the header"),
        (
            "a interval day to day, b interval day to day",
            (5, 2, 0),
            "fixed-length columns take 4 bytes by the text, 5 by the header",
        ),
        ("a int, b interval day to day", (5, 2, 0), "fixed-length columns take 6 bytes by the text, 5 by the header"),
        ("a interval day to day", (18, 1, 0), "fixed-length columns take 2 bytes by the text, 18 by the header"),
    ],
)
def test_a_text_that_disagrees_with_its_header_leaves_rows_undecoded(
    text: str, header: tuple[int, int, int], says: str
) -> None:
    found = schema(text, *header)
    assert found.problems == ((Problem.SCHEMA_MISMATCH, says),)
    assert found.decodable == 0


def test_the_header_decides_the_size_of_the_only_interval() -> None:
    found = schema("a int, b interval day(3) to second, c varchar(5)", 4 + 7, 2, 1)
    assert (found.columns[1].size, found.decodable) == (7, 3)
    says = "column 2 b interval day(3) to second takes 6 bytes by its type, 7 by the header; 7 is used"
    assert found.problems == ((Problem.SCHEMA_MISMATCH, says),)


@pytest.mark.parametrize(
    ("text", "header", "decodable", "says"),
    [
        (
            "a int, b json, c int",
            (40, 3, 0),
            1,
            "the encoding of column 2 b json is unknown: it and the 1 column after it stay",
        ),
        ("a json, b varchar(3), c int8", (80, 1, 2), 0, None),
        ("a int, b varchar(3), c json", (4, 1, 2), 2, "the encoding of column 3 c json is unknown: it stays"),
        (
            "a json, b raw(3), c int",
            (40, 3, 0),
            0,
            "the encoding of column 1 a json is unknown: it and the 2 columns after it stay",
        ),
    ],
)
def test_columns_are_decodable_up_to_the_first_type_that_is_not_known(
    text: str, header: tuple[int, int, int], decodable: int, says: str | None
) -> None:
    found = schema(text, *header)
    assert found.decodable == decodable
    if says is None:
        assert [code for code, _ in found.problems] == [Problem.SCHEMA_MISMATCH]
    else:
        assert found.problems == ((Problem.UNKNOWN_TYPE, f"{says} undecoded"),)


def test_the_header_says_on_which_side_a_type_that_is_not_known_stands() -> None:
    assert [one.fixed for one in schema("a json, b json", 20, 1, 1).columns] == [True, False]
    assert [one.fixed for one in parse_columns("a json, b varchar2(3), c json")] == [True, False, False]


def test_a_side_file_has_its_counts_computed() -> None:
    found = schema("a int, b char(3), c varchar(5)", None, None, None)
    assert (found.fixed_bytes, found.fixed_columns, found.variable_columns, found.decodable) == (7, 2, 1, 3)
    assert found.fixed_bytes_known
    misplaced = schema("a varchar(5), b int", None, None, None)
    assert [code for code, _ in misplaced.problems] == [Problem.SCHEMA_MISMATCH]
    assert misplaced.decodable == 0


def test_an_unknown_type_in_a_side_file_leaves_the_fixed_part_without_a_known_end() -> None:
    assert not schema("a int, b json, c varchar(5)", None, None, None).fixed_bytes_known
    assert schema("a int, b json, c varchar(5)", 40, 2, 1).fixed_bytes_known


@given(st.text(alphabet="ab1 ,()\"'\0\n", max_size=40), st.integers(0, 2**32 - 1), st.integers(0, 4), st.integers(0, 4))
def test_no_text_makes_a_schema_fail_and_no_name_comes_twice(text: str, size: int, fixed: int, variable: int) -> None:
    for counts in ((size, fixed, variable), (None, None, None)):
        found = schema(text, *counts)
        names = [one.name for one in found.columns]
        assert len(set(names)) == len(names)
        assert 0 <= found.decodable <= len(found.columns)
        assert found.problems or found.decodable == len(found.columns) > 0


@pytest.mark.parametrize(
    ("payload", "charset", "text", "codec"),
    [
        ("caf\u00e9 int\0".encode(), "gb18030", "caf\u00e9 int", "utf-8"),
        ("名 int\0".encode("gb18030"), "gb18030", "名 int", "gb18030"),
        ("caf\u00e9 int".encode("latin-1"), "ascii", "caf\u00e9 int", None),
        (b"a int\0\0", "utf-8", "a int", "utf-8"),
    ],
)
def test_a_schema_text_is_utf_8_or_in_the_capture_s_character_set(
    payload: bytes, charset: str, text: str, codec: str | None
) -> None:
    assert schema_text(payload, charset) == text
    assert text_codec(payload, charset) == codec


# --- side file --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"111": "c1 integer, c2 varchar(20,0)", "-2": "a int"}),
        "# two tables\n\n111: c1 integer, c2 varchar(20,0)\n -2 :a int\n",
        "\ufeff111: c1 integer, c2 varchar(20,0)\r\n-2: a int",
    ],
)
def test_a_side_file_gives_schema_texts_by_label(tmp_path: Path, content: str) -> None:
    path = tmp_path / "schemas"
    path.write_text(content, encoding="utf-8")
    assert read_side_file(path) == {111: "c1 integer, c2 varchar(20,0)", -2: "a int"}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"1": ', "the schema file is not JSON"),
        (b'{"1": 5}', "the schema of label 1 must be a text"),
        (b'{"t1": "a int"}', "the label 't1' is not a 32-bit number"),
        (b"4294967296: a int", "the label '4294967296' is not a 32-bit number"),
        (b"1: a int\n1: b int", "the label 1 has two schemas"),
        (b'{"1": "a int", "1": "b int"}', "the label 1 has two schemas"),
        (b"1: a int\nb int", "line 2: expected `label: column list`, found 'b int'"),
        (b"1: caf\xe9 int", "the schema file cannot be read"),
    ],
)
def test_a_side_file_that_cannot_be_used_says_why(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "schemas"
    path.write_bytes(content)
    with pytest.raises(CaptureError) as caught:
        read_side_file(path)
    assert caught.value.message.startswith(says)
    assert caught.value.path == str(path)


def test_a_side_file_that_is_missing_says_so(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="cannot be read"):
        read_side_file(tmp_path / "nowhere")


@pytest.mark.samples
def test_types_that_public_clients_exercise_are_known(samples: Path) -> None:
    lines = (samples / "gbase8s" / "schema_texts.txt").read_text(encoding="utf-8").splitlines()
    tables = [line.split("(", 1)[1][:-1] for line in lines if line.startswith("create table")]
    assert len(tables) == 3
    for text in tables:
        assert ColumnKind.UNKNOWN not in [one.kind for one in parse_columns(text)]
