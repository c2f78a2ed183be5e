"""Rows of change tables as Arrow batches of ``events``, and one row as a tree of fields with bytes, value and meaning
(docs/formats/qlik-change-table.md).

In the tree, children cover their node without holes, in byte order; every byte is in exactly one leaf. The bits of a
mask are leaves without bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.errors import CaptureError
from cdcwb.formats import bitmask
from cdcwb.formats.arrays import interleaved, maps_of
from cdcwb.formats.dissector import EVERYTHING, Field, Inspection, Piece, Wanted
from cdcwb.formats.files import list_files
from cdcwb.formats.moments import moment as time_of
from cdcwb.formats.moments import moments
from cdcwb.formats.qlik_change_table import decode as sentences
from cdcwb.formats.qlik_change_table.decode import (
    TRUNCATE,
    Findings,
    Headers,
    Operations,
    changed_columns,
    find_part,
    iter_parts,
    partition_span,
    read_headers,
    read_operations,
    read_times,
    transaction_ids,
)
from cdcwb.formats.qlik_change_table.layout import (
    CONTROL,
    FORMAT,
    LETTERS,
    LOAD,
    OPERATIONS,
    Layout,
    Options,
    Part,
    Rows,
    TableName,
)
from cdcwb.formats.qlik_change_table.plan import MaskSettings, Moved, Plan, SplitEntry, TableFile
from cdcwb.formats.qlik_change_table.planning import plan_beginnings
from cdcwb.formats.qlik_change_table.probing import is_side_file
from cdcwb.formats.qlik_change_table.versions import by_name, control_row
from cdcwb.formats.sequences import sequence_times
from cdcwb.formats.source import folders_of, same_file
from cdcwb.formats.tabular.file import DEFAULT
from cdcwb.formats.tabular.format import gap_event, gap_events, inspect_gap, woven
from cdcwb.formats.tabular.parts import Gap
from cdcwb.formats.tabular.rows import Cell, cut_fields, cut_json
from cdcwb.model import Kind, OffsetUnit, Problem
from cdcwb.words import joined, moment, plural

__all__ = [
    "Context",
    "FileReader",
    "context_of",
    "dissect",
    "events_of",
    "inspect_row",
    "pieces_of",
    "read_events",
    "read_together",
]

# === events ===========================================================================================================

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_KINDS: Final = {str(Kind.CHANGE), str(Kind.BEFORE), str(Kind.AFTER)}


def read_events(plan: Plan, split: SplitEntry, wanted: Wanted = EVERYTHING) -> Iterator[pa.RecordBatch]:
    """The events of one split in capture order, as batches of :data:`cdcwb.model.EVENTS`."""
    reader = FileReader(plan, split.file, wanted)
    if reader.is_empty:
        return
    for part in iter_parts(reader.entry, split.start, split.stop):
        yield from reader.batches(part)


def events_of(plan: Plan, file: int, part: Part, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The wanted events of a part of a file."""
    reader = FileReader(plan, file, wanted)
    if not reader.is_empty:
        yield from reader.batches(part)


