"""Printed times as moments, for many at once."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["MICROSECONDS", "moment", "moments"]

MICROSECONDS: Final = pa.timestamp("us", tz="UTC")
"""The type of moments: microseconds since 1970 in UTC."""

_FORM: Final = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?(Z|[+-]\d{2}:?\d{2})?$"
_ONE: Final = re.compile(_FORM.removesuffix("$") + r"\Z", re.ASCII)


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
        parsed = pa.array([moment(text) for text in chosen.to_pylist()], MICROSECONDS)
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


def moment(text: str | None) -> dt.datetime | None:
    """One such text as :func:`moments` reads it; None where it is no time."""
    if text is None or not _ONE.match(text):
        return None
    try:
        found = dt.datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return None
