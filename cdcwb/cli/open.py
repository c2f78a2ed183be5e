"""The command that opens JupyterLab for a capture."""

from __future__ import annotations

import os
import signal
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import click

from cdcwb import machine
from cdcwb.cli.console import FINE, print_lines, safe
from cdcwb.cli.options import CAPTURE, format_and_options, to
from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.source import absolute

_LOOPBACK: Final = "--ServerApp.ip=127.0.0.1"


@click.command(name="open", context_settings={"ignore_unknown_options": True})
@click.argument("path", **CAPTURE)
@click.argument("more", metavar="[JUPYTER ARGUMENTS]", nargs=-1, type=click.UNPROCESSED)
@to(
    "FOLDER",
    "Folder for the notebooks (default: NAME-workbench in the working directory); existing notebooks are kept.",
    required=False,
)
@click.option("--page", metavar="NAME", help="The notebook to open, such as transactions (default: workbench).")
@click.option("--no-lab", is_flag=True, help="Create the notebooks, and do not start a server.")
@format_and_options
def open_capture(
    path: str,
    more: tuple[str, ...],
    target: str | None,
    page: str | None,
    no_lab: bool,
    format_name: str,
    options: dict[str, Any],
) -> int:
    """Create a folder of notebooks for a capture, and open and run its workbench in JupyterLab. Ctrl-C, SIGTERM and
    SIGHUP end JupyterLab with its kernels. Other options go to JupyterLab, such as --no-browser, --port 9000,
    --ip 0.0.0.0, --allow-root or --ServerApp.base_url=/lab."""
    from cdcwb.opening import check_capture
    from cdcwb.report import notebook_path
    from cdcwb.views.workbook import last_part, make_workbook

    if more and not more[0].startswith("-"):
        raise OptionError(f"expected one capture, found also '{more[0]}'")
    checked = check_capture(path, format_name, options)
    absolute_path = path if "://" in path else absolute(path)
    name = last_part(absolute_path)
    folder = Path(absolute(target or f"{name.stem or name.name}-workbench"))
    first = notebook_path(page).name if page else None
    if not no_lab and find_spec("jupyterlab") is None:
        raise OptionError("jupyterlab is not installed: run pip install 'cdcwb[lab]', or give --no-lab")
    begin = make_workbook(absolute_path, folder, format_name, options, is_log=checked.format_name == "idm-event-log")
    begin = begin if first is None else folder / first
    print_lines([safe(str(begin))])
    if not no_lab:
        arguments = [f"--ServerApp.root_dir={folder}", f"--LabApp.default_url=/lab/tree/{quote(begin.name)}", *more]
        if not any(one.startswith(("--ip", "--ServerApp.ip")) for one in more):
            arguments.append(_LOOPBACK)
        _run_lab(arguments, begin.name)
    return FINE


def _run_lab(arguments: list[str], begin: str) -> None:
    """Runs JupyterLab in this process, so that whatever ends the command ends JupyterLab and its kernels too, and its
    arguments are in no further process. Its page runs the notebook ``begin``. Raises CaptureError if JupyterLab
    fails."""
    from jupyterlab.labapp import LabApp  # type: ignore[import-untyped]

    extensions = resources.files("cdcwb.views").joinpath("extension")

    # an eighth of the memory, 1 to 4 GiB, so that several notebooks can be open; Spark spills to disk beyond it
    os.environ.setdefault("SPARK_DRIVER_MEMORY", f"{min(max(machine.memory_bytes() // 8 >> 20, 1024), 4096)}m")
    try:
        server = LabApp.initialize_server(argv=[f"--LabApp.extra_labextensions_path={extensions}", *arguments])
        server.web_app.settings.setdefault("page_config_data", {})["cdcwbRun"] = begin
        for number in (signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # as with nohup
                signal.signal(number, signal.getsignal(signal.SIGTERM))
        server.io_loop.add_callback(os.umask, os.umask(0o077))  # the page that opens the browser has the token
        server.start()
    except SystemExit as ended:
        if ended.code:
            reason = "its messages above give the reason"
            raise CaptureError(f"JupyterLab ended with exit code {ended.code}: {reason}") from None
