"""Captures of Qlik as Spark tables: row for row what the generator says is true, in every wire form and container."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cdcwb
import cdcwb_synth as synth
from tests.spark.tables import assert_same_rows, assert_truth, conforms, truth_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark")

# What happens in each, in words; then the generator's options and the reader's.
MESSAGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "JSON with the envelope in lines, metadata among the data, a file a partition": ({}, {"split_size": 200_000}),
    "JSON without an envelope or metadata, as a console consumer prints it, tombstones": (
        {"form": "json", "container": "console", "tombstone_share": 0.3, "lobs": False},
        {},
    ),
    "JSON, metadata late, one stream of partitions out of order, kcat -J": (
        {"metadata": "late", "layout": "stream", "container": "kcat"},
        {},
    ),
    "JSON of 2018 as documents, gzip; columns that were not captured": (
        {"generation": "2018", "container": "documents", "compression": "gzip", "column_mask": 0.4},
        {},
    ),
    "JSON with external schema ids and no metadata": (
        {"generation": "external", "metadata": "none", "lobs": False},
        {},
    ),
    "Avro with the envelope, little-endian masks": (
        {"form": "avro-envelope", "container": "kcat", "mask_order": "little", "column_mask": 0.2},
        {},
    ),
    "Avro with the envelope in a Parquet of Kafka's columns, texts instead of logical types": (
        {"form": "avro-envelope", "container": "parquet", "logical": False},
        {},
    ),
    "Avro with the envelope in Avro containers, deleted rows in beforeData": (
        {"form": "avro-envelope", "container": "avro", "delete_row": "beforeData"},
        {},
    ),
    "Confluent framing with a registry, hyphenated namespaces": (
        {"form": "confluent", "container": "kcat", "compression": "zstd", "lobs": False},
        {"registry": "registry"},
    ),
    "lost and repeated messages": ({"lost_share": 0.05, "duplicate_share": 0.05, "layout": "stream"}, {}),
}

TABLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "CSV with .dfm files, masks as numbers in hexadecimal text": ({}, {"split_size": 60_000}),
    "Parquet with binary masks": ({"container": "parquet"}, {}),
    "JSON rows": ({"container": "json"}, {}),
}


def _generate(form: str, to: Path, options: dict[str, Any]) -> int:
    options = dict(options)
    changes = int(options.pop("changes", 1200))
    synth.generate(form, changes=changes, seed=31, to=to, **options)
    return changes


def _reader(options: dict[str, Any], folder: Path) -> dict[str, Any]:
    return {name: str(folder / value) if name == "registry" else value for name, value in options.items()}


@pytest.mark.parametrize("workload", MESSAGES)
def test_messages_equal_the_truth(tmp_path: Path, workload: str) -> None:
    made, read = MESSAGES[workload]
    _generate("qlik-kafka", tmp_path, made)
    changes, problems = assert_truth(tmp_path, "qlik-kafka", **_reader(read, tmp_path))
    assert changes > 0
    assert problems <= ({"no_schema"} if made.get("metadata") == "separate" else set()) or "lost" in workload


@pytest.mark.parametrize("workload", TABLES)
def test_change_tables_equal_the_truth(tmp_path: Path, workload: str) -> None:
    made, read = TABLES[workload]
    _generate("qlik-change-table", tmp_path, made)
    unknown = ["schema_text", "lineage"]  # side files and DDL say more than the truth knows
    changes, problems = assert_truth(tmp_path, "qlik-change-table", unknown, **read)
    assert changes > 0
    assert problems == set()


@pytest.mark.oldest
def test_metadata_from_beside_resolves_messages(tmp_path: Path) -> None:
    _generate("qlik-kafka", tmp_path, {"form": "avro-envelope", "container": "kcat", "metadata": "separate"})
    alone = cdcwb.load(tmp_path / "capture", format="qlik-kafka")
    waiting = alone.events.filter("exists(problems, p -> p.code = 'no_schema')")
    assert waiting.count() == alone.events.count()
    assert waiting.filter("raw is null").count() == 0
    both = cdcwb.load(tmp_path / "capture", metadata=str(tmp_path / "metadata"))
    assert_same_rows(both.changes.drop("problems"), tmp_path, "changes")
    assert both.events.filter("problems is not null").count() == 0


@pytest.mark.oldest
def test_a_dataframe_with_kafkas_columns_is_a_capture(spark: SparkSession, tmp_path: Path) -> None:
    _generate("qlik-kafka", tmp_path, {"form": "avro-envelope", "container": "parquet"})
    frame = spark.read.parquet(str(tmp_path / "capture"))
    rows, files = cdcwb.load(frame, name="orders"), cdcwb.load(tmp_path / "capture")
    for table in ("events", "changes", "transactions", "table_versions", "problems", "detected"):
        assert conforms(getattr(rows, table), table)
    assert rows.format == "qlik-kafka"
    assert rows.events.select("offset_unit").distinct().collect() == [("message",)]
    some = ["offset", "before", "changed_columns"]
    assert rows.select_events(*some).collect() == rows.events.select(*some).collect()
    same = ["operation", "position", "transaction_id", "schema_name", "table_name", "changed_columns", "outcome"]
    same += ["table_version", "event_no", "change_source", "committed_at"]
    texts = [sorted(map(str, one.changes.select(*same, "before", "after").collect())) for one in (rows, files)]
    assert texts[0] == texts[1]
    assert sorted(map(str, rows.transactions.drop("bytes").collect())) == sorted(
        map(str, files.transactions.drop("bytes").collect())
    )


@pytest.mark.full
@pytest.mark.parametrize("form", ["json-envelope", "json", "avro-envelope", "confluent"])
def test_two_hundred_thousand_messages_with_drift_equal_the_truth(tmp_path: Path, form: str) -> None:
    binary = form in ("avro-envelope", "confluent")
    options: dict[str, Any] = {
        "changes": 200_000, "form": form, "container": "kcat" if binary else "lines", "tables": 5,
        "all_types": False, "schema_changes": 9, "layout": "stream", "partitions": 6, "shuffle": 2000,
    }  # fmt: skip
    if form in ("json-envelope", "avro-envelope"):
        options["metadata"] = "late"
    _generate("qlik-kafka", tmp_path, options)
    changes, _ = assert_truth(tmp_path, **_reader({"registry": "registry"} if form == "confluent" else {}, tmp_path))
    assert changes > 150_000
    assert truth_table(tmp_path, "table_versions").num_rows >= 12
