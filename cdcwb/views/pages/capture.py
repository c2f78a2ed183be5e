"""The page about a file or folder: files, records, tables, changes over time, the byte ledger, detected settings, and
problems."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from cdcwb import charts
from cdcwb.analysis import contents as ask
from cdcwb.explore import explore
from cdcwb.filters import narrowing
from cdcwb.report import check_parameters, show
from cdcwb.views.bench import making
from cdcwb.views.pages.page import Page, Sheet, panel
from cdcwb.views.panels import Problems, Tables, When
from cdcwb.views.view import is_live
from cdcwb.words import count, plural, size, tally

if TYPE_CHECKING:
    from cdcwb.report.opening import Page as Opened
    from cdcwb.report.opening import Parameters

__all__ = [
    "CapturePage",
    "Explore",
]


_FACTS = (
    *("events", "events_by_kind", "events_by_record_type", "first_time", "last_time", "first_position"),
    *("last_position", "record_bytes", "filler_bytes", "malformed_rows", "table_versions"),
)
"""Facts of the summary that this page records besides those of every page."""
_PARTS = {"understood": "understood", "filler": "filler", "malformed": "malformed"}


class CapturePage(Page):
    """Files and their bytes, changes over time, tables and their versions, records, problems."""

    title: ClassVar[str] = "Capture"
    notebook: ClassVar[str] = "capture"
    shows_health: ClassVar[bool] = True

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        times = [self.summary["first_time"], self.summary["last_time"]]
        self.first, self.last = (datetime.fromisoformat(time) if time else None for time in times)

    @cached_property
    def held(self) -> list[dict[str, Any]]:
        """The files with their byte ledgers."""
        held = {entry["file"]: entry for entry in ask.ledger(self.capture)}
        return [{**held[entry["file"]], **entry} for entry in self.summary["files"]]

    @cached_property
    def done(self) -> ask.Done:
        """Changes over time and by table."""
        return ask.done(self.capture, self.first, self.last)

    @panel("Summary")
    def overview(self, sheet: Sheet) -> None:
        """The contents of the capture, its health, and the limits of the page."""
        summary = self.summary
        self.begin(sheet, {name: summary[name] for name in _FACTS})
        shapes = sorted({entry["shape"] for entry in summary["files"]})
        extent = size(summary["bytes"]) if summary["bytes"] else plural(summary["rows"], "row")
        outcomes = tally(summary["transactions_by_outcome"]).replace("_", " ")
        to_position = f"to {summary['last_position'] or 'not known'}"
        sheet.cards(
            [
                ("format", summary["format"], ", ".join(shapes)),
                ("files", count(len(summary["files"])), extent),
                ("records", count(summary["events"]), tally(summary["events_by_kind"])),
                ("tables", count(len(summary["tables"])), plural(summary["table_versions"], "version")),
                ("changes", count(summary["changes"]), tally(summary["changes_by_operation"])),
                ("transactions", count(summary["transactions"]), outcomes),
                self.time_card(self.first, self.last),
                ("log covered from", summary["first_position"] or "not known", to_position),
                self.problems_card(),
            ]
        )

    @panel("Files")
    def files(self, sheet: Sheet) -> None:
        """The files, and their bytes by outcome of decoding."""
        self.list_files(sheet, self.held, {"events": "records", **_PARTS})
        names = ask.short_names([entry["file"] for entry in self.held])
        pairs = list(zip(names, self.held, strict=True))[:1000]
        sheet.record({"files": {name: entry["events"] for name, entry in pairs}})

    @panel("Bytes accounted for")
    def ledger(self, sheet: Sheet) -> None:
        """Whether every byte of the files is in exactly one record."""
        sheet.note(ask.ledger_sentence(self.summary))
        for unit in ("byte", "row"):
            some = [entry for entry in self.held if entry["unit"] == unit]
            some.sort(key=lambda entry: -(entry["malformed"] or 0))
            names = ask.short_names([entry["file"] for entry in some])
            if some:
                sheet.chart(charts.ledger(some, names, unit), show.table_html(some[:40], {"file": "file", **_PARTS}))
            if len(some) > charts.MOST_FILES:
                shown = f"{charts.MOST_FILES} of {plural(len(some), 'file')} shown"
                sheet.note(f"{shown}: those with the most that is malformed.")

    @panel("Changes over time", When)
    def over_time(self, sheet: Sheet) -> None:
        """Changes over time, by operation."""
        rows, without = self.done.over_time, self.done.without_time
        heads = {"began_at": "from", "operation": "operation", "changes": "changes"}
        if rows:
            figure = charts.done_over_time(rows, self.done.width_us, self.done.axis)
            sheet.chart(figure, show.table_html(rows[:60], heads))
        if without:
            sheet.note(f"Without a time, so not in the chart: {tally(without)}.")
        if not self.summary["changes"]:
            sheet.note("There are no changes.")
        sheet.record({"changes_over_time": sum(row["changes"] for row in rows), "changes_without_time": without})

    @panel("Tables", Tables)
    def tables(self, sheet: Sheet) -> None:
        """The tables, most changed first, with their operations."""
        several = {table["table"]: table["versions"] for table in self.summary["tables"]}
        none: dict[str, Any] = {"changes": 0, "operations": [], "first_time": None, "last_time": None}
        none |= {"first_position": None, "last_position": None}
        changed = {row["table"] for row in self.done.tables}
        rows = [*self.done.tables, *({"table": name, **none} for name in several if name not in changed)]
        known = [{**row, "versions": several.get(row["table"], 0)} for row in rows]
        heads = {"table": "table", "versions": "versions", "changes": "changes", "operations": "by operation"}
        heads |= {"first_time": "first", "last_time": "last", "first_position": "from position"}
        heads |= {"last_position": "to position"}
        sheet.table(known[:200], heads, total=len(known), none="There are no tables.")
        sheet.record({"tables": {row["table"]: dict(row["operations"]) for row in known[:1000]}})

    @panel("Records")
    def records(self, sheet: Sheet) -> None:
        """The record types of the source, and the kinds that all formats share."""
        by_kind, by_type = self.summary["events_by_kind"], self.summary["events_by_record_type"]
        kinds = [{"kind": kind, "records": number} for kind, number in by_kind.items()]
        sheet.table(kinds, {"kind": "kind", "records": "records"}, none="There are no records.")
        types = [{"record_type": name, "records": number} for name, number in by_type.items()]
        heads = {"record_type": "record type", "records": "records"}
        sheet.table(types[:60], heads, total=len(types), none="No record has a type.")

    @panel("Problems", Problems)
    def problems(self, sheet: Sheet) -> None:
        """Problems by code, their locations, and the commands that show the records."""
        readers = ask.readers(self.capture, self.asked.options)
        codes, places = ask.problem_rows(self.summary["problems_by_code"], readers)
        heads = {"severity": "severity", "code": "code", "title": "what it means", "problems": "problems"}
        sheet.table(codes, heads, none="None.")
        sheet.record({"problem_codes": {row["code"]: row["problems"] for row in codes}})
        names = ("code", "file", "offset", "command")
        sheet.record({"problem_places": [[row[name] for name in names] for row in places]})
        if codes:
            sheet.note("The first records with each code:")
            heads = {"severity": "severity", "code": "code", "sentence": "what", "file": "file", "offset": "offset"}
            heads |= {"length": "length", "transaction_id": "transaction"}
            sheet.table(places, heads, folder=self.asked.shown)
        commands = list({row["command"]: row for row in places if row["command"]}.values())
        if commands:
            sheet.note("To dissect a record, paste its command into a shell:")
            sheet.table(commands, {"code": "code", "command": "command"})

    @panel("Versions of tables")
    def versions(self, sheet: Sheet) -> None:
        """The versions of tables, in order of appearance."""
        rows = ask.versions(self.capture)
        heads = {"table": "table", "table_version": "version", "columns": "columns", "names": "named"}
        heads |= {"first_position": "from position", "origin": "comes from", "file": "file", "offset": "offset"}
        none = "No table is described."
        sheet.table(rows[:200], heads, total=len(rows), none=none, folder=self.asked.shown)
        sheet.record({"versions": [[row["table"], row["table_version"], row["columns"]] for row in rows[:1000]]})


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

    def records(self) -> Sheet:
        """The records; first those of the parameters."""
        sheet = Sheet("Records")
        self.pane.explorer.apply(narrowing(self.asked.tables, self.asked.time_from, self.asked.time_to))
        sheet.widget(self.pane)
        return sheet

    def marks(self) -> Sheet:
        """The current bookmarks."""
        sheet = Sheet("Bookmarks")
        marks, index = self.pane.explorer.marks.rows(), self.pane.explorer.index
        sheet.marks(marks, total=len(marks), folder=self.asked.shown)
        files = plural(len(index.files), "file")
        what = f"{plural(index.records, 'record')} in {files} of the format {index.format}."
        verdict = f"{plural(index.problems, 'problem')}, {plural(len(marks), 'bookmark')}."
        tone = "warning" if index.problems else "good"
        sheet.record({"title": "Explorer", "what": what, "verdict": verdict, "tone": tone, "format": index.format})
        sheet.record({"records": index.records, "problems": index.problems, "marks": len(marks)})
        return sheet
