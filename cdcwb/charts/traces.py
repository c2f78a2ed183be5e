"""What several charts draw: bars by row and by time, heatmaps, markers, and their axes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import plotly.graph_objects as go

from cdcwb.charts import theme
from cdcwb.charts.spans import PositionScale
from cdcwb.charts.theme import Look
from cdcwb.times import later
from cdcwb.words import count, local, moment, plural, zone_name

_COLUMNS: Final = {"type": "category", "showgrid": False, "ticks": ""}


def known_first(looks: Mapping[str, Look], names: Iterable[str | None]) -> list[str | None]:
    """Different names in the order of their looks, then those without a look by name."""
    known = list(looks)
    return sorted(set(names), key=lambda name: (known.index(name) if name in known else len(known), name or ""))


def on_axis(time: datetime) -> str:
    """A time as a coordinate."""
    return local(time).isoformat(sep=" ", timespec="microseconds")


def date_axis(title: str = "time", **more: Any) -> dict[str, Any]:
    """An axis of times, with the zone in its title."""
    return {"type": "date", "title": {"text": f"{title} ({zone_name()})"}, **more}


def line_axis(labels: Sequence[str], **more: Any) -> dict[str, Any]:
    """An axis of lines or columns with these labels, from 0."""
    return {"tickvals": list(range(len(labels))), "ticktext": list(labels), "showgrid": False, "ticks": ""} | more


def position_axis(scale: PositionScale, title: str, anchor: str) -> dict[str, Any]:
    """An axis of log positions."""
    places, texts = scale.ticks()
    labels = ["<br>".join(theme.label(line, 40) for line in scale.short(text)) for text in texts]
    return {"type": "linear", "tickvals": places, "ticktext": labels, "title": {"text": title}, "anchor": anchor}


def add_bars(
    figure: go.Figure,
    look: Look,
    name: str,
    lines: Sequence[Any],
    numbers: Iterable[float],
    texts: Sequence[Sequence[str]],
    hover: str,
    upright: bool = False,
    **more: Any,
) -> None:
    """A horizontal bar on each of some lines, or an upright one at each of some places. ``hover`` is plotly's template
    over the ``texts`` of each bar."""
    lengths = theme.column(number or None for number in numbers)  # a bar of length 0 would have an outline
    ends = (theme.column(lines), lengths) if upright else (lengths, theme.column(lines))
    figure.add_bar(
        orientation="v" if upright else "h",
        name=name,
        **dict(zip("xy", ends, strict=True)),
        marker=look.bar(),
        customdata=theme.column(texts),
        hovertemplate=f"{hover}<extra></extra>",
        **more,
    )


def totals_of(rows: Iterable[Mapping[str, Any]], line: str, number: str) -> Counter[Any]:
    """The sums of a column by the values of another."""
    totals: Counter[Any] = Counter()
    for row in rows:
        totals[row[line]] += row[number]
    return totals


def stacks(
    rows: Sequence[Mapping[str, Any]],
    columns: tuple[str, str, str],
    looks: dict[str, Look],
    labels: Mapping[Any, str],
    words: Callable[[int, int], str],
    hover: str,
    unit: str,
    missing: str = "not given",
    **layout: Any,
) -> go.Figure:
    """A stack of bars on each of some lines, from the bottom, each with its total. ``columns``: those with the line,
    the part of the stack and the number, which counts a ``unit``; ``labels``: the lines. ``hover`` is plotly's template
    over the label and the ``words`` of number and total; WORD is the part."""
    line, part, number = columns
    totals, lines = totals_of(rows, line, number), list(labels)
    figure = theme.figure(barmode="stack", **layout)
    for name in known_first(looks, (row[part] for row in rows)):
        some = {row[line]: row[number] for row in rows if row[part] == name}
        look, at = theme.look(looks, name, missing), [lines.index(one) for one in some]
        texts = [[labels[one], words(n, totals[one])] for one, n in some.items()]
        title = f"{look.title} ({count(sum(some.values()))})"
        add_bars(figure, look, title, at, some.values(), texts, hover.replace("WORD", look.title))
    yaxis = line_axis([f"{label}  {count(totals[one])}" for one, label in labels.items()])
    return figure.update_layout(xaxis=theme.counts(max(totals.values(), default=0), f"{unit}s"), yaxis=yaxis)


def add_bins(
    figure: go.Figure, look: Look, name: str, bins: Iterable[tuple[datetime, int]], width_us: int, hover: str
) -> None:
    """A bar for each bin of ``width_us`` microseconds: its begin and its number of changes. ``hover`` is plotly's
    template over the number in words and the begin."""
    shown = list(bins)
    half = timedelta(microseconds=width_us) / 2
    middles, numbers = [on_axis(later(begin, half)) for begin, _ in shown], [number for _, number in shown]
    texts = [[plural(number, "change"), moment(begin)] for begin, number in shown]
    add_bars(figure, look, name, middles, numbers, texts, hover, upright=True, width=width_us / 1000)


def add_markers(
    figure: go.Figure,
    name: str,
    rows: Sequence[Mapping[str, Any]],
    x: Sequence[Any],
    y: Sequence[float],
    marker: Mapping[str, Any],
    texts: Sequence[Sequence[str]],
    hover: str,
    **more: Any,
) -> None:
    """A marker for each row, which leads to its record. ``hover`` is plotly's template over the ``texts`` of each."""
    figure.add_scatter(
        mode=more.pop("mode", "markers"),
        name=name,
        ids=theme.records_of(rows),
        x=theme.column(x),
        y=theme.column(y),
        marker={"line": {"color": theme.INK, "width": 1}, **marker},
        customdata=theme.column(texts),
        hovertemplate=f"{hover}<extra></extra>",
        **more,
    )


def heatmap(
    x: Sequence[Any],
    labels: Sequence[str],
    z: Sequence[Sequence[Any]],
    words: Sequence[Sequence[str]],
    height: int,
    largest: float,
    bar: Mapping[str, Any],
    xaxis: Mapping[str, Any] | None = None,
    yaxis: Mapping[str, Any] | None = None,
    **trace: Any,
) -> go.Figure:
    """Cells in colours from 0 to ``largest``, a line for each label; ``words`` are their hover texts, ``bar`` the
    options of the colour bar, whose ``title`` is a text."""
    colourbar = {**bar, "title": {"text": bar["title"], "side": "right"}, "thickness": 12, "outlinewidth": 0}
    cells = {"xgap": 1, "ygap": 1, "hoverongaps": False, "hovertemplate": "%{text}<extra></extra>"}
    cells |= {"zmin": 0, "zmax": largest, "colorscale": theme.SCALE, "colorbar": colourbar}
    drawn = go.Heatmap(x=x, y=labels, z=theme.column(z), text=theme.column(words), **cells | trace)
    across = {"showgrid": False, **xaxis} if xaxis and "type" in xaxis else {**_COLUMNS, **(xaxis or {})}
    return theme.figure(height, [drawn], xaxis=across, yaxis={**_COLUMNS, **(yaxis or {})})


def lanes_axis(domain: list[float], anchor: str, reach: list[float], **more: Any) -> dict[str, Any]:
    """An axis of lanes: zooming changes the other axis only, in all lanes."""
    look = {"domain": domain, "range": reach, "anchor": anchor, "fixedrange": True, "ticks": "", "showgrid": False}
    return look | more


def no_content(figure: go.Figure, text: str) -> None:
    """Makes a figure one sentence without axes."""
    figure.add_annotation(text=text, showarrow=False, font={"color": theme.MUTED, "size": 14})
    figure.update_xaxes(visible=False).update_yaxes(visible=False)
