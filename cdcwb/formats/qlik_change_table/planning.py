"""Makes a plan from files: roles, splits, mask settings, keys, and detected settings. ``run`` maps a function over
tasks: in Spark for ``load``, in this process for small captures and for the data source on its own.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cdcwb.errors import CaptureError
from cdcwb.formats.dissector import ROW, Run, RunRows, detected_row, problem_row, run_here
from cdcwb.formats.qlik_change_table.decode import parts_of_batches
from cdcwb.formats.qlik_change_table.layout import (
    CONTROL,
    DDL_HISTORY,
    LOAD,
    PREFIX,
    ROWS,
    Layout,
    Options,
    Place,
    Prefix,
    TableName,
    control_table,
    find_prefix,
    from_path,
    lay_out,
    without_suffix,
)
from cdcwb.formats.qlik_change_table.plan import MaskSettings, Plan, SplitEntry, TableEntry, TableFile
from cdcwb.formats.qlik_change_table.probing import Probe, column_of, is_side_file, probe
from cdcwb.formats.qlik_change_table.scan import (
    SAMPLE,
    Decision,
    Evidence,
    ScanTask,
    TableScan,
    ddl_rows,
    decide,
    key_of,
    look_at,
    scan,
)
from cdcwb.formats.qlik_change_table.versions import Ddl, Versions, count_problem, ddl_in_order
from cdcwb.formats.tabular.file import FileProbe
from cdcwb.formats.tabular.splits import cut, fail_fast, scan_all
from cdcwb.model import Problem
from cdcwb.words import joined, plural

__all__ = ["make_plan", "make_row_plan", "plan_beginnings"]

# === a plan in the making =============================================================================================

_NAMED: Final = 3  # files in a row of detected


@dataclass(slots=True)
class Draft:
    """Builds a plan."""

    options: Options
    files: list[TableFile] = field(default_factory=list)
    tables: list[TableEntry] = field(default_factory=list)
    splits: list[SplitEntry] = field(default_factory=list)
    versions: Versions = field(default_factory=Versions)
    detected: list[dict[str, Any]] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)
    prefixes: dict[tuple[str, str], list[str]] = field(default_factory=dict)  # prefix and evidence -> tables
    places: dict[int, dict[str, list[str]]] = field(default_factory=dict)  # table -> source of its name -> files
    dialects: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    indices: dict[Any, int] = field(default_factory=dict)  # of tables
    layouts: dict[str, Layout] = field(default_factory=dict)  # unique, from any number of files

    def add_file(self, found: Probe) -> None:
        """Adds a file, and its table."""
        names = found.names
        place = _place(found, self.options)
        control = control_table(place.name.table, names)
        prefix = None if control else find_prefix(names, self.options.prefix)
        layout = lay_out(names, None if prefix is None else prefix.text)
        role = CONTROL if control else ROWS if layout.header or place.suffixed else LOAD
        table = self._table(place.name, control)
        file = found.file
        self.places.setdefault(table, {}).setdefault(place.evidence, []).append(file.path)
        self._note_prefix(prefix, self.tables[table].name.label)
        if file.dialect is not None:
            self.dialects.setdefault((file.dialect.sentence(), file.delimiter_from), []).append(file.path)
        self.files.append(
            TableFile(
                probe=replace(file.without_rows(), names=None),
                layout=self.layouts.setdefault(repr(layout), layout),
                role=role,
                table=table,
                size=file.size,
                rows=sum(number for number, _ in file.groups) if file.kind == "parquet" else None,
                problem=file.problem,
            )
        )
        if role == ROWS and not layout.known.keys() & {"change_oper", "operation"}:
            sentence = "expected a column change_oper or operation; without one the operations of its rows are unknown"
            label = self.tables[table].name.label
            self.problems.append(problem_row(Problem.SCHEMA_MISMATCH, sentence, file=file.path, table=label))
        for about_schema, sentence in found.problems:
            code = Problem.SCHEMA_TEXT if about_schema else Problem.SCHEMA_MISMATCH
            self.problems.append(problem_row(code, sentence, file=file.path, table=self.tables[table].name.label))

    def _table(self, name: TableName, control: str | None) -> int:
        """The index of a table; names are case-insensitive."""
        known = self.indices.setdefault((name.label.casefold(), control), len(self.tables))
        if known == len(self.tables):
            keys = {table.casefold(): columns for table, columns in self.options.keys.items()}
            given = keys.get(name.label.casefold(), keys.get(name.table.casefold()))
            entry = TableEntry(name.schema, name.table, control, None, list(given or []), given is not None)
            self.tables.append(entry)
        return known

    def _note_prefix(self, prefix: Prefix | None, label: str) -> None:
        if prefix is not None:
            tables = self.prefixes.setdefault((prefix.text, prefix.evidence), [])
            tables += [] if label in tables else [label]

    def add_versions(self, probes: Sequence[Probe]) -> None:
        """The versions from files; a file without types has those of another file with the same columns."""
        typed: dict[tuple[int, tuple[str, ...]], Probe] = {}
        for entry, found in zip(self.files, probes, strict=True):
            if found.typed:
                typed.setdefault((entry.table, tuple(entry.layout.data_names)), found)
        for index, (entry, found) in enumerate(zip(self.files, probes, strict=True)):
            if entry.role == CONTROL or not found.columns:
                continue
            if not found.typed:
                other = typed.get((entry.table, tuple(entry.layout.data_names)))
                if other is not None and [column.name for column in other.columns] == found.names:
                    found = other
            header = entry.probe.first if entry.probe.header else 0
            name = self.tables[entry.table].name
            entry.version = self.versions.of_file(entry.table, name, found, entry.layout, (index, header))

    def asked(self, entry: TableFile) -> dict[str, Any]:
        """Further settings of the first pass over a file: see :class:`ScanTask`."""
        control, key = self.tables[entry.table].control, tuple(self.plan().key_of(entry))
        return {"control": control, "key": key, "spelling": self.options.mask_text}

    def plan(self) -> Plan:
        """The plan so far."""
        return Plan(
            self.files,
            self.tables,
            self.versions.found,
            self.splits,
            self.options.charset,
            self.detected,
            self.problems,
        )

    # --- results of the first pass ------------------------------------------------------------------------------------

    def finish(self, probes: Sequence[Probe], tasks: Sequence[ScanTask], scans: Sequence[TableScan]) -> None:
        """Adds sizes, splits, mask settings, keys, DDL, and detected settings."""
        self._sizes(probes, tasks, scans)
        self._names_rows()
        self._dialect_rows()
        evidence: dict[int, Evidence] = {}
        ddl: list[Ddl] = []
        for task, found in zip(tasks, scans, strict=True):
            table = self.files[task.index].table
            evidence[table] = evidence.get(table, Evidence()) + found.evidence
            ddl += found.ddl
        self._masks(evidence)
        self._ddl(ddl)

    def _sizes(self, probes: Sequence[Probe], tasks: Sequence[ScanTask], scans: Sequence[TableScan]) -> None:
        rows: dict[int, int] = {}
        for task, found in zip(tasks, scans, strict=True):
            entry = self.files[task.index]
            kind = task.file.kind
            if kind != "parquet":
                rows[task.index] = rows.get(task.index, 0) + found.rows + found.filler
            if found.size:
                entry.size = found.size
            entry.problem = entry.problem or found.problem
            start = found.begin if kind == "csv" and task.start else task.start
            stop = task.stop if kind in ("parquet", "excel") else min(task.stop, entry.size)
            if start < stop:
                self.splits.append(found.split(task.index, start, stop))
        for index, number in rows.items():
            self.files[index].rows = number
        for entry, found_probe in zip(self.files, probes, strict=True):
            if entry.problem:
                code = Problem.MALFORMED if found_probe.file.kind == "broken" else Problem.TRUNCATED
                self.problems.append(problem_row(code, entry.problem, file=entry.path))
            elif found_probe.side is not None:
                problem = count_problem(entry, found_probe.side.records)
                self.problems += [] if problem is None else [problem]

    def _names_rows(self) -> None:
        for table, places in self.places.items():
            label = self.tables[table].name.label
            told = [f"{place} ({_files(paths)})" for place, paths in places.items()]
            shown = "given as an option" if self.options.table else joined(told[:_NAMED])
            self._detect("table", label, shown, self.options.table is not None, label)
        for (prefix, why), tables in self.prefixes.items():
            given = self.options.prefix is not None
            scope = tables[0] if len(tables) == 1 else "capture"
            self._detect("prefix", prefix or "none", "given as an option" if given else why, given, scope)
        if not self.prefixes:
            self._detect("prefix", self.options.prefix or PREFIX, "no file has header columns", False)
        given = "charset" in self.options.given
        why = "given as an option" if given else "the files do not give it; assumed"
        self._detect("charset", self.options.charset, why, given)

    def _dialect_rows(self) -> None:
        for (dialect, why), paths in self.dialects.items():
            given = bool(self.options.tokens)
            source = f"{why}, and options {joined(self.options.token_options)}" if given else why
            self._detect("delimiter", dialect, f"{source}, for {_files(paths)}", given)

    def _detect(self, setting: str, value: str, evidence: str, overridden: bool, scope: str = "capture") -> None:
        self.detected.append(detected_row(setting, value, evidence, overridden, scope))

    def _tables_with_masks(self) -> dict[int, int]:
        """Tables with masks, and their numbers of header columns."""
        found: dict[int, int] = {}
        for entry in self.files:
            if "change_mask" in entry.layout.known:
                found[entry.table] = max(found.get(entry.table, 0), len(entry.layout.header))
        return found

    def _masks(self, evidence: Mapping[int, Evidence]) -> None:
        """Order and offset of the masks of each table. If the masks of a table do not show the order, it has that of
        the others."""
        order, offset = self.options.mask_order, self.options.mask_offset
        headers = self._tables_with_masks()
        decided = {
            table: decide(evidence.get(table, Evidence()), header, order, offset) for table, header in headers.items()
        }
        told = [one.settings.order for one in decided.values() if one.told]
        usual = max(sorted(set(told)), key=told.count) if told else None
        for table, header in headers.items():
            decision = decided[table]
            if not decision.told and usual is not None and order is None and usual != decision.settings.order:
                again = decide(evidence.get(table, Evidence()), header, usual, offset)
                why = f"its masks are ambiguous; those of {plural(told.count(usual), 'other table')} decide it"
                decision = replace(again, order_evidence=why)
            self._settle(table, decision, evidence.get(table, Evidence()))
        for at, entry in enumerate(self.tables):
            if entry.control is None:
                self._key_row(at, entry)

    def _settle(self, table: int, decision: Decision, evidence: Evidence) -> None:
        entry = self.tables[table]
        spelling = decision.settings.spelling
        if self.options.mask_text is not None:
            spelling = self.options.mask_text
        entry.masks = MaskSettings(decision.settings.order, decision.settings.offset, spelling)
        label = entry.name.label
        given = self.options
        self._detect("mask_order", entry.masks.order, decision.order_evidence, given.mask_order is not None, label)
        at = str(entry.masks.offset)
        self._detect("mask_offset", at, decision.offset_evidence, given.mask_offset is not None, label)
        if spelling is not None:
            why = f"{evidence.only_base64} masks can only be base64, {evidence.only_hex} only hexadecimal"
            why = "given as an option" if given.mask_text is not None else why
            self._detect("mask_text", spelling, why, given.mask_text is not None, label)
        mine = [column for one in self.versions.of(table) for column in one.columns]
        named = any(column.key_position is not None for column in mine)
        if not entry.given and not named:
            columns = self._columns(table)
            key, why = key_of(evidence, entry.masks, columns)
            entry.key = key
            if key:
                self._detect("keys", "+".join(key), why, False, label)

    def _columns(self, table: int) -> list[str]:
        mine = self.versions.of(table)
        return [column.name for column in mine[-1].columns] if mine else []

    def _key_row(self, table: int, entry: TableEntry) -> None:
        """The source of a table's key, if not its masks."""
        label = entry.name.label
        if entry.given:
            self._detect("keys", "+".join(entry.key), "given as an option", True, label)
            return
        for version in reversed(self.versions.of(table)):
            keyed = sorted((one.key_position, one.name) for one in version.columns if one.key_position is not None)
            if keyed:
                names = "+".join(name for _, name in keyed)
                self._detect("keys", names, f"key positions of table version {version.key}", False, label)
                return

    def _ddl(self, rows: Sequence[Ddl]) -> None:
        """The versions of DDL history."""
        for ddl in ddl_in_order(rows, self.options.suffix):
            name = ddl.name if ddl.new_name is None else TableName(ddl.name.schema, ddl.new_name)
            label = name.label
            if ddl.problem is not None:
                place = {"file": self.files[ddl.file_index].path, "offset": ddl.offset, "length": ddl.length}
                self.problems.append(problem_row(Problem.SCHEMA_TEXT, ddl.problem, table=label, **place))
            if ddl.kind in ("DROP_TABLE", "TRUNCATE_TABLE") or not (ddl.changes or ddl.new_name):
                continue
            table = self._table(ddl.name, None)
            if ddl.new_name is not None:
                table = self._renamed(table, name)
            problem = self.versions.of_ddl(table, ddl, name)
            self.problems += [] if problem is None else [problem]

    def _renamed(self, before: int, name: TableName) -> int:
        """The table with a new name, which continues with the last version of the old one."""
        table = self._table(name, None)
        if table != before and not self.versions.of(table) and self.versions.of(before):
            self.versions.carried[table] = self.versions.of(before)[-1]
        return table


