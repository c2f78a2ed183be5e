"""The parts of the command line: options, escaped text, JSON, field trees, progress, sentences for Spark's failures."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, timedelta, timezone

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcwb.cli import console
from cdcwb.cli.console import sentence
from cdcwb.cli.look import field_json, tree_lines
from cdcwb.cli.options import Time, key_values
from cdcwb.formats.dissector import Field


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2025-03-23", datetime(2025, 3, 23, tzinfo=UTC)),
        ("2025-03-23T10:57:19", datetime(2025, 3, 23, 10, 57, 19, tzinfo=UTC)),
        ("2025-03-23 10:57:19.000005Z", datetime(2025, 3, 23, 10, 57, 19, 5, tzinfo=UTC)),
        ("2025-03-23T10:57:19+08:00", datetime(2025, 3, 23, 2, 57, 19, tzinfo=UTC)),
    ],
)
def test_times_are_iso_8601_and_utc_without_a_zone(text: str, time: datetime) -> None:
    assert Time().convert(text, None, None) == time
    assert Time().convert(text, None, None).utcoffset() == timedelta(0)


@pytest.mark.parametrize("text", ["", "now", "2025-02-30", "10:57", "0001-01-01T00:00:00+08:00"])
def test_what_is_no_time_is_said(text: str) -> None:
    with pytest.raises(click.BadParameter, match="expected a time such as"):
        Time().convert(text, None, None)


def test_an_option_given_twice_holds_both_values() -> None:
    pairs = [("keys", "a:x"), ("charset", "gbk"), ("keys", "b:y"), ("keys", "c:z")]
    assert key_values(pairs) == {"keys": ["a:x", "b:y", "c:z"], "charset": "gbk"}


@given(st.text())
def test_safe_text_is_printable_on_one_line_and_loses_no_character(text: str) -> None:
    shown = console.safe(text)
    assert len(shown.splitlines()) <= 1
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c in "\u202a\u202e\u2066\u2069\u2028" for c in shown)
    assert len(shown) >= len(text)


@given(st.text())
def test_json_is_safe_to_print_and_reads_back(text: str) -> None:
    shown = console.to_json({"text": text})
    assert not any((ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 or c in "\u202a\u202e\u2066" for c in shown)
    assert json.loads(shown) == {"text": text}


def test_json_has_times_in_utc_to_the_microsecond_and_bytes_as_hex() -> None:
    east = timezone(timedelta(hours=8))
    value = {
        "aware": datetime(2025, 3, 23, 18, 57, 19, tzinfo=east),
        "first": datetime(1, 1, 1, tzinfo=UTC),
        "day": date(2024, 1, 31),
        "raw": b"\x00\xff",
        "list": ({"a": None},),
    }
    assert console.jsonable(value) == {
        "aware": "2025-03-23T10:57:19.000000Z",
        "first": "0001-01-01T00:00:00.000000Z",
        "day": "2024-01-31",
        "raw": "00ff",
        "list": [{"a": None}],
    }


RAW = bytes(range(100))
TREE = Field(
    "record",
    0,
    100,
    RAW,
    children=(
        Field("size", 0, 4, RAW[:4], "66050", "in bytes"),
        Field("text", 4, 96, RAW[4:], "x" * 300, problem="charset"),
    ),
)


def test_a_long_field_says_how_much_of_it_is_left_out() -> None:
    lines = list(tree_lines(TREE, start=1000))
    assert lines[0] == (1000, "", "record", False)
    assert lines[1] == (1000, "00 01 02 03", "  size = 66050  (in bytes)", False)
    assert lines[2][:2] == (1004, "04 05 06 07 08 09 0a 0b")
    assert lines[2].field == f"  text = {'x' * 200}… 100 more characters  [problem: charset]"
    assert lines[2].problem
    assert lines[3] == (None, "0c 0d 0e 0f 10 11 12 13", "", False)
    assert lines[-1] == (None, "… 32 more bytes", "", False)
    assert len(lines) == 1 + 1 + 8 + 1


def test_everything_shows_every_byte() -> None:
    lines = list(tree_lines(TREE, everything=True))
    assert bytes.fromhex("".join(line.hex for line in lines)) == RAW
    assert "x" * 300 in lines[2].field


def test_a_field_as_json_keeps_its_tree() -> None:
    size, text = (field_json(child) for child in TREE.children)
    assert field_json(TREE)["children"] == [size, text]
    assert size == {
        "name": "size",
        "offset": 0,
        "length": 4,
        "raw": "00010203",
        "value": "66050",
        "meaning": "in bytes",
        "problem": None,
        "children": [],
    }


def test_rows_outside_a_terminal_are_one_line_each_with_aligned_columns(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_rows(("a", "bb"), [("x" * 300, "1"), ("y", "2")])
    head, first, second = capsys.readouterr().out.splitlines()
    assert head == "a".ljust(302) + "bb"
    assert first == "x" * 300 + "  1"
    assert second == "y".ljust(302) + "2"


def test_markup_in_captured_text_stays_text_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("COLUMNS", "80")
    console.print_rows(("name", "value"), [("c1", "[bold]:smile:[/bold] [link=x]")], marked=[0])
    assert "[bold]:smile:[/bold] [link=x]" in screen.getvalue()


def test_progress_is_silent_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with console.working("counting") as step:
        step("counting more", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_progress_shows_what_is_being_done_once_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr(console, "QUIET_SECONDS", 0.0)
    shown = False
    with console.working("counting [b]\x1b") as step:
        step("counting [b]\x1b", 1, 2)
        for _ in range(300):
            shown = shown or "50%" in screen.getvalue()
            if shown:
                break
            console.threading.Event().wait(0.05)
    assert shown
    assert r"counting [b]\x1b" in screen.getvalue()


def test_quick_work_shows_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", screen)
    with console.working("counting"):
        pass
    assert screen.getvalue() == ""


def test_a_worker_s_capture_error_is_told_as_its_sentence() -> None:
    from pyspark.errors import PythonException

    text = (
        "An exception was thrown from the Python worker. Please see the stack trace below.\n"
        "Traceback (most recent call last):\n"
        '  File "x.py", line 1, in read\n'
        "cdcwb.errors.MalformedRecordError: a.bin at offset 7: no record begins here\n"
    )
    assert sentence(PythonException(text)) == "a.bin at offset 7: no record begins here"


def test_a_worker_s_other_error_is_not_taken_for_a_user_s() -> None:
    from pyspark.errors import PythonException

    assert sentence(PythonException("Traceback\nZeroDivisionError: division by zero\n")) is None
