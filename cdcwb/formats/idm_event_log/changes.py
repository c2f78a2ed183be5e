"""Rows of one statement as one change (docs/formats/idm-event-log.md §6.2), where the rows are.

A statement is a run of neighbouring rows by record_id. Where record ids fall little in capture order, as they do
because they are given before transactions commit, a task reads the rows of its split in order, together with the late
ones of other splits. If the first row of a split may continue the statement before, the task before reads on, up to the
first row that follows from none before it. Which splits a task may need is known from the first pass.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.formats.arrays import lookup
from cdcwb.formats.changes import Named, Read
from cdcwb.formats.changes import joined as together
from cdcwb.formats.dissector import OF_CHANGES, Wanted
from cdcwb.formats.idm_event_log.decode.keys import same_objects
from cdcwb.formats.idm_event_log.decode.values import Bools, Ints
from cdcwb.formats.idm_event_log.events import PER_FIELD, read_events
from cdcwb.formats.idm_event_log.plan import Plan, SplitEntry
from cdcwb.formats.old.headers import locations
from cdcwb.formats.requests import with_problems, without
from cdcwb.model import EVENTS, ChangeSource, Kind, Problem

__all__ = [
    "NEAR",
    "OBJECT",
    "READ",
    "TYPES",
    "first_rows",
    "joined_rows",
    "key_spellings",
    "keys_of_rows",
    "of_statements",
    "read_changes",
    "read_checked",
    "read_checked_rows",
    "records_of",
    "repeated_rows",
]

OBJECT: Final = ("table_name", "table_key", "perpetrator", "event_time")
"""The columns of the log that rows of one statement share, besides their operation."""

READ: Final = ("kind", "operation", "record_type", "position", "changed_columns", "headers")
"""The columns of events that :func:`keys_of_rows` reads."""

TYPES: Final = tuple(map(str, PER_FIELD))
"""Event types that are about one column (§3.2)."""

_BETWEEN: Final = "\x1f"
_NULL: Final = "\x00"


def keys_of_rows(events: pa.RecordBatch) -> tuple[Ints, Ints, Ints]:
    """Of each event (:data:`READ`) of a log its record_id (-1: it is not a row, or has none), a number that rows of
    one statement share, and a number for its column; -1 where the row belongs to no other, as rows do whose record_id,
    object or column is not known."""
    is_change = pc.equal(events["kind"], str(Kind.CHANGE))
    of_object = [lookup(events["headers"], name) for name in OBJECT]
    joins = pc.and_(is_change, pc.is_in(events["record_type"], value_set=pa.array(TYPES)))
    joins = pc.and_(joins, pc.fill_null(pc.equal(pc.list_value_length(events["changed_columns"]), 1), False))
    for needed in (events["position"], *of_object[:2]):
        joins = pc.and_(joins, needed.is_valid())
    column = np.full(len(events), -1, np.int64)
    column[joins.to_numpy(zero_copy_only=False)] = _hashes(pc.list_flatten(events["changed_columns"].filter(joins)))
    texts = [events["operation"], *of_object]
    together = pc.binary_join_element_wise(*texts, _BETWEEN, null_handling="replace", null_replacement=_NULL)
    return records_of(events), _hashes(together), column


def records_of(events: pa.RecordBatch) -> Ints:
    """Of each event of a log its record_id; -1: it is not a row, or has none."""
    is_row = pc.is_in(events["kind"], pa.array([str(Kind.CHANGE), str(Kind.CONTROL)]))
    record = pc.if_else(pc.and_(is_row, events["position"].is_valid()), events["position"], "-1").cast(pa.int64())
    found: Ints = record.to_numpy()
    return found


def _hashes(texts: pa.Array) -> Ints:
    """Numbers from 0 on that equal texts share within a process."""
    coded = texts.dictionary_encode()
    hashes = np.array([hash(text) & sys.maxsize for text in coded.dictionary.to_pylist()], np.int64)
    found: Ints = hashes[coded.indices.to_numpy()]
    return found


def of_statements(record: Ints, statement: Ints, column: Ints) -> Ints:
    """For each event, in capture order, the one that its statement begins with: itself where it is alone. Takes what
    :func:`keys_of_rows` returns."""
    found = np.arange(len(record))
    rows = np.flatnonzero(record >= 0)
    rows = rows[np.argsort(record[rows], kind="stable")]
    first = first_rows(statement[rows], column[rows] < 0, column[rows])
    found[rows] = np.repeat(rows[first], np.diff(np.append(first, len(rows))))
    return found


def first_rows(statement: Ints, alone: Bools, column: Ints, part: Ints | None = None) -> Ints:
    """The rows that statements begin with, of rows by record_id: those of one statement and ``part`` have the same
    number there; ``alone``: belongs to no other; ``column``: a number for the column of each that is not alone, else
    -1."""
    begins = np.ones(len(statement), np.bool_)
    begins[1:] = alone[1:] | alone[:-1] | (statement[1:] != statement[:-1])
    if part is not None:
        begins[1:] |= part[1:] != part[:-1]
    return _parted(np.flatnonzero(begins), column)


def _parted(first: Ints, column: Ints) -> Ints:
    """The same rows, and those at which a column comes again in a run, counted from where it was parted last."""
    count = len(column)
    if not count:
        return first
    run = np.repeat(np.arange(len(first)), np.diff(np.append(first, count)))
    order = np.lexsort((np.arange(count), column, run))
    before = np.full(count, -1, dtype=np.int64)  # the row of the same run and column before this one
    same = (run[order][1:] == run[order][:-1]) & (column[order][1:] == column[order][:-1]) & (column[order][1:] >= 0)
    before[order[1:][same]] = order[:-1][same]
    repeats = np.unique(run[before >= 0])
    ends = np.append(first[1:], count)
    found = [first]
    for number in repeats.tolist():
        begin, end = int(first[number]), int(ends[number])
        latest = np.maximum.accumulate(before[begin:end])
        starts, start = [], begin
        while (start := begin + int(np.searchsorted(latest, start))) < end:
            starts.append(start)
        found.append(np.array(starts, dtype=np.int64))
    return np.sort(np.concatenate(found))


# --- changes ----------------------------------------------------------------------------------------------------------

_ROWS: Final = frozenset({str(Kind.CHANGE), str(Kind.CONTROL)})
_MERGED: Final = ("before", "after", "changed_columns", "problems")
_OF_SPELLINGS: Final = ("headers", "key")
_CHECKED: Final = frozenset(
    [
        *("kind", "file_index", "file", "offset", "length", "position", "raw", "schema_name", "table_name", "problems"),
        *_OF_SPELLINGS,
    ]
)
_Number: TypeAlias = Callable[[pa.RecordBatch], "_Rows"]

NEAR: Final = 1 << 16
"""By how much a record_id may be lower than one before it, for changes to be put together where the rows are."""


def read_changes(plan: Plan, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The changes that begin in a split, as batches of :data:`cdcwb.model.CHANGES`, in the order of record_id; rows
    without one are changes by themselves. A record_id must not be lower than one before it by more than ``behind`` (of
    the plan's facts), which is to be small."""
    entry = plan.splits[split]
    held = _Held()
    border = None if entry.begins else _Border()
    wanted = replace(wanted, kinds=_ROWS, columns=frozenset(OF_CHANGES))
    for rows in _in_order(plan, entry, wanted):
        yield from joined_rows(rows.alone, np.arange(rows.alone.num_rows))
        if border is not None:
            begin = border.in_front(rows)
            border, rows = (None if begin < len(rows) else border), rows.take(slice(begin, None))
        yield from held.add(rows)
    if border is None and entry.highest > entry.above:
        for rows in _reading_on(plan, entry.following, wanted):
            yield from held.add(rows)
        yield from held.end()


