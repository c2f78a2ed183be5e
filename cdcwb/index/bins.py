"""Changes counted by time, table, operation, outcome, user and set of changed columns: what a page shows of a capture
whose changes are too many to look at one by one.

Counting is a pair of functions: :func:`counted` for some of the changes, :func:`merged` for what it gave of several.
The bins are as narrow as a limit to the rows lets them be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from cdcwb.index.columns import NO_TIME

if TYPE_CHECKING:
    from cdcwb.index.changes import Changes

__all__ = ["BINNED_ABOVE", "ONE_BY_ONE", "WIDTHS", "binned", "counted", "merged"]

BINNED_ABOVE: Final = 20_000_000
"""So many changes are looked at one by one; more are binned."""

ONE_BY_ONE: Final = 2_000_000
"""Of changes that are binned, a selection of so many is looked at one by one."""

WIDTHS: Final = (*(10**e for e in range(8)), *(n * 1_000_000 for n in (60, 300, 900, 3600, 43_200, 86_400)))
"""Widths of bins in microseconds. The bins of charts, which are wider by far, hold a whole number of them."""

_BINS: Final = 4_096
_ROWS: Final = 2_000_000
_CHUNK: Final = 4_000_000
_BY: Final = ("at", "table", "operation", "outcome", "user", "set")
_WIDE: Final = 1 << 62

Ints = npt.NDArray[np.int64]
Counted = dict[str, npt.NDArray[Any]]


def binned(changes: Changes, rows: int = _ROWS) -> tuple[Counted, int]:
    """The changes in bins, in the order of their first records, and the width of a bin in microseconds: the least of
    :data:`WIDTHS` that makes at most 4,096 bins and ``rows`` rows, or the largest."""
    known = changes.at[changes.timed]
    extent = int(known.max()) - int(known.min()) if len(known) else 0
    width = next((width for width in WIDTHS if extent < width * _BINS), WIDTHS[-1])
    whole: Counted | None = None
    for first in range(0, len(changes), _CHUNK):
        part = counted(changes, first, first + _CHUNK, width)
        whole = part if whole is None else merged([whole, part], width)
        while len(whole["record"]) > rows and width < WIDTHS[-1]:
            width = WIDTHS[WIDTHS.index(width) + 1]
            whole = merged([whole], width)
    assert whole is not None
    order = np.argsort(whole["record"], kind="stable")
    return {name: one[order] for name, one in whole.items()}, width


def counted(changes: Changes, first: int, end: int, width_us: int) -> Counted:
    """The changes from ``first`` to ``end`` in bins of ``width_us`` microseconds: what a row of
    :class:`~cdcwb.index.changes.Changes` holds that stands for several."""
    part = slice(first, end)
    at = changes.at[part]
    rows: Counted = {name: changes.codes[name][part] for name in ("table", "operation", "outcome")}
    rows |= {"user": changes.users[part], "set": changes.set[part], "record": changes.record[part]}
    rows |= {"at": at, "last_at": at, "bytes": changes.bytes[part], "times": np.ones(len(at), np.int64)}
    return merged([rows], width_us)


def merged(parts: Sequence[Counted], width_us: int) -> Counted:
    """Several counts as one, in bins of ``width_us`` microseconds, which is a multiple of the width of each."""
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    key = np.zeros(len(rows["at"]), np.int64)
    size = 1
    for name in _BY:
        values = np.where(rows["at"] == NO_TIME, -1, rows["at"] // width_us) if name == "at" else rows[name]
        least, extent = int(values.min(initial=0)), int(values.max(initial=0)) - int(values.min(initial=0)) + 1
        if size > _WIDE // extent:
            key = np.unique(key, return_inverse=True)[1]
            size = int(key.max(initial=0)) + 1
        key = key * extent + (values - least)
        size *= extent
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    found = {name: rows[name][order][starts] for name in ("table", "operation", "outcome", "user", "set")}
    for name, together in (("at", np.minimum), ("last_at", np.maximum), ("record", np.minimum)):
        found[name] = together.reduceat(rows[name][order], starts) if len(starts) else rows[name]
    for name in ("bytes", "times"):
        found[name] = np.add.reduceat(rows[name][order], starts) if len(starts) else rows[name]
    return found
