"""The fast path: the records of a split as Arrow batches of ``events``, many at a time (docs/formats/gbase8s.md).

Records that are plainly clean are decoded column by column. Whatever is not (unknown types, longer headers, rows
without a schema, values that are none …) goes through :func:`cdcwb.formats.gbase8s.dissect.event`, one by one, so that
both paths say the same about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.formats.arrays.texts import slices
from cdcwb.formats.base import EVERYTHING, Wanted
from cdcwb.formats.gbase8s import batch
from cdcwb.formats.gbase8s.dissect import event
from cdcwb.formats.gbase8s.distinct import distinct
from cdcwb.formats.gbase8s.framing import Bools, Ints, Segments, big_endian_32
from cdcwb.formats.gbase8s.headers import Headers, read_headers
from cdcwb.formats.gbase8s.images import RowImages, decode_images
from cdcwb.formats.gbase8s.plan import Plan, SplitEntry, Stream
from cdcwb.formats.gbase8s.records import RECORD_TYPES
from cdcwb.formats.gbase8s.scan import is_filler, iter_split
from cdcwb.formats.gbase8s.schema import TableSchema
from cdcwb.formats.gbase8s.transactions import assign
from cdcwb.formats.gbase8s.versions import Versions
from cdcwb.model import Kind, OffsetUnit

__all__ = ["CHUNK", "FORMAT", "Chunk", "SplitState", "is_plain", "read_events"]

FORMAT: Final = "gbase8s"
CHUNK: Final = 32_768
"""Segments that become one Arrow batch."""

_PLAIN_TYPES: Final = np.isin(np.arange(256), [1, 2, 3, 40, 41, 42, 43, 62, 119, 201])
_EXACT_HEADER: Final = {1: 40, 2: 36, 3: 28, 62: 28, 119: 32, 201: 24}
_EXACT: Final = np.zeros(256, dtype=np.int64)
for _number, _size in _EXACT_HEADER.items():
    _EXACT[_number] = _size
_KINDS: Final = {0: Kind.CONTROL, **{number: kind.kind for number, kind in RECORD_TYPES.items()}}
_TIMED: Final = (1, 2)
_BEFORE: Final = np.isin(np.arange(256), [41, 42])
_AFTER: Final = np.isin(np.arange(256), [40, 43])


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
        version = self.versions.of_records(segments.buffer, headers)
        return Chunk(segments, first, records, headers, names, transaction, version)

    def batches(self, segments: Segments, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """The events of ``segments[first:last]``."""
        chunk = self.chunk(segments, first, last)
        keep = self.kept(chunk)
        plain = is_plain(chunk) & keep
        images: list[RowImages] = []
        if self.wanted.images:
            images, odd = self.decode(chunk, plain)
            plain &= ~odd
        quick = np.flatnonzero(plain)
        places = self.places(segments, segments.start[first:last], segments.end[first:last])
        slow = self._slow_rows(chunk, keep & ~plain, first, last, places)
        fast = self._fast(chunk, quick, images, places) if len(quick) else None
        yield from _merged(fast, chunk.records[quick], slow)

    def close(self) -> Iterator[pa.RecordBatch]:
        """What is left of the text files of this split: notes behind their last digit."""
        rows: list[dict[str, Any]] = []
        for index in self.split.closes:
            rows += self._notes(index, self.plan.files[index].size)
        rows = [row for row in rows if self.wanted.allows(row)]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=model.EVENTS)

    def decode(
        self, chunk: Chunk, plain: Bools, columns: frozenset[str] | None = None
    ) -> tuple[list[RowImages], Bools]:
        """Row images of the plain row records, a :class:`RowImages` for each table version; and which are odd."""
        headers = chunk.headers
        odd = np.zeros(len(headers.start), dtype=bool)
        images: list[RowImages] = []
        rows = np.flatnonzero(plain & headers.row)
        tables, table = self.versions.tables(headers.label[rows], chunk.version[rows])
        for place, (label, version) in enumerate(tables):
            some = rows[table == place]
            schema = self.versions.schema(label, version)
            if schema is None or schema.problems:
                odd[some] = True
                continue
            image = decode_images(
                chunk.segments.buffer,
                some,
                headers.start[some],
                headers.header_size[some],
                headers.payload_size[some],
                schema,
                self.plan.settings,
                columns,
            )
            odd[some[image.odd]] = True
            images.append(image)
        return images, odd

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

    def _fast(self, chunk: Chunk, quick: Ints, images: list[RowImages], places: Places) -> pa.RecordBatch:
        """The records ``quick`` of a chunk, all plain, as one batch."""
        segments, count = chunk.segments, len(quick)
        headers = chunk.headers.take(quick)
        record_type, kind, operation = batch.names_of(headers.number)
        position = batch.positions(headers.sequence)
        timed, _ = batch.times(headers)
        transaction = chunk.transaction[quick]
        labelled = headers.row | (headers.number == 119)
        schema_name, table_name, table_version = self.versions.name_arrays(
            headers.label, chunk.version[quick], labelled
        )
        file_index, offset, length = (one[chunk.records[quick] - chunk.first] for one in places)
        columns: dict[str, pa.Array] = {
            "format": pa.repeat(FORMAT, count),
            "file": self.paths.take(pa.array(file_index)),
            "file_index": pa.array(file_index.astype(np.int32)),
            "offset": pa.array(offset),
            "length": pa.array(length),
            "offset_unit": pa.repeat(str(OffsetUnit.BYTE), count),
            "record_type": record_type,
            "kind": kind,
            "operation": operation,
            "position": position,
            "commit_position": pc.if_else(pa.array(headers.number == 2), position, pa.scalar(None, pa.string())),
            "transaction_id": pa.array(chunk.names, pa.string()).take(pa.array(transaction, mask=transaction < 0)),
            "changed_at": pa.array(headers.seconds * 1_000_000, mask=~timed).cast(
                model.EVENTS.field("changed_at").type
            ),
            "schema_name": schema_name,
            "table_name": table_name,
            "table_version": table_version,
        }
        if self.wanted.needs("headers"):
            columns["headers"] = batch.header_map(segments.buffer, headers, position, self.plan.settings.byte_order)
        if self.wanted.images:
            place = np.full(len(chunk.records), -1, dtype=np.int64)
            place[quick] = np.arange(count)
            local = [RowImages(place[image.rows], image.odd, image.names, image.columns) for image in images]
            before, after = _BEFORE[headers.number], _AFTER[headers.number]
            columns["before"], columns["after"] = batch.image_maps(local, before, after)
        if self.wanted.raw:
            columns["raw"] = slices(segments.buffer, headers.start, headers.end)
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

    # --- one by one ---------------------------------------------------------------------------------------------------

    def _slow_rows(
        self, chunk: Chunk, odd: Bools, first: int, last: int, places: Places
    ) -> list[tuple[int, dict[str, Any]]]:
        """Gaps, fragments, notes between text records, and the records that are not plain: (segment, event) in
        order."""
        segments = chunk.segments
        index, offset, length = places
        crosses = segments.base + segments.end[first:last] > self.starts[index + 1]
        is_odd = np.zeros(last - first, dtype=bool)
        is_odd[chunk.records[odd] - first] = True
        record_of = np.full(last - first, -1, dtype=np.int64)
        record_of[chunk.records - first] = np.arange(len(chunk.records))
        texts = np.array([at in self.text_end for at in range(len(self.plan.files))])
        busy = is_odd | crosses | ~segments.record[first:last] | texts[index]
        out: list[tuple[int, dict[str, Any]]] = []
        for at in np.flatnonzero(busy).tolist():
            place, segment = int(index[at]), first + at
            if segments.base + int(segments.start[segment]) == self.stream.starts[place]:
                self._enter(place)
            rows = self._notes(place, int(offset[at]))
            if place in self.text_end:
                self.text_end[place] = int(offset[at]) + int(length[at])
            if not segments.record[segment]:
                rows.append(self._gap(segments, segment, place, int(offset[at]), int(length[at])))
            elif is_odd[at]:
                rows.append(self._one(chunk, int(record_of[at]), place, int(offset[at]), int(length[at])))
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

    def _one(self, chunk: Chunk, record: int, index: int, offset: int, length: int) -> dict[str, Any]:
        headers = chunk.headers
        there = chunk.segments.buffer[int(headers.start[record]) : int(headers.end[record])].tobytes()
        label, version = int(headers.label[record]), int(chunk.version[record])
        schema: TableSchema | None = self.versions.schema(label, version)
        found = event(there, schema, self.plan.settings)
        row = self._row(index, offset, length, Kind(str(found["kind"])))
        for name in ("record_type", "operation", "position", "commit_position", "changed_at", "problems"):
            row[name] = found[name]
        for name in ("headers", "before", "after"):
            image: Any = found[name]
            row[name] = None if image is None else list(image.items())
        transaction = int(chunk.transaction[record])
        if transaction >= 0:
            row["transaction_id"] = chunk.names[transaction]
        if headers.row[record] or headers.number[record] in (119, 200):
            row["schema_name"], row["table_name"] = self.versions.names(label)
            row["table_version"] = f"{label}@{version}" if version else None
        if self.wanted.images:
            row["raw"] = there
        else:
            row["before"] = row["after"] = None
        return row


def is_plain(chunk: Chunk) -> Bools:
    """Records that hold nothing but what their type's header says (§1.3, §2)."""
    headers, buffer = chunk.headers, chunk.segments.buffer
    plain = headers.known & _PLAIN_TYPES[headers.number]
    exact = (headers.header_size == _EXACT[headers.number]) & (headers.payload_size == 0)
    plain &= exact | headers.row
    _, beyond = batch.times(headers)
    plain &= ~beyond
    rows = np.flatnonzero(headers.row)
    flagged = big_endian_32(buffer, headers.start[rows] + 32) != 0
    ragged = (headers.header_size[rows] - 36) % 4 != 0
    plain[rows[flagged | ragged]] = False
    return plain