def read_together(plan: Plan, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The events of one split, without rows that an earlier split reads, and with the other halves of its updates from
    other splits (:attr:`Plan.borders`)."""
    moved = plan.borders[0].get(split, Moved())
    for batch in read_events(plan, plan.splits[split], wanted):
        offset = batch["offset"].to_numpy()
        left = np.zeros(len(offset), np.bool_)
        for start, stop in moved.left:
            left |= (offset >= start) & (offset < stop)
        yield batch.filter(pa.array(~left)) if left.any() else batch
    for other in moved.taken:
        yield from read_events(plan, other, wanted)


class FileReader:
    """Reads the parts of one file."""

    def __init__(self, plan: Plan, file: int, wanted: Wanted) -> None:
        self.plan = plan
        self.index = file
        self.entry: TableFile = plan.files[file]
        self.table = plan.tables[self.entry.table]
        self.version = plan.versions[self.entry.version] if self.entry.version >= 0 else None
        self.wanted = wanted
        self.key = plan.key_of(self.entry)

    @cached_property
    def columns(self) -> list[str]:
        """The data columns of the file's table version, in the order of the mask's bits."""
        return [] if self.version is None else [column.name for column in self.version.columns]

    @cached_property
    def is_empty(self) -> bool:
        """Whether the filters exclude the complete file."""
        tables, role = self.wanted.tables, self.entry.role
        return tables is not None and role != CONTROL and not tables & {self.table.table, self.table.name.label}

    def batches(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The events of a part."""
        batches: list[pa.RecordBatch] = []
        order: list[Ints] = []
        for indices, rows in part.rows:
            kept, batch = self.rows(rows, part.unit)
            if len(kept):
                batches.append(batch)
                order.append(indices[kept])
        given = {"format": FORMAT, "file": self.entry.path, "file_index": self.index, **self._names}
        event: dict[str, Any] = dict.fromkeys(model.EVENTS.names) | given
        allowed = {kind: self.wanted.allows(event | {"kind": str(kind)}) for kind in (Kind.FILLER, Kind.MALFORMED)}
        gaps = [gap for gap in part.gaps if allowed[gap.kind]]
        if gaps:
            batches.append(gap_events(part, gaps, self.wanted, **given))
            order.append(np.array([gap.index for gap in gaps], dtype=np.int64))
        yield from woven(batches, order)

    def gap(self, part: Part, gap: Gap) -> dict[str, Any]:
        """The event of a segment that is not a row."""
        place = {"file": self.entry.path, "file_index": self.index}
        return gap_event(part, gap, self.wanted, format=FORMAT, **place, **self._names)

    @property
    def _names(self) -> dict[str, str | None]:
        return {"schema_name": self.table.schema, "table_name": self.table.table}

    def rows(self, rows: Rows, unit: OffsetUnit) -> tuple[Ints, pa.RecordBatch]:
        """The events of the requested rows, and their indexes."""
        if self.entry.role == CONTROL:
            return self._control(rows, unit)
        operations = read_operations(rows, self.entry.role)
        keep = self.kept(rows, operations)
        if not keep.all():
            kept = np.flatnonzero(keep)
            if not len(kept):
                return kept, None
            rows = rows.take(kept)
            operations = read_operations(rows, self.entry.role)
        else:
            kept = np.arange(len(keep))
        return kept, self._batch(rows, operations, unit)

    def kept(self, rows: Rows, operations: Operations) -> Bools:
        """The rows that match the filters."""
        keep = np.ones(len(rows.offset), dtype=np.bool_)
        wanted = self.wanted
        if wanted.kinds is not None:
            kinds = pa.array(sorted(wanted.kinds), pa.string())
            keep &= pc.is_in(operations.kind, kinds).to_numpy(zero_copy_only=False)
        if wanted.timed:
            keep &= pc.is_valid(read_times(rows)).to_numpy(zero_copy_only=False)
        if wanted.transactions is not None:
            names = pa.array(sorted(wanted.transactions), pa.string())
            found = pc.fill_null(pc.is_in(transaction_ids(rows), names), False)
            keep &= found.to_numpy(zero_copy_only=False)
        return keep

    def _batch(self, rows: Rows, operations: Operations, unit: OffsetUnit) -> pa.RecordBatch:
        findings = Findings()
        headers = read_headers(rows, operations, findings)
        columns = self._places(rows, unit) | {
            "record_type": operations.record_type,
            "kind": operations.kind,
            "operation": operations.operation,
            "position": headers.position,
            "transaction_id": headers.transaction_id,
            "changed_at": headers.changed_at,
            "table_version": self._repeated(None if self.version is None else self.version.key, rows),
        }
        needs = self.wanted.needs
        mask = rows.layout.known.get("change_mask")
        if mask is not None and needs("change_mask", "changed_columns", "problems"):
            columns["change_mask"] = rows.text(mask)
            if self.table.masks is not None:
                columns["changed_columns"] = changed_columns(rows, self.table.masks, self.columns, findings)
        if needs("headers"):
            columns["headers"] = self._headers(rows, headers)
        if self.wanted.images and needs("before", "after"):
            columns |= self._images(rows, operations)
        if needs("key"):
            columns["key"] = self._keys(rows, operations)
        if self.wanted.raw:
            columns["raw"] = rows.raw()
        self._garbled(rows, findings)
        columns["problems"] = findings.array(len(rows.offset))
        return self._made(columns, len(rows.offset))

    # --- columns ------------------------------------------------------------------------------------------------------

    def _places(self, rows: Rows, unit: OffsetUnit) -> dict[str, pa.Array]:
        count = len(rows.offset)
        return {
            "format": pa.repeat(FORMAT, count),
            "file": pa.repeat(self.entry.path, count),
            "file_index": pa.array(np.full(count, self.index, dtype=np.int32)),
            "offset": pa.array(rows.offset),
            "length": pa.array(rows.length),
            "offset_unit": pa.repeat(str(unit), count),
            "schema_name": self._repeated(self.table.schema, rows),
            "table_name": self._repeated(self.table.table, rows),
        }

    @staticmethod
    def _repeated(text: str | None, rows: Rows) -> pa.StringArray:
        return pa.repeat(pa.scalar(text, pa.string()), len(rows.offset))

    @staticmethod
    def _made(columns: Mapping[str, pa.Array | None], count: int) -> pa.RecordBatch:
        arrays = []
        for one in model.EVENTS:
            found = columns.get(one.name)
            arrays.append(pa.nulls(count, one.type) if found is None else found)
        return pa.RecordBatch.from_arrays(arrays, schema=model.EVENTS)

    @staticmethod
    def _headers(rows: Rows, headers: Headers) -> pa.MapArray:
        count, own = len(rows.offset), len(rows.layout.header)
        if not headers.names:
            return pa.nulls(count, model.EVENTS.field("headers").type)
        values = rows.texts(rows.layout.header) if len(headers.names) == own else interleaved(headers.texts)
        return maps_of(headers.names, values, np.ones(count, dtype=np.bool_))

    @staticmethod
    def _images(rows: Rows, operations: Operations) -> dict[str, pa.Array]:
        """Before and after images."""
        layout = rows.layout
        return {
            name: maps_of(layout.data_names, rows.texts(layout.data, np.flatnonzero(chosen)), chosen)
            for name, chosen in (("before", operations.before), ("after", operations.after))
        }

    def _keys(self, rows: Rows, operations: Operations) -> pa.MapArray:
        at = {rows.layout.names[place]: place for place in rows.layout.data}
        names = [name for name in self.key if name in at]
        chosen = (operations.code != TRUNCATE) & bool(names)
        return maps_of(names, rows.texts([at[name] for name in names], np.flatnonzero(chosen)), chosen)

    def _garbled(self, rows: Rows, findings: Findings) -> None:
        """Values of the decoded columns that are not in the character set."""
        layout = rows.layout
        wanted = set(self.key) if not self.wanted.images else None
        for place, name in enumerate(layout.names):
            if wanted is not None and place in layout.data and name not in wanted:
                continue
            for row in rows.garbled(place).tolist():
                digits = rows.text(place)[row].as_py()
                findings.add(row, sentences.not_in_charset(name, self.plan.charset, digits))

    # --- control tables -----------------------------------------------------------------------------------------------

    def _control(self, rows: Rows, unit: OffsetUnit) -> tuple[Ints, pa.RecordBatch]:
        """Rows of control tables, one by one, since there are few."""
        control = self.table.control or self.table.table
        layout = rows.layout
        texts = [rows.text(place).to_pylist() for place in range(len(layout.names))]
        raw = rows.raw()
        found = []
        for row, values in enumerate(zip(*texts, strict=True)):
            said = control_row(control, by_name(layout, values))
            times, _ = moments(pa.array([said.time], pa.string()))
            event: dict[str, Any] = dict.fromkeys(model.EVENTS.names)
            problems = [] if said.problem is None else [said.problem]
            for place, name in enumerate(layout.names):
                if row in rows.garbled(place):
                    problems.append(sentences.not_in_charset(name, self.plan.charset, values[place] or ""))
            event.update(
                format=FORMAT,
                file=self.entry.path,
                file_index=self.index,
                offset=int(rows.offset[row]),
                length=int(rows.length[row]),
                offset_unit=str(unit),
                record_type=control,
                kind=str(Kind.CONTROL),
                operation=said.operation,
                position=said.position,
                changed_at=times[0].as_py(),
                schema_name=said.name.schema if said.name else self.table.schema,
                table_name=said.name.table if said.name else self.table.table,
                headers=list(zip(layout.names, values, strict=True)),
                raw=raw[row].as_py() if raw is not None and self.wanted.images else None,
                problems=[{"code": str(code), "detail": detail} for code, detail in problems] or None,
            )
            if self.wanted.allows(event):
                found.append((row, event))
        kept = np.array([row for row, _ in found], dtype=np.int64)
        return kept, pa.RecordBatch.from_pylist([event for _, event in found], schema=model.EVENTS)


# === one row ==========================================================================================================

_NEIGHBOURS: Final = 8  # files of the folder that are examined for mask settings
_NAMED: Final = 6


def inspect_row(path: str, offset: int, options: Options) -> Inspection:
    """The row (or header line, or other bytes) at ``offset`` of the decompressed file; in a Parquet file the row with
    that number. Mask settings are detected from the beginnings of the file and of the other files in its folder. Raises
    CaptureError if the file ends before ``offset``.
    """
    if is_side_file(path):
        raise CaptureError("this is a side file that describes another file; inspect that one", path=path)
    plan = plan_beginnings([path, *_neighbours(path)], options)
    entry = plan.files[0]
    unit, count = ("rows", entry.rows or 0) if entry.probe.kind in ("parquet", "excel") else ("bytes", entry.size)
    if not 0 <= offset < count:
        raise CaptureError(f"the file has {count} {unit}", path=path, offset=offset)
    part, index = find_part(entry, offset)
    return _inspection(plan, part, index)


def _neighbours(path: str) -> list[str]:
    """Other data files of the folder, for mask settings."""
    names = list_files(folders_of(path)[0])
    return [name for name in names if not is_side_file(name) and not same_file(name, path)][:_NEIGHBOURS]


# --- one segment ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Context:
    """Facts of a row's file. ``columns``: the data columns of its version, in the order of the mask's bits; ``masks``:
    the mask settings, None without masks."""

    layout: Layout
    role: str
    charset: str = "utf-8"
    control: str | None = None
    columns: tuple[str, ...] = ()
    masks: MaskSettings | None = None
    key: tuple[str, ...] = ()


def context_of(plan: Plan, file: int, rows: Rows) -> Context:
    """The facts of a file for its rows."""
    entry = plan.files[file]
    table = plan.tables[entry.table]
    columns = () if entry.version < 0 else tuple(one.name for one in plan.versions[entry.version].columns)
    masks = table.masks if "change_mask" in rows.layout.known else None
    control = (table.control or table.table) if table.control else None
    return Context(rows.layout, entry.role, plan.charset, control, columns, masks, tuple(plan.key_of(entry)))


def _inspection(plan: Plan, part: Part, index: int) -> Inspection:
    entry = plan.files[0]
    reader = FileReader(plan, 0, EVERYTHING)
    gap = inspect_gap(entry.path, part, index, partial(reader.gap, part))
    if gap is not None:
        return gap
    indices, rows = next((indices, rows) for indices, rows in part.rows if index in indices)
    one = rows.take(np.flatnonzero(indices == index))
    _, batch = reader.rows(one, part.unit)
    event = {name: value for name, value in batch.to_pylist()[0].items() if value is not None}
    context = context_of(plan, 0, one)
    raw_rows = one.raw()
    record = b"" if raw_rows is None else raw_rows[0].as_py()
    tree = _tree(plan, one, record, event, context)
    offset, length = int(part.offset[index]), int(part.length[index])
    return Inspection(entry.path, offset, length, record, tree, event, _note(plan, context))


def _tree(plan: Plan, rows: Rows, record: bytes, event: Mapping[str, Any], context: Context) -> Field:
    file = plan.files[0].probe
    if not record:
        texts = (rows.text(place)[0].as_py() for place in range(len(rows.layout.names)))
        values = [Cell(name, 0, 0, 0, 0, text) for name, text in zip(rows.layout.names, texts, strict=True)]
        return dissect(record, values, event, context)
    cells = (
        cut_json(record)
        if file.kind == "json"
        else cut_fields(record, file.dialect or DEFAULT, rows.layout.names, plan.charset)
    )
    if isinstance(cells, str):
        return Field("row", 0, len(record), record, None, cells)
    return dissect(record, cells, event, context)


def _note(plan: Plan, context: Context) -> str:
    entry = plan.files[0]
    table: TableName = plan.tables[entry.table].name
    if context.control is not None:
        return f"a row of the control table {context.control}"
    version = plan.versions[entry.version] if entry.version >= 0 else None
    parts = [f"table {table.label}"] if version is None else [f"table version {version.key} ({version.origin})"]
    if context.masks is not None:
        parts.append(f"masks are {context.masks.order}-endian, data columns from bit {context.masks.offset} on")
    return "; ".join(parts)


# --- field tree -------------------------------------------------------------------------------------------------------

_WHAT: Final = {
    "INSERT": "the new row",
    "UPDATE": "after image of the update",
    "DELETE": "the deleted row",
    "REFRESH": "a row of the full load",
    "TRUNCATE": "all rows of the table were deleted",
}


def dissect(record: bytes, cells: Sequence[Cell], event: Mapping[str, Any], context: Context) -> Field:
    """The field tree of a row from its ``cells`` (without bytes if ``record`` is empty) and its event. Never raises."""
    places = {name: place for place, name in enumerate(context.layout.names)}
    children = tuple(_field(record, cell, places[cell.name], context) for cell in cells)
    problems = event.get("problems") or ()
    code = problems[0]["code"] if problems else None
    return Field("row", 0, len(record), record, None, _row_meaning(event, context), children, code)


def _row_meaning(event: Mapping[str, Any], context: Context) -> str:
    if context.role == CONTROL:
        return f"a row of the control table {context.control}"
    if event["kind"] == "before":
        return "before image of the update with the same change_seq"
    return _WHAT.get(str(event.get("operation")), "a row with an unknown operation")


def _field(record: bytes, cell: Cell, place: int, context: Context) -> Field:
    """One field with its meaning and children."""
    name = next((known for known, at in context.layout.known.items() if at == place), None)
    problem: Problem | None = Problem.CHARSET if cell.garbled else None
    inside: tuple[Field, ...] = ()
    if context.role in (CONTROL, LOAD) or place in context.layout.data:
        meaning = _data_meaning(cell, place, context)
    elif cell.text is None:
        meaning = f"{_TITLES.get(name or '', 'a header column')}: NULL"
    else:
        meaning, wrong, inside = _header(record, cell, name, cell.text, context)
        problem = problem or wrong
    if cell.garbled:
        meaning = f"{meaning}; not in the character set {context.charset}; its bytes in hex"
    children = _around(record, cell, inside)
    raw = record[cell.start : cell.stop]
    return Field(cell.name, cell.start, len(raw), raw, cell.text, meaning, children, problem)


def _around(record: bytes, cell: Cell, inside: tuple[Field, ...]) -> tuple[Field, ...]:
    """The parts of a field, with the bytes that precede and follow its content."""
    if not inside:
        return ()
    before = _leaf(record, "opening", cell.start, cell.inner, None, "opening quote")
    behind = _leaf(record, "closing", cell.end, cell.stop, None, "closing quote, and the delimiter that follows")
    return tuple(part for part in (before, *inside, behind) if part.length or part not in (before, behind))


def _leaf(record: bytes, name: str, start: int, stop: int, value: str | None, meaning: str) -> Field:
    return Field(name, start, stop - start, record[start:stop], value, meaning)


def _data_meaning(cell: Cell, place: int, context: Context) -> str:
    if context.role == CONTROL:
        return "NULL" if cell.text is None else "a column of the control table"
    ordinal = context.layout.data.index(place) + 1 if place in context.layout.data else 0
    parts = [f"column {ordinal} of the table"]
    parts += ["in the key"] if cell.name in context.key else []
    parts += ["NULL"] if cell.text is None else []
    return ", ".join(parts)


# --- header columns ---------------------------------------------------------------------------------------------------

_TITLES: Final = {
    "change_seq": "order of the changes of the task",
    "change_oper": "operation",
    "change_mask": "columns that changed",
    "stream_position": "position in the source's log",
    "operation": "operation",
    "transaction_id": "transaction of the source",
    "timestamp": "time of the change, UTC",
    "partition_name": "period of the partition",
}

_Meaning = tuple[str, Problem | None, tuple[Field, ...]]


def _header(record: bytes, cell: Cell, name: str | None, text: str, context: Context) -> _Meaning:
    """The meaning, the problem and the children of a header column."""
    title = _TITLES.get(name or "", "an undocumented header column")
    if name == "change_mask":
        return _mask(record, cell, text, context)
    if name == "change_oper":
        known = LETTERS.get(text)
        return (f"{title}: {known.operation}, {known.kind}" if known else f"{title}: undocumented"), None, ()
    if name == "operation":
        known = OPERATIONS.get(text)
        return (f"{title}: {known.operation}, {known.kind}" if known else f"{title}: undocumented"), None, ()
    if name == "change_seq":
        return _sequence(record, cell, text, title)
    if name == "timestamp":
        time = time_of(text)
        wrong = None if time is not None or not text else Problem.TIME_RANGE
        if time is not None and time.year == 1970 and time.month == 1 and time.day == 1:
            return f"{title}: unknown when the row was written", None, ()
        return (title if time is None else f"{title}: {moment(time)}"), wrong, ()
    if name == "partition_name":
        return _partition(record, cell, text, title)
    return title, None, ()


def _parts(record: bytes, cell: Cell, parts: Sequence[tuple[str, int, int, str, str]]) -> tuple[Field, ...]:
    """Parts of a content (name, first and last character, value, meaning); without bytes if a character is not one
    byte."""
    step = int(cell.end - cell.inner == len(cell.text or ""))
    return tuple(
        _leaf(record, name, cell.inner + step * start, cell.inner + step * stop, value, meaning)
        for name, start, stop, value, meaning in parts
    )


def _sequence(record: bytes, cell: Cell, text: str, title: str) -> _Meaning:
    time: datetime | None = sequence_times(pa.array([text], pa.string()))[0][0].as_py()
    if time is None:
        return f"{title}: expected 35 digits that begin with a time", Problem.VALUE if text else None, ()
    shown = f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 10_000:02d}"
    number = text[16:].lstrip("0") or "0"
    pieces = [
        ("time", 0, 16, shown, "UTC on the Replicate server, usually of the commit, in hundredths of a second"),
        ("number", 16, 35, number, "one counter for the task; a before image has that of its update"),
    ]
    return f"{title}: {shown} and number {number}", None, _parts(record, cell, pieces)


