"""The pages of notebooks about captures that are open: rows, their history, and two captures side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cdcwb
from cdcwb.analysis.history import value_text
from cdcwb.errors import OptionError
from cdcwb.report.answer import Answer
from cdcwb.report.facts import headline
from cdcwb.views.pages import EventLog, History, Replay
from cdcwb.views.view import Panel
from tests.reports import DATA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdcwb.capture import Capture


@pytest.fixture(scope="module")
def capture(spark: SparkSession) -> Capture:
    return cdcwb.load(str(DATA / "qlik-kafka"))


def sheet(panel: Any) -> Answer:
    assert isinstance(panel, Answer)
    return panel


def test_the_history_of_a_row_has_its_changes_values_and_states(capture: Capture) -> None:
    page = History.of(capture, table="shop.orders")
    facts = sheet(page.overview()).facts
    name, _, value = facts["history_key"].partition("=")
    truth = capture.history("shop.orders", {name: value}).collect()
    assert len(truth) == facts["history_changes"] > 2
    assert sheet(page.changes()).frame["operation"].tolist() == [row["operation"] for row in truth]
    values = sheet(page.values()).frame
    assert len(values) == sum(len(row["differences"]) for row in truth)
    updated = values[values["operation"] == "UPDATE"]
    assert len(updated) > 0
    assert (updated["old"] != updated["new"]).all()
    last = sheet(page.states()).frame.iloc[-1]
    (state,) = [row["row"] for row in capture.state("shop.orders").collect() if row["key"][name] == value]
    assert state.keys() <= set(last.index)
    assert {column: last[column] for column in state} == {column: value_text(state[column]) for column in state}
    said = headline(facts)
    assert said.startswith(f"shop.orders {name}={value}: {len(truth)} changes, inserted at 2026-02-03 08:0")
    again = capture.view.history.overview(table="orders", key={name: value})
    assert sheet(again).facts["history_changes"] == len(truth)


def test_a_key_that_names_no_column_is_an_error(capture: Capture) -> None:
    with pytest.raises(OptionError, match="has a column 'order_no'"):
        History.of(capture, table="shop.orders", key={"order_no": "1"})


def test_two_open_captures_are_compared(capture: Capture) -> None:
    page = capture.view.reconcile(cdcwb.load(str(DATA / "qlik-change-table")))
    facts = sheet(page.side_by_side()).facts
    assert (facts["reconcile_same"], facts["reconcile_missing"], facts["reconcile_extra"]) == (319, 8, 2)
    assert facts["reconcile_missing_by_reason"] == {"no_op_update": 7, "duplicate": 1}
    # the source's last message of a partition is cut off, and an event of a transaction was lost
    assert facts["reconcile_extra_by_reason"] == {"unreadable": 1, "transaction_gap": 1}
    differences = sheet(page.differences()).frame
    (moved,) = differences[differences["reason"] == "duplicate"]["sentence"]
    assert moved == "order_id: from 474 to 2769"


def test_a_key_that_is_inferred_serves_replay_and_history_and_is_marked(spark: SparkSession) -> None:
    unkeyed = cdcwb.load(str(DATA / "gbase8s"))
    for page in (Replay.of(unkeyed), unkeyed.view.history()):
        assert any("Its key is inferred" in note for note in page.notes)
        assert page.history is not None
        assert page.history.changes > 1


def test_a_page_with_nothing_to_show_says_why_once_and_its_panels_are_empty(capture: Capture) -> None:
    nothing = capture.filter(time_from="2099-01-01T00:00:00Z")
    pages = [Replay.of(nothing), History.of(nothing), EventLog.of(nothing)]
    shown = []
    for page in pages:
        named = [name for name in page.panels() if name not in ("overview", "reading", "problems", "publishing")]
        shown.append([name for name in named if not sheet(getattr(page, name)()).is_empty])
        assert not sheet(page.overview()).is_empty
        assert next(iter(page.panels())) == "overview"
    # of one capture, what a second one would have to be is said where it would be
    assert shown == [["side_by_side"], [], []]


PAGES_OF = {
    "qlik-kafka": ("capture", "history"),
    "qlik-change-table": ("transactions",),
    "gbase8s": ("masks",),
    "goldengate": ("drift",),
    "idm-event-log": ("event_log",),
    "debezium": ("transactions", "capture"),
}


@pytest.mark.parametrize("name", PAGES_OF)
def test_rows_of_live_pages_lead_to_the_record_that_they_name(
    spark: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CDCWB_CACHE", str(tmp_path))
    capture = cdcwb.load(str(DATA / name))
    index = capture.view.bench.source.index
    files = {str(entry["file"]): entry["file_index"] for entry in index.files}
    found = dict.fromkeys(("file", "position", "record_id", "table", "transaction"), 0)
    for page in PAGES_OF[name]:
        views = getattr(capture.view, page)
        asked = views._page()
        monkeypatch.setenv("CDCWB_VIEWS", "live")
        made = {panel: getattr(asked, panel)() for panel in asked.panels()}
        bench = capture.view.bench
        sheets = [one if isinstance(one, Answer) else Panel(type(asked), name).ask(bench) for name, one in made.items()]
        monkeypatch.setenv("CDCWB_VIEWS", "static")
        for sheet in sheets:
            for table in sheet.tables:
                for row in sheet.linked(table.rows):
                    record = row["record"]
                    position = row.get("position") or row.get("first_position")
                    if table.rows and "record" in table.rows[0]:  # the first one of a table or of a transaction
                        about = "table" if "table" in row else "transaction"
                        assert index.row(record)[about] == row.get("transaction_id", row.get("table")), row
                        found[about] += 1
                    elif row.get("file") in files and row.get("offset") is not None:
                        assert record == index.at(files[row["file"]], row["offset"]), row
                        found["file"] += 1
                    elif position is not None:
                        assert index.row(record)["position"] == position, row
                        found["position"] += 1
                    elif row.get("record_id") is not None:
                        assert int(index.row(record)["record_id"]) == row["record_id"], row
                        found["record_id"] += 1
    named = {"qlik-change-table": "position", "goldengate": "position", "idm-event-log": "record_id"}.get(name, "file")
    assert found[named] >= 5


def test_differences_lead_to_the_record_in_the_capture_that_has_them(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CDCWB_CACHE", str(tmp_path))
    monkeypatch.setenv("CDCWB_VIEWS", "live")
    sides = [cdcwb.load(str(DATA / name)) for name in ("qlik-kafka", "qlik-change-table")]
    page = sides[0].view.reconcile(sides[1], rules='{"late_after": "1 s"}')
    answer = page.differences()
    assert isinstance(answer, Answer)
    (table,) = answer.tables
    leads = [(column, links.capture, links.find(named)) for column, (links, named) in table.cells.items()]
    assert [(column, name) for column, name, _ in leads] == [
        (f"{side}_position", one.view.bench.name) for side, one in zip(("source", "target"), sides, strict=True)
    ]
    found = dict.fromkeys(("missing", "extra", "both"), 0)
    for number, row in enumerate(table.rows):
        records = []
        for side, capture, (*_, lead) in zip(("source", "target"), sides, leads, strict=True):
            record, index = lead[number], capture.view.bench.source.index
            records.append(record)
            if record is not None:
                place = str(index.file_of(record)["file"]), index.number("offset", record)
                assert place == (row[f"{side}_file"], row[f"{side}_offset"])
        what = {(True, False): "missing", (False, True): "extra", (True, True): "both"}
        found[what[records[0] is not None, records[1] is not None]] += 1
        if row["what"] in ("missing", "extra"):
            assert what[records[0] is not None, records[1] is not None] == row["what"]
    assert (found["missing"], found["extra"]) == (8, 2)
