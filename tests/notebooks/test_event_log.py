"""The notebook ``event_log_xds``: over a generated event log its facts are the truth that stands beside it; over a
small hostile one everything is shown and nothing obeyed; over another capture it shows what it can."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import cdcwb_synth as synth
from cdcwb.analysis.event_log import read_settings, snapshot_files
from cdcwb.errors import OptionError
from cdcwb.formats.idm_event_log.layout import LOG
from cdcwb.report import execute, notebook_path, read_facts, run_report
from cdcwb.report.html import SIZE_LIMIT
from cdcwb.report.show import FIGURE_MIME, STYLE
from cdcwb.xds import Settings, Snapshot
from tests.hostile_log import write_hostile_log
from tests.local import read
from tests.reference.xds_rows import publish
from tests.reports import DATA
from tests.xds_rows import rows_of_log

SETTINGS = {"driver_user": "IDM_DRIVER", "schema": "shop", "types": {"photo": "octet"}}


def published(made: Path) -> pa.Table:
    """What becomes of every row of a log, decided at once."""
    found = read(made / "capture", format="idm-event-log").to_pylist()
    rows = [row["headers"] for row in found if row["kind"] != "filler"]
    log = pa.RecordBatch.from_pylist([dict(row) for row in rows], schema=LOG)
    snapshot = Snapshot.read({path.stem: str(path) for path in (made / "truth" / "snapshot").iterdir()})
    decisions = publish(rows_of_log(log), Settings.parse(SETTINGS), snapshot).decisions
    names = [name for name in ("table_name", "table_key", "column_name") if name not in decisions.column_names]
    for name in names:
        decisions = decisions.append_column(name, log[name])
    return decisions


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synth.generate("idm-event-log", changes=400, seed=17, to=tmp_path_factory.mktemp("log") / "made")


@pytest.fixture(scope="module")
def report(made: Path, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp("report")
    parameters = {
        "snapshot": str(made / "truth" / "snapshot"),
        "settings": json.dumps(SETTINGS),
        "folder": str(folder / "t"),
    }
    page = folder / "page.html"
    facts = run_report("event_log_xds", made / "capture", page, parameters=parameters, say=lambda _: None)
    text = page.read_text(encoding="utf-8")
    html = text[text.index("<main") : text.index("</main>")]
    truth = published(made)
    return SimpleNamespace(facts=facts, html=html, page=page, tables=folder / "t", truth=truth, rows=truth.to_pylist())


def test_every_row_is_counted_under_its_decision(report: SimpleNamespace) -> None:
    truth = Counter(row["decision"] for row in report.rows)
    assert report.facts["rows"] == len(report.rows)
    told = {name.removeprefix("decisions_"): n for name, n in report.facts.items() if name.startswith("decisions_")}
    assert {name: number for name, number in told.items() if number} == truth
    cells = Counter({(kind, decision): rows for kind, decision, rows in report.facts["decisions"]})
    assert cells == Counter((row["event_type"], row["decision"]) for row in report.rows)
    assert report.facts["not_published"] == len(report.rows) - truth["published"]


def test_events_documents_and_objects_are_those_of_the_truth(report: SimpleNamespace) -> None:
    assert report.facts["documents"] == pc.max(report.truth["document"]).as_py()
    assert report.facts["events"] == pc.max(report.truth["event"]).as_py()
    named = {(r["table_name"], r["table_key"]) for r in report.rows if None not in (r["table_name"], r["table_key"])}
    assert report.facts["objects"] == len(named)
    assert report.facts["objects_shown"] == min(40, len(named))
    assert f"{min(40, len(named))} of {len(named)} objects, by their number of rows" in report.html


def test_what_is_left_out_of_a_list_is_said(report: SimpleNamespace) -> None:
    facts = report.facts
    assert facts["not_published_shown"] == min(50, facts["not_published"])
    assert f"50 of {facts['not_published']:,} shown." in report.html
    assert f"{len(facts['documents_shown'])} of {facts['documents']:,} documents shown." in report.html


def test_documents_stand_beside_their_rows_with_what_changes_marked(report: SimpleNamespace) -> None:
    sections = re.findall(r'<section class="cdcwb-document">.*?</section>', report.html, re.DOTALL)
    assert len(sections) == len(report.facts["documents_shown"])
    assert report.facts["documents_shown"][0] == 1
    for section, number in zip(sections, report.facts["documents_shown"], strict=True):
        ids = {f"{row['record_id']:,}" for row in report.rows if row["document"] == number}
        shown = re.findall(r'<tr><td class="number">([\d,]+)</td>', section)
        assert set(shown) == ids
    assert '<span class="mark">+</span>' in report.html
    assert '<span class="line removed"><span class="mark">−</span>' in report.html


def test_the_tables_behind_the_page_are_kept_where_asked(report: SimpleNamespace) -> None:
    names = {path.name for path in report.tables.iterdir()}
    assert {"decisions.parquet", "problems.parquet"} <= names
    kept = pq.read_table(report.tables / "decisions.parquet")
    assert kept.num_rows == len(report.rows)
    assert Counter(kept["decision"].to_pylist()) == Counter(row["decision"] for row in report.rows)


def test_the_page_is_small_and_whole(report: SimpleNamespace) -> None:
    assert report.page.stat().st_size < SIZE_LIMIT
    assert report.facts["is_event_log"] is True
    for heading in (
        "Decisions",
        "Objects",
        "Documents",
        "Event categories",
    ):
        assert f">{heading}</h2>" in report.html
    assert "Nothing is queried." in report.html


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = write_hostile_log(tmp_path_factory.mktemp("hostile"))
    parameters = {"path": str(path), "driver_user": "drv", "as_of": "2026-12-01T00:00:00Z", "batch_size": 2}
    return execute(notebook_path("event_log_xds"), parameters, say=lambda _: None)


def shown(notebook: Any) -> str:
    """The HTML of a notebook, without the style sheet and the script that it brings itself."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    data = [output.get("data", {}) for output in outputs if output.get("metadata", {}).get("cdcwb") != STYLE]
    return "\n".join(item.get("text/html", "") for item in data)


