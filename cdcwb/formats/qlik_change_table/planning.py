"""From files to a plan: what each holds, where it can be split, and how its masks and keys are to be read.

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
from cdcwb.formats.qlik_change_table.control import Ddl
from cdcwb.formats.qlik_change_table.draft import Draft
from cdcwb.formats.qlik_change_table.evidence import SAMPLE, Evidence, look_at
from cdcwb.formats.qlik_change_table.facts import DDL_HISTORY, ROW
from cdcwb.formats.qlik_change_table.layout import Layout
from cdcwb.formats.qlik_change_table.options import Options
from cdcwb.formats.qlik_change_table.plan import FileEntry, Plan, Shape
from cdcwb.formats.qlik_change_table.probing import Probe, column_of, is_side_file, probe
from cdcwb.formats.qlik_change_table.reading import rows_of_batch
from cdcwb.formats.qlik_change_table.scanning import (
    EVERYTHING,
    QuoteTask,
    Scan,
    ScanTask,
    count,
    ddl_rows,
    scan,
)

__all__ = ["make_plan", "make_row_plan", "plan_beginnings", "run_here"]

_BEGINNING: Final = 4 << 20  # bytes of a file that tell how masks are read, where it is not read whole
_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def run_here(function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
    """Runs the tasks one after the other in this process."""
    return [function(task) for task in tasks]


def make_plan(paths: Sequence[str], options: Options, run: Run = run_here) -> Plan:
    """The plan of a capture. ``paths`` are its files in capture order; side files among them describe others.

    Raises CaptureError for files that cannot be read, and in mode FAILFAST for the first bytes that are no row.
    """
    data = [path for path in paths if not is_side_file(path)]
    if not data:
        raise CaptureError("there are side files only, and no data files that they describe", path=paths[0])
    probes: list[Probe] = run(probe, [(path, options) for path in data])
    draft = Draft(options)
    for index, found in enumerate(probes):
        draft.add_file(index, found)
    draft.add_versions(probes)
    tasks = _tasks(draft, options, run)
    scans = _scan_all(tasks, run)
    draft.finish(probes, tasks, scans)
    plan = draft.plan()
    plan.facts = {"bytes": sum(entry.size for entry in plan.files), "records": sum(one.rows for one in scans)}
    if options.mode == "FAILFAST":
        _fail_fast(plan, tasks, scans)
    return plan


def plan_beginnings(paths: Sequence[str], options: Options) -> Plan:
    """A plan of files of which only the beginnings were looked at, for looking at single rows; the first file's size is
    known."""
    draft = Draft(options)
    probes = [probe((path, options)) for path in paths]
    for index, found in enumerate(probes):
        draft.add_file(index, found)
    draft.add_versions(probes)
    tasks = [
        replace(task, stop=min(task.stop, _BEGINNING)) for task in _tasks(draft, options, run_here) if not task.start
    ]
    scans = [scan(task) for task in tasks]
    draft.finish(probes, tasks, scans)
    return draft.plan()


def make_row_plan(name: str, schema: pa.Schema, options: Options, run: RunRows) -> Plan:
    """The plan of a table of rows that is called ``name``. Raises CaptureError for one without columns."""
    columns = [one for one in schema if one.name != ROW]
    if not columns:
        raise CaptureError("a table without columns is no change table", path=name)
    described = tuple(column_of(place, one) for place, one in enumerate(columns, 1))
    text = pa.schema(columns).to_string(show_field_metadata=False, show_schema_metadata=False)
    found = Probe(name, "rows", described, True, heading=text)
    draft = Draft(options)
    draft.add_file(0, found)
    draft.add_versions([found])
    entry = draft.files[0]
    names = [one.name for one in columns]
    layout, control = draft.shapes[entry.shape].layout, draft.tables[entry.table].control
    look = partial(
        look_at_rows, names=names, layout=layout, control=control, key=tuple(draft.key(0)), spelling=options.mask_text
    )
    looks: list[_Look] = [pickle.loads(one) for one in run(look)]
    task = ScanTask(0, entry, draft.shapes[entry.shape], options.charset, 0, 0, 0, False, control, (), None, False, -1)
    seen = Scan(0, 0, rows=sum(one.rows for one in looks))
    for one in looks:
        seen.evidence += one.evidence
        seen.ddl += one.ddl
    draft.finish([found], [task], [seen])
    plan = draft.plan()
    plan.splits = []
    plan.facts = {"records": seen.rows}
    return plan


@dataclass(slots=True)
class _Look:
    """What the rows of one partition say."""

    rows: int = 0
    evidence: Evidence = field(default_factory=Evidence)
    ddl: list[Ddl] = field(default_factory=list)


def look_at_rows(
    batches: Iterator[pa.RecordBatch],
    names: Sequence[str],
    layout: Layout,
    control: str | None,
    key: tuple[str, ...],
    spelling: str | None,
) -> bytes:
    """What the rows of one partition say, pickled; all are counted, and the first are looked at."""
    found = _Look()
    for batch in batches:
        looked = found.rows < SAMPLE or control == DDL_HISTORY
        found.rows += batch.num_rows
        if not looked or not batch.num_rows:
            continue
        numbers = batch.column(batch.schema.get_field_index(ROW)).to_numpy(zero_copy_only=False).astype(np.int64)
        some = batch if control == DDL_HISTORY else batch.slice(0, SAMPLE)
        part = rows_of_batch(some.select(list(names)), numbers[: len(some)], layout)
        for _, rows in part.rows:
            if control == DDL_HISTORY:
                found.ddl += ddl_rows(rows, 0)
            elif control is None:
                found.evidence += look_at(rows, key, spelling)
    return pickle.dumps(found)


# --- splits -----------------------------------------------------------------------------------------------------------


def _tasks(draft: Draft, options: Options, run: Run) -> list[ScanTask]:
    """The splits of all files. Large plain files are cut; where a cut falls into quotes is told by counting them."""
    tasks: list[ScanTask] = []
    quotes: list[QuoteTask] = []
    counted: list[int] = []  # the task behind each stretch whose quotes are counted
    plan = draft.plan()
    for index, entry in enumerate(draft.files):
        shape, control = draft.shapes[entry.shape], draft.tables[entry.table].control
        key = tuple(plan.key_of(entry))
        cuts = _cuts(entry, shape, draft, index, options.split_size)
        groups = len(draft.groups.get(index, ())) if shape.kind == "parquet" else -1
        for start, stop in cuts:
            begin = start if start == 0 or shape.kind != "csv" else None
            tasks.append(
                ScanTask(
                    index,
                    entry,
                    shape,
                    options.charset,
                    start,
                    stop,
                    begin,
                    False,
                    control,
                    key,
                    options.mask_text,
                    len(cuts) > 1,
                    groups,
                )
            )
            if begin is None and shape.dialect is not None and shape.dialect.quote:
                edge = len(shape.dialect.record)
                before = tasks[-2].start
                low = max(before - edge, 0) if before else entry.first
                quotes.append(QuoteTask(entry.path, shape, min(low, start - edge), max(start - edge, 0)))
                counted.append(len(tasks) - 1)
    numbers = dict(zip(counted, run(count, quotes) if quotes else [], strict=True))
    inside = False
    for at, task in enumerate(tasks):
        inside = inside ^ bool(numbers.get(at, 0) & 1) if task.begin is None else False
        tasks[at] = replace(task, inside=inside)
    return tasks


def _cuts(entry: FileEntry, shape: Shape, draft: Draft, index: int, split_size: int) -> list[tuple[int, int]]:
    if shape.kind == "parquet":
        return _row_group_cuts(draft.groups.get(index, ()), split_size)
    cut = entry.compression is None and (shape.kind == "csv" or shape.settings.get("kind") == "lines")
    if not cut or entry.size <= split_size:
        return [(0, EVERYTHING if entry.compression is not None else entry.size)]
    return [(start, min(start + split_size, entry.size)) for start in range(0, entry.size, split_size)]


def _row_group_cuts(groups: Sequence[tuple[int, int]], split_size: int) -> list[tuple[int, int]]:
    starts: list[int] = []
    size = split_size
    for at, (_, packed) in enumerate(groups):
        if size >= split_size:
            starts.append(at)
            size = 0
        size += packed
    return list(zip(starts, [*starts[1:], len(groups)], strict=True))


def _scan_all(tasks: list[ScanTask], run: Run) -> list[Scan]:
    """Scans every split at once, and again those that did not begin where the split before ended."""
    scans: list[Scan] = run(scan, tasks)
    while True:
        again: list[int] = []
        expected = 0
        for at, task in enumerate(tasks):
            if task.shape.kind != "csv":
                continue
            expected = 0 if task.start == 0 else expected
            begin = max(task.start, expected)
            if task.start and begin >= task.stop:
                scans[at] = Scan(begin, begin, size=scans[at].size, problem=scans[at].problem)
            elif task.start and scans[at].begin != begin:
                again.append(at)
                tasks[at] = replace(task, begin=begin)
            expected = max(begin, scans[at].end)
        if not again:
            return scans
        for at, found in zip(again, run(scan, [tasks[at] for at in again]), strict=True):
            scans[at] = found


def _fail_fast(plan: Plan, tasks: Sequence[ScanTask], scans: Sequence[Scan]) -> None:
    found = [(task.index, *one.malformed) for task, one in zip(tasks, scans, strict=True) if one.malformed is not None]
    if found:
        index, offset, reason = min(found)
        raise MalformedRecordError(reason, path=plan.files[index].path, offset=offset)
