"""Rows of the log as Arrow batches of ``events`` (docs/formats/idm-event-log.md §6.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from cdcwb import model
from cdcwb.formats.base import EVERYTHING, Wanted
from cdcwb.formats.idm_event_log.events import Source, to_events
from cdcwb.formats.idm_event_log.log import FORMAT
from cdcwb.formats.idm_event_log.plan import Plan, SplitEntry
from cdcwb.formats.idm_event_log.reading import LogPart, log_parts
from cdcwb.formats.selecting import select
from cdcwb.formats.tabular import Gap
from cdcwb.model import OffsetUnit

__all__ = ["events_of", "gap_event", "read_events", "source_of"]


def read_events(plan: Plan, split: SplitEntry, wanted: Wanted = EVERYTHING) -> Iterator[pa.RecordBatch]:
    """The events of one split in capture order, as batches of :data:`cdcwb.model.EVENTS`."""
    for part in log_parts(plan.files[split.file], split.start, split.stop, split.before):
        yield from events_of(plan, split.file, part, wanted)


def source_of(plan: Plan, file: int, unit: OffsetUnit) -> Source:
    """What is the same for all rows of a file."""
    entry = plan.files[file]
    return Source(entry.probe.path, file, unit, entry.absent, plan.schema, plan.zone)


def events_of(plan: Plan, file: int, part: LogPart, wanted: Wanted = EVERYTHING) -> Iterator[pa.RecordBatch]:
    """The events of a part that are wanted, rows and gaps in their order."""
    source = source_of(plan, file, part.unit)
    rows = None
    if part.log.num_rows:
        rows = to_events(part.log, source, part.offset, part.length, part.raw, wanted, part.findings)
    if part.gaps:
        gaps = pa.RecordBatch.from_pylist([gap_event(source, part, gap, wanted) for gap in part.gaps], model.EVENTS)
        rows = gaps if rows is None else _woven(rows, part, gaps)
    if rows is not None:
        yield from select(rows, wanted)


def _woven(rows: pa.RecordBatch, part: LogPart, gaps: pa.RecordBatch) -> pa.RecordBatch:
    places = np.concatenate([part.index, np.array([gap.index for gap in part.gaps], dtype=np.int64)])
    both = pa.Table.from_batches([rows, gaps]).combine_chunks().take(pa.array(np.argsort(places, kind="stable")))
    return both.combine_chunks().to_batches()[0]


def gap_event(source: Source, part: LogPart, gap: Gap, wanted: Wanted = EVERYTHING) -> dict[str, Any]:
    """The event of what is no row."""
    row: dict[str, Any] = dict.fromkeys(model.EVENTS.names)
    row.update(
        format=FORMAT,
        file=source.path,
        file_index=source.file_index,
        offset=int(part.places[gap.index]),
        length=int(part.lengths[gap.index]),
        offset_unit=str(part.unit),
        kind=str(gap.kind),
    )
    if gap.code is None:
        row["headers"] = [("reason", gap.reason)]
    else:
        row["problems"] = [{"code": str(gap.code), "detail": gap.reason}]
    if wanted.images:
        row["raw"] = gap.raw
    return row
