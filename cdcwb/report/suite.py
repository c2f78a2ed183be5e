"""Suites: all reports on one capture, with an index page, from one kernel and a capture that is read once.

The notebooks share the start of Python, its imports and Spark, and open what
:func:`cdcwb.report.redact.save_captures` saved.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cdcwb.analysis.export import check_above, check_ending
from cdcwb.errors import CaptureError, OptionError
from cdcwb.formats.options import nearest
from cdcwb.formats.source import absolute, delivered_to, is_remote, url_of
from cdcwb.opening import check_capture
from cdcwb.report.facts import declared_facts, headline
from cdcwb.report.html import IndexEntry, Siblings, title_of, write_index, write_scripts
from cdcwb.report.opening import TARGETS, Mistakes, check_parameters, check_target
from cdcwb.report.redact import check_names
from cdcwb.report.runner import (
    SOURCE,
    Report,
    ReportRequest,
    check_page,
    keep,
    make_report,
    notebook_path,
    notebooks,
    parameters_of,
    version,
)
from cdcwb.report.thresholds import Judgement, Threshold, check_facts, judge, parse_thresholds

if TYPE_CHECKING:
    from cdcwb.report.kernel import Kernel


LESSON: Final = "start_here"
"""The notebook about the captures that come with cdcwb."""

ALONE: Final = (LESSON, "explore")
"""Notebooks that are not part of a suite: not about one capture, or interactive."""


@dataclass(frozen=True, slots=True)
class Suite:
    """The result of a suite: the ``facts`` of finished reports, and the sentences about those that ``failed``, by the
    name of their notebook; the ``entries`` for an index page; the result of the thresholds."""

    facts: dict[str, dict[str, Any]]
    failed: dict[str, str]
    entries: list[IndexEntry]
    judgement: Judgement


def members(names: Iterable[str] = ()) -> dict[str, Path]:
    """The notebooks of a suite by name; only ``names`` if they are given. Raises OptionError, which lists all errors in
    the names."""
    with Mistakes() as wrong:
        named = {name: wrong.tried(partial(notebook_path, name), Path()) for name in names}
    return named or {name: path for name, path in notebooks().items() if name not in ALONE}


def run_suite(
    path: str | Path,
    to: str | Path,
    format: str = "auto",
    options: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    say: Callable[[str], None] | None = None,
    redact: Sequence[str] = (),
    fail_if: Sequence[str] = (),
    names: Sequence[str] = (),
    kernel: Kernel | None = None,
    shared: Path | None = None,
) -> Suite:
    """Make every report on the capture ``path`` in the folder ``to``: ``NOTEBOOK.html`` and ``NOTEBOOK.json`` each,
    ``index.html`` and the scripts that the pages share. ``shared``: the folder with the scripts and index of several
    suites, if this is one of them.

    ``parameters`` go to the notebooks that have them. The values of the columns ``redact`` are in no file. ``fail_if``
    are thresholds (:func:`cdcwb.report.thresholds.parse_thresholds`). ``names``: only these notebooks. ``kernel``: a
    running one that is reused. If a notebook fails, the others are still run; its files from an earlier run are
    removed, since they are out of date. ``to`` may be a URL: all files are uploaded to it at the end, and none is
    removed there.

    Raises OptionError with everything that is wrong before anything runs, CaptureError where the capture cannot be
    read.
    """
    say = say or (lambda _: None)
    if is_remote(to):
        if wrong := check_ending(Path(url_of(str(to))), "reports go into a folder"):
            raise OptionError(wrong[0])
        with delivered_to(to, "index.html") as local:
            return run_suite(*(path, local, format, options, parameters, say, redact, fail_if, names, kernel, shared))
    folder = Path(absolute(to))
    wanted, chosen, thresholds = check_wanted(path, to, format, options, parameters, redact, fail_if, names)
    from cdcwb.report.kernel import Kernel  # imports papermill, which takes seconds

    failed: dict[str, str] = {}
    reports: dict[str, Report] = {}
    with (
        tempfile.TemporaryDirectory(prefix="cdcwb-suite-") as work,
        nullcontext(kernel) if kernel is not None else Kernel() as running,
    ):
        opened = keep(wanted, running, Path(work), folder, say)
        siblings = siblings_of(folder, shared or folder, chosen.values())
        for notebook in chosen.values():
            target = folder / f"{notebook.stem}.html"
            own = {name: value for name, value in (parameters or {}).items() if name in parameters_of(notebook)}
            for name in sorted(set(parameters or {}) - set(own)):
                say(f"{notebook.stem} has no parameter '{name}' and goes without")
            try:
                if running.ended:  # with what was kept for pages
                    opened = keep(wanted, running, Path(work), folder, say)
                reports[notebook.stem] = make_report(notebook, wanted, opened, target, own, say, running, siblings)
            except CaptureError as error:
                failed[notebook.stem] = str(error)
                say(f"{notebook.stem} was not made: {error}")
                for old in (target, target.with_suffix(".json")):
                    old.unlink(missing_ok=True)
    if failed:  # no page leads to one that is not there
        made = {name: siblings.reports[name] for name in reports}
        for report in reports.values():
            report.write(replace(siblings, reports=made))
    facts = {name: report.facts for name, report in reports.items()}
    entries = [entry_of(name, wanted.name, f"{name}.html", of_report) for name, of_report in facts.items()]
    suite = Suite(facts, failed, entries, judge(thresholds, facts))
    write_index(folder, entries, datetime.now(UTC), version(), suite.judgement.broken, failed)
    return suite


def siblings_of(folder: Path, shared: Path, reports: Iterable[Path] = ()) -> Siblings:
    """The links of the pages in ``folder``, with those to ``reports``; the scripts are written into
    the folder ``shared``, where the index will be.

    Raises CaptureError if they cannot be written.
    """
    scripts, integrity = write_scripts(shared)
    way = Path(os.path.relpath(shared, folder))
    titles = {path.stem: title_of(json.loads(path.read_text(encoding="utf-8"))) for path in reports}
    named = {stem: (title, f"{stem}.html") for stem, title in titles.items()}
    return Siblings((way / scripts.name).as_posix(), integrity, (way / "index.html").as_posix(), named)


def check_wanted(
    path: str | Path,
    to: str | Path,
    format: str,
    options: Mapping[str, Any] | None,
    parameters: Mapping[str, Any] | None,
    redact: Sequence[str],
    fail_if: Sequence[str],
    names: Sequence[str] = (),
    is_page: bool = False,
) -> tuple[ReportRequest, dict[str, Path], list[Threshold]]:
    """What a suite is about, its notebooks and thresholds, or those of the reports ``names``, after all checks that are
    possible before a process is started: notebooks, target, parameters, conditions, captures and their reader options.
    ``is_page``: ``to`` is the file of one report, not a folder.
    Raises one OptionError with all errors, or the CaptureError if the only error is a capture that cannot be read.
    """
    failure: CaptureError | None = None
    target = Path(absolute(to))
    merged = dict(parameters or {})
    with Mistakes() as wrong:
        chosen: dict[str, Path] = wrong.tried(partial(members, names), {})
        if not chosen and not wrong:
            wrong.append("no notebooks came with this installation")
        if not is_page and target.exists() and not target.is_dir():
            wrong.append(f"'{target}' is a file; name a folder")
        else:
            wrong += check_page(target) if is_page else check_ending(target, "reports go into a folder")
            wrong += check_above(target)
        known = sorted({name for notebook in chosen.values() for name in parameters_of(notebook)} - {*SOURCE})
        of = "any notebook" if len(chosen) != 1 else next(iter(chosen))
        for name in merged if chosen else ():
            if name not in known:
                hint = f"{nearest(name, known)} There are: {', '.join(known)}."
                wrong.append(f"unknown parameter '{name}' of {of}.{hint}")
        checked = ("tables", "time_from", "time_to", "time_zone", "theme")
        try:
            common = {name: merged[name] for name in checked if name in merged}
            check_parameters(absolute(path), format, json.dumps(dict(options or {})), **common)
            check_target(**{name: merged[name] for name in TARGETS if name in merged})
            wanted = ReportRequest.of(path, format, options, redact, merged)
            if LESSON not in (re.sub(r"^\d+_", "", notebook.stem) for notebook in chosen.values()):
                for one in wanted.captures:
                    check_capture(*one)
            elif options or format not in ("", "auto"):
                wrong.append(f"{LESSON} is about a folder of captures; it has no format and no options")
        except CaptureError as error:
            failure = error
            wrong.append(error.sentence)
        wrong += check_names(redact)
        thresholds: list[Threshold] = wrong.tried(partial(parse_thresholds, fail_if), [])
        declared = {name: kind for notebook in chosen.values() for name, kind in declared_facts(notebook).items()}
        wrong += check_facts(thresholds, declared) if chosen else []
        if failure is not None and len(wrong) == 1:
            raise failure
    return wanted, chosen, thresholds


def entry_of(name: str, capture: str, file: str, facts: Mapping[str, Any]) -> IndexEntry:
    """The entry of a report in the index."""
    health = facts.get("tone", "")
    about: dict[str, Any] = {name: facts.get(name, "") for name in ("what", "verdict")}
    about |= {"tone": facts.get("headline_tone", health), "headline": headline(facts), "answers": "headline" in facts}
    return IndexEntry(facts.get("title", name), capture, file, health=health, **about)
