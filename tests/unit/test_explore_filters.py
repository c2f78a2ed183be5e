"""The filter line: what it finds, that it runs nothing, and what it says of what it does not understand."""

from __future__ import annotations

import datetime as dt
import pickle
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.explore.search import compare
from cdcwb.filters import SHORT, FilterError, narrowing, parse, quoted
from cdcwb.index.columns import NO_TIME, Codes, Numbers, Texts, Times
from cdcwb.times import micros

NOON = dt.datetime(2025, 3, 23, 12, tzinfo=dt.UTC)
COLUMNS = {
    "operation": Codes(np.array([0, 1, -1, 1], np.int8), pa.array(["INSERT", "UPDATE"], pa.large_string())),
    "table": Codes(np.array([0, 1, 1, -1], np.int8), pa.array(["HR.EMP", "DEPT"], pa.large_string()), SHORT["table"]),
    "position": Texts(pa.array(["0A", "0B", None, "0D"], pa.large_string())),
    "offset": Numbers(np.array([0, 10, 20, 30])),
    "event_no": Numbers(np.array([1, 2, 3, NO_TIME])),
    "time": Times(np.array([micros(NOON), micros(NOON) + 1, NO_TIME, micros(NOON) + 2])),
}
KINDS = {name: column.kind for name, column in COLUMNS.items()} | dict.fromkeys(("kind", "outcome", "problem"), "text")


def rows(line: str) -> list[int]:
    found = parse(line, KINDS)
    assert found is not None
    return np.flatnonzero(found.mask(partial(compare, COLUMNS))).tolist()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('operation == "UPDATE"', [1, 3]),
        ("operation == 'UPDATE'", [1, 3]),
        ('operation != "UPDATE"', [0, 2]),
        ("operation == null", [2]),
        ("operation != null", [0, 1, 3]),
        ('operation in ("INSERT", "UPDATE")', [0, 1, 3]),
        ('operation not in ("INSERT", null)', [1, 3]),
        ('not operation == "INSERT"', [1, 2, 3]),
        ('operation < "UPDATE"', [0]),
        ('table == "HR.EMP"', [0]),
        ('table == "EMP"', [0]),
        ('table_name == "DEPT"', [1, 2]),
        ('table contains "E"', [0, 1, 2]),
        ('table matches "^HR[.]"', [0]),
        ('position >= "0B"', [1, 3]),
        ('lsn == "0D"', [3]),
        ("offset > 0x9 and offset <= 20", [1, 2]),
        ("offset >= 1_0", [1, 2, 3]),
        ("event_no < 3", [0, 1]),
        ("event_no == null", [3]),
        ("offset > -1 and event_no != null", [0, 1, 2]),
        ("offset < 99999999999999999999999", [0, 1, 2, 3]),
        ('time > "2025-03-23T12:00:00Z"', [1, 3]),
        ('time <= "2025-03-23T13:00:00+01:00"', [0]),
        ('changed_at == "2025-03-23 12:00:00.000002"', [3]),
        ('offset == 0 or offset == 30 and operation == "INSERT"', [0]),
        ('(offset == 0 or offset == 30) and operation == "UPDATE"', [3]),
        ("NOT offset == 0 AND offset < 20", [1]),
    ],
)
def test_a_filter_finds_exactly_its_records(line: str, expected: list[int]) -> None:
    assert rows(line) == expected


@pytest.mark.parametrize("line", ["", "   ", "\n\t"])
def test_a_blank_line_is_no_filter(line: str) -> None:
    assert parse(line, KINDS) is None


