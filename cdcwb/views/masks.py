"""Which columns updates change: when, how often, and together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cdcwb import charts
from cdcwb.analysis import indexed
from cdcwb.analysis.change_counts import Changed, changed, updates
from cdcwb.time_axis import micros
from cdcwb.views.bench import Bench
from cdcwb.views.view import Answer, Panel, State, drawn, ordered, show_times
from cdcwb.words import plural, time_on_axis

__all__ = ["ChangedColumns", "ChangedOverTime", "Together"]

_NONE = "No selected update is known to change a column."


def _others(names: list[str]) -> list[str]:
    """That other tables are there too."""
    if len(names) < 2:
        return []
    return [f"{names[0]} is drawn; choose another of {plural(len(names), 'table')} in the bar above."]


def _tables(found: Changed, rows: list[dict[str, Any]]) -> list[str]:
    """The tables that have rows, those with most updates first."""
    there = {row["table"] for row in rows}
    return [name for name in found.tables if name in there]


def _first_that_changed(bench: Bench, first: Mapping[int, int], names: set[str]) -> int | None:
    """The first record of a table, of those by the code of their set, that changed all these columns."""
    return min((record for code, record in first.items() if names <= set(bench.changes.sets[code])), default=None)


class ChangedOverTime(Panel):
    """Which column of a table was changed when."""

    name = "changed_over_time"
    title = "Which column changes when"
    help = "Drag to select a time. Click a cell to see the first update of it."
    brush = True

    def ask(self, bench: Bench, state: State) -> Answer:
        """See :class:`Panel`."""
        found = changed(bench.changes, bench.selected.mask())
        changes, mask = drawn(bench, state)
        cells, width, axis = indexed.changed_over_time(changes, mask)
        number, idle, columns = found.updates.total(), found.idle.total(), len(found.columns)
        headline = f"{plural(number, 'update')} of {plural(len(found.updates), 'table')} change "
        headline += plural(columns, "column") + (f"; {plural(idle, 'no-op update')}" if idle else "")
        facts = {"updates": number, "idle": idle, "columns_changed": columns}
        answer = Answer(headline if number else "", facts=facts, none=_NONE)
        if cells and axis is not None:
            names = _tables(changed(changes, mask) if state.brushed else found, cells)
            mine = [cell for cell in cells if cell["table"] == names[0]]
            answer.figure = charts.changed_over_time(mine, width, axis)
            answer.numbers = (mine, {"began_at": "from", "column": "column", "changed": "updates"})
            answer.notes = _others(names)
            show_times(answer.figure, bench, state)
        return answer

    def record(self, bench: Bench, state: State, point: Mapping[str, Any]) -> int | None:
        """The first update of a cell."""
        changes, mask = drawn(bench, state)
        cells, width, _axis = indexed.changed_over_time(changes, mask)
        middle = micros(time_on_axis(str(point["x"])))
        sets = [code for code, names in enumerate(changes.sets) if point["custom"] in names]
        table = changes.texts["table"].index(_tables(changed(changes, mask), cells)[0])
        rows = updates(changes, mask) & (changes.codes["table"] == table) & np.isin(changes.set, sets)
        rows &= (changes.at >= middle - width // 2 - 1) & (changes.at <= middle + width // 2)
        first = np.flatnonzero(rows)
        return int(changes.record[first[0]]) if len(first) else None


class ChangedColumns(Panel):
    """How often each column is changed."""

    name = "changed_columns"
    title = "How often each column is changed"
    sorts = ("table", "column", "changed", "share")

    def ask(self, bench: Bench, state: State) -> Answer:
        """See :class:`Panel`."""
        rows = ordered(changed(bench.changes, bench.selected.mask()).changed_columns(), state)
        columns = {"table": "table", "column": "column", "changed": "changed", "share": "share of updates"}
        first = indexed.first_of_sets(bench.changes, bench.selected.mask())
        for row in rows[: state.rows]:
            row["record"] = _first_that_changed(bench, first[row["table"]], {row["column"]})
        facts = {"column_changes": {f"{row['table']}.{row['column']}": row["changed"] for row in rows}}
        return Answer("", None, rows[: state.rows], columns, len(rows), facts=facts, none=_NONE)


class Together(Panel):
    """Which columns change in the same update."""

    name = "together"
    title = "Which columns change together"
    help = "Click a cell to see the first update of both."

    def ask(self, bench: Bench, state: State) -> Answer:
        """See :class:`Panel`."""
        found = changed(bench.changes, bench.selected.mask(), paired=True)
        rows = found.together()
        names = _tables(found, rows)
        answer = Answer(none="No selected update changes more than one column.")
        if names:
            mine = [row for row in rows if row["table"] == names[0]]
            answer.figure = charts.together(mine)
            heads = {"column": "column", "other": "other", "together": "together", "likeness": "share"}
            answer.numbers = (mine, heads)
            answer.notes = _others(names)
        answer.facts = {"pairs": [[row["table"], row["column"], row["other"], row["together"]] for row in rows[:50]]}
        return answer

    def record(self, bench: Bench, state: State, point: Mapping[str, Any]) -> int | None:
        """The first update that changed both columns of a cell."""
        first = indexed.first_of_sets(bench.changes, bench.selected.mask())
        found = changed(bench.changes, bench.selected.mask(), paired=True)
        tables = _tables(found, found.together())
        return _first_that_changed(bench, first.get(tables[0], {}), set(point["custom"] or ["\0"])) if tables else None
