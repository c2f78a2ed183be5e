"""Printed times of the event log in all their forms."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdcwb.errors import OptionError
from cdcwb.formats.idm_event_log.decode import parse_times
from tests.reference.idm_times import read_time

EPOCH = dt.datetime(1970, 1, 1)
FIRST = dt.datetime(1, 1, 1)
LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)


def read(text: str, zone: str | None = None) -> str | None:
    """A time as ISO in UTC."""
    (us,) = parse_times(pa.array([text], pa.string()), zone).us.to_pylist()
    return None if us is None else (EPOCH + dt.timedelta(microseconds=us)).isoformat()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-02 03:04:05", "2024-01-02T03:04:05"),
        ("2024-01-02 03:04:05.1", "2024-01-02T03:04:05.100000"),
        ("2024-01-02 03:04:05.123456", "2024-01-02T03:04:05.123456"),
        ("2024-01-02", "2024-01-02T00:00:00"),
        ("2024-01-02 03:04", "2024-01-02T03:04:00"),
        ("2024-01-02T03:04:05", "2024-01-02T03:04:05"),
        ("2024-01-02T03:04:05.5Z", "2024-01-02T03:04:05.500000"),
        ("2024-01-02T03:04:05+02:00", "2024-01-02T01:04:05"),
        ("2024-01-02 03:04:05.678 -0330", "2024-01-02T06:34:05.678000"),
        ("2024-01-02 03:04:05+01", "2024-01-02T02:04:05"),
        ("2024-01-02 03:04:05 UTC", "2024-01-02T03:04:05"),
        ("2024-01-02-03.04.05", "2024-01-02T03:04:05"),
        ("2024-01-02-03.04.05.123456", "2024-01-02T03:04:05.123456"),
        ("Jan  2 2024  3:04:05:678PM", "2024-01-02T15:04:05.678000"),
        ("Jan 12 2024 12:04:05:678AM", "2024-01-12T00:04:05.678000"),
        ("Jan  2 2024  3:04AM", "2024-01-02T03:04:00"),
        ("02-JAN-24 03.04.05.123456000 PM", "2024-01-02T15:04:05.123456"),
        ("02-JAN-24", "2024-01-02T00:00:00"),
        ("31-Dec-50 23:59:59", "1950-12-31T23:59:59"),
        ("02-JAN-2024 15:04:05", "2024-01-02T15:04:05"),
        ("02-JAN-24 03.04.05.1 PM +02:00", "2024-01-02T13:04:05.100000"),
        ("29-FEB-24 12.00.00.000 PM", "2024-02-29T12:00:00"),
    ],
)
def test_the_forms_of_databases_are_read(text: str, expected: str) -> None:
    assert read(text) == expected
    assert read(f" {text} ") == expected


@pytest.mark.parametrize("text", ["2024-01-02 03:04:05.999999999", "2024-01-02-03.04.05.9999999999999"])
def test_digits_behind_the_microsecond_are_cut_off_and_not_rounded(text: str) -> None:
    assert read(text) == "2024-01-02T03:04:05.999999"


def test_a_time_before_1970_is_cut_off_likewise() -> None:
    assert read("1969-12-31 23:59:59.0000019") == "1969-12-31T23:59:59.000001"


@pytest.mark.parametrize(
    "text",
    ["", " ", "x", "0", "0000-01-01 00:00:00", "2024-02-30 00:00:00", "2023-02-29 00:00:00", "2024-13-01 00:00:00",
     "2024-00-01 00:00:00", "2024-01-00 00:00:00", "2024-01-01 24:00:00", "2024-01-01 00:60:00", "2024-01-01 00:00:60",
     "2024-01-01 00:00:00.", "2024-01-01 00:00:00x", "2024-01-01 00:00:00é",
     "2024-01-01 00:00:00+99:00", "2024-01-01 00:00:00+01:60", "2024-01-01-00:00:00", "2024-01-01 00.00.00",
     "2024-01-01-00.00.00Z", "2024-1-1 00:00:00", "٢٠٢٤-01-01 00:00:00", "Foo  2 2024  3:04AM", "Jan  2 2024 13:04PM",
     "Jan  2 2024  0:04AM", "02-FOO-24", "0001-01-01 00:00:00+14:00", "9999-12-31 23:59:59-01:00", "\x002024-01-01"],
)  # fmt: skip
def test_what_is_no_time_of_the_calendar_is_none(text: str) -> None:
    assert read(text) is None


def test_null_is_no_time_and_nothing_is_said_of_it() -> None:
    found = parse_times(pa.array([None, "2024-01-02 03:04:05"], pa.string()))
    assert found.us.null_count == 1
    assert len(parse_times(pa.array([], pa.string())).us) == 0


def test_a_zone_is_that_of_times_that_bear_none() -> None:
    assert read("2024-07-01 12:00:00", "Europe/Berlin") == "2024-07-01T10:00:00"
    assert read("2024-01-01-12.00.00", "Europe/Berlin") == "2024-01-01T11:00:00"
    assert read("01-JUL-24 12.00.00.000 PM", "+08:00") == "2024-07-01T04:00:00"
    assert read("2024-07-01T12:00:00Z", "Europe/Berlin") == "2024-07-01T12:00:00"
    with pytest.raises(OptionError, match="time_zone"):
        read("2024-07-01 12:00:00", "Nowhere/Town")


def test_a_time_that_the_zone_has_twice_or_never_is_doubtful() -> None:
    texts = [
        "2024-10-27 02:30:00",
        "2024-03-31 02:30:00",
        "2024-10-27 02:30:00+01:00",
        "x",
        None,
        "2024-06-01 00:00:00",
    ]
    found = parse_times(pa.array(texts, pa.string()), "Europe/Berlin")
    assert found.doubtful.tolist() == [True, True, False, False, False, False]
    assert found.us[0].as_py() == (dt.datetime(2024, 10, 27, 0, 30) - EPOCH) // dt.timedelta(microseconds=1)


moments = st.datetimes(min_value=dt.datetime(1, 1, 1), max_value=dt.datetime(9999, 12, 31))
tails = st.sampled_from(
    ["", " ", "Z", "+02:00", " -05:30", "+09", ".", ".12", ".123456789", ",5", ".1x", "é", "\n", " UTC"]
)


@st.composite
def printed(draw: st.DrawFn) -> str:
    """A time in one of the forms, maybe with a character changed."""
    moment = draw(moments)
    form = draw(st.sampled_from(["{:%H:%M:%S}", "{:%H.%M.%S}", "{:%H:%M:%S.%f}", "{:%H.%M.%S.%f}", "{:%H:%M}"]))
    text = f"{moment.year:04d}-{moment:%m-%d}" + draw(st.sampled_from(" T-")) + form.format(moment) + draw(tails)
    if draw(st.booleans()):
        at = draw(st.integers(0, len(text) - 1))
        text = text[:at] + draw(st.sampled_from("09-: .xé")) + text[at + 1 :]
    return text


@given(st.lists(st.none() | printed() | st.text(max_size=30), max_size=8), st.sampled_from([None, "+05:30"]))
@example(["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "2024-01-02 03:04:05ÿÿ"], None)
def test_times_at_once_are_what_they_are_one_by_one(texts: list[str | None], zone: str | None) -> None:
    found = parse_times(pa.array(["2024-01-02 03:04:05", *texts], pa.string()).slice(1), zone)
    shift = 0 if zone is None else 330 * 60_000_000
    first, last = ((moment - EPOCH) // dt.timedelta(microseconds=1) for moment in (FIRST, LAST))
    for at, text in enumerate(texts):
        one = None if text is None else read_time(text)
        us = None if one is None else one.local - (shift if one.offset is None else one.offset)
        if one is None or us is None or not first <= us <= last:
            assert found.us[at].as_py() is None
        else:
            assert found.us[at].as_py() == us


@given(moments)
def test_every_moment_of_the_calendar_comes_back(moment: dt.datetime) -> None:
    text = moment.isoformat(sep=" ")
    assert read(text) == moment.isoformat()