def read_checked(plan: Plan, split: int, wanted: Wanted) -> Iterator[tuple[str, pa.RecordBatch]]:
    """What one pass over a split shows, as names and batches: ``checked``, the events with problems, those of a
    record_id that an earlier row has among them (:data:`cdcwb.model.EVENTS`); and ``spellings``, the first event of
    each spelling of a table's key (:data:`WITH_SPELLING`). Without the bytes no row is known to be a duplicate."""
    entry = plan.splits[split]
    spellings, batches = _Spellings(), _Batches(entry)

    def number(events: pa.RecordBatch) -> _Rows:
        spellings.add(events)
        return batches.add(events)

    last, of_last = -1, _Place(pa.RecordBatch.from_pylist([], EVENTS), 0)  # the last record_id, its first row
    for rows in _in_order(plan, entry, replace(wanted, columns=_CHECKED), number):
        yield "checked", rows.alone
        records = np.append(last, rows.record)
        first = np.searchsorted(records, records)
        some = np.flatnonzero(first < np.arange(len(records))).tolist()
        at = {of: batches.place(rows, of - 1) if of else of_last for one in some for of in (one, int(first[one]))}
        if some:
            again = [_again(at[one].event(), at[int(first[one])].event()) for one in some]
            yield "checked", pa.RecordBatch.from_pylist(again, EVENTS)
        if records[-1] > last:
            last, of_last = int(records[-1]), batches.place(rows, int(first[-1]) - 1)
        batches.drop(rows)
    yield from (("spellings", rows) for rows in spellings.firsts)


