"""Runs a notebook over a capture and makes its report: one HTML file, and the facts that the notebook recorded."""

from __future__ import annotations

import ast
import json
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cdcwb import errors
from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.containers.registry import without_login
from cdcwb.formats.options import as_object, nearest
from cdcwb.formats.source import absolute, delivered_to, is_folder, is_remote
from cdcwb.report.facts import flat, headline, read_facts
from cdcwb.report.html import PageInfo, Siblings, page
from cdcwb.report.opening import TARGETS
from cdcwb.words import joined, size, visible
from cdcwb.writing import write_text

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from cdcwb.report.kernel import Kernel


_PAGES: Final = (".html", ".htm")
SOURCE: Final = ("path", "format", "options")
"""The parameters that name the capture."""

Given: TypeAlias = tuple[str, str, Mapping[str, Any]]
"""A capture: its path, format and reader options."""


def notebooks() -> dict[str, Path]:
    """The notebooks of cdcwb by name, without the number that sorts them (``transactions`` is ``02_transactions``)."""
    package = Path(__file__).parents[1]
    # An installed package contains them; in the source tree they are in the same folder as the package.
    for folder in (package / "notebooks", package.parent / "notebooks"):
        paths = {re.sub(r"^\d+_", "", path.stem): path for path in sorted(folder.glob("[0-9]*_*.ipynb"))}
        if paths:
            return paths
    return {}


def notebook_path(name: str) -> Path:
    """The path of the notebook ``name``. Raises OptionError, which names all notebooks and the nearest match."""
    known = notebooks()
    plain = re.sub(r"^\d+_", "", name).removesuffix(".ipynb")
    if plain not in known:
        hint = f"There are: {', '.join(known)}." if known else "None came with this installation."
        raise OptionError(f"there is no report '{visible(name)}'.{nearest(plain, known)} {hint}")
    return known[plain]


def run_report(
    name: str,
    path: str | Path,
    to: str | Path,
    format: str = "auto",
    options: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    say: Callable[[str], None] | None = None,
    redact: Sequence[str] = (),
    fail_if: Sequence[str] = (),
) -> dict[str, Any]:
    """Run the notebook ``name`` over the capture ``path``, write its report to the HTML file ``to``, return its facts.

    The facts are written next to it, as one flat JSON object in the file of the same name with the extension ``.json``.
    ``to`` may be a URL; both files are uploaded to it. ``options`` are reader options; ``parameters`` are further
    parameters of the notebook. The values of the columns ``redact`` (``schema.table.column``) are in neither file.
    ``fail_if``: conditions on the facts that the caller will judge, which are checked only. ``say`` gets the present
    step (default: lines on standard error). The files are written atomically. Raises CaptureError (or a child) with one
    sentence for every error that the user can correct, in any process; if possible before a process is started.
    """
    from cdcwb.report.suite import check_wanted

    if is_remote(to):
        with delivered_to(to) as local:
            return run_report(name, path, local, format, options, parameters, say, redact, fail_if)
    say = say or print_progress
    wanted, chosen, _ = check_wanted(path, to, format, options, parameters, redact, fail_if, [name], is_page=True)
    from cdcwb.report.kernel import Kernel  # imports papermill, which takes seconds

    target = Path(absolute(to))
    with Kernel() as kernel, tempfile.TemporaryDirectory(prefix="cdcwb-report-") as folder:
        opened = keep(wanted, kernel, Path(folder), target.parent, say) if redact else wanted.captures
        return make_report(chosen[name], wanted, opened, target, parameters or {}, say, kernel).facts


