"""Makes the pictures in ``docs/images/``: ``python -m scripts.screenshots [NAME …]``, all of them or those named.

One of each report, on the capture in ``data/`` that shows most of it, and one each of the explorer and of views in
JupyterLab.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from selenium.webdriver import Chrome
from selenium.webdriver.support.wait import WebDriverWait

from cdcwb.report import notebook_path, run_report
from tests.browser.chrome import WAIT, opened, settled
from tests.browser.lab import PANES, READY, TOKEN, lab, run_all

ROOT: Final = Path(__file__).resolve().parent.parent
LARGEST: Final = 300_000
"""No picture is larger, in bytes: the README is read on slow lines too."""

_WIDTH: Final = 1180
_MARGIN: Final = 8
_OTHER: Final = ROOT / "data" / "qlik-change-table"


@dataclass(frozen=True)
class Picture:
    """A report: its notebook, the capture, and what of it is in the picture: down to the end of the chart ``to``, or to
    that heading, from the heading ``start`` on (empty: from the top)."""

    notebook: str
    capture: str
    to: str
    parameters: dict[str, Any] | None = None
    start: str = ""


PICTURES: Final = {
    "start_here": Picture("start_here", "data", "oracle-goldengate-trails", start="qlik-change-tables"),
    "capture": Picture("capture", "data/goldengate", "chart-1"),
    "transactions": Picture("transactions", "data/gbase8s", "chart-1"),
    "change_masks": Picture("change_masks", "data/qlik-kafka", "chart-2"),
    "schema_drift": Picture("schema_drift", "data/qlik-kafka", "chart-1"),
    "event_log_xds": Picture("event_log_xds", "data/idm-event-log", "chart-1"),
    "replay_and_reconcile": Picture(
        "replay_and_reconcile",
        "data/qlik-kafka",
        "chart-3",
        parameters={"target": str(_OTHER)},
        start="source-and-target",
    ),
    "continuity": Picture("continuity", "data/qlik-kafka", "chart-2"),
}


def main() -> None:
    """Make every picture, or those that are named."""
    wanted = sys.argv[1:] or [*PICTURES, *_IN_LAB]
    for name in wanted:
        with tempfile.TemporaryDirectory() as folder:
            make = _IN_LAB.get(name)
            picture = make(Path(folder)) if make is not None else _report(PICTURES[name], Path(folder))
        target = ROOT / "docs" / "images" / f"{name}.png"
        if len(picture) > LARGEST:
            raise SystemExit(f"{target.name} would have {len(picture):,} bytes; {LARGEST:,} are allowed")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(picture)
        sys.stdout.write(f"{target.relative_to(ROOT)}: {len(picture):,} bytes\n")


def _report(picture: Picture, folder: Path) -> bytes:
    """The top of a report."""
    page = folder / "report.html"
    run_report(picture.notebook, picture.capture, page, parameters=picture.parameters)
    with light(_WIDTH, 1000) as chrome:
        chart = picture.to.removeprefix("chart-")
        settled(chrome, page, charts=int(chart) if chart.isdigit() else 0)
        # The buttons show while the pointer is over the chart, which in a headless browser is always.
        chrome.execute_script("document.querySelectorAll('.modebar-container').forEach(bar => bar.remove())")
        script = "return document.getElementById(arguments[0]).getBoundingClientRect()"
        top = chrome.execute_script(script, picture.start)["top"] - 2 * _MARGIN if picture.start else 0
        end = chrome.execute_script(script, picture.to)
        bottom = end["bottom"] + _MARGIN if chart.isdigit() else end["top"] - _MARGIN
        return clipped(chrome, 0, top, _WIDTH, bottom - top)


def _explorer(folder: Path) -> bytes:
    """The panes of the explorer, with the first update of a table chosen."""
    content = json.loads(notebook_path("explore").read_text(encoding="utf-8"))
    cell = next(one for one in content["cells"] if "parameters" in one["metadata"].get("tags", ()))
    cell["source"] = "".join(cell["source"]).replace('"data/gbase8s"', repr(str(ROOT / "data" / "gbase8s")))
    (folder / "notebooks").mkdir()
    (folder / "home").mkdir()
    (folder / "notebooks" / "explore.ipynb").write_text(json.dumps(content), encoding="utf-8")
    with lab(folder / "notebooks", folder / "home") as url, light(1400, 1100) as chrome:
        run_all(chrome, url, "explore.ipynb")
        chrome.execute_script(f"document.querySelector('{PANES}').scrollIntoView()")
        box = f"const box = document.querySelector('{PANES}').getBoundingClientRect();"
        chosen = "document.querySelectorAll('.cdcwb-explorer .list .line')[7].click();"
        chrome.execute_script(chosen)
        busy = f"return document.querySelector('{PANES}').getAttribute('aria-busy')"
        WebDriverWait(chrome, WAIT).until(lambda c: c.execute_script(busy) == "false")
        x, y, width, height = chrome.execute_script(f"{box} return [box.x, box.y, box.width, box.height]")
        return clipped(chrome, x, y, width, height)


def _views(folder: Path) -> bytes:
    """The page of transactions with a time selected."""
    load = f"import cdcwb\n\ncapture = cdcwb.load({str(ROOT / 'data' / 'gbase8s')!r})\n"
    select = "capture.selection.update(time_from='2025-03-23T08:01:50', time_to='2025-03-23T08:02:40')\n"
    cell = {"cell_type": "code", "id": "view", "metadata": {}, "outputs": [], "execution_count": None}
    content = json.loads(notebook_path("explore").read_text(encoding="utf-8"))
    content["cells"] = [{**cell, "source": f"{load}{select}capture.view.transactions()"}]
    (folder / "notebooks").mkdir()
    (folder / "home").mkdir()
    (folder / "notebooks" / "views.ipynb").write_text(json.dumps(content), encoding="utf-8")
    with lab(folder / "notebooks", folder / "home") as url, light(1300, 1700) as chrome:
        chrome.get(f"{url}lab/tree/views.ipynb?token={TOKEN}")
        wait = WebDriverWait(chrome, WAIT)
        wait.until(lambda c: c.execute_script(READY))
        chrome.execute_script("window.jupyterapp.commands.execute('application:toggle-left-area')")
        chrome.execute_script("window.jupyterapp.commands.execute('notebook:run-all-cells')")
        panels = ":is([data-panel=timeline], [data-panel=over_time])[aria-busy=false]"
        drawn = f"return document.querySelectorAll('{panels}').length"
        wait.until(lambda c: c.execute_script(drawn) == 2)
        box = "const box = document.querySelector('.cdcwb-live').getBoundingClientRect();"
        end = "document.querySelector('[data-panel=over_time]').getBoundingClientRect().bottom"
        x, y, width, bottom = chrome.execute_script(f"{box} return [box.x, box.y, box.width, {end}]")
        return clipped(chrome, x, y, width, bottom - y)


_IN_LAB: Final = {"explorer": _explorer, "views": _views}


@contextmanager
def light(width: int, height: int) -> Iterator[Chrome]:
    """A browser window in the light theme."""
    with opened(width, height) as chrome:
        preference = {"features": [{"name": "prefers-color-scheme", "value": "light"}]}
        chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", preference)
        yield chrome


def clipped(chrome: Chrome, x: float, y: float, width: float, height: float) -> bytes:
    """A part of the page as PNG."""
    clip = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
    shot = chrome.execute_cdp_cmd(
        "Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True, "clip": clip}
    )
    return base64.b64decode(shot["data"])


if __name__ == "__main__":
    main()
