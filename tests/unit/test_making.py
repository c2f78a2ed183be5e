"""An index that is made in a cell: its progress, and how it is cancelled."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any
from unittest.mock import patch

import ipywidgets
import pyarrow as pa
import pytest

from cdcwb.errors import CaptureError
from cdcwb.index.source import open_source
from cdcwb.report import check_parameters
from cdcwb.views import bench as module
from cdcwb.views.bench import making
from cdcwb.views.pages.capture import Explore
from tests.saved_capture import write_saved


class Session:
    """A Spark session that keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *tag: self.asked.append((name, *tag) if tag else name)


class Cell:
    """The output of a cell."""

    def __init__(self) -> None:
        self.box: Any = None
        self.left: Any = None
        self.shown = Event()

    def display(self, content: Any, display_id: bool, **about: Any) -> Cell:
        assert display_id
        self.left = content
        return self

    def update(self, content: Any, **about: Any) -> None:
        self.left = content
        if isinstance(content, ipywidgets.HBox):
            self.box = content
            self.shown.set()

    @property
    def parts(self) -> tuple[Any, Any, Any]:
        """The line, the bar and the button, once they are shown."""
        assert self.shown.wait(60)
        text, bar, button = self.box.children
        return text, bar, button


@pytest.fixture
def cell() -> Any:
    cell, session = Cell(), Session()
    with (
        patch("IPython.display.display", cell.display),
        patch.object(module, "_session", lambda: session),
        patch.object(module, "running_tasks", lambda: (3, 8)),
        patch.object(module, "_QUIET", 0.01),
    ):
        yield cell, session


def test_it_says_how_far_spark_is_and_leaves_nothing_behind(cell: Any) -> None:
    cell, session = cell
    with making("Making it"):
        text, bar, button = cell.parts
        wait = Event()
        text.observe(lambda _change: wait.set(), "value")
        assert wait.wait(60)
        assert text.value.startswith("Making it: ")
        assert text.value.endswith(", 3 of 8 tasks")
        assert (bar.value, bar.max) == (3, 8)
        assert isinstance(button, ipywidgets.Button)
    assert cell.left == {"text/plain": ""}
    (added, tag), (removed, same) = session.asked
    assert (added, removed, tag) == ("addTag", "removeTag", same)


def test_its_button_cancels_the_jobs_of_spark_and_says_so(cell: Any) -> None:
    cell, session = cell

    def cancelled() -> None:
        with making("Making it"):
            cell.parts[2].click()
            raise RuntimeError("job 7 cancelled")

    with pytest.raises(CaptureError, match="Making it was cancelled; run the cell again"):
        cancelled()
    assert [step for step, _ in session.asked] == ["addTag", "interruptTag", "removeTag"]
    assert cell.left == {"text/plain": ""}


def test_an_interrupted_kernel_ends_the_jobs_of_spark_too(cell: Any) -> None:
    cell, session = cell
    with pytest.raises(KeyboardInterrupt), making("Making it"):
        raise KeyboardInterrupt
    assert [step for step, _ in session.asked] == ["addTag", "interruptTag", "removeTag"]


def test_what_fails_by_itself_fails_as_it_did(cell: Any) -> None:
    with pytest.raises(ZeroDivisionError), making("Making it"):
        raise ZeroDivisionError


def test_a_session_that_begins_meanwhile_is_interrupted_too(cell: Any) -> None:
    cell, session = cell
    with patch.object(module, "_session", lambda: None):
        progress = making("Making it")
        progress.__enter__()
    cell.parts[2].click()
    assert session.asked == ["interruptAll"]
    with pytest.raises(CaptureError, match="Making it was cancelled"):
        progress.__exit__(RuntimeError, RuntimeError("job 7 cancelled"), None)


def test_an_index_that_is_made_here_shows_progress_within_two_seconds_and_is_cancelled(tmp_path: Path) -> None:
    """The work is in this process, without Spark, and the button is pressed in another thread, as in JupyterLab."""
    cell, pressed = Cell(), []
    source = open_source(write_saved(tmp_path / "capture", changes=50, transactions=5))
    began, endless = monotonic(), Event()

    def press() -> None:
        _, _, button = cell.parts
        pressed.append(monotonic())
        button.click()

    def described(batch: pa.RecordBatch) -> pa.RecordBatch:
        while not endless.wait(0.01):
            pass
        return batch

    thread = Thread(target=press)
    thread.start()
    with (
        patch("IPython.display.display", cell.display),
        patch("cdcwb.index.source.described", described),
        pytest.raises(CaptureError, match="Making it was cancelled; run the cell again"),
        making("Making it"),
    ):
        _ = source.changes
    assert pressed[0] - began < 2
    assert monotonic() - pressed[0] < 2
    thread.join()
    assert cell.left == {"text/plain": ""}
    assert len(source.changes) == 50  # nothing of the first attempt is left


def test_the_index_of_an_explorer_is_made_with_progress(cell: Any, tmp_path: Path) -> None:
    cell, _ = cell
    folder = write_saved(tmp_path / "capture", changes=50, transactions=5)
    with patch.dict(os.environ, {"CDCWB_VIEWS": "live"}):
        page = Explore(check_parameters(str(folder), "auto", "{}", [], "", "", "", "UTC", "auto"))
    assert page.pane.explorer.index.records > 0
    assert cell.left == {"text/plain": ""}