def check_page(target: Path) -> list[str]:
    """The errors of the target file of a report, in sentences."""
    if target.is_dir():
        return [f"'{target}' is a folder; name the HTML file"]
    if target.suffix == ".json":
        return [f"'{target}' is where the facts would be; name the HTML file"]
    if target.suffix.lower() not in _PAGES:
        return [f"expected a file that ends in {' or '.join(_PAGES)}, found '{target.name}'; a report is an HTML file"]
    return []


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """What a report is about: ``captures`` are the capture and, if it is compared with one, the target, each with path
    (absolute), format and reader options. ``name`` is what the user called them; the values of the columns ``redact``
    are not to be in the report."""

    name: str
    captures: list[Given]
    redact: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        path: str | Path,
        format: str,
        options: Mapping[str, Any] | None,
        redact: Sequence[str] = (),
        parameters: Mapping[str, Any] | None = None,
    ) -> ReportRequest:
        """The request of the arguments of a report, whose ``parameters`` may name a target. Raises OptionError."""
        captures: list[Given] = [(absolute(path), format, without_login(options or {}))]
        other, other_format, other_options = ((parameters or {}).get(name) for name in TARGETS)
        if other:
            known = without_login(as_object("target_options", other_options or {}))
            captures.append((absolute(other), other_format or "auto", known))
        return cls(joined([str(path), *(target for target, _, _ in captures[1:])]), captures, tuple(redact))


@dataclass(frozen=True, slots=True)
class Report:
    """A finished report: its ``target``, the ``facts`` of its notebook, and the content of its page."""

    target: Path
    facts: dict[str, Any]
    executed: NotebookNode
    about: PageInfo

    def write(self, siblings: Siblings | None = None) -> int:
        """Writes the page, and returns its size in bytes. Raises CaptureError if it cannot be written."""
        html = page(self.executed, self.about, siblings)
        write_text(self.target, html)
        return len(html.encode())


def make_report(
    notebook: Path,
    wanted: ReportRequest,
    opened: Sequence[Given],
    target: Path,
    parameters: Mapping[str, Any],
    say: Callable[[str], None],
    kernel: Kernel,
    siblings: Siblings | None = None,
) -> Report:
    """:func:`run_report` in a persistent kernel, with ``opened`` instead of the capture. ``siblings``: the links to its
    suite."""
    made = datetime.now(UTC)
    started = time.monotonic()
    known_parameters = parameters_of(notebook)
    own_parameters: dict[str, str] = {}
    for names, (path, format, options) in zip((SOURCE, TARGETS), opened, strict=False):
        own_parameters |= zip(names, (path, format, json.dumps(options)), strict=True)
    own_parameters = {name: value for name, value in own_parameters.items() if name in known_parameters}
    parameters = {name: value for name, value in parameters.items() if name not in TARGETS}
    if "snapshot" in known_parameters:
        snapshot = f"{wanted.captures[0][0]}.snapshot"
        # A snapshot contains the values that are redacted in the changes.
        own_parameters["snapshot"] = snapshot if is_folder(snapshot) and not wanted.redact else ""
    executed = execute(notebook, {**own_parameters, **parameters}, say, kernel)
    about = PageInfo(visible(wanted.name, 300), made, notebook.stem, version(), wanted.redact)
    facts = read_facts(executed)
    report = Report(target, facts, executed, about)
    which = {"notebook": notebook.stem, "capture": wanted.name, "made_at": made.isoformat(timespec="seconds")}
    which["headline"] = headline(facts)
    text = json.dumps({**which, **flat(facts)}, ensure_ascii=False, indent=1, allow_nan=False)
    written = report.write(siblings)
    write_text(target.with_suffix(".json"), text + "\n")
    say(f"{target}: {size(written)} in {time.monotonic() - started:.0f} s")
    return report


def keep(wanted: ReportRequest, kernel: Kernel, folder: Path, shared: Path, say: Callable[[str], None]) -> list[Given]:
    """Saves the captures for the notebooks of this kernel, below ``folder`` (on a cluster: below ``shared``)."""
    import nbformat

    say("reading the capture")
    arguments = json.dumps([wanted.captures, wanted.redact, str(folder), str(shared)])
    code = (
        "import json\nfrom cdcwb.report import record\nfrom cdcwb.report.redact import save_captures\n"
        f"record({{'kept': save_captures(*json.loads({arguments!r}))}})"
    )
    content = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    content.metadata.kernelspec = {"name": "python3", "language": "python", "display_name": "Python 3"}
    answer = read_facts(_executed(content, {}, "that reads the capture", False, kernel))["kept"]
    return [(path, "auto", {}) for path in answer]


