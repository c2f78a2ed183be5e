"""The report in a browser: charts drawn, nothing wrong, nothing asked of the network, nothing captured that runs.

The capture is hostile: its file, its tables and a column are named like HTML that would run or load something.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

import cdcwb_synth as synth
from cdcwb.report import run_report
from cdcwb.report.html import SIZE_LIMIT, IndexEntry, write_index
from tests.browser.chrome import errors, hovered, opened, requests, settled, waiting, without_script

RUNS = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
FILE = 'stream"><img src=x onerror="document.title=\'owned\'">.bin'
COLUMN = b"l_blob", b"<b>q&l"  # of the same length, so that the records stay whole


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp("report")
    made = synth.generate("gbase8s", changes=600, seed=11, to=folder / "made")
    data = (made / "capture" / "stream-1.bin").read_bytes()
    assert COLUMN[0] in data
    (folder / "capture").mkdir()
    (folder / "capture" / FILE).write_bytes(data.replace(*COLUMN))
    numbers = json.loads((made / "labels.json").read_text())
    labels = folder / "labels.json"
    labels.write_text(json.dumps({label: f"{RUNS}{label}" for label in numbers}))
    page = folder / "report.html"
    facts = run_report("transactions", folder / "capture", page, options={"labels": str(labels)})
    transactions = pq.read_table(made / "truth" / "transactions.parquet").num_rows
    index = write_index(
        folder, [IndexEntry("Transactions", RUNS, page.name, "bad", RUNS, RUNS, RUNS, "bad")], datetime.now(UTC), "0"
    )
    return SimpleNamespace(page=page, index=index, facts=facts, transactions=transactions)


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    with opened() as chrome:
        yield chrome


@pytest.fixture
def chrome(browser: Chrome, report: SimpleNamespace) -> Chrome:
    """The browser with the report open and drawn, whatever the test before did to it."""
    settled(browser, report.page, charts=4)
    return browser


def test_every_transaction_is_drawn_on_both_axes(chrome: Chrome, report: SimpleNamespace) -> None:
    panels = [
        len(chrome.find_elements(By.CSS_SELECTOR, f"#chart-1 .{panel} .barlayer .point path"))
        for panel in ("xy", "x2y2")
    ]
    assert panels == [report.transactions] * 2
    wide = "return [...document.querySelectorAll('#chart-1 .barlayer .point path')].map(p => p.getBBox().width)"
    assert min(chrome.execute_script(wide)) > 0.5
    assert len(chrome.find_elements(By.CSS_SELECTOR, "#chart-4 .barlayer .point path")) >= 4


def test_nothing_is_asked_of_the_network_and_nothing_goes_wrong(browser: Chrome, report: SimpleNamespace) -> None:
    browser.get("about:blank")
    errors(browser), requests(browser)
    settled(browser, report.page, charts=4)
    assert requests(browser) == [report.page.as_uri()]
    assert errors(browser) == []
    resources = "return performance.getEntriesByType('resource').map(entry => entry.name)"
    assert [name for name in browser.execute_script(resources) if not name.startswith("data:")] == []


def test_nothing_captured_runs(chrome: Chrome) -> None:
    assert chrome.title.startswith("Transactions · ")
    assert "owned" not in chrome.title.replace(FILE, "")
    assert chrome.find_elements(By.CSS_SELECTOR, "main img") == []
    scripts = chrome.execute_script("return [...document.scripts].map(s => [s.type, s.src])")
    assert [kind for kind, _ in scripts if not kind] == ["", "", ""]
    assert all(not source for _, source in scripts)
    text = chrome.find_element(By.TAG_NAME, "main").text
    assert RUNS[:40] in text  # shown as it is written


def test_even_unescaped_captured_text_could_not_run(chrome: Chrome) -> None:
    errors(chrome)
    chrome.execute_script("document.querySelector('main').insertAdjacentHTML('beforeend', arguments[0])", RUNS)
    chrome.execute_script(
        "const added = document.createElement('script');"
        "added.textContent = 'document.title = \"owned\"';"
        "document.body.append(added)"
    )
    waiting(chrome).until(lambda c: c.execute_script("return document.querySelector('main img').complete"))
    assert chrome.title != "owned"
    assert any("Content Security Policy" in message for message in errors(chrome))


def test_pointing_at_a_bar_tells_its_numbers_with_captured_text_as_text(chrome: Chrome) -> None:
    widest = (
        "return [...document.querySelectorAll('#chart-1 .xy .barlayer .point path')]"
        ".sort((a, b) => b.getBBox().width - a.getBBox().width)[0]"
    )
    bar = chrome.execute_script(widest)
    told = hovered(chrome, bar, "#chart-1 .hovertext")
    assert "duration" in told
    assert "log position" in told
    assert "<img" in told
    assert chrome.find_elements(By.CSS_SELECTOR, ".hoverlayer img, .hoverlayer image") == []
    assert errors(chrome) == []


def test_no_button_sends_the_chart_anywhere(chrome: Chrome) -> None:
    titles = chrome.execute_script("return [...document.querySelectorAll('.modebar-btn')].map(b => b.dataset.title)")
    assert titles
    assert not [title for title in titles if "hare" in title or "loud" in title or "roduced" in title]


def test_without_script_the_numbers_stand_in_the_place_of_the_charts(browser: Chrome, report: SimpleNamespace) -> None:
    with without_script(browser, report.page):
        tables = browser.find_elements(By.CSS_SELECTOR, "figure.chart .instead table")
        assert len(tables) == 4
        assert all(table.is_displayed() for table in tables)
        drawings = browser.find_elements(By.CSS_SELECTOR, "figure.chart .drawing")
        assert not any(drawing.is_displayed() for drawing in drawings)


def test_with_script_the_numbers_make_room_for_the_charts(chrome: Chrome) -> None:
    assert not any(t.is_displayed() for t in chrome.find_elements(By.CSS_SELECTOR, "figure.chart .instead"))
    assert all(t.is_displayed() for t in chrome.find_elements(By.CSS_SELECTOR, "figure.chart .drawing"))


def test_a_phone_needs_no_sideways_scrolling_of_the_page(browser: Chrome, report: SimpleNamespace) -> None:
    phone = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        settled(browser, report.page, charts=4)
        wide = browser.execute_script("return document.documentElement.scrollWidth")
        assert wide <= 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_index_leads_to_the_report(browser: Chrome, report: SimpleNamespace) -> None:
    browser.get(report.index.as_uri())
    errors(browser), requests(browser)
    link = f"a[href='{report.page.name}']"
    browser.find_element(By.CSS_SELECTOR, link).click()
    waiting(browser).until(lambda c: c.current_url == report.page.as_uri())
    assert browser.find_element(By.TAG_NAME, "h1").text == "Transactions"
    assert "owned" not in browser.title.replace(FILE, "")


def test_the_file_keeps_its_size(report: SimpleNamespace) -> None:
    assert report.page.stat().st_size < SIZE_LIMIT


def test_these_tests_would_notice_a_request_and_an_error(browser: Chrome, tmp_path: Path) -> None:
    """A page that does everything wrong: what the tests above look at must not be blind."""

    class Quiet(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        leak = f"http://127.0.0.1:{server.server_port}/leak"
        wrong = tmp_path / "wrong.html"
        wrong.write_text(
            f"<title>x</title><main>{RUNS}</main><img src='{leak}'><script>throw new Error('oops')</script>"
        )
        browser.get("about:blank")
        errors(browser), requests(browser)
        browser.get(wrong.as_uri())
        waiting(browser).until(lambda c: c.title == "owned")
        assert leak in requests(browser)
        assert any("oops" in message for message in errors(browser))
    finally:
        server.shutdown()
        server.server_close()
