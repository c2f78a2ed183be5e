"""Debezium captures through Spark: changes, transactions and versions equal the truth of what was generated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cdcwb
import cdcwb_synth as synth
from tests.spark.tables import assert_truth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parents[2] / "data"

MADE: dict[str, dict[str, Any]] = {
    "JSON with its schema, as a console consumer prints it": {},
    "JSON without, of MySQL, as kcat prints it": {"connector": "mysql", "form": "json", "container": "kcat"},
    "Avro of Oracle in Parquet, without transactions": {
        "connector": "oracle", "form": "avro", "container": "parquet", "transactions": False,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_messages_equal_the_truth(tmp_path: Path, name: str) -> None:
    synth.generate("debezium", changes=500, seed=31, to=tmp_path, **MADE[name])
    options = {"registry": str(tmp_path / "registry")} if "Avro" in name else {}
    unknown = ["schema_text", "lineage"]  # messages say more than the truth knows
    changes, problems = assert_truth(tmp_path, "debezium", unknown, split_size=60_000, **options)
    assert changes > 400
    assert problems == set()


@pytest.mark.oldest
def test_rows_of_a_topic_are_a_capture(tmp_path: Path) -> None:
    made = {"form": "avro", "container": "parquet", "all_types": False}
    synth.generate("debezium", changes=200, seed=3, to=tmp_path, **made)
    registry = str(tmp_path / "registry")
    files = cdcwb.load(tmp_path / "capture", format="debezium", registry=registry)
    rows = files.spark.read.parquet(str(tmp_path / "capture"))
    capture = cdcwb.load(rows, format="debezium", registry=registry)
    names = [
        "operation",
        "position",
        "transaction_id",
        "table_name",
        "table_version",
        "after",
        "before",
        "key",
        "outcome",
    ]
    found, expected = (sorted(map(str, one.changes.select(names).toArrow().to_pylist())) for one in (capture, files))
    assert found == expected
    assert len(found) > 200
    table = capture.table("shop.orders", images="after").toArrow()
    assert str(table.schema.field("after").type.field("placed_at").type) == "timestamp[us]"
    assert table.num_rows > 0


def test_the_small_capture_has_what_its_readme_says() -> None:
    expected = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))["debezium"]
    capture = cdcwb.load(DATA / "debezium")
    assert capture.format == "debezium"
    assert capture.changes.count() == expected["changes"]
    counted = {row.completeness: row["count"] for row in capture.transactions.groupBy("completeness").count().collect()}
    assert counted == expected["transactions_by_completeness"]
    assert capture.table_versions.count() == expected["table_versions"]
    codes = {row.code for row in capture.problems.select("code").distinct().collect()}
    assert codes == {"truncated", "gap", "open_transaction"}


def test_lists_of_column_names_survive_whatever_the_names_are(tmp_path: Path) -> None:
    names = [["a", "b"], ["a\x1fb"], ["a\x1fb", "c"], [""], ["", "x"], ["é\x00", "\n", "😀"], []]
    source = {"db": "shop", "connector": "postgresql", "ts_ms": 1, "table": "t", "schema": "s"}
    lines = []
    for some in names:
        after = dict.fromkeys(some, 1) | {"blob": "__debezium_unavailable_value"}  # not captured
        lines.append(json.dumps({"op": "u", "before": dict.fromkeys(after, 2), "after": after, "source": source}))
    path = tmp_path / "messages.json"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    capture = cdcwb.load(path, format="debezium")
    rows = capture.events.orderBy("offset").collect()
    assert [row.present_columns for row in rows] == names
    shown = [some or None for some in names]  # images without columns show nothing
    assert [row.changed_columns for row in capture.changes.orderBy("offset").collect()] == shown


@pytest.mark.parametrize("name", ["debezium", "maxwell", "canal", "goldengate"])
def test_a_dataframe_is_a_capture_of_the_format_of_its_messages(tmp_path: Path, spark: SparkSession, name: str) -> None:
    if name == "goldengate":
        synth.generate("goldengate", changes=100, seed=3, to=tmp_path, form="json")
        path = tmp_path / "capture"
    else:
        path = DATA / name
    files = cdcwb.load(path)
    lines = [line for one in sorted(path.iterdir()) for line in one.read_bytes().splitlines()]
    parts = [line.rpartition(b"\t") for line in lines]
    rows = [(key or None, bytearray(value), "shop.public", 0, number) for number, (key, _, value) in enumerate(parts)]
    kafka = "key binary, value binary, topic string, partition int, offset long"
    capture = cdcwb.load(spark.createDataFrame(rows, kafka))
    assert capture.format == files.format == ("goldengate-export" if name == "goldengate" else name)
    names = ["operation", "position", "table_name", "changed_columns", "before", "after", "transaction_id", "outcome"]
    found, expected = (sorted(map(str, one.changes.select(names).toArrow().to_pylist())) for one in (capture, files))
    assert found == expected
    assert found
