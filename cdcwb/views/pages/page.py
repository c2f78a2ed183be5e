"""A page about a capture: the panels of one notebook, each a method.

page = Transactions.open("my/trail")   # or capture.view.transactions
page.latency()                         # one panel; its content: .figure, .frame and .facts
page                                   # all of them
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Final, ParamSpec, Self, TypeVar, cast

import pyarrow as pa

from cdcwb.analysis.marks import marks_of
from cdcwb.errors import CaptureError, OptionError
from cdcwb.filtering import NOT_LIMITED
from cdcwb.model import Severity
from cdcwb.report import check_parameters, open_page, record, show
from cdcwb.report.facts import headline, is_answered, stored
from cdcwb.report.opening import look_at
from cdcwb.views.view import Rows, View, is_live, records_of
from cdcwb.words import count, page_display, plural, rounded, shown_as, to_the_second, zone_name

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from cdcwb.analysis.summary_text import Health
    from cdcwb.capture import Capture
    from cdcwb.report.opening import Page as Opened
    from cdcwb.views.bench import Bench
    from cdcwb.views.view import Panel

__all__ = [
    "Page",
    "Sheet",
    "panel",
]


_COMMON: Final = (
    *("format", "bytes", "rows", "healthy", "changes", "changes_by_operation", "transactions", "open_transactions"),
    *("problems", "problems_by_severity", "ledger", "malformed_bytes"),
)
_MARKS: Final = 30
_PARAMETERS: Final = 9  # that all notebooks have

P = ParamSpec("P")
T = TypeVar("T", bound="Page")


def panel(
    title: str, live: type[Panel] | None = None
) -> Callable[[Callable[Concatenate[T, Sheet, P], None]], Callable[Concatenate[T, P], Sheet | View]]:
    """Turns a method that writes to a sheet into a panel: called without the sheet, it returns the sheet.

    ``live``: the corresponding panel of the index, which replaces this one in a live notebook if the conditions of the
    page can be expressed as a selection.
    """

    def made(say: Callable[Concatenate[T, Sheet, P], None]) -> Callable[Concatenate[T, P], Sheet | View]:
        def ask(page: T, /, *args: P.args, **named: P.kwargs) -> Sheet | View:
            with shown_as(page.display):
                if live is not None and page.is_live:
                    return View(page.views.bench, "", [live()], controls=False, headings=False)
                if page.capture.question_session is not page.session:
                    raise CaptureError("the Spark session of this page was stopped: make the page again")
                sheet = Sheet(title, page.views.bench if page.is_live else None)
                say(page, sheet, *args, **named)
                return sheet

        ask.title = title  # type: ignore[attr-defined]
        return update_wrapper(ask, say)

    return made


class Page:
    """The panels of one notebook about a capture.

    ``opened`` is the capture, complete and limited to the selected part. :func:`panel` makes the panels.
    """

    title: ClassVar[str]
    notebook: ClassVar[str] = ""
    """The name of the notebook, which identifies its headline (:mod:`cdcwb.report.facts`)."""
    images: ClassVar[bool] = False
    """Whether its panels use values."""
    shows_health: ClassVar[bool] = False
    """Whether the page begins with the health of the capture; else it begins with its own result."""

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
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
        page = cls(open_page(asked, cls.images), **own)
        if page.is_live:
            page.views.bench.selection.update(**page.selected)
        return page

    @classmethod
    def of(cls, capture: Capture, **own: Any) -> Self:
        """The page of an open capture, about what is selected; fields that Spark's tables are not limited by are
        stated."""
        cls.check(**own)
        selection = capture.selection
        limits = []
        if selection.chosen(NOT_LIMITED):
            limits.append(selection.sentence(skip=NOT_LIMITED))
        if left_out := selection.sentence(skip=selection.chosen(NOT_LIMITED)):
            limits.append(f"not applied to this page: {left_out}")
        return cls(look_at(capture, capture.selected(), limits, cls.images), **own)

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
                if not (isinstance(asked, Sheet) and asked.is_empty):
                    show.heading(title)
                asked._ipython_display_()

    _ipython_display_ = put

    def __repr__(self) -> str:
        return f"{self.title}: {', '.join(f'.{name}()' for name in self.panels())}"

    # --- the beginning of a page --------------------------------------------------------------------------------------

    def answered_by(self) -> Mapping[str, Any]:
        """The facts of the headline that panels other than the first record."""
        return {}

    def begin(self, sheet: Sheet, facts: Mapping[str, Any]) -> None:
        """The headline, the limits of the page, and the facts that every page has, besides ``facts``."""
        health = self.opened.health
        marks = self._marks()
        common: dict[str, Any] = {
            "title": self.title,
            "what": health.what,
            "verdict": health.verdict,
            "tone": health.tone,
        }
        common |= {**{name: self.summary[name] for name in _COMMON}, "marks": len(marks), **facts}
        if self.shows_health:
            sheet.verdict(health)
        elif is_answered(self.notebook, known := stored({**common, **self.answered_by()})):
            sheet.headline(headline(self.notebook, known))
        if is_live() and (refusal := self.views.bench.refusal):
            sheet.note(refusal)
        if self.asked.limits:
            sheet.note(f"Only a part is shown: {'; '.join(self.asked.limits)}.")
        if zone_name(axis=False) != "UTC":
            sheet.note(f"Times are shown in {zone_name(axis=False)}.")
        sheet.record(common)
        if self.is_live:
            sheet.widget(View(self.views.bench, "", []))
        if marks:
            sheet.note(f"{plural(len(marks), 'record')} bookmarked in the explorer:")
            sheet.marks(marks[:_MARKS], total=len(marks), folder=self.asked.shown)

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

    def list_files(self, sheet: Sheet, files: list[dict[str, Any]], counts: Mapping[str, str]) -> None:
        """The table of ``files`` (those of a summary, with additions); ``counts``: headings of what is counted in
        each."""
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
        """The detected settings of the capture, with the evidence; each is an option that overrides detection."""
        detected = self.summary["detected"]
        heads = {"scope": "scope", "setting": "setting", "value": "value", "evidence": "evidence"}
        heads |= {"overridden": "given as an option"}
        sheet.table(detected, heads, none="Nothing had to be detected.", folder=self.asked.shown)
        if self.summary["changed_at"]:
            sheet.note(f"Times: {self.summary['changed_at']}.")
        sheet.record({"detected": {f"{row['scope']} {row['setting']}": row["value"] for row in detected}})

    def _marks(self) -> list[dict[str, Any]]:
        """The bookmarks of a saved capture."""
        folder = Path(self.asked.path)
        return marks_of(folder) if folder.is_dir() else []


# --- sheet ------------------------------------------------------------------------------------------------------------

_MARKED: Final = {
    "note": "note",
    "table": "table",
    "type": "record",
    "position": "position",
    "file": "file",
    "offset": "at offset",
    "marked_at": "bookmarked at",
}


class Sheet:
    """Figures, tables and sentences of one panel. The last line of a cell renders it.

    ``figure`` (plotly) and ``frame`` (pandas, Arrow types) are its first figure and its first table, ``figures`` and
    ``frames`` all of them; ``facts`` are for scripts. ``bench``: in a live notebook the rows of its tables, and the
    points of figures that are made of rows of :meth:`lead`, link to their records.
    """

    def __init__(self, title: str = "", bench: Bench | None = None) -> None:
        self.title = title
        self._bench = bench
        self._display = page_display()
        self.facts: dict[str, Any] = {}
        self.figures: list[go.Figure] = []
        self._tables: list[tuple[show.Rows, dict[str, str]]] = []
        self._said: list[Callable[[], None]] = []

    # --- content ------------------------------------------------------------------------------------------------------

    def verdict(self, health: Health) -> None:
        """See :func:`cdcwb.report.show.verdict`."""
        self._said.append(lambda: show.verdict(health))

    def headline(self, text: str) -> None:
        """See :func:`cdcwb.report.show.headline`."""
        self._said.append(lambda: show.headline(text))

    def note(self, text: str) -> None:
        """A sentence."""
        self._said.append(lambda: show.note(text))

    def cards(self, values: Iterable[tuple[str, str, str] | None]) -> None:
        """A few key figures: title, value and a note each; None is left out."""
        shown = [value for value in values if value is not None]
        self._said.append(lambda: show.cards(shown))

    def table(
        self,
        rows: show.Rows,
        columns: Mapping[str, str],
        *,
        total: int | None = None,
        none: str = "None.",
        folder: str = "",
        by_heading: bool = False,
        leads: Mapping[str, tuple[Bench, Rows]] | None = None,
    ) -> None:
        """A table: see :func:`cdcwb.report.show.table`. ``by_heading``: its columns are captured ones, so those of the
        frame have the names of their headings. ``leads``: columns whose cells link to records of a capture, and the
        names that identify these in each row (:mod:`cdcwb.views.view`)."""
        self._tables.append((rows, dict(columns) if by_heading else {name: name for name in columns}))

        def put() -> None:
            led = self.lead(rows)
            own = self.capture and not leads
            to = [show.Lead(self.capture, [row["record"] for row in led])] if own else []
            for column, (bench, named) in (leads or {}).items():
                to.append(show.Lead(bench.name, records_of(named, bench.changes), column))
            show.table(led, columns, total=total, none=none, folder=folder, leads=to)

        self._said.append(put)

    def chart(self, figure: go.Figure, instead: str) -> None:
        """A figure; ``instead`` is HTML with the same numbers."""
        if self.capture:
            figure.layout.meta = {**(figure.layout.meta or {}), "capture": self.capture}
        self.figures.append(figure)
        self._said.append(lambda: show.chart(figure, instead))

    @property
    def capture(self) -> str:
        """The name of the capture on the page in a live notebook; else empty."""
        return "" if self._bench is None else self._bench.name

    def lead(self, rows: show.Rows) -> list[dict[str, Any]]:
        """The rows, in a live notebook with the number of their ``record`` (:mod:`cdcwb.views.view`)."""
        plain = rows if isinstance(rows, list) else show.records(rows)
        if self._bench is None or not plain or "record" in plain[0]:
            return plain
        records = records_of(plain, self._bench.changes)
        return [{**row, "record": record} for row, record in zip(plain, records, strict=True)]

    def put_by(self, put: Callable[[], None]) -> None:
        """Other content, which ``put`` renders."""
        self._said.append(put)

    def widget(self, shown: Any) -> None:
        """An ipywidget."""
        self._said.append(lambda: show.widget(shown))

    def marks(self, rows: list[dict[str, Any]], *, total: int, folder: str) -> None:
        """Records that were bookmarked in the explorer."""
        shown = [{name: row.get(name) for name in _MARKED} for row in rows]
        self.table(shown, _MARKED, total=total, none="No record is bookmarked.", folder=folder)

    def record(self, facts: Mapping[str, Any]) -> None:
        """Facts for scripts and tests."""
        self.facts |= facts

    # --- output -------------------------------------------------------------------------------------------------------

    @property
    def figure(self) -> go.Figure:
        """The first figure. Raises OptionError without one."""
        if not self.figures:
            raise OptionError("this panel has no figure")
        return self.figures[0]

    @property
    def frames(self) -> list[pd.DataFrame]:
        """The tables, with Arrow types: the rows that are shown."""
        return [_frame(rows, columns) for rows, columns in self._tables]

    @property
    def frame(self) -> pd.DataFrame:
        """The first table. Raises OptionError without one."""
        if not self._tables:
            raise OptionError("this panel has no table")
        return _frame(*self._tables[0])

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show; there may be facts."""
        return not self._said

    def put(self) -> None:
        """Renders the sheet, and writes the facts to the output of the cell."""
        with shown_as(self._display):
            show.style_once()
            for put in self._said or [show.nothing]:
                put()
            if self.facts:
                record(self.facts)

    _ipython_display_ = put

    def __repr__(self) -> str:
        parts = [plural(len(self.figures), "figure"), plural(len(self._tables), "table")]
        return f"{self.title or 'a panel'}: {', '.join(parts)}, {plural(len(self.facts), 'fact')}"


def _frame(rows: show.Rows, columns: Mapping[str, str]) -> pd.DataFrame:
    import pandas as pd

    plain = rows if isinstance(rows, list) else show.records(rows)
    shown = [{name: _plain(row.get(name)) for name in columns} for row in plain]
    frame: pd.DataFrame = pa.Table.from_pylist(shown).to_pandas(types_mapper=pd.ArrowDtype)
    return frame.set_axis([columns[name] for name in frame.columns], axis="columns")


def _plain(value: Any) -> Any:
    """A value for a column of a frame: names with numbers become a list of structs."""
    if isinstance(value, list | tuple) and any(isinstance(item, tuple) for item in value):
        return [{"name": str(name), "number": number} for name, number in value]
    return value
