"""``python -m cdcwb.report``: every notebook over every capture of a folder, the one for beginners over the folder of
captures that come with cdcwb, and an index page over the reports."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, TypeAlias

from cdcwb import machine
from cdcwb.analysis.export import check_above
from cdcwb.errors import CaptureError, OptionError
from cdcwb.local_tables import is_small
from cdcwb.report.html import IndexEntry, title_of, write_index
from cdcwb.report.runner import ReportRequest, make_report, notebook_path, print_progress, version
from cdcwb.report.suite import LESSON, members, run_suite, siblings_of
from cdcwb.words import plural

if TYPE_CHECKING:
    from cdcwb.report.kernel import Kernel

Found: TypeAlias = tuple[str, Path]
"""A capture: its name and its path."""
Made: TypeAlias = tuple[list[IndexEntry], dict[str, str]]
"""The entries of finished reports for the index, and sentences about failed ones by name."""
Say: TypeAlias = Callable[[str], None]

_ROOM: Final = 3 << 30
"""Bytes of memory for one kernel with its Spark."""
_MOST: Final = 4
_ON_SPARK: Final = "qlik-kafka"
"""The capture whose changes are also counted on Spark."""
_OWN: Final = "expected.json"
"""A file in the folder of captures that come with cdcwb."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes the reports; returns 0 if all were made, 2 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m cdcwb.report", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="notebooks, without their number (default: all)")
    parser.add_argument(
        "--data", type=Path, default=Path("data"), help="folder with a folder for each capture (default: data)"
    )
    parser.add_argument("--to", type=Path, default=Path("reports"), help="where the reports go (default: reports)")
    parsed = parser.parse_args(arguments)
    started = time.monotonic()
    try:
        chosen = members(parsed.names)
        captures = find_captures(parsed.data)
        if wrong := check_above(parsed.to.absolute() / "index.html"):
            raise OptionError(wrong[0])
    except CaptureError as error:
        print_progress(str(error))
        return 2

    asked = {name: re.sub(r"^\d+_", "", path.stem) for name, path in chosen.items()}
    names = [name for name in parsed.names if asked[name] != LESSON]
    has_lesson = LESSON in asked.values() if parsed.names else (parsed.data / _OWN).is_file()
    of_each = len(names) if parsed.names else len(chosen)
    print_progress(f"{plural(of_each * len(captures) + has_lesson, 'report')} from '{parsed.data}' into '{parsed.to}'")
    entries: list[IndexEntry] = []
    failed: dict[str, str] = {}
    for made, not_made in _reports(captures if of_each else [], parsed.data if has_lesson else None, parsed.to, names):
        entries += made
        failed |= not_made
    for entry in entries:
        print_progress(f"{parsed.to / entry.file}: {entry.headline}")
    index = write_index(parsed.to, entries, datetime.now(UTC), version(), failed=failed)
    print_progress(f"{index}: {plural(len(entries), 'report')} in {time.monotonic() - started:.0f} s")
    return 2 if failed else 0


def _reports(captures: Sequence[Found], lesson: Path | None, to: Path, names: Sequence[str]) -> list[Made]:
    """The result of the lesson over the folder ``lesson`` (None: no lesson), and of the suite of every capture.

    The notebooks of a small capture use one core, so several kernels run in parallel, each with its own Spark: as many
    as this machine has memory and cores for.
    """
    from cdcwb.report.kernel import Kernel

    jobs: dict[str, Callable[[Kernel, Say], Made]] = {} if lesson is None else {LESSON: partial(_lesson, lesson, to)}
    jobs |= {label: partial(_suite, path, to, label, names) for label, path in captures}

    idle: SimpleQueue[Kernel] = SimpleQueue()

    def make(label: str) -> Made:
        kernel = idle.get()
        try:
            return jobs[label](kernel, lambda text: print_progress(f"{label}: {text}"))
        except CaptureError as error:
            print_progress(f"{label}: not made: {error}")
            return [], {label: str(error)}
        finally:
            idle.put(kernel)

    at_once = max(1, min(len(jobs), machine.cores(), machine.memory_bytes() // _ROOM, _MOST))
    kernels = at_once if all(is_small([path]) for _, path in captures) else 1
    with ExitStack() as running, ThreadPoolExecutor(kernels) as threads:
        for _ in range(kernels):
            idle.put(running.enter_context(Kernel()))
        return list(threads.map(make, jobs))


def _suite(path: Path, to: Path, label: str, names: Sequence[str], kernel: Kernel, say: Say) -> Made:
    given = {"on_spark": True} if label == _ON_SPARK and machine.find_java()[0] is not None else None
    suite = run_suite(path, to / label, parameters=given, say=say, names=names, kernel=kernel, shared=to.absolute())
    entries = [replace(entry, file=f"{label}/{entry.file}") for entry in suite.entries]
    return entries, {f"{label}, {name}": sentence for name, sentence in suite.failed.items()}


def _lesson(data: Path, to: Path, kernel: Kernel, say: Say) -> Made:
    """The report ``start_here`` over the folder ``data``."""
    notebook, wanted = notebook_path(LESSON), ReportRequest.of(data, "auto", None)
    target = to.absolute() / f"{notebook.stem}.html"
    try:
        siblings = siblings_of(target.parent, target.parent, [notebook])
        report = make_report(notebook, wanted, wanted.captures, target, {}, say, kernel, siblings)
    except CaptureError:
        for old in (target, target.with_suffix(".json")):
            old.unlink(missing_ok=True)
        raise
    headline = "Change data capture, and ten formats by hand"
    return [IndexEntry(title_of(report.executed), "", target.name, headline=headline)], {}


def find_captures(data: Path) -> list[Found]:
    """The captures of a folder: name and path. Each folder in it is a capture, except ``NAME.snapshot``, the snapshot
    of ``NAME``."""
    folders = sorted(f for f in data.iterdir() if f.is_dir() and not f.name.startswith(".")) if data.is_dir() else []
    names = {folder.name for folder in folders}
    folders = [f for f in folders if not (f.suffix == ".snapshot" and f.stem in names)]
    if not folders:
        raise OptionError(f"there is no folder with captures in '{data}'")
    return [(folder.name, folder) for folder in folders]


if __name__ == "__main__":
    sys.exit(main())
