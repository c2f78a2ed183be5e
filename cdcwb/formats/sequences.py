"""Times of many change sequences (Qlik)."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.arrays import content_of
from cdcwb.formats.kernels import kernel
from cdcwb.formats.moments import DAY, MICROSECONDS, NO_DAY, days_of, digits_at, micros_of_day

__all__ = ["SEQUENCE", "UNKNOWN_UNTIL", "sequence_times"]

SEQUENCE: Final = 35
"""Digits of a change sequence: 16 of time (YYYYMMDDHHmmSShh) and 19 of a number (docs/formats/qlik-kafka.md §5)."""
_OF_TIME: Final = 16

UNKNOWN_UNTIL: Final = dt.datetime(1970, 1, 2, tzinfo=dt.UTC)
"""Earlier times are PostgreSQL's default, used until the commit is known: not the time of a change."""


def sequence_times(sequences: pa.StringArray) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """The times at the start of change sequences (UTC, hundredths of a second), and a mask of invalid texts. Null for
    null and invalid texts."""
    us, valid = np.zeros(len(sequences), np.int64), np.zeros(len(sequences), np.bool_)
    _read(*content_of(sequences), us, valid)
    null = pc.is_null(sequences).to_numpy(zero_copy_only=False)
    return pa.array(us, MICROSECONDS, mask=~valid | null), ~valid & ~null


@kernel
def _read(b: Any, offsets: Any, us: Any, valid: Any) -> None:
    for row in range(len(us)):
        at = offsets[row]
        if offsets[row + 1] - at != SEQUENCE:
            continue
        plain = True
        for step in range(_OF_TIME, SEQUENCE):
            plain &= 48 <= b[at + step] <= 57
        day = days_of(digits_at(b, at, 4), digits_at(b, at + 4, 2), digits_at(b, at + 6, 2))
        clock = micros_of_day(digits_at(b, at + 8, 2), digits_at(b, at + 10, 2), digits_at(b, at + 12, 2))
        hundredth = digits_at(b, at + 14, 2)
        if plain and day != NO_DAY and clock >= 0 and hundredth >= 0:
            us[row], valid[row] = day * DAY + clock + hundredth * 10_000, True
