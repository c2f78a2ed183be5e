"""Views of a followed topic: they say how far it is, and take new messages in while they are open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdcwb.capture import Capture
from cdcwb.explore.widget import ExplorerWidget
from cdcwb.live import units
from tests.growing_topic import Growing
from tests.unit.test_views import Page


@pytest.fixture
def growing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Growing:
    made = Growing(tmp_path, monkeypatch)
    made.grow(0.4)
    return made


def ask(widget: ExplorerWidget, do: str, **more: Any) -> dict[str, Any]:
    """What an explorer answers its page."""
    return widget.answer({"id": 1, "do": do, "count": 20, **more})


def looked(page: Page, **about: Any) -> dict[str, Any]:
    """What the page is told when it looks."""
    page.do("look", **about)
    return dict(page.controls["following"])


def test_a_page_shows_new_messages_when_it_is_asked_to(growing: Growing) -> None:
    capture = growing.open()
    page = Page(capture.view.transactions())
    was = page.widget._controls()
    assert was is not None
    assert was["following"]["fresh"] == ""
    assert not capture.is_behind
    came = growing.grow(0.7)
    assert capture.is_behind
    told = looked(page)
    assert told["fresh"] == f"{came} new messages"
    assert "up to date, 0 s ago" in told["sentence"]
    capture.selection.update(operations=["UPDATE"])
    page.do("look", new=True)
    assert page.controls["total"] > was["total"]
    assert page.controls["following"]["fresh"] == ""
    assert page.controls["python"] == "Selection(operations=['UPDATE'])"
    assert page.controls["steps"] == [1, 0]
    assert {one["panel"] for one in page.heard if one.get("panel")} == set(page.widget._panels)


def test_a_page_keeps_up_by_itself_when_it_is_told_to(growing: Growing) -> None:
    capture = growing.open()
    pages = [Page(capture.view.transactions()), Page(capture.view.masks())]
    assert looked(pages[0], on=True)["keeps_up"]
    assert looked(pages[1])["keeps_up"]
    growing.grow(0.8)
    pages[1].do("look")  # either of them takes the messages in, and both are drawn
    totals = [page.controls["total"] for page in pages]
    assert totals[0] == totals[1] == growing.open().view.bench.everything.mask().sum()
    assert not looked(pages[0], on=False)["keeps_up"]
    growing.grow(0.9)
    assert looked(pages[0])["fresh"]


def test_an_explorer_goes_on_with_its_record_and_its_filter(growing: Growing) -> None:
    capture = growing.open()
    widget = capture.view.explore()
    assert isinstance(widget, ExplorerWidget)
    ask(widget, "filter", text='operation == "UPDATE"')
    ask(widget, "filter", text='kind == "change"')
    row = widget.explorer.row_at(5)
    before = [one["row"] for one in ask(widget, "choose", row=row)["state"]["rows"]]
    ask(widget, "mark", note="look at this")
    detail = ask(widget, "detail", row=row)["detail"]
    heard: list[dict[str, Any]] = []
    widget.send = heard.append
    growing.grow(1)
    assert capture.refresh()
    assert {"renewed": True} in heard
    state = ask(widget, "open")["state"]
    assert state["chosen"] == row
    assert state["filter"] == 'kind == "change"'
    assert [one["row"] for one in state["rows"]] == before
    assert state["records"] == growing.open().view.bench.source.index.records
    assert ask(widget, "detail", row=row)["detail"] == detail
    assert ask(widget, "back")["state"]["filter"] == 'operation == "UPDATE"'
    assert state["marks"] == 1
    assert (growing.folder / "marks.json").is_file()


def test_an_explorer_keeps_its_record_and_bookmarks_when_files_of_messages_become_one(
    growing: Growing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "MERGED", 3)
    for share in (0.5, 0.6):  # three steps are one unit
        if share == 0.6:
            capture = growing.open()
        growing.grow(share)
    widget = capture.view.explore()
    assert isinstance(widget, ExplorerWidget)
    row = widget.explorer.index.records - 3
    ask(widget, "choose", row=row)
    ask(widget, "mark", note="look at this")
    place = widget.explorer.index.place(row)
    key = widget.explorer.record().event["key"]
    assert capture.refresh()
    after = widget.explorer
    assert after.index.place(after.chosen)[0] != place[0], "its file became part of another"
    assert after.index.place(after.chosen)[1] == place[1]
    assert after.record().event["key"] == key
    assert ask(widget, "filter", text="mark == 'look at this'")["state"]["shown"] == 1
    assert ask(widget, "detail", row=after.chosen)["detail"]["mark"] == "look at this"


def test_new_records_follow_those_that_were_there(growing: Growing) -> None:
    before = growing.open().view.bench.source.index
    growing.grow(1)
    after = growing.open().view.bench.source.index
    assert after.records > before.records
    for name in ("file_index", "offset"):
        assert np.array_equal(after.numbers(name)[: before.records], before.numbers(name))


def test_a_page_that_spark_answered_is_asked_again(growing: Growing) -> None:
    capture = growing.open()
    page = capture.view.drift
    editions = []

    class Kind:
        @staticmethod
        def of(capture: Capture, **_own: Any) -> object:
            editions.append(capture.facts["messages"])
            return object()

    vars(page)["_kind"] = Kind
    for share in (0.4, 0.6, 0.6):
        growing.grow(share)
        capture.refresh()
        page()
    assert len(editions) == 2
    assert editions[0] < editions[1]
