"""What is read from the tables of a saved capture without Spark is what Spark answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cdcwb
from cdcwb.analysis import concurrency, contents, integrity, masks, transactions
from cdcwb.analysis import transactions as ask
from cdcwb.analysis.frames import Snapshot, stored_rows
from cdcwb.analysis.order import listed
from cdcwb.time_axis import TimeAxis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parents[2] / "data"
QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "overview": ask.overview,
    "timeline": ask.timeline,
    "largest": ask.largest,
    "unfinished": ask.unfinished,
    "undone": ask.undone,
    "changes": ask.changes,
    "histogram": lambda capture: ask.histogram(capture, TimeAxis(*ends(capture))),
    "concurrency": lambda capture: concurrency.over_time(capture, *ends(capture)),
    "in_log": concurrency.in_log,
    "latency": transactions.latency,
    "order": integrity.order,
    "twice": integrity.twice,
    "missing_numbers": integrity.missing_numbers,
    "gaps": lambda capture: [row["sentence"] for row in integrity.gaps(capture, 1000)],
    "problems": integrity.by_code,
    "worst": lambda capture: integrity.worst(capture, 1000),
    "changed": masks.changed,
    "told": masks.change_sources,
    "masks": lambda capture: masks.masks(capture, 1000),
    "mask axis": masks.axis,
    "disagreements": masks.disagreements,
    "table_versions": lambda capture: listed(capture, "table_versions"),
    "done": lambda capture: contents.done(capture, *ends(capture)) if ends(capture)[0] else None,
    "detected": lambda capture: listed(capture, "detected"),
}


def ends(capture: Any) -> Any:
    facts = ask.overview(capture)
    return facts["first_time"], facts["last_time"]


@pytest.mark.parametrize("name", ["gbase8s", "goldengate", "qlik-kafka", "qlik-change-table"])
def test_stored_tables_answer_as_spark_does(spark: SparkSession, tmp_path: Path, name: str) -> None:
    saved = cdcwb.load(cdcwb.load(DATA / name, spark=spark).save(tmp_path / "saved"), spark=spark)
    snapshot = Snapshot(saved, images=True)
    assert stored_rows(snapshot, "changes", ["offset"]) is not None
    assert stored_rows(saved, "changes", ["offset"]) is None
    assert {question: answer(snapshot) for question, answer in QUESTIONS.items()} == {
        question: answer(saved) for question, answer in QUESTIONS.items()
    }
