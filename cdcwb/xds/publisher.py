"""What the Publisher would do with the rows of an event log (docs/formats/idm-event-log.md §4, §5): one decision with
its reason for every row, polling cycles, numbers of events and documents, and the events. The stages are functions of
tables, so that they can run part by part (:mod:`cdcwb.xds.rows`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import CaptureError
from cdcwb.xds.document import ATTRIBUTE, EVENT, Verb, association
from cdcwb.xds.rows import (
    CURRENT,
    DECISIONS,
    NUMBERS,
    Bools,
    Decision,
    Ints,
    coded,
    codes,
    flags,
    mapped,
    numbers,
    put,
    sentence,
    single_array,
)
from cdcwb.xds.settings import Settings, split_table
from cdcwb.xds.snapshot import Snapshot

__all__ = ["START", "Carry", "Span", "number_events", "span_of", "to_decisions", "to_event_table", "with_cycles"]


@dataclass(frozen=True, slots=True)
class Group:
    """The columns in which the rows of one event are equal."""

    table_name: str
    table_key: str
    verb: str
    cycle: int


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive published rows. ``events``: the number of events of each polling cycle that begin in them, as pairs
    of cycle and number, if an event begins with the first row."""

    first: Group
    last: Group
    events: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Carry:
    """The state of numbering: events and documents so far, the group of the last row (None: no row yet), and the number
    of events of its polling cycle so far."""

    event: int = 0
    document: int = 0
    group: Group | None = None
    in_cycle: int = 0

    def after(self, span: Span | None, settings: Settings) -> Carry:
        """The state of numbering after these rows; None: there are none."""
        if span is None:
            return self
        event, document, in_cycle = self.event, self.document, self.in_cycle
        cycle = self.group.cycle if self.group is not None else None
        for position, (here, begun) in enumerate(span.events):
            new = begun - (1 if position == 0 and span.first == self.group else 0)
            before = in_cycle if here == cycle else 0
            document += _documents(before + new, settings) - _documents(before, settings)
            event, in_cycle, cycle = event + new, before + new, here
        return Carry(event, document, span.last, in_cycle)


START: Final = Carry()
"""Before the first row."""


