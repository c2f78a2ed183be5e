"""Transactions side by side: by time, and by log position, since many sources keep time in whole seconds only.

Records in, figure out. A record is a mapping with what :func:`cdcwb.analysis.transactions.timeline` gives for a
transaction: ``transaction_id``, ``outcome``, ``completeness``, ``first_position``, ``end_position`` (text),
``began_at``, ``ended_at`` (aware datetimes), ``duration_us`` (int), ``changes`` (pairs of operation and number),
``tables`` (list), ``bytes``, ``user``. Null is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import plotly.graph_objects as go

from cdcwb.charts import theme
from cdcwb.charts.lanes import assign_lanes
from cdcwb.charts.positions import PositionScale
from cdcwb.model import Completeness, Outcome
from cdcwb.words import count, duration, moment, plural, size, tally

__all__ = ["timeline"]

Record = Mapping[str, Any]

LEAST_SHARE: Final = 1 / 400
"""The least drawn width of a bar as a share of the axis: about two pixels of a page, and something to point at."""

_LANE: Final = 15  # pixels a lane, as long as there is room
_PANEL: Final = (90, 420)  # least and largest height of a panel in pixels
_BREAKS: Final = 50  # lines between logs; more would hide the bars
_ROOM: Final = 74  # pixels below a panel for its axis
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

STILL_OPEN: Final = "still open when the capture ends"
NO_BEGIN: Final = "begin not in the capture"
NO_END_TIME: Final = "end time not in the stream"
_MARKS: Final = {
    STILL_OPEN: {"symbol": "triangle-right", "size": 11},
    NO_BEGIN: {"symbol": "triangle-left", "size": 11},
    NO_END_TIME: {"symbol": "x-thin", "size": 9, "line": {"width": 2}},
}


@dataclass(slots=True)
class _Span:
    """One transaction on one axis, in units of that axis; ``marks`` are (which of _MARKS, where)."""

    record: Record
    start: int
    end: int
    marks: list[tuple[str, int]] = field(default_factory=list)
    lane: int = 0
    drawn: float = 0.0


def timeline(
    records: Iterable[Record], *, capture_end: datetime | None = None, last_position: str | None = None
) -> go.Figure:
    """A bar for every transaction from begin to end; above on the axis of time, below on the axis of log positions.

    Bars that overlap stand in lanes. A bar is never narrower than :data:`LEAST_SHARE` of its axis; the hover text has
    the true duration. Transactions without an end reach to ``capture_end`` and ``last_position`` (default: the last
    that the records know) and carry a mark there. What has no place on an axis is not drawn on it, and counted in the
    figure's ``layout.meta``: ``drawn``, ``on_time``, ``on_positions``, ``time_lanes``, ``position_lanes``, ``widened``
    (drawn wider than they are, on the axis of time).
    """
    rows = list(records)
    times = _on_time(rows, capture_end)
    scale = PositionScale(p for r in rows for p in (r["first_position"], r["end_position"], last_position))
    places = _on_positions(rows, scale)
    time_lanes, widened = _lay_out(times, 1_000_000)
    position_lanes, _ = _lay_out(places, 1)

    heights = [min(max(_LANE * lanes, _PANEL[0]), _PANEL[1]) for lanes in (time_lanes, position_lanes) if lanes]
    domains = _domains(heights)
    figure = theme.figure(height=sum(heights) + _ROOM * max(1, len(heights)) + 60, barmode="overlay", bargap=0.2)
    axis = 0
    if times:
        _draw_time(figure, times, domains[axis], time_lanes)
        axis += 1
    if places:
        _draw_positions(figure, places, scale, domains[axis], position_lanes, "2" if axis else "")
    figure.layout.meta = {
        "drawn": len(rows),
        "on_time": len(times),
        "on_positions": len(places),
        "time_lanes": time_lanes,
        "position_lanes": position_lanes,
        "widened": widened,
    }
    if not rows:
        figure.add_annotation(text="no transactions", showarrow=False, font={"color": theme.MUTED, "size": 14})
        figure.update_xaxes(visible=False).update_yaxes(visible=False)
    return figure


def _on_time(rows: Sequence[Record], capture_end: datetime | None) -> list[_Span]:
    """Spans in microseconds since 1970. A transaction with neither time is left out."""
    known = [_micros(t) for r in rows for t in (r["began_at"], r["ended_at"]) if t is not None]
    last = max(known, default=0) if capture_end is None else _micros(capture_end)
    spans = []
    for row in rows:
        began, ended = row["began_at"], row["ended_at"]
        if began is None and ended is None:
            continue
        start = _micros(ended if began is None else began)
        span = _Span(row, start, start if ended is None else max(start, _micros(ended)))
        if began is None:
            span.marks.append((NO_BEGIN, start))
        if ended is None and row["outcome"] == Outcome.OPEN:
            span.end = max(start, last)
            span.marks.append((STILL_OPEN, span.end))
        elif ended is None:
            span.marks.append((NO_END_TIME, start))
        spans.append(span)
    return spans


def _on_positions(rows: Sequence[Record], scale: PositionScale) -> list[_Span]:
    """Spans in units of the scale. A transaction without any position is left out."""
    spans = []
    for row in rows:
        first, end = row["first_position"], row["end_position"]
        if first is None and end is None:
            continue
        start = scale.at(end if first is None else first)
        span = _Span(row, start, start if end is None else max(start, scale.at(end)))
        if row["completeness"] == Completeness.NO_BEGIN:
            span.marks.append((NO_BEGIN, start))
        if end is None:
            span.end = max(start, scale.span)
            span.marks.append((STILL_OPEN, span.end))
        spans.append(span)
    return spans


def _lay_out(spans: list[_Span], least_span: int) -> tuple[int, int]:
    """Give every span its drawn width and its lane; how many lanes there are, and how many spans are drawn wider than
    they are."""
    if not spans:
        return 0, 0
    whole = max(least_span, max(s.end for s in spans) - min(s.start for s in spans))
    least = whole * LEAST_SHARE
    for span in spans:
        span.drawn = max(least, span.end - span.start)
    lanes = assign_lanes([(s.start, s.start + s.drawn + least / 2) for s in spans])
    for span, lane in zip(spans, lanes, strict=True):
        span.lane = lane
    return max(lanes) + 1, sum(s.drawn > s.end - s.start for s in spans)


def _domains(heights: list[int]) -> list[list[float]]:
    """Where the panels stand, from the top, as shares of the drawing's height, with room for an axis between them."""
    total = sum(heights) + _ROOM * (len(heights) - 1)
    domains, top = [], 1.0
    for height in heights:
        bottom = max(0.0, top - height / total)
        domains.append([bottom, top])
        top = bottom - _ROOM / total
    return domains


