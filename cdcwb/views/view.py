"""A view: one or more panels about the selection, each with a figure, a table and a sentence.

In a live notebook a view is a widget that follows and changes the selection. In a report, in papermill and in nbconvert
it renders the same figures and tables once. :func:`is_live` detects which applies.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.charts.theme import INK, limit_time
from cdcwb.errors import OptionError
from cdcwb.index.changes import Changes
from cdcwb.index.columns import Bools
from cdcwb.index.selected import TIME
from cdcwb.report import show
from cdcwb.time_axis import time_of
from cdcwb.views.bench import Bench
from cdcwb.words import local, page_display, shown_as, tally

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from cdcwb.index.changes import Changes

__all__ = ["DRAWN", "ROWS", "Answer", "Panel", "Rows", "State", "View", "is_live", "records_of"]


ROWS: Final = 12
"""Number of rows of a table that are shown first."""

_INSTEAD: Final = 40
_SELECTED: Final = "selected"
_ALIGNED: Final = {"l": 80, "r": 24}
"""Margins in pixels with room for the ticks of all charts over time."""

DRAWN: Final = {True: 400, False: 5_000}
"""Maximum number of transactions in a live figure and in that of a report, each as a bar on one or two axes."""


def is_live() -> bool:
    """Whether a user can click. The environment variable ``CDCWB_VIEWS`` (live or static) decides, else whether a page
    runs the cell: pages name the cell, programs that run notebooks do not."""
    mode = os.environ.get("CDCWB_VIEWS")
    if mode in ("live", "static"):
        return mode == "live"
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    shell = get_ipython()
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return False
    parent: Any = kernel.get_parent("shell")
    return bool((parent or {}).get("metadata", {}).get("cellId"))


@dataclass(slots=True)
class State:
    """The state of one panel besides the selection: the range of times, the order and number of its rows.

    ``brushed``: times were selected in its own figure, which still shows all times.
    """

    live: bool = False
    brushed: bool = False
    window: tuple[datetime, datetime] | None = None
    order: tuple[str, bool] | None = None
    """The column that orders rows, and whether it is descending."""
    rows: int = ROWS


@dataclass(slots=True)
class Answer:
    """The content of a panel.

    ``rows`` are the rows that are shown, in order, ``columns`` their headings, ``total`` the number of all rows; a row
    with a ``record`` leads to it. ``facts`` are for code that uses the answer. ``none`` is the text of an empty panel.
    """

    headline: str = ""
    figure: go.Figure | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    columns: Mapping[str, str] = field(default_factory=dict)
    total: int | None = None
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    none: str = ""
    numbers: tuple[Sequence[Mapping[str, Any]], Mapping[str, str]] | None = None
    """Rows and headings with the numbers of the figure, for pages without scripts."""

    def table(self, capture: str = "") -> str:
        """The rows as HTML. ``capture``: its name on the page, where a click on a row shows its record."""
        leads = [show.Lead(capture, [row.get("record") for row in self.rows])] if capture else []
        return show.table_html(self.rows, self.columns, leads=leads) if self.rows else ""

    def instead(self) -> str:
        """The numbers of the figure as HTML."""
        return "" if self.numbers is None else show.table_html(self.numbers[0][:_INSTEAD], self.numbers[1])

    @property
    def lines(self) -> list[str]:
        """The notes, the number of values outside the axis, and the number of rows."""
        outside = None if self.figure is None else (self.figure.layout.meta or {}).get("outside")
        lines = [*self.notes, *([outside] if outside else [])]
        if self.none and not self.rows and self.figure is None:
            lines.append(self.none)
        if self.total is not None and self.rows and self.total > len(self.rows):
            lines.append(f"{len(self.rows):,} of {self.total:,} shown.")
        return lines


class Panel(ABC):
    """One panel. ``brush``: dragging over its figure selects times. ``sorts``: columns that can order the rows."""

    name: ClassVar[str]
    title: ClassVar[str]
    help: ClassVar[str] = ""
    brush: ClassVar[bool] = False
    sorts: ClassVar[Sequence[str]] = ()

    @abstractmethod
    def ask(self, bench: Bench, state: State) -> Answer:
        """The answer for the selection."""

    def record(self, bench: Bench, state: State, point: Mapping[str, Any]) -> int | None:
        """The record of a point of the figure: ``id``, ``x`` (text) and ``custom`` as in the figure."""
        return None


def drawn(bench: Bench, state: State) -> tuple[Changes, Bools]:
    """The changes of a figure: the selected ones; times are ignored if they were selected in the figure itself."""
    return bench.changes, bench.selected.mask(TIME if state.brushed else ())


def show_times(figure: go.Figure, bench: Bench) -> None:
    """Sets the time axis of a figure to that of all charts of its page; a box marks the selected times and replaces an
    earlier box."""
    figure.update_layout(margin=_ALIGNED)
    limit_time(figure, bench.changes.axis, "time")
    figure.layout.shapes = [shape for shape in figure.layout.shapes if shape.name != _SELECTED]
    selection, span = bench.selection, bench.changes.span
    if span is None or (selection.time_from is None and selection.time_to is None):
        return
    first = selection.time_from or time_of(span[0])
    last = selection.time_to or time_of(span[1])
    ends = [local(time).isoformat(sep=" ") for time in (first, last)]
    look = {"name": _SELECTED, "fillcolor": INK, "opacity": 0.12, "line": {"width": 1, "color": INK}}
    figure.add_shape(type="rect", xref="x", yref="y domain", x0=ends[0], x1=ends[1], y0=0, y1=1, **look)


def ordered(rows: list[dict[str, Any]], state: State) -> list[dict[str, Any]]:
    """All rows in the requested order; those without a value last."""
    if state.order is None:
        return rows
    name, descending = state.order
    known = [row for row in rows if row[name] is not None]
    known.sort(key=lambda row: row[name], reverse=descending)
    return known + [row for row in rows if row[name] is None]


def _plain(value: Any) -> Any:
    """A value for a column of a frame: pairs of a name and a number become text."""
    return tally(value) if isinstance(value, list) and value and isinstance(value[0], tuple) else value


class View:
    """Panels of one capture under a title, for the last line of a cell; ``headings``: each panel has its own title.

    ``figure`` (plotly), ``frame`` (pandas) and ``facts`` are the current content; for a view of several panels the
    first figure and frame, and the facts of all panels.
    """

    def __init__(
        self, bench: Bench, title: str, panels: Sequence[Panel], *, controls: bool = True, headings: bool = True
    ) -> None:
        self.bench = bench
        self.display = page_display()
        self.title = title
        self.panels = list(panels)
        self.controls = controls
        self.headings = headings

    def answers(self, state: State | None = None) -> dict[str, Answer]:
        """The answers of all panels by name."""
        with self.bench.lock, shown_as(self.display):
            return {panel.name: panel.ask(self.bench, state or State()) for panel in self.panels}

    @property
    def figure(self) -> go.Figure:
        """The first figure. Raises OptionError without one."""
        for answer in self.answers().values():
            if answer.figure is not None:
                return answer.figure
        raise OptionError("this view has no figure")

    @property
    def frame(self) -> pd.DataFrame:
        """All rows of the first table, with Arrow types."""
        import pandas as pd

        for answer in self.answers(State(rows=1 << 40)).values():
            if answer.columns:
                rows = [{name: _plain(row[name]) for name in answer.columns} for row in answer.rows]
                frame: pd.DataFrame = pa.Table.from_pylist(rows).to_pandas(types_mapper=pd.ArrowDtype)
                return frame
        raise OptionError("this view has no table")

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of all panels."""
        return {name: value for answer in self.answers().values() for name, value in answer.facts.items()}

    @property
    def headline(self) -> str:
        """The answer in one sentence, of the first panel that has one."""
        return next((answer.headline for answer in self.answers().values() if answer.headline), "")

    def __repr__(self) -> str:
        return f"{self.title}: {self.headline}"

    def _ipython_display_(self) -> None:
        if is_live():
            from cdcwb.views.widget import page

            if refusal := self.bench.prepare():
                show.style_once()
                show.note(refusal)
                return
            box = page(self)
            show.widget(box)
            box.children[0].draw()
        else:
            self.put()

    def put(self) -> None:
        """Renders the current figures and tables."""
        with shown_as(self.display):
            self._put()

    def _put(self) -> None:
        show.style_once()
        limits = self.bench.selection.sentence()
        if limits:
            show.note(f"Only a part is shown: {limits}.")
        if self.bench.refusal:
            show.note(self.bench.refusal)
            return
        for panel in self.panels:
            answer = panel.ask(self.bench, State())
            show.heading(panel.title, answer.headline)
            if answer.figure is not None:
                show.chart(answer.figure, answer.instead())
                shown = [line for line in answer.lines if line != (answer.figure.layout.meta or {}).get("outside")]
            else:
                if answer.rows:
                    show.table(answer.rows, answer.columns)
                shown = answer.lines
            for line in shown:
                show.note(line)


