"""What the Publisher would do with the rows of an event log (docs/formats/idm-event-log.md §4, §5): one decision and
its reason for every row, polling cycles, numbers of events and documents, and the events. The stages are functions of
tables, so that they can run part by part (:mod:`cdcwb.xds.rows`).
"""

from __future__ import annotations

from collections.abc import Iterator
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
    numbers,
    put,
    said_of,
    sentence,
    whole,
)
from cdcwb.xds.settings import Settings, split_table
from cdcwb.xds.snapshot import Snapshot

__all__ = ["START", "Carry", "Span", "number_events", "span_of", "to_decisions", "to_event_table", "with_cycles"]


@dataclass(frozen=True, slots=True)
class Group:
    """What rows of one event have in common."""

    table_name: str
    table_key: str
    verb: str
    cycle: int


@dataclass(frozen=True, slots=True)
class Span:
    """Some published rows that follow each other. ``events``: how many events of each polling cycle begin in them, as
    pairs of cycle and number, if an event begins with the first row."""

    first: Group
    last: Group
    events: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Carry:
    """Where numbering stands: events and documents so far, the group of the last row (None: no row yet), and how many
    events its polling cycle has so far."""

    event: int = 0
    document: int = 0
    group: Group | None = None
    in_cycle: int = 0

    def after(self, span: Span | None, settings: Settings) -> Carry:
        """Where numbering stands behind these rows; None: there are none."""
        if span is None:
            return self
        event, document, in_cycle = self.event, self.document, self.in_cycle
        cycle = self.group.cycle if self.group is not None else None
        for place, (here, begun) in enumerate(span.events):
            new = begun - (1 if place == 0 and span.first == self.group else 0)
            before = in_cycle if here == cycle else 0
            document += _documents(before + new, settings) - _documents(before, settings)
            event, in_cycle, cycle = event + new, before + new, here
        return Carry(event, document, span.last, in_cycle)


START: Final = Carry()
"""Before the first row."""