_FEW: Final = 16
"""Places where the two kinds of events meet, up to which batches are cut there rather than gathered row by row."""


def _merged(
    fast: pa.RecordBatch | None, order: Ints, slow: list[tuple[int, dict[str, Any]]]
) -> Iterator[pa.RecordBatch]:
    """Both kinds of events in capture order. ``order`` holds the segment of each fast one, ``slow`` twice that (and one
    more for what stands behind it)."""
    if not slow:
        if fast is not None and len(fast):
            yield fast
        return
    rest = pa.RecordBatch.from_pylist([row for _, row in slow], schema=model.EVENTS)
    if fast is None or not len(fast):
        yield rest
        return
    cuts = np.searchsorted(2 * order, np.array([key for key, _ in slow]))  # fast ones before each slow one
    edges = np.unique(cuts)
    if len(edges) > _FEW:
        places = np.insert(np.arange(len(fast)), cuts, np.arange(len(fast), len(fast) + len(slow)))
        both = pa.Table.from_batches([fast, rest]).take(pa.array(places))
        yield from both.combine_chunks().to_batches()
        return
    at = done = 0
    for edge, upto in zip(edges.tolist(), np.searchsorted(cuts, edges, side="right").tolist(), strict=True):
        if edge > at:
            yield fast.slice(at, edge - at)
        yield rest.slice(done, upto - done)
        at, done = edge, upto
    if at < len(fast):
        yield fast.slice(at)
