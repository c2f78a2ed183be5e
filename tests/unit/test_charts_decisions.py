"""Decisions as figures: counts that add up, marks that stand where their rows do, text that cannot act as HTML."""

from __future__ import annotations

from typing import Any

from cdcwb.charts import decisions as charts
from cdcwb.charts.decisions import LOOKS
from cdcwb.xds import Decision

NAMES: dict[Any, str] = {
    1: "1 insert field",
    2: "2 update field",
    6: "6 update row (query-back)",
    None: "none of the 8",
}


def counted(event_type: int | None, decision: str, rows: int) -> dict[str, Any]:
    return {"event_type": event_type, "decision": decision, "rows": rows}


def row(record_id: int | None, place: int = 1, of: int = 1, **changed: Any) -> dict[str, Any]:
    return {
        "table_name": "usr",
        "table_key": "idu=1",
        "of": of,
        "place": place,
        "record_id": record_id,
        "event_type": 2,
        "column_name": "fname",
        "decision": "published",
        "reason": "published in document 1",
        "document": 1,
        "event_time": "2026-11-09 07:15:02",
    } | changed


COUNTS = [
    counted(1, "published", 1200),
    counted(1, "skipped", 3),
    counted(6, "published", 2),
    counted(None, "invalid", 1),
]


def test_every_decision_has_a_colour_a_pattern_and_a_symbol_of_its_own() -> None:
    looks = [LOOKS[decision] for decision in Decision]
    assert len({look.colour for look in looks}) == len({look.pattern for look in looks}) == len(looks)
    symbols = {name: look.symbol for name, look in LOOKS.items() if look.symbol}
    assert set(symbols) == set(Decision)
    assert len(set(symbols.values())) == len(symbols)


def test_bars_are_as_long_as_their_rows_and_say_of_how_many() -> None:
    figure = charts.decisions(COUNTS, "event_type", NAMES)
    assert [trace.name for trace in figure.data] == ["published (1,202)", "skipped (3)", "invalid (1)"]
    assert list(figure.data[0].x) == [1200, 2]
    assert list(figure.data[0].customdata[0]) == ["1 insert field", "1,200 of 1,203 rows"]
    texts = dict(zip(figure.layout.yaxis.tickvals, figure.layout.yaxis.ticktext, strict=True))
    assert texts == {2: "1 insert field  1,203", 1: "6 update row (query-back)  2", 0: "none of the 8  1"}


def test_what_has_no_words_stands_under_its_own_escaped_name() -> None:
    figure = charts.decisions(
        [{"operation": "<b>x", "decision": "left_out", "rows": 1}, {"operation": None, "decision": "<i>", "rows": 1}],
        "operation",
        {},
        "change",
    )
    assert list(figure.layout.yaxis.ticktext) == ["none  1", "&lt;b&gt;x  1"]  # from the bottom
    assert [trace.name for trace in figure.data] == ["left out (1)", "&lt;i&gt; (1)"]
    assert figure.data[0].customdata[0][1] == "1 of 1 change"


def test_a_history_has_a_mark_for_every_row_with_its_type_and_ends_in_what_is_left_out() -> None:
    rows = [row(5, 1, 9, event_type=1), row(6, 2, 9), row(None, 1, event_type=None, table_key="idu=2")]
    marks, more = charts.histories(rows, NAMES).data
    assert list(marks.text) == ["1", "2", "?"]
    assert list(marks.x) == [1, 2, 1]
    assert list(more.text) == ["+ 7"]


def test_hover_text_says_which_row_it_is_what_it_did_and_why() -> None:
    (trace,) = charts.histories([row(1234, 3, 3)], NAMES).data
    assert list(trace.customdata[0]) == [
        "1,234",
        "event type 2 update field, column fname",
        "usr, idu=1, row 3 of 3",
        "event_time 2026-11-09 07:15:02",
        "published in document 1",
    ]


def test_captured_text_is_shown_and_not_obeyed() -> None:
    hostile = '"><img src=x onerror=alert(1)>'
    names = ("table_name", "table_key", "column_name", "reason", "event_time")
    rows = [row(1) | dict.fromkeys(names, hostile)]
    assert "<img" not in charts.histories(rows, NAMES).to_json().replace("\\u003c", "<")


def test_figures_of_nothing_say_so() -> None:
    assert charts.histories([], NAMES).layout.annotations[0].text == "no rows"
    assert list(charts.decisions([], "event_type", NAMES).data) == []
