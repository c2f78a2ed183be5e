"""What was done in one piece: the timeline, how many were open at once, and the transactions one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc

from cdcwb import charts
from cdcwb.analysis import indexed
from cdcwb.analysis.indexed import Ints
from cdcwb.index.columns import NO_TIME
from cdcwb.index.selected import TIME
from cdcwb.views.bench import Bench
from cdcwb.views.view import DRAWN, Answer, Panel, State, show_times
from cdcwb.words import count, duration, local, plural, to_the_second

__all__ = ["OpenAtOnce", "Timeline", "TransactionTable", "Unfinished"]

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


def headline(facts: Mapping[str, Any]) -> str:
    """What became of transactions, and the longest, in a sentence."""
    total = facts["transactions"]
    if not total:
        return "No transaction is selected."
    said = f"{count(facts.get('transactions_committed', 0))} of {plural(total, 'transaction')} committed"
    rolled = facts.get("transactions_rolled_back", 0)
    said += f", {count(rolled)} rolled back" if rolled else ""
    if facts["longest_us"] is not None:
        said += f"; longest {duration(facts['longest_us'])} ({facts['longest']})"
    still = facts.get("transactions_open", 0)
    return said + (f"; {count(still)} still open" if still else "")


def _drawn(bench: Bench, state: State) -> Ints:
    """The transactions that a figure shows."""
    return bench.overview.transactions(TIME) if state.brushed else bench.selected.transactions()


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
        facts = indexed.transaction_overview(transactions, bench.selected.transactions())
        numbers = _drawn(bench, state)
        chosen = indexed.longest(transactions, numbers, DRAWN[state.live], state.window)
        answer = Answer(headline(facts), facts=facts, none="There is no transaction to draw.")
        if not len(transactions):
            answer.headline, answer.none = "", "This log has no transactions: each row is on its own."
        if not len(chosen):
            return answer
        rows = transactions.records(chosen)
        answer.numbers = (rows, _columns(bench))
        unit = bench.source.index.unit_of(0)
        last = None if transactions.last is None else indexed.time_of(transactions.last)
        answer.figure = charts.timeline(rows, capture_end=last, unit=unit, named=state.live)
        told = answer.figure.layout.meta
        if state.brushed and told["on_time"]:
            show_times(answer.figure, bench)
        if state.window is not None and told["on_time"]:
            answer.figure.layout.xaxis.range = [local(one).isoformat(sep=" ") for one in state.window]
            inside = indexed.longest(transactions, numbers, len(numbers), state.window)
            if len(inside) > len(chosen):
                answer.notes.append(f"{count(len(chosen))} longest of {count(len(inside))} of this time are drawn.")
        elif len(numbers) > len(chosen):
            answer.notes.append(f"{count(len(chosen))} longest of {count(len(numbers))} are drawn; zoom in for others.")
        if told["drawn"] > told["on_time"]:
            answer.notes.append(f"{plural(told['drawn'] - told['on_time'], 'transaction')} without any time.")
        return answer

    def record(self, bench: Bench, state: State, point: Mapping[str, Any]) -> int | None:
        """The first record of a transaction."""
        transactions = bench.changes.transactions
        place = pc.index(transactions.rows["transaction_id"], str(point["id"])).as_py() if point.get("id") else -1
        return int(transactions.record[place]) if place >= 0 and transactions.record[place] >= 0 else None


class OpenAtOnce(Panel):
    """How many transactions are open at once."""

    name = "open_at_once"
    title = "Concurrent transactions"
    help = "A transaction is open from its begin until just before its end."
    brush = True

    def ask(self, bench: Bench, state: State) -> Answer:
        """See :class:`Panel`."""
        transactions = bench.changes.transactions
        steps, most, at, exact = indexed.open_at_once(transactions, _drawn(bench, state))
        facts = {"concurrency_most": most, "concurrency_at": at}
        answer = Answer(facts=facts, none="No selected transaction lasts from one time to another.")
        if steps:
            answer.headline = f"At most {plural(most, 'transaction')} at once, from {to_the_second(at)} on"
            answer.numbers = (steps, {"at": "from", "open": "open transactions"})
            answer.figure = charts.concurrency(steps, most, at, exact=exact)
            if state.brushed:
                show_times(answer.figure, bench)
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
        values = found.get(name, transactions.changes if name == "changes_total" else transactions.bytes)[numbers]
        known = numbers[values != NO_TIME]
        ranks = values[values != NO_TIME]
        order = np.argsort(-ranks if descending else ranks, kind="stable")
        chosen = np.concatenate([known[order], numbers[values == NO_TIME]])[: state.rows]
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
        numbers = numbers[transactions.is_unfinished[numbers]]
        order = np.lexsort((numbers, ~transactions.is_incomplete[numbers], ~transactions.is_open[numbers]))
        rows = transactions.records(numbers[order][: state.rows])
        columns = {**_columns(bench), "completeness": "completeness"}
        none = "Every selected transaction committed, and is complete."
        facts = {"transactions_unfinished": len(numbers)}
        return Answer("", None, rows, columns, len(numbers), facts=facts, none=none)
