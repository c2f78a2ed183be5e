"""The page about transactions: times, users and outcomes, concurrency, commit latency, and the sequence of
positions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Final

from cdcwb.analysis import concurrency, integrity
from cdcwb.analysis import transactions as ask
from cdcwb.analysis.concurrency import Concurrency
from cdcwb.analysis.contents import short_names
from cdcwb.analysis.lag import HOPS, STAGES, WORST, lag
from cdcwb.analysis.positions import missing_numbers, positions, repeated
from cdcwb.analysis.summary_text import Tone, operations
from cdcwb.analysis.transaction_filter import TransactionFilter, check_transaction_filter, narrowed
from cdcwb.charts import contents, latency, timeline
from cdcwb.index.columns import NO_TIME
from cdcwb.model import OffsetUnit, Problem
from cdcwb.report.answer import Answer
from cdcwb.report.facts import stored
from cdcwb.times import time_of
from cdcwb.views.pages.page import Facts, Page, panel, problems, tone_for
from cdcwb.words import count, joined, moment, plural, rounded, tally, to_the_second, visible

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from cdcwb.report.opening import OpenedCapture
    from cdcwb.times import TimeAxis


_BARS: Final = {True: 400, False: ask.DRAWN_AT_MOST}
"""The most transactions that are drawn as bars on a live page, and in a report."""

_BAR_HELP: Final = (
    "Drag to select a time. The magnifying glass zooms instead: bars of that time are drawn. "
    "Click a bar to see its first record."
)
_OPEN_HELP: Final = "A transaction is open from its begin until just before its end."
_WHO: Final = "transaction_id; began_at; ended_at; "


class Transactions(Page):
    """Timeline, concurrency, latency, positions, and the transactions one by one.

    ``users``, ``outcomes`` (committed, rolled_back, open), ``least_changes``, ``least_bytes``, ``least_seconds``: only
    matching transactions.
    """

    title: ClassVar[str] = "Transactions"
    notebook: ClassVar[str] = "transactions"

    def __init__(self, opened: OpenedCapture, **wanted: Any) -> None:
        self.wanted = self.check(**wanted)
        super().__init__(narrowed(opened, self.wanted))
        self.facts: dict[str, Any] = ask.overview(self.capture)
        self.first, self.last = self.facts["first_time"], self.facts["last_time"]
        self.tick_us = 1_000_000 if self.facts["whole_seconds"] else 1

    @cached_property
    def capture_end(self) -> datetime | None:
        """When the capture ends, and open transactions with it."""
        if self.bench is not None:
            until = self.bench.changes.transactions.until
            return None if until == NO_TIME else time_of(until)
        last: datetime | None = ask.overview(self.opened.whole)["last_time"] if self.asked.limits else self.last
        return last

    @classmethod
    def check(cls, **wanted: Any) -> TransactionFilter:
        """See :func:`cdcwb.analysis.transaction_filter.check_transaction_filter`."""
        return check_transaction_filter(**wanted)

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
    def bars(self) -> list[dict[str, Any]]:
        """The transactions that can be drawn as bars: the longest."""
        return ask.timeline(self.capture, _BARS[self.bench is not None], self.capture_end)

    @cached_property
    def ranked(self) -> list[dict[str, Any]]:
        """The longest transactions of known duration."""
        return [row for row in self.bars if row["lasted_us"] is not None][: ask.RANKED]

    @cached_property
    def unit(self) -> str:
        """The unit of offsets, and of the size of transactions."""
        if self.bench is None:
            return str(self.summary["unit"])
        index = self.bench.source.index
        return index.unit_of(0) if index.records else OffsetUnit.BYTE

    @property
    def columns(self) -> str:
        """The columns of the contents of a transaction."""
        extent = "bytes" if self.unit == OffsetUnit.BYTE else "rows"
        return f"outcome; changes; tables; {extent}{'; user' if self.facts['transactions_with_user'] else ''}"

    @property
    def all_unknown(self) -> bool:
        """Whether the completeness of all transactions is unknown."""
        return bool(0 < self.facts["transactions"] == self.facts["transactions_unknown"])

    @staticmethod
    def headline_of(facts: Facts) -> str:
        """See :class:`Page`."""
        all_of_them = facts["transactions"]
        if not all_of_them:
            if facts.get("filters"):
                return f"No transaction fits: {visible('; '.join(facts['filters']), 300)}"
            changes = facts["changes"]
            what = f"none of {plural(changes, 'change')} names one" if changes else "there are no changes"
            return f"No transactions: {what}"
        done = facts["transactions_committed"]
        number = plural(all_of_them, "transaction")
        phrases = [f"{f'All {number}' if done == all_of_them > 1 else f'{count(done)} of {number}'} committed"]
        if facts["transactions_rolled_back"]:
            phrases.append(f"{count(facts['transactions_rolled_back'])} rolled back")
        if facts["transactions_open"]:
            phrases.append(f"{count(facts['transactions_open'])} still open")
        incomplete = _incomplete(facts)
        parts = [joined(phrases), *([f"{count(incomplete)} incomplete"] if incomplete > 0 else [])]
        ranked = facts["longest_transactions"]
        if not ranked:
            return "; ".join([*parts, "no duration is known"])
        name, took = visible(ranked[0][0], 80), int(ranked[0][1])
        is_open = facts["longest_us"] is None or took > int(facts["longest_us"])
        parts.append(f"longest {rounded(took)} (transaction {name}{', still open' if is_open else ''})")
        return "; ".join(parts)

    @staticmethod
    def tone_of(facts: Facts) -> Tone:
        """See :class:`Page`."""
        return tone_for(False, facts["transactions"] and (facts["transactions_open"] or _incomplete(facts) > 0))

    @panel("Summary")
    def overview(self, answer: Answer) -> None:
        """The outcomes of the transactions, and the limits of the page."""
        facts, summary = self.facts, self.summary
        known = facts | {"changes_by_outcome": summary["changes_by_outcome"]}
        self.begin(answer, known | {"filters": self.wanted.limits})
        if self.wanted.limits and not facts["transactions"]:
            answer.note(f"No transaction fits: {'; '.join(self.wanted.limits)}.")
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
        reread = "from where to read so that nothing is missed"
        answer.cards(
            [
                ("transactions", count(facts["transactions"]), tally(by_outcome).replace("_", " ")),
                ("complete transactions", complete, incomplete) if committed_only and facts["transactions"] else None,
                ("changes", count(summary["changes"]), operations(summary)),
                None if committed_only else ("undone changes", undone, "undone by a rollback to a savepoint"),
                ("longest transaction", longest, "of those with begin and end"),
                self.time_card(self.first, self.last),
                ("log covered from", facts["first_position"] or "not known", to_position),
                None if committed_only else ("restart position", restart, reread),
                self.problems_card(),
            ]
        )

    @panel("Timeline", live=True, brush=True, hint=_BAR_HELP)
    def timeline(self, answer: Answer) -> None:
        """A bar for every transaction, from its begin to its end, on axes of time and log position."""
        facts, total = self.facts, self.facts["transactions"]
        answer.record({**facts, **self.answered_by()})
        if total:
            answer.headline = self.headline_of(stored(answer.facts))
        page, window = self.every_time(answer), answer.state.window
        drawable = page.facts["transactions"]
        rows, figure = page.drawn if window is None else page.draw(window)
        drawn = figure.layout.meta
        answer.record({"timeline_shown": drawn["drawn"], "timeline_on_time": drawn["on_time"]})
        answer.record({"timeline_lanes": drawn["time_lanes"]})
        if not total:
            answer.note("No transaction is selected." if self.asked.limits else "There are no transactions.")
        if drawable > drawn["drawn"]:
            longest = f"the longest{' of these times' if window else ''}"
            rest = "the longest of those that did not commit or are incomplete"
            answer.note(f"{count(drawn['drawn'])} of {count(drawable)} transactions are bars: {longest}, and {rest}.")
        if rows:
            heads = f"{_WHO}duration_us; {self.columns}"
            records = {row["transaction_id"]: row.get("record") for row in rows}
            answer.chart(figure, rows, heads, lambda point: records.get(point.get("id")))
        if drawn["drawn"] > drawn["on_time"]:
            without = plural(drawn["drawn"] - drawn["on_time"], "transaction")
            answer.note(f"{without} without any time: only on the axis of the log.")
        if self.capture.format.startswith("qlik") and total:
            answer.note(
                "A transaction begins with its first change, by the clock of the source, and ends with its commit, "
                "by the clock of the server that delivered it: their difference is in every duration."
            )
        if drawn["widened"]:
            widened = f"{plural(drawn['widened'], 'bar')} drawn wider than the duration on the time axis"
            answer.note(f"{widened}; point at a bar to see its duration.")
        if page.axis is not None and drawable > len(page.bars):
            cells, figure = page.begins
            answer.note(f"All {plural(drawable, 'transaction')} by the time of their begin:")
            answer.chart(figure, cells, "began_at: begin from; row: duration or outcome; transactions")
            begun = sum(cell["transactions"] for cell in cells)
            if begun < drawable:
                answer.note(f"Without a time of begin, and so not in this chart: {count(drawable - begun)}.")
            answer.record({"histogram_transactions": begun})

    @cached_property
    def drawn(self) -> tuple[list[dict[str, Any]], go.Figure]:
        """The timeline: its bars, and the figure."""
        return self.draw()

    def draw(self, window: tuple[datetime, datetime] | None = None) -> tuple[list[dict[str, Any]], go.Figure]:
        """The timeline; ``window``: with the bars of these times."""
        rows = ask.timeline(self.capture, _BARS[True], self.capture_end, window) if window else self.bars
        about: dict[str, Any] = {"capture_end": self.capture_end, "unit": self.unit, "axis": self.axis}
        about["last_position"] = self.facts["last_position"]
        if self.facts["transactions"] > len(rows) and self.axis is not None:
            about["density"], about["density_us"] = ask.density(self.capture, self.axis)
        return rows, timeline.timeline(rows, **about, named=self.bench is not None)

    @cached_property
    def begins(self) -> tuple[list[dict[str, Any]], go.Figure]:
        """All transactions by the time of their begin and by duration: the cells, and the figure."""
        assert self.axis is not None, "there are times"
        cells, width = ask.histogram(self.capture, self.axis, least_us=self.tick_us)
        return cells, contents.begins(cells, ask.BANDS, width, self.axis)

    @panel("Concurrent transactions", live=True, brush=True, hint=_OPEN_HELP)
    def concurrency(self, answer: Answer) -> None:
        """The number of concurrent transactions."""
        once = self._concurrency(self)
        drawn = once if (page := self.every_time(answer)) is self else self._concurrency(page)
        if once.at is not None:
            most = plural(once.most, "transaction")
            answer.headline = f"At most {most} at once, from {to_the_second(once.at)} on"
        if drawn.steps:
            figure = timeline.concurrency(drawn.steps, drawn.most, drawn.at, exact=drawn.exact, axis=page.axis)
            answer.chart(figure, drawn.steps, "at: from; open: open transactions")
        if once.at is not None:
            answer.note(f"At most {most} at once, from {moment(once.at)} to {moment(once.until)}.")
            answer.note(f"On average {once.average:.1f}, of {plural(once.counted, 'transaction')} that last.")
        elif self.facts["transactions"]:
            answer.note("No transaction lasts from one time to another, as far as times are known.")
        else:
            no_log = "This log has no transactions, so none is open."
            answer.note("No transaction is selected." if self.asked.limits else no_log)
        answer.record({"concurrency_most": once.most, "concurrency_at": once.at, "concurrency_average": once.average})
        answer.record({"concurrency_points": len(once.steps), "concurrency_counted": once.counted})
        apart = {"with begin and end at one time": once.instants, "with the end before the begin": once.backwards}
        apart |= {"of which one time only is known": once.one_time, "without any time": once.no_time}
        if any(apart.values()):
            excluded = joined([f"{plural(n, 'transaction')} {what}" for what, n in apart.items() if n])
            answer.note(f"Not counted: {excluded}.")
        none = concurrency.InLog(0, None, None, 0)
        in_log = none if self.capture.committed_only else concurrency.in_log(self.capture)
        if in_log.position:
            answer.note(
                "In the log, where every begin and end has a position of its own: at most "
                f"{plural(in_log.most, 'transaction')} at once, from {in_log.position} on, "
                f"where {in_log.transaction_id} begins."
            )
        answer.record({"concurrency_in_log": in_log.most, "concurrency_in_log_at": in_log.position})

    def _concurrency(self, page: Transactions) -> Concurrency:
        times = page.asked.time_from, page.asked.time_to
        ends = page.first, self.capture_end
        return concurrency.over_time(page.capture, *ends, least_us=page.tick_us, axis=page.axis, window=times)

    @panel("Commit latency")
    def latency(self, answer: Answer) -> None:
        """The latency from changes to commit, and the duration of transactions."""
        waited, lasted = ask.latency(self.capture)
        both = [("change", waited, "commit latency"), ("transaction", lasted, "duration")]
        rows = [{"what": f"{name}s", **delays.figures} for name, delays, _ in both if delays.known]
        answer.table(rows, "what: of; known; p50_us; p95_us; p99_us; most_us", none="No latency is known.")
        for name, delays, title in both:
            answer.record({f"{name}_latency_{fact}": number for fact, number in delays.figures.items()})
            marks = {"p50": delays.p50_us, "p95": delays.p95_us, "p99": delays.p99_us, "longest": delays.most_us}
            if delays.known:
                figure = latency.latency(delays.bins, marks, name, title)
                answer.chart(figure, delays.bins, f"bin: from; count: {name}s")
            if delays.known < delays.all:
                answer.note(
                    f"Not known for {plural(delays.all - delays.known, name)}: one of the two times is missing."
                )
            if delays.longer:
                most = f"at most {delays.longer:.2%} too long"
                answer.note(f"There are many different ones: p50, p95 and p99 are {most}.")
            if delays.negative:
                number = plural(delays.negative, name)
                answer.note(f"{number} below 0: two clocks that disagree, or one that was set back.")
        if waited.all and waited.all < self.summary["changes"]:
            rest = plural(self.summary["changes"] - waited.all, "change")
            answer.note(f"Not counted: {rest} in no transaction that committed.")
        if not waited.known and self.facts["transactions"]:
            answer.note("No change has a time of its own and one of its commit, so no commit latency is known.")
        if not self.facts["transactions"]:
            answer.note("There are no transactions, so there is no commit latency.")
        if waited.tables:
            answer.table(waited.tables[:20], "table; known: changes; p50_us; p95_us; most_us", total=len(waited.tables))

    @panel("Lag by hop")
    def lag(self, answer: Answer) -> None:
        """The lag of changes from the source to the process that captured them, and on to the broker, over time."""
        found = lag(self.capture, self.axis)
        stages = ["source", *STAGES.get(self.capture.format, ())]
        names = {to: f"{begin} to {to}" for begin, to in pairwise(stages)} | {"total": f"source to {stages[-1]}"}
        answer.record({f"lag_{name}": value for name, value in found.facts.items()})
        if not found.hops:
            name = self.capture.format
            answer.note(
                "No change has a time of a second stage in this capture."
                if len(stages) > 1
                else f"Records of {name} have one time, that of the source, so no hop can be timed."
            )
            return
        heads = "name: hop; known: changes; p50_us; p95_us; p99_us; most_us; least_us: shortest; negative: below 0"
        answer.table([{**row, "name": names[row["hop"]]} for row in found.hops], heads)
        if found.blame is not None and len(found.hops) > 1:
            hop = found.blame
            answer.note(f"The slowest hop is {names[hop['hop']]}: 95 % took at most {rounded(hop['p95_us'])}.")
        for row in found.hops:
            if row["negative"] and row["hop"] != "total":
                begin, to = names[row["hop"]].split(" to ")
                answer.note(
                    f"{plural(row['negative'], 'lag')} from {begin} to {to} below 0: the clocks disagree. That of the "
                    f"{to} is at least {rounded(-row['least_us'])} behind that of the {begin}, or was for a time."
                )
        if found.over_time:
            heads = "hop; at: from; known: changes; p50_us; p95_us; p99_us"
            rows = [{**row, "hop": names[row["hop"]]} for row in found.over_time]
            answer.chart(latency.lag_over_time(found.over_time, names, self.axis), rows, heads)
        worst = [
            row | {f"{hop}_us": row[hop] for hop in HOPS} | {"slowest": names[row["blame"]]} for row in found.worst
        ]
        heads = "transaction_id; at: time at the source; total_us: lag"
        if len(stages) > 2:
            heads += "".join(f"; {hop}_us: {names[hop]}" for hop in stages[1:]) + "; slowest: slowest hop"
        answer.table(worst, f"{heads}; file; offset", none="No time of the source is known.")
        if len(worst) == WORST:
            answer.note(f"Only the {WORST} transactions with the greatest lag are listed.")

    @panel("Positions")
    def positions(self, answer: Answer) -> None:
        """Records out of order: positions that do not rise in a stream."""
        order = positions(self.capture)
        of_positions = order.of_positions
        heads = "stream; format; records; steps_back: out of order; behind: below the highest"
        heads += "; first: lowest position; last: highest"
        names = short_names([stream["stream"] for stream in of_positions])
        streams = [{**row, "stream": name or "the log"} for row, name in zip(of_positions, names, strict=True)]
        answer.table(streams[:30], heads, total=len(streams), none="No record has a position.")
        heads = "file; offset; record_type; number: position; earlier_number: preceding position; transaction_id"
        if streams:
            answer.table(order.places, heads, total=order.total("steps_back"), none="No position is out of order.")
        facts = {"back": "steps_back", "behind": "behind", "records": "records"}
        answer.record({f"positions_{fact}": order.total(name) for fact, name in facts.items()})
        answer.record({"positions_back_places": [[row["file"], row["offset"], row["number"]] for row in order.places]})

    @panel("Duplicates and shared positions")
    def repeated(self, answer: Answer) -> None:
        """Records with the same position: duplicates, and others."""
        double = repeated(self.capture)
        heads = "number: position; what; records; earlier_file: first in; earlier_offset: at offset; again_at: again in"
        heads += "; offset: at offset; kind: as; transaction_id"
        again = [{**row, "again_at": row["file"].rpartition("/")[2]} for row in double.places]
        answer.table(again, heads, total=double.positions, none="No two records have the same position.")
        answer.record({"positions_twice": double.positions, "positions_surplus": double.surplus})
        places = [[row["number"], row["file"], row["offset"]] for row in double.places]
        answer.record({"duplicates": double.duplicates, "positions_twice_places": places})

    @panel("Missing")
    def missing(self, answer: Answer) -> None:
        """Gaps in the source's own numbering."""
        total = self.problems_of([Problem.GAP])
        gaps = integrity.gaps(self.capture) if total else []
        heads = "sentence: gap; file; offset; transaction_id; table"
        answer.table(gaps, heads, total=total, none="No gap shows inside a transaction.")
        numbers = [] if self.asked.limits else [row for row in missing_numbers(self.capture) if row["missing"]]
        numbers = [{**row, "stream": row["stream"].rpartition("/")[2] or "the log"} for row in numbers]
        heads = "stream; numbering: numbers; first: from; last: to; there; missing"
        if numbers:
            answer.table(numbers[:30], heads, total=len(numbers))
            answer.note(
                "Compacted topics and the sequences of databases leave numbers out although nothing is missing."
            )
        answer.record({"gaps": total, "numbers_missing": {row["stream"]: row["missing"] for row in numbers[:1000]}})

    def answered_by(self) -> Mapping[str, Any]:
        """See :class:`Page`."""
        return {"longest_transactions": [[row["transaction_id"], row["lasted_us"]] for row in self.ranked]}

    @panel("Longest", live=True)
    def longest(self, answer: Answer) -> None:
        """The transactions that lasted longest; on a live page in any order."""
        capture, end = self.capture, self.capture_end
        size_of = "bytes" if self.unit == OffsetUnit.BYTE else "rows"
        answer.table(
            self.ranked,
            f"{_WHO}lasted_us; {self.columns}",
            total=None if self.bench is None else self.facts["transactions"],
            none="No transaction has a duration." if self.facts["transactions"] else "There are no transactions.",
            ranked=lambda limit, name, descending: ask.ranked(capture, limit, name, descending, end),
            sorts=("began_at", "ended_at", "lasted_us", "changes", size_of),
        )
        answer.record(self.answered_by())

    @panel("Largest")
    def largest(self, answer: Answer) -> None:
        """The transactions with most bytes, or rows."""
        ranked = ask.largest(self.capture)
        answer.table(ranked, f"{_WHO}duration_us; {self.columns}", none="There are no transactions.")
        answer.record({"largest_transactions": [[row["transaction_id"], row["bytes"]] for row in ranked]})

    @panel("Incomplete, rolled back, undone", live=True)
    def unfinished(self, answer: Answer) -> None:
        """Transactions that are incomplete, or did not commit."""
        rest = ask.unfinished(self.capture, 30) if self.facts["transactions_unfinished"] else []
        places = "transaction_id; outcome; missing: what is missing; began_at; changes; tables"
        places += "; first_position: from position; end_position: to position"
        none = f"Every transaction was committed{'' if self.all_unknown else ' and is complete'}."
        none = none if self.facts["transactions"] else "There are no transactions."
        number = self.facts["transactions_unfinished"]
        answer.table(rest, places, total=number, none=none, ranked=lambda most, *_: ask.unfinished(self.capture, most))
        if self.facts["transactions_unknown"]:
            answer.note(
                f"Of {plural(self.facts['transactions_unknown'], 'transaction')} it is not known whether an event is "
                "missing: the events have no numbers, and none is marked as the last."
            )
        answer.record({"unfinished_transactions": [row["transaction_id"] for row in rest]})

    @panel("Undone")
    def undone(self, answer: Answer) -> None:
        """Changes that a rollback to a savepoint undid."""
        undone = ask.undone(self.capture) if self.summary["changes_by_outcome"].get("undone") else []
        none = "The source delivers committed changes only: no change in the capture was undone."
        none = none if self.summary["committed_only"] else "No change was undone."
        heads = "transaction_id; changes: undone changes; first_position: from position; last_position: to position"
        answer.table(undone[:50], f"{heads}; tables", total=len(undone), none=none)
        answer.record({"undone_changes": {row["transaction_id"]: row["changes"] for row in undone[:1000]}})

    @panel("Operations")
    def operations(self, answer: Answer) -> None:
        """Operations by outcome."""
        done = ask.changes(self.capture)
        if done:
            answer.chart(contents.operations(done), done, "operation; outcome; changes")
        else:
            answer.note("There are no changes.")

    problems = panel("Problems", live=True)(problems)

    @panel("Files")
    def files(self, answer: Answer) -> None:
        """The files, and whether all their bytes are accounted for."""
        self.list_files(answer, self.summary["files"], "events")


def _incomplete(facts: Facts) -> int:
    """The number of ended transactions with missing events."""
    known = ("transactions_complete", "transactions_unknown", "transactions_open")
    return int(facts["transactions"] - sum(facts[name] for name in known))
