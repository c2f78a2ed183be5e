"""The page about the continuity of rows: its figures, tables and facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import cdcwb
from cdcwb.analysis import continuity, counters
from cdcwb.analysis.summary import summarize
from cdcwb.errors import OptionError
from cdcwb.report import show
from cdcwb.report.answer import Table
from cdcwb.report.redact import save_captures
from cdcwb.views.pages.continuity import ContinuityPage
from tests.unit.test_positions import maxwell


def event(lsn: int, op: str, before: int | None, after: int | None, key: int = 1) -> str:
    images = {n: None if v is None else {"id": key, "v": v} for n, v in (("before", before), ("after", after))}
    source = {
        "version": "2.7.0.Final",
        "connector": "postgresql",
        "name": "a",
        "ts_ms": 1_700_000_000_000 + lsn,
        "db": "d",
    }
    source |= {"snapshot": "false", "schema": "shop", "table": "orders", "txId": lsn, "lsn": lsn}
    return json.dumps({**images, "source": source, "op": op, "ts_ms": 1_700_000_000_500, "transaction": None}) + "\n"


@pytest.fixture
def capture(tmp_path: Path) -> Any:
    rows = [event(10, "c", None, 1), event(30, "u", 2, 3), event(20, "u", 1, 2), event(40, "d", 3, None)]
    rows += [event(50, "u", 3, 9), event(60, "c", None, 1, key=2), event(70, "u", 5, 6, key=2)]
    path = tmp_path / "orders.jsonl"
    path.write_text("".join(rows), encoding="utf-8")
    return cdcwb.load(path, keys=["shop.orders:id"])


@pytest.fixture
def page(capture: Any) -> Any:
    return capture.view.continuity


def test_the_summary_has_the_breaks_and_what_was_checked(page: Any) -> None:
    facts = page.overview().facts
    assert facts["continuity_kinds"] == {"gap": 1, "revived": 1, "late": 1}
    assert (facts["continuity_tables"], facts["continuity_checked"], facts["continuity_breaks"]) == (1, 1, 3)


def test_what_the_summary_has_compared_is_not_compared_again(capture: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = summarize(capture)
    monkeypatch.setattr(continuity, "row_versions", None)
    monkeypatch.setattr(counters, "_contradictions", None)
    page = capture.view.continuity
    for panel in (page.over_time, page.tables, page.rows, page.breaks, page.contradictions):
        panel()
    assert page.overview().facts["continuity_breaks"] == facts["continuity"]["breaks"] == 3
    with pytest.raises(TypeError, match="NoneType"):
        continuity.continuity(capture.filter(["shop.orders"]))  # of other changes, it is another answer


def test_a_capture_that_was_saved_for_reports_has_the_answers_of_its_summary(
    page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = (str(tmp_path / "orders.jsonl"), "debezium", {"keys": ["shop.orders:id"]})
    (place,) = save_captures([given], [], str(tmp_path / "kept"), "")
    page.overview()
    monkeypatch.setattr(continuity, "row_versions", None)
    prepared = ContinuityPage.open(place)
    assert prepared.overview().facts["continuity_kinds"] == {"gap": 1, "revived": 1, "late": 1}
    assert prepared.over_time().figure == page.over_time().figure
    assert prepared.breaks().frame.equals(page.breaks().frame)


def test_breaks_are_drawn_by_time_table_and_kind(page: Any) -> None:
    figure = page.over_time().figure
    assert sorted(trace.name for trace in figure.data) == ["gap (1)", "late (1)", "revived (1)"]
    assert list(figure.layout.yaxis.ticktext) == ["shop.orders"]


def test_the_row_with_most_breaks_is_shown_as_a_chain_with_its_breaks(page: Any) -> None:
    assert page.rows().frame[["row", "breaks", "kinds"]].to_numpy().tolist() == [
        ["id=1", 2, "late 1, revived 1"],
        ["id=2", 1, "gap 1"],
    ]
    chain = page.chain()
    assert [text.text for text in chain.figure.layout.annotations] == ["late", "revived"]
    assert [shape.line.dash for shape in chain.figure.layout.shapes] == ["solid", "dot", "solid", "dot"]
    assert chain.frame["operation"].to_list() == ["INSERT", "UPDATE", "UPDATE", "DELETE", "UPDATE"]


def test_a_given_row_is_shown(page: Any) -> None:
    chain = page.chain(table="shop.orders", key="id=2")
    assert chain.frame["broken"][1] == "gap"
    with pytest.raises(OptionError, match="give both, or neither"):
        page.chain(table="shop.orders")


def test_breaks_are_listed_with_both_records(page: Any) -> None:
    rows = page.breaks().frame
    assert rows["kind"].to_list() == ["late", "revived", "gap"]
    assert rows["earlier_position"].to_list() == [f"{lsn:016X}" for lsn in (30, 40, 60)]


def test_rows_that_a_target_holds_wrongly_are_counted_for_each_rule(page: Any) -> None:
    target = page.target()
    assert target.facts["wrong_rows_by_rule"]["commit"] == 0
    assert target.facts["wrong_rows_by_rule"]["arrival"] == 0  # the row is deleted after its late change
    assert target.frames[0]["rule"].to_list()[2] == "commit"


def test_a_click_on_a_break_leads_to_both_records(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDCWB_VIEWS", "live")
    for panel, rows in ((page.breaks(), [2, 4, 6]), (page.chain(), [0, 1, 2, 3, 4])):
        (table,) = [block for block in panel.blocks if isinstance(block, Table)]
        found = {name: links.find(named) for name, (links, named) in table.cells.items()}
        assert found["offset"] == rows
        earlier = [row for row in found["earlier_position"] if row is not None]
        assert earlier == ([1, 3, 5] if len(rows) == 3 else [1, 3])
        assert 'data-record="' in show.table_block_html(table, panel.links)
    assert page.chain().figure.data[0].ids is not None


def test_contradictions_of_counters_are_listed_with_their_records(tmp_path: Path) -> None:
    source = {"version": "2.7.0.Final", "connector": "postgresql", "name": "a", "ts_ms": 1_700_000_000_000, "db": "d"}
    source |= {"snapshot": "false", "schema": "shop", "table": "orders"}
    end = {"status": "END", "id": "7:110", "event_count": 1, "ts_ms": 1_700_000_000_600}
    end["data_collections"] = [{"data_collection": "shop.orders", "event_count": 1}]
    rows = [{"status": "BEGIN", "id": "7:110", "event_count": None, "ts_ms": 1_700_000_000_500}]
    for number in (1, 2):
        row = {"before": None, "after": {"id": number}, "source": {**source, "txId": 7, "lsn": 100 + number}, "op": "c"}
        counters = {"id": "7:110", "total_order": number, "data_collection_order": number}
        rows.append({**row, "ts_ms": 1_700_000_000_500, "transaction": counters})
    path = tmp_path / "orders.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in [*rows, end]), encoding="utf-8")
    page = cdcwb.load(path).view.continuity
    assert page.overview().facts["counter_contradictions"] == 1
    assert page.contradictions().frame["sentence"].to_list() == ["its end counts 1 event, 2 came"]


def test_positions_out_of_order_are_listed_beside_them(tmp_path: Path) -> None:
    path = tmp_path / "topic.txt"
    path.write_text("".join(map(maxwell, (100, 300, 200))), encoding="utf-8")
    (sentence,) = cdcwb.load(path).view.continuity.contradictions().frame["sentence"]
    assert sentence.startswith("position binlog.000001:0000000200 at ")
    path.write_text("".join(map(maxwell, (100, 200, 300))), encoding="utf-8")
    note, *_ = cdcwb.load(path).view.continuity.contradictions().blocks
    assert note.none == "None in 3 transactions with numbered events. No position is out of order in 3 records."


def test_what_was_not_compared_is_named_with_its_reason() -> None:
    page = cdcwb.load(Path(__file__).parents[2] / "data" / "sqlserver-ct").view.continuity
    assert page.overview().facts["continuity_unchecked"].startswith("no table has a key; the option keys=")
