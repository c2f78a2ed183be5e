"""Printed times as UTC, in a zone that is given."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from cdcwb.errors import OptionError
from cdcwb.formats.moments import from_iso, offset_name, parse_zone, to_utc

HOUR = 3_600_000_000


def us(text: str) -> int:
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )


@pytest.mark.parametrize(
    ("text", "minutes"), [("+08:00", 480), ("-0330", -210), ("+9", 540), ("UTC+01:00", 60), ("gmt-05:45", -345)]
)
def test_an_offset_is_a_zone(text: str, minutes: int) -> None:
    assert parse_zone(text) == timedelta(minutes=minutes)


def test_a_region_is_a_zone() -> None:
    assert parse_zone("Europe/Berlin") == ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize("text", ["Nowhere/Town", "+99:00", "+01:75", "", "../etc"])
def test_what_is_no_zone_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="time_zone"):
        parse_zone(text)


def test_times_of_a_region_become_utc_summer_and_winter() -> None:
    moments = np.array([us("2024-01-15 12:00:00.000001"), us("2024-07-15 12:00:00")])
    utc, doubtful = to_utc(moments, parse_zone("Europe/Berlin"))
    assert utc.tolist() == [us("2024-01-15 11:00:00.000001"), us("2024-07-15 10:00:00")]
    assert not doubtful.any()


def test_hours_that_are_there_twice_or_not_at_all_are_flagged_and_the_earlier_moment_is_taken() -> None:
    moments = np.array([us("2024-10-27 02:30:00"), us("2024-03-31 02:30:00"), us("2024-10-27 03:00:00")])
    utc, doubtful = to_utc(moments, parse_zone("Europe/Berlin"))
    assert doubtful.tolist() == [True, True, False]
    assert utc[0] == us("2024-10-27 00:30:00")
    assert utc[2] == us("2024-10-27 02:00:00")


def test_zones_that_change_by_half_an_hour_are_met() -> None:
    moments = np.array([us("2024-04-07 01:40:00"), us("2024-04-07 01:20:00")])
    _, doubtful = to_utc(moments, parse_zone("Australia/Lord_Howe"))
    assert doubtful.tolist() == [True, False]


def test_times_at_both_ends_of_the_calendar_are_shifted() -> None:
    zone = parse_zone("Europe/Berlin")
    utc, _ = to_utc(np.array([us("0001-01-01 00:00:00"), us("9999-12-31 23:59:59.999999")]), zone)
    assert utc.tolist() == [us("0001-01-01") - (53 * 60 + 28) * 1_000_000, us("9999-12-31 22:59:59.999999")]


def test_times_outside_the_calendar_do_not_fail() -> None:
    utc, _ = to_utc(np.array([-(1 << 62), 1 << 62]), parse_zone("Europe/Berlin"))
    assert len(utc) == 2


@pytest.mark.parametrize(("offset", "name"), [(9 * HOUR, "+09:00"), (-HOUR * 7 // 2, "-03:30"), (0, "+00:00")])
def test_offsets_have_names(offset: int, name: str) -> None:
    assert offset_name(offset) == name


def test_iso_times_are_read() -> None:
    assert from_iso("2016-04-28T12:10:14.246832Z") == us("2016-04-28 12:10:14.246832")
    assert from_iso(None) is None
    assert from_iso("soon") is None
