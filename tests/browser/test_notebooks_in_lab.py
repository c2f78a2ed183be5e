"""The notebooks in JupyterLab look as in reports, in its light and dark theme: tables, cards and charts. And the same
outputs as a report, as a page that nbconvert makes, and in VS Code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import nbformat
import pytest
from nbconvert import HTMLExporter
from nbformat.sign import NotebookNotary
from selenium.webdriver import Chrome

from cdcwb.report.html import page
from cdcwb.report.kernel import Kernel
from cdcwb.report.runner import execute, notebook_path
from cdcwb.report.show import FIGURE_MIME
from tests.browser.chrome import opened, settled, waiting
from tests.browser.lab import TOKEN, lab
from tests.browser.test_theme import ABOUT, INK, PAPER, prefer
from tests.reports import DATA

LABELS: Final = json.dumps({"labels": str(DATA / "gbase8s.labels.json")})
RUNS: Final[dict[str, dict[str, Any]]] = {
    "00_start_here": {"path": str(DATA)},
    "01_capture": {"path": str(DATA / "goldengate")},
    "02_transactions": {"path": str(DATA / "gbase8s"), "options": LABELS},
    "03_change_masks": {"path": str(DATA / "gbase8s"), "options": LABELS},
    "04_schema_drift": {"path": str(DATA / "qlik-kafka")},
    "05_event_log_xds": {"path": str(DATA / "idm-event-log")},
    "06_replay_and_reconcile": {"path": str(DATA / "qlik-kafka"), "target": str(DATA / "qlik-change-table")},
    "08_continuity": {"path": str(DATA / "qlik-kafka")},
}
THEMES: Final = ("light", "dark")
_PROBE: Final = Path(__file__).with_name("probe.js").read_text(encoding="utf-8")
_OPEN: Final = "document.querySelector('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook')"
_WHOLE: Final = (
    "const [charts, cells] = arguments; const app = window.jupyterapp; const shown = app?.shell?.currentWidget;"
    f" const page = {_OPEN};"
    " return Boolean(page && shown.context?.isReady && page.querySelectorAll('.jp-Cell').length >= cells"
    "   && page.querySelectorAll('.js-plotly-plot .main-svg .xaxislayer-above').length >= charts)"
)
_TINTED: Final = (
    f"const [dark] = arguments; const page = {_OPEN};"
    " const papers = [...page.querySelectorAll('.js-plotly-plot .main-svg:first-child')];"
    " return papers.every(one => getComputedStyle(one).backgroundColor === dark)"
)
_THEME: Final = (
    "const [theme, done] = arguments;"
    " window.jupyterapp.commands.execute('apputils:change-theme', {theme}).then(() => done())"
)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a notebook shows in JupyterLab: by theme, what is wrong with it, and how much was looked at."""

    name: str
    wrong: dict[str, dict[str, list[str]]]
    counts: dict[str, int]
    charts: int
    """in its outputs"""


def whole(chrome: Chrome, notebook: Any) -> int:
    """Wait until a notebook is shown with all its cells and charts; how many charts it has."""
    charts = sum(FIGURE_MIME in output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", ()))
    waiting(chrome).until(lambda c: c.execute_script(_WHOLE, charts, len(notebook.cells)))
    return charts


def choose(chrome: Chrome, theme: str) -> None:
    """Switch JupyterLab's theme, and wait until its charts have it."""
    chrome.execute_async_script(_THEME, f"JupyterLab {theme.title()}")
    said = "return document.body.dataset.jpThemeLight"
    wait = waiting(chrome)
    wait.until(lambda c: c.execute_script(said) == ("true" if theme == "light" else "false"))
    wait.until(lambda c: c.execute_script(_TINTED, PAPER[theme]))


def measured(chrome: Chrome, root: str = _OPEN) -> dict[str, Any]:
    found: dict[str, Any] = chrome.execute_script(f"{_PROBE}; return probe({root})")
    return found


@pytest.fixture(scope="module")
def executed(kernel: Kernel) -> dict[str, Any]:
    """The notebooks with their outputs."""
    return {name: execute(notebook_path(name), given, lambda _: None, kernel) for name, given in RUNS.items()}


@pytest.fixture(scope="module")
def browser(executed: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Chrome, str]]:
    """A browser, and the address of a JupyterLab that trusts the executed notebooks and shows all their cells."""
    folder, home = tmp_path_factory.mktemp("notebooks"), tmp_path_factory.mktemp("home")
    (home / "data").mkdir()
    notary = NotebookNotary(data_dir=str(home / "data"))
    for name, notebook in executed.items():
        nbformat.write(notebook, folder / f"{name}.ipynb")
        notary.sign(nbformat.read(folder / f"{name}.ipynb", as_version=4))
    settings = home / "config" / "lab" / "user-settings" / "@jupyterlab" / "notebook-extension"
    settings.mkdir(parents=True)
    (settings / "tracker.jupyterlab-settings").write_text('{"windowingMode": "none"}', encoding="utf-8")
    with lab(folder, home) as url, opened() as chrome:
        yield chrome, url


