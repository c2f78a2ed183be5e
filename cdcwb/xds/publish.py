"""What the Publisher would do with the rows of an event log (docs/formats/idm-event-log.md §4): one decision and its
reason for every row, and the events that come of them. One process, all rows at once; the stages are apart so that
they can also run part by part (:mod:`cdcwb.xds.rows`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.xds.grouping import add_cycles, number_events
from cdcwb.xds.precedence import between_rows
from cdcwb.xds.rendering import to_event_table
from cdcwb.xds.rows import DECISIONS, NUMBERS, ROWS, Decision
from cdcwb.xds.selection import own_decisions
from cdcwb.xds.settings import Settings
from cdcwb.xds.snapshot import Snapshot, with_snapshot
from cdcwb.xds.vectors import Ints, flags, numbers, put, sentence, whole

__all__ = ["Publication", "publish", "to_decisions"]

_NEEDED: Final = (
    "type",
    "verb",
    "table_name",
    "table_key",
    "column_name",
    "old_value",
    "new_value",
    "cycle",
)


@dataclass(frozen=True, slots=True)
class Publication:
    """``decisions``: a row of :data:`~cdcwb.xds.rows.DECISIONS` for each row of the log, in the order of the rows that
    were given. ``events``: a row of :data:`cdcwb.xds.event.EVENT` for each event, in the order of publication."""

    decisions: pa.Table
    events: pa.Table


def publish(rows: pa.Table, settings: Settings, snapshot: Snapshot | None = None) -> Publication:
    """Decides every row of :data:`~cdcwb.xds.rows.ROWS`, in any order, and makes the events of the published ones.

    Without a snapshot, query-back rows that would ask for values need one and are not published.
    """
    rows = own_decisions(rows.select(ROWS.names).cast(ROWS), settings)
    polled = flags(rows["polled"])
    waiting_line = _in_order(rows, np.flatnonzero(polled))
    ordinal = np.zeros(rows.num_rows, dtype=np.int64)
    ordinal[waiting_line] = np.arange(len(waiting_line))
    rows = with_snapshot(add_cycles(rows, ordinal, polled, settings), snapshot)
    rows = between_rows(rows, settings)

    published = np.asarray(pc.equal(rows["decision"], str(Decision.PUBLISHED)).to_numpy())
    places = waiting_line[published[waiting_line]]
    numbered, _ = number_events(rows.select(_NEEDED).take(pa.array(places)), settings)
    for name in NUMBERS.names:
        values = np.zeros(rows.num_rows, dtype=np.int64)
        values[places] = numbers(numbered[name])
        rows = rows.append_column(name, pa.array(values, mask=~published))
    return Publication(to_decisions(rows, settings), to_event_table(numbered, settings, snapshot))


def _in_order(rows: pa.Table, places: Ints) -> Ints:
    """These places, in processing order."""
    number, time = numbers(rows["number"])[places], numbers(rows["order_time"])[places]
    ordered: Ints = places[np.lexsort((number, time))]
    return ordered


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
