"""A publication of a complete log at once, which the stages in Spark are compared with, and events of documents back as
rows of the event log (docs/formats/idm-event-log.md §4, §5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import CaptureError
from cdcwb.formats.idm_event_log.layout import LOG
from cdcwb.xds import (
    ROWS,
    Decision,
    Settings,
    Snapshot,
    between_rows,
    own_decisions,
    to_decisions,
    to_event_table,
    with_cycles,
    with_snapshot,
)
from cdcwb.xds.document import Verb, attributes_of
from cdcwb.xds.rows import numbers, single_array

__all__ = ["Publication", "numbered", "publish", "to_rows"]


@dataclass(frozen=True, slots=True)
class Publication:
    """``decisions``: a row of :data:`~cdcwb.xds.rows.DECISIONS` for each row of the log, in the order of the rows that
    were given. ``events``: a row of :data:`cdcwb.xds.document.EVENT` for each event, in the order of publication."""

    decisions: pa.Table
    events: pa.Table


def publish(rows: pa.Table, settings: Settings, snapshot: Snapshot | None = None) -> Publication:
    """Decides every row of :data:`~cdcwb.xds.rows.ROWS`, in any order, and makes the events of the published ones.

    Without a snapshot, query-back rows that would ask for values need one and are not published.
    """
    rows = own_decisions(rows.select(ROWS.names).cast(ROWS), settings)
    order = np.lexsort([numbers(rows[name]) for name in ("number", "order_time")])
    back = pa.array(np.argsort(order))
    rows = with_snapshot(with_cycles(rows.take(pa.array(order)), settings), snapshot)
    rows = between_rows(rows, settings)
    rows = numbered(rows, settings.batch_size)
    published = rows.filter(pc.equal(rows["decision"], str(Decision.PUBLISHED)))
    events = pa.Table.from_batches([to_event_table(published, settings, snapshot)])
    return Publication(to_decisions(rows, settings).take(back), events)


def numbered(rows: pa.Table, batch_size: int) -> pa.Table:
    """Rows with the numbers of their event and document."""
    event = document = in_document = 0
    last: tuple[Any, ...] | None = None
    numbers_of_rows: list[tuple[int | None, int | None]] = []
    for decision, *group in zip(
        *(rows[name].to_pylist() for name in ("decision", "cycle", "table_name", "table_key", "verb")), strict=True
    ):
        if decision != Decision.PUBLISHED:
            numbers_of_rows.append((None, None))
            continue
        if (*group,) != last:
            event += 1
            if last is None or last[0] != group[0] or in_document == batch_size:
                document, in_document = document + 1, 0
            in_document += 1
        last = (*group,)
        numbers_of_rows.append((event, document))
    for place, name in enumerate(("event", "document")):
        rows = rows.append_column(name, pa.array([pair[place] for pair in numbers_of_rows], pa.int64()))
    return rows


_VALUE: Final = r"""(?:"(?:[^"\\]|\\.)*"|[^,;'+"=\\<>]*)"""
_ASSOCIATION: Final = rf"(?s)^(?P<key>.*),table=(?P<table>{_VALUE})(?:,schema=(?P<schema>{_VALUE}))?$"


def to_rows(events: pa.Table, *, event_time: str = "1970-01-01 00:00:00") -> pa.Table:
    """Rows of the event log (:data:`~cdcwb.formats.idm_event_log.layout.LOG`) that say the same, of types 1 to 4.

    record_id counts from 1; the status is N, the perpetrator NULL. An ``add`` without attributes becomes one row of
    type 1 with NULL for its first key column. Value types and class names have no place there, and events of one object
    and verb that follow each other would be published as one. Raises CaptureError for an association that is not made
    of key, table and schema.
    """
    batch = events.combine_chunks()
    attributes = attributes_of(single_array(batch["attrs"]))
    association, verbs = single_array(batch["association"]), single_array(batch["verb"])
    parts = pc.extract_regex(association, _ASSOCIATION)
    if parts.null_count:
        text = association.filter(parts.is_null())[0].as_py()
        raise CaptureError(f"association {text!r} is not made of a key, a table and a schema")
    key, table, schema = (parts.field(place) for place in range(3))
    schema = _unquoted(schema)
    table = _unquoted(table)
    named = pc.if_else(pc.equal(schema, ""), table, pc.binary_join_element_wise(schema, table, "."))
    counts = np.diff(attributes.first)
    row_of = np.repeat(np.arange(len(counts)), np.maximum(counts, 1))
    without = counts[row_of] == 0
    place = np.cumsum(~without) - 1
    of = pa.array(place, mask=without)
    rows = pa.array(row_of)
    verb, keys = verbs.take(rows), key.take(rows)
    first = pc.struct_field(pc.extract_regex(keys, r"^(?P<name>[^=]*)="), "name")
    adds, modifies = pc.equal(verb, Verb.ADD), pc.equal(verb, Verb.MODIFY)
    all_go = pc.fill_null(pa.array(attributes.remove_all).take(of), False)
    kinds = pc.if_else(adds, "1", pc.if_else(modifies, pc.if_else(all_go, "3", "2"), "4"))
    name = attributes.name.take(of)
    count = len(rows)
    columns = {
        "record_id": pc.cast(pa.array(np.arange(1, count + 1)), pa.string()),
        "table_key": keys,
        "status": pa.array(["N"]).take(pa.array(np.zeros(count, dtype=np.int64))),
        "event_type": kinds,
        "event_time": pa.array([event_time]).take(pa.array(np.zeros(count, dtype=np.int64))),
        "perpetrator": pa.nulls(count, pa.string()),
        "table_name": named.take(rows),
        "column_name": pc.if_else(adds, pc.coalesce(name, first), name),
        "old_value": attributes.remove.take(of),
        "new_value": attributes.add.take(of),
    }
    return pa.table(columns, schema=LOG)


def _unquoted(values: pa.StringArray) -> pa.StringArray:
    """Values of a table_key as they are meant (§2.2)."""
    inside = pc.replace_substring_regex(pc.utf8_slice_codeunits(values, 1, -1), r"(?s)\\(.)", r"\1")
    return pc.if_else(pc.starts_with(values, '"'), inside, values)
