"""``make lab``: JupyterLab opens with the notebook to start with, and the others are at hand."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from cdcwb.report import notebooks
from tests.browser.chrome import opened, waiting
from tests.browser.lab import TOKEN, lab

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def address() -> str:
    """The page that ``make lab`` opens, below JupyterLab's own address."""
    said = subprocess.run(["make", "--dry-run", "lab"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found = re.search(r"default_url=(\S+)", said)
    assert found is not None, said
    return found[1]


def test_the_first_page_is_the_notebook_to_start_with(address: str, tmp_path: Path) -> None:
    assert address == "/lab/tree/notebooks/00_start_here.ipynb"
    with lab(ROOT, tmp_path) as url, opened() as chrome:
        chrome.get(f"{url.rstrip('/')}{address}?token={TOKEN}")
        wait = waiting(chrome)
        heading = "return [...document.querySelectorAll('.jp-RenderedMarkdown h1')].map(node => node.textContent)"
        wait.until(lambda c: any(text.startswith("Start here") for text in c.execute_script(heading)))
        listed = "return [...document.querySelectorAll('.jp-DirListing-itemText')].map(node => node.textContent)"
        names = {path.name for path in notebooks().values()}
        wait.until(lambda c: names <= set(c.execute_script(listed)))
