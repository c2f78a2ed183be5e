"""Avro containers whose blocks are read in parts, which begin where the sizes of all blocks before them show it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from cdcwb.errors import MalformedRecordError
from cdcwb.formats import get_format
from cdcwb.formats.files import list_files
from cdcwb.opening import check_capture
from tests.kafka import AFTER, BEFORE, enveloped, metadata, record
from tests.local import plan_of, read

SYNC = bytes(range(16))
TRAIL = {"table": "SHOP.STOCK", "op_type": "I", "op_ts": "2024-01-02 03:04:05.000000", "pos": "00000000000000001234"}
CHANGE = {
    "op": "c",
    "source": {"connector": "postgresql", "version": "2.7.0.Final", "schema": "shop", "table": "stock"},
    "before": None,
}


def qlik(number: int) -> bytes:
    if number % 100 == 7:
        return json.dumps(metadata({"id": "INT4", f"c{number}": "STRING"}, table=f"T{number}")).encode()
    return json.dumps(enveloped(record(AFTER, BEFORE))).encode()


def goldengate(number: int) -> bytes:
    return json.dumps(TRAIL | {"after": {"ID": number, "TEXT": "x" * (number % 50)}}).encode()


def debezium(number: int) -> bytes:
    return json.dumps(CHANGE | {"after": {"id": number, f"c{number // 100}": "x"}}).encode()


MESSAGES = {"qlik-kafka": qlik, "goldengate-export": goldengate, "debezium": debezium}


def container(format: str, to: Path, *more: bytes) -> Path:
    """A container with 700 messages of a format, and others after the first hundred."""
    values = [MESSAGES[format](number) for number in range(700)]
    values[100:100] = more
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema("bytes"), values, sync_interval=3000, sync_marker=SYNC)
    to.mkdir(exist_ok=True)
    path = to / "messages.avro"
    path.write_bytes(out.getvalue())
    return path


def tables(path: Path, format: str, **options: Any) -> tuple[Any, ...]:
    """Events, table versions, problems and files of a capture."""
    form, plan = get_format(format), plan_of(path, format, **options)
    versions = form.table_versions(plan).to_pylist()
    return read(path, format=format, **options).to_pylist(), versions, form.problems(plan), form.files(plan)


FORGED = SYNC + b"\x02\x04ab" + SYNC
"""What looks like the end of a block and a block, within a message."""


@pytest.mark.parametrize("format", MESSAGES)
@pytest.mark.parametrize("more", [(), (b"x" * 5000 + FORGED + b"x" * 5000,)], ids=["", "forged"])
def test_no_row_depends_on_the_size_of_splits(format: str, more: tuple[bytes, ...], tmp_path: Path) -> None:
    path = container(format, tmp_path, *more)
    reading = check_capture(str(path), options={"split_size": 64}).reading
    assert reading is not None
    assert reading.format.name == format
    whole = tables(path, format)
    assert len(whole[0]) == whole[-1][0].get("rows", 700 + len(more)) == 700 + len(more)
    assert [event["offset"] for event in whole[0]] == list(range(len(whole[0])))
    assert format == "goldengate-export" or any(version["first_event"]["offset"] > 300 for version in whole[1])
    for size in (300, 20_000):
        assert tables(path, format, split_size=size) == whole


@pytest.mark.parametrize("format", MESSAGES)
def test_a_malformed_row_is_named_by_its_number(format: str, tmp_path: Path) -> None:
    path = container(format, tmp_path, b"{nothing")
    for size in (1000, 1 << 20):
        with pytest.raises(MalformedRecordError) as error:
            get_format(format).plan(
                list_files(str(path)),
                {"mode": "FAILFAST", "split_size": size},
                lambda function, tasks: [function(task) for task in tasks],
            )
        assert error.value.offset == 100
