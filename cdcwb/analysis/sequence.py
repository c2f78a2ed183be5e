"""Positions that do not rise as they should: positions out of order, positions that several records have, and missing
numbers.

What has to rise is a stream: the log of a GBase 8s or GoldenGate capture across its files, the record ids of an event
log, a partition of a topic, the rows of a change table. Not compared are records whose position says something else:
that of a rollback to a savepoint (how far it goes back), that of an idle marker, and a before image that shares its
number with the after image by design (change tables).

Spark counts in pieces of the files: within each a running maximum, and over the few pieces another one. Events that
are stored, and not very many, are counted in this process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as F

from cdcwb.analysis.frames import NO_TABLE, stored_rows, table_name
from cdcwb.analysis.problems import first_problems
from cdcwb.formats import FORMATS, get_format
from cdcwb.formats.base import Pairing
from cdcwb.index.bins import ONE_BY_ONE
from cdcwb.index.headers import table_labels
from cdcwb.model import Kind, OffsetUnit, Problem
from cdcwb.spark.stored import Stored, joined

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["PLACES", "Order", "Twice", "gaps", "missing_numbers", "order", "twice"]

PLACES: Final = 30
"""How many places are shown."""

_PIECE: Final = 1 << 26  # bytes of a file that one task sorts, and as many rows as 64 bytes each would be
_APART: Final = (str(Kind.UNDO), str(Kind.HEARTBEAT))
_COMPARED: Final = 100_000  # records whose bytes are compared in this process
_LOG: Final = "^(.*/)?"  # what stands before the positions of one capture among several
_MESSAGES: Final = ("qlik-kafka", "debezium")  # whose streams are the partitions of topics
_TOPIC: Final = "kafka.topic"
_PARTITION: Final = "kafka.partition"
_OFFSET: Final = "kafka.offset"
_NUMBERED: Final = (*_MESSAGES, "idm-event-log")
_PLACED: Final = (
    *("file", "file_index", "offset", "kind", "record_type", "position"),
    *("schema_name", "table_name", "transaction_id"),
)


class Tables(Protocol):
    """What is asked of a capture: its events, their headers, and its problems (:mod:`cdcwb.model`)."""

    @property
    def format(self) -> str: ...
    @property
    def spark(self) -> SparkSession: ...
    @property
    def events(self) -> DataFrame: ...
    @property
    def headers(self) -> DataFrame: ...
    @property
    def problems(self) -> DataFrame: ...


@dataclass(frozen=True, slots=True)
class Order:
    """How the positions of each stream rise.

    ``streams``: ``stream`` (empty: the only log there is), ``format``, ``records`` (with a position), ``steps_back``
    (records whose position is below that of the record before them), ``behind`` (records below the highest position
    before them: one step back may leave many), ``first_position``, ``last_position`` (lowest and highest); those with
    steps back first. ``places``: the first :data:`PLACES` steps back in capture order: ``stream``, ``file``,
    ``offset``, ``record_type``, ``position``, ``before_position``, ``before_file``, ``before_offset``,
    ``transaction_id``.
    """

    streams: list[dict[str, Any]] = field(default_factory=list)
    places: list[dict[str, Any]] = field(default_factory=list)

    @property
    def steps_back(self) -> int:
        """Of all streams."""
        return sum(stream["steps_back"] for stream in self.streams)

    @property
    def behind(self) -> int:
        """Of all streams."""
        return sum(stream["behind"] for stream in self.streams)

    @property
    def records(self) -> int:
        """Records with a position."""
        return sum(stream["records"] for stream in self.streams)


@dataclass(frozen=True, slots=True)
class Twice:
    """``positions`` that several records have, and the ``surplus`` records of them (one less than each has).

    Of the surplus ``duplicates`` have the bytes of another record of their position; the others share a position and
    differ. ``places``: :data:`PLACES` of them in the order of their last record, positions with records that differ
    first: ``position``, ``records``, ``what`` (``duplicate``: all bytes are equal, else ``same position``), ``file``,
    ``offset`` (of the first), ``again_file``, ``again_offset``, ``again_kind`` (of the last), ``transaction_id``.
    """

    positions: int
    surplus: int
    duplicates: int = 0
    places: list[dict[str, Any]] = field(default_factory=list)


def order(capture: Tables, piece: int = _PIECE) -> Order:
    """Where positions go back; two Spark jobs, and a third where they do, none where events are stored. ``piece``: how
    many bytes of a file Spark sorts at once."""
    stored = _stored_records(capture)
    if stored is not None:
        return order_of(stored, capture.format)
    records = _records(capture).withColumn("piece", _piece(piece))
    keys = ("stream", "format", "file_index", "piece")
    pieces = (
        records.groupBy(*keys)
        .agg(
            F.count("*").alias("records"),
            F.min("position").alias("lowest"),
            F.max("position").alias("highest"),
            F.max_by(F.struct("position", "file", "offset"), "offset").alias("last"),
        )
        .toArrow()
        .to_pylist()
    )
    pieces.sort(key=lambda one: (one["stream"], one["file_index"], one["piece"]))
    carried = capture.spark.createDataFrame(pa.Table.from_pylist(list(_carried(pieces)), schema=_CARRIED))
    within = Window.partitionBy("stream", "file_index", "piece").orderBy("offset")
    before = F.struct("position", "file", "offset")
    reach = F.max("position").over(within.rowsBetween(Window.unboundedPreceding, -1))
    seen = (
        records.join(F.broadcast(carried), ["stream", "file_index", "piece"])
        .withColumn("before", F.coalesce(F.lag(before).over(within), "carried"))
        .withColumn("reach", F.greatest(reach, "carried_reach"))
    )
    counted = (
        seen.groupBy("stream")
        .agg(
            F.count_if(F.col("position") < F.col("before")["position"]).alias("steps_back"),
            F.count_if(F.col("position") < F.col("reach")).alias("behind"),
        )
        .toArrow()
        .to_pylist()
    )
    steps = {row["stream"]: row for row in counted}
    streams = [{**_stream(these), **steps[these[0]["stream"]]} for these in _by_stream(pieces)]
    streams.sort(key=lambda row: (-row["steps_back"], row["stream"]))
    found = Order(streams)
    if found.steps_back:
        back = seen.where(F.col("position") < F.col("before")["position"]).orderBy("file_index", "offset")
        names = [F.col("before")[name].alias(f"before_{name}") for name in ("position", "file", "offset")]
        columns = ("stream", "file", "offset", "record_type", "position", "transaction_id")
        found.places.extend(back.select(*columns, *names).limit(PLACES).toArrow().to_pylist())
    return found


def twice(capture: Tables) -> Twice:
    """Positions that several records of the capture have, whatever the stream; one Spark job, and two more that compare
    the records' bytes where there are any; none where events are stored."""
    stored = _stored_records(capture)
    if stored is not None:
        positions = stored["position"].value_counts()
        several = positions.filter(pc.greater(positions.field("counts"), 1))
        if (pc.sum(several.field("counts")).as_py() or 0) <= _COMPARED:
            bodies = _stored_records(capture, several.field("values")) if len(several) else None
            return Twice(0, 0) if bodies is None else twice_of(bodies)
    repeated = _records(capture).groupBy("position").count().where("count > 1").select("position")
    if not repeated.limit(1).count():
        return Twice(0, 0)
    place = F.struct("file_index", "offset", "file", "kind", "transaction_id")
    many = (
        _records(capture, with_bytes=True)
        .join(repeated, "position", "left_semi")
        .groupBy("position")
        .agg(
            F.count("*").alias("records"),
            F.count_distinct("bytes").alias("different"),
            F.min(place).alias("first"),
            F.max(place).alias("again"),
        )
    )
    surplus, duplicates = F.sum(F.col("records") - 1), F.sum(F.col("records") - F.col("different"))
    counts = many.agg(F.count("*"), surplus, duplicates).toArrow()
    found = Twice(*(column[0].as_py() for column in counts.columns))
    if found.positions:
        same = F.col("different") == 1
        rows = many.orderBy(same, "again").select(
            *("position", "records", F.when(same, "duplicate").otherwise("same position").alias("what")),
            *("first.file", "first.offset"),
            *[F.col("again")[name].alias(f"again_{name}") for name in ("file", "offset", "kind")],
            F.coalesce("first.transaction_id", "again.transaction_id").alias("transaction_id"),
        )
        found.places.extend(rows.limit(PLACES).toArrow().to_pylist())
    return found


