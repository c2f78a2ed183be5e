"""Makes a plan from files: framing, splits, and the results of the first pass over all splits
(docs/formats/gbase8s.md).

The pass reads headers only, runs on every split in parallel, and returns summaries whose size does not grow with the
records. ``run`` maps a function over tasks: in Spark for ``load``, in this process for small captures and for the data
source on its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np

from cdcwb.errors import MalformedRecordError
from cdcwb.formats.arrays.texts import bytes_of
from cdcwb.formats.base import Run, run_here
from cdcwb.formats.files import open_source
from cdcwb.formats.gbase8s.decode import ROW_HEADER, Headers, counts_of, read_headers
from cdcwb.formats.gbase8s.framing import (
    EMPTY,
    KEY,
    REACH,
    SEQUENCED,
    STRONG,
    WINDOW,
    Bytes,
    Ints,
    ReadBuffer,
    Reading,
    Segments,
    first_chain,
    header_at,
    iter_segments,
    walk_reads,
)
from cdcwb.formats.gbase8s.layout import COMMON_HEADER, SIZE_WORD, ColumnKind, Settings
from cdcwb.formats.gbase8s.plan import NO_COUNTS, FileEntry, Options, Plan, SplitEntry, Stream, Version, capture_files
from cdcwb.formats.gbase8s.schema import SchemaTextError, parse_columns, schema_text
from cdcwb.formats.gbase8s.transactions import COMMIT, Open
from cdcwb.formats.requests import detected_row

__all__ = ["HEAD", "Scan", "detect", "find_start", "is_filler", "make_plan", "probe"]

Conclusion = tuple[str, int | None, list[dict[str, Any]]]
"""Mode of a plan, buffer size, rows of ``detected``."""

HEAD: Final = 4 << 20
"""Wire bytes that are examined if the complete capture is too large."""

_SPLIT_SIZES: Final = (8 << 20, 32 << 20)
_MANY_FILES: Final = 64
_TOGETHER: Final = 4 << 20  # bytes of small files that one task reads
_DISCARD, _SCHEMA = 62, 200


# --- one split --------------------------------------------------------------------------------------------------------

_EVIDENCE_ROWS: Final = 20_000
"""Row records of a split that are examined for byte order and prefix width."""


@dataclass(slots=True)
class Votes:
    """The number of values that only one of two interpretations fits, by interpretation, with an example."""

    first: int = 0
    second: int = 0
    example: str = ""


@dataclass(slots=True)
class Scan:
    """The result of the first pass over a split. ``start`` and ``end``: the start of its first and the end of its last
    segment. ``order``: votes of row records whose size words fit into the payload as little-endian, or as big-endian.
    ``prefixes``: by label, number of size words and variable column, votes of values whose size word is their length
    plus one byte, or plus two. ``schemas_end``: the end of the last record with a schema. ``first_malformed``: wire
    offset, file index, offset and reason. ``reading``: what its reads did with the read buffer.
    """

    start: int
    end: int
    records: int = 0
    schemas: list[Version] = field(default_factory=list)
    schemas_end: int = -1
    order: Votes = field(default_factory=Votes)
    prefixes: dict[tuple[int, int, int], Votes] = field(default_factory=dict)
    open: Open = field(default_factory=Open)
    highest_commit: int = -1
    first_malformed: tuple[int, int, int, str] | None = None
    reading: Reading | None = None

    def follows(self, buffer: ReadBuffer | None) -> bool:
        """Whether the result is the same after reads that left ``buffer``."""
        return buffer is None or (self.reading is not None and self.reading.follows(buffer))


def find_start(stream: Stream, start: int, stop: int) -> int:
    """The start of the first record of a split, inferred from its own bytes; the end of the preceding split is
    decisive."""
    if stream.mode == "reads" and header_at(stream.read(start, start + COMMON_HEADER), 0) == STRONG:
        return start  # stale bytes may follow the record, and begin another chain
    position = start
    while position < min(stop, stream.length):
        buffer = stream.read(position, min(position + WINDOW, stop + REACH))
        at_end = position + len(buffer) >= stream.length
        at = int(first_chain(buffer, at_end))
        if at >= 0:
            return min(position + at, stop)
        if at_end:
            break
        position += len(buffer) - COMMON_HEADER
    return stop


_LOOK_BACK: Final = 64
"""Reads before a split of which the longest may be in the read buffer."""


def find_buffer(stream: Stream, start: int) -> ReadBuffer:
    """The content of the read buffer at the start of a split, inferred from the reads before."""
    reads: list[tuple[int, int]] = []
    edge, longest = start, 0
    for _ in range(_LOOK_BACK):
        if edge == 0 or longest == stream.buffer_size:
            break
        first = stream.edges.before(edge)
        if edge - first > longest:
            reads.append((first, edge))
            longest = edge - first
        edge = first
    return ReadBuffer(tuple(reversed(reads)), None if reads else frozenset())


Task = tuple[int, int, bool, ReadBuffer | None]
"""Start, stop, whether a record begins at the start, and the content of the read buffer; None: unknown, or without read
buffers."""


def scan_split(files: list[FileEntry], mode: str, buffer_size: int | None, charset: str, task: Task) -> Scan:
    """Scans ``[start, stop)`` of the stream; unless a record begins at the start, from the first offset at which one
    seems to begin."""
    start, stop, exact, buffer = task
    with Stream(files, mode, buffer_size) as stream:
        if mode == "reads" and buffer is None:
            buffer = find_buffer(stream, start)
        first = start if exact else find_start(stream, start, stop)
        scan = Scan(first, first)
        reads = stream.reads(buffer)
        looked_at = 0
        for segments in stream.segments(first, stop, reads):
            if len(segments.start) == 0:
                continue
            scan.end = segments.base + int(segments.end[-1])
            _note_malformed(scan, stream, segments)
            headers = read_headers(segments.buffer, segments.start[segments.record], segments.end[segments.record])
            scan.records += len(headers.start)
            of = headers.transactional
            scan.open.add(
                headers.number[of], headers.transaction[of], headers.sequence[of],
                segments.base + headers.start[of], segments.base + headers.end[of],
            )  # fmt: skip
            commits = headers.sequence[headers.number == COMMIT]
            if len(commits):
                scan.highest_commit = max(scan.highest_commit, int(commits.max()))
            for record in np.flatnonzero(headers.number == _SCHEMA).tolist():
                text, counts = schema_text(headers.payload(record), charset), counts_of(headers, record)
                location = _location(stream, segments, headers, record)
                scan.schemas.append(Version(int(headers.label[record]), 0, text, counts, "record", *location))
                scan.schemas_end = segments.base + int(headers.end[record])
            if looked_at < _EVIDENCE_ROWS:
                looked_at += _note_evidence(scan, stream, segments, headers)
        scan.reading = reads.done() if reads is not None else None
        return scan


def _location(stream: Stream, segments: Segments, headers: Headers, record: int) -> tuple[int, int, int]:
    return stream.location(segments.base + int(headers.start[record]), segments.base + int(headers.end[record]))


def _note_malformed(scan: Scan, stream: Stream, segments: Segments) -> None:
    gaps = () if scan.first_malformed is not None else np.flatnonzero(~segments.record).tolist()
    gap = next((gap for gap in gaps if not is_filler(segments, gap)), None)
    if gap is not None:
        at = segments.base + int(segments.start[gap])
        index, offset, _ = stream.location(at, at + 1)
        scan.first_malformed = (at, index, offset, segments.reasons[gap].sentence)


def is_filler(segments: Segments, gap: int) -> bool:
    """Whether a gap has no data: stale, or all zero bytes."""
    return segments.reasons[gap].is_unused or not segments.buffer[segments.start[gap] : segments.end[gap]].any()


def _note_evidence(scan: Scan, stream: Stream, segments: Segments, headers: Headers) -> int:
    words = headers.header_size - ROW_HEADER
    rows = np.flatnonzero(headers.row & (words > 0) & (words % SIZE_WORD == 0))[:_EVIDENCE_ROWS]
    for count in np.unique(words[rows] // SIZE_WORD).tolist():
        some = rows[words[rows] == SIZE_WORD * count]
        row_words = segments.buffer[
            headers.start[some][:, None] + np.arange(ROW_HEADER, ROW_HEADER + SIZE_WORD * count)
        ]
        little, big = row_words.view("<u4").astype(np.int64), row_words.view(">u4").astype(np.int64)
        payload = headers.payload_size[some]
        fits_little, fits_big = little.sum(axis=1) <= payload, big.sum(axis=1) <= payload
        scan.order.first += int((fits_little & ~fits_big).sum())
        scan.order.second += int((fits_big & ~fits_little).sum())
        for mask, values in ((fits_little & ~fits_big, little), (fits_big & ~fits_little, big)):
            chosen = some[mask]
            if len(chosen) and not scan.order.example:
                index, offset, _ = _location(stream, segments, headers, int(chosen[0]))
                scan.order.example = (
                    f"{stream.files[index].path} at offset {offset}: payload of {payload[mask][0]} bytes, size words "
                    f"little-endian {' '.join(map(str, little[mask][0].tolist()))}, "
                    f"big-endian {' '.join(map(str, big[mask][0].tolist()))}"
                )
            _note_prefixes(scan, segments.buffer, headers, chosen, values[mask])
    return len(rows)


def _note_prefixes(scan: Scan, buffer: Bytes, headers: Headers, rows: Ints, words: Ints) -> None:
    ends = np.cumsum(words, axis=1) + (headers.end[rows] - words.sum(axis=1))[:, None]
    for column in range(words.shape[1]):
        size = words[:, column]
        at = np.minimum(ends[:, column] - size, len(buffer) - 2)
        first = buffer[at].astype(np.int64)
        narrow = (size >= 1) & (first + 1 == size)
        wide = (size >= 2) & (((first << 8) | buffer[at + 1]) + 2 == size)
        for label in np.unique(headers.label[rows]).tolist():
            clear = (narrow ^ wide) & (headers.label[rows] == label)
            votes = scan.prefixes.setdefault((label, words.shape[1], column), Votes())
            votes.first += int((narrow & clear).sum())
            votes.second += int((wide & clear).sum())
            if clear.any() and not votes.example:
                at_first = int(np.argmax(clear))
                value = buffer[at[at_first] : at[at_first] + 4].tobytes().hex()
                votes.example = f"a value of {size[at_first]} bytes that begins with {value}"


# --- records or read buffers ------------------------------------------------------------------------------------------

_SAMPLE: Final = 1 << 18
_MOST_SIZES: Final = 16  # buffer sizes that are tried
_LEAST_BUFFER: Final = 64  # bytes
_MOST_GAPS: Final = 1000  # runs of unused bytes that are examined for the size


def detect_reads(stream: Stream, reads: str, size: int | None) -> Conclusion:
    """Detects from the beginning of a capture whether it has consecutive records or complete read buffers (§1.2).
    ``reads`` and ``size`` are the options ``reads`` and ``buffer_size``."""
    option = "given as an option"
    if size is not None:
        return "reads", size, [detected_row("buffer_size", str(size), option, True)]
    if reads != "auto":
        return "reads" if reads == "line" else "stream", None, [detected_row("reads", reads, option, True)]
    framed = list(iter_segments(stream.read, 0, _SAMPLE, stream.length, boundaries=stream.boundaries))
    sample = stream.read(0, max((segments.base + int(segments.end[-1]) for segments in framed), default=0))
    known = len(sample) - COMMON_HEADER
    files = [first for first, entry in zip(stream.starts, stream.files, strict=False) if entry.length and first < known]
    starts = _edges(stream, known)
    shape = stream.files[0].shape
    unit = {"binary": "file", "hex": "line"}.get(shape, "dump")
    hits = sum(header_at(sample, start) == STRONG for start in starts)
    mode, setting, value, read_size = "reads", "reads", "line", None
    if len(starts) > len(files) and hits >= 0.8 * len(starts):
        evidence = f"{hits} of {len(starts)} {unit}s begin with a record"
    elif all(segments.record.all() for segments in framed) and not repeats(framed):
        mode, value, evidence = "stream", "none", "records follow each other without unused bytes"
    elif len(starts) > 1 and (stale := _stale(sample, np.array(starts))):
        evidence = (
            f"{stale} bytes at the ends of {len(starts)} {unit}s equal the bytes of earlier ones at the same offset"
        )
    elif (read_size := buffer_size(sample, framed, [entry.length for entry in stream.files])) is not None:
        setting, value = "buffer_size", str(read_size)
        evidence = f"the bytes that follow records equal those {read_size} bytes earlier"
    elif stale := _stale(sample, None):
        mode, value = "inferred", "inferred"
        evidence = (
            f"{stale} bytes that follow records equal those of an earlier read at the same offset of the buffer; the "
            "size of the buffer is not known, so one task reads the capture"
        )
    else:
        mode, value, evidence = "stream", "none", "no repeating read buffer was found"
    return mode, read_size, [detected_row(setting, value, evidence, False)]


def _edges(stream: Stream, upto: int) -> list[int]:
    """The offsets of reads before ``upto``."""
    starts, at = [], 0
    while at < upto:
        starts.append(at)
        at = stream.edges.after(at)
    return starts


def _stale(sample: Bytes, starts: Ints | None) -> int:
    """The number of stale bytes if reads begin at ``starts``; 0 if more than a tenth as many are unaccounted for."""
    bad, stale = explained(walk_reads(sample, starts))
    return stale if 10 * bad <= stale else 0


def explained(segments: Segments) -> tuple[int, int]:
    """The numbers of bytes that are neither record nor stale, and of stale bytes."""
    sizes = {True: 0, False: 0}
    for gap, reason in segments.reasons.items():
        sizes[reason.is_unused] += int(segments.end[gap] - segments.start[gap])
    return sizes[False], sizes[True]


def repeats(framed: Iterable[Segments]) -> list[int]:
    """For every record with a sequence number that repeats an earlier one byte for byte: the distance."""
    latest: dict[bytes, int] = {}
    out: list[int] = []
    for segments in framed:
        complete = segments.record & (segments.end - segments.start >= KEY)
        start, end = segments.start[complete], segments.end[complete]
        keys = bytes_of(segments.buffer, start, KEY)
        # a transaction may roll back to the same savepoint twice, so a DISCARD may repeat
        sequenced = np.isin(keys[:, 15], SEQUENCED) & (keys[:, 15] != _DISCARD) & keys[:, 16:24].any(axis=1)
        for first, last in zip(start[sequenced].tolist(), end[sequenced].tolist(), strict=True):
            record = segments.buffer[first:last].tobytes()
            if record in latest:
                out.append(segments.base + first - latest[record])
            latest[record] = segments.base + first
    return out


def buffer_size(sample: Bytes, framed: Sequence[Segments], lengths: Iterable[int]) -> int | None:
    """The size of the read buffers of a capture; None if it does not consist of read buffers. ``sample`` is the
    beginning of the stream, ``framed`` its segments as consecutive records, ``lengths`` those of all files. The unused
    tail of a read equals the preceding read at the same offset of the buffer, so the distance between the equal bytes
    is the size. It is accepted only if nearly all bytes are accounted for; if every byte is in a record without it,
    files must also have complete buffers.
    """
    data = sample.tobytes()
    votes = Counter(repeats(framed))
    clean = all(segments.record.all() for segments in framed)
    for segments in framed:
        for gap in np.flatnonzero(~segments.record)[:_MOST_GAPS].tolist():
            first = segments.base + int(segments.start[gap])
            unused = data[first : min(segments.base + int(segments.end[gap]), first + KEY)]
            is_filler = any(unused[period:] == unused[:-period] for period in range(1, KEY // 2))
            before = -1 if is_filler else data.rfind(unused, max(0, first - len(data) // 2), first)
            if before >= 0:
                votes[first - before] += 1
    sizes = [size for size, _ in votes.most_common() if not clean or not any(length % size for length in lengths)]
    widths: dict[int, int] = {}  # by the number of bytes unaccounted for
    for width in sizes[:_MOST_SIZES]:
        usable = len(data) // width * width
        if width >= _LEAST_BUFFER and usable >= 2 * width:
            bad, stale = explained(walk_reads(sample[:usable], np.arange(width, usable, width)))
            if stale > 0 and 10 * bad <= stale:
                widths.setdefault(bad, width)
            if stale > 0 and bad == 0:
                break
    return widths[min(widths)] if widths else None


# --- the plan ---------------------------------------------------------------------------------------------------------


def probe(task: tuple[str, str]) -> FileEntry:
    """The entry of a file, from (path, shape or ``auto``)."""
    path, shape = task
    source = open_source(path, shape)
    try:
        return FileEntry(path, source.shape, source.compression, source.size, source.length, source.problem)
    finally:
        source.close()


def make_plan(paths: Sequence[str], options: Options, run: Run = run_here) -> Plan:
    """The plan of a capture. ``paths`` are its files in capture order; ``run`` maps a function over tasks.

    Raises CaptureError for files that cannot be read, and in mode FAILFAST for the first bytes that are not a record.
    """
    paths = capture_files(paths)
    names, named = options.names_of(paths)  # first of all, since a file of names may be invalid
    files = run(probe, [(path, options.shape) for path in paths])
    with Stream(files) as stream:
        mode, size, reading = detect_reads(stream, options.reads, options.buffer_size)
    cuts = _cut(files, mode, options.split_size, size)
    scans, buffers = _scan_all(partial(scan_split, files, mode, size, options.charset), cuts, run, mode == "reads")
    versions, in_force = _versions(scans, options)
    settings, rows = _settings(scans, versions, options)
    detected = [_shape_row(files, options), *reading, *rows, *named]
    splits: list[SplitEntry] = []
    still_open: dict[int, str] = {}
    highest = -1
    for (_, stop, closes), scan, now, buffer in zip(cuts, scans, in_force, buffers, strict=True):
        reach = scan.end + COMMON_HEADER if scan.reading is None else scan.reading.reach
        if scan.first_malformed is not None:  # may be resolved by the rest of the stream; complete records are final
            reach = -1
        inner = scan.open.inner(scan.start, stop, highest) if mode == "stream" else None
        if inner is not None and inner[1] < scan.schemas_end:
            inner = None
        splits.append(SplitEntry(scan.start, stop, still_open, now, closes, reach, buffer, inner))
        still_open = scan.open.after(still_open)
        highest = max(highest, scan.open.high)
    malformed = [scan.first_malformed for scan in scans if scan.first_malformed is not None]
    if options.mode == "FAILFAST" and malformed:
        _, index, offset, reason = min(malformed)
        raise MalformedRecordError(reason, path=files[index].path, offset=offset)
    return Plan(files, mode, size, settings, versions, splits, names, detected, _facts(files, scans, still_open))


def detect(files: list[FileEntry], options: Options, near: int) -> Plan:
    """A plan without splits for inspecting the surroundings of the wire byte ``near``: settings and schemas from the
    stream's first :data:`HEAD` bytes and from those that precede ``near``."""
    with Stream(files) as stream:
        mode, size, reading = detect_reads(stream, options.reads, options.buffer_size)
        tasks: list[Task] = [(0, min(HEAD, stream.length), True, None)]
    if mode == "stream" and near >= HEAD:
        tasks.append((max(HEAD, near - HEAD), near + 1, False, None))
    scans = [scan_split(files, mode, size, options.charset, task) for task in tasks]
    versions, _ = _versions(scans, options)
    settings, rows = _settings(scans, versions, options)
    names, named = options.names_of([entry.path for entry in files])
    return Plan(files, mode, size, settings, versions, [], names, [*reading, *rows, *named])


