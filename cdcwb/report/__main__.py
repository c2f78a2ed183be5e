"""``python -m cdcwb.report``: every notebook over every capture of a folder, and an index page over the reports."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

from cdcwb import machine
from cdcwb.errors import CaptureError, OptionError
from cdcwb.report.index import Entry, write_index
from cdcwb.report.runner import Wanted, version
from cdcwb.report.suite import Suite, members, run_suite
from cdcwb.words import plural

Found: TypeAlias = tuple[str, Path, dict[str, str]]
"""A capture: its name, its path and its reader options."""

_ROOM: Final = 3 << 30
"""Bytes of memory for one kernel with its Spark."""
_MOST: Final = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the reports; 0 when all were made, 2 when one could not be."""
    parser = argparse.ArgumentParser(prog="python -m cdcwb.report", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="notebooks, without their number (default: all)")
    parser.add_argument(
        "--data", type=Path, default=Path("data"), help="folder with a folder for each capture (default: data)"
    )
    parser.add_argument("--to", type=Path, default=Path("reports"), help="where the reports go (default: reports)")
    given = parser.parse_args(arguments)
    started = time.monotonic()
    try:
        number = len(members(given.names))
        captures = find_captures(given.data)
    except CaptureError as error:
        _say(str(error))
        return 2

    _say(f"{plural(number * len(captures), 'report')} from '{given.data}' into '{given.to}'")
    made = _suites(captures, given.to, given.names)
    entries: list[Entry] = []
    failed: dict[str, str] = {}
    for label, suite in made.items():
        if isinstance(suite, Suite):
            entries += [replace(entry, file=f"{label}/{entry.file}") for entry in suite.entries]
            failed |= {f"{label}, {name}": sentence for name, sentence in suite.failed.items()}
        else:
            failed[label] = suite
    index = write_index(given.to, entries, datetime.now(UTC), version(), failed=failed)
    _say(f"{index}: {plural(len(entries), 'report')} in {time.monotonic() - started:.0f} s")
    return 2 if failed else 0


def _suites(captures: Sequence[Found], to: Path, names: Sequence[str]) -> dict[str, Suite | str]:
    """The suite of every capture, or the sentence that says why there is none, by the name of the capture.

    The questions about a small capture keep one core busy, so several kernels work side by side then.
    """
    from cdcwb.report.kernel import Kernel

    small = all(Wanted.of(path, "auto", options).small for _, path, options in captures)
    waiting = list(reversed(captures))
    made: dict[str, Suite | str] = {}

    def work() -> None:
        with Kernel(quick=small) as kernel:
            while waiting:
                label, path, options = waiting.pop()

                def told(text: str, label: str = label) -> None:
                    _say(f"{label}: {text}")

                try:
                    made[label] = run_suite(path, to / label, options=options, say=told, names=names, kernel=kernel)
                except CaptureError as error:
                    told(f"not made: {error}")
                    made[label] = str(error)

    kernels = _side_by_side(len(captures)) if small else 1
    with ThreadPoolExecutor(kernels) as threads:
        for done in [threads.submit(work) for _ in range(kernels)]:
            done.result()
    return {label: made[label] for label, _, _ in captures}


def _side_by_side(captures: int) -> int:
    """How many kernels, each with its own Spark, this machine has room for."""
    return max(1, min(captures, machine.cores(), machine.memory_bytes() // _ROOM, _MOST))


def find_captures(data: Path) -> list[Found]:
    """The captures of a folder: name, path and reader options. Each folder in it is one; ``NAME.labels.json`` beside
    it holds the names of its tables, the folder ``NAME.snapshot`` what they held."""
    folders = sorted(f for f in data.iterdir() if f.is_dir() and not f.name.startswith(".")) if data.is_dir() else []
    names = {folder.name for folder in folders}
    folders = [f for f in folders if not (f.suffix == ".snapshot" and f.stem in names)]
    if not folders:
        raise OptionError(f"there is no folder with captures in '{data}'")
    found = []
    for folder in folders:
        labels = folder.with_name(f"{folder.name}.labels.json")
        found.append((folder.name, folder, {"labels": str(labels.absolute())} if labels.is_file() else {}))
    return found


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - this is a command


if __name__ == "__main__":
    sys.exit(main())