def _documents(events: int, settings: Settings) -> int:
    return -(-events // settings.batch_size)


def with_cycles(rows: pa.Table, settings: Settings, first: int = 0) -> pa.Table:
    """Adds the columns of :data:`cdcwb.xds.rows.CYCLE` to rows in processing order; ``first`` rows are polled before
    them."""
    polled = flags(rows["polled"])
    ordinal = np.cumsum(polled) - 1 + first
    rows = rows.append_column("ordinal", pa.array(ordinal, mask=~polled))
    return rows.append_column("cycle", pa.array(ordinal // settings.query_limit, mask=~polled))


def number_events(rows: pa.Table, settings: Settings, carry: Carry = START) -> pa.Table:
    """Adds the columns of :data:`cdcwb.xds.rows.NUMBERS` to decided rows in processing order, which have a decision;
    ``carry`` is the state of numbering before them. Consecutive published rows of one object, verb and cycle are one
    event; a document has up to ``batch_size`` events and ends with its cycle."""
    is_published = flags(pc.equal(rows["decision"], str(Decision.PUBLISHED)))
    event, document = _numbers_of(rows.filter(pa.array(is_published)), settings, carry)
    at = pa.array(np.cumsum(is_published) - 1, mask=~is_published)
    for name, values in zip(NUMBERS.names, (event, document), strict=True):
        rows = rows.append_column(name, pa.array(values).take(at))
    return rows


def _numbers_of(rows: pa.Table, settings: Settings, carry: Carry) -> tuple[Ints, Ints]:
    """The numbers of the event and the document of each published row."""
    if rows.num_rows == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    begins = _begins(rows)
    begins[0] = _group(rows, 0) != carry.group
    cycle = numbers(rows["cycle"])
    event = np.cumsum(begins) + carry.event
    # the number of events of its cycle that begin up to each row
    new_cycle = np.flatnonzero(np.append(True, cycle[1:] != cycle[:-1]))
    before = event[new_cycle] - begins[new_cycle]
    if carry.group is not None and carry.group.cycle == cycle[0]:
        before[0] -= carry.in_cycle
    in_cycle = event - np.repeat(before, np.diff(np.append(new_cycle, len(cycle))))
    opens = begins & ((in_cycle - 1) % settings.batch_size == 0)
    return event, np.cumsum(opens) + carry.document


def span_of(rows: pa.Table) -> Span | None:
    """The summary of these rows, without their numbers; None: there are none."""
    if rows.num_rows == 0:
        return None
    cycle = numbers(rows["cycle"])[_begins(rows)]
    cycles, count = np.unique(cycle, return_counts=True)
    events = tuple(zip(cycles.tolist(), count.tolist(), strict=True))
    return Span(_group(rows, 0), _group(rows, -1), events)


def _begins(rows: pa.Table) -> Bools:
    """Whether an event begins with each row; true for the first row."""
    group = codes(rows["table_name"], rows["table_key"])
    verb = codes(rows["verb"])
    cycle = numbers(rows["cycle"])
    begins = np.ones(rows.num_rows, dtype=np.bool_)
    begins[1:] = (group[1:] != group[:-1]) | (verb[1:] != verb[:-1]) | (cycle[1:] != cycle[:-1])
    return begins


def _group(rows: pa.Table, index: int) -> Group:
    row = rows.num_rows + index if index < 0 else index
    return Group(*(rows[name][row].as_py() for name in ("table_name", "table_key", "verb", "cycle")))


def to_event_table(rows: pa.Table, settings: Settings, snapshot: Snapshot | None = None) -> pa.RecordBatch:
    """The events of published rows with their numbers, as rows of :data:`cdcwb.xds.document.EVENT`.

    ``rows`` are in processing order, with all rows of each event. The attributes of query-back rows are read from the
    snapshot. A type 1 row without a value, and a query-back add of a NULL, have no attribute; a query-back that repeats
    in an event is written once. Raises CaptureError if a query-back row is published and there is no snapshot.
    """
    if snapshot is not None:
        settings = settings.with_binary(snapshot.binary)
    event = numbers(rows["event"])
    first = np.flatnonzero(np.append(True, event[1:] != event[:-1])[: len(event)])
    counts, attributes = _attributes(rows, settings, snapshot)
    offsets = np.zeros(len(first) + 1, dtype=np.int32)
    np.cumsum(np.add.reduceat(counts, first) if len(first) else counts, out=offsets[1:])
    heads = rows.select(["document", "event", "verb", "table_name", "table_key"]).take(pa.array(first))
    tables = heads["table_name"]
    return pa.RecordBatch.from_arrays(
        [
            single_array(heads["document"]),
            single_array(heads["event"]),
            single_array(heads["verb"]),
            mapped(tables, lambda name: settings.class_of(name or "")),
            association(
                single_array(heads["table_key"]),
                mapped(tables, lambda name: split_table(name or "")[1]),
                mapped(tables, lambda name: split_table(name or "")[0] or settings.schema),
            ),
            pa.ListArray.from_arrays(pa.array(offsets), attributes),
        ],
        schema=EVENT,
    )


def _attributes(rows: pa.Table, settings: Settings, snapshot: Snapshot | None) -> tuple[Ints, pa.StructArray]:
    """The number of attributes of each row, and all attributes in the order of the rows."""
    kind = numbers(rows["type"])
    adds = np.asarray(pc.equal(rows["verb"], str(Verb.ADD)).to_numpy())
    logged = np.flatnonzero((kind >= 1) & (kind <= 3))
    asked = _asked(rows, kind)
    lists = _current(rows, asked, snapshot)
    entry = np.concatenate([logged, np.repeat(asked, numbers(pc.list_value_length(lists)))])
    now = lists.flatten()
    from_log = rows.select(["column_name", "old_value", "new_value"]).take(pa.array(logged))
    name = pa.concat_arrays([single_array(from_log["column_name"]), now.field("name")])
    added = pa.concat_arrays([single_array(from_log["new_value"]), now.field("value")])
    old = pc.if_else(pa.array(kind[logged] == 2), single_array(from_log["old_value"]), pa.scalar(None, pa.string()))
    removed = pa.concat_arrays([old, pa.nulls(len(now), pa.string())])

    written = ~adds[entry] | pc.is_valid(added).to_numpy(zero_copy_only=False)
    chosen = np.flatnonzero(written)
    if len(now):
        chosen = chosen[np.argsort(entry[chosen], kind="stable")]
    if len(chosen) < len(entry) or len(now):
        places = pa.array(chosen)
        entry, name, added, removed = entry[chosen], name.take(places), added.take(places), removed.take(places)
    clears = ~adds[entry] & (kind[entry] != 2)
    types = _types(rows["table_name"], entry, name, settings)
    attributes = pa.StructArray.from_arrays([name, types, pa.array(clears), removed, added], fields=list(ATTRIBUTE))
    return np.bincount(entry, minlength=len(kind)), attributes


def _asked(rows: pa.Table, kind: Ints) -> Ints:
    """The query-back rows that are written: for the complete row, and for each column, the first in an event."""
    asked = np.flatnonzero(kind >= 5)
    if len(asked) == 0:
        return asked
    chosen = rows.select(["event", "column_name"]).take(pa.array(asked))
    column = codes(chosen["column_name"]) + 2
    column[kind[asked] <= 6] = 0
    key = (numbers(chosen["event"]) - numbers(chosen["event"])[0]) * (int(column.max()) + 1) + column
    return asked[np.sort(np.unique(key, return_index=True)[1])]


def _current(rows: pa.Table, asked: Ints, snapshot: Snapshot | None) -> pa.ListArray:
    """The current columns of each of these rows in the table."""
    if len(asked) == 0:
        return pa.array([], CURRENT)
    if snapshot is None:
        raise CaptureError("query-back rows are published, but there is no snapshot of their table")
    return snapshot.current(rows.take(pa.array(asked)))


def _types(tables: pa.ChunkedArray, entry: Ints, names: pa.StringArray, settings: Settings) -> pa.StringArray:
    """The type of each value, determined once for each column of each table."""
    table, table_names = coded(tables)
    column, column_names = coded(names)
    pair = table[entry] * len(column_names) + column
    pairs, code = np.unique(pair, return_inverse=True)
    table_of, column_of = (pairs // max(len(column_names), 1)).tolist(), (pairs % max(len(column_names), 1)).tolist()
    tables_here, columns_here = table_names.to_pylist(), column_names.to_pylist()
    spelled = [
        settings.type_of(tables_here[n], columns_here[other]) for n, other in zip(table_of, column_of, strict=True)
    ]
    return pa.array(spelled, pa.string()).take(pa.array(code.reshape(-1)))


def to_decisions(rows: pa.Table, settings: Settings) -> pa.Table:
    """The decisions of rows that have passed all stages, as :data:`~cdcwb.xds.rows.DECISIONS`.

    ``rows`` has the columns of OWN, ``overridden_by``, and NUMBERS, null for a row that is not published.
    """
    published = np.asarray(pc.equal(rows["decision"], str(Decision.PUBLISHED)).to_numpy())
    chosen = rows.select(["document", "reason"]).filter(pa.array(published))
    number = pc.cast(single_array(chosen["document"]), pa.string())
    remark = single_array(chosen["reason"])
    reason = sentence("published in document ", number)
    if remark.null_count < len(remark):
        reason = pc.if_else(pc.is_null(remark), reason, sentence(reason, "; ", pc.fill_null(remark, "")))
    columns = {"record_id": rows["number"], "event_type": rows["type"]}
    columns["reason"] = put(rows["reason"], published, reason)
    return pa.table([columns[name] if name in columns else rows[name] for name in DECISIONS.names], DECISIONS)
