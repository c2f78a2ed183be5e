"""The engine of formats whose captures are records in a stream of bytes, such as ``gbase8s``.

A format (:class:`RecordFormat`) gives the places of records, what a first pass over a split shows, the columns of
events of records, and the field tree of one. The rest is here: files as one stream of bytes, splits, the first pass
over all of them, events for bytes that are not records, for parts of records in later files and for notes in texts, and
the inspection of a single record.
"""

from __future__ import annotations

import bisect
import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import pyarrow as pa

from cdcwb import model
from cdcwb.errors import CaptureError, MalformedRecordError
from cdcwb.formats.arrays import filled, slices
from cdcwb.formats.dissector import (
    Field,
    Format,
    Inspection,
    PlanText,
    Run,
    Wanted,
    detected_row,
    file_row,
    problem_row,
    run_here,
    scan_all,
)
from cdcwb.formats.files import list_files, open_source
from cdcwb.formats.kernels import Bools, Bytes, Ints
from cdcwb.formats.requests import select
from cdcwb.formats.source import Source, folders_of, same_file
from cdcwb.model import Kind, OffsetUnit, Problem

Places = tuple[Ints, Ints, Ints]
"""File index, offset and length of some segments, one array each."""

WINDOW: Final = 8 << 20
"""Bytes of a stream that are read at a time."""

HEAD: Final = 4 << 20
"""Bytes of a stream that are examined to detect settings if one record is inspected."""

GAP_PIECE: Final = 1 << 20
"""A gap is reported in pieces of at most this many bytes, counted from its start, so that events are bounded; framing
restarts after each of them."""

_CHUNK: Final = 32_768  # segments in an Arrow batch
_SPLIT_SIZES: Final = (8 << 20, 32 << 20)
SPLIT_SIZE: Final = "bytes of a large file that one task reads (a quarter of it, from {} to {})".format(*_SPLIT_SIZES)
"""The description of the option ``split_size``."""

_MANY_FILES: Final = 64
_TOGETHER: Final = 4 << 20  # bytes of small files that one task reads
_MOST_OPEN: Final = 64  # files of a stream that are open at once; many systems allow a process 1,024
_NOTE: Final = "text between the hex digits of records"


# --- segments ---------------------------------------------------------------------------------------------------------


class UnparsedReason(NamedTuple):
    """The reason why bytes are not a record: the code of the problem (None: they have no data) and the sentence."""

    code: Problem | None
    sentence: str

    @property
    def is_unused(self) -> bool:
        """Whether the bytes are known to have no data."""
        return self.code in (None, Problem.STALE, Problem.NOTE)


@dataclass(frozen=True, slots=True)
class Segments:
    """Consecutive records and gaps of a stream, in order, without holes.

    ``start`` and ``end`` count bytes from the start of ``buffer``, which itself begins at ``base`` in the stream.
    ``record``: a mask of records. ``reasons``: the reason of a gap, by its index.
    """

    buffer: Bytes
    base: int
    start: Ints
    end: Ints
    record: Bools
    reasons: dict[int, UnparsedReason]

    def is_filler(self, gap: int) -> bool:
        """Whether a gap has no data: stale, or all zero bytes."""
        return self.reasons[gap].is_unused or not self.buffer[self.start[gap] : self.end[gap]].any()


def cut_gaps(segments: Segments, boundaries: Ints) -> Segments:
    """The same segments with gaps split at ``boundaries``, offsets in the stream, and into pieces of
    :data:`GAP_PIECE` bytes."""
    gaps = np.flatnonzero(~segments.record)
    if len(gaps) == 0:
        return segments
    spans = zip(segments.start[gaps].tolist(), segments.end[gaps].tolist(), strict=True)
    cuts = [np.arange(start + GAP_PIECE, end, GAP_PIECE) for start, end in spans if end - start > GAP_PIECE]
    places = np.concatenate([*cuts, boundaries - segments.base])
    places = places[(places >= segments.start[0]) & (places < segments.end[-1])]
    places = places[~segments.record[np.searchsorted(segments.start, places, side="right") - 1]]
    start = np.unique(np.concatenate([segments.start, places]))
    origin = np.searchsorted(segments.start, start, side="right") - 1
    record = segments.record[origin]
    reasons = {gap: segments.reasons[int(origin[gap])] for gap in np.flatnonzero(~record).tolist()}
    end = np.append(start[1:], segments.end[-1])
    return Segments(segments.buffer, segments.base, start, end, record, reasons)


