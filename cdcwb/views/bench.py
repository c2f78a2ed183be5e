"""What the views of one capture share: its index, its selection, and who shows them."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from cdcwb.index.changes import Changes
from cdcwb.index.selected import Selected
from cdcwb.index.selection import Selection
from cdcwb.index.source import Source, source_of

if TYPE_CHECKING:
    from cdcwb.capture import Capture
    from cdcwb.explore.widget import ExplorerWidget

__all__ = ["Bench", "Follower"]


class Follower(Protocol):
    """What shows a selection, and is told of every step."""

    def follow(self) -> None:
        """The selection is another one."""
        ...

    def explorer(self, record: int) -> None:
        """Show a record, where no explorer is open."""
        ...


class Bench:
    """The index of a capture, the one selection, and the widgets that follow it.

    ``name`` is the capture's on a page of the browser; ``host`` is the widget that opens an explorer where none is.

    The index is made when it is first needed. Widgets are heard in threads of their own: ``lock`` is held for a step.
    """

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.name = uuid4().hex
        self.selection = Selection()
        self.lock = RLock()
        self.followers: WeakSet[Any] = WeakSet()
        self.explorers: WeakSet[Any] = WeakSet()
        self.host: Follower | None = None
        self.selection.observe(lambda _step: self._tell(), "version")
        self.selection.observe(lambda step: self._show(step["new"]), "record")

    @cached_property
    def source(self) -> Source:
        """The index of records."""
        return source_of(self.capture)

    @cached_property
    def changes(self) -> Changes:
        """The index of changes and transactions."""
        return self.source.changes

    @cached_property
    def selected(self) -> Selected:
        """What the selection lets through."""
        return Selected(self.changes, self.selection)

    def prepare(self) -> None:
        """Make the index in the cell that is run, where it is missing: with progress, and a button that cancels it."""
        from cdcwb.views.making import making

        with self.lock:
            if "changes" not in vars(self):
                with making("Making the index of the capture"):
                    _ = self.changes

    def explore(self) -> ExplorerWidget:
        """An explorer of the capture, which shows what is selected, and the record of the selection, from now on."""
        from cdcwb.explore.model import Explorer
        from cdcwb.explore.widget import ExplorerWidget
        from cdcwb.views.making import making
        from cdcwb.views.view import is_live

        shows_progress = "source" not in vars(self) and is_live()
        with making("Making the index of the explorer") if shows_progress else nullcontext():
            explorer = Explorer(self.source)
        explorer.follow(self.selection, self._records)
        widget = ExplorerWidget(explorer, self.name)
        self.explorers.add(widget)
        return widget

    def _records(self) -> npt.NDArray[np.bool_]:
        """Which records are those of selected changes."""
        with self.lock:
            found = np.zeros(self.source.index.records, np.bool_)
            rows = self.changes.record[self.selected.mask()]
            found[rows[rows >= 0]] = True
            return found

    def _tell(self) -> None:
        for one in [*self.followers, *self.explorers]:
            one.follow()

    def _show(self, record: int | None) -> None:
        if record is None:
            return
        if self.explorers:
            for explorer in list(self.explorers):
                explorer.show(record)
        elif self.host is not None:
            self.host.explorer(record)
