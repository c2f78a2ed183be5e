"""The panels of pages that use the index: changes over time, tables, problems, changed columns and transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow.compute as pc

from cdcwb import charts
from cdcwb.analysis import concurrency, indexed
from cdcwb.analysis import transactions as ask
from cdcwb.analysis.change_counts import Changed, changed, updates
from cdcwb.analysis.contents import BINS
from cdcwb.index.changes import Changes, Transactions
from cdcwb.index.columns import NO_TIME, Ints
from cdcwb.index.selected import TIME, Selected
from cdcwb.model import Severity
from cdcwb.report.facts import headline
from cdcwb.time_axis import micros, time_of
from cdcwb.views.bench import Bench
from cdcwb.views.view import DRAWN, Answer, Panel, State, drawn, ordered, show_times
from cdcwb.words import count, local, plural, tally, time_on_axis, to_the_second

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = [
    "ChangedColumns",
    "ChangedOverTime",
    "Concurrent",
    "Problems",
    "Tables",
    "Timeline",
    "Together",
    "TransactionTable",
    "Unfinished",
    "When",
]


class When(Panel):
    """Changes by time and operation; the selection of times is ignored."""

    name = "when"
    title = "Changes over time"
    help = "Drag over the bars to select a time; double-click to select all. Click a bar to see its first record."
    brush = True

    def ask(self, bench: Bench, state: State) -> Answer:
        """See :class:`Panel`."""
        times = bench.selected.whatever_time(indexed.over_time)
        rows, untimed = times.over_time, times.without_time
        timed = sum(row["changes"] for row in rows)
        facts = {
            "changes": timed + sum(untimed.values()),
            "changes_over_time": timed,
            "changes_without_time": untimed,
        }
        without = [f"Without a time, so not in the chart: {tally(untimed)}."] if untimed else []
        answer = Answer(notes=without, facts=facts, none="No change is selected.")
        if rows:
            answer.figure = charts.done_over_time(rows, times.width_us, times.axis)
            answer.figure.update_layout(height=220)
            answer.numbers = (rows, {"began_at": "from", "operation": "operation", "changes": "changes"})
            show_times(answer.figure, bench)
        return answer

    def record(self, bench: Bench, state: State, point: Mapping[str, Any]) -> int | None:
        """The first selected change of a bar."""
        times = bench.selected.whatever_time(indexed.over_time)
        middle = micros(time_on_axis(str(point["x"])))
        low, high = middle - times.width_us // 2 - 1, middle + times.width_us // 2
        changes = bench.changes
        rows = np.flatnonzero(bench.selected.mask(TIME) & (changes.at >= low) & (changes.at <= high))
        return int(changes.record[rows[0]]) if len(rows) else None


class Tables(Panel):
    """The tables with changes."""

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
    """The problems of the selected records and transactions, worst first."""

    name = "problems"
    title = "Problems"
    sorts = ("severity", "code", "table")

    def ask(self, bench: Bench, state: State) -> Answer:
        """See :class:`Panel`."""
        index = bench.source.index
        ranks = {str(severity): rank for rank, severity in enumerate(Severity)}
        rows = [{**row, "record": row["row"] if row["row"] >= 0 else None} for row in bench.selected.problems()]
        rows.sort(key=lambda row: ranks.get(row["severity"], len(ranks)))
        codes = Counter(row["code"] for row in rows)
        counts = ", ".join(f"{code} {count(n)}" for code, n in codes.most_common(4))
        headline = f"{plural(len(rows), 'problem')}: {counts}" if rows else ""
        columns = {"severity": "severity", "code": "code", "sentence": "what", "table": "table"}
        columns |= {"transaction_id": "transaction"} if any(row["transaction_id"] for row in rows) else {}
        columns |= {"file": "file", "offset": "at offset"}
        shown = ordered(rows, state)[: state.rows]
        for row in shown:
            place = (
                {"file": None, "offset": None} if row["record"] is None else index.row(row["row"], ["file", "offset"])
            )
            row |= {"file": None if place["file"] is None else Path(place["file"]).name, "offset": place["offset"]}
        facts = {"problems": len(rows), "problem_codes": dict(codes)}
        return Answer(headline, None, shown, columns, len(rows), facts=facts, none="No problem.")


# --- masks ------------------------------------------------------------------------------------------------------------

_NONE = "No selected update is known to change a column."


def _others(names: list[str]) -> list[str]:
    """A note that there are other tables."""
    if len(names) < 2:
        return []
    return [f"{names[0]} is drawn; choose another of {plural(len(names), 'table')} in the bar above."]


def _tables(updates: Changed, rows: list[dict[str, Any]]) -> list[str]:
    """The tables with rows, most updates first."""
    names = {row["table"] for row in rows}
    return [name for name in updates.tables if name in names]


def _first_that_changed(bench: Bench, first: Mapping[int, int], names: set[str]) -> int | None:
    """The first record of a table that changed all these columns, from the first records by code of their set."""
    return min((record for code, record in first.items() if names <= set(bench.changes.sets[code])), default=None)


class ChangedOverTime(Panel):
    """When the columns of a table were changed."""

    name = "changed_over_time"
    title = "Which column changes when"
    help = "Drag to select a time. Click a cell to see the first update of it."
    brush = True

    def ask(self, bench: Bench, state: State) -> Answer:
        """See :class:`Panel`."""
        updates = changed(bench.changes, bench.selected.mask())
        changes, mask = drawn(bench, state)
        cells, width, axis = indexed.changed_over_time(changes, mask)
        number, idle, columns = updates.updates.total(), updates.idle.total(), len(updates.columns)
        headline = f"{plural(number, 'update')} of {plural(len(updates.updates), 'table')} change "
        headline += plural(columns, "column") + (f"; {plural(idle, 'no-op update')}" if idle else "")
        facts = {"updates": number, "idle": idle, "columns_changed": columns}
        answer = Answer(headline if number else "", facts=facts, none=_NONE)
        if cells and axis is not None:
            names = _tables(changed(changes, mask) if state.brushed else updates, cells)
            cells_of_table = [cell for cell in cells if cell["table"] == names[0]]
            answer.figure = charts.changed_over_time(cells_of_table, width, axis)
            answer.numbers = (cells_of_table, {"began_at": "from", "column": "column", "changed": "updates"})
            answer.notes = _others(names)
            show_times(answer.figure, bench)
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
        updates = changed(bench.changes, bench.selected.mask(), paired=True)
        rows = updates.together()
        names = _tables(updates, rows)
        answer = Answer(none="No selected update changes more than one column.")
        if names:
            pairs = [row for row in rows if row["table"] == names[0]]
            answer.figure = charts.together(pairs)
            heads = {"column": "column", "other": "other", "together": "together", "likeness": "share"}
            answer.numbers = (pairs, heads)
            answer.notes = _others(names)
        answer.facts = {"pairs": [[row["table"], row["column"], row["other"], row["together"]] for row in rows[:50]]}
        return answer

    def record(self, bench: Bench, state: State, point: Mapping[str, Any]) -> int | None:
        """The first update that changed both columns of a cell."""
        first = indexed.first_of_sets(bench.changes, bench.selected.mask())
        updates = changed(bench.changes, bench.selected.mask(), paired=True)
        tables = _tables(updates, updates.together())
        return _first_that_changed(bench, first.get(tables[0], {}), set(point["custom"] or ["\0"])) if tables else None


# --- transactions -----------------------------------------------------------------------------------------------------

_COLUMNS: Final = {
    "transaction_id": "transaction",
    "began_at": "begin",
    "ended_at": "end",
    "lasted_us": "duration",
    "outcome": "outcome",
    "changes_total": "changes",
    "tables": "tables",
    "bytes": "size",
}


def _columns(bench: Bench) -> dict[str, str]:
    unit = bench.source.index.unit_of(0) if bench.source.index.records else "byte"
    columns = {name: head for name, head in _COLUMNS.items() if name != "bytes" or unit == "byte"}
    columns |= {} if unit == "byte" else {"rows": "rows"}
    return columns | ({"user": "user"} if bench.changes.transactions.texts["user"] else {})


def overview(transactions: Transactions, numbers: Ints) -> dict[str, Any]:
    """The facts of all transactions, and ``longest_transactions``: id and duration of the longest, if known."""
    facts = ask.overview_of(transactions, numbers)
    ranked = transactions.records(ask.longest(transactions, ask.RANKED, numbers))
    known = [[row["transaction_id"], row["lasted_us"]] for row in ranked if row["lasted_us"] is not None]
    return facts | {"longest_transactions": known}


def _drawn(bench: Bench, state: State) -> Ints:
    """The transactions that a figure shows."""
    return bench.selected.transactions(TIME if state.brushed else ())


def _bars(changes: Changes, numbers: Ints, live: bool) -> tuple[list[dict[str, Any]], go.Figure]:
    """The transactions that are drawn as bars, and a figure of all of them."""
    transactions = changes.transactions
    rows = transactions.records(ask.drawn(transactions, DRAWN[live], numbers))
    last = None if transactions.until == NO_TIME else time_of(transactions.until)
    about: dict[str, Any] = {"capture_end": last, "unit": changes.record_index.unit_of(0), "named": live}
    if len(numbers) > len(rows) and changes.axis is not None:
        start, width = changes.axis.bins(BINS)
        about |= {"density": ask.density(transactions, numbers, start, width), "density_us": width}
    return rows, charts.timeline(rows, **about)


def _all_bars(selected: Selected) -> tuple[list[dict[str, Any]], go.Figure]:
    """The longest transactions of all times, and a figure of them."""
    return _bars(selected.changes, selected.transactions(TIME), live=True)


class Timeline(Panel):
    """A bar for each of the longest transactions; zooming in draws those of the visible range."""

    name = "timeline"
    title = "Timeline"
    help = (
        "Drag to select a time. The magnifying glass zooms instead: bars of that time are drawn. "
        "Click a bar to see its first record."
    )
    brush = True

    def ask(self, bench: Bench, state: State) -> Answer:
        """See :class:`Panel`."""
        transactions = bench.changes.transactions
        facts = overview(transactions, bench.selected.transactions())
        numbers = _drawn(bench, state)
        numbers = numbers if state.window is None else ask.reaching(transactions, numbers, state.window)
        sentence = headline("transactions", facts) if facts["transactions"] else "No transaction is selected."
        answer = Answer(sentence, facts=facts, none="There is no transaction to draw.")
        if not len(transactions):
            answer.headline, answer.none = "", "This log has no transactions: each row is on its own."
        if not len(numbers):
            return answer
        if state.brushed and state.window is None:
            rows, answer.figure = bench.selected.whatever_time(_all_bars)
        else:
            rows, answer.figure = _bars(bench.changes, numbers, state.live)
        answer.numbers = (rows, _columns(bench))
        drawn = answer.figure.layout.meta
        if drawn["on_time"]:
            show_times(answer.figure, bench)
        if state.window is not None and drawn["on_time"]:
            answer.figure.layout.xaxis.range = [local(time).isoformat(sep=" ") for time in state.window]
        if len(numbers) > len(rows):
            of_time = " of this time" if state.window is not None else ""
            answer.notes.append(
                f"{count(len(rows))} of {count(len(numbers))} transactions{of_time} are bars: the longest, and the "
                "longest of those that did not commit or are incomplete. The rows below count all; zoom in for others."
            )
        if drawn["widened"] and drawn["time_lanes"]:
            answer.notes.append(
                f"{plural(drawn['widened'], 'bar')} drawn wider than the duration, so there can be more lanes than "
                "transactions that are open at once."
            )
        if drawn["drawn"] > drawn["on_time"]:
            answer.notes.append(f"{plural(drawn['drawn'] - drawn['on_time'], 'transaction')} without any time.")
        return answer

    def record(self, bench: Bench, state: State, point: Mapping[str, Any]) -> int | None:
        """The first record of a transaction."""
        transactions = bench.changes.transactions
        number = pc.index(transactions.rows["transaction_id"], str(point["id"])).as_py() if point.get("id") else -1
        return int(transactions.record[number]) if number >= 0 and transactions.record[number] >= 0 else None


class Concurrent(Panel):
    """The number of concurrent transactions."""

    name = "concurrency"
    title = "Concurrent transactions"
    help = "A transaction is open from its begin until just before its end."
    brush = True

    def ask(self, bench: Bench, state: State) -> Answer:
        """See :class:`Panel`."""
        pieces = min(DRAWN[state.live], concurrency.PIECES)  # of the axis, with at most two points each
        selection = bench.selection
        window = (None, None) if state.brushed else (selection.time_from, selection.time_to)
        once = concurrency.of_some(bench.changes.transactions, _drawn(bench, state), pieces, window)
        facts = {"concurrency_most": once.most, "concurrency_at": once.at, "concurrency_average": once.average}
        answer = Answer(facts=facts, none="No selected transaction lasts from one time to another.")
        if once.at is not None:
            answer.headline = f"At most {plural(once.most, 'transaction')} at once, from {to_the_second(once.at)} on"
            answer.numbers = (once.steps, {"at": "from", "open": "open transactions"})
            answer.figure = charts.concurrency(once.steps, once.most, once.at, exact=once.exact)
            show_times(answer.figure, bench)
        return answer


class TransactionTable(Panel):
    """Transactions one by one, longest first."""

    name = "transactions"
    title = "Transactions"
    sorts = ("began_at", "ended_at", "lasted_us", "changes_total", "bytes", "rows")

    def ask(self, bench: Bench, state: State) -> Answer:
        """See :class:`Panel`."""
        transactions = bench.changes.transactions
        numbers = bench.selected.transactions()
        name, descending = state.order or ("lasted_us", True)
        columns = {"began_at": transactions.began, "ended_at": transactions.ended, "lasted_us": transactions.lasted}
        values = columns.get(name, transactions.changes if name == "changes_total" else transactions.bytes)
        ranks = np.where(values == NO_TIME, np.iinfo(np.int64).max, -values if descending else values)
        chosen = ask.ranked_by(transactions, min(state.rows, len(numbers)), numbers, ranks)
        rows = transactions.records(chosen)
        return Answer("", None, rows, _columns(bench), len(numbers), none="No transaction is selected.")


class Unfinished(Panel):
    """Transactions that did not commit or are incomplete."""

    name = "unfinished"
    title = "Not committed, or incomplete"

    def ask(self, bench: Bench, state: State) -> Answer:
        """See :class:`Panel`."""
        transactions = bench.changes.transactions
        numbers = bench.selected.transactions()
        total = int(transactions.is_unfinished[numbers].sum())
        rows = transactions.records(ask.first_unfinished(transactions, min(state.rows, total), numbers))
        columns = {**_columns(bench), "completeness": "completeness"}
        none = "Every selected transaction committed, and is complete."
        return Answer("", None, rows, columns, total, facts={"transactions_unfinished": total}, none=none)
