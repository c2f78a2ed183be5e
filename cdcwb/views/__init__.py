"""Views of a capture: questions with their figures, tables and answers, which share one selection.

capture.view.transactions()            # a page: the bar of controls, and panels
capture.view.transactions.timeline()   # one panel; .figure, .frame and .facts to go on with
capture.view.explore()                 # the records, their fields and bytes
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from cdcwb.views.bench import Bench
from cdcwb.views.changes import Problems, Tables, When
from cdcwb.views.masks import ChangedColumns, ChangedOverTime, Together
from cdcwb.views.transactions import OpenAtOnce, Timeline, TransactionTable, Unfinished
from cdcwb.views.view import Panel, View

if TYPE_CHECKING:
    from cdcwb.capture import Capture
    from cdcwb.explore.widget import ExplorerWidget

__all__ = ["PAGES", "Page", "View", "Views"]

PAGES: Final[dict[str, tuple[str, tuple[type[Panel], ...]]]] = {
    "capture": ("Capture", (When, Tables, Problems)),
    "transactions": ("Transactions", (Timeline, When, OpenAtOnce, TransactionTable, Unfinished, Problems)),
    "masks": ("Change masks", (ChangedOverTime, When, ChangedColumns, Together)),
    "problems": ("Problems", (Problems,)),
}
"""Pages by name: title and panels."""


class Page:
    """A page: called, all of it; its panels are attributes, called one by one."""

    def __init__(self, bench: Bench, title: str, panels: tuple[type[Panel], ...]) -> None:
        self._bench = bench
        self._title = title
        self._panels = {panel.name: panel for panel in panels}

    def __call__(self) -> View:
        """The whole page, below the bar of controls."""
        return View(self._bench, self._title, [panel() for panel in self._panels.values()])

    def __getattr__(self, name: str) -> Callable[[], View]:
        panel = self._panels.get(name) if not name.startswith("_") else None
        if panel is None:
            raise AttributeError(f"this page has no panel {name!r}; there are: {', '.join(self._panels)}")
        return partial(View, self._bench, "", [panel()], controls=False)

    def __dir__(self) -> list[str]:
        return [*self._panels]

    def __repr__(self) -> str:
        return f"{self._title}: call it for the page; panels: {', '.join(self._panels)}"


class Views:
    """The views of a capture; all of them follow ``capture.selection``."""

    capture: Page
    transactions: Page
    masks: Page
    problems: Page

    def __init__(self, capture: Capture) -> None:
        self.bench = Bench(capture)
        for name, (title, panels) in PAGES.items():
            setattr(self, name, Page(self.bench, title, panels))

    def explore(self) -> ExplorerWidget:
        """The explorer: records, fields and bytes. A click in another view shows its record there."""
        return self.bench.explore()

    def __dir__(self) -> list[str]:
        return [*PAGES, "explore"]

    def __repr__(self) -> Any:
        return f"views: {', '.join(dir(self))}"
