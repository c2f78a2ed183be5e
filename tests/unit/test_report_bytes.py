"""A record's bytes and fields on a page: every byte once, every number at both places, everything escaped."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from cdcwb.formats import inspect
from cdcwb.formats.dissector import Field
from cdcwb.report.show import MOST_BYTES, MOST_FIELDS, parts, record_html
from tests.made import DATA
from tests.walkthrough import RECORDS


def leaf(name: str, at: int, raw: bytes, value: str | None = None, meaning: str = "") -> Field:
    return Field(name, at, len(raw), raw, value, meaning)


def group(raw: bytes, *children: Field) -> Field:
    return Field("record", 0, len(raw), raw, None, "", children)


@pytest.mark.parametrize(("file", "offset"), RECORDS)
def test_every_byte_of_a_real_record_is_in_one_run_and_every_number_at_both_places(file: str, offset: int) -> None:
    root = inspect(DATA / file, offset).field
    runs = parts(root)
    assert b"".join(run.raw for run in runs) == root.raw
    numbers = [run.number for run in runs if run.number is not None]
    assert numbers == list(range(1, len(numbers) + 1))
    html = record_html(root, as_text=not file.endswith(".bin"))
    data, table = html.split("<table", 1)
    assert re.findall(r"<b>(\d+)</b>", data) == re.findall(r"<b>(\d+)</b>", table) == [str(n) for n in numbers]


def test_bytes_that_no_field_holds_are_shown_without_a_number() -> None:
    root = group(b"abcdef", leaf("one", 1, b"b", "b"), leaf("two", 4, b"e", "e"))
    assert [(run.raw, run.number) for run in parts(root)] == [
        (b"a", None),
        (b"b", 1),
        (b"cd", None),
        (b"e", 2),
        (b"f", None),
    ]


def test_brackets_quiet_fields_and_what_is_skipped_get_no_number() -> None:
    quiet = Field("space", 1, 1, b" ", quiet=True)
    inner = Field("again", 2, 2, b"xy", None, "", (leaf("x", 2, b"x"), leaf("y", 3, b"y")))
    root = group(b"{ xyz", leaf("opening", 0, b"{"), quiet, inner, leaf("z", 4, b"z"))
    assert [run.number for run in parts(root, skip=("again",))] == [None, None, None, None, 1]


def test_what_was_captured_is_escaped_and_shown_on_its_line() -> None:
    evil = b'"><img onerror=x>\x1b\n<script>'
    html = record_html(group(evil, leaf("<b>", 0, evil, "<script>", "</td>")), as_text=True)
    assert not re.search(r"<(img|script|b>&)", html)
    assert "&lt;script&gt;" in html
    assert "\\x1b\n&lt;script" in html
    assert "</td></td>" not in html


def test_of_a_long_record_the_beginning_is_shown_and_the_rest_counted() -> None:
    raw = bytes(MOST_BYTES + 10)
    fields = [leaf(f"f{at}", at, raw[at : at + 10], "0") for at in range(0, len(raw), 10)]
    html = record_html(group(raw, *fields))
    assert "the last 10 bytes are not shown" in html
    assert html.count("<tr class=") == MOST_FIELDS


def test_each_number_has_a_rule_that_joins_bytes_and_field() -> None:
    css = resources.files("cdcwb.report").joinpath("show.css").read_text(encoding="utf-8")
    joined = re.findall(r"\.cdcwb-bytes:has\(\.n(\d+):hover\) span\.n(\d+)", css)
    assert joined == [(str(n), str(n)) for n in range(1, MOST_FIELDS + 1)]
