"""Times of change sequences and headers, for many at once."""

from __future__ import annotations

import datetime as dt
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays.texts import from_matrix

__all__ = ["MICROSECONDS", "SEQUENCE", "UNKNOWN_UNTIL", "moments", "sequence_times"]

MICROSECONDS: Final = pa.timestamp("us", tz="UTC")

SEQUENCE: Final = 35
"""Digits of a change sequence: 16 of time (YYYYMMDDHHmmSShh) and 19 of a number (docs/formats/qlik-kafka.md §5)."""

UNKNOWN_UNTIL: Final = dt.datetime(1970, 1, 2, tzinfo=dt.UTC)
"""Times before this are PostgreSQL's default, shown until the commit is known: no time of a change."""

_FORM: Final = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?(Z|[+-]\d{2}:?\d{2})?$"


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


def moments(texts: pa.StringArray) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """ISO 8601 times (``T`` or blank, any number of digits, UTC unless an offset stands there) as timestamps, and which
    texts are no time. Null where the text is null, empty or no time; digits behind the microsecond are cut off."""
    empty = pc.fill_null(pc.equal(texts, ""), True)
    given = pc.if_else(empty, pa.scalar(None, pa.string()), texts)
    formed = pc.fill_null(pc.match_substring_regex(given, _FORM), False)
    formed = pc.and_not(formed, pc.fill_null(pc.starts_with(given, "0000"), False))  # there is no year 0
    cut = pc.replace_substring_regex(given, r"[.,](\d{1,6})\d*", r".\1")
    chosen = pc.if_else(formed, cut, pa.scalar(None, pa.string()))
    try:
        parsed = _parse(chosen)
    except (pa.ArrowInvalid, ValueError):
        parsed = pa.array([_one(text) for text in chosen.to_pylist()], MICROSECONDS)
    failed = pc.and_(pc.is_null(parsed), pc.is_valid(given)).to_numpy(zero_copy_only=False)
    return parsed, failed


def _parse(texts: pa.StringArray) -> pa.Array:
    zoned = pc.fill_null(pc.match_substring_regex(texts, r"(Z|[+-]\d{2}:?\d{2})$"), False)
    if pc.any(zoned).as_py():
        plain = pc.replace_substring_regex(texts, r"(\d{2}:\d{2}(:\d{2}(\.\d+)?)?)(Z|[+-]\d{2}:?\d{2})$", r"\1")
        if pc.all(pc.or_(pc.ends_with(texts, "Z"), pc.is_null(texts))).as_py():
            return pc.cast(plain, pa.timestamp("us")).cast(MICROSECONDS)
        raise ValueError("offsets differ")
    return pc.cast(texts, pa.timestamp("us")).cast(MICROSECONDS)


def _one(text: str | None) -> dt.datetime | None:
    if text is None:
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return None
