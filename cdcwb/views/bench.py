"""The shared state of the views of one capture: its index, its selection, and the widgets."""

from __future__ import annotations

import sys
import threading
from _thread import interrupt_main
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property, lru_cache
from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from cdcwb import pool
from cdcwb.errors import CaptureError
from cdcwb.formats.arrays import label
from cdcwb.index.changes import Changes, TooManyChangesError
from cdcwb.index.record_index import NoRecordsError
from cdcwb.index.selected import TIME, Selected
from cdcwb.index.selected_capture import SelectedCapture
from cdcwb.index.selection import Selection
from cdcwb.index.source import IndexedCapture, source_of
from cdcwb.report import show
from cdcwb.report.opening import location_of
from cdcwb.spark.session import running_session, running_tasks
from cdcwb.words import duration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdcwb.capture import Capture
    from cdcwb.explore.widget import ExplorerWidget
    from cdcwb.views.pages.page import Page
    from cdcwb.views.widget import PageWidget


_REMEMBERED: Final = 3  # selections: one, the same without its times, and the one before


class Bench:
    """The index of a capture, its selection, and the widgets that follow it.

    ``name`` is the capture's name on a page of the browser; ``host`` is the widget that opens an explorer if there is
    none.

    The index is built on first use. Widgets receive messages in several threads: ``lock`` is held during a step.
    """

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.name = uuid4().hex
        self.selection = Selection(self._names)
        self.lock = RLock()
        self.followers: WeakSet[Any] = WeakSet()
        self.explorers: WeakSet[Any] = WeakSet()
        self.host: PageWidget | None = None
        self._pages = lru_cache(maxsize=_REMEMBERED)(self._selected_capture)
        self.selection.observe(lambda _step: [view.follow() for view in [*self.followers, *self.explorers]], "version")
        self.selection.observe(lambda step: self._show(step["new"]), "record")

    @cached_property
    def source(self) -> IndexedCapture:
        """The index of records."""
        return source_of(self.capture)

    @cached_property
    def location(self) -> str:
        """The folder or file that the capture was read from."""
        return location_of(self.capture)

    def _names(self, field: str) -> Iterable[str]:
        """The values that a field of the selection can have: names of tables, users, columns or transactions."""
        changes = self.source.changes
        versions = self.source.index.versions.values()
        if field == "tables":
            described = (label(version["schema_name"], version["table_name"]) for version in versions)
            return {*changes.texts["table"], *filter(None, described)}
        if field == "columns":
            return {*changes.names, *(column["name"] for version in versions for column in version["columns"] or [])}
        transactions = changes.transactions
        return transactions.texts["user"] if field == "users" else transactions.rows["transaction_id"].to_pylist()

    @cached_property
    def selected(self) -> Selected:
        """The selected part of the changes. Raises CaptureError if they are too many for views."""
        return Selected(self.source.changes, self.selection)

    @property
    def changes(self) -> Changes:
        """All changes. Raises CaptureError if they are too many for views."""
        return self.selected.changes

    def page(self, kind: type[Page], every_time: bool = False) -> Page:
        """The page of the panels of a class about the selection (:meth:`~cdcwb.views.pages.page.Page.of_selection`);
        ``every_time``: without its times. Pages of recent selections are remembered."""
        chosen = self.selection.chosen(TIME if every_time else ())
        capture, pages = self._pages(tuple(chosen.items()))
        if kind not in pages:
            pages[kind] = kind.of_selection(self, capture)
        return pages[kind]

    def _selected_capture(self, chosen: Iterable[tuple[str, Any]]) -> tuple[SelectedCapture, dict[type[Page], Page]]:
        """The capture of a selection, and room for pages about it."""
        return SelectedCapture(self.source, self.selected.by(dict(chosen))), {}

    @cached_property
    def refusal(self) -> str:
        """A sentence if the capture has no records, or too many changes, for views; else empty."""
        try:
            _ = self.selected
        except (NoRecordsError, TooManyChangesError) as error:
            return error.sentence
        return ""

    def prepare(self) -> str:
        """Builds the index in the running cell if it is missing, with progress and a button that cancels it. Returns
        :attr:`refusal`."""
        with self.lock, nullcontext() if "refusal" in vars(self) else making("Making the index of the capture"):
            return self.refusal

    def explore(self) -> ExplorerWidget:
        """An explorer of the capture that follows the selection and its current record."""
        from cdcwb.explore.model import Explorer
        from cdcwb.explore.widget import ExplorerWidget
        from cdcwb.views.view import is_live

        shows_progress = "source" not in vars(self) and is_live()
        with making("Making the index of the explorer") if shows_progress else nullcontext():
            explorer = Explorer(self.source)
        explorer.follow(self.selection, self._records)
        widget = ExplorerWidget(explorer, self.name)
        self.explorers.add(widget)
        return widget

    def _records(self) -> npt.NDArray[np.bool_]:
        """The mask of the records of selected changes."""
        with self.lock:
            mask = np.zeros(self.source.index.records, np.bool_)
            changes = self.selected.changes
            rows = changes.record[self.selected.mask()]
            mask[rows[rows >= 0]] = True
            return mask

    def _show(self, record: int | None) -> None:
        if record is not None and not self.explorers and self.host is not None:
            self.host.explorer(record)
        elif record is not None:
            for explorer in list(self.explorers):
                explorer.show(record)


