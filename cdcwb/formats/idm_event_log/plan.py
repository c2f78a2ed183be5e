"""The plan of an event log: the order of its record ids, the splits that follow from it, and the tables that its rows
name. What the first pass keeps grows with the number of files and tables, never with the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from hashlib import blake2b
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.changes import WHOLE
from cdcwb.formats.columns import TableColumn
from cdcwb.formats.containers.rows import CSV, FILE_END, SQL, RowSegments, TableName
from cdcwb.formats.dissector import EVERYTHING
from cdcwb.formats.idm_event_log.changes import NEAR, OBJECT
from cdcwb.formats.idm_event_log.decode import numbers_of, parse_column
from cdcwb.formats.idm_event_log.events import PER_FIELD, log_of, one_of, split_name
from cdcwb.formats.idm_event_log.layout import EVENT_TYPES
from cdcwb.formats.table_rows import Plan, TableFile, Version, batch_of, parts_of_range
from cdcwb.formats.table_splits import FileRange, RowScan, Split

SCANNED: Final = frozenset({"record_id", "event_type", "column_name", *OBJECT})
"""The columns that the first pass looks at."""

_OPERATIONS: Final = {number: str(EVENT_TYPES[number].operation) for number in PER_FIELD}


# --- the order of record ids ------------------------------------------------------------------------------------------

_MOST_SEGMENTS: Final = 8  # of a range
_CANDIDATES: Final = 16  # rows of a part at which a segment may begin


class LogSegment(NamedTuple):
    """Consecutive rows of a range from ``offset`` on, which ``records`` rows of it precede: their lowest and highest
    record_id, and the statement of these two rows (0: it belongs to no other)."""

    offset: int
    records: int
    lowest: int
    first: int
    highest: int
    last: int

    def joined(self, after: LogSegment) -> LogSegment:
        """The same with the rows that follow."""
        low, high = min(self, after, key=lambda one: one.lowest), max(self, after, key=lambda one: one.highest)
        return self._replace(lowest=low.lowest, first=low.first, highest=high.highest, last=high.last)


def _statement(log: pa.RecordBatch, row: Any) -> int:
    """A number that rows of one statement share in all processes; 0: a row that belongs to no other
    (:func:`cdcwb.formats.idm_event_log.changes.keys_of_rows`)."""
    number = numbers_of(log.column("event_type").slice(int(row), 1))[0].as_py()
    column, *values = (log.column(name)[int(row)].as_py() for name in ("column_name", *OBJECT))
    if number not in _OPERATIONS or not column or None in values[:2]:
        return 0
    return int.from_bytes(blake2b(repr([_OPERATIONS[number], *values]).encode(), digest_size=7).digest()) or 1


def _are_apart(one: LogSegment, after: LogSegment) -> bool:
    """Whether the record_ids of some rows follow those of others, and another statement begins there."""
    return one.highest < after.lowest and (one.last != after.first or not one.last)


def _cut(parts: Sequence[Split], segments: Sequence[Sequence[LogSegment]], size: int) -> list[list[Split]]:
    """The splits of parts of files. All record_ids of a split are higher than those before it, and its lowest begins a
    statement. Parts are cut at their begin if they can be, otherwise after ``size`` bytes: what is cut elsewhere is
    decoded again when files are appended."""
    every = [one for some in segments for one in some]
    following = [*accumulate(reversed(every), lambda after, one: one.joined(after))][::-1]
    before: LogSegment | None = None
    splits: list[list[Split]] = []
    number = held = 0  # of the segment; bytes of the last split
    for part, some in zip(parts, segments, strict=True):
        start, records = part.start, 0
        for segment in some:
            is_begin = segment.offset == part.start
            is_long = is_begin or held + segment.offset - start >= size
            if before is not None and is_long and _are_apart(before, following[number]):
                if segment.offset > start:
                    splits[-1].append(replace(part, start=start, stop=segment.offset, before=part.before + records))
                splits.append([])
                start, records, held = segment.offset, segment.records, 0
            before = segment if before is None else before.joined(segment)
            number += 1
        splits = splits or [[]]
        splits[-1].append(replace(part, start=start, before=part.before + records))
        held += part.stop - start
    return splits


# --- tables -----------------------------------------------------------------------------------------------------------

_KEYS: Final = 20  # first keys of a table that give the names of its key columns
_MOST_TABLES: Final = 10_000
_MOST_COLUMNS: Final = 10_000

_Names = dict[str, dict[str, None]]


@dataclass(slots=True)
class LoggedTables:
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

    def add(self, other: LoggedTables) -> None:
        """Adds what later rows name."""
        for table, names in other.columns.items():
            _entry(self.columns, table).update(names)
        for table, keys in other.keys.items():
            if table in self.keys or len(self.keys) < _MOST_TABLES:
                self.keys[table] = [*self.keys.get(table, ()), *keys][:_KEYS]

    def versions(self, default: str | None) -> list[Version]:
        """The tables, with the columns of their keys first; those that are named without a schema are in
        ``default``."""
        found: dict[TableName, tuple[dict[str, str], dict[str, None]]] = {}
        for written in dict.fromkeys([*self.columns, *self.keys]):
            schema, table = split_name(written, default)
            if table is not None:
                keys, columns = found.setdefault(TableName(schema, table), ({}, {}))
                for name in (name for key in self.keys.get(written, ()) for name in key):
                    keys.setdefault(name.casefold(), name)
                columns.update(self.columns.get(written, {}))
        return [_version(name, list(keys.values()), columns) for name, (keys, columns) in found.items()]


def _version(table: TableName, keys: list[str], others: Iterable[str]) -> Version:
    """The only version of a table: the columns of its keys, and the others in the order in which they are named."""
    names = list(dict.fromkeys([*keys, *others]))
    places = {name: place for place, name in enumerate(keys, 1)}
    columns = [TableColumn(at, name, key_position=places.get(name)) for at, name in enumerate(names, 1)]
    return Version(f"{table.label}@1", *table, columns, "inferred", types=dict.fromkeys(names))


def _entry(tables: _Names, name: str) -> dict[str, None]:
    if name not in tables and len(tables) >= _MOST_TABLES:
        return {}
    return tables.setdefault(name, {})


# --- the pass ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class LogScan(RowScan):
    """What a range has, and what its rows show: its segments, by how much a record_id is at most lower than one before
    it (0: they never fall), and its tables."""

    segments: list[LogSegment] = field(default_factory=list)
    behind: int = 0
    tables: LoggedTables = field(default_factory=LoggedTables)

    @property
    def highest(self) -> int:
        """The highest record_id; 0 without any."""
        return max((one.highest for one in self.segments), default=0)

    @property
    def lowest(self) -> int:
        """The lowest record_id; 0 without any."""
        return min((one.lowest for one in self.segments), default=0)

    def take_part(self, entry: TableFile, part: RowSegments) -> None:
        """Adds the rows of a part, which follow those before."""
        logs = [log_of(batch_of(entry, part, index, rows, EVERYTHING), SCANNED) for index, rows in part.rows]
        if not logs:
            return
        index, log = np.concatenate([index for index, _ in part.rows]), logs[0]
        if len(logs) > 1:
            order = np.argsort(index)
            index, log = index[order], pa.Table.from_batches(logs).combine_chunks().to_batches()[0].take(order)
        self.tables.take(log)
        ids = pc.fill_null(numbers_of(log.column("record_id")), 0).to_numpy()
        rows = np.flatnonzero(ids > 0)
        if not len(rows):
            return
        ids, numbers = ids[rows], part.numbers()[index[rows]]
        top = np.maximum.accumulate(np.append(self.highest, ids))[:-1]
        self.behind = max(self.behind, int((top - ids).max()))
        low = np.minimum.accumulate(ids[::-1])[::-1]
        places = [0]
        if len(self.segments) < _MOST_SEGMENTS:
            between = 1 + np.flatnonzero((ids[:-1] == top[1:]) & (low[1:] == ids[1:]) & (ids[:-1] < ids[1:]))
            pairs = ((at, *(_statement(log, rows[one]) for one in (at - 1, at))) for at in between[:_CANDIDATES])
            places += [int(at) for at, last, first in pairs if last != first or not last][:1]
        for at, end in pairwise([*places, len(rows)]):
            lowest, highest = at + int(np.argmin(ids[at:end])), at + int(np.argmax(ids[at:end]))
            segment = LogSegment(
                int(part.offset[index[rows[at]]]),
                int(numbers[at]) - 1,
                *(int(ids[lowest]), _statement(log, rows[lowest])),
                *(int(ids[highest]), _statement(log, rows[highest])),
            )
            if len(self.segments) < _MOST_SEGMENTS:
                self.segments.append(segment)
            else:
                self.segments[-1] = self.segments[-1].joined(segment)


_MANY_FILES: Final = 64
_TOGETHER: Final = 1 << 20  # bytes of small files that are one split
_ROWS: Final = 8192  # that are decoded together


def _grouped(plan: Plan, splits: list[list[Split]]) -> list[list[Split]]:
    """The splits. Of many files, small ones that follow each other are one split: it costs more to read a batch than
    its few rows."""
    room = min(_TOGETHER, plan.options.split_size)
    groups: list[list[Split]] = []
    left = 0
    for split in splits:
        size = sum(plan.files[one.file].size for one in split)
        is_whole = all(one.start == 0 and one.stop >= plan.files[one.file].size for one in split)
        if is_whole and size <= left and len(plan.files) > _MANY_FILES:
            left -= size
            groups[-1] += split
        else:
            left = room - size if is_whole else 0
            groups.append(list(split))
    return groups


def parts_together(plan: Plan, split: Sequence[Split]) -> Iterator[tuple[int, RowSegments]]:
    """The parts of a split with the index of their file; those of small files with the same columns as one."""
    waiting: list[tuple[str, int, RowSegments]] = []
    alike: Any = None
    rows = 0
    for one in split:
        entry = plan.files[one.file]
        for part in parts_of_range(plan, one):
            same = entry.labels, entry.null_text, part.unit
            if waiting and (same != alike or rows + len(part.offset) > _ROWS or entry.null_text):
                yield waiting[0][1], _as_one(waiting)
                waiting, rows = [], 0
            waiting.append((entry.path, one.file, part))
            alike, rows = same, rows + len(part.offset)
    if waiting:
        yield waiting[0][1], _as_one(waiting)


def _as_one(parts: Sequence[tuple[str, int, RowSegments]]) -> RowSegments:
    return parts[0][2] if len(parts) == 1 else RowSegments.joined(parts)


def split_log(plan: Plan, ranges: Sequence[FileRange], scans: Sequence[Any]) -> None:
    """Adds the splits, tables and facts of a log. A split is consecutive ranges of records. If record ids fall far in
    capture order, splits are cut anywhere (a small log is one split, which is put in order in memory)."""
    options: Any = plan.options
    tables, parts, segments = LoggedTables(), list[Split](), list[list[LogSegment]]()
    before = highest = behind = 0
    for one, found in zip(ranges, scans, strict=True):
        entry: Any = plan.files[one.index]
        shift, first = (before, before) if entry.is_numbered else (0, 0)
        some = [each._replace(lowest=each.lowest + shift, highest=each.highest + shift) for each in found.segments]
        behind = max(behind, found.behind, highest - found.lowest - shift if some else 0)
        highest = max(highest, found.highest + shift if some else 0)
        start = found.begin if one.file.kind in (CSV, SQL) and one.start > 0 else one.start
        if start < one.stop and (one.stop < FILE_END or entry.size or entry.probe.compression):
            can_cut = one.file.kind == CSV or one.file.settings.get("kind") == "lines"
            if some:
                some[0] = some[0]._replace(offset=start, records=0)
            if len(some) > 1 and (not can_cut or one.file.compression is not None):
                some = [reduce(LogSegment.joined, some)]
            parts.append(Split(one.index, start, one.stop, None, WHOLE, first))
            segments.append(some)
        before += found.rows
        tables.add(found.tables)
    plan.facts |= {"records": before, "behind": behind}
    plan.versions = tables.versions(options.schema)
    if behind <= NEAR:
        plan.splits = _grouped(plan, _cut(parts, segments, options.split_size))
    else:
        plan.splits = [parts] if plan.facts["bytes"] <= options.split_size else [[one] for one in parts]
