"""GoldenGate's JSON as rows with Kafka's columns: the events are those of the same messages in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cdcwb_synth as synth
from cdcwb.errors import CaptureError, MalformedRecordError
from cdcwb.formats import row_format
from cdcwb.formats.dissector import EVERYTHING, TableRequest
from tests.local import read

WHERE = {"file", "file_index", "offset", "length", "offset_unit", "raw", "headers"}
"""Columns that say where a message was."""


def batch(values: list[bytes], partitions: int = 2) -> pa.RecordBatch:
    count = len(values)
    numbers = [number % partitions for number in range(count)]
    columns = {
        "value": values,
        "topic": ["orders"] * count,
        "partition": pa.array(numbers, pa.int32()),
        "offset": [100 + number // partitions for number in range(count)],
    }
    made: pa.RecordBatch = pa.RecordBatch.from_pydict(columns)
    return made.append_column("_row", pa.array(np.arange(count)))


def planned(rows: pa.RecordBatch, **options: Any) -> tuple[Any, Any]:
    fmt: Any = row_format("goldengate")
    plan = fmt.plan_rows("topic", rows.schema, lambda function: [function(iter([rows]))], options)
    return fmt, fmt.plan_from_text(plan.to_text())


def events(rows: pa.RecordBatch, **options: Any) -> list[dict[str, Any]]:
    fmt, plan = planned(rows, **options)
    return [row for one in fmt.read_rows(plan, iter([rows]), EVERYTHING) for row in one.to_pylist()]


def test_the_events_of_messages_are_those_of_a_file(tmp_path: Path) -> None:
    synth.generate("goldengate", changes=200, seed=3, to=tmp_path, form="json", trail_files=1)
    (path,) = (tmp_path / "capture").iterdir()
    found = events(batch(path.read_bytes().splitlines()), time_zone="UTC")
    expected = read(path, format="goldengate-export", time_zone="UTC").to_pylist()
    shown = [
        sorted(str({n: v for n, v in row.items() if n not in WHERE}) for row in some) for some in (found, expected)
    ]
    assert shown[0] == shown[1]
    assert {(row["file"], row["file_index"], row["offset_unit"]) for row in found} == {
        ("orders-0", 0, "message"), ("orders-1", 1, "message"),
    }  # fmt: skip
    fmt, plan = planned(batch(path.read_bytes().splitlines()))
    version = fmt.table_versions(plan).to_pylist()[0]
    request = TableRequest(f"{version['schema_name']}.{version['table_name']}", None, "after", "in_force")
    rows = fmt.read_table_rows(plan, iter([batch(path.read_bytes().splitlines())]), request)
    assert pa.Table.from_batches(rows).schema.names == fmt.table_schema(plan, request).names
    assert fmt.files(plan) == []


def test_damage_in_a_message_is_an_event_of_its_own() -> None:
    rows = batch([b"{", b'{"table":"A.B","op_type":"I","after":{"ID":1}}'])
    assert [(row["kind"], row["offset"]) for row in events(rows)] == [("malformed", 100), ("change", 100)]
    with pytest.raises(MalformedRecordError):
        events(rows, mode="FAILFAST")
    with pytest.raises(CaptureError, match="expected Kafka's columns"):
        planned(pa.RecordBatch.from_pydict({"body": [b"{}"]}))