def _draw_time(figure: go.Figure, spans: list[_Span], domain: list[float], lanes: int) -> None:
    whole_seconds = all(t.microsecond == 0 for s in spans for t in _times(s.record))
    template = (
        "<b>%{customdata[0]}</b> WORD<br>%{customdata[1]} to %{customdata[2]}<br>duration %{customdata[3]}"
        "<br>log position %{customdata[4]} to %{customdata[5]}<br>%{customdata[6]} in %{customdata[7]}"
        "<br>tables %{customdata[8]} · user %{customdata[9]}<extra></extra>"
    )
    _draw(
        figure,
        spans,
        "",
        template,
        lambda s: _time_hover(s, whole_seconds),
        lambda x: x / 1000,
        lambda x: _text(int(x)),
    )
    low, high = min(s.start for s in spans), max(s.start + s.drawn for s in spans)
    margin = (high - low) * 0.015
    figure.update_layout(
        xaxis={
            "type": "date",
            "range": [(low - margin) / 1000, (high + margin) / 1000],
            "title": {"text": "time (UTC)" + (", in whole seconds" if whole_seconds else "")},
            "anchor": "y",
        },
        yaxis=_lane_axis(domain, lanes, "x"),
    )


def _draw_positions(
    figure: go.Figure, spans: list[_Span], scale: PositionScale, domain: list[float], lanes: int, name: str
) -> None:
    template = (
        "<b>%{customdata[0]}</b> WORD<br>log position %{customdata[1]}<br>to %{customdata[2]}"
        "<br>%{customdata[3]}<br>duration %{customdata[4]}<extra></extra>"
    )
    _draw(figure, spans, name, template, lambda s: _position_hover(s, scale), float, float)
    places, texts = scale.ticks()
    high = max(s.start + s.drawn for s in spans)
    low = min(s.start for s in spans)
    margin = (high - low) * 0.015
    axes = {
        f"xaxis{name}": {
            "type": "linear",
            "range": [low - margin, high + margin],
            "tickvals": places,
            "ticktext": [theme.label(t, 40) for t in texts],
            "title": {"text": f"log position ({scale.unit}{', next log at the dotted line' if scale.breaks else ''})"},
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


def _draw(figure: go.Figure, spans: list[_Span], axis: str, template: str, hover: Any, length: Any, place: Any) -> None:
    """The bars of a panel, a trace for each outcome, and its marks. A name is in the legend once."""
    named = {trace.legendgroup for trace in figure.data}
    refs = {"xaxis": f"x{axis}", "yaxis": f"y{axis}"}
    known = [o.value for o in Outcome]
    outcomes = sorted(
        {s.record["outcome"] or "" for s in spans}, key=lambda o: (known.index(o) if o in known else len(known), o)
    )
    for outcome in outcomes:
        these = [s for s in spans if (s.record["outcome"] or "") == outcome]
        look = theme.look(theme.OUTCOMES, outcome or None)
        figure.add_bar(
            orientation="h",
            name=f"{look.title} ({count(len(these))})",
            legendgroup=f"outcome {look.title}",
            showlegend=f"outcome {look.title}" not in named,
            base=[place(s.start) for s in these],
            x=[length(s.drawn) for s in these],
            y=[s.lane for s in these],
            marker=look.bar(),
            customdata=[hover(s) for s in these],
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
                customdata=[[theme.label(s.record["transaction_id"], 44)] for _, _, s in points],
                hovertemplate="<b>%{customdata[0]}</b><br>" + mark + "<extra></extra>",
                **refs,
            )


def _lane_axis(domain: list[float], lanes: int, anchor: str) -> dict[str, Any]:
    return {
        "domain": domain,
        "range": [lanes - 0.4, -0.6],
        "showticklabels": False,
        "ticks": "",
        "showgrid": False,
        "title": {"text": f"{plural(lanes, 'lane')}", "standoff": 4},
        "anchor": anchor,
    }


def _time_hover(span: _Span, whole_seconds: bool) -> list[str]:
    row = span.record
    return [
        theme.label(row["transaction_id"], 44),
        moment(row["began_at"], NO_BEGIN),
        moment(row["ended_at"], _no_end(row)),
        _duration(row, span, whole_seconds),
        theme.label(row["first_position"], 40),
        theme.label(row["end_position"], 40),
        theme.label(tally(row["changes"]), 60),
        size(row["bytes"]),
        theme.label(_tables(row["tables"]), 44),
        theme.label(row["user"], 24),
    ]


def _position_hover(span: _Span, scale: PositionScale) -> list[str]:
    row = span.record
    used = span.end - span.start
    extent = f"{size(used)} of log" if scale.in_bytes else f"{plural(used, 'place')} in the order of the log"
    return [
        theme.label(row["transaction_id"], 44),
        theme.label(row["first_position"], 40) + (f" ({NO_BEGIN})" if row["completeness"] == "no_begin" else ""),
        STILL_OPEN if row["end_position"] is None else theme.label(row["end_position"], 40),
        extent,
        "not known" if row["duration_us"] is None else duration(row["duration_us"]),
    ]


def _no_end(row: Record) -> str:
    return STILL_OPEN if row["outcome"] == Outcome.OPEN else NO_END_TIME


def _duration(row: Record, span: _Span, whole_seconds: bool) -> str:
    if row["duration_us"] is None:
        if row["outcome"] == Outcome.OPEN and row["began_at"] is not None:
            return f"at least {duration(span.end - span.start)}"
        return f"not known: {NO_BEGIN if row['began_at'] is None else NO_END_TIME}"
    return duration(row["duration_us"]) + (" (times are whole seconds)" if whole_seconds else "")


def _tables(tables: Sequence[str] | None) -> str:
    return ", ".join(tables) if tables else "none"


def _times(row: Record) -> list[datetime]:
    return [t for t in (row["began_at"], row["ended_at"]) if t is not None]


def _micros(time: datetime) -> int:
    return (time - _EPOCH) // _MICROSECOND


def _text(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
