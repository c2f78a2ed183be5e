"""What was done in one piece: the timeline, how many were open at once, and the transactions one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow.compute as pc

from cdcwb import charts
from cdcwb.analysis import concurrency
from cdcwb.analysis import transactions as ask
from cdcwb.index.changes import Changes
from cdcwb.index.columns import NO_TIME
from cdcwb.index.selected import TIME, Selected
from cdcwb.index.transactions import Ints, Transactions
from cdcwb.report.headlines import headline
from cdcwb.time_axis import time_of
from cdcwb.views.bench import Bench
from cdcwb.views.view import DRAWN, Answer, Panel, State, show_times
from cdcwb.words import count, local, plural, to_the_second

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["Concurrent", "Timeline", "TransactionTable", "Unfinished"]

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
    """The facts of all of them, and ``longest_transactions``: id and duration of the longest, if any is known."""
    facts = ask.overview_of(transactions, numbers)
    ranked = transactions.records(ask.longest(transactions, 1, numbers))
    known = [[row["transaction_id"], row["lasted_us"]] for row in ranked if row["lasted_us"] is not None]
    return facts | {"longest_transactions": known}


def _drawn(bench: Bench, state: State) -> Ints:
    """The transactions that a figure shows."""
    return bench.overview.transactions(TIME) if state.brushed else bench.selected.transactions()


def _bars(changes: Changes, numbers: Ints, live: bool) -> tuple[list[dict[str, Any]], go.Figure]:
    """The longest of some transactions, and a figure of them."""
    transactions = changes.transactions
    rows = transactions.records(ask.longest(transactions, DRAWN[live], numbers))
    last = None if transactions.until == NO_TIME else time_of(transactions.until)
    return rows, charts.timeline(rows, capture_end=last, unit=changes.places.unit_of(0), named=live)


def _all_bars(overview: Selected) -> tuple[list[dict[str, Any]], go.Figure]:
    """The same of all times, where somebody looks."""
    return _bars(overview.changes, overview.transactions(TIME), live=True)


class Timeline(Panel):
    """A bar for every transaction, of the longest ones; zooming in draws those of that time."""

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
        said = headline("transactions", facts) if facts["transactions"] else "No transaction is selected."
        answer = Answer(said, facts=facts, none="There is no transaction to draw.")
        if not len(transactions):
            answer.headline, answer.none = "", "This log has no transactions: each row is on its own."
        if not len(numbers):
            return answer
        if state.brushed and state.window is None:
            rows, answer.figure = bench.overview.whatever_time(_all_bars)
        else:
            rows, answer.figure = _bars(bench.changes, numbers, state.live)
        answer.numbers = (rows, _columns(bench))
        told = answer.figure.layout.meta
        if told["on_time"]:
            show_times(answer.figure, bench, state)
        if state.window is not None and told["on_time"]:
            answer.figure.layout.xaxis.range = [local(one).isoformat(sep=" ") for one in state.window]
            if len(numbers) > len(rows):
                answer.notes.append(f"{count(len(rows))} longest of {count(len(numbers))} of this time are drawn.")
        elif len(numbers) > len(rows):
            answer.notes.append(f"{count(len(rows))} longest of {count(len(numbers))} are drawn; zoom in for others.")
        if told["drawn"] > told["on_time"]:
            answer.notes.append(f"{plural(told['drawn'] - told['on_time'], 'transaction')} without any time.")
        return answer

    def record(self, bench: Bench, state: State, point: Mapping[str, Any]) -> int | None:
        """The first record of a transaction."""
        transactions = bench.changes.transactions
        place = pc.index(transactions.rows["transaction_id"], str(point["id"])).as_py() if point.get("id") else -1
        return int(transactions.record[place]) if place >= 0 and transactions.record[place] >= 0 else None


class Concurrent(Panel):
    """How many transactions are open at once."""

    name = "concurrency"
    title = "Concurrent transactions"
    help = "A transaction is open from its begin until just before its end."
    brush = True

    def ask(self, bench: Bench, state: State) -> Answer:
        """See :class:`Panel`."""
        pieces = min(DRAWN[state.live], concurrency.PIECES)  # of the axis; each has two points at most
        once = concurrency.of_some(bench.changes.transactions, _drawn(bench, state), pieces)
        facts = {"concurrency_most": once.most, "concurrency_at": once.at, "concurrency_average": once.average}
        answer = Answer(facts=facts, none="No selected transaction lasts from one time to another.")
        if once.at is not None:
            answer.headline = f"At most {plural(once.most, 'transaction')} at once, from {to_the_second(once.at)} on"
            answer.numbers = (once.steps, {"at": "from", "open": "open transactions"})
            answer.figure = charts.concurrency(once.steps, once.most, once.at, exact=once.exact)
            show_times(answer.figure, bench, state)
        return answer


class TransactionTable(Panel):
    """Transactions one by one, the longest first."""

    name = "transactions"
    title = "Transactions"
    sorts = ("began_at", "ended_at", "lasted_us", "changes_total", "bytes", "rows")

    def ask(self, bench: Bench, state: State) -> Answer:
        """See :class:`Panel`."""
        transactions = bench.changes.transactions
        numbers = bench.selected.transactions()
        name, descending = state.order or ("lasted_us", True)
        found = {"began_at": transactions.began, "ended_at": transactions.ended, "lasted_us": transactions.lasted}
        values = found.get(name, transactions.changes if name == "changes_total" else transactions.bytes)
        ranks = np.where(values == NO_TIME, np.iinfo(np.int64).max, -values if descending else values)
        chosen = ask.ranked_by(transactions, min(state.rows, len(numbers)), numbers, ranks)
        rows = transactions.records(chosen)
        return Answer("", None, rows, _columns(bench), len(numbers), none="No transaction is selected.")


class Unfinished(Panel):
    """Transactions that did not commit, or of which the capture lacks something."""

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
