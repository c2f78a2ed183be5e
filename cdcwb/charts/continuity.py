"""Charts of the continuity of rows: breaks over time, and the versions of one row as a chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import plotly.graph_objects as go

from cdcwb.charts import theme
from cdcwb.charts.traces import add_markers, date_axis, line_axis, on_axis
from cdcwb.times import axis_of, micros
from cdcwb.words import count, moment

Record = Mapping[str, Any]

_KINDS: Final = {
    "gap": (theme.SAFE[1], "x"),
    "stale": (theme.SAFE[2], "triangle-down"),
    "repeat": (theme.SAFE[0], "circle"),
    "revived": (theme.SAFE[9], "diamond"),
    "phantom": (theme.SAFE[4], "square"),
    "late": (theme.SAFE[6], "triangle-left"),
}
"""The colour and the symbol of each kind of break."""

_LANE: Final = 34
_OF_CAPTURE: Final = "change of the row, in the order of the capture"


def breaks_over_time(breaks: Sequence[Record]) -> go.Figure:
    """Each break at its time, in a lane for each table; colour and symbol by kind.

    Records: ``at`` (aware; records without it are left out), ``table``, ``kind``, ``sentence``.
    """
    timed = [row for row in breaks if row["at"] is not None]
    tables = sorted({row["table"] for row in timed}, reverse=True)
    figure = theme.figure(height=_LANE * max(2, len(tables)) + 120)
    for kind, (colour, symbol) in _KINDS.items():
        some = [row for row in timed if row["kind"] == kind]
        if some:
            add_markers(
                figure,
                f"{kind} ({count(len(some))})",
                some,
                [on_axis(row["at"]) for row in some],
                [tables.index(row["table"]) for row in some],
                {"symbol": symbol, "color": colour, "size": 11},
                [[moment(row["at"]), theme.label(row["sentence"], 300)] for row in some],
                f"{kind}, %{{customdata[0]}}<br>%{{customdata[1]}}",
            )
    lanes = [theme.label(table, 30) for table in tables]
    yaxis = line_axis(lanes, range=[-0.6, len(tables) - 0.4], ticks="outside")
    figure.update_layout(showlegend=True, xaxis=date_axis(), yaxis=yaxis)
    theme.limit_time(figure, axis_of([micros(row["at"]) for row in timed]), "break")
    return figure


def version_chain(changes: Sequence[Record]) -> go.Figure:
    """The changes of a row in the order of the capture as a chain: a dashed red link leads to a change that contradicts
    those before it.

    Records: ``operation``, ``at``, ``told`` (the change in words), ``broken`` (the kind of break, or None).
    """
    xaxis = {"title": {"text": _OF_CAPTURE}, "dtick": max(1, len(changes) // 20)}
    figure = theme.figure(height=240, showlegend=True, xaxis=xaxis, yaxis={"visible": False, "range": [-1, 1]})
    for number, change in enumerate(changes[1:], 1):
        broken = change["broken"] is not None
        link = {"color": theme.SAFE[9] if broken else theme.FAINT, "width": 3, "dash": "dot" if broken else "solid"}
        figure.add_shape(type="line", x0=number, x1=number + 1, y0=0, y1=0, line=link, layer="below")
    for operation in dict.fromkeys(change["operation"] for change in changes):
        some = [(n, change) for n, change in enumerate(changes, 1) if change["operation"] == operation]
        look = theme.look(theme.OPERATIONS, operation)
        add_markers(
            figure,
            look.title,
            [change for _, change in some],
            [number for number, _ in some],
            [0] * len(some),
            {"symbol": "circle", "color": look.colour, "size": 16, "line": {"color": look.edge, "width": 2}},
            [[moment(change["at"]), theme.label(change["told"], 200)] for _, change in some],
            f"{look.title}<br>%{{customdata[0]}}<br>%{{customdata[1]}}",
        )
    for number, change in enumerate(changes, 1):
        if change["broken"] is not None:
            x = number - 0.5 if number > 1 else number
            figure.add_annotation(x=x, y=0, yshift=26, text=change["broken"], showarrow=False)
    return figure
