"""How long views take in JupyterLab: ``python -m benchmarks.interaction [CHANGES [TRANSACTIONS]]``.

A made-up capture (of 2,000,000 changes in 300,000 transactions) is opened in JupyterLab in a headless Chromium. Then,
ten times each: a time is selected in the first chart of a page, from the release of the mouse until every chart and
table in sight is drawn again; and a value is ticked, until the bar has counted and until all in sight is drawn.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import nbformat
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.support.wait import WebDriverWait

from cdcwb.index.source import open_source
from tests.browser.chrome import WAIT, opened
from tests.browser.lab import READY, TOKEN, lab
from tests.saved_capture import write_saved

_TIMES: Final = 10
_PAGES: Final = {"transactions": "transactions.timeline", "masks": "masks.over_time"}
_WATCH: Final = """
const done = arguments[arguments.length - 1], area = document.querySelector('.jp-WindowedPanel-outer, .jp-Notebook');
const mine = window.watched = {};
const busy = () => { const room = area.getBoundingClientRect();
  return [...document.querySelectorAll('.cdcwb-panel')].some((node) => { const box = node.getBoundingClientRect();
    const seen = box.top < room.bottom - 20 && box.bottom > room.top + 20;
    return seen && node.getAttribute('aria-busy') !== 'false'; }); };
const begin = () => {
  const started = performance.now(), count = document.querySelector('.python').textContent;
  const look = () => {
    const told = document.querySelector('.python').textContent;
    if (mine.counted === undefined && told !== count) mine.counted = performance.now() - started;
    if (mine.counted !== undefined && !busy()) { mine.drawn = performance.now() - started; return; }
    setTimeout(look, 4);
  };
  look();
};
document.addEventListener(arguments[0], begin, { once: true, capture: true });
done();
"""


def main() -> None:
    """Print the medians, in milliseconds."""
    given = [int(one) for one in sys.argv[1:]]
    changes, transactions = (*given, *(2_000_000, 300_000)[len(given) :])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_saved(folder / "work" / "capture", changes, transactions)
        started = time.perf_counter()
        source = open_source(folder / "work" / "capture")
        records, counted = source.index.records, len(source.changes)
        print(f"{records:,} records, {counted:,} changes, {transactions:,} transactions")
        print(f"index made: {time.perf_counter() - started:.1f} s")
        for page, panel in _PAGES.items():
            _page(folder, page, panel)


def _page(folder: Path, page: str, panel: str) -> None:
    cells = ['import cdcwb\n\ncapture = cdcwb.load("capture")', f"capture.view.{page}()"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, folder / "work" / f"{page}.ipynb")
    (folder / page).mkdir()
    with lab(folder / "work", folder / page) as url, opened(1280, 1400) as chrome:
        wait = WebDriverWait(chrome, WAIT, poll_frequency=0.05)
        chrome.get(f"{url}lab/tree/{page}.ipynb?token={TOKEN}")
        wait.until(lambda c: c.execute_script(READY))
        run = "window.jupyterapp.commands.execute('notebook:run-cell-and-select-next')"
        chrome.execute_script(run)
        idle = "return document.querySelectorAll('.jp-InputPrompt')[0].textContent.trim() === '[1]:'"
        wait.until(lambda c: c.execute_script(idle))
        started = time.perf_counter()
        chrome.execute_script(run)
        drawn = f"return document.querySelector('[data-panel=\"{panel}\"]')?.getAttribute('aria-busy') === 'false'"
        wait.until(lambda c: c.execute_script(drawn))
        print(f"{page}: opened on its index: {time.perf_counter() - started:.1f} s")
        _print(f"{page}: a time is selected", chrome, "mouseup", lambda number: _drag(chrome, panel, number))
        chrome.execute_script("document.querySelector('details[data-field=operations] summary').click()")
        box = "document.querySelectorAll('details[data-field=operations] label input')[arguments[0]].click()"
        _print(f"{page}: a value is ticked", chrome, "change", lambda number: chrome.execute_script(box, number % 2))


def _drag(chrome: Chrome, panel: str, number: int) -> None:
    area = chrome.find_element("css selector", f'[data-panel="{panel}"] .plot .nsewdrag')
    steps = ActionChains(chrome).move_to_element_with_offset(area, -200 + 20 * number, 0).click_and_hold()
    steps.move_by_offset(70, 0).move_by_offset(70, 0).release().perform()


def _print(what: str, chrome: Chrome, event: str, act: Callable[[int], Any]) -> None:
    found = []
    for number in range(_TIMES):
        chrome.execute_async_script(_WATCH, event)
        act(number)
        WebDriverWait(chrome, WAIT).until(lambda c: c.execute_script("return window.watched.drawn !== undefined"))
        found.append(chrome.execute_script("return [window.watched.counted, window.watched.drawn]"))
    counted, drawn = (sorted(one[place] for one in found) for place in (0, 1))
    print(f"{what}: bar {statistics.median(counted):.0f} ms, all in sight {statistics.median(drawn):.0f} ms", end="")
    print(f" (of {_TIMES}: {drawn[0]:.0f} to {drawn[-1]:.0f})", flush=True)


if __name__ == "__main__":
    main()
