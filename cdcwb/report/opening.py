"""The common beginning of notebooks: checks their parameters, opens the captures and summarises them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cdcwb.analysis.summary_text import Health, health
from cdcwb.errors import OptionError
from cdcwb.formats import FORMATS
from cdcwb.formats.moments import parse_zone
from cdcwb.formats.options import as_list, nearest
from cdcwb.formats.source import is_remote
from cdcwb.report import show
from cdcwb.saved import SAVED
from cdcwb.words import show_times_in, unique_names, visible

if TYPE_CHECKING:
    from cdcwb.analysis.frames import Snapshot
    from cdcwb.analysis.together import Together
    from cdcwb.capture import Capture

__all__ = ["SHOWN", "SUMMARY", "THEMES", "Other", "Page", "Parameters", "check_parameters", "look_at", "open_page"]


SUMMARY: Final = "summary.json"
"""The file with the counts of a capture that was saved for reports, in its folder."""


@dataclass(frozen=True, slots=True)
class Page:
    """The captures of a notebook.

    ``captures``: each capture, unfiltered. ``whole`` is all of them as one capture, ``part`` is ``whole`` with the
    filters of ``tables`` and times, ``capture`` is ``part`` with frequently used tables read once. ``summary`` has the
    facts of :func:`cdcwb.analysis.summary.summarize`, ``health`` the verdict on them.
    """

    asked: Parameters
    captures: dict[str, Capture]
    whole: Capture | Together
    part: Capture | Together
    capture: Snapshot
    summary: dict[str, Any]
    health: Health


def open_page(asked: Parameters, images: bool = False) -> Page:
    """Opens the captures of the parameters. ``images``: the notebook needs values, so changes are kept with images.

    Raises CaptureError (or a child) as :func:`cdcwb.load` does.
    """
    import cdcwb
    from cdcwb.analysis.contents import readers
    from cdcwb.analysis.frames import Snapshot
    from cdcwb.analysis.together import Together

    captures = {name: cdcwb.load(other.path, other.format, **other.options) for name, other in asked.captures.items()}
    show.read_by(readers(captures, {name: other.options for name, other in asked.captures.items()}))
    parts = captures
    if asked.limits:
        parts = _parts(captures, asked)
    is_single = len(captures) == 1
    complete = next(iter(captures.values())) if is_single else Together(captures)
    part = next(iter(parts.values())) if is_single else Together(parts)
    capture = Snapshot(part, asked.folder, images)
    summary = _summary(asked, capture, complete)
    show_times_in(asked.zone, asked.time_zone, *_times(summary))
    return Page(asked, captures, complete, part, capture, summary, health(summary))


def look_at(
    capture: Capture,
    part: Capture | None = None,
    limits: Sequence[str] = (),
    images: bool = False,
    others: Sequence[Capture] = (),
) -> Page:
    """:func:`open_page` for an open capture. ``part`` (None: all of it) is the filtered capture, ``limits`` describes
    the filters. ``others`` are shown together with it."""
    from cdcwb.analysis.contents import readers
    from cdcwb.analysis.frames import Snapshot
    from cdcwb.analysis.summary import summarize
    from cdcwb.analysis.together import Together

    listed = [capture, *others]
    for item in listed:
        _ = item.spark  # raises CaptureError if it was stopped
    places = [_location_of(item) for item in listed]
    options = [{} if item.origin is None else item.origin.options for item in listed]
    names = list(unique_names((Path(path_of_capture).stem or "capture" for path_of_capture in places), separator="-"))
    captures = dict(zip(names, listed, strict=True))
    asked = Parameters(places[0], capture.format, options[0], [], None, None, None, list(limits), places[0])
    show.read_by(readers(captures, dict(zip(names, options, strict=True))))
    parts = captures | ({} if part is None else {names[0]: part})
    complete = Together(captures) if others else capture
    looked_at = Together(parts) if others else parts[names[0]]
    snapshot = Snapshot(looked_at, None, images)
    summary = summarize(snapshot, unfiltered=not limits)  # type: ignore[arg-type]
    show_times_in(asked.zone, asked.time_zone, *_times(summary))
    return Page(asked, captures, complete, looked_at, snapshot, summary, health(summary))


def _location_of(capture: Capture) -> str:
    """The folder or file that a capture was read from."""
    if capture.place is not None and Path(capture.place).exists():
        return capture.place
    path = str(capture.saved_in or (capture.files[0]["file"] if len(capture.files) == 1 else ""))
    if not path and capture.files:
        path = os.path.commonpath([entry["file"] for entry in capture.files])
    return path


def _times(summary: dict[str, Any]) -> tuple[datetime | None, datetime | None]:
    """The first and the last time of a capture."""
    first, last = (
        None if summary[name] is None else datetime.fromisoformat(summary[name]) for name in ("first_time", "last_time")
    )
    return first, last


def _summary(asked: Parameters, capture: Any, complete: Any) -> dict[str, Any]:
    """The counts of the capture, from :data:`SUMMARY` if it was saved for reports."""
    from cdcwb.analysis.summary import summarize

    counted = Path(asked.path) / SUMMARY
    if not asked.limits and not asked.others and capture.stored and counted.is_file():
        facts: dict[str, Any] = json.loads(counted.read_text(encoding="utf-8"))
        return facts
    return summarize(capture, unfiltered=not asked.limits, whole=complete if asked.tables else None)


# --- parameters -------------------------------------------------------------------------------------------------------

THEMES = ("auto", "light", "dark")
"""The themes of a page; auto: that of JupyterLab, or of the reader's system."""

