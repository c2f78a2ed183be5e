"""How long does every question about a large capture take, and how much memory?

``python -m benchmarks.questions [--format NAME] [--changes N] [--sizes 1,4,16] [--only PAGE] [--check]`` generates
captures of 1, 4 and 16 times the size (:mod:`benchmarks.scale`; kept in ``benchmarks/.cache``), asks each the
questions of each page in a process of its own, where Spark answers with a driver of 4 GB (``SPARK_DRIVER_MEMORY`` is
another size), and prints the seconds of each question and the peak memory of each process. As in reports, the first
process makes the summary, which the others show; it stays beside the capture, so that pages of a very large one can be
asked on several days. 100 million changes are size 500.
"""

from __future__ import annotations

import argparse
import os
import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.end_to_end import report, watched
from benchmarks.scale import generated
from cdcwb.formats import FORMATS

__all__ = ["PAGES", "grown", "measure", "rows_of"]

PAGES: Final = ("summary", "CapturePage", "Transactions", "Masks", "Drift", "ContinuityPage", "Replay", "History")
"""What is asked: the summary, and the panels of pages (:mod:`cdcwb.views.pages`)."""

_DRIVER: Final = "4g"
_GROWN: Final = 4  # exit code where the memory of a Python process grows
_MOST: Final = 2.0  # times the memory that a page of the smallest capture takes
_SHOWN: Final = 0.05  # seconds; what is answered sooner is left out
_LEAST: Final = 1 << 30  # bytes that are not much for a process


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.questions", description=__doc__.split("\n")[0])
    parser.add_argument("--format", choices=FORMATS, default="gbase8s", help="(default: %(default)s)")
    parser.add_argument("--changes", type=int, default=200_000, help="changes of size 1 (default: %(default)s)")
    parser.add_argument("--sizes", default="1,4,16", help="sizes, separated by commas (default: %(default)s)")
    parser.add_argument("--only", choices=PAGES, action="append", help="this page; may be repeated")
    parser.add_argument("--check", action="store_true", help="exit code 4 if the memory of a Python process grows")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        report(_ask(Path(options.measure[0]), options.measure[1]))
        return 0
    found: dict[int, dict[str, dict[str, Any]]] = {}
    for size in map(int, options.sizes.split(",")):
        capture = generated(options.format, options.changes * size) / "capture"
        found[size] = {page: measure(capture, page) for page in options.only or PAGES}
        seconds = sum(sum(one["seconds"].values()) for one in found[size].values())
        print(f"size {size}: {seconds:.1f} s", file=sys.stderr, flush=True)
    print("\n".join(rows_of(found)))
    return _GROWN if options.check and grown(found) else 0


def measure(capture: Path, page: str) -> dict[str, Any]:
    """The ``seconds`` of each question of a page about a capture, and the peak ``memory`` in bytes by role: of the
    driver, of the JVM, and of the largest Python worker."""
    os.environ.setdefault("SPARK_DRIVER_MEMORY", _DRIVER)
    os.environ["CDCWB_LOCAL_LIMIT"] = "0"  # Spark answers, whatever the size is
    command = [sys.executable, "-m", "benchmarks.questions", "--measure", str(capture), page]
    (seconds,), peaks = watched(command, f"{capture}: {page}")
    memory: dict[str, int] = {}
    for name, peak in peaks.items():
        role = name.rstrip("0123456789 ")
        memory[role] = max(peak, memory.get(role, 0))
    return {"seconds": seconds, "memory": memory}


def grown(found: dict[int, dict[str, dict[str, Any]]]) -> bool:
    """Whether a Python process of a page takes over 1 GiB, and twice as much as with the smallest capture."""
    first, *others = found.values()
    return any(
        peak > max(_LEAST, _MOST * first[page]["memory"][role])
        for other in others
        for page, one in other.items()
        for role, peak in one["memory"].items()
        if role != "JVM"
    )


def rows_of(found: dict[int, dict[str, dict[str, Any]]]) -> list[str]:
    """The results by size and page as a table in Markdown: a row for each question in seconds, and for each process of
    a page in MB."""
    rows = ["| question |" + "".join(f" {size} |" for size in found), "| --- |" + " ---: |" * len(found)]
    for page in next(iter(found.values())):
        ones = [of[page] for of in found.values()]
        for unit, scale, digits, what in (("s", 1, 1, "seconds"), ("MB", 1e6, 0, "memory")):
            for name in dict.fromkeys(name for one in ones for name in one[what]):
                numbers = [one[what].get(name, 0) / scale for one in ones]
                if max(numbers) >= _SHOWN:
                    cells = "".join(f" {number:,.{digits}f} {unit} |" for number in numbers)
                    rows.append(f"| {page}: {name} |{cells}")
    return rows


def _ask(path: Path, page: str) -> dict[str, float]:
    """The seconds of each question of a page."""
    import cdcwb
    from cdcwb.analysis.summary import summarize
    from cdcwb.dataset import answer_of
    from cdcwb.report.opening import SHARED
    from cdcwb.views import pages

    seconds: dict[str, float] = {}

    def timed(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        began = time.monotonic()
        result = function(*arguments)
        seconds[name] = time.monotonic() - began
        print(f"{page}: {name}: {seconds[name]:.1f} s", file=sys.stderr, flush=True)
        return result

    capture, summary = timed("load", cdcwb.load, path), path.with_name("summary.pickle")
    if page == "summary":
        timed("all", answer_of, capture, "summary", summarize)
        kept = {name: capture.answers[name] for name in ("summary", *SHARED) if name in capture.answers}
        summary.write_bytes(pickle.dumps(kept))
        return seconds
    if summary.exists():
        capture.answers.update(pickle.loads(summary.read_bytes()))
    shown = timed("page", getattr(pages, page).of, capture)
    for name in shown.panels():
        timed(name, getattr(shown, name))
    return seconds


if __name__ == "__main__":
    sys.exit(main())
