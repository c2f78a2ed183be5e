"""Named facts in the outputs of a notebook, so that a test, the index page or a script reads numbers instead of
text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

from cdcwb.analysis.summary_text import Tone
from cdcwb.model import Operation, Severity
from cdcwb.words import count, joined, plural, rounded, tally, to_the_second, visible

__all__ = [
    "KINDS",
    "MIME",
    "declared_facts",
    "flat",
    "headline",
    "is_answered",
    "monitored",
    "read_facts",
    "record",
    "stored",
    "tone",
]


MIME: Final = "application/vnd.cdcwb.facts+json"
KINDS: Final = {
    "number": "a number",
    "text": "a text",
    "truth": "true or false",
    "list": "a list",
    "counts": "counts by name",
    "values": "values by name",
}
"""The kinds of facts; any fact may be null."""

_EXACT: Final = 1 << 53
_ALIASES: Final = {"open_transactions": "transactions_open"}
"""The names of facts for monitoring, and other names under which notebooks may record them."""


def record(facts: Mapping[str, Any]) -> None:
    """Store facts in the output of the notebook cell that runs now.

    Values may be whatever JSON holds, times (stored as ISO 8601) and missing values of any library (stored as null).
    Numbers that a browser would round (from 2^53 on) are stored as text.
    """
    from IPython.display import display

    display({MIME: stored(facts), "text/plain": ""}, raw=True)  # text: nbconvert warns without


def stored(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts in the form in which :func:`record` stores them."""
    return {str(name): _plain(value) for name, value in facts.items()}