def read_checked_rows(read: Read, wanted: Wanted) -> Named:
    """The same of events in any order, without the problems of a record_id that an earlier row has
    (:func:`repeated_rows`)."""
    spellings = _Spellings()
    for events in read(replace(wanted, columns=_CHECKED)):
        spellings.add(events)
        yield "checked", with_problems(events)
    yield from (("spellings", rows) for rows in spellings.firsts)


def repeated_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The events of rows whose record_id an earlier one has, with that as their problem. ``batches`` are rows of the
    log that have a record_id, in its order, and those of one record_id in capture order."""
    before: list[pa.RecordBatch] = []  # the first row of the last record_id
    for batch in batches:
        (rows,) = pa.Table.from_batches([*before, batch]).combine_chunks().to_batches()
        record = records_of(rows)
        first = np.searchsorted(record, record)
        some = np.flatnonzero(first < np.arange(len(record))).tolist()
        again = [_again(_Place(rows, at).event(), _Place(rows, int(first[at])).event()) for at in some]
        yield pa.RecordBatch.from_pylist(again, EVENTS)
        before = [rows.slice(int(first[-1]), 1)]


class _Place(NamedTuple):
    batch: pa.RecordBatch
    row: int

    def event(self) -> dict[str, Any]:
        found: dict[str, Any] = self.batch.slice(self.row, 1).to_pylist()[0]
        return found


class _Batches:
    """The batches of rows that are put in order without their columns."""

    def __init__(self, entry: SplitEntry) -> None:
        self._entry = entry
        self._batches: dict[int, pa.RecordBatch] = {}
        self._left: dict[int, int] = {}  # the number of rows of a batch that are not in order yet
        self._count = 0

    def add(self, events: pa.RecordBatch) -> _Rows:
        """The places of the events; ``alone``: those with problems."""
        record, nothing = records_of(events), np.full(events.num_rows, -1, np.int64)
        self._count += 1
        left = int(np.count_nonzero((record > self._entry.above) & (record <= self._entry.highest)))
        if left:
            self._batches[self._count], self._left[self._count] = without(events, *_OF_SPELLINGS), left
        places = {"batch": np.full(events.num_rows, self._count), "row": np.arange(events.num_rows)}
        return _Rows(pa.RecordBatch.from_pydict(places), record, nothing, nothing, with_problems(events))

    def place(self, rows: _Rows, at: int) -> _Place:
        """The place of one of the rows."""
        return _Place(self._batches[rows.events["batch"][at].as_py()], rows.events["row"][at].as_py())

    def drop(self, rows: _Rows) -> None:
        """Forgets batches whose last rows are these."""
        numbers, counts = np.unique(rows.events["batch"].to_numpy(), return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            self._left[number] -= count
            if not self._left[number]:
                del self._batches[number], self._left[number]


def _again(row: dict[str, Any], first: dict[str, Any]) -> dict[str, Any]:
    """The event of a row whose record_id an earlier one has, with that as its problem."""
    spot = f"offset {first['offset']}" + ("" if first["file"] == row["file"] else f" of {Path(first['file']).name}")
    record_id = row["position"].lstrip("0")
    if row["raw"] is not None and row["raw"] == first["raw"]:
        code, sentence = Problem.REPEATED, _duplicate_row(spot, record_id)
    else:
        code, sentence = Problem.LOG_RULE, _record_id_again(spot, record_id)
    return {**row, "problems": [{"code": str(code), "detail": sentence}]}


def _duplicate_row(spot: str, record_id: str) -> str:
    """A row whose record_id and bytes are those of an earlier row, which is at ``spot``."""
    return f"the row is a duplicate of the row at {spot}: record_id {record_id}, and all bytes are equal"


def _record_id_again(spot: str, record_id: str) -> str:
    """A row whose record_id is that of an earlier row with other bytes."""
    return f"expected a record_id that no other row has, found {record_id}, which the row at {spot} has"


class _Spellings:
    """The first event of each spelling of a table's key; of events that are not in capture order also some later
    ones."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}  # its location
        self.firsts: list[pa.RecordBatch] = []

    def add(self, events: pa.RecordBatch) -> None:
        """Adds those of some events."""
        spelling = _spelling(events)
        names = [pc.fill_null(events[name], "") for name in ("schema_name", "table_name")]
        coded = pc.binary_join_element_wise(*names, spelling, _BETWEEN).dictionary_encode()
        texts, location = coded.dictionary.to_pylist(), locations(events)
        rows = np.flatnonzero(coded.indices.is_valid().to_numpy(zero_copy_only=False))
        rows = rows[np.argsort(location[rows], kind="stable")]
        indices = coded.indices.take(pa.array(rows)).to_numpy()
        firsts = zip(texts, rows[np.unique(indices, return_index=True)[1]].tolist(), strict=True)
        new = {text: at for text, at in firsts if location[at] < self._seen.get(text, sys.maxsize)}
        self._seen.update((text, int(location[at])) for text, at in new.items())
        self.firsts.append(spelt(events.select([*_PLACED, *_OF_SPELLINGS]).take(pa.array(new.values(), pa.int64()))))


