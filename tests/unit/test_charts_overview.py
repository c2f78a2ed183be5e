"""The heatmap of a large capture and the bars of operations, as figures."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cdcwb.charts import contents as charts
from cdcwb.charts import theme

START = datetime(2025, 3, 23, 10, 57, 0, tzinfo=UTC)
ROWS = ("under 1 s", "1 s to 10 s", "rolled back")
WIDTH = 10_000_000


def cell(place: int, row: str, transactions: int) -> dict[str, Any]:
    return {"began_at": START + timedelta(seconds=10 * place), "row": row, "transactions": transactions}


def test_every_bin_between_the_first_and_the_last_has_its_column() -> None:
    figure = charts.begins([cell(0, "under 1 s", 100), cell(3, "rolled back", 1)], ROWS, WIDTH)
    (trace,) = figure.data
    assert list(trace.x) == [f"2025-03-23 10:57:{second:02}" for second in (5, 15, 25, 35)]
    assert list(trace.y) == ["under 1 s", "rolled back"]  # the empty row is left out
    assert [list(row) for row in trace.z] == [[2.0, None, None, None], [None, None, None, 0.0]]


def test_colour_is_the_logarithm_and_the_hover_text_the_number() -> None:
    (trace,) = charts.begins([cell(0, "under 1 s", 183_220)], ROWS, WIDTH).data
    assert trace.z[0][0] == pytest.approx(math.log10(183_220))
    assert trace.text[0][0] == "183,220 transactions<br>under 1 s<br>began from 2025-03-23 10:57:00 UTC<br>for 10 s"
    assert list(trace.colorbar.ticktext) == [
        "1",
        "10",
        "100",
        "1,000",
        "10,000",
        "183,220",
    ]  # none too close to the largest


def test_a_heatmap_of_nothing_is_empty() -> None:
    (trace,) = charts.begins([], ROWS, WIDTH).data
    assert list(trace.x or []) == []


@pytest.mark.parametrize(
    ("largest", "texts"), [(0, []), (1, ["1"]), (7, ["1", "7"]), (1000, ["1", "10", "100", "1,000"])]
)
def test_ticks_of_counts_are_powers_of_ten_and_the_largest(largest: int, texts: list[str]) -> None:
    values, shown = theme.nice_ticks(largest)
    assert shown == texts
    assert [round(10**value) for value in values] == [int(text.replace(",", "")) for text in texts]


def operation(name: str | None, outcome: str | None, changes: int) -> dict[str, Any]:
    return {"operation": name, "outcome": outcome, "changes": changes}


def test_operations_are_stacked_by_outcome_and_sorted_by_their_number() -> None:
    figure = charts.operations(
        [operation("INSERT", "committed", 5), operation("INSERT", "undone", 2), operation("DELETE", "committed", 100)]
    )
    assert [(t.name, list(t.x), list(t.y)) for t in figure.data] == [
        ("committed (105)", [5, 100], [0, 1]),
        ("undone (2)", [2], [0]),
    ]
    assert list(figure.layout.yaxis.ticktext) == ["INSERT  7", "DELETE  100"]


def test_unlisted_operations_and_outcomes_are_grey_and_escaped() -> None:
    figure = charts.operations([operation("UNKNOWN(<b>9</b>)", None, 1)])
    assert figure.layout.yaxis.ticktext[0] == "UNKNOWN(&lt;b&gt;9&lt;/b&gt;)  1"
    assert figure.data[0].name == "in no transaction (1)"
    assert figure.data[0].marker.color == theme.SAFE[10]


def test_no_button_of_a_chart_sends_it_anywhere() -> None:
    buttons = {name for group in theme.CONFIG["modeBarButtons"] for name in group}
    assert "sendChartToCloud" not in buttons
    assert theme.CONFIG["plotlyServerURL"] == ""
    assert theme.CONFIG["displaylogo"] is False
