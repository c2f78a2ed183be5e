"""Numbers of the rows of each table of a capture, by the columns that a summary names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.keys import OF_COUNTS, is_known, known_of
from cdcwb.dataset import Rows, answer_of, joined
from cdcwb.model import Kind

Row = dict[str, Any]

_OF_EVENTS: Final = ("file_index", "offset_unit", "kind", "record_type")
_OF_TRANSACTIONS: Final = ("outcome", "completeness")
_OF_VERSIONS: Final = ("schema_name", "table_name")
_SUMMED: Final = {
    **dict.fromkeys(("events", "length", "numbered", "changes", "versions", "transactions"), "sum"),
    **dict.fromkeys(("first_position", "first_time"), "min"),
    **dict.fromkeys(("reach", "last_position", "last_time"), "max"),
}
"""How the numbers of groups are merged."""


def _grouped(rows: Rows, by: Sequence[str], columns: Callable[[pa.RecordBatch], Mapping[str, pa.Array]]) -> list[Row]:
    """The groups of rows that are equal in ``by``, with the numbers that ``columns`` gives for single rows."""
    numbers = columns(joined([], rows.schema))
    totals = {name: _SUMMED[name] for name in numbers}
    groups = rows.totals(totals, lambda batch: {**{name: batch[name] for name in by}, **columns(batch)})
    found: list[Row] = groups.to_pylist()
    return found


def _one(batch: pa.RecordBatch) -> pa.Array:
    return pa.repeat(1, len(batch))


def count_events(capture: Any) -> list[Row]:
    """By file_index, offset_unit, kind and record_type: ``events``, those with a number in a transaction
    (``numbered``), the sum of ``length``, the highest end (``reach``), the first and last position (without heartbeats)
    and time (microseconds since 1970). A capture with ``answers`` is asked once."""
    needed = (*_OF_EVENTS, "offset", "length", "position", "changed_at", "transaction_id", "event_no")

    def columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        is_placed = pc.not_equal(batch["kind"], str(Kind.HEARTBEAT))  # the position of a heartbeat may be zero
        position = pc.if_else(is_placed, batch["position"], pa.scalar(None, pa.string()))
        time = batch["changed_at"].cast(pa.int64())
        is_numbered = pc.and_(batch["transaction_id"].is_valid(), batch["event_no"].is_valid())
        numbers = {"events": _one(batch), "numbered": is_numbered.cast(pa.int64()), "length": batch["length"]}
        numbers["reach"] = pc.add(batch["offset"], batch["length"])
        ends = {"position": position, "time": time}
        return numbers | {f"{at}_{name}": ends[name] for name in ends for at in ("first", "last")}

    return answer_of(capture, "events", lambda asked: _grouped(asked.rows("events", needed), _OF_EVENTS, columns))


def count_changes(capture: Any, with_images: bool) -> list[Row]:
    """By schema_name, table_name, operation and outcome: ``changes``; they are not read if they are known already.
    ``with_images``: they are read with their images, if there are any, for what else asks for these
    (:func:`cdcwb.analysis.keys.known_of`)."""
    if is_known(capture) or (with_images and getattr(capture, "has_images", True)):
        return known_of(capture).counts
    return _grouped(capture.rows("changes", OF_COUNTS), OF_COUNTS, lambda batch: {"changes": _one(batch)})


def count_versions(capture: Any) -> list[Row]:
    """By schema_name and table_name: ``versions`` of the table."""
    return _grouped(capture.rows("table_versions", _OF_VERSIONS), _OF_VERSIONS, lambda rows: {"versions": _one(rows)})


def count_transactions(capture: Any) -> list[Row]:
    """By outcome and completeness: ``transactions``, their first begin and last end (microseconds since 1970)."""

    def columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        first, last = (batch[name].cast(pa.int64()) for name in ("began_at", "ended_at"))
        return {"transactions": _one(batch), "first_time": first, "last_time": last}

    rows = capture.rows("transactions", [*_OF_TRANSACTIONS, "began_at", "ended_at"])
    return _grouped(rows, _OF_TRANSACTIONS, columns)
