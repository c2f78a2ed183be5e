"""The report on an event log in a browser: every row drawn, documents beside their rows, nothing captured that runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from cdcwb.report import run_report
from tests.browser.chrome import errors, hovered, opened, requests, settled
from tests.hostile_log import RUNS, write_hostile_log
from tests.reports import DATA

CHARTS = 2


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    with opened() as chrome:
        yield chrome


def made(path: Path, page: Path, **parameters: object) -> SimpleNamespace:
    facts = run_report("event_log_xds", path, page, parameters=parameters, say=lambda _: None)
    return SimpleNamespace(page=page, facts=facts)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    page = tmp_path_factory.mktemp("report") / "page.html"
    return made(DATA / "idm-event-log", page, driver_user="IDM_DRIVER", settings='{"schema": "shop"}')


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp("hostile")
    return made(
        write_hostile_log(folder), folder / "page.html", driver_user="drv", settings=f'{{"schema": "{RUNS[:8]}"}}'
    )


def test_the_example_opens_without_errors_and_draws_all_that_it_says(browser: Chrome, example: SimpleNamespace) -> None:
    browser.get("about:blank")
    errors(browser), requests(browser)
    settled(browser, example.page, charts=CHARTS)
    assert errors(browser) == []
    assert requests(browser) == [example.page.as_uri()]
    assert (example.facts["decisions_published"], example.facts["documents"]) == (525, 187)
    bars = browser.find_elements(By.CSS_SELECTOR, "#chart-1 .barlayer .point path")
    assert len(bars) == len(example.facts["decisions"])
    assert len(browser.find_elements(By.CSS_SELECTOR, "#chart-2 .ytick text")) == 40


def test_every_mark_of_a_history_bears_its_event_type(browser: Chrome, example: SimpleNamespace) -> None:
    settled(browser, example.page, charts=CHARTS)
    marks = browser.find_elements(By.CSS_SELECTOR, "#chart-2 .scatterlayer .points path.point")
    digits = [text.text for text in browser.find_elements(By.CSS_SELECTOR, "#chart-2 .scatterlayer .text text")]
    assert len(marks) == len([digit for digit in digits if not digit.startswith("+")]) > 100
    assert set(digits) <= set("12345678?")


def test_documents_stand_beside_their_rows_and_below_them_on_a_phone(browser: Chrome, example: SimpleNamespace) -> None:
    settled(browser, example.page, charts=CHARTS)
    boxes = (
        "return [...document.querySelectorAll('.cdcwb-document')].map(d => ['.from', '.to'].map(n => {"
        "const box = d.querySelector(n).getBoundingClientRect(); return [box.left, box.right, box.top, box.bottom]}))"
    )
    pairs = browser.execute_script(boxes)
    assert len(pairs) == len(example.facts["documents_shown"])
    assert all(rows[1] <= text[0] and rows[2] == text[2] for rows, text in pairs)
    phone = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        settled(browser, example.page, charts=CHARTS)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
        assert all(rows[3] <= text[2] for rows, text in browser.execute_script(boxes))
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_what_goes_and_what_comes_differ_in_colour_and_mark(browser: Chrome, example: SimpleNamespace) -> None:
    settled(browser, example.page, charts=CHARTS)
    look = "return [...document.querySelectorAll('.cdcwb-xml .{}')].map(l => {}).sort()"
    seen = {}
    for how in ("added", "removed"):
        colour = browser.execute_script(look.format(how, "getComputedStyle(l).backgroundColor"))
        mark = browser.execute_script(look.format(how, "l.querySelector('.mark').textContent"))
        assert len(set(colour)) == len(set(mark)) == 1
        seen[how] = colour[0], mark[0]
    assert seen["added"][0] != seen["removed"][0]
    assert (seen["added"][1], seen["removed"][1]) == ("+", "−")


def test_nothing_captured_runs_or_becomes_an_element(browser: Chrome, hostile: SimpleNamespace) -> None:
    browser.get("about:blank")
    errors(browser), requests(browser)
    settled(browser, hostile.page, charts=CHARTS)
    assert errors(browser) == []
    assert requests(browser) == [hostile.page.as_uri()]
    assert "owned" not in browser.title.replace(RUNS, "")
    alien = "main img, main script:not([type='application/json']), main iframe, main object"
    assert browser.find_elements(By.CSS_SELECTOR, alien) == []
    values = browser.find_elements(By.CSS_SELECTOR, ".cdcwb-rows ins")
    assert any(value.text.endswith(RUNS[:40]) or RUNS[:40] in value.text for value in values)


def test_pointing_at_a_row_shows_what_it_is_as_text(browser: Chrome, hostile: SimpleNamespace) -> None:
    settled(browser, hostile.page, charts=CHARTS)
    mark = browser.find_elements(By.CSS_SELECTOR, "#chart-2 .scatterlayer .points path.point")[0]
    text = hovered(browser, mark, "#chart-2 .hoverlayer .hovertext")
    assert "record" in text
    assert "event type" in text
    assert "row 1 of" in text
    assert browser.title != "owned"
    assert errors(browser) == []
