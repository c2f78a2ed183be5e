"""What a page on an event log reads once: the log itself, and the tables behind its answers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cdcwb.analysis.ranges import Kept
from cdcwb.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdcwb.capture import Capture

__all__ = ["LogOnce", "kept_in"]


def kept_in(capture: Capture, folder: Path | None, names: Iterable[str]) -> Kept:
    """What keeps tables: in ``folder``, for good, or without one for the page alone. Raises OptionError where something
    of these names is there that Spark did not write."""
    kept = Kept(capture.spark)
    if folder is not None:
        for name in names:
            place = folder / f"{name}.parquet"
            if place.exists() and not (place / "_SUCCESS").exists():
                raise OptionError(f"'{place}' already exists and is not a table that Spark wrote; name another folder")
        kept.folder = folder
    return kept


class LogOnce:
    """An event log of which rows and statements are decoded once, in the columns that questions ask for."""

    has_images: Final = True

    def __init__(self, capture: Capture) -> None:
        self.format = capture.format
        self._capture = capture
        self._kept = Kept(capture.spark)

    @cached_property
    def events(self) -> DataFrame:
        """One row per row of the log."""
        columns = ("kind", "record_type", "operation", "position", "schema_name", "table_name", "changed_at", "headers")
        return self._kept.keep("events", self._capture.events.select("file_index", "offset", *columns))

    @cached_property
    def changes(self) -> DataFrame:
        """One row per statement."""
        return self._kept.keep(
            "changes", self._capture.change_headers.select("schema_name", "table_name", "record_type")
        )
