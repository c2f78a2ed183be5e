"""The file that names the tables of a gbase8s capture is used by every door that Spark is behind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import cdcwb
from cdcwb.cli import main
from cdcwb.explore.model import Explorer

DATA = Path(__file__).parents[2] / "data"
TABLES = {f"shop.{name}" for name in ("customer", "orders", "order_line", "stock_move", "reading", "everything")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("labels") / "stream"
    shutil.copytree(DATA / "gbase8s", made)
    shutil.copy(DATA / "gbase8s.labels.json", made.with_name("stream.labels.json"))
    return made


def tables(capture: cdcwb.Capture) -> set[str]:
    rows = capture.changes.select("schema_name", "table_name").distinct().collect()
    return {".".join(filter(None, row)) for row in rows}


def detected(capture: cdcwb.Capture) -> list[tuple[str, bool]]:
    rows = capture.detected.filter("setting = 'labels'").collect()
    return [(row.value, row.overridden) for row in rows]


def test_a_capture_and_the_data_source_have_the_names(spark: SparkSession, folder: Path) -> None:
    capture = cdcwb.load(folder)
    assert tables(capture) == TABLES
    assert detected(capture) == [(f"{folder}.labels.json", False)]
    source = spark.read.format("cdcwb-gbase8s")
    rows = source.load(str(folder)).select("schema_name", "table_name").distinct().collect()
    assert {f"{row.schema_name}.{row.table_name}" for row in rows if row.table_name} == TABLES
    rows = source.option("labels", "none").load(str(folder)).select("table_name").distinct().collect()
    assert {row.table_name for row in rows if row.table_name} == {str(number) for number in range(101, 107)}


def test_a_saved_capture_that_goes_on_keeps_the_names(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    first, second, third = sorted(folder.iterdir())
    cdcwb.load([first, second]).save(tmp_path / "saved")
    assert tables(cdcwb.load(tmp_path / "saved")) == TABLES
    continued = cdcwb.load([tmp_path / "saved", third])
    assert (tables(continued), detected(continued)) == (TABLES, [(f"{folder}.labels.json", False)])
    folder.with_name("stream.labels.json").rename(folder.with_name("away"))
    try:
        assert {name for name in tables(cdcwb.load([tmp_path / "saved", third])) if "." in name} == set()
    finally:
        folder.with_name("away").rename(folder.with_name("stream.labels.json"))


def test_the_explorer_has_the_names_and_sees_that_they_changed(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    names = folder.with_name("stream.labels.json")
    explorer = Explorer.open(folder, folder=tmp_path)
    explorer.apply('table == "shop.orders"')
    assert explorer.shown > 50
    text = names.read_text()
    names.write_text(json.dumps({"102": "shop.purchases"}))
    try:
        again = Explorer.open(folder, folder=tmp_path)
        again.apply('table == "shop.purchases"')
        assert again.shown == explorer.shown
    finally:
        names.write_text(text)


@pytest.mark.usefixtures("spark")
def test_the_command_line_names_the_tables_and_says_where_the_names_are_from(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["summary", str(folder), "--table", "shop.orders"]) == 0
    assert f"labels = {folder}.labels.json  (the labels file of the capture" in capsys.readouterr().out
    assert main(["summary", str(folder), "-o", "labels=none", "--table", "102"]) == 0
    assert "labels = none  (given as an option)" in capsys.readouterr().out
