"""Counters of transactions: do the numbers that the source gave to events agree with the events that came?

Missing numbers are problems of the capture (:data:`cdcwb.model.Problem.GAP`), and of :func:`~cdcwb.analysis.integrity`;
here is what came too much: transactions that begin twice, numbers that come again with other records, more events than
the end of the transaction counts, and events that follow the one marked as the last. Debezium numbers and counts the
events of each table, too. Offsets of messages and numbers of changes come again with other records outside of
transactions, too (:func:`~cdcwb.analysis.positions.repeated`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.positions import has_unique_numbers, positions, repeated
from cdcwb.analysis.totals import count_events
from cdcwb.dataset import Batches, answer_of, complete_keys, first_of, together, total
from cdcwb.filters import labels
from cdcwb.formats.dissector import CHANGES as OF_CHANGES
from cdcwb.model import EVENTS, Kind
from cdcwb.words import plural

MOST_CONTRADICTIONS: Final = 100
"""The most contradictions that are listed; all are counted."""

_READ: Final = ("transaction_id", "event_no", "last_in_transaction", "kind", "position", "file_index", "offset")
_OF_TABLES: Final = ("schema_name", "table_name", "headers")
_COLUMNS: Final = pa.schema(
    [
        *(EVENTS.field(name).remove_metadata() for name in _READ),
        *(("table", pa.string()), ("table_no", pa.string()), ("counts", pa.string())),
    ]
)
"""Numbered events: the table with the number of the event among its own, and what an end counts of tables."""
_FOUND: Final = pa.schema(
    [
        *(("transaction_id", pa.string()), ("file_index", pa.int32()), ("offset", pa.int64())),
        *(("sentence", pa.string()), ("numbered", pa.int64())),
    ]
)
"""Contradictions; without a ``sentence``: the number of transactions whose events have numbers."""


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of a capture: ``transactions`` whose events have numbers, ``numbers`` (offsets and numbers
    of changes that no other record may have), the number of ``contradictions``, and the first of them in capture order
    (``listed``): ``transaction_id`` (None: not of one), ``sentence``, ``file``, ``offset``."""

    transactions: int
    contradictions: int
    listed: list[dict[str, Any]] = field(default_factory=list)
    numbers: int = 0


def counters(capture: Any) -> Counters:
    """Compares the numbers of events, and the counts in the ends of transactions, with the events of a capture. A
    capture with ``answers`` is asked once."""
    return answer_of(capture, "counters", _compared)


def _compared(capture: Any) -> Counters:
    transactions, number, first = _of_events(capture)
    files = {entry["file_index"]: entry["file"] for entry in capture.files}
    names = ("transaction_id", "sentence", "offset")
    listed = [{name: row[name] for name in names} | {"file": files.get(row["file_index"])} for row in first]
    numbers = sum(stream["unique"] for stream in positions(capture).streams) if has_unique_numbers(capture) else 0
    if numbers:
        again = repeated(capture)
        number += again.contradictions
        names = ("sentence", "file", "offset")
        listed += [{"transaction_id": None} | {name: row[name] for name in names} for row in again.listed]
    return Counters(transactions, number, listed[:MOST_CONTRADICTIONS], numbers)


def _of_events(capture: Any) -> tuple[int, int, list[dict[str, Any]]]:
    """The number of transactions with numbers, and of contradictions, and the first of these."""
    if not any(row["numbered"] for row in count_events(capture)):
        return 0, 0, []
    more = _OF_TABLES if capture.format == "debezium" else ()
    events = capture.rows("events", (*_READ, *more)).map(_numbered, _COLUMNS)
    found = events.by_key(["transaction_id"], ["event_no", "position"], _contradictions, _FOUND)
    order = ("file_index", "offset", "sentence")
    transactions, number, first = found.fold(
        *together(
            (lambda batch: pc.sum(batch["numbered"]).as_py() or 0, total),
            (lambda batch: len(batch) - batch["sentence"].null_count, total),
            first_of(_FOUND, order, MOST_CONTRADICTIONS, where=lambda batch: batch["sentence"].is_valid()),
        )
    )
    return transactions, number, first.to_pylist()


