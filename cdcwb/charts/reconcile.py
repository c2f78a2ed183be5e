"""Charts of row counts over time, of one row's history, and of the comparison of two captures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import plotly.graph_objects as go

from cdcwb.charts import theme
from cdcwb.charts.traces import add_bars, add_bins, add_markers, date_axis, line_axis, on_axis
from cdcwb.times import TimeAxis, axis_of, later, micros
from cdcwb.words import count, duration, moment, plural

Record = Mapping[str, Any]

MOST_ROWS: Final = 40
"""Maximum number of columns that are drawn: those with the highest numbers."""

KINDS: Final[dict[str, theme.Look]] = {
    "missing": theme.Look("missing", theme.SAFE[1], "/"),
    "extra": theme.Look("extra", theme.SAFE[0], "x", theme.INK),
    "different": theme.Look("different", theme.SAFE[6]),
    "late": theme.Look("late", theme.SAFE[2], ".", theme.INK),
}
_ROW: Final = 22


def rows_over_time(points: Sequence[tuple[datetime | None, int]], first: datetime, last: datetime) -> go.Figure:
    """The number of rows of a table as a step line from ``first`` to ``last``.

    ``points``: the end of an interval -> the number of rows then, in order; the initial number is under None.
    """
    steps = {end: number for end, number in points if end is not None}
    ends = [first, *steps, max([last, *steps])]
    numbers = [dict(points).get(None, 0), *steps.values()]
    numbers.append(numbers[-1])
    trace = go.Scatter(
        x=[on_axis(end) for end in ends],
        y=numbers,
        mode="lines",
        line={"shape": "hv", "color": theme.SAFE[6], "width": 2},
        customdata=[[plural(number, "row"), moment(end)] for end, number in zip(ends, numbers, strict=True)],
        hovertemplate="%{customdata[0]}<br>from %{customdata[1]}<extra></extra>",
    )
    xaxis, yaxis = date_axis("time of the commit"), theme.counts(max(numbers), "rows")
    figure = theme.figure(height=300, traces=[trace], xaxis=xaxis, yaxis=yaxis)
    theme.limit_time(figure, axis_of([micros(end) for end in steps]), "step")
    return figure


def row_life(changes: Sequence[Record]) -> go.Figure:
    """The columns of one row that were written over time: a line for each column, the most written at the bottom;
    symbol and colour by operation, hollow if the change was undone.

    Records: ``at`` (aware; records without it are left out), ``operation``, ``taken_back`` (bool), ``outcome`` (words)
    and ``differences`` (``column``, ``told``: the change in words).
    """
    timed = [change for change in changes if change["at"] is not None]
    written = Counter(difference["column"] for change in timed for difference in change["differences"])
    names = sorted(written, key=lambda name: (-written[name], name))[:MOST_ROWS]
    places = {name: number for number, name in enumerate(names)}
    figure = theme.figure(height=_ROW * max(3, len(names)) + 120)
    for operation in dict.fromkeys(change["operation"] for change in timed):
        look = theme.look(theme.OPERATIONS, operation)
        for back in (False, True):
            some = [c for c in timed if c["operation"] == operation and c["taken_back"] is back]
            pairs = [(c, d) for c in some for d in c["differences"] if d["column"] in places]
            points = [
                {**c, "line": places[d["column"]], "words": f"{theme.label(d['column'])}: {theme.label(d['told'])}"}
                for c, d in pairs
            ]
            points += [{**change, "line": 0, "words": ""} for change in some if not change["differences"]]
            if points:
                symbol = f"{look.symbol or 'diamond'}{'-open' if back else ''}"
                marker = {"symbol": symbol, "color": look.edge if back else look.colour, "size": 10}
                add_markers(
                    figure,
                    f"{look.title}, rolled back or undone" if back else look.title,
                    points,
                    [on_axis(point["at"]) for point in points],
                    [point["line"] for point in points],
                    {**marker, "line": {"color": look.edge, "width": 1}},
                    [[moment(point["at"]), theme.label(point["outcome"]), point["words"]] for point in points],
                    f"{look.title}, %{{customdata[1]}}<br>%{{customdata[0]}}<br>%{{customdata[2]}}",
                )
    lines = [f"{theme.label(name, 30)}  {count(written[name])}" for name in names]
    height = [-0.7, max(len(names), 2) - 0.3]
    yaxis = line_axis(lines, range=height, showgrid=True, ticks="outside")
    figure.update_layout(showlegend=True, xaxis=date_axis(), yaxis=yaxis)
    theme.limit_time(figure, axis_of([micros(change["at"]) for change in timed]), "change")
    return figure


def difference_rates(records: Iterable[Record]) -> go.Figure:
    """The share of matched changes in which each column differs, highest at the top.

    Records: ``table``, ``column``, ``different``, ``compared`` (int), ``rate`` (0 to 1).
    """
    rows = sorted(records, key=lambda row: (row["rate"], row["table"], row["column"]))[-MOST_ROWS:]
    names = [f"{row['table']}.{row['column']}" for row in rows]
    texts = [
        [theme.label(name), count(row["different"]), plural(row["compared"], "change")]
        for name, row in zip(names, rows, strict=True)
    ]
    figure = theme.figure(height=_ROW * max(2, len(rows)) + 110, bargap=0.3, showlegend=False)
    hover = "%{customdata[0]}<br>differs in %{customdata[1]} of %{customdata[2]}"
    add_bars(figure, KINDS["different"], "different", range(len(rows)), [row["rate"] for row in rows], texts, hover)
    labels = [f"{theme.label(name, 40)}  {count(row['different'])}" for name, row in zip(names, rows, strict=True)]
    title = {"text": "share of the matched changes that differ in the column"}
    figure.update_layout(xaxis={"title": title, "rangemode": "tozero", "tickformat": ".2~%"}, yaxis=line_axis(labels))
    return figure


def delays(records: Sequence[Record]) -> go.Figure:
    """The delays of matched changes: a bar for each bin, shortest first; bins have different widths.

    Records: ``from_us`` (None: below 0), ``to_us`` (excluded, None: no end), ``changes``, ``late`` (int).
    """
    labels = [_span(row) for row in records]
    xaxis = line_axis(labels, tickangle=-40, title={"text": "time in the target minus time in the source"})
    yaxis = theme.counts(max((row["changes"] for row in records), default=0), "matched changes")
    figure = theme.figure(height=320, barmode="stack", bargap=0.08, showlegend=True, xaxis=xaxis, yaxis=yaxis)
    parts = [(theme.Look("in time", theme.SAFE[6]), [row["changes"] - row["late"] for row in records])]
    parts += [(KINDS["late"], late)] if any(late := [row["late"] for row in records]) else []
    for look, numbers in parts:
        texts = [[plural(number, "change"), label] for number, label in zip(numbers, labels, strict=True)]
        hover = f"%{{customdata[0]}} {look.title}<br>%{{customdata[1]}}"
        add_bars(figure, look, look.title, range(len(records)), numbers, texts, hover, upright=True)
    return figure


def _span(row: Record) -> str:
    begin, end = row["from_us"], row["to_us"]
    if begin is None:
        return "before the source"
    if begin == 0:
        return "none"
    if end is None:
        return f"from {_short(begin)} on"
    return f"under {_short(end)}" if begin == 1 else f"{_short(begin)} to {_short(end)}"


def _short(microseconds: int) -> str:
    if microseconds < 1_000_000:
        return f"{microseconds // 1000} ms"
    return duration(microseconds).removesuffix(" 0 s").removesuffix(" 0 min").removesuffix(" 0 h")


def differences_over_time(
    records: Sequence[Record], first: datetime, last: datetime, width_us: int, axis: TimeAxis | None = None
) -> go.Figure:
    """Differences by commit time, as stacked bars. ``axis``: the range of the time axis.

    Records: ``began_at`` (aware: a bin of ``width_us`` microseconds), ``missing``, ``extra``, ``different``, ``late``.
    """
    ends = [on_axis(first), on_axis(later(last, timedelta(microseconds=width_us)))]
    xaxis = date_axis("time of the commit", range=ends, showgrid=False)
    yaxis = theme.counts(max((sum(row[name] for name in KINDS) for row in records), default=0), "changes")
    figure = theme.figure(height=320, barmode="stack", bargap=0, showlegend=True, xaxis=xaxis, yaxis=yaxis)
    for name, look in KINDS.items():
        bins = [(row["began_at"], row[name]) for row in records if row[name]]
        if bins:
            hover = f"%{{customdata[0]}} {look.title}<br>from %{{customdata[1]}} for {duration(width_us)}"
            add_bins(figure, look, look.title, bins, width_us, hover)
    theme.limit_time(figure, axis, "change")
    return figure
