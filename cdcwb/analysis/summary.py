"""The summary of a capture: contents and health. Spark counts in a few jobs; a small capture is counted in this
process.

:func:`summarize` gives flat facts for programs (with types of JSON), :func:`summary_lines` gives text.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.order import ordered, with_file_index
from cdcwb.model import Completeness, Kind, OffsetUnit, Outcome, Problem, Severity
from cdcwb.small import Small
from cdcwb.words import plural

if TYPE_CHECKING:
    from cdcwb.capture import Capture
    from cdcwb.small import Small

__all__ = ["FIRST_PLACES", "PLACE", "BySpark", "InProcess", "Row", "best", "summarize"]


Facts = dict[str, Any]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ROW_SHAPES: Final = frozenset({"parquet", "avro", "rows"})
"""Shapes of files whose locations are rows; they determine the unit of a file without events."""

_INCOMPLETE: Final = frozenset({Completeness.NO_BEGIN, Completeness.NO_END, Completeness.GAPS})
_SEVERITIES: Final = [severity.value for severity in (Severity.ERROR, Severity.WARNING, Severity.INFO)]


def summarize(
    capture: Capture | Small,
    say: Callable[[str], None] = lambda _text: None,
    *,
    unfiltered: bool = True,
    whole: Any = None,
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
    there could be records of its tables) · ``detected`` (a list of rows) · ``healthy`` (no problem
    above information, no unassigned error, no open or incomplete transaction, and all bytes accounted for).

    ``unfiltered`` is False for a capture that was filtered: its events cannot add up to its files. ``whole``: the
    capture from which one with only some tables was filtered. ``say`` is called with what is being counted. One Spark
    job for each table; collected rows grow only with files, tables and problem codes.
    """
    if not isinstance(capture, Small):
        _ = capture.spark  # raises CaptureError if it was stopped
    rows = InProcess(capture) if isinstance(capture, Small) else BySpark(capture)
    facts: Facts = {"format": capture.format, "committed_only": capture.committed_only}
    say("counting events")
    facts |= _events(capture.files, rows.events(), unfiltered)
    say("counting changes")
    facts |= _changes(rows.changes(), rows.table_versions())
    say("counting transactions")
    facts |= _transactions(rows.transactions(), facts)
    facts |= {name: capture.facts.get(name) for name in ("restart_position", "highest_commit", "changed_at")}
    say("collecting problems")
    facts |= _problems(rows.problems())
    facts["unassigned_errors"] = 0 if whole is None else _unassigned(whole) - _unassigned(capture)
    facts["detected"] = rows.detected()
    sick = facts["unassigned_errors"] or any(
        facts["problems_by_severity"].get(severity) for severity in (Severity.ERROR, Severity.WARNING)
    )
    lacking = facts["open_transactions"] or facts["incomplete_transactions"]
    facts["healthy"] = not sick and not lacking and facts["ledger"] in ("closes", None)
    return facts


def _events(entries: list[dict[str, Any]], rows: list[Row], unfiltered: bool) -> Facts:
    files = _files(entries, rows, unfiltered)
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
        "ledger": _ledger(files) if unfiltered else None,
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


def _unassigned(capture: Any) -> int:
    """The number of errors that name no table."""
    problems = capture.problems.where("severity = 'error' AND table IS NULL")
    return int(problems.count())


def _title(code: str) -> str:
    return Problem(code).heading if code in list(Problem) else code


def _counts(rows: Iterable[Any], name: str, number: str) -> dict[str, int]:
    """The number of rows for each value of ``name``, most first; rows without a value are not counted."""
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


# --- counts -----------------------------------------------------------------------------------------------------------

Row: TypeAlias = dict[str, Any]

FIRST_PLACES: Final = 3
"""The number of locations for each code of a problem."""

PLACE: Final = ("file", "offset", "length", "sentence", "transaction_id")
"""The columns of a location."""

_OF_EVENTS: Final = ("file_index", "offset_unit", "kind", "record_type")
_OF_CHANGES: Final = ("schema_name", "table_name", "operation", "outcome")
_OF_TRANSACTIONS: Final = ("outcome", "completeness")


