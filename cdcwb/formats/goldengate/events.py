"""``events`` from Logdump text: the records of a window as Arrow columns, with every printed header field, tokens, and
the assigned transaction (docs/formats/goldengate.md §9)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.formats.arrays import Bools, EventBatch, Ints, from_matrix
from cdcwb.formats.dissector import Wanted
from cdcwb.formats.goldengate.contents import (
    HEADER,
    MISSING,
    ddl_items,
    file_header,
    items_of,
    statement,
)
from cdcwb.formats.goldengate.definitions import Definition, Reference, parse_metadata, split_name
from cdcwb.formats.goldengate.facts import (
    CLOSES,
    DDL,
    METADATA,
    RESTART_ABEND,
    Head,
    Open,
    RecordFacts,
    decoded_texts,
    heads_of,
    missing_bytes,
    token_texts,
    transactions_of,
)
from cdcwb.formats.goldengate.layout import CHARACTERS, IO_TYPES, shown, token_name
from cdcwb.formats.goldengate.plan import TrailContext, TrailState, WindowBorder
from cdcwb.formats.goldengate.records import FILE_HEADER, RECORD, TrailRecords
from cdcwb.formats.goldengate.segments import TextWindow
from cdcwb.formats.goldengate.table import RowImages
from cdcwb.formats.goldengate.versions import TrailFile, nearest_offsets
from cdcwb.formats.moments import EARLIEST, LATEST, from_iso, parse_zone, to_utc
from cdcwb.formats.records import Plan, Segments, SplitReader, Stream
from cdcwb.model import Kind, Operation, Problem
from cdcwb.words import plural, unique_names

__all__ = ["Assigned", "LogdumpReader", "assign"]


KINDS: Final = tuple(str(kind) for kind in Kind)
OPERATIONS: Final = tuple(str(operation) for operation in Operation)
_KIND: Final = {kind: number for number, kind in enumerate(KINDS)}
_UNKNOWN: Final = len(OPERATIONS)
_TYPES: Final = 256
_KIND_OF: Final = np.full(_TYPES + 1, _KIND[Kind.CONTROL])
_OPERATION_OF: Final = np.full(_TYPES + 1, _UNKNOWN)
for _number, _type in IO_TYPES.items():
    _KIND_OF[_number] = _KIND[str(_type.kind)]
    _OPERATION_OF[_number] = -1 if _type.operation is None else OPERATIONS.index(str(_type.operation))
_KIND_OF[RESTART_ABEND] = _KIND[Kind.CONTROL]  # a rollback, if a transaction is open
_IMAGED: Final = np.isin(KINDS, [str(kind) for kind in (Kind.CHANGE, Kind.BEFORE, Kind.AFTER)])
_DELETE: Final = OPERATIONS.index(str(Operation.DELETE))
_TEN: Final = 10 ** np.arange(9, -1, -1, dtype=np.int64)
_MOST_RBA: Final = 10**10


@dataclass(slots=True)
class Assigned:
    """The records of a window and what is assigned to them, in arrays over all its records; those that are not
    ``chosen`` are in the next window.

    * ``kind``: index into KINDS; ``operation``: into OPERATIONS, one more for a type that is not known, -1 for none
    * ``file``: of the capture; ``trail``: number in ``shared.files``
    * ``transaction``: index into ``named``, -1 for none; ``last``: TransInd closes it, -1 where it is not known
    * ``version``: number of the version of its table, -1 for none
    * ``utc``: microseconds since 1970; ``timed``: is it known
    * ``continues``: the location of the record that a fragment continues, by its number
    * ``heads``: records that others continue; ``problems``: of records, in order
    """

    window: TextWindow
    shared: TrailContext
    kind: Ints
    operation: Ints
    file: Ints
    trail: Ints
    transaction: Ints
    named: list[Open]
    last: Ints
    version: Ints
    utc: Ints
    timed: Bools
    repeated: Bools
    placed: Bools
    position: pa.Array
    continues: dict[int, str] = field(default_factory=dict)
    heads: dict[int, Head] = field(default_factory=dict)
    problems: dict[int, list[tuple[Problem, str]]] = field(default_factory=dict)

    @property
    def records(self) -> TrailRecords:
        """The records."""
        return self.window.records

    @property
    def facts(self) -> RecordFacts:
        """Their facts."""
        return self.window.facts

    def problem(self, record: int, code: Problem, sentence: str) -> None:
        """Adds a problem of a record."""
        self.problems.setdefault(record, []).append((code, sentence))

    def location(self, record: int) -> str:
        """The name of a record: its position, else its location in the capture."""
        is_first = (
            not self.facts.twin[record] and self.window.base + int(self.records.start[record]) not in self.shared.second
        )
        if self.placed[record] and is_first:
            return str(self.position[record].as_py())
        return f"{self.file[record]}:{self.offset(record)}"

    def offset(self, record: int) -> int:
        """The byte of the file at which a record begins."""
        return int(self.window.base + self.records.start[record] - self._starts[self.file[record]])

    _starts: Ints = field(default_factory=lambda: np.zeros(1, np.int64))


def assign(window: TextWindow, plan: Plan, stream: Stream, borders: Mapping[int, WindowBorder]) -> Assigned:
    """Everything about the records of a window. ``borders``: the transactions that are open at the starts of
    windows."""
    border, after = borders.get(window.base), borders.get(window.base + int(window.end[-1]))
    records, facts, shared = window.records, window.facts, plan.shared
    count = len(records)
    some = np.zeros(count, np.bool_)
    some[window.chosen] = True
    is_record = records.shape == RECORD
    known = np.where((facts.io < 0) | (facts.io >= _TYPES), _TYPES, facts.io)
    kind = np.where(is_record, _KIND_OF[known], _KIND[Kind.CONTROL])
    place = window.base + records.start
    starts = np.array(stream.starts)
    repeated = np.isin(place, shared.repeated)
    files: dict[TrailFile, int] = {}
    first = [files.setdefault(one, number) for number, one in enumerate(shared.files)]
    trail = np.array(first or [0])[shared.file_of(place)]
    numbers = np.array([one.shown for one in shared.files] or [0], np.int64)[trail]
    too_high = records.rba >= _MOST_RBA
    placed = (records.rba != MISSING) & (records.shape <= FILE_HEADER) & ~too_high
    out = Assigned(
        window=window,
        shared=shared,
        kind=kind,
        operation=np.where(is_record, _OPERATION_OF[known], -1),
        file=np.searchsorted(starts, place, side="right") - 1,
        trail=trail,
        transaction=np.full(count, -1),
        named=[],
        last=np.where(facts.trans < 0, -1, np.isin(facts.trans, CLOSES)),
        version=np.full(count, -1),
        utc=np.zeros(count, np.int64),
        timed=np.zeros(count, np.bool_),
        repeated=repeated,
        placed=placed,
        position=_positions(numbers, np.where(placed, records.rba, 0), ~placed),
        _starts=starts,
    )
    for fault in records.faults:
        out.problem(fault.record, fault.code, fault.sentence)
    for one in np.flatnonzero(too_high & some).tolist():
        out.problem(one, Problem.HEADER_VALUE, f"RBA {records.rba[one]} has more than ten digits: no position")
    for one in np.flatnonzero((out.operation == _UNKNOWN) & some).tolist():
        what = "a record of an unknown type" if facts.io[one] < 0 else f"unknown IOType {facts.io[one]}"
        out.problem(one, Problem.UNKNOWN_RECORD_TYPE, what)
    for one in np.flatnonzero(repeated & some).tolist():
        out.kind[one], out.operation[one], out.last[one] = _KIND[Kind.FILLER], -1, -1
        out.problem(one, Problem.REPEATED, "this record of the trail was printed before")
    for one in np.flatnonzero((facts.twin | np.isin(place, shared.second)) & some & ~repeated & is_record).tolist():
        what = "the before image of the same update" if facts.twin[one] else "a different record before it"
        out.problem(one, Problem.SAME_POSITION, f"RBA {records.rba[one]} is that of {what} too: both are kept")
    some &= ~repeated
    _transactions(out, some, border, after)
    _fragments(out, some)
    _halves(out, some)
    rows = np.flatnonzero(some & (records.shape <= FILE_HEADER))
    sequences = [one.shown for one in shared.files]
    end = MISSING if border is None else border.end
    for one, gap in missing_bytes(records, facts, rows, trail, sequences, end).items():
        lacks = f"{plural(gap.size, 'byte')} of the trail that precede this record, from {gap.start} on"
        out.problem(one, Problem.GAP, f"{lacks}, are not in the capture")
    _missing_files(out, rows, border)
    for one, head in out.heads.items():
        for sentence in head.gaps:
            out.problem(one, Problem.GAP, sentence)
    _versions(out, some)
    _times(out, some)
    return out


def _positions(sequence: Ints, rba: Ints, null: Bools) -> pa.Array:
    """Positions as text: ten digits of the trail file's number, ten of the RBA; null where ``null`` is true."""
    matrix = np.empty((len(rba), 20), np.uint8)
    for at, value in ((0, sequence), (10, rba)):
        matrix[:, at : at + 10] = value[:, None] // _TEN % 10 + ord("0")
    return from_matrix(matrix, 0, 20, null)