def _numbered(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The events with numbers, in the columns :data:`_COLUMNS`."""
    batch = batch.filter(pc.and_(batch["transaction_id"].is_valid(), batch["event_no"].is_valid()))
    columns = {name: batch[name] for name in _READ}
    own = dict.fromkeys(_COLUMNS.names[len(_READ) :], pa.nulls(len(batch), pa.string()))
    if "headers" in batch.schema.names:
        names = ("transaction.data_collection_order", "data_collections")
        found = (labels(batch), *(pc.map_lookup(batch["headers"], name, "first") for name in names))
        own = dict(zip(own, found, strict=True))
    return pa.RecordBatch.from_pydict(columns | own, schema=_COLUMNS)


def _contradictions(batches: Batches) -> Batches:
    """The contradictions of each transaction, from its numbered events."""
    return map(_of_transactions, complete_keys(batches, ["transaction_id"]))


def _of_transactions(rows: pa.RecordBatch) -> pa.RecordBatch:
    events = pa.table(rows).filter(pc.is_in(rows["kind"], pa.array(OF_CHANGES)))
    records = events.group_by(["transaction_id", "event_no", "position"]).aggregate([])
    numbers = records.group_by(["transaction_id", "event_no"]).aggregate([("position", "count")])
    again = numbers.filter(pc.greater(numbers["position_count"], 1))
    parts = {
        "records": _count(records),
        "lowest": _by_transaction(events, [("event_no", "min")]),
        "highest": _by_transaction(events, [("event_no", "max")]),
        "last": _by_transaction(events.filter(events["last_in_transaction"]), [("event_no", "min")]),
        "again": _count(again),
        "begins": _count(pa.table(rows).filter(pc.equal(rows["kind"], str(Kind.BEGIN)))),
        "end": _by_transaction(pa.table(rows).filter(pc.equal(rows["kind"], str(Kind.COMMIT))), [("event_no", "max")]),
    }
    places = pa.table(rows).group_by("transaction_id").aggregate([("file_index", "min"), ("offset", "min")])
    of_tables = _table_sentences(pa.table(rows), events.filter(events["table_no"].is_valid()))
    found: list[dict[str, Any]] = []
    for name, index, offset in zip(*(places[name].to_pylist() for name in places.schema.names), strict=True):
        numbers = {part: values[name] for part, values in parts.items() if name in values}
        sentences = _sentences(numbers) or of_tables.get(name, [])
        place = {"transaction_id": name, "file_index": index, "offset": offset}
        found += [{**place, "sentence": sentence} for sentence in sentences]
    return pa.RecordBatch.from_pylist([*found, {"numbered": len(parts["records"])}], _FOUND)


def _count(rows: pa.Table) -> dict[str, int]:
    return _by_transaction(rows, [([], "count_all")])


def _by_transaction(rows: pa.Table, aggregation: list[Any]) -> dict[str, int]:
    groups = rows.group_by("transaction_id").aggregate(aggregation)
    names, values = (column.to_pylist() for column in (groups["transaction_id"], groups.columns[-1]))
    return dict(zip(names, values, strict=True))


def _sentences(numbers: Mapping[str, int]) -> list[str]:
    """The contradictions of a transaction."""
    records, highest, again, begins = (numbers.get(name, 0) for name in ("records", "highest", "again", "begins"))
    end, last = numbers.get("end"), numbers.get("last")
    twice = [f"it begins {begins} times"] if begins > 1 else []
    twice += [f"{plural(again, 'number')} of its events came again with other records"] if again else []
    found = ["; ".join(twice)] if twice else []
    if end is not None and records and records > end - 1:
        found.append(f"its end counts {plural(end - 1, 'event')}, {records} came")
    if last is not None and highest > last:
        found.append(f"event {last} is marked as its last, event {highest} came")
    if end is not None and not begins and numbers.get("lowest") == 1:
        found.append("its first event and its end are in the capture, its begin is not")
    return found


def _table_sentences(rows: pa.Table, events: pa.Table) -> dict[str, list[str]]:
    """The contradictions of the numbers of each table, by transaction."""
    found: dict[str, list[str]] = {}
    if not len(events):
        return found
    by_table = ["transaction_id", "table"]
    records = events.group_by([*by_table, "table_no", "position"]).aggregate([])
    numbers = records.group_by([*by_table, "table_no"]).aggregate([([], "count_all")])
    again = numbers.filter(pc.greater(numbers["count_all"], 1)).group_by(by_table).aggregate([([], "count_all")])
    for name, table, number in zip(*(column.to_pylist() for column in again.columns), strict=True):
        sentence = f"{plural(number, 'number')} of its events of {table} came again with other records"
        found.setdefault(name, []).append(sentence)
    came: dict[str, dict[str, int]] = {}
    groups = records.group_by(by_table).aggregate([([], "count_all")])
    for name, table, number in zip(*(column.to_pylist() for column in groups.columns), strict=True):
        came.setdefault(name, {})[table] = number
    ends = rows.filter(rows["counts"].is_valid())
    for name, text in zip(ends["transaction_id"].to_pylist(), ends["counts"].to_pylist(), strict=True):
        counts = {one["data_collection"]: one["event_count"] for one in msgspec.json.decode(text)}
        for table, number in came.get(name, {}).items():  # an end may name the database, too
            counted = next((counts[one] for one in counts if one == table or one.endswith(f".{table}")), 0)
            if number > counted:
                sentence = f"its end counts {plural(counted, 'event')} of {table}, {number} came"
                found.setdefault(name, []).append(sentence)
    return found
