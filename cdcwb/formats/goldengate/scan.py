"""Logdump text as records in columns, and as records in full (docs/formats/goldengate.md §2)."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from cdcwb.formats.goldengate import text as t
from cdcwb.formats.goldengate.grammar import NOT_A_TIME, Bytes, clock
from cdcwb.formats.goldengate.printed import ghdr_time, printed_of, text_of
from cdcwb.formats.goldengate.records import HEADER, MISSING, Ints, Printed, Records, Shape

__all__ = ["boundary", "scan", "split_text", "time_us"]

_NO_LINES: Final = np.empty((0, t.LINE_WIDTH), np.int64)
_NO_PAIRS: Final = np.empty((0, t.PAIR_WIDTH), np.int64)
_ROOM: Final = 128  # bytes of text a row
_SLICES: Final = (t.BODY, t.CSN, t.XID, t.ROWID)
_IDS: Final = {0x4C: t.CSN, 0x36: t.XID, 0x52: t.ROWID}
_TRAIL: Final = re.compile(
    rb"Current LogTrail is[ \t]+(?P<shown>[^\r\n]*)"
    rb"|^[ \t]*Logdump ?\d* ?>\s*open[ \t]+(?P<opened>[^\s'\"]+|'[^'\n]+'|\"[^\"\n]+\")",
    re.IGNORECASE | re.MULTILINE,
)


def boundary(text: Bytes, at: int) -> int:
    """The first place at or after ``at`` where a record begins that is complete by itself; the text's size if there is
    none. Stretches of a text that are cut at such places have the same records and filler as the text."""
    return 0 if at <= 0 else t.boundary_from(_readable(text), at, text.size)


def time_us(text: str) -> int | None:
    """A printed time as microseconds since 1970 as if its zone were UTC; None where it is none.

    ``YYYY/MM/DD HH:MM:SS.mmm.uuu`` or ISO 8601, with up to six digits of a second.
    """
    data = np.frombuffer(text.strip().encode(), np.uint8)
    stop, moment = clock(_readable(data), 0, data.size)
    return moment if stop == data.size and moment != NOT_A_TIME else None


def _readable(text: Bytes) -> Bytes:
    """The same bytes read-only, as all kernels get them: they are compiled for one type of array."""
    view = np.ascontiguousarray(text).view()
    view.flags.writeable = False
    return view


def _rows(text: Bytes, bodies: bool) -> tuple[Ints, Bytes]:
    """The rows of a text (see :mod:`.text`) and the bytes that are shown in it as hex."""
    data = np.empty(text.size // 2 + 64, np.uint8)
    found: list[Ints] = []
    at = size = 0
    while at < text.size:
        rows = np.empty(((text.size - at) // _ROOM + 64, t.WIDTH), np.int64)
        count, shown, at, _, _ = t.read(text, at, text.size, True, bodies, rows, data[size:], _NO_LINES, _NO_PAIRS)
        rows = rows[:count]
        for first in (*_SLICES, t.TOKEN_BYTES, t.AREA):
            rows[:, first : first + 2] += np.where(rows[:, first : first + 2] >= 0, size, 0)
        size += shown
        found.append(rows)
    rows = found[0] if len(found) == 1 else np.concatenate([np.empty((0, t.WIDTH), np.int64), *found])
    return rows, data[:size]


def split_text(data: bytes, base: int = 0) -> list[Printed]:
    """All of a stretch of text in full: records and the filler between them, in its order and without holes.

    ``base`` is the offset of its first byte in the decompressed file. Never raises.
    """
    rows, _ = _rows(_readable(np.frombuffer(data, np.uint8)), False)
    out: list[Printed] = []
    trail: str | None = None
    for shape, start, stop in rows[:, [t.SHAPE, t.START, t.STOP]].tolist():
        one = _printed(data[start:stop], shape)
        trail = one.trail or trail
        one.start, one.stop, one.trail = start + base, stop + base, trail
        out.append(one)
    return out


def _printed(record: bytes, shape: int) -> Printed:
    if shape != Shape.FILLER:
        return printed_of(record)
    named = [found["shown"] or found["opened"] for found in _TRAIL.finditer(record)]
    trail = text_of(named[-1].strip(b" \t\r\n'\"")) if named else None
    return Printed(Shape.FILLER, 0, len(record), trail=trail)


def scan(text: Bytes, base: int = 0, bodies: bool = True) -> Records:
    """All records and filler of a stretch of text, which begins and ends where records or filler do.

    ``base`` is the offset of its first byte in the decompressed file. Without ``bodies``, of the hex only tokens and
    header tokens are decoded: ``body_at`` is MISSING for all records.
    """
    rows, data = _rows(_readable(text), bodies)
    extras: dict[int, Printed] = {}
    trail: list[tuple[int, str]] = []
    more: list[bytes] = []
    size = data.size
    rows[:, t.MOMENT][rows[:, t.MOMENT] == NOT_A_TIME] = MISSING
    wanted = np.flatnonzero((rows[:, t.RARE] == 1) | (rows[:, t.SHAPE] == Shape.FILLER))
    for row, shape, start, stop in zip(
        wanted.tolist(), *rows[wanted][:, [t.SHAPE, t.START, t.STOP]].T.tolist(), strict=True
    ):
        one = _printed(text[start:stop].tobytes(), shape)
        if one.trail is not None and (not trail or trail[-1][1] != one.trail):
            trail.append((row, one.trail))
        if shape == Shape.FILLER:
            continue
        for first, shown in _fill(rows[row], one, start, bodies):
            rows[row, first], rows[row, first + 1] = size, size + len(shown)
            size += len(shown)
            more.append(shown)
        one.start, one.stop, one.trail = start + base, stop + base, trail[-1][1] if trail else None
        extras[row] = one
    if more:
        data = np.concatenate([data, np.frombuffer(b"".join(more), np.uint8)])
    table = np.ascontiguousarray(rows.T)
    return Records(
        shape=table[t.SHAPE].astype(np.int8),
        start=table[t.START] + base,
        stop=table[t.STOP] + base,
        values=rows[:, : len(HEADER)],
        length=table[t.LENGTH],
        rba=table[t.RBA],
        name_index=table[t.NAME_INDEX],
        image_partition=table[t.IMAGE_PARTITION],
        image=table[t.IMAGE],
        image_trans=table[t.IMAGE_TRANS],
        total=table[t.TOTAL],
        moment=table[t.MOMENT],
        julian=table[t.JULIAN],
        text=text,
        operation_at=table[t.OPERATION : t.OPERATION + 2].T,
        name_at=table[t.NAME : t.NAME + 2].T,
        time_at=table[t.TIME : t.TIME + 2].T,
        bytes=data,
        body_at=table[t.BODY : t.BODY + 2].T,
        csn_at=table[t.CSN : t.CSN + 2].T,
        xid_at=table[t.XID : t.XID + 2].T,
        rowid_at=table[t.ROWID : t.ROWID + 2].T,
        extras=extras,
        trail=trail,
        cut=table[t.CUT] == 1,
        cut_column=table[t.CUT_COLUMN : t.CUT_COLUMN + 3].T,
        fragment=table[t.FRAGMENT : t.FRAGMENT + 3].T,
    )


def _fill(row: Ints, printed: Printed, start: int, bodies: bool) -> list[tuple[int, bytes]]:
    """Puts a record that was read in full into its row; returns the columns of slices and the bytes that they have."""
    row[: len(HEADER)] = [printed.values.get(name, MISSING) for name in HEADER]
    row[t.CUT_COLUMN : t.CUT_COLUMN + 3] = MISSING
    julian = ghdr_time(printed.ghdr)
    moments = [one for one in (printed.line_moment, printed.header_moment) if one != NOT_A_TIME]
    for column, value in (
        (t.SHAPE, printed.shape),
        (t.LENGTH, printed.length),
        (t.RBA, printed.rba),
        (t.NAME_INDEX, printed.name_index),
        (t.CUT, 0),
        (t.JULIAN, MISSING if julian is None else julian),
        (t.MOMENT, moments[0] if moments else MISSING),
    ):
        row[column] = value
    for column, (first, last) in (
        (t.OPERATION, printed.operation_at),
        (t.NAME, printed.name_at),
        (t.TIME, printed.time_at),
    ):
        row[column : column + 2] = (first + start, last + start) if first >= 0 else MISSING
    slices: dict[int, bytes] = {}
    for token in printed.tokens:
        if token.id in _IDS:
            slices.setdefault(_IDS[token.id], token.value)
    if printed.transaction is not None:
        slices.setdefault(t.XID, printed.transaction.encode())
    if printed.body is not None and bodies:
        slices[t.BODY] = printed.body
    for column in _SLICES:
        row[column : column + 2] = MISSING
    return list(slices.items())
