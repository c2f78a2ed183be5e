"""The command that opens JupyterLab for a capture."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Sequence
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import quote

import click

from cdcwb import machine
from cdcwb.cli.console import print_lines, safe
from cdcwb.cli.failures import FINE
from cdcwb.cli.options import Target, format_and_options, key_values, no_stream
from cdcwb.errors import CaptureError, OptionError

__all__ = ["open_capture"]

_LOOPBACK: Final = "127.0.0.1"
_PASSIVE: Final = socket.AI_PASSIVE | socket.AI_ADDRCONFIG


def _withdrawn(_context: click.Context, _parameter: click.Parameter, given: bool) -> None:
    if given:
        raise OptionError("--browser is withdrawn: leave it out; JupyterLab opens in the browser")


@click.command(name="open")
@click.argument("path", type=click.Path(), callback=no_stream)
@click.argument("more", metavar="[-- JUPYTER ARGUMENTS]", nargs=-1)
@click.option(
    "--to",
    "target",
    metavar="FOLDER",
    type=Target(),
    help="Folder for the notebooks (default: NAME-workbench in the working directory); existing notebooks are kept.",
)
@click.option("--page", metavar="NAME", help="The notebook to open, such as transactions (default: workbench).")
@click.option("--no-browser", is_flag=True, help="Do not open a browser; the output of JupyterLab has its address.")
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    help="The port of JupyterLab; an error if it is in use (default: the first free one from 8888 on).",
)
@click.option("--ip", metavar="ADDRESS", default=_LOOPBACK, help=f"The address to listen on (default: {_LOOPBACK}).")
@click.option("--allow-root", is_flag=True, help="Run JupyterLab as root, in a container.")
@click.option("--no-lab", is_flag=True, help="Create the notebooks, and do not start a server.")
@click.option("--browser", is_flag=True, hidden=True, expose_value=False, callback=_withdrawn)
@format_and_options
def open_capture(
    path: str,
    more: tuple[str, ...],
    target: str | None,
    page: str | None,
    no_browser: bool,
    port: int | None,
    ip: str,
    allow_root: bool,
    no_lab: bool,
    format_name: str,
    pairs: tuple[tuple[str, str], ...],
) -> int:
    """Create a folder of notebooks for a capture, and open and run its workbench in JupyterLab. Ctrl-C, SIGTERM and
    SIGHUP end JupyterLab with its kernels. What follows -- goes to JupyterLab:
    cdcwb open PATH -- --ServerApp.base_url=/lab"""
    from cdcwb.opening import check_capture
    from cdcwb.report import notebook_path
    from cdcwb.views.workbook import last_part, make_workbook

    if more and not more[0].startswith("-"):
        raise OptionError(f"expected one capture, found also '{more[0]}'; arguments of JupyterLab follow --")
    options = key_values(pairs)
    checked = check_capture(path, format_name, options)
    absolute_path = path if "://" in path else str(Path(path).expanduser().absolute())
    name = last_part(absolute_path)
    folder = Path(target or f"{name.stem or name.name}-workbench").expanduser().absolute()
    first = notebook_path(page).name if page else None
    flags = [flag for flag, given in (("--no-browser", no_browser), ("--allow-root", allow_root)) if given]
    arguments = [*flags, f"--ServerApp.ip={ip}"]
    if port is not None:
        arguments += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    arguments += more
    if not no_lab:
        _check_lab(ip, port, arguments)
    begin = make_workbook(absolute_path, folder, format_name, options, is_log=checked.format_name == "idm-event-log")
    begin = begin if first is None else folder / first
    print_lines([safe(str(begin))])
    if not no_lab:
        place = [f"--ServerApp.root_dir={folder}", f"--LabApp.default_url=/lab/tree/{quote(begin.name)}"]
        _run_lab([*place, *arguments], begin.name)
    return FINE


def _check_lab(ip: str, port: int | None, arguments: Sequence[str]) -> None:
    """Raises OptionError if JupyterLab is not installed, or would not start with these arguments."""
    if find_spec("jupyterlab") is None:
        raise OptionError("jupyterlab is not installed: run pip install 'cdcwb[lab]', or give --no-lab")
    from jupyterlab.labapp import LabApp  # type: ignore[import-untyped]

    if os.geteuid() == 0 and not any(one.startswith(("--allow-root", "--ServerApp.allow_root")) for one in arguments):
        configured = LabApp.serverapp_class()
        configured.load_config_file()
        if not configured.allow_root:
            raise OptionError("JupyterLab does not run as root unless it is allowed to: give --allow-root")
    try:
        everywhere = None if ip == "*" else ip
        for family, *_, address in socket.getaddrinfo(everywhere, port or 0, type=socket.SOCK_STREAM, flags=_PASSIVE):
            socket.create_server(address, family=family).close()
    except socket.gaierror as reason:
        raise OptionError(f"--ip {ip}: {reason.strerror}") from None
    except OSError as reason:
        where = f"--ip {ip}" if not port else f"--port {port} of {ip}"
        raise OptionError(f"{where}: {os.strerror(reason.errno or 0)}; give another one, or leave it out") from None


def _run_lab(arguments: list[str], begin: str) -> None:
    """Runs JupyterLab in this process, so that whatever ends the command ends JupyterLab and its kernels too, and its
    arguments are in no further process. Its page runs the notebook ``begin``. Raises CaptureError if JupyterLab
    fails."""
    from jupyterlab.labapp import LabApp

    extensions = resources.files("cdcwb.views").joinpath("extension")

    os.environ.setdefault("SPARK_DRIVER_MEMORY", f"{_share()}m")
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


def _share() -> int:
    """MiB of heap for the JVM of each notebook: an eighth of the memory, from 1 GiB to 4 GiB, so that several notebooks
    can be open. Spark spills to disk beyond it."""
    return min(max(machine.memory_bytes() // 8 >> 20, 1024), 4096)
