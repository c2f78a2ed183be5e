"""Times of many change sequences (Qlik)."""

from __future__ import annotations

import datetime as dt
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.moments import MICROSECONDS

__all__ = ["SEQUENCE", "UNKNOWN_UNTIL", "sequence_times"]

SEQUENCE: Final = 35
"""Digits of a change sequence: 16 of time (YYYYMMDDHHmmSShh) and 19 of a number (docs/formats/qlik-kafka.md §5)."""

UNKNOWN_UNTIL: Final = dt.datetime(1970, 1, 2, tzinfo=dt.UTC)
"""Earlier times are PostgreSQL's default, used until the commit is known: not the time of a change."""


def sequence_times(sequences: pa.StringArray) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """The times at the start of change sequences (UTC, hundredths of a second), and a mask of invalid texts. Null for
    null and invalid texts. Not converted via numbers, since 35 digits fit into none.
    """
    right = pc.fill_null(pc.equal(pc.binary_length(sequences), SEQUENCE), False).to_numpy(zero_copy_only=False)
    digits = _characters(sequences.filter(pa.array(right))).reshape(-1, SEQUENCE) - ord("0")
    others = digits > 9
    plain = ~others.any(axis=1) if others.any() else np.ones(len(digits), np.bool_)
    right[np.flatnonzero(right)[~plain]] = False
    wrong = ~right & pc.is_valid(sequences).to_numpy(zero_copy_only=False)
    numbers = digits[plain, :_OF_TIME].astype(np.int64) @ _POWERS
    times, place = np.unique(numbers, return_inverse=True)  # changes of one transaction mostly have one time
    parsed, failed = _moments(times)
    found = parsed.take(pa.array(place))
    where = np.flatnonzero(right)
    wrong[where[failed[place]]] = True
    if len(where) == len(sequences):
        return found, wrong
    places = np.full(len(sequences), len(found), dtype=np.int64)
    places[where] = np.arange(len(found))
    return found.take(pa.array(places, mask=places == len(found))), wrong


_OF_TIME: Final = 16
_POWERS: Final = 10 ** np.arange(_OF_TIME - 1, -1, -1, dtype=np.int64)
_DAY: Final = 86_400


def _moments(times: npt.NDArray[np.int64]) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Times given as numbers of 16 digits, and a mask of invalid ones, which are null."""
    date, clock = np.divmod(times, 10**8)
    year, month, day = date // 10_000, date // 100 % 100, date % 100
    hour, minute, second, hundredth = (clock // 100**at % 100 for at in (3, 2, 1, 0))
    first = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = first.astype("datetime64[D]") + (day - 1)
    valid = (year > 0) & (month > 0) & (month < 13) & (days.astype("datetime64[M]") == first)
    valid &= (hour < 24) & (minute < 60) & (second < 60)
    seconds = days.astype(np.int64) * _DAY + (hour * 60 + minute) * 60 + second
    return pa.array(seconds * 1_000_000 + hundredth * 10_000, MICROSECONDS, mask=~valid), ~valid


def _characters(texts: pa.StringArray) -> npt.NDArray[np.uint8]:
    """The concatenated bytes of texts of one length without nulls."""
    data = texts.buffers()[2]
    if data is None or not len(texts):
        return np.empty(0, dtype=np.uint8)
    first = texts.offset * SEQUENCE
    return np.frombuffer(data, dtype=np.uint8)[first : first + len(texts) * SEQUENCE]
