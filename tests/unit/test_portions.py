"""What a task receives of a plan does not grow with the number of splits, and suffices to read its own."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.types import StructType

from cdcwb.formats import FORMATS, get_format
from cdcwb.formats.changes import Halving
from cdcwb.spark import source
from tests.local import plan_of
from tests.made import generate

PARTS = ("", "changes", "transactions", "findings")


@pytest.mark.parametrize("name", FORMATS)
def test_a_task_reads_its_own_splits_and_receives_no_others(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = get_format(name)
    generate(name, changes=400, seed=3, to=tmp_path, overwrite=True)
    monkeypatch.setattr(source, "_TOGETHER", (0, 0))  # a task for each split
    received = []
    for split_size in (16_000, 4000):
        plan = plan_of(tmp_path / "capture", format=name, split_size=split_size)
        for part in (*PARTS, *(("elsewhere",) if isinstance(form, Halving) else ())):
            options = {"plan": plan.to_text(), "groups": "3", **({"part": part} if part else {})}
            data_source = source._source_of(name)(options)
            reader = cast(source.Reader, data_source.reader(StructType()))
            sent = CloudPickleSerializer().dumps(
                (data_source, reader)
            )  # as Spark does: before the partitions are known
            tasks = [pickle.dumps(one) for one in reader.partitions()]
            for task in tasks[:: max(1, len(tasks) // 4)]:
                one = pickle.loads(task)
                _, there = pickle.loads(sent)  # a worker's
                assert _read(there, one) == _read_with_all(name, options, one), part
        received.append((len(plan.splits), len(sent), max(map(len, tasks))))
    (few, to_all, to_one), (many, to_all_of_many, to_one_of_many) = received
    assert many > 1.5 * few
    assert to_all_of_many < 1.02 * to_all + 100
    assert to_one_of_many < 1.5 * to_one + 1000


def _read(reader: source.Reader, partition: source._Splits) -> list[pa.RecordBatch]:
    return list(reader.read(partition))


def _read_with_all(name: str, options: dict[str, str], partition: source._Splits) -> list[pa.RecordBatch]:
    return list(source.Reader(name, options).read(source._Splits(partition.first, partition.stop, None)))
