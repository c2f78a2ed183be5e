"""What a view shows, live and on paper, and what its widget does when somebody drags, clicks and types."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ipywidgets
import pandas as pd
import pytest

from cdcwb.errors import CaptureError, OptionError
from cdcwb.explore.model import Explorer
from cdcwb.explore.widget import ExplorerWidget
from cdcwb.index.source import IndexedCapture, open_source
from cdcwb.report import show
from cdcwb.report.answer import FIRST_ROWS, note
from cdcwb.times import time_of
from cdcwb.views import PAGES, Views
from cdcwb.views.card import card
from cdcwb.views.pages.transactions import Transactions
from cdcwb.views.view import Panel, View, is_live
from cdcwb.views.widget import PageWidget, page
from tests.saved_capture import write_saved

SCRIPT = resources.files("cdcwb.views").joinpath("page.js").read_text(encoding="utf-8")


class Capture:
    """What a view asks of a capture beside its index."""

    format = "qlik-kafka"
    files = ({"file": "made-up.bin", "size": 1000},)
    place = saved_in = None
    view: Views


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> IndexedCapture:
    return open_source(write_saved(tmp_path_factory.mktemp("made") / "capture", changes=1500, transactions=200))


@pytest.fixture
def views(source: IndexedCapture) -> Views:
    capture = Capture()
    found = Views(capture)  # type: ignore[arg-type]
    found.bench.__dict__["source"] = source
    capture.view = found
    return found


class Page:
    """A live page without a browser: what the kernel sends to it, by panel and in order."""

    def __init__(self, view: View) -> None:
        (self.widget,) = page(view).children
        assert isinstance(self.widget, PageWidget)
        self.heard: list[dict[str, Any]] = []
        self.figures: dict[str, dict[str, Any]] = {}
        self.sent: list[str] = []  # the panels whose figures were sent
        self.widget.send = self.heard.append
        self.widget.observe(self.hear)
        self.do("open")
        for name in self.widget._panels:
            self.do("seen", panel=name, on=True)

    def hear(self, change: Any) -> None:
        kind, _, number = change["name"].partition("_")
        names = [*self.widget._panels]
        if kind == "wrong" and change["new"]:
            self.heard.append({"wrong": change["new"]})
        if kind == "figures" and change["new"] != b"[]":
            self.sent.append(names[int(number)])
        if kind == "panel":
            self.heard.append(json.loads(json.dumps(change["new"])))
            shapes = [block["shapes"] for block in change["new"]["blocks"] if block["kind"] == "figure"]
            if shapes:
                name = names[int(number)]
                self.figures[name] = json.loads(json.loads(getattr(self.widget, f"figures_{number}"))[0])
                self.figures[name]["layout"] |= {"shapes": shapes[0]}

    def do(self, step: str, **about: Any) -> list[dict[str, Any]]:
        self.heard.clear()
        self.widget._heard(None, {"do": step, **about}, [])
        return self.heard

    def panel(self, name: str) -> dict[str, Any]:
        return [one for one in self.heard if one.get("panel") == name][-1]

    def table(self, name: str) -> dict[str, Any]:
        return next(block for block in self.panel(name)["blocks"] if block["kind"] == "table")

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows that the first table of a panel shows."""
        answer = self.widget._answers[name]
        return answer.tables[0].first(answer.state.rows.get(0, FIRST_ROWS), answer.state.orders.get(0))

    @property
    def controls(self) -> dict[str, Any]:
        return dict(self.widget.bar)


@pytest.mark.parametrize("name", [name for name, (*_, panels) in PAGES.items() if panels])
def test_every_panel_of_a_page_answers(views: Views, name: str) -> None:
    view = getattr(views, name)()
    for panel, answer in view.answers().items():
        assert answer.blocks, panel
        json.dumps(answer.facts, default=str)
        assert all(set(table.columns) <= set(row) for table in answer.tables for row in table.rows)
    assert view.headline


def test_a_panel_is_asked_for_alone_and_gone_on_with(views: Views) -> None:
    timeline = views.transactions.timeline()
    assert [panel.key for panel in timeline.panels] == ["transactions.timeline"]
    assert timeline.figure.layout.meta["drawn"] == 200
    assert timeline.facts["transactions"] == 200
    frame = views.transactions.longest().frame
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == 10
    assert "timeline" in dir(views.transactions)
    assert {"transactions", "masks", "explore"} <= set(dir(views))
    with pytest.raises(AttributeError, match="this page has no panel 'lanes'; there are: overview, timeline"):
        views.transactions.lanes()
    with pytest.raises(OptionError, match="no figure"):
        _ = views.problems.problems().figure


