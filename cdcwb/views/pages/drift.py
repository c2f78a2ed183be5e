"""The page about schema drift: versions of tables, their differences, and compatibility of readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from cdcwb.analysis import drift as ask
from cdcwb.analysis.drift import drift, steps_between
from cdcwb.analysis.summary_text import Tone
from cdcwb.analysis.versions import side_by_side
from cdcwb.charts import drift as charts
from cdcwb.model import Severity
from cdcwb.report.answer import Answer, headings
from cdcwb.views.pages.page import Facts, Page, panel, tone_for
from cdcwb.words import count, joined, plural, tally, to_the_second, visible

if TYPE_CHECKING:
    from cdcwb.report.opening import OpenedCapture


_STEPS: Final = 12
"""Maximum number of steps that are shown column by column."""
_VERSIONS: Final = (
    "table; number: version; table_version: name; changes; columns; origin: known from; first_position"
    "; first_at: first change; last_at: last"
)


class Drift(Page):
    """Versions of tables, and the steps between them.

    ``table``: the table whose steps are shown column by column (empty: all). ``old_version``, ``new_version``: compare
    these two; both empty: every step between consecutive versions. See :func:`cdcwb.analysis.drift.chosen`.
    """

    title: ClassVar[str] = "Schema drift"
    notebook: ClassVar[str] = "schema_drift"
    images: ClassVar[bool] = True

    def __init__(self, opened: OpenedCapture, table: str = "", old_version: str = "", new_version: str = "") -> None:
        super().__init__(opened)
        self.drift = drift(self.capture)
        named, self.pair = ask.chosen(self.drift.versions, table, old_version, new_version)
        self.steps = [step for step in self.drift.steps if step.new.table in named]
        if self.pair:
            self.steps = steps_between(self.capture, self.drift, *self.pair)

    def answered_by(self) -> Mapping[str, Any]:
        """See :class:`Page`."""
        versions = [[v.table, v.table_version, v.changes, v.first_position] for v in self.drift.versions]
        without = [[row["table"], row["events"]] for row in self.drift.without_version]
        return {"versions": versions, "rows_without_version": without}

    @staticmethod
    def headline_of(facts: Facts) -> str:
        """See :class:`Page`."""
        rules, details = facts["drift_findings_by_rule"], facts["drift_details"]
        lost = sum(rows for _, rows in facts["rows_without_version"])
        without = f"; {plural(lost, 'row')} without a table version" if lost else ""
        if not rules:
            tables = len({table for table, *_ in facts["versions"]})
            if not tables:
                return f"No table is described, so nothing shows schema changes{without}"
            return f"No schema change in {plural(tables, 'table')}{without}"
        phrases = [plural(number, *_rule_words(rule)) for rule, number in rules.items()]
        first = "" if sum(rules.values()) == 1 else "first "
        return f"{joined(phrases)}: {first}{_finding(*details[0])}{without}"

    @staticmethod
    def tone_of(facts: Facts) -> Tone:
        """See :class:`Page`."""
        found = facts["drift_findings_by_severity"]
        return tone_for(found.get(Severity.ERROR), found.get(Severity.WARNING) or facts["rows_without_version"])

    @panel("Summary")
    def overview(self, answer: Answer) -> None:
        """The numbers of versions and findings, and the limits of the page."""
        versions, findings, without = self.drift.versions, self.drift.findings, self.drift.without_version
        changes = ask.schema_changes(self.drift)
        several = Counter(version.table for version in versions)
        changing = sum(number > 1 for number in several.values())
        unused = sum(not version.changes for version in versions)
        details = [[f.rule, f.table, f.column, f.old, f.new, f.first_position, f.first_at] for f in findings[:100]]
        facts: dict[str, Any] = {"drift_findings": [[f.rule, f.table, f.column, f.first_position] for f in findings]}
        facts["schema_changes"] = [
            [step.new.table, ask.difference_words(step), step.differences[0].first_position] for step in changes
        ]
        facts["drift_findings_by_rule"] = dict(Counter(str(finding.rule) for finding in findings).most_common())
        by_severity = dict(Counter(str(finding.severity) for finding in findings))
        self.begin(answer, facts | {"drift_details": details, "drift_findings_by_severity": by_severity})
        changed = {step.new.table for step in changes}
        lacking = count(sum(row["events"] for row in without))
        where = f"in {plural(len(without), 'table')}" if without else "each row has one"
        answer.cards(
            [
                ("tables", count(len(several)), f"{count(changing)} with more than one version"),
                ("schema changes", count(len(changes)), f"in {plural(len(changed), 'table')}"),
                ("versions", count(len(versions)), f"{count(unused)} of them without a row"),
                ("findings", count(len(findings)), tally(by_severity)),
                ("rows without a version", lacking, where),
            ]
        )
        inferred = sum(version.origin == "inferred" for version in versions)
        if inferred and inferred == len(versions):
            answer.note(
                "The source does not describe its tables: a version is the set of columns that rows and keys name."
            )
        elif inferred:
            answer.note(f"{plural(inferred, 'version')} of {count(len(versions))} inferred from rows.")
        if not versions:
            answer.note("No table has a version: nothing in the capture shows which columns there are.")
        if several and not changing:
            answer.note("No table has more than one version.")
        if not findings:
            answer.note("No drift: no version differs from the preceding one.")

    @panel("Versions over time")
    def versions(self, answer: Answer) -> None:
        """A bar for every version from its first change to its last, and a table."""
        lanes = answer.linked(ask.lane_rows(self.drift))
        figure = charts.version_lanes(lanes)
        answer.chart(figure, lanes, _VERSIONS + "; change: change of schema")
        drawn = figure.layout.meta
        if drawn["bars"] + drawn["without_rows"] < drawn["versions"]:
            some = f"{count(drawn['tables'])} of {plural(drawn['all_tables'], 'table')}"
            answer.note(f"{count(drawn['bars'])} of {plural(drawn['versions'], 'bar')}, of {some}.")
        if drawn["on_positions"]:
            on_positions = plural(drawn["on_positions"], "version")
            answer.note(f"{on_positions} without the time of a row: on the axis of log positions.")
        if drawn["without_rows"]:
            without = plural(drawn["without_rows"], "version")
            answer.note(f"{without} without a bar: no row with a position has it.")
        for name, turns in self.drift.mixed:
            answer.note(f"{name}: {count(turns)} times rows of an older version follow rows of a newer one.")
        rows = ask.version_rows(self.drift.versions)
        answer.table(rows[:200], _VERSIONS, total=len(rows), none="There are no versions.")
        answer.record({"versions": self.answered_by()["versions"]})
        answer.record({"versions_mixed": [[name, turns] for name, turns in self.drift.mixed]})

    @panel("Findings")
    def findings(self, answer: Answer) -> None:
        """Differences between versions, worst first."""
        heads = "severity; rule; table; column; old; new; first_position; first_at: first time; evidence"
        rows = [{name: getattr(finding, name) for name in headings(heads)} for finding in self.drift.findings[:200]]
        rows = [row | {"rule": row["rule"].replace("_", " ")} for row in rows]
        answer.table(rows, heads, total=len(self.drift.findings), none="No findings.")

    @panel("Column by column")
    def differences(self, answer: Answer) -> None:
        """The columns of two versions, for each step."""
        shown = [step for step in self.steps if step.differences or self.pair]
        heads = "old_place: ordinal; old_name: old column; old_kind: type; new_place: ordinal now"
        heads += "; new_name: new column; new_kind: type now; differs: differs in"
        for step in shown[:_STEPS]:
            sides = list(side_by_side(step.old.columns, step.new.columns, step.differences))
            both = [side for side in sides if side["differs"] or len(sides) <= 80][:200]
            answer.note(f"{ask.step_title(step)}:")
            answer.table(both, heads, total=len(sides), none="Neither has a column.")
        if len(shown) > _STEPS:
            number = plural(len(shown), "step")
            answer.note(f"{_STEPS} of {number} with a difference shown; the parameters name others.")
        if not shown:
            answer.note(f"No difference in {plural(len(self.steps), 'step')} from a version to the next.")

    @panel("Schema compatibility")
    def compatibility(self, answer: Answer) -> None:
        """Whether a reader of one version can read rows of the other, by the rules of Avro."""
        heads = "table; old: old version; new: new version; fit: compatibility"
        heads += "; evidence: the new reader reads old rows; sentence: the old reader reads new rows"
        fits = ask.reading(self.steps)
        answer.table(fits[:100], heads, total=len(fits), none="There is no step from one version to another.")
        answer.record({"compatibility": [[row["table"], row["old"], row["new"], row["fit"]] for row in fits]})

    @panel("Rows without a version")
    def without_version(self, answer: Answer) -> None:
        """Rows of unknown table version."""
        heads = "table; events: rows; position: first position; file; offset"
        rows = self.drift.without_version
        answer.table(rows, heads, none="Every row has a version that is known.")
        answer.record({"rows_without_version": self.answered_by()["rows_without_version"]})


_RULES: Final = {
    "column_retyped": ("column type changed", "column types changed"),
    "columns_reordered": ("column order changed", "column orders changed"),
    "nullability_changed": ("nullability changed", "nullabilities changed"),
}


def _rule_words(rule: str) -> tuple[str, str]:
    """What a rule found, for one difference and for several: ``column added``, ``columns added``."""
    what, _, done = rule.partition("_")
    return _RULES.get(rule) or (f"{what} {done}", f"{what}s {done}")


def _finding(rule: str, table: str, column: str | None, old: str | None, new: str | None, *where: str | None) -> str:
    position, at = where
    name = f"{table}.{old if rule == 'column_renamed' else column}" if column else table
    known = {"column_renamed", "column_retyped", "column_resized"}
    text = visible(name)
    if rule in known and old and new:
        text += f" → {visible(new)}" if rule == "column_renamed" else f" ({visible(old)} → {visible(new)})"
    if at is not None:
        return f"{text}, at {to_the_second(datetime.fromisoformat(at))}"
    return text if position is None else f"{text}, at position {visible(position)}"
