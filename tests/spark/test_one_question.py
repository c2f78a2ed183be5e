"""Questions about rows of tables: Spark's answers are those of this process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdcwb.analysis.history import ORDER, busiest_key, history
from cdcwb.analysis.keys import FACTS, changes_of, infer_keys, known_tables, with_keys
from cdcwb.analysis.reconcile import reconcile
from cdcwb.analysis.replay import TableReplay, state
from tests.changes import Tables, at, change, version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdcwb.dataset import Rows

pytestmark = pytest.mark.oldest

T = "shop.orders"


def moved(number: int, old: str, new: str) -> dict[str, Any]:
    return change(number, "UPDATE", T, key={"id": new}, before={"id": old}, after={"id": new}, changed_columns=["id"])


CHANGES = [
    *(
        change(n, "INSERT", T, key={"id": str(n)}, after={"id": str(n), "state": "new", "note": None})
        for n in range(1, 31)
    ),
    *(change(100 + n, "UPDATE", T, key={"id": str(n)}, after={"id": str(n), "state": "paid"}) for n in range(1, 31, 2)),
    *(moved(200 + n, str(n), str(n + 1000)) for n in range(1, 31, 3)),
    *(change(300 + n, "DELETE", T, key={"id": str(n)}, before={"id": str(n)}) for n in (2, 4, 1001)),
    change(400, "TRUNCATE", "shop.other"),
    change(401, "REFRESH", T, key={"id": "77"}, after={"id": "77"}, outcome=None, position=None, commit_position=None),
    *(change(500 + n, "INSERT", "shop.keyless", after={"kind": "a", "no": str(n)}) for n in range(25)),
]
ROWS = {
    "changes": CHANGES,
    "transactions": [{"transaction_id": f"t{n}", "user": f"user {n}"} for n in range(1, 500)],
    "table_versions": [version(T, 1, ["id", "state", "note"])],
}


@pytest.fixture(scope="module")
def both(spark: SparkSession) -> tuple[Tables, Tables]:
    return Tables(**ROWS), Tables(spark, **ROWS)


def sorted_rows(rows: Rows, *names: str) -> list[dict[str, Any]]:
    return rows.first([(name, "ascending") for name in names], 1_000).to_pylist()


def test_tables_keys_and_the_busiest_row(both: tuple[Tables, Tables]) -> None:
    changes = [tables.rows("changes", FACTS) for tables in both]
    here, there = map(known_tables, changes)
    assert here == there
    assert here[T].moves == 10
    assert len({str(infer_keys(tables, ["shop.keyless"])) for tables in both}) == 1
    one, other = (busiest_key(changes_of(tables, FACTS, table=T)) for tables in both)
    assert one == other is not None
    keys = {"shop.keyless": ["no"]}
    filled = [sorted_rows(with_keys(rows, keys), "offset") for rows in changes]
    assert filled[0] == filled[1]
    assert all(row["key"] is not None for row in filled[0] if row["table_name"] == "keyless")


def test_the_history_of_a_row(both: tuple[Tables, Tables]) -> None:
    here, there = (sorted_rows(history(tables, T, {"id": "1001"}), *ORDER) for tables in both)
    assert [row["operation"] for row in here] == ["INSERT", "UPDATE", "UPDATE", "DELETE"]
    assert here == there


def test_the_rows_of_a_table_and_their_number(both: tuple[Tables, Tables]) -> None:
    here, there = (sorted_rows(state(tables, T), "commit_position", "position") for tables in both)
    assert len(here) == 29
    assert here == there
    known = known_tables(both[0].rows("changes", FACTS))[T]
    here_numbers, there_numbers = (TableReplay(tables, known).growth(at(0), 1_000_000) for tables in both)
    assert here_numbers == there_numbers
    assert here_numbers[-1][1] == 29


def test_the_differences_of_two_captures(both: tuple[Tables, Tables], spark: SparkSession, tmp_path: Path) -> None:
    target = [row | {"committed_at": at(row["offset"] // 100 + 2)} for row in CHANGES if row["offset"] % 700]
    sides = Tables(changes=target), Tables(spark, changes=target)
    events = [
        {"kind": "malformed", "file_index": 0, "offset": 1_250, "raw": b"id=14"},
        {"kind": "malformed", "file_index": 0, "offset": 70_000, "raw": b"x" * 100_000},
    ]
    damaged = Tables(changes=target, events=events), Tables(spark, changes=target, events=events)
    results = [reconcile(source, side) for source, side in zip(both, sides, strict=True)]
    here, there = (result.stored(tmp_path / str(number)) for number, result in enumerate(results))
    assert here.counts() == there.counts()
    assert here.counts()["missing"] > 5
    for question in ("by_table", "by_column", "delays", "over_time", "differences"):
        assert getattr(here, question)() == getattr(there, question)(), question
    # the same through the target of the other kind: one side in this process, the other in Spark
    assert reconcile(both[0], sides[1]).counts() == here.counts()
    reasons = [reconcile(source, side).by_reason("missing") for source, side in zip(both, damaged, strict=True)]
    assert reasons[0] == reasons[1]
    assert reasons[0]["unreadable"] > 0