def missing_numbers(capture: Tables) -> list[dict[str, Any]]:
    """Numbers that a source counts up one by one, and that are not there: the offsets of a topic's partition, the
    record ids of an event log. One row a stream that has such numbers: ``stream``, ``numbering`` (``offset`` or
    ``record_id``), ``first``, ``last``, ``there`` (different ones), ``missing`` (between first and last); those with
    most missing first. One Spark job, none where events are stored.

    A compacted topic, and the sequence of a database, leave numbers out although nothing is missing.
    """
    if capture.format in FORMATS and capture.format not in _NUMBERED:
        return []
    columns = (*_PLACED, *(["headers"] if capture.format in _MESSAGES else []))
    stored = stored_rows(capture, "events", columns, ONE_BY_ONE)
    if stored is not None:
        return numbers_of(stored, capture.format)
    offsets = F.when(F.col("format").isin(*_MESSAGES), F.col("headers")[_OFFSET].try_cast("long"))
    ids = F.when(F.col("format") == "idm-event-log", F.regexp_extract("position", "[0-9]+$", 0).try_cast("long"))
    rows = (
        _streams(capture.headers.where(F.col("format").isin(*_NUMBERED)))
        .select(
            "stream",
            F.when(F.col("format").isin(*_MESSAGES), "offset").otherwise("record_id").alias("numbering"),
            F.coalesce(offsets, ids).alias("number"),
        )
        .where("number IS NOT NULL")
        .groupBy("stream", "numbering")
        .agg(
            F.min("number").alias("first"),
            F.max("number").alias("last"),
            F.count_distinct("number").alias("there"),
        )
        .withColumn("missing", F.col("last") - F.col("first") + 1 - F.col("there"))
    )
    found: list[dict[str, Any]] = rows.orderBy(F.desc("missing"), "stream").toArrow().to_pylist()
    return found


