"""Charts of an event log: rows by event type and decision, and the histories of objects.

Input is records; null is None. Every decision has one colour, one pattern in bars and one marker symbol, so charts are
readable without colour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import plotly.graph_objects as go

from cdcwb.charts import theme
from cdcwb.charts.theme import SAFE, Look
from cdcwb.charts.traces import add_markers, add_stacks, known_first, line_axis, no_content
from cdcwb.words import count, plural

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
_LANE: Final = 24
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

    def texts(name: Any, number: int) -> list[str]:
        return [words[name], f"{count(number)} of {plural(totals[name], unit)}"]

    hover = "%{customdata[0]}<br>WORD: %{customdata[1]}"
    add_stacks(figure, rows, (kind, "decision", "rows"), LOOKS, order, texts, hover)
    figure.update_layout(
        xaxis=theme.counts(max(totals.values(), default=0), f"{unit}s"),
        yaxis=line_axis([f"{words[name]}  {count(totals[name])}" for name in order]),
    )
    return figure


def histories(records: Iterable[Record], types: Mapping[Any, str]) -> go.Figure:
    """The history of each object, row by row: a lane for every object with a marker for every row, from left to right,
    labelled with its event type; colour and shape show the decision.

    Records, in the order of their objects: ``table_name``, ``table_key``, ``of`` (rows of the object), ``place`` (in
    its history, from 1), ``record_id``, ``event_type``, ``column_name``, ``decision``, ``reason``, ``document``,
    ``event_time`` (text). An object with more rows than its lane shows ends in ``+ n``. ``layout.meta`` has the number
    of rows ``drawn`` and of ``objects``.
    """
    rows = list(records)
    figure, lanes = _lanes(rows)
    longest = max((row["place"] for row in rows), default=1)
    for decision in known_first(LOOKS, (row["decision"] for row in rows)):
        look, some = theme.look(LOOKS, decision), [row for row in rows if row["decision"] == decision]
        marker = {"symbol": SYMBOLS.get(decision or "", "star"), "color": look.colour, "opacity": 1}
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
            textfont={"color": _ink(decision), "size": 11},
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


def _lanes(rows: list[Record]) -> tuple[go.Figure, dict[Any, int]]:
    """An empty figure with a lane for each object, the first on top."""
    names = list(dict.fromkeys(_object(row) for row in rows))
    lanes = {name: at for at, name in enumerate(names)}
    sizes = {_object(row): row["of"] for row in rows}
    figure = theme.figure(height=_LANE * max(2, len(names)) + 120)
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


def _ink(decision: str | None) -> str:
    return "white" if decision in _WHITE else theme.ON_MARK
