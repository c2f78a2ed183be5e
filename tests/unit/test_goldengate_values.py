"""Values of columns to text and typed arrays, and images made of them."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.formats.goldengate.contents import (
    ColumnTexts,
    Half,
    texts,
    typed_texts,
    value_of,
    walk,
)
from cdcwb.formats.goldengate.definitions import ColumnDef, Definition
from cdcwb.formats.goldengate.images import Images, Put, read_images
from cdcwb.formats.goldengate.layout import GUESS, GUESS_FIXED, Coding, How
from cdcwb.model import Problem
from tests.reference import goldengate as reference

CODINGS: Final = (
    GUESS,
    GUESS_FIXED,
    Coding(How.TEXT),
    Coding(How.TEXT, charset="utf-16-be"),
    Coding(How.FIXED_TEXT, 6),
    Coding(How.INTEGER, 2),
    Coding(How.INTEGER, 4),
    Coding(How.INTEGER, 4, 0, signed=False),
    Coding(How.INTEGER, 8),
    Coding(How.INTEGER, 8, 2),
    Coding(How.INTEGER, 8, 18),
    Coding(How.INTEGER, 8, 25),
    Coding(How.INTEGER, 4, -3),
    Coding(How.INTEGER, 8, 0, signed=False),
    Coding(How.INTEGER, 8, 3, signed=False),
    Coding(How.FLOAT, 4),
    Coding(How.FLOAT, 8),
    Coding(How.DECIMAL),
    Coding(How.MOMENT),
    Coding(How.BINARY),
    Coding(How.LOB),
    Coding(How.UNKNOWN),
)
MOMENT: Final = "2021-01-03:15:26:03.160000000"
NOT_DECODED: Final = "zoned and packed decimals are not decoded; their bytes are in the column raw"


def varying(value: str | bytes, order: Any = "little") -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return len(raw).to_bytes(2, order) + raw


def laid(values: list[bytes | None], gap: bytes = b"\0\0") -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The values in one buffer with something before each, where they are, and which are NULL."""
    size = np.array([len(value or b"") for value in values], dtype=np.int64)
    stop = np.cumsum(size + len(gap))
    null = np.array([value is None for value in values], dtype=bool)
    return np.frombuffer(b"".join(gap + (value or b"") for value in values), np.uint8), stop - size, stop, null


def read(values: list[bytes | None], how: Coding, **more: Any) -> ColumnTexts:
    return texts(*laid(values), how, **more)


# --- one value --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "how", "text"),
    [
        (varying("insert"), Coding(How.TEXT), "insert"),
        (varying(""), Coding(How.TEXT), ""),
        (varying("ab    "), Coding(How.TEXT), "ab    "),
        (varying("ab    "), Coding(How.FIXED_TEXT, 6), "ab"),
        (b"ab    ", Coding(How.FIXED_TEXT, 6), "ab"),
        (varying("ä".encode("utf-16-be")), Coding(How.TEXT, charset="utf-16-be"), "ä"),
        (b"\xff\xfe", Coding(How.INTEGER, 2), "-2"),
        (b"\0\0\0\1", Coding(How.INTEGER, 4), "1"),
        (b"\xff" * 8, Coding(How.INTEGER, 8), "-1"),
        (b"\xff" * 8, Coding(How.INTEGER, 8, 2), "-0.01"),
        (b"\0" * 7 + b"\x0a", Coding(How.INTEGER, 8, 2), "0.10"),
        (b"\0\0\0\5", Coding(How.INTEGER, 4, -2), "500"),
        (b"\xff" * 8, Coding(How.INTEGER, 8, 0, signed=False), "18446744073709551615"),
        (varying("12.5"), Coding(How.INTEGER, 8), "12.5"),
        (b"\x80" + b"\0" * 7, Coding(How.INTEGER, 8), "-9223372036854775808"),
        (b"\x80" + b"\0" * 7, Coding(How.INTEGER, 8, 20), "-0.09223372036854775808"),
        (b"\xff" * 8, Coding(How.INTEGER, 8, 19, signed=False), "1.8446744073709551615"),
        (b"\0\0\0\0", Coding(How.INTEGER, 4, -2), "0"),
        (b"\x3f\xc0\0\0", Coding(How.FLOAT, 4), "1.5"),
        (b"\xbf\xf8" + b"\0" * 6, Coding(How.FLOAT, 8), "-1.5"),
        (varying("-12.5"), Coding(How.DECIMAL), "-12.5"),
        (MOMENT.encode(), Coding(How.MOMENT), MOMENT),
        (varying(MOMENT), Coding(How.MOMENT), MOMENT),
        (b"-001 02:03:04", Coding(How.MOMENT), "-001 02:03:04"),
        (varying(b"\1\xff"), Coding(How.BINARY), "01ff"),
        (b"\1\2\3\4", Coding(How.LOB), "01020304"),
        (varying("short"), Coding(How.LOB), "short"),
        (varying("text"), Coding(How.UNKNOWN), "text"),
        (b"\1\2", Coding(How.UNKNOWN), "0102"),
    ],
)
def test_a_value_is_read_as_its_type_says(raw: bytes, how: Coding, text: str) -> None:
    assert value_of(raw, how, "little") == (text, None, "")
    found = read([raw, None, raw], how)
    assert (found.array.to_pylist(), found.problems) == ([text, None, text], [])


