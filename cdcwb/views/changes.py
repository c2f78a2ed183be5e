"""What was done when, to which tables: the panels that every page can begin with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cdcwb import charts
from cdcwb.analysis import indexed
from cdcwb.index.selected import TIME
from cdcwb.time_axis import micros
from cdcwb.views.bench import Bench
from cdcwb.views.view import Answer, Panel, State, ordered, show_times
from cdcwb.words import count, plural, tally, time_on_axis

__all__ = ["Problems", "Tables", "When"]


class When(Panel):
    """Changes by time and operation, whatever times are selected."""

    name = "when"
    title = "Changes over time"
    help = "Drag over the bars to select a time; double-click to select all. Click a bar to see its first record."
    brush = True

    def ask(self, bench: Bench, state: State) -> Answer:
        """See :class:`Panel`."""
        found = bench.overview.whatever_time(indexed.over_time)
        rows, untimed = found.over_time, found.without_time
        facts = {"changes": sum(row["changes"] for row in rows), "changes_without_time": untimed}
        without = [f"Without a time, so not in the chart: {tally(untimed)}."] if untimed else []
        answer = Answer(notes=without, facts=facts, none="No change is selected.")
        if rows:
            answer.figure = charts.done_over_time(rows, found.width_us, found.axis)
            answer.figure.update_layout(height=220)
            answer.numbers = (rows, {"began_at": "from", "operation": "operation", "changes": "changes"})
            show_times(answer.figure, bench, replace(state, brushed=True))
        return answer

    def record(self, bench: Bench, state: State, point: Mapping[str, Any]) -> int | None:
        """The first selected change of a bar."""
        found = bench.overview.whatever_time(indexed.over_time)
        middle = micros(time_on_axis(str(point["x"])))
        low, high = middle - found.width_us // 2 - 1, middle + found.width_us // 2
        changes = bench.overview.changes
        rows = np.flatnonzero(bench.overview.mask(TIME) & (changes.at >= low) & (changes.at <= high))
        return int(changes.record[rows[0]]) if len(rows) else None


class Tables(Panel):
    """The tables that changed."""

    name = "tables"
    title = "Tables"
    sorts = ("table", "changes", "first_time", "last_time")

    def ask(self, bench: Bench, state: State) -> Answer:
        """See :class:`Panel`."""
        rows = indexed.tables(bench.changes, bench.selected.mask())
        columns = {"table": "table", "changes": "changes", "operations": "by operation"}
        columns |= {"first_time": "first", "last_time": "last"}
        shown = ordered(rows, state)[: state.rows]
        if not bench.selection.chosen():
            changed = {row["table"] for row in rows}
            versions = bench.source.index.versions.values()
            described = dict.fromkeys(".".join(filter(None, (v["schema_name"], v["table_name"]))) for v in versions)
            none = {"changes": 0, "operations": [], "first_time": None, "last_time": None}
            rows += [{"table": name, **none} for name in described if name and name not in changed]
        total = sum(row["changes"] for row in rows)
        headline = f"{plural(total, 'change')} of {plural(len(rows), 'table')}"
        if rows:
            most = max(rows, key=lambda row: row["changes"])
            headline += f", most of {most['table']}: {count(most['changes'])}"
        facts = {"tables": {row["table"]: dict(row["operations"]) for row in rows}}
        return Answer(headline, None, shown, columns, len(rows), facts=facts, none="No change is selected.")


class Problems(Panel):
    """What is wrong with the records and transactions that are selected."""

    name = "problems"
    title = "Problems"
    sorts = ("severity", "code", "table")

    def ask(self, bench: Bench, state: State) -> Answer:
        """See :class:`Panel`."""
        rows = [{**row, "record": row["row"] if row["row"] >= 0 else None} for row in bench.selected.problems()]
        codes: dict[str, int] = {}
        for row in rows:
            codes[row["code"]] = codes.get(row["code"], 0) + 1
        told = ", ".join(f"{code} {count(n)}" for code, n in sorted(codes.items(), key=lambda one: -one[1])[:4])
        headline = f"{plural(len(rows), 'problem')}: {told}" if rows else ""
        columns = {"severity": "severity", "code": "code", "sentence": "what", "table": "table"}
        columns |= {"transaction_id": "transaction"} if any(row["transaction_id"] for row in rows) else {}
        shown = ordered(rows, state)[: state.rows]
        facts = {"problems": len(rows), "problem_codes": codes}
        return Answer(headline, None, shown, columns, len(rows), facts=facts, none="No problem.")