def show(browser: tuple[Chrome, str], name: str, notebook: Any) -> int:
    """Open a notebook, and nothing beside it; how many charts it has."""
    chrome, url = browser
    chrome.get(f"{url}lab/tree/{name}.ipynb?token={TOKEN}&reset")
    return whole(chrome, notebook)


@pytest.fixture(scope="module", params=RUNS)
def shown(request: pytest.FixtureRequest, browser: tuple[Chrome, str], executed: dict[str, Any]) -> Shown:
    """A notebook in both themes."""
    chrome, _ = browser
    charts = show(browser, request.param, executed[request.param])
    found = {}
    for theme in THEMES:
        choose(chrome, theme)
        found[theme] = measured(chrome)
    assert found["light"]["counts"] == found["dark"]["counts"]
    return Shown(request.param, {theme: one["wrong"] for theme, one in found.items()}, found["light"]["counts"], charts)


def test_everything_that_a_notebook_shows_is_looked_at(shown: Shown) -> None:
    assert shown.counts["charts"] == shown.charts
    assert shown.counts["cells"] > 30
    assert shown.counts["texts"] > 50


@pytest.mark.parametrize("theme", THEMES)
def test_cells_of_a_row_do_not_overlap_and_hold_their_text(shown: Shown, theme: str) -> None:
    assert shown.wrong[theme]["overlaps"] == []
    assert shown.wrong[theme]["outside"] == []


@pytest.mark.parametrize("theme", THEMES)
def test_texts_are_left_aligned_and_numbers_right_aligned(shown: Shown, theme: str) -> None:
    assert shown.wrong[theme]["aligned"] == []


@pytest.mark.parametrize("theme", THEMES)
def test_cards_hold_their_label_and_number(shown: Shown, theme: str) -> None:
    assert shown.wrong[theme]["cards"] == []


def test_bars_of_a_chart_lie_beside_each_other(shown: Shown) -> None:
    assert shown.wrong["light"]["bars"] == []
    if shown.name in ("02_transactions", "04_schema_drift"):
        assert shown.counts["bars"] > 5


@pytest.mark.parametrize("theme", THEMES)
def test_every_text_and_mark_stands_out_from_what_is_behind_it(shown: Shown, theme: str) -> None:
    assert shown.wrong[theme]["texts"] == []
    assert shown.wrong[theme]["chartTexts"] == []
    assert shown.wrong[theme]["marks"] == []


def test_charts_and_tables_follow_the_theme_of_jupyterlab_and_not_that_of_the_system(
    browser: tuple[Chrome, str], executed: dict[str, Any]
) -> None:
    chrome, _ = browser
    show(browser, "04_schema_drift", executed["04_schema_drift"])
    try:
        for system in THEMES:
            prefer(chrome, system)
            for theme in (*THEMES, "light"):
                choose(chrome, theme)
                found = measured(chrome)
                assert (found["papers"], found["inks"]) == ([PAPER[theme]], [INK[theme]]), (system, theme)
                assert found["cells"] == [INK[theme]], (system, theme)
    finally:
        prefer(chrome, "light")


def test_a_notebook_that_was_asked_for_a_theme_has_it_whatever_that_of_jupyterlab(
    browser: tuple[Chrome, str], executed: dict[str, Any]
) -> None:
    chrome, _ = browser
    show(browser, "04_schema_drift", executed["04_schema_drift"])
    choose(chrome, "light")
    chrome.execute_script(f"{_OPEN}.querySelector('style[data-theme]').dataset.theme = 'dark'")
    waiting(chrome).until(lambda c: c.execute_script(_TINTED, PAPER["dark"]))
    found = measured(chrome)
    assert (found["papers"], found["inks"], found["cells"]) == ([PAPER["dark"]], [INK["dark"]], [INK["dark"]])
    assert {part: some for part, some in found["wrong"].items() if some} == {}


