"""The explorer: the records of a capture with their fields and bytes.

from cdcwb.explore import explore

explore("data/gbase8s")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cdcwb.analysis.bookmarks import bookmarks_of

if TYPE_CHECKING:
    import os

    from pyspark.sql import DataFrame

    from cdcwb.explore.widget import ExplorerWidget
    from cdcwb.formats import Paths

__all__ = ["bookmarks_of", "explore"]


def explore(
    path: Paths | DataFrame, format: str = "auto", folder: str | os.PathLike[str] | None = None, **options: Any
) -> ExplorerWidget:
    """The explorer of a capture, for the last line of a cell.

    ``path``, ``format`` and ``options`` are those of :func:`cdcwb.load`. Bookmarks, notes and saved filters are
    stored in ``folder``, or in the folder of a saved capture; else they exist as long as the session.
    Raises CaptureError like ``load``.
    """
    from cdcwb.explore.model import Explorer
    from cdcwb.explore.widget import ExplorerWidget

    return ExplorerWidget(Explorer.open(path, format, folder, **options))
