"""From the bytes of record bodies to columns (docs/formats/goldengate.md §4).

A column is its index in the table (from 0) and a length, two bytes each in the byte order of the trail, then so many
bytes: a null indicator of two bytes (0000: there is a value, FFFF: NULL) and the value. A NonStop writes the indicator
only in columns that may be NULL (§4.8): the cells of such bodies are all of a column's bytes. Bodies are walked side by
side, one column at a time. NonStop's Enscribe updates are pairs of field offset and field length instead; nothing in a
body tells the two apart, so these are read as columns where they happen to fit and fail otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cdcwb.formats.goldengate.decode import Bools, Bytes, Ints, Order, PrintedColumn

__all__ = [
    "UNKNOWN_ORDER",
    "Cell",
    "Cells",
    "Form",
    "Half",
    "body_of_columns",
    "columns_of",
    "detect_indicators",
    "detect_order",
    "detect_unified",
    "not_columns",
    "odd_indicator",
    "walk",
    "walk_one",
]


PRESENT: Final = 0x0000
NULL: Final = 0xFFFF
_NO_INDICATOR: Final = -1
_DESCRIPTOR: Final = 4
_INDICATOR: Final = 2


UNKNOWN_ORDER: Final = (
    "the byte order of the data is unknown, so no values are decoded; give it with the option byte_order"
)


def not_columns(place: int) -> str:
    """What is wrong with data of which byte ``place`` and what follows are no columns."""
    return f"from byte {place} on the data are not columns, so none of its values are decoded"


def odd_indicator(shown: str) -> str:
    """What is wrong with a column that begins with something else than a null indicator."""
    return f"expected the null indicator 0000 or ffff, found {shown}"


class Form(IntEnum):
    """How a body is laid out."""

    COLUMNS = 0
    """Columns from beginning to end: one image."""
    KEYED = 1
    """GGSPKUpdate: two bytes of length and so many bytes of key columns as before image; the rest is the after
    image."""
    UNIFIED_2 = 2
    """GGSUnifiedUpdate, GGSUnifiedPKUpdate: two bytes of length, so many bytes of before image, then the after image
    (by analogy to KEYED; no real body is known)."""
    UNIFIED_4 = 3
    """The same with four bytes of length."""
    OPAQUE = 4
    """No columns: a body to leave alone."""


_PREFIX: Final = {Form.KEYED: 2, Form.UNIFIED_2: 2, Form.UNIFIED_4: 4}


class Half(IntEnum):
    """The image that a column belongs to."""

    BEFORE = 0
    AFTER = 1


@dataclass(frozen=True, slots=True)
class Cell:
    """One column of one body. ``start`` and ``stop`` are the value's place in the body, behind the null indicator,
    which is ``indicator`` (-1: the column is too short to have one). ``bare``: the place is that of all bytes of the
    column, which may begin with a null indicator."""

    index: int
    start: int
    stop: int
    indicator: int
    half: Half
    bare: bool = False

    @property
    def is_null(self) -> bool:
        """Is the value SQL NULL?"""
        return self.indicator == NULL


class Cells:
    """The columns of many bodies, those of a body together, in their order.

    For each column: ``row`` (which body), ``index`` (of the column), ``start`` and ``stop`` (the value behind the null
    indicator, bytes of the buffer), ``is_null``, ``half`` (a :class:`Half`), ``whole`` (there is a null indicator) and
    ``odd`` (it is missing, or neither 0000 nor FFFF). ``bare``: the cells that are all bytes of their column, which may
    begin with a null indicator; None if none is. ``offsets``: body k has the columns ``offsets[k]`` up to
    ``offsets[k + 1]``. ``bad`` for each body: the place in the buffer where the walk found what is no column, -1 if it
    came to the end; the columns before that place are there.
    """

    __slots__ = ("bad", "bare", "half", "index", "is_null", "odd", "offsets", "row", "start", "stop", "whole")

    def __init__(
        self,
        offsets: Ints,
        index: Ints,
        start: Ints,
        stop: Ints,
        indicator: Ints,
        half: npt.NDArray[np.int8],
        bad: Ints,
        bare: Bools | None = None,
    ) -> None:
        self.offsets = offsets
        self.row: Ints = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        self.index = index
        self.start = start
        self.stop = stop
        self.is_null: Bools = indicator == NULL
        self.odd: Bools = (indicator != PRESENT) & ~self.is_null
        self.whole: Bools = indicator != _NO_INDICATOR
        self.half = half
        self.bad = bad
        self.bare = bare

    def __len__(self) -> int:
        return len(self.index)

    def indicator_text(self, buffer: Bytes, cell: int) -> str:
        """The null indicator of a column as hex; a word for one that is missing."""
        return buffer[int(self.start[cell]) - _INDICATOR :][:_INDICATOR].tobytes().hex() if self.whole[cell] else "none"


# --- one body ---------------------------------------------------------------------------------------------------------


def walk_one(
    body: bytes, order: Order, form: Form = Form.COLUMNS, skip: int = 0, half: Half = Half.AFTER, bare: bool = False
) -> list[Cell] | None:
    """The columns of one body; None if it is not columns to its end. ``skip``: bytes of a system key before them.
    ``bare``: null indicators are only in columns that may be NULL."""
    cells, bad = columns_of(body, order, form, skip, half, bare)
    return cells if bad < 0 else None


def columns_of(
    body: bytes, order: Order, form: Form = Form.COLUMNS, skip: int = 0, half: Half = Half.AFTER, bare: bool = False
) -> tuple[list[Cell], int]:
    """The columns of one body as far as they are whole, and where they end before the body does (-1: they do not)."""
    cells: list[Cell] = []
    if form is Form.OPAQUE or not body:
        return cells, -1
    at, size, bad = min(skip, len(body)), len(body), -1
    if skip > size:
        return cells, size
    parts = [(at, size, half)]
    width = _PREFIX.get(form, 0)
    if width and at < size:
        middle = at + width + int.from_bytes(body[at : at + width], order)
        if at + width > size:
            return cells, at
        if middle > size:
            bad = at
        middle = min(middle, size)
        parts = [(at + width, middle, Half.BEFORE), (middle, size, Half.AFTER)]
    for first, last, of in parts:
        failed = _columns_between(body, first, last, order, of, cells, bare)
        if failed >= 0 and bad < 0:
            bad = failed
    return cells, bad


def _columns_between(body: bytes, at: int, limit: int, order: Order, half: Half, cells: list[Cell], bare: bool) -> int:
    while at < limit:
        index = int.from_bytes(body[at : at + 2], order)
        start = at + _DESCRIPTOR
        stop = start + int.from_bytes(body[at + 2 : start], order)
        if stop > limit:
            return at
        if bare:
            cells.append(Cell(index, start, stop, PRESENT, half, True))
        elif stop - start >= _INDICATOR:
            cells.append(Cell(index, start + 2, stop, int.from_bytes(body[start : start + 2], order), half))
        else:
            cells.append(Cell(index, stop, stop, _NO_INDICATOR, half))
        at = stop
    return -1


def body_of_columns(columns: Sequence[PrintedColumn], order: Order, form: Form = Form.COLUMNS) -> tuple[bytes, bool]:
    """A body made from columns that are shown one by one, and whether all of it is there.

    A column without bytes is left out; one whose bytes are cut is not whole and left out too. For a form of two
    images, columns of the halves ``key`` and ``before`` make the before image.
    """
    parts: dict[bool, list[bytes]] = {True: [], False: []}
    complete = True
    for column in columns:
        if column.data is None or len(column.data) < column.length:
            complete = False
            continue
        number, length = column.index.to_bytes(2, order), column.length.to_bytes(2, order)
        parts[column.half != "after"].append(number + length + column.data[: column.length])
    before, after = b"".join(parts[True]), b"".join(parts[False])
    width = _PREFIX.get(form, 0)
    return (len(before).to_bytes(width, order) if width else b"") + before + after, complete


# --- many bodies ------------------------------------------------------------------------------------------------------


def walk(
    buffer: Bytes,
    start: Ints,
    stop: Ints,
    order: Order,
    forms: npt.NDArray[np.integer] | None = None,
    skip: Ints | None = None,
    before: Bools | None = None,
    bare: Bools | None = None,
) -> Cells:
    """The columns of the bodies ``[start, stop)`` of a buffer; a body with a start below 0 has none.

    ``forms``: a :class:`Form` for each (None: COLUMNS), ``skip``: bytes before the columns (SyskeyLen; None: 0),
    ``before``: the only image of such a body is a before image (None: an after image), ``bare``: null indicators are
    only in columns that may be NULL (None: in all).
    """
    count = len(start)
    start, stop = np.where(start < 0, 0, start), np.where(start < 0, 0, stop)
    bad = np.full(count, -1, dtype=np.int64)
    if skip is not None:
        short = (start + skip > stop) & (start < stop)
        bad[short] = stop[short]
        start = np.minimum(start + skip, stop)
    words = _words(buffer, int(stop.max(initial=0)))
    half: npt.NDArray[np.int8] = np.full(count, Half.AFTER, dtype=np.int8)
    if before is not None:
        half[before] = Half.BEFORE
    if forms is None or not forms.any():
        return _walk(words, start, stop, half, order, np.arange(count), bad, bare)
    opaque = forms == Form.OPAQUE
    stop = np.where(opaque, start, stop)
    bad[opaque] = -1
    middle = start.copy()
    first = start.copy()
    double = np.zeros(count, dtype=bool)
    for form, width in _PREFIX.items():
        rows = np.flatnonzero((forms == form) & (start < stop))
        if not len(rows):
            continue
        double[rows] = True
        word = words[start[rows]]
        if order == "big":
            length = word.byteswap() >> np.uint64(64 - 8 * width)
        else:
            length = word & np.uint64((1 << 8 * width) - 1)
        begin = start[rows] + width
        end = begin + length.astype(np.int64)
        cut = begin > stop[rows]
        over = end > stop[rows]
        bad[rows[over]] = start[rows[over]]
        first[rows] = np.where(cut, stop[rows], begin)
        middle[rows] = np.minimum(end, stop[rows])
    # a body of two images is walked as two
    pieces = 1 + double
    body = np.repeat(np.arange(count), pieces)
    second = np.zeros(len(body), dtype=bool)
    second[1:] = body[1:] == body[:-1]
    begins = np.where(second, middle[body], first[body])
    ends = np.where(double[body] & ~second, middle[body], stop[body])
    halves = np.where(double[body], np.where(second, Half.AFTER, Half.BEFORE), half[body]).astype(np.int8)
    return _walk(words, begins, ends, halves, order, body, bad, bare)


def _words(buffer: Bytes, last: int) -> npt.NDArray[np.uint64]:
    """Eight bytes from each byte of the buffer on, zeros behind it."""
    if last + 8 > len(buffer):
        buffer = np.concatenate([buffer[:last], np.zeros(16, dtype=np.uint8)])
    else:
        buffer = np.ascontiguousarray(buffer)
    words: npt.NDArray[np.uint64] = np.ndarray((len(buffer) - 7,), dtype="<u8", buffer=buffer, strides=(1,))
    return words


def _walk(
    words: npt.NDArray[np.uint64],
    start: Ints,
    stop: Ints,
    half: npt.NDArray[np.int8],
    order: Order,
    body: Ints,
    bad: Ints,
    bare: Bools | None,
) -> Cells:
    """Walks pieces of bodies; ``body`` says whose each is. ``bad`` is filled in."""
    shifts = (0, 16, 32) if order == "little" else (48, 32, 16)
    mask = np.uint64(0xFFFF)
    pieces = np.flatnonzero(start < stop)
    at, limit = start[pieces], stop[pieces]
    counts = np.zeros(len(start), dtype=np.int64)
    failed = np.full(len(start), -1, dtype=np.int64)
    steps: list[tuple[Ints, npt.NDArray[np.uint64], Ints, Ints]] = []
    while len(pieces):
        found = words[at]
        if order == "big":
            found = found.byteswap()
        begin = at + _DESCRIPTOR
        end = begin + ((found >> np.uint64(shifts[1])) & mask).view(np.int64)
        fits = end <= limit
        if not fits.all():
            failed[pieces[~fits]] = at[~fits]
            pieces, found, begin, end, limit = pieces[fits], found[fits], begin[fits], end[fits], limit[fits]
            if not len(pieces):
                break
        counts[pieces] += 1
        steps.append((pieces, found, begin, end))
        on = end < limit
        at = end
        if not on.all():
            pieces, at, limit = pieces[on], end[on], limit[on]
    wrong = np.flatnonzero(failed >= 0)
    wrong = wrong[bad[body[wrong]] < 0][::-1]  # the last assignment counts: that of a body's first piece
    bad[body[wrong]] = failed[wrong]
    offsets = np.zeros(len(start) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    total = int(offsets[-1])
    word = np.empty(total, dtype=np.uint64)
    value, last = np.empty((2, total), dtype=np.int64)
    for step, (pieces, found, begin, end) in enumerate(steps):
        place = offsets[pieces]
        place += step
        word[place] = found
        value[place] = begin
        last[place] = end
    value += _INDICATOR
    index = ((word >> np.uint64(shifts[0])) & mask).view(np.int64)
    word >>= np.uint64(shifts[2])
    word &= mask
    indicator = word.view(np.int64)
    of_bare = None
    if bare is not None and bare.any():
        of_bare = np.repeat(bare[body], counts)
        value[of_bare] -= _INDICATOR
        indicator[of_bare] = PRESENT
    short = value > last
    if short.any():
        value[short] = last[short]
        indicator[short] = _NO_INDICATOR
    if len(start) != len(bad):  # from the pieces' offsets to the bodies'
        ends = offsets[1:]
        final = np.flatnonzero(np.append(body[1:] != body[:-1], True))
        of_bodies = np.concatenate([np.zeros(1, dtype=np.int64), ends[final]])
    else:
        of_bodies = offsets
    return Cells(of_bodies, index, value, last, indicator, np.repeat(half, counts), bad, of_bare)


_ORDERS: Final[tuple[Order, Order]] = ("little", "big")
_SAMPLE: Final = 4000


class _Fit(NamedTuple):
    """How well bodies walk. ``ends``: to their end, indexes rising in each image; ``whole``: and each column begins
    with a null indicator. ``columns`` that are whole and begin with one, ``cells`` that are whole."""

    ends: Bools
    whole: Bools
    columns: Ints
    cells: Ints


def _fit(
    buffer: Bytes, start: Ints, stop: Ints, order: Order, forms: npt.NDArray[np.integer] | None, skip: Ints | None
) -> _Fit:
    cells = walk(buffer, start, stop, order, forms, skip)
    columns = np.diff(cells.offsets)
    if len(cells) == 0:
        never = np.zeros(len(start), dtype=bool)
        return _Fit(never, never, columns, columns)
    rises = np.ones(len(cells), dtype=bool)
    same = (cells.row[1:] == cells.row[:-1]) & (cells.half[1:] == cells.half[:-1])
    rises[1:] = ~same | (cells.index[1:] > cells.index[:-1])
    falls = np.bincount(cells.row[~rises], minlength=len(start)) > 0
    odd = np.bincount(cells.row[cells.odd], minlength=len(start)) > 0
    ends = (cells.bad < 0) & (columns > 0) & ~falls
    return _Fit(ends, ends & ~odd, np.where(falls | odd, 0, columns), np.where(falls, 0, columns))


def _sample(start: Ints, stop: Ints) -> Ints:
    """Some bodies, evenly chosen among those that have bytes."""
    rows = np.flatnonzero((start >= 0) & (stop > start))
    return rows[:: max(1, -(-len(rows) // _SAMPLE))]


def detect_order(
    buffer: Bytes,
    start: Ints,
    stop: Ints,
    forms: npt.NDArray[np.integer] | None = None,
    skip: Ints | None = None,
) -> tuple[Order | None, str]:
    """The byte order in which more bodies are columns to their very end, and a sentence of evidence.

    Of a body that ends exactly in both, the order in which each column begins with a null indicator counts. Unified
    updates may have either length in front here. Bodies that were cut count by the columns that are whole, if no body
    tells one order alone. None if nothing tells.
    """
    rows = _sample(start, stop)
    if not len(rows):
        return None, "No record has a body."
    forms = None if forms is None else forms[rows]
    skip = None if skip is None else skip[rows]
    fits = {}
    for order in _ORDERS:
        fit = _fit(buffer, start[rows], stop[rows], order, forms, skip)
        if forms is not None and (unified := np.isin(forms, (Form.UNIFIED_2, Form.UNIFIED_4))).any():
            other = np.where(unified, Form.UNIFIED_2 + Form.UNIFIED_4 - forms, forms)
            again = _fit(buffer, start[rows], stop[rows], order, other, skip)
            fit = _Fit(
                fit.ends | again.ends,
                fit.whole | again.whole,
                np.maximum(fit.columns, again.columns),
                np.maximum(fit.cells, again.cells),
            )
        fits[order] = fit
    little, big = fits["little"], fits["big"]
    ends = _votes(little.ends + little.whole * 1, big.ends + big.whole * 1)
    if ends["little"] != ends["big"]:
        return _decided(ends, f"of {len(rows)} sampled bodies end exactly, with increasing column indexes")
    for of_little, of_big in ((little.columns, big.columns), (little.cells, big.cells)):
        further = _votes(of_little, of_big)
        if further["little"] != further["big"]:
            return _decided(
                further, f"of {len(rows)} sampled bodies, all of them incomplete, have more complete columns"
            )
    return None, f"None of {len(rows)} sampled bodies shows whether it is little-endian or big-endian."


def _votes(little: Ints, big: Ints) -> dict[str, int]:
    return {"little": int((little > big).sum()), "big": int((big > little).sum())}


def _decided(votes: dict[str, int], what: str) -> tuple[Order, str]:
    order: Order = "little" if votes["little"] > votes["big"] else "big"
    other = "big" if order == "little" else "little"
    return order, f"Read {order}-endian, {votes[order]} {what}; read {other}-endian, {votes[other]}."


def detect_indicators(
    buffer: Bytes,
    start: Ints,
    stop: Ints,
    order: Order,
    forms: npt.NDArray[np.integer] | None = None,
    skip: Ints | None = None,
) -> tuple[int, int]:
    """Of the bodies that end exactly: in how many each column begins with a null indicator, and in how many not."""
    fit = _fit(buffer, start, stop, order, forms, skip)
    return int(fit.whole.sum()), int((fit.ends & ~fit.whole).sum())


def detect_unified(
    buffer: Bytes, start: Ints, stop: Ints, order: Order, skip: Ints | None = None
) -> tuple[Form | None, str]:
    """Whether 2 or 4 bytes stand before the before image of unified updates, and a sentence of evidence.

    The bodies given are those of unified updates alone. None if there are none, or nothing tells.
    """
    rows = _sample(start, stop)
    if not len(rows):
        return None, "No unified update has a body."
    skip = None if skip is None else skip[rows]
    votes = {}
    for form in (Form.UNIFIED_2, Form.UNIFIED_4):
        forms = np.full(len(rows), form, dtype=np.int64)
        votes[form] = _fit(buffer, start[rows], stop[rows], order, forms, skip).whole
    two = int((votes[Form.UNIFIED_2] & ~votes[Form.UNIFIED_4]).sum())
    four = int((votes[Form.UNIFIED_4] & ~votes[Form.UNIFIED_2]).sum())
    seen = f"of {len(rows)} sampled unified updates, both images end exactly: {two} with 2 bytes, {four} with 4."
    if two == four:
        return None, f"The size of the length that precedes the before image is unknown; {seen}"
    form, width = (Form.UNIFIED_2, 2) if two > four else (Form.UNIFIED_4, 4)
    return form, f"The length that precedes the before image has {width} bytes; {seen}"
