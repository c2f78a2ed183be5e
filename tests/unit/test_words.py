"""Numbers, sizes, times and captured text in words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from cdcwb.words import (
    clock,
    count,
    duration,
    joined,
    local,
    moment,
    plural,
    rounded,
    show_times_in,
    size,
    tally,
    to_the_second,
    visible,
    zone_name,
)


@pytest.mark.parametrize(
    ("microseconds", "words"),
    [
        (0, "0 s"),
        (1, "0.000001 s"),
        (250, "0.000250 s"),
        (1_500_000, "1.5 s"),
        (59_999_999, "59.999999 s"),
        (60_000_000, "1 min 0 s"),
        (3_723_000_004, "1 h 2 min 3.000004 s"),
        (86_400_000_000, "1 d 0 h 0 min 0 s"),
        (400_000 * 86_400_000_000, "400,000 d 0 h 0 min 0 s"),
        (-4_000_000, "-4 s"),
    ],
)
def test_a_duration_keeps_every_microsecond(microseconds: int, words: str) -> None:
    assert duration(microseconds) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (1536, "1.54 kB"),
        (999_499, "999 kB"),
        (999_500, "1 MB"),
        (12_400_000, "12.4 MB"),
        (2**64, "18,447 PB"),
    ],
)
def test_a_size_has_three_digits_and_the_unit_that_fits(number: int, words: str) -> None:
    assert size(number) == words


def test_a_time_is_told_in_utc_and_keeps_its_microseconds() -> None:
    assert moment(datetime(2025, 3, 23, 10, 57, 19, tzinfo=UTC)) == "2025-03-23 10:57:19 UTC"
    assert moment(datetime(2025, 3, 23, 10, 57, 19, 25, tzinfo=UTC)) == "2025-03-23 10:57:19.000025 UTC"
    east = timezone(timedelta(hours=8))
    assert moment(datetime(2025, 3, 23, 18, 57, 19, tzinfo=east)) == "2025-03-23 10:57:19 UTC"
    assert moment(None, "still open") == "still open"
    assert to_the_second(datetime(2025, 3, 23, 10, 57, 19, 25, tzinfo=UTC)) == "2025-03-23 10:57:19 UTC"
    assert to_the_second(None) == "not known"


def test_counts_are_told_largest_first() -> None:
    assert tally({"DELETE": 2, "INSERT": 1000, "UPDATE": 2}) == "INSERT 1,000, DELETE 2, UPDATE 2"
    assert tally([("INSERT", 1)]) == "INSERT 1"
    assert tally(None) == tally({}) == "none"


def test_numbers_and_lists_read_as_english() -> None:
    assert [plural(n, "change") for n in (0, 1, 2000)] == ["no changes", "1 change", "2,000 changes"]
    assert plural(2, "entry", "entries") == "2 entries"
    assert [joined(list("abc"[:n])) for n in range(4)] == ["", "a", "a and b", "a, b and c"]
    assert count(183220) == "183,220"


def test_characters_that_hide_or_reorder_become_visible() -> None:
    assert visible("a\x1b[2Jb\u202ecod\nend\u200b") == r"a\x1b[2Jb\u202ecod\x0aend\u200b"
    assert visible("中文 é ✓") == "中文 é ✓"


def test_long_text_ends_in_an_ellipsis_and_never_exceeds_its_limit() -> None:
    assert visible("x" * 60, 60) == "x" * 60
    assert visible("x" * 61, 60) == "x" * 59 + "…"
    assert len(visible("\u202e" * 10**6, 60)) == 60


@pytest.fixture
def berlin() -> Iterator[ZoneInfo]:
    zone = ZoneInfo("Europe/Berlin")
    yield zone
    show_times_in()


def test_times_are_told_in_the_zone_that_is_asked_for_and_it_is_named(berlin: ZoneInfo) -> None:
    noon = datetime(2025, 3, 23, 12, 0, 0, 25, tzinfo=UTC)
    show_times_in(berlin, "Europe/Berlin", noon, noon + timedelta(hours=5))
    assert moment(noon) == "2025-03-23 13:00:00.000025 +01:00"
    assert moment(noon.replace(tzinfo=None)) == moment(noon)
    assert clock(noon) == ("2025-03-23 13:00:00.000025", "+01:00")
    assert local(noon) == datetime(2025, 3, 23, 13, 0, 0, 25)
    assert (zone_name(), zone_name(axis=False)) == ("Europe/Berlin", "Europe/Berlin")
    show_times_in()
    assert (moment(noon), zone_name()) == ("2025-03-23 12:00:00.000025 UTC", "UTC")


def test_an_axis_keeps_its_offset_where_clocks_are_changed_on_the_way(berlin: ZoneInfo) -> None:
    evening, morning = datetime(2025, 10, 25, 20, tzinfo=UTC), datetime(2025, 10, 26, 8, tzinfo=UTC)
    show_times_in(berlin, "Europe/Berlin", evening, morning)
    assert moment(evening) == "2025-10-25 22:00:00 +02:00"
    assert moment(morning) == "2025-10-26 09:00:00 +01:00"
    assert local(morning) - local(evening) == morning - evening
    assert zone_name() == "UTC+02:00, the offset of Europe/Berlin at the beginning"
    # the hour that comes twice
    first, second = (datetime(2025, 10, 26, hour, 30, tzinfo=UTC) for hour in (0, 1))
    assert (moment(first), moment(second)) == ("2025-10-26 02:30:00 +02:00", "2025-10-26 02:30:00 +01:00")


def test_the_ends_of_time_are_told_in_utc(berlin: ZoneInfo) -> None:
    show_times_in(berlin, "Europe/Berlin")
    assert moment(datetime.max.replace(tzinfo=UTC)) == "9999-12-31 23:59:59.999999 UTC"


def test_a_span_in_a_sentence_has_the_digits_that_mean_something() -> None:
    spans = (250, 12_345, 9_999_999, 90_123_456, 316_642_950, -4_000_000)
    said = ["0.00025 s", "0.012 s", "10 s", "1 min 30.1 s", "5 min 16.6 s", "-4 s"]
    assert [rounded(span) for span in spans] == said
