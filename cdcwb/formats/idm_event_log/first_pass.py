"""From files to a plan: what each holds, which column is which, where it can be split, and which tables it tells of.

The work over the bytes is handed to ``run``, which maps a function over tasks: in Spark for ``load``, in this process
for small things and for the data source on its own.
"""

from __future__ import annotations

import pickle
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import CaptureError
from cdcwb.formats.dissector import ROW, Run, RunRows, detected_row, problem_row, run_here
from cdcwb.formats.files import open_source
from cdcwb.formats.idm_event_log.changes import NEAR, OBJECT, TYPES
from cdcwb.formats.idm_event_log.columns import Assignment, Options, assign
from cdcwb.formats.idm_event_log.decode import LogPart, log_part, sql_segments
from cdcwb.formats.idm_event_log.decode.keys import parse_column
from cdcwb.formats.idm_event_log.decode.sql import find_begin
from cdcwb.formats.idm_event_log.decode.values import Bools, numbers_of
from cdcwb.formats.idm_event_log.detect import Probe, null_texts_of, probe
from cdcwb.formats.idm_event_log.events import PER_FIELD, lacking, missing, one_of, split_name
from cdcwb.formats.idm_event_log.layout import EVENT_TYPES
from cdcwb.formats.idm_event_log.plan import ROWS, SQL, FileRange, LogFile, Plan, SplitEntry, TableEntry
from cdcwb.formats.tabular.file import EVERYTHING, FileProbe, Names
from cdcwb.formats.tabular.format import parts_of_rows
from cdcwb.formats.tabular.parts import text_rows
from cdcwb.formats.tabular.splits import Scan, Stretch, cut, fail_fast, read_stretch, scan_all
from cdcwb.model import Problem
from cdcwb.words import joined, plural, unique_names

__all__ = ["make_plan", "make_row_plan", "plan_beginning"]

SCANNED: Final = frozenset({"record_id", "event_type", "column_name", *OBJECT})
"""The columns that the first pass looks at."""

_KEYS: Final = 20  # keys of a table that are parsed in a stretch, for the names of its key columns
_MOST_TABLES: Final = 10_000
_MOST_COLUMNS: Final = 10_000
_TYPES: Final = pa.array(TYPES)
_OPERATIONS: Final = pa.array([str(EVENT_TYPES[number].operation) for number in PER_FIELD])