SHOWN = "shown.json"
"""The file with the original path of a capture that was saved for reports, in its folder."""


@dataclass(frozen=True, slots=True)
class Other:
    """A further capture: ``path`` is opened, ``shown`` is its name on the page."""

    path: str
    format: str
    options: dict[str, Any]
    shown: str


@dataclass(frozen=True, slots=True)
class Parameters:
    """The checked parameters of a notebook. ``path`` is absolute; times are aware; None and empty mean: no limit.

    ``path`` is opened, ``shown`` is its name on the page; they differ for a capture that was saved for several
    reports. ``time_zone`` is the zone in which times are displayed. ``others`` are shown together with it.
    """

    path: str
    format: str
    options: dict[str, Any]
    tables: list[str]
    time_from: datetime | None
    time_to: datetime | None
    folder: Path | None
    limits: list[str] = field(default_factory=list)
    """The filters of ``tables`` and times, in words; empty if there are none."""
    shown: str = ""
    time_zone: str = "UTC"
    others: list[Other] = field(default_factory=list)
    theme: str = "auto"

    @property
    def zone(self) -> tzinfo:
        """The zone ``time_zone``."""
        if self.time_zone == "UTC":
            return UTC
        parsed = parse_zone(self.time_zone)
        return timezone(parsed) if isinstance(parsed, timedelta) else parsed

    @property
    def captures(self) -> dict[str, Other]:
        """All captures, by the name of the file or folder, with a number if the name repeats."""
        listed = (Other(self.path, self.format, self.options, self.shown), *self.others)
        names = unique_names((Path(capture.shown).stem or "capture" for capture in listed), separator="-")
        return dict(zip(names, listed, strict=True))


def check_parameters(
    path: str,
    format: str = "auto",
    options: str | Mapping[str, Any] = "{}",
    tables: list[str] | str | None = None,
    time_from: str = "",
    time_to: str = "",
    folder: str = "",
    time_zone: str = "UTC",
    others: Sequence[str | Mapping[str, Any]] | str = (),
    theme: str = "auto",
    also: Sequence[Callable[[], object]] = (),
) -> Parameters:
    """The parameters of a notebook as its cell has them (plain texts and lists), understood. A list may be given as a
    JSON text, as ``papermill -p tables '["shop.orders"]'`` gives it.

    A relative ``path`` is resolved against the working folder; inside of a checkout of cdcwb also against the checkout,
    so that the notebooks open its examples. ``options`` is a JSON object of reader options. Times are ISO 8601,
    UTC where they have no zone. ``time_zone``, for display, is an IANA name or an offset such as +08:00. ``others`` are
    paths, or objects with ``path``, ``format`` and ``options``. ``theme`` is one of :data:`THEMES`. ``also``: checks of
    a notebook's own parameters, which raise OptionError. Raises OptionError with all errors.
    """
    wrong: list[str] = []
    found_at = _find(path, wrong)
    begin, end = _time("time_from", time_from, wrong), _time("time_to", time_to, wrong)
    if begin is not None and end is not None and begin > end:
        wrong.append(f"time_from ({time_from}) is after time_to ({time_to})")
    names = _tables(tables, wrong)
    target = Path(folder).expanduser().absolute() if folder else None
    if target is not None and target.exists() and not target.is_dir():
        wrong.append(f"folder: '{visible(target, 400)}' is a file")
    understood = _options(options, wrong)
    further = _parse_others(others, wrong)
    if theme not in THEMES:
        wrong.append(f"theme: expected one of {', '.join(THEMES)}, found {visible(repr(theme))}")
    if format not in ("", "auto", *FORMATS):
        wrong.append(
            f"format: there is no '{visible(format)}'.{nearest(format, FORMATS)} There are: auto, {', '.join(FORMATS)}"
        )
    zone = _zone(time_zone, wrong)
    for check in also:
        try:
            check()
        except OptionError as error:
            wrong.append(str(error))
    if wrong:
        raise OptionError("; ".join(wrong))
    limits = [f"tables {', '.join(names)}"] if names else []
    limits += [f"from {begin.isoformat()}"] if begin is not None else []
    limits += [f"to {end.isoformat()}"] if end is not None else []
    return Parameters(
        *(
            found_at,
            format or "auto",
            understood,
            names,
            begin,
            end,
            target,
            limits,
            _shown(found_at),
            zone,
            further,
            theme,
        )
    )


