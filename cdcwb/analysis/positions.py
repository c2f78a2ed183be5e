"""Positions and other numbers of records, stream by stream: do they rise, and has each number one record?

A stream is a partition of a topic, a change table, a trail, or the log. Positions rise in the order of the capture only
where that is the order of the log (:data:`STREAMS`, docs/continuity.md): rows of a table have the order of their
export, and change positions of transactions that were committed one after the other interleave.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.dataset import (
    Batches,
    Rows,
    answer_of,
    are_first,
    counted_by,
    first_of,
    grouped,
    joined,
    together,
    total,
    totals_of,
)
from cdcwb.filters import as_flags, labels
from cdcwb.formats import FORMATS, get_format
from cdcwb.formats.dissector import CHANGES, Pairing
from cdcwb.index.columns import Ints
from cdcwb.model import EVENTS, Kind

MOST_PLACES: Final = 100
"""The most contradictions that are listed; all are counted."""

PLACES: Final = 30
"""The number of locations that a page shows."""

STREAMS: Final[dict[str, tuple[str, ...]]] = {
    "gbase8s": (),
    "goldengate": (),
    "qlik-kafka": (),
    "maxwell": ("server_id",),
    "debezium": ("source.server_id", "source.connector"),
}
"""The formats whose positions are in the order of the log, with the header fields of the server: each has a log of its
own. Messages without a partition are in no order: a consumer mixes partitions."""

UNIQUE: Final[dict[str, str]] = {
    "qlik-kafka": "changeSequence",
    "qlik-change-table": "change_seq",
    "sqlserver-ct": "__$start_lsn and __$seqval",
}
"""The formats whose position is that of one change of an operation, and what it is called."""

_OFFSETS: Final = ("qlik-kafka", "debezium", "maxwell")  # a message of these is one record
_MESSAGES: Final = (*_OFFSETS, "canal", "goldengate-export")  # their streams are partitions of topics
_CHANGE_TABLES: Final = ("qlik-change-table", "sqlserver-ct")  # each table is a stream
_LOG_ORDER: Final = pa.array(["mysql", "mariadb", "sqlserver", "db2"])
"""Connectors of Debezium whose changes have positions that rise from transaction to transaction."""

_IN_ORDER: Final = pa.array([*CHANGES, Kind.BEGIN, Kind.COMMIT], pa.string())
_APART: Final = (Kind.UNDO, Kind.HEARTBEAT)
_UNREAD: Final = pa.array([Kind.FILLER, Kind.MALFORMED], pa.string())

_CAPTURE_ORDER: Final = ("file_index", "offset")
_RECORD: Final = (*_CAPTURE_ORDER, "kind", "operation", "record_type", "transaction_id")
_READ: Final = ("file", *_RECORD, "position", "schema_name", "table_name")
_BODY: Final = ("key", "before", "after", "raw", "headers")
_SEQUENCE: Final = ("numbering", "stream", "part")
_NUMBERED: Final = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("numbering", "stream", "part", "scope", "number")),
        *(pa.field(name, pa.bool_()) for name in ("is_ordered", "is_unique")),
        *(EVENTS.field(name).remove_metadata() for name in _RECORD),
    ]
)
"""The numbers of records: of a ``numbering`` (position, or offset in a partition) in a ``stream``. They rise in each
``part`` of it if it ``is_ordered``; in a ``scope`` a number that ``is_unique`` has one record."""

_EARLIER: Final = ("number", *_CAPTURE_ORDER)
_COMPARED: Final = pa.schema(
    [
        *_NUMBERED,
        ("is_behind", pa.bool_()),
        *(_NUMBERED.field(name).with_name(f"earlier_{name}") for name in _EARLIER),
    ]
)
"""The same; those whose number is below that of the record before in their sequence have that as the earlier one;
``is_behind``: below the highest one before."""

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Positions:
    """The sequence of numbers in each stream.

    ``streams``: ``numbering`` (position or offset), ``stream`` (empty: the log), ``format``, ``records`` (with a
    number), ``steps_back`` (records whose number is below that of the preceding record), ``behind`` (records below the
    highest preceding number: one decrease may produce many), ``first``, ``last`` (lowest and highest), ``ordered``
    (records that have to rise), ``unique`` (records with a number that no other one may have); those with most
    ``steps_back`` first. ``places``: the first :data:`PLACES` positions out of order, in capture order.

    ``contradictions`` is the number of records that have to rise and do not: their position, which had not come before
    in the stream, is below that of the record before. ``listed`` are the first of them.

    The records of both have ``stream``, ``file``, ``offset``, ``record_type``, ``number``, ``transaction_id``,
    ``earlier_file``, ``earlier_offset``, ``earlier_number`` and a ``sentence``.
    """

    streams: list[Record] = field(default_factory=list)
    places: list[Record] = field(default_factory=list)
    contradictions: int = 0
    listed: list[Record] = field(default_factory=list)

    @property
    def of_positions(self) -> list[Record]:
        """The streams of positions."""
        return [stream for stream in self.streams if stream["numbering"] == "position"]

    def total(self, name: str) -> int:
        """The sum of a number of all streams of positions."""
        return sum(stream[name] for stream in self.of_positions)


def positions(capture: Any) -> Positions:
    """Reads the numbers of each stream in the order of the capture.

    A position that came before in the stream contradicts nothing: the source was read again from there. A capture with
    ``answers`` is asked once.
    """
    return answer_of(capture, "positions", _in_sequence)


def _in_sequence(capture: Any) -> Positions:
    numbers = _numbers(capture)
    runs = numbers.map(_runs, _RUN).reduce_by_key(["sequence"], _CAPTURE_ORDER, _joined_runs)
    rising, others = runs.fold(_added_runs, _merged_runs)
    if len(others) <= _MOST_SEQUENCES:
        names = pa.array(others, pa.string())
        numbers = numbers.where(lambda batch: pc.is_in(_sequences(batch), names))
    else:
        rising = rising.slice(0, 0)
    compared = numbers.by_key(_SEQUENCE, _CAPTURE_ORDER, _compare, _COMPARED)
    totals, places = rising.slice(0, 0), _COMPARED.empty_table()
    if others:
        back = first_of(_COMPARED, _CAPTURE_ORDER, PLACES, where=_is_back)
        totals, places = compared.fold(*together(totals_of(_COMPARED, _TOTALS, _of_stream), back))
    streams = [{"format": capture.format, **stream} for stream in grouped([rising, totals], _TOTALS).to_pylist()]
    files = {entry["file_index"]: entry["file"] for entry in capture.files}
    contradictions, listed = 0, _COMPARED.empty_table()
    if any(stream["ordered_steps"] for stream in streams):
        unseen = compared.numbered([*_SEQUENCE, "number"], "times", _CAPTURE_ORDER).where(_is_unseen_step)
        contradictions, listed = unseen.fold(
            *together((len, total), first_of(unseen.schema, _CAPTURE_ORDER, MOST_PLACES))
        )
    streams.sort(key=lambda stream: (-stream["steps_back"], stream["stream"]))
    shown, first = ([_step(row, files) for row in rows.to_pylist()] for rows in (places, listed))
    return Positions(streams, shown, contradictions, first)


def _numbers(capture: Any) -> Rows:
    """The numbers of the records of a capture (:data:`_NUMBERED`)."""
    headers = [] if capture.format in ("gbase8s", "goldengate", "qlik-change-table", "idm-event-log") else ["headers"]
    rows: Rows = capture.rows("events", (*_READ, *headers)).map(partial(_numbered, capture.format), _NUMBERED)
    return rows


def _numbered(name: str, events: pa.RecordBatch) -> pa.RecordBatch:
    return joined([_of_positions(name, events), _of_offsets(name, events)], _NUMBERED)


def _of_positions(name: str, events: pa.RecordBatch) -> pa.RecordBatch:
    """The positions of the records of a format. Those of a before image may be of the change that follows, those of an
    UNDO are of what it undoes, and heartbeats have any."""
    has_halves = name in FORMATS and get_format(name).pairing is Pairing.POSITION
    is_apart = pc.is_in(events["kind"], pa.array([*_APART, *([Kind.BEFORE] if has_halves else [])], pa.string()))
    rows = events.filter(pc.and_not(events["position"].is_valid(), is_apart))
    nothing = pa.nulls(rows.num_rows, pa.string())
    fields = {one: _header(rows, one) for one in ("kafka.partition", *STREAMS.get(name, ()), "__$seqval")}
    is_change = pc.is_in(rows["kind"], pa.array(CHANGES))
    is_ordered, is_unique = pa.repeat(name in STREAMS, rows.num_rows), pa.repeat(name in UNIQUE, rows.num_rows)
    part, scope = nothing, pa.repeat("", rows.num_rows)
    if name == "gbase8s":  # positions rise in a transaction, and from begin to begin and from end to end
        part = pc.if_else(is_change, rows["transaction_id"], rows["kind"])
    elif name == "goldengate":
        is_ordered = pc.invert(pc.starts_with(rows["position"], "0000000000"))  # the number of the trail is known
    elif name in STREAMS:
        is_ordered = fields["kafka.partition"].is_valid()
        servers = [pc.fill_null(fields[one], "") for one in STREAMS[name]]
        part = pc.binary_join_element_wise(*servers, "\0") if servers else nothing
        if name == "debezium":
            is_ordered = pc.and_(is_ordered, pc.fill_null(pc.is_in(servers[-1], _LOG_ORDER), False))
    elif name in _CHANGE_TABLES:
        scope = pc.binary_join_element_wise(*(pc.fill_null(one, "") for one in (labels(rows), rows["operation"])), "\0")
        if name == "sqlserver-ct":
            is_unique = fields["__$seqval"].is_valid()
    columns = {"numbering": "position", "number": rows["position"], "part": part, "scope": scope}
    columns |= {"is_ordered": pc.and_(is_ordered, pc.is_in(rows["kind"], _IN_ORDER))}
    return _rows(name, rows, columns | {"is_unique": pc.and_(is_unique, is_change)})


def _of_offsets(name: str, events: pa.RecordBatch) -> pa.RecordBatch:
    """The offsets of messages."""
    offset = _header(events, "kafka.offset")
    is_message = pc.and_not(pc.and_(offset.is_valid(), name in _OFFSETS), pc.is_in(events["kind"], _UNREAD))
    rows = events.filter(is_message)
    number = pc.utf8_lpad(offset.filter(is_message), 20, "0")
    columns = {"numbering": "offset", "number": number, "scope": _streams(name, rows), "part": None}
    return _rows(name, rows, columns | {"is_ordered": False, "is_unique": True})


def _rows(name: str, events: pa.RecordBatch, columns: dict[str, Any]) -> pa.RecordBatch:
    """The rows of :data:`_NUMBERED` of some events."""
    columns = columns | {"stream": _streams(name, events), **{column: events[column] for column in _RECORD}}
    arrays = {
        name: one if isinstance(one, pa.Array) else pa.repeat(pa.scalar(one, _NUMBERED.field(name).type), len(events))
        for name, one in columns.items()
    }
    return pa.RecordBatch.from_pydict(arrays, _NUMBERED)


def _header(events: pa.RecordBatch, name: str) -> pa.Array:
    if "headers" not in events.schema.names:
        return pa.nulls(events.num_rows, pa.string())
    return pc.map_lookup(events["headers"], name, "first")


def _streams(name: str, events: pa.RecordBatch) -> pa.Array:
    """The name of the stream of each record: the partition of a topic (of a file, where the topic is not known), a
    change table, the file, or nothing for the log."""
    if name in ("gbase8s", "idm-event-log"):
        return pa.repeat("", events.num_rows)
    if name in _CHANGE_TABLES:
        is_control = pc.equal(events["kind"], str(Kind.CONTROL))
        return pc.coalesce(pc.if_else(is_control, None, labels(events)), events["file"])
    topic, partition = _header(events, "kafka.topic"), _header(events, "kafka.partition")
    partition = pc.binary_join_element_wise("partition ", partition, "")
    return pc.binary_join_element_wise(pc.coalesce(topic, events["file"]), partition, ", ", null_handling="skip")


def _compare(batches: Batches) -> Batches:
    """The numbers of sequences (:data:`_COMPARED`)."""
    last = joined([], _NUMBERED)
    highest = ""  # of the sequence that it ended with
    for batch in batches:
        rows = joined([last, batch], _NUMBERED)
        size, begins = rows.num_rows, are_first(rows, _SEQUENCE)
        texts = pa.concat_arrays([rows["number"], pa.array([highest])])
        ranks = np.asarray(pc.rank(texts, "ascending", tiebreaker="dense")).astype(np.int64)
        own, peak = ranks[:-1], ranks[:-1].copy()
        peak[0] = max(peak[0], ranks[-1]) if last.num_rows else peak[0]
        sequence = np.cumsum(begins) * (size + 2)
        peak = np.maximum.accumulate(sequence + peak) - sequence
        is_back, is_behind = np.zeros((2, size), np.bool_)
        is_back[1:] = (own[1:] < own[:-1]) & ~begins[1:]
        is_behind[1:] = (own[1:] < peak[:-1]) & ~begins[1:]
        at = pa.array(np.arange(size) - 1, mask=~is_back)
        columns = [*rows.columns, pa.array(is_behind), *(rows[name].take(at) for name in _EARLIER)]
        yield pa.RecordBatch.from_arrays(columns, schema=_COMPARED).slice(last.num_rows)
        if peak[-1] != ranks[-1]:
            highest = rows["number"][int(np.flatnonzero(own == peak[-1])[0])].as_py()
        last = rows.slice(size - 1)


# --- sequences that rise ----------------------------------------------------------------------------------------------

# Most sequences rise, and that is seen in few columns: consecutive records are one run, and runs follow one another.

_MOST_SEQUENCES: Final = 100_000  # that are compared record by record, apart from the others
_PLACE_OF_RUN: Final = (*_CAPTURE_ORDER, "last_file_index", "last_offset")
_RUN: Final = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("sequence", "numbering", "stream", "first", "last")),
        *(pa.field(name, pa.int64()) for name in (*_PLACE_OF_RUN, "records", "ordered", "unique")),
        pa.field("is_rising", pa.bool_()),
    ]
)
"""Records of a sequence that follow one another in it: the first and the last number and location, and their numbers.
``is_rising``: no number is below the one before."""


def _sequences(rows: pa.RecordBatch) -> pa.Array:
    """The sequence of each record."""
    part = pc.coalesce(pc.binary_join_element_wise("\0", rows["part"], ""), "")
    return pc.binary_join_element_wise(rows["numbering"], rows["stream"], part, "\0")


def _runs(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The runs of a batch (:data:`_NUMBERED`): one for each sequence."""
    sequence = _sequences(rows)
    codes = np.asarray(sequence.dictionary_encode().indices)
    order = pa.array(np.lexsort((np.asarray(rows["offset"]), np.asarray(rows["file_index"]), codes)))
    columns = {name: rows[name] for name in (*_STREAM, *_CAPTURE_ORDER)}
    columns |= {"sequence": sequence, "first": rows["number"], "last": rows["number"]}
    columns |= {f"last_{name}": rows[name] for name in _CAPTURE_ORDER}
    columns |= {"records": rows["number"].is_valid(), "ordered": rows["is_ordered"], "unique": rows["is_unique"]}
    columns["is_rising"] = pa.repeat(True, len(rows))
    return _joined_runs(pa.RecordBatch.from_pydict(columns, _RUN).take(order))


