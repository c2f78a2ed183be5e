"""Logdump text read column-wise: the same as :mod:`~cdcwb.formats.goldengate.printed` finds, many records at a time.

Records in which everything stands as Logdump prints it, and in which nothing contradicts anything else, are *usual*:
their numbers, times, names and hex digits are read from fixed columns. Everything between usual records goes line by
line through :func:`~cdcwb.formats.goldengate.printed.split_text`. The edges of a usual record are certain, so that what
is between two of them can be framed by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cdcwb.formats.goldengate.boundary import boundary
from cdcwb.formats.goldengate.lines import Bytes, Flags, Ints, Line, Lines, lines_of
from cdcwb.formats.goldengate.places import places_of
from cdcwb.formats.goldengate.printed import split_text
from cdcwb.formats.goldengate.printed_lines import time_us
from cdcwb.formats.goldengate.printed_tokens import ghdr_time
from cdcwb.formats.goldengate.records import HEADER, MISSING, Printed, Records, Shape
from cdcwb.formats.goldengate.segments import Segments, segments_of
from cdcwb.formats.goldengate.usual import TOKENS, Usual, usual_records

__all__ = ["boundary", "scan"]

PIECE: Final = 4 << 20
"""Bytes of text whose records are looked at at once."""


def scan(text: Bytes, base: int = 0, bodies: bool = True) -> Records:
    """All records and filler of a stretch of text, which begins and ends where records or filler do.

    ``base`` is the place of its first byte in the decompressed file. Without ``bodies``, of the hex only tokens and
    header tokens are decoded: ``body_at`` is MISSING for all records, and hex is not looked at for contradictions.
    """
    plain: list[Printed] = []
    parts: list[_Rows] = []
    at = 0
    while at < text.size:
        stop = text.size if text.size - at <= PIECE * 3 // 2 else boundary(text, at + PIECE)
        parts += _read_piece(text, at, stop, bodies, plain)
        at = stop
    return _joined(text, base, parts, plain, bodies)


def _read_piece(text: Bytes, at: int, stop: int, bodies: bool, plain: list[Printed]) -> Iterator[_Rows]:
    """What of a piece of the text is read column-wise; the rest is added to ``plain``."""
    lines, shift = lines_of(text, at, stop)
    if not lines.kind.size:
        return
    segments = segments_of(lines)
    usual = usual_records(lines, segments.first, segments.line_segment, segments.is_record, bodies)
    kept, is_filler = _kept(lines, segments, usual)
    begin = lines.start[segments.first]
    end = np.append(begin[1:], stop + shift)
    yield _usual_rows(usual, kept, begin, end, -shift)
    if bool(kept.all()) and kept.size == begin.size:
        return
    begin, end = begin - shift, end - shift
    if is_filler.any():
        first, last = _runs(is_filler)
        yield _filler_rows(begin[first], end[last])
    is_read = is_filler.copy()
    is_read[usual.segment[kept]] = True
    first, last = _runs(~is_read)
    for low, high in zip(begin[first].tolist(), end[last].tolist(), strict=True):
        plain += split_text(text[low:high].tobytes(), low)


# --- putting together -------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Rows:
    """Records and filler of one origin, with the columns of :class:`Records` by name; places count from the text's
    begin, slices from that of ``bytes``."""

    columns: dict[str, npt.NDArray[Any]]
    bytes: Bytes


_NUMBERS: Final = (
    "length", "rba", "name_index", "image_partition", "image", "image_trans", "total", "moment", "julian"
)  # fmt: skip
_SPANS: Final = ("operation_at", "name_at", "time_at")
_SLICES: Final = ("body_at", "csn_at", "xid_at", "rowid_at")


def _kept(lines: Lines, segments: Segments, usual: Usual) -> tuple[Flags, Flags]:
    """Which of the usual records stay it, and which segments are filler by themselves.

    What comes before a usual record may end in lines that a line-by-line reader takes for the begin of that record, if
    the record begins in the middle of its lines and what comes before is not understood here. And what comes behind it
    may be more of it, if it begins like a record line but is none.
    """
    is_good = np.zeros(segments.first.size, np.bool_)
    is_good[usual.segment] = usual.good
    is_known = is_good | segments.is_filler
    certain = lines.kind[segments.first] == Line.G
    certain[:1] = True
    certain[1:] |= is_known[:-1]
    certain[:-1] &= is_good[1:] | (lines.kind[segments.first[1:]] != Line.RECORD)
    is_good &= certain
    kept = is_good[usual.segment]
    is_unread = ~(is_good | segments.is_filler)
    if not is_unread.any():
        return kept, segments.is_filler
    # Filler beside unread lines may be one with filler among them.
    run = np.cumsum(np.append(True, segments.is_filler[1:] != segments.is_filler[:-1])) - 1
    beside = np.zeros(int(run[-1]) + 3, np.bool_)
    beside[run[is_unread]] = True
    beside[run[is_unread] + 2] = True
    return kept, segments.is_filler & ~beside[run + 1]


def _runs(flags: Flags) -> tuple[Ints, Ints]:
    """First and last place of each run of set flags."""
    edges = np.flatnonzero(np.diff(flags, prepend=False, append=False))
    return edges[0::2], edges[1::2] - 1


def _usual_rows(usual: Usual, kept: Flags, begin: Ints, end: Ints, move: int) -> _Rows:
    which: Any = slice(None) if kept.all() else kept
    segment = usual.segment[which]
    columns: dict[str, npt.NDArray[Any]] = {
        "shape": np.full(segment.size, Shape.RECORD, np.int8),
        "start": begin[segment],
        "stop": end[segment],
        "values": usual.values[which],
        "body_at": usual.body_at[which],
        "cut": usual.cut[which],
        "cut_column": usual.cut_column[which],
    }
    for name in _NUMBERS:
        columns[name] = getattr(usual, name)[which]
    for name in _SPANS:
        columns[name] = getattr(usual, name)[which]
    if move:
        for name in ("start", "stop", *_SPANS):
            columns[name] += move
    for number, name in enumerate(_SLICES[1:]):
        columns[name] = usual.token_at[number, which]
    return _Rows(columns, usual.bytes)


def _empty(count: int, shape: Shape) -> dict[str, npt.NDArray[Any]]:
    columns: dict[str, npt.NDArray[Any]] = {name: np.full(count, MISSING, np.int64) for name in _NUMBERS}
    columns |= {name: np.full((count, 2), MISSING, np.int64) for name in (*_SPANS, *_SLICES)}
    columns["shape"] = np.full(count, shape, np.int8)
    columns["cut"] = np.zeros(count, np.bool_)
    columns["cut_column"] = np.full((count, 3), MISSING, np.int64)
    columns["values"] = np.full((count, len(HEADER)), MISSING, np.int64)
    return columns


def _filler_rows(start: Ints, stop: Ints) -> _Rows:
    return _Rows({**_empty(start.size, Shape.FILLER), "start": start, "stop": stop}, np.zeros(0, np.uint8))


def _plain_rows(text: Bytes, plain: list[Printed], bodies: bool) -> _Rows:
    """The columns of records that were read line by line; their places count from the text's begin."""
    columns = _empty(len(plain), Shape.RECORD)
    columns["shape"] = np.array([printed.shape for printed in plain], np.int8)
    columns["start"] = np.array([printed.start for printed in plain], np.int64)
    columns["stop"] = np.array([printed.stop for printed in plain], np.int64)
    values = columns["values"]
    data = bytearray()
    for row, printed in enumerate(plain):
        if printed.shape == Shape.FILLER:
            continue
        for name, value in printed.values.items():
            values[row, _AT[name]] = value
        for name in ("length", "rba", "name_index", "image_partition", "image_trans"):
            columns[name][row] = getattr(printed, name)
        columns["image"][row] = MISSING if printed.image is None else ord(printed.image[0])
        columns["total"][row] = printed.parts.get("G", MISSING)
        columns["moment"][row] = _moment(printed)
        julian = ghdr_time(printed.ghdr)
        columns["julian"][row] = MISSING if julian is None else julian
        whole = text[printed.start : printed.stop].tobytes()
        for name, (first, last) in zip(_SPANS, places_of(whole, 0, len(whole), printed), strict=True):
            if first >= 0:
                columns[name][row] = printed.start + first, printed.start + last
        slices = [printed.body if bodies else None, *(_token(printed, token) for token in TOKENS)]
        if slices[_XID] is None and printed.transaction is not None:
            slices[_XID] = printed.transaction.encode()
        for name, shown in zip(_SLICES, slices, strict=True):
            if shown is not None:
                columns[name][row] = len(data), len(data) + len(shown)
                data += shown
    return _Rows(columns, np.frombuffer(bytes(data), np.uint8))