def test_views_share_the_selection(views: Views) -> None:
    before = views.masks().facts["updates"]
    views.bench.selection.update(tables=["shop.orders"])
    assert 0 < views.masks().facts["updates"] < before
    assert list(views.capture.tables().facts["tables"]) == ["shop.orders"]
    assert views.transactions().facts["transactions"] < 200


def test_a_brush_narrows_the_rest_and_leaves_its_own_figure(views: Views) -> None:
    live = Page(views.transactions())
    whole = live.figures["transactions.timeline"]
    spans = views.bench.changes.span
    assert spans is not None
    low, high = (time_of(int(spans[0] + (spans[1] - spans[0]) * part)) for part in (0.4, 0.5))
    live.do("brush", panel="transactions.timeline", x=[str(low.replace(tzinfo=None)), str(high.replace(tzinfo=None))])
    selection = views.bench.selection
    assert (selection.time_from, selection.time_to) == (low, high)
    assert live.controls["count"] == int(views.bench.selected.mask().sum()) < live.controls["total"]
    bars = [len(trace.get("ids", ())) for trace in live.figures["transactions.timeline"]["data"]]
    assert bars == [len(trace.get("ids", ())) for trace in whole["data"]]
    assert live.figures["transactions.timeline"]["layout"]["shapes"][-1]["type"] == "rect"
    assert live.table("transactions.longest")["html"].count("<tr") < 200
    boxes = [live.figures["transactions.timeline"]["layout"]["shapes"]]
    live.sent.clear()
    live.do(
        "brush",
        panel="transactions.timeline",
        x=[str(time_of(spans[0]).replace(tzinfo=None)), str(low.replace(tzinfo=None))],
    )
    assert "transactions.timeline" not in live.sent, "its bars are those that the page has"
    boxes.append(live.figures["transactions.timeline"]["layout"]["shapes"])
    assert len(boxes[0]) == len(boxes[1]), "the box of the step before is gone"
    assert boxes[1][-1]["x1"] == boxes[0][-1]["x0"]
    live.heard.clear()
    selection.update(operations=["DELETE"])
    deleting = sum(len(trace.get("ids", ())) for trace in live.figures["transactions.timeline"]["data"])
    assert 0 < deleting < sum(bars), "another field than time draws other bars"
    selection.undo()
    live.do("brush", panel="transactions.timeline", x=None)
    assert selection.chosen() == {}
    assert live.controls["count"] == live.controls["total"] == 1500


def test_a_brush_outside_the_calendar_selects_nothing_and_says_so(views: Views) -> None:
    live = Page(views.transactions())
    live.do("brush", panel="transactions.timeline", x=["2025-01-01 00:00:00", "10000-01-01 00:00:00"])
    assert "years 1 to 9999" in live.widget.wrong
    assert not views.bench.selection.chosen()


def test_the_charts_of_a_live_page_have_one_axis_of_time(views: Views) -> None:
    live = [Page(views.transactions()), Page(views.masks())]
    layouts = [page.figures[name]["layout"] for page in live for name in page.figures]
    dated = [one for one in layouts if one["xaxis"].get("type") == "date"]
    assert len(dated) >= 4
    assert len({tuple(one["xaxis"]["range"]) for one in dated}) == 1
    assert len({(one["margin"]["l"], one["margin"]["r"]) for one in dated}) == 1


def test_a_zoom_draws_the_transactions_of_that_time_and_selects_nothing(views: Views) -> None:
    live = Page(views.transactions())
    began = views.bench.changes.transactions.began
    window = [str(time_of(began[n]).replace(tzinfo=None)) for n in (50, 60)]
    live.do("zoom", panel="transactions.timeline", x=window)
    drawn = sum(len(trace.get("ids", ())) for trace in live.figures["transactions.timeline"]["data"])
    assert 5 < drawn < 200
    assert views.bench.selection.chosen() == {}
    live.do("zoom", panel="transactions.timeline", x=None)
    assert live.figures["transactions.timeline"]["layout"]["meta"]["drawn"] == 200