def _documents(events: int, settings: Settings) -> int:
    return -(-events // settings.batch_size)


def with_cycles(rows: pa.Table, settings: Settings, first: int = 0) -> pa.Table:
    """Adds the columns of :data:`cdcwb.xds.rows.CYCLE` to rows in processing order, before which ``first`` others are
    polled."""
    polled = flags(rows["polled"])
    ordinal = np.cumsum(polled) - 1 + first
    rows = rows.append_column("ordinal", pa.array(ordinal, mask=~polled))
    return rows.append_column("cycle", pa.array(ordinal // settings.query_limit, mask=~polled))


def number_events(rows: pa.Table, settings: Settings, carry: Carry = START) -> tuple[pa.Table, Carry]:
    """Adds the columns of :data:`cdcwb.xds.rows.NUMBERS` to published rows in processing order; and where numbering
    stands behind them. Rows that follow each other and are of one object, verb and cycle are one event; a document
    has up to ``batch_size`` events and ends with its cycle."""
    if rows.num_rows == 0:
        empty = pa.array([], pa.int64())
        return _with(rows, empty, empty), carry
    begins = _begins(rows)
    begins[0] = _group(rows, 0) != carry.group
    cycle = numbers(rows["cycle"])
    event = np.cumsum(begins) + carry.event
    # how many events of its cycle begin up to each row
    new_cycle = np.flatnonzero(np.append(True, cycle[1:] != cycle[:-1]))
    before = event[new_cycle] - begins[new_cycle]
    if carry.group is not None and carry.group.cycle == cycle[0]:
        before[0] -= carry.in_cycle
    in_cycle = event - np.repeat(before, np.diff(np.append(new_cycle, len(cycle))))
    opens = begins & ((in_cycle - 1) % settings.batch_size == 0)
    document = np.cumsum(opens) + carry.document
    behind = Carry(int(event[-1]), int(document[-1]), _group(rows, -1), int(in_cycle[-1]))
    return _with(rows, pa.array(event), pa.array(document)), behind


def span_of(rows: pa.Table) -> Span | None:
    """The same rows summed up, without their numbers; None: there are none."""
    if rows.num_rows == 0:
        return None
    cycle = numbers(rows["cycle"])[_begins(rows)]
    there, count = np.unique(cycle, return_counts=True)
    events = tuple(zip(there.tolist(), count.tolist(), strict=True))
    return Span(_group(rows, 0), _group(rows, -1), events)


def _begins(rows: pa.Table) -> Bools:
    """Does an event begin with the row? The first row counts as one that begins."""
    group = codes(rows["table_name"], rows["table_key"])
    verb = codes(rows["verb"])
    cycle = numbers(rows["cycle"])
    begins = np.ones(rows.num_rows, dtype=np.bool_)
    begins[1:] = (group[1:] != group[:-1]) | (verb[1:] != verb[:-1]) | (cycle[1:] != cycle[:-1])
    return begins


def _group(rows: pa.Table, place: int) -> Group:
    row = rows.num_rows + place if place < 0 else place
    return Group(*(rows[name][row].as_py() for name in ("table_name", "table_key", "verb", "cycle")))


def _with(rows: pa.Table, event: pa.Array, document: pa.Array) -> pa.Table:
    for name, values in zip(NUMBERS.names, (event, document), strict=True):
        rows = rows.append_column(name, pc.cast(values, pa.int64()))
    return rows


_AT_ONCE: Final = 1 << 18
"""Rows that are worked on together, and the rest of their last event."""

_NEEDED: Final = (
    "type",
    "verb",
    "table_name",
    "table_key",
    "column_name",
    "old_value",
    "new_value",
    "event",
    "document",
)


def to_event_table(rows: pa.Table, settings: Settings, snapshot: Snapshot | None = None) -> pa.Table:
    """The events of published rows with their numbers, as a table of :data:`cdcwb.xds.document.EVENT`.

    ``rows`` are in processing order and hold all rows of each of their events. What query-back rows write is in their
    column ``current`` (:data:`cdcwb.xds.rows.CURRENT`), where they have one, else it is asked of the snapshot. A type
    1 row without a value, and a query-back add of a NULL, have no attribute; the same query-back in one event is
    written once. Raises CaptureError where a query-back row is published and nothing says what the table holds.
    """
    if snapshot is not None:
        settings = settings.with_binary(snapshot.binary)
    names = [*_NEEDED, "current"] if "current" in rows.column_names else list(_NEEDED)
    parts = [_events(part, settings, snapshot) for part in _parts(rows.select(names))]
    return pa.Table.from_batches(parts, EVENT)


def _parts(rows: pa.Table) -> Iterator[pa.Table]:
    """The rows, cut between two events."""
    event = numbers(rows["event"])
    first = 0
    while first < len(event):
        last = min(first + _AT_ONCE, len(event))
        last = int(np.searchsorted(event, event[last - 1], side="right"))
        yield rows.slice(first, last - first)
        first = last


def _events(rows: pa.Table, settings: Settings, snapshot: Snapshot | None) -> pa.RecordBatch:
    event = numbers(rows["event"])
    first = np.flatnonzero(np.append(True, event[1:] != event[:-1]))
    counts, attributes = _attributes(rows, settings, snapshot)
    offsets = np.zeros(len(first) + 1, dtype=np.int32)
    np.cumsum(np.add.reduceat(counts, first), out=offsets[1:])
    heads = rows.select(["document", "event", "verb", "table_name", "table_key"]).take(pa.array(first))
    tables = heads["table_name"]
    return pa.RecordBatch.from_arrays(
        [
            whole(heads["document"]),
            whole(heads["event"]),
            whole(heads["verb"]),
            said_of(tables, lambda name: settings.class_of(name or "")),
            association(
                whole(heads["table_key"]),
                said_of(tables, lambda name: split_table(name or "")[1]),
                said_of(tables, lambda name: split_table(name or "")[0] or settings.schema),
            ),
            pa.ListArray.from_arrays(pa.array(offsets), attributes),
        ],
        schema=EVENT,
    )


def _attributes(rows: pa.Table, settings: Settings, snapshot: Snapshot | None) -> tuple[Ints, pa.StructArray]:
    """How many attributes each row writes, and all of them in the order of the rows."""
    kind = numbers(rows["type"])
    adds = np.asarray(pc.equal(rows["verb"], str(Verb.ADD)).to_numpy())
    logged = np.flatnonzero((kind >= 1) & (kind <= 3))
    asked = _asked(rows, kind)
    lists = _current(rows, asked, snapshot)
    entry = np.concatenate([logged, np.repeat(asked, numbers(pc.list_value_length(lists)))])
    now = lists.flatten()
    from_log = rows.select(["column_name", "old_value", "new_value"]).take(pa.array(logged))
    name = pa.concat_arrays([whole(from_log["column_name"]), now.field("name")])
    added = pa.concat_arrays([whole(from_log["new_value"]), now.field("value")])
    old = pc.if_else(pa.array(kind[logged] == 2), whole(from_log["old_value"]), pa.scalar(None, pa.string()))
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
    """The query-back rows that are written: of those of a row, and of each column, the first in an event."""
    asked = np.flatnonzero(kind >= 5)
    if len(asked) == 0:
        return asked
    chosen = rows.select(["event", "column_name"]).take(pa.array(asked))
    column = codes(chosen["column_name"]) + 2
    column[kind[asked] <= 6] = 0
    key = (numbers(chosen["event"]) - numbers(chosen["event"])[0]) * (int(column.max()) + 1) + column
    return asked[np.sort(np.unique(key, return_index=True)[1])]


def _current(rows: pa.Table, asked: Ints, snapshot: Snapshot | None) -> pa.ListArray:
    """What the table holds of each of these rows."""
    if len(asked) == 0:
        return pa.array([], CURRENT)
    if "current" in rows.column_names:
        return whole(rows["current"].take(pa.array(asked)))
    if snapshot is None:
        raise CaptureError("query-back rows are published, but there is no snapshot of their table")
    return snapshot.current(rows.take(pa.array(asked)))


def _types(tables: pa.ChunkedArray, entry: Ints, names: pa.StringArray, settings: Settings) -> pa.StringArray:
    """The type of each value, found once for each column of each table."""
    table, table_names = coded(tables)
    column, column_names = coded(names)
    pair = table[entry] * len(column_names) + column
    pairs, place = np.unique(pair, return_inverse=True)
    table_of, column_of = (pairs // max(len(column_names), 1)).tolist(), (pairs % max(len(column_names), 1)).tolist()
    tables_here, columns_here = table_names.to_pylist(), column_names.to_pylist()
    spelled = [
        settings.type_of(tables_here[one], columns_here[other]) for one, other in zip(table_of, column_of, strict=True)
    ]
    return pa.array(spelled, pa.string()).take(pa.array(place.reshape(-1)))


def to_decisions(rows: pa.Table, settings: Settings) -> pa.Table:
    """The decisions of rows that have been through all stages, as :data:`~cdcwb.xds.rows.DECISIONS`.

    ``rows`` has the columns of OWN, ``overridden_by``, and NUMBERS with null where a row is not published.
    """
    published = np.asarray(pc.equal(rows["decision"], str(Decision.PUBLISHED)).to_numpy())
    chosen = rows.select(["document", "reason"]).filter(pa.array(published))
    number = pc.cast(whole(chosen["document"]), pa.string())
    remark = whole(chosen["reason"])
    said = sentence("published in document ", number)
    if remark.null_count < len(remark):
        said = pc.if_else(pc.is_null(remark), said, sentence(said, "; ", pc.fill_null(remark, "")))
    columns = {"record_id": rows["number"], "event_type": rows["type"]}
    columns["reason"] = put(rows["reason"], published, said)
    return pa.table([columns[name] if name in columns else rows[name] for name in DECISIONS.names], DECISIONS)