def _transactions(out: Assigned, some: Bools, border: WindowBorder | None, after: WindowBorder | None) -> None:
    facts = out.facts
    found = transactions_of(facts, some, border is not None)
    count = len(found.first)
    if not count:
        return
    firsts = [_first_texts(values, found.of, count) for values in (facts.csn, facts.xid)]
    for number in range(count):
        if number == 0 and found.leads and border is not None:
            out.named.append(border.open)
            continue
        first = int(found.first[number])
        name = out.location(first) if first >= 0 else ""
        out.named.append(Open(name, firsts[1][number], firsts[0][number], bool(found.aborted[number])))
    if after is not None and not found.closed[-1]:
        out.named[-1] = after.open
    out.transaction = found.of
    aborts = facts.abort & (found.of >= 0)
    out.kind[aborts] = _KIND[Kind.ROLLBACK]
    _conflicts(out, found.of)


def _first_texts(values: pa.Array, of: Ints, count: int) -> list[str | None]:
    """The first text of the records of each transaction."""
    rows = np.flatnonzero((of >= 0) & values.is_valid().to_numpy(zero_copy_only=False))[::-1]
    row = np.full(count, -1)
    row[of[rows]] = rows
    found: list[str | None] = values.take(pa.array(row, mask=row < 0)).to_pylist()
    return found


