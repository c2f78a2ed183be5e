"""From files to a plan: what the files are, where they can be cut, and what a first pass over all parts tells.

The work over the bytes is handed to ``run``, which maps a function over tasks: in Spark for ``load``, in this process
for small things and for the data source on its own.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from cdcwb.errors import CaptureError, MalformedRecordError
from cdcwb.formats.base import Run, RunRows
from cdcwb.formats.findings import detected_row, problem_row
from cdcwb.formats.goldengate import exports
from cdcwb.formats.goldengate.concluding import decide_bodies, decide_sides, decide_times, find_versions, infer_versions
from cdcwb.formats.goldengate.crossing import cross, stretches, trail_files
from cdcwb.formats.goldengate.jobs import Job, in_splits, of_text
from cdcwb.formats.goldengate.plan import FileEntry, Part, Plan, grouped
from cdcwb.formats.goldengate.probing import parts_of, probe
from cdcwb.formats.goldengate.reader_options import OPTIONS, Options
from cdcwb.formats.goldengate.records import MISSING
from cdcwb.formats.goldengate.trail import TrailFile
from cdcwb.formats.goldengate.transactions import Open, position_text
from cdcwb.formats.messages.rows import by_partition, topic_partitions
from cdcwb.model import Problem

__all__ = ["OPTIONS", "Options", "make_plan", "make_row_plan", "run_here"]

_FILES: Final = 64  # that one task looks at


def run_here(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """Runs the tasks one after the other in this process."""
    return [function(task) for task in tasks]


def make_plan(paths: Sequence[str], options: Options, run: Run = run_here) -> Plan:
    """The plan of a capture. ``paths`` are its files in capture order; ``run`` maps a function over tasks.

    Raises CaptureError for files that cannot be read and for raw trails, and in mode FAILFAST for the first bytes that
    cannot be understood.
    """
    beside = options.beside()
    probed = run(probe, [(paths[at : at + _FILES], options) for at in range(0, len(paths), _FILES)])
    files: list[FileEntry] = [entry for some in probed for entry in some]
    size = options.split_size
    parts = [part for index, entry in enumerate(files) for part in parts_of(entry, index, size)]
    plan = Plan(files, options.settings, _grouped(parts, files, size))
    parts = list(plan.parts)
    jobs = [Job(files[part.file], part) for part in parts]
    scans = in_splits(run, plan, jobs, options)
    if options.mode == "FAILFAST":
        _fail_fast(files, parts, scans)
    decide_bodies(plan, parts, scans, options)
    decide_sides(plan, parts, scans)
    decide_times(plan, parts, scans, options)
    trails = trail_files(parts, scans, options)
    repeated, shared = cross(run, jobs, scans, trails, options)
    still_open = stretches(parts, scans, trails, repeated, shared)
    for _, part, one in of_text(parts, scans):
        part.named = tuple(sorted(one.named))
    find_versions(plan, parts, scans, trails, beside)
    infer_versions(run, plan, parts, scans, options.images)
    _facts(plan, parts, scans, trails, still_open)
    plan.notes += [problem_row(Problem.TRUNCATED, one.problem, file=one.path) for one in files if one.problem]
    return plan


def make_row_plan(name: str, schema: pa.Schema, run: RunRows, options: Options) -> Plan:
    """The plan of a table of rows with Kafka's columns, whose values are JSON. Raises CaptureError where there is no
    column ``value``, and in mode FAILFAST for the first message that cannot be understood."""
    if "value" not in {column.lower() for column in schema.names}:
        raise CaptureError(f"expected Kafka's columns, at least `value`, found {', '.join(schema.names)}", path=name)
    beside = options.beside()
    partitions = sorted(set().union(*map(pickle.loads, run(topic_partitions))))
    whole = exports.Summary()
    for found in run(_RowScan(partitions)):
        whole.add(pickle.loads(found))
    files = [FileEntry(name, "json", 0, export={})]
    parts, scans = [Part(0, 0, 0)], [whole]
    plan = Plan(files, options.settings, [], partitions=partitions, is_rows=True)
    if options.mode == "FAILFAST":
        _fail_fast(files, parts, scans)
    decide_times(plan, parts, scans, options)
    find_versions(plan, parts, scans, {}, beside)
    infer_versions(run_here, plan, parts, scans, options.images)
    _facts(plan, parts, scans, {}, ())
    return plan


@dataclass(frozen=True, slots=True)
class _RowScan:
    partitions: list[tuple[str, int]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> bytes:
        found = (messages for batch in batches for messages, _ in by_partition(batch, self.partitions, ""))
        return pickle.dumps(exports.scan_messages(found))


def _grouped(parts: Sequence[Part], files: Sequence[FileEntry], size: int) -> list[list[Part]]:
    """Splits of parts that are read alike; those of exports are tasks of their own."""
    out: list[list[Part]] = []
    for is_text, some in groupby(parts, lambda part: files[part.file].export is None):
        members = list(some)
        out += grouped(members, size) if is_text else [[part] for part in members]
    return out


def _fail_fast(files: Sequence[FileEntry], parts: Sequence[Part], scans: Sequence[Any]) -> None:
    for part, one in zip(parts, scans, strict=True):
        if one.malformed is not None:
            raise MalformedRecordError(one.malformed[-1], path=files[part.file].path, offset=one.malformed[0])


def _facts(
    plan: Plan,
    parts: Sequence[Part],
    scans: Sequence[Any],
    trails: Mapping[int, Sequence[TrailFile]],
    still_open: Sequence[Open],
) -> None:
    positions = [
        position_text(trails[number][stretch.section].shown, rba)
        for number, _, one in of_text(parts, scans)
        for stretch in one.stretches
        for rba in (stretch.first, stretch.last)
        if rba != MISSING
    ]
    for one in scans:
        if isinstance(one, exports.Summary):
            positions += [place for place in (one.first, one.last) if place is not None]
    csn = [one.csn for _, _, one in of_text(parts, scans) if one.csn is not None]
    known = any(one.shown for files in trails.values() for one in files)
    plan.facts |= {
        "bytes": sum(entry.size for entry in plan.files),
        "records": sum(one.records for one in scans),
        "table_versions": len(plan.versions),
        "open_transactions": len(still_open),
        "first_position": min(positions, default=None),
        "last_position": max(positions, default=None),
        "first_csn": csn[0][0] if csn else None,
        "last_csn": csn[-1][1] if csn else None,
        "fragments": sum(one.continued for _, _, one in of_text(parts, scans)),
        "undo_records": sum(one.undoing for _, _, one in of_text(parts, scans)),
    }
    if trails:
        names = sorted({one.name for files in trails.values() for one in files if one.name})
        value = ", ".join(names) if names else "unknown" if not known else "numbered by an option"
        evidence = "as Logdump's text or file headers name them" if names else "the text does not name a trail file"
        plan.detected.append(detected_row("trail_sequence", value[:200], evidence, not names and known))