class BySpark:
    """Counts of a capture that Spark reads: one job for each method."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture

    def events(self) -> list[Row]:
        """By file_index, offset_unit, kind and record_type: ``events``, the sum of ``length``, the highest end
        (``reach``), the first and last position (without heartbeats) and time (microseconds since 1970)."""
        from pyspark.sql import functions as F

        position = F.when(F.col("kind") != Kind.HEARTBEAT, F.col("position"))  # the position of a heartbeat may be zero
        rows = self._capture.headers.groupBy(*_OF_EVENTS).agg(
            F.count("*").alias("events"),
            F.sum("length").alias("length"),
            F.max(F.col("offset") + F.col("length")).alias("reach"),
            F.min(position).alias("first_position"),
            F.max(position).alias("last_position"),
            F.unix_micros(F.min("changed_at")).alias("first_time"),
            F.unix_micros(F.max("changed_at")).alias("last_time"),
        )
        return [row.asDict() for row in rows.collect()]

    def changes(self) -> list[Row]:
        """By schema_name, table_name, operation and outcome: ``changes``."""
        from pyspark.sql import functions as F

        rows = self._capture.change_headers.groupBy(*_OF_CHANGES).agg(F.count("*").alias("changes"))
        return [row.asDict() for row in rows.collect()]

    def table_versions(self) -> list[Row]:
        """By schema_name and table_name: ``versions``."""
        from pyspark.sql import functions as F

        rows = self._capture.table_versions.groupBy(*_OF_CHANGES[:2]).agg(F.count("*").alias("versions"))
        return [row.asDict() for row in rows.collect()]

    def transactions(self) -> list[Row]:
        """By outcome and completeness: ``transactions``, their first begin and last end (microseconds since 1970)."""
        from pyspark.sql import functions as F

        rows = self._capture.transactions.groupBy(*_OF_TRANSACTIONS).agg(
            F.count("*").alias("transactions"),
            F.unix_micros(F.min("began_at")).alias("first_time"),
            F.unix_micros(F.max("ended_at")).alias("last_time"),
        )
        return [row.asDict() for row in rows.collect()]

    def problems(self) -> list[Row]:
        """The first locations of each severity and code: :data:`PLACE`, the number of its ``place`` (from 1), and the
        total ``count`` in each row."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        code = Window.partitionBy("severity", "code")
        order = code.orderBy(F.col("file").isNotNull(), "file_index", "offset", "sentence", "transaction_id")
        rows = (
            with_file_index(self._capture, self._capture.problems.select("severity", "code", *PLACE))
            .withColumn("count", F.count("*").over(code))
            .withColumn("place", F.row_number().over(order))
            .where(F.col("place") <= FIRST_PLACES)
        )
        return [row.asDict() for row in rows.collect()]

    def detected(self) -> list[Row]:
        """The detected settings, in order."""
        return [row.asDict() for row in ordered(self._capture, "detected").collect()]


class InProcess:
    """Counts of a small capture, in this process."""

    def __init__(self, capture: Small) -> None:
        self._capture = capture

    def events(self) -> list[Row]:
        """As :meth:`BySpark.events`."""
        rows = []
        for batch in self._capture.events(images=False):
            columns = {name: batch[name] for name in (*_OF_EVENTS, "length", "position")}
            columns["reach"] = pc.add(batch["offset"], batch["length"])
            rows += pa.table({**columns, "time": batch["changed_at"].cast(pa.int64())}).to_pylist()
        counts = []
        for names, of_group in _grouped(rows, _OF_EVENTS).items():
            row = dict(zip(_OF_EVENTS, names, strict=True))
            row |= {"events": len(of_group), "length": sum(event["length"] for event in of_group)}
            row |= {"reach": max(event["reach"] for event in of_group)}
            row |= {"first_time": best(min, of_group, "time"), "last_time": best(max, of_group, "time")}
            placed = [] if row["kind"] == Kind.HEARTBEAT else of_group  # the position of a heartbeat may be zero
            row |= {"first_position": best(min, placed, "position"), "last_position": best(max, placed, "position")}
            counts.append(row)
        return counts

    def changes(self) -> list[Row]:
        """As :meth:`BySpark.changes`."""
        return _counted(self._capture.changes(images=False), _OF_CHANGES, "changes")

    def table_versions(self) -> list[Row]:
        """As :meth:`BySpark.table_versions`."""
        return _counted(self._capture.table_versions(), _OF_CHANGES[:2], "versions")

    def transactions(self) -> list[Row]:
        """As :meth:`BySpark.transactions`."""
        rows = []
        for batch in self._capture.transactions():
            columns = {name: batch[name] for name in _OF_TRANSACTIONS}
            times = {name: batch[name].cast(pa.int64()) for name in ("began_at", "ended_at")}
            rows += pa.table({**columns, **times}).to_pylist()
        return [
            dict(zip(_OF_TRANSACTIONS, names, strict=True))
            | {"transactions": len(of_group)}
            | {"first_time": best(min, of_group, "began_at"), "last_time": best(max, of_group, "ended_at")}
            for names, of_group in _grouped(rows, _OF_TRANSACTIONS).items()
        ]

    def problems(self) -> list[Row]:
        """As :meth:`BySpark.problems`."""
        index = {entry["file"]: entry["file_index"] for entry in self._capture.files}

        def place(row: Row) -> tuple[Any, ...]:
            keys = [index.get(row["file"]), row["offset"], row["sentence"], row["transaction_id"]]
            return (row["file"] is not None, *((key is not None, key) for key in keys))

        locations = []
        for of_code in _grouped(self._capture.table("problems").to_pylist(), ("severity", "code")).values():
            for number, row in enumerate(sorted(of_code, key=place)[:FIRST_PLACES], 1):
                locations.append({**row, "place": number, "count": len(of_code)})
        return locations

    def detected(self) -> list[Row]:
        """As :meth:`BySpark.detected`."""
        names = ("scope", "setting")

        def place(row: Row) -> tuple[Any, ...]:
            firsts = zip(names, ("capture", "format"), strict=True)
            keys = [key for name, first in firsts for key in (row[name] != first, row[name])]
            return (*keys, row["value"] is not None, row["value"])

        return sorted(self._capture.table("detected").to_pylist(), key=place)


def _grouped(rows: Iterable[Row], names: tuple[str, ...]) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in names)].append(row)
    return groups


def _counted(batches: Iterable[pa.RecordBatch], names: tuple[str, ...], number: str) -> list[Row]:
    counts: Counter[tuple[Any, ...]] = Counter()
    for batch in batches:
        counts.update(zip(*(batch[name].to_pylist() for name in names), strict=True))
    return [dict(zip(names, values, strict=True)) | {number: count} for values, count in counts.items()]


def best(choose: Callable[..., Any], rows: list[Row], name: str) -> Any:
    """The smallest or the largest value of the rows; None without values."""
    return choose((row[name] for row in rows if row[name] is not None), default=None)
