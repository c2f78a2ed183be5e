"""The page about a file or folder: files, records, tables, changes over time, the byte ledger, detected settings, and
problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, cast

from cdcwb.analysis import contents as ask
from cdcwb.analysis.change_counts import NOT_GIVEN, first_by_table, first_change
from cdcwb.analysis.order import listed
from cdcwb.analysis.summary_text import operations
from cdcwb.charts import contents as charts
from cdcwb.explore import explore
from cdcwb.filters import NO_TABLE, narrowing
from cdcwb.formats.arrays import label
from cdcwb.formats.options import as_bool
from cdcwb.model import OffsetUnit
from cdcwb.report import check_parameters, show
from cdcwb.report.answer import Answer
from cdcwb.views.bench import making
from cdcwb.views.pages.page import Page, add_marks, panel, problems, question
from cdcwb.views.view import is_live
from cdcwb.words import count, plural, size, tally

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from cdcwb.report.opening import OpenedCapture, Parameters


_FACTS = (
    *("events", "events_by_kind", "events_by_record_type", "first_time", "last_time", "first_position"),
    *("last_position", "record_bytes", "filler_bytes", "malformed_rows", "table_versions"),
)
"""Facts of the summary that this page records besides those of every page."""
_HELP: Final = "Drag over the bars to select a time; double-click to select all. Click a bar to see its first record."
_PARTS: Final = "understood; filler; malformed"


class CapturePage(Page):
    """Files and their bytes, changes over time, tables and their versions, records, problems.

    ``on_spark``: the changes are also counted on Spark.
    """

    title: ClassVar[str] = "Capture"
    notebook: ClassVar[str] = "capture"
    shows_health: ClassVar[bool] = True

    def __init__(self, opened: OpenedCapture, on_spark: bool = False) -> None:
        super().__init__(opened)
        self.on_spark = as_bool("on_spark", on_spark)
        times = [self.summary.get(name) for name in ("first_time", "last_time")]
        self.first, self.last = (datetime.fromisoformat(time) if time else None for time in times)

    @cached_property
    def held(self) -> list[dict[str, Any]]:
        """The files with their byte ledgers."""
        return ask.ledger(self.capture, self.summary["files"])

    @cached_property
    def bins(self) -> ask.OverTime:
        """Changes over time."""
        return ask.over_time(self.capture, self.first, self.last)

    @cached_property
    def figure(self) -> go.Figure:
        """The chart of changes over time."""
        return charts.done_over_time(self.bins.rows, self.bins.width_us, self.bins.axis)

    changed_tables = question(ask.tables)
    """The tables with changes, most changed first."""

    @panel("Summary")
    def overview(self, answer: Answer) -> None:
        """The contents of the capture, its health, and the limits of the page."""
        summary = self.summary
        self.begin(answer, {name: summary[name] for name in _FACTS})
        shapes = sorted({entry["shape"] for entry in summary["files"]})
        is_rows = summary["unit"] == OffsetUnit.ROW and not summary["bytes"]
        extent = plural(summary["rows"], "row") if is_rows else size(summary["bytes"])
        outcomes = tally(summary["transactions_by_outcome"]).replace("_", " ")
        to_position = f"to {summary['last_position'] or 'not known'}"
        answer.cards(
            [
                ("format", summary["format"], ", ".join(shapes)),
                ("files", count(len(summary["files"])), extent),
                ("records", count(summary["events"]), tally(summary["events_by_kind"])),
                ("tables", count(len(summary["tables"])), plural(summary["table_versions"], "version")),
                ("changes", count(summary["changes"]), operations(summary)),
                ("transactions", count(summary["transactions"]), outcomes),
                self.time_card(self.first, self.last),
                ("log covered from", summary["first_position"] or "not known", to_position),
                self.problems_card(),
            ]
        )

    @panel("Files")
    def files(self, answer: Answer) -> None:
        """The files, and their bytes by outcome of decoding."""
        self.list_files(answer, self.held, f"events: records; {_PARTS}")
        names = ask.short_names([entry["file"] for entry in self.held])
        pairs = list(zip(names, self.held, strict=True))[:1000]
        answer.record({"files": {name: entry["events"] for name, entry in pairs}})

    @panel("Bytes accounted for")
    def ledger(self, answer: Answer) -> None:
        """Whether every byte of the files is in exactly one record."""
        answer.note(ask.ledger_sentence(self.summary))
        for unit in ("byte", "row"):
            some = [entry for entry in self.held if entry["unit"] == unit]
            some.sort(key=lambda entry: -(entry["malformed"] or 0))
            names = ask.short_names([entry["file"] for entry in some])
            if some:
                answer.chart(charts.ledger(some, names, unit), some, f"file; {_PARTS}")
            if len(some) > charts.MOST_FILES:
                shown = f"{charts.MOST_FILES} of {plural(len(some), 'file')} shown"
                answer.note(f"{shown}: those with the most that is malformed.")

    @panel("Changes over time", live=True, brush=True, hint=_HELP)
    def over_time(self, answer: Answer) -> None:
        """Changes over time, by operation."""
        page = self.every_time(answer, always=True)
        drawn = page.bins
        selected = drawn if page is self else ask.over_time(self.capture, axis=drawn.axis)
        rows, without = selected.rows, selected.without_time
        if drawn.rows:
            heads = "began_at: from; operation; changes"
            answer.chart(page.figure, drawn.rows, heads, partial(page.first_in, drawn.width_us))
        if without:
            answer.note(f"Without a time, so not in the chart: {tally(without)}.")
        if not rows and not without:
            answer.note("No change is selected." if self.asked.limits else "There are no changes.")
        answer.record({"changes_over_time": sum(row["changes"] for row in rows), "changes_without_time": without})

    def first_in(self, width_us: int, point: Mapping[str, Any]) -> int | None:
        """The record of the first change in a bin."""
        return self.first_record(lambda headers: first_change(headers, self.times_of(point, width_us)))

    @panel("Tables", live=True)
    def tables(self, answer: Answer) -> None:
        """The tables, most changed first, with their operations."""
        rows = self.changed_tables
        described = listed(self.capture, "table_versions")
        named = (label(row["schema_name"], row["table_name"]) for row in described)
        versions = Counter(filter(None, named))
        none: dict[str, Any] = dict.fromkeys(("first_time", "last_time", "first_position", "last_position"))
        none |= {"changes": 0, "operations": []}
        changed = {row["table"] for row in rows}
        if not self.asked.limits:
            rows = [*rows, *({"table": name, **none} for name in versions if name not in changed)]
        known = [{**row, "versions": versions.get(row["table"], 0)} for row in rows]
        if self.bench is not None:
            first = first_by_table(self.capture.headers)
            records = {table: int(self.capture.headers.record[row]) for table, row in first.items()}
            known = [{**row, "record": records.get(row["table"])} for row in known]
        total = sum(row["changes"] for row in rows)
        if total:
            answer.headline = f"{plural(total, 'change')} of {plural(len(changed - {NO_TABLE}), 'table')}"
            answer.headline += f", most of {rows[0]['table']}: {count(rows[0]['changes'])}"
        heads = "table; versions; changes; operations: by operation; first_time: first; last_time: last"
        heads += "; first_position: from position; last_position: to position"
        none_at_all = "No change is selected." if self.asked.limits else "There are no tables."
        answer.table(known[:200], heads, total=len(known), none=none_at_all)
        answer.record({"tables": {row["table"]: dict(row["operations"]) for row in known[:1000]}})

    @panel("Records")
    def records(self, answer: Answer) -> None:
        """The record types of the source, and the kinds that all formats share."""
        by_kind, by_type = self.summary["events_by_kind"], self.summary["events_by_record_type"]
        kinds = [{"kind": kind, "records": number} for kind, number in by_kind.items()]
        answer.table(kinds, "kind; records", none="There are no records.")
        types = [{"record_type": name, "records": number} for name, number in by_type.items()]
        answer.table(types[:60], "record_type: record type; records", total=len(types), none="No record has a type.")

    problems = panel("Problems", live=True)(problems)

    @panel("Versions of tables")
    def versions(self, answer: Answer) -> None:
        """The versions of tables, in order of appearance."""
        rows = ask.versions(self.capture)
        heads = "table; table_version; columns; names: named; first_position: from position; origin: comes from"
        heads += "; file; offset"
        none = "No table is described."
        answer.table(rows[:200], heads, total=len(rows), none=none)
        answer.record({"versions": [[row["table"], row["table_version"], row["columns"]] for row in rows[:1000]]})

    @panel("The same on Spark")
    def same_on_spark(self, answer: Answer) -> None:
        """The changes by table and operation, counted by a DataFrame of Spark."""
        if not self.on_spark:
            return
        named = ["schema_name", "table_name", "operation"]
        counted = self.opened.part.changes.groupBy(*named).count().collect()
        there = {(label(*row[:2]) or NO_TABLE, row["operation"] or NOT_GIVEN): row["count"] for row in counted}
        here = {(row["table"], name): number for row in self.changed_tables for name, number in row["operations"]}
        rows = [
            {"table": key[0], "operation": key[1], "changes": here.get(key, 0), "on_spark": there.get(key, 0)}
            for key in sorted({*here, *there})
        ]
        answer.table(rows, "table; operation; changes; on_spark: on Spark", none="There are no changes.")
        is_same = here == there
        answer.note("Both numbers are the same." if is_same else "The numbers differ: please report this as an error.")
        by_operation: Counter[str] = Counter()
        for (_, operation), number in there.items():
            by_operation[operation] += number
        answer.record({"same_on_spark": is_same, "changes_on_spark": dict(by_operation)})


# --- explore ----------------------------------------------------------------------------------------------------------


class Explore:
    """An explorer of the capture, without Spark."""

    def __init__(self, asked: Parameters) -> None:
        self.asked = asked
        with making("Making the index of the explorer") if is_live() else nullcontext():
            self.pane = explore(asked.path, asked.format, asked.folder, **asked.options)

    @classmethod
    def open(cls, *common: Any) -> Self:
        """Opens the capture of a notebook's parameters, which are those of :func:`cdcwb.report.check_parameters` in
        order."""
        asked = cast(Any, check_parameters)(*common)
        show.style(asked)
        return cls(asked)

    def records(self) -> Answer:
        """The records; first those of the parameters."""
        answer = Answer("Records")
        self.pane.explorer.apply(narrowing(self.asked.tables, self.asked.time_from, self.asked.time_to))
        answer.widget(self.pane)
        return answer

    def marks(self) -> Answer:
        """The current bookmarks."""
        answer = Answer("Bookmarks", folder=self.asked.shown)
        marks, index = self.pane.explorer.bookmarks.rows(), self.pane.explorer.index
        add_marks(answer, marks, len(marks))
        files = plural(len(index.files), "file")
        what = f"{plural(index.records, 'record')} in {files} of the format {index.format}."
        verdict = f"{plural(index.problems, 'problem')}, {plural(len(marks), 'bookmark')}."
        tone = "warning" if index.problems else "good"
        answer.record({"title": "Explorer", "what": what, "verdict": verdict, "tone": tone, "format": index.format})
        answer.record({"records": index.records, "problems": index.problems, "marks": len(marks)})
        return answer
