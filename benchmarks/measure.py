"""Seconds of one core, in pairs: what is compared is run in turn, so that what else the machine does touches both."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["below", "in_turn", "on_one_core", "processor_seconds", "processor_seconds_by_role", "ratio"]

_TICKS: Final = os.sysconf("SC_CLK_TCK")

Work = Callable[[], int]
"""Something to measure; gives the number of records that it has read."""


@contextmanager
def on_one_core() -> Iterator[None]:
    """Keeps this process on one core, where the system lets it."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _seconds(work: Work, least: float) -> float:
    """Seconds of processor time that the work takes, as the mean of as many runs as fill ``least`` seconds."""
    gc.collect()
    gc.disable()
    try:
        runs = 0
        begin = time.process_time()
        while True:
            work()
            runs += 1
            taken = time.process_time() - begin
            if taken >= least:
                return taken / runs
    finally:
        gc.enable()


def in_turn(works: dict[str, Work], rounds: int, least: float = 1.0) -> dict[str, list[float]]:
    """Seconds of each work in each round: A B C, A B C, … after one run of each that does not count."""
    for work in works.values():
        work()
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            taken[name].append(_seconds(work, least))
    return taken


def ratio(slower: list[float], faster: list[float]) -> float:
    """How many times as long the one takes: the median over the rounds."""
    return statistics.median(one / other for one, other in zip(slower, faster, strict=True))


def processor_seconds() -> float:
    """Seconds of processor time of this process and all below it, those that have ended included."""
    return sum(processor_seconds_by_role().values())


def processor_seconds_by_role() -> dict[str, float]:
    """The same, of the JVM and of all else (``Python``). The time of processes that have ended counts as Python's: the
    JVM starts workers by a daemon of Python."""
    found = {"JVM": 0.0, "Python": 0.0}
    for process in below(os.getpid()):
        folder = Path(f"/proc/{process}")
        try:
            ticks = [int(field) for field in (folder / "stat").read_text().rpartition(")")[2].split()[11:15]]
            is_java = (folder / "cmdline").read_bytes().split(b"\0")[0].endswith(b"java")
        except OSError:  # it has ended
            continue
        found["JVM" if is_java else "Python"] += sum(ticks[:2]) / _TICKS
        found["Python"] += sum(ticks[2:]) / _TICKS
    return found


def below(root: int) -> list[int]:
    """The process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    found = [root]
    for process in found:
        found += parents.get(process, [])
    return found
