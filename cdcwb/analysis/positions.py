"""Positions: do the records of a log arrive in its order?

Only where the order of the capture is that of the log (:data:`STREAMS`, docs/continuity.md): rows of a table have the
order of their export, and change positions of transactions that were committed one after the other interleave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.dataset import Batches, answer_of, differ, joined
from cdcwb.model import EVENTS, Kind

__all__ = ["MOST_PLACES", "STREAMS", "Positions", "positions"]

MOST_PLACES: Final = 100
"""The most records out of order that are listed; all are counted."""

_PARTITION: Final = ("kafka.partition", "kafka.topic")
STREAMS: Final[dict[str, tuple[str, ...]]] = {
    "gbase8s": (),
    "goldengate": (),
    "qlik-kafka": _PARTITION,
    "maxwell": (*_PARTITION, "server_id"),
    "debezium": (*_PARTITION, "source.server_id", "source.connector"),
}
"""The formats whose positions are checked, with the header fields that identify their streams. Messages without a
partition are not checked: a consumer mixes partitions."""

_LOG_ORDER: Final = pa.array(["mysql", "mariadb", "sqlserver", "db2"])
"""Connectors of Debezium whose changes have positions that rise from transaction to transaction."""

_KINDS: Final = pa.array(list(map(str, (Kind.CHANGE, Kind.BEFORE, Kind.AFTER, Kind.BEGIN, Kind.COMMIT))))
_ENDS: Final = pa.array(list(map(str, (Kind.BEGIN, Kind.COMMIT))))
_CAPTURE_ORDER: Final = ("file_index", "offset")
_RECORD: Final = (EVENTS.field("position"), EVENTS.field("file_index"), EVENTS.field("offset"))
_IN_STREAM: Final = pa.schema([("stream", pa.string()), *_RECORD])
_COMPARED: Final = pa.schema([*_IN_STREAM, *(one.with_name(f"earlier_{one.name}") for one in _RECORD)])
"""The records of streams; those whose position is below that of the record before have that one as the earlier one."""


@dataclass(frozen=True, slots=True)
class Positions:
    """The positions of a capture: ``records`` that were compared, the number of ``contradictions`` (a position that had
    not come before is below that of the record before it), and the first of them in capture order (``listed``):
    ``sentence``, ``file``, ``offset``."""

    records: int
    contradictions: int
    listed: list[dict[str, Any]] = field(default_factory=list)


def positions(capture: Any) -> Positions:
    """Compares the position of each record with that of the record before it in its stream.

    A position that came before is a repeat: the source was read again from there. A capture with ``answers`` is asked
    once.
    """
    return answer_of(capture, "positions", _found)


def _found(capture: Any) -> Positions:
    if capture.format not in STREAMS:
        return Positions(0, 0)
    fields = STREAMS[capture.format]
    columns = ["format", "kind", "transaction_id", *_IN_STREAM.names[1:], *(["headers"] if fields else [])]
    records = capture.rows("events", columns).map(partial(_in_streams, fields), _IN_STREAM)
    compared = records.by_key(["stream"], _CAPTURE_ORDER, _compared, _COMPARED)
    number, steps, _ = compared.fold(_added, _merged)
    if not steps:
        return Positions(number, 0)
    unseen = compared.by_key(["stream", "position"], _CAPTURE_ORDER, _firsts, _COMPARED)
    _, steps, first = unseen.fold(_added, _merged)
    files = {entry["file_index"]: entry["file"] for entry in capture.files}
    listed = [
        {"sentence": _sentence(row, files), "file": files.get(row["file_index"]), "offset": row["offset"]}
        for row in first
    ]
    return Positions(number, steps, listed)


def _in_streams(fields: Sequence[str], events: pa.RecordBatch) -> pa.RecordBatch:
    """The records that are compared, each with its stream: the partition of a topic, else the transaction (its begin
    and its end are in streams of their own), else the trail."""
    events = events.filter(pc.and_(pc.is_in(events["kind"], _KINDS), events["position"].is_valid()))
    file = events["file_index"].cast(pa.string())
    if fields:
        partition, *others = (pc.map_lookup(events["headers"], name, "first") for name in fields)
        stream = pc.binary_join_element_wise(file, partition, *(pc.fill_null(one, "") for one in others), "\0")
        if fields[-1] == "source.connector":
            stream = pc.if_else(pc.is_in(others[-1], _LOG_ORDER), stream, None)
    elif events.num_rows and events["format"][0].as_py() == "goldengate":
        is_of_trail = pc.invert(pc.starts_with(events["position"], "0000000000"))  # the number of the trail is known
        stream = pc.if_else(is_of_trail, file, None)
    else:
        stream = pc.if_else(pc.is_in(events["kind"], _ENDS), events["kind"], events["transaction_id"])
    columns = {"stream": stream.cast(pa.string())} | {one.name: events[one.name] for one in _RECORD}
    rows = pa.RecordBatch.from_pydict(columns, schema=_IN_STREAM)
    return rows.filter(rows["stream"].is_valid())


def _compared(batches: Batches) -> Batches:
    """The records of streams, with the record before where that has a higher position."""
    last = joined([], _IN_STREAM)
    for batch in batches:
        rows = joined([last, batch], _IN_STREAM)
        steps = np.zeros(rows.num_rows, np.bool_)
        if rows.num_rows > 1:
            later, earlier = rows.slice(1), rows.slice(0, rows.num_rows - 1)
            is_back = np.asarray(pc.less(later["position"], earlier["position"]))
            steps[1:] = is_back & ~differ(later["stream"], earlier["stream"])
        at = pa.array(np.arange(rows.num_rows) - 1, mask=~steps)
        columns = [*rows.columns, *(rows[one.name].take(at) for one in _RECORD)]
        marked = pa.RecordBatch.from_arrays(columns, schema=_COMPARED)
        yield marked.slice(last.num_rows)
        last = rows.slice(rows.num_rows - 1)


def _firsts(batches: Batches) -> Batches:
    """The first record of each position of a stream."""
    last = joined([], _COMPARED)
    for batch in batches:
        rows = joined([last, batch], _COMPARED)
        is_first = np.ones(rows.num_rows, np.bool_)
        pairs = [(rows[name].slice(1), rows[name].slice(0, rows.num_rows - 1)) for name in ("stream", "position")]
        is_first[1:] = differ(*pairs[0]) | differ(*pairs[1])
        yield rows.filter(pa.array(is_first)).slice(last.num_rows)
        last = rows.slice(rows.num_rows - 1)


_Sum = tuple[int, int, list[dict[str, Any]]]


def _added(rows: pa.RecordBatch) -> _Sum:
    steps = rows.filter(rows["earlier_position"].is_valid())
    by = [(name, "ascending") for name in _CAPTURE_ORDER]
    return rows.num_rows, steps.num_rows, steps.sort_by(by).slice(0, MOST_PLACES).to_pylist()


def _merged(parts: Sequence[_Sum]) -> _Sum:
    first = sorted((row for _, _, rows in parts for row in rows), key=lambda row: (row["file_index"], row["offset"]))
    return sum(part[0] for part in parts), sum(part[1] for part in parts), first[:MOST_PLACES]


def _sentence(row: dict[str, Any], files: dict[int, str]) -> str:
    records = []
    for which in ("", "earlier_"):
        position, index, offset = (row[f"{which}{one.name}"] for one in _RECORD)
        records.append(f"position {position} at {offset} of {files.get(index, '').rpartition('/')[2]}")
    return f"{records[0]} follows {records[1]}, which is later in the log"
