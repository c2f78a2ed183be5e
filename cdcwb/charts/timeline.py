"""Chart of transactions by time and by log position, since many sources have times in whole seconds only.

A record is a mapping with columns of :func:`cdcwb.analysis.transactions.timeline`: ``transaction_id``, ``outcome``,
``completeness``, ``first_position``, ``end_position`` (text), ``began_at``, ``ended_at`` (aware datetimes),
``duration_us`` (int), ``changes`` (pairs of operation and number), ``tables`` (list), ``bytes``, ``user``. Null is
None.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import plotly.graph_objects as go

from cdcwb.charts import spans as layout
from cdcwb.charts import theme, traces
from cdcwb.charts.spans import Bar, PositionScale, Record
from cdcwb.charts.theme import label
from cdcwb.model import OffsetUnit, Outcome
from cdcwb.times import TimeAxis, time_of
from cdcwb.words import count, duration, local, moment, plural, size, tally, zone_name

_LANE: Final = 15  # pixels of a lane, if there is room
_PANEL: Final = (90, 420)  # least and largest height of a panel in pixels
_BREAKS: Final = 50  # lines between logs; more would hide the bars
_MARKS: Final = {
    layout.STILL_OPEN: {"symbol": "triangle-right", "size": 11},
    layout.NO_BEGIN: {"symbol": "triangle-left", "size": 11},
    layout.NO_END: {"symbol": "triangle-right", "size": 11},
    layout.EVENTS_MISSING: {"symbol": "diamond", "size": 9},
    layout.NO_END_TIME: {"symbol": "x-thin", "size": 9, "line": {"color": theme.INK, "width": 2}},
}
_BAR: Final = 0.8  # of a lane
_PATTERNED: Final = 140  # maximum number of lanes with patterns: narrower bars have no room for them
# plotly.js processes all bars of a trace to draw one of them, so one trace of thousands blocks a page that zooms.
_TOGETHER: Final = 400
_DENSITY: Final = 18  # pixels of the row of an outcome below the bars
_GAP: Final = 14  # pixels between bars and these rows
_FEW: Final = 4  # minimum number of lanes in the height of a panel, so that bars do not become too thick
_ROOM: Final = 74  # pixels below a panel for its axis


def timeline(
    records: Iterable[Record],
    *,
    capture_end: datetime | None = None,
    last_position: str | None = None,
    unit: str = OffsetUnit.BYTE,
    named: bool = False,
    axis: TimeAxis | None = None,
    density: Mapping[str, tuple[int, Sequence[tuple[int, int]]]] | None = None,
    density_us: int = 1,
) -> go.Figure:
    """A bar for every transaction from begin to end, on a time axis above and on an axis of log positions below.

    Bars that overlap are in different lanes. A bar is at least :func:`~cdcwb.charts.spans.least_share` of its axis
    wide, unless the next bar in its lane is nearer; the hover text has the true duration. Transactions without an end
    reach to ``capture_end`` and ``last_position`` (default: the last of the records) and have a marker there; so do
    transactions with missing events. ``unit`` is the unit of ``bytes`` if the capture's offsets are not bytes.
    ``named``: bars have their transaction as plotly's id. ``axis``: the range of the time axis (default: the bulk of
    these times). Transactions without coordinates on an axis are not drawn on it. ``density``, if not all transactions
    are drawn: of all of them, by outcome, the number and the numbers by begin of a bin of ``density_us``
    (:func:`cdcwb.analysis.transactions.density`), which are a row for each outcome below the bars. The legend counts
    these. ``layout.meta`` has the numbers ``drawn``, ``on_time``, ``on_positions``,
    ``time_lanes``, ``position_lanes``, ``widened`` (drawn wider than they are, on the time axis).
    """
    rows = list(records)
    times = layout.on_time(rows, capture_end)
    scale = PositionScale(p for r in rows for p in (r["first_position"], r["end_position"], last_position))
    places = layout.on_positions(rows, scale)
    shown = axis or layout.time_axis(times)
    time_lanes, widened = layout.lay_out(times, 1_000_000, shown)
    position_lanes, _ = layout.lay_out(places, 1)

    tell(times, places, unit)

    heights = [min(max(_LANE * lanes, _PANEL[0]), _PANEL[1]) for lanes in (time_lanes, position_lanes) if lanes]
    rows_below = _DENSITY * len(density) + _GAP if times and density else 0
    if rows_below:
        heights[0] += rows_below
    domains = theme.domains(heights, _ROOM)
    figure = theme.figure(height=sum(heights) + _ROOM * max(1, len(heights)) + 60, barmode="overlay", bargap=0.2)
    if times:
        limits = shown if axis is not None or (shown is not None and shown.outside) else None
        low, high = domains[0]
        middle = low + (high - low) * rows_below / heights[0]
        _draw_time(figure, times, [middle, high], time_lanes, limits)
        if density:
            gap = (high - low) * _GAP / heights[0]
            _draw_density(figure, density, density_us, [low, middle - gap])
    if places:
        _draw_positions(figure, places, scale, domains[-1], position_lanes, "2" if times else "")
    _count_all(figure, {outcome: total for outcome, (total, _) in (density or {}).items()})
    theme.add_meta(figure, drawn=len(rows), on_time=len(times), on_positions=len(places))
    theme.add_meta(figure, time_lanes=time_lanes, position_lanes=position_lanes, widened=widened)
    if not named:
        figure.update_traces(ids=None)
    if not rows:
        traces.no_content(figure, "no transactions")
    return figure


def _draw_time(figure: go.Figure, spans: list[Bar], domain: list[float], lanes: int, axis: TimeAxis | None) -> None:
    _draw(figure, spans, "", lambda x: x / 1000, lambda x: traces.on_axis(time_of(int(x))))
    low, high = _range(spans, 1_000_000)
    first = time_of(min(s.start for s in spans))
    shift = (local(first) - first.replace(tzinfo=None)) / timedelta(milliseconds=1)
    reach = [low / 1000 + shift, high / 1000 + shift]
    xaxis = {"type": "date", "range": reach, "title": {"text": _time_title(spans, axis)}, "anchor": "y"}
    figure.update_layout(xaxis=xaxis, yaxis=_lane_axis(domain, lanes, "x"))
    theme.limit_time(figure, axis, "begin or end")


def _draw_density(
    figure: go.Figure, density: Mapping[str, tuple[int, Sequence[tuple[int, int]]]], width: int, domain: list[float]
) -> None:
    """A row for each outcome with the number of all its transactions in each bin; one is as visible as many."""
    titles = []
    for row, outcome in enumerate(traces.known_first(theme.OUTCOMES, density)):
        look, (total, bins) = theme.look(theme.OUTCOMES, outcome or None), density[outcome or ""]
        titles.append(f"{look.title}  {count(total)}")
        most = max((number for _, number in bins), default=1)
        figure.add_bar(
            orientation="h",
            name=look.title,
            showlegend=False,
            base=theme.column(traces.on_axis(time_of(begin)) for begin, _ in bins),
            x=theme.column([width / 1000] * len(bins)),
            y=theme.column([row] * len(bins)),
            width=_BAR,
            marker={
                "color": look.colour,
                "opacity": [0.35 + 0.65 * math.log1p(number) / math.log1p(most) for _, number in bins],
                "line": {"width": 0},
            },
            customdata=theme.column([plural(number, "transaction"), moment(time_of(begin))] for begin, number in bins),
            hovertemplate=f"%{{customdata[0]}} {look.title}<br>from %{{customdata[1]}} on<extra></extra>",
            xaxis="x",
            yaxis="y3",
        )
    lines = {"domain": domain, "range": [len(titles) - 0.5, -0.5], "fixedrange": True, "anchor": "x"}
    figure.update_layout(yaxis3=traces.line_axis(titles, **lines))
    figure.layout.xaxis.anchor = "y3"  # ticks and title are below the rows


def _count_all(figure: go.Figure, totals: Mapping[str, int]) -> None:
    """Counts all transactions of an outcome in the legend, and how many of them are bars."""
    names = {theme.look(theme.OUTCOMES, outcome or None).title: total for outcome, total in totals.items()}
    for trace in figure.data:
        title, _, number = (trace.name or "").rpartition(" (")
        if title in names and number != f"{count(names[title])})":
            trace.name = f"{title} ({number.removesuffix(')')} of {count(names[title])} as bars)"


def _time_title(spans: list[Bar], axis: TimeAxis | None) -> str:
    """The title of the time axis with the days, because plotly writes them only below the first tick, which may be out
    of sight."""
    starts = [time_of(span.start) for span in spans]
    if axis is not None and axis.outside:
        starts = [axis.first, axis.last]
    whole = ", in whole seconds" if layout.whole_seconds(spans) else ""
    return f"time, {layout.days(min(starts), max(starts))} ({zone_name()}){whole}"


def _draw_positions(
    figure: go.Figure, spans: list[Bar], scale: PositionScale, domain: list[float], lanes: int, name: str
) -> None:
    _draw(figure, spans, name, float, float)
    of_days = f", {scale.days}: commit time and end of the change number" if scale.days else ""
    unit = f"{scale.unit}{f', next {scale.log} at the dotted line' if scale.breaks else ''}"
    axis = traces.position_axis(scale, f"log position{of_days} ({unit})", f"y{name}") | {"range": _range(spans, 1)}
    figure.update_layout({f"xaxis{name}": axis, f"yaxis{name}": _lane_axis(domain, lanes, f"x{name}")})
    for position in scale.breaks[:_BREAKS]:
        ends = {"xref": f"x{name}", "yref": f"y{name} domain", "x0": position, "x1": position, "y0": 0, "y1": 1}
        figure.add_shape(type="line", line={"color": theme.MUTED, "width": 1, "dash": "dot"}, **ends)


def _draw(figure: go.Figure, spans: list[Bar], axis: str, length: Any, coordinate: Any) -> None:
    """The bars of a panel, one or more traces for each outcome, and its markers. The legend has each name once."""
    named = {trace.legendgroup for trace in figure.data}
    refs = {"xaxis": f"x{axis}", "yaxis": f"y{axis}"}
    has_room = max(s.lane for s in spans) < _PATTERNED
    for outcome in traces.known_first(theme.OUTCOMES, (s.record["outcome"] or "" for s in spans)):
        spans_of_outcome = [s for s in spans if (s.record["outcome"] or "") == outcome]
        look = theme.look(theme.OUTCOMES, outcome or None)
        group = f"outcome {look.title}"
        marker = look.bar()
        if not has_room:
            del marker["pattern"]
        for first in range(0, len(spans_of_outcome), _TOGETHER):
            some = spans_of_outcome[first : first + _TOGETHER]
            figure.add_bar(
                orientation="h",
                name=f"{look.title} ({count(len(spans_of_outcome))})",
                legendgroup=group,
                showlegend=group not in named and not first,
                base=theme.column(coordinate(s.start) for s in some),
                x=theme.column(length(s.drawn) for s in some),
                y=theme.column(s.lane for s in some),
                width=_BAR,
                marker=marker,
                customdata=theme.column(s.hover for s in some),
                ids=theme.column(s.record["transaction_id"] for s in some),
                hovertemplate=_HOVER.replace("WORD", look.title),
                **refs,
            )
    for mark, marker in _MARKS.items():
        points = [(coordinate(x), s.lane, s.hover[:1]) for s in spans for kind, x in s.marks if kind == mark]
        if points:
            x, y, texts = zip(*points, strict=True)
            hover, legend = (
                f"<b>%{{customdata[0]}}</b><br>{mark}",
                {"legendgroup": mark, "showlegend": mark not in named},
            )
            traces.add_markers(figure, mark, [], x, y, {"color": theme.INK, **marker}, texts, hover, **legend, **refs)


def _range(spans: list[Bar], least: int) -> list[float]:
    """The range of an axis: all bars, at least ``least`` units, with a margin for the markers at its ends."""
    low, high = min(s.start for s in spans), max(s.start + s.drawn for s in spans)
    margin = max((high - low) * 0.015, (least - (high - low)) / 2)
    return [low - margin, high + margin]


def _lane_axis(domain: list[float], lanes: int, anchor: str) -> dict[str, Any]:
    title = {"text": "transactions", "standoff": 4}
    return traces.lanes_axis(domain, anchor, [max(lanes, _FEW) - 0.4, -0.6], showticklabels=False, title=title)


# --- hover ------------------------------------------------------------------------------------------------------------

_HOVER: Final = (
    "<b>%{customdata[0]}</b> WORD%{customdata[10]}<br>%{customdata[1]} to %{customdata[2]}"
    "<br>duration %{customdata[3]}<br>log position %{customdata[4]} to %{customdata[5]}"
    "<br>%{customdata[6]} in %{customdata[7]}<br>tables %{customdata[8]} · user %{customdata[9]}<extra></extra>"
)
"""plotly's template over :attr:`Bar.hover`; WORD is replaced by the outcome."""

