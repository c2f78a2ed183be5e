"""The style of charts: one fixed colour and pattern for every outcome and operation, from a colour-blind-safe palette.

Captured text in a figure passes :func:`label`, because plotly renders a few HTML tags and entities in labels and hover
text: a table called ``<b>x`` would otherwise be drawn in bold.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
from plotly.colors import qualitative

from cdcwb.model import Operation, Outcome
from cdcwb.times import TimeAxis, later
from cdcwb.words import local, visible

SAFE: Final[list[str]] = [*qualitative.Safe]
SAFE[6] = "rgb(61, 160, 144)"  # plotly's colour is too light for a line on white
EDGES: Final[dict[str, str]] = {SAFE[0]: "#3b8fbe", SAFE[2]: "#9a8423"}
"""Outline colours of markers whose own colour is too light for a white page; other markers use their own colour."""
INK: Final = "#1f2933"
MUTED: Final = "#66727f"
FAINT: Final = "#87919b"
ON_MARK: Final = "#0d1117"
"""Text colour on light markers, also on a dark page, where every marker is light."""
GRID: Final = "#e4e8ec"
MARK: Final = "cdcwb"
"""``layout.template.layout.meta`` of our figures: JupyterLab adapts only these to its theme."""
FONT: Final = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, 'Noto Sans', 'DejaVu Sans', sans-serif"
SCALE: Final[list[tuple[float, str]]] = [(0.0, "#6f95c2"), (0.35, "#4d75ad"), (0.7, "#325290"), (1.0, "#15235c")]
"""A sequential scale of one hue from light to dark for counts. It is distinguishable by lightness alone, so also with
colour blindness and in print. The lightest colour differs from the page."""

DARK: Final[dict[str, str]] = {
    "white": "#161b21",
    INK: "#e4e9ee",
    MUTED: "#9caab6",
    FAINT: "#6a7683",
    GRID: "#303a44",
    **dict(zip((colour for _, colour in SCALE), ("#4a70a6", "#6b97d3", "#9dc3f2", "#e0eeff"), strict=True)),
    "#eef1f4": "#252d36",
    "#d5dae0": "#4a5560",
    SAFE[3]: "rgb(74, 178, 112)",
    SAFE[4]: "rgb(143, 132, 232)",
    SAFE[5]: "rgb(205, 116, 190)",
    SAFE[6]: "rgb(68, 170, 153)",
    SAFE[8]: "rgb(214, 110, 158)",
    SAFE[9]: "rgb(206, 118, 84)",
    SAFE[10]: "rgb(158, 165, 172)",
    **{edge: colour for colour, edge in EDGES.items()},
}
"""Replacements of colours on a dark page, where ``dark.js`` makes them. Patterns are unchanged."""

_MARGIN: Final = 20
"""The range of a time axis as a multiple of the margin at either end. Bins fit into the margin: they are at most 2.5
times as wide as a 60th of the axis."""

CONFIG: Final[dict[str, Any]] = {
    "displaylogo": False,
    "plotlyServerURL": "",
    "modeBarButtons": [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
}
"""The configuration of plotly.js. The buttons are listed because plotly's default includes one that uploads the chart.
Pages add ``responsive``; JupyterLab fits charts to their cell itself, and with both a redrawn chart has no height."""


@dataclass(frozen=True, slots=True)
class Look:
    """The style of one outcome or operation: its label, its colour, its pattern (plotly's names; empty: plain), the
    pattern's own colour, and the symbol of its markers."""

    title: str
    colour: str
    pattern: str = ""
    ink: str = "white"
    symbol: str = ""

    @property
    def edge(self) -> str:
        """The colour of the outline, which contrasts with a white page."""
        return EDGES.get(self.colour, self.colour)

    def bar(self) -> dict[str, Any]:
        """The style as a bar's ``marker``. The outline keeps a bar visible that is thinner than a pixel."""
        return {
            "color": self.colour,
            "line": {"color": self.edge, "width": 1},
            "pattern": {"shape": self.pattern, "fillmode": "overlay", "fgcolor": self.ink, "size": 6, "solidity": 0.35},
        }


OUTCOMES: Final[dict[str, Look]] = {
    Outcome.COMMITTED: Look("committed", SAFE[6]),
    Outcome.ROLLED_BACK: Look("rolled back", SAFE[1], "/"),
    Outcome.OPEN: Look("open", SAFE[4], "."),
    Outcome.UNDONE: Look("undone", SAFE[2], "x", INK),
    Outcome.UNDO: Look("undo", SAFE[9], "\\"),
}
OPERATIONS: Final[dict[str, Look]] = {
    Operation.INSERT: Look("INSERT", SAFE[3], symbol="triangle-up"),
    Operation.UPDATE: Look("UPDATE", SAFE[0], "/", INK, symbol="circle"),
    Operation.DELETE: Look("DELETE", SAFE[1], "x", symbol="x"),
    Operation.REFRESH: Look("REFRESH", SAFE[7], "-", symbol="triangle-right"),
    Operation.TRUNCATE: Look("TRUNCATE", SAFE[8], "+", symbol="square"),
    Operation.DDL: Look("DDL", SAFE[5], "."),
}


def look(table: dict[str, Look], name: str | None, missing: str = "not given") -> Look:
    """The style of ``name``. Unlisted names (``UNKNOWN(x)``) are grey with their own, escaped name as label; null is
    called ``missing``."""
    return table.get(name or "") or Look(label(missing if name is None else name), SAFE[10], "|")


def label(text: object, limit: int = 60) -> str:
    """Captured text for a plotly label: one line, at most ``limit`` characters and twice as many bytes, markup escaped;
    None is a dash."""
    if text is None:
        return "—"
    plain = visible(text, limit)
    # %{…} is safe in data: plotly fills templates only once. In titles and names it is literal text.
    while len(escaped := plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").encode()) > 2 * limit:
        plain = plain[: len(plain) * 2 * limit // len(escaped) - 1] + "…"
    return escaped.decode()


def records_of(rows: Iterable[Mapping[str, Any]]) -> list[str] | None:
    """The ids of points that lead to a record: the record's number, or nothing without a record; after ``~`` the number
    of earlier points with the same record, since Plotly draws only one of several points with the same id. None if no
    row has a record."""
    numbers = [row.get("record") for row in rows]
    if all(number is None for number in numbers):
        return None
    ids, seen = [], Counter[Any]()
    for number in numbers:
        ids.append(f"{'' if number is None else number}" + (f"~{seen[number]}" if seen[number] else ""))
        seen[number] += 1
    return ids


def column(values: Iterable[Any]) -> npt.NDArray[Any]:
    """Values of points (or a row of texts for each) as an array, which plotly does not check one by one."""
    return np.array(list(values), np.object_)


def figure(height: int, traces: list[Any] | None = None, **layout: Any) -> go.Figure:
    """An empty figure in the common style, ``height`` pixels high, as wide as its page."""
    return go.Figure(traces, layout={"template": _template(), "height": height, "autosize": True, **layout})


@cache
def _template() -> go.layout.Template:
    axis = {
        "gridcolor": GRID,
        "linecolor": GRID,
        "zeroline": False,
        "ticks": "outside",
        "tickcolor": GRID,
        "title": {"font": {"color": MUTED, "size": 12}, "standoff": 8},
        "automargin": True,
        "ticklabeloverflow": "allow",  # otherwise an axis with labels only at its ends would lose them and its title
    }
    return go.layout.Template(
        layout={
            "meta": MARK,
            "font": {"family": FONT, "size": 12, "color": INK},
            "paper_bgcolor": "white",
            "plot_bgcolor": "white",
            "colorway": SAFE,
            "xaxis": axis,
            "yaxis": axis,
            "hovermode": "closest",
            "hoverlabel": {
                "align": "left",
                "bgcolor": "white",
                "bordercolor": MUTED,
                "font": {"family": FONT, "size": 12, "color": INK},
            },
            "legend": {
                "orientation": "h",
                "x": 0,
                "y": 1,
                "yanchor": "bottom",
                "itemsizing": "constant",
                "traceorder": "normal",
            },
            "margin": {"l": 12, "r": 16, "t": 56, "b": 12},  # the buttons appear above the legend
        }
    )


def whole_step(largest: int) -> dict[str, Any]:
    """Axis options with a step of whole numbers from 0 to ``largest``; empty if plotly's own step is a whole number."""
    step = next((step for step in (1, 2, 5, 10) if largest <= 10 * step), None)
    return {} if step is None else {"dtick": step, "tick0": 0}


def counts(largest: int, title: str) -> dict[str, Any]:
    """An axis of counts, from 0 to ``largest``: ticks are whole numbers."""
    return {"title": {"text": title}, "rangemode": "tozero", "tickformat": ",~f", **whole_step(largest)}


def limit_time(figure: go.Figure, axis: TimeAxis | None, what: str) -> None:
    """Limits the figure's first axis to the range of ``axis``, with room for the bins at its ends, so that all charts
    of a page have the same time axis. ``layout.meta`` gets the number of ``what`` that are ``outside``."""
    if axis is None:
        return
    margin = max((axis.last - axis.first) / _MARGIN, timedelta(seconds=1))
    ends = later(axis.first, -margin), later(axis.last, margin)
    figure.layout.xaxis.range = [local(end).isoformat(sep=" ") for end in ends]
    if axis.outside:
        add_meta(figure, outside=axis.note(what))


def add_meta(figure: go.Figure, **facts: Any) -> None:
    """Adds facts to ``layout.meta``."""
    figure.layout.meta = {**(figure.layout.meta or {}), **facts}


def time_columns(
    times: Iterable[datetime], width: timedelta, axis: TimeAxis | None = None
) -> tuple[list[datetime], list[str]]:
    """Columns of a heatmap for bins of a ``width`` that begin at ``times``: their starts, and a heatmap's ``x``.

    There is a column for every bin from the first to the last, and ``x`` has their middles. If the ``axis`` leaves out
    some times, these may be millions of bins: then one wide empty column separates bins that are not adjacent, and
    ``x`` has the edges of all columns.
    """
    known = sorted(set(times))
    if axis is None or not axis.outside:
        starts = [known[0] + n * width for n in range((known[-1] - known[0]) // width + 1)] if known else []
        return starts, [local(later(start, width / 2)).isoformat(sep=" ") for start in starts]
    starts = []
    for time in known:
        if starts and time - starts[-1] > width:
            starts.append(starts[-1] + width)
        starts.append(time)
    edges = [*starts, *(later(start, width) for start in starts[-1:])]
    return starts, [local(edge).isoformat(sep=" ") for edge in edges]


def domains(heights: Sequence[int], room: int) -> list[list[float]]:
    """The vertical ranges of the panels of a figure, from the top, as shares of its height, with ``room`` pixels
    between them for an axis."""
    total = sum(heights) + room * (len(heights) - 1)
    result, top = [], 1.0
    for height in heights:
        bottom = max(0.0, top - height / total)
        result.append([bottom, top])
        top = bottom - room / total
    return result


def nice_ticks(largest: int) -> tuple[list[float], list[str]]:
    """Ticks of a colour bar over log10(count): 1, 10, 100 … up to ``largest``, which is always included."""
    powers = [10**n for n in range(len(str(largest)))] if largest > 0 else []
    if len(powers) > 1 and powers[-1] < largest < powers[-1] * 2:
        powers.pop()
    values = sorted({*powers, largest} - {0})
    return [math.log10(v) for v in values], [f"{v:,}" for v in values]
