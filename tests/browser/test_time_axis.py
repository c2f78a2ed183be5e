"""Axes of time in a browser: one change in 2099 does not squeeze the others, and a box looks closer in all lanes.

Sixty changes within a minute, each a transaction by itself, and one 73 years later; in the log of a change table.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By

from cdcwb.report import run_report
from tests.browser.chrome import errors, opened, settled, waiting

HEADER = "header__change_seq,header__change_oper,header__change_mask,header__transaction_id,header__timestamp,id,name\n"
CHANGES = 60


def row(number: int, at: str) -> str:
    digits = "".join(letter for letter in at if letter.isdigit()).ljust(16, "0")
    return f"{digits}{number:019},I,60,{number:032X},{at}.000000,{number},a\n"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("far")
    (folder / "capture" / "hr.emp__ct").mkdir(parents=True)
    rows = [row(number, f"2026-02-03 08:00:{number:02}") for number in range(CHANGES)] + [
        row(99, "2099-01-01 00:00:00")
    ]
    (folder / "capture" / "hr.emp__ct" / "1.csv").write_text(HEADER + "".join(rows), encoding="utf-8")
    page = folder / "capture.html"
    facts = run_report("capture", folder / "capture", page, say=lambda _: None)
    assert facts["changes_over_time"] == CHANGES + 1
    timeline = folder / "transactions.html"
    facts = run_report("transactions", folder / "capture", timeline, say=lambda _: None)
    assert facts["timeline_on_time"] == CHANGES + 1
    assert facts["timeline_lanes"] == 1
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    with opened() as chrome:
        yield chrome


def ranges(chrome: Chrome, axis: str = "xaxis") -> list[Any]:
    """The range of an axis of each chart that has one of time."""
    script = """
        return [...document.querySelectorAll('.js-plotly-plot')]
            .filter(chart => chart._fullLayout.xaxis && chart._fullLayout.xaxis.type === 'date')
            .map(chart => chart._fullLayout[arguments[0]].range.map(String))
    """
    return list(chrome.execute_script(script, axis))


@pytest.mark.parametrize("name", ["capture", "transactions"])
def test_the_axes_show_the_bulk_and_the_page_says_what_is_outside(browser: Chrome, report: Path, name: str) -> None:
    settled(browser, report / f"{name}.html", charts=1)
    found = ranges(browser)
    assert found
    assert {end[:10] for both in found for end in both} <= {"2026-02-03"}
    text = browser.find_element(By.TAG_NAME, "main").text
    assert "Outside the axis: " in text
    assert " after 2026-02-03 08:00:59" in text
    assert errors(browser) == []


def test_a_double_click_shows_all_times(browser: Chrome, report: Path) -> None:
    settled(browser, report / "transactions.html", charts=1)
    chart = browser.find_element(By.CSS_SELECTOR, ".js-plotly-plot .nsewdrag")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
    ActionChains(browser).double_click(chart).perform()
    waiting(browser).until(lambda chrome: ranges(chrome)[0][1][:4] >= "2098")


def test_a_box_looks_closer_at_a_part_of_the_axis_and_keeps_the_lanes(browser: Chrome, report: Path) -> None:
    settled(browser, report / "transactions.html", charts=1)
    chart = browser.find_element(By.CSS_SELECTOR, ".js-plotly-plot .nsewdrag")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
    lanes, times = ranges(browser, "yaxis")[0], ranges(browser)[0]
    start = ActionChains(browser).move_to_element_with_offset(chart, -200, -10).click_and_hold()
    start.move_by_offset(150, 5).move_by_offset(150, 5).release().perform()
    waiting(browser).until(lambda chrome: ranges(chrome)[0] != times)
    assert ranges(browser, "yaxis")[0] == lanes
