"""The generator's bytes and texts of values, against literal vectors (docs/formats/gbase8s.md §4)."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from random import Random

import pytest

from cdcwb_synth.catalogue import EVERYTHING
from cdcwb_synth.gbase8s import encoder, fixed_size, spelled
from cdcwb_synth.values import Column, Type, Value, formatter, pool


def decimal(precision: int | None, scale: int | None, keyword: str = "") -> Column:
    return Column("c", Type.DECIMAL, keyword, precision=precision, scale=scale)


def moment(start: str, end: str, fraction: int = 0) -> Column:
    return Column("c", Type.DATETIME, start=start, end=end, fraction=fraction)


def interval(start: str, end: str, fraction: int = 0, lead: int = 0) -> Column:
    return Column("c", Type.INTERVAL, start=start, end=end, fraction=fraction, lead=lead)


DAY, HOUR, MINUTE, SECOND = 8_640_000_000, 360_000_000, 6_000_000, 100_000

# column, value, bytes, text
VECTORS: list[tuple[Column, Value, str, str | None]] = [
    (Column("c", Type.SMALLINT), 258, "0102", "258"),
    (Column("c", Type.SMALLINT), -32767, "8001", "-32767"),
    (Column("c", Type.SMALLINT), None, "8000", None),
    (Column("c", Type.INTEGER), 15, "0000000f", "15"),
    (Column("c", Type.INTEGER), -2, "fffffffe", "-2"),
    (Column("c", Type.INTEGER), None, "80000000", None),
    (Column("c", Type.BIGINT), 2**62, "4000000000000000", "4611686018427387904"),
    (Column("c", Type.BIGINT), None, "8000000000000000", None),
    (Column("c", Type.INT8), -7, "ffff0000000700000000", "-7"),
    (Column("c", Type.INT8), 2**32 + 5, "00010000000500000001", "4294967301"),
    (Column("c", Type.INT8), 0, "00010000000000000000", "0"),
    (Column("c", Type.INT8), None, "00000000000000000000", None),
    (Column("c", Type.DATE), date(1899, 12, 31), "00000000", "1899-12-31"),
    (Column("c", Type.DATE), date(1900, 1, 1), "00000001", "1900-01-01"),
    (Column("c", Type.DATE), date(1899, 12, 30), "ffffffff", "1899-12-30"),
    (Column("c", Type.DATE), date(2024, 1, 31), "0000b109", "2024-01-31"),
    (Column("c", Type.DATE), None, "80000000", None),
    (Column("c", Type.FLOAT), -1.5, "bff8000000000000", "-1.5"),
    (Column("c", Type.FLOAT), 0.1, "3fb999999999999a", "0.1"),
    (Column("c", Type.FLOAT), -0.0, "8000000000000000", "-0"),
    (Column("c", Type.FLOAT), None, "ffffffffffffffff", None),
    (Column("c", Type.SMALLFLOAT), 0.10000000149011612, "3dcccccd", "0.1"),
    (Column("c", Type.SMALLFLOAT), None, "ffffffff", None),
    (Column("c", Type.BOOLEAN), True, "0001", "true"),
    (Column("c", Type.BOOLEAN), False, "0000", "false"),
    (Column("c", Type.BOOLEAN), None, "0100", None),
    (Column("c", Type.CHAR, length=5), "ab ", "6162202020", "ab"),
    (Column("c", Type.CHAR, length=3), "", "202020", ""),
    (Column("c", Type.CHAR, length=4), "é", "c3a92020", "é"),
    (Column("c", Type.CHAR, length=4), None, "00202020", None),
    (decimal(4, 2), Decimal("12.34"), "c10c22", "12.34"),
    (decimal(4, 2), Decimal("-12.34"), "3e5742", "-12.34"),
    (decimal(4, 2), None, "000000", None),
    (decimal(10, 2), Decimal(250), "c20232000000", "250.00"),
    (decimal(10, 2), Decimal("-0.05"), "3f5f00000000", "-0.05"),
    (decimal(10, 2), Decimal(0), "800000000000", "0.00"),
    (decimal(4, 3), Decimal("9.999"), "c109635a", "9.999"),
    (decimal(4, None), Decimal("12.340"), "c10c2200", "12.34"),
    (decimal(None, None), Decimal("1E+3"), "c20a0000000000000000", "1000"),
    (decimal(None, None), Decimal("-1E-3"), "405a0000000000000000", "-0.001"),
    (decimal(None, None, "money"), Decimal("1.5"), "c10132000000000000", "1.50"),
    (moment("year", "fraction", 5), datetime(2024, 1, 2, 3, 4, 5, 123450), "c7141801020304050c2232",
     "2024-01-02T03:04:05.12345"),
    (moment("hour", "second"), datetime(2000, 1, 1, 12, 34, 56), "c30c2238", "12:34:56"),
    (moment("hour", "fraction", 5), datetime(2000, 1, 1, 0, 33, 11, 317730), "c2210b1f4d1e00", "00:33:11.31773"),
    (moment("day", "minute"), datetime(2000, 1, 12, 3, 4), "c40c0304", "12T03:04"),
    (moment("year", "month"), datetime(2024, 1, 1), "c7141801", "2024-01"),
    (moment("year", "year"), datetime(1, 1, 1), "c60100", "0001"),
    (moment("minute", "fraction", 5), datetime(2000, 1, 1, 0, 34, 56, 123450), "c222380c2232", "34:56.12345"),
    (moment("hour", "second"), datetime(2000, 1, 1), "80000000", "00:00:00"),
    (moment("hour", "second"), datetime(2000, 1, 1, 0, 0, 9), "c1090000", "00:00:09"),
    (moment("second", "fraction", 3), datetime(2000, 1, 1, 0, 0, 0, 120000), "c00c0000", "00.120"),
    (moment("hour", "fraction", 4), datetime(2000, 1, 1, 0, 0, 0, 1200), "bf0c00000000", "00:00:00.0012"),
    (moment("fraction", "fraction", 5), datetime(2000, 1, 1, 0, 0, 0, 123450), "c00c2232", ".12345"),
    (moment("year", "second"), None, "0000000000000000", None),
    (interval("day", "fraction", 1), 5 * DAY + 12 * HOUR + 34 * MINUTE + 56 * SECOND + 50_000, "c4050c223832",
     "5 12:34:56.5"),
    (interval("day", "second", lead=3), 105 * DAY, "c50105000000", "105 00:00:00"),
    (interval("year", "month"), -43, "39605d00", "-3-07"),
    (interval("month", "month"), 11, "c50b", "11"),
    (interval("hour", "minute", lead=4), 1234 * HOUR + 5 * MINUTE, "c40c2205", "1234:05"),
    (interval("minute", "fraction", 5, 5), -(6 * SECOND + 12_345), "3e5d574132000000", "-0:06.12345"),
    (interval("day", "second"), 0, "8000000000", "0 00:00:00"),
    (interval("hour", "second"), None, "00000000", None),
    (Column("c", Type.LVARCHAR, length=9), "ab", "0003006162", "ab"),
    (Column("c", Type.LVARCHAR, length=9), "", "000100", ""),
    (Column("c", Type.LVARCHAR, length=9), None, "000101", None),
]  # fmt: skip


@pytest.mark.parametrize(("column", "value", "data", "written"), VECTORS)
def test_values_have_the_bytes_and_the_text_of_the_fact_sheet(
    column: Column, value: Value, data: str, written: str | None
) -> None:
    assert encoder(column, "utf-8", 2)(value).hex() == data
    assert formatter(column)(value) == written
    if not column.is_variable:
        assert fixed_size(column) == len(data) // 2


@pytest.mark.parametrize(
    ("width", "value", "data"),
    [
        (1, "abc", "03616263"), (1, "", "00"), (1, None, "0100"), (1, "a  ", "03612020"),
        (2, "abc", "0003616263"), (2, "", "0000"), (2, None, "000100"), (2, "é", "0002c3a9"),
    ],
)  # fmt: skip
def test_varchar_has_a_prefix_of_the_chosen_width(width: int, value: str | None, data: str) -> None:
    column = Column("c", Type.VARCHAR, length=20)
    assert encoder(column, "utf-8", width)(value).hex() == data
    assert formatter(column)(value) == value


def test_text_is_written_in_the_chosen_charset() -> None:
    column = Column("c", Type.CHAR, length=6)
    assert encoder(column, "gb18030", 2)("张三").hex() == "d5c5c8fd2020"


def test_a_large_object_is_a_prefix_and_its_locator() -> None:
    column = Column("c", Type.LOB)
    assert encoder(column, "utf-8", 2)(bytes(71) + b"\x07") == bytes.fromhex("00000048") + bytes(71) + b"\x07"
    assert encoder(column, "utf-8", 2)(None) == bytes(76)


@pytest.mark.parametrize(
    ("column", "words", "size"),
    [
        (Column("c", Type.INTEGER, "serial"), "serial", 4),
        (Column("c", Type.CHAR, "nchar", length=7), "nchar(7)", 7),
        (Column("c", Type.VARCHAR, length=20, reserve=0), "varchar(20,0)", 20),
        (Column("c", Type.VARCHAR, length=20), "varchar(20)", 20),
        (decimal(12, 2), "decimal(12,2)", 7),
        (decimal(8, None), "decimal(8)", 6),
        (decimal(None, None), "decimal", 10),
        (decimal(None, None, "money"), "money", 9),
        (decimal(32, 15), "decimal(32,15)", 17),
        (moment("year", "fraction", 5), "datetime year to fraction(5)", 11),
        (interval("day", "second", lead=3), "interval day(3) to second", 6),
        (Column("c", Type.LOB, "clob"), "clob", 76),
    ],
)
def test_types_are_spelled_and_measured_as_in_the_schema_text(column: Column, words: str, size: int) -> None:
    assert spelled(column) == words
    assert column.is_variable or fixed_size(column) == size


@pytest.mark.parametrize("charset", ["utf-8", "gb18030", "gbk", "iso8859-1", "ascii"])
@pytest.mark.parametrize("column", EVERYTHING, ids=lambda column: column.name)
def test_every_drawn_value_can_be_written(column: Column, charset: str) -> None:
    edges, values = pool(column, Random(1), 300, charset, 0.05)
    write, as_text = encoder(column, charset, 2), formatter(column)
    if column.holds != "key":
        assert set(map(repr, edges)) <= set(map(repr, values))
        assert (None in edges) == column.nullable
    for value in values:
        data = write(value)
        size = fixed_size(column) if not column.is_variable else len(data)
        assert len(data) == size
        assert len(data) <= column.length + 3 or not column.is_variable
        # no value may look like NULL, or the truth could not be read from the bytes
        assert (data == write(None)) == (value is None)
        assert (as_text(value) is None) == (value is None)
