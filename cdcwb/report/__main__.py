"""``python -m cdcwb.report``: every notebook over every capture of a folder, the one for beginners over the folder of
captures that come with cdcwb, and an index page over the reports."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from cdcwb import machine
from cdcwb.analysis.export import check_above
from cdcwb.errors import CaptureError, OptionError
from cdcwb.local_tables import is_small
from cdcwb.report.html import IndexEntry, title_of, write_index
from cdcwb.report.runner import ReportRequest, make_report, notebook_path, version
from cdcwb.report.suite import LESSON, Suite, members, run_suite, siblings_of
from cdcwb.words import plural

if TYPE_CHECKING:
    from cdcwb.report.kernel import Kernel

Found: TypeAlias = tuple[str, Path]
"""A capture: its name and its path."""

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
        _say(str(error))
        return 2

    asked = {name: re.sub(r"^\d+_", "", path.stem) for name, path in chosen.items()}
    names = [name for name in parsed.names if asked[name] != LESSON]
    has_lesson = LESSON in asked.values() if parsed.names else (parsed.data / _OWN).is_file()
    of_each = len(names) if parsed.names else len(chosen)
    _say(f"{plural(of_each * len(captures) + has_lesson, 'report')} from '{parsed.data}' into '{parsed.to}'")
    made = _reports(captures if of_each else [], parsed.data if has_lesson else None, parsed.to, names)
    entries: list[IndexEntry] = []
    failed: dict[str, str] = {}
    for label, suite in made.items():
        if isinstance(suite, IndexEntry):
            entries.append(suite)
        elif isinstance(suite, Suite):
            entries += [replace(entry, file=f"{label}/{entry.file}") for entry in suite.entries]
            failed |= {f"{label}, {name}": sentence for name, sentence in suite.failed.items()}
        else:
            failed[label] = suite
    for entry in entries:
        _say(f"{parsed.to / entry.file}: {entry.headline}")
    index = write_index(parsed.to, entries, datetime.now(UTC), version(), failed=failed)
    _say(f"{index}: {plural(len(entries), 'report')} in {time.monotonic() - started:.0f} s")
    return 2 if failed else 0


def _reports(
    captures: Sequence[Found], lesson: Path | None, to: Path, names: Sequence[str]
) -> dict[str, Suite | IndexEntry | str]:
    """The result of the lesson over the folder ``lesson`` (None: no lesson), which comes first, and of the suite of
    every capture, by the name of the capture; a sentence if it failed.

    The notebooks of a small capture use one core, so several kernels run in parallel.
    """
    from cdcwb.report.kernel import Kernel

    small = all(is_small([path]) for _, path in captures)
    made: dict[str, Suite | IndexEntry | str] = {} if lesson is None else {LESSON: ""}
    made |= {label: "" for label, _ in captures}
    waiting: list[tuple[str, Callable[[Kernel, Callable[[str], None]], Suite | IndexEntry]]] = []
    for label, path in reversed(captures):
        waiting.append((label, partial(_suite, path, to, label, names)))
    if lesson is not None:  # first, because it is short
        waiting.insert(0, (LESSON, partial(_lesson, lesson, to)))

    def work() -> None:
        with Kernel() as kernel:
            while waiting:
                label, make = waiting.pop()

                def tell_step(text: str, label: str = label) -> None:
                    _say(f"{label}: {text}")

                try:
                    made[label] = make(kernel, tell_step)
                except CaptureError as error:
                    tell_step(f"not made: {error}")
                    made[label] = str(error)

    kernels = _side_by_side(len(waiting)) if small else 1
    with ThreadPoolExecutor(kernels) as threads:
        for done in [threads.submit(work) for _ in range(kernels)]:
            done.result()
    return made


def _suite(path: Path, to: Path, label: str, names: Sequence[str], kernel: Kernel, say: Callable[[str], None]) -> Suite:
    given = {"on_spark": True} if label == _ON_SPARK and machine.find_java()[0] is not None else None
    return run_suite(path, to / label, parameters=given, say=say, names=names, kernel=kernel, shared=to.absolute())


def _lesson(data: Path, to: Path, kernel: Kernel, say: Callable[[str], None]) -> IndexEntry:
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
    return IndexEntry(
        title_of(report.executed), "", target.name, headline="Change data capture, and ten formats by hand"
    )


def _side_by_side(captures: int) -> int:
    """The number of kernels, each with its own Spark, for which this machine has memory and cores."""
    return max(1, min(captures, machine.cores(), machine.memory_bytes() // _ROOM, _MOST))


def find_captures(data: Path) -> list[Found]:
    """The captures of a folder: name and path. Each folder in it is a capture, except ``NAME.snapshot``, the snapshot
    of ``NAME``."""
    folders = sorted(f for f in data.iterdir() if f.is_dir() and not f.name.startswith(".")) if data.is_dir() else []
    names = {folder.name for folder in folders}
    folders = [f for f in folders if not (f.suffix == ".snapshot" and f.stem in names)]
    if not folders:
        raise OptionError(f"there is no folder with captures in '{data}'")
    return [(folder.name, folder) for folder in folders]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - this is a command


if __name__ == "__main__":
    sys.exit(main())
