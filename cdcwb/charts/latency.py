"""Charts of latencies: from changes to their commit, from begin to end of transactions, and of lags by hop."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import plotly.graph_objects as go

from cdcwb.charts import theme
from cdcwb.charts.traces import date_axis, on_axis
from cdcwb.times import TimeAxis, axis_of, micros
from cdcwb.words import count, duration, joined, moment, plural, rounded

__all__ = ["lag_over_time", "latency"]

Record = Mapping[str, Any]

_SLOT: Final = 0.4  # in powers of ten: width of the slots for 0 and below, which a logarithmic axis lacks
_LEVEL: Final = 15  # pixels between the labels of lines
_NEAR: Final = 0.2  # of the axis: labels of lines nearer than this are at different levels
_FEW: Final = 12  # bins that all get a label


def latency(bins: Iterable[Record], marks: Mapping[str, int | None], what: str, title: str) -> go.Figure:
    """The number of ``what`` (``change``) by latency, in bins that grow by 1, 2, 5, with a line at each of ``marks``
    (``{"p95": 20090050}``, in microseconds; None is not drawn).

    Bins: ``bin`` (words), ``from_us`` (int; None: below 0), ``count`` (int), ascending and without gaps except after 0.
    ``title`` is the title of the axis, which is logarithmic. Lines are at their exact values; lines with the same value
    are merged. Values of 0 and below have slots of their own before the axis.
    """
    rows = list(bins)
    total = sum(row["count"] for row in rows)
    ends = _ends(rows, max((value for value in marks.values() if value is not None), default=0))
    low, high = (ends[0][0], ends[-1][1]) if ends else (0.0, 1.0)
    lines: dict[int, list[str]] = {}
    for name, value in marks.items():
        if value is not None and rows:
            lines.setdefault(value, []).append(name)
    levels = _levels([_coordinate(value, low, rows) for value in lines], high - low)
    margin = {"l": 12, "r": 16, "t": 46 + _LEVEL * (max(levels, default=0) + 1), "b": 12}  # below the buttons
    height = 260 + margin["t"]
    figure = theme.figure(height=height, showlegend=False, margin=margin)
    figure.add_bar(
        x=[(left + right) / 2 for left, right in ends],
        width=[0.94 * (right - left) for left, right in ends],
        y=[row["count"] or None for row in rows],
        marker=theme.OUTCOMES["committed"].bar(),
        customdata=[
            [_range(rows, number), plural(row["count"], what), f"{row['count'] / total:.1%} of {count(total)}"]
            for number, row in enumerate(rows)
        ],
        hovertemplate="%{customdata[1]}, %{customdata[2]}<br>%{customdata[0]}<extra></extra>",
    )
    for (value, names), level in zip(lines.items(), levels, strict=True):
        coordinate = _coordinate(value, low, rows)
        figure.add_shape(
            type="line",
            x0=coordinate,
            x1=coordinate,
            y0=0,
            y1=1,
            yref="y domain",
            line={"color": theme.INK, "width": 1, "dash": "dot"},
        )
        figure.add_annotation(
            x=coordinate,
            y=1,
            yref="y domain",
            yshift=_LEVEL * level,
            text=theme.label(joined(names)),
            hovertext=duration(value),
            showarrow=False,
            xanchor="center",
            yanchor="bottom",
            font={"color": theme.INK, "size": 11},
        )
    named = [
        (left if row["from_us"] else (left + right) / 2, row["bin"])
        for row, (left, right) in zip(rows, ends, strict=True)
        if len(rows) <= _FEW or not row["from_us"] or str(row["from_us"]).startswith("1")
    ]
    figure.update_layout(
        xaxis={
            "tickvals": [coordinate for coordinate, _ in named],
            "ticktext": [theme.label(name) for _, name in named],
            "range": [low - 0.02 * (high - low), high + 0.02 * (high - low)],
            "title": {"text": title},
            "showgrid": False,
        },
        yaxis=theme.counts(max((row["count"] for row in rows), default=0), f"{what}s"),
    )
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


def _ends(rows: list[Record], most: int) -> list[tuple[float, float]]:
    """The bounds of each bin on the axis; the last bin has room for ``most``."""
    known = [row["from_us"] for row in rows if row["from_us"]]
    places = [math.log10(us) for us in known]
    if known:
        following = known[-1] * 5 // 2 if str(known[-1]).startswith("2") else known[-1] * 2  # 1, 2, 5, 10
        places.append(math.log10(max(following, most)))
    apart = len(rows) - len(known)
    first = places[0] if places else 0.0
    slots = [(first - _SLOT * (apart - n), first - _SLOT * (apart - n - 1)) for n in range(apart)]
    return [*slots, *pairwise(places)]


def _coordinate(value: int, low: float, rows: list[Record]) -> float:
    """The coordinate of a value on an axis that begins at ``low``."""
    if value > 0:
        return math.log10(value)
    has_both = value == 0 and rows[0]["from_us"] is None
    return low + _SLOT * (1.5 if has_both else 0.5)


def _levels(places: list[float], width: float) -> list[int]:
    """The level of each line's label above the bars, so that labels of adjacent lines do not overlap."""
    levels: list[int] = []
    for number, coordinate in enumerate(places):
        taken = {levels[n] for n in range(number) if abs(places[n] - coordinate) < _NEAR * width}
        levels.append(next(level for level in range(number + 1) if level not in taken))
    return levels
