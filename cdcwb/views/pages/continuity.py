"""The page about the continuity of rows: what was lost, repeated, reordered or revived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from cdcwb.analysis.continuity import MOST_BREAKS, continuity
from cdcwb.analysis.counters import counters
from cdcwb.analysis.history import RowHistory, key_text, parse_key
from cdcwb.analysis.keys import find_table, infer_keys, known_of
from cdcwb.analysis.positions import positions
from cdcwb.analysis.row_breaks import Break
from cdcwb.analysis.simulate import KINDS, ApplyRule, simulated
from cdcwb.analysis.summary_text import Tone
from cdcwb.charts import continuity as charts
from cdcwb.errors import OptionError
from cdcwb.report.answer import Answer
from cdcwb.views.pages.page import Facts, Page, panel, question, tone_for
from cdcwb.words import count, plural, tally

if TYPE_CHECKING:
    from cdcwb.report.opening import OpenedCapture


_DRAWN: Final = 2_000  # breaks
_CHAIN: Final = 40  # changes of a row
_ROWS: Final = 50
_EARLIER: Final = ("earlier_operation", "earlier_position", "earlier_offset")
_CONTRADICTS: Final = "earlier_operation: contradicts; earlier_position: at position"


class ContinuityPage(Page):
    """Breaks in the continuity of rows: by table, over time, the rows with most of them, and the versions of one row;
    what a target would hold, and contradictions of counters.

    ``table`` and ``key`` (a JSON object, or column=value): the row whose versions are shown; empty: the one with most
    breaks.
    """

    title: ClassVar[str] = "Continuity of rows"
    notebook: ClassVar[str] = "continuity"
    images: ClassVar[bool] = True

    def __init__(self, opened: OpenedCapture, table: str = "", key: str = "") -> None:
        super().__init__(opened)
        self.wanted = self.check(table, key)

    @classmethod
    def check(cls, table: str = "", key: str = "", **_: Any) -> tuple[str, dict[str, Any]] | None:
        """The table and the key of a row; None if neither is given."""
        if bool(table) != bool(key):
            raise OptionError("table and key: give both, or neither")
        return (table, parse_key(key)) if key else None

    result = question(continuity)
    """The breaks of the capture."""
    counters = question(counters)
    """The contradictions of counters."""

    @property
    def unchecked(self) -> str:
        """Why no row was checked; empty if rows were."""
        if self.result.unchecked and not self.opened.whole.has_images:
            return "the capture was loaded without images"
        return self.result.unchecked

    @cached_property
    def worst(self) -> list[dict[str, Any]]:
        """The rows with most breaks, of those that are listed."""
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for found in self.result.listed:
            text = key_text(found["key"])
            row = rows.setdefault((found["table"], text), {**found, "row": text, "breaks": 0, "found": Counter()})
            row["breaks"] += 1
            row["found"][found["kind"]] += 1
        ranked = sorted(rows.values(), key=lambda row: (-row["breaks"], row["table"], row["row"]))
        return [row | {"kinds": tally(row["found"])} for row in ranked]

    @staticmethod
    def headline_of(facts: Facts) -> str:
        """See :class:`Page`."""
        tables, checked, breaks = (facts[f"continuity_{name}"] for name in ("tables", "checked", "breaks"))
        if breaks:
            text = f"{plural(breaks, 'break')} in the continuity of rows: {tally(facts['continuity_kinds'])}"
        elif facts["continuity_unchecked"]:
            text = f"Nothing compared: {facts['continuity_unchecked']}"
        else:
            compared, of_all = facts["continuity_compared"], plural(tables, "table")
            what = "no row has a second change"
            if compared:
                what = f"{plural(compared, 'change')} compared with the version before"
            text = f"No breaks: {what}, in {of_all if checked == tables else f'{checked} of {of_all}'}"
        if wrong := facts["counter_contradictions"]:
            text += f"; {plural(wrong, 'contradiction')} of counters"
        return text

    @staticmethod
    def tone_of(facts: Facts) -> Tone:
        """See :class:`Page`."""
        breaks, contradictions = facts["continuity_breaks"], facts["counter_contradictions"]
        is_wrong = breaks > facts["continuity_kinds"].get("repeat", 0) or contradictions
        return tone_for(is_wrong, breaks or facts["continuity_checked"] < facts["continuity_tables"])

    @panel("Summary")
    def overview(self, answer: Answer) -> None:
        """What was checked, and what was found."""
        result, numbers = self.result, self.counters
        facts = {f"continuity_{name}": value for name, value in result.facts.items()}
        facts |= {"continuity_unchecked": self.unchecked, "counted_transactions": numbers.transactions}
        facts |= {"counter_contradictions": numbers.contradictions}
        self.begin(answer, facts)
        counted = "none", "no event has a number"
        if numbers.transactions:
            of_all = plural(numbers.transactions, "transaction")
            counted = count(numbers.contradictions), f"contradictions in {of_all} with numbered events"
        answer.cards(
            [
                ("breaks", count(result.breaks), tally(result.kinds) if result.breaks else result.summary),
                ("rows", count(sum(table["rows"] for table in result.tables)), "with a key"),
                ("compared", count(result.facts["compared"]), "changes that follow another one of their row"),
                ("counters", *counted),
                self.problems_card(),
            ]
        )
        answer.note(*(f"{kind}: {Break(kind).meaning}." for kind in result.kinds))

    @panel("Breaks over time")
    def over_time(self, answer: Answer) -> None:
        """Each break at its time, by table and kind."""
        shown = answer.linked(self.result.listed[:_DRAWN])
        timed = [row for row in shown if row["at"] is not None]
        if timed:
            answer.chart(charts.breaks_over_time(timed), timed, "at; table; kind")
        elif not self.result.breaks:
            answer.note("There are no breaks.")
        if self.result.breaks > len(shown):
            answer.note(f"Only the first {count(len(shown))} of {plural(self.result.breaks, 'break')} are shown.")
        if len(shown) > len(timed):
            answer.note(f"Without a time, so not in the chart: {plural(len(shown) - len(timed), 'break')}.")

    @panel("Tables")
    def tables(self, answer: Answer) -> None:
        """What was checked in each table."""
        headings = "table; rows; changes; compared; keyless: without a key; inferred: inferred key"
        headings = "; ".join([headings, *self.result.kinds])
        answer.table(self.result.tables, headings, total=len(self.result.tables), none="No change has a table.")

    @panel("Rows with most breaks")
    def rows(self, answer: Answer) -> None:
        """The rows with most breaks."""
        headings = "table; row; breaks; kinds; file: first in; offset: at offset"
        answer.table(self.worst[:_ROWS], headings, total=len(self.worst))

    @panel("Versions of one row")
    def chain(self, answer: Answer) -> None:
        """The changes of a row in the order of the capture, with its breaks."""
        asked = self.wanted or next(((row["table"], dict(row["key"])) for row in self.worst), None)
        if asked is None:
            return
        table, key = asked
        known = find_table(known_of(self.capture).tables, table)
        inferred = infer_keys(self.capture, [known.table]) if not known.keyed else {}
        keys = {name: [one.column] for name, one in inferred.items()}
        row = RowHistory.of(self.capture, known, key, keys)
        index = {entry["file"]: entry["file_index"] for entry in self.capture.files}
        changes = [change for change in row.shown if not change["taken_back"]]
        changes.sort(key=lambda change: [(index.get(one["file"], 0), one["offset"]) for one in change["places"][-1:]])
        breaks: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for found in self.result.listed:
            if found["table"] == known.table:
                breaks.setdefault((found["file"], found["offset"]), []).append(found)
        earlier = ("earlier_file", *_EARLIER)
        chain = []
        for change in changes:
            places = [(one["file"], one["offset"]) for one in change["places"]]
            at_places = (one for place in places for one in reversed(breaks.get(place, [])) if _is_of_row(one, change))
            found = next(at_places, dict.fromkeys(("kind", *earlier)))
            about = {name: found[name] for name in earlier} | {"broken": found["kind"]}
            about |= dict(zip(("file", "offset"), places[-1], strict=True)) if places else {}
            about |= {"told": "; ".join(f"{d['column']}: {d['told']}" for d in change["differences"])}
            chain.append(change | about)
        first = next((n for n, change in enumerate(chain) if change["broken"]), 0)
        begin = max(0, min(first - _CHAIN // 2, len(chain) - _CHAIN))
        shown = answer.linked(chain[begin : begin + _CHAIN])
        answer.note(f"{known.table}, {key_text(key)}: {plural(len(chain), 'change')}.")
        headings = "at; told: values; broken: break; operation: change; position; file; offset"
        headings += f"; {_CONTRADICTS}; earlier_offset: at offset"
        answer.chart(charts.version_chain(shown), shown, "operation: change; broken: break; told: values")
        answer.table(shown, headings, total=len(chain), cells=self._both(shown))

    @panel("What would a target hold?")
    def target(self, answer: Answer) -> None:
        """The rows that a target ends with wrongly, under rules by which real sinks apply changes."""
        found = simulated(self.capture, _ROWS)
        none = dict.fromkeys(KINDS, 0)
        rules = [{**none, **one, **one["wrong"], "means": ApplyRule(one["rule"]).meaning} for one in found]
        headings = "; ".join(["rule; means: how changes are applied; rows: wrong rows", *KINDS])
        answer.table(rules, headings)
        files = {entry["file_index"]: entry["file"] for entry in self.capture.files}
        rows = [
            {**row, "rule": one["rule"], "row": key_text(dict(row["key"])), "file": files.get(row["file_index"])}
            for one in found
            for row in one["listed"]
        ]
        headings = "rule; table; row; wrong; right_operation: right: change; right_position: position"
        headings += "; position: applied last: position; file; offset"
        if rows:
            answer.table(rows[:_ROWS], headings, total=sum(one["rows"] for one in found))
        answer.record({"wrong_rows_by_rule": {one["rule"]: one["rows"] for one in found}})

    @panel("Breaks")
    def breaks(self, answer: Answer) -> None:
        """The breaks one by one, with both records."""
        shown = [{**row, "row": key_text(row["key"])} for row in self.result.listed[:_ROWS]]
        headings = f"kind; table; row; operation: change; position; {_CONTRADICTS}; columns?; distance?: late by"
        headings += "; file; offset; earlier_offset: earlier offset"
        answer.table(shown, headings, total=self.result.breaks, cells=self._both(shown))
        if self.result.breaks > MOST_BREAKS:
            answer.note(f"Listed are the first {count(MOST_BREAKS)}.")

    def _both(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """The cells of breaks that lead to their two records."""
        if self.links is None or not rows:
            return {}
        earlier = [{name: row[f"earlier_{name}"] for name in ("file", "offset")} for row in rows]
        return {"offset": (self.links, rows)} | dict.fromkeys(_EARLIER, (self.links, earlier))

    @panel("Contradictions of counters")
    def contradictions(self, answer: Answer) -> None:
        """Transactions whose events contradict their numbers, and positions out of order."""
        numbers, order = self.counters, positions(self.capture)
        none = "No event has a number in its transaction."
        if numbers.transactions:
            none = f"None in {plural(numbers.transactions, 'transaction')} with numbered events."
        if numbers.numbers:
            none += f" None of {plural(numbers.numbers, 'number')} of records came again with another record."
        if records := order.total("ordered"):
            none += f" No position is out of order in {plural(records, 'record')}."
        rows = [*numbers.listed, *({**row, "transaction_id": None} for row in order.listed)][:_ROWS]
        number = numbers.contradictions + order.contradictions
        answer.table(rows, "transaction_id; sentence; file; offset", total=number, none=none)


def _is_of_row(found: Mapping[str, Any], change: Mapping[str, Any]) -> bool:
    """Whether a break at the location of a change is one of its row, not of another row of the same message."""
    before = (change["image"] or {}) | {one["column"]: one["old"] for one in change["differences"]}
    sides = [before] if change["image"] is None else [before, change["image"]]
    return any(all(side.get(name, value) == value for name, value in found["key"].items()) for side in sides)