# --- progress ---------------------------------------------------------------------------------------------------------

_QUIET: Final = 1.0
"""Seconds before progress is shown."""

_EMPTY: Final = {"text/plain": ""}
_ABOUT: Final = {"cdcwb": show.NOTHING}


def opening() -> AbstractContextManager[None]:
    """Shows in a live cell that a capture is being opened."""
    from cdcwb.views.view import is_live

    return making("Opening the capture") if is_live() else nullcontext()


@contextmanager
def making(what: str) -> Iterator[None]:
    """Shows the progress of ``what`` in the cell once it takes longer than a second. Its button, and an interrupted
    kernel, end it, and cancel the jobs of Spark (all jobs if the session was created meanwhile). Raises CaptureError
    after the button."""
    import ipywidgets
    from IPython.display import display

    text, bar = ipywidgets.Label(), ipywidgets.IntProgress(bar_style="info")
    button = ipywidgets.Button(description="Cancel", icon="stop")
    box = ipywidgets.HBox([text, bar, button])
    session, tag = _session(), f"cdcwb-{uuid4().hex}"
    finished, cancelled, shown = threading.Event(), threading.Event(), threading.Event()
    is_main = threading.current_thread() is threading.main_thread()

    def press(_button: Any) -> None:
        if not finished.is_set():
            cancelled.set()
            cancel()
            if is_main and threading.current_thread() is not threading.main_thread():
                interrupt_main()

    def cancel() -> None:
        if session is not None:
            session.interruptTag(tag)
        elif (late := _session()) is not None:
            late.interruptAll()

    def watch() -> None:
        began = monotonic()
        while not finished.wait(_QUIET):
            if not shown.is_set() and output is not None:
                output.update(box)
                shown.set()
            done, total = next(filter(any, (running_tasks(), pool.tasks())), (0, 0))
            bar.value, bar.max = done, total or 1
            tasks = f", {done} of {total} tasks" if total else ""
            text.value = f"{what}: {duration(int(monotonic() - began) * 1_000_000)}{tasks}"

    button.on_click(press)
    output: Any = display(_EMPTY, raw=True, metadata=_ABOUT, display_id=True)  # type: ignore[no-untyped-call]
    watcher = threading.Thread(target=watch, daemon=True, name="cdcwb-making")
    watcher.start()
    if session is not None:
        session.addTag(tag)
    try:
        yield
    except (Exception, KeyboardInterrupt) as reason:
        if not cancelled.is_set():
            if isinstance(reason, KeyboardInterrupt):
                cancel()
            raise
        raise CaptureError(f"{what} was cancelled; run the cell again to start over") from reason
    finally:
        if session is not None:
            session.removeTag(tag)
        finished.set()
        watcher.join()
        if shown.is_set():
            output.update(_EMPTY, raw=True, metadata=_ABOUT)
        box.close()


def _session() -> SparkSession | None:
    """The Spark session; None without one. Does not import Spark."""
    return running_session() if "pyspark" in sys.modules else None
