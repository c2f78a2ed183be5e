"""Captures generated in parts, in parallel, are one valid capture with one truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cdcwb_synth as synth
from cdcwb import model
from cdcwb.opening import open_small
from tests.unit.test_synth_generate import content

MADE: dict[str, tuple[str, dict[str, Any]]] = {
    "gbase8s": ("gbase8s", {"files": 6, "cut_records": True, "missing_begins": 2, "errors": 3}),
    "gbase8s as hex text": ("gbase8s", {"shape": "hex"}),
    "qlik-kafka": ("qlik-kafka", {}),
    "qlik-kafka as one stream": ("qlik-kafka", {"form": "json", "layout": "stream", "container": "kcat"}),
    "qlik-kafka in a registry": ("qlik-kafka", {"form": "confluent", "container": "parquet"}),
    "qlik-change-table": ("qlik-change-table", {"file_rows": 50, "schema_changes": 1}),
    "goldengate": ("goldengate", {"trail_files": 5, "restarts": 2, "abends": 1}),
    "goldengate as JSON": ("goldengate", {"form": "json"}),
    "idm-event-log": ("idm-event-log", {}),
    "debezium": ("debezium", {}),
    "debezium of MySQL": ("debezium", {"connector": "mysql", "form": "json", "container": "kcat"}),
    "sqlserver-ct": ("sqlserver-ct", {"schema_changes": 1}),
    "maxwell": ("maxwell", {"refresh_rows": 2}),
    "canal": ("canal", {"schema_changes": 1}),
    "debezium in a registry": ("debezium", {"form": "avro", "container": "parquet"}),
}
_KEYS = {
    "changes": ("file_index", "offset", "record_type"),
    "transactions": ("transaction_id",),
    "table_versions": ("table_version",),
}
_LEFT_OUT = {"changes": ("file", "problems"), "transactions": (), "table_versions": ("lineage", "schema_text")}


def one_after_another(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    return [function(task) for task in tasks]


def last_first(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """Tasks in the opposite order, each twice, as Spark repeats those of a lost executor."""
    for task in tasks:
        if isinstance(task, int):
            function(task)
    return [function(task) for task in reversed(tasks)][::-1]


def made(to: Path, name: str, run: Any = one_after_another, part_changes: int = 300, **more: Any) -> Path:
    format, options = MADE[name]
    return synth.generate(format, changes=1000, seed=7, to=to, run=run, part_changes=part_changes, **options, **more)


def rows(table: pa.Table, name: str) -> list[dict[str, Any]]:
    """The rows of a table, their maps sorted, without what the truth does not know."""
    table = table.select([field for field in model.TABLES[name].names if field not in _LEFT_OUT[name]])
    table = table.sort_by([(key, "ascending") for key in _KEYS[name]])
    maps = [field.name for field in table.schema if pa.types.is_map(field.type)]
    return [row | {one: row[one] and sorted(row[one], key=repr) for one in maps} for row in table.to_pylist()]


@pytest.mark.parametrize("name", MADE)
def test_what_is_read_equals_the_truth(tmp_path: Path, name: str) -> None:
    folder = made(tmp_path, name)
    options = {"registry": str(tmp_path / "registry")} if (tmp_path / "registry").exists() else {}
    options |= {"time_zone": "UTC"} if name == "goldengate as JSON" else {}
    capture = open_small(folder / "capture", options=options)
    assert capture is not None
    for table in ("changes", "transactions", "table_versions"):
        found = rows(capture.table(table), table)
        true = rows(pq.read_table(folder / "truth" / f"{table}.parquet"), table)
        assert len(found) == len(true)
        for row, expected in zip(found, true, strict=True):
            assert row == expected, table
    assert len(rows(capture.table("changes"), "changes")) > 800


@pytest.mark.parametrize("name", synth.FORMATS)
def test_the_bytes_depend_on_the_seed_and_not_on_the_tasks(tmp_path: Path, name: str) -> None:
    first = content(made(tmp_path / "a", name))
    assert first == content(made(tmp_path / "b", name, last_first))
    assert any("part-00003" in file for file in first)
    other = synth.generate(name, changes=1000, seed=8, to=tmp_path / "c", run=one_after_another, part_changes=300)
    assert (
        first["truth/changes.parquet/part-00003.parquet"]
        != (content(other)["truth/changes.parquet/part-00003.parquet"])
    )


@pytest.mark.parametrize("name", synth.FORMATS)
def test_one_part_is_the_capture_that_is_made_in_one_go(tmp_path: Path, name: str) -> None:
    format, options = MADE[name]
    in_one_go = content(synth.generate(format, changes=300, seed=7, to=tmp_path / "a", **options))
    in_parts = synth.generate(
        format, changes=300, seed=7, to=tmp_path / "b", run=one_after_another, part_changes=300, **options
    )
    captured = {file: data for file, data in content(in_parts).items() if file.startswith("capture/")}
    assert captured == {file: data for file, data in in_one_go.items() if file.startswith("capture/")}


def test_keys_of_32_bits_limit_the_number_of_changes(tmp_path: Path) -> None:
    with pytest.raises(synth.SynthError, match="at most 2,147,483,647 changes, not 3,000,000,000"):
        synth.generate("gbase8s", changes=3 * 10**9, seed=1, to=tmp_path, run=one_after_another)
    with pytest.raises(synth.SynthError, match="beyond the year 9000"):
        synth.generate("gbase8s", changes=10**9, seed=1, to=tmp_path, run=one_after_another, rate=0.001)
    with pytest.raises(synth.SynthError, match="from 1 on, not 0"):
        synth.generate("gbase8s", changes=1, seed=1, to=tmp_path, run=one_after_another, part_changes=0)