def _partition(record: bytes, cell: Cell, text: str, title: str) -> _Meaning:
    span = partition_span(text)
    if span is None:
        return f"{title}: expected two times", Problem.VALUE if text else None, ()
    begin, end = (f"{edge:%Y-%m-%dT%H:%M:%S}" for edge in span)
    pieces = [
        ("begin", 0, 15, begin, "included"),
        ("separator", 15, 16, "_", ""),
        ("end", 16, 31, end, "not included"),
    ]
    return f"{title}: {begin} to {end}", None, _parts(record, cell, pieces)


# --- masks ------------------------------------------------------------------------------------------------------------


def _mask(record: bytes, cell: Cell, text: str, context: Context) -> _Meaning:
    settings = context.masks
    title = _TITLES["change_mask"]
    data = None if settings is None else bitmask.parse(pa.array([text], pa.string()), settings.spelling)[0][0].as_py()
    if settings is None or data is None:
        return f"{title}: expected hexadecimal digits or base64", Problem.MASK if settings else None, ()
    order = "a number: its last byte has bits 0 to 7" if settings.order == "big" else "byte 0 has bits 0 to 7"
    mask = int.from_bytes(data, "big" if settings.order == "big" else "little")
    meaning = f"{plural(len(data), 'byte')}; {order}"
    digits = _leaf(record, "digits", cell.inner, cell.end, text, meaning)
    bits = _bits(mask, settings.offset, cell.end, context)
    found = [name for at, name in enumerate(context.columns) if mask >> (settings.offset + at) & 1]
    named = found[:_NAMED] + ([f"{len(found) - _NAMED} more"] if len(found) > _NAMED else [])
    wrong = next((bit.problem for bit in bits if bit.problem is not None), None)
    return f"{title}: {joined(named) or 'none'}", None if wrong is None else Problem(wrong), (digits, *bits)


