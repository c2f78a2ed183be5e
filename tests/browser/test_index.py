"""The index of reports in a browser: what its search field leaves, with the keyboard alone, narrow, without script."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from cdcwb.report.html import IndexEntry, write_index
from tests.browser.chrome import errors, opened, requests, without_script

RUNS = "<img src=x onerror=\"document.title='owned'\">"
ANSWERS = {
    "orders": {
        "01_capture": ("Capture", "bad", "Issues found: 2 errors"),
        "02_transactions": ("Transactions", "warning", "1 of 2 transactions still open"),
        "04_schema_drift": ("Schema drift", "good", "1 column added: shop.café.état"),
    },
    "stock": {
        "01_capture": ("Capture", "good", "Healthy: no problems"),
        "02_transactions": ("Transactions", "good", f"All 7 transactions committed; longest 1 s ({RUNS})"),
    },
}
SEEN = """return [...document.querySelectorAll('#matrix :is(a, .path)')]
    .filter(node => node.checkVisibility({visibilityProperty: true})).map(node => node.textContent)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    with opened() as chrome:
        yield chrome


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    entries = []
    for capture, answers in ANSWERS.items():
        (folder / capture).mkdir()
        verdict = answers["01_capture"][2]
        for name, (title, tone, said) in answers.items():
            (folder / capture / f"{name}.html").write_text(f"<title>{title}</title>")
            about = ("What it is.", verdict, answers["01_capture"][1])
            place = f"{capture}/{name}.html"
            entries.append(IndexEntry(title, capture, place, tone, said, *about, answers=name != "01_capture"))
    return write_index(folder, entries, datetime.now(UTC), "0")


@pytest.fixture
def chrome(browser: Chrome, page: Path) -> Chrome:
    browser.get("about:blank")
    errors(browser), requests(browser)
    browser.get(page.as_uri())
    return browser


def typed(chrome: Chrome, *keys: str) -> list[str]:
    """What is seen once these keys were pressed."""
    ActionChains(chrome).send_keys(*keys).perform()
    return [str(text) for text in chrome.execute_script(SEEN)]


def test_the_search_leaves_captures_and_answers_that_have_every_word(chrome: Chrome) -> None:
    everything = typed(chrome)
    assert len(everything) == 7
    assert typed(chrome, "/", "CAFE") == ["orders", "1 column added: shop.café.état"]
    assert typed(chrome, Keys.ESCAPE, "warning") == ["orders", "1 of 2 transactions still open"]
    assert typed(chrome, Keys.ESCAPE, "transactions") == [everything[0], everything[2], everything[4], everything[6]]
    assert typed(chrome, " stock") == ["stock", everything[6]], "a word may be the capture's"
    assert chrome.find_element(By.CSS_SELECTOR, "[role=status]").text == "1 answer of 1 capture"
    assert typed(chrome, " nowhere") == []
    assert chrome.find_element(By.CSS_SELECTOR, "[role=status]").text == "nothing found"
    assert typed(chrome, Keys.ESCAPE) == everything
    assert errors(chrome) == []
    assert requests(chrome) == [chrome.current_url]
    assert chrome.title == "cdcwb reports", "nothing captured runs"


def test_a_report_is_opened_with_the_keyboard_alone(chrome: Chrome) -> None:
    typed(chrome, "/", "committed", Keys.ENTER, Keys.ENTER)
    assert chrome.title == "Transactions"
    assert chrome.current_url.endswith("stock/02_transactions.html")


@pytest.mark.parametrize("width", [390, 1280, 1600])
def test_the_matrix_has_room_and_is_there_without_script(chrome: Chrome, page: Path, width: int) -> None:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    shown = "const page = document.documentElement; return [page.scrollWidth, innerWidth]"
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        with without_script(chrome, page):
            assert chrome.execute_script(shown) == [width, width]
            assert len(chrome.execute_script(SEEN)) == 7
            assert not chrome.find_element(By.ID, "find").is_displayed()
    finally:
        chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