@pytest.mark.parametrize(
    ("raw", "how", "problem", "sentence"),
    [
        (b"\5\0ab", Coding(How.TEXT), Problem.VALUE, "expected 5 bytes by their length prefix, found 2"),
        (b"a", Coding(How.TEXT), Problem.VALUE, "expected a length of 2 bytes, found 1"),
        (varying(b"\xff"), Coding(How.TEXT), Problem.CHARSET, "expected text in utf-8, found other bytes"),
        (b"\0\1", Coding(How.INTEGER, 4), Problem.VALUE, "expected an integer of 4 bytes, found 2"),
        (varying("x"), Coding(How.INTEGER, 8), Problem.VALUE, "expected an integer of 8 bytes, found 3"),
        (b"", Coding(How.FLOAT, 8), Problem.VALUE, "expected a number of 4 or 8 bytes, found 0"),
        (b"00123", Coding(How.DECIMAL), Problem.VALUE, NOT_DECODED),
        (b"\x01\x23\x4d", Coding(How.DECIMAL), Problem.VALUE, NOT_DECODED),
        (b"\x01\x02\x03", Coding(How.MOMENT), Problem.VALUE, "expected a date or time as text, found other bytes"),
        (b"\5\0ab", Coding(How.BINARY), Problem.VALUE, "expected 5 bytes by their length prefix, found 2"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_value_are_hex_with_a_problem(
    raw: bytes, how: Coding, problem: Problem, sentence: str
) -> None:
    text, code, said = value_of(raw, how, "little")
    assert (code, said) == (problem, sentence)
    assert text in (raw.hex(), raw[2:].hex())
    found = read([None, raw], how)
    assert (found.array.to_pylist(), found.problems) == ([None, text], [(1, problem, sentence)])


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (varying("2248570110"), "2248570110"),
        (varying("b"), "b"),
        (b"\0\0", ""),
        (b"", ""),
        (b"2022-12-22", "2022-12-22"),
        (b"2022-12-22:01:02:03", "2022-12-22:01:02:03"),
        (MOMENT.encode(), MOMENT),
        (b"\0\0\0\x0a", "10"),
        (b"\2\0\0\1", "33554433"),
        (varying("ab"), "ab"),
        (b"\0" * 7 + b"\3", "3"),
        (b"\xff" * 8, "-1"),
        (b"\1\2\3", "010203"),
        (varying(b"\xff\xfe\xfd"), varying(b"\xff\xfe\xfd").hex()),
        (b"2022/12/22", b"2022/12/22".hex()),
    ],
)
def test_a_value_without_a_definition_is_guessed_by_its_bytes(raw: bytes, text: str) -> None:
    assert value_of(raw, GUESS, "little") == (text, None, "")
    found = read([raw, None, varying("other")], GUESS)
    assert found.array.to_pylist() == [text, None, "other"]


PIECES = st.one_of(
    st.none(),
    st.binary(max_size=9),
    st.text(max_size=6).map(varying),
    st.text("ab 12.-", max_size=6).map(varying),
    st.text(max_size=4).map(lambda text: varying(text.encode("utf-16-be"))),
    st.sampled_from([2, 4, 8]).flatmap(lambda size: st.binary(min_size=size, max_size=size)),
    st.sampled_from(
        [b"2022-12-22", b"2022-12-22:01:02:03", MOMENT.encode(), b"-0012", b"\x12\x3d", b"\x80" + b"\0" * 7]
    ),
)


@given(st.lists(PIECES, max_size=9), st.sampled_from(CODINGS), st.sampled_from(["little", "big"]),
       st.sampled_from(["utf-8", "gbk", "latin-1", "utf-16-le"]))  # fmt: skip
def test_a_column_reads_as_its_values_do_one_by_one(
    values: list[bytes | None], how: Coding, order: Any, charset: str
) -> None:
    found = read(values, how, order=order, charset=charset)
    alone = [None if value is None else reference.value_of(value, how, order, charset) for value in values]
    assert found.array.type == pa.string()
    assert found.array.to_pylist() == [one and one.text for one in alone]
    assert found.problems == [(k, one.problem, one.sentence) for k, one in enumerate(alone) if one and one.problem]
    found.array.validate(full=True)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"ANN ", "ANN"),
        (b"WA", "WA"),
        (b"", ""),
        (b"    ", ""),
        (b"\0\0\0\x2a", "42"),
        (b"\0\x2a", "42"),
        (b"\0" * 7 + b"\x2a", "42"),
        (b"2022-12-22", "2022-12-22"),
        (b"Z\xc3\xbcrich", "Z\u00fcrich"),
        (varying("pebble", "big"), "pebble"),
    ],
)
def test_a_value_of_a_nonstop_may_be_text_without_a_length(raw: bytes, text: str) -> None:
    assert value_of(raw, GUESS_FIXED, "big") == (text, None, "")