def _parse_others(others: Any, wrong: list[str]) -> list[Other]:
    others = as_list(others)
    if not isinstance(others, list | tuple):
        wrong.append(f'others: expected a list of paths such as ["data"], found {visible(repr(others))}')
        return []
    captures = []
    for entry in others:
        fields = entry if isinstance(entry, dict) else {"path": entry}
        unknown = sorted(set(fields) - {"path", "format", "options"})
        if unknown:
            wrong.append(f"others: expected path, format and options, found {visible(', '.join(map(str, unknown)))}")
        path = _find(fields.get("path"), wrong, "others")
        options = fields.get("options", {})
        understood = _options(options, wrong)
        captures.append(Other(path, str(fields.get("format") or "auto"), understood, _shown(path) if path else ""))
        if captures[-1].format not in ("auto", *FORMATS):
            wrong.append(
                f"others: there is no format '{visible(captures[-1].format)}'.{nearest(captures[-1].format, FORMATS)}"
            )
    return captures


def _find(path: Any, wrong: list[str], name: str = "path") -> str:
    if not isinstance(path, str) or not path:
        wrong.append(f"{name}: name a file or folder")
        return ""
    if is_remote(path):
        return path
    location = Path(path).expanduser()
    sources = Path(__file__).parents[2]
    is_inside = Path.cwd().is_relative_to(sources) and (sources / "notebooks").is_dir()
    for candidate in (location.absolute(), *([sources / location] if is_inside else [])):
        if candidate.exists():
            return str(candidate)
    wrong.append(f"{name}: there is no file or folder '{visible(location.absolute(), 400)}'")
    return ""


def _shown(path: str) -> str:
    """The name of a capture on the page."""
    note = Path(path) / SHOWN
    saved = note.is_file() and (Path(path) / SAVED).is_file()
    return str(json.loads(note.read_text(encoding="utf-8"))["path"]) if saved else path


def _zone(text: Any, wrong: list[str]) -> str:
    try:
        parse_zone(text or "UTC")
    except (OptionError, AttributeError, TypeError):
        wrong.append(
            "time_zone: expected an IANA name such as Europe/Berlin or an offset such as +08:00, "
            f"found {visible(repr(text))}"
        )
    return str(text or "UTC").strip()


def _options(text: str | Mapping[str, Any], wrong: list[str]) -> dict[str, Any]:
    if isinstance(text, Mapping):
        return dict(text)
    try:
        options = json.loads(text or "{}")
    except (TypeError, ValueError) as error:
        wrong.append(f"options: expected a JSON object, found {visible(repr(text))} ({error})")
        return {}
    if not isinstance(options, dict):
        wrong.append(f"options: expected a JSON object, found {visible(repr(text))}")
        return {}
    return options


def _parts(captures: Mapping[str, Capture], asked: Parameters) -> dict[str, Capture]:
    """The captures limited to the tables and times. Of several captures, one that lacks the tables has no rows. Raises
    OptionError for a table that none has."""
    parts: dict[str, Capture] = {}
    lacking: list[OptionError] = []
    for name, capture in captures.items():
        try:
            parts[name] = capture.filter(asked.tables or None, time_from=asked.time_from, time_to=asked.time_to)
        except OptionError as error:
            lacking.append(error)
            parts[name] = capture.filter(where="false")
    if len(lacking) == len(captures):
        raise lacking[0]
    return parts


def _tables(tables: Any, wrong: list[str]) -> list[str]:
    names = as_list(tables)
    if isinstance(names, list | tuple) and all(isinstance(name, str) and name for name in names):
        return list(names)
    if tables:
        wrong.append(f'tables: expected a list of names such as ["shop.orders"], found {visible(repr(tables))}')
    return []


def _time(name: str, text: str, wrong: list[str]) -> datetime | None:
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        wrong.append(f"{name}: expected a time such as 2025-03-23T10:57:19Z, found {visible(repr(text))}")
        return None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
