"""The tables that many questions are asked of, read from the capture once.

Nothing of a capture is cached: a DataFrame that is used ten times is decoded ten times. A page of questions takes a
snapshot first, three Parquet tables without raw bytes, and asks those.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cdcwb.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdcwb.analysis.together import Together
    from cdcwb.capture import Capture

__all__ = ["Snapshot"]

_NAMES: Final = ("transactions", "changes", "problems")
_PLACED: Final = (
    *("file_index", "offset", "operation", "position", "transaction_id", "schema_name", "table_name"),
    *("outcome", "changed_at", "committed_at"),
)


class Snapshot:
    """A capture whose ``transactions``, ``changes`` and ``problems`` are read once. Of changes it keeps only the
    columns that place them, or with ``images`` all.

    Each is written when it is first used: as ``NAME.parquet`` into ``folder``, which is kept, or without one into a
    temporary folder that goes with this object. A cluster's workers cannot write there, so on a cluster without a
    ``folder`` that all of them see, nothing is written and every question reads the capture; nor is a saved capture,
    which is tables already. Everything else is the capture's own.

    Raises OptionError where ``folder`` holds something of that name that Spark did not write.
    """

    def __init__(self, capture: Capture | Together, folder: Path | None = None, images: bool = False) -> None:
        self._capture = capture
        self._images = images
        self._folder = folder
        if folder is None and capture.stored:
            return  # it is in Parquet already
        if folder is not None:
            for name in _NAMES:
                place = folder / f"{name}.parquet"
                if place.exists() and not (place / "_SUCCESS").exists():
                    raise OptionError(
                        f"'{place}' already exists and is not a table that Spark wrote; name another folder"
                    )
        elif (capture.spark.conf.get("spark.master", "") or "").startswith("local"):
            self._folder = Path(tempfile.mkdtemp(prefix="cdcwb-snapshot-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._capture, name)

    @property
    def is_saved(self) -> bool:
        """Are its tables those of a saved capture, of which nothing is written again?"""
        return self._folder is None and bool(self._capture.stored)

    def stored_in(self, name: str) -> Path | None:
        """The folder of Parquet files with exactly the rows of a table (a name of :data:`cdcwb.model.TABLES`); None
        where there is none."""
        if name in _NAMES and self._folder is not None:
            getattr(self, name)
            return self._folder / f"{name}.parquet"
        saved: Path | None = getattr(self._capture, "saved_in", None)
        return None if saved is None else saved / name

    @cached_property
    def transactions(self) -> DataFrame:
        """One row per transaction."""
        return self._kept("transactions")

    @cached_property
    def changes(self) -> DataFrame:
        """One row per logical change."""
        return self._kept("changes")

    @cached_property
    def problems(self) -> DataFrame:
        """One row per problem."""
        return self._kept("problems")

    def _kept(self, name: str) -> DataFrame:
        placed = name == "changes" and not self._images  # which needs no images
        source = getattr(self._capture, "change_headers" if placed else name)
        frame: DataFrame = source.select(*_PLACED) if placed else source
        if self._folder is None:
            return frame
        place = str(self._folder / f"{name}.parquet")
        frame.write.mode("overwrite").parquet(place)
        return frame.sparkSession.read.schema(frame.schema).parquet(place)