# --- files as a stream ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class FileEntry:
    """One file of a capture. ``size``: bytes of the decompressed file; ``length``: bytes of the stream in it, which are
    fewer in a text of hex digits; ``problem``: that of the file itself (a truncated compressed one)."""

    path: str
    shape: str
    compression: str | None
    size: int
    length: int
    problem: str | None = None

    @classmethod
    def of(cls, path: str, shape: str) -> FileEntry:
        """That of a file with this shape (or ``auto``)."""
        with open_source(path, shape) as source:
            return cls(path, source.shape, source.compression, source.size, source.length, source.problem)


class Stream:
    """The files of a capture as one run of bytes, in which a record may begin in one file and end in another. A file is
    opened when its bytes are first requested, and a few stay open. ``starts``: those of the files, and the end.
    """

    def __init__(self, files: Sequence[FileEntry]) -> None:
        self.files = files
        self.starts = [0]
        for entry in files:
            self.starts.append(self.starts[-1] + entry.length)
        self.length = self.starts[-1]
        self.boundaries: Ints = np.array(self.starts[1:-1], dtype=np.int64)
        self._open: dict[int, Source] = {}

    def source(self, index: int) -> Source:
        """The open file at an index, to be used before another one is requested."""
        if index not in self._open:
            if len(self._open) >= _MOST_OPEN:
                self._open.pop(next(iter(self._open))).close()
            entry = self.files[index]
            self._open[index] = open_source(entry.path, entry.shape, size=entry.size)
        return self._open[index]

    def file_at(self, at: int) -> int:
        """The index of the file with the byte at ``at``."""
        return bisect.bisect_right(self.starts, at, hi=len(self.files)) - 1

    def read(self, start: int, stop: int) -> Bytes:
        """The bytes ``[start, stop)``, clipped to the stream; bytes of several files are joined."""
        stop = min(stop, self.length)
        index = self.file_at(start)
        if start < stop <= self.starts[index + 1]:
            joined = self.source(index).read(start - self.starts[index], stop - self.starts[index]).view()
        else:
            joined = np.empty(max(stop - start, 0), np.uint8)
            at = start
            while at < stop:
                index = self.file_at(at)
                first, end = self.starts[index], min(stop, self.starts[index + 1])
                joined[at - start : end - start] = self.source(index).read(at - first, end - first)
                at = end
        joined.flags.writeable = False  # a kernel would be compiled for each of the two types
        return joined

    def location(self, start: int, end: int) -> tuple[int, int, int]:
        """File index, offset and length of a run of the stream in its first decompressed file."""
        index = self.file_at(start)
        first = self.starts[index]
        offset, stop = self.span(index, start - first, min(end, self.starts[index + 1]) - first)
        return index, offset, stop - offset

    def span(self, index: int, start: int, end: int) -> tuple[int, int]:
        """Offset and end in the decompressed file of bytes ``[start, end)`` of one file."""
        offset, last = self.source(index).places(np.array([start]), np.array([end]))
        return int(offset[0]), int(last[0])

    def places(self, segments: Segments, some: Any) -> Places:
        """The locations of segments in their decompressed files, up to the end of the file they begin in."""
        starts: Ints = np.array(self.starts)
        begin, stop = segments.base + segments.start[some], segments.base + segments.end[some]
        index = np.searchsorted(starts, begin, side="right") - 1
        first = starts[index]
        offset, last = begin - first, np.minimum(stop, starts[index + 1]) - first
        for file in np.flatnonzero(np.bincount(index)).tolist():
            if self.files[file].shape != "binary":
                of = index == file
                offset[of], last[of] = self.source(file).places(offset[of], last[of])
        return index, offset, last - offset

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        for source in self._open.values():
            source.close()
        self._open.clear()


# --- plans ------------------------------------------------------------------------------------------------------------


