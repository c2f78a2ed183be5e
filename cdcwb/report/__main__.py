"""``python -m cdcwb.report``: every notebook over every capture of a folder, and an index page over the reports."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cdcwb.errors import CaptureError, OptionError
from cdcwb.report.index import Entry, write_index
from cdcwb.report.runner import notebook_path, notebooks, run_report, version
from cdcwb.words import count, plural, size


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
        names = given.names or list(notebooks())
        for name in names:
            notebook_path(name)
        captures = find_captures(given.data)
    except CaptureError as error:
        _say(str(error))
        return 2

    jobs = [(name, *capture) for name in names for capture in captures]
    _say(f"{plural(len(jobs), 'report')} from '{given.data}' into '{given.to}'")
    entries, failed = [], 0
    for number, (name, label, path, options) in enumerate(jobs, 1):
        target = given.to / f"{name}_{label}.html"
        _say(f"[{number}/{len(jobs)}] {name} of {label}")
        try:
            facts = run_report(name, path, target, options=options, say=lambda text: _say(f"        {text}"))
        except CaptureError as error:
            _say(f"        not made: {error}")
            failed += 1
            continue
        entries.append(entry_of(name, str(path), target.name, facts))
    index = write_index(given.to, entries, datetime.now(UTC), version())
    _say(f"{index}: {plural(len(entries), 'report')} in {time.monotonic() - started:.0f} s")
    return 2 if failed else 0


def find_captures(data: Path) -> list[tuple[str, Path, dict[str, str]]]:
    """The captures of a folder: name, path and reader options. Each folder in it is one; ``NAME.labels.json`` beside
    it holds the names of its tables."""
    folders = sorted(f for f in data.iterdir() if f.is_dir() and not f.name.startswith(".")) if data.is_dir() else []
    if not folders:
        raise OptionError(f"there is no folder with captures in '{data}'")
    found = []
    for folder in folders:
        labels = folder.with_name(f"{folder.name}.labels.json")
        found.append((folder.name, folder, {"labels": str(labels.absolute())} if labels.is_file() else {}))
    return found


def entry_of(name: str, capture: str, file: str, facts: Mapping[str, Any]) -> Entry:
    """What the index says about a report: the facts that every notebook records, as far as this one does."""
    numbers = [(title, count(facts[fact])) for fact, title in _SHOWN if fact in facts]
    if "bytes" in facts:
        numbers.append(("bytes", size(facts["bytes"])))
    sentences = tuple(facts[fact] for fact in ("what", "verdict") if fact in facts)
    return Entry(
        facts.get("title", name), capture, file, datetime.now(UTC), facts.get("tone", ""), sentences, tuple(numbers)
    )


_SHOWN = (("transactions", "transactions"), ("changes", "changes"), ("problems", "problems"))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - this is a command


if __name__ == "__main__":
    sys.exit(main())