@pytest.mark.parametrize("raw", [b"\1\2\3", b"\0\0SEATTLE  ", b"\0\0\0\0\0\x2a", b"Z\xfcrich"])
def test_bytes_of_a_nonstop_that_look_like_nothing_are_a_problem(raw: bytes) -> None:
    sentence = f"expected text, a date or an integer of 2, 4 or 8 bytes, found {raw.hex()}"
    assert value_of(raw, GUESS_FIXED, "big") == (raw.hex(), Problem.VALUE, sentence)


def test_values_may_lie_in_another_order_than_the_column() -> None:
    buffer, start, stop, null = laid([varying("one"), varying("two"), b"bad", None])
    back = np.array([3, 2, 1, 0])
    found = texts(buffer, start[back], stop[back], null[back], Coding(How.TEXT))
    assert found.array.to_pylist() == [None, b"bad".hex(), "two", "one"]
    assert [place for place, _, _ in found.problems] == [1]
    twice = np.array([0, 0])
    assert texts(buffer, start[twice], stop[twice], null[twice], Coding(How.TEXT)).array.to_pylist() == ["one", "one"]


# --- typed ------------------------------------------------------------------------------------------------------------


def column(code: int, length: int = 0, *, scale: int = 0, sub: int = 0, last: int = 0, lob: int = 0) -> ColumnDef:
    return ColumnDef(1, "X", code, length, scale=scale, sub_data_type=sub, least_significant_dt=last, lob_type=lob)


