"""`cdcwb open`: the workbench runs by itself, and each view is drawn when it is done."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat

from cdcwb.cli.app import main
from tests.browser.chrome import WAIT, opened, waiting

ROOT = Path(__file__).parents[2]
CAPTURE = ROOT / "data" / "gbase8s"
TOKEN = "workbench-of-the-tests"
DRAWN = (
    "const pages = [...document.querySelectorAll('.cdcwb-live')];"
    "return pages.length === 3 && pages.every(page => page.querySelector('.main-svg')"
    " && [...page.querySelectorAll('.cdcwb-panel')].every(panel => panel.getAttribute('aria-busy') === 'false'))"
)


@contextmanager
def workbench(folder: Path) -> Iterator[str]:
    """JupyterLab as `cdcwb open` starts it; ended by its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    places = {f"JUPYTER_{name}_DIR": str(folder / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    places |= {"IPYTHONDIR": str(folder / "ipython"), "PYTHONPATH": str(ROOT)}
    environment = {**os.environ, **places, "PATH": path, "JUPYTER_TOKEN": TOKEN}
    command = [sys.executable, "-m", "cdcwb.cli", "open", str(CAPTURE), "--to", str(folder / "made")]
    command += ["--no-browser", "--allow-root", "--port", str(port)]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
    url = f"http://127.0.0.1:{port}/lab/tree/workbench.ipynb?token={TOKEN}"
    try:
        until = time.monotonic() + WAIT
        while f"http://127.0.0.1:{port}" not in (folder / "log").read_text():
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < until, (folder / "log").read_text()
            time.sleep(0.1)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(WAIT)


def test_the_workbench_runs_by_itself_and_draws_each_view_when_it_is_done(tmp_path: Path) -> None:
    assert main(["open", str(CAPTURE), "--to", str(tmp_path / "made"), "--no-lab"]) == 0
    file = tmp_path / "made" / "workbench.ipynb"
    notebook = nbformat.read(file, 4)
    told = "import pathlib, time\nwhile not pathlib.Path('go').exists():\n    time.sleep(0.1)"
    notebook.cells.insert(-2, nbformat.v4.new_code_cell(told))  # before the page about drift
    nbformat.write(notebook, file)
    with workbench(tmp_path) as url, opened(1280, 3000) as chrome:
        chrome.get(url)
        wait = waiting(chrome)
        wait.until(lambda page: page.execute_script(DRAWN))
        chrome.execute_script("document.querySelector('.jp-WindowedPanel-outer').scrollTop = 1e6")
        wait.until(lambda page: len(page.find_elements("css selector", ".cdcwb-explorer .list .line")) > 5)
        prompts = [prompt.text for prompt in chrome.find_elements("css selector", ".jp-CodeCell .jp-InputPrompt")]
        assert prompts[-2:] == ["[*]:", "[*]:"], "the cells below still run"
        (tmp_path / "made" / "go").touch()
        wait.until(lambda page: page.find_elements("css selector", ".jp-CodeCell")[-2].text.startswith("[8]:"))
