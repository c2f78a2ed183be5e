"""JupyterLab over a folder, for as long as a test or a picture takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium.webdriver import Chrome

from tests.browser.chrome import WAIT, waiting

__all__ = ["PANES", "READY", "TOKEN", "lab", "run_all"]

PANES = ".cdcwb-explorer"
ROOT = Path(__file__).parents[2]
TOKEN = "explorer-of-the-tests"
READY = (
    "return (() => { const app = window.jupyterapp; const open = app && app.shell && app.shell.currentWidget;"
    " const session = open && open.sessionContext && open.sessionContext.session;"
    " return open && open.context && open.context.isReady && session && session.kernel.status === 'idle' })()"
)


@contextmanager
def lab(folder: Path, home: Path) -> Iterator[str]:
    """JupyterLab over a folder, on this machine alone; ended by its process."""
    places = {f"JUPYTER_{name}_DIR": str(home / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    setting = home / "config" / "labconfig" / "page_config.json"
    setting.parent.mkdir(parents=True)
    setting.write_text(json.dumps({"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, **places, "IPYTHONDIR": str(home / "ipython"), "PATH": path, "PYTHONPATH": str(ROOT)}
    given = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": "0",
        "ServerApp.root_dir": str(folder),
        "IdentityProvider.token": TOKEN,
        "LabApp.expose_app_in_browser": "True",
        "LabApp.extension_manager": "readonly",
        "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, *(f"--{name}={value}" for name, value in given.items())],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        about = home / "runtime" / f"jpserver-{process.pid}.json"
        until = time.monotonic() + WAIT
        while not (about.exists() and about.read_text().endswith("}")):  # it is there before it is written
            assert process.poll() is None, (home / "log").read_text()
            assert time.monotonic() < until, (home / "log").read_text()
            time.sleep(0.1)
        yield json.loads(about.read_text())["url"]
    finally:
        process.terminate()
        process.wait(WAIT)


def run_all(chrome: Chrome, url: str, notebook: str) -> None:
    """Open a notebook in JupyterLab, run all its cells, and wait until the explorer in it has lines."""
    chrome.get(f"{url}lab/tree/{notebook}?token={TOKEN}")
    wait = waiting(chrome)
    wait.until(lambda c: c.execute_script(READY))
    chrome.execute_script("window.jupyterapp.commands.execute('application:toggle-left-area')")
    chrome.execute_script("window.jupyterapp.commands.execute('notebook:run-all-cells')")
    wait.until(lambda c: c.execute_script(f"return document.querySelectorAll('{PANES} .list .line').length > 5"))
