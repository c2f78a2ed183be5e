"""A live view and the page of a report about the same part of a capture have the same headlines, numbers and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import cdcwb
from cdcwb.report.answer import Answer
from cdcwb.report.facts import stored
from cdcwb.views import PAGES
from cdcwb.views.pages import ContinuityPage, Transactions
from cdcwb.views.pages.page import Page
from cdcwb.views.view import Panel

DATA = Path(__file__).resolve().parents[2] / "data"
FORMATS = ("gbase8s", "qlik-kafka", "qlik-change-table", "goldengate", "debezium", "idm-event-log")


def selections(capture: cdcwb.Capture) -> list[dict[str, Any]]:
    """Nothing, and times, tables, operations and outcomes of the capture."""
    changes = capture.rows("changes", ("changed_at", "committed_at", "table_name")).table().to_pylist()
    ended = capture.rows("transactions", ("began_at", "ended_at")).table().to_pylist()
    known = [row["changed_at"] or row["committed_at"] for row in changes]
    known = known if any(known) else [row["ended_at"] or row["began_at"] for row in ended]
    times = sorted(filter(None, known))
    tables = sorted({row["table_name"] for row in changes if row["table_name"]})
    third, half, most = (times[len(times) * part // 12] for part in (4, 6, 10))
    return [
        {},
        {"time_from": third, "time_to": most},
        {"time_to": half},
        {"tables": tables[:1]},
        {"tables": tables[:2], "time_from": half},
        {"operations": ["UPDATE"]},
        {"outcomes": ["committed"]},
    ]


def content(answer: Answer) -> dict[str, Any]:
    shown: dict[str, Any] = {"headline": answer.headline, "facts": stored(answer.facts)}
    for number, table in enumerate(answer.tables):
        rows = [{name: row.get(name) for name in table.columns} for row in table.rows]
        shown[f"table {number}"] = dict(table.columns), rows, table.folder
    return shown


@pytest.mark.parametrize("name", FORMATS)
def test_live_views_and_reports_have_the_same_answers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDCWB_VIEWS", "static")
    capture = cdcwb.load(str(DATA / name))
    differences = []
    for chosen in selections(capture):
        capture.selection.reset()
        capture.selection.update(**chosen)
        bench = capture.view.bench
        for page, (_, _, keys) in PAGES.items():
            if not keys:
                continue
            view = getattr(capture.view, page)
            made: Page = view._page()
            for key in keys:
                of_page, _, panel = key.partition(".")
                if of_page != page:
                    continue
                live, report = Panel(type(made), panel).ask(bench), getattr(made, panel)()
                assert isinstance(report, Answer)
                there = content(report)
                differences += [
                    f"{chosen} {key} {part}: {shown} | {there.get(part)}"
                    for part, shown in content(live).items()
                    if shown != there.get(part)
                ]
    assert differences == []


@pytest.mark.parametrize("name", ["debezium", "qlik-kafka"])
def test_continuity_and_lag_are_those_of_reports(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDCWB_VIEWS", "static")
    path = str(DATA / name)
    capture = cdcwb.load(path)
    panels = ("overview", "over_time", "tables", "rows", "chain", "breaks", "contradictions", "target")
    for chosen in selections(capture)[:4]:
        times = {field: time.isoformat() for field, time in chosen.items() if field.startswith("time_")}
        given = (path, "auto", "{}", chosen.get("tables", []), times.get("time_from", ""), times.get("time_to", ""))
        capture.selection.reset()
        capture.selection.update(**chosen)
        live, report = capture.view.continuity(), ContinuityPage.open(*given)
        for panel in panels:
            assert content(getattr(live, panel)()) == content(getattr(report, panel)()), (chosen, panel)
        of_view, of_report = capture.view.transactions.lag(), Transactions.open(*given).lag()
        assert content(of_view) == content(of_report), chosen
