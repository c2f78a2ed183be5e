"""The summary of captures that are counted in rows, and of sources that hand over committed work only."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import cdcwb
import cdcwb_synth as synth
from cdcwb.analysis.summary import summarize
from cdcwb.analysis.summary_text import health, summary_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Messages in Parquet, and among them a file without any row."""
    made = synth.generate(
        "qlik-kafka",
        changes=60,
        seed=3,
        to=tmp_path_factory.mktemp("rows") / "made",
        container="parquet",
        tables=2,
        all_types=False,
        refresh_rows=3,
    )
    first = next((made / "capture").iterdir())
    pq.write_table(pq.read_table(first).slice(0, 0), made / "capture" / "empty-0.parquet")
    return made / "capture"


@pytest.fixture(scope="module")
def facts(spark: SparkSession, topics: Path) -> dict[str, Any]:
    return summarize(cdcwb.load(topics, spark=spark))


def test_files_of_rows_have_a_ledger_of_rows(facts: dict[str, Any], topics: Path) -> None:
    rows = {path.name: pq.read_metadata(path).num_rows for path in topics.iterdir()}
    assert {Path(entry["file"]).name: entry["rows"] for entry in facts["files"]} == rows
    assert {entry["unit"] for entry in facts["files"]} == {facts["unit"]} == {"row"}
    assert facts["rows"] == facts["events"] == sum(rows.values())
    assert {entry["ledger"] for entry in facts["files"]} == {facts["ledger"]} == {"closes"}
    assert rows["empty-0.parquet"] == 0
    lines = summary_lines(facts)
    assert f"rows              {sum(rows.values())}, as many events" in lines
    assert re.match("Healthy: [234] checks passed: every row, .*; all ", lines[0])


def test_committed_only_sources_have_no_open_transactions_and_no_restart_position(facts: dict[str, Any]) -> None:
    assert facts["committed_only"] is True
    assert facts["open_transactions"] == facts["incomplete_transactions"] == 0
    assert facts["restart_position"] is None
    assert not any(line.startswith(("restart", "highest")) for line in summary_lines(facts))
    assert facts["changes"] - sum(facts["changes_by_outcome"].values()) == facts["changes_by_operation"]["REFRESH"] == 6


def test_a_part_of_a_capture_has_no_ledger_of_rows(spark: SparkSession, topics: Path) -> None:
    capture = cdcwb.load(topics, spark=spark)
    part = summarize(capture.filter(tables=["customer"]), unfiltered=False, whole=capture)
    assert part["ledger"] is None
    assert 0 < part["events"] < sum(pq.read_metadata(path).num_rows for path in topics.iterdir())
    assert not any(line.startswith("rows") for line in summary_lines(part))


def test_a_table_is_a_capture_of_rows_without_files(spark: SparkSession, topics: Path, facts: dict[str, Any]) -> None:
    table = summarize(cdcwb.load(spark.read.parquet(str(topics)), name="shop"))
    assert (table["files"], table["unit"], table["ledger"]) == ([], "row", "closes")
    assert table["events"] == facts["events"]
    assert health(table).what.startswith(f"A qlik-kafka capture of {facts['events']} rows with ")


def test_a_lost_message_makes_a_capture_unhealthy_and_names_its_transaction(
    spark: SparkSession, topics: Path, tmp_path: Path
) -> None:
    lost = None
    for path in sorted(topics.iterdir()):
        rows = pq.read_table(path).to_pylist()
        for number, row in enumerate(rows):
            value = row["value"] or b""
            if lost is None and b'"transactionEventCounter":2,"transactionLastEvent":false' in value:
                lost = value
                del rows[number]
                break
        pq.write_table(pq.read_table(path).from_pylist(rows, schema=pq.read_schema(path)), tmp_path / path.name)
    assert lost is not None
    transaction = lost.partition(b'"transactionId":"')[2][:32].decode()
    facts = summarize(cdcwb.load(tmp_path, spark=spark))
    assert facts["transactions_by_completeness"]["gaps"] == facts["incomplete_transactions"] == 1
    assert facts["healthy"] is False
    lines = summary_lines(facts)
    assert lines[0].startswith("Issues found: 1 warning and 1 of ")
    assert lines[0].endswith(" transactions incomplete.")
    assert any(line.startswith(f"      transaction {transaction}: 1 of its events ") for line in lines)
