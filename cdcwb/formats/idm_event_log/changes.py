"""Rows of one statement as one change (docs/formats/idm-event-log.md §6.2).

A statement is a run of neighbouring rows by record_id. Record ids are given before transactions commit, so they fall
a little in capture order; a split has all rows of its record ids (:mod:`cdcwb.formats.idm_event_log.plan`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.formats.arrays import lookup
from cdcwb.formats.changes import joined as together
from cdcwb.formats.changes import locations
from cdcwb.formats.dissector import OF_CHANGES, Named, Read, Wanted
from cdcwb.formats.idm_event_log.decode import same_objects
from cdcwb.formats.kernels import Bools, Ints, kernel
from cdcwb.formats.requests import with_problems, without
from cdcwb.model import EVENTS, ChangeSource, Kind, Problem

OBJECT: Final = ("table_name", "table_key", "perpetrator", "event_time")
"""The columns of the log that rows of one statement share, besides their operation."""

_BETWEEN: Final = "\x1f"
_NULL: Final = "\x00"


def keys_of_rows(events: pa.RecordBatch) -> tuple[Ints, Ints, Ints]:
    """Of each event of a log its record_id (-1: it is not a row, or has none), a number that rows of
    one statement share, and a number for its column; -1 where the row belongs to no other, as rows do whose record_id,
    object or column is not known."""
    is_change = pc.equal(events["kind"], str(Kind.CHANGE))
    of_object = [lookup(events["headers"], name) for name in OBJECT]
    names_column = pc.equal(pc.list_value_length(events["changed_columns"]), 1)  # its type is about one column
    joins = pc.and_(is_change, pc.fill_null(names_column, False))
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


def first_rows(statement: Ints, alone: Bools, column: Ints) -> Ints:
    """The rows that statements begin with, of rows by record_id: those of one statement have the same number there;
    ``alone``: belongs to no other; ``column``: a number for the column of each that is not alone, else -1."""
    count = len(statement)
    begins = np.ones(count, np.bool_)
    begins[1:] = alone[1:] | alone[:-1] | (statement[1:] != statement[:-1])
    run = np.cumsum(begins)
    order = np.lexsort((np.arange(count), column, run))
    run, of_column = run[order], column[order]
    same = (run[1:] == run[:-1]) & (of_column[1:] == of_column[:-1]) & (of_column[1:] >= 0)
    before = np.full(count, -1, dtype=np.int64)  # the row of the same run and column before this one
    before[order[1:][same]] = order[:-1][same]
    _begin_again(before, begins)
    return np.flatnonzero(begins)


@kernel
def _begin_again(before: Ints, begins: Bools) -> None:
    """Begins a statement too at a row whose column came before in it."""
    start = 0
    for row in range(len(begins)):
        if begins[row] or before[row] >= start:
            begins[row], start = True, row


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

NEAR: Final = 1 << 16
"""By how much a record_id may be lower than one before it, for changes to be put together where the rows are."""


def read_changes(read: Read, behind: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The changes of the events of a split, as batches of :data:`cdcwb.model.CHANGES`, in the order of record_id; rows
    without one are changes by themselves. No record_id is lower than one before it by more than ``behind``."""
    wanted = replace(wanted, kinds=_ROWS, columns=frozenset(OF_CHANGES))
    held = pa.RecordBatch.from_pylist([], EVENTS)  # a statement that the next rows may belong to
    for alone, rows in _in_order(read(wanted), behind):
        yield from joined_rows(alone, np.arange(alone.num_rows))
        held = together(held, rows)
        _, statement, column = keys_of_rows(held)
        first = first_rows(statement, column < 0, column)
        if len(first):
            last = int(first[-1])
            yield from joined_rows(held.slice(0, last), first[:-1])
            held = held.slice(last)
    yield from joined_rows(held, np.zeros(min(1, held.num_rows), np.int64))


def read_checked(read: Read, behind: int, wanted: Wanted) -> Named:
    """What one pass over the events of a split shows, as names and batches: ``checked``, the events with problems,
    those of a record_id that an earlier row has among them (:data:`cdcwb.model.EVENTS`); and ``spellings``, the first
    events of each spelling of a table's key (:data:`WITH_SPELLING`). Without the bytes no row is known to be a
    duplicate."""
    spellings, found = list[pa.RecordBatch](), list[pa.RecordBatch]()

    def batches() -> Iterator[pa.RecordBatch]:
        for events in read(replace(wanted, columns=_CHECKED)):
            spellings.append(_first_spellings(events))
            found.append(with_problems(events))
            yield without(events, *_OF_SPELLINGS)

    for again in repeated_rows(rows for _, rows in _in_order(batches(), behind)):
        yield from (("checked", rows) for rows in (*found, again))
        found.clear()
    yield from (("spellings", rows) for rows in spellings)


