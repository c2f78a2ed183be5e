"""What a Spark task of a first pass receives does not grow with the number of tasks."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import functions

from cdcwb.errors import OptionError
from cdcwb.spark import source

Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class OneRow:
    """A session, and its DataFrame of one row with the list of groups, which are dealt out."""

    def __init__(self) -> None:
        self.received: list[int] = []  # bytes, of each partition

    def createDataFrame(self, table: pa.Table) -> OneRow:  # noqa: N802  (Spark's name)
        assert table.num_rows == 1
        self.groups = table["groups"].combine_chunks().flatten()
        return self

    def range(self, start: int, stop: int, step: int, count: int) -> OneRow:
        assert (start, step, count) == (0, 1, stop)
        self.groups = pa.StructArray.from_arrays([pa.array(range(stop))], ["id"])
        return self

    def select(self, _: Any) -> OneRow:
        return self

    def repartition(self, count: int) -> OneRow:
        assert count == len(self.groups)
        return self

    def mapInArrow(self, work: Work, schema: str) -> OneRow:  # noqa: N802
        self.work = CloudPickleSerializer().dumps(work)
        return self

    def collect(self) -> list[Any]:
        rows: list[Any] = []
        for group in range(len(self.groups)):
            batch = pa.RecordBatch.from_struct_array(self.groups.take([group]))
            self.received.append(len(self.work) + batch.nbytes)
            for found in pickle.loads(self.work)(iter([batch])):
                rows += [type("Row", (), row) for row in found.to_pylist()]
        return rows[::-1]


class Column:
    """An expression, which needs a JVM otherwise."""

    def __init__(self, name: str) -> None:
        pass

    def alias(self, name: str) -> Column:
        return self


@pytest.fixture(autouse=True)
def without_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "explode", Column)
    monkeypatch.setattr(source, "_SENT_TO_ALL", 0)


@pytest.mark.parametrize("most", [1 << 30, 16])
def test_a_task_receives_its_own_arguments_only(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_PARTITIONS", (16, most))
    received = {}
    for count in (4, 64, 1024):
        session = OneRow()
        tasks = [f"{number:04}" * 100 for number in range(count)]
        assert source.runner(session)(str.swapcase, tasks) == tasks  # type: ignore[arg-type]
        received[count] = session.received
        assert len(session.received) == min(count, most)
    arguments = {count: math.ceil(count / most) * 420 for count in received}
    extra = {count: max(received[count]) - arguments[count] for count in received}
    assert extra[1024] < extra[4] + 500


def test_the_first_error_in_the_order_of_tasks_is_raised() -> None:
    with pytest.raises(OptionError, match="number 3"):
        source.runner(OneRow())(_failing, range(9))  # type: ignore[arg-type]


def _failing(number: int) -> int:
    if number >= 3:
        raise OptionError(f"number {number}")
    return number
