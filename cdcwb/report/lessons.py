"""The content of the notebook ``start_here``, a method for each item. A missing capture is reported in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Final

from cdcwb.analysis.expected import FILE, actual, compare, read_expected, words
from cdcwb.analysis.lesson import FORMATS, Event, Lesson, captures_of, delivery, open_lesson, positions, row_to_target
from cdcwb.analysis.lesson_traps import traps
from cdcwb.analysis.summary_text import Health, Tone
from cdcwb.charts.masks import bits
from cdcwb.charts.timeline import log
from cdcwb.errors import CaptureError
from cdcwb.model import Kind
from cdcwb.report import show
from cdcwb.report.facts import record
from cdcwb.report.show import show_record
from cdcwb.words import count, joined, plural, visible

__all__ = ["Checked", "Lessons"]

_SKIP: Final = {
    # Logdump prints the header as bytes and as text, and the data in one piece and column by column.
    "goldengate": (
        *("header tokens", "columns"),
        *("Hdr-Ind", "OrigNode", "SyskeyLen", "Incomplete", "Continued", "RecCount"),
    )
}
_AROUND: Final = 6
"""Records that the chart shows before and after its transaction."""
_COLUMNS: Final = 30


@dataclass(frozen=True, slots=True)
class Checked:
    """Expected and actual numbers. ``rows``: those of :func:`cdcwb.analysis.expected.compare` by capture; ``missing``:
    captures that have numbers and no folder; ``wrong``: why a capture could not be counted."""

    rows: dict[str, list[dict[str, Any]]]
    missing: list[str]
    wrong: dict[str, str]

    @property
    def agrees(self) -> bool:
        """Whether there are numbers to compare, and all of them agree."""
        return any(self.rows.values()) and all(row["agrees"] for rows in self.rows.values() for row in rows)

    @property
    def facts(self) -> list[list[Any]]:
        """Capture, quantity, expected and actual number of every comparison."""
        return [
            [name, row["quantity"], row["expected"], row["actual"]] for name, rows in self.rows.items() for row in rows
        ]

    @property
    def health(self) -> Health:
        """The two sentences about it."""
        what = "What change data capture is, and how six formats record it: bytes, masks, transactions, traps."
        compared = sum(map(len, self.rows.values()))
        differ = [
            f"{name}: {words(row['quantity'])}: expected {count(row['expected'])}, found {count(row['actual'])}"
            for name, rows in self.rows.items()
            for row in rows
            if not row["agrees"]
        ]
        absent = f" Missing: {joined(self.missing)}." if self.missing else ""
        broken = "".join(f" {name} cannot be read: {reason}" for name, reason in self.wrong.items())
        if not compared:
            return Health(Tone.BAD, what, f"Nothing to compare with: {FILE} names no capture here.{absent}")
        if differ:
            more = f" and {plural(len(differ) - 2, 'more number')}" if len(differ) > 2 else ""
            verdict = f"{len(differ)} of {plural(compared, 'number')} disagree: {'; '.join(differ[:2])}{more}."
            return Health(Tone.BAD, what, f"{verdict}{broken}{absent}")
        inside = plural(sum(map(bool, self.rows.values())), "capture")
        verdict = f"All {count(compared)} expected numbers of {inside} agree with what is counted."
        return Health(Tone.GOOD, what, f"{verdict}{absent}")


class Lessons:
    """The captures below a folder, one for each format, each read when it is first used, and the outputs about them.
    Each method stores what it shows in ``facts``.

    ``format``: only this one; auto: all of them. ``options`` are reader options.
    """

    def __init__(self, folder: str | Path, format: str = "auto", options: Mapping[str, Any] | None = None) -> None:
        self.folder = Path(folder)
        self.format = format
        self.found = {name: path for name, path in captures_of(folder).items() if format in ("auto", name)}
        self.facts: dict[str, Any] = {name: {} for name in ("chosen", "changed_columns", "shown_records", "traps")}
        self._options = dict(options or {})
        self._opened: dict[str, Lesson | str] = {}

    def _open(self, name: str) -> Lesson | str:
        """A capture, or the sentence with the reason why there is none."""
        if name not in self._opened:
            self._opened[name] = f"There is no folder '{name}' in '{self.folder}': nothing to show of this format."
            if self.format not in ("auto", name):
                self._opened[name] = f"Left out: only {self.format} was asked for."
            if name in self.found:
                try:
                    self._opened[name] = open_lesson(self.found[name], name, self._options)
                except CaptureError as error:
                    self._opened[name] = f"{name} cannot be read: {error}"
        return self._opened[name]

    @property
    def captures(self) -> dict[str, Lesson]:
        """The captures that could be read, by the names of their formats."""
        return {name: lesson for name in FORMATS if isinstance(lesson := self._open(name), Lesson)}

    def _lesson(self, name: str) -> Lesson | None:
        """A capture; None, with a note on the page, if it is missing."""
        opened = self._open(name)
        if isinstance(opened, Lesson):
            return opened
        show.note(opened)
        return None

    # --- the general part ---------------------------------------------------------------------------------------------

    def show_example(self) -> None:
        """One row from the source to the log to the target, of the first capture that has such a row."""
        lines, lesson = _example(self.captures)
        self.facts["example"] = lesson and [lesson.name, lines]
        heads = {
            "number": "change",
            "source_sentence": "statement in the source",
            "position": "position in the log",
            "log_sentence": "record in the log",
            "target_sentence": "row in the target",
        }
        show.table(lines, heads, none="No capture here has a row with an insert, updates and a delete.")
        if lesson is not None:
            first = lesson.place(lesson.history()[0])
            show.note(f"{lesson.name}, from {first} on. The statements are written from the records: a log has no SQL.")

    def show_delivery(self) -> None:
        """Snapshot rows, changes, repeated and out-of-order records of each capture."""
        rows = [delivery(lesson) for lesson in self.captures.values()]
        self.facts["delivery"] = rows
        heads = {
            "format_code": "capture",
            "snapshot": "rows of a snapshot",
            "changes": "records of changes",
            "again": "delivered again",
            "back": "out of order in the files",
        }
        show.table(rows, heads, none="There are no captures here.")

    def show_positions(self) -> None:
        """The kinds of positions, each with an example from the captures."""
        rows = positions(self.captures)
        self.facts["positions"] = [[row["name"], row["value"]] for row in rows]
        examples = [f"{row['value']} in {row['location']}" if row["value"] else None for row in rows]
        shown = [row | {"example": example} for row, example in zip(rows, examples, strict=True)]
        show.table(shown, {"name": "position", "given_by": "given by", "orders": "orders", "example": "example"})

    def show_interleaving(self) -> None:
        """One transaction among others in the log, of the first capture that has some; the fact is null if there is
        none, else capture, transaction and number of records."""
        self.facts["pictured"] = None
        for name, lesson in self.captures.items():
            story = lesson.story()
            if not story or story[0]["transaction_id"] is None:
                continue
            chosen = story[0]["transaction_id"]
            rows = _around(lesson, story)
            heads = {"number": "record", "lane": "transaction", "name": "type", "what": "content"}
            show.chart(log(rows, chosen), show.table_html(rows, heads))
            own = plural(len(story), "record")
            show.note(
                f"{name}: {count(len(rows))} of {plural(len(lesson.events), 'record')} shown, {own} of transaction "
                f"{chosen} at the top, from {lesson.place(story[0])} on."
            )
            self.facts["pictured"] = [name, chosen, len(story)]
            return
        show.note("No capture here has transactions that could be drawn.")

    # --- one format ---------------------------------------------------------------------------------------------------

    def show_record(self, name: str) -> None:
        """The fields and bytes of the chosen record of a capture; the fact: its file, offset, type and the rule that
        chose it."""
        self.facts["chosen"][name] = None
        lesson = self._lesson(name)
        event = lesson.chosen() if lesson is not None else None
        if lesson is None or event is None:
            return
        dissection = lesson.inspect(event)
        note = f" {dissection.note[:1].upper()}{dissection.note[1:]}." if dissection.note else ""
        if dissection.field.length != event["length"]:
            note += f" Of its {plural(event['length'], 'byte')}, {count(dissection.field.length)} are the message."
        show.note(f"Shown is {lesson.rule}: {lesson.place(event)}.{note}")
        show_record(dissection.field, as_text=name != "gbase8s", skip=_SKIP.get(name, ()))
        self.facts["chosen"][name] = [lesson.file(event), event["offset"], event["record_type"], lesson.rule]

    def show_changed_columns(self, name: str) -> None:
        """The columns that the chosen record changed, and its mask bit by bit if it has one."""
        self.facts["changed_columns"][name] = None
        lesson = self._lesson(name)
        event = lesson.chosen() if lesson is not None else None
        if lesson is None or event is None:
            return
        mask = lesson.mask(event)
        if mask is not None:
            chosen = [bit for bit in mask.bits if bit.is_set]
            named = joined([f"bit {bit.number} is {bit.column or f'no column ({bit.kind})'}" for bit in chosen])
            total = " + ".join(f"2^{bit.number}" for bit in reversed(chosen)) or "0"
            show.note(
                f"The mask {mask.mask} is a number in hexadecimal digits, {int(mask.mask, 16):,} = {total}: "
                f"{named or 'no bit is set'}. The first column of the table is bit {mask.offset}."
            )
            heads = {"number": "bit", "column": "column", "kind": "kind", "is_set": "set"}
            show.chart(bits([mask]), show.table_html([{n: getattr(bit, n) for n in heads} for bit in mask.bits], heads))
        rows = lesson.compared(event)
        heads = {"column": "column", "before": "before", "after": "after", "changed": "changed"}
        show.table(rows[:_COLUMNS], heads, total=len(rows))
        self.facts["changed_columns"][name] = [row["column"] for row in rows if row["changed"]]

    def show_transaction(self, name: str) -> None:
        """The records of one transaction (of one change in a format without transactions) in order; the fact: file and
        offset of each."""
        self.facts["shown_records"][name] = None
        lesson = self._lesson(name)
        if lesson is None:
            return
        story = lesson.story()
        heads = {"record_code": "record", "table": "table", "what": "content", "position": "position"}
        show.table(
            lesson.change_rows(story), heads | {"file": "file", "offset": "at byte"}, none="There are no changes."
        )
        if story and story[0]["transaction_id"] is not None:
            among = plural(len(lesson.transactions()), "transaction")
            which = f"transaction {story[0]['transaction_id']}, one of {among}"
        else:
            which = "one change; the log has no transactions"
        show.note(f"{plural(len(story), 'record')} of {which}.")
        self.facts["shown_records"][name] = [[lesson.file(event), event["offset"]] for event in story]

    def show_traps(self, name: str) -> None:
        """The pitfalls of the format with examples from the capture; the fact: title and example of each."""
        from IPython.display import display

        self.facts["traps"][name] = None
        lesson = self._lesson(name)
        if lesson is None:
            return
        examples = traps(lesson)
        page = f"docs/formats/{name}.md"
        items = "".join(
            f"<li><h4>{escape(trap.title)}</h4>"
            f'<p>{escape(trap.why)} <a href="../{page}">{page} §{trap.section}</a></p>'
            f'<p class="seen">{_seen(trap.seen)}</p></li>'
            for trap in examples
        )
        text = "\n".join(f"{trap.title}: {trap.seen or 'no example here'}" for trap in examples)
        display({"text/html": f'<ol class="cdcwb-traps">{items}</ol>', "text/plain": text}, raw=True)
        self.facts["traps"][name] = [[trap.title, trap.seen] for trap in examples]

    # --- the self-check -----------------------------------------------------------------------------------------------

    @cached_property
    def checked(self) -> Checked:
        """The numbers of ``expected.json`` and the counted ones; this may run Spark jobs."""
        from cdcwb.capture import load, open_small

        expected = read_expected(self.folder)
        opened, wrong = {}, {}
        for name, path in self.found.items():
            try:
                opened[name] = open_small(path, name, self._options) or load(path, name, **self._options)
            except CaptureError as error:
                wrong[name] = str(error)
        counted = actual(opened)
        rows = {name: compare(expected.get(name, {}), counted.get(name, {})) for name in self.found}
        return Checked(rows, [name for name in expected if not (self.folder / name).is_dir()], wrong)

    def show_verdict(self) -> None:
        """Whether all numbers agree, in a sentence."""
        show.verdict(self.checked.health)

    def show_numbers(self, name: str) -> None:
        """Expected and actual numbers of a capture."""
        if self._lesson(name) is None:
            return
        rows = [row | {"quantity": words(row["quantity"])} for row in self.checked.rows.get(name, ())]
        heads = {"quantity": "quantity", "expected": "expected", "actual": "actual", "agrees": "agrees"}
        show.table(rows, heads, none=f"{FILE} does not name this capture: there is nothing to compare with.")

    def store_facts(self) -> None:
        """Records the facts of all outputs and of the self-check."""
        state = self.checked.health
        about = {"title": "Start here", "what": state.what, "verdict": state.verdict, "tone": state.tone}
        numbers = {"expected": self.checked.facts, "agrees": self.checked.agrees}
        record(about | {"captures": list(self.captures)} | numbers | self.facts)


def _example(lessons: Mapping[str, Lesson]) -> tuple[list[dict[str, Any]], Lesson | None]:
    for lesson in lessons.values():
        if lines := row_to_target(lesson):
            return lines, lesson
    return [], None


def _seen(text: str | None) -> str:
    if text is None:
        return "This capture has no example."
    return f"<b>In this capture</b> {escape(visible(text, 600))}"


def _around(lesson: Lesson, story: list[Event]) -> list[dict[str, Any]]:
    """The records of transactions around those of a story, in the order of the log."""
    known = {id(event): event for events in lesson.transactions().values() for event in events}
    if any(event["kind"] == Kind.BEGIN for event in lesson.events):
        order = [event for event in lesson.events if id(event) in known]
    else:
        order = sorted(known.values(), key=lambda event: (event["position"] or "", event["kind"] != Kind.BEFORE))
    numbers = {id(event): number for number, event in enumerate(order, 1)}
    first, last = (numbers[id(story[at])] for at in (0, -1))
    return [
        {
            "number": numbers[id(event)],
            "lane": event["transaction_id"],
            "kind": event["kind"],
            "operation": event["operation"],
            "name": _name(event),
            "what": f"{lesson.table(event) or ''} {lesson.sentence(event)}".strip(),
        }
        for event in order[max(0, first - 1 - _AROUND) : last + _AROUND]
    ]


def _name(event: Event) -> str:
    half = f" {event['kind']}" if event["kind"] in (Kind.BEFORE, Kind.AFTER) else ""
    return f"{event['operation'] or event['kind']}{half}"
