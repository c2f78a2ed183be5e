"""Chart of table versions: a lane for every table with a bar for every version from its first change to its last.

A record is a mapping with ``table``, ``number`` (of the version, from 1), ``table_version``, ``columns`` (int),
``changes`` (int), ``origin``, ``first_position`` and ``last_position`` (text), ``first_at`` and ``last_at`` (aware
datetimes), ``again`` (it was in force before), ``schema`` (number of its set of columns among those of the table, from
0), ``change`` (what differs from the version before it, in words; empty if nothing does). Null is None.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import plotly.graph_objects as go

from cdcwb.charts import theme
from cdcwb.charts.spans import Bar, PositionScale, days, extent, fit, least_share, time_axis
from cdcwb.charts.traces import lanes_axis, no_content, on_axis, position_axis
from cdcwb.times import micros, time_of
from cdcwb.words import moment, plural, zone_name

MOST_TABLES: Final = 40
"""Maximum number of tables that are drawn: those with most versions."""
MOST_BARS: Final = 800
"""Maximum number of bars that are drawn: the first of each of these tables."""

_LANE: Final = 36  # pixels, with room for the words of a change above the bar
_BAR: Final = 0.56  # of a lane
_ROOM: Final = 74  # pixels below a panel for its axis
_COLOURS: Final = (theme.SAFE[4], theme.SAFE[3], theme.SAFE[1], theme.SAFE[6], theme.SAFE[8])  # of schemas
_MARKED: Final = 0.46  # of a lane, above the middle of a bar: where a change of schema is marked
_APART: Final = 0.12  # of the axis: least distance of two changes of a lane that both have their words
_HOVER: Final = "<br>".join(f"%{{customdata[{place}]}}" for place in range(6)) + "<extra></extra>"


def version_lanes(records: Iterable[Mapping[str, Any]]) -> go.Figure:
    """A bar for every version on the time axis; versions whose rows have no time are on an axis of log positions below.
    Versions without rows have no bar.

    If rows of two versions of a table overlap, the table has several lanes. ``layout.meta`` has the numbers drawn:
    ``tables``, ``bars``, ``on_time``, ``on_positions``, ``without_rows``, and the totals ``versions`` and
    ``all_tables``.
    """
    rows = list(records)
    drawn, tables = _few(rows)
    with_time = [row for row in drawn if row["first_at"] is not None]
    placed = [row for row in drawn if row["first_at"] is None and row["first_position"] is not None]
    times = [Bar(row, micros(row["first_at"]), micros(row["last_at"] or row["first_at"])) for row in with_time]
    scale = PositionScale(p for row in placed for p in (row["first_position"], row["last_position"]))
    ends = [(row["first_position"], row["last_position"] or row["first_position"]) for row in placed]
    places = [Bar(row, scale.at(first), scale.at(last)) for row, (first, last) in zip(placed, ends, strict=True)]
    axis = time_axis(times)
    wholes = ((times, max(1_000_000, extent(times, axis))), (places, max(1, extent(places))))
    panels = [(bars, _lay_out(bars, tables, length)) for bars, length in wholes if bars]
    heights = [_LANE * max(2, sum(lanes for _, _, lanes in rows_of)) for _, rows_of in panels]
    figure = theme.figure(height=sum(heights) + _ROOM * max(1, len(heights)) + 52, barmode="overlay", bargap=0.25)
    figure.update_layout(uniformtext={"minsize": 9, "mode": "hide"}, showlegend=False, margin={"t": 40})
    tops = theme.domains(heights, _ROOM)
    for at, ((bars, rows_of), domain) in enumerate(zip(panels, tops, strict=True)):
        name = "2" if at else ""
        if bars is times and axis is not None:
            _draw(figure, bars, name, lambda at: on_axis(time_of(at)), 1000)
            title = f"time, {days(axis.first, axis.last)} ({zone_name()})"
            xaxis: dict[str, Any] = {"type": "date", "title": {"text": title}, "anchor": f"y{name}"}
        else:
            _draw(figure, bars, name, float, 1)
            title = f"log position ({scale.unit}) of versions whose rows have no time"
            xaxis = position_axis(scale, title, f"y{name}")
        lanes = sum(lanes for _, _, lanes in rows_of)
        middles = {top + (lanes - 1) / 2: theme.label(table, 36) for table, top, lanes in rows_of}
        ticks = {"tickvals": list(middles), "ticktext": list(middles.values())}
        yaxis = lanes_axis(domain, f"x{name}", [max(lanes, 2) - 0.5, -0.8], **ticks)
        figure.update_layout({f"xaxis{name}": xaxis, f"yaxis{name}": yaxis})
    theme.limit_time(figure, axis if axis and axis.outside else None, "begin or end of a version")
    without_rows = sum(row["first_at"] is None and row["first_position"] is None for row in rows)
    theme.add_meta(figure, bars=len(times) + len(places), on_time=len(times), on_positions=len(places))
    theme.add_meta(figure, tables=len(tables), all_tables=len({row["table"] for row in rows}))
    theme.add_meta(figure, versions=len(rows), without_rows=without_rows)
    if not panels:
        no_content(figure, "no version has rows")
    return figure


def _few(rows: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], list[str]]:
    """The records that are drawn, and their tables in order."""
    counts = Counter(row["table"] for row in rows)
    chosen = sorted(counts, key=lambda table: (-counts[table], table))[:MOST_TABLES]
    left = dict.fromkeys(chosen, max(1, MOST_BARS // max(1, len(chosen))))
    chosen_rows = []
    for row in rows:
        if left.get(row["table"]):
            left[row["table"]] -= 1
            chosen_rows.append(row)
    return chosen_rows, [table for table in counts if table in left]


def _lay_out(bars: list[Bar], tables: Sequence[str], length: int) -> list[tuple[str, int, int]]:
    """Sets the width and the lane of every bar, on an axis of ``length``; returns by table its first lane and its
    number of lanes."""
    rows_of, top = [], 0
    for table in tables:
        if bars_of_table := [bar for bar in bars if bar.record["table"] == table]:
            lanes = fit(bars_of_table, length * least_share(len(bars)))
            for bar in bars_of_table:
                bar.lane += top
            rows_of.append((table, top, lanes))
            top += lanes
    return rows_of


def _draw(figure: go.Figure, bars: list[Bar], name: str, position: Callable[[int], Any], unit: int) -> None:
    """The bars of a panel, in one colour for each schema of a table, and a marker with words where the schema
    changes."""
    for turn, colour in enumerate(_COLOURS):
        drawn = [bar for bar in bars if bar.record["schema"] % len(_COLOURS) == turn]
        if not drawn:
            continue
        figure.add_bar(
            orientation="h",
            base=[position(bar.start) for bar in drawn],
            x=[bar.drawn / unit for bar in drawn],
            y=[bar.lane for bar in drawn],
            width=_BAR,  # otherwise plotly derives the width from the distance of lanes
            text=[_title(bar.record) for bar in drawn],
            textposition="inside",
            insidetextanchor="start",
            textangle=0,
            textfont={"color": "white"},
            marker=theme.Look("", colour).bar(),
            **_about(drawn, name),
        )
    changes = [bar for bar in bars if bar.record["change"]]
    if changes:
        figure.add_scatter(
            x=[position(bar.start) for bar in changes],
            y=[bar.lane - _MARKED for bar in changes],
            mode="markers+text",
            marker={"symbol": "triangle-down", "size": 10, "color": theme.INK},
            text=_words(changes, _APART * max(1, extent(bars))),
            textposition="middle right",
            textfont={"size": 11, "color": theme.INK},
            cliponaxis=False,
            **_about(changes, name),
        )


def _about(bars: Sequence[Bar], name: str) -> dict[str, Any]:
    """Records, hover texts and axes of a trace over versions."""
    texts = {"customdata": [_hover(bar.record) for bar in bars], "hovertemplate": _HOVER}
    return {"ids": theme.records_of(bar.record for bar in bars), **texts, "xaxis": f"x{name}", "yaxis": f"y{name}"}


def _words(changes: Sequence[Bar], least: float) -> list[str]:
    """The words of the changes of schema; without those that the words before them would cover."""
    words, covered = dict[int, str](), dict[int, float]()
    for bar in sorted(changes, key=lambda bar: (bar.lane, bar.start)):
        if bar.start >= covered.get(bar.lane, -math.inf):
            text = words[id(bar)] = theme.label(bar.record["change"], 60)
            covered[bar.lane] = bar.start + least * max(1, len(text) / 12)
    return [words.get(id(bar), "") for bar in changes]


def _title(record: Mapping[str, Any]) -> str:
    version = str(record["table_version"])
    return theme.label(f"{record['number']}: {version if len(version) <= 18 else version[:8] + '…'}", 30)


def _hover(record: Mapping[str, Any]) -> list[str]:
    again = ", in force again" if record["again"] else ""
    return [
        f"<b>{theme.label(record['table'])}</b>, version {record['number']}{again}",
        theme.label(record["table_version"], 64),
        f"{plural(record['changes'], 'change')}, {plural(record['columns'], 'column')}"
        + (f"<br>schema change: {theme.label(record['change'], 200)}" if record["change"] else ""),
        f"{moment(record['first_at'])} to {moment(record['last_at'])}",
        f"log position {theme.label(record['first_position'], 64)}",
        f"known from: {theme.label(record['origin'])}",
    ]
