"""Seconds of one core, in pairs: what is compared is run in turn, so that what else the machine does touches both."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["in_turn", "on_one_core", "processor_seconds", "ratio"]

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
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        process = int(entry.parent.name)
        parents[process], ticks[process] = int(fields[1]), sum(map(int, fields[11:15]))
    mine = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(ticks[process] for process in mine) / os.sysconf("SC_CLK_TCK")
