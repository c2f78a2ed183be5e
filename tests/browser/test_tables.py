"""Saved pages in a browser: tables that are sorted, filtered, copied and saved, and pages of a suite with their script
file, without it, and over HTTP. The pages are written from outputs; nothing is read and no kernel is started.
"""

from __future__ import annotations

import csv
import shutil
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from cdcwb.charts import theme
from cdcwb.report import show
from cdcwb.report.answer import Answer
from cdcwb.report.html import PageInfo, page
from cdcwb.report.suite import siblings_of
from cdcwb.writing import write_text
from tests.browser.chrome import errors, opened, requests, settled, waiting, without_script

ABOUT = PageInfo("capture", datetime(2026, 3, 23, tzinfo=UTC), "02_transactions", "1")
START = datetime(2026, 2, 3, 8, 0, tzinfo=UTC)
HEADINGS = {
    "name": "name",
    "at": "time",
    "duration_us": "duration",
    "bytes": "size",
    "position": "number",
    "user": "user",
}
FORMULAS = ["=1+1", "+x", "-12.5", "-x", "@sum", 'plain, "quoted"', "ü", "10", "9", "a", "b", "c"]
ROWS = [
    {
        "name": name,
        "at": START + timedelta(minutes=number * 37 % 12),
        "duration_us": (number * 7 % 12) * 500_000,
        "bytes": 10**number,
        "position": 2**60 + number * 5 % 12,
        "user": None if number % 3 else f"user {number}",
    }
    for number, name in enumerate(FORMULAS)
]
WIDE = {f"column_{number}": "shop.customer_address 2026-02-03T08:00:00.000001" for number in range(12)}


