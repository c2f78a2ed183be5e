"""Logdump text in windows: the records that belong together, their transactions, and the text between them
(docs/formats/goldengate.md §2 and §6).

A split begins with the first record of a transaction, where no other one is open; a window, with a record that
continues no other one. So both halves of an update and all fragments of a record are in one window, and all records of
a transaction in one split.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from cdcwb.errors import CaptureError
from cdcwb.formats.arrays import as_array
from cdcwb.formats.goldengate.layout import MISSING
from cdcwb.formats.goldengate.lines import Role, parse
from cdcwb.formats.goldengate.records import (
    ALONE,
    CLOSES,
    FILE_HEADER,
    MALFORMED,
    NO_RECORD,
    NOT_COMPLETE,
    RecordSettings,
    TrailRecords,
    decode,
    text_of,
)
from cdcwb.formats.kernels import Bools, Ints
from cdcwb.formats.records import WINDOW, Segments, Stream, UnparsedReason, cut_gaps
from cdcwb.model import Problem
from cdcwb.words import plural

HEAD: Final = 1 << 16
"""Bytes of a file that are examined for detection."""

_BEFORE: Final = 1 << 16  # bytes before a border that are looked at
_MOST: Final = 1 << 28  # bytes of records that belong together
_FILLER: Final = "lines that belong to no record"
_MARKS: Final = (b"Hdr-Ind", b" RBA", b"\xc2\xa0RBA")


@dataclass(frozen=True, slots=True)
class TextWindow(Segments):
    """Segments of a text, with its ``records``; ``chosen``: the numbers of those that are segments, in order. The
    others follow the window."""

    records: TrailRecords
    chosen: Ints


class _TextSpan(NamedTuple):
    """Records of ``[at, at + limit)``; those that begin before ``limit`` are complete. ``start``: where, after ``at``,
    the first of them begins at which a split may begin; MISSING for none."""

    at: int
    limit: int
    records: TrailRecords
    start: int


def windows(
    stream: Stream, start: int, stop: int, reading: RecordSettings, *, heads: bool = False
) -> Iterator[TextWindow]:
    """The windows from ``start``, where a split begins, to the first start of a split at or after ``stop``. ``heads``:
    what :func:`cdcwb.formats.goldengate.records.decode` leaves out."""
    if start >= min(stop, stream.length):
        return
    for span in _spans(stream, start, stop, reading, WINDOW, is_start=True, heads=heads):
        limit = span.limit if span.start == MISSING else span.start
        if limit:
            yield _window(stream, span.at, limit, span.records)
        if span.start != MISSING:
            return


def first_start(stream: Stream, start: int, stop: int, reading: RecordSettings) -> int:
    """The first byte at or after ``start`` at which a split may begin; ``stop`` if there is none before it."""
    first = max(start - _BEFORE, 0)
    for span in _spans(stream, first, start, reading, 2 * _BEFORE, is_start=first == 0, heads=True):
        if span.start != MISSING:
            return min(span.at + span.start, stop)
        if span.at + span.limit >= stop:
            break
    return stop


def _spans(
    stream: Stream, at: int, border: int, reading: RecordSettings, size: int, *, is_start: bool, heads: bool
) -> Iterator[_TextSpan]:
    """Consecutive spans from ``at`` on. ``border``: starts of splits are searched from here on; ``is_start``: a split
    begins at ``at``, otherwise what the first record is cannot be known."""
    is_closed = is_start
    while at < stream.length:
        wanted, limit = min(size, max(border - at, 0) + 2 * _BEFORE), 0
        while not limit:
            if wanted > _MOST:
                index, offset, _ = stream.location(at, at + 1)
                sentence = f"expected the end of a record within {_MOST:,} bytes, found none"
                raise CaptureError(sentence, path=stream.files[index].path, offset=offset)
            records, limit = _read(stream, at, wanted, reading, heads)
            wanted *= 4
        rows = np.flatnonzero((records.member | records.abort) & (records.start < limit))
        trans, follows = records.trans[rows], records.fragment[rows] | records.twin[rows]
        closes = records.abort[rows] | np.isin(trans, CLOSES)
        if not is_start:
            closes[:1] = False
        before = np.append(is_closed, closes[:-1])[: len(rows)]
        able = rows[np.isin(trans, ALONE) & ~follows & before & (at + records.start[rows] >= max(border, at + 1))]
        yield _TextSpan(at, limit, records, int(records.start[able[0]]) if len(able) else MISSING)
        if len(rows):
            is_closed = bool(closes[-1])
        at, is_start = at + limit, True


def _read(stream: Stream, at: int, size: int, reading: RecordSettings, heads: bool) -> tuple[TrailRecords, int]:
    """The records of the complete lines from ``at`` on, and the byte up to which they are complete; 0 if all of them
    belong together and there may be more."""
    if reading.raw:
        from cdcwb.formats.goldengate.trail import read_frames

        records, is_end = read_frames(stream, at, size, reading)
        length = len(records.lines.source) if is_end else 0
    else:
        text = stream.read(at, at + size)
        is_end = at + len(text) == stream.length
        if not is_end:
            ends = np.flatnonzero(text == 10)
            ends = ends if len(ends) else np.flatnonzero(text[:-1] == 13)
            text = text[: int(ends[-1]) + 1] if len(ends) else text[:0]
        inside = stream.boundaries[(stream.boundaries > at) & (stream.boundaries < at + len(text))] - at
        records, length = decode(parse(text, inside), reading, heads=heads), len(text)
    if is_end or not len(records):
        return records, length
    members = np.flatnonzero(records.member)
    follows = records.fragment | records.twin
    follows[members[1:]] |= (records.half & ~records.before)[members[1:]] & records.before[members[:-1]]
    alone = members[~follows[members]]
    cuts = alone if len(alone) and 4 * size <= _MOST else np.arange(len(records))
    return records, int(records.start[cuts[-1]])


def _window(stream: Stream, at: int, limit: int, records: TrailRecords) -> TextWindow:
    """The segments of a span before ``limit``."""
    rows = np.flatnonzero((records.start < limit) & (records.shape != NO_RECORD))
    start, stop = records.start[rows], records.stop[rows]
    edges = np.unique(np.concatenate([[0], start, stop, np.array([*records.gaps], np.int64), [limit]]))
    low, high = edges[:-1][edges[1:] <= limit], edges[1:][edges[1:] <= limit]

    def shapes(begin: Ints) -> npt.NDArray[np.int8]:
        of = np.searchsorted(start, begin, side="right") - 1
        inside = (of >= 0) & (begin < np.append(stop, 0)[of])
        found: npt.NDArray[np.int8] = np.append(records.shape[rows], NO_RECORD)[np.where(inside, of, -1)]
        return found

    is_record = shapes(low) <= FILE_HEADER
    unknown = dict.fromkeys(np.flatnonzero(~is_record).tolist(), UnparsedReason(None, _FILLER))
    found = cut_gaps(Segments(records.lines.source[:limit], at, low, high, is_record, unknown), stream.boundaries)
    reasons = _reasons(records, found.start, found.end, shapes(found.start))
    chosen = rows[records.shape[rows] <= FILE_HEADER]
    return TextWindow(found.buffer, at, found.start, found.end, found.record, reasons, records, chosen)


def _reasons(records: TrailRecords, low: Ints, high: Ints, shape: npt.NDArray[np.int8]) -> dict[int, UnparsedReason]:
    """Why text is not a record. Notes are a problem; blank lines, rules, prompts and Logdump's own notes are not."""
    reasons: dict[int, UnparsedReason] = {}
    gaps = np.flatnonzero(shape > FILE_HEADER)
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
    is_record = records.shape <= FILE_HEADER
    blocks = int(np.count_nonzero(is_record & (records.column("IOType") >= 0)))
    lines = int(np.count_nonzero(is_record & as_array(records.operation.is_valid())))
    if not blocks and not lines:
        return None
    return f"{plural(blocks, 'header block')} and {plural(lines, 'record line')} of Logdump in its first bytes"


