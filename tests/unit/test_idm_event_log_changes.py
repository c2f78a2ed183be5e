"""Rows of one statement are one change, wherever the borders of splits lie and however record ids fall."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcwb.formats import get_format
from cdcwb.formats.base import EVERYTHING
from cdcwb.formats.idm_event_log import IdmEventLog
from cdcwb.formats.idm_event_log.changes import keys_of_rows, of_statements

HEADING = "record_id,table_key,status,event_type,event_time,perpetrator,table_name,column_name,old_value,new_value\n"
FORMAT = cast(IdmEventLog, get_format("idm-event-log"))

_ROW = st.tuples(
    st.sampled_from(["", "x"] + [None] * 20),  # a record_id that is none
    st.sampled_from(["id=1", "id=2"]),
    st.sampled_from([1, 2, 2, 2, 4, 9]),
    st.sampled_from(["name", "city", "age"]),
)


def written(rows: list[tuple[Any, ...]], numbers: list[int]) -> str:
    lines = [
        f"{number if odd is None else odd},{key},N,{kind},2026-01-02 03:04:05,app,shop.customer,{column},{at},new {at}"
        for at, ((odd, key, kind, column), number) in enumerate(zip(rows, numbers, strict=True))
    ]
    return HEADING + "".join(f"{line}\n" for line in lines)


def run_here(function: Any, tasks: Any) -> list[Any]:
    return [function(task) for task in tasks]


def rows_of(read: Any, plan: Any) -> list[dict[str, Any]]:
    return [row for at in range(len(plan.splits)) for batch in read(plan, at, EVERYTHING) for row in batch.to_pylist()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@settings(deadline=None)
@given(
    st.lists(_ROW, min_size=1, max_size=30),
    st.integers(0, 6),
    st.integers(1, 3),
    st.sampled_from([64, 100, 300, 5000]),
    st.randoms(),
)
def test_statements_over_borders_of_splits(
    folder: Path, rows: list[tuple[Any, ...]], far: int, files: int, size: int, chance: Any
) -> None:
    numbers = sorted(range(1, len(rows) + 1), key=lambda number: number + chance.uniform(0, far))
    numbers = [max(1, number - chance.choice([0, 0, 0, 0, 1])) for number in numbers]  # some are there twice
    parts = np.array_split(np.arange(len(rows)), files)
    paths = []
    for number, part in enumerate(parts):
        path = folder / f"log{number}.csv"
        path.write_text(written([rows[at] for at in part], [numbers[at] for at in part]))
        paths.append(str(path))
    plan = FORMAT.plan(paths, {"split_size": size}, run_here)
    assert FORMAT.joins(plan)

    events = rows_of(FORMAT.read, plan)
    whole = FORMAT.plan(paths, {}, run_here)
    batches = [batch for at in range(len(whole.splits)) for batch in FORMAT.read(whole, at, EVERYTHING)]
    keys = [np.concatenate(some) for some in zip(*map(keys_of_rows, batches), strict=True)]
    expected: dict[int, list[int]] = {}
    for at, first in enumerate(of_statements(*keys).tolist()):
        expected.setdefault(first, []).append(at)
    changes = rows_of(FORMAT.read_changes, plan)
    place = {(row["file_index"], row["offset"]): at for at, row in enumerate(events)}
    found = sorted(sorted(place[one["file_index"], one["offset"]] for one in row["source_events"]) for row in changes)
    assert found == sorted(mine for mine in expected.values() if events[mine[0]]["kind"] == "change")
    for row in changes:
        mine = [events[place[one["file_index"], one["offset"]]] for one in row["source_events"]]
        for image in ("before", "after"):
            assert sorted(row[image] or []) == sorted(pair for one in mine for pair in one[image] or [])
