"""Questions about which columns changes touch, asked of a few that are made by hand."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdcwb.analysis import concurrency
from cdcwb.analysis import masks as ask
from cdcwb.analysis.change_counts import Changed
from cdcwb.times import TimeAxis
from tests.changes import at, change, tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.oldest

T = "shop.orders"


def update(number: int, changed: list[str] | None, **facts: Any) -> dict[str, Any]:
    source = None if changed is None else facts.pop("change_source", "mask")
    return change(number, "UPDATE", T, changed_columns=changed, change_source=source, **facts)


CHANGES = [
    change(0, "INSERT", T, after={"id": "1", "a": "x", "b": "y"}),
    update(1, ["a"], change_mask="02", after={"id": "1", "a": "z", "b": "y"}, key={"id": "1"}, before={"id": "1"}),
    update(2, ["a", "b"], change_mask="06", after={"id": "1", "a": None}),
    update(3, [], change_mask="00", after={"id": "1"}),
    update(4, None, after={"id": "1", "a": "q"}),
    update(5, ["a", "b"], change_source="images", key={"id": "9"}, before={"id": "1"}, after={"id": "9", "a": "z"}),
    change(6, "UPDATE", "shop.other", changed_columns=["c"], change_source="log", change_mask="02"),
]
PROBLEMS = [
    {"severity": "warning", "code": "mask_images", "sentence": "disagree about b", "file": "f", "offset": 7},
    {"severity": "warning", "code": "value", "sentence": "no value", "file": "f", "offset": 3},
]


@pytest.fixture(scope="module")
def capture(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return tables(spark, tmp_path_factory.mktemp("masks"), changes=CHANGES, problems=PROBLEMS)


def test_it_is_told_how_it_is_known_what_changed(capture: Any) -> None:
    rows = {row["table"]: row for row in ask.overview(ask.changed(capture), ask.change_sources(capture))}
    mine = rows[T]
    assert [mine[f"told_by_{how}"] for how in ("mask", "images", "log")] == [3, 1, 0]
    assert (mine["updates"], mine["not_told"], mine["idle"], mine["with_mask"], mine["columns_changed"]) == (
        *(5, 1),
        *(1, 3, 2),
    )
    assert rows["shop.other"]["told_by_log"] == 1


def test_null_is_told_from_not_captured(capture: Any) -> None:
    rows = {row["column"]: row for row in ask.columns(capture, ask.changed(capture)) if row["table"] == T}
    assert (rows["a"]["changed"], rows["a"]["updates"], rows["a"]["share"]) == (3, 4, 0.75)
    assert (rows["a"]["set"], rows["a"]["null"], rows["a"]["not_captured"], rows["a"]["became_null"]) == (3, 1, 1, 1)
    assert (rows["b"]["set"], rows["b"]["null"], rows["b"]["not_captured"]) == (1, 0, 4)
    assert (rows["id"]["changed"], rows["id"]["set"]) == (0, 5)


def test_columns_that_change_in_one_update_are_paired(capture: Any) -> None:
    (pair,) = ask.changed(capture).together()
    assert (pair["table"], pair["column"], pair["other"], pair["together"]) == (T, "a", "b", 2)
    assert (pair["column_changed"], pair["other_changed"], pair["likeness"]) == (3, 2, pytest.approx(2 / 3))


def test_updates_that_change_nothing_are_counted_with_the_place_of_the_first(capture: Any) -> None:
    (row,) = ask.idle_updates(ask.changed(capture), ask.change_sources(capture))
    assert (row["table"], row["updates"], row["idle"], row["share"], row["offset"]) == (T, 5, 1, 0.2, 300)


def test_a_change_of_the_key_is_found(capture: Any) -> None:
    number, (row,) = ask.key_changes(capture)
    assert number == 1
    assert (row["old_key"], row["new_key"], row["position"]) == ("id=1", "id=9", f"{5:016X}")


def test_time_is_cut_into_bins_that_hold_every_update_that_is_told(capture: Any) -> None:
    axis = ask.axis(capture)
    assert axis == TimeAxis(first := at(1), last := at(6))
    rows, width_us = ask.over_time(capture, axis, bins=5)
    assert width_us == 2_000_000
    assert sum(row["changed"] for row in rows) == 6
    assert {row["bin"] for row in rows} == {0, 1, 2, 3}
    assert all(row["began_at"].timestamp() % 2 == 0 for row in rows), "bins begin at round times"
    assert first - timedelta(seconds=2) < min(row["began_at"] for row in rows) <= first
    assert all(row["began_at"] <= last for row in rows)


def test_an_update_in_the_far_future_is_outside_the_axis_and_still_counted(spark: SparkSession, tmp_path: Path) -> None:
    far = datetime(2099, 1, 1, tzinfo=UTC)
    changes = [update(number, ["a"]) for number in range(20)] + [update(20, ["a"], changed_at=far, committed_at=far)]
    capture = tables(spark, tmp_path, changes=changes, problems=[])
    axis = ask.axis(capture)
    assert axis == TimeAxis(at(0), at(19), after=1)
    rows, width_us = ask.over_time(capture, axis, bins=5)
    assert (sum(row["changed"] for row in rows), rows[-1]["began_at"] <= far) == (21, True)
    assert width_us == 5_000_000
    once = concurrency.over_time(tables_of(spark, tmp_path, far), at(0), far, axis=axis)
    assert once.most == 2


def tables_of(spark: SparkSession, folder: Path, far: datetime) -> Any:
    """Three transactions, of which two are open at once, and one in the far future."""
    spans = [(at(0), at(10)), (at(5), at(19)), (far, far + timedelta(seconds=1))]
    rows = [
        {"transaction_id": str(n), "began_at": a, "ended_at": b, "outcome": "committed"}
        for n, (a, b) in enumerate(spans)
    ]
    return tables(spark, folder, transactions=rows)


def test_masks_are_counted_by_what_they_mean(capture: Any) -> None:
    rows = [(row["table"], row["change_mask"], row["changes"]) for row in ask.masks(capture)[1]]
    assert rows == [(T, "00", 1), (T, "02", 1), (T, "06", 1), ("shop.other", "02", 1)]


def test_compressed_updates_are_counted_and_those_without_a_key_apart(spark: SparkSession, tmp_path: Path) -> None:
    listed = {"change_source": "log", "after": {"id": "1", "a": "x"}, "record_type": "FieldComp"}
    changes = [update(1, ["a"], key={"id": "1"}, **listed), update(2, ["id", "a"], key=None, **listed)]
    changes += [update(3, ["a"], change_source="log", record_type="5"), update(4, ["a"], record_type="U")]
    made = tables(spark, tmp_path, changes=changes, problems=[])
    (row,) = ask.overview(ask.changed(made), ask.change_sources(made))
    assert (row["told_by_log"], row["listed"], row["listed_without_key"]) == (3, 2, 1)


@pytest.mark.parametrize(
    ("updates", "not_told", "idle", "sentence"),
    [
        (0, 0, 0, "There are no updates"),
        (3, 3, 0, "No update shows which columns it changed"),
        (3, 1, 2, "No update whose changed columns are known changes any"),
        (3, 1, 1, "No update whose changed columns are known has a time"),
    ],
)
def test_the_page_says_why_there_is_nothing_over_time(updates: int, not_told: int, idle: int, sentence: str) -> None:
    counts = {"updates": updates, "known": updates - not_told, "idle": idle}
    changed = Changed(**{name: Counter({"shop.orders": number}) for name, number in counts.items()})
    assert ask.nothing_over_time(changed).startswith(sentence)


def test_disagreements_are_the_problems_of_masks(capture: Any) -> None:
    assert [row["offset"] for row in ask.disagreements(capture)] == [7]


def test_a_capture_without_updates_has_empty_answers(spark: SparkSession, tmp_path: Path) -> None:
    empty = tables(spark, tmp_path, changes=CHANGES[:1], problems=[])
    assert ask.axis(empty) is None
    changed, told = ask.changed(empty), ask.change_sources(empty)
    assert (changed, ask.overview(changed, told), ask.columns(empty, changed)) == (Changed(), [], [])
    assert ask.idle_updates(changed, told) == []
    assert ask.masks(empty) == (0, [])
    assert ask.key_changes(empty) == (0, [])
