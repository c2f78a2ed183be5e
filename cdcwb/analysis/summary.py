"""The summary of a capture: contents and health.

:func:`summarize` gives flat facts for programs (with types of JSON), :func:`summary_lines` gives text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc

from cdcwb.analysis.continuity import continuity
from cdcwb.analysis.counters import counters
from cdcwb.analysis.integrity import findings, findings_by_code
from cdcwb.analysis.order import listed, located
from cdcwb.analysis.positions import positions
from cdcwb.analysis.row_breaks import Break
from cdcwb.analysis.totals import Row, count_changes, count_events, count_transactions, count_versions
from cdcwb.dataset import counted_by, first_of, together, total
from cdcwb.model import Completeness, Kind, OffsetUnit, Outcome, Problem, Severity
from cdcwb.times import time_of
from cdcwb.words import plural

if TYPE_CHECKING:
    from cdcwb.capture import Capture


Facts = dict[str, Any]
CHECKS: Final = ("counters", "positions", "continuity")
"""What is checked apart from the bytes: each is a fact, null if it was not checked."""

_ROW_SHAPES: Final = frozenset({"parquet", "avro", "rows"})
"""Shapes of files whose locations are rows; they determine the unit of a file without events."""

_FIRST_PLACES: Final = 3  # locations of each code of a problem
_CODE: Final = ("severity", "code")
_PLACE: Final = ("file", "offset", "length", "sentence", "transaction_id")
_INCOMPLETE: Final = frozenset({Completeness.NO_BEGIN, Completeness.NO_END, Completeness.GAPS})
_SEVERITIES: Final = [severity.value for severity in (Severity.ERROR, Severity.WARNING, Severity.INFO)]


def summarize(
    capture: Capture, say: Callable[[str], None] = lambda _text: None, *, unfiltered: bool = True, whole: Any = None
) -> Facts:
    """The facts of a capture, with types of JSON: counts are int, times ISO 8601 in UTC, positions text; null is
    unknown.

    ``format``, ``committed_only`` (it delivers only committed transactions) · ``files`` (a list: file, file_index,
    size, shape, compression, unit, rows, events, malformed, ledger; ``unit`` is the unit of its offsets and of
    ``malformed``, ``byte`` or ``row``; ``rows`` is null for bytes) · ``unit`` (``row`` if all files have it) ·
    ``bytes`` (decompressed), ``rows`` (of files counted in rows) · ``ledger`` (``closes``, or a sentence about what is
    missing; null unless ``unfiltered``) · ``record_bytes``, ``filler_bytes``, ``malformed_bytes`` (of files counted in
    bytes), ``malformed_rows`` · ``events``, ``events_by_kind``, ``events_by_record_type`` · ``changes``,
    ``changes_by_operation``, ``changes_by_outcome`` (of those in transactions) · ``transactions``,
    ``transactions_by_outcome``, ``transactions_by_completeness``, ``open_transactions``, ``incomplete_transactions``
    (not open, but their begin, their end or events between are missing) · ``first_time``, ``last_time``,
    ``first_position``, ``last_position`` (without heartbeats) · ``tables`` (a list: table, versions, changes by
    operation) · ``table_versions`` · ``restart_position``, ``highest_commit`` (null if the format has none) ·
    ``changed_at`` (why the times of some records are unknown, else null) · ``problems``, ``problems_by_severity``,
    ``problems_by_code`` (a list: severity, code, title, count and the first locations: file, offset, length, sentence,
    transaction_id) · ``unassigned_errors`` (with ``whole``: its errors that name no table and are not in the capture;
    there could be records of its tables) · ``detected`` (a list of rows) · ``counters`` (of transactions: their number,
    contradictions and the first places; null if no event has a number), ``positions`` (records whose position was
    compared with that of the record before it, contradictions and the first places; null if the order is not checked),
    ``continuity`` (of rows: :attr:`cdcwb.analysis.continuity.Continuity.facts`, contradictions: breaks other than
    repeats, the first places, and why nothing was checked; null without images); all three null unless ``unfiltered``
    · ``healthy`` (no contradiction, no problem above information, no unassigned error, no open or incomplete
    transaction, and all bytes accounted for).

    ``unfiltered`` is False for a capture that was filtered: its events cannot add up to its files. ``whole``: the
    capture from which one with only some tables was filtered. ``say`` is called with what is being counted. What
    is counted grows only with files, tables and problem codes.
    """
    facts: Facts = {"format": capture.format, "committed_only": capture.committed_only}
    say("counting events")
    facts |= _events(capture.files, count_events(capture), unfiltered)
    say("counting changes")
    facts |= _changes(count_changes(capture, unfiltered), count_versions(capture))
    say("counting transactions")
    facts |= _transactions(count_transactions(capture), facts)
    facts |= {name: capture.facts.get(name) for name in ("restart_position", "highest_commit", "changed_at")}
    say("collecting problems")
    facts |= _problems(capture)
    facts["unassigned_errors"] = 0 if whole is None else _unassigned(whole) - _unassigned(capture)
    facts["detected"] = listed(capture, "detected")
    facts |= _checks(capture, say) if unfiltered else dict.fromkeys(CHECKS)
    facts["findings_by_code"] = _findings(capture) if unfiltered else []
    problems = facts["problems_by_severity"]
    sick = facts["unassigned_errors"] or problems.get(Severity.ERROR) or problems.get(Severity.WARNING)
    lacking = facts["open_transactions"] or facts["incomplete_transactions"]
    contradicted = any((facts[check] or {}).get("contradictions") for check in CHECKS)
    facts["healthy"] = not sick and not lacking and not contradicted and facts["ledger"] in ("closes", None)
    return facts


def _checks(capture: Any, say: Callable[[str], None]) -> Facts:
    say("checking counters")
    numbers = counters(capture)
    found: Facts = dict.fromkeys(CHECKS)
    if numbers.transactions or numbers.numbers:
        found["counters"] = {name: getattr(numbers, name) for name in ("transactions", "numbers", "contradictions")}
        found["counters"]["places"] = [
            row | ({"sentence": f"transaction {name}: {row['sentence']}"} if (name := row["transaction_id"]) else {})
            for row in numbers.listed[:_FIRST_PLACES]
        ]
    say("comparing positions")
    order = positions(capture)
    if records := order.total("ordered"):
        numbered = {"records": records, "contradictions": order.contradictions}
        found["positions"] = numbered | {"places": _places(order.listed)}
    if getattr(capture, "has_images", True):
        say("comparing the changes of each row")
        rows = continuity(capture)
        serious = rows.breaks - rows.kinds.get(Break.REPEAT, 0)  # what came twice is delivered at least once
        found["continuity"] = {**rows.facts, "checked_text": rows.summary, "contradictions": serious}
        found["continuity"] |= {"unchecked": rows.unchecked, "places": _places(rows.listed)}
    return found


def _places(listed: Sequence[Row], names: Sequence[str] = ("sentence", "file", "offset")) -> list[Row]:
    """Where the first of some rows are."""
    return [{name: row[name] for name in names} for row in listed[:_FIRST_PLACES]]


def _findings(capture: Any) -> list[Facts]:
    """What the checks found, by code, as problems are."""
    return _by_code([(row, row["problems"]) for row in findings_by_code(capture)], findings(capture))


def _by_code(counts: Iterable[tuple[Row, int]], found: Sequence[Row]) -> list[Facts]:
    """The severities and codes of problems, each with the number of its problems and the first of those ``found``."""
    return [
        {
            **{name: row[name] for name in _CODE},
            "title": Problem(row["code"]).heading if row["code"] in list(Problem) else row["code"],
            "count": number,
            "places": _places([one for one in found if all(one[name] == row[name] for name in _CODE)], _PLACE),
        }
        for row, number in counts
    ]


def _events(entries: list[dict[str, Any]], rows: list[Row], unfiltered: bool) -> Facts:
    files = _files(entries, rows, unfiltered)
    lengths: Counter[str] = Counter()
    for row in rows:
        if row["offset_unit"] == OffsetUnit.BYTE:
            lengths[row["kind"]] += row["length"]
    filler, malformed = lengths.pop(Kind.FILLER, 0), lengths.pop(Kind.MALFORMED, 0)
    units = {row["offset_unit"] for row in rows} or {entry["unit"] for entry in files}
    of_rows = (row for row in rows if row["offset_unit"] != OffsetUnit.BYTE)
    malformed_rows = sum(row["events"] for row in of_rows if row["kind"] == Kind.MALFORMED)
    return {
        "files": files,
        "unit": str(OffsetUnit.ROW if units and OffsetUnit.BYTE not in units else OffsetUnit.BYTE),
        "bytes": sum(entry["size"] for entry in files),
        "rows": sum(entry["rows"] or 0 for entry in files),
        "ledger": _ledger(files) if unfiltered else None,
        "record_bytes": lengths.total(),
        "filler_bytes": filler,
        "malformed_bytes": malformed,
        "malformed_rows": malformed_rows,
        "events": sum(row["events"] for row in rows),
        "events_by_kind": _counts(rows, "kind", "events"),
        "events_by_record_type": _counts(rows, "record_type", "events"),
        "first_time": _time(_best(min, rows, "first_time")),
        "last_time": _time(_best(max, rows, "last_time")),
        "first_position": _best(min, rows, "first_position"),
        "last_position": _best(max, rows, "last_position"),
    }


def _files(entries: Iterable[Mapping[str, Any]], rows: list[Row], unfiltered: bool) -> list[Facts]:
    """Each file with its number of events and its ledger: ``closes``, or the difference to its size in bytes or
    rows."""
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
        total = entry["size"]
        if unit is OffsetUnit.ROW:
            total = entry.get("rows")
            if total is None and unfiltered:  # the format does not give the size: as far as its events reach
                total = reach[index]
        missing = (total or 0) - lengths[index]
        ledger = "closes" if not missing else f"{plural(missing, unit)} in no event"
        if missing < 0:
            ledger = f"{plural(-missing, unit)} too much in its events"
        counted = {"unit": str(unit), "rows": total if unit is OffsetUnit.ROW else None, "events": events[index]}
        counted["malformed"] = malformed[index]
        files.append({**entry, **counted, "ledger": ledger if unfiltered else None})
    return files


def _ledger(files: list[Facts]) -> str:
    """``closes`` if the events of every file add up to its size; else the first file where they do not, and the number
    of others."""
    wrong = [entry for entry in files if entry["ledger"] != "closes"]
    if not wrong:
        return "closes"
    more_files = f", and {plural(len(wrong) - 1, 'more file')}" if len(wrong) > 1 else ""
    return f"open: {wrong[0]['file']} has {wrong[0]['ledger']}{more_files}"


def _changes(rows: list[Row], versions: list[Row]) -> Facts:
    tables: dict[str, list[Row]] = {}
    for row in [*versions, *rows]:
        if row["table_name"] is not None:
            name = f"{row['schema_name']}.{row['table_name']}" if row["schema_name"] is not None else row["table_name"]
            tables.setdefault(name, []).append(row)
    return {
        "changes": sum(row["changes"] for row in rows),
        "changes_by_operation": _counts(rows, "operation", "changes"),
        "changes_by_outcome": _counts(rows, "outcome", "changes"),
        "tables": [
            {
                "table": name,
                **{what: sum(row.get(what, 0) for row in of) for what in ("versions", "changes")},
                "changes_by_operation": _counts((row for row in of if "changes" in row), "operation", "changes"),
            }
            for name, of in sorted(tables.items())
        ],
        "table_versions": sum(row["versions"] for row in versions),
    }


def _transactions(rows: list[Row], events: Facts) -> Facts:
    """Extends the times of events by those of transactions: if tables are filtered, begins and commits are not among
    the events, and in some formats only they have times."""
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


def _problems(capture: Capture) -> Facts:
    rows, by = located(capture, "problems", [*_CODE, *_PLACE])
    order = [name for name in by if name in rows.schema.names]
    folds = counted_by(rows.schema, _CODE), first_of(rows.schema, order, _FIRST_PLACES, _CODE)
    counts, first = (found.to_pylist() for found in rows.fold(*together(*folds)))
    by_code = _by_code([(row, row["rows"]) for row in counts], first)
    by_code.sort(key=lambda entry: (_SEVERITIES.index(entry["severity"]), -entry["count"], entry["code"]))
    return {
        "problems": sum(entry["count"] for entry in by_code),
        "problems_by_severity": _counts(by_code, "severity", "count"),
        "problems_by_code": by_code,
    }


def _unassigned(capture: Any) -> int:
    """The number of errors that name no table."""
    rows = capture.rows("problems", ("severity", "table"))
    errors = rows.where(
        lambda batch: pc.and_(pc.equal(batch["severity"], str(Severity.ERROR)), batch["table"].is_null())
    )
    number: int = errors.fold(len, total)
    return number


def _counts(rows: Iterable[Any], name: str, number: str) -> dict[str, int]:
    """The number of rows for each value of ``name``, most first; rows without a value are not counted."""
    counts: Counter[str] = Counter()
    for row in rows:
        if row[name] is not None:
            counts[row[name]] += row[number]
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _time(micros: int | None) -> str | None:
    """Microseconds since 1970 as ``2025-03-23T10:57:19.000000Z``."""
    return None if micros is None else time_of(micros).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _best(choose: Callable[..., Any], rows: list[Row], name: str) -> Any:
    """The smallest or the largest value of the rows; None without values."""
    return choose((row[name] for row in rows if row[name] is not None), default=None)