def _joined_runs(runs: pa.RecordBatch) -> pa.RecordBatch:
    """One run for each sequence, from runs in the order of sequences and of their first records."""
    if not len(runs):
        return runs
    later, earlier = runs.slice(1), runs.slice(0, len(runs) - 1)
    begins = are_first(runs, ["sequence"])
    index, offset, last_index, last_offset = (np.asarray(runs[name]) for name in _PLACE_OF_RUN)
    is_back = as_flags(pc.less(later["first"], earlier["last"]))
    is_back |= (index[1:] < last_index[:-1]) | ((index[1:] == last_index[:-1]) & (offset[1:] < last_offset[:-1]))
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(runs)) - 1
    is_rising = as_flags(runs["is_rising"]) & (begins | ~np.append(False, is_back))
    columns: dict[str, Any] = {name: runs[name].take(pa.array(starts)) for name in _RUN.names}
    columns |= {name: runs[name].take(pa.array(ends)) for name in _RUN.names if name.startswith("last")}
    columns |= {name: np.add.reduceat(np.asarray(runs[name]), starts) for name in ("records", "ordered", "unique")}
    columns["is_rising"] = np.logical_and.reduceat(is_rising, starts)
    return pa.RecordBatch.from_pydict(columns, _RUN)


def _added_runs(runs: pa.RecordBatch) -> tuple[pa.Table, list[str]]:
    """The totals of the sequences that rise, and the other sequences."""
    rising = runs.filter(runs["is_rising"])
    none = pa.repeat(pa.scalar(0, pa.int64()), len(rising))
    columns = {name: rising[name] if name in _RUN.names else none for name in (*_STREAM, *_TOTALS)}
    others = runs["sequence"].filter(pc.invert(runs["is_rising"])).to_pylist()
    return grouped([pa.table(columns)], _TOTALS), others[: _MOST_SEQUENCES + 1]


