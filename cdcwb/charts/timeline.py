"""Transactions side by side: by time, and by log position, since many sources keep time in whole seconds only.

Records in, figure out. A record is a mapping with what :func:`cdcwb.analysis.transactions.timeline` gives for a
transaction: ``transaction_id``, ``outcome``, ``completeness``, ``first_position``, ``end_position`` (text),
``began_at``, ``ended_at`` (aware datetimes), ``duration_us`` (int), ``changes`` (pairs of operation and number),
``tables`` (list), ``bytes``, ``user``. Null is None.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

import plotly.graph_objects as go

from cdcwb.charts import theme
from cdcwb.charts.hover import POSITION_TEXT, TIME_TEXT, tell
from cdcwb.charts.positions import PositionScale
from cdcwb.charts.spans import (
    EVENTS_MISSING,
    NO_BEGIN,
    NO_END,
    NO_END_TIME,
    STILL_OPEN,
    Record,
    Span,
    lay_out,
    on_positions,
    on_time,
    time_axis,
    whole_seconds,
)
from cdcwb.model import OffsetUnit, Outcome
from cdcwb.time_axis import TimeAxis, time_of
from cdcwb.words import count, local, plural, zone_name

__all__ = ["timeline"]


_LANE: Final = 15  # pixels a lane, as long as there is room
_PANEL: Final = (90, 420)  # least and largest height of a panel in pixels
_BREAKS: Final = 50  # lines between logs; more would hide the bars
_MARKS: Final = {
    STILL_OPEN: {"symbol": "triangle-right", "size": 11},
    NO_BEGIN: {"symbol": "triangle-left", "size": 11},
    NO_END: {"symbol": "triangle-right", "size": 11},
    EVENTS_MISSING: {"symbol": "diamond", "size": 9},
    NO_END_TIME: {"symbol": "x-thin", "size": 9, "line": {"color": theme.INK, "width": 2}},
}
_BAR: Final = 0.8  # of a lane
_PATTERNED: Final = 140  # lanes at most: narrower ones have no room for a pattern, and each costs the page
# Whenever plotly.js draws a bar it looks at all bars of its trace, so one trace of thousands freezes a page that zooms.
_TOGETHER: Final = 400
_FEW: Final = 4  # lanes that a panel has room for however few are used, so that a bar stays a bar
_ROOM: Final = 74  # pixels below a panel for its axis


def timeline(
    records: Iterable[Record],
    *,
    capture_end: datetime | None = None,
    last_position: str | None = None,
    unit: str = OffsetUnit.BYTE,
    named: bool = False,
    axis: TimeAxis | None = None,
) -> go.Figure:
    """A bar for every transaction from begin to end; above on the axis of time, below on the axis of log positions.

    Bars that overlap are in different lanes. A bar is at least :func:`~cdcwb.charts.spans.least_share` of its axis wide
    where the next one in its lane leaves room; the hover text has the true duration. Transactions without an end reach
    to ``capture_end`` and ``last_position`` (default: the last that the records know) and have a mark there; so do
    those of which events are missing. ``unit`` is what ``bytes`` counts where the capture's offsets are not bytes.
    ``named``: bars have their transaction as plotly's id. ``axis``: what the axis of time shows (default: the bulk of
    these times). What has no place on an axis is not drawn on it, and counted in the figure's ``layout.meta``:
    ``drawn``, ``on_time``, ``on_positions``, ``time_lanes``, ``position_lanes``, ``widened`` (drawn wider than they
    are, on the axis of time).
    """
    rows = list(records)
    times = on_time(rows, capture_end)
    scale = PositionScale(p for r in rows for p in (r["first_position"], r["end_position"], last_position))
    places = on_positions(rows, scale)
    shown = axis or time_axis(times)
    time_lanes, widened = lay_out(times, 1_000_000, shown)
    position_lanes, _ = lay_out(places, 1)

    tell(times, places, scale, unit)

    heights = [min(max(_LANE * lanes, _PANEL[0]), _PANEL[1]) for lanes in (time_lanes, position_lanes) if lanes]
    domains = theme.domains(heights, _ROOM)
    figure = theme.figure(height=sum(heights) + _ROOM * max(1, len(heights)) + 60, barmode="overlay", bargap=0.2)
    panel = 0
    if times:
        limits = shown if axis is not None or (shown is not None and shown.outside) else None
        _draw_time(figure, times, domains[panel], time_lanes, limits)
        panel += 1
    if places:
        _draw_positions(figure, places, scale, domains[panel], position_lanes, "2" if panel else "")
    figure.layout.meta = {
        **(figure.layout.meta or {}),
        "drawn": len(rows),
        "on_time": len(times),
        "on_positions": len(places),
        "time_lanes": time_lanes,
        "position_lanes": position_lanes,
        "widened": widened,
    }
    if not named:
        figure.update_traces(ids=None)
    if not rows:
        figure.add_annotation(text="no transactions", showarrow=False, font={"color": theme.MUTED, "size": 14})
        figure.update_xaxes(visible=False).update_yaxes(visible=False)
    return figure


def _draw_time(figure: go.Figure, spans: list[Span], domain: list[float], lanes: int, axis: TimeAxis | None) -> None:
    _draw(figure, spans, "", TIME_TEXT, lambda x: x / 1000, lambda x: _text(int(x)))
    low, high = _range(spans, 1_000_000)
    first = time_of(min(s.start for s in spans))
    shift = (local(first) - first.replace(tzinfo=None)) / timedelta(milliseconds=1)
    figure.update_layout(
        xaxis={
            "type": "date",
            "range": [low / 1000 + shift, high / 1000 + shift],
            "title": {"text": _time_title(spans, axis)},
            "anchor": "y",
        },
        yaxis=_lane_axis(domain, lanes, "x"),
    )
    theme.limit_time(figure, axis, "begin or end")


def _time_title(spans: list[Span], axis: TimeAxis | None) -> str:
    """The days are in the title because plotly writes them below the first tick only, which may be out of sight."""
    starts = [time_of(span.start) for span in spans]
    if axis is not None and axis.outside:
        starts = [axis.first, axis.last]
    first, last = (local(pick(starts)).date().isoformat() for pick in (min, max))
    days = first if first == last else f"{first} to {last}"
    return f"time, {days} ({zone_name()})" + (", in whole seconds" if whole_seconds(spans) else "")


def _draw_positions(
    figure: go.Figure, spans: list[Span], scale: PositionScale, domain: list[float], lanes: int, name: str
) -> None:
    _draw(figure, spans, name, POSITION_TEXT, float, float)
    places, texts = scale.ticks()
    axes = {
        f"xaxis{name}": {
            "type": "linear",
            "range": _range(spans, 1),
            "tickvals": places,
            "ticktext": ["<br>".join(theme.label(line, 40) for line in scale.short(t)) for t in texts],
            "tickangle": 0,  # turned labels would change the margins, and all is drawn twice then
            "title": {"text": _position_title(scale)},
            "anchor": f"y{name}",
        },
        f"yaxis{name}": _lane_axis(domain, lanes, f"x{name}"),
    }
    figure.update_layout(**axes)
    for place in scale.breaks[:_BREAKS]:
        figure.add_shape(
            type="line",
            xref=f"x{name}",
            yref=f"y{name} domain",
            x0=place,
            x1=place,
            y0=0,
            y1=1,
            line={"color": theme.MUTED, "width": 1, "dash": "dot"},
        )


def _position_title(scale: PositionScale) -> str:
    if scale.in_numbers:
        return f"log position, {scale.days}: commit time and end of the change number"
    of_days = f", {scale.days}: commit time and end of the change number" if scale.days else ""
    return f"log position{of_days} ({scale.unit}{f', next {scale.log} at the dotted line' if scale.breaks else ''})"


def _draw(figure: go.Figure, spans: list[Span], axis: str, template: str, length: Any, place: Any) -> None:
    """The bars of a panel, a trace or several for each outcome, and its marks. A name is in the legend once."""
    named = {trace.legendgroup for trace in figure.data}
    refs = {"xaxis": f"x{axis}", "yaxis": f"y{axis}"}
    known = [o.value for o in Outcome]
    outcomes = sorted(
        {s.record["outcome"] or "" for s in spans}, key=lambda o: (known.index(o) if o in known else len(known), o)
    )
    for outcome in outcomes:
        these = [s for s in spans if (s.record["outcome"] or "") == outcome]
        look = theme.look(theme.OUTCOMES, outcome or None)
        group = f"outcome {look.title}"
        marker = look.bar()
        if max(s.lane for s in spans) >= _PATTERNED:
            del marker["pattern"]
        for first in range(0, len(these), _TOGETHER):
            some = these[first : first + _TOGETHER]
            figure.add_bar(
                orientation="h",
                name=f"{look.title} ({count(len(these))})",
                legendgroup=group,
                showlegend=group not in named and not first,
                base=[place(s.start) for s in some],
                x=[length(s.drawn) for s in some],
                y=[s.lane for s in some],
                width=_BAR,
                marker=marker,
                customdata=[s.hover for s in some],
                ids=[s.record["transaction_id"] for s in some],
                hovertemplate=template.replace("WORD", look.title),
                **refs,
            )
    for mark, marker in _MARKS.items():
        points = [(place(x), s.lane, s) for s in spans for kind, x in s.marks if kind == mark]
        if points:
            figure.add_scatter(
                mode="markers",
                name=mark,
                legendgroup=mark,
                showlegend=mark not in named,
                x=[x for x, _, _ in points],
                y=[lane for _, lane, _ in points],
                marker={"color": theme.INK, "line": {"color": theme.INK, "width": 1}} | marker,
                customdata=[s.hover[:1] for _, _, s in points],
                hovertemplate="<b>%{customdata[0]}</b><br>" + mark + "<extra></extra>",
                **refs,
            )


def _range(spans: list[Span], least: int) -> list[float]:
    """What an axis shows: all bars, at least ``least`` of its units, and a little more for the marks at its ends."""
    low, high = min(s.start for s in spans), max(s.start + s.drawn for s in spans)
    margin = max((high - low) * 0.015, (least - (high - low)) / 2)
    return [low - margin, high + margin]


def _lane_axis(domain: list[float], lanes: int, anchor: str) -> dict[str, Any]:
    return {
        "domain": domain,
        "range": [max(lanes, _FEW) - 0.4, -0.6],
        "fixedrange": True,  # a box looks closer at a part of the axis, in all lanes
        "showticklabels": False,
        "ticks": "",
        "showgrid": False,
        "title": {"text": f"{plural(lanes, 'lane')}", "standoff": 4},
        "anchor": anchor,
    }


def _text(micros: int) -> str:
    return local(time_of(micros)).isoformat(sep=" ", timespec="microseconds")
