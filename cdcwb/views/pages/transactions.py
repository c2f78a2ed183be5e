"""The page about transactions: times, users and outcomes, concurrency, commit latency, and the sequence of
positions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from cdcwb import charts
from cdcwb.analysis import concurrency, integrity, transactions
from cdcwb.analysis import transactions as ask
from cdcwb.analysis.chosen import Wanted, check_wanted, narrowed
from cdcwb.analysis.contents import short_names
from cdcwb.report import show
from cdcwb.views.pages.page import Page, Sheet, panel
from cdcwb.views.panels import Concurrent, Timeline
from cdcwb.words import count, joined, moment, plural, rounded, tally

if TYPE_CHECKING:
    from cdcwb.report.opening import Page as Opened
    from cdcwb.time_axis import TimeAxis

__all__ = ["Transactions"]

_WHO: Final = {"transaction_id": "transaction", "began_at": "begin", "ended_at": "end"}


class Transactions(Page):
    """Timeline, concurrency, latency, positions, and the transactions one by one.

    ``users``, ``outcomes`` (committed, rolled_back, open), ``least_changes``, ``least_bytes``, ``least_seconds``: only
    matching transactions.
    """

    title: ClassVar[str] = "Transactions"
    notebook: ClassVar[str] = "transactions"

    def __init__(self, opened: Opened, **wanted: Any) -> None:
        self.wanted = self.check(**wanted)
        super().__init__(narrowed(opened, self.wanted))
        facts = ask.overview(self.capture)
        self.facts: dict[str, Any] = facts
        self.first, self.last = facts["first_time"], facts["last_time"]
        self.tick_us = 1_000_000 if facts["whole_seconds"] else 1

    @classmethod
    def check(cls, **wanted: Any) -> Wanted:
        """See :func:`cdcwb.analysis.chosen.check_wanted`."""
        return check_wanted(**wanted)

    @property
    def is_live(self) -> bool:
        """See :class:`Page`: a selection cannot express the minimum numbers."""
        return super().is_live and not (self.wanted.least_changes or self.wanted.least_bytes or self.wanted.least_us)

    @property
    def selected(self) -> dict[str, Any]:
        """See :class:`Page`."""
        return super().selected | {"users": self.wanted.users, "outcomes": self.wanted.outcomes}

    @cached_property
    def axis(self) -> TimeAxis | None:
        """The time axis of all charts."""
        return ask.axis(self.capture, self.first, self.last) if self.first else None

    @cached_property
    def longest_ones(self) -> list[dict[str, Any]]:
        """The longest transactions."""
        return ask.timeline(self.capture, until=self.last)

    @cached_property
    def ranked(self) -> list[dict[str, Any]]:
        """The longest transactions of known duration."""
        return [row for row in self.longest_ones if row["lasted_us"] is not None][: ask.RANKED]

    @property
    def columns(self) -> dict[str, str]:
        """Headings of the contents of a transaction."""
        what = {"outcome": "outcome", "changes": "changes", "tables": "tables"}
        what |= {"bytes": "size"} if self.summary["unit"] == "byte" else {"rows": "rows"}
        return what | ({"user": "user"} if self.facts["transactions_with_user"] else {})

    @property
    def all_unknown(self) -> bool:
        """Whether the completeness of all transactions is unknown."""
        return bool(0 < self.facts["transactions"] == self.facts["transactions_unknown"])

    @panel("Summary")
    def overview(self, sheet: Sheet) -> None:
        """The outcomes of the transactions, and the limits of the page."""
        facts, summary = self.facts, self.summary
        self.begin(sheet, {**facts, "changes_by_outcome": summary["changes_by_outcome"], "filters": self.wanted.limits})
        if self.wanted.limits and not facts["transactions"]:
            sheet.note(f"No transaction fits: {'; '.join(self.wanted.limits)}.")
        by_outcome = {name: n for name in ("committed", "rolled_back", "open") if (n := facts[f"transactions_{name}"])}
        lacking = {name: n for name in ("no_begin", "no_end", "gaps") if (n := facts[f"transactions_{name}"])}
        longest = "not known" if facts["longest_us"] is None else rounded(facts["longest_us"])
        to_position = f"to {facts['last_position']}" if facts["last_position"] else ""
        restart = summary["restart_position"] or "not known"
        undone = count(summary["changes_by_outcome"].get("undone", 0))
        complete = "not known" if self.all_unknown else count(facts["transactions_complete"])
        incomplete = f"others: {tally(lacking)}".replace("_", " ") if lacking else "all of them"
        incomplete = "nothing numbers their events" if self.all_unknown else incomplete
        committed_only = summary["committed_only"]
        sheet.cards(
            [
                ("transactions", count(facts["transactions"]), tally(by_outcome).replace("_", " ")),
                ("complete transactions", complete, incomplete) if committed_only and facts["transactions"] else None,
                ("changes", count(summary["changes"]), tally(summary["changes_by_operation"])),
                None if committed_only else ("undone changes", undone, "undone by a rollback to a savepoint"),
                ("longest transaction", longest, "of those with begin and end"),
                self.time_card(self.first, self.last),
                ("log covered from", facts["first_position"] or "not known", to_position),
                None
                if committed_only
                else ("restart position", restart, "from where to read so that nothing is missed"),
                self.problems_card(),
            ]
        )

    @panel("Timeline", Timeline)
    def timeline(self, sheet: Sheet) -> None:
        """A bar for every transaction, from its begin to its end, on axes of time and log position."""
        shown, columns = self.longest_ones, {**_WHO, "duration_us": "duration", **self.columns}
        ends = {"capture_end": self.last, "last_position": self.facts["last_position"]}
        totals = {name: self.facts[f"transactions_{name}"] for name in ("committed", "rolled_back", "open")}
        figure = charts.timeline(shown, **ends, unit=self.summary["unit"], axis=self.axis, totals=totals)
        drawn = figure.layout.meta
        total = self.facts["transactions"]
        sheet.record(
            {
                "timeline_shown": drawn["drawn"],
                "timeline_on_time": drawn["on_time"],
                "timeline_lanes": drawn["time_lanes"],
            }
        )
        if total > drawn["drawn"]:
            if self.axis is not None:  # else no transaction has a time
                self._all_begins(sheet, total, self.axis)
            bars = f"{count(drawn['drawn'])} of {count(total)} transactions are bars"
            sheet.note(f"{bars}: the longest, and the longest of those that did not commit or are incomplete.")
        numbers = show.table_html(shown[:30], columns)
        sheet.chart(figure, numbers)
        if drawn["drawn"] > drawn["on_time"]:
            without = plural(drawn["drawn"] - drawn["on_time"], "transaction")
            sheet.note(f"{without} without any time: only on the axis of the log.")
        if self.capture.format.startswith("qlik") and self.facts["transactions"]:
            sheet.note(
                "A transaction begins with its first change, by the clock of the source, and ends with its commit, "
                "by the clock of the server that delivered it: their difference is in every duration."
            )
        if drawn["widened"]:
            widened = plural(drawn["widened"], "bar")
            sheet.note(f"{widened} drawn wider than the duration on the time axis; point at a bar to see its duration.")

    def _all_begins(self, sheet: Sheet, total: int, axis: TimeAxis) -> None:
        sheet.note(f"All {plural(total, 'transaction')} by the time of their begin:")
        cells, width = ask.histogram(self.capture, axis, least_us=self.tick_us)
        heads = {"began_at": "begin from", "row": "duration or outcome", "transactions": "transactions"}
        numbers = show.table_html(cells[:50], heads)
        sheet.chart(charts.heatmap(cells, ask.BANDS, width, axis), numbers)
        begun = sum(cell["transactions"] for cell in cells)
        if begun < total:
            sheet.note(f"Without a time of begin, and so not in this chart: {count(total - begun)}.")
        sheet.record({"histogram_transactions": begun})

    @panel("Concurrent transactions", Concurrent)
    def concurrency(self, sheet: Sheet) -> None:
        """The number of concurrent transactions."""
        once = concurrency.over_time(self.capture, self.first, self.last, least_us=self.tick_us, axis=self.axis)
        if once.steps:
            numbers = show.table_html(once.steps[:60], {"at": "from", "open": "open transactions"})
            sheet.chart(charts.concurrency(once.steps, once.most, once.at, exact=once.exact, axis=self.axis), numbers)
            sheet.note(
                f"At most {plural(once.most, 'transaction')} at once, from {moment(once.at)} to {moment(once.until)}."
            )
            sheet.note(f"On average {once.average:.1f}, of {plural(once.counted, 'transaction')} that last.")
        elif self.facts["transactions"]:
            sheet.note("No transaction lasts from one time to another, as far as times are known.")
        else:
            sheet.note("This log has no transactions, so none is open.")
        sheet.record({"concurrency_most": once.most, "concurrency_at": once.at, "concurrency_average": once.average})
        sheet.record({"concurrency_points": len(once.steps), "concurrency_counted": once.counted})
        apart = {"that begin and end at one time": once.instants, "that end before they begin": once.backwards}
        apart |= {"of which one time only is known": once.one_time, "without any time": once.no_time}
        if any(apart.values()):
            excluded = joined([f"{plural(n, 'transaction')} {what}" for what, n in apart.items() if n])
            sheet.note(f"Not counted: {excluded}.")
        none = concurrency.InLog(0, None, None, 0)
        in_log = none if self.summary["committed_only"] else concurrency.in_log(self.capture)
        if in_log.position:
            sheet.note(
                "In the log, where every begin and end has a position of its own: at most "
                f"{plural(in_log.most, 'transaction')} at once, from {in_log.position} on, "
                f"where {in_log.transaction_id} begins."
            )
        sheet.record({"concurrency_in_log": in_log.most, "concurrency_in_log_at": in_log.position})

    @panel("Commit latency")
    def latency(self, sheet: Sheet) -> None:
        """The latency from changes to commit, and the duration of transactions."""
        waited, lasted = transactions.latency(self.capture)
        heads = {
            "what": "of",
            "known": "known",
            "p50_us": "p50",
            "p95_us": "p95",
            "p99_us": "p99",
            "most_us": "longest",
        }
        both = [("change", waited, "commit latency"), ("transaction", lasted, "duration")]
        sheet.table(
            [{"what": f"{name}s", **delays.figures} for name, delays, _ in both if delays.known],
            heads,
            none="No latency is known.",
        )
        for name, delays, title in both:
            marks = {"p50": delays.p50_us, "p95": delays.p95_us, "p99": delays.p99_us, "longest": delays.most_us}
            if delays.known:
                numbers = show.table_html(delays.bins, {"bin": "from", "count": f"{name}s"})
                sheet.chart(charts.latency(delays.bins, marks, name, title), numbers)
            if delays.known < delays.all:
                sheet.note(f"Not known for {plural(delays.all - delays.known, name)}: one of the two times is missing.")
            if delays.longer:
                sheet.note(f"There are many different ones: p50, p95 and p99 are at most {delays.longer:.2%} too long.")
            if delays.negative:
                sheet.note(
                    f"{plural(delays.negative, name)} below 0: two clocks that disagree, or one that was set back."
                )
        if waited.all and waited.all < self.summary["changes"]:
            rest = plural(self.summary["changes"] - waited.all, "change")
            sheet.note(f"Not counted: {rest} in no transaction that committed.")
        if not waited.known and self.facts["transactions"]:
            sheet.note("Changes have no time of their own, so only the durations of transactions are known.")
        if not self.facts["transactions"]:
            sheet.note("There are no transactions, so there is no commit latency.")
        heads = {"table": "table", "known": "changes", "p50_us": "p50", "p95_us": "p95", "most_us": "longest"}
        if waited.tables:
            sheet.table(waited.tables[:20], heads, total=len(waited.tables))
        for name, delays, _ in both:
            sheet.record({f"{name}_latency_{figure}": number for figure, number in delays.figures.items()})

    @panel("Positions")
    def positions(self, sheet: Sheet) -> None:
        """Records out of order: positions that do not rise in a stream."""
        order = integrity.order(self.capture)
        heads = {
            "stream": "stream",
            "format": "format",
            "records": "records",
            "steps_back": "out of order",
            "behind": "behind",
        }
        names = short_names([stream["stream"] for stream in order.streams])
        streams = [{**row, "stream": name or "the log"} for row, name in zip(order.streams, names, strict=True)]
        heads |= {"first_position": "lowest position", "last_position": "highest"}
        sheet.table(streams[:30], heads, total=len(streams), none="No record has a position.")
        heads = {"file": "file", "offset": "offset", "record_type": "type", "position": "position"}
        heads |= {"before_position": "preceding position", "transaction_id": "transaction"}
        if order.records:
            sheet.table(
                order.places,
                heads,
                total=order.steps_back,
                none="No position is out of order.",
                folder=self.asked.shown,
            )
        sheet.record(
            {"positions_back": order.steps_back, "positions_behind": order.behind, "positions_records": order.records}
        )
        sheet.record({"positions_back_places": [[row["file"], row["offset"], row["position"]] for row in order.places]})

    @panel("Duplicates and shared positions")
    def repeated(self, sheet: Sheet) -> None:
        """Records with the same position: duplicates, and others."""
        double = integrity.twice(self.capture)
        heads = {
            "position": "position",
            "what": "what",
            "records": "records",
            "file": "first in",
            "offset": "at offset",
        }
        heads |= {
            "again_at": "again in",
            "again_offset": "at offset",
            "again_kind": "as",
            "transaction_id": "transaction",
        }
        again = [{**row, "again_at": row["again_file"].rpartition("/")[2]} for row in double.places]
        sheet.table(
            again, heads, total=double.positions, none="No two records have the same position.", folder=self.asked.shown
        )
        sheet.record(
            {"positions_twice": double.positions, "positions_surplus": double.surplus, "duplicates": double.duplicates}
        )
        places = [[row["position"], row["again_file"], row["again_offset"]] for row in double.places]
        sheet.record({"positions_twice_places": places})

    @panel("Missing")
    def missing(self, sheet: Sheet) -> None:
        """Gaps in the source's own numbering."""
        total = next((problem["count"] for problem in self.summary["problems_by_code"] if problem["code"] == "gap"), 0)
        gaps = integrity.gaps(self.capture) if total else []
        heads = {"sentence": "gap", "file": "file", "offset": "offset", "transaction_id": "transaction"}
        sheet.table(
            gaps,
            heads | {"table": "table"},
            total=total,
            none="No gap shows inside a transaction.",
            folder=self.asked.shown,
        )
        numbers = (
            [] if self.asked.limits else [row for row in integrity.missing_numbers(self.capture) if row["missing"]]
        )
        numbers = [{**row, "stream": row["stream"].rpartition("/")[2] or "the log"} for row in numbers]
        heads = {"stream": "stream", "numbering": "numbers", "first": "from", "last": "to", "there": "there"}
        if numbers:
            sheet.table(numbers[:30], heads | {"missing": "missing"}, total=len(numbers))
            sheet.note("Compacted topics and the sequences of databases leave numbers out although nothing is missing.")
        sheet.record({"gaps": total, "numbers_missing": {row["stream"]: row["missing"] for row in numbers[:1000]}})

    def answered_by(self) -> Mapping[str, Any]:
        """See :class:`Page`."""
        return {"longest_transactions": [[row["transaction_id"], row["lasted_us"]] for row in self.ranked]}

    @panel("Longest")
    def longest(self, sheet: Sheet) -> None:
        """The transactions that lasted longest."""
        heads = {**_WHO, "lasted_us": "duration", **self.columns}
        sheet.table(self.ranked, heads, none="No transaction has a duration.")
        sheet.record(self.answered_by())

    @panel("Largest")
    def largest(self, sheet: Sheet) -> None:
        """The transactions with most bytes, or rows."""
        ranked = ask.largest(self.capture)
        sheet.table(ranked, {**_WHO, "duration_us": "duration", **self.columns}, none="There are no transactions.")
        sheet.record({"largest_transactions": [[row["transaction_id"], row["bytes"]] for row in ranked]})

    @panel("Incomplete, rolled back, undone")
    def unfinished(self, sheet: Sheet) -> None:
        """Transactions that are incomplete, or did not commit."""
        rest = ask.unfinished(self.capture, 30) if self.facts["transactions_unfinished"] else []
        places = {
            "transaction_id": "transaction",
            "outcome": "outcome",
            "missing": "what is missing",
            "began_at": "begin",
        }
        places |= {
            "changes": "changes",
            "tables": "tables",
            "first_position": "from position",
            "end_position": "to position",
        }
        none = (
            "Every transaction was committed."
            if self.all_unknown
            else "Every transaction was committed and is complete."
        )
        none = none if self.facts["transactions"] else "There are no transactions."
        sheet.table(rest, places, total=self.facts["transactions_unfinished"], none=none)
        if self.facts["transactions_unknown"]:
            sheet.note(
                f"Of {plural(self.facts['transactions_unknown'], 'transaction')} it is not known whether they are "
                "complete: their events have no numbers, and none is marked as the last."
            )
        sheet.record({"unfinished_transactions": [row["transaction_id"] for row in rest]})

    @panel("Undone")
    def undone(self, sheet: Sheet) -> None:
        """Changes that a rollback to a savepoint undid."""
        undone = ask.undone(self.capture) if self.summary["changes_by_outcome"].get("undone") else []
        none = "The source delivers committed changes only: no change in the capture was undone."
        sheet.table(
            undone,
            {"transaction_id": "transaction", "changes": "undone changes", "first_position": "from position"}
            | {"last_position": "to position", "tables": "tables"},
            none=none if self.summary["committed_only"] else "No change was undone.",
        )
        sheet.record({"undone_changes": {row["transaction_id"]: row["changes"] for row in undone}})

    @panel("Operations")
    def operations(self, sheet: Sheet) -> None:
        """Operations by outcome."""
        done = ask.changes(self.capture)
        headings = {"operation": "operation", "outcome": "outcome", "changes": "changes"}
        if done:
            sheet.chart(charts.operations(done), show.table_html(done, headings))
        else:
            sheet.note("There are no changes.")

    @panel("Problems")
    def problems(self, sheet: Sheet) -> None:
        """Problems by code, and their locations."""
        codes = integrity.by_code(self.capture) if self.summary["problems"] else []
        sheet.table(
            codes,
            {"severity": "severity", "code": "code", "problems": "problems", "transactions": "transactions"}
            | {"sentence": "for example", "file": "first in", "offset": "at offset"},
            none="None.",
            folder=self.asked.shown,
        )
        sheet.record({"problem_codes": {row["code"]: row["problems"] for row in codes}})
        if codes:
            sheet.table(
                integrity.worst(self.capture, 30),
                {
                    "severity": "severity",
                    "code": "code",
                    "sentence": "what",
                    "transaction_id": "transaction",
                    "table": "table",
                }
                | {"file": "file", "offset": "offset", "length": "length", "first_bytes": "first bytes"},
                total=self.summary["problems"],
                folder=self.asked.shown,
            )

    @panel("Files")
    def files(self, sheet: Sheet) -> None:
        """The files, and whether all their bytes are accounted for."""
        self.list_files(sheet, self.summary["files"], {"events": "events"})
