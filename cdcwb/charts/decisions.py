"""Charts of an event log: rows by event type and decision, and the histories of objects.

Input is records; null is None. Every decision has one colour, one pattern in bars and one marker symbol, so charts are
readable without colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import plotly.graph_objects as go

from cdcwb.charts import theme
from cdcwb.charts.theme import SAFE, Look
from cdcwb.charts.traces import add_markers, known_first, line_axis, no_content, stacks, totals_of
from cdcwb.words import count, plural

Record = Mapping[str, Any]

LOOKS: Final[dict[str, Look]] = {
    "published": Look("published", SAFE[6], symbol="square"),
    "skipped": Look("skipped", SAFE[10], "/", symbol="circle"),
    "invalid": Look("invalid", SAFE[1], "x", symbol="triangle-up"),
    "waiting": Look("waiting", SAFE[0], ".", theme.INK, symbol="triangle-right"),
    "no_effect": Look("no effect", SAFE[2], "\\", theme.INK, symbol="hexagon2"),
    "overridden": Look("overridden", SAFE[4], "-", symbol="diamond"),
    "needs_snapshot": Look("needs a snapshot", SAFE[5], "+", symbol="pentagon"),
    "left_out": Look("left out", SAFE[7], "|"),
}
"""The look of each decision, in the order of the legend."""

_SIZES: Final = {"published": 19, "overridden": 23, "invalid": 26, "waiting": 26}  # large enough for a digit
WHITE: Final = ("overridden", "needs_snapshot")  # dark markers with white digits
_LANE: Final = 24
_NAME: Final = 34  # characters of the label of a lane


def decisions(records: Iterable[Record], kind: str, names: Mapping[Any, str], unit: str = "row") -> go.Figure:
    """A bar for every ``kind`` of row (a column of the records: ``event_type`` or ``operation``): its number of rows,
    stacked by decision.

    Records: the column ``kind``, ``decision``, ``rows`` (int). ``names`` are the labels of its values, from the top;
    other values follow below under their own names, and null as ``none``.
    """
    rows = list(records)
    totals = totals_of(rows, kind, "rows")
    order = [name for name in names if name in totals]
    order += sorted((name for name in totals if name not in names), key=lambda name: (name is None, str(name)))
    labels = {name: names.get(name) or ("none" if name is None else theme.label(name)) for name in reversed(order)}

    def words(number: int, total: int) -> str:
        return f"{count(number)} of {plural(total, unit)}"

    hover = "%{customdata[0]}<br>WORD: %{customdata[1]}"
    look: dict[str, Any] = {"height": 30 * max(1, len(order)) + 110, "bargap": 0.3, "showlegend": True}
    return stacks(rows, (kind, "decision", "rows"), LOOKS, labels, words, hover, unit, **look)


def histories(records: Iterable[Record], types: Mapping[Any, str]) -> go.Figure:
    """The history of each object, row by row: a lane for every object with a marker for every row, from left to right,
    labelled with its event type; colour and shape show the decision.

    Records, in the order of their objects: ``table_name``, ``table_key``, ``of`` (rows of the object), ``place`` (in
    its history, from 1), ``record_id``, ``event_type``, ``column_name``, ``decision``, ``reason``, ``document``,
    ``event_time`` (text). An object with more rows than its lane shows ends in ``+ n``. ``layout.meta`` has the number
    of rows ``drawn`` and of ``objects``.
    """
    rows = list(records)
    sizes = {_object(row): row["of"] for row in rows}
    lanes = {name: at for at, name in enumerate(sizes)}
    reach = [max(len(lanes), 1) - 0.3, -0.7]
    yaxis = line_axis([f"{_name(*name)}  {count(of)}" for name, of in sizes.items()], range=reach, showgrid=True)
    figure = theme.figure(height=_LANE * max(2, len(lanes)) + 120, yaxis=yaxis, legend={"itemsizing": "trace"})
    theme.add_meta(figure, drawn=len(rows), objects=len(lanes))
    if not rows:
        no_content(figure, "no rows")
    longest = max((row["place"] for row in rows), default=1)
    for decision in known_first(LOOKS, (row["decision"] for row in rows)):
        look, some = theme.look(LOOKS, decision), [row for row in rows if row["decision"] == decision]
        marker = {"symbol": look.symbol or "star", "color": look.colour, "opacity": 1}
        marker |= {"size": _SIZES.get(decision or "", 21), "line": {"color": look.edge, "width": 1}}
        add_markers(
            figure,
            f"{look.title} ({count(len(some))})",
            some,
            [row["place"] for row in some],
            [lanes[_object(row)] for row in some],
            marker,
            [_hover(row, types) for row in some],
            _HOVER.replace("WORD", look.title),
            mode="markers+text",
            text=["?" if row["event_type"] is None else str(row["event_type"]) for row in some],
            textfont={"color": "white" if decision in WHITE else theme.ON_MARK, "size": 11},
        )
    last = {_object(row): row for row in rows}.values()
    more = [row for row in last if row["of"] > row["place"]]
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
    step = {"dtick": 1} if longest <= 30 else theme.whole_step(longest)
    title, reach = {"text": "rows of the object, in order"}, [0.3, max(longest, 24) + (3.5 if more else 0.8)]
    return figure.update_xaxes(title=title, range=reach, tickformat=",~f", showgrid=False, **step)


_HOVER: Final = (
    "<b>record %{customdata[0]}</b>, %{customdata[1]}<br>%{customdata[2]}<br>%{customdata[3]}<br>"
    "<b>WORD</b>: %{customdata[4]}"
)


def _hover(row: Record, types: Mapping[Any, str]) -> list[str]:
    """The hover text of a marker; captured text is escaped."""
    kind, column, time = row["event_type"], row["column_name"], row["event_time"]
    words = f"event type {types.get(kind) or theme.label(kind)}"
    table, key = theme.label(row["table_name"], 40), theme.label(row["table_key"], 60)
    return [
        "without a usable number" if row["record_id"] is None else count(row["record_id"]),
        words + ("" if column is None else f", column {theme.label(column, 40)}"),
        f"{table}, {key}, row {count(row['place'])} of {count(row['of'])}",
        f"event_time {'NULL' if time is None else theme.label(time, 40)}",
        theme.label(row["reason"], 110),
    ]


def _name(table: str | None, key: str | None) -> str:
    room = max(12, _NAME - min(len(table or ""), 16))
    return f"{theme.label(table, 16)} <b>{theme.label(key, room)}</b>"


def _object(row: Record) -> tuple[str | None, str | None]:
    return row["table_name"], row["table_key"]