def _files(paths: Sequence[str]) -> str:
    names = joined([Path(path).name for path in paths[:_NAMED]])
    return names if len(paths) <= _NAMED else f"{names} and {plural(len(paths) - _NAMED, 'more file')}"


def _place(found: Probe, options: Options) -> Place:
    """The table of a file: that of the option, else of the side file, else of its path
    (docs/formats/qlik-change-table.md §1.1)."""
    path = from_path(found.file.path, options.suffix)
    if options.table is not None:
        return Place(TableName.of(options.table), path.suffixed, path.load, "given as an option")
    side = found.side
    target = None if side is None else side.table or side.source_table
    if side is None or target is None:
        return path
    bare = without_suffix(target, options.suffix)
    name = TableName(side.schema or side.source_schema, bare or target)
    return Place(name, bare is not None, path.load, f"the side file's table {target!r}")


# === plans ============================================================================================================

_BEGINNING: Final = 4 << 20  # bytes of a file that are examined for mask settings, if it is not read completely


def make_plan(paths: Sequence[str], options: Options, run: Run = run_here) -> Plan:
    """The plan of a capture. ``paths`` are its files in capture order; side files among them describe others.

    Raises CaptureError for files that cannot be read, and in mode FAILFAST for the first bytes that are not a row.
    """
    data = [path for path in paths if not is_side_file(path)]
    if not data:
        raise CaptureError("there are only side files, without the data files that they describe", path=paths[0])
    probes: list[Probe] = run(probe, [(path, options) for path in data])
    draft = Draft(options)
    for found in probes:
        draft.add_file(found)
    draft.add_versions(probes)
    tasks = _tasks(draft, options, run)
    scans = scan_all(tasks, scan, run)
    draft.finish(probes, tasks, scans)
    plan = draft.plan()
    plan.facts = {"bytes": sum(entry.size for entry in plan.files), "records": sum(one.rows for one in scans)}
    if options.mode == "FAILFAST":
        fail_fast(tasks, scans)
    return plan


