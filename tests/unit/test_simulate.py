"""What a target holds under the rules of real sinks, against the order of commits."""

from __future__ import annotations

from typing import Any

import pytest

from cdcwb.analysis.simulate import ApplyRule, simulate, simulated
from cdcwb.errors import OptionError
from tests.changes import Tables, at, change

T = "shop.orders"


def insert(number: int, v: str, position: int | None = None, **facts: Any) -> dict[str, Any]:
    return change(number, "INSERT", T, key={"id": "1"}, after={"id": "1", "v": v}, **_at(number, position), **facts)


def update(number: int, old: str, new: str, position: int | None = None, **facts: Any) -> dict[str, Any]:
    images = {"before": {"id": "1", "v": old}, "after": {"id": "1", "v": new}}
    return change(number, "UPDATE", T, key={"id": "1"}, **images, **_at(number, position), **facts)


def delete(number: int, v: str, position: int | None = None, **facts: Any) -> dict[str, Any]:
    return change(number, "DELETE", T, key={"id": "1"}, before={"id": "1", "v": v}, **_at(number, position), **facts)


def _at(number: int, position: int | None) -> dict[str, Any]:
    text = f"{number if position is None else position:016}"
    return {"position": text, "commit_position": text}


def wrong(rule: str, *changes: dict[str, Any]) -> list[tuple[str, int, int]]:
    """The wrong rows: what is wrong, the change that the target applies last, and the one that is right."""
    rows = simulate(Tables(changes=list(changes)), rule).table().to_pylist()
    return [(row["wrong"], (row["offset"] or 0) // 100, row["right_offset"] // 100) for row in rows]


@pytest.mark.parametrize("rule", [ApplyRule.ARRIVAL, ApplyRule.SOURCE_TIME, ApplyRule.COMMIT, ApplyRule.TEXT_POSITION])
def test_in_a_stream_in_order_no_rule_is_wrong(rule: ApplyRule) -> None:
    assert wrong(rule, insert(1, "1"), update(2, "1", "2"), update(3, "2", "3")) == []
    assert wrong(rule, insert(1, "1"), delete(2, "1")) == []


def test_by_arrival_a_late_change_overwrites_a_later_one() -> None:
    late = (insert(1, "1", 10), update(2, "2", "3", 30), update(3, "1", "2", 20))
    assert wrong("arrival", *late) == [("other values", 3, 2)]
    assert wrong("commit", *late) == []


def test_inserts_of_columns_that_the_row_does_not_have_add_up() -> None:
    def of_column(number: int, position: int, **after: str) -> dict[str, Any]:
        return change(number, "INSERT", T, key={"id": "1"}, after=after, **_at(number, position))

    assert wrong("arrival", of_column(1, 20, v="1"), of_column(2, 10, w="1")) == []
    assert wrong("arrival", of_column(1, 20, v="1"), of_column(2, 10, v="2")) == [("other values", 2, 1)]


def test_by_source_time_ties_keep_the_first_that_came() -> None:
    same = {"committed_at": at(5), "changed_at": at(5)}
    assert wrong("source_time", insert(1, "1", **same), update(2, "1", "2", **same)) == [("other values", 1, 2)]
    assert wrong("source_time", insert(1, "1", **same), delete(2, "1", **same)) == [("left over", 1, 2)]


def test_with_deletes_first_a_row_that_is_deleted_in_the_batch_of_its_insert_is_left_over() -> None:
    assert wrong("deletes_first", insert(1, "1"), delete(2, "1")) == [("left over", 1, 2)]
    assert wrong("deletes_first", insert(1, "1"), delete(90, "1")) == []  # in another minute
    assert wrong("deletes_first", delete(1, "1"), insert(2, "2")) == []


def test_without_deletes_deleted_rows_are_left_over() -> None:
    assert wrong("no_deletes", insert(1, "1"), delete(2, "1")) == [("left over", 1, 2)]


def test_positions_as_text_put_10_before_9() -> None:
    assert wrong("text_position", insert(1, "1", 9), update(2, "1", "2", 10)) == [("other values", 1, 2)]
    assert wrong("text_position", insert(1, "1", 9), delete(2, "1", 10)) == [("left over", 1, 2)]


def test_images_with_some_columns_are_put_together() -> None:
    part = change(2, "UPDATE", T, key={"id": "1"}, after={"w": "y"}, **_at(2, 20))
    other = change(3, "UPDATE", T, key={"id": "1"}, after={"v": "2"}, **_at(3, 10))
    assert wrong("arrival", insert(1, "1", 5), part, other) == []  # other columns: their order does not matter


def test_all_rules_are_counted() -> None:
    found = simulated(Tables(changes=[insert(1, "1", 9), delete(2, "1", 10)]))
    assert {one["rule"]: one["rows"] for one in found} == {
        "arrival": 0,
        "source_time": 0,
        "commit": 0,
        "deletes_first": 1,
        "no_deletes": 1,
        "text_position": 1,
    }
    assert found[3]["wrong"] == {"left over": 1}


def test_a_rule_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(OptionError, match="Did you mean 'arrival'"):
        simulate(Tables(changes=[]), "arival")
