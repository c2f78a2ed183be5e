"""Views of a capture: panels with figures, tables and sentences that share one selection.

capture.view.transactions()            # a page: the control bar, and panels
capture.view.transactions.timeline()   # one panel; its content: .figure, .frame and .facts
capture.view.explore()                 # the records, their fields and bytes
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from cdcwb.views.bench import Bench
from cdcwb.views.view import Panel, View

if TYPE_CHECKING:
    from cdcwb.capture import Capture
    from cdcwb.explore.widget import ExplorerWidget
    from cdcwb.report.answer import Answer
    from cdcwb.views.pages.page import Page

__all__ = ["PAGES", "PageOf", "View", "Views"]


def _panels(page: str, names: str) -> tuple[str, ...]:
    """The keys of some panels: those of the page itself, or ``page.panel`` of another."""
    return tuple(name if "." in name else f"{page}.{name}" for name in names.split())


_TRANSACTIONS: Final = "timeline capture.over_time concurrency longest unfinished problems"
_MASKS: Final = "over_time capture.over_time changed_columns together values idle keys bit_by_bit"

PAGES: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "capture": ("Capture", "CapturePage", _panels("capture", "over_time tables problems")),
    "transactions": ("Transactions", "Transactions", _panels("transactions", _TRANSACTIONS)),
    "masks": ("Change masks", "Masks", _panels("masks", _MASKS)),
    "problems": ("Problems", "CapturePage", _panels("capture", "problems")),
    "continuity": ("Continuity of rows", "ContinuityPage", ()),
    "drift": ("Schema drift", "Drift", ()),
    "event_log": ("Event log and XDS", "EventLog", ()),
    "history": ("Row history", "History", ()),
    "replay": ("Replay and reconcile", "Replay", ()),
}
"""Pages by name: title, class in :mod:`cdcwb.views.pages`, and the panels of the page that follow the selection, if it
consists of these."""


def _class_of(page: str) -> type[Page]:
    from cdcwb.views import pages

    kind: type[Page] = getattr(pages, PAGES[page][1])
    return kind


class PageOf:
    """A page of a capture. A call returns the complete page; attributes return single panels.

    If panels of the page follow the selection, the complete page consists of these; otherwise it is the page of the
    notebook, which has parameters of its own.
    """

    def __init__(self, bench: Bench, name: str) -> None:
        self._bench = bench
        self._name = name
        self._title, _, self._live = PAGES[name]
        self._made: tuple[object, Page] | None = None

    @cached_property
    def _kind(self) -> type[Page]:
        """The page of the notebook."""
        return _class_of(self._name)

    def __call__(self, **parameters: Any) -> View | Page:
        """The complete page, below the control bar."""
        if not self._live:
            return self._page(**parameters)
        pairs = [key.split(".") for key in self._live]
        return View(self._bench, self._title, [Panel(_class_of(page), name) for page, name in pairs])

    def __getattr__(self, name: str) -> Callable[..., View | Answer]:
        if not name.startswith("_") and name in self._kind.panels():
            if getattr(self._kind, name).live:
                return partial(View, self._bench, "", [Panel(self._kind, name)], controls=False)
            return lambda **parameters: getattr(self._page(**parameters), name)()
        raise AttributeError(f"this page has no panel {name!r}; there are: {', '.join(self.__dir__())}")

    def _page(self, **parameters: Any) -> Page:
        """The page of the notebook for the current selection, cached for the next call."""
        session = self._bench.capture.question_session
        asked = (session, parameters, self._bench.selection.values())
        if self._made is None or self._made[0] != asked:
            self._made = asked, self._kind.of(self._bench.capture, **parameters)
        return self._made[1]

    def __dir__(self) -> list[str]:
        return list(self._kind.panels())

    def __repr__(self) -> str:
        return f"{self._title}: call it for the page; panels: {', '.join(self.__dir__())}"


class Views:
    """The views of a capture; all of them follow ``capture.selection``."""

    capture: PageOf
    transactions: PageOf
    masks: PageOf
    problems: PageOf
    continuity: PageOf
    drift: PageOf
    event_log: PageOf
    history: PageOf
    replay: PageOf

    def __init__(self, capture: Capture) -> None:
        self.bench = Bench(capture)
        for name in PAGES:
            setattr(self, name, PageOf(self.bench, name))

    def explore(self) -> ExplorerWidget:
        """The explorer: records, fields and bytes. A click in another view shows its record there."""
        return self.bench.explore()

    def reconcile(self, other: Capture, **parameters: Any) -> Page:
        """The page that compares the capture, which is the source, with a target; ``rules`` configure the
        comparison."""
        from cdcwb.views.pages import Replay

        return Replay.of(self.bench.capture, other, **parameters)

    def __dir__(self) -> list[str]:
        return [*PAGES, "reconcile", "explore"]

    def __repr__(self) -> Any:
        return f"views: {', '.join(self.__dir__())}"