def _reading_on(plan: Plan, following: Sequence[SplitEntry], wanted: Wanted) -> Iterator[_Rows]:
    """The rows of the next splits up to the first that follows from none before it."""
    for entry in following:
        border = _Border()
        for rows in _in_order(plan, entry, wanted):
            end = border.in_front(rows)
            yield rows.take(slice(end))
            if end < len(rows):
                return


def _numbered(events: pa.RecordBatch) -> _Rows:
    record, statement, column = keys_of_rows(events)
    return _Rows(events, record, statement, column, events.filter(pa.array(record < 0)))


def _in_order(plan: Plan, entry: SplitEntry, wanted: Wanted, number: _Number = _numbered) -> Iterator[_Rows]:
    """The rows of the record_ids of a split, in their order; events of the split that need no order are
    ``alone``."""
    behind = int(plan.facts["behind"])
    held, top = None, 0
    for rows in _with_late(plan, entry, wanted, number):
        top = max(top, int(rows.record.max(initial=0)))
        rows = rows.take((rows.record > entry.above) & (rows.record <= entry.highest))
        rows = rows if held is None else held.followed_by(rows)
        rows = rows.take(np.argsort(rows.record, kind="stable"))
        end = int(np.searchsorted(rows.record, top - behind))
        held = replace(rows.take(slice(end, None)), alone=rows.alone.slice(0, 0))
        yield rows.take(slice(end))
    if held is not None:
        yield held


