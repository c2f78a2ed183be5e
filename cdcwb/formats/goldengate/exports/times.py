"""Printed times of exports (docs/formats/goldengate.md §7 and §8): they have no zone, unless one stands behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.moments import MICROSECONDS, moments

__all__ = ["Moments", "ToUtc", "changed_at"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

ToUtc = Callable[[Ints], tuple[Ints, Bools]]
"""Takes printed times (microseconds since 1970 as if their zone were UTC) and gives them in UTC, and which of them are
ambiguous or missing in their zone. Pickles."""

_ZONED: Final = r"\d[Zz]$|:\d{2}(\.\d+)?[+-]\d{2}:?\d{2}$"


class Moments(NamedTuple):
    """Times of records: ``values`` in UTC, null where they are not known. ``wrong``: the text is no time. ``printed``
    and ``zoned`` count texts that are, and those with a zone of their own. ``doubtful``: which are ambiguous or missing
    in the given zone."""

    values: pa.Array
    wrong: Bools
    printed: int
    zoned: int
    doubtful: Ints


def changed_at(texts: pa.StringArray, to_utc: ToUtc | None) -> Moments:
    """The moments of printed times: ``2013-06-02 22:14:36.000000``, with ``T`` or ``:`` before the hour, digits behind
    the microsecond cut off. Without ``to_utc`` only those that have a zone of their own are known."""
    if pc.any(pc.equal(pc.utf8_slice_codeunits(texts, 10, 11), ":")).as_py():
        colon = pc.fill_null(pc.equal(pc.utf8_slice_codeunits(texts, 10, 11), ":"), False)
        texts = pc.if_else(colon, pc.utf8_replace_slice(texts, 10, 11, " "), texts)
    parsed, wrong = moments(texts)
    known = pc.is_valid(parsed)
    zoned = pc.and_(known, pc.fill_null(pc.match_substring_regex(texts, _ZONED), False))
    printed, own = pc.sum(known).as_py() or 0, pc.sum(zoned).as_py() or 0
    doubtful: Ints = np.empty(0, dtype=np.int64)
    if own < printed and to_utc is None:
        parsed = pc.if_else(zoned, parsed, pa.scalar(None, parsed.type))
    elif own < printed and to_utc is not None:
        index = np.flatnonzero(np.asarray(pc.and_not(known, zoned)))
        micros = np.array(pc.fill_null(parsed.cast(pa.int64()), 0))
        micros[index], doubts = to_utc(micros[index])
        doubtful = index[doubts]
        parsed = pa.array(micros, mask=np.asarray(pc.is_null(parsed))).cast(MICROSECONDS)
    return Moments(parsed, wrong, printed, own, doubtful)