def _conflicts(out: Assigned, of: Ints) -> None:
    """Tokens that contradict the first one of their transaction."""
    for values, what in ((out.facts.csn, "LOGCSN"), (out.facts.xid, "TRANID")):
        stated = pa.array([one.csn if what == "LOGCSN" else one.xid for one in out.named], pa.string())
        first = stated.take(pa.array(of, mask=of < 0))
        wrong = pc.fill_null(pc.not_equal(values, first), False).to_numpy(zero_copy_only=False)
        for one in np.flatnonzero(wrong).tolist():
            sentence = f"token {what} is {values[one]}, that of an earlier record of its transaction is {first[one]}"
            out.problem(one, Problem.CONFLICT, sentence)


def _fragments(out: Assigned, some: Bools) -> None:
    facts = out.facts
    out.heads, lost = heads_of(out.records, facts, some)
    fragments = some & facts.fragment
    out.kind[fragments], out.operation[fragments] = _KIND[Kind.FRAGMENT], -1
    for head in out.heads.values():
        name = out.location(head.record)
        for one in (*head.rest, *(record for lob in head.lobs for record in lob.records)):
            out.continues[one] = name
    for one in lost:
        out.problem(one, Problem.GAP, "the record that this one continues is not in the capture")


def _halves(out: Assigned, some: Bools) -> None:
    """The updates that are halves of one: a before image, and the after image directly after it."""
    facts = out.facts
    cores = np.flatnonzero(some & facts.member & ~facts.fragment)
    half, before = facts.half[cores], facts.before[cores]
    out.kind[cores[before]] = _KIND[Kind.BEFORE]
    same = np.zeros(len(cores), np.bool_)
    table, of = facts.table[cores], out.transaction[cores]
    same[1:] = (table[1:] == table[:-1]) & (of[1:] == of[:-1])
    waits = np.append(False, before[:-1])[: len(cores)]
    out.kind[cores[half & ~before & waits & same]] = _KIND[Kind.AFTER]