@pytest.mark.parametrize(
    ("there", "kind", "raw", "value"),
    [
        (column(130), pa.int32(), b"\xff\xfe", -2),
        (column(132), pa.int32(), b"\0\0\0\7", 7),
        (column(133), pa.int64(), b"\xff\xff\xff\xff", 2**32 - 1),
        (column(134), pa.int64(), b"\0" * 7 + b"\7", 7),
        (column(134, 9, scale=2), pa.decimal128(20, 2), b"\0" * 7 + b"\7", Decimal("0.07")),
        (column(135), pa.decimal128(38, 0), b"\xff" * 8, Decimal(2**64 - 1)),
        (column(142), pa.float32(), b"\x3f\xc0\0\0", 1.5),
        (column(143), pa.float64(), b"\x3f\xf8" + b"\0" * 6, 1.5),
        (column(152, scale=1), pa.string(), varying("-1.2"), "-1.2"),
        (column(192, 10, last=2), pa.date32(), b"2022-12-22", datetime.date(2022, 12, 22)),
        (column(192, 19, last=5), pa.timestamp("us"), b"2022-12-22:01:02:03",
         datetime.datetime(2022, 12, 22, 1, 2, 3)),
        (column(192, 29, last=6), pa.timestamp("us"), MOMENT.encode(),
         datetime.datetime(2021, 1, 3, 15, 26, 3, 160000)),
        (column(192, 35, last=6), pa.string(), MOMENT.encode() + b" +01:0", MOMENT + " +01:0"),
        (column(207, 20), pa.string(), b"-001 02:03:04", "-001 02:03:04"),
        (column(64, 10), pa.string(), varying("abc"), "abc"),
        (column(64, 50, sub=2), pa.string(), varying("1.5"), "1.5"),
        (column(64, 10, sub=4), pa.binary(), varying(b"\1\2"), b"\1\2"),
        (column(64, 4000, lob=1), pa.string(), b"\1\2\3\4", "01020304"),
        (column(64, 4000, lob=1, sub=4), pa.binary(), b"\1\2\3\4", b"\1\2\3\4"),
        (None, pa.string(), b"\0\0\0\1", "1"),
    ],
)  # fmt: skip
def test_a_column_has_the_type_of_its_definition(
    there: ColumnDef | None, kind: pa.DataType, raw: bytes, value: object
) -> None:
    assert there is None or there.arrow_type == kind
    assert typed_texts(read([raw, None, raw], GUESS if there is None else there.coding).array, kind).to_pylist() == [
        value,
        None,
        value,
    ]


def test_what_is_no_value_of_the_type_is_null_in_typed_tables() -> None:
    assert typed_texts(pa.array(["1", "010203x"]), pa.int32()).to_pylist() == [1, None]
    days = pa.array(["2022-02-30", "2022-02-28", "0102030405"])
    assert typed_texts(days, pa.date32()).to_pylist() == [
        None,
        datetime.date(2022, 2, 28),
        None,
    ]


# --- images -----------------------------------------------------------------------------------------------------------


def cell(index: int, value: bytes | None) -> bytes:
    data = b"\xff\xff" if value is None else b"\0\0" + value
    return index.to_bytes(2, "little") + len(data).to_bytes(2, "little") + data


def images(
    bodies: list[bytes],
    definitions: list[Definition | None],
    group: list[int],
    forms: list[int] | None = None,
    before: list[bool] | None = None,
    put: Sequence[Put] = (),
) -> tuple[Images, list[tuple[int, Problem, str]]]:
    buffer, start, stop, _ = laid([*bodies], gap=b"")
    cells = walk(
        buffer,
        start,
        stop,
        False,
        None if forms is None else np.array(forms),
        None,
        None if before is None else np.array(before),
    )
    found = read_images(buffer, cells, np.array(group, dtype=np.int64), definitions, "utf-8", put)
    return found, found.problems


def maps(array: pa.Array) -> list[dict[str, str | None] | None]:
    array.validate(full=True)
    return [None if one is None else dict(one) for one in array.to_pylist()]


ID = ColumnDef(1, "ID", 132, 11, key_position=1)
NAME = ColumnDef(2, "NAME", 64, 20, null=1)
NOTE = ColumnDef(3, "NOTE", 64, 4000, lob_type=1)
SHOP = Definition("S", "SHOP", (ID, NAME, NOTE))
ONE, TWO = b"\0\0\0\1", b"\0\0\0\2"


def test_images_are_maps_of_names_to_text() -> None:
    insert = cell(0, ONE) + cell(1, varying("first"))
    delete = cell(0, TWO)
    found, problems = images([insert, delete, b""], [SHOP], [0, 0, 0], before=[False, True, False])
    assert maps(found.after) == [{"ID": "1", "NAME": "first"}, None, None]
    assert maps(found.before) == [None, {"ID": "2"}, None]
    assert maps(found.key) == [{"ID": "1"}, {"ID": "2"}, None]
    assert problems == []


def test_a_null_column_is_there_and_a_missing_one_is_not() -> None:
    found, _ = images([cell(0, ONE) + cell(1, None), cell(1, None)], [SHOP], [0, 0])
    assert maps(found.after) == [{"ID": "1", "NAME": None}, {"NAME": None}]
    assert maps(found.key) == [{"ID": "1"}, None]


