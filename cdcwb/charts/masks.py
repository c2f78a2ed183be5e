"""Charts of changed columns: over time, how often, together, and the bits of masks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import plotly.graph_objects as go

from cdcwb.charts import theme
from cdcwb.charts.traces import add_bars, date_axis, heatmap, line_axis, totals_of
from cdcwb.times import TimeAxis
from cdcwb.words import count, duration, moment, plural

Record = Mapping[str, Any]

MOST_COLUMNS: Final = 60
"""Maximum number of columns of a table that are drawn: the most changed ones."""
MOST_PAIRED: Final = 24
"""Maximum number of columns of a table whose pairs are drawn: the most changed ones."""

_ROW: Final = 20
_STATES: Final = ("not set", "set", "header column", "set, of a header column", "set, beyond the last column")
_COLOURS: Final = ("#eef1f4", theme.SAFE[6], "#d5dae0", theme.SAFE[1], theme.SAFE[7])


def changed_over_time(records: Sequence[Record], width_us: int, axis: TimeAxis) -> go.Figure:
    """How often each column of one table was changed over time: a row for every column, most changed at the top.

    Records: ``column``, ``began_at`` (aware datetime, start of a bin), ``changed`` (int). Bins are ``width_us``
    microseconds wide and cover ``axis``, the time axis of all tables. Colour is linear from 0 to the largest number;
    the hover text has the number.
    """
    cells = {(cell["column"], cell["began_at"]): cell["changed"] for cell in records}
    totals = totals_of(records, "column", "changed")
    names = sorted(totals, key=lambda name: (totals[name], name))[-MOST_COLUMNS:]
    width = timedelta(microseconds=width_us)
    bins = {time for _, time in cells}
    before = sum(changed for (_, time), changed in cells.items() if axis.first - time >= width)
    after = sum(changed for (_, time), changed in cells.items() if time > axis.last)
    axis = replace(axis, before=before, after=after)
    start = min(bins, default=axis.first)
    ends = [start + (time - start) // width * width for time in (axis.first, axis.last)]
    times, x = theme.time_columns([*ends, *bins], width, axis)
    # 0 where other columns changed; nothing where no update of the table did
    z = [[cells.get((name, time), 0 if time in bins else None) for time in times] for name in names]
    largest = max(cells.values(), default=1)

    def in_words(name: str, time: datetime, number: int | None) -> str:
        changed = f"changed {plural(number or 0, 'time')}<br>from {moment(time)} for {duration(width_us)}"
        return "" if number is None else f"{theme.label(name)}<br>{changed}"

    figure = heatmap(
        x,
        [f"{theme.label(name, 30)}  {count(totals[name])}" for name in names],
        z,
        [list(map(in_words, [name] * len(times), times, row)) for name, row in zip(names, z, strict=True)],
        height=_ROW * max(2, len(names)) + 110,
        largest=max(largest, 2),
        bar={"title": "updates", **theme.whole_step(largest)},
        xaxis=date_axis(),
        yaxis={"dtick": 1},
        customdata=[[name] * len(times) for name in names],
    )
    theme.limit_time(figure, axis, "column change")
    return figure


def often(records: Iterable[Record]) -> go.Figure:
    """The number of a table's updates that changed each column, and that set it to NULL; without unchanged columns.

    Records of one table: ``column``, ``changed``, ``became_null``, ``updates`` (int).
    """
    changed = [row for row in records if row["changed"]]
    rows = sorted(changed, key=lambda row: (row["changed"], row["column"]))[-MOST_COLUMNS:]
    xaxis = theme.counts(rows[-1]["changed"] if rows else 0, "updates that changed the column")
    yaxis = line_axis([f"{theme.label(row['column'], 30)}  {count(row['changed'])}" for row in rows])
    look: dict[str, Any] = {"height": _ROW * max(2, len(rows)) + 110, "barmode": "stack", "bargap": 0.3}
    figure = theme.figure(**look, xaxis=xaxis, yaxis=yaxis)
    names = [[theme.label(row["column"]), plural(row["updates"], "update")] for row in rows]
    nulls = [row["became_null"] for row in rows]
    values = [row["changed"] - row["became_null"] for row in rows]
    for title, operation, numbers in (("set to a value", "UPDATE", values), ("set to NULL", "DELETE", nulls)):
        texts = [[name, count(number), updates] for (name, updates), number in zip(names, numbers, strict=True)]
        hover = f"%{{customdata[0]}}<br>{title} in %{{customdata[1]}} of %{{customdata[2]}}"
        add_bars(figure, theme.OPERATIONS[operation], title, range(len(rows)), numbers, texts, hover)
    return figure


def together(records: Iterable[Record], most: int = MOST_PAIRED) -> go.Figure:
    """Which columns of a table change in the same update: colour is the number of updates that changed both divided by
    the number that changed either, from 0 to the largest share.

    Records: ``column``, ``other``, ``together``, ``column_changed``, ``other_changed``, ``likeness`` (0 to 1).
    """
    rows = list(records)
    changed = {row[name]: row[f"{name}_changed"] for name in ("column", "other") for row in rows}
    names = sorted(changed, key=lambda name: (-changed[name], name))[:most]
    pairs = {(row["column"], row["other"]): row for row in rows} | {(row["other"], row["column"]): row for row in rows}
    cells = [[pairs.get((column, other)) for other in names] for column in names]
    labels = [theme.label(name, 24) for name in names]
    largest = max((pair["likeness"] for line in cells for pair in line if pair and pair["likeness"]), default=1.0)
    step = next(step for step in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2) if largest <= 6 * step)
    return heatmap(
        labels,
        labels,
        [[pair and pair["likeness"] for pair in line] for line in cells],
        [["" if pair is None else _pair_text(pair) for pair in line] for line in cells],
        height=_ROW * max(4, len(names)) + 170,
        largest=largest,
        bar={"title": "share", "tickformat": ".1~%", "tick0": 0, "dtick": step},
        xaxis={"tickangle": -40},
        yaxis={"autorange": "reversed"},
        customdata=[[[column, other] if (column, other) in pairs else None for other in names] for column in names],
    )


def _pair_text(pair: Record) -> str:
    both = f"{theme.label(pair['column'])} and {theme.label(pair['other'])}"
    return (
        f"{both}<br>together in {plural(pair['together'], 'update')}"
        f"<br>alone {count(pair['column_changed'] - pair['together'])} and "
        f"{count(pair['other_changed'] - pair['together'])}"
    )


def bits(masks: Sequence[Any]) -> go.Figure:
    """Masks of one table bit by bit, a row for each mask: bit 0 at the left, in the order of the bytes, with the column
    of a bit above it. In wide masks, consecutive bits that are never set share a column of the chart; every bit that is
    set has its label.

    Masks have ``mask`` (text), ``changes`` (int) and ``bits`` with ``number``, ``column``, ``kind`` (data, header or
    beyond) and ``is_set``. The hover text has byte, bit and column.
    """
    width = max((len(mask.bits) for mask in masks), default=0)
    names = {bit.number: bit for mask in masks for bit in mask.bits}
    runs = _runs(width, {bit.number for mask in masks for bit in mask.bits if bit.is_set})
    z, words, marks = [], [], []
    for mask in masks:
        by_number = {bit.number: bit for bit in mask.bits}
        firsts = [by_number.get(first) for first, _ in runs]
        states = [0 if bit is None else _state(bit) for bit in firsts]
        z.append(states)
        marks.append(["●" if state in (1, 3, 4) else "" for state in states])
        words.append(
            [
                f"bits {first} to {last}: set in no mask" if last > first else _bit_text(mask, bit) if bit else ""
                for (first, last), bit in zip(runs, firsts, strict=True)
            ]
        )
    steps = len(_COLOURS)
    return heatmap(
        list(range(len(runs))),
        [f"{theme.label(mask.mask, 20)}  {count(mask.changes)}×" for mask in masks],
        z,
        marks,
        height=(_ROW + 4) * max(2, len(masks)) + 190,
        largest=steps - 0.5,
        bar={"title": ""},
        xaxis={
            **line_axis([f"{a} to {b}" if b > a else _tick(a, names.get(a)) for a, b in runs]),
            "type": "-",
            "tickangle": -60,
            "side": "top",
        },
        yaxis={"autorange": "reversed"},
        zmin=-0.5,
        customdata=words,
        texttemplate="%{text}",
        textfont={"color": theme.ON_MARK},
        hovertemplate="%{customdata}<extra></extra>",
        colorscale=[[edge / steps, colour] for at, colour in enumerate(_COLOURS) for edge in (at, at + 1)],
        showscale=False,
        ygap=2,
    ).update_layout(margin={"t": 12})


def _runs(width: int, are_set: set[int]) -> list[tuple[int, int]]:
    """The columns of a chart of ``width`` bits: the first and the last bit of each. A bit that is set has its own
    column; so have all bits if there is room."""
    if width <= MOST_COLUMNS:
        return [(number, number) for number in range(width)]
    runs: list[tuple[int, int]] = []
    for number in range(width):
        if runs and number not in are_set and runs[-1][1] not in are_set:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _state(bit: Any) -> int:
    return {"header": (2, 3), "beyond": (0, 4)}.get(bit.kind, (0, 1))[bit.is_set]


def _tick(at: int, bit: Any) -> str:
    if bit is None or bit.column is None:
        return f"{at} header" if bit is not None and bit.kind == "header" else str(at)
    return f"{at} {theme.label(bit.column, 18)}"


def _bit_text(mask: Any, bit: Any) -> str:
    what = theme.label(bit.column) if bit.column is not None else _STATES[_state(bit)]
    state = "set" if bit.is_set else "not set"
    return (
        f"bit {bit.number} (byte {bit.number // 8}, bit {bit.number % 8} of it, {mask.order} byte order)"
        f"<br>{what}: {state}"
    )
