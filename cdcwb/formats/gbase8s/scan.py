"""The first pass: what one split of a capture says about boundaries, table schemas, settings and open transactions.

It reads headers only, runs on every split in parallel, and gives a summary whose size does not grow with the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from cdcwb.formats.gbase8s.framing import WINDOW, Ints, Segments, cut_gaps, first_chain, iter_segments
from cdcwb.formats.gbase8s.plan import Stream
from cdcwb.formats.gbase8s.reads import iter_reads, walk_reads
from cdcwb.formats.gbase8s.rows import Headers, read_headers
from cdcwb.formats.gbase8s.transactions import TransactionSummary, merge, summarize

__all__ = ["OrderEvidence", "PrefixEvidence", "Scan", "SchemaRecord", "iter_split", "scan_split"]

_EVIDENCE_ROWS: Final = 20_000
"""Row records of a split that are looked at for byte order and prefix width."""


@dataclass(slots=True)
class SchemaRecord:
    """One TABSCHEM as it stands in the capture; ``place`` is in the stream, ``offset`` and ``length`` in the file."""

    place: int
    file_index: int
    offset: int
    length: int
    label: int
    text: bytes
    fixed_bytes: int
    fixed_columns: int
    variable_columns: int


@dataclass(slots=True)
class OrderEvidence:
    """Row records whose size words fit into the payload in one byte order only."""

    little: int = 0
    big: int = 0
    example: str = ""


@dataclass(slots=True)
class PrefixEvidence:
    """Values of one variable column whose size word is its length plus one byte, or plus two, and not both."""

    one: int = 0
    two: int = 0
    example: str = ""


@dataclass(slots=True)
class Scan:
    """What one split says. ``start`` and ``end`` are where its first segment begins and its last one ends."""

    start: int
    end: int
    records: int = 0
    schemas: list[SchemaRecord] = field(default_factory=list)
    order: OrderEvidence = field(default_factory=OrderEvidence)
    prefixes: dict[tuple[int, int, int], PrefixEvidence] = field(default_factory=dict)  # (label, words, column)
    transactions: TransactionSummary = field(default_factory=TransactionSummary)
    highest_commit: int = -1
    first_malformed: tuple[int, int, int, str] | None = None  # place, file index, offset, reason


def iter_split(stream: Stream, mode: str, buffer_size: int | None, start: int, stop: int) -> Iterator[Segments]:
    """The segments that begin in ``[start, stop)`` of the stream; in the modes that know reads, all of them."""
    if mode == "stream":
        yield from iter_segments(stream.read, start, stop, stream.length, boundaries=stream.boundaries)
        return
    if mode == "inferred":
        yield cut_gaps(walk_reads(stream.read(0, stream.length), None), stream.boundaries)
        return
    for segments in iter_reads(stream.read, stream.read_starts(buffer_size), stream.length):
        yield cut_gaps(segments, stream.boundaries)


def find_start(stream: Stream, start: int, stop: int) -> int:
    """Where the first record of a split begins, as far as its own bytes tell: the chain of the split before decides."""
    position = start
    while position < min(stop, stream.length):
        buffer = stream.read(position, position + WINDOW)
        at_end = position + len(buffer) >= stream.length
        found = first_chain(buffer, at_end)
        if found >= 0:
            return min(position + found, stop)
        if at_end:
            break
        position += len(buffer) - 16
    return stop


def scan_split(stream: Stream, mode: str, buffer_size: int | None, start: int, stop: int, exact: bool) -> Scan:
    """Scans ``[start, stop)`` of the stream; unless ``exact``, from the first place where a record seems to begin."""
    first = start if exact else find_start(stream, start, stop)
    scan = Scan(first, first)
    looked_at = 0
    for segments in iter_split(stream, mode, buffer_size, first, stop):
        if len(segments.start) == 0:
            continue
        scan.end = segments.base + int(segments.end[-1])
        _note_malformed(scan, stream, segments)
        headers = read_headers(segments.buffer, segments.start[segments.record], segments.end[segments.record])
        scan.records += len(headers.start)
        _note_transactions(scan, headers)
        _note_schemas(scan, stream, segments, headers)
        if looked_at < _EVIDENCE_ROWS:
            looked_at += _note_evidence(scan, stream, segments, headers)
    return scan


def _note_malformed(scan: Scan, stream: Stream, segments: Segments) -> None:
    if scan.first_malformed is not None:
        return
    for gap in np.flatnonzero(~segments.record):
        if not is_filler(segments, int(gap)):
            place = segments.base + int(segments.start[gap])
            index, offset, _ = place_of(stream, place, place + 1)
            scan.first_malformed = (place, index, offset, segments.reasons[int(gap)].sentence)
            return


def is_filler(segments: Segments, gap: int) -> bool:
    """Is this gap known to carry nothing: stale, or all zero bytes?"""
    if segments.reasons[gap].code is None:
        return True
    return not segments.buffer[int(segments.start[gap]) : int(segments.end[gap])].any()


def place_of(stream: Stream, start: int, end: int) -> tuple[int, int, int]:
    """File index, offset and length in the decompressed file of a run of the stream, as far as its first file goes."""
    index = stream.file_at(start)
    first = stream.starts[index]
    end = min(end, stream.starts[index + 1])
    offset, stop = stream.source(index).places(np.array([start - first]), np.array([end - first]))
    return index, int(offset[0]), int(stop[0] - offset[0])


def _note_transactions(scan: Scan, headers: Headers) -> None:
    of = headers.transactional
    summary = summarize(headers.number[of], headers.transaction[of], headers.sequence[of])
    scan.transactions = merge(scan.transactions, summary)
    commits = headers.sequence[headers.number == 2]
    if len(commits):
        scan.highest_commit = max(scan.highest_commit, int(commits.max()))


def _note_schemas(scan: Scan, stream: Stream, segments: Segments, headers: Headers) -> None:
    for record in np.flatnonzero(headers.number == 200):
        start, end = int(headers.start[record]), int(headers.end[record])
        there = segments.buffer[start:end].tobytes()
        index, offset, length = place_of(stream, segments.base + start, segments.base + end)
        counts = [int.from_bytes(there[at : at + 4], "big") for at in (24, 28, 32)]
        text = there[int(headers.header_size[record]) :]
        scan.schemas.append(
            SchemaRecord(segments.base + start, index, offset, length, int(headers.label[record]), text, *counts)
        )


def size_words(segments: Segments, start: Ints, count: int) -> tuple[Ints, Ints]:
    """The size words of row records with ``count`` of them, a row each: read little-endian, and big-endian
    (docs/formats/gbase8s.md §3)."""
    there = segments.buffer[start[:, None] + np.arange(36, 36 + 4 * count)]
    return there.view("<u4").astype(np.int64), there.view(">u4").astype(np.int64)


def _note_evidence(scan: Scan, stream: Stream, segments: Segments, headers: Headers) -> int:
    words = headers.header_size - 36
    usable = headers.row & (words > 0) & (words % 4 == 0)
    rows = np.flatnonzero(usable)[:_EVIDENCE_ROWS]
    for count in np.unique(words[rows] // 4):
        some = rows[words[rows] == 4 * count]
        little, big = size_words(segments, headers.start[some], int(count))
        payload = headers.payload_size[some]
        fits_little, fits_big = little.sum(axis=1) <= payload, big.sum(axis=1) <= payload
        for mask, values, order in ((fits_little & ~fits_big, little, "little"), (fits_big & ~fits_little, big, "big")):
            if not mask.any():
                continue
            setattr(scan.order, order, getattr(scan.order, order) + int(mask.sum()))
            chosen = some[mask]
            if not scan.order.example:
                scan.order.example = _order_example(
                    stream, segments, headers, int(chosen[0]), little[mask][0], big[mask][0]
                )
            _note_prefixes(scan, segments, headers, chosen, values[mask])
    return len(rows)


def _order_example(stream: Stream, segments: Segments, headers: Headers, record: int, little: Ints, big: Ints) -> str:
    start, end = segments.base + int(headers.start[record]), segments.base + int(headers.end[record])
    index, offset, _ = place_of(stream, start, end)
    return (
        f"{stream.files[index].path} at offset {offset}: payload of {int(headers.payload_size[record])} bytes, "
        f"size words little-endian {' '.join(map(str, little.tolist()))}, big-endian {' '.join(map(str, big.tolist()))}"
    )


def _note_prefixes(scan: Scan, segments: Segments, headers: Headers, rows: Ints, words: Ints) -> None:
    ends = np.cumsum(words, axis=1) + (headers.end[rows] - words.sum(axis=1))[:, None]
    buffer = segments.buffer
    for column in range(words.shape[1]):
        size = words[:, column]
        at = np.minimum(ends[:, column] - size, len(buffer) - 2)
        first = buffer[at].astype(np.int64)
        one = (size >= 1) & (first + 1 == size)
        two = (size >= 2) & (((first << 8) | buffer[at + 1]) + 2 == size)
        for label in np.unique(headers.label[rows]):
            of = headers.label[rows] == label
            found = scan.prefixes.setdefault((int(label), words.shape[1], column), PrefixEvidence())
            found.one += int((one & ~two & of).sum())
            found.two += int((two & ~one & of).sum())
            clear = np.flatnonzero((one ^ two) & of)
            if len(clear) and not found.example:
                value = buffer[int(at[clear[0]]) : int(at[clear[0]]) + 4].tobytes().hex()
                found.example = f"a value of {int(size[clear[0]])} bytes that begins with {value}"
