"""A folder of notebooks for one capture: copies that can be run and changed independently."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any, Final

import nbformat
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook

from cdcwb.errors import OptionError
from cdcwb.formats.containers.registry import without_login
from cdcwb.report import notebooks
from cdcwb.writing import write_text

WORKBENCH: Final = "workbench.ipynb"
"""The notebook to begin with."""

_ABOUT: Final = ".cdcwb-workbench.json"
_PARAMETERS: Final = """path: str = ""  # file or folder of the capture, or a folder that `cdcwb save` wrote
format: str = "auto"  # format name, or auto
options: str = "{}"  # reader options as a JSON object"""
_LOAD: Final = """import json

import cdcwb

capture = cdcwb.load(path, format, **json.loads(options))
capture"""
_PAGES: Final = {
    "Changes over time and by table": "capture",
    "Transactions": "transactions",
    "Change masks": "masks",
    "Records and their bytes": "explore",
    "Schema drift": "drift",
    "Event log and XDS": "event_log",
}
_HELP: Final = (
    "Drag over a chart to select a time, tick values in the bar, click a bar, a cell or a row to see its record and "
    "its bytes. All pages of this notebook follow the same selection."
)


def make_workbook(
    path: str | os.PathLike[str],
    to: Path,
    format: str = "auto",
    options: Mapping[str, Any] | None = None,
    is_log: bool = False,
) -> Path:
    """Writes notebooks for the capture at ``path`` (absolute, or a URL) to the folder ``to``; returns the one to begin
    with. ``is_log``: it is an event log.

    A folder of the same capture keeps its notebooks unchanged; missing ones are added. Raises OptionError for a folder
    with other content.
    """
    path = os.fspath(path)
    about = {"path": path, "format": format, "options": without_login(options or {})}
    if to.exists():
        try:
            other = json.loads((to / _ABOUT).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            other = None
        if other != about and (not to.is_dir() or any(to.iterdir())):
            was = f"was made for {other['path']}" if isinstance(other, dict) and "path" in other else "already exists"
            raise OptionError(f"{to} {was}: name another folder with --to")
    write_text(to / _ABOUT, json.dumps(about, indent=1))
    parameters = {"path": path, "format": format, "options": json.dumps(about["options"], ensure_ascii=False)}
    others = ("transactions", "drift") if is_log else ("event_log",)
    pages = {heading: f"capture.view.{name}()" for heading, name in _PAGES.items() if name not in others}
    _write(to / WORKBENCH, _workbench(last_part(path).name, pages), parameters)
    for source in notebooks().values():
        if not source.stem.endswith("start_here"):  # it has no capture
            _write(to / source.name, load_notebook_node(str(source)), parameters)
    return to / WORKBENCH


def last_part(path: str) -> PurePath:
    """The last part of a path or a URL, without the query of the URL."""
    return PurePath(PurePath(path.partition("?")[0] if "://" in path else path).name)


def _write(path: Path, notebook: Any, parameters: Mapping[str, str]) -> None:
    if not path.exists():
        made = parameterize_notebook(notebook, dict(parameters), comment="this capture")
        write_text(path, nbformat.writes(made) + "\n")  # type: ignore[no-untyped-call]


def _workbench(name: str, pages: Mapping[str, str]) -> Any:
    new: Any = nbformat.v4
    title = re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", name)
    cells = [new.new_markdown_cell(f"# {title}\n\n{_HELP}"), new.new_code_cell(_PARAMETERS), new.new_code_cell(_LOAD)]
    for heading, code in pages.items():
        cells += [new.new_markdown_cell(f"## {heading}"), new.new_code_cell(code)]
    for number, cell in enumerate(cells):
        cell.update(id=f"cell-{number:02}", metadata={"tags": ["parameters"] if number == 1 else []})
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}, "papermill": {}}
    return nbformat.from_dict(new.new_notebook(cells=cells, metadata=about))  # type: ignore[no-untyped-call]
