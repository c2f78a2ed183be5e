"""On Spark a capture has the rows that it has without, in every table and at any split size."""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import cdcwb
import cdcwb_synth as synth
from cdcwb import Capture
from cdcwb.formats.idm_event_log import changes as log_changes
from cdcwb.spark import exchange
from tests.answers.tables import tables
from tests.answers.test_any_split_size import MADE, SIZES, disorder, in_disorder, ordered
from tests.spark.test_assembly import write_stories

DATA = Path(__file__).resolve().parents[2] / "data"
TABLES = ("changes", "transactions", "problems")

pytestmark = pytest.mark.usefixtures("spark")


def on_spark(capture: Capture, names: Sequence[str] = TABLES) -> dict[str, list[str]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for name in names:
        rows = getattr(capture, name).toArrow()
        maps = [field.name for field in rows.schema if str(field.type).startswith("map")]
        found[name] = [row | {key: dict(row[key]) for key in maps if row[key] is not None} for row in rows.to_pylist()]
    return ordered(found)


def without_spark(path: Path) -> dict[str, list[str]]:
    return {name: rows for name, rows in ordered(tables(path)).items() if name in TABLES}


@pytest.mark.parametrize("format", SIZES)
def test_the_data_of_the_project(format: str) -> None:
    assert on_spark(cdcwb.load(DATA / format, split_size=SIZES[format])) == without_spark(DATA / format)


@pytest.mark.parametrize("format", SIZES)
def test_a_capture_in_disorder(format: str, tmp_path: Path) -> None:
    path = in_disorder(format, tmp_path)
    assert on_spark(cdcwb.load(path, split_size=SIZES[format])) == without_spark(path)


def test_stories_cut_at_every_record(tmp_path: Path) -> None:
    path = write_stories(tmp_path)
    assert on_spark(cdcwb.load(path, split_size=100)) == without_spark(path)


def test_an_event_log_in_no_order(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and a DataFrame of the same rows: one task reads them in the order of their record ids. Rows have no bytes,
    so none is a duplicate of another."""
    synth.generate("idm-event-log", changes=200, seed=7, to=tmp_path)
    (path,) = (file for file in sorted((tmp_path / "capture").rglob("*")) if file.suffix == ".csv")
    with path.open(encoding="utf-8", newline="") as text:
        header, *lines = csv.reader(text)
    lines += lines[5:8]  # record ids that come again
    random.Random(3).shuffle(lines)
    with path.open("w", encoding="utf-8", newline="") as text:
        csv.writer(text).writerows([header, *lines])
    expected = without_spark(path)
    monkeypatch.setattr(log_changes, "NEAR", 10)
    assert on_spark(cdcwb.load(path, split_size=2_000)) == expected
    rows = spark.createDataFrame([[value or None for value in line] for line in lines], header).repartition(3)
    found, names = on_spark(cdcwb.load(rows)), ("position", "operation", "before", "after", "changed_columns")
    for table, columns in (("changes", names), ("problems", ("table",))):
        one, other = ([json.loads(row) for row in rows[table]] for rows in (expected, found))
        counts = (Counter(repr([row[name] for name in columns]) for row in rows) for rows in (one, other))
        assert next(counts) == next(counts)


@pytest.mark.parametrize("broadcast", [0, 1 << 30])
@pytest.mark.parametrize("format", ["qlik-kafka", "debezium"])
def test_ends_of_many_transactions_are_joined_as_those_of_few(
    format: str, broadcast: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synth.generate(format, changes=300, seed=11, to=tmp_path)
    expected = without_spark(tmp_path / "capture")["changes"]
    monkeypatch.setattr(exchange, "_ENDS_AT_MOST", 0)
    monkeypatch.setattr(cdcwb.tables, "BROADCAST_AT_MOST", broadcast)
    assert on_spark(cdcwb.load(tmp_path / "capture", split_size=50_000), ["changes"])["changes"] == expected


def test_without_images_changes_are_the_same_but_for_their_values(tmp_path: Path) -> None:
    synth.generate("gbase8s", changes=1_500, seed=7, to=tmp_path, **MADE["gbase8s"])
    disorder(tmp_path / "capture", seed=5)
    capture = cdcwb.load(tmp_path / "capture", split_size=50_000)
    names = ["position", "kind", "operation", "outcome", "commit_position", "committed_at", "source_events"]
    imaged, headers = (
        frame.orderBy("file_index", "offset").select(*names, "before", "after").collect()
        for frame in (capture.changes, capture.change_headers)
    )
    assert [[row[name] for name in names] for row in imaged] == [[row[name] for name in names] for row in headers]
    assert all(row.after is None and row.before is None for row in headers)


def test_changes_of_headers_and_of_single_tables_are_among_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synth.generate("gbase8s", changes=1_500, seed=7, to=tmp_path, **MADE["gbase8s"])
    disorder(tmp_path / "capture", seed=5)
    monkeypatch.setenv("CDCWB_LOCAL_LIMIT", "0")
    capture = cdcwb.load(tmp_path / "capture", split_size=50_000)
    names = [
        "file_index",
        "offset",
        "table_name",
        "operation",
        "position",
        "outcome",
        "commit_position",
        "committed_at",
    ]

    def rows(*columns: str, tables: Sequence[str] = ()) -> list[dict[str, Any]]:
        found = capture.rows("changes", [*names, "source_events", *columns])
        assert found.in_spark
        table = (found.near_tables(tables) if tables else found).table()
        listed: list[dict[str, Any]] = table.sort_by([("file_index", "ascending"), ("offset", "ascending")]).to_pylist()
        return listed

    every = rows("before", "after")
    assert rows() == [{name: row[name] for name in [*names, "source_events"]} for row in every]
    tables = {row["table_name"] for row in every}
    assert len(tables) > 1
    for table in tables:
        assert rows("before", "after", tables=[table]) == [row for row in every if row["table_name"] == table]
