"""Marks, notes and saved filters: what was written is there again, whole, and what is no such file is refused."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from cdcwb.analysis.bookmarks import BOOKMARKS, FILTERS, Bookmarks, SavedFilters
from cdcwb.errors import CaptureError
from cdcwb.explore import bookmarks_of

ABOUT = {"type": "INSERT", "table": "HR.EMP", "position": "0A", "length": 80, "kind": "change", "transaction": None}


def test_marks_are_there_again_in_the_order_of_the_capture(tmp_path: Path) -> None:
    marks = Bookmarks(tmp_path / BOOKMARKS)
    marks.set(("b.bin", 7), "later <script>", ABOUT)
    marks.set(("a.bin", 9), "", ABOUT)
    rows = bookmarks_of(tmp_path)
    assert [(one["file"], one["offset"], one["note"]) for one in rows] == [
        ("a.bin", 9, ""),
        ("b.bin", 7, "later <script>"),
    ]
    assert rows[0]["table"] == "HR.EMP"
    assert rows[0]["marked_at"].endswith("+00:00")
    assert bookmarks_of(tmp_path / BOOKMARKS) == rows


def test_a_mark_can_be_changed_and_taken_away(tmp_path: Path) -> None:
    marks = Bookmarks(tmp_path / BOOKMARKS)
    marks.set(("a.bin", 0), "first", ABOUT)
    marks.set(("a.bin", 0), "second", ABOUT)
    assert (marks.note(("a.bin", 0)), len(marks)) == ("second", 1)
    marks.remove(("a.bin", 0))
    assert (marks.note(("a.bin", 0)), bookmarks_of(tmp_path)) == (None, [])


def test_what_another_window_marked_stays(tmp_path: Path) -> None:
    one, other = Bookmarks(tmp_path / BOOKMARKS), Bookmarks(tmp_path / BOOKMARKS)
    one.set(("a.bin", 0), "one", ABOUT)
    other.set(("a.bin", 1), "other", ABOUT)
    assert [mark["note"] for mark in bookmarks_of(tmp_path)] == ["one", "other"]


def test_where_nothing_was_marked_there_are_none(tmp_path: Path) -> None:
    assert bookmarks_of(tmp_path) == []
    assert bookmarks_of(tmp_path / "nowhere") == []


def test_without_a_file_marks_are_kept_in_memory() -> None:
    marks = Bookmarks(None)
    marks.set(("a.bin", 0), "note", ABOUT)
    assert marks.note(("a.bin", 0)) == "note"


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    marks = Bookmarks(tmp_path / BOOKMARKS)
    marks.set(("a.bin", 0), "first", ABOUT)
    before = (tmp_path / BOOKMARKS).read_bytes()
    with pytest.raises(TypeError):
        marks.set(("a.bin", 1), "second", {"type": object()})
    assert (tmp_path / BOOKMARKS).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [BOOKMARKS]


def test_the_rights_of_the_file_stay(tmp_path: Path) -> None:
    marks = Bookmarks(tmp_path / BOOKMARKS)
    marks.set(("a.bin", 0), "", ABOUT)
    (tmp_path / BOOKMARKS).chmod(0o640)
    marks.set(("a.bin", 1), "", ABOUT)
    assert stat.S_IMODE((tmp_path / BOOKMARKS).stat().st_mode) == 0o640


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"version": 1}',
        '{"version": 1, "marks": [1]}',
        '{"version": 1, "marks": [{"file": 1}]}',
        "\x00",
    ],
)
def test_a_file_that_holds_no_marks_is_refused_by_its_name(tmp_path: Path, content: str) -> None:
    (tmp_path / BOOKMARKS).write_text(content)
    with pytest.raises(CaptureError, match=BOOKMARKS):
        bookmarks_of(tmp_path)


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / BOOKMARKS).write_text(json.dumps({"version": 2, "marks": []}))
    with pytest.raises(CaptureError, match="written in version 2; this one reads 1"):
        bookmarks_of(tmp_path)


def test_filters_are_kept_by_name(tmp_path: Path) -> None:
    filters = SavedFilters(tmp_path / FILTERS)
    filters.save("updates", 'operation == "UPDATE"')
    filters.save("all", "offset >= 0")
    filters.save("updates", 'kind == "after"')
    again = SavedFilters(tmp_path / FILTERS)
    assert again.rows() == [{"name": "all", "text": "offset >= 0"}, {"name": "updates", "text": 'kind == "after"'}]
    again.remove("all")
    assert [one["name"] for one in SavedFilters(tmp_path / FILTERS).rows()] == ["updates"]