_XID: Final = _SLICES.index("xid_at")
_AT: Final = {name: place for place, name in enumerate(HEADER)}


def _moment(printed: Printed) -> int:
    for text in (printed.line_time, printed.io_time):
        moment = time_us(text) if text is not None else None
        if moment is not None:
            return moment
    return MISSING


def _token(printed: Printed, token: int) -> bytes | None:
    return next((found.value for found in printed.tokens if found.id == token), None)


def _joined(text: Bytes, base: int, parts: list[_Rows], plain: list[Printed], bodies: bool) -> Records:
    if plain or not parts:
        parts.append(_plain_rows(text, plain, bodies))
    before = 0
    for part in parts:
        if before:
            for name in _SLICES:
                part.columns[name] += np.where(part.columns[name] >= 0, before, 0)
        before += part.bytes.size
    columns = {
        name: np.concatenate([part.columns[name] for part in parts]) if len(parts) > 1 else parts[0].columns[name]
        for name in parts[0].columns
    }
    start = columns["start"]
    rank = np.arange(start.size)
    if not bool((start[1:] > start[:-1]).all()):
        order = np.argsort(start, kind="stable")
        rank[order] = np.arange(order.size)
        columns = {name: column[order] for name, column in columns.items()}
    columns["start"] += base
    columns["stop"] += base
    extras, trail = _extras(plain, rank[rank.size - len(plain) :].tolist(), base)
    return Records(
        text=text, bytes=np.concatenate([part.bytes for part in parts]), extras=extras, trail=trail, **columns
    )


def _extras(plain: list[Printed], rows: list[int], base: int) -> tuple[dict[int, Printed], list[tuple[int, str]]]:
    """The records that were read line by line, by their rows, with the trail in force; and where that changes."""
    extras: dict[int, Printed] = {}
    trail: list[tuple[int, str]] = []
    for row, printed in zip(rows, plain, strict=True):
        if printed.trail is None:
            printed.trail = trail[-1][1] if trail else None
        elif not trail or trail[-1][1] != printed.trail:
            trail.append((row, printed.trail))
        printed.start += base
        printed.stop += base
        if printed.shape != Shape.FILLER or printed.problems:
            extras[row] = printed
    return extras, trail
