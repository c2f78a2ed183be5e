"""A page about a capture: the questions of one notebook, each a panel that is called by its name.

page = Transactions.open("my/trail")   # or capture.view.transactions
page.latency()                         # one panel; .figure, .frame and .facts to go on with
page                                   # all of them
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Final, ParamSpec, Self, TypeVar, cast

from cdcwb.analysis.marks import marks_of
from cdcwb.model import Severity
from cdcwb.report import check_parameters, open_page, show
from cdcwb.report.facts import stored
from cdcwb.report.headlines import headline, is_answered
from cdcwb.report.opening import look_at
from cdcwb.views.pages.sheet import Sheet
from cdcwb.views.view import View, is_live
from cdcwb.words import count, joined, plural, rounded, to_the_second, zone_name

if TYPE_CHECKING:
    from cdcwb.capture import Capture
    from cdcwb.report.opening import Page as Opened
    from cdcwb.views.view import Panel

__all__ = ["Page", "panel"]

_COMMON: Final = (
    *("format", "bytes", "rows", "healthy", "changes", "changes_by_operation", "transactions", "open_transactions"),
    *("problems", "problems_by_severity", "ledger", "malformed_bytes"),
)
_FILTERS: Final = ("tables", "transactions", "time_from", "time_to")
"""The fields of a selection that narrow what is asked of Spark."""
_MARKS: Final = 30
_AS_IT_WAS: Final = (
    "The charts with a control bar, and those that follow it, show new messages. Everything else on this page is as it "
    "was when its cell ran; run all cells for what came since."
)

P = ParamSpec("P")
T = TypeVar("T", bound="Page")


def panel(
    title: str, live: type[Panel] | None = None
) -> Callable[[Callable[Concatenate[T, Sheet, P], None]], Callable[Concatenate[T, P], Sheet | View]]:
    """Makes a panel of a method that writes on a sheet: called without the sheet, it returns it.

    ``live``: the panel of the index that answers the same question where somebody can click, and the page is about one
    capture and nothing that a selection cannot say.
    """

    def made(say: Callable[Concatenate[T, Sheet, P], None]) -> Callable[Concatenate[T, P], Sheet | View]:
        def ask(page: T, /, *args: P.args, **named: P.kwargs) -> Sheet | View:
            if live is not None and page.is_live:
                return View(page.views.bench, "", [live()], controls=False, headings=False)
            sheet = Sheet(title, page.views.bench if page.is_live else None)
            say(page, sheet, *args, **named)
            return sheet

        ask.title = title  # type: ignore[attr-defined]
        return update_wrapper(ask, say)

    return made


class Page:
    """The questions of one notebook about a capture, or several that are looked at together.

    ``opened`` are the captures, whole and narrowed to what is looked at. Pages have panels, which :func:`panel` makes.
    """

    title: ClassVar[str]
    notebook: ClassVar[str] = ""
    """The name of the notebook, under which its headline is known (:mod:`cdcwb.report.headlines`)."""
    images: ClassVar[bool] = False
    """Whether its questions are about values."""
    shows_health: ClassVar[bool] = False
    """Whether it begins with the health of the capture; else it begins with the answer to its own question."""

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        self.asked = opened.asked
        self.capture: Any = opened.capture
        self.summary = opened.summary
        if self.is_live:
            self.views.bench.selection.update(**self.selected)

    @classmethod
    def check(cls, **_own: Any) -> object:
        """The page's own parameters, understood. Raises OptionError that names everything that is wrong."""
        return None

    @classmethod
    def open(cls, *common: Any, **own: Any) -> Self:
        """Open what the parameters of a notebook name: those of :func:`cdcwb.report.check_parameters`, in their order,
        and the page's own. Raises OptionError before anything is read, CaptureError as :func:`cdcwb.load` does."""
        asked = cast(Any, check_parameters)(*common, also=[lambda: cls.check(**own)])
        show.style(asked)
        return cls(open_page(asked, cls.images), **own)

    @classmethod
    def of(cls, capture: Capture, **own: Any) -> Self:
        """The page of a capture that is open, about the tables, transactions and times that are selected."""
        cls.check(**own)
        selection = capture.selection
        fields = {name: value for name, value in selection.chosen().items() if name in _FILTERS}
        part = capture.filter(**fields) if fields else None
        limits = [selection.sentence(skip=set(selection.chosen()) - set(fields))] if fields else []
        return cls(look_at(capture, part, limits, cls.images), **own)

    # --- live ---------------------------------------------------------------------------------------------------------

    @property
    def is_live(self) -> bool:
        """Whether there is somebody who can click, and the page is about one capture."""
        return is_live() and len(self.opened.captures) == 1

    @property
    def selected(self) -> dict[str, Any]:
        """What of the capture it looks at, as fields of a selection."""
        asked = self.asked
        return {"tables": asked.tables, "time_from": asked.time_from, "time_to": asked.time_to}

    @property
    def views(self) -> Any:
        """The views of the capture, which share its selection."""
        return next(iter(self.opened.captures.values())).view

    # --- all of it ----------------------------------------------------------------------------------------------------

    @classmethod
    def panels(cls) -> dict[str, str]:
        """The titles of its panels by name, in order."""
        members = {name: getattr(cls, name) for one in cls.__mro__ for name in vars(one)}  # its own before the common
        return {name: value.title for name, value in members.items() if hasattr(value, "title") and callable(value)}

    def put(self) -> None:
        """Put all panels on the page that have something to show, each below its title."""
        show.style_once()
        for name, title in self.panels().items():
            asked = getattr(self, name)()
            if not (isinstance(asked, Sheet) and asked.is_empty):
                show.heading(title)
            asked._ipython_display_()

    _ipython_display_ = put

    def __repr__(self) -> str:
        return f"{self.title}: {', '.join(f'.{name}()' for name in self.panels())}"

    # --- how each begins ----------------------------------------------------------------------------------------------

    def answered_by(self) -> Mapping[str, Any]:
        """The facts that the headline is made of and that other panels record than the one that begins the page."""
        return {}

    def begin(self, sheet: Sheet, facts: Mapping[str, Any]) -> None:
        """The headline and what limits the page, and the facts that every page has, besides ``facts``."""
        opened, health = self.opened, self.opened.health
        marks = self._marks()
        said: dict[str, Any] = {
            "title": self.title,
            "what": health.what,
            "verdict": health.verdict,
            "tone": health.tone,
        }
        said |= {**{name: self.summary[name] for name in _COMMON}, "marks": len(marks), **facts}
        if self.shows_health:
            sheet.verdict(health)
        elif is_answered(self.notebook, known := stored({**said, **self.answered_by()})):
            sheet.headline(headline(self.notebook, known))
        if len(opened.captures) > 1:
            sheet.note(
                f"{joined(list(opened.captures))} are shown together; tables and transactions have the name of "
                "their capture. Positions of two captures cannot be compared: those of one precede those of the next."
            )
        if self.asked.limits:
            sheet.note(f"Only a part is shown: {'; '.join(self.asked.limits)}.")
        if zone_name(axis=False) != "UTC":
            sheet.note(f"Times are shown in {zone_name(axis=False)}.")
        sheet.record(said)
        if self.is_live:
            self.views.bench.prepare()
            sheet.widget(View(self.views.bench, "", []))
            if self.views.bench.capture.following is not None:
                sheet.note(_AS_IT_WAS)
        if marks:
            sheet.note(f"{plural(len(marks), 'record')} bookmarked in the explorer:")
            sheet.marks(marks[:_MARKS], total=len(marks), folder=self.asked.shown)

    def time_card(self, first: datetime | None, last: datetime | None) -> tuple[str, str, str]:
        """The card with how long a time is covered."""
        if first is None or last is None:
            return "time covered", "not known", ""
        lasted = rounded((last - first) // timedelta(microseconds=1))
        return "time covered", lasted, f"{to_the_second(first)} to {to_the_second(last)}"

    def problems_card(self) -> tuple[str, str, str]:
        """The card with the number of problems."""
        numbers = self.summary["problems_by_severity"]
        worst_first = [f"{name} {count(n)}" for name in Severity if (n := numbers.get(name))]
        return "problems", count(self.summary["problems"]), ", ".join(worst_first) or "none"

    def list_files(self, sheet: Sheet, files: list[dict[str, Any]], counts: Mapping[str, str]) -> None:
        """The table of ``files`` (those of a summary, and more); ``counts``: headings of what is counted in each."""
        rows = {"rows": "rows"} if any(entry["rows"] is not None for entry in files) else {}
        heads = {"file": "file", "bytes": "size", "shape": "shape", "compression": "compression", **rows, **counts}
        accounted = {"closes": "all"}
        shown = [
            {**entry, "bytes": entry["size"], "ledger": accounted.get(entry["ledger"], entry["ledger"])}
            for entry in files[:100]
        ]
        none = "The capture is a table, not files."
        sheet.table(shown, heads | {"ledger": "accounted for"}, total=len(files), none=none, folder=self.asked.shown)

    @panel("How the capture was read")
    def reading(self, sheet: Sheet) -> None:
        """What was detected from the capture itself, with the evidence; each setting is an option that overrides it."""
        detected = self.summary["detected"]
        heads = {"scope": "scope", "setting": "setting", "value": "value", "evidence": "evidence"}
        heads |= {"overridden": "given as an option"}
        sheet.table(detected, heads, none="Nothing had to be detected.", folder=self.asked.shown)
        if self.summary["changed_at"]:
            sheet.note(f"Times: {self.summary['changed_at']}.")
        sheet.record({"detected": {f"{row['scope']} {row['setting']}": row["value"] for row in detected}})

    def _marks(self) -> list[dict[str, Any]]:
        """The marks on records of the captures, where these are saved ones."""
        saved = [place for one in self.asked.captures.values() if (place := Path(one.path)).is_dir()]
        return [row for place in saved for row in marks_of(place)]