def _missing_files(out: Assigned, rows: Ints, border: WindowBorder | None) -> None:
    """Reports trail files that are missing in the middle of a transaction, at the first record after them."""
    members = rows[out.facts.member[rows]]
    before = out.trail[members[:1]] if border is None else out.shared.file_of(border.last)
    trail = np.append(before, out.trail[members])
    for row in np.flatnonzero(trail[1:] != trail[:-1]).tolist():
        one, then = (out.shared.files[trail[at]] for at in (row, row + 1))
        is_next = one.trail == then.trail and then.order - one.order in (0, 1)
        if not is_next and out.facts.trans[members[row]] in (1, 2):
            names = (file.name or f"number {file.shown}" for file in (one, then))
            out.problem(int(members[row]), Problem.GAP, "the trail files between {} and {} are missing".format(*names))


def _versions(out: Assigned, some: Bools) -> None:
    facts, records, lookup = out.facts, out.records, out.shared.lookup
    for one in np.flatnonzero(some & (facts.io == METADATA)).tolist():
        out.version[one] = lookup.at_record(int(out.file[one]), out.offset(one))
    rows = np.flatnonzero(some & facts.member & ((facts.table >= 0) | (records.name_index != MISSING)))
    if not len(rows):
        return
    index, table, trail = records.name_index[rows], facts.table[rows], out.trail[rows]
    keys = np.stack([trail, table, index], axis=1)
    found, which = np.unique(keys, axis=0, return_inverse=True)
    which = which.reshape(-1)
    place = out.window.base + records.start[rows]
    for number, (of, code, one) in enumerate(found.tolist()):
        mine = np.flatnonzero(which == number)
        name = facts.tables[code] if code >= 0 else None
        out.version[rows[mine]] = lookup.in_force(out.shared.files[of], one, name, place[mine])


def _times(out: Assigned, some: Bools) -> None:
    records, shared = out.records, out.shared
    is_known = some | out.repeated
    known = is_known & (records.shape <= FILE_HEADER) & (records.moment != MISSING)
    if shared.options.time_zone is not None:
        out.utc, doubtful = to_utc(records.moment, parse_zone(shared.options.time_zone))
        for one in np.flatnonzero(doubtful & known & (records.julian == MISSING)).tolist():
            zone = shared.options.time_zone
            sentence = f"the printed time is ambiguous or missing in {zone}: the earlier one is used"
            out.problem(one, Problem.TIME_ZONE, sentence)
        out.timed = known.copy()
    else:
        for file in np.unique(out.file[known]).tolist():
            if shared.shown.get(file):
                rows = np.flatnonzero(known & (out.file == file))
                places = out.window.base + records.start[rows]
                out.utc[rows] = records.moment[rows] - nearest_offsets(places, shared.shown[file])
                out.timed[rows] = True
    julian = is_known & (records.shape <= FILE_HEADER) & (records.julian != MISSING)
    out.utc = np.where(julian, records.julian, out.utc)
    out.timed |= julian
    for one in np.flatnonzero(is_known & (records.shape == FILE_HEADER)).tolist():
        created = from_iso(file_header(records.data(one)).get("CreationTime"))
        if created is not None:
            out.utc[one], out.timed[one] = created, True
    wrong = out.timed & ((out.utc < EARLIEST) | (out.utc > LATEST))
    for one in np.flatnonzero(wrong).tolist():
        out.problem(one, Problem.TIME_RANGE, "the time is outside the years 1 to 9999")
    out.timed &= ~wrong


