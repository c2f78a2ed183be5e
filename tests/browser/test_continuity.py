"""Breaks of rows: in JupyterLab a click leads to either of the two records, a report has both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from selenium.webdriver import Chrome

import cdcwb
from cdcwb.report import run_report
from tests.browser.chrome import errors, opened, requests, settled, waiting
from tests.browser.lab import READY, TOKEN, lab

CHANGES = [(10, "c", None, 1), (30, "u", 2, 3), (20, "u", 1, 2), (40, "d", 3, None), (50, "u", 3, 9)]
BREAKS = {"late": (20, 30), "revived": (50, 40)}
"""The position of the record of each break, and of the record that it contradicts."""

CELLS = (
    'import cdcwb\n\ncapture = cdcwb.load("orders.jsonl", keys=["shop.orders:id"])',
    "capture.view.continuity()",
)


def event(lsn: int, op: str, before: int | None, after: int | None) -> str:
    images = {name: None if v is None else {"id": 1, "v": v} for name, v in (("before", before), ("after", after))}
    source = {"version": "2.7.0.Final", "connector": "postgresql", "name": "a", "ts_ms": 1_700_000_000_000 + lsn}
    source |= {"db": "d", "snapshot": "false", "schema": "shop", "table": "orders", "txId": lsn, "lsn": lsn}
    return json.dumps({**images, "source": source, "op": op, "ts_ms": 1_700_000_000_500, "transaction": None}) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("folder")
    (folder / "orders.jsonl").write_text("".join(event(*change) for change in CHANGES), encoding="utf-8")
    return folder


@pytest.fixture
def live(folder: Path, tmp_path: Path) -> Iterator[Chrome]:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, folder / "breaks.ipynb")
    with lab(folder, tmp_path) as url, opened(1800, 1400) as chrome:
        chrome.get(f"{url}lab/tree/breaks.ipynb?token={TOKEN}")
        waiting(chrome).until(lambda c: c.execute_script(READY))
        chrome.execute_script("window.jupyterapp.commands.execute('application:toggle-left-area')")
        chrome.execute_script("window.jupyterapp.commands.execute('notebook:run-all-cells')")
        yield chrome


def rows_of(chrome: Chrome) -> list[Any]:
    """The rows of the table of breaks."""
    tables = chrome.find_elements("css selector", "table.cdcwb")
    found = [table for table in tables if "earlier offset" in table.text]
    return found[0].find_elements("css selector", "tbody tr") if found else []


def test_a_click_on_a_break_leads_to_its_record_and_to_the_one_that_it_contradicts(live: Chrome, folder: Path) -> None:
    wait = waiting(live)
    wait.until(lambda _: len(rows_of(live)) == len(BREAKS))
    events = cdcwb.load(folder / "orders.jsonl").rows("events", ["position", "offset"]).table().to_pylist()
    records = {row["position"]: number for number, row in enumerate(sorted(events, key=lambda row: row["offset"]))}
    for number, (kind, positions) in enumerate(BREAKS.items()):
        cells = [rows_of(live)[number].find_elements("css selector", "td")[at] for at in (0, -1)]
        assert cells[0].text == kind
        for cell, position in zip(cells, positions, strict=True):
            record = records[f"{position:016X}"]
            live.execute_script("arguments[0].scrollIntoView({block: 'center'})", cell)
            live.execute_script("arguments[0].click()", cell)
            chosen = f".cdcwb-explorer .line.chosen[data-row='{record}']"
            wait.until(lambda c, chosen=chosen: c.find_elements("css selector", chosen))
    assert len(live.find_elements("css selector", ".cdcwb-explorer")) == 1


def test_a_report_has_both_records_of_each_break(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    keys = {"keys": ["shop.orders:id"]}
    facts = run_report("continuity", folder / "orders.jsonl", page, options=keys, say=lambda _: None)
    assert facts["continuity_kinds"] == {"late": 1, "revived": 1}
    with opened() as chrome:
        settled(chrome, page, charts=2)
        assert errors(chrome) == []
        assert requests(chrome) == [page.as_uri()]
        texts = [row.text for row in rows_of(chrome)]
    for text, (kind, positions) in zip(texts, BREAKS.items(), strict=True):
        assert text.startswith(kind)
        assert [f"{position:016X}" in text for position in positions] == [True, True]
