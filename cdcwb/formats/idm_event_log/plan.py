"""The plan of an event log: the order of its record ids, the splits that follow from it, and the tables that its rows
name. What the first pass keeps grows with the number of files and tables, never with the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.containers.rows import CSV, FILE_END, SQL, RowSegments
from cdcwb.formats.dissector import EVERYTHING
from cdcwb.formats.halves import WHOLE
from cdcwb.formats.idm_event_log.changes import NEAR, OBJECT
from cdcwb.formats.idm_event_log.decode import Ints, numbers_of, parse_column
from cdcwb.formats.idm_event_log.events import PER_FIELD, log_of, one_of, split_name
from cdcwb.formats.idm_event_log.layout import EVENT_TYPES
from cdcwb.formats.table_rows import Plan, TableFile, batch_of, parts_of_range
from cdcwb.formats.table_splits import FileRange, RowScan, Split

__all__ = ["LogScan", "LoggedTable", "LoggedTables", "parts_together", "split_log"]

SCANNED: Final = frozenset({"record_id", "event_type", "column_name", *OBJECT})
"""The columns that the first pass looks at."""

_OPERATIONS: Final = {str(number): str(EVENT_TYPES[number].operation) for number in PER_FIELD}


# --- the order of record ids ------------------------------------------------------------------------------------------


class LogCut(NamedTuple):
    """A row before which a one can be cut: all record ids from there on are higher than those before, and a
    statement begins. ``records``: so many precede it in the one. ``highest`` and ``last``: the highest record_id
    before it, and the number of that row's statement (0: alone); ``lowest`` and ``first``: the lowest one from there
    on, and likewise."""

    offset: int
    records: int
    highest: int
    last: int
    lowest: int
    first: int


@dataclass(slots=True)
class RecordOrder:
    """The usable record_ids of the rows of a one. ``behind``: by how much one is at most lower than one before it
    (0: they never fall); the other fields, and ``cuts``, are as in :class:`LogCut`; 0 without any."""

    highest: int = 0
    last: int = 0
    lowest: int = 0
    first: int = 0
    behind: int = 0
    cuts: list[LogCut] = field(default_factory=list)

    def take(self, log: pa.RecordBatch, offset: Ints, number: Ints) -> None:
        """Adds rows, which follow those before: their offsets, and numbers from 1."""
        numbers = pc.fill_null(numbers_of(log.column("record_id")), 0).to_numpy()
        rows = np.flatnonzero(numbers > 0)
        if not len(rows):
            return
        ids = numbers[rows]
        top = np.maximum.accumulate(np.append(self.highest, ids))
        low = np.minimum.accumulate(ids[::-1])[::-1]
        lowest, first = int(low[0]), _statement(log, rows[np.argmin(ids)])
        cuts = [one if one.lowest < lowest else one._replace(lowest=lowest, first=first) for one in self.cuts]
        for at in _some(np.flatnonzero((low > top[:-1]) & (top[:-1] > 0))):
            highest, row = int(top[at]), rows[at + int(np.argmin(ids[at:]))]
            last = self.last if highest == self.highest else _statement(log, rows[int(np.argmax(ids[:at] == highest))])
            cuts.append(
                LogCut(
                    int(offset[rows[at]]), int(number[rows[at]]) - 1, highest, last, int(low[at]), _statement(log, row)
                )
            )
        self.cuts = [one for one in cuts if one.lowest > one.highest and _differ(one.last, one.first)]
        self.behind = max(self.behind, int((top[:-1] - ids).max()))
        if not self.lowest or lowest < self.lowest:
            self.lowest, self.first = lowest, first
        if top[-1] > self.highest:
            self.highest = int(top[-1])
            self.last = _statement(log, rows[np.argmax(ids)])

    def shifted(self, count: int) -> RecordOrder:
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


def _splits_of(ranges: Sequence[Split], orders: Sequence[RecordOrder], size: int) -> list[list[Split]]:
    """The splits of ranges of records with these record_ids. Where a range cannot be cut, it is read with those before
    it. It is cut at its begin if it can be, otherwise after ``size`` bytes: what is cut elsewhere is decoded again when
    files are appended."""
    following = [*accumulate((one.lowest or FILE_END for one in reversed(orders)), min)][::-1]
    splits: list[list[Split]] = []
    highest = last = holder = 0  # the highest record_id, its statement, and its split
    for one, order, after in zip(ranges, orders, [*following[1:], FILE_END], strict=False):
        cuts = [LogCut(one.start, 0, 0, 0, order.lowest or FILE_END, order.first), *order.cuts]
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


def _can_cut(cut: LogCut, highest: int, last: int, after: int) -> bool:
    """Whether the capture can be cut at a row. ``highest``: the highest record_id before its one, ``last``: the
    statement of that row; ``after``: the lowest record_id after its one."""
    if cut.highest < highest:
        cut = cut._replace(highest=highest, last=last)
    lowest = min(cut.lowest, after)
    return lowest > cut.highest and (lowest == FILE_END or lowest < after) and _differ(cut.last, cut.first)


# --- tables -----------------------------------------------------------------------------------------------------------

_KEYS: Final = 20  # first keys of a table that give the names of its key columns
_MOST_TABLES: Final = 10_000
_MOST_COLUMNS: Final = 10_000

_Names = dict[str, dict[str, None]]


@dataclass(slots=True)
class LoggedTable:
    """A table that the log names: the columns of its keys, and the others in the order in which they are named."""

    schema: str | None
    table: str
    keys: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)

    @property
    def label(self) -> str:
        """``schema.table``, or ``table`` where there is no schema."""
        return self.table if self.schema is None else f"{self.schema}.{self.table}"

    @property
    def names(self) -> list[str]:
        """All columns, those of the key first."""
        return list(dict.fromkeys([*self.keys, *self.columns]))

    def to_row(self) -> dict[str, Any]:
        """Its only version as a row of :data:`cdcwb.model.TABLE_VERSIONS`, without ``first_position``."""
        places = {name: place for place, name in enumerate(self.keys, 1)}
        columns = [{"ordinal": n, "name": one, "key_position": places.get(one)} for n, one in enumerate(self.names, 1)]
        names = {"table_version": f"{self.label}@1", "schema_name": self.schema, "table_name": self.table}
        return {**names, "columns": columns, "origin": "inferred"}


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

    def entries(self, default: str | None) -> list[LoggedTable]:
        """The tables; those that are named without a schema are in ``default``."""
        found: dict[tuple[str | None, str], LoggedTable] = {}
        for written in dict.fromkeys([*self.columns, *self.keys]):
            schema, table = split_name(written, default)
            if table is not None:
                entry = found.setdefault((schema, table), LoggedTable(schema, table))
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
class LogScan(RowScan):
    """What a one has, and what its rows show."""

    order: RecordOrder = field(default_factory=RecordOrder)
    tables: LoggedTables = field(default_factory=LoggedTables)

    def take_part(self, entry: TableFile, part: RowSegments) -> None:
        """Adds the rows of a part, which follow those before."""
        logs = [log_of(batch_of(entry, part, index, rows, EVERYTHING), SCANNED) for index, rows in part.rows]
        if not logs:
            return
        index, log = np.concatenate([index for index, _ in part.rows]), logs[0]
        if len(logs) > 1:
            order = np.argsort(index)
            index, log = (
                index[order],
                pa.Table.from_batches(logs).combine_chunks().to_batches()[0].take(pa.array(order)),
            )
        self.order.take(log, part.offset[index], part.numbers()[index])
        self.tables.take(log)


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
    """Adds the splits, tables and facts of a log. A split is consecutive ranges of records. Its record ids are higher
    than those of all splits before it, and its lowest begins a statement; if record ids fall far in capture order,
    splits are cut anywhere (a small log is one split, which is put in order in memory)."""
    options: Any = plan.options
    tables, orders, parts = LoggedTables(), list[RecordOrder](), list[Split]()
    before = highest = behind = 0
    for one, found in zip(ranges, scans, strict=True):
        entry: Any = plan.files[one.index]
        order: RecordOrder = found.order.shifted(before) if entry.is_numbered else found.order
        can_cut = one.file.kind == CSV or one.file.settings.get("kind") == "lines"
        if not can_cut or one.file.compression is not None:
            order = replace(order, cuts=[])
        behind = max(behind, order.behind, highest - order.lowest if order.lowest else 0)
        highest = max(highest, order.highest)
        start = found.begin if one.file.kind in (CSV, SQL) and one.start > 0 else one.start
        if start < one.stop and (one.stop < FILE_END or entry.size or entry.probe.compression):
            first = before if entry.is_numbered else 0
            parts.append(Split(one.index, start, one.stop, None, WHOLE, first))
            orders.append(order)
        before += found.rows
        tables.add(found.tables)
    plan.facts |= {"records": before, "behind": behind}
    plan.versions = tables.entries(options.schema)
    if behind <= NEAR:
        plan.splits = _grouped(plan, _splits_of(parts, orders, options.split_size))
    else:
        plan.splits = [parts] if plan.facts["bytes"] <= options.split_size else [[one] for one in parts]
