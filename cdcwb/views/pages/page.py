"""A page about a capture: the panels of one notebook, each a method.

page = Transactions.open("my/trail")   # or capture.view.transactions
page.latency()                         # one panel; its content: .figure, .frame and .facts
page                                   # all of them

A panel is an answer about the tables of ``page.capture``: those of a capture in a report, those of its selection on a
live page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping
from datetime import datetime, timedelta
from functools import cached_property, update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Final, ParamSpec, Self, TypeVar, cast

from cdcwb.analysis import integrity
from cdcwb.analysis.bookmarks import bookmarks_of
from cdcwb.analysis.contents import command, readers
from cdcwb.analysis.summary_text import Tone
from cdcwb.errors import CaptureError, OptionError
from cdcwb.filtering import NOT_LIMITED
from cdcwb.index.columns import Headers
from cdcwb.model import Problem, Severity
from cdcwb.report import check_parameters, show
from cdcwb.report.answer import Answer, Links, PanelState, headings
from cdcwb.report.facts import stored
from cdcwb.report.opening import OpenedCapture, Parameters, asked_of, limited, look_at, open_capture
from cdcwb.times import micros
from cdcwb.views.view import Panel, View, is_live, links_of
from cdcwb.words import count, page_display, plural, rounded, shown_as, time_on_axis, to_the_second, zone_name

if TYPE_CHECKING:
    from cdcwb.capture import Capture
    from cdcwb.views.bench import Bench


_COMMON: Final = (
    *("format", "bytes", "rows", "healthy", "changes", "changes_by_operation", "transactions", "open_transactions"),
    *("problems", "problems_by_severity", "ledger", "malformed_bytes"),
)
_MARKS: Final = 30
_PARAMETERS: Final = 9  # that all notebooks have
_WORST: Final = 30  # problems that are listed
_CODES: Final = 4  # codes of problems in a headline
_MARKED: Final = headings("note; table; type: record; position; file; offset: at offset; marked_at: bookmarked at")

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound="Page")
Facts = Mapping[str, Any]
"""The facts of a page, as they are stored."""


def panel(
    title: str, live: bool = False, brush: bool = False, hint: str = ""
) -> Callable[[Callable[Concatenate[T, Answer, P], None]], Callable[Concatenate[T, P], Answer | View]]:
    """Turns a method that adds to an answer into a panel: called without the answer, it returns the answer.

    ``live``: it needs only what the index has, and follows the selection in a live notebook if the conditions of the
    page can be expressed as one; ``brush``: dragging over its figures selects times; ``hint``: what a live page
    explains about its figures.
    """

    def made(fill: Callable[Concatenate[T, Answer, P], None]) -> Callable[Concatenate[T, P], Answer | View]:
        def ask(page: T, /, *args: P.args, **named: P.kwargs) -> Answer | View:
            with shown_as(page.display):
                if live and page.is_live:
                    return View(page.views.bench, "", [Panel(type(page), fill.__name__)], False, False)
                if page.capture.question_session is not page.session:
                    raise CaptureError("the Spark session of this page was stopped: make the page again")
                answer = page.answer(title)
                fill(page, answer, *args, **named)
                return answer

        ask.title, ask.fill, ask.live = title, fill, live  # type: ignore[attr-defined]
        ask.brush, ask.hint = brush, hint  # type: ignore[attr-defined]
        return update_wrapper(ask, fill)

    return made


def question(ask: Callable[[Any], R]) -> cached_property[R]:
    """The answer to a question about the capture of a page, asked once."""
    return cached_property(lambda page: ask(page.capture))


class Page:
    """The panels of one notebook about a capture.

    ``opened`` is the capture, complete and limited to the selected part. :func:`panel` makes the panels.
    """

    title: ClassVar[str]
    notebook: ClassVar[str] = ""
    """The name of its notebook, without the number."""
    images: ClassVar[bool] = False
    """Whether its panels use values."""
    shows_health: ClassVar[bool] = False
    """Whether the page begins with the health of the capture; else it begins with its own result."""

    def __init__(self, opened: OpenedCapture) -> None:
        self.opened = opened
        self.bench: Bench | None = opened.bench
        self.asked = opened.asked
        self.capture: Any = opened.capture
        self.session = self.capture.question_session
        self.summary = opened.summary
        self.display = page_display()

    @classmethod
    def check(cls, **_own: Any) -> object:
        """Validates the page's own parameters. Raises OptionError that names everything that is wrong."""
        return None

    @classmethod
    def open(cls, *common: Any, **own: Any) -> Self:
        """Opens the capture of a notebook's parameters, which are those of :func:`cdcwb.report.check_parameters` in
        order, and the page's own. Raises OptionError before anything is read, CaptureError like :func:`cdcwb.load`."""
        if len(common) > _PARAMETERS:
            raise OptionError("this notebook is of an earlier version, with the parameter others: copy it anew")
        asked = cast(Any, check_parameters)(*common, also=[lambda: cls.check(**own)])
        show.style(asked)
        capture = open_capture(asked)
        page = cls(look_at(capture, limited(capture, asked), asked, cls.images), **own)
        if page.is_live:
            page.views.bench.selection.update(**page.selected)
        return page

    @classmethod
    def of(cls, capture: Capture, **own: Any) -> Self:
        """The page of an open capture, about what is selected; fields that Spark's tables are not limited by are
        stated."""
        cls.check(**own)
        selection = capture.selection
        limits = [selection.sentence(skip=NOT_LIMITED)] if selection.chosen(NOT_LIMITED) else []
        if left_out := selection.sentence(skip=selection.chosen(NOT_LIMITED)):
            limits.append(f"not applied to this page: {left_out}")
        asked = asked_of(capture, limits, tables=list(selection.tables), **_times(selection))
        return cls(look_at(capture, capture.selected(), asked, cls.images), **own)

    @classmethod
    def of_selection(cls, bench: Bench, selected: Any) -> Self:
        """The page about a selection of views, from the index (:class:`SelectedCapture`)."""
        limits, about = list(filter(None, [selected.selection.sentence()])), _times(selected.selection)
        asked = Parameters(path="", format=selected.format, options={}, limits=limits, shown=bench.location, **about)
        return cls(OpenedCapture(asked, bench.capture, selected, selected, {}, cast(Any, None), bench))

    def answer(self, title: str, state: PanelState | None = None) -> Answer:
        """An empty answer of the page; ``state``: of a panel of a live page."""
        return Answer(title, self.links, state or PanelState(), self.asked.shown)

    @property
    def links(self) -> Links | None:
        """The records to which rows and points lead; None if nobody can click."""
        return links_of(self.bench or self.views.bench) if self.bench is not None or self.is_live else None

    def every_time(self, answer: Answer, always: bool = False) -> Self:
        """The page that a figure shows: on a live page one of every time if times were selected in the figure itself,
        or ``always``, so that others can be selected there; else this page."""
        if self.bench is not None and (always or answer.state.brushed):
            return cast(Self, self.bench.page(type(self), every_time=True))
        return self

    @staticmethod
    def times_of(point: Mapping[str, Any], width_us: int) -> tuple[int, int]:
        """The times of the bin of a point of a figure, from after the first to the second."""
        middle = micros(time_on_axis(str(point["x"])))
        return middle - width_us // 2 - 1, middle + width_us // 2

    def first_record(self, first: Callable[[Headers], int | None]) -> int | None:
        """On a live page, the record of the change whose number a function gives."""
        headers = self.capture.headers
        number = first(headers)
        return None if number is None else int(headers.record[number])

    # --- live ---------------------------------------------------------------------------------------------------------

    @property
    def is_live(self) -> bool:
        """Whether a user can click, and the capture is not too large for views."""
        return is_live() and not self.views.bench.prepare()

    @property
    def selected(self) -> dict[str, Any]:
        """The shown part of the capture, as fields of a selection."""
        asked = self.asked
        return {"tables": asked.tables, "time_from": asked.time_from, "time_to": asked.time_to}

    @property
    def views(self) -> Any:
        """The views of the capture, which share its selection."""
        return self.opened.whole.view

    # --- the complete page --------------------------------------------------------------------------------------------

    @classmethod
    def panels(cls) -> dict[str, str]:
        """The titles of its panels by name, in order."""
        members = {name: getattr(cls, name) for base in cls.__mro__ for name in vars(base)}  # own ones first
        return {name: value.title for name, value in members.items() if hasattr(value, "title") and callable(value)}

    def put(self) -> None:
        """Renders all panels that are not empty, each below its title."""
        with shown_as(self.display):
            show.style_once()
            for name, title in self.panels().items():
                asked = getattr(self, name)()
                if not (isinstance(asked, Answer) and asked.is_empty):
                    show.heading(title)
                asked._ipython_display_()

    _ipython_display_ = put

    def __repr__(self) -> str:
        return f"{self.title}: {', '.join(f'.{name}()' for name in self.panels())}"

    # --- the beginning of a page --------------------------------------------------------------------------------------

    def answered_by(self) -> Mapping[str, Any]:
        """The facts of the headline that panels other than the first record."""
        return {}

    @staticmethod
    def headline_of(facts: Facts) -> str:
        """The answer of the page in a sentence without a full stop, from its facts; the page that shows the health of
        the capture has none of its own."""
        raise NotImplementedError

    @staticmethod
    def tone_of(facts: Facts) -> Tone:
        """The tone of the headline: BAD if something is wrong, WARNING if something is incomplete, unknown or has
        changed."""
        raise NotImplementedError

    def begin(self, answer: Answer, facts: Mapping[str, Any]) -> None:
        """The headline, the limits of the page, and the facts that every page has, besides ``facts``."""
        health = self.opened.health
        folder = Path(self.asked.path)
        marks = bookmarks_of(folder) if folder.is_dir() else []  # of a saved capture
        common: dict[str, Any] = {"title": self.title}
        common |= {name: getattr(health, name) for name in ("what", "verdict", "tone")}
        common |= {**{name: self.summary[name] for name in _COMMON}, "marks": len(marks), **facts}
        if self.shows_health:
            answer.verdict(health)
        else:
            known = stored({**common, **self.answered_by()})
            common |= {"headline": self.headline_of(known), "headline_tone": self.tone_of(known)}
            answer.page_headline(common["headline"])
        if is_live() and (refusal := self.views.bench.refusal):
            answer.note(refusal)
        if self.asked.limits:
            answer.note(f"Only a part is shown: {'; '.join(self.asked.limits)}.")
        if zone_name(axis=False) != "UTC":
            answer.note(f"Times are shown in {zone_name(axis=False)}.")
        answer.record(common)
        if self.is_live:
            answer.widget(View(self.views.bench, "", []))
        if marks:
            answer.note(f"{plural(len(marks), 'record')} bookmarked in the explorer:")
            add_marks(answer, marks[:_MARKS], len(marks))

    def time_card(self, first: datetime | None, last: datetime | None) -> tuple[str, str, str]:
        """The card with the range of time."""
        if first is None or last is None:
            return "time covered", "not known", ""
        lasted = rounded((last - first) // timedelta(microseconds=1))
        return "time covered", lasted, f"{to_the_second(first)} to {to_the_second(last)}"

    def problems_card(self) -> tuple[str, str, str]:
        """The card with the number of problems."""
        numbers = self.summary["problems_by_severity"]
        worst_first = [f"{name} {count(n)}" for name in Severity if (n := numbers.get(name))]
        return "problems", count(self.summary["problems"]), ", ".join(worst_first) or "none"

    def problems_of(self, codes: Container[str]) -> int:
        """The number of problems with some codes."""
        return sum(row["count"] for row in self.summary["problems_by_code"] if row["code"] in codes)

    def list_files(self, answer: Answer, files: list[dict[str, Any]], counts: str) -> None:
        """The table of ``files`` (those of a summary, with additions); ``counts``: columns of what is counted in
        each."""
        rows = "rows; " if any(entry["rows"] is not None for entry in files) else ""
        heads = f"file; bytes; shape; compression; {rows}{counts}; ledger: accounted for"
        ledgers = ("all" if row["ledger"] == "closes" else row["ledger"] for row in files)
        shown = [row | {"bytes": row["size"], "ledger": one} for row, one in zip(files, ledgers, strict=True)]
        answer.table(shown[:100], heads, total=len(files), none="The capture is a table, not files.")

    @panel("How the capture was read")
    def reading(self, answer: Answer) -> None:
        """The detected settings of the capture, with the evidence; each is an option that overrides detection."""
        detected = self.summary["detected"]
        heads = "scope; setting; value; evidence; overridden: given as an option"
        answer.table(detected, heads, none="Nothing had to be detected.")
        if self.summary["changed_at"]:
            answer.note(f"Times: {self.summary['changed_at']}.")
        answer.record({"detected": {f"{row['scope']} {row['setting']}": row["value"] for row in detected}})


def problems(page: Page, answer: Answer) -> None:
    """Problems by code, the worst one by one, and the commands that show their records: a panel of several pages."""
    codes = integrity.by_code(page.capture)
    total = sum(row["problems"] for row in codes)
    numbers = {row["code"]: row["problems"] for row in codes}
    often = ", ".join(f"{code} {count(number)}" for code, number in Counter(numbers).most_common(_CODES))
    answer.headline = f"{plural(total, 'problem')}: {often}" if total else ""
    for row in codes:
        row["title"] = Problem(row["code"]).heading if row["code"] in list(Problem) else row["code"]
    heads = "severity; code; title: what it means; problems; transactions?; file: first in; offset: at offset"
    answer.table(codes, heads, none="No problem.")
    answer.record({"problems": total, "problem_codes": numbers})
    worst = integrity.worst(page.capture, _WORST) if codes else []
    if codes:
        heads = "severity; code; sentence; table; transaction_id?; file; offset; length; first_bytes"
        answer.table(worst, heads, total=total)
    by_file = readers(page.capture, page.asked.options) if codes else {}
    places = [(row["code"], row["file"], row["offset"]) for row in (*codes, *worst)]
    commands = {place: command(*place[1:], by_file) for place in dict.fromkeys(places)}
    answer.record({"problem_places": [[*place, text] for place, text in commands.items()]})
    if shown := {text: code for (code, *_), text in commands.items() if text}:
        answer.note("To dissect a record, paste its command into a shell:")
        answer.table([{"code": code, "command": text} for text, code in shown.items()], "code; command")


def _times(selection: Any) -> dict[str, Any]:
    return {name: getattr(selection, name) for name in ("time_from", "time_to")}


def tone_for(is_wrong: Any, is_doubtful: Any) -> Tone:
    """The tone of a headline."""
    return Tone.BAD if is_wrong else Tone.WARNING if is_doubtful else Tone.GOOD


def add_marks(answer: Answer, rows: list[dict[str, Any]], total: int) -> None:
    """Records that were bookmarked in the explorer."""
    shown = [{name: row.get(name) for name in _MARKED} for row in rows]
    answer.table(shown, _MARKED, total=total, none="No record is bookmarked.")
