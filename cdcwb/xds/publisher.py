"""What the Publisher would do with the rows of an event log (docs/formats/idm-event-log.md §4, §5): one decision with
its reason for every row, polling cycles, numbers of events and documents, and the events. The stages are functions of
tables, so that they can run part by part (:mod:`cdcwb.xds.rows`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.dataset import each_different
from cdcwb.errors import CaptureError
from cdcwb.xds.document import ATTRIBUTE, EVENT, Verb, association
from cdcwb.xds.rows import (
    CURRENT,
    DECISIONS,
    Decision,
    Ints,
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


def with_cycles(rows: pa.Table, settings: Settings, first: int = 0) -> pa.Table:
    """Adds the columns of :data:`cdcwb.xds.rows.CYCLE` to rows in processing order; ``first`` rows are polled before
    them."""
    polled = flags(rows["polled"])
    ordinal = np.cumsum(polled) - 1 + first
    rows = rows.append_column("ordinal", pa.array(ordinal, mask=~polled))
    return rows.append_column("cycle", pa.array(ordinal // settings.query_limit, mask=~polled))


def number_events(rows: pa.Table, settings: Settings) -> pa.Table:
    """Adds the columns of :data:`cdcwb.xds.rows.NUMBERS` to published rows in processing order, all of each polling
    cycle; in each cycle numbers begin at 1. Consecutive rows of one object and verb are one event; a document has up to
    ``batch_size`` events and ends with its cycle."""
    group, verb, cycle = codes(rows["table_name"], rows["table_key"]), codes(rows["verb"]), numbers(rows["cycle"])
    changes = [np.append(True, column[1:] != column[:-1])[: len(column)] for column in (group, verb, cycle)]
    event = np.cumsum(np.logical_or.reduce(changes))
    first = np.flatnonzero(changes[2])
    event -= np.repeat(event[first] - 1, np.diff(np.append(first, len(cycle))))
    rows = rows.append_column("event", pa.array(event))
    return rows.append_column("document", pa.array((event - 1) // settings.batch_size + 1))


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
    tables = single_array(rows["table_name"]).take(pa.array(entry))
    types = each_different((tables, name), settings.type_of)
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
