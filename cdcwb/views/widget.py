"""A view as an anywidget: the script draws its state and sends requests, all logic is in Python.

The state of a panel reaches the page as soon as it is set, also while the kernel runs other cells; requests are heard
when the kernel is idle.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Final

import anywidget
import ipywidgets
import numpy as np
import plotly
import plotly.graph_objects as go
import traitlets
from plotly.io.json import to_json_plotly

from cdcwb.charts.theme import CONFIG, DARK
from cdcwb.errors import CaptureError, OptionError
from cdcwb.index.selected import TIME
from cdcwb.report import show
from cdcwb.report.answer import FIRST_ROWS, Answer, Document, Figure, PanelState, Table, note
from cdcwb.views.bench import Bench
from cdcwb.views.view import Panel, View
from cdcwb.words import moment, shown_as, time_on_axis

_ASSETS: Final = resources.files("cdcwb.views")
_SCRIPTS: Final = (resources.files("cdcwb.explore").joinpath("dom.js"), _ASSETS.joinpath("page.js"))
_VALUES: Final = 300  # of a field, in its menu
_MORE: Final = 40
_CHANGES: Final = ("set", "toggle", "keep", "use", "time", "undo", "redo", "reset")  # of the selection
_BUTTONS: Final = [["select2d", "zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"], ["toImage"]]
Message = dict[str, Any]


class _Plotly(anywidget.AnyWidget):
    """plotly.js for all pages of a kernel; ``script``: compressed by gzip."""

    _esm = "export default {}"
    script = traitlets.Bytes().tag(sync=True)


@cache
def _plotly() -> _Plotly:
    script = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    return _Plotly(script=gzip.compress(script.read_bytes(), 6))


def page(view: View) -> ipywidgets.VBox:
    """The widget of a view, followed by room for an explorer."""
    box = ipywidgets.VBox()
    box.children = (PageWidget(view, box),)
    return box


class PageWidget(anywidget.AnyWidget):
    """The panels of a view below the control bar. Its state is what is shown: ``bar``, ``wrong`` (a sentence), and for
    each panel, by its number, ``panel_N`` and ``figures_N`` (JSON texts, without shapes). After a step, panels are
    drawn when they are visible."""

    _esm = "".join([show.asset("dark.js"), *(script.read_text(encoding="utf-8") for script in _SCRIPTS)])
    _css = show.asset("show.css") + _ASSETS.joinpath("page.css").read_text(encoding="utf-8")
    about = traitlets.Dict().tag(sync=True)
    bar = traitlets.Dict().tag(sync=True)
    wrong = traitlets.Unicode("").tag(sync=True)
    _last: ClassVar[tuple[Bench, ipywidgets.Widget] | None] = None
    """The capture and the slot of the explorer that was opened last in JupyterLab."""

    def __init__(self, view: View, box: ipywidgets.VBox) -> None:
        titles = [panel.about.title if view.headings else "" for panel in view.panels]
        panels = [
            {"name": panel.key, "trait": str(number), "title": title, "help": panel.about.hint}
            for number, (panel, title) in enumerate(zip(view.panels, titles, strict=True))
        ]
        self.bench: Bench = view.bench
        about = {"title": view.title, "controls": view.controls, "panels": panels, "capture": self.bench.name}
        for number in range(len(panels)):
            shown, figures = traitlets.Dict().tag(sync=True), traitlets.Bytes().tag(sync=True)
            self.add_traits(**{f"panel_{number}": shown, f"figures_{number}": figures})
        super().__init__(about=about | {"plotly": _plotly().model_id, "dark": DARK})
        self._display = view.display
        self._panels: dict[str, Panel] = {panel.key: panel for panel in view.panels}
        self._states = {name: PanelState() for name in self._panels}
        self._answers: dict[str, Answer] = {}
        self._figures: dict[str, list[tuple[go.Figure, str]]] = {}  # with their JSON
        self._seen: set[str] = set()
        self._stale: set[str] = set(self._panels)
        self._drawn = 0
        self._box = box
        self._beside = False
        self.bench.followers.add(self)
        self.bench.host = self
        self.on_msg(self._heard)

    # --- updates after selection --------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Redraws the visible panels, the bar first."""
        self._stale = set(self._panels)
        with shown_as(self._display):
            self.send({"stale": sorted(self._stale)})
            self.wrong, self.bar = "", self._controls()
            self._draw_seen()

    def draw(self) -> None:
        """Draws everything, one panel after the other."""
        with self.bench.lock, shown_as(self._display), self._told():
            self.bar = self._controls()
            for name in self._panels:
                self._draw(name)

    def explorer(self, record: int) -> None:
        """Shows a record in an explorer: in the lower half of JupyterLab, to the right of the explorer of another
        capture there; otherwise below the view."""
        widget = next(iter(self.bench.explorers), None) or self.bench.explore()
        if self._beside:
            from sidecar import Sidecar

            title, before = f"Records of {self.bench.source.index.format}", PageWidget._last
            if before is None or before[0] is self.bench:
                sidecar = Sidecar(title=title, anchor="split-bottom")
            else:
                sidecar = Sidecar(title=title, anchor="split-right", ref=before[1])
            PageWidget._last = self.bench, sidecar
            sidecar.append_display_data(widget)
        else:
            self._box.children = (self, widget)
        widget.show(record)

    def _draw_seen(self) -> None:
        for name in self._panels:
            if name in self._stale and name in self._seen:
                self._draw(name)

    def _draw(self, name: str) -> None:
        number, brush = [*self._panels].index(name), self._panels[name].about.brush
        answer = self._answers[name] = self._panels[name].ask(self.bench, self._states[name])
        self._stale.discard(name)
        self._drawn += 1
        message: Message = {"panel": name, "version": self._drawn, "headline": answer.headline}
        if number == 0:
            message |= {"answer": answer.headline, "headline": ""}
        before = self._figures.get(name, [])
        self._figures[name] = [
            (figure, next((text for other, text in before if other is figure), None) or _json(figure, brush))
            for figure in answer.figures
        ]
        message["blocks"] = [*self._blocks(answer)]
        with self.hold_sync():  # figures are sent if they are others
            setattr(self, f"figures_{number}", json.dumps([text for _, text in self._figures[name]]).encode())
            setattr(self, f"panel_{number}", message)

    def _blocks(self, answer: Answer) -> Iterator[Message]:
        """The blocks of an answer; of its figures only the shapes, which most steps change alone."""
        tables = 0
        for block in answer.blocks:
            if isinstance(block, Figure):
                yield {"kind": "figure", "shapes": [shape.to_plotly_json() for shape in block.figure.layout.shapes]}
                if outside := show.outside_of(block.figure):
                    yield {"kind": "note", "html": note(outside).html}
            elif isinstance(block, Table):
                yield self._table(answer, block, tables)
                tables += 1
            elif isinstance(block, Document):
                yield {"kind": "note", "html": block.html}

    def _table(self, answer: Answer, block: Table, number: int) -> Message:
        names, order = list(block.columns), answer.state.orders.get(number)
        rows = block.first(answer.state.rows.get(number, FIRST_ROWS), order)
        sortable = block.sortable()
        can_grow = block.ranked is not None or len(block.rows) > len(rows)
        return {
            "kind": "table",
            "html": show.table_block_html(block, answer.links, rows),
            "sortable": [column in sortable for column in names],
            "sorted": [-1, True] if order is None else [names.index(order[0]), order[1]],
            "more": can_grow and block.count > len(rows),
        }

    def _controls(self) -> Message:
        if not self.about["controls"]:
            return {}
        bench = self.bench
        selection, changes = bench.selection, bench.changes
        fields = []
        for name, values in bench.selected.facets().items():
            chosen = set(getattr(selection, name))
            ranked = sorted(values, key=lambda item: item[0] not in chosen)[:_VALUES]
            fields.append({"name": name, "values": [[text, number, text in chosen] for text, number in ranked]})
        without = bench.selected.mask(TIME) & ~changes.timed
        times = [selection.time_from, selection.time_to]
        return {
            "fields": fields,
            "count": int(np.count_nonzero(bench.selected.mask())),
            "total": len(changes),
            "time": None if times == [None, None] else " to ".join(moment(time, "…") for time in times),
            "without_time": int(np.count_nonzero(without)),
            "with_those": selection.without_time,
            "text": selection.text,
            "steps": list(selection.steps),
            "kept": selection.kept,
            "python": repr(selection),
        }

    # --- requests -----------------------------------------------------------------------------------------------------

    def _heard(self, _widget: Any, content: Any, _buffers: Any) -> None:
        message: Message = content if isinstance(content, dict) else {}
        name = str(message.get("do"))
        step = self._change if name in _CHANGES else getattr(self, f"do_{name}", None)
        if step is not None:
            with self.bench.lock, shown_as(self._display), self._told():
                step(message)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """The page shows the sentence of an error."""
        try:
            yield
        except CaptureError as wrong:
            self.wrong = wrong.sentence

    def do_open(self, message: Message) -> None:
        """A page displays the widget, possibly again."""
        self._beside = bool(message.get("beside"))
        self.bar = self._controls()

    def do_seen(self, message: Message) -> None:
        """A panel becomes visible or invisible."""
        name = str(message.get("panel"))
        if name in self._panels:
            (self._seen.add if message.get("on") else self._seen.discard)(name)
            self._draw_seen()

    def do_brush(self, message: Message) -> None:
        """Times are selected in a figure."""
        times = _times(message.get("x"))
        for name, state in self._states.items():
            state.brushed = name == message.get("panel") and times[0] is not None
        self.bench.selection.update(time_from=times[0], time_to=times[1])

    def do_zoom(self, message: Message) -> None:
        """The first figure of a panel is zoomed: it is drawn again with the content of the range."""
        name = str(message["panel"])
        if not message.get("figure"):
            first, last = _times(message.get("x"))
            self._states[name].window = None if first is None or last is None else (first, last)
            self._draw(name)

    def do_point(self, message: Message) -> None:
        """A point of a figure is clicked: shows its record."""
        figures = [block for block in self._answers[str(message["panel"])].blocks if isinstance(block, Figure)]
        find = figures[int(message.get("figure") or 0)].record
        if find is not None and (record := find(message)) is not None:
            self._show(record, message)

    def do_record(self, message: Message) -> None:
        """A row of a table, or a point of a chart of a cell, is clicked: shows its record. ``row``: with all records of
        the row of the captured table."""
        record = int(message["record"])
        if 0 <= record < self.bench.source.index.records:
            self._show(record, message)
            if message.get("row"):
                for explorer in list(self.bench.explorers):
                    explorer.show(record, with_row=True)

    def _show(self, record: int, message: Message) -> None:
        """Shows a record in the open explorers; ``seen``: one of them is visible."""
        hidden = bool(self.bench.explorers) and not message.get("seen")
        self.bench.host = self
        if self.bench.selection.record == record:
            self.bench.selection.record = None  # the explorer may show another record meanwhile
        self.bench.selection.record = record
        if hidden:
            self.explorer(record)

    def do_sort(self, message: Message) -> None:
        """The heading of a column is clicked."""
        name, number = str(message["panel"]), int(message.get("table") or 0)
        table = self._answers[name].tables[number]
        column = list(table.columns)[int(message["column"])]
        if column in table.sortable():
            orders = self._states[name].orders
            before = orders.get(number)
            orders[number] = (column, not before[1] if before and before[0] == column else True)
            self._draw(name)

    def do_more(self, message: Message) -> None:
        """Shows more rows of a table."""
        name, number = str(message["panel"]), int(message.get("table") or 0)
        rows = self._states[name].rows
        rows[number] = max(rows.get(number, 0), 0) + _MORE
        self._draw(name)

    def _change(self, message: Message) -> None:
        """A control of the bar is used."""
        selection, step = self.bench.selection, message["do"]
        if step == "set":
            selection.update(**{str(message["field"]): message["value"]})
        elif step == "toggle":
            selection.toggle(str(message["field"]), str(message["value"]))
        elif step in ("keep", "use"):
            getattr(selection, step)(str(message["name"]))
        elif step == "time":
            for state in self._states.values():
                state.brushed = False
            selection.update(time_from=None, time_to=None)
        else:
            getattr(selection, step)()  # undo, redo, reset


def _json(figure: go.Figure, brush: bool) -> str:
    """A figure as JSON, without its shapes."""
    content = figure.to_dict()
    layout, template = content["layout"], content["layout"]["template"]
    layout.pop("shapes", None)
    if brush and figure.layout.xaxis.type == "date":
        layout |= {"dragmode": "select", "selectdirection": "h"}
    template["layout"]["meta"] = "cdcwb-live"  # the script of this widget draws it, no other does
    template["data"] = {key: [{"unselected": {"marker": {"opacity": 1}}}] for key in ("bar", "scatter")}
    content["config"] = CONFIG | {"modeBarButtons": _BUTTONS if brush else _BUTTONS[1:]}
    return str(to_json_plotly(content))


def _times(values: Any) -> tuple[datetime | None, datetime | None]:
    """The ends of a range of times, the earlier first; the later is excluded. Raises OptionError for other years."""
    if not values:
        return None, None
    try:
        first, last = sorted(time_on_axis(str(value)) for value in values[:2])
    except (ValueError, OverflowError):
        raise OptionError("times are in the years 1 to 9999") from None
    return first, last