def read_facts(notebook: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """All facts that an executed notebook (a file, or its contents) recorded, in order.

    Several panels may record the same fact. Raises ValueError if their values differ.
    """
    content: Any = notebook
    if isinstance(notebook, str | Path):
        content = json.loads(Path(notebook).read_text(encoding="utf-8"))
    facts: dict[str, Any] = {}
    for cell in content["cells"]:
        for output in cell.get("outputs", ()):
            for name, value in output.get("data", {}).get(MIME, {}).items():
                if facts.setdefault(name, value) != value:
                    raise ValueError(f"the fact '{name}' has two values: {facts[name]!r} and {value!r}")
    return facts


def declared_facts(notebook: Path) -> dict[str, str]:
    """The facts that a notebook records, under their names for monitoring, with their kinds (:data:`KINDS`).

    The metadata ``cdcwb.facts`` of the notebook declares them: names separated by blanks, for each kind.
    """
    content = json.loads(notebook.read_text(encoding="utf-8"))
    declared: dict[str, str] = content["metadata"].get("cdcwb", {}).get("facts", {})
    return monitored({name: kind for kind, names in declared.items() for name in names.split()})


def monitored(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts under their names for monitoring; others unchanged."""
    named = {name: facts[other] for name, other in _ALIASES.items() if name not in facts and other in facts}
    return {**facts, **named}


def flat(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts in one level: counts by name become separate facts (``changes_by_operation.INSERT``), lists stay."""
    level: dict[str, Any] = {}
    for name, value in facts.items():
        inner = flat({f"{name}.{key}": item for key, item in value.items()}) if isinstance(value, Mapping) else None
        level |= {name: value} if inner is None else inner
    return level


def _plain(value: Any) -> Any:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # pandas.NA, NaT
        return None
    if isinstance(value, str | bool):
        return value
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy
        return _plain(value.tolist())
    if isinstance(value, int):
        return value if abs(value) < _EXACT else str(value)
    number = float(value)
    return None if math.isnan(number) else number


# --- headlines --------------------------------------------------------------------------------------------------------

Facts = Mapping[str, Any]


def headline(notebook: str, facts: Facts) -> str:
    """The answer of a notebook (its name, with or without its folder and number) in one sentence without a full stop.
    The verdict on the capture's health if the notebook has no answer of its own, or lacks the facts for it."""
    return _answer(notebook, facts) or str(facts.get("verdict", "made")).removesuffix(".")


def is_answered(notebook: str, facts: Facts) -> bool:
    """Whether a notebook has an answer of its own, other than the verdict on the capture's health."""
    return _answer(notebook, facts) is not None


def tone(notebook: str, facts: Facts) -> str:
    """The tone of the headline (:class:`~cdcwb.analysis.summary_text.Tone`): BAD if something is wrong, WARNING if
    something is incomplete, unknown or has changed. For a notebook without an answer of its own, that of the capture's
    health."""
    judge = _TONES.get(_name(notebook))
    try:
        if judge is not None:
            wrong, doubtful = judge(facts)
            return Tone.BAD if wrong else Tone.WARNING if doubtful else Tone.GOOD
    except KeyError:  # as in _answer
        pass
    return str(facts.get("tone", ""))


def _name(notebook: str) -> str:
    """The name of a notebook without its folder and number."""
    return re.sub(r"^(.*/)?\d+_", "", notebook)


def _answer(notebook: str, facts: Facts) -> str | None:
    answer = _ANSWERS.get(_name(notebook))
    try:
        return None if answer is None else answer(facts)
    except KeyError:  # a notebook of the user with the name of one of cdcwb's
        return None


def _transactions(facts: Facts) -> str:
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
    return "; ".join([*parts, _longest(facts["longest_transactions"])])


def _incomplete(facts: Facts) -> int:
    """The number of ended transactions with missing events."""
    known = ("transactions_complete", "transactions_unknown", "transactions_open")
    return int(facts["transactions"] - sum(facts[name] for name in known))


def _longest(ranked: list[list[Any]]) -> str:
    if not ranked:
        return "no duration is known"
    name, lasted_us = ranked[0]
    return f"longest {rounded(lasted_us)} (transaction {visible(name, 80)})"


def _change_masks(facts: Facts) -> str:
    updates, unknown = facts["updates"], facts["updates_not_told"]
    if not updates:
        return "No updates, so no change masks and no changed columns"
    of_tables = f"{plural(updates, 'update')} of {plural(facts['updates_tables'], 'table')}"
    if updates == unknown:
        return f"{of_tables}: neither masks nor before images show which columns changed"
    columns, idle = facts["columns_changed"], facts["updates_idle"]
    changed = f"{'changes' if updates == 1 else 'change'} {plural(columns, 'column')}"
    phrases = [f"{of_tables} {changed}", *([plural(idle, "no-op update")] if idle else [])]
    if unknown:
        phrases.append(f"changed columns unknown for {plural(unknown, 'update')}")
    if facts["mask_disagreements"]:
        phrases.append(f"{plural(facts['mask_disagreements'], 'mask')} in contradiction to the images")
    return "; ".join(phrases)


_RULES: Final = {
    "column_added": ("column added", "columns added"),
    "column_dropped": ("column dropped", "columns dropped"),
    "column_renamed": ("column renamed", "columns renamed"),
    "column_retyped": ("column type changed", "column types changed"),
    "column_resized": ("column resized", "columns resized"),
    "columns_reordered": ("column order changed", "column orders changed"),
    "key_changed": ("key changed", "keys changed"),
    "nullability_changed": ("nullability changed", "nullabilities changed"),
    "values_misaligned": ("column with values of another", "columns with values of another"),
}


def _schema_drift(facts: Facts) -> str:
    rules, details = facts["drift_findings_by_rule"], facts["drift_details"]
    lost = sum(rows for _, rows in facts["rows_without_version"])
    without = f"; {plural(lost, 'row')} without a table version" if lost else ""
    if not rules:
        tables = len({table for table, *_ in facts["versions"]})
        if not tables:
            return f"No table is described, so nothing shows schema changes{without}"
        return f"No schema change in {plural(tables, 'table')}{without}"
    phrases = [plural(number, *_RULES.get(rule, (rule.replace("_", " "), None))) for rule, number in rules.items()]
    first = "" if sum(rules.values()) == 1 else "first "
    return f"{joined(phrases)}: {first}{_finding(*details[0])}{without}"


def _finding(rule: str, table: str, column: str | None, old: str | None, new: str | None, *where: str | None) -> str:
    position, at = where
    name = f"{table}.{old if rule == 'column_renamed' else column}" if column else table
    known = {"column_renamed", "column_retyped", "column_resized", "values_misaligned"}
    text = visible(name)
    if rule in known and old and new:
        text += f" → {visible(new)}" if rule == "column_renamed" else f" ({visible(old)} → {visible(new)})"
    if at is not None:
        return f"{text}, at {to_the_second(datetime.fromisoformat(at))}"
    return text if position is None else f"{text}, at position {visible(position)}"


def _event_log_xds(facts: Facts) -> str:
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


_DECISIONS: Final = {
    "needs_snapshot": "waiting for a snapshot of their table",
    "overridden": "overridden",
    "no_effect": "without effect",
    "skipped": "skipped",
    "waiting": "not due yet",
    "invalid": "invalid",
}


def _why_none(facts: Facts) -> str:
    from cdcwb.formats import FORMATS, get_format

    changes = plural(facts["decisions_left_out"], "change")
    name = facts["format"]
    if name in FORMATS and not get_format(name).names_keys:
        hint = "give keys=schema.table:column+column or --infer-keys"
        return f"{name} captures name no key columns; {hint}"
    return f"{changes} left out"


def _replay_and_reconcile(facts: Facts) -> str:
    if facts["reconcile_same"] is not None:
        return _reconciled(facts)
    rows, table = facts["replay_rows"], facts["replay_table"]
    if rows is None:
        why = "no change names a key" if table else "there are no changes"
        return f"Nothing to replay: {why}"
    phrases = [f"{visible(table)} has {plural(rows, 'row')} after replay"]
    if facts["replay_partial"]:
        phrases.append(f"{count(facts['replay_partial'])} of them partly known")
    text = joined(phrases)
    if facts["history_changes"]:
        text += f"; row {visible(facts['history_key'], 80)} has {plural(facts['history_changes'], 'change')}"
    return f"{text}; no second capture to compare with"


def _reconciled(facts: Facts) -> str:
    same = facts["reconcile_same"]
    words = {"missing": "missing in the target", "extra": "extra in the target", "different": "different"}
    numbers = {name: facts[f"reconcile_{name}"] for name in (*words, "late")}
    wrong = [f"{count(numbers[name])} {words[name]}{_why(name, facts)}" for name in words if numbers[name]]
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


def _why(what: str, facts: Facts) -> str:
    """The reasons of missing or extra changes, in words."""
    from cdcwb.analysis.value_comparison import tally_words

    counts = facts.get(f"reconcile_{what}_by_reason")
    return f": {tally_words(counts, what)}" if counts else ""


def _continuity(facts: Facts) -> str:
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


def _history(facts: Facts) -> str:
    number, table = facts["history_changes"], facts["history_table"]
    if number is None:
        return f"No row to follow: {f'no change of {visible(table)} has a key' if table else 'there are no changes'}"
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


def _at(time: str | None) -> str:
    return "" if time is None else f" at {to_the_second(datetime.fromisoformat(time))}"


def _lost(facts: Facts) -> int:
    """The number of changes that are missing or extra without a reason."""
    known = [facts.get(f"reconcile_{what}_by_reason") for what in ("missing", "extra")]
    return sum(counts.get("unexplained", 0) for counts in known if counts)


_ANSWERS: Final[dict[str, Callable[[Facts], str]]] = {
    "transactions": _transactions,
    "change_masks": _change_masks,
    "schema_drift": _schema_drift,
    "event_log_xds": _event_log_xds,
    "replay_and_reconcile": _replay_and_reconcile,
    "continuity": _continuity,
    "history": _history,
}

_TONES: Final[dict[str, Callable[[Facts], tuple[Any, Any]]]] = {
    "transactions": lambda facts: (0, facts["transactions"] and (facts["transactions_open"] or _incomplete(facts) > 0)),
    "change_masks": lambda facts: (facts["mask_disagreements"], facts["updates_not_told"]),
    "schema_drift": lambda facts: (
        facts["drift_findings_by_severity"].get(Severity.ERROR),
        facts["drift_findings_by_severity"].get(Severity.WARNING) or facts["rows_without_version"],
    ),
    "event_log_xds": lambda facts: (
        facts.get("decisions_invalid"),
        facts.get("decisions_needs_snapshot") or facts.get("decisions_left_out"),
    ),
    "replay_and_reconcile": lambda facts: (
        facts["reconcile_different"] or _lost(facts),
        any(facts[f"reconcile_{name}"] for name in ("missing", "extra", "late")) or facts["replay_partial"],
    ),
    "continuity": lambda facts: (
        facts["continuity_breaks"] > facts["continuity_kinds"].get("repeat", 0) or facts["counter_contradictions"],
        facts["continuity_breaks"] or facts["continuity_checked"] < facts["continuity_tables"],
    ),
    "history": lambda facts: (0, facts["history_changes"] is None),
}
"""For each notebook: whether its facts show an error, and whether something is incomplete or has changed."""