def plan_beginnings(paths: Sequence[str], options: Options) -> Plan:
    """A plan from the beginnings of files, for inspecting single rows; only the first file's size is known."""
    draft = Draft(options)
    probes = [probe((path, options)) for path in paths]
    for found in probes:
        draft.add_file(found)
    draft.add_versions(probes)
    tasks = [
        replace(task, stop=min(task.stop, _BEGINNING)) for task in _tasks(draft, options, run_here) if not task.start
    ]
    scans = [scan(task) for task in tasks]
    draft.finish(probes, tasks, scans)
    return draft.plan()


def make_row_plan(name: str, schema: pa.Schema, options: Options, run: RunRows) -> Plan:
    """The plan of a table of rows named ``name``. Raises CaptureError for one without columns."""
    columns = [one for one in schema if one.name != ROW]
    if not columns:
        raise CaptureError("a table without columns is not a change table", path=name)
    described = tuple(column_of(place, one) for place, one in enumerate(columns, 1))
    text = pa.schema(columns).to_string(show_field_metadata=False, show_schema_metadata=False)
    found = Probe(FileProbe(name, "rows", heading=text), described, True)
    draft = Draft(options)
    draft.add_file(found)
    draft.add_versions([found])
    task = ScanTask(0, draft.files[0], 0, 0, 0, True, **draft.asked(draft.files[0]))
    looks: list[TableScan] = [pickle.loads(one) for one in run(partial(look_at_rows, task=task))]
    seen = TableScan(0, 0, rows=sum(one.rows for one in looks))
    for one in looks:
        seen.evidence += one.evidence
        seen.ddl += one.ddl
    draft.finish([found], [task], [seen])
    plan = draft.plan()
    plan.splits = []
    plan.facts = {"records": seen.rows}
    return plan


def look_at_rows(batches: Iterator[pa.RecordBatch], task: ScanTask) -> bytes:
    """The pickled summary of the rows of one partition; all are counted, and the first ones are examined."""
    found, layout = TableScan(0, 0), task.entry.layout
    for batch in batches:
        is_ddl = task.control == DDL_HISTORY
        if is_ddl or found.rows < SAMPLE:
            for part in parts_of_batches(task.file.path, [batch if is_ddl else batch.slice(0, SAMPLE)], layout):
                for _, rows in part.rows:
                    if is_ddl:
                        found.ddl += ddl_rows(rows, 0)
                    elif task.control is None:
                        found.evidence += look_at(rows, task.key, task.spelling)
        found.rows += batch.num_rows
    return pickle.dumps(found)


def _tasks(draft: Draft, options: Options, run: Run) -> list[ScanTask]:
    """The splits of all files."""
    found = []
    for stretch in cut(draft.files, options.split_size):
        given = {one.name: getattr(stretch, one.name) for one in fields(stretch)}
        found.append(ScanTask(**given, **draft.asked(draft.files[stretch.index])))
    return found
