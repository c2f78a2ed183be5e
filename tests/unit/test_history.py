"""The history of one row."""

from __future__ import annotations

from typing import Any

import pytest

from cdcwb.analysis.history import ORDER, busiest_key, history, states
from cdcwb.analysis.keys import FACTS, find_table, infer_keys, known_tables, with_keys
from cdcwb.errors import OptionError
from tests.changes import Tables, change

T = "shop.orders"

CHANGES = [
    change(1, "INSERT", T, key={"id": "1"}, after={"id": "1", "state": "new"}),
    change(2, "INSERT", T, key={"id": "2"}, after={"id": "2", "state": "new"}),
    change(
        3,
        "UPDATE",
        T,
        key={"id": "1"},
        before={"id": "1", "state": "new"},
        after={"id": "1", "state": "paid"},
        changed_columns=["state"],
    ),
    change(
        4,
        "UPDATE",
        T,
        key={"id": "9"},
        before={"id": "1", "state": "paid"},
        after={"id": "9", "state": "paid"},
        changed_columns=["id"],
    ),
    change(5, "INSERT", T, key={"id": "1"}, after={"id": "1", "state": "another"}),
    change(6, "DELETE", T, key={"id": "9"}, before={"id": "9", "state": "paid"}),
    change(7, "INSERT", "shop.other", key={"id": "1"}, after={"id": "1"}),
]
TRANSACTIONS = [{"transaction_id": f"t{number}", "user": f"user {number}"} for number in range(1, 8)]


def rows_of(capture: Tables, table: str, key: dict[str, str | None]) -> list[dict[str, Any]]:
    return history(capture, table, key).first([(name, "ascending") for name in ORDER], 1_000).to_pylist()


def of_row(table: str = T, key: dict[str, str | None] | None = None) -> list[dict[str, Any]]:
    capture = Tables(changes=CHANGES, transactions=TRANSACTIONS)
    return rows_of(capture, table, {"id": "9"} if key is None else key)


def test_a_row_is_followed_under_the_keys_it_had() -> None:
    found = of_row()
    assert [int(row["position"], 16) for row in found] == [1, 3, 4, 6]
    assert [row["user"] for row in found] == ["user 1", "user 3", "user 4", "user 6"]


def test_what_changed_is_told_column_by_column() -> None:
    inserted, paid, moved, deleted = (
        [(d["column"], d["old"], d["new"], d["old_known"]) for d in row["differences"]] for row in of_row()
    )
    assert inserted == [("id", None, "1", False), ("state", None, "new", False)]
    assert paid == [("state", "new", "paid", True)]
    assert moved == [("id", "1", "9", True)]
    assert deleted == [("id", "9", None, True), ("state", "paid", None, True)]


def test_under_its_first_key_both_rows_that_had_it_are_shown() -> None:
    assert [int(row["position"], 16) for row in of_row(key={"id": "1"})] == [1, 3, 4, 5, 6]


def test_what_is_not_there_is_named_with_what_is() -> None:
    with pytest.raises(OptionError, match=r"Did you mean 'shop\.orders'"):
        of_row(table="shop.order")
    with pytest.raises(OptionError, match="There are: id, state"):
        of_row(key={"ident": "1"})
    with pytest.raises(OptionError, match="found none"):
        of_row(key={})
    assert of_row(key={"id": "77"}) == []


def test_a_move_that_was_rolled_back_is_shown_and_not_followed() -> None:
    back = {"outcome": "rolled_back", "commit_position": None}
    changes = [
        change(1, "INSERT", T, key={"id": "1"}, after={"id": "1"}),
        change(2, "UPDATE", T, key={"id": "2"}, before={"id": "1"}, after={"id": "2"}, **back),
        change(3, "INSERT", T, key={"id": "2"}, after={"id": "2"}),
        change(4, "TRUNCATE", T),
        change(5, "TRUNCATE", "shop.other"),
    ]
    capture = Tables(changes=changes, transactions=TRANSACTIONS)
    assert [int(row["position"], 16) for row in rows_of(capture, T, {"id": "1"})] == [1, 2, 4]
    assert rows_of(capture, "orders", {"id": "3"}) == []


def test_truncates_after_the_first_change_of_a_row_are_in_its_history_unless_they_were_rolled_back() -> None:
    inserted = change(2, "INSERT", T, key={"id": "1"}, after={"id": "1"})
    early, late = change(1, "TRUNCATE", T), change(4, "TRUNCATE", T, outcome="open")
    rolled_back = change(3, "TRUNCATE", T, outcome="rolled_back")
    for changes, positions in (([early, inserted, rolled_back, late], [2, 4]), ([inserted, rolled_back], [2])):
        found = rows_of(Tables(changes=changes), T, {"id": "1"})
        assert [int(row["position"], 16) for row in found] == positions


def test_null_is_a_value_of_a_key_and_what_is_not_captured_is_none() -> None:
    changes = [
        change(1, "INSERT", T, key={"a": "1", "b": None}, after={"a": "1", "b": None}),
        change(2, "INSERT", T, key={"a": "1"}, after={"a": "1"}),
        change(3, "INSERT", T, key={"a": "1", "b": "NULL"}, after={"a": "1", "b": "NULL"}),
    ]
    found = rows_of(Tables(changes=changes), T, {"a": "1", "b": None})
    assert [int(row["position"], 16) for row in found] == [1]
    assert found[0]["user"] is None


