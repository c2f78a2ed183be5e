"""The reports on the Qlik captures in ``data/`` in a browser: they open, draw everything and ask nobody anything."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from tests.browser.chrome import errors, opened, requests, settled
from tests.reports import Report, report_of


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    with opened() as chrome:
        yield chrome


@pytest.fixture(params=["qlik-kafka", "qlik-change-table"])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Report:
    return report_of(request.param, tmp_path_factory)


def test_a_report_opens_without_errors_and_draws_every_transaction(browser: Chrome, report: Report) -> None:
    browser.get("about:blank")
    errors(browser), requests(browser)
    settled(browser, report.page, charts=5)
    assert errors(browser) == []
    assert requests(browser) == [report.page.as_uri()]
    for panel in ("xy", "x2y2"):
        bars = browser.find_elements(By.CSS_SELECTOR, f"#chart-1 .{panel} .barlayer .point path")
        assert len(bars) == report.facts["transactions"]


def test_the_ticks_of_log_positions_stand_upright_and_apart(browser: Chrome, report: Report) -> None:
    settled(browser, report.page, charts=5)
    boxes = browser.execute_script(
        "return [...document.querySelectorAll('#chart-1 .x2tick text')].map(t => {"
        "const box = t.getBoundingClientRect(); return [box.left, box.right, box.width, box.height]})"
    )
    assert len(boxes) >= 3
    assert all(width > height for _, _, width, height in boxes)  # turned, they would be as high as wide
    assert all(left[1] < right[0] for left, right in pairwise(boxes))


def test_a_phone_needs_no_sideways_scrolling_of_the_page(browser: Chrome, report: Report) -> None:
    phone = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        settled(browser, report.page, charts=5)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
