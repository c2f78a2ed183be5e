"""A followed topic in JupyterLab: the bar says how far it is, and what is open shows new messages without a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from tests.browser.chrome import opened, waiting
from tests.browser.lab import READY, TOKEN, lab
from tests.browser.test_views import Page
from tests.growing_topic import Growing

CELLS = (
    'import cdcwb\n\ncapture = cdcwb.load("followed")',
    "capture.view.transactions()",
    "capture.view.explore()",
)
RECORDS = "return [...document.querySelectorAll('.cdcwb-explorer .status')].map(node => node.textContent).join()"


@pytest.fixture(scope="module")
def growing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Growing]:
    with pytest.MonkeyPatch.context() as patch:
        yield Growing(tmp_path_factory.mktemp("topic"), patch)


@pytest.fixture(scope="module")
def page(growing: Growing, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    growing.grow(0.3)
    folder: Path = growing.folder.parent
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, folder / "topic.ipynb")
    with lab(folder, tmp_path_factory.mktemp("home")) as url, opened(1280, 1400) as chrome:
        chrome.get(f"{url}lab/tree/topic.ipynb?token={TOKEN}")
        wait = waiting(chrome)
        wait.until(lambda c: c.execute_script(READY))
        chrome.execute_script("window.jupyterapp.commands.execute('application:toggle-left-area')")
        chrome.execute_script("window.jupyterapp.commands.execute('notebook:run-all-cells')")
        wait.until(lambda c: len(c.find_elements("css selector", ".cdcwb-live, .cdcwb-explorer .line")) > 2)
        found = Page(chrome, growing.open().view.bench.source)
        found.see("timeline")
        yield found


def test_new_messages_are_shown_when_a_button_is_clicked(page: Page, growing: Growing) -> None:
    before = page.counted()
    assert "up to date" in page.text(".following")
    assert page.one(".following .fresh").get_attribute("hidden")
    page.press('details[data-field="operations"] label[data-value="UPDATE"] input')
    page.until(r"Selection\(operations=\['UPDATE'\]\)")
    came = growing.grow(0.6)
    page.wait.until(lambda _: page.text(".following .fresh") == f"Show {came} new messages")
    page.press(".following .fresh")
    page.wait.until(lambda _: page.one(".following .fresh").get_attribute("hidden"))
    page.until(r"Selection\(operations=\['UPDATE'\]\)")
    page.source = growing.open().view.bench.source
    assert 0 < page.counted() == page.expected(operations=["UPDATE"])
    page.press('button[data-do="reset"]')
    page.until(r"Selection\(\)")
    assert before < page.counted() == page.expected()


def test_new_messages_are_shown_as_they_come(page: Page, growing: Growing) -> None:
    page.press(".following input")
    growing.grow(0.8)
    for share in (0.9, 1.0):
        growing.grow(share)
        page.source = growing.open().view.bench.source
        page.wait.until(lambda _: page.counted() == page.expected())
        page.until(r"Selection\(\)")
        page.wait.until(lambda c: f"{page.source.index.records:,} records" in c.execute_script(RECORDS))
    assert "up to date" in page.text(".following")
    page.press(".following input")
