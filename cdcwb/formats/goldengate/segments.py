"""Logdump text in windows: the records that belong together, and the text between them (docs/formats/goldengate.md §2).

A split begins with the first record of a transaction, where no other one is open; a window, with a record that
continues no other one. So both halves of an update and all fragments of a record are in one window, and all records of
a transaction in one split.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from cdcwb.errors import CaptureError
from cdcwb.formats.arrays import Ints
from cdcwb.formats.goldengate.facts import RecordFacts, RecordSettings, facts_of
from cdcwb.formats.goldengate.lines import Role, parse
from cdcwb.formats.goldengate.records import (
    FILE_HEADER,
    MALFORMED,
    NO_RECORD,
    NOT_COMPLETE,
    TrailRecords,
    decode,
    text_of,
)
from cdcwb.formats.records import GAP_PIECE, WINDOW, Segments, Stream, UnparsedReason
from cdcwb.model import Problem
from cdcwb.words import plural

__all__ = ["HEAD", "TextWindow", "first_start", "is_logdump", "windows"]


HEAD: Final = 1 << 16
"""Bytes of a file that are examined for detection."""

_BEFORE: Final = 1 << 16  # bytes before a border that are looked at
_MOST: Final = 1 << 28  # bytes of records that belong together
_FILLER: Final = "lines that belong to no record"
_MARKS: Final = (b"Hdr-Ind", b" RBA", b"\xc2\xa0RBA")


@dataclass(frozen=True, slots=True)
class TextWindow(Segments):
    """Segments of a text, with its ``records`` and their ``facts``; ``chosen``: the numbers of those that are segments,
    in order. The others follow the window."""

    records: TrailRecords
    facts: RecordFacts
    chosen: Ints


@dataclass(frozen=True, slots=True)
class _TextSpan:
    """Records of ``[at, at + limit)``; those that begin before ``limit`` are complete. ``start``: the first of them at
    which a split may begin, -1 for none."""

    at: int
    limit: int
    records: TrailRecords
    facts: RecordFacts
    start: int


def windows(
    stream: Stream, start: int, stop: int, reading: RecordSettings, *, heads: bool = False
) -> Iterator[TextWindow]:
    """The windows from ``start``, where a split begins, to the first start of a split at or after ``stop``. ``heads``:
    what :func:`cdcwb.formats.goldengate.records.decode` leaves out."""
    if start >= min(stop, stream.length):
        return
    for piece in _pieces(stream, start, stop, reading, WINDOW, is_start=True, heads=heads):
        limit = piece.limit if piece.start < 0 else int(piece.records.start[piece.start])
        if limit:
            yield _window(stream, piece, limit)
        if piece.start >= 0:
            return


def first_start(stream: Stream, start: int, stop: int, reading: RecordSettings) -> int:
    """The first byte at or after ``start`` at which a split may begin; ``stop`` if there is none before it."""
    first = max(start - _BEFORE, 0)
    for piece in _pieces(stream, first, start, reading, 2 * _BEFORE, is_start=first == 0, heads=True):
        if piece.start >= 0:
            return min(piece.at + int(piece.records.start[piece.start]), stop)
        if piece.at + piece.limit >= stop:
            break
    return stop


def _pieces(
    stream: Stream, at: int, border: int, reading: RecordSettings, size: int, *, is_start: bool, heads: bool
) -> Iterator[_TextSpan]:
    """Consecutive pieces from ``at`` on. ``border``: starts of splits are searched from here on; ``is_start``: a split
    begins at ``at``, otherwise what the first record is cannot be known."""
    is_closed = is_start
    while at < stream.length:
        wanted = min(size, max(border - at, 0) + 2 * _BEFORE)
        while True:
            records, facts, limit = _read(stream, at, wanted, reading, heads)
            if limit or wanted >= _MOST:
                break
            wanted *= 4
        if not limit:
            index, offset, _ = stream.location(at, at + 1)
            sentence = f"expected the end of a record within {_MOST:,} bytes, found none"
            raise CaptureError(sentence, path=stream.files[index].path, offset=offset)
        rows = np.flatnonzero((facts.member | facts.abort) & (records.start < limit))
        closes = facts.closes[rows]
        if not is_start:
            closes[:1] = False
        before = np.append(is_closed, closes[:-1])[: len(rows)]
        able = np.flatnonzero(facts.starts[rows] & before & (at + records.start[rows] >= max(border, at + 1)))
        yield _TextSpan(at, limit, records, facts, int(rows[able[0]]) if len(able) else -1)
        if len(rows):
            is_closed = bool(closes[-1])
        at, is_start = at + limit, True


def _read(
    stream: Stream, at: int, size: int, reading: RecordSettings, heads: bool
) -> tuple[TrailRecords, RecordFacts, int]:
    """The records from ``at`` on, and the byte up to which they are complete."""
    if reading.raw:
        from cdcwb.formats.goldengate.trail import read_frames

        records, is_end = read_frames(stream, at, size)
        length = len(records.lines.source) if is_end else 0
    else:
        records, is_end, length = _read_text(stream, at, size, heads)
    facts = facts_of(records, reading)
    if is_end or not len(records):
        return records, facts, length
    members = np.flatnonzero(facts.member)
    halved = facts.half & ~facts.before
    follows = np.zeros(len(records), np.bool_)
    follows[members[1:]] = halved[members[1:]] & facts.before[members[:-1]]
    alone = members[~(facts.fragment | facts.twin | follows)[members]]
    able = records.start[alone if len(alone) and records.start[alone[-1]] else np.arange(len(records))]
    return records, facts, int(able[-1])


def _read_text(stream: Stream, at: int, size: int, heads: bool) -> tuple[TrailRecords, bool, int]:
    """The records of the complete lines from ``at`` on, whether the stream ends with them, and the end of the lines."""
    text = stream.read(at, at + size)
    is_end = at + len(text) == stream.length
    if not is_end:
        ends = np.flatnonzero(text == 10)
        ends = ends if len(ends) else np.flatnonzero(text[:-1] == 13)
        text = text[: int(ends[-1]) + 1] if len(ends) else text[:0]
    inside = stream.boundaries[(stream.boundaries > at) & (stream.boundaries < at + len(text))] - at
    return decode(parse(text, inside), heads=heads), is_end, len(text)


def _window(stream: Stream, piece: _TextSpan, limit: int) -> TextWindow:
    """The segments of a piece before ``limit``."""
    records, at = piece.records, piece.at
    rows = np.flatnonzero((records.start < limit) & (records.shape != NO_RECORD))
    start, stop = records.start[rows], records.stop[rows]
    cuts = stream.boundaries[(stream.boundaries > at) & (stream.boundaries < at + limit)] - at
    gaps = np.array([*records.gaps], np.int64)
    edges = np.unique(np.concatenate([[0], start, stop, gaps, cuts, [limit]]))
    edges = edges[edges <= limit]
    low, high = edges[:-1], edges[1:]
    long = np.flatnonzero(high - low > GAP_PIECE)
    long = long[~np.isin(low[long], start)]
    if len(long):
        more = [np.arange(a, b, GAP_PIECE) for a, b in zip(low[long].tolist(), high[long].tolist(), strict=True)]
        edges = np.union1d(edges, np.concatenate(more))
        low, high = edges[:-1], edges[1:]
    of = np.searchsorted(start, low, side="right") - 1
    inside = (of >= 0) & (low < np.append(stop, 0)[of])
    shape = np.append(records.shape[rows], NO_RECORD)[np.where(inside, of, -1)]
    record = shape <= FILE_HEADER
    reasons = _reasons(records, low, high, shape)
    return TextWindow(
        records.lines.source[:limit],
        at,
        low,
        high,
        record,
        reasons,
        records,
        piece.facts,
        rows[records.shape[rows] <= FILE_HEADER],
    )


def _reasons(records: TrailRecords, low: Ints, high: Ints, shape: npt.NDArray[np.int8]) -> dict[int, UnparsedReason]:
    """Why text is not a record. Notes are a problem; blank lines, rules, prompts and Logdump's own notes are not."""
    reasons: dict[int, UnparsedReason] = {}
    gaps = np.flatnonzero(shape > FILE_HEADER)
    if not len(gaps):
        return reasons
    if records.gaps:
        known = sorted(records.gaps)
        return {gap: records.gaps[known[bisect_right(known, low[gap]) - 1]] for gap in gaps.tolist()}
    lines = records.lines
    unparsed = lines.at[:-1][lines.role == Role.UNKNOWN]
    first = np.searchsorted(unparsed, low[gaps])
    for gap, at in zip(gaps.tolist(), first.tolist(), strict=True):
        if shape[gap] == MALFORMED:
            reasons[gap] = UnparsedReason(Problem.MALFORMED, NOT_COMPLETE)
        elif at < len(unparsed) and unparsed[at] < high[gap]:
            line = int(np.searchsorted(lines.at, unparsed[at]))
            text = text_of(lines.plain[lines.first[line] : lines.last[line]][:60].tobytes())
            reasons[gap] = UnparsedReason(Problem.NOTE, f"text that is not a record: {text!r}")
        else:
            reasons[gap] = UnparsedReason(None, _FILLER)
    return reasons


def is_logdump(head: bytes) -> str | None:
    """Why a text is from Logdump, from its beginning; None if it is not."""
    if not any(mark in head for mark in _MARKS):
        return None
    records = decode(parse(np.frombuffer(head, np.uint8)))
    blocks = int(np.count_nonzero((records.shape <= FILE_HEADER) & (records.column("IOType") >= 0)))
    named = records.operation.is_valid().to_numpy(zero_copy_only=False)
    lines = int(np.count_nonzero((records.shape <= FILE_HEADER) & named))
    if not blocks and not lines:
        return None
    return f"{plural(blocks, 'header block')} and {plural(lines, 'record line')} of Logdump in its first bytes"
