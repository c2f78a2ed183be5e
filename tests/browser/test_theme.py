"""Light and dark pages: as the reader's system has it, or as the report was asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from selenium.webdriver import Chrome

from cdcwb.charts import theme
from cdcwb.report.html import PageInfo, page
from cdcwb.report.show import FIGURE_MIME, STYLE
from tests.browser.chrome import errors, opened, settled, waiting

ABOUT = PageInfo("capture", datetime(2026, 3, 23, tzinfo=UTC), "02_transactions", "1")
PAPER = {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 27, 33)"}
INK = {"light": "rgb(31, 41, 51)", "dark": "rgb(228, 233, 238)"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
    with opened() as chrome:
        yield chrome


def written(folder: Path, asked: str) -> Path:
    figure = theme.figure(200, [go.Bar(x=["a"], y=[1], marker={"color": theme.INK})])
    content = json.loads(figure.to_json()) | {"config": theme.CONFIG}
    outputs: list[dict[str, Any]] = [
        {"output_type": "display_data", "data": {"text/html": ""}, "metadata": {"cdcwb": STYLE, "theme": asked}},
        {"output_type": "display_data", "data": {FIGURE_MIME: content}, "metadata": {}},
    ]
    cells = [{"cell_type": "markdown", "source": "# Page"}, {"cell_type": "code", "source": "", "outputs": outputs}]
    place = folder / f"{asked}.html"
    place.write_text(page({"cells": cells}, ABOUT), encoding="utf-8")
    return place


def prefer(chrome: Chrome, scheme: str) -> None:
    feature = {"name": "prefers-color-scheme", "value": scheme}
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def colours(chrome: Chrome) -> tuple[str, str]:
    """Of the page's paper, and of the chart's bar."""
    script = (
        "const of = (selector, name) => getComputedStyle(document.querySelector(selector))[name];"
        " return [of('main', 'backgroundColor'), of('.barlayer .point path', 'fill')]"
    )
    paper, bar = chrome.execute_script(script)
    return paper, bar


@pytest.mark.parametrize("asked", ["auto", "light", "dark"])
@pytest.mark.parametrize("system", ["light", "dark"])
def test_a_page_and_its_charts_have_one_theme(browser: Chrome, tmp_path: Path, asked: str, system: str) -> None:
    prefer(browser, system)
    settled(browser, written(tmp_path, asked), charts=1)
    wanted = system if asked == "auto" else asked
    waiting(browser).until(lambda chrome: colours(chrome) == (PAPER[wanted], INK[wanted]))
    assert errors(browser) == []


def test_a_page_follows_the_system_while_it_is_open(browser: Chrome, tmp_path: Path) -> None:
    prefer(browser, "light")
    settled(browser, written(tmp_path, "auto"), charts=1)
    assert colours(browser) == (PAPER["light"], INK["light"])
    prefer(browser, "dark")
    waiting(browser).until(lambda chrome: colours(chrome) == (PAPER["dark"], INK["dark"]))
