"""Schema drift, found in generated captures and planted by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import cdcwb
import cdcwb_synth as synth
from cdcwb import model
from cdcwb.analysis.drift import drift
from tests.changes import change, frame, tables, version
from tests.saved_capture import open_saved

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = ("add", "drop", "rename", "retype", "reorder", "swap")
RULES = {
    "add": {"column_added"},
    "drop": {"column_dropped"},
    "rename": {"column_renamed"},
    "retype": {"column_retyped", "column_resized"},
    "reorder": {"columns_reordered"},
    "swap": {"column_added", "column_dropped"},
}


@pytest.fixture(scope="module", params=KINDS)
def drifted(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp(request.param)
    made = synth.generate(
        "qlik-kafka", changes=700, seed=21, to=folder / "made", schema_changes=1, schema_kinds=request.param
    )
    return request.param, made, open_saved(made / "capture", folder / "saved")


@pytest.mark.oldest
def test_each_kind_of_drift_is_found_at_its_first_position_and_nothing_else(drifted: Any) -> None:
    kind, made, capture = drifted
    found = drift(capture).findings
    truth = pq.read_table(made / "truth" / "table_versions.parquet").to_pylist()
    positions = {row["table_version"]: row["first_position"] for row in truth}
    assert found
    assert {one.rule for one in found} <= RULES[kind]
    assert len(found) == (2 if kind == "swap" else 1)
    assert {one.first_position for one in found} <= set(positions.values())
    assert all(one.first_position == positions[one.new_version] for one in found)


def test_a_capture_without_drift_has_no_findings(spark: SparkSession, tmp_path: Path) -> None:
    made = synth.generate("goldengate", changes=300, seed=22, to=tmp_path / "made", schema_changes=0)
    capture = cdcwb.load(made / "capture", spark=spark)
    told = drift(capture)
    assert told.findings == []


def test_rows_whose_version_is_not_known_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    table = "shop.orders"
    rows = [change(1, "INSERT", table), change(2, "INSERT", table, table_version=None), change(3, "INSERT", table)]
    capture = tables(spark, tmp_path, changes=rows, events=[], table_versions=[version(table, 1, ["id"])], problems=[])
    rows[2]["table_version"] = "shop.orders@77"
    capture.events = events_of(spark, tmp_path, rows)
    (found,) = drift(capture).without_version
    assert (found["table"], found["events"], found["position"], found["offset"]) == (table, 2, f"{2:016X}", 200)


def events_of(spark: SparkSession, folder: Path, rows: list[dict[str, Any]]) -> Any:
    """Changes as the events that they were made of."""
    names = set(model.EVENTS.names)
    return frame(spark, folder, "events", [{name: row[name] for name in row if name in names} for row in rows])


def made_of(spark: SparkSession, folder: Path, rows: list[dict[str, Any]], versions: list[dict[str, Any]]) -> Any:
    """A capture of these changes and versions."""
    capture = tables(spark, folder, changes=rows, table_versions=versions)
    capture.events = events_of(spark, folder, rows)
    return capture


T = "shop.orders"


def row(number: int, of_version: int, operation: str = "UPDATE", **facts: Any) -> dict[str, Any]:
    """A change of the row ``id`` = number % 10 under a version of the table."""
    key = {"id": str(number % 10)}
    return change(number, operation, T, table_version=f"{T}@{of_version}", key=key, **facts)


def found_in(capture: Any) -> list[tuple[str, str | None, str | None]]:
    return [(one.rule, one.column, one.first_position) for one in drift(capture).findings]


def test_a_version_that_comes_back_is_in_force_twice(spark: SparkSession, tmp_path: Path) -> None:
    """A, B, A, then C: the step back to A is one, and C follows A."""
    rows = [row(n, {0: 1, 1: 2, 2: 1, 3: 3}[n // 10]) for n in range(40)]
    known = [version(T, 1, ["id", "a"]), version(T, 2, ["id", "a", "b"]), version(T, 3, ["id", "a", "c"])]
    told = drift(made_of(spark, tmp_path, rows, known))
    assert [(one.version.number, one.changes, one.again) for one in told.periods] == [
        *((1, 10, False), (2, 10, False), (1, 10, True), (3, 10, False)),
    ]
    assert sorted((one.first_position or "", one.rule, one.column) for one in told.findings) == [
        (f"{10:016X}", "column_added", "b"),
        (f"{20:016X}", "column_dropped", "b"),
        (f"{30:016X}", "column_added", "c"),
    ]
    assert told.mixed == []


def test_late_rows_of_an_older_version_do_not_bring_it_back(spark: SparkSession, tmp_path: Path) -> None:
    """A, B, one row of A, B."""
    rows = [row(n, 1 if n < 10 or n == 15 else 2) for n in range(30)]
    told = drift(made_of(spark, tmp_path, rows, [version(T, 1, ["id"]), version(T, 2, ["id", "b"])]))
    assert [(one.version.number, one.changes, one.last_position) for one in told.periods] == [
        *((1, 11, f"{15:016X}"), (2, 19, f"{29:016X}")),
    ]
    assert told.mixed == [(T, 1)]
    assert [(one.rule, one.first_position) for one in told.findings] == [("column_added", f"{10:016X}")]


def test_versions_that_take_turns_all_the_time_are_said_to_mix(spark: SparkSession, tmp_path: Path) -> None:
    rows = [row(n, 1 + n % 2) for n in range(40)]
    told = drift(made_of(spark, tmp_path, rows, [version(T, 1, ["id"]), version(T, 2, ["id", "b"])]))
    assert told.mixed == [(T, 38)]
    assert [(one.rule, one.first_position) for one in told.findings] == [("column_added", f"{1:016X}")]


def test_a_version_without_rows_stands_where_the_source_made_it(spark: SparkSession, tmp_path: Path) -> None:
    """The first version has rows of a full load only, which have no position; the third has none at all."""
    load = [row(n, 1, "REFRESH", position=None) for n in range(3)]
    rows = [*load, *(row(n, 2) for n in range(10, 15)), *(row(n, 4) for n in range(20, 25))]
    known = [version(T, n, ["id", *"abcd"[:n]], lineage=[("version", str(n))]) for n in (4, 3, 2, 1)]
    told = drift(made_of(spark, tmp_path, rows, known))
    assert [(one.number, one.table_version, one.changes) for one in told.versions] == [
        *((1, f"{T}@1", 3), (2, f"{T}@2", 5), (3, f"{T}@3", 0), (4, f"{T}@4", 5)),
    ]
    assert [(one.column, one.first_position) for one in sorted(told.findings, key=lambda one: one.column or "")] == [
        *(("b", f"{10:016X}"), ("c", None), ("d", f"{20:016X}")),
    ]


def renaming(value: str, later: str | None, **facts: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Ten rows with ``state`` under a first version, updated under a second one that has ``status`` in its place: there
    it holds ``later`` before the first update."""
    rows = [row(n, 1, "INSERT", after={"id": str(n), "state": f"{value}{n}"}) for n in range(10)]
    for n in range(10):
        old = None if later is None else f"{later}{n}"
        images = {"before": {"id": str(n), "status": old}, "after": {"id": str(n), "status": "new"}}
        rows.append(row(10 + n, 2, **images, **facts))
    typed = [[{"name": "id", "type": "INT4"}, {"name": name, "type": "STRING"}] for name in ("state", "status")]
    return rows, [version(T, number, columns) for number, columns in enumerate(typed, 1)]


