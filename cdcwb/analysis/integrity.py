"""Integrity of a capture: problems by code and one by one, the sequence of positions, and missing numbers."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby, pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.frames import AT_ONCE, NO_TABLE, rows_of, stored_rows
from cdcwb.formats import FORMATS, get_format
from cdcwb.formats.dissector import Pairing
from cdcwb.index.columns import table_labels
from cdcwb.model import EVENTS, PROBLEMS, Kind, OffsetUnit, Problem, Severity
from cdcwb.spark.folding import folded, folded_by, prepared
from cdcwb.spark.stored import Stored, joined

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdcwb.analysis.frames import Tables

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


def by_code(capture: Tables) -> list[Record]:
    """Problems by code, worst first: ``severity``, ``code``, ``problems``, ``transactions`` (number of affected ones),
    and the first by file and offset: ``sentence``, ``file``, ``offset``."""
    rows = rows_of(capture, "problems", [*_CODE, *_PLACE, "transaction_id"])
    firsts, numbers = folded(rows, lambda batch: _merged([_counted(batch)]), _merged)
    of_code = numbers.group_by(_CODE, use_threads=False).aggregate([("problems", "sum"), ("transaction_id", "count")])
    counts = {(row["severity"], row["code"]): row for row in of_code.to_pylist()}
    codes = []
    for first in firsts.to_pylist():
        counted = counts[first["severity"], first["code"]]
        totals = {"problems": counted["problems_sum"], "transactions": counted["transaction_id_count"]}
        codes.append({**{name: first[name] for name in _CODE}, **totals, **{name: first[name] for name in _PLACE}})
    ranks = _RANKS.to_pylist()
    return sorted(codes, key=lambda row: (ranks.index(row["severity"]), -row["problems"], row["code"]))


_Counted = tuple[pa.Table, pa.Table]
"""The first problem of each code, and the number of problems of each code and transaction."""


def _counted(problems: pa.RecordBatch) -> _Counted:
    rows = pa.table(problems)
    ones = pa.array(np.ones(len(rows), np.int64))
    return rows.select([*_CODE, *_PLACE]), rows.select([*_CODE, "transaction_id"]).append_column("problems", ones)


def _merged(parts: Sequence[_Counted]) -> _Counted:
    parts = parts or [_counted(pa.RecordBatch.from_pylist([], PROBLEMS))]
    firsts, numbers = (pa.concat_tables(some) for some in zip(*parts, strict=True))
    firsts = firsts.take(pc.sort_indices(firsts, [(name, "ascending") for name in ("file", "offset", "sentence")]))
    firsts = firsts.append_column("row", pa.array(np.arange(len(firsts))))
    rows = firsts.group_by(_CODE, use_threads=False).aggregate([("row", "min")])["row_min"]
    by = [*_CODE, "transaction_id"]
    counts = numbers.group_by(by, use_threads=False).aggregate([("problems", "sum")]).rename_columns([*by, "problems"])
    return firsts.take(rows).drop_columns(["row"]), counts


def worst(capture: Tables, limit: int = 50) -> list[Record]:
    """The first ``limit`` problems, in the columns of the model: errors, then warnings, then information; by file and
    offset."""
    return first_problems(capture, ("severity", "file", "offset", "code", "sentence"), limit)


def first_problems(
    capture: Tables, order: Sequence[str], limit: int, codes: Collection[str] | None = None
) -> list[Record]:
    """The first ``limit`` problems of some codes (None: all), in the columns of the model: by severity, worst first,
    then by the given columns, null first."""

    def first(batch: pa.RecordBatch) -> pa.RecordBatch:
        if codes is not None:
            batch = batch.filter(pc.is_in(batch["code"], pa.array([*map(str, codes)], pa.string())))
        values = {name: pc.index_in(batch[name], _RANKS) if name == "severity" else batch[name] for name in order}
        keys = {
            key: column
            for name in order
            for key, column in ((f"{name} is known", values[name].is_valid()), (name, values[name]))
        }
        return batch.take(pc.sort_indices(pa.table(keys), [(key, "ascending") for key in keys])[:limit])

    def merged(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        return first(joined(parts, PROBLEMS))

    problems: list[Record] = folded(rows_of(capture, "problems", PROBLEMS.names), first, merged).to_pylist()
    return problems


# --- sequence ---------------------------------------------------------------------------------------------------------

PLACES: Final = 30
"""The number of locations that are shown."""

_PIECE: Final = 1 << 26  # bytes of a file in a group, or a 64th as many rows
_BLOCK: Final = 1 << 20  # numbers in a group
_BUCKETS: Final = 1024  # groups of positions
_APART: Final = pa.array([Kind.UNDO, Kind.HEARTBEAT], pa.string())
_PAIRED: Final = pa.array([name for name in FORMATS if get_format(name).pairing is Pairing.POSITION], pa.string())
_MESSAGES: Final = ("qlik-kafka", "debezium")  # the streams of these formats are partitions of topics
_TOPIC: Final = "kafka.topic"
_PARTITION: Final = "kafka.partition"
_OFFSET: Final = "kafka.offset"
_NUMBERED: Final = (*_MESSAGES, "idm-event-log")
_READ: Final = (
    *("format", "file", "file_index", "offset", "offset_unit", "kind", "record_type", "position"),
    *("schema_name", "table_name", "transaction_id"),
)
_SHOWN: Final = ("stream", "file", "offset", "record_type", "position", "transaction_id")
_STREAM: Final = pa.field("stream", pa.string())
_OF_ORDER: Final = pa.schema(
    [*map(EVENTS.field, ("format", "file_index", *_SHOWN[1:])), _STREAM, pa.field("piece", pa.int64())]
)
_OF_TWICE: Final = pa.schema(
    [
        *map(EVENTS.field, ("position", "file_index", "file", "offset", "kind", "transaction_id")),
        pa.field("body", pa.binary()),
        pa.field("bucket", pa.int64()),
    ]
)
_OF_NUMBERS: Final = pa.schema([_STREAM, ("numbering", pa.string()), ("number", pa.int64()), ("block", pa.int64())])

_Key: TypeAlias = tuple[str, int, int]
"""A piece of a file: stream, file_index and number of the piece."""

_Row: TypeAlias = dict[str, Any]
_Shared: TypeAlias = tuple[int, int, int, list[Any]]
"""The number of positions, surplus records and duplicates, and the first locations with their sort keys."""


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


def order(capture: Tables, piece: int = _PIECE) -> Order:
    """Finds positions that decrease. One Spark job, a second one if pieces of files overlap, none if events are stored.
    ``piece``: bytes of a file in a group."""

    def ask(reach: Mapping[_Key, str]) -> list[_Row]:
        return folded_by(
            _events(capture),
            partial(_of_order, length=piece),
            _OF_ORDER,
            ("stream", "file_index", "piece"),
            partial(_pieces, reach=reach),
            lambda parts: sorted(chain.from_iterable(parts), key=lambda part: part["key"]),
        )

    pieces = ask({})
    if reach := _reach(pieces):
        pieces = ask(reach)
    result = Order()
    places = []
    for stream, group in groupby(pieces, _stream):
        of_stream = [*group]
        for earlier, later in pairwise(of_stream):
            if later["first"]["position"] < earlier["last"]["position"]:
                later["steps_back"] += 1
                later["places"].append((later["key"][1], _place(later["first"], earlier["last"])))
        row = {
            "stream": stream,
            "format": of_stream[0]["format"],
            "records": sum(part["records"] for part in of_stream),
        }
        row["first_position"] = min(part["lowest"] for part in of_stream)
        row["last_position"] = max(part["highest"] for part in of_stream)
        row |= {name: sum(part[name] for part in of_stream) for name in ("steps_back", "behind")}
        result.streams.append(row)
        places += [location for part in of_stream for location in part["places"]]
    result.streams.sort(key=lambda row: (-row["steps_back"], row["stream"]))
    places.sort(key=lambda location: (location[0], location[1]["offset"]))
    result.places.extend(location for _, location in places[:PLACES])
    return result


def _of_order(events: pa.RecordBatch, length: int) -> pa.RecordBatch:
    """The events that are compared, each with the number of its piece of the file."""
    events = _compared(events)
    is_byte = pc.equal(events["offset_unit"], str(OffsetUnit.BYTE))
    size = pc.if_else(is_byte, pa.scalar(length, pa.int64()), pa.scalar(max(1, length // 64), pa.int64()))
    return _selected(events.append_column("piece", pc.divide(events["offset"], size)), _OF_ORDER)


def _pieces(events: pa.RecordBatch, reach: Mapping[_Key, str]) -> list[_Row]:
    """The sequence of positions in each piece: ``key``, ``format``, ``records``, ``lowest``, ``highest``, the ``first``
    and the ``last`` record, ``steps_back``, ``behind`` and the first ``places``. ``reach``: the highest position that
    precedes a piece in its stream, if it is above the lowest of the piece."""
    order = [(name, "ascending") for name in ("stream", "file_index", "offset")]
    events = events.take(pc.sort_indices(events, order))
    if not len(events):
        return []
    files, numbers = (np.asarray(events[name]) for name in ("file_index", "piece"))
    streams = np.asarray(pc.rank(events["stream"], "ascending", tiebreaker="dense"))
    ranks = np.asarray(pc.rank(events["position"], "ascending", tiebreaker="dense"))
    is_first = [np.append(True, key[1:] != key[:-1]) for key in (streams, files, numbers)]
    starts = np.flatnonzero(np.logical_or.reduce(is_first))
    rows = []
    for start, end in pairwise([*starts.tolist(), len(events)]):
        records, rank = events.slice(start, end - start), ranks[start:end]
        key = (records["stream"][0].as_py(), int(files[start]), int(numbers[start]))
        back = np.append(False, rank[1:] < rank[:-1])
        behind = np.append(False, rank[1:] < np.maximum.accumulate(rank)[:-1])
        if key in reach:
            behind |= np.asarray(pc.less(records["position"], reach[key]))
        ends = pc.min_max(records["position"]).as_py()
        row = {"key": key, "format": records["format"][0].as_py(), "lowest": ends["min"], "highest": ends["max"]}
        row |= {"records": len(rank), "steps_back": int(back.sum()), "behind": int(behind.sum())}
        row |= {"first": _record(records, 0), "last": _record(records, len(rank) - 1)}
        places = np.flatnonzero(back)[:PLACES].tolist()
        row["places"] = [(key[1], _place(_record(records, at), _record(records, at - 1))) for at in places]
        rows.append(row)
    return rows


def _record(events: pa.RecordBatch, row: int) -> _Row:
    record: _Row = events.slice(row, 1).select(_SHOWN).to_pylist()[0]
    return record


def _place(record: _Row, before: _Row) -> _Row:
    """A record out of order, with the record that precedes it."""
    return record | {f"before_{name}": before[name] for name in ("position", "file", "offset")}


def _stream(piece: _Row) -> str:
    stream: str = piece["key"][0]
    return stream


def _reach(pieces: Sequence[_Row]) -> dict[_Key, str]:
    """The highest position that precedes each piece in its stream, if it is above the lowest of the piece."""
    highest_before = {}
    for _, group in groupby(pieces, _stream):
        highest = ""
        for piece in group:
            if piece["lowest"] < highest:
                highest_before[piece["key"]] = highest
            highest = max(highest, piece["highest"])
    return highest_before


def twice(capture: Tables) -> Twice:
    """Finds positions that several records have, in all streams. One Spark job, a second one that compares bytes if
    there are such positions; none if events are stored."""
    events, bodies = _events(capture), _events(capture, "raw")
    of_order, of_twice = partial(_of_order, length=_PIECE), _of_twice
    if isinstance(events, Stored):
        counts = pc.value_counts(joined([*map(of_order, events.batches())], _OF_ORDER)["position"])
        several = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
        of_twice = partial(_of_twice, positions=several)
    else:
        positions = prepared(events, of_order, _OF_ORDER).groupBy("position").count().where("count > 1")
        if not positions.limit(1).count():
            return Twice(0, 0)
        bodies = cast("DataFrame", bodies).join(positions, "position", "left_semi")
    shared = folded_by(bodies, of_twice, _OF_TWICE, ["bucket"], _shared, _added)
    return Twice(*shared[:3], [shown for *_, shown in shared[3]])


def _of_twice(events: pa.RecordBatch, positions: pa.Array | None = None) -> pa.RecordBatch:
    """The events that are compared, limited to ``positions`` if given, with a hash of each ``body``: its bytes, kind
    and table, since the bytes may be those of the record alone. Without images, header fields replace the bytes."""
    if positions is not None:
        events = events.filter(pc.is_in(events["position"], positions))
    events = _compared(events)
    rows = events.select(["kind", "schema_name", "table_name", "raw", "headers", "position"]).to_pylist()
    columns: dict[str, list[Any]] = {"body": [], "bucket": []}
    for row in rows:
        position, headers = row.pop("position"), row.pop("headers")
        body = [*row.values(), headers if row["raw"] is None else None]
        columns["body"].append(hashlib.sha256(repr(body).encode()).digest())
        columns["bucket"].append(zlib.crc32(position.encode()) % _BUCKETS)
    for name, values in columns.items():
        events = events.append_column(name, pa.array(values, _OF_TWICE.field(name).type))
    return _selected(events, _OF_TWICE)


def _shared(events: pa.RecordBatch) -> _Shared:
    """The surplus records and duplicates among events that share positions."""
    by_position: dict[str, list[_Row]] = {}
    for row in events.to_pylist():
        by_position.setdefault(row["position"], []).append(row)
    duplicates, places = 0, []
    for position, rows in by_position.items():
        rows.sort(key=lambda row: (row["file_index"], row["offset"]))
        first, again, bodies = rows[0], rows[-1], {row["body"] for row in rows}
        duplicates += len(rows) - len(bodies)
        shown = {"position": position, "records": len(rows)}
        shown |= {"what": "same position" if len(bodies) > 1 else "duplicate"}
        shown |= {name: first[name] for name in ("file", "offset")}
        shown |= {f"again_{name}": again[name] for name in ("file", "offset", "kind")}
        shown["transaction_id"] = first["transaction_id"] or again["transaction_id"]
        places.append((len(bodies) == 1, again["file_index"], again["offset"], shown))
    return len(by_position), len(events) - len(by_position), duplicates, _first_places(places)


def _added(parts: Sequence[_Shared]) -> _Shared:
    counts = [sum(numbers) for numbers in zip(*(part[:3] for part in parts), strict=True)] or [0, 0, 0]
    return (*counts, _first_places([location for part in parts for location in part[3]]))  # type: ignore[return-value]


def _first_places(places: list[Any]) -> list[Any]:
    return sorted(places, key=lambda location: location[:3])[:PLACES]


def missing_numbers(capture: Tables) -> list[_Row]:
    """Numbers that are missing in consecutive numbering of the source: the offsets of a topic's partition, the record
    ids of an event log. One row for each stream with such numbers: ``stream``, ``numbering`` (``offset`` or
    ``record_id``), ``first``, ``last``, ``there`` (number of distinct ones), ``missing`` (between first and last); most
    missing first. One Spark job, none if events are stored.

    A compacted topic and the sequence of a database omit numbers although nothing is missing.
    """
    if capture.format in FORMATS and capture.format not in _NUMBERED:
        return []
    keys = ("stream", "numbering", "block")
    rows = folded_by(_events(capture), _of_numbers, _OF_NUMBERS, keys, _numbered, _together).group_by(keys[:2])
    rows = rows.aggregate([("first", "min"), ("last", "max"), ("there", "sum")])
    streams = rows.rename_columns([*keys[:2], "first", "last", "there"]).to_pylist()
    streams = [row | {"missing": row["last"] - row["first"] + 1 - row["there"]} for row in streams]
    return sorted(streams, key=lambda row: (-row["missing"], row["stream"]))


def _of_numbers(events: pa.RecordBatch) -> pa.RecordBatch:
    """The events that have a number, each with its block of numbers."""
    is_message = pc.is_in(events["format"], pa.array(_MESSAGES))
    text = events["position"]
    if "headers" in events.schema.names:
        text = pc.if_else(is_message, pc.map_lookup(events["headers"], _OFFSET, "first"), text)
    digits = pc.struct_field(pc.extract_regex(text, "(?:^|[^0-9])0*(?P<number>[0-9]{1,18})$"), "number")
    events = events.append_column("number", digits.cast(pa.int64()))
    events = events.append_column("numbering", pc.if_else(is_message, "offset", "record_id"))
    events = events.append_column("block", pc.divide(events["number"], _BLOCK))
    is_numbered = pc.and_(pc.is_in(events["format"], pa.array(_NUMBERED)), events["number"].is_valid())
    return _selected(_with_stream(events.filter(is_numbered)), _OF_NUMBERS)


def _together(parts: Sequence[pa.Table]) -> pa.Table:
    """The rows of some tables; works without tables."""
    return pa.concat_tables([_numbered(pa.RecordBatch.from_pylist([], _OF_NUMBERS)), *parts])


def _numbered(events: pa.RecordBatch) -> pa.Table:
    """The ``first`` and the ``last`` number of each stream, and the number of distinct ones (``there``)."""
    aggregates = [("number", "min"), ("number", "max"), ("number", "count_distinct")]
    numbers = pa.table(events).group_by(["stream", "numbering"]).aggregate(aggregates)
    return numbers.rename_columns(["stream", "numbering", "first", "last", "there"])


def gaps(capture: Tables, limit: int = PLACES) -> list[_Row]:
    """The first ``limit`` problems about gaps in the source's own numbering (:data:`cdcwb.model.Problem.GAP`), by
    location, in the columns of the model."""
    return first_problems(capture, ("file", "offset", "transaction_id"), limit, [Problem.GAP])


# --- input ------------------------------------------------------------------------------------------------------------


def _events(capture: Tables, *more: str) -> DataFrame | Stored:
    """Columns of events: the header fields if the format needs them, and ``more``; read without Spark if events are
    stored and few enough."""
    has_headers = more or capture.format in _MESSAGES
    columns = (*_READ, *(["headers"] if has_headers else []), *more)
    rows = stored_rows(capture, "events", columns, AT_ONCE)
    return (capture.events if more else capture.headers).select(*columns) if rows is None else rows


def _compared(events: pa.RecordBatch) -> pa.RecordBatch:
    """The events whose positions are compared, each with its ``stream``."""
    is_half = pc.and_(pc.is_in(events["format"], _PAIRED), pc.equal(events["kind"], str(Kind.BEFORE)))
    is_apart = pc.or_(is_half, pc.is_in(events["kind"], _APART))
    return _with_stream(events.filter(pc.and_not(events["position"].is_valid(), is_apart)))


def _with_stream(events: pa.RecordBatch) -> pa.RecordBatch:
    """Adds ``stream``: the partition of a topic in a file, a change table by its name, else the log, which has the name
    of its capture if there are several."""
    log = pc.replace_substring_regex(pc.fill_null(events["position"], ""), "/?[^/]*$", "")
    labels = table_labels(events)
    apart = pc.or_(pc.equal(labels, NO_TABLE), pc.equal(events["kind"], str(Kind.CONTROL)))  # a control table
    stream = pc.if_else(pc.equal(events["format"], "qlik-change-table"), pc.if_else(apart, events["file"], labels), log)
    if "headers" in events.schema.names:
        topic, number = (pc.map_lookup(events["headers"], name, "first") for name in (_TOPIC, _PARTITION))
        partition = pc.binary_join_element_wise("partition ", number, "")
        partition = pc.binary_join_element_wise(events["file"], topic, partition, ", ", null_handling="skip")
        stream = pc.if_else(pc.is_in(events["format"], pa.array(_MESSAGES)), partition, stream)
    return events.append_column("stream", stream)


def _selected(events: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([events[field.name].cast(field.type) for field in schema], schema=schema)