def _bits(mask: int, offset: int, at: int, context: Context) -> tuple[Field, ...]:
    """The bits of a mask, named by their columns, bit 0 first, and bits that are set after the last column."""
    header = [context.layout.names[place] for place in context.layout.header]
    children = []
    for bit in range(offset + len(context.columns)):
        is_set = bool(mask >> bit & 1)
        if bit < offset:
            name = header[bit] if bit < len(header) else f"header column {bit + 1}"
            meaning, wrong = f"bit {bit}, ordinal {bit + 1}: a header column, which never changes", is_set
        else:
            name = context.columns[bit - offset]
            meaning, wrong = f"bit {bit}, ordinal {bit + 1}, column {bit - offset + 1} of the table", False
        value = "changed" if is_set else "not changed"
        children.append(Field(name, at, 0, b"", value, meaning, (), Problem.MASK if wrong else None))
    behind = mask >> (offset + len(context.columns))
    if behind:
        first, last = offset + len(context.columns), mask.bit_length() - 1
        sentence = f"expected bits below {first}, found bits up to {last}"
        children.append(Field("beyond the columns", at, 0, b"", f"bits up to {last}", sentence, (), Problem.MASK))
    return tuple(children)


# === provenance of a split ============================================================================================


def pieces_of(plan: Plan) -> Iterator[list[Piece]]:
    """The provenance of each split: its file, and the facts of its table from all files: mask settings, key columns,
    and the columns and name of its version."""
    for split in plan.splits:
        entry = plan.files[split.file]
        version = None if entry.version < 0 else plan.versions[entry.version]
        file = replace(entry, table=-1, version=-1)  # indexes, which are resolved here
        described = None if version is None else (version.key, version.columns)
        context = (file, split.start, split.stop, plan.tables[entry.table], described, plan.charset)
        yield [Piece((entry.path,), repr(context))]
