"""Views in JupyterLab: the mouse narrows what is shown, and a click leads to the record and its bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nbformat
import pytest
from selenium.webdriver import ActionChains, Chrome

from cdcwb.index.selected import Selected
from cdcwb.index.selection import Selection
from cdcwb.index.source import IndexedCapture, open_source
from tests.browser.chrome import opened, requests, waiting
from tests.browser.lab import READY, TOKEN, lab
from tests.saved_capture import write_saved

CELLS = (
    'import cdcwb\n\ncapture = cdcwb.load("capture")\ncapture',
    "capture.view.transactions()",
    "capture.view.masks()",
    """from cdcwb.charts import reconcile as charts
from cdcwb.report.answer import Answer
from cdcwb.views.view import links_of

rows = capture.view.transactions.longest().answers()["transactions.longest"].tables[0].rows[:5]
answer = Answer("A page that Spark answered", links_of(capture.view.bench))
answer.table([{"position": row["first_position"]} for row in rows], {"position": "position"})
differences = [{"column": name, "told": "a -> b"} for name in ("state", "total")]
about = {"operation": "UPDATE", "outcome": "committed", "taken_back": False, "differences": differences}
lives = [{"at": row["began_at"], "transaction_id": row["transaction_id"], **about} for row in rows]
answer.chart(charts.row_life(answer.linked(lives)), [], "")
answer""",
)
_BUSY = (
    "return [...document.querySelectorAll('.cdcwb-panel')].filter(node => { const box = node.getBoundingClientRect();"
    " const area = document.querySelector('.jp-WindowedPanel-outer, .jp-Notebook').getBoundingClientRect();"
    " return box.top < area.bottom - 20 && box.bottom > area.top + 20; })"
    ".some(node => node.getAttribute('aria-busy') !== 'false')"
)


CHOSEN = "return document.querySelector('.cdcwb-explorer .line.chosen')?.dataset.row"


class Page:
    """A notebook with two pages of views, in JupyterLab."""

    def __init__(self, chrome: Chrome, source: IndexedCapture) -> None:
        self.chrome = chrome
        self.source = source
        self.wait = waiting(chrome)

    def one(self, selector: str) -> Any:
        return self.chrome.find_element("css selector", selector)

    def text(self, selector: str) -> str:
        return str(
            self.chrome.execute_script("return document.querySelector(arguments[0])?.textContent ?? ''", selector)
        )

    def until(self, python: str) -> None:
        """Wait until the bar of controls writes the selection in this way, and what is in sight is drawn."""
        self.wait.until(lambda _: re.fullmatch(python, self.text(".python")))
        self.wait.until(lambda chrome: not chrome.execute_script(_BUSY))

    def counted(self) -> int:
        return int(self.text(".count").partition(" ")[0].replace(",", ""))

    def expected(self, **fields: Any) -> int:
        return int(Selected(self.source.changes, Selection(**fields)).mask().sum())

    def see(self, panel: str) -> Any:
        node = self.one(f'[data-panel="{panel}"]')
        self.chrome.execute_script("arguments[0].scrollIntoView({block: 'center'})", node)
        self.wait.until(lambda chrome: not chrome.execute_script(_BUSY))
        return node

    def press(self, selector: str) -> None:
        """Click what may be out of sight."""
        self.chrome.execute_script("arguments[0].click()", self.one(selector))

    def drag(self, panel: str) -> None:
        """Drag over the middle of a figure."""
        area = self.see(panel).find_element("css selector", ".plot .nsewdrag")
        steps = ActionChains(self.chrome).move_to_element_with_offset(area, -120, 0).click_and_hold()
        steps.move_by_offset(60, 0).move_by_offset(60, 0).move_by_offset(60, 0).release().perform()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder, home = tmp_path_factory.mktemp("folder"), tmp_path_factory.mktemp("home")
    capture: Path = write_saved(folder / "capture", changes=3000, transactions=400)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, folder / "views.ipynb")
    with lab(folder, home) as url, opened(1280, 1400) as chrome:
        chrome.get(f"{url}lab/tree/views.ipynb?token={TOKEN}")
        wait = waiting(chrome)
        wait.until(lambda c: c.execute_script(READY))
        chrome.execute_script("window.jupyterapp.commands.execute('application:toggle-left-area')")
        chrome.execute_script("window.jupyterapp.commands.execute('notebook:run-all-cells')")
        found = Page(chrome, open_source(capture))
        wait.until(lambda c: len(c.find_elements("css selector", ".cdcwb-live")) == 2)
        found.see("transactions.timeline")
        yield found


@pytest.fixture(autouse=True)
def everything(page: Page) -> None:
    """Each test begins with nothing selected."""
    if page.text(".python") != "Selection()":
        page.chrome.execute_script("document.querySelector('button[data-do=reset]').click()")
    page.until(r"Selection\(\)")


def test_the_card_and_both_pages_are_drawn(page: Page) -> None:
    assert "of 400 transactions committed" in page.text(".cdcwb-cards")
    assert page.counted() == 3000
    assert "of 400 transactions committed" in page.text(".answer")
    for panel in ("transactions.timeline", "capture.over_time", "masks.over_time", "masks.together"):
        assert page.see(panel).find_elements("css selector", ".plot .main-svg"), panel


@pytest.mark.parametrize("panel", ["transactions.timeline", "capture.over_time", "masks.over_time"])
def test_dragging_over_a_figure_selects_its_time_everywhere(page: Page, panel: str) -> None:
    page.drag(panel)
    page.until(r"Selection\(time_from=.*time_to=.*\)")
    times = dict(re.findall(r"(time_from|time_to)='([^']+)'", page.text(".python")))
    assert datetime.fromisoformat(times["time_from"]) < datetime.fromisoformat(times["time_to"])
    assert 0 < page.counted() == page.expected(**times) < 3000
    page.see("masks.changed_columns")
    rows = page.chrome.find_elements("css selector", '[data-panel="masks.changed_columns"] tbody tr')
    assert rows
    page.press("button.time")
    page.until(r"Selection\(\)")
    assert page.counted() == 3000


def test_a_value_is_ticked_and_taken_back(page: Page) -> None:
    page.see("transactions.timeline")
    page.press('details[data-field="operations"] summary')
    page.press('details[data-field="operations"] label[data-value="UPDATE"] input')
    page.until(r"Selection\(operations=\['UPDATE'\]\)")
    assert page.counted() == page.expected(operations=["UPDATE"])
    assert page.text('details[data-field="operations"] summary') == "operations: UPDATE"
    page.press('button[data-do="undo"]')
    page.until(r"Selection\(\)")
    page.press('button[data-do="redo"]')
    page.until(r"Selection\(operations=\['UPDATE'\]\)")


def test_text_is_looked_for_while_it_is_typed(page: Page) -> None:
    page.see("transactions.timeline")
    page.one('.cdcwb-controls input[aria-label="text"]').send_keys("TX00000")
    page.until(r"Selection\(text='TX00000'\)")
    assert page.counted() == page.expected(text="tx00000")
    assert page.text('[data-panel="transactions.longest"] tbody tr td').startswith("tx00000") or page.see(
        "transactions.longest"
    )


def test_a_zoom_shows_the_bars_of_a_time_and_selects_nothing(page: Page) -> None:
    panel = page.see("transactions.timeline")
    panel.find_element("css selector", '.modebar-btn[data-val="zoom"]').click()
    before = panel.get_attribute("data-version")
    page.drag("transactions.timeline")
    page.wait.until(lambda _: panel.get_attribute("data-version") != before)
    assert page.text(".python") == "Selection()"
    assert len(panel.find_elements("css selector", ".xaxislayer-above .xtick")) > 1


def explorer_shows(page: Page, record: int) -> None:
    chosen = f".cdcwb-explorer .line.chosen[data-row='{record}']"
    page.wait.until(lambda chrome: chrome.find_elements("css selector", chosen))
    page.wait.until(lambda chrome: chrome.find_elements("css selector", ".cdcwb-explorer[aria-busy='false'] .body *"))


def test_a_row_leads_to_its_record_and_another_to_another(page: Page) -> None:
    rows = page.see("transactions.longest").find_elements("css selector", "tbody tr[data-record]")
    for row in rows[:2]:
        record = int(row.get_attribute("data-record") or "")
        page.chrome.execute_script("arguments[0].scrollIntoView({block: 'center'})", row)
        row.click()
        explorer_shows(page, record)
    assert len(page.chrome.find_elements("css selector", ".cdcwb-explorer")) == 1


def test_a_bar_leads_to_the_first_record_of_its_transaction(page: Page) -> None:
    """After the explorer is open: it stays the one that follows."""
    panel = page.see("transactions.timeline")
    bars = panel.find_elements("css selector", ".plot .point path")
    widest = max(bars, key=lambda bar: bar.rect["width"])
    transactions = page.source.changes.transactions

    def clicked(chrome: Chrome) -> bool:
        ActionChains(chrome).move_to_element_with_offset(widest, 3, 0).move_to_element(widest).click().perform()
        return bool(chrome.execute_script(CHOSEN) == str(transactions.record[longest]))

    longest = int(transactions.lasted.argmax())
    page.wait.until(clicked)


def test_the_list_the_fields_and_the_bytes_are_in_sight_at_once(page: Page) -> None:
    """In the lower half of JupyterLab, at the sizes of usual screens."""
    page.see("transactions.longest").find_element("css selector", "tbody tr[data-record]").click()
    page.wait.until(lambda chrome: chrome.execute_script(CHOSEN))
    before = page.chrome.get_window_size()
    parts = [".status", ".list .line", ".pane .body", ".bytes"]
    seen = (
        "return arguments[0].map(part => { const box = document.querySelector(`.cdcwb-explorer ${part}`)?."
        "getBoundingClientRect(); const pane = document.querySelector('.jupyterlab-sidecar').getBoundingClientRect();"
        " return Boolean(box && box.height > 10 && box.top >= pane.top && box.top + 10 < pane.bottom) })"
    )
    try:
        for width, height in ((1280, 800), (1600, 1000)):
            page.chrome.set_window_size(width, height)
            page.wait.until(lambda chrome: chrome.execute_script(seen, parts) == [True] * 4)
    finally:
        page.chrome.set_window_size(before["width"], before["height"])


def test_the_explorer_shows_what_is_selected(page: Page) -> None:
    page.see("transactions.longest").find_element("css selector", "tbody tr[data-record]").click()
    page.wait.until(lambda chrome: chrome.execute_script(CHOSEN))
    page.see("transactions.timeline")
    page.press('details[data-field="operations"] summary')
    page.press('details[data-field="operations"] label[data-value="UPDATE"] input')
    page.until(r"Selection\(operations=\['UPDATE'\]\)")
    records = page.source.index.records
    status = lambda: page.text(".cdcwb-explorer .status span")  # noqa: E731
    shown = f"{page.expected(operations=['UPDATE']):,} of {records:,} records"
    page.wait.until(lambda _: status() == shown)
    assert page.text(".cdcwb-explorer .selection") == "follow the selectionselection: operations: UPDATE✕ Reset"
    page.press(".cdcwb-explorer .selection input")
    page.wait.until(lambda _: status() == f"{records:,} records")
    page.press(".cdcwb-explorer .selection input")
    page.wait.until(lambda _: status() == shown)
    page.press(".cdcwb-explorer .selection button")
    page.until(r"Selection\(\)")
    page.wait.until(lambda _: status() == f"{records:,} records")


def test_rows_and_points_that_a_cell_put_on_the_page_lead_to_their_record(page: Page) -> None:
    """What was asked of Spark is HTML and a chart of JupyterLab's; the explorer opens in the lower half."""
    table = "table[data-capture]:not(.cdcwb-panel table)"
    cells = "[...window.jupyterapp.shell.widgets('main')].find(open => open.content?.scrollToItem).content"
    page.chrome.execute_script(f"{cells}.scrollToItem(3)")
    page.wait.until(lambda chrome: chrome.find_elements("css selector", f"{table} tbody tr[data-record]"))
    rows = page.chrome.find_elements("css selector", f"{table} tbody tr[data-record]")
    records = [int(row.get_attribute("data-record") or "") for row in rows]
    assert [page.source.index.row(record)["position"] for record in records] == [row.text for row in rows]
    rows[1].click()
    explorer_shows(page, records[1])
    assert page.chrome.find_elements("css selector", ".jupyterlab-sidecar .cdcwb-explorer")
    first = "[...document.querySelectorAll('.jp-Notebook .js-plotly-plot')].find(one => one.layout.meta?.capture)"
    wanted = int(page.chrome.execute_script(f"return {first}.data[0].ids[2]"))
    drawn = page.chrome.execute_script(f"return {first}.querySelectorAll('.point').length")
    assert drawn == 2 * len(rows), "each change wrote two columns"
    page.chrome.execute_script(f"{first}.scrollIntoView({{block: 'center'}})")

    def clicked(chrome: Chrome) -> bool:
        point = chrome.execute_script(f"return {first}.querySelectorAll('.point')[2]")
        ActionChains(chrome).move_to_element_with_offset(point, 3, 0).move_to_element(point).click().perform()
        return bool(chrome.execute_script(CHOSEN) == str(wanted))

    page.wait.until(clicked)
    assert len(page.chrome.find_elements("css selector", ".cdcwb-explorer")) == 1


