"""Every notebook over every format: the captures in ``data/``, real samples where they are at hand, and captures whose
texts are HTML. Facts are those of the truth; every page opens, draws its charts, sends nothing and runs nothing.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome

from cdcwb.report import run_suite
from cdcwb.report.html import SIZE_LIMIT
from cdcwb.report.suite import Suite, members
from tests.browser.chrome import errors, opened, requests, settled
from tests.face.cases import IN_DATA
from tests.face.face import check, facts_of
from tests.hostile_log import write_hostile_log
from tests.hostile_messages import hostile
from tests.reports import DATA

STEMS = sorted(path.stem for path in members().values())
REAL = {
    "gbase8s": ["gbase8s/seed_stream_clean.bin"],
    "qlik-kafka": ["qlik/03-kafka-json-DT-salaries-refresh.json"],
    "qlik-change-table": [f"qlik/17-ct-file-EDW.SAMPLE{end}" for end in ("_LOAD1", "__ct_20211201-112233444")],
    "goldengate": ["goldengate/logdump-mysql-04-update-fieldcomp.txt"],
    "idm-event-log": ["idm/doc-eventlog-rows.csv"],
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    with opened() as chrome:
        yield chrome


def check_pages(browser: Chrome, folder: Path) -> None:
    """Every page of a suite, and its index."""
    (scripts,) = folder.glob("cdcwb-*.js")
    for stem in STEMS:
        page = folder / f"{stem}.html"
        text = page.read_text(encoding="utf-8")
        assert len(text.encode()) < SIZE_LIMIT
        charts = text.count('<figure class="chart"')
        browser.get("about:blank")
        errors(browser), requests(browser)
        settled(browser, page, charts=charts)
        assert errors(browser) == [], stem
        wanted = [one.as_uri() for one in (page, scripts) if one == page or one.name in text]
        assert requests(browser) == wanted, stem
        assert browser.execute_script("return document.querySelectorAll('figure.chart.failed').length") == 0, stem
        assert "owned" not in browser.title, stem
        assert browser.execute_script("return document.images.length") == 0, stem
    browser.get((folder / "index.html").as_uri())
    assert errors(browser) == []


def made(path: Path, to: Path, **given: Any) -> Suite:
    suite = run_suite(path, to, say=lambda _: None, **given)
    assert suite.failed == {}
    assert sorted(suite.facts) == STEMS
    return suite


@pytest.mark.parametrize("name", IN_DATA)
def test_every_notebook_tells_what_is_in_a_generated_capture(name: str, browser: Chrome, tmp_path: Path) -> None:
    expected = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))[name]
    suite = made(DATA / name, tmp_path)
    check(f"{name}-reports", facts_of(suite, DATA))
    wanted = {one: expected[one] for one in ("bytes", "malformed_bytes", "changes", "changes_by_operation")}
    wanted["transactions"] = expected.get("transactions", 0)
    wanted["open_transactions"] = expected.get("transactions_by_outcome", {}).get("open", 0)
    for stem, facts in suite.facts.items():
        assert {one: facts[one] for one in wanted} == wanted, stem
        assert facts["format"] == name
    check_pages(browser, tmp_path)


@pytest.mark.samples
@pytest.mark.parametrize("name", sorted(REAL))
def test_every_notebook_answers_about_a_real_capture(name: str, samples: Path, tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    capture.mkdir()
    for start in REAL[name]:
        for path in (samples / start).parent.glob(f"{Path(start).name}*"):
            shutil.copyfile(path, capture / path.name)
    suite = made(capture, tmp_path / "reports")
    told = {
        json.dumps({one: facts[one] for one in ("changes", "transactions", "problems", "bytes")})
        for facts in suite.facts.values()
    }
    assert len(told) == 1  # all pages say the same
    first = next(iter(suite.facts.values()))
    assert (first["format"], first["ledger"]) == (name, "closes")
    assert first["changes"] > 0


@pytest.mark.parametrize("kind", ["messages", "log"])
def test_nothing_captured_runs(kind: str, browser: Chrome, tmp_path: Path) -> None:
    path = hostile(tmp_path / "capture") if kind == "messages" else write_hostile_log(tmp_path)
    suite = made(path, tmp_path / "reports", parameters={"target": str(path)} if kind == "messages" else {})
    assert next(iter(suite.facts.values()))["changes"] > 0
    check_pages(browser, tmp_path / "reports")
