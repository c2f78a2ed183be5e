"""Captures that are saved once for the notebooks of a suite, which open them instead of the files."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from cdcwb.analysis.bookmarks import BOOKMARKS
from cdcwb.analysis.summary import summarize
from cdcwb.capture import load
from cdcwb.report.opening import ANSWERS, SHOWN, SUMMARY
from cdcwb.report.redact import check_known, redact, targets
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
    saved = []
    for (path, format, options), target in zip(captures, places, strict=True):
        place = Path(load(path, format, **options).save(target / "saved"))
        (place / SHOWN).write_text(json.dumps({"path": path}), encoding="utf-8")
        marks = Path(path) / BOOKMARKS
        if marks.is_file() and not hidden:  # a note may quote a redacted value
            shutil.copyfile(marks, place / BOOKMARKS)
        saved.append(place)
    if hidden:
        loaded = [load(place) for place in saved]
        for place, capture, names in zip(saved, loaded, check_known(loaded, hidden), strict=True):
            if names:
                redact(place, targets(capture, names))
    for place in saved:
        capture = load(place)
        facts = summarize(capture) | {ANSWERS: {name: asdict(answer) for name, answer in capture.answers.items()}}
        (place / SUMMARY).write_text(json.dumps(facts, default=datetime.isoformat), encoding="utf-8")
    return [str(place) for place in saved]