def _merged_runs(parts: Sequence[tuple[pa.Table, list[str]]]) -> tuple[pa.Table, list[str]]:
    totals = grouped([part[0] for part in parts] or [_added_runs(joined([], _RUN))[0]], _TOTALS)
    return totals, [name for part in parts for name in part[1]][: _MOST_SEQUENCES + 1]


# --- sequences record by record ---------------------------------------------------------------------------------------

_STREAM: Final = ("numbering", "stream")
_TOTALS: Final = {
    **dict.fromkeys(("records", "steps_back", "behind", "ordered", "ordered_steps", "unique"), "sum"),
    "first": "min",
    "last": "max",
}


def _of_stream(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    """What each record adds to the totals of its stream."""
    is_back = rows["earlier_number"].is_valid()
    flags = {"records": pc.is_valid(rows["number"]), "steps_back": is_back, "behind": rows["is_behind"]}
    flags |= {"ordered": rows["is_ordered"], "ordered_steps": pc.and_(is_back, rows["is_ordered"])}
    numbers = {name: one.cast(pa.int64()) for name, one in (flags | {"unique": rows["is_unique"]}).items()}
    return {name: rows[name] for name in _STREAM} | numbers | {"first": rows["number"], "last": rows["number"]}


def _is_unseen_step(rows: pa.RecordBatch) -> pa.Array:
    """Whether each record has a number that has to rise and does not, and is the first with this number."""
    return pc.and_(pc.and_(rows["is_ordered"], rows["earlier_number"].is_valid()), pc.equal(rows["times"], 1))


def _is_back(rows: pa.RecordBatch) -> pa.Array:
    """Whether each record is a position below that of the record before."""
    return pc.and_(rows["earlier_number"].is_valid(), pc.equal(rows["numbering"], "position"))


def _step(row: Record, files: dict[int, str]) -> Record:
    """A record out of order, with the one before it."""
    shown = {name: row[name] for name in ("stream", "offset", "record_type", "number", "transaction_id")}
    shown |= {f"{which}file": files.get(row[f"{which}file_index"], "") for which in ("", "earlier_")}
    shown |= {name: row[name] for name in ("earlier_offset", "earlier_number")}
    records = [
        f"position {shown[f'{which}number']} at {shown[f'{which}offset']} of {_name(shown[f'{which}file'])}"
        for which in ("", "earlier_")
    ]
    return shown | {"sentence": f"{records[0]} follows {records[1]}, which is later in the log"}


def _name(file: str) -> str:
    return file.rpartition("/")[2]


# --- numbers that come again ------------------------------------------------------------------------------------------

_MOST_SHARED: Final = 1_000_000  # numbers of several records by which events are selected
_KEY: Final = ("numbering", "scope", "number")
_OF_SHARED: Final = pa.schema([*_NUMBERED, ("body", pa.binary())])
_SHARED: Final = pa.schema(
    [
        *(_NUMBERED.field(name) for name in ("numbering", "stream", "number", "transaction_id")),
        *(pa.field(name, pa.int64()) for name in ("records", "bodies")),
        *(("is_unique", pa.bool_()), ("what", pa.string())),
        *(
            _NUMBERED.field(name).with_name(f"{which}{name}")
            for which in ("", "earlier_")
            for name in (*_CAPTURE_ORDER, "kind", "operation", "record_type")
        ),
    ]
)
"""A number that several records have: the first of them is the earlier one, and the last one that differs from it, or
the last one."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """Numbers that several records have: the number of ``positions``, and the ``surplus`` records (one less than each
    position has).

    ``duplicates``: surplus records with the content of another record at the position; the others have the same
    position and differ. ``places``: :data:`PLACES` of the positions, those with records that differ first, by
    their last record: ``number``, ``records``, ``what`` (``duplicate`` if all are equal, else ``same position``),
    ``file``, ``offset``, ``kind``, ``earlier_file``, ``earlier_offset``, ``transaction_id``.

    ``contradictions`` is the number of those that only one record may have and whose records differ: offsets in a
    partition, and positions of :data:`UNIQUE`. ``listed`` are the first of them, with a ``sentence``.

    ``surplus_of``: the number of surplus records (``rows``) by ``numbering`` and ``scope``.
    """

    positions: int = 0
    surplus: int = 0
    duplicates: int = 0
    places: list[Record] = field(default_factory=list)
    contradictions: int = 0
    listed: list[Record] = field(default_factory=list)
    surplus_of: list[Record] = field(default_factory=list)


def has_unique_numbers(capture: Any) -> bool:
    """Whether records of this format may have numbers that no other record may have."""
    return capture.format in (*UNIQUE, *_OFFSETS)


def repeated(capture: Any) -> Repeated:
    """Finds numbers that several records have, and compares these records. A capture with ``answers`` is asked once."""
    return answer_of(capture, "repeated", _repeated)


def _repeated(capture: Any) -> Repeated:
    times = _numbers(capture).select(_KEY).numbered(_KEY, "times")
    again = times.where(lambda batch: pc.greater(batch["times"], 1))
    surplus = again.fold(*counted_by(again.schema, ["numbering", "scope"])).to_pylist()
    if not surplus:
        return Repeated()
    second = again.where(lambda batch: pc.equal(batch["times"], 2))
    shared = second.first(_KEY, _MOST_SHARED + 1)
    chosen = _texts(shared) if len(shared) <= _MOST_SHARED else None
    events = capture.rows("events", (*_READ, *_BODY)).map(partial(_of_shared, capture.format, chosen), _OF_SHARED)
    found = events.by_key(_KEY, _CAPTURE_ORDER, _same_number, _SHARED)
    differing_first: list[str | tuple[str, str]] = [("what", "descending"), *_CAPTURE_ORDER]
    numbers, shared_places, wrong = found.fold(
        *together(
            (_numbers_of_shared, lambda parts: sum(parts, np.zeros(4, np.int64))),
            first_of(_SHARED, differing_first, PLACES, where=lambda rows: pc.equal(rows["numbering"], "position")),
            first_of(_SHARED, _CAPTURE_ORDER, MOST_PLACES, where=_are_wrong),
        )
    )
    files = {entry["file_index"]: entry["file"] for entry in capture.files}
    first = [[_shared(row, capture.format, files) for row in rows.to_pylist()] for rows in (shared_places, wrong)]
    of_positions, records, duplicates, contradictions = numbers.tolist()
    return Repeated(of_positions, records, duplicates, first[0], contradictions, first[1], surplus)


def _texts(rows: pa.RecordBatch | pa.Table) -> Any:
    texts = pc.binary_join_element_wise(*(pc.fill_null(rows[name], "") for name in _KEY), "\0")
    return texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts


def _of_shared(name: str, chosen: pa.Array | None, events: pa.RecordBatch) -> pa.RecordBatch:
    """The records with one of the ``chosen`` numbers (None: all), each with a hash of its content: its kind, table,
    key and images, and its header fields but those of Kafka; its bytes if it has neither key nor images."""
    found = _numbered(name, events)
    if chosen is not None:
        found = found.filter(pc.is_in(_texts(found), chosen))
    at = pc.index_in(_places(found), _places(events))
    bodies = [_body(row) for row in events.take(at).select([*_CONTENT, *_BODY]).to_pylist()]
    return pa.RecordBatch.from_arrays([*found.columns, pa.array(bodies, pa.binary())], schema=_OF_SHARED)


_CONTENT: Final = ("kind", "operation", "record_type", "schema_name", "table_name")


def _places(rows: pa.RecordBatch) -> pa.Array:
    return pc.binary_join_element_wise(*(rows[name].cast(pa.string()) for name in (*_CAPTURE_ORDER, "kind")), " ")


def _body(row: Record) -> bytes:
    content = [row[name] for name in (*_CONTENT, *_BODY[:3])]
    content += [(name, value) for name, value in row["headers"] or () if not name.startswith("kafka.")]
    content += [row["raw"]] if not any(row[name] is not None for name in _BODY[:3]) else []
    return hashlib.sha256(repr(content).encode()).digest()


def _same_number(batches: Batches) -> Batches:
    """A row of :data:`_SHARED` for each number that several records have."""
    records = (row for batch in batches for row in batch.to_pylist())
    for _, group in groupby(records, lambda row: [row[name] for name in _KEY]):
        of_number = [*group]
        if len(of_number) > 1:
            first = of_number[0]
            again = next((one for one in reversed(of_number) if one["body"] != first["body"]), of_number[-1])
            row = {**again, **{f"earlier_{name}": value for name, value in first.items()}}
            row |= {"records": len(of_number), "bodies": len({one["body"] for one in of_number})}
            row["what"] = "duplicate" if row["bodies"] == 1 else "same position"
            row["transaction_id"] = first["transaction_id"] or again["transaction_id"]
            yield pa.RecordBatch.from_pylist([row], _SHARED)


def _are_wrong(rows: pa.RecordBatch) -> pa.Array:
    """Whether each number is one that only one record may have."""
    return pc.and_(rows["is_unique"], pc.greater(rows["bodies"], 1))


def _numbers_of_shared(rows: pa.RecordBatch) -> Ints:
    """The numbers of positions, of their surplus records and duplicates, and of contradictions."""
    positions = rows.filter(pc.equal(rows["numbering"], "position"))
    records, bodies = np.asarray(positions["records"]), np.asarray(positions["bodies"])
    wrong = np.count_nonzero(as_flags(_are_wrong(rows)))
    return np.array([len(records), (records - 1).sum(), (records - bodies).sum(), wrong])


def _shared(row: Record, format: str, files: dict[int, str]) -> Record:
    row = row | {f"{which}file": files.get(row[f"{which}file_index"], "") for which in ("", "earlier_")}
    records = [
        f"the {row[f'{which}operation'] or row[f'{which}record_type']} at {row[f'{which}offset']} of "
        f"{_name(row[f'{which}file'])}"
        for which in ("", "earlier_")
    ]
    number = f"{UNIQUE.get(format, 'position')} {row['number']}"
    if row["numbering"] == "offset":
        number = f"offset {row['number'].lstrip('0') or '0'} of {_name(row['stream'])}"
    names = ("numbering", "number", "records", "what", "file", "offset", "kind", "earlier_file", "earlier_offset")
    sentence = f"{number} comes again with another record: {records[0]} is not {records[1]}"
    return {name: row[name] for name in (*names, "transaction_id")} | {"sentence": sentence}


def missing_numbers(capture: Any) -> list[Record]:
    """Numbers that are missing in consecutive numbering of the source: the offsets of a topic's partition, the record
    ids of an event log. One row for each stream with such numbers: ``stream``, ``numbering`` (``offset`` or
    ``record_id``), ``first``, ``last``, ``there`` (number of distinct ones), ``missing`` (between first and last); most
    missing first.

    A compacted topic and the sequence of a database omit numbers although nothing is missing.
    """
    is_log = capture.format == "idm-event-log"
    numbered_streams = [one for one in positions(capture).streams if is_log or one["numbering"] == "offset"]
    if not numbered_streams:
        return []
    surplus = {(row["numbering"], row["scope"]): row["rows"] for row in repeated(capture).surplus_of}
    streams = []
    for stream in numbered_streams:
        ends = [re.search(r"[0-9]{1,18}$", stream[name]) for name in ("first", "last")]
        if all(ends):
            first, last = (int(end[0]) for end in ends if end)
            there = stream["records"] - surplus.get((stream["numbering"], stream["stream"]), 0)
            row = {"stream": stream["stream"], "numbering": "record_id" if is_log else stream["numbering"]}
            row |= {"first": first, "last": last, "there": there}
            streams.append(row | {"missing": last - first + 1 - there})
    return sorted(streams, key=lambda row: (-row["missing"], row["stream"]))
