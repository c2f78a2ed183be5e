"""Runs a notebook over a capture and makes its report: one HTML file, and the facts that the notebook recorded."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdcwb import errors
from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.options import nearest
from cdcwb.report.facts import read_facts
from cdcwb.report.html import Page, page, write_whole
from cdcwb.words import size, visible

if TYPE_CHECKING:
    from nbformat import NotebookNode

__all__ = ["execute", "notebook_path", "notebooks", "run_report"]


def notebooks() -> dict[str, Path]:
    """The notebooks of cdcwb by name, without the number that sorts them (``transactions`` is ``02_transactions``)."""
    package = Path(__file__).parents[1]
    # Once installed they are inside the package, in the source tree beside it.
    for folder in (package / "notebooks", package.parent / "notebooks"):
        found = {re.sub(r"^\d+_", "", path.stem): path for path in sorted(folder.glob("[0-9]*_*.ipynb"))}
        if found:
            return found
    return {}


def notebook_path(name: str) -> Path:
    """Where the notebook ``name`` is. Raises OptionError that names those there are and the nearest one."""
    known = notebooks()
    plain = re.sub(r"^\d+_", "", name).removesuffix(".ipynb")
    if plain not in known:
        there = f"There are: {', '.join(known)}." if known else "None came with this installation."
        raise OptionError(f"there is no report '{visible(name)}'.{nearest(plain, known)} {there}")
    return known[plain]


def run_report(
    name: str,
    path: str | Path,
    to: str | Path,
    format: str = "auto",
    options: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    say: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Run the notebook ``name`` over the capture ``path``, write its report to the HTML file ``to``, return its facts.

    ``options`` are reader options; ``parameters`` are further parameters of the notebook. ``say`` is told what is being
    done (default: lines on standard error). The file appears whole or not at all. Raises CaptureError (or a child) with
    one sentence for anything that the user can put right, whichever process it happened in.
    """
    say = say or _say
    notebook = notebook_path(name)
    target = Path(to).expanduser().absolute()
    if target.is_dir():
        raise OptionError(f"'{target}' is a folder; name the HTML file")
    made = datetime.now(UTC)
    started = time.monotonic()
    values = {
        "path": str(Path(path).expanduser().absolute()),
        "format": format,
        "options": json.dumps(dict(options or {})),
    }
    executed = execute(notebook, values | dict(parameters or {}), say)
    about = Page(visible(str(path), 300), made, notebook.stem, version())
    html = page(executed, about)
    try:
        write_whole(target, html)
    except OSError as error:
        raise CaptureError(f"the report cannot be written: {error.strerror}", path=str(target)) from None
    say(f"{target}: {size(len(html.encode()))} in {time.monotonic() - started:.0f} s")
    return read_facts(executed)


def execute(notebook: Path, parameters: Mapping[str, Any], say: Callable[[str], None] | None = None) -> NotebookNode:
    """Run a notebook with this interpreter and return it with its outputs; nothing is written.

    Raises OptionError for a parameter that the notebook does not have, CaptureError (or a child) for what stopped it.
    """
    import nbformat
    import papermill
    from papermill.exceptions import PapermillExecutionError

    from cdcwb.report.kernel import OwnKernelManager

    say = say or _say
    content = nbformat.read(notebook, as_version=4)
    known = set(papermill.inspect_notebook(notebook))
    unknown = [name for name in parameters if name not in known]
    if unknown:
        hints = " ".join(f"'{n}' is no parameter of {notebook.stem}.{nearest(n, known)}" for n in unknown)
        raise OptionError(f"{hints} There are: {', '.join(sorted(known))}.")
    say(f"running the notebook {notebook.stem}")
    bar = {"desc": notebook.stem, "unit": "cell", "leave": False} if sys.stderr.isatty() else False
    try:
        return papermill.execute_notebook(
            content,
            None,
            parameters=dict(parameters),
            kernel_name="python3",
            language="python",
            progress_bar=bar,
            start_timeout=180,
            kernel_manager_class=OwnKernelManager,
        )
    except PapermillExecutionError as error:
        raise _understood(error, notebook.stem) from None


def version() -> str:
    """The version of cdcwb; ``0`` where it is used without being installed."""
    try:
        return metadata.version("cdcwb")
    except metadata.PackageNotFoundError:
        return "0"


def _understood(error: Any, notebook: str) -> CaptureError:
    """The exception of a cell as one of ours: its class where it has one of our names, and one line in any case."""
    line = next((line.strip() for line in str(error.evalue).splitlines() if line.strip()), "")
    # An exception from a Spark worker carries ours inside its text: cdcwb.errors.MalformedRecordError: sentence.
    inside = re.search(r"cdcwb\.errors\.(\w+): (.+)", str(error.evalue))
    for name, sentence in ((str(error.ename), line), inside.groups() if inside else ("", "")):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, CaptureError):
            return kind(sentence)
    return CaptureError(f"the notebook {notebook} stopped with {error.ename}: {visible(line, 400)}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress belongs to whoever called
