"""Times of many change sequences (Qlik)."""

from __future__ import annotations

import datetime as dt
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays.texts import from_matrix
from cdcwb.formats.moments import moments

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
    plain = (digits < 10).all(axis=1)
    right[np.flatnonzero(right)[~plain]] = False
    wrong = ~right & pc.is_valid(sequences).to_numpy(zero_copy_only=False)
    numbers = digits[plain, :_OF_TIME].astype(np.int64) @ _POWERS
    times, place = np.unique(numbers, return_inverse=True)  # changes of one transaction mostly have one time
    parsed, failed = moments(_texts(times))
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
_PARTS: Final = ((0, 4), (4, 2), (6, 2), (8, 2), (10, 2), (12, 2), (14, 2))


def _texts(times: npt.NDArray[np.int64]) -> pa.StringArray:
    """ISO 8601 texts of times given as numbers of 16 digits."""
    digits = (times[:, None] // _POWERS % 10 + ord("0")).astype(np.uint8)
    text = np.full((len(times), 22), ord("0"), dtype=np.uint8)
    for at, (first, size) in zip((0, 5, 8, 11, 14, 17, 20), _PARTS, strict=True):
        text[:, at : at + size] = digits[:, first : first + size]
    for at, mark in ((4, "-"), (7, "-"), (10, "T"), (13, ":"), (16, ":"), (19, ".")):
        text[:, at] = ord(mark)
    return from_matrix(text, 0, 22)


def _characters(texts: pa.StringArray) -> npt.NDArray[np.uint8]:
    """The concatenated bytes of texts of one length without nulls."""
    data = texts.buffers()[2]
    if data is None or not len(texts):
        return np.empty(0, dtype=np.uint8)
    first = texts.offset * SEQUENCE
    return np.frombuffer(data, dtype=np.uint8)[first : first + len(texts) * SEQUENCE]
