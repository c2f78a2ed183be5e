"""Charts of latencies: from changes to their commit, from begin to end of transactions, and of lags by hop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import plotly.graph_objects as go

from cdcwb.charts import theme
from cdcwb.charts.traces import add_bars, date_axis, line_axis, on_axis
from cdcwb.times import TimeAxis, axis_of, micros
from cdcwb.words import count, duration, moment, plural, rounded

Record = Mapping[str, Any]


def latency(bins: Iterable[Record], marks: Mapping[str, int | None], what: str, title: str) -> go.Figure:
    """The number of ``what`` (``change``) by latency, in bins that grow by 1, 2, 5; above a bar are those of ``marks``
    that it has (``{"p95": 20090050}``, in microseconds; None is not drawn).

    Bins: ``bin`` (words), ``from_us`` (int; None: below 0), ``count`` (int), ascending and without gaps except after 0.
    ``title`` is the title of the axis.
    """
    rows = list(bins)
    total, largest = sum(row["count"] for row in rows), max((row["count"] for row in rows), default=0)
    above: list[list[str]] = [[] for _ in rows]
    for name, value in marks.items():
        if value is not None and rows:
            place = sum(row["from_us"] is None or row["from_us"] <= value for row in rows) - 1
            above[place].append(f"{name} {rounded(value)}")
    texts = [
        [_range(rows, number), plural(row["count"], what), f"{row['count'] / total:.1%} of {count(total)}"]
        for number, row in enumerate(rows)
    ]
    xaxis = line_axis([theme.label(row["bin"]) for row in rows], title={"text": title})
    yaxis = theme.counts(largest, f"{what}s")
    figure = theme.figure(height=300, showlegend=False, bargap=0.06, xaxis=xaxis, yaxis=yaxis)
    words = {"text": ["<br>".join(names) for names in above], "textposition": "outside", "cliponaxis": False}
    look, hover = theme.OUTCOMES["committed"], "%{customdata[1]}, %{customdata[2]}<br>%{customdata[0]}"
    numbers = [row["count"] for row in rows]
    add_bars(figure, look, title, range(len(rows)), numbers, texts, hover, upright=True, **words)
    return figure


_SHARES: Final = {"p50": ("solid", theme.SAFE[4]), "p95": ("dash", theme.SAFE[3]), "p99": ("dot", theme.SAFE[9])}
"""The dash and the colour of each percentile."""

_PANEL: Final = 150


def lag_over_time(bins: Sequence[Record], names: Mapping[str, str], axis: TimeAxis | None = None) -> go.Figure:
    """p50, p95 and p99 of the lag over time, a panel for each hop.

    Bins: ``hop``, ``at`` (aware), ``known``, ``p50_us``, ``p95_us``, ``p99_us``, ``negative``. ``names`` are those of
    the hops, in order.
    """
    hops = [hop for hop in names if any(row["hop"] == hop for row in bins)]
    figure = theme.figure(height=_PANEL * max(1, len(hops)) + 110, showlegend=True)
    domains = theme.domains([_PANEL] * len(hops), 40)
    for number, (hop, domain) in enumerate(zip(hops, domains, strict=True)):
        rows = [row for row in bins if row["hop"] == hop]
        name = f"y{number + 1}" if number else "y"
        for share, (dash, colour) in _SHARES.items():
            texts = [
                [f"{share} {rounded(row[f'{share}_us'])}, {plural(row['known'], 'change')}", moment(row["at"])]
                for row in rows
            ]
            figure.add_scatter(
                mode="lines+markers",
                name=share,
                legendgroup=share,
                showlegend=number == 0,
                x=[on_axis(row["at"]) for row in rows],
                y=[row[f"{share}_us"] / 1_000_000 for row in rows],
                yaxis=name,
                line={"color": colour, "dash": dash, "width": 2},
                marker={"color": colour, "size": 5},
                customdata=texts,
                hovertemplate=f"{names[hop]}<br>%{{customdata[0]}}<br>from %{{customdata[1]}}<extra></extra>",
            )
        look = {"domain": domain, "ticksuffix": " s", "zeroline": True, "zerolinecolor": theme.FAINT}
        look |= {"title": {"text": names[hop]}}
        lowest = min(row["p50_us"] for row in rows)
        figure.update_layout({f"yaxis{name[1:]}": look | {"rangemode": "tozero" if lowest >= 0 else "normal"}})
    figure.update_layout(xaxis=date_axis("time at the source", anchor=f"y{len(hops)}" if len(hops) > 1 else "y"))
    theme.limit_time(figure, axis or axis_of([micros(row["at"]) for row in bins]), "time")
    return figure


def _range(rows: list[Record], number: int) -> str:
    """The range of a bin, in words."""
    low = rows[number]["from_us"]
    if low is None:
        return "below 0: the commit's clock was behind"
    high = rows[number + 1]["from_us"] if number + 1 < len(rows) else None
    if low == 0:
        return "at the same time"
    words = f"from {duration(low)}"
    return words + (f" to less than {duration(high)}" if high is not None else " on")
