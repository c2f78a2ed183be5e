"""Which row takes the place of which: the eight types against each other, both ways round."""

from __future__ import annotations

import itertools

import pytest

from tests.xds_rows import decided, published, row

# A row of this type (down) beside a row of that type (across), of one object, column and polling cycle:
# . published, o overridden by it, g gone where the other comes later.
MATRIX = """
      1 2 3 4 5 6 7 8
    1 . . . . o . o .
    2 . . . . . o . o
    3 . . . . . o . o
    4 . . . . . . . .
    5 . . . g . . . .
    6 . . . g . . . .
    7 . . . g o . . .
    8 . . . g . o . .
"""
CELLS = {int(line.split()[0]): line.split()[1:] for line in MATRIX.strip().splitlines()[1:]}
PAIRS = list(itertools.product(range(1, 9), repeat=2))


def fate(kind: int, other: int, *, first: bool) -> str:
    cell = CELLS[kind][other - 1]
    if cell == "g":
        return "no_effect" if first else "published"
    return {".": "published", "o": "overridden"}[cell]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_types_take_precedence_as_in_the_matrix_whichever_comes_first(one: int, other: int) -> None:
    found = published(row(one, new_value="x"), row(other, new_value="y")).decisions.to_pylist()
    assert [it["decision"] for it in found] == [fate(one, other, first=True), fate(other, one, first=False)]
    by = {it["record_id"]: it["overridden_by"] for it in found if it["decision"] == "overridden"}
    assert all(by[number] == 3 - number for number in by)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_of_two_columns_only_row_query_backs_take_precedence(one: int, other: int) -> None:
    found = decided(row(one, new_value="x"), row(other, new_value="y", column_name="lname"))
    by_field = {(1, 7), (2, 8), (3, 8)}
    wanted = [fate(one, other, first=True), fate(other, one, first=False)]
    if (one, other) in by_field or (other, one) in by_field:
        wanted = ["published", "published"]
    assert found == wanted


@pytest.mark.parametrize(("one", "other"), PAIRS)
@pytest.mark.parametrize("apart", [{"table_key": "idu= 1"}, {"table_name": "USR"}], ids=["key", "table"])
def test_rows_of_two_objects_leave_each_other_alone(one: int, other: int, apart: dict[str, str]) -> None:
    """Objects are told apart by the table and the key as they are written."""
    assert decided(row(one, new_value="x"), row(other, new_value="y", **apart)) == ["published", "published"]


@pytest.mark.parametrize(("one", "other"), [pair for pair in PAIRS if 4 not in pair])
def test_rows_before_and_after_a_delete_leave_each_other_alone(one: int, other: int) -> None:
    before = "no_effect" if one >= 5 else "published"
    assert decided(row(one, new_value="x"), row(4), row(other, new_value="y")) == [before, "published", "published"]
    wide = decided(row(one, new_value="x"), row(4), row(other, new_value="y"), precedence="log")
    assert wide == [before, "published", "published"]


@pytest.mark.parametrize(("one", "other"), [pair for pair in PAIRS if 4 not in pair])
def test_rows_take_precedence_within_a_polling_cycle_unless_the_whole_log_is_asked_for(one: int, other: int) -> None:
    pair = (row(one, new_value="x"), row(other, new_value="y"))
    assert decided(*pair, query_limit=1) == ["published", "published"]
    assert decided(*pair, query_limit=1, precedence="log") == decided(*pair)


def test_row_query_back_is_named_before_field_query_back_and_the_first_before_the_others() -> None:
    found = published(row(2, new_value="x"), row(8), row(6), row(6), row(8)).decisions
    assert found["overridden_by"].to_pylist() == [3, 3, None, None, 3]
    assert found["reason"].to_pylist()[:2] == ["overridden by record 3, a row query-back of the same object"] * 2


def test_query_back_that_is_gone_overrides_nothing() -> None:
    found = decided(row(2, new_value="x"), row(6), row(4, status="S"))
    assert found == ["published", "no_effect", "skipped"]


def test_rows_that_are_not_polled_override_nothing_and_part_nothing() -> None:
    found = decided(row(2, new_value="x"), row(6, status="S"), row(6, perpetrator="drv"), driver_user="drv")
    assert found == ["published", "skipped", "skipped"]
    assert decided(row(1, new_value="x"), row(4, table_key=None), row(5)) == ["overridden", "invalid", "published"]


def test_query_back_without_a_snapshot_still_takes_precedence() -> None:
    assert decided(row(2, new_value="x"), row(6), snapshot=None) == ["overridden", "needs_snapshot"]


def test_type_5_as_modify_takes_precedence_over_adds_as_before() -> None:
    assert decided(row(1, new_value="x"), row(7), row(5), type5="modify") == ["overridden", "overridden", "published"]
    assert decided(row(2, new_value="x"), row(5), type5="modify") == ["published", "published"]
