"""Charts of concurrency, latency and contents: what is drawn is what the records say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cdcwb import charts
from cdcwb.charts import theme

START = datetime(2026, 3, 23, 10, 0, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_open_transactions_are_steps_with_a_mark_at_the_most() -> None:
    steps = [{"at": at(0), "open": 1}, {"at": at(2.5), "open": 3}, {"at": at(4), "open": 0}]
    figure = charts.concurrency(steps, 3, at(2.5))
    line, mark = figure.data
    assert line.line.shape == "hv"
    assert (list(line.x), list(line.y)) == (
        ["2026-03-23 10:00:00.000000", "2026-03-23 10:00:02.500000", "2026-03-23 10:00:04.000000"],
        [1, 3, 0],
    )
    assert (list(mark.x), list(mark.y), mark.text[0]) == (["2026-03-23 10:00:02.500000"], [3], "most: 3")
    assert "3 transactions open at once, the most<br>from 2026-03-23 10:00:02.500000 UTC" in mark.hovertemplate
    assert figure.layout.xaxis.title.text == "time (UTC)"


def test_steps_that_stand_for_several_changes_say_so() -> None:
    steps = [{"at": at(0), "open": 4}]
    assert "open at once at most" in charts.concurrency(steps, 4, at(0), exact=False).data[0].hovertemplate
    assert "at most" not in charts.concurrency(steps, 4, at(0)).data[0].hovertemplate


def test_nothing_open_is_an_empty_picture() -> None:
    (line,) = charts.concurrency([], 0, None).data
    assert len(line.x) == 0


BINS = [
    {"bin": "below 0", "from_us": None, "count": 2},
    {"bin": "0", "from_us": 0, "count": 1},
    {"bin": "1 s", "from_us": 1_000_000, "count": 4},
    {"bin": "2 s", "from_us": 2_000_000, "count": 1},
]


def places(figure: Any) -> dict[str, float]:
    return {note.text: note.x for note in figure.layout.annotations}


def test_latencies_are_bars_and_marks_stand_where_their_value_is() -> None:
    marks = {"p50": 1_500_000, "p95": 2_000_000, "p99": -1, "longest": 0, "none": None}
    figure = charts.latency(BINS, marks, "change", "commit less change")
    (bars,) = figure.data
    assert list(bars.y) == [2, 1, 4, 1]
    assert bars.customdata[2][0] == "from 1 s to less than 2 s"
    assert bars.customdata[3][0] == "from 2 s on"
    assert bars.customdata[0][0].startswith("below 0")
    assert bars.customdata[2][2] == "50.0% of 8"
    assert places(figure) == {"p50": pytest.approx(2.0), "p95": 2.5, "p99": 0.0, "longest": 1.0}
    assert [line.x0 for line in figure.layout.shapes] == list(places(figure).values())
    assert figure.layout.xaxis.title.text == "commit less change"


def test_percentiles_in_the_last_bin_stand_at_their_values() -> None:
    marks = {"p50": 2_000_000, "p95": 3_500_000, "p99": 4_850_000, "longest": 4_999_999}
    found = places(charts.latency(BINS, marks, "change", "commit latency"))
    assert found == {
        "p50": 2.5, "p95": 3.0, "p99": pytest.approx(3.45), "longest": pytest.approx(3.5, abs=1e-6),
    }  # fmt: skip
    days = [{"bin": "11 d and more", "from_us": 10**12, "count": 1}]
    assert places(charts.latency(days, {"p99": 10**13}, "change", ""))["p99"] == 0.5, "inside the picture"


def test_operations_over_time_are_stacked_in_the_colours_of_the_house() -> None:
    rows = [
        {"began_at": at(0), "operation": "UPDATE", "changes": 3},
        {"began_at": at(0), "operation": "INSERT", "changes": 1},
        {"began_at": at(10), "operation": "UNKNOWN(<b>)", "changes": 2},
        {"began_at": at(10), "operation": "INSERT", "changes": 5},
    ]
    figure = charts.done_over_time(rows, 10_000_000)
    assert figure.layout.barmode == "stack"
    assert [trace.name for trace in figure.data] == ["INSERT (6)", "UPDATE (3)", "UNKNOWN(&lt;b&gt;) (2)"]
    inserts = figure.data[0]
    assert (list(inserts.x), list(inserts.y)) == (
        ["2026-03-23 10:00:05.000000", "2026-03-23 10:00:15.000000"],
        [1, 5],
    )
    assert inserts.width == 10_000
    assert inserts.marker.color == theme.OPERATIONS["INSERT"].colour
    assert figure.data[1].marker.pattern.shape == theme.OPERATIONS["UPDATE"].pattern
    assert "10 s a bar" in figure.layout.xaxis.title.text


def entry(understood: int, filler: int = 0, malformed: int = 0, none: int | None = 0) -> dict[str, Any]:
    return {"understood": understood, "filler": filler, "malformed": malformed, "none": none}


def test_the_ledger_shows_what_became_of_the_bytes_of_each_file() -> None:
    figure = charts.ledger([entry(90, 10, 0), entry(50, 0, 7, None)], ["a", "<i>b"])
    assert [trace.name for trace in figure.data] == [
        *("understood (140 bytes)", "filler (10 bytes)", "malformed (7 bytes)"),
    ]
    assert [list(trace.x) for trace in figure.data] == [[90, 50], [10, 0], [0, 7]]
    assert list(figure.layout.yaxis.ticktext) == ["a", "&lt;i&gt;b"]


def test_bytes_in_no_event_are_drawn_as_such_and_rows_are_no_bytes() -> None:
    assert [trace.name for trace in charts.ledger([entry(9, none=3)], ["a"]).data] == [
        *("understood (9 bytes)", "in no event (3 bytes)"),
    ]
    rows = charts.ledger([entry(9)], ["a"], "row")
    assert rows.data[0].name == "understood (9 rows)"
    assert rows.layout.xaxis.title.text == "rows"


def test_of_many_files_the_first_are_drawn() -> None:
    names = [f"f{number}" for number in range(charts.MOST_FILES + 3)]
    assert len(charts.ledger([entry(1)] * len(names), names).data[0].y) == charts.MOST_FILES


def test_many_bars_are_drawn_in_traces_of_a_few_hundred_under_one_entry_of_the_legend() -> None:
    """Else plotly.js takes a second for each step of a zoom."""
    row = {"outcome": "committed", "completeness": "whole", "ended_at": at(5), "duration_us": 1, "changes": []}
    row |= {"end_position": f"{9:016X}", "first_position": f"{1:016X}", "tables": [], "bytes": 1, "user": None}
    rows = [row | {"transaction_id": str(number), "began_at": at(number % 5)} for number in range(1001)]
    figure = charts.timeline(rows)
    for axis in ("x", "x2"):
        bars = [trace for trace in figure.data if trace.type == "bar" and trace.xaxis == axis]
        assert [len(trace.base) for trace in bars] == [400, 400, 201]
        assert [trace.showlegend for trace in bars] == [axis == "x", False, False]
        assert {trace.legendgroup for trace in bars} == {"outcome committed"}
        assert {trace.name for trace in bars} == {"committed (1,001)"}
        assert {trace.width for trace in bars} == {0.8}
