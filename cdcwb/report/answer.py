"""The answer to a question, described once: figures, tables and sentences in order, and facts for scripts.

A live view and a report draw the same answer (:mod:`cdcwb.report.show`): wording, headings, columns and order are the
answer's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from cdcwb.errors import OptionError
from cdcwb.words import page_display, plural, shown_as, tally, visible

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from cdcwb.analysis.summary_text import Health


FIRST_ROWS: Final = 12
"""Number of rows of a live table that are shown first."""

_INSTEAD: Final = 60
_HEADINGS: Final = {
    "at": "time",
    "began_at": "begin",
    "bytes": "size",
    "changed_at": "time",
    "ended_at": "end",
    "event_type": "type",
    "lasted_us": "duration",
    "most_us": "longest",
    "record_type": "type",
    "sentence": "what",
    "table_version": "version",
}
"""Headings of columns that are not their names without unit and ``_id``."""

Record: TypeAlias = dict[str, Any]
Columns: TypeAlias = "str | Mapping[str, str]"
Find: TypeAlias = Callable[[Mapping[str, Any]], "int | None"]


# --- blocks -----------------------------------------------------------------------------------------------------------


HEADLINE: Final = "headline"
"""The role of the answer of a page."""


@dataclass(frozen=True, slots=True)
class Document:
    """Escaped HTML, and the text for a page without HTML. ``role``: what it is to the page (:data:`HEADLINE`)."""

    html: str
    text: str
    role: str = ""


def note(text: str) -> Document:
    """A sentence."""
    return Document(f'<p class="cdcwb-note">{escape(visible(text, 1000))}</p>', text)


_ROOM, _LONG = 14, ' class="long"'  # characters that fit a card in large type
_TWICE, _BROAD = 24, ' class="broad"'  # and those that fit into a card
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
UNBROKEN: Final = r'<i class="whole">\g<0></i>'  # a browser breaks lines at hyphens


def cards(values: Iterable[tuple[str, str, str] | None]) -> Document:
    """Key figures: title, value and a note each; None is left out."""
    shown = [(visible(one[0]), visible(one[1]), visible(one[2], 200)) for one in values if one is not None]
    parts = [
        f"<div{_BROAD if len(value) > _TWICE else ''}><dt>{escape(title)}</dt>"
        f"<dd><b{_LONG if len(value) > _ROOM else ''}>{escape(value)}</b>"
        f"<span>{_DATE.sub(UNBROKEN, escape(line))}</span></dd></div>"
        for title, value, line in shown
    ]
    text = "\n".join(f"{title}: {value}{f' ({line})' if line else ''}" for title, value, line in shown)
    return Document(f'<dl class="cdcwb-cards">{"".join(parts)}</dl>', text)


@dataclass(frozen=True, slots=True)
class Widget:
    """An ipywidget."""

    shown: Any


@dataclass(frozen=True, slots=True)
class Links:
    """The records to which rows lead on a live page: of the ``capture`` of that name on the page, ``find`` gives the
    number of the record of each row, None without one."""

    capture: str
    find: Callable[[Sequence[Mapping[str, Any]]], list[int | None]]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings: ``columns`` has the heading of each key (:func:`headings`).

    ``total``: the number of all rows, if there are more. ``none``: the sentence without rows. ``folder``: of the
    capture, left out of file names. ``by_heading``: the columns are captured ones, named by their headings in
    :attr:`Answer.frame`. ``cells``: columns whose cells lead to records of a capture, with the rows that name these.
    ``ranked``: for a live page, the first rows in another order, from the number of rows, the column and whether it
    descends; ``sorts``: the columns that it can order (default: all, if all rows are there).
    """

    rows: list[Record]
    columns: Mapping[str, str]
    total: int | None = None
    none: str = "None."
    folder: str = ""
    by_heading: bool = False
    cells: Mapping[str, tuple[Links, Sequence[Mapping[str, Any]]]] = field(default_factory=dict)
    ranked: Callable[[int, str, bool], list[Record]] | None = None
    sorts: Sequence[str] = ()

    @property
    def count(self) -> int:
        """The number of all rows."""
        return len(self.rows) if self.total is None else self.total

    def sortable(self) -> set[str]:
        """The columns that can order the rows of a live page."""
        return {*self.sorts} if self.ranked else {*self.columns} if len(self.rows) == self.count else set()

    def first(self, limit: int, order: tuple[str, bool] | None) -> list[Record]:
        """The first rows in an order (a column, and whether it descends); those without a value are last."""
        if self.ranked is not None and (order is not None or limit > len(self.rows)):
            return self.ranked(limit, *(order or ("", False)))
        if order is None:
            return self.rows[:limit]
        name, descending = order
        known = [row for row in self.rows if row[name] is not None]
        is_text = bool(known) and isinstance(known[0][name], list | tuple | dict)
        known.sort(key=lambda row: tally(row[name]) if is_text else row[name], reverse=descending)
        return (known + [row for row in self.rows if row[name] is None])[:limit]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure, and the numbers that are shown without scripts. ``record``: on a live page, the record to which a point
    leads: ``id``, ``x`` (text) and ``custom`` as in the figure."""

    figure: go.Figure
    numbers: Table
    record: Find | None = None


Block: TypeAlias = Document | Widget | Table | Figure


# --- answer -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class PanelState:
    """The state of a panel of a live page besides the selection.

    ``brushed``: times were selected in its own figure, which still shows all times. ``window``: the times that its
    figure is zoomed to. ``orders``: by number of a table, the column that orders its rows and whether it descends;
    ``rows``: by number of a table, how many rows it shows.
    """

    brushed: bool = False
    window: tuple[datetime, datetime] | None = None
    orders: dict[int, tuple[str, bool]] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class Answer:
    """Figures, tables and sentences of one panel, in order.

    ``headline``: the answer in a sentence, if the panel has one of its own. ``figure`` (plotly) and ``frame`` (pandas,
    Arrow types) are its first figure and its first table, ``figures`` and ``frames`` all of them; ``facts`` are for
    scripts. On a live page rows and points lead to their records by ``links``, and ``state`` is that of the panel.
    ``folder``: of the capture, left out of the names of files in tables.
    """

    title: str = ""
    links: Links | None = None
    state: PanelState = field(default_factory=PanelState)
    folder: str = ""
    headline: str = field(default="", init=False)
    facts: dict[str, Any] = field(default_factory=dict, init=False)
    blocks: list[Block] = field(default_factory=list, init=False)
    _display: Any = field(default_factory=page_display, init=False)

    # --- content ------------------------------------------------------------------------------------------------------

    def verdict(self, health: Health) -> None:
        """The two sentences about the health of the capture."""
        what, sentence = (escape(visible(text, 600)) for text in (health.what, health.verdict))
        html = f'<div class="cdcwb-verdict {health.tone}"><p class="what">{what}</p><p>{sentence}</p></div>'
        self.document(html, f"{health.what} {health.verdict}")

    def page_headline(self, text: str) -> None:
        """The answer of the page in a sentence. A report has it in its head."""
        self.document(f'<p class="cdcwb-answer">{escape(visible(text, 600))}</p>', text, HEADLINE)

    def note(self, *texts: str) -> None:
        """Sentences."""
        self.blocks += map(note, texts)

    def cards(self, values: Iterable[tuple[str, str, str] | None]) -> None:
        """A few key figures: title, value and a note each; None is left out."""
        self.blocks.append(cards(values))

    def table(self, rows: list[Record], columns: Columns, **about: Any) -> None:
        """Rows under headings (:class:`Table`)."""
        self.blocks.append(Table(rows, headings(columns, rows), folder=self.folder, **about))

    def chart(self, figure: go.Figure, rows: list[Record], columns: Columns, record: Find | None = None) -> None:
        """A figure, and rows and headings with the same numbers (:class:`Figure`)."""
        self.blocks.append(Figure(figure, Table(rows[:_INSTEAD], headings(columns)), record))

    def document(self, html: str, text: str, role: str = "") -> None:
        """Escaped HTML, with the text for a page without HTML (:class:`Document`)."""
        self.blocks.append(Document(html, text, role))

    def widget(self, shown: Any) -> None:
        """An ipywidget."""
        self.blocks.append(Widget(shown))

    def record(self, facts: Mapping[str, Any]) -> None:
        """Facts for scripts and tests."""
        self.facts |= facts

    def linked(self, rows: list[Record]) -> list[Record]:
        """The rows, on a live page with the number of their ``record``."""
        if self.links is None or not rows or "record" in rows[0]:
            return rows
        return [{**row, "record": record} for row, record in zip(rows, self.links.find(rows), strict=True)]

    # --- for scripts --------------------------------------------------------------------------------------------------

    @property
    def figures(self) -> list[go.Figure]:
        """The figures."""
        return [block.figure for block in self.blocks if isinstance(block, Figure)]

    @property
    def figure(self) -> go.Figure:
        """The first figure. Raises OptionError without one."""
        return first_of([self], "figure", "panel")

    @property
    def tables(self) -> list[Table]:
        """The tables."""
        return [block for block in self.blocks if isinstance(block, Table)]

    @property
    def frames(self) -> list[pd.DataFrame]:
        """The tables, with Arrow types: the rows that are shown."""
        return [_frame(table) for table in self.tables]

    @property
    def frame(self) -> pd.DataFrame:
        """The first table. Raises OptionError without one."""
        return first_of([self], "frame", "panel")

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show; there may be facts."""
        return not self.blocks

    def put(self) -> None:
        """Shows the answer, and writes the facts to the output of the cell."""
        from cdcwb.report import show

        with shown_as(self._display):
            show.put(self)

    _ipython_display_ = put

    def __repr__(self) -> str:
        parts = [plural(len(self.figures), "figure"), plural(len(self.tables), "table")]
        return f"{self.title or 'a panel'}: {', '.join(parts)}, {plural(len(self.facts), 'fact')}"