def test_the_key_of_a_key_update_is_the_old_one() -> None:
    key = cell(0, ONE)
    body = len(key).to_bytes(2, "little") + key + cell(0, TWO) + cell(1, varying("new"))
    found, _ = images([body, cell(0, TWO)], [SHOP], [0, 0], forms=[2, 0])
    assert maps(found.before) == [{"ID": "1"}, None]
    assert maps(found.after) == [{"ID": "2", "NAME": "new"}, {"ID": "2"}]
    assert maps(found.key) == [{"ID": "1"}, {"ID": "2"}]


def test_without_a_definition_columns_are_called_by_their_index() -> None:
    body = cell(0, ONE) + cell(7, varying("x"))
    found, _ = images([body, body, body], [SHOP, None], [1, 0, -1])
    assert maps(found.after) == [{"c0": "1", "c7": "x"}, {"ID": "1", "c7": "x"}, {"c0": "1", "c7": "x"}]
    assert maps(found.key) == [None, {"ID": "1"}, None]


def test_a_column_behind_the_definition_is_a_problem_and_has_a_name_of_its_own() -> None:
    table = Definition(None, "T", (ColumnDef(1, "c1", 132), ColumnDef(2, "c9", 132)))
    found, problems = images([cell(0, ONE) + cell(1, TWO) + cell(9, varying("x"))], [table], [0])
    assert maps(found.after) == [{"c1": "1", "c9": "2", "c9#2": "x"}]
    assert problems == [(0, Problem.ROW_SIZE, "c9#2: the definition of the table has no column with this index")]


def test_keys_are_in_the_order_of_the_columns_and_none_is_there_twice() -> None:
    body = cell(1, varying("b")) + cell(0, ONE) + cell(1, varying("again"))
    found, _ = images([body, body], [SHOP], [0, 0])
    assert found.after.to_pylist() == [[("ID", "1"), ("NAME", "b")]] * 2


def test_problems_name_the_column_and_stand_in_the_order_of_the_records() -> None:
    odd = b"\1\0\4\0\0\1ab"
    _, problems = images([odd, cell(0, b"\1"), cell(0, ONE)], [SHOP], [0, 0, 0])
    assert problems == [
        (0, Problem.VALUE, "NAME: expected 25185 bytes by their length prefix, found 0"),
        (0, Problem.VALUE, "NAME: expected the null indicator 0000 or ffff, found 0001"),
        (1, Problem.VALUE, "ID: expected an integer of 4 bytes, found 1"),
    ]


def test_values_from_elsewhere_replace_those_of_the_body() -> None:
    body = cell(0, ONE) + cell(2, b"\0\0\0\0")
    put = [
        Put(0, Half.AFTER, 2, "the whole note"),
        Put(1, Half.AFTER, 1, None),
        Put(1, Half.AFTER, 0, "more", "lob1"),
        Put(2, Half.AFTER, 0, "odd", "ID"),
    ]
    found, _ = images([body, cell(0, TWO), cell(0, ONE), body], [SHOP], [0, 0, 0, 0], put=put)
    assert found.after.to_pylist() == [
        [("ID", "1"), ("NOTE", "the whole note")],
        [("ID", "2"), ("lob1", "more")],
        [("ID", "1"), ("ID#2", "odd")],
        [("ID", "1"), ("NOTE", "00000000")],
    ]


def test_no_records_make_empty_images() -> None:
    found, _ = images([], [SHOP], [])
    assert [len(one) for one in found[:3]] == [0, 0, 0]
    assert found.after.type == pa.map_(pa.string(), pa.string())


BODIES = st.lists(
    st.tuples(
        st.integers(-1, 1),
        st.lists(st.tuples(st.integers(0, 4), st.one_of(st.none(), st.binary(max_size=6))), max_size=5),
    ),
    max_size=8,
)


@given(BODIES)
def test_images_of_many_records_are_those_of_each_alone(records: list[tuple[int, list[tuple[int, Any]]]]) -> None:
    bodies = [b"".join(cell(index, value) for index, value in cells) for _, cells in records]
    group = [place for place, _ in records]
    together, problems = images(bodies, [SHOP, None], group)
    for place, body in enumerate(bodies):
        alone, wrong = images([body], [SHOP, None], [group[place]])
        assert [one[place : place + 1].to_pylist() for one in together[:3]] == [one.to_pylist() for one in alone[:3]]
        assert [(code, said) for record, code, said in problems if record == place] == [one[1:] for one in wrong]
