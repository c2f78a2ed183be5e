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
import pyarrow as pa

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
_BY: Final = ("table", "operation", "outcome", "user", "set")
_TOGETHER: Final = {"at": "min", "last_at": "max", "record": "min", "bytes": "sum", "times": "sum"}

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
    return whole, width


def counted(changes: Changes, first: int, end: int, width_us: int) -> Counted:
    """The changes from ``first`` to ``end`` in bins of ``width_us`` microseconds: what a row of
    :class:`~cdcwb.index.changes.Changes` holds that stands for several."""
    part = slice(first, end)
    at = changes.at[part]
    rows: Counted = {name: changes.codes[name][part] for name in _BY[:3]}
    rows |= {"user": changes.users[part], "set": changes.set[part], "record": changes.record[part]}
    rows |= {"at": at, "last_at": at, "bytes": changes.bytes[part], "times": np.ones(len(at), np.int64)}
    return merged([rows], width_us)


def merged(parts: Sequence[Counted], width_us: int) -> Counted:
    """Several counts as one, in bins of ``width_us`` microseconds, which is a multiple of the width of each."""
    rows = pa.concat_tables(map(pa.table, parts))
    at = np.asarray(rows["at"])
    rows = rows.append_column("bin", pa.array(np.where(at == NO_TIME, NO_TIME, at // width_us)))
    found = rows.group_by(["bin", *_BY], use_threads=False).aggregate(list(_TOGETHER.items())).sort_by("record_min")
    return {name: np.asarray(found[f"{name}_{_TOGETHER[name]}" if name in _TOGETHER else name]) for name in parts[0]}
