"""``python -m cdcwb.report`` makes the lesson once, over the folder, and lists it first."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from nbformat import NotebookNode

from cdcwb.errors import CaptureError
from cdcwb.report import __main__ as command
from cdcwb.report import kernel
from cdcwb.report.html import PageInfo
from cdcwb.report.runner import Report
from cdcwb.report.suite import Suite, entry_of
from cdcwb.report.thresholds import judge


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What was asked for: the name of the notebook, or of the suite's folder, and the path."""
    for name in ("gbase8s", "goldengate"):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "file").touch()
    (tmp_path / "data" / "expected.json").touch()
    calls: list[tuple[str, str]] = []
    cells = [NotebookNode(cell_type="markdown", metadata={}, source="# Start here")]

    def suite(path: Path, to: Path, **_: Any) -> Suite:
        calls.append((to.name, str(path)))
        to.mkdir(parents=True, exist_ok=True)
        (to / "02_transactions.html").touch()
        return Suite({}, {}, [entry_of("02_transactions", str(path), "02_transactions.html", {})], judge([], {}))

    def lesson(notebook: Path, wanted: Any, opened: Any, target: Path, *_: Any) -> Report:
        calls.append((notebook.stem, opened[0][0]))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
        return Report(target, {}, NotebookNode(cells=cells), PageInfo("data", datetime.now(UTC), notebook.stem, "1"))

    monkeypatch.setattr(command, "run_suite", suite)
    monkeypatch.setattr(command, "make_report", lesson)
    monkeypatch.setattr(kernel.Kernel, "run", lambda *_: pytest.fail("no process is wanted"))
    return calls


def test_the_lesson_is_made_once_and_stands_first(tmp_path: Path, asked: list[tuple[str, str]]) -> None:
    assert command.main(["--data", str(tmp_path / "data"), "--to", str(tmp_path / "reports")]) == 0
    assert sorted(asked) == [
        ("00_start_here", str(tmp_path / "data")),
        ("gbase8s", str(tmp_path / "data" / "gbase8s")),
        ("goldengate", str(tmp_path / "data" / "goldengate")),
    ]
    index = (tmp_path / "reports" / "index.html").read_text(encoding="utf-8")
    places = [index.index(f'href="{name}"') for name in ("00_start_here.html", "gbase8s/02_transactions.html")]
    assert places == sorted(places)


def test_other_folders_have_no_lesson(tmp_path: Path, asked: list[tuple[str, str]]) -> None:
    (tmp_path / "data" / "expected.json").unlink()
    assert command.main(["--data", str(tmp_path / "data"), "--to", str(tmp_path / "reports")]) == 0
    assert [name for name, _ in sorted(asked)] == ["gbase8s", "goldengate"]


def test_a_named_notebook_is_made_without_the_lesson_and_the_lesson_without_the_others(
    tmp_path: Path, asked: list[tuple[str, str]]
) -> None:
    folders = ["--data", str(tmp_path / "data"), "--to", str(tmp_path / "reports")]
    assert command.main(["transactions", *folders]) == 0
    assert [name for name, _ in sorted(asked)] == ["gbase8s", "goldengate"]
    asked.clear()
    assert command.main(["00_start_here", *folders]) == 0
    assert [name for name, _ in asked] == ["00_start_here"]


def test_a_lesson_that_fails_is_said_and_its_old_page_goes(
    tmp_path: Path, asked: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise CaptureError("the process ended")

    monkeypatch.setattr(command, "make_report", fails)
    old = tmp_path / "reports" / "00_start_here.html"
    old.parent.mkdir()
    old.touch()
    assert command.main(["--data", str(tmp_path / "data"), "--to", str(tmp_path / "reports")]) == 2
    assert not old.exists()
    assert "the process ended" in (tmp_path / "reports" / "index.html").read_text(encoding="utf-8")
    assert len(asked) == 2