# --- links to records -------------------------------------------------------------------------------------------------

Rows = Sequence[Mapping[str, Any]]

_POSITIONS: Final = ("position", "first_position")
_RECORD_IDS: Final = ("record_id", "first_record_id")


def records_of(rows: Rows, changes: Changes) -> list[int | None]:
    """The number of the record of each row, None without one.

    Rows are matched by, in this order: ``file`` and ``offset``; ``position`` or ``first_position``; ``record_id`` or
    ``first_record_id``; ``transaction_id``.
    """
    records: list[int | None] = [None] * len(rows)
    for find in (_by_place, _by_position, _by_record_id, _by_transaction):
        left = [number for number, record in enumerate(records) if record is None]
        if left:
            for number, record in zip(left, find([rows[number] for number in left], changes), strict=True):
                records[number] = record
    return records


def _by_place(rows: Rows, changes: Changes) -> list[int | None]:
    numbers = {str(entry["file"]): int(entry["file_index"]) for entry in changes.record_index.files}

    places = [(numbers.get(str(row.get("file"))), row.get("offset")) for row in rows]
    return [
        None if file is None or not isinstance(offset, int) else changes.record_index.at(file, offset)
        for file, offset in places
    ]


def _by_position(rows: Rows, changes: Changes) -> list[int | None]:
    return _by_value(rows, _POSITIONS, lambda values: changes.record_index.first("position", values))


def _by_record_id(rows: Rows, changes: Changes) -> list[int | None]:
    return _by_value(rows, _RECORD_IDS, lambda values: changes.record_index.first("record_id", values))


def _by_transaction(rows: Rows, changes: Changes) -> list[int | None]:
    def first(values: set[Any]) -> dict[Any, int]:
        ids = changes.transactions.rows["transaction_id"]
        wanted = pc.is_in(ids, value_set=pa.array(list(values), ids.type)).to_numpy(zero_copy_only=False)
        numbers = np.flatnonzero(wanted & (changes.transactions.record >= 0))
        return {ids[int(number)].as_py(): int(changes.transactions.record[number]) for number in numbers}

    return _by_value(rows, ("transaction_id",), first)


def _by_value(rows: Rows, names: Sequence[str], first: Callable[[set[Any]], Mapping[Any, int]]) -> list[int | None]:
    values = [next((row[name] for name in names if row.get(name) is not None), None) for row in rows]
    known = first({value for value in values if value is not None})
    return [known.get(value) for value in values]