_TEXTS: Final = 1_500_000  # bytes of all hover texts together


def tell(times: list[Bar], places: list[Bar], unit: str) -> None:
    """Sets the hover texts of every span. Captured texts are shortened if their total would be too large for a page.
    ``unit`` is the unit of ``bytes`` (a value of OffsetUnit)."""
    whole = layout.whole_seconds(times)
    extents = {id(span.record): span.end - span.start for span in times}
    for cut in (1, 2, 4, 8):
        texts: dict[int, list[str]] = {}
        for span in (*times, *places):
            number = id(span.record)
            if number not in texts:
                texts[number] = _hover(span.record, extents.get(number, 0), whole, cut, unit)
            span.hover = texts[number]
        if sum(len(text.encode()) for span in times + places for text in span.hover) <= _TEXTS:
            return


def _hover(row: Record, extent_us: int, whole_seconds_only: bool, cut: int, unit: str) -> list[str]:
    is_open, missing = row["outcome"] == Outcome.OPEN, layout.lacks(row)
    if row["duration_us"] is not None:
        lasted = duration(row["duration_us"]) + (" (times are whole seconds)" if whole_seconds_only else "")
    elif is_open and row["began_at"] is not None:
        lasted = f"at least {duration(extent_us)}"
    else:
        lasted = f"not known: {layout.NO_BEGIN if row['began_at'] is None else layout.NO_END_TIME}"
    return [
        label(row["transaction_id"], 44 // cut),
        moment(row["began_at"], layout.NO_BEGIN),
        moment(row["ended_at"], layout.STILL_OPEN if is_open else layout.NO_END_TIME),
        lasted,
        label(row["first_position"], 40 // cut),
        label(row["end_position"], 40 // cut),
        label(tally(row["changes"]), 60 // cut),
        size(row["bytes"]) if unit == OffsetUnit.BYTE else plural(row["bytes"], unit),
        label(", ".join(row["tables"] or ["none"]), 44 // cut),
        label(row["user"], 24 // cut),
        f", {missing}" if missing else "",
    ]


# --- concurrency ------------------------------------------------------------------------------------------------------


def concurrency(
    steps: Iterable[Record], most: int, at: datetime | None, *, exact: bool = True, axis: TimeAxis | None = None
) -> go.Figure:
    """The number of concurrent transactions: a step line with a marker at the maximum.

    Steps: ``at`` (aware datetime), ``open`` (int, from then until the next step), ascending. ``most`` is the maximum,
    first reached ``at``. ``exact`` False: a step may combine several changes and then has their maximum; as the hover
    text states. ``axis``: the range of the time axis.
    """
    rows = list(steps)
    line = theme.OUTCOMES["committed"].colour
    title_text = "concurrent" if exact else "concurrent at most"
    yaxis = theme.counts(most, "open transactions") | {"range": [0, most * 1.18 + 0.2]}
    figure = theme.figure(height=240, hovermode="x", showlegend=False, xaxis=traces.date_axis(), yaxis=yaxis)
    figure.add_scatter(
        mode="lines",
        x=theme.column(traces.on_axis(row["at"]) for row in rows),
        y=theme.column(row["open"] for row in rows),
        line={"shape": "hv", "color": line, "width": 1.5},
        fill="tozeroy",
        customdata=theme.column([moment(row["at"]), plural(row["open"], "transaction")] for row in rows),
        hovertemplate="%{customdata[1]} " + title_text + "<br>from %{customdata[0]}<extra></extra>",
    )
    if at is not None:
        figure.add_scatter(
            mode="markers+text",
            x=[traces.on_axis(at)],
            y=[most],
            text=[f"most: {count(most)}"],
            textposition="top right",
            marker={"symbol": "diamond", "size": 9, "color": theme.INK},
            textfont={"color": theme.INK},
            hovertemplate=f"{plural(most, 'transaction')} concurrent, the maximum<br>from {moment(at)}<extra></extra>",
        )
    theme.limit_time(figure, axis, "begin or end")
    return figure
