"""Lag by hop: how long changes took from the source to the process that captured them, and on to the broker.

Times are compared in milliseconds, which all of them have at most in common. ``docs/lag.md`` has the fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.analysis.transactions import Counted, counted_latencies, latencies, merged_counts
from cdcwb.formats.moments import moments
from cdcwb.index.columns import Ints
from cdcwb.model import Kind, Operation
from cdcwb.times import TimeAxis, axis_of, time_of

STAGES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "debezium": {"capture": ("ts_ms", "__ts_ms"), "broker": ("kafka.timestamp",)},
    "canal": {"capture": ("ts",), "broker": ("kafka.timestamp",)},
    "goldengate-export": {"capture": ("current_ts",), "broker": ("kafka.timestamp",)},
    "maxwell": {"broker": ("kafka.timestamp",)},
    "qlik-kafka": {"broker": ("kafka.timestamp",)},
}
"""For each format that has hops: the header fields with the times of the stages that follow the source, in order.
Other formats have no time but that of the source."""

HOPS: Final = ("capture", "broker", "total")
"""The hops by the stage at which they end, and all of them together."""

_SOURCE: Final = {"goldengate-export": ("op_ts", "ts", "timestamp")}
"""Header fields with the time of the source, where ``changed_at`` needs an option."""

_READ: Final = (
    *("kind", "operation", "transaction_id", "changed_at", "headers"),
    *("file", "file_index", "offset", "position"),
)
_CHANGES: Final = (Kind.CHANGE, Kind.AFTER)
_PERCENTILES: Final = ("p50_us", "p95_us", "p99_us")
_BINS: Final = 48
WORST: Final = 20
"""The number of slowest transactions that are listed."""
_NONE: Final = np.iinfo(np.int64).min
_PLACE: Final = (("transaction_id", pa.string()), ("position", pa.string()), ("file", pa.string()))
_WORST_ROWS: Final = pa.schema(
    [
        *_PLACE,
        *(pa.field(name, pa.int64()) for name in ("file_index", "offset", "at", "total", "capture", "broker")),
    ]
)
"""The slowest change of a transaction, with its time at the source and its lags in microseconds."""


@dataclass(frozen=True, slots=True)
class Lag:
    """The lags of a capture by hop.

    ``hops``: ``hop`` (a key of :data:`HOPS`), ``known``, ``negative``, ``least_us``, ``p50_us``, ``p95_us``,
    ``p99_us``, ``most_us``, in order; a capture with one hop has no total. ``over_time``: the same for each bin, with
    ``at``. ``worst``: the transactions with the greatest lag, by their slowest change: ``transaction_id``, ``at``,
    ``total``, ``capture``, ``broker`` (microseconds; None: unknown), ``blame`` (the hop that took longest),
    ``position``, ``file``, ``offset``.
    """

    hops: list[dict[str, Any]] = field(default_factory=list)
    over_time: list[dict[str, Any]] = field(default_factory=list)
    worst: list[dict[str, Any]] = field(default_factory=list)

    @property
    def blame(self) -> dict[str, Any] | None:
        """The single hop with the greatest p95; None without hops."""
        return max((row for row in self.hops if row["hop"] != "total"), key=lambda row: row["p95_us"], default=None)

    @property
    def facts(self) -> dict[str, Any]:
        """Facts for scripts: the figures of all hops together (of the single hop, if there is one), percentiles by hop,
        and the slowest hop."""
        whole = self.hops[-1] if self.hops else {}
        facts = {name: whole.get(name) for name in ("known", "negative", *_PERCENTILES, "most_us")}
        facts |= {f"{name}_by_hop": {row["hop"]: row[name] for row in self.hops} for name in _PERCENTILES}
        facts["negative_by_hop"] = {row["hop"]: row["negative"] for row in self.hops if row["negative"]}
        return facts | {"slowest_hop": None if self.blame is None else self.blame["hop"]}


class _Sum(NamedTuple):
    counts: Counted
    worst: pa.RecordBatch


def lag(capture: Any, axis: TimeAxis | None) -> Lag:
    """The lags of the changes of a capture, and of heartbeats from the capture to the broker, over the times of an
    axis. Rows of a full load, which are as old as they are, and changes before 1971 are left out."""
    stages = STAGES.get(capture.format)
    if stages is None:
        return Lag()
    rows = capture.rows("events", _READ)
    times = partial(_times, stages, _SOURCE.get(capture.format, ()))
    if axis is None:  # no event has a time without an option
        axis = axis_of(
            rows.fold(lambda batch: _ends(times(batch)), lambda parts: [at for part in parts for at in part])
        )
    start, width = (0, 0) if axis is None else axis.bins(_BINS)
    found: _Sum = rows.fold(lambda batch: _counted(times(batch), start, width), _merged)
    tables = latencies(found.counts)[0].tables
    by_key = {row["table"]: {name: value for name, value in row.items() if name != "table"} for row in tables}
    hops = [{"hop": hop, **by_key[hop]} for hop in HOPS if hop in by_key]
    single = {row["hop"] for row in hops if row["hop"] != "total"}
    if len(single) < 2:
        hops = [row for row in hops if row["hop"] != "total"]
    over_time = [
        {"hop": hop, "at": time_of(start + int(number) * width), **row}
        for key, row in by_key.items()
        for hop, _, number in [key.partition("\t")]
        if number
    ]
    over_time.sort(key=lambda row: (HOPS.index(row["hop"]), row["at"]))
    worst = []
    for row in found.worst.to_pylist():
        blame = max((hop for hop in single if row[hop] is not None), key=row.__getitem__, default=None)
        worst.append({**row, "at": time_of(row["at"]), "blame": blame})
    return Lag(hops, over_time, worst)


class _Times(NamedTuple):
    """The times of changes and heartbeats at each stage, in microseconds; :data:`_NONE`: unknown."""

    events: pa.RecordBatch
    source: Ints
    stages: dict[str, Ints]


def _times(stages: Mapping[str, Sequence[str]], fields: Sequence[str], events: pa.RecordBatch) -> _Times:
    """The times of some events; ``stages`` has the header fields of each stage, ``fields`` those of the source."""
    is_change = pc.and_(
        pc.is_in(events["kind"], pa.array(map(str, _CHANGES))),
        pc.fill_null(pc.not_equal(events["operation"], str(Operation.REFRESH)), True),
    )
    events = events.filter(pc.or_(is_change, pc.equal(events["kind"], str(Kind.HEARTBEAT))))
    source = _first_known([events["changed_at"].cast(pa.int64())])
    known = {stage: _first_known(_headers(events, names)) for stage, names in stages.items()}
    if fields:  # in the zone of the option, as the time of the capture
        local, captured = _first_known(_headers(events, fields)), known["capture"]
        shift = _difference(source, local)
        known["capture"] = captured + np.where((shift == _NONE) | (captured == _NONE), 0, shift)
        source = np.where(source == _NONE, local, source)
    is_beat = np.asarray(pc.equal(events["kind"], str(Kind.HEARTBEAT)))  # its time is that of the capture
    return _Times(events, np.where(is_beat | (source < _YEAR), _NONE, source), known)


def _ends(times: _Times) -> list[int]:
    known = times.source[times.source != _NONE].tolist()
    return [min(known), max(known)] if known else []


def _counted(times: _Times, start: int, width: int) -> _Sum:
    """The lags of some events, by hop and by hop and bin, and their slowest transactions."""
    lags, previous = {}, times.source
    for stage, at in times.stages.items():
        lags[stage] = _difference(at, previous)
        previous = np.where(at == _NONE, previous, at)
    has_arrived = np.any([at != _NONE for at in times.stages.values()], axis=0)
    lags["total"] = _difference(np.where(has_arrived, previous, _NONE), times.source)
    at = np.where(times.source == _NONE, previous, times.source)
    counts = [_of_hop(hop, of_hop, at, start, width) for hop, of_hop in lags.items()]
    return _Sum(merged_counts(counts), _slowest(_rows(times.events, lags, times.source)))


_YEAR: Final = 365 * 86_400_000_000


def _headers(events: pa.RecordBatch, names: Sequence[str]) -> list[pa.Array]:
    return [_micros(pc.map_lookup(events["headers"], name, "first")) for name in names]


def _micros(texts: pa.Array) -> pa.Array:
    """Times in microseconds since 1970: milliseconds in digits, or ISO 8601, without a zone in UTC."""
    digits = pc.if_else(pc.match_substring_regex(texts, r"^\d{1,15}$"), texts, None)
    known, _ = moments(pc.replace_substring_regex(texts, r"^(\d{4}-\d\d-\d\d):", r"\1T"))
    return pc.coalesce(pc.multiply(digits.cast(pa.int64()), 1000), known.cast(pa.int64()))


def _first_known(times: Sequence[pa.Array]) -> Ints:
    """The first known of several times rounded down to milliseconds; :data:`_NONE` if none is."""
    known = np.asarray(pc.fill_null(pc.coalesce(*times), _NONE))
    return np.where(known == _NONE, _NONE, known // 1000 * 1000)


def _difference(later: Ints, earlier: Ints) -> Ints:
    unknown = (later == _NONE) | (earlier == _NONE)
    return np.where(unknown, _NONE, np.where(unknown, 0, later) - np.where(unknown, 0, earlier))


def _of_hop(hop: str, lags: Ints, at: Ints, start: int, width: int) -> Counted:
    """The counted lags of a hop, and those of each bin."""
    known = lags != _NONE
    lags, at = lags[known], at[known]
    names = np.full(len(lags), hop, object)
    parts = [names]
    if width and hop != "total":
        numbers = np.clip((at - start) // width, 0, _BINS)
        parts.append(np.array([f"{hop}\t{number}" for number in numbers.tolist()], object))
    table = pa.array(np.concatenate(parts), pa.string())
    ended = pa.array(np.tile(lags, len(parts)))
    began = pa.array(np.zeros(len(ended), np.int64))
    return counted_latencies(pa.RecordBatch.from_arrays([table, began, ended], names=["table", "began_at", "ended_at"]))


def _rows(events: pa.RecordBatch, lags: dict[str, Ints], at: Ints) -> pa.RecordBatch:
    columns = {name: events[name] for name in ("transaction_id", "position", "file", "file_index", "offset")}
    numbers = {"at": at, **{name: lags.get(name, np.full(len(at), _NONE)) for name in ("total", "capture", "broker")}}
    columns |= {name: pa.array(values, mask=values == _NONE) for name, values in numbers.items()}
    rows = pa.RecordBatch.from_pydict(columns, _WORST_ROWS)
    return rows.filter(rows["total"].is_valid())


def _slowest(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The slowest change of the slowest transactions. A change without a transaction is one of its own."""
    by = [("total", "descending"), ("file_index", "ascending"), ("offset", "ascending")]
    rows = rows.take(pc.sort_indices(rows, sort_keys=by))
    first: dict[Any, int] = {}
    for number, name in enumerate(rows["transaction_id"].to_pylist()):
        first.setdefault(number if name is None else name, number)
        if len(first) == WORST:
            break
    return rows.take(pa.array([*first.values()], pa.int64()))


def _merged(parts: Sequence[_Sum]) -> _Sum:
    worst = pa.Table.from_batches([part.worst for part in parts], _WORST_ROWS).combine_chunks()
    batches = worst.to_batches() or [pa.RecordBatch.from_pylist([], _WORST_ROWS)]
    return _Sum(merged_counts([part.counts for part in parts]), _slowest(batches[0]))
