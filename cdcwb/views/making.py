"""While a cell makes an index: how far Spark is, and a button that cancels it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from cdcwb.errors import CaptureError
from cdcwb.report import show
from cdcwb.spark.session import running_session
from cdcwb.spark.tasks import running_tasks
from cdcwb.words import duration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["making"]

_QUIET: Final = 1.0
"""Seconds that it may take before anything is shown."""

_EMPTY: Final = {"text/plain": ""}
_ABOUT: Final = {"cdcwb": show.NOTHING}


@contextmanager
def making(what: str) -> Iterator[None]:
    """Show in the cell how far ``what`` is, once it takes longer than a second. Its button, and an interrupted kernel,
    end the work of Spark, all of it where the session began meanwhile; raises CaptureError after the button."""
    import ipywidgets
    from IPython.display import display

    text, bar = ipywidgets.Label(), ipywidgets.IntProgress(bar_style="info")
    button = ipywidgets.Button(description="Cancel", icon="stop")
    box = ipywidgets.HBox([text, bar, button])
    session, tag = _session(), f"cdcwb-{uuid4().hex}"
    finished, cancelled, shown = threading.Event(), threading.Event(), threading.Event()

    def cancel(_button: Any = None) -> None:
        cancelled.set()
        late = None if session is not None else _session()
        if session is not None:
            session.interruptTag(tag)
        elif late is not None:
            late.interruptAll()

    def watch() -> None:
        began = monotonic()
        while not finished.wait(_QUIET):
            if not shown.is_set() and place is not None:
                place.update(box)
                shown.set()
            done, total = running_tasks()
            bar.value, bar.max = done, total or 1
            tasks = f", {done} of {total} tasks" if total else ""
            text.value = f"{what}: {duration(int(monotonic() - began) * 1_000_000)}{tasks}"

    button.on_click(cancel)
    place: Any = display(_EMPTY, raw=True, metadata=_ABOUT, display_id=True)  # type: ignore[no-untyped-call]
    watcher = threading.Thread(target=watch, daemon=True, name="cdcwb-making")
    watcher.start()
    if session is not None:
        session.addTag(tag)
    try:
        yield
    except KeyboardInterrupt:
        cancel()
        raise
    except Exception as reason:
        if not cancelled.is_set():
            raise
        raise CaptureError(f"{what} was cancelled; run the cell again to start over") from reason
    finally:
        if session is not None:
            session.removeTag(tag)
        finished.set()
        watcher.join()
        if shown.is_set():
            place.update(_EMPTY, raw=True, metadata=_ABOUT)
        box.close()


def _session() -> SparkSession | None:
    """The Spark session; None where there is none. Does not import Spark."""
    return running_session() if "pyspark" in sys.modules else None
