"""Which rows of the log are one statement (docs/formats/idm-event-log.md §6.2): those of one object, verb, perpetrator
and time that follow each other by record_id with no other row between, each for a column of its own."""

from __future__ import annotations

import sys
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.idm_event_log.laid import Bools, Ints
from cdcwb.formats.idm_event_log.rules import PER_FIELD
from cdcwb.model import Kind

__all__ = ["OBJECT", "READ", "TYPES", "first_rows", "keys_of_rows", "of_statements", "records_of"]

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
    of_object = [pc.map_lookup(events["headers"], name, "first") for name in OBJECT]
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
