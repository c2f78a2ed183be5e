"""The rows of a table as they stood at some place of the log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import cdcwb
import cdcwb_synth as synth
from cdcwb.errors import OptionError
from cdcwb.spark.known import find_table, infer_keys, keyed_by, known_tables
from cdcwb.spark.replay import growth, state
from tests.changes import at, change, frame, version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.oldest

T = "shop.orders"
COLUMNS = ["id", "state", "note"]


def made(number: int, operation: str, **facts: Any) -> dict[str, Any]:
    image = facts.get("after") or facts.get("before") or {}
    return change(number, operation, T, key={"id": image.get("id", "1")}, **facts)


def rows(spark: SparkSession, folder: Path, changes: list[dict[str, Any]], **asked: Any) -> dict[str, Any]:
    found = state(
        frame(spark, folder, "changes", changes),
        frame(spark, folder, "table_versions", [version(T, 1, COLUMNS)]),
        T,
        **asked,
    )
    return {row["key"]["id"]: row for row in found.collect()}


def test_a_row_is_what_its_last_changes_left(spark: SparkSession, tmp_path: Path) -> None:
    changes = [
        made(1, "INSERT", after={"id": "1", "state": "new", "note": None}),
        made(2, "UPDATE", before={"id": "1", "state": "new"}, after={"id": "1", "state": "paid"}),
        made(3, "INSERT", after={"id": "2", "state": "new", "note": "x"}),
        made(4, "DELETE", before={"id": "2", "state": "new", "note": "x"}),
    ]
    found = rows(spark, tmp_path, changes)
    assert set(found) == {"1"}
    assert found["1"]["row"] == {"id": "1", "state": "paid", "note": None}
    assert (found["1"]["partial"], found["1"]["changes"], found["1"]["position"]) == (False, 2, f"{2:016X}")


def test_a_position_or_a_time_ends_the_reading(spark: SparkSession, tmp_path: Path) -> None:
    changes = [
        made(1, "INSERT", after={"id": "1", "state": "new", "note": None}),
        made(2, "UPDATE", after={"id": "1", "state": "paid"}),
        made(3, "DELETE", before={"id": "1"}),
    ]
    assert rows(spark, tmp_path, changes, position=f"{2:016X}")["1"]["row"]["state"] == "paid"
    assert rows(spark, tmp_path, changes, time=at(1.5))["1"]["row"]["state"] == "new"
    assert rows(spark, tmp_path, changes, position=f"{0:016X}") == {}


def test_commits_decide_the_order_and_what_is_not_committed_does_not_count(spark: SparkSession, tmp_path: Path) -> None:
    changes = [
        made(1, "UPDATE", after={"id": "1", "state": "late"}, commit_position=f"{9:016X}"),
        made(2, "UPDATE", after={"id": "1", "state": "early"}, commit_position=f"{3:016X}"),
        made(4, "UPDATE", after={"id": "1", "state": "never"}, outcome="rolled_back"),
        made(5, "UPDATE", after={"id": "1", "state": "nor"}, outcome="open", commit_position=None),
    ]
    found = rows(spark, tmp_path, changes)
    assert found["1"]["row"]["state"] == "late"
    assert rows(spark, tmp_path, changes, position=f"{3:016X}")["1"]["row"]["state"] == "early"


def test_a_row_whose_beginning_is_not_there_is_partial_unless_an_image_has_it_all(
    spark: SparkSession, tmp_path: Path
) -> None:
    changes = [
        made(1, "UPDATE", after={"id": "1", "state": "paid"}),
        made(2, "UPDATE", after={"id": "2", "state": "paid", "note": None}),
        made(3, "REFRESH", after={"id": "3", "state": "old"}, outcome=None, commit_position=None, position=None),
    ]
    found = rows(spark, tmp_path, changes)
    assert {key: row["partial"] for key, row in found.items()} == {"1": True, "2": False, "3": False}


def test_a_row_that_comes_back_knows_nothing_of_its_former_life(spark: SparkSession, tmp_path: Path) -> None:
    changes = [
        made(1, "INSERT", after={"id": "1", "state": "new", "note": "first"}),
        made(2, "DELETE", before={"id": "1"}),
        made(3, "INSERT", after={"id": "1", "state": "again"}),
    ]
    assert rows(spark, tmp_path, changes)["1"]["row"] == {"id": "1", "state": "again"}


def test_an_update_of_the_key_ends_one_row_and_begins_another(spark: SparkSession, tmp_path: Path) -> None:
    changes = [
        made(1, "INSERT", after={"id": "1", "state": "new", "note": "x"}),
        made(2, "UPDATE", before={"id": "1", "state": "new", "note": "x"}, after={"id": "7", "state": "moved"}),
    ]
    found = rows(spark, tmp_path, changes)
    assert set(found) == {"7"}
    assert found["7"]["row"] == {"id": "7", "state": "moved", "note": "x"}


def moved(number: int, old: str, new: str, **after: Any) -> dict[str, Any]:
    """An update of the key whose image before holds the key alone."""
    return change(number, "UPDATE", T, key={"id": new}, before={"id": old}, after={"id": new, **after})


def test_a_row_keeps_what_it_was_under_every_key_it_had(spark: SparkSession, tmp_path: Path) -> None:
    changes = [
        made(1, "INSERT", after={"id": "1", "state": "new", "note": "first"}),
        made(2, "INSERT", after={"id": "5", "state": "new", "note": "fifth"}),
        moved(3, "1", "2", state="moved"),
        made(4, "INSERT", after={"id": "1", "state": "new", "note": "another"}),
        moved(5, "2", "3"),
        made(6, "UPDATE", after={"id": "3", "state": "at last"}),
        made(7, "DELETE", before={"id": "5"}),
        moved(8, "1", "5"),
        moved(9, "3", "1"),
    ]
    found = rows(spark, tmp_path, changes)
    assert {key: row["row"] for key, row in found.items()} == {
        "1": {"id": "1", "state": "at last", "note": "first"},
        "5": {"id": "5", "state": "new", "note": "another"},
    }
    assert not any(row["partial"] for row in found.values())
    assert found["1"]["key"] == {"id": "1"}
    early = rows(spark, tmp_path, changes, position=f"{4:016X}")
    assert {key: row["row"]["note"] for key, row in early.items()} == {"1": "another", "2": "first", "5": "fifth"}


def test_a_move_to_a_key_that_is_taken_replaces_the_row(spark: SparkSession, tmp_path: Path) -> None:
    changes = [
        made(1, "INSERT", after={"id": "1", "state": "new", "note": "first"}),
        made(2, "INSERT", after={"id": "2", "state": "old", "note": "second"}),
        moved(3, "1", "2"),
    ]
    found = rows(spark, tmp_path, changes)
    assert {key: row["row"] for key, row in found.items()} == {"2": {"id": "2", "state": "new", "note": "first"}}


def test_the_number_of_rows_falls_to_none_with_a_truncate(spark: SparkSession, tmp_path: Path) -> None:
    changes = [
        made(1, "REFRESH", after={"id": "9"}, outcome=None, commit_position=None, position=None, committed_at=None),
        made(2, "INSERT", after={"id": "1"}),
        made(3, "INSERT", after={"id": "2"}),
        moved(4, "2", "3"),
        change(5, "TRUNCATE", T),
        made(7, "INSERT", after={"id": "1"}),
        made(8, "DELETE", before={"id": "1"}),
    ]
    table = frame(spark, tmp_path, "changes", changes)
    known = known_tables(table)[T]
    assert (known.moves, known.truncates, known.changes, known.keyed) == (1, 1, 7, 6)
    steps = growth(table, known, at(0), 1_000_000)
    assert steps == [(None, 1), (at(3), 2), (at(4), 3), (at(6), 0), (at(8), 1), (at(9), 0)]


def test_a_table_is_named_without_its_schema_where_that_is_enough(spark: SparkSession, tmp_path: Path) -> None:
    changes = [made(1, "INSERT", after={"id": "1"}), change(2, "INSERT", "x.lines"), change(3, "INSERT", "y.lines")]
    known = known_tables(frame(spark, tmp_path, "changes", changes))
    assert find_table(known, "orders") is known[T]
    with pytest.raises(OptionError, match=r"several tables are called 'lines'; name one of: x\.lines, y\.lines"):
        find_table(known, "lines")


def test_a_column_looks_like_a_key_where_each_inserted_row_has_a_value_of_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    changes = [
        *(change(n, "INSERT", T, after={"kind": "a", "no": str(n), "name": f"x{n}"}) for n in range(1, 21)),
        change(21, "UPDATE", T, after={"kind": "b", "no": "2", "name": "z"}),
        *(change(30 + n, "INSERT", "shop.few", after={"no": str(n)}) for n in range(19)),
        *(change(60 + n, "INSERT", "shop.same", after={"no": str(n // 2)}) for n in range(30)),
    ]
    table = frame(spark, tmp_path, "changes", changes)
    found = infer_keys(table, [T, "shop.few", "shop.same"])
    assert {name: (one.column, one.rows) for name, one in found.items()} == {T: ("no", 20)}
    keyed = keyed_by(table, {T: ["no"]})
    keys = [row["key"] for row in keyed.orderBy("offset").collect()]
    assert keys == [*({"no": str(n)} for n in range(1, 21)), {"no": "2"}, *[None] * 49]


def test_a_truncate_empties_the_table(spark: SparkSession, tmp_path: Path) -> None:
    changes = [
        made(1, "INSERT", after={"id": "1", "state": "new"}),
        change(2, "TRUNCATE", T),
        made(3, "INSERT", after={"id": "2", "state": "new"}),
    ]
    assert set(rows(spark, tmp_path, changes)) == {"2"}
    assert set(rows(spark, tmp_path, changes, position=f"{1:016X}")) == {"1"}


def test_what_cannot_be_answered_is_said(spark: SparkSession, tmp_path: Path) -> None:
    changes = frame(spark, tmp_path, "changes", [change(1, "INSERT", T, after={"id": "1"})])
    versions = frame(spark, tmp_path, "table_versions", [])
    with pytest.raises(OptionError, match=r"keys=shop\.orders:c1\+c2"):
        state(changes, versions, T)
    with pytest.raises(OptionError, match=r"Did you mean 'shop\.orders'"):
        state(changes, versions, "shop.order")


def test_the_state_of_generated_tables_is_what_a_reading_of_the_truth_gives(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = synth.generate("qlik-kafka", changes=800, seed=12, to=tmp_path / "made", schema_changes=0)
    capture = cdcwb.load(folder / "capture", spark=spark)
    truth = pq.read_table(folder / "truth" / "changes.parquet").to_pylist()
    truth.sort(key=lambda row: (row["commit_position"] or "", row["position"] or "", row["file_index"], row["offset"]))
    for table in ("orders", "stock_move"):
        wanted: dict[Any, dict[str, Any]] = {}
        for row in truth:
            if row["table_name"] != table:
                continue
            key = tuple(sorted(row["key"] or ()))
            if row["operation"] == "TRUNCATE":
                wanted.clear()
            elif row["operation"] == "DELETE":
                wanted.pop(key, None)
            else:
                former = tuple((name, dict(row["before"] or row["key"]).get(name, value)) for name, value in key)
                known = wanted.pop(former, {}) if row["operation"] == "UPDATE" else {}
                wanted[key] = {**known, **dict(row["after"])}
        rows = state(capture.changes, capture.table_versions, table).collect()
        assert {tuple(sorted(row["key"].items())): row["row"] for row in rows} == wanted
        assert not any(row["partial"] for row in rows)
