"""The index page over a folder of reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote

from cdcwb.report.html import render, write_whole
from cdcwb.words import moment, size, visible

__all__ = ["Entry", "write_index"]

_SENTENCE: Final = 600


@dataclass(frozen=True, slots=True)
class Entry:
    """One report: ``file`` is its name in the folder of the index, ``headline`` its answer, ``what`` a sentence about
    the capture, ``facts`` are (name, value) in words."""

    title: str
    capture: str
    file: str
    made: datetime
    tone: str = ""
    headline: str = ""
    what: str = ""
    facts: tuple[tuple[str, str], ...] = field(default=())


def write_index(
    folder: Path,
    entries: Iterable[Entry],
    made: datetime,
    version: str,
    broken: Sequence[str] = (),
    failed: Mapping[str, str] | None = None,
) -> Path:
    """Write ``index.html`` into ``folder`` and return its path. ``broken`` are sentences about thresholds, ``failed``
    those about reports that were not made, by their name. Everything is escaped."""
    rows = [
        {
            "title": entry.title,
            "capture": entry.capture,
            "href": quote(entry.file),
            "made": moment(entry.made.replace(microsecond=0)),
            "tone": entry.tone,
            "headline": entry.headline,
            "what": entry.what,
            "facts": entry.facts,
            "size": size((folder / entry.file).stat().st_size),
        }
        for entry in entries
    ]
    target = folder / "index.html"
    page = render(
        "index.html",
        entries=rows,
        made=moment(made.replace(microsecond=0)),
        version=version,
        broken=[visible(sentence, _SENTENCE) for sentence in broken],
        failed=[(name, visible(sentence, _SENTENCE)) for name, sentence in (failed or {}).items()],
    )
    write_whole(target, page)
    return target
