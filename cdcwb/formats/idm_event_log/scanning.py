"""The first pass over one stretch of a file: its records, the tables they tell of, and whether they are in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdcwb.formats.files import open_source
from cdcwb.formats.idm_event_log.plan import SQL, FileEntry
from cdcwb.formats.idm_event_log.reading import LogPart, log_part, sql_segments
from cdcwb.formats.idm_event_log.rules import PER_FIELD, numbers_of, one_of
from cdcwb.formats.idm_event_log.sql_outline import find_begin
from cdcwb.formats.idm_event_log.table_key import TableKeyError, parse
from cdcwb.formats.tabular import Stretch, StretchReader
from cdcwb.model import Kind

__all__ = ["SCANNED", "Scan", "ScanTask", "Seen", "scan"]

Ints = npt.NDArray[np.int64]

SCANNED: Final = frozenset({"record_id", "event_type", "table_name", "table_key", "column_name"})
"""The columns that the first pass looks at."""

_KEYS: Final = 20  # keys of a table that are parsed in a stretch, for the names of its key columns
_MOST_TABLES: Final = 10_000
_MOST_COLUMNS: Final = 10_000


@dataclass(frozen=True, slots=True)
class ScanTask:
    """A stretch of a file."""

    stretch: Stretch
    entry: FileEntry


@dataclass(slots=True)
class Seen:
    """What rows say. ``columns`` and ``keys``: table as written -> names in the order in which they were met.
    ``lowest`` and ``highest``: of the usable record_ids (0: none); ``behind``: by how much one is at most lower than
    one before it (0: they never fall)."""

    columns: dict[str, dict[str, None]] = field(default_factory=dict)
    keys: dict[str, dict[str, None]] = field(default_factory=dict)
    parsed: dict[str, int] = field(default_factory=dict)
    lowest: int = 0
    highest: int = 0
    behind: int = 0

    def take(self, log: pa.RecordBatch) -> None:
        """More rows, which stand behind those before."""
        if not log.num_rows:
            return
        self._order(log.column("record_id"))
        tables = log.column("table_name").dictionary_encode()
        self._columns(log, tables)
        self._keys(log, tables)

    def __add__(self, other: Seen) -> Seen:
        """What both say; the other's rows stand behind."""
        known = [one.lowest for one in (self, other) if one.lowest]
        made = Seen(lowest=min(known, default=0), highest=max(self.highest, other.highest))
        made.behind = max(self.behind, other.behind, self.highest - other.lowest if other.lowest else 0)
        for side in ("columns", "keys"):
            for one in (self, other):
                for table, names in getattr(one, side).items():
                    _table(getattr(made, side), table).update(names)
        return made

    def _order(self, texts: pa.StringArray) -> None:
        numbers = pc.drop_null(numbers_of(texts)).to_numpy(zero_copy_only=False)
        if not len(numbers):
            return
        highest = np.maximum.accumulate(np.append(self.highest, numbers))
        self.behind = max(self.behind, int((highest[1:] - numbers).max()))
        self.lowest = min(self.lowest or int(numbers[0]), int(numbers.min()))
        self.highest = int(highest[-1])

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
        keys = log.column("table_key")
        for code, table in enumerate(tables.dictionary.to_pylist()):
            left = _KEYS - self.parsed.get(table, 0)
            if not table or left <= 0:
                continue
            rows = order[begins[code] : begins[code] + left]
            for text in keys.take(pa.array(rows[codes[rows] == code])).to_pylist():
                self._key(table, text or "")

    def _key(self, table: str, text: str) -> None:
        try:
            pairs = parse(text)
        except TableKeyError:
            return
        self.parsed[table] = self.parsed.get(table, 0) + 1
        known = _table(self.keys, table)
        folded = {name.casefold() for name in known}
        known.update({name: None for name, _ in pairs if name.casefold() not in folded})


def _table(tables: dict[str, dict[str, None]], name: str) -> dict[str, None]:
    if name not in tables and len(tables) >= _MOST_TABLES:
        return {}
    return tables.setdefault(name, {})


@dataclass(slots=True)
class Scan:
    """What a stretch holds: the records that begin in it are ``[begin, end)``, ``rows`` of them (damaged ones too).
    ``malformed``: the first segment that is no record, its place and why. ``size`` and ``problem`` are those of the
    file."""

    begin: int
    end: int
    rows: int = 0
    size: int = 0
    problem: str | None = None
    malformed: tuple[int, str] | None = None
    seen: Seen = field(default_factory=Seen)

    def nothing(self, begin: int) -> Self:
        """The same for a stretch in which no record begins."""
        return type(self)(begin, begin, size=self.size, problem=self.problem)

    def take(self, part: LogPart) -> None:
        """One more part."""
        self.rows += part.records
        self.seen.take(part.log)
        for gap in part.gaps:
            if gap.kind is Kind.MALFORMED and self.malformed is None:
                self.malformed = int(part.places[gap.index]), gap.reason


def scan(task: ScanTask) -> Scan:
    """The first pass over a stretch."""
    if task.entry.probe.kind == SQL:
        return _scan_dump(task)
    reader = StretchReader(task.stretch)
    found = Scan(0, 0)
    for part in reader.parts():
        found.take(log_part(task.entry, part, found.rows, only=SCANNED))
    found.begin, found.end, found.problem, found.size = reader.begin, reader.end, reader.problem, reader.size
    return found


def _scan_dump(task: ScanTask) -> Scan:
    source = open_source(task.entry.probe.path, "binary")
    try:
        stretch = task.stretch
        begin = stretch.begin
        if begin is None:
            begin = find_begin(source.read(0, source.length), stretch.start)
        found = Scan(begin, begin, size=source.length, problem=source.problem)
        for part, _ in sql_segments(source, task.entry, begin, stretch.stop, SCANNED):
            made = log_part(task.entry, part, found.rows, only=SCANNED)
            found.take(made)
            found.end = made.end
        return found
    finally:
        source.close()