def _shape_row(files: list[FileEntry], options: Options) -> dict[str, Any]:
    shapes = sorted({entry.shape for entry in files})
    packed = sorted({entry.compression for entry in files if entry.compression})
    evidence = f"content of {len(files)} file{'s' if len(files) != 1 else ''}"
    if packed:
        evidence += f"; packed with {' and '.join(packed)}, by their first bytes"
    return detected_row("shape", ", ".join(shapes), evidence, options.shape != "auto")


def _cut(
    files: list[FileEntry], mode: str, split_size: int | None, buffer_size: int | None = None
) -> list[tuple[int, int, list[int]]]:
    """Runs of the stream, with the text files whose notes belong to each. Only uncompressed binary files are split,
    between reads of a fixed size; consecutive small files are one run."""
    if mode == "inferred":
        texts = [index for index, entry in enumerate(files) if entry.shape != "binary"]
        return [(0, sum(entry.length for entry in files), texts)]
    cuts: list[tuple[int, int, list[int]]] = []
    together = min(_TOGETHER, split_size or _TOGETHER) if len(files) > _MANY_FILES else 0
    first = 0
    for index, entry in enumerate(files):
        size, closes = max(entry.length, 1), [index] if entry.shape != "binary" else []
        if entry.shape == "binary" and entry.compression is None and (mode == "stream" or buffer_size is not None):
            least, most = _SPLIT_SIZES
            size = split_size or min(most, max(least, entry.length // 4))
            size = -(-size // (buffer_size or 1)) * (buffer_size or 1)
        if cuts and first + entry.length - cuts[-1][0] <= together:
            cuts[-1] = (cuts[-1][0], first + entry.length, cuts[-1][2] + closes)
        else:
            for start in range(0, max(entry.length, len(closes)), size):
                cuts.append((first + start, first + min(start + size, entry.length), closes))
        first += entry.length
    return cuts


def _scan_all(
    scan: Callable[[Any], Scan], cuts: list[tuple[int, int, list[int]]], run: Run, buffered: bool
) -> tuple[list[Scan], list[ReadBuffer | None]]:
    """Scans all splits in parallel, and again those that did not begin at the end of the preceding split, or, if there
    are read buffers, with the content that it left. Also returns that content."""
    tasks: list[Task] = [(start, stop, at == 0, None) for at, (start, stop, _) in enumerate(cuts)]
    scans: list[Scan] = run(scan, tasks)
    while True:
        again: list[int] = []
        buffers: list[ReadBuffer | None] = []
        expected, buffer = 0, EMPTY if buffered else None
        for at, (start, stop, _) in enumerate(cuts):
            begin = max(start, expected)
            buffers.append(buffer)
            if begin >= stop and not buffered:
                scans[at] = Scan(begin, begin)
            elif scans[at].start != begin or not scans[at].follows(buffer):
                again.append(at)
                tasks[at] = (begin, stop, True, buffer)
            if buffer is not None and (reading := scans[at].reading) is not None:
                buffer = reading.after(buffer)
            expected = max(begin, scans[at].end)
        if not again:
            return scans, buffers
        for at, rescan in zip(again, run(scan, [tasks[at] for at in again]), strict=True):
            scans[at] = rescan


def _facts(files: list[FileEntry], scans: list[Scan], still_open: dict[int, str]) -> dict[str, Any]:
    """Bytes, records and the restart position of a client (docs/formats/gbase8s.md §6.7)."""
    begins = sorted(name.partition("@")[2] for name in still_open.values())
    highest = max((scan.highest_commit for scan in scans), default=-1)
    commit = f"{highest:016X}" if highest >= 0 else None
    if any(begin.startswith("~") for begin in begins):
        restart, reason = None, "the begin of an open transaction precedes the capture"
    elif begins:
        restart, reason = begins[0], "lowest begin of a transaction without its end"
    elif commit:
        restart, reason = commit, "no transaction is open: at or after the highest commit"
    else:
        restart, reason = None, "no transaction was seen"
    return {
        "bytes": sum(entry.size for entry in files),
        "records": sum(scan.records for scan in scans),
        "open_transactions": len(still_open),
        "highest_commit": commit,
        "restart_position": restart,
        "restart_reason": reason,
    }


def _versions(scans: list[Scan], options: Options) -> tuple[list[Version], list[dict[int, int]]]:
    """All table versions, and those in force at the start of each split."""
    versions = [
        Version(label, 1, text.rstrip("\0"), NO_COUNTS, "side file") for label, text in sorted(options.schemas.items())
    ]
    now = {version.label: 1 for version in versions}
    numbers = dict(now)
    same: dict[tuple[int, str], list[Version]] = {}
    for version in versions:
        same[version.label, version.text] = [version]
    in_force: list[dict[int, int]] = []
    for scan in scans:
        in_force.append(dict(now))
        for schema in scan.schemas:
            known = same.setdefault((schema.label, schema.text), [])
            match = next((version for version in known if version.counts in (schema.counts, NO_COUNTS)), None)
            if match is None:
                numbers[schema.label] = schema.number = numbers.get(schema.label, 0) + 1
                known.append(schema)
                versions.append(schema)
            elif match.counts == NO_COUNTS:  # that of the side file, confirmed by the capture
                schema.number = match.number
                versions[versions.index(match)] = known[known.index(match)] = schema
            else:
                schema.number = match.number
            now[schema.label] = schema.number
    return versions, in_force


def _settings(scans: list[Scan], versions: list[Version], options: Options) -> tuple[Settings, list[dict[str, Any]]]:
    option = "given as an option"
    little, big, example = _counted(scan.order for scan in scans)
    order, order_shown = options.byte_order or ("big" if big > little else "little"), option
    if options.byte_order is None:
        order_shown = "no row record has size words that show it; little-endian is assumed"
        if little + big:
            order_shown = (
                f"size words fit into the payload as little-endian only in {little} rows, as big-endian only in {big}; "
                f"{example}"
            )
    varchars = _varchars(versions)
    votes = (counted for scan in scans for key, counted in sorted(scan.prefixes.items()) if key in varchars)
    narrow, wide, example = _counted(votes)
    width, width_shown = options.prefix_width or (1 if narrow > wide else 2), option
    if options.prefix_width is None:
        width_shown = "no VARCHAR value shows it; two bytes are assumed"
        if narrow + wide:
            width_shown = f"size word = length + 1 in {narrow} VARCHAR values, length + 2 in {wide}; {example}"
    chosen = "charset" in options.given
    return Settings(byte_order=order, prefix_width=width, charset=options.charset), [
        detected_row("byte_order", order, order_shown, options.byte_order is not None),
        detected_row("prefix_width", str(width), width_shown, options.prefix_width is not None),
        detected_row("charset", options.charset, option if chosen else "the stream does not give it; assumed", chosen),
    ]


def _counted(votes: Iterable[Votes]) -> tuple[int, int, str]:
    every = list(votes)
    example = next((v.example for v in every if v.example), "")
    return sum(v.first for v in every), sum(v.second for v in every), example


def _varchars(versions: list[Version]) -> set[tuple[int, int, int]]:
    """Label, number of variable columns and index among them of the columns that are VARCHAR in some version."""
    labels: set[tuple[int, int, int]] = set()
    for version in versions:
        try:
            variable = [column for column in parse_columns(version.text) if not column.fixed]
        except SchemaTextError:  # not counted; its version reports the problem
            continue
        labels.update(
            (version.label, len(variable), at) for at, c in enumerate(variable) if c.kind == ColumnKind.VARCHAR
        )
    return labels