def test_the_bar_of_controls_counts_and_takes_back(views: Views) -> None:
    live = Page(views.capture())
    live.do("toggle", field="operations", value="UPDATE")
    updates = live.controls["count"]
    (operations,) = [field for field in live.controls["fields"] if field["name"] == "operations"]
    assert operations["values"][0] == ["UPDATE", updates, True]
    live.do("set", field="text", value="tx00001")
    assert live.controls["count"] < updates
    assert live.controls["python"] == "Selection(operations=['UPDATE'], text='tx00001')"
    live.do("keep", name="mine")
    assert live.controls["kept"] == ["mine"]
    live.do("undo")
    assert (live.controls["count"], live.controls["steps"]) == (updates, [1, 1])
    live.do("reset")
    assert live.controls["count"] == 1500
    live.do("use", name="mine")
    assert live.controls["text"] == "tx00001"
    (answer,) = live.do("set", field="nothing", value="x")
    assert "no field 'nothing'" in answer["wrong"]


def test_a_row_a_bar_and_a_cell_lead_to_their_record(views: Views) -> None:
    shown: list[int] = []
    with patch.object(PageWidget, "explorer", lambda _self, record: shown.append(record)):
        live = Page(views.transactions())
        first = live.rows("transactions.longest")[2]
        live.do("more", panel="transactions.longest")
        assert f'data-record="{first["record"]}"' in live.table("transactions.longest")["html"]
        live.do("record", record=first["record"])
        assert shown == [first["record"]]
        live.do("record", record=1 << 40)  # none
        live.do("point", panel="transactions.timeline", id=first["transaction_id"], x="", custom=None)
        assert shown == [first["record"]] * 2
        bar = live.figures["capture.over_time"]["data"][0]
        live.do("point", panel="capture.over_time", id=None, x=bar["x"][3], custom=None)
        masks = Page(views.masks())
        cell = masks.figures["masks.over_time"]["data"][0]
        row, column = next((r, c) for r, line in enumerate(cell["z"]) for c, z in enumerate(line) if z)
        masks.do("point", panel="masks.over_time", id=None, x=cell["x"][column], custom=cell["customdata"][row][column])
        pair = masks.figures["masks.together"]["data"][0]["customdata"][0][1]
        masks.do("point", panel="masks.together", id=None, x="", custom=pair)
        column_row = masks.rows("masks.changed_columns")[0]
    changes = views.bench.changes
    number = changes.record.tolist().index(shown.pop())
    assert set(pair) <= set(changes.sets[changes.set[number]])
    number = changes.record.tolist().index(column_row["record"])
    assert column_row["column"] in changes.sets[changes.set[number]]
    number = changes.record.tolist().index(shown[-1])
    assert cell["customdata"][row][column] in changes.sets[changes.set[number]]
    assert shown[-2] in changes.record
    assert len(shown) == 4


def test_a_row_leads_to_the_history_of_the_row_of_its_table(views: Views) -> None:
    live = Page(views.transactions())
    explorer = views.explore()
    heard: list[Any] = []
    explorer.send = heard.append
    record = int(views.bench.changes.record[5])
    with patch.object(Explorer, "follow_row", lambda self: self.apply(f"record == {self.chosen + 1}")):
        live.do("record", record=record, seen=True, row=True)
    assert heard[-1] == {"chosen": record}
    assert (explorer.explorer.chosen, explorer.explorer.shown) == (record, 1)

    def no_key(_explorer: Explorer) -> None:
        raise OptionError("no key is known for this record")

    with patch.object(Explorer, "follow_row", no_key):
        heard_by_page = live.do("record", record=record, seen=True, row=True)
    assert {"wrong": "no key is known for this record"} in heard_by_page


