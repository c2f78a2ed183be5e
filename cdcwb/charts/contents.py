"""Charts of a capture's contents: changes over time by operation, and bytes of each file by outcome of decoding."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import plotly.graph_objects as go

from cdcwb.charts import theme
from cdcwb.model import OffsetUnit
from cdcwb.times import TimeAxis
from cdcwb.words import count, duration, local, moment, plural, size, zone_name

__all__ = [
    "MOST_FILES",
    "done_over_time",
    "heatmap",
    "ledger",
    "operations",
]


Record = Mapping[str, Any]

MOST_FILES: Final = 40
"""Maximum number of files that are drawn."""

_MICROSECOND: Final = timedelta(microseconds=1)
_ROW: Final = 24
_PARTS: Final = (
    ("understood", theme.Look("understood", theme.SAFE[6])),
    ("filler", theme.Look("filler", theme.SAFE[7], "/", theme.INK)),
    ("malformed", theme.Look("malformed", theme.SAFE[1], "x")),
    ("none", theme.Look("in no event", theme.SAFE[8], "+")),
)


def done_over_time(records: Iterable[Record], width_us: int, axis: TimeAxis | None = None) -> go.Figure:
    """The number of changes in each time bin, stacked by operation.

    Records: ``began_at`` (aware datetime, start of a bin), ``operation`` (text), ``changes`` (int); at most one for
    each bin and operation. ``width_us`` is the width of a bin in microseconds. ``axis``: the range of the time axis.
    """
    rows = list(records)
    known = list(theme.OPERATIONS)
    names = sorted({r["operation"] for r in rows}, key=lambda o: (known.index(o) if o in known else len(known), o))
    figure = theme.figure(height=300, barmode="stack", bargap=0)
    for name in names:
        some = [row for row in rows if row["operation"] == name]
        look = theme.look(theme.OPERATIONS, name)
        figure.add_bar(
            name=f"{look.title} ({count(sum(row['changes'] for row in some))})",
            x=[_middle(row, width_us) for row in some],
            y=[row["changes"] for row in some],
            width=width_us / 1000,
            marker=look.bar(),
            customdata=[[plural(row["changes"], "change"), moment(row["began_at"])] for row in some],
            hovertemplate=f"{look.title}: %{{customdata[0]}}<br>from %{{customdata[1]}} for {duration(width_us)}"
            "<extra></extra>",
        )
    totals: dict[Any, int] = {}
    for row in rows:
        totals[row["began_at"]] = totals.get(row["began_at"], 0) + row["changes"]
    figure.update_layout(
        showlegend=True,
        xaxis={"type": "date", "title": {"text": f"time ({zone_name()}), {duration(width_us)} a bar"}},
        yaxis=theme.counts(max(totals.values(), default=0), "changes"),
    )
    theme.limit_time(figure, axis, "change")
    return figure


def ledger(files: Iterable[Record], names: Iterable[str], unit: str = OffsetUnit.BYTE) -> go.Figure:
    """The bytes (``unit``; or rows) of files: a stacked bar for each file.

    Files: ``understood``, ``filler``, ``malformed``, ``none`` (int; None and 0 are not drawn), from top to bottom; the
    first :data:`MOST_FILES` are drawn. ``names``: the labels.
    """
    drawn = list(zip(files, names, strict=True))[:MOST_FILES]
    in_unit = size if unit == OffsetUnit.BYTE else lambda number: plural(number, unit)
    figure = theme.figure(height=_ROW * max(2, len(drawn)) + 110, barmode="stack", bargap=0.3)
    for part, look in _PARTS:
        numbers = [max(0, row[part] or 0) for row, _ in drawn]
        if not any(numbers) and part != "understood":
            continue
        figure.add_bar(
            orientation="h",
            name=f"{look.title} ({in_unit(sum(numbers))})",
            x=theme.lengths(numbers),
            y=list(range(len(drawn))),
            marker=look.bar(),
            customdata=[[theme.label(name), in_unit(number)] for (_, name), number in zip(drawn, numbers, strict=True)],
            hovertemplate="%{customdata[0]}<br>" + look.title + ": %{customdata[1]}<extra></extra>",
        )
    figure.update_layout(
        showlegend=True,
        xaxis=theme.counts(max((_sum(row) for row, _ in drawn), default=0), f"{unit}s"),
        yaxis={
            "tickvals": list(range(len(drawn))),
            "ticktext": [theme.label(name, 40) for _, name in drawn],
            "autorange": "reversed",
            "showgrid": False,
            "ticks": "",
        },
    )
    return figure


def _sum(row: Record) -> int:
    return sum(max(0, row[part] or 0) for part, _ in _PARTS)


def _middle(row: Record, width_us: int) -> str:
    return local(row["began_at"] + width_us / 2 * _MICROSECOND).isoformat(sep=" ", timespec="microseconds")


# --- overview ---------------------------------------------------------------------------------------------------------


def heatmap(records: Iterable[Record], rows: Sequence[str], width_us: int, axis: TimeAxis | None = None) -> go.Figure:
    """The number of transactions by time of begin and ``rows`` (from bottom to top): the overview of a large capture.

    Records: ``began_at`` (aware datetime, start of a bin), ``row`` (one of ``rows``), ``transactions`` (int); at most
    one for each bin and row. ``width_us`` is the width of a bin in microseconds. Colour is the logarithm of the number,
    since a bin may have one or a hundred thousand; the hover text has the number. Empty rows are left out. ``axis``:
    the range of the time axis.
    """
    cells = list(records)
    shown = [row for row in rows if any(c["row"] == row for c in cells)]
    columns, x = theme.time_columns((c["began_at"] for c in cells), width_us * _MICROSECOND, axis)
    column_of = {time: n for n, time in enumerate(columns)}
    z: list[list[float | None]] = [[None] * len(columns) for _ in shown]
    words: list[list[str]] = [[""] * len(columns) for _ in shown]
    for cell in cells:
        row, column, number = shown.index(cell["row"]), column_of[cell["began_at"]], cell["transactions"]
        z[row][column] = math.log10(number)
        words[row][column] = (
            f"{plural(number, 'transaction')}<br>{theme.label(cell['row'])}<br>began from {moment(cell['began_at'])}"
            f"<br>for {duration(width_us)}"
        )
    largest = max((c["transactions"] for c in cells), default=1)
    values, texts = theme.nice_ticks(largest)
    trace = go.Heatmap(
        x=x,
        y=[theme.label(row) for row in shown],
        z=z,
        text=words,
        hovertemplate="%{text}<extra></extra>",
        hoverongaps=False,
        colorscale=theme.SCALE,
        zmin=0,
        zmax=max(math.log10(largest), 1),
        xgap=1,
        ygap=2,
        colorbar={
            "title": {"text": "transactions", "side": "right"},
            "tickvals": values,
            "ticktext": texts,
            "thickness": 12,
            "outlinewidth": 0,
        },
    )
    figure = theme.figure(
        height=34 * max(1, len(shown)) + 90,
        traces=[trace],
        xaxis={"type": "date", "title": {"text": f"begin ({zone_name()})"}, "showgrid": False},
        yaxis={"type": "category", "showgrid": False, "ticks": ""},
    )
    theme.limit_time(figure, axis, "begin or end")
    return figure


def operations(records: Iterable[Record]) -> go.Figure:
    """The number of changes of each operation: a bar each, stacked by outcome.

    Records: ``operation`` (text), ``outcome`` (text; None: in no transaction), ``changes`` (int); at most one for each
    operation and outcome.
    """
    rows = list(records)
    totals: dict[str | None, int] = {}
    for row in rows:
        totals[row["operation"]] = totals.get(row["operation"], 0) + row["changes"]
    names = sorted(totals, key=lambda name: (totals[name], name or ""))
    places = {name: n for n, name in enumerate(names)}
    known = list(theme.OUTCOMES)
    outcomes = sorted(
        {r["outcome"] for r in rows}, key=lambda o: (known.index(o) if o in known else len(known), o or "")
    )
    figure = theme.figure(height=30 * max(1, len(names)) + 90, barmode="stack", bargap=0.35)
    for outcome in outcomes:
        some = [r for r in rows if r["outcome"] == outcome]
        look = theme.look(theme.OUTCOMES, outcome, "in no transaction")
        figure.add_bar(
            orientation="h",
            name=f"{look.title} ({count(sum(r['changes'] for r in some))})",
            x=theme.lengths(r["changes"] for r in some),
            y=[places[r["operation"]] for r in some],
            marker=look.bar(),
            customdata=[[theme.label(r["operation"]), count(r["changes"])] for r in some],
            hovertemplate="%{customdata[0]}, " + look.title + ": %{customdata[1]}<extra></extra>",
        )
    figure.update_layout(
        xaxis=theme.counts(max(totals.values(), default=0), "changes"),
        yaxis={
            "tickvals": list(places.values()),
            "ticktext": [f"{theme.label(n)}  {count(totals[n])}" for n in names],
            "showgrid": False,
            "ticks": "",
        },
    )
    return figure
