"""What a capture is and whether it is healthy: counted by Spark in a handful of jobs, or in this process where it is
small, and told in a page.

:func:`summarize` gives flat facts for programs (JSON has all its types), :func:`summary_lines` the same for people.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from cdcwb.analysis.grouped import PLACE, BySpark, InProcess, Row, best
from cdcwb.model import Completeness, Kind, OffsetUnit, Outcome, Problem, Severity
from cdcwb.small import Small
from cdcwb.words import plural

if TYPE_CHECKING:
    from cdcwb.capture import Capture

__all__ = ["summarize"]

Facts = dict[str, Any]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ROW_SHAPES: Final = frozenset({"parquet", "avro", "rows"})
"""Shapes of files whose places are rows: what tells the unit of a file that has no event."""

_INCOMPLETE: Final = frozenset({Completeness.NO_BEGIN, Completeness.NO_END, Completeness.GAPS})
_SEVERITIES: Final = [severity.value for severity in (Severity.ERROR, Severity.WARNING, Severity.INFO)]


def summarize(
    capture: Capture | Small, say: Callable[[str], None] = lambda _text: None, *, whole: bool = True
) -> Facts:
    """The facts of a capture, all of JSON's types: counts are int, times ISO 8601 in UTC, positions text; null is
    unknown.

    ``format``, ``committed_only`` (it hands over committed work only: nothing is open) ·
    ``files`` (a list: file, file_index, size, shape, compression, unit, rows, events, malformed, ledger; ``unit`` is
    what its places and ``malformed`` count, ``byte`` or ``row``, ``rows`` null where they are bytes) · ``unit``
    (``row`` where all places are) · ``bytes`` (decompressed), ``rows`` (of files counted in rows) · ``ledger``
    (``closes``, or a sentence that says what is missing; null unless ``whole``) · ``record_bytes``, ``filler_bytes``,
    ``malformed_bytes`` (of files counted in bytes), ``malformed_rows`` · ``events``, ``events_by_kind``,
    ``events_by_record_type`` · ``changes``,
    ``changes_by_operation``, ``changes_by_outcome`` (of those in transactions) · ``transactions``,
    ``transactions_by_outcome``, ``transactions_by_completeness``, ``open_transactions``, ``incomplete_transactions``
    (not open, and yet their begin, their end or events between are missing) · ``first_time``, ``last_time``,
    ``first_position``, ``last_position`` (heartbeats apart) · ``tables`` (a list: table, versions, changes by
    operation) · ``table_versions`` · ``restart_position``, ``highest_commit`` (null where the format has none) ·
    ``changed_at`` (why the times of some records are not known, else null) · ``problems``, ``problems_by_severity``,
    ``problems_by_code`` (a list: severity, code, title, count and the first places: file, offset, length, sentence,
    transaction_id) · ``detected`` (a list of rows) · ``healthy`` (no problem that is more than information, no
    transaction that is open or incomplete, and the ledger is not open).

    ``whole`` is False for a capture that was filtered: its events cannot add up to its files. ``say`` is told what is
    being counted. One Spark job for each table; what is collected grows with files, tables and problem codes only.
    """
    rows = InProcess(capture) if isinstance(capture, Small) else BySpark(capture)
    facts: Facts = {"format": capture.format, "committed_only": capture.committed_only}
    say("counting events")
    facts |= _events(capture.files, rows.events(), whole)
    say("counting changes")
    facts |= _changes(rows.changes(), rows.table_versions())
    say("counting transactions")
    facts |= _transactions(rows.transactions(), facts)
    facts |= {name: capture.facts.get(name) for name in ("restart_position", "highest_commit", "changed_at")}
    say("collecting problems")
    facts |= _problems(rows.problems())
    facts["detected"] = rows.detected()
    sick = any(facts["problems_by_severity"].get(severity) for severity in (Severity.ERROR, Severity.WARNING))
    lacking = facts["open_transactions"] or facts["incomplete_transactions"]
    facts["healthy"] = not sick and not lacking and facts["ledger"] in ("closes", None)
    return facts


def _events(entries: list[dict[str, Any]], rows: list[Row], whole: bool) -> Facts:
    files = _files(entries, rows, whole)
    lengths: Counter[str] = Counter()
    for row in rows:
        if row["offset_unit"] == OffsetUnit.BYTE:
            lengths[row["kind"]] += row["length"]
    filler, malformed = lengths.pop(Kind.FILLER, 0), lengths.pop(Kind.MALFORMED, 0)
    units = {row["offset_unit"] for row in rows} or {entry["unit"] for entry in files}
    malformed_rows = sum(
        row["events"] for row in rows if row["offset_unit"] != OffsetUnit.BYTE and row["kind"] == Kind.MALFORMED
    )
    return {
        "files": files,
        "unit": str(OffsetUnit.ROW if units and OffsetUnit.BYTE not in units else OffsetUnit.BYTE),
        "bytes": sum(entry["size"] for entry in files),
        "rows": sum(entry["rows"] or 0 for entry in files),
        "ledger": _ledger(files) if whole else None,
        "record_bytes": lengths.total(),
        "filler_bytes": filler,
        "malformed_bytes": malformed,
        "malformed_rows": malformed_rows,
        "events": sum(row["events"] for row in rows),
        "events_by_kind": _counts(rows, "kind", "events"),
        "events_by_record_type": _counts(rows, "record_type", "events"),
        "first_time": _time(best(min, rows, "first_time")),
        "last_time": _time(best(max, rows, "last_time")),
        "first_position": best(min, rows, "first_position"),
        "last_position": best(max, rows, "last_position"),
    }


def _files(entries: Iterable[Mapping[str, Any]], rows: list[Row], whole: bool) -> list[Facts]:
    """Each file with its number of events and its ledger: ``closes``, or what is missing from or too much for its size
    in bytes or rows."""
    events: Counter[int] = Counter()
    lengths: Counter[int] = Counter()
    reach: Counter[int] = Counter()
    malformed: Counter[int] = Counter()
    by_rows = {entry["file_index"] for entry in entries if entry["shape"] in _ROW_SHAPES}
    for row in rows:
        events[row["file_index"]] += row["events"]
        lengths[row["file_index"]] += row["length"]
        reach[row["file_index"]] = max(reach[row["file_index"]], row["reach"])
        if row["offset_unit"] != OffsetUnit.BYTE:
            by_rows.add(row["file_index"])
        if row["kind"] == Kind.MALFORMED:
            malformed[row["file_index"]] += row["length"] if row["offset_unit"] == OffsetUnit.BYTE else row["events"]
    files = []
    for entry in entries:
        index = entry["file_index"]
        unit = OffsetUnit.ROW if index in by_rows else OffsetUnit.BYTE
        there = entry["size"]
        if unit is OffsetUnit.ROW:
            there = entry.get("rows")
            if there is None and whole:  # the format does not say: as far as its events reach
                there = reach[index]
        missing = (there or 0) - lengths[index]
        ledger = "closes" if not missing else f"{plural(missing, unit)} in no event"
        if missing < 0:
            ledger = f"{plural(-missing, unit)} too much in its events"
        counted = {"unit": str(unit), "rows": there if unit is OffsetUnit.ROW else None, "events": events[index]}
        counted["malformed"] = malformed[index]
        files.append({**entry, **counted, "ledger": ledger if whole else None})
    return files


def _ledger(files: list[Facts]) -> str:
    """``closes`` when every file's events add up to its size, else the first file where they do not, and how many
    more."""
    wrong = [entry for entry in files if entry["ledger"] != "closes"]
    if not wrong:
        return "closes"
    others = f", and {plural(len(wrong) - 1, 'more file')}" if len(wrong) > 1 else ""
    return f"open: {wrong[0]['file']} has {wrong[0]['ledger']}{others}"


def _changes(rows: list[Row], versions: list[Row]) -> Facts:
    tables: dict[str, Facts] = {}
    for row in [*versions, *rows]:
        if row["table_name"] is not None:
            name = f"{row['schema_name']}.{row['table_name']}" if row["schema_name"] is not None else row["table_name"]
            tables.setdefault(name, {"table": name, "versions": 0, "changes": 0, "changes_by_operation": Counter()})
            if "versions" in row:
                tables[name]["versions"] += row["versions"]
            else:
                tables[name]["changes"] += row["changes"]
                tables[name]["changes_by_operation"][str(row["operation"])] += row["changes"]
    return {
        "changes": sum(row["changes"] for row in rows),
        "changes_by_operation": _counts(rows, "operation", "changes"),
        "changes_by_outcome": _counts(rows, "outcome", "changes"),
        "tables": [
            {**table, "changes_by_operation": dict(table["changes_by_operation"].most_common())}
            for _, table in sorted(tables.items())
        ],
        "table_versions": sum(row["versions"] for row in versions),
    }


def _transactions(rows: list[Row], events: Facts) -> Facts:
    """The times of events grow by those of their transactions: where tables were filtered, begins and commits, which
    alone bear a time in some formats, are not among the events."""
    firsts = [events["first_time"], *(_time(row["first_time"]) for row in rows)]
    lasts = [events["last_time"], *(_time(row["last_time"]) for row in rows)]
    outcomes = _counts(rows, "outcome", "transactions")
    lacking = [row for row in rows if row["outcome"] != Outcome.OPEN and row["completeness"] in _INCOMPLETE]
    return {
        "transactions": sum(row["transactions"] for row in rows),
        "transactions_by_outcome": outcomes,
        "transactions_by_completeness": _counts(rows, "completeness", "transactions"),
        "open_transactions": outcomes.get(Outcome.OPEN, 0),
        "incomplete_transactions": sum(row["transactions"] for row in lacking),
        "first_time": min(filter(None, firsts), default=None),
        "last_time": max(filter(None, lasts), default=None),
    }


def _problems(rows: list[Row]) -> Facts:
    codes: dict[tuple[str, str], Facts] = {}
    for row in sorted(rows, key=lambda row: row["place"]):
        entry = codes.setdefault(
            (row["severity"], row["code"]),
            {
                "severity": row["severity"],
                "code": row["code"],
                "title": _title(row["code"]),
                "count": row["count"],
                "places": [],
            },
        )
        entry["places"].append({name: row[name] for name in PLACE})
    by_code = sorted(
        codes.values(), key=lambda entry: (_SEVERITIES.index(entry["severity"]), -entry["count"], entry["code"])
    )
    return {
        "problems": sum(entry["count"] for entry in by_code),
        "problems_by_severity": _counts(by_code, "severity", "count"),
        "problems_by_code": by_code,
    }


def _title(code: str) -> str:
    return Problem(code).heading if code in list(Problem) else code


def _counts(rows: Iterable[Any], name: str, number: str) -> dict[str, int]:
    """How many there are of each value of ``name``, most first; rows without a value are not counted."""
    counts: Counter[str] = Counter()
    for row in rows:
        if row[name] is not None:
            counts[row[name]] += row[number]
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _time(micros: int | None) -> str | None:
    """Microseconds since 1970 as ``2025-03-23T10:57:19.000000Z``."""
    if micros is None:
        return None
    return (_EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds").replace("+00:00", "Z")
