"""The records of a split as Arrow batches of ``events``, in capture order (docs/formats/gbase8s.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb import model
from cdcwb.formats.arrays.texts import slices
from cdcwb.formats.base import EVERYTHING, Wanted
from cdcwb.formats.gbase8s.distinct import distinct
from cdcwb.formats.gbase8s.framing import Bools, Ints, Segments
from cdcwb.formats.gbase8s.layout import RECORD_TYPES
from cdcwb.formats.gbase8s.plan import Plan, SplitEntry, Stream
from cdcwb.formats.gbase8s.rows import Headers, Tables, columns_of, read_headers
from cdcwb.formats.gbase8s.scan import is_filler, iter_split
from cdcwb.formats.gbase8s.transactions import assign
from cdcwb.formats.gbase8s.versions import Versions
from cdcwb.model import Kind, OffsetUnit

__all__ = ["CHUNK", "FORMAT", "Chunk", "SplitState", "read_events"]

FORMAT: Final = "gbase8s"
CHUNK: Final = 32_768
"""Segments that become one Arrow batch."""

_KINDS: Final = {0: Kind.CONTROL, **{number: kind.kind for number, kind in RECORD_TYPES.items()}}
_TIMED: Final = (1, 2)
_LABELLED: Final = (119, 200)


def read_events(plan: Plan, split: SplitEntry, wanted: Wanted = EVERYTHING) -> Iterator[pa.RecordBatch]:
    """The events of one split in capture order, as batches of :data:`cdcwb.model.EVENTS`."""
    with plan.stream() as stream:
        state = SplitState(plan, stream, split, wanted)
        for segments in iter_split(stream, plan.mode, plan.buffer_size, split.start, split.stop):
            for first in range(0, len(segments.start), CHUNK):
                yield from state.batches(segments, first, min(first + CHUNK, len(segments.start)))
        yield from state.close()


Places = tuple[Ints, Ints, Ints]
"""File index, offset and length of some segments, an array each."""


@dataclass(slots=True)
class Chunk:
    """Some neighbouring segments of a window, taken apart; arrays run over its records unless said otherwise."""

    segments: Segments
    first: int  # index of the chunk's first segment
    records: Ints  # segment index of each record
    headers: Headers
    names: list[str]  # of transactions
    transaction: Ints  # index into names, -1: none
    version: Ints  # number of the table version, 0: none


@dataclass(slots=True)
class SplitState:
    """Reads one split: what is in force and open goes from chunk to chunk."""

    plan: Plan
    stream: Stream
    split: SplitEntry
    wanted: Wanted
    open_before: dict[int, str] = field(init=False)
    versions: Versions = field(init=False)
    text_end: dict[int, int] = field(init=False)
    starts: Ints = field(init=False)  # of the files in the stream, and its end
    paths: pa.Array = field(init=False)

    def __post_init__(self) -> None:
        self.open_before = dict(self.split.open_before)
        self.versions = Versions(self.plan, self.split.in_force)
        self.text_end = dict.fromkeys(self.split.closes, 0)
        self.starts = np.array(self.stream.starts)
        self.paths = pa.array([entry.path for entry in self.plan.files], pa.string())
        for index in self.split.closes:
            covered = min(max(self.split.start - self.stream.starts[index], 0), self.plan.files[index].length)
            if covered and self.plan.mode == "stream":  # the rest of a record that begins in an earlier split
                self.text_end[index] = self._span(index, 0, covered)[1]

    # --- batches ------------------------------------------------------------------------------------------------------

    def chunk(self, segments: Segments, first: int, last: int) -> Chunk:
        """The records of ``segments[first:last]`` with their transactions and table versions."""
        records = first + np.flatnonzero(segments.record[first:last])
        headers = read_headers(segments.buffer, segments.start[records], segments.end[records])
        of = headers.transactional
        names, index = assign(headers.number[of], headers.transaction[of], headers.sequence[of], self.open_before)
        transaction = np.full(len(records), -1, dtype=np.int64)
        transaction[of] = index
        version = self.versions.of_records(headers)
        return Chunk(segments, first, records, headers, names, transaction, version)

    def batches(self, segments: Segments, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """The events of ``segments[first:last]``."""
        chunk = self.chunk(segments, first, last)
        keep = np.flatnonzero(self.kept(chunk))
        places = self.places(segments, segments.start[first:last], segments.end[first:last])
        others = self._other_rows(chunk, first, last, places)
        records = self._records(chunk, keep, places) if len(keep) else None
        yield from _merged(records, chunk.records[keep], others)

    def close(self) -> Iterator[pa.RecordBatch]:
        """What is left of the text files of this split: notes behind their last digit."""
        rows: list[dict[str, Any]] = []
        for index in self.split.closes:
            rows += self._notes(index, self.plan.files[index].size)
        rows = [row for row in rows if self.wanted.allows(row)]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=model.EVENTS)

    def schemas(self, chunk: Chunk, records: Ints) -> tuple[Tables, Ints]:
        """The table schemas in force at some records of a chunk, and the place of each record's own; -1: none."""
        headers = chunk.headers
        rows = np.flatnonzero(headers.row[records])
        found, table = self.versions.tables(headers.label[records[rows]], chunk.version[records[rows]])
        known = [
            (place, schema) for place, one in enumerate(found) if (schema := self.versions.schema(*one)) is not None
        ]
        place_of = np.full(len(found) + 1, -1, dtype=np.int64)
        place_of[[place for place, _ in known]] = np.arange(len(known))
        out = np.full(len(records), -1, dtype=np.int64)
        out[rows] = place_of[table]
        return Tables([schema for _, schema in known]), out

    def kept(self, chunk: Chunk) -> Bools:
        """Records that the filters let through."""
        keep = np.ones(len(chunk.records), dtype=bool)
        if self.wanted.timed:
            keep &= np.isin(chunk.headers.number, _TIMED)
        if self.wanted.kinds is not None:
            keep &= np.isin(
                chunk.headers.number, [number for number, kind in _KINDS.items() if kind in self.wanted.kinds]
            )
        if self.wanted.transactions is not None:
            good = np.array([name in self.wanted.transactions for name in chunk.names] + [False])
            keep &= good[chunk.transaction]
        if self.wanted.tables is not None:
            labels = np.unique(chunk.headers.label)
            good = np.array([bool(self.wanted.tables & self.versions.table_names(int(label))) for label in labels])
            keep &= good[np.searchsorted(labels, chunk.headers.label)]
        return keep

    def _records(self, chunk: Chunk, keep: Ints, places: Places) -> pa.RecordBatch:
        """The records ``keep`` of a chunk as one batch."""
        count, headers, transaction = len(keep), chunk.headers.take(keep), chunk.transaction[keep]
        labelled = headers.row | np.isin(headers.number, _LABELLED)
        schema_name, table_name, table_version = self.versions.name_arrays(headers.label, chunk.version[keep], labelled)
        file_index, offset, length = (one[chunk.records[keep] - chunk.first] for one in places)
        columns: dict[str, pa.Array] = {
            "format": pa.repeat(FORMAT, count),
            "file": self.paths.take(pa.array(file_index)),
            "file_index": pa.array(file_index.astype(np.int32)),
            "offset": pa.array(offset),
            "length": pa.array(length),
            "offset_unit": pa.repeat(str(OffsetUnit.BYTE), count),
            "transaction_id": pa.array(chunk.names, pa.string()).take(pa.array(transaction, mask=transaction < 0)),
            "schema_name": schema_name,
            "table_name": table_name,
            "table_version": table_version,
        }
        columns |= columns_of(
            headers, *self.schemas(chunk, keep), self.plan.settings,
            images=self.wanted.images, header_map=self.wanted.needs("headers"),
        )  # fmt: skip
        if self.wanted.raw:
            columns["raw"] = slices(headers.buffer, headers.start, headers.end)
        nothing = {field.name: pa.nulls(count, field.type) for field in model.EVENTS if field.name not in columns}
        columns |= nothing
        return pa.RecordBatch.from_arrays([columns[name] for name in model.EVENTS.names], schema=model.EVENTS)

    # --- places -------------------------------------------------------------------------------------------------------

    def places(self, segments: Segments, start: Ints, end: Ints) -> Places:
        """File index, offset and length in their decompressed files of runs that end in the file they begin in."""
        begin, stop = segments.base + start, segments.base + end
        index = np.searchsorted(self.starts, begin, side="right") - 1
        first = self.starts[index]
        offset, last = begin - first, np.minimum(stop, self.starts[index + 1]) - first
        for one in distinct(index)[0].tolist():
            if self.plan.files[one].shape != "binary":
                of = index == one
                offset[of], last[of] = self.stream.source(one).places(offset[of], last[of])
        return index, offset, last - offset

    def _span(self, index: int, start: int, end: int) -> tuple[int, int]:
        """Offset and end in the decompressed file of wire bytes ``[start, end)`` of one file."""
        offset, last = self.stream.source(index).places(np.array([start]), np.array([end]))
        return int(offset[0]), int(last[0])

    def _notes(self, index: int, upto: int) -> list[dict[str, Any]]:
        """Text of a file that holds no digits of a record, from where the last event ended up to ``upto``."""
        if index not in self.text_end or upto <= self.text_end[index]:
            return []
        offset = self.text_end[index]
        self.text_end[index] = upto
        row = self._row(index, offset, upto - offset, Kind.FILLER)
        row["headers"] = [("reason", "text between the hex digits of records")]
        return [row]

    def _enter(self, index: int) -> None:
        """A file is reached at its start, be it one of a later split: a text's notes there belong to this one."""
        if self.plan.files[index].shape != "binary":
            self.text_end.setdefault(index, 0)

    # --- what is not a record -----------------------------------------------------------------------------------------

    def _other_rows(self, chunk: Chunk, first: int, last: int, places: Places) -> list[tuple[int, dict[str, Any]]]:
        """Gaps, fragments, and notes between text records: (place, event) in order; the place is twice the index of the
        segment, and one more for what follows it."""
        segments = chunk.segments
        index, offset, length = places
        crosses = segments.base + segments.end[first:last] > self.starts[index + 1]
        texts = np.array([at in self.text_end for at in range(len(self.plan.files))])
        out: list[tuple[int, dict[str, Any]]] = []
        for at in np.flatnonzero(crosses | ~segments.record[first:last] | texts[index]).tolist():
            place, segment = int(index[at]), first + at
            if segments.base + int(segments.start[segment]) == self.stream.starts[place]:
                self._enter(place)
            rows = self._notes(place, int(offset[at]))
            if place in self.text_end:
                self.text_end[place] = int(offset[at]) + int(length[at])
            if not segments.record[segment]:
                rows.append(self._gap(segments, segment, place, int(offset[at]), int(length[at])))
            later = self._fragments(segments, segment, place) if crosses[at] else []
            out += [(2 * segment, row) for row in rows if self.wanted.allows(row)]
            out += [(2 * segment + 1, row) for row in later if self.wanted.allows(row)]
        return out

    def _row(self, index: int, offset: int, length: int, kind: Kind) -> dict[str, Any]:
        row: dict[str, Any] = dict.fromkeys(model.EVENTS.names)
        row.update(
            format=FORMAT,
            file=self.plan.files[index].path,
            file_index=index,
            offset=offset,
            length=length,
            offset_unit=str(OffsetUnit.BYTE),
            kind=str(kind),
        )
        return row

    def _gap(self, segments: Segments, segment: int, index: int, offset: int, length: int) -> dict[str, Any]:
        code, reason = segments.reasons[segment]
        filler = is_filler(segments, segment)
        row = self._row(index, offset, length, Kind.FILLER if filler else Kind.MALFORMED)
        if filler:
            row["headers"] = [("reason", reason)]
        else:
            row["problems"] = [{"code": str(code), "detail": reason}]
        if self.wanted.images:
            row["raw"] = segments.buffer[int(segments.start[segment]) : int(segments.end[segment])].tobytes()
        return row

    def _fragments(self, segments: Segments, segment: int, index: int) -> list[dict[str, Any]]:
        """The parts of a record that stand in the files after the one it begins in, and the notes before them."""
        rows = self._notes(index, self.plan.files[index].size)
        end = segments.base + int(segments.end[segment])
        for later in range(index + 1, len(self.plan.files)):
            first = self.stream.starts[later]
            if first >= end:
                break
            upto = min(end, self.stream.starts[later + 1]) - first
            if upto == 0:
                continue
            offset, last = self._span(later, 0, upto)
            self._enter(later)
            rows += self._notes(later, offset)
            if later in self.text_end:
                self.text_end[later] = last
            row = self._row(later, offset, last - offset, Kind.FRAGMENT)
            row["headers"] = [("reason", f"continues the record that begins in {self.plan.files[index].path}")]
            if self.wanted.images:
                row["raw"] = self.stream.source(later).read(0, upto).tobytes()
            rows.append(row)
        return rows


