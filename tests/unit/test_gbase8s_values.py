"""Column values: literal bytes in, exact text out, for every type with its NULL and the bytes that are no value."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.formats.gbase8s.layout import ColumnKind, SchemaColumn, StreamSettings
from cdcwb.formats.gbase8s.schema import parse_columns
from cdcwb.formats.gbase8s.values import ColumnValue, column_table, decode_value, decode_values, value_of
from cdcwb.model import Problem
from tests.reference.gbase8s.values import decode

NULL = None


def column(type_: str) -> SchemaColumn:
    (found,) = parse_columns(f"c {type_}")
    assert found.kind is not ColumnKind.UNKNOWN
    return found


def value(type_: str, raw: str, settings: StreamSettings | None = None) -> ColumnValue:
    one, data = column(type_), bytes.fromhex(raw)
    assert one.size in (None, len(data)), f"{type_} takes {one.size} bytes"
    return decode_value(one, data, settings or StreamSettings())


VALUES = [
    ("smallint", "0000", "0"),
    ("smallint", "7FFF", "32767"),
    ("smallint", "8001", "-32767"),
    ("smallint", "8000", NULL),
    ("integer", "0000000F", "15"),
    ("integer", "FFFFFFFF", "-1"),
    ("serial", "7FFFFFFF", "2147483647"),
    ("integer", "80000000", NULL),
    ("bigint", "0020000000000001", "9007199254740993"),
    ("bigserial", "8000000000000001", "-9223372036854775807"),
    ("bigint", "8000000000000000", NULL),
    ("int8", "00010000000700000000", "7"),
    ("int8", "FFFF0000000700000000", "-7"),
    ("serial8", "00010000000000000001", "4294967296"),
    ("int8", "FFFFFFFFFFFF7FFFFFFF", "-9223372036854775807"),
    ("int8", "00010000000000000000", "0"),
    ("int8", "00000000000000000000", NULL),
    ("date", "00000000", "1899-12-31"),
    ("date", "FFFFFFFF", "1899-12-30"),
    ("date", "0000B109", "2024-01-31"),
    ("date", "FFF56AA6", "0001-01-01"),
    ("date", "002D2480", "9999-12-31"),
    ("date", "80000000", NULL),
    ("float", "3FF8000000000000", "1.5"),
    ("float", "3FB999999999999A", "0.1"),
    ("double precision", "4415AF1D78B58C40", "1e+20"),
    ("float", "8000000000000000", "-0"),
    ("float", "7FF0000000000000", "inf"),
    ("float", "7FF8000000000000", "nan"),
    ("float", "FFFFFFFFFFFFFFFF", NULL),
    ("smallfloat", "3DCCCCCD", "0.1"),
    ("real", "C0490FDB", "-3.1415927"),
    ("smallfloat", "FFFFFFFF", NULL),
    ("boolean", "0000", "false"),
    ("boolean", "0001", "true"),
    ("boolean", "0100", NULL),
    ("boolean", "0101", NULL),  # the first byte alone says NULL
    ("char(5)", "6162202020", "ab"),
    ("char(5)", "2061202020", " a"),
    ("nchar(3)", "202020", ""),
    ("char(3)", "616263", "abc"),
    ("char(10)", "00202020202020202020", NULL),
    ("char(2)", "0000", NULL),
    ("nchar(4)", "C3A92020", "é"),
    ("clob", "00000048" + "01" + "00" * 71, "00000048" + "01" + "00" * 71),
    ("blob", "00" * 76, NULL),
    ("blob", "FFFFFFFF" + "00" * 72, NULL),  # only the locator counts
    # packed decimals
    ("decimal(4,2)", "C10C22", "12.34"),
    ("decimal(4,2)", "3E5742", "-12.34"),
    ("decimal(4,2)", "C00500", "0.05"),
    ("decimal(4,2)", "3F5F00", "-0.05"),
    ("decimal(4,2)", "800000", "0.00"),
    ("decimal(4,2)", "C10000", "0.00"),  # a zero that is not written in the usual way
    ("decimal(4,2)", "C1000C", "0.12"),  # likewise with a digit pair 00 in front
    ("decimal(4,2)", "000000", NULL),
    ("decimal(10,2)", "C20232000000", "250.00"),
    ("decimal(10,2)", "3D614F000000", "-221.00"),
    ("decimal(12,0)", "C2011600000000", "122"),
    ("decimal(5,1)", "C2010B32", "111.5"),
    ("decimal(3,3)", "C00C1E", "0.123"),
    ("decimal(4,4)", "BF0500", "0.0005"),
    ("money", "C20101000000000000", "101.00"),
    ("decimal(32,0)", "D0" + "63" * 16, "9" * 32),
    ("decimal(4)", "C10C2200", "12.34"),
    ("decimal(4)", "C10A0000", "10"),
    ("decimal(4)", "C5010000", "100000000"),
    ("decimal(4)", "BE010000", "0.000001"),
    ("decimal(4)", "80000000", "0"),
    ("decimal(4)", "3E584142", "-11.3434"),
    ("decimal", "FF63" + "00" * 8, "99" + "00" * 62),
    ("decimal(4)", "00000000", NULL),
    # DATETIME
    ("datetime year to fraction(5)", "C7141801020304050C2232", "2024-01-02T03:04:05.12345"),
    ("datetime year to fraction(3)", "C7141A07130C22380C1E", "2026-07-19T12:34:56.123"),
    ("datetime year to second", "C71418021D000000", "2024-02-29T00:00:00"),
    ("datetime year to day", "C763630C1F", "9999-12-31"),
    ("datetime year to day", "C601010100", "0001-01-01"),  # the century 00 is not written
    ("datetime year to month", "C7141801", "2024-01"),
    ("datetime year to year", "C71418", "2024"),
    ("datetime month to day", "C5021D", "02-29"),
    ("datetime day to minute", "C40C0304", "12T03:04"),
    ("datetime hour to minute", "C30705", "07:05"),  # the exponent counts down to SECOND, which is not written
    ("datetime hour to minute", "C20500", "00:05"),
    ("datetime hour to minute", "C30C00", "12:00"),
    ("datetime hour to minute", "800000", "00:00"),
    ("datetime hour to hour", "C317", "23"),
    ("datetime hour to second", "C30C2238", "12:34:56"),
    ("datetime hour to second", "C2223800", "00:34:56"),
    ("datetime hour to second", "C1380000", "00:00:56"),
    ("datetime hour to second", "80000000", "00:00:00"),
    ("datetime hour to second", "C3000000", "00:00:00"),  # not written in the usual way
    ("datetime hour to second", "C3002238", "00:34:56"),  # likewise
    ("datetime hour to fraction(5)", "C2210B1F4D1E00", "00:33:11.31773"),
    ("datetime hour to fraction(5)", "C00C2232000000", "00:00:00.12345"),
    ("datetime hour to fraction(5)", "BF223200000000", "00:00:00.00345"),
    ("datetime minute to fraction(5)", "C222380C2232", "34:56.12345"),
    ("datetime second to fraction(1)", "C1380A", "56.1"),
    ("datetime fraction to fraction(5)", "C00C2232", ".12345"),
    ("datetime fraction to fraction(3)", "800000", ".000"),
    ("datetime hour to second", "00000000", NULL),
    ("datetime year to fraction(5)", "00" * 11, NULL),
    # INTERVAL
    ("interval day(3) to second", "C50105030405", "105 03:04:05"),
    ("interval day(3) to second", "C40C02380500", "12 02:56:05"),
    ("interval day to fraction(1)", "C4050C223832", "5 12:34:56.5"),
    ("interval year to month", "C6030700", "3-07"),
    ("interval year to month", "39605D00", "-3-07"),
    ("interval year(2) to month", "39605D", "-3-07"),
    ("interval year to month", "C7010007", "100-07"),
    ("interval hour(9) to hour", "C70102030405", "102030405"),
    ("interval hour to second", "80000000", "0:00:00"),
    ("interval hour to second", "3E590000", "-0:00:11"),
    ("interval second to fraction(3)", "C1050C1E", "5.123"),
    ("interval second to fraction(3)", "3F580000", "-0.120"),
    ("interval fraction to fraction(2)", "C019", ".25"),
    ("interval fraction to fraction(2)", "3F4B", "-.25"),
    ("interval minute to second", "000000", NULL),
    # variable length
    ("varchar(20,0)", "0009616263616263616263", "abcabcabc"),
    ("varchar(20)", "0000", ""),
    ("varchar(20)", "000100", NULL),
    ("varchar(20)", "00026120", "a "),
    ("nvarchar(20)", "00020000", "\0\0"),
    ("varchar(20)", "0006E5908DE5898D", "名前"),
    ("lvarchar", "00040061 6263", "abc"),
    ("lvarchar", "000500616263 00", "abc"),  # one NUL at the end is dropped
    ("lvarchar(5)", "00040061 0000", "a\0"),
    ("lvarchar", "000100", ""),
    ("lvarchar", "000101", NULL),
]


@pytest.mark.parametrize(("type_", "raw", "text"), VALUES)
def test_bytes_become_exactly_this_text(type_: str, raw: str, text: str | None) -> None:
    assert value(type_, raw) == ColumnValue(text)


def test_every_kind_of_column_has_a_value_and_a_null_among_these() -> None:
    kinds = set(ColumnKind) - {ColumnKind.UNKNOWN}
    assert {column(type_).kind for type_, _, text in VALUES if text is not None} == kinds
    assert {column(type_).kind for type_, _, text in VALUES if text is None} == kinds


@pytest.mark.parametrize(
    ("width", "raw", "text"),
    [(1, "03616263", "abc"), (1, "00", ""), (1, "0100", None), (2, "0003616263", "abc"), (2, "000100", None)],
)
def test_a_varchar_s_length_has_one_byte_or_two(width: int, raw: str, text: str | None) -> None:
    assert value("varchar(9)", raw, StreamSettings(prefix_width=width)) == ColumnValue(text)


@pytest.mark.parametrize(
    ("charset", "raw", "text"),
    [
        ("gb18030", "0004C3FBC7B0", "名前"),
        ("gbk", "0004C3FBC7B0", "名前"),
        ("iso-8859-1", "0004636166E9", "café"),
        ("utf-8", "0005636166C3A9", "café"),
    ],
)
def test_text_is_read_in_the_capture_s_character_set(charset: str, raw: str, text: str) -> None:
    assert value("varchar(9)", raw, StreamSettings(charset=charset)) == ColumnValue(text)


@pytest.mark.parametrize(
    ("type_", "raw", "shown", "says"),
    [
        ("varchar(9)", "0004636166E9", "636166e9", "expected text in utf-8, found other bytes at byte 3"),
        ("lvarchar", "000500636166E9", "636166e9", "expected text in utf-8, found other bytes at byte 3"),
        ("lvarchar", "000600636166E900", "636166e9", "expected text in utf-8, found other bytes at byte 3"),
        ("char(6)", "636166E92020", "636166e9", "expected text in utf-8, found other bytes at byte 3"),
    ],
)
def test_text_in_another_character_set_stays_the_bytes_of_the_text(type_: str, raw: str, shown: str, says: str) -> None:
    assert value(type_, raw) == ColumnValue(shown, Problem.CHARSET, says)


@pytest.mark.parametrize(
    ("type_", "raw", "says"),
    [
        ("int8", "00020000000700000000", "expected the sign 1 or -1, found 2"),
        ("int8", "00000000000700000000", "expected the sign 1 or -1, found 0"),
        ("int8", "00010000000080000000", "expected a magnitude below 2**63, found 9223372036854775808"),
        ("date", "7FFFFFFF", "expected a day of the years 1 to 9999, found day 2147483647"),
        ("date", "FFF56AA5", "expected a day of the years 1 to 9999, found day -693595"),
        ("boolean", "0002", "expected 0000, 0001 or 0100, found 0002"),
        ("boolean", "0200", "expected 0000, 0001 or 0100, found 0200"),
        ("lvarchar", "00020161", "expected the flag 00, or 01 without data, found 01 with data"),
        ("lvarchar", "000102", "expected the flag 00, or 01 without data, found 02"),
        ("decimal(4,2)", "C16400", "expected base-100 digits up to 99, found 100"),
        ("decimal(4,2)", "3EFF00", "expected base-100 digits up to 99, found 255"),
        ("decimal(4,2)", "3E0000", "expected a negative number, found zero with a negative sign"),
        ("decimal(4,2)", "C20101", "expected a value of decimal(4,2), found 101.0"),
        ("decimal(4,2)", "C0000C", "expected a value of decimal(4,2), found 0.0012"),
        ("decimal(5,1)", "C2010B19", "expected a value of decimal(5,1), found 111.25"),
        ("datetime hour to second", "3C402C2E", "expected a point in time, found a negative number"),
        (
            "datetime hour to second",
            "C4010000",
            "expected a value of datetime hour to second, found more digits than it has",
        ),
        (
            "datetime hour to second",
            "C2000001",
            "expected a value of datetime hour to second, found more digits than it has",
        ),
        ("datetime hour to second", "C3180000", "expected hour 0 to 23, found 24"),
        ("datetime hour to second", "C3003C00", "expected minute 0 to 59, found 60"),
        ("datetime second to fraction(1)", "C13C00", "expected second 0 to 59, found 60"),
        (
            "datetime second to fraction(1)",
            "C1380C",
            "expected a value of datetime second to fraction(1), found the fraction .12",
        ),
        ("datetime year to day", "8000000000", "expected year 1 to 9999, found 0"),
        ("datetime year to day", "C714180D01", "expected month 1 to 12, found 13"),
        ("datetime year to day", "C71417021D", "expected day 1 to 28 in month 2, found 29"),
        ("datetime year to day", "C71300021D", "expected day 1 to 28 in month 2, found 29"),
        ("datetime month to day", "C5041F", "expected day 1 to 30 in month 4, found 31"),
        ("interval year to month", "C6010C00", "expected month 0 to 11, found 12"),
        ("interval hour to second", "C3003C00", "expected minute 0 to 59, found 60"),
        (
            "interval hour to second",
            "C4010000",
            "expected a value of interval hour to second, found more digits than it has",
        ),
    ],
)
def test_bytes_that_are_no_value_stay_hex_and_say_what_was_expected(type_: str, raw: str, says: str) -> None:
    assert value(type_, raw) == ColumnValue(bytes.fromhex(raw).hex(), Problem.VALUE, says)


@pytest.mark.parametrize(
    ("type_", "raw", "says"),
    [
        ("varchar(9)", "", "expected a length of 2 bytes, found a size word of 0"),
        ("varchar(9)", "00", "expected a length of 2 bytes, found a size word of 1"),
        ("varchar(9)", "000961", "expected 3 bytes by the size word, found 2 + 9 by the prefix"),
        ("lvarchar", "000061", "expected 3 bytes by the size word, found 2 + 0 by the prefix"),
        ("lvarchar", "0000", "expected a length of at least 1, found 0"),
    ],
)
def test_a_length_prefix_that_contradicts_the_size_word_is_said(type_: str, raw: str, says: str) -> None:
    assert value(type_, raw) == ColumnValue(raw, Problem.SIZE_WORDS, says)


ALL_TYPES = sorted({type_ for type_, _, _ in VALUES})


@given(st.sampled_from(ALL_TYPES), st.binary(min_size=80, max_size=80), st.integers(0, 80))
def test_no_bytes_make_a_value_fail_and_a_problem_keeps_them(type_: str, data: bytes, length: int) -> None:
    one = column(type_)
    raw = data[: length if one.size is None else one.size]
    found = decode_value(one, raw, StreamSettings())
    assert (found.problem is None) == (found.detail == "")
    if found.problem in (Problem.VALUE, Problem.SIZE_WORDS):
        assert found.text == raw.hex()


@pytest.mark.parametrize("type_", ALL_TYPES)
def test_the_decoder_agrees_with_the_reference_on_any_bytes(type_: str) -> None:
    """Bytes near those of real values: small digits, exponents near zero, every NULL pattern, both signs."""
    one, chance = column(type_), random.Random(type_)
    heads = [0x00, 0x80, 0xBE, 0xBF, 0xC0, 0xC1, 0xC2, 0xC3, 0xC4, 0xC7, 0x3C, 0x3D, 0x3E, 0x3F, 0x40]
    digits = [0, 0, 1, 2, 7, 12, 20, 31, 50, 59, 60, 88, 99, 100, 128, 255, 32]
    raws: list[bytes] = []
    for _ in range(500):
        size = chance.randrange(1, 12) if one.size is None else one.size
        raws.append(bytes([chance.choice(heads), *chance.choices(digits, k=size - 1)]))
        raws.append(chance.choice([chance.randbytes(size), bytes(size), b"\xff" * size, b"\x80".ljust(size, b"\0")]))
        if one.size is None:
            body = chance.choice([b"", b"\0", b"\1", b"\0abc", b"\0a\0\0", "名é".encode(), b"caf\xe9"])
            raws.append(len(body).to_bytes(2, "big") + body)
    ends = np.cumsum([len(raw) for raw in raws])
    starts = np.append(0, ends[:-1])
    buffer = np.frombuffer(b"".join(raws), np.uint8)
    for charset in ("utf-8", "gb18030", "ascii", "utf-16"):
        settings = StreamSettings(charset=charset)
        found = decode_values(buffer, starts, ends, np.zeros(len(raws), np.int64), column_table([one]), settings)
        for at, raw in enumerate(raws):
            assert value_of(one, raw, found, at, settings) == decode(one, raw, settings), raw.hex()


def test_values_of_a_very_large_buffer_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdcwb.formats.gbase8s.values._MOST", 10)
    buffer = np.frombuffer(b"?" * 40 + b"elm  ??" + b"oak  ", np.uint8)
    starts, columns = np.array([40, 47]), column_table([column("char(5)")])
    found = decode_values(buffer, starts, starts + 5, np.zeros(2, np.int64), columns, StreamSettings())
    assert found.text.to_pylist() == ["elm", "oak"]


def test_the_vectors_of_the_documentation_are_read() -> None:
    document = (Path(__file__).parents[2] / "docs" / "formats" / "gbase8s.md").read_text(encoding="utf-8")
    row = r"^\| `((?:[0-9A-F]{2} ?)+)` \| ([A-Z0-9(), ]+?)(?:, floating)? \| (\S.*) \|$"
    vectors = re.findall(row, document, re.MULTILINE)
    assert len(vectors) == 12
    for raw, type_, shown in vectors:
        plain = type_ if type_.startswith("DECIMAL") else f"datetime {type_}"
        text = shown.replace("−", "-") if type_.startswith("DECIMAL") else shown.replace(" ", "T")
        assert value(plain, raw) == ColumnValue(text), raw


@pytest.mark.samples
def test_the_vectors_of_public_sources_are_read(samples: Path) -> None:
    """Without those marked [!], which contradict the layout and are slips of their authors, and those cut off."""
    read = 0
    for line in (samples / "gbase8s" / "value_vectors.tsv").read_text(encoding="utf-8").splitlines():
        if line.startswith("#") or "[!]" in line:
            continue
        type_, raw, shown, _, _ = line.split("\t")
        if "..." in raw or type_.startswith("var-size word"):
            continue
        expected = shown.split(" (")[0].strip("'")
        if type_.startswith("DATETIME"):
            expected = expected.replace(" ", "T")
        settings = StreamSettings(prefix_width=1 if "1-byte prefix" in type_ else 2)
        plain = type_.split(" (")[0].split(" floating")[0].lower()
        plain = "varchar(255)" if plain == "varchar" else plain
        found = value(plain, raw.replace(" ", ""), settings)
        assert found == ColumnValue(None if expected == "NULL" else expected), line
        read += 1
    assert read == 25
