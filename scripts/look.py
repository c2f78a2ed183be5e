"""Takes pictures of every notebook in JupyterLab and of every report: ``python -m scripts.look FOLDER [NAME …]``.

For looking at, by eye, before a release: light, dark and narrow, a page cut into parts that are as high as a screen.
NAME is a notebook (``transactions``); without one all of them. The notebooks are live, and run from their first cell.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

import nbformat
from selenium.webdriver import Chrome
from selenium.webdriver.support.wait import WebDriverWait

from cdcwb.report import notebook_path, run_report
from cdcwb.views.workbook import make_workbook
from tests.browser.chrome import WAIT, opened, settled
from tests.browser.lab import READY, TOKEN, lab

DATA: Final = Path(__file__).resolve().parent.parent / "data"
CAPTURES: Final = {
    "start_here": "",
    "capture": "goldengate",
    "transactions": "gbase8s",
    "change_masks": "qlik-kafka",
    "schema_drift": "goldengate",
    "event_log_xds": "idm-event-log",
    "replay_and_reconcile": "qlik-kafka",
    "continuity": "qlik-kafka",
    "explore": "gbase8s",
}
"""The capture in ``data/`` that shows most of a notebook."""

_LOOKS: Final = {"light": ("light", 1280), "dark": ("dark", 1280), "narrow": ("light", 390)}
_IN_LAB: Final = {"light": ("light", 1280), "dark": ("dark", 1280), "narrow": ("light", 720)}
_SCREEN: Final = 1400
_MOST: Final = 12  # parts of a page
_THEME: Final = (
    "const [theme, done] = arguments; window.jupyterapp.commands.execute('apputils:change-theme', {theme}).then(done)"
)
_HEIGHT: Final = (
    "return Math.ceil(document.querySelector('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-WindowedPanel-viewport')"
    ".getBoundingClientRect().height)"
)
_IDLE: Final = (
    "const open = window.jupyterapp.shell.currentWidget; const cells = open.content.widgets;"
    " return cells.filter(cell => cell.model.type === 'code').every(cell => cell.model.executionCount)"
    " && open.sessionContext.session.kernel.status === 'idle'"
    " && ![...document.querySelectorAll('.cdcwb-panel')].some(panel => panel.getAttribute('aria-busy') === 'true')"
)


def main() -> None:
    """Take the pictures."""
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    names = [notebook_path(name).stem.partition("_")[2] for name in sys.argv[2:]] or list(CAPTURES)
    for name in names:
        for number, (look, picture) in enumerate(chain(_reported(name), _in_lab(name))):
            file = target / f"{name}-{look}.png"
            file.write_bytes(picture)
            sys.stdout.write(f"{number + 1:3} {file}\n")


def _reported(name: str) -> Iterator[tuple[str, bytes]]:
    """The report of a notebook."""
    if name == "explore":
        return
    with tempfile.TemporaryDirectory() as folder, opened(1280, _SCREEN) as chrome:
        page = Path(folder) / "report.html"
        run_report(name, str(DATA / CAPTURES[name]), page)
        for look, (scheme, width) in _LOOKS.items():
            _prefer(chrome, scheme)
            _size(chrome, width, _SCREEN)
            settled(chrome, page, charts=page.read_text(encoding="utf-8").count('<figure class="chart"'))
            height = int(chrome.execute_script("return document.documentElement.scrollHeight"))
            yield from _parts(chrome, f"report-{look}", width, height)


def _in_lab(name: str) -> Iterator[tuple[str, bytes]]:
    """A notebook in JupyterLab, run from its first cell on."""
    with tempfile.TemporaryDirectory() as place:
        folder, home = Path(place) / "workbench", Path(place) / "home"
        make_workbook(DATA / (CAPTURES[name] or "gbase8s"), folder)
        if name == "start_here":
            notebook: Any = json.loads(notebook_path(name).read_text(encoding="utf-8"))
            text = json.dumps(notebook).replace('\\"data\\"', json.dumps(json.dumps(str(DATA)))[1:-1])
            nbformat.write(nbformat.reads(text, as_version=4), folder / notebook_path(name).name)  # type: ignore[no-untyped-call]
        settings = home / "config" / "lab" / "user-settings" / "@jupyterlab" / "notebook-extension"
        settings.mkdir(parents=True)
        (settings / "tracker.jupyterlab-settings").write_text('{"windowingMode": "none"}', encoding="utf-8")
        with lab(folder, home) as url, opened(1280, _SCREEN) as chrome:
            chrome.get(f"{url}lab/tree/{notebook_path(name).name}?token={TOKEN}")
            wait = WebDriverWait(chrome, WAIT)
            wait.until(lambda c: c.execute_script(READY))
            chrome.execute_script("window.jupyterapp.commands.execute('application:toggle-left-area')")
            _size(chrome, 1280, 6 * _SCREEN)  # panels are drawn when they come into sight
            chrome.execute_script("window.jupyterapp.commands.execute('notebook:run-all-cells')")
            wait.until(lambda c: c.execute_script(_IDLE))
            for look, (theme, width) in _IN_LAB.items():
                _size(chrome, width, _SCREEN)
                chrome.execute_async_script(_THEME, f"JupyterLab {theme.title()}")
                height = min(int(chrome.execute_script(_HEIGHT)) + 120, _MOST * _SCREEN)
                _size(chrome, width, height)
                chrome.execute_script("document.querySelector('.jp-WindowedPanel-outer').scrollTop = 0")
                wait.until(lambda c: c.execute_script(_IDLE))
                yield from _parts(chrome, f"lab-{look}", width, height)


def _parts(chrome: Chrome, look: str, width: int, height: int) -> Iterator[tuple[str, bytes]]:
    for number, top in enumerate(range(0, min(height, _MOST * _SCREEN), _SCREEN)):
        clip = {"x": 0, "y": top, "width": width, "height": min(_SCREEN, height - top), "scale": 1}
        asked = {"format": "png", "captureBeyondViewport": True, "clip": clip}
        yield f"{look}-{number:02}", base64.b64decode(chrome.execute_cdp_cmd("Page.captureScreenshot", asked)["data"])


def _size(chrome: Chrome, width: int, height: int) -> None:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def _prefer(chrome: Chrome, scheme: str) -> None:
    chrome.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )


if __name__ == "__main__":
    main()
