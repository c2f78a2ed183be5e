"""The page about publication by an Identity Manager driver's Publisher channel: decisions and documents of an event
log, or the changes of another format as XDS documents."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from cdcwb.analysis import event_log_page as words
from cdcwb.analysis.event_log import read_settings, snapshot_files
from cdcwb.analysis.event_log_page import LogPage
from cdcwb.analysis.integrity import first_problems
from cdcwb.analysis.summary_text import Tone
from cdcwb.analysis.xds_changes import page_of
from cdcwb.charts import decisions as charts
from cdcwb.formats import FORMATS, get_format
from cdcwb.formats.options import as_bool
from cdcwb.model import Problem
from cdcwb.report import xml
from cdcwb.report.answer import Answer
from cdcwb.views.pages.page import Facts, Page, panel, problems, tone_for
from cdcwb.words import count, joined, plural
from cdcwb.xds.changes import NO_KEY

if TYPE_CHECKING:
    from cdcwb.report.opening import OpenedCapture
    from cdcwb.xds import Settings


_LANES: Final = 40  # objects whose rows are shown
_ROWS: Final = 60  # rows of an object
_WITH_OBJECT: Final = "scope: object; record_id; event_type; decision"


class EventLog(Page):
    """Which rows of an event log are published, why the others are not, and the documents.

    ``snapshot``: the current content of the tables, a JSON object of table and file, or a folder with a file for each
    table; ``auto``: the folder NAME.snapshot next to the capture. ``infer_keys``: tables of other captures without a
    key get an inferred one. ``driver_user``, ``as_of``, ``batch_size`` and ``settings`` are those of
    :func:`cdcwb.analysis.event_log.read_settings`.
    """

    title: ClassVar[str] = "Event log and XDS"
    notebook: ClassVar[str] = "event_log_xds"

    def __init__(
        self, opened: OpenedCapture, snapshot: str = "auto", infer_keys: bool = False, **settings: Any
    ) -> None:
        self.settings = read_settings(**settings)
        self.tables_now = snapshot_files(snapshot, opened.asked.shown)
        super().__init__(opened)
        infer_keys = as_bool("infer_keys", infer_keys)
        self.page = page_of(opened.whole, opened.part, self.settings, self.tables_now, opened.asked.folder, infer_keys)
        self.inferred = list(self.page.published.inferred)
        keys = {"keys_inferred": {key.table: key.column for key in self.inferred}}
        self.log = self.page if isinstance(self.page, LogPage) else None
        self.facts: dict[str, Any] = self.page.facts | {"is_event_log": self.log is not None} | keys
        self.kind, self.unit = self.page.kind, "row" if self.log else "change"

    @classmethod
    def check(cls, snapshot: str = "auto", infer_keys: bool = False, **settings: Any) -> Settings:
        """Validates the settings of the publication. Raises OptionError."""
        as_bool("infer_keys", infer_keys)
        if snapshot != "auto":
            snapshot_files(snapshot, "")
        return read_settings(**settings)

    @cached_property
    def nothing(self) -> bool:
        """Whether there is nothing to show; the headline has the reason."""
        no_key = not self.log and any((row["reason"] or "").startswith(NO_KEY) for row in self.page.reasons)
        return not self.facts["documents"] and (no_key or not self.facts["rows"])

    @staticmethod
    def headline_of(facts: Facts) -> str:
        """See :class:`Page`."""
        documents, published = facts["documents"], facts["decisions_published"]
        if facts["is_event_log"]:
            rows = sum(number for name, number in facts.items() if name.startswith("decisions_"))
            if not rows:
                return "No rows to publish"
            rest = [
                f"{count(facts[f'decisions_{name}'])} {words}"
                for name, words in _DECISIONS.items()
                if facts.get(f"decisions_{name}")
            ]
            made = f"{count(published)} of {plural(rows, 'row')} published in {plural(documents, 'document')}"
            return f"{made}; {joined(rest)}" if rest else made
        changes = published + facts["decisions_left_out"]
        if not changes:
            return "No changes, so no XDS documents"
        if not documents:
            return f"No XDS documents: {_why_none(facts)}"
        made = f"{count(published)} of {plural(changes, 'change')} as {plural(documents, 'XDS document')}"
        left = facts["decisions_left_out"]
        return f"{made}; {count(left)} left out" if left else made

    @staticmethod
    def tone_of(facts: Facts) -> Tone:
        """See :class:`Page`."""
        doubtful = facts.get("decisions_needs_snapshot") or facts.get("decisions_left_out")
        return tone_for(facts.get("decisions_invalid"), doubtful)

    @panel("Summary")
    def overview(self, answer: Answer) -> None:
        """The decisions, and the settings and data that they depend on."""
        self.begin(answer, {**self.facts, "snapshot_tables": sorted(self.tables_now)})
        if self.nothing:
            return
        if self.asked.limits and self.log:
            answer.note("The decisions are those for the complete log.")
        if not self.log:
            answer.note(
                "This is not an event log, so no Publisher decides about it. "
                "Shown are its committed changes as XDS documents."
            )
        answer.note(*map(str, self.inferred))
        answer.cards(words.cards(self.facts))
        answer.note(*(words.setting_sentences(self.settings, self.tables_now) if self.log else ()))

    @panel("Decisions")
    def decisions(self, answer: Answer) -> None:
        """The number of rows by event type, or of changes by operation, and decision."""
        counts, kind = self.page.counts, self.kind
        names = words.TYPES if self.log else words.OPERATIONS
        answer.record({"decisions": [[row[kind], row["decision"], row["rows"]] for row in counts]})
        if self.nothing:
            return
        headings = f"{kind}: {kind.replace('_', ' ')}; decision; rows: {self.unit}s"
        answer.chart(charts.decisions(counts, kind, names, self.unit), words.readable(counts), headings)
        answer.table(*words.matrix(counts, kind))

    @panel("Reasons")
    def reasons(self, answer: Answer) -> None:
        """Why rows are not published."""
        reasons = words.readable(self.page.reasons)
        answer.record({"reasons": len(reasons)})
        headings = f"decision; reason; rows: {self.unit}s{'; first_record_id: first record' if self.log else ''}"
        if not self.nothing:
            answer.table(reasons[:40], headings, total=len(reasons), none=f"Every {self.unit} is published.")

    @panel("Users")
    def users(self, answer: Answer) -> None:
        """Who made the changes of an event log."""
        if self.log and not self.nothing:
            perpetrators = self.log.perpetrators()
            answer.table(perpetrators[:12], "perpetrator; rows; published", total=len(perpetrators))

    @panel("Rows not published")
    def unpublished(self, answer: Answer) -> None:
        """Rows that are not published, with their reasons."""
        left = words.readable(self.page.unpublished(50))
        answer.record({"not_published": self.page.left_out, "not_published_shown": len(left)})
        headings = "reason; operation; table; position"
        if self.log:
            left = words.with_object(left)
            headings = "decision; reason; record_id; event_type; scope: object; column_name: column"
        if not self.nothing:
            answer.table(left, headings, total=self.page.left_out, none=f"Every {self.unit} is published.")

    @panel("Objects")
    def objects(self, answer: Answer) -> None:
        """The histories of the objects of an event log with most rows."""
        if not self.log:
            return
        rows = answer.linked(words.with_object(self.log.objects(lanes=_LANES, rows=_ROWS)))
        objects = self.facts["objects"]
        figure = charts.histories(rows, words.TYPES)
        drawn = figure.layout.meta["objects"]
        answer.record({"objects_shown": drawn})
        if self.nothing:
            return
        if not rows:
            answer.note("There are no objects.")
            return
        answer.chart(figure, rows, _WITH_OBJECT)
        beyond = sum(last["of"] - _ROWS for last in rows if last["place"] == _ROWS)
        left = f"; {plural(beyond, 'later row')} of these left out." if beyond else "."
        answer.note(f"{count(drawn)} of {plural(objects, 'object')}, by their number of rows{left}")
        answer.note("The numbers are event types:")
        answer.table(words.types_used(self.page.counts), "event_type; name; meaning; verb: becomes; rows")

    @panel("Documents")
    def documents(self, answer: Answer) -> None:
        """Documents and their rows."""
        documents = self.page.documents()
        answer.record({"documents_shown": [row["document"] for row in documents]})
        if not documents and not self.nothing:
            answer.note("There are no documents.")
        elif not self.nothing:
            led = [{**document, "rows": answer.linked(list(document["rows"]))} for document in documents]
            capture = answer.links.capture if answer.links else ""
            answer.document(xml.side_by_side(led, capture), plural(len(led), "document"))
            answer.note(f"{count(len(documents))} of {plural(self.facts['documents'], 'document')} shown.")

    @panel("Event categories")
    def categories(self, answer: Answer) -> None:
        """The categories of event types in an event log, and what each means for space, time and triggers."""
        if self.log and not self.nothing:
            answer.table(words.categories_used(self.page.counts), "category; types; rows; sentence: meaning")

    @panel("Different spellings of a key")
    def spellings(self, answer: Answer) -> None:
        """Keys with several spellings."""
        number = self.problems_of([Problem.KEY_SPELLING]) if self.log else 0
        spellings = first_problems(self.capture, ("file", "offset"), 50, [Problem.KEY_SPELLING]) if number else []
        answer.record({"key_spellings": number})
        if self.log and not self.nothing:
            headings = "table; sentence; file: first in; offset: at offset"
            answer.table(spellings, headings, total=number, none="Each key has one spelling.")

    problems = panel("Problems")(problems)

    @panel("Publisher settings")
    def publishing(self, answer: Answer) -> None:
        """Every setting with its value, and the files of the snapshot."""
        answer.table(words.setting_rows(self.settings, self.tables_now), "setting; value; about: meaning")


_DECISIONS: Final = {
    "needs_snapshot": "waiting for a snapshot of their table",
    "overridden": "overridden",
    "no_effect": "without effect",
    "skipped": "skipped",
    "waiting": "not due yet",
    "invalid": "invalid",
}


def _why_none(facts: Facts) -> str:
    changes = plural(facts["decisions_left_out"], "change")
    name = facts["format"]
    if name in FORMATS and not get_format(name).names_keys:
        hint = "give keys=schema.table:column+column or --infer-keys"
        return f"{name} captures name no key columns; {hint}"
    return f"{changes} left out"
