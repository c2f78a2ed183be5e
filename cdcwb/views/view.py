"""A view: one or more panels about the selection, each with a figure, a table and a sentence.

In a live notebook a view is a widget that follows and changes the selection. In a report, in papermill and in nbconvert
it renders the same figures and tables once. :func:`is_live` detects which applies.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
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


@dataclass(eq=False, repr=False)
class View:
    """Panels of one capture under a title, for the last line of a cell; ``headings``: each panel has its own title.

    ``figure`` (plotly), ``frame`` (pandas) and ``facts`` are the current content; for a view of several panels the
    first figure and frame, and the facts of all panels.
    """

    bench: Bench
    title: str
    panels: Sequence[Panel]
    controls: bool = True
    headings: bool = True
    display: Any = field(default_factory=page_display, init=False)

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
        return f"{self.title}: {self.bench.refusal or self.headline}"

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


def records_of(rows: Rows, changes: Changes) -> list[int | None]:
    """The number of the record of each row, None without one.

    Rows are matched by, in this order: ``file`` and ``offset``; ``position`` or ``first_position``; ``record_id`` or
    ``first_record_id``; ``transaction_id``.
    """
    index = changes.record_index
    files = {str(entry["file"]): int(entry["file_index"]) for entry in index.files}
    records: list[int | None] = [None] * len(rows)
    for number, row in enumerate(rows):
        file, offset = files.get(str(row.get("file"))), row.get("offset")
        if file is not None and isinstance(offset, int):
            records[number] = index.at(file, offset)
    for name in ("position", "record_id", "transaction_id"):
        values = [row.get(name) if row.get(name) is not None else row.get(f"first_{name}") for row in rows]
        wanted = {value for value, record in zip(values, records, strict=True) if record is None} - {None}
        known = _of_transactions(wanted, changes) if name == "transaction_id" else index.first(name, wanted)
        records = [known.get(value) if one is None else one for value, one in zip(values, records, strict=True)]
    return records


def _of_transactions(wanted: set[Any], changes: Changes) -> dict[Any, int]:
    """The first records of some transactions."""
    ids, records = changes.transactions.rows["transaction_id"], changes.transactions.record
    matches = pc.is_in(ids, value_set=pa.array([*wanted], ids.type)).to_numpy(zero_copy_only=False)
    return {ids[int(n)].as_py(): int(records[n]) for n in np.flatnonzero(matches & (records >= 0))}
