"""The versions of tables as a figure: what is drawn where, and what the reader is told. Nothing is rendered here."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import plotly.graph_objects as go

from cdcwb.charts.drift import MOST_BARS, MOST_TABLES, version_lanes
from cdcwb.words import show_times_in

START = datetime(2026, 2, 3, 8, 0, 0, 250, tzinfo=UTC)


def version(number: int, table: str = "shop.orders", begin: float | None = 0, lasts: float = 10, **other: Any) -> Any:
    """A version whose rows begin so many seconds after START; without ``begin`` they bear no time."""
    first = None if begin is None else START + timedelta(seconds=begin)
    return {
        "table": table,
        "number": number,
        "table_version": f"{table}@{number}",
        "columns": 5 + number,
        "changes": 40 * number,
        "origin": "record",
        "first_position": f"{number:016X}",
        "last_position": f"{number + 1:016X}",
        "first_at": first,
        "last_at": None if first is None else first + timedelta(seconds=lasts),
        "again": False,
        "schema": number - 1,
        "change": "" if number == 1 else f"+ c{number} integer",
    } | other


def bars(figure: go.Figure, axis: str = "x") -> list[dict[str, Any]]:
    """The bars on an axis, by lane and begin."""
    found = [
        {"base": base, "length": length, "lane": lane, "text": text, "hover": hover, "colour": trace.marker.color}
        for trace in figure.data
        if trace.xaxis == axis and trace.type == "bar"
        for base, length, lane, text, hover in zip(
            trace.base, trace.x, trace.y, trace.text, trace.customdata, strict=True
        )
    ]
    return sorted(found, key=lambda bar: (bar["lane"], bar["base"]))


def test_equal_schemas_have_one_colour_and_a_change_is_marked_with_its_words() -> None:
    same = [version(number, begin=20 * number, schema=0, change="") for number in range(1, 6)]
    figure = version_lanes([*same, version(6, begin=120, schema=1, change="+ discount decimal(9,2)")])
    colours = [bar["colour"] for bar in bars(figure)]
    assert len({*colours[:5]}) == 1
    assert colours[5] not in colours[:5]
    (marked,) = [trace for trace in figure.data if trace.type == "scatter"]
    assert list(marked.text) == ["+ discount decimal(9,2)"]
    assert list(marked.x) == ["2026-02-03 08:02:00.000250"]


def test_a_version_reaches_from_its_first_change_to_its_last_in_the_lane_of_its_table() -> None:
    figure = version_lanes([version(1), version(2, begin=20), version(1, "shop.customer", begin=5)])
    found = bars(figure)
    assert [(bar["base"], bar["length"], bar["lane"]) for bar in found] == [
        ("2026-02-03 08:00:00.000250", 10_000, 0),
        ("2026-02-03 08:00:20.000250", 10_000, 0),
        ("2026-02-03 08:00:05.000250", 10_000, 1),
    ]
    assert list(figure.layout.yaxis.ticktext) == ["shop.orders", "shop.customer"]
    assert list(figure.layout.yaxis.tickvals) == [0, 1]
    assert figure.layout.xaxis.title.text == "time, 2026-02-03 (UTC)"
    assert found[0]["colour"] != found[1]["colour"]


def test_the_hover_text_tells_changes_columns_times_position_and_origin() -> None:
    (bar,) = bars(version_lanes([version(2, again=True)]))
    assert bar["text"] == "2: shop.orders@2"
    assert list(bar["hover"]) == [
        "<b>shop.orders</b>, version 2, in force again",
        "shop.orders@2",
        "80 changes, 7 columns<br>schema change: + c2 integer",
        "2026-02-03 08:00:00.000250 UTC to 2026-02-03 08:00:10.000250 UTC",
        "log position 0000000000000002",
        "known from: record",
    ]


def test_versions_whose_times_overlap_stand_in_lanes_of_their_own_below_one_name() -> None:
    figure = version_lanes([version(1, lasts=30), version(2, begin=20), version(1, "b")])
    assert [bar["lane"] for bar in bars(figure)] == [0, 1, 2]
    assert list(figure.layout.yaxis.tickvals) == [0.5, 2]


def test_versions_without_times_stand_on_an_axis_of_positions_and_those_without_rows_are_counted() -> None:
    rows = [version(1), version(2, begin=None), version(3, begin=None, first_position=None, last_position=None)]
    figure = version_lanes(rows)
    assert len(bars(figure)) == 1
    (placed,) = bars(figure, "x2")
    assert (placed["base"], placed["length"]) == (0.0, 1.0)
    assert "have no time" in figure.layout.xaxis2.title.text
    assert figure.layout.xaxis2.type == "linear"
    meta = figure.layout.meta
    assert (meta["bars"], meta["on_time"], meta["on_positions"], meta["without_rows"]) == (2, 1, 1, 1)


def test_no_rows_at_all_are_said_instead_of_drawn() -> None:
    figure = version_lanes([version(1, begin=None, first_position=None, last_position=None)])
    assert [note.text for note in figure.layout.annotations] == ["no version has rows"]
    assert version_lanes([]).layout.meta["versions"] == 0


def test_thousands_of_versions_are_drawn_in_part_and_the_figure_says_how_many() -> None:
    rows = [version(number, f"t{number % 90}", begin=number) for number in range(1, 5401)]
    figure = version_lanes(rows)
    meta = figure.layout.meta
    assert (meta["tables"], meta["all_tables"], meta["versions"]) == (MOST_TABLES, 90, 5400)
    assert meta["bars"] == len(bars(figure)) == MOST_BARS
    assert len(json.dumps(figure.to_plotly_json(), default=str)) < 1_000_000


def test_a_version_of_one_instant_is_wide_enough_to_be_seen() -> None:
    found = bars(version_lanes([version(1, lasts=0), version(2, begin=400, lasts=0)]))
    assert all(bar["length"] >= 1000 for bar in found)


def test_a_bar_is_as_thick_as_its_lane_however_far_apart_the_lanes_of_its_colour_are() -> None:
    rows = [version(1, name) for name in "abcdef"] + [version(2, name, begin=20) for name in "af"]
    assert {trace.width for trace in version_lanes(rows).data if trace.type == "bar"} == {0.56}


def test_a_bar_ends_where_the_next_version_of_its_table_begins() -> None:
    found = bars(version_lanes([version(1, lasts=0), version(2, begin=0.001, lasts=4000)]))
    assert [bar["length"] for bar in found] == [1, 4_000_000]
    assert version_lanes([version(1)]).layout.yaxis.fixedrange


def test_times_are_those_of_the_zone_that_is_shown() -> None:
    show_times_in(timezone(timedelta(hours=8)), "+08:00", START, START)
    try:
        figure = version_lanes([version(1)])
    finally:
        show_times_in()
    assert bars(figure)[0]["base"] == "2026-02-03 16:00:00.000250"
    assert figure.layout.xaxis.title.text == "time, 2026-02-03 (+08:00)"
    assert "16:00:00.000250 +08:00" in bars(figure)[0]["hover"][3]


def test_captured_names_are_shown_and_never_obeyed() -> None:
    evil = "<b>x</b><img src=x onerror=alert(1)>%{x}"
    text = json.dumps(version_lanes([version(1, evil, origin=evil, table_version=evil)]).to_plotly_json(), default=str)
    assert "<img" not in text
    assert "<b>x" not in text
    assert "&lt;b&gt;x" in text
