"""The timeline as a figure: what is drawn where, and what the reader is told. Nothing is rendered here."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import plotly.graph_objects as go
import pytest

from cdcwb.charts import theme
from cdcwb.charts import timeline as charts
from cdcwb.charts.spans import least_share

START = datetime(2025, 3, 23, 10, 57, 19, tzinfo=UTC)
SECOND = 1_000_000


def transaction(
    number: int = 39, begin: int | None = 0, lasts_us: int | None = SECOND, outcome: str = "committed", **other: Any
) -> dict[str, Any]:
    """A transaction that begins ``begin`` microseconds after START; without ``lasts_us`` it has no time of its end."""
    first = f"{0x0B01746018 + number * 0x1000:016X}"
    began = None if begin is None else START + timedelta(microseconds=begin)
    ended = None if began is None or lasts_us is None else began + timedelta(microseconds=lasts_us)
    return {
        "transaction_id": f"{number}@{first}",
        "outcome": outcome,
        "completeness": "no_end" if outcome == "open" else "complete",
        "first_position": first,
        "end_position": None if outcome == "open" else f"{int(first, 16) + 0x800:016X}",
        "began_at": began,
        "ended_at": ended,
        "duration_us": lasts_us,
        "changes": [("INSERT", 2), ("UPDATE", 1)],
        "tables": ["shop.orders"],
        "bytes": 700,
        "user": "2005",
    } | other


def bars(figure: go.Figure, axis: str = "x") -> list[Any]:
    return [trace for trace in figure.data if trace.type == "bar" and trace.xaxis == axis]


def marks(figure: go.Figure, axis: str = "x") -> dict[str, list[Any]]:
    return {trace.name: list(trace.x) for trace in figure.data if trace.type == "scatter" and trace.xaxis == axis}


def test_a_bar_reaches_from_begin_to_end() -> None:
    figure = charts.timeline([transaction(1, 0, 5 * SECOND), transaction(2, 10 * SECOND, 2_500_250)])
    (trace,) = bars(figure)
    assert list(trace.base) == ["2025-03-23 10:57:19.000000", "2025-03-23 10:57:29.000000"]
    assert list(trace.x) == [5000, 2500.25]  # milliseconds, as plotly counts time
    assert figure.layout.xaxis.type == "date"
    assert figure.layout.xaxis.title.text == "time, 2025-03-23 (UTC)"


def test_a_microsecond_is_wide_enough_to_be_seen_and_keeps_its_true_duration_in_the_hover_text() -> None:
    figure = charts.timeline([transaction(1, 0, 1), transaction(2, 0, 400 * SECOND)])
    (trace,) = bars(figure)
    assert trace.x[0] == 400 * 1000 * least_share(2)
    assert trace.customdata[0][3] == "0.000001 s"
    assert figure.layout.meta["widened"] == 1


def test_there_are_as_many_lanes_as_transactions_open_at_once_however_short_they_are() -> None:
    short = [transaction(n, n * 2000, 1000) for n in range(35)]
    figure = charts.timeline([transaction(99, 0, 400 * SECOND), *short])
    assert figure.layout.meta["time_lanes"] == 2
    drawn = sorted((bar, start) for trace in bars(figure) for start, bar in zip(trace.base, trace.x, strict=True))
    assert [length for length, _ in drawn[:34]] == [2] * 34  # milliseconds: up to the next bar of the lane
    assert drawn[34][0] == 400 * 1000 * least_share(36)


def test_a_box_looks_closer_at_a_part_of_the_axis_in_all_lanes() -> None:
    figure = charts.timeline([transaction(1), transaction(2)])
    assert figure.layout.yaxis.fixedrange
    assert figure.layout.yaxis2.fixedrange
    assert not figure.layout.xaxis.fixedrange


def test_bars_are_two_pixels_wide_at_least_or_one_where_there_are_thousands() -> None:
    page = 1000  # pixels
    assert least_share(1) * page == least_share(500) * page == 2.5
    assert 0.8 < least_share(5000) * page < 1


def test_the_axis_of_time_names_its_days_and_whole_seconds_as_such() -> None:
    figure = charts.timeline([transaction(1, 0, 0)])
    assert figure.layout.xaxis.title.text == "time, 2025-03-23 (UTC), in whole seconds"
    over_midnight = charts.timeline([transaction(1, 0, 0), transaction(2, 14 * 3600 * SECOND, 0)])
    assert over_midnight.layout.xaxis.title.text == "time, 2025-03-23 to 2025-03-24 (UTC), in whole seconds"
    assert bars(figure)[0].customdata[0][3] == "0 s (times are whole seconds)"


def test_the_axis_of_log_positions_tells_transactions_of_one_second_apart() -> None:
    figure = charts.timeline([transaction(n, 0, 0) for n in range(3)])
    (trace,) = bars(figure, "x2")
    assert list(trace.base) == [0, 0x1000, 0x2000]
    assert list(trace.x) == [0x800] * 3
    ticks = figure.layout.xaxis2
    assert len(ticks.tickvals) > 2
    assert list(ticks.ticktext) == [f"{0x0B01746018 + place:016X}" for place in ticks.tickvals]
    assert figure.layout.meta["position_lanes"] == 1
    assert figure.layout.meta["time_lanes"] == 3


def test_no_log_position_is_ever_a_number() -> None:
    figure = charts.timeline([transaction(1, first_position="FFFFFFFFFFFFFFF0", end_position="FFFFFFFFFFFFFFFF")])
    (trace,) = bars(figure, "x2")
    assert list(trace.x) == [15]
    assert list(trace.customdata[0][4:6]) == ["FFFFFFFFFFFFFFF0", "FFFFFFFFFFFFFFFF"]


def test_an_open_transaction_reaches_to_the_end_of_the_capture_and_is_marked_there() -> None:
    figure = charts.timeline(
        [transaction(1, 0, None, "open")],
        capture_end=START + timedelta(seconds=60),
        last_position="0000000B01749018",
    )
    assert list(bars(figure)[0].x) == [60_000]
    assert list(bars(figure, "x2")[0].x) == [0x2000]
    assert marks(figure) == {"still open when the capture ends": ["2025-03-23 10:58:19.000000"]}
    assert marks(figure, "x2") == {"still open when the capture ends": [0x2000]}
    assert list(bars(figure)[0].customdata[0][2:4]) == ["still open when the capture ends", "at least 1 min 0 s"]


def test_a_rollback_without_time_is_not_given_one() -> None:
    figure = charts.timeline([transaction(1, 0, None, "rolled_back"), transaction(2, 0, 60 * SECOND)])
    rolled_back = next(trace for trace in bars(figure) if trace.name.startswith("rolled back"))
    assert list(rolled_back.x) == [60_000 * least_share(2)]  # only to be seen
    assert list(rolled_back.customdata[0][2:4]) == [
        "end time not in the stream",
        "not known: end time not in the stream",
    ]
    assert marks(figure) == {"end time not in the stream": ["2025-03-23 10:57:19.000000"]}
    assert marks(figure, "x2") == {}  # its place in the log is known
    assert list(next(t for t in bars(figure, "x2") if t.name.startswith("rolled back")).x) == [0x800]


def test_a_transaction_without_begin_is_marked_where_it_is_first_seen() -> None:
    row = transaction(1, None, None, "open", completeness="no_begin", ended_at=START)
    row["end_position"] = "0000000B01748018"
    figure = charts.timeline([row])
    assert marks(figure) == {"begin not in the capture": ["2025-03-23 10:57:19.000000"]}
    assert marks(figure, "x2") == {"begin not in the capture": [0]}
    assert bars(figure)[0].customdata[0][1] == "begin not in the capture"
    assert bars(figure)[0].customdata[0][3] == "not known: begin not in the capture"


def committed(completeness: str, end: str | None = "20260203080005550000000000000000021") -> dict[str, Any]:
    row = transaction(1, 0, 10 * SECOND, completeness=completeness)
    return row | {"first_position": "20260203080005550000000000000000017", "end_position": end}


def test_a_committed_transaction_that_is_not_whole_is_marked_with_what_is_missing() -> None:
    gaps = charts.timeline([committed("gaps")])
    assert marks(gaps) == {"events missing": ["2025-03-23 10:57:24.000000"]}
    assert marks(gaps, "x2") == {"events missing": [0]}
    assert bars(gaps)[0].customdata[0][10] == bars(gaps, "x2")[0].customdata[0][10] == ", events missing"
    no_begin = charts.timeline([committed("no_begin")])
    assert marks(no_begin) == {"begin not in the capture": ["2025-03-23 10:57:19.000000"]}
    assert marks(no_begin, "x2") == {"begin not in the capture": [0]}
    no_end = charts.timeline([committed("no_end", end=None)], last_position="20260203080005550000000000000000099")
    assert marks(no_end) == {"end not in the capture": ["2025-03-23 10:57:29.000000"]}
    assert marks(no_end, "x2") == {"end not in the capture": [0]}  # not drawn to the capture's end: it is not open
    assert bars(no_end, "x2")[0].customdata[0][10] == ", end not in the capture"
    for completeness in ("complete", "unknown"):
        figure = charts.timeline([committed(completeness)])
        assert marks(figure) == marks(figure, "x2") == {}
        assert bars(figure)[0].customdata[0][10] == ""


def test_change_sequences_are_short_on_the_axis_and_whole_in_the_hover() -> None:
    figure = charts.timeline([committed("complete")])
    (trace,) = bars(figure, "x2")
    assert list(trace.customdata[0][4:6]) == [
        "20260203080005550000000000000000017",
        "20260203080005550000000000000000021",
    ]
    axis = figure.layout.xaxis2
    assert list(axis.ticktext) == ["08:00:05.55<br>…0017", "08:00:05.55<br>…0021"]
    assert axis.title.text == "log position, 2026-02-03: commit time and end of the change number (order in the log)"


def test_what_a_transaction_takes_is_told_in_the_unit_of_the_capture() -> None:
    assert bars(charts.timeline([transaction(1, bytes=3)]))[0].customdata[0][7] == "3 bytes"
    assert bars(charts.timeline([transaction(1, bytes=3)], unit="row"))[0].customdata[0][7] == "3 rows"


def test_what_has_no_place_on_an_axis_is_counted_instead_of_drawn() -> None:
    timeless = transaction(1, None, None, "open")
    placeless = transaction(2, first_position=None, end_position=None)
    meta = charts.timeline([timeless, placeless]).layout.meta
    assert (meta["drawn"], meta["on_time"], meta["on_positions"]) == (2, 1, 1)


def test_without_any_time_only_the_log_is_drawn_and_the_other_way_round() -> None:
    log_only = charts.timeline([transaction(1, None, None, "rolled_back")])
    assert {trace.xaxis for trace in log_only.data} == {"x"}
    assert log_only.layout.xaxis.title.text == "log position (bytes of log)"
    time_only = charts.timeline([transaction(1, first_position=None, end_position=None)])
    assert {trace.xaxis for trace in time_only.data} == {"x"}
    assert time_only.layout.xaxis.type == "date"


def test_an_empty_timeline_says_so() -> None:
    figure = charts.timeline([])
    assert [a.text for a in figure.layout.annotations] == ["no transactions"]
    assert figure.layout.meta["drawn"] == 0


def test_times_at_both_ends_of_the_calendar_are_drawn() -> None:
    first = transaction(1, began_at=datetime.min.replace(tzinfo=UTC), ended_at=datetime.max.replace(tzinfo=UTC))
    (trace,) = bars(charts.timeline([first]))
    assert trace.base[0] == "0001-01-01 00:00:00.000000"


def test_an_end_before_the_begin_is_told_and_drawn_at_the_begin() -> None:
    (trace,) = bars(charts.timeline([transaction(1, 10 * SECOND, -4 * SECOND)]))
    assert trace.base[0] == "2025-03-23 10:57:29.000000"
    assert trace.customdata[0][3].startswith("-4 s")


def test_every_outcome_has_its_own_colour_and_pattern() -> None:
    looks = list(theme.OUTCOMES.values())
    assert len({look.colour for look in looks}) == len({look.pattern for look in looks}) == len(looks)
    operations = list(theme.OPERATIONS.values())
    assert len({look.colour for look in operations}) == len({look.pattern for look in operations}) == len(operations)
    assert {look.colour for look in looks + operations} <= set(theme.SAFE)


def test_legend_names_each_outcome_once_with_its_number() -> None:
    figure = charts.timeline([transaction(1), transaction(2), transaction(3, 0, None, "rolled_back")])
    shown = [trace.name for trace in figure.data if trace.showlegend]
    assert shown == ["committed (2)", "rolled back (1)", "end time not in the stream"]


def test_captured_markup_is_shown_instead_of_obeyed() -> None:
    hostile = '"><img src=x onerror=alert(1)><b>&amp;'
    row = transaction(1, transaction_id=hostile, tables=[hostile], user="<script>x</script>", outcome="<i>odd</i>")
    row |= {"first_position": hostile, "end_position": hostile, "changes": [("UNKNOWN(<b>)", 1)]}
    text = charts.timeline([row]).to_json()
    for part in json.loads(text)["data"]:
        captured = json.dumps([part["name"], part["customdata"]])
        assert "<" not in captured
        assert ">" not in captured
    assert "&lt;script&gt;" in text


@pytest.mark.parametrize("hostile", ["<" * 500, "中" * 500, "\u202e" * 500, "\U0001f600" * 500])
def test_five_thousand_transactions_with_hostile_names_leave_room_for_plotly_in_8_mb(hostile: str) -> None:
    names = {"transaction_id": hostile, "tables": [hostile] * 9, "user": hostile}
    names |= {"changes": [(hostile, 1)], "first_position": hostile}
    rows = [transaction(n, n * SECOND, None, "open", **names) for n in range(5000)]
    figure = charts.timeline(rows)
    assert figure.layout.meta["drawn"] == 5000
    assert (
        len(json.dumps(json.loads(figure.to_json()), ensure_ascii=False, separators=(",", ":")).encode())
        < 8_000_000 - 4_840_000 - 500_000
    )


def test_a_single_transaction_is_a_bar_and_no_wall() -> None:
    figure = charts.timeline([transaction(1, 0, 0)])
    low, high = figure.layout.xaxis.range
    assert high - low >= 1000  # milliseconds: the clock tells no less
    (bar,) = bars(figure)
    assert bar.x[0] < (high - low) / 100
    bottom, top = figure.layout.yaxis.range
    assert bottom - top >= 3  # lanes


@pytest.mark.parametrize("lanes", [1, 40, 3000])
def test_the_height_stays_that_of_a_page(lanes: int) -> None:
    figure = charts.timeline([transaction(n, 0, SECOND) for n in range(lanes)])
    assert 200 < figure.layout.height < 1200
