"""Decodes the bytes of record bodies to columns (docs/formats/goldengate.md §4).

A column is its index in the table (from 0) and a length, two bytes each in the byte order of the trail, then that many
bytes: a null indicator of two bytes (0000: a value, FFFF: NULL) and the value. A NonStop writes the indicator only in
columns that may be NULL (§4.8): the cells of such bodies are all of a column's bytes. NonStop's Enscribe updates are
pairs of field offset and field length instead; a body does not distinguish the two, so these are read as columns if
they happen to fit, and fail otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cdcwb.formats.goldengate.decode import Bools, Bytes, Ints, Order, PrintedColumn, readable
from cdcwb.formats.goldengate.decode.grammar import wide
from cdcwb.formats.kernels import kernel

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
    """The problem of data whose bytes from ``place`` on are not columns."""
    return f"from byte {place} on the data are not columns, so none of its values are decoded"


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
_COLUMNS, _UNIFIED_4, _OPAQUE = int(Form.COLUMNS), int(Form.UNIFIED_4), int(Form.OPAQUE)


class Half(IntEnum):
    """The image that a column belongs to."""

    BEFORE = 0
    AFTER = 1


@dataclass(frozen=True, slots=True)
class Cell:
    """One column of one body. ``start`` and ``stop`` locate the value in the body, after the null indicator, which is
    ``indicator`` (-1: the column is too short for one). ``bare``: they locate all bytes of the column, which may begin
    with a null indicator."""

    index: int
    start: int
    stop: int
    indicator: int
    half: Half
    bare: bool = False

    @property
    def is_null(self) -> bool:
        """Whether the value is SQL NULL."""
        return self.indicator == NULL


class Cells:
    """The columns of many bodies, those of a body together, in their order.

    For each column: ``row`` (the body), ``index`` (of the column), ``start`` and ``stop`` (the value after the null
    indicator, bytes of the buffer), ``indicator`` (-1: missing), ``half`` (a :class:`Half`), ``is_null``, ``whole``
    (there is a null indicator) and ``odd`` (it is missing, or neither 0000 nor FFFF). ``bare``: the cells that are all
    bytes of their column, which may begin with a null indicator; None if none is. ``offsets``: body k has the columns
    ``offsets[k]`` up to ``offsets[k + 1]``. ``bad`` for each body: the offset in the buffer at which the walk failed,
    -1 if it reached the end; the columns before that offset are included.
    """

    def __init__(self, table: Ints, offsets: Ints, bad: Ints) -> None:
        self.index, self.start, self.stop, self.indicator, half, bare = table
        self.half: npt.NDArray[np.int8] = half.astype(np.int8)
        self.bare: Bools | None = bare == 1 if bare.any() else None
        self.offsets, self.bad = offsets, bad
        self.row: Ints = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        self.is_null: Bools = self.indicator == NULL
        self.odd: Bools = (self.indicator != PRESENT) & ~self.is_null
        self.whole: Bools = self.indicator != _NO_INDICATOR

    def __len__(self) -> int:
        return len(self.index)

    def of(self, body: int, base: int = 0) -> list[Cell]:
        """The columns of one body; offsets count from ``base``."""
        some = slice(int(self.offsets[body]), int(self.offsets[body + 1]))
        numbers = np.stack([self.index, self.start - base, self.stop - base, self.indicator, self.half])[:, some]
        bare = np.zeros(len(self), dtype=np.bool_) if self.bare is None else self.bare
        return [
            Cell(index, start, stop, indicator, Half(half), is_bare)
            for (index, start, stop, indicator, half), is_bare in zip(
                numbers.T.tolist(), bare[some].tolist(), strict=True
            )
        ]

    def indicator_text(self, buffer: Bytes, cell: int) -> str:
        """The null indicator of a column as hex; a word for one that is missing."""
        return buffer[int(self.start[cell]) - _INDICATOR :][:_INDICATOR].tobytes().hex() if self.whole[cell] else "none"


@kernel
def _number(b: Bytes, at: int, size: int, is_big: bool) -> int:
    value = 0
    for k in range(size):
        value = value << 8 | wide(b[at + k if is_big else at + size - 1 - k])
    return value


@kernel
def _walk(b: Bytes, given: Ints, is_big: bool, table: Ints, offsets: Ints, bad: Ints) -> int:
    """See :func:`walk`. ``given``: start, stop, form, skip, half and bare of each body; returns the number of cells."""
    count = 0
    for body in range(given.shape[1]):
        offsets[body] = count
        first, last, form, half, bare = given[0, body], given[1, body], given[2, body], given[4, body], given[5, body]
        at = first + given[3, body]
        if first < 0 or first >= last or form == _OPAQUE:
            continue
        if at > last:
            bad[body] = last
            continue
        middle, width = at, 0 if form == _COLUMNS else 4 if form == _UNIFIED_4 else 2
        if width and at < last:
            if at + width > last:
                bad[body] = at
                continue
            middle = at + width + _number(b, at, width, is_big)
            bad[body] = at if middle > last else -1
            at, middle = at + width, min(middle, last)
        for part in range(2):
            limit = last if part else middle
            at = middle if part else at
            while at < limit:
                stop = limit + 1 if at + 4 > limit else at + 4 + _number(b, at + 2, 2, is_big)
                if stop > limit:
                    bad[body] = at if bad[body] < 0 else bad[body]
                    break
                start, indicator = at + 4, 0
                if not bare:
                    indicator = _number(b, start, 2, is_big) if stop - start >= 2 else -1
                    start = min(start + 2, stop)
                table[0, count], table[1, count], table[2, count] = _number(b, at, 2, is_big), start, stop
                table[3, count], table[4, count], table[5, count] = indicator, half, bare
                if width:
                    table[4, count] = part
                count += 1
                at = stop
    offsets[given.shape[1]] = count
    return count


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
    given = np.zeros((6, len(start)), dtype=np.int64)
    given[4] = Half.AFTER
    for at, values in enumerate((start, stop, forms, skip, None if before is None else ~before, bare)):
        if values is not None:
            given[at] = values
    most = int(np.where(given[0] < 0, 0, np.maximum(given[1] - given[0], 0)).sum()) // _DESCRIPTOR
    table = np.empty((6, most), dtype=np.int64)
    offsets, bad = np.empty(len(start) + 1, dtype=np.int64), np.full(len(start), -1, dtype=np.int64)
    count = _walk(readable(buffer), given, order == "big", table, offsets, bad)
    return Cells(table[:, :count], offsets, bad)


def columns_of(
    body: bytes, order: Order, form: Form = Form.COLUMNS, skip: int = 0, half: Half = Half.AFTER, bare: bool = False
) -> tuple[list[Cell], int]:
    """The complete columns of one body, and their end if it is before that of the body (else -1). ``skip``: bytes of a
    system key before them; ``bare``: null indicators are only in columns that may be NULL."""
    size, before = np.array([len(body)]), np.array([half is Half.BEFORE])
    given = np.array([form]), np.array([skip]), before, np.array([bare])
    cells = walk(np.frombuffer(body, dtype=np.uint8), np.zeros(1, dtype=np.int64), size, order, *given)
    return cells.of(0), int(cells.bad[0])


def body_of_columns(columns: Sequence[PrintedColumn], order: Order, form: Form = Form.COLUMNS) -> tuple[bytes, bool]:
    """A body from separately printed columns, and whether it is complete. A column without bytes, or with truncated
    bytes, is left out, and so is a fragment of a large object. For a form of two images, columns of the halves ``key``
    and ``before`` make the before image.
    """
    parts: dict[bool, list[bytes]] = {True: [], False: []}
    complete = True
    for column in columns:
        if column.data is None or not 0 <= column.length <= len(column.data):
            complete = False
            continue
        number, length = column.index.to_bytes(2, order), column.length.to_bytes(2, order)
        parts[column.half != "after"].append(number + length + column.data[: column.length])
    before, after = b"".join(parts[True]), b"".join(parts[False])
    width = _PREFIX.get(form, 0)
    return (len(before).to_bytes(width, order) if width else b"") + before + after, complete


# --- detected properties of bodies: byte order, null indicators, prefix -----------------------------------------------

_ORDERS: Final[tuple[Order, Order]] = ("little", "big")
_SAMPLE: Final = 4000


class _Fit(NamedTuple):
    """How well bodies can be walked. ``ends``: bodies walked to their end, with ascending indexes in each image;
    ``whole``: those whose columns all begin with a null indicator. ``columns``: complete ones that begin with one,
    ``cells``: complete ones."""

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
    """The byte order in which more bodies are columns to their exact end, and a sentence of evidence. For a body that
    ends exactly in both, the order in which each column begins with a null indicator counts. Unified updates may have
    either prefix length here. Truncated bodies count by their complete columns, if no body shows the order. None
    without evidence.
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
    """Of the bodies that end exactly: the number of those whose columns all begin with a null indicator, and of the
    others."""
    fit = _fit(buffer, start, stop, order, forms, skip)
    return int(fit.whole.sum()), int((fit.ends & ~fit.whole).sum())


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
        votes[form] = _fit(buffer, start[rows], stop[rows], order, forms, skip).whole
    two = int((votes[Form.UNIFIED_2] & ~votes[Form.UNIFIED_4]).sum())
    four = int((votes[Form.UNIFIED_4] & ~votes[Form.UNIFIED_2]).sum())
    seen = f"of {len(rows)} sampled unified updates, both images end exactly: {two} with 2 bytes, {four} with 4."
    if two == four:
        return None, f"The size of the length that precedes the before image is unknown; {seen}"
    form, width = (Form.UNIFIED_2, 2) if two > four else (Form.UNIFIED_4, 4)
    return form, f"The length that precedes the before image has {width} bytes; {seen}"