def content(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A notebook with a chart, two long tables and a wide one, as their functions put them out."""
    outputs: list[dict[str, Any]] = []
    monkeypatch.setattr("IPython.display.display", lambda data, **_: outputs.append(data))
    show.read_by({"/in/stream.bin": ("gbase8s", {})})
    show.chart(theme.figure(200, [go.Bar(x=["a"], y=[1])]), show.table_html(ROWS[:1], {"name": "the bar's name"}))
    answer = Answer()
    answer.table(ROWS, HEADINGS)
    locations = [{"file": "/in/stream.bin", "offset": number * 1000} for number in (9, 40)]
    answer.table(locations, {"file": "file", "offset": "offset"})
    answer.table([WIDE], {name: name for name in WIDE})
    show.put_blocks(answer)
    show.read_by({})
    shown = [{"output_type": "display_data", "data": data, "metadata": {}} for data in outputs]
    cells = [{"cell_type": "markdown", "source": "# Page\n\n## Longest"}]
    return {"cells": [*cells, {"cell_type": "code", "source": "", "outputs": shown}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page that is made alone, and one of a suite, in a folder below its scripts."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as monkeypatch:
        notebook = content(monkeypatch)
    (folder / "alone.html").write_text(page(notebook, ABOUT), encoding="utf-8")
    siblings = siblings_of(folder / "part", folder)
    write_text(folder / "part" / "02_transactions.html", page(notebook, ABOUT, siblings))
    (folder / "index.html").write_text("<title>index</title>", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def browser(folder: Path) -> Iterator[Chrome]:
    with opened() as chrome:
        (folder / "saved").mkdir()
        chrome.execute_cdp_cmd(
            "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder / "saved")}
        )
        yield chrome


@pytest.fixture
def chrome(browser: Chrome, folder: Path) -> Chrome:
    settled(browser, folder / "alone.html", charts=1)
    errors(browser)
    return browser


def table(chrome: Chrome, number: int = 0) -> WebElement:
    return chrome.find_elements(By.CSS_SELECTOR, "main > .cdcwb-scroll > table")[number]


def column(chrome: Chrome) -> list[str]:
    """What the first column of the first table shows, from the top."""
    script = """
        const rows = [...arguments[0].tBodies[0].rows].filter(row => row.checkVisibility());
        return rows.map(row => row.cells[0].textContent);
    """
    return list(chrome.execute_script(script, table(chrome)))


def heading(chrome: Chrome, name: str) -> WebElement:
    at = list(HEADINGS).index(name)
    return table(chrome).find_elements(By.CSS_SELECTOR, "th")[at]


def tool(chrome: Chrome, label: str, number: int = 0) -> WebElement:
    tools = chrome.find_elements(By.CSS_SELECTOR, "main > .cdcwb-tools")[number]
    return next(one for one in tools.find_elements(By.TAG_NAME, "button") if one.text == label)


def status(chrome: Chrome, number: int = 0) -> str:
    return chrome.find_elements(By.CSS_SELECTOR, "main > .cdcwb-tools .status")[number].text


@pytest.mark.parametrize("name", list(HEADINGS))
def test_a_click_on_a_heading_sorts_by_value_up_down_and_not(chrome: Chrome, name: str) -> None:
    def key(row: dict[str, Any]) -> Any:
        return row[name]

    known = [row for row in ROWS if row[name] is not None]
    unknown = [row["name"] for row in ROWS if row[name] is None]
    button = heading(chrome, name).find_element(By.TAG_NAME, "button")
    button.click()
    assert heading(chrome, name).get_attribute("aria-sort") == "ascending"
    up = column(chrome)
    if name not in ("name", "user"):
        assert up == [row["name"] for row in sorted(known, key=key)]
    button.click()
    assert heading(chrome, name).get_attribute("aria-sort") == "descending"
    assert column(chrome) == [*reversed(up[: len(known)]), *unknown], "what is not known is last either way"
    button.click()
    assert heading(chrome, name).get_attribute("aria-sort") is None
    assert column(chrome) == FORMULAS
    assert errors(chrome) == []


def test_the_keyboard_sorts_as_well_and_one_column_at_a_time(chrome: Chrome) -> None:
    first, second = (heading(chrome, name).find_element(By.TAG_NAME, "button") for name in ("bytes", "duration_us"))
    first.send_keys(Keys.ENTER)
    second.send_keys(Keys.SPACE)
    sorts = [head.get_attribute("aria-sort") for head in table(chrome).find_elements(By.CSS_SELECTOR, "th")]
    assert sorts == [None, None, "ascending", None, None, None]
    names = [row["name"] for row in sorted(ROWS, key=lambda row: row["duration_us"])]
    assert column(chrome) == names
    assert chrome.switch_to.active_element == second


def test_a_field_above_a_long_table_filters_its_rows(chrome: Chrome) -> None:
    fields = chrome.find_elements(By.CSS_SELECTOR, "main .cdcwb-tools input")
    assert len(fields) == 1, "only tables of more than ten rows have one"
    fields[0].send_keys("user 9")
    assert column(chrome) == ["a"]
    assert status(chrome) == "1 of 12 rows"
    fields[0].send_keys(Keys.ESCAPE)
    assert column(chrome) == FORMULAS
    assert status(chrome) == ""


def saved(folder: Path, name: str) -> list[list[str]]:
    text = (folder / "saved" / name).read_bytes()
    assert text.startswith("\ufeff".encode())
    assert text.endswith(b"\r\n")
    return list(csv.reader(text.decode("utf-8-sig").splitlines(keepends=True)))


def test_the_csv_has_the_values_in_full_and_no_formula(chrome: Chrome, folder: Path) -> None:
    tool(chrome, "CSV").send_keys(Keys.ENTER)
    file = folder / "saved" / "page-longest.csv"
    waiting(chrome).until(lambda _: file.is_file())
    rows = saved(folder, file.name)
    assert rows[0] == ["name", "time", "duration (µs)", "size (bytes)", "number", "user"]
    assert [row[0] for row in rows[1:]] == ["'=1+1", "'+x", "-12.5", "'-x", "'@sum", *FORMULAS[5:]]
    assert rows[2] == ["'+x", "2026-02-03T08:01:00.000000Z", "3500000", "10", str(2**60 + 5), ""]
    assert status(chrome) == "12 rows saved"
    assert requests(chrome)[-1:] != ["about:blank"]
    assert errors(chrome) == []


def test_copied_are_the_rows_that_are_shown_as_they_are_sorted(chrome: Chrome) -> None:
    origin = {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    chrome.execute_cdp_cmd("Browser.grantPermissions", origin)
    heading(chrome, "bytes").find_element(By.TAG_NAME, "button").click()
    heading(chrome, "bytes").find_element(By.TAG_NAME, "button").click()
    chrome.find_element(By.CSS_SELECTOR, "main .cdcwb-tools input").send_keys("user")
    tool(chrome, "Copy").click()
    waiting(chrome).until(lambda c: status(c) == "4 rows copied")
    lines = [line.split("\t") for line in clipboard(chrome).split("\n")]
    assert [line[0] for line in lines] == ["name", "a", "ü", "'-x", "'=1+1"]
    assert [line[3] for line in lines[1:]] == [str(10**power) for power in (9, 6, 3, 0)]


def clipboard(chrome: Chrome) -> str:
    read = "navigator.clipboard.readText().then(arguments[0], error => arguments[0](String(error)))"
    return str(chrome.execute_async_script(read))


def test_a_row_copies_the_command_that_shows_its_record(chrome: Chrome) -> None:
    chrome.execute_cdp_cmd(
        "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    )
    buttons = table(chrome, 1).find_elements(By.CSS_SELECTOR, "button.inspect")
    assert len(buttons) == 2
    buttons[1].send_keys(Keys.ENTER)
    waiting(chrome).until(lambda c: status(c, 1).startswith("copied"))
    assert clipboard(chrome) == "cdcwb inspect /in/stream.bin --offset 40000 --format gbase8s"
    shown = table(chrome, 1).find_elements(By.CSS_SELECTOR, "td .shown")
    assert [one.text for one in shown] == ["9,000", "40,000"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1240, 2000])
def test_only_tables_scroll_sideways_and_no_word_breaks(browser: Chrome, folder: Path, width: int, scheme: str) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    try:
        settled(browser, folder / "alone.html", charts=1)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        wide = "const box = arguments[0].parentElement; return box.scrollWidth > box.clientWidth"
        assert browser.execute_script(wide, table(browser, 2)), "the wide table scrolls in its box"
        main = browser.execute_script("return document.querySelector('main').getBoundingClientRect().width")
        assert main >= width - 60, "a page has the width of its window"
        assert browser.execute_script(BROKEN) == []
        assert errors(browser) == []
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_column_of_short_values_takes_the_room_of_its_longest_value(chrome: Chrome) -> None:
    """And no more: what is left of a cell beside its text is the space between columns."""
    left = """
        return [...arguments[0].rows].slice(1).map(row => row.cells[0]).map(cell => {
          const range = document.createRange();
          range.selectNodeContents(cell);
          const space = parseFloat(getComputedStyle(cell).paddingRight);
          return cell.getBoundingClientRect().width - range.getBoundingClientRect().width - space;
        });
    """
    first = "return arguments[0].rows[1].cells[0].textContent"
    assert chrome.execute_script(first, table(chrome, 1)) == "/in/stream.bin"
    assert max(chrome.execute_script(left, table(chrome, 1))) <= 1


BROKEN = """
  const broken = [];
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!node.parentElement.closest("table, .cdcwb-cards, .cdcwb-tools")) continue;
    for (const word of node.data.matchAll(/[^\\s/-]+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((box) => box.top)).size > 1) broken.push(word[0]);
    }
  }
  return broken;