def test_the_row_with_the_most_changes_is_the_first_by_key_of_those() -> None:
    keys = ["7", "10", "10", "9", "7"]
    changes = [change(n, "UPDATE", T, key={"id": key}, after={"id": key}) for n, key in enumerate(keys)]
    assert busiest_key(Tables(changes=changes).rows("changes", FACTS)) == {"id": "10"}
    assert busiest_key(Tables(changes=[change(1, "INSERT", T)]).rows("changes", FACTS)) is None


# --- tables and their keys --------------------------------------------------------------------------------------------


def test_a_table_is_named_without_its_schema_where_that_is_enough() -> None:
    changes = [
        change(1, "INSERT", T, key={"id": "1"}, after={"id": "1"}),
        change(2, "INSERT", "x.lines"),
        change(3, "INSERT", "y.lines"),
    ]
    known = known_tables(Tables(changes=changes).rows("changes", FACTS))
    assert list(known) == [T, "x.lines", "y.lines"]
    assert find_table(known, "orders") is known[T]
    with pytest.raises(OptionError, match=r"several tables are called 'lines'; name one of: x\.lines, y\.lines"):
        find_table(known, "lines")
    assert known_tables(Tables().rows("changes", FACTS)) == {}


def test_what_is_known_of_a_table_is_counted_over_all_batches() -> None:
    moved = change(3, "UPDATE", T, key={"b": "2", "a": "1"}, before={"a": "9"}, after={"a": "1", "c": "x"})
    changes = [
        change(1, "INSERT", T, key={"a": "1", "b": None}, after={"a": "1"}),
        change(2, "INSERT", T, after={"d": "1"}, committed_at=None),
        moved,
        moved | {"outcome": "rolled_back"},
        change(4, "TRUNCATE", T),
        change(5, "TRUNCATE", T, outcome="open"),
    ]
    known = known_tables(Tables(changes=changes).rows("changes", FACTS))[T]
    assert (known.changes, known.keyed, known.moves, len(known.truncates)) == (6, 3, 1, 2)
    assert known.keys == (("a", "b"),)
    assert known.columns == ("a", "b", "c", "d")
    assert (known.first, known.last) == (changes[0]["committed_at"], changes[4]["committed_at"])


def test_a_column_looks_like_a_key_where_each_inserted_row_has_a_value_of_its_own() -> None:
    changes = [
        *(change(n, "INSERT", T, after={"kind": "a", "no": str(n), "name": f"x{n}"}) for n in range(1, 21)),
        change(21, "UPDATE", T, after={"kind": "b", "no": "2", "name": "z"}),
        *(change(30 + n, "INSERT", "shop.few", after={"no": str(n)}) for n in range(19)),
        *(change(60 + n, "INSERT", "shop.same", after={"no": str(n // 15 * 10 + n % 10)}) for n in range(30)),
        *(change(90 + n, "INSERT", "shop.again", after={"no": str(n % 20)}) for n in range(22)),
    ]
    tables = Tables(changes=changes)
    rows = tables.rows("changes", FACTS)
    found = infer_keys(tables, [T, "shop.few", "shop.same", "shop.again"])
    assert {name: (one.column, one.rows) for name, one in found.items()} == {T: ("no", 20)}
    keys = with_keys(rows, {T: ["no"]}).table()["key"].to_pylist()
    assert keys == [*([("no", str(n))] for n in range(1, 21)), [("no", "2")], *[None] * 71]


def test_a_key_is_filled_in_only_where_an_image_has_all_of_its_columns() -> None:
    changes = [
        change(1, "INSERT", T, after={"a": "1", "b": None}),
        change(2, "DELETE", T, before={"b": "2", "a": "1"}),
        change(3, "UPDATE", T, before={"a": "1", "b": "2"}, after={"a": "1"}),
        change(4, "INSERT", T, key={"a": "5"}, after={"a": "1", "b": "2"}),
    ]
    keys = with_keys(Tables(changes=changes).rows("changes", FACTS), {T: ["a", "b"]}).table()["key"].to_pylist()
    assert keys == [[("a", "1"), ("b", None)], [("a", "1"), ("b", "2")], None, [("a", "5")]]


def test_the_row_after_each_change() -> None:
    changes = [
        {"operation": operation, "image": image, "taken_back": False}
        for operation, image in (
            *(("INSERT", {"a": "1"}), ("INSERT", {"b": "1"}), ("UPDATE", {"a": "2"}), ("INSERT", {"a": "3"})),
            *(("INSERT", {}), ("UPDATE", {"b": "4"}), ("DELETE", None), ("UPDATE", {"c": "5"})),
        )
    ]
    undone = {"operation": "UPDATE", "image": {"a": "9"}, "taken_back": True}
    after = [{"a": "1"}, {"a": "1", "b": "1"}, {"a": "2", "b": "1"}, {"a": "3"}, {}, {"b": "4"}, None, {"c": "5"}]
    assert [row for _, row in states([undone, *changes])] == after
