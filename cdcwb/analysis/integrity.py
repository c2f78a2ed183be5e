"""Integrity of a capture: problems by code and one by one, the sequence of positions, and missing numbers."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.frames import NO_TABLE
from cdcwb.dataset import Batches, Rows, numbered, runs_of
from cdcwb.formats import FORMATS, get_format
from cdcwb.formats.dissector import Pairing
from cdcwb.index.columns import table_labels
from cdcwb.model import EVENTS, PROBLEMS, Kind, Problem, Severity

__all__ = [
    "PLACES",
    "Order",
    "Twice",
    "by_code",
    "first_problems",
    "gaps",
    "missing_numbers",
    "order",
    "twice",
    "worst",
]


_CODE: Final = ["severity", "code"]
_PLACE: Final = ("sentence", "file", "offset")
_RANKS: Final = pa.array([*Severity], pa.string())

Record = dict[str, Any]


def by_code(capture: Any) -> list[Record]:
    """Problems by code, worst first: ``severity``, ``code``, ``problems``, ``transactions`` (number of affected ones),
    and the first by file and offset: ``sentence``, ``file``, ``offset``."""
    rows = capture.rows("problems", [*_CODE, *_PLACE, "transaction_id"])
    names = [*_CODE, "transaction_id"]
    counts = rows.totals({"problems": "sum"}, lambda b: {n: b[n] for n in names} | {"problems": pa.repeat(1, len(b))})
    problems, transactions = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for row in counts.to_pylist():
        problems[row["severity"], row["code"]] += row["problems"]
        transactions[row["severity"], row["code"]] += row["transaction_id"] is not None
    no_file = rows.schema.append(pa.field("no_file", pa.bool_()))
    located = rows.map(lambda batch: batch.append_column("no_file", batch["file"].is_null()), no_file)
    order = [(name, "ascending") for name in ("no_file", "file", "offset", "sentence")]
    codes = []
    for first in located.first(order, 1, _CODE).to_pylist():
        code = first["severity"], first["code"]
        numbers = {"problems": problems[code], "transactions": transactions[code]}
        codes.append({**{name: first[name] for name in _CODE}, **numbers, **{name: first[name] for name in _PLACE}})
    ranks = _RANKS.to_pylist()
    return sorted(codes, key=lambda row: (ranks.index(row["severity"]), -row["problems"], row["code"]))


def worst(capture: Any, limit: int = 50) -> list[Record]:
    """The first ``limit`` problems, in the columns of the model: errors, then warnings, then information; by file and
    offset."""
    return first_problems(capture, ("severity", "file", "offset", "code", "sentence"), limit)


def first_problems(
    capture: Any, order: Sequence[str], limit: int, codes: Collection[str] | None = None
) -> list[Record]:
    """The first ``limit`` problems of some codes (None: all), in the columns of the model: by severity, worst first,
    then by the given columns, null first."""
    rows: Rows = capture.rows("problems", PROBLEMS.names)
    if codes is not None:
        rows = rows.where(lambda batch: pc.is_in(batch["code"], pa.array([*map(str, codes)], pa.string())))
    ranked = rows.map(
        lambda batch: batch.append_column("rank", pc.index_in(batch["severity"], _RANKS)),
        rows.schema.append(pa.field("rank", pa.int32())),
    )
    by = [("rank" if name == "severity" else name, "ascending") for name in order]
    problems: list[Record] = ranked.first(by, limit).drop_columns(["rank"]).to_pylist()
    return problems


# --- sequence ---------------------------------------------------------------------------------------------------------

PLACES: Final = 30
"""The number of locations that are shown."""

_MOST_SHARED: Final = 1_000_000  # positions of several records by which events are selected
_APART: Final = pa.array([Kind.UNDO, Kind.HEARTBEAT], pa.string())
_PAIRED: Final = pa.array([name for name in FORMATS if get_format(name).pairing is Pairing.POSITION], pa.string())
_MESSAGES: Final = ("qlik-kafka", "debezium")  # the streams of these formats are partitions of topics
_CHANGE_TABLES: Final = ("qlik-change-table", "sqlserver-ct")  # each table is a stream
_TOPIC: Final = "kafka.topic"
_PARTITION: Final = "kafka.partition"
_OFFSET: Final = "kafka.offset"
_NUMBERED: Final = (*_MESSAGES, "idm-event-log")
_READ: Final = (
    *("format", "file", "file_index", "offset", "kind", "record_type", "position"),
    *("schema_name", "table_name", "transaction_id"),
)
_SHOWN: Final = ("stream", "file", "offset", "record_type", "position", "transaction_id")
_STREAM: Final = pa.field("stream", pa.string())
_CAPTURE_ORDER: Final = ("file_index", "offset")
_OF_ORDER: Final = pa.schema([*map(EVENTS.field, ("format", "file_index", *_SHOWN[1:])), _STREAM])
_OF_TWICE: Final = pa.schema(
    [
        *map(EVENTS.field, ("position", "file_index", "file", "offset", "kind", "transaction_id")),
        pa.field("body", pa.binary()),
    ]
)
_OF_NUMBERS: Final = pa.schema([_STREAM, ("numbering", pa.string()), ("number", pa.int64())])
_LOCATION: Final = [pa.field("file_index", pa.int32()), pa.field("offset", pa.int64())]
_OUT_OF_ORDER: Final = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("stream", "format", "first_position", "last_position")),
        *(pa.field(name, pa.int64()) for name in ("records", "steps_back", "behind")),
        pa.field("places", pa.list_(pa.struct([*_LOCATION, pa.field("shown", pa.string())]))),
    ]
)


@dataclass(frozen=True, slots=True)
class Order:
    """The sequence of positions in each stream.

    ``streams``: ``stream`` (empty if there is only one log), ``format``, ``records`` (with a position), ``steps_back``
    (records whose position is below that of the preceding record), ``behind`` (records below the highest preceding
    position: one decrease may produce many), ``first_position``, ``last_position`` (lowest and highest); those with
    most ``steps_back`` first. ``places``: the first :data:`PLACES` records out of order, in capture order: ``stream``,
    ``file``, ``offset``, ``record_type``, ``position``, ``before_position``, ``before_file``, ``before_offset``,
    ``transaction_id``.
    """

    streams: list[dict[str, Any]] = field(default_factory=list)
    places: list[dict[str, Any]] = field(default_factory=list)

    @property
    def steps_back(self) -> int:
        """The records of all streams whose position is below that of the preceding record."""
        return sum(stream["steps_back"] for stream in self.streams)

    @property
    def behind(self) -> int:
        """The records of all streams below the highest preceding position."""
        return sum(stream["behind"] for stream in self.streams)

    @property
    def records(self) -> int:
        """Records with a position."""
        return sum(stream["records"] for stream in self.streams)


@dataclass(frozen=True, slots=True)
class Twice:
    """Positions that several records have: the number of ``positions``, and the ``surplus`` records (one less than each
    position has).

    ``duplicates``: surplus records whose bytes equal those of another record at the position; the others have the same
    position and differ. ``places``: :data:`PLACES` of the positions, ordered by their last record, positions with
    records that differ first: ``position``, ``records``, ``what`` (``duplicate`` if all bytes are equal, else ``same
    position``), ``file``, ``offset`` (of the first), ``again_file``, ``again_offset``, ``again_kind`` (of the last),
    ``transaction_id``.
    """

    positions: int
    surplus: int
    duplicates: int = 0
    places: list[dict[str, Any]] = field(default_factory=list)


def order(capture: Any) -> Order:
    """Finds positions that decrease: each stream is read in capture order."""
    events = _events(capture).map(_of_order, _OF_ORDER)
    parts = events.by_key(["stream"], _CAPTURE_ORDER, _out_of_order, _OUT_OF_ORDER).table().to_pylist()
    result = Order()
    places: list[dict[str, Any]] = []
    for stream, group in groupby(sorted(parts, key=lambda part: part["stream"]), lambda part: part["stream"]):
        of_stream = [*group]
        row = {"stream": stream, "format": of_stream[0]["format"]}
        row["first_position"] = min(part["first_position"] for part in of_stream)
        row["last_position"] = max(part["last_position"] for part in of_stream)
        row |= {name: sum(part[name] for part in of_stream) for name in ("records", "steps_back", "behind")}
        result.streams.append(row)
        places += [location for part in of_stream for location in part["places"]]
    result.streams.sort(key=lambda row: (-row["steps_back"], row["stream"]))
    places.sort(key=lambda location: (location["file_index"], location["offset"]))
    result.places.extend(json.loads(location["shown"]) for location in places[:PLACES])
    return result


def _of_order(events: pa.RecordBatch) -> pa.RecordBatch:
    return _selected(_compared(events), _OF_ORDER)


def _out_of_order(batches: Batches) -> Batches:
    """Rows of :data:`_OUT_OF_ORDER` of each stream, one a batch, from events in capture order."""
    previous: Record | None = None
    highest = ""
    for batch in batches:
        for stream in runs_of(batch, ["stream"]):
            first = _record(stream, 0)
            if previous is None or previous["stream"] != first["stream"]:
                previous, highest = None, ""
            positions = pa.concat_arrays(
                [pa.array([highest, highest if previous is None else previous["position"]]), stream["position"]]
            )
            ranks = np.asarray(pc.rank(positions, "ascending", tiebreaker="dense")).astype(np.int64)
            back = ranks[2:] < ranks[1:-1]
            behind = ranks[2:] < np.maximum.accumulate(np.append(ranks[0], ranks[2:]))[:-1]
            rows = np.flatnonzero(back)[:PLACES].tolist()
            ends = pc.min_max(stream["position"]).as_py()
            part = {"stream": first["stream"], "format": stream["format"][0].as_py()}
            part |= {"first_position": ends["min"], "last_position": ends["max"], "records": len(stream)}
            part |= {"steps_back": int(back.sum()), "behind": int(behind.sum())}
            part["places"] = [_place(stream, row, previous if row == 0 else _record(stream, row - 1)) for row in rows]
            yield pa.RecordBatch.from_pylist([part], _OUT_OF_ORDER)
            previous, highest = _record(stream, len(stream) - 1), max(highest, ends["max"])


def _record(events: pa.RecordBatch, row: int) -> Record:
    record: Record = events.slice(row, 1).select(_SHOWN).to_pylist()[0]
    return record


def _place(events: pa.RecordBatch, row: int, before: Record | None) -> Record:
    """A record out of order, with the record that precedes it."""
    assert before is not None
    shown = _record(events, row) | {f"before_{name}": before[name] for name in ("position", "file", "offset")}
    return {**{name: events[name][row].as_py() for name in _CAPTURE_ORDER}, "shown": json.dumps(shown)}


def twice(capture: Any) -> Twice:
    """Finds positions that several records have, in all streams, and compares the bytes of these records."""
    numbers_of = partial(numbered, keys=["position"], name="number")
    events = _events(capture).map(_of_order, _OF_ORDER).select(["position"])
    shared = events.by_key(["position"], (), numbers_of, events.schema.append(pa.field("number", pa.int64())))
    shared = shared.where(lambda batch: pc.equal(batch["number"], 2))
    positions = shared.first([("position", "ascending")], _MOST_SHARED + 1)["position"].combine_chunks()
    if not len(positions):
        return Twice(0, 0)
    chosen = positions if len(positions) <= _MOST_SHARED else None
    bodies = _events(capture, "headers", "raw").map(partial(_of_twice, positions=chosen), _OF_TWICE)
    groups = bodies.by_key(["position"], _CAPTURE_ORDER, _compare, _SHARED)
    numbers, places = groups.fold(_added_shared, _merged_shared)
    return Twice(*numbers, [json.loads(shown) for *_, shown in places])


_SHARED: Final = pa.schema(
    [
        *(pa.field(name, pa.int64()) for name in ("surplus", "duplicates")),
        pa.field("same", pa.bool_()),
        *_LOCATION,
        pa.field("shown", pa.string()),
    ]
)
_Shared = tuple[tuple[int, int, int], list[tuple[bool, int, int, str]]]
"""The number of positions, surplus records and duplicates, and the first locations with their sort keys."""


def _of_twice(events: pa.RecordBatch, positions: pa.Array | None) -> pa.RecordBatch:
    """The events that are compared, limited to ``positions`` if given, with a hash of each ``body``: its bytes, kind
    and table, since the bytes may be those of the record alone. Without images, header fields replace the bytes."""
    if positions is not None:
        events = events.filter(pc.is_in(events["position"], positions))
    events = _compared(events)
    bodies = []
    for row in events.select(["kind", "schema_name", "table_name", "raw", "headers"]).to_pylist():
        headers = row.pop("headers")
        body = [*row.values(), headers if row["raw"] is None else None]
        bodies.append(hashlib.sha256(repr(body).encode()).digest())
    return _selected(events.append_column("body", pa.array(bodies, pa.binary())), _OF_TWICE)


def _compare(batches: Batches) -> Batches:
    """A row of :data:`_SHARED` for each position that several records have."""
    records = (row for batch in batches for row in batch.to_pylist())
    for _, group in groupby(records, lambda row: row["position"]):
        first = again = None
        bodies, count = set(), 0
        for again in group:
            first = again if first is None else first
            bodies.add(again["body"])
            count += 1
        assert first is not None
        assert again is not None
        if count == 1:
            continue
        shown = {"position": first["position"], "records": count}
        shown |= {"what": "same position" if len(bodies) > 1 else "duplicate"}
        shown |= {name: first[name] for name in ("file", "offset")}
        shown |= {f"again_{name}": again[name] for name in ("file", "offset", "kind")}
        shown["transaction_id"] = first["transaction_id"] or again["transaction_id"]
        row = {"surplus": count - 1, "duplicates": count - len(bodies), "same": len(bodies) == 1}
        row |= {name: again[name] for name in _CAPTURE_ORDER} | {"shown": json.dumps(shown)}
        yield pa.RecordBatch.from_pylist([row], _SHARED)


def _added_shared(rows: pa.RecordBatch) -> _Shared:
    numbers = len(rows), pc.sum(rows["surplus"]).as_py() or 0, pc.sum(rows["duplicates"]).as_py() or 0
    columns = [rows[name].to_pylist() for name in ("same", *_CAPTURE_ORDER, "shown")]
    return numbers, sorted(zip(*columns, strict=True))[:PLACES]


def _merged_shared(parts: Sequence[_Shared]) -> _Shared:
    positions, surplus, duplicates = (sum(numbers[at] for numbers, _ in parts) for at in range(3))
    return (positions, surplus, duplicates), sorted(place for _, places in parts for place in places)[:PLACES]


def missing_numbers(capture: Any) -> list[Record]:
    """Numbers that are missing in consecutive numbering of the source: the offsets of a topic's partition, the record
    ids of an event log. One row for each stream with such numbers: ``stream``, ``numbering`` (``offset`` or
    ``record_id``), ``first``, ``last``, ``there`` (number of distinct ones), ``missing`` (between first and last); most
    missing first.

    A compacted topic and the sequence of a database omit numbers although nothing is missing.
    """
    if capture.format in FORMATS and capture.format not in _NUMBERED:
        return []
    keys = ["stream", "numbering"]
    distinct = partial(numbered, keys=keys, name="there", runs=["number"])
    numbers = _events(capture).map(_of_numbers, _OF_NUMBERS).by_key(keys, ["number"], distinct, _COUNTED)
    ends = numbers.totals(
        {"first": "min", "last": "max", "there": "max"},
        lambda batch: (
            {name: batch[name] for name in (*keys, "there")} | dict.fromkeys(("first", "last"), batch["number"])
        ),
    )
    streams = [row | {"missing": row["last"] - row["first"] + 1 - row["there"]} for row in ends.to_pylist()]
    return sorted(streams, key=lambda row: (-row["missing"], row["stream"]))


_COUNTED: Final = _OF_NUMBERS.append(pa.field("there", pa.int64()))


def _of_numbers(events: pa.RecordBatch) -> pa.RecordBatch:
    """The events that have a number."""
    is_message = pc.is_in(events["format"], pa.array(_MESSAGES))
    text = events["position"]
    if "headers" in events.schema.names:
        text = pc.if_else(is_message, pc.map_lookup(events["headers"], _OFFSET, "first"), text)
    digits = pc.struct_field(pc.extract_regex(text, "(?:^|[^0-9])0*(?P<number>[0-9]{1,18})$"), "number")
    events = events.append_column("number", digits.cast(pa.int64()))
    events = events.append_column("numbering", pc.if_else(is_message, "offset", "record_id"))
    is_numbered = pc.and_(pc.is_in(events["format"], pa.array(_NUMBERED)), events["number"].is_valid())
    return _selected(_with_stream(events.filter(is_numbered)), _OF_NUMBERS)


def gaps(capture: Any, limit: int = PLACES) -> list[Record]:
    """The first ``limit`` problems about gaps in the source's own numbering (:data:`cdcwb.model.Problem.GAP`), by
    location, in the columns of the model."""
    return first_problems(capture, ("file", "offset", "transaction_id"), limit, [Problem.GAP])


# --- input ------------------------------------------------------------------------------------------------------------


def _events(capture: Any, *more: str) -> Rows:
    """Columns of events: the header fields if the format needs them, and ``more``."""
    headers = ["headers"] if capture.format in _MESSAGES and "headers" not in more else []
    rows: Rows = capture.rows("events", (*_READ, *headers, *more))
    return rows


def _compared(events: pa.RecordBatch) -> pa.RecordBatch:
    """The events whose positions are compared, each with its ``stream``."""
    is_half = pc.and_(pc.is_in(events["format"], _PAIRED), pc.equal(events["kind"], str(Kind.BEFORE)))
    is_apart = pc.or_(is_half, pc.is_in(events["kind"], _APART))
    return _with_stream(events.filter(pc.and_not(events["position"].is_valid(), is_apart)))


def _with_stream(events: pa.RecordBatch) -> pa.RecordBatch:
    """Adds ``stream``: the partition of a topic in a file, a change table by its name, else the log, without a name."""
    log = pa.repeat("", len(events))
    labels = table_labels(events)
    apart = pc.or_(pc.equal(labels, NO_TABLE), pc.equal(events["kind"], str(Kind.CONTROL)))  # a control table
    of_table = pc.is_in(events["format"], pa.array(_CHANGE_TABLES))
    stream = pc.if_else(of_table, pc.if_else(apart, events["file"], labels), log)
    if "headers" in events.schema.names:
        topic, number = (pc.map_lookup(events["headers"], name, "first") for name in (_TOPIC, _PARTITION))
        partition = pc.binary_join_element_wise("partition ", number, "")
        partition = pc.binary_join_element_wise(events["file"], topic, partition, ", ", null_handling="skip")
        stream = pc.if_else(pc.is_in(events["format"], pa.array(_MESSAGES)), partition, stream)
    return events.append_column("stream", stream)


def _selected(events: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([events[field.name].cast(field.type) for field in schema], schema=schema)
