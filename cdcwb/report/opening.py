"""The beginning that notebooks share: the captures are opened, and the page says what they are."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cdcwb.analysis.summary_text import Health, health
from cdcwb.report import show
from cdcwb.report.parameters import Parameters
from cdcwb.unique_names import unique_names
from cdcwb.words import show_times_in

if TYPE_CHECKING:
    from cdcwb.analysis.snapshot import Snapshot
    from cdcwb.analysis.together import Together
    from cdcwb.capture import Capture

__all__ = ["SUMMARY", "Page", "look_at", "open_page"]

SUMMARY: Final = "summary.json"
"""The file beside the tables of a capture that was saved for reports: what is counted in each of them."""


@dataclass(frozen=True, slots=True)
class Page:
    """What a notebook asks its questions of.

    ``captures``: each capture that was named, whole. ``whole`` is all of them as one, ``part`` what ``tables`` and
    times leave of it, ``capture`` the same with the tables that are asked often read once. ``summary`` holds the facts
    of :func:`cdcwb.analysis.summary.summarize`, ``health`` what they come to.
    """

    asked: Parameters
    captures: dict[str, Capture]
    whole: Capture | Together
    part: Capture | Together
    capture: Snapshot
    summary: dict[str, Any]
    health: Health


def open_page(asked: Parameters, images: bool = False) -> Page:
    """Open what was asked for. ``images``: the questions are about values, so changes are kept with their images.

    Raises CaptureError (or a child) as :func:`cdcwb.load` does.
    """
    import cdcwb
    from cdcwb.analysis.contents import readers
    from cdcwb.analysis.snapshot import Snapshot
    from cdcwb.analysis.together import Together

    captures = {name: cdcwb.load(one.path, one.format, **one.options) for name, one in asked.captures.items()}
    show.read_by(readers(captures, {name: one.options for name, one in asked.captures.items()}))
    parts = captures
    if asked.limits:
        parts = {
            name: capture.filter(asked.tables, time_from=asked.time_from, time_to=asked.time_to)
            for name, capture in captures.items()
        }
    one = len(captures) == 1
    whole = next(iter(captures.values())) if one else Together(captures)
    part = next(iter(parts.values())) if one else Together(parts)
    capture = Snapshot(part, asked.folder, images)
    summary = _summary(asked, capture)
    show_times_in(asked.zone, asked.time_zone, *_times(summary))
    return Page(asked, captures, whole, part, capture, summary, health(summary))


def look_at(
    capture: Capture,
    part: Capture | None = None,
    limits: Sequence[str] = (),
    images: bool = False,
    others: Sequence[Capture] = (),
) -> Page:
    """The same for a capture that is open. ``part`` (None: all of it) is what is looked at, ``limits`` what it leaves
    out, in words. ``others`` are looked at together with it."""
    from cdcwb.analysis.contents import readers
    from cdcwb.analysis.snapshot import Snapshot
    from cdcwb.analysis.summary import summarize
    from cdcwb.analysis.together import Together

    listed = [capture, *others]
    places = [_place_of(one) for one in listed]
    options = [{} if one.origin is None else one.origin.options for one in listed]
    names = list(unique_names((Path(place).stem or "capture" for place in places), separator="-"))
    captures = dict(zip(names, listed, strict=True))
    asked = Parameters(places[0], capture.format, options[0], [], None, None, None, list(limits), places[0])
    show.read_by(readers(captures, dict(zip(names, options, strict=True))))
    parts = captures | ({} if part is None else {names[0]: part})
    whole = Together(captures) if others else capture
    looked_at = Together(parts) if others else parts[names[0]]
    kept = Snapshot(looked_at, None, images)
    summary = summarize(kept, whole=not limits)  # type: ignore[arg-type]
    show_times_in(asked.zone, asked.time_zone, *_times(summary))
    return Page(asked, captures, whole, looked_at, kept, summary, health(summary))


def _place_of(capture: Capture) -> str:
    """The folder or file that a capture was read from."""
    place = str(capture.saved_in or (capture.files[0]["file"] if len(capture.files) == 1 else ""))
    if not place and capture.files:
        place = os.path.commonpath([entry["file"] for entry in capture.files])
    return place


def _times(summary: dict[str, Any]) -> tuple[datetime | None, datetime | None]:
    """The first and the last time of a capture."""
    first, last = (None if summary[name] is None else _time(summary[name]) for name in ("first_time", "last_time"))
    return first, last


def _summary(asked: Parameters, capture: Any) -> dict[str, Any]:
    """What is counted in the capture: read, where it was counted when the capture was saved."""
    from cdcwb.analysis.summary import summarize

    counted = Path(asked.path) / SUMMARY
    if not asked.limits and not asked.others and capture.stored and counted.is_file():
        facts: dict[str, Any] = json.loads(counted.read_text(encoding="utf-8"))
        return facts
    return summarize(capture, whole=not asked.limits)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
