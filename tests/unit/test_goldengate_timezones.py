"""The time zone of printed times, as header tokens show it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np

from cdcwb.formats.goldengate.layout import MISSING
from cdcwb.formats.goldengate.plan import ZoneOffsetSpan, nearest_offsets, shown_offsets

HOUR = 3_600_000_000


def us(text: str) -> int:
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )


def test_header_tokens_show_the_offset_in_quarters_of_an_hour() -> None:
    start = np.array([0, 100, 200, 300, 400])
    julian = np.array([us("2024-01-01 00:00:00")] * 3 + [MISSING, us("2024-06-01 00:00:00")])
    moment = julian + np.array([HOUR, HOUR + 738_770, HOUR, 0, 2 * HOUR])
    found = shown_offsets(start, moment, julian)
    assert found == [ZoneOffsetSpan(0, 200, HOUR), ZoneOffsetSpan(400, 400, 2 * HOUR)]


def test_times_that_differ_by_no_offset_show_none() -> None:
    julian = np.array([us("2024-01-01 00:00:00")])
    assert shown_offsets(np.array([0]), julian + 5 * 60_000_000, julian) == []
    assert shown_offsets(np.array([0]), julian + 30 * HOUR, julian) == []


def test_a_record_without_one_has_the_offset_of_the_nearest_that_shows_one() -> None:
    shown = [ZoneOffsetSpan(100, 300, HOUR), ZoneOffsetSpan(500, 900, 2 * HOUR)]
    places = np.array([0, 100, 250, 399, 401, 600, 5000])
    assert (nearest_offsets(places, shown) // HOUR).tolist() == [1, 1, 1, 1, 2, 2, 2]