def test_a_column_whose_rows_keep_their_values_is_renamed(spark: SparkSession, tmp_path: Path) -> None:
    capture = made_of(spark, tmp_path, *renaming("open", "open"))
    (found,) = drift(capture).findings
    assert (found.rule, found.old, found.new, found.first_position) == (
        *("column_renamed", "state", "status", f"{10:016X}"),
    )
    assert found.evidence == "10 of 10 rows that both versions show have the same value in it"


@pytest.mark.parametrize("later", ["closed", None])
def test_a_column_whose_rows_hold_other_values_or_none_is_not_renamed_however_alike_it_looks(
    spark: SparkSession, tmp_path: Path, later: str | None
) -> None:
    capture = made_of(spark, tmp_path, *renaming("open", later))
    assert {one[:2] for one in found_in(capture)} == {("column_added", "status"), ("column_dropped", "state")}


def test_changes_that_were_taken_back_are_no_evidence(spark: SparkSession, tmp_path: Path) -> None:
    rows, known = renaming("open", "open")
    lost = [
        row(9, 1, after={"id": str(n), "state": "x"}, outcome="rolled_back") | {"key": [("id", str(n))]}
        for n in range(9)
    ]
    (found,) = drift(made_of(spark, tmp_path, [*rows, *lost], known)).findings
    assert found.evidence == "10 of 10 rows that both versions show have the same value in it"