class Framing(NamedTuple):
    """How records follow each other in a capture, as a format detects it. ``one_task``: the stream cannot be cut.
    ``detected``: rows of :data:`cdcwb.model.DETECTED`."""

    mode: Any
    one_task: bool = False
    detected: tuple[dict[str, Any], ...] = ()


@dataclass(slots=True)
class Scan:
    """The result of the first pass over a split. ``begin`` and ``end``: the start of its first and the end of its last
    segment. ``found`` is what the format finds. ``first_malformed``: place in the stream, file index, offset and
    reason."""

    begin: int
    end: int
    records: int = 0
    found: Any = None
    first_malformed: tuple[int, int, int, str] | None = None

    def nothing(self, begin: int) -> Scan:
        """See :class:`cdcwb.formats.dissector.Scanned`."""
        return Scan(begin, begin, found=type(self.found)())


@dataclass(slots=True)
class Split:
    """A run of the stream, ``[start, stop)`` in bytes over all files: the segments that begin in it.

    ``closes``: indexes of the text files whose notes (text between the digits of records) belong to this split.
    ``state``: what the format knows at its start. ``begin``: in the first pass, the start of its first segment, None if
    unknown.
    """

    start: int
    stop: int
    closes: list[int] = field(default_factory=list)
    state: Any = None
    begin: int | None = None


@dataclass(slots=True)
class Plan(PlanText):
    """The plan of a capture. ``shared``: what the format needs in every split."""

    files: list[FileEntry]
    framing: Framing
    splits: list[Split] = field(default_factory=list)
    shared: Any = None
    detected: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


class SplitReader:
    """What a format needs to read the records of a split in order."""

    def columns(self, segments: Segments, records: Ints, wanted: Wanted) -> tuple[Ints, dict[str, pa.Array]]:
        """The columns of :data:`cdcwb.model.EVENTS` of some records that follow those before; without the location,
        the format and the bytes. Returns the records that it has chosen, all those that are ``wanted`` among them."""
        raise NotImplementedError


