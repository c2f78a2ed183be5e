"""Contents of a capture in detail: changes over time, first and last change of tables, bytes by outcome of decoding,
versions of tables, and the command that shows a record."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any, Final

from cdcwb.analysis import change_counts
from cdcwb.analysis.frames import dated_rows
from cdcwb.analysis.order import listed
from cdcwb.analysis.totals import count_events
from cdcwb.filters import NO_TABLE
from cdcwb.formats.arrays import label
from cdcwb.model import Kind, OffsetUnit
from cdcwb.times import TimeAxis
from cdcwb.words import count, plural

BINS: Final = 120
"""Maximum number of time bins."""


@dataclass(frozen=True, slots=True)
class OverTime:
    """Changes over time.

    ``rows``: ``began_at`` (start of a bin), ``operation``, ``changes``; bins without changes are left out. Bins are
    ``width_us`` microseconds wide, and at most :data:`BINS` cover the ``axis`` (None: no change has a time).
    ``without_time``: changes without a time, by operation.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    without_time: dict[str, int] = field(default_factory=dict)
    width_us: int = 1
    axis: TimeAxis | None = None


def over_time(
    capture: Any, first: datetime | None = None, last: datetime | None = None, axis: TimeAxis | None = None
) -> OverTime:
    """Changes over time. ``first`` and ``last`` bound all times, as far as they are known; or ``axis`` is given. Times
    are those of :func:`cdcwb.analysis.frames.dated_rows`."""
    rows = dated_rows(capture, ("operation", "committed_at"))
    axis = axis or change_counts.time_axis(rows, attrgetter("at"), first, last)
    start, width = (0, 1) if axis is None else axis.bins(BINS)
    ask = partial(change_counts.over_time, start=start, width_us=width)
    counted = change_counts.of_all(rows, ask, change_counts.added)
    return OverTime(*change_counts.over_time_rows(counted, start, width), width, axis)


def tables(capture: Any) -> list[dict[str, Any]]:
    """Rows of :func:`cdcwb.analysis.change_counts.table_rows`. Times are those of
    :func:`cdcwb.analysis.frames.dated_rows`."""
    rows = dated_rows(capture, ("operation", "schema_name", "table_name", "position", "committed_at"))
    return change_counts.table_rows(change_counts.of_all(rows, change_counts.by_table, change_counts.merge_tables))


def ledger(capture: Any, files: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The files of a summary with their byte ledgers, in their unit: ``understood`` (in records), ``filler``,
    ``malformed``, and ``none`` (in no event, so not accounted for; null for a part of a capture)."""
    lengths: Counter[tuple[int, str]] = Counter()
    for row in count_events(capture):
        what = row["kind"] if row["kind"] in (Kind.FILLER, Kind.MALFORMED) else "understood"
        lengths[row["file_index"], what] += row["length"]
    found = []
    for entry in files:
        counts = {name: lengths[entry["file_index"], name] for name in ("understood", "filler", "malformed")}
        total = entry["size"] if entry["unit"] == OffsetUnit.BYTE else entry["rows"]
        none = None if total is None else total - sum(counts.values())
        found.append({**counts, **entry, "none": none})
    return found


def short_names(files: Sequence[str]) -> list[str]:
    """The files without their common folders."""
    folder = files[0].rpartition("/")[0] if files else ""
    while folder and not all(file.startswith(f"{folder}/") for file in files):
        folder = folder.rpartition("/")[0]
    return [file.removeprefix(f"{folder}/") for file in files] if folder else list(files)


def versions(capture: Any) -> list[dict[str, Any]]:
    """The versions of tables, by table and in order of appearance: ``table``, ``table_version``, ``columns`` (how
    many), ``names`` (of the columns, in order), ``first_position``, ``file`` and ``offset`` (of the event with the
    definition; null if it comes from outside the capture), ``origin``."""
    files = {entry["file_index"]: entry["file"] for entry in capture.files}
    rows = []
    for row in listed(capture, "table_versions"):
        event = row["first_event"] or {"file_index": None, "offset": None}
        rows.append(
            {
                "table": label(row["schema_name"], row["table_name"]) or NO_TABLE,
                "table_version": row["table_version"],
                "columns": len(row["columns"] or []),
                "names": [column["name"] for column in row["columns"] or []],
                "first_position": row["first_position"],
                "file": files.get(event["file_index"]),
                "offset": event["offset"],
                "origin": row["origin"],
            }
        )
    return sorted(rows, key=lambda row: row["table"])  # stable: keeps the order of appearance within a table


def ledger_sentence(summary: Mapping[str, Any]) -> str:
    """A sentence on whether each byte, or row, of the files is in exactly one event, and how many are decoded."""
    parts = []
    if summary["bytes"] and summary["unit"] == OffsetUnit.BYTE:
        size = summary["record_bytes"] + summary["filler_bytes"] + summary["malformed_bytes"]
        share = f" ({summary['malformed_bytes'] / size:.2%})" if summary["malformed_bytes"] else ""
        decoded, filler = (plural(summary[name], "byte") for name in ("record_bytes", "filler_bytes"))
        parts.append(f"{decoded} decoded, {filler} of filler, {count(summary['malformed_bytes'])} unparsed{share}")
    if summary["rows"] or summary["malformed_rows"]:
        lost = plural(summary["malformed_rows"], "row")
        parts.append(f"{plural(summary['rows'], 'row')}, {lost} of them unparsed")
    counts = "; ".join(parts) or "there is nothing in the files"
    if summary["ledger"] is None:
        return f"Only a part of the capture is shown, so its events do not add up to its files: {counts}."
    if summary["ledger"] == "closes":
        return f"All bytes are accounted for, each in exactly one event: {counts}."
    return f"Not all bytes are accounted for: {summary['ledger'].removeprefix('open: ')}; {counts}."


Readers = Mapping[str, tuple[str, Mapping[str, Any]]]
"""How each file is read: the name of its format, and its options."""


def readers(capture: Any, options: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """How each file of a capture is read, for :func:`command`; ``options`` are its reader options."""
    return {entry["file"]: (capture.format, options) for entry in capture.files}


def command(file: str | None, offset: int | None, by_file: Readers) -> str | None:
    """The shell command that dissects the record at an offset; None without file or offset. It names the format, so the
    file is read the same way even if detection would not find it."""
    if file is None or offset is None:
        return None
    words = ["cdcwb", "inspect", file, "--offset", str(offset)]
    format, options = by_file.get(file, (None, {}))
    words += ["--format", format] if format else []
    for name, value in options.items():
        words += ["-o", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
    return shlex.join(words)