def _with_late(plan: Plan, entry: SplitEntry, wanted: Wanted, number: _Number) -> Iterator[_Rows]:
    """The rows of a split, and those of its ``late`` ones up to where no record_id of it can follow."""
    yield from _numbered_rows(plan, entry, wanted, number)
    for later in entry.late:
        for rows in _numbered_rows(plan, later, wanted, number):
            yield replace(rows, alone=rows.alone.slice(0, 0))
            if int(rows.record.max(initial=0)) > entry.highest + int(plan.facts["behind"]):
                return


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows that have a record_id, and of each the number of its statement and of its column
    (:func:`~cdcwb.formats.idm_event_log.changes.keys_of_rows`); ``alone``: events that are in no order, such as rows
    without a record_id."""

    events: pa.RecordBatch
    record: Ints
    statement: Ints
    column: Ints
    alone: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.record)

    def take(self, some: slice | Ints | Bools) -> _Rows:
        """Some of the rows."""
        if isinstance(some, slice):
            start, stop, _ = some.indices(len(self))
            events = self.events.slice(start, stop - start)
        else:
            places = np.arange(len(self))[some]
            is_all = len(places) == len(self) and bool((np.diff(places) == 1).all())
            events = self.events if is_all else self.events.take(pa.array(places))
        return _Rows(events, self.record[some], self.statement[some], self.column[some], self.alone)

    def followed_by(self, rows: _Rows) -> _Rows:
        """These rows and those behind them."""
        both = ((getattr(self, name), getattr(rows, name)) for name in ("record", "statement", "column"))
        record, statement, column = (np.append(one, two) for one, two in both)
        return _Rows(together(self.events, rows.events), record, statement, column, rows.alone)


def _numbered_rows(plan: Plan, entry: SplitEntry, wanted: Wanted, number: _Number) -> Iterator[_Rows]:
    for batch in read_events(plan, entry, wanted):
        every = number(batch)
        yield every.take(every.record >= 0)


class _Border:
    """Looks in the rows of a split for the first that follows from none before it. Nothing is known of the very first:
    it may follow from a row of the split before."""

    def __init__(self) -> None:
        self._before: tuple[int, int] | None = None

    def in_front(self, rows: _Rows) -> int:
        """How many of the next rows stand in front of it: all, where it is not among them."""
        if not len(rows):
            return 0
        is_first = self._before is None
        before = (rows.statement[0], rows.column[0]) if self._before is None else self._before
        self._before = rows.statement[-1], rows.column[-1]
        statement, column = (
            np.append(one, many) for one, many in zip(before, (rows.statement, rows.column), strict=True)
        )
        begins = (column[1:] < 0) | (column[:-1] < 0) | (statement[1:] != statement[:-1])
        begins[0] &= not is_first
        return int(np.argmax(begins)) if begins.any() else len(begins)


class _Held:
    """Puts rows together. What is held back is what the next rows may belong to."""

    def __init__(self) -> None:
        self._rows: _Rows | None = None

    def add(self, rows: _Rows) -> Iterator[pa.RecordBatch]:
        """The changes that are complete with these rows, which follow those before."""
        if self._rows is not None:
            rows = self._rows.followed_by(rows)
        first = first_rows(rows.statement, rows.column < 0, rows.column)
        if len(first):
            last = int(first[-1])
            self._rows = rows.take(slice(last, None))
            yield from joined_rows(rows.events.slice(0, last), first[:-1])

    def end(self) -> Iterator[pa.RecordBatch]:
        """What is held back."""
        if self._rows is not None:
            yield from joined_rows(self._rows.events, np.zeros(1, np.int64))


def joined_rows(rows: pa.RecordBatch, first: Ints) -> Iterator[pa.RecordBatch]:
    """The rows from each of ``first`` to the next as one change, as a batch of :data:`cdcwb.model.CHANGES`.

    A change has the place, position, headers and key of its last row, the images of all, their columns in order and
    their problems; ``source_events`` has their places in capture order. Rows of an unknown type are none.
    """
    if not len(first):
        return
    rows = rows.take(pa.array(np.arange(rows.num_rows)))  # a slice would share its buffers
    ends = np.append(first, rows.num_rows)
    last = pa.array(ends[1:] - 1)
    columns: dict[str, pa.Array] = {}
    for field in model.CHANGES:
        if field.name in _MERGED:
            columns[field.name] = _merged(rows[field.name], ends, field)
        elif field.name in rows.schema.names:
            columns[field.name] = rows[field.name].take(last)
        else:
            columns[field.name] = pa.nulls(len(last), field.type)
    file, offset = (rows[name].to_numpy(zero_copy_only=False) for name in ("file_index", "offset"))
    of_change = np.repeat(np.arange(len(first)), np.diff(ends))
    by_place = pa.array(np.lexsort((offset, file, of_change)))
    fields = [rows[field.name].take(by_place).cast(field.type) for field in model.SOURCE_EVENT]
    places = pa.StructArray.from_arrays(fields, fields=list(model.SOURCE_EVENT))
    columns["source_events"] = pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), places)
    log, nothing = pa.scalar(str(ChangeSource.LOG)), pa.scalar(None, pa.string())
    columns["change_source"] = pc.if_else(columns["changed_columns"].is_valid(), log, nothing)
    made = pa.RecordBatch.from_arrays(
        [columns[field.name].cast(field.type) for field in model.CHANGES], schema=model.CHANGES
    )
    yield made.filter(pc.equal(made["kind"], str(Kind.CHANGE)))


def _merged(column: pa.Array, ends: Ints, field: pa.Field) -> pa.Array:
    """The lists or maps of rows that follow each other as one; null where all are."""
    there = np.concatenate([[0], np.cumsum(column.is_valid().to_numpy(zero_copy_only=False))])
    missing = there[ends[1:]] == there[ends[:-1]]
    offsets = pa.array(column.offsets.to_numpy()[ends], mask=np.append(missing, False))
    if pa.types.is_map(field.type):
        return pa.MapArray.from_arrays(offsets, column.keys, column.items).cast(field.type)
    return pa.ListArray.from_arrays(offsets, column.values).cast(field.type)


# --- spellings of keys ------------------------------------------------------------------------------------------------

_PLACED: Final = ("file_index", "offset", "file", "length", "raw", "transaction_id", "schema_name", "table_name")
_NAMED: Final = 5  # spellings that a sentence names

SPELT: Final = pa.schema([*map(EVENTS.field, (*_PLACED, "problems"))])
"""Events, and what is wrong with them."""

WITH_SPELLING: Final = pa.schema([*map(EVENTS.field, _PLACED), ("spelling", pa.string())])
"""Events with their first bytes, and the key as they write it."""


def spelt(events: pa.RecordBatch) -> pa.RecordBatch:
    """The events that have a key, as a batch of :data:`WITH_SPELLING`."""
    spelling = _spelling(events)
    placed = (
        pc.binary_slice(events[name], 0, model.FIRST_BYTES) if name == "raw" else events[name] for name in _PLACED
    )
    columns = [*placed, spelling]
    rows = pa.RecordBatch.from_arrays(columns, schema=WITH_SPELLING)
    return rows.filter(pc.is_valid(spelling))


def _spelling(events: pa.RecordBatch) -> pa.Array:
    """The key as each event writes it; null without a key."""
    return pc.if_else(pc.is_valid(events["key"]), lookup(events["headers"], "table_key"), pa.scalar(None, pa.string()))


def key_spellings(rows: pa.Table) -> pa.RecordBatch:
    """One row of :data:`SPELT` for each key of a table that is written in several ways; it stands at the first row with
    the second spelling. The Publisher takes such rows for those of different objects. ``rows`` (:data:`WITH_SPELLING`)
    are all rows of a table, or the first of each spelling among them."""
    rows = _several_ways(rows.combine_chunks())
    of, firsts = rows["object"].to_pylist(), rows["spelling"].to_pylist()
    places = [*zip(rows["file_index"].to_pylist(), rows["offset"].to_pylist(), strict=True)]
    order = sorted(range(rows.num_rows), key=lambda row: (of[row], places[row]))
    found = []
    for _, group in groupby(order, key=lambda row: of[row]):
        first_of: dict[str, int] = {}
        for row in group:
            first_of.setdefault(firsts[row], row)
        found.append(_told(rows.select(WITH_SPELLING.names).take(pa.array(list(first_of.values()))).to_pylist()))
    return pa.RecordBatch.from_pylist(found, SPELT)


def _several_ways(rows: pa.Table) -> pa.Table:
    """The rows whose ``object`` (a new column) is written in several ways."""
    names = [rows[name].fill_null("") for name in ("schema_name", "table_name")]
    spelling = rows["spelling"].combine_chunks()
    objects = pc.binary_join_element_wise(*names, same_objects(spelling), _BETWEEN)
    rows = rows.append_column("object", objects)
    codes = [one.combine_chunks().dictionary_encode().indices.to_numpy() for one in (objects, rows["spelling"])]
    code = codes[0].astype(np.int64)
    ways = np.bincount(np.unique(code << 32 | codes[1]) >> 32, minlength=1)
    return rows.filter(pa.array(ways[code] > 1))


def _told(firsts: list[dict[str, Any]]) -> dict[str, Any]:
    """The second of the first rows of one key's spellings, with what is wrong."""
    second = firsts[1]
    named = ", ".join(f"{one['spelling']} (at {_spot(one, second['file'])})" for one in firsts[:_NAMED])
    more = " …" if len(firsts) > _NAMED else ""
    sentence = f"one key, written in {len(firsts)} ways, which makes events run out of order: {named}{more}"
    return {**second, "problems": [{"code": str(Problem.KEY_SPELLING), "detail": sentence}]}


def _spot(row: dict[str, Any], here: str) -> str:
    """``offset 12``, or ``offset 12 of b.csv`` where the file is another than the one spoken of."""
    return f"offset {row['offset']}" + ("" if row["file"] == here else f" of {Path(row['file']).name}")
