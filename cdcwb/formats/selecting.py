"""Which events of a batch are wanted."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.base import Wanted
from cdcwb.model import Kind

__all__ = ["select", "with_problems"]


def select(batch: pa.RecordBatch, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The events that are wanted, if any are."""
    keep: pa.Array | None = None
    conditions = []
    if wanted.drop_malformed:
        conditions.append(pc.not_equal(batch.column("kind"), str(Kind.MALFORMED)))
    if wanted.timed:
        conditions.append(pc.is_valid(batch.column("changed_at")))
    if wanted.kinds is not None:
        conditions.append(pc.is_in(batch.column("kind"), pa.array(sorted(wanted.kinds), pa.string())))
    if wanted.transactions is not None:
        chosen = pa.array(sorted(wanted.transactions), pa.string())
        conditions.append(pc.is_in(batch.column("transaction_id"), chosen))
    if wanted.tables is not None:
        names = pa.array(sorted(wanted.tables), pa.string())
        table = batch.column("table_name")
        full = pc.binary_join_element_wise(batch.column("schema_name"), table, ".")
        conditions.append(pc.or_(pc.is_in(table, names), pc.fill_null(pc.is_in(full, names), False)))
    for condition in conditions:
        keep = condition if keep is None else pc.and_(keep, condition)
    chosen = batch if keep is None else batch.filter(keep)
    if chosen.num_rows:
        yield chosen


def with_problems(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The events of a batch that have problems."""
    return batch.filter(pc.is_valid(batch["problems"]))
