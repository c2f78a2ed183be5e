"""The records of a split as Arrow batches of ``events``, in capture order (docs/formats/gbase8s.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdcwb import model
from cdcwb.formats.arrays.texts import slices
from cdcwb.formats.base import Wanted
from cdcwb.formats.gbase8s.decode import Headers, Tables, columns_of, read_headers
from cdcwb.formats.gbase8s.first_pass import is_filler
from cdcwb.formats.gbase8s.framing import Bools, Ints, Segments
from cdcwb.formats.gbase8s.layout import FORMAT, RECORD_TYPES
from cdcwb.formats.gbase8s.plan import Plan, SplitEntry, Stream, Versions, distinct
from cdcwb.formats.gbase8s.transactions import Found, assign
from cdcwb.model import Kind, OffsetUnit, Problem

__all__ = ["Chunk", "SplitState", "read_chunks", "read_events"]

CHUNK: Final = 32_768
"""The number of segments in an Arrow batch."""

_KINDS: Final = {0: Kind.CONTROL, **{number: kind.kind for number, kind in RECORD_TYPES.items()}}
_TIMED: Final = (1, 2)
_LABELLED: Final = (119, 200)
_FEW: Final = 16  # batches are split between records and other events up to this number

Places = tuple[Ints, Ints, Ints]
"""File index, offset and length of some segments, one array each."""


def read_events(plan: Plan, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The events of one split in capture order, as batches of :data:`cdcwb.model.EVENTS`."""
    with plan.stream() as stream:
        for part, transactions in plan.parts_with(split, wanted.transactions):
            state = SplitState(plan, stream, part, replace(wanted, transactions=transactions))
            for chunk in read_chunks(state):
                yield from state.batches(chunk)
            yield from state.close()


@dataclass(slots=True)
class Chunk:
    """The segments ``[first, last)`` of a window; arrays run over its records."""

    segments: Segments
    first: int
    last: int
    records: Ints  # segment index of each record
    headers: Headers
    names: list[str]  # of transactions
    transaction: Ints  # index into names, -1: none
    version: Ints  # number of the table version, 0: none


def read_chunks(state: SplitState) -> Iterator[Chunk]:
    """Yields the segments of a split, some thousands at a time, with their transactions and table versions."""
    split, stream = state.split, state.stream
    for segments in stream.segments(split.start, split.stop, stream.reads(split.buffer)):
        for first in range(0, len(segments.start), CHUNK):
            last = min(first + CHUNK, len(segments.start))
            records = first + np.flatnonzero(segments.record[first:last])
            headers = read_headers(segments.buffer, segments.start[records], segments.end[records])
            of = headers.transactional
            found = Found.among(headers.number[of], headers.transaction[of])
            names = assign(found, headers.sequence[of], state.open_before)
            transaction = np.full(len(records), -1, dtype=np.int64)
            transaction[of] = found.index
            version = state.versions.of_records(headers)
            yield Chunk(segments, first, last, records, headers, list(names.values()), transaction, version)