def gaps(capture: Tables, limit: int = PLACES) -> list[dict[str, Any]]:
    """The problems that speak of what is missing in the source's own numbering (:data:`cdcwb.model.Problem.GAP`), the
    first ``limit`` by place, in the columns of the model."""
    return first_problems(capture, ("file", "offset", "transaction_id"), limit, [Problem.GAP])


# --- of stored events -------------------------------------------------------------------------------------------------


def _stored_records(capture: Any, positions: pa.Array | None = None) -> pa.RecordBatch | None:
    """The events whose positions are compared, as :func:`_records`, with their ``stream``; None where they are not
    stored, or very many. ``positions``: only those with one of these, with their ``raw`` and ``headers``."""
    columns = (*_PLACED, *(["headers"] if capture.format in _MESSAGES or positions is not None else []))
    columns += () if positions is None else ("raw",)
    rows = stored_rows(capture, "events", columns, ONE_BY_ONE)
    if rows is None:
        return None
    apart = [*_APART, *([str(Kind.BEFORE)] if get_format(capture.format).pairing is Pairing.POSITION else [])]

    def compared(batch: pa.RecordBatch) -> pa.RecordBatch:
        is_placed = batch["position"].is_valid() if positions is None else pc.is_in(batch["position"], positions)
        return batch.filter(pc.and_(is_placed, pc.invert(pc.is_in(batch["kind"], pa.array(apart)))))

    found = joined([compared(batch) for batch in rows.batches()], rows.schema)
    return found.append_column("stream", _streams_of(found, capture.format))


def _streams_of(events: pa.RecordBatch, format: str) -> pa.Array:
    """As :func:`_streams`, of the events of one capture."""
    if format in _MESSAGES:
        topic, number = (pc.map_lookup(events["headers"], name, "first") for name in (_TOPIC, _PARTITION))
        partition = pc.binary_join_element_wise("partition ", number, "")
        return pc.binary_join_element_wise(events["file"], topic, partition, ", ", null_handling="skip")
    if format == "qlik-change-table":
        labels = table_labels(events)
        apart = pc.or_(pc.equal(labels, NO_TABLE), pc.equal(events["kind"], str(Kind.CONTROL)))
        return pc.if_else(apart, events["file"], labels)
    return pc.replace_substring_regex(pc.fill_null(events["position"], ""), "/?[^/]*$", "")