# --- events -----------------------------------------------------------------------------------------------------------

_TEXTS: Final = (
    "IO Time", "Operation", "Len", "RBA", "Name", "Trail", "LOGCSN", "TRANID", "ORAROWID", "csn", "xid", "continues",
)  # fmt: skip
_NAMES: Final = (*HEADER, *_TEXTS)
_LOGCSN, _TRANID, _ROWID = 0x4C, 0x36, 0x52
_IDS: Final = (_LOGCSN, _TRANID, _ROWID)
_CODES: Final = 256


class LogdumpReader(SplitReader):
    """Reads the records of Logdump text."""

    def __init__(self, plan: Plan, stream: Stream, state: TrailState) -> None:
        self._plan, self._stream, self._state = plan, stream, state
        self._window: Segments | None = None
        self._known: Assigned
        self._images: RowImages

    def columns(self, segments: Segments, records: Ints, wanted: Wanted) -> tuple[Ints, dict[str, pa.Array]]:
        """See :meth:`cdcwb.formats.records.SplitReader.columns`."""
        assert isinstance(segments, TextWindow)
        if segments is not self._window:
            self._window = segments
            self._known = self.assigned(segments)
            self._images = _images(self._known)
        rows = segments.chosen[np.cumsum(segments.record)[records] - 1]
        keep = _wanted(self._known, rows, wanted)
        batch = _batch(self._known, self._images, rows[keep], wanted)
        return records[keep], dict(zip(batch.schema.names, batch.columns, strict=True))

    def widths(self, window: TextWindow, names: Collection[str]) -> dict[str, int]:
        """One more than the highest column index in the records of tables, by printed name."""
        known = self.assigned(window)
        images, facts = _images(known), known.facts
        chosen = [code for code, name in enumerate(facts.tables) if name in names]
        rows = window.chosen[np.isin(facts.table[window.chosen], chosen)]
        most = np.zeros(len(facts.tables), np.int64)
        for order in ("little", "big"):
            mine = rows[np.array([known.shared.bodies[one].order == order for one in known.file[rows].tolist()], bool)]
            cells = images.cells(mine, order)
            np.maximum.at(most, facts.table[mine][cells.row], cells.index + 1)
        columns = known.records.columns
        some = np.isin(columns.record, rows) & (columns.number < 1 << 16)
        np.maximum.at(most, facts.table[columns.record[some]], columns.number[some] + 1)
        return {facts.tables[code]: int(most[code]) for code in chosen}

    def assigned(self, window: TextWindow) -> Assigned:
        """What is assigned to the records of a window."""
        return assign(window, self._plan, self._stream, self._state.windows)


def _wanted(known: Assigned, rows: Ints, wanted: Wanted) -> Bools:
    """Records that match the filters, as far as known before they are decoded."""
    keep = np.ones(len(rows), np.bool_)
    if wanted.kinds is not None:
        keep &= np.array([kind in wanted.kinds for kind in KINDS])[known.kind[rows]]
    if wanted.timed:
        keep &= known.timed[rows]
    if wanted.transactions is not None:
        chosen = np.array([*(one.name in wanted.transactions for one in known.named), False])
        keep &= chosen[known.transaction[rows]]
    if wanted.tables is not None:  # if no name is printed, the table comes from the version
        names = [*map(_split, known.facts.tables), (None, None)]
        chosen = np.array(
            [name is None or name in wanted.tables or f"{schema}.{name}" in wanted.tables for schema, name in names]
        )
        keep &= chosen[known.facts.table[rows]]
    return keep


def _split(name: str) -> tuple[str | None, str | None]:
    return split_name(name) if name else (None, None)


