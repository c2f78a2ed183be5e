"""A capture, saved once for all reports about it: what the notebooks of a suite open in the place of its files."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdcwb import model
from cdcwb.capture import Capture, _Live, _LiveRows, load
from cdcwb.report.parameters import SHOWN
from cdcwb.report.redact import redact

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["keep"]


def keep(
    path: str,
    format: str,
    options: Mapping[str, Any],
    hidden: Sequence[str],
    folder: str,
    shared: str,
) -> str:
    """Save the capture at ``path`` into a new folder and return that; the values of the columns ``hidden`` are taken
    out of it. Reports go on to speak of ``path``.

    The new folder is made in ``folder``, or, where Spark runs on a cluster, in ``shared``, which all machines see.
    """
    capture = load(path, format, **options)
    local = (capture.spark.conf.get("spark.master", "") or "").startswith("local")
    if not local:
        Path(shared).mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="capture-", dir=folder if local else shared))
    once = _decoded_once(capture, place / "events")
    saved = redact(once, hidden).save(place / "saved")
    (saved / SHOWN).write_text(json.dumps({"path": path}), encoding="utf-8")
    return str(saved)


def _decoded_once(capture: Capture, place: Path) -> Capture:
    """The same capture with its events in a Parquet table, from which its other tables are assembled."""
    tables = capture._tables
    if not isinstance(tables, _Live) or isinstance(tables, _LiveRows) or tables.mode != "PERMISSIVE":
        return capture
    tables.events(True).write.parquet(str(place))
    return Capture(_Decoded(tables, place))


class _Decoded(_Live):
    """The tables of a capture whose events are decoded already."""

    def __init__(self, live: _Live, place: Path) -> None:
        vars(self).update(vars(live))
        self._place = place

    def events(self, images: bool, mode: str | None = None) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema

        return self.spark.read.schema(from_arrow_schema(model.EVENTS)).parquet(str(self._place))
