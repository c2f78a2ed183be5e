"""Times of change sequences (Qlik's), for many at once."""

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
"""Times before this are PostgreSQL's default, shown until the commit is known: no time of a change."""


def sequence_times(sequences: pa.StringArray) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """The times that change sequences begin with (UTC, hundredths of a second), and which texts are no sequence.

    Null where the text is null or no sequence. Never goes through a number: 35 digits fit into none.
    """
    right = pc.fill_null(pc.match_substring_regex(sequences, rf"^\d{{{SEQUENCE}}}$"), False)
    right = right.to_numpy(zero_copy_only=False)
    wrong = ~right & pc.is_valid(sequences).to_numpy(zero_copy_only=False)
    digits = sequences.filter(pa.array(right))
    characters = _characters(digits).reshape(-1, SEQUENCE)
    text = np.full((len(digits), 22), ord("0"), dtype=np.uint8)
    for at, (first, size) in zip((0, 5, 8, 11, 14, 17, 20), _PARTS, strict=True):
        text[:, at : at + size] = characters[:, first : first + size]
    for at, mark in ((4, "-"), (7, "-"), (10, "T"), (13, ":"), (16, ":"), (19, ".")):
        text[:, at] = ord(mark)
    parsed, failed = moments(from_matrix(text, 0, 22))
    where = np.flatnonzero(right)
    wrong[where[failed]] = True
    places = np.full(len(sequences), len(parsed), dtype=np.int64)
    places[where] = np.arange(len(parsed))
    return parsed.take(pa.array(places, mask=places == len(parsed))), wrong


_PARTS: Final = ((0, 4), (4, 2), (6, 2), (8, 2), (10, 2), (12, 2), (14, 2))


def _characters(texts: pa.StringArray) -> npt.NDArray[np.uint8]:
    """The bytes of texts of one length, none of them null, one behind the other."""
    data = texts.buffers()[2]
    if data is None or not len(texts):
        return np.empty(0, dtype=np.uint8)
    first = texts.offset * SEQUENCE
    return np.frombuffer(data, dtype=np.uint8)[first : first + len(texts) * SEQUENCE]