def order_of(events: pa.RecordBatch, format: str) -> Order:
    """As :func:`order`, of events with their ``stream``."""
    events = events.take(pc.sort_indices(events, [(name, "ascending") for name in ("stream", "file_index", "offset")]))
    if not len(events):
        return Order()
    position, streams = events["position"], events["stream"].dictionary_encode()
    stream = np.asarray(streams.indices).astype(np.int64)
    rank = np.asarray(pc.rank(position, "ascending", tiebreaker="dense")).astype(np.int64)
    reach = np.maximum.accumulate(rank + stream * len(rank)) - stream * len(rank)  # the highest so far in its stream
    follows = np.append(False, stream[1:] == stream[:-1])
    back = follows & np.append(False, rank[1:] < rank[:-1])
    behind = follows & np.append(False, rank[1:] < reach[:-1])
    found = Order()
    for code, name in enumerate(streams.dictionary.to_pylist()):
        mine = stream == code
        ends = pc.min_max(position.filter(pa.array(mine))).as_py()
        counts = {"records": int(mine.sum()), "first_position": ends["min"], "last_position": ends["max"]}
        counts |= {"steps_back": int(back[mine].sum()), "behind": int(behind[mine].sum())}
        found.streams.append({"stream": name, "format": format, **counts})
    found.streams.sort(key=lambda row: (-row["steps_back"], row["stream"]))
    rows = np.flatnonzero(back)
    files, offsets = (np.asarray(events[name])[rows] for name in ("file_index", "offset"))
    rows = rows[np.lexsort((offsets, files))][:PLACES]
    columns = ["stream", "file", "offset", "record_type", "position", "transaction_id"]
    places, before = events.select(columns).take(pa.array(rows)), events.take(pa.array(rows - 1))
    for row, other in zip(places.to_pylist(), before.to_pylist(), strict=True):
        found.places.append(row | {f"before_{name}": other[name] for name in ("position", "file", "offset")})
    return found


def twice_of(events: pa.RecordBatch) -> Twice:
    """As :func:`twice`, of events of which several have the same position, with their ``raw`` and ``headers``."""
    names = ("file_index", "offset", "file", "kind", "transaction_id")
    by_position: dict[str, list[dict[str, Any]]] = {}
    for row in events.to_pylist():
        by_position.setdefault(row["position"], []).append(row)
    surplus = duplicates = 0
    found = []
    for position, rows in by_position.items():
        rows.sort(key=lambda row: [(row[name] is not None, row[name]) for name in names])
        what = ("kind", "schema_name", "table_name", "raw")
        bodies = {
            (*(row[name] for name in what), None if row["raw"] is not None else str(row["headers"])) for row in rows
        }
        surplus += len(rows) - 1
        duplicates += len(rows) - len(bodies)
        first, again = rows[0], rows[-1]
        told = {"position": position, "records": len(rows), "what": "same position" if len(bodies) > 1 else "duplicate"}
        told |= {name: first[name] for name in ("file", "offset")}
        told |= {f"again_{name}": again[name] for name in ("file", "offset", "kind")}
        told["transaction_id"] = first["transaction_id"] or again["transaction_id"]
        found.append((len(bodies) == 1, again["file_index"], again["offset"], told))
    found.sort(key=lambda one: one[:3])
    return Twice(len(found), surplus, duplicates, [told for *_, told in found[:PLACES]])


def numbers_of(events: Stored, format: str) -> list[dict[str, Any]]:
    """As :func:`missing_numbers`, of the events of one capture."""
    rows = events.batch()
    texts = rows["position"]
    if format in _MESSAGES:
        texts = pc.map_lookup(rows["headers"], _OFFSET, "first")
    digits = pc.struct_field(pc.extract_regex(texts, "(?P<number>[0-9]+)$"), "number")
    known = digits.is_valid()
    rows, numbers = rows.filter(known), np.asarray(digits.filter(known).cast(pa.int64()))
    streams = _streams_of(rows, format).dictionary_encode()
    found = []
    for code, name in enumerate(streams.dictionary.to_pylist()):
        mine = np.unique(numbers[np.asarray(streams.indices) == code])
        first, last, there = int(mine[0]), int(mine[-1]), len(mine)
        row = {"stream": name, "numbering": "offset" if format in _MESSAGES else "record_id", "first": first}
        found.append({**row, "last": last, "there": there, "missing": last - first + 1 - there})
    return sorted(found, key=lambda row: (-row["missing"], row["stream"]))