# --- transactions -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class OpenTransaction:
    """A transaction. ``first`` is the location of its first record, by its byte ``at`` in the stream and its ``rba``
    (MISSING: it has no position of its own); ``xid`` and ``csn`` are those of the first token in its records;
    ``aborted``: RestartAbend voids it."""

    at: int
    rba: int
    xid: str | None = None
    csn: str | None = None
    aborted: bool = False
    first: str = ""

    @property
    def name(self) -> str:
        """``transaction_id`` of its records."""
        if self.xid is None:
            return f"~{self.first}"
        return f"{self.xid}@{self.first}" if self.aborted else self.xid


class TrailTransactions(NamedTuple):
    """The transactions of some records: ``of``, the number of that of each record, -1 for none; ``first``, the first
    record of each, -1 for one that is open before; ``closed``: whether its end is there, ``aborted``: it is voided.
    ``leads``: whether number 0 is open before."""

    of: Ints
    first: Ints
    closed: Bools
    aborted: Bools
    leads: bool


def transactions_of(records: TrailRecords, some: Bools, is_open: bool) -> TrailTransactions:
    """The transactions of the records ``some``. TransInd is a state machine: 3 is a complete transaction, 0 opens one,
    1 continues, 2 closes it; RestartAbend voids the open one. ``is_open``: whether one is open before them. Records
    without a TransInd are one transaction as long as their token TRANID is equal, and in none without such a token."""
    placed = (records.trans >= 0) | records.abort | as_array(records.xid.is_valid())
    index = np.flatnonzero(some & (records.member | records.abort) & placed)
    trans, abort = records.trans[index], records.abort[index]
    closes = abort | np.isin(trans, CLOSES)
    free = ~np.append(not is_open, closes[:-1])[: len(index)]
    starts = ~abort & (np.isin(trans, ALONE) | ~free)
    unknown = (trans < 0) & ~abort
    if unknown.any():
        codes = records.xid.take(index).dictionary_encode().indices
        codes = pc.fill_null(codes, -1).to_numpy(zero_copy_only=False)
        starts |= np.append(True, codes[1:] != codes[:-1]) & (unknown | np.append(False, unknown[:-1]))
    leads = is_open and len(index) > 0 and not starts[0]
    number = np.cumsum(starts) - (0 if leads else 1)
    count = int(number[-1]) + 1 if len(index) else 0
    number[abort & ~free] = -1  # nothing is open
    of, first = np.full(len(records), -1), np.full(count, -1)
    of[index] = number
    first[number[starts]] = index[starts]
    closed, aborted = np.zeros((2, count), np.bool_)
    closed[number[closes & (number >= 0)]] = True
    aborted[number[abort & (number >= 0)]] = True
    return TrailTransactions(of, first, closed, aborted, leads)
