"""The life of one row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdcwb.errors import OptionError
from cdcwb.spark.history import history
from tests.changes import change, frame

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.oldest

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


def life(spark: SparkSession, folder: Path, **asked: Any) -> list[Row]:
    changes = frame(spark, folder, "changes", CHANGES)
    transactions = frame(spark, folder, "transactions", TRANSACTIONS)
    return history(changes, transactions, asked.pop("table", T), asked.pop("key", {"id": "9"})).collect()


def test_a_row_is_followed_under_the_keys_it_had(spark: SparkSession, tmp_path: Path) -> None:
    found = life(spark, tmp_path)
    assert [int(row["position"], 16) for row in found] == [1, 3, 4, 6]
    assert [row["user"] for row in found] == ["user 1", "user 3", "user 4", "user 6"]


def test_what_changed_is_told_column_by_column(spark: SparkSession, tmp_path: Path) -> None:
    inserted, paid, moved, deleted = (
        [(d["column"], d["old"], d["new"], d["old_known"]) for d in row["differences"]] for row in life(spark, tmp_path)
    )
    assert inserted == [("id", None, "1", False), ("state", None, "new", False)]
    assert paid == [("state", "new", "paid", True)]
    assert moved == [("id", "1", "9", True)]
    assert deleted == [("id", "9", None, True), ("state", "paid", None, True)]


def test_under_its_first_key_both_rows_that_had_it_are_shown(spark: SparkSession, tmp_path: Path) -> None:
    assert [int(row["position"], 16) for row in life(spark, tmp_path, key={"id": "1"})] == [1, 3, 4, 5, 6]


def test_what_is_not_there_is_named_with_what_is(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"Did you mean 'shop\.orders'"):
        life(spark, tmp_path, table="shop.order")
    with pytest.raises(OptionError, match="There are: id, state"):
        life(spark, tmp_path, key={"ident": "1"})
    with pytest.raises(OptionError, match="found none"):
        life(spark, tmp_path, key={})
    assert life(spark, tmp_path, key={"id": "77"}) == []


def test_a_move_that_was_rolled_back_is_shown_and_not_followed(spark: SparkSession, tmp_path: Path) -> None:
    back = {"outcome": "rolled_back", "commit_position": None}
    changes = frame(
        spark,
        tmp_path,
        "changes",
        [
            change(1, "INSERT", T, key={"id": "1"}, after={"id": "1"}),
            change(2, "UPDATE", T, key={"id": "2"}, before={"id": "1"}, after={"id": "2"}, **back),
            change(3, "INSERT", T, key={"id": "2"}, after={"id": "2"}),
            change(4, "TRUNCATE", T),
            change(5, "TRUNCATE", "shop.other"),
        ],
    )
    transactions = frame(spark, tmp_path, "transactions", TRANSACTIONS)
    found = history(changes, transactions, T, {"id": "1"}).collect()
    assert [int(row["position"], 16) for row in found] == [1, 2, 4]
    assert history(changes, transactions, "orders", {"id": "3"}).collect() == []
