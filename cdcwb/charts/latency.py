"""How long changes wait for their commit, and transactions for their end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import plotly.graph_objects as go

from cdcwb.charts import theme
from cdcwb.words import count, duration, plural

__all__ = ["latency"]

Record = Mapping[str, Any]


def latency(bins: Iterable[Record], marks: Mapping[str, int | None], what: str, title: str) -> go.Figure:
    """How many of ``what`` (``change``) took how long, in bins that grow by 1, 2, 5, with a line at each of ``marks``
    (``{"p95": 20090050}``, in microseconds; None is not drawn).

    Bins: ``bin`` (words), ``from_us`` (int; None: below 0), ``count`` (int), from short to long and without gaps but
    after 0. ``title`` names the axis. A line is where its value is within its bin, also in the last one.
    """
    rows = list(bins)
    look = theme.OUTCOMES["committed"]
    total = sum(row["count"] for row in rows)
    margin = {"l": 12, "r": 16, "t": 84, "b": 12}  # the names of the lines stand below the buttons
    figure = theme.figure(height=320, bargap=0.12, showlegend=False, margin=margin)
    figure.add_bar(
        x=list(range(len(rows))),
        y=[row["count"] for row in rows],
        marker=look.bar(),
        customdata=[
            [_range(rows, number), plural(row["count"], what), f"{row['count'] / total:.1%} of {count(total)}"]
            for number, row in enumerate(rows)
        ],
        hovertemplate="%{customdata[1]}, %{customdata[2]}<br>%{customdata[0]}<extra></extra>",
    )
    highest = max((row["count"] for row in rows), default=0)
    for step, (name, value) in enumerate((name, value) for name, value in marks.items() if value is not None):
        place = _place(rows, value)
        figure.add_shape(
            type="line",
            x0=place,
            x1=place,
            y0=0,
            y1=1,
            yref="y domain",
            line={"color": theme.INK, "width": 1, "dash": "dot"},
        )
        figure.add_annotation(
            x=place,
            y=1 + 0.09 * (step % 3),
            yref="y domain",
            text=theme.label(name),
            showarrow=False,
            xanchor="center",
            yanchor="bottom",
            font={"color": theme.INK, "size": 11},
        )
    figure.update_layout(
        xaxis={
            "tickvals": [number - 0.5 if row["from_us"] else number for number, row in enumerate(rows)],
            "ticktext": [theme.label(row["bin"]) for row in rows],
            "range": [-0.7, len(rows) - 0.3],
            "title": {"text": title},
            "showgrid": False,
        },
        yaxis={
            "title": {"text": f"{what}s"},
            "rangemode": "tozero",
            "tickformat": ",d",
            **({"dtick": 1} if highest < 6 else {}),
        },
    )
    return figure


def _range(rows: list[Record], number: int) -> str:
    """What is in a bin, in words."""
    low = rows[number]["from_us"]
    if low is None:
        return "below 0: the commit's clock was behind"
    high = rows[number + 1]["from_us"] if number + 1 < len(rows) else None
    if low == 0:
        return "at the same time"
    words = f"from {duration(low)}"
    return words + (f" to less than {duration(high)}" if high is not None else " on")


def _place(rows: list[Record], value: int) -> float:
    """Where a value stands on the axis of bins."""
    for number in reversed(range(len(rows))):
        low = rows[number]["from_us"]
        if low is None or low <= value:
            if not low:
                return float(number)
            following = low * 5 // 2 if str(low).startswith("2") else low * 2  # 1, 2, 5, 10
            high = rows[number + 1]["from_us"] if number + 1 < len(rows) else following
            return number - 0.5 + min(1.0, (value - low) / (high - low))
    return 0.0
