"""The time zone of printed times, as header tokens show it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np

from cdcwb.formats.goldengate.layout import MISSING
from cdcwb.formats.goldengate.plan import shown_offsets

HOUR = 3_600_000_000


def us(text: str) -> int:
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )


def test_header_tokens_show_the_offset_in_quarters_of_an_hour() -> None:
    julian = np.array([us("2024-01-01 00:00:00")] * 3 + [MISSING, us("2024-06-01 00:00:00")])
    moment = julian + np.array([HOUR, HOUR + 738_770, HOUR, 0, 2 * HOUR])
    assert shown_offsets(moment, julian) == {HOUR, 2 * HOUR}


def test_times_that_differ_by_no_offset_show_none() -> None:
    julian = np.array([us("2024-01-01 00:00:00")])
    assert shown_offsets(julian + 5 * 60_000_000, julian) == set()
    assert shown_offsets(julian + 30 * HOUR, julian) == set()
