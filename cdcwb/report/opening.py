"""The common beginning of notebooks: checks their parameters, opens the capture and summarises it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from cdcwb.analysis.summary_text import Health, health
from cdcwb.dataset import answer_of
from cdcwb.errors import OptionError
from cdcwb.formats import FORMATS
from cdcwb.formats.moments import parse_zone
from cdcwb.formats.options import as_list, as_object, check_window, nearest
from cdcwb.formats.source import absolute, is_remote
from cdcwb.report import show
from cdcwb.times import parse_time
from cdcwb.words import show_times_in, visible

if TYPE_CHECKING:
    from cdcwb.analysis.frames import TableSnapshot
    from cdcwb.capture import Capture


T = TypeVar("T")

PREPARED: Final[dict[str, tuple[str, dict[str, Any]]]] = {}
"""Of each folder in which this process saved a capture for reports: the original path, and the answers that pages share
(:attr:`cdcwb.Capture.answers`)."""


@dataclass(frozen=True, slots=True)
class OpenedCapture:
    """The capture of a notebook.

    ``whole`` is all of it, ``part`` is ``whole`` with the filters of ``tables`` and times, ``capture`` is ``part`` with
    frequently used tables read once. ``summary`` has the facts of :func:`cdcwb.analysis.summary.summarize`, ``health``
    the verdict on them. ``bench``: the views whose selection the page is about; None for the page of a notebook.
    """

    asked: Parameters
    whole: Capture
    part: Capture
    capture: TableSnapshot
    summary: dict[str, Any]
    health: Health
    bench: Any = None


def look_at(capture: Capture, part: Capture, asked: Parameters, images: bool = False) -> OpenedCapture:
    """The capture of the parameters; ``part`` is what they limit it to. ``images``: the notebook needs values, so
    changes are kept with images."""
    from cdcwb.analysis.contents import readers
    from cdcwb.analysis.frames import TableSnapshot
    from cdcwb.analysis.summary import summarize

    snapshot: Any = TableSnapshot(part, asked.folder, images)
    if asked.limits:
        summary = summarize(snapshot, unfiltered=False, whole=capture if asked.tables else None)
    else:
        if snapshot.stored and asked.path in PREPARED:
            snapshot.answers.update(PREPARED[asked.path][1])
        summary = answer_of(snapshot, "summary", summarize)  # every page of a capture begins with it
    show.read_by(readers(capture, asked.options))
    times = (summary["first_time"], summary["last_time"])
    first, last = (None if time is None else datetime.fromisoformat(time) for time in times)
    show_times_in(asked.zone, asked.time_zone, first, last)
    return OpenedCapture(asked, capture, part, snapshot, summary, health(summary))


def asked_of(capture: Capture, limits: Sequence[str] = (), **limited_to: Any) -> Parameters:
    """The parameters that an open capture would have: ``limits`` in words, and the tables and times that they are."""
    path, options = location_of(capture), options_of(capture)
    about: dict[str, Any] = {"path": path, "format": capture.format, "options": options, "shown": path}
    return Parameters(**about, limits=list(limits), **limited_to)


def options_of(capture: Capture) -> dict[str, Any]:
    """The reader options of an open capture; none of a saved one."""
    return {} if capture.origin is None else dict(capture.origin.options)


TARGETS: Final = ("target", "target_format", "target_options")
"""The parameters of a notebook that name the second capture of a comparison."""


def check_target(
    target: str = "", target_format: str = "auto", target_options: str | Mapping[str, Any] = "{}"
) -> Parameters | None:
    """The second capture of a comparison, checked as :func:`check_parameters` does; None without one."""
    try:
        return check_parameters(target, target_format, target_options) if target else None
    except OptionError as error:
        raise OptionError(f"target: {error}") from None


def open_target(target: str, **about: Any) -> Capture | None:
    """Opens the second capture of a comparison; None without one."""
    asked = check_target(target, **about)
    return None if asked is None else open_capture(asked)


def open_capture(asked: Parameters) -> Capture:
    """Opens the capture of the parameters. Raises CaptureError (or a child) as :func:`cdcwb.load` does."""
    import cdcwb

    return cdcwb.load(asked.path, asked.format, **asked.options)


def limited(capture: Capture, asked: Parameters) -> Capture:
    """The capture limited to the tables and times of the parameters."""
    if not asked.limits:
        return capture
    return capture.filter(asked.tables or None, time_from=asked.time_from, time_to=asked.time_to)


def location_of(capture: Capture) -> str:
    """The folder or file that a capture was read from."""
    if capture.place is not None and Path(capture.place).exists():
        return str(Path(capture.place).absolute())  # as files are named
    path = str(capture.saved_in or (capture.files[0]["file"] if len(capture.files) == 1 else ""))
    if not path and capture.files:
        path = os.path.commonpath([entry["file"] for entry in capture.files])
    return path


# --- parameters -------------------------------------------------------------------------------------------------------


class Mistakes(list[str]):
    """Sentences about everything that is wrong: ``with Mistakes() as wrong:`` raises one OptionError at its end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and self:
            raise OptionError("; ".join(self))

    def tried(self, work: Callable[[], T], otherwise: T) -> T:
        """The result of ``work``; ``otherwise`` if it raises an error about an option."""
        try:
            return work()
        except (OptionError, ValueError) as error:
            self.append(str(error))
            return otherwise