class RecordFormat(Format):
    """A format of records in a stream of bytes.

    ``options_type`` has at least ``shape``, ``split_size``, ``mode`` and, for files next to the capture, what
    :meth:`capture_files` needs.
    """

    scan_type: ClassVar[Any]

    # --- what a format gives ------------------------------------------------------------------------------------------

    def capture_files(self, paths: Sequence[str]) -> list[str]:
        """The files among these that have records."""
        return list(paths)

    def detect(self, stream: Stream, options: Any) -> Framing:
        """How records follow each other."""
        return Framing(None)

    def segments(self, stream: Stream, framing: Framing, start: int, stop: int) -> Iterator[Segments]:
        """The records and gaps that begin in ``[start, stop)``, window by window. ``start`` is the end of a segment.
        The last segment may end after ``stop``; decisions depend on the bytes alone, not on where a stream is cut."""
        raise NotImplementedError

    def scanned(self, stream: Stream, framing: Framing, start: int, stop: int) -> Iterator[Segments]:
        """The same records and gaps for the first pass, with what it needs of them."""
        return self.segments(stream, framing, start, stop)

    def find_start(self, stream: Stream, framing: Framing, start: int, stop: int) -> int:
        """The start of the first record of a split, inferred from its own bytes; the end of the preceding split is
        decisive."""
        raise NotImplementedError

    def scan(self, found: Any, stream: Stream, segments: Segments, options: Any) -> int:
        """Adds to ``found`` what the first pass needs of these segments; returns the number of records."""
        raise NotImplementedError

    def finish(self, plan: Plan, scans: Sequence[Scan], options: Any) -> list[Any]:
        """The state at the start of each split, from all scans; sets ``shared``, adds rows to ``detected`` and facts to
        ``facts``."""
        raise NotImplementedError

    def reader(self, plan: Plan, stream: Stream, state: Any) -> SplitReader:
        """Reads records from a split on with this state."""
        raise NotImplementedError

    def describe(self, plan: Plan, stream: Stream, segments: Segments, at: int) -> tuple[Field, Any, str, bool]:
        """The field tree, the columns of ``events`` and a note of the record ``at`` of some segments, and whether it
        needs nothing from earlier files. The plan is that of the surroundings."""
        raise NotImplementedError

    # --- plans --------------------------------------------------------------------------------------------------------

    def plan(self, paths: Sequence[str], options: Mapping[str, Any], run: Run) -> Plan:
        """See :meth:`cdcwb.formats.dissector.Format.plan`."""
        plan: Plan = super().plan(self.capture_files(paths), options, run)
        return plan

    def make_plan(self, paths: Sequence[str], options: Any, run: Run) -> Plan:
        """The plan of files in capture order.

        Raises CaptureError for files that cannot be read, and in mode FAILFAST for the first bytes that are not a
        record.
        """
        files = run(partial(FileEntry.of, shape=options.shape), list(paths))
        with Stream(files) as stream:
            framing = self.detect(stream, options)
        cuts = _cut(files, framing, options.split_size)
        scans = scan_all(cuts, partial(self.scan_split, files, framing, options), run)
        malformed = [scan.first_malformed for scan in scans if scan.first_malformed is not None]
        if options.mode == "FAILFAST" and malformed:
            _, index, offset, reason = min(malformed)
            raise MalformedRecordError(reason, path=files[index].path, offset=offset)
        shapes = [_shape_row(files, options.shape)] if "shape" in self.options else []
        plan = Plan(files, framing, detected=[*shapes, *framing.detected])
        plan.facts = {"bytes": sum(entry.size for entry in files), "records": sum(scan.records for scan in scans)}
        self._finish(plan, cuts, scans, options)
        self.check(plan, run)
        return plan

    def _finish(self, plan: Plan, cuts: Sequence[Split], scans: Sequence[Scan], options: Any) -> None:
        """Adds the splits, each from its first record on."""
        states = zip(cuts, scans, self.finish(plan, scans, options), strict=True)
        plan.splits = [Split(scan.begin, cut.stop, cut.closes, state) for cut, scan, state in states]

    def check(self, plan: Plan, run: Run) -> None:
        """Looks at some splits again, if the first pass shows that they need it."""

    def scan_split(self, files: list[FileEntry], framing: Framing, options: Any, cut: Split) -> Scan:
        """Scans a cut of the stream, from its ``begin``, or else from the first offset at which a record seems to
        begin."""
        with Stream(files) as stream:
            first = cut.begin
            if first is None:
                first = self.find_start(stream, framing, cut.start, cut.stop)
            scan = Scan(first, first, found=self.scan_type())
            for segments in self.scanned(stream, framing, first, cut.stop):
                if len(segments.start) == 0:
                    continue
                scan.end = segments.base + int(segments.end[-1])
                if scan.first_malformed is None:
                    gaps = np.flatnonzero(~segments.record).tolist()
                    gap = next((gap for gap in gaps if not segments.is_filler(gap)), None)
                    if gap is not None:
                        at = segments.base + int(segments.start[gap])
                        index, offset, _ = stream.location(at, at + 1)
                        scan.first_malformed = (at, index, offset, segments.reasons[gap].sentence)
                scan.records += self.scan(scan.found, stream, segments, options)
            return scan

    def files(self, plan: Plan) -> list[dict[str, Any]]:
        """See :meth:`cdcwb.formats.dissector.Format.files`."""
        return [file_row(index, entry, entry.shape, entry.compression) for index, entry in enumerate(plan.files)]

    def begins(self, plan: Plan) -> Iterator[int]:
        """See :meth:`cdcwb.formats.dissector.Format.begins`."""
        with Stream(plan.files) as stream:
            yield from (stream.file_at(split.start) for split in plan.splits)

    def portion(self, plan: Plan, splits: range) -> list[Split | None]:
        """The splits, and the next one, whose state is that after them."""
        return super().portion(plan, range(splits.start, splits.stop + 1))

    def problems(self, plan: Plan) -> list[dict[str, Any]]:
        """Problems of truncated files."""
        return [problem_row(Problem.TRUNCATED, file.problem, file=file.path) for file in plan.files if file.problem]

    # --- events -------------------------------------------------------------------------------------------------------

    def read(self, plan: Plan, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of one split in capture order, as batches of :data:`cdcwb.model.EVENTS`."""
        return self.read_range(plan, plan.splits[split], wanted)

    def in_splits(self, _plan: Plan) -> bool:
        """Always."""
        return True

    def read_range(self, plan: Plan, split: Split, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of any split of the stream."""
        with Stream(plan.files) as stream:
            yield from _SplitEvents(self, plan, stream, split, wanted).batches()

    # --- one record ---------------------------------------------------------------------------------------------------

    def inspect(self, path: str, offset: int, options: Mapping[str, Any]) -> Inspection:
        """The record (or gap) at ``offset`` of the decompressed file. In a large file the settings are detected from
        its first bytes and from those that precede the record. If something is missing there, the folder's first file
        and the preceding file are examined; of a record that the file cuts off, the following file. Raises
        CaptureError if the file ends before ``offset``."""
        checked = self.parse_options(options)
        entry = FileEntry.of(path, checked.shape)
        if not 0 <= offset < entry.size:
            raise CaptureError(f"the file has {entry.size} bytes", path=path, offset=offset)
        inspection, is_complete = self._inspect([entry], 0, offset, checked)
        is_cut = inspection.event.get("kind") == Kind.MALFORMED and inspection.offset + inspection.length == entry.size
        first, later = _neighbours(path) if is_cut or not is_complete else ([], [])
        with contextlib.suppress(CaptureError):
            after = [FileEntry.of(file, checked.shape) for file in later if is_cut]
            if after:
                inspection, is_complete = self._inspect([entry, *after], 0, offset, checked)
            if first and not is_complete:
                files = [*(FileEntry.of(file, checked.shape) for file in first), entry, *after]
                inspection, _ = self._inspect(files, len(first), offset, checked)
        return inspection

    def _inspect(self, files: list[FileEntry], index: int, offset: int, options: Any) -> tuple[Inspection, bool]:
        """The inspection of an offset in one of the files, and whether it needs no earlier file."""
        entry = files[index]
        with Stream(files) as stream:
            # the byte of the stream at the offset; the next one for notes between digits
            within = bisect.bisect_right(range(entry.length), offset, key=lambda at: stream.span(index, at, at + 1)[1])
            last = stream.span(index, within - 1, within)[1] if within else 0  # the end of the preceding digits
            if within == entry.length:
                return _note(entry.path, last, entry.size), True
            place, first = stream.starts[index] + within, stream.span(index, within, within + 1)[0]
            plan = self.surroundings(files, options, place)
            segments, at = self._segment_at(stream, plan.framing, place)
            if offset < first and (within == 0 or place == segments.base + int(segments.start[at])):
                return _note(entry.path, last, first), True
            return self._inspection(plan, stream, segments, at)

    def surroundings(self, files: list[FileEntry], options: Any, near: int) -> Plan:
        """A plan for one record: its splits are the stream's first :data:`HEAD` bytes and those that precede
        ``near``, from which settings are detected."""
        with Stream(files) as stream:
            framing, length = self.detect(stream, options), stream.length
        cuts = [Split(0, min(HEAD, length), begin=0)]
        if not framing.one_task and near >= HEAD:
            cuts.append(Split(max(HEAD, near - HEAD), near + 1))
        plan = Plan(files, framing, detected=[*framing.detected])
        self._finish(plan, cuts, [self.scan_split(files, framing, options, cut) for cut in cuts], options)
        self.check(plan, run_here)
        return plan

    def _segment_at(self, stream: Stream, framing: Framing, place: int) -> tuple[Segments, int]:
        start = 0
        if not framing.one_task and place >= 2 * HEAD:
            start = self.find_start(stream, framing, place - HEAD, place)
        for segments in self.segments(stream, framing, start, place + 1):
            index = int(np.searchsorted(segments.base + segments.end, place, side="right"))
            if index < len(segments.start):
                return segments, index
        raise CaptureError("no record was found there", path=stream.files[-1].path, offset=place)

    def _inspection(self, plan: Plan, stream: Stream, segments: Segments, at: int) -> tuple[Inspection, bool]:
        start, end = int(segments.start[at]), int(segments.end[at])
        record = segments.buffer[start:end].tobytes()
        index, offset, length = stream.location(segments.base + start, segments.base + end)
        path = plan.files[index].path
        if segments.record[at]:
            tree, row, note, is_complete = self.describe(plan, stream, segments, at)
            return Inspection(path, offset, length, record, tree, row, note), is_complete
        kind, reason = "filler" if segments.is_filler(at) else "malformed", segments.reasons[at].sentence
        tree = Field(kind, 0, len(record), record, None, reason)
        is_complete = kind == "filler" or offset > 0
        return Inspection(path, offset, length, record, tree, {"kind": kind, "reason": reason}, reason), is_complete


def _shape_row(files: list[FileEntry], shape: str) -> dict[str, Any]:
    shapes = sorted({entry.shape for entry in files})
    packed = sorted({entry.compression for entry in files if entry.compression})
    evidence = f"content of {len(files)} file{'s' if len(files) != 1 else ''}"
    if packed:
        evidence += f"; packed with {' and '.join(packed)}, by their first bytes"
    return detected_row("shape", ", ".join(shapes), evidence, shape != "auto")


def _cut(files: list[FileEntry], framing: Framing, split_size: int | None) -> list[Split]:
    """Runs of the stream. Only uncompressed binary files are split; consecutive small files are one run."""
    if framing.one_task:
        texts = [index for index, entry in enumerate(files) if entry.shape != "binary"]
        return [Split(0, sum(entry.length for entry in files), texts, begin=0)]
    cuts: list[Split] = []
    together = min(_TOGETHER, split_size or _TOGETHER) if len(files) > _MANY_FILES else 0
    first = 0
    for index, entry in enumerate(files):
        size, closes = max(entry.length, 1), [index] if entry.shape != "binary" else []
        if entry.shape == "binary" and entry.compression is None:
            least, most = _SPLIT_SIZES
            size = split_size or min(most, max(least, entry.length // 4))
        if cuts and first + entry.length - cuts[-1].start <= together:
            cuts[-1].stop = first + entry.length
            cuts[-1].closes += closes
        else:
            for start in range(0, max(entry.length, len(closes)), size):
                cuts.append(Split(first + start, first + min(start + size, entry.length), [*closes]))
        first += entry.length
    if cuts:
        cuts[0].begin = 0
    return cuts


def _neighbours(path: str) -> tuple[list[str], list[str]]:
    """The first file of the folder and the preceding file; and the following one: the files of a folder continue one
    stream."""
    names = list_files(folders_of(path)[0])
    own = next((index for index, name in enumerate(names) if same_file(name, path)), 0)
    return sorted({names[0], names[own - 1]}, key=names.index) if own else [], names[own + 1 : own + 2]


def _note(path: str, start: int, stop: int) -> Inspection:
    tree = Field("filler", 0, 0, b"", None, _NOTE)
    return Inspection(path, start, stop - start, b"", tree, {"kind": "filler", "reason": _NOTE}, _NOTE)


class _SplitEvents:
    """Reads the events of one split: its records, and gaps, fragments and notes."""

    def __init__(self, form: RecordFormat, plan: Plan, stream: Stream, split: Split, wanted: Wanted) -> None:
        self.form, self.plan, self.stream, self.split, self.wanted = form, plan, stream, split, wanted
        self.starts: Ints = np.array(stream.starts)  # of the files in the stream, and its end
        self.paths = pa.array([entry.path for entry in plan.files], pa.string())
        self.is_text = np.array([entry.shape != "binary" for entry in plan.files], np.bool_)
        self.text_end: dict[int, int] = defaultdict(int)  # the end of the last event of each text file
        for index in split.closes:
            covered = min(max(split.start - stream.starts[index], 0), plan.files[index].length)
            if covered:  # the rest of a record that begins in an earlier split
                self.text_end[index] = stream.span(index, 0, covered)[1]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The events in capture order."""
        reader = self.form.reader(self.plan, self.stream, self.split.state)
        for segments in self.form.segments(self.stream, self.plan.framing, self.split.start, self.split.stop):
            for first in range(0, len(segments.start), _CHUNK):
                yield from self._chunk(reader, segments, first, min(first + _CHUNK, len(segments.start)))
        rest = [row for index in self.split.closes for row in self._notes(index, self.plan.files[index].size)]
        if rest:
            yield from select(pa.RecordBatch.from_pylist(rest, schema=model.EVENTS), self.wanted)

    def _chunk(self, reader: SplitReader, segments: Segments, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """The events of the segments ``[first, last)``."""
        places = self.stream.places(segments, slice(first, last))
        chosen, columns = reader.columns(segments, first + np.flatnonzero(segments.record[first:last]), self.wanted)
        others = self._others(segments, first, last, places)
        batches = []
        if len(chosen):
            batches.append(self._records(segments, chosen, columns, [values[chosen - first] for values in places]))
        if others:
            batches.append(pa.RecordBatch.from_pylist([row for _, row in others], schema=model.EVENTS))
        if len(batches) > 1:
            before = np.searchsorted(2 * chosen, np.array([key for key, _ in others]))
            order = np.insert(np.arange(len(chosen)), before, len(chosen) + np.arange(len(others)))
            batches = pa.Table.from_batches(batches).take(pa.array(order)).combine_chunks().to_batches()
        for batch in batches:
            yield from select(batch, self.wanted)

    def _records(
        self, segments: Segments, chosen: Ints, columns: dict[str, Any], places: Sequence[Ints]
    ) -> pa.RecordBatch:
        count, (file_index, offset, length) = len(chosen), places
        columns |= {
            "format": self.form.name,
            "file": self.paths.take(pa.array(file_index)),
            "file_index": pa.array(file_index.astype(np.int32)),
            "offset": pa.array(offset),
            "length": pa.array(length),
            "offset_unit": str(OffsetUnit.BYTE),
        }
        if self.wanted.raw:
            columns["raw"] = slices(segments.buffer, segments.start[chosen], segments.end[chosen])
        return filled(model.EVENTS, columns, count)

    # --- what is not a record -----------------------------------------------------------------------------------------

    def _others(self, segments: Segments, first: int, last: int, places: Places) -> list[tuple[int, dict[str, Any]]]:
        """Gaps, fragments, and notes between text records, as pairs (index, event) in order; the index is twice that of
        the segment, plus one for an event after it."""
        index, offset, length = places
        crosses = segments.base + segments.end[first:last] > self.starts[index + 1]
        out: list[tuple[int, dict[str, Any]]] = []
        for at in np.flatnonzero(crosses | ~segments.record[first:last] | self.is_text[index]).tolist():
            file, segment = int(index[at]), first + at
            rows = self._notes(file, int(offset[at]))
            self.text_end[file] = int(offset[at]) + int(length[at])
            if not segments.record[segment]:
                rows.append(self._gap(segments, segment, file, int(offset[at]), int(length[at])))
            out += [(2 * segment, row) for row in rows]
            out += [(2 * segment + 1, row) for row in (self._fragments(segments, segment, file) if crosses[at] else ())]
        return out

    def _row(self, index: int, offset: int, length: int, kind: Kind, reason: str, raw: bytes | None) -> dict[str, Any]:
        return dict.fromkeys(model.EVENTS.names) | {
            "format": self.form.name, "file": self.plan.files[index].path, "file_index": index, "offset": offset,
            "length": length, "offset_unit": str(OffsetUnit.BYTE), "kind": str(kind),
            "headers": None if kind is Kind.MALFORMED else [("reason", reason)],
            "raw": raw if self.wanted.images else None,
        }  # fmt: skip

    def _notes(self, index: int, upto: int) -> list[dict[str, Any]]:
        """Text of a file without digits of a record, from the end of the last event to ``upto``."""
        offset = self.text_end[index]
        if not self.is_text[index] or upto <= offset:
            return []
        self.text_end[index] = upto
        return [self._row(index, offset, upto - offset, Kind.FILLER, _NOTE, None)]

    def _gap(self, segments: Segments, segment: int, index: int, offset: int, length: int) -> dict[str, Any]:
        code, reason = segments.reasons[segment]
        kind = Kind.FILLER if segments.is_filler(segment) else Kind.MALFORMED
        raw = segments.buffer[segments.start[segment] : segments.end[segment]].tobytes()
        row = self._row(index, offset, length, kind, reason, raw)
        if kind is Kind.MALFORMED or code in (Problem.STALE, Problem.NOTE):
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
            rows += self._notes(later, offset)
            self.text_end[later] = last
            raw = self.stream.source(later).read(0, upto).tobytes()
            rows.append(self._row(later, offset, last - offset, Kind.FRAGMENT, reason, raw))
        return rows
