"""Charts of a capture's contents: changes over time by operation, and bytes of each file by outcome of decoding."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import plotly.graph_objects as go

from cdcwb.charts import theme
from cdcwb.charts.traces import add_bars, add_bins, date_axis, heatmap, known_first, line_axis, stacks, totals_of
from cdcwb.model import OffsetUnit
from cdcwb.times import TimeAxis
from cdcwb.words import count, duration, moment, plural, size, zone_name

Record = Mapping[str, Any]

MOST_FILES: Final = 40
"""Maximum number of files that are drawn."""

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
    figure = theme.figure(height=300, barmode="stack", bargap=0)
    totals: Counter[Any] = Counter()
    for operation in known_first(theme.OPERATIONS, (row["operation"] for row in rows)):
        bins = {row["began_at"]: row["changes"] for row in rows if row["operation"] == operation}
        totals.update(bins)
        look = theme.look(theme.OPERATIONS, operation)
        hover = f"{look.title}: %{{customdata[0]}}<br>from %{{customdata[1]}} for {duration(width_us)}"
        add_bins(figure, look, f"{look.title} ({count(sum(bins.values()))})", bins.items(), width_us, hover)
    title = {"text": f"time ({zone_name()}), {duration(width_us)} a bar"}
    yaxis = theme.counts(max(totals.values(), default=0), "changes")
    figure.update_layout(showlegend=True, xaxis={"type": "date", "title": title}, yaxis=yaxis)
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
    totals = [0] * len(drawn)
    for part, look in _PARTS:
        numbers = [max(0, row[part] or 0) for row, _ in drawn]
        totals = [total + number for total, number in zip(totals, numbers, strict=True)]
        if any(numbers) or part == "understood":
            texts = [[theme.label(name), in_unit(number)] for (_, name), number in zip(drawn, numbers, strict=True)]
            title, hover = f"{look.title} ({in_unit(sum(numbers))})", "%{customdata[0]}<br>WORD: %{customdata[1]}"
            add_bars(figure, look, title, range(len(drawn)), numbers, texts, hover.replace("WORD", look.title))
    yaxis = line_axis([theme.label(name, 40) for _, name in drawn], autorange="reversed")
    return figure.update_layout(showlegend=True, xaxis=theme.counts(max(totals, default=0), f"{unit}s"), yaxis=yaxis)


def begins(records: Iterable[Record], rows: Sequence[str], width_us: int, axis: TimeAxis | None = None) -> go.Figure:
    """The number of transactions by time of begin and ``rows`` (from bottom to top): the overview of a large capture.

    Records: ``began_at`` (aware datetime, start of a bin), ``row`` (one of ``rows``), ``transactions`` (int); at most
    one for each bin and row. ``width_us`` is the width of a bin in microseconds. Colour is the logarithm of the number,
    since a bin may have one or a hundred thousand; the hover text has the number. Empty rows are left out. ``axis``:
    the range of the time axis.
    """
    cells = {(cell["row"], cell["began_at"]): cell["transactions"] for cell in records}
    lines = [row for row in rows if any(row == name for name, _ in cells)]
    columns, x = theme.time_columns((begin for _, begin in cells), timedelta(microseconds=width_us), axis)

    def in_words(row: str, begin: datetime) -> str:
        number = plural(cells[row, begin], "transaction")
        return f"{number}<br>{theme.label(row)}<br>began from {moment(begin)}<br>for {duration(width_us)}"

    largest = max(cells.values(), default=1)
    values, texts = theme.nice_ticks(largest)
    figure = heatmap(
        x,
        [theme.label(row) for row in lines],
        [[math.log10(cells[row, at]) if (row, at) in cells else None for at in columns] for row in lines],
        [[in_words(row, at) if (row, at) in cells else "" for at in columns] for row in lines],
        height=34 * max(1, len(lines)) + 90,
        largest=max(math.log10(largest), 1),
        bar={"title": "transactions", "tickvals": values, "ticktext": texts},
        xaxis=date_axis("begin"),
        ygap=2,
    )
    theme.limit_time(figure, axis, "begin or end")
    return figure


def operations(records: Iterable[Record]) -> go.Figure:
    """The number of changes of each operation: a bar each, stacked by outcome.

    Records: ``operation`` (text), ``outcome`` (text; None: in no transaction), ``changes`` (int); at most one for each
    operation and outcome.
    """
    rows = list(records)
    totals = totals_of(rows, "operation", "changes")
    labels = {name: theme.label(name) for name in sorted(totals, key=lambda name: (totals[name], name or ""))}
    of_rows, hover = ("operation", "outcome", "changes"), "%{customdata[0]}, WORD: %{customdata[1]}"
    look: dict[str, Any] = {"height": 30 * max(1, len(labels)) + 90, "bargap": 0.35, "missing": "in no transaction"}
    return stacks(rows, of_rows, theme.OUTCOMES, labels, lambda number, _: count(number), hover, "change", **look)
