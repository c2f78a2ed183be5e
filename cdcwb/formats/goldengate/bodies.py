"""Decodes the bytes of record bodies to columns (docs/formats/goldengate.md §4).

A column is its index in the table (from 0) and a length, two bytes each in the byte order of the trail, then that many
bytes: a null indicator of two bytes (0000: a value, FFFF: NULL) and the value. The columns of a NonStop's records are
*bare*: big-endian, without null indicators (§4.8). NonStop's Enscribe updates are pairs of field offset and field
length instead; a body does not distinguish the two, so these are read as columns if they happen to fit, and fail
otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from cdcwb.formats.goldengate.contents import Bools, Bytes, Ints, Order
from cdcwb.formats.kernels import kernel

__all__ = [
    "UNKNOWN_ORDER",
    "Cell",
    "Cells",
    "Form",
    "Half",
    "columns_of",
    "detect_order",
    "detect_unified",
    "not_columns",
    "odd_indicator",
    "walk",
]


PRESENT: Final = 0x0000
NULL: Final = 0xFFFF
_DESCRIPTOR: Final = 4
_INDICATOR: Final = 2


UNKNOWN_ORDER: Final = (
    "the byte order of the data is unknown, so no values are decoded; give it with the option byte_order"
)


def not_columns(place: int, bare: bool = False) -> str:
    """The problem of data whose bytes from ``place`` on are not columns; ``bare``: of a NonStop."""
    which = "big-endian columns without null indicators, as a NonStop writes them" if bare else "columns"
    return f"from byte {place} on the data are not {which}, so none of its values are decoded"


def odd_indicator(shown: str) -> str:
    """The problem of a column without a valid null indicator."""
    return f"expected the null indicator 0000 or ffff, found {shown}"


class Form(IntEnum):
    """The layouts of bodies."""

    COLUMNS = 0
    """Columns from beginning to end: one image."""
    KEYED = 1
    """GGSPKUpdate: two bytes of length and so many bytes of key columns as before image; the rest is the after
    image."""
    UNIFIED_2 = 2
    """GGSUnifiedUpdate, GGSUnifiedPKUpdate: two bytes of length, that many bytes of before image, then the after image
    (by analogy to KEYED; no real body is known)."""
    UNIFIED_4 = 3
    """The same with four bytes of length."""
    OPAQUE = 4
    """No columns: a body to leave alone."""


_PREFIX: Final = {Form.KEYED: 2, Form.UNIFIED_2: 2, Form.UNIFIED_4: 4}
_WIDTHS: Final = np.array([_PREFIX.get(form, 0) for form in Form])


class Half(IntEnum):
    """The image that a column belongs to."""

    BEFORE = 0
    AFTER = 1


@dataclass(frozen=True, slots=True)
class Cell:
    """One column of one body. ``start`` and ``stop`` locate the value in the body, after the null indicator, which is
    ``indicator`` (-1: the column is too short for one). ``bare``: it has none, and is not NULL."""

    index: int
    start: int
    stop: int
    indicator: int
    half: Half
    bare: bool = False


class Cells:
    """The columns of many bodies, those of a body together, in their order.

    For each column: ``row`` (the body), ``index`` (of the column), ``start`` and ``stop`` (the value after the null
    indicator, bytes of the buffer), ``indicator`` (-1: missing; of a bare column 0), ``half`` (a :class:`Half`),
    ``bare``, ``is_null`` and ``odd`` (the null indicator is missing, or neither 0000 nor FFFF). ``offsets``: body k has
    the columns ``offsets[k]`` up to ``offsets[k + 1]``. ``bad`` for each body: the offset in the buffer at which the
    walk failed, -1 if it reached the end; the columns before that offset are included.
    """

    def __init__(self, columns: Ints, bare: Bools, offsets: Ints, bad: Ints) -> None:
        self.index, self.start, self.stop, self.indicator, self.half = columns
        self.offsets, self.bad = offsets, bad
        self.row: Ints = np.repeat(np.arange(len(bad)), np.diff(offsets))
        self.bare: Bools = bare[self.row]
        self.is_null: Bools = self.indicator == NULL
        self.odd: Bools = (self.indicator != PRESENT) & ~self.is_null

    def __len__(self) -> int:
        return len(self.index)

    def indicator_text(self, buffer: Bytes, cell: int) -> str:
        """The null indicator of a column as hex; a word for one that is missing."""
        start = int(self.start[cell])
        return buffer[start - _INDICATOR : start].tobytes().hex() if self.indicator[cell] >= 0 else "none"


def _readable(buffer: Bytes) -> Bytes:
    """The same bytes read-only: the kernel is compiled for one type of array."""
    view = np.ascontiguousarray(buffer).view()
    view.flags.writeable = False
    return view


@kernel
def _walk(b: Bytes, bodies: Ints, is_big: bool, columns: Ints, offsets: Ints, bad: Ints) -> int:
    """See :func:`walk`. ``bodies``: first byte of the columns (-1: none), last+1, bytes of the length of a before
    image, half and bare of each; ``columns``: index, start, stop, indicator and half of each. Returns the number of
    columns."""
    count = 0
    for body in range(bodies.shape[1]):
        offsets[body] = count
        at, last, width = bodies[0, body], bodies[1, body], bodies[2, body]
        half, bare = bodies[3, body], bodies[4, body]
        if at < 0:
            continue
        if at > last or (width > 0 and at < last < at + width):
            bad[body] = min(at, last)
            continue
        high = 0 if is_big or bare else 1  # which of two bytes is the high one
        middle = at
        if width > 0 and at < last:
            size = 0
            for k in range(width):
                size = size << 8 | int(b[at + abs((width - 1) * high - k)])
            middle = at + width + size
            if middle > last:
                bad[body], middle = at, last
            at += width
        for part in range(2):
            limit = last if part else middle
            at = middle if part else at
            while at < limit:
                start, stop = at + 4, limit + 1
                if start <= limit:
                    stop = start + (np.int64(b[at + 2 + high]) << 8 | np.int64(b[at + 3 - high]))
                if stop > limit:
                    bad[body] = at if bad[body] < 0 else bad[body]
                    break
                columns[0, count] = np.int64(b[at + high]) << 8 | np.int64(b[at + 1 - high])
                columns[3, count] = 0 if bare else -1
                if not bare and stop - start >= 2:
                    columns[3, count] = np.int64(b[start + high]) << 8 | np.int64(b[start + 1 - high])
                start = start if bare else min(start + 2, stop)
                columns[1, count], columns[2, count], columns[4, count] = start, stop, part if width > 0 else half
                count += 1
                at = stop
    offsets[bodies.shape[1]] = count
    return count


def walk(
    buffer: Bytes,
    start: Ints,
    stop: Ints,
    order: Order,
    forms: Ints | None = None,
    skip: Ints | None = None,
    before: Bools | None = None,
    bare: Bools | None = None,
) -> Cells:
    """The columns of the bodies ``[start, stop)`` of a buffer; a body with a start below 0 has none.

    ``forms``: a :class:`Form` for each (None: COLUMNS), ``skip``: bytes before the columns (SyskeyLen; None: 0),
    ``before``: the only image of such a body is a before image (None: an after image), ``bare``: the columns are
    big-endian without null indicators (None: none are).
    """
    none = np.zeros(len(start), dtype=np.int64)
    forms, skip = none if forms is None else forms, none if skip is None else skip
    bare = none > 0 if bare is None else bare
    half = none + Half.AFTER if before is None else np.where(before, Half.BEFORE, Half.AFTER)
    is_read = (start >= 0) & (start < stop) & (forms != Form.OPAQUE)
    bodies = np.stack([np.where(is_read, start + skip, -1), stop, _WIDTHS[forms], half, bare])
    most = int((stop - start)[is_read].sum()) // _DESCRIPTOR
    columns = np.empty((5, most), dtype=np.int64)
    offsets, bad = np.empty(len(start) + 1, dtype=np.int64), np.full(len(start), -1, dtype=np.int64)
    count = _walk(_readable(buffer), bodies, order == "big", columns, offsets, bad)
    return Cells(columns[:, :count], bare, offsets, bad)


def columns_of(
    body: bytes, order: Order, form: Form = Form.COLUMNS, skip: int = 0, half: Half = Half.AFTER, bare: bool = False
) -> tuple[list[Cell], int]:
    """The complete columns of one body, and their end if it is before that of the body (else -1). See :func:`walk`."""
    start, size, forms, skips = np.array([[0], [len(body)], [form], [skip]])
    before, bares = np.array([[half is Half.BEFORE], [bare]])
    cells = walk(np.frombuffer(body, dtype=np.uint8), start, size, order, forms, skips, before, bares)
    columns = np.stack([cells.index, cells.start, cells.stop, cells.indicator, cells.half], axis=1).tolist()
    found = [Cell(index, first, last, null, Half(part), bare) for index, first, last, null, part in columns]
    return found, int(cells.bad[0])


# --- detected properties of bodies: byte order, prefix ----------------------------------------------------------------

_ORDERS: Final[tuple[Order, Order]] = ("little", "big")
_OTHER_PREFIX: Final = np.array([Form.COLUMNS, Form.KEYED, Form.UNIFIED_4, Form.UNIFIED_2, Form.OPAQUE])
_SAMPLE: Final = 4000


def _fit(buffer: Bytes, start: Ints, stop: Ints, order: Order, forms: Ints | None, skip: Ints | None) -> Ints:
    """How well bodies can be walked, as [3, bodies]: 1 if to their end with ascending indexes in each image, 2 if all
    columns begin with a null indicator as well; the number of complete columns if all begin with one; and of complete
    columns."""
    cells = walk(buffer, start, stop, order, forms, skip)
    count, index, row, half = np.diff(cells.offsets), cells.index, cells.row, cells.half
    falls = (row[1:] == row[:-1]) & (half[1:] == half[:-1]) & (index[1:] <= index[:-1])
    rises = np.bincount(row[1:][falls], minlength=len(start)) == 0
    even = np.bincount(row[cells.odd], minlength=len(start)) == 0
    ends = (cells.bad < 0) & (count > 0) & rises
    return np.stack([ends * (1 + even), count * (rises & even), count * rises])


def _sample(start: Ints, stop: Ints) -> Ints:
    """Some bodies, evenly chosen among those that have bytes."""
    rows = np.flatnonzero((start >= 0) & (stop > start))
    return rows[:: max(1, -(-len(rows) // _SAMPLE))]


def detect_order(
    buffer: Bytes, start: Ints, stop: Ints, forms: Ints | None = None, skip: Ints | None = None
) -> tuple[Order | None, str]:
    """The byte order in which more bodies are columns to their exact end, and a sentence of evidence. For a body that
    ends exactly in both, the order in which each column begins with a null indicator counts. Unified updates may have
    either prefix length here. Truncated bodies count by their complete columns, if no body shows the order. None
    without evidence.
    """
    rows = _sample(start, stop)
    if not len(rows):
        return None, "No record has a body."
    start, stop, skip = start[rows], stop[rows], None if skip is None else skip[rows]
    forms = np.zeros(len(rows), dtype=np.int64) if forms is None else forms[rows]
    both = (forms, _OTHER_PREFIX[forms])
    fits = [np.maximum(*(_fit(buffer, start, stop, order, one, skip) for one in both)) for order in _ORDERS]
    incomplete = ", all of them incomplete, have more complete columns"
    evidence = (" end exactly, with increasing column indexes", incomplete, incomplete)
    for what, little, big in zip(evidence, *fits, strict=True):
        votes = {"little": int((little > big).sum()), "big": int((big > little).sum())}
        if votes["little"] != votes["big"]:
            order, other_order = sorted(_ORDERS, key=votes.__getitem__, reverse=True)
            read = f"Read {order}-endian, {votes[order]} of {len(rows)} sampled bodies{what}"
            return order, f"{read}; read {other_order}-endian, {votes[other_order]}."
    return None, f"None of {len(rows)} sampled bodies shows whether it is little-endian or big-endian."


def detect_unified(
    buffer: Bytes, start: Ints, stop: Ints, order: Order, skip: Ints | None = None
) -> tuple[Form | None, str]:
    """Whether 2 or 4 bytes precede the before image of unified updates, and a sentence of evidence. The bodies are
    those of unified updates only. None without bodies or evidence.
    """
    rows = _sample(start, stop)
    if not len(rows):
        return None, "No unified update has a body."
    skip = None if skip is None else skip[rows]
    votes = {}
    for form in (Form.UNIFIED_2, Form.UNIFIED_4):
        forms = np.full(len(rows), form, dtype=np.int64)
        votes[form] = _fit(buffer, start[rows], stop[rows], order, forms, skip)[0] > 1
    two = int((votes[Form.UNIFIED_2] & ~votes[Form.UNIFIED_4]).sum())
    four = int((votes[Form.UNIFIED_4] & ~votes[Form.UNIFIED_2]).sum())
    seen = f"of {len(rows)} sampled unified updates, both images end exactly: {two} with 2 bytes, {four} with 4."
    if two == four:
        return None, f"The size of the length that precedes the before image is unknown; {seen}"
    form, width = (Form.UNIFIED_2, 2) if two > four else (Form.UNIFIED_4, 4)
    return form, f"The length that precedes the before image has {width} bytes; {seen}"
