"""Charts of an event log: rows by event type and decision, and the histories of objects.

Input is records; null is None. Every decision has one colour, one pattern in bars and one marker symbol, so charts are
readable without colour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, pairwise
from typing import Any, Final

import plotly.graph_objects as go

from cdcwb.charts import theme
from cdcwb.charts.theme import SAFE, Look
from cdcwb.charts.traces import add_bars, add_markers, known_first, line_axis, no_content
from cdcwb.words import count, plural

__all__ = ["LOOKS", "SYMBOLS", "decisions", "histories", "timelines"]

Record = Mapping[str, Any]

LOOKS: Final[dict[str, Look]] = {
    "published": Look("published", SAFE[6]),
    "skipped": Look("skipped", SAFE[10], "/"),
    "invalid": Look("invalid", SAFE[1], "x"),
    "waiting": Look("waiting", SAFE[0], ".", theme.INK),
    "no_effect": Look("no effect", SAFE[2], "\\", theme.INK),
    "overridden": Look("overridden", SAFE[4], "-"),
    "needs_snapshot": Look("needs a snapshot", SAFE[5], "+"),
    "left_out": Look("left out", SAFE[7], "|"),
}
"""The look of each decision, in the order of the legend."""

SYMBOLS: Final[dict[str, str]] = {
    "published": "square",
    "skipped": "circle",
    "invalid": "triangle-up",
    "waiting": "triangle-right",
    "no_effect": "hexagon2",
    "overridden": "diamond",
    "needs_snapshot": "pentagon",
}
"""The marker symbol of each decision."""

_SIZES: Final = {"published": 19, "overridden": 23, "invalid": 26, "waiting": 26}  # large enough for a digit
_WHITE: Final = ("overridden", "needs_snapshot")  # dark markers with white digits
_EXACT: Final = 1 << 53
_LANE: Final = 22
_STEP: Final = 24
_TICKS: Final = 6
_NAME: Final = 34  # characters of the label of a lane


def decisions(records: Iterable[Record], kind: str, names: Mapping[Any, str], unit: str = "row") -> go.Figure:
    """A bar for every ``kind`` of row (a column of the records: ``event_type`` or ``operation``): its number of rows,
    stacked by decision.

    Records: the column ``kind``, ``decision``, ``rows`` (int). ``names`` are the labels of its values, from the top;
    other values follow below under their own names, and null as ``none``.
    """
    rows = list(records)
    totals: Counter[Any] = Counter()
    for row in rows:
        totals[row[kind]] += row["rows"]
    order = [name for name in names if name in totals]
    order += sorted((name for name in totals if name not in names), key=lambda name: (name is None, str(name)))
    order.reverse()
    words = {name: names.get(name) or ("none" if name is None else theme.label(name)) for name in order}
    figure = theme.figure(height=30 * max(1, len(order)) + 110, barmode="stack", bargap=0.3, showlegend=True)
    for decision in known_first(LOOKS, (row["decision"] for row in rows)):
        some = {row[kind]: row["rows"] for row in rows if row["decision"] == decision}
        look = theme.look(LOOKS, decision)
        texts = [[words[name], f"{count(number)} of {plural(totals[name], unit)}"] for name, number in some.items()]
        title, hover = (
            f"{look.title} ({count(sum(some.values()))})",
            f"%{{customdata[0]}}<br>{look.title}: %{{customdata[1]}}",
        )
        add_bars(figure, look, title, [order.index(name) for name in some], some.values(), texts, hover)
    figure.update_layout(
        xaxis=theme.counts(max(totals.values(), default=0), f"{unit}s"),
        yaxis=line_axis([f"{words[name]}  {count(totals[name])}" for name in order]),
    )
    return figure


def timelines(records: Iterable[Record], types: Mapping[Any, str]) -> go.Figure:
    """A lane for every object with a marker for each of its rows, at its record_id, by decision.

    Records, in the order of their objects: ``table_name``, ``table_key``, ``of`` (rows of the object), ``place`` (in
    its history, from 1), ``record_id``, ``event_type``, ``column_name``, ``decision``, ``reason``, ``document``,
    ``event_time`` (text). If record ids are too large or too far apart for an axis, rows are drawn in order, one unit
    apart. Rows without a usable record_id are not drawn. ``layout.meta`` has the number of rows ``drawn``, of
    ``objects``, and whether the axis is ``in_order``.
    """
    rows = [row for row in records if row["record_id"] is not None]
    ids = sorted({row["record_id"] for row in rows})
    in_order = not _is_even(ids)
    at = {number: index if in_order else number for index, number in enumerate(ids)}
    figure, lanes = _lanes(rows)
    for _, look, some in _by_decision(rows):
        _add_rows(figure, look, some, [at[row["record_id"]] for row in some], lanes, types)
    figure.update_xaxes(title={"text": "record_id, in order, one step apart" if in_order else "record_id"})
    if in_order:
        ticks = _ticks(ids)
        figure.update_xaxes(tickvals=[at[number] for number in ticks], ticktext=[count(number) for number in ticks])
    else:
        figure.update_xaxes(tickformat=",~f", **theme.whole_step(ids[-1] - ids[0] if ids else 0))
    figure.layout.meta["in_order"] = in_order
    return figure


def histories(records: Iterable[Record], types: Mapping[Any, str]) -> go.Figure:
    """The history of each object, row by row: a lane for every object with a marker for every row, from left to right,
    labelled with its event type; colour and shape show the decision.

    Records of :func:`timelines`. An object with more rows than its lane shows ends in ``+ n``.
    """
    rows = list(records)
    figure, lanes = _lanes(rows, _STEP)
    longest = max((row["place"] for row in rows), default=1)
    for decision, look, some in _by_decision(rows):
        numbers = ["?" if row["event_type"] is None else str(row["event_type"]) for row in some]
        font = {"color": _ink(decision), "size": 11}
        size = _SIZES.get(decision, 21)
        label = {"mode": "markers+text", "text": numbers, "textfont": font}
        _add_rows(figure, look, some, [row["place"] for row in some], lanes, types, size, **label)
    more = [last for last in _last(rows) if last["of"] > last["place"]]
    if more:
        figure.add_scatter(
            mode="text",
            showlegend=False,
            x=[row["place"] + 0.6 for row in more],
            y=[lanes[_object(row)] for row in more],
            text=[f"+ {count(row['of'] - row['place'])}" for row in more],
            textposition="middle right",
            hoverinfo="skip",
        )
    figure.update_xaxes(
        title={"text": "rows of the object, in order"},
        range=[0.3, max(longest, 24) + (3.5 if more else 0.8)],
        tickformat=",~f",
        showgrid=False,
        **({"dtick": 1} if longest <= 30 else theme.whole_step(longest)),
    )
    return figure


_HOVER: Final = (
    "<b>record %{customdata[0]}</b>, %{customdata[1]}<br>%{customdata[2]}<br>%{customdata[3]}<br>"
    "<b>WORD</b>: %{customdata[4]}"
)


def _by_decision(rows: list[Record]) -> Iterator[tuple[str, Look, list[Record]]]:
    for decision in known_first(LOOKS, (row["decision"] for row in rows)):
        yield decision or "", theme.look(LOOKS, decision), [row for row in rows if row["decision"] == decision]


def _add_rows(
    figure: go.Figure,
    look: Look,
    rows: list[Record],
    x: list[int],
    lanes: Mapping[Any, int],
    types: Mapping[Any, str],
    size: int = 8,
    **more: Any,
) -> None:
    """A marker for each row of one decision, in the lane of its object."""
    marker = {"symbol": SYMBOLS.get(rows[0]["decision"], "star"), "color": look.colour, "size": size, "opacity": 1}
    marker["line"] = {"color": look.edge, "width": 1}
    y = [lanes[_object(row)] for row in rows]
    texts = [_hover(row, types) for row in rows]
    name = f"{look.title} ({count(len(rows))})"
    add_markers(figure, name, rows, x, y, marker, texts, _HOVER.replace("WORD", look.title), **more)


def _hover(row: Record, types: Mapping[Any, str]) -> list[str]:
    """The hover text of a marker; captured text is escaped."""
    number = "without a usable number" if row["record_id"] is None else count(row["record_id"])
    kind = row["event_type"]
    type_text = f"event type {types.get(kind) or theme.label(kind)}"
    column = f", column {theme.label(row['column_name'], 40)}" if row["column_name"] is not None else ""
    time = "event_time NULL" if row["event_time"] is None else f"event_time {theme.label(row['event_time'], 40)}"
    table = theme.label(row["table_name"], 40)
    return [
        number,
        type_text + column,
        f"{table}, {theme.label(row['table_key'], 60)}, row {count(row['place'])} of {count(row['of'])}",
        time,
        theme.label(row["reason"], 110),
    ]


def _lanes(rows: list[Record], height: int = _LANE) -> tuple[go.Figure, dict[Any, int]]:
    """An empty figure with a lane for each object, the first on top."""
    names = list(dict.fromkeys(_object(row) for row in rows))
    lanes = {name: at for at, name in enumerate(names)}
    sizes = {_object(row): row["of"] for row in rows}
    figure = theme.figure(height=height * max(2, len(names)) + 120)
    figure.update_layout(
        yaxis=line_axis(
            [f"{_name(name)}  {count(sizes[name])}" for name in names],
            range=[max(len(names), 1) - 0.3, -0.7],
            showgrid=True,
        ),
        legend={"itemsizing": "trace"},
        meta={"drawn": len(rows), "objects": len(names)},
    )
    if not rows:
        no_content(figure, "no rows")
    return figure, lanes


def _name(name: tuple[str | None, str | None]) -> str:
    table, key = name
    room = max(12, _NAME - min(len(table or ""), 16))
    return f"{theme.label(table, 16)} <b>{theme.label(key, room)}</b>"


def _object(row: Record) -> tuple[str | None, str | None]:
    return row["table_name"], row["table_key"]


def _ink(decision: str) -> str:
    return "white" if decision in _WHITE else theme.ON_MARK


def _last(rows: list[Record]) -> list[Record]:
    return [list(group)[-1] for _, group in groupby(rows, key=_object)]


def _ticks(ids: list[int]) -> list[int]:
    if len(ids) <= _TICKS:
        return ids
    return [ids[round(step * (len(ids) - 1) / (_TICKS - 1))] for step in range(_TICKS)]


def _is_even(ids: list[int]) -> bool:
    """Whether record ids are exact in a browser, and no gap takes more than half of their axis."""
    if len(ids) < 2:
        return not ids or ids[0] < _EXACT
    widest = max(right - left for left, right in pairwise(ids))
    return ids[-1] < _EXACT and (widest < 50 or 2 * widest <= ids[-1] - ids[0])