def first_of(answers: Iterable[Answer], kind: str, of: str) -> Any:
    """The first ``figure`` or ``frame`` of some answers. Raises OptionError without one; ``of``: a panel or a view."""
    for answer in answers:
        for found in getattr(answer, f"{kind}s"):
            return found
    raise OptionError(f"this {of} has no {'table' if kind == 'frame' else kind}")


def headings(columns: Columns, rows: Sequence[Mapping[str, Any]] = ()) -> dict[str, str]:
    """The headings of columns by key, from a text such as ``table; sentence: what; user?; file``, where a heading that
    is not given is the usual one of the column, and ``?`` leaves out a column without a value in any row; mappings are
    returned as they are."""
    if not isinstance(columns, str):
        return dict(columns)
    pairs = [part.strip().partition(": ") for part in columns.split(";") if part.strip()]
    shown = {name.rstrip("?"): heading for name, _, heading in pairs}
    empty = {name[:-1] for name, *_ in pairs if name[-1] == "?" and not any(row[name[:-1]] for row in rows)}
    own = {name: name.removesuffix("_us").removesuffix("_id").replace("_", " ") for name in shown}
    return {name: shown[name] or _HEADINGS.get(name, own[name]) for name in shown if name not in empty}


def _frame(table: Table) -> pd.DataFrame:
    import pandas as pd

    rows = [{name: _plain(row.get(name)) for name in table.columns} for row in table.rows]
    frame: pd.DataFrame = pa.Table.from_pylist(rows).to_pandas(types_mapper=pd.ArrowDtype)
    if not table.by_heading:
        return frame
    return frame.set_axis([table.columns[name] for name in frame.columns], axis="columns")


def _plain(value: Any) -> Any:
    """A value for a column of a frame: names with numbers become a list of structs."""
    if isinstance(value, list | tuple) and any(isinstance(item, tuple) for item in value):
        return [{"name": str(name), "number": number} for name, number in value]
    return value