def _images(known: Assigned) -> RowImages:
    before = (known.kind == _KIND[Kind.BEFORE]) | (known.operation == _DELETE)
    return RowImages(
        known.records, known.facts, known.heads, bodies=known.shared.bodies, file=known.file, version=known.version,
        versions=known.shared.versions, imaged=_IMAGED[known.kind], before=before, charset=known.shared.options.charset,
    )  # fmt: skip


def _batch(known: Assigned, images: RowImages, rows: Ints, wanted: Wanted) -> pa.RecordBatch:
    """The events of some records (rising numbers)."""
    batch = EventBatch(len(rows), wanted)
    batch.put("kind", pa.array(KINDS).take(pa.array(known.kind[rows])))
    _types(batch, known, rows)
    position = known.position.take(pa.array(rows))
    batch.put("position", position)
    transaction, last = known.transaction[rows], known.last[rows]
    names = pa.array([one.name for one in known.named], pa.string())
    batch.put("transaction_id", names.take(pa.array(transaction, mask=transaction < 0)))
    batch.put("last_in_transaction", pa.array(last == 1, mask=last < 0))
    ends = np.flatnonzero((last == 1) & (transaction >= 0) & known.placed[rows])
    if len(ends):
        batch.put("commit_position", position.take(pa.array(ends)), ends)
    times = pa.array(known.utc[rows], mask=~known.timed[rows])
    batch.put("changed_at", times.cast(model.EVENTS.field("changed_at").type))
    _tables(batch, known, rows)
    if wanted.needs("headers"):
        _headers(batch, known, rows)
    if wanted.images:
        images.fill(batch, rows)
    for at in np.flatnonzero(np.isin(rows, np.array(sorted(known.problems), np.int64))).tolist():
        for code, sentence in known.problems[int(rows[at])]:
            batch.problem(at, code, sentence)
    return batch.build()


def _types(batch: EventBatch, known: Assigned, rows: Ints) -> None:
    """Record types and operations."""
    records, io, operation = known.records, known.facts.io[rows], known.operation[rows]
    charset = known.shared.options.charset
    texts = pa.array([*OPERATIONS, None]).take(pa.array(np.minimum(operation, _UNKNOWN), mask=operation < 0))
    batch.put("operation", texts)
    number = np.where((io >= 0) & (io < _TYPES), io, _TYPES)
    names = pa.array([IO_TYPES[one].name if one in IO_TYPES else None for one in range(_TYPES + 1)], pa.string())
    types = names.take(pa.array(number))
    batch.put("record_type", types)
    is_record = records.shape[rows] == RECORD
    printed = np.flatnonzero(is_record & ~types.is_valid().to_numpy(zero_copy_only=False))
    batch.constant("record_type", "FileHeader", np.flatnonzero(records.shape[rows] == FILE_HEADER))
    if len(printed):
        batch.put("record_type", decoded_texts(records.operation.take(pa.array(rows[printed])), charset), printed)
    odd = np.flatnonzero(operation == _UNKNOWN)
    if len(odd):
        shown_ = decoded_texts(records.operation.take(pa.array(rows[odd])), charset).to_pylist()
        spelled = [f"UNKNOWN({one if one >= 0 else text})" for one, text in zip(io[odd].tolist(), shown_, strict=True)]
        batch.put("operation", pa.array(spelled, pa.string()), odd)


def _tables(batch: EventBatch, known: Assigned, rows: Ints) -> None:
    """Schemas, tables and their versions: by name if printed, else by version."""
    facts, versions = known.facts, known.shared.versions
    version = known.version[rows]
    table = np.where(known.records.shape[rows] == RECORD, facts.table[rows], MISSING)
    keys = pa.array([one.key for one in versions], pa.string())
    batch.put("table_version", keys.take(pa.array(version, mask=version < 0)))
    names = [*map(_split, facts.tables), *((one.schema, one.table) for one in versions), (None, None)]
    count = len(facts.tables)
    empty = np.array([*(not name for name in facts.tables), True])[table]
    code = np.where(empty, np.where(version < 0, len(names) - 1, count + version), table)
    schemas, tables = ([one[at] for one in names] for at in range(2))
    odd = np.flatnonzero((code == len(names) - 1) & np.isin(facts.io[rows], (DDL, METADATA)))
    for at in odd.tolist():
        schema, name = _stated_table(known, int(rows[at]))
        schemas.append(schema)
        tables.append(name)
        code[at] = len(tables) - 1
    batch.put("schema_name", pa.array(schemas, pa.string()).take(pa.array(code)))
    batch.put("table_name", pa.array(tables, pa.string()).take(pa.array(code)))


