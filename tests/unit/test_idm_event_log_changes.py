"""Rows of one statement are one change, wherever the borders of splits lie and however record ids fall."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcwb.formats import get_format
from cdcwb.formats.dissector import EVERYTHING, TableRequest, Wanted
from cdcwb.formats.idm_event_log import IdmEventLog
from cdcwb.formats.idm_event_log import plan as log_plan
from cdcwb.formats.idm_event_log.changes import first_rows, keys_of_rows
from cdcwb.formats.table_rows import Plan

HEADING = "record_id,table_key,status,event_type,event_time,perpetrator,table_name,column_name,old_value,new_value\n"
FORMAT = cast(IdmEventLog, get_format("idm-event-log"))

_ROW = st.tuples(
    st.sampled_from(["", "x"] + [None] * 20),  # a record_id that is none
    st.sampled_from(["id=1", "id=2"]),
    st.sampled_from([1, 2, 2, 2, 4, 9]),
    st.sampled_from(["name", "city", "age"]),
    st.sampled_from(["app"] * 10 + ["", "job"]),
)


def written(rows: list[tuple[Any, ...]], numbers: list[int]) -> str:
    lines = [
        f"{number if odd is None else odd},{key},N,{kind},2026-01-02 03:04:05,{user},shop.customer,{column},{at},new"
        for at, ((odd, key, kind, column, user), number) in enumerate(zip(rows, numbers, strict=True))
    ]
    return HEADING + "".join(f"{line}\n" for line in lines)


def run_here(function: Any, tasks: Any) -> list[Any]:
    return [function(task) for task in tasks]


def rows_of(read: Any, plan: Any) -> list[dict[str, Any]]:
    return [row for at in range(len(plan.splits)) for batch in read(plan, at, EVERYTHING) for row in batch.to_pylist()]


def changes_of(plan: Plan, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    return FORMAT.read_changes(plan, split, wanted, partial(FORMAT.read, plan, split))


def checked(plan: Plan, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    found = FORMAT.read_checked(plan, split, wanted, partial(FORMAT.read, plan, split))
    return (rows for name, rows in found if name == "checked")


def location(row: dict[str, Any]) -> tuple[int, int]:
    return row["file_index"], row["offset"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@settings(deadline=None)
@given(
    st.lists(_ROW, min_size=1, max_size=30),
    st.integers(0, 6),
    st.sampled_from([1, 2, 3, 9]),
    st.sampled_from([64, 100, 300, 5000]),
    st.booleans(),
    st.randoms(),
)
def test_statements_over_borders_of_splits(
    folder: Path, rows: list[tuple[Any, ...]], far: int, files: int, size: int, grouped: bool, chance: Any
) -> None:
    numbers = sorted(range(1, len(rows) + 1), key=lambda number: number + chance.uniform(0, far))
    numbers = [max(1, number - chance.choice([0, 0, 0, 0, 1])) for number in numbers]  # some are there twice
    parts = np.array_split(np.arange(len(rows)), files)
    paths = []
    for number, part in enumerate(parts):
        path = folder / f"log{number}.csv"
        path.write_text(written([rows[at] for at in part], [numbers[at] for at in part]))
        paths.append(str(path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_plan, "_MANY_FILES", 0 if grouped else len(paths))
        plan = FORMAT.plan(paths, {"split_size": size}, run_here)
    assert FORMAT.in_splits(plan)

    events = rows_of(FORMAT.read, plan)
    whole = FORMAT.plan(paths, {}, run_here)
    batches = [batch for at in range(len(whole.splits)) for batch in FORMAT.read(whole, at, EVERYTHING)]
    assert events == [row for batch in batches for row in batch.to_pylist()]
    keys = [np.concatenate(some) for some in zip(*map(keys_of_rows, batches), strict=True)]
    expected: dict[int, list[int]] = {}
    for at, first in enumerate(of_statements(*keys).tolist()):
        expected.setdefault(first, []).append(at)
    changes = rows_of(changes_of, plan)
    place = {(row["file_index"], row["offset"]): at for at, row in enumerate(events)}
    found = sorted(sorted(place[one["file_index"], one["offset"]] for one in row["source_events"]) for row in changes)
    assert found == sorted(mine for mine in expected.values() if events[mine[0]]["kind"] == "change")
    for row in changes:
        mine = [events[place[one["file_index"], one["offset"]]] for one in row["source_events"]]
        for image in ("before", "after"):
            assert sorted(row[image] or []) == sorted(pair for one in mine for pair in one[image] or [])


def of_statements(record: Any, statement: Any, column: Any) -> Any:
    """For each event, in capture order, the one that its statement begins with: itself where it is alone. Takes what
    :func:`keys_of_rows` returns."""
    found = np.arange(len(record))
    rows = np.flatnonzero(record >= 0)
    rows = rows[np.argsort(record[rows], kind="stable")]
    first = first_rows(statement[rows], column[rows] < 0, column[rows])
    found[rows] = np.repeat(rows[first], np.diff(np.append(first, len(rows))))
    return found


_LINE = "{},id={},N,2,2026-01-02 03:04:05,app,shop.customer,{},old,new\n"


def plan_of_files(folder: Path, texts: list[str]) -> Any:
    paths = []
    for number, text in enumerate(texts):
        paths.append(str(folder / f"log{number:05}.csv"))
        Path(paths[-1]).write_text(HEADING + text)
    return FORMAT.plan(paths, {}, run_here)


def test_a_statement_goes_on_over_several_files_and_over_empty_ones(tmp_path: Path) -> None:
    texts = [_LINE.format(1, 1, "a") + _LINE.format(2, 2, "a"), "", _LINE.format(3, 2, "b"), "", ""]
    texts += [_LINE.format(4, 2, "c"), _LINE.format(5, 2, "d") + _LINE.format(6, 3, "a"), _LINE.format(7, 4, "a"), ""]
    plan = plan_of_files(tmp_path, texts)
    assert [[part.file for part in split] for split in plan.splits] == [[0, 1, 2, 3, 4, 5, 6], [7, 8]]
    changes = [[one for batch in changes_of(plan, at, EVERYTHING) for one in batch.to_pylist()] for at in range(2)]
    sources = [[[one["file_index"] for one in row["source_events"]] for row in rows] for rows in changes]
    assert sources == [[[0], [0, 2, 5, 6], [6]], [[7]]]


def test_numbers_of_a_decimal_column_are_numbers(tmp_path: Path) -> None:
    """Spark prints an Oracle NUMBER with a fraction of zeros."""
    row = "{}.0000000000,id=1,N,2.0000000000,2026-01-02 03:04:05,,usr,{},a,b\n"
    for number, column in ((1, "name"), (2, "city")):
        (tmp_path / f"{number}.csv").write_text(HEADING + row.format(number, column))
    paths = [str(tmp_path / "1.csv"), str(tmp_path / "2.csv")]
    (change,) = rows_of(changes_of, FORMAT.plan(paths, {"split_size": "64"}, run_here))
    assert change["changed_columns"] == ["name", "city"]


def test_small_files_of_a_split_are_decoded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes out is what each file has by itself: also of files with other columns, damage, or no rows."""
    line = _LINE.format(1, 1, "a")
    files = {
        "a.csv": HEADING + line + "damaged\n\n" + _LINE.format(2, 1, "b"),
        "b.csv": HEADING,
        "c.csv": HEADING.replace("perpetrator,", "") + _LINE.format(3, 2, "a").replace("app,", ""),
        "d.csv": HEADING + _LINE.format(4, "x", "a") + _LINE.format("none", 1, "c"),
        "e.jsonl": '{"record_id": 5, "table_key": "id=1", "event_type": 4, "table_name": "shop.customer"}\n',
        "f.csv": "",
        "g.csv": HEADING.replace("record_id,", "") + line.removeprefix("1,") * 2,
        "h.sql": "INSERT INTO log (record_id, table_key, event_type, table_name) VALUES (19, 'id=1', 4, 'customer');",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    paths = [str(tmp_path / name) for name in files]
    apart = FORMAT.plan(paths, {}, run_here)
    monkeypatch.setattr(log_plan, "_MANY_FILES", 0)
    together = FORMAT.plan(paths, {}, run_here)
    assert (len(apart.splits), len(together.splits)) == (7, 1)
    request = TableRequest("customer")
    for read in (FORMAT.read, changes_of, checked):
        one, other = (sorted(rows_of(read, plan), key=location) for plan in (together, apart))
        assert one == other
    tables = [[FORMAT.read_table(plan, at, request) for at in range(len(plan.splits))] for plan in (apart, together)]
    one, other = ([row for split in some for batch in split for row in batch.to_pylist()] for some in tables)
    assert one == other
    assert len(one) > 5


def test_changes_of_several_files_without_record_ids(tmp_path: Path) -> None:
    """Rows are numbered through all files."""
    heading, row = HEADING.removeprefix("record_id,"), _LINE.removeprefix("{},")
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    paths[0].write_text(heading + row.format(1, "a") + row.format(2, "a"))
    paths[1].write_text(heading + row.format(2, "b") + row.format(3, "a"))
    plan = FORMAT.plan([str(path) for path in paths], {}, run_here)
    assert [int(row["position"]) for row in rows_of(changes_of, plan)] == [1, 3, 4]


def test_a_small_log_in_any_order_is_put_in_order_here(tmp_path: Path) -> None:
    """Record ids that fall far are read in one split; in a log above the size of a split they are Spark's task."""
    numbers = [300_000, 1, 200_000, 2, 100_000]
    text = HEADING + "".join(_LINE.format(number, number % 1000 // 3, f"c{number}") for number in numbers)
    (tmp_path / "log.csv").write_text(text)
    plan = FORMAT.plan([str(tmp_path / "log.csv")], {}, run_here)
    assert plan.facts["behind"] == 299_999
    assert (FORMAT.in_splits(plan), len(plan.splits)) == (True, 1)
    changes = rows_of(changes_of, plan)
    assert [len(row["source_events"]) for row in changes] == [5]
    assert [int(row["position"]) for row in changes] == [300_000]
    large = FORMAT.plan([str(tmp_path / "log.csv")], {"split_size": 100}, run_here)
    assert (FORMAT.in_splits(large), len(large.splits) > 1) == (False, True)
