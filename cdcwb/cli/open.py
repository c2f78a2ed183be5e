"""The command that opens JupyterLab for a capture."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import click

from cdcwb import machine
from cdcwb.cli.console import print_lines, safe
from cdcwb.cli.failures import FINE
from cdcwb.cli.options import STREAM, Target, format_and_options, key_values
from cdcwb.errors import OptionError

__all__ = ["open_capture"]


@click.command(name="open")
@click.argument("path", type=click.Path())
@click.option(
    "--to",
    "target",
    metavar="FOLDER",
    type=Target(),
    help="Folder for the notebooks (default: NAME-workbench in the working directory); existing notebooks are kept.",
)
@click.option("--page", metavar="NAME", help="The notebook to open, such as transactions (default: workbench).")
@click.option("--browser", is_flag=True, help="Show the workbench as a page in the browser, without JupyterLab.")
@click.option("--no-lab", is_flag=True, help="Create the notebooks, and do not start a server.")
@format_and_options
def open_capture(
    path: str,
    target: str | None,
    page: str | None,
    browser: bool,
    no_lab: bool,
    format_name: str,
    pairs: tuple[tuple[str, str], ...],
) -> int:
    """Create a folder of notebooks for a capture and open its workbench in JupyterLab; with --browser as a page that is
    served to this machine only. Ctrl-C ends either."""
    from cdcwb.capture import check_capture
    from cdcwb.report import notebook_path
    from cdcwb.views.workbook import last_part, make_workbook

    if path == STREAM:
        raise OptionError(
            "standard input cannot be read again when the notebooks run: save it first, with cdcwb save - --to FOLDER"
        )
    options = key_values(pairs)
    check_capture(path, format_name, options)
    absolute_path = path if "://" in path else str(Path(path).expanduser().absolute())
    name = last_part(absolute_path)
    folder = Path(target or f"{name.stem or name.name}-workbench").expanduser().absolute()
    first = notebook_path(page).name if page else None
    package = "voila" if browser else "jupyterlab"
    if not no_lab and find_spec(package) is None:
        raise OptionError(f"{package} is not installed: run pip install 'cdcwb[lab]', or give --no-lab")
    begin = make_workbook(absolute_path, folder, format_name, options)
    begin = begin if first is None else folder / first
    print_lines([safe(str(begin))])
    if no_lab:
        return FINE
    arguments = [str(begin)] if browser else _lab(begin)
    environment = {"SPARK_DRIVER_MEMORY": f"{_share()}m"} | os.environ | (_serving() if browser else {})
    with subprocess.Popen([sys.executable, "-m", package, *arguments], env=environment) as server:
        interrupted = False
        while True:
            try:
                code = server.wait()
                return FINE if interrupted else code
            except KeyboardInterrupt:  # the server gets it too, and ends or asks
                interrupted = True
            except SystemExit:  # by a signal
                server.terminate()
                raise


def _share() -> int:
    """MiB of heap for the JVM of each notebook: an eighth of the memory, from 1 GiB to 4 GiB, so that several notebooks
    can be open. Spark spills to disk beyond it."""
    return min(max(machine.memory_bytes() // 8 >> 20, 1024), 4096)


def _lab(notebook: Path) -> list[str]:
    """The command that opens a notebook in JupyterLab."""
    return [f"--ServerApp.root_dir={notebook.parent}", f"--LabApp.default_url=/lab/tree/{quote(notebook.name)}"]


def _serving() -> dict[str, str]:
    """The environment for Voilà (``views/voila.json``): it serves only this machine and requests with the token, with a
    policy that forbids the page other connections. Views are live there."""
    settings = [str(resources.files("cdcwb.views")), *os.environ.get("JUPYTER_CONFIG_PATH", "").split(os.pathsep)]
    return {"CDCWB_VIEWS": "live", "JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, settings))}
