"""The rows of a table at a position of the log, the history of one of them, and the differences between two captures of
the same tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from cdcwb.analysis import history as row_history
from cdcwb.analysis.contents import readers
from cdcwb.analysis.frames import TableSnapshot
from cdcwb.analysis.keys import FACTS, Keyed, KnownTable, changes_of, find_table, infer_keys, known_of, known_with
from cdcwb.analysis.reconcile import Reconciled, check_names, counted_tables, difference_rows, reconcile
from cdcwb.analysis.replay import Replayed, TableReplay
from cdcwb.analysis.summary_text import Tone
from cdcwb.analysis.value_comparison import Reason, Rules, read_rules, reason_words, tally_words
from cdcwb.charts import reconcile as charts
from cdcwb.formats.options import as_bool, as_moment
from cdcwb.model import Operation
from cdcwb.report import show
from cdcwb.report.answer import Answer
from cdcwb.report.opening import TARGETS, Mistakes, asked_of, check_target, limited, look_at, open_target, options_of
from cdcwb.spark_rows import SparkRows
from cdcwb.views.pages.page import Facts, Page, panel, tone_for
from cdcwb.views.view import View, links_of
from cdcwb.words import count, duration, plural, to_the_second, visible
from cdcwb.writing import scratch

if TYPE_CHECKING:
    from cdcwb.capture import Capture
    from cdcwb.report.opening import OpenedCapture


_COUNTED: Final = ("missing", "extra", "different", "late", "same")
_SHOWN_CHANGES: Final = 200


class _TablePage(Page):
    """A page about a table (None without tables) and the history of one of its rows.

    :meth:`ask` validates the parameters. ``keys`` is the inferred key of the table, if one was inferred; ``notes`` are
    remarks on the results.
    """

    images: ClassVar[bool] = True

    def ask(
        self,
        compared: TableSnapshot | None = None,
        table: str = "",
        position: str = "",
        time: str = "",
        key: str = "",
        rules: str = "{}",
    ) -> None:
        """Sets the table and the row of the page. ``compared``: the target with which the capture is compared.

        Raises OptionError that names everything that is wrong.
        """
        texts: dict[str, Any] = {"table": table, "position": position, "time": time, "key": key}
        with Mistakes() as wrong:  # papermill's -p converts texts to numbers, and positions lose leading zeros
            for name, text in texts.items():
                if not isinstance(text, str):
                    hint = f"papermill's -r {name} gives VALUE as text"
                    wrong.append(f"{name}: expected a text, found the number {text!r}; {hint}")
        self.position = position or None
        self.known = known_of(self.capture).tables
        self.notes: list[str] = []
        self.keys: Keyed = {}
        with Mistakes() as wrong:
            self.rules = wrong.tried(lambda: read_rules(rules), Rules())
            self.time = wrong.tried(lambda: as_moment("time", time).astimezone(UTC), None) if time else None
            self.key: dict[str, str | None] = wrong.tried(lambda: row_history.parse_key(key), {}) if key else {}
            most = sorted(self.known.values(), key=lambda table: (-table.keyed, -table.changes, table.table))[:1]
            chosen = wrong.tried(lambda: find_table(self.known, table), None) if table else next(iter(most), None)
            if chosen is not None:
                if not chosen.keyed:
                    chosen = self._with_inferred_key(chosen)
                wrong += row_history.check_key(chosen, self.key) if self.key else []
            self.chosen: KnownTable | None = chosen
            if compared is not None:
                self.sides = counted_tables(self.capture), counted_tables(compared)
                wrong += check_names(self.rules, *self.sides)
            elif self.rules != Rules():
                self.notes.append("The rules are for a second capture, and there is none.")

    def _with_inferred_key(self, table: KnownTable) -> KnownTable:
        """A table without a key with its inferred one, if there is one, and a note about it."""
        name = table.table
        if (inferred := infer_keys(self.capture, [name]).get(name)) is not None:
            self.notes.append(str(inferred))
            self.keys = {name: [inferred.column]}
            return known_with(self.capture, self.keys, name)
        self.notes.append(
            f"No change of {name} has a key, and none can be inferred: no column is unique in 20 inserted rows "
            f"or more. To name the key, give the reader option keys={name}:column+column."
        )
        return table

    @cached_property
    def history(self) -> row_history.RowHistory | None:
        """The history of the given row, or of the one with most changes; None if rows have no key."""
        if self.chosen is None:
            return None
        key = self.key or row_history.busiest_key(changes_of(self.capture, FACTS, self.keys, self.chosen.table))
        if key is None:
            return None
        return row_history.RowHistory.of(self.capture, self.chosen, key, self.keys, _SHOWN_CHANGES, chosen=not self.key)

    def put_which(self, answer: Answer, row: row_history.RowHistory) -> None:
        """The row, and the number of its changes."""
        assert self.chosen is not None
        which = ", the row with the most changes" if row.chosen else ""
        answer.note(f"{self.chosen.table}, {row_history.key_text(row.key)}{which}: {plural(row.changes, 'change')}.")

    def put_changes(self, answer: Answer, row: row_history.RowHistory) -> None:
        """The changes of a row as a table and as a chart."""
        names = ("file", "offset")
        firsts = [{name: one[name] for one in change["places"][:1] for name in names} for change in row.shown]
        shown = answer.linked([change | first for change, first in zip(row.shown, firsts, strict=True)])
        rows = row_history.history_rows(shown)
        headings = "at; operation; outcome; sentence: changed values; transaction_id; user; change_mask: mask"
        headings += "; version_code: version; position; places: file, offset"
        answer.table(rows, headings, total=row.changes, none="The capture has no change of this row.")
        if any(row["at"] for row in rows):
            answer.chart(charts.row_life(shown), rows, "at; operation; sentence: changed values")


class Replay(_TablePage):
    """A table as it was after a commit, the history of one row, and the differences between two captures.

    ``table``: empty: the one with most changes that have a key. ``position``, ``time``: replay all commits up to this;
    empty: to the end. ``key``: the row whose history is shown, as a JSON object; empty: the row with most changes.
    ``target``: the capture that is compared with this one, which is the source: its path, with ``target_format`` and
    ``target_options``, or an open capture; empty: none. ``rules``: how two captures are compared
    (:func:`cdcwb.analysis.value_comparison.read_rules`). ``infer_keys``: tables that have no key in either capture are
    compared by an inferred one.
    """

    title: ClassVar[str] = "Replay and reconcile"
    notebook: ClassVar[str] = "replay_and_reconcile"

    def __init__(self, opened: OpenedCapture, target: Capture | str = "", infer_keys: bool = False, **own: str) -> None:
        super().__init__(opened)
        self.infer_keys = as_bool("infer_keys", infer_keys)
        about = {name: own.pop(name) for name in TARGETS[1:] if name in own}
        self.target = open_target(target, **about) if isinstance(target, str) else target
        self.compared: TableSnapshot | None = None
        if self.target is not None:
            folder = self.asked.folder and self.asked.folder / "target"
            self.compared = TableSnapshot(limited(self.target, self.asked), folder, self.images)
            show.read_by(readers(self.target, options_of(self.target)), further=True)
        self.ask(self.compared, **own)

    @classmethod
    def check(cls, infer_keys: bool = False, **own: Any) -> None:
        """See :meth:`Page.check`."""
        as_bool("infer_keys", infer_keys)
        check_target(**{name: own[name] for name in TARGETS if name in own})

    @classmethod
    def of(cls, capture: Capture, other: Capture | None = None, **own: Any) -> Self:
        """See :meth:`Page.of`. ``capture`` is the source and ``other`` the target; both are compared completely."""
        if other is None:
            return super().of(capture, **own)
        return cls(look_at(capture, capture, asked_of(capture), cls.images), target=other, **own)

    @property
    def table(self) -> KnownTable | None:
        """The table, if its changes have keys."""
        return self.chosen if self.chosen and self.chosen.keyed else None

    @cached_property
    def result(self) -> Reconciled | None:
        """The comparison of two captures; None for a single capture."""
        if self.target is None:
            return None
        wholes = (self.opened.whole, self.target)
        result = reconcile(self.capture, self.compared, self.rules, self.sides, self.infer_keys, wholes)
        if self.asked.folder is not None:
            return result.stored(self.asked.folder / "reconciled.parquet")
        if isinstance(result.pairs, SparkRows):
            master = result.pairs.spark.conf.get("spark.master", "") or ""
            if not master.startswith("local"):  # workers do not write to this machine
                return result
        return result.stored(scratch(self, "cdcwb-reconciled-") / "pairs")

    def _replay(self, table: KnownTable) -> TableReplay:
        return TableReplay(self.capture, table, self.position, self.time, self.keys)

    @cached_property
    def state(self) -> Replayed | None:
        """The rows of the table; None without keys."""
        return self._replay(self.table).shown() if self.table else None

    @cached_property
    def state_facts(self) -> dict[str, Any]:
        """The number of rows of the table."""
        state = self.state
        return {"replay_rows": state.rows if state else None, "replay_partial": state.partial if state else None}

    @cached_property
    def compared_facts(self) -> dict[str, Any]:
        """The number of changes in one capture only, with reasons; None for a single capture."""
        result = self.result
        numbers: Mapping[str, int | None] = result.counts() if result else dict.fromkeys(_COUNTED)
        why = {what: result.by_reason(what) if result else None for what in ("missing", "extra")}
        facts: dict[str, Any] = {f"reconcile_{name}": number for name, number in numbers.items()}
        facts["reconcile_without_key"] = sum(row["changes"] for row in result.without_key) if result else None
        facts["keys_inferred"] = {key.table: key.column for key in result.inferred} if result else {}
        return facts | {f"reconcile_{what}_by_reason": counts for what, counts in why.items()}

    def answered_by(self) -> Mapping[str, Any]:
        """See :class:`Page`."""
        return self.state_facts | row_history.history_facts(self.history) | self.compared_facts

    @staticmethod
    def headline_of(facts: Facts) -> str:
        """See :class:`Page`."""
        if facts["reconcile_same"] is not None:
            return _reconciled(facts)
        rows, table = facts["replay_rows"], facts["replay_table"]
        if rows is None:
            return f"Nothing to replay: {'no change names a key' if table else _no_table(facts)}"
        text = f"{visible(table)} has {plural(rows, 'row')} after replay"
        if facts["replay_partial"]:
            text += ", partly known" if rows == 1 else f" and {count(facts['replay_partial'])} of them partly known"
        if facts["history_changes"]:
            text += f"; row {visible(facts['history_key'], 80)} has {plural(facts['history_changes'], 'change')}"
        return f"{text}; no second capture to compare with"

    @staticmethod
    def tone_of(facts: Facts) -> Tone:
        """See :class:`Page`."""
        differ = any(facts[f"reconcile_{name}"] for name in ("missing", "extra", "late"))
        reasons = [facts.get(f"reconcile_{what}_by_reason") or {} for what in ("missing", "extra")]
        lost = any(counts.get("unexplained") for counts in reasons)
        return tone_for(facts["reconcile_different"] or lost, differ or facts["replay_partial"])

    @panel("Summary")
    def overview(self, answer: Answer) -> None:
        """The tables; or why nothing can be replayed, if rows have no key."""
        self.begin(answer, {"replay_table": self.chosen.table if self.chosen else None})
        answer.note(*self.notes)
        if self.table:
            tables = sorted(self.known.values(), key=lambda table: -table.changes)
            known = [{"table": table.table, "changes": table.changes, "keyed": table.keyed} for table in tables]
            answer.table(known[:30], "table; changes; keyed: with a key", total=len(known))

    @panel("Table after replay")
    def replayed(self, answer: Answer) -> None:
        """The rows of a table after a commit, and the number of rows over time."""
        answer.record(self.state_facts)
        if self.table is None or self.state is None:
            return
        name, state = self.table.table, self.state
        limits = [f"position {self.position}"] if self.position else []
        limits += [self.time.isoformat()] if self.time else []
        until = f"after all commits up to {' and '.join(limits)}" if limits else "at the end of the capture"
        partial = "their insert is not in the capture, and not all columns are known"
        answer.cards([(name, plural(state.rows, "row"), until), ("partial", count(state.partial), partial)])
        none = f"{name} has no rows {until}."
        answer.table(state.shown, state.columns, total=state.rows, none=none, by_heading=True)
        steps = self._replay(self.table).over_time()
        if len(steps) > 1 and self.table.first and self.table.last:
            numbers = [{"at": end, "rows": rows} for end, rows in steps]
            figure = charts.rows_over_time(steps, self.table.first, self.table.last)
            answer.chart(figure, numbers, "at: until; rows")
            answer.note(f"Rows of {name} as its changes were committed; rows without a change are not included.")
        else:
            answer.note("No known time changes the number of rows.")

    @panel("Row history")
    def row(self, answer: Answer) -> None:
        """Every change of a row in log order, including those under its earlier and later keys."""
        answer.record(row_history.history_facts(self.history))
        if self.history is not None:
            self.put_which(answer, self.history)
            self.put_changes(answer, self.history)

    @panel("Source and target")
    def side_by_side(self, answer: Answer) -> None:
        """The number of changes that are missing, extra, different, late or the same, by table and over time."""
        result = self.result
        answer.record(self.compared_facts)
        if result is None:
            answer.note(
                "There is no second capture to compare with. Name one with --with PATH (in the notebook target=PATH)."
            )
            return
        late_after = self.rules.late_after
        late = "late_after is not set"
        if late_after is not None:
            late = f"by more than {duration(late_after // timedelta(microseconds=1))}"
        lines = ("only in the source", "only in the target", "in some column", late, "late ones included")
        numbers = [count(self.compared_facts[f"reconcile_{name}"]) for name in _COUNTED]
        answer.cards(zip(_COUNTED, numbers, lines, strict=True))
        answer.note("Compared are committed changes; rows of a full load are not.", *result.notes)
        reasons = [
            {"what": what, "reason": reason_words(reason, what), "changes": number, "about": Reason(reason).meaning}
            for what in ("missing", "extra")
            for reason, number in result.by_reason(what).items()
        ]
        if reasons:
            answer.table(reasons, "what; reason; changes; about: meaning")
        headings = "table; same; missing; extra; different; late; slowest_us: longest delay"
        answer.table(result.by_table(), headings, none="Neither capture has a committed change with a key.")
        answer.table(result.without_key, "side; table; changes: changes without a key", none="Every change has a key.")
        spans = result.over_time()
        if spans and result.first and result.last:
            figure = charts.differences_over_time(spans, result.first, result.last, result.width_us, result.axis)
            answer.chart(figure, spans, "began_at: from; missing; extra; different; late")

    @panel("Columns that differ")
    def columns(self, answer: Answer) -> None:
        """The share of the matched changes in which each column differs."""
        columns = self.result.by_column() if self.result else []
        names = ("table", "column", "different", "compared")
        answer.record({"reconcile_columns": [[row[name] for name in names] for row in columns]})
        headings = "table; column; different; compared: of matched changes"
        if columns:
            answer.chart(charts.difference_rates(columns), columns, headings)
            drawn, differ = count(min(len(columns), 40)), plural(len(columns), "column")
            answer.note(f"{drawn} of {differ} that differ somewhere are shown.")
        elif self.result:
            answer.note("No column differs in matched changes.")

    @panel("Differences")
    def differences(self, answer: Answer) -> None:
        """The changes that differ between the captures, one by one."""
        if self.result is None or self.target is None:
            return
        differences = self.result.differences()
        differ = difference_rows(differences)
        cells = {}
        if self.is_live and not self.target.view.bench.prepare():
            for side, capture in (("source", self.opened.whole), ("target", self.target)):
                bench = capture.view.bench
                answer.widget(View(bench, "", [], controls=False))  # opens the explorer of its capture
                cells[f"{side}_position"] = links_of(bench), [row[side] or {} for row in differences]
        headings = "what; reason; table; key; operation; sentence: columns (source -> target); delay_us: delay"
        headings += "; source_position: in the source; target_position: in the target"
        none = "Each change of one capture is in the other, with the same values and in time."
        answer.table(differ, headings, total=self.result.unlike, none=none, cells=cells)

    @panel("Delay in the target")
    def delays(self, answer: Answer) -> None:
        """The delays of matched changes in the target."""
        if self.result is None:
            return
        spans = self.result.delays()
        if not spans:
            answer.note("No matched change has a time in both captures.")
            return
        answer.chart(charts.delays(spans), spans, "from_us: from; to_us: to; changes")
        answer.note("The time of a change is that of its commit, or its own if that of the commit is not known.")


class History(_TablePage):
    """The changes of one row, including those under its earlier and later keys.

    ``table``: empty: the one with most changes that have a key. ``key``: columns of the row and their values, as a
    mapping, as a JSON object or as ``id=42``; empty: the row with most changes.
    """

    title: ClassVar[str] = "Row history"
    notebook: ClassVar[str] = "history"

    def __init__(self, opened: OpenedCapture, table: str = "", key: str | Mapping[str, str | None] = "") -> None:
        super().__init__(opened)
        text = key if isinstance(key, str) else json.dumps(dict(key))
        self.ask(table=table, key=text)

    @staticmethod
    def headline_of(facts: Facts) -> str:
        """See :class:`Page`."""
        number, table = facts["history_changes"], facts["history_table"]
        if number is None:
            why = f"no change of {visible(table)} has a key" if table else _no_table(facts)
            return f"No row to follow: {why}"
        row = f"{visible(table)} {visible(facts['history_key'], 80)}"
        if not number:
            return f"{row}: no changes in this capture"
        phrases = [f"{row}: {plural(number, 'change')}"]
        if facts["history_first"] is not None:
            operation, at = facts["history_first"]
            what = "inserted" if operation in (Operation.INSERT, Operation.REFRESH) else "first change"
            phrases += [f"{what}{_at(at)}"]
        if facts["history_last"] is not None and facts["history_last"] != facts["history_first"]:
            operation, at = facts["history_last"]
            gone = operation in (Operation.DELETE, Operation.TRUNCATE)
            phrases += [f"{'now deleted' if gone else 'last change'}{_at(at)}"]
        if facts["history_taken_back"]:
            phrases += [f"{count(facts['history_taken_back'])} rolled back or undone"]
        return ", ".join(phrases)

    @staticmethod
    def tone_of(facts: Facts) -> Tone:
        """See :class:`Page`."""
        return tone_for(False, facts["history_changes"] is None)

    @panel("Summary")
    def overview(self, answer: Answer) -> None:
        """The row; or why there is none, if rows have no key."""
        row = self.history
        table = self.chosen.table if self.chosen else None
        self.begin(answer, {"history_table": table, **row_history.history_facts(row), **row_history.ends_facts(row)})
        answer.note(*self.notes)
        if row is not None:
            self.put_which(answer, row)
        elif not self.notes:
            answer.note(f"No row has a history: {_no_table(self.summary)}.")

    @panel("Changes")
    def changes(self, answer: Answer) -> None:
        """Every change in log order, including those that were rolled back or undone."""
        if self.history is not None:
            self.put_changes(answer, self.history)

    @panel("Old and new values")
    def values(self, answer: Answer) -> None:
        """The old and the new value of each column in a change."""
        if self.history is None or not self.history.changes:
            return
        headings = "at; operation; outcome; column; old; new; transaction_id; position; file; offset"
        answer.table(row_history.value_rows(self.history.shown), headings)
        self._limit(answer)

    @panel("Row after each change")
    def states(self, answer: Answer) -> None:
        """The values of the row after each change that was not undone; a dash is an unknown value."""
        if self.history is None or not self.history.changes:
            return
        rows, columns = row_history.state_rows(self.history.shown)
        headings = {"at": "time", "operation": "operation", **columns, "position": "position"}
        answer.table(rows, headings, none="Every change of the row was rolled back or undone.", by_heading=True)
        self._limit(answer)

    def _limit(self, answer: Answer) -> None:
        assert self.history is not None
        if self.history.changes > len(self.history.shown):
            answer.note(f"Of the first {count(len(self.history.shown))} of {count(self.history.changes)} changes.")


def _reconciled(facts: Facts) -> str:
    same = facts["reconcile_same"]
    words = {"missing": "missing in the target", "extra": "extra in the target", "different": "different"}
    numbers = {name: facts[f"reconcile_{name}"] for name in (*words, "late")}
    reasons = {name: facts.get(f"reconcile_{name}_by_reason") for name in words}
    why = {name: f": {tally_words(counts, name)}" for name, counts in reasons.items() if counts}
    wrong = [f"{count(numbers[name])} {words[name]}{why.get(name, '')}" for name in words if numbers[name]]
    late = f"; {count(numbers['late'])} late" if numbers["late"] else ""
    if not wrong:
        if same:
            return f"All {plural(same, 'change')} equal in both captures{late}"
        if without := facts.get("reconcile_without_key"):
            return f"Nothing compared: {plural(without, 'change')} without a key; --infer-keys infers keys"
        return "No changes to compare"
    first, _, rest = wrong[0].partition(" ")
    wrong[0] = f"{first} {'change' if first == '1' else 'changes'} {rest}"
    return f"{'; '.join(wrong)}; {count(same)} equal{late}"


def _no_table(facts: Facts) -> str:
    return "no change names a table" if facts.get("changes") else "there are no changes"


def _at(time: str | None) -> str:
    return "" if time is None else f" at {to_the_second(datetime.fromisoformat(time))}"
