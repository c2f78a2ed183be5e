"""How many transactions are open at once, as steps over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import plotly.graph_objects as go

from cdcwb.charts import theme
from cdcwb.time_axis import TimeAxis
from cdcwb.words import count, local, moment, plural, zone_name

__all__ = ["concurrency"]

Record = Mapping[str, Any]


def concurrency(
    steps: Iterable[Record], most: int, at: datetime | None, *, exact: bool = True, axis: TimeAxis | None = None
) -> go.Figure:
    """How many transactions are open at once: a line that steps up and down, with a mark where it is highest.

    Steps: ``at`` (aware datetime), ``open`` (int, from then on until the next step), in the order of time. ``most`` is
    the highest, reached ``at`` first. ``exact`` False: a step may stand for several changes, of which it is the
    highest; the hover text says so. ``axis``: what the axis of time shows.
    """
    rows = list(steps)
    line = theme.OUTCOMES["committed"].colour
    told = "concurrent" if exact else "concurrent at most"
    figure = theme.figure(height=240, hovermode="x", showlegend=False)
    figure.add_scatter(
        mode="lines",
        x=[_text(row["at"]) for row in rows],
        y=[row["open"] for row in rows],
        line={"shape": "hv", "color": line, "width": 1.5},
        fill="tozeroy",
        customdata=[[moment(row["at"]), plural(row["open"], "transaction")] for row in rows],
        hovertemplate="%{customdata[1]} " + told + "<br>from %{customdata[0]}<extra></extra>",
    )
    if at is not None:
        figure.add_scatter(
            mode="markers+text",
            x=[_text(at)],
            y=[most],
            text=[f"most: {count(most)}"],
            textposition="top right",
            marker={"symbol": "diamond", "size": 9, "color": theme.INK},
            textfont={"color": theme.INK},
            hovertemplate=f"{plural(most, 'transaction')} concurrent, the maximum<br>from {moment(at)}<extra></extra>",
        )
    figure.update_layout(
        xaxis={"type": "date", "title": {"text": f"time ({zone_name()})"}},
        yaxis=theme.counts(most, "open transactions") | {"range": [0, most * 1.18 + 0.2]},
    )
    theme.limit_time(figure, axis, "begin or end")
    return figure


def _text(time: datetime) -> str:
    return local(time).isoformat(sep=" ", timespec="microseconds")
