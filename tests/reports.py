"""The reports on the captures in ``data/``, each made once for all tests that look at it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from cdcwb.report import run_report

__all__ = ["DATA", "Report", "report_of"]

DATA: Final = Path(__file__).parents[1] / "data"
_MADE: Final[dict[tuple[str, str], Report]] = {}


@dataclass(frozen=True, slots=True)
class Report:
    """A report: its page, and the facts that its notebook recorded."""

    page: Path
    facts: dict[str, Any]

    @property
    def html(self) -> str:
        """The page without its scripts' libraries: what is read."""
        text = self.page.read_text(encoding="utf-8")
        return text[text.index("<main") : text.index("</main>")]


def report_of(name: str, folders: pytest.TempPathFactory, notebook: str = "transactions") -> Report:
    """The report of a notebook on the capture ``data/NAME``."""
    if (name, notebook) not in _MADE:
        page = folders.mktemp("report") / f"{name}.html"
        _MADE[name, notebook] = Report(page, run_report(notebook, DATA / name, page, say=lambda _: None))
    return _MADE[name, notebook]
