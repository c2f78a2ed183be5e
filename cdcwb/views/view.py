"""A view: one or more panels about the selection, each with a figure, a table and a sentence.

In a live notebook a view is a widget that follows and changes the selection. In a report, in papermill and in nbconvert
it renders the same figures and tables once. :func:`is_live` detects which applies.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.charts.theme import INK, limit_time
from cdcwb.report import show
from cdcwb.report.answer import Answer, Links, PanelState, first_of
from cdcwb.times import time_of
from cdcwb.views.bench import Bench
from cdcwb.words import local, page_display, shown_as

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from cdcwb.index.changes import Changes
    from cdcwb.views.pages.page import Page


_ALIGNED: Final = {"l": 80, "r": 24}
"""Margins in pixels with room for the ticks of all charts over time."""

_BOX: Final = "selected times"


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


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of a page that follows the selection: the method ``name`` of a class of pages."""

    page: type[Page]
    name: str

    @property
    def key(self) -> str:
        """Its name among all panels: ``transactions.timeline``."""
        return f"{self.page.notebook.removeprefix('change_')}.{self.name}"

    @property
    def about(self) -> Any:
        """Its title and how it is drawn live (:func:`cdcwb.views.pages.page.panel`)."""
        return getattr(self.page, self.name)

    def ask(self, bench: Bench, state: PanelState | None = None) -> Answer:
        """The answer for the selection."""
        page = bench.page(self.page)
        answer = page.answer(self.about.title, state)
        self.about.fill(page, answer)
        for figure in answer.figures:
            if figure.layout.xaxis.type == "date" and (figure.layout.meta or {}).get("on_time", 1):
                show_times(figure, bench, answer.state.window)
        return answer


def show_times(figure: go.Figure, bench: Bench, window: tuple[datetime, datetime] | None = None) -> None:
    """Sets the time axis of a figure to that of all charts of its page, or to the times to which it is zoomed; a box
    marks the selected times."""
    figure.update_layout(margin=_ALIGNED)
    limit_time(figure, bench.changes.axis, "time")
    if window is not None:
        figure.layout.xaxis.range = [local(time).isoformat(sep=" ") for time in window]
    figure.layout.shapes = [shape for shape in figure.layout.shapes if shape.name != _BOX]  # it may be shown again
    selection, span = bench.selection, bench.changes.span
    if span is None or (selection.time_from is None and selection.time_to is None):
        return
    first = selection.time_from or time_of(span[0])
    last = selection.time_to or time_of(span[1])
    ends = [local(time).isoformat(sep=" ") for time in (first, last)]
    look = {"name": _BOX, "fillcolor": INK, "opacity": 0.12, "line": {"width": 1, "color": INK}}
    figure.add_shape(type="rect", xref="x", yref="y domain", x0=ends[0], x1=ends[1], y0=0, y1=1, **look)


class View:
    """Panels of one capture under a title, for the last line of a cell; ``headings``: each panel has its own title.

    ``figure`` (plotly), ``frame`` (pandas) and ``facts`` are the current content; for a view of several panels the
    first figure and frame, and the facts of all panels.
    """

    def __init__(
        self, bench: Bench, title: str, panels: Sequence[Panel], controls: bool = True, headings: bool = True
    ) -> None:
        self.bench = bench
        self.display = page_display()
        self.title = title
        self.panels = list(panels)
        self.controls = controls
        self.headings = headings

    def answers(self) -> dict[str, Answer]:
        """The answers of all panels by their key."""
        with self.bench.lock, shown_as(self.display):
            return {panel.key: panel.ask(self.bench) for panel in self.panels}

    @property
    def figure(self) -> go.Figure:
        """The first figure. Raises OptionError without one."""
        return first_of(self.answers().values(), "figure", "view")

    @property
    def frame(self) -> pd.DataFrame:
        """The first table, with Arrow types. Raises OptionError without one."""
        frame: pd.DataFrame = first_of(self.answers().values(), "frame", "view")
        return frame

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
            show.style_once()
            if limits := self.bench.selection.sentence():
                show.note(f"Only a part is shown: {limits}.")
            if self.bench.refusal:
                show.note(self.bench.refusal)
                return
            for panel in self.panels:
                answer = panel.ask(self.bench)
                answer.links = None  # nobody can click
                show.heading(panel.about.title, answer.headline)
                show.put_blocks(answer)


# --- links to records -------------------------------------------------------------------------------------------------

Rows = Sequence[Mapping[str, Any]]


def links_of(bench: Bench) -> Links:
    """The links of rows to records of the capture of views."""
    return Links(bench.name, lambda rows: records_of(rows, bench.changes))


_POSITIONS: Final = ("position", "first_position")
_RECORD_IDS: Final = ("record_id", "first_record_id")


def records_of(rows: Rows, changes: Changes) -> list[int | None]:
    """The number of the record of each row, None without one.

    Rows are matched by, in this order: ``file`` and ``offset``; ``position`` or ``first_position``; ``record_id`` or
    ``first_record_id``; ``transaction_id``.
    """
    records: list[int | None] = [None] * len(rows)
    for find in (_by_place, partial(_by_value, _POSITIONS), partial(_by_value, _RECORD_IDS), _by_transaction):
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


def _by_value(names: Sequence[str], rows: Rows, changes: Changes) -> list[int | None]:
    """By the first of some columns that has a value; the first of them is that of the index."""
    values = _values(rows, names)
    known = changes.record_index.first(names[0], {value for value in values if value is not None})
    return [known.get(value) for value in values]


def _by_transaction(rows: Rows, changes: Changes) -> list[int | None]:
    values, ids = _values(rows, ("transaction_id",)), changes.transactions.rows["transaction_id"]
    wanted = pc.is_in(ids, value_set=pa.array([*{*values} - {None}], ids.type)).to_numpy(zero_copy_only=False)
    numbers = np.flatnonzero(wanted & (changes.transactions.record >= 0))
    known = {ids[int(number)].as_py(): int(changes.transactions.record[number]) for number in numbers}
    return [known.get(value) for value in values]


def _values(rows: Rows, names: Sequence[str]) -> list[Any]:
    """The first value of each row that is not None, of some columns."""
    return [next((row[name] for name in names if row.get(name) is not None), None) for row in rows]
