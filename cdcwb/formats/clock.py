"""Change sequences (Qlik) whose times do not advance (docs/formats/qlik-kafka.md §5). If several transactions have one
time, while the times of their last changes are seconds apart and later, they were numbered while the server's clock was
set back. In contrast, the changes of long transactions that committed together all precede their commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.dissector import problem_row
from cdcwb.formats.moments import MICROSECONDS, sequence_times
from cdcwb.formats.summaries import Groups
from cdcwb.model import Problem

_MOMENT: Final = 16
"""Digits of the time at the start of a change sequence."""

SEQUENCES: Final = pa.schema(
    [
        ("moment", pa.string()),
        ("transaction_id", pa.string()),
        ("at", MICROSECONDS),  # of its last change
        ("events", pa.int64()),
        ("low", pa.string()),  # the positions
        ("high", pa.string()),
    ]
)
"""The events of one transaction whose change sequences have one time."""

_TRANSACTIONS: Final = 3  # that share one time …
_SECONDS: Final = 2  # … while their own times are this far apart, and up to half of it after that time


def of_sequences(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Events (position, transaction and time) as rows of :data:`SEQUENCES`."""
    parts = []
    for batch in batches:
        known = pc.and_(pc.is_valid(sequence_times(batch["position"])[0]), pc.is_valid(batch["transaction_id"]))
        rows = batch.select(["position", "transaction_id", "changed_at"]).filter(known)
        position, transaction, at = rows.columns
        moment = pc.utf8_slice_codeunits(position, 0, _MOMENT)
        columns = [moment, transaction, at, pa.array(np.ones(len(at), np.int64)), position, position]
        parts.append(pa.RecordBatch.from_arrays(columns, schema=SEQUENCES))
    return merged(pa.Table.from_batches(parts, SEQUENCES))


def merged(rows: pa.Table) -> pa.Table:
    """The rows of :data:`SEQUENCES`, those of one time and transaction as one."""
    if not rows.num_rows:
        return rows
    rows = rows.combine_chunks()
    both = pc.binary_join_element_wise(rows["moment"], rows["transaction_id"], "\0")
    groups = Groups(rows.append_column("both", both), by="both")
    columns = [
        pc.utf8_slice_codeunits(groups.names, 0, _MOMENT),
        pc.utf8_slice_codeunits(groups.names, _MOMENT + 1),
        groups.greatest(groups.column("at")),
        groups.sum(groups.column("events")),
        groups.least(groups.column("low")),
        groups.greatest(groups.column("high")),
    ]
    return pa.Table.from_arrays(columns, schema=SEQUENCES)


def frozen_times(rows: pa.Table) -> list[dict[str, Any]]:
    """Times that do not advance, as rows of :data:`cdcwb.model.PROBLEMS` without a location. ``rows``
    (:data:`SEQUENCES`) are all those of their times."""
    if not rows.num_rows:
        return []
    groups = Groups(rows, by="moment")
    at, low = groups.column("at"), groups.least(groups.column("low"))
    first, last = (_seconds(times) for times in (groups.least(at), groups.greatest(at)))
    many = np.asarray(groups.sum(pa.array(np.ones(len(at), np.int64))))
    spans = np.nan_to_num(last - first, nan=-1)
    ahead = np.nan_to_num(last - _seconds(sequence_times(low)[0]), nan=-1)
    chosen = np.flatnonzero((many >= _TRANSACTIONS) & (spans >= _SECONDS) & (ahead >= _SECONDS / 2))
    events, high = groups.sum(groups.column("events")), groups.greatest(groups.column("high"))
    found = []
    for row in chosen.tolist():
        span = Decimal(repr(float(spans[row]))).quantize(Decimal("0.1"), ROUND_HALF_UP)
        sentence = f"{events[row]} events of {many[row]} transactions, whose own times span {span} s, have one change "
        sentence += f"sequence time: {low[row]} to {high[row]}; the server's clock was moved back"
        found.append(problem_row(Problem.CLOCK, sentence))
    return found


def _seconds(times: pa.Array) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Seconds since 1970 UTC; not a number for null."""
    return np.asarray(times.cast(pa.int64()).to_numpy(zero_copy_only=False), np.float64) / 1e6
