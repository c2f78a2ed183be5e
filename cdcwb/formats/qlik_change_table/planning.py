"""From files to a plan: what each holds, where it can be split, and how its masks and keys are to be read.

The work over the bytes is handed to ``run``, which maps a function over tasks: in Spark for ``load``, in this process
for small things and for the data source on its own.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
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
from cdcwb.formats.qlik_change_table.plan import Plan
from cdcwb.formats.qlik_change_table.probing import Probe, column_of, is_side_file, probe
from cdcwb.formats.qlik_change_table.reading import file_of, rows_of_batch
from cdcwb.formats.qlik_change_table.scanning import Scan, ScanTask, ddl_rows, scan
from cdcwb.formats.tabular import Stretch, cut, scan_all

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
        raise CaptureError("there are only side files, without the data files that they describe", path=paths[0])
    probes: list[Probe] = run(probe, [(path, options) for path in data])
    draft = Draft(options)
    for index, found in enumerate(probes):
        draft.add_file(index, found)
    draft.add_versions(probes)
    tasks = _tasks(draft, options, run)
    scans = scan_all(tasks, scan, run)
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
        raise CaptureError("a table without columns is not a change table", path=name)
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
    file = file_of(entry, draft.shapes[entry.shape], options.charset)
    task = ScanTask(0, file, 0, 0, 0, False, True, entry, draft.shapes[entry.shape], control, (), None)
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


def _tasks(draft: Draft, options: Options, run: Run) -> list[ScanTask]:
    """The splits of all files."""
    plan = draft.plan()
    files = [
        file_of(entry, draft.shapes[entry.shape], options.charset, draft.groups.get(index, ()))
        for index, entry in enumerate(draft.files)
    ]
    return [_task(draft, plan, stretch, options) for stretch in cut(files, options.split_size, run)]


def _task(draft: Draft, plan: Plan, stretch: Stretch, options: Options) -> ScanTask:
    entry = draft.files[stretch.index]
    return ScanTask(
        **{one.name: getattr(stretch, one.name) for one in fields(stretch)},
        entry=entry,
        shape=draft.shapes[entry.shape],
        control=draft.tables[entry.table].control,
        key=tuple(plan.key_of(entry)),
        spelling=options.mask_text,
    )


def _fail_fast(plan: Plan, tasks: Sequence[ScanTask], scans: Sequence[Scan]) -> None:
    found = [(task.index, *one.malformed) for task, one in zip(tasks, scans, strict=True) if one.malformed is not None]
    if found:
        index, offset, reason = min(found)
        raise MalformedRecordError(reason, path=plan.files[index].path, offset=offset)
