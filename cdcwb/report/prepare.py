"""Captures, saved once for all reports about them: what the notebooks of a suite open in the place of their files."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdcwb.analysis.marks import MARKS
from cdcwb.capture import load
from cdcwb.report.opening import SUMMARY
from cdcwb.report.parameters import SHOWN
from cdcwb.report.redact import check_known, redact

if TYPE_CHECKING:
    from cdcwb.capture import Capture

__all__ = ["keep"]


def keep(
    captures: Sequence[tuple[str, str, Mapping[str, Any], Sequence[str]]],
    hidden: Sequence[str],
    folder: str,
    shared: str,
) -> list[str]:
    """Save captures (path, format, reader options and the files that are read, empty: all) into new folders and return
    those; the values of the columns ``hidden`` are taken out of them. Reports go on to speak of the paths. What is
    counted in each is written beside its tables, so that no report counts it again.

    The new folders are made in ``folder``, or, where Spark runs on a cluster, in ``shared``, which all machines see.
    """
    loaded = {path: load(files or path, format, **options) for path, format, options, files in captures}
    columns = check_known(list(loaded.values()), hidden)
    return [
        _keep(path, capture, names, folder, shared)
        for (path, capture), names in zip(loaded.items(), columns, strict=True)
    ]


def _keep(path: str, capture: Capture, hidden: Sequence[str], folder: str, shared: str) -> str:
    from cdcwb.analysis.summary import summarize

    local = (capture.spark.conf.get("spark.master", "") or "").startswith("local")
    if not local:
        Path(shared).mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="capture-", dir=folder if local else shared))
    if hidden:  # which columns there are is asked of the values
        capture = redact(capture.decoded(place / "events"), hidden)
    saved = capture.save(place / "saved")
    (saved / SHOWN).write_text(json.dumps({"path": path}), encoding="utf-8")
    marks = Path(path) / MARKS
    if marks.is_file() and not hidden:  # a note may quote what is hidden
        shutil.copyfile(marks, saved / MARKS)
    (saved / SUMMARY).write_text(json.dumps(summarize(load(saved))), encoding="utf-8")
    return str(saved)
