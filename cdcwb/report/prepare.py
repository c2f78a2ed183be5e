"""Captures, saved once for all reports about them: what the notebooks of a suite open in the place of their files."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from cdcwb.analysis.marks import MARKS
from cdcwb.analysis.summary import summarize
from cdcwb.capture import load, open_small
from cdcwb.report.opening import SUMMARY
from cdcwb.report.parameters import SHOWN
from cdcwb.report.redact import check_known, redact
from cdcwb.spark.session import get_spark

__all__ = ["keep"]

Given: TypeAlias = tuple[str, str, Mapping[str, Any], Sequence[str]]
"""A capture: its path, format, reader options, and the files of it that are read (empty: all)."""


def keep(
    captures: Sequence[Given],
    hidden: Sequence[str],
    folder: str,
    shared: str,
) -> list[str]:
    """Save captures into new folders and return those; the values of the columns ``hidden`` are taken out of them.
    Reports go on to speak of the paths. What is counted in each is written beside its tables, so that no report counts
    it again.

    The new folders are made in ``folder``, or, where Spark runs on a cluster, in ``shared``, which all machines see.
    """
    spark = get_spark()
    local = (spark.conf.get("spark.master", "") or "").startswith("local")
    root = Path(folder if local else shared)
    root.mkdir(parents=True, exist_ok=True)
    places = [Path(tempfile.mkdtemp(prefix="capture-", dir=root)) for _ in captures]
    if hidden:
        saved = _redacted(captures, hidden, places)
    else:
        saved = [_saved(*given, place) for given, place in zip(captures, places, strict=True)]
    for (path, *_), kept in zip(captures, saved, strict=True):
        (kept / SHOWN).write_text(json.dumps({"path": path}), encoding="utf-8")
        marks = Path(path) / MARKS
        if marks.is_file() and not hidden:  # a note may quote what is hidden
            shutil.copyfile(marks, kept / MARKS)
        (kept / SUMMARY).write_text(json.dumps(summarize(load(kept, spark=spark))), encoding="utf-8")
    return list(map(str, saved))


def _saved(path: str, format: str, options: Mapping[str, Any], files: Sequence[str], place: Path) -> Path:
    small = open_small(files or path, format, options)
    return (small or load(files or path, format, **options)).save(place / "saved")


def _redacted(captures: Sequence[Given], hidden: Sequence[str], places: Sequence[Path]) -> list[Path]:
    loaded = [load(files or path, format, **options) for path, format, options, files in captures]
    each = zip(loaded, check_known(loaded, hidden), places, strict=True)
    return [
        # which columns there are is asked of the values
        (redact(capture.decoded(place / "events"), names) if names else capture).save(place / "saved")
        for capture, names, place in each
    ]