"""


def test_a_page_of_a_suite_opens_from_a_disk_with_the_scripts_beside_it(browser: Chrome, folder: Path) -> None:
    target = folder / "part" / "02_transactions.html"
    browser.get("about:blank")
    errors(browser), requests(browser)
    settled(browser, target, charts=1)
    (scripts,) = folder.glob("cdcwb-*.js")
    assert requests(browser) == [target.as_uri(), scripts.as_uri()]
    assert errors(browser) == []
    assert not browser.find_element(By.ID, "missing").is_displayed()
    assert tool(browser, "CSV").is_displayed()
    browser.find_element(By.LINK_TEXT, "All reports").click()
    waiting(browser).until(lambda c: c.title == "index")


def test_a_page_of_a_suite_opens_over_http_and_checks_its_scripts(
    browser: Chrome, folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "site", ignore=shutil.ignore_patterns("saved"))
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=str(tmp_path / "site")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/part/02_transactions.html"
        browser.get(url)
        drawn = "return document.querySelectorAll('figure.chart.drawn').length"
        waiting(browser).until(lambda c: c.execute_script(drawn) == 1)
        assert not browser.find_element(By.ID, "missing").is_displayed()
        (scripts,) = (tmp_path / "site").glob("cdcwb-*.js")
        with scripts.open("a") as file:
            file.write("document.title = 'owned';")
        browser.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": True})
        browser.get(url)
        waiting(browser).until(lambda c: c.find_element(By.ID, "missing").is_displayed())
        assert browser.title != "owned"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("left", [None, 1_000_000])
def test_without_its_scripts_a_page_shows_its_tables_and_says_what_is_missing(
    browser: Chrome, folder: Path, tmp_path: Path, left: int | None
) -> None:
    shutil.copytree(folder, tmp_path / "moved", ignore=shutil.ignore_patterns("saved"))
    (scripts,) = (tmp_path / "moved").glob("cdcwb-*.js")
    if left is None:
        scripts.unlink()
    else:
        scripts.write_bytes(scripts.read_bytes()[:left])
    settled(browser, tmp_path / "moved" / "part" / "02_transactions.html", charts=1)
    note = browser.find_element(By.ID, "missing")
    waiting(browser).until(lambda _: note.is_displayed())
    assert scripts.name in note.text
    assert "the bar's name" in browser.find_element(By.CSS_SELECTOR, "figure.chart .instead").text
    assert not browser.find_element(By.CSS_SELECTOR, "figure.chart .drawing").is_displayed()
    assert column(browser) == FORMULAS
    errors(browser)


def test_where_no_script_runs_the_tables_are_plain(browser: Chrome, folder: Path) -> None:
    with without_script(browser, folder / "alone.html"):
        assert browser.find_elements(By.CSS_SELECTOR, ".cdcwb-tools, table button") == []
        cells = table(browser, 1).find_elements(By.CSS_SELECTOR, "td[title]")
        assert [cell.text for cell in cells] == ["9,000", "40,000"]
        assert "--offset 9000" in (cells[0].get_attribute("title") or "")