_FEW: Final = 16
"""Places where the two kinds of events meet, up to which batches are cut there rather than gathered row by row."""


def _merged(
    records: pa.RecordBatch | None, order: Ints, others: list[tuple[int, dict[str, Any]]]
) -> Iterator[pa.RecordBatch]:
    """Records and other events in capture order. ``order`` holds the segment of each record, ``others`` twice that
    (and one more for what follows it)."""
    if not others:
        if records is not None and len(records):
            yield records
        return
    rest = pa.RecordBatch.from_pylist([row for _, row in others], schema=model.EVENTS)
    if records is None or not len(records):
        yield rest
        return
    cuts = np.searchsorted(2 * order, np.array([key for key, _ in others]))  # records ones before each of the others
    edges = np.unique(cuts)
    if len(edges) > _FEW:
        places = np.insert(np.arange(len(records)), cuts, np.arange(len(records), len(records) + len(others)))
        both = pa.Table.from_batches([records, rest]).take(pa.array(places))
        yield from both.combine_chunks().to_batches()
        return
    at = done = 0
    for edge, upto in zip(edges.tolist(), np.searchsorted(cuts, edges, side="right").tolist(), strict=True):
        if edge > at:
            yield records.slice(at, edge - at)
        yield rest.slice(done, upto - done)
        at, done = edge, upto
    if at < len(records):
        yield records.slice(at)