@dataclass(slots=True)
class Seen:
    """What rows say. ``columns`` and ``keys``: table as written -> names in the order in which they were met.
    ``lowest`` and ``highest``: of the usable record_ids (0: none); ``behind``: by how much one is at most lower than
    one before it (0: they never fall).

    ``first`` and ``last``: numbers of the statements of the rows with the lowest and the highest one; 0: a row by
    itself. ``other``: the highest one of the rows that are not of the last statement (0: none)."""

    columns: dict[str, dict[str, None]] = field(default_factory=dict)
    keys: dict[str, dict[str, None]] = field(default_factory=dict)
    parsed: dict[str, int] = field(default_factory=dict)
    lowest: int = 0
    highest: int = 0
    behind: int = 0
    first: int = 0
    last: int = 0
    other: int = 0

    def take(self, log: pa.RecordBatch) -> None:
        """More rows, which stand behind those before."""
        if not log.num_rows:
            return
        self._order(log)
        tables = log.column("table_name").dictionary_encode()
        self._columns(log, tables)
        self._keys(log, tables)

    def follow(self, count: int) -> None:
        """Adds the number of records that precede them to record_ids that are numbers of rows."""
        if self.lowest:
            self.lowest, self.highest = self.lowest + count, self.highest + count
            self.other += count if self.other else 0

    def add(self, other: Seen) -> None:
        """What the other says too, whose rows follow these."""
        self._add_order(other)
        for mine, others in ((self.columns, other.columns), (self.keys, other.keys)):
            for table, names in others.items():
                _table(mine, table).update(names)

    def _add_order(self, other: Seen) -> None:
        if not other.lowest:
            return
        self.behind = max(self.behind, other.behind, self.highest - other.lowest)
        if not other.last or other.last != self.last:
            self.other = max(self.other, min(other.highest, self.highest))
        self.other = max(self.other, other.other)
        if not self.lowest or other.lowest < self.lowest:
            self.lowest, self.first = other.lowest, other.first
        if other.highest >= self.highest:
            self.highest, self.last = other.highest, other.last

    def _order(self, log: pa.RecordBatch) -> None:
        """What the record_ids say, and which rows share a statement, by the rules of
        :func:`cdcwb.formats.idm_event_log.changes.keys_of_rows`."""
        numbers = pc.fill_null(numbers_of(log.column("record_id")), 0).to_numpy()
        usable = numbers[numbers > 0]
        if not len(usable):
            return
        lowest, highest = int(usable.min()), int(usable.max())
        operation = _OPERATIONS.take(pc.index_in(log.column("event_type"), _TYPES))
        columns = [operation, *(log.column(name) for name in OBJECT)]
        joins = pc.is_valid(operation).to_numpy(zero_copy_only=False) & ~lacking(log.column("column_name"))
        for needed in columns[1:3]:
            joins &= pc.is_valid(needed).to_numpy(zero_copy_only=False)
        at_lowest = int(np.argmax(numbers == lowest))
        at_highest = len(numbers) - 1 - int(np.argmax(numbers[::-1] == highest))
        first, last = (_statement(columns, at) if joins[at] else 0 for at in (at_lowest, at_highest))
        same = np.arange(len(numbers)) == at_highest
        if last:
            same = joins
            for column in columns:
                same = same & _equal(column, at_highest)
        other = int(numbers[~same].max(initial=0))
        behind = int((np.maximum.accumulate(usable) - usable).max())
        self._add_order(Seen(lowest=lowest, highest=highest, behind=behind, first=first, last=last, other=other))

    def _columns(self, log: pa.RecordBatch, tables: pa.DictionaryArray) -> None:
        per_field = pa.array(one_of(numbers_of(log.column("event_type")), PER_FIELD))
        pairs = pa.table({"table": tables, "column": log.column("column_name")}).filter(per_field)
        for name in tables.dictionary.to_pylist():
            if name:
                _table(self.columns, name)
        found = pairs.combine_chunks().group_by(["table", "column"], use_threads=False).aggregate([])
        for table, name in zip(found.column("table").to_pylist(), found.column("column").to_pylist(), strict=True):
            known = _table(self.columns, table) if table else {}
            if name and len(known) < _MOST_COLUMNS:
                known[name] = None

    def _keys(self, log: pa.RecordBatch, tables: pa.DictionaryArray) -> None:
        codes = pc.fill_null(tables.indices, -1).to_numpy(zero_copy_only=False)
        order = np.argsort(codes, kind="stable")
        begins = np.searchsorted(codes[order], np.arange(len(tables.dictionary)))
        chosen: list[tuple[str, int]] = []
        for code, table in enumerate(tables.dictionary.to_pylist()):
            left = _KEYS - self.parsed.get(table, 0)
            if table and left > 0:
                rows = order[begins[code] : begins[code] + left]
                chosen += [(table, row) for row in rows[codes[rows] == code].tolist()]
        keys = log.column("table_key").take(pa.array([row for _, row in chosen], pa.int64()))
        for (table, _), pairs in zip(chosen, parse_column(keys).pairs.to_pylist(), strict=True):
            if pairs is not None:
                self.parsed[table] = self.parsed.get(table, 0) + 1
                known = _table(self.keys, table)
                folded = {name.casefold() for name in known}
                known.update({name: None for name, _ in pairs if name.casefold() not in folded})


def _statement(columns: Sequence[pa.Array], row: int) -> int:
    """A number that rows of one statement share in all processes."""
    values = repr([column[row].as_py() for column in columns])
    return int.from_bytes(blake2b(values.encode(), digest_size=7).digest()) or 1


def _equal(column: pa.Array, row: int) -> Bools:
    """The rows whose text, or NULL, is that of a row."""
    value = column[row]
    equal = pc.fill_null(pc.equal(column, value), False) if value.is_valid else pc.is_null(column)
    found: Bools = equal.to_numpy(zero_copy_only=False)
    return found


def _table(tables: dict[str, dict[str, None]], name: str) -> dict[str, None]:
    if name not in tables and len(tables) >= _MOST_TABLES:
        return {}
    return tables.setdefault(name, {})


@dataclass(slots=True)
class LogScan(Scan):
    """What a stretch holds, damaged rows too, and what its rows say."""

    seen: Seen = field(default_factory=Seen)

    def take(self, log: LogPart) -> None:
        """One more part."""
        self.rows += log.records
        self.seen.take(log.log)
        self.take_gaps(log.part)


