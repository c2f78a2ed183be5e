"""Filters that are written without typing all of them: clauses, completions, and values that were perhaps meant."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cdcwb.explore import terms
from cdcwb.explore.model import Explorer
from cdcwb.explore.terms import chosen_in, clause, completions, hint, values_of, with_clause
from cdcwb.explore.views import row_view
from cdcwb.filters import SHORT, FilterError, parse
from cdcwb.index.columns import Codes, Column, Numbers, Times
from tests.explore_captures import DATA, explorer_of, saved

TABLES = Codes(
    np.array([0, 1, 1, 2, -1], np.int32),
    pa.array(["shop.orders", "shop.customer", "hr.emp"], pa.large_string()),
    SHORT["table"],
)
COLUMNS: dict[str, Column] = {
    "table": TABLES,
    "offset": Numbers(np.arange(5)),
    "time": Times(np.arange(5)),
}

VALUES = {"state": "text", "total": "number", "order no": "any"}


@pytest.fixture
def gbase8s(tmp_path: Path) -> Explorer:
    return explorer_of("gbase8s", tmp_path)


@pytest.mark.parametrize(
    ("line", "added", "instead", "result"),
    [
        ("", 'table == "a"', False, 'table == "a"'),
        ("offset > 3", 'table == "a"', False, 'offset > 3 and table == "a"'),
        ('table == "a"', 'table == "a"', False, 'table == "a"'),
        ('table == "a" or offset > 3', 'table == "b"', True, '(table == "a" or offset > 3) and table == "b"'),
        ('table == "a" and offset > 3', 'table == "b"', True, 'offset > 3 and table == "b"'),
        ('table_name == "a" and offset > 3', None, True, "offset > 3"),
        ('not table == "a" and offset > 3', 'table == "b"', True, 'not table == "a" and offset > 3 and table == "b"'),
        ('(table == "a" or offset > 3) and x == 1', None, True, '(table == "a" or offset > 3) and x == 1'),
        (
            'table in ("a", "b") and offset > 3',
            'kind == "x"',
            True,
            'table in ("a", "b") and offset > 3 and kind == "x"',
        ),
        ('table in ("a", "b")', 'kind == "x"', True, 'table in ("a", "b") and kind == "x"'),
        ('table == " and "', 'table == "b"', True, 'table == "b"'),
        ('table == "a"', None, True, ""),
    ],
)
def test_a_clause_is_put_in_and_takes_the_place_of_another(
    line: str, added: str | None, instead: bool, result: str
) -> None:
    assert with_clause(line, "table", added, instead=instead) == result


def test_what_a_filter_asks_of_a_column_is_known_where_it_is_one_value() -> None:
    both = chosen_in('offset > 3 and table == "a" and lsn == "b"', ("table", "position", "kind"))
    assert both == {"table": "a", "position": "b", "kind": None}
    for line in (
        "table == null",
        'table == "a" and table == "b"',
        'table == "a" or offset > 3',
        'table in ("a")',
        'table == "a',
    ):
        assert chosen_in(line, ("table",)) == {"table": None}


def test_a_filter_is_read_once_for_all_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    monkeypatch.setattr(terms, "parse", lambda line, kinds: read.append(line) or parse(line, kinds))
    chosen_in('table == "a"', ("table", "operation", "outcome", "problem"))
    assert read == ['table == "a"']


def test_a_clause_says_every_kind_of_value_as_a_filter_reads_it() -> None:
    time = dt.datetime(2025, 3, 23, 8, 1, tzinfo=dt.UTC)
    kinds = {"a": "text", "n": "number", "t": "time"}
    for line in (clause("a", 'x"\\y'), clause("a", None), clause("n", -3), clause("t", time), clause("a", "x", True)):
        assert parse(line, kinds) is not None
    assert clause("a", "x", True) == 'a != "x"'


def test_a_line_that_is_no_filter_is_not_changed() -> None:
    with pytest.raises(FilterError):
        with_clause('table == "a', "table", 'table == "b"')


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("ta", [("table", 0)]),
        ("table ", [("==", 6), ("!=", 6), ("in", 6), ("contains", 6), ("matches", 6)]),
        ("table == ", [('"hr.emp"', 9), ('"shop.customer"', 9), ('"shop.orders"', 9)]),
        ('table == "sho', [('"shop.customer"', 9), ('"shop.orders"', 9)]),
        ('table_name == "EMP', [('"hr.emp"', 14)]),
        ('table in ("hr.emp", "shop.o', [('"shop.orders"', 20)]),
        ('table == "hr.emp" ', [("and", 18), ("or", 18)]),
        ('table == "hr.emp" and of', [("offset", 22)]),
        ("offset > ", []),
        ("offset > 3 a", [("and", 11)]),
        ("time ", [("<", 5), ("<=", 5), (">", 5), (">=", 5), ("==", 5)]),
    ],
)
def test_what_may_come_next_is_offered(before: str, expected: list[tuple[str, int]]) -> None:
    assert [(one["text"], one["from"]) for one in completions(before, COLUMNS)] == expected


def test_a_value_that_there_is_not_is_named_with_the_nearest() -> None:
    kinds = {name: column.kind for name, column in COLUMNS.items()}
    understood = parse('offset > 0 and table == "shop.order"', kinds)
    assert hint(understood, COLUMNS) == "No table is 'shop.order'. Did you mean 'shop.orders'?"
    assert hint(parse('table == "emp" and offset > 99', kinds), COLUMNS) == ""
    assert hint(None, COLUMNS) == ""


def test_values_are_listed_by_how_often_they_occur() -> None:
    assert values_of(TABLES) == ["shop.customer", "shop.orders", "hr.emp"]
    assert values_of(COLUMNS["offset"]) == []


def test_an_explorer_narrows_to_what_a_record_has(gbase8s: Explorer) -> None:
    rows = range(gbase8s.index.records)
    row = next(row for row in rows if gbase8s.columns["table"].value(row))
    table = gbase8s.columns["table"].value(row)
    gbase8s.narrow("table", row)
    assert gbase8s.filter == clause("table", table)
    assert gbase8s.shown == sum(gbase8s.columns["table"].value(one) == table for one in rows)
    shown = gbase8s.shown
    gbase8s.back()
    gbase8s.narrow("table", row, other=True)
    assert gbase8s.shown == gbase8s.index.records - shown
    gbase8s.only("table", table)
    gbase8s.only("operation", "INSERT")
    gbase8s.only("table", None)
    assert gbase8s.filter == f'{clause("table", table, True)} and operation == "INSERT"'
    assert gbase8s.choices["table"][0]
    gbase8s.apply('table == "shop.order"')
    assert gbase8s.hint == "No table is 'shop.order'. Did you mean 'shop.orders'?"


def test_a_record_without_a_time_has_that_of_the_end_of_its_transaction(gbase8s: Explorer) -> None:
    index = gbase8s.index
    rows = [row_view(index, row, None) for row in range(index.records)]
    ends = {row["transaction"]: row["time"] for row in rows if row["kind"] in ("commit", "rollback")}
    changes = [row for row in rows if row["operation"]]
    assert changes
    assert all(row["time"] is None and row["ended"] == ends.get(row["transaction"]) for row in changes)
    assert any(row["ended"] for row in changes)
    assert all(row["ended"] is None for row in rows if row["time"])


def test_a_record_that_has_a_time_keeps_it(tmp_path: Path) -> None:
    explorer = Explorer.open(saved(DATA / "qlik-kafka", tmp_path / "saved"))
    rows = [row_view(explorer.index, row, None) for row in range(explorer.index.records)]
    assert any(row["time"] for row in rows)
    assert all(row["ended"] is None for row in rows if row["time"])


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("aft", [("after.", 0)]),
        ("after.", [("after.state", 0), ("after.total", 0), ('after."order no"', 0)]),
        ("offset > 3 and Before.TO", [("before.total", 15)]),
        ('after."ord', [('after."order no"', 0)]),
        ("after.total ", [(one, 12) for one in ("==", "!=", "<", "<=", ">", ">=", "in")]),
        ('after."order no" co', [("contains", 17)]),
        ('after.state == "ta', []),
        ('after.state == "PAID" a', [("and", 22)]),
    ],
)
def test_the_columns_of_tables_are_offered_after_their_image(before: str, expected: list[tuple[str, int]]) -> None:
    kinds = {f"{image}.{name}": kind for image in ("before", "after") for name, kind in VALUES.items()}
    kinds |= {name: column.kind for name, column in COLUMNS.items()}
    assert [(one["text"], one["from"]) for one in completions(before, COLUMNS, kinds)] == expected