def test_pictures_of_charts_in_a_saved_notebook_become_charts_in_the_theme_of_jupyterlab(
    browser: tuple[Chrome, str], executed: dict[str, Any]
) -> None:
    chrome, _ = browser
    name = "04_schema_drift"
    charts = show(browser, name, executed[name])
    choose(chrome, "light")
    # plotly's renderer adds a picture of each chart to the outputs, which are saved with them
    pictured = (
        "return window.jupyterapp.shell.currentWidget.context.model.toJSON().cells.flatMap(cell => cell.outputs ?? [])"
        ".filter(output => output.data?.['image/png']).length"
    )
    waiting(chrome).until(lambda c: c.execute_script(pictured) == charts)
    save = "const done = arguments[0]; window.jupyterapp.shell.currentWidget.context.save().then(() => done())"
    chrome.execute_async_script(save)
    show(browser, name, executed[name])
    choose(chrome, "dark")
    assert measured(chrome)["papers"] == [PAPER["dark"]]


@pytest.mark.parametrize("name", RUNS)
def test_every_text_and_mark_of_a_report_stands_out_too(
    browser: tuple[Chrome, str], executed: dict[str, Any], name: str, tmp_path: Path
) -> None:
    chrome, _ = browser
    html = page(executed[name], ABOUT)
    file = tmp_path / f"{name}.html"
    file.write_text(html, encoding="utf-8")
    try:
        for theme in THEMES:
            prefer(chrome, theme)
            settled(chrome, file, charts=html.count('<figure class="chart"'))
            found = measured(chrome, "document.querySelector('main')")
            assert set(found["papers"]) <= {PAPER[theme]}
            assert {part: some for part, some in found["wrong"].items() if some} == {}, theme
    finally:
        prefer(chrome, "light")


@pytest.mark.parametrize("theme", THEMES)
def test_a_page_made_by_nbconvert_is_readable(
    browser: tuple[Chrome, str], executed: dict[str, Any], theme: str, tmp_path: Path
) -> None:
    chrome, _ = browser
    html, _ = HTMLExporter(theme=theme).from_notebook_node(executed["04_schema_drift"])
    file = tmp_path / "page.html"
    file.write_text(html, encoding="utf-8")
    chrome.get(file.as_uri())
    found = measured(chrome, "document.body")
    assert {part: some for part, some in found["wrong"].items() if some} == {}
    assert found["cells"] == [INK[theme]]


@pytest.mark.parametrize(
    ("host", "ground", "theme"),
    [("vscode-light", "#fff", "light"), ("vscode-dark", "#1e1e1e", "dark"), ("", "#222", "light")],
)
def test_tables_and_cards_are_readable_in_vs_code_and_in_hosts_that_are_not_known(
    browser: tuple[Chrome, str], executed: dict[str, Any], host: str, ground: str, theme: str, tmp_path: Path
) -> None:
    chrome, _ = browser
    outputs = [output for cell in executed["01_capture"].cells for output in cell.get("outputs", ())]
    shown = "".join(output.get("data", {}).get("text/html", "") for output in outputs)
    styles = "dt, dd { float: left; width: 50% } .out td { text-align: right } .out table { table-layout: fixed }"
    file = tmp_path / "page.html"
    head = f'<style>{styles}</style><body class="{host}" style="background: {ground}"><div class="out">'
    file.write_text(f'<!DOCTYPE html><meta charset="utf-8">{head}{shown}</div>', encoding="utf-8")
    chrome.get(file.as_uri())
    found = measured(chrome, "document.body")
    assert {part: some for part, some in found["wrong"].items() if some} == {}
    assert found["counts"]["cards"] > 4
    assert found["cells"] == [INK[theme]]


@pytest.mark.parametrize("name", RUNS)
def test_a_saved_notebook_is_at_most_a_megabyte(executed: dict[str, Any], name: str) -> None:
    assert len(nbformat.writes(executed[name]).encode()) <= 1_000_000