def scan(stretch: Stretch) -> LogScan:
    """The first pass over a stretch of a :class:`~cdcwb.formats.idm_event_log.plan.LogFile`."""
    entry: Any = stretch.entry
    found = LogScan(0, 0)
    if stretch.file.kind != SQL:
        for part in read_stretch(stretch, found, Names(stretch.file.columns), Names):
            found.take(log_part(entry, part, found.rows, only=SCANNED))
        return found
    with closing(open_source(stretch.file.path, "binary", size=entry.size)) as source:
        begin = stretch.begin
        if begin is None:
            before = max(stretch.start - 1, 0)
            begin = find_begin(source.view(before, stretch.stop), stretch.start)
            if begin >= stretch.stop:
                begin = find_begin(source.view(before, source.length), stretch.start)
        found = LogScan(begin, begin, size=source.length, problem=source.problem)
        for part, _ in sql_segments(source, entry, begin, stretch.stop, SCANNED):
            found.take(log_part(entry, part, found.rows, only=SCANNED))
            found.end = int(part.offset[-1] + part.length[-1])
    return found


# --- a plan from what was found ---------------------------------------------------------------------------------------

_NAMED: Final = 3  # files that a sentence names
_FILLED: Final = {
    "record_id": ("record_id is the number of the row", "no such column; rows are numbered from 1 in capture order"),
    "status": ("status is N", "no such column; all rows are processed as new"),
}


