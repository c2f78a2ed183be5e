"""Generated Debezium captures: the same bytes each time, and a truth that the reader agrees with, row for row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdcwb.formats import get_format, identify
from cdcwb.formats.dissector import EVERYTHING, TableRequest
from cdcwb.model import Kind
from cdcwb_synth import SynthError, generate
from tests.local import plan_of, read

MADE: dict[str, dict[str, Any]] = {
    "JSON with its schema": {},
    "JSON without": {"form": "json", "container": "lines", "compression": "gzip"},
    "Avro in Parquet": {"form": "avro", "container": "parquet"},
    "Avro as kcat prints it": {"form": "avro", "container": "kcat", "connector": "sqlserver"},
    "MySQL with schema changes": {"connector": "mysql", "schema_changes": 5},
    "Oracle without transactions": {"connector": "oracle", "transactions": False},
}
BY_ASSEMBLY = (
    "commit_position",
    "changed_columns",
    "source_events",
    "outcome",
    "committed_at",
    "change_source",
    "file",
)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    options: dict[str, Any] = {"form": "avro", "container": "kcat", "connector": "mysql"}
    first, second, other = (
        content(generate("debezium", changes=200, seed=seed, to=tmp_path / name, **options))
        for seed, name in ((7, "a"), (7, "b"), (8, "c"))
    )
    assert first == second
    assert first["truth/changes.parquet"] != other["truth/changes.parquet"]


@pytest.mark.parametrize("name", MADE)
def test_events_equal_the_truth_row_for_row(tmp_path: Path, name: str) -> None:
    generate("debezium", changes=400, seed=5, to=tmp_path, **MADE[name])
    options: dict[str, Any] = {"registry": str(tmp_path / "registry")} if "Avro" in name else {}
    found = {row["offset"]: row for row in read(tmp_path / "capture", format="debezium", **options).to_pylist()}
    truth = pq.read_table(tmp_path / "truth" / "changes.parquet").to_pylist()
    assert sum(row["kind"] == Kind.CHANGE for row in found.values()) == len(truth) > 300
    for row in truth:
        event = found[row["offset"]]
        compared = [column for column in row if column not in BY_ASSEMBLY and column in event]
        assert {column: event[column] for column in compared} == {column: row[column] for column in compared}
    assert {row["kind"] for row in found.values()} >= {"change", "tombstone", "heartbeat"}
    versions = get_format("debezium").table_versions(plan_of(tmp_path / "capture", "debezium", **options)).to_pylist()
    expected = pq.read_table(tmp_path / "truth" / "table_versions.parquet").to_pylist()
    beside = dict.fromkeys(("first_position", "schema_text", "lineage"))
    assert [row | beside for row in versions] == [row | beside for row in expected]


def test_avro_is_recognised_by_its_schemas_and_without_them_by_its_source(tmp_path: Path) -> None:
    generate("debezium", changes=60, seed=2, to=tmp_path, form="avro", container="parquet")
    assert identify(tmp_path / "capture", registry=str(tmp_path / "registry")).format == "debezium"
    assert identify(tmp_path / "capture").format == "debezium"


def test_without_its_registry_avro_is_kept_and_says_what_is_missing(tmp_path: Path) -> None:
    generate("debezium", changes=60, seed=2, to=tmp_path, form="avro", container="parquet")
    rows = read(tmp_path / "capture", format="debezium").to_pylist()
    assert {row["kind"] for row in rows} == {"malformed", "tombstone"}
    assert {problem["code"] for row in rows for problem in row["problems"] or ()} == {"no_registry"}


def test_binary_messages_need_a_container_for_them(tmp_path: Path) -> None:
    with pytest.raises(SynthError, match="form avro is binary"):
        generate("debezium", changes=1, seed=1, to=tmp_path, form="avro")


def test_rows_with_kafkas_columns_are_events_with_topic_and_offset(tmp_path: Path) -> None:
    generate("debezium", changes=120, seed=4, to=tmp_path, form="avro", container="parquet", all_types=False)
    form: Any = get_format("debezium")
    registry = str(tmp_path / "registry")
    rows = pq.read_table(tmp_path / "capture" / "messages.parquet")
    rows = rows.append_column("_row", pa.array(range(len(rows)), pa.int64()))
    batches = rows.to_batches(max_chunksize=50)
    plan = form.plan_rows("rows", rows.schema, lambda work: [work(iter(batches))], {"registry": registry})
    plan = form.plan_from_text(plan.to_text())
    found = pa.Table.from_batches(form.read_rows(plan, iter(batches), EVERYTHING)).to_pylist()
    files = read(tmp_path / "capture", format="debezium", registry=registry).to_pylist()
    names = ("kind", "operation", "position", "table_version", "key", "before", "after", "headers")
    assert [[row[name] for name in names] for row in found] == [[row[name] for name in names] for row in files]
    assert {row["file"] for row in found} >= {"shop.transaction-0", "shop.shop.orders-0"}
    assert {row["offset_unit"] for row in found} == {"message"}
    request = TableRequest("shop.orders")
    (table,) = [pa.Table.from_batches(form.read_table_rows(plan, iter(batches), request))]
    assert table.num_rows == sum(row["table_name"] == "orders" for row in found)
