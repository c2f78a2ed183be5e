"""The rows of a table as they stood at some place of the log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import cdcwb
from cdcwb import synth
from cdcwb.errors import OptionError
from cdcwb.spark.replay import state
from tests.changes import at, change, frame, version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
