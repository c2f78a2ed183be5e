"""From files to a plan: what each holds, which column is which, where it can be split, and which tables it names.

The work over the bytes is handed to ``run``, which maps a function over tasks: in Spark for ``load``, in this process
for small things and for the data source on its own.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.errors import CaptureError
from cdcwb.formats.dissector import ROW, Run, RunRows, detected_row, problem_row, run_here
from cdcwb.formats.idm_event_log.changes import NEAR, OBJECT
from cdcwb.formats.idm_event_log.columns import Assignment, Options, assign
from cdcwb.formats.idm_event_log.decode import LogPart, log_part
from cdcwb.formats.idm_event_log.detect import Probe, probe, settings_of
from cdcwb.formats.idm_event_log.events import PER_FIELD, missing, one_of, split_name
from cdcwb.formats.idm_event_log.keys import parse_column
from cdcwb.formats.idm_event_log.layout import EVENT_TYPES
from cdcwb.formats.idm_event_log.plan import ROWS, FileRange, LogFile, Plan, TableEntry
from cdcwb.formats.idm_event_log.values import numbers_of
from cdcwb.formats.tabular.detected import GIVEN, detected_rows
from cdcwb.formats.tabular.file import CSV, EVERYTHING, SQL, FileProbe
from cdcwb.formats.tabular.format import parts_of_rows
from cdcwb.formats.tabular.parts import text_rows
from cdcwb.formats.tabular.splits import Scan, Stretch, cut, fail_fast, read_stretch, scan_all
from cdcwb.model import Problem
from cdcwb.words import joined, unique_names

__all__ = ["make_plan", "make_row_plan", "plan_beginning"]

SCANNED: Final = frozenset({"record_id", "event_type", "column_name", *OBJECT})
"""The columns that the first pass looks at."""

_OPERATIONS: Final = {str(number): str(EVENT_TYPES[number].operation) for number in PER_FIELD}


# --- the order of record ids ------------------------------------------------------------------------------------------


class Cut(NamedTuple):
    """A row before which a stretch can be cut: all record ids from there on are higher than those before, and a
    statement begins. ``records``: so many precede it in the stretch. ``highest`` and ``last``: the highest record_id
    before it, and the number of that row's statement (0: alone); ``lowest`` and ``first``: the lowest one from there
    on, and likewise."""

    offset: int
    records: int
    highest: int
    last: int
    lowest: int
    first: int


@dataclass(slots=True)
class Order:
    """The usable record_ids of the rows of a stretch. ``behind``: by how much one is at most lower than one before it
    (0: they never fall); the other fields, and ``cuts``, are as in :class:`Cut`; 0 without any."""

    highest: int = 0
    last: int = 0
    lowest: int = 0
    first: int = 0
    behind: int = 0
    cuts: list[Cut] = field(default_factory=list)

    def take(self, log: LogPart) -> None:
        """Adds rows, which follow those before."""
        numbers = pc.fill_null(numbers_of(log.log.column("record_id")), 0).to_numpy()
        rows = np.flatnonzero(numbers > 0)
        if not len(rows):
            return
        ids = numbers[rows]
        top = np.maximum.accumulate(np.append(self.highest, ids))
        low = np.minimum.accumulate(ids[::-1])[::-1]
        lowest, first = int(low[0]), _statement(log.log, rows[np.argmin(ids)])
        cuts = [one if one.lowest < lowest else one._replace(lowest=lowest, first=first) for one in self.cuts]
        for at in _some(np.flatnonzero((low > top[:-1]) & (top[:-1] > 0))):
            highest, row = int(top[at]), rows[at + int(np.argmin(ids[at:]))]
            last = (
                self.last if highest == self.highest else _statement(log.log, rows[int(np.argmax(ids[:at] == highest))])
            )
            place = int(log.rows.offset[rows[at]]), int(log.numbers[rows[at]]) - 1
            cuts.append(Cut(*place, highest, last, int(low[at]), _statement(log.log, row)))
        self.cuts = [one for one in cuts if one.lowest > one.highest and _differ(one.last, one.first)]
        self.behind = max(self.behind, int((top[:-1] - ids).max()))
        if not self.lowest or lowest < self.lowest:
            self.lowest, self.first = lowest, first
        if top[-1] > self.highest:
            self.highest = int(top[-1])
            self.last = _statement(log.log, rows[np.argmax(ids)])

    def shifted(self, count: int) -> Order:
        """The same if record_ids are the numbers of rows, which so many precede."""
        if not self.lowest:
            return self
        cuts = [one._replace(highest=one.highest + count, lowest=one.lowest + count) for one in self.cuts]
        return replace(self, lowest=self.lowest + count, highest=self.highest + count, cuts=cuts)


_CUTS: Final = 4  # of a part


def _some(places: Any) -> list[int]:
    """A few of many places, from the first on."""
    found: list[int] = places[:: max(1, len(places) // _CUTS)].tolist()
    return found


def _statement(log: pa.RecordBatch, row: Any) -> int:
    """A number that rows of one statement share in all processes; 0: a row that belongs to no other
    (:func:`cdcwb.formats.idm_event_log.changes.keys_of_rows`)."""
    operation, column, *values = (log.column(name)[int(row)].as_py() for name in ("event_type", "column_name", *OBJECT))
    if operation not in _OPERATIONS or not column or None in values[:2]:
        return 0
    return int.from_bytes(blake2b(repr([_OPERATIONS[operation], *values]).encode(), digest_size=7).digest()) or 1


def _differ(last: int, first: int) -> bool:
    return last != first or not first


def splits_of(ranges: Sequence[FileRange], orders: Sequence[Order], size: int) -> list[list[FileRange]]:
    """The splits of ranges of records with these record_ids. Where a range cannot be cut, it is read with those before
    it. It is cut at its begin if it can be, otherwise after ``size`` bytes: what is cut elsewhere is decoded again when
    files are appended."""
    following = [*accumulate((one.lowest or EVERYTHING for one in reversed(orders)), min)][::-1]
    splits: list[list[FileRange]] = []
    highest = last = holder = 0  # the highest record_id, its statement, and its split
    for one, order, after in zip(ranges, orders, [*following[1:], EVERYTHING], strict=False):
        cuts = [Cut(one.start, 0, 0, 0, order.lowest or EVERYTHING, order.first), *order.cuts]
        before = sum(part.stop - part.start for split in splits[holder:] for part in split)
        good = (each for each in cuts if _can_cut(each, highest, last, after))
        least = one.start + size - before
        place = next((each for each in good if each.offset == one.start or each.offset >= least), None)
        if place is None or place.offset > one.start:
            splits[holder:] = [[part for split in splits[holder:] for part in split]]
            head = one if place is None else replace(one, stop=place.offset)
            splits[-1].append(head)
        if place is not None:
            start = max(place.offset, one.start)
            splits.append([replace(one, start=start, before=one.before + place.records)])
        if order.highest > highest:
            highest, last, holder = order.highest, order.last, len(splits) - 1
    return splits


def _can_cut(cut: Cut, highest: int, last: int, after: int) -> bool:
    """Whether the capture can be cut at a row. ``highest``: the highest record_id before its stretch, ``last``: the
    statement of that row; ``after``: the lowest record_id after its stretch."""
    if cut.highest < highest:
        cut = cut._replace(highest=highest, last=last)
    lowest = min(cut.lowest, after)
    return lowest > cut.highest and (lowest == EVERYTHING or lowest < after) and _differ(cut.last, cut.first)


# --- tables -----------------------------------------------------------------------------------------------------------

_KEYS: Final = 20  # first keys of a table that give the names of its key columns
_MOST_TABLES: Final = 10_000
_MOST_COLUMNS: Final = 10_000

_Names = dict[str, dict[str, None]]


@dataclass(slots=True)
class Tables:
    """The tables that rows name: table as written -> its columns in the order in which they were met, and the names in
    its first keys."""

    columns: _Names = field(default_factory=dict)
    keys: dict[str, list[list[str]]] = field(default_factory=dict)

    def take(self, log: pa.RecordBatch) -> None:
        """Adds rows."""
        tables = log.column("table_name").dictionary_encode()
        names = tables.dictionary.to_pylist()
        for table in filter(None, names):
            _entry(self.columns, table)
        per_field = pa.array(one_of(numbers_of(log.column("event_type")), PER_FIELD))
        pairs = pa.RecordBatch.from_arrays([tables, log.column("column_name")], ["table", "column"]).filter(per_field)
        texts = pc.binary_join_element_wise(*(one.cast(pa.string()) for one in pairs), "\0").dictionary_encode()
        for table, column in (text.split("\0", 1) for text in texts.dictionary.to_pylist() if text):
            known = _entry(self.columns, table) if table else {}
            if column and len(known) < _MOST_COLUMNS:
                known[column] = None
        codes = pc.fill_null(tables.indices, -1).to_numpy(zero_copy_only=False)
        left = {code: _KEYS - len(self.keys.get(table, ())) for code, table in enumerate(names) if table}
        rows = [row for code, some in left.items() if some > 0 for row in np.flatnonzero(codes == code)[:some].tolist()]
        keys = parse_column(log.column("table_key").take(pa.array(rows, pa.int64()))).pairs.to_pylist()
        for row, pairs_of_key in zip(rows, keys, strict=True):
            table = names[codes[row]]
            if table in self.keys or len(self.keys) < _MOST_TABLES:
                self.keys.setdefault(table, []).append([name for name, _ in pairs_of_key or ()])

    def add(self, other: Tables) -> None:
        """Adds what later rows name."""
        for table, names in other.columns.items():
            _entry(self.columns, table).update(names)
        for table, keys in other.keys.items():
            if table in self.keys or len(self.keys) < _MOST_TABLES:
                self.keys[table] = [*self.keys.get(table, ()), *keys][:_KEYS]

    def entries(self, default: str | None) -> list[TableEntry]:
        """The tables; those that are named without a schema are in ``default``."""
        found: dict[tuple[str | None, str], TableEntry] = {}
        for written in dict.fromkeys([*self.columns, *self.keys]):
            schema, table = split_name(written, default)
            if table is not None:
                entry = found.setdefault((schema, table), TableEntry(schema, table))
                names = [name for key in self.keys.get(written, ()) for name in key]
                folded = {one.casefold(): one for one in reversed([*entry.keys, *names])}
                entry.keys = [one for one in dict.fromkeys([*entry.keys, *names]) if folded[one.casefold()] == one]
                entry.columns = list(dict.fromkeys([*entry.columns, *self.columns.get(written, ())]))
        return list(found.values())


def _entry(tables: _Names, name: str) -> dict[str, None]:
    if name not in tables and len(tables) >= _MOST_TABLES:
        return {}
    return tables.setdefault(name, {})


# --- the pass ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class LogScan(Scan):
    """What a stretch holds, damaged rows too, and what its rows show."""

    order: Order = field(default_factory=Order)
    tables: Tables = field(default_factory=Tables)

    def take(self, log: LogPart) -> None:
        """Adds a part."""
        self.rows += log.records
        if log.log.num_rows:
            self.order.take(log)
            self.tables.take(log.log)
        self.take_gaps(log.part)


def scan(stretch: Stretch) -> LogScan:
    """The first pass over a stretch of a :class:`~cdcwb.formats.idm_event_log.plan.LogFile`."""
    entry: Any = stretch.entry
    found = LogScan(0, 0)
    for part in read_stretch(stretch, found):
        found.take(log_part(entry, part, found.rows, only=SCANNED))
    can_cut = stretch.file.kind == CSV or stretch.file.settings.get("kind") == "lines"
    if not can_cut or stretch.file.compression is not None:
        found.order.cuts = []
    return found


_SAMPLE: Final = 200
_MANY_FILES: Final = 64
_TOGETHER: Final = 1 << 20  # bytes of small files that are one split


def make_plan(paths: Sequence[str], options: Options, run: Run = run_here) -> Plan:
    """The plan of a capture. ``paths`` are its files in capture order.

    Raises CaptureError for files that cannot be read or whose columns are unknown, and in mode FAILFAST for the
    first bytes that are not a row.
    """
    probes: list[Probe] = run(probe, [(path, options, False) for path in paths])
    plan = _draft(probes, options)
    stretches = cut(plan.files, options.split_size)
    scans: list[LogScan] = scan_all(stretches, scan, run)
    tables, orders, ranges = Tables(), list[Order](), list[FileRange]()
    before = highest = behind = 0
    for stretch, found in zip(stretches, scans, strict=True):
        entry = plan.files[stretch.index]
        entry.size, entry.problem = found.size or entry.size, entry.problem or found.problem
        entry.rows = (entry.rows or 0) + found.rows + found.filler
        order = found.order if "record_id" in entry.labels else found.order.shifted(before)
        behind = max(behind, order.behind, highest - order.lowest if order.lowest else 0)
        highest = max(highest, order.highest)
        is_cut = stretch.file.kind in (CSV, SQL) and stretch.start > 0
        start = found.begin if is_cut else stretch.start
        if start < stretch.stop and (stretch.stop < EVERYTHING or entry.size or entry.probe.compression):
            ranges.append(FileRange(stretch.index, start, stretch.stop, before))
            orders.append(order)
        before += found.rows
        tables.add(found.tables)
    plan.facts = {"bytes": sum(entry.size for entry in plan.files), "records": before, "behind": behind}
    if behind <= NEAR:
        plan.splits = splits_of(ranges, orders, options.split_size)
    else:  # a small log is put in order in memory, another one by Spark
        plan.splits = [ranges] if plan.facts["bytes"] <= options.split_size else [[one] for one in ranges]
    plan.splits = _grouped(plan, min(_TOGETHER, options.split_size))
    plan.versions = tables.entries(options.schema)
    plan.problems += [
        problem_row(Problem.TRUNCATED, entry.problem, file=entry.path)
        for entry, one in zip(plan.files, probes, strict=True)
        if entry.problem and not one.file.problem
    ]
    if options.mode == "FAILFAST":
        fail_fast(stretches, scans)
    return plan


def _grouped(plan: Plan, room: int) -> list[list[FileRange]]:
    """The splits. Of many files, small ones that follow each other are one split of at most ``room`` bytes: it costs
    more to read a batch than its few rows."""
    if len(plan.files) <= _MANY_FILES:
        return plan.splits
    groups: list[list[FileRange]] = []
    left = 0
    for split in plan.splits:
        size = sum(plan.files[one.file].size for one in split)
        is_whole = all(one.start == 0 and one.stop >= plan.files[one.file].size for one in split)
        if is_whole and groups and size <= left:
            left -= size
            groups[-1] += split
        else:
            left = room - size if is_whole else 0
            groups.append(list(split))
    return groups


def plan_beginning(path: str, options: Options) -> Plan:
    """A plan of one file of which only the beginning was looked at, for looking at single rows."""
    return _draft([probe((path, options, False))], options)


# --- a plan of what was found -----------------------------------------------------------------------------------------

_FILLED: Final = {
    "record_id": ("record_id is the number of the row", "no such column; rows are numbered from 1 in capture order"),
    "status": ("status is N", "no such column; all rows are processed as new"),
}
_ASSUMED: Final = {
    "charset": "the files do not give it; assumed",
    "time_zone": "event_time has no zone; assumed for values without one",
    "schema": "tables without a schema in their name have none",
}


def _draft(probes: Sequence[Probe], options: Options) -> Plan:
    """A plan of files without their splits, tables and facts. Raises CaptureError for a file with rows whose columns
    are unknown."""
    plan = Plan([], charset=options.charset, zone=options.zone, schema=options.schema)
    for one in probes:
        if not one.labels and one.file.sample:
            reason = f"{one.assignment.evidence}; assign the columns with the option columns"
            raise CaptureError(reason, path=one.file.path)
        file = one.file.without_rows()
        size, problem = one.file.size, one.file.problem
        entry = LogFile(probe=file, labels=one.labels, null_text=one.null_text, size=size, problem=problem)
        plan.files.append(entry)
        if problem:
            code = Problem.MALFORMED if file.kind == "broken" else Problem.TRUNCATED
            plan.problems.append(problem_row(code, problem, file=entry.path))
        if entry.labels:
            plan.problems += [problem_row(code, sentence, file=entry.path) for code, sentence in missing(entry.absent)]
    plan.detected = _detected(probes, options)
    return plan


def _detected(probes: Sequence[Probe], options: Options) -> list[dict[str, Any]]:
    rows = detected_rows(_conclusions(probes, options))
    assumed = {"charset": options.charset, "time_zone": options.zone, "schema": options.schema}
    for setting, value in assumed.items():
        is_given = setting in options.given
        rows.append(detected_row(setting, value or "none", GIVEN if is_given else _ASSUMED[setting], is_given))
    return rows


def _conclusions(probes: Sequence[Probe], options: Options) -> Iterator[tuple[str, str, str, bool, str]]:
    """What was concluded of each file: setting, value, evidence, was it given?, file."""
    for one in probes:
        yield "columns", _shown(one), one.assignment.evidence, one.assignment.how == "option", one.file.path
    for name, filled in _FILLED.items():
        lacking = (one for one in probes if one.labels and name not in one.labels)
        yield from (("columns", *filled, False, one.file.path) for one in lacking)
    settings = [(*said, one.file.path) for one in probes for said in settings_of(one, options.given)]
    yield from sorted(settings, key=lambda said: _SETTINGS.index(said[0]))


_SETTINGS: Final = ("null_text", "delimiter", "header", "sheet", "sql_table", "backslash")


def _shown(one: Probe) -> str:
    """Which column is which, in the order of the source."""
    if not one.labels:
        return "none"
    back = {label: name for name, label in one.labels.items()}
    if one.assignment.how == "names" and all(name == label.casefold() for label, name in back.items()):
        return joined(list(back.values()))
    columns = [label for label in one.file.columns if label in back]
    return ", ".join(f"{back[label]}={label}" for label in columns or back)


# --- tables of rows ---------------------------------------------------------------------------------------------------


def make_row_plan(name: str, schema: pa.Schema, options: Options, run: RunRows) -> Plan:
    """The plan of a table of rows that is called ``name``. Raises CaptureError for one whose columns are unknown."""
    labels = unique_names([one.name for one in schema if one.name != ROW])
    file = FileProbe(name, ROWS, labels, len(labels))
    nothing = Assignment({}, "nothing", "", 0.0)
    found = assign(labels, True, (), options) if options.sorted_by is None else nothing
    if found.how == "nothing" and labels:
        samples = [pickle.loads(one) for one in run(partial(_sampled, path=name, names=labels))]
        found = assign(labels, True, [row for some in samples for row in some][:_SAMPLE], options)
    places = {one: labels[place] for one, place in found.places.items()}
    plan = _draft([Probe(file, found, places, options.null_text or "", GIVEN)], options)
    if not places:
        raise CaptureError(f"{found.evidence}; assign the columns with the option columns", path=name)
    (entry,), tables, highest, behind = plan.files, Tables(), 0, 0
    for one in map(pickle.loads, run(partial(_looked, entry=entry))):
        tables.add(one.tables)
        entry.rows = (entry.rows or 0) + one.rows
        behind = max(behind, one.order.behind, highest - one.order.lowest if one.order.lowest else 0)
        highest = max(highest, one.order.highest)
    plan.versions = tables.entries(options.schema)
    plan.facts = {"records": entry.rows or 0, "behind": behind}
    return plan


def _sampled(batches: Iterator[pa.RecordBatch], path: str, names: tuple[str, ...]) -> bytes:
    found: list[tuple[str | None, ...]] = []
    for part in parts_of_rows(path, (batch.slice(0, _SAMPLE) for batch in batches), names):
        texts = text_rows(part, names)
        if texts is not None:
            found += zip(*(column.to_pylist() for column in texts.columns), strict=True)
        if len(found) >= _SAMPLE:
            break
    return pickle.dumps(found)


def _looked(batches: Iterator[pa.RecordBatch], entry: LogFile) -> bytes:
    found = LogScan(0, 0)
    for part in parts_of_rows(entry.path, batches, entry.probe.columns):
        found.take(log_part(entry, part, 0, only=SCANNED))
    return pickle.dumps(found)
