"""The facts of :func:`cdcwb.analysis.summary.summarize` as text: a page, and the health of a capture in two sentences.
Captured text in the page is escaped."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from cdcwb.analysis.change_counts import NOT_GIVEN
from cdcwb.model import Completeness, Kind, OffsetUnit, Operation, Severity
from cdcwb.words import count, duration, joined, moment, plural, size, tally, to_the_second, visible


class Tone(StrEnum):
    """The severity of the verdict."""

    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Health:
    """``what`` describes the capture, ``verdict`` states whether it is healthy and, if not, why not."""

    tone: Tone
    what: str
    verdict: str


def health(facts: Mapping[str, Any]) -> Health:
    """The health of a capture from the facts of :func:`cdcwb.analysis.summary.summarize`.

    BAD: unparsed bytes, an error, or bytes unaccounted for. WARNING: everything is parsed, but something is missing or
    contradictory. GOOD: otherwise. File names in the sentences come from outside: escape them.
    """
    unread = facts["malformed_bytes"] or facts["malformed_rows"] or facts["ledger"] not in ("closes", None)
    if unread or facts["problems_by_severity"].get(Severity.ERROR):
        tone = Tone.BAD
    else:
        tone = Tone.GOOD if facts["healthy"] else Tone.WARNING
    return Health(tone, _what(facts), verdict(dict(facts)))


def _what(facts: Mapping[str, Any]) -> str:
    article = "An" if facts["format"][0] in "aeiou" else "A"
    text = f"{article} {facts['format']} capture of "
    if is_table(facts["files"]):
        text += f"{plural(facts['events'], 'row')} with "
    else:
        text += f"{plural(len(facts['files']), 'file')} ({size(facts['bytes'])}) with "
    loaded = facts["changes_by_operation"].get(Operation.REFRESH, 0)
    text += plural(facts["changes"] - loaded, "change")
    if facts["tables"]:
        text += f" to {plural(len(facts['tables']), 'table')}"
    if facts["transactions"] or not facts["changes"]:
        text += f" in {plural(facts['transactions'], 'transaction')}"
    if loaded:
        text += f" and {plural(loaded, 'row')} of a full load"
    first, last = facts["first_time"], facts["last_time"]
    if first is not None and last is not None:
        begin, end = (to_the_second(datetime.fromisoformat(time)) for time in (first, last))
        zone = end.rpartition(" ")[2]
        text += f", from {begin.removesuffix(f' {zone}')} to {end}" if begin != end else f", at {begin}"
    return text + "."


_MOST_FILES: Final = 12
_MOST_TABLES: Final = 20


def verdict(facts: dict[str, Any]) -> str:
    """A sentence on whether the capture is healthy and, if not, what is wrong with it."""
    severities = facts["problems_by_severity"]
    worse = (Severity.ERROR.value, Severity.WARNING.value)
    faults = _mostly_malformed(facts["files"])
    faults += [plural(number, severity) for severity in worse if (number := severities.get(severity))]
    for unit in ("byte", "row"):
        if malformed := facts[f"malformed_{unit}s"]:
            faults.append(f"{_share(malformed, facts[f'{unit}s'], unit)} that are not a record")
    if number := facts.get("unassigned_errors", 0):
        elsewhere = f"{plural(number, 'error')} elsewhere that {'names' if number == 1 else 'name'} no table"
        faults.append(f"{elsewhere}, where records of these could be")
    of_all = f"of {plural(facts['transactions'], 'transaction')}"
    faults += [f"{count(n)} {of_all} {what}" for what in ("open", "incomplete") if (n := facts[f"{what}_transactions"])]
    if facts["ledger"] not in ("closes", None):
        faults.append("bytes unaccounted for")
    counters, positions, continuity = (facts.get(check) or {} for check in ("counters", "positions", "continuity"))
    if counters.get("contradictions"):
        faults.append(f"{plural(counters['contradictions'], 'contradiction')} of counters")
    if positions.get("contradictions"):
        faults.append(f"{plural(positions['contradictions'], 'position')} out of order")
    if continuity.get("contradictions"):
        kinds = tally(continuity["kinds"])
        faults.append(f"{plural(continuity['breaks'], 'break')} in the continuity of rows ({kinds})")
    if not facts["healthy"]:
        return f"Issues found: {joined(faults)}."
    units = list(dict.fromkeys(entry["unit"] for entry in facts["files"])) or [facts["unit"]]
    checks = [f"every {joined(units)}"] if facts["ledger"] else []
    checks += ["counters"] if counters else []
    checks += ["positions"] if positions else []
    checks += [continuity["checked_text"]] if continuity.get("checked") else []
    parts = []
    if facts["transactions"]:
        parts.append(_completeness(facts["transactions"], facts["transactions_by_completeness"]))
    remarks = plural(facts["problems"], "remark")
    parts.append(f"there is nothing worse than {remarks}" if facts["problems"] else "there are no problems")
    passed = f"{plural(len(checks), 'check')} passed: {', '.join(checks)}" if checks else ""
    if continuity.get("tables") and not continuity["checked"]:
        passed += f"{', ' if checks else ''}not continuity (no table has a key)"
    return f"Healthy: {passed}{'; ' if passed else ''}{joined(parts)}."


def _mostly_malformed(files: list[dict[str, Any]]) -> list[str]:
    """A sentence about files of which more than half is unparsed; empty without such files."""
    wrong = []
    for entry in (entry for entry in files if entry.get("malformed")):
        total = entry["size"] if entry["rows"] is None else entry["rows"]
        if total and 2 * entry["malformed"] > total:
            share = f"{100 * entry['malformed'] / total:.1f} % of its {entry['unit']}s"
            wrong.append(f"{visible(Path(entry['file']).name)} is mostly malformed ({share})")
    if len(wrong) > 1:
        wrong = [f"{plural(len(wrong), 'file')} that are mostly malformed, the first: {wrong[0]}"]
    return wrong


def is_table(files: list[dict[str, Any]]) -> bool:
    """Whether a capture is a table of rows (a DataFrame) without files."""
    return all(entry.get("shape") == "rows" for entry in files)


def _completeness(transactions: int, numbers: dict[str, int]) -> str:
    complete = numbers.get(Completeness.COMPLETE, 0)
    if numbers.get(Completeness.UNKNOWN, 0) == transactions:
        what = "the transaction is" if transactions == 1 else f"the {count(transactions)} transactions are"
        return f"whether {what} complete is not known"
    if complete < transactions:
        return f"{count(complete)} of {plural(transactions, 'transaction')} {'is' if complete == 1 else 'are'} complete"
    return "the transaction is complete" if complete == 1 else f"all {count(complete)} transactions are complete"


def summary_lines(facts: dict[str, Any]) -> list[str]:
    """The complete summary, one text for each line, without colours or trailing blanks."""
    rows = [
        ("format", facts["format"]),
        ("files", _files(facts["files"])),
        ("bytes", _bytes(facts)),
        ("rows", _rows(facts)),
        ("accounted for", _accounted(facts)),
        ("events", f"{count(facts['events'])}: {tally(facts['events_by_kind'])}" if facts["events"] else "none"),
        ("record types", tally(facts["events_by_record_type"])),
        ("changes", _changes(facts)),
        ("transactions", _transactions(facts)),
        ("time", _time(facts["first_time"], facts["last_time"])),
        ("counters", _contradictions(facts.get("counters"), "no contradictions")),
        ("order", _order(facts.get("positions"))),
        ("continuity", _contradictions(facts.get("continuity"), "no breaks")),
        ("changed_at", facts["changed_at"]),
        ("positions", _span(facts["first_position"], facts["last_position"])),
        ("restart position", facts["restart_position"]),
        ("highest commit", facts["highest_commit"]),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [verdict(facts), ""]
    lines += [f"{name:<{width}}  {text}" for name, text in rows if text is not None]
    lines += _section("tables read" if is_table(facts["files"]) else "files", _file_lines(facts["files"]))
    lines += _section(f"tables ({count(len(facts['tables']))})", _table_lines(facts["tables"]))
    lines += _section("detected", _detected_lines(facts["detected"]))
    lines += _section("contradictions", _contradiction_lines(facts))
    lines += _section(f"problems ({count(facts['problems'])})", _problem_lines(facts["problems_by_code"]))
    return [visible(line, sys.maxsize) for line in lines]  # names of record types and operations come from outside, too


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", title, *(f"  {line}" for line in lines)] if lines else []


def _share(part: int, total: int, unit: str) -> str:
    """``120 bytes (0.3 %)``; a tiny share is shown as below the smallest one."""
    if not total:
        return plural(part, unit)
    percent = 100 * part / total
    return f"{plural(part, unit)} ({'under 0.1' if 0 < percent < 0.1 else f'{percent:.1f}'} %)"


def _files(files: list[dict[str, Any]]) -> str | None:
    if is_table(files):
        return None
    shapes = Counter(" in ".join(map(str, filter(None, (e["shape"], e["compression"])))) for e in files)
    return f"{count(len(files))} ({tally(shapes) if len(shapes) > 1 else visible(''.join(shapes))})"


def _bytes(facts: dict[str, Any]) -> str | None:
    """The bytes of files by outcome of decoding; for files with row offsets only their number. None for tables without
    files."""
    about = f" ({size(facts['bytes'])})" if facts["bytes"] >= 1000 else ""
    if facts["unit"] == OffsetUnit.ROW:
        return None if is_table(facts["files"]) else f"{count(facts['bytes'])}{about}"
    parts = [f"records {count(facts['record_bytes'])}"]
    parts += [f"{name} {count(facts[f'{name}_bytes'])}" for name in (Kind.FILLER.value, Kind.MALFORMED.value)]
    return f"{count(facts['bytes'])}{about}: {', '.join(parts)}"


def _rows(facts: dict[str, Any]) -> str | None:
    """The rows of files with row offsets, and their events; None without such files, or if only a part of the capture
    is shown."""
    files = [entry for entry in facts["files"] if entry["unit"] == OffsetUnit.ROW]
    if not files or facts["ledger"] is None:
        return None
    rows, events = facts["rows"], sum(entry["events"] for entry in files)
    if rows == events:
        return f"{count(rows)}, as many events" if rows else "none"
    return f"{count(rows)}, but {plural(events, 'event')}"


def _changes(facts: dict[str, Any]) -> str:
    if not facts["changes"]:
        return "none"
    outcomes = f"; {tally(facts['changes_by_outcome'])}" if facts["changes_by_outcome"] else ""
    outside_transactions = facts["changes"] - sum(facts["changes_by_outcome"].values())
    outside = f"; {count(outside_transactions)} in no transaction" if outside_transactions else ""
    return f"{count(facts['changes'])}: {operations(facts)}{outcomes}{outside}"


def operations(facts: Mapping[str, Any]) -> str:
    """The changes of a capture, or of one of its tables, by operation."""
    unknown = facts["changes"] - sum(facts["changes_by_operation"].values())
    return tally({**facts["changes_by_operation"], **({NOT_GIVEN: unknown} if unknown else {})})


def _transactions(facts: dict[str, Any]) -> str:
    if not facts["transactions"]:
        return "none"
    states = facts["transactions_by_completeness"]
    names = {Completeness.UNKNOWN.value: "completeness unknown"}
    completeness = tally({names.get(state, state): number for state, number in states.items()})
    return f"{count(facts['transactions'])}: {tally(facts['transactions_by_outcome'])}; {completeness}"


def _time(first: str | None, last: str | None) -> str | None:
    if first is None or last is None:
        return None
    begin, end = datetime.fromisoformat(first), datetime.fromisoformat(last)
    if begin == end:
        return moment(begin)
    return f"{moment(begin)} to {moment(end)} ({duration((end - begin) // timedelta(microseconds=1))})"


def _span(first: str | None, last: str | None) -> str | None:
    if first is None or last is None:
        return None
    return visible(first) if first == last else f"{visible(first)} to {visible(last)}"


def _file_lines(files: list[dict[str, Any]]) -> list[str]:
    """A line for each file that fits on the page; files with bytes unaccounted for first."""
    in_doubt = sorted(files, key=lambda entry: entry["ledger"] in ("closes", None))
    shown = in_doubt[:_MOST_FILES]
    lines = [_file_line(entry) for entry in sorted(shown, key=lambda entry: entry["file_index"])]
    return [*lines, *_more(len(files) - len(shown), "file")]


def _accounted(facts: dict[str, Any]) -> str:
    ledger = facts["ledger"]
    if ledger is None:
        return "not counted for a part of a capture"
    units = dict.fromkeys(entry["unit"] for entry in facts["files"])
    return (
        f"every {joined(list(units) or [facts['unit']])}"
        if ledger == "closes"
        else visible(f"not all: {ledger.removeprefix('open: ')}", 400)
    )


def _file_line(entry: dict[str, Any]) -> str:
    ledger = f", {'all accounted for' if entry['ledger'] == 'closes' else entry['ledger']}" if entry["ledger"] else ""
    length = "" if is_table([entry]) else f"{plural(entry['size'], 'byte')}, "
    rows = "" if entry["rows"] is None else f"{plural(entry['rows'], 'row')}, "
    return f"{visible(entry['file'], 400)}  {length}{rows}{plural(entry['events'], 'event')}{ledger}"


def _table_lines(tables: list[dict[str, Any]]) -> list[str]:
    """The tables with most changes, by name."""
    shown = sorted(tables, key=lambda table: -table["changes"])[:_MOST_TABLES]
    lines = [
        f"{visible(table['table'])}  {plural(table['versions'], 'version')}, {plural(table['changes'], 'change')}"
        + (f": {operations(table)}" if table["changes"] else "")
        for table in sorted(shown, key=lambda table: str(table["table"]))
    ]
    return [*lines, *_more(len(tables) - len(shown), "table")]


def _detected_lines(rows: Iterable[dict[str, Any]]) -> list[str]:
    lines = []
    for row in rows:
        scope = "" if row["scope"] == "capture" else f"{visible(row['scope'])}: "
        why = "given as an option" if row["overridden"] else visible(row["evidence"], 400)
        lines.append(f"{scope}{row['setting']} = {visible(row['value'])}  ({why})")
    return lines


def _contradictions(check: dict[str, Any] | None, none: str) -> str | None:
    """The result of a check; None if it was not made."""
    if check is None:
        return None
    if "kinds" in check:
        if check["unchecked"]:
            return f"not checked: {check['unchecked']}"
        return f"{tally(check['kinds']) if check['kinds'] else none} ({check['checked_text']})"
    number = check["contradictions"]
    found = plural(number, "contradiction") if number else none
    records = f"{plural(check['numbers'], 'numbered record')}" if check.get("numbers") else ""
    of_events = f"{plural(check['transactions'], 'transaction')} with numbered events" if check["transactions"] else ""
    return f"{found} in {joined([*filter(None, (of_events, records))])}"


def _order(check: dict[str, Any] | None) -> str | None:
    if check is None:
        return None
    found = plural(check["contradictions"], "position") if check["contradictions"] else "no position"
    return f"{found} out of order in {plural(check['records'], 'record')}"


def _contradiction_lines(facts: dict[str, Any]) -> list[str]:
    """The first contradictions of counters and positions, and the first breaks of rows."""
    lines = []
    for check, name in (("counters", "contradictions"), ("positions", "contradictions"), ("continuity", "breaks")):
        found = facts.get(check) or {"places": [], name: 0}
        lines += [visible(place["sentence"], 400) for place in found["places"]]
        lines += _more(found[name] - len(found["places"]), "place")
    return lines


def _problem_lines(codes: Iterable[dict[str, Any]]) -> list[str]:
    """Each code with its number of problems and its first locations."""
    lines = []
    for code in codes:
        lines.append(f"{code['severity']}  {code['code']}: {code['title']}, {count(code['count'])}")
        for location in code["places"]:
            where = ""
            if location["file"] is not None:
                where = f"{visible(location['file'], 400)} at {count(location['offset'] or 0)}: "
            elif location["transaction_id"] is not None:
                where = f"transaction {visible(location['transaction_id'])}: "
            lines.append(f"    {where}{visible(location['sentence'], 400)}")
        lines += [f"    {line}" for line in _more(code["count"] - len(code["places"]), "place")]
    return lines


def _more(number: int, what: str) -> list[str]:
    return [f"… and {plural(number, f'more {what}')}"] if number > 0 else []
