"""Charts of rows, of one row's life and of two captures: what they draw is what the records say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from cdcwb.charts import reconcile as charts

START = datetime(2026, 3, 23, 10, tzinfo=UTC)


def seconds(number: float) -> datetime:
    return START + timedelta(seconds=number)


def test_rows_over_time_are_steps_from_what_was_there_to_the_end() -> None:
    points = [(None, 3), (seconds(2), 5), (seconds(4), 4)]
    (trace,) = charts.rows_over_time(points, START, seconds(9)).data
    assert list(trace.y) == [3, 5, 4, 4]
    assert list(trace.x)[::3] == ["2026-03-23 10:00:00.000000", "2026-03-23 10:00:09.000000"]
    assert trace.line.shape == "hv"
    assert [words for words, _ in trace.customdata] == ["3 rows", "5 rows", "4 rows", "4 rows"]


def change(number: int, operation: str, back: bool = False, *columns: str) -> dict[str, Any]:
    told = [{"column": name, "told": f"<b>{number}"} for name in columns]
    words = "rolled back" if back else "committed"
    return {
        "at": seconds(number),
        "operation": operation,
        "outcome": words,
        "taken_back": back,
        "differences": told,
    }


def test_a_row_has_a_mark_for_every_column_of_every_change() -> None:
    life = [
        change(1, "INSERT", False, "id", "state"),
        change(2, "UPDATE", False, "state"),
        change(3, "UPDATE", True, "state", "<i>x"),
        change(4, "DELETE", False),
        change(5, "UPDATE", False, "state") | {"at": None},
    ]
    figure = charts.row_life(life)
    assert [trace.name for trace in figure.data] == ["INSERT", "UPDATE", "UPDATE, rolled back or undone", "DELETE"]
    assert [len(trace.x) for trace in figure.data] == [2, 1, 2, 1]
    assert figure.data[2].marker.symbol == "circle-open"
    assert figure.layout.yaxis.ticktext[0] == "state  3"
    text = figure.to_json()
    assert "<i>" not in text
    assert "<b>" not in text


def test_the_highest_rate_stands_at_the_top_and_a_name_is_only_a_name() -> None:
    rows = [
        {"table": "t", "column": "a", "different": 1, "compared": 10, "rate": 0.1},
        {"table": "t", "column": "<script>", "different": 9, "compared": 10, "rate": 0.9},
    ]
    figure = charts.difference_rates(rows)
    assert list(figure.data[0].x) == [0.1, 0.9]
    assert figure.layout.yaxis.ticktext[-1] == "t.&lt;script&gt;  9"
    assert "<script>" not in figure.to_json()


def test_delays_are_parted_into_in_time_and_late() -> None:
    rows = [
        {"from_us": None, "to_us": 0, "changes": 1, "late": 0},
        {"from_us": 0, "to_us": 1, "changes": 2, "late": 0},
        {"from_us": 1, "to_us": 1000, "changes": 3, "late": 0},
        {"from_us": 1_000_000, "to_us": 2_000_000, "changes": 5, "late": 4},
        {"from_us": 50_000_000_000, "to_us": None, "changes": 1, "late": 1},
    ]
    figure = charts.delays(rows)
    assert [list(trace.y) for trace in figure.data] == [[1, 2, 3, 1, None], [None, None, None, 4, 1]]
    labels = ["before the source", "none", "under 1 ms", "1 s to 2 s", "from 13 h 53 min 20 s on"]
    assert list(figure.layout.xaxis.ticktext) == labels
    assert len(charts.delays(rows[:3]).data) == 1


def test_differences_are_stacked_over_the_whole_time() -> None:
    nothing = dict.fromkeys(("missing", "extra", "different", "late"), 0)
    rows = [
        {"began_at": START} | nothing | {"missing": 2, "late": 1},
        {"began_at": seconds(5)} | nothing | {"missing": 1},
    ]
    figure = charts.differences_over_time(rows, START, seconds(9), 1_000_000)
    assert {trace.name: list(trace.y) for trace in figure.data} == {"missing": [2, 1], "late": [1]}
    assert list(figure.layout.xaxis.range) == ["2026-03-23 10:00:00.000000", "2026-03-23 10:00:10.000000"]
    assert figure.layout.yaxis.dtick == 1