def _stated_table(known: Assigned, record: int) -> tuple[str | None, str | None]:
    """Schema and table that a DDL record or a definition is about."""
    if known.facts.io[record] == DDL:
        found = items_of(known.records.data(record), known.shared.options.charset)
        items = {item.code: item.value for item in found if item.whole}
        return items.get("B3") or None, items.get("B4") or None
    text = known.records.definition.get(record)
    stated = parse_metadata(text) if text else None
    return (stated.schema, stated.table) if isinstance(stated, (Definition, Reference)) else (None, None)


@cache
def _characters(name: str) -> pa.Array:
    return pa.array([shown(name, code) for code in range(_CODES)], pa.string())


def _headers(batch: EventBatch, known: Assigned, rows: Ints) -> None:
    records, pool = known.records, batch.pool
    charset = known.shared.options.charset
    count = len(rows)
    places = np.zeros((count, len(_NAMES)), np.int64)
    absent = np.ones((count, len(_NAMES)), np.bool_)
    taken = pa.array(rows)

    def put(name: str, there: Bools, where: Ints) -> None:
        at = _NAMES.index(name)
        absent[:, at], places[:, at] = ~there, where

    def numbers(name: str, values: Ints) -> None:
        there = values != MISSING
        if there.any():
            filled = np.where(there, values, 0)
            is_letter = name in CHARACTERS and int(filled.max()) < _CODES and int(filled.min()) >= 0
            put(name, there, pool.add(_characters(name))[0] + filled if is_letter else pool.add_integers(filled))

    def texts(name: str, values: pa.Array) -> None:
        put(name, values.is_valid().to_numpy(zero_copy_only=False), pool.add(values))

    def coded(name: str, values: Sequence[str | None], codes: Ints) -> None:
        array = pa.array([*values, None], pa.string())
        first = pool.add(array)[0]
        put(name, array.is_valid().to_numpy(zero_copy_only=False)[codes], first + np.where(codes < 0, 0, codes))

    values = records.values[rows]
    for at, name in enumerate(HEADER):
        value = values[:, at]
        if name == "TransInd":
            value = np.where(value == MISSING, records.image_trans[rows], value)
        numbers(name, records.side[rows] if name == "BeforeAfter" else value)
    texts("IO Time", decoded_texts(pc.coalesce(records.io_time, records.line_time).take(taken), charset))
    texts("Operation", decoded_texts(records.operation.take(taken), charset))
    numbers("Len", records.length[rows])
    numbers("RBA", records.rba[rows])
    texts("Name", decoded_texts(records.name.take(taken), charset))
    coded("Trail", [one.name for one in known.shared.files], known.trail[rows])
    for name, number in (("LOGCSN", _LOGCSN), ("TRANID", _TRANID), ("ORAROWID", _ROWID)):
        texts(name, token_texts(records, number, charset).take(taken))
    coded("csn", [one.csn for one in known.named], known.transaction[rows])
    coded("xid", [one.xid for one in known.named], known.transaction[rows])
    heads = [known.continues.get(one) for one in rows.tolist()] if known.continues else [None] * count
    texts("continues", pa.array(heads, pa.string()))
    _group(batch, rows, places, absent, _more(known, rows))