class Draft:
    """Puts a plan together. Raises CaptureError for a file with rows whose columns cannot be told."""

    def __init__(self, options: Options, probes: Sequence[Probe]) -> None:
        self.options = options
        self.probes = probes
        for one in probes:
            if not one.labels and one.file.sample:
                raise CaptureError(
                    f"{one.assignment.evidence}; assign the columns with the option columns", path=one.file.path
                )

    def entries(self) -> list[LogFile]:
        """The files."""
        return [
            LogFile(
                probe=one.file.without_rows(),
                labels=one.labels,
                null_text=one.null_text,
                size=one.file.size,
                problem=one.file.problem,
            )
            for one in self.probes
        ]

    def plan(self, entries: list[LogFile], splits: list[SplitEntry], seen: Seen) -> Plan:
        """The plan, but for its facts."""
        tables = self._tables(seen)
        options = self.options
        problems = self._problems(entries)
        return Plan(entries, splits, tables, options.charset, options.zone, options.schema, self._detected(), problems)

    # --- tables -------------------------------------------------------------------------------------------------------

    def _tables(self, seen: Seen) -> list[TableEntry]:
        found: dict[tuple[str | None, str], TableEntry] = {}
        for written in dict.fromkeys([*seen.columns, *seen.keys]):
            schema, table = split_name(written, self.options.schema)
            if table is None:
                continue
            entry = found.setdefault((schema, table), TableEntry(schema, table))
            entry.keys = list(dict.fromkeys([*entry.keys, *seen.keys.get(written, ())]))
            entry.columns = list(dict.fromkeys([*entry.columns, *seen.columns.get(written, ())]))
        return list(found.values())

    # --- what was detected --------------------------------------------------------------------------------------------

    def _detected(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        self._add(
            rows,
            "columns",
            ((_shown(one), one.assignment.evidence, one.assignment.how == "option", one) for one in self.probes),
        )
        for name, (value, why) in _FILLED.items():
            lacking = [one for one in self.probes if one.labels and name not in one.labels]
            self._add(rows, "columns", ((value, why, False, one) for one in lacking))
        self._add(
            rows,
            "null_text",
            (
                (
                    null_texts_of(one),
                    one.null_from or "the default; no evidence against it",
                    self.options.null_text is not None,
                    one,
                )
                for one in self.probes
                if one.file.kind in ("csv", "excel") or one.null_text
            ),
        )
        for setting in ("delimiter", "header", "sheet", "sql_table", "backslash"):
            told = (
                (value, why, given, one)
                for one in self.probes
                for name, value, why, given in one.settings
                if name == setting
            )
            self._add(rows, setting, told)
        given = self.options.given
        self._say(rows, "charset", self.options.charset, "the files do not give it; assumed", "charset" in given)
        zone = "event_time has no zone; assumed for values without one"
        self._say(rows, "time_zone", self.options.zone, zone, "time_zone" in given)
        schema = "tables without a schema in their name have none"
        self._say(rows, "schema", self.options.schema or "none", schema, "schema" in given)
        return rows

    @staticmethod
    def _say(rows: list[dict[str, Any]], setting: str, value: str, why: str, given: bool) -> None:
        rows.append(detected_row(setting, value, "given as an option" if given else why, given))

    @staticmethod
    def _add(rows: list[dict[str, Any]], setting: str, told: Iterable[tuple[str, str, bool, Probe]]) -> None:
        """One row for all files of which the same was concluded."""
        found: dict[tuple[str, str, bool], list[str]] = {}
        for value, why, given, one in told:
            found.setdefault((value, why, given), []).append(one.file.path)
        for (value, why, given), paths in found.items():
            rows.append(detected_row(setting, value, f"{why} ({_files(paths)})", given))

    # --- problems -----------------------------------------------------------------------------------------------------

    def _problems(self, entries: Sequence[LogFile]) -> list[dict[str, Any]]:
        rows = []
        for entry in entries:
            path = entry.path
            if entry.problem:
                code = Problem.MALFORMED if entry.probe.kind == "broken" else Problem.TRUNCATED
                rows.append(problem_row(code, entry.problem, file=path))
            if entry.labels:
                rows += [problem_row(code, sentence, file=path) for code, sentence in missing(entry.absent)]
        return rows


def _shown(one: Probe) -> str:
    """Which column is which, in the order of the source."""
    if not one.labels:
        return "none"
    back = {label: name for name, label in one.labels.items()}
    if one.assignment.how == "names" and all(name == label.casefold() for label, name in back.items()):
        return joined(list(back.values()))
    columns = [label for label in one.file.columns if label in back]
    return ", ".join(f"{back[label]}={label}" for label in columns or back)


def _files(paths: Sequence[str]) -> str:
    names = joined([Path(path).name for path in paths[:_NAMED]])
    return names if len(paths) <= _NAMED else f"{names} and {plural(len(paths) - _NAMED, 'more file')}"


# --- files ------------------------------------------------------------------------------------------------------------

_SAMPLE: Final = 200
_MANY_FILES: Final = 64
_TOGETHER: Final = 1 << 20  # bytes of small files that are one split
_CUT: Final = ("csv", SQL)  # kinds of files that are cut between records, wherever these begin


def make_plan(paths: Sequence[str], options: Options, run: Run = run_here) -> Plan:
    """The plan of a capture. ``paths`` are its files in capture order.

    Raises CaptureError for files that cannot be read or whose columns cannot be told, and in mode FAILFAST for the
    first bytes that are no row.
    """
    probes: list[Probe] = run(probe, [(path, options, False) for path in paths])
    draft = Draft(options, probes)
    entries = draft.entries()
    stretches = cut(entries, options.split_size, _CUT)
    scans: list[LogScan] = scan_all(stretches, scan, run, _CUT)
    seen = Seen()
    before = 0
    ranges: list[FileRange] = []
    seen_in: list[Seen] = []
    rows: dict[int, int] = {}
    for stretch, found in zip(stretches, scans, strict=True):
        entry = entries[stretch.index]
        entry.size = found.size or entry.size
        entry.problem = entry.problem or found.problem
        if "record_id" not in entry.labels:
            found.seen.follow(before)
        is_cut = stretch.file.kind in _CUT and stretch.start > 0
        start = found.begin if is_cut else stretch.start
        if start < stretch.stop and (stretch.stop < EVERYTHING or entry.size or entry.probe.compression):
            ranges.append(FileRange(stretch.index, start, stretch.stop, before))
            seen_in.append(found.seen)
        rows[stretch.index] = rows.get(stretch.index, 0) + found.rows + found.filler
        before += found.rows
        seen.add(found.seen)
    for index, number in rows.items():
        entries[index].rows = number
    splits, seen_in = _grouped(entries, ranges, seen_in, min(_TOGETHER, options.split_size))
    if seen.behind <= NEAR:
        splits = with_neighbours(splits, seen_in)
    plan = draft.plan(entries, splits, seen)
    plan.facts = {"bytes": sum(entry.size for entry in entries), "records": before, "behind": seen.behind}
    if options.mode == "FAILFAST":
        fail_fast(stretches, scans)
    return plan


def _grouped(
    entries: Sequence[LogFile], ranges: Sequence[FileRange], seen: Sequence[Seen], room: int
) -> tuple[list[SplitEntry], list[Seen]]:
    """The splits, and what the rows of each say. Of many files, small ones that follow each other are one split of at
    most ``room`` bytes: it costs more to read a batch than its few rows."""
    groups: list[list[FileRange]] = []
    seen_in: list[Seen] = []
    left = 0
    for one, said in zip(ranges, seen, strict=True):
        size = entries[one.file].size
        is_complete = one.start == 0 and one.stop >= size
        if len(entries) > _MANY_FILES and is_complete and size <= left:
            left -= size
        else:
            groups.append([])
            seen_in.append(Seen())
            left = room - size if is_complete else 0
        groups[-1].append(one)
        seen_in[-1].add(said)
    return [SplitEntry(tuple(some)) for some in groups], seen_in


def with_neighbours(splits: Sequence[SplitEntry], seen: Sequence[Seen]) -> list[SplitEntry]:
    """The splits with their record_ids, and with the splits that are read together with each. ``seen``: what the rows
    of each say."""
    tops = [*accumulate((one.highest for one in seen), max)]
    above = [0, *tops]
    holders = [at for at, top in enumerate(tops) if top > above[at]]  # the splits that have record_ids
    highest = [tops[at] for at in holders]
    late: list[list[SplitEntry]] = [[] for _ in splits]
    for at, one in enumerate(seen):
        place = bisect_left(highest, one.lowest) if one.lowest else len(holders)
        while place < len(holders) and holders[place] < at:
            late[holders[place]].append(splits[at])
            place = len(holders) if highest[place] >= one.highest else place + 1
    begins = [False] * len(splits)
    for before, at in pairwise([-1, *holders]):
        first, last = seen[at].first, seen[before].last if before >= 0 else 0
        is_known = seen[at].lowest > above[at] and not late[at] and not (before >= 0 and late[before])
        begins[at] = before < 0 or (is_known and (first != last or not first))
    found = [
        replace(split, above=above[at], highest=tops[at], begins=begins[at], late=tuple(late[at]))
        for at, split in enumerate(splits)
    ]
    following: list[SplitEntry] = []
    for at in reversed(holders):  # a row of another statement above ``above``: one begins there, whatever is between
        has_begin = seen[at].other > above[at]
        alone = found[at]
        if begins[at] or has_begin or late[at]:
            found[at] = replace(alone, following=tuple(reversed(following)))
        following = [] if begins[at] else [alone] if has_begin else [*following, alone]
    return found


def plan_beginning(path: str, options: Options) -> Plan:
    """A plan of one file of which only the beginning was looked at, for looking at single rows."""
    draft = Draft(options, [probe((path, options, False))])
    return draft.plan(draft.entries(), [], Seen())


# --- tables of rows ---------------------------------------------------------------------------------------------------


def make_row_plan(name: str, schema: pa.Schema, options: Options, run: RunRows) -> Plan:
    """The plan of a table of rows that is called ``name``. Raises CaptureError for one whose columns cannot be told."""
    names = [one.name for one in schema if one.name != ROW]
    labels = unique_names(names)
    file = FileProbe(name, ROWS, labels, len(labels))
    found = assign(labels, True, (), options) if options.sorted_by is None else _NOTHING
    if found.how == "nothing" and labels:
        samples = [pickle.loads(one) for one in run(partial(_sampled, path=name, layout=Names(labels)))]
        found = assign(labels, True, [row for some in samples for row in some][:_SAMPLE], options)
    places = {one: labels[place] for one, place in found.places.items()}
    null_text = options.null_text or ""
    said = Probe(file, found, places, null_text, "given as an option" if null_text else "")
    draft = Draft(options, [said])
    entries = draft.entries()
    if not places:
        raise CaptureError(f"{found.evidence}; assign the columns with the option columns", path=name)
    looks: list[LogScan] = [pickle.loads(one) for one in run(partial(_looked, entry=entries[0]))]
    seen = Seen()
    for one in looks:
        seen.add(one.seen)
    entries[0].rows = sum(one.rows for one in looks)
    plan = draft.plan(entries, [], seen)
    plan.facts = {"records": entries[0].rows, "behind": seen.behind}
    return plan


_NOTHING: Final = Assignment({}, "nothing", "", 0.0)


def _sampled(batches: Iterator[pa.RecordBatch], path: str, layout: Names) -> bytes:
    found: list[tuple[str | None, ...]] = []
    for part in parts_of_rows(path, (batch.slice(0, _SAMPLE) for batch in batches), layout):
        texts = text_rows(part, layout.names)
        if texts is not None:
            found += zip(*(column.to_pylist() for column in texts.columns), strict=True)
        if len(found) >= _SAMPLE:
            break
    return pickle.dumps(found)


def _looked(batches: Iterator[pa.RecordBatch], entry: LogFile) -> bytes:
    found = LogScan(0, 0)
    for part in parts_of_rows(entry.path, batches, Names(entry.probe.columns)):
        found.take(log_part(entry, part, 0, only=SCANNED))
    return pickle.dumps(found)