def test_the_parameters_of_the_driver_decide(hostile: Any) -> None:
    facts = read_facts(hostile)
    assert facts["decisions_skipped"] == 2  # the driver's own, and a status that is none
    assert facts["decisions_waiting"] == 1
    assert facts["decisions_needs_snapshot"] == 1
    assert facts["key_spellings"] == 1
    assert facts["snapshot_tables"] == []
    assert "driver&#x27;s database user is drv" in shown(hostile)


def test_nothing_captured_becomes_markup(hostile: Any) -> None:
    html = shown(hostile)
    assert "&lt;script&gt;" in html
    assert "<script" not in html
    assert "<img" not in html
    figures = [
        output["data"][FIGURE_MIME]
        for cell in hostile["cells"]
        for output in cell.get("outputs", ())
        if FIGURE_MIME in output.get("data", {})
    ]
    assert len(figures) == 2
    assert "<script" not in json.dumps(figures)
    assert "<img" not in json.dumps(figures)


def test_another_capture_is_shown_as_its_changes(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    facts = run_report("event_log_xds", DATA / "goldengate", page, say=lambda _: None)
    assert facts["is_event_log"] is False
    assert facts["rows"] == facts["changes"] == 150
    # an update that changed nothing is among those that are left out
    assert (facts["decisions_published"], facts["decisions_left_out"]) == (143, 7)
    assert facts["documents"] == 143
    html = page.read_text(encoding="utf-8")
    assert "This is not an event log" in html
    assert "not committed: its outcome is rolled_back" in html
    assert html.count('<section class="cdcwb-document">') == len(facts["documents_shown"]) == 3


def test_a_capture_without_keys_says_so_in_one_line_and_shows_no_empty_sections(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    facts = run_report("event_log_xds", DATA / "gbase8s", page, say=lambda _: None)
    assert facts["documents"] == 0
    assert facts["decisions_left_out"] == facts["not_published"] == facts["rows"] > 0
    text = page.read_text(encoding="utf-8")
    html = text[text.index("<main") : text.index("</main>")]
    why = "No XDS documents: gbase8s captures name no key columns; give keys="
    assert (text.count(f'class="answer">{why}'), html.count(why)) == (1, 0)
    for heading in (
        "Decisions",
        "Reasons",
        "Objects",
        "Documents",
        "Event categories",
    ):
        assert f">{heading}<" not in html
    assert "event logs only" not in html
    assert ">Problems</h2>" in html


def test_a_capture_without_keys_has_documents_by_inferred_keys_where_they_are_asked_for(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    parameters = {"infer_keys": True, "tables": ["shop.orders"]}
    facts = run_report("event_log_xds", DATA / "gbase8s", page, parameters=parameters, say=lambda _: None)
    assert facts["keys_inferred"]["shop.orders"] == "order_id"
    assert facts["documents"] == facts["decisions_published"] > 100
    assert "Its key is inferred: order_id is unique in" in page.read_text(encoding="utf-8")


def test_settings_are_checked_before_anything_runs() -> None:
    assert read_settings("u", "2026-12-01T00:00:00Z", 5).future_events is True
    assert read_settings(settings='{"batch_size": 7}').batch_size == 7
    with pytest.raises(OptionError, match="'batch_size' is given twice"):
        read_settings(batch_size=5, settings='{"batch_size": 7}')
    with pytest.raises(OptionError, match="settings: expected a JSON object, found"):
        read_settings(settings="[1]")
    with pytest.raises(OptionError, match="batch_siz"):
        read_settings(settings='{"batch_siz": 7}')


def test_a_snapshot_is_an_object_a_folder_or_the_one_beside_the_capture(tmp_path: Path) -> None:
    assert snapshot_files("", "x") == {}
    assert snapshot_files('{"usr": "a.csv"}', "x") == {"usr": "a.csv"}
    assert sorted(snapshot_files("auto", str(DATA / "idm-event-log"))) == [
        "customer",
        "order_line",
        "orders",
        "view_reading",
    ]
    assert snapshot_files("auto", str(DATA / "goldengate")) == {}
    for name in ("usr.csv", "usr.jsonl"):
        (tmp_path / name).touch()
    with pytest.raises(OptionError, match="second file of table 'usr'"):
        snapshot_files(str(tmp_path), "x")
    with pytest.raises(OptionError, match="expected a JSON object or a folder"):
        snapshot_files(str(tmp_path / "nowhere"), "x")
