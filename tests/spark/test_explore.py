"""The explorer on captures that Spark reads: the index of files and of rows, and rows that are followed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import cdcwb
from cdcwb import local_tables
from cdcwb.errors import OptionError
from cdcwb.explore.model import Explorer
from cdcwb.index.source import source_of
from tests.explore_captures import DATA

LABELS = str(DATA / "gbase8s.labels.json")
SPEC = {"labels": LABELS, "keys": "customer:customer_id"}


def shown(explorer: Explorer) -> list[int]:
    return [explorer.row_at(place) for place in range(explorer.shown)]


def test_files_are_indexed_once_and_then_opened_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    explorer = Explorer.open(DATA / "gbase8s", folder=tmp_path, **SPEC)
    headers = cdcwb.load(DATA / "gbase8s", **SPEC).headers.orderBy("file_index", "offset").toArrow().to_pylist()
    assert explorer.index.records == len(headers)
    places = [(explorer.index.number("file_index", row), explorer.index.number("offset", row)) for row in range(1452)]
    assert places == [(one["file_index"], one["offset"]) for one in headers]
    again = Explorer.open(DATA / "gbase8s", folder=tmp_path, **SPEC)
    assert again.page(20, 5) == explorer.page(20, 5)
    assert "capture" not in vars(again.source)
    again.apply('table == "customer"')
    assert again.index.columns["table"].value(again.chosen) == "shop.customer"


def test_all_problems_of_the_capture_are_in_the_index(spark: SparkSession, tmp_path: Path) -> None:
    explorer = Explorer.open(DATA / "gbase8s", folder=tmp_path, **SPEC)
    problems = cdcwb.load(DATA / "gbase8s", **SPEC).problems.collect()
    assert explorer.index.problems == len(problems)
    told = {
        (one["code"], one["sentence"]) for row in explorer.index.problem_rows for one in explorer.index.problems_of(row)
    }
    assert told == {(one["code"], one["sentence"]) for one in problems if one["offset"] is not None}


@pytest.mark.parametrize("saved", [False, True])
def test_a_row_is_followed_through_all_its_changes(saved: bool, spark: SparkSession, tmp_path: Path) -> None:
    capture = cdcwb.load(DATA / "qlik-kafka")
    path = capture.save(tmp_path / "saved") if saved else DATA / "qlik-kafka"
    explorer = Explorer.open(path, folder=None if saved else tmp_path)
    explorer.apply('table == "shop.customer" and operation == "UPDATE"')
    key = (explorer.record().event["key"] or {})["customer_id"]
    explorer.follow_row()
    assert explorer.filter == f'table == "shop.customer" and row == "customer_id={key}"'
    changes = capture.filter(tables=["shop.customer"]).changes.toArrow().to_pylist()
    expected = {
        (place["file_index"], place["offset"])
        for one in changes
        if dict(one["key"] or []).get("customer_id") == key
        for place in one["source_events"]
    }
    found = {
        (explorer.index.number("file_index", row), explorer.index.number("offset", row)) for row in shown(explorer)
    }
    assert found == expected
    again = Explorer.open(path, folder=None if saved else tmp_path)
    again.apply(explorer.filter)
    assert "capture" not in vars(again.source)
    assert shown(again) == shown(explorer)


def test_a_row_is_followed_by_the_key_that_an_option_names(spark: SparkSession, tmp_path: Path) -> None:
    explorer = Explorer.open(DATA / "gbase8s", folder=tmp_path, labels=LABELS, keys="shop.orders:order_id")
    explorer.apply('table == "orders" and kind == "after"')
    change = explorer.change(explorer.record())
    assert change is not None
    keys = {(image or {})["order_id"] for image in (change["before"], change["after"])}
    explorer.follow_row()
    assert explorer.shown > 2
    for row in shown(explorer):
        record = explorer.records.read(row)
        one = explorer.change(record)
        assert one is not None
        assert keys & {image["order_id"] for image in (one["before"], one["after"]) if image is not None}
    kinds = {explorer.columns["kind"].value(row) for row in shown(explorer)}
    assert {"before", "after"} <= kinds


def test_without_a_key_a_row_is_followed_by_an_inferred_one_and_the_list_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    explorer = Explorer.open(DATA / "gbase8s", folder=tmp_path, labels=LABELS)
    explorer.apply('table == "shop.orders" and operation == "INSERT"')
    change = explorer.change(explorer.record())
    assert change is not None
    number = (change["after"] or {})["order_id"]
    explorer.follow_row()
    assert f'row == "order_id={number}"' in explorer.filter
    capture = cdcwb.load(DATA / "gbase8s", labels=LABELS, keys="shop.orders:order_id")
    changes = capture.filter(tables=["shop.orders"]).changes.toArrow().to_pylist()
    expected = {
        (place["file_index"], place["offset"])
        for one in changes
        if number in {dict(one[image] or ()).get("order_id") for image in ("before", "after")}
        for place in one["source_events"]
    }
    index = explorer.index
    assert {(index.number("file_index", row), index.number("offset", row)) for row in shown(explorer)} == expected
    rows = capture.changes.filter("table_name = 'orders' AND operation = 'INSERT' AND outcome = 'committed'").count()
    sentence = f"The key of shop.orders is inferred, as no change has one: order_id is unique in {rows} inserted rows."
    assert explorer.note == sentence
    line = explorer.filter
    explorer.apply('table == "shop.orders"')
    assert explorer.note == ""
    again = Explorer.open(DATA / "gbase8s", folder=tmp_path, labels=LABELS)
    again.apply(line)
    assert (again.note, shown(again)) == (sentence, shown_of(explorer, line))


def shown_of(explorer: Explorer, line: str) -> list[int]:
    explorer.apply(line)
    return shown(explorer)


def test_without_a_key_the_option_that_names_it_is_said(spark: SparkSession, tmp_path: Path) -> None:
    explorer = Explorer.open(DATA / "gbase8s", folder=tmp_path, labels=LABELS)
    explorer.apply('table == "shop.everything" and kind == "after"')  # too few inserted rows
    with pytest.raises(OptionError, match=r"none can be inferred; the option keys=shop\.\w+:column\+column names"):
        explorer.follow_row()


def test_a_dataframe_is_explored_by_what_its_events_hold(spark: SparkSession, tmp_path: Path) -> None:
    file = next((DATA / "qlik-change-table" / "shop.customer__ct").glob("*.csv"))
    frame = spark.read.option("header", "true").csv(str(file))
    explorer = Explorer.open(frame, "qlik-change-table", name="shop.customer__ct")
    explorer.apply('operation == "UPDATE"')
    detail = explorer.detail()
    assert detail["unit"] == "row"
    assert {node["name"] for node in detail["tree"]["children"]} >= {"kind", "operation", "headers"}
    assert json.loads(explorer.copy("json"))["operation"] == "UPDATE"


def test_a_saved_capture_keeps_its_notes_and_stays_a_capture(spark: SparkSession, tmp_path: Path) -> None:
    folder = cdcwb.load(DATA / "goldengate").save(tmp_path / "saved")
    explorer = Explorer.open(folder)
    explorer.mark("seen")
    assert {path.name for path in folder.iterdir()} >= {"events", "marks.json"}
    assert cdcwb.load(folder).events.count() == explorer.index.records
    assert Explorer.open(folder).bookmarks.rows()[0]["note"] == "seen"
    assert pq.ParquetDataset(folder / "problems").read().num_rows == explorer.index.problems


@pytest.mark.parametrize("name", ["gbase8s", "qlik-kafka", "idm-event-log"])
def test_outcomes_and_users_of_records_are_those_of_changes_and_transactions(
    spark: SparkSession, name: str, tmp_path: Path
) -> None:
    capture = cdcwb.load(DATA / name)
    explorer = Explorer.open(capture.save(tmp_path / "saved"))
    places, columns = explorer.index, explorer.columns
    users = {row.transaction_id: row.user for row in capture.transactions.collect()}
    for change in capture.changes.select("file_index", "offset", "outcome", "transaction_id").collect():
        (row,) = places.exactly(np.array([change.file_index]), np.array([change.offset]))
        assert columns["outcome"].value(int(row)) == change.outcome
        assert columns["user"].value(int(row)) == users.get(change.transaction_id)
    outcomes = {row.transaction_id: row.outcome for row in capture.transactions.collect()}
    for row in range(places.records):
        if columns["kind"].value(row) in ("begin", "commit", "rollback"):
            assert columns["outcome"].value(row) == outcomes[columns["transaction"].value(row)]


@pytest.mark.parametrize(
    ("name", "line", "condition"),
    [
        ("gbase8s", 'before.state == "PAID"', "before.state = 'PAID'"),
        ("goldengate", "after.total > 100", "CAST(after.total AS decimal(12, 2)) > 100"),
        ("qlik-kafka", "after.rating >= 3000", "CAST(after.rating AS int) >= 3000"),
        ("qlik-change-table", 'before.city == "Hollin"', "before.city = 'Hollin'"),
        ("idm-event-log", 'after.is_member == "true"', "after.is_member = 'true'"),
    ],
)
def test_a_search_in_values_finds_the_records_of_the_changes_that_spark_finds(
    spark: SparkSession, name: str, line: str, condition: str
) -> None:
    capture = cdcwb.load(DATA / name)
    explorer = Explorer(source_of(capture))
    explorer.apply(line)
    explorer.advance()
    assert explorer.search is not None
    assert explorer.search.complete, explorer.search.wrong
    fits = capture.changes.where(condition).collect()
    expected = [{(place.file_index, place.offset) for place in one.source_events} for one in fits]
    numbers = explorer.index.number
    found = {(numbers("file_index", row), numbers("offset", row)) for row in shown(explorer)}
    assert found == set().union(*expected)
    assert found


def test_a_large_capture_is_searched_and_its_rows_are_followed_by_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explorer = Explorer(source_of(cdcwb.load(DATA / "gbase8s", labels=LABELS)))
    lines = ('before.state == "PAID"', 'kind == "commit" or after.total > 100')
    expected = []
    for line in lines:
        explorer.apply(line)
        explorer.advance()
        expected.append(shown(explorer))
    explorer.apply('table == "shop.orders" and operation == "INSERT"')
    explorer.follow_row()
    expected.append(shown(explorer))
    monkeypatch.setattr(local_tables, "AT_MOST", 0)
    again = Explorer.open(DATA / "gbase8s", folder=tmp_path, labels=LABELS, split_size="20000")
    for line, rows in zip((*lines, explorer.filter), expected, strict=True):
        if "row ==" in line:
            again.apply('table == "shop.orders" and operation == "INSERT"')
            again.follow_row()
            assert (again.filter, again.note) == (explorer.filter, explorer.note)
        else:
            again.apply(line)
            again.advance()
        assert shown(again) == rows != []
