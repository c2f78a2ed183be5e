"""Counters of transactions: do the numbers that the source gave to events agree with the events that came?

Missing numbers are problems of the capture (:data:`cdcwb.model.Problem.GAP`), and of :func:`~cdcwb.analysis.integrity`;
here is what came too much: transactions that begin twice, numbers that come again with other records, and more events
than the end of the transaction counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.dataset import Batches, answer_of, joined
from cdcwb.formats.dissector import CHANGES as OF_CHANGES
from cdcwb.model import Kind
from cdcwb.words import plural

__all__ = ["MOST_CONTRADICTIONS", "Counters", "counters"]

MOST_CONTRADICTIONS: Final = 100
"""The most contradictions that are listed; all are counted."""

_READ: Final = ("transaction_id", "event_no", "kind", "position", "file_index", "offset")
_FOUND: Final = pa.schema(
    [
        *(("transaction_id", pa.string()), ("file_index", pa.int32()), ("offset", pa.int64())),
        *(("sentence", pa.string()), ("numbered", pa.int64())),
    ]
)
"""Contradictions; without a ``sentence``: the number of transactions whose events have numbers."""


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of a capture: ``transactions`` whose events have numbers, the number of ``contradictions``, and the
    first of them in capture order (``listed``): ``transaction_id``, ``sentence``, ``file``, ``offset``."""

    transactions: int
    contradictions: int
    listed: list[dict[str, Any]] = field(default_factory=list)


def counters(capture: Any) -> Counters:
    """Compares the numbers of events, and the counts in the ends of transactions, with the events of a capture. A
    capture with ``answers`` is asked once."""
    return answer_of(capture, "counters", _compared)


def _compared(capture: Any) -> Counters:
    events = capture.rows("events", _READ).where(
        lambda batch: pc.and_(batch["transaction_id"].is_valid(), batch["event_no"].is_valid())
    )
    found = events.by_key(["transaction_id"], ["event_no", "position"], _contradictions, _FOUND)
    transactions, number, first = found.fold(_added, _merged)
    files = {entry["file_index"]: entry["file"] for entry in capture.files}
    names = ("transaction_id", "sentence", "offset")
    listed = [{name: row[name] for name in names} | {"file": files.get(row["file_index"])} for row in first]
    return Counters(transactions, number, listed)


def _contradictions(batches: Batches) -> Batches:
    """The contradictions of each transaction, from its numbered events."""
    rest: pa.RecordBatch | None = None
    for batch in batches:
        rows = batch if rest is None else joined([rest, batch], batch.schema)
        is_last = pc.equal(rows["transaction_id"], rows["transaction_id"][-1])
        rest = rows.filter(is_last)
        yield _of_transactions(rows.filter(pc.invert(is_last)))
    if rest is not None:
        yield _of_transactions(rest)


def _of_transactions(rows: pa.RecordBatch) -> pa.RecordBatch:
    events = pa.table(rows).filter(pc.is_in(rows["kind"], pa.array(OF_CHANGES)))
    records = events.group_by(["transaction_id", "event_no", "position"]).aggregate([])
    numbers = records.group_by(["transaction_id", "event_no"]).aggregate([("position", "count")])
    again = numbers.filter(pc.greater(numbers["position_count"], 1))
    parts = {
        "records": _count(records),
        "lowest": _by_transaction(events, [("event_no", "min")]),
        "again": _count(again),
        "begins": _count(pa.table(rows).filter(pc.equal(rows["kind"], str(Kind.BEGIN)))),
        "end": _by_transaction(pa.table(rows).filter(pc.equal(rows["kind"], str(Kind.COMMIT))), [("event_no", "max")]),
    }
    places = pa.table(rows).group_by("transaction_id").aggregate([("file_index", "min"), ("offset", "min")])
    found: list[dict[str, Any]] = []
    for name, index, offset in zip(*(places[name].to_pylist() for name in places.schema.names), strict=True):
        sentences = _sentences(**{part: values.get(name) for part, values in parts.items()})
        found += [
            {"transaction_id": name, "file_index": index, "offset": offset, "sentence": text} for text in sentences
        ]
    return pa.RecordBatch.from_pylist([*found, {"numbered": len(parts["records"])}], _FOUND)


def _count(rows: pa.Table) -> dict[str, int]:
    return _by_transaction(rows, [([], "count_all")])


def _by_transaction(rows: pa.Table, aggregation: list[Any]) -> dict[str, int]:
    groups = rows.group_by("transaction_id").aggregate(aggregation)
    names, values = (column.to_pylist() for column in (groups["transaction_id"], groups.columns[-1]))
    return dict(zip(names, values, strict=True))


def _sentences(
    records: int | None, lowest: int | None, again: int | None, begins: int | None, end: int | None
) -> list[str]:
    """The contradictions of a transaction."""
    found = []
    if (begins or 0) > 1 or again:
        texts = [f"it begins {begins} times" if (begins or 0) > 1 else ""]
        texts += [f"{plural(again, 'number')} of its events came again with other records" if again else ""]
        found.append("; ".join(filter(None, texts)))
    if end is not None and records is not None and records > end - 1:
        found.append(f"its end counts {plural(end - 1, 'event')}, {records} came")
    if end is not None and not begins and lowest == 1:
        found.append("its first event and its end are in the capture, its begin is not")
    return found


_Sum = tuple[int, int, list[dict[str, Any]]]


def _added(rows: pa.RecordBatch) -> _Sum:
    contradictions = rows.filter(rows["sentence"].is_valid()).to_pylist()
    return pc.sum(rows["numbered"]).as_py() or 0, len(contradictions), _first(contradictions)


def _merged(parts: Sequence[_Sum]) -> _Sum:
    listed = _first([row for _, _, rows in parts for row in rows])
    return sum(part[0] for part in parts), sum(part[1] for part in parts), listed


def _first(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["file_index"], row["offset"], row["sentence"]))[:MOST_CONTRADICTIONS]
