"""How long does every question about a large capture take, and how much memory?

``python -m benchmarks.questions [--format NAME] [--changes N] [--sizes 1,4,16]`` generates captures of 1, 4 and 16
times the size (:mod:`benchmarks.scale`; kept in ``benchmarks/.cache``), asks each all questions of the pages in a
process of its own, where Spark answers with a driver of 4 GB (``SPARK_DRIVER_MEMORY`` is another size), and prints the
seconds of each question and the peak memory of each process. 100 million changes: ``--changes 6250000``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.end_to_end import report, watched
from benchmarks.scale import generated
from cdcwb.formats import FORMATS

__all__ = ["measure", "rows_of"]

_DRIVER = "4g"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.questions", description=__doc__.split("\n")[0])
    parser.add_argument("--format", choices=FORMATS, default="gbase8s", help="(default: %(default)s)")
    parser.add_argument("--changes", type=int, default=200_000, help="changes of size 1 (default: %(default)s)")
    parser.add_argument("--sizes", default="1,4,16", help="sizes, separated by commas (default: %(default)s)")
    parser.add_argument("--measure", metavar="CAPTURE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        report(_ask(Path(options.measure)))
        return
    found = {}
    for size in map(int, options.sizes.split(",")):
        found[size] = measure(generated(options.format, options.changes * size) / "capture")
        print(f"size {size}: {sum(found[size]['seconds'].values()):.1f} s", file=sys.stderr, flush=True)
    print("\n".join(rows_of(found)))


def measure(capture: Path) -> dict[str, Any]:
    """The ``seconds`` of each question about a capture, and the peak ``memory`` of each process in bytes, by role."""
    os.environ.setdefault("SPARK_DRIVER_MEMORY", _DRIVER)
    os.environ["CDCWB_LOCAL_LIMIT"] = "0"  # Spark answers, whatever the size is
    (seconds,), memory = watched(
        [sys.executable, "-m", "benchmarks.questions", "--measure", str(capture)], str(capture)
    )
    return {"seconds": seconds, "memory": memory}


def rows_of(found: dict[int, dict[str, Any]]) -> list[str]:
    """The results by size as a table in Markdown: a row for each question in seconds, and for each process in MB."""
    head = ["| question |", *(f" {size} |" for size in found)]
    questions = dict.fromkeys(name for one in found.values() for name in one["seconds"])
    roles = dict.fromkeys(role for one in found.values() for role in one["memory"])
    rows = ["".join(head), "| --- |" + " ---: |" * len(found)]
    for name in questions:
        rows.append(f"| {name} |" + "".join(f" {one['seconds'].get(name, 0):.1f} s |" for one in found.values()))
    for role in roles:
        rows.append(
            f"| memory: {role} |" + "".join(f" {one['memory'].get(role, 0) / 1e6:.0f} MB |" for one in found.values())
        )
    return rows


def _ask(path: Path) -> dict[str, float]:
    """The seconds of each question."""
    import cdcwb
    from cdcwb.analysis.summary import summarize
    from cdcwb.views import pages

    seconds: dict[str, float] = {}

    def timed(name: str, function: Callable[[], Any]) -> Any:
        began = time.monotonic()
        result = function()
        seconds[name] = time.monotonic() - began
        print(f"{name}: {seconds[name]:.1f} s", file=sys.stderr, flush=True)
        return result

    capture = timed("load", lambda: cdcwb.load(path))
    timed("summary", lambda: summarize(capture))
    kinds = (
        *(pages.CapturePage, pages.Transactions, pages.Masks, pages.Drift),
        *(pages.ContinuityPage, pages.Replay, pages.History),
    )
    for kind in kinds:
        page = timed(f"{kind.__name__}", lambda kind=kind: kind.of(capture))
        for name in page.panels():
            timed(f"{kind.__name__}.{name}", getattr(page, name))
    return seconds


if __name__ == "__main__":
    main()
