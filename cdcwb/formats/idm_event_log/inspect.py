"""One row of a log, found by its place, without reading all of the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from cdcwb.errors import CaptureError
from cdcwb.formats.base import EVERYTHING, Field, Inspection
from cdcwb.formats.files import open_source
from cdcwb.formats.idm_event_log.dissect import Cell, dissect
from cdcwb.formats.idm_event_log.log import COLUMNS
from cdcwb.formats.idm_event_log.options import Options
from cdcwb.formats.idm_event_log.plan import SQL, FileEntry, Plan
from cdcwb.formats.idm_event_log.planning import make_plan, plan_beginning
from cdcwb.formats.idm_event_log.reader import events_of, gap_event, source_of
from cdcwb.formats.idm_event_log.reading import LogPart, log_part, log_parts
from cdcwb.formats.idm_event_log.sql_outline import value_places
from cdcwb.formats.tabular import DEFAULT, cut_fields, cut_json, part_at
from cdcwb.formats.tabular import EVERYTHING as TO_THE_END

__all__ = ["inspect_row"]

_LARGE: Final = 64 << 20  # bytes of a file from which on it is read in pieces


def inspect_row(path: str, offset: int, options: Options) -> Inspection:
    """The row (or header line, or other bytes) that holds ``offset`` of the decompressed file; in Parquet and Excel
    files the row of that number.

    Raises CaptureError where the file ends before ``offset``.
    """
    plan = plan_beginning(path, options)
    entry = plan.files[0]
    size = _extent(entry)
    if size is not None and not 0 <= offset < size:
        raise CaptureError(f"the file has {size} bytes", path=path, offset=offset)
    if entry.probe.kind != SQL and "record_id" in entry.labels:  # else rows have to be counted
        found, index = part_at(entry.probe, offset)
        return _inspection(plan, log_part(entry, found, 0), index)
    for part in _parts(plan, path, offset, options):
        behind = part.places + part.lengths
        if len(behind) and int(part.places[0]) <= offset < int(behind[-1]):
            return _inspection(plan, part, int(np.searchsorted(behind, offset, side="right")))
    rows = "rows" if size is None else "bytes"
    raise CaptureError(f"the file has fewer {rows}", path=path, offset=offset)


def _extent(entry: FileEntry) -> int | None:
    """Bytes of the decompressed file; None where places are numbers of rows."""
    if entry.probe.kind in ("parquet", "excel"):
        return None
    source = open_source(entry.probe.path, "binary")
    try:
        return source.length
    finally:
        source.close()


def _parts(plan: Plan, path: str, offset: int, options: Options) -> Iterator[LogPart]:
    """Parts of the file, up to the one that holds a place; of a large one the stretch that holds it."""
    entry = plan.files[0]
    stop = offset + 1 if entry.probe.kind in ("csv", SQL) or entry.probe.settings.get("kind") == "lines" else TO_THE_END
    start, before = 0, 0
    if entry.size > _LARGE and stop != TO_THE_END:
        for split in make_plan([path], options).splits:
            if split.start <= offset:
                start, before = split.start, split.before
    return log_parts(entry, start, stop, before)


# --- one segment ------------------------------------------------------------------------------------------------------


def _inspection(plan: Plan, part: LogPart, index: int) -> Inspection:
    entry = plan.files[0]
    source = source_of(plan, 0, part.unit)
    offset, length = int(part.places[index]), int(part.lengths[index])
    gap = next((one for one in part.gaps if one.index == index), None)
    if gap is not None:
        raw = gap.raw or b""
        event = {name: value for name, value in gap_event(source, part, gap).items() if value is not None}
        problem = event["problems"][0]["code"] if "problems" in event else None
        field = Field(str(gap.kind), 0, len(raw), raw, None, gap.reason, (), problem)
        return Inspection(entry.probe.path, offset, length, raw, field, event, gap.reason)
    row = int(np.searchsorted(part.index, index))
    event = _event(plan, part, row)
    record = event.get("raw") or b""
    cells = _cells(entry, record, part, row)
    return Inspection(entry.probe.path, offset, length, record, dissect(record, cells, source), event, _note(entry))


def _event(plan: Plan, part: LogPart, row: int) -> dict[str, Any]:
    """What ``events`` say of one row of a part."""
    one = slice(row, row + 1)
    some = LogPart(
        *(part.offset[one], part.length[one], part.unit, part.log.slice(row, 1), np.zeros(1, dtype=np.int64)),
        *(part.offset[one], part.length[one], None if part.raw is None else part.raw.slice(row, 1)),
        [replace(each, row=0) for each in part.findings if each.row == row],
    )
    batch = next(events_of(plan, 0, some, EVERYTHING))
    return {name: value for name, value in batch.to_pylist()[0].items() if value is not None}


def _cells(entry: FileEntry, record: bytes, part: LogPart, row: int) -> list[Cell]:
    """The columns of a row in the order of its bytes, those of the log with the values that were read."""
    own = {label: name for name, label in entry.labels.items()}
    values = {name: part.log.column(name)[row].as_py() for name in COLUMNS}
    cells = []
    for label, start, end, text in _places(entry, record):
        name = own.pop(label, None)
        cells.append(Cell(name, label, start, end - start, text if name is None else values[name]))
    if record:
        return cells
    return [Cell(name, label, 0, 0, values[name]) for label, name in own.items()]


def _places(entry: FileEntry, record: bytes) -> list[tuple[str, int, int, str | None]]:
    """The columns of a record: name, where the bytes begin and end that tell the value, and text."""
    probe = entry.probe
    if not record:
        return []
    if probe.kind == SQL:
        return _of_statement(entry, record)
    cut = (
        cut_json(record)
        if probe.kind == "json"
        else cut_fields(record, probe.dialect or DEFAULT, probe.columns, probe.charset)
    )
    return [] if isinstance(cut, str) else [(one.name, one.inner, one.end, one.text) for one in cut]


def _of_statement(entry: FileEntry, record: bytes) -> list[tuple[str, int, int, str | None]]:
    names, places = value_places(record, entry.probe.charset, bool(entry.probe.settings["backslash"]))
    labels = names or entry.probe.columns
    found = []
    for label, (start, end) in zip(labels, places, strict=False):
        text = record[start:end].decode(entry.probe.charset, "backslashreplace")
        found.append((label, start, end, None if re.fullmatch(r"(?i)\s*NULL\s*", text) else text))
    return found


def _note(entry: FileEntry) -> str:
    absent = [name for name in COLUMNS if name in entry.absent]
    held = f"a row of the event log, {entry.probe.kind}"
    return f"{held}; the source has no {', '.join(absent)}" if absent else held
