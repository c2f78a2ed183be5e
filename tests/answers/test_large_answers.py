"""Of 300,000 changes a live page, the page of a report, the command line and pandas over ``cdcwb export`` give the same
numbers, whatever is selected."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import cdcwb
from cdcwb.report.facts import stored
from cdcwb.views import PAGES
from cdcwb.views.pages.capture import CapturePage
from cdcwb.views.pages.transactions import Transactions
from cdcwb.views.view import Panel
from cdcwb_synth import generate
from tests.answers.test_live_and_report import content, selections
from tests.limits import run

CHANGES = 300_000
DRAWN = "timeline_"  # facts about what is drawn
FLAGS = {"tables": "--table", "time_from": "--from", "time_to": "--until"}


@pytest.fixture(scope="module", params=["gbase8s", "qlik-kafka"])
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved capture of so many changes."""
    folder = tmp_path_factory.mktemp(request.param)
    named = {"table_names": True} if request.param == "gbase8s" else {}
    generate(request.param, changes=CHANGES, seed=11, to=folder / "made", **named)
    code, text = run(["save", str(folder / "made" / "capture"), "--to", str(folder / "saved")])
    assert code == 0, text
    return folder / "saved"


def flags_of(chosen: dict[str, Any]) -> list[str] | None:
    """A selection as options of the command line; None if these cannot express it."""
    if not chosen.keys() <= FLAGS.keys():
        return None
    flags: list[str] = []
    for name, value in chosen.items():
        for one in value if isinstance(value, list) else [value]:
            flags += [FLAGS[name], one.isoformat() if isinstance(one, datetime) else one]
    return flags


def exported(saved: Path, view: str, flags: list[str], to: Path) -> pd.DataFrame:
    target = to / f"{view}.parquet"
    target.unlink(missing_ok=True)
    code, text = run(["export", str(saved), "--view", view, "--to", str(target), *flags])
    assert code == 0, text
    return pd.read_parquet(target, columns=["operation", "table_name"] if view == "changes" else None)


def test_numbers_are_the_same_everywhere(saved: Path, tmp_path: Path) -> None:
    capture = cdcwb.load(saved)
    seen = 0
    for chosen in selections(capture):
        flags = flags_of(chosen)
        if flags is None:
            continue
        changes = exported(saved, "changes", flags, tmp_path)
        transactions = exported(saved, "transactions", flags, tmp_path)
        problems = exported(saved, "problems", flags, tmp_path)
        expected = {
            "changes": len(changes),
            "changes_by_operation": changes["operation"].value_counts().to_dict(),
            "transactions": len(transactions),
            "problems": len(problems),
        }
        code, text = run(["summary", str(saved), "--json", *flags])
        assert code == 0, text
        summary = json.loads(text)
        assert {name: summary[name] for name in expected} == expected, ("summary", chosen)

        capture.selection.reset()
        capture.selection.update(**chosen)
        live, report = capture.view, CapturePage.of(capture)
        of_tables: dict[str, dict[str, int]] = live.capture.tables().facts["tables"]
        of_tables = {table: numbers for table, numbers in of_tables.items() if numbers}
        rows = changes.groupby(["table_name", "operation"]).size()
        by_table: dict[str, dict[str, int]] = {}
        for (table, operation), number in rows.items():
            by_table.setdefault(table, {})[operation] = number
        assert {name.rpartition(".")[2]: numbers for name, numbers in of_tables.items()} == by_table, ("live", chosen)
        facts = stored(report.overview().facts)
        assert {name: facts[name] for name in expected} == expected, ("report", chosen)
        assert live.transactions.timeline().facts["transactions"] == expected["transactions"], ("live", chosen)
        assert live.capture.problems().facts["problems"] == expected["problems"], ("live", chosen)
        assert Transactions.of(capture).timeline().facts["transactions"] == expected["transactions"], chosen
        seen += 1
    assert seen >= 5


def test_live_views_and_reports_have_the_same_answers(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDCWB_VIEWS", "static")
    capture = cdcwb.load(saved)
    for chosen in selections(capture):
        capture.selection.reset()
        capture.selection.update(**chosen)
        for page, (_, _, keys) in PAGES.items():
            made = getattr(capture.view, page)._page() if keys else None
            for of_page, _, panel in (key.partition(".") for key in keys):
                if of_page == page and panel:
                    live, report = Panel(type(made), panel).ask(capture.view.bench), getattr(made, panel)()
                    there, here = content(report), content(live)
                    for facts in (there["facts"], here["facts"]):  # a live page draws fewer bars
                        for name in [name for name in facts if name.startswith(DRAWN)]:
                            del facts[name]
                    for part, shown in here.items():
                        assert shown == there.get(part), (chosen, page, panel, part)
