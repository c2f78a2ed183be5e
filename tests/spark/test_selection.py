"""What the index says of a selection is what Spark says of it, for every format."""

from __future__ import annotations

from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import cdcwb
from cdcwb.filters import NO_TABLE
from cdcwb.index.selected import Selected
from cdcwb.index.selection import Selection
from cdcwb.index.source import IndexedCapture, source_of
from tests.explore_captures import DATA
from tests.saved_capture import open_saved

FORMATS = ("gbase8s", "goldengate", "qlik-kafka", "qlik-change-table", "idm-event-log", "debezium")


@pytest.fixture(scope="module", params=FORMATS)
def source(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: Any) -> IndexedCapture:
    return source_of(open_saved(DATA / request.param, tmp_path_factory.mktemp("saved") / "capture"))


def selections(source: IndexedCapture) -> list[dict[str, Any]]:
    """A selection for every field, from what the capture has, and some of several."""
    changes = source.changes
    assert changes.span is not None
    middle = changes.at[changes.timed]
    middle.sort()
    quarter, half = (str(times.astype("M8[us]")) for times in (middle[len(middle) // 4], middle[len(middle) // 2]))
    table, operations = changes.texts["table"][0], changes.texts["operation"]
    column = changes.names[0]
    ids = changes.transactions.rows["transaction_id"].to_pylist()
    positions = sorted(filter(None, (changes.record_index.columns["position"].value(row) for row in changes.record)))
    users = changes.transactions.texts["user"]
    return [
        {"tables": [table]},
        {"tables": [table.partition(".")[2] or table], "operations": operations[:1]},
        {"operations": operations[1:], "columns": [column]},
        {"outcomes": changes.texts["outcome"][:2] or ["open"]},
        {"users": users[:2]} if users else {"users": ["nobody"]},
        {"transactions": ids[1:4]} if ids else {"transactions": ["none"]},
        {"time_from": quarter},
        {"time_to": half, "without_time": True},
        {"time_from": quarter, "time_to": half, "operations": ["UPDATE"]},
        {"position_from": positions[len(positions) // 3], "position_to": positions[len(positions) // 2]},
        {"text": column[:4].upper()},
        {"text": positions[3][-4:].lower()},
        {"text": "there is no such text"},
    ]


def selected_changes(selection: Selection, changes: DataFrame, transactions: DataFrame) -> DataFrame:
    """The changes that a selection means, said once more in Spark's words."""
    ended = F.coalesce("ended_at", "began_at").alias("_ended")
    users = transactions.select("transaction_id", F.col("user").alias("_user"), ended)
    table = F.coalesce(F.nullif(F.concat_ws(".", "schema_name", "table_name"), F.lit("")), F.lit(NO_TABLE))
    rows = changes.withColumn("_table", table).join(users, "transaction_id", "left")
    rows = rows.withColumn("_at", F.coalesce("changed_at", "committed_at", "_ended"))
    conditions = [_condition(name, value, selection) for name, value in selection.chosen(["without_time"]).items()]
    fits: Column = reduce(and_, conditions, F.lit(True))
    return rows.where(fits).select(*changes.columns)


def _condition(name: str, value: Any, selection: Selection) -> Column:
    if name == "tables":
        bare = F.regexp_replace("_table", r"^[^.]*\.", "")
        return F.col("_table").isin(*value) | bare.isin(*value)
    if name == "columns":
        condition = F.arrays_overlap("changed_columns", F.array(*map(F.lit, value)))
        return F.coalesce(condition, F.lit(False))
    if name in ("time_from", "time_to"):
        fits = F.col("_at") >= F.lit(value) if name == "time_from" else F.col("_at") < F.lit(value)
        return F.coalesce(fits, F.lit(selection.without_time))
    if name == "position_from":
        return F.coalesce(F.col("position") >= value, F.lit(False))
    if name == "position_to":
        return F.coalesce(F.col("position") <= value, F.lit(False))
    if name == "text":
        named = F.array_union(
            F.array("_table", "transaction_id", "_user", "position"), F.coalesce("changed_columns", F.array())
        )
        condition = F.exists(named, lambda n: F.coalesce(F.contains(F.lower(n), F.lit(value.lower())), F.lit(False)))
        return F.coalesce(condition, F.lit(False))
    column = {"operations": "operation", "outcomes": "outcome", "users": "_user", "transactions": "transaction_id"}
    return F.coalesce(F.col(column[name]).isin(*value), F.lit(False))


def places(source: IndexedCapture, selection: Selection) -> list[tuple[int, int]]:
    rows = source.changes.record[Selected(source.changes, selection).mask()]
    return [(source.index.number("file_index", row), source.index.number("offset", row)) for row in rows]


@pytest.mark.oldest
def test_the_index_selects_the_changes_that_spark_selects(source: IndexedCapture) -> None:
    capture = source.capture
    changes, transactions = capture.changes.cache(), capture.transactions.cache()
    found = 0
    for fields in selections(source):
        selection = Selection(**fields)
        expected = selected_changes(selection, changes, transactions).select("file_index", "offset")
        rows = sorted((row.file_index, row.offset) for row in expected.collect())
        assert places(source, selection) == rows, fields
        found += len(rows)
    assert found > len(source.changes)
    changes.unpersist()
    transactions.unpersist()


def test_transactions_and_problems_follow_the_selected_changes(source: IndexedCapture) -> None:
    capture = source.capture
    for fields in selections(source)[:9]:
        if "time_from" in fields or "time_to" in fields:  # tests/answers: those that were open then
            continue
        selection = Selection(**fields)
        selected = Selected(source.changes, selection)
        chosen = selected_changes(selection, capture.changes, capture.transactions)
        ids = {row.transaction_id for row in chosen.select("transaction_id").distinct().collect()} - {None}
        own = {"outcomes": "outcome", "users": "user", "transactions": "transaction_id"}
        if fields.keys() <= own.keys():  # also those without changes
            fit = [F.col(own[name]).isin(*values) for name, values in fields.items()]
            ids |= {row.transaction_id for row in capture.transactions.where(reduce(and_, fit)).collect()}
        numbers = selected.transactions()
        rows = source.changes.transactions.records(numbers)
        assert {row["transaction_id"] for row in rows} == ids
        of_records = F.broadcast(
            chosen.select(F.col("file").alias("_file"), F.col("offset").alias("_offset")).distinct()
        )
        here = (F.col("file") == F.col("_file")) & (F.col("offset") == F.col("_offset"))
        bare = F.regexp_replace("table", r"^[^.]*\.", "")
        tables = fields.get("tables", ())
        named = F.coalesce(F.col("table").isin(*tables) | bare.isin(*tables), F.lit(False)) if tables else F.lit(True)
        of_ids = F.coalesce(F.col("transaction_id").isin(*ids), F.lit(False)) if ids else F.lit(False)
        fits = F.col("_file").isNotNull() | (of_ids & (named | F.col("table").isNull()))
        if fields.keys() == {"tables"}:
            fits |= named
        problems = capture.problems.join(of_records, here, "left").where(fits)
        expected = sorted((row.code, row.sentence) for row in problems.collect())
        assert sorted((one["code"], one["sentence"]) for one in selected.problems()) == expected, fields


def test_everything_is_selected_without_a_field(source: IndexedCapture) -> None:
    selected = Selected(source.changes, Selection())
    assert selected.mask().all()
    assert len(selected.transactions()) == len(source.changes.transactions)
    assert len(selected.problems()) == source.index.problems


def test_an_index_of_files_is_kept_for_the_next_session(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDCWB_CACHE", str(tmp_path / "cache"))
    source = source_of(cdcwb.load(DATA / "goldengate"))
    assert len(source.changes) == 150
    again = source_of(cdcwb.load(DATA / "goldengate"))
    monkeypatch.setattr("cdcwb.index.source.build_changes", lambda *given: pytest.fail("it is made again"))
    assert len(again.changes) == 150
    assert (tmp_path / "cache" / "index").stat().st_mode & 0o777 == 0o700


def test_a_part_of_a_capture_has_an_index_of_that_part(spark: SparkSession) -> None:
    part = cdcwb.load(DATA / "goldengate").filter(tables=["orders"])
    source = source_of(part)
    assert source.changes.texts["table"] == ["shop.orders"]
    assert len(source.changes) == part.changes.count()
