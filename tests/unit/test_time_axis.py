"""Which part of all times an axis shows, and that nothing outside it is lost."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import plotly.graph_objects as go
import pytest

from cdcwb.charts import contents, drift, masks, reconcile, timeline
from cdcwb.times import TimeAxis, axis_of, micros, time_of
from tests.unit.test_charts_drift import version
from tests.unit.test_charts_timeline import SECOND, START, transaction

FAR = datetime(2099, 1, 1, tzinfo=UTC)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
BULK = [START + timedelta(seconds=number) for number in range(60)]


def test_one_time_in_the_far_future_and_one_in_1970_are_outside_and_counted() -> None:
    axis = axis_of(list(map(micros, [FAR, *BULK, LONG_AGO])))
    assert axis == TimeAxis(BULK[0], BULK[-1], before=1, after=1)
    assert axis is not None
    note = axis.note("change")
    assert note.startswith("Outside the axis: 1 change before 2025-03-23")
    assert "and 1 change after 2025-03-23" in note
    assert axis.outside == 2


@pytest.mark.parametrize(
    "times",
    [
        BULK,
        [*BULK, BULK[-1] + timedelta(hours=20)],  # less than a day: no year 2099
        [START + timedelta(days=number**2) for number in range(60)],
        [START, FAR],  # which of the two is the bulk?
        [LONG_AGO] * 5 + [FAR] * 5,
        [START],
    ],
)
def test_an_axis_that_is_not_squeezed_shows_all_times(times: list[datetime]) -> None:
    assert axis_of(list(map(micros, times))) == TimeAxis(min(times), max(times))


def test_without_times_there_is_no_axis() -> None:
    assert axis_of([]) is None


def test_times_that_are_all_the_same_are_the_bulk() -> None:
    assert axis_of([micros(START)] * 7 + [micros(FAR)]) == TimeAxis(START, START, after=1)


def years(figure: go.Figure) -> set[str]:
    return {str(end)[:4] for end in figure.layout.xaxis.range}


AXIS = TimeAxis(BULK[0], BULK[-1], after=1)
BINS = [{"began_at": at, "operation": "UPDATE", "changes": 1, "row": "a", "transactions": 1} for at in [*BULK, FAR]]
CELLS = [{"column": "a", "began_at": at, "changed": 1} for at in [*BULK, FAR]]
STEPS = [{"at": at, "open": 1} for at in [*BULK, FAR]]
DIFFERENCES = [row | {"missing": 1, "extra": 0, "different": 0, "late": 0} for row in BINS]
LIFE = [
    {"at": at, "operation": "UPDATE", "taken_back": False, "outcome": "committed", "differences": []}
    for at in [*BULK, FAR]
]
FIGURES: dict[str, Any] = {
    "changes": lambda: contents.done_over_time(BINS, SECOND, AXIS),
    "transactions": lambda: contents.begins(BINS, ["a"], SECOND, AXIS),
    "masks": lambda: masks.changed_over_time(CELLS, SECOND, AXIS),
    "concurrency": lambda: timeline.concurrency(STEPS, 1, START, axis=AXIS),
    "differences": lambda: reconcile.differences_over_time(DIFFERENCES, BULK[0], FAR, SECOND, AXIS),
    "row": lambda: reconcile.row_life(LIFE),
    "rows": lambda: reconcile.rows_over_time([(None, 0), *((at, 1) for at in [*BULK, FAR])], START, FAR),
    "timeline": lambda: timeline.timeline(
        [transaction(n, n * SECOND) for n in range(60)] + [transaction(99, 2 * 10**15)]
    ),
    "versions": lambda: drift.version_lanes([*(version(n, begin=n) for n in range(1, 60)), version(60, begin=2e9)]),
}


@pytest.mark.parametrize("name", FIGURES)
def test_every_axis_of_time_shows_the_bulk_and_says_what_is_outside(name: str) -> None:
    figure = FIGURES[name]()
    assert years(figure) <= {"2025", "2026"}
    assert " after 202" in figure.layout.meta["outside"]
    assert re.search(r'"20[89]\d-', figure.to_json()), "what is outside is still drawn"


def test_a_table_without_changes_outside_has_all_of_its_changes_on_the_axis() -> None:
    figure = masks.changed_over_time(CELLS[:60], SECOND, AXIS)
    assert figure.layout.meta is None
    assert len(figure.data[0].x) == 60


def test_all_charts_of_a_page_have_one_axis_of_time() -> None:
    """Bins begin before the first time, bars end at the last one: the axis is the same, and has room for both."""
    axis = TimeAxis(BULK[0], BULK[-1])
    figures = [
        contents.done_over_time(BINS[:60], SECOND, axis),
        contents.begins(BINS[5:50], ["a"], SECOND, axis),
        masks.changed_over_time(CELLS[:60], SECOND, axis),
        timeline.concurrency(STEPS[:60], 1, START, axis=axis),
        reconcile.differences_over_time(DIFFERENCES[:60], BULK[0], BULK[-1], SECOND, axis),
        timeline.timeline([transaction(n, n * SECOND) for n in range(40)], axis=axis),
    ]
    (ends,) = {figure.layout.xaxis.range for figure in figures}
    first, last = (datetime.fromisoformat(end).replace(tzinfo=UTC) for end in ends)
    assert first < BULK[0] - timedelta(seconds=1)
    assert last > BULK[-1] + timedelta(seconds=1)
    assert not any((figure.layout.meta or {}).get("outside") for figure in figures)


def test_times_at_the_ends_of_the_calendar_are_drawn() -> None:
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    axis = TimeAxis(BULK[0], last, before=1)
    rows = [row | {"began_at": at} for row, at in zip(DIFFERENCES, (first, BULK[0], last), strict=False)]
    width = 1000 * SECOND
    figures = [
        contents.done_over_time(rows, width, axis),
        contents.begins(rows, ["a"], width, axis),
        masks.changed_over_time([CELLS[0] | row for row in rows], width, axis),
        reconcile.differences_over_time(rows, first, last, width, axis),
    ]
    assert all("9999-12-31 23:59:59.999999" in figure.to_json() for figure in figures)
    assert (time_of(micros(last) + 1), time_of(micros(first) - 1)) == (last, first)
