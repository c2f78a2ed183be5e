"""Formats whose records are rows of a table: what such a format is, completely (docs/dissectors.md). A format gives
three things (:class:`TableRows`): which tables are its own, what their header columns mean, and the columns of the
events that rows give, as arrays. Containers (delimited text, JSON, Parquet, Excel, dumps of SQL statements, DataFrames)
are read by :mod:`cdcwb.formats.containers.tables`, and split by :mod:`cdcwb.formats.table_splits`.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb import model
from cdcwb.errors import CaptureError, MalformedRecordError, OptionError
from cdcwb.formats import options as opt
from cdcwb.formats.arrays import as_array, column_of, filled, maps_of, table_names
from cdcwb.formats.changes import Halved, joined
from cdcwb.formats.columns import TableColumn, TableVersion, cast, parsed
from cdcwb.formats.containers.delimited import DIALECT_OPTIONS, TOKENS, charset_of, tokens_of
from cdcwb.formats.containers.rows import (
    BROKEN,
    CSV,
    FILE_END,
    PARQUET,
    Cell,
    FileProbe,
    Rows,
    RowSegments,
    TableName,
    gap_events,
    named,
    plain,
    rows_of_batch,
    stem_of,
    woven,
)
from cdcwb.formats.containers.table_probe import conclusions, detected_rows, or_dump, probe_file
from cdcwb.formats.containers.tables import cut_record, find_part, numbered_parts, read_parts
from cdcwb.formats.dissector import (
    EVERYTHING,
    ROW,
    Field,
    Inspection,
    Pairing,
    PlanText,
    Recognition,
    RowFormat,
    Run,
    RunRows,
    TableRequest,
    TextPart,
    Wanted,
    detected_row,
    file_row,
    problem_row,
    scan_all,
    with_parts,
)  # fmt: skip
from cdcwb.formats.files import list_files
from cdcwb.formats.kernels import Bools, Ints
from cdcwb.formats.moments import IS_TIME, MICROSECONDS, Zone, in_utc, iso_times
from cdcwb.formats.requests import common_types, images_of, no_table, request_schema, select, selected, versions_of
from cdcwb.formats.source import folders_of
from cdcwb.formats.table_splits import FileRange, RowScan, Split, cut, read_range, row_kinds, splits_of
from cdcwb.model import Kind, OffsetUnit, Operation, Problem
from cdcwb.words import visible

_BATCH: Final = 8192  # rows of a table that are a part
_FILES: Final = 8  # that are looked at to recognise a capture
_SIBLINGS: Final = 16  # files of a folder that are looked at to inspect a row
SPLIT_SIZE: Final = 32 << 20
"""Bytes of a large file that one task reads."""

_LONGEST: Final = 1000  # characters of a sentence
_SHOWN: Final = 40  # digits of bytes in a sentence
_SCANNED: Final = Wanted(images=False, columns=frozenset({"kind", "operation", "position", "problems"}))
_OPTIONS: Final = {
    "table": "schema.table of all rows: auto (from the names of files), or the name",
    "charset": "character set of text (utf-8)",
    **DIALECT_OPTIONS,
    "sheet": "sheet of an Excel file: auto (the first), or its name",
    "sql_table": "table of an SQL dump whose rows are read: auto, or schema.table",
    "backslash": "a backslash in the strings of an SQL dump is an escape: auto, true, false",
    "split_size": f"bytes of a large file that one task reads ({SPLIT_SIZE})",
    **opt.SHARED,
}


_WIDER: Final = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}
"""Types with all values of unsigned numbers of so many bits."""


@dataclass
class RowBatch:
    """Some rows of one file. ``wanted`` has the columns of events that will be used; ``numbers``: those
    of the rows in the capture, from 1, if the file :attr:`~TableFile.is_numbered`. ``problems`` and ``is_malformed``
    are by the index of the row."""

    rows: Rows
    file: TableFile
    wanted: Wanted
    numbers: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    problems: dict[int, list[dict[str, str]]] = field(default_factory=dict)
    is_malformed: set[int] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.rows.offset)

    @property
    def names(self) -> tuple[str, ...]:
        """All columns of the rows."""
        return self.rows.names

    @property
    def columns(self) -> tuple[str, ...]:
        """The data columns of the file, in order."""
        return self.file.columns

    def text(self, name: str) -> pa.StringArray:
        """A column as texts, bytes as hexadecimal digits; null for NULL, and if the rows lack the column."""
        return self.rows.text(self.names.index(name)) if name in self.names else pa.nulls(len(self), pa.string())

    def time(self, name: str, zone: Zone | None = None) -> pa.Array:
        """A column as timestamps, with a problem for each invalid one. ``zone``: that of times without one (None:
        UTC)."""
        texts = self.text(name)
        utc, state = iso_times(texts)
        doubtful = in_utc(utc, state, timedelta(0) if zone is None else zone)
        is_time = state & IS_TIME > 0
        invalid = (state > 0) & ~is_time
        self.problem(invalid, Problem.TIME_RANGE, lambda row: f"{name}: expected a time, found {texts[row].as_py()!r}")
        said = "is ambiguous or missing in its time zone; the earlier one is used"
        self.problem(doubtful, Problem.TIME_ZONE, lambda row: f"{name}: {texts[row].as_py()} {said}")
        return pa.array(utc, MICROSECONDS, mask=~is_time)

    def operations(
        self, name: str, meanings: Mapping[str, tuple[Kind, Operation]]
    ) -> tuple[dict[str, pa.Array], Bools]:
        """``kind``, ``operation`` and ``record_type`` by the codes in a column, and a mask of the rows with a code that
        has no meaning, whose operation is UNKNOWN."""
        codes = self.text(name)
        place = pc.index_in(codes, pa.array(list(meanings)))
        kinds, operations = (pa.array([str(one[at]) for one in meanings.values()]).take(place) for at in (0, 1))
        unknown = pc.binary_join_element_wise("UNKNOWN(", pc.fill_null(codes, "NULL"), ")", "")
        found = {"kind": pc.fill_null(kinds, str(Kind.CHANGE)), "operation": pc.coalesce(operations, unknown)}
        return {**found, "record_type": codes}, as_array(pc.is_null(place))

    def problem(self, rows: Bools, code: Problem, sentence: Callable[[int], str]) -> None:
        """Adds a problem to rows that are not malformed; ``sentence`` gives that of a row."""
        for row in np.flatnonzero(rows).tolist():
            if row not in self.is_malformed:
                found = {"code": str(code), "detail": visible(sentence(row), _LONGEST)}
                self.problems.setdefault(row, []).append(found)

    def malformed(self, rows: Bools, sentence: Callable[[int], str]) -> None:
        """Makes rows malformed events; their bytes are kept."""
        self.problem(rows, Problem.MALFORMED, sentence)
        self.is_malformed.update(np.flatnonzero(rows).tolist())


# --- plans ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Options:
    """The checked options of a capture; ``given`` are those of the format itself, and ``table``; ``names`` those of all
    that are given."""

    charset: str = "utf-8"
    tokens: Mapping[str, bytes] = field(default_factory=dict)
    split_size: int = SPLIT_SIZE
    mode: str = "PERMISSIVE"
    sheet: str | None = None
    sql_table: str | None = None
    backslash: bool | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    names: frozenset[str] = frozenset()


@dataclass(slots=True, kw_only=True)
class TableFile:
    """One file.

    * ``probe``: the facts for reading it; ``size``: bytes of the decompressed file; ``rows``: their number
    * ``table`` and ``columns``: its table and data columns, in order; ``key``: its key columns
    * ``version``: the key of its table version (None: it is not a table, or rows name their tables)
    * ``options``: those of the format, given or detected
    * ``upper``: the indexes of columns whose bytes are written in upper case
    """

    probe: FileProbe
    table: TableName
    size: int = 0
    rows: int | None = None
    problem: str | None = None
    columns: tuple[str, ...] = ()
    version: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    upper: frozenset[int] = frozenset()

    @property
    def path(self) -> str:
        """Its path."""
        return self.probe.path

    @property
    def is_numbered(self) -> bool:
        """Whether the numbers of rows in the capture are used."""
        return False

    @property
    def paired(self) -> tuple[str, Any]:
        """What is equal for files that may have the other halves of its updates."""
        return self.path.rpartition("/")[0], self.version

    def is_wanted(self, wanted: Wanted) -> bool:
        """Whether it may have rows of the requested tables."""
        tables = wanted.tables
        return tables is None or self.version is None or not tables.isdisjoint(table_names(self.table.label))


@dataclass(slots=True, kw_only=True)
class Version(TableVersion):
    """One version of a table, and the type of each of its columns (None: not given)."""

    types: Mapping[str, pa.DataType | None]

    @property
    def table(self) -> TableName:
        """Its table."""
        return TableName(self.schema_name, self.table_name or "")

    def to_row(self) -> dict[str, Any]:
        """As a row of :data:`cdcwb.model.TABLE_VERSIONS`, without ``first_position``."""
        return TableVersion.to_row(self) | {"lineage": self.lineage or None}


@dataclass
class Plan(PlanText):
    """How a capture is read. A split is a range of one file, or several ranges that follow each other."""

    options: Options
    files: list[Any] = field(default_factory=list)
    versions: list[Any] = field(default_factory=list)
    splits: list[Any] = field(default_factory=list)
    detected: list[dict[str, Any]] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


# --- the format -------------------------------------------------------------------------------------------------------


class TableRows(RowFormat):
    """A format whose records are rows of a table of committed changes, with header columns and data columns.

    A format sets ``name``, ``meanings`` (of its header columns, by their names) and, with a description each,
    ``own_options``; and it has the methods :meth:`claims` and :meth:`events`. ``examines``: whether it detects settings
    from the first rows of files (:meth:`examine`, :meth:`settle`); ``scanned``: what the first pass needs of events;
    ``scan_type``: its result for a part of a file; ``counts_damage``: whether malformed rows are counted as rows;
    ``parsers``: the functions for the values of options that are fields of ``options_type``, each with its arguments
    after the name and the value.
    """

    own_options: ClassVar[Mapping[str, str]] = {}
    meanings: ClassVar[Mapping[str, str]] = {}
    counted: ClassVar[Mapping[str, str]] = {}
    pairing = Pairing.POSITION
    names_keys = False
    examines = False
    counts_damage = False
    scanned = _SCANNED
    scan_type: ClassVar[type[RowScan]] = RowScan
    plan_type, options_type = Plan, Options
    parsers: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "split_size": (opt.as_whole, 64),
        "mode": (opt.as_choice, opt.MODES),
        "sheet": (opt.as_text,),
        "sql_table": (opt.as_text,),
        "backslash": (opt.as_bool,),
    }

    # --- what a format gives ------------------------------------------------------------------------------------------

    def claims(self, columns: Sequence[str]) -> bool:
        """Whether a table with these columns is of the format."""
        raise NotImplementedError

    def events(self, rows: RowBatch, options: Mapping[str, str]) -> Mapping[str, Any]:
        """The columns of :data:`cdcwb.model.EVENTS` that rows give, each as an array or as the value of all rows: at
        least ``kind`` and ``operation``. A row is the before image of a DELETE and of the kind BEFORE, else an after
        image. Location, table, key, headers and images are added. ``options`` are those of the file."""
        raise NotImplementedError

    def header(self, columns: Sequence[str], options: Mapping[str, str]) -> list[str]:
        """The header columns among these; the others are data."""
        return [name for name in columns if name in self.meanings]

    def table(self, path: str, paths: Sequence[str], options: Mapping[str, str]) -> tuple[TableName, str]:
        """The table of a file among the files of a capture, and the evidence."""
        if "table" in options:
            return TableName.of(options["table"]), "given as an option"
        return TableName.of(stem_of(path)), f"the file's name {stem_of(path)!r}"

    def meaning(self, name: str, text: str | None, columns: Sequence[str]) -> str:
        """The meaning of a value of a header column; ``columns`` are the data columns."""
        return self.meanings.get(name, "a header column")

    def count(self, rows: pa.RecordBatch) -> Mapping[str, int]:
        """What is counted of consecutive rows (kind, operation, position), for ``detected``. ``counted`` describes
        it."""
        return {}

    def examine(self, known: Any, index: int, rows: RowBatch) -> tuple[Any, bool]:
        """The evidence from the first rows of a file, with that from preceding rows (``known``, None without any); and
        whether more rows are needed. ``index``: of the file in the capture."""
        return known, False

    def settle(self, plan: Plan, examined: Sequence[tuple[TableFile, Any]]) -> None:
        """Completes a plan by the evidence from its files."""

    def note(self, plan: Plan, entry: TableFile) -> str:
        """A remark on a row of a file."""
        return f"table version {entry.version}"

    def row_meaning(self, entry: TableFile, event: Mapping[str, Any]) -> str:
        """The meaning of a row."""
        problems = event["problems"] or [{"detail": f"a row of {entry.table.label}"}]
        return str(problems[0]["detail"])

    # --- the plan -----------------------------------------------------------------------------------------------------

    @property
    def options(self) -> Mapping[str, str]:  # type: ignore[override]
        """The description of every option."""
        return {**self.own_options, **{name: text for name, text in _OPTIONS.items() if name not in self.own_options}}

    def parse_options(self, options: Mapping[str, Any]) -> Options:
        """See :meth:`cdcwb.formats.dissector.Format.parse_options`."""
        opt.check_names(options, self.options, self.name)
        given = opt.given_of(options)
        charset = charset_of(given)
        made = {name: make(name, given[name], *of) for name, (make, *of) in self.parsers.items() if name in given}
        own = {name: str(value) for name, value in given.items() if name in {"table", *self.own_options}}
        tokens = tokens_of(given, TOKENS, charset)
        found: Options = self.options_type(charset=charset, tokens=tokens, given=own, names=frozenset(given), **made)
        return found

    def probe(self, options: Options, path: str) -> Any:
        """The kind of a file; one without the format's columns is broken."""
        found = probe_file(path, dialect_options=options.tokens, charset=options.charset, limit=0, sheet=options.sheet)
        found = or_dump(found, self.claims, options) or found
        if found.kind == BROKEN or (found.names is not None and self.claims(found.names)):
            return found
        columns = visible(", ".join(found.columns), 200)
        return found.broken(f"expected the header columns of {self.name}, found the columns {columns}")

    def recognise(self, paths: Sequence[str], options: Mapping[str, Any]) -> Recognition:
        """Looks at the first files. Options of other formats are ignored."""
        try:
            checked = self.parse_options({name: value for name, value in options.items() if name in self.options})
        except OptionError as reason:
            return Recognition(0.0, [reason.message])
        found = [self.recognise_file(path, checked) for path in self.likely(self.data_files(paths), checked)[:_FILES]]
        return max(found, key=lambda one: one.confidence, default=Recognition(0.0, ["there are only side files"]))

    def data_files(self, paths: Sequence[str]) -> list[str]:
        """The files among these that have rows."""
        return [path for path in paths if self.side_file is None or not self.side_file.search(path)]

    def likely(self, paths: Sequence[str], options: Any) -> Sequence[str]:
        """The files in the order in which they are looked at."""
        return paths

    def recognise_file(self, path: str, options: Any) -> Recognition:
        """Looks at the columns of a file."""
        try:
            found = self.probe(options, path)
        except (CaptureError, OSError) as reason:
            refusal = reason if isinstance(reason, OptionError) else None
            return Recognition(0.0, [str(reason)], refusal=refusal)
        if found.kind == BROKEN:
            return Recognition(0.0, [f"no file has the header columns of {self.name}"])
        return self._recognition(path, found.columns, found.kind)

    def recognise_rows(self, schema: pa.Schema) -> Recognition:
        """Looks at the columns of a table."""
        if not self.claims(schema.names):
            return Recognition(0.0, [f"the table lacks the header columns of {self.name}"])
        return self._recognition("the table", schema.names, "rows")

    def _recognition(self, what: str, columns: Sequence[str], shape: str) -> Recognition:
        header = ", ".join(self.header(columns, {})[:8])
        return Recognition(0.98, [f"{what} ({shape}) has the header columns {header}"], shape)

    def draft(self, probes: Sequence[Any], options: Options) -> Plan:
        """A plan without splits. Files of a table with the same columns and types are of one version."""
        plan, known = Plan(options), dict[Any, str]()
        for index, probe in enumerate(probes):
            table, why = self.table(probe.place, [one.place for one in probes], options.given)
            entry = TableFile(probe=probe.without_rows(), size=probe.size, problem=probe.problem, table=table)
            entry.options = options.given
            plan.files.append(entry)
            plan.problems += [] if probe.problem is None else [{**file_problem(entry), "table": table.label}]
            if probe.kind == BROKEN:
                continue
            header = set(self.header(probe.columns, options.given))
            kinds = [None] * probe.width if probe.schema is None else [one.type for one in probe.schema]
            types = {name: kind for name, kind in zip(probe.columns, kinds, strict=True) if name not in header}
            entry.columns, shape = tuple(types), (table, *types.items())
            if shape not in known:
                known[shape] = f"{table.label}@{1 + sum(one[0] == table for one in known)}"
                columns = [
                    TableColumn(at, name, None if kind is None else str(kind))
                    for at, (name, kind) in enumerate(types.items(), start=1)
                ]
                place = (index, 0, probe.first) if probe.kind == CSV and probe.header else ()
                facts = (known[shape], *table, columns, "inferred", probe.heading or None, {}, *place)
                plan.versions.append(Version(*facts, types=types))
            entry.version = known[shape]
            detected = detected_row("table", table.label, why, "table" in options.given, table.label)
            plan.detected += [] if detected in plan.detected else [detected]
        found = ((*said, probe.path) for probe in probes for said in conclusions(probe, options.names))
        plan.detected += detected_rows(said for said in found if said[0] in self.options)
        return plan

    def make_plan(self, paths: Sequence[str], options: Options, run: Run) -> Plan:
        """See :meth:`cdcwb.formats.dissector.Format.plan`."""
        plan = self.draft(run(partial(self.probe, options), paths), options)
        ranges = cut(plan.files, options.split_size)
        scans = scan_all(ranges, self._scan, run)
        for one, scan in zip(ranges, scans, strict=True):
            entry = plan.files[one.index]
            entry.size, entry.rows = scan.size or entry.size, (entry.rows or 0) + scan.rows + scan.filler
            if scan.problem is not None and entry.problem is None:
                entry.problem = scan.problem
                plan.problems.append(file_problem(entry))
        plan.facts = {"bytes": sum(entry.size for entry in plan.files), "records": sum(scan.rows for scan in scans)}
        self.split(plan, ranges, scans)
        self.settle(plan, [(plan.files[one.index], scan.evidence) for one, scan in zip(ranges, scans, strict=True)])
        wrong = [(one.index, *scan.malformed) for one, scan in zip(ranges, scans, strict=True) if scan.malformed]
        if wrong and options.mode == "FAILFAST":
            index, offset, reason = min(wrong)
            raise MalformedRecordError(reason, path=plan.files[index].path, offset=offset)
        return plan

    def split(self, plan: Plan, ranges: Sequence[FileRange], scans: Sequence[Any]) -> None:
        """Adds the splits, and what was counted."""
        counts = Counter[str]()
        for scan in scans:
            counts.update(scan.counts)
        edges = [(one.index, *scan.edges) for one, scan in zip(ranges, scans, strict=True) if scan.edges is not None]
        for one, two in pairwise(edges):
            counts.update(self.count(joined(one[2], two[1])) if one[0] == two[0] else {})
        for name, number in counts.items():
            plan.detected += [detected_row(name, str(number), self.counted[name], overridden=False)] if number else []
        plan.splits = splits_of([entry.paired for entry in plan.files], ranges, scans)

    def _scan(self, one: FileRange) -> RowScan:
        """The first pass over a range. The same rows of a file are examined wherever it is split."""
        entry: Any = one.entry
        found, examine = self.scan_type(one.start, one.stop), self.examines and one.start == 0
        if examine and not one.alone:
            found.evidence, examine = self._examined(entry, one.index), False
        for part in read_range(one, found, entry.upper):
            part.before = found.rows
            if examine:
                found.evidence, examine = self._examine_part(found.evidence, entry, one.index, part)
            self.scan_part(found, entry, one.index, part)
            found.rows += sum(len(indices) for indices, _ in part.rows)
            if self.counts_damage or part.unit is OffsetUnit.ROW:
                found.rows += part.damaged
            found.take_gaps(part)
        return found

    def scan_part(self, found: Any, entry: TableFile, index: int, part: RowSegments) -> None:
        """Adds what the first pass needs of a part to its result."""
        for events in self._of_part(entry, index, part, self.scanned):
            found.take(events, self.count)

    def plan_rows(self, name: str, schema: pa.Schema, run: RunRows, options: Mapping[str, Any]) -> Plan:
        """See :meth:`cdcwb.formats.dissector.RowFormat.plan_rows`. Raises CaptureError for one that cannot be read."""
        found = self.probe_rows(name, pa.schema([one for one in schema if one.name != ROW]))
        plan = self.draft([found], self.parse_options(options))
        scans = list(map(pickle.loads, run(partial(self._scan_rows, plan.files[0]))))
        plan.facts = {"records": sum(scan.rows for scan in scans)}
        self.settle(plan, [(plan.files[0], scan.evidence) for scan in scans])
        return plan

    def probe_rows(self, name: str, schema: pa.Schema) -> Any:
        """The facts of a table of rows. Raises CaptureError for one that is not of the format."""
        names = named(schema.names)
        if not self.claims(names):
            raise CaptureError(f"expected the header columns of {self.name}, found {', '.join(names)}", path=name)
        return FileProbe(name, "rows", names, len(names), schema=schema)

    def _scan_rows(self, entry: TableFile, batches: Iterator[pa.RecordBatch]) -> bytes:
        """The pickled result of the first pass over some rows of a table."""
        found, examine, probe = RowScan(0, 0), self.examines, entry.probe
        for batch in batches:
            found.rows += batch.num_rows
            parts = parts_of_rows(probe.path, [batch], probe.columns, entry.upper) if examine else iter(())
            while examine and (part := next(parts, None)) is not None:
                found.evidence, examine = self._examine_part(found.evidence, entry, 0, part)
        return pickle.dumps(found)

    def _examined(self, entry: TableFile, index: int) -> Any:
        """The evidence from the first rows of a file."""
        evidence, examine, probe = None, True, entry.probe
        parts = read_parts(probe, 0, len(probe.groups) or probe.size or FILE_END, entry.upper)
        while examine and (part := next(parts, None)) is not None:
            evidence, examine = self._examine_part(evidence, entry, index, part)
        return evidence

    def _examine_part(self, known: Any, entry: TableFile, index: int, part: RowSegments) -> tuple[Any, bool]:
        more = True
        for _, rows in part.rows:
            known, more = self.examine(known, index, RowBatch(rows, entry, EVERYTHING))
        return known, more

    def files(self, plan: Any) -> list[dict[str, Any]]:
        """The data files of a capture: file, file_index, size (bytes, decompressed), shape (csv, sql, json, parquet,
        excel or rows), compression, problem; and ``rows``."""
        files = enumerate(plan.files)
        return [file_row(at, one, one.probe.kind, one.probe.compression, rows=one.rows) for at, one in files]

    def parts(self, plan: Any, split: int, wanted: Wanted) -> Iterator[tuple[int, RowSegments]]:
        """The parts of a split with the index of their file; of the files that may have rows of requested tables."""
        ranges = plan.splits[split]
        for one in ranges if isinstance(ranges, Sequence) else [ranges]:
            if plan.files[one.file].is_wanted(wanted):
                yield from ((one.file, part) for part in parts_of_range(plan, one))

    def parts_of(self, plan: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[RowSegments]:
        """The rows of numbered batches."""
        entry = plan.files[0]
        return parts_of_rows(entry.path, batches, entry.probe.columns, entry.upper)

    def read(self, plan: Any, split: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of one split in capture order."""
        for file, part in self.parts(plan, split, wanted):
            yield from self.events_of(plan, file, part, wanted)

    def read_table(self, plan: Any, split: int, request: TableRequest) -> Iterator[pa.RecordBatch]:
        """The rows of one table in one split, in capture order."""
        for file, part in self.parts(plan, split, Wanted(tables=frozenset({request.name}))):
            yield from self.typed_part(plan, file, part, request)

    def read_rows(self, plan: Any, batches: Iterator[pa.RecordBatch], wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The events of the given rows."""
        for part in self.parts_of(plan, batches):
            yield from self.events_of(plan, 0, part, wanted)

    def read_table_rows(
        self, plan: Any, batches: Iterator[pa.RecordBatch], request: TableRequest
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one table among the given ones, as columns."""
        self.table_schema(plan, request)
        for part in self.parts_of(plan, batches):
            yield from self.typed_part(plan, 0, part, request)

    def problems(self, plan: Any) -> list[dict[str, Any]]:
        """The problems of the plan that are not problems of an event."""
        found: list[dict[str, Any]] = plan.problems
        return found

    def halved(self, plan: Plan, split: int) -> Halved:
        """See :class:`cdcwb.formats.changes.Halving`."""
        one: Split = plan.splits[split]
        return one.halved

    # --- events -------------------------------------------------------------------------------------------------------

    def events_of(self, plan: Plan, file: int, part: RowSegments, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """The requested events of a part."""
        for batch in self._of_part(plan.files[file], file, part, wanted):
            yield from select(batch, wanted)

    def _of_part(self, entry: TableFile, file: int, part: RowSegments, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        kinds = None if wanted.kinds is None or str(Kind.CHANGE) in wanted.kinds else wanted.kinds  # nearly all rows
        given = {"kind": kinds, "transaction_id": wanted.transactions, "changed_at": wanted.timed or None}
        conditions = [name for name, condition in given.items() if condition is not None]
        batches, order = [], []
        for indices, rows in part.rows:
            if conditions:
                narrow = replace(wanted, images=False, tables=None, columns=frozenset({"kind", *conditions}))
                keep = selected(self._of_rows(entry, file, part, indices, rows, narrow), replace(wanted, tables=None))
                at = np.flatnonzero(as_array(keep))
                if not len(at):
                    continue
                if len(at) < len(indices):
                    indices, rows = indices[at], rows.take(at)
            batches.append(self._of_rows(entry, file, part, indices, rows, wanted))
            order.append(indices)
        if part.gaps:
            batches.append(
                gap_events(part, part.gaps, wanted, **self._common(entry, file, part, [gap.index for gap in part.gaps]))
            )
            order.append(np.array([gap.index for gap in part.gaps], np.int64))
        return woven(batches, order)

    def _common(self, entry: TableFile, file: int, part: RowSegments, indices: Any) -> dict[str, Any]:
        names = {"schema_name": entry.table.schema, "table_name": entry.table.table or None}
        path, index = (entry.path, file) if part.files is None else (one.take(indices) for one in part.files)
        return {"format": self.name, "file": path, "file_index": index, **names}

    def _of_rows(
        self, entry: TableFile, file: int, part: RowSegments, indices: Ints, rows: Rows, wanted: Wanted
    ) -> pa.RecordBatch:
        """The events of rows of a part."""
        batch = batch_of(entry, part, indices, rows, wanted)
        count, names = len(batch), batch.names
        columns = {
            **self._common(entry, file, part, indices),
            "table_version": entry.version,
            **self.events(batch, entry.options),
        }
        columns |= {"offset": pa.array(rows.offset), "length": pa.array(rows.length), "offset_unit": str(part.unit)}
        for place in range(len(names)):
            at = rows.garbled(place)
            if len(at):
                is_garbled = np.isin(np.arange(count), at)
                batch.problem(is_garbled, Problem.CHARSET, partial(_garbled, rows, place, entry.probe.charset))
        if batch.is_malformed:
            is_row = ~np.isin(np.arange(count), list(batch.is_malformed))
            columns["kind"] = pc.if_else(is_row, column_of(columns["kind"], pa.string(), count), str(Kind.MALFORMED))
            for name in ("operation", "position", "transaction_id", "record_type", "table_version"):
                texts = column_of(columns.get(name), pa.string(), count)
                columns[name] = pc.if_else(is_row, texts, pa.scalar(None, pa.string()))
        kind, operation = (column_of(columns[name], pa.string(), count) for name in ("kind", "operation"))
        header = set(self.header(names, entry.options))
        data = [place for place, name in enumerate(names) if name not in header]
        images = {} if columns.keys() >= {"before", "after"} else _images(kind, operation)
        if entry.key and wanted.needs("key") and "key" not in columns:
            places, chosen = [names.index(name) for name in entry.key if name in names], np.logical_or(*images.values())
            texts = rows.texts(places, np.flatnonzero(chosen))
            columns["key"] = maps_of([names[place] for place in places], texts, chosen & bool(places))
        for image, chosen in images.items():
            if wanted.images and wanted.needs(image) and image not in columns:
                texts = rows.texts(data, np.flatnonzero(chosen))
                columns[image] = maps_of([names[place] for place in data], texts, chosen)
        if header and "headers" not in columns and wanted.needs("headers"):
            places = [place for place, name in enumerate(names) if name in header]
            columns["headers"] = maps_of([names[at] for at in places], rows.texts(places), np.ones(count, np.bool_))
        columns["raw"] = rows.raw() if wanted.raw else None
        columns["problems"] = [*map(batch.problems.get, range(count))] if batch.problems else None
        return filled(model.EVENTS, columns, count)

    # --- typed columns ------------------------------------------------------------------------------------------------

    def table_schema(self, plan: Plan, request: TableRequest) -> pa.Schema:
        """See :meth:`cdcwb.formats.dissector.Format.table_schema`."""
        found = [one for one in plan.versions if request.name in table_names(one.table.label)]
        if not found:
            raise no_table(request, (one.table.label for one in plan.versions))
        columns = (
            (name, pa.string() if source is None else arrow_type(source))
            for version in versions_of(found, request)
            for name, source in version.types.items()
        )
        return request_schema(common_types(columns, request), request)

    def typed_part(self, plan: Plan, file: int, part: RowSegments, request: TableRequest) -> Iterator[pa.RecordBatch]:
        """The rows of one table in a part as typed columns."""
        schema, entry = self.table_schema(plan, request), plan.files[file]
        if request.name not in table_names(entry.table.label):
            return
        images, wanted = images_of(request), Wanted(images=False, columns=frozenset(schema.names))
        types = list(schema.field(images[0]).type)
        made, order = [], []
        for indices, rows in part.rows:
            events = self._of_rows(entry, file, part, indices, rows, wanted)
            columns = [_typed(rows, one) for one in types]
            arrays = [events[name] for name in schema.names if name not in images]
            for image, chosen in _images(events["kind"], events["operation"]).items():
                if image in images:
                    arrays.append(pa.StructArray.from_arrays(columns, fields=types, mask=pa.array(~chosen)))
            keep = pc.is_in(events["kind"], row_kinds())
            made.append(pa.RecordBatch.from_arrays(arrays, schema=schema).filter(keep))
            order.append(indices[as_array(keep)])
        yield from woven(made, order)

    # --- one row ------------------------------------------------------------------------------------------------------

    def inspect(self, path: str, offset: int, options: Mapping[str, Any]) -> Inspection:
        """See :meth:`cdcwb.formats.dissector.Format.inspect`. Versions are numbered by the files of the folder."""
        checked = self.parse_options(options)
        paths = self.siblings(path)
        plan = self.draft([self.probe(checked, one) for one in dict.fromkeys([*paths, path])], checked)
        entry = next(one for one in plan.files if one.path == path)
        is_parquet = entry.probe.kind == PARQUET
        count = sum(number for number, _ in entry.probe.groups) if is_parquet else entry.size
        if offset < 0 or (count and offset >= count):
            raise CaptureError(f"the file has {count} {'rows' if is_parquet else 'bytes'}", path=path, offset=offset)
        if self.examines:
            self.settle(plan, [(one, self._examined(one, at)) for at, one in enumerate(plan.files)])
        part, segment = find_part(entry.probe, offset, entry.upper, counted=entry.is_numbered)
        gap = next((one for one in part.gaps if one.index == segment), None)
        if gap is not None:
            (row,) = gap_events(part, [gap], EVERYTHING, **self._common(entry, 0, part, [gap.index])).to_pylist()
            raw, code = gap.raw or b"", None if gap.code is None else str(gap.code)
            tree, note = Field(str(gap.kind), 0, len(raw), raw, None, gap.reason, (), code), gap.reason
        else:
            indices, rows = next((indices, rows) for indices, rows in part.rows if segment in indices)
            rows = rows.take(np.flatnonzero(indices == segment))
            (row,) = self._of_rows(entry, 0, part, np.array([segment]), rows, EVERYTHING).to_pylist()
            tree, note = self.tree(entry, rows, row), self.note(plan, entry)
        event = {name: value for name, value in row.items() if value is not None}
        return Inspection(path, row["offset"], row["length"], tree.raw, tree, event, note)

    def siblings(self, path: str) -> Sequence[str]:
        """The files by which the versions of a file's table are numbered."""
        among = list_files(folders_of(path)[0])
        found = self.data_files(among)[:_SIBLINGS]
        return found if path in found else [path, *found]

    def tree(self, entry: TableFile, rows: Rows, event: Mapping[str, Any]) -> Field:
        """The field tree of one row."""
        record = event["raw"] or b""
        fields = tuple(self.field(entry, record, cell, event) for cell in cells_of(entry, rows, record))
        code = event["problems"][0]["code"] if event["problems"] else None
        return Field("row", 0, len(record), record, None, self.row_meaning(entry, event), fields, code)

    def field(self, entry: TableFile, record: bytes, cell: Cell, event: Mapping[str, Any]) -> Field:
        """One field of a row, whose event this is."""
        if cell.name in entry.columns:
            meaning = f"column {entry.columns.index(cell.name) + 1} of the table"
        else:
            meaning = self.meaning(cell.name, cell.text, entry.columns)
        return cell_field(record, cell, meaning)


# --- field trees ------------------------------------------------------------------------------------------------------


def cell_field(
    record: bytes, cell: Cell, meaning: str, parts: Sequence[TextPart] = (), problem: str | None = None
) -> Field:
    """One field of a row with its bytes, and the parts of its text."""
    raw = record[cell.start : cell.stop]
    return with_parts(Field(cell.name, cell.start, len(raw), raw, cell.text, meaning, (), problem), parts)


def problem_of(event: Mapping[str, Any], name: str) -> tuple[str | None, list[str]]:
    """The code of the first problem of a column of an event, and what follows its name in the sentences of all."""
    some = [one for one in event.get("problems") or () if one["detail"].startswith((f"{name}: ", f"{name} "))]
    return (some[0]["code"] if some else None), [one["detail"].removeprefix(f"{name}").lstrip(": ") for one in some]


# --- helpers ----------------------------------------------------------------------------------------------------------


def parts_of_rows(
    path: str, batches: Iterable[pa.RecordBatch], names: tuple[str, ...], upper: frozenset[int] = frozenset()
) -> Iterator[RowSegments]:
    """Batches of rows with their numbers (``_row``) as parts. Raises CaptureError if a column is missing."""
    for batch in batches:
        place = batch.schema.get_field_index(ROW)
        if place < 0 or batch.num_columns != len(names) + 1:
            raise CaptureError(f"expected the columns {', '.join(names)} and {ROW}", path=path)
        rows = batch.remove_column(place)
        numbers = batch.column(place).to_numpy(zero_copy_only=False).astype(np.int64)
        for first in range(0, len(rows), _BATCH):
            part = rows_of_batch(rows.slice(first, _BATCH), numbers[first : first + _BATCH], names, upper)
            part.before = None
            yield part


def _images(kind: pa.StringArray, operation: pa.StringArray) -> dict[str, Bools]:
    """Which rows are before images, and which are after images."""
    is_row = as_array(pc.is_in(kind, row_kinds()))
    before = pc.or_(pc.equal(kind, str(Kind.BEFORE)), pc.equal(operation, str(Operation.DELETE)))
    is_before = is_row & as_array(before)
    none = as_array(pc.is_in(operation, pa.array([str(Operation.TRUNCATE), str(Operation.DDL)])))
    return {"before": is_before, "after": is_row & ~is_before & ~none}


def cells_of(entry: TableFile, rows: Rows, record: bytes) -> list[Cell]:
    """The fields of a row; without bytes if the file is not text."""
    names = rows.names
    if not record:
        return [Cell(name, 0, 0, rows.text(place)[0].as_py()) for place, name in enumerate(names)]
    return cut_record(entry.probe, record, names)


def _garbled(rows: Rows, place: int, charset: str, row: int) -> str:
    digits = rows.text(place)[row].as_py()
    shown = digits if len(digits) <= _SHOWN else f"{digits[:_SHOWN]}…"
    return f"column {visible(rows.names[place], 60)}: expected text in {charset}, found bytes {shown}"


def file_problem(entry: TableFile) -> dict[str, Any]:
    """The row of ``problems`` about a file that is damaged or cut off."""
    code = Problem.MALFORMED if entry.probe.kind == BROKEN else Problem.TRUNCATED
    return problem_row(code, entry.problem or "", file=entry.path)


def parts_of_range(plan: Plan, split: Split) -> Iterator[RowSegments]:
    """The segments of a range of a file, with the number of rows that precede them."""
    entry = plan.files[split.file]
    return numbered_parts(read_parts(entry.probe, split.start, split.stop, entry.upper), split.before)


def batch_of(entry: TableFile, part: RowSegments, indices: Ints, rows: Rows, wanted: Wanted) -> RowBatch:
    """Rows of a part."""
    return (
        RowBatch(rows, entry, wanted, part.numbers()[indices]) if entry.is_numbered else RowBatch(rows, entry, wanted)
    )


def arrow_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column as Spark has it; text for others."""
    if pa.types.is_unsigned_integer(kind):
        return _WIDER[kind.bit_width]
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    numbers = pa.types.is_signed_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)
    others = pa.types.is_boolean(kind) or pa.types.is_binary(kind) or pa.types.is_date32(kind)
    return kind if numbers or others or (pa.types.is_decimal(kind) and kind.precision <= 38) else pa.string()


def _typed(rows: Rows, one: pa.Field) -> pa.Array:
    """A column of rows as a type; null for a value that is not one, and if the rows lack it."""
    if one.name not in rows.names:
        return pa.nulls(len(rows.offset), one.type)
    place = rows.names.index(one.name)
    content = plain(rows.content(place))
    found = None if pa.types.is_string(content.type) or pa.types.is_string(one.type) else cast(content, one.type)
    if found is not None:
        return found
    texts, garbled = rows.text(place), rows.garbled(place)
    if len(garbled) and not pa.types.is_string(one.type):  # digits of bytes that are not text
        texts = pc.if_else(np.isin(np.arange(len(texts)), garbled), pa.scalar(None, pa.string()), texts)
    return parsed(texts, one.type)