def parameters_of(notebook: Path) -> dict[str, Any]:
    """A notebook's parameters with their defaults: what the cell that is tagged ``parameters`` assigns. Read without
    papermill, which takes seconds to import."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    tagged = ["".join(cell["source"]) for cell in cells if "parameters" in cell["metadata"].get("tags", ())]
    defaults: dict[str, Any] = {}
    for node in (node for code in tagged for node in ast.parse(code).body):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                defaults[name] = ast.literal_eval(value)
    return defaults


def execute(
    notebook: Path,
    parameters: Mapping[str, Any],
    say: Callable[[str], None] | None = None,
    kernel: Kernel | None = None,
) -> NotebookNode:
    """Run a notebook with this interpreter and return it with its outputs; nothing is written.

    ``kernel`` is a running one that is reused; None: a new one. Raises OptionError for a parameter that the notebook
    does not have, CaptureError (or a child) for what stopped it.
    """
    import nbformat

    from cdcwb.report.kernel import Kernel

    say = say or print_progress
    content = nbformat.read(notebook, as_version=4)
    known = parameters_of(notebook)
    unknown = [name for name in parameters if name not in known]
    if unknown:
        hints = " ".join(f"unknown parameter '{n}' of {notebook.stem}.{nearest(n, known)}" for n in unknown)
        raise OptionError(f"{hints} There are: {', '.join(sorted(known))}.")
    say(f"running the notebook {notebook.stem}")
    watched = sys.stderr.isatty() and threading.current_thread() is threading.main_thread()
    bar = {"desc": notebook.stem, "unit": "cell", "leave": False} if watched else False
    with Kernel() if kernel is None else nullcontext(kernel) as running:
        return _executed(content, parameters, notebook.stem, bar, running)


def _executed(
    content: NotebookNode, parameters: Mapping[str, Any], name: str, bar: Any, kernel: Kernel
) -> NotebookNode:
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    from cdcwb.report.kernel import ENGINE

    try:
        return papermill.execute_notebook(
            content,
            None,
            parameters=dict(parameters),
            kernel_name="python3",
            language="python",
            progress_bar=bar,
            engine_name=ENGINE,
            kernel=kernel,
        )
    except PapermillExecutionError as error:
        raise _understood(error, name) from None
    except DeadKernelError:  # a RuntimeError as well
        raise CaptureError(
            f"the process of the notebook {name} ended unexpectedly; this machine may not have enough memory"
        ) from None
    except RuntimeError as error:
        raise CaptureError(f"the process of the notebook {name} did not start: {visible(error, 400)}") from None


def version() -> str:
    """The version of cdcwb; ``0`` if it is not installed."""
    try:
        return metadata.version("cdcwb")
    except metadata.PackageNotFoundError:
        return "0"


def _understood(error: Any, notebook: str) -> CaptureError:
    """The exception of a cell as a CaptureError with one line, of the same class if it is one of cdcwb's."""
    line, *rest = [line for line in str(error.evalue).splitlines() if line.strip()] or [""]
    line = line.strip()
    # An exception from a Spark worker carries ours inside its text: cdcwb.errors.MalformedRecordError: sentence.
    inside = re.search(r"cdcwb\.errors\.(\w+): (.+)", str(error.evalue))
    for name, sentence in ((str(error.ename), line), inside.groups() if inside else ("", "")):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, CaptureError):
            return kind(sentence, advice=tuple(rest) if sentence == line else ())
    return CaptureError(f"the notebook {notebook} stopped with {error.ename}: {visible(line, 400)}")


def print_progress(text: str) -> None:
    """Prints a line on standard error."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress of the command