def _group(
    batch: EventBatch,
    rows: Ints,
    places: Ints,
    absent: Bools,
    more: dict[int, list[tuple[str, str | None]]],
) -> None:
    """Groups records whose maps have the same names. ``more``: further entries of some."""
    plain = np.ones(len(rows), np.bool_)
    plain[list(more)] = False
    batch.entries("headers", _NAMES, places[plain], np.flatnonzero(plain), absent[plain])
    grouped: dict[tuple[str, ...], list[int]] = {}
    for at, pairs in more.items():
        names = [*(_NAMES[one] for one in np.flatnonzero(~absent[at])), *(name for name, _ in pairs)]
        grouped.setdefault(tuple(unique_names(names)), []).append(at)
    for names_, members in grouped.items():
        there = np.flatnonzero(~absent[members[0]])
        columns = [places[np.ix_(np.array(members), there)]]
        for column in range(len(more[members[0]])):
            texts = pa.array([more[at][column][1] for at in members], pa.string())
            columns.append(batch.pool.add(texts)[:, None])
        batch.entries("headers", names_, np.concatenate(columns, axis=1), np.array(members), None)


def _more(known: Assigned, rows: Ints) -> dict[int, list[tuple[str, str | None]]]:
    """Further printed or inferred facts of records, by their places in ``rows``."""
    records, facts = known.records, known.facts
    has_key = (records.column("SyskeyLen") > 0) & (np.diff(records.body_at) > 0)
    others = ~np.isin(records.tokens.number, _IDS)
    odd = (records.shape == FILE_HEADER) | (facts.io == DDL) | has_key
    odd |= records.transaction.is_valid().to_numpy(zero_copy_only=False)
    odd[records.tokens.record[others]] = True
    counts = np.bincount(records.tokens.record, minlength=len(records))
    odd |= counts > len(_IDS)
    odd[[*known.heads, *records.user_tokens]] = True
    found = {at: _facts(known, int(rows[at]), bool(has_key[rows[at]])) for at in np.flatnonzero(odd[rows]).tolist()}
    return {at: pairs for at, pairs in found.items() if pairs}


def _facts(known: Assigned, record: int, has_key: bool) -> list[tuple[str, str | None]]:
    records, charset = known.records, known.shared.options.charset
    out: list[tuple[str, str | None]] = []
    head = known.heads.get(record)
    if head is not None and head.count > 1:
        out.append(("fragments", str(head.count)))
    if has_key:
        out.append(("syskey", records.data(record)[: int(records.column("SyskeyLen")[record])].hex()))
    for name, values in (("TRANSID", records.transaction), ("TRANSID number", records.transaction_number)):
        if values[record].is_valid:
            out.append((name, values[record].as_py().decode("utf-8", "replace")))
    out += _other_tokens(records, record, charset)
    out += records.user_tokens.get(record, [])
    if records.shape[record] == FILE_HEADER:
        out += file_header(records.data(record)).items()
    elif known.facts.io[record] == DDL:
        items = ddl_items(records.data(record), charset)
        stated = statement(items)
        out += [] if stated is None else [("statement", stated)]
        out += items.items()
    return out


def _other_tokens(records: TrailRecords, record: int, charset: str) -> list[tuple[str, str | None]]:
    """The tokens of a record but the first LOGCSN, TRANID and ORAROWID, each value once."""
    tokens = records.tokens
    out: list[tuple[str, str | None]] = []
    first, done = set(_IDS), set()
    for row in range(*np.searchsorted(tokens.record, [record, record + 1]).tolist()):
        number, value = int(tokens.number[row]), tokens.value[row].as_py()
        if number in first or (number, value) in done:
            first.discard(number)
        else:
            out.append(
                (token_name(number, tokens.name[row].as_py().decode("utf-8", "replace")), _value_text(value, charset))
            )
        done.add((number, value))
    return out


def _value_text(value: bytes, charset: str) -> str:
    """A token's value: text if decodable, its zero-terminated parts separated by a blank; else hex."""
    try:
        text = value.rstrip(b"\0").decode(charset)
    except UnicodeDecodeError:
        return value.hex()
    text = text.replace("\0", " ").rstrip(" ")
    return text if text.isprintable() else value.hex()
