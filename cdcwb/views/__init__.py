"""Views of a capture: panels with figures, tables and sentences that share one selection.

capture.view.transactions()            # a page: the control bar, and panels
capture.view.transactions.timeline()   # one panel; its content: .figure, .frame and .facts
capture.view.explore()                 # the records, their fields and bytes
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from cdcwb.views.bench import Bench
from cdcwb.views.panels import (
    ChangedColumns,
    ChangedOverTime,
    Concurrent,
    Problems,
    Tables,
    Timeline,
    Together,
    TransactionTable,
    Unfinished,
    When,
)
from cdcwb.views.view import Panel, View

if TYPE_CHECKING:
    from cdcwb.capture import Capture
    from cdcwb.explore.widget import ExplorerWidget
    from cdcwb.views.pages.page import Page, Sheet

__all__ = ["PAGES", "PageOf", "View", "Views"]

PAGES: Final[dict[str, tuple[str, tuple[type[Panel], ...], str]]] = {
    "capture": ("Capture", (When, Tables, Problems), "capture:CapturePage"),
    "transactions": (
        "Transactions",
        (Timeline, When, Concurrent, TransactionTable, Unfinished, Problems),
        "transactions:Transactions",
    ),
    "masks": ("Change masks", (ChangedOverTime, When, ChangedColumns, Together), "masks:Masks"),
    "problems": ("Problems", (Problems,), ""),
    "drift": ("Schema drift", (), "drift:Drift"),
    "event_log": ("Event log and XDS", (), "event_log:EventLog"),
    "history": ("Row history", (), "replay:History"),
    "replay": ("Replay and reconcile", (), "replay:Replay"),
}
"""Pages by name: title, the panels that use the index, and the page of the notebook, whose panels use Spark."""


class PageOf:
    """A page of a capture. A call returns the complete page; attributes return single panels.

    If the page has panels that use the index, the complete page consists of these; otherwise it is the page of the
    notebook, which has parameters of its own.
    """

    def __init__(self, bench: Bench, title: str, panels: tuple[type[Panel], ...], asked: str) -> None:
        self._bench = bench
        self._title = title
        self._panels = {panel.name: panel for panel in panels}
        self._asked = asked
        self._made: tuple[object, Page] | None = None

    @cached_property
    def _kind(self) -> type[Page] | None:
        """The page of the notebook; importing it imports Spark."""
        module, _, name = self._asked.partition(":")
        return getattr(import_module(f"cdcwb.views.pages.{module}"), name) if name else None

    def __call__(self, **parameters: Any) -> View | Page:
        """The complete page, below the control bar."""
        if self._panels:
            return View(self._bench, self._title, [panel() for panel in self._panels.values()])
        return self._page(**parameters)

    def __getattr__(self, name: str) -> Callable[..., View | Sheet]:
        if not name.startswith("_"):
            if name in self._panels:
                return partial(View, self._bench, "", [self._panels[name]()], controls=False)
            if self._kind is not None and name in self._kind.panels():
                return lambda **parameters: getattr(self._page(**parameters), name)()
        raise AttributeError(f"this page has no panel {name!r}; there are: {', '.join(self.__dir__())}")

    def _page(self, **parameters: Any) -> Page:
        """The page of the notebook for the current selection, cached for the next call."""
        assert self._kind is not None
        session = self._bench.capture.question_session
        asked = (session, parameters, self._bench.selection.values())
        if self._made is None or self._made[0] != asked:
            self._made = asked, self._kind.of(self._bench.capture, **parameters)
        return self._made[1]

    def __dir__(self) -> list[str]:
        return list(dict.fromkeys([*self._panels, *(self._kind.panels() if self._kind else ())]))

    def __repr__(self) -> str:
        return f"{self._title}: call it for the page; panels: {', '.join(self.__dir__())}"


class Views:
    """The views of a capture; all of them follow ``capture.selection``."""

    capture: PageOf
    transactions: PageOf
    masks: PageOf
    problems: PageOf
    drift: PageOf
    event_log: PageOf
    history: PageOf
    replay: PageOf

    def __init__(self, capture: Capture) -> None:
        self.bench = Bench(capture)
        for name, about in PAGES.items():
            setattr(self, name, PageOf(self.bench, *about))

    def explore(self) -> ExplorerWidget:
        """The explorer: records, fields and bytes. A click in another view shows its record there."""
        return self.bench.explore()

    def reconcile(self, other: Capture, **parameters: Any) -> Page:
        """The page that compares the capture, which is the source, with a target; ``rules`` configure the
        comparison."""
        from cdcwb.views.pages.replay import Replay

        return Replay.of(self.bench.capture, other, **parameters)

    def __dir__(self) -> list[str]:
        return [*PAGES, "reconcile", "explore"]

    def __repr__(self) -> Any:
        return f"views: {', '.join(self.__dir__())}"
