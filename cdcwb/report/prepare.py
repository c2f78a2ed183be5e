"""Captures that are saved once for the notebooks of a suite, which open them instead of the files."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from cdcwb.analysis.bookmarks import BOOKMARKS
from cdcwb.analysis.summary import summarize
from cdcwb.capture import Capture, load
from cdcwb.report.opening import SHOWN, SUMMARY
from cdcwb.report.redact import check_known, redact
from cdcwb.saving import decoded
from cdcwb.spark.session import on_cluster

__all__ = ["keep"]

Given: TypeAlias = tuple[str, str, Mapping[str, Any]]
"""A capture: its path, format and reader options."""


def keep(
    captures: Sequence[Given],
    hidden: Sequence[str],
    folder: str,
    shared: str,
) -> list[str]:
    """Saves captures into new folders, without the values of the columns ``hidden``, and returns the folders. The
    original paths, for the text of reports, and the counts of each capture are written into its folder.

    The new folders are in ``folder`` or, if Spark runs on a cluster, in ``shared``, which all machines have.
    """
    root = Path(shared if on_cluster() else folder)
    root.mkdir(parents=True, exist_ok=True)
    places = [Path(tempfile.mkdtemp(prefix="capture-", dir=root)) for _ in captures]
    loaded = [load(path, format, **options) for path, format, options in captures]
    opened = _redacted(loaded, hidden, places) if hidden else loaded
    for (path, *_), capture, target in zip(captures, opened, places, strict=True):
        saved = Path(capture.save(target / "saved"))
        (saved / SHOWN).write_text(json.dumps({"path": path}), encoding="utf-8")
        marks = Path(path) / BOOKMARKS
        if marks.is_file() and not hidden:  # a note may quote a redacted value
            shutil.copyfile(marks, saved / BOOKMARKS)
        facts = summarize(load(saved))
        (saved / SUMMARY).write_text(json.dumps(facts), encoding="utf-8")
    return [str(target / "saved") for target in places]


def _redacted(loaded: Sequence[Capture], hidden: Sequence[str], places: Sequence[Path]) -> list[Capture]:
    each = zip(loaded, check_known(loaded, hidden), places, strict=True)
    # which columns there are is asked of the values
    return [
        redact(capture.within(partial(decoded, folder=folder / "events")), names) if names else capture
        for capture, names, folder in each
    ]