def test_the_history_of_a_row_is_offered_at_every_row(page: Page) -> None:
    table = "table.cdcwb[data-capture]:not(.cdcwb-panel table)"
    row = page.chrome.find_elements("css selector", f"{table} tbody tr[data-record]")[1]
    button = page.one(".cdcwb-history button")
    assert not button.is_displayed()

    def offered(chrome: Chrome) -> bool:
        chrome.execute_script("arguments[0].scrollIntoView({block: 'center'})", row)
        ActionChains(chrome).move_to_element_with_offset(row, -2, 0).move_to_element(row).perform()
        return bool(button.is_displayed())

    page.wait.until(offered)
    assert button.text == "Row history"
    assert row.rect["y"] - 4 <= button.rect["y"] <= row.rect["y"] + row.rect["height"]
    record = int(row.get_attribute("data-record") or "")
    assert page.source.index.row(record)["kind"] == "begin"
    button.click()
    page.wait.until(lambda _: page.text(".cdcwb-live .wrong") == "this record changes no row")
    explorer_shows(page, record)
    assert not button.is_displayed()
    page.chrome.execute_script("arguments[0].focus()", row)
    page.wait.until(lambda _: button.is_displayed())


def test_the_theme_of_jupyterlab_is_followed(page: Page) -> None:
    page.see("capture.over_time")
    plot = "[data-panel='capture.over_time'] .plot .main-svg"
    ground = f'return getComputedStyle(document.querySelector("{plot}")).backgroundColor'
    light = page.chrome.execute_script(ground)
    theme = "window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab %s'})"
    page.chrome.execute_script(theme % "Dark")
    page.wait.until(lambda chrome: chrome.execute_script(ground) != light)
    ink = page.chrome.execute_script("return getComputedStyle(document.querySelector('.cdcwb-live .answer')).color")
    assert min(int(part) for part in re.findall(r"\d+", ink)[:3]) > 150
    page.chrome.execute_script(theme % "Light")
    page.wait.until(lambda chrome: chrome.execute_script(ground) == light)


def test_nothing_is_fetched_from_elsewhere(page: Page) -> None:
    page.see("capture.over_time")
    asked = [urlsplit(url) for url in requests(page.chrome)]
    assert [url for url in asked if url.hostname != "127.0.0.1"] == []


def test_charts_over_time_stand_below_each_other(page: Page) -> None:
    """The labels of columns need more space than those of counts."""
    page.see("masks.over_time")
    margins = (
        "return [...document.querySelectorAll('.cdcwb-live')].map(live => [...live.querySelectorAll('.plot')]"
        ".filter(plot => plot._fullLayout?.xaxis?.type === 'date')"
        ".map(plot => ['l', 'r'].map(side => Math.round(plot._fullLayout._size[side])).join()))"
    )
    page.wait.until(lambda chrome: all(len(set(drawn)) == 1 < len(drawn) for drawn in chrome.execute_script(margins)))
