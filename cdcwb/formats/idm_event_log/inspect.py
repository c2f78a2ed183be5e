"""One row of a log, found by its offset without reading all of the rest, as a tree of fields with offset, bytes, value
and meaning (docs/formats/idm-event-log.md).

Children fill their node without holes, in byte order; every byte is in exactly one leaf. Where the text of a column is
not what its bytes are (doubled quotes, another character set), its parts are leaves without bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb.errors import CaptureError
from cdcwb.formats.dissector import EVERYTHING, Field, Inspection
from cdcwb.formats.files import open_source
from cdcwb.formats.idm_event_log.columns import Options
from cdcwb.formats.idm_event_log.decode import LogPart, log_part, log_parts
from cdcwb.formats.idm_event_log.events import (
    WRITTEN,
    Source,
    Typed,
    check,
    gap_of,
    source_of,
    split_name,
    to_events,
    typed,
)
from cdcwb.formats.idm_event_log.first_pass import make_plan, plan_beginning
from cdcwb.formats.idm_event_log.keys import TableKeyError, parse, parts
from cdcwb.formats.idm_event_log.layout import COLUMNS, EVENT_TYPES, LOG, STATUSES, TITLES, EventType, Finding
from cdcwb.formats.idm_event_log.plan import LogFile, Plan
from cdcwb.formats.idm_event_log.values import FORMS
from cdcwb.formats.tabular.file import EVERYTHING as TO_THE_END
from cdcwb.formats.tabular.file import SQL
from cdcwb.formats.tabular.format import inspect_gap
from cdcwb.formats.tabular.parts import cut_record, find_part
from cdcwb.model import OffsetUnit
from cdcwb.words import moment, visible

__all__ = ["Cell", "dissect", "inspect_row"]

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
        found, index = find_part(entry.probe, offset)
        return _inspection(plan, log_part(entry, found, 0), index)
    for part in _parts(plan, path, offset, options):
        behind = part.part.offset + part.part.length
        if len(behind) and int(part.part.offset[0]) <= offset < int(behind[-1]):
            return _inspection(plan, part, int(np.searchsorted(behind, offset, side="right")))
    rows = "rows" if size is None else "bytes"
    raise CaptureError(f"the file has fewer {rows}", path=path, offset=offset)


def _extent(entry: LogFile) -> int | None:
    """Bytes of the decompressed file; None where places are numbers of rows."""
    if entry.probe.kind in ("parquet", "excel"):
        return None
    with closing(open_source(entry.path, "binary")) as source:
        return source.length


def _parts(plan: Plan, path: str, offset: int, options: Options) -> Iterator[LogPart]:
    """Parts of the file, up to the one that holds a place; of a large one the stretch that holds it."""
    entry = plan.files[0]
    stop = offset + 1 if entry.probe.kind in ("csv", SQL) or entry.probe.settings.get("kind") == "lines" else TO_THE_END
    start, before = 0, 0
    if entry.size > _LARGE and stop != TO_THE_END:
        for (one,) in make_plan([path], options).splits:
            if one.start <= offset:
                start, before = one.start, one.before
    return log_parts(entry, start, stop, before)


# --- one segment ------------------------------------------------------------------------------------------------------


def _inspection(plan: Plan, log: LogPart, index: int) -> Inspection:
    entry, part = plan.files[0], log.part
    source = source_of(plan, 0, part.unit)
    gap = inspect_gap(entry.path, part, index, partial(gap_of, source, part))
    if gap is not None:
        return gap
    row = int(np.searchsorted(log.rows.index, index))
    event = _event(log, row, source)
    record = event.get("raw") or b""
    field = dissect(record, _cells(entry, record, log, row), source)
    offset, length = int(part.offset[index]), int(part.length[index])
    return Inspection(entry.path, offset, length, record, field, event, _note(entry))


def _event(log: LogPart, row: int, source: Source) -> dict[str, Any]:
    """The event of one row of a part."""
    rows, one = log.rows, slice(row, row + 1)
    findings = [replace(each, row=0) for each in log.findings if each.row == row]
    raw = None if rows.raw is None else rows.raw[one]
    batch = to_events(log.log[one], source, rows.offset[one], rows.length[one], raw, EVERYTHING, findings)
    return {name: value for name, value in batch.to_pylist()[0].items() if value is not None}


def _cells(entry: LogFile, record: bytes, part: LogPart, row: int) -> list[Cell]:
    """The columns of a row in the order of its bytes, those of the log with the values that were read."""
    own = {label.casefold(): name for name, label in entry.labels.items()}
    values = {name: part.log.column(name)[row].as_py() for name in COLUMNS}
    cells = []
    for one in cut_record(entry.probe, record, entry.probe.columns) if record else ():
        name = own.pop(one.name.casefold(), None)
        cells.append(Cell(name, one.name, one.inner, one.end - one.inner, one.text if name is None else values[name]))
    if record:
        return cells
    return [Cell(name, entry.labels[name], 0, 0, values[name]) for name in own.values()]


def _note(entry: LogFile) -> str:
    absent = [name for name in COLUMNS if name in entry.absent]
    held = f"a row of the event log, {entry.probe.kind}"
    return f"{held}; the source has no {', '.join(absent)}" if absent else held


_SOURCE: Final = Source("", 0, OffsetUnit.BYTE)


@dataclass(frozen=True, slots=True)
class Cell:
    """One column of a row. ``name``: the vendor's, None for one that is not one of the ten; ``label``: the source's.
    ``offset`` and ``length`` are its bytes in the record (0 where a row has none); ``value`` None is NULL."""

    name: str | None
    label: str
    offset: int
    length: int
    value: str | None


def dissect(record: bytes, cells: Sequence[Cell], source: Source | None = None) -> Field:
    """The field tree of a row, of which ``cells`` are the columns in byte order. What separates them is quiet. Columns
    that the row lacks are as in :data:`~cdcwb.formats.idm_event_log.layout.LOG`; those that are absent from ``source``
    break no rule. Never raises."""
    where = source or replace(_SOURCE, absent=frozenset(COLUMNS) - {cell.name for cell in cells})
    row: dict[str, str | None] = dict.fromkeys(COLUMNS) | {"record_id": "1", "status": "N"}
    row |= {cell.name: cell.value for cell in cells if cell.name is not None}
    log = pa.RecordBatch.from_pylist([row], LOG)
    said = typed(log, where.zone)
    what = EVENT_TYPES.get(said.event_type[0].as_py())
    findings = check(log, where.absent, where.zone, said)
    children: list[Field] = []
    at = 0
    for cell in cells:
        if cell.offset > at:
            children.append(_leaf(record, "between", at, cell.offset, None, "separates the columns", quiet=True))
        children.append(_column(record, cell, what, said, findings, where))
        at = max(at, cell.offset + cell.length)
    if at < len(record):
        children.append(_leaf(record, "behind", at, len(record), None, "ends the row", quiet=True))
    worst = str(findings[0].code) if findings else None
    return Field("row", 0, len(record), record, None, _row_meaning(row, what), tuple(children), worst)


def _leaf(
    record: bytes, name: str, start: int, stop: int, value: str | None, meaning: str, quiet: bool = False
) -> Field:
    return Field(name, start, stop - start, record[start:stop], value, meaning, quiet=quiet)


def _row_meaning(row: Mapping[str, str | None], what: EventType | None) -> str:
    if what is None:
        return "an event of an unknown type"
    column = f", column {visible(row['column_name'], 60)}" if what.per_field and row["column_name"] else ""
    return f"{what.name}: {what.meaning} ({visible(row['table_name'] or 'no table', 60)}{column})"


def _column(
    record: bytes, cell: Cell, what: EventType | None, said: Typed, findings: Sequence[Finding], source: Source
) -> Field:
    raw = record[cell.offset : cell.offset + cell.length]
    if cell.name is None:
        meaning = "a column that an event log does not have"
        return Field(cell.label, cell.offset, cell.length, raw, cell.value, meaning)
    wrong = [one for one in findings if one.column == cell.name]
    meaning = _meaning(cell.name, cell.value, what, said, source)
    sentences = [one.sentence.partition(": ")[2] for one in wrong]
    meaning = "; ".join([f"{TITLES[cell.name]}: {meaning}" if meaning else TITLES[cell.name], *sentences])
    pieces = _PIECES[cell.name](cell.value) if cell.value and cell.name in _PIECES else []
    problem = str(wrong[0].code) if wrong else None
    children = _laid(record, cell, pieces)
    return Field(cell.label, cell.offset, cell.length, raw, cell.value, meaning, children, problem)


def _meaning(name: str, text: str | None, what: EventType | None, said: Typed, source: Source) -> str:
    """What the value of a column means."""
    null = "NULL" if text is None else ""
    match name:
        case "record_id":
            number = said.record_id[0].as_py()
            return "" if number is None else f"position {number:019d}"
        case "table_key":
            try:
                pairs = parse(text or "")
            except TableKeyError:
                return ""
            return " and ".join(f"{visible(column, 40)} is {visible(value, 40)!r}" for column, value in pairs)
        case "status":
            return STATUSES.get(text or "", "reserved: the Publisher skips the row")
        case "event_type":
            return "not known" if what is None else f"{what.name}, XDS {what.verb}"
        case "event_time":
            (time,) = said.event_us.view(pa.timestamp("us", "UTC")).to_pylist()
            return "" if time is None else f"{moment(time)}, in the form of {FORMS[said.times.form[0]]}"
        case "perpetrator":
            return f"{null}, so not the driver's own user" if null else "loopback if it is the driver's own user"
        case "table_name":
            schema, table = split_name(text, source.schema)
            of_schema = "" if schema is None else f" of schema {visible(schema, 60)}"
            return "" if table is None else f"{visible(table, 60)}{of_schema}"
        case "column_name":
            used = what is None or what.per_field
        case _:
            used = what is None or what.number in WRITTEN[name]
    return null if used or what is None else f"not used by an event of type {what.number}"


# --- what is inside a column ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Piece:
    """So many characters of a text, one piece after the other."""

    name: str
    text: str
    value: str | None
    meaning: str
    quiet: bool = False
    problem: str | None = None


def _key_pieces(text: str) -> list[_Piece]:
    found: list[_Piece] = []
    plus = _Piece("+", "+", None, "", quiet=True)
    try:
        for number, (name, value) in enumerate(parts(text), start=1):
            if found:
                found.append(plus)
            ((_, plain),) = parse(f"{name}={value}")
            found += [
                _Piece("column", name, name, f"column {number} of the key"),
                _Piece("=", "=", None, "", quiet=True),
                _Piece("value", value, plain, "in quotes; escapes are decoded" if value.startswith('"') else ""),
            ]
    except TableKeyError as error:
        if found:
            found.append(plus)
        at = sum(len(piece.text) for piece in found)
        good, rest = text[at : error.position], text[error.position :]
        found += [_Piece("so far", good, good, "by the grammar")] if good else []
        found.append(_Piece("error", rest, rest, str(error), problem="table_key"))
    return found


def _name_pieces(text: str) -> list[_Piece]:
    schema, table = split_name(text, None)
    if schema is None or table is None:
        return []
    return [
        _Piece("schema", schema, schema, "the schema or owner"),
        _Piece(".", ".", None, "", quiet=True),
        _Piece("table", table, table, "the table or view"),
    ]


_PIECES: Final[dict[str, Callable[[str], list[_Piece]]]] = {"table_key": _key_pieces, "table_name": _name_pieces}


def _laid(record: bytes, cell: Cell, pieces: Sequence[_Piece]) -> tuple[Field, ...]:
    """The pieces as fields, in the bytes of the column where these spell its text."""
    if not pieces:
        return ()
    stop = cell.offset + cell.length
    at = record.find((cell.value or "").encode(), cell.offset, stop)
    made: list[Field] = []
    if at < 0 or not cell.length:
        if cell.length:
            made.append(_leaf(record, "text", cell.offset, stop, cell.value, "as written in the log"))
        made += [Field(one.name, stop, 0, b"", one.value, one.meaning, (), one.problem, one.quiet) for one in pieces]
        return tuple(made)
    if at > cell.offset:
        made.append(_leaf(record, "opening", cell.offset, at, None, "", quiet=True))
    for one in pieces:
        raw = one.text.encode()
        made.append(Field(one.name, at, len(raw), raw, one.value, one.meaning, (), one.problem, one.quiet))
        at += len(raw)
    if at < stop:
        made.append(_leaf(record, "closing", at, stop, None, "", quiet=True))
    return tuple(made)
