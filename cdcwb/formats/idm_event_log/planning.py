"""From files to a plan: what each holds, which column is which, where it can be split, and which tables it tells of.

The work over the bytes is handed to ``run``, which maps a function over tasks: in Spark for ``load``, in this process
for small things and for the data source on its own.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from cdcwb.errors import CaptureError, MalformedRecordError
from cdcwb.formats.base import Run, RunRows
from cdcwb.formats.idm_event_log.columns import Assignment, assign
from cdcwb.formats.idm_event_log.draft import Draft
from cdcwb.formats.idm_event_log.options import Options
from cdcwb.formats.idm_event_log.plan import ROW, ROWS, SQL, FileEntry, Plan, SplitEntry
from cdcwb.formats.idm_event_log.probing import Probe, probe
from cdcwb.formats.idm_event_log.reading import log_part
from cdcwb.formats.idm_event_log.scanning import SCANNED, Scan, ScanTask, Seen, scan
from cdcwb.formats.tabular import EVERYTHING, FileProbe, Names, Stretch, cut, rows_of_batch, scan_all, text_rows
from cdcwb.unique_names import unique_names

__all__ = ["make_plan", "make_row_plan", "plan_beginning", "run_here"]

_SAMPLE: Final = 200
_CUT: Final = ("csv", SQL)  # kinds of files that are cut between records, wherever these begin
_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def run_here(function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
    """Runs the tasks one after the other in this process."""
    return [function(task) for task in tasks]


def make_plan(paths: Sequence[str], options: Options, run: Run = run_here) -> Plan:
    """The plan of a capture. ``paths`` are its files in capture order.

    Raises CaptureError for files that cannot be read or whose columns cannot be told, and in mode FAILFAST for the
    first bytes that are no row.
    """
    probes: list[Probe] = run(probe, [(path, options, False) for path in paths])
    draft = Draft(options, probes)
    entries = draft.entries()
    stretches = _stretches(entries, options, run)
    scans = scan_all(stretches, partial(_scan_of, entries=list(entries)), run, _CUT)
    seen = Seen()
    before = 0
    splits: list[SplitEntry] = []
    rows: dict[int, int] = {}
    for stretch, found in zip(stretches, scans, strict=True):
        entry = entries[stretch.index]
        entry.size = found.size or entry.size
        entry.problem = entry.problem or found.problem
        is_cut = stretch.file.kind in _CUT and stretch.start > 0
        start = found.begin if is_cut else stretch.start
        if start < stretch.stop and (stretch.stop < EVERYTHING or entry.size or entry.probe.compression):
            splits.append(SplitEntry(stretch.index, start, stretch.stop, before, found.seen.highest))
        rows[stretch.index] = rows.get(stretch.index, 0) + found.rows
        before += found.rows
        seen = seen + found.seen
    for index, number in rows.items():
        entries[index].rows = number
    plan = draft.plan(entries, splits, seen)
    plan.facts = {"bytes": sum(entry.size for entry in entries), "records": before, "behind": seen.behind}
    if options.mode == "FAILFAST":
        _fail_fast(plan, stretches, scans)
    return plan


def plan_beginning(path: str, options: Options) -> Plan:
    """A plan of one file of which only the beginning was looked at, for looking at single rows."""
    draft = Draft(options, [probe((path, options, False))])
    return draft.plan(draft.entries(), [], Seen())


def _fail_fast(plan: Plan, stretches: Sequence[Stretch], scans: Sequence[Scan]) -> None:
    found = [(one.index, *each.malformed) for one, each in zip(stretches, scans, strict=True) if each.malformed]
    if found:
        index, offset, reason = min(found)
        raise MalformedRecordError(reason, path=plan.files[index].probe.path, offset=offset)


# --- stretches --------------------------------------------------------------------------------------------------------


def _stretches(entries: Sequence[FileEntry], options: Options, run: Run) -> list[Stretch]:
    """The stretches of all files; plain dumps of statements are cut as delimited text is."""
    stretches = []
    for one in cut([entry.probe for entry in entries], options.split_size, run):
        file = one.file
        if file.kind != SQL or file.compression is not None or file.size <= options.split_size:
            stretches.append(one)
            continue
        for start in range(0, file.size, options.split_size):
            stop = min(start + options.split_size, file.size)
            stretches.append(replace(one, start=start, stop=stop, begin=None if start else 0, alone=False))
    return stretches


def _scan_of(stretch: Stretch, entries: Sequence[FileEntry]) -> Scan:
    return scan(ScanTask(stretch, entries[stretch.index]))


# --- tables of rows ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Look:
    """What the rows of one partition say."""

    rows: int = 0
    seen: Seen = field(default_factory=Seen)
    sample: list[tuple[str | None, ...]] = field(default_factory=list)


def make_row_plan(name: str, schema: pa.Schema, options: Options, run: RunRows) -> Plan:
    """The plan of a table of rows that is called ``name``. Raises CaptureError for one whose columns cannot be told."""
    names = [one.name for one in schema if one.name != ROW]
    labels = unique_names(names)
    file = FileProbe(name, ROWS, labels, len(labels))
    found = assign(labels, True, (), options) if options.sorted_by is None else _NOTHING
    if found.how == "nothing" and labels:
        samples = [pickle.loads(one).sample for one in run(partial(_sampled, names=labels))]
        found = assign(labels, True, [row for some in samples for row in some][:_SAMPLE], options)
    places = {one: labels[place] for one, place in found.places.items()}
    null_text = options.null_text or ""
    said = Probe(file, found, places, null_text, "given as an option" if null_text else "")
    draft = Draft(options, [said])
    entries = draft.entries()
    if not places:
        raise CaptureError(f"{found.evidence}; assign the columns with the option columns", path=name)
    looks: list[_Look] = [pickle.loads(one) for one in run(partial(_looked, entry=entries[0]))]
    seen = Seen()
    for one in looks:
        seen = seen + one.seen
    entries[0].rows = sum(one.rows for one in looks)
    plan = draft.plan(entries, [], seen)
    plan.facts = {"records": entries[0].rows, "behind": seen.behind}
    return plan


_NOTHING: Final = Assignment({}, "nothing", "", 0.0)


def _sampled(batches: Iterator[pa.RecordBatch], names: Sequence[str]) -> bytes:
    found = _Look()
    for batch in batches:
        rows = batch.drop_columns([ROW]) if ROW in batch.schema.names else batch
        some = rows.slice(0, _SAMPLE)
        part = rows_of_batch(some, np.arange(len(some)), Names(tuple(names)))
        texts = text_rows(part, names)
        if texts is not None:
            found.sample += list(zip(*(column.to_pylist() for column in texts.columns), strict=True))
        if len(found.sample) >= _SAMPLE:
            break
    return pickle.dumps(found)


def _looked(batches: Iterator[pa.RecordBatch], entry: FileEntry) -> bytes:
    found = _Look()
    for batch in batches:
        place = batch.schema.get_field_index(ROW)
        numbers = batch.column(place).to_numpy(zero_copy_only=False).astype(np.int64)
        part = rows_of_batch(batch.remove_column(place), numbers, Names(entry.probe.columns))
        found.seen.take(log_part(entry, part, 0, only=SCANNED).log)
        found.rows += batch.num_rows
    return pickle.dumps(found)
