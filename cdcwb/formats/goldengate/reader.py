"""``events`` from Logdump text: the records of a split as Arrow batches (docs/formats/goldengate.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from cdcwb import model
from cdcwb.formats.arrays.texts import from_matrix, slices
from cdcwb.formats.base import EVERYTHING, Wanted
from cdcwb.formats.event_batch import EventBatch
from cdcwb.formats.files import Source, open_source
from cdcwb.formats.goldengate.assignment import KINDS, OPERATIONS, Assigned, Behind, assign, names_of
from cdcwb.formats.goldengate.bodies import Bodies
from cdcwb.formats.goldengate.ddl import items_of
from cdcwb.formats.goldengate.ddl import name as ddl_name
from cdcwb.formats.goldengate.ddl import owner as ddl_owner
from cdcwb.formats.goldengate.definition_text import parse_metadata
from cdcwb.formats.goldengate.definitions import Definition, Reference
from cdcwb.formats.goldengate.facts import IO_TYPES
from cdcwb.formats.goldengate.headers import fill_headers
from cdcwb.formats.goldengate.marks import DDL, METADATA, spans, texts_of
from cdcwb.formats.goldengate.plan import FileEntry, Part, Plan
from cdcwb.formats.goldengate.records import MISSING, Bytes, Ints, Shape
from cdcwb.formats.goldengate.versions import Lookup
from cdcwb.formats.selecting import select
from cdcwb.model import Kind, OffsetUnit, Operation

__all__ = ["CHUNK", "FORMAT", "Files", "PartReader", "part_readers", "read_split"]

FORMAT: Final = "goldengate"
CHUNK: Final = 8192
"""Records that become one Arrow batch."""

_IMAGED: Final = np.isin(KINDS, [str(kind) for kind in (Kind.CHANGE, Kind.BEFORE, Kind.AFTER)])
_FILLER: Final = KINDS.index(str(Kind.FILLER))
_DELETE: Final = OPERATIONS.index(str(Operation.DELETE))
_BEFORE: Final = KINDS.index(str(Kind.BEFORE))
_UNKNOWN: Final = len(OPERATIONS)
_TYPES: Final = 256
_TEN: Final = 10 ** np.arange(9, -1, -1, dtype=np.int64)


class Files:
    """The files of a plan, opened when they are first asked for; close it after use."""

    def __init__(self, files: list[FileEntry]) -> None:
        self._files = files
        self._open: dict[int, Source] = {}

    def read(self, file_index: int, start: int, stop: int) -> Bytes:
        """Bytes of a file."""
        if file_index not in self._open:
            self.close()
            self._open[file_index] = open_source(self._files[file_index].path, "binary")
        return self._open[file_index].read(start, stop)

    def close(self) -> None:
        """Lets them go."""
        for source in self._open.values():
            source.close()
        self._open.clear()


def read_split(plan: Plan, parts: Sequence[Part], wanted: Wanted = EVERYTHING) -> Iterator[pa.RecordBatch]:
    """The events of some parts of Logdump text in capture order, as batches of :data:`cdcwb.model.EVENTS`."""
    for reader in part_readers(plan, parts, wanted):
        for rows in reader.chunks():
            yield from select(reader.batch(rows), wanted)


def part_readers(plan: Plan, parts: Sequence[Part], wanted: Wanted = EVERYTHING) -> Iterator[PartReader]:
    """A reader for each of some parts."""
    lookup = plan.lookup()
    files = Files(plan.files)
    try:
        for part in parts:
            yield PartReader(plan, part, lookup, files, wanted)
    finally:
        files.close()


class PartReader:
    """Reads one part: what its records are, and batches of any of them."""

    def __init__(self, plan: Plan, part: Part, lookup: Lookup, files: Files, wanted: Wanted) -> None:
        self.plan = plan
        self.part = part
        self.file = plan.files[part.file]
        self.lookup = lookup
        self.wanted = wanted
        self.charset = plan.settings.charset
        text = files.read(part.file, part.start, part.stop)
        beyond = files if not any(one.follows for one in part.stretches) else Files(plan.files)
        try:
            behind = Behind(beyond.read, self.charset, wanted.images)
            self.given: Assigned = assign(text, part, self.file, plan.settings, lookup, behind, wanted.images)
        finally:
            if beyond is not files:
                beyond.close()
        self.names = [*names_of(self.given.marks), (None, None)]
        if wanted.images:
            self.bodies = Bodies(self.given, self.file, plan, self.charset)

    def chunks(self) -> Iterator[Ints]:
        """The records that are wanted, so many at a time."""
        rows = np.flatnonzero(self._kept())
        for first in range(0, len(rows), CHUNK):
            yield rows[first : first + CHUNK]

    def _kept(self) -> np.ndarray:
        """Records that the filters let through, as far as that is known before they are decoded."""
        given, wanted = self.given, self.wanted
        keep = np.ones(len(given.kind), dtype=np.bool_)
        if wanted.kinds is not None:
            keep &= np.array([kind in wanted.kinds for kind in KINDS])[given.kind]
        if wanted.timed:
            keep &= given.timed
        if wanted.transactions is not None:
            good = np.array([*(one.name in wanted.transactions for one in given.named), False])
            keep &= good[given.transaction]
        if wanted.tables is not None:
            # where no name is printed, something else tells the table
            named = [
                table is None or table in wanted.tables or f"{schema}.{table}" in wanted.tables
                for schema, table in self.names
            ]
            keep &= np.array(named)[given.marks.table]
        return keep

    # --- a batch ------------------------------------------------------------------------------------------------------

    def batch(self, rows: Ints) -> pa.RecordBatch:
        """The events of some records (rising)."""
        given, records = self.given, self.given.records
        batch = EventBatch(len(rows), self.wanted)
        batch.constant("format", FORMAT)
        batch.constant("file", self.file.path)
        batch.constant("file_index", self.part.file)
        batch.constant("offset_unit", str(OffsetUnit.BYTE))
        batch.put("offset", pa.array(records.start[rows]))
        batch.put("length", pa.array(records.stop[rows] - records.start[rows]))
        batch.put("kind", pa.array(KINDS).take(pa.array(given.kind[rows])))
        self._types(batch, rows)
        self._positions(batch, rows)
        self._tables(batch, rows)
        fill_headers(batch, given, rows, self.charset)
        images = self.bodies.images(batch, rows) if self.wanted.images else {}
        if self.wanted.raw:
            base = given.base
            batch.put("raw", slices(records.text, records.start[rows] - base, records.stop[rows] - base))
        for at in np.flatnonzero(np.isin(rows, np.array(sorted(given.problems), dtype=np.int64))).tolist():
            for code, sentence in given.problems[int(rows[at])]:
                batch.problem(at, code, sentence)
        return _with(batch.build(), images)

    def _types(self, batch: EventBatch, rows: Ints) -> None:
        """Record types and operations."""
        given, records, io = self.given, self.given.records, self.given.marks.io[rows]
        operation = given.operation[rows]
        batch.put(
            "operation",
            pa.array([*OPERATIONS, None]).take(pa.array(np.minimum(operation, _UNKNOWN), mask=operation < 0)),
        )
        known = np.where((io >= 0) & (io < _TYPES), io, _TYPES)
        names = pa.array([IO_TYPES[one].name if one in IO_TYPES else None for one in range(_TYPES + 1)], pa.string())
        types = names.take(pa.array(known))
        printed = np.flatnonzero((records.shape[rows] == Shape.RECORD) & ~_valid(types))
        batch.put("record_type", types)
        header = np.flatnonzero(records.shape[rows] == Shape.FILE_HEADER)
        batch.constant("record_type", "FileHeader", header)
        if len(printed):
            texts = texts_of(spans(records.text, records.operation_at[rows[printed]]), self.charset)
            batch.put("record_type", texts, printed)
        odd = np.flatnonzero(operation == _UNKNOWN)
        if len(odd):
            shown = texts_of(spans(records.text, records.operation_at[rows[odd]]), self.charset).to_pylist()
            spelled = [
                f"UNKNOWN({int(number) if number >= 0 else text})"
                for number, text in zip(io[odd].tolist(), shown, strict=True)
            ]
            batch.put("operation", pa.array(spelled, pa.string()), odd)

    def _positions(self, batch: EventBatch, rows: Ints) -> None:
        """Positions, transactions and times."""
        given, records = self.given, self.given.records
        shown = np.array([*(one.shown for one in given.files), 0], dtype=np.int64)[given.file[rows]]
        rba = records.rba[rows]
        placed = (rba != MISSING) & (records.shape[rows] <= Shape.FILE_HEADER)
        position = positions(shown, np.where(placed, rba, 0), ~placed)
        batch.put("position", position)
        transaction = given.transaction[rows]
        names = pa.array([one.name for one in given.named], pa.string())
        batch.put("transaction_id", names.take(pa.array(transaction, mask=transaction < 0)))
        last = given.last[rows]
        batch.put("last_in_transaction", pa.array(last == 1, mask=last < 0))
        ends = np.flatnonzero((last == 1) & (transaction >= 0) & placed)
        if len(ends):
            batch.put("commit_position", position.take(pa.array(ends)), ends)
        kind = model.EVENTS.field("changed_at").type
        batch.put("changed_at", pa.array(given.utc[rows], mask=~given.timed[rows]).cast(kind))

    def _tables(self, batch: EventBatch, rows: Ints) -> None:
        """Schemas, tables and their versions."""
        given = self.given
        version, table = given.version[rows], given.marks.table[rows]
        table = np.where(given.records.shape[rows] == Shape.RECORD, table, -1)
        versions = self.plan.versions
        keys = pa.array([one.key for one in versions], pa.string())
        batch.put("table_version", keys.take(pa.array(version, mask=(version < 0) | given.repeated[rows])))
        # by name where one is printed, else by version
        schemas = [*(schema for schema, _ in self.names[:-1]), *(one.schema for one in versions), None]
        tables = [*(name for _, name in self.names[:-1]), *(one.table for one in versions), None]
        empty = np.array([name is None for _, name in self.names])[table]
        code = np.where(empty, np.where(version < 0, -1, len(self.names) - 1 + version), table)
        index = pa.array(np.where(code < 0, len(tables) - 1, code))
        schema, name = pa.array(schemas, pa.string()).take(index), pa.array(tables, pa.string()).take(index)
        odd = np.flatnonzero((code < 0) & np.isin(given.marks.io[rows], (DDL, METADATA)))
        if len(odd):
            told = [self._told(int(rows[at])) for at in odd.tolist()]
            places = np.arange(len(rows))
            places[odd] = len(rows) + np.arange(len(odd))
            taken = pa.array(places)
            schema = pa.concat_arrays([schema, pa.array([one[0] for one in told], pa.string())]).take(taken)
            name = pa.concat_arrays([name, pa.array([one[1] for one in told], pa.string())]).take(taken)
        batch.put("schema_name", schema)
        batch.put("table_name", name)

    def _told(self, index: int) -> tuple[str | None, str | None]:
        """Schema and table that a DDL record or a definition speaks of."""
        if self.given.marks.io[index] == DDL:
            found = items_of(self.given.body(index), self.charset)
            items = {item.code: item.value for item in found if item.whole}
            return ddl_owner(items), ddl_name(items)
        printed = self.given.records.extras.get(index)
        told = parse_metadata(printed.text) if printed is not None and printed.text else None
        return (told.schema, told.table) if isinstance(told, (Definition, Reference)) else (None, None)


def _valid(values: pa.Array) -> np.ndarray:
    there: np.ndarray = values.is_valid().to_numpy(zero_copy_only=False)
    return there


def _with(batch: pa.RecordBatch, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    if not columns:
        return batch
    arrays = [
        columns[name].cast(field.type) if name in columns else batch.column(name)
        for name, field in zip(batch.schema.names, batch.schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=model.EVENTS)


def positions(sequence: Ints, rba: Ints, null: np.ndarray) -> pa.Array:
    """Positions as text: ten digits of the trail file's number, ten of the RBA; null where ``null`` is true."""
    matrix = np.empty((len(rba), 20), dtype=np.uint8)
    for at, value in ((0, sequence), (10, rba)):
        matrix[:, at : at + 10] = value[:, None] // _TEN % 10 + ord("0")
    return from_matrix(matrix, 0, 20, null)
