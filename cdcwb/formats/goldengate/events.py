"""``events`` from Logdump text: the records of a window as Arrow columns, with every printed header field, tokens, and
the assigned transaction (docs/formats/goldengate.md §9)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.formats.arrays import EventBatch, as_array, integers, table_names
from cdcwb.formats.dissector import Wanted
from cdcwb.formats.goldengate import layout
from cdcwb.formats.goldengate.contents import ddl_items, file_header, items_of, statement
from cdcwb.formats.goldengate.definitions import Definition, Reference, TrailFile, names_of, parse_metadata
from cdcwb.formats.goldengate.images import RowImages, heads_of
from cdcwb.formats.goldengate.layout import MISSING
from cdcwb.formats.goldengate.plan import TrailContext, TrailState, WindowBorder
from cdcwb.formats.goldengate.records import (
    CLOSES,
    FILE_HEADER,
    LOGCSN,
    RECORD,
    ROWID,
    TRANID,
    Fault,
    decoded_texts,
    text_of,
    token_texts,
)
from cdcwb.formats.goldengate.segments import OpenTransaction, TextWindow, transactions_of
from cdcwb.formats.kernels import Bools, Ints
from cdcwb.formats.moments import EARLIEST, LATEST, from_iso, parse_zone, to_utc
from cdcwb.formats.records import Plan, Segments, SplitReader, Stream
from cdcwb.model import Kind, Operation, Problem
from cdcwb.words import plural, unique_names

_KINDS: Final = list(map(str, Kind))
_OPERATIONS: Final = list(map(str, Operation))
_KIND: Final = {kind: number for number, kind in enumerate(_KINDS)}
_UNKNOWN: Final = len(_OPERATIONS)
_KIND_OF: Final = np.full(layout.TYPES + 1, _KIND[Kind.CONTROL])
_OPERATION_OF: Final = np.full(layout.TYPES + 1, _UNKNOWN)
for _number, _type in layout.IO_TYPES.items():
    _KIND_OF[_number] = _KIND[str(_type.kind)]
    _OPERATION_OF[_number] = -1 if _type.operation is None else _OPERATIONS.index(str(_type.operation))
_KIND_OF[layout.RESTART_ABEND] = _KIND[Kind.CONTROL]  # a rollback, if a transaction is open
_IMAGED: Final = np.isin(_KINDS, [str(kind) for kind in (Kind.CHANGE, Kind.BEFORE, Kind.AFTER)])
_DELETE: Final = _OPERATIONS.index(str(Operation.DELETE))
_MOST_RBA: Final = 10**10


class Assigned:
    """The records of a window and what is assigned to them, in arrays over all its records; those that are not
    ``chosen`` are in the next window. ``border``, ``after``: the transactions that are open at its start and end.

    * ``kind``: index into Kind; ``operation``: into Operation, one more for a type that is not known, -1 for none
    * ``file``: of the capture; ``trail``: number in ``shared.files``
    * ``transaction``: index into ``named``, -1 for none; ``last``: TransInd closes it, -1 where it is not known
    * ``version``: number of the version of its table, -1 for none
    * ``utc``: microseconds since 1970; ``timed``: is it known; ``placed``: has it a position
    * ``heads``: records that others continue; ``continues``: the location of the record that a fragment continues
    * ``imaged``: it has row images; ``before``: its only image is a before image
    * ``problems``: of records, in order
    """

    def __init__(self, window: TextWindow, shared: TrailContext, borders: Mapping[int, WindowBorder]) -> None:
        self.window, self.shared, self.records = window, shared, window.records
        records, count, self.place = window.records, len(window.records), window.base + window.records.start
        border, after = borders.get(window.base), borders.get(window.base + int(window.end[-1]))
        chosen = np.zeros(count, np.bool_)
        chosen[window.chosen] = True
        is_record = records.shape == RECORD
        known = np.where((records.io < 0) | (records.io >= layout.TYPES), layout.TYPES, records.io)
        self.kind = np.where(is_record, _KIND_OF[known], _KIND[Kind.CONTROL])
        self.operation = np.where(is_record, _OPERATION_OF[known], -1)
        self.file = np.searchsorted(shared.starts, self.place, side="right") - 1
        files: dict[TrailFile, int] = {}
        first = [files.setdefault(one, number) for number, one in enumerate(shared.files)]
        self.trail = np.array(first or [0])[shared.file_of(self.place)]
        self.last = np.where(records.trans < 0, -1, np.isin(records.trans, CLOSES))
        self.repeated = np.isin(self.place, shared.repeated)
        is_second = np.isin(self.place, shared.second) & ~records.twin
        too_high = records.rba >= _MOST_RBA
        self.placed = (records.rba != MISSING) & (records.shape <= FILE_HEADER) & ~too_high
        sequence = np.array([one.shown for one in shared.files] or [0], np.int64)[self.trail]
        parts = (integers(one) for one in (sequence, np.where(self.placed, records.rba, 0)))
        position = pc.binary_join_element_wise(*(pc.ascii_lpad(one, 10, "0") for one in parts), "")
        self.position = pc.if_else(pa.array(self.placed), position, None)
        said = "RBA {} has more than ten digits: no position"
        records.fault(too_high & chosen, said, records.rba)
        unknown = (self.operation == _UNKNOWN) & chosen
        code = Problem.UNKNOWN_RECORD_TYPE
        records.fault(unknown & (records.io < 0), "a record of an unknown type", code=code)
        records.fault(unknown & (records.io >= 0), "unknown IOType {}", records.io, code=code)
        again = self.repeated & chosen
        records.fault(again, "this record of the trail was printed before", code=Problem.REPEATED)
        self.kind[again], self.operation[again], self.last[again] = _KIND[Kind.FILLER], -1, -1
        some = chosen & ~self.repeated
        same = (records.twin, "the before image of the same update"), (is_second, "a different record before it")
        for rows, what in same:
            said = f"RBA {{}} is that of {what} too: both are kept"
            records.fault(rows & some & is_record, said, records.rba, code=Problem.SAME_POSITION)
        self._transactions(some, border, after)
        self._fragments(some)
        self._halves(some)
        self._gaps(np.flatnonzero(some & (records.shape <= FILE_HEADER)), border)
        for one, head in self.heads.items():
            for sentence in head.gaps.values():
                self.problem(one, Problem.GAP, sentence)
        self.imaged, self.before = _IMAGED[self.kind], self.kind == _KIND[Kind.BEFORE]
        self.before |= self.operation == _DELETE
        self._versions(some)
        self._times((some | self.repeated) & (records.shape <= FILE_HEADER))
        self.problems: defaultdict[int, list[tuple[Problem, str]]] = defaultdict(list)
        for fault in records.faults:
            self.problems[fault.record].append((fault.code, fault.sentence))

    def problem(self, record: int, code: Problem, sentence: str) -> None:
        """Adds a problem of a record."""
        self.records.faults.append(Fault(record, code, sentence))

    def location(self, record: int) -> str:
        """The name of a record: its position, else its location in the capture."""
        has_own = self.placed[record] and not self.records.twin[record]
        return self.shared.location(int(self.place[record]), int(self.records.rba[record]) if has_own else MISSING)

    # --- transactions -------------------------------------------------------------------------------------------------

    def _transactions(self, some: Bools, border: WindowBorder | None, after: WindowBorder | None) -> None:
        records = self.records
        found = transactions_of(records, some, border is not None)
        count, self.transaction = len(found.first), found.of
        rows = np.flatnonzero(found.of >= 0)[::-1]
        stated = []
        for values in (records.xid, records.csn):  # the first text of the records of each transaction
            there, row = rows[as_array(values.is_valid())[rows]], np.full(count, -1)
            row[found.of[there]] = there
            stated.append(values.take(pa.array(row, mask=row < 0)).to_pylist())
        self.named: list[OpenTransaction] = []
        for first, is_aborted, xid, csn in zip(found.first.tolist(), found.aborted.tolist(), *stated, strict=True):
            at, rba = int(self.place[first]), int(records.rba[first]) if self.placed[first] else MISSING
            name = self.shared.begin(at, rba) if first >= 0 else ""
            self.named.append(OpenTransaction(0, MISSING, xid, csn, is_aborted, name))
        is_open = count > 0 and not found.closed[-1]
        for number, is_there, of in ((0, found.leads, border), (-1, is_open, after)):
            if is_there and of is not None:
                self.named[number] = replace(of.open, first=self.shared.begin(of.open.at, of.open.rba))
        self.kind[records.abort & (found.of >= 0)] = _KIND[Kind.ROLLBACK]
        for values, what in ((records.csn, "LOGCSN"), (records.xid, "TRANID")):
            names = pa.array([one.csn if what == "LOGCSN" else one.xid for one in self.named], pa.string())
            first = names.take(pa.array(found.of, mask=found.of < 0))
            for at in np.flatnonzero(as_array(pc.not_equal(values, first))).tolist():
                said = f"token {what} is {values[at]}, that of an earlier record of its transaction is {first[at]}"
                self.problem(at, Problem.CONFLICT, said)

    def _fragments(self, some: Bools) -> None:
        self.heads, lost = heads_of(self.records, some)
        fragments = some & self.records.fragment
        self.kind[fragments], self.operation[fragments] = _KIND[Kind.FRAGMENT], -1
        self.continues: dict[int, str] = {}
        for head in self.heads.values():
            self.continues |= dict.fromkeys(head.fragments, self.location(head.record))
        for one in lost:
            self.problem(one, Problem.GAP, "the record that this one continues is not in the capture")

    def _halves(self, some: Bools) -> None:
        """The updates that are halves of one: a before image, and the after image directly after it."""
        records = self.records
        cores = np.flatnonzero(some & records.member & ~records.fragment)
        before, table, of = records.before[cores], records.table[cores], self.transaction[cores]
        self.kind[cores[before]] = _KIND[Kind.BEFORE]
        waits = before[:-1] & (table[1:] == table[:-1]) & (of[1:] == of[:-1])
        follows = np.append(False, waits)[: len(cores)]
        self.kind[cores[records.half[cores] & ~before & follows]] = _KIND[Kind.AFTER]

    def _gaps(self, rows: Ints, border: WindowBorder | None) -> None:
        """Reports bytes of the trail that are missing between the records ``rows``, and trail files that are missing,
        at the first member after them if it continues the transaction of the one before it."""
        records, files, trail = self.records, self.shared.files, self.trail[rows]
        rba, total, members = records.rba[rows], records.total[rows], rows[records.member[rows]]
        of = self.transaction[members]
        inside = np.append(np.isin(records.trans[members], (1, 2)), False)
        inside[:-1] &= of == np.append(MISSING if border is None else 0, of)[:-1]
        ends = np.where((total != MISSING) & (rba > 0), rba + total, MISSING)
        ends = np.append(MISSING if border is None else border.end, ends)[:-1]
        is_new = np.append(False, trail[1:] != trail[:-1])[: len(rows)]
        for row in np.flatnonzero((ends != MISSING) & (rba > ends) & ~is_new).tolist():
            at = int(np.searchsorted(members, rows[row]))
            if inside[at]:
                lacks = f"{plural(int(rba[row] - ends[row]), 'byte')} of the trail that precede this record"
                said = f"{lacks}, from RBA {ends[row]} on, are not in the capture"
                self.problem(int(members[at]), Problem.GAP, said)
        before = self.trail[members[:1]] if border is None else self.shared.file_of(border.last)
        passed = np.append(before, self.trail[members])
        for row in np.flatnonzero((passed[1:] != passed[:-1]) & inside[:-1]).tolist():
            one, then = (files[passed[at]] for at in (row, row + 1))
            if one.trail != then.trail or then.order - one.order not in (0, 1):
                names = (file.name or f"number {file.shown}" for file in (one, then))
                said = "the trail files between {} and {} are missing".format(*names)
                self.problem(int(members[row]), Problem.GAP, said)

    # --- versions and times -------------------------------------------------------------------------------------------

    def _versions(self, some: Bools) -> None:
        records, shared = self.records, self.shared
        self.version = np.full(len(records), -1)
        for one in np.flatnonzero(some & (records.io == layout.METADATA)).tolist():
            file = int(self.file[one])
            self.version[one] = shared.lookup.places.get((file, int(self.place[one] - shared.starts[file])), -1)
        rows = np.flatnonzero(some & records.member & ((records.table >= 0) | (records.name_index != MISSING)))
        keys = np.stack([self.trail[rows], records.table[rows], records.name_index[rows]], axis=1)
        found, which = np.unique(keys, axis=0, return_inverse=True)
        for number, (trail, code, index) in enumerate(found.tolist()):
            mine = rows[which.reshape(-1) == number]
            name = records.tables[code] if code >= 0 else None
            self.version[mine] = shared.lookup.in_force(shared.files[trail], index, name, self.place[mine])

    def _times(self, some: Bools) -> None:
        records, shared, zone = self.records, self.shared, self.shared.options.time_zone
        known, has_utc = some & (records.moment != MISSING), some & (records.julian != MISSING)
        self.utc, self.timed = np.zeros(len(records), np.int64), has_utc.copy()
        if zone is not None:
            self.utc, doubtful = to_utc(records.moment, parse_zone(zone))
            said = f"the printed time is ambiguous or missing in {zone}: the earlier one is used"
            records.fault(doubtful & known & (records.julian == MISSING), said, code=Problem.TIME_ZONE)
            self.timed |= known
        else:
            for file in np.unique(self.file[known]).tolist():
                if len(shared.shown[file]) == 1:
                    rows = known & (self.file == file)
                    self.utc[rows] = records.moment[rows] - min(shared.shown[file])
                    self.timed |= rows
        self.utc = np.where(has_utc, records.julian, self.utc)
        for one in np.flatnonzero(some & (records.shape == FILE_HEADER)).tolist():
            created = from_iso(file_header(records.data(one)).get("CreationTime"))
            if created is not None:
                self.utc[one], self.timed[one] = created, True
        wrong = self.timed & ((self.utc < EARLIEST) | (self.utc > LATEST))
        records.fault(wrong, "the time is outside the years 1 to 9999", code=Problem.TIME_RANGE)
        self.timed &= ~wrong

    def chosen(self, rows: Ints, wanted: Wanted) -> Bools:
        """Which records match the filters, as far as known before they are decoded."""
        keep = np.ones(len(rows), np.bool_)
        if wanted.kinds is not None:
            keep &= np.array([kind in wanted.kinds for kind in _KINDS])[self.kind[rows]]
        if wanted.timed:
            keep &= self.timed[rows]
        if wanted.transactions is not None:
            named = np.array([*(one.name in wanted.transactions for one in self.named), False])
            keep &= named[self.transaction[rows]]
        if wanted.tables is not None:  # if no name is printed, the table comes from the version
            names = [".".join(filter(None, names_of(text))) for text in (*self.records.tables, None)]
            is_one = [not name or not table_names(name).isdisjoint(wanted.tables) for name in names]
            keep &= np.array(is_one)[self.records.table[rows]]
        return keep


class LogdumpReader(SplitReader):
    """Reads the records of Logdump text. ``known``: what is assigned to those of the latest window."""

    def __init__(self, plan: Plan, stream: Stream, state: TrailState) -> None:
        self._plan, self._state = plan, state
        self._window: Segments | None = None
        self.known: Assigned
        self._images: RowImages

    def columns(self, segments: Segments, records: Ints, wanted: Wanted) -> tuple[Ints, dict[str, pa.Array]]:
        """See :meth:`cdcwb.formats.records.SplitReader.columns`."""
        assert isinstance(segments, TextWindow)
        if segments is not self._window:
            self._window = segments
            self.known = Assigned(segments, self._plan.shared, self._state)
            self._images = RowImages(self.known)
        rows = segments.chosen[np.cumsum(segments.record)[records] - 1]
        keep = self.known.chosen(rows, wanted)
        batch = _batch(self.known, self._images, rows[keep], wanted)
        return records[keep], dict(zip(batch.schema.names, batch.columns, strict=True))


# --- columns of events ------------------------------------------------------------------------------------------------

_IDS: Final = (LOGCSN, TRANID, ROWID)
_CODES: Final = 256


def _batch(known: Assigned, images: RowImages, rows: Ints, wanted: Wanted) -> pa.RecordBatch:
    """The events of some records (rising numbers)."""
    batch = EventBatch(len(rows), wanted)
    batch.put("kind", pa.array(_KINDS).take(pa.array(known.kind[rows])))
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
    records, io, operation = known.records, known.records.io[rows], known.operation[rows]
    charset, shape = known.shared.options.charset, known.records.shape[rows]
    texts = pa.array([*_OPERATIONS, None]).take(pa.array(operation, mask=operation < 0))
    batch.put("operation", texts)
    number = np.where((io >= 0) & (io < layout.TYPES), io, layout.TYPES)
    names = pa.array([*layout.TYPE_NAMES, None], pa.string())
    types = names.take(pa.array(number))
    batch.put("record_type", types)
    batch.put("record_type", "FileHeader", np.flatnonzero(shape == FILE_HEADER))
    printed = np.flatnonzero((shape == RECORD) & ~as_array(types.is_valid()))
    batch.put("record_type", decoded_texts(records.operation.take(pa.array(rows[printed])), charset), printed)
    odd = np.flatnonzero(operation == _UNKNOWN)
    spelled = decoded_texts(records.operation.take(pa.array(rows[odd])), charset).to_pylist()
    spelled = [f"UNKNOWN({one if one >= 0 else text})" for one, text in zip(io[odd].tolist(), spelled, strict=True)]
    batch.put("operation", pa.array(spelled, pa.string()), odd)


def _tables(batch: EventBatch, known: Assigned, rows: Ints) -> None:
    """Schemas, tables and their versions: by name if printed, else by version."""
    records, versions, version = known.records, known.shared.versions, known.version[rows]
    table = np.where(records.shape[rows] == RECORD, records.table[rows], MISSING)
    keys = pa.array([one.table_version for one in versions], pa.string())
    batch.put("table_version", keys.take(pa.array(version, mask=version < 0)))
    names = [*map(names_of, records.tables), *(one.name for one in versions), (None, None)]
    none = len(names) - 1
    empty = np.array([*(not name for name in records.tables), True])[table]
    code = np.where(empty, np.where(version < 0, none, len(records.tables) + version), table)
    for at in np.flatnonzero((code == none) & np.isin(records.io[rows], (layout.DDL, layout.METADATA))).tolist():
        names.append(_stated_table(known, int(rows[at])))
        code[at] = len(names) - 1
    for column, values in zip(("schema_name", "table_name"), zip(*names, strict=True), strict=True):
        batch.put(column, pa.array(values, pa.string()).take(pa.array(code)))


def _stated_table(known: Assigned, record: int) -> tuple[str | None, str | None]:
    """Schema and table that a DDL record or a definition is about."""
    if known.records.io[record] == layout.DDL:
        found = items_of(known.records.data(record), known.shared.options.charset)
        items = {item.code: item.value for item in found if item.whole}
        return items.get("B3") or None, items.get("B4") or None
    text = known.records.definition.get(record)
    stated = parse_metadata(text) if text else None
    return (stated.schema, stated.table) if isinstance(stated, (Definition, Reference)) else (None, None)


@cache
def _characters(name: str) -> pa.Array:
    return pa.array([layout.shown(name, code) for code in range(_CODES)], pa.string())


def _headers(batch: EventBatch, known: Assigned, rows: Ints) -> None:
    """The printed fields of records, their tokens, and further facts."""
    records, pool, charset, taken = known.records, batch.pool, known.shared.options.charset, pa.array(rows)
    found: dict[str, tuple[Bools, Ints]] = {}  # by name, which records have it, and the index of its text in the pool

    def numbers(name: str, values: Ints) -> None:
        there = values != MISSING
        if there.any():
            filled = np.where(there, values, 0)
            is_letter = name in layout.CHARACTERS and int(filled.max()) < _CODES and int(filled.min()) >= 0
            found[name] = there, pool.add(_characters(name))[0] + filled if is_letter else pool.add_integers(filled)

    def texts(name: str, values: pa.Array) -> None:
        found[name] = as_array(values.is_valid()), pool.add(values)

    def coded(name: str, values: Sequence[str | None], codes: Ints) -> None:
        array = pa.array([*values, None], pa.string())
        found[name] = as_array(array.is_valid())[codes], pool.add(array)[0] + np.where(codes < 0, 0, codes)

    trans = records.column("TransInd")
    own = {"BeforeAfter": records.side, "TransInd": np.where(trans == MISSING, records.image_trans, trans)}
    for name in layout.HEADER:
        numbers(name, (own[name] if name in own else records.column(name))[rows])
    texts("IO Time", decoded_texts(pc.coalesce(records.io_time, records.line_time).take(taken), charset))
    texts("Operation", decoded_texts(records.operation.take(taken), charset))
    numbers("Len", records.length[rows])
    numbers("RBA", records.rba[rows])
    texts("Name", decoded_texts(records.name.take(taken), charset))
    coded("Trail", [one.name for one in known.shared.files], known.trail[rows])
    for name, number in (("LOGCSN", LOGCSN), ("TRANID", TRANID), ("ORAROWID", ROWID)):
        texts(name, token_texts(records, number, charset).take(taken))
    coded("csn", [one.csn for one in known.named], known.transaction[rows])
    coded("xid", [one.xid for one in known.named], known.transaction[rows])
    if known.continues:
        texts("continues", pa.array([known.continues.get(one) for one in rows.tolist()], pa.string()))
    there, places = (np.stack(columns, axis=1) for columns in zip(*found.values(), strict=True))
    names, more = [*found], _more(known, rows)
    common = np.setdiff1d(np.arange(len(rows)), [*more])
    batch.entries("headers", names, places[common], common, ~there[common])
    grouped: dict[tuple[str, ...], list[int]] = {}  # records whose maps have the same names
    for at, pairs in more.items():
        mine = [*(names[one] for one in np.flatnonzero(there[at])), *(name for name, _ in pairs)]
        grouped.setdefault(unique_names(mine), []).append(at)
    for mine_, members in grouped.items():
        columns = [places[np.ix_(np.array(members), np.flatnonzero(there[members[0]]))]]
        for of_column in zip(*(more[at] for at in members), strict=True):
            columns.append(pool.add(pa.array([text for _, text in of_column], pa.string()))[:, None])
        batch.entries("headers", mine_, np.concatenate(columns, axis=1), np.array(members), None)


def _more(known: Assigned, rows: Ints) -> dict[int, list[tuple[str, str | None]]]:
    """Further printed or inferred facts of records, by their places in ``rows``."""
    records, tokens = known.records, known.records.tokens
    odd = (records.shape == FILE_HEADER) | (records.io == layout.DDL) | as_array(records.transaction.is_valid())
    odd |= (records.column("SyskeyLen") > 0) & (np.diff(records.body_at) > 0)
    odd |= np.bincount(tokens.record, minlength=len(records)) > len(_IDS)
    odd[tokens.record[~np.isin(tokens.number, _IDS)]] = True
    odd[[*known.heads, *records.user_tokens]] = True
    found = {at: _facts(known, int(rows[at])) for at in np.flatnonzero(odd[rows]).tolist()}
    return {at: pairs for at, pairs in found.items() if pairs}


def _facts(known: Assigned, record: int) -> list[tuple[str, str | None]]:
    records, charset = known.records, known.shared.options.charset
    out: list[tuple[str, str | None]] = []
    head, data, skip = known.heads.get(record), records.data(record), int(records.column("SyskeyLen")[record])
    if head is not None and head.fragments:
        out.append(("fragments", str(1 + len(head.fragments))))
    if skip > 0 and data:
        out.append(("syskey", data[:skip].hex()))
    for name, values in (("TRANSID", records.transaction), ("TRANSID number", records.transaction_number)):
        if values[record].is_valid:
            out.append((name, text_of(values[record].as_py())))
    tokens, first, done = records.tokens, set(_IDS), set()
    for row in range(*np.searchsorted(tokens.record, [record, record + 1]).tolist()):
        number, value = int(tokens.number[row]), tokens.value[row].as_py()
        if number not in first and (number, value) not in done:  # but the first of each id, and each value once
            out.append((layout.token_name(number, text_of(tokens.name[row].as_py())), _value_text(value, charset)))
        first.discard(number)
        done.add((number, value))
    out += records.user_tokens.get(record, [])
    if records.shape[record] == FILE_HEADER:
        out += file_header(data).items()
    elif records.io[record] == layout.DDL:
        items = ddl_items(data, charset)
        stated = statement(items)
        out += [] if stated is None else [("statement", stated)]
        out += items.items()
    return out


def _value_text(value: bytes, charset: str) -> str:
    """A token's value: text if decodable, its zero-terminated parts separated by a blank; else hex."""
    try:
        text = value.rstrip(b"\0").decode(charset)
    except UnicodeDecodeError:
        return value.hex()
    text = text.replace("\0", " ").rstrip(" ")
    return text if text.isprintable() else value.hex()
