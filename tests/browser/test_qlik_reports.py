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
    ticks = boxes(browser, ".x2tick text")
    assert len(ticks) >= 3
    assert all(width > height for _, _, width, height, _ in ticks)  # turned, they would be as high as wide
    assert all(left[1] < right[0] for left, right in pairwise(ticks))


def boxes(browser: Chrome, selector: str) -> list[tuple[float, float, float, float, float]]:
    """Left, right, width, height and bottom of parts of the timeline, in pixels."""
    return browser.execute_script(  # type: ignore[no-any-return]
        "return [...document.querySelectorAll('#chart-1 ' + arguments[0])].map(t => {"
        "const box = t.getBoundingClientRect(); return [box.left, box.right, box.width, box.height, box.bottom]})",
        selector,
    )


def test_a_phone_needs_no_sideways_scrolling_of_the_page_and_axes_have_room(browser: Chrome, report: Report) -> None:
    phone = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        settled(browser, report.page, charts=5)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
        ticks = boxes(browser, ".x2tick text")
        assert len(ticks) >= 2
        assert all(width > height for _, _, width, height, _ in ticks)
        assert all(left[1] < right[0] for left, right in pairwise(ticks))
        [title], [panel], [position] = (boxes(browser, s) for s in (".xtitle", ".x2y2 .barlayer", ".x2title"))
        assert title[4] <= panel[4] - panel[3]  # the title of the upper panel ends where the lower one begins
        assert position[0] >= 0
        assert position[1] <= 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
