"""Charts of concurrency, latency and contents: what is drawn is what the records say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from cdcwb.charts import contents, decisions, latency, masks, reconcile, theme, timeline
from cdcwb.times import TimeAxis, time_of
from cdcwb.words import show_times_in

START = datetime(2026, 3, 23, 10, 0, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_open_transactions_are_steps_with_a_mark_at_the_most() -> None:
    steps = [{"at": at(0), "open": 1}, {"at": at(2.5), "open": 3}, {"at": at(4), "open": 0}]
    figure = timeline.concurrency(steps, 3, at(2.5))
    line, mark = figure.data
    assert line.line.shape == "hv"
    assert (list(line.x), list(line.y)) == (
        ["2026-03-23 10:00:00.000000", "2026-03-23 10:00:02.500000", "2026-03-23 10:00:04.000000"],
        [1, 3, 0],
    )
    assert (list(mark.x), list(mark.y), mark.text[0]) == (["2026-03-23 10:00:02.500000"], [3], "most: 3")
    assert "3 transactions concurrent, the maximum<br>from 2026-03-23 10:00:02.500000 UTC" in mark.hovertemplate
    assert figure.layout.xaxis.title.text == "time (UTC)"


def test_steps_that_stand_for_several_changes_say_so() -> None:
    steps = [{"at": at(0), "open": 4}]
    assert "concurrent at most" in timeline.concurrency(steps, 4, at(0), exact=False).data[0].hovertemplate
    assert "at most" not in timeline.concurrency(steps, 4, at(0)).data[0].hovertemplate


def test_nothing_open_is_an_empty_picture() -> None:
    (line,) = timeline.concurrency([], 0, None).data
    assert len(line.x) == 0


BINS = [
    {"bin": "below 0", "from_us": None, "count": 2},
    {"bin": "0", "from_us": 0, "count": 1},
    {"bin": "1 s", "from_us": 1_000_000, "count": 4},
    {"bin": "2 s", "from_us": 2_000_000, "count": 1},
]


def test_latencies_are_bars_below_the_percentiles_that_they_have() -> None:
    marks = {"p50": 1_500_000, "p95": 2_000_000, "p99": -1, "longest": 0, "none": None}
    figure = latency.latency(BINS, marks, "change", "commit latency")
    (bars,) = figure.data
    assert list(bars.y) == [2, 1, 4, 1]
    assert list(bars.text) == ["p99 -0.000001 s", "longest 0 s", "p50 1.5 s", "p95 2 s"]
    assert bars.customdata[2][0] == "from 1 s to less than 2 s"
    assert bars.customdata[3][0] == "from 2 s on"
    assert bars.customdata[0][0].startswith("below 0")
    assert bars.customdata[2][2] == "50.0% of 8"
    assert list(figure.layout.xaxis.ticktext) == [row["bin"] for row in BINS]
    assert figure.layout.xaxis.title.text == "commit latency"


def test_operations_over_time_are_stacked_in_the_colours_of_the_house() -> None:
    rows = [
        {"began_at": at(0), "operation": "UPDATE", "changes": 3},
        {"began_at": at(0), "operation": "INSERT", "changes": 1},
        {"began_at": at(10), "operation": "UNKNOWN(<b>)", "changes": 2},
        {"began_at": at(10), "operation": "INSERT", "changes": 5},
    ]
    figure = contents.done_over_time(rows, 10_000_000)
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
    figure = contents.ledger([entry(90, 10, 0), entry(50, 0, 7, None)], ["a", "<i>b"])
    assert [trace.name for trace in figure.data] == [
        *("understood (140 bytes)", "filler (10 bytes)", "malformed (7 bytes)"),
    ]
    assert [list(trace.x) for trace in figure.data] == [[90, 50], [10, None], [None, 7]], "no bar is of no length"
    assert list(figure.layout.yaxis.ticktext) == ["a", "&lt;i&gt;b"]


def test_bytes_in_no_event_are_drawn_as_such_and_rows_are_no_bytes() -> None:
    assert [trace.name for trace in contents.ledger([entry(9, none=3)], ["a"]).data] == [
        *("understood (9 bytes)", "in no event (3 bytes)"),
    ]
    rows = contents.ledger([entry(9)], ["a"], "row")
    assert rows.data[0].name == "understood (9 rows)"
    assert rows.layout.xaxis.title.text == "rows"


def test_of_many_files_the_first_are_drawn() -> None:
    names = [f"f{number}" for number in range(contents.MOST_FILES + 3)]
    assert len(contents.ledger([entry(1)] * len(names), names).data[0].y) == contents.MOST_FILES


def test_many_bars_are_drawn_in_traces_of_a_few_hundred_under_one_entry_of_the_legend() -> None:
    """Else plotly.js takes a second for each step of a zoom."""
    row = {"outcome": "committed", "completeness": "complete", "ended_at": at(5), "duration_us": 1, "changes": []}
    row |= {"end_position": f"{9:016X}", "first_position": f"{1:016X}", "tables": [], "bytes": 1, "user": None}
    rows = [row | {"transaction_id": str(number), "began_at": at(number % 5)} for number in range(1001)]
    figure = timeline.timeline(rows)
    for axis in ("x", "x2"):
        bars = [trace for trace in figure.data if trace.type == "bar" and trace.xaxis == axis]
        assert [len(trace.base) for trace in bars] == [400, 400, 201]
        assert [trace.showlegend for trace in bars] == [axis == "x", False, False]
        assert {trace.legendgroup for trace in bars} == {"outcome committed"}
        assert {trace.name for trace in bars} == {"committed (1,001)"}
        assert {trace.width for trace in bars} == {0.8}


COUNTED: dict[str, Any] = {
    "changes": lambda n: contents.done_over_time([{"began_at": START, "operation": "UPDATE", "changes": n}], 1_000_000),
    "operations": lambda n: contents.operations([{"operation": "UPDATE", "outcome": None, "changes": n}]),
    "concurrency": lambda n: timeline.concurrency([{"at": START, "open": n}], n, START),
    "latency": lambda n: latency.latency([{"bin": "1 s", "from_us": 1_000_000, "count": n}], {}, "change", ""),
    "ledger": lambda n: contents.ledger([entry(n)], ["a"], "row"),
    "often": lambda n: masks.often([{"column": "a", "changed": n, "became_null": 0, "updates": n}]),
    "decisions": lambda n: decisions.decisions([{"operation": "a", "decision": "skipped", "rows": n}], "operation", {}),
    "rows": lambda n: reconcile.rows_over_time([(None, 0), (START, n)], START, START),
}


@pytest.mark.parametrize("largest", [1, 3, 7, 13, 24, 47, 99])
@pytest.mark.parametrize("name", COUNTED)
def test_ticks_of_counts_are_whole_numbers_however_wide_the_page(name: str, largest: int) -> None:
    layout = COUNTED[name](largest).layout
    axis = next(one for one in (layout.xaxis, layout.yaxis) if one.rangemode == "tozero")
    assert axis.dtick in (1, 2, 5, 10)
    assert axis.tick0 == 0
    assert 4 <= max(largest / axis.dtick, 4) <= 10


def test_no_bar_of_no_length_is_drawn() -> None:
    rows = [{"column": name, "changed": 3, "became_null": nulls, "updates": 9} for name, nulls in (("a", 0), ("b", 3))]
    assert [list(trace.x) for trace in masks.often(rows).data] == [[3, None], [None, 3]]
    assert list(latency.latency([BINS[2], BINS[3] | {"count": 0}], {}, "change", "").data[0].y) == [4, None]


def bit(number: int, is_set: bool) -> SimpleNamespace:
    return SimpleNamespace(number=number, column=f"c{number}", kind="data", is_set=is_set)


def mask(width: int, are_set: set[int]) -> SimpleNamespace:
    bits = [bit(number, number in are_set) for number in range(width)]
    return SimpleNamespace(mask="FF", changes=3, order="big", bits=bits)


def test_a_small_mask_names_all_of_its_bits() -> None:
    figure = masks.bits([mask(5, {1}), mask(3, {2})])
    assert list(figure.layout.xaxis.ticktext) == ["0 c0", "1 c1", "2 c2", "3 c3", "4 c4"]
    assert [list(row) for row in figure.data[0].z] == [[0, 1, 0, 0, 0], [0, 0, 1, 0, 0]]


def test_a_wide_mask_names_every_bit_that_is_set() -> None:
    figure = masks.bits([mask(1024, {7, 8, 1000}), mask(1024, {1023})])
    assert list(figure.layout.xaxis.ticktext) == [
        *("0 to 6", "7 c7", "8 c8", "9 to 999", "1000 c1000", "1001 to 1022", "1023 c1023"),
    ]
    assert [list(row) for row in figure.data[0].text] == [["", "●", "●", "", "●", "", ""], [*[""] * 6, "●"]]
    assert figure.data[0].customdata[0][3] == "bits 9 to 999: set in no mask"


def test_the_scale_of_columns_that_change_together_ends_at_the_largest_share() -> None:
    pair = {"column": "a", "other": "b", "together": 3, "column_changed": 40, "other_changed": 30}
    (trace,) = masks.together([pair | {"likeness": 3 / 67}]).data
    assert (trace.zmin, trace.zmax) == (0, 3 / 67)
    assert trace.colorbar.dtick == 0.01
    (trace,) = masks.together([pair | {"likeness": 1.0}]).data
    assert (trace.zmax, trace.colorbar.dtick) == (1, 0.2)


def test_bins_have_round_widths_and_begin_at_round_times_of_the_page() -> None:
    begin = datetime(2026, 2, 3, 8, 3, 47, 250_000, tzinfo=UTC)
    start, width = TimeAxis(begin, begin + timedelta(minutes=50)).bins(60)
    assert (time_of(start), width) == (begin.replace(second=0, microsecond=0), 60_000_000)
    show_times_in(ZoneInfo("Asia/Kolkata"), "Asia/Kolkata")
    try:
        start, width = TimeAxis(begin, begin + timedelta(days=50)).bins(60)
    finally:
        show_times_in()
    assert width == 86_400_000_000
    assert time_of(start) == datetime(2026, 2, 2, 18, 30, tzinfo=UTC), "midnight there"
    start, width = TimeAxis(begin, begin + timedelta(days=300)).bins(60)
    assert (time_of(start), width) == (datetime(2026, 2, 2, tzinfo=UTC), 7 * 86_400_000_000), "a Monday"
    assert TimeAxis(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)).bins(60)[1] > 0
