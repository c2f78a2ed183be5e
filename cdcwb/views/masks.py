"""Which columns updates change: when, how often, and together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cdcwb import charts
from cdcwb.analysis import indexed
from cdcwb.index.columns import micros
from cdcwb.views.bench import Bench
from cdcwb.views.view import Answer, Panel, State, drawn, show_times
from cdcwb.words import plural, time_on_axis

__all__ = ["ChangedColumns", "ChangedOverTime", "Together"]

_NONE = "No selected update is known to change a column."


def _others(names: list[str]) -> list[str]:
    """That other tables are there too."""
    if len(names) < 2:
        return []
    return [f"{names[0]} is drawn; choose another of {plural(len(names), 'table')} in the bar above."]


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
        changes, mask = bench.changes, bench.selected.mask()
        found, width, axis = indexed.changed_over_time(*drawn(bench, state))
        sets = indexed.sets_of(changes, mask)
        updates = sum(sum(one.values()) for one in sets.values())
        idle = sum(n for one in sets.values() for code, n in one.items() if code >= 0 and not changes.sets[code])
        columns = {
            (table, row) for table, one in sets.items() for code in one if code >= 0 for row in changes.sets[code]
        }
        headline = (
            f"{plural(updates, 'update')} of {plural(len(sets), 'table')} change {plural(len(columns), 'column')}"
        )
        headline += f"; {plural(idle, 'no-op update')}" if idle else ""
        facts = {"updates": updates, "idle": idle, "columns_changed": len(columns)}
        answer = Answer(headline if updates else "", facts=facts, none=_NONE)
        if found and axis is not None:
            names = list(found)
            answer.figure = charts.changed_over_time(found[names[0]], axis.first, axis.last, width, axis)
            answer.numbers = (found[names[0]], {"began_at": "from", "column": "column", "changed": "updates"})
            answer.notes = _others(names)
            if state.brushed:
                show_times(answer.figure, bench)
        return answer

    def record(self, bench: Bench, state: State, point: Mapping[str, Any]) -> int | None:
        """The first update of a cell."""
        changes, mask = drawn(bench, state)
        found, width, _axis = indexed.changed_over_time(changes, mask)
        middle = micros(time_on_axis(str(point["x"])))
        sets = [code for code, names in enumerate(changes.sets) if point["custom"] in names]
        table = changes.texts["table"].index(next(iter(found)))
        rows = indexed.updates(changes, mask) & (changes.codes["table"] == table) & np.isin(changes.set, sets)
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
        rows = indexed.changed_columns(bench.changes, bench.selected.mask())
        columns = {"table": "table", "column": "column", "changed": "changed", "share": "share of updates"}
        if state.order is not None:
            name, descending = state.order
            rows.sort(key=lambda row: row[name], reverse=descending)
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
        rows = indexed.together(bench.changes, bench.selected.mask())
        order = list(indexed.sets_of(bench.changes, bench.selected.mask()))
        names = [name for name in order if any(row["table"] == name for row in rows)]
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
        pairs = {row["table"] for row in indexed.together(bench.changes, bench.selected.mask())}
        drawn_table = next(
            (name for name in indexed.sets_of(bench.changes, bench.selected.mask()) if name in pairs), ""
        )
        return _first_that_changed(bench, first.get(drawn_table, {}), set(point["custom"] or ["\0"]))