def test_the_explorer_of_another_capture_opens_at_the_right_of_the_first(
    views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Views(views.bench.capture)
    vars(other.bench)["source"] = views.bench.source
    monkeypatch.setattr(PageWidget, "_last", None)
    shown: list[tuple[str, Any]] = []

    class Place:
        def __init__(self, title: str, anchor: str, ref: Place | None = None) -> None:
            shown.append((anchor, ref))

        def append_display_data(self, _widget: Any) -> None:
            """Nothing is drawn here."""

    monkeypatch.setattr("sidecar.Sidecar", Place)
    for one in (views, other):
        live = Page(one.transactions())
        live.do("open", beside=True)
        live.do("record", record=int(one.bench.changes.record[5]), seen=False)
    assert [anchor for anchor, _ in shown] == ["split-bottom", "split-right"]
    assert isinstance(shown[1][1], Place)


def test_rows_are_ordered_and_more_are_shown(views: Views) -> None:
    live = Page(views.transactions())
    columns = list(live.widget._answers["transactions.longest"].tables[0].columns)
    live.do("sort", panel="transactions.longest", column=columns.index("bytes"))
    assert live.table("transactions.longest")["sorted"] == [columns.index("bytes"), True]
    sizes = [row["bytes"] for row in live.rows("transactions.longest")]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == views.bench.changes.transactions.bytes.max()
    live.do("sort", panel="transactions.longest", column=columns.index("bytes"))
    assert live.rows("transactions.longest")[0]["bytes"] == views.bench.changes.transactions.bytes.min()
    live.do("more", panel="transactions.longest")
    assert live.table("transactions.longest")["html"].count("data-record=") == 40
    assert live.do("sort", panel="transactions.longest", column=columns.index("tables")) == []


def test_only_what_is_in_sight_is_drawn_again(views: Views) -> None:
    live = Page(views.transactions())
    live.do("seen", panel="transactions.concurrency", on=False)
    live.do("toggle", field="operations", value="UPDATE")
    assert "transactions.concurrency" not in {one.get("panel") for one in live.heard}
    live.do("seen", panel="transactions.concurrency", on=True)
    assert "figure" in {block["kind"] for block in live.panel("transactions.concurrency")["blocks"]}


def test_a_page_that_opens_again_has_everything_in_its_state(views: Views) -> None:
    live = Page(views.capture())
    live.do("toggle", field="operations", value="UPDATE")
    state = live.widget.get_state()
    assert state["bar"]["python"] == "Selection(operations=['UPDATE'])"
    assert {name for name in state if name.startswith("panel_")} == {"panel_0", "panel_1", "panel_2"}
    shown = [state[f"panel_{number}"]["panel"] for number in range(3)]
    assert shown == ["capture.over_time", "capture.tables", "capture.problems"]
    assert json.loads(json.loads(state["figures_0"])[0])["data"]


def test_a_view_is_drawn_by_its_cell(views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of the page are heard after the last cell that runs."""
    monkeypatch.setenv("CDCWB_VIEWS", "live")
    put: list[Any] = []
    monkeypatch.setattr("IPython.display.display", lambda shown, **_about: put.append(shown))
    views.transactions()._ipython_display_()
    page = put[-1].children[0]
    assert [getattr(page, f"panel_{one['trait']}")["version"] for one in page.about["panels"]] == [1, 2, 3, 4, 5, 6]
    assert page.bar["count"] == 1500


@pytest.mark.parametrize(("given", "expected"), [("live", True), ("static", False), ("", False)])
def test_whether_somebody_can_click_is_found_out(given: str, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDCWB_VIEWS", given)
    assert is_live() == expected


def test_on_paper_a_view_puts_its_figures_and_tables(views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
    put: list[dict[str, Any]] = []
    monkeypatch.setattr("IPython.display.display", lambda data, **_about: put.append(data))
    views.bench.selection.update(operations=["UPDATE"])
    views.transactions()._ipython_display_()
    told = [str(one["text/html"]) for one in put]
    assert any("Only a part is shown: operations: UPDATE." in html for html in told)
    assert sum("application/vnd.plotly.v1+json" in one for one in put) == 3
    assert sum('<table class="cdcwb">' in html for html in told) >= 4


def test_the_card_says_what_a_capture_is_and_what_to_look_at(views: Views) -> None:
    html = card(views.bench.capture)
    text = re.sub(r"<style.*?</style>|<[^>]+>", " ", html, flags=re.DOTALL)
    for said in ("qlik-kafka", "1,500", "200", "of 200 transactions committed", "capture.view.masks()"):
        assert said in text
    assert "followed topic" not in text


def test_of_too_many_changes_views_say_to_narrow_by_time_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdcwb.index.changes.MOST_CHANGES", 99)
    capture = Capture()
    views = capture.view = Views(capture)  # type: ignore[arg-type]
    views.bench.__dict__["source"] = open_source(write_saved(tmp_path / "capture", changes=100, transactions=5))
    said = "100 changes are too many for views, which show up to 99: narrow by time first"
    put: list[Any] = []
    monkeypatch.setattr("IPython.display.display", lambda data, **_about: put.append(data))
    for mode in ("static", "live"):
        monkeypatch.setenv("CDCWB_VIEWS", mode)
        views.transactions()._ipython_display_()
        assert said in str(put.pop()["text/html"])
    assert said in repr(views.transactions())
    assert said in card(capture)  # type: ignore[arg-type]
    with pytest.raises(CaptureError, match="too many for views"):
        _ = views.masks.changed_columns().frame


def test_the_script_puts_captured_text_on_the_page_as_text() -> None:
    markup = re.findall(r"\.(innerHTML|outerHTML|insertAdjacentHTML)\b", SCRIPT)
    assert markup == ["innerHTML"]  # tables, which the kernel escapes
    assert not re.search(r"\beval\(|document\.write|new Function|https?:", SCRIPT)


def test_hostile_names_are_escaped_in_tables(views: Views) -> None:
    (table,) = views.capture.tables().answers()["capture.tables"].tables
    hostile = "<img src=x onerror=alert(1)>"
    assert "<img" not in show.table_block_html(table, None, [{**table.rows[0], "table": hostile}])
    assert "<img" not in note(hostile).html


def test_a_panel_below_a_heading_of_the_notebook_has_no_title_of_its_own(views: Views) -> None:
    titles = {}
    for headings in (True, False):
        view = View(views.bench, "", [Panel(Transactions, "timeline")], controls=False, headings=headings)
        titles[headings] = [one["title"] for one in PageWidget(view, ipywidgets.VBox()).about["panels"]]
    assert titles == {True: ["Timeline"], False: [""]}


def ask(explorer: ExplorerWidget, do: str, **more: Any) -> dict[str, Any]:
    """The state of an explorer's page after a step."""
    return json.loads(json.dumps(explorer.answer({"id": 1, "do": do, "count": 20, **more})))["state"]


def test_an_explorer_beside_the_views_shows_what_is_selected(views: Views) -> None:
    bench = views.bench
    explorer = views.explore()
    heard: list[Any] = []
    explorer.send = heard.append
    total = bench.source.index.records
    assert ask(explorer, "open")["selection"] is None
    bench.selection.update(operations=["UPDATE"], tables=["shop.orders"], time_from="2026-02-02T02:40:00")
    assert heard == [{"changed": True}]
    selected = set(bench.changes.record[bench.selected.mask()].tolist())
    state = ask(explorer, "page")
    assert state["shown"] == len(selected) > 0
    assert {row["row"] for row in state["rows"]} <= selected
    assert state["selection"] == {
        "sentence": "tables: shop.orders; operations: UPDATE; 2026-02-02 02:40:00 UTC to …",
        "follows": True,
    }
    state = ask(explorer, "filter", text='transaction >= "tx0000100"')
    names = explorer.explorer.columns["transaction"]
    assert state["shown"] == sum(names.value(row) >= "tx0000100" for row in selected)
    state = ask(explorer, "follow", on=False)
    assert state["shown"] > len(selected)
    assert not state["selection"]["follows"]
    state = ask(explorer, "follow", on=True)
    ask(explorer, "filter", text="")
    state = ask(explorer, "unselect")
    assert (state["shown"], state["selection"]) == (total, None)
    assert bench.selection.chosen() == {}
    bench.selection.undo()
    assert ask(explorer, "page")["shown"] == len(selected)


def test_a_record_that_is_not_selected_is_shown_besides_when_a_view_leads_to_it(views: Views) -> None:
    explorer = views.explore()
    views.bench.selection.update(operations=["INSERT"])
    other = int(views.bench.changes.record[~views.bench.selected.mask()][0])
    first = ask(explorer, "open")
    state = ask(explorer, "choose", row=first["rows"][0]["row"])
    assert state["shown"] == first["shown"]
    state = ask(explorer, "choose", row=other)
    assert (state["chosen"], state["selection"]["follows"]) == (other, True)
    assert state["shown"] == first["shown"] + 1
    views.bench.selection.update(operations=["INSERT"], text="tx")
    assert other not in {row["row"] for row in ask(explorer, "page", count=200)["rows"]}


def test_a_page_that_hears_of_a_record_later_adds_nothing_to_what_is_selected_since(views: Views) -> None:
    explorer = views.explore()
    views.bench.selection.update(operations=["UPDATE"])
    updates = ask(explorer, "open")["shown"]
    views.bench.selection.update(operations=["INSERT"])
    record = int(views.bench.changes.record[views.bench.selected.mask()][0])
    explorer.show(record)
    views.bench.selection.update(operations=["UPDATE"])
    assert ask(explorer, "chosen")["shown"] == updates


def test_an_explorer_that_stands_alone_knows_no_selection(source: IndexedCapture) -> None:
    assert ask(ExplorerWidget(Explorer(source)), "open")["selection"] is None
