"""Which record a row of a page leads to, and that rows and points of a live page name it."""

from __future__ import annotations

import re
from typing import Any
from unittest.mock import patch

import pytest

from cdcwb.charts import reconcile as charts
from cdcwb.charts import theme
from cdcwb.index.source import IndexedCapture, open_source
from cdcwb.report import show
from cdcwb.report.answer import Answer
from cdcwb.views.bench import Bench
from cdcwb.views.view import links_of, records_of
from tests.saved_capture import write_saved


class Capture:
    """What a bench asks of a capture beside its index."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> IndexedCapture:
    return open_source(write_saved(tmp_path_factory.mktemp("leads") / "capture", changes=600, transactions=40))


@pytest.fixture
def bench(source: IndexedCapture) -> Bench:
    bench = Bench(Capture())  # type: ignore[arg-type]
    vars(bench)["source"] = source
    return bench


def test_a_row_leads_to_the_record_that_it_names(source: IndexedCapture) -> None:
    index, changes = source.index, source.changes
    chosen = int(changes.record[100])
    about = index.row(chosen)
    file = str(index.file_of(chosen)["file"])
    transaction = changes.transactions.rows["transaction_id"][7].as_py()
    rows: list[dict[str, Any]] = [
        {"file": file, "offset": about["offset"]},
        {"file": file, "offset": about["offset"] + about["length"] - 1, "position": "no such"},
        {"first_position": about["position"], "transaction_id": transaction},
        {"file": None, "offset": None, "position": None, "transaction_id": transaction},
        {"file": "another", "offset": 1},
        {"table": about["table"]},
        {"position": "no such", "first_position": about["position"]},
    ]
    first = int(changes.transactions.record[7])
    assert records_of(rows, changes) == [chosen, chosen, chosen, first, None, None, None]
    assert records_of([], changes) == []


def test_the_first_of_several_records_with_a_value_is_found(source: IndexedCapture) -> None:
    index = source.index
    positions = [index.row(number)["position"] for number in range(index.records)]
    wanted = [text for text in dict.fromkeys(positions) if text is not None][::17]
    assert index.first("position", wanted) == {text: positions.index(text) for text in wanted}
    offsets = [index.row(number)["offset"] for number in range(index.records)]
    assert index.first("offset", [offsets[5], -7]) == {offsets[5]: offsets.index(offsets[5])}
    assert index.first("position", []) == index.first("kind", ["ROW"]) == index.first("nothing", ["x"]) == {}


def put(answer: Answer) -> tuple[str, list[Any]]:
    """The HTML of the tables and the figures that an answer puts on its page."""
    html: list[str] = []
    with (
        patch.object(show, "_display", lambda data, _about=None: html.append(data["text/html"])),
        patch.object(show, "style_once"),
        patch.object(show, "chart", lambda _figure, _instead: None),
    ):
        answer.put()
    return "".join(html), answer.figures


def test_rows_name_their_records_only_where_somebody_can_click(bench: Bench) -> None:
    changes = bench.changes
    rows = [{"position": changes.record_index.row(int(changes.record[n]))["position"], "what": "x"} for n in (3, 5)]
    rows.append({"position": None, "what": "<b>"})
    live, paper = Answer("", links_of(bench)), Answer()
    for answer in (live, paper):
        answer.table(rows, {"position": "position", "what": "what"})
    html, _ = put(live)
    assert f'data-capture="{bench.name}"' in html
    assert [int(text) for text in re.findall(r'<tr data-record="(\d+)"', html)] == changes.record[[3, 5]].tolist()
    assert "data-record" not in put(paper)[0]
    assert "data-capture" not in put(paper)[0]
    assert list(live.frame.columns) == ["position", "what"]


def test_points_of_a_chart_name_their_records_only_where_somebody_can_click(bench: Bench) -> None:
    at = bench.changes.transactions.rows["began_at"][0].as_py()
    position = bench.source.index.row(int(bench.changes.record[3]))["position"]
    change = {"at": at, "operation": "UPDATE", "outcome": "committed", "taken_back": False, "differences": []}
    change |= {"position": position}
    live, paper = Answer("", links_of(bench)), Answer()
    for answer in (live, paper):
        answer.chart(charts.row_life(answer.linked([change])), [], "")
    (drawn,), (printed,) = put(live)[1], put(paper)[1]
    assert drawn.layout.meta["capture"] == bench.name
    assert drawn.data[0].ids == (str(bench.changes.record[3]),)
    assert printed.data[0].ids is None
    assert "capture" not in (printed.layout.meta or {})


def test_every_point_has_an_id_of_its_own() -> None:
    ids = theme.records_of([{"record": 7}, {"record": None}, {"record": 7}, {"record": None}, {"record": 8}, {}])
    assert ids == ["7", "", "7~1", "~1", "8", "~2"]
    assert theme.records_of([{}, {"record": None}]) is None
