"""Which renamed columns DDL statements tell of."""

from __future__ import annotations

import json
import time

import pytest

from cdcwb.analysis.version_order import Statement, rename_evidence, renames


def statement(text: str, position: str = "1") -> Statement:
    return Statement("shop.orders", position, text)


def details(**columns: str | None) -> str:
    """What Qlik writes of a DDL: by the old name of a column its new one."""
    return json.dumps({"columns": {old: {"action": "ALTER", "columnNewName": new} for old, new in columns.items()}})


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ALTER TABLE shop.orders RENAME COLUMN state TO status", [("state", "status")]),
        ('alter table "shop"."orders" rename column "my state" to "my ""s"', [("my state", "my ")]),
        ("ALTER TABLE orders RENAME a TO b, RENAME COLUMN c TO d", [("a", "b"), ("c", "d")]),
        ("RENAME COLUMN orders.state TO status;", [("state", "status")]),
        ("ALTER TABLE `orders` CHANGE COLUMN `a` `b` varchar(5)", [("a", "b")]),
        ("ALTER TABLE orders CHANGE a a varchar(9)", []),
        ("EXEC sp_rename 'shop.orders.state', 'status', 'COLUMN'", [("state", "status")]),
        ("EXEC sp_rename 'shop.[orders].[a b]', 'c d', 'COLUMN'", [("a b", "c d")]),
        ("EXEC sp_rename 'shop.orders', 'buyings'", []),
        ("ALTER TABLE orders RENAME TO buyings", []),
        ("ALTER TABLE orders ADD (renamed int, to_b int)", []),
        (details(state="status", note=None), [("state", "status")]),
        (details(state="state"), []),
        ('{"columns": 5}', []),
        ('{"columns": {"a": 5, "b": {"columnNewName": 7}}}', []),
        ("{broken", []),
        ("[1]", []),
        ("{" * 100_000, []),
        ("", []),
    ],
)
def test_statements_name_the_columns_that_they_rename(text: str, wanted: list[tuple[str, str]]) -> None:
    assert renames(text) == wanted


def test_only_columns_that_are_gone_and_have_come_are_renamed_whatever_the_case_of_their_names() -> None:
    said = [statement("ALTER TABLE T RENAME COLUMN STATE TO STATUS", "0042"), statement("RENAME COLUMN t.a TO b")]
    assert rename_evidence(said, ["state", "x"], ["Status", "y"]) == {
        ("state", "Status"): "DDL at 0042: ALTER TABLE T RENAME COLUMN STATE TO STATUS"
    }


def test_a_column_that_was_renamed_twice_is_found_by_its_first_name_and_its_last() -> None:
    told = rename_evidence([statement(details(a="b"), "1"), statement(details(b="c"), "2")], ["a"], ["c"])
    assert told == {("a", "c"): 'DDL at 1: column "a" has the new name "b"; DDL at 2: column "b" has the new name "c"'}
    swapped = [statement(details(a="t")), statement(details(b="a")), statement(details(t="b"))]
    assert rename_evidence(swapped, ["a", "b"], []) == {}


def test_the_time_for_hostile_statements_grows_with_their_length_alone() -> None:
    """Quadratic work would be minutes of this process's time; the limit is far above what linear work takes."""
    began = time.process_time()
    for text in ("RENAME " * 20_000, "RENAME COLUMN " + "a." * 50_000, "CHANGE" + " " * 100_000, "'" * 100_000):
        assert renames(text) == []
    assert time.process_time() - began < 20
