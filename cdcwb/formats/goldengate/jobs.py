"""The work over the parts of a capture that ``run`` maps over tasks; everything here pickles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cdcwb.formats.base import Run
from cdcwb.formats.files import open_source
from cdcwb.formats.goldengate import exports
from cdcwb.formats.goldengate.plan import FileEntry, Part, Plan
from cdcwb.formats.goldengate.reader import part_readers
from cdcwb.formats.goldengate.reader_options import Options
from cdcwb.formats.goldengate.scanning import PartScan, Ranges, scan_part, section_places

__all__ = ["Job", "Task", "WidthTask", "in_splits", "of_text", "places", "scan_task", "widths"]


@dataclass(frozen=True, slots=True)
class Job:
    """One part to look at; ``cuts``, ``repeated`` and ``shared`` are those of :func:`.scanning.scan_part`."""

    entry: FileEntry
    part: Part
    cuts: Ranges = field(default_factory=dict)
    repeated: Ranges = field(default_factory=dict)
    shared: Ranges = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Task:
    """Parts that are looked at together."""

    jobs: tuple[Job, ...]
    options: Options
    wanted: tuple[tuple[int, ...], ...] = ()  # sections of each job


def _text_of(job: Job) -> Any:
    """The bytes of a part."""
    source = open_source(job.entry.path, "binary")
    try:
        return source.read(job.part.start, job.part.stop)
    finally:
        source.close()


def scan_task(task: Task) -> list[Any]:
    """The first pass over the parts of a task: a PartScan for text, a Summary for an export."""
    out: list[Any] = []
    options = task.options
    for job in task.jobs:
        if job.entry.export is not None:
            file = exports.ExportFile.from_dict(job.entry.export)
            out.append(exports.scan(file, job.part.start, job.part.stop))
        else:
            text = _text_of(job)
            ranges = (job.cuts, job.repeated, job.shared)
            out.append(scan_part(text, job.part.start, options.charset, *ranges, options.images))
    return out


def places(task: Task) -> list[Any]:
    """The records of some sections of each part, to be compared with those of others."""
    return [
        section_places(_text_of(job), job.part.start, wanted)
        for job, wanted in zip(task.jobs, task.wanted, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class WidthTask:
    """The parts of a split in which records of tables stand that nothing defines."""

    plan: str
    split: int
    tables: frozenset[str]


def widths(task: WidthTask) -> dict[str, int]:
    """How many columns these tables have, by the indexes that their records show."""
    out: dict[str, int] = {}
    plan = Plan.from_text(task.plan)
    for reader in part_readers(plan, plan.splits[task.split]):
        marks, extras = reader.given.marks, reader.given.records.extras
        chosen = [code for code, name in enumerate(marks.tables) if name in task.tables]
        rows = np.flatnonzero(np.isin(marks.table, chosen) & marks.member)
        cells = reader.bodies.cells(rows)
        most = np.zeros(len(marks.tables), dtype=np.int64)
        np.maximum.at(most, marks.table[rows[cells.row]], cells.index + 1)
        for row in rows[np.isin(rows, np.array(sorted(extras), dtype=np.int64))].tolist():
            shown = max((one.index + 1 for one in extras[row].columns), default=0)
            most[marks.table[row]] = max(int(most[marks.table[row]]), shown)
        for code in chosen:
            name = marks.tables[code]
            out[name] = max(out.get(name, 0), int(most[code]))
    return out


def in_splits(run: Run, plan: Plan, jobs: Sequence[Job], options: Options) -> list[Any]:
    """The first pass over all parts, those of a split together; results in the order of the parts."""
    tasks, at = [], 0
    for split in plan.splits:
        tasks.append(Task(tuple(jobs[at : at + len(split)]), options))
        at += len(split)
    return [one for some in run(scan_task, tasks) for one in some]


def of_text(parts: Sequence[Part], scans: Sequence[Any]) -> Iterator[tuple[int, Part, PartScan]]:
    """The parts of Logdump text among all: (number, part, what the first pass says of it)."""
    for number, (part, one) in enumerate(zip(parts, scans, strict=True)):
        if isinstance(one, PartScan):
            yield number, part, one
