"""Schema drift, found in generated captures and planted by hand."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import cdcwb
from cdcwb import synth
from cdcwb.analysis.drift import findings, newest_schema, steps, versions, without_version
from cdcwb.analysis.misaligned import misaligned
from tests.changes import change, frame, tables, version

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
    return request.param, made, cdcwb.load(made / "capture", spark=spark)


def test_each_kind_of_drift_is_found_at_its_first_position_and_nothing_else(drifted: Any) -> None:
    kind, made, capture = drifted
    known = versions(capture)
    found = findings(steps(capture, known))
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
    known = versions(capture)
    assert findings(steps(capture, known)) == []
    assert newest_schema(known) == []
    assert misaligned(capture) == []


def test_rows_whose_version_is_not_known_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    table = "shop.orders"
    rows = [change(1, "INSERT", table), change(2, "INSERT", table, table_version=None), change(3, "INSERT", table)]
    capture = tables(spark, tmp_path, changes=rows, events=[], table_versions=[version(table, 1, ["id"])], problems=[])
    events = [
        {name: row[name] for name in row if name not in ("committed_at", "outcome", "change_source")} for row in rows
    ]
    events[2]["table_version"] = "shop.orders@77"
    capture.events = frame(
        spark, tmp_path, "events", [{k: v for k, v in one.items() if k != "source_events"} for one in events]
    )
    (found,) = without_version(capture)
    assert (found["table"], found["events"], found["position"], found["offset"]) == (table, 2, f"{2:016X}", 200)


def test_what_a_sink_with_the_newest_schema_loses_is_told_with_the_rows_it_concerns(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = "shop.orders"
    rows = [change(n, "INSERT", table, table_version=f"{table}@{1 if n < 4 else 2}") for n in range(6)]
    capture = tables(
        spark,
        tmp_path,
        changes=rows,
        table_versions=[version(table, 1, ["id", "state"]), version(table, 2, ["id", "kind"])],
    )
    found = {(row["rule"], row["column"]): row for row in newest_schema(versions(capture))}
    assert set(found) == {("column_added", "kind"), ("column_dropped", "state")}
    assert found["column_dropped", "state"]["changes"] == 4
    assert "lost" in found["column_dropped", "state"]["what"]


def people(count: int, cut: int | None) -> list[dict[str, Any]]:
    rng = random.Random(3)
    rows = []
    for number in range(count):
        values = [
            str(number),
            rng.choice(["Anna", "Bert", "Clara", "Dora"]) + str(rng.randrange(9)),
            rng.choice(["ROME", "OSLO", "PARIS"]),
            f"{rng.random() * 1000:.2f}",
        ]
        if cut is not None and number >= cut:
            values[1], values[3] = values[3], values[1]
        rows.append(change(number, "INSERT", "hr.people", after=dict(zip(["id", "name", "city", "pay"], values))))  # noqa: B905
    return rows


@pytest.mark.parametrize("cut", [37, 150, 261])
def test_values_under_the_wrong_columns_are_found_at_their_first_row(
    spark: SparkSession, tmp_path: Path, cut: int
) -> None:
    capture = tables(spark, tmp_path, changes=people(300, cut))
    (found,) = misaligned(capture)
    assert found.columns == (("name", "pay"), ("pay", "name"))
    assert (found.first_position, found.offset, found.changes) == (f"{cut:016X}", cut * 100, 300 - cut)


def test_values_under_their_own_columns_are_not_accused(spark: SparkSession, tmp_path: Path) -> None:
    assert misaligned(tables(spark, tmp_path, changes=people(300, None))) == []
    assert misaligned(tables(spark, tmp_path, changes=people(20, 10))) == []
