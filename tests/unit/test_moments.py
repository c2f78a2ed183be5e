"""Times and change sequences are read by a loop over many texts as Python reads each of them."""

from __future__ import annotations

import datetime as dt
import re

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdcwb.formats.moments import moment, moments, sequence_times

_TIMES = st.from_regex(
    r"\A(20\d\d|0000|0001|9999|[0-9]{4})-[0-3][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-6][0-9](:[0-6][0-9]([.,]\d{0,8})?)?"
    r"(Z|[+-][0-2][0-9]:?[0-9]{2}|[Zz+]|)\Z"
)
_TEXTS = st.none() | st.text("0123456789-:T .Z+", max_size=30) | _TIMES


@given(st.lists(_TEXTS, max_size=6), st.integers(0, 2))
@example(["2024-02-29T23:59:59.9999999Z", "2023-02-29 00:00", "0000-01-01T00:00:00"], 0)
@example(["9999-12-31T23:59:59-00:01", "0001-01-01T00:00+00:01", "0001-01-01T00:00-23:59"], 0)
@example(["2024-01-01T00:00:00+24:00", "2024-01-01T00:00:00+23:59", "2024-01-01T00:00:00.", "2024-01-01T00:00:"], 1)
def test_times(texts: list[str | None], skipped: int) -> None:
    found, failed = moments(pa.array(texts, pa.string()).slice(skipped))
    expected = [_by_python(text) for text in texts[skipped:]]
    assert found.to_pylist() == expected
    assert [moment(text) for text in texts[skipped:]] == expected
    wrong = [bool(text) and time is None for text, time in zip(texts[skipped:], expected, strict=True)]
    assert failed.tolist() == wrong


def _by_python(text: str | None) -> dt.datetime | None:
    if text is None or not _FORM.fullmatch(text):
        return None
    try:
        found = dt.datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return None


_FORM = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?(Z|[+-]\d{2}:?\d{2})?", re.ASCII)


@pytest.mark.parametrize("valid", [True, False])
def test_what_is_under_a_null_is_not_read(valid: bool) -> None:
    content = b"2024-01-01T00:0020240101000000000000000000000000000" + b"x" * 16
    edges = pa.py_buffer(pa.array([0, 16, 51, 67], pa.int32()).buffers()[1])
    there = pa.py_buffer(b"\xff" if valid else b"\x00")
    texts = pa.Array.from_buffers(pa.string(), 3, [there, edges, pa.py_buffer(content)])
    assert moments(texts)[0].is_valid().to_pylist() == [valid, False, False]
    assert sequence_times(texts)[0].is_valid().to_pylist() == [False, valid, False]
    assert moments(texts)[1].tolist() == [False, valid, valid]
    assert sequence_times(texts)[1].tolist() == [valid, False, valid]


_SEQUENCES = st.from_regex(r"\A(20\d\d|0000)[01][0-9][0-3][0-9][0-2][0-9][0-6][0-9][0-6][0-9]{3}[0-9]{18,20}\Z")


@given(st.lists(st.none() | st.text("0123456789 x", max_size=35) | _SEQUENCES, max_size=6), st.integers(0, 2))
def test_change_sequences(texts: list[str | None], skipped: int) -> None:
    found, failed = sequence_times(pa.array(texts, pa.string()).slice(skipped))
    expected = [_time(text) for text in texts[skipped:]]
    assert found.to_pylist() == expected
    wrong = [text is not None and time is None for text, time in zip(texts[skipped:], expected, strict=True)]
    assert failed.tolist() == wrong


def _time(text: str | None) -> dt.datetime | None:
    if text is None or not re.fullmatch(r"[0-9]{35}", text):
        return None
    hundredths = int(text[14:16])
    try:
        return dt.datetime(
            int(text[:4]), *(int(text[at : at + 2]) for at in range(4, 14, 2)), hundredths * 10_000, dt.UTC
        )
    except ValueError:
        return None
