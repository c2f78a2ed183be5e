"""What a trail does not say of its bodies, by trying: their byte order, whether each column has a null indicator, and
the length before unified updates (docs/formats/goldengate.md §4.2, §4.5 and §4.8)."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cdcwb.formats.goldengate.body import Bools, Bytes, Form, Ints, Order, walk

__all__ = ["detect_indicators", "detect_order", "detect_unified"]

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
