"""The page for beginners in a browser: it opens, asks nobody anything, joins bytes to fields, unfolds answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By

from cdcwb.report import run_report
from tests.browser.chrome import errors, opened, requests, settled, waiting

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("report") / "start.html"
    run_report("start_here", DATA, place, say=lambda _: None)
    return place


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    with opened() as chrome:
        yield chrome


def test_the_page_opens_without_errors_and_its_answers_unfold(browser: Chrome, page: Path) -> None:
    browser.get("about:blank")
    errors(browser), requests(browser)
    settled(browser, page, charts=0)
    assert errors(browser) == []
    assert requests(browser) == [page.as_uri()]
    answer = browser.find_element(By.CSS_SELECTOR, "details")
    text = answer.find_element(By.CSS_SELECTOR, "p")
    assert not text.is_displayed()
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", answer)
    answer.find_element(By.CSS_SELECTOR, "summary").click()
    assert text.is_displayed()


def test_who_points_at_a_field_sees_its_bytes_and_the_other_way_round(browser: Chrome, page: Path) -> None:
    settled(browser, page, charts=0)
    box = browser.find_element(By.CSS_SELECTOR, ".cdcwb-bytes")

    def lit() -> list[str]:
        runs = box.find_elements(By.CSS_SELECTOR, "span.f")
        return [run.text for run in runs if run.value_of_css_property("outline-style") == "solid"]

    assert lit() == []
    row = box.find_element(By.CSS_SELECTOR, "tr.n4")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", row)
    wait = waiting(browser)
    ActionChains(browser).move_to_element(row).perform()
    wait.until(lambda _: lit() == ["400 00 00 2b"])  # number 4 and its bytes
    run_of_bytes = box.find_element(By.CSS_SELECTOR, "span.n9")
    ActionChains(browser).move_to_element(run_of_bytes).perform()
    wait.until(lambda _: len(lit()) == 1 and lit()[0].startswith("9"))

    def ground(number: int) -> str:
        cell = row.find_element(By.XPATH, f"../tr[contains(@class, ' n{number} ')]/td")
        return cell.value_of_css_property("background-color")

    wait.until(lambda _: ground(9) != ground(4))


def test_links_of_the_contents_lead_somewhere(browser: Chrome, page: Path) -> None:
    settled(browser, page, charts=0)
    inside = browser.execute_script(
        "return [...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.getAttribute('href').slice(1))"
        ".filter(id => id && !document.getElementById(id))"
    )
    assert inside == []


def test_a_phone_needs_no_sideways_scrolling_of_the_page(browser: Chrome, page: Path) -> None:
    phone = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        settled(browser, page, charts=0)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
