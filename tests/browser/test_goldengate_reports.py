"""The report on the GoldenGate trail in ``data/`` in a browser: trail files on the axis, what is void or missing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from tests.browser.chrome import errors, opened, requests, settled
from tests.reports import Report, report_of

VOID = "8.1.1000@00000000420000006495"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    with opened() as chrome:
        yield chrome


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return report_of("goldengate", tmp_path_factory)


@pytest.fixture
def chrome(browser: Chrome, report: Report) -> Chrome:
    """The browser with the report open and drawn."""
    settled(browser, report.page, charts=5)
    return browser


def test_the_report_opens_without_errors_and_draws_every_transaction(browser: Chrome, report: Report) -> None:
    browser.get("about:blank")
    errors(browser), requests(browser)
    settled(browser, report.page, charts=5)
    assert errors(browser) == []
    assert requests(browser) == [report.page.as_uri()]
    for panel in ("xy", "x2y2"):
        bars = browser.find_elements(By.CSS_SELECTOR, f"#chart-1 .{panel} .barlayer .point path")
        assert len(bars) == report.facts["transactions"]


def test_ticks_name_trail_file_and_byte_and_stand_apart(chrome: Chrome) -> None:
    ticks = chrome.execute_script(
        "return [...document.querySelectorAll('#chart-1 .x2tick text')].map(t => {"
        "const box = t.getBoundingClientRect(); return [t.textContent, box.left, box.right]})"
    )
    assert {text[:8] for text, _, _ in ticks} == {"trail 41", "trail 42", "trail 43"}
    assert all(left[2] < right[1] for left, right in pairwise(sorted(ticks, key=lambda tick: float(tick[1]))))


def test_each_trail_file_ends_at_a_dotted_line_of_the_lower_panel(chrome: Chrome) -> None:
    lines = chrome.execute_script(
        "return document.querySelector('#chart-1 .js-plotly-plot, #chart-1.js-plotly-plot')"
        ".layout.shapes.filter(s => s.xref === 'x2' && s.line.dash === 'dot').map(s => [s.x0, s.x1])"
    )
    assert len(lines) == 2
    assert all(left == right for left, right in lines)


def test_the_legend_tells_rolled_back_from_committed(chrome: Chrome) -> None:
    names = {text.text for text in chrome.find_elements(By.CSS_SELECTOR, "#chart-1 .legend .legendtext")}
    assert any(name.startswith("rolled back") for name in names)
    assert any(name.startswith("committed") for name in names)


def test_what_was_void_and_what_is_missing_can_be_read(chrome: Chrome) -> None:
    cells = [cell.text for cell in chrome.find_elements(By.CSS_SELECTOR, "main td")]
    assert VOID in cells
    assert any("193 bytes of the trail" in text and "RBA 1040" in text for text in cells)


def test_a_phone_needs_no_sideways_scrolling_of_the_page(browser: Chrome, report: Report) -> None:
    phone = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        settled(browser, report.page, charts=5)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
