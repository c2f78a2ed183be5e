"""Published rows as events: association, class and attributes, many at once (docs/formats/idm-event-log.md §5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import CaptureError
from cdcwb.xds.columns import association
from cdcwb.xds.event import ATTRIBUTE, EVENT, Verb
from cdcwb.xds.rows import CURRENT
from cdcwb.xds.settings import Settings, split_table
from cdcwb.xds.snapshot import Snapshot
from cdcwb.xds.vectors import Ints, coded, codes, numbers, said_of, whole

__all__ = ["to_event_table"]

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
    """The events of published rows with their numbers, as a table of :data:`cdcwb.xds.event.EVENT`.

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