class SplitState:
    """Reads one split; versions in force and open transactions are carried from chunk to chunk."""

    def __init__(self, plan: Plan, stream: Stream, split: SplitEntry, wanted: Wanted) -> None:
        self.plan, self.stream, self.split, self.wanted = plan, stream, split, wanted
        self.open_before = dict(split.open_before)
        self.versions = Versions(plan, split.in_force)
        self.starts: Ints = np.array(stream.starts)  # of the files in the stream, and its end
        self.paths = pa.array([entry.path for entry in plan.files], pa.string())
        self.text_end = dict.fromkeys(split.closes, 0)  # the end of the last event of each text file
        for index in split.closes:
            covered = min(max(split.start - stream.starts[index], 0), plan.files[index].length)
            if covered:  # the rest of a record that begins in an earlier split
                self.text_end[index] = stream.span(index, 0, covered)[1]

    # --- records ------------------------------------------------------------------------------------------------------

    def batches(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """The events of a chunk: its records, and gaps, fragments and notes."""
        keep = np.flatnonzero(self.matching(chunk))
        places = self.places(chunk.segments, slice(chunk.first, chunk.last))
        other = self._other_events(chunk, places)
        if not other:
            if len(keep):
                yield self._records(chunk, keep, places)
            return
        rest = pa.RecordBatch.from_pylist([row for _, row in other], schema=model.EVENTS)
        if not len(keep):
            yield rest
            return
        records = self._records(chunk, keep, places)
        cuts = np.searchsorted(2 * chunk.records[keep], np.array([key for key, _ in other]))
        edges = np.unique(cuts)  # records that precede others
        if len(edges) > _FEW:
            order = np.insert(np.arange(len(records)), cuts, np.arange(len(records), len(records) + len(other)))
            both = pa.Table.from_batches([records, rest]).take(pa.array(order))
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

    def matching(self, chunk: Chunk) -> Bools:
        """The records that match the filters."""
        wanted, headers = self.wanted, chunk.headers
        keep = np.ones(len(chunk.records), dtype=bool)
        if wanted.timed:
            keep &= np.isin(headers.number, _TIMED)
        if wanted.kinds is not None:
            keep &= np.isin(headers.number, [number for number, kind in _KINDS.items() if kind in wanted.kinds])
        if wanted.transactions is not None:
            keep &= np.array([*(name in wanted.transactions for name in chunk.names), False])[chunk.transaction]
        if wanted.tables is not None:
            labels, index = distinct(headers.label)
            named = [bool(wanted.tables & self.versions.table_names(label)) for label in labels.tolist()]
            keep &= np.array(named, dtype=bool)[index]
        return keep

    def schemas(self, chunk: Chunk, records: Ints) -> tuple[Tables, Ints]:
        """The table schemas in force at some records of a chunk, and the index of each record's schema; -1: none."""
        rows = np.flatnonzero(chunk.headers.row[records])
        versions, table = self.versions.tables(chunk.headers.label[records[rows]], chunk.version[records[rows]])
        schemas = [self.versions.schema(*v) for v in versions]
        known = np.array([schema is not None for schema in schemas], dtype=bool)
        place_of = np.where(known, np.cumsum(known) - 1, -1)
        out = np.full(len(records), -1, dtype=np.int64)
        out[rows] = place_of[table]
        return Tables([schema for schema in schemas if schema is not None]), out

    def _records(self, chunk: Chunk, keep: Ints, places: Places) -> pa.RecordBatch:
        """The records ``keep`` of a chunk as one batch."""
        count, headers, transaction = len(keep), chunk.headers.take(keep), chunk.transaction[keep]
        labelled = headers.row | np.isin(headers.number, _LABELLED)
        names = self.versions.name_arrays(headers.label, chunk.version[keep], labelled)
        file_index, offset, length = (values[chunk.records[keep] - chunk.first] for values in places)
        columns: dict[str, pa.Array] = {
            "format": pa.repeat(FORMAT, count),
            "file": self.paths.take(pa.array(file_index)),
            "file_index": pa.array(file_index.astype(np.int32)),
            "offset": pa.array(offset),
            "length": pa.array(length),
            "offset_unit": pa.repeat(str(OffsetUnit.BYTE), count),
            "transaction_id": pa.array(chunk.names, pa.string()).take(pa.array(transaction, mask=transaction < 0)),
            **dict(zip(("schema_name", "table_name", "table_version"), names, strict=True)),
            **columns_of(
                headers, *self.schemas(chunk, keep), self.plan.settings,
                images=self.wanted.images, header_map=self.wanted.needs("headers"),
                find_problems=self.wanted.needs("problems"),
            ),
        }  # fmt: skip
        if self.wanted.raw:
            columns["raw"] = slices(headers.buffer, headers.start, headers.end)
        arrays = [
            columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in model.EVENTS
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=model.EVENTS)

    def places(self, segments: Segments, some: Any) -> Places:
        """File index, offset and length of segments in their decompressed files, up to the end of the file they begin
        in."""
        begin, stop = segments.base + segments.start[some], segments.base + segments.end[some]
        index = np.searchsorted(self.starts, begin, side="right") - 1
        first = self.starts[index]
        offset, last = begin - first, np.minimum(stop, self.starts[index + 1]) - first
        for file in distinct(index)[0].tolist():
            if self.plan.files[file].shape != "binary":
                of = index == file
                offset[of], last[of] = self.stream.source(file).places(offset[of], last[of])
        return index, offset, last - offset

    # --- what is not a record -----------------------------------------------------------------------------------------

    def close(self) -> Iterator[pa.RecordBatch]:
        """The rest of the text files of this split: notes after their last digit."""
        rows = [row for index in self.split.closes for row in self._notes(index, self.plan.files[index].size)]
        rows = [row for row in rows if self.wanted.allows(row)]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=model.EVENTS)

    def _other_events(self, chunk: Chunk, places: Places) -> list[tuple[int, dict[str, Any]]]:
        """Gaps, fragments, and notes between text records, as pairs (index, event) in order; the index is twice that of
        the segment, plus one for an event after it."""
        segments, (index, offset, length) = chunk.segments, places
        crosses = segments.base + segments.end[chunk.first : chunk.last] > self.starts[index + 1]
        texts = np.array([at in self.text_end for at in range(len(self.plan.files))])
        out: list[tuple[int, dict[str, Any]]] = []
        for at in np.flatnonzero(crosses | ~segments.record[chunk.first : chunk.last] | texts[index]).tolist():
            file, segment = int(index[at]), chunk.first + at
            if segments.base + int(segments.start[segment]) == self.stream.starts[file]:
                self._enter(file)
            rows = self._notes(file, int(offset[at]))
            if file in self.text_end:
                self.text_end[file] = int(offset[at]) + int(length[at])
            if not segments.record[segment]:
                rows.append(self._gap(segments, segment, file, int(offset[at]), int(length[at])))
            later = self._fragments(segments, segment, file) if crosses[at] else []
            out += [(2 * segment, row) for row in rows if self.wanted.allows(row)]
            out += [(2 * segment + 1, row) for row in later if self.wanted.allows(row)]
        return out

    def _enter(self, index: int) -> None:
        """Handles the start of a file, also one of a later split: notes at the start of a text file belong to this
        split."""
        if self.plan.files[index].shape != "binary":
            self.text_end.setdefault(index, 0)

    def _row(self, index: int, offset: int, length: int, kind: Kind, reason: str, raw: bytes | None) -> dict[str, Any]:
        return dict.fromkeys(model.EVENTS.names) | {
            "format": FORMAT, "file": self.plan.files[index].path, "file_index": index, "offset": offset,
            "length": length, "offset_unit": str(OffsetUnit.BYTE), "kind": str(kind),
            "headers": None if kind is Kind.MALFORMED else [("reason", reason)],
            "raw": raw if self.wanted.images else None,
        }  # fmt: skip

    def _notes(self, index: int, upto: int) -> list[dict[str, Any]]:
        """Text of a file without digits of a record, from the end of the last event to ``upto``."""
        if index not in self.text_end or upto <= self.text_end[index]:
            return []
        offset = self.text_end[index]
        self.text_end[index] = upto
        return [self._row(index, offset, upto - offset, Kind.FILLER, "text between the hex digits of records", None)]

    def _gap(self, segments: Segments, segment: int, index: int, offset: int, length: int) -> dict[str, Any]:
        code, reason = segments.reasons[segment]
        kind = Kind.FILLER if is_filler(segments, segment) else Kind.MALFORMED
        raw = segments.buffer[segments.start[segment] : segments.end[segment]].tobytes()
        row = self._row(index, offset, length, kind, reason, raw)
        if kind is Kind.MALFORMED or code is Problem.STALE:
            row["problems"] = [{"code": str(code), "detail": reason}]
        return row

    def _fragments(self, segments: Segments, segment: int, index: int) -> list[dict[str, Any]]:
        """The parts of a record in the files after the one it begins in, and the notes that precede them."""
        rows = self._notes(index, self.plan.files[index].size)
        end = segments.base + int(segments.end[segment])
        reason = f"continues the record that begins in {self.plan.files[index].path}"
        for later in range(index + 1, len(self.plan.files)):
            first = self.stream.starts[later]
            upto = min(end, self.stream.starts[later + 1]) - first
            if first >= end:
                break
            if upto == 0:
                continue
            offset, last = self.stream.span(later, 0, upto)
            self._enter(later)
            rows += self._notes(later, offset)
            if later in self.text_end:
                self.text_end[later] = last
            raw = self.stream.source(later).read(0, upto).tobytes()
            rows.append(self._row(later, offset, last - offset, Kind.FRAGMENT, reason, raw))
        return rows
