"""A picture of a stretch of log: records in order, a line for each transaction, one of them named record by record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import plotly.graph_objects as go

from cdcwb.charts import theme
from cdcwb.model import Kind

__all__ = ["log"]

_LANE: Final = 30
_SYMBOLS: Final = {
    Kind.BEGIN: "triangle-right",
    Kind.COMMIT: "square",
    Kind.ROLLBACK: "x",
    Kind.UNDO: "triangle-left",
    Kind.BEFORE: "circle-open",
}
_ENDS: Final = "begin, commit, rollback"


def log(records: Iterable[Mapping[str, Any]], chosen: str) -> go.Figure:
    """Records in the order of the log, from left to right, on a line for each transaction; those of the transaction
    ``chosen`` at the top, each with its name.

    Records: ``number`` (place in the order), ``lane`` (transaction), ``kind`` (:class:`cdcwb.model.Kind`),
    ``operation``, ``name`` (a word or two) and ``what`` (hover text). Colour is by operation, shape by kind.
    """
    rows = list(records)
    lanes = list(dict.fromkeys([chosen, *(row["lane"] for row in rows)]))
    figure = theme.figure(height=_LANE * len(lanes) + 190)
    for y, lane in enumerate(lanes):
        numbers = [row["number"] for row in rows if row["lane"] == lane]
        figure.add_scatter(
            x=[min(numbers, default=0), max(numbers, default=0)],
            y=[y, y],
            mode="lines",
            line={"color": theme.MUTED if lane == chosen else theme.FAINT, "width": 5 if lane == chosen else 3},
            hoverinfo="skip",
            showlegend=False,
        )
    for name in dict.fromkeys(row["operation"] or "" for row in rows):
        mine = [row for row in rows if (row["operation"] or "") == name]
        look = theme.look(theme.OPERATIONS, name) if name else theme.Look(_ENDS, theme.INK)
        figure.add_scatter(
            x=[row["number"] for row in mine],
            y=[lanes.index(row["lane"]) for row in mine],
            mode="markers",
            name=look.title,
            marker={
                # plotly draws hollow symbols in this colour alone
                "color": [look.edge if row["kind"] == Kind.BEFORE else look.colour for row in mine],
                "opacity": 1,
                "size": [14 if row["lane"] == chosen else 9 for row in mine],
                "symbol": [_SYMBOLS.get(row["kind"], "circle") for row in mine],
                "line": {"color": look.edge, "width": 2},
            },
            customdata=[theme.label(row["what"], 120) for row in mine],
            hovertemplate="%{customdata}<extra></extra>",
        )
    for row in rows:
        if row["lane"] == chosen:
            figure.add_annotation(
                x=row["number"],
                y=0,
                yshift=12,
                text=theme.label(row["name"], 24),
                textangle=-40,
                showarrow=False,
                xanchor="left",
                yanchor="bottom",
                font={"size": 11, "color": theme.INK},
            )
    figure.update_layout(
        xaxis={"title": {"text": "records of the log, in order"}, "showgrid": False, "tickformat": ",~f"}
        | theme.whole_step(max((row["number"] for row in rows), default=0)),
        yaxis={
            "tickvals": list(range(len(lanes))),
            "ticktext": [theme.label(lane, 30) for lane in lanes],
            "range": [len(lanes) - 0.5, -2.6],
            "showgrid": False,
            "ticks": "",
        },
    )
    return figure