THEMES = ("auto", "light", "dark")
"""The themes of a page; auto: that of JupyterLab, or of the reader's system."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """The checked parameters of a notebook. ``path`` is absolute; times are aware; None and empty mean: no limit.

    ``path`` is opened, ``shown`` is its name on the page; they differ for a capture that was saved for several
    reports. ``time_zone`` is the zone in which times are displayed.
    """

    path: str
    format: str
    options: dict[str, Any]
    tables: list[str] = field(default_factory=list)
    time_from: datetime | None = None
    time_to: datetime | None = None
    folder: Path | None = None
    limits: list[str] = field(default_factory=list)
    """The filters of ``tables`` and times, in words; empty if there are none."""
    shown: str = ""
    time_zone: str = "UTC"
    theme: str = "auto"

    @property
    def zone(self) -> tzinfo:
        """The zone ``time_zone``."""
        if self.time_zone == "UTC":
            return UTC
        parsed = parse_zone(self.time_zone)
        return timezone(parsed) if isinstance(parsed, timedelta) else parsed


def check_parameters(
    path: str,
    format: str = "auto",
    options: str | Mapping[str, Any] = "{}",
    tables: list[str] | str | None = None,
    time_from: str = "",
    time_to: str = "",
    folder: str = "",
    time_zone: str = "UTC",
    theme: str = "auto",
    also: Sequence[Callable[[], object]] = (),
) -> Parameters:
    """The parameters of a notebook as its cell has them (plain texts and lists), understood. A list may be given as a
    JSON text, as ``papermill -p tables '["shop.orders"]'`` gives it.

    A relative ``path`` is resolved against the working folder; inside of a checkout of cdcwb also against the checkout,
    so that the notebooks open its examples. ``options`` is a JSON object of reader options. Times are ISO 8601,
    UTC where they have no zone. ``time_zone``, for display, is an IANA name or an offset such as +08:00. ``theme`` is
    one of :data:`THEMES`. ``also``: checks of a notebook's own parameters, which raise OptionError. Raises OptionError
    with all errors.
    """
    with Mistakes() as wrong:
        found_at = wrong.tried(partial(_find, path), "")
        times = {"time_from": time_from, "time_to": time_to}
        begin, end = (wrong.tried(partial(_time, name, text), None) for name, text in times.items())
        wrong.tried(partial(check_window, begin, end), None)
        names: list[str] = wrong.tried(partial(_tables, tables), [])
        target = Path(absolute(folder)) if folder else None
        if target is not None and target.exists() and not target.is_dir():
            wrong.append(f"folder: '{visible(target, 400)}' is a file")
        understood: dict[str, Any] = wrong.tried(partial(as_object, "options", options), {})
        if theme not in THEMES:
            wrong.append(f"theme: expected one of {', '.join(THEMES)}, found {visible(repr(theme))}")
        if format not in ("", "auto", *FORMATS):
            hint = f"{nearest(format, FORMATS)} There are: auto, {', '.join(FORMATS)}"
            wrong.append(f"format: there is no '{visible(format)}'.{hint}")
        zone = wrong.tried(partial(_zone, time_zone), "UTC")
        for check in also:
            wrong.tried(check, None)
    limits = [f"tables {', '.join(names)}"] if names else []
    limits += [f"from {begin.isoformat()}"] if begin is not None else []
    limits += [f"to {end.isoformat()}"] if end is not None else []
    return Parameters(
        path=found_at,
        format=format or "auto",
        options=understood,
        tables=names,
        time_from=begin,
        time_to=end,
        folder=target,
        limits=limits,
        shown=PREPARED[found_at][0] if found_at in PREPARED else found_at,
        time_zone=zone,
        theme=theme,
    )


def _find(path: Any) -> str:
    if not isinstance(path, str) or not path:
        raise OptionError("path: name a file or folder")
    if is_remote(path):
        return path
    location = Path(absolute(path))
    sources = Path(__file__).parents[2]
    is_inside = Path.cwd().is_relative_to(sources) and (sources / "notebooks").is_dir()
    for candidate in (location, *([sources / path] if is_inside else [])):
        if candidate.exists():
            return str(candidate)
    raise OptionError(f"path: there is no file or folder '{visible(location, 400)}'")


def _zone(text: Any) -> str:
    try:
        parse_zone(text or "UTC")
    except (OptionError, AttributeError, TypeError):
        wanted = "an IANA name such as Europe/Berlin or an offset such as +08:00"
        raise OptionError(f"time_zone: expected {wanted}, found {visible(repr(text))}") from None
    return str(text or "UTC").strip()


def _tables(tables: Any) -> list[str]:
    names = as_list(tables) if tables else []
    if isinstance(names, list | tuple) and all(isinstance(name, str) and name for name in names):
        return list(names)
    raise OptionError(f'tables: expected a list of names such as ["shop.orders"], found {visible(repr(tables))}')


def _time(name: str, text: str) -> datetime | None:
    try:
        return parse_time(text) if text else None
    except (AttributeError, ValueError):
        raise OptionError(
            f"{name}: expected a time such as 2025-03-23T10:57:19Z, found {visible(repr(text))}"
        ) from None