@pytest.mark.parametrize(
    ("line", "said", "place"),
    [
        ('tabel == "x"', "at character 1: there is no column 'tabel'. Did you mean 'table'? There are: operation", 0),
        ('offset == 1 and ofset == 2', "at character 17: there is no column 'ofset'. Did you mean 'offset'?", 16),
        ('table = "x"', "at character 7: '=' means nothing here; write == to compare", 6),
        ("table == x", 'at character 10: expected a text in quotes, such as "x", or null, for the column table', 9),
        ('offset == "1"', "expected a whole number, or null, for the column offset, found '1'", 10),
        ("offset == 1.5", "at character 11: expected a whole number", 10),
        ('table == "x', 'at character 10: this text has no closing "', 9),
        ('table == "x" operation', "at character 14: expected and, or, or the end, found 'operation'", 13),
        ("(offset == 1", "at the end: expected ), found the end", 12),
        ("offset", "at the end: expected ==, !=, <, <=, >, >=, in, contains or matches, found the end", 6),
        ("offset contains 1", "contains is for columns of text; offset holds numbers", 7),
        ("offset < null", "null is compared with == or !=", 7),
        ('time > "yesterday"', 'expected a time such as "2025-03-23T10:57:19Z", found "yesterday"', 7),
        ('table in "x"', "at character 10: expected (, found 'x'", 9),
        ('table in ("x" "y")', "expected , or ), found 'y'", 14),
        ("and", "expected the name of a column, found 'and'", 0),
        ("offset == 1 & offset == 2", "'&' means nothing here; write and", 12),
        ('kind == "commits"', "kind has no value 'commits'. Did you mean 'commit'? There are: change, before,", 5),
        ('outcome in ("open", "undid")', "outcome has no value 'undid'. Did you mean 'undo'?", 8),
        ('operation != "update"', "operation has no value 'update'. Did you mean 'UPDATE'?", 10),
        ('problem == "gap, maks"', "code has no value 'maks'. Did you mean 'mask'?", 8),
        ("not " * 200 + "offset == 1", "at most 100", 400),
        ("x" * 10_001, "at most 10,000 characters", 10_000),
    ],
)  # fmt: skip
def test_a_wrong_filter_says_where_and_what_was_expected(line: str, said: str, place: int) -> None:
    with pytest.raises(FilterError) as caught:
        parse(line, KINDS)
    assert said in str(caught.value)
    assert caught.value.place == place


def test_a_pattern_that_is_none_is_said_and_one_that_backtracks_elsewhere_is_quick() -> None:
    with pytest.raises(FilterError, match="at character 7: expected a regular expression"):
        rows('table matches "("')
    assert rows('table matches "^(([A-Z])+.)+[1]$"') == []


@given(st.text(max_size=40))
def test_any_line_is_understood_or_refused_and_nothing_else(line: str) -> None:
    places = []
    try:
        found = parse(line, KINDS)
        if found is not None:
            found.mask(partial(compare, COLUMNS))
    except FilterError as wrong:
        places.append(wrong.place)
    assert all(0 <= place <= len(line) for place in places)


@given(st.text(max_size=30))
def test_any_text_can_be_looked_for(text: str) -> None:
    column = Codes(np.array([0, 1], np.int8), pa.array([text, text + "x"], pa.large_string()))
    found = parse(f"name == {quoted(text)}", {"name": "text"})
    assert found is not None
    assert found.mask(partial(compare, {"name": column})).tolist() == [True, False]
    assert not set("\n\r\t") & set(quoted(text))


@pytest.mark.parametrize("line", ['__import__("os")', 'offset == __import__("os")', "exit()", "lambda: 0", "offset.x"])
def test_code_is_no_filter(line: str) -> None:
    with pytest.raises(FilterError):
        parse(line, KINDS)


def test_an_error_survives_pickling_with_its_place() -> None:
    error = pickle.loads(pickle.dumps(FilterError("wrong", 7)))
    assert (str(error), error.place) == ("wrong", 7)


def test_what_a_notebook_is_narrowed_to_is_a_filter() -> None:
    line = narrowing(["HR.EMP", 'a"b'], NOON, NOON + dt.timedelta(microseconds=2))
    assert rows(line) == [0]
    assert narrowing() == ""