# --- with Spark -------------------------------------------------------------------------------------------------------


_CARRIED: Final = pa.schema(
    [
        pa.field("stream", pa.string()),
        pa.field("file_index", pa.int32()),
        pa.field("piece", pa.int64()),
        pa.field("carried_reach", pa.string()),
        pa.field("carried", pa.struct([("position", pa.string()), ("file", pa.string()), ("offset", pa.int64())])),
    ]
)


def _carried(pieces: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """For each piece what came before it in its stream: the highest position and the last record (null: nothing)."""
    stream: str | None = None
    reach: str | None = None
    last: Mapping[str, Any] | None = None
    for piece in pieces:
        if piece["stream"] != stream:
            stream, reach, last = piece["stream"], None, None
        place = {name: piece[name] for name in ("stream", "file_index", "piece")}
        yield {**place, "carried_reach": reach, "carried": last}
        reach = piece["highest"] if reach is None else max(reach, piece["highest"])
        last = piece["last"]


def _by_stream(pieces: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    streams: dict[str, list[dict[str, Any]]] = {}
    for piece in pieces:
        streams.setdefault(piece["stream"], []).append(piece)
    yield from streams.values()


def _stream(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "stream": pieces[0]["stream"],
        "format": pieces[0]["format"],
        "records": sum(piece["records"] for piece in pieces),
        "first_position": min(piece["lowest"] for piece in pieces),
        "last_position": max(piece["highest"] for piece in pieces),
    }


def _records(capture: Tables, with_bytes: bool = False) -> DataFrame:
    """The events whose positions are compared; ``with_bytes``: with a hash of each record's bytes and, as the bytes are
    those of the record alone, of its kind and table. Without images its header fields take the place of the bytes."""
    shared = [name for name in FORMATS if get_format(name).pairing is Pairing.POSITION]
    before = F.col("format").isin(*shared) & (F.col("kind") == str(Kind.BEFORE))
    events = capture.events if with_bytes else capture.headers
    rows = events.where(F.col("position").isNotNull() & ~F.col("kind").isin(*_APART) & ~before)
    columns = ["format", "file", "file_index", "offset", "offset_unit", "kind", "record_type", "position"]
    if with_bytes:
        fields = F.to_json("headers", {"ignoreNullFields": "false"})
        body = F.when(F.col("raw").isNull(), fields).otherwise(F.hex("raw")).alias("body")
        rows = rows.withColumn("bytes", F.sha2(F.to_json(F.struct("kind", "schema_name", "table_name", body)), 256))
        columns.append("bytes")
    return _streams(rows).select("stream", *columns, "transaction_id")


def _streams(rows: DataFrame) -> DataFrame:
    """Adds ``stream``: a file's partition of a topic, a change table by its name, else the log, which is called by its
    capture where there are several."""
    log = F.regexp_replace(F.regexp_extract(F.coalesce("position", F.lit("")), _LOG, 0), "/$", "")
    partition = F.concat(F.lit("partition "), F.col("headers")[_PARTITION])
    parts = F.concat_ws(", ", "file", F.col("headers")[_TOPIC], partition)
    apart = (table_name() == NO_TABLE) | (F.col("kind") == str(Kind.CONTROL))  # a control table has one of its own
    table = F.when(apart, F.col("file")).otherwise(table_name())
    stream = F.when(F.col("format").isin(*_MESSAGES), parts).when(F.col("format") == "qlik-change-table", table)
    return rows.withColumn("stream", stream.otherwise(log))


def _piece(length: int) -> Column:
    rows = max(1, length // 64)
    return F.floor(F.col("offset") / F.when(F.col("offset_unit") == str(OffsetUnit.BYTE), length).otherwise(rows))