def test_ddl_that_names_a_rename_is_the_first_of_all_evidence(spark: SparkSession, tmp_path: Path) -> None:
    """Also where the rows say otherwise, and where the column has another type and place."""
    rows, known = renaming("open", "closed")
    known[1] = version(T, 2, [{"name": "Status", "type": "CLOB"}, {"name": "id", "type": "INT4"}])
    statement = "ALTER TABLE shop.orders RENAME COLUMN STATE TO STATUS"
    facts = {"kind": "change", "table_version": None, "headers": {"statement": statement}}
    ddl = change(9, "DDL", T, **facts) | {"position": f"{9:016X}A"}
    later = change(30, "DDL", T, **facts | {"headers": {"statement": "ALTER TABLE shop.orders RENAME id TO key"}})
    capture = made_of(spark, tmp_path, rows, known)
    capture.events = events_of(spark, tmp_path, [*rows, ddl, later])
    told = drift(capture)
    assert {(one.rule, one.column) for one in told.findings} == {
        *(("column_renamed", "Status"), ("column_retyped", "Status"), ("columns_reordered", None)),
    }
    (renamed,) = (one for one in told.findings if one.rule == "column_renamed")
    assert renamed.evidence == f"DDL at {9:016X}A: {statement}"
    assert told.without_version == []


def test_a_rename_that_no_row_bears_is_found_in_the_next_version(spark: SparkSession, tmp_path: Path) -> None:
    rows, known = renaming("open", "open")
    rows = [one | {"table_version": f"{T}@3"} if one["table_version"] == f"{T}@2" else one for one in rows]
    columns = [*known[1]["columns"], {"name": "more", "type": "INT4"}]
    known = [one | {"lineage": [("version", str(n))]} for n, one in enumerate([*known, version(T, 3, columns)], 1)]
    told = drift(made_of(spark, tmp_path, rows, known))
    assert [(one.rule, one.column, one.first_position) for one in told.findings] == [
        *(("column_renamed", "status", None), ("column_added", "more", f"{10:016X}")),
    ]


@pytest.mark.oldest
def test_thousands_of_versions_are_compared_in_a_few_jobs(spark: SparkSession, tmp_path: Path) -> None:
    """Every version renames the same column once more."""
    count = 2000
    rows = [
        row(n, n, after={"id": str(n % 10), f"c{n}": "same"}, before={f"c{n}": "same"}) for n in range(1, count + 1)
    ]
    known = [version(T, n, ["id", f"c{n}"]) for n in range(1, count + 1)]
    capture = made_of(spark, tmp_path, rows, known)
    tracker, group = spark.sparkContext.statusTracker(), "thousands"
    spark.sparkContext.setJobGroup(group, group)
    told = drift(capture)
    jobs = len(tracker.getJobIdsForGroup(group))
    spark.sparkContext.setJobGroup("other", "other")
    assert len(told.versions) == len(told.steps) + 1 == count
    assert len(told.findings) >= count - 1
    assert jobs < 40