def _in_order(batches: Iterator[pa.RecordBatch], behind: int) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Of each batch of events those without a record_id, and the rows that are next in the order of record ids, if none
    is lower than one before it by more than ``behind``."""
    held, top = pa.RecordBatch.from_pylist([], EVENTS), 0
    for events in batches:
        record = records_of(events)
        is_row = record >= 0
        top = max(top, int(record.max(initial=0)))
        rows = together(held, events if is_row.all() else events.filter(pa.array(is_row)))
        record = np.append(records_of(held), record[record >= 0])
        if (np.diff(record) < 0).any():
            order = np.argsort(record, kind="stable")
            rows, record = rows.take(pa.array(order)), record[order]
        end = int(np.searchsorted(record, top - behind))
        held = rows.slice(end)
        yield events.slice(0, 0) if is_row.all() else events.filter(pa.array(~is_row)), rows.slice(0, end)
    yield held.slice(0, 0), held


def repeated_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The events of rows whose record_id an earlier one has, with that as their problem. ``batches`` are rows of the
    log that have a record_id, in its order, and those of one record_id in capture order."""
    before = pa.RecordBatch.from_pylist([], EVENTS)  # the first row of the last record_id
    for batch in batches:
        rows = together(before, batch)
        record = records_of(rows)
        first = np.searchsorted(record, record)
        some = np.flatnonzero(first < np.arange(len(record))).tolist()
        again = [_again(*(rows.slice(at, 1).to_pylist()[0] for at in (one, int(first[one])))) for one in some]
        yield pa.RecordBatch.from_pylist(again, EVENTS)
        before = rows.slice(int(first[-1]), 1) if len(first) else before


def _again(row: dict[str, Any], first: dict[str, Any]) -> dict[str, Any]:
    """The event of a row whose record_id an earlier one has, with that as its problem."""
    spot, record_id = _spot(first, row["file"]), row["position"].lstrip("0")
    if row["raw"] is not None and row["raw"] == first["raw"]:
        code = Problem.REPEATED
        sentence = f"the row is a duplicate of the row at {spot}: record_id {record_id}, and all bytes are equal"
    else:
        code = Problem.LOG_RULE
        sentence = f"expected a record_id that no other row has, found {record_id}, which the row at {spot} has"
    return {**row, "problems": [{"code": str(code), "detail": sentence}]}


def _first_spellings(events: pa.RecordBatch) -> pa.RecordBatch:
    """The first event of each spelling of a table's key among these (:data:`WITH_SPELLING`)."""
    names = [pc.fill_null(events[name], "") for name in ("schema_name", "table_name")]
    coded = pc.binary_join_element_wise(*names, _spelling(events), _BETWEEN).dictionary_encode().indices
    rows = np.flatnonzero(coded.is_valid().to_numpy(zero_copy_only=False))
    rows = rows[np.argsort(locations(events)[rows], kind="stable")]
    firsts = rows[np.unique(coded.take(pa.array(rows)).to_numpy(), return_index=True)[1]]
    return spelt(events.select([*_PLACED, *_OF_SPELLINGS]).take(pa.array(firsts)))


def joined_rows(rows: pa.RecordBatch, first: Ints) -> Iterator[pa.RecordBatch]:
    """The rows from each of ``first`` to the next as one change, as a batch of :data:`cdcwb.model.CHANGES`.

    A change has the place, position, headers and key of its last row, the images of all, their columns in order and
    their problems; ``source_events`` has their places in capture order. Rows of an unknown type are none.
    """
    if not len(first):
        return
    every = pa.array(np.arange(rows.num_rows))
    ends = np.append(first, rows.num_rows)
    last = pa.array(ends[1:] - 1)
    columns: dict[str, pa.Array] = {}
    for field in model.CHANGES:
        if field.name in _MERGED:
            columns[field.name] = _merged(rows[field.name].take(every), ends, field)  # a slice would share buffers
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
    """One row of :data:`SPELT` for each key of a table that is written in several ways; it is at the first row with
    the second spelling. The Publisher takes such rows for those of different objects. ``rows`` (:data:`WITH_SPELLING`)
    are all rows of a table, or the first of each spelling among them."""
    rows = _several_ways(rows.combine_chunks())
    rows = rows.sort_by([(name, "ascending") for name in ("object", "file_index", "offset")])
    found = []
    for _, group in groupby(rows.to_pylist(), key=lambda row: row["object"]):
        firsts: dict[str, dict[str, Any]] = {}
        for row in group:
            firsts.setdefault(row["spelling"], row)
        found.append(_told(list(firsts.values())))
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
